"""Layouts and batch sizes found by calls that are made anyway; mixed precision and compilation where asked for."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from holdfast import Evaluator, certify, models
from holdfast.calls import steady_batch_size
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import evaluating
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.speed import Acceleration, BatchProbe, layout_probe
from holdfast.masking.text.mask_text import mask_text
from holdfast.masking.torch import on_rows, to_device
from tests.edge.test_mask_image import _onnx_file
from tests.helpers.contracts import check_masked_model
from tests.helpers.fakes import all_masks
from tests.helpers.tiny_models import save_resnet, save_roberta, save_vit
from tests.helpers.tiny_texts import TEXT, bert, bert_tokenizer

torch.set_num_threads(1)

SIZE = 16
CLOSE = 2e-6


def picture(seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((3, SIZE, SIZE), dtype=np.float32))


def some_masks(n: int, n_features: int = 16, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((n, n_features)) < 0.5


def work_for(seconds: float) -> None:
    """Keep this thread busy; sleep would not count as its work."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


# -- copies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [np.arange(6).reshape(2, 3).T, np.array([True, False]), np.zeros((0, 4), dtype=bool)]
)
def test_arrays_arrive_as_they_are(values: Any) -> None:
    arrived = to_device(values, torch.device("cpu"))
    assert arrived.is_contiguous()
    np.testing.assert_array_equal(arrived.numpy(), values)
    assert to_device(values, torch.device("meta")).shape == values.shape


def test_rows_are_cast_before_they_travel() -> None:
    """Some devices have no float64."""
    module = nn.Linear(3, 2)
    score = on_rows(module, None, None)
    rows = np.random.default_rng(0).random((4, 3))
    with torch.no_grad():
        np.testing.assert_allclose(score(rows), module(torch.from_numpy(rows).float()).numpy())


# -- layouts -----------------------------------------------------------------------------------------------


class Network(nn.Module):
    """Two convolutions; waits at batches of the layout that it is slow on, and keeps count."""

    def __init__(self, slow_on_channels_last: bool | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
            self.last = nn.Linear(8, 4)
        self.slow = slow_on_channels_last
        self.seen: list[tuple[int, bool]] = []

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        channels_last = not batch.is_contiguous()
        self.seen.append((len(batch), channels_last))
        if self.slow is channels_last:
            work_for(0.03)
        return self.last(self.second(self.first(batch).relu()).mean(dim=(2, 3)))


class Insisting(Network):
    """A network that only takes the usual layout."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return super().forward(batch) + batch.view(len(batch), -1)[:, :4]


def ask_often(model: Any, *, n_calls: int = 6, n_rows: int = 4) -> Any:
    """Scores of different masks, call by call."""
    return np.concatenate([model(some_masks(n_rows, model.n_features, seed)) for seed in range(n_calls)])


@pytest.mark.parametrize("slow_on_channels_last", [False, True])
def test_the_faster_layout_is_found_by_calls_that_are_made_anyway(slow_on_channels_last: bool) -> None:
    network = Network(slow_on_channels_last)
    model = mask_image(network, picture(), groups=(4, 4))
    scores = ask_often(model)
    # The other layout is taken for good only after one batch gave the same scores in both.
    compared = [] if slow_on_channels_last else [(4, False)]
    assert network.seen == [(4, False), (4, True)] * 3 + compared
    model(some_masks(5))
    mask_image(network, picture(1), groups=(2, 2))(some_masks(9, 4))
    assert network.seen[6 + len(compared) :] == [(5, not slow_on_channels_last), (9, not slow_on_channels_last)], (
        "known for good"
    )
    usual = ask_often(mask_image(Network(), picture(), groups=(4, 4)), n_rows=4)
    np.testing.assert_allclose(scores, usual, rtol=0, atol=CLOSE)
    assert np.ptp(usual, axis=0).max() > 1000 * CLOSE


def test_only_calls_of_one_length_are_compared_and_short_ones_say_nothing() -> None:
    network = Network()
    model = mask_image(network, picture(), groups=(4, 4))
    for n_rows in (3, 3, 3, 4, 5, 6, 4, 5, 6, 3):
        model(some_masks(n_rows))
    layouts = [layout for _, layout in network.seen]
    assert layouts == [False] * 3 + [False] * 3 + [True] * 3 + [False]
    assert layout_probe(network, model.batches.image).channels_last is None  # type: ignore[attr-defined]


def test_a_module_that_insists_on_the_usual_layout_gets_it() -> None:
    network = Insisting()
    model = mask_image(network, picture(), groups=(4, 4))
    scores = ask_often(model)
    assert layout_probe(network, model.batches.image).channels_last is False  # type: ignore[attr-defined]
    assert [layout for _, layout in network.seen] == [False, True] + [False] * 5
    np.testing.assert_allclose(scores, ask_often(model), rtol=0, atol=CLOSE)


def test_other_errors_of_a_module_come_through() -> None:
    class Broken(Network):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            if not batch.is_contiguous():
                raise RuntimeError("no luck")
            return super().forward(batch)

    model = mask_image(Broken(), picture(), groups=(4, 4))
    model(some_masks(4))
    with pytest.raises(RuntimeError, match="no luck"):
        model(some_masks(4))


def test_layouts_are_compared_only_where_they_matter() -> None:
    one = nn.Sequential(nn.Conv2d(3, 4, 4, stride=4), nn.Flatten())
    for module, image in ((one, picture()), (Network().double(), picture()), (nn.Flatten(), picture())):
        model: Any = mask_image(module, image)
        assert layout_probe(module, model.batches.image).channels_last is False
    assert layout_probe(network := Network(), picture()).channels_last is None
    assert layout_probe(network, picture().to("meta")).channels_last is False


def test_weights_keep_their_layout_and_gradients_theirs() -> None:
    network = Network(slow_on_channels_last=False)
    model: Any = mask_image(network, picture(), groups=(4, 4))
    ask_often(model)
    assert layout_probe(network, model.batches.image).channels_last
    assert network.first.weight.is_contiguous()
    assert not network.first.weight.is_contiguous(memory_format=torch.channels_last)
    scores, slope = model.gradient(model.elements[None], 1)
    np.testing.assert_allclose(scores, model(np.ones((1, 16), dtype=bool)), atol=CLOSE)
    assert slope.shape == (1, SIZE, SIZE, 3)
    check_masked_model(model, tolerance=CLOSE)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).elements, model.elements)


# -- batch sizes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e2, 1e-3, 1e-8])
@given(fixed=st.floats(0.0, 20.0), each=st.floats(0.1, 5.0), squared=st.floats(0.0, 1.0))
def test_the_probe_settles_where_doubling_no_longer_helps(
    unit: float, fixed: float, each: float, squared: float
) -> None:
    """A call of s rows takes a + b·s + c·s²: rows per second rise to one peak."""

    def seconds(size: int) -> float:
        return unit * (fixed + each * size + squared * size**2)

    probe, n_calls = BatchProbe(), 0
    while not probe.settled and probe.size < 2**20:
        probe.record(probe.size - 1, 1e-9)  # fewer rows than offered: says nothing
        probe.record(probe.size, seconds(probe.size))
        n_calls += 1
    if probe.settled:
        rate = {size: size / max(seconds(size), 1e-9) for size in (2**power for power in range(2, 25))}
        assert rate[probe.size] == max(rate[size] for size in rate if size <= probe.size)
        assert max(rate[probe.size * times] for times in (2, 4)) < 1.03 * rate[probe.size]
        assert n_calls <= 6 * (4 * probe.size).bit_length()  # some are timed again, and the best before them
        settled = probe.size
        probe.record(settled, 1e-9)
        assert probe.size == settled


class Recording:
    """A function of masks with a probe and a clock; a batch takes longer per row above 16 rows."""

    n_features = 10

    def __init__(self, *, capacity: int = 10**9) -> None:
        self.batch_probe = BatchProbe(clock=lambda: self.seconds)  # on which nothing else takes any time
        self.seconds = 0.0
        self.sizes: list[int] = []
        self.capacity = capacity

    def __call__(self, masks: Any, /) -> Any:
        self.sizes.append(len(masks))
        if len(masks) > self.capacity:
            raise MemoryError
        self.seconds += 0.02 + (0.01 * len(masks) if len(masks) > 16 else 0.0)
        return np.stack([masks[:, :5].sum(axis=1), np.full(len(masks), 2)], axis=1).astype(float)


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([4, 16, 64]))
def test_a_probe_that_has_settled_leaves_no_small_rest(n_rows: int, most: int, size: int) -> None:
    probe, sizes = BatchProbe(size), list[int]()
    assert probe.rows_of(n_rows) == min(n_rows, size)
    probe.settled = True
    while n_rows > sum(sizes):
        sizes.append(probe.rows_of(n_rows - sum(sizes)))
    assert sum(sizes) == n_rows
    assert max(sizes) <= size + min(size // 4, 16)
    assert min(sizes) > min(n_rows - 1, size // 4, 16)
    assert set(sizes[:-1]) <= {size}
    for limit in (most, 2 * most):  # what did not fit does not fit later
        probe.stop_at(limit)
        assert 1 <= probe.rows_of(n_rows) <= min(n_rows, most)


@given(st.integers(0, 11), st.integers(1, 6), st.floats(1.0, 4.0))
def test_a_slow_phase_of_the_machine_stops_no_probe(first: int, length: int, slowness: float) -> None:
    """A call of s rows takes 3 + s; some in a row take longer, as where others work beside."""
    probe, n_calls = BatchProbe(), 0
    while probe.size < 128 and not probe.settled:
        probe.record(probe.size, (3 + probe.size) * (slowness if first <= n_calls < first + length else 1.0))
        n_calls += 1
    assert probe.size == 128


def test_the_probe_settles_where_no_call_may_be_larger() -> None:
    """Each doubling helps up to 16 rows, which is most of what the model takes at a time."""
    model = Recording()
    model.batch_size = 16  # type: ignore[attr-defined]
    Evaluator(model)(all_masks(10)[:100])
    assert (model.batch_probe.size, model.batch_probe.settled) == (16, True)


@pytest.mark.parametrize(("best", "waiting"), [(32, 100), (64, 200), (128, 256), (128, 1000)])
def test_a_probe_does_not_wait_for_calls_that_never_come(best: int, waiting: int) -> None:
    """Of at most 256 rows, of which those above the best size take half as long again each."""
    probe = BatchProbe()
    for _ in range(200):
        left = waiting
        while left:
            n_rows = min(probe.rows_of(left), 256)
            probe.record(n_rows, 10 + n_rows * (1.0 if n_rows <= best else 1.5))
            left -= n_rows
    assert probe.settled
    assert best / 2 <= probe.rows_of(waiting) <= 1.5 * best


def test_batches_grow_while_that_is_faster_and_no_mask_is_computed_twice() -> None:
    model = Recording()
    evaluator = Evaluator(model)
    outputs = evaluator(all_masks(10)[:408])
    assert model.sizes == [4, 4, 8, 8, 16, 16, 32, 32, 16, 16, 32, 32, 64, 64, *[16] * 4]
    assert sum(model.sizes) == evaluator.n_calls == 408
    np.testing.assert_array_equal(outputs, Recording()(all_masks(10)[:408]))
    model.sizes.clear()
    Evaluator(model)(all_masks(10)[:40])
    assert model.sizes == [16, 16, 8], "the next question starts from what is known"


def test_a_batch_size_that_is_given_is_kept() -> None:
    model = Recording()
    Evaluator(model, batch_size=50)(all_masks(10)[:100])
    evaluator = Evaluator(model)
    with evaluating(evaluator, batch_size=30) as same:
        same(all_masks(10)[100:160])
    assert model.sizes == [50, 50, 30, 30]
    evaluator(all_masks(10)[200:208])
    assert model.sizes[4:] == [4, 4], "and only as long as it is asked for"


def test_where_a_batch_size_is_given_neither_sizes_nor_layouts_depend_on_the_clock() -> None:
    network = Network(slow_on_channels_last=False)
    model: Any = mask_image(network, picture(), groups=(4, 4))
    evaluator = Evaluator(model)
    for seed in range(7):
        Evaluator(model, batch_size=8)(some_masks(8, 16, seed))
        with evaluating(evaluator, batch_size=8) as same:
            same(some_masks(8, 16, 10 + seed))
        mask_image(network, picture(), groups=(4, 4), batch_size=8)(some_masks(8, 16, seed))
    assert set(network.seen) == {(8, False)}
    assert evaluator.model is model, "and only as long as it is asked for"
    for seed in (98, 99):
        evaluator(some_masks(8, 16, seed))
    assert network.seen[-2:] == [(8, False), (8, True)]


def test_where_a_batch_size_is_given_the_layout_depends_on_the_number_of_rows_alone() -> None:
    for slow in (True, False):
        network = Network(slow_on_channels_last=slow)
        model: Any = mask_image(network, picture(), groups=(4, 4), batch_size=64)
        alike = mask_image(network, picture(), groups=(4, 4))(some_masks(20, 16, 1))
        network.seen.clear()
        assert np.allclose(model(some_masks(20, 16, 1)), alike, atol=1e-5)
        model(some_masks(15, 16, 2))
        model(some_masks(40, 16, 3))
        # Both are compared once.
        assert network.seen == [(20, False), (20, True), (15, False), (40, True)]


@pytest.mark.parametrize("kind", ["Insisting", "ReadsMemory"])
def test_a_layout_that_a_module_cannot_take_is_not_taken_where_a_batch_size_is_given(kind: str) -> None:
    network = globals()[kind]()
    model: Any = mask_image(network, picture(), groups=(4, 4), batch_size=64)
    usual = [mask_image(network, picture(), groups=(4, 4), batch_size=8)(some_masks(8, 16, seed)) for seed in (1, 2)]
    rows = np.concatenate([some_masks(8, 16, seed) for seed in (1, 2)])
    for _ in range(2):
        assert np.allclose(model(rows), np.concatenate(usual), atol=1e-5)
    assert layout_probe(network, model.batches.image).allows_last is False
    assert network.seen[-1] == (16, False)


def test_the_steady_size_is_the_same_for_every_model_but_those_that_name_a_smaller_one() -> None:
    model = Recording()
    assert steady_batch_size(model) == 64
    assert steady_batch_size(model, 300) == 300
    model.batch_size = 6  # type: ignore[attr-defined]
    assert steady_batch_size(model) == 6
    assert steady_batch_size(model, 4) == 4


def test_a_models_own_batch_size_is_the_most_that_the_probe_offers() -> None:
    model = Recording()
    model.batch_size = 6  # type: ignore[attr-defined]
    Evaluator(model)(all_masks(10)[:40])
    assert max(model.sizes) == 6


def test_the_probe_goes_no_further_than_memory_allows() -> None:
    model = Recording(capacity=6)
    Evaluator(model)(all_masks(10)[:30])
    assert model.sizes == [4, 4, 8, 4, 4, 4, 4, 4, 2]
    assert model.batch_probe.size == 4


def test_certificates_do_not_depend_on_the_probe() -> None:
    selected = np.arange(10) < 3
    found = certify(Recording(), selected, radius=4, rng=0)
    assert found == certify(Recording(), selected, radius=4, batch_size=64, rng=0)


def test_torch_and_onnx_models_on_a_cpu_have_a_probe_unless_told_their_batch_size(tmp_path: Path) -> None:
    path = _onnx_file(tmp_path / "free.onnx", ["b", 3, SIZE, SIZE])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    fixed = _onnx_file(tmp_path / "fixed.onnx", [4, 3, SIZE, SIZE])
    network, text = Network(), bert()
    for classifier in (network, session):
        probe = mask_image(classifier, picture()).batch_probe
        assert isinstance(probe, BatchProbe)
        assert mask_image(classifier, picture(1)).batch_probe is probe
        assert mask_image(classifier, picture(), batch_size=8).batch_probe is None
    assert mask_image(fixed, picture()).batch_probe is None
    assert mask_image(lambda batch: batch.mean((2, 3)), picture()).batch_probe is None
    ours: Any = mask_text(text, TEXT, tokenizer=bert_tokenizer())
    assert isinstance(ours.batch_probe, BatchProbe)
    given: Any = mask_text(text, TEXT, tokenizer=bert_tokenizer(), batch_size=8)
    assert given.batch_probe is None
    for model in (mask_image(network, picture(), groups=(4, 4)), ours):
        masks = some_masks(60, model.n_features)
        np.testing.assert_allclose(Evaluator(model)(masks), Evaluator(model, batch_size=1)(masks), atol=CLOSE)


# -- mixed precision and compilation -----------------------------------------------------------------------


@pytest.mark.parametrize("autocast", ["bf16", "fp16"])
def test_mixed_precision_is_close_to_full_precision_and_on_record(autocast: str) -> None:
    plain = mask_image(Network(), picture(), groups=(4, 4))
    model: Any = mask_image(Network(), picture(), groups=(4, 4), autocast=autocast)
    gap = np.abs(model(some_masks(26)) - plain(some_masks(26))).max()
    assert 0 < gap < 0.02
    assert model(some_masks(3)).dtype == np.float32
    assert model.provenance.masking == f"grid 4×4, fill constant 0.0, autocast {autocast}"
    check_masked_model(model, tolerance=0.01)
    assert np.isfinite(model.gradient(model.elements[None], 0)[1]).all()
    assert not torch.is_autocast_enabled("cpu")


def test_mixed_precision_of_texts_is_on_record_and_removes_tokens() -> None:
    module = bert()
    plain: Any = mask_text(module, TEXT, tokenizer=bert_tokenizer())
    model: Any = mask_text(module, TEXT, tokenizer=bert_tokenizer(), autocast="bf16", softmax=True)
    assert model.provenance.masking == "tokens, fill attention drop, softmax, autocast bf16"
    assert model.removes_tokens
    raw = np.exp(plain(all_masks(8)))
    gap = np.abs(model(all_masks(8)) - raw / raw.sum(axis=1, keepdims=True)).max()
    assert 0 < gap < 0.1
    cert = certify(model, np.arange(8) < 3, radius=2, rng=0)
    assert "autocast bf16" in str(cert.provenance.masking)


def test_a_compiled_module_gives_the_same_scores_and_is_on_record() -> None:
    """The backend "eager" traces the module and runs it as it is: quick, and the same code path."""
    network, module = Network(), bert()
    image = mask_image(network, picture(), groups=(4, 4), compile="eager")
    text: Any = mask_text(module, TEXT, tokenizer=bert_tokenizer(), compile="eager")
    assert image.provenance.masking == "grid 4×4, fill constant 0.0, compiled by eager"
    assert text.provenance.masking == "tokens, fill attention drop, compiled by eager"
    plain = mask_image(Network(), picture(), groups=(4, 4))(some_masks(5))
    np.testing.assert_allclose(image(some_masks(5)), plain, atol=CLOSE)
    unhurried: Any = mask_text(module, TEXT, tokenizer=bert_tokenizer())
    np.testing.assert_allclose(text(all_masks(8)[::9]), unhurried(all_masks(8)[::9]), atol=CLOSE)
    np.testing.assert_allclose(text.gradient(text.elements[None], 0)[0], text(np.ones((1, 8), dtype=bool)), atol=1e-5)
    copied = pickle.loads(pickle.dumps(image))
    np.testing.assert_allclose(copied(some_masks(5)), plain, atol=CLOSE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's own
def test_the_default_compiler_gives_the_same_scores() -> None:
    image = mask_image(Network(), picture(), groups=(4, 4), compile=True)
    assert image.provenance.masking == "grid 4×4, fill constant 0.0, compiled by inductor"
    plain = mask_image(Network(), picture(), groups=(4, 4))
    for n in (5, 3, 9):
        np.testing.assert_allclose(image(some_masks(n)), plain(some_masks(n)), atol=1e-5)


@pytest.mark.parametrize("save", [save_vit, save_resnet, save_roberta])
def test_loaded_models_compute_as_asked_and_say_so(save: Any, tmp_path: Path) -> None:
    folder = save(tmp_path)
    plain, mixed = models.load(f"hf:{folder}"), models.load(f"hf:{folder}", autocast="bf16", compile="eager")
    question: Any = "what a good day" if plain.kind == "text" else np.uint8(255 * picture().permute(1, 2, 0).numpy())
    gap = np.abs(plain.predict([question]) - mixed.predict([question])).max()
    assert 0 < gap < 1
    model: Any = mixed.bind(question)
    assert str(model.provenance.masking).endswith(", autocast bf16, compiled by eager")
    assert mixed.fingerprint == plain.fingerprint == model.provenance.model
    full = model(np.ones((1, model.n_features), dtype=bool))
    np.testing.assert_allclose(full, mixed.predict([question]), atol=0.1)


def module_factory() -> Any:
    return Network()


def function_factory() -> Any:
    return lambda batch: batch.mean((2, 3))


def test_models_of_a_factory_compute_as_asked_or_refuse() -> None:
    place = f"python:{__name__}"
    loaded = models.load(f"{place}:module_factory", kind="image", autocast="bf16")
    assert "autocast bf16" in str(loaded.bind(picture()).provenance.masking)  # type: ignore[attr-defined]
    with pytest.raises(InvalidTypeError, match=r"^`autocast` works only with a torch module on images or texts"):
        models.load(f"{place}:function_factory", kind="image", autocast="bf16")
    with pytest.raises(InvalidTypeError, match=r"^`compile` works only with a torch module on images or texts"):
        models.load(f"{place}:module_factory", kind="table", compile=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"autocast": "bf32"}, InvalidValueError, r"`autocast` must be one of bf16, fp16, got 'bf32'\."),
        ({"autocast": True}, InvalidTypeError, r"`autocast` must be one of bf16, fp16, got True\."),
        ({"compile": 3}, InvalidTypeError, r"`compile` must be True, False or a backend of torch\.compile, got 3\."),
        ({"compile": "gcc"}, InvalidValueError, r"`compile` must be .*inductor.*, got 'gcc'\."),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        mask_image(Network(), picture(), **options)
    with pytest.raises(error, match=f"^{message}"):
        mask_text(bert(), TEXT, tokenizer=bert_tokenizer(), **options)


def test_callables_are_neither_cast_nor_compiled() -> None:
    for options in ({"autocast": "bf16"}, {"compile": True}):
        with pytest.raises(InvalidTypeError, match=r"^`(autocast|compile)` works only with a torch module, got"):
            mask_image(lambda batch: batch, picture(), **options)
        with pytest.raises(InvalidTypeError, match=r"^`(autocast|compile)` works only with a torch module, got"):
            mask_text(lambda texts: texts, "a b", **options)


def test_nothing_asked_is_nothing_recorded() -> None:
    assert Acceleration.check(None, False) == Acceleration()
    assert Acceleration().words == ()
    assert Acceleration().options == {}


class ReadsMemory(Network):
    """A network whose answer depends on how its input lies in memory."""

    def forward(self, pixels: Any) -> Any:
        scores = super().forward(pixels)
        return scores + 3 * float(pixels.is_contiguous(memory_format=torch.channels_last))


def test_a_layout_that_changes_the_scores_is_not_taken() -> None:
    network = ReadsMemory(slow_on_channels_last=False)
    model = mask_image(network, picture(), groups=(4, 4))
    ask_often(model)
    assert layout_probe(network, model.batches.image).channels_last is False  # type: ignore[attr-defined]


def test_threads_may_share_a_module() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 1))
    model = mask_image(network, torch.rand((3, 8, 8)), groups=(4, 4), batch_size=128)
    masks = np.random.default_rng(0).random((100, 16)) < 0.5
    with ThreadPoolExecutor(4) as pool:
        scores = list(pool.map(model, [masks] * 48))
    assert all(np.array_equal(own, scores[0]) for own in scores)


def test_a_part_that_is_replaced_after_the_first_call_is_evaluated_too() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2)).eval()
    model = mask_image(network, np.random.default_rng(0).random((8, 8, 3)).astype(np.float32), groups=(4, 4))
    model(some_masks(8, 16, 0))
    network[1] = torch.nn.Sequential(
        torch.nn.Dropout(0.5), torch.nn.Linear(192, 2)
    )  # in training mode, as new ones are
    scores = model(some_masks(8, 16, 1))
    assert network[1][0].training
    np.testing.assert_allclose(scores, model.without_probes()(some_masks(8, 16, 1)), rtol=0, atol=1e-5)
    network.eval()
    np.testing.assert_allclose(scores, model(some_masks(8, 16, 1)), rtol=0, atol=1e-5)

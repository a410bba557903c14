"""The device kept full: passes of a study and of curves against bare passes, and a device with a price per call.

Times are of the processor, in one thread, and figures are medians of ratios: each repetition of a study is followed by
bare passes through its module, in the layout in which those are fastest, and each curve by bare passes of its masks
through the bound model, in batches of the size that was found. Rows per call are counted, not timed.

The stand-in device computes nothing: a clock of its own adds 5 ms for each call and 0.05 ms for each row, as a GPU
would take, so that its figures are the same on every machine.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks.bench_speed import _minilm, resnet
from benchmarks.device_looks import looks_figures, overhead_figures
from benchmarks.figures import Figure
from benchmarks.zoo import find_zoo, load_labelled_images, load_resnet20, load_tweets
from holdfast.prices import CallPrice
from holdfast.study.local import InProcess
from holdfast.study.session import LiveObjects, run_study
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, ModelSpec, StudySpec
from holdfast.study.store import Store

N_IMAGES, REPEATS = 50, 3
STUDY_RADII = (1, 4, 16)
METHODS = (MethodSpec("random"), MethodSpec("occlusion"), MethodSpec("lime", n_samples=150))
BEST_SIZE = 64
"""The batch size of a study, and near the fastest for these models."""

CALL_SECONDS, ROW_SECONDS = 5e-3, 5e-5
N_INPUTS, N_COLUMNS, N_CURVES = 200, 64, 50


def run() -> Iterator[Figure]:
    yield from _stand_in()
    yield from _one_curve()
    yield from looks_figures()
    yield from overhead_figures()
    if importlib.util.find_spec("torch") is None:
        print("  LEFT OUT: passes against bare passes (torch missing)")
        return
    import torch

    torch.set_num_threads(1)
    zoo = find_zoo()
    if zoo is None:
        print("  LEFT OUT: a study of ResNet-20, curves of ResNet-20 and MiniLM (no zoo at HOLDFAST_ZOO)")
    else:
        yield from _study(zoo)
        images, _ = load_labelled_images(zoo, 8)
        bind = partial(hf.mask_image, load_resnet20(zoo), groups=(8, 8))
        pictures = [torch.from_numpy(image) for image in images]
        for n_radii, limit in ((1, 1.12), (16, 1.05), (48, 1.05)):
            yield from _curves("ResNet-20@32", [partial(bind, picture) for picture in pictures], n_radii, limit)
        yield from _texts(zoo)
    if importlib.util.find_spec("transformers") is not None:
        network = resnet("basic", [2, 2, 2, 2], [64, 128, 256, 512])
        picture = torch.rand((3, 224, 224), generator=torch.Generator().manual_seed(0))
        bind = partial(hf.mask_image, network, picture, groups=(8, 8))
        yield from _curves("ResNet-18@224", [bind], 4, 1.03, repeats=2)


# -- a device with a price per call -------------------------------------------------------------------


class StandIn:
    """A classifier of rows on a device of its own time: a fixed price per call, and a small one per row."""

    def __init__(self) -> None:
        self.seconds, self.sizes = 0.0, list[int]()
        self._weights = np.random.default_rng(0).normal(size=(N_COLUMNS, 3))

    def __call__(self, rows: Any) -> Any:
        self.seconds += CALL_SECONDS + ROW_SECONDS * len(rows)
        self.sizes.append(len(rows))
        return np.tanh(rows @ self._weights) + rows[:, :3]


def _stand_in() -> Iterator[Figure]:
    """Explanations share no batches, so that a study that computes them gains less than one of those that are there."""
    rows = np.random.default_rng(1).normal(size=(N_INPUTS, N_COLUMNS))
    scores = {f"given {number}": np.random.default_rng(number).random((N_INPUTS, N_COLUMNS)) for number in range(3)}
    known = tuple(MethodSpec(name, spec="live:scores") for name in scores)
    for what, methods, size, least in (
        ("known", known, 256, None),
        ("known", known, 512, 5),
        ("computed", METHODS, 512, None),
    ):
        seconds, digests, sizes = dict[int | None, float](), dict[int | None, Any](), list[int]()
        for n_open in (1, None):
            device = StandIn()
            live = LiveObjects(hf.bind(device, rows, kind="table", fill=0.0), scores if methods is known else {})
            digests[n_open] = _run(_spec(methods, N_INPUTS, batch_size=size), live, n_open)
            seconds[n_open], sizes = device.seconds, device.sizes
        assert digests[1] == digests[None], "items differ"
        name = f"stand-in device, {N_INPUTS} inputs, explanations {what}"
        yield Figure(
            f"{name}, batches of {size}: item by item over shared", seconds[1] / seconds[None], "×", at_least=least
        )
        yield Figure(f"{name}: mean rows per call of {size}", float(np.mean(sizes)), "rows")


def _one_curve() -> Iterator[Figure]:
    """Curves one by one, of the study's inputs and radii: look by look, and with later looks in the same call."""
    rows, price = np.random.default_rng(1).normal(size=(N_INPUTS, N_COLUMNS)), CallPrice(CALL_SECONDS, ROW_SECONDS)
    scores, seconds = np.random.default_rng(0).random((N_INPUTS, N_COLUMNS)), {False: 0.0, True: 0.0}
    for number in range(N_CURVES):
        curves = []
        for is_priced in seconds:
            device = StandIn()
            model = hf.bind(device, rows, kind="table", fill=0.0)[number]
            evaluator = hf.Evaluator(model, price=price if is_priced else None)
            selected = hf.top_fraction(scores[number], 0.25)
            curves.append(hf.certify_radii(evaluator, selected, radii=STUDY_RADII, rng=number).to_json())
            seconds[is_priced] += device.seconds
        assert curves[0] == curves[1], "a certificate differs"
    name = f"stand-in device, one curve of radii {', '.join(map(str, STUDY_RADII))}, {N_CURVES} inputs"
    yield Figure(f"{name}: look by look over ahead", seconds[False] / seconds[True], "×", at_least=2)


def _spec(methods: tuple[MethodSpec, ...], n: int, *, batch_size: int = BEST_SIZE) -> StudySpec:
    return StudySpec(
        ModelSpec("live:model"),
        DataSpec("live:data", n=n, order="first"),
        methods,
        certify=CertifySpec(radii=STUDY_RADII),
        batch_size=batch_size,
    )


def _run(spec: StudySpec, live: LiveObjects, n_open: int | None) -> dict[str, str]:
    """The digests of all items of a study."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        assert run_study(spec, path, engine=InProcess(n_open=n_open), live=live).status.complete
        with Store(path) as store:
            return store.digests()


# -- a study ------------------------------------------------------------------------------------------


def _counting(network: Any) -> Any:
    """The module with a count of the rows of each call."""
    sizes: list[int] = []
    network.register_forward_pre_hook(lambda _module, batch: sizes.append(len(batch[0])))
    return sizes


def _study(zoo: Path) -> Iterator[Figure]:
    import torch

    network = load_resnet20(zoo)
    sizes = _counting(network)
    images, _ = load_labelled_images(zoo, N_IMAGES)
    pictures = [torch.from_numpy(image) for image in images]
    live = LiveObjects(hf.bind(network, pictures, kind="image", features=(8, 8)))
    spec, ratios, mean_rows = _spec(METHODS, N_IMAGES), list[float](), 0.0
    bare = _bare_rows(network, images, BEST_SIZE)
    for _ in range(REPEATS):
        sizes.clear()
        start = time.process_time()
        _run(spec, live, None)
        seconds, n_rows, mean_rows = time.process_time() - start, sum(sizes), float(np.mean(sizes))
        ratios.append(seconds / (n_rows * bare()))
    name = f"a study of {N_IMAGES} images × 3 methods, ResNet-20@32"
    yield Figure(f"processor time over bare passes, {name}", float(np.median(ratios)), "×", at_most=1.08)
    yield Figure(f"mean rows per call of {BEST_SIZE}, {name}", mean_rows, "rows", at_least=0.6 * BEST_SIZE)


def _bare_rows(network: Any, images: Any, size: int) -> Callable[[], float]:
    """Measures the seconds per row of bare passes through a network, in the faster of both layouts."""
    import torch

    batch = torch.from_numpy(np.resize(images, (size, *images.shape[1:])))
    layouts = [batch, batch.contiguous(memory_format=torch.channels_last)]

    def measure() -> float:
        times: list[list[float]] = [[], []]
        with torch.inference_mode():
            for _ in range(12):
                for layout, seconds in zip(layouts, times, strict=True):
                    start = time.process_time()
                    network(layout)
                    seconds.append((time.process_time() - start) / size)
        return min(float(np.median(seconds)) for seconds in times)

    return measure


# -- curves -------------------------------------------------------------------------------------------


def _curves(
    name: str, binders: list[Callable[[], Any]], n_radii: int, limit: float, *, repeats: int = REPEATS
) -> Iterator[Figure]:
    """Curves of some inputs against the bound model on the same masks, in batches of the size that was found."""
    models, ratios = [bind() for bind in binders], []
    for model in models:  # finds layout and batch size, as the first curves of a user do
        hf.certify_radii(model, np.arange(model.n_features) % 4 == 0, radii=[8], rng=99)
    for repeat in range(repeats):
        ours = bare = 0.0
        for number, model in enumerate(models):
            selected, radii = np.arange(model.n_features) % 4 == 0, range(1, 1 + n_radii) if n_radii > 1 else [8]
            evaluator, probe = hf.Evaluator(model), getattr(model, "batch_probe", None)
            start = time.process_time()
            hf.certify_radii(evaluator, selected, radii=radii, rng=1000 * repeat + number)
            ours += time.process_time() - start
            n_again = evaluator.n_calls - len(evaluator.masks)  # rows that were repeated to see the model deterministic
            masks = np.concatenate([evaluator.masks, evaluator.masks[:n_again]])
            bare += _seconds_of(model, masks, BEST_SIZE if probe is None else probe.size)
        ratios.append(ours / bare)
    what = f"processor time per pass over bare passes, {n_radii} radii, {name}"
    yield Figure(what, float(np.median(ratios)), "×", at_most=limit)


def _seconds_of(model: Any, masks: Any, size: int) -> float:
    start = time.process_time()
    for first in range(0, len(masks), size):
        model(masks[first : first + size])
    return time.process_time() - start


def _texts(zoo: Path) -> Iterator[Figure]:
    if importlib.util.find_spec("transformers") is None:
        print("  LEFT OUT: MiniLM (transformers missing)")
        return
    module, tokenizer = _minilm(zoo)
    tweets, _ = load_tweets(zoo, 200)
    bound = [hf.mask_text(module, tweet, tokenizer=tokenizer) for tweet in tweets]
    nearest = sorted(bound, key=lambda model: abs(len(model.groups) - 40))[:3]
    yield from _curves("MiniLM, 40 tokens", [lambda model=model: model for model in nearest], 16, 1.03)

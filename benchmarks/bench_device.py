"""The device kept full: passes of a study and of curves against bare passes, and a device with a price per call.

Times are of the processor, in one thread, and figures are medians of ratios: each curve or study is followed by bare
passes of as many rows. Images go straight through the module, in the layout and in batches of the size that take
least, cut evenly; texts go through the bound model, which leaves out hidden tokens, sorted by their length and in
batches of the size that takes least. What takes least is the median of rounds in which all take turns. The study has
batches of that size too; its rows per call are counted, not timed. Of curves it is also shown what the module alone
takes, because looks are smaller than the best batch, and what a plain loop takes for the same calls, which draws
masks, hides pixels, calls the module and counts. All keep their memory, as holdfast's own commands do; what that
gains is measured first, before and after.

The stand-in device computes nothing: a clock of its own adds 5 ms for each call and 0.05 ms for each row, as a GPU
would take, so that its figures are the same on every machine.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import holdfast as hf
from benchmarks.bench_speed import _minilm, resnet
from benchmarks.device_looks import a_call_at_every_look, looks_figures, overhead_figures
from benchmarks.figures import Figure
from benchmarks.zoo import find_zoo, load_labelled_images, load_resnet20, load_tweets
from holdfast.masking.image import models as image_models
from holdfast.memory import keep_memory
from holdfast.prices import CallPrice
from holdfast.study.local import InProcess
from holdfast.study.session import LiveObjects, run_study
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, ModelSpec, StudySpec
from holdfast.study.store import Store

N_IMAGES, REPEATS, ROUNDS = 50, 3, 5
STUDY_RADII = (1, 4, 16)
METHODS = (MethodSpec("random"), MethodSpec("occlusion"), MethodSpec("lime", n_samples=150))
BATCH_SIZES = (4, 8, 16, 32, 64, 128)
"""Those of which bare passes take the fastest."""

LAYOUTS = ("contiguous_format", "channels_last")

N_WARM_UP = 12
"""Curves that are computed before any is timed: in the first calls of a module its layout and batch size are found."""

N_FOLDED = 20
"""Calls with folded normalisations, and as many without."""

CALL_SECONDS, ROW_SECONDS = 5e-3, 5e-5
N_INPUTS, N_COLUMNS, N_CURVES = 200, 64, 50


def run() -> Iterator[Figure]:
    has_torch, has_transformers = (importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))
    network = picture = None
    if has_torch:
        import torch

        torch.set_num_threads(1)
    if has_torch and has_transformers:
        network = resnet("basic", [2, 2, 2, 2], [64, 128, 256, 512])
        picture = torch.rand((3, 224, 224), generator=torch.Generator().manual_seed(0))
        yield _kept_memory(network, picture)
    keep_memory()
    yield from _stand_in()
    yield from _one_curve()
    yield from looks_figures()
    yield from overhead_figures()
    zoo = find_zoo()
    if not has_torch:
        print("  LEFT OUT: passes against bare passes (torch missing)")
    elif zoo is None:
        print("  LEFT OUT: a study of ResNet-20, curves of ResNet-20 and MiniLM (no zoo at HOLDFAST_ZOO)")
    else:
        yield from _study(zoo)
        images, _ = load_labelled_images(zoo, 8)
        pictures = [torch.from_numpy(image) for image in images]
        for n_radii, limit, n_repeats in ((1, 1.12, 40), (16, 1.05, 12), (48, 1.05, 12)):
            yield from _image_curves("ResNet-20@32", load_resnet20(zoo), pictures, n_radii, limit, n_repeats)
        yield from (_folded("ResNet-20@32", load_resnet20(zoo), pictures[0], n_rows) for n_rows in (10, 25, 64))
        yield from _texts(zoo)
    if network is not None:
        yield from _image_curves("ResNet-18@224", network, [picture], 4, 1.03, 5)
        yield _folded("ResNet-18@224", network, picture, 8)


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
        seconds, digests, sizes = list[float](), list[Any](), list[int]()
        for n_open, policy in ((1, a_call_at_every_look()), (1, nullcontext()), (None, nullcontext())):
            device = StandIn()
            live = LiveObjects(hf.bind(device, rows, kind="table", fill=0.0), scores if methods is known else {})
            with policy:
                digests.append(_run(_spec(methods, N_INPUTS, batch_size=size), live, n_open))
            seconds.append(device.seconds)
            sizes = device.sizes
        assert digests[1] == digests[2], "items differ"  # the first differ by their number of rounds alone
        name = f"stand-in device, {N_INPUTS} inputs, explanations {what}, batches of {size}"
        faster = f"{name}: times faster than item by item"
        yield Figure(f"{faster}, a call at every look", seconds[0] / seconds[2], "×", at_least=least)
        yield Figure(f"{faster}, a call at every look that can be the last", seconds[1] / seconds[2], "×")
        yield Figure(f"{name}: mean rows per call", float(np.mean(sizes)), "rows")


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
            with nullcontext() if is_priced else a_call_at_every_look():
                curves.append(list(hf.certify_radii(evaluator, selected, radii=STUDY_RADII, rng=number)))
            seconds[is_priced] += device.seconds
        assert curves[0] == curves[1], "a certificate differs"
    name = f"stand-in device, one curve of radii {', '.join(map(str, STUDY_RADII))}, {N_CURVES} inputs"
    yield Figure(f"{name}: look by look over ahead", seconds[False] / seconds[True], "×", at_least=2)


def _spec(methods: tuple[MethodSpec, ...], n: int, *, batch_size: int) -> StudySpec:
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


# -- memory -------------------------------------------------------------------------------------------


def _kept_memory(network: Any, picture: Any) -> Figure:
    """Bare passes of a large batch, each after memory of the one before was given back, and after it was kept."""
    import torch

    batch, seconds = picture[None].repeat(64, 1, 1, 1).contiguous(memory_format=torch.channels_last), list[float]()
    for keep in (bool, keep_memory):
        keep()
        seconds.append(float(np.median([_seconds_of_pass(network, batch) for _ in range(1 + REPEATS)][1:])))
    name = "bare passes in batches of 64, ResNet-18@224, memory given back over memory kept"
    return Figure(name, seconds[0] / seconds[1], "×")


# -- a study ------------------------------------------------------------------------------------------


def _medians(passes: dict[int, Callable[[], float]]) -> dict[int, float]:
    """Seconds by the number of rows per call, in the median of rounds in which all take turns."""
    rounds = [{size: seconds() for size, seconds in passes.items()} for _ in range(ROUNDS)]
    return {size: float(np.median([times[size] for times in rounds])) for size in passes}


class BarePasses:
    """Passes through a module alone, in the layout and in batches of the size that take least time per row."""

    def __init__(self, network: Any, image: Any) -> None:
        import torch

        self._network, rows = network, image[None].repeat(2 * max(BATCH_SIZES), 1, 1, 1)
        layouts = {name: rows.contiguous(memory_format=getattr(torch, name)) for name in LAYOUTS}
        for name in LAYOUTS:  # the first passes also warm up
            self._batch = layouts[name]
            self._seconds_per_row(max(BATCH_SIZES))
        rounds = [[self._per_row_of(layouts[name], 64) for name in LAYOUTS] for _ in range(ROUNDS)]
        best = LAYOUTS[int(np.argmin(np.median(rounds, axis=0)))]
        self._batch = layouts[best]
        seconds = _medians({size: partial(self._seconds_per_row, size) for size in BATCH_SIZES})
        self.size = min(seconds, key=lambda size: seconds[size])
        print(f"  bare passes take least in batches of {self.size}, {best}")

    def seconds(self, n_rows: int) -> float:
        """Of just so many rows, in batches of about the best size."""
        n_passes = max(1, round(n_rows / self.size))
        return sum(self._seconds(len(part)) for part in np.array_split(range(n_rows), n_passes))

    def _per_row_of(self, batch: Any, n_rows: int) -> float:
        self._batch = batch
        return self._seconds_per_row(n_rows)

    def _seconds_per_row(self, n_rows: int) -> float:
        return self._seconds(n_rows) / n_rows

    def _seconds(self, n_rows: int) -> float:
        return _seconds_of_pass(self._network, self._batch[:n_rows])


def _seconds_of_pass(network: Any, batch: Any) -> float:
    """Processor seconds of a bare pass."""
    import torch

    with torch.inference_mode():
        start = time.process_time()
        network(batch)
        return time.process_time() - start


class Watched:
    """What holdfast calls a module with: the number of rows of each call, and the processor seconds inside it."""

    def __init__(self) -> None:
        self.sizes, self.seconds, self._call = list[int](), 0.0, image_models.call_folded

    def clear(self) -> None:
        self.sizes.clear()
        self.seconds = 0.0

    def __call__(self, module: Any, *values: Any, **fields: Any) -> Any:
        self.sizes.append(len(values[0] if values else fields["pixel_values"]))
        start = time.process_time()
        output = self._call(module, *values, **fields)
        self.seconds += time.process_time() - start
        return output


def _study(zoo: Path) -> Iterator[Figure]:
    import torch

    network = load_resnet20(zoo)
    images, _ = load_labelled_images(zoo, N_IMAGES)
    pictures = [torch.from_numpy(image) for image in images]
    bare, watched = BarePasses(network, pictures[0]), Watched()
    live = LiveObjects(hf.bind(network, pictures, kind="image", features=(8, 8)))
    spec, ratios, mean_rows = _spec(METHODS, N_IMAGES, batch_size=bare.size), list[float](), 0.0
    for _ in range(REPEATS):
        watched.clear()
        start = time.process_time()
        with patch.object(image_models, "call_folded", watched):
            _run(spec, live, None)
        seconds, mean_rows = time.process_time() - start, float(np.mean(watched.sizes))
        ratios.append(seconds / bare.seconds(sum(watched.sizes)))
    name = f"a study of {N_IMAGES} images × 3 methods, ResNet-20@32"
    yield Figure(f"processor time over bare passes, {name}", float(np.median(ratios)), "×", at_most=1.08)
    what = f"mean rows per pass, best {bare.size}, {name}"
    yield Figure(what, mean_rows, "rows", at_least=0.6 * bare.size)


# -- curves -------------------------------------------------------------------------------------------


def _image_curves(
    name: str, network: Any, pictures: list[Any], n_radii: int, limit: float, n_repeats: int
) -> Iterator[Figure]:
    """Curves of some images, of a module whose layout and batch size were found before."""
    bare, watched = BarePasses(network, pictures[0]), Watched()
    models = [hf.mask_image(network, picture, groups=(8, 8)) for picture in pictures]
    for number in range(N_WARM_UP):
        model = models[number % len(models)]
        hf.certify_radii(model, _quarter(model), radii=[1, 4, 16], rng=99)
    ratios, inside, in_loop = list[float](), list[float](), list[float]()
    for seed, model in product(range(n_repeats), models):
        watched.clear()
        start = time.process_time()
        with patch.object(image_models, "call_folded", watched):
            if n_radii == 1:
                hf.certify(model, _quarter(model), radius=8, rng=seed)
            else:
                hf.certify_radii(model, _quarter(model), radii=range(1, 1 + n_radii), rng=seed)
        seconds, within = time.process_time() - start, watched.seconds
        sizes = list(watched.sizes)
        least = bare.seconds(sum(sizes))
        ratios.append(seconds / least)
        inside.append(within / least)
        in_loop.append(_plain_loop(network, model, sizes, seed) / least)
    yield _passes_figure(name, n_radii, ratios, limit)
    yield _passes_figure(f"{name}, in the module alone", n_radii, inside)
    yield _passes_figure(f"{name}, the same calls in a plain loop", n_radii, in_loop)


def _plain_loop(network: Any, model: Any, sizes: list[int], seed: int) -> float:
    """Processor seconds of calls of these sizes with the least around them: it checks, remembers and proves nothing."""
    import torch

    height, width, n_channels = model.elements.shape
    columns = np.repeat(model.groups.ravel(), n_channels)
    image, baseline = (torch.from_numpy(values.copy()).ravel() for values in (model.elements, model.baseline))
    start, rng, n_agreed = time.process_time(), np.random.default_rng(seed), 0
    for n in sizes:
        masks = _quarter(model) | (rng.random((n, model.n_features)) < 0.1)
        shown = torch.from_numpy(masks.take(columns, axis=1))
        batch = torch.where(shown, image, baseline).view(n, height, width, n_channels).permute(0, 3, 1, 2)
        with torch.inference_mode():
            output = network(batch)
        scores = output if isinstance(output, torch.Tensor) else output.logits
        n_agreed += int((scores.numpy().argmax(axis=1) == 0).sum())
    return time.process_time() - start


def _folded(name: str, network: Any, picture: Any, n_rows: int) -> Figure:
    """A call with batch normalisations folded into convolutions, over the same call with them computed apart."""
    model, seconds = hf.mask_image(network, picture, groups=(8, 8), batch_size=n_rows), dict[bool, list[float]]()
    masks = np.random.default_rng(0).random((n_rows, model.n_features)) < 0.5
    for number in range(2 * N_FOLDED):
        with nullcontext() if number % 2 else patch.object(image_models, "call_folded", _as_it_is):
            start = time.process_time()
            model(masks)
            seconds.setdefault(number % 2 == 1, []).append(time.process_time() - start)
    ratio = float(np.median(seconds[True]) / np.median(seconds[False]))
    return Figure(f"processor time with folded normalisations over without, {n_rows} rows, {name}", ratio, "×")


def _as_it_is(module: Any, *values: Any, **fields: Any) -> Any:
    return module(*values, **fields)


def _quarter(model: Any) -> Any:
    return np.arange(model.n_features) % 4 == 0


def _passes_figure(name: str, n_radii: int, ratios: list[float], limit: float | None = None) -> Figure:
    what = f"processor time per pass over bare passes, {n_radii} radii, {name}"
    return Figure(what, float(np.median(ratios)), "×", at_most=limit)


def _texts(zoo: Path) -> Iterator[Figure]:
    if importlib.util.find_spec("transformers") is None:
        print("  LEFT OUT: MiniLM (transformers missing)")
        return
    module, tokenizer = _minilm(zoo)
    tweets, _ = load_tweets(zoo, 200)
    bound = [hf.mask_text(module, tweet, tokenizer=tokenizer) for tweet in tweets]
    models = sorted(bound, key=lambda model: abs(len(model.groups) - 40))[:3]
    n_radii, ratios, size = 16, [], None
    for model in models:
        hf.certify_radii(model, _quarter(model), radii=[8], rng=99)
    for seed, model in product(range(10 * REPEATS), models):
        evaluator = hf.Evaluator(model)
        start = time.process_time()
        hf.certify_radii(evaluator, _quarter(model), radii=range(1, 1 + n_radii), rng=seed)
        seconds = time.process_time() - start
        n_again = evaluator.n_calls - len(evaluator.masks)  # rows that were repeated to see the model deterministic
        masks = np.concatenate([evaluator.masks, evaluator.masks[:n_again]])
        masks = masks[np.argsort(model.row_costs(masks), kind="stable")]
        if size is None:
            seconds_by_size = _medians({size: partial(_seconds_of, model, masks, size) for size in BATCH_SIZES})
            size = min(seconds_by_size, key=lambda size: seconds_by_size[size])
            print(f"  bare passes take least in batches of {size}")
        ratios.append(seconds / _seconds_of(model, masks, size))
    yield _passes_figure("MiniLM, 40 tokens", n_radii, ratios, 1.03)


def _seconds_of(model: Any, masks: Any, size: int) -> float:
    """Processor seconds of a model for masks, in batches of a size."""
    start = time.process_time()
    for first in range(0, len(masks), size):
        model(masks[first : first + size])
    return time.process_time() - start

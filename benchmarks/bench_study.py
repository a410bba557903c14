"""Studies: items stored per second, a summary, overhead of the engine over a bare loop, workers, memory."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure
from benchmarks.zoo import find_zoo, load_labelled_images, load_resnet20
from holdfast.study.local import InProcess
from holdfast.study.records import Record
from holdfast.study.session import Moment, run_study
from holdfast.study.spec import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, StudySpec
from holdfast.study.store import Store, StoreWriter
from holdfast.study.summary import summarize_study
from holdfast.study.worker import Worker, item_rng

N_STORED, N_TOGETHER = 4_000, 200
"""The best of many short runs is one that nothing else on the machine disturbed."""

N_ITEMS = 10_000
N_IMAGES, REPEATS = 2, 5
RADII = (1, 2, 3, 5, 10)

BATCH_SIZE = 32
"""The same on both sides, where it would else be chosen by what happens to be fast."""


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _store(folder)
        yield _memory(folder)
        zoo = find_zoo()
        if zoo is None or importlib.util.find_spec("PIL") is None:
            print("  LEFT OUT: engine over a bare loop, 2 workers over 1 (no zoo at HOLDFAST_ZOO)")
            return
        spec = _write_images(zoo, folder)
        yield _overhead(spec, folder)
        yield _workers(spec, folder)


# -- the store --------------------------------------------------------------------------------------


def _store(folder: Path) -> Iterator[Figure]:
    """Items of 5 radii, certified once and stored under many names; a worker makes the rows, the store writes them."""
    spec = _texts(folder / "one", n=1, n_words=16, radii=RADII)
    run_study(spec, folder / "one.db")
    with Store(folder / "one.db") as store:
        one = next(store.records())
    records = [one._replace(input=index) for index in range(N_STORED)]
    with StoreWriter(folder / "many.db", spec, settings={}, versions={}) as writer:
        writer.expect(range(N_STORED), n_there=N_STORED)
        seconds = [_seconds_of(writer, records[start : start + N_TOGETHER]) for start in range(0, N_STORED, N_TOGETHER)]
    size = (folder / "many.db").stat().st_size / len(records) / 1024
    yield Figure(
        "items stored per second, a transaction each, 5 radii", N_TOGETHER / min(seconds), "/s", at_least=2_000
    )
    yield Figure("size of a stored item, 16 features, 5 radii", size, "KiB")
    start = time.process_time()
    summarize_study(folder / "many.db")
    yield Figure(f"CPU time to summarise {N_STORED:,} items", time.process_time() - start, "s", at_most=2)


def _seconds_of(writer: StoreWriter, records: list[Record]) -> float:
    start = time.perf_counter()
    for record in records:
        writer.add(record)
    return time.perf_counter() - start


# -- memory -----------------------------------------------------------------------------------------


def moods() -> Any:
    """A factory: words are weighed by their letters."""
    return lambda texts: np.array([[0.0, sum(map(ord, text)) % 97 - 48] for text in texts])


def _texts(folder: Path, *, n: int, n_words: int, radii: tuple[int, ...]) -> StudySpec:
    folder.mkdir()
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 1000, size=n_words)) for _ in range(n)]
    (folder / "test_text.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "test_labels.txt").write_text("0\n" * n, encoding="utf-8")
    (folder / "mapping.txt").write_text("0\tno\n1\tyes\n", encoding="utf-8")
    return StudySpec(
        ModelSpec("python:benchmarks.bench_study:moods", {"kind": "text"}),
        DataSpec(f"tweeteval:{folder}"),
        (MethodSpec("random"), MethodSpec("occlusion")),
        certify=CertifySpec(radii=radii),
    )


def _memory(folder: Path) -> Figure:
    """What the process holds after the last item, less what it held after a tenth of them."""
    spec = _texts(folder / "short", n=N_ITEMS // 2, n_words=5, radii=(1,))
    held: dict[int, float] = {}

    def watch(moment: Moment) -> None:
        if moment.n_new in (N_ITEMS // 10, N_ITEMS):
            held[moment.n_new] = _resident()

    run_study(spec, folder / "short.db", progress=watch)
    growth = held[N_ITEMS] - held[N_ITEMS // 10]
    return Figure(f"memory that {N_ITEMS:,} items leave behind, the first tenth aside", growth, "MiB", at_most=8)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# -- the engine -------------------------------------------------------------------------------------


def resnet20() -> Any:
    """A factory: the zoo's ResNet-20 on images of 32×32 bytes, with a clock on it."""
    import torch

    from holdfast.inputs.models.classifier import Classifier, ModuleOnImages
    from holdfast.masking.speed import Runner

    class Clocked(torch.nn.Module):
        def __init__(self, network: torch.nn.Module) -> None:
            super().__init__()
            self.network, self.seconds = network, 0.0

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            start = time.process_time()
            scores = self.network(images)
            self.seconds += time.process_time() - start
            return scores

    zoo = find_zoo()
    assert zoo is not None
    engine = ModuleOnImages(Runner(Clocked(load_resnet20(zoo))), _as_fractions, torch.device("cpu"), torch.float32)
    return Classifier("image", tuple(map(str, range(10))), "zoo", engine)


def _as_fractions(image: Any) -> Any:
    import torch

    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 255)


def _write_images(zoo: Path, folder: Path) -> StudySpec:
    from PIL import Image

    images, labels = load_labelled_images(zoo, 2 * N_IMAGES)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / "images" / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint(image.transpose(1, 2, 0) * 255).astype(np.uint8)).save(place / f"{i}.png")
    return StudySpec(
        ModelSpec("python:benchmarks.bench_study:resnet20"),
        DataSpec(f"images:{folder / 'images'}"),
        (MethodSpec("lime", n_samples=150), MethodSpec("occlusion")),
        masking=MaskingSpec(groups=(8, 8), options={"batch_size": BATCH_SIZE}),
        certify=CertifySpec(radii=RADII),
    )


def _overhead(spec: StudySpec, folder: Path) -> Figure:
    """What a study adds to the same library calls in a loop.

    The time inside the network is the same work on both sides, but varies by more than the difference that is asked
    for; so the times outside it are compared, and the difference is told as a share of the whole loop.
    """
    classifier, data = hf.models.load(spec.model.spec), hf.data.load(spec.data.spec)
    here = InProcess(lambda _: Worker(spec, hf.bind(classifier, data)))
    added = []
    for repeat in range(REPEATS):
        path = folder / f"overhead{repeat}.db"
        total, outside, rates = _clocked(classifier, lambda: _bare_loop(spec, classifier, data.inputs))
        ours = partial(run_study, spec, path, inputs=range(N_IMAGES), engine=here)
        _, outside_study, _ = _clocked(classifier, ours)
        assert rates == _stored_rates(path), "the loop and the study did not find the same"
        added.append((outside_study - outside) / total)
    share = 100 * float(np.median(added))
    return Figure("CPU time that a study adds to a bare loop, ResNet-20, 64 features", share, "%", at_most=3)


def _clocked(classifier: Any, work: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds in all and outside the network, and what the work returned."""
    network = classifier.engine.runner.module
    start, inside = time.process_time(), network.seconds
    found = work()
    total = time.process_time() - start
    return total, total - (network.seconds - inside), found


def _bare_loop(spec: StudySpec, classifier: Any, images: Any) -> list[float]:
    rates: list[float] = []
    for index in range(N_IMAGES):
        model = hf.Evaluator(classifier.bind(images[index], groups=(8, 8), batch_size=BATCH_SIZE))
        for method in spec.methods:
            key = item_rng(spec, "attribute", index, method.name)
            scores = hf.attribute(model, method.name, n_samples=method.n_samples, rng=key)
            rng = item_rng(spec, "certify", index, method.name, "0.25", "1.0")
            rates += hf.certify_radii(model, hf.top_fraction(scores, 0.25), radii=RADII, rng=rng).rates
    return rates


def _stored_rates(path: Path) -> list[float]:
    with Store(path) as store:
        return [row["rate"] for row in store.rows()]


def _workers(spec: StudySpec, folder: Path) -> Figure:
    """Time from the first stored item to the last, loading aside."""
    one, two = (_spread(spec, folder / f"workers{n}.db", n) for n in (1, 2))
    return Figure(f"speed of 2 workers over 1, ResNet-20 (of {os.cpu_count()} cores, shared)", one / two, "×")


def _spread(spec: StudySpec, path: Path, workers: int) -> float:
    moments: list[float] = []
    run_study(spec, path, workers=workers, progress=lambda moment: moments.append(moment.seconds))
    return (moments[-1] - moments[0]) / (len(moments) - 1)

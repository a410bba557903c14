"""Pages: how large the page of 10,000 items is, how long it takes to write and to open."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from holdfast.report.page import write_report
from holdfast.study.records import Listed, Record
from holdfast.study.session import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, ModelSpec, MusSpec, StudySpec, Trust
from holdfast.study.store import Store, StoreWriter

N_INPUTS, N_WORDS = 2_500, 40
METHODS = {"lime": 200, "shap": 200, "occlusion": None, "random": None}
"""With their budgets; inputs × methods are 10,000 items."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def moods() -> Any:
    """A factory: words are weighed by their letters."""
    return lambda texts: np.array([[0.0, sum(map(ord, text)) % 97 - 48] for text in texts])


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = _many_items(folder)
        page = folder / "report.html"
        start = time.perf_counter()
        write_report(path, page, trust=Trust(code=True))
        yield Figure("write the page of 10,000 items, 24 inputs looked at closer", time.perf_counter() - start, "s")
        yield Figure("size of that page", page.stat().st_size / 2**20, "MiB", at_most=20)
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            print("  LEFT OUT: opening the page (no chromium)")
            return
        yield Figure("open that page, until it can be used", min(_open(page, browser)), "s", at_most=3)


def _many_items(folder: Path) -> Path:
    """The items of a few inputs, certified once and stored under many numbers."""
    spec = _spec(folder)
    few = folder / "few.db"
    run_study(spec, few, inputs=range(4))
    with Store(few) as store:
        results = list(store.results())
    many = folder / "many.db"
    with StoreWriter(many, spec, settings={}, versions={}) as writer:
        writer.expect(range(N_INPUTS), n_there=N_INPUTS)
        writer.list_inputs({index: Listed(None, None) for index in range(N_INPUTS)})
        for start in range(0, N_INPUTS, 4):
            for result in results:
                writer.add(Record.of(replace(result, input=start + result.input)))
    return many


def _spec(folder: Path) -> StudySpec:
    """Every fourth text is the same, so that copies of items are about the inputs they are stored under."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 1000, size=N_WORDS)) for _ in range(4)]
    (folder / "test_text.txt").write_text("\n".join(texts * (N_INPUTS // 4)) + "\n", encoding="utf-8")
    (folder / "test_labels.txt").write_text("0\n" * N_INPUTS, encoding="utf-8")
    (folder / "mapping.txt").write_text("0\tno\n1\tyes\n", encoding="utf-8")
    return StudySpec(
        ModelSpec("python:benchmarks.bench_report:moods", {"kind": "text"}),
        DataSpec(f"tweeteval:{folder}"),
        tuple(MethodSpec(name, n_samples=budget) for name, budget in METHODS.items()),
        certify=CertifySpec(radii=tuple(range(1, 21))),
        mus=MusSpec((0.25,), n_levels=16),
    )


def _open(page: Path, browser: str) -> Iterator[float]:
    """Seconds from asking for the page to the moment its scripts are done, several times."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        running = driver.chromium.launch(executable_path=browser, args=arguments)
        for _ in range(3):
            tab = running.new_page()
            start = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]")
            yield time.perf_counter() - start
            tab.close()
        running.close()

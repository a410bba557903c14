"""Small studies of all three kinds for pages, with names and texts that mean harm, and a browser to look at them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.study.session import run_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
)
from tests.helpers.waiting import PATIENCE

HOSTILE = (
    "<script>document.title='caught'</script><img src=x onerror=\"document.title='caught'\"> & 'single' \"double\" "
    "🌊 שלום"
)
LONG = "y" * 10_000
CLASSES = (f"bad {HOSTILE}", "good")
COLUMNS = (f"a {HOSTILE}", f"b {LONG}", "c", "d", "e", "f", "g", "h")


def moods() -> Any:
    """Texts: few letters beyond m outweigh many before; depends on each text alone."""
    return lambda texts: np.array([[0.0, sum(1.0 if letter > "m" else -0.6 for letter in text)] for text in texts])


def brightness() -> Any:
    """Images: the upper half against the lower."""

    def score(images: Any) -> Any:
        middle = images.shape[1] // 2
        top, low = images[:, :middle].mean(axis=(1, 2, 3)), images[:, middle:].mean(axis=(1, 2, 3))
        return np.stack([top, low], axis=1)

    return score


def sums() -> Any:
    """Rows: the sign of a sum in which every other column counts against."""
    signs = np.array([1.0, -1.0] * 4)
    return lambda rows: np.stack(
        [-(np.asarray(rows, dtype=float) @ signs), np.asarray(rows, dtype=float) @ signs], axis=1
    )


def _asked(**changes: Any) -> dict[str, Any]:
    return {
        "methods": (MethodSpec("lime", n_samples=60), MethodSpec("occlusion"), MethodSpec("random")),
        "certify": CertifySpec(radii=(1, 2, 4)),
        "mus": MusSpec((0.25,), n_levels=8),
        "seed": 3,
    } | changes


def text_spec(folder: Path, *, n: int = 6, **changes: Any) -> StudySpec:
    """Texts of words, the first of them hostile and very long."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    words = np.array([f"{a}{b}" for a in "abnz" for b in "eoru"])
    texts = [" ".join(rng.permutation(words)[:9]) for _ in range(n)]
    texts[0] = f"{HOSTILE} {LONG} zoo boo"
    (folder / "test_text.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "test_labels.txt").write_text("".join(f"{i % 2}\n" for i in range(n)), encoding="utf-8")
    (folder / "mapping.txt").write_text(f"0\t{CLASSES[0]}\n1\t{CLASSES[1]}\n", encoding="utf-8")
    model = ModelSpec("python:tests.helpers.report_support:moods", {"kind": "text", "classes": list(CLASSES)})
    settled = {"witness": True, "name": f"texts {HOSTILE}", "smoothing": SmoothingSpec((1.0, 0.75), n_samples=8)}
    return StudySpec(model, DataSpec(f"tweeteval:{folder}"), **_asked(**(settled | changes)))


def image_spec(folder: Path, *, n: int = 4, **changes: Any) -> StudySpec:
    """Images of noise in files with hostile names."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    for i in range(n):
        Image.fromarray(rng.integers(0, 255, size=(12, 16, 3), dtype=np.uint8)).save(folder / f"{i} <b>'\"&🌊 שלום.png")
    model = ModelSpec("python:tests.helpers.report_support:brightness", {"kind": "image", "classes": ["up", "down"]})
    settled = {"masking": MaskingSpec(groups=(3, 4)), "name": "images"}
    return StudySpec(model, DataSpec(f"images:{folder}"), **_asked(**(settled | changes)))


def table_spec(folder: Path, *, n: int = 5, **changes: Any) -> StudySpec:
    """Rows of a table whose columns have hostile and very long names."""
    import pandas

    folder.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(4).normal(size=(n + 8, len(COLUMNS))).round(3)
    pandas.DataFrame(values, columns=list(COLUMNS)).to_csv(folder / "table.csv", index=False)
    model = ModelSpec("python:tests.helpers.report_support:sums", {"kind": "table"})
    return StudySpec(model, DataSpec(f"table:{folder}/table.csv", n=n), **_asked(**({"name": "rows"} | changes)))


def run_all(folder: Path) -> list[Path]:
    """The three studies, run."""
    paths = []
    for make in (text_spec, image_spec, table_spec):
        paths.append(folder / f"{make.__name__}.db")
        run_study(make(folder / make.__name__), paths[-1])
    return paths


class PageData(HTMLParser):
    """What stands in the element with the data, and the texts of list items."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.text, self.policy = False, "", ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.inside = tag == "script" and ("id", "data") in attrs
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"]

    def handle_data(self, data: str) -> None:
        self.text += data if self.inside else ""


def payload_of(path: Path) -> dict[str, Any]:
    """The data of a page."""
    parser = PageData()
    parser.feed(path.read_text(encoding="utf-8"))
    payload: dict[str, Any] = json.loads(parser.text)
    return payload


# -- a browser --------------------------------------------------------------------------------------

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_browser() -> str:
    """Where Chromium is. Without it tests are skipped, loudly; in continuous integration they fail."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        told = "NOT TESTED IN A BROWSER: there is no chromium. `make ci-setup` as root installs it."
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    return found


@contextmanager
def browsing() -> Iterator[Any]:
    """A running Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page that was opened, with whatever it said or asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.page = browser.new_page(**({"viewport": {"width": 1200, "height": 900}} | options))
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.resolve().as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=1000 * PATIENCE)

    def close(self) -> None:
        self.page.close()

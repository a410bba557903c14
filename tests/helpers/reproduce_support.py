"""Small subjects for experiments: words with weights, and pictures whose halves are weighed against each other."""

from __future__ import annotations

import signal
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from holdfast.reproduce import Request, Subject
from holdfast.study.spec import DataSpec, MaskingSpec, ModelSpec
from tests.helpers.study_support import moods, write_texts

LIMIT = {"calls": 10**9}
"""How many more calls ``frail_moods`` answers."""


def frail_moods() -> Any:
    """The model of moods, which breaks down after as many calls as ``LIMIT`` says."""
    score = moods()

    def frail(texts: list[str]) -> Any:
        LIMIT["calls"] -= 1
        if LIMIT["calls"] < 0:
            raise RuntimeError("out of order")
        return score(texts)

    return frail


INTERRUPTS: dict[int, float] = {}
"""Calls of ``interrupting_moods``, counted from 1, at which somebody presses Ctrl-C, and seconds that follow."""


def interrupting_moods() -> Any:
    """The model of moods, in the middle of which Ctrl-C is pressed as ``INTERRUPTS`` says."""
    score, calls = moods(), count(1)

    def interrupting(texts: list[str]) -> Any:
        seconds = INTERRUPTS.get(next(calls))
        if seconds is not None:
            signal.raise_signal(signal.SIGINT)
            time.sleep(seconds)
        return score(texts)

    return interrupting


def halves() -> Any:
    """Whether the left half of a picture is brighter than the right one, but for a weight that falls downwards."""

    def score(images: Any) -> Any:
        values = np.asarray(images, dtype=np.float64).mean(axis=3)
        weights = np.linspace(2, 0.5, values.shape[1])[None, :, None]
        left, right = (
            (values * weights)[:, :, part].sum(axis=(1, 2)) for part in np.split(np.arange(values.shape[2]), 2)
        )
        return np.stack([left, right], axis=1)

    return score


def texts_subject(folder: Path, n: int, *, factory: str = "study_support:moods", name: str = "moods") -> Subject:
    """Texts of twelve known words."""
    place = write_texts(folder, n)
    model = ModelSpec(f"python:tests.helpers.{factory}", {"kind": "text", "classes": ["bad", "good"]})
    return Subject(name, "text", model, DataSpec(f"tweeteval:{place}", n=n))


def pictures_subject(folder: Path, n: int) -> Subject:
    """Grey pictures of 4 × 4 pixels, one feature each, in a folder per class."""
    rng = np.random.default_rng(3)
    for number in range(n):
        pixels = rng.integers(0, 256, (4, 4)).astype(np.uint8)
        place = folder / ("left" if number % 2 else "right")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.repeat(pixels[..., None], 3, axis=2)).save(place / f"{number}.png")
    model = ModelSpec("python:tests.helpers.reproduce_support:halves", {"kind": "image", "classes": ["left", "right"]})
    return Subject("halves", "image", model, DataSpec(f"images:{folder}", n=n), MaskingSpec((4, 4)))


def request(subject: Subject, **changes: Any) -> Request:
    """A request about one subject with methods that need no gradients."""
    asked: dict[str, Any] = {"subjects": (subject,), "n": subject.data.n}
    return Request(**(asked | changes))


def read_rows(path: Path) -> list[dict[str, str]]:
    """A table of CSV, as texts."""
    import csv

    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that must be the same for every run, by name."""
    kinds = (".csv", ".parquet", ".svg", ".png", ".md")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in kinds}

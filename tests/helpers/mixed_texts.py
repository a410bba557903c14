"""Texts of very different lengths, a study of them, and its items: what summaries are checked against."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from holdfast.study.records import ItemResult
from holdfast.study.spec import CertifySpec, MusSpec, SmoothingSpec, StudySpec
from holdfast.study.store import Store
from tests.helpers.study_support import WEIGHTS, make_spec, write_texts

RADII = (1, 2, 5, 30)
LENGTHS = [3, 4, 5, 6, 7, 8, 16, 20, 24]


def write_mixed_texts(folder: Path) -> Path:
    """Texts of very different lengths; the short ones are enumerated, the long ones sampled."""
    write_texts(folder, len(LENGTHS))
    rng = np.random.default_rng(8)
    words = np.array([*WEIGHTS, *(f"word{i}" for i in range(20))])
    texts = [" ".join(rng.permutation(words)[:n]) for n in LENGTHS]
    (folder / "test_text.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder


def mixed_spec(folder: Path, **changes: object) -> StudySpec:
    asked: dict[str, object] = {"certify": CertifySpec(radii=RADII), "mus": MusSpec((0.125, 0.25), n_levels=8)}
    return make_spec(folder, **(asked | {"smoothing": SmoothingSpec((1.0,))} | changes))


def items(path: Path, method: str, fraction: float) -> list[ItemResult]:
    with Store(path) as store:
        return [one for one in store.results() if (one.method, one.top_fraction) == (method, fraction)]

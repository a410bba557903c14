"""Methods of one's own for studies of ``study_support``, by name: workers and actors import them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from holdfast.study.spec import MethodSpec, StudySpec
from tests.helpers.study_support import WEIGHTS, make_spec, slow_moods

HANGING = "HOLDFAST_TEST_HANGING"
"""Names a folder: ``hangs`` hangs at the first text as long as there is a file in it."""


def lengths(model: Any, text: str) -> Any:
    """Long words matter; the model is asked once, so that calls are counted."""
    model(np.ones((1, model.n_features), dtype=bool))
    return np.array([len(word) for word in text.split()], dtype=float)


def weighted(model: Any, text: str, scale: float = 1.0) -> Any:
    """Words with a weight matter."""
    return scale * np.array([abs(WEIGHTS.get(word, 0.0)) for word in text.split()])


def known_words(model: Any, text: str) -> Any:
    """A mask of the words with a weight."""
    return np.array([word in WEIGHTS for word in text.split()])


def fails_sometimes(model: Any, text: str) -> Any:
    """Raises, returns NaN, the wrong length, words, a mask, or scores: by the length of the first word."""
    n = model.n_features
    answers: list[Any] = [np.full(n, np.nan), np.ones(n + 1), ["a"] * n, np.ones(n, dtype=bool), np.arange(n)]
    kind = sum(text.encode()) % 6
    if kind == 5:
        raise RuntimeError("no such word")
    return answers[kind]


def hangs(model: Any, text: str) -> Any:
    """Waits for ever at some texts."""
    if any(Path(os.environ[HANGING]).iterdir()) and sum(text.encode()) % 2:
        while True:
            time.sleep(3600)
    return lengths(model, text)


def own_spec(folder: Path, **changes: Any) -> StudySpec:
    """The study of ``make_spec`` with methods of one's own beside a built-in one: 8 items per input."""
    place = "python:tests.helpers.own_methods"
    mine, rule = (
        MethodSpec(name, spec=f"{place}:{name}", masks=name == "known_words") for name in ("lengths", "known_words")
    )
    scaled = MethodSpec("scaled", spec=f"{place}:weighted", options={"scale": 2.0})
    return make_spec(
        folder, methods=(mine, rule, MethodSpec("occlusion"), scaled), **({"top_fractions": (0.25,)} | changes)
    )


def run_live(folder: Path, path: str) -> Any:
    """A study of live objects: a function of texts, and a function, masks and scores of them; 8 items per input."""
    texts = (folder / "test_text.txt").read_text(encoding="utf-8").splitlines()
    inputs = hf.bind(slow_moods(), texts)
    methods = {
        "own": lengths,
        "rule": [known_words(None, text).tolist() for text in texts],
        "scores": [weighted(None, text) for text in texts],
        "lime": {"spec": "lime", "n_samples": 80},
    }
    smoothing = hf.study.SmoothingSpec((1.0, 0.75), n_samples=8)
    return hf.study.run(inputs, methods, store=path, radii=[1, 3], smoothing=smoothing, seed=11, progress="json")

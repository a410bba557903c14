"""The top of the scores, ties by index, as many as the paper takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import InvalidTypeError, InvalidValueError, top, top_fraction


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.data())
def test_the_selected_are_the_first_of_a_stable_sort(scores: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(scores)))
    wanted = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
    assert sorted(np.flatnonzero(top(scores, k))) == sorted(wanted)


@pytest.mark.parametrize(
    ("n", "fraction", "k"), [(196, 0.25, 49), (10, 0.25, 2), (3, 0.1, 0), (10, 0.3, 3), (10, 0.7, 7)]
)
def test_a_fraction_selects_the_whole_part_of_its_share(n: int, fraction: float, k: int) -> None:
    assert top_fraction(np.arange(n), fraction).sum() == k


@pytest.mark.parametrize(
    ("scores", "k", "error"),
    [
        ([], 0, InvalidValueError),
        ([[1.0]], 1, InvalidValueError),
        ([1.0, float("nan")], 1, InvalidValueError),
        (["a", "b"], 1, InvalidTypeError),
        ([1.0, 2.0], 3, InvalidValueError),
        ([1.0, 2.0], -1, InvalidValueError),
        ([1.0, 2.0], 1.5, InvalidValueError),
        ([[1.0], [1.0, 2.0]], 1, InvalidValueError),
    ],
    ids=str,
)
def test_bad_scores_and_counts_are_refused(scores: Any, k: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^`(scores|k)` must be"):
        top(scores, k)

"""The top of the scores, or those above a threshold: ties by index, as many as the paper takes, signed or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Attribution, above, positive, top, top_fraction
from holdfast.errors import InvalidTypeError, InvalidValueError


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


def test_a_share_is_pointed_to_top_fraction() -> None:
    with pytest.raises(InvalidValueError, match=r"use `top_fraction\(scores, 0.25\)`"):
        top([0.1, 0.2, 0.3, 0.4], 0.25)  # type: ignore[arg-type]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.data())
def test_absolute_scores_rank_by_size(scores: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(scores)))
    wanted = sorted(range(len(scores)), key=lambda i: (-abs(scores[i]), i))[:k]
    assert sorted(np.flatnonzero(top(scores, k, absolute=True))) == sorted(wanted)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.sampled_from([-1, 0, 0.5, 2, float("inf")]))
def test_a_threshold_is_exceeded_strictly(scores: list[int], threshold: float) -> None:
    assert above(scores, threshold).tolist() == [score > threshold for score in scores]
    assert above(scores, threshold, absolute=True).tolist() == [abs(score) > threshold for score in scores]
    assert positive(scores).tolist() == [score > 0 for score in scores]


def test_attributions_are_selected_from_like_their_scores() -> None:
    scores = [0.5, -2.0, 0.0, 0.5, 1.0]
    explained = Attribution(scores, method="lime")
    for select in (
        lambda given: top(given, 3),
        lambda given: top(given, 2, absolute=True),
        lambda given: top_fraction(given, 0.4),
        lambda given: top_fraction(given, 0.4, absolute=True),
        lambda given: above(given, 0.4),
        positive,
    ):
        assert select(explained).tolist() == select(scores).tolist()
    assert top(explained, 2).tolist() == [True, False, False, False, True]
    assert top_fraction(explained, 0.4, absolute=True).tolist() == [False, True, False, False, True]


@pytest.mark.parametrize(("threshold", "error"), [("a", InvalidTypeError), (float("nan"), InvalidValueError)])
def test_bad_thresholds_are_refused(threshold: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^`threshold` must be a number"):
        above([1.0], threshold)

"""Findings about single inputs say what the data say, and by which rule an example was chosen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.bounds import Interval
from holdfast.experiments import reproduce, similar, soft_vs_hard, unstable
from holdfast.experiments.showing import Explained
from tests.experiment_support import request, texts_subject


class Made:
    """Certificates by radius, as a curve holds them."""

    def __init__(self, certificates: list[Any]) -> None:
        self.certificates = certificates

    def __iter__(self) -> Any:
        return iter(self.certificates)

    def __getitem__(self, radius: int) -> Any:
        return next(one for one in self.certificates if one.radius == radius)


def certified(rates: dict[int, float]) -> Any:
    """A curve whose lower bounds are these rates."""
    return Made(
        [SimpleNamespace(radius=r, rate=x, interval=Interval(x, 1.0), confidence=0.95) for r, x in rates.items()]
    )


def bracket(low: int, below: int | None) -> Any:
    return SimpleNamespace(low=low, below=below, is_tight=below == low + 1)


@pytest.mark.parametrize(
    ("rates", "hard", "words"),
    [
        (
            {1: 1.0, 2: 0.95, 6: 0.92},
            (1, 2),
            "here, too: the hard radius is 1 and the rate is certified to be at least 90% out to 6.",
        ),
        (
            {1: 1.0, 2: 0.95, 6: 0.5},
            (1, 2),
            "; here the hard radius is 1 and the rate is certified to be at least 90% out to 2.",
        ),
        (
            {1: 1.0, 2: 0.8, 6: 0.5},
            (1, 2),
            "; here the hard radius is 1 and the rate is certified to be at least 90% out to 1, no further.",
        ),
        ({1: 0.5, 2: 0.4}, (0, 1), "; here the hard radius is 0 and the rate is not certified to be at least 90%"),
        ({1: 1.0, 4: 0.95}, (1, 4), "; here the hard radius is from 1 to 3 and the rate is certified"),
        ({1: 1.0, 2: 1.0}, (3, 4), "here no radius beyond the hard one was asked for."),
        ({1: 1.0, 2: 1.0}, (3, None), "here no change was found, so that the two cannot be contrasted."),
    ],
)
def test_rates_beyond_the_hard_radius_are_told_in_numbers(
    rates: dict[int, float], hard: tuple[int, int | None], words: str
) -> None:
    assert words in soft_vs_hard.compared(certified(rates), bracket(*hard))


def test_the_soft_radius_speaks_of_the_radii_tested_and_says_the_last_rate_once() -> None:
    full = soft_vs_hard._soft(certified({1: 1.0, 2: 0.95, 6: 0.92}))
    assert full == "At all 3 radii tested up to 6 the rate is certified to be at least 90% (92.0% [92.0, 100.0] at 6)."
    assert soft_vs_hard._soft(certified({1: 1.0, 6: 0.5})).endswith("At radius 6 the rate is 50.0% [50.0, 100.0].")
    assert "is not certified at the smallest radius tested" in soft_vs_hard._soft(certified({1: 0.5}))


@pytest.mark.parametrize("method", ["occlusion", "random"])
def test_how_the_one_input_was_chosen_is_told(method: str, tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 6)
    told = reproduce(
        "example-soft", request(subject, methods=(method,), radii=(1, 2)), output=tmp_path / "out"
    ).findings
    able = [i for i in range(6) if overturned(Explained(subject, i, 0), method)]
    rule = "whose explanation is right on its own and for which a change was found"
    if able:
        assert f"moods, input {able[0]}, the first of 6 inputs {rule};" in told
    else:
        assert f"moods, input 0, the first of 6 inputs, since there is none {rule};" in told


def overturned(explained: Explained, method: str) -> bool:
    """Whether an explanation is right and some addition changes it, by enumeration."""
    selected = explained.selected(method, 0.25)
    free = np.flatnonzero(~selected)
    masks = np.repeat(selected[None], 2 ** len(free), axis=0)
    masks[:, free] = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))) & 1
    changed = any(explained.predict(mask) != explained.predict(selected) for mask in masks)
    return explained.is_right(selected) and changed


@pytest.mark.parametrize(
    ("told", "alike", "words"),
    [
        ([1], True, "here that is certified for one input"),
        ([], True, "here no such difference is certified"),
        ([1], False, "here no two explanations look alike"),
    ],
)
def test_explanations_that_look_alike_are_compared_as_the_data_say(told: Any, alike: bool, words: str) -> None:
    assert words in similar.compared(told, alike=alike)


@pytest.mark.parametrize(("overlap", "alike"), [(0.5, True), (0.9, True), (0.49, False), (1.0, False)])
def test_explanations_are_said_to_look_alike_only_where_they_do(overlap: float, alike: bool) -> None:
    nothing: Any = None
    one = similar.Candidate(nothing, {}, overlap, 0.1, True)
    assert ("no two explanations look alike (overlap ≥ 50%" in similar._unlike(one)) == (not alike)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((2, 5), "was found for 2 of 5 right explanations."),
        ((0, 5), "for any of 5 right explanations, which differs from the paper."),
        ((0, 0), "no explanation is right, so that there is nothing to compare."),
    ],
)
def test_overturned_explanations_are_counted_as_they_are(counts: tuple[int, int], words: str) -> None:
    assert words in unstable.compared(*counts)


@pytest.mark.parametrize(
    ("label", "full", "alone", "words"),
    [
        (1, 1, 1, ""),
        (None, 1, 1, ""),
        (1, 0, 1, ", of which the full input is predicted wrong"),
        (1, 1, 0, ", of which the explanation alone is predicted wrong"),
        (1, 0, 0, ", of which the full input and the explanation alone are predicted wrong"),
        (None, 1, 0, ", whose explanation alone has not the prediction of the full input"),
    ],
)
def test_what_is_wrong_about_an_example_is_named(label: int | None, full: int, alone: int, words: str) -> None:
    explained = SimpleNamespace(label=label, index=0, prediction=full)
    case: Any = SimpleNamespace(explained=explained, witness=SimpleNamespace(original_prediction=alone))
    assert unstable._wrong(case) == words


def found_case(n_added: int, *, proven: bool = False) -> Any:
    return SimpleNamespace(witness=SimpleNamespace(found=n_added > 0, added=tuple(range(n_added)), proven=proven))


def test_sizes_of_changes_and_what_was_searched_through_are_told() -> None:
    assert unstable._sizes([found_case(3), found_case(10)]) == ", with 3 to 10 features"
    assert unstable._sizes([found_case(3), found_case(3)]) == ", with 3 each"
    assert unstable._sizes([]) == ""
    cases = [found_case(0, proven=True), found_case(0), found_case(2, proven=True)]
    assert unstable._exhausted(cases) == "; of 1 all additions were evaluated, and none does"
    assert unstable._exhausted([found_case(0)]) == ""


@pytest.mark.parametrize(("label", "words"), [(1, ", which is right"), (0, ""), (None, "")])
def test_a_change_for_the_better_is_called_so(label: int | None, words: str) -> None:
    explained = SimpleNamespace(label=label, index=0)
    case: Any = SimpleNamespace(explained=explained, witness=SimpleNamespace(prediction=1))
    assert unstable._corrects(case) == words

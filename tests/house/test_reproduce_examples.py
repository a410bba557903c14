"""Findings about single inputs say what the data say, and by which rule an example was chosen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.bounds import Interval
from holdfast.reproduce import reproduce
from holdfast.reproduce.examples import (
    Candidate,
    Explained,
    Overturned,
    contrasts_beyond,
    measure_overturned,
    soft_radius,
    tell_rule,
)
from tests.helpers.reproduce_support import request, texts_subject


def certified(rates: dict[int, float]) -> Any:
    """A curve whose lower bounds are these rates."""
    return [SimpleNamespace(radius=radius, rate=rate, interval=Interval(rate, 1.0)) for radius, rate in rates.items()]


@pytest.mark.parametrize(
    ("rates", "below", "reached", "verdicts"),
    [
        ({1: 1.0, 2: 0.95, 6: 0.92}, 2, 6, ["higher", "higher"]),
        ({1: 1.0, 2: 0.95, 6: 0.5}, 2, 2, ["higher", "undecided"]),
        ({1: 1.0, 2: 0.8, 6: 0.95}, 2, 1, ["undecided", "higher"]),
        ({1: 0.5, 2: 0.4}, 1, 0, ["undecided", "undecided"]),
        ({1: 1.0, 2: 1.0}, 4, 2, []),
        ({1: 1.0, 2: 1.0}, None, 2, []),
    ],
)
def test_rates_beyond_the_hard_radius_are_held_against_enough(
    rates: dict[int, float], below: int | None, reached: int, verdicts: list[str]
) -> None:
    curve = certified(rates)
    assert soft_radius(curve) == reached
    assert [contrast.verdict for contrast in contrasts_beyond("m", curve, below)] == verdicts


@pytest.mark.parametrize("method", ["occlusion", "random"])
def test_how_the_one_input_was_chosen_is_told(method: str, tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 6)
    told = reproduce(
        "example-soft", request(subject, methods=(method,), radii=(1, 2)), output=tmp_path / "out"
    ).findings
    able = [i for i in range(6) if is_overturned(Explained(subject, i, 0), method)]
    rule = "whose explanation is right on its own and for which a change was found"
    if able:
        assert f"Input {able[0]} is the first of 6 inputs {rule}." in told
    else:
        assert f"Input 0 is the first of 6 inputs, since there is none {rule}." in told


def is_overturned(explained: Explained, method: str) -> bool:
    """Whether an explanation is right and some addition changes it, by enumeration."""
    selected = explained.selected(method)
    free = np.flatnonzero(~selected)
    masks = np.repeat(selected[None], 2 ** len(free), axis=0)
    masks[:, free] = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))) & 1
    changed = any(explained.predict(mask) != explained.predict(selected) for mask in masks)
    return explained.is_right(selected) and changed


@pytest.mark.parametrize(
    ("overlap", "consistent", "words"),
    [
        (0.5, True, "share 50%, for the widest gap."),
        (0.9, False, "share 90%, for the widest gap, though not both have its prediction."),
        (0.49, True, "for the widest gap, since no two explanations look alike."),
        (1.0, True, "for the widest gap, since no two explanations look alike."),
    ],
)
def test_explanations_are_said_to_look_alike_only_where_they_do(overlap: float, consistent: bool, words: str) -> None:
    explained: Any = SimpleNamespace(index=3)
    chosen = Candidate(explained, {}, overlap, 0.1, consistent)
    told = tell_rule(chosen, [chosen, chosen])
    n = 2 * (chosen.alike and consistent)
    assert told.startswith(f"{n} of 2 inputs have explanations that share at least 50% of their joint features")
    assert told.endswith(words)


def overturned(n_added: int, *, right: bool = True, proven: bool = False, label: int | None = 1) -> Overturned:
    names = [f"w{i}" for i in range(9)]
    inputs = SimpleNamespace(class_name=lambda number: f"class {number}", label=lambda index: label)
    explained: Any = SimpleNamespace(inputs=inputs, index=4, names=names)
    added = tuple(range(n_added))
    witness: Any = SimpleNamespace(
        found=n_added > 0, added=added, n_added=n_added or None, proven=proven, prediction=1, original_prediction=0
    )
    return Overturned(explained, np.ones(3, dtype=bool), right, witness)


def test_overturned_explanations_are_counted_as_they_are() -> None:
    cases = [overturned(1), overturned(3), overturned(0, proven=True), overturned(0), overturned(2, right=False)]
    cells = measure_overturned(cases, cases[0])
    assert cells["right explanations"] == "4 of 5"
    assert cells["overturned by a single feature"].startswith("25.0% [")
    assert cells["overturned by what was found"] == "2 of 4, with 1 to 3 features; 1 by no addition at all"
    assert measure_overturned([overturned(0, right=False)], cases[3]) == {
        "right explanations": "0 of 1",
        "shown": "no addition that overturns one was found",
    }


def test_what_is_shown_is_described_as_it_is() -> None:
    assert str(overturned(2, proven=True, label=0)) == (
        "input 4: revealing w0, w1 turns “class 0” into “class 1”; no fewer can"
    )
    assert str(overturned(1, right=False)) == (
        "input 4 (not right): revealing w0 turns “class 0” into “class 1”, which is right; whether fewer can is open"
    )

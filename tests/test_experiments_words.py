"""Directions are said where intervals that hold at the number of inputs say them, and the closing words tell how."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.bounds import Interval
from holdfast.experiments.studies import paired
from holdfast.experiments.words import (
    FEW,
    FEWEST,
    TOLD,
    Contrast,
    Verdicts,
    compared,
    points,
    share,
    told_of_means,
)

UP, DOWN, OPEN = (Contrast(x, Interval(x - 0.1, x + 0.1), Interval(x - 0.2, x + 0.2)) for x in (0.5, -0.5, 0.0))
WEAK = Contrast(0.15, Interval(0.05, 0.25), Interval(-0.05, 0.35))


def test_of_few_inputs_only_the_guaranteed_interval_says_a_direction() -> None:
    assert replace(WEAK, n=20).direction == 1
    few = replace(WEAK, n=19)
    assert few.direction == 0
    assert str(few) == "cannot be told apart at this number of inputs (+15.0 points [-5.0, +35.0])"
    assert (replace(UP, n=19).direction, replace(DOWN, n=19).direction) == (1, -1)
    assert str(replace(DOWN, n=19)) == "lower (-50.0 points [-70.0, -30.0], guaranteed)"
    assert replace(UP, guaranteed=None, n=19).direction == 0


def test_the_fewest_inputs_that_can_decide_anything_do_so_only_where_they_differ_most() -> None:
    for n in range(1, FEWEST):
        [most] = paired(np.ones((n, 1)), np.zeros((n, 1)), key=0)
        assert most.guaranteed is not None
        assert most.guaranteed.low <= 0, "so that no data of so few inputs could decide"
        assert not most.can_decide
    [most] = paired(np.ones((FEWEST, 1)), np.zeros((FEWEST, 1)), key=0)
    assert (most.can_decide, most.direction) == (True, 1)
    [far] = paired(2 * np.ones((FEWEST - 1, 1)), np.zeros((FEWEST - 1, 1)), key=0, reach=2.0)
    assert far.guaranteed is not None
    assert far.guaranteed.low <= 0


def test_comparisons_that_no_data_could_decide_are_counted_apart() -> None:
    found = Verdicts.of([replace(UP, n=FEWEST - 1), replace(UP, n=FEWEST), replace(OPEN, n=50)])
    assert (found.n, found.n_higher, found.n_open, found.n_undecidable) == (2, 1, 1, 1)
    told = compared("A is above B", found)
    assert told.endswith(f"open in 1, without 1 comparison of fewer than {FEWEST} inputs, which can decide nothing.")
    none = Verdicts.of([replace(UP, n=2)])
    assert str(none) == f"open, since fewer than {FEWEST} inputs can decide nothing"
    assert "there is nothing to compare, without 1 comparison" in compared("A is above B", none)


def test_of_one_input_nothing_says_a_direction() -> None:
    assert [replace(one, n=1).direction for one in (UP, DOWN, OPEN)] == [0, 0, 0]
    [alone] = paired(np.ones((1, 1)), np.zeros((1, 1)), key=0)
    assert alone.interval == Interval(1.0, 1.0), "the bootstrap of one input is a point"
    assert alone.direction == 0


def test_directions_are_rarely_said_of_few_inputs_that_do_not_differ() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 4, 8):
        values = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(n, 400))
        found = paired(values, np.zeros_like(values), key=0)
        assert np.mean([one.direction != 0 for one in found]) <= 0.05
    values = np.full((15, 1), 0.9)
    assert paired(values, 0 * values, key=0)[0].direction == 1, "what is plain is said of few inputs too"
    assert paired(0 * values, values, key=0)[0].direction == -1


def test_the_closing_sentence_says_how_directions_come_about() -> None:
    assert f"fewer than {FEW} inputs" in TOLD
    assert "roughly 1 in 10, and far more where only a few inputs differ" in TOLD
    assert "comparisons that share inputs, not of independent ones" in TOLD


def test_the_bootstrap_errs_as_often_as_the_closing_sentence_says_and_the_guarantee_does_not() -> None:
    rng = np.random.default_rng(1)
    errors = {}
    for share_of in (0.5, 0.05, 0.0125):  # of 80 inputs, so many are higher, and the others lower to match
        values = np.where(rng.random((80, 600)) < share_of, 0.4, -0.4 * share_of / (1 - share_of))
        found = paired(values, np.zeros_like(values), key=0)
        errors[share_of] = np.mean([one.direction != 0 for one in found])
        assert np.mean([one.is_guaranteed for one in found]) <= 0.05
    assert 0.02 < errors[0.5] < 0.08 < errors[0.05] < 0.15
    assert errors[0.0125] > 0.3


def test_mean_curves_are_told_with_the_numbers_of_the_study() -> None:
    told = told_of_means(0.05, 0.9)
    assert "guaranteed 90% intervals" in told
    assert "±5 points" in told
    assert "holds at 80%" in told
    assert "at most 20 in 100" in told


def test_numbers_are_written_as_percentages_and_points() -> None:
    assert share(0.5, Interval(0.4, 0.6)) == "50.0% [40.0, 60.0]"
    assert points(-0.5, Interval(-0.6, -0.0)) == "-50.0 points [-60.0, +0.0]"

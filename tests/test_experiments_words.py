"""Directions are said where intervals that hold at the number of inputs say them, and the closing words tell how."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.bounds import Interval
from holdfast.experiments.studies import paired
from holdfast.experiments.words import FEW, TOLD, Contrast, points, share, told_of_means

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
    assert "about 5 in 100" in TOLD
    assert "comparisons that share inputs, not of independent ones" in TOLD


def test_mean_curves_are_told_with_the_numbers_of_the_study() -> None:
    told = told_of_means(0.05, 0.9)
    assert "guaranteed 90 % intervals" in told
    assert "±5 points" in told
    assert "holds at 80 %" in told
    assert "at most 20 in 100" in told


def test_numbers_are_written_as_percentages_and_points() -> None:
    assert share(0.5, Interval(0.4, 0.6)) == "50.0 % [40.0, 60.0]"
    assert points(-0.5, Interval(-0.6, -0.0)) == "-50.0 points [-60.0, +0.0]"

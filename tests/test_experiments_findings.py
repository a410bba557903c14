"""Findings say what the data say: constructed data in both directions give opposite words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.bounds import Interval
from holdfast.experiments import find_experiment, methods, smoothing
from holdfast.experiments.accuracy import compared_losses, loss
from holdfast.experiments.batching import tell as tell_times
from holdfast.experiments.studies import Studied
from holdfast.experiments.subjects import RESNET, ROBERTA, Subject
from holdfast.experiments.words import Contrast, Verdicts, compared
from holdfast.study.aggregate import DifferenceAt, MeanAt, PairedDifference
from tests.summary_support import DOWN, OPEN, UP, WEAK, difference, group, studied


def test_a_direction_is_said_only_where_the_interval_leaves_out_zero() -> None:
    assert "higher" in str(UP)
    assert "lower" in str(DOWN)
    assert str(OPEN).startswith("cannot be told apart at this number of inputs")
    assert "guaranteed" in str(UP)
    assert "guaranteed" not in str(WEAK)
    assert WEAK.direction == 1


def test_verdicts_count_each_direction() -> None:
    found = Verdicts.of([UP, DOWN, OPEN, WEAK])
    assert (found.n_higher, found.n_lower, found.n_open, found.n_guaranteed) == (2, 1, 1, 2)
    assert (found.n_surely_higher, found.n_surely_lower) == (1, 1)
    assert str(found) == "higher in 2 of 4 (1 guaranteed), lower in 1 (1 guaranteed), open in 1"


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (Verdicts(4, 0, 0), "that is so in all 4"),
        (Verdicts(0, 4, 0), "the data contradict it in all 4"),
        (Verdicts(1, 2, 3), "that is so in 1 of 6 comparisons, contradicted in 2 and open in 3"),
        (Verdicts(1, 2, 3, 1, 1), "1 of 6 comparisons (1 guaranteed), contradicted in 2 (1 guaranteed) and open in 3"),
        (Verdicts(4, 0, 0, 3), "that is so in all 4 comparisons (3 guaranteed)"),
        (Verdicts(0, 0, 0), "nothing to compare"),
    ],
)
def test_a_trend_of_the_paper_is_confirmed_contradicted_or_left_open(verdicts: Verdicts, words: str) -> None:
    assert words in compared("A is above B", verdicts)


def methods_study(subject: Subject, contrast: Contrast) -> Studied:
    groups = [group(name, {1: 0.9, 5: 0.8}) for name in ("lime", "shap", "random")]
    pairs = [("lime", "shap", OPEN), ("lime", "random", contrast), ("shap", "random", contrast)]
    return studied(subject, groups, [difference(a, b, {1: one, 5: one}) for a, b, one in pairs])


@pytest.mark.parametrize(
    ("contrast", "words"),
    [
        (UP, "that is so in all 4"),
        (DOWN, "the data contradict it in all 4"),
        (OPEN, "0 of 4 comparisons and open in 4"),
    ],
)
def test_methods_are_ranked_on_images_as_the_data_say(contrast: Contrast, words: str) -> None:
    told = methods.tell([methods_study(RESNET, contrast)], (0.25,))
    assert "on images LIME and SHAP are more stable than random" in told
    assert words in told


@pytest.mark.parametrize(
    ("images", "texts", "words"),
    [
        (UP, WEAK, "+15.0 points (lexicon-roberta) on texts against +50.0 points (digits-resnet) on images"),
        (DOWN, UP, "+50.0 points (lexicon-roberta) on texts against -50.0 points (digits-resnet) on images"),
    ],
)
def test_texts_are_compared_with_images_as_the_data_say(images: Contrast, texts: Contrast, words: str) -> None:
    told = methods.tell([methods_study(RESNET, images), methods_study(ROBERTA, texts)], (0.25,))
    assert words in told
    assert "smaller than" not in told


def lime_study(subject: Subject, contrasts: dict[int, Contrast]) -> Studied:
    groups = [group(name, dict.fromkeys(contrasts, 0.9)) for name in ("lime", "random")]
    return studied(subject, groups, [difference("lime", "random", contrasts)])


def test_texts_and_images_are_averaged_over_the_radii_that_both_have() -> None:
    images, texts = lime_study(RESNET, {1: WEAK, 5: UP, 9: DOWN}), lime_study(ROBERTA, {1: UP, 5: UP, 7: DOWN})
    told = methods.tell([images, texts], (0.25,))
    assert "averaged over the radii that all models have (radii 1 and 5), is +50.0 points (lexicon-rob" in told
    assert "on texts against +32.5 points (digits-resnet) on images" in told
    apart = methods.tell([lime_study(RESNET, {1: UP}), lime_study(ROBERTA, {2: UP})], (0.25,))
    assert "there are no radii in common here to compare with" in apart
    assert "against" not in apart


def test_only_methods_that_are_there_are_named() -> None:
    told = methods.tell([lime_study(RESNET, {1: UP}), lime_study(ROBERTA, {1: DOWN})], (0.25,))
    assert "on images LIME is more stable than random explanations; here that is so in all 1" in told
    assert "On texts the rate of LIME, compared with that of random explanations, is higher in 0 of 1, lower" in told
    assert "the gap of LIME to random" in told
    assert "SHAP" not in told


def test_methods_that_use_gradients_are_compared_with_both_sides() -> None:
    groups = [group(name, {1: 0.9}) for name in ("lime", "mfaba", "random")]
    pairs = [("lime", "mfaba", UP), ("lime", "random", UP), ("mfaba", "random", DOWN)]
    one = studied(RESNET, groups, [difference(a, b, {1: contrast}) for a, b, contrast in pairs])
    told = methods.tell([one], (0.25,))
    assert "on images LIME is more stable than methods that use gradients; here that is so in all 1" in told
    assert "on images MFABA is more stable than random explanations; here the data contradict it in all 1" in told


def test_the_radius_from_which_most_texts_have_less_to_reveal_is_told() -> None:
    one = replace(methods_study(ROBERTA, UP), left={0.25: (3, 4, 4, 9)})
    words = (
        "From radius 5 on, most texts of lexicon-roberta have fewer features left to reveal than the radius (top 25%)"
    )
    assert words in methods.tell([one], (0.25,))
    assert "most texts of" not in methods.tell([replace(one, left={0.25: (3, 4, 5, 5)})], (0.25,))
    image = replace(methods_study(RESNET, UP), left={0.25: (3, 4)})
    assert "most texts of" not in methods.tell([image], (0.25,))


def test_smoothing_of_too_few_inputs_is_said_to_decide_nothing() -> None:
    one = studied(RESNET, [group("random", {1: 0.5}), group("random", {1: 0.6}, keep=0.5)])
    told = smoothing.tell([one], [gain(0.5, replace(UP, n=4))], 0)
    assert "digits-resnet, 50 inputs, random explanations: fewer than 7 inputs can decide nothing." in told
    assert ", without 1 comparison of fewer than 7 inputs, which can decide nothing" in told


def test_smoothing_names_the_methods_whose_explanations_it_is_about() -> None:
    groups = [
        group(name, {1: rate}, keep=keep) for name, rate in (("lime", 0.5), ("random", 0.6)) for keep in (1.0, 0.5)
    ]
    both = smoothing.tell([studied(RESNET, groups)], [gain(0.5, UP)], 0)
    assert both.startswith("digits-resnet, 50 inputs, LIME and random explanations: compared with the model itself")
    alone = smoothing.tell([studied(RESNET, groups[:2])], [], 0)
    assert alone.startswith("digits-resnet, 50 inputs, LIME explanations: λ = 1 is not among the keep probabilities")
    assert "random" not in find_experiment("q3").shows


def chosen_study(contrast: Contrast, joint: Interval, *, n: int = 50) -> Studied:
    row = DifferenceAt(1, contrast.estimate, contrast.interval, contrast.guaranteed or contrast.interval, joint)
    pair = PairedDifference("lime", "random", 0.25, 1.0, 0.95, n, (row,))
    return studied(RESNET, [group("lime", {1: 0.9}), group("random", {1: 0.4})], [pair])


@pytest.mark.parametrize(
    ("contrast", "joint", "n", "words"),
    [
        (UP, Interval(0.2, 0.8), 50, "guaranteed) (chosen after looking; guaranteed for all pairs at once)."),
        (UP, Interval(-0.1, 1.0), 50, "[+40.0, +60.0]) (chosen after looking; the interval does not allow for that)."),
        (
            UP,
            Interval(-0.1, 1.0),
            8,
            "[-10.0, +100.0]) (chosen after looking; the interval holds for all pairs at once).",
        ),
        (
            OPEN,
            Interval(-0.3, 0.3),
            50,
            "[-10.0, +10.0]) (chosen after looking; the interval does not allow for that).",
        ),
    ],
)
def test_the_extremes_of_the_methods_are_guaranteed_only_for_all_pairs_at_once(
    contrast: Contrast, joint: Interval, n: int, words: str
) -> None:
    told = methods.tell([chosen_study(contrast, joint, n=n)], (0.25,))
    assert "LIME, highest here, compared with Random, lowest here, " in told
    assert words in told


def mean_study(subject: Subject, groups: Any) -> Studied:
    """Of mean curves: guaranteed intervals and nothing of single inputs."""
    bare = [
        replace(one, hard=(), soft=tuple(MeanAt(at.radius, at.mean, None, at.guaranteed) for at in one.soft))
        for one in groups
    ]
    found = studied(subject, bare)
    return replace(found, summary=replace(found.summary, precision="data-set"))


def test_brackets_of_mean_curves_are_called_what_they_are() -> None:
    groups = [group("lime", {1: 0.9}), group("random", {1: 0.4})]
    means = methods.tell([mean_study(RESNET, groups)], (0.25,))
    assert "Brackets are guaranteed 95% intervals for the mean over the population" in means
    assert (
        "known within ±2 points. Differences lie between the farthest ends of two of them, which holds at 90%" in means
    )
    assert "bootstrap" not in means
    assert "+50.0 points [+46.0, +54.0]) (chosen after looking; the interval does not allow for that)" in means
    assert "bootstrap" in methods.tell([methods_study(RESNET, UP)], (0.25,))


def test_brackets_of_smoothed_mean_curves_are_called_what_they_are() -> None:
    groups = [group("random", {1: 0.5}), group("random", {1: 0.6}, keep=0.5)]
    means = smoothing.tell([mean_study(RESNET, groups)], [gain(0.5, UP)], 0)
    assert "Brackets are guaranteed 95% intervals" in means
    assert "bootstrap" not in means
    assert "bootstrap" in smoothing.tell([studied(RESNET, groups)], [gain(0.5, UP)], 0)


def test_texts_alone_are_not_compared_with_images() -> None:
    told = methods.tell([methods_study(ROBERTA, UP)], (0.25,))
    assert "higher in 4 of 4" in told
    assert "there are no images here to compare with" in told


def gain(keep: float, contrast: Contrast) -> smoothing.Gain:
    return smoothing.Gain(RESNET.name, "random", keep, 1, 50, contrast)


@pytest.mark.parametrize(
    ("contrast", "words"), [(UP, "that is so in all 2"), (DOWN, "the data contradict it in all 2"), (OPEN, "open in 2")]
)
def test_smoothing_is_said_to_help_only_where_it_does(contrast: Contrast, words: str) -> None:
    # Only small radii: nothing is read from the store.
    one = studied(RESNET, [group("random", {1: 0.5}), group("random", {1: 0.6}, keep=0.5)])
    told = smoothing.tell([one], [gain(0.9, contrast), gain(0.5, contrast)], 0)
    assert words in told


def test_smoothing_below_a_half_is_not_what_the_paper_speaks_of() -> None:
    one = studied(RESNET, [group("random", {1: 0.5}), group("random", {1: 0.6}, keep=0.5)])
    told = smoothing.tell([one], [gain(0.5, UP), gain(0.25, DOWN)], 0)
    assert "that is so in all 1 comparison (1 guaranteed)" in told


@pytest.mark.parametrize(
    ("half", "quarter", "words"),
    [
        (0.95, 0.3, "second loss is larger"),
        (0.4, 0.35, "second loss is smaller"),
        (0.8, 0.6, "cannot be told apart"),
    ],
)
def test_accuracy_collapses_only_where_it_does(half: float, quarter: float, words: str) -> None:
    def measured(value: float) -> tuple[float, Interval]:
        return value, Interval(value - 0.03, value + 0.03)

    assert words in compared_losses(loss(measured(0.97), measured(half)), loss(measured(half), measured(quarter)))


@pytest.mark.parametrize(("together", "words"), [(0.001, "so in all 1"), (0.009, "the data contradict it in all 1")])
def test_batching_is_said_to_be_faster_only_where_it_is(together: float, words: str) -> None:
    rng = np.random.default_rng(0)
    times: Any = {1: (0.004 + 1e-5 * rng.random(20)).tolist(), 5: (together + 1e-5 * rng.random(20)).tolist()}
    ratio = 0.004 / together
    speed_ups = {"m": {1: (1.0, Interval(1.0, 1.0)), 5: (ratio, Interval(ratio - 0.1, ratio + 0.1))}}
    assert words in tell_times({"m": times}, speed_ups)


@pytest.mark.parametrize(("half", "gentle"), [(0.95, True), (0.84, True), (0.4, False)])
def test_a_first_fall_of_more_than_ten_points_is_not_called_gentle(half: float, gentle: bool) -> None:
    def measured(value: float) -> tuple[float, Interval]:
        return value, Interval(value - 0.03, value + 0.03)

    told = compared_losses(loss(measured(0.97), measured(half)), loss(measured(half), measured(0.1)))
    assert ("the first fall is not gentle" in told) == (not gentle)
    small = compared_losses(Contrast(0.02, Interval(-0.01, 0.05)), Contrast(0.5, Interval(0.4, 0.6)))
    assert "here the first fall is gentle (at most 10 points, at 90%), and the second loss is larger" in small
    unsure = compared_losses(Contrast(0.08, Interval(0.02, 0.15)), Contrast(0.5, Interval(0.4, 0.6)))
    assert "here whether the first fall is gentle (at most 10 points, at 90%) is open, and" in unsure


def test_the_level_of_a_comparison_of_losses_is_told_where_one_is_larger() -> None:
    small, large = Contrast(0.02, Interval(-0.01, 0.05)), Contrast(0.5, Interval(0.4, 0.6))
    assert "which loss is larger is said at 85%" in compared_losses(small, large)
    assert "which loss is larger is said at 85%" in compared_losses(large, small)
    assert "85%" not in compared_losses(small, small)

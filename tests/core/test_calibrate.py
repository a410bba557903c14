"""Calibrated selections: what they promise of new inputs is summed exactly, whatever the population."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast import Selector, calibrate
from holdfast.bounds import certified_share, fewest_successes
from holdfast.certification import plan_calibration
from holdfast.certification.selector import CalibrationGoal, CalibrationGroup, cut_ranking, step_down
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans import rate_test
from tests.helpers.fakes import Recorded, score_table
from tests.helpers.oracles import exact_rate
from tests.helpers.stopping_oracle import Answers

F = Fraction
Pattern = tuple[bool, ...]


# -- the promise, summed over all calibration samples -------------------------------------------------


class Population:
    """Kinds of inputs: how likely each is, at which steps its explanation is stable, and how likely it then passes."""

    def __init__(self, weights: Sequence[Any], stable: Sequence[Pattern], passes: Sequence[Sequence[Any]]) -> None:
        self.weights, self.stable, self.passes = [F(w) for w in weights], stable, passes
        self.n_steps = len(stable[0])

    def share(self, step: int) -> Fraction:
        """Of inputs that are stable at a step."""
        return sum((w for w, kind in zip(self.weights, self.stable, strict=True) if kind[step]), F(0))

    def chance(self, pattern: Pattern) -> float:
        """That an input passes at just these steps, each on draws of its own."""
        return float(
            sum(
                w * math.prod(F(p) if said else 1 - F(p) for p, said in zip(kind, pattern, strict=True))
                for w, kind in zip(self.weights, self.passes, strict=True)
            )
        )

    def samples(self, n: int) -> Iterator[tuple[float, tuple[Pattern, ...]]]:
        """Every sample of n answers of independent inputs, orders apart, with its probability."""
        patterns = list(product([False, True], repeat=self.n_steps))
        chances = {pattern: self.chance(pattern) for pattern in patterns}
        for sample in combinations_with_replacement([p for p in patterns if chances[p] > 0], n):
            counts = [sample.count(pattern) for pattern in set(sample)]
            orders = math.factorial(n) // math.prod(map(math.factorial, counts))
            yield orders * math.prod(chances[pattern] for pattern in sample), sample


def last_passed(sample: Sequence[Pattern], n_needed: int, *, nested: bool) -> int | None:
    """The step that the library ends at, from what each input would say."""
    trail = step_down(
        range(len(sample[0])),
        range(len(sample)),
        n_needed,
        lambda inputs, step: [all(sample[i][0 if nested else step : step + 1]) for i in inputs],
    )
    cut = CalibrationGroup(len(sample), n_needed, trail).cut
    return None if cut is None else int(cut)


def chance_of_a_false_claim(population: Population, n: int, n_needed: int, share: Fraction) -> float:
    """That fewer than the share of all inputs are stable at the step that is claimed."""
    false = 0.0
    for chance, sample in population.samples(n):
        step = last_passed(sample, n_needed, nested=False)
        false += chance if step is not None and population.share(step) < share else 0.0
    return false


def chance_that_one_is_unstable(population: Population, n: int, n_needed: int) -> float:
    """That one more input of the population is not stable at the step that is claimed."""
    missed = 0.0
    for chance, sample in population.samples(n):
        step = last_passed(sample, n_needed, nested=True)
        missed += 0.0 if step is None else chance * float(1 - population.share(step))
    return missed


def hard_population(share: Fraction, yes: Fraction, n_steps: int) -> Population:
    """All are stable with most features; with fewer just less than the share, and others pass as often as allowed."""
    few = share - F(1, 10**9)
    always, first = (True,) * n_steps, (True,) + (False,) * (n_steps - 1)
    return Population([few, 1 - few], [always, first], [[1] * n_steps, [1] + [yes] * (n_steps - 1)])


@pytest.mark.parametrize(
    ("share", "level", "confidence", "n", "n_steps"),
    [
        (0.9, 0.02, 0.9, 23, 2),
        (0.9, 0.02, 0.9, 40, 2),
        (0.8, 0.1, 0.95, 25, 2),
        (0.5, 0.1, 0.8, 10, 3),
        (0.5, 0.4, 0.7, 11, 3),
        (0.99, 0.001, 0.2, 30, 2),
        (0.05, 0.3, 0.99, 12, 2),
    ],
)
def test_a_share_is_claimed_wrongly_no_more_often_than_the_confidence_allows(
    share: float, level: float, confidence: float, n: int, n_steps: int
) -> None:
    n_needed = CalibrationGoal.check("new inputs", share, level, confidence).n_needed(n)
    assert n_needed is not None
    exact = F(str(share))
    # What a test of a rate just below the threshold says, and the most that it may say.
    for yes in (Answers(rate_test(0.9, 1 - F(str(level)))).at(F("0.9"))[0], F(str(level))):
        assert 0 < yes <= F(str(level))
        false = chance_of_a_false_claim(hard_population(exact, yes, n_steps), n, n_needed, exact)
        assert 0 < false <= 1 - confidence


def test_taking_every_pass_for_stable_would_break_the_promise() -> None:
    share, level, n = F("0.5"), F("0.4"), 11
    population = hard_population(share, level, 2)
    naive = fewest_successes(n, share, F("0.3"))
    assert naive is not None
    assert chance_of_a_false_claim(population, n, naive, share) > 0.3
    population, goal = hard_population(F("0.2"), F("0.8"), 2), CalibrationGoal.check("one input", 0.5, 0.8, None)
    assert chance_that_one_is_unstable(population, n, math.ceil((n + 1) * share)) > 0.5
    assert chance_that_one_is_unstable(population, n, goal.n_needed(n) or 0) <= 0.5


def test_going_upwards_until_a_size_passes_would_break_the_promise() -> None:
    share, n, n_steps = F(1, 2), 5, 4
    n_needed = fewest_successes(n, share, F("0.2"))
    assert n_needed is not None
    independent = Population(
        [F(1, 2**n_steps)] * 2**n_steps,
        list(product([False, True], repeat=n_steps)),
        [[int(said) for said in kind] for kind in product([False, True], repeat=n_steps)],
    )
    # A share of one half is not below one half: "more than that" is what none of the steps has.
    claimed = sum(c for c, sample in independent.samples(n) if last_passed(sample, n_needed, nested=False) is not None)
    any_passes = sum(
        c
        for c, sample in independent.samples(n)
        if any(sum(pattern[step] for pattern in sample) >= n_needed for step in range(n_steps))
    )
    assert claimed <= 0.2 < any_passes


@pytest.mark.parametrize(
    ("share", "level", "n", "n_steps"),
    [(0.9, 0.02, 10, 2), (0.9, 0.02, 19, 2), (0.5, 0.4, 5, 3), (0.8, 0.1, 6, 3), (0.05, 0.5, 3, 3), (0.5, 0, 1, 3)],
)
def test_one_new_input_is_unstable_no_more_often_than_is_promised(
    share: float, level: float, n: int, n_steps: int
) -> None:
    n_needed = CalibrationGoal.check("one input", share, level, None).n_needed(n)
    assert n_needed is not None
    population = hard_population(F(str(share)), F(str(level)), n_steps)
    missed = chance_that_one_is_unstable(population, n, n_needed)
    assert 0 < missed <= 1 - share


@st.composite
def populations(draw: st.DrawFn, level: Fraction) -> Population:
    """Any kinds, stable at some steps and not at others in any order; unstable ones pass no more often than allowed."""
    n_kinds, n_steps = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    parts = [draw(st.integers(1, 10)) for _ in range(n_kinds)]
    stable = [tuple(draw(st.booleans()) for _ in range(n_steps)) for _ in range(n_kinds)]
    chances = st.sampled_from([F(0), F(1, 2), F(1)])
    passes = [[draw(chances) * (1 if holds else level) for holds in kind] for kind in stable]
    return Population([F(part, sum(parts)) for part in parts], stable, passes)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_both_promises_hold_for_any_population(data: st.DataObject) -> None:
    level = data.draw(st.sampled_from([F(0), F(1, 50), F(1, 5), F(1, 2)]))
    share = data.draw(st.sampled_from([F(1, 10), F(1, 2), F(2, 3), F(9, 10)]))
    risk = data.draw(st.sampled_from([F(1, 20), F(1, 5), F(1, 2)]))
    n, population = data.draw(st.integers(1, 9)), data.draw(populations(level))
    n_needed = CalibrationGoal.check("new inputs", share, level, 1 - risk).n_needed(n)
    if n_needed is not None:
        assert chance_of_a_false_claim(population, n, n_needed, share) <= float(risk) + 1e-12
    n_needed = CalibrationGoal.check("one input", share, level, None).n_needed(n)
    if n_needed is not None:
        assert chance_that_one_is_unstable(population, n, n_needed) <= float(1 - share) + 1e-12


@given(st.integers(1, 25), st.fractions(0, 1, max_denominator=50), st.fractions(0, 1, max_denominator=50))
def test_needed_successes_are_the_fewest_that_are_unlikely_enough(n: int, share: Fraction, risk: Fraction) -> None:
    if share in (0, 1) or risk in (0, 1):
        return
    tails = [sum(math.comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(k, n + 1)) for k in range(n + 2)]
    fewest = next(k for k in range(n + 2) if tails[k] <= risk)
    assert fewest_successes(n, share, risk) == (fewest if fewest <= n else None)


def test_needed_successes_are_decided_in_whole_numbers_where_equality_holds() -> None:
    assert fewest_successes(2, F(1, 2), F(1, 4)) == 2
    assert fewest_successes(2, F(1, 2), F(1, 4) - F(1, 10**30)) is None
    tail = F(sum(math.comb(2001, k) for k in range(1100, 2002)), 2**2001)
    assert fewest_successes(2001, F(1, 2), tail) == 1101  # so many are not summed: one more, to be safe
    assert fewest_successes(2000, F(1, 2), F(1, 10**700)) is None  # less likely than floats can say
    assert 0.9 * 10**12 < (fewest_successes(10**12, F(9, 10), F(1, 10)) or 0) < 0.90001 * 10**12
    assert CalibrationGoal.check("new inputs", 0.9, 0.02, 0.9).n_needed(10) is None


@pytest.mark.parametrize("level", [0.001, 0.02, 0.2])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.97])
def test_a_selector_claims_what_the_certified_share_of_as_many_passes_is(share: float, level: float) -> None:
    for n in (25, 80, 200):
        n_needed = CalibrationGoal.check("new inputs", share, level, 0.9).n_needed(n)
        if n_needed is None:
            assert certified_share(n, n, level=level, confidence=0.9) < share
            continue
        assert certified_share(n_needed, n, level=level, confidence=0.9) >= share
        assert certified_share(n_needed - 1, n, level=level, confidence=0.9) < share


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8), st.integers(1, 8), st.randoms())
def test_stopping_early_and_the_order_of_inputs_change_no_outcome(sample: Any, n_needed: int, random: Any) -> None:
    n_needed = min(n_needed, len(sample))
    shuffled = random.sample(sample, len(sample))
    for nested in (False, True):
        counts = [sum(all(said[0 if nested else step : step + 1]) for said in sample) for step in (0, 1)]
        expected = None if counts[0] < n_needed else 0 if counts[1] < n_needed else 1
        assert last_passed(sample, n_needed, nested=nested) == expected
        assert last_passed(shuffled, n_needed, nested=nested) == expected


def test_no_input_is_asked_once_the_outcome_is_certain() -> None:
    asked: list[tuple[int, int]] = []

    def passes(inputs: Sequence[int], step: int) -> list[bool]:
        asked.extend((i, step) for i in inputs)
        return [step == 0] * len(inputs)

    trail = step_down([5, 3, 1], range(10), 8, passes)
    assert [(step.cut, step.n_passed, step.n_failed) for step in trail] == [(5, 8, 0), (3, 0, 3)]
    assert asked == [(i, 0) for i in range(8)] + [(i, 1) for i in range(3)]


# -- the verb on lookup tables ------------------------------------------------------------------------

SCORES = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])


def stable_sizes(model: Any, radius: int, min_rate: float, *, consistent: bool = True) -> set[int]:
    """The sizes at which a ranking by index is stable, by enumeration."""
    full = int(model(np.ones((1, 6), dtype=bool))[0].argmax())
    sizes = set()
    for size in range(7):
        mask = np.arange(6) < size
        if consistent and int(model(mask[None])[0].argmax()) != full:
            continue
        if exact_rate(model, mask, radius) >= F(str(min_rate)):
            sizes.add(size)
    return sizes


@pytest.mark.parametrize("guarantee", ["new inputs", "one input"])
@pytest.mark.parametrize("level", [0.02, 0])
def test_every_sample_of_a_finite_population_together_keeps_the_promise(guarantee: str, level: float) -> None:
    population = [score_table(6, seed=seed, n_classes=2) for seed in (0, 2, 5)]
    good = [stable_sizes(model, 2, 0.6) for model in population]
    question: Any = {"radius": 2, "min_rate": 0.6, "share": 0.5, "confidence": 0.8, "sizes": [5, 4, 2]}
    missed, claimed = 0.0, 0
    for sample in product(range(3), repeat=4):
        selector = calibrate(
            [population[i] for i in sample], [SCORES] * 4, guarantee=guarantee, level=level, rng=0, **question
        )
        share = 1.0 if selector.size is None else sum(selector.size in sizes for sizes in good) / 3
        claimed += selector.size is not None
        missed += (share < 0.5 if guarantee == "new inputs" else 1 - share) / 3**4
    assert claimed > 10
    assert missed <= (0.2 if guarantee == "new inputs" else 0.5)


def threshold_model(n_needed: int, n_features: int = 6) -> Any:
    """Says True as soon as so many of the leading features are shown."""
    return hf.mask_function(lambda masks: masks[:, :n_needed].all(axis=1), n_features=n_features)


def ask(models: Any, method: Any = None, **changes: Any) -> Selector:
    question: dict[str, Any] = {"radius": 2, "min_rate": 0.9, "share": 0.8, "confidence": 0.9, "rng": 0}
    given = [SCORES] * len(models) if method is None else method
    return calibrate(models, given, **(question | {"sizes": range(1, 6)} | changes))


def test_the_size_is_the_smallest_of_those_that_enough_inputs_need() -> None:
    models = [threshold_model(3)] * 28 + [threshold_model(5)] * 2
    selector = ask(models)
    assert (selector.size, selector.threshold, selector.n_inputs) == (3, None, 30)
    assert selector.select(SCORES).tolist() == [True] * 3 + [False] * 3
    assert selector.select(-SCORES).tolist() == [False] * 3 + [True] * 3
    assert selector.select([1.0, 2.0]).tolist() == [True, True]
    assert ask([threshold_model(3)] * 20 + [threshold_model(5)] * 10).size == 5


def test_one_input_takes_fewer_calibration_inputs_than_a_share_of_all() -> None:
    models = [threshold_model(3)] * 5
    selector = ask(models, guarantee="one input")
    assert (selector.size, selector.confidence) == (3, None)
    with pytest.raises(InvalidValueError, match="`inputs` must be at least 11 for this"):
        ask(models)


def test_for_one_input_a_size_counts_only_if_all_larger_ones_pass_too() -> None:
    functions = {
        "both": lambda masks: np.ones(len(masks), dtype=bool),
        "only two features": lambda masks: masks[:, 1],
        "only one feature": lambda masks: ~masks[:, 1] | masks.all(axis=1),
    }
    both, two, one = (hf.mask_function(function, n_features=3) for function in functions.values())
    models, scores = [both] * 4 + [two] * 3 + [one] * 3, [SCORES[:3]] * 10
    question: Any = {"sizes": [1, 2], "radius": 1, "min_rate": 0.6, "share": 0.5, "confidence": 0.8}
    assert ask(models, scores, **question).size == 1  # seven pass with two features, and seven with one
    assert ask(models, scores, guarantee="one input", **question).size == 2


def test_where_nothing_passes_all_features_are_selected_and_nothing_is_claimed() -> None:
    selector = ask([threshold_model(6)] * 15)
    assert selector.size is None
    assert selector.select(SCORES).all()
    assert str(selector).startswith("Select all features: no fewer by the given scores")
    assert len(selector.groups[0].trail) == 1


def test_a_selection_that_is_predicted_otherwise_fails_unless_that_is_allowed() -> None:
    model = hf.mask_function(lambda masks: masks.all(axis=1), n_features=6)  # False whatever is shown, but for all
    assert ask([model] * 15, sizes=[3, 2, 1]).size is None
    assert ask([model] * 15, sizes=[3, 2, 1], consistent=False).size == 1


def test_fractions_fit_inputs_of_any_length() -> None:
    models = [threshold_model(3, 6)] * 10 + [threshold_model(6, 12)] * 10
    scores = [SCORES] * 10 + [np.arange(12, 0, -1)] * 10
    selector = ask(models, scores, sizes=[0.25, 0.5, 0.75])
    assert (selector.by, selector.size) == ("fraction", 0.5)
    assert selector.select(np.arange(8)).sum() == 4
    assert ask(models, scores, sizes=None).size == 0.5
    with pytest.raises(InvalidValueError, match="`sizes` must be numbers of features"):
        ask(models, scores, sizes=[0.5, 2])


def test_a_number_beyond_the_features_means_all_of_them() -> None:
    assert ask([threshold_model(6)] * 15, sizes=[9]).size == 9
    assert cut_ranking(SCORES, "size", 9).all()


def test_thresholds_are_tested_from_the_lowest_score_to_the_highest() -> None:
    selector = ask([threshold_model(3)] * 15, sizes=None, thresholds=[4.5, 2.5, 0.5, 9.0])
    assert selector.cuts == (0.5, 2.5, 4.5, 9.0)
    assert (selector.threshold, selector.size) == (2.5, None)
    assert selector.select(SCORES).tolist() == hf.above(SCORES, 2.5).tolist()
    assert "scores above 2.5" in str(selector)


def test_a_selection_of_nothing_is_judged_as_it_is() -> None:
    constant = hf.mask_function(lambda masks: np.ones(len(masks), dtype=bool), n_features=6)
    assert ask([constant] * 15, sizes=None, thresholds=[9.0]).threshold == 9.0
    assert ask([constant] * 15, sizes=[0]).size == 0


def test_ranking_by_size_of_scores_is_part_of_the_selector() -> None:
    selector = ask([threshold_model(3)] * 15, [-SCORES] * 15, absolute=True)
    assert selector.size == 3
    assert selector.select(-SCORES).tolist() == [True] * 3 + [False] * 3


def test_classes_get_sizes_of_their_own_and_small_ones_all_features() -> None:
    def scores_for(n_needed: int, class_: int) -> Any:
        def function(masks: Any) -> Any:
            shown = masks[:, :n_needed].all(axis=1)
            return np.stack([np.where(shown, float(column == class_), column == 3) for column in range(4)], axis=1)

        return hf.mask_function(function, n_features=6)

    models = [scores_for(2, 0)] * 20 + [scores_for(4, 1)] * 20 + [scores_for(2, 2)] * 3
    selector = ask(models, per_class=True)
    assert [(g.prediction, g.n_inputs, g.cut) for g in selector.groups] == [(0, 20, 2), (1, 20, 4), (2, 3, None)]
    assert selector.groups[0].n_needed == fewest_successes(20, F("0.804"), F(1, 30))
    assert selector.groups[2].n_needed is None
    assert [int(selector.select(SCORES, prediction=c).sum()) for c in (0, 1, 2, 3)] == [2, 4, 6, 6]
    assert "of each class" in str(selector)
    with pytest.raises(InvalidValueError, match="`prediction` must be the class predicted"):
        selector.select(SCORES)
    with pytest.raises(InvalidValueError, match="`prediction` must be the class predicted"):
        _ = selector.size
    one = ask(models, per_class=True, guarantee="one input")
    assert [g.n_needed for g in one.groups] == [17, 17, None]
    thresholds = ask(models, per_class=True, sizes=None, thresholds=[0.5, 1.5, 3.5])
    assert [g.cut for g in thresholds.groups] == [3.5, 1.5, None]
    assert "of each class" in str(thresholds)


def test_a_number_that_names_another_class_than_it_counts_is_refused() -> None:
    models = [
        hf.mask_function(lambda masks, c=c: np.eye(2)[[c] * len(masks)], n_features=6, classes=["1", "0"])
        for c in [0] * 15 + [1] * 2
    ]
    selector = ask(models, per_class=True)
    assert [selector.cut_for(name) for name in ("1", "0")] == [1, None]
    for number in (0, 1):
        with pytest.raises(InvalidValueError, match="in quotes to name that class"):
            selector.cut_for(number)


def test_classes_are_found_by_name_and_numbers_have_none() -> None:
    model = hf.mask_function(lambda masks: np.array([[0.0, 1.0]] * len(masks)), n_features=6, classes=["no", "yes"])
    selector = ask([model] * 15, per_class=True)
    assert selector.groups[0].prediction_name == "yes"
    assert selector.select(SCORES, prediction="yes").sum() == selector.select(SCORES, prediction=1).sum() == 1
    number = hf.mask_function(lambda masks: np.ones((len(masks), 1)), n_features=6)
    with pytest.raises(InvalidValueError, match="`per_class` must be False for a model that returns numbers"):
        ask([number] * 15, per_class=True)


def noisy(seed: int, n_features: int = 40) -> Any:
    """Keeps its prediction on most masks, by chance."""
    weights = np.random.default_rng(seed).normal(size=n_features)
    weights[0] = 6.0
    return hf.mask_function(lambda masks: masks @ weights > 0, n_features=n_features)


def test_draws_do_not_depend_on_batches_or_threads_and_repeat_with_the_key() -> None:
    models, question = [noisy(seed) for seed in range(14)], {"radius": 30, "sizes": [1, 5, 20]}
    scores = [np.arange(40, 0, -1)] * 14
    first = ask(models, scores, **question)
    again = ask(models, scores, batch_size=3, **{**question, "rng": first.rng_key})
    assert first == again
    assert ask(models, scores, **{**question, "rng": np.random.default_rng(1)}).rng_key > 2**64


def test_inputs_that_are_the_same_are_tested_on_draws_of_their_own() -> None:
    model = Recorded(noisy(1))
    ask([model] * 12, [np.arange(40, 0, -1)] * 12, radius=20, sizes=[20])
    drawn = [batch.tobytes() for batch in model.batches if len(batch) > 5]
    assert len(set(drawn)) == len(drawn) > 5


def test_named_methods_and_functions_explain_each_input_with_a_seed_of_its_own() -> None:
    seeds: list[int] = []

    def by_index(model: Any, seed: int) -> Any:
        seeds.append(seed)
        return SCORES

    selector = ask([threshold_model(3)] * 15, by_index)
    assert (selector.size, selector.method) == (3, "by_index")
    assert len(set(seeds)) == len(seeds) <= 15
    lime = ask([threshold_model(3)] * 15, "lime", options={"n_samples": 512})
    assert (lime.size, lime.method, dict(lime.options)) == (3, "lime", {"n_samples": 512})
    given = [hf.attribute(threshold_model(3), "occlusion")] * 15
    assert ask([threshold_model(3)] * 15, given).method == "occlusion"


def test_level_zero_counts_only_exact_rates() -> None:
    scores = [np.arange(40, 0, -1)] * 14
    steady = hf.mask_function(lambda masks: np.ones(len(masks), dtype=bool), n_features=40)
    assert ask([steady] * 14, scores, radius=30, sizes=[5]).size == 5
    assert ask([steady] * 14, scores, radius=30, sizes=[5], level=0).size is None
    few = ask([steady] * 14, scores, radius=2, sizes=[5], level=0)  # 631 masks each: all are listed
    assert (few.size, few.level, few.max_draws) == (5, 0.0, None)
    assert ask([threshold_model(3)] * 14, level=0).size == 3
    with pytest.raises(InvalidValueError, match="`max_draws` must be left out if `level` is 0"):
        ask([steady] * 14, scores, level=0, max_draws=50)


def test_a_calibration_costs_no_more_than_planned() -> None:
    models = [noisy(seed) for seed in range(30)]
    question: dict[str, Any] = {"share": 0.5, "min_rate": 0.8, "sizes": [30, 10, 2]}
    plan = plan_calibration(30, **question)
    selector = ask(models, [np.arange(40, 0, -1)] * 30, radius=35, **question)
    assert selector.groups[0].n_needed == plan.n_needed
    assert 0 < selector.n_calls <= plan.most_calls
    assert selector.n_calls >= plan.calls_if_stable


def test_a_plan_says_how_many_inputs_are_needed() -> None:
    plan = plan_calibration(20, min_rate=0.9, share=0.9)
    assert (plan.fewest_inputs, plan.n_needed) == (23, None)
    assert str(plan) == "20 inputs are too few: at least 23 are needed."
    enough = plan_calibration(23, min_rate=0.9, share=0.9, sizes=[1, 2])
    assert (enough.n_needed, enough.n_cuts) == (23, 2)
    assert str(enough).startswith("23 of 23 inputs must pass.")
    one = plan_calibration(10, min_rate=0.9, share=0.9, guarantee="one input")
    assert (one.fewest_inputs, one.n_needed) == (10, 10)
    exact = plan_calibration(22, min_rate=0.9, share=0.9, level=0, thresholds=[0.0])
    assert (exact.fewest_inputs, exact.n_needed) == (22, 22)


@given(st.sampled_from(["new inputs", "one input"]), st.integers(1, 99), st.integers(0, 99), st.integers(1, 99))
def test_fewest_inputs_are_the_fewest_that_can_succeed(guarantee: str, share: int, level: int, sure: int) -> None:
    goal = CalibrationGoal.check(guarantee, F(share, 100), F(level, 100), F(sure, 100))
    fewest = goal.fewest_inputs
    assert goal.n_needed(fewest) is not None
    assert fewest == 1 or goal.n_needed(fewest - 1) is None


# -- what it says -------------------------------------------------------------------------------------


def test_the_sentence_is_short_and_says_what_is_promised() -> None:
    selector = ask([threshold_model(3)] * 15)
    assert str(selector) == (
        "Select the top 3 features by the given scores: ≥80% of new inputs stay stable in ≥90% of cases "
        "(90% confidence), adding up to 2."
    )
    assert f"It took 15 inputs and {selector.n_calls} model calls." in selector.explain()
    one = ask([threshold_model(3)] * 15, sizes=[0.5], guarantee="one input")
    assert "Select the top 0.5 of features" in str(one)
    assert "a new input stays stable in ≥90% of cases (probability ≥80%)" in str(one)
    assert "One new input has a stable explanation with probability at least 80%" in one.explain()
    assert all(len(str(result).split()) <= 25 for result in (one, selector))


def test_a_selector_is_read_back_from_json() -> None:
    for selector in (
        ask([threshold_model(3)] * 15),
        ask([threshold_model(6)] * 15, guarantee="one input"),
        ask([threshold_model(3)] * 30, per_class=True, sizes=None, thresholds=[0.5, 2.5]),
    ):
        again = Selector.from_json(selector.to_json())
        assert again == selector
        assert str(again) == str(selector)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("groups", 0, "n_needed"), 12),
        (("groups", 0, "n_inputs"), 0),
        (("groups", 0, "trail", 0, "cut"), 4),
        (("groups", 0, "trail", 0, "n_passed"), 3),
        (("groups", 0, "trail", 3, "n_passed"), 15),
        (("groups", 0, "trail"), []),
        (("groups",), []),
        (("cuts",), [1, 2, 3, 4, 5]),
        (("confidence",), None),
        (("confidence",), 0.99),
        (("guarantee",), "one input"),
        (("share",), 0.99),
        (("level",), 0.6),
        (("level",), 1.5),
        (("by",), "length"),
        (("radius",), 0),
        (("n_calls",), -1),
        (("neighborhood",), "elsewhere"),
        (("min_rate",), 1.0),
        (("max_draws",), None),
    ],
)
def test_an_edited_selector_is_refused(path: tuple[Any, ...], value: Any) -> None:
    data = json.loads(ask([threshold_model(3)] * 15).to_json())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InvalidValueError, match="not a valid holdfast"):
        Selector.from_json(json.dumps(data))


def test_two_groups_of_one_class_or_of_all_inputs_are_refused() -> None:
    data = json.loads(ask([threshold_model(3)] * 15).to_json())
    data["groups"] *= 2
    with pytest.raises(InvalidValueError, match="one for all inputs, or one per class"):
        Selector.from_json(json.dumps(data))
    few = json.loads(ask([threshold_model(3)] * 15, per_class=True).to_json())
    few["groups"][0] |= {"n_inputs": 2, "n_needed": None}
    with pytest.raises(InvalidValueError, match="`trail` must follow `cuts`"):
        Selector.from_json(json.dumps(few))


def test_a_selector_is_confirmed_by_calibrating_again() -> None:
    models = [threshold_model(3)] * 15
    selector = ask(models, "occlusion")
    check = hf.recheck(models, selector)
    assert check.confirmed
    assert check.not_identified == ("masking", "model", "input")
    other = hf.recheck([threshold_model(4)] * 15, selector)
    assert not other.confirmed
    assert any("groups[0].trail" in difference for difference in other.differences)
    per_class = ask([threshold_model(3)] * 30, "occlusion", per_class=True, sizes=None, thresholds=[0.0])
    assert hf.recheck([threshold_model(3)] * 30, per_class).confirmed


def test_methods_and_rules_of_ones_own_must_be_given_to_confirm() -> None:
    models = [threshold_model(3)] * 15
    selector = ask(models)
    with pytest.raises(InvalidValueError, match=r"`method` must be .*, which made the explanations"):
        hf.recheck(models, selector)
    assert hf.recheck(models, selector, method=[SCORES] * 15).confirmed

    def same(outputs: Any, reference: Any) -> Any:
        return outputs == reference

    judged = ask(models, "occlusion", agree=same, guarantee="one input")
    assert judged.agree != "same_top_class"
    with pytest.raises(InvalidValueError, match="`agree` must be given"):
        hf.recheck(models, judged)
    assert hf.recheck(models, judged, agree=same).confirmed


# -- what is refused, and what happens in between -----------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"share": 1.0}, InvalidValueError, "`share` must be"),
        ({"min_rate": 0}, InvalidValueError, "`min_rate` must be"),
        ({"level": 1}, InvalidValueError, "`level` must be"),
        ({"level": "little"}, InvalidTypeError, "`level` must be"),
        ({"confidence": 2}, InvalidValueError, "`confidence` must be"),
        ({"radius": 0}, InvalidValueError, "`radius` must be"),
        ({"guarantee": "everything"}, InvalidValueError, "`guarantee` must be"),
        ({"sizes": []}, InvalidValueError, "`sizes` must be .* got none"),
        ({"sizes": [-1]}, InvalidValueError, "`sizes` must be"),
        ({"sizes": ["many"]}, InvalidTypeError, "`sizes` must be"),
        ({"sizes": None, "thresholds": []}, InvalidValueError, "`thresholds` must be .* got none"),
        ({"sizes": None, "thresholds": [math.nan]}, InvalidValueError, "`thresholds` must be"),
        ({"thresholds": [1.0]}, InvalidValueError, "`thresholds` must be left out"),
        ({"per_class": 1}, InvalidTypeError, "`per_class` must be"),
        ({"rng": "canonical"}, InvalidValueError, "`rng` must be a seed"),
        ({"method": [SCORES] * 3}, InvalidValueError, "`method` must be one attribution per input: there are 15"),
        ({"method": [SCORES[:4]] * 15}, InvalidValueError, "`method` must have one score per feature"),
        ({"method": "no such method"}, InvalidValueError, "`method` must be"),
        ({"options": {"n_samples": 9}}, InvalidValueError, "`options` must be left out"),
        (
            {"method": "lime", "options": {"keep": object()}},
            InvalidTypeError,
            "`options` must map names to numbers and texts",
        ),
        ({"method": "lime", "options": "much"}, InvalidTypeError, "`options` must map names to numbers and texts"),
        (
            {"agree": hf.judging.judge(lambda a, b: a == b, errors=hf.judging.judge_errors(50, 1, 2))},
            InvalidValueError,
            "`agree` must",
        ),
        ({"models": [lambda masks: masks]}, InvalidTypeError, "`inputs` must be masked models"),
        ({"models": 5}, InvalidTypeError, "`inputs` must be masked models"),
        ({"models": []}, InvalidValueError, "`inputs` must be at least 11"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_model_call(changes: Any, error: Any, message: str) -> None:
    model = Recorded(threshold_model(3))
    models, method = changes.pop("models", [model] * 15), changes.pop("method", [SCORES] * 15)
    with pytest.raises(error, match=message):
        ask(models, method, **changes)
    assert not model.batches


def test_an_iterator_of_inputs_does_as_well() -> None:
    question: Any = {"radius": 2, "min_rate": 0.9, "share": 0.8, "sizes": [3], "rng": 0}
    assert calibrate((threshold_model(3) for _ in range(15)), "occlusion", **question).size == 3


def test_progress_counts_tests_and_ends() -> None:
    seen: list[tuple[int, int]] = []
    ask([threshold_model(3)] * 15, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (1, 75)
    assert seen[-1] == (75, 75)
    assert all(done < 75 for done, _ in seen[:-1])
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_an_interrupt_says_what_was_spent_and_leaves_nothing_behind() -> None:
    def interrupt(n: int, masks: Any) -> None:
        if n == 9:
            raise KeyboardInterrupt

    whole = ask([threshold_model(3)] * 15)
    model = Recorded(threshold_model(3), interrupt)
    with pytest.raises(KeyboardInterrupt) as stop:
        ask([model] * 15)
    assert stop.value.__notes__[0].startswith("Stopped after ")
    assert ask([model] * 15) == whole


# -- distributions and kinds of inputs -------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95])
def test_exact_rates_weigh_masks_by_their_probability(probability: float) -> None:
    model = hf.mask_function(lambda masks: masks[:, 1:].sum(axis=1) >= 5, n_features=7)
    scores, distribution = np.arange(7)[::-1].astype(float), hf.distributions.Bernoulli(probability)
    asked: dict[str, Any] = {"radius": 7, "share": 0.9, "sizes": [3], "neighborhood": distribution, "consistent": False}
    # Three features shown, of which the first does not count: the prediction False stays while at most 2 of 4 come.
    p = F(str(probability))
    stays = sum((math.comb(4, k) * p**k * (1 - p) ** (4 - k) for k in range(3)), F(0))
    for min_rate, passes in ((float(stays) - 1e-6, True), (float(stays) + 1e-6, False)):
        selector = calibrate([model] * 40, [scores] * 40, min_rate=min_rate, level=0, rng=0, **asked)
        assert (selector.size == 3) is passes


def test_a_distribution_of_the_users_own_is_given_again_to_confirm_a_selector() -> None:
    class Halves:
        name = "halves"

        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            return selected | (rng.random((n, len(selected))) < 0.5)

    model = hf.mask_function(lambda masks: masks[:, 0], n_features=5)
    scores = [np.arange(5.0)[::-1]] * 30
    asked: dict[str, Any] = {"radius": 5, "min_rate": 0.9, "share": 0.8, "sizes": [2, 1], "rng": 0}
    selector = calibrate([model] * 30, scores, neighborhood=Halves(), **asked)
    assert (selector.size, selector.neighborhood) == (1, "own law halves")
    assert hf.recheck([model] * 30, selector, method=scores, neighborhood=Halves()).confirmed
    with pytest.raises(InvalidValueError, match="`neighborhood` must be 'halves', which drew the masks"):
        hf.recheck([model] * 30, selector, method=scores)
    assert Selector.from_json(selector.to_json()) == selector


def test_inputs_of_two_kinds_and_distributions_that_do_not_fit_are_refused_before_they_cost_anything() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3))
    drawn = hf.mask_tabular(lambda batch: batch[:, 0] > 0, rows[0], fill=hf.resample(rows))
    plain = hf.mask_tabular(lambda batch: batch[:, 0] > 0, rows[0], background=rows)
    asked: dict[str, Any] = {"radius": 1, "min_rate": 0.5, "share": 0.5, "rng": 0}
    for models in ([plain] + [drawn] * 29, [drawn] + [plain] * 29):
        with pytest.raises(
            InvalidValueError, match="`inputs` must either all have random fills or all have fixed ones"
        ):
            calibrate(models, "occlusion", **asked)
    calls: list[int] = []

    def count(masks: Any) -> Any:
        calls.append(len(masks))
        return masks[:, 0]

    model = hf.mask_function(count, n_features=6)
    with pytest.raises(InvalidValueError, match="`radius` must be at most 2"):
        calibrate(
            [model] * 30,
            "occlusion",
            neighborhood=hf.distributions.Weighted([1] * 6, radius=2),
            **{**asked, "radius": 5},
        )
    assert not calls


# -- what a selector refuses, and how little it selects -----------------------------------------------


def first_of(n_features: int) -> Any:
    return hf.mask_function(lambda masks: masks[:, 0], n_features=n_features)


def test_a_fraction_selects_at_least_one_feature_in_calibration_and_after_it() -> None:
    for n, fraction in product(range(1, 12), (0.05, 0.1, 0.5, 0.95)):
        assert cut_ranking(np.arange(n), "fraction", fraction).sum() == max(1, int(F(str(fraction)) * n))
    asked = {"radius": 2, "min_rate": 0.9, "share": 0.8, "sizes": [0.5, 0.1], "rng": 0}
    selector = calibrate([first_of(8)] * 20, "occlusion", **asked)
    assert selector.size == 0.1
    assert selector.select([5, 1, 1, 1, 1, 1, 1, 1]).nonzero()[0].tolist() == [0]


@pytest.mark.parametrize("name", ["rng", "model", "method"])
def test_options_that_calibrate_gives_itself_are_refused(name: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"`options` must leave out `{name}`"):
        calibrate([first_of(8)] * 20, "lime", radius=2, min_rate=0.9, share=0.8, options={name: 1})


def test_scores_by_another_method_are_refused_and_bare_ones_taken() -> None:
    asked = {"radius": 2, "min_rate": 0.9, "share": 0.8, "sizes": [2], "rng": 0}
    model = first_of(8)
    selector = calibrate([model] * 20, "occlusion", **asked)
    scores = hf.attribute(model, "occlusion")
    assert np.array_equal(selector.select(scores), selector.select(scores.scores))
    with pytest.raises(
        InvalidValueError, match="`scores` must be made by 'occlusion', as in the calibration, got 'lime'"
    ):
        selector.select(hf.attribute(model, "lime", rng=0))
    own = calibrate([model] * 20, lambda masked, seed: hf.attribute(masked, "occlusion"), **asked)
    assert own.select(hf.attribute(model, "lime", rng=0)).sum() == 2  # what a function returns may have any name
    with pytest.raises(InvalidValueError, match=r"Pass it in Python: `hf.recheck\(inputs, selector, method=…\)`"):
        hf.recheck([model] * 20, own)


class NamedClasses:
    n_features, classes = 8, ("no", "yes", "perhaps")

    def __call__(self, masks: Any) -> Any:
        return np.stack([~masks[:, 0], masks[:, 0], masks[:, 0] & False], axis=1).astype(float)


def test_names_that_no_class_has_are_refused_and_classes_without_inputs_get_all_features() -> None:
    asked = {"radius": 2, "min_rate": 0.9, "share": 0.8, "sizes": [2], "rng": 0, "per_class": True}
    selector = calibrate([NamedClasses()] * 20, "occlusion", **asked)
    assert selector.cut_for("yes") == selector.cut_for(1) == 2
    assert selector.cut_for("perhaps") is selector.cut_for(2) is None
    assert selector.select(np.arange(8), prediction="perhaps").all()
    with pytest.raises(
        InvalidValueError, match=r"`prediction` must be the name of a class of the model, got 'yess'.*'yes'"
    ):
        selector.select(np.arange(8), prediction="yess")
    assert Selector.from_json(selector.to_json()) == selector
    unnamed = hf.mask_function(lambda masks: NamedClasses()(masks), n_features=8)
    with pytest.raises(InvalidValueError, match="must be a label as the model returns it: its classes have no names"):
        calibrate([unnamed] * 20, "occlusion", **asked).cut_for("yes")
    labels = hf.mask_function(lambda masks: np.where(masks[:, 0], "a", "b"), n_features=8)
    assert calibrate([labels] * 20, "occlusion", **asked).cut_for("c") is None


def test_tests_of_a_selector_are_a_frame_with_every_group_in_it() -> None:
    pytest.importorskip("pandas")
    asked = {"radius": 2, "min_rate": 0.9, "share": 0.8, "sizes": [3, 2], "rng": 0}
    frame = calibrate([first_of(8)] * 20, "occlusion", **asked).to_frame()
    assert frame["cut"].tolist() == [3, 2]
    assert (frame["n_passed"] == frame["n_needed"]).all()
    no = hf.mask_function(lambda masks: ~masks[:, 0] & False, n_features=8)
    frame = calibrate([first_of(8)] * 20 + [no], "occlusion", per_class=True, **asked).to_frame()
    few = frame[frame["cut"].isna()]
    assert few["prediction"].tolist() == [False]
    assert few["n_inputs"].tolist() == [1]


@pytest.mark.parametrize("level", [0.02, 0])
def test_a_distribution_needs_no_radius_and_counts_masks_by_their_probability(level: float) -> None:
    # Feature 7 changes the prediction. It is revealed in a tenth of the cases, though half of all masks have it.
    model = hf.mask_function(lambda masks: ~masks[:, 7], n_features=8)
    scores = [np.arange(8, 0, -1)] * 20
    asked = {"min_rate": 0.8, "share": 0.8, "sizes": [2], "level": level, "consistent": False, "rng": 0}
    for distribution in (hf.distributions.Bernoulli(0.1), hf.distributions.Bernoulli([0.1] * 8)):
        selector = calibrate([model] * 20, scores, neighborhood=distribution, **asked)
        assert (selector.size, selector.radius) == (2, None)
        assert "0.1" in str(selector) or "of its own" in str(selector)
        assert Selector.from_json(selector.to_json()) == selector
        assert hf.recheck([model] * 20, selector, method=scores).confirmed
    assert calibrate([model] * 20, scores, neighborhood=hf.distributions.Bernoulli(0.5), **asked).size is None
    with pytest.raises((InvalidTypeError, InvalidValueError), match="`radius`"):
        calibrate([model] * 20, scores, **asked)


def test_a_plan_of_one_input_or_one_size_is_told_in_the_singular() -> None:
    assert str(plan_calibration(1, min_rate=0.9, share=0.8)).startswith("1 input is too few: at least")
    assert ", all 2 sizes at most " in str(plan_calibration(50, min_rate=0.9, share=0.8, sizes=[2, 3]))
    assert ", its test at most " in str(plan_calibration(50, min_rate=0.9, share=0.8, sizes=[2]))


class NumberedClasses:
    n_features, classes = 6, ("1", "2")

    def __init__(self, first: bool) -> None:
        self.first = first

    def __call__(self, masks: Any) -> Any:
        one = masks[:, 0] == self.first
        return np.stack([one, ~one], axis=1).astype(float)


def test_a_number_that_is_the_name_of_another_class_is_refused() -> None:
    models = [NumberedClasses(i % 2 == 0) for i in range(60)]
    asked: dict[str, Any] = {"radius": 2, "min_rate": 0.9, "share": 0.5, "sizes": [2], "rng": 0, "per_class": True}
    selector = calibrate(models, [np.arange(6.0)[::-1]] * 60, **asked)
    assert [group.prediction_name for group in selector.groups] == ["1", "2"]
    assert selector.cut_for(0) == selector.cut_for("1") == selector.cut_for("2") == 2
    for label in (1, np.int64(1)):
        with pytest.raises(InvalidValueError, match="`prediction` must be '1' in quotes to name that class"):
            selector.select(np.arange(6), prediction=label)

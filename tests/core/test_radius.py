"""Certified radii: each step, the search, and what is said of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import RadiusCertificate, certified_radius, mask_function
from holdfast.certification import RadiusStep
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans import rate_test
from tests.helpers import strategies
from tests.helpers.fakes import Recorded, label_table, score_table
from tests.helpers.hardest import ball_sizes, constant_rate, remembered, table_of_balls
from tests.helpers.oracles import exact_rate, neighbors

F = Fraction

TWELVE = np.arange(12) < 2
SIZES = ball_sizes(TWELVE)
"""1, 11, 56, 176, 386, 638, 848, 968, 1013, 1023, 1024 masks."""


def always(n_features: int = 40) -> Any:
    """A model that never changes its mind."""
    return mask_function(lambda masks: masks[:, 0] | True, n_features=n_features)


# -- each step --------------------------------------------------------------------------------------


def test_a_model_that_always_agrees_needs_27_draws_at_each_sampled_radius() -> None:
    selected = np.arange(40) < 20
    found = certified_radius(always(), selected, min_rate=0.9, confidence=0.9, rng=0)
    assert found.radius == 20
    assert [(step.radius, step.answer) for step in found.trail] == [(r, True) for r in range(1, 21)]
    assert [step.n_evaluated for step in found.trail] == [21] + [27] * 19
    assert [step.exact for step in found.trail] == [True] + [False] * 19
    assert found.n_calls <= 3 + 21 + 19 * 27


@settings(max_examples=60)
@given(question=strategies.questions(max_features=4), kind=strategies.kinds, min_rate=st.sampled_from([0.5, 0.75, 0.9]))
def test_small_neighborhoods_are_decided_by_enumeration(question: Any, kind: str, min_rate: float) -> None:
    model, selected, _ = question
    found = certified_radius(model, selected, min_rate=min_rate, confidence=0.999, neighborhood=kind, rng=0)
    expected = 0
    for step in found.trail:
        truth = exact_rate(model, selected, step.radius, neighborhood=kind)
        size = len(neighbors(selected, step.radius, kind))
        if size <= rate_test(min_rate, 0.999).fewest_for_yes:
            assert step.exact
            assert (step.answer, F(step.n_agreed, step.n_evaluated)) == (truth >= F(repr(min_rate)), truth)
        expected = step.radius if step.answer else expected
    assert found.radius == expected
    assert all(step.answer for step in found.trail[:-1])


@pytest.mark.parametrize(("n_agreed", "answer"), [(9, True), (8, False)])
def test_a_rate_of_exactly_the_minimum_is_enough(n_agreed: int, answer: bool) -> None:
    selected = np.arange(10) < 1
    found = certified_radius(table_of_balls(selected, [1, n_agreed]), selected, min_rate=0.9, radii=[1], rng=0)
    assert found.trail == (RadiusStep(1, 1, answer, n_agreed, 10, True),)
    assert found.radius == (1 if answer else 0)


def test_draws_that_cannot_tell_give_way_to_enumeration_where_it_is_affordable() -> None:
    # 386 masks at radius 4, 348 of them agreeing: draws decide between 9/10 and 348/386 only by luck.
    model = table_of_balls(TWELVE, [1, 11, 52, 160, 348])
    assert exact_rate(model, TWELVE, 4) >= F(9, 10)
    evaluator, test = remembered(model), rate_test(0.9, 0.9)
    steps = [
        certified_radius(evaluator, TWELVE, min_rate=0.9, radii=[4], check_determinism=False, rng=seed).trail[0]
        for seed in range(100)
    ]
    exact = [step for step in steps if step.exact]
    assert 0 < len(exact) < len(steps)
    assert SIZES[4] <= test.max_draws
    assert {(step.answer, step.n_agreed, step.n_evaluated) for step in exact} == {(True, 348, 386)}
    assert all(step.answer is not None for step in steps)


def test_draws_that_cannot_tell_end_the_search_without_an_answer() -> None:
    model = table_of_balls(TWELVE, constant_rate(TWELVE, 0.9))
    evaluator = remembered(model)
    asked = {"min_rate": 0.9, "radii": [8, 9], "max_draws": 60, "check_determinism": False}
    trails = [certified_radius(evaluator, TWELVE, rng=seed, **asked).trail for seed in range(100)]
    unsure = [trail[-1] for trail in trails if trail[-1].answer is None]
    assert len(unsure) > 20
    assert all(step.n_evaluated == 60 and not step.exact for step in unsure)


def test_the_search_ends_at_the_first_radius_that_is_not_certified() -> None:
    # Radius 1 agrees, radius 2 does not, all larger radii do again.
    model = mask_function(lambda masks: masks.sum(axis=1) != 6, n_features=40)
    found = certified_radius(model, np.arange(40) < 4, min_rate=0.9, rng=0)
    assert [(step.radius, step.answer) for step in found.trail] == [(1, True), (2, False)]
    assert found.radius == 1
    assert exact_rate_of_two_more(36) < 0.9


def exact_rate_of_two_more(m: int) -> float:
    """Rate within radius 2 when exactly the masks of two additions disagree."""
    return (1 + m) / (1 + m + m * (m - 1) / 2)


def test_the_radius_is_zero_when_the_first_fails() -> None:
    model = mask_function(lambda masks: masks.sum(axis=1) == 4, n_features=40)
    found = certified_radius(model, np.arange(40) < 4, min_rate=0.9, radii=[3, 5], rng=0)
    assert found.radius == 0
    assert [(step.radius, step.answer) for step in found.trail] == [(3, False)]


def test_only_the_radii_asked_for_are_tested_in_increasing_order() -> None:
    found = certified_radius(always(), np.arange(40) < 4, min_rate=0.9, radii=[30, 2, 7, 7], rng=0)
    assert [step.radius for step in found.trail] == [2, 7, 30]
    assert found.radius == 30


def test_radii_beyond_the_last_feature_repeat_the_answer_and_cost_nothing() -> None:
    selected = np.arange(40) < 4
    plain = certified_radius(always(), selected, min_rate=0.9, radii=[5, 36], rng=0)
    found = certified_radius(always(), selected, min_rate=0.9, radii=[5, 36, 37, 90], rng=0)
    assert found.n_calls == plain.n_calls
    assert found.radius == 90
    assert found.trail[2:] == tuple(RadiusStep(radius, 36, True, 27, 27, False) for radius in (37, 90))


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_by_default_every_radius_up_to_the_last_feature_is_tested(kind: str) -> None:
    selected = np.arange(40) < 14
    found = certified_radius(always(), selected, min_rate=0.9, neighborhood=kind, rng=0)
    assert found.radius == {"additions": 26, "removals": 14, "swaps": 14}[kind]
    everything = certified_radius(always(), np.ones(40, dtype=bool), min_rate=0.9, rng=0)
    assert [(step.effective_radius, step.exact) for step in everything.trail] == [(0, True)]


def test_a_step_does_not_depend_on_the_batch_size_or_on_radii_not_reached() -> None:
    model = label_table(12, seed=3, labels=(0,) * 19 + (1,))
    found = certified_radius(model, TWELVE, min_rate=0.8, radii=range(3, 11), rng=1)
    for batch_size in (1, 13, 10_000):
        again = certified_radius(model, TWELVE, min_rate=0.8, radii=range(3, 11), batch_size=batch_size, rng=1)
        assert again == found
    alone = [certified_radius(model, TWELVE, min_rate=0.8, radii=[r], rng=1).trail[0] for r in range(3, 11)]
    assert found.trail == tuple(alone[: len(found.trail)])
    assert len(found.trail) > 2


# -- as a value -------------------------------------------------------------------------------------


def test_a_certified_radius_survives_json_and_its_key_repeats_it() -> None:
    model = score_table(12, seed=5)
    found = certified_radius(model, TWELVE, min_rate=0.5, agree="same_top_set(2)", rng=None)
    assert RadiusCertificate.from_json(found.to_json()) == found
    assert certified_radius(model, TWELVE, min_rate=0.5, agree="same_top_set(2)", rng=found.rng_key) == found
    assert certified_radius(model, TWELVE, min_rate=0.6, agree="same_top_set(2)", rng=found.rng_key) != found


def test_the_words_claim_the_tested_radii_and_nothing_larger() -> None:
    selected = np.arange(40) < 4
    yes = certified_radius(always(), selected, min_rate=0.9, radii=[2, 7], rng=0)
    assert str(yes).startswith(
        "Stable in at least 90% of cases (90% confidence): revealing up to 7 more features keeps"
    )
    assert str(yes).endswith(", as at all smaller radii tested.")
    assert "(2 tested)" in yes.explain()
    for found in (yes, certified_radius(mask_function(changes, n_features=40), selected, min_rate=0.9, rng=0)):
        assert "nothing about larger or untested radii" in found.explain()
        assert "does not say that the explanation or the prediction is right" in found.explain()
        assert "largest" not in str(found)
        assert "\n" not in str(found)


def changes(masks: Any) -> Any:
    return masks.sum(axis=1) == 4


def test_the_words_claim_nothing_when_nothing_is_certified() -> None:
    text = str(certified_radius(mask_function(changes, n_features=40), np.arange(40) < 4, min_rate=0.9, rng=0))
    assert text.startswith("No radius is certified")
    assert "confidence" not in text
    assert "too few agreeing draws at radius 1" in text, "a rate that was drawn is not said to be smaller"
    assert "the full input" in text


def test_the_words_say_when_there_were_not_enough_draws() -> None:
    model = mask_function(lambda masks: masks[:, 5] | masks[:, 6], n_features=20)
    found = certified_radius(model, np.arange(20) < 4, min_rate=0.5, radii=[6], max_draws=22, rng=0)
    assert found.trail[0].answer is None
    assert "not enough draws at radius 6" in str(found)
    assert "there were not enough draws to tell" in found.explain()


def test_the_words_say_up_to_which_radius_the_trivial_radius_is_certified() -> None:
    # Radius 0 is the explanation itself: asked for, tested and certified. "No radius" would be false.
    found = certified_radius(always(), np.arange(40) < 4, min_rate=0.9, radii=[0], rng=0)
    assert found.trail[0].answer
    assert not str(found).startswith("No radius")


# -- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"min_rate": 0}, InvalidValueError, "`min_rate` must be a number strictly between 0 and 1, got 0."),
        ({"min_rate": 1}, InvalidValueError, "`min_rate` must be a number strictly between 0 and 1, got 1."),
        ({"min_rate": "0.9"}, InvalidTypeError, "`min_rate` must be a number strictly between 0 and 1, got '0.9'."),
        ({"min_rate": [0.9]}, InvalidTypeError, r"`min_rate` must be a number strictly between 0 and 1, got \[0.9\]."),
        ({"confidence": 1.0}, InvalidValueError, "`confidence` must be a number strictly between 0 and 1, got 1.0."),
        ({"confidence": {}}, InvalidTypeError, "`confidence` must be a number strictly between 0 and 1, got {}."),
        ({"radii": []}, InvalidValueError, "`radii` must name at least one radius, got none."),
        ({"radii": 5}, InvalidTypeError, "`radii` must be whole numbers such as"),
        ({"radii": "5"}, InvalidTypeError, "`radii` must be whole numbers such as"),
        ({"radii": [-1]}, InvalidValueError, "`radii` must be a whole number ≥ 0, got -1."),
        ({"radii": [1.5]}, InvalidValueError, "`radii` must be a whole number ≥ 0, got 1.5."),
        ({"max_draws": 21}, InvalidValueError, "`max_draws` must be at least 22 to ever answer yes, got 21."),
        ({"max_draws": 0}, InvalidValueError, "`max_draws` must be a whole number ≥ 1, got 0."),
        ({"max_draws": 30.5}, InvalidValueError, "`max_draws` must be a whole number ≥ 1, got 30.5."),
        ({"max_draws": "60"}, InvalidTypeError, "`max_draws` must be a whole number ≥ 1, got '60'."),
        ({"neighborhood": "flips"}, InvalidValueError, "`neighborhood` must be one of"),
        ({"agree": 1}, InvalidTypeError, "`agree` must be a name or a callable"),
        ({"selected": np.ones(11, dtype=bool)}, InvalidValueError, "`selected` must have one entry per feature"),
        ({"rng": 0.5}, InvalidTypeError, "`rng` must be a numpy Generator"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_refused_before_any_model_call(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    recorded = Recorded(score_table(12))
    with pytest.raises(error, match=f"^{message}"):
        certified_radius(recorded, **({"selected": TWELVE, "min_rate": 0.9, "rng": 0} | wrong))
    assert recorded.batches == []

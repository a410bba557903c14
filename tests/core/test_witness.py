from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast import witness as witness_module
from tests.helpers.fakes import Recorded, all_masks, score_table
from tests.helpers.smoothing_oracles import hard_radius
from tests.helpers.strategies import masks, tables


def winners_of(model: hf.MaskedModel) -> np.ndarray:
    outputs = model(all_masks(model.n_features))
    return outputs if outputs.ndim == 1 else outputs.argmax(axis=1)


@given(st.data())
def test_an_exhaustive_witness_is_smallest(data):
    selected = data.draw(masks(1, 5))
    model = data.draw(tables(len(selected)))
    truth = hard_radius(winners_of(model), selected, ~selected)
    found = hf.find_witness(model, selected, rng=0)
    n_free = int((~selected).sum())
    assert found.proven
    assert found.found == (truth < n_free)
    assert found.cleared_radius == truth
    if found.found:
        assert found.n_added == truth + 1 == len(found.added)
        assert (found.mask >= selected).all()
        weights = 1 << np.arange(len(selected))
        assert winners_of(model)[found.mask @ weights] == found.prediction != found.original_prediction
    assert hf.Witness.from_json(found.to_json()) == found


def needs(features: list[int], n_features: int = 40) -> hf.MaskedModel:
    """Class 1 once all of the features are shown; each shown one narrows the gap."""

    def scores(shown):
        share = shown[:, features].mean(axis=1)
        return np.c_[np.full(len(shown), 0.99), share]

    return hf.mask_function(scores, n_features=n_features)


def test_a_guided_search_finds_what_enumeration_cannot_afford():
    features = [5, 11, 17, 23, 30, 38]
    found = hf.find_witness(needs(features), np.zeros(40, dtype=bool), max_radius=10, rng=0)
    assert (found.added, found.proven, found.cleared_radius) == (tuple(features), False, 3)
    assert "fewer than 6 may do" in str(found)
    assert "what it did not find may exist" in found.explain()


def test_what_is_found_beyond_enumeration_cannot_spare_a_feature(monkeypatch):
    monkeypatch.setattr(witness_module, "ALWAYS_EXHAUSTED", 0)
    for seed in range(40):
        model, selected = score_table(9, seed=seed, n_classes=2), np.arange(9) < 1
        found = hf.find_witness(model, selected, max_calls=0 if seed % 2 else 300, rng=seed)
        if not found.found:
            assert not found.proven
            continue
        winners, weights = winners_of(model), 1 << np.arange(9)
        assert winners[found.mask @ weights] != winners[selected @ weights]
        for feature in found.added:
            smaller = found.mask.copy()
            smaller[feature] = False
            if found.n_added > 1:
                assert winners[smaller @ weights] == winners[selected @ weights]
        assert found.n_added > hard_radius(winners, selected, ~selected)


def test_random_orders_find_a_change_without_scores(monkeypatch):
    monkeypatch.setattr(witness_module, "ALWAYS_EXHAUSTED", 0)
    labels = hf.mask_function(lambda shown: shown[:, 20:].sum(axis=1) > 3, n_features=40)
    found = hf.find_witness(labels, np.zeros(40, dtype=bool), max_calls=3000, rng=0)
    assert found.found
    assert len(found.added) == 4
    assert min(found.added) >= 20


def test_levels_of_up_to_4096_masks_are_exhausted_whatever_the_budget():
    recorded = Recorded(hf.mask_function(lambda shown: np.zeros(len(shown), dtype=int), n_features=20))
    found = hf.find_witness(recorded, np.zeros(20, dtype=bool), max_radius=3, max_calls=0, rng=0)
    assert (found.found, found.proven, found.cleared_radius) == (False, True, 3)
    assert recorded.n_rows == 1 + 20 + 190 + 1140 == found.n_calls
    assert str(found) == "Proven: no addition of up to 3 features changes the prediction 0."


def test_the_reach_is_respected():
    found = hf.find_witness(needs([1, 2, 3, 4, 5, 6]), np.zeros(40, dtype=bool), max_radius=5, rng=0)
    assert (found.found, found.proven) == (False, False)
    assert found.max_radius == 5


def test_other_agreements_have_witnesses_too():
    model = hf.mask_function(lambda shown: shown.sum(axis=1, keepdims=True) * 0.1, n_features=10)
    found = hf.find_witness(model, np.zeros(10, dtype=bool), agree=hf.agreement.within(0.35), rng=0)
    assert (found.n_added, found.proven) == (4, True)


def test_an_explanation_of_everything_has_no_witness():
    found = hf.find_witness(score_table(4), np.ones(4, dtype=bool), rng=0)
    assert (found.found, found.proven, found.max_radius) == (False, True, 0)


def test_the_same_seed_finds_the_same_witness():
    model = hf.mask_function(lambda shown: np.sin(shown @ np.arange(60) ** 1.5)[:, None] * [1, -1], n_features=60)
    first, again = (hf.find_witness(model, np.arange(60) < 5, rng=3) for _ in range(2))
    assert first == again


@given(st.data())
def test_a_bracket_of_a_model_contains_its_hard_radius(data):
    selected = data.draw(masks(1, 5))
    model = data.draw(tables(len(selected)))
    truth = hard_radius(winners_of(model), selected, ~selected)
    bracket = hf.stability_bracket(model, selected, max_radius=data.draw(st.integers(0, 6)), rng=0)
    assert bracket.low <= truth
    assert bracket.below is None or truth < bracket.below
    assert bracket.method == "enumeration"
    assert bracket.certificate is None
    assert hf.witness.StabilityBracket.from_json(bracket.to_json()) == bracket


def test_a_bracket_of_a_smoothed_model_is_about_that_function():
    rng, by_votes = np.random.default_rng(0), 0
    for trial in range(150):
        selected = rng.random(6) < 0.4
        values = rng.integers(0, 3, size=(64, 3)) + np.array([2, 0, 0])
        model = hf.lookup_table(values.astype(float), n_features=6)
        make = (lambda m, t: hf.mus_model(m, 0.125, 16, rng=t), lambda m, t: hf.smooth(m, 0.2, 16, rng=t))[trial % 2]
        smoothed = make(model, trial)
        truth = hard_radius(winners_of(smoothed), selected, ~selected)
        for reach in (0, 2, None):
            bracket = hf.stability_bracket(make(model, trial), selected, max_radius=reach, rng=0)
            assert bracket.low <= truth
            assert bracket.below is None or truth < bracket.below
            by_votes += bracket.method in ("mus", "bernoulli")
    assert by_votes > 20


def test_a_tight_bracket_says_so():
    model = hf.mask_function(lambda shown: shown[:, 0] & ~(shown[:, 5] & shown[:, 7]), n_features=8)
    bracket = hf.stability_bracket(model, np.arange(8) < 2, rng=0)
    assert bracket.is_tight
    assert "; some 2 change it." in str(bracket)
    never = hf.stability_bracket(hf.mask_function(lambda shown: shown[:, 0], n_features=5), np.arange(5) < 2, rng=0)
    assert (never.below, never.low, never.is_tight) == (None, 3, True)


def test_bad_budgets_are_refused():
    with pytest.raises(ValueError, match="`max_calls` must be a whole number"):
        hf.find_witness(score_table(3), np.arange(3) < 1, max_calls=-1)
    with pytest.raises(ValueError, match="`max_radius` must be a whole number"):
        hf.find_witness(score_table(3), np.arange(3) < 1, max_radius=1.5)


def test_an_agreement_that_does_not_hold_of_itself_is_refused():
    with pytest.raises(ValueError, match="between an output and itself"):
        hf.find_witness(score_table(3), np.arange(3) < 1, agree=lambda outputs, reference: np.zeros(len(outputs), bool))


def test_a_bracket_says_how_far_it_looked():
    never = hf.mask_function(lambda shown: shown[:, 0], n_features=9)
    unsearched = hf.stability_bracket(never, np.arange(9) < 2, max_radius=0, rng=0)
    assert "no more were searched" in str(unsearched)
    assert "which is all there are" in str(hf.stability_bracket(never, np.arange(9) < 2, rng=0))


def test_a_change_found_in_a_random_order_is_reduced_to_what_it_needs(monkeypatch):
    monkeypatch.setattr(witness_module, "ALWAYS_EXHAUSTED", 0)
    both = hf.mask_function(lambda shown: shown[:, 3] & shown[:, 8], n_features=14)
    # Too few calls for a level or a step of the beam: what is found comes from one random order of ten features.
    asked = [
        hf.find_witness(both, np.zeros(14, dtype=bool), max_radius=10, max_calls=13, rng=seed) for seed in range(12)
    ]
    assert {found.added for found in asked} == {(), (3, 8)}
    assert {found.cleared_radius for found in asked} == {0}
    assert not any(found.proven for found in asked)


def test_a_guided_search_follows_the_margin_of_a_score():
    features = [5, 11, 17, 23, 30, 38]
    model = hf.mask_function(lambda shown: shown[:, features].mean(axis=1, keepdims=True), n_features=40)
    found = hf.find_witness(model, np.zeros(40, dtype=bool), max_radius=10, agree=hf.agreement.within(0.99), rng=0)
    assert (found.added, found.proven, found.cleared_radius) == (tuple(features), False, 3)


def test_finding_nothing_is_said_to_prove_nothing_beyond_what_was_exhausted():
    found = hf.find_witness(needs([1, 2, 3, 4, 5, 6]), np.zeros(40, dtype=bool), max_radius=5, rng=0)
    assert "No addition of up to 5 features was found that changes the prediction 0" in str(found)
    assert "; proven up to 3 features." in str(found)


def test_a_bracket_tells_what_is_all_from_what_was_not_searched():
    one_of_four = hf.mask_function(lambda shown: shown.sum(axis=1) > 4, n_features=4)
    nothing = np.zeros(4, dtype=bool)
    assert "which is all there are" in str(hf.stability_bracket(one_of_four, nothing, rng=0))
    assert "no more were searched" in str(hf.stability_bracket(one_of_four, nothing, max_radius=2, rng=0))
    open_ = hf.stability_bracket(needs([1, 2, 3, 4, 5, 6]), np.zeros(40, dtype=bool), max_radius=5, rng=0)
    assert (open_.low, open_.below) == (3, None)
    assert "; up to 5, no change was found." in str(open_)


class Named:
    """A model that names its features."""

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        self._model, self.feature_names, self.n_features = model, names, len(names)

    def __call__(self, masks: Any, /) -> Any:
        return self._model(masks)


def test_a_witness_calls_added_features_by_their_names() -> None:
    names = ("age", "a name of far more than four words", "income", "zip")
    model = hf.lookup_table([0] * 15 + [1], n_features=4)
    named = Named(model, names)
    witness = hf.find_witness(named, [0], rng=0)
    assert witness.added_names == names[1:]
    assert str(witness).startswith("Revealing 'a name of far…', 'income' and 'zip' changes")
    assert hf.Witness.from_json(witness.to_json()) == witness
    assert hf.find_witness(model, [0], rng=0).added_names is None
    with pytest.raises(hf.errors.InvalidValueError, match="one name per feature"):
        dataclasses.replace(witness, added_names=("age",)).check()

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.smoothing import SmoothedModel
from tests.helpers.contracts import check_masked_model
from tests.helpers.fakes import Recorded, all_masks, label_table, score_table
from tests.helpers.smoothing_oracles import bank_votes, expected_votes
from tests.helpers.strategies import masks, score_tables


def tied_table(n_features: int, seed: int, n_classes: int = 3) -> hf.MaskedModel:
    values = np.random.default_rng(seed).integers(0, 3, size=(2**n_features, n_classes))
    return hf.lookup_table(values.astype(float), n_features=n_features)


def tabulated(model: hf.MaskedModel) -> hf.MaskedModel:
    return hf.lookup_table(model(all_masks(model.n_features)), n_features=model.n_features)


@pytest.mark.parametrize("keep", [0.9, 0.5, 0.125, [0.2, 0.4, 0.6, 0.8, 1.0]])
def test_vote_shares_are_near_the_exact_expectation(keep):
    model, n_samples = tied_table(5, seed=1), 4000
    shares = hf.smooth(model, keep, n_samples, rng=0)(all_masks(5))
    # Hoeffding at risk 1e-6, shared among the 32 masks and 3 classes.
    error = math.sqrt(math.log(2 * 96 / 1e-6) / (2 * n_samples))
    np.testing.assert_allclose(shares, expected_votes(model, keep), atol=error)


@pytest.mark.parametrize("keep", [0.75, [0.2, 0.4, 0.6, 0.8, 1.0]])
def test_vote_shares_are_exactly_those_of_the_bank(keep):
    model = tied_table(5, seed=2)
    smoothed = hf.smooth(model, keep, 31, rng=3)
    votes = bank_votes(model, smoothed.bank)
    np.testing.assert_array_equal(smoothed.count_votes(all_masks(5)), votes)
    np.testing.assert_array_equal(smoothed(all_masks(5)), votes / 31)


def test_averaged_scores_are_exactly_those_of_the_bank():
    model = score_table(4, seed=4)
    smoothed = hf.smooth(model, 0.5, 16, votes=False, rng=3)
    for mask in all_masks(4):
        wanted = np.mean([model((mask & row)[None])[0] for row in smoothed.bank], axis=0)
        np.testing.assert_allclose(smoothed(mask[None])[0], wanted, rtol=1e-12)


def test_a_keep_probability_of_one_is_the_model_itself():
    model = score_table(5)
    assert hf.smooth(model, 1.0, 8, rng=0) is model
    assert hf.smooth(model, [1.0] * 5, 8, rng=0) is model


def test_a_smoothed_model_keeps_the_contract_of_masked_models():
    check_masked_model(hf.smooth(score_table(6), 0.6, 12, rng=0))


def test_the_same_seed_is_the_same_function_and_another_is_not():
    model, every = score_table(6), all_masks(6)
    first, again, other = (hf.smooth(model, 0.5, 32, rng=seed)(every) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_larger_keep_probability_keeps_a_superset():
    small, large = (hf.smooth(score_table(6), keep, 50, rng=0).bank for keep in (0.3, 0.7))
    assert (small <= large).all()
    assert small.sum() < large.sum()


def test_repeated_masks_are_evaluated_once():
    recorded = Recorded(score_table(4))
    smoothed = hf.smooth(recorded, 0.5, 200, rng=0)
    smoothed(all_masks(4))
    assert set(recorded.times_asked.values()) == {1}
    assert recorded.n_rows == smoothed.n_base_calls <= 16


@given(score_tables(4), st.integers(1, 33), st.integers(0, 2), st.integers(0, 5))
def test_an_early_decision_is_what_the_full_count_says(model, n_samples, top_class, seed):
    full = hf.smooth(model, 0.6, n_samples, rng=seed)
    early = hf.smooth(model, 0.6, n_samples, rng=seed)
    winners = full(all_masks(4)).argmax(axis=1)
    np.testing.assert_array_equal(early.keeps_top_class(all_masks(4), top_class), winners == top_class)


def test_a_decision_spends_no_vote_that_cannot_matter():
    # 32 votes, all for class 0: after 16 a tie is the worst that can happen, and class 0 wins ties.
    always = hf.mask_function(lambda shown: np.tile([1.0, 0.0], (len(shown), 1)), n_features=40)
    for top_class, n_needed in ((0, 16), (1, 16)):
        smoothed = hf.smooth(always, 0.5, 32, rng=0)
        assert smoothed.keeps_top_class(np.ones((1, 40), dtype=bool), top_class)[0] == (top_class == 0)
        assert smoothed.n_base_calls == n_needed


def test_certificates_of_a_smoothed_model_are_those_of_its_table():
    model, selected = tied_table(10, seed=5), np.arange(10) < 3
    smoothed, table = hf.smooth(model, 0.6, 9, rng=1), tabulated(hf.smooth(model, 0.6, 9, rng=1))
    asked = {"radius": 4, "plan": "sequential", "rng": 0}
    one, same = hf.certify(smoothed, selected, **asked), hf.certify(table, selected, **asked)
    assert (one.n_agreed, one.n_evaluated, one.prediction) == (same.n_agreed, same.n_evaluated, same.prediction)
    curve, same_curve = (hf.certify_radii(m, selected, radii=range(1, 8), rng=0) for m in (smoothed, table))
    assert [c.n_agreed for c in curve] == [c.n_agreed for c in same_curve]
    reach, same_reach = (hf.certified_radius(m, selected, min_rate=0.6, rng=0) for m in (smoothed, table))
    assert reach.radius == same_reach.radius
    options = {"a": selected, "b": np.arange(10) > 6}
    both, same_both = (hf.compare(m, options, radii=[2, 3], rng=0) for m in (smoothed, table))
    assert [c.n_agreed for curve in both.curves for c in curve] == [
        c.n_agreed for curve in same_both.curves for c in curve
    ]


def test_a_certificate_counts_calls_of_the_model_that_was_smoothed():
    recorded = Recorded(score_table(12))
    smoothed = hf.smooth(recorded, 0.8, 16, rng=0)
    certificate = hf.certify(smoothed, np.arange(12) < 3, radius=5, rng=0)
    assert certificate.n_calls == recorded.n_rows
    assert certificate.n_calls < 16 * (certificate.n_evaluated + 2)


def test_batch_sizes_do_not_matter():
    model, selected = tied_table(10, seed=6), np.arange(10) < 3
    rates = {
        hf.certify(hf.smooth(model, 0.6, 9, batch_size=inner, rng=1), selected, radius=3, batch_size=outer, rng=0).rate
        for inner in (1, 7, None)
        for outer in (1, 5, None)
    }
    assert len(rates) == 1


def test_other_agreements_use_full_shares():
    smoothed, selected = hf.smooth(score_table(8), 0.7, 10, rng=0), np.arange(8) < 3
    table = tabulated(hf.smooth(score_table(8), 0.7, 10, rng=0))
    asked = {"radius": 5, "agree": hf.agreement.within(0.25), "rng": 0}
    assert hf.certify(smoothed, selected, **asked).rate == hf.certify(table, selected, **asked).rate


def test_smoothing_twice_is_the_bank_of_banks():
    model = tied_table(4, seed=8)
    inner = hf.smooth(model, 0.7, 5, rng=1)
    twice = hf.smooth(inner, 0.5, 3, rng=2)
    table = tabulated(inner)
    np.testing.assert_array_equal(twice.count_votes(all_masks(4)), bank_votes(table, twice.bank))
    assert twice.n_base_calls <= 16


def test_smoothing_can_lower_stability():
    # Two features, the first selected; the second alone tips the scale.
    model = hf.lookup_table([[0.5, 0.4], [0.5, 0.4], [0.5, 0.9], [0.5, 0.4]], n_features=2)
    selected = np.array([True, False])
    smoothed = hf.smooth(model, 0.5, 64, votes=False, rng=0)
    asked = {"radius": 1, "agree": hf.agreement.within(0.05)}
    assert hf.certify(model, selected, **asked).rate == 1
    assert hf.certify(smoothed, selected, **asked).rate == 0.5


@given(score_tables(4), masks(4, 4), st.sampled_from([0.25, 0.5, [0.1, 0.4, 0.7, 1.0]]))
def test_one_feature_moves_a_vote_count_by_no_more_than_the_masks_that_keep_it(model, mask, keep):
    smoothed = hf.smooth(model, keep, 20, rng=0)
    for feature in range(4):
        other = mask.copy()
        other[feature] ^= True
        moved = np.abs(np.diff(smoothed.count_votes(np.stack([mask, other])), axis=0))
        assert moved.max() <= smoothed.n_kept[feature]


def test_the_words_of_a_smoothed_model_tell_banks_apart():
    words = {
        hf.smooth(score_table(5), keep, n, rng=seed).provenance.masking
        for keep, n, seed in [(0.5, 8, 0), (0.5, 8, 1), (0.5, 9, 0), (0.6, 8, 0)]
    }
    assert len(words) == 4
    assert all("keep probability" in one for one in words)


def test_adaptive_keep_follows_the_size_of_the_scores():
    keep = hf.smoothing.adaptive_keep([0.0, -5.0, 2.0, 2.0], lowest=0.25, highest=1.0)
    np.testing.assert_allclose(keep, [0.25, 1.0, 0.625, 0.625])
    assert hf.smoothing.adaptive_keep([3.0, 3.0], lowest=0.5).tolist() == [0.5, 0.5]


def test_selective_keep_leaves_the_rest_whole():
    bank = hf.smooth(score_table(4), hf.smoothing.selective_keep([True, False, True, False], 0.5), 64, rng=0).bank
    assert bank[:, [1, 3]].all()
    assert not bank[:, [0, 2]].all(axis=0).any()


@pytest.mark.parametrize("keep", [0, 1.5, -0.1, math.nan])
def test_a_keep_probability_outside_its_range_is_refused(keep):
    with pytest.raises(ValueError, match=r"`keep_probability` must be a number in \(0, 1\]"):
        hf.smooth(score_table(3), keep, 8)


@pytest.mark.parametrize("keep", ["half", None, True, ["a", "b", "c"]])
def test_a_keep_probability_that_is_no_number_is_refused(keep):
    with pytest.raises(TypeError, match="`keep_probability` must be"):
        hf.smooth(score_table(3), keep, 8)


def test_one_keep_probability_per_feature_is_asked_for():
    with pytest.raises(ValueError, match="the model has 3 features, got 2"):
        hf.smooth(score_table(3), [0.5, 0.5], 8)


def test_labels_and_single_scores_cannot_vote():
    with pytest.raises(hf.errors.ModelError, match="returns labels"):
        hf.smooth(label_table(3), 0.5, 8)(all_masks(3))
    with pytest.raises(hf.errors.ModelError, match="at least 2 classes"):
        hf.smooth(score_table(3, n_classes=1), 0.5, 8)(all_masks(3))


def _bind(table):
    return hf.lookup_table(table, n_features=4)


def test_smoothed_accuracy_counts_what_a_loop_counts():
    rng = np.random.default_rng(0)
    tables, labels = rng.integers(0, 3, size=(25, 16, 3)).astype(float), rng.integers(0, 3, size=25)
    found = hf.smoothed_accuracy(_bind, tables, labels, keep_probabilities=[1, 0.7, 0.3], n_samples=15, rng=5)
    full, key = np.ones((1, 4), dtype=bool), hf.randomness.stream_key(5)
    for keep, n_correct in zip((1, 0.7, 0.3), found.n_correct, strict=True):
        seeds = [hf.randomness.stream_key(hf.randomness.stream(key, "accuracy", str(i))) for i in range(25)]
        right = [
            hf.smooth(_bind(table), keep, 15, rng=seed)(full)[0].argmax() == label
            for table, label, seed in zip(tables, labels, seeds, strict=True)
        ]
        assert n_correct == sum(right)
    assert found.intervals[0] == hf.bounds.clopper_pearson(found.n_correct[0], 25, confidence=Fraction(19, 20))
    assert found == hf.smoothing.SmoothedAccuracy.from_json(found.to_json())
    assert len(found.to_frame()) == len(found) == 3
    assert str(found).count("\n") == 3


def test_smoothed_accuracy_wants_a_label_per_input():
    table = np.eye(16)[:, :3]
    with pytest.raises(ValueError, match="one entry per input: 1 inputs, 2 labels"):
        hf.smoothed_accuracy(_bind, [table], [0, 1])
    with pytest.raises(ValueError, match="class indices or names"):
        hf.smoothed_accuracy(_bind, [table], ["cat"])
    with pytest.raises(TypeError, match="`classifier` must"):
        hf.smoothed_accuracy(3, [table], [0])


def test_smoothed_models_are_public():
    assert isinstance(hf.smooth(score_table(3), 0.5, 8), SmoothedModel)
    assert isinstance(hf.smooth(score_table(3), 0.5, 8), hf.MaskedModel)
    assert isinstance(hf.smooth(score_table(3), 0.5, 8), hf.types.Deciding)


def test_smoothing_again_with_the_same_seed_draws_other_masks():
    model = score_table(8)
    once = hf.smooth(model, 0.5, 32, rng=0)
    twice = hf.smooth(once, 0.5, 32, rng=0)
    thrice = hf.smooth(hf.Evaluator(twice), 0.5, 32, rng=0)
    assert (once.bank != twice.bank).any()
    assert (thrice.bank != twice.bank).any()
    assert thrice.rows_per_mask == 32**3


def test_a_batch_size_is_the_limit_of_the_model_underneath():
    recorded = Recorded(score_table(12))
    smoothed = hf.smooth(recorded, 0.8, 16, rng=0)
    hf.certify(smoothed, np.arange(12) < 3, radius=5, batch_size=4, rng=0)
    assert max(recorded.batch_sizes) <= 4
    assert smoothed.base.batch_size > 4


def test_no_masks_have_no_votes():
    smoothed = hf.smooth(score_table(5), 0.5, 8, rng=0)
    assert smoothed(np.zeros((0, 5), dtype=bool)).shape == (0, 3)
    assert smoothed.keeps_top_class(np.zeros((0, 5), dtype=bool), 1).shape == (0,)


def test_a_class_that_does_not_exist_is_refused():
    for keep in (1.0, 0.5):
        with pytest.raises(ValueError, match="below 3, got 7"):
            hf.smoothed_accuracy(lambda one: score_table(3), [0], [7], keep_probabilities=[keep])


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"keep_probabilities": 0.5}, TypeError),
        ({"keep_probabilities": []}, ValueError),
        ({"inputs": 5}, TypeError),
        ({"inputs": []}, ValueError),
    ],
)
def test_accuracy_wants_sequences(asked, error):
    given = {"inputs": [0], "labels": [0]} | asked
    with pytest.raises(error, match=r"`(keep_probabilities|inputs)` must"):
        hf.smoothed_accuracy(lambda one: score_table(3), given.pop("inputs"), given.pop("labels"), **given)


def test_adaptive_keep_stays_within_its_ends_and_refuses_the_rest():
    assert hf.smoothing.adaptive_keep(np.arange(6), lowest=0.08).max() == 1.0
    with pytest.raises(ValueError, match="`lowest` must be at most"):
        hf.smoothing.adaptive_keep([1.0, 2.0], lowest=0.9, highest=0.5)
    with pytest.raises(ValueError, match="`scores` must be numbers"):
        hf.smoothing.adaptive_keep(["a", "b"])
    assert len(hf.smooth(score_table(3), np.array(0.5), 4, rng=0).bank) == 4
    with pytest.raises(TypeError, match="in a list or an array"):
        hf.smooth(score_table(3), {0.1, 0.2, 0.3}, 4)


def test_averaged_scores_decide_as_their_largest_does():
    averaged = hf.smooth(tied_table(5, seed=3), 0.5, 8, votes=False, rng=0)
    winners = averaged(all_masks(5)).argmax(axis=1)
    for top in range(3):
        assert (averaged.keeps_top_class(all_masks(5), top) == (winners == top)).all()


def test_accuracy_tells_its_progress_input_by_input():
    told = []
    hf.smoothed_accuracy(
        lambda one: score_table(3), [0, 1], [0, 1], keep_probabilities=[0.5], progress=lambda *done: told.append(done)
    )
    assert told == [(1, 2), (2, 2)]


def test_accuracy_needs_scores_and_labels_among_the_classes():
    class Named:
        classes = ("cat", "dog", "eel")

        def bind(self, one):
            return score_table(3)

    with pytest.raises(hf.errors.ModelError, match="Accuracy needs scores"):
        hf.smoothed_accuracy(lambda one: label_table(3), [0], [0], keep_probabilities=[1])
    with pytest.raises(hf.errors.InvalidValueError, match="`labels` must be classes below 3, got 3"):
        hf.smoothed_accuracy(Named(), [0], [3])
    asked = {"keep_probabilities": [0.5], "rng": 0}
    assert hf.smoothed_accuracy(Named(), [0], ["dog"], **asked) == hf.smoothed_accuracy(Named(), [0], [1], **asked)

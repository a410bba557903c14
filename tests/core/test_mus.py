from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import holdfast as hf
from holdfast.mus import Poll
from tests.helpers.fakes import Recorded, all_masks, score_table
from tests.helpers.smoothing_oracles import bank_votes, hard_radius

CRITERIA = ("lipschitz", "votes")


def biased_table(rng: np.random.Generator, n_features: int) -> hf.MaskedModel:
    """Mostly one class, so that leads are large; small whole scores, so that ties are common."""
    n_classes = int(rng.integers(2, 5))
    values = rng.integers(0, 3, size=(2**n_features, n_classes)).astype(float)
    values[:, rng.integers(n_classes)] += rng.choice([0, 1, 2])
    return hf.lookup_table(values, n_features=n_features)


def hostile_table(rng: np.random.Generator, n_features: int) -> hf.MaskedModel:
    """One class unless a certain feature is shown, which then takes every vote it can."""
    feature, n_classes = int(rng.integers(n_features)), int(rng.integers(2, 4))
    winners = np.where(all_masks(n_features)[:, feature], n_classes - 1, 0)
    flipped = rng.random(2**n_features) < 0.1
    winners = np.where(flipped, rng.integers(n_classes, size=2**n_features), winners)
    return hf.lookup_table(np.eye(n_classes)[winners], n_features=n_features)


def check_is_safe(smoothed: hf.smoothing.SmoothedModel, model: hf.MaskedModel, selected: np.ndarray) -> list[int]:
    """Every radius of both criteria against all masks; returns the radii of additions."""
    winners = bank_votes(model, smoothed.bank).argmax(axis=1)
    full, radii = np.ones_like(selected), []
    for criterion in CRITERIA:
        hard = hf.certify_mus(smoothed, selected, criterion=criterion)
        assert hard.radius <= hard_radius(winners, selected, ~selected)
        assert hard.removal_radius <= hard_radius(winners, selected, selected)
        if hard.input_removal_radius is not None:
            assert hard.input_removal_radius <= hard_radius(winners, full, full)
        assert hard.prediction == winners[selected @ (1 << np.arange(len(selected)))]
        assert (hard.input_removal_radius is not None) == hard.consistent == (winners[-1] == hard.prediction)
        radii.append(hard.radius)
        radii.append(hard.removal_radius)
    assert radii[2] >= radii[0]
    assert radii[3] >= radii[1]
    return radii


@pytest.mark.parametrize("make", [biased_table, hostile_table])
@pytest.mark.parametrize("scheme", ["mus", "per feature", "bernoulli"])
def test_every_certified_radius_is_safe_on_random_models(make, scheme):
    rng, seen = np.random.default_rng(0), []
    for trial in range(350):
        n_features, q = int(rng.integers(1, 6)), int(rng.choice([4, 8, 12]))
        model, selected = make(rng, n_features), rng.random(n_features) < 0.5
        keep = float(rng.choice([1 / q, 2 / q, 3 / q]))
        if scheme == "per feature":
            keep = rng.integers(1, q // 2 + 1, size=n_features) / q
        if scheme == "bernoulli":
            smoothed = hf.smooth(model, keep, q, rng=trial)
        else:
            smoothed = hf.mus_model(model, keep, q, rng=trial)
        seen.append(check_is_safe(smoothed, model, selected))
    radii = np.array(seen)
    # The certificates are not vacuous, and the sharper criterion is really sharper somewhere.
    assert (radii[:, 0] > 0).mean() > 0.1
    assert (radii[:, 2:] > radii[:, :2]).sum() > 10


def test_a_lead_of_exactly_twice_the_keeps_is_not_enough():
    # 4 of 4 masks vote 0; showing feature 0 turns the two that keep it: a tie, which the lowest class wins,
    # so the prediction must be the higher class for the tie to matter.
    winners = np.where(all_masks(2)[:, 0], 0, 1)
    model = hf.lookup_table(np.eye(2)[winners], n_features=2)
    selected = np.array([False, True])
    hard = hf.certify_mus(model, selected, keep_probability=0.5, n_levels=4, criterion="lipschitz", rng=0)
    assert (hard.n_agreed, hard.prediction, hard.radius) == (4, 1, 0)
    smoothed = hf.mus_model(model, 0.5, 4, rng=0)
    assert smoothed(np.ones((1, 2), dtype=bool)).argmax() == 0


def test_the_radius_is_below_half_the_inverse_keep_probability():
    constant = hf.mask_function(lambda masks: np.tile([1.0, 0.0], (len(masks), 1)), n_features=40)
    for keep, radius in ((0.5, 0), (0.375, 1), (0.25, 1), (0.125, 3)):
        for criterion in CRITERIA:
            hard = hf.certify_mus(constant, np.arange(40) < 5, keep_probability=keep, criterion=criterion, rng=0)
            assert hard.radius == radius < 1 / (2 * keep)


def test_every_feature_is_kept_in_exactly_its_share_of_the_masks():
    smoothed = hf.mus_model(score_table(9), 0.375, 64, rng=0)
    assert (smoothed.bank.sum(axis=0) == 24).all()
    per_feature = hf.mus_model(score_table(3), [0.25, 0.5, 1.0], 4, rng=0)
    assert per_feature.n_kept.tolist() == [1, 2, 4]


def test_the_keeps_of_a_feature_are_a_run_of_levels():
    bank = hf.mus_model(score_table(6), 0.25, 16, rng=1).bank
    for feature in range(6):
        starts = np.flatnonzero(bank[:, feature] & ~np.roll(bank[:, feature], 1))
        assert len(starts) == 1


def test_the_certified_function_is_the_one_mus_model_gives():
    model, selected = score_table(7, seed=3), np.arange(7) < 3
    direct = hf.certify_mus(model, selected, keep_probability=0.125, n_levels=16, rng=9)
    given = hf.certify_mus(hf.mus_model(model, 0.125, 16, rng=9), selected)
    assert (direct.radius, direct.prediction, direct.n_agreed) == (given.radius, given.prediction, given.n_agreed)
    assert direct.provenance == given.provenance
    assert hf.mus_model(model, 0.125, 16, rng=9)(selected[None])[0].argmax() == direct.prediction


def test_a_keep_probability_between_levels_is_refused_unless_rounding_is_asked_for():
    selected = np.arange(5) < 2
    with pytest.raises(ValueError, match=r"must be a multiple of 1/64, got 0\.29"):
        hf.certify_mus(score_table(5), selected, keep_probability=0.29, rng=0)
    rounded = hf.certify_mus(score_table(5), selected, keep_probability=0.29, round=True, rng=0)
    assert rounded.keep_probability == 19 / 64
    assert hf.mus_model(score_table(5), 1 / 12, 12, rng=0).n_kept.tolist() == [1] * 5
    tiny = hf.certify_mus(score_table(5), selected, keep_probability=0.001, round=True, rng=0)
    assert tiny.keep_probability == 1 / 64


def test_it_costs_one_call_per_level_and_point():
    recorded = Recorded(score_table(14))
    # 14 features at a quarter: masks of the bank are distinct, and so are their meets with the full input.
    hard = hf.certify_mus(recorded, np.arange(14) < 12, keep_probability=0.5, n_levels=32, rng=0)
    assert hard.n_calls == recorded.n_rows <= 64
    single = Recorded(score_table(14))
    lean = hf.certify_mus(single, np.arange(14) < 12, keep_probability=0.5, n_levels=32, input_removals=False, rng=0)
    assert lean.n_calls == single.n_rows <= 32
    assert (lean.consistent, lean.input_removal_radius, lean.radius) == (None, None, hard.radius)


def test_smoothing_only_the_unselected_features_certifies_their_revelation():
    constant = hf.mask_function(lambda masks: np.tile([1.0, 0.0], (len(masks), 1)), n_features=12)
    selected = np.arange(12) < 4
    keep = hf.smoothing.selective_keep(~selected, 0.125)
    hard = hf.certify_mus(constant, selected, keep_probability=keep, rng=0)
    assert (hard.radius, hard.removal_radius) == (3, 0)
    assert str(hard) == "Proven for the smoothed model: revealing up to 3 more features never changes the prediction 0."
    assert "hiding up to 0" not in str(hard)


@pytest.mark.parametrize(
    ("radii", "words"),
    [
        (
            (0, 0, None),
            "Nothing is proven for the smoothed model: revealing or hiding one feature may change the prediction 0.",
        ),
        (
            (0, 0, 0),
            "Nothing is proven for the smoothed model: revealing or hiding one feature may change the prediction 0.",
        ),
        (
            (0, 2, None),
            "Proven for the smoothed model: hiding up to 2 selected features never changes the prediction 0;",
        ),
        (
            (0, 1, None),
            "model: hiding up to 1 selected feature never changes the prediction 0;",
        ),
        ((0, 0, 1), "Proven for the smoothed model: hiding up to 1 of all features never changes the prediction 0;"),
        ((1, 0, 2), "revealing up to 1 more or hiding up to 2 of all features never changes the prediction 0."),
    ],
    ids=str,
)
def test_a_radius_of_zero_is_told_as_what_is_left_open(radii, words):
    constant = hf.mask_function(lambda masks: np.tile([1.0, 0.0], (len(masks), 1)), n_features=12)
    hard = hf.certify_mus(constant, np.arange(12) < 4, keep_probability=0.25, n_levels=12, rng=0)
    radius, removals, from_input = radii
    told = str(
        dataclasses.replace(
            hard, radius=radius, requested_radius=radius, removal_radius=removals, input_removal_radius=from_input
        )
    )
    assert words in told
    assert "up to 0" not in told
    assert ("; whether revealing one does is open" in told) == (radius == 0 and any(radii))
    assert "12 of 12 votes" in hard.explain()


def test_the_sentence_is_about_the_smoothed_model():
    hard = hf.certify_mus(score_table(5), np.arange(5) < 2, keep_probability=0.25, rng=0)
    assert "for the smoothed model" in str(hard)
    assert "not for the model that was smoothed" in hard.explain()
    assert hf.HardCertificate.from_json(hard.to_json()) == hard
    per_feature = hf.certify_mus(score_table(2), np.arange(2) < 1, keep_probability=[0.25, 0.5], rng=0)
    assert per_feature.keep_probability == (0.25, 0.5)
    assert hf.HardCertificate.from_json(per_feature.to_json()) == per_feature


def test_bad_questions_are_refused_before_any_call():
    recorded = Recorded(score_table(4))
    selected = np.arange(4) < 2
    with pytest.raises(ValueError, match="`criterion` must be one of votes, lipschitz"):
        hf.certify_mus(recorded, selected, keep_probability=0.25, criterion="vote")
    with pytest.raises(TypeError, match="`keep_probability` must be a number"):
        hf.certify_mus(recorded, selected)
    with pytest.raises(ValueError, match="must be left out: the model is already smoothed"):
        hf.certify_mus(hf.mus_model(recorded, 0.25, 4), selected, keep_probability=0.25)
    with pytest.raises(ValueError, match="not by averaging scores"):
        hf.certify_mus(hf.smooth(recorded, 0.25, 4, votes=False), selected)
    assert recorded.n_rows == 0


def test_a_poll_knows_how_many_features_its_lead_withstands():
    # Five votes for 0, one for 1; feature 0 is kept by all of them, feature 1 by the rival's alone.
    bank = np.array([[True, False]] * 5 + [[True, True]])
    poll = Poll(np.array([0, 0, 0, 0, 0, 1]), bank, 2)
    assert poll.radius(np.array([False, True]), "votes") == 1
    assert poll.radius(np.array([False, True]), "lipschitz") == 1
    assert poll.radius(np.array([True, True]), "votes") == 0


@pytest.mark.parametrize("make_rng", [lambda: None, lambda: np.random.default_rng(1), lambda: 7])
def test_the_key_of_a_certificate_makes_the_same_function_again(make_rng):
    selected = np.arange(6) < 2
    first = hf.certify_mus(score_table(6), selected, keep_probability=0.25, n_levels=8, rng=make_rng())
    again = hf.certify_mus(score_table(6), selected, keep_probability=0.25, n_levels=8, rng=first.rng_key)
    assert again == first


def test_a_smoothed_model_is_certified_the_same_every_time():
    smoothed, selected = hf.smooth(score_table(6), 0.3, 12), np.arange(6) < 2
    first, again = (hf.certify_mus(smoothed, selected) for _ in range(2))
    assert first.rng_key == smoothed.rng_key == again.rng_key
    assert (first.radius, first.n_agreed) == (again.radius, again.n_agreed)
    brackets = [hf.stability_bracket(hf.mus_model(score_table(6), 0.25, 8, rng=0), selected, rng=0) for _ in range(2)]
    assert brackets[0] == brackets[1]

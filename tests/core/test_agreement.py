"""Agreement: which outputs count as the same prediction, ties and margins included."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast import certify, lookup_table
from holdfast.agreement import NAMES as FORMS
from holdfast.agreement import (
    as_agreement,
    same_labels,
    same_side,
    same_top_class,
    same_top_set,
    within,
    within_percent,
)
from holdfast.certification.question import FIELDS
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from tests.helpers.oracles import exact_rate, hard_radius, labels_on, leaders, rings, rule, side
from tests.helpers.rooms import names_in_rooms
from tests.helpers.strategies import score_rows

NAMES = ("same_top_class", "same_top_set(1)", "same_top_set(2)", "same_top_set(3)", "within(0.5)", "within(1e-3)")
NAMES += ("same_side(0.5, 0)", "same_side(0, class_=3)", "same_side(-0.5, 1)", "same_labels(0.5)", "same_labels(-2)")
NAMES += ("same_labels([0, 0.5, -0.5, 2])", "within_percent(50)", "within_percent(0.1)", "within_percent(150)")


def agrees(agree: Any, output: Any, reference: Any) -> bool:
    return bool(as_agreement(agree)(np.array([output]), np.array(reference))[0])


@given(name=st.sampled_from(NAMES), scores=score_rows(4, 2, 12))
def test_agreement_is_what_its_definition_says_row_by_row(name: str, scores: Any) -> None:
    judged = as_agreement(name)(scores, scores[0])
    assert judged.dtype == np.bool_
    same = rule(name)
    assert judged.tolist() == [same(row, scores[0].tolist()) for row in scores.tolist()]


@given(name=st.sampled_from(NAMES), scores=score_rows(4, 1, 1))
def test_an_output_agrees_with_itself(name: str, scores: Any) -> None:
    assert as_agreement(name)(scores, scores[0]).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_arguments_are_left_alone(name: str) -> None:
    scores = np.array([[0.0, 1.0, 1.0, 3.0], [2.0, 1.0, 0.0, 0.0]])
    reference = scores[0].copy()
    scores.setflags(write=False)
    reference.setflags(write=False)
    assert as_agreement(name)(scores, reference)[0]


# -- the same top class -----------------------------------------------------------------------------


def test_a_tie_goes_to_the_class_with_the_lowest_index() -> None:
    assert agrees("same_top_class", [1.0, 1.0, 0.0], [2.0, 0.0, 0.0])
    assert not agrees("same_top_class", [1.0, 1.0, 0.0], [0.0, 2.0, 0.0])


def test_labels_agree_when_they_are_equal() -> None:
    labels = np.array(["cat", "dog", "cat"], dtype=object)
    assert same_top_class(labels, "cat").tolist() == [True, False, True]
    assert same_top_class(np.array([3, 2, 3], dtype=object), 3).tolist() == [True, False, True]


def test_one_column_of_scores_has_no_top_class() -> None:
    with pytest.raises(ModelError, match=r"at least 2 classes, got 1 column\.") as caught:
        same_top_class(np.zeros((3, 1)), np.zeros(1))
    assert all(advice in str(caught.value) for advice in ("within(margin)", "within_percent(percent)", "same_side("))


# -- the same top set -------------------------------------------------------------------------------


def test_the_leading_classes_may_change_their_order() -> None:
    assert agrees("same_top_set(2)", [3.0, 4.0, 0.0], [4.0, 3.0, 0.0])
    assert not agrees("same_top_set(2)", [3.0, 0.0, 4.0], [4.0, 3.0, 0.0])


def test_ties_at_the_border_of_a_top_set_go_to_the_lowest_index() -> None:
    assert leaders([0.0, 1.0, 1.0, 1.0], 2) == {1, 2}
    assert agrees("same_top_set(2)", [0.0, 1.0, 1.0, 1.0], [0.0, 5.0, 4.0, 0.0])
    assert not agrees("same_top_set(2)", [0.0, 1.0, 1.0, 1.0], [0.0, 5.0, 0.0, 4.0])


@given(scores=score_rows(3, 2, 10))
def test_a_top_set_of_one_is_the_top_class(scores: Any) -> None:
    np.testing.assert_array_equal(same_top_set(1)(scores, scores[0]), same_top_class(scores, scores[0]))


@pytest.mark.parametrize("k", [3, 4, 1000])
def test_a_top_set_of_all_classes_is_refused(k: int) -> None:
    with pytest.raises(InvalidValueError, match=rf"k below the number of classes \(3\), got {k}"):
        same_top_set(k)(np.zeros((2, 3)), np.zeros(3))


# -- within a margin --------------------------------------------------------------------------------


def test_a_move_of_exactly_the_margin_is_too_far() -> None:
    assert not agrees(within(0.5), [1.5, 0.0], [1.0, 0.0])
    assert not agrees(within(0.5), [1.0, -0.5], [1.0, 0.0])
    assert agrees(within(0.5), [1.5 - 2**-50, 0.0], [1.0, 0.0])


def test_one_score_that_moves_is_enough_to_disagree() -> None:
    assert not agrees(within(0.5), [0.0, 0.0, 0.0, 0.9], [0.0, 0.0, 0.0, 0.0])


def test_within_works_for_a_single_score() -> None:
    assert within(0.5)(np.array([[0.4], [0.6]]), np.array([0.0])).tolist() == [True, False]


@pytest.mark.parametrize(
    "agree",
    [same_top_set(1), within(0.1), within_percent(1), same_side(0.5), same_labels()],
    ids=lambda agree: agree.name,
)
def test_labels_have_no_scores_to_compare(agree: Any) -> None:
    with pytest.raises(ModelError, match=r"needs scores \(b, n_classes\), but the model returns labels"):
        agree(np.array(["a", "b"], dtype=object), "a")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float16, np.float32, np.bool_])
@pytest.mark.parametrize(
    "agree",
    ["same_top_class", "same_top_set(2)", "within(100)", "within(0.5)", "within_percent(150)", "same_side(1, 0)"],
)
def test_narrow_number_types_of_a_model_do_not_overflow(dtype: Any, agree: str) -> None:
    """Quantised models return int8: 100 - (-100) is 200, not -56."""
    info = (0, 1) if dtype is np.bool_ else (0, 255) if dtype is np.uint8 else (-128, 127)
    values = np.random.default_rng(0).integers(*info, size=(16, 3), endpoint=True).astype(dtype)
    narrow, wide = lookup_table(values, n_features=4), lookup_table(values.astype(float), n_features=4)
    for code in range(16):
        selected = np.array([bool(code >> i & 1) for i in range(4)])
        cert = certify(narrow, selected, radius=4, agree=agree, rng=0)
        assert cert.exact
        assert cert.rate == exact_rate(wide, selected, 4, agree=agree)


# -- decisions at a cut-off, several labels, numbers ------------------------------------------------


def test_a_score_equal_to_the_threshold_is_on_the_upper_side() -> None:
    assert agrees("same_side(0.5)", [0.5], [0.9])
    assert not agrees("same_side(0.5)", [0.5], [0.5 - 2**-52])
    assert agrees("same_labels(0.5)", [0.5, 0.1], [0.9, 0.2])


@pytest.mark.parametrize("n_columns", [1, 2])
def test_a_side_is_that_of_the_only_score_or_of_class_one_of_two(n_columns: int) -> None:
    outputs = np.stack([np.array([0.9, 0.9, 0.1])] * (n_columns - 1) + [np.array([0.4, 0.2, 0.3])], axis=1)
    assert same_side(0.3)(outputs, outputs[0]).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("agree", "n_columns"), [("same_side(0.3)", 3), ("same_side(0.3, 2)", 2), ("same_side(1, 1)", 1)]
)
def test_a_side_that_names_no_column_says_how_to_name_one(agree: str, n_columns: int) -> None:
    must = rf"^`agree` must name one of the {n_columns} columns .*, such as same_side\([\d.]+, class_={n_columns - 1}\)"
    model = lookup_table(np.zeros((4, n_columns)), n_features=2)
    with pytest.raises(InvalidValueError, match=must):
        certify(model, [True, False], radius=1, agree=agree)


def test_labels_need_one_threshold_or_one_each() -> None:
    with pytest.raises(InvalidValueError, match=r"one for each of 3, got same_labels\(\[0\.5, 0\.3\]\)"):
        certify(lookup_table(np.zeros((4, 3)), n_features=2), [True, False], radius=1, agree=same_labels([0.5, 0.3]))


def test_zero_agrees_with_itself_and_with_nothing_else_in_percent() -> None:
    assert within_percent(99)(np.array([[0.0], [-0.0], [1e-300]]), np.array([0.0])).tolist() == [True, True, False]


def test_a_move_of_exactly_the_percentage_is_too_far() -> None:
    moved = np.array([[105.0], [95.0], [104.999], [-100.0]])
    assert within_percent(5)(moved, np.array([100.0])).tolist() == [False, False, True, False]
    assert within_percent(5)(-moved, np.array([-100.0])).tolist() == [False, False, True, False]


finite = st.floats(-1e6, 1e6)


@given(
    rows=st.lists(st.lists(finite, min_size=2, max_size=2), min_size=1),
    threshold=finite,
    pair=st.tuples(finite, finite),
)
def test_sides_and_labels_of_any_numbers_are_compared_exactly(rows: Any, threshold: float, pair: Any) -> None:
    scores = np.array(rows)
    for name in (f"same_side({threshold!r})", f"same_labels({[*pair]!r})"):
        same = rule(name)
        assert as_agreement(name)(scores, scores[0]).tolist() == [same(row, rows[0]) for row in rows]


NEW = ("same_side(0.2)", "same_side(0.4, 0)", "same_labels([0.1, 0.6])", "within_percent(120)")
"""Agreements under which answers of ``two_columns`` sometimes change."""


def two_columns(seed: int = 0, classes: tuple[str, ...] | None = None) -> Any:
    values = np.random.default_rng(seed).normal(size=(2**7, 2))
    return hf.mask_function(lambda masks: values[masks @ (1 << np.arange(7))], n_features=7, classes=classes)


SELECTED = np.arange(7) < 2


@pytest.mark.parametrize("agree", NEW)
def test_every_verb_keeps_to_the_definition_of_the_agreement(agree: str) -> None:
    model = two_columns()
    curve = hf.certify_radii(model, SELECTED, radii=[0, 1, 2, 3], agree=agree, plan="hoeffding", rng=0)
    truth = [exact_rate(model, SELECTED, radius, agree=agree) for radius in range(4)]
    assert list(curve.rates) == [float(rate) for rate in truth]
    assert min(truth) < 1
    hardest = hard_radius(model, SELECTED, agree=agree)
    hard = hf.certify_hard(model, SELECTED, radius=5, max_enumerated=100, agree=agree, rng=0)
    assert (hard.radius, hard.method) == (hardest, "enumeration")
    witness = hf.find_witness(model, SELECTED, agree=agree, rng=0)
    assert (witness.n_added, witness.proven) == (hardest + 1, True)
    lowest = float(min(truth))
    radius = hf.certified_radius(model, SELECTED, min_rate=lowest * 0.99, radii=[1, 2, 3], agree=agree, rng=0)
    assert [step.answer for step in radius.trail if step.exact] == [True] * sum(step.exact for step in radius.trail)
    other = np.arange(7) > 4
    table = hf.compare(model, {"a": SELECTED, "b": other}, [1, 2], agree=agree, plan="hoeffding", rng=0)
    for name, selected in (("a", SELECTED), ("b", other)):
        assert table.curve(name).rates == tuple(float(exact_rate(model, selected, r, agree=agree)) for r in (1, 2))
    fills = hf.fill_sensitivity(two_columns, SELECTED, [0, 1], radius=2, agree=agree, plan="hoeffding", rng=0)
    assert fills.rates == tuple(float(exact_rate(two_columns(seed), SELECTED, 2, agree=agree)) for seed in (0, 1))
    stable = hf.stabilize(model, np.arange(7.0), min_rate=0.01, radius=1, agree=agree, rng=0)
    assert stable.certificate.agree == as_agreement(agree).name
    again = hf.reexplain(model, "lime", radius=1, n_repeats=2, n_samples=30, agree=agree, rng=0)
    for cert in again.certificates:
        assert cert.rate == float(exact_rate(model, cert.selected, 1, agree=agree))
    mean = hf.mean_curve([lambda: (model, SELECTED)], radii=[2], half_width=0.05, agree=agree, rng=0)
    assert mean[2].interval.low <= truth[2] <= mean[2].interval.high
    for result in (*curve, hard, witness, radius, table, fills, stable, again):
        assert type(result).from_json(result.to_json()) == result
    for result in (curve, hard, witness, radius, table, stable):
        assert hf.recheck(model, result).confirmed


@pytest.mark.parametrize("agree", NEW)
def test_smoothed_models_are_judged_by_their_mean_scores(agree: str) -> None:
    smoothed = hf.smooth(two_columns(), 0.5, n_samples=4, votes=False, rng=0)
    cert = certify(smoothed, SELECTED, radius=2, agree=agree, plan="hoeffding", rng=0)
    assert cert.rate == float(exact_rate(smoothed, SELECTED, 2, agree=agree))
    votes = hf.smooth(two_columns(), 0.5, n_samples=4, rng=0)
    cert = certify(votes, SELECTED, radius=2, agree=agree, plan="hoeffding", rng=0)
    assert cert.rate == float(exact_rate(votes, SELECTED, 2, agree=agree))


@pytest.mark.parametrize("agree", ["same_side(22)", "same_labels([22])", "within_percent(129)", "within(12.5)"])
def test_far_witnesses_are_found_by_the_gap_to_another_prediction(agree: str) -> None:
    """Thirteen of forty features must be revealed: too many to list, so that the search has to go downhill."""
    model = hf.mask_function(lambda masks: 9.0 * masks[:, :1] + masks[:, 20:].sum(axis=1, keepdims=True), n_features=40)
    witness = hf.find_witness(model, np.arange(40) < 1, max_calls=30_000, agree=agree, rng=0)
    assert witness.n_added == (12 if agree.startswith("within_p") else 13)


def test_a_rule_of_the_users_own_has_no_gap_to_go_by_and_is_searched_at_random() -> None:
    model = hf.mask_function(lambda masks: masks[:, 20:].sum(axis=1, keepdims=True) * 1.0, n_features=40)
    witness = hf.find_witness(
        model, np.zeros(40, dtype=bool), agree=lambda new, old: ((new >= 13) == (old >= 13)).all(axis=1), rng=0
    )
    assert witness.found
    assert witness.n_added == 13  # what is found is reduced until nothing can be left out


# -- what is predicted ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agree", "answer", "prediction", "name"),
    [
        (same_side(0.3), [0.6, 0.4], "at least 0.3", "dog at least 0.3"),
        (same_side(0.5), [0.6, 0.4], "below 0.5", "dog below 0.5"),
        (same_side(2, 0), [0.6, 0.4], "below 2", "cat below 2"),
        (same_labels(0.5), [0.6, 0.4], "0", "cat"),
        (same_labels(0.1), [0.6, 0.4], "0, 1", "cat, dog"),
        (same_labels([0.9, 0.8]), [0.6, 0.4], "none", "none"),
        (within_percent(5), [0.6, 0.4], 0, "cat"),
        (same_side(2), [2.5], "at least 2", None),
        (same_labels(9), [2.5], "none", None),
        (within_percent(5), [2.5], 2.5, None),
        (within(0.1), [2.5], 2.5, None),
    ],
)
@pytest.mark.parametrize("classes", [None, ("cat", "dog"), ("0", "1")])
def test_a_certificate_says_what_is_predicted_in_the_words_of_its_agreement(
    agree: Any, answer: list[float], prediction: Any, name: str | None, classes: Any
) -> None:
    known = classes if len(answer) == 2 else None
    model = hf.mask_function(lambda masks: np.tile(answer, (len(masks), 1)), n_features=3, classes=known)
    cert = certify(model, [True, False, False], radius=1, agree=agree, rng=0)
    named = name if known == ("cat", "dog") else None
    assert (cert.prediction, cert.prediction_name) == (prediction, named)
    assert repr(prediction if named is None else named) in str(cert)
    witness = hf.find_witness(model, [True, False, False], agree=agree, rng=0)
    assert (witness.original_prediction, witness.original_name) == (prediction, named)
    assert hf.Certificate.from_json(cert.to_json()) == cert


def test_sides_and_labels_are_those_of_the_definition() -> None:
    model = two_columns(classes=("cat", "dog"))
    for ring in rings([False] * 7)[:2]:
        for mask in ring:
            scores = model(np.array([mask]))[0].tolist()
            cert = certify(model, mask, radius=1, agree="same_side(0.2)", rng=0)
            assert cert.prediction == ("at least 0.2" if side(scores, "0.2") else "below 0.2")
            cert = certify(model, mask, radius=1, agree="same_labels(0.2)", rng=0)
            assert cert.prediction == (", ".join(map(str, sorted(labels_on(scores, "0.2")))) or "none")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prediction": 1}, "name of a numbered class|in words"),
        ({"prediction": 1, "prediction_name": None}, "in words"),
        ({"prediction_name": " "}, "name of a numbered class"),
        ({"prediction_name": "dog", "agree": "same_top_class"}, "name of a numbered class"),
    ],
)
def test_an_edited_prediction_in_words_is_refused(changes: Any, reason: str) -> None:
    cert = certify(two_columns(classes=("cat", "dog")), SELECTED, radius=1, agree=same_side(0.2), rng=0)
    edited = json.dumps(json.loads(cert.to_json()) | changes)
    with pytest.raises(InvalidValueError, match=reason):
        hf.Certificate.from_json(edited)


def test_predicted_numbers_are_confirmed_up_to_rounding_and_no_further() -> None:
    """Models of floats give other last digits in other batches."""
    model = hf.mask_function(lambda masks: 3.0 + masks.sum(axis=1, keepdims=True) * 0.1, n_features=4)
    for result in (
        certify(model, [0], radius=1, agree=within(0.15), rng=0),
        hf.find_witness(model, [0], agree=within(0.15), rng=0),
    ):
        plain = json.loads(result.to_json())
        for share, confirmed in ((1e-9, True), (1e-4, False)):
            edited = plain | {"prediction": plain["prediction"] * (1 + share)}
            assert hf.recheck(model, type(result).from_json(json.dumps(edited))).confirmed is confirmed


def test_votes_are_about_classes() -> None:
    number = hf.mask_function(lambda masks: masks.sum(axis=1, keepdims=True) * 1.0, n_features=4)
    with pytest.raises(ModelError, match="Votes need scores of at least 2 classes, got 1 column"):
        hf.certify_mus(number, [True, False, False, False], keep_probability=0.5, n_levels=4)


# -- names and callables ----------------------------------------------------------------------------


numbers = st.floats(allow_nan=False, allow_infinity=False)
amounts = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
made = (
    st.builds(same_top_set, st.integers(1, 10**20))
    | st.builds(within, amounts)
    | st.builds(within_percent, amounts)
    | st.builds(same_side, numbers, st.none() | st.integers(0, 1000))
    | st.builds(same_labels, numbers | st.lists(numbers, min_size=1, max_size=5))
)


@given(made)
def test_an_agreement_can_be_made_again_from_its_name(agree: Any) -> None:
    assert as_agreement(agree.name) == agree
    assert as_agreement(json.loads(json.dumps(agree.name))) == agree
    assert as_agreement(agree) is agree


@pytest.mark.parametrize(
    ("text", "agree"),
    [
        ("same_top_class", same_top_class),
        ("same_side(0.3)", same_side(0.3)),
        ("same_side(0.3, 1)", same_side(0.3, 1)),
        ("same_side(.3,class_=1)", same_side(0.3, class_=1)),
        ("same_side(threshold=-3, class_=None)", same_side(-3)),
        ("same_labels()", same_labels(0.5)),
        ("same_labels(0.5)", same_labels()),
        ("same_labels([0.5, 0.3])", same_labels((0.5, 0.3))),
        ("within_percent(5)", within_percent(5.0)),
        ("within(1e-3)", within(0.001)),
    ],
)
def test_an_agreement_is_read_as_it_is_written_in_python(text: str, agree: Any) -> None:
    assert as_agreement(text) == agree


def test_thresholds_may_be_an_array() -> None:
    assert same_labels(np.array([0.5, 0.25])) == same_labels([0.5, 0.25])  # type: ignore[arg-type]
    assert same_labels(np.float32(0.5)) == same_labels(0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("thresholds", [[], ["a"], [[0.5]], None, "half", [np.nan], np.inf, {0.5: 1}, True])
def test_thresholds_that_are_no_numbers_are_refused(thresholds: Any) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match=r"^`thresholds` must be a"):
        same_labels(thresholds)


@pytest.mark.parametrize("keywords", [{"threshold": np.nan}, {"threshold": "a"}, {"threshold": 1, "class_": -1}])
def test_a_side_needs_a_finite_threshold_and_a_column(keywords: Any) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match=r"must be a (finite|whole) number"):
        same_side(**keywords)


def test_the_help_names_every_agreement() -> None:
    public = {name for _, name in names_in_rooms() if name.startswith(("same_", "within", "accepted_"))}
    public -= {"same_meaning"}  # it is made of a function
    assert {form.partition("(")[0] for form in FORMS} == public
    assert all(form in FIELDS["agree"].help for form in FORMS)


def test_a_function_of_outputs_and_reference_is_an_agreement() -> None:
    def same_sign(outputs: Any, reference: Any) -> Any:
        return (np.sign(outputs) == np.sign(reference)).all(axis=1)

    agree = as_agreement(same_sign)
    assert agree.name.endswith("same_sign")
    assert agree(np.array([[1.0], [-1.0]]), np.array([2.0])).tolist() == [True, False]


@pytest.mark.parametrize(
    "answer",
    [1, [1, 0], [[True], [False]], [True], None, ["yes", "no"]],
    ids=["number", "ints", "2d", "1", "none", "str"],
)
def test_a_function_that_does_not_return_one_boolean_per_row_is_refused(answer: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^`agree` must return a Boolean vector of shape \(2,\), got "):
        as_agreement(lambda outputs, reference: answer)(np.zeros((2, 3)), np.zeros(3))


def test_a_function_that_disagrees_with_itself_is_refused() -> None:
    model = lookup_table([0, 1, 1, 0], n_features=2)
    with pytest.raises(InvalidValueError, match=r"^`agree` must hold between an output and itself"):
        certify(model, [True, False], radius=1, agree=lambda outputs, reference: outputs != reference)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("same_top_clas", "Did you mean 'same_top_class'?"),
        ("same_top_sett(3)", "Did you mean 'same_top_set(k)'?"),
        ("within", "Did you mean 'within(margin)'?"),
        ("same_top_set(k)", "must have a number in the brackets"),
        ("same_side(threshold, class_)", "must have a number in the brackets"),
        ("same_side", "Did you mean 'same_side(threshold, class_)'?"),
        ("same_side()", "It cannot be read: same_side() missing 1 required"),
        ("same_side(0.3, 1, 2)", "It cannot be read: same_side() takes from 1 to 2"),
        ("same_side(0.3, column=1)", "It cannot be read: same_side() got an unexpected keyword"),
        ("same_side(1e999)", "`threshold` must be a finite number, got inf"),
        ("same_side([0.3])", "`threshold` must be a finite number, got [0.3]"),
        ("same_side(0.3, 1.5)", "`class_` must be a whole number"),
        ("same_labels([])", "`thresholds` must be a number"),
        ("same_labels([0.5)", "It cannot be read"),
        ("within(0.1)(0.2)", "must be one of same_top_class"),
        ("within(__import__('os'))", "must be one of same_top_class"),
        ("within(x)", "It cannot be read"),
        ("same_top_set(0)", "must be a whole number ≥ 1, got 0"),
        ("same_top_set(1.5)", "got 'same_top_set(1.5)'. It cannot be read"),
        ("within(-1)", "must be a number > 0, got -1"),
        ("within(nan)", "got 'within(nan)'. It cannot be read"),
        ("within(a)", "got 'within(a)'. It cannot be read"),
        ("", "must be one of same_top_class"),
    ],
)
def test_a_name_that_cannot_be_read_says_why(name: str, hint: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        as_agreement(name)
    assert str(caught.value).startswith("`agree` ")
    assert hint in str(caught.value)

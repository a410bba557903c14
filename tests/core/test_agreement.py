"""Agreement: which outputs count as the same prediction, ties and margins included."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import (
    InvalidTypeError,
    InvalidValueError,
    ModelError,
    certify,
    lookup_table,
    same_top_class,
    same_top_set,
    within,
)
from holdfast.agreement import as_agreement
from tests.helpers.oracles import exact_rate, leaders, rule
from tests.helpers.strategies import score_rows

NAMES = ("same_top_class", "same_top_set(1)", "same_top_set(2)", "same_top_set(3)", "within(0.5)", "within(1e-3)")


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
    with pytest.raises(ModelError, match=r"at least 2 classes, got 1 column\. Use `agree=within\(margin\)`"):
        same_top_class(np.zeros((3, 1)), np.zeros(1))


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


@pytest.mark.parametrize("agree", [same_top_set(1), within(0.1)], ids=lambda agree: agree.name)
def test_labels_have_no_scores_to_compare(agree: Any) -> None:
    with pytest.raises(ModelError, match=r"needs scores \(b, n_classes\), but the model returns labels"):
        agree(np.array(["a", "b"], dtype=object), "a")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float16, np.float32, np.bool_])
@pytest.mark.parametrize("agree", ["same_top_class", "same_top_set(2)", "within(100)", "within(0.5)"])
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


# -- names and callables ----------------------------------------------------------------------------


@pytest.mark.parametrize("agree", [same_top_class, same_top_set(3), within(0.25), within(1e-9), within(7)])
def test_an_agreement_can_be_made_again_from_its_name(agree: Any) -> None:
    assert as_agreement(agree.name) == agree
    assert as_agreement(json.loads(json.dumps(agree.name))) == agree
    assert as_agreement(agree) is agree


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
        ("same_top_set(k)", "must have a number in place of the letters"),
        ("same_top_set(0)", "must be a whole number ≥ 1, got 0"),
        ("same_top_set(1.5)", "got 'same_top_set(1.5)'. It cannot be read"),
        ("within(-1)", "must be a number > 0, got -1.0"),
        ("within(nan)", "must be a number > 0, got nan"),
        ("within(a)", "got 'within(a)'. It cannot be read"),
        ("", "must be one of same_top_class"),
    ],
)
def test_a_name_that_cannot_be_read_says_why(name: str, hint: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        as_agreement(name)
    assert str(caught.value).startswith("`agree` ")
    assert hint in str(caught.value)

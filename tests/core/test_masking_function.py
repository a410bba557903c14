"""Functions and tables of masks as models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from holdfast import Evaluator, MaskedModel, certify, lookup_table, mask_function, mask_text
from holdfast.agreement import within
from holdfast.errors import InvalidTypeError, InvalidValueError
from tests.helpers.contracts import bits, check_masked_model
from tests.helpers.fakes import all_masks, label_table, score_table
from tests.helpers.oracles import exact_rate
from tests.helpers.strategies import questions


@pytest.mark.parametrize(
    "model",
    [
        score_table(1),
        score_table(6),
        score_table(12, n_classes=1),
        label_table(5),
        label_table(5, labels=("cat", "dog")),
        lookup_table(np.arange(16).reshape(16, 1), n_features=4),
        lookup_table(np.arange(16) % 3 == 0, n_features=4),
        mask_function(score_table(6), n_features=6),
        mask_function(label_table(6, labels=("a", "b")), n_features=6),
    ],
)
def test_every_model_of_masks_keeps_the_contract(model: MaskedModel) -> None:
    check_masked_model(model)


def test_the_row_of_a_mask_is_the_sum_of_powers_of_two() -> None:
    table = lookup_table(np.arange(32), n_features=5)
    np.testing.assert_array_equal(table(all_masks(5)), np.arange(32))
    assert table(bits("10000")[None]) == [1]
    assert table(bits("00001")[None]) == [16]
    check_masked_model(table, full_prediction=31)


def test_a_table_is_a_copy_of_what_it_was_given() -> None:
    values = np.array([[1.0, 0.0], [0.0, 1.0]])
    table = lookup_table(values, n_features=1)
    values[:] = -1
    np.testing.assert_array_equal(table(np.array([[False], [True]])), [[1, 0], [0, 1]])
    assert values.flags.writeable


def test_one_real_score_per_mask_becomes_a_column() -> None:
    table = lookup_table([0.0, 0.25, 0.5, 1.0], n_features=2)
    np.testing.assert_array_equal(table(all_masks(2)), [[0], [0.25], [0.5], [1]])
    assert certify(table, [False, False], radius=2, agree=within(0.5), rng=0).rate == 0.5


def test_labels_of_any_kind_stay_what_they_are() -> None:
    for labels in (["a", "b", "a", "c"], [True, False, True, True], [7, 8, 9, 7]):
        table = lookup_table(labels, n_features=2)
        assert table(all_masks(2)).tolist() == labels
        assert certify(table, [False, False], radius=2, rng=0).prediction == labels[0]


def test_a_function_gets_the_masks_and_its_answer_comes_back() -> None:
    seen: list[Any] = []

    def function(masks: Any) -> list[list[float]]:
        seen.append(masks.copy())
        return [[float(row.sum()), 1.0] for row in masks]

    model = mask_function(function, n_features=3)
    masks = all_masks(3)
    outputs = model(masks)
    assert isinstance(outputs, np.ndarray)
    np.testing.assert_array_equal(outputs[:, 0], masks.sum(axis=1))
    np.testing.assert_array_equal(seen, [masks])


@given(question=questions())
def test_a_table_and_the_function_that_reads_it_get_the_same_certificate(question: Any) -> None:
    table, selected, radius = question
    function = mask_function(lambda masks: table(masks), n_features=table.n_features)
    one, other = (certify(model, selected, radius=radius, rng=0) for model in (table, function))
    assert replace(one, provenance=other.provenance) == other
    assert one.exact
    assert one.n_evaluated <= 64
    assert one.rate == float(exact_rate(table, selected, radius))


@pytest.mark.parametrize(
    ("values", "n_features", "got"),
    [
        ([0, 1, 2], 2, r"2\*\*2 = 4 rows, got an array of shape \(3,\)"),
        ([0, 1, 2, 3], 3, r"2\*\*3 = 8 rows, got an array of shape \(4,\)"),
        (np.zeros((4, 1, 1)), 2, r"2\*\*2 = 4 rows, got an array of shape \(4, 1, 1\)"),
        (5, 1, r"2\*\*1 = 2 rows, got an array of shape \(\)"),
    ],
)
def test_a_table_of_the_wrong_shape_is_refused(values: Any, n_features: int, got: str) -> None:
    with pytest.raises(InvalidValueError, match=f"^`values` must have {got}"):
        lookup_table(values, n_features=n_features)


def test_a_table_that_would_fill_the_memory_is_refused_before_it_does() -> None:
    with pytest.raises(InvalidValueError, match=r"^`n_features` must be at most 30 for a table, got 1000\."):
        lookup_table([], n_features=1000)


@pytest.mark.parametrize("function", [None, 3, np.zeros(4), "model"])
def test_what_cannot_be_called_is_not_a_function(function: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^`function` must be callable on masks"):
        mask_function(function, n_features=3)


def test_a_bound_model_is_printed_as_one_line() -> None:
    model = lookup_table(np.arange(16) % 2, n_features=4, classes=("no", "yes"))
    assert repr(model) == "TableModel(4 features; 2 classes: 'no', 'yes')"
    assert repr(Evaluator(model)) == f"Evaluator({model!r})"
    text = mask_text(lambda texts: [len(text) for text in texts], "one two three four")
    assert repr(text) == "TextModel(4 features: 'one', 'two', 'three', …)"

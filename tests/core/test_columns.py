"""Columns, named groups and windows as maps column → feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.table.columns import as_feature_map, column_groups, columns, windows

NAMES = ("age", "red", "green", "blue", "city")


@given(n=st.integers(1, 50))
def test_every_column_is_a_feature_of_its_own(n: int) -> None:
    assert columns(n).tolist() == list(range(n))
    assert as_feature_map(None, shape=(n,), labels=range(n)).of_column.tolist() == list(range(n))


@given(length=st.integers(1, 60), width=st.integers(1, 70))
def test_windows_are_runs_of_steps_of_one_width_but_the_last(length: int, width: int) -> None:
    steps = windows(length, width)
    sizes = np.bincount(steps)
    assert (np.diff(steps) >= 0).all()
    assert len(steps) == sizes.sum() == length
    assert (sizes[:-1] == width).all()
    assert 1 <= sizes[-1] <= width


def test_groups_come_first_in_the_order_given_then_every_other_column() -> None:
    made = as_feature_map(
        column_groups({"place": ["city"], "colour": ["blue", "red", "green"]}), shape=(5,), labels=NAMES
    )
    assert made.names == ("place", "colour", "age")
    assert made.of_column.tolist() == [2, 1, 1, 1, 0]
    assert made.n_features == 3
    assert made.hideable.all()


def test_a_plain_mapping_and_positions_say_the_same_as_column_groups() -> None:
    by_name = as_feature_map(column_groups({"colour": ["red", "green", "blue"]}), shape=(5,), labels=NAMES)
    for same in ({"colour": [1, 2, 3]}, {"colour": np.array([1, 2, 3])}, {"colour": ("red", 2, "blue")}):
        made = as_feature_map(same, shape=(5,), labels=NAMES)
        assert made.names == by_name.names
        assert made.of_column.tolist() == by_name.of_column.tolist()


def test_a_label_that_is_a_number_counts_as_a_label_before_it_counts_as_a_position() -> None:
    made = as_feature_map({"first": [2]}, shape=(3,), labels=(2, 1, 0))
    assert made.of_column.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([0, 1, 1, 1, 2], ("age", "red–blue", "city")),
        ([0, 1, 0, 1, -1], ("age+green", "red+blue")),
        ([2, 1, 1, 0, 0], ("blue–city", "red–green", "age")),
    ],
)
def test_features_are_named_after_their_columns(groups: list[int], names: tuple[str, ...]) -> None:
    assert as_feature_map(groups, shape=(5,), labels=NAMES).names == names


def test_a_feature_of_many_scattered_columns_is_named_by_its_ends() -> None:
    made = as_feature_map([0, 1] * 6, shape=(12,), labels=range(12))
    assert made.names == ("0+…+10", "1+…+11")


def test_a_map_of_steps_holds_for_every_channel() -> None:
    made = as_feature_map(windows(4, 2), shape=(4, 3), labels=range(4))
    assert made.of_column.reshape(4, 3).tolist() == [[0] * 3, [0] * 3, [1] * 3, [1] * 3]
    assert made.names == ("0–1", "2–3")


def test_a_map_may_tell_channels_apart() -> None:
    made = as_feature_map([[0, 1], [0, 1]], shape=(2, 2), labels=range(2))
    assert made.of_column.tolist() == [0, 1, 0, 1]
    assert made.names == ("0", "1")


def test_a_map_is_a_copy_that_cannot_be_changed() -> None:
    given_map = np.array([0, 1, 0])
    made = as_feature_map(given_map, shape=(3,), labels=range(3))
    given_map[:] = 7
    assert made.of_column.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="read-only"):
        made.of_column[0] = 1


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([0, 1, 3, 3, 4], InvalidValueError, r"^`groups` must use every feature number from 0 to 4, got none for 2\."),
        ([1, 1, 1, 1, 1], InvalidValueError, r"^`groups` must use every feature number from 0 to 1, got none for 0\."),
        ([0, 1, -2, 1, 1], InvalidValueError, r"^`groups` must be features 0, 1, … or -1 \(always shown\), got -2\."),
        ([-1] * 5, InvalidValueError, r"^`groups` must have at least one feature"),
        ([0, 1], InvalidValueError, r"^`groups` must be whole numbers of shape \(5,\), got shape \(2,\)\."),
        (3, InvalidValueError, r"^`groups` must be whole numbers of shape \(5,\), got shape \(\)\."),
        ([0.0] * 5, InvalidTypeError, r"^`groups` must be whole numbers of shape \(5,\), got float64\."),
        ([True] * 5, InvalidTypeError, r"^`groups` must be whole numbers of shape \(5,\), got bool\."),
        ([[0], [1, 2]], InvalidValueError, r"got rows of unequal length\."),
        ({"a": ["nose"]}, InvalidValueError, r"^`groups` must name columns of the row \('age', .*\), got 'nose'\."),
        ({"a": [5]}, InvalidValueError, r"^`groups` must name columns of the row .*, got 5\."),
        ({"a": [-1]}, InvalidValueError, r"^`groups` must name columns of the row .*, got -1\."),
        (
            {"a": ["red"], "b": [1]},
            InvalidValueError,
            r"^`groups` must name every column at most once, got 'red' twice",
        ),
        ({"a": []}, InvalidValueError, r"^`groups\['a'\]` must name at least one column, got none\."),
        ({"a": "red"}, InvalidTypeError, r"^`groups\['a'\]` must be a list of columns, got 'red'\."),
        ({"a": 1}, InvalidTypeError, r"^`groups\['a'\]` must be a list of columns, got 1\."),
        ({1: ["red"]}, InvalidTypeError, r"^`groups` must map feature names to lists of columns"),
    ],
)
def test_a_map_that_cannot_be_meant_is_refused(groups: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_feature_map(groups, shape=(5,), labels=NAMES)


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True])
def test_sizes_are_whole_numbers_from_one(value: Any) -> None:
    for make in (lambda: columns(value), lambda: windows(value, 2), lambda: windows(2, value)):
        with pytest.raises((InvalidValueError, InvalidTypeError), match=r"must be a whole number ≥ 1"):
            make()

"""Arguments: what is taken, what is refused, and that every message has the same shape."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import (
    Evaluator,
    HoldfastError,
    certified_radius,
    certify,
    certify_hard,
    certify_mus,
    certify_radii,
    compare,
    find_witness,
    lookup_table,
    mask_tabular,
    mus_model,
)
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.validation import (
    MOST_AT_ONCE,
    MOST_ENTRIES,
    check_amount,
    check_file,
    check_flag,
    check_list,
    check_mask,
    check_name,
    check_numbers,
    check_path,
    check_selection,
    check_share,
    check_size,
    check_unpacked,
    check_whole,
    drawing,
    read_text,
    shown,
    split_spec,
)

SHAPE = re.compile(r"^`[\w.]+` must (be|have|hold|name) .+, got .+[.?]$")
"""What must hold, for which name, what was received; a hint may follow."""


def message(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, HoldfastError)
    return str(caught.value)


@pytest.mark.parametrize(
    ("error", "built_in"), [(InvalidValueError, ValueError), (InvalidTypeError, TypeError), (ModelError, ValueError)]
)
def test_every_error_is_ours_and_the_built_in_one_would_expect(error: type, built_in: type) -> None:
    assert issubclass(error, HoldfastError)
    assert issubclass(error, built_in)


# -- whole numbers ----------------------------------------------------------------------------------


@given(value=st.integers(0, 10**30))
def test_a_whole_number_comes_back(value: int) -> None:
    assert check_whole(value, "radius") == value


@pytest.mark.parametrize(
    "value", [3.0, np.float32(3), np.int8(3), np.uint64(3), Fraction(3), np.float64(3)], ids=lambda v: type(v).__name__
)
def test_a_whole_number_of_any_numeric_type_becomes_an_int(value: Any) -> None:
    checked = check_whole(value, "radius")
    assert checked == 3
    assert type(checked) is int


def test_a_whole_number_may_have_any_number_of_digits() -> None:
    assert check_whole(10**400, "radius") == 10**400


@pytest.mark.parametrize(
    "value",
    [-1, 0.5, 2.999, float("nan"), float("inf"), -float("inf"), Fraction(1, 2), pytest.param(-(10**400), id="huge")],
)
def test_a_number_that_is_not_whole_is_refused(value: Any) -> None:
    said = message(InvalidValueError, lambda: check_whole(value, "radius"))
    assert said == f"`radius` must be a whole number ≥ 0, got {shown(value)}."


@pytest.mark.parametrize("value", [True, np.True_, "3", None, [3], 3j, b"3", Decimal(3), np.array(3), np.array([3])])
def test_what_is_not_a_number_is_refused_as_a_type(value: Any) -> None:
    said = message(InvalidTypeError, lambda: check_whole(value, "radius"))
    assert said == f"`radius` must be a whole number ≥ 0, got {shown(value)}."


def test_the_least_value_is_part_of_the_message() -> None:
    assert check_whole(1, "batch_size", minimum=1) == 1
    said = message(InvalidValueError, lambda: check_whole(0, "batch_size", minimum=1))
    assert said == "`batch_size` must be a whole number ≥ 1, got 0."


# -- shares -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "fraction"),
    [
        (0.1, Fraction(1, 10)),
        (0.95, Fraction(19, 20)),
        (1e-05, Fraction(1, 100_000)),
        (np.float64(0.02), Fraction(1, 50)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float16(0.05), Fraction(1, 20)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_a_share_is_the_fraction_its_digits_say(value: Any, fraction: Fraction) -> None:
    assert check_share(value, "tolerance") == fraction


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 1.1, float("nan"), float("inf"), Fraction(3, 2), 90])
def test_a_number_outside_the_open_unit_interval_is_refused(value: Any) -> None:
    said = message(InvalidValueError, lambda: check_share(value, "confidence"))
    assert said == f"`confidence` must be a number strictly between 0 and 1, got {value!r}."


@pytest.mark.parametrize("value", ["0.1", None, True, [0.1], 0.1j, np.array(0.1)])
def test_a_share_that_is_not_a_number_is_refused_as_a_type(value: Any) -> None:
    said = message(InvalidTypeError, lambda: check_share(value, "tolerance"))
    assert said == f"`tolerance` must be a number strictly between 0 and 1, got {value!r}."


# -- masks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [[True, False], (True, False), np.array([True, False])], ids=["list", "tuple", "array"]
)
def test_a_mask_is_copied_and_read_only(value: Any) -> None:
    mask = check_mask(value, "selected", n_features=2)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [True, False]
    assert not mask.flags.writeable
    if isinstance(value, np.ndarray):
        value[0] = False
        assert mask[0]


def test_a_strided_mask_is_taken_as_it_reads() -> None:
    assert check_mask(np.array([True, False, False, True])[::2], "selected").tolist() == [True, False]


@pytest.mark.parametrize("value", [[0, 1], [0.0, 1.0], ["a", "b"], [None, None], np.array([1, 0], dtype=np.uint8)])
def test_flags_and_indices_are_not_guessed_to_be_a_mask(value: Any) -> None:
    said = message(InvalidTypeError, lambda: check_mask(value, "selected"))
    assert SHAPE.match(said)
    assert said.startswith("`selected` must be Boolean, got ")
    assert "`top(scores, k)`" in said
    assert ".astype(bool)" not in said


@pytest.mark.parametrize("value", [[], [[True]], True, None, np.zeros((0, 3), dtype=bool), "mask"])
def test_what_is_not_a_vector_is_not_a_mask(value: Any) -> None:
    said = message(InvalidValueError, lambda: check_mask(value, "selected"))
    assert SHAPE.match(said)
    assert "Boolean vector (n_features,)" in said


def test_a_ragged_list_is_not_a_mask() -> None:
    said = message(InvalidValueError, lambda: check_mask([[True], [True, False]], "selected"))
    assert said.startswith("`selected` must be a Boolean vector (n_features,)")


class Named:
    """A model of four features with names, two of which are called the same."""

    n_features, feature_names = 4, ("age", "income", "the", "the")


@pytest.mark.parametrize(
    "value",
    [
        [True, True, False, False],
        ["age", "income"],
        ("income", "age"),
        np.array(["age", "income"]),
        np.array(["age", "income"], dtype=object),
        [0, 1],
        [1, 0],
        np.array([1, 0], dtype=np.uint8),
    ],
)
def test_a_selection_is_a_mask_or_names_or_indices(value: Any) -> None:
    mask = check_selection(value, "selected", Named())
    assert mask.tolist() == [True, True, False, False]
    assert not mask.flags.writeable
    bound = mask_tabular(len, [0.0] * 4, fill=0, columns=["age", "income", "a", "b"])
    assert check_selection(value, "selected", Evaluator(bound)).tolist() == mask.tolist()


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([0.1, 0.7, 0.0, 0.2], InvalidTypeError, "Turn scores into a mask with `top(scores, k)`"),
        ([0, 1, 1, 0], InvalidTypeError, "0 and 1 may be flags or indices. Turn flags into a mask with"),
        ([0, 4], InvalidValueError, "must hold indices from 0 to 3, got [0, 4]"),
        ([-1], InvalidValueError, "must hold indices from 0 to 3, got [-1]"),
        ([2, 2], InvalidValueError, "must name every feature once, got [2, 2]"),
        (["age", "age"], InvalidValueError, "must name every feature once"),
        (["incom"], InvalidValueError, "got 'incom'. Did you mean 'income'?"),
        (["the"], InvalidValueError, "got 'the', the name of features 2, 3. Pass indices."),
        (["age", 1], InvalidValueError, "must hold names of features, got '1'"),
        ("age", InvalidValueError, "must be a Boolean vector (n_features,)"),
        ([], InvalidValueError, "must be a Boolean vector (n_features,)"),
        ([[0], [1]], InvalidValueError, "got an array of shape (2, 1)"),
    ],
)
def test_what_selects_nothing_clearly_is_refused(value: Any, error: type[Exception], words: str) -> None:
    said = message(error, lambda: check_selection(value, "selected", Named()))
    assert said.startswith("`selected` must ")
    assert words in said


def test_names_need_a_model_that_has_them_and_indices_one_that_counts_its_features() -> None:
    said = message(InvalidTypeError, lambda: check_selection(["age"], "selected", lookup_table([0, 1], n_features=1)))
    assert said.endswith("got names: the model does not say what its features are called.")
    assert check_selection([True], "selected", object()).tolist() == [True]
    message(InvalidTypeError, lambda: check_selection([0], "selected", object()))


def test_every_function_takes_the_same_selections() -> None:
    model = mask_tabular(
        lambda rows: np.stack([rows.sum(axis=1), np.full(len(rows), 2.5)], axis=1),
        np.ones(4),
        fill=0.0,
        columns=["a", "b", "c", "d"],
    )
    mask = np.array([False, True, True, False])
    for selected in (["b", "c"], [1, 2]):
        assert certify(model, selected, radius=2, rng=0) == certify(model, mask, radius=2, rng=0)
        assert certify_radii(model, selected, radii=[1, 2], rng=0) == certify_radii(model, mask, radii=[1, 2], rng=0)
        assert certify_hard(model, selected, radius=2, rng=0) == certify_hard(model, mask, radius=2, rng=0)
        assert find_witness(model, selected, rng=0) == find_witness(model, mask, rng=0)
        assert certified_radius(model, selected, min_rate=0.5, rng=0) == certified_radius(
            model, mask, min_rate=0.5, rng=0
        )
        assert certify_mus(model, selected, keep_probability=0.25, rng=0) == certify_mus(
            model, mask, keep_probability=0.25, rng=0
        )
        compared = compare(model, {"x": selected, "y": [0]}, [1], rng=0)
        assert compared == compare(model, {"x": mask, "y": np.arange(4) == 0}, [1], rng=0)
        certificates = [
            certify(mus_model(model, 0.25, rng=0), features, radius=1, rng=0) for features in (selected, mask)
        ]
        assert certificates[0] == certificates[1]


def test_a_mask_of_another_length_is_refused_with_both_lengths() -> None:
    said = message(InvalidValueError, lambda: check_mask([True, False], "selected", n_features=3))
    assert said == "`selected` must have one entry per feature: the model has 3 features, got 2."


# -- names ------------------------------------------------------------------------------------------


def test_a_known_name_comes_back() -> None:
    assert check_name("exact", "plan", ("sequential", "exact")) == "exact"


@pytest.mark.parametrize(
    ("value", "nearest"),
    [("sequentail", "sequential"), ("Exact", "exact"), ("hoefding", "hoeffding"), ("seq", "sequential")],
)
def test_an_unknown_name_is_answered_with_the_nearest(value: str, nearest: str) -> None:
    said = message(InvalidValueError, lambda: check_name(value, "plan", ("sequential", "exact", "hoeffding")))
    wanted = f"`plan` must be one of sequential, exact, hoeffding, got {value!r}. Did you mean {nearest!r}?"
    assert said == wanted


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    said = message(InvalidValueError, lambda: check_name("zzz", "plan", ("sequential", "exact")))
    assert said == "`plan` must be one of sequential, exact, got 'zzz'."
    assert message(InvalidValueError, lambda: check_name("", "plan", ["exact"])).endswith("got ''.")


@pytest.mark.parametrize("value", [None, 3, b"exact", ["exact"]])
def test_a_name_must_be_a_string(value: Any) -> None:
    said = message(InvalidTypeError, lambda: check_name(value, "plan", ("sequential", "exact")))
    assert said == f"`plan` must be one of sequential, exact, got {value!r}."


# -- the rest -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, False, np.True_])
def test_a_flag_comes_back_as_a_bool(value: Any) -> None:
    assert check_flag(value, "votes") is bool(value)


REFUSED: list[tuple[Callable[..., Any], Any, type[HoldfastError], str]] = [
    (check_flag, 1, InvalidTypeError, "True or False, got 1."),
    (check_flag, "yes", InvalidTypeError, "True or False, got 'yes'."),
    (check_size, 0, InvalidValueError, "a whole number ≥ 1, got 0."),
    (check_size, MOST_AT_ONCE + 1, InvalidValueError, "at most 1000000000, got 1000000001."),
    (check_amount, "1", InvalidTypeError, "a number > 0, got '1'."),
    (check_amount, 0, InvalidValueError, "a number > 0, got 0."),
    (check_amount, float("nan"), InvalidValueError, "a number > 0, got nan."),
    (check_amount, float("inf"), InvalidValueError, "a number > 0, got inf."),
    (check_numbers, ["a"], InvalidTypeError, "numbers, got <U1."),
    (check_numbers, [1j], InvalidTypeError, "numbers, got complex128."),
    (check_numbers, [[1], [1, 2]], InvalidValueError, "numbers, got rows of unequal length."),
    (check_path, 3, InvalidTypeError, "the name of a file, got 3."),
    (check_path, "a\0b", InvalidValueError, "the name of a file, got 'a\\x00b'."),
    (check_path, "\ud800", InvalidValueError, "the name of a file, got '\\ud800'."),
]


@pytest.mark.parametrize(("check", "value", "error", "wanted"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_is_refused_is_refused_in_the_one_form(
    check: Callable[..., Any], value: Any, error: type[HoldfastError], wanted: str
) -> None:
    assert message(error, lambda: check(value, "given")) == f"`given` must be {wanted}"


def test_what_fits_comes_back_in_one_type() -> None:
    assert check_size(MOST_AT_ONCE, "n") == MOST_AT_ONCE
    assert [check_amount(2, "n"), check_amount(0, "n", may_be_zero=True)] == [2.0, 0.0]
    assert check_numbers([True, False], "n").tolist() == [1.0, 0.0]
    assert check_path("a.json", "file") == check_path(Path("a.json"), "file") == Path("a.json")


@pytest.mark.parametrize("value", ["ab", b"ab", {"a": 1}, 3, np.array(3)], ids=repr)
def test_a_text_a_mapping_and_a_single_thing_are_no_list(value: Any) -> None:
    assert message(InvalidTypeError, lambda: check_list(value, "n", "be a list")).startswith("`n` must be a list, ")
    assert check_list(range(3), "n", "be a list") == [0, 1, 2]


def test_what_cannot_be_drawn_is_refused_with_the_reason_and_other_errors_pass() -> None:
    @drawing
    def draw(error: Exception | None) -> int:
        if error is None:
            return 3
        raise error

    assert draw(None) == 3
    with pytest.raises(InvalidValueError, match=r"^draw cannot draw this: ValueError: no such colour$"):
        draw(ValueError("no such colour"))
    for error in (ModelError("ours"), FileNotFoundError("no folder"), MemoryError()):
        with pytest.raises(type(error)) as passed:
            draw(error)
        assert passed.value is error


def test_a_scheme_is_split_from_its_place_or_answered_with_the_nearest() -> None:
    known = ("bundled", "hf")
    asked: list[str] = []
    assert split_spec("hf:a/b:c", "model", known, asked.append) == ("hf", "a/b:c")
    assert asked == []
    wanted = "`model` must start with one of bundled:, hf:, got "
    assert message(InvalidTypeError, lambda: split_spec(3, "model", known, asked.append)) == wanted + "3."
    assert message(InvalidValueError, lambda: split_spec("xyz", "model", known, asked.append)) == wanted + "'xyz'."
    told = message(InvalidValueError, lambda: split_spec("Bundle:digits", "model", known, asked.append))
    assert told == wanted + "'Bundle:digits'. Did you mean 'bundled:digits'?"
    assert message(InvalidValueError, lambda: split_spec("bundled", "model", known, asked.append)).endswith(
        "Did you mean 'bundled:'?"
    )
    told = message(InvalidValueError, lambda: split_spec("C:\\m.pkl", "model", known, "Save {} otherwise.".format))
    assert told == wanted + "'C:\\\\m.pkl'. Save C:\\m.pkl otherwise."
    assert asked == ["xyz", "digits", "bundled"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("LIME", "lime"),
        ("ig", "integrated_gradients"),
        ("IG", "integrated_gradients"),
        ("Q1", "q1-rates"),
        ("Shp", "shap"),
    ],
)
def test_names_are_suggested_whatever_their_case_and_by_their_initials(typed: str, meant: str) -> None:
    known = ["lime", "shap", "integrated_gradients", "q1-rates"]
    told = message(InvalidValueError, lambda: check_name(typed, "method", known))
    assert told.endswith(f", got {typed!r}. Did you mean {meant!r}?")


# -- without end -----------------------------------------------------------------------------------


def test_a_number_of_thousands_of_digits_is_refused_in_words() -> None:
    said = message(InvalidValueError, lambda: check_whole(10**5000, "radius"))
    assert said == "`radius` must be a whole number ≥ 0, got a number of thousands of digits."


def test_what_is_quoted_is_cut() -> None:
    assert shown("cat") == "'cat'"
    assert len(shown("x" * 10**6)) < 300


def test_a_list_has_no_more_entries_than_it_may() -> None:
    assert check_list(range(3), "radii", "be numbers", most=3) == [0, 1, 2]
    for endless in (range(10**9), range(10**30), iter(int, 1)):
        said = message(InvalidValueError, lambda endless=endless: check_list(endless, "radii", "be numbers", most=9))
        assert said == "`radii` must be numbers of at most 9 entries, got more."
    assert MOST_ENTRIES == 10_000


def test_a_size_has_a_limit_of_its_own_where_one_is_stated() -> None:
    assert check_size(5, "n_levels", most=5) == 5
    assert (
        message(InvalidValueError, lambda: check_size(6, "n_levels", most=5)) == "`n_levels` must be at most 5, got 6."
    )


def test_only_regular_files_of_a_limited_size_are_read(tmp_path: Path) -> None:
    path, pipe = tmp_path / "text", tmp_path / "pipe"
    path.write_bytes(b"\xef\xbb\xbfday")
    os.mkfifo(pipe)
    assert read_text(path) == "day"
    assert "must have at most 3 bytes, got 6." in message(InvalidValueError, lambda: check_file(path, most=3))
    for endless in (pipe, Path("/dev/zero")):
        assert "must be a regular file" in message(InvalidValueError, lambda endless=endless: read_text(endless))
    path.write_bytes("é".encode("latin-1"))
    assert "must be text in UTF-8" in message(InvalidValueError, lambda: read_text(path))
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path)


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10**6))
    check_unpacked(tmp_path / "a.zip", most=10**6)
    said = message(InvalidValueError, lambda: check_unpacked(tmp_path / "a.zip", most=10**6 - 1))
    assert said.endswith("must unpack to at most 999999 bytes, got 1000000.")
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 255  # in the list of its files: a version that nobody can unpack
    (tmp_path / "a.zip").write_bytes(content)
    assert zipfile.is_zipfile(tmp_path / "a.zip")
    assert "cannot be read" in message(InvalidValueError, lambda: check_unpacked(tmp_path / "a.zip"))

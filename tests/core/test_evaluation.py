"""The only loop over the model: batches, repeats, memory, errors, interruptions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Evaluator, MaskedModel, Tally, certify, certify_hard, lookup_table, mask_function
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.types import Masks
from tests.helpers.contracts import bits, check_masked_model
from tests.helpers.fakes import Recorded, all_masks, label_table, score_table
from tests.helpers.strategies import mask_batches, tables

SELECTED = np.arange(12) < 2


def rows_of(masks: Masks) -> list[tuple[bool, ...]]:
    return [tuple(mask) for mask in masks.tolist()]


# -- batches and repeats ----------------------------------------------------------------------------


@given(model=tables(5), masks=st.lists(mask_batches(5), max_size=4), batch_size=st.integers(1, 40))
def test_outputs_are_those_of_the_model_whatever_the_batches(
    model: MaskedModel, masks: list[Masks], batch_size: int
) -> None:
    recorded = Recorded(model)
    evaluator = Evaluator(recorded, batch_size=batch_size)
    for batch in masks:
        assert evaluator(batch).tolist() == np.asarray(model(batch)).tolist()
    assert all(1 <= size <= batch_size for size in recorded.batch_sizes)
    assert set(recorded.times_asked.values()) <= {1}
    assert evaluator.n_calls == recorded.n_rows


def test_an_evaluator_is_a_masked_model() -> None:
    check_masked_model(Evaluator(score_table(6), batch_size=5))
    check_masked_model(Evaluator(label_table(6), batch_size=5))


def test_a_batch_is_filled_before_the_next_begins() -> None:
    recorded = Recorded(score_table(6))
    Evaluator(recorded, batch_size=25)(all_masks(6))
    assert recorded.batch_sizes == [25, 25, 14]


def test_a_model_may_name_its_own_batch_size() -> None:
    recorded = Recorded(score_table(6))
    recorded.batch_size = 10  # type: ignore[attr-defined]
    assert Evaluator(recorded).batch_size == 10
    assert Evaluator(recorded, batch_size=3).batch_size == 3
    assert Evaluator(score_table(6)).batch_size == 256


def test_masks_that_differ_only_in_the_last_of_many_features_are_told_apart() -> None:
    """Packed bits are padded to whole bytes, and a key of zero bytes is a key."""
    for n in (1, 7, 8, 9, 16, 17):
        model = mask_function(lambda masks: masks.astype(int) @ np.arange(1, masks.shape[1] + 1), n_features=n)
        masks = np.zeros((n + 1, n), dtype=bool)
        masks[np.arange(n), np.arange(n)] = True
        assert Evaluator(model)(masks).tolist() == [*range(1, n + 1), 0]


def test_masks_in_any_memory_order_are_the_same_masks() -> None:
    masks = all_masks(6)
    model = score_table(6)
    strided = np.repeat(masks, 2, axis=1)[:, ::2]
    for given_masks in (np.asfortranarray(masks), strided, masks[::-1][::-1], masks.tolist()):
        np.testing.assert_array_equal(Evaluator(model, batch_size=10)(given_masks), model(masks))


def test_evaluated_masks_and_outputs_come_back_in_the_order_of_computation() -> None:
    model = score_table(4)
    evaluator = Evaluator(model, batch_size=3)
    asked = all_masks(4)[[3, 9, 3, 0, 9, 15, 1]]
    evaluator(asked[:4])
    evaluator(asked[4:])
    np.testing.assert_array_equal(evaluator.masks, all_masks(4)[[3, 9, 0, 15, 1]])
    assert evaluator.masks.dtype == np.bool_
    np.testing.assert_array_equal(evaluator.outputs, model(evaluator.masks))


def test_an_evaluator_that_was_never_asked_remembers_nothing() -> None:
    assert Evaluator(score_table(4)).masks.shape == (0, 4)


def test_a_mask_drawn_often_is_computed_once_and_counted_every_time() -> None:
    """150 draws from 8 masks."""
    recorded = Recorded(score_table(11))
    evaluator = Evaluator(recorded)
    selected = np.arange(11) < 8
    drawn = np.random.default_rng(0).integers(0, 8, size=(150,))
    masks = np.tile(selected, (150, 1))
    masks[:, 8:] = all_masks(3)[drawn]
    outputs = evaluator(masks)
    assert len(outputs) == 150
    assert recorded.n_rows == 8
    np.testing.assert_array_equal(outputs, score_table(11)(masks))


def test_draws_that_repeat_are_counted_but_not_computed_again() -> None:
    """The paper's 150 draws from 176 masks certainly repeat some."""
    recorded = Recorded(score_table(12))
    cert = certify(recorded, SELECTED, radius=3, plan="hoeffding", check_determinism=False, rng=0)
    assert not cert.exact
    assert cert.n_evaluated == 150
    assert cert.n_calls == recorded.n_rows < 120
    assert set(recorded.times_asked.values()) == {1}


def test_an_evaluator_can_learn_what_another_has_computed() -> None:
    recorded = Recorded(score_table(6))
    first, second = Evaluator(recorded), Evaluator(recorded)
    first(all_masks(6)[:20])
    second(all_masks(6)[10:30])
    first.learn(second)
    first.learn(second)
    n_rows = recorded.n_rows
    assert first(all_masks(6)[:30]).tolist() == score_table(6)(all_masks(6)[:30]).tolist()
    assert (recorded.n_rows, first.n_calls) == (n_rows, 20), "nothing was computed for it"
    assert len(first.masks) == 30


def test_questions_that_share_an_evaluator_share_computed_masks() -> None:
    recorded = Recorded(score_table(6))
    evaluator = Evaluator(recorded)
    selected = bits("110000")
    first = certify(evaluator, selected, radius=3, check_determinism=False, rng=0)
    again = certify(evaluator, selected, radius=4, check_determinism=False, rng=0)
    assert set(recorded.times_asked.values()) == {1}
    assert (first.n_calls, again.n_calls, evaluator.n_calls) == (16, 16, 16)
    assert again == certify(score_table(6), selected, radius=4, check_determinism=False, rng=0)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 10, 64, 10_000])
@pytest.mark.parametrize("ask", [certify, certify_hard])
def test_the_batch_size_never_changes_a_certificate(ask: Any, batch_size: int) -> None:
    usual = ask(score_table(12), SELECTED, radius=5, rng=0)
    recorded = Recorded(score_table(12))
    assert ask(recorded, SELECTED, radius=5, batch_size=batch_size, rng=0) == usual
    assert max(recorded.batch_sizes) <= batch_size


def test_tallies_of_separate_draws_add() -> None:
    assert Tally(3, 5) + Tally(1, 10) == Tally(4, 15)
    assert sum([Tally(1, 2)] * 3, Tally()) == Tally(3, 6)


# -- what a model does to its arguments and answers -------------------------------------------------


def shows_the_first_feature(masks: Masks) -> Any:
    """A model that writes to the masks it is given, as a token that is always shown."""
    outputs = score_table(5)(masks)
    masks[:, 0] = True
    return outputs


def test_a_model_that_writes_to_its_masks_does_not_corrupt_the_results() -> None:
    masks = all_masks(5)
    evaluator = Evaluator(mask_function(shows_the_first_feature, n_features=5), batch_size=7)
    outputs = evaluator(masks)
    np.testing.assert_array_equal(masks, all_masks(5))
    np.testing.assert_array_equal(outputs, score_table(5)(all_masks(5)))
    np.testing.assert_array_equal(evaluator.masks, all_masks(5))
    spoiled = certify(mask_function(shows_the_first_feature, n_features=5), bits("01000"), radius=2, rng=0)
    whole = mask_function(lambda shown: score_table(5)(shown), n_features=5)
    assert spoiled == certify(whole, bits("01000"), radius=2, rng=0)


def test_a_model_that_writes_to_its_masks_and_then_runs_out_of_memory_is_retried_on_the_masks_asked() -> None:
    def before(_: int, masks: Masks) -> None:
        masks[:, 0] = True
        if len(masks) > 4:
            raise MemoryError

    recorded = Recorded(mask_function(lambda masks: masks[:, 1], n_features=5), before)
    evaluator = Evaluator(recorded, batch_size=32)
    np.testing.assert_array_equal(evaluator(all_masks(5)).astype(bool), all_masks(5)[:, 1])
    np.testing.assert_array_equal(evaluator.masks, all_masks(5))


def test_a_model_that_reuses_its_output_buffer_does_not_corrupt_the_results() -> None:
    buffer = np.zeros((4, 3))

    def refill(masks: Masks) -> Any:
        buffer[: len(masks)] = score_table(5)(masks)
        return buffer[: len(masks)]

    outputs = Evaluator(mask_function(refill, n_features=5), batch_size=4)(all_masks(5))
    np.testing.assert_array_equal(outputs, score_table(5)(all_masks(5)))


def test_what_is_remembered_cannot_be_changed_from_outside() -> None:
    evaluator = Evaluator(score_table(3))
    truth = score_table(3)(all_masks(3))
    for returned in (evaluator(all_masks(3)), evaluator.outputs):
        if returned.flags.writeable:
            returned[:] = -1
    np.testing.assert_array_equal(evaluator(all_masks(3)), truth)


# -- labels and scores ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels", [(0, 1, 2), ("cat", "dog", "a much longer name"), (True, False), (-5, 10**30)], ids=str
)
def test_models_that_only_return_labels_are_models(labels: tuple[Any, ...]) -> None:
    model = label_table(6, labels=labels)
    evaluator = Evaluator(model, batch_size=5)
    assert evaluator(all_masks(6)).tolist() == model(all_masks(6)).tolist()
    cert = certify(model, bits("110000"), radius=2, rng=0)
    assert cert.prediction == model(bits("110000")[None])[0]
    assert type(cert.prediction) in {type(label) for label in labels}, "a NumPy scalar, not the label itself"
    assert cert.exact


def test_labels_that_grow_longer_are_not_cut() -> None:
    """NumPy strings have a fixed width: 'dog' must not become the 'd' of an earlier batch of 'a'."""
    model = mask_function(lambda masks: np.array(["a" * int(row.sum()) for row in masks]), n_features=5)
    masks = np.tri(6, 5, -1, dtype=bool)
    assert Evaluator(model, batch_size=1)(masks).tolist() == ["a" * k for k in range(6)]


def test_scores_that_change_their_number_type_keep_their_values() -> None:
    def answer(masks: Masks) -> Any:
        return masks.astype(np.int64)[:, :2] if masks[0, 0] else masks[:, :2] * 0.25

    evaluator = Evaluator(mask_function(answer, n_features=3), batch_size=1)
    assert evaluator(np.array([bits("110"), bits("010"), bits("100")])).tolist() == [[1, 1], [0, 0.25], [1, 0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8, np.bool_])
def test_scores_of_any_real_type_are_scores(dtype: Any) -> None:
    values = np.random.default_rng(0).integers(0, 2, size=(8, 3)).astype(dtype)
    outputs = Evaluator(lookup_table(values, n_features=3))(all_masks(3))
    np.testing.assert_array_equal(outputs, values.astype(float))


def one_bad_row(value: Any, rows: set[int]) -> MaskedModel:
    values = np.zeros((64, 2))
    values[sorted(rows), 1] = value
    return lookup_table(values, n_features=6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_reported_with_the_masks_it_came_from(value: float) -> None:
    with pytest.raises(ModelError) as caught:
        Evaluator(one_bad_row(value, {0b010010, 0b100000, 0b111111}))(all_masks(6))
    assert str(caught.value) == (
        "The model returned NaN or infinity for 3 of 64 masks (first: features 1, 4). Check the fill value."
    )


def test_a_long_list_of_features_is_cut_and_an_empty_one_is_called_so() -> None:
    model = mask_function(lambda masks: np.full((len(masks), 2), np.nan), n_features=20)
    with pytest.raises(ModelError, match=r"for 1 of 1 masks \(first: features 0, 1, 2, 3, 4, 5, 6, 7, …\)"):
        Evaluator(model)(np.ones((1, 20), dtype=bool))
    with pytest.raises(ModelError, match=r"for 1 of 1 masks \(first: features none\)"):
        Evaluator(model)(np.zeros((1, 20), dtype=bool))


def test_the_masks_of_an_error_are_those_asked_even_if_the_model_wrote_to_them() -> None:
    def spoil(masks: Masks) -> Any:
        masks[:] = False
        return np.full((len(masks), 2), np.nan)

    with pytest.raises(ModelError, match=r"first: features 1, 4\)"):
        Evaluator(mask_function(spoil, n_features=6))(bits("010010")[None])


async def promise(masks: Masks) -> Any:
    return np.zeros((len(masks), 2))


RETURNS: dict[str, tuple[Callable[[Masks], Any], str]] = {
    "a row too few": (lambda m: np.zeros((len(m) - 1, 2)), r"for 8 masks, got shape \(7, 2\)"),
    "a row too many": (lambda m: np.zeros((len(m) + 1, 2)), r"for 8 masks, got shape \(9, 2\)"),
    "transposed": (lambda m: np.zeros((2, len(m))), r"for 8 masks, got shape \(2, 8\)"),
    "three axes": (lambda m: np.zeros((len(m), 2, 1)), r"for 8 masks, got shape \(8, 2, 1\)"),
    "a single number": (lambda m: 0.5, r"for 8 masks, got shape \(\)"),
    "no classes": (
        lambda m: np.zeros((len(m), 0)),
        r"Scores must be real numbers \(b, n_classes\), got float64 \(8, 0\)",
    ),
    "complex": (lambda m: np.zeros((len(m), 2), complex), r"Scores must be real numbers .* got complex128"),
    "strings": (lambda m: np.full((len(m), 2), "x"), r"Scores must be real numbers .* got <U1"),
    "objects": (lambda m: np.full((len(m), 2), None), r"Scores must be real numbers .* got object"),
    "real labels": (
        lambda m: np.zeros(len(m)),
        r"Labels \(b,\) must be whole numbers, strings or Booleans, got floats",
    ),
    "None": (lambda m: None, r"^The model must return an answer, got None\. Check that the function returns"),
    "no labels": (lambda m: [None] * len(m), r"^The model must return an answer, got None\. .* such as 'none'"),
    "a promise": (promise, r"^The model must return its answers, got a coroutine\. .*asyncio\.run"),
    "words and numbers": (
        lambda m: ["1", *[1] * (len(m) - 1)],
        r"^Labels .* of one type, got 1 and '1'\. Return words",
    ),
    "words and scalars": (lambda m: ["1", *[np.int64(1)] * (len(m) - 1)], r"of one type, got 1 and '1'\."),
    "a list of truths and numbers": (lambda m: [True, *[1] * (len(m) - 1)], r"got 1 and True\."),
    "truths and numbers": (lambda m: np.array([True, *[1] * (len(m) - 1)], dtype=object), r"got 1 and True\."),
    "hidden values": (
        lambda m: np.ma.masked_less(np.arange(2.0 * len(m)).reshape(-1, 2), 3),
        r"^The model must answer every mask, got a masked array without 3 of 16 values\. .*`\.filled\(value\)`",
    ),
    "ragged rows": (
        lambda m: [[0.0]] * (len(m) - 1) + [[0.0, 1.0]],
        r"^The (model|function) must return .* rows of unequal length",
    ),
}


@pytest.mark.parametrize(("function", "complaint"), RETURNS.values(), ids=RETURNS)
def test_an_answer_of_the_wrong_shape_or_kind_is_refused(function: Any, complaint: str) -> None:
    for model in (mask_function(function, n_features=3), Recorded(_Bare(function))):
        with pytest.raises(ModelError, match=complaint):
            Evaluator(model)(all_masks(3))


def test_a_masked_array_that_hides_nothing_is_an_array() -> None:
    model = mask_function(lambda masks: np.ma.array(np.ones((len(masks), 2))), n_features=3)
    assert Evaluator(model)(all_masks(3)).tolist() == [[1.0, 1.0]] * 8


class _Bare:
    """A model of the user's own, whose answers nothing converts to arrays."""

    n_features = 3

    def __init__(self, function: Callable[[Masks], Any]) -> None:
        self.function = function

    def __call__(self, masks: Masks, /) -> Any:
        return self.function(masks)


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        (np.zeros((1, 2)), np.zeros((1, 3)), "2 classes before, now 3 classes"),
        (np.zeros((1, 2)), np.array([1]), "2 classes before, now labels"),
        (np.array(["a"]), np.zeros((1, 4)), "labels before, now 4 classes"),
    ],
)
def test_a_number_of_classes_that_changes_is_refused(first: Any, second: Any, complaint: str) -> None:
    answers = iter([first, second])
    evaluator = Evaluator(mask_function(lambda masks: next(answers), n_features=3), batch_size=1)
    with pytest.raises(ModelError, match=f"^The model must return the same number of classes every time: {complaint}"):
        evaluator(all_masks(3)[:2])
    assert len(evaluator.masks) == 1


def test_after_an_error_the_work_before_it_is_kept_and_the_rest_can_be_asked() -> None:
    model = Recorded(one_bad_row(np.nan, {20}))
    evaluator = Evaluator(model, batch_size=16)
    with pytest.raises(ModelError):
        evaluator(all_masks(6))
    np.testing.assert_array_equal(evaluator.masks, all_masks(6)[:16])
    evaluator(all_masks(6)[:16])
    assert model.batch_sizes == [16, 16]


def test_an_error_of_the_model_itself_comes_through_unchanged() -> None:
    failure = RuntimeError("shapes cannot be multiplied")

    def fail(_: int, masks: Masks) -> None:
        raise failure

    recorded = Recorded(score_table(4), fail)
    with pytest.raises(RuntimeError) as caught:
        Evaluator(recorded)(all_masks(4))
    assert caught.value is failure
    assert recorded.batch_sizes == [16]


@pytest.mark.parametrize(
    ("masks", "error", "complaint"),
    [
        (np.zeros((2, 4)), InvalidTypeError, "^`masks` must be Boolean, got float64"),
        (np.zeros((2, 4), dtype=int), InvalidTypeError, "^`masks` must be Boolean, got int64"),
        (np.zeros((2, 5), dtype=bool), InvalidValueError, r"^`masks` must have shape \(b, 4\), got \(2, 5\)"),
        (np.zeros(4, dtype=bool), InvalidValueError, r"^`masks` must have shape \(b, 4\), got \(4,\)"),
    ],
)
def test_masks_of_the_wrong_kind_never_reach_the_model(masks: Any, error: Any, complaint: str) -> None:
    recorded = Recorded(score_table(4))
    with pytest.raises(error, match=complaint):
        Evaluator(recorded)(masks)
    assert recorded.n_rows == 0


# -- memory -----------------------------------------------------------------------------------------


class OutOfMemoryError(Exception):
    """As torch names it; recognised by its name, for torch is not imported."""


OUT_OF_MEMORY = [
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: failed to allocate memory"),
    MemoryError(),
    OutOfMemoryError("HIP"),
]


def holds(n_rows: int, error: Exception) -> Callable[[int, Masks], None]:
    """A memory that holds so many rows and no more."""

    def before(_: int, masks: Masks) -> None:
        if len(masks) > n_rows:
            raise error

    return before


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_out_of_memory_halves_the_batch_until_it_fits(error: Exception) -> None:
    recorded = Recorded(score_table(6), holds(10, error))
    evaluator = Evaluator(recorded, batch_size=64)
    np.testing.assert_array_equal(evaluator(all_masks(6)), score_table(6)(all_masks(6)))
    assert recorded.batch_sizes == [64, 32, 16] + [8] * 8
    assert evaluator.batch_size == 8
    assert evaluator.n_calls == 64


def test_out_of_memory_halves_what_was_tried_not_what_was_allowed() -> None:
    recorded = Recorded(score_table(6), holds(10, MemoryError()))
    Evaluator(recorded, batch_size=10_000)(all_masks(6)[:20])
    assert recorded.batch_sizes == [20, 10, 10]


def test_out_of_memory_keeps_finished_work() -> None:
    def before(n_batches: int, masks: Masks) -> None:
        if n_batches >= 3 and len(masks) > 4:
            raise RuntimeError("CUDA out of memory")

    recorded = Recorded(score_table(6), before)
    outputs = Evaluator(recorded, batch_size=16)(all_masks(6))
    np.testing.assert_array_equal(outputs, score_table(6)(all_masks(6)))
    assert recorded.batch_sizes == [16, 16, 16, 8] + [4] * 8
    finished = {row for batch in recorded.batches[:2] for row in rows_of(batch)}
    assert all(recorded.times_asked[row] == 1 for row in finished)


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_out_of_memory_on_a_single_row_is_raised(error: Exception) -> None:
    recorded = Recorded(score_table(4), holds(0, error))
    with pytest.raises(type(error)) as caught:
        Evaluator(recorded, batch_size=8)(all_masks(4))
    assert caught.value is error
    assert recorded.batch_sizes == [8, 4, 2, 1]


@pytest.mark.parametrize("capacity", [1, 2, 3, 7])
@pytest.mark.parametrize("ask", [certify, certify_hard])
def test_a_small_memory_never_changes_a_certificate(ask: Any, capacity: int) -> None:
    recorded = Recorded(score_table(12), holds(capacity, MemoryError()))
    assert ask(recorded, SELECTED, radius=5, rng=0) == ask(score_table(12), SELECTED, radius=5, rng=0)


@given(capacity=st.integers(1, 9), batch_size=st.integers(1, 50), masks=mask_batches(5))
def test_every_mask_is_finished_exactly_once_whatever_the_memory(capacity: int, batch_size: int, masks: Masks) -> None:
    recorded = Recorded(score_table(5), holds(capacity, MemoryError()))
    evaluator = Evaluator(recorded, batch_size=batch_size)
    np.testing.assert_array_equal(evaluator(masks), score_table(5)(masks))
    finished = [row for batch in recorded.batches if len(batch) <= capacity for row in rows_of(batch)]
    assert sorted(finished) == sorted(set(rows_of(masks)))
    assert evaluator.n_calls == len(finished)


# -- interruptions ----------------------------------------------------------------------------------


def interrupt(at: int) -> Callable[[int, Masks], None]:
    def before(n_batches: int, masks: Masks) -> None:
        if n_batches == at:
            raise KeyboardInterrupt

    return before


@pytest.mark.parametrize("ask", [certify, certify_hard])
def test_an_interruption_comes_through_with_a_note_and_finished_work_is_kept(ask: Any) -> None:
    recorded = Recorded(label_table(12, labels=(1,)), interrupt(4))
    evaluator = Evaluator(recorded, batch_size=5)
    with pytest.raises(KeyboardInterrupt) as caught:
        ask(evaluator, SELECTED, radius=6, rng=0)
    assert any(f"Stopped after {evaluator.n_calls} model calls" in note for note in caught.value.__notes__)
    finished = [row for batch in recorded.batches[:3] for row in rows_of(batch)]
    assert evaluator.n_calls == len(finished) > 5
    assert set(rows_of(evaluator.masks)) == set(finished)


def test_an_interrupted_question_asked_again_goes_on_where_it_was() -> None:
    recorded = Recorded(score_table(12), interrupt(4))
    evaluator = Evaluator(recorded, batch_size=5)
    with pytest.raises(KeyboardInterrupt):
        certify(evaluator, SELECTED, radius=6, check_determinism=False, rng=0)
    cert = certify(evaluator, SELECTED, radius=6, check_determinism=False, rng=0)
    assert cert == certify(score_table(12), SELECTED, radius=6, check_determinism=False, rng=0)
    assert evaluator.n_calls == cert.n_calls


def test_an_interruption_of_a_bare_evaluator_keeps_finished_work() -> None:
    evaluator = Evaluator(Recorded(score_table(6), interrupt(3)), batch_size=10)
    with pytest.raises(KeyboardInterrupt):
        evaluator(all_masks(6))
    np.testing.assert_array_equal(evaluator.masks, all_masks(6)[:20])
    np.testing.assert_array_equal(evaluator(all_masks(6)), score_table(6)(all_masks(6)))


def test_a_question_that_failed_leaves_nothing_behind_for_the_next() -> None:
    """The row that waits to be repeated belongs to its own question."""
    recorded = Recorded(score_table(12), interrupt(2))
    evaluator = Evaluator(recorded)
    with pytest.raises(KeyboardInterrupt):
        certify(evaluator, SELECTED, radius=6, rng=0)
    unseen = all_masks(12)[4:9]
    evaluator(unseen)
    np.testing.assert_array_equal(recorded.batches[-1], unseen)


# -- determinism ------------------------------------------------------------------------------------


class Moody:
    """A model that answers differently the second time it sees a mask."""

    n_features = 12

    def __init__(self, first: Any, later: Any) -> None:
        self.answers = (first, later)
        self.seen: set[bytes] = set()

    def __call__(self, masks: Masks, /) -> Any:
        rows = []
        for mask in masks:
            rows.append(self.answers[mask.tobytes() in self.seen])
            self.seen.add(mask.tobytes())
        return np.array(rows)


@pytest.mark.parametrize(
    ("first", "later"), [([0.2, 0.8], [0.8, 0.2]), ([1, 0], [0, 1]), ("cat", "dog"), (1, 2), ([0.0, 0.0], [0.0, 1e-9])]
)
@pytest.mark.parametrize("ask", [certify, certify_hard])
@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_a_model_that_changes_its_mind_is_found_out(ask: Any, first: Any, later: Any, batch_size: int | None) -> None:
    with pytest.raises(
        ModelError, match=r"^The model must be deterministic, but it answered .* and then .* `model\.eval\(\)`"
    ):
        ask(Moody(first, later), SELECTED, radius=6, batch_size=batch_size, rng=0)


def test_float_noise_is_not_a_change_of_mind() -> None:
    assert certify(Moody([10.0, 3.0], [10.01, 3.0]), SELECTED, radius=6, rng=0).rate == 1


def test_a_random_model_is_certified_as_the_function_that_was_drawn_when_asked_to() -> None:
    dice = random.Random(0)
    recorded = Recorded(mask_function(lambda masks: [dice.random() < 0.9 for _ in masks], n_features=12))
    cert = certify(recorded, SELECTED, radius=6, check_determinism=False, rng=0)
    assert set(recorded.times_asked.values()) == {1}
    assert 0.7 < cert.rate < 1


@pytest.mark.parametrize("radius", [0, 1, 2, 6])
@pytest.mark.parametrize("ask", [certify, certify_hard])
@pytest.mark.parametrize("batch_size", [1, 2, 7, None])
def test_the_determinism_check_repeats_the_explanation_and_one_row_in_sixteen(
    ask: Any, radius: int, batch_size: int | None
) -> None:
    recorded = Recorded(label_table(12, labels=("same",)))
    cert = ask(recorded, SELECTED, radius=radius, batch_size=batch_size, rng=0)
    repeats = {row: times for row, times in recorded.times_asked.items() if times > 1}
    n_repeats = 1 + min(4, len(recorded.times_asked) // 16)
    assert tuple(SELECTED.tolist()) in repeats
    assert sum(times - 1 for times in repeats.values()) == cert.n_repeated == n_repeats
    assert cert.n_calls == recorded.n_rows == len(recorded.times_asked) + n_repeats
    unchecked = Recorded(label_table(12, labels=("same",)))
    ask(unchecked, SELECTED, radius=radius, batch_size=batch_size, check_determinism=False, rng=0)
    assert set(unchecked.times_asked.values()) == {1}


def test_the_repeated_row_travels_with_other_rows_and_never_makes_a_batch_too_long() -> None:
    recorded = Recorded(label_table(12, labels=("same",)))
    certify(recorded, SELECTED, radius=6, batch_size=10, rng=0)
    assert max(recorded.batch_sizes) <= 10
    with_repeat = [batch for batch in recorded.batches if tuple(SELECTED.tolist()) in rows_of(batch)]
    assert [len(batch) > 1 for batch in with_repeat[:2]] == [True, True]


def test_repeated_rows_travel_with_new_ones_through_an_evaluator_that_is_shared() -> None:
    model = score_table(12)
    alone, shared = Recorded(model), Recorded(model)
    certificates = [certify(model, SELECTED, radius=4, rng=0) for model in (alone, Evaluator(shared))]
    assert certificates[0] == certificates[1]
    assert shared.batch_sizes == alone.batch_sizes
    for batch_size in (1, 2, 3):  # where they do not fit, they have batches of their own
        limited = Recorded(model)
        assert certify(Evaluator(limited, batch_size=batch_size), SELECTED, radius=4, rng=0) == certificates[0]
        assert max(limited.batch_sizes) <= batch_size
        assert limited.n_rows == alone.n_rows


def test_repeated_rows_are_computed_again_where_the_shared_evaluator_knows_all_others() -> None:
    recorded = Recorded(score_table(12))
    shared = Evaluator(recorded)
    first = certify(shared, SELECTED, radius=4, rng=0)
    n_rows = recorded.n_rows
    assert certify(shared, SELECTED, radius=4, rng=0) == first
    assert recorded.n_rows - n_rows == first.n_repeated > 0


class Costly(Recorded):
    """A model whose rows cost what they show; ``batch_probe`` as it is given."""

    def __init__(self, model: MaskedModel, probe: Any = None) -> None:
        super().__init__(model)
        self.batch_probe = probe
        self.costs: list[list[int]] = []

    def row_costs(self, masks: Masks) -> Any:
        return masks.sum(axis=1)

    def __call__(self, masks: Masks) -> Any:
        self.costs.append(masks.sum(axis=1).tolist())
        return super().__call__(masks)


class Sizes:
    """A search for a batch size that has ended, or has not."""

    size = 8

    def __init__(self, *, settled: bool) -> None:
        self.settled = settled

    def rows_of(self, n_rows: int) -> int:
        return min(n_rows, self.size)

    def clock(self) -> float:
        return 0.0

    def record(self, n_rows: int, seconds: float) -> None: ...


@given(masks=mask_batches(6), batch_size=st.integers(1, 9))
def test_rows_of_like_cost_are_computed_together_and_answered_in_the_order_asked(masks: Masks, batch_size: int) -> None:
    table = score_table(6)
    for levels in (1, 2):
        model = Costly(table)
        evaluator: Any = model
        for _ in range(levels):
            evaluator = Evaluator(evaluator, batch_size=batch_size)
        np.testing.assert_array_equal(evaluator(masks), table(masks))
        costs = [cost for batch in model.costs for cost in batch]
        assert costs == sorted(costs)
        assert set(model.times_asked.values()) <= {1}


@pytest.mark.parametrize("settled", [True, False])
def test_rows_stay_as_they_are_drawn_while_batch_sizes_are_timed(settled: bool) -> None:
    """Batches of ever longer rows would make the later, larger ones look slow."""
    masks = all_masks(6)
    model = Costly(score_table(6), Sizes(settled=settled))
    np.testing.assert_array_equal(Evaluator(Evaluator(model))(masks), score_table(6)(masks))
    costs = [cost for batch in model.costs for cost in batch]
    assert costs == (sorted(costs) if settled else masks.sum(axis=1).tolist())


@pytest.mark.parametrize("ask", [certify, certify_hard])
def test_sorted_rows_never_change_a_certificate(ask: Any) -> None:
    plain, costly = (ask(model, SELECTED, radius=4, rng=3) for model in (score_table(12), Costly(score_table(12))))
    assert plain == costly


def test_only_a_model_that_decides_early_can_be_asked_to() -> None:
    with pytest.raises(InvalidTypeError, match="`model` must be able to decide early, got TableModel"):
        Evaluator(label_table(3)).keeps_top_class(all_masks(3), 0)


def test_there_are_no_outputs_before_the_first_call() -> None:
    evaluator = Evaluator(label_table(3))
    assert evaluator.masks.shape == (0, 3)
    with pytest.raises(InvalidValueError, match="Nothing has been evaluated yet"):
        _ = evaluator.outputs


@pytest.mark.parametrize(("label", "got"), [(1.5, "1.5"), ((1, 2), r"\(1, 2\)"), (b"\xff", r"b'\\xff'")], ids=str)
def test_labels_that_are_neither_words_nor_whole_numbers_are_refused(label: Any, got: str) -> None:
    def labels(masks: Masks) -> Any:
        found = np.empty(len(masks), dtype=object)
        for i in range(len(masks)):
            found[i] = label if i else "a word"  # a label that is one, what comes after it need not be
        return found

    with pytest.raises(ModelError, match=f"^Labels .* got {got}"):
        Evaluator(mask_function(labels, n_features=3))(all_masks(3))

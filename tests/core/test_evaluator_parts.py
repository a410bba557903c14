"""The parts of an evaluator, each by itself: its memory, the repeats that are due, the rows ahead, its calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast.calls import HOST, Deadline, ModelCalls, asked_alone
from holdfast.errors import InvalidValueError, ModelError
from holdfast.evaluation import Evaluator, bare_model
from holdfast.outputs import OutputMemory, Repeats, RowsAhead, keys_of, masks_of, split_rows
from holdfast.prices import BETWEEN_CALLS, CallMeter, CallPrice
from tests.helpers.fakes import Recorded, all_masks, score_table

N = 6
MASKS = all_masks(N)
KEYS = keys_of(MASKS)
OUTPUTS = score_table(N)(MASKS)
NO_DRAWS = np.zeros(0, dtype=np.int64)


def memory_of(n: int) -> OutputMemory:
    """A memory of so many masks."""
    memory = OutputMemory(N)
    memory.add(KEYS[:n], OUTPUTS[:n])
    return memory


def calls_of(model: Any, batch_size: int | None = None, price: CallPrice | None = None) -> ModelCalls:
    return ModelCalls(model, batch_size=batch_size, deadline=Deadline(None), price=price)


def test_masks_come_back_from_their_keys() -> None:
    np.testing.assert_array_equal(masks_of(KEYS, N), MASKS)
    assert len(set(KEYS)) == len(MASKS)


def test_a_memory_gives_outputs_in_the_order_asked_and_keeps_the_first_of_equal_keys() -> None:
    memory = memory_of(10)
    memory.add(KEYS[8:12], OUTPUTS[8:12] + np.array([[0], [0], [1], [1]]))
    assert list(memory.slots) == KEYS[:12]
    np.testing.assert_array_equal(memory.look_up(KEYS[9::-1]), OUTPUTS[9::-1])
    np.testing.assert_array_equal(memory.look_up(KEYS[10:12]), OUTPUTS[10:12] + 1)
    assert not memory.outputs.flags.writeable


def test_a_memory_tells_which_keys_are_missing_once_each() -> None:
    keys = [KEYS[5], KEYS[11], KEYS[2], KEYS[11], KEYS[12]]
    assert memory_of(10).missing(keys) == {KEYS[11]: 1, KEYS[12]: 4}
    assert memory_of(10).missing(keys, {KEYS[12]}) == {KEYS[11]: 1}


def test_an_empty_memory_has_no_outputs_and_no_shape() -> None:
    memory = OutputMemory(N)
    assert memory.shape is None
    with pytest.raises(InvalidValueError, match="Nothing has been evaluated yet"):
        memory.look_up([])


def test_repeats_are_due_once_they_are_asked_for_references_first_then_one_row_in_sixteen() -> None:
    memory = memory_of(40)
    assert Repeats().n_due(memory) == 0
    repeats = Repeats(((MASKS[50], "cat"), (MASKS[51], "dog")), 0)
    assert repeats.n_due(memory) == 4
    masks, outputs, later = repeats.take(3, memory)
    np.testing.assert_array_equal(masks, MASKS[[50, 51, 20]])
    assert outputs[:2] == ["cat", "dog"]
    np.testing.assert_array_equal(outputs[2], OUTPUTS[20])
    assert (later.references, later.n_spread, later.n_due(memory)) == ((), 1, 1)
    assert repeats.n_due(memory) == 4, "what is taken is due again if its call fails"
    assert Repeats((), 0).n_due(memory_of(64)) == 4, "and never more than four"


def test_rows_ahead_are_unused_until_they_are_taken() -> None:
    ahead = RowsAhead()
    ahead.add(KEYS[:5], OUTPUTS[:5])
    np.testing.assert_array_equal(ahead.take([KEYS[3], KEYS[0]]), OUTPUTS[[3, 0]])
    assert (list(ahead.rows), ahead.n_unused) == ([KEYS[1], KEYS[2], KEYS[4]], 3)


def test_a_call_gives_checked_outputs_and_leaves_the_masks_alone() -> None:
    recorded = Recorded(score_table(N), lambda _, masks: masks.fill(True))
    rows = MASKS[:7].copy()
    assert calls_of(recorded).ask(rows, NO_DRAWS, None).shape == (7, OUTPUTS.shape[1])
    np.testing.assert_array_equal(rows, MASKS[:7])
    with pytest.raises(ModelError, match="the same number of classes every time"):
        calls_of(recorded).ask(rows, NO_DRAWS, (1,))


def test_a_size_that_is_given_switches_off_what_is_timed_and_lasts_as_long_as_it_is_asked_for() -> None:
    model: Any = Recorded(score_table(N))
    model.call_meter, model.batch_size = CallMeter(), 20
    assert calls_of(model, 5).meter is None
    calls = calls_of(model)
    with calls.limited_to(3):
        assert (calls.next_size(50), calls.meter) == (3, None)
        calls.halve(2, MemoryError())
    assert (calls.next_size(50), calls.meter) == (20, model.call_meter)


def test_a_price_that_is_given_counts_before_one_that_is_measured() -> None:
    model: Any = Recorded(score_table(N))
    price = CallPrice(1.0, 0.5)
    assert (calls_of(model).price, calls_of(model, price=price).price) == (None, price)
    model.call_meter = CallMeter()
    for n_rows in (1, 1, 64, 64):
        model.call_meter.record(n_rows, 1.0)
    assert calls_of(model).price == CallPrice(1.0 + BETWEEN_CALLS, 0.0)
    assert calls_of(model, price=price).price == price


class Counting:
    """A host that counts the rows which go through it."""

    seconds_waited = 0.0

    def __init__(self) -> None:
        self.n_rows = 0

    def ask(self, model: Any, masks: Any, /, *, batch_size: int, probe: Any) -> Any:
        self.n_rows += len(masks)
        return model(masks)


def test_a_host_is_asked_unless_a_question_asks_alone_or_a_call_has_a_time_limit() -> None:
    host, calls = Counting(), calls_of(score_table(N))
    token = HOST.set(host)
    try:
        calls.ask(MASKS[:5], NO_DRAWS, None)
        with asked_alone():
            calls.ask(MASKS[:7], NO_DRAWS, None)
        calls.deadline = Deadline(60.0)
        calls.ask(MASKS[:9], NO_DRAWS, None)
    finally:
        HOST.reset(token)
    assert host.n_rows == 5


def test_the_bare_model_is_below_all_evaluators() -> None:
    model = score_table(N)
    assert bare_model(Evaluator(Evaluator(model))) is model
    assert bare_model(model) is model


def test_a_reference_that_was_not_known_before_is_repeated_too() -> None:
    recorded = Recorded(score_table(N))
    evaluator = Evaluator(recorded)
    evaluator.check_determinism(MASKS[3])
    evaluator(MASKS[10:15])
    np.testing.assert_array_equal(recorded.batches[1], MASKS[[10, 11, 12, 13, 14, 3]])
    assert evaluator.n_repeated == 1


def test_nothing_goes_ahead_of_random_answers_or_of_outputs_that_need_not_come_from_the_model() -> None:
    evaluator = Evaluator(score_table(N), price=CallPrice(1.0, 0.1))
    assert evaluator.ahead(MASKS[:5]) == (10, 251)
    evaluator.shortcut = lambda masks, ask: ask(np.ones(len(masks), dtype=bool))
    assert evaluator.ahead(MASKS[:5]) is None
    with evaluator.without_shortcut():
        assert evaluator.ahead(MASKS[:5]) == (10, 251)
        evaluator.draw_answers(2)
        assert evaluator.ahead(MASKS[:5]) is None


def test_what_was_computed_together_is_shared_out_by_rows() -> None:
    first, second = split_rows(OUTPUTS[:5], [2, 3])
    np.testing.assert_array_equal(first, OUTPUTS[:2])
    np.testing.assert_array_equal(second, OUTPUTS[2:5])
    with pytest.raises(ModelError, match=r"one answer per row, got \(3,\) for 4 rows"):
        split_rows(np.zeros(3), [2, 2])
    with pytest.raises(ModelError, match="one answer per row"):
        split_rows(7, [1])


def test_a_probe_learns_where_memory_ends() -> None:
    limits = list[int]()

    class Probe:
        stop_at = staticmethod(limits.append)

    model = score_table(N)
    calls = calls_of(model)
    calls.probe = Probe()
    calls.halve(9, MemoryError())
    assert limits == [4] == [calls.batch_size]

"""Turns: one at a time, clicks first, tabs in turn, and cancelled work leaves at once."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.explore.questions import LruCache
from holdfast.explore.scheduling import (
    MOST_PASSED,
    MOST_ROWS,
    BatchSize,
    Caller,
    Cancelled,
    FairQueue,
    Priority,
    PriorityLock,
    ScheduledModel,
)
from holdfast.types import Differentiable
from tests.helpers.contracts import check_masked_model
from tests.helpers.explore_support import Slow, decide
from tests.helpers.waiting import PATIENCE, wait_until

TABS = st.lists(st.sampled_from("abcd"), max_size=24)


def entries_of(tabs: list[str]) -> list[tuple[str, int]]:
    return [(tab, place) for place, tab in enumerate(tabs)]


def filled(tabs: list[str]) -> FairQueue[tuple[str, int]]:
    queue = FairQueue[tuple[str, int]]()
    for entry in entries_of(tabs):
        queue.put(entry, Priority.JOB, entry[0])
    return queue


@given(TABS)
def test_every_entry_has_its_turn_once_and_those_of_a_tab_in_order(tabs: list[str]) -> None:
    queue = filled(tabs)
    foretold = list(queue)
    taken = [queue.take() for _ in tabs]
    assert taken == foretold
    assert sorted(taken, key=lambda entry: entry[1]) == entries_of(tabs)
    for tab in set(tabs):
        mine = [entry for entry in taken if entry[0] == tab]
        assert mine == sorted(mine, key=lambda entry: entry[1])
    assert queue.take() is None
    assert len(queue) == 0


@given(TABS)
def test_an_entry_waits_for_one_of_every_other_tab_per_round(tabs: list[str]) -> None:
    taken = list(filled(tabs))
    for place, (tab, _) in enumerate(taken):
        rank = sum(other == tab for other, _ in taken[:place])
        for other in set(tabs) - {tab}:
            assert sum(one == other for one, _ in taken[:place]) <= rank + 1


@given(TABS, st.data())
def test_an_entry_that_is_dropped_is_gone_and_the_others_stay(tabs: list[str], data: Any) -> None:
    queue, entries = filled(tabs), entries_of(tabs)
    if not entries:
        assert not queue.drop(("a", 0), Priority.JOB, "a")
        return
    gone = data.draw(st.sampled_from(entries))
    assert queue.drop(gone, Priority.JOB, gone[0])
    assert not queue.drop(gone, Priority.JOB, gone[0])
    assert sorted(queue, key=lambda entry: entry[1]) == [entry for entry in entries if entry != gone]


def test_tabs_that_pass_let_the_others_go_first() -> None:
    queue = filled(["a", "a", "b"])
    assert queue.take(lambda priority, tab: tab != "a") == ("b", 2)
    assert queue.take(lambda priority, tab: tab != "a") is None
    assert queue.take() == ("a", 0)


class Line:
    """Threads that wait for a lock that is held, in the order in which they came."""

    def __init__(self) -> None:
        self.lock, self.served = PriorityLock(), list[str]()
        self._threads: list[threading.Thread] = []

    def join(self, name: str, caller: Caller) -> None:
        def work() -> None:
            with self.lock.turn(caller):
                self.served.append(name)

        thread = threading.Thread(target=work)
        thread.start()
        self._threads.append(thread)
        wait_until(lambda: len(self.lock.waiting) == len(self._threads))

    def finish(self) -> list[str]:
        for thread in self._threads:
            thread.join(PATIENCE)
        assert self.lock.holder is None
        return self.served


def test_clicks_come_before_jobs_and_tabs_take_turns() -> None:
    line = Line()
    with line.lock.turn(Caller("holder")):
        for name in ("a1", "a2", "a3", "b1"):
            line.join(name, Caller(name[0]))
        line.join("click", Caller("c", Priority.CLICK))
    assert line.finish() == ["click", "a1", "b1", "a2", "a3"]


def test_certificates_come_before_searches_of_their_own_tab_and_of_others() -> None:
    line = Line()
    with line.lock.turn(Caller("holder")):
        for name in ("a search", "b search"):
            line.join(name, Caller(name[0], Priority.SEARCH))
        for name in ("a certificate", "c certificate"):
            line.join(name, Caller(name[0]))
        line.join("click", Caller("a", Priority.CLICK))
    assert line.finish() == ["click", "a certificate", "c certificate", "a search", "b search"]


def test_certificates_that_do_not_end_let_a_search_in_now_and_then() -> None:
    line = Line()
    with line.lock.turn(Caller("holder")):
        line.join("search", Caller("s", Priority.SEARCH))
        for number in range(MOST_PASSED + 4):
            line.join(f"certificate {number}", Caller("c"))
    assert line.finish().index("search") == MOST_PASSED


def test_clicks_that_do_not_end_let_a_job_in_now_and_then() -> None:
    line = Line()
    with line.lock.turn(Caller("holder")):
        line.join("job", Caller("j"))
        for number in range(MOST_PASSED + 4):
            line.join(f"click {number}", Caller("c", Priority.CLICK))
    assert line.finish().index("job") <= MOST_PASSED


def test_never_two_have_a_turn_at_once() -> None:
    lock, slow = PriorityLock(), Slow(seconds=0.0005)
    masks = np.ones((1, 12), dtype=bool)

    def work(tab: str, priority: Priority) -> None:
        for _ in range(20):
            with lock.turn(Caller(tab, priority)):
                slow(masks)

    threads = [
        threading.Thread(target=work, args=(tab, Priority.CLICK if tab == "a" else Priority.JOB)) for tab in "abca"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (slow.n_calls, slow.most_at_once, lock.holder) == (80, 1, None)


def test_cancelled_work_leaves_the_line_without_a_turn() -> None:
    lock, cancelled, left = PriorityLock(), threading.Event(), threading.Event()

    def work() -> None:
        try:
            with lock.turn(Caller("a", is_cancelled=cancelled.is_set)):
                raise AssertionError("it had a turn")
        except Cancelled:
            left.set()

    with lock.turn(Caller("holder")):
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: len(lock.waiting) == 1)
        cancelled.set()
        lock.wake()
        assert left.wait(PATIENCE)
        assert lock.holder is not None
    thread.join(PATIENCE)
    assert lock.holder is None


def test_work_that_raises_passes_its_turn_on() -> None:
    lock = PriorityLock()
    with pytest.raises(KeyError), lock.turn(Caller("a")):
        raise KeyError
    assert lock.holder is None


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_model_that_is_no_longer_wanted_stops_within_a_batch(when: str) -> None:
    cancelled = threading.Event()
    slow = Slow(seconds=0)

    def function(masks: Any) -> Any:
        cancelled.set()
        return slow(masks)

    model = hf.mask_function(function, n_features=12)
    if when == "before":
        cancelled.set()
    scheduled = ScheduledModel(model, PriorityLock(), Caller("a", is_cancelled=cancelled.is_set), BatchSize())
    with pytest.raises(Cancelled):
        scheduled(np.zeros((10 * MOST_ROWS, 12), dtype=bool))
    assert slow.n_calls == (0 if when == "before" else 1)


def test_a_scheduled_model_is_the_same_function_of_masks() -> None:
    model = hf.mask_function(decide, n_features=12)
    scheduled = ScheduledModel(model, PriorityLock(), Caller("a"), BatchSize())
    masks = np.random.default_rng(0).random((100, 12)) < 0.5
    assert np.array_equal(scheduled(masks), model(masks))
    check_masked_model(scheduled)


def test_turns_have_few_rows_and_fewer_of_a_slow_model() -> None:
    sizes: list[int] = []

    def function(masks: Any) -> Any:
        sizes.append(len(masks))
        time.sleep(0.008 * len(masks))
        return decide(masks)

    scheduled = ScheduledModel(hf.mask_function(function, n_features=12), PriorityLock(), Caller("a"), BatchSize())
    scheduled(np.zeros((MOST_ROWS + 40, 12), dtype=bool))
    assert sizes[0] == MOST_ROWS
    assert max(sizes[2:]) <= MOST_ROWS // 2
    assert sum(sizes) == MOST_ROWS + 40


def test_a_batch_size_recovers_when_the_machine_does() -> None:
    batch = BatchSize()
    for _ in range(9):
        batch.adapt(batch.n_rows, seconds=1.0)
    assert batch.n_rows == 1
    for _ in range(9):
        batch.adapt(batch.n_rows, seconds=0.001)
    assert batch.n_rows == MOST_ROWS


class Linear:
    """A model with gradients: scores are sums of elements."""

    n_features = 3
    elements = np.arange(3.0)
    baseline = np.zeros(3)
    groups = np.arange(3)

    def __call__(self, masks: Any, /) -> Any:
        return np.stack([masks @ self.elements, np.zeros(len(masks))], axis=1)

    def gradient(self, points: Any, target: int) -> Any:
        return np.stack([points.sum(axis=1), np.zeros(len(points))], axis=1), np.full_like(points, float(target == 0))


def test_what_happens_inside_a_network_comes_in_turns_too() -> None:
    image = hf.data.load("bundled:digits").inputs[0]
    for name, method in {"digits-vit": "attention_rollout", "digits-resnet": "grad_cam"}.items():
        model = hf.models.load(f"bundled:{name}").bind(image)
        lock, caller = PriorityLock(), Caller("a")
        scheduled = ScheduledModel(model, lock, caller, BatchSize())
        np.testing.assert_allclose(
            hf.attribute(scheduled, method).scores, hf.attribute(model, method).scores, atol=1e-6
        )


def test_gradients_come_in_turns_and_are_the_same() -> None:
    scheduled = ScheduledModel(Linear(), PriorityLock(), Caller("a"), BatchSize())
    assert isinstance(scheduled, Differentiable)
    points = np.random.default_rng(0).random((70, 3))
    for found, wanted in zip(scheduled.gradient(points, 0), Linear().gradient(points, 0), strict=True):
        assert np.array_equal(found, wanted)
    direct = hf.attribute(Linear(), "integrated_gradients")
    assert np.allclose(hf.attribute(scheduled, "integrated_gradients").scores, direct.scores)
    assert not isinstance(
        ScheduledModel(hf.mask_function(decide, n_features=12), PriorityLock(), Caller("a"), BatchSize()),
        Differentiable,
    )


def test_what_was_not_asked_for_the_longest_is_forgotten() -> None:
    recent, made = LruCache[str](most=2), list[str]()

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    for key in "abacab":
        assert recent.get(key, lambda: make(key)) == key.upper()  # noqa: B023 - called at once
    assert made == ["a", "b", "c", "b"]

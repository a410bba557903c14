"""Jobs: fair, cancelled within a batch, told in order, found again after a reload, and gone without a trace."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from holdfast.explore.jobs import MOST_KEPT, MOST_RUNNING, MOST_WAITING, JobQueue, Report, describe_error
from holdfast.explore.requests import read_options
from holdfast.explore.scheduling import Caller, Priority, PriorityLock
from tests.helpers.explore_support import (
    Slow,
    Visitor,
    broken,
    decide,
    empty_handed,
    fake_workbench,
    job_threads,
    serving,
)
from tests.helpers.waiting import PATIENCE, wait_until

SLOW = Slow(seconds=0.02)
VIEW = {"model": "test:slow", "input": "0", "method": "own", "selected": [0, 1]}
QUICK = VIEW | {"model": "test:quick"}
LONG = {"radius": 8, "tolerance": 0.02, "confidence": 0.98}


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    workbench = fake_workbench(slow=SLOW, quick=decide, broken=broken, nan=empty_handed)
    with serving(workbench) as one:
        yield one
    wait_until(lambda: not job_threads())


def test_cancelling_takes_one_batch(visitor: Visitor) -> None:
    job = visitor.submit("certify", VIEW, radius=8, tolerance=0.02, confidence=0.98)
    events = visitor.events(job)
    next(event for event in events if event[1] == "look")
    SLOW.free.clear()
    wait_until(lambda: SLOW.at_once == 1)
    before = SLOW.n_calls
    assert visitor.http.delete(f"/api/jobs/{job}").status_code == 200
    SLOW.free.set()
    *_, (_, name, data) = events
    assert (name, data) == ("cancelled", {})
    assert SLOW.n_calls <= before + 1
    after = SLOW.n_calls
    time.sleep(0.1)
    assert SLOW.n_calls == after
    assert visitor.get(f"/api/jobs/{job}").json()["state"] == "cancelled"


def test_a_look_narrows_what_is_known_until_the_certificate_says_it(visitor: Visitor) -> None:
    told = list(visitor.events(visitor.submit("certify", QUICK, radius=6, tolerance=0.05)))
    looks = [data for _, name, data in told if name == "look"]
    widths = [look["high"] - look["low"] for look in looks]
    assert len(looks) == 8
    assert widths == sorted(widths, reverse=True)
    result = told[-1][2]["result"]
    assert looks[-1]["n_evaluated"] == json.loads(result["text"])["n_evaluated"] == 167
    assert looks[-1]["rate"] == result["rate"]


def test_a_tab_with_many_jobs_does_not_delay_a_tab_with_one(visitor: Visitor) -> None:
    many = [visitor.submit("certify", VIEW, "greedy", **LONG) for _ in range(6)]
    wait_until(lambda: visitor.get(f"/api/jobs/{many[0]}").json()["state"] == "running")
    *_, (_, name, _) = visitor.events(visitor.submit("certify", VIEW, "modest", radius=3))
    assert name == "done"
    states = [visitor.get(f"/api/jobs/{job}").json()["state"] for job in many]
    assert "done" not in states
    for job in reversed(many):
        visitor.http.delete(f"/api/jobs/{job}")
    assert {list(visitor.events(job))[-1][1] for job in many} == {"cancelled"}


def test_a_click_waits_for_a_batch_and_not_for_a_job(visitor: Visitor) -> None:
    jobs = [visitor.submit("certify", VIEW, tab, **LONG) for tab in "abcd"]
    wait_until(lambda: SLOW.at_once > 0)
    told = visitor.reveal(VIEW, [0, 1, 5, 7])
    assert {visitor.get(f"/api/jobs/{job}").json()["state"] for job in jobs} == {"running"}
    assert told["agrees"] is False
    for job in jobs:
        visitor.http.delete(f"/api/jobs/{job}")
    assert all(list(visitor.events(job))[-1][1] == "cancelled" for job in jobs)


def steady(masks: Any) -> Any:
    """A prediction that nothing changes, so that a search looks at every mask."""
    return np.tile([0.0, 1.0], (len(masks), 1))


def test_a_certificate_does_not_wait_for_the_search_of_its_own_tab() -> None:
    model = Slow(seconds=0.05, function=steady)
    with serving(fake_workbench(steady=model)) as one:
        view = VIEW | {"model": "test:steady"}
        model.free.clear()
        search = one.submit("witness", view)
        wait_until(lambda: model.at_once == 1)
        certificate = one.submit("certify", view, radius=2)
        assert one.get(f"/api/jobs/{certificate}").json()["state"] == "running"
        model.free.set()
        assert list(one.events(certificate))[-1][1] == "done"
        assert one.get(f"/api/jobs/{search}").json()["state"] == "running"
        assert list(one.events(search))[-1][1] == "done"


def test_jobs_of_a_tab_wait_in_their_order_and_are_told_their_place(visitor: Visitor) -> None:
    SLOW.free.clear()
    jobs = [visitor.submit("certify", VIEW, "queue", radius=3) for _ in range(3)]
    SLOW.free.set()
    told = [list(visitor.events(job)) for job in jobs]
    places = [[data["ahead"] for _, name, data in events if name == "queued"] for events in told]
    assert places[1][0] == 0
    assert places[2][:2] == [1, 0]
    assert [events[-1][1] for events in told] == ["done"] * 3


def test_a_job_that_waits_is_cancelled_at_once(visitor: Visitor) -> None:
    first, second = (visitor.submit("certify", VIEW, "waiting", **LONG) for _ in range(2))
    assert visitor.http.delete(f"/api/jobs/{second}").json()["state"] == "cancelled"
    visitor.http.delete(f"/api/jobs/{first}")
    assert list(visitor.events(first))[-1][1] == "cancelled"


def test_a_page_that_was_reloaded_hears_everything_again(visitor: Visitor) -> None:
    job = visitor.submit("certify", QUICK, radius=6)
    first = list(visitor.events(job))
    assert [number for number, _, _ in first] == list(range(1, len(first) + 1))
    assert list(visitor.events(job)) == first
    assert list(visitor.events(job, after=2)) == first[2:]
    assert list(visitor.events(job, after=len(first))) == []


def test_a_stream_with_a_time_ends_with_it(visitor: Visitor) -> None:
    job = visitor.submit("certify", VIEW, "polling", **LONG)
    text = visitor.get(f"/api/jobs/{job}/events", after=0, seconds=0).text
    assert "event: done" not in text
    visitor.http.delete(f"/api/jobs/{job}")
    wait_until(lambda: visitor.get(f"/api/jobs/{job}").json()["state"] == "cancelled")


def test_a_job_whose_listener_leaves_is_cancelled() -> None:
    slow = Slow(seconds=0.05)
    with serving(fake_workbench(slow=slow), timeout=0.2) as one:
        job = one.submit("certify", VIEW, **LONG)
        events = one.events(job)
        next(events)
        events.close()
        wait_until(lambda: not job_threads())
        assert one.get(f"/api/jobs/{job}").json()["state"] == "cancelled"


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        ("broken", "KeyError", "The model raised KeyError: 'no such <b>layer</b>'. Try another input or fill"),
        ("nan", "ModelError", "The model returned NaN or infinity for 2 of 2 masks (first: features 0, 1)"),
    ],
)
def test_a_model_that_fails_is_told_with_its_message_and_the_next_job_works(
    visitor: Visitor, model: str, kind: str, message: str
) -> None:
    view = VIEW | {"model": f"test:{model}"}
    *_, (_, name, data) = visitor.events(visitor.submit("certify", view, radius=2))
    assert (name, data["kind"]) == ("failed", kind)
    assert data["message"].startswith(message)
    revealed = visitor.post("/api/reveal", {"view": view, "shown": [0]})
    assert revealed.status_code == 500
    assert revealed.json()["error"]["message"].startswith(message)
    assert visitor.ask("certify", QUICK, radius=2)["exact"]


def test_a_view_that_cannot_be_bound_fails_with_the_reason(visitor: Visitor) -> None:
    *_, (_, name, data) = visitor.events(visitor.submit("explain", QUICK | {"fill": "unfit"}))
    assert (name, data["message"]) == ("failed", "`fill` must fit the model, got 'unfit'.")
    *_, (_, name, data) = visitor.events(visitor.submit("explain", QUICK | {"input": "2"}))
    assert (name, data["kind"]) == ("failed", "InvalidValueError")


class Torn(tuple[str, ...]):
    """Inputs of which the second cannot be read."""

    def __getitem__(self, index: Any) -> Any:
        if index == 1:
            raise RuntimeError("a decompression bomb")
        return super().__getitem__(index)


def test_an_input_that_cannot_be_read_is_told_when_it_is_chosen_and_the_others_are_listed() -> None:
    with serving(fake_workbench(Torn(("a b", "c d", "e f")), quick=decide)) as one:
        told = one.get("/api/inputs", model="test:quick").json()["inputs"]
        assert [row["short"] for row in told] == ["a b", None, "e f"]
        *_, (_, name, data) = one.events(one.submit("explain", QUICK | {"input": "1"}))
        assert (name, data["kind"]) == ("failed", "RuntimeError")
        assert "a decompression bomb" in data["message"]


def test_only_one_thread_uses_the_model_whatever_is_asked(visitor: Visitor) -> None:
    SLOW.most_at_once = 0
    jobs = [visitor.submit("witness", VIEW, tab, max_radius=1) for tab in "abc"]
    for shown in range(5):
        visitor.reveal(VIEW, [0, 1, shown])
    assert [list(visitor.events(job))[-1][1] for job in jobs] == ["done"] * 3
    assert SLOW.most_at_once == 1


def test_nothing_is_left_of_jobs_that_have_ended(visitor: Visitor) -> None:
    visitor.ask("certify", QUICK, radius=2)
    wait_until(lambda: not job_threads())


def test_stopping_the_server_cancels_what_runs_and_ends_its_streams() -> None:
    slow = Slow(seconds=0.02)
    ends: list[str] = []
    with serving(fake_workbench(slow=slow)) as one:
        job = one.submit("certify", VIEW, **LONG)
        events = one.events(job)
        listening = threading.Thread(target=lambda: ends.extend(name for _, name, _ in events))
        listening.start()
        wait_until(lambda: slow.n_calls > 1)
    listening.join(PATIENCE)
    assert ends[-1] == "cancelled"
    assert not job_threads()


# -- the queue itself ---------------------------------------------------------------------------------------------


def instant(caller: Caller, report: Report) -> dict[str, object]:
    return {}


def test_a_queue_keeps_so_many_ended_jobs_and_forgets_the_oldest() -> None:
    queue = JobQueue(PriorityLock())
    jobs = [queue.submit(str(i % 8), "explain", instant) for i in range(MOST_WAITING * 4)]
    wait_until(lambda: not job_threads() and all(job.has_ended for job in jobs))
    more = []
    for i in range(MOST_KEPT):
        more.append(queue.submit(str(i % 8), "explain", instant))
        wait_until(lambda: more[-1].has_ended)
    wait_until(lambda: not job_threads())
    queue.sweep()
    assert queue.get(jobs[0].id) is None
    assert queue.get(more[-1].id) is more[-1]
    assert sum(queue.get(job.id) is not None for job in [*jobs, *more]) == MOST_KEPT


def test_a_job_nobody_asks_about_is_cancelled_and_others_are_not() -> None:
    now, release = [0.0], threading.Event()
    queue = JobQueue(PriorityLock(), timeout=10.0, clock=lambda: now[0])

    def held(caller: Caller, report: Report) -> dict[str, object]:
        while not release.wait(0.005):
            caller.check()
        return {}

    followed, asked, forsaken, waiting = (queue.submit(tab, "explain", held) for tab in ("a", "b", "c", "c"))

    async def listen_while_time_passes() -> None:
        following = followed.stream(after=0, seconds=PATIENCE)
        first = asyncio.ensure_future(anext(following, None))
        await asyncio.sleep(0.01)
        for _ in range(3):
            now[0] += 6.0
            asked.plain()
            queue.sweep()
        assert (followed.cancelled.is_set(), asked.cancelled.is_set()) == (False, False)
        assert (forsaken.cancelled.is_set(), waiting.state) == (True, "cancelled")
        while not forsaken.has_ended:
            await asyncio.sleep(0.005)
        release.set()
        await first

    asyncio.run(listen_while_time_passes())
    wait_until(lambda: not job_threads())
    assert [job.state for job in (followed, asked, forsaken)] == ["done", "done", "cancelled"]


def test_a_tab_may_have_only_so_many_jobs_waiting() -> None:
    queue, release = JobQueue(PriorityLock()), threading.Event()

    def held(caller: Caller, report: Report) -> dict[str, object]:
        release.wait(PATIENCE)
        return {}

    queue.submit("a", "explain", held)
    for _ in range(MOST_WAITING):
        queue.submit("a", "explain", instant)
    with pytest.raises(ValueError, match=f"A tab may have at most {MOST_WAITING} waiting jobs"):
        queue.submit("a", "explain", instant)
    other = queue.submit("b", "explain", instant)
    wait_until(lambda: other.state == "done")
    release.set()
    wait_until(lambda: not job_threads())


def test_however_many_searches_run_there_is_room_for_certificates() -> None:
    queue, release = JobQueue(PriorityLock()), threading.Event()

    def held(caller: Caller, report: Report) -> dict[str, object]:
        release.wait(PATIENCE)
        return {}

    searches = [queue.submit(str(tab), "witness", held) for tab in range(MOST_RUNNING[Priority.SEARCH] + 1)]
    certificates = [queue.submit(str(tab), "certify", held) for tab in range(MOST_RUNNING[Priority.JOB] + 1)]
    assert [job.has_begun for job in searches] == [True] * MOST_RUNNING[Priority.SEARCH] + [False]
    assert [job.has_begun for job in certificates] == [True] * MOST_RUNNING[Priority.JOB] + [False]
    places = [job.since(0)[-1][1] for job in (certificates[-1], searches[-1])]
    assert places == ['{"ahead": 0}', '{"ahead": 1}']
    release.set()
    wait_until(lambda: all(job.has_ended for job in [*searches, *certificates]))


def test_a_queue_that_is_closed_takes_no_more_jobs() -> None:
    queue = JobQueue(PriorityLock())
    assert queue.close(seconds=1)
    with pytest.raises(ValueError, match="The server is stopping"):
        queue.submit("a", "explain", instant)


def test_progress_is_told_now_and_then_and_nothing_follows_the_end() -> None:
    queue = JobQueue(PriorityLock())

    def busy(caller: Caller, report: Report) -> dict[str, object]:
        for done in range(1000):
            report("progress", {"done": done, "total": 1000})
        return {}

    job = queue.submit("a", "explain", busy)
    wait_until(lambda: not job_threads())
    names = [name for name, _ in job.since(0)]
    assert names[-1] == "done"
    assert 1 <= names.count("progress") < 100
    job.report("progress", {"done": 1, "total": 1})
    assert [name for name, _ in job.since(0)] == names


class Panic(BaseException):
    """What compiled libraries raise where they give up; it is no Exception."""


@pytest.mark.parametrize(
    "error", [SystemExit(3), Panic("p" * 1_000_000), KeyboardInterrupt()], ids=lambda error: type(error).__name__
)
def test_a_model_that_exits_or_panics_ends_its_job_alone_and_briefly(error: BaseException) -> None:
    def giving_up(masks: object) -> None:
        raise error

    with serving(fake_workbench(mad=giving_up, quick=decide)) as one:
        view = VIEW | {"model": "test:mad"}
        *_, (_, name, data) = one.events(one.submit("certify", view, radius=2))
        assert name == "failed"
        assert data["message"].startswith(f"The model raised {type(error).__name__}")
        assert len(data["message"]) < 1000
        revealed = one.post("/api/reveal", {"view": view, "shown": [0]})
        assert revealed.status_code == 500
        assert revealed.json()["error"]["message"] == data["message"]
        assert one.reveal(QUICK, [0, 1])["agrees"]


def test_a_result_that_is_no_json_fails_and_does_not_hang() -> None:
    queue = JobQueue(PriorityLock())
    job = queue.submit("a", "explain", lambda caller, report: {"x": float("nan")})
    wait_until(lambda: not job_threads())
    assert job.state == "failed"


def test_errors_of_holdfast_are_told_as_they_are() -> None:
    with pytest.raises(ValueError, match="radius") as caught:
        read_options("certify", {"radius": -1})
    assert describe_error(caught.value) == {
        "message": "`radius` must be a whole number ≥ 0, got -1.",
        "kind": "InvalidValueError",
    }

"""Tasks → events: what runs a study, in this process or in others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.errors import InvalidValueError, StudyError
from holdfast.study.engines.engine import Engine, Event, GivenUp
from holdfast.study.engines.in_process import InProcess
from holdfast.study.engines.on_ray import Ray
from holdfast.study.engines.processes import Processes
from holdfast.validation import check_name, check_seconds, check_whole

__all__ = ["ENGINES", "Engine", "Event", "GivenUp", "InProcess", "Processes", "Ray", "make_engine"]


_NO_GUARD = (
    "A worker process imports the script that started the study, and the script starts the study again. Put what "
    'the script does under `if __name__ == "__main__":`.'
)


def _local(workers: int) -> Engine:
    return InProcess() if workers == 0 else Processes(workers)


ENGINES: dict[str, Callable[[int], Engine]] = {"local": _local, "ray": Ray}
"""Engines by name, made for a number of workers."""


def make_engine(
    engine: Any, workers: int, timeout: float | None = None, inputs_per_worker: int | None = None
) -> Engine:
    """The engine of this name, or the one that is given; what is said here of workers and time holds for it, if any.

    Examples
    --------
    >>> make_engine("local", 0)
    InProcess()
    """
    n_workers = check_whole(workers, "workers")
    n_inputs = None if inputs_per_worker is None else check_whole(inputs_per_worker, "inputs_per_worker", minimum=1)
    chosen = _limit(_choose(engine, n_workers), timeout=check_seconds(timeout), inputs_per_worker=n_inputs)
    # While a process that was just started imports the script of its parent, it cannot start processes itself.
    if getattr(multiprocessing.current_process(), "_inheriting", False) and not isinstance(chosen, InProcess):
        raise StudyError(_NO_GUARD)
    return chosen


def _limit(engine: Engine, **limits: Any) -> Engine:
    """The same engine with limits, which only processes can be held to."""
    given = {name: value for name, value in limits.items() if value is not None}
    if not given:
        return engine
    if not isinstance(engine, (Processes, Ray)):
        raise InvalidValueError(
            argument=next(iter(given)),
            must="come with worker processes, which can be ended: set `workers` to 1 or more",
            got=engine,
        )
    return replace(engine, **given)


def _choose(engine: Any, n_workers: int) -> Engine:
    if isinstance(engine, Ray) and n_workers:
        return replace(engine, n_workers=n_workers)
    if not isinstance(engine, str) and isinstance(engine, Engine):
        return engine
    return ENGINES[check_name(engine, "engine", ENGINES)](n_workers)

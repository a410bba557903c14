"""The far end of a pipe → a worker process: tasks come in, events go out, and it ends when its parent does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from holdfast.study.engines.crew import DONE, ERROR, EVENT, READY
from holdfast.study.engines.engine import as_event, at_input, sendable
from holdfast.study.items import Task
from holdfast.study.spec import StudySpec
from holdfast.study.work import Load, Worker

STOP = "stop"
"""What the parent says to a worker that is to be done after the item it has begun."""


def serve(pipe: Connection[Any, Any], spec: StudySpec, load: Load, n_threads: int) -> None:
    """Load once, then answer tasks until there are none, the parent says stop, or it is gone."""
    # Ctrl-C reaches every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    try:
        _serve(pipe, spec, load, n_threads)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        # Nobody listens any more.
        return


def _serve(pipe: Connection[Any, Any], spec: StudySpec, load: Load, n_threads: int) -> None:
    try:
        worker = load(spec)
        share_cores(n_threads)
    except Exception as error:
        pipe.send((ERROR, (sendable(error), traceback.format_exc())))
        return
    pipe.send((READY, None))
    while isinstance(task := pipe.recv(), Task):
        if not _answer(pipe, worker, task):
            return
        pipe.send((DONE, None))


def _answer(pipe: Connection[Any, Any], worker: Worker, task: Task) -> bool:
    """Send the events of a task, until it is done or the parent says stop; False after an error."""
    try:
        for found in worker.run(task):
            pipe.send((EVENT, as_event(found)))
            if pipe.poll():
                break
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        pipe.send((ERROR, (at_input(task.input, error), traceback.format_exc())))
        return False
    return True


def share_cores(n_threads: int) -> None:
    """Leave torch no more threads than are this worker's due."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(min(n_threads, torch.get_num_threads()))


@contextmanager
def holding_back_ctrl_c() -> Iterator[None]:
    """Processes that are started inside never see Ctrl-C, not even before they can say that they ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started with the first process otherwise, and it would let the signals of this thread through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent(clean: Callable[[], object] = lambda: None) -> None:
    """A parent that is killed cannot say so, or clean up: its processes would go on computing for nobody."""
    threading.Thread(target=_wait_for_parent, args=(clean,), daemon=True).start()


def _wait_for_parent(clean: Callable[[], object]) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        clean()
        os._exit(1)

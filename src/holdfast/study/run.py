"""A study and a file → the file filled with its items; calling it again goes on where it stopped."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidValueError
from holdfast.inputs.data.dataset import Dataset
from holdfast.showing import Shown
from holdfast.study.engines import Engine, Event, GivenUp, InProcess, make_engine
from holdfast.study.items import Task, inputs_of, items_of, tasks_of
from holdfast.study.listing import Listed, check_listing, list_inputs
from holdfast.study.means import run_means
from holdfast.study.question import plain_spec
from holdfast.study.results import Record
from holdfast.study.spec import StudySpec, check_spec
from holdfast.study.status import StudyStatus, status_of
from holdfast.study.stopping import listening
from holdfast.study.watching import LiveBar, Moment, as_watcher
from holdfast.study.work import check_packages, load_worker, study_inputs
from holdfast.study.writing import StoreWriter
from holdfast.validation import check_list, check_path, check_whole

_VERSIONED = ("holdfast", "numpy", "scipy", "torch", "transformers", "scikit-learn", "onnxruntime", "shapiq")


@dataclass(frozen=True)
class StudyRun(Shown):
    """What one run did.

    Attributes
    ----------
    status : StudyStatus
        How far the study is now.
    n_new : int
        Items this run stored.
    stopped : bool
        Whether it was asked to stop before the end.
    seconds : float
        How long it took.
    """

    status: StudyStatus
    n_new: int
    stopped: bool
    seconds: float

    def plain(self) -> dict[str, Any]:
        """The run as what JSON can hold."""
        told = {"n_new": self.n_new, "stopped": self.stopped, "seconds": self.seconds}
        return {"status": self.status.plain()} | told

    def __str__(self) -> str:
        done = f"{self.n_new} items stored in {self.seconds:.1f} s."
        resume = "\nStopped. Run the same study with the same file to go on; nothing stored is computed again."
        return f"{done}{resume if self.stopped else ''}\n{self.status}"


def run_study(
    spec: StudySpec,
    path: str | Path,
    *,
    inputs: Iterable[int] | None = None,
    engine: str | Engine = "local",
    workers: int = 0,
    timeout: float | None = None,
    inputs_per_worker: int | None = None,
    progress: Any = None,
) -> StudyRun:
    """Run a study, or what is left of it, into a file.

    Each finished item is stored in one transaction. A run that is interrupted, killed or stopped by
    an error loses only the items that were being computed: the same call goes on with the rest and
    ends with the same draws and counts as a run that was never interrupted, whatever the number of
    workers. More inputs, methods, fractions or keep probabilities may be asked for later, in the
    same file.

    With ``certify.precision = "data-set"`` items hold explanations, and when all are stored the mean curve
    over the inputs is computed for each method, fraction and keep probability, in this process.

    Ctrl-C (or SIGTERM) lets the items that have begun finish; a second one stops at once.

    Parameters
    ----------
    spec : StudySpec
        The study.
    path : str or Path
        The file: a SQLite database, made if there is none. One run writes it at a time.
    inputs : iterable of int, optional
        Only these inputs of the study now, by their places from 0, such as ``range(0, 500)``: several
        machines can share a study, each with a file of its own, to be merged later.
    engine : str or Engine
        "local": this machine. "ray", or a ``Ray`` with its settings: actors on a cluster, or on one that is
        started on this machine for this run.
    workers : int
        Worker processes, each with its own copy of the model; 0 for none, in this process; with Ray, actors, and
        0 for as many as fit. A script that asks for workers, or for Ray, must guard its top level with
        ``if __name__ == "__main__":``.
    timeout : float, optional
        Most seconds that an item may take, and a call of the model for mean curves. A worker that takes longer is
        ended and its input tried again by another; after three of them its items are given up, and the study goes on.
        Needs workers. Loading the model and the data is not counted.
    inputs_per_worker : int, optional
        How many inputs a worker has before a new process takes its place, for models that keep ever more memory.
        Needs workers.
    progress : bool, str or callable, optional
        True for a live bar, "json" for JSON lines (both on stderr), or a function of a ``Moment``.

    Returns
    -------
    StudyRun
        What was done, how far the study is, and which inputs were left out or given up.

    Examples
    --------
    >>> run_study("study.toml", "study.db")
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidTypeError: `spec` must be a StudySpec, got str. Read a file with `read_spec`.
    """
    is_new = not check_path(path, "path").exists()  # of one that is there, everything may be stored
    further = ["ray"] if engine == "ray" else []
    check_packages(check_spec(spec), *further, computing=is_new and engine == "local")
    chosen = make_engine(engine, workers, timeout, inputs_per_worker)
    watch, plain = as_watcher(progress), plain_spec(spec)
    here = chosen if isinstance(chosen, InProcess) else None
    every = study_inputs(spec) if here is None or here.inputs is None else here.inputs
    data = every.dataset
    asked = inputs_of(spec, len(data))
    wanted = asked if inputs is None else [asked[place] for place in _check_inputs(inputs, len(asked))]
    settings = {"engine": repr(chosen), "workers": workers}
    with StoreWriter(path, plain, settings=settings, versions=_versions()) as store:
        _keep_listing(store, list_inputs(data, asked))
        store.expect(asked, n_there=len(data))
        session = _Session(store, spec, data, wanted, watch)
        with listening() as wish:
            if here is not None and here.load is load_worker:  # what is loaded here already does
                chosen = InProcess.on(every)
            for event in chosen.run(spec, session.tasks(), wish):
                session.keep(event)
            if spec.certify.precision == "data-set" and not wish() and status_of(store).settled:
                shown = watch.of_masks if isinstance(watch, LiveBar) else None
                run_means(spec, store, every, wish=wish, progress=shown, timeout=timeout)
        return StudyRun(status_of(store), session.n_new, wish(), session.seconds)


def _keep_listing(store: StoreWriter, listed: dict[int, Listed]) -> None:
    """Refuse data whose numbers stand for other inputs than those that have items; then remember them."""
    names, known = store.names(), store.listing()
    check_listing(names, listed)
    check_listing({index: known[index] for index in names if index in known}, listed)
    store.list_inputs(listed)


def _check_inputs(inputs: Any, n_inputs: int) -> list[int]:
    """Distinct places of inputs in the study, in increasing order."""
    given = check_list(inputs, "inputs", "be places of inputs, such as range(0, 500)")
    wanted = sorted({check_whole(index, "inputs") for index in given})
    if not wanted or wanted[-1] >= n_inputs:
        shown = f"up to {wanted[-1]}" if wanted else "none"
        raise InvalidValueError(argument="inputs", must=f"be places from 0 to {n_inputs - 1}", got=shown)
    return wanted


class _Session:
    """One run: what is to do, and the books it keeps."""

    def __init__(
        self,
        store: StoreWriter,
        spec: StudySpec,
        data: Dataset,
        inputs: Sequence[int],
        watch: Callable[[Moment], None] | None,
    ) -> None:
        self._store, self._spec, self._data, self._inputs, self._watch = store, spec, data, inputs, watch
        self._per_input = sum(1 for _ in items_of(spec, [0]))
        done = store.keys()
        self._n_before = sum(item.key in done for item in items_of(spec, inputs))
        self._started = time.perf_counter()
        self.n_new = self._n_given_up = 0
        self._skipped: set[int] = set()
        self._noted: set[int] = set()
        self._done, self._n_left_out = done, 0
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.perf_counter() - self._started

    def tasks(self) -> Iterator[Task]:
        """What is left to do, with the scores that stored items were cut from."""
        done = self._store.keys()
        for task in tasks_of(self._spec, self._inputs, done):
            methods = dict.fromkeys(item.method for item in task.items)
            found = ((method, self._store.packed_attribution(task.input, method)) for method in methods)
            yield Task(task.input, task.items, tuple((name, packed) for name, packed in found if packed is not None))

    def keep(self, event: Event) -> None:
        """Store an event, and tell whoever watches."""
        key = None
        if isinstance(event, Record):
            self._note_file(int(event.input[0]))
            self._store.add(event)
            self._count(event)
            key = event.key
        elif isinstance(event, GivenUp):
            self._store.give_up(event.input, event.reason, n_tries=event.n_tries, items=event.items)
            self._n_given_up += len(event.items)
        else:
            self._store.skip(event.input, event.reason)
            self._skipped.add(event.input)
            self._n_left_out += sum(item.key not in self._done for item in items_of(self._spec, [event.input]))
        if self._watch is not None:
            self._watch(self._moment(key))

    def _note_file(self, index: int) -> None:
        """Files were not opened to list them; of those that have items, it is stored what they held."""
        if self._data.in_files and index not in self._noted:
            self._noted.add(index)
            with suppress(OSError):
                self._store.note_content(index, str(self._data.digest(index)))

    def _count(self, record: Record) -> None:
        self.n_new += 1
        if self._spec.certify.precision == "data-set":
            return  # nothing is certified yet
        sums = self._sums[record.method]
        sums[0] += record.last_rate
        sums[1] += 1

    def _moment(self, key: str | None) -> Moment:
        return Moment(
            n_done=self._n_before + self.n_new,
            n_items=len(self._inputs) * self._per_input - self._n_left_out,
            n_new=self.n_new,
            n_skipped=len(self._skipped),
            n_given_up=self._n_given_up,
            seconds=self.seconds,
            means={method: total / count for method, (total, count) in self._sums.items()},
            key=key,
        )


def _versions() -> dict[str, str]:
    """Python and the packages that results may depend on, those that are installed."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

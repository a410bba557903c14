"""A study and a file → the file filled with its items, and their mean curves; calling it again goes on."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from holdfast.certification.mean_curve import InputCounts, mean_curve
from holdfast.errors import InvalidTypeError, InvalidValueError, StoreError, StudyError
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.inputs import Inputs
from holdfast.study.local import Engine, Event, InProcess, Processes
from holdfast.study.methods import check_scores, load_explainers, with_fingerprints
from holdfast.study.on_ray import Ray
from holdfast.study.records import (
    GivenUp,
    Record,
    Task,
    check_listing,
    inputs_of,
    items_of,
    list_inputs,
    stored_json,
    tasks_of,
)
from holdfast.study.spec import GroupKey, StudySpec, check_spec
from holdfast.study.status import StudyStatus, status_of
from holdfast.study.store import StoreWriter
from holdfast.study.worker import at_input, check_packages, explained, item_rng, study_inputs
from holdfast.terminal import (
    SECONDS_BEFORE_BAR,
    SECONDS_BETWEEN_LINES,
    NotebookLine,
    Shown,
    TerminalBar,
    TerminalLine,
    automatic_line,
    neutral,
    share_done,
    without_bars,
)
from holdfast.types import Mask, MaskedModel, Progress
from holdfast.validation import check_list, check_name, check_path, check_seconds, check_whole, shown
from holdfast.words import counted, duration

_VERSIONED = ("holdfast", "numpy", "scipy", "torch", "transformers", "scikit-learn", "onnxruntime", "shapiq")
_SECONDS_TOGETHER = 1.0  # signals within this time of the first are one request: a key held down, or every process told
_MEAN_FIELDS = ("radii", "confidence", "simultaneous", "agree", "neighborhood", "half_width")
"""What of a question counts for a mean: it has a width in place of a tolerance and a plan."""
_Watcher = Callable[["Moment"], None]


@dataclass(frozen=True, eq=False)
class LiveObjects:
    """What of a study are objects of this process: its inputs, and functions or scores by the names of methods."""

    inputs: Inputs | None = None
    methods: Mapping[str, Any] = field(default_factory=dict)

    def refusal(self, spec: StudySpec) -> str:
        """Why no other process can run it, and what to do."""
        names = [f"method {name!r}" for name in self.methods]
        names += ["model", "data"] if spec.is_live else []
        return (
            f"Workers and Ray need names, but this study has Python objects: {', '.join(names)}. "
            "Leave out `workers` and `engine`, or use names such as python:<module>:<function> or scores:<file>."
        )


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
        return asdict(self) | {"status": self.status.plain()}

    def __str__(self) -> str:
        resume = " Stopped. Run the same study with the same file to continue."
        return f"{self.n_new} items stored in {self.seconds:.1f} s.{resume if self.stopped else ''}\n{self.status}"

    def explain(self) -> str:
        """What this run did, how far the study is and what to do next, in plain words."""
        return f"This run stored {counted(self.n_new, 'item')} in {duration(self.seconds)}. {self.status.explain()}"


def run_study(
    spec: StudySpec,
    path: str | Path,
    *,
    inputs: Iterable[int] | None = None,
    engine: str | Engine = "local",
    workers: int = 0,
    timeout: float | None = None,
    inputs_per_worker: int | None = None,
    live: LiveObjects | None = None,
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

    Several inputs are open at a time, so that the model is asked for rows of many of them at once.

    Ctrl-C (or SIGTERM) lets the item finish that was begun first; a second one stops at once.

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
        Needs workers. Loading the model and the data is not counted. Without workers it limits methods of one's own
        alone: a call that takes longer costs the items of its method.
    inputs_per_worker : int, optional
        How many inputs a worker has before a new process takes its place, for models that keep ever more memory.
        Needs workers.
    live : LiveObjects, optional
        The inputs and methods of a study that are objects of this process; see ``holdfast.study.run``.
    progress : bool, str or callable, optional
        True for a live bar, "json" for JSON lines (both on stderr), or a function of a ``Moment``. On a terminal and
        in a notebook a bar appears by itself after two seconds, unless it is False.

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
    check_packages(check_spec(spec), *["ray"] * (engine == "ray"), computing=is_new and engine == "local")
    own = any(method.is_own for method in spec.methods)
    chosen = make_engine(engine, workers, timeout, inputs_per_worker, own_methods=own)
    if live is not None and not isinstance(chosen, InProcess):
        raise StudyError(live.refusal(spec))
    watch = as_watcher(progress)
    objects = LiveObjects() if live is None else live
    every = objects.inputs or (chosen.inputs if isinstance(chosen, InProcess) else None) or study_inputs(spec)
    spec, data = with_fingerprints(spec, objects.methods), every.dataset
    explainers = load_explainers(spec, objects.methods, [data.name_of(index) for index in range(len(data))])
    numbers = inputs_of(spec, len(data))
    if inputs is None:
        wanted = numbers
    else:
        places = check_list(inputs, "inputs", "be numbers of inputs, such as range(0, 500)")
        places = sorted({check_whole(place, "inputs") for place in places})
        if not places or places[-1] >= len(numbers):
            got = f"up to {places[-1]}" if places else "none"
            raise InvalidValueError(argument="inputs", must=f"be numbers from 0 to {len(numbers) - 1}", got=got)
        wanted = [numbers[place] for place in places]
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _VERSIONED:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    settings = {"engine": repr(chosen), "workers": workers}
    with StoreWriter(path, spec, settings=settings, versions=versions) as store:
        # Data whose numbers stand for other inputs than those that have items are refused.
        names, listed, listing = store.names(), store.listing(), list_inputs(data, numbers)
        check_listing(names, listing)
        check_listing({index: listed[index] for index in names if index in listed}, listing)
        for name, explainer in explainers.items():
            if explainer.digest is not None:
                check_scores(store.attributions(name), explainer, every)
        store.list_inputs(listing)
        store.expect(numbers, n_there=len(data))
        session = _Session(store, spec, data, wanted, watch)
        with stop_on_signals() as stop, without_bars():
            if isinstance(chosen, InProcess):  # what is loaded here already does
                chosen = replace(chosen, inputs=every, explainers=explainers)
            for event in chosen.run(spec, session.tasks(), stop):
                session.keep(event)
            if spec.mean_groups and not stop() and status_of(store).settled:
                bar = watch.of_masks if isinstance(watch, LiveBar) else None
                run_means(spec, store, every, stop=stop, progress=bar, timeout=timeout)
        if isinstance(watch, LiveBar):
            watch.finish()
        return StudyRun(status_of(store), session.moment.n_new, stop(), session.seconds)


def make_engine(
    engine: Any,
    workers: int,
    timeout: float | None = None,
    inputs_per_worker: int | None = None,
    *,
    own_methods: bool = False,
) -> Engine:
    """The engine of this name, or the one that is given; what is said here of workers and time holds for it, if any."""
    n_workers, limits = check_whole(workers, "workers"), dict[str, Any]()
    if (seconds := check_seconds(timeout)) is not None:
        limits["timeout"] = seconds
    if inputs_per_worker is not None:
        limits["inputs_per_worker"] = check_whole(inputs_per_worker, "inputs_per_worker", minimum=1)
    if not isinstance(engine, Engine):
        name = check_name(engine, "engine", ("local", "ray"))
        engine = Ray(n_workers) if name == "ray" else Processes(n_workers) if n_workers else InProcess()
    may_be_late = isinstance(engine, InProcess) and own_methods and inputs_per_worker is None
    if isinstance(engine, Ray):
        engine = replace(engine, **limits, n_workers=n_workers or engine.n_workers)
    elif isinstance(engine, Processes) or may_be_late:
        engine = replace(engine, **limits)
    elif limits:
        must = "come with worker processes: set `workers` to 1 or more"
        raise InvalidValueError(argument=next(iter(limits)), must=must, got=engine)
    # While a process that was just started imports the script of its parent, it cannot start processes itself.
    if getattr(multiprocessing.current_process(), "_inheriting", False) and not isinstance(engine, InProcess):
        raise StudyError(
            'Put the code of your script under `if __name__ == "__main__":`. Worker processes import the script, '
            "which would start the study again."
        )
    return engine  # type: ignore[no-any-return]


@contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Take SIGINT and SIGTERM as requests to stop after an item that has begun; a later one interrupts.

    Gives a function that says whether a stop was asked for. Elsewhere than in the main thread signals cannot be heard.
    """
    requests: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        requests.append(time.monotonic())
        if requests[-1] - requests[0] >= _SECONDS_TOGETHER:
            raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield lambda: bool(requests)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Session:
    """One run: what is to do, and the books it keeps."""

    def __init__(
        self, store: StoreWriter, spec: StudySpec, data: Dataset, inputs: Sequence[int], watch: _Watcher | None
    ) -> None:
        self._store, self._spec, self._data, self._inputs, self._watch = store, spec, data, inputs, watch
        self._done, self._started = store.keys(), time.perf_counter()
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._noted: set[int] = set()
        n_before = sum(item.key in self._done for item in items_of(spec, inputs))
        self.moment = Moment(n_before, len(inputs) * len(spec.groups), 0, 0, 0, 0.0, {})

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def tasks(self) -> Iterator[Task]:
        """What is left to do, with the scores that stored items were cut from."""
        for task in tasks_of(self._spec, self._inputs, self._done):
            methods = dict.fromkeys(item.method for item in task.items)
            scores = ((method, self._store.packed_attribution(task.input, method)) for method in methods)
            yield replace(task, attributions=tuple((name, packed) for name, packed in scores if packed is not None))

    def keep(self, event: Event) -> None:
        """Store an event, and tell whoever watches."""
        moment, index = replace(self.moment, key=None), event.input
        if isinstance(event, Record):
            if self._data.in_files and index not in self._noted:
                # Files were not opened to list them; of those that have items, it is stored what they held.
                self._noted.add(index)
                with suppress(OSError):
                    self._store.note_content(index, str(self._data.digest(index)))
            self._store.add(event)
            if not self._spec.certify.of_means:  # otherwise nothing is certified yet
                total, count = self._sums[event.method]
                self._sums[event.method] = [total + event.rates[-1][3], count + 1]  # unbiased, at the largest radius
            moment = replace(moment, n_done=moment.n_done + 1, n_new=moment.n_new + 1, key=event.key)
        elif isinstance(event, GivenUp):
            self._store.give_up(event)
            moment = replace(moment, n_given_up=moment.n_given_up + len(event.items))
        else:
            self._store.skip(index, event.reason)
            n_left_out = sum(item.key not in self._done for item in items_of(self._spec, [index]))
            moment = replace(moment, n_skipped=moment.n_skipped + 1, n_items=moment.n_items - n_left_out)
        means = {method: total / count for method, (total, count) in self._sums.items()}
        self.moment = replace(moment, seconds=self.seconds, means=means)
        if self._watch is not None:
            self._watch(self.moment)


class StoppedError(Exception):
    """Somebody asked to stop; what was finished is stored."""


class StoredAnswers(dict[str, InputCounts]):
    """The answers of inputs for one mean curve, each stored as it comes."""

    def __init__(self, store: StoreWriter, scope: str, stop: Callable[[], bool]) -> None:
        self._store, self._scope, self._stop = store, scope, stop
        for question, content in store.query("SELECT question, content FROM answers WHERE scope = ?", scope):
            n_agreed, *rest = stored_json(content, list)
            super().__setitem__(question, InputCounts(tuple(n_agreed), *rest))

    def __setitem__(self, key: str, answer: InputCounts) -> None:
        self._store.add_answer(self._scope, key, json.dumps(answer))
        super().__setitem__(key, answer)
        if self._stop():
            raise StoppedError


def run_means(
    spec: StudySpec,
    store: StoreWriter,
    inputs: Inputs,
    *,
    stop: Callable[[], bool],
    progress: Callable[[], Progress] | None = None,
    timeout: float | None = None,
) -> None:
    """Compute the mean curves that are asked for and not stored yet; ``progress`` makes a bar for each."""

    def subject(group: GroupKey, index: int) -> tuple[MaskedModel, Mask]:
        return explained(spec, store, inputs, group, index, timeout=timeout)

    for group in spec.mean_groups:
        numbers = store.group_inputs(group)
        # A mean over other inputs than these is another mean.
        if not numbers or store.mean(group) is not None:
            continue
        scope = f"{group.name}/{hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]}"
        question: dict[str, Any] = {name: getattr(spec.certify, name) for name in _MEAN_FIELDS}
        try:
            curve = mean_curve(
                [partial(subject, group, index) for index in numbers],
                **question,
                memory=StoredAnswers(store, scope, stop),
                progress=None if progress is None else progress(),
                rng=item_rng(spec, "mean", group.method, repr(group.top_fraction), repr(group.keep_probability)),
            )
        except StoppedError:
            return
        except StoreError:
            raise
        except Exception as error:
            raise at_input(numbers[getattr(error, "subject", 0)], error) from error
        store.add_mean_curve(group, curve.to_json(), numbers)


@dataclass(frozen=True)
class Moment:
    """A study at one moment; as a text, one line.

    Examples
    --------
    >>> print(Moment(50, 200, 30, 0, 0, 60.0, {"lime": 0.93, "shap": 0.951}))
    ██████░░░░░░░░░░░░░░░░░░ 50/200 items, 0.50/s, 5 min left, lime 0.930, shap 0.951

    Attributes
    ----------
    n_done, n_items : int
        Items stored, of this run and before, and items there will be, those left out aside.
    n_new : int
        Items stored by this run.
    n_skipped, n_given_up : int
        Inputs left out, and items given up.
    seconds : float
        Since the run began.
    means : mapping
        For each method, the mean rate at the largest radius, over what this run has stored.
    key : str or None
        The item just stored.
    """

    n_done: int
    n_items: int
    n_new: int
    n_skipped: int
    n_given_up: int
    seconds: float
    means: Mapping[str, float]
    key: str | None = None

    @property
    def items_per_second(self) -> float:
        """The rate of this run so far."""
        return self.n_new / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None before the first item."""
        left = self.n_items - self.n_done - self.n_given_up
        return left / self.items_per_second if self.n_new else None

    def __str__(self) -> str:
        parts = [f"{share_done(self.n_done, self.n_items, width=24)} {self.n_done}/{self.n_items} items"]
        if self.seconds_left is not None:
            parts += [f"{self.items_per_second:.2f}/s", f"{duration(self.seconds_left)} left"]
        parts += [f"{self.n_skipped} inputs left out"] * (self.n_skipped > 0)
        parts += [f"{self.n_given_up} items given up"] * (self.n_given_up > 0)
        return ", ".join(parts + [f"{method} {mean:.3f}" for method, mean in self.means.items()])


class LiveBar:
    """One line that is drawn over and over: whose it is, share done, rate, time left, means.

    It stays, unless it appeared by itself, ``after`` so many seconds.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        label: str = "",
        line: TerminalLine | NotebookLine | None = None,
        after: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line, self._label = line or TerminalLine(out), f"{neutral(label)} " if label else ""
        self._after, self._clock, self._started = after, clock, clock()
        self._drawn: float | None = None

    def __call__(self, moment: Moment) -> None:
        now = self._clock()
        is_due = self._drawn is None or now - self._drawn >= SECONDS_BETWEEN_LINES or moment.n_done >= moment.n_items
        if now - self._started >= self._after and is_due:
            self._drawn = now
            self._line.show(f"{self._label}{moment}")

    def of_masks(self) -> TerminalBar:
        """A bar of the same study for one mean curve, which counts masks."""
        what = f"masks of {self._label.strip()}" if self._label else "masks"
        return TerminalBar(what=what, line=self._line, after=self._after, clock=self._clock)

    def finish(self) -> None:
        """Remove the line if nobody asked for it."""
        if self._after and self._drawn is not None:
            self._line.erase()


def write_json_line(moment: Moment, out: TextIO | None = None) -> None:
    """One JSON object per event, for programs."""
    content = asdict(moment) | {"items_per_second": moment.items_per_second, "seconds_left": moment.seconds_left}
    print(json.dumps(content), file=out or sys.stderr, flush=True)


def as_watcher(progress: Any) -> _Watcher | None:
    """None for a bar that appears by itself, False for none, True for one at once, "json" for lines, or a function."""
    if progress is None:
        line = automatic_line()
        return None if line is None else LiveBar(line=line, after=SECONDS_BEFORE_BAR)
    if progress is False:
        return None
    if progress is True:
        return LiveBar()
    if progress == "json":
        return write_json_line
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    must = "be True, False, None, 'json' or a function of a Moment"
    raise InvalidTypeError(argument="progress", must=must, got=shown(progress))

"""Tasks → events, one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from holdfast.inputs.inputs import Inputs
from holdfast.study.engines.engine import Event, as_event, naming_input
from holdfast.study.items import Task
from holdfast.study.spec import StudySpec
from holdfast.study.work import Load, Worker, load_worker


@dataclass(frozen=True)
class InProcess:
    """The engine without workers; ``load`` makes the one that works here, ``inputs`` are those loaded already."""

    load: Load = field(default=load_worker, repr=False)
    inputs: Inputs | None = field(default=None, repr=False)

    @classmethod
    def on(cls, inputs: Inputs) -> InProcess:
        """One that works on inputs that are loaded already."""
        return cls(lambda spec: Worker(spec, inputs), inputs)

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        """Events of the tasks in their order."""
        worker: Worker | None = None
        for task in tasks:
            # Not before there is something to do: models take their time to load.
            worker = worker or self.load(spec)
            for event in _events(worker, task):
                yield event
                if stop():
                    return


def _events(worker: Worker, task: Task) -> Iterator[Event]:
    """What a worker finds, with the input named in errors; errors of whoever reads it are their own."""
    found = worker.run(task)
    while True:
        with naming_input(task.input):
            event = next(found, None)
        if event is None:
            return
        yield as_event(event)

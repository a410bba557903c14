"""Question 4 of the paper: what smoothing costs in accuracy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.atomic import replacing
from holdfast.bounds import Interval
from holdfast.errors import InvalidValueError
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.subjects import RESNET, ROBERTA, VIT, Subject
from holdfast.experiments.words import Contrast, points, share
from holdfast.randomness import stream, stream_key
from holdfast.report.figures.accuracies import plot_accuracy
from holdfast.report.figures.style import entitle, make_panels, note_below
from holdfast.smoothing import SmoothedAccuracy, smoothed_accuracy
from holdfast.words import counted, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEEPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1)
N_SAMPLES = 64
CONFIDENCE = 0.95
GENTLE = 0.1
"""A loss of at most this much accuracy is called gentle."""

PARTS = "parts"
"""The folder of what is stored on the way."""

N_TOGETHER = 25
"""Inputs that are finished, stored and resumed together."""

COLUMNS = {
    "model": "string",
    "data": "string",
    "keep_probability": "float64",
    "n_correct": "int64",
    "n_inputs": "int64",
    "accuracy": "float64",
    "low": "float64",
    "high": "float64",
    "confidence": "float64",
    "n_samples": "int64",
}


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Measure accuracy at every keep probability."""
    keeps = tuple(request.keep or KEEPS)
    found = {one.name: measure(one, keeps, seed=request.seed, desk=desk) for one in experiment.chosen(request)}
    data = {one.name: one.data.spec for one in experiment.chosen(request)}
    return Outcome({"accuracy": _table(found, data)}, draw(found), tell(found))


def measure(subject: Subject, keeps: tuple[float, ...], *, seed: int, desk: Desk) -> SmoothedAccuracy:
    """Accuracy of one subject, part by part; parts that are stored are not computed again."""
    numbers = _labelled(subject)
    job = _Job(subject, keeps, seed)
    parts = []
    for start in range(0, len(numbers), N_TOGETHER):
        parts.append(job.part(numbers[start : start + N_TOGETHER], desk.folder / PARTS))
        if desk.progress is True:
            _show(subject.name, min(start + N_TOGETHER, len(numbers)), len(numbers))
    return added(parts, stream_key(seed))


def _labelled(subject: Subject) -> list[int]:
    """The inputs that have a label."""
    inputs = subject.first_inputs()
    numbers = [index for index in inputs.numbers if inputs.dataset.labels[index] >= 0]
    if not numbers:
        column = "Name their column with --target." if subject.kind == "table" else None
        must = f"have labels to measure accuracy with, {inputs.dataset.name} has none"
        raise InvalidValueError(argument="--data", must=must, hint=column)
    return numbers


@dataclass(frozen=True, eq=False)
class _Job:
    """What one part needs: the model, the data and the question."""

    subject: Subject
    keeps: tuple[float, ...]
    seed: int

    def part(self, numbers: Sequence[int], folder: Path) -> SmoothedAccuracy:
        """The accuracy on these inputs, read if it is stored and stored if it is not."""
        path = folder / f"{self.subject.name}-{self._question(numbers)}.json"
        if path.is_file():
            return SmoothedAccuracy.from_json(path.read_text(encoding="utf-8"))
        found = self._measure(numbers)
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            unfinished.write_text(found.to_json() + "\n", encoding="utf-8")
        return found

    def _measure(self, numbers: Sequence[int]) -> SmoothedAccuracy:
        inputs = self.subject.inputs
        return smoothed_accuracy(
            inputs.bind,
            [inputs.raw(index) for index in numbers],
            [inputs.label(index) for index in numbers],
            keep_probabilities=self.keeps,
            n_samples=N_SAMPLES,
            confidence=CONFIDENCE,
            rng=stream_key(stream(self.seed, "reproduce", "accuracy", self.subject.name, str(numbers[0]))),
        )

    def _question(self, numbers: Sequence[int]) -> str:
        """A digest of everything the answer depends on: a part of another question has another name."""
        subject, fingerprint = self.subject, self.subject.inputs.classifier.fingerprint
        content = [
            *(subject.model.spec, dict(subject.model.options), subject.data.spec, dict(subject.data.options)),
            *(fingerprint, repr(subject.masking), self.keeps, self.seed, N_SAMPLES, list(numbers)),
        ]
        return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:20]


def _show(name: str, n_done: int, n_inputs: int) -> None:
    import sys

    from holdfast.terminal import neutral, unescaped

    unescaped(sys.stderr).write(f"\r\x1b[K{neutral(name)}: {n_done}/{n_inputs} inputs")
    sys.stderr.flush()


def added(parts: Sequence[SmoothedAccuracy], key: int) -> SmoothedAccuracy:
    """Parts of one question about different inputs, put together.

    Examples
    --------
    >>> part = SmoothedAccuracy((1.0, 0.5), (9, 6), 10, 64, 0.95, 640, 0)
    >>> added([part, part], 7).n_correct
    (18, 12)
    """
    first = parts[0]
    return SmoothedAccuracy(
        keep_probabilities=first.keep_probabilities,
        n_correct=tuple(map(sum, zip(*(part.n_correct for part in parts), strict=True))),
        n_inputs=sum(part.n_inputs for part in parts),
        n_samples=first.n_samples,
        confidence=first.confidence,
        n_calls=sum(part.n_calls for part in parts),
        rng_key=key,
    )


def _table(found: Mapping[str, SmoothedAccuracy], data: Mapping[str, str]) -> Table:
    rows = [
        {
            "model": name,
            "data": data[name],
            "keep_probability": keep,
            "n_correct": n_correct,
            "n_inputs": one.n_inputs,
            "accuracy": accuracy,
            "low": interval.low,
            "high": interval.high,
            "confidence": one.confidence,
            "n_samples": one.n_samples,
        }
        for name, one in found.items()
        for (keep, accuracy, interval), n_correct in zip(one, one.n_correct, strict=True)
    ]
    return Table.of(COLUMNS, rows)


def draw(found: Mapping[str, SmoothedAccuracy]) -> Figure:
    """A panel per model."""
    figure, panels = make_panels(1, len(found), size=(3.0, 2.6))
    for place, (axes, (name, one)) in enumerate(zip(panels[0], found.items(), strict=True)):
        plot_accuracy(one, ax=axes)
        entitle(axes, f"{name}, {counted(one.n_inputs, 'input')}")
        axes.set_ylabel("" if place else "accuracy")
    note_below(figure, f"Bands: exact {percent(CONFIDENCE)} binomial intervals.")
    return figure


def tell(found: Mapping[str, SmoothedAccuracy]) -> str:
    """The findings in words."""
    parts = [_of_model(name, one) for name, one in found.items()]
    exact = "Brackets are exact 95% binomial intervals; changes lie between the farthest ends of two of them, at 90%."
    return " ".join([*parts, exact])


def _of_model(name: str, one: SmoothedAccuracy) -> str:
    at = {keep: (accuracy, interval) for keep, accuracy, interval in one}
    said = ", ".join(f"{share(*at[keep])} at λ = {keep:g}" for keep in (1.0, 0.5, 0.25) if keep in at)
    head = f"{name}, {counted(one.n_inputs, 'input')}: accuracy is {said or share(*next(iter(at.values())))}."
    if not {1.0, 0.5, 0.25} <= at.keys():
        return f"{head} λ = 1, 0.5 and 0.25 are needed to compare with the paper."
    first, second = loss(at[1.0], at[0.5]), loss(at[0.5], at[0.25])
    return f"{head} {compared_losses(first, second)}"


Measured = tuple[float, Interval]


def loss(before: Measured, after: Measured) -> Contrast:
    """How much accuracy is lost from one keep probability to the next."""
    (a, (a_low, a_high)), (b, (b_low, b_high)) = before, after
    return Contrast(a - b, Interval(a_low - b_high, a_high - b_low))


def compared_losses(gentle: Contrast, steep: Contrast) -> str:
    """Whether accuracy falls gently to λ = 1/2 and collapses by 1/4, as far as intervals tell.

    Examples
    --------
    >>> small, large = Contrast(0.02, Interval(-0.01, 0.05)), Contrast(0.5, Interval(0.4, 0.6))
    >>> print(compared_losses(small, large).split("; ", 1)[1].split(", and ")[1])
    the second loss is larger than the first; which loss is larger is said at 85%.
    """
    said = "; which loss is larger is said at 85%"  # three intervals at 95% each must hold together
    if steep.interval.low > gentle.interval.high:
        here = f"the second loss is larger than the first{said}"
    elif steep.interval.high < gentle.interval.low:
        here = f"the second loss is smaller than the first: more is lost before λ = 0.5{said}"
    else:
        here = "the two losses cannot be told apart at this number of inputs"
    return (
        f"The change from λ = 1 to 0.5 is {points(-gentle.estimate, _turned(gentle))}, from 0.5 to 0.25 "
        f"{points(-steep.estimate, _turned(steep))}. The paper reports a gentle fall to λ = 0.5 and a collapse by "
        f"0.25; here {_first_fall(gentle)}, and {here}."
    )


def _first_fall(lost: Contrast) -> str:
    """Whether no more is lost than a gentle fall may cost."""
    limit = f"{100 * GENTLE:g} points, at 90%"
    if lost.interval.low > GENTLE:
        return f"the first fall is not gentle (more than {limit})"
    if lost.interval.high <= GENTLE:
        return f"the first fall is gentle (at most {limit})"
    return f"whether the first fall is gentle (at most {limit}) is open"


def _turned(lost: Contrast) -> Interval:
    return Interval(-lost.interval.high, -lost.interval.low)


SUBJECTS = ((RESNET, 450), (VIT, 150), (ROBERTA, 200))

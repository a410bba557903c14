"""The paper's batching table: time per pass, one mask at a time and several together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from holdfast.bounds import Interval
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.subjects import RESNET, ROBERTA, VIT, Subject
from holdfast.experiments.timing import Times, time_batches
from holdfast.experiments.words import Contrast, Verdicts, compared
from holdfast.report.figures.style import make_panels, note_below
from holdfast.report.figures.times import plot_times
from holdfast.study.aggregate.bootstrap import FEW, bootstrap_means
from holdfast.words import counted, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (1, 5, 10, 15)
N_MASKS = 30
"""A multiple of every batch size: no batch is smaller than its size."""

COLUMNS = {
    "model": "string",
    "batch_size": "int64",
    "n_inputs": "int64",
    "n_masks": "int64",
    "mean_ms": "float64",
    "deviation_ms": "float64",
    "speed_up": "float64",
    "speed_up_low": "float64",
    "speed_up_high": "float64",
}


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Time every model; times are the one thing that is different in every run."""
    found = {one.name: measure(one) for one in experiment.chosen(request)}
    speed_ups = {name: {size: speed_up(times, size, request.seed) for size in SIZES} for name, times in found.items()}
    return Outcome({"times": _table(found, speed_ups)}, draw(found), tell(found, speed_ups))


def measure(subject: Subject) -> Times:
    """Seconds per pass of one subject."""
    inputs = subject.first_inputs()
    return time_batches(lambda number: inputs[number], SIZES, n_inputs=len(inputs), n_masks=N_MASKS)


def speed_up(times: Times, size: int, key: int) -> tuple[float, Interval]:
    """How many times less time a pass takes at this batch size than alone: of mean times, resampling inputs.

    Examples
    --------
    >>> speed_up({1: [0.004, 0.004], 5: [0.001, 0.001]}, 5, 0)
    (4.0, Interval(low=4.0, high=4.0))
    """
    alone, together = np.array(times[1]), np.array(times[size])
    estimate = float(alone.mean() / together.mean())
    # The ratio of means r solves mean(alone - r·together) = 0: linearised at the estimate, it is a mean over inputs.
    shifted = estimate + (alone - estimate * together) / together.mean()
    [interval] = bootstrap_means(shifted[:, None], n_resamples=1000, confidence=0.95, key=key)
    return estimate, interval


SpeedUps = Mapping[str, Mapping[int, tuple[float, Interval]]]


def _table(found: Mapping[str, Times], speed_ups: SpeedUps) -> Table:
    rows = [
        {
            "model": name,
            "batch_size": size,
            "n_inputs": len(times[size]),
            "n_masks": N_MASKS,
            "mean_ms": 1e3 * float(np.mean(times[size])),
            "deviation_ms": 1e3 * _deviation(times[size]),
            "speed_up": speed_ups[name][size][0],
            "speed_up_low": speed_ups[name][size][1].low,
            "speed_up_high": speed_ups[name][size][1].high,
        }
        for name, times in found.items()
        for size in SIZES
    ]
    return Table.of(COLUMNS, rows)


def _deviation(seconds: list[float]) -> float:
    return float(np.std(seconds, ddof=1)) if len(seconds) > 1 else 0.0


def draw(found: Mapping[str, Times]) -> Figure:
    """A panel per model."""
    figure, panels = make_panels(1, len(found), size=(3.3, 2.1))
    for place, (axes, (name, times)) in enumerate(zip(panels[0], found.items(), strict=True)):
        title = f"{name}, {counted(len(times[1]), 'input')}"
        plot_times({str(size): seconds for size, seconds in times.items()}, title=title, ax=axes)
        axes.set_ylabel("" if place else "batch size")
    note_below(figure, "Whiskers: one standard deviation over inputs.")
    return figure


def tell(found: Mapping[str, Times], speed_ups: SpeedUps) -> str:
    """The findings in words."""
    parts = [_of_model(name, times, speed_ups[name]) for name, times in found.items()]
    gains = [
        Contrast(one - 1, Interval(span.low - 1, span.high - 1), n=len(found[name][size]))
        for name, by_size in speed_ups.items()
        for size, (one, span) in by_size.items()
        if size != 1
    ]
    closing = compared("batching takes less time per pass", Verdicts.of(gains))
    times_differ = (
        "Times are processor times of this machine and this run and differ in every run: this is the one experiment "
        "whose data do. "
        "± is one standard deviation over inputs, brackets are approximate 95% intervals of the speed-up; with fewer "
        f"than {FEW} inputs these are too narrow, and nothing is concluded from them."
    )
    return " ".join([*parts, closing, times_differ])


def _of_model(name: str, times: Times, speed_ups: Mapping[int, tuple[float, Interval]]) -> str:
    cells = [
        f"{1e3 * float(np.mean(times[size])):.2f} ± {1e3 * _deviation(times[size]):.2f} ms at batch size {size}"
        + ("" if size == 1 else f" ({one:.1f}× [{span.low:.1f}, {span.high:.1f}])")
        for size, (one, span) in speed_ups.items()
    ]
    return f"{name}, {counted(len(times[1]), 'input')}: a pass takes {listed(cells)} of processor time."


SUBJECTS = ((VIT, 100), (RESNET, 100), (ROBERTA, 100))

"""The experiments that are no study and no example: accuracy under smoothing, spectra, and time in batches."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.atomic import replacing
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.randomness import stream, stream_key
from holdfast.report.figures.boolean_plots import SpectralContraction, contraction, plot_spectra
from holdfast.report.figures.curves import plot_accuracy, plot_times
from holdfast.report.figures.style import COLOURS, entitle, make_panels, note_below
from holdfast.reproduce.experiment import PlannedRun, Subject
from holdfast.reproduce.findings import CONFIDENCE, Contrast, CountedClaim, Quantity, Results, Table, bootstrap, share
from holdfast.smoothing import SmoothedAccuracy, smoothed_accuracy
from holdfast.study.summary import FEW
from holdfast.terminal import TerminalBar
from holdfast.words import counted, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEEPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1)
N_SAMPLES = 64
COMPARED = (1.0, 0.5, 0.25)
"""Keep probabilities that the paper speaks of."""

GENTLE = 0.1
"""A loss of at most this much accuracy is called gentle."""

PARTS = "parts"
"""The folder of what is stored on the way."""

N_TOGETHER = 25
"""Inputs that are finished, stored and resumed together."""


def run_accuracy(planned: PlannedRun) -> Results:
    """Question 4: what smoothing costs in accuracy, at every keep probability."""
    keeps = tuple(planned.request.keep or KEEPS)
    figure, [panels] = make_panels(1, len(planned.subjects), size=(3.0, 2.6))
    rows: list[dict[str, Any]] = []
    tallies: list[CountedClaim] = []
    cells: dict[str, dict[str, str]] = {}
    for place, (subject, axes) in enumerate(zip(planned.subjects, panels, strict=True)):
        result = measure_accuracy(planned, subject, keeps)
        label = f"{subject.name}, {counted(result.n_inputs, 'input')}"
        plot_accuracy(result, ax=axes)
        entitle(axes, label)
        axes.set_ylabel("" if place else "accuracy")
        at = {keep: Quantity(accuracy, interval) for keep, accuracy, interval in result}
        for (keep, (accuracy, interval)), n_correct in zip(at.items(), result.n_correct, strict=True):
            stated = {"model": subject.name, "data": subject.data.spec, "keep_probability": keep}
            counts = {"n_correct": n_correct, "n_inputs": result.n_inputs, "accuracy": accuracy}
            asked = {"confidence": result.confidence, "n_samples": result.n_samples}
            rows.append({**stated, **counts, **interval._asdict(), **asked})
        cells[label] = {f"accuracy at λ = {keep:g}": share(*at[keep]) for keep in at if keep in COMPARED}
        tallies += tally_losses(label, at)
    note_below(figure, f"Bands: exact {percent(CONFIDENCE)} binomial intervals.")
    contrasts = [contrast for tally in tallies for contrast in tally.contrasts]
    return Results(
        {"accuracy": Table.of(rows), "differences": Table.of_contrasts(contrasts)},
        figure,
        tallies,
        cells,
        "Higher and lower: exact 95% binomial intervals leave no doubt, at 90% for one loss and at 85% for two.",
        [] if tallies else ["λ = 1, 0.5 and 0.25 are needed to compare with the paper."],
    )


def measure_accuracy(planned: PlannedRun, subject: Subject, keeps: tuple[float, ...]) -> SmoothedAccuracy:
    """Accuracy of one subject, part by part; parts that are stored are not computed again."""
    inputs, seed = subject.first_inputs(), planned.request.seed
    numbers = [index for index in inputs.numbers if inputs.dataset.labels[index] >= 0]
    if not numbers:
        column = "Name their column with --set target=COLUMN." if subject.kind == "table" else None
        must = f"have labels to measure accuracy with, {inputs.dataset.name} has none"
        raise InvalidValueError(argument="--data", must=must, hint=column)
    every, parts = subject.inputs, []
    bar = TerminalBar(what=f"inputs of {subject.name}") if planned.progress is True else None
    for start in range(0, len(numbers), N_TOGETHER):
        part = numbers[start : start + N_TOGETHER]
        # A digest of everything the answer depends on: a part of another question has another name.
        asked = [
            *(subject.model.spec, dict(subject.model.options), subject.data.spec, dict(subject.data.options)),
            *(every.classifier.fingerprint, repr(subject.masking), keeps, seed, N_SAMPLES, part),
        ]
        digest = hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()[:20]
        path = planned.folder / PARTS / f"{subject.name}-{digest}.json"
        if not path.is_file():
            result = smoothed_accuracy(
                every.bind,
                [every.raw(index) for index in part],
                [every.label(index) for index in part],
                keep_probabilities=keeps,
                n_samples=N_SAMPLES,
                confidence=CONFIDENCE,
                rng=stream_key(stream(seed, "reproduce", "accuracy", subject.name, str(part[0]))),
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as unfinished:
                unfinished.write_text(result.to_json() + "\n", encoding="utf-8")
        parts.append(SmoothedAccuracy.from_json(path.read_text(encoding="utf-8")))
        if bar is not None:
            bar(start + len(part), len(numbers))
    return sum_parts(parts, stream_key(seed))


def sum_parts(parts: Sequence[SmoothedAccuracy], key: int) -> SmoothedAccuracy:
    """Parts of one question about different inputs, put together."""
    n_correct = tuple(map(sum, zip(*(part.n_correct for part in parts), strict=True)))
    n_inputs, n_calls = sum(part.n_inputs for part in parts), sum(part.n_calls for part in parts)
    return replace(parts[0], n_correct=n_correct, n_inputs=n_inputs, n_calls=n_calls, rng_key=key)


def tally_losses(label: str, at: Mapping[float, Quantity]) -> list[CountedClaim]:
    """Whether accuracy falls gently to λ = 1/2 and collapses by 1/4, as far as exact intervals tell."""
    if not set(COMPARED) <= at.keys():
        return []
    early, late = at[1.0] - at[0.5], at[0.5] - at[0.25]
    limit = f"{100 * GENTLE:g} points"
    where = {"model": label.split(",")[0], "second": "loss from λ = 1 to 1/2"}
    gentle = Contrast.certain(GENTLE - early, first=limit, **where)
    collapse = Contrast.certain(late - early, first="loss from λ = 1/2 to 1/4", **where)
    return [
        CountedClaim(f"the fall to λ = 1/2 is gentle, at most {limit}", label, (gentle,)),
        CountedClaim("it collapses by λ = 1/4: the second fall is larger", label, (collapse,)),
    ]


N_FEATURES = 12
AMOUNTS = (1.0, 0.9, 0.75, 0.5)
N_SPECTRA = 32
OPERATORS = ("masking", "flipping")


def run_spectra(planned: PlannedRun) -> Results:
    """Random masking against random flipping: where the mass of random spectra goes."""
    request = planned.request
    amounts, n_spectra = tuple(request.keep or AMOUNTS), request.n or N_SPECTRA
    spectra = stream(request.seed, "random-spectra").standard_normal((2**N_FEATURES, n_spectra))
    [plain] = masses(spectra, (1.0,), "masking")
    rows: list[dict[str, Any]] = []
    tallies: list[CountedClaim] = []
    every: list[Contrast] = []
    cells: dict[str, dict[str, str]] = {}
    found = {operator: masses(spectra, amounts, operator) for operator in OPERATORS}
    for operator, mass in found.items():
        for amount, by_degree in zip(amounts, mass, strict=True):
            spans, gains = (bootstrap(values.T, request.seed) for values in (by_degree, by_degree - plain))
            where: dict[str, Any] = {"model": operator, "n_inputs": n_spectra, "keep_probability": amount}
            lifts = []
            for degree, values in enumerate(by_degree):
                expected, value = expected_mass(operator, amount, degree), float(values.mean())
                stated = {"operator": operator, "amount": amount, "degree": degree, "mass": value}
                sizes = {"expected": expected, "n_features": N_FEATURES, "n_spectra": n_spectra}
                rows.append({**stated, **spans[degree]._asdict(), **sizes})
                where |= {"first": f"degree {degree} at {amount:g}", "second": f"degree {degree} at 1"}
                lifts.append(Contrast(float((values - plain[degree]).mean()), gains[degree], **where))
                if lifts[-1].verdict == "higher":
                    factor, exact = value / plain[degree].mean(), expected / expected_mass(operator, 1.0, degree)
                    own = cells.setdefault(f"at {amount:g}", {})
                    own[f"{operator} raises degree {degree}"] = f"to {factor:.2f} times its size (exactly {exact:.2f})"
            tallies += tally_degrees(operator, amount, lifts)
            every += lifts
    return Results(
        {"spectra": Table.of(rows), "differences": Table.of_contrasts(every)},
        draw_spectra(found, amounts),
        tallies,
        cells,
        f"Directions are approximate 95% bootstrap intervals over spectra, and none is said of fewer than {FEW}.",
        [f"{n_spectra} random spectr{'um' if n_spectra == 1 else 'a'} of {N_FEATURES} features; crosses: exact means."],
    )


def tally_degrees(operator: str, amount: float, lifts: Sequence[Contrast]) -> list[CountedClaim]:
    """What the paper says of the mass of each degree: masking moves it to low degrees, flipping shrinks all but 0."""
    if amount == 1:
        return []
    where = f"{operator} at {amount:g}"
    falls = [(lift, 0.0 - Quantity(lift.estimate, lift.interval)) for lift in lifts]
    turned = tuple(replace(lift, estimate=fall.value, interval=fall.interval) for lift, fall in falls)
    if operator == "flipping":
        return [CountedClaim("the mass of degrees 1 and more falls", where, turned[1:])]
    first = next((degree for degree, lift in enumerate(lifts) if degree > 0 and lift.verdict == "lower"), 1)
    return [
        CountedClaim("below the first degree that falls, mass rises", where, tuple(lifts[:first])),
        CountedClaim("from the first degree that falls on, all do", where, turned[first:]),
    ]


def masses(spectra: NDArray[np.float64], amounts: Sequence[float], operator: str) -> NDArray[np.float64]:
    """Fourier mass per amount of smoothing, degree and spectrum, (A, n+1, k)."""
    return np.stack([contraction(spectrum, amounts, operator=operator).mass for spectrum in spectra.T], axis=2)


def expected_mass(operator: str, amount: float, degree: int, *, n_features: int = N_FEATURES) -> float:
    """The mean mass at a degree over all spectra ĥ(S) ~ N(0, 1).

    A coefficient of the smoothed function is normal with mean 0; flipping multiplies it by ρ^k, masking
    sums those of its supersets, with variance λ^(2k) (1 + (1 - λ)²)^(n - k).
    """
    lifted = (1 + (1 - amount) ** 2) ** ((n_features - degree) / 2) if operator == "masking" else 1.0
    return math.comb(n_features, degree) * math.sqrt(2 / math.pi) * amount**degree * lifted


def draw_spectra(found: Mapping[str, NDArray[np.float64]], amounts: Sequence[float]) -> Figure:
    """Masking on the left, flipping on the right; crosses are the exact means over all spectra."""
    figure, panels = make_panels(1, len(found), size=(4.0, 3.2))
    for axes, (operator, mass) in zip(panels[0], found.items(), strict=True):
        plot_spectra(SpectralContraction(operator, "fourier", tuple(amounts), mass.mean(axis=2)), ax=axes)
        for amount in amounts:
            exact = [expected_mass(operator, amount, degree) for degree in range(N_FEATURES + 1)]
            label = "exact mean" if amount == amounts[0] else None
            axes.plot(range(N_FEATURES + 1), exact, "x", ms=4, color=COLOURS["grey"], zorder=5, label=label)
        axes.legend(frameon=False, handlelength=3.2)
    limits = [axes.get_ylim() for axes in panels[0]]
    for place, axes in enumerate(panels[0]):
        axes.set_ylabel(axes.get_ylabel() if place == 0 else "")
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    return figure


SIZES = (1, 5, 10, 15)
N_MASKS = 30
"""A multiple of every batch size: no batch is smaller than its size."""

Bind = Callable[[int], Any]
"""The number of an input → that input, bound."""

Times = dict[int | None, list[float]]
"""By batch size, seconds per mask for each input; None is the size that holdfast finds."""


def run_batching(planned: PlannedRun) -> Results:
    """The paper's batching table: time per pass, one mask at a time and several together."""
    figure, [panels] = make_panels(1, len(planned.subjects), size=(3.3, 2.1))
    rows: list[dict[str, Any]] = []
    tallies: list[CountedClaim] = []
    cells: dict[str, dict[str, str]] = {}
    for place, (subject, axes) in enumerate(zip(planned.subjects, panels, strict=True)):
        inputs = subject.first_inputs()
        times = time_batches(inputs.__getitem__, SIZES, n_inputs=len(inputs), n_masks=N_MASKS)
        label = f"{subject.name}, {counted(len(inputs), 'input')}"
        plot_times({str(size): seconds for size, seconds in times.items()}, title=label, ax=axes)
        axes.set_ylabel("" if place else "batch size")
        gains, own = [], cells.setdefault(label, {})
        for size in SIZES:
            faster, (low, high) = factor = speed_up(times, size, planned.request.seed)
            mean = 1e3 * float(np.mean(times[size]))
            deviation = 1e3 * float(np.std(times[size], ddof=1)) if len(inputs) > 1 else 0.0
            stated = {"model": subject.name, "batch_size": size, "n_inputs": len(inputs), "n_masks": N_MASKS}
            ratios = {"speed_up": faster, "speed_up_low": low, "speed_up_high": high}
            rows.append({**stated, "mean_ms": mean, "deviation_ms": deviation, **ratios})
            cell = f"{mean:.2f} ± {deviation:.2f} ms"
            if size != 1:
                where: dict[str, Any] = {"model": subject.name, "first": f"batch size {size}", "second": "batch size 1"}
                gains.append(Contrast(*(factor - 1.0), n_inputs=len(inputs), **where))
                cell += f" ({faster:.1f}× [{low:.1f}, {high:.1f}])"
            own[f"a pass at batch size {size}"] = cell
        tallies.append(CountedClaim("a pass in a batch is faster than alone", label, tuple(gains)))
    note_below(figure, "Whiskers: one standard deviation over inputs.")
    contrasts = [contrast for tally in tallies for contrast in tally.contrasts]
    return Results(
        {"times": Table.of(rows), "differences": Table.of_contrasts(contrasts)},
        figure,
        tallies,
        cells,
        f"Higher: the approximate 95% bootstrap interval of the speed-up is above 1, of {FEW} inputs or more.",
        ["Times are processor times of this machine, ± one standard deviation, and differ in every run."],
    )


def speed_up(times: Times, size: int, key: int) -> Quantity:
    """How many times less time a pass takes at this batch size than alone: of mean times, resampling inputs."""
    alone, together = np.array(times[1]), np.array(times[size])
    estimate = float(alone.mean() / together.mean())
    # The ratio of means r solves mean(alone - r·together) = 0: linearised at the estimate, it is a mean over inputs.
    shifted = estimate + (alone - estimate * together) / together.mean()
    [interval] = bootstrap(shifted[:, None], key)
    return Quantity(estimate, interval)


def time_batches(bind: Bind, sizes: Sequence[int | None], *, n_inputs: int, n_masks: int) -> Times:
    """Seconds per mask, for each batch size (None for the one that holdfast finds, its probing included) and input.

    For each input the same masks, half of the features shown, and the batch sizes in turns, beginning
    with another one for each input. Time is that of the processor, which with one thread is what a
    clock on the wall would show on an idle machine.
    """
    order = list(sizes)
    times: Times = {size: [] for size in order}
    first = bind(0)
    first(np.ones((2, first.n_features), dtype=bool))  # the first pass of a module is slower than the rest
    for number in range(n_inputs):
        model = bind(number)
        masks = np.random.default_rng(number).random((n_masks, model.n_features)) < 0.5
        turn = number % len(order)
        for size in order[turn:] + order[:turn]:
            start = time.process_time()
            Evaluator(model, batch_size=size)(masks)
            times[size].append((time.process_time() - start) / len(masks))
    return times

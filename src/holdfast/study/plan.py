"""A study → its items, model calls and time, before anything runs.

The model and the data are loaded, a few inputs are bound, and a call is timed. Attribution is counted by formula.
Certification is run, with its own draws and stopping rules, on a stand-in for the model whose answers agree at a given
rate: what it then spends is what it will spend.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import median_low
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.gradients import (
    FIRST_POINTS,
    LEGENDRE_POINTS,
    MOST_POINTS,
    MOST_STEPS,
    NOISY_COPIES,
    RANDOM_PLACES,
)
from holdfast.attribution.lime import DEFAULT_SAMPLES as LIME_SAMPLES
from holdfast.attribution.methods import METHODS, RISE_SAMPLES, attribute
from holdfast.attribution.shapley import DEFAULT_SAMPLES as SHAPLEY_SAMPLES
from holdfast.attribution.shapley import MOST_EXACT_FEATURES
from holdfast.bounds import hoeffding_draws
from holdfast.certification.allocation import allocate
from holdfast.certification.curve import certify_radii
from holdfast.certification.mean_curve import size_distribution
from holdfast.certification.serialization import Value
from holdfast.completions import by_rows, completions_of, nearby_rows, with_completions
from holdfast.distributions.distribution import as_neighborhood
from holdfast.errors import StudyError
from holdfast.evaluation import Evaluator
from holdfast.masking.function import mask_function
from holdfast.plans import make_plan, share_risk
from holdfast.smoothing import smooth
from holdfast.study.records import inputs_of
from holdfast.study.spec import CertifySpec, MethodSpec, SmoothingSpec, StudySpec, check_spec
from holdfast.study.worker import Skipped, bind_input, check_packages, steady, study_inputs
from holdfast.types import Mask, MaskedModel, Masks
from holdfast.validation import check_flag, check_share
from holdfast.witness import ALWAYS_EXHAUSTED, find_witness
from holdfast.words import counted, duration, few_words, fitted, paragraph

# The full input, and a row that is repeated to see whether the model changes its mind; an item adds one of its own.
_ROWS_PER_INPUT = 2
_WITNESS_CALLS = 20_000  # what `find_witness` spends unless told otherwise
_N_ROUNDS = 5  # of draws for a mean curve, usually
_N_LOOKED_AT = 9  # inputs that are bound to see how many features they have
_BY_GRADIENTS = tuple(name for name, (_, need) in METHODS.items() if need == "gradients")
_SECONDS, _MOST_PORTIONS, _FEW_GRADIENTS = 0.5, 64, 8  # how long, and how often at most, calls are timed
_LARGE, _SMALL = 256, 32  # rows that come together when a method explains, and between two looks of a certificate


@dataclass(frozen=True, eq=False)
class PlannedCost(Value, schema="holdfast.planned_cost"):
    """Model calls of one part of a study over all inputs, and the time they take if it was measured."""

    name: str
    expected_calls: float
    most_calls: int
    seconds: float | None
    most_seconds: float | None


@dataclass(frozen=True, eq=False)
class StudyPlan(Value, schema="holdfast.study_plan"):
    """What a study will cost.

    Calls are counted for inputs with the usual number of features, as seen on a few. ``expected``
    assumes that predictions are kept at ``assumed_rate`` and that integrated gradients need no
    refinement. Certificates of true rates near one half cost most, and searches for witnesses that find
    none. Time is that of one worker.

    Attributes
    ----------
    n_inputs, n_items : int
        Inputs, and items: inputs × methods × fractions × keep probabilities.
    n_features : int
        The usual number of features, of ``n_looked_at`` inputs; ``n_skipped`` of these would be left out.
    costs : tuple of PlannedCost
        One per explanation method, then certification, hard certificates and witnesses.
    paper_calls : int
        What certification takes with the paper's number of draws for every item and radius.
    seconds_per_call : float or None
        Measured on one input; None if it was not to be measured.
    """

    name: str
    n_inputs: int
    n_items: int
    n_features: int
    n_looked_at: int
    n_skipped: int
    assumed_rate: float
    precision: str
    costs: tuple[PlannedCost, ...]
    paper_calls: int
    seconds_per_call: float | None

    @property
    def expected_calls(self) -> float:
        """Model calls of the whole study, as expected."""
        return sum(cost.expected_calls for cost in self.costs)

    @property
    def most_calls(self) -> int:
        """The most model calls of the whole study."""
        return sum(cost.most_calls for cost in self.costs)

    @property
    def seconds(self) -> float | None:
        """Expected time of one worker, if calls were timed."""
        return None if self.seconds_per_call is None else sum(cost.seconds or 0.0 for cost in self.costs)

    @property
    def most_seconds(self) -> float | None:
        """The most time of one worker, if calls were timed."""
        return None if self.seconds_per_call is None else sum(cost.most_seconds or 0.0 for cost in self.costs)

    def __str__(self) -> str:
        width = max(len(cost.name) for cost in self.costs)
        table = [(cost.name, cost.expected_calls, cost.most_calls) for cost in self.costs]
        table += [("all", self.expected_calls, self.most_calls)]
        inputs = f"{counted(self.n_inputs, 'input')} with about {self.n_features} features"
        size = f"{counted(self.n_items, 'item')} of {inputs}"
        time = ""
        if self.seconds_per_call is not None:
            about, most = (duration(max(1.0, seconds or 0.0)) for seconds in (self.seconds, self.most_seconds))
            time = f", about {about} with one worker, at most {most}"
        skipped = f"; {self.n_skipped} of {self.n_looked_at} checked inputs left out" if self.n_skipped else ""
        lines = [
            fitted(
                "{name}: {size}{time}{skipped}.",
                name=[few_words(self.name)],
                size=[size],
                skipped=[skipped],
                time=[time, ""],
            )
        ]
        lines += [f"{'model calls':<{width}}  {'expected':>14}  {'at most':>14}"]
        lines += [f"{name:<{width}}  {expected:>14,.0f}  {most:>14,}" for name, expected, most in table]
        return "\n".join(lines)

    def explain(self) -> str:
        """What the study will cost and what that rests on, in plain words."""
        uncounted = ", ".join(cost.name for cost in self.costs if not cost.most_calls)
        is_searched = any(cost.name == "witnesses" for cost in self.costs)
        each = 1000 * (self.seconds_per_call or 0.0)
        skipped = f"{self.n_skipped} of {counted(self.n_looked_at, 'input')} that were checked would be left out."
        return paragraph(
            "How many model calls, and how much time, will the study take?",
            f"Calls are counted for inputs with {self.n_features} features, the usual number.",
            f"Expected calls assume that predictions are kept at a rate of {self.assumed_rate:g}.",
            "Rates near one half cost most.",
            f"The paper's number of draws would be {self.paper_calls:,}.",
            skipped if self.n_skipped else "",
            f"Not counted: what {uncounted} may ask of the model." if uncounted else "",
            "A search for a witness that finds none takes its whole budget." if is_searched else "",
            f"Time was measured on one input: {each:.3g} ms per call." if each else "Time was not measured.",
            "Nothing was explained or certified for this plan; the real cost may differ.",
        )


def plan_study(spec: StudySpec, *, timed: bool = True, assumed_rate: float = 0.9) -> StudyPlan:
    """Tell how many items and model calls a study has, and about how long it will take.

    The model and the data are loaded and a few inputs are bound. Nothing is explained or certified; if
    ``timed``, the model is called on random masks of one input for about a second, unless its calls are paid for.

    Parameters
    ----------
    spec : StudySpec
        The study.
    timed : bool
        Whether to measure how long a model call takes.
    assumed_rate : float
        The true stability rate that expected calls are told for.

    Returns
    -------
    StudyPlan
        Items, calls and seconds; printing it gives a table.
    """
    rate, timed = float(check_share(assumed_rate, "assumed_rate")), check_flag(timed, "timed")
    check_packages(check_spec(spec))
    every = study_inputs(spec)
    every.check_kinds()
    inputs = inputs_of(spec, len(every))
    bound, skipped = [], []
    for place in sorted(set(np.linspace(0, len(inputs) - 1, _N_LOOKED_AT).astype(int).tolist())):
        try:
            model = bind_input(spec, every, inputs[place])
        except StudyError as error:
            raise StudyError(f"Input {inputs[place]} {error}") from error
        if isinstance(model, Skipped):
            skipped.append(model)
        else:
            bound.append(model)
    if not bound:
        raise StudyError(f"None of {len(skipped)} inputs that were looked at can be used: {skipped[0]}.")
    n_features = median_low(model.n_features for model in bound)
    is_paid = spec.model.spec.startswith("openai:")  # planning is free
    speed = _measure(spec, bound[0]) if timed and not is_paid else _Speed()
    costs = []
    for method in (method for method in spec.methods if method.spec != "cited"):  # which asks nothing
        per_call = speed.per_gradient if method.spec in _BY_GRADIENTS else speed.per_call
        expected, most = attribution_calls(method, n_features)
        costs.append(_cost(method.name, expected * len(inputs), most * len(inputs), per_call))
    certifying = _means if spec.certify.of_means else _certification
    n_items = len(inputs) * len(spec.groups)
    draws = hoeffding_draws(Fraction(str(spec.certify.tolerance)), Fraction(str(spec.certify.confidence)))
    return StudyPlan(
        name=spec.name,
        n_inputs=len(inputs),
        n_items=n_items,
        n_features=n_features,
        n_looked_at=len(bound) + len(skipped),
        n_skipped=len(skipped),
        assumed_rate=rate,
        precision=spec.certify.precision,
        costs=(*costs, *certifying(spec, bound[0], n_features, rate, len(inputs), speed)),
        paper_calls=draws * len(spec.certify.radii) * n_items,
        seconds_per_call=speed.per_call,
    )


class _Speed(NamedTuple):
    """Seconds of one model call among many, of one among few as between two looks of a certificate, of a gradient."""

    per_call: float | None = None
    per_small_call: float | None = None
    per_gradient: float | None = None


def _measure(spec: StudySpec, bound: MaskedModel) -> _Speed:
    """Time a model on random masks of one input, and its gradients if a method needs them."""
    per_gradient = None
    if method := next((str(method.spec) for method in spec.methods if method.spec in _BY_GRADIENTS), None):
        attribute(bound, method, n_samples=1, rng=0)
        start = time.perf_counter()
        attribution = attribute(bound, method, n_samples=_FEW_GRADIENTS, rng=0)
        per_gradient = (time.perf_counter() - start) / max(1, attribution.n_calls)
    # Certificates draw completions; what explains takes the mean over all of them.
    per_call = _time_calls(steady(bound, spec), _LARGE)
    return _Speed(per_call, _time_calls(steady(by_rows(bound), spec), _SMALL), per_gradient)


def _time_calls(evaluator: Evaluator, n_rows: int) -> float:
    """Seconds per row when random masks come in portions of this size, over about half a second."""
    n_features, rng, n_completions = evaluator.n_features, np.random.default_rng(0), completions_of(evaluator)

    def draw() -> Masks:
        masks = rng.random((n_rows, n_features)) < 0.5
        if evaluator.n_columns == n_features or n_completions is None:
            return masks
        return with_completions(masks, rng.integers(n_completions, size=n_rows), n_completions)

    evaluator(draw())
    n_calls, seconds = 0, 0.0
    for _ in range(_MOST_PORTIONS):
        masks, before, start = draw(), evaluator.n_calls, time.perf_counter()
        evaluator(masks)
        seconds += time.perf_counter() - start
        n_calls += evaluator.n_calls - before
        # Of few features all masks are soon known, and cost nothing.
        if seconds >= _SECONDS or evaluator.n_calls - before < n_rows // 2:
            break
    return seconds / max(1, n_calls)


class Calls(NamedTuple):
    """Model calls: what is expected, and the most there can be."""

    expected: float
    most: int


def _cost(name: str, expected: float, most: int, per_call: float | None, overhead: float = 0.0) -> PlannedCost:
    seconds = [None if per_call is None else n * per_call + overhead for n in (expected, most)]
    return PlannedCost(name, float(expected), int(most), *seconds)


def _settings(spec: StudySpec, n_features: int) -> list[tuple[Mask, float, int]]:
    """An explanation of each size and each keep probability, with the rows that one mask then takes."""
    masks = [np.arange(n_features) < int(Fraction(str(fraction)) * n_features) for fraction in spec.top_fractions]
    keeps = [(keep, 1 if keep == 1 else spec.smoothing.n_samples) for keep in spec.smoothing.keep_probabilities]
    return [(mask, *keep) for mask in masks for keep in keeps]


def _certification(
    spec: StudySpec, model: MaskedModel, n_features: int, rate: float, n_inputs: int, speed: _Speed
) -> Iterator[PlannedCost]:
    """Certificates of all items, then hard certificates and witnesses if they are asked for."""
    n_explanations, settings = n_inputs * len(spec.methods), _settings(spec, n_features)
    once = _ROWS_PER_INPUT * n_inputs
    # A smoothed model draws nothing: it votes on the mean.
    drawn = [{"n_completions": completions_of(model) if keep == 1 else None} for _, keep, _ in settings]
    curves = [
        try_curve(spec.certify, spec.smoothing, selected, keep=keep, rate=rate, **fills)
        for (selected, keep, _), fills in zip(settings, drawn, strict=True)
    ]
    n_drawn, seconds = (n_explanations * sum(part) for part in zip(*curves, strict=True))
    most_drawn = n_explanations * sum(
        rows * most_masks(spec.certify, selected, **fills)
        for (selected, _, rows), fills in zip(settings, drawn, strict=True)
    )
    yield _cost("certification", n_drawn + once, most_drawn + once, speed.per_small_call, seconds)
    if n_hard := len(spec.mus.keep_probabilities):
        at_most = 2 * spec.mus.n_levels * n_hard * n_explanations * len(settings)
        # Votes on the full input are the same for all items of an input.
        shared = spec.mus.n_levels * n_hard * (n_explanations * len(spec.top_fractions) + n_inputs)
        yield _cost("hard certificates", min(at_most, shared), at_most, speed.per_call)
    if spec.witness:
        limits, searches = [], []
        for (selected, keep, rows), fills in zip(settings, drawn, strict=True):
            limits.append(witness_calls(int((~selected).sum()), rows, **fills))
            searches.append(try_witness(spec.smoothing, selected, keep=keep, rate=rate, **fills))
        n_searched, most_searched = (n_explanations * sum(part) for part in (map(min, searches, limits), limits))
        per_call = speed.per_call if completions_of(model) is None else speed.per_small_call
        yield _cost("witnesses", n_searched, most_searched, per_call)


def _means(
    spec: StudySpec, model: MaskedModel, n_features: int, rate: float, n_inputs: int, speed: _Speed
) -> Iterator[PlannedCost]:
    """The mean curves of all methods, fractions and keep probabilities."""
    expected, most, fills = 0.0, 0, completions_of(model) is not None
    for selected, keep, rows in _settings(spec, n_features):
        drawn = fills and keep == 1
        calls = mean_calls(spec.certify, selected, n_inputs=n_inputs, rate=rate, rows=rows, random_fills=drawn)
        expected, most = expected + calls.expected, most + calls.most
    once, n_methods = _ROWS_PER_INPUT * n_inputs, len(spec.methods)
    per_call = speed.per_small_call if fills else speed.per_call
    yield _cost("mean curves", once + n_methods * expected, once + n_methods * most, per_call)


def mean_calls(
    certify: CertifySpec, selected: Mask, *, n_inputs: int, rate: float, rows: int, random_fills: bool = False
) -> Calls:
    """What the mean curve of one method takes, if all inputs have explanations like this one.

    The first draws are the same for all rates, and inputs alike in this rate would take the expected number. The
    explanation itself is drawn as well if what it hides is.
    """
    nearby = as_neighborhood(certify.neighborhood)(selected, 0)
    group = tuple(map(len, nearby.pools))
    risk = (1 - certify.confidence) / (len(certify.radii) if certify.simultaneous else 1)
    smallest = 0 if random_fills else 1
    weights = np.zeros((len(certify.radii), min(max(certify.radii), *group) + 1 - smallest))
    for row, radius in enumerate(certify.radii):
        distribution = size_distribution(group, radius, nearby.odds)
        weights[row, : len(distribution) - smallest] = distribution[smallest:]
    limit = certify.half_width**2 / (2 * math.log(2 / risk))
    spreads = (max(rate * (1 - rate), certify.half_width), 0.25)
    expected, most = (allocate(weights, np.full(weights.shape[1], spread), limit).sum() for spread in spreads)
    # Each round asks inputs for their prediction anew, and has a draw of every size at least.
    references = (2 * n_inputs + weights.shape[1]) * _N_ROUNDS
    return Calls(float(rows * (1.1 * expected + references)), int(rows * (1.1 * most + 2 * references)))


def attribution_calls(method: MethodSpec, n_features: int) -> Calls:
    """What one explanation takes; gradients count as calls."""
    n_samples, all_masks = method.n_samples, 2**n_features
    match method.spec:
        case "lime":
            n_calls = min(n_samples or LIME_SAMPLES, all_masks)
        case "shap":
            is_exact = n_features <= MOST_EXACT_FEATURES
            default = all_masks if is_exact else max(SHAPLEY_SAMPLES + 2 * n_features, 4 * n_features)
            n_calls = min(n_samples or default, all_masks)
        case "integrated_gradients":  # two ends of the line, the prediction, and points on it, refined if need be
            if n_samples is None and method.options.get("rule") != "gauss_legendre":
                return Calls(FIRST_POINTS + 3, MOST_POINTS + 3)
            n_calls = (n_samples or LEGENDRE_POINTS) + 3
        case "mfaba":
            n_calls = (n_samples or MOST_STEPS) + 2
        case "smoothgrad" | "gradient_shap":
            n_calls = (n_samples or (NOISY_COPIES if method.spec == "smoothgrad" else RANDOM_PLACES)) + 1
        case "gradient_x_input" | "grad_cam" | "attention_rollout":
            n_calls = 2
        case "rise":
            n_calls = min((n_samples or RISE_SAMPLES) + 1, all_masks)
        case "occlusion":  # each feature alone or left out, and the full input, which is also the prediction
            n_calls = min(n_features + (2 if method.options.get("leave") == "in" else 1), all_masks)
        case "random" | "citations":
            n_calls = 1
        case _:  # what a function of one's own will ask is not known; scores that are there ask nothing
            n_calls = 0
    return Calls(n_calls, n_calls)


def most_masks(certify: CertifySpec, selected: Mask, n_completions: int | None = None) -> int:
    """The most distinct masks a curve can take: the widest neighbourhood that is enumerated, and all draws.

    If what is hidden is drawn, pairs of a mask and a completion.
    """
    kind = as_neighborhood(certify.neighborhood)
    every = (nearby_rows(kind(selected, radius), n_completions) for radius in certify.radii)
    neighborhoods = {nearby.effective_radius: nearby for nearby in every}
    plan = make_plan(certify.plan, tolerance=certify.tolerance, confidence=certify.confidence)
    if certify.simultaneous:
        plan = share_risk(plan, len(neighborhoods))
    sizes = [nearby.size for nearby in neighborhoods.values() if not nearby.is_larger_than(plan.max_draws)]
    n_drawn = (len(neighborhoods) - len(sizes)) * plan.max_draws
    every_row = (n_completions or 1) << len(selected)
    return min(max(sizes, default=0) + n_drawn + 1 + _ROWS_PER_INPUT, every_row + 1)


def try_curve(
    certify: CertifySpec,
    smoothing: SmoothingSpec,
    selected: Mask,
    *,
    keep: float,
    rate: float,
    n_completions: int | None = None,
) -> tuple[int, float]:
    """Certify a stand-in that keeps its prediction for about this share of the masks; its calls, and other seconds."""
    own, model = _stand_in(smoothing, selected, keep, rate, n_completions)
    start = time.perf_counter()
    # The stand-in has two classes of its own, whatever counts as the same prediction in the study.
    question = certify.keywords | {"agree": "same_top_class"}
    certify_radii(model, selected, **question, check_determinism=False, rng=0)
    return own.n_calls, time.perf_counter() - start


def try_witness(
    smoothing: SmoothingSpec, selected: Mask, *, keep: float, rate: float, n_completions: int | None = None
) -> int:
    """Search the same stand-in for a witness; returns the calls. One that changes its mind often is soon found out."""
    own, model = _stand_in(smoothing, selected, keep, rate, n_completions)
    find_witness(model, selected, max_calls=_WITNESS_CALLS, rng=0)
    return own.n_calls


def _stand_in(
    smoothing: SmoothingSpec, selected: Mask, keep: float, rate: float, n_completions: int | None = None
) -> tuple[Evaluator, MaskedModel]:
    """Scores of two classes, counted, and smoothed: the first leads for the explanation, and for others at this rate.

    Which masks those are is fixed by a random linear form of each mask, modulo one; of a completion, it is shifted.
    """
    weights = np.random.default_rng(0).random(len(selected))

    def scores(masks: Masks) -> np.ndarray:
        keeps = ((masks @ weights) % 1.0 < rate) | (masks == selected).all(axis=1)
        return np.stack([keeps, ~keeps], axis=1).astype(np.float64)

    def completed(masks: Masks, numbers: NDArray[np.int64]) -> np.ndarray:
        keeps = ((masks @ weights + numbers * math.sqrt(2)) % 1.0 < rate) | masks.all(axis=1)
        return np.stack([keeps, ~keeps], axis=1).astype(np.float64)

    model: MaskedModel = mask_function(scores, n_features=len(selected))
    if n_completions is not None:
        model = _CompletedStandIn(len(selected), n_completions, scores, completed)
    own = Evaluator(model)
    return own, own if keep == 1 else smooth(own, keep, smoothing.n_samples, rng=0)


@dataclass(frozen=True)
class _CompletedStandIn:
    """A stand-in that draws what is hidden."""

    n_features: int
    n_completions: int
    scores: Callable[[Masks], np.ndarray]
    completed: Callable[[Masks, NDArray[np.int64]], np.ndarray]

    def __call__(self, masks: Masks, /) -> np.ndarray:
        return self.scores(masks)


def witness_calls(n_free: int, rows_per_mask: int = 1, n_completions: int | None = None) -> int:
    """The most that a search for a witness spends: its budget, levels too small to count, and a last reduction."""
    rows = n_completions or 1
    levels = (rows * math.comb(n_free, k) for k in range(1 if n_completions is None else 0, n_free + 1))
    small = sum(size for size in levels if size <= ALWAYS_EXHAUSTED)
    beyond = rows_per_mask * (small + n_free**2)
    return min(_WITNESS_CALLS + beyond, rows_per_mask * ((rows << n_free) + 1))

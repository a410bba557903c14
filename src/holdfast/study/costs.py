"""One input's methods and certificates → how many model calls they take, before the model is called.

Attribution is counted by formula. Certification is run, with its own draws and stopping rules, on a
stand-in for the model whose answers agree at a given rate: what it then spends is what it will spend.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from holdfast.attribution.gradients import FIRST_POINTS, LEGENDRE_POINTS, MOST_POINTS, MOST_STEPS
from holdfast.attribution.lime import DEFAULT_SAMPLES as LIME_SAMPLES
from holdfast.attribution.shapley import DEFAULT_SAMPLES as SHAPLEY_SAMPLES
from holdfast.attribution.shapley import MOST_EXACT_FEATURES
from holdfast.certification.allocation import allocate
from holdfast.certification.curve import certify_radii
from holdfast.certification.mean_curve import hoeffding_limit, size_law
from holdfast.evaluation import Evaluator
from holdfast.masking.function import mask_function
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.plans import make_plan, share_risk
from holdfast.smoothing import smooth
from holdfast.study.spec import CertifySpec, MethodSpec, SmoothingSpec
from holdfast.types import Mask, MaskedModel, Masks
from holdfast.witness import ALWAYS_EXHAUSTED, find_witness

_WITNESS_CALLS = 20_000
"""What ``find_witness`` spends unless told otherwise."""

_EXTRA_ROWS = 3
"""The explanation, the full input and a repeated row."""


class Calls(NamedTuple):
    """Model calls: what is expected, and the most there can be."""

    expected: float
    most: int

    def times(self, n: int) -> Calls:
        """The calls of n of the same."""
        return Calls(self.expected * n, self.most * n)


def mean_calls(certify: CertifySpec, selected: Mask, *, n_inputs: int, rate: float, rows: int) -> Calls:
    """What the mean curve of one method takes, if all inputs have explanations like this one.

    A guaranteed width has a fixed number of draws. An approximate one depends on the rates; inputs alike
    in them would take the expected number, and whole rounds over the inputs may add to the most.

    Examples
    --------
    >>> asked = CertifySpec(radii=(1,), precision="data-set", half_width=0.1, confidence=0.9)
    >>> mean_calls(asked, np.arange(8) < 4, n_inputs=10, rate=0.9, rows=1)
    Calls(expected=116.0, most=116)
    """
    group = tuple(len(pool) for pool in NEIGHBORHOODS[certify.neighborhood](selected, 0).pools)
    risk = (1 - certify.confidence) / (len(certify.radii) if certify.simultaneous else 1)
    weights = np.zeros((len(certify.radii), min(max(certify.radii), *group)))
    for row, radius in enumerate(certify.radii):
        law = size_law(group, radius)
        weights[row, : len(law) - 1] = law[1:]
    references = 2 * n_inputs
    if certify.bound == "hoeffding":
        n_draws = allocate(weights, np.ones(weights.shape[1]), hoeffding_limit(certify.half_width, risk)).sum()
        return Calls(float(rows * (n_draws + references)), int(rows * (n_draws + references)))
    limit = (certify.half_width / NormalDist().inv_cdf(1 - risk / 2)) ** 2
    expected, most = (
        allocate(weights, np.full(weights.shape[1], spread), limit) for spread in (rate * (1 - rate), 0.25)
    )
    at_most = 1.1 * most.sum() + n_inputs * weights.shape[1] + 3 * references
    return Calls(float(rows * (expected.sum() + 2 * references)), int(rows * at_most))


def attribution_calls(method: MethodSpec, n_features: int) -> Calls:
    """What one explanation takes; gradients count as calls.

    Examples
    --------
    >>> attribution_calls(MethodSpec("occlusion"), 64)
    Calls(expected=65, most=65)
    """
    return _METHODS[method.name](method, n_features)


def _lime(method: MethodSpec, n: int) -> Calls:
    return _fixed(min(method.n_samples or LIME_SAMPLES, 2**n))


def _shap(method: MethodSpec, n: int) -> Calls:
    default = 2**n if n <= MOST_EXACT_FEATURES else max(SHAPLEY_SAMPLES + 2 * n, 4 * n)
    return _fixed(min(method.n_samples or default, 2**n))


def _integrated_gradients(method: MethodSpec, n: int) -> Calls:
    """Two ends of the line, the prediction, and points on it: as few as it may refine, or as many."""
    ends = 3
    if method.n_samples is not None:
        return _fixed(method.n_samples + ends)
    if method.options.get("rule") == "gauss_legendre":
        return _fixed(LEGENDRE_POINTS + ends)
    return Calls(FIRST_POINTS + ends, MOST_POINTS + ends)


def _mfaba(method: MethodSpec, n: int) -> Calls:
    return _fixed((method.n_samples or MOST_STEPS) + 2)


def _occlusion(method: MethodSpec, n: int) -> Calls:
    """Each feature alone or left out, and the full input, which is also the prediction."""
    return _fixed(min(n + (2 if method.options.get("leave") == "in" else 1), 2**n))


def _random(method: MethodSpec, n: int) -> Calls:
    return _fixed(1)


def _fixed(n_calls: int) -> Calls:
    return Calls(n_calls, n_calls)


_METHODS: dict[str, Callable[[MethodSpec, int], Calls]] = {
    "lime": _lime,
    "shap": _shap,
    "integrated_gradients": _integrated_gradients,
    "mfaba": _mfaba,
    "occlusion": _occlusion,
    "random": _random,
}


def most_masks(asked: CertifySpec, selected: Mask) -> int:
    """The most distinct masks a curve can take: the widest neighbourhood that is enumerated, and all draws."""
    kind = NEIGHBORHOODS[asked.neighborhood]
    distinct = {one.effective_radius: one for one in (kind(selected, radius) for radius in asked.radii)}
    plan = make_plan(asked.plan, tolerance=asked.tolerance, confidence=asked.confidence)
    if asked.simultaneous:
        plan = share_risk(plan, len(distinct))
    sampled = [one for one in distinct.values() if one.is_larger_than(plan.max_draws)]
    enumerated = max((one.size for one in distinct.values() if not one.is_larger_than(plan.max_draws)), default=0)
    return min(enumerated + len(sampled) * plan.max_draws + _EXTRA_ROWS, (1 << len(selected)) + 1)


class Trial(NamedTuple):
    """What certifying the stand-in took: calls of the model, and the time of everything else."""

    n_calls: int
    seconds: float


def try_curve(asked: CertifySpec, smoothing: SmoothingSpec, selected: Mask, *, keep: float, rate: float) -> Trial:
    """Certify a stand-in that keeps its prediction for about this share of the masks."""
    own = Evaluator(_stand_in(len(selected), selected, rate))
    model: MaskedModel = own if keep == 1 else smooth(own, keep, smoothing.n_samples, rng=0)
    start = time.perf_counter()
    # The stand-in has two classes of its own, whatever counts as the same prediction in the study.
    question = asked.keywords | {"agree": "same_top_class"}
    certify_radii(model, selected, **question, check_determinism=False, rng=0)
    return Trial(own.n_calls, time.perf_counter() - start)


def try_witness(smoothing: SmoothingSpec, selected: Mask, *, keep: float, rate: float) -> int:
    """Search the same stand-in for a witness; returns the calls. One that changes its mind often is soon found out."""
    own = Evaluator(_stand_in(len(selected), selected, rate))
    model: MaskedModel = own if keep == 1 else smooth(own, keep, smoothing.n_samples, rng=0)
    find_witness(model, selected, max_calls=_WITNESS_CALLS, rng=0)
    return own.n_calls


def _stand_in(n_features: int, selected: Mask, rate: float) -> MaskedModel:
    """Scores of two classes: the first leads for the explanation, and for other masks at the given rate.

    Which masks those are is fixed by a random linear form of each mask, modulo one.
    """
    weights = np.random.default_rng(0).random(n_features)

    def scores(masks: Masks) -> np.ndarray:
        keeps = ((masks @ weights) % 1.0 < rate) | (masks == selected).all(axis=1)
        return np.stack([keeps, ~keeps], axis=1).astype(np.float64)

    return mask_function(scores, n_features=n_features)


def witness_calls(n_free: int, rows_per_mask: int = 1) -> int:
    """The most that a search for a witness spends: its budget, levels too small to count, and a last reduction."""
    levels = (math.comb(n_free, k) for k in range(1, n_free + 1))
    small = sum(size for size in levels if size <= ALWAYS_EXHAUSTED)
    beyond = rows_per_mask * (small + n_free**2)
    return min(_WITNESS_CALLS + beyond, rows_per_mask * ((1 << n_free) + 1))

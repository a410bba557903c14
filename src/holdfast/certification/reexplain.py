"""A masked model and a method → how much its explanations, and their stability, change from run to run."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from holdfast.attribution import METHODS, attribute
from holdfast.attribution.external import from_array
from holdfast.attribution.methods import GRADIENT_METHODS
from holdfast.bounds import Interval, clopper_pearson
from holdfast.certification.single import certify
from holdfast.certification.subject import Settings
from holdfast.errors import InvalidTypeError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.randomness import stream, stream_key
from holdfast.results.attribution import Attribution
from holdfast.results.certificate import Certificate
from holdfast.results.reexplanation import Reexplanation
from holdfast.selection import top_fraction
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_name, check_selection, check_share, check_whole

_PAPER_SHARE = 0.25


def reexplain(
    model: MaskedModel,
    method: Any,
    *,
    radius: int,
    n_repeats: int = 10,
    select: Callable[[Attribution], Any] | None = None,
    tolerance: float = 0.1,
    confidence: float = 0.9,
    agree: Any = "same_top_class",
    target: Any = None,
    n_samples: int | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
    **options: Any,
) -> Reexplanation:
    """Explain one prediction several times, to tell the method's own randomness from stability.

    LIME gives another explanation each time. This says how many features two of them share, and
    whether that matters: how much the stability rates of the selections differ. Every repeat has
    draws of its own; each distinct selection is certified once, on other draws, with a fixed number
    of them.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features).
    method : str or callable
        A method of ``attribute``; or a function of (model, seed) that returns an ``Attribution`` or
        scores (n_features,).
    radius : int
        How many more features may be revealed.
    n_repeats : int
        At least 2.
    select : callable, optional
        ``Attribution`` → Boolean (n_features,); by default ``top_fraction(scores, 0.25)``.
    tolerance, confidence : float
        See ``certify``; the overlap and the spread of the rates have this confidence each.
    target, n_samples, **options
        See ``attribute``.
    agree, batch_size, progress, rng
        See ``certify``.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, reexplain
    >>> model = mask_function(lambda masks: masks[:, :3].sum(axis=1) > 1, n_features=12)
    >>> found = reexplain(model, "lime", n_repeats=3, radius=4, n_samples=200, rng=0)
    >>> found.overlap, found.rate_spread_interval
    (1.0, Interval(low=0.0, high=0.0))
    """
    repeats = check_whole(n_repeats, "n_repeats", minimum=2)
    check_whole(radius, "radius")
    risk = 1 - check_share(confidence, "confidence")
    key = stream_key(rng)
    asked = {"tolerance": tolerance, "confidence": confidence, "agree": agree, "plan": "exact"}
    Settings.check("single", neighborhood="additions", check_determinism=True, rng=key, **asked)
    if not (select is None or callable(select)):
        raise InvalidTypeError(f"`select` must be a function of an attribution, or None, got {select!r}.")
    explain = _explainer(method, {"target": target, "n_samples": n_samples, **options})
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        before = evaluator.n_calls
        found = [explain(evaluator, _key_of(key, 0))]
        n_first = evaluator.n_calls - before
        found += [explain(evaluator, _key_of(key, i)) for i in range(1, repeats)]
        # Gradients go past the evaluator: what a method says of its calls, less the rows that each repeat needs.
        gradients = not callable(method) and method in GRADIENT_METHODS
        n_gradients = sum(one.n_calls - n_first for one in found) if gradients else 0
        masks = [_selected(select, one, evaluator) for one in found]
        distinct = {mask.tobytes(): mask for mask in masks}
        certificates = [certify(evaluator, mask, radius=radius, rng=key, **asked) for mask in distinct.values()]
        overlap, error = mean_overlap(masks)
        return Reexplanation(
            method=found[0].method,
            attributions=tuple(found),
            certificates=tuple(certificates),
            which=tuple(list(distinct).index(mask.tobytes()) for mask in masks),
            rate_intervals=tuple(_joint_intervals(certificates, risk)),
            overlap=overlap,
            overlap_interval=_overlap_interval(overlap, found, float(risk), known=not callable(method)),
            overlap_error=error,
            confidence=float(confidence),
            n_calls=n_gradients + evaluator.n_calls - before,
            rng_key=key,
        )


def mean_overlap(masks: list[Mask]) -> tuple[float, float | None]:
    """Mean Jaccard index of all pairs, and its jackknife standard error.

    Examples
    --------
    >>> mean_overlap([np.array([True, True, False]), np.array([True, False, False])])
    (0.5, None)
    """
    n = len(masks)
    table = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        union = int((masks[i] | masks[j]).sum())
        table[i, j] = table[j, i] = int((masks[i] & masks[j]).sum()) / union if union else 1.0
    total = table.sum()
    mean = float(total / (n * (n - 1)))
    if n == 2:
        return mean, None
    without = (total - 2 * table.sum(axis=1)) / ((n - 1) * (n - 2))
    return mean, math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))


def _explainer(method: Any, options: dict[str, Any]) -> Callable[[Evaluator, int], Attribution]:
    """How one repeat is made from a key."""
    asked = sorted(name for name, value in options.items() if value is not None)
    if callable(method) and asked:
        raise InvalidTypeError(f"`method` must take its options itself if it is a function, got {asked}.")
    if not callable(method):
        name = check_name(method, "method", METHODS)
        return lambda model, key: attribute(model, name, rng=key, **options)

    def explain(model: Evaluator, key: int) -> Attribution:
        scores = method(model, key)
        if isinstance(scores, Attribution):
            return scores
        return from_array(scores, model, method=getattr(method, "__name__", "given"))

    return explain


def _key_of(key: int, repeat: int) -> int:
    return int(stream(key, "reexplain", str(repeat)).integers(2**63))


def _selected(select: Callable[[Attribution], Any] | None, attribution: Attribution, model: Evaluator) -> Mask:
    chosen = top_fraction(attribution, _PAPER_SHARE) if select is None else select(attribution)
    return check_selection(chosen, "select(attribution)", model)


def _joint_intervals(certificates: list[Certificate], risk: Any) -> list[Interval]:
    """Exact binomial intervals that share the risk; enumerated rates are points and need none of it."""
    n_sampled = sum(not one.exact for one in certificates)
    return [
        one.interval
        if one.exact
        else clopper_pearson(one.n_agreed, one.n_evaluated, confidence=1 - risk / max(1, n_sampled))
        for one in certificates
    ]


def _overlap_interval(overlap: float, found: list[Attribution], risk: float, *, known: bool) -> Interval:
    """Where the expected overlap lies; a point if a method of ours says that it draws nothing."""
    if known and all(one.rng_key is None for one in found):
        return Interval(overlap, overlap)
    return bound_mean_of_pairs(overlap, len(found), risk)


def bound_mean_of_pairs(mean: float, n: int, risk: float) -> Interval:
    """Where the expectation of a number in [0, 1] about two of n independent things lies.

    Hoeffding's inequality in its relative-entropy form, which he proved for U-statistics too: as wide
    as for n/2 independent pairs, rounded down. Every expectation outside the interval would have
    produced a mean this far away with probability at most ``risk``.

    Examples
    --------
    >>> bound_mean_of_pairs(1.0, 10, 0.1)
    Interval(low=0.549..., high=1.0)
    """
    limit = math.log(2 / risk) / (n // 2)
    return Interval(_farthest(mean, 0.0, limit), _farthest(mean, 1.0, limit))


def _farthest(mean: float, end: float, limit: float) -> float:
    """The point towards ``end`` at which the relative entropy of the mean reaches the limit, by halving."""
    if _entropy(mean, end) <= limit:
        return end
    inside, outside = mean, end
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if _entropy(mean, middle) <= limit else (inside, middle)
    return outside


def _entropy(mean: float, point: float) -> float:
    """Relative entropy of Bernoulli(mean) from Bernoulli(point)."""
    parts = [(mean, point), (1 - mean, 1 - point)]
    if any(m > 0 and p <= 0 for m, p in parts):
        return math.inf
    return sum(m * math.log(m / p) for m, p in parts if m > 0)

"""A masked model and a method → how much its explanations, and their stability, change from run to run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from holdfast.attribution.external import from_array
from holdfast.attribution.methods import Attribution, attribute, resolve_method
from holdfast.bounds import Interval, chernoff, clopper_pearson
from holdfast.certification.certificate import Certificate, certify
from holdfast.certification.question import Question, RateKeywords
from holdfast.certification.serialization import Value
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.randomness import stream, stream_key
from holdfast.selection import top_fraction
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_selection, check_whole, shown
from holdfast.words import (
    FIXED_BEFORE,
    NOT_RIGHT,
    counted,
    event,
    few_words,
    fitted,
    outward,
    paragraph,
    percent,
    scope,
    shares,
    sure,
    took,
)

_PAPER_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class Reexplanation(Value, schema="holdfast.reexplanation"):
    """How far repeated explanations of one prediction agree, and how far their stability rates differ.

    Two statements, each true with probability at least ``confidence``. The expected overlap of two
    fresh explanations lies in ``overlap_interval`` (Hoeffding's inequality for U-statistics). The
    true rates of the selections that were made differ by an amount in ``rate_spread_interval``
    (exact binomial intervals for all of them at once).

    Attributes
    ----------
    attributions : tuple of Attribution
        One per repeat.
    certificates : tuple of Certificate
        One per distinct selection, each with its own guarantee.
    which : tuple of int
        For each repeat the number of its certificate.
    rate_intervals : tuple of Interval
        Intervals of the rates, one per certificate, that hold all at once.
    overlap : float
        Mean Jaccard index, shared over joint features, of all pairs of repeats; 1 for two empty ones.
    overlap_interval : Interval
        Where its expectation lies; a point if the method draws nothing at random.
    overlap_error : float or None
        Approximate standard error of the overlap (jackknife), without a guarantee; None for two repeats.
    n_calls : int
        Rows the model computed in all.
    """

    method: str
    attributions: tuple[Attribution, ...]
    certificates: tuple[Certificate, ...]
    which: tuple[int, ...]
    rate_intervals: tuple[Interval, ...]
    overlap: float
    overlap_interval: Interval
    overlap_error: float | None
    confidence: float
    n_calls: int
    rng_key: int

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if len(self.attributions) < 2 or len(self.which) != len(self.attributions):
            raise InvalidValueError(argument="which", must="name the certificate of each of at least two attributions")
        if set(self.which) != set(range(len(self.certificates))) or len(self.rate_intervals) != len(self.certificates):
            must = "be one per distinct selection, and so must `rate_intervals`"
            raise InvalidValueError(argument="certificates", must=must)
        for part in (*self.attributions, *self.certificates):
            part.check()
        if not 0 <= self.overlap_interval.low <= self.overlap <= self.overlap_interval.high <= 1:
            raise InvalidValueError(argument="overlap", must="lie in its interval")

    @property
    def n_repeats(self) -> int:
        """How often the prediction was explained."""
        return len(self.attributions)

    @property
    def selections(self) -> tuple[Mask, ...]:
        """The selected features of each repeat."""
        return tuple(self.certificates[i].selected for i in self.which)

    @property
    def rates(self) -> tuple[float, ...]:
        """The stability rate of each repeat, as observed."""
        return tuple(self.certificates[i].rate for i in self.which)

    @property
    def rate_spread(self) -> float:
        """The largest rate minus the smallest, as observed."""
        return max(self.rates) - min(self.rates)

    @property
    def rate_spread_interval(self) -> Interval:
        """Where the largest true rate minus the smallest lies."""
        if len(self.certificates) == 1:
            return Interval(0.0, 0.0)
        lows, highs = zip(*self.rate_intervals, strict=True)
        return Interval(max(0.0, max(lows) - min(highs)), max(highs) - min(lows))

    @property
    def n_consistent(self) -> int:
        """Repeats whose selection gets the prediction of the full input."""
        return sum(self.certificates[i].consistent for i in self.which)

    def __str__(self) -> str:
        method, n_wrong = few_words(self.method), self.n_repeats - self.n_consistent
        low, high = percent(min(self.rates)), percent(max(self.rates))
        rates = low if low == high else f"{low.removesuffix('%')}–{high}"
        return fitted(
            "{explained} share {overlap} of their features{known}, and kept the prediction in {rates} of cases{wrong}.",
            explained=[f"Two explanations by {method}"],
            overlap=[percent(self.overlap)],
            rates=[rates],
            wrong=[f"; {n_wrong} contradict the full input" if n_wrong else ""],
            known=[f" on average ({shares(self.overlap_interval)}, {sure(self.confidence)} confidence)", " on average"],
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        # Selections of unlike size may leave unlike numbers of features to reveal.
        widest = max(self.certificates, key=lambda certificate: certificate.effective_radius)
        change = event(widest.neighborhood, widest.rate_kind, widest.effective_radius)
        (low, high), chance = self.overlap_interval, f"with probability at least {sure(self.confidence)}"
        alike = f"The method was run {self.n_repeats} times; it draws nothing at random."
        if low < high:
            alike = f"The expected overlap of two fresh runs lies in {shares(self.overlap_interval)} {chance}."
        apart = f"All {self.n_repeats} selections are the same."
        if len(self.certificates) > 1:
            least, most = outward(self.rate_spread_interval, 2)
            selections = f"The true rates of {len(self.certificates)} distinct selections"
            apart = f"{selections} differ by {least:.2f} to {most:.2f}, {chance}."
        return paragraph(
            f"How much do explanations by {few_words(self.method)}, and their stability, change from run to run?",
            alike,
            f"Stability: how often {change} keeps the prediction. {apart}",
            "The two statements hold each on its own.",
            f"{self.n_consistent} of {counted(self.n_repeats, 'selection')} have the prediction of the full input.",
            FIXED_BEFORE,
            took(self.n_calls),
            scope("random masks", "this method, model, input and fill"),
            NOT_RIGHT,
        )


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
    reference: Any = None,
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
        A method of ``attribute`` by name; or a function of (model, seed) that returns an ``Attribution`` or
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
    agree, reference, batch_size, progress, rng
        See ``certify``.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, reexplain
    >>> model = mask_function(lambda masks: masks[:, :3].sum(axis=1) > 1, n_features=12)
    >>> again = reexplain(model, "lime", n_repeats=3, radius=4, n_samples=200, rng=0)
    >>> again.overlap, again.rate_spread_interval
    (1.0, Interval(low=0.0, high=0.0))
    """
    repeats = check_whole(n_repeats, "n_repeats", minimum=2)
    check_whole(radius, "radius")
    question: RateKeywords = {"tolerance": tolerance, "confidence": confidence, "agree": agree, "plan": "exact"}
    question["reference"] = reference
    question["rng"] = key = stream_key(rng)
    risk = 1 - Question.check({**question, "radii": [radius]}).confidence
    if not (select is None or callable(select)):
        raise InvalidTypeError(argument="select", must="be a function of an attribution, or None", got=shown(select))
    explain = make_explainer(method, {"target": target, "n_samples": n_samples, **options})
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        before = evaluator.n_calls
        keys = [int(stream(key, "reexplain", str(i)).integers(2**63)) for i in range(repeats)]
        attributions = [explain(evaluator, keys[0])]
        n_first = evaluator.n_calls - before
        attributions += [explain(evaluator, own) for own in keys[1:]]
        # Gradients go past the evaluator: what a method says of its calls, less the rows that each repeat needs.
        gradients = isinstance(method, str) and resolve_method(method).needs != "masks"
        n_gradients = sum(attribution.n_calls - n_first for attribution in attributions) if gradients else 0
        chosen = [top_fraction(scores, _PAPER_SHARE) if select is None else select(scores) for scores in attributions]
        masks = [check_selection(selected, "select(attribution)", evaluator) for selected in chosen]
        distinct = {mask.tobytes(): mask for mask in masks}
        certificates = [certify(evaluator, mask, radius=radius, **question) for mask in distinct.values()]
        # Exact binomial intervals share the risk; enumerated rates are points and need none of it.
        sure = 1 - risk / max(1, sum(not certificate.exact for certificate in certificates))
        rate_intervals = [
            cert.interval if cert.exact else clopper_pearson(cert.n_agreed, cert.n_evaluated, confidence=sure)
            for cert in certificates
        ]
        overlap, error = mean_overlap(masks)
        # A method of ours says whether it draws anything; the expected overlap of one that does not is a point.
        fixed = not callable(method) and all(attribution.rng_key is None for attribution in attributions)
        interval = Interval(overlap, overlap) if fixed else bound_mean_of_pairs(overlap, repeats, float(risk))
        return Reexplanation(
            method=attributions[0].method,
            attributions=tuple(attributions),
            certificates=tuple(certificates),
            which=tuple(list(distinct).index(mask.tobytes()) for mask in masks),
            rate_intervals=tuple(rate_intervals),
            overlap=overlap,
            overlap_interval=interval,
            overlap_error=error,
            confidence=float(confidence),
            n_calls=n_gradients + evaluator.n_calls - before,
            rng_key=key,
        )


def mean_overlap(masks: list[Mask]) -> tuple[float, float | None]:
    """Mean Jaccard index of all pairs, and its jackknife standard error."""
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


def make_explainer(method: Any, options: dict[str, Any]) -> Callable[[Evaluator, int], Attribution]:
    """How a method explains a model with a key: one of ours by name, or a function of (model, seed)."""
    options_set = sorted(name for name, value in options.items() if value is not None)
    if callable(method) and options_set:
        raise InvalidTypeError(argument="method", must="set its own options if it is a function", got=options_set)
    if not callable(method):
        name = resolve_method(method).name
        return lambda model, key: attribute(model, name, rng=key, **options)

    def explain(model: Evaluator, key: int) -> Attribution:
        scores = method(model, key)
        if isinstance(scores, Attribution):
            return scores
        return from_array(scores, model, method=getattr(method, "__name__", "given"))

    return explain


def bound_mean_of_pairs(mean: float, n: int, risk: float) -> Interval:
    """Where the expectation of a number in [0, 1] about two of n independent things lies.

    Hoeffding's inequality in its relative-entropy form, which he proved for U-statistics too: as wide
    as for n/2 independent pairs, rounded down. Every expectation outside the interval would have
    produced a mean this far away with probability at most ``risk``.
    """
    return chernoff(mean, n // 2, confidence=1 - risk)

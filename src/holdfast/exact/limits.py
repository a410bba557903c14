"""An agreement and a reference → linear conditions on the sums that a model adds up, with what rounding leaves open.

Forests, boosted trees and additive models add up raw scores and turn them into outputs by a link. The prediction is
kept exactly if every ``Limit`` is kept: a weighted raw score stays at or above a number. Around that number there is a
zone (``slack``) in which the rounding of the link, of the division by the number of trees, or of the agreement itself
decides; there, only the model can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import Agreement, SameSide, SameTopClass, Within, WithinPercent

_ULPS = 16
"""Rounding of a link, in units of the last place: exp, one sum and one division."""


@dataclass(frozen=True)
class Limit:
    """The prediction needs ``weights`` · raw scores ≥ ``least``, or > if ``strict``.

    Within ``slack`` of ``least`` rounding decides.
    """

    weights: tuple[int, ...]
    least: Fraction
    strict: bool
    slack: Fraction


@dataclass(frozen=True)
class SumScoring:
    """How raw sums become outputs.

    Attributes
    ----------
    link : str
        "identity": raw / ``divisor``. "signed": one raw score s as the columns -s, s. "logistic": one raw score s as
        1 - p, p with p = 1 / (1 + exp(-s)). "softmax": probabilities.
    n_raw : int
        Number of raw scores.
    divisor : int
        For "identity".
    roundoff : float
        Relative rounding of one sum in the model's number type: 2⁻⁵³ or 2⁻²⁴.
    classes : tuple or None
        Labels in the order of the scores, if outputs are labels.
    """

    link: str
    n_raw: int
    divisor: int = 1
    roundoff: float = 2.0**-53
    classes: tuple[Any, ...] | None = None

    def outputs(self, raw: NDArray[np.float64]) -> NDArray[Any]:
        """Outputs (b, k), or labels (b,), of raw scores (b, n_raw)."""
        return self.labels(self.scores(raw))

    def scores(self, raw: NDArray[np.float64]) -> NDArray[Any]:
        """Scores (b, k) of raw scores (b, n_raw)."""
        if self.link == "identity":
            return raw if self.divisor == 1 else raw / self.divisor
        if self.link == "signed":
            return np.concatenate([-raw, raw], axis=1)
        if self.link == "logistic":
            with np.errstate(over="ignore"):
                p = 1 / (1 + np.exp(-raw))
            return np.concatenate([1 - p, p], axis=1)
        powers = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def labels(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Labels (b,) of scores (b, k); the scores themselves if outputs are no labels."""
        if self.classes is None:
            return scores
        return np.asarray(np.array(self.classes, dtype=object)[scores.argmax(axis=1)])

    def limits(self, agree: Agreement, reference: Any) -> list[Limit] | str:
        """The conditions under which the prediction is kept, or in words why they are not linear."""
        labels = self.classes is not None
        if isinstance(agree, SameTopClass):
            if labels:
                known = list(self.classes or ())
                if reference not in known:
                    return f"the model has no label {reference!r}"
                return self._same_class(known.index(reference))
            return self._same_class(int(np.argmax(reference)))
        if labels or not isinstance(agree, (SameSide, Within, WithinPercent)):
            return f"{agree.name} cannot be written as limits on sums"
        if self.link == "softmax":
            return f"{agree.name} is not a linear condition on sums before a softmax"
        scores = [float(score) for score in np.asarray(reference)]
        limits: list[Limit] = []
        for column, low, high in _ranges(agree, scores):
            for bound, upper in ((low, False), (high, True)):
                if bound is None:
                    continue
                edge = self._edge(column, *bound, upper=upper, scale=abs(scores[column]))
                if isinstance(edge, str):
                    return edge
                if edge is not None:
                    limits.append(edge)
        return limits

    def _same_class(self, top: int) -> list[Limit]:
        """The lead over every rival; a tie goes to the lower class."""
        if self.n_raw == 1:  # of two classes
            slack = Fraction(_ULPS * self.roundoff) if self.link == "logistic" else Fraction(0)
            return [Limit((1 if top else -1,), Fraction(0), bool(top), slack)]
        slack = Fraction(_ULPS * self.roundoff) if self.link == "softmax" else Fraction(0)
        rivals = [rival for rival in range(self.n_raw) if rival != top]
        signs = {rival: tuple((c == top) - (c == rival) for c in range(self.n_raw)) for rival in rivals}
        return [Limit(signs[rival], Fraction(0), rival < top, slack) for rival in rivals]

    def _edge(
        self, column: int, edge: Fraction, strict: bool, loose: bool, *, upper: bool, scale: float
    ) -> Limit | str | None:
        """An output of ``column`` that must stay above ``edge`` (below it if ``upper``), as a limit of raw scores.

        ``loose`` says that the agreement subtracts before it compares, and so rounds. None if it always holds.
        """
        sign = -1 if upper else 1
        if self.link != "logistic":
            if self.link == "signed" and column == 0:
                sign = -sign  # the column is -s
            weights = tuple(sign * (c == column or self.n_raw == 1) for c in range(self.n_raw))
            if self.divisor > 1 and not loose:
                edge, strict = _before_rounding(edge, upper=upper)
            least = edge * self.divisor * (-1 if upper else 1)
            blur = 4 * self.roundoff * (abs(float(edge)) + scale) * self.divisor if loose else 0.0
            return Limit(weights, least, strict, Fraction(blur))
        # Of class 0, the output is 1 - p: above the edge if p is below its complement.
        share, sign = (edge, sign) if column == 1 else (1 - edge, -sign)
        blur = _ULPS * self.roundoff
        if share <= 0 or share >= 1:
            # p is within [0, 1]: the condition always holds, or never does.
            if abs(share) < blur or abs(share - 1) < blur:
                return "a threshold at probability 0 or 1 depends on how the link rounds"
            holds = (share <= 0) == (sign > 0)
            return None if holds else Limit((0,), Fraction(1), False, Fraction(0))
        low, high = float(share) - blur, float(share) + blur
        if low <= 0 or high >= 1:
            return "a threshold at probability 0 or 1 depends on how the link rounds"
        ends = [math.log(p) - math.log1p(-p) for p in (low, float(share), high)]
        slack = max(ends[2] - ends[1], ends[1] - ends[0]) + _ULPS * self.roundoff * (1 + abs(ends[1]))
        return Limit((sign,), sign * Fraction(ends[1]), strict, Fraction(slack))


def _before_rounding(edge: Fraction, *, upper: bool) -> tuple[Fraction, bool]:
    """What a quotient must reach for its float64 to be at least ``edge`` (below it, if ``upper``), and if strictly.

    Quotients round to the nearest float: from half-way to the float below on, to ``edge``; half-way itself goes to the
    one whose last bit is 0.
    """
    number = float(edge)
    middle = (edge + Fraction(math.nextafter(number, -math.inf))) / 2
    is_even = int(np.float64(number).view(np.int64)) % 2 == 0
    return middle, is_even == upper


_Edge = tuple[Fraction, bool, bool]


def _ranges(agree: Agreement, scores: list[float]) -> list[tuple[int, _Edge | None, _Edge | None]]:
    """For columns, what they must be above and below: (number, strictly, after a subtraction that rounds)."""
    if isinstance(agree, SameSide):
        column = len(scores) - 1 if agree.class_ is None else agree.class_
        threshold = Fraction(agree.threshold)
        if scores[column] >= agree.threshold:
            return [(column, (threshold, False, False), None)]
        return [(column, None, (threshold, True, False))]
    ranges: list[tuple[int, _Edge | None, _Edge | None]] = []
    for column, score in enumerate(scores):
        center = Fraction(score)
        if isinstance(agree, Within):
            room = Fraction(agree.margin)
        else:
            room = Fraction(getattr(agree, "percent", 0)) * abs(center) / 100
        strict = room > 0  # equal scores always agree
        ranges.append((column, (center - room, strict, True), (center + room, strict, True)))
    return ranges

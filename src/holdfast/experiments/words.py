"""Numbers and intervals → words. A direction is said only where an interval leaves no doubt about it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.bounds import Interval
from holdfast.study.aggregate import FEW
from holdfast.words import counted, listed, outward, percent

TOLD = (
    "Brackets are 95% intervals over inputs by the bootstrap, as in the paper, which are approximate; "
    "higher and lower are said where such an interval of the paired difference leaves out 0, and "
    "“guaranteed” where the interval that holds for any distribution does so too. "
    f"With fewer than {FEW} inputs the bootstrap is too narrow: there brackets are those guaranteed intervals, and "
    "they alone decide. Each comparison has its own interval. The bootstrap errs more often than it says: of "
    "comparisons in which nothing differs, roughly 1 in 10, and far more where only a few inputs differ, would be "
    "called higher or lower; of what is guaranteed, at most 5 in 100. Counts are of comparisons that share inputs, "
    "not of independent ones."
)

FEWEST = 7
"""Of fewer inputs no guaranteed 95% interval of a difference leaves out 0, however much they differ."""

TOO_FEW = f"open, since fewer than {FEWEST} inputs can decide nothing"


def told_of_means(half_width: float, confidence: float) -> str:
    """What brackets and directions mean where only mean curves were computed.

    Examples
    --------
    >>> told_of_means(0.02, 0.95).split(", if")[0]
    'Brackets are guaranteed 95% intervals for the mean over the population the inputs come from'
    """
    both = 2 * confidence - 1  # two intervals, each with its own risk
    return (
        f"Brackets are guaranteed {percent(confidence)} intervals for the mean over the population the inputs come "
        "from, if they were drawn independently; the mean over these inputs is known within "
        f"±{100 * half_width:.4g} points. Differences lie between the farthest ends of two of them, which holds at "
        f"{percent(both)}; higher and lower are said where that leaves out 0, and “guaranteed” at that confidence. "
        f"Each comparison has its own interval: of those in which nothing differs, at most {100 * (1 - both):.4g} in "
        "100 are expected to be called higher or lower. Counts are of comparisons that share inputs, not of "
        "independent ones."
    )


@dataclass(frozen=True)
class Contrast:
    """How much larger one quantity is than another, with intervals.

    ``guaranteed`` is None where only an approximate interval is known, and ``interval`` may then be
    either kind. ``n`` is the number of inputs where ``interval`` is a bootstrap over inputs: of few, only the
    guaranteed interval says a direction, and of one nothing does.

    Examples
    --------
    >>> Contrast(0.2, Interval(0.1, 0.3), Interval(-0.1, 0.5), n=20).direction
    1
    >>> Contrast(0.2, Interval(0.1, 0.3), Interval(-0.1, 0.5), n=19).direction
    0
    """

    estimate: float
    interval: Interval
    guaranteed: Interval | None = None
    n: int | None = None

    @property
    def shown(self) -> Interval:
        """The interval that decides: the guaranteed one of few inputs; if there is none, nothing is known."""
        if self.n is None or self.n >= FEW:
            return self.interval
        return self.guaranteed or Interval(-math.inf, math.inf)

    @property
    def can_decide(self) -> bool:
        """Whether this number of inputs could say a direction at all."""
        return self.n is None or self.n >= FEWEST

    @property
    def direction(self) -> int:
        """1 if larger, -1 if smaller, 0 if the interval cannot tell."""
        return sign_of(self.shown) if self.can_decide else 0

    @property
    def is_guaranteed(self) -> bool:
        """Whether the guaranteed interval says the same."""
        return self.guaranteed is not None and self.direction != 0 and sign_of(self.guaranteed) == self.direction

    @property
    def said(self) -> str:
        """The direction with its verb."""
        return str(self) if self.direction == 0 else f"is {self}"

    def __str__(self) -> str:
        if self.direction == 0:
            return f"cannot be told apart at this number of inputs ({points(self.estimate, self.shown)})"
        which = "higher" if self.direction > 0 else "lower"
        sure = ", guaranteed" if self.is_guaranteed else ""
        return f"{which} ({points(self.estimate, self.shown)}{sure})"


def sign_of(interval: Interval) -> int:
    """1 if all of the interval is above 0, -1 if all is below, 0 otherwise.

    Examples
    --------
    >>> sign_of(Interval(0.1, 0.2)), sign_of(Interval(-0.1, 0.2)), sign_of(Interval(-0.2, -0.1))
    (1, 0, -1)
    """
    return int(interval.low > 0) - int(interval.high < 0)


@dataclass(frozen=True)
class Verdicts:
    """How many contrasts point up, down, or nowhere, and how many of them are guaranteed to.

    Contrasts of so few inputs that no data could decide them are counted apart, as ``n_undecidable``.
    """

    n_higher: int
    n_lower: int
    n_open: int
    n_surely_higher: int = 0
    n_surely_lower: int = 0
    n_undecidable: int = 0

    @classmethod
    def of(cls, contrasts: Iterable[Contrast]) -> Verdicts:
        """Count them."""
        every = list(contrasts)
        found = [one for one in every if one.can_decide]
        directions = [one.direction for one in found]
        sure = [one.direction for one in found if one.is_guaranteed]
        counts = (directions.count(1), directions.count(-1), directions.count(0), sure.count(1), sure.count(-1))
        return cls(*counts, len(every) - len(found))

    @property
    def n(self) -> int:
        """All that could be decided."""
        return self.n_higher + self.n_lower + self.n_open

    @property
    def n_decided(self) -> int:
        """Those with a direction."""
        return self.n_higher + self.n_lower

    @property
    def n_guaranteed(self) -> int:
        """Those with a guaranteed direction."""
        return self.n_surely_higher + self.n_surely_lower

    def __str__(self) -> str:
        if self.n == 0:
            return TOO_FEW if self.n_undecidable else "compared nowhere"
        parts = [f"higher in {self.n_higher} of {self.n}{_sure(self.n_surely_higher)}"]
        parts += [f"lower in {self.n_lower}{_sure(self.n_surely_lower)}"] if self.n_lower else []
        parts += [f"open in {self.n_open}"] if self.n_open else []
        return ", ".join(parts)


def _sure(n: int) -> str:
    return f" ({n} guaranteed)" if n else ""


def compared(trend: str, verdicts: Verdicts) -> str:
    """How what was found compares with a trend of the paper.

    Examples
    --------
    >>> compared("A is above B", Verdicts(3, 0, 1, 2))
    'The paper reports that A is above B; here that is so in 3 of 4 comparisons (2 guaranteed) and open in 1.'
    >>> compared("A is above B", Verdicts(0, 4, 0))
    'The paper reports that A is above B; here the data contradict it in all 4 comparisons.'
    """
    few = f"{counted(verdicts.n_undecidable, 'comparison')} of fewer than {FEWEST} inputs, which can decide nothing"
    left_out = f", without {few}" if verdicts.n_undecidable else ""
    return f"The paper reports that {trend}; here {_found(verdicts)}{left_out}."


def _found(verdicts: Verdicts) -> str:
    if verdicts.n == 0:
        return "there is nothing to compare"
    if verdicts.n_higher == verdicts.n:
        return f"that is so in all {counted(verdicts.n, 'comparison')}{_sure(verdicts.n_surely_higher)}"
    if verdicts.n_lower == verdicts.n:
        return f"the data contradict it in all {counted(verdicts.n, 'comparison')}{_sure(verdicts.n_surely_lower)}"
    parts = [f"that is so in {verdicts.n_higher} of {verdicts.n} comparisons{_sure(verdicts.n_surely_higher)}"]
    parts += [f"contradicted in {verdicts.n_lower}{_sure(verdicts.n_surely_lower)}"] if verdicts.n_lower else []
    parts += [f"open in {verdicts.n_open}"] if verdicts.n_open else []
    return listed(parts)


def at_radii(radii: Iterable[int]) -> str:
    """Radii in words, each once.

    Examples
    --------
    >>> at_radii([2]), at_radii([3, 1, 2, 1])
    ('radius 2', 'radii 1, 2 and 3')
    """
    found = sorted(set(radii))
    return f"{'radius' if len(found) == 1 else 'radii'} {listed([str(one) for one in found])}"


def share(value: float, interval: Interval | None = None) -> str:
    """A share as a percentage, with its interval rounded outwards.

    Examples
    --------
    >>> share(0.9312, Interval(0.9, 1.0))
    '93.1% [90.0, 100.0]'
    """
    if interval is None:
        return percent(value)
    low, high = outward(interval)
    return f"{100 * value:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def points(value: float, interval: Interval) -> str:
    """A difference of shares in percentage points, with its interval rounded outwards.

    Examples
    --------
    >>> points(0.1, Interval(-0.02, 0.2))
    '+10.0 points [-2.0, +20.0]'
    """
    low, high = outward(interval)
    return f"{_signed(value)} points [{_signed(low)}, {_signed(high)}]"


def _signed(value: float) -> str:
    return f"{100 * value + 0.0:+.1f}"

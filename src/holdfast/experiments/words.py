"""Numbers and intervals → words. A direction is said only where an interval leaves no doubt about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.bounds import Interval

TOLD = (
    "Brackets are 95 % intervals over inputs by the bootstrap, as in the paper, which are approximate; "
    "higher and lower are said where such an interval of the paired difference leaves out 0, and "
    "“guaranteed” where the interval that holds for any distribution does so too."
)

TOLD_OF_MEANS = (
    "Brackets of rates are guaranteed 95 % intervals of the mean over all inputs such as these, if these were drawn "
    "independently; differences lie between the farthest ends of two of them, which holds at 90 %, and higher and "
    "lower are said where that leaves out 0."
)
"""The same for studies that have mean curves only."""


@dataclass(frozen=True)
class Contrast:
    """How much larger one quantity is than another, with intervals.

    ``guaranteed`` is None where only an approximate interval is known, and ``interval`` may then be
    either kind.
    """

    estimate: float
    interval: Interval
    guaranteed: Interval | None = None

    @property
    def direction(self) -> int:
        """1 if larger, -1 if smaller, 0 if the interval cannot tell."""
        return sign_of(self.interval)

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
            return f"cannot be told apart at this number of inputs ({points(self.estimate, self.interval)})"
        which = "higher" if self.direction > 0 else "lower"
        sure = ", guaranteed" if self.is_guaranteed else ""
        return f"{which} ({points(self.estimate, self.interval)}{sure})"


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
    """How many contrasts point up, down, or nowhere."""

    n_higher: int
    n_lower: int
    n_open: int
    n_guaranteed: int = 0

    @classmethod
    def of(cls, contrasts: Iterable[Contrast]) -> Verdicts:
        """Count them."""
        found = list(contrasts)
        directions = [one.direction for one in found]
        return cls(
            directions.count(1), directions.count(-1), directions.count(0), sum(one.is_guaranteed for one in found)
        )

    @property
    def n(self) -> int:
        """All of them."""
        return self.n_higher + self.n_lower + self.n_open

    def __str__(self) -> str:
        parts = [f"higher in {self.n_higher} of {self.n}"]
        parts += [f"lower in {self.n_lower}"] if self.n_lower else []
        parts += [f"open in {self.n_open}"] if self.n_open else []
        parts += [f"guaranteed in {self.n_guaranteed}"] if self.n_guaranteed else []
        return ", ".join(parts)


def compared(trend: str, verdicts: Verdicts, *, upward: bool = True) -> str:
    """How what was found compares with a trend of the paper.

    Examples
    --------
    >>> compared("A is above B", Verdicts(3, 0, 1))
    'The paper reports that A is above B; here that is so in 3 of 4 comparisons and open in 1.'
    >>> compared("A is above B", Verdicts(0, 4, 0))
    'The paper reports that A is above B; here the data contradict it in all 4 comparisons.'
    """
    agree, contradict = (verdicts.n_higher, verdicts.n_lower) if upward else (verdicts.n_lower, verdicts.n_higher)
    said = f"The paper reports that {trend}; here"
    if verdicts.n == 0:
        return f"{said} there is nothing to compare."
    if agree == verdicts.n:
        return f"{said} that is so in all {verdicts.n} comparisons."
    if contradict == verdicts.n:
        return f"{said} the data contradict it in all {verdicts.n} comparisons."
    parts = [f"that is so in {agree} of {verdicts.n} comparisons"]
    parts += [f"contradicted in {contradict}"] if contradict else []
    parts += [f"open in {verdicts.n_open}"] if verdicts.n_open else []
    return f"{said} {joined(parts)}."


def joined(parts: Sequence[str]) -> str:
    """A list in words.

    Examples
    --------
    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def share(value: float, interval: Interval | None = None) -> str:
    """A share as a percentage, with its interval.

    Examples
    --------
    >>> share(0.9312, Interval(0.9, 1.0))
    '93.1 % [90.0, 100.0]'
    """
    span = "" if interval is None else f" [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
    return f"{100 * value:.1f} %{span}"


def points(value: float, interval: Interval) -> str:
    """A difference of shares in percentage points, with its interval.

    Examples
    --------
    >>> points(0.1, Interval(-0.02, 0.2))
    '+10.0 points [-2.0, +20.0]'
    """
    return f"{_signed(value)} points [{_signed(interval.low)}, {_signed(interval.high)}]"


def _signed(value: float) -> str:
    return f"{100 * value + 0.0:+.1f}"


def counted(n: int, what: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "input"), counted(3, "input")
    ('1 input', '3 inputs')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"

"""Values per input → contrasts with intervals → the paper's claims, counted → tables, a figure and findings in files.

A direction is said only where an interval leaves no doubt about it: that of the bootstrap, which is usual and
approximate, or of few inputs the guaranteed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.atomic import replacing
from holdfast.bounds import Interval, betting_mean
from holdfast.report.figures.style import save_figure
from holdfast.study.export import write_csv, write_parquet
from holdfast.study.summary import FEW, bootstrap_means
from holdfast.words import counted, listed, outward, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDINGS = "findings.md"
CONFIDENCE, N_RESAMPLES = 0.95, 1000

FEWEST = 7
"""Of fewer inputs no guaranteed 95% interval of a difference leaves out 0, however much they differ."""

BY_BOOTSTRAP = (
    f"Higher and lower: a comparison's own {percent(CONFIDENCE)} bootstrap interval of the paired difference leaves "
    f"out 0; in parentheses those that are guaranteed, and they alone count below {FEW} inputs; comparisons share "
    "inputs, and of those in which nothing differs the bootstrap, which is approximate, calls roughly 1 in 10 higher "
    "or lower, far more where only a few inputs differ, and the guarantee at most 5 in 100."
)


class Quantity(NamedTuple):
    """A quantity, and an interval that it lies in."""

    value: float
    interval: Interval

    def __sub__(self, other: Quantity | float) -> Quantity:
        """How much larger it is: between the farthest ends."""
        value, (low, high) = other if isinstance(other, Quantity) else (other, (other, other))
        return Quantity(self.value - value, Interval(self.interval.low - high, self.interval.high - low))

    def __rsub__(self, other: float) -> Quantity:
        return Quantity(other, Interval(other, other)) - self


@dataclass(frozen=True)
class Contrast:
    """How much larger a quantity is for the first of two than for the second, with intervals, and where.

    ``interval`` is by the bootstrap over ``n_inputs`` inputs, unless ``bootstrap`` is False; ``guaranteed`` holds for
    any distribution, and ``joint`` does for all pairs of methods at once; both are None where none is known.

    Examples
    --------
    >>> Contrast(0.2, Interval(0.1, 0.3), Interval(-0.1, 0.5), n_inputs=20).verdict
    'higher'
    >>> Contrast(0.2, Interval(0.1, 0.3), Interval(-0.1, 0.5), n_inputs=19).verdict
    'undecided'
    """

    estimate: float
    interval: Interval
    guaranteed: Interval | None = None
    joint: Interval | None = None
    n_inputs: int = 0
    bootstrap: bool = True
    model: str = ""
    first: str = ""
    second: str = ""
    top_fraction: float | None = None
    keep_probability: float | None = None
    mus_keep_probability: float | None = None
    radius: int | None = None

    @classmethod
    def certain(cls, difference: Quantity, **where: Any) -> Contrast:
        """A difference whose interval is guaranteed; ``where`` are further fields."""
        return cls(difference.value, difference.interval, difference.interval, bootstrap=False, **where)

    @property
    def verdict(self) -> str:
        """What the interval says, of few inputs the guaranteed one: higher, lower, undecided, or too few inputs."""
        if self.bootstrap and self.n_inputs < FEWEST:
            return "too few"
        return _verdict(self.interval if not self.bootstrap or self.n_inputs >= FEW else self.guaranteed)

    @property
    def is_guaranteed(self) -> bool:
        """Whether it is higher or lower, and the guaranteed interval says the same."""
        return self.verdict in ("higher", "lower") and _verdict(self.guaranteed) == self.verdict

    @property
    def beyond_votes(self) -> bool:
        """Whether MuS cannot certify this radius whatever the votes are."""
        return 2 * (self.mus_keep_probability or 0) * (self.radius or 0) >= 1


VERDICTS = ("higher", "lower", "undecided", "too few")


def _verdict(interval: Interval | None) -> str:
    """Of no interval nothing is known."""
    low, high = interval or (-math.inf, math.inf)
    return "higher" if low > 0 else "lower" if high < 0 else "undecided"


def bootstrap(values: NDArray[np.float64], key: int) -> list[Interval]:
    """Approximate intervals for the mean of each column of values (n, R)."""
    return bootstrap_means(values, n_resamples=N_RESAMPLES, confidence=CONFIDENCE, key=key)


def paired(
    values: NDArray[Any], others: NDArray[Any], *, key: int, reach: float = 1.0, radii: Sequence[Any] = (), **where: Any
) -> list[Contrast]:
    """Mean differences of columns (n, R) over the same n inputs, with both kinds of interval.

    ``reach`` is the most by which two values can differ, ``radii`` what columns are, ``where`` fields of contrasts.
    """
    gaps = np.asarray(values, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    usual = bootstrap(gaps, key)
    sure = betting_mean(gaps, confidence=CONFIDENCE, low=-reach, high=reach)
    rows = zip(gaps.mean(axis=0).tolist(), usual, sure, radii or [None] * gaps.shape[1], strict=True)
    return [Contrast(*row, **where | {"n_inputs": len(gaps), "radius": radius}) for *row, radius in rows]


@dataclass(frozen=True)
class Claim:
    """That the first is higher than the second, of the contrasts that ``applies`` picks.

    ``kind`` is the kind of inputs it is about, None for all; what the paper does not say is not ``expected``.
    """

    statement: str
    applies: Callable[[Contrast], bool]
    kind: str | None = None
    expected: bool = True


@dataclass(frozen=True)
class CountedClaim:
    """A claim and the contrasts that bear on it, of one model for instance."""

    statement: str
    where: str
    contrasts: tuple[Contrast, ...]
    expected: bool = True

    def count(self, *verdicts: str, guaranteed: bool = False) -> int:
        """How many contrasts have one of these verdicts, or are guaranteed to have it."""
        return sum(c.verdict in verdicts and (c.is_guaranteed or not guaranteed) for c in self.contrasts)

    @property
    def n_decidable(self) -> int:
        """Contrasts of enough inputs."""
        return len(self.contrasts) - self.count("too few")

    def row(self) -> dict[str, Any]:
        """All counts, for a table."""
        counts = {verdict.replace(" ", "_"): self.count(verdict) for verdict in VERDICTS}
        sure = {f"{verdict}_guaranteed": self.count(verdict, guaranteed=True) for verdict in VERDICTS[:2]}
        return {"claim": self.statement, "where": self.where, "n": self.n_decidable, **counts, **sure}


def bears_out(tallies: Iterable[CountedClaim]) -> str:
    """How often the paper's claims are borne out, in the one sentence that every experiment has."""
    every = CountedClaim("", "", tuple(c for tally in tallies if tally.expected for c in tally.contrasts))
    few, n = every.count("too few"), every.n_decidable
    left_out = f", without {few} of fewer than {FEWEST} inputs, which can decide nothing" if few else ""
    if not n:
        return f"Nothing here can be compared with the paper{left_out}."
    sure = {way: f"({every.count(way, guaranteed=True)} guaranteed)" for way in VERDICTS[:2]}
    parts = [f"borne out in {every.count('higher')} of {counted(n, 'comparison')} {sure['higher']}"]
    parts += [f"contradicted in {every.count('lower')} {sure['lower']}"] if every.count("lower") else []
    parts += [f"undecided in {every.count('undecided')}"] if every.count("undecided") else []
    return f"What the paper says is {listed(parts)}{left_out}."


def share(value: float, interval: Interval | None = None) -> str:
    """A share as a percentage, with its interval rounded outwards: '93.1% [90.0, 100.0]'."""
    if interval is None:
        return percent(value)
    low, high = outward(interval)
    return f"{100 * value:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def ratio(keep: float) -> str:
    """A keep probability as people write it: '3/8'."""
    return str(Fraction(keep).limit_denominator(1024))


_TYPES = ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"))
"""As Arrow calls them."""

CONTRAST_COLUMNS = {
    **dict.fromkeys(("model", "first", "second"), "string"),
    **dict.fromkeys(("top_fraction", "keep_probability", "mus_keep_probability"), "float64"),
    "radius": "int64",
    "difference": "float64",
    **{f"{kind}_{end}": "float64" for kind in ("approximate", "guaranteed", "joint") for end in ("low", "high")},
    "n_inputs": "int64",
    "verdict": "string",
    "is_guaranteed": "bool",
}
"""Differences, first minus second. Joint intervals are guaranteed for all pairs of methods at once."""


@dataclass(frozen=True)
class Table:
    """Rows that are written as CSV and Parquet; ``columns`` maps names to types, as Arrow calls them."""

    columns: Mapping[str, str]
    rows: Callable[[], Iterable[Mapping[str, Any]]] = field(repr=False)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        """A table of rows that are in memory, one at least; a column without a value is one of numbers."""
        kept = list(rows)
        firsts = {name: next((row[name] for row in kept if row[name] is not None), 0.0) for name in kept[0]}
        kinds = {name: next(kind for base, kind in _TYPES if isinstance(x, base)) for name, x in firsts.items()}
        return cls(kinds, lambda: kept)

    @classmethod
    def of_contrasts(cls, contrasts: Iterable[Contrast]) -> Table:
        """One row per contrast."""
        rows = []
        for contrast in contrasts:
            row = {name: getattr(contrast, name, None) for name in CONTRAST_COLUMNS} | {"difference": contrast.estimate}
            intervals = {"approximate": contrast.interval, "guaranteed": contrast.guaranteed, "joint": contrast.joint}
            for kind, interval in intervals.items():
                row[f"{kind}_low"], row[f"{kind}_high"] = interval or (None, None)
            rows.append(row)
        return cls(CONTRAST_COLUMNS, lambda: rows)

    def write(self, stem: Path) -> tuple[Path, Path]:
        """Write ``<stem>.csv`` and ``<stem>.parquet``; each appears when it is complete."""
        paths = stem.with_name(f"{stem.name}.csv"), stem.with_name(f"{stem.name}.parquet")
        for path, write in zip(paths, (write_csv, write_parquet), strict=True):
            with replacing(path) as unfinished:
                write(self.columns, self.rows(), unfinished)
        return paths


@dataclass(frozen=True, eq=False)
class Results:
    """What an experiment found: tables by the names of their files, the figure, the paper's claims, counted.

    ``cells`` is what else is worth reading, by model, ``how`` says how directions are decided, ``notes`` is about this
    run.
    """

    tables: Mapping[str, Table]
    figure: Figure
    tallies: Sequence[CountedClaim] = ()
    cells: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    how: str = BY_BOOTSTRAP
    notes: Sequence[str] = ()

    @property
    def measured(self) -> dict[str, dict[str, str]]:
        """What was measured, by the name of the quantity, by the name of the model."""
        names = dict.fromkeys(name for own in self.cells.values() for name in own)
        return {name: {model: own[name] for model, own in self.cells.items() if name in own} for name in names}

    @property
    def findings(self) -> str:
        """The claims with their counts, what was measured, and at most three sentences."""
        parts = []
        if self.tallies:
            few = ["too few"] if any(tally.count("too few") for tally in self.tallies) else []
            rows = []
            for tally in self.tallies:
                each = [(tally.count(way), tally.count(way, guaranteed=True)) for way in VERDICTS[:2]]
                counts = [f"{n} ({sure})" if n else "0" for n, sure in each]
                others = [str(tally.count(verdict)) for verdict in ("undecided", *few)]
                rows.append((tally.statement, tally.where, str(tally.n_decidable), *counts, *others))
            header = ("claim", "where", "of", "higher", "lower", "undecided", *(["too few inputs"] if few else []))
            parts.append(text_table(header, rows, n_left=2))
        if self.measured:
            models = [model for model, own in self.cells.items() if own]
            lines = [(name, *(cells.get(model, "") for model in models)) for name, cells in self.measured.items()]
            parts.append(text_table(("measured", *models), lines, n_left=1 + len(models)))
        compares = any(tally.expected for tally in self.tallies) or not self.tallies
        borne_out = [bears_out(self.tallies)] if compares and "differences" in self.tables else []
        parts.append(" ".join([*borne_out, *([self.how] if self.tallies else []), *self.notes]))
        return "\n\n".join(parts)


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, n_left: int) -> str:
    """A table in Markdown whose columns are padded, so that it can be read as it is; the first few are flush left."""
    lines = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = ["<" if place < n_left else ">" for place in range(len(widths))]
    form = "| " + " | ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True)) + " |"
    rules = [f"{'-' * (width + 1)}:"[:: 1 if side == ">" else -1] for side, width in zip(sides, widths, strict=True)]
    first, *others = (form.format(*row) for row in lines)
    return "\n".join([first, f"|{'|'.join(rules)}|", *others])


def write_results(identifier: str, title: str, results: Results, folder: Path) -> Reproduced:
    """Write everything into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = dict(results.tables)
    if results.tallies:
        tables["claims"] = Table.of(tally.row() for tally in results.tallies)
    paths = [path for name, table in tables.items() for path in table.write(folder / name)]
    paths += [*save_figure(results.figure, folder / "figure"), folder / FINDINGS]
    with replacing(paths[-1]) as unfinished:
        unfinished.write_text(f"# {title}\n\n{results.findings}\n", encoding="utf-8")
    return Reproduced(identifier, results, tuple(paths))


@dataclass(frozen=True, eq=False)
class Reproduced:
    """What came out of an experiment, and the files that hold it."""

    id: str
    results: Results
    files: tuple[Path, ...]

    @property
    def findings(self) -> str:
        """What the data say: tables in Markdown that can be read as they are, then at most three sentences."""
        return self.results.findings

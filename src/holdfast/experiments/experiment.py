"""An experiment of the paper: what may be changed about it, how it is carried out, what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.experiments.subjects import BUNDLED, Subject
from holdfast.study.spec import MethodSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIONS = ("model", "n", "methods", "radii", "keep", "min_tokens", "precision")
"""What can be changed about an experiment, by the names of the command line; the seed always can."""

METHODS = ("lime", "shap", "integrated_gradients", "mfaba", "random")
"""The paper's methods of explanation."""


@dataclass(frozen=True)
class Request:
    """What was asked for; None where the experiment's own choice stands.

    Attributes
    ----------
    subjects : tuple of Subject or None
        Models with their inputs.
    n : int or None
        Inputs per model: the first that are long enough.
    methods : tuple of str or None
        Explanation methods.
    radii : tuple of int or None
        Radii.
    keep : tuple of float or None
        Keep probabilities λ.
    min_tokens : int or None
        Leave out inputs with fewer features.
    precision : str or None
        "per-input" or "data-set".
    """

    subjects: tuple[Subject, ...] | None = None
    n: int | None = None
    methods: tuple[str, ...] | None = None
    radii: tuple[int, ...] | None = None
    keep: tuple[float, ...] | None = None
    min_tokens: int | None = None
    precision: str | None = None
    seed: int = 0

    def given(self) -> tuple[str, ...]:
        """The options that were asked for."""
        values = {
            "model": self.subjects,
            "n": self.n,
            "methods": self.methods,
            "radii": self.radii,
            "keep": self.keep,
            "min_tokens": self.min_tokens,
            "precision": self.precision,
        }
        return tuple(name for name, value in values.items() if value is not None)

    def method_specs(self, default: Iterable[str] = METHODS) -> tuple[MethodSpec, ...]:
        """The methods asked for, or the experiment's."""
        return tuple(MethodSpec(name) for name in (self.methods or tuple(default)))


@dataclass(frozen=True)
class Desk:
    """Where an experiment is carried out: its folder, how many workers, who watches."""

    folder: Path
    workers: int = 0
    progress: Any = None


@dataclass(frozen=True)
class Table:
    """Rows that are written as CSV and Parquet; ``columns`` maps names to types, as Arrow calls them."""

    columns: Mapping[str, str]
    rows: Callable[[], Iterable[Mapping[str, Any]]] = field(repr=False)

    @classmethod
    def of(cls, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> Table:
        """A table of rows that are in memory."""
        kept = list(rows)
        return cls(columns, lambda: kept)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    tables : mapping of str to Table
        By the names of their files.
    figure : matplotlib figure
        In the paper's layout.
    findings : str
        What the data say, in words, and how that compares with the paper.
    """

    tables: Mapping[str, Table]
    figure: Figure
    findings: str


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes
    ----------
    id : str
        What the command line calls it.
    title, shows : str
        What it is about, and what is plotted.
    subjects : tuple of (Subject, int)
        The bundled models it is carried out on by default, with the numbers of inputs.
    options : tuple of str
        Which of ``OPTIONS`` it takes.
    run : callable
        Request and desk → outcome.
    min_tokens : int
        The least number of features of an input, for models that were not bundled.
    most_inputs : int or None
        Inputs per model for models that were not bundled, if there are as many; None for all.
    n_methods, n_models : int or None
        How many methods and models it is about; None for any number.
    cpu_only : bool
        Whether it measures the time of the processor, so that no other device will do.
    hindsight : str
        What was chosen about the bundled models and their inputs after a look at results, for the findings.
    n_levels : int or None
        Keep probabilities must be multiples of one n-th of this, where votes are counted.
    """

    id: str
    title: str
    shows: str
    subjects: tuple[tuple[Subject, int], ...]
    options: tuple[str, ...]
    run: Callable[[Experiment, Request, Desk], Outcome] = field(repr=False)
    min_tokens: int = 1
    most_inputs: int | None = None
    n_methods: int | None = None
    n_models: int | None = None
    cpu_only: bool = False
    hindsight: str = ""
    n_levels: int | None = None

    def chosen(self, request: Request) -> tuple[Subject, ...]:
        """The models with their inputs that this request is about."""
        least = request.min_tokens
        if request.subjects is None:
            return tuple(one.first(request.n or n, min_features=least or 1) for one, n in self.subjects)
        return tuple(self._sized(one, request) for one in request.subjects)

    def _sized(self, subject: Subject, request: Request) -> Subject:
        """The inputs asked for; bundled ones have no text as long as the paper's."""
        own = self.min_tokens if subject.kind == "text" and not subject.data.spec.startswith(BUNDLED) else 1
        least = own if request.min_tokens is None else request.min_tokens
        return subject.first(request.n or self._at_most(subject), min_features=least)

    def _at_most(self, subject: Subject) -> int | None:
        """As many inputs as the paper has, or as there are."""
        return None if self.most_inputs is None else min(self.most_inputs, len(subject.inputs))

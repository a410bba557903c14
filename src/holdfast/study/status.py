"""A file of results → how far the study is: items done, left out and given up, means and cost by method."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.certification.mean_curve import MeanCurve
from holdfast.showing import Shown
from holdfast.study.curves import current_means, curve_inputs, curve_keys
from holdfast.study.question import Plain
from holdfast.study.store import OF_STUDY, CurveKey, Store
from holdfast.words import bracket, calls

_BY_METHOD = """
SELECT i.method, count(*), avg(r.rate), sum(i.n_computed), sum(i.seconds)
FROM items i LEFT JOIN rates r ON r.item = i.item AND r.radius = ?
WHERE i.{of_study} AND i.method = ? AND i.top_fraction IN ({fractions}) AND i.keep_probability IN ({keeps})
"""

_BY_SKIPPED = """
SELECT i.input, count(*) FROM items i JOIN skips USING (input)
WHERE i.method IN ({names}) AND i.top_fraction IN ({fractions}) AND i.keep_probability IN ({keeps}) GROUP BY i.input
"""


@dataclass(frozen=True)
class MethodStatus(Shown):
    """What is known of one method so far.

    ``mean_rate`` is the mean of its items' rates at the largest radius, over whatever is done; None if
    nothing is, or if items hold explanations only (precision "data-set").
    """

    name: str
    n_done: int
    mean_rate: float | None
    n_computed: int
    seconds: float


@dataclass(frozen=True)
class StudyStatus(Shown):
    """How far a study is.

    Attributes
    ----------
    n_items : int
        Items the study asks for, those of inputs that were left out included.
    n_done : int
        Items of it that are stored.
    n_left_out : int
        Items that are not stored because their inputs were left out; ``skips`` says which and why.
    n_given_up : int
        Items that could not be computed; ``failures`` says of which inputs and why.
    n_curves : int
        Mean curves the study asks for: none unless its precision is "data-set".
    means : dict
        Those that are stored, each over all inputs that are explained by now.
    n_computed : int
        Rows the model computed for certificates and mean curves, and those that attributions asked for,
        gradients included.
    """

    path: str
    name: str
    n_inputs: int
    n_items: int
    n_done: int
    n_left_out: int
    n_given_up: int
    radius: int
    methods: tuple[MethodStatus, ...]
    n_computed: int
    n_sessions: int
    skips: dict[int, str] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    n_curves: int = 0
    means: dict[CurveKey, MeanCurve] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to try: items are stored, left out or given up."""
        return self.n_to_do <= self.n_given_up

    @property
    def n_to_do(self) -> int:
        """Items that the next run will try."""
        return self.n_items - self.n_done - self.n_left_out

    @property
    def complete(self) -> bool:
        """Whether every item is stored, those of inputs left out aside, and every mean curve."""
        return self.n_to_do == 0 and len(self.means) == self.n_curves

    def plain(self) -> dict[str, Any]:
        """The status as what JSON can hold, ``complete`` included; mean curves are named such as lime/0.25/1.0."""
        means = {key.name: json.loads(curve.to_json()) for key, curve in self.means.items()}
        return asdict(replace(self, means={})) | {"means": means, "complete": self.complete}

    def __str__(self) -> str:
        return "\n".join([self._head(), *self._lines(), *self._mean_lines(), *self._warnings()])

    def _head(self) -> str:
        return (
            f"{self.name}: {self.n_done} of {self.n_items} items of {self.n_inputs} inputs, {self._state()}; "
            f"{calls(self.n_computed)} in {self.n_sessions} session{'' if self.n_sessions == 1 else 's'}."
        )

    def _state(self) -> str:
        if self.complete:
            return "complete"
        parts = [f"{self.n_to_do} items to do"] * (self.n_to_do > 0)
        parts += [f"mean curves: {len(self.means)} of {self.n_curves}"] * (len(self.means) < self.n_curves)
        return ", ".join(parts)

    def _lines(self) -> list[str]:
        return [
            f"  {one.name:<22} {one.n_done:>7} items"
            + ("" if one.mean_rate is None else f", mean rate {one.mean_rate:.3f} at radius {self.radius}")
            for one in self.methods
        ]

    def _mean_lines(self) -> list[str]:
        return [
            f"  {key.method}, top {key.top_fraction:g}, keep {key.keep_probability:g}: mean rate {last.rate:.3f} "
            f"{bracket(last.interval)} at radius {last.radius} ({curve.bound})"
            for key, curve in self.means.items()
            for last in [list(curve)[-1]]
        ]

    def _warnings(self) -> list[str]:
        lines = [f"  left out: input {index} ({reason})" for index, reason in self.skips.items()]
        return lines + [f"  given up: input {index} ({reason})" for index, reason in self.failures.items()]


def study_status(path: str | Path) -> StudyStatus:
    """Tell how far the study in a file is; a run may be writing it meanwhile."""
    with Store(path) as store:
        return status_of(store)


def status_of(store: Store) -> StudyStatus:
    """The same of a store that is open."""
    spec, inputs = store.spec, store.inputs()
    asked, n_inputs = set(inputs), len(inputs)
    methods = tuple(_method_status(store, spec, method["name"], json.dumps(inputs)) for method in spec["methods"])
    per_method = len(spec["top_fractions"]) * len(spec["smoothing"]["keep_probabilities"])
    n_each = len(methods) * per_method
    stored = _n_stored(store, spec)
    # An input of which everything is stored is not left out, whatever became of it since.
    skips = {i: reason for i, reason in store.skips().items() if i in asked and stored[i] < n_each}
    failures = {index: reason for index, reason in store.failures().items() if index in asked}
    n_done = sum(one.n_done for one in methods)
    n_left_out = sum(n_each - stored[index] for index in skips)
    n_to_do = n_inputs * n_each - n_done - n_left_out
    return StudyStatus(
        path=str(store.path),
        name=spec["name"],
        n_inputs=n_inputs,
        n_items=n_inputs * n_each,
        n_done=n_done,
        n_left_out=n_left_out,
        n_given_up=sum(len(items) for index, items in store.given_up().items() if index in failures),
        radius=max(spec["certify"]["radii"]),
        methods=methods,
        n_computed=sum(one.n_computed for one in methods) + _attribution_calls(store) + _mean_calls(store),
        n_sessions=_count(store, "SELECT count(*) FROM sessions"),
        skips=skips,
        failures=failures,
        # Where every input was left out there is nothing to take a mean of.
        n_curves=sum(n_to_do > 0 or bool(curve_inputs(store, key)) for key in curve_keys(spec)),
        means=current_means(store),
    )


def _method_status(store: Store, spec: Plain, name: str, inputs: str) -> MethodStatus:
    fractions, keeps = spec["top_fractions"], spec["smoothing"]["keep_probabilities"]
    statement = _BY_METHOD.format(of_study=OF_STUDY, fractions=_marks(fractions), keeps=_marks(keeps))
    values = (_certified_radius(spec), inputs, name, *fractions, *keeps)
    (_, n_done, mean, n_computed, seconds) = next(store.query(statement, *values))
    return MethodStatus(name, n_done, mean, n_computed or 0, seconds or 0.0)


def _n_stored(store: Store, spec: Plain) -> Counter[int]:
    """How many items of the study are stored, by input, for those that were once left out."""
    fractions, keeps = spec["top_fractions"], spec["smoothing"]["keep_probabilities"]
    names = [method["name"] for method in spec["methods"]]
    statement = _BY_SKIPPED.format(names=_marks(names), fractions=_marks(fractions), keeps=_marks(keeps))
    return Counter(dict(store.query(statement, *names, *fractions, *keeps)))


def _certified_radius(spec: Plain) -> int | None:
    """The largest radius at which items are certified; None where they hold explanations only."""
    certify = spec["certify"]
    return max(certify["radii"]) if certify["precision"] == "per-input" else None


def _attribution_calls(store: Store) -> int:
    return _count(store, "SELECT coalesce(sum(n_calls), 0) FROM attributions")


def _mean_calls(store: Store) -> int:
    return sum(curve.n_calls for curve in store.mean_curves().values())


def _count(store: Store, statement: str) -> int:
    return int(next(store.query(statement))[0])


def _marks(values: list[Any]) -> str:
    return ", ".join("?" * len(values))

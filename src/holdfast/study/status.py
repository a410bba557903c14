"""A file of results → how far the study is: items done, left out and given up, means and cost by method."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.certification.mean_curve import MeanCurve
from holdfast.study.records import Item
from holdfast.study.spec import GroupKey
from holdfast.study.store import GROUP, OF_STUDY, Store
from holdfast.terminal import Shown
from holdfast.words import bracket, calls, counted, few_words, paragraph

_BY_GROUP = f"""
SELECT {GROUP}, count(*), sum(r.rate_unbiased), sum(i.n_computed), sum(i.seconds)
FROM items i LEFT JOIN rates r ON r.item = i.item AND r.radius = ? WHERE i.{OF_STUDY} GROUP BY {GROUP}
"""

_SKIPPED = f"SELECT i.input, {GROUP} FROM items i JOIN skips USING (input)"

_COUNTS = "SELECT (SELECT coalesce(sum(n_calls), 0) FROM attributions), (SELECT count(*) FROM sessions)"


@dataclass(frozen=True)
class MethodStatus(Shown):
    """What is known of one method so far.

    ``mean_rate`` is the mean of its items' unbiased rates at the largest radius, over whatever is done; None if
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
    means: dict[GroupKey, MeanCurve] = field(default_factory=dict)

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
        left = [f"{self.n_to_do} items to do"] * (self.n_to_do > 0)
        left += [f"mean curves: {len(self.means)} of {self.n_curves}"] * (len(self.means) < self.n_curves)
        lines = [
            f"{few_words(self.name)}: {self.n_done} of {self.n_items} items of {self.n_inputs} inputs, "
            f"{'complete' if self.complete else ', '.join(left)}; "
            f"{calls(self.n_computed)} in {counted(self.n_sessions, 'session')}."
        ]
        for method in self.methods:
            mean = "" if method.mean_rate is None else f", mean rate {method.mean_rate:.3f} at radius {self.radius}"
            lines.append(f"  {method.name:<22} {method.n_done:>7} items{mean}")
        for key, curve in self.means.items():
            *_, last = curve
            lines.append(
                f"  {key.method}, top {key.top_fraction:g}, keep {key.keep_probability:g}: mean rate {last.rate:.3f} "
                f"{bracket(last.interval)} at radius {last.radius}"
            )
        lines += [f"  left out: input {index} ({reason})" for index, reason in self.skips.items()]
        return "\n".join(lines + [f"  given up: {words}" for words in reasons_in_words(self.failures)])

    def explain(self) -> str:
        """How far the study is and what to do next, in plain words."""
        left, lost = counted(self.n_left_out, "item"), counted(self.n_given_up, "item")
        return paragraph(
            "How far is the study?",
            f"{self.n_done} of {counted(self.n_items, 'item')} are stored: inputs, methods, fractions and smoothings.",
            f"{left} belong to inputs that were left out, which need no more work." if self.n_left_out else "",
            f"{lost} could not be computed; the next run tries them again." if self.n_given_up else "",
            "It is complete." if self.complete else f"{counted(self.n_to_do, 'item')} are to do: run the study again.",
            "Nothing that is stored is computed again.",
            "Mean rates here are over what is done so far, at the largest radius.",
            "They have no interval and no guarantee: `summarize_study` gives both.",
        )


def reasons_in_words(failures: Mapping[int, str], most: int = 8) -> list[str]:
    """Why items were given up: each reason once with its inputs, the most common first.

    >>> reasons_in_words({3: "mine: no scores", 5: "mine: no scores; lime: died"})
    ['inputs 3, 5 (mine: no scores)', 'input 5 (lime: died)']
    """
    inputs: dict[str, list[str]] = {}
    for index, reasons in failures.items():
        for reason in reasons.split("; "):
            inputs.setdefault(reason, []).append(str(index))
    words = []
    for reason, numbers in sorted(inputs.items(), key=lambda pair: -len(pair[1])):
        listed = ", ".join(numbers[:most]) + (f" and {len(numbers) - most} more" if len(numbers) > most else "")
        words.append(f"input{'s' if len(numbers) > 1 else ''} {listed} ({reason})")
    return words[:most] + [f"{len(words) - most} other reasons"] * (len(words) > most)


def study_status(path: str | Path) -> StudyStatus:
    """Tell how far the study in a file is; a run may be writing it meanwhile."""
    with Store(path) as store:
        return status_of(store)


def status_of(store: Store) -> StudyStatus:
    """The same of a store that is open."""
    spec, inputs = store.spec, store.inputs()
    groups, asked = spec.groups, set(inputs)
    radius = max(spec.certify.item_radii, default=None)
    rows = {row[:3]: row[3:] for row in store.query(_BY_GROUP, radius, json.dumps(inputs))}
    methods = []
    for method in spec.methods:
        own = [rows[key] for key in groups if key.method == method.name and key in rows]
        counts, totals, computed, seconds = zip(*own, strict=True) if own else ((), (), (), ())
        mean = sum(totals) / sum(counts) if own and radius is not None else None
        methods.append(MethodStatus(method.name, sum(counts), mean, sum(computed), sum(seconds)))
    # An input of which everything is stored is not left out, whatever became of it since.
    stored = Counter(index for index, *key in store.query(_SKIPPED) if tuple(key) in groups)
    skips = {i: reason for i, reason in store.skips().items() if i in asked and stored[i] < len(groups)}
    failures: dict[int, str] = {}
    lost: set[str] = set()
    wanted = {Item(failure.input, *group).key for failure in store.failures() for group in groups}
    for failure in store.failures():
        if failure.input in asked and not wanted.isdisjoint(failure.items):
            lost |= wanted.intersection(failure.items)
            reason = f"{failure.method}: {failure.reason}" if failure.method else failure.reason
            before = failures.get(failure.input)
            failures[failure.input] = reason if before is None else f"{before}; {reason}"
    n_items, n_done = len(inputs) * len(groups), sum(method.n_done for method in methods)
    n_left_out = sum(len(groups) - stored[index] for index in skips)
    ((n_computed, n_sessions),) = store.query(_COUNTS)
    n_computed += sum(part.n_computed for part in methods) + sum(part.n_calls for part in store.mean_curves().values())
    return StudyStatus(
        path=str(store.path),
        name=spec.name,
        n_inputs=len(inputs),
        n_items=n_items,
        n_done=n_done,
        n_left_out=n_left_out,
        n_given_up=len(lost),
        radius=max(spec.certify.radii),
        methods=tuple(methods),
        n_computed=n_computed,
        n_sessions=n_sessions,
        skips=skips,
        failures=failures,
        # Where every input was left out there is nothing to take a mean of.
        n_curves=sum(n_items > n_done + n_left_out or bool(store.group_inputs(key)) for key in spec.mean_groups),
        means=store.means(),
    )

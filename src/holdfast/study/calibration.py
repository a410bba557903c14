"""A file of results → how many features each method needs for the same guarantee: a way to compare methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from holdfast.certification.selector import CalibrationGoal, CalibrationGroup, ends_rightly, step_down
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidValueError, StudyError
from holdfast.randomness import is_canonical
from holdfast.study.spec import GroupKey
from holdfast.study.status import status_of
from holdfast.study.store import Store, group_rows
from holdfast.terminal import Plotted
from holdfast.validation import check_share
from holdfast.words import INCOMPLETE, NOT_RIGHT, ON_ITS_OWN, OTHER_INPUTS, event, paragraph, sure


@dataclass(frozen=True, eq=False)
class MethodSize(Value, schema="holdfast.method_size"):
    """The smallest fraction of the features that is calibrated for a method at a radius, and the tests behind it."""

    method: str
    keep_probability: float
    radius: int
    group: CalibrationGroup

    @property
    def top_fraction(self) -> float | None:
        """None if only all features are left."""
        return self.group.cut


@dataclass(frozen=True, eq=False)
class StudyCalibration(Plotted, Value, schema="holdfast.study_calibration"):
    """How many features each method of a study needs for the same guarantee, radius by radius; it iterates over them.

    For each method and radius on its own: with probability at least ``confidence``, at least ``share`` of inputs such
    as the study's have explanations with a stability rate of at least ``min_rate`` and the prediction of the full
    input, if the ``top_fraction`` of their features with the largest scores is selected. A larger size does not show
    that a method needs more: its draws, or the inputs, may have been too few to tell.

    Attributes
    ----------
    sizes : tuple of MethodSize
        One per method, keep probability and radius.
    top_fractions : tuple of float
        Those of the study, in the order of the tests.
    level : float
        The probability with which an input may pass wrongly: one minus the confidence of the study's certificates.
    n_to_do : int
        Explanations of the study that are missing; which ones must not depend on results.
    """

    sizes: tuple[MethodSize, ...]
    top_fractions: tuple[float, ...]
    min_rate: float
    share: float
    confidence: float
    level: float
    n_to_do: int
    neighborhood: str
    agree: str
    model: str
    data: str

    def check(self) -> None:
        """Raise if the sizes do not follow from the counts."""
        check_share(self.min_rate, "min_rate")
        goal = CalibrationGoal.check("new inputs", self.share, self.level, self.confidence)
        for size in self.sizes:
            group = size.group
            tested = tuple(step.cut for step in group.trail)
            follows = tested == self.top_fractions[: len(tested)] and ends_rightly(group, len(self.top_fractions))
            if group.n_needed != goal.n_needed(group.n_inputs) or not follows:
                raise InvalidValueError(argument="sizes", must="follow from the counts, the share and the confidence")

    def __iter__(self) -> Iterator[MethodSize]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def to_frame(self) -> Any:
        """A data frame with one row per method, keep probability and radius."""
        names = ("method", "keep_probability", "radius", "top_fraction")
        counts = ("n_inputs", "n_needed")
        return make_frame(
            {name: getattr(size, name) for name in names} | {name: getattr(size.group, name) for name in counts}
            for size in self
        )

    def table(self, *, counts: bool = False) -> dict[str, dict[int, str]]:
        """What each method needs, in words, by radius; with counts of inputs that passed, of those needed."""
        rows: dict[str, dict[int, str]] = {}
        for size in self:
            name = size.method if size.keep_probability == 1 else f"{size.method}, keep {size.keep_probability:g}"
            needed, group = f"top {size.top_fraction:g}" if size.top_fraction is not None else "all", size.group
            if counts and group.n_needed is not None:
                n_passed = group.trail[0].n_passed if size.top_fraction is None else group.n_needed
                needed += f" ({n_passed}/{group.n_needed})"
            rows.setdefault(name, {})[size.radius] = "too few inputs" if size.group.n_needed is None else needed
        return rows

    def claim(self) -> str:
        """What is guaranteed with a size, in a sentence."""
        inputs = f"{sure(self.share)} of such inputs"
        known = f"{sure(self.confidence)} confidence each"
        missing = "; incomplete" if self.n_to_do else ""
        return f"Features needed so that ≥{inputs} are stable in ≥{sure(self.min_rate)} of cases ({known}{missing})."

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        change = event(self.neighborhood, "uniform", "r")
        return paragraph(
            "How many of the leading features does each method need?",
            f"Stable means: {change} keeps the prediction in at least {sure(self.min_rate)} of cases; r is the radius.",
            f"Each size holds for at least {sure(self.share)} of such inputs, with {sure(self.confidence)} confidence.",
            "In brackets: inputs that passed, counted until the outcome was certain, and inputs that must pass.",
            f"For all features these are the counts at top {self.top_fractions[0]:g}.",
            INCOMPLETE if self.n_to_do else "",
            ON_ITS_OWN,
            OTHER_INPUTS,
            NOT_RIGHT,
        )

    def __str__(self) -> str:
        rows = self.table(counts=True)
        radii = list(dict.fromkeys(size.radius for size in self))
        cells = [
            ["radius", *map(str, radii)],
            *([name, *(row[radius] for radius in radii)] for name, row in rows.items()),
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(f"{cell:<{n}}" for cell, n in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join([self.claim(), *(f"  {line}" for line in lines)])


def calibrate_study(
    results: str | Path | Store, *, min_rate: float, share: float = 0.8, confidence: float = 0.9
) -> StudyCalibration:
    """Tell how many features each method of a study needs for the same guarantee.

    The fractions of the study are tested from the largest to the smallest, as in ``calibrate``, on its stored
    certificates: no model is called. An input passes if the lower end of its interval is at least ``min_rate`` and the
    explanation alone has the prediction of the full input. Fix the question before looking at results.

    Parameters
    ----------
    results : str, Path or Store
        The file of a study of independent inputs, with at least two ``top_fractions``.
    min_rate, share, confidence : float
        See ``calibrate``.

    Examples
    --------
    >>> calibrate_study("no such file.db", min_rate=0.9)
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: 'no such file.db' does not exist; it must be a file of results.
    """
    rate, part, sure = (
        check_share(value, name)
        for name, value in (("min_rate", min_rate), ("share", share), ("confidence", confidence))
    )
    with nullcontext(results) if isinstance(results, Store) else Store(results) as store, store.snapshot():
        spec, certify = store.spec, store.spec.certify
        cuts = tuple(sorted(set(spec.top_fractions), reverse=True))
        _check_study(store, len(cuts))
        level = 1 - check_share(certify.confidence, "certify.confidence")
        goal, sizes = CalibrationGoal.check("new inputs", part, level, sure), []
        for method, keep in dict.fromkeys((key.method, key.keep_probability) for key in spec.groups):
            if not spec.method(method).masks:
                keys = [GroupKey(method, cut, keep) for cut in cuts]
                groups = _groups(store, keys, certify.radii, rate, goal)
                sizes += [MethodSize(method, keep, radius, group) for radius, group in groups.items()]
        if not sizes:
            raise StudyError(f"{str(store.path)!r} has no input with all explanations yet. Run the study first.")
        return StudyCalibration(
            sizes=tuple(sizes),
            top_fractions=cuts,
            min_rate=float(rate),
            share=float(part),
            confidence=float(sure),
            level=float(level),
            n_to_do=status_of(store).n_to_do,
            neighborhood=certify.neighborhood,
            agree=certify.agree,
            model=spec.model.spec,
            data=spec.data.spec,
        )


def _groups(
    store: Store, keys: list[GroupKey], radii: tuple[int, ...], rate: Fraction, goal: CalibrationGoal
) -> dict[int, CalibrationGroup]:
    """What the stored certificates of a method say at each radius, over the inputs that have all of them."""
    answers: list[dict[tuple[int, int], bool]] = []
    for key in keys:
        rows = group_rows(store, key, "input, radius, low, consistent", by_radius=True)
        # A lower end of `min_rate` or more is wrong with probability at most 1 - confidence, whatever the rate is.
        answers.append({(i, radius): bool(alone) and Fraction(repr(low)) >= rate for i, radius, low, alone in rows})
    inputs = sorted(set.intersection(*({i for i, _ in own} for own in answers)))
    n_needed = goal.n_needed(len(inputs)) if inputs else None
    groups: dict[int, CalibrationGroup] = {}
    for radius in radii if inputs else ():

        def passes(inputs: Sequence[int], step: int, radius: int = radius) -> list[bool]:
            return [answers[step][i, radius] for i in inputs]

        trail = () if n_needed is None else step_down([key.top_fraction for key in keys], inputs, n_needed, passes)
        groups[radius] = CalibrationGroup(len(inputs), n_needed, trail)
    return groups


def _check_study(store: Store, n_fractions: int) -> None:
    """Raise unless sizes can be told of the study: from certificates of several fractions, of independent inputs."""
    name = repr(str(store.path))
    if store.spec.certify.of_means:
        raise StudyError(f"{name} has no certificates of single inputs. Run it with precision 'per-input'.")
    if n_fractions < 2:
        raise StudyError(
            f"{name} has one fraction only. Run the study with several, such as top_fractions = [0.1, 0.25]."
        )
    if is_canonical(store.spec.seed) and _shares_draws(store):
        raise StudyError(
            f"{name} has equal inputs, which a canonical seed gives the same draws: what they show is no independent "
            "evidence. Run the study with a seed of its own, such as seed = 0."
        )
    if not store.speaks_of_population:
        hint = "Set data.order = 'random'."
        raise StudyError(f"{name} is about the first inputs of the data, which say nothing of others. {hint}")


def _shares_draws(store: Store) -> bool:
    """Whether inputs are equal, or not known to differ, and something was drawn for them."""
    every, [[n_drawn]] = set(store.inputs()), list(store.query("SELECT COUNT(*) FROM rates WHERE exact = 0"))
    rows = store.query("SELECT input, input_fingerprint FROM inputs")
    known = [fingerprint for number, fingerprint in rows if number in every]
    return bool(n_drawn) and (None in known or len(set(known)) < len(known))

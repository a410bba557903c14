"""What shall hold for inputs not yet seen → how many calibration inputs must pass, and a selector for new ones.

Selections are tested from the most features to the fewest, in an order fixed in advance, and the first that fails ends
the search (learn then test, by fixed-sequence testing). An input passes only by a certificate of its own, which says
yes wrongly with probability at most ``level``: if fewer than ``share`` of all inputs are stable, one passes with
probability less than share' = share + level (1 - share). So passes are tested against share', and of needed sizes that
quantile is taken as well. Both guarantees are proven in docs/theory/calibration.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from holdfast.attribution.methods import METHODS, SCHEMES, Attribution
from holdfast.bounds import fewest_successes, smallest_power_within
from holdfast.certification.serialization import Value, make_frame
from holdfast.distributions.distribution import check_distribution_name
from holdfast.errors import InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.selection import above, top, top_fraction
from holdfast.types import Mask, Provenance
from holdfast.validation import (
    check_label,
    check_name,
    check_share,
    check_whole,
    did_you_mean,
    is_number,
    shown,
)
from holdfast.words import (
    NOT_RIGHT,
    OTHER_INPUTS,
    calls,
    change_of,
    changes_of,
    counted,
    few_words,
    fitted,
    paragraph,
    sure,
)

GUARANTEES = ("new inputs", "one input")
"""Of a share of all new inputs, with confidence in the calibration; or of one new input, over both."""

_CUTS = ("size", "fraction", "threshold")


@dataclass(frozen=True, eq=False)
class CalibrationStep(Value, schema="holdfast.calibration_step"):
    """How many inputs passed and failed with one selection, until the outcome was certain."""

    cut: float
    n_passed: int
    n_failed: int


@dataclass(frozen=True, eq=False)
class CalibrationGroup(Value, schema="holdfast.calibration_group"):
    """The calibration inputs of one predicted class, or all of them, and what was found.

    ``n_needed`` is how many must pass, None if there are too few inputs; ``cut`` is the last selection for which so
    many did, None if there is none: then only all features are left to select.
    """

    n_inputs: int
    n_needed: int | None
    trail: tuple[CalibrationStep, ...]
    prediction: Any = None
    prediction_name: str | None = None

    @property
    def cut(self) -> float | None:
        """The size, fraction or threshold that is calibrated, if any."""
        passed = [step.cut for step in self.trail if self.n_needed is not None and step.n_passed >= self.n_needed]
        return passed[-1] if passed else None


@dataclass(frozen=True, eq=False)
class Selector(Value, schema="holdfast.selector"):
    """How many of the leading features to select, so that explanations of inputs not yet seen are stable.

    An explanation is stable here if its stability rate at ``radius`` is at least ``min_rate`` and, if
    ``needs_consistent``, it alone has the prediction of the full input: the prediction that is kept is then that of
    the full input. ``guarantee`` says what is promised.
    "new inputs": with probability at least ``confidence`` over the calibration inputs and the draws, at least ``share``
    of all inputs from the same source have a stable explanation (of every class that has a size, if per class).
    "one input": the explanation of one new input is stable with probability at least ``share``, over that input, the
    calibration inputs and the draws together (given its class, if per class). Nothing is said about inputs from
    elsewhere, scores made in another way, or whether predictions are right.

    Attributes
    ----------
    by : {"size", "fraction", "threshold"}
        What cuts the ranking: a number of features, a fraction of them (rounded down, but at least one feature), or a
        score above which features are selected.
    cuts : tuple of float
        All that were to be tested, in the order of the tests, from the most features to the fewest.
    groups : tuple of CalibrationGroup
        What was found, for all inputs or for each predicted class.
    radius : int or None
        None where the distribution itself says how far it goes.
    level : float
        The probability with which an input may pass wrongly; 0 if only exact rates count.
    absolute : bool
        Whether features are ranked by the size of their scores, not their sign.
    method, options :
        How the scores were made.
    n_calls : int
        Rows the models computed, explanations included.
    provenance : Provenance
        The masking and the model, where all inputs share them, and a fingerprint of all inputs.
    n_completions : int or None
        If hidden features are drawn, how many completions there are, of the first input.
    classes : tuple of str or None
        The names of all classes, if sizes are per class and the models tell.
    """

    by: str
    cuts: tuple[float, ...]
    groups: tuple[CalibrationGroup, ...]
    guarantee: str
    radius: int | None
    min_rate: float
    share: float
    confidence: float | None
    level: float
    absolute: bool
    needs_consistent: bool
    method: str
    neighborhood: str
    agree: str
    max_draws: int | None
    n_calls: int
    n_repeated: int
    rng_key: int
    provenance: Provenance
    options: Mapping[str, Any] = field(default_factory=dict)
    n_completions: int | None = None
    classes: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_name(self.by, "by", _CUTS)
        check_distribution_name(self.neighborhood)
        check_label(self.method, "method")
        check_share(self.min_rate, "min_rate")
        if self.n_completions is not None:
            check_whole(self.n_completions, "n_completions", minimum=1)
        least_radius = int(self.n_completions is None)
        for name, least in (("radius", least_radius), ("n_calls", 0), ("n_repeated", 0), ("rng_key", 0)):
            if name != "radius" or self.radius is not None or self.neighborhood in NEIGHBORHOODS:
                check_whole(getattr(self, name), name, minimum=least)
        goal = CalibrationGoal.check(self.guarantee, self.share, self.level, self.confidence)
        if (self.confidence is None) is (self.guarantee == "new inputs"):
            raise InvalidValueError(argument="confidence", must="be given for 'new inputs' only")
        if (self.max_draws is None) is not (self.level == 0):
            raise InvalidValueError(argument="max_draws", must="be given unless `level` is 0", got=self.max_draws)
        order = list(self.cuts) if self.by == "threshold" else [-cut for cut in self.cuts]
        if not order or order != sorted(set(order)):
            raise InvalidValueError(argument="cuts", must="go from the most features to the fewest")
        classes = [group.prediction for group in self.groups]
        if not classes or len(set(map(repr, classes))) < len(classes) or (None in classes and len(classes) > 1):
            raise InvalidValueError(argument="groups", must="be one for all inputs, or one per class")
        for group in self.groups:
            n_needed, n_inputs = group.n_needed, check_whole(group.n_inputs, "n_inputs", minimum=1)
            if n_needed != goal.n_needed(n_inputs, len(classes)):
                raise InvalidValueError(
                    argument="n_needed", must="follow from the inputs, the share and the confidence"
                )
            if tuple(step.cut for step in group.trail) != self.cuts[: len(group.trail)] or not ends_rightly(
                group, len(self.cuts)
            ):
                raise InvalidValueError(argument="trail", must="follow `cuts` and end at the first that fails")

    @property
    def n_inputs(self) -> int:
        """How many inputs calibrated it."""
        return sum(group.n_inputs for group in self.groups)

    @property
    def is_per_class(self) -> bool:
        """Whether predicted classes have sizes of their own."""
        return self.groups[0].prediction is not None

    @property
    def size(self) -> float | None:
        """How many of the leading features are selected, or which fraction; None for all, or if a threshold selects."""
        return None if self.by == "threshold" else self.cut_for()

    @property
    def threshold(self) -> float | None:
        """The score above which features are selected; None for all, or if a size selects."""
        return self.cut_for() if self.by == "threshold" else None

    def cut_for(self, prediction: Any = None) -> float | None:
        """The size, fraction or threshold for inputs of a predicted class; None if all features are to be selected."""
        if self.is_per_class and prediction is None:
            must = "be the class predicted for the full input: sizes are per class"
            raise InvalidValueError(argument="prediction", must=must)
        if not self.is_per_class:
            return self.groups[0].cut
        label = None if isinstance(prediction, str) else str(prediction)
        if label in (self.classes or ()) and (self.classes or ()).index(label) != prediction:
            must = f"be {label!r} in quotes to name that class: plain numbers count classes from 0"
            raise InvalidValueError(argument="prediction", must=must, got=shown(prediction))
        same = [group for group in self.groups if group.prediction == prediction]
        named = [group for group in self.groups if isinstance(prediction, str) and group.prediction_name == prediction]
        names = self.classes or () if any(isinstance(group.prediction, int) for group in self.groups) else None
        if not same and isinstance(prediction, str) and names is not None and prediction not in names:
            must = (
                "be the name of a class of the model"
                if names
                else "be a label as the model returns it: its classes have no names"
            )
            hint = did_you_mean(prediction, list(names))
            raise InvalidValueError(argument="prediction", must=must, got=shown(prediction), hint=hint)
        return next((group.cut for group in [*same, *named]), None)

    def to_frame(self) -> Any:
        """The tests as a pandas ``DataFrame``, one row per group and step; of a group without tests, one row."""
        about = ("prediction", "prediction_name", "n_inputs", "n_needed")
        return make_frame(
            {name: getattr(group, name) for name in about}
            | {name: getattr(step, name, None) for name in ("cut", "n_passed", "n_failed")}
            for group in self.groups
            for step in group.trail or (None,)
        )

    @property
    def has_named_method(self) -> bool:
        """Whether ``attribute`` knows the method by its name; else it is a function of the user's, or scores."""
        return self.method in METHODS or self.method.partition(":")[0] in SCHEMES

    def select(self, scores: Any, *, prediction: Any = None) -> Mask:
        """Select the leading features of a new input from its scores, made as those of the calibration were.

        ``prediction`` is the class predicted for the full input, by number or name, where sizes are per class. Where
        nothing is calibrated, all features are selected: classes that had too few inputs, or none. An ``Attribution``
        by another method is refused; of bare scores nobody can see how they were made.
        """
        if isinstance(scores, Attribution) and self.has_named_method and scores.method != self.method:
            must = f"be made by {self.method!r}, as in the calibration"
            raise InvalidValueError(argument="scores", must=must, got=shown(scores.method))
        return cut_ranking(scores, self.by, self.cut_for(prediction), absolute=self.absolute)

    def __str__(self) -> str:
        method = few_words(self.method)
        if all(group.cut is None for group in self.groups):
            return f"Select all features: no fewer by {method} are calibrated to be stable."
        known, inputs = f"{sure(self.confidence or 0)} confidence", ["new inputs"]
        if self.is_per_class:
            inputs = ["new inputs of each class", "each class"]
        new = [f"≥{sure(self.share)} of {words} stay stable in" for words in inputs]
        if self.guarantee == "one input":
            new, known = ["a new input stays stable in"], f"probability ≥{sure(self.share)}"
        return fitted(
            "Select {what} by {method}: {new} ≥{rate} of cases ({known}){change}.",
            rate=[sure(self.min_rate)],
            known=[known],
            what=self._selection(),
            method=[method, few_words(method, 1)],
            new=new,
            change=[f", {words}" for words in changes_of(self, "uniform", self.radius)],
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        said = [f"How many of the leading features by {few_words(self.method)} make explanations of new inputs stable?"]
        change = change_of(self, "uniform", self.radius)
        said.append(f"Stable means: {change} keeps the prediction in at least {sure(self.min_rate)} of cases.")
        if self.needs_consistent:
            said.append("The selected features alone must have the prediction of the full input, too.")
        if all(group.cut is None for group in self.groups):
            said.append("No smaller selection passed the test, so all features are to be selected.")
        elif self.guarantee == "one input":
            over = "over that input, the calibration inputs and the draws"
            said.append(f"One new input has a stable explanation with probability at least {sure(self.share)}, {over}.")
        else:
            each = " of each class that has a size" if self.is_per_class else ""
            said.append(f"At least {sure(self.share)} of new inputs{each} then have a stable explanation.")
            said.append(f"That holds with probability at least {sure(self.confidence or 0)} over the calibration.")
        said.append("Scores of new inputs must be made in the same way.")
        took = f"It took {counted(self.n_inputs, 'input')} and {calls(self.n_calls)}."
        return paragraph(*said, took, OTHER_INPUTS, NOT_RIGHT)

    def _selection(self) -> list[str]:
        """What is selected, in a few words and in fewer."""
        cuts = sorted({group.cut for group in self.groups if group.cut is not None})
        cut = f"{cuts[0]:g}" if len(cuts) == 1 else f"{cuts[0]:g} to {cuts[-1]:g}"
        if self.by == "threshold":
            return [f"features with scores above {cut}", f"scores above {cut}"]
        return [f"the top {cut} {'of features' if self.by == 'fraction' else 'features'}", f"the top {cut}"]


def ends_rightly(group: CalibrationGroup, n_cuts: int) -> bool:
    """Whether tests of a group went on while enough inputs passed, each until its outcome was certain."""
    if group.n_needed is None:
        return not group.trail
    too_many = group.n_inputs - group.n_needed + 1
    passed = [step.n_passed == group.n_needed and 0 <= step.n_failed < too_many for step in group.trail]
    failed = [step.n_failed == too_many and 0 <= step.n_passed < group.n_needed for step in group.trail]
    return bool(passed) and all(passed[:-1]) and (failed[-1] or (passed[-1] and len(passed) == n_cuts))


@dataclass(frozen=True)
class CalibrationGoal:
    """What is to be guaranteed, and how many inputs must pass for it."""

    guarantee: str
    share: Fraction
    """The share to be shown of passes, wrong ones included."""
    risk: Fraction

    @classmethod
    def check(cls, guarantee: Any, share: Any, level: Any, confidence: Any) -> CalibrationGoal:
        """The goal of these arguments, if they make sense."""
        name, part = check_name(guarantee, "guarantee", GUARANTEES), check_share(share, "share")
        wrong = check_level(level)
        risk = 1 - check_share(confidence, "confidence") if name == "new inputs" else Fraction(0)
        return cls(name, part + wrong * (1 - part), risk)

    @property
    def fewest_inputs(self) -> int:
        """The fewest inputs with which the guarantee can be given at all, if every one passes."""
        if self.guarantee == "new inputs":
            return smallest_power_within(self.share, self.risk)
        return math.ceil(self.share / (1 - self.share))

    def n_needed(self, n_inputs: int, n_groups: int = 1) -> int | None:
        """How many of so many inputs must pass; None if they are too few. Groups share the risk of all of them."""
        if self.guarantee == "new inputs":
            return fewest_successes(n_inputs, self.share, self.risk / n_groups)
        k = math.ceil((n_inputs + 1) * self.share)
        return k if k <= n_inputs else None


def check_level(level: Any) -> Fraction:
    """A probability of passing wrongly: 0, or strictly between 0 and 1."""
    return Fraction(0) if is_number(level) and level == 0 else check_share(level, "level")


def cut_ranking(scores: Any, by: str, cut: float | None, *, absolute: bool = False) -> Mask:
    """The features that a size, a fraction or a threshold selects; all for None, and for a size beyond them.

    A fraction of few features may be less than one of them: it selects one.
    """
    if by == "threshold" and cut is not None:
        return above(scores, cut, absolute=absolute)
    n_features = len(top(scores, 0, absolute=absolute))
    if by == "fraction" and cut is not None:
        selected = top_fraction(scores, cut, absolute=absolute)
        return selected if selected.any() else top(scores, 1, absolute=absolute)
    return top(scores, n_features if cut is None else min(int(cut), n_features), absolute=absolute)


def step_down(
    cuts: Sequence[float], inputs: Sequence[int], n_needed: int, passes: Callable[[Sequence[int], int], Sequence[bool]]
) -> tuple[CalibrationStep, ...]:
    """Go on to fewer features while enough inputs pass; ask no input whose answer could change nothing any more.

    Inputs that are to be asked whatever the others say are asked together.
    """
    trail: list[CalibrationStep] = []
    for step, cut in enumerate(cuts):
        n_passed = n_asked = 0
        while n_sure := min(n_needed - n_passed, len(inputs) - n_needed + 1 - (n_asked - n_passed)):
            n_passed += sum(passes(inputs[n_asked : n_asked + n_sure], step))
            n_asked += n_sure
        trail.append(CalibrationStep(cut, n_passed, n_asked - n_passed))
        if n_passed < n_needed:
            break
    return tuple(trail)

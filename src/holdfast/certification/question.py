"""Keywords of a verb → what is asked, checked before any model call, and the random streams that answer it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from holdfast.agreement import NAMES, Agreement, as_agreement, as_reference, same_top_class
from holdfast.certification.structure import Structure
from holdfast.completions import by_rows, completions_of, nearby_rows
from holdfast.distributions.distribution import Distribution, as_neighborhood
from holdfast.distributions.own import OwnDistribution, check_draws
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.plans import PLANS, RATE_KINDS, WORST, Plan, find_plan, plan_for
from holdfast.randomness import CANONICAL, is_canonical, stream, stream_key
from holdfast.types import Mask, MaskedModel, Progress, Provenance, Rng
from holdfast.validation import (
    MOST_ENTRIES,
    check_flag,
    check_list,
    check_name,
    check_selection,
    check_share,
    check_whole,
    did_you_mean,
    shown,
)

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def check_radii(radii: Any, name: str = "radii") -> tuple[int, ...]:
    """Distinct whole numbers in increasing order, at least one."""
    numbers = check_list(radii, name, "be whole numbers such as range(1, 11)", most=MOST_ENTRIES)
    if not numbers:
        raise InvalidValueError(argument=name, must="name at least one radius", got="none")
    return tuple(sorted({check_whole(radius, name) for radius in numbers}))


def radii_asked(radius: Any, keywords: Mapping[str, Any]) -> list[int]:
    """The one radius asked for; a distribution needs none, unless the size is to be exact."""
    distribution = as_neighborhood(keywords.get("neighborhood", FIELDS["neighborhood"].default))
    if radius is None and distribution.name not in NEIGHBORHOODS and keywords.get("rate_kind") != "exactly":
        return [0]  # which no one reads
    return [check_whole(radius, "radius")]


def parse_radii(text: str, name: str = "radii") -> list[int]:
    """Radii from a text such as ``1,5,10`` or ``1-10``, or both."""
    radii: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:\s*[-–]\s*(\d{1,18}))?\s*", part)
        if not match:
            raise InvalidValueError(argument=name, must="be radii such as 1,5,10 or 1-10", got=shown(text))
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            must = f"have ranges that go up, such as {last}-{first}"
            raise InvalidValueError(argument=name, must=must, got=shown(text))
        radii += range(first, min(last + 1, first + MOST_ENTRIES + 1))
        if len(radii) > MOST_ENTRIES:
            raise InvalidValueError(argument=name, must=f"be at most {MOST_ENTRIES} radii", got=shown(text))
    return radii


ANSWERS = ("fixed", "random")
"""Whether a model gives the same mask the same answer, or a random one each time it is asked."""

_FEW_DRAWS = (1, 3, 4)
"""Batches in which distributions of the user's own are tried before they are trusted."""

_FIRST_DRAWS = range(2, 2**30)
"""Where numbers of random answers begin: 0 is what a model is asked by itself, 1 what shows whether it is random."""


class Field(NamedTuple):
    """One thing that can be asked: its default, how it is checked, and what it means, for options and pages."""

    default: Any
    check: Callable[[Any, str], Any]
    help: str


FIELDS: Mapping[str, Field] = {
    "radii": Field((), check_radii, "how many more features may be revealed: 1,5,10 or a range such as 1-10"),
    "tolerance": Field(0.1, check_share, "largest error of the rate"),
    "confidence": Field(0.9, check_share, "probability that the claim is true"),
    "plan": Field(
        "sequential",
        partial(check_name, options=PLANS),
        "sequential (fewest model calls), exact (fixed number) or hoeffding (the paper's number)",
    ),
    "agree": Field(
        "same_top_class",
        as_agreement,
        f"what counts as the same prediction: {', '.join(NAMES)}",
    ),
    "reference": Field(
        None, as_reference, "the answer, label or class to agree with (default: what the selected features alone give)"
    ),
    "neighborhood": Field(
        "additions",
        as_neighborhood,
        "what changes: additions, removals, swaps, or a distribution: bernoulli(0.3), weighted([…]), grouped([…])",
    ),
    "rate_kind": Field(
        "uniform",
        partial(check_name, options=RATE_KINDS),
        "uniform (all masks within the radius), exactly (that many changes), worst_size or worst_size_lower",
    ),
    "simultaneous": Field(False, check_flag, "all radii hold at once, not each on its own"),
    "answers": Field(
        "fixed",
        partial(check_name, options=ANSWERS),
        "fixed (the same mask gets the same answer), or random (each draw asks the model anew)",
    ),
}
"""What can be asked, by the keyword of the verbs; keys of study files, options and fields of pages are the same."""

_CHECKED_DEFAULTS = {name: field.check(field.default, name) for name, field in FIELDS.items() if name != "radii"}


@dataclass(frozen=True)
class Question:
    """What is asked of an explanation; see ``certify`` for what the fields mean.

    ``n_completions`` is what the model says, if it draws what is hidden.
    """

    radii: tuple[int, ...]
    tolerance: Fraction
    confidence: Fraction
    plan: str
    agree: Agreement
    reference: Any
    neighborhood: Distribution
    rate_kind: str
    simultaneous: bool
    answers: str
    n_completions: int | None = None

    @classmethod
    def check(cls, keywords: Mapping[str, Any], *, prefix: str = "") -> Question:
        """The question that these keywords ask, defaults included; ``prefix`` comes before their names in errors."""
        values = dict(_CHECKED_DEFAULTS)
        for name, field in FIELDS.items():
            value = keywords.get(name, field.default)
            if value is not field.default or name not in values:
                values[name] = field.check(value, f"{prefix}{name}")
        question = cls(**values)
        if isinstance(question.neighborhood, OwnDistribution) and question.rate_kind != "uniform":
            must = "be 'uniform' for your own neighbourhood, which has no sizes"
            raise InvalidValueError(argument=f"{prefix}rate_kind", must=must, got=shown(question.rate_kind))
        return question

    def make_plan(self) -> Plan:
        """The plan asked for; searching a design may take a while, so only when all else is checked."""
        return find_plan(self.plan, self.tolerance, self.confidence)

    def plan_for(self, parts: Iterable[Neighborhood], plan: Plan) -> Plan:
        """The plan at which all parts of the rate asked for hold at once."""
        return plan_for(parts, plan, self.rate_kind, all_sampled=self.answers == "random")

    def neighborhood_of(self, selected: Mask, radius: int | None) -> Neighborhood:
        """The masks within a radius; None if the distribution itself says how far it goes."""
        return nearby_rows(self.neighborhood(selected, radius), self.n_completions)

    def widest(self, selected: Mask) -> Neighborhood:
        """The masks at any distance that the distribution goes to."""
        limit = getattr(self.neighborhood, "radius", None)
        return self.neighborhood_of(selected, len(selected) if limit is None else limit)

    def enumerates(self, nearby: Neighborhood, limit: int) -> bool:
        """Whether to evaluate every mask: there are few, and one answer to each says all that there is to know."""
        return self.answers == "fixed" and not nearby.is_larger_than(limit)


def own_terms(evaluator: Evaluator, agree: Agreement, reference: Any) -> tuple[Agreement, Any]:
    """What counts as the same and what to agree with; of a model that answers in words, what it says unless asked."""
    model = evaluator.answering
    if model is None:
        return agree, reference
    if getattr(model, "exact", False) and agree is not same_top_class and agree.name != model.agreement:
        must = "be left out: only the exact tokens of the reference count as the same answer"
        raise InvalidValueError(argument="agree", must=must, got=agree.name)
    agree = as_agreement(model.agreement) if agree is same_top_class else agree
    return agree, model.reference if reference is None else reference


class RunKeywords(TypedDict, total=False):
    """How a question is put to the model; see ``certify``."""

    batch_size: int | None
    progress: Progress | bool | None
    check_determinism: bool
    rng: Rng


class JudgeKeywords(RunKeywords, total=False):
    """And what counts as the same prediction, of which masks."""

    agree: Any
    reference: Any
    neighborhood: Any
    answers: str


class PrecisionKeywords(JudgeKeywords, total=False):
    """And how sure the answer is to be."""

    tolerance: float
    confidence: float


class PlanKeywords(PrecisionKeywords, total=False):
    """And when to look and stop."""

    plan: str


class RateKeywords(PlanKeywords, total=False):
    """And which rate is meant."""

    rate_kind: str


_RUN_DEFAULTS = {"batch_size": None, "progress": None, "check_determinism": True, "rng": None}


def asks(keywords: type, **defaults: Any) -> Callable[[_Verb], _Verb]:
    """Show the keywords of a verb, one by one, to ``help`` and notebooks; ``defaults`` are those that differ."""
    known = {name: field.default for name, field in FIELDS.items()} | _RUN_DEFAULTS | defaults

    def show(verb: _Verb) -> _Verb:
        own = inspect.signature(verb)
        before = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
        hints, kind = keywords.__annotations__, inspect.Parameter.KEYWORD_ONLY
        named = [
            inspect.Parameter(name, kind, default=default, annotation=hints[name].__forward_arg__)
            for name, default in known.items()
            if name in hints
        ]
        verb.__signature__ = own.replace(parameters=[*before, *named])  # type: ignore[attr-defined]
        return verb

    return show


@cache
def _taken_by(verb: Callable[..., Any]) -> Mapping[str, Any]:
    """The parameters of a verb, with their defaults; to read them for each question takes longer than to check them."""
    return {name: parameter.default for name, parameter in inspect.signature(verb).parameters.items()}


@dataclass(frozen=True)
class Procedure:
    """A question, whom its draws are made for, and the key of the random streams that answer it.

    ``structure`` is what the model that it is put to can prove without draws; None before that is known, and where
    answers are random.
    """

    question: Question
    draws: str
    key: int
    is_canonical: bool
    check_determinism: bool
    batch_size: int | None = None
    progress: Progress | bool | None = None
    structure: Structure | None = None

    @classmethod
    def check(cls, verb: Callable[..., Any], draws: str, keywords: Any, **fixed: Any) -> Procedure:
        """What a verb was asked, and what it knows by itself; keywords that it does not take are refused."""
        taken = _taken_by(verb)
        for name in keywords:
            if name not in taken:
                hint = did_you_mean(name, list(taken))
                raise InvalidTypeError(argument=name, must=f"be a keyword of `{verb.__name__}`", hint=hint)
        asked = {**_RUN_DEFAULTS, **taken, **keywords, **fixed}
        question, canonical = Question.check(asked), is_canonical(asked["rng"])
        key = 0 if canonical else stream_key(asked["rng"])
        checks = check_flag(asked["check_determinism"], "check_determinism")
        return cls(question, draws, key, canonical, checks, asked["batch_size"], asked["progress"])

    def evaluating(self, model: MaskedModel) -> Any:
        return evaluating(by_rows(model), batch_size=self.batch_size, progress=self.progress)

    @contextmanager
    def about(self, model: MaskedModel, selected: Any) -> Iterator[tuple[Evaluator, Mask, Procedure]]:
        """An evaluator for this question, the checked explanation, and the question with its random key."""
        with self.evaluating(model) as evaluator:
            mask = check_selection(selected, "selected", evaluator)
            yield evaluator, mask, self.bound(evaluator, mask)

    def bound(self, evaluator: Evaluator, *explanations: Mask) -> Procedure:
        """The same of this model: in its own terms, with the key of the question if the canonical one is asked for.

        Random answers have numbers that follow from the key and are given out once. So no answer that was seen
        before, such as one that became the reference, is counted as a draw.
        """
        agree, reference = own_terms(evaluator, self.question.agree, self.question.reference)
        if getattr(agree, "errors", None) is not None and (self.question.rate_kind in WORST or self.draws == "paired"):
            must = "have no `errors` here: they apply to a single rate of a single explanation"
            raise InvalidValueError(argument="agree", must=must, got=agree.name)
        drawn = completions_of(evaluator)
        if drawn is not None and self.question.answers == "random":
            must = "be left out for random fills: the model itself must be deterministic"
            raise InvalidValueError(argument="answers", must=must, got="'random'")
        reads = self.question.answers == "fixed" and evaluator.reads_structure
        structure = Structure(evaluator) if reads else None
        question = self.question
        if agree is not question.agree or reference is not question.reference or drawn is not None:
            question = replace(question, agree=agree, reference=reference, n_completions=drawn)
        procedure = replace(self, question=question, structure=structure)
        if isinstance(question.neighborhood, OwnDistribution):
            for mask in explanations:
                about = ": run `check_neighborhood` for details"
                check_draws(question.neighborhood(mask, None), _FEW_DRAWS, about)
        if self.is_canonical:
            procedure = replace(procedure, key=self.canonical_key(evaluator.provenance, *explanations))
        if (
            self.question.answers == "fixed"
            and self.check_determinism
            and getattr(evaluator.answering, "is_random", False)
        ):
            must, hint = "be 'random' for a model above temperature 0", "Or set its temperature to 0."
            raise InvalidValueError(argument="answers", must=must, got="'fixed'", hint=hint)
        if self.question.answers == "random":
            evaluator.draw_answers(int(procedure.stream("answers").integers(_FIRST_DRAWS.start, _FIRST_DRAWS.stop)))
        return procedure

    def of(self, neighborhood: Distribution) -> Procedure:
        """The same, asked of another distribution."""
        return replace(self, question=replace(self.question, neighborhood=neighborhood))

    def canonical_key(self, provenance: Provenance, *explanations: Mask) -> int:
        """The key that follows from model, input, masking, explanations and the kind of question.

        Radii, tolerance, confidence, plan and agreement do not count: who asks for others gets the same
        draws, and none to choose from. They decide only how many are drawn and how they are judged.
        """
        features = sorted({tuple(np.flatnonzero(mask).tolist()) for mask in explanations})
        known = (provenance.model, provenance.input, provenance.masking, len(explanations[0]))
        asked = self.question
        return stream_key(CANONICAL, *known, features, self.draws, asked.neighborhood.family, asked.rate_kind)

    def stream(self, *purpose: str | bytes) -> np.random.Generator:
        return stream(self.key, self.draws, self.question.neighborhood.family, self.question.rate_kind, *purpose)

    def own_stream(self, selected: Mask, *purpose: str) -> np.random.Generator:
        return self.stream(*purpose, np.packbits(selected).tobytes())

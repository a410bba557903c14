"""A file of results and a question → one statement about a data set: at least so many inputs are stable enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.bounds import anytime_interval, certified_count, certified_share, check_counts
from holdfast.certification.radius import certified_radius
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidValueError, StudyError
from holdfast.inputs.inputs import Inputs
from holdfast.study.spec import NO_TRUST, GroupKey, StudySpec, Trust
from holdfast.study.status import status_of
from holdfast.study.store import Store, group_rows
from holdfast.study.worker import explained, item_rng, naming_input, study_inputs
from holdfast.terminal import as_progress
from holdfast.types import Progress
from holdfast.validation import check_flag, check_name, check_share, check_whole, shown
from holdfast.words import (
    FIXED_BEFORE,
    NO_PROOF,
    NOT_RIGHT,
    calls,
    counted,
    cut_label,
    event,
    few_words,
    fitted,
    paragraph,
    scope,
    sure,
)

_INDEPENDENT = "The share is about the population that the inputs are independent draws from."


@dataclass(frozen=True, eq=False)
class DataSetGuarantee(Value, schema="holdfast.data_set_guarantee"):
    """How many inputs have a stability rate of at least ``min_rate``, at least.

    Two statements, each with probability at least ``confidence`` on its own. ``share`` is about the
    population, and holds if the inputs are independent draws from it; the first few of the data are not, and
    have none. ``count`` is about exactly these inputs. Both take into account that each input is
    certified on its own draws, wrongly with probability at most ``level``. They are void if method, radius,
    rate or inputs were chosen after seeing results; with fresh draws ``count`` may be asked for, once, of a
    study that was seen.

    Attributes
    ----------
    share : float or None
        At least this share of inputs such as these; None if they are the first few of the data.
    count : int
        At least so many of the inputs tested.
    n_inputs, n_certified, n_refuted, n_consistent : int
        Inputs tested, those certified one by one, those whose rate is as surely smaller, and those whose
        explanation alone has the prediction of the full input: a stable explanation of the others may be
        stably wrong.
    n_skipped, n_missing : int
        Inputs of the study that were left out, and those that have no explanation for other reasons. The
        population is that of inputs which are neither.
    source : {"fresh", "stored"}
        One-sided tests on draws of their own, or the study's certificates.
    n_calls : int
        Model calls of fresh tests.
    masks : bool
        Whether the method gives masks, of which no share is cut.
    """

    method: str
    top_fraction: float
    keep_probability: float
    radius: int
    min_rate: float
    confidence: float
    level: float
    share: float | None
    count: int
    n_inputs: int
    n_certified: int
    n_consistent: int
    n_skipped: int
    n_missing: int
    n_calls: int
    source: str
    neighborhood: str
    agree: str
    model: str
    data: str
    n_refuted: int = 0
    masks: bool = False

    def check(self) -> None:
        """Raise if the statements do not follow from the counts."""
        for name in ("n_certified", "n_refuted"):
            check_counts(getattr(self, name), self.n_inputs, names=(name, "n_inputs"))
        check_counts(self.n_certified + self.n_refuted, self.n_inputs, names=("n_certified + n_refuted", "n_inputs"))
        check_share(self.min_rate, "min_rate")
        check_name(self.source, "source", ("fresh", "stored"))
        share, count = _at_least(self.n_certified, self.n_inputs, level=self.level, confidence=self.confidence)
        stated = share if self.share is None else self.share
        if not math.isclose(share, stated, abs_tol=1e-9) or count != self.count:
            statement = "and `count` must follow from the counts, the level and the confidence."
            raise InvalidValueError(statement, argument="share")

    def reaches(self, min_share: float) -> bool | None:
        """Whether at least this share of inputs is stable enough; None if the tests cannot tell.

        It is about the population or, where there is no ``share``, about exactly these inputs. Either
        answer is wrong with probability at most one minus the confidence.
        """
        wanted = float(check_share(min_share, "min_share"))
        share, count = _at_least(self.n_refuted, self.n_inputs, level=self.level, confidence=self.confidence)
        least, most = self.share, 1 - share
        if least is None:
            least, most = self.count / self.n_inputs, 1 - count / self.n_inputs
        return True if least >= wanted else False if most < wanted else None

    def __str__(self) -> str:
        doing = event(self.neighborhood, "uniform", self.radius)
        share = f"{self.count} of these {self.n_inputs} inputs"
        if self.share is not None:
            share = f"{math.floor(1000 * self.share) / 10:g}% of such inputs"
        method = few_words(self.method)
        keep = f", keep {self.keep_probability:g}" if self.keep_probability != 1 else ""
        judged = "" if self.agree == "same_top_class" else f", judged by {few_words(self.agree, 1)}"
        return fitted(
            "At least {share} are stable in ≥{rate} of cases ({known}): {doing}, {method}{keep}{judged}.",
            share=[share],
            rate=[sure(self.min_rate)],
            known=[f"{sure(self.confidence)} confidence"],
            keep=[keep],
            doing=[doing],
            judged=[judged, judged and f" ({few_words(self.agree, 1)})", ""],
            method=[
                f"explained by {method}, {cut_label(self.top_fraction, masks=self.masks)}",
                f"explained by {method}",
                f"by {method}",
            ],
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        share = "" if self.share is None else f" and at least {math.floor(1000 * self.share) / 10:g}% of such inputs"
        how = f"fresh draws, {calls(self.n_calls)}" if self.source == "fresh" else "the study's own certificates"
        wrong = f"each wrongly with probability at most {self.level:g}"
        keep = f" (keep probability {self.keep_probability:g})" if self.keep_probability != 1 else ""
        left = {"were left out": self.n_skipped, "have no explanation": self.n_missing}
        missing = " and ".join(f"{count} {what}" for what, count in left.items() if count > 0)
        aside = "" if self.share is None else ": such inputs are inputs of which this is not true"
        judged = (
            "" if self.agree == "same_top_class" else f" What counts as the same is judged by {few_words(self.agree)}."
        )
        chance = f"each with probability at least {sure(self.confidence)}"
        return paragraph(
            f"How many inputs{keep} keep their prediction in at least {sure(self.min_rate)} of cases?{judged}",
            f"At least {self.count} of exactly these {self.n_inputs} inputs{share}, {chance}.",
            f"{self.n_certified} were certified one by one, {wrong} ({how}).",
            f"{self.n_consistent} explanations alone have the prediction that is to stay.",
            "They are the first of the data, and say nothing of others." if self.share is None else _INDEPENDENT,
            f"Of the study's inputs, {missing}{aside}." if missing else "",
            FIXED_BEFORE,
            NOT_RIGHT,
        )


def _at_least(n_shown: int, n_inputs: int, **risks: float) -> tuple[float, int]:
    """If a property was shown of so many inputs: which share of such inputs, and how many of these, have it."""
    return certified_share(n_shown, n_inputs, **risks), certified_count(n_shown, n_inputs, **risks)


def study_guarantee(
    results: str | Path | Store,
    *,
    method: str,
    radius: int,
    min_rate: float,
    confidence: float = 0.9,
    level: float | None = None,
    top_fraction: float | None = None,
    keep_probability: float | None = None,
    stored: bool = False,
    trust: Trust = NO_TRUST,
    inputs: Inputs | None = None,
    progress: Progress | bool | None = None,
) -> DataSetGuarantee:
    """Guarantee that at least some share of inputs has explanations with a rate of at least ``min_rate``.

    Every explanation of the method that is stored is tested: is the stability rate at this radius at
    least ``min_rate``? Each test is one-sided, exact and sequential, on draws of its own, and needs few
    of them. The number of yeses then bounds, for the population that the inputs were drawn from
    and for exactly these inputs, how many rates are truly so large. Where the inputs are the first few of the
    data (``data.order = "first"``), it is about exactly these alone.

    Parameters
    ----------
    results : str, Path or Store
        The file of results; model and data are loaded as its study names them.
    method, radius, min_rate :
        The question, to be fixed before results are seen. The radius need not be one of the study's.
    confidence : float
        Of each of the two statements.
    level : float, optional
        The probability with which an input may be certified wrongly, 0.02 if left out. It costs up to ``level`` of the
        share, so it should be small; and the smaller it is, the more draws a test takes and the more
        often it cannot tell. At 0.02 a test of 0.9 takes 42 draws if all agree (27 at 0.1) and certifies a
        rate of 0.95 in 94 of 100 cases (99 at 0.1); at 0.001 it takes 71, and certifies 73.
    top_fraction, keep_probability : float, optional
        Which explanations, where the study has several cuts or smoothings.
    stored : bool
        Take the study's own certificates instead: no model is loaded or called. The level is then one minus
        their confidence and cannot be given, the radius must be one of the study's, and fewer inputs are certified.
    trust : Trust
        What the model that the file names may do when it is loaded: nothing but being read, unless said here.
    inputs : Inputs, optional
        Those of the study, if they are loaded already, or are live objects.
    progress : bool or callable, optional
        True for a bar, False for none, or a function of (inputs done, inputs).

    Examples
    --------
    >>> study_guarantee("study.db", method="lime", radius=5, min_rate=1.0)
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `min_rate` must be a number strictly between 0 and 1, got 1.0.
    """
    radius, rate = check_whole(radius, "radius"), check_share(min_rate, "min_rate")
    risk = check_share(0.02 if level is None else level, "level")
    sure = float(check_share(confidence, "confidence"))
    if check_flag(stored, "stored") and level is not None:
        got = f"{level}: stored certificates have the level of their confidence"
        raise InvalidValueError(argument="level", must="be left out if `stored`", got=got)
    watch = as_progress(progress, what="inputs")
    with nullcontext(results) if isinstance(results, Store) else Store(results) as store:
        spec, key = store.spec, _choose(store.spec.groups, method, top_fraction, keep_probability)
        certify = spec.certify
        tests: list[_Test] = []
        with store.snapshot():
            status, numbers = status_of(store), store.group_inputs(key)
            if stored:
                if certify.of_means:
                    must = "be False for a study with precision 'data-set': it has no certificates of single inputs"
                    raise InvalidValueError(argument="stored", must=must)
                if radius not in certify.radii:
                    must = f"be one of the study's if `stored`, {', '.join(map(str, certify.radii))}"
                    raise InvalidValueError(argument="radius", must=must, got=radius)
                # A certificate's interval misses the true rate with probability at most 1 - confidence, whatever that
                # rate is, so a lower end of `min_rate` or more is as wrong a yes as that at most; and so is a no.
                risk = 1 - check_share(certify.confidence, "certify.confidence")
                rows = group_rows(store, key, "radius, low, high, consistent", by_radius=True)
                for low, high, alone in (row[1:] for row in rows if row[0] == radius):
                    refuted = False if Fraction(repr(high)) < rate else None
                    tests.append(_Test(True if Fraction(repr(low)) >= rate else refuted, bool(alone)))
        if not stored:  # takes long, and leaves the file to a writer meanwhile
            every = _loaded(spec.trusting(trust), inputs)
            for test in _fresh_tests(store, spec, every, [(key, index) for index in numbers], (radius, rate, risk)):
                tests.append(test)
                if watch is not None:
                    watch(len(tests), len(numbers))
        if not tests:
            raise StudyError(f"{str(store.path)!r} has no explanations by {key.method} yet. Run the study first.")
        n, n_certified, level = len(tests), sum(test.holds is True for test in tests), float(risk)
        share, count = _at_least(n_certified, n, level=level, confidence=sure)
        return DataSetGuarantee(
            *key,
            radius=radius,
            min_rate=float(rate),
            confidence=sure,
            level=level,
            share=share if store.speaks_of_population else None,
            count=count,
            n_inputs=n,
            n_certified=n_certified,
            n_refuted=sum(test.holds is False for test in tests),
            n_consistent=sum(test.consistent for test in tests),
            n_skipped=len(status.skips),
            n_missing=status.n_inputs - n - len(status.skips),
            n_calls=sum(test.n_calls for test in tests),
            source="stored" if stored else "fresh",
            neighborhood=certify.neighborhood,
            agree=certify.agree,
            model=spec.model.spec,
            data=spec.data.spec,
            masks=spec.method(key.method).masks,
        )


@dataclass(frozen=True, eq=False)
class TrustedExplanation(Value, schema="holdfast.trusted_explanation"):
    """One explanation of a list that can be trusted: of which input, and how it was made; masks have no fraction."""

    input: int
    name: str | None
    method: str
    top_fraction: float | None
    keep_probability: float


@dataclass(frozen=True, eq=False)
class TrustedExplanations(Value, schema="holdfast.trusted_explanations"):
    """The explanations of a study that keep their prediction often enough; it iterates over them.

    With probability at least ``confidence`` the whole list is right: every explanation on it has a stability rate of
    at least ``min_rate``. The risk is divided among all explanations that were tested, so that it may be read as a
    list. Each one also has, alone, the prediction of the full input. That others are not on it does not mean that
    their rates are smaller: their draws may not have told.

    Attributes
    ----------
    explanations : tuple of TrustedExplanation
        The list.
    n_tested : int
        Explanations that were tested.
    n_inconsistent : int
        Those that are stable enough and not on the list: alone, they have another prediction than the full input.
    n_empty : int
        Those that are stable enough and not on the list because they select nothing.
    n_missing : int
        Explanations that the study asks for and that are not stored.
    level : float
        The risk of each test: one minus the confidence, divided by ``n_tested``.
    source : {"fresh", "stored"}
        One-sided tests on draws of their own, or the study's certificates.
    n_calls : int
        Model calls of fresh tests.
    """

    explanations: tuple[TrustedExplanation, ...]
    radius: int
    min_rate: float
    confidence: float
    level: float
    n_tested: int
    n_inconsistent: int
    n_empty: int
    n_missing: int
    n_calls: int
    source: str
    neighborhood: str
    agree: str
    model: str
    data: str

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        n_stable = len(self.explanations) + self.n_inconsistent + self.n_empty
        check_counts(n_stable, self.n_tested, names=("explanations", "n_tested"))
        check_share(self.min_rate, "min_rate")
        check_name(self.source, "source", ("fresh", "stored"))
        if not math.isclose(self.level * self.n_tested, 1 - self.confidence, rel_tol=1e-9):
            must = "be the risk of the list, divided by the explanations tested"
            raise InvalidValueError(argument="level", must=must, got=self.level)

    def __iter__(self) -> Iterator[TrustedExplanation]:
        return iter(self.explanations)

    def __len__(self) -> int:
        return len(self.explanations)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs that have an explanation on the list, by number."""
        return tuple(dict.fromkeys(explanation.input for explanation in self.explanations))

    def to_frame(self) -> Any:
        """The list as a pandas ``DataFrame``."""
        names = ("input", "name", "method", "top_fraction", "keep_probability")
        return make_frame([{name: getattr(entry, name) for name in names} for entry in self], columns=names)

    def __str__(self) -> str:
        doing = event(self.neighborhood, "uniform", self.radius)
        wrong = f"; {self.n_inconsistent} more contradict their full input" if self.n_inconsistent else ""
        return fitted(
            "{n} can be trusted: stable in at least {rate} of cases ({known}), {doing}{wrong}.",
            n=[f"{len(self)} of {counted(self.n_tested, 'explanation')}"],
            rate=[sure(self.min_rate)],
            known=[f"{sure(self.confidence)} confidence for all", f"{sure(self.confidence)} confidence"],
            wrong=[wrong, wrong.replace(" their full input", "")],
            doing=[doing],
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        doing = event(self.neighborhood, "uniform", self.radius)
        how = f"fresh draws, {calls(self.n_calls)}" if self.source == "fresh" else "the study's own certificates"
        judged = "" if self.agree == "same_top_class" else f" (judged by {few_words(self.agree)})"
        others = len(self) + self.n_inconsistent + self.n_empty < self.n_tested
        missing = f"{counted(self.n_missing, 'explanation')} of the study could not be tested."
        return paragraph(
            f"Which explanations keep the prediction{judged} in at least {sure(self.min_rate)} of cases, {doing}?",
            f"{len(self)} of {counted(self.n_tested, 'explanation')} do ({how}).",
            f"The whole list is right with probability at least {sure(self.confidence)} over the draws.",
            f"{self.n_inconsistent} more are stable, but predicted unlike the full input." * bool(self.n_inconsistent),
            f"{self.n_empty} more are stable, but select nothing." * bool(self.n_empty),
            missing * bool(self.n_missing),
            "The others were not shown to be stable; they may be." * others,
            FIXED_BEFORE,
            NO_PROOF,
            scope(of="this model, its inputs, fill and explanations"),
            NOT_RIGHT,
        )


def trusted_explanations(
    results: str | Path | Store,
    *,
    min_rate: float,
    radius: int,
    confidence: float = 0.9,
    method: str | None = None,
    top_fraction: float | None = None,
    keep_probability: float | None = None,
    stored: bool = False,
    trust: Trust = NO_TRUST,
    inputs: Inputs | None = None,
    progress: Progress | bool | None = None,
) -> TrustedExplanations:
    """List the explanations of a study that can be trusted, with one guarantee for the whole list.

    Every stored explanation is tested, one-sided and on draws of its own: is its stability rate at this radius at
    least ``min_rate``? The risk of the list is divided among the tests, so that with probability at least
    ``confidence`` every explanation on it truly is so stable. Explanations that, alone, have another prediction than
    the full input are not listed.

    Parameters
    ----------
    results : str, Path or Store
        The file of results; model and data are loaded as its study names them, unless ``inputs`` are given.
    min_rate, radius :
        The question, to be fixed before results are seen. The radius need not be one of the study's.
    confidence : float
        Of the whole list.
    method, top_fraction, keep_probability : optional
        Only these explanations; those of all methods, cuts and smoothings if left out.
    stored : bool
        Take the study's own certificates instead: no model is loaded or called, the radius must be one of the
        study's, and fewer explanations are listed.
    trust, inputs, progress :
        As in ``study_guarantee``.

    Examples
    --------
    >>> trusted_explanations("study.db", min_rate=0.9, radius=-1)
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `radius` must be a whole number ≥ 0, got -1.
    """
    radius, rate = check_whole(radius, "radius"), check_share(min_rate, "min_rate")
    sure, watch = check_share(confidence, "confidence"), as_progress(progress, what="explanations")
    check_flag(stored, "stored")
    wanted = {"method": method, "top_fraction": top_fraction, "keep_probability": keep_probability}
    with nullcontext(results) if isinstance(results, Store) else Store(results) as store:
        spec, certify = store.spec, store.spec.certify
        keys = spec.groups
        for name, value in wanted.items():
            if value is not None:
                options = dict.fromkeys(getattr(key, name) for key in spec.groups)
                if value not in options:
                    must = f"be one of {', '.join(map(str, options))}"
                    raise InvalidValueError(argument=name, must=must, got=shown(value))
                keys = [key for key in keys if getattr(key, name) == value]
        with store.snapshot():
            tested = [(key, index) for key in keys for index in store.group_inputs(key)]
            names, n_asked = store.names(), len(store.inputs()) * len(keys)
            empty = {(key, index) for key in keys for index, n in group_rows(store, key, "input, n_selected") if not n}
            if not tested:
                raise StudyError(f"{str(store.path)!r} has no such explanations: see `holdfast study status`.")
            risk = (1 - sure) / len(tested)
            tests = list(_stored_tests(store, tested, (radius, rate, risk))) if stored else []
        if not stored:  # takes long, and leaves the file to a writer meanwhile
            every = _loaded(spec.trusting(trust), inputs)
            for test in _fresh_tests(store, spec, every, tested, (radius, rate, risk)):
                tests.append(test)
                if watch is not None:
                    watch(len(tests), len(tested))
    stable = [(key, index, test) for (key, index), test in zip(tested, tests, strict=True) if test.holds]
    masks = {method.name for method in spec.methods if method.masks}
    return TrustedExplanations(
        explanations=tuple(
            TrustedExplanation(
                input=index,
                name=names[index].name,
                method=key.method,
                top_fraction=None if key.method in masks else key.top_fraction,
                keep_probability=key.keep_probability,
            )
            for key, index, test in stable
            if test.consistent and (key, index) not in empty
        ),
        radius=radius,
        min_rate=float(rate),
        confidence=float(sure),
        level=float(risk),
        n_tested=len(tested),
        n_inconsistent=sum(not test.consistent for _, _, test in stable),
        n_empty=sum(test.consistent and (key, index) in empty for key, index, test in stable),
        n_missing=n_asked - len(tested),
        n_calls=sum(test.n_calls for test in tests),
        source="stored" if stored else "fresh",
        neighborhood=certify.neighborhood,
        agree=certify.agree,
        model=spec.model.spec,
        data=spec.data.spec,
    )


def _stored_tests(
    store: Store, tested: list[tuple[GroupKey, int]], question: tuple[int, Fraction, Fraction]
) -> Iterator[_Test]:
    """What the study's own certificates say: a rate is at least the lower end that holds whenever draws were ended."""
    radius, rate, risk = question
    certify = store.spec.certify
    if certify.of_means or radius not in certify.radii:
        must = f"be one of the study's if `stored`, {', '.join(map(str, certify.item_radii)) or 'which has none'}"
        raise InvalidValueError(argument="radius", must=must, got=radius)
    for key, index in tested:
        result = next(result for result in store.results(index) if result.item.group == key)
        certificate = next(certificate for certificate in result.curve if certificate.radius == radius)
        counts = certificate.n_agreed, certificate.n_evaluated
        low = certificate.rate if certificate.exact else anytime_interval(*counts, confidence=1 - risk).low
        yield _Test(True if Fraction(repr(low)) >= rate else None, certificate.consistent)


class _Test(NamedTuple):
    """Whether the rate is large enough, None if that is not known; and whether the explanation is consistent."""

    holds: bool | None
    consistent: bool
    n_calls: int = 0


def _choose(keys: list[GroupKey], method: str, top_fraction: float | None, keep: float | None) -> GroupKey:
    """The group asked for; what is left open must leave no choice."""
    check_name(method, "method", dict.fromkeys(key.method for key in keys))
    keys = [key for key in keys if key.method == method]
    for name, value in (("top_fraction", top_fraction), ("keep_probability", keep)):
        options = sorted({getattr(key, name) for key in keys})
        chosen = options[0] if value is None and len(options) == 1 else value
        if chosen not in options:
            raise InvalidValueError(argument=name, must=f"be one of {', '.join(map(str, options))}", got=shown(value))
        keys = [key for key in keys if getattr(key, name) == chosen]
    return keys[0]


def _loaded(spec: StudySpec, inputs: Inputs | None) -> Inputs:
    """The inputs given, or those that the study names."""
    every = study_inputs(spec) if inputs is None else inputs
    every.check_kinds()
    return every


def _fresh_tests(
    store: Store,
    spec: StudySpec,
    inputs: Inputs,
    explanations: list[tuple[GroupKey, int]],
    question: tuple[int, Fraction, Fraction],
) -> Iterator[_Test]:
    """One-sided tests, each on a stream that belongs to its input and the question, and to nothing the study drew."""
    radius, rate, risk = question
    settings: dict[str, Any] = {"min_rate": rate, "confidence": 1 - risk, "radii": [radius], "progress": False}
    settings |= {name: getattr(spec.certify, name) for name in ("agree", "neighborhood", "answers")}
    is_random = spec.certify.answers == "random"  # then one answer says nothing of consistency
    for key, index in explanations:
        with naming_input(index):
            rng = item_rng(spec, "guarantee", index, key.name, *map(str, question))
            certificate = certified_radius(*explained(spec, store, inputs, key, index), **settings, rng=rng)
        yield _Test(certificate.trail[0].answer, certificate.consistent or is_random, certificate.n_calls)

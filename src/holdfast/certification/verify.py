"""A result and its model → the whole question asked again: a stored claim can be confirmed by anyone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.agreement import as_agreement
from holdfast.attribution.methods import METHODS, SCHEMES, Attribution, attribute, resolve_method
from holdfast.bounds import anytime_interval
from holdfast.certification.calibrate import calibrate
from holdfast.certification.certificate import Certificate, certify
from holdfast.certification.citations import CitationCertificate
from holdfast.certification.comparison import Comparison, compare
from holdfast.certification.curve import CertificateCurve, StabilityCurve, certify_radii
from holdfast.certification.hard import VOTED, HardCertificate, certify_hard
from holdfast.certification.probabilities import ProbabilityCurve, certify_probabilities
from holdfast.certification.question import Procedure, Question
from holdfast.certification.radius import RadiusCertificate, certified_radius
from holdfast.certification.selector import Selector
from holdfast.certification.serialization import Value
from holdfast.certification.stabilize import StableSelection, stabilize
from holdfast.certification.structure import Structure
from holdfast.completions import nearby_rows
from holdfast.distributions.distribution import as_neighborhood
from holdfast.distributions.own import OWN
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.exact.countable import PROOFS
from holdfast.judging import judge
from holdfast.mus import certify_mus
from holdfast.plans import WORST, rate_test
from holdfast.plans.catalog import shipped_designs
from holdfast.randomness import CANONICAL, stream, stream_key
from holdfast.smoothing import SmoothedModel
from holdfast.types import MaskedModel, Progress
from holdfast.validation import shown
from holdfast.witness import Witness, repeat_witness
from holdfast.words import NOT_RIGHT, counted, few_words, paragraph, percent

_KINDS_DRAWN = (Certificate, StabilityCurve, RadiusCertificate, HardCertificate, Comparison, StableSelection)
_KINDS_ASKED = (*_KINDS_DRAWN, ProbabilityCurve, CitationCertificate, Witness, Attribution, Selector)
_RISK_OF_SAMPLES = Fraction(1, 100)
_DRAWN_ANEW = (
    *("rate", "rate_unbiased", "interval", "low", "high", "n_agreed", "n_evaluated", "answer", "counterexample"),
    *("shown", "consistent", "stable", "radius", "size", "trail", "differences", "rng_key", "estimate", "witness"),
    *("first_only", "second_only", "exact", "enough"),
)
"""Fields that differ from sample to sample where answers are random."""
_N_MARGINS = 3
_FINGERPRINTS = ("masking", "model", "input")
_PREDICTIONS = ("prediction", "original_prediction")
_COSTS = ("n_calls", "n_repeated", "n_rounds")
_MOST_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Recheck(Value, schema="holdfast.recheck"):
    """What became of a stored result when its whole question was asked again.

    Attributes
    ----------
    stated : Certificate, StabilityCurve, RadiusCertificate, Comparison, Witness, Attribution, …
        What was claimed.
    repeated : the same kind
        What the same question with the same random key gives now.
    canonical_key : int or None
        The key that follows from the question itself; a maker who used another one could have tried many.
        None if nothing was drawn.
    rng_key : int
        The key that was used.
    compares_cost : bool
        Whether the numbers of calls are compared. A model that remembers its answers needs fewer each time.
    notes : tuple of str
        What else a reader should know.
    smallest_margins : tuple of float
        The smallest gaps between the two largest scores among the repeated masks. Where counts
        differ and these are near zero, a tie in the model's arithmetic is the likely reason.
    """

    stated: Value
    repeated: Value
    canonical_key: int | None
    rng_key: int
    compares_cost: bool
    notes: tuple[str, ...]
    smallest_margins: tuple[float, ...]

    @property
    def confirmed(self) -> bool:
        """Whether every field that is stated is what the question gives now, and all known fingerprints agree."""
        return not self.differences

    @property
    def canonical(self) -> bool | None:
        """Whether the random key follows from the question, so that nobody could choose it; None without draws."""
        return None if self.canonical_key is None else self.rng_key == self.canonical_key

    @property
    def differences(self) -> tuple[str, ...]:
        """Every field that is stated otherwise than it is now, with both values.

        Of random answers the counts of both samples are compared, and what they alone decide is not.
        """
        differing = []
        for path, before, now in _pairs(self.stated, self.repeated):
            name = path.rpartition(".")[2]
            # A reference that was not given is the one that was drawn.
            is_drawn = name.partition("[")[0] in (*_DRAWN_ANEW, *_COSTS) or (name == "reference" and before is None)
            if self.is_random and is_drawn:
                continue
            unknown = name in _FINGERPRINTS and "provenance" in path and None in (before, now)
            if not unknown and (self.compares_cost or name not in _COSTS):
                differing.append((path, before, now))
        first = tuple(_in_words(*pair) for pair in sorted(differing, key=lambda pair: "provenance" not in pair[0]))
        return (*first, *_contradictions(self.stated, self.repeated)) if self.is_random else first

    @property
    def is_random(self) -> bool:
        """Whether the answers are random, so that a new sample is compared with the one that is stated."""
        return getattr(_first(self.stated), "answers", "fixed") == "random"

    @property
    def not_identified(self) -> tuple[str, ...]:
        """Which of model, input and masking have no fingerprint, then or now: another one would not be noticed."""
        pairs = _pairs(self.stated, self.repeated, every=True)
        unknown = [path for path, before, now in pairs if None in (before, now)]
        return tuple(name for name in _FINGERPRINTS if any(path.endswith(f"provenance.{name}") for path in unknown))

    @property
    def _replaced(self) -> str:
        """That the result is about another model, input or masking; empty if the fingerprints are equal or unknown."""
        differing = [path for path, before, now in _pairs(self.stated, self.repeated) if None not in (before, now)]
        others = [name for name in _FINGERPRINTS if any(path.endswith(f"provenance.{name}") for path in differing)]
        return f"the result is about a different {' and a different '.join(others)}" if others else ""

    def __str__(self) -> str:
        if self._replaced:
            return f"Not confirmed: {self._replaced}."
        if not self.confirmed:
            more = len(self.differences) - 1
            return f"Not confirmed: {few_words(self.differences[0], 16, 160)}{f'; and {more} more' if more else ''}."
        same = "a new sample agrees with the old" if self.is_random else "asked again, the model gives the same result"
        key = {True: "; the seed follows from the question", False: "; the seed was chosen by its maker", None: ""}
        unknown = f"; not identified: {', '.join(self.not_identified)}" if self.not_identified else ""
        return f"Confirmed: {same}{key[self.canonical]}{unknown}."

    def explain(self) -> str:
        """What was asked, what was found and what that does not show, in plain words."""
        key = "" if self.canonical is None else " with the same random key"
        said = [f"Does the same question, asked again{key}, give what is stated?"]
        if not self.confirmed:
            shown, margins = self.differences[:_MOST_SHOWN], ", ".join(f"{m:.3g}" for m in self.smallest_margins)
            said.append(f"No, {counted(len(self.differences), 'field')} differ: {'; '.join(shown)}.")
            if self._replaced:
                return paragraph(*said, f"The reason is likely that {self._replaced}.", NOT_RIGHT)
            said.append(
                f"The smallest margins of the scores are {margins}: near zero, ties are a likely reason."
                * bool(margins)
            )
            said.append("Another model, input, fill or version also makes results differ.")
        elif self.is_random:
            said.append("Random answers do not repeat, so two samples were compared.")
            said.append("Either sample may miss the true rate: a true result can fail, and a nearly true one can pass.")
        else:
            said.append("Yes: every field that is stated is what the question gives now.")
        if self.not_identified:
            unknown = ", ".join(self.not_identified)
            said.append(f"Not identified: {unknown}. Another one with the same answers would pass too.")
        if self.canonical is False:
            said.append("The key was chosen: whoever made this could have tried several and kept the best.")
        elif self.canonical:
            again = "; random answers could have been asked for several times" if self.is_random else ""
            said.append(f"The key follows from the question, so that nobody chose it{again}.")
        said.append("A result that is confirmed says what it said before, and no more.")
        return paragraph(*said, *self.notes, NOT_RIGHT)


def _contradictions(stated: Any, repeated: Any) -> Iterator[str]:
    """Where a new sample of random answers contradicts what is stated.

    Two intervals for one rate that do not meet cannot both hold, nor can a yes and a no: each is wrong with probability
    at most 1 - confidence. Draws that all agreed are compared by intervals that hold whenever draws stop.
    """
    if isinstance(stated, CitationCertificate):
        yield from _contradictions(stated.sufficiency, repeated.sufficiency)
        yield from _contradictions(stated.necessity, repeated.necessity)
    elif isinstance(stated, CertificateCurve):
        for before, now in zip(stated, repeated, strict=True):
            yield from _contradictions(before, now)
    elif isinstance(stated, RadiusCertificate):
        answers = {step.radius: step.answer for step in repeated.trail}
        for step in stated.trail:
            if step.answer and not answers.get(step.radius):
                words = {False: "is refuted", None: "stays undecided"}[answers.get(step.radius)]
                words = words if step.radius in answers else "was not reached"
                yield f"radius {step.radius} is stated as certified, but {words} when tested again"
    else:
        pair = [(result.n_agreed, result.n_evaluated) for result in (stated, repeated)]
        if isinstance(stated, Certificate):
            first, second = stated.interval, repeated.interval
        else:
            first, second = (anytime_interval(*counts, confidence=1 - _RISK_OF_SAMPLES / 2) for counts in pair)
        if first.high < second.low or second.high < first.low:
            (agreed, drawn), (again, anew) = pair
            counts = f"{agreed} of {drawn} agreed in the file, but {again} of {anew} now"
            yield f"{counts}, at radius {stated.effective_radius}"


def differences(stated: Value, repeated: Value) -> tuple[str, ...]:
    """Every field that is stated otherwise than it is now, with both values."""
    return tuple(_in_words(*pair) for pair in _pairs(stated, repeated))


def _in_words(name: str, before: Any, now: Any) -> str:
    """One difference; long values are cut."""
    texts = [json.dumps(value, ensure_ascii=False) for value in (before, now)]
    stated, is_now = (text if len(text) <= 60 else text[:57] + "…" for text in texts)
    return f"{name} is {stated} in the file, but {is_now} now"


def _pairs(before: Any, now: Any, path: str = "", *, every: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """Places in two results, or in their JSON, where they differ, with what stands there; every place if asked."""
    if isinstance(before, Value) and isinstance(now, Value):
        before, now = json.loads(before.to_json()), json.loads(now.to_json())
    if isinstance(before, dict) and isinstance(now, dict) and "shown" not in before:
        for name in {**before, **now}:
            yield from _pairs(before.get(name), now.get(name), f"{path}.{name}" if path else name, every=every)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for i, (first, second) in enumerate(zip(before, now, strict=True)):
            yield from _pairs(first, second, f"{path}[{i}]", every=every)
    elif every or not _is_same(path, before, now):
        yield path, before, now


def _is_same(path: str, before: Any, now: Any) -> bool:
    """Whether two values are equal; numbers that a model predicts may differ by rounding, as between batches."""
    if path.rpartition(".")[2] in _PREDICTIONS and isinstance(before, float) and isinstance(now, float):
        return math.isclose(before, now, rel_tol=1e-6, abs_tol=1e-12)
    return type(before) is type(now) and bool(before == now)


def recheck(
    model: MaskedModel | Sequence[MaskedModel],
    result: Value,
    *,
    agree: Any = None,
    method: Any = None,
    neighborhood: Any = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> Recheck:
    """Ask the whole question of a result again, with its random key, and compare every field.

    The same model, input and masking give the same result, up to ties in the model's arithmetic. Nothing
    that the result says of itself is taken on trust but the question: radii, tolerance, confidence, plan,
    and the random key. When to look and stop follows from the plan, as it ships. Of a witness every statement is
    evaluated again, whatever search found it; scores, and predictions that are numbers, are compared up to rounding.

    Parameters
    ----------
    model : MaskedModel, or Inputs or sequence of MaskedModel
        The model and input the result is about; of a ``Selector``, all calibration inputs.
    result : Certificate, StabilityCurve, RadiusCertificate, Comparison, Witness, Attribution, …
        What is to be confirmed. A certificate of a curve or a comparison is confirmed with the whole of it.
    agree : callable, optional
        Needed if the result was made with a function of the user's.
    method : callable or sequence, optional
        Of a ``Selector``: needed if its explanations were made by a function of the user's, or were given.
    neighborhood : object, optional
        Needed if an object of the user's drew the masks.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function, recheck
    >>> model = mask_function(lambda masks: masks.sum(axis=1) < 10, n_features=20)
    >>> cert = certify(model, np.arange(20) < 4, radius=8, rng=0)
    >>> recheck(model, cert).confirmed
    True
    """
    if type(result) not in _KINDS_ASKED:
        must = f"be one of {', '.join(kind.__name__ for kind in _KINDS_ASKED)}"
        hint = "The model comes first: `recheck(model, result)`." if isinstance(model, Value) else None
        raise InvalidTypeError(argument="result", must=must, got=type(result).__name__, hint=hint)
    own: dict[str, Any]
    if isinstance(result, Selector):
        _check_distribution(result, neighborhood)
        own = {"batch_size": batch_size, "progress": progress}
        own["neighborhood"] = result.neighborhood if neighborhood is None else neighborhood
        return _recheck_selector(model, result, agree, method, own)
    evaluator = model if isinstance(model, Evaluator) else Evaluator(model)  # type: ignore[arg-type]
    if isinstance(result, (Witness, Attribution)):
        own = {"batch_size": batch_size, "progress": progress}
        notes: tuple[str, ...] = ()
        if isinstance(result, Witness):
            again: Value = repeat_witness(evaluator, result, agree=result.agree if agree is None else agree, **own)
            costs, notes = False, ("The number of model calls was not checked: it depends on the budget.",)
        else:
            again = _score_again(evaluator, result, own)
            # Gradients are as many as are needed, which may have taken several attempts.
            costs = evaluator.deciding is None and resolve_method(result.method).needs == "masks"
        return Recheck(result, again, None, result.rng_key or 0, costs, notes, smallest_margins=())
    if isinstance(result, CitationCertificate):
        return _recheck_citations(evaluator, result, agree=agree, batch_size=batch_size, progress=progress)
    first = _first(result)
    _check_distribution(first, neighborhood)
    options: dict[str, Any] = {"batch_size": batch_size, "progress": progress, "rng": first.rng_key}
    options["neighborhood"] = first.neighborhood if neighborhood is None else neighborhood
    if first.answers == "random":
        if getattr(first, "rate_kind", "uniform") in WORST or isinstance(result, Comparison):
            must = "state a single rate if answers are random: the worst or best one differs between samples"
            raise InvalidValueError(argument="result", must=must)
        # Other draws: an endpoint's cache would only repeat what it holds.
        key = stream_key(stream(first.rng_key, "asked again"))
        options |= {"answers": "random", "rng": key, "reference": first.prediction}
    # Rows are repeated as before, or not at all; a random model is not to be confirmed by chance.
    options["check_determinism"] = first.n_repeated > 0
    if first.agree != "same_top_class" or agree is not None:
        try:
            options["agree"] = as_agreement(first.agree if agree is None else agree)
        except InvalidValueError as error:
            must = f"be {first.agree!r}, which judged the result"
            raise InvalidValueError(argument="agree", must=must) from error
        if first.judge_errors is not None and agree is None:
            options["agree"] = judge(options["agree"], errors=first.judge_errors)
    if first.reference is not None:
        options["reference"] = first.reference
    # The model itself is asked about every mask: its own margins are told.
    took, read = evaluator.takes_shortcuts, evaluator.reads_structure
    evaluator.takes_shortcuts = False
    counted: Any = None
    try:
        repeated = _ask_again(evaluator, result, dict(options))
        if _has_drawn(result) and first.answers == "fixed" and Structure(evaluator).countable is not None:
            # What was drawn although it can be counted is drawn again, and the count is told beside it.
            counted, n_differing = repeated, len(differences(result, repeated))
            evaluator.reads_structure = False
            drawn = _ask_again(evaluator, result, options) if n_differing else repeated
            repeated = drawn if len(differences(result, drawn)) < n_differing else repeated
    finally:
        evaluator.takes_shortcuts, evaluator.reads_structure = took, read
    margins: list[float] = []
    # Labels and single scores have no gaps.
    is_known, remembered = evaluator.deciding is None and first.answers == "fixed", evaluator.by_rows or evaluator
    if is_known and remembered.outputs.ndim > 1 and remembered.outputs.shape[1] > 1:
        top = np.sort(remembered.outputs, axis=1)[:, -2:]
        margins = np.sort(top[:, 1] - top[:, 0])[:_N_MARGINS].tolist()
    return Recheck(
        stated=result,
        repeated=repeated,
        canonical_key=_canonical_key(evaluator, repeated, options["neighborhood"]),
        rng_key=first.rng_key,
        compares_cost=evaluator.deciding is None,
        notes=(*_notes(repeated), *_counted_beside(result, counted)),
        smallest_margins=tuple(margins),
    )


def _score_again(model: Evaluator, stated: Attribution, options: dict[str, Any]) -> Attribution:
    """The same method with the same settings; numbers that agree but for rounding are as they are stated."""
    if stated.method not in METHODS and stated.method.partition(":")[0] not in SCHEMES:
        must = f"come from one of {', '.join(METHODS)}: other methods cannot be repeated"
        raise InvalidValueError(argument="result", must=must, got=repr(stated.method))
    if names := stated.details.get("not_stored"):
        must = f"have settings that a file can store; {', '.join(names)} of {stated.method!r} cannot be stored"
        raise InvalidValueError(argument="result", must=must)
    known = resolve_method(stated.method).options
    own = [name for name in stated.details if name not in ("n_samples", "seed")] if known is None else known
    options |= {name: stated.details[name] for name in own if name in stated.details}
    steps = None if "n_steps" in own else stated.details.get("n_steps")
    n_samples = stated.details.get("n_samples", steps)
    options |= {"n_samples": n_samples or None, "rng": stated.rng_key}
    options |= {"agree": stated.details["agree"]} if "agree" in stated.details else {"target": stated.target}
    repeated = attribute(model, stated.method, **options)

    def is_close(before: Any, now: Any) -> bool:
        if {type(before), type(now)} & {type(None), str, bool}:
            return type(before) is type(now) and bool(before == now)
        try:
            numbers = np.asarray(before, dtype=np.float64)
        except (TypeError, ValueError):
            return False
        atol = 1e-6 * np.abs(repeated.scores).max()
        return numbers.shape == np.shape(now) and np.allclose(numbers, now, rtol=1e-6, atol=atol)

    alike = {name: getattr(stated, name) for name in ("scores", "errors")}
    alike = {name: value for name, value in alike.items() if is_close(value, getattr(repeated, name))}
    details = {
        name: stated.details[name] if is_close(stated.details.get(name), value) else value
        for name, value in repeated.details.items()
    }
    return replace(repeated, details=details, **alike)


def _recheck_citations(model: Evaluator, stated: CitationCertificate, **options: Any) -> Recheck:
    """Every part by itself; what the whole cost is as the file gives it."""
    parts = {name: getattr(stated, name) for name in ("sufficiency", "necessity", "witness", "enough")}
    checks = {name: recheck(model, part, **options) for name, part in parts.items() if part is not None}
    now: dict[str, Any] = {name: check.repeated for name, check in checks.items()}
    now |= {"passages": model.feature_names, "question": getattr(model.answering, "question", None)}
    if stated.whole_answer is not None:
        whole = model(np.ones((1, model.n_features), dtype=bool))
        same = as_agreement(stated.sufficiency.agree if options["agree"] is None else options["agree"])
        now |= {"whole_answer": str(whole[0]), "is_whole": bool(same(whole, stated.answer)[0])}
    repeated = replace(stated, **now)
    drawn = [check for check in checks.values() if check.canonical is not None]
    chosen = next((check for check in drawn if not check.canonical), drawn[0] if drawn else None)
    return Recheck(
        stated=stated,
        repeated=repeated,
        canonical_key=None if chosen is None else chosen.canonical_key,
        rng_key=stated.sufficiency.rng_key if chosen is None else chosen.rng_key,
        compares_cost=False,
        notes=tuple(dict.fromkeys(note for check in checks.values() for note in check.notes)),
        smallest_margins=(),
    )


def _recheck_selector(inputs: Any, stated: Selector, agree: Any, method: Any, options: dict[str, Any]) -> Recheck:
    """The whole calibration again, with the same key."""
    if method is None and not stated.has_named_method:
        must = f"be {stated.method!r}, which made the explanations"
        hint = "Pass it in Python: `hf.recheck(inputs, selector, method=…)`."
        raise InvalidValueError(argument="method", must=must, hint=hint)
    names = ("radius", "min_rate", "share", "guarantee", "level", "max_draws", "absolute")
    options |= {name: getattr(stated, name) for name in names} | {"rng": stated.rng_key}
    options |= {
        "thresholds" if stated.by == "threshold" else "sizes": stated.cuts,
        "consistent": stated.needs_consistent,
    }
    options |= {} if stated.confidence is None else {"confidence": stated.confidence}
    options |= {"per_class": stated.is_per_class, "check_determinism": stated.n_repeated > 0}
    try:
        options["agree"] = as_agreement(stated.agree if agree is None else agree)
    except InvalidValueError as error:
        raise InvalidValueError(argument="agree", must=f"be given: stability was judged by {stated.agree!r}") from error
    repeated = calibrate(inputs, stated.method if method is None else method, options=dict(stated.options), **options)
    notes = () if method is None else ("The name of the method was not checked.",)
    notes = (*notes, "Whoever made the file could choose the calibration inputs and the question.")
    again = replace(repeated, method=stated.method)
    return Recheck(stated, again, None, stated.rng_key, True, notes, smallest_margins=())


def _first(result: Any) -> Any:
    """The part of a result that repeats the question."""
    if isinstance(result, CitationCertificate):
        return result.sufficiency
    if isinstance(result, Comparison):
        result = result.curves[0]
    if isinstance(result, CertificateCurve):
        return result.certificates[0]
    return result.certificate if isinstance(result, StableSelection) else result


def _ask_again(model: Evaluator, stated: Any, options: dict[str, Any]) -> Any:
    """The same question, by the verb that the kind of the result belongs to."""
    first = _first(stated)
    if isinstance(stated, StableSelection):
        scores = np.empty(len(stated.ranking))
        scores[list(stated.ranking)] = np.arange(len(stated.ranking), 0, -1)
        options |= {"min_rate": stated.min_rate, "confidence": stated.confidence, "max_draws": first.max_draws}
        options |= {"sizes": stated.sizes, "consistent": stated.needs_consistent, "radius": first.trail[0].radius}
        return replace(stabilize(model, scores, **options), method=stated.method)
    if isinstance(stated, HardCertificate) and stated.method in VOTED:
        bank: dict[str, Any] = {name: options[name] for name in ("batch_size", "progress")}
        if not isinstance(model.model, SmoothedModel):
            if stated.method != "mus":
                must = "be the smoothed model itself: its random masks are not in the result"
                raise InvalidValueError(argument="model", must=must)
            bank |= {"keep_probability": stated.keep_probability, "n_levels": stated.n_levels, "rng": stated.rng_key}
        bank |= {"criterion": str(stated.criterion), "input_removals": stated.consistent is not None}
        return certify_mus(model, stated.selected, **bank)
    if isinstance(stated, RadiusCertificate):
        options |= {"min_rate": stated.min_rate, "confidence": stated.confidence, "max_draws": stated.max_draws}
        return certified_radius(model, stated.selected, radii=[step.radius for step in stated.trail], **options)
    if isinstance(stated, HardCertificate):
        radius = stated.requested_radius
        nearby = as_neighborhood(options["neighborhood"])(stated.selected, radius)
        is_listed = stated.method == "enumeration"
        options["max_enumerated"] = nearby_rows(nearby, stated.n_completions).size if is_listed else 0
        if stated.tolerance is not None:
            options |= {"tolerance": stated.tolerance, "confidence": stated.confidence}
        return certify_hard(model, stated.selected, radius=radius, **options)
    options |= {"tolerance": first.tolerance, "confidence": first.confidence, "plan": first.plan}
    if isinstance(stated, Comparison):
        masks = {name: stated.curve(name).certificates[0].selected for name in stated.names}
        return compare(model, masks, stated.radii, **options)
    if isinstance(stated, ProbabilityCurve):
        own = {name: value for name, value in options.items() if name != "neighborhood"}
        own |= {"radius": first.radius, "simultaneous": stated.simultaneous}
        return certify_probabilities(model, first.selected, probabilities=stated.probabilities, **own)
    options["rate_kind"] = first.rate_kind
    if isinstance(stated, StabilityCurve):
        # A curve of worst sizes holds as a whole however it is asked for.
        options["simultaneous"] = stated.simultaneous and first.rate_kind != "worst_size"
        return certify_radii(model, first.selected, radii=stated.radii, **options)
    if first.draws != "single":
        whole = {"pooled": "curve", "paired": "comparison"}[first.draws]
        raise InvalidValueError(argument="result", must=f"be the whole {whole} that contains this certificate")
    return certify(model, first.selected, radius=first.radius, **options)


def _has_drawn(result: Any) -> bool:
    """Whether chance played a part."""
    if isinstance(result, Comparison):
        return any(map(_has_drawn, result.curves))
    if isinstance(result, CertificateCurve):
        return any(map(_has_drawn, result.certificates))
    if isinstance(result, (RadiusCertificate, StableSelection)):
        return any(not step.exact for step in result.trail)
    if isinstance(result, HardCertificate):
        return result.method not in ("enumeration", *PROOFS)
    return not result.exact


def _check_distribution(first: Any, neighborhood: Any) -> None:
    """Raise unless what drew the masks is known: by its name, or as the object of the user's that has that name."""
    if neighborhood is None and first.neighborhood.startswith(OWN):
        must = f"be {first.neighborhood.removeprefix(OWN)!r}, which drew the masks and is not in the file"
        raise InvalidValueError(argument="neighborhood", must=must)
    if neighborhood is not None and as_neighborhood(neighborhood).name != first.neighborhood:
        must, got = f"be {first.neighborhood!r}, as in the result", as_neighborhood(neighborhood).name
        raise InvalidValueError(argument="neighborhood", must=must, got=shown(got))


def _counted_beside(stated: Any, counted: Any) -> Iterator[str]:
    """What counting from inside the model says of a rate that is stated from draws."""
    if isinstance(counted, Certificate) and counted.proof is not None:
        inside = stated.interval.low <= counted.rate <= stated.interval.high
        rate = f"{counted.n_agreed} of {counted.n_evaluated} masks ({percent(counted.rate)})"
        where = "inside" if inside else "outside"
        yield f"Counted from inside the model, {rate} keep the prediction: {where} the stated interval."


def _canonical_key(model: Evaluator, result: Any, neighborhood: Any) -> int | None:
    """The key that the question would have had by itself; None if nothing was drawn."""
    if not _has_drawn(result):
        return None
    first, known = _first(result), model.provenance
    if isinstance(result, HardCertificate) and result.method in VOTED:
        if isinstance(model.model, SmoothedModel):
            known = model.model.base.provenance
        return stream_key(CANONICAL, "mus", known.model, known.input, known.masking)
    draws, masks = getattr(first, "draws", "hard"), [first.selected]
    if isinstance(first, RadiusCertificate):
        draws = "decision"
    if isinstance(result, Comparison):
        masks = [curve.certificates[0].selected for curve in result.curves]
    if isinstance(result, StableSelection):
        draws, masks = "stabilize", [np.ones_like(first.selected)]
    kind = {"neighborhood": neighborhood, "rate_kind": getattr(first, "rate_kind", "uniform")}
    return Procedure(Question.check({"radii": [0], **kind}), draws, 0, True, True).canonical_key(known, *masks)


def _notes(result: Any) -> Iterator[str]:
    first = _first(result)
    design = getattr(first, "design", None)
    if design is not None and first.plan != "hoeffding" and design not in set(shipped_designs().values()):
        yield "Its stopping design does not ship with holdfast; searching for it again gave the same one."
    max_draws = getattr(first, "max_draws", None)
    if max_draws is not None and max_draws != rate_test(first.min_rate, first.confidence).max_draws:
        yield f"Whoever made the file chose at most {max_draws} draws per radius, which is not the default."
    if isinstance(result, StableSelection):
        yield "The ranking was confirmed; the name of the method was not checked."
    if first.judge_errors is not None:
        yield "The errors of the judge were not checked: the file does not hold the human labels."
    if first.n_repeated == 0 and first.answers == "fixed":
        yield "No row was repeated: the model is assumed to be deterministic."

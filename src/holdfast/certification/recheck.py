"""A result and its model → the whole question asked again: a stored claim can be confirmed by anyone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.agreement import as_agreement
from holdfast.certification.comparison import compare
from holdfast.certification.curve import certify_radii
from holdfast.certification.hard import certify_hard
from holdfast.certification.radius import certified_radius
from holdfast.certification.single import certify
from holdfast.certification.stabilize import stabilize
from holdfast.certification.subject import Settings
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.mus import certify_mus
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.plans import PLANS, rate_test
from holdfast.plans.catalog import shipped_designs
from holdfast.randomness import CANONICAL, stream_key
from holdfast.results.certificate import Certificate
from holdfast.results.comparison import Comparison
from holdfast.results.curve import StabilityCurve
from holdfast.results.hard import VOTED, HardCertificate
from holdfast.results.radius import RadiusCertificate
from holdfast.results.recheck import Recheck
from holdfast.results.stable import StableSelection
from holdfast.results.values import Value
from holdfast.smoothing import SmoothedModel
from holdfast.types import MaskedModel, Progress

_N_MARGINS = 3


def recheck(
    model: MaskedModel,
    result: Value,
    *,
    agree: Any = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> Recheck:
    """Ask the whole question of a result again, with its random key, and compare every field.

    The same model, input and masking give the same result, up to ties in the model's arithmetic. Nothing
    that the result says of itself is taken on trust but the question: radii, tolerance, confidence, plan,
    and the random key. When to look and stop follows from the plan, as it ships.

    Parameters
    ----------
    model : MaskedModel
        The model and input the result is about.
    result : Certificate, StabilityCurve, RadiusCertificate, HardCertificate, Comparison or StableSelection
        What is to be confirmed. A certificate of a curve or a comparison is confirmed with the whole of it.
    agree : callable, optional
        Needed if the result was made with a function of the user's.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function, recheck
    >>> model = mask_function(lambda masks: masks.sum(axis=1) < 10, n_features=20)
    >>> cert = certify(model, np.arange(20) < 4, radius=8, rng=0)
    >>> recheck(model, cert).confirmed
    True
    """
    ask = _QUESTIONS.get(type(result))
    if ask is None:
        kinds = ", ".join(kind.__name__ for kind in _QUESTIONS)
        raise InvalidTypeError(f"`result` must be one of {kinds}, got {type(result).__name__}.")
    evaluator = model if isinstance(model, Evaluator) else Evaluator(model)
    options = {"batch_size": batch_size, "progress": progress}
    first = _first(result)
    judge = {} if first.agree == "same_top_class" and agree is None else {"agree": _agreement(first.agree, agree)}
    repeated = ask(evaluator, result, options | judge)
    return Recheck(
        stated=result,
        repeated=repeated,
        canonical_key=_canonical_key(evaluator, repeated, judge.get("agree", first.agree)),
        rng_key=first.rng_key,
        compares_cost=evaluator.deciding is None,
        notes=tuple(_notes(repeated)),
        smallest_margins=_margins(evaluator),
    )


def _agreement(name: str, given: Any) -> Any:
    try:
        return as_agreement(name if given is None else given)
    except InvalidValueError as error:
        raise InvalidValueError(f"`agree` must be given: the result was judged by {name!r}.") from error


def _first(result: Any) -> Any:
    """The part of a result that repeats the question."""
    if isinstance(result, Comparison):
        result = result.curves[0]
    if isinstance(result, StabilityCurve):
        return result.certificates[0]
    return result.certificate if isinstance(result, StableSelection) else result


def _again_certificate(model: Evaluator, stated: Certificate, options: dict[str, Any]) -> Certificate:
    if stated.draws != "single":
        whole = {"pooled": "curve", "paired": "comparison"}[stated.draws]
        raise InvalidValueError(f"`result` must be the whole {whole} that this certificate is a part of.")
    return certify(model, stated.selected, radius=stated.radius, **_question(stated), **options)


def _again_curve(model: Evaluator, stated: StabilityCurve, options: dict[str, Any]) -> StabilityCurve:
    first = stated.certificates[0]
    # A curve of worst sizes holds as a whole however it is asked for.
    simultaneous = stated.simultaneous and first.rate_kind != "worst_size"
    return certify_radii(
        model, first.selected, radii=stated.radii, simultaneous=simultaneous, **_question(first), **options
    )


def _again_comparison(model: Evaluator, stated: Comparison, options: dict[str, Any]) -> Comparison:
    masks = {name: stated.curve(name).certificates[0].selected for name in stated.names}
    question = _question(stated.curves[0].certificates[0])
    del question["rate_kind"]
    return compare(model, masks, stated.radii, **question, **options)


def _question(stated: Certificate) -> dict[str, Any]:
    names = ("tolerance", "confidence", "plan", "neighborhood", "rate_kind")
    return {name: getattr(stated, name) for name in names} | _common(stated)


def _common(stated: Any) -> dict[str, Any]:
    """Rows are repeated as before, or not at all; a random model is not to be confirmed by chance."""
    return {"check_determinism": stated.n_repeated > 0, "rng": stated.rng_key}


def _again_radius(model: Evaluator, stated: RadiusCertificate, options: dict[str, Any]) -> RadiusCertificate:
    return certified_radius(
        model,
        stated.selected,
        min_rate=stated.min_rate,
        confidence=stated.confidence,
        radii=[step.radius for step in stated.trail],
        max_draws=stated.max_draws,
        neighborhood=stated.neighborhood,
        **_common(stated),
        **options,
    )


def _again_stable(model: Evaluator, stated: StableSelection, options: dict[str, Any]) -> StableSelection:
    scores = np.empty(len(stated.ranking))
    scores[list(stated.ranking)] = np.arange(len(stated.ranking), 0, -1)
    repeated = stabilize(
        model,
        scores,
        min_rate=stated.min_rate,
        radius=stated.certificate.trail[0].radius,
        confidence=stated.confidence,
        sizes=stated.sizes,
        consistent=stated.needs_consistent,
        max_draws=stated.certificate.max_draws,
        check_determinism=stated.certificate.n_repeated > 0,
        rng=stated.certificate.rng_key,
        **options,
    )
    return replace(repeated, method=stated.method)


def _again_hard(model: Evaluator, stated: HardCertificate, options: dict[str, Any]) -> HardCertificate:
    if stated.method in VOTED:
        return _again_votes(model, stated, options)
    nearby = NEIGHBORHOODS[stated.neighborhood](stated.selected, stated.requested_radius)
    question: dict[str, Any] = {"max_enumerated": nearby.size if stated.method == "enumeration" else 0}
    if stated.tolerance is not None:
        question |= {"tolerance": stated.tolerance, "confidence": stated.confidence}
    return certify_hard(
        model,
        stated.selected,
        radius=stated.requested_radius,
        neighborhood=stated.neighborhood,
        **question,
        **_common(stated),
        **options,
    )


def _again_votes(model: Evaluator, stated: HardCertificate, options: dict[str, Any]) -> HardCertificate:
    options = {name: value for name, value in options.items() if name != "agree"}
    bank: dict[str, Any] = {}
    if not isinstance(model.model, SmoothedModel):
        if stated.method != "mus":
            raise InvalidValueError(
                "`model` must be the smoothed model itself: its random masks are not in the result."
            )
        bank = {"keep_probability": stated.keep_probability, "n_levels": stated.n_levels, "rng": stated.rng_key}
    removals = stated.consistent is not None
    return certify_mus(
        model, stated.selected, criterion=str(stated.criterion), input_removals=removals, **bank, **options
    )


_QUESTIONS: dict[type, Callable[[Evaluator, Any, dict[str, Any]], Any]] = {
    Certificate: _again_certificate,
    StabilityCurve: _again_curve,
    RadiusCertificate: _again_radius,
    HardCertificate: _again_hard,
    Comparison: _again_comparison,
    StableSelection: _again_stable,
}


def _has_drawn(result: Any) -> bool:
    """Whether chance played a part."""
    if isinstance(result, Comparison):
        return any(map(_has_drawn, result.curves))
    if isinstance(result, StabilityCurve):
        return any(map(_has_drawn, result.certificates))
    if isinstance(result, (RadiusCertificate, StableSelection)):
        return any(not step.exact for step in result.trail)
    return bool(result.method != "enumeration") if isinstance(result, HardCertificate) else not result.exact


def _canonical_key(model: Evaluator, result: Any, agree: Any) -> int | None:
    """The key that the question would have had by itself; None if nothing was drawn."""
    if not _has_drawn(result):
        return None
    first, known = _first(result), model.provenance
    if isinstance(result, HardCertificate) and result.method in VOTED:
        if isinstance(model.model, SmoothedModel):
            known = model.model.base.provenance
        return stream_key(CANONICAL, "mus", known.model, known.input, known.masking)
    decision = isinstance(first, RadiusCertificate)
    draws = "decision" if decision else "hard" if isinstance(first, HardCertificate) else first.draws
    plan = "decision" if decision else "hard" if draws == "hard" else first.plan
    settings = Settings.check(
        "stabilize" if isinstance(result, StableSelection) else draws,
        tolerance=1 - Fraction(str(first.min_rate)) if decision else first.tolerance,
        confidence=first.confidence,
        neighborhood=first.neighborhood,
        agree=agree,
        check_determinism=True,
        rng=0,
        plan=plan,
        plans=[*PLANS, "decision", "hard"],
        rate_kind=getattr(first, "rate_kind", "uniform"),
    )
    masks = [first.selected]
    if isinstance(result, Comparison):
        masks = [curve.certificates[0].selected for curve in result.curves]
    if isinstance(result, StableSelection):
        masks = [np.ones_like(first.selected)]
    return settings.canonical_key(known, *masks)


def _notes(result: Any) -> Iterator[str]:
    first = _first(result)
    design = getattr(first, "design", None)
    if design is not None and first.plan != "hoeffding" and design not in set(shipped_designs().values()):
        yield "Its rules of stopping do not ship with holdfast: they were searched for here, with the same outcome."
    if (
        isinstance(first, RadiusCertificate)
        and first.max_draws != rate_test(first.min_rate, first.confidence).max_draws
    ):
        yield f"Its maker chose at most {first.max_draws} draws per radius, which is not the default."
    if isinstance(result, StableSelection):
        yield "The name of the method is as the file gives it: what is confirmed is the ranking."
    if first.n_repeated == 0:
        yield "No row was repeated: the model is assumed to be deterministic."


def _margins(evaluator: Evaluator) -> tuple[float, ...]:
    """The smallest gaps between the two largest scores; none for labels and single scores."""
    if evaluator.deciding is not None:
        return ()
    outputs = evaluator.outputs
    if outputs.ndim == 1 or outputs.shape[1] < 2:
        return ()
    top = np.sort(outputs, axis=1)[:, -2:]
    return tuple(float(gap) for gap in np.sort(top[:, 1] - top[:, 0])[:_N_MARGINS])

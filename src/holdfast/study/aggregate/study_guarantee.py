"""A file of results and a question → for how many inputs the answer is yes, at least."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.bounds import certified_count, certified_share
from holdfast.certification.radius import certified_radius
from holdfast.errors import InvalidTypeError, InvalidValueError, StudyError
from holdfast.study.aggregate.columns import group_keys
from holdfast.study.aggregate.guarantee import DataSetGuarantee
from holdfast.study.curves import curve_inputs
from holdfast.study.engines.engine import naming_input
from holdfast.study.means import explained
from holdfast.study.spec import NO_TRUST, StudySpec, Trust
from holdfast.study.spec_file import spec_from_plain
from holdfast.study.status import StudyStatus, status_of
from holdfast.study.store import CURVE_KEY, OF_STUDY, CurveKey, Store
from holdfast.study.work import item_rng, study_inputs
from holdfast.terminal import as_progress
from holdfast.types import Progress
from holdfast.validation import check_name, check_share, check_whole, shown

LEVEL = 0.02
"""The risk of a wrong yes per input, unless another is asked for."""

_STORED = f"""
SELECT r.low, r.high, i.consistent FROM items i JOIN rates r USING (item)
WHERE ({CURVE_KEY}) = (?, ?, ?) AND i.{OF_STUDY} AND r.radius = ? ORDER BY i.input
"""


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
        often it cannot tell. At 0.02 a test of 0.9 takes 38 draws if all agree (22 at 0.1) and is nearly
        as likely to certify a rate of 0.95 as at 0.1; at 0.001 it takes 66, and finds only half of these.
    top_fraction, keep_probability : float, optional
        Which explanations, where the study has several cuts or smoothings.
    stored : bool
        Take the study's own certificates instead: no model is loaded or called. The level is then one minus
        their confidence and cannot be given, the radius must be one of the study's, and fewer inputs are certified.
    trust : Trust
        What the model that the file names may do when it is loaded: nothing but being read, unless said here.
    progress : bool or callable, optional
        True for a bar, or a function of (inputs done, inputs).

    Examples
    --------
    >>> study_guarantee("study.db", method="lime", radius=5, min_rate=1.0)
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `min_rate` must be a number strictly between 0 and 1, got 1.0.
    """
    question = _Question(
        check_whole(radius, "radius"),
        check_share(min_rate, "min_rate"),
        float(check_share(confidence, "confidence")),
        check_share(LEVEL if level is None else level, "level"),
    )
    if not isinstance(stored, bool):
        raise InvalidTypeError(argument="stored", must="be True or False", got=shown(stored))
    if stored and level is not None:
        raise InvalidValueError(
            argument="level",
            must="be left out if `stored`",
            got=f"{level}: stored certificates have that of their confidence",
        )
    watch = as_progress(progress, what="inputs")
    with nullcontext(results) if isinstance(results, Store) else Store(results) as store:
        key = _choose(store, method, top_fraction, keep_probability)
        with store.snapshot():
            status, inputs = status_of(store), curve_inputs(store, key)
            question = question.at_level_of(store) if stored else question
            answers = list(_stored(store, key, question)) if stored else []
        if not stored:  # takes long, and leaves the file to a writer meanwhile
            answers = list(_fresh(store, spec_from_plain(store.spec, trust), key, inputs, question, watch))
        return _guarantee(store, key, question, answers, status=status, source="stored" if stored else "fresh")


@dataclass(frozen=True)
class _Question:
    radius: int
    min_rate: Fraction
    confidence: float
    level: Fraction

    def at_level_of(self, store: Store) -> _Question:
        """The same, at the level of the study's certificates, which must be there."""
        asked = store.spec["certify"]
        if asked["precision"] != "per-input":
            raise InvalidValueError(
                argument="stored",
                must="be False for a study with precision 'data-set': it has no certificates of single inputs",
            )
        if self.radius not in asked["radii"]:
            radii = ", ".join(map(str, asked["radii"]))
            raise InvalidValueError(
                argument="radius", must=f"be one of the study's if `stored`, {radii}", got=self.radius
            )
        level = 1 - check_share(asked["confidence"], "certify.confidence")
        return _Question(self.radius, self.min_rate, self.confidence, level)


class _Answer(NamedTuple):
    """Whether the rate is large enough, None if that is not known; and whether the explanation is consistent."""

    certified: bool | None
    consistent: bool
    n_calls: int = 0


def _choose(store: Store, method: str, top_fraction: float | None, keep: float | None) -> CurveKey:
    """The group asked for; what is left open must leave no choice."""
    keys = group_keys(store.spec)
    check_name(method, "method", dict.fromkeys(key.method for key in keys))
    wanted = {"top_fraction": top_fraction, "keep_probability": keep}
    for name, value in wanted.items():
        there = sorted({getattr(key, name) for key in keys})
        if (value is None and len(there) > 1) or (value is not None and value not in there):
            raise InvalidValueError(argument=name, must=f"be one of {', '.join(map(str, there))}", got=shown(value))
        wanted[name] = there[0] if value is None else value
    return next(key for key in keys if key == (method, wanted["top_fraction"], wanted["keep_probability"]))


def _stored(store: Store, key: CurveKey, question: _Question) -> Iterator[_Answer]:
    """Whether the lower end of each stored interval is large enough, or the upper end too small.

    A certificate's interval misses the true rate with probability at most 1 - confidence, whatever that
    rate is, so a lower end of ``min_rate`` or more is as wrong a yes as that at most; and so is a no.
    """
    which = (*key, json.dumps(store.inputs()), question.radius)
    for low, high, consistent in store.query(_STORED, *which):
        certified = True if Fraction(repr(low)) >= question.min_rate else None
        yield _Answer(False if Fraction(repr(high)) < question.min_rate else certified, bool(consistent))


def _fresh(
    store: Store,
    spec: StudySpec,
    key: CurveKey,
    inputs: tuple[int, ...],
    question: _Question,
    watch: Progress | None,
) -> Iterator[_Answer]:
    every = study_inputs(spec)
    every.check_kinds()
    for n_done, index in enumerate(inputs, 1):
        with naming_input(index):
            model, selected = explained(spec, store, every, key, index)
            yield _test(spec, key, question, index, model, selected)
        if watch is not None:
            watch(n_done, len(inputs))


def _test(spec: StudySpec, key: CurveKey, question: _Question, index: int, model: Any, selected: Any) -> _Answer:
    """A one-sided test on a stream that belongs to this input and question, and to nothing the study drew."""
    asked = (str(question.radius), str(question.min_rate), str(question.level))
    found = certified_radius(
        model,
        selected,
        min_rate=question.min_rate,  # type: ignore[arg-type]
        confidence=1 - question.level,  # type: ignore[arg-type]
        radii=[question.radius],
        agree=spec.certify.agree,
        neighborhood=spec.certify.neighborhood,
        rng=item_rng(spec, "guarantee", index, key.name, *asked),
    )
    return _Answer(found.trail[0].answer, found.consistent, found.n_calls)


def _guarantee(
    store: Store, key: CurveKey, question: _Question, answers: list[_Answer], *, status: StudyStatus, source: str
) -> DataSetGuarantee:
    if not answers:
        raise StudyError(f"{str(store.path)!r} has no explanations by {key.method} yet. Run the study first.")
    spec, n, n_certified = store.spec, len(answers), sum(one.certified is True for one in answers)
    level, sure = float(question.level), question.confidence
    return DataSetGuarantee(
        *key,
        radius=question.radius,
        min_rate=float(question.min_rate),
        confidence=sure,
        level=level,
        share=certified_share(n_certified, n, level=level, confidence=sure) if store.speaks_of_population else None,
        count=certified_count(n_certified, n, level=level, confidence=sure),
        n_inputs=n,
        n_certified=n_certified,
        n_consistent=sum(one.consistent for one in answers),
        n_skipped=len(status.skips),
        n_missing=status.n_inputs - n - len(status.skips),
        n_calls=sum(one.n_calls for one in answers),
        source=source,
        neighborhood=spec["certify"]["neighborhood"],
        agree=spec["certify"]["agree"],
        model=spec["model"]["spec"],
        data=spec["data"]["spec"],
        n_refuted=sum(one.certified is False for one in answers),
    )

"""Many inputs and a method → how many leading features to select, so that explanations of new inputs are stable."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Unpack

import numpy as np

from holdfast.agreement import Agreement
from holdfast.attribution.methods import Attribution
from holdfast.calls import STEADY_BATCH_SIZE, asked_alone
from holdfast.certification.question import Procedure, RunKeywords, asks, radii_asked
from holdfast.certification.radius import decide_in_order
from holdfast.certification.reexplain import make_explainer
from holdfast.certification.reference import Reference, prediction_of
from holdfast.certification.selector import (
    CalibrationGoal,
    CalibrationGroup,
    Selector,
    check_level,
    cut_ranking,
    step_down,
)
from holdfast.completions import completions_of
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.gathering import are_apart, open_questions, run_together
from holdfast.plans import RateTest, rate_test
from holdfast.randomness import is_canonical, stream, stream_key
from holdfast.terminal import Shown, as_progress
from holdfast.types import Mask, MaskedModel, Provenance
from holdfast.validation import MOST_ENTRIES, check_flag, check_list, check_number, check_share, check_whole, shown
from holdfast.words import calls, counted, paragraph

_SIZES = tuple(tenth / 10 for tenth in range(9, 0, -1))

_LEVEL = 0.02
"""As for guarantees of studies: it costs a fiftieth of the inputs that may be unstable."""

_EXTRA_ROWS = 20
"""Rows of a test beside its draws: both predictions, repeats, and masks that show whether a structure is believed."""

_MOST_ENUMERATED = 4096
"""Most masks that are listed where only exact rates count."""


@dataclass(frozen=True)
class CalibrationPlan(Shown):
    """What a calibration needs and may cost, known before anything runs.

    ``fewest_inputs`` is how many inputs it takes if every one passes; ``n_needed`` how many of ``n_inputs`` must pass,
    None if they are too few. ``calls_if_stable`` are the model calls of one selection whose masks all agree, and
    ``most_calls`` those of all selections at worst; explanations come on top, and per class one call per input.
    """

    n_inputs: int
    n_needed: int | None
    fewest_inputs: int
    n_cuts: int
    calls_if_stable: int
    most_calls: int

    def __str__(self) -> str:
        if self.n_needed is None:
            are = "is" if self.n_inputs == 1 else "are"
            return f"{counted(self.n_inputs, 'input')} {are} too few: at least {self.fewest_inputs} are needed."
        sizes = f"all {self.n_cuts} sizes" if self.n_cuts > 1 else "its test"
        needed = f"{self.n_needed} of {counted(self.n_inputs, 'input')} must pass"
        stable = f"A stable selection takes about {self.calls_if_stable:,} model calls"
        return f"{needed}. {stable}, {sizes} at most {self.most_calls:,}."

    def explain(self) -> str:
        """What a calibration needs and may cost, in plain words."""
        return paragraph(
            "How many inputs does a calibration need, and how many model calls may it take?",
            f"It takes at least {self.fewest_inputs} inputs, and that many only if every one passes.",
            str(self),
            "An input passes if a certificate of its own shows that its explanation is stable.",
            "Explanations come on top, and one call per input if sizes are per class.",
            "These numbers follow from the question alone: no model was called.",
            "They do not say that any selection will pass.",
        )


def plan_calibration(
    n_inputs: int,
    *,
    min_rate: float,
    share: float,
    confidence: float = 0.9,
    sizes: Iterable[float] | None = None,
    thresholds: Iterable[float] | None = None,
    guarantee: str = "new inputs",
    level: float = _LEVEL,
    max_draws: int | None = None,
) -> CalibrationPlan:
    """Tell how many inputs a calibration needs and how many model calls it may take, before any model call.

    The arguments are those of ``calibrate``.

    Examples
    --------
    >>> plan = plan_calibration(100, min_rate=0.9, share=0.9)
    >>> plan.fewest_inputs, plan.n_needed
    (23, 95)
    """
    goal, n = CalibrationGoal.check(guarantee, share, level, confidence), check_whole(n_inputs, "n_inputs", minimum=1)
    cuts, n_needed = _check_cuts(sizes, thresholds)[1], goal.n_needed(n)
    test = _make_test(min_rate, level, max_draws)
    fewest, most = (_MOST_ENUMERATED,) * 2 if test is None else (test.fewest_for_yes, test.max_draws)
    stable = (n_needed or n) * (fewest + 2)
    return CalibrationPlan(n, n_needed, goal.fewest_inputs, len(cuts), stable, n * len(cuts) * (most + _EXTRA_ROWS))


@asks(RunKeywords)
def calibrate(
    inputs: Any,
    method: Any,
    *,
    radius: int | None = None,
    min_rate: float,
    share: float,
    confidence: float = 0.9,
    sizes: Iterable[float] | None = None,
    thresholds: Iterable[float] | None = None,
    guarantee: str = "new inputs",
    per_class: bool = False,
    level: float = _LEVEL,
    max_draws: int | None = None,
    absolute: bool = False,
    consistent: bool = True,
    options: Mapping[str, Any] | None = None,
    agree: Any = "same_top_class",
    neighborhood: Any = "additions",
    **keywords: Unpack[RunKeywords],
) -> Selector:
    """Find how many features explanations must have to be stable for inputs not yet seen, without certifying each.

    The sizes are tested on the calibration inputs, from the most features to the fewest, and the first that fails ends
    the search. With probability at least ``confidence``, at least ``share`` of all inputs from the same source have a
    stability rate of at least ``min_rate`` at the size that is returned. The inputs must be independent draws from
    that source (for ``guarantee="one input"`` it is enough that the new one could have been any of them), and
    everything asked must be chosen before results are seen.

    Parameters
    ----------
    inputs : Inputs or sequence of MaskedModel
        The calibration inputs, none of which chose method, sizes or model.
    method : str, callable or sequence
        A method of ``attribute`` by name; a function of (model, seed) that returns an ``Attribution`` or scores
        (n_features,); or one of these attributions or scores per input, made in the same way as those of new inputs.
    radius : int
        How many more features may be revealed, at least 1; of models that draw what is hidden also 0. It may be left
        out where ``neighborhood`` is an object, for as far as that goes.
    min_rate, share : float
        At least ``share`` of new inputs shall have a stability rate of at least ``min_rate``.
    confidence : float
        Of "new inputs"; "one input" needs none.
    sizes : iterable, optional
        Numbers of features, or fractions of them below 1; by default 0.1, 0.2, …, 0.9. A number beyond the features
        of an input means all of them; a fraction is rounded down, but selects at least one feature.
    thresholds : iterable, optional
        Scores above which features are selected, in place of sizes. An input where none is selected is judged as it is.
    guarantee : {"new inputs", "one input"}
        What is claimed: of a share of all new inputs, with confidence; or of one new input with probability ``share``,
        which needs fewer inputs.
    per_class : bool
        Find a size for every class predicted for the full input; the risk is shared among those seen. Classes with too
        few inputs get all features.
    level : float
        The probability with which an input may pass wrongly. It costs as large a part of the inputs that may be
        unstable, and the smaller it is the more draws an input takes. With 0 an input passes only if its rate is
        counted exactly.
    max_draws : int, optional
        Most draws per input and size.
    absolute : bool
        Rank by the size of the scores, not their sign.
    consistent : bool
        An input passes only if its selection alone has the prediction of the full input.
    options : mapping, optional
        Further arguments of ``attribute``, such as ``n_samples``.
    agree, neighborhood, batch_size, progress, check_determinism, rng
        See ``certify``; progress counts tests of an input with a size.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import calibrate, mask_function
    >>> model = mask_function(lambda masks: masks[:, :3].sum(axis=1) > 1, n_features=10)
    >>> selector = calibrate([model] * 30, "occlusion", radius=2, min_rate=0.9, share=0.9, rng=0)
    >>> selector.size, selector.select(np.arange(10)).nonzero()[0].tolist()
    (0.2, [8, 9])
    """
    goal, rate = CalibrationGoal.check(guarantee, share, level, confidence), check_share(min_rate, "min_rate")
    (by, cuts), test = _check_cuts(sizes, thresholds), _make_test(rate, level, max_draws)
    flags = {"per_class": per_class, "absolute": absolute, "consistent": consistent}
    per_class, absolute, consistent = (check_flag(flag, name) for name, flag in flags.items())
    if is_canonical(keywords.get("rng")):
        must = "be a seed, a generator or None: a calibration has no canonical seed"
        raise InvalidValueError(argument="rng", must=must, got="'canonical'")
    models = _check_inputs(inputs, goal)
    n_completions = completions_of(models[0])
    least = 1 if n_completions is None else 0
    if radius is not None:
        check_whole(radius, "radius", minimum=least)
    radii = radii_asked(radius, {"neighborhood": neighborhood})
    asked = {"radii": radii, "agree": agree, "neighborhood": neighborhood}
    procedure = Procedure.check(calibrate, "calibrate", keywords, **asked)
    if getattr(procedure.question.agree, "errors", None) is not None:
        must = "have no `errors` here: they apply to a single rate of a single explanation"
        raise InvalidValueError(argument="agree", must=must, got=procedure.question.agree.name)
    explain, method_name = _make_explain(models, method, {} if options is None else options)
    tests = InputTests(
        models,
        explain,
        procedure,
        lambda scores, step: cut_ranking(scores, by, cuts[step], absolute=absolute),
        test=rate if test is None else test,
        needs_consistent=consistent,
        is_nested=goal.guarantee == "one input",
        most=len(models) * len(cuts),
        has_radius=radius is not None,
    )
    try:
        members = tests.by_prediction() if per_class else {(None, None): range(len(models))}
        groups = []
        for (prediction, name), places in members.items():
            n_needed = goal.n_needed(len(places), len(members))
            trail = () if n_needed is None else step_down(cuts, places, n_needed, tests.passes)
            groups.append(CalibrationGroup(len(places), n_needed, trail, prediction, name))
    except KeyboardInterrupt as stop:
        stop.__notes__ = [f"Stopped after {calls(tests.n_calls)}."]
        raise
    finally:
        tests.finish()
    return Selector(
        by=by,
        cuts=cuts,
        groups=tuple(groups),
        guarantee=guarantee,
        radius=None if radius is None else procedure.question.radii[0],
        min_rate=float(rate),
        share=float(check_share(share, "share")),
        confidence=float(1 - goal.risk) if guarantee == "new inputs" else None,
        level=float(check_level(level)),
        absolute=absolute,
        needs_consistent=consistent,
        method=method_name,
        neighborhood=procedure.question.neighborhood.name,
        agree=tests.agree.name,
        max_draws=None if test is None else test.max_draws,
        n_calls=tests.n_calls,
        n_repeated=tests.n_repeated,
        rng_key=procedure.key,
        provenance=tests.provenance(),
        options=MappingProxyType(dict(options or {})),
        n_completions=n_completions,
        classes=Evaluator(models[0]).classes if per_class else None,
    )


Explain = Callable[[int, Evaluator, int], tuple[Any, int]]
"""The number of an input, its model and a key → scores, and what they cost beside rows of the evaluator."""


class InputTests:
    """Whether each input passes with a selection: explained and tested when that is first asked, and remembered.

    Every input has random streams of its own, so that the tests of different inputs are independent.
    """

    def __init__(
        self,
        models: Sequence[MaskedModel],
        explain: Explain,
        procedure: Procedure,
        select: Callable[[Any, int], Mask],
        *,
        test: RateTest | Fraction,
        needs_consistent: bool,
        is_nested: bool,
        most: int,
        has_radius: bool = True,
    ) -> None:
        self._models, self._explain, self._select, self._test = models, explain, select, test
        self._needs_consistent, self._is_nested, self._most = needs_consistent, is_nested, most
        self._watch, self._procedure = as_progress(procedure.progress, what="tests"), replace(procedure, progress=False)
        self._has_radius = has_radius
        # Models that are bound when they are asked for, each time anew, share nothing.
        is_held = isinstance(models, (list, tuple)) or models[0] is models[0]
        self._n_open = (
            1 if is_held and not are_apart(models) else open_questions(procedure.batch_size or STEADY_BATCH_SIZE)
        )
        self._scores: dict[int, Any] = {}
        self._answers: dict[tuple[int, int], bool] = {}
        self.agree: Agreement = procedure.question.agree
        self.n_calls = self.n_repeated = 0

    def passes(self, inputs: Sequence[int], step: int) -> list[bool]:
        """Whether each input passes with a selection; if nested, with all larger ones too."""
        waiting = iter(inputs)

        def is_passed(i: int) -> Iterator[tuple[int, bool]]:
            yield i, all(self._is_stable(i, tested) for tested in range(0 if self._is_nested else step, step + 1))

        def next_question(_wait: bool) -> Iterator[tuple[int, bool]] | None:
            i = next(waiting, None)
            return None if i is None else is_passed(i)

        answers = dict(run_together(next_question, n_open=self._n_open))
        return [answers[i] for i in inputs]

    def by_prediction(self) -> dict[tuple[Any, str | None], list[int]]:
        """The inputs of every class that is predicted for one in full."""
        members: dict[tuple[Any, str | None], list[int]] = {}
        for i, model in enumerate(self._models):
            with evaluating(model, batch_size=self._procedure.batch_size, progress=False) as evaluator:
                agree = self._procedure.bound(evaluator, np.ones(evaluator.n_features, dtype=bool)).question.agree
                output = evaluator(np.ones((1, evaluator.n_features), dtype=bool))[0]
                self.n_calls += evaluator.n_calls
                prediction = prediction_of(output, agree, evaluator.classes)
            if isinstance(prediction[0], float):
                must = "be False for a model that returns numbers instead of classes"
                raise InvalidValueError(argument="per_class", must=must, got="True")
            members.setdefault(prediction, []).append(i)
        return dict(sorted(members.items(), key=lambda entry: (str(type(entry[0][0])), entry[0][0])))

    def provenance(self) -> Provenance:
        """What all inputs share, and a fingerprint of all of them; None where one does not tell."""
        parts = [Evaluator(model).provenance for model in self._models]
        shared = {name: {getattr(part, name) for part in parts} for name in ("masking", "model")}
        inputs = [part.input for part in parts]
        whole = None if None in inputs else hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
        common = {name: values.pop() if len(values) == 1 else None for name, values in shared.items()}
        return Provenance(**common, input=whole)

    def finish(self) -> None:
        """No test follows."""
        if self._watch is not None:
            self._watch(self._most, self._most)

    def _is_stable(self, i: int, step: int) -> bool:
        if (i, step) in self._answers:
            return self._answers[i, step]
        model, key = self._models[i], stream_key(stream(self._procedure.key, "calibrate", str(i)))
        is_first = i not in self._scores
        # Rows are repeated with the first selection of an input: repeats with each would add nothing.
        own = replace(self._procedure, key=key, check_determinism=self._procedure.check_determinism and is_first)
        with evaluating(model, batch_size=own.batch_size, progress=False) as shared:
            if is_first:
                self._check_kind(shared)
                with asked_alone():
                    self._scores[i], n_beside = self._explain(i, shared, key)
                self.n_calls += n_beside
            mask = self._select(self._scores[i], step)
            mask.setflags(write=False)
            with own.evaluating(shared) as evaluator:
                procedure = own.bound(evaluator, mask)
                if not self._has_radius:
                    widest = procedure.question.widest(mask).radius
                    procedure = replace(procedure, question=replace(procedure.question, radii=(widest,)))
                reference = Reference(evaluator, mask, procedure)
                is_asked = reference.consistent or not self._needs_consistent
                self._answers[i, step] = is_asked and self._decide(reference, procedure, evaluator)
                evaluator.settle()
            self.agree, self.n_calls = procedure.question.agree, self.n_calls + shared.n_calls
            self.n_repeated += evaluator.n_repeated
        if self._watch is not None:
            self._watch(min(len(self._answers), self._most - 1), self._most)
        return self._answers[i, step]

    def _check_kind(self, evaluator: Evaluator) -> None:
        """Raise, before its first call, if an input's kind is not the first's, or the distribution does not fit it."""
        if (completions_of(evaluator) is None) != (completions_of(self._models[0]) is None):
            must = "either all have random fills or all have fixed ones"
            raise InvalidValueError(argument="inputs", must=must, got="both kinds")
        question = self._procedure.question
        radius = question.radii[0] if self._has_radius else None
        question.neighborhood_of(np.zeros(evaluator.n_features, dtype=bool), radius)

    def _decide(self, reference: Reference, procedure: Procedure, evaluator: Evaluator) -> bool:
        """Yes by a one-sided test; where there is only a rate, if all masks are counted, or few enough to be listed."""
        test, question = self._test, procedure.question
        if isinstance(test, RateTest):
            return bool(decide_in_order(question.radii, test, evaluator, reference, procedure)[0].answer)
        nearby = question.neighborhood_of(reference.selected, question.radii[0])
        outcome = reference.counted(nearby)
        if outcome is not None:
            return bool(outcome.rate >= test)
        if not question.enumerates(nearby, _MOST_ENUMERATED):
            return False
        return bool(reference.enumerated(nearby, evaluator.batch_size).rate >= test)


def _make_explain(models: Sequence[MaskedModel], method: Any, options: Any) -> tuple[Explain, str]:
    """How each input is explained, and what that is called."""
    try:
        if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
            raise TypeError
        json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidTypeError(argument="options", must="map names to numbers and texts", got=shown(options)) from error
    taken = [name for name in ("model", "method", "rng") if name in options]
    if taken:
        must = f"leave out `{taken[0]}`, which `calibrate` sets for each input"
        raise InvalidTypeError(argument="options", must=must, got=shown(options))
    if not isinstance(method, (list, tuple, np.ndarray)):
        explainer = make_explainer(method, dict(options))

        def explain(i: int, evaluator: Evaluator, key: int) -> tuple[Any, int]:
            before = evaluator.n_calls
            attribution = explainer(evaluator, key % 2**63)
            # Gradients go past the evaluator: what a method says of its calls, less the rows that were counted.
            return attribution, max(0, attribution.n_calls - (evaluator.n_calls - before))

        return explain, method if isinstance(method, str) else str(getattr(method, "__name__", "own method"))
    if options:
        raise InvalidValueError(argument="options", must="be left out if you pass scores", got=shown(options))
    if len(method) != len(models):
        must = f"be one attribution per input: there are {len(models)}"
        raise InvalidValueError(argument="method", must=must, got=len(method))
    for model, scores in zip(models, method, strict=True):
        n_scores, n_features = len(cut_ranking(scores, "size", None)), Evaluator(model).n_features
        if n_scores != n_features:
            must = f"have one score per feature: an input has {n_features}"
            raise InvalidValueError(argument="method", must=must, got=n_scores)
    names = {scores.method for scores in method if isinstance(scores, Attribution)}
    return lambda i, evaluator, key: (method[i], 0), names.pop() if len(names) == 1 else "the given scores"


def _check_inputs(inputs: Any, goal: CalibrationGoal) -> Sequence[MaskedModel]:
    """Enough masked models to give the guarantee at all."""
    must = "be masked models, such as `bind` returns"
    models = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str) else None
    models = check_list(inputs, "inputs", must) if models is None else models
    if isinstance(models, (list, tuple)):
        for model in models:
            if not isinstance(model, MaskedModel):
                raise InvalidTypeError(argument="inputs", must=must, got=shown(model))
    if goal.n_needed(len(models)) is None:
        hint = "A smaller `share` needs fewer, and so does `guarantee='one input'`."
        must = f"be at least {goal.fewest_inputs} for this `share`, `confidence` and `level`"
        raise InvalidValueError(argument="inputs", must=must, got=len(models), hint=hint)
    return models


def _check_cuts(sizes: Any, thresholds: Any) -> tuple[str, tuple[float, ...]]:
    """What cuts the ranking, and by how much, from the most features to the fewest."""
    if thresholds is not None:
        if sizes is not None:
            raise InvalidValueError(argument="thresholds", must="be left out if `sizes` are given")
        must = "be finite scores such as [0.0, 0.1]"
        numbers = check_list(thresholds, "thresholds", must, most=MOST_ENTRIES)
        values = {float(check_number(number, "thresholds", must, math.isfinite)) for number in numbers}
        by, cuts = "threshold", tuple(sorted(values))
    else:
        must = "be numbers of features such as range(1, 11), or fractions of them such as [0.1, 0.2]"
        numbers = check_list(_SIZES if sizes is None else sizes, "sizes", must, most=MOST_ENTRIES)
        are_shares = [bool(check_number(number, "sizes", must, math.isfinite) % 1) for number in numbers]
        if len(set(are_shares)) > 1:
            raise InvalidValueError(argument="sizes", must=must, got="both", hint="All features are never tested.")
        if any(are_shares):
            by, values = "fraction", {float(check_share(number, "sizes")) for number in numbers}
        else:
            by, values = "size", {check_whole(number, "sizes") for number in numbers}
        cuts = tuple(sorted(values, reverse=True))
    if not cuts:
        raise InvalidValueError(argument="sizes" if thresholds is None else "thresholds", must=must, got="none")
    return by, cuts


def _make_test(min_rate: Any, level: Any, max_draws: int | None) -> RateTest | None:
    """The test of one input, None if only exact rates count."""
    wrong = check_level(level)
    if wrong:
        return rate_test(min_rate, 1 - wrong, max_draws)
    check_share(min_rate, "min_rate")
    if max_draws is not None:
        raise InvalidValueError(
            argument="max_draws", must="be left out if `level` is 0: nothing is drawn", got=max_draws
        )
    return None

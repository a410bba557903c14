"""A masked model and a ranking of its features → a leading part of the ranking that is certified stable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.certification.question import Procedure, RunKeywords, asks, radii_asked
from holdfast.certification.radius import RadiusCertificate, decide_in_order, expected_draws, make_radius_certificate
from holdfast.certification.reference import Reference, check_proof, reference_masks
from holdfast.certification.serialization import Value
from holdfast.completions import completions_of
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, Tally
from holdfast.plans import RateTest, rate_test
from holdfast.selection import rank
from holdfast.types import Mask, MaskedModel, Masks
from holdfast.validation import check_label, check_list, check_whole, shown
from holdfast.words import (
    FIXED_BEFORE,
    NO_PROOF,
    but_unlike,
    by_judge,
    few_words,
    fitted,
    keeps,
    paragraph,
    sure,
    terms,
)

_N_SIZES = 16


@dataclass(frozen=True, eq=False)
class SizeStep(Value, schema="holdfast.size_step"):
    """What was found at one tested size of the selection.

    ``answer`` is True if the minimum rate was certified, False if a smaller rate was, None if the
    draws could not tell. ``consistent`` says whether the full input gets the same prediction, and ``proof`` what
    counted every mask from inside the model, if anything did.
    """

    size: int
    answer: bool | None
    n_agreed: int
    n_evaluated: int
    exact: bool
    prediction: Any
    consistent: bool
    prediction_name: str | None = None
    proof: str | None = None


@dataclass(frozen=True, eq=False)
class StableSelection(Value, schema="holdfast.stable_selection"):
    """The leading features of a ranking, as many as are certified stable.

    Sizes were tested from the full set downwards, on a grid fixed in advance, each by a one-sided
    exact sequential test at the full risk, and the first that was not certified ended the search.
    With probability at least ``confidence``, every size of the trail that was certified, this one
    included, has a stability rate of at least ``min_rate``. Nothing is said about other sizes: one
    with fewer features may be stable as well.

    Attributes
    ----------
    size : int
        How many of the leading features are selected.
    certificate : RadiusCertificate
        The claim about this selection.
    trail : tuple of SizeStep
        What was found at each tested size, from the full set downwards.
    sizes : tuple of int
        The grid, in the order of the tests.
    ranking : tuple of int
        All features, the highest score first.
    needs_consistent : bool
        Whether the search also ended where the prediction differs from that on the full input.
    """

    size: int
    certificate: RadiusCertificate
    trail: tuple[SizeStep, ...]
    sizes: tuple[int, ...]
    ranking: tuple[int, ...]
    needs_consistent: bool
    method: str
    n_calls: int

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        self.certificate.check()
        check_whole(self.n_calls, "n_calls")
        for step in self.trail:
            check_proof(step, step.proof)
        tested = tuple(step.size for step in self.trail)
        if tested != self.sizes[: len(tested)] or list(self.sizes) != sorted(set(self.sizes), reverse=True):
            raise InvalidValueError(argument="trail", must="follow `sizes`, which must decrease")
        passed = [bool(step.answer) and (step.consistent or not self.needs_consistent) for step in self.trail]
        if not passed or not all(passed[:-1]) or (not passed[-1] and len(passed) == 1):
            raise InvalidValueError(argument="trail", must="end at the first size that is not certified")
        last = self.trail[len(passed) - 1 - (not passed[-1])]
        if not self.size == last.size == int(self.selected.sum()) or not self.certificate.trail[-1].answer:
            raise InvalidValueError(argument="size", must="be the last certified one of the trail")
        check_label(self.method, "method")
        if sorted(self.ranking) != list(range(len(self.selected))):
            raise InvalidValueError(argument="ranking", must="name every feature once")
        if not self.selected[list(self.ranking[: self.size])].all():
            raise InvalidValueError(argument="certificate.selected", must="be the leading features of the ranking")

    @property
    def selected(self) -> Mask:
        """The selected features, Boolean (n_features,)."""
        return self.certificate.selected

    @property
    def min_rate(self) -> float:
        """The rate that is certified."""
        return self.certificate.min_rate

    @property
    def radius(self) -> int:
        """How many more features may be revealed."""
        return self.certificate.radius

    @property
    def confidence(self) -> float:
        """Of all the claims of the trail together."""
        return self.certificate.confidence

    def __str__(self) -> str:
        n, cert, method = len(self.selected), self.certificate, few_words(self.method)
        if self.size == n:
            return f"No selection by {method} with fewer than all {n} features is certified stable."
        return fitted(
            "{top}: stable in {stable}; {change} {keeps}{but}.",
            change=cert.changes(cert.trail[-1].effective_radius),
            stable=[cert.stability(), cert.stability().replace(" of cases", "")],
            but=but_unlike(cert),
            keeps=keeps("keeps", cert),
            top=[f"Top {self.size} of {n} features by {method}"]
            + [f"Top {self.size} by {few_words(method, most)}" for most in (4, 1)],
        )

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        cert, is_certain = self.certificate, all(step.exact for step in self.trail)
        change = cert.changes(cert.trail[-1].radius)[0]  # as asked: of all features none can be revealed
        said = [f"How few of the leading features by {few_words(self.method)} are still certified stable?"]
        said.append(f"Stable means: {change} {keeps('keeps', cert)[0]} in at least {sure(self.min_rate)} of cases.")
        said.append(f"{len(self.trail)} of {len(self.sizes)} sizes were tested, from all features downwards.")
        if not is_certain:
            said.append(
                f"All certified sizes are stable with probability at least {sure(self.confidence)} over the draws."
            )
            said += [FIXED_BEFORE, NO_PROOF]
        said.append(by_judge(cert, Interval(cert.min_rate, 1.0), cert.confidence))
        said.append("Another size, even a smaller one, may be stable too.")
        whole = replace(cert, n_calls=self.n_calls)
        return paragraph(*said, terms(whole, rate=cert.min_rate, drawn=not is_certain))


@asks(RunKeywords)
def stabilize(
    model: MaskedModel,
    attribution: Any,
    *,
    min_rate: float,
    radius: int | None = None,
    confidence: float = 0.9,
    sizes: Iterable[int] | None = None,
    absolute: bool = False,
    consistent: bool = True,
    max_draws: int | None = None,
    agree: Any = "same_top_class",
    reference: Any = None,
    neighborhood: Any = "additions",
    **keywords: Unpack[RunKeywords],
) -> StableSelection:
    """Cut a ranking of features where it is still certified stable.

    Selections of the leading features are tested from the full set downwards over a fixed grid of
    sizes, each by a one-sided exact sequential test of "the stability rate is at least ``min_rate``"
    at the full risk; the first that is not certified ends the search. A false claim needs a false
    "yes" at the first size whose rate is too small, so with probability at least ``confidence`` all
    certified sizes are truly stable. Going upwards until one passes would not be valid: each size
    would be one more chance of a false claim. Other sizes may be stable too; none is claimed to be
    the least.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features).
    attribution : Attribution or array (n_features,)
        Scores that rank the features; equal ones by index.
    min_rate : float
        Strictly between 0 and 1.
    radius : int
        How many more features may be revealed, at least 1; it may be left out where ``neighborhood`` is an object. Of
        a model that draws what is hidden also 0: the selection is then sufficient with probability ``min_rate``,
        whatever the rest may be.
    confidence : float
        Of all claims together.
    sizes : iterable of int, optional
        The grid, fixed in advance; by default 16 sizes evenly spaced. The full set is always part of
        it, and always stable.
    absolute : bool
        Rank by the size of the scores, not their sign.
    consistent : bool
        Also stop where the selection is predicted differently from the full input.
    max_draws : int, optional
        Most draws per size before the answer is "cannot tell".
    agree, reference, neighborhood, batch_size, progress, check_determinism, rng
        See ``certify``.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, stabilize
    >>> model = mask_function(lambda masks: masks[:, :4].sum(axis=1) > 2, n_features=20)
    >>> stable = stabilize(model, np.arange(20, 0, -1), min_rate=0.9, radius=3, rng=0)
    >>> stable.size, stable.certificate.prediction
    (3, True)
    """
    test = rate_test(min_rate, confidence, max_draws)
    if radius is not None:
        check_whole(radius, "radius", minimum=1 if completions_of(model) is None else 0)
    asked = {"neighborhood": neighborhood}
    radii = radii_asked(radius, asked)
    ranking = rank(attribution, absolute=absolute)
    n_features = len(ranking)
    if sizes is None:
        numbers = {-(-n_features * i // _N_SIZES) for i in range(1, _N_SIZES + 1)}
    else:
        numbers = {check_whole(n, "sizes") for n in check_list(sizes, "sizes", "be whole numbers such as range(1, 11)")}
    if max(numbers, default=0) > n_features:
        must = f"be at most the number of features, {n_features}"
        raise InvalidValueError(argument="sizes", must=must, got=max(numbers))
    grid = sorted(numbers | {n_features}, reverse=True)
    procedure = Procedure.check(
        stabilize,
        "stabilize",
        keywords,
        **{"radii": radii, "agree": agree, "reference": reference, "confidence": confidence, **asked},
    )
    with procedure.evaluating(model) as evaluator:
        if evaluator.n_features != len(ranking):
            must = f"have one score per feature: the model has {evaluator.n_features}"
            raise InvalidValueError(argument="attribution", must=must, got=len(ranking))
        everything = np.ones(len(ranking), dtype=bool)
        procedure = procedure.bound(evaluator, everything)
        if radius is None:
            radii = [procedure.question.widest(~everything).radius]
        procedure.question.neighborhood_of(~everything, radii[0])  # what is wrong with it is said before any call
        calls_before, given = evaluator.n_calls, procedure.question.reference
        evaluator.expect(len(grid) * test.max_draws)
        trail: list[SizeStep] = []
        # Fixed-sequence testing: go on to fewer features while the answer is yes. All features shown,
        # there is nothing to reveal: stable without a draw.
        selections, n_known = [_leading(ranking, size) for size in grid], 0
        for size, mask in zip(grid, selections, strict=True):
            if n_known == len(trail):
                before = Tally(trail[-1].n_agreed, trail[-1].n_evaluated) if trail else Tally(1, 1)
                n_known += _compute_ahead(selections[n_known:], radii[-1], test, evaluator, procedure, before)
            # One repeated row shows whether the model is deterministic; one per size would add nothing.
            checked = replace(procedure, check_determinism=procedure.check_determinism and len(trail) == 1)
            kept = Reference(evaluator, mask, checked)
            if not trail and given is not None and not kept.consistent:
                must, got = "be the prediction of the full input", f"{shown(given)}, which differs"
                raise InvalidValueError(argument="reference", must=must, got=got)
            step = decide_in_order(radii, test, evaluator, kept, procedure)[0]
            certificate = make_radius_certificate(kept, [step], test, procedure)
            counts = (step.n_agreed, step.n_evaluated, step.exact)
            about = (kept.prediction, kept.consistent, kept.prediction_name)
            trail.append(SizeStep(size, step.answer, *counts, *about, proof=step.proof))
            if len(trail) > 1 and not (step.answer and (kept.consistent or not consistent)):
                break
            stable = certificate
        return StableSelection(
            size=int(stable.selected.sum()),
            certificate=replace(stable, n_repeated=evaluator.n_repeated),
            trail=tuple(trail),
            sizes=tuple(grid),
            ranking=tuple(int(feature) for feature in ranking),
            needs_consistent=consistent,
            method=str(getattr(attribution, "method", "the given scores")),
            n_calls=evaluator.n_calls - calls_before,
        )


def _leading(ranking: NDArray[np.intp], size: int) -> Mask:
    """The first features of a ranking, Boolean (n_features,)."""
    mask = np.zeros(len(ranking), dtype=bool)
    mask[ranking[:size]] = True
    mask.setflags(write=False)
    return mask


def _compute_ahead(
    selections: Sequence[Mask], radius: int, test: RateTest, evaluator: Evaluator, procedure: Procedure, before: Tally
) -> int:
    """Compute what the tests of some selections take, if a call takes as long as that; of how many it was done.

    As many draws are taken to agree as of those before. Selections after the first may never be tested: they take no
    longer than the call that they save.
    """
    question = procedure.question
    first = reference_masks(selections[0], question.n_completions)
    is_countable = procedure.structure is not None and procedure.structure.countable is not None
    ahead = None if is_countable else evaluator.ahead(first)
    if ahead is None:
        return 1
    rows, room = list[Masks](), ahead.room
    for selected in selections:
        nearby, masks = question.neighborhood_of(selected, radius), [reference_masks(selected, question.n_completions)]
        if not question.enumerates(nearby, test.fewest_for_yes):
            draws = expected_draws(selected, nearby, test, procedure, before=before, room=room)
            if draws is None:
                break
            masks.append(draws)
        room -= sum(map(len, masks))
        if rows and room < 0:
            break
        room = room if rows else min(room, ahead.worth)
        rows.append(np.concatenate(masks))
    if rows:
        evaluator.compute_ahead(np.concatenate(rows))
    return max(1, len(rows))

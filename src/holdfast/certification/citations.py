"""A context and the passages that an answer cites → whether they are enough for it, and whether it needs them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Unpack

import numpy as np

from holdfast.attribution.methods import attribute
from holdfast.bounds import Interval
from holdfast.certification.certificate import Certificate, certify, known_rate
from holdfast.certification.question import PlanKeywords, Procedure, asks, own_terms
from holdfast.certification.serialization import Value
from holdfast.certification.stabilize import StableSelection, stabilize
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.judging import cited_in
from holdfast.randomness import is_canonical, stream_key
from holdfast.terminal import Pictured
from holdfast.types import Mask, MaskedModel
from holdfast.validation import check_flag, check_list, check_mask, check_whole, shown
from holdfast.witness import Witness, find_witness
from holdfast.words import (
    NO_PROOF,
    NOT_RIGHT,
    calls,
    counted,
    exact_share,
    few_words,
    fitted,
    listed,
    named,
    outward,
    paragraph,
    percent,
    scope,
    shares,
    sure,
)

_MOST_SEARCHED = 512
"""Most prompts for the fewest passages that change an answer: each may be paid for."""


@dataclass(frozen=True, eq=False)
class CitationCertificate(Pictured, Value, schema="holdfast.citation_certificate"):
    """Whether the passages that an answer cites are enough for it, and whether the answer needs them.

    Each of the claims (``sufficiency``, ``necessity``, ``enough``) has its ``confidence`` on its own. They are about
    this model, question, passages and template, and do not say that the answer is right.

    Attributes
    ----------
    answer : str
        What is to be kept: the reference.
    cited : Boolean array (n_passages,)
        The passages that the answer cites.
    sufficiency : Certificate
        How often the answer stays when other passages are shown beside the cited ones.
    necessity : Certificate
        How often the answer stays although the cited passages are hidden, and some of the others: the fewer, the more
        it needs them. ``necessity_rate`` and ``necessity_interval`` are how often it is lost.
    witness : Witness or None
        The fewest other passages found that change the answer when they are shown as well; as many are tried as give
        at most 512 prompts. None if it was not asked for, if the cited passages alone give another answer, or if
        answers are random.
    enough : StableSelection or None
        A set of passages that is certified to keep the answer, as few as were certified. None if it was not asked for,
        if all passages together give another answer, or if answers are random.
    n_calls : int
        Prompts that were computed for all of this together.
    prompt_tokens, completion_tokens : int or None
        What the language model read and wrote for it, answers from a cache included; None if it does not report them.
    whole_answer : str or None
        What the model answers with all passages shown; None if answers are random.
    is_whole : bool or None
        Whether that counts as the answer that is to be kept; None if answers are random.
    """

    question: str
    answer: str
    cited: Mask
    passages: tuple[str, ...]
    sufficiency: Certificate
    necessity: Certificate
    witness: Witness | None
    enough: StableSelection | None
    n_calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    whole_answer: str | None
    is_whole: bool | None

    def check(self) -> None:
        """Raise if the parts are not about one answer and its citations."""
        check_mask(self.cited, "cited", n_features=len(self.passages))
        self.sufficiency.check()
        self.necessity.check()
        hidden = self.necessity.selected
        if not np.array_equal(self.sufficiency.selected, self.cited) or not np.array_equal(hidden, ~self.cited):
            raise InvalidValueError(argument="cited", must="be what `sufficiency` shows and `necessity` hides")
        kinds = (self.sufficiency.neighborhood, self.necessity.neighborhood)
        if kinds != ("additions", "removals"):
            must = "be additions for `sufficiency` and removals for `necessity`"
            raise InvalidValueError(argument="neighborhood", must=must)
        parts = [self.sufficiency, self.necessity]
        if self.witness is not None:
            self.witness.check()
            parts.append(self.witness)  # type: ignore[arg-type]
        if self.enough is not None:
            self.enough.check()
            parts.append(self.enough.certificate)  # type: ignore[arg-type]
        if any(part.reference != self.answer or part.provenance != self.sufficiency.provenance for part in parts):
            raise InvalidValueError(argument="answer", must="be the reference of every part, about one context")
        same = ("agree", "tolerance", "confidence", "plan", "answers", "judge_errors", "radius", "rate_kind", "draws")
        asked = [[getattr(certificate, name) for name in same] for certificate in (self.sufficiency, self.necessity)]
        later = [part.agree for part in parts[2:]]
        if asked[0] != asked[1] or any(agree != self.sufficiency.agree for agree in later):
            raise InvalidValueError(argument="necessity", must="answer the same question as `sufficiency`")
        if self.enough is not None and self.enough.confidence != self.sufficiency.confidence:
            raise InvalidValueError(argument="enough", must="have the confidence of `sufficiency`")
        if self.sufficiency.answers == "random" and (self.witness, self.enough) != (None, None):
            raise InvalidValueError(argument="witness", must="be None for random answers, and so must `enough`")

    @property
    def consistent(self) -> bool:
        """Whether the cited passages alone give the answer."""
        return self.sufficiency.consistent

    @property
    def is_lost(self) -> bool:
        """Whether the answer is lost when nothing but the cited passages is hidden."""
        return not self.necessity.consistent

    @property
    def necessity_rate(self) -> float:
        """How often the answer is lost without the cited passages."""
        return 1 - self.necessity.rate

    @property
    def necessity_interval(self) -> Interval:
        """Where the true share of lost answers lies, a judge's errors included."""
        low, high = self.necessity.true_interval
        return Interval(1 - high, 1 - low)

    def __str__(self) -> str:
        cites = f"the {counted(int(self.cited.sum()), 'cited passage')} of {len(self.passages)}"
        wrong = "" if self.is_whole is not False else "; with all passages shown it answers otherwise"
        alone = "" if self.consistent or not self.sufficiency.effective_radius else "; alone they give another answer"
        return fitted(
            "{answer}: {cites} {are} enough in {enough} and needed in {needed} ({known}){alone}{wrong}.",
            are=["is" if self.cited.sum() == 1 else "are"],
            enough=[_cases(self.sufficiency), _cases(self.sufficiency).removesuffix(" of cases")],
            needed=[_cases(self.necessity, lost=True), _cases(self.necessity, lost=True).removesuffix(" of cases")],
            wrong=[wrong, wrong and "; all passages give another answer", wrong and "; all passages differ"],
            alone=[alone, alone and "; alone they differ"],
            cites=[cites, f"the {int(self.cited.sum())} cited of {len(self.passages)}"],
            known=[self._how_sure],
            answer=[f"Answer {named(self.answer, None)}", "Answer"],
        )

    @property
    def _how_sure(self) -> str:
        judged = "" if self.sufficiency.judge_errors is None else ", judge's errors included,"
        least = min(self.sufficiency.true_confidence, self.necessity.true_confidence)
        known = f"{sure(least)} confidence{judged} each"
        return "exact" if self.sufficiency.exact and self.necessity.exact and not judged else known

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        shown, hidden = (certificate.effective_radius for certificate in (self.sufficiency, self.necessity))
        said = [f"Are the cited passages {_numbers(self.cited)} enough for the answer, and needed?"]
        others = f"with up to {counted(shown, 'other')} shown as well" if shown else "shown alone"
        said.append(f"Enough: {others}, the answer stays in {_cases(self.sufficiency)}.")
        without = (
            f"Without them, and up to {counted(hidden, 'other')}, it is lost in {_cases(self.necessity, lost=True)}."
        )
        said.append(f"Needed: {without[0].lower()}{without[1:]}")
        if self.is_whole is False:
            said.append(f"With all passages shown the model answers {named(self.whole_answer, None)}.")
        if self.witness is not None and self.witness.mask is not None:
            changed, added = named(self.witness.prediction, None), _numbers(self.witness.mask & ~self.cited)
            said.append(f"Showing {added} as well changes the answer to {changed}.")
        elif self.witness is not None:
            n_others = counted(self.witness.max_radius, "other passage")
            never = "never changes it" if self.witness.proven else "changed it in no case that was tried"
            said.append(f"Showing up to {n_others} as well {never}.")
        if self.enough is not None:
            kept = self.enough.certificate
            interval, joint = kept.by_people(Interval(kept.min_rate, 1.0), kept.confidence)
            known = "" if kept.is_certain else f" ({sure(joint)} confidence)"
            least = percent(outward(interval).low)
            chosen = _numbers(self.enough.selected)
            said.append(f"Certified to be enough in at least {least} of cases{known}: {chosen}.")
        if self._how_sure != "exact":
            said.append(f"Each of these holds with {self._how_sure.removesuffix(' each').rstrip(',')}, over the draws.")
            said.append(NO_PROOF)
        if self.sufficiency.agree not in ("same_answer", "same_top_class"):
            said.append(f"Answers are judged by {few_words(self.sufficiency.agree)}.")
        tokens = ""
        if self.prompt_tokens is not None and self.completion_tokens is not None:
            tokens = f", {self.prompt_tokens:,} tokens read and {self.completion_tokens:,} written"
        about = scope(of="this model, question, passages and template")
        return paragraph(*said, f"It took {calls(self.n_calls)}{tokens}.", about, NOT_RIGHT)


def _numbers(mask: Mask) -> str:
    """Passages by their numbers: '[1], [3] and [4]'."""
    return listed(f"[{place + 1}]" for place in np.flatnonzero(mask)) if mask.any() else "none"


def _cases(certificate: Certificate, *, lost: bool = False) -> str:
    """How often the answer is kept, or lost."""
    low, high = certificate.true_interval
    if certificate.exact and certificate.judge_errors is None:
        rate = known_rate(certificate)
        return exact_share(1 - rate if lost else rate).removeprefix("exactly ")
    return f"{shares(Interval(1 - high, 1 - low) if lost else Interval(low, high))} of cases"


@asks(PlanKeywords)
def certify_citations(
    context: Any,
    cited: Any,
    *,
    radius: int | None = None,
    min_rate: float | None = 0.9,
    witness: bool = True,
    scores: Any = None,
    **keywords: Unpack[PlanKeywords],
) -> CitationCertificate:
    """Certify whether the passages that an answer cites are enough for it, and whether the answer needs them.

    Enough (sufficiency): the cited passages are shown, and up to ``radius`` others at random; how often does the
    answer stay? Needed (necessity): the cited passages are hidden, and up to ``radius`` others at random; how often is
    the answer lost? Both rates are within ``tolerance`` of the true ones with probability ``confidence`` each, and
    exact where there are few passages. Nothing is said of whether the answer is right.

    Parameters
    ----------
    context : ContextModel
        From ``mask_context``, with its passages as features; its ``reference`` is the answer, or else what the model
        answers with all passages shown.
    cited : list of int, Boolean array or str
        The passages that the answer cites: their numbers from 1, a mask, or the answer with its citations, such as
        "84 metres [2]".
    radius : int, optional
        Most other passages that are shown, or hidden, as well; all of them if None.
    min_rate : float, optional
        The rate at which a smaller set of passages is certified to be enough; None looks for none.
    witness : bool
        Whether to search for the fewest other passages that change the answer. With many passages this and
        ``min_rate`` cost most of the calls: leave both out where calls are dear.
    scores : Attribution or array (n_passages,), optional
        The order in which passages are kept in that smaller set, the largest first; by default the cited ones first,
        each by what leaving it out alone changes.
    tolerance, confidence, plan, agree, reference, answers, batch_size, progress, check_determinism, rng : optional
        See ``certify``. The errors of a judge must hold for the answers of both rates.

    Returns
    -------
    CitationCertificate
        Prints as a few sentences; JSON both ways; ``recheck`` confirms it.

    Examples
    --------
    >>> import holdfast as hf
    >>> def ask(prompt):
    ...     return "84 metres" if "tower" in prompt.split("Question")[0] else "I do not know"
    >>> passages = ["Velm has a market.", "The tower of Velm is 84 metres tall.", "It rains in Velm."]
    >>> context = hf.mask_context(ask, passages, question="How tall is the tower?", reference="84 metres")
    >>> result = hf.certify_citations(context, [2])
    >>> result.sufficiency.rate, result.necessity_rate, result.enough.size
    (1.0, 1.0, 1)
    """
    model = Evaluator(context).answering if isinstance(context, MaskedModel) else None
    if model is None:
        must = "be a context, from `mask_context`"
        raise InvalidTypeError(argument="context", must=must, got=type(context).__name__)
    features = getattr(getattr(model, "context", None), "features", "passages")
    if features != "passages":
        must = "have passages as features: citations are numbers of passages"
        raise InvalidValueError(argument="context", must=must, got=features)
    if "neighborhood" in keywords:
        must = "be left out: citations are tested by additions and by removals"
        raise InvalidValueError(argument="neighborhood", must=must, got=shown(keywords["neighborhood"]))
    reach = None if radius is None else check_whole(radius, "radius")
    check_flag(witness, "witness")
    procedure = Procedure.check(certify_citations, "single", keywords, radii=[reach or 0])
    if not is_canonical(keywords.get("rng")):  # one key for all parts
        keywords["rng"] = stream_key(keywords.get("rng"))
    with evaluating(context, batch_size=procedure.batch_size, progress=procedure.progress) as shared:
        mask = check_cited(cited, shared)
        before = model.tokens
        agree, answer = own_terms(shared, procedure.question.agree, procedure.question.reference)
        if answer is None:  # what the model says of everything, fixed before any draw
            answer = shared(np.ones((1, shared.n_features), dtype=bool))[0]
        if not str(answer).strip():
            raise ModelError("The model's answer to the whole context is empty. Raise `max_tokens` if it was cut off.")
        options: dict[str, Any] = {
            **keywords,
            "agree": agree,
            "reference": answer,
            "batch_size": None,
            "progress": None,
        }
        n_others = int((~mask).sum())
        within = n_others if reach is None else min(reach, n_others)
        enough = certify(shared, mask, radius=within, **options)
        needed = certify(shared, ~mask, radius=within, neighborhood="removals", **options)
        judging: dict[str, Any] = {name: options[name] for name in ("agree", "reference", "rng") if name in options}
        is_fixed, searched, smaller = procedure.question.answers == "fixed", None, None
        if witness and is_fixed and enough.consistent:
            searched = find_witness(shared, mask, max_radius=_witness_radius(n_others), **judging)
        whole = shared(np.ones((1, shared.n_features), dtype=bool)) if is_fixed else None
        is_whole = None if whole is None else bool(agree(whole, answer)[0])
        if min_rate is not None and within and is_whole:
            order = _ranked(shared, mask, agree, answer) if scores is None else scores
            judging["confidence"] = float(procedure.question.confidence)
            smaller = stabilize(shared, order, min_rate=min_rate, radius=within, **judging)
        tokens = zip(before, model.tokens, strict=True)
        spent = [None if was is None or now is None else now - was for was, now in tokens]
        return CitationCertificate(
            question=model.question,
            answer=answer,
            cited=mask,
            passages=shared.feature_names or (),
            sufficiency=enough,
            necessity=needed,
            witness=searched,
            enough=smaller,
            n_calls=shared.n_calls,
            prompt_tokens=spent[0],
            completion_tokens=spent[1],
            whole_answer=None if whole is None else str(whole[0]),
            is_whole=is_whole,
        )


def check_cited(cited: Any, context: Evaluator) -> Mask:
    """The passages that are cited, as a mask, at least one."""
    n = context.n_features
    if isinstance(cited, str):
        mask = np.array(cited_in(cited, n, argument="cited"))
    elif isinstance(cited, np.ndarray) and cited.dtype == np.bool_:
        mask = np.array(check_mask(cited, "cited", n_features=n))
    else:
        must = f"be numbers of passages from 1 to {n}"
        mask = np.zeros(n, dtype=bool)
        for number in check_list(cited, "cited", must):
            place = check_whole(number, "cited")
            if not 1 <= place <= n:
                raise InvalidValueError(argument="cited", must=must, got=shown(number))
            mask[place - 1] = True
    if not mask.any():
        hint = "Cite passages by their numbers from 1: 'the answer [2]', or [2]."
        raise InvalidValueError(argument="cited", must="name at least one passage", got="none", hint=hint)
    mask.setflags(write=False)
    return mask


def _witness_radius(n_others: int) -> int:
    """How many other passages are shown at most in the search for those that change the answer: all if they are few."""
    sizes = accumulate(math.comb(n_others, size) for size in range(n_others + 1))
    return max(1, sum(total <= _MOST_SEARCHED for total in sizes) - 1)


def _ranked(context: Evaluator, cited: Mask, agree: Any, answer: Any) -> Any:
    """Scores by which cited passages come first, each by what leaving it out changes."""
    model = context.answering
    if model is not None and model.scores is not None and model.reference == answer:
        left_out = attribute(context, "occlusion").scores
    else:
        left_out = ~agree(context(~np.eye(len(cited), dtype=bool)), answer)
    places = np.empty(len(cited))
    places[np.lexsort((left_out, cited))] = np.arange(len(cited))
    return places

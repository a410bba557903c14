"""A context and the passages that an answer cites → whether they are enough for it, and whether it needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from holdfast.attribution.methods import attribute
from holdfast.bounds import Interval
from holdfast.certification.certificate import Certificate, certify
from holdfast.certification.question import PlanKeywords, Procedure, asks, own_terms
from holdfast.certification.serialization import Value
from holdfast.certification.stabilize import StableSelection, stabilize
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.judging import read_citations
from holdfast.randomness import is_canonical, stream_key
from holdfast.types import Mask, MaskedModel
from holdfast.validation import check_flag, check_list, check_mask, check_whole, shown
from holdfast.witness import Witness, find_witness
from holdfast.words import calls, listed, percent, quoted, span


@dataclass(frozen=True, eq=False)
class CitationCertificate(Value, schema="holdfast.citation_certificate"):
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
        The fewest other passages found that change the answer when they are shown as well. None if it was not asked
        for, if the cited passages alone give another answer, or if answers are random.
    enough : StableSelection or None
        A set of passages that is certified to keep the answer, as few as were certified. None if it was not asked for,
        if all passages together give another answer, or if answers are random.
    n_calls : int
        Prompts that were computed for all of this together.
    prompt_tokens, completion_tokens : int or None
        What the language model read and wrote for it, answers from a cache included; None if it does not report them.
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
        """Where the true share of lost answers lies at this confidence."""
        low, high = self.necessity.interval
        return Interval(1 - high, 1 - low)

    def __str__(self) -> str:
        cited, n_others = _numbers(self.cited), int((~self.cited).sum())
        lines = [f"The answer {quoted(self.answer, None)} cites {cited} of {len(self.passages)} passages."]
        alone = "" if self.consistent else " The cited passages alone give another answer."
        others = f"with up to {self.sufficiency.effective_radius} others" if n_others else "alone"
        lines.append(f"Enough? Shown {others}, they keep the answer in {_cases(self.sufficiency)}.{alone}")
        without = f"Without them the answer is {'lost' if self.is_lost else 'kept'}. "
        without = without if self.necessity.answers == "fixed" else ""
        others = f"Without them and up to {self.necessity.effective_radius} others"
        lines.append(f"Needed? {without}{others} it is lost in {_lost_cases(self)}.")
        if self.witness is not None:
            added = _numbers(self.witness.mask & ~self.cited) if self.witness.mask is not None else ""
            fewest = " No fewer passages do." if self.witness.proven else ""
            found = f"Showing {added} as well changes the answer to {quoted(self.witness.prediction, None)}.{fewest}"
            none = "No other passages change it." if self.witness.proven else "None was found that changes it."
            lines.append(found if self.witness.found else none)
        if self.enough is not None:
            rate, shown_alone = percent(self.enough.min_rate), _numbers(self.enough.selected)
            lines.append(f"Certified to be enough in at least {rate} of cases: {shown_alone}.")
        tokens = ""
        if self.prompt_tokens is not None and self.completion_tokens is not None:
            tokens = f", {self.prompt_tokens:,} tokens read and {self.completion_tokens:,} written"
        steps = () if self.enough is None else self.enough.trail
        is_proven = all(part.exact for part in (self.sufficiency, self.necessity, *steps))
        sure = "All of it is exact" if is_proven else f"Each claim has confidence {self.sufficiency.confidence}"
        lines.append(f"{sure}; {calls(self.n_calls)}{tokens}.")
        return "\n".join(lines)


def _numbers(mask: Mask) -> str:
    """Passages by their numbers: '[1], [3] and [4]'."""
    return listed(f"[{place + 1}]" for place in np.flatnonzero(mask)) if mask.any() else "none"


def _cases(certificate: Certificate) -> str:
    counts = f"{certificate.n_agreed} of {certificate.n_evaluated}"
    if certificate.exact:
        return f"exactly {counts} cases"
    return f"{span(certificate.interval)} of cases ({counts} draws)"


def _lost_cases(result: CitationCertificate) -> str:
    kept = result.necessity
    counts = f"{kept.n_evaluated - kept.n_agreed} of {kept.n_evaluated}"
    if kept.exact:
        return f"exactly {counts} cases"
    return f"{span(result.necessity_interval)} of cases ({counts} draws)"


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
        Whether to search for the fewest other passages that change the answer.
    scores : Attribution or array (n_passages,), optional
        The order in which passages are kept in that smaller set, the largest first; by default the cited ones first,
        each by what leaving it out alone changes.
    tolerance, confidence, plan, agree, reference, answers, batch_size, progress, check_determinism, rng
        See ``certify``.

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
    if "neighborhood" in keywords:
        must = "be left out: citations are asked about both ways"
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
            searched = find_witness(shared, mask, **judging)
        everything = np.ones((1, shared.n_features), dtype=bool)
        if min_rate is not None and within and is_fixed and agree(shared(everything), answer)[0]:
            order = _ranked(shared, mask) if scores is None else scores
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
        )


def check_cited(cited: Any, context: Evaluator) -> Mask:
    """The passages that are cited, as a mask, at least one."""
    n = context.n_features
    if isinstance(cited, str):
        mask = read_citations(cited, n)
    elif isinstance(cited, np.ndarray) and cited.dtype == np.bool_:
        mask = np.array(check_mask(cited, "cited", n_features=n))
    else:
        must = f"be numbers of passages from 1 to {n}"
        mask = np.zeros(n, dtype=bool)
        for number in check_list(cited, "cited", must):
            place = check_whole(number, "cited", minimum=1)
            if place > n:
                raise InvalidValueError(argument="cited", must=must, got=shown(number))
            mask[place - 1] = True
    if not mask.any():
        raise InvalidValueError(argument="cited", must="name at least one passage", got="none")
    mask.setflags(write=False)
    return mask


def _ranked(context: Evaluator, cited: Mask) -> Any:
    """Scores by which cited passages come first, each by what leaving it out changes."""
    left_out = attribute(context, "occlusion").scores
    places = np.empty(len(cited))
    places[np.lexsort((left_out, cited))] = np.arange(len(cited))
    return places

"""A language model, a question and the passages it answers from → a ``MaskedModel`` whose features are the passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.fingerprints import name_of
from holdfast.masking.context.endpoint import Endpoint
from holdfast.masking.text.strings import TextModel, ask_one_by_one, normalise_answer, preview
from holdfast.types import Mask, Provenance
from holdfast.validation import check_flag, check_list, check_name, check_size, check_whole, shown

Template = Callable[[str, list[tuple[int, str]]], str]
"""A question and the passages that are shown, each with its number → a prompt."""

_CITED = re.compile(r"\[(\d{1,4}(?:\s*[-–,;]\s*\d{1,4})*)\]")  # [2], [1, 3], [2-4]


def default_template(question: str, passages: list[tuple[int, str]]) -> str:
    """Numbered passages, then the question.

    >>> print(default_template("Who?", [(1, "Ada wrote it.")]))
    Answer the question from the passages. Answer in a few words.
    <BLANKLINE>
    [1] Ada wrote it.
    <BLANKLINE>
    Question: Who?
    Answer:
    """
    shown_passages = "\n".join(f"[{number}] {text}" for number, text in passages)
    head = "Answer the question from the passages. Answer in a few words."
    return "\n\n".join(part for part in (head, shown_passages, f"Question: {question}\nAnswer:") if part)


@dataclass(frozen=True)
class PassageParts:
    """Passages that are written into a prompt; hidden ones are left out."""

    passages: tuple[str, ...]
    question: str
    template: Template
    renumbers: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"[{number}] {preview(text)}" for number, text in enumerate(self.passages, start=1))

    def write(self, mask: Mask, fill: str | None) -> str:
        """The prompt with only these passages shown."""
        kept = [(number, text) for number, text in enumerate(self.passages, start=1) if mask[number - 1]]
        if self.renumbers:
            kept = [(place, text) for place, (_, text) in enumerate(kept, start=1)]
        prompt = self.template(self.question, kept)
        if not isinstance(prompt, str):
            raise InvalidTypeError(argument="template", must="return a string", got=shown(prompt))
        return prompt


def mask_context(
    model: Any,
    passages: Sequence[Any],
    *,
    question: str,
    template: Any = None,
    system: str | None = None,
    numbering: str = "kept",
    normalise: Callable[[Any], Hashable] | None = None,
    batched: bool = False,
    batch_size: int | None = None,
    fingerprint: str | None = None,
) -> TextModel:
    """Ask a language model a question with some of the passages of its context hidden.

    Certify with ``reference=answer`` whether the answer that a user saw stays when other passages are shown beside the
    cited ones, or is lost without them.

    Parameters
    ----------
    model : callable, Endpoint or str
        A function from a prompt to an answer (with ``batched``, from a list to a list), an ``Endpoint``, or
        ``openai:<base url>#<model>`` for any OpenAI-compatible endpoint.
    passages : list of str or documents
        Each a feature. Documents of LangChain (``page_content``) and LlamaIndex (``text``) are taken as they are.
    question : str
        What is asked.
    template : callable, optional
        From the question and the shown passages, as pairs (number from 1, text), to the prompt.
    system : str, optional
        A system message for an endpoint.
    numbering : {"kept", "renewed"}
        Whether shown passages keep the numbers that they have among all, or are counted anew.
    normalise : callable, optional
        From an answer to what it counts as; by default case and white space do not count.
    batched : bool
        Whether a function takes a list of prompts.
    batch_size : int, optional
        Most prompts at a time.
    fingerprint : str, optional
        What identifies the model; that of an endpoint is its address and model.

    Returns
    -------
    TextModel
        A ``MaskedModel`` of answers.

    Examples
    --------
    >>> import holdfast as hf
    >>> def ask(prompt):
    ...     return "84 metres" if "tower" in prompt.split("Question")[0] else "I do not know"
    >>> passages = ["Velm has a market.", "The tower of Velm is 84 metres tall.", "It rains in Velm."]
    >>> context = hf.mask_context(ask, passages, question="How tall is the tower?")
    >>> cited = hf.read_citations("84 metres [2].", n_passages=3)
    >>> hf.certify(context, cited, radius=2, reference="84 metres").rate
    1.0
    """
    texts = tuple(_text_of(passage) for passage in check_list(passages, "passages", "be a list of texts"))
    if not texts:
        raise InvalidValueError(argument="passages", must="hold at least one passage", got="none")
    for argument, value in (("question", question), ("system", system)):
        if not (isinstance(value, str) and value.strip()) and not (value is None and argument == "system"):
            raise InvalidTypeError(argument=argument, must="be a text", got=shown(value))
    renumbers = check_name(numbering, "numbering", ("kept", "renewed")) == "renewed"
    size = None if batch_size is None else check_whole(batch_size, "batch_size", minimum=1)
    chosen: Any = default_template if template is None else template
    if not callable(chosen):
        must = "be a function of the question and the numbered passages"
        raise InvalidTypeError(argument="template", must=must, got=shown(template))
    answer, known = _answering(model, system, check_flag(batched, "batched"), fingerprint)
    compare = normalise_answer if normalise is None else normalise
    parts = PassageParts(texts, question, chosen, renumbers)
    words = f"passages, numbering {numbering}, template {name_of(chosen)}, answers compared by {name_of(compare)}"
    content = "".join(f"{len(part)}:{part}" for part in (question, system or "", *texts)).encode()
    return TextModel(answer, parts, None, compare, size, Provenance(words, known, sha256(content).hexdigest()))


def _answering(
    model: Any, system: str | None, batched: bool, fingerprint: str | None
) -> tuple[Callable[[list[str]], Any], str | None]:
    """The model as a function of a list of prompts, and what identifies it."""
    endpoint = Endpoint.from_spec(model) if isinstance(model, str) else model
    if isinstance(endpoint, Endpoint):
        if batched:
            raise InvalidValueError(argument="batched", must="be left out for an endpoint", got="True")
        known = f"openai:{endpoint.url}#{endpoint.model}" if fingerprint is None else fingerprint
        return partial(_ask_endpoint, endpoint, system), known
    if not callable(model):
        must = "be a function of a prompt, an Endpoint or openai:<base url>#<model>"
        raise InvalidTypeError(argument="model", must=must, got=shown(model))
    if system is not None:
        must = "be left out for a function: write it into the template"
        raise InvalidValueError(argument="system", must=must, got=shown(system))
    return (model if batched else partial(ask_one_by_one, model)), fingerprint


def _ask_endpoint(endpoint: Endpoint, system: str | None, prompts: list[str]) -> list[str]:
    before = [] if system is None else [{"role": "system", "content": system}]
    return [answer.text for answer in endpoint([[*before, {"role": "user", "content": prompt}] for prompt in prompts])]


def _text_of(passage: Any) -> str:
    """The text of a passage, or of a document of LangChain or LlamaIndex."""
    text = passage
    for name in ("page_content", "text"):
        if not isinstance(text, str):
            text = getattr(passage, name, None)
    if not isinstance(text, str) or not text.strip():
        raise InvalidTypeError(argument="passages", must="be texts, none of them empty", got=shown(passage))
    return text


def read_citations(answer: str, n_passages: int) -> Mask:
    """Read which passages an answer cites, such as [2], [1, 3] or [2-4], as a mask of the passages.

    Numbers count from 1; those of no passage are refused.

    Examples
    --------
    >>> read_citations("It is 84 metres tall [2], as others say [1, 4].", n_passages=5).tolist()
    [True, True, False, True, False]
    """
    n = check_size(n_passages, "n_passages")
    if not isinstance(answer, str):
        raise InvalidTypeError(argument="answer", must="be a text", got=shown(answer))
    mask = np.zeros(n, dtype=bool)
    for group in _CITED.findall(answer):
        for part in re.split(r"[,;]", group):
            numbers = [int(number) for number in re.findall(r"\d+", part)]
            if numbers[0] < 1 or numbers[-1] > n or numbers[0] > numbers[-1]:
                must = f"cite passages from 1 to {n}"
                raise InvalidValueError(argument="answer", must=must, got=f"[{group}]")
            mask[numbers[0] - 1 : numbers[-1]] = True
    return mask

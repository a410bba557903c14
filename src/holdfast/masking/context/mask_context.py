"""A language model, a question and the passages it answers from → a ``MaskedModel`` whose features are the passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from types import FunctionType
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.fingerprints import digest_code, name_of
from holdfast.judging import accepted_answers, cited_in, without_citations
from holdfast.masking.context.endpoint import Completion, Endpoint
from holdfast.masking.text.strings import ask_one_by_one, preview
from holdfast.terminal import Bound
from holdfast.types import Mask, Masks, Outputs, Provenance
from holdfast.validation import check_flag, check_list, check_masks, check_name, check_whole, shown

Message = Mapping[str, str]
Conversation = Sequence[Message]
"""Messages, each with a ``role`` and a ``content``."""

Template = Callable[[str, list[tuple[int, str]]], str | Conversation]
"""A question and the passages that are shown, each with its number → a prompt, or messages."""

FEATURES = ("passages", "sentences", "messages")
ANOTHER = "(another answer)"
"""What a model of exact answers says where the answer is not the reference: what it is instead was not computed."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)")
_FROM_PASSAGES = "Answer the question from the passages. Answer in a few words."


@runtime_checkable
class LanguageModel(Protocol):
    """Answers conversations, in their order; ``samples`` says for each which draw of its answer is meant."""

    def __call__(
        self, conversations: Sequence[Conversation], samples: Sequence[int] | None = None
    ) -> list[Completion]: ...


@runtime_checkable
class Scoring(Protocol):
    """A language model that also says what it would do with a given answer, from one pass and without writing it."""

    def gives(self, conversations: Sequence[Conversation], reference: str, /) -> Mask:
        """Whether greedy decoding gives exactly this answer, Boolean (b,)."""
        ...

    def log_probability(self, conversations: Sequence[Conversation], reference: str, /) -> NDArray[Any]:
        """The log-probability of this answer, numbers (b,)."""
        ...


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
    return _numbered_prompt(_FROM_PASSAGES, question, passages)


def citing_template(question: str, passages: list[tuple[int, str]]) -> str:
    """The same, asking to cite: answers then end with numbers such as [2], which do not count as part of them."""
    cite = "Then name in brackets the numbers of the passages that the answer comes from, such as [2] or [1, 3]."
    return _numbered_prompt(f"{_FROM_PASSAGES} {cite}", question, passages)


def _numbered_prompt(head: str, question: str, passages: list[tuple[int, str]]) -> str:
    shown_passages = "\n".join(f"[{number}] {text}" for number, text in passages)
    return "\n\n".join(part for part in (head, shown_passages, f"Question: {question}\nAnswer:") if part)


TEMPLATES: Mapping[str, Template] = {"default": default_template, "citing": citing_template}
"""Templates that have names."""


@dataclass(frozen=True, eq=False)
class ContextModel(Bound):
    """A language model, a question and its context, as a function of which parts of the context are shown.

    Outputs are answers (b,), as the model words them, without their citations if it ``cites``. ``agreement`` names what
    counts as the same answer where a verb is not told otherwise, ``reference`` is the answer to agree with where it is
    not given one. If ``exact``, outputs are the reference or a placeholder for every other answer, and nothing but
    their being equal can be judged.
    """

    model: LanguageModel
    context: _Context
    reference: str | None
    exact: bool
    cites: bool
    batch_size: int | None
    provenance: Provenance
    agreement: str = "same_answer"
    _spent: dict[str, int | None] = field(default_factory=dict, repr=False)

    @property
    def n_features(self) -> int:
        return len(self.context.names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The number and the beginning of each passage."""
        return self.context.names

    @property
    def passages(self) -> tuple[str, ...]:
        """The text of each feature."""
        return self.context.texts

    @property
    def question(self) -> str:
        return self.context.question

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Tokens that were read and written for all answers so far, from a cache or not; None if not reported.

        They are not reported by a causal model that was asked in one pass whether it gives the reference.
        """
        return self._spent.get("prompt", 0), self._spent.get("completion", 0)

    @property
    def scores(self) -> ReferenceScores | None:
        """The log-probability of the reference as a model of its own; None if the language model does not tell it."""
        if self.reference is None or not isinstance(self.model, Scoring):
            return None
        return ReferenceScores(self, self.model, self.reference)

    def prompt(self, mask: Any) -> Conversation:
        """The messages that the language model is sent with only these features shown."""
        return self.context.write(check_masks([mask], self.n_features)[0])

    def label_of(self, answer: str) -> str:
        """An answer that is given as a reference, as outputs are compared with it: without citations if these are cut.

        Where only the exact tokens of the context's own reference count, every other one is refused.
        """
        if self.exact and answer.strip() != self.reference:
            must = "be the reference of the context, as only its exact tokens count"
            raise InvalidValueError(argument="reference", must=must, got=shown(answer))
        return _without_citations(answer, "reference") if self.cites else answer

    def __call__(self, masks: Masks, /) -> Outputs:
        return self.sample(masks, np.zeros(len(masks), dtype=np.int64))

    def sample(self, masks: Masks, numbers: NDArray[np.int64], /) -> Outputs:
        """Answers (b,) to masks (b, n_features); of a random model, the draws of these numbers."""
        conversations = [self.context.write(mask) for mask in check_masks(masks, self.n_features)]
        answers = np.full(len(masks), ANOTHER, dtype=object)
        left = np.ones(len(masks), dtype=bool)
        if self.reference is not None and isinstance(self.model, Scoring) and not self.is_random and not self.cites:
            left = ~self.model.gives(conversations, self.reference)
            answers[~left] = self.reference
            self._spent.update(prompt=None, completion=None)
        rows = [] if self.exact else np.flatnonzero(left).tolist()
        if rows:
            completions = self.model([conversations[row] for row in rows], [int(numbers[row]) for row in rows])
            texts = [completion.text for completion in completions]
            answers[rows] = [without_citations(text) for text in texts] if self.cites else texts
            self._count(completions)
        return answers

    def cite(self) -> Mask:
        """Which passages the model cites, with all of them shown; Boolean (n_features,).

        A model whose template does not ask for citations is asked by the one that does. Numbers of no passage are not
        counted: small models make them up.
        """
        if self.context.features != "passages":
            raise InvalidValueError(argument="features", must="be 'passages' for citations", got=self.context.features)
        template = self.context.template if self.cites else citing_template
        numbered = list(enumerate(self.passages, start=1))
        completions = self.model([self.context.converse(template(self.question, numbered))], [0])
        self._count(completions)
        return cited_in(completions[0].text, self.n_features, lenient=True)

    @property
    def is_random(self) -> bool:
        """Whether the language model says of itself that it draws its answers."""
        return getattr(self.model, "temperature", 0.0) != 0

    def _count(self, completions: Sequence[Completion]) -> None:
        for name in ("prompt", "completion"):
            counts = [getattr(completion, f"{name}_tokens") for completion in completions]
            before = self._spent.get(name, 0)
            self._spent[name] = None if None in (before, *counts) else sum(counts, start=cast(int, before))


@dataclass(frozen=True, eq=False)
class ReferenceScores:
    """The log-probability of one answer, as a function of which parts of the context are shown: scores (b, 1)."""

    base: ContextModel
    model: Scoring
    reference: str

    @property
    def n_features(self) -> int:
        return self.base.n_features

    @property
    def batch_size(self) -> int | None:
        return self.base.batch_size

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.base.feature_names

    @property
    def provenance(self) -> Provenance:
        return self.base.provenance

    def __call__(self, masks: Masks, /) -> Outputs:
        conversations = [self.base.context.write(mask) for mask in check_masks(masks, self.n_features)]
        return np.asarray(self.model.log_probability(conversations, self.reference), dtype=np.float64)[:, None]


@dataclass(frozen=True)
class _Context:
    """Parts of a context that are shown or left out, and how what is shown becomes messages.

    ``places`` says of each feature which passage it is a part of; for passages and messages, itself.
    """

    features: str
    question: str
    texts: tuple[str, ...]
    places: tuple[int, ...]
    roles: tuple[str, ...]
    template: Template
    system: str | None
    renumbers: bool

    @property
    def names(self) -> tuple[str, ...]:
        if self.features == "messages":
            return tuple(f"{role}: {preview(text)}" for role, text in zip(self.roles, self.texts, strict=True))
        numbers = [f"[{place + 1}]" for place in self.places]
        if self.features == "sentences":
            numbers = [f"[{place + 1}.{i - self.places.index(place) + 1}]" for i, place in enumerate(self.places)]
        return tuple(f"{number} {preview(text)}" for number, text in zip(numbers, self.texts, strict=True))

    def write(self, mask: Mask) -> Conversation:
        """The messages with only these features shown."""
        kept = [i for i in range(len(mask)) if mask[i]]
        if self.features == "messages":
            spoken = [{"role": self.roles[i], "content": self.texts[i]} for i in kept]
            return self.converse([*spoken, {"role": "user", "content": self.question}])
        passages: dict[int, str] = {}
        for i in kept:
            place = self.places[i]
            passages[place] = f"{passages[place]} {self.texts[i]}" if place in passages else self.texts[i]
        numbered = [(place + 1, text) for place, text in passages.items()]
        if self.renumbers:
            numbered = [(number, text) for number, (_, text) in enumerate(numbered, start=1)]
        return self.converse(self.template(self.question, numbered))

    def converse(self, prompt: Any) -> Conversation:
        """A prompt as a conversation, after the system message if there is one."""
        before = [] if self.system is None else [{"role": "system", "content": self.system}]
        if isinstance(prompt, str):
            return [*before, {"role": "user", "content": prompt}]
        if not isinstance(prompt, Sequence) or not all(map(_is_message, prompt)):
            raise InvalidTypeError(argument="template", must="return a text or messages", got=shown(prompt))
        return [*before, *prompt]


def mask_context(
    model: Any,
    passages: Sequence[Any],
    *,
    question: str,
    reference: str | None = None,
    accepted: Sequence[str] | None = None,
    exact: bool = False,
    template: Any = None,
    cites: bool | None = None,
    system: str | None = None,
    features: str | None = None,
    numbering: str = "kept",
    tokenizer: Any = None,
    batched: bool = False,
    batch_size: int | None = None,
    fingerprint: str | None = None,
) -> ContextModel:
    """Ask a language model a question with some of the passages of its context hidden.

    Certify whether the answer that a user saw stays when other passages are shown beside the cited ones, or is lost
    without them; see ``certify_citations`` for both at once.

    Parameters
    ----------
    model : callable, Endpoint, CausalModel, torch module or str
        A function from a prompt to an answer (with ``batched``, from a list to a list); an ``Endpoint``, or
        ``openai:<base url>#<model>`` for any OpenAI-compatible endpoint; a causal language model of Hugging Face with
        its ``tokenizer``, or ``hf:<folder>``.
    passages : list of str, documents or messages
        Documents of LangChain (``page_content``) and LlamaIndex (``text``) are taken as they are. Messages are
        mappings with a ``role`` and a ``content``; results of tools are shown as messages of the user, because
        endpoints refuse them without the calls that they belong to.
    question : str
        What is asked. After messages it is the last one, which is always shown.
    reference : str, optional
        The answer that the user saw. Verbs agree with it unless they are given another; None for what the selected
        passages alone give. Citations are cut from it where they are cut from the answers.
    accepted : list of str, optional
        Other forms of the reference: answers that are among these count as the same, unless a verb is given another
        ``agree``; see ``accepted_answers``.
    exact : bool
        Whether only the reference's own tokens count as the same answer. A causal model then computes one pass for
        each mask and writes nothing; what it would have answered instead is not known, so that verbs can be given no
        other reference.
    template : callable or {"default", "citing"}
        From the question and the shown passages, as pairs (number from 1, text), to a prompt or to messages; "citing"
        asks for citations. A causal model applies the chat template of its tokenizer to these.
    cites : bool, optional
        Whether the template asks for citations such as [2], which are then cut from the answers; None if it is
        "citing".
    system : str, optional
        A system message, always shown.
    features : {"passages", "sentences", "messages"}, optional
        What can be hidden: whole passages, or their sentences. A passage without a shown sentence is left out.
    numbering : {"kept", "renewed"}
        Whether shown passages keep the numbers that they have among all, or are counted anew.
    tokenizer : tokenizer of Transformers, optional
        For a causal model that is given as a torch module.
    batched : bool
        Whether a function takes a list of prompts.
    batch_size : int, optional
        Most prompts at a time.
    fingerprint : str, optional
        What identifies the model; that of an endpoint is its address and model, and a digest of options that decide
        its answers where they are not the defaults.

    Returns
    -------
    ContextModel
        A ``MaskedModel`` of answers.

    Examples
    --------
    >>> import holdfast as hf
    >>> def ask(prompt):
    ...     return "84 metres" if "tower" in prompt.split("Question")[0] else "I do not know"
    >>> passages = ["Velm has a market.", "The tower of Velm is 84 metres tall.", "It rains in Velm."]
    >>> context = hf.mask_context(ask, passages, question="How tall is the tower?", reference="84 metres")
    >>> cited = hf.judging.read_citations("84 metres [2].", n_passages=3)
    >>> hf.certify(context, cited, radius=2).rate
    1.0
    """
    forms = [] if accepted is None else check_list(accepted, "accepted", "be a list of texts")
    for argument, value, may_be_none in (
        ("question", question, False),
        ("system", system, True),
        ("reference", reference, True),
        *(("accepted", form, False) for form in forms),
    ):
        if not (value is None and may_be_none) and not (isinstance(value, str) and value.strip()):
            raise InvalidTypeError(argument=argument, must="be a text", got=shown(value))
    chosen: Any = default_template if template is None else template
    chosen = TEMPLATES[check_name(chosen, "template", TEMPLATES)] if isinstance(chosen, str) else chosen
    asks_to_cite = chosen is citing_template if cites is None else check_flag(cites, "cites")
    if not callable(chosen):
        must = "be a function of the question and the numbered passages"
        raise InvalidTypeError(argument="template", must=must, got=shown(template))
    if asks_to_cite:
        reference = None if reference is None else _without_citations(reference, "reference")
        forms = [_without_citations(form, "accepted") for form in forms]
    answer = None if reference is None else reference.strip()
    check_name(numbering, "numbering", ("kept", "renewed"))
    size = None if batch_size is None else check_whole(batch_size, "batch_size", minimum=1)
    kind, texts, places, roles = _read_parts(passages, features)
    if kind == "messages" and template is not None:
        raise InvalidValueError(argument="template", must="be left out for messages", got=shown(template))
    language_model, known = as_language_model(
        model, tokenizer=tokenizer, batched=check_flag(batched, "batched"), fingerprint=fingerprint
    )
    if system is not None and isinstance(language_model, PromptFunction):
        must = "be left out for a function: write it into the template"
        raise InvalidValueError(argument="system", must=must, got=shown(system))
    if check_flag(exact, "exact"):
        if reference is None or not isinstance(language_model, Scoring):
            must = "come with a `reference` and a causal language model"
            raise InvalidValueError(argument="exact", must=must)
        if getattr(language_model, "temperature", 0.0) != 0 or asks_to_cite:
            raise InvalidValueError(argument="exact", must="be left out if answers are random or cite passages")
        if forms:
            raise InvalidValueError(argument="accepted", must="be left out with `exact=True`")
        if answer == ANOTHER:
            must = "be a different text: this one stands for all other answers"
            raise InvalidValueError(argument="reference", must=must, got=shown(reference))
    agreement = "same_top_class" if exact else "same_answer"  # of answers, equal ones have the same top class
    if forms:
        agreement = accepted_answers([*([] if answer is None else [answer]), *forms]).name
    context = _Context(kind, question, texts, places, roles, chosen, system, numbering == "renewed")
    words = [kind, f"numbering {numbering}", f"template {_name_template(chosen)}"]
    words = words[:1] if kind == "messages" else words
    words += ["the reference's own tokens"] if exact else []
    words += ["answers without citations"] if asks_to_cite else []
    content = "".join(f"{len(part)}:{part}" for part in (question, system or "", *roles, *texts)).encode()
    digest = sha256(content + repr(places).encode() if kind == "sentences" else content).hexdigest()
    return ContextModel(
        model=language_model,
        context=context,
        reference=answer,
        exact=exact,
        cites=asks_to_cite,
        batch_size=size or getattr(language_model, "batch_size", None),
        provenance=Provenance(", ".join(words), known, digest),
        agreement=agreement,
    )


def _without_citations(answer: str, argument: str) -> str:
    text = without_citations(answer)
    if answer.strip() and not text.strip(" .,;:"):
        raise InvalidValueError(argument=argument, must="hold more than citations", got=shown(answer))
    return text


def _name_template(template: Template) -> str | None:
    """The name of a template, and a digest of its code where that says nothing: of a lambda its own, not its file's."""
    name = name_of(template)
    if hasattr(template, "__qualname__") and "<" not in template.__qualname__:
        return name
    if isinstance(template, FunctionType) and template.__name__ == "<lambda>":
        # Two lambdas of one file have the same module, which is what counts of a function in a module.
        code, defaults, closure = template.__code__, template.__defaults__, template.__closure__
        return f"{name} {digest_code(FunctionType(code, {}, name, defaults, closure))}"
    return f"{name} {digest_code(template)}"


def _read_parts(passages: Any, features: str | None) -> tuple[str, tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """What the features are, their texts, the passage that each is part of, and the roles of messages."""
    entries = check_list(passages, "passages", "be a list of texts")
    if not entries:
        raise InvalidValueError(argument="passages", must="hold at least one passage", got="none")
    are_messages = all(map(_is_message, entries))
    kind = check_name(features or ("messages" if are_messages else "passages"), "features", FEATURES)
    if (kind == "messages") != are_messages:
        must = "be 'messages' for messages only"
        raise InvalidValueError(argument="features", must=must, got=shown(kind))
    texts = tuple(map(_text_of, entries))
    if kind == "messages":
        roles = [entry["role"] for entry in entries]
        texts = tuple(
            f"Result of a tool: {text}" if role == "tool" else text for role, text in zip(roles, texts, strict=True)
        )
        roles = ["user" if role == "tool" else role for role in roles]
        return kind, texts, tuple(range(len(texts))), tuple(roles)
    if kind == "sentences":
        cut = [(place, sentence) for place, text in enumerate(texts) for sentence in split_sentences(text)]
        return kind, tuple(sentence for _, sentence in cut), tuple(place for place, _ in cut), ()
    return kind, texts, tuple(range(len(texts))), ()


def split_sentences(text: str) -> list[str]:
    """The sentences of a text: cut after full stops, question and exclamation marks that white space follows.

    >>> split_sentences('It is 8.5 m tall. "Really?" Yes!')
    ['It is 8.5 m tall.', '"Really?"', 'Yes!']
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    pieces = (text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True))
    return [piece for piece in pieces if piece]


def _is_message(entry: Any) -> bool:
    return isinstance(entry, Mapping) and all(isinstance(entry.get(name), str) for name in ("role", "content"))


def _text_of(passage: Any) -> str:
    """The text of a passage, of a message, or of a document of LangChain or LlamaIndex."""
    text = passage["content"] if _is_message(passage) else passage
    for name in ("page_content", "text"):
        if not isinstance(text, str):
            text = getattr(passage, name, None)
    if not isinstance(text, str) or not text.strip():
        raise InvalidTypeError(argument="passages", must="be texts, none of them empty", got=shown(passage))
    return text


@dataclass(frozen=True)
class PromptFunction:
    """A function of prompts as a language model; of a conversation of several messages it gets the messages."""

    answer: Callable[[list[Any]], Any]

    def __call__(self, conversations: Sequence[Conversation], samples: Sequence[int] | None = None) -> list[Completion]:
        prompts = [messages[0]["content"] if len(messages) == 1 else list(messages) for messages in conversations]
        answers = self.answer(prompts)
        if not isinstance(answers, (list, tuple)) or len(answers) != len(prompts):
            got = f"{len(answers)} for {len(prompts)}" if isinstance(answers, (list, tuple)) else shown(answers)
            raise ModelError(f"`model` must return a list of one answer per prompt, got {got}.")
        for answer in answers:
            if not isinstance(answer, str):
                raise ModelError(f"`model` must answer with a text, got {shown(answer)}.")
        return [Completion(answer, None, None, False, None) for answer in answers]


def as_language_model(
    model: Any, *, tokenizer: Any = None, batched: bool = False, fingerprint: str | None = None
) -> tuple[LanguageModel, str | None]:
    """Whatever ``mask_context`` takes as a model, as a language model, and what identifies it."""
    is_module = hasattr(model, "generate") and hasattr(model, "config")
    if (tokenizer is not None) != is_module:
        must = "be given for a causal torch module only"
        raise InvalidValueError(argument="tokenizer", must=must, got=shown(tokenizer))
    if is_module:
        from holdfast.masking.context.causal import CausalModel

        model = CausalModel(model, tokenizer)
    elif isinstance(model, str) and model.startswith("hf:"):
        from holdfast.masking.context.causal import CausalModel

        model = CausalModel.load(model.removeprefix("hf:"))
    elif isinstance(model, str) and model.startswith("openai:"):
        model = Endpoint.from_spec(model)
    if not callable(model):
        must = "be a function of a prompt, an Endpoint, a CausalModel, openai:<base url>#<model> or hf:<folder>"
        raise InvalidTypeError(argument="model", must=must, got=shown(model))
    speaks = isinstance(model, (Endpoint, Scoring)) or _takes_samples(model)
    if speaks:
        if batched:
            raise InvalidValueError(argument="batched", must="be left out for a language model", got="True")
        known = getattr(model, "fingerprint", None) if fingerprint is None else fingerprint
        return cast(LanguageModel, model), known
    return PromptFunction(model if batched else partial(ask_one_by_one, model)), fingerprint


def _takes_samples(model: Any) -> bool:
    """Whether a callable is a language model of one's own: it takes conversations and the numbers of their draws."""
    from inspect import signature

    try:
        return "samples" in signature(model).parameters
    except (TypeError, ValueError):
        return False

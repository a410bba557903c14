"""Passages of a context as features: what is shown, how it is numbered, what is cited, and which answer is kept."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.errors import HoldfastError
from tests.helpers.oracles import neighbors

PASSAGES = [
    "Velm lies by the sea.",
    "The tower of Velm is 84 metres tall.",
    "A newer survey says that the tower is 86 metres tall.",
    "The surveyor was drunk, and his survey was withdrawn.",
    "It rains a lot in Velm.",
]
QUESTION = "How tall is the tower?"


def reads(prompt: str) -> str:
    """Believes the newer survey, unless it was withdrawn."""
    if "newer survey" in prompt and "withdrawn" not in prompt:
        return "86 metres"
    return " 84  Metres" if "84" in prompt else "I do not know"


def said(shown: Any) -> str:
    """The same by hand, from which passages are shown."""
    if shown[2] and not shown[3]:
        return "86 metres"
    return " 84  Metres" if shown[1] else "I do not know"


CONTEXT = hf.mask_context(reads, PASSAGES, question=QUESTION)


def test_answers_are_those_of_the_prompt_with_the_shown_passages() -> None:
    masks = np.array([[bool(i >> j & 1) for j in range(5)] for i in range(32)])
    assert CONTEXT(masks).tolist() == [said(mask) for mask in masks]


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_the_rate_of_citations_is_the_share_of_contexts_that_keep_the_answer(radius: int) -> None:
    cited = hf.judging.read_citations("84 metres [2].", n_passages=5)
    certificate = hf.certify(CONTEXT, cited, radius=radius, reference="84 metres")
    masks = list(neighbors(cited, radius))
    kept = sum("84" in said(mask) for mask in masks)
    assert Fraction(certificate.n_agreed, certificate.n_evaluated) == Fraction(kept, len(masks))
    assert certificate.consistent
    assert certificate.reference == "84 metres"
    assert hf.recheck(CONTEXT, certificate).confirmed


def test_the_answer_that_a_user_saw_is_compared_as_answers_are() -> None:
    cited = hf.judging.read_citations("[2]", n_passages=5)
    as_seen = hf.certify(CONTEXT, cited, radius=2, reference="84  METRES")
    assert as_seen.n_agreed == hf.certify(CONTEXT, cited, radius=2, reference="84 metres").n_agreed
    assert (as_seen.reference, as_seen.prediction, as_seen.agree) == ("84  METRES", "84  METRES", "same_answer")
    witness = hf.find_witness(CONTEXT, cited, reference="84 Metres", rng=0)
    assert witness.added == (2,)  # the newer survey alone changes the answer
    assert hf.recheck(CONTEXT, witness).confirmed


def test_what_is_lost_without_the_cited_passages_is_asked_by_removals() -> None:
    full = np.ones(5, dtype=bool)
    without = hf.certify(CONTEXT, full, radius=1, reference="84 metres", neighborhood="removals")
    masks = list(neighbors(full, 1, "removals"))
    assert Fraction(without.n_agreed, without.n_evaluated) == Fraction(
        sum("84" in said(mask) for mask in masks), len(masks)
    )


def prompt_of(mask: list[bool], **options: Any) -> str:
    prompts: list[str] = []

    def record(prompt: str) -> str:
        prompts.append(prompt)
        return "yes"

    hf.mask_context(record, PASSAGES, question=QUESTION, **options)(np.array([mask]))
    return prompts[0]


def test_hidden_passages_are_left_out_and_numbers_are_kept_or_renewed() -> None:
    mask = [False, True, False, False, True]
    kept, renewed = (prompt_of(mask, numbering=numbering) for numbering in ("kept", "renewed"))
    assert [f"[{number}]" in kept for number in range(1, 6)] == mask
    assert "[1] The tower of Velm is 84 metres tall.\n[2] It rains a lot in Velm." in renewed
    assert PASSAGES[0] not in kept
    assert QUESTION in kept
    assert prompt_of([False] * 5).count("[") == 0


def test_a_template_writes_the_prompt() -> None:
    def template(question: str, passages: list[tuple[int, str]]) -> str:
        return f"{question} {[number for number, _ in passages]}"

    assert prompt_of([True, False, True, False, False], template=template) == f"{QUESTION} [1, 3]"


def test_documents_of_other_libraries_are_passages() -> None:
    documents = [SimpleNamespace(page_content=PASSAGES[0]), SimpleNamespace(text=PASSAGES[1]), PASSAGES[2]]
    model = hf.mask_context(reads, documents, question=QUESTION)
    assert model.passages == tuple(PASSAGES[:3])
    assert model.feature_names[1] == "[2] The tower of Velm is 84 metres tall."


def test_lists_of_prompts_and_other_comparisons_are_taken() -> None:
    def many(prompts: list[str]) -> list[str]:
        return [reads(prompt) for prompt in prompts]

    context = hf.mask_context(many, PASSAGES, question=QUESTION, batched=True, batch_size=2)
    cited = hf.judging.read_citations("[2]", n_passages=5)
    masks = list(neighbors(cited, 4))
    for agree, n_kept in (
        (hf.judging.same_answer, 0),
        (hf.judging.same_number(1), sum("84" in said(mask) for mask in masks)),
    ):
        certificate = hf.certify(context, cited, radius=4, reference="It is 84 m", agree=agree)
        assert (certificate.n_agreed, certificate.agree) == (n_kept, agree.name)
        assert certificate.consistent == (n_kept > 0)
        assert hf.recheck(context, certificate).confirmed


def test_a_context_brings_its_own_answer_to_agree_with() -> None:
    context = hf.mask_context(reads, PASSAGES, question=QUESTION, reference=" 84 metres ")
    cited = hf.judging.read_citations("[2]", n_passages=5)
    assert context.reference == "84 metres"
    for radius in (1, 4):
        own = hf.certify(context, cited, radius=radius)
        assert own.reference == "84 metres"
        assert own.n_agreed == hf.certify(CONTEXT, cited, radius=radius, reference="84 metres").n_agreed
    other = hf.certify(context, cited, radius=4, reference="86 metres")
    assert (other.reference, other.consistent) == ("86 metres", False)
    assert hf.find_witness(context, cited, rng=0).reference == "84 metres"
    assert hf.certified_radius(context, cited, min_rate=0.5).reference == "84 metres"


def test_scores_explain_how_the_reference_is_kept() -> None:
    context = hf.mask_context(reads, PASSAGES, question=QUESTION, reference="84 METRES")
    by_hand = [1.0 - ("84" in said(np.arange(5) != left_out)) for left_out in range(5)]
    scores = hf.attribute(context, "occlusion")
    assert scores.scores.tolist() == by_hand == [0, 1, 0, 1, 0]
    assert scores.target == "84 METRES"
    assert hf.attribute(context, "occlusion", target="86 metres").scores.tolist() == [0, 0, 0, -1, 0]


def test_sentences_of_passages_are_features() -> None:
    passages = ["Velm is old. The tower is 84 metres tall! It leans.", "It rains."]
    context = hf.mask_context(reads, passages, question=QUESTION, features="sentences")
    assert [name.partition(" ")[0] for name in context.feature_names] == ["[1.1]", "[1.2]", "[1.3]", "[2.1]"]
    mask = np.array([True, False, True, False])
    (message,) = context.prompt(mask)
    assert "[1] Velm is old. It leans.\n\nQuestion" in message["content"]
    assert context(np.array([[False, True, False, False], mask])).tolist() == [" 84  Metres", "I do not know"]
    cut_elsewhere = ["Velm is old. The tower is 84 metres tall!", "It leans. It rains."]
    other = hf.mask_context(reads, cut_elsewhere, question=QUESTION, features="sentences")
    assert other.passages == context.passages
    assert other.provenance.input != context.provenance.input


def test_messages_of_a_conversation_are_features() -> None:
    messages = [
        {"role": "user", "content": "I am in Velm."},
        {"role": "assistant", "content": "Welcome."},
        {"role": "tool", "content": "tower: 84 metres"},
    ]
    conversations: list[Any] = []

    def ask(conversation: Any) -> str:
        conversations.append(conversation)
        return "84 metres" if "84" in str(conversation) else "unknown"

    context = hf.mask_context(ask, messages, question=QUESTION)
    names = ("user: I am in Velm.", "assistant: Welcome.", "user: Result of a tool: tower: 84 metres")
    assert context.feature_names == names
    assert context(np.array([[True, False, True], [True, True, False]])).tolist() == ["84 metres", "unknown"]
    result, asked = ({"role": "user", "content": text} for text in ("Result of a tool: tower: 84 metres", QUESTION))
    assert conversations[0] == [messages[0], result, asked]
    with pytest.raises(HoldfastError, match="`features` must be 'passages' for citations"):
        context.cite()


def test_a_template_may_write_messages() -> None:
    def template(question: str, passages: list[tuple[int, str]]) -> list[dict[str, str]]:
        return [{"role": "user", "content": text} for text in (*(text for _, text in passages), question)]

    context = hf.mask_context(lambda messages: str(len(messages)), PASSAGES, question=QUESTION, template=template)
    assert context(np.array([[True, True, False, False, False]])).tolist() == ["3"]


def test_a_model_cites_when_asked_and_numbers_of_no_passage_do_not_count() -> None:
    def ask(prompt: str) -> str:
        return "84 metres [2], [9]" if "brackets" in prompt else "84 metres"

    context = hf.mask_context(ask, PASSAGES, question=QUESTION)
    assert context.cite().tolist() == [False, True, False, False, False]


def test_the_same_context_has_the_same_fingerprint_and_another_one_another() -> None:
    same = hf.mask_context(reads, PASSAGES, question=QUESTION).provenance
    assert same == CONTEXT.provenance
    for passages, question in ((PASSAGES[:4], QUESTION), (PASSAGES, "Why?"), (PASSAGES[::-1], QUESTION)):
        assert hf.mask_context(reads, passages, question=question).provenance.input != same.input
    assert (
        "numbering renewed"
        in hf.mask_context(reads, PASSAGES, question=QUESTION, numbering="renewed").provenance.masking
    )


def cites(prompt: str) -> str:
    """The reader, who cites the second passage."""
    return f"{reads(prompt)} [2]." if "84" in prompt else "I do not know"


def test_citations_are_cut_from_references_as_from_answers() -> None:
    options: dict[str, Any] = {"question": QUESTION, "template": "citing"}
    rates, masks = set(), list(neighbors(np.arange(5) == 1, 2))
    for reference in ("84 metres [2]", "84 metres [2].", "84 metres"):
        context = hf.mask_context(cites, PASSAGES, **options, reference=reference)
        assert "[" not in str(context.reference)
        rates.add(hf.certify(context, [1], radius=2).rate)
        given = hf.certify(hf.mask_context(cites, PASSAGES, **options), [1], radius=2, reference=reference)
        rates.add(given.rate)
        assert hf.recheck(context, given).confirmed
        assert hf.find_witness(context, [1], reference=reference, rng=0).added == (2,)
    assert rates == {sum("84" in said(mask) for mask in masks) / len(masks)}
    assert CONTEXT.label_of("84 metres [2]") == "84 metres [2]"  # of a template that does not ask for citations


def test_a_reference_of_nothing_but_citations_is_refused() -> None:
    context = hf.mask_context(cites, PASSAGES, question=QUESTION, template="citing")
    for reference in ("[2]", " [1, 3]. "):
        with pytest.raises(HoldfastError, match="`reference` must hold more than citations"):
            hf.certify(context, [1], radius=1, reference=reference)


class Scorer:
    """The reader as a model that says of a given answer whether it comes, and that writes nothing."""

    def __call__(self, conversations: Any, samples: Any = None) -> Any:
        raise AssertionError("an exact answer is not written")

    def gives(self, conversations: Any, reference: str) -> Any:
        return np.array([reads(messages[-1]["content"]).strip() == reference for messages in conversations])

    def log_probability(self, conversations: Any, reference: str) -> Any:
        return np.log(np.where(self.gives(conversations, reference), 0.9, 0.1))


def test_where_exact_tokens_count_no_other_reference_can_be_judged() -> None:
    context = hf.mask_context(Scorer(), PASSAGES, question=QUESTION, reference="86 metres", exact=True)
    masks = list(neighbors(np.arange(5) == 2, 4))
    certificate = hf.certify(context, [2], radius=4)
    assert (certificate.n_agreed, certificate.n_evaluated) == (sum("86" in said(mask) for mask in masks), len(masks))
    assert hf.certify(context, [2], radius=4, reference="86 metres").n_agreed == certificate.n_agreed
    for reference in ("84  Metres", "86 Metres", "(another answer)"):
        verbs: list[tuple[Any, Any]] = [(hf.certify, {"radius": 2}), (hf.certify_radii, {"radii": [2]})]
        for verb, radius in (*verbs, (hf.find_witness, {})):
            with pytest.raises(
                HoldfastError, match="`reference` must be the reference of the context, as only its exact"
            ):
                verb(context, [2], **radius, reference=reference, rng=0)
    for reference in ("Another answer.", "(Another Answer)"):
        alike = hf.mask_context(Scorer(), PASSAGES, question=QUESTION, reference=reference, exact=True)
        assert hf.certify(alike, [2], radius=2).rate == 0
    with pytest.raises(
        HoldfastError, match="`reference` must be a different text: this one stands for all other answers"
    ):
        hf.mask_context(Scorer(), PASSAGES, question=QUESTION, reference="(another answer)", exact=True)


def test_tokens_of_single_passes_are_not_reported() -> None:
    context = hf.mask_context(Scorer(), PASSAGES, question=QUESTION, reference="86 metres", exact=True)
    assert context.tokens == (0, 0)
    result = hf.certify_citations(context, [3], rng=0)
    assert context.tokens == (result.prompt_tokens, result.completion_tokens) == (None, None)


def test_accepted_forms_of_the_reference_count_as_the_same() -> None:
    def ask(prompt: str) -> str:
        return "84 m." if "by the sea" in prompt else reads(prompt)

    options: dict[str, Any] = {"question": QUESTION, "reference": "84 metres"}
    masks = list(neighbors(np.arange(5) == 1, 2))
    for template in ("default", "citing"):
        context = hf.mask_context(ask, PASSAGES, **options, accepted=["84 M [1]", "84 m"], template=template)
        certificate = hf.certify(context, [1], radius=2)
        kept = sum(bool(mask[0]) or "84" in said(mask) for mask in masks)
        assert (certificate.n_agreed, certificate.n_evaluated) == (kept, len(masks))
        assert hf.recheck(context, certificate).confirmed
    assert certificate.agree == "accepted_answers(['84 metres', '84 M', '84 m'])"
    strict = hf.certify(hf.mask_context(ask, PASSAGES, **options), [1], radius=2)
    assert strict.n_agreed < kept
    assert hf.certify(context, [1], radius=2, agree="same_answer").n_agreed == strict.n_agreed


def test_templates_without_a_name_are_told_apart_by_what_they_do() -> None:
    def masking(template: Any) -> str | None:
        return hf.mask_context(reads, PASSAGES, question=QUESTION, template=template).provenance.masking

    def headed(head: str) -> Any:
        return lambda question, passages: head + question

    first, second = (lambda question, passages: "A" + question), (lambda question, passages: "B" + question)
    templates = [first, second, headed("A"), headed("B"), partial(write_prompt, "A"), partial(write_prompt, "B")]
    assert len({masking(template) for template in templates}) == len(templates)
    assert masking(headed("A")) == masking(headed("A"))
    assert masking(write_plainly) == "passages, numbering kept, template write_plainly"


def write_prompt(head: str, question: str, passages: Any) -> str:
    return head + question


def write_plainly(question: str, passages: Any) -> str:
    return question


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("no citation", []),
        ("[2]", [2]),
        ("a [1] b [3].", [1, 3]),
        ("[1, 3; 5]", [1, 3, 5]),
        ("[2-4]", [2, 3, 4]),
        ("[2–3, 5]", [2, 3, 5]),
        ("array[0] is no list [x]", None),
    ],
)
def test_citations_are_read_as_people_write_them(answer: str, cited: list[int] | None) -> None:
    if cited is None:
        with pytest.raises(HoldfastError, match=r"`answer` must cite passages from 1 to 5, got \[0\]"):
            hf.judging.read_citations(answer, n_passages=5)
    else:
        assert (np.flatnonzero(hf.judging.read_citations(answer, n_passages=5)) + 1).tolist() == cited


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": 3}, "`model` must be a function of a prompt"),
        ({"passages": []}, "`passages` must hold at least one passage"),
        ({"passages": ["a", ""]}, "`passages` must be texts, none of them empty"),
        ({"passages": "text"}, "`passages` must be a list of texts"),
        ({"question": " "}, "`question` must be a text"),
        ({"template": "x"}, "`template` must be one of default, citing"),
        ({"template": 3}, "`template` must be a function of the question"),
        ({"template": lambda question, passages: 3}, "`template` must return a text or messages"),
        ({"reference": ""}, "`reference` must be a text"),
        ({"reference": " "}, "`reference` must be a text"),
        ({"reference": "[2].", "template": "citing"}, "`reference` must hold more than citations"),
        ({"reference": "84", "accepted": "84 m"}, "`accepted` must be a list of texts"),
        ({"reference": "84", "accepted": [""]}, "`accepted` must be a text"),
        ({"accepted": ["[2]"], "cites": True}, "`accepted` must hold more than citations"),
        (
            {"model": Scorer(), "reference": "84", "accepted": ["84 m"], "exact": True},
            "`accepted` must be left out with `exact=True`",
        ),
        ({"reference": "84", "exact": True}, "`exact` must come with a `reference` and a causal language model"),
        ({"features": "words"}, "`features` must be one of passages, sentences, messages"),
        ({"features": "messages"}, "`features` must be 'messages' for messages only"),
        ({"tokenizer": 3}, "`tokenizer` must be given for a causal torch module only"),
        ({"model": lambda prompt: 3}, "`model` must answer with a text, got 3"),
        ({"model": lambda prompts: "one", "batched": True}, "`model` must return a list of one answer per prompt"),
        ({"system": "Be kind."}, "`system` must be left out for a function"),
        ({"numbering": "none"}, "`numbering` must be one of kept, renewed"),
        ({"batch_size": 0}, "`batch_size` must be a whole number ≥ 1"),
    ],
)
def test_what_is_no_context_is_refused_in_words(wrong: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"model": reads, "passages": PASSAGES, "question": QUESTION} | wrong
    with pytest.raises(HoldfastError, match=message):
        hf.mask_context(asked.pop("model"), asked.pop("passages"), **asked)(np.ones((1, 5), dtype=bool))
    with pytest.raises(HoldfastError, match="`answer` must be a text"):
        hf.judging.read_citations(3, n_passages=2)  # type: ignore[arg-type]

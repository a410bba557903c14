"""Citations: whether they are enough and needed, equal to enumeration, what changes the answer and what it cost."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.errors import HoldfastError
from holdfast.masking.context.endpoint import Completion
from tests.helpers.oracles import neighbors

PASSAGES = [f"Passage {letter}." for letter in "abcdefg"]
ANSWERS = ("yes", "no", "perhaps")


def context_of(table: Any, n: int, **options: Any) -> hf.masking.context.ContextModel:
    """A context whose answer is looked up by the shown passages."""

    def ask(prompt: str) -> str:
        index = sum(1 << i for i in range(n) if PASSAGES[i] in prompt)
        return ANSWERS[table[index]]

    return hf.mask_context(ask, PASSAGES[:n], question="Is it so?", **options)


def said(table: Any, mask: Any) -> str:
    return ANSWERS[table[sum(1 << i for i, shown in enumerate(mask) if shown)]]


@st.composite
def contexts(draw: st.DrawFn) -> tuple[list[int], int, Any, int]:
    n = draw(st.integers(2, 6))
    table = draw(st.lists(st.integers(0, 2), min_size=2**n, max_size=2**n))
    cited = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if not cited.any():
        cited[0] = True
    return table, n, cited, draw(st.integers(0, n))


@given(contexts())
@settings(max_examples=60, deadline=None)
def test_both_rates_equal_enumeration(case: tuple[list[int], int, Any, int]) -> None:
    table, n, cited, radius = case
    context = context_of(table, n, reference="yes")
    result = hf.certify_citations(context, cited, radius=radius, tolerance=0.05, confidence=0.99)
    kept = [said(table, mask) == "yes" for mask in neighbors(cited, radius)]
    lost = [said(table, mask) != "yes" for mask in neighbors(~cited, radius, "removals")]
    assert result.sufficiency.exact
    assert result.necessity.exact
    assert Fraction(result.sufficiency.n_agreed, result.sufficiency.n_evaluated) == Fraction(sum(kept), len(kept))
    assert result.necessity_rate == pytest.approx(float(Fraction(sum(lost), len(lost))), abs=1e-12)
    assert result.necessity_interval.low <= result.necessity_rate <= result.necessity_interval.high
    assert result.consistent == (said(table, cited) == "yes")
    assert result.is_lost == (said(table, ~cited) != "yes")
    check_witness(result, table, n, cited)
    if result.enough is not None:
        enough = result.enough.selected
        shares = [said(table, mask) == "yes" for mask in neighbors(enough, result.sufficiency.radius)]
        assert sum(shares) >= Fraction(9, 10) * len(shares)
    assert hf.CitationCertificate.from_json(result.to_json()) == result
    assert hf.recheck(context, result).confirmed


def check_witness(result: hf.CitationCertificate, table: Any, n: int, cited: Any) -> None:
    changing = [mask for mask in neighbors(cited, n) if said(table, mask) != "yes"]
    if not result.consistent:
        assert result.witness is None
    else:
        assert result.witness is not None
        assert result.witness.found == bool(changing)
        if changing:
            assert result.witness.n_added == min(int((mask & ~cited).sum()) for mask in changing)


def reads(prompt: str) -> str:
    if "newer survey" in prompt and "withdrawn" not in prompt:
        return "86 metres"
    return "84 metres" if "84" in prompt else "I do not know"


TOWER = [
    "Velm lies by the sea.",
    "The tower of Velm is 84 metres tall.",
    "A newer survey says that the tower is 86 metres tall.",
    "The surveyor was drunk, and his survey was withdrawn.",
]


def test_the_sentences_say_what_holds() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    result = hf.certify_citations(context, [2], rng=0)
    assert str(result) == (
        "Answer '84 metres': the 1 cited passage of 4 is enough in 75% of cases and needed in all cases (exact)."
    )
    assert result.explain() == (
        "Are the cited passages [2] enough for the answer, and needed? Enough: with up to 3 others shown as "
        "well, the answer stays in 75% of cases. Needed: without them, and up to 3 others, it is lost in all cases. "
        "Showing [3] as well changes the answer to '86 metres'. Certified to be enough in at least 90% of cases: [2] "
        "and [4]. It took 20 model calls. It is about this model, question, passages and template. It does not say "
        "that the explanation or the prediction is right."
    )
    assert (
        "Showing up to 2 other passages as well never changes it."
        in hf.certify_citations(context, [2, 4], rng=0).explain()
    )


def test_a_judge_and_its_errors_are_in_the_sentences() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    judge = hf.judging.judge(hf.judging.same_answer, name="careful", errors=hf.judging.judge_errors(50, 5, 1))
    result = hf.certify_citations(context, [2, 4], rng=0, agree=judge)
    assert result.sufficiency.true_interval.low < 0.85 < result.sufficiency.interval.low == 1
    assert result.necessity_interval.low < 1
    assert "95% confidence, judge's errors included" in str(result)
    assert "judged by careful" in result.explain()
    assert "exact" not in str(result)
    assert hf.recheck(context, result, agree=judge).confirmed


def test_an_answer_that_the_model_does_not_give_is_said_to_be_none() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="The tower is 84 metres tall.")
    result = hf.certify_citations(context, [2, 4], rng=0)
    assert (result.is_whole, result.whole_answer) == (False, "84 metres")
    assert "; all passages give another answer." in str(result)
    assert "With all passages shown the model answers '84 metres'." in result.explain()
    loose = hf.certify_citations(context, [2, 4], rng=0, agree=hf.judging.same_number(0.5))
    assert loose.is_whole
    assert loose.enough is not None
    assert loose.enough.ranking[:2] in ((1, 3), (3, 1))  # by what leaving them out changes, as the agreement judges


def test_a_model_that_says_that_it_is_random_is_asked_at_random_only() -> None:
    class Hot:
        temperature = 1.0

        def __call__(self, conversations: Any, samples: Any = None) -> Any:
            return [Completion(reads(messages[-1]["content"]), 1, 1, False, None) for messages in conversations]

    context = hf.mask_context(Hot(), TOWER, question="How tall?", reference="84 metres")
    with pytest.raises(HoldfastError, match="`answers` must be 'random' for a model above temperature 0"):
        hf.certify_citations(context, [2])
    assert hf.certify_citations(context, [2], answers="random").whole_answer is None


def test_parts_must_answer_one_question() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    result = hf.certify_citations(context, [2], rng=0, min_rate=None, witness=False)
    for field, value in (("confidence", 0.5), ("agree", "accepted_answers(['84 metres', 'eighty'])"), ("radius", 1)):
        plain = json.loads(result.to_json())
        plain["necessity"][field] = value
        with pytest.raises(HoldfastError):
            hf.CitationCertificate.from_json(json.dumps(plain))


def test_sentences_and_empty_answers_are_refused_in_words() -> None:
    sentences = hf.mask_context(reads, TOWER, question="How tall?", features="sentences")
    with pytest.raises(HoldfastError, match="`context` must have passages as features"):
        hf.certify_citations(sentences, [2])
    with pytest.raises(HoldfastError, match=r"answer to the whole context is empty\. Raise `max_tokens`"):
        hf.certify_citations(hf.mask_context(lambda prompt: " ", TOWER, question="How tall?"), [2])


def test_the_search_for_a_witness_is_bounded() -> None:
    passages = [f"Passage {number}." for number in range(20)]
    context = hf.mask_context(lambda prompt: "yes", passages, question="Is it so?")
    result = hf.certify_citations(context, [1], min_rate=None)
    assert result.witness is not None
    assert (result.witness.max_radius, result.witness.proven) == (2, True)
    assert result.n_calls < 400
    assert "Showing up to 2 other passages as well never changes it." in result.explain()


@pytest.mark.parametrize("cited", [[2, 4], (4, 2), "84 metres [2][4].", np.array([False, True, False, True])])
def test_citations_are_numbers_a_mask_or_the_answer_itself(cited: Any) -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    assert hf.certify_citations(context, cited).cited.tolist() == [False, True, False, True]


def test_without_a_reference_it_is_the_answer_to_everything() -> None:
    result = hf.certify_citations(hf.mask_context(reads, TOWER, question="How tall?"), [2, 4])
    assert result.answer == "84 metres"
    given_by_user = hf.certify_citations(
        hf.mask_context(reads, TOWER, question="How tall?"), [3], reference="86 metres"
    )
    assert given_by_user.answer == "86 metres"
    assert given_by_user.enough is None  # all passages together give another answer
    assert given_by_user.consistent


def test_parts_can_be_left_out_and_every_prompt_is_asked_once() -> None:
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return reads(prompt)

    context = hf.mask_context(ask, TOWER, question="How tall?", reference="84 metres")
    result = hf.certify_citations(context, [2], radius=1, min_rate=None, witness=False, check_determinism=False)
    assert (result.witness, result.enough) == (None, None)
    assert len(prompts) == len(set(prompts)) == result.n_calls
    assert (result.prompt_tokens, result.completion_tokens) == (None, None)


def test_scores_of_ones_own_say_which_passages_are_kept() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    result = hf.certify_citations(context, [2], scores=[0, 1, 2, 3])
    assert result.enough is not None
    assert result.enough.ranking == (3, 2, 1, 0)


def test_random_answers_have_no_witness_and_nothing_is_enumerated() -> None:
    rng = np.random.default_rng(0)
    context = hf.mask_context(
        lambda prompt: reads(prompt) if rng.random() < 0.9 else "?", TOWER, question="How tall?", reference="84 metres"
    )
    result = hf.certify_citations(context, [2, 4], answers="random", rng=0)
    assert (result.witness, result.enough) == (None, None)
    assert not result.sufficiency.exact
    assert result.sufficiency.interval.low <= 0.9 <= result.sufficiency.interval.high
    assert "Needed: without them, and up to 2 others" in result.explain()
    assert hf.recheck(context, result).confirmed


def test_an_edited_result_is_not_confirmed() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    result = hf.certify_citations(context, [2], rng="canonical")
    assert hf.recheck(context, result).canonical is None  # nothing was drawn
    text = result.to_json()
    edits = [
        ('"question": "How tall?"', '"question": "How small?"'),
        ('"n_agreed": 6, "n_evaluated": 8', '"n_agreed": 8, "n_evaluated": 8'),
        ('"86 metres"', '"87 metres"'),
        ('"answer": "84 metres"', '"answer": "86 metres"'),
    ]
    for before, after in edits:
        assert before in text, before
        try:
            edited = hf.CitationCertificate.from_json(text.replace(before, after))
        except HoldfastError:
            continue
        assert not hf.recheck(context, edited).confirmed, after


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cited": []}, "`cited` must name at least one passage"),
        ({"cited": [5]}, "`cited` must be numbers of passages from 1 to 4, got 5"),
        ({"cited": [0]}, "`cited` must be numbers of passages from 1 to 4, got 0"),
        ({"cited": 2}, "`cited` must be numbers of passages from 1 to 4"),
        ({"cited": "[7]"}, "`cited` must cite passages from 1 to 4"),
        ({"cited": np.array([True])}, "`cited`"),
        ({"radius": -1}, "`radius` must be a whole number ≥ 0"),
        ({"neighborhood": "swaps"}, "`neighborhood` must be left out"),
        ({"witness": 1}, "`witness`"),
        ({"min_rate": 2}, "`min_rate`"),
        ({"tolerence": 0.1}, "`tolerence` must be a keyword of `certify_citations`"),
        ({"context": hf.lookup_table([0, 1], n_features=1)}, "`context` must be a context, from `mask_context`"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(wrong: dict[str, Any], message: str) -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    asked: dict[str, Any] = {"context": context, "cited": [2]} | wrong
    with pytest.raises(HoldfastError, match=message):
        hf.certify_citations(asked.pop("context"), asked.pop("cited"), **asked)


def test_every_sentence_says_what_the_errors_of_a_judge_leave() -> None:
    passages = [f"Passage {number}." for number in range(12)]
    context = hf.mask_context(lambda prompt: "yes", passages, question="Is it so?", reference="yes")
    judge = hf.judging.judge(hf.judging.same_number(0.5), errors=hf.judging.judge_errors(50, 5, 1))
    selected = np.arange(12) < 2
    results = [
        hf.certify(context, selected, radius=9, agree=judge, rng=0),
        hf.certify_radii(context, selected, radii=[5, 9], agree=judge, rng=0),
        hf.certified_radius(context, selected, min_rate=0.9, radii=[9], agree=judge, rng=0),
        hf.certify_hard(context, selected, radius=9, agree=judge, rng=0),
        hf.stabilize(context, np.arange(12.0), min_rate=0.9, radius=3, agree=judge, rng=0),
    ]
    for result in results:
        assert "(85% confidence" in str(result)
        assert "judge's errors included" in str(result)
        assert "judge's" in result.explain()
        assert type(result).from_json(result.to_json()) == result
        check = hf.recheck(context, result)  # the agreement by its name, the errors as they are stated
        assert check.confirmed
        assert any("errors of the judge were not checked" in note for note in check.notes)
    assert not results[0].holds(0.8)


def test_leaving_out_is_scored_by_the_likelihood_of_the_answer_where_it_is_known() -> None:
    @dataclass
    class Likely:
        n_features: int = 4
        reference: str | None = "84 metres"
        agreement: str = "same_answer"
        question: str = "How tall?"
        tokens: tuple[None, None] = (None, None)
        feature_names: tuple[str, ...] = tuple(TOWER)

        @property
        def scores(self) -> Any:
            return hf.mask_function(lambda masks: masks @ np.array([[0.0], [1.0], [2.0], [3.0]]), n_features=4)

        def __call__(self, masks: Any) -> Any:
            return self.sample(masks, np.zeros(len(masks), dtype=np.int64))

        def sample(self, masks: Any, numbers: Any) -> Any:
            return np.full(len(masks), "84 metres", dtype=object)

    result = hf.certify_citations(Likely(), [2], rng=0)
    assert result.enough is not None
    assert result.enough.ranking == (1, 3, 2, 0)  # the cited one, then by likelihood


def test_another_agreement_is_refused_where_only_exact_tokens_count() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    exact = replace(context, exact=True, agreement="same_top_class")
    with pytest.raises(HoldfastError, match="`agree` must be left out: only the exact tokens of the reference count"):
        hf.certify(exact, [1], radius=1, agree=hf.judging.same_number(1))


def test_parts_that_do_not_belong_together_are_refused() -> None:
    context = hf.mask_context(reads, TOWER, question="How tall?", reference="84 metres")
    whole = json.loads(hf.certify_citations(context, [2], rng=0).to_json())
    moody = hf.mask_context(lambda prompt: "84 metres", TOWER, question="How tall?", reference="84 metres")
    drawn = json.loads(hf.certify_citations(moody, [2], answers="random", rng=0).to_json())
    forged = [
        whole | {"cited": {"n_features": 4, "shown": [0]}},
        whole | {"necessity": {**whole["necessity"], "neighborhood": "additions"}},
        whole | {"answer": "86 metres"},
        {**whole, "enough": {**whole["enough"], "certificate": {**whole["enough"]["certificate"], "confidence": 0.8}}},
        drawn | {"witness": whole["witness"] | {"provenance": drawn["sufficiency"]["provenance"]}},
    ]
    for plain in forged:
        with pytest.raises(HoldfastError):
            hf.CitationCertificate.from_json(json.dumps(plain))
    result = hf.certify_citations(context, [2], rng=0)
    added = hf.certify(context, ~result.cited, radius=1, reference="84 metres", rng=0)
    with pytest.raises(HoldfastError, match="must be additions for `sufficiency` and removals for `necessity`"):
        replace(result, necessity=added).check()

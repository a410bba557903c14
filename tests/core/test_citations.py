"""Citations: whether they are enough and needed, equal to enumeration, what changes the answer and what it cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.errors import HoldfastError
from tests.helpers.oracles import neighbors

PASSAGES = [f"Passage {letter}." for letter in "abcdefg"]
ANSWERS = ("yes", "no", "perhaps")


def context_of(table: Any, n: int, **options: Any) -> hf.ContextModel:
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
    assert str(hf.certify_citations(context, [2], rng=0)).splitlines() == [
        "The answer '84 metres' cites [2] of 4 passages.",
        "Enough? Shown with up to 3 others, they keep the answer in exactly 6 of 8 cases.",
        "Needed? Without them the answer is lost. Without them and up to 3 others it is lost in exactly 8 of 8 cases.",
        "Showing [3] as well changes the answer to '86 metres'. No fewer passages do.",
        "Certified to be enough in at least 90% of cases: [2] and [4].",
        "All of it is exact; 19 model calls.",
    ]
    assert "No other passages change it." in str(hf.certify_citations(context, [2, 4], rng=0))


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
    assert "is lost. " not in str(result)
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
        ({"cited": [0]}, "`cited` must be a whole number ≥ 1, got 0"),
        ({"cited": 2}, "`cited` must be numbers of passages from 1 to 4"),
        ({"cited": "[7]"}, "`answer` must cite passages from 1 to 4"),
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

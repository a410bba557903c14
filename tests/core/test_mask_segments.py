"""Segments of a text as features: whether the answer of a language model holds fast against its context."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Certificate, certify
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.text.mask_text import mask_text
from holdfast.masking.text.strings import normalise_answer
from tests.helpers.contracts import bits, check_masked_model
from tests.helpers.fakes import all_masks
from tests.helpers.oracles import exact_rate

PASSAGES = [
    "The Red Lion opened in 1752.",
    "It burned down in 1801 and was rebuilt in 1803.",
    "Locals call it the Lion.",
    "A correction: the inn opened in 1749, not in 1752.",
    "It serves lunch.",
    "In 1990 it was restored.",
]
"""The fourth passage corrects the first: revealing it changes the answer."""


def answer_by_extraction(prompt: str) -> str:
    """A language model of a kind: when did it open? The last year that is said, or none."""
    years = re.findall(r"opened in (\d{4})", prompt)
    corrected = "correction" in prompt.lower()
    if not years:
        return "  I do not\nknow "
    return f"In {years[-1]}" + (" (as corrected)" if corrected else "")


def year_of(answer: str) -> int | None:
    """What matters of an answer: the year."""
    found = re.search(r"\d{4}", answer)
    return int(found[0]) if found else None


def echo(text: str) -> str:
    return text


def keep(answer: Any) -> Any:
    return answer


# -- the offline example ----------------------------------------------------------------------------


def test_an_answer_is_certified_against_its_context() -> None:
    model = mask_text(answer_by_extraction, segments=PASSAGES, normalise=year_of, fingerprint="extraction")
    cert = certify(model, bits("100000"), radius=3, rng=0)
    assert cert.prediction == 1752
    assert not cert.consistent  # with all passages shown the answer is 1749
    # Of the 1 + 5 + 10 + 10 ways to reveal up to 3 of 5 passages, 1 + 4 + 6 + 4 leave out the correction.
    kept = 1 + 4 + 6 + 4
    assert (cert.exact, cert.n_agreed, cert.n_evaluated) == (True, kept, 26)
    assert Fraction(cert.n_agreed, cert.n_evaluated) == exact_rate(model, bits("100000"), 3)
    np.testing.assert_array_equal(cert.counterexample, bits("100100"))
    assert cert.provenance.masking == r"segments, joined by '\n', fill deletion, answers compared by year_of"
    assert Certificate.from_json(cert.to_json()) == cert


def test_the_passages_that_settle_the_answer_hold_fast() -> None:
    model = mask_text(answer_by_extraction, segments=PASSAGES, normalise=year_of)
    cert = certify(model, bits("000100"), radius=5, rng=0)
    assert (cert.prediction, cert.rate, cert.exact, cert.consistent) == (1749, 1.0, True, True)


def test_without_a_rule_of_ones_own_the_whole_answer_counts() -> None:
    model = mask_text(answer_by_extraction, segments=PASSAGES)
    assert model(np.stack([bits("111111"), bits("100000"), bits("000000")])).tolist() == [
        "in 1749 (as corrected)",
        "in 1752",
        "i do not know",
    ]
    check_masked_model(model, full_prediction="in 1749 (as corrected)")


# -- writing the text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "mask", "text"),
    [
        ({}, "111", "A.\nB b.\nC."),
        ({}, "101", "A.\nC."),
        ({}, "000", ""),
        ({"join": " | "}, "011", "B b. | C."),
        ({"join": lambda shown: f"{len(shown)} passages: {' '.join(shown)}"}, "110", "2 passages: A. B b."),
        ({"fill": "replace:[…]", "join": " "}, "001", "[…] […] C."),
        ({"text": "Q? A.  B b.\nC. Answer:"}, "111", "Q? A.  B b.\nC. Answer:"),
        ({"text": "Q? A.  B b.\nC. Answer:"}, "101", "Q? A.\nC. Answer:"),
        ({"text": "Q? A.  B b.\nC. Answer:"}, "000", "Q? Answer:"),
        ({"text": "A. B b. C. Q?"}, "011", "B b. C. Q?"),
        ({"text": "A. B b. C. Q?"}, "000", "Q?"),
        ({"text": "Q? A.  B b.\nC.", "fill": "replace:-"}, "010", "Q? -  B b.\n-"),
    ],
)
def test_shown_segments_are_written_as_asked(options: dict[str, Any], mask: str, text: str) -> None:
    model = mask_text(
        echo, options.get("text"), **_without_text(options), segments=["A.", "B b.", "C."], normalise=keep
    )
    assert model(bits(mask)[None]).tolist() == [text]


def _without_text(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "text"}


@given(st.lists(st.text("ab. \n", min_size=1).filter(str.strip), min_size=1, max_size=5), st.text("ab \n", max_size=3))
def test_a_joined_text_is_the_join_of_what_is_shown(segments: list[str], separator: str) -> None:
    model = mask_text(echo, segments=segments, join=separator, normalise=keep)
    masks = all_masks(len(segments))
    wanted = [separator.join(s for s, shown in zip(segments, mask, strict=True) if shown) for mask in masks]
    assert model(masks).tolist() == wanted


def test_segments_that_repeat_are_found_one_after_the_other() -> None:
    model = mask_text(echo, "no no yes no", segments=["no", "no", "no"], normalise=keep)
    assert model(bits("010")[None]).tolist() == ["no yes"]
    assert model(bits("100")[None]).tolist() == ["no yes"]
    assert model(bits("001")[None]).tolist() == ["yes no"]


def test_names_are_short_and_on_one_line() -> None:
    model = mask_text(echo, segments=["a\n b", "word " * 20])
    assert model.feature_names == ("a b", "word word word word word word word word…")
    assert all(len(name) <= 40 for name in model.feature_names)


def test_the_input_is_its_segments_and_not_only_their_letters() -> None:
    cuts = [["ab", "c"], ["a", "bc"], ["abc"]]
    prints = {mask_text(echo, segments=cut).provenance.input for cut in cuts}
    prints |= {mask_text(echo, "abc", segments=cut).provenance.input for cut in cuts}
    assert len(prints) == 6


# -- answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"), [(" Paris ", "paris"), ("NEW\n  York", "new york"), ("Straße", "STRASSE"), ("", " \n")]
)
def test_answers_agree_whatever_their_case_and_white_space(one: str, other: str) -> None:
    assert normalise_answer(one) == normalise_answer(other)


@pytest.mark.parametrize("answers", [("paris", "paris."), (1, 2), ((1, 2), (1, 3)), (True, False), (0.5, 1.5)])
def test_any_hashable_answer_counts_and_different_ones_differ(answers: tuple[Any, Any]) -> None:
    model = mask_text(lambda text: answers["b" in text], segments=["a", "b"])
    check_masked_model(model)
    assert certify(model, bits("00"), radius=2, rng=0).rate == 0.5
    assert certify(model, bits("01"), radius=1, rng=0).rate == 1.0


def test_equal_answers_agree_however_they_are_written() -> None:
    answers = {"": frozenset(["x", "y"]), "a": frozenset(["y", "x"]), "b": 1, "a\nb": np.int64(1)}
    labels = mask_text(answers.__getitem__, segments=["a", "b"])(all_masks(2)).tolist()
    assert labels[0] == labels[1]
    assert labels[2] == labels[3] == 1
    assert isinstance(labels[0], str)


def test_answers_that_look_alike_but_are_not_equal_are_refused() -> None:
    class Vague:
        def __repr__(self) -> str:
            return "something"

    with pytest.raises(ModelError, match=r"^Two different answers are both written 'something'"):
        mask_text(lambda text: Vague(), segments=["a", "b"])(all_masks(2))


def test_an_answer_that_cannot_be_hashed_asks_for_a_rule() -> None:
    model = mask_text(lambda text: {"answer": text}, segments=["a", "b"])
    with pytest.raises(ModelError, match=r"hashable answer for each text, got \{'answer': ''\}\. Give `normalise=`"):
        model(all_masks(2))
    ruled = mask_text(lambda text: {"answer": text}, segments=["a", "b"], normalise=lambda found: found["answer"])
    assert ruled(all_masks(2)).tolist() == ["", "a", "b", "a\nb"]


def test_a_callable_on_many_texts_gets_them_at_once() -> None:
    batches: list[list[str]] = []

    def answers(texts: list[str]) -> list[str]:
        batches.append(texts)
        return [text.upper() for text in texts]

    model = mask_text(answers, segments=["a", "b"], batched=True)
    assert model(all_masks(2)).tolist() == ["", "a", "b", "a b"]
    assert batches == [["", "a", "b", "a\nb"]]


def test_scores_of_segments_stay_scores() -> None:
    model = mask_text(lambda texts: np.array([[len(t), 1.0] for t in texts]), segments=["a", "bb"], batched=True)
    np.testing.assert_array_equal(model(all_masks(2)), [[0, 1], [1, 1], [2, 1], [4, 1]])


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"segments": []}, InvalidValueError, "`segments` must hold at least one segment, got none"),
        ({"segments": "abc"}, InvalidTypeError, "`segments` must be a list of strings, got 'abc'"),
        ({"segments": ["a", 3]}, InvalidTypeError, "`segments` must be a list of strings, got 3 as segment 1"),
        ({"segments": ["a", " "]}, InvalidValueError, "`segments` must not be empty, but segment 1 is ' '"),
        ({"text": "b a", "segments": ["a", "b"]}, InvalidValueError, r"`segments` must occur in .* segment 1 \('b'\)"),
        ({"text": "a b", "segments": ["a"], "join": " "}, InvalidValueError, "`join` must be left out when `text`"),
        ({"segments": ["a"], "join": 3}, InvalidTypeError, "`join` must be a string or a function .* got 3"),
        ({"segments": ["a"], "features": "words"}, InvalidValueError, "`features` must be left out when `segments`"),
        ({"segments": ["a"], "fill": "mask"}, InvalidValueError, "`fill='mask'` hides tokens"),
    ],
)
def test_bad_segments_are_named(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        mask_text(echo, options.get("text"), **_without_text(options))


def test_a_join_must_write_a_text() -> None:
    model = mask_text(echo, segments=["a", "b"], join=len)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"^`join` must return a string, got 0\."):
        model(all_masks(2))

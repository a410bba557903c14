"""The bundled questions over passages: well formed, and their gold citations hold the answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from holdfast.inputs.data import dataset

LINES = (dataset.BOX / "contexts.jsonl").read_text(encoding="utf-8").splitlines()
ITEMS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
KEYS = ["id", "kind", "question", "passages", "cited", "answer", "accepted"]
WORD_LIMITS = (15, 50)
each_item = pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["id"])


def texts(item: dict[str, Any]) -> list[str]:
    return [item["id"], item["kind"], item["question"], item["answer"], *item["accepted"], *item["passages"]]


def holding_the_answer(item: dict[str, Any]) -> set[int]:
    """Numbers of the passages in which the answer or an accepted form occurs, ignoring case."""
    forms = [form.lower() for form in (item["answer"], *item["accepted"])]
    return {
        number
        for number, passage in enumerate(item["passages"], start=1)
        if any(form in passage.lower() for form in forms)
    }


def test_there_are_48_questions_of_four_kinds() -> None:
    assert Counter(item["kind"] for item in ITEMS) == {"fact": 17, "distractor": 11, "conflict": 10, "multi-hop": 10}


@pytest.mark.parametrize("key", ["id", "question"])
def test_no_two_questions_share(key: str) -> None:
    assert len({item[key].lower() for item in ITEMS}) == len(ITEMS)


def test_no_passage_occurs_twice() -> None:
    passages = [passage.lower() for item in ITEMS for passage in item["passages"]]
    assert len(set(passages)) == len(passages)


def test_the_place_of_the_citation_says_nothing() -> None:
    places = Counter(number for item in ITEMS for number in item["cited"])
    assert set(places) >= set(range(1, 8))
    assert max(places.values()) <= 0.25 * places.total()


@each_item
def test_keys_and_types_are_those_promised(item: dict[str, Any]) -> None:
    assert list(item) == KEYS
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", item["id"])
    assert all(isinstance(text, str) for text in texts(item))
    assert all(type(number) is int for number in item["cited"])


@each_item
def test_texts_are_plain_and_trimmed(item: dict[str, Any]) -> None:
    for text in texts(item):
        assert text == text.strip() != ""
        assert all(" " <= character <= "~" or character.isalpha() for character in text), text
        assert "  " not in text


@each_item
def test_questions_and_passages_are_short_whole_sentences(item: dict[str, Any]) -> None:
    assert item["question"].endswith("?")
    assert 5 <= len(item["passages"]) <= 8
    for passage in item["passages"]:
        assert re.fullmatch(r"[A-Z].*\.", passage), passage
        assert WORD_LIMITS[0] <= len(passage.split()) <= WORD_LIMITS[1], passage
        assert 1 <= len(re.findall(r"[.!?](?= |$)", passage)) <= 3, passage


@each_item
def test_citations_are_sorted_numbers_of_passages(item: dict[str, Any]) -> None:
    cited = item["cited"]
    assert cited == sorted(set(cited)) != []
    assert set(cited) < set(range(1, len(item["passages"]) + 1))
    assert item["kind"] != "multi-hop" or len(cited) >= 2
    assert item["kind"] not in ("fact", "distractor") or len(cited) == 1


@each_item
def test_answers_are_short_and_accepted_forms_differ(item: dict[str, Any]) -> None:
    forms = [form.lower() for form in (item["answer"], *item["accepted"])]
    assert 1 <= len(item["answer"].split()) <= 5
    assert len(set(forms)) == len(forms)


@pytest.mark.parametrize(
    "item", [item for item in ITEMS if item["kind"] in ("fact", "distractor")], ids=lambda item: item["id"]
)
def test_only_the_cited_passage_holds_the_answer_of_facts_and_distractors(item: dict[str, Any]) -> None:
    assert holding_the_answer(item) == set(item["cited"])
    (number,) = item["cited"]
    assert item["answer"].lower() in item["passages"][number - 1].lower()
    assert item["answer"].lower() not in item["question"].lower()


@pytest.mark.parametrize(
    "item",
    [item for item in ITEMS if item["kind"] == "conflict" and item["answer"] not in ("Yes", "No")],
    ids=lambda item: item["id"],
)
def test_what_is_outdated_does_not_hold_the_answer_of_conflicts(item: dict[str, Any]) -> None:
    assert holding_the_answer(item) <= set(item["cited"])
    assert len(item["cited"]) > 1 or holding_the_answer(item)


@pytest.mark.parametrize("item", [item for item in ITEMS if item["kind"] == "conflict"], ids=lambda item: item["id"])
def test_a_cited_passage_says_that_it_is_newer_or_a_correction(item: dict[str, Any]) -> None:
    cited = " ".join(item["passages"][number - 1] for number in item["cited"]).lower()
    assert re.search(r"correct|replaces|newe|no longer|took over|update", cited)

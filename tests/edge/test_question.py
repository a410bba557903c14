"""What is asked: one table of fields behind verbs, options, keys of studies and fields of pages."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification.question import FIELDS, Procedure, Question, RateKeywords, parse_radii
from holdfast.cli import command_parser
from holdfast.study.spec import CertifySpec

VERBS = (
    hf.certify,
    hf.certify_radii,
    hf.certified_radius,
    hf.certify_hard,
    hf.compare,
    hf.fill_sensitivity,
    hf.stabilize,
    hf.calibrate,
)
MODEL = hf.lookup_table([0, 1] * 8, n_features=4)
SELECTED = np.array([True, False, False, False])


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_the_signature_of_a_verb_shows_every_keyword_with_its_default(verb: Any) -> None:
    shown = inspect.signature(verb).parameters
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in shown.values())
    assert {"batch_size", "progress", "rng"} <= set(shown)
    plan = {"plan": "exact"} if verb is hf.compare else {}
    known = {name: field.default for name, field in FIELDS.items() if name != "radii"} | plan
    assert {name: shown[name].default for name in known if name in shown} == {
        name: default for name, default in known.items() if name in shown
    }


def test_certify_takes_every_field_of_a_question_but_those_of_many_radii() -> None:
    assert set(RateKeywords.__annotations__) >= set(FIELDS) - {"radii", "simultaneous"}
    # How many completions there are is not asked: the model says so.
    assert {field.name for field in fields(Question)} == set(FIELDS) | {"n_completions"}


@pytest.mark.parametrize(
    ("wrong", "right"), [("tolerence", "tolerance"), ("neighbourhood", "neighborhood"), ("seed", "")]
)
def test_a_keyword_that_a_verb_does_not_take_is_refused_with_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(hf.errors.InvalidTypeError, match=f"`{wrong}` must be a keyword of `certify`") as caught:
        hf.certify(MODEL, SELECTED, radius=1, **{wrong: 1})
    assert caught.value.argument == wrong
    assert not right or f"Did you mean {right!r}?" in str(caught.value)


def test_a_question_cannot_be_changed_and_equal_ones_are_equal() -> None:
    question = Question.check({"radii": [3, 1, 3]})
    assert question.radii == (1, 3)
    assert question == Question.check({"radii": (1, 3), "tolerance": 0.1})
    assert hash(question) == hash(Question.check({"radii": (1, 3)}))
    with pytest.raises(FrozenInstanceError):
        question.plan = "exact"  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"radii", "simultaneous"}))
def test_errors_of_a_question_name_the_field_with_its_prefix(name: str) -> None:
    with pytest.raises(hf.HoldfastError) as caught:
        Question.check({"radii": [1], name: object()}, prefix="certify.")
    assert caught.value.argument == f"certify.{name}"


def test_options_and_settings_of_certify_are_the_fields_of_a_question_with_their_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["certify", "--model", "bundled:vader", "--input", "text:good", "--method", "lime", "--radius", "1"]
    assert command_parser().parse_args(words).confidence == FIELDS["confidence"].default
    monkeypatch.setenv("COLUMNS", "10000")
    with pytest.raises(SystemExit):
        command_parser().parse_args(["certify", "--help"])
    text = capsys.readouterr().out
    asked = {name: field.help for name, field in FIELDS.items() if name not in ("radii", "simultaneous")}
    assert [name for name, meaning in asked.items() if name not in text or meaning not in text] == []


def test_keys_of_a_study_have_the_defaults_of_a_question() -> None:
    keys = CertifySpec().keywords
    assert set(keys) == set(FIELDS) - {"rate_kind", "reference"}  # which belongs to one input
    assert all(keys[name] == FIELDS[name].default for name in keys if name != "radii")


def test_the_key_of_a_question_does_not_depend_on_how_sure_the_answer_is_to_be() -> None:
    sure, unsure = (
        Procedure.check(hf.certify, "single", {"tolerance": tolerance, "rng": "canonical"}, radii=[2])
        for tolerance in (0.05, 0.1)
    )
    evaluator = hf.Evaluator(hf.lookup_table([0, 1] * 2 ** (len(SELECTED) - 1), n_features=len(SELECTED)))
    assert sure.bound(evaluator, SELECTED).key == unsure.bound(evaluator, SELECTED).key


def test_radii_are_read_from_texts() -> None:
    assert parse_radii(" 1-3, 10,2") == [1, 2, 3, 10, 2]
    with pytest.raises(hf.errors.InvalidValueError, match="have ranges that go up, such as 1-9"):
        parse_radii("9-1")

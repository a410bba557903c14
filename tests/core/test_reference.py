"""A reference of one's own: what is kept is the answer that was given, in every verb."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.agreement import as_reference
from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError
from tests.helpers.oracles import neighbors

N = 7
RNG = np.random.default_rng(3)
LABELS = RNG.choice(["yes", "no", "none"], size=2**N, p=[0.6, 0.3, 0.1])
SCORES = RNG.random((2**N, 3))
SELECTED = np.arange(N) < 2
WORDS = hf.lookup_table(LABELS.tolist(), n_features=N)
CLASSES = hf.lookup_table(SCORES, n_features=N, classes=["bad", "fine", "good"])
ONE = hf.lookup_table(SCORES[:, :1], n_features=N)


def index(mask: Any) -> int:
    return int((np.asarray(mask) * 2 ** np.arange(N)).sum())


def share(holds: Any, radius: int) -> Fraction:
    """The share of all masks near the explanation for which something holds, by enumeration."""
    masks = list(neighbors(SELECTED, radius))
    return Fraction(sum(bool(holds(index(mask))) for mask in masks), len(masks))


QUESTIONS: dict[str, tuple[Any, Any, Any, Any]] = {
    "a label": (WORDS, "no", "same_top_class", lambda i: LABELS[i] == "no"),
    "a class by number": (CLASSES, 2, "same_top_class", lambda i: SCORES[i].argmax() == 2),
    "a class by name": (CLASSES, "fine", "same_top_class", lambda i: SCORES[i].argmax() == 1),
    "a number": (ONE, 0.5, "within(0.3)", lambda i: abs(SCORES[i, 0] - 0.5) < 0.3),
    "scores": (CLASSES, [0.5, 0.5, 0.5], "within(0.4)", lambda i: np.abs(SCORES[i] - 0.5).max() < 0.4),
    "a side": (ONE, 0.9, "same_side(0.6)", lambda i: SCORES[i, 0] >= 0.6),
    "a set": (CLASSES, [1.0, 0.0, 1.0], "same_top_set(2)", lambda i: SCORES[i].argmin() == 1),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("radius", [0, 1, 3, 5])
def test_the_rate_is_the_share_of_masks_that_give_the_reference(name: str, radius: int) -> None:
    model, reference, agree, holds = QUESTIONS[name]
    certificate = hf.certify(model, SELECTED, radius=radius, reference=reference, agree=agree)
    assert certificate.exact
    assert Fraction(certificate.n_agreed, certificate.n_evaluated) == share(holds, radius)
    assert certificate.consistent == bool(holds(index(SELECTED)))
    assert certificate.reference == reference
    assert hf.Certificate.from_json(certificate.to_json()) == certificate
    assert hf.recheck(model, certificate).confirmed
    if certificate.counterexample is not None:
        assert not holds(index(certificate.counterexample))
    assert (certificate.counterexample is None) == (certificate.rate == 1)


def test_without_a_reference_nothing_changes() -> None:
    own = hf.certify(WORDS, SELECTED, radius=3)
    given = hf.certify(WORDS, SELECTED, radius=3, reference=str(LABELS[index(SELECTED)]))
    assert own.reference is None
    assert (own.n_agreed, own.prediction, own.rng_key is not None) == (given.n_agreed, given.prediction, True)


@pytest.mark.parametrize("name", ["a label", "a class by name", "a side"])
def test_every_verb_keeps_the_reference(name: str) -> None:
    model, reference, agree, holds = QUESTIONS[name]
    asked: dict[str, Any] = {"reference": reference, "agree": agree, "rng": 0}
    curve = hf.certify_radii(model, SELECTED, radii=[1, 3], **asked)
    assert [Fraction(point.n_agreed, point.n_evaluated) for point in curve] == [share(holds, r) for r in (1, 3)]
    other = np.arange(N) == 4
    table = hf.compare(model, {"first": SELECTED, "second": other}, [2], **asked)
    assert Fraction(table.curves[0][2].rate).limit_denominator(200) == share(holds, 2)
    hard = hf.certify_hard(model, SELECTED, radius=2, **asked)
    assert hard.stable == (share(holds, 2) == 1)
    radius = hf.certified_radius(model, SELECTED, min_rate=0.2, radii=[1, 2, 3], **asked)
    counted = [(step.radius, Fraction(step.n_agreed, step.n_evaluated)) for step in radius.trail if step.exact]
    assert counted == [(r, share(holds, r)) for r, _ in counted]
    for result in (curve, table, hard, radius):
        assert hf.recheck(model, result).confirmed
    fills = hf.fill_sensitivity(lambda fill: model, SELECTED, {"one": 0, "two": 1}, radius=2, **asked)
    assert [certificate.reference for certificate in fills.certificates] == [reference, reference]
    again = hf.reexplain(model, "random", radius=1, n_repeats=3, reference=reference, agree=agree, rng=0)
    assert all(certificate.reference == reference for certificate in again.certificates)


def test_a_stable_selection_starts_from_a_full_input_that_gives_the_reference() -> None:
    full = str(LABELS[-1])
    stable = hf.stabilize(WORDS, np.arange(N), min_rate=0.3, radius=1, reference=full, rng=0)
    assert stable.certificate.reference == full
    assert all(step.prediction == full for step in stable.trail)
    assert hf.recheck(WORDS, stable).confirmed
    wrong = next(label for label in ("yes", "no", "none") if label != full)
    with pytest.raises(InvalidValueError, match="`reference` must be the prediction of the full input"):
        hf.stabilize(WORDS, np.arange(N), min_rate=0.3, radius=1, reference=wrong)


def test_a_witness_changes_the_reference() -> None:
    alone = str(LABELS[index(SELECTED)])
    witness = hf.find_witness(WORDS, SELECTED, reference=alone, rng=0)
    own = hf.find_witness(WORDS, SELECTED, rng=0)
    assert (witness.added, witness.reference, own.reference) == (own.added, alone, None)
    assert hf.recheck(WORDS, witness).confirmed
    wrong = next(label for label in ("yes", "no", "none") if label != alone)
    with pytest.raises(
        InvalidValueError, match=f"must be the prediction of the selected features alone, '{alone}', got '{wrong}'"
    ):
        hf.find_witness(WORDS, SELECTED, reference=wrong)


def test_sampled_rates_are_about_the_reference_too() -> None:
    weights = np.random.default_rng(0).normal(size=40)
    model = hf.mask_function(lambda masks: np.where(masks @ weights > 0, "up", "down"), n_features=40)
    selected = np.arange(40) < 10
    up, down = (hf.certify(model, selected, radius=12, reference=word, rng=0, plan="exact") for word in ("up", "down"))
    assert not up.exact
    assert up.n_agreed + down.n_agreed == up.n_evaluated == down.n_evaluated
    assert up.consistent != down.consistent
    wrong = down if up.consistent else up
    assert "but the selected features alone do not give it" in str(wrong)
    assert "kept reference" in str(wrong)


@pytest.mark.parametrize(
    ("model", "reference", "agree", "error", "message"),
    [
        (WORDS, 3, "same_top_class", InvalidTypeError, "be a label of the model, such as "),
        (WORDS, [0.5], "same_top_class", InvalidTypeError, "be a label of the model, such as "),
        (CLASSES, "great", "same_top_class", InvalidValueError, "be a class: a name, or a number from 0 to 2"),
        (CLASSES, 3, "same_top_class", InvalidValueError, "be a class: a name, or a number from 0 to 2"),
        (CLASSES, True, "same_top_class", InvalidValueError, "be a class: a name, or a number from 0 to 2"),
        (ONE, "big", "within(0.1)", InvalidValueError, r"be a list of 1 scores for within\(0\.1\)"),
        (CLASSES, [0.1, 0.2], "within(0.1)", InvalidValueError, r"be a list of 3 scores for within\(0\.1\)"),
        (CLASSES, [], "within(0.1)", InvalidTypeError, "be a label, a class or scores"),
        (CLASSES, {"a": 1}, "within(0.1)", InvalidTypeError, "be a label, a class or scores"),
        (ONE, float("nan"), "within(0.1)", InvalidValueError, "be finite"),
    ],
)
def test_a_reference_that_the_model_cannot_give_is_refused(
    model: Any, reference: Any, agree: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"`reference` must {message}"):
        hf.certify(model, SELECTED, radius=1, reference=reference, agree=agree)


def test_references_are_plain_values() -> None:
    assert as_reference(np.int64(2)) == 2
    assert as_reference(np.array([0.5, 1.0])) == [0.5, 1.0]
    assert as_reference((1, 2)) == [1, 2]
    assert as_reference(None) is None


def test_an_edited_reference_is_not_confirmed() -> None:
    certificate = hf.certify(WORDS, SELECTED, radius=3, reference="no")
    edited = json.loads(certificate.to_json()) | {"reference": "yes"}
    try:
        read = hf.Certificate.from_json(json.dumps(edited))
    except HoldfastError:
        return
    assert not hf.recheck(WORDS, read).confirmed


def test_draws_that_add_nothing_are_judged_like_all_others() -> None:
    """At radius 1 of 30 features, many draws are the explanation itself, which here does not give the reference."""
    model = hf.mask_function(lambda masks: masks[:, 5:].any(axis=1), n_features=80)
    selected = np.arange(80) < 2
    curve = hf.certify_radii(model, selected, radii=[1, 2], reference=True, plan="hoeffding", rng=0)
    truth = share_of_any(80, 2, 75)
    for point, rate in zip(curve, truth, strict=True):
        assert abs(point.rate - float(rate)) <= 0.1
        assert point.consistent is False
    assert curve[1].exact
    assert Fraction(curve[1].n_agreed, curve[1].n_evaluated) == truth[0]


def share_of_any(n: int, n_selected: int, n_marked: int) -> list[Fraction]:
    """The share of masks within 1 and within 2 additions that show a marked feature."""
    free, unmarked = n - n_selected, n - n_selected - n_marked
    sizes = [1, free, free * (free - 1) // 2]
    without = [1, unmarked, unmarked * (unmarked - 1) // 2]
    return [1 - Fraction(sum(without[: r + 1]), sum(sizes[: r + 1])) for r in (1, 2)]


def test_a_look_of_more_masks_than_fit_into_memory_is_drawn_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """No portion is empty: an agreement need not know what to say of no masks."""
    model, selected, sizes = (
        hf.lookup_table(np.random.default_rng(0).normal(size=(2**14, 3)), n_features=14),
        np.arange(14) < 5,
        list[int](),
    )

    def agree(outputs: Any, reference: Any) -> Any:
        sizes.append(len(outputs))
        return outputs.argmax(axis=1) == reference.argmax()

    options: dict[str, Any] = {"radius": 9, "plan": "hoeffding", "tolerance": 0.2, "agree": agree, "rng": 0}
    usual = hf.certify(model, selected, **options)
    monkeypatch.setattr("holdfast.certification.reference._PORTION_BYTES", 14 * 10)
    assert hf.certify(model, selected, **options) == usual
    assert min(sizes) > 0

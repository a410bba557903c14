"""A stored result can be re-checked: the whole question again, every field compared."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification.serialization import from_any_json
from holdfast.plans import Design
from tests.helpers.fakes import score_table

SELECTED = np.arange(12) < 3
OTHER = np.arange(12) > 7
TABLE = score_table(12, seed=4)
RANKING = np.arange(12, 0, -1.0)


def steady(masks: Any) -> Any:
    """A model that keeps its prediction often enough to be certified."""
    return np.stack([3 * masks[:, 0] + masks[:, 1], masks[:, 5:].sum(axis=1) - 3.5], axis=1)


STEADY = hf.lookup_table(steady(np.array([[(i >> j) & 1 for j in range(12)] for i in range(4096)])), n_features=12)

SIZES = np.array([mask.bit_count() for mask in range(2**16)])
CROWD = hf.lookup_table(np.stack([np.full(2**16, 7.5), SIZES], axis=1), n_features=16)
"""Eight features change its prediction, and no fewer."""

MADE: dict[str, Callable[[], Any]] = {
    "sequential": lambda: hf.certify(TABLE, SELECTED, radius=5, rng=3),
    "hoeffding": lambda: hf.certify(TABLE, SELECTED, radius=5, plan="hoeffding", rng=3),
    "enumerated": lambda: hf.certify(TABLE, SELECTED, radius=1, rng=3),
    "clamped": lambda: hf.certify(TABLE, SELECTED, radius=30, rng=3),
    "unchecked": lambda: hf.certify(TABLE, SELECTED, radius=5, check_determinism=False, rng=3),
    "exactly": lambda: hf.certify(TABLE, SELECTED, radius=5, rate_kind="exactly", rng=3),
    "worst size": lambda: hf.certify(TABLE, np.arange(12) < 1, radius=8, rate_kind="worst_size", rng=3),
    "swaps": lambda: hf.certify(TABLE, SELECTED, radius=3, neighborhood="swaps", rng=3),
    "within": lambda: hf.certify(TABLE, SELECTED, radius=5, agree=hf.agreement.within(0.5), rng=3),
    "canonical": lambda: hf.certify(TABLE, SELECTED, radius=5, rng="canonical"),
    "curve": lambda: hf.certify_radii(TABLE, SELECTED, radii=[1, 5, 7], rng=3),
    "simultaneous curve": lambda: hf.certify_radii(TABLE, SELECTED, radii=[2, 5, 7], simultaneous=True, rng=3),
    "worst size curve": lambda: hf.certify_radii(TABLE, SELECTED, radii=[2, 5], rate_kind="worst_size", rng=3),
    "exactly curve": lambda: hf.certify_radii(TABLE, SELECTED, radii=[2, 5, 7], rate_kind="exactly", rng=3),
    "compared in pairs": lambda: hf.compare(TABLE, {"a": SELECTED, "b": OTHER}, [3, 5], rng=3),
    "compared in sequence": lambda: hf.compare(TABLE, {"a": SELECTED, "b": OTHER}, [3, 5], plan="sequential", rng=3),
    "radius": lambda: hf.certified_radius(TABLE, SELECTED, min_rate=0.6, rng=3),
    "radius of all masks": lambda: hf.certified_radius(TABLE, SELECTED, min_rate=0.9, radii=[1], rng=3),
    "hard, refuted": lambda: hf.certify_hard(TABLE, SELECTED, radius=5, rng=3),
    "hard, proven": lambda: hf.certify_hard(STEADY, SELECTED, radius=2, max_enumerated=100, rng=3),
    "hard, likely": lambda: hf.certify_hard(STEADY, SELECTED, radius=5, tolerance=0.2, rng=3),
    "mus": lambda: hf.certify_mus(STEADY, SELECTED, keep_probability=0.125, rng=3),
    "mus, canonical": lambda: hf.certify_mus(STEADY, SELECTED, keep_probability=0.125, rng="canonical"),
    "witness": lambda: hf.find_witness(TABLE, SELECTED, rng=3),
    "witness, none": lambda: hf.find_witness(STEADY, SELECTED, max_radius=4, rng=3),
    "witness, searched": lambda: hf.find_witness(CROWD, np.arange(16) < 1, max_calls=6000, rng=3),
    "witness, none searched": lambda: hf.find_witness(CROWD, np.arange(16) < 1, max_radius=6, max_calls=5000, rng=3),
    "scores by lime": lambda: hf.attribute(TABLE, "lime", n_samples=50, rng=3),
    "scores by shap": lambda: hf.attribute(TABLE, "shap", rng=3),
    "scores by occlusion": lambda: hf.attribute(TABLE, "occlusion", rng=3),
    "stable": lambda: hf.stabilize(STEADY, RANKING, min_rate=0.7, radius=2, rng=3),
}


def model_of(name: str) -> Any:
    if "searched" in name:
        return CROWD
    steady = ("hard, proven", "hard, likely", "mus", "stable", "witness, none")
    return STEADY if name.startswith(steady) else TABLE


@pytest.mark.parametrize("name", MADE)
def test_a_result_read_back_is_confirmed_by_its_model(name: str) -> None:
    made = MADE[name]()
    result = type(made).from_json(made.to_json())
    again = hf.recheck(model_of(name), result, batch_size=7)
    assert again.differences == ()
    assert again.confirmed
    assert str(again).startswith("Confirmed: asked again, the model gives the same result")
    assert str(again.repeated) == str(made)
    assert hf.certification.Recheck.from_json(again.to_json()) == again
    assert again.not_identified == ()
    undrawn = name in UNDRAWN or isinstance(made, (hf.Witness, hf.Attribution))
    assert again.canonical is (None if undrawn else "canonical" in name)


UNDRAWN = {"enumerated", "radius of all masks", "hard, proven"}


def test_what_an_evaluator_knew_before_does_not_matter() -> None:
    known = hf.Evaluator(TABLE)
    hf.attribute(known, "shap")
    cert = hf.certify(known, SELECTED, radius=5, rng=3)
    assert cert == MADE["sequential"]()
    assert hf.recheck(TABLE, cert).confirmed


SHIPPED = {"confidence": 0.95, "tolerance": 0.05}
"""Other goals whose stopping designs need not be searched."""


def edits(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of a JSON value, with other values for it."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in ("schema", "schema_version"):
                yield from edits(part, (*path, key))
    elif isinstance(value, list):
        for i, part in enumerate(value[:2]):
            yield from edits(part, (*path, i))
        if value:
            yield path, value[:-1]
    elif isinstance(value, bool) or value is None:
        yield path, not value
    elif isinstance(value, int):
        yield from ((path, value + 1), (path, 0 if value else 2))
    elif path[-1] in SHIPPED:
        yield path, SHIPPED[path[-1]]
    elif isinstance(value, float):
        yield from ((path, value / 2 or 0.25), (path, 0.05 if value == 0.1 else 0.2))
    elif isinstance(value, str):
        others = {"additions": "removals", "sequential": "exact", "single": "pooled", "uniform": "exactly"}
        yield path, others.get(value, value + "x")


def edited(data: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = edited(data[path[0]], path[1:], other)
    return copy


QUESTION = {
    "needs_consistent",
    "tolerance",
    "confidence",
    "min_rate",
    "plan",
    "radius",
    "requested_radius",
    "rng_key",
    "max_draws",
    "max_radius",
    "sizes",
}


@pytest.mark.parametrize("name", MADE)
def test_no_edit_of_any_field_is_confirmed(name: str) -> None:
    made = MADE[name]()
    plain = json.loads(made.to_json())
    n_tried = 0
    for path, other in edits(plain):
        if (path[-1] == "method" and name == "stable") or path == ("names", 0):
            continue  # labels of the maker's own, which the sentence repeats as such
        if path == ("n_calls",) and isinstance(made, hf.Witness):
            continue  # the verdict says that it is as the file gives it
        text = json.dumps(edited(plain, path, other))
        n_tried += 1
        try:
            forged = type(made).from_json(text)
            verdict = hf.recheck(model_of(name), forged)
        except (hf.errors.InvalidValueError, hf.errors.InvalidTypeError):
            continue
        # Another question may have this very answer: what is confirmed then is what it gives.
        if verdict.confirmed and isinstance(made, hf.Witness) and path[0] == "selected":
            again = hf.find_witness(model_of(name), forged.selected, max_radius=forged.max_radius, rng=3)
            assert (again.found, again.max_radius, again.added) == (forged.found, forged.max_radius, forged.added)
            continue
        assert not verdict.confirmed or path[-1] in QUESTION, (path, other)
    assert n_tried > (15 if isinstance(made, (hf.Witness, hf.Attribution)) else 30)


@pytest.mark.parametrize("max_radius", [7, 11, 38, 100_000])
@pytest.mark.parametrize("cleared", [0, 1, 2])
def test_a_witness_edited_into_none_is_not_confirmed(max_radius: int, cleared: int) -> None:
    pair = hf.mask_function(lambda masks: masks[:, 0] & ~(masks[:, 5] & masks[:, 7]), n_features=40)
    witness = hf.find_witness(pair, np.arange(40) < 2, rng=0)
    assert witness.added == (5, 7)
    none = {"found": False, "mask": None, "added": [], "n_added": None, "prediction": None, "n_calls": 0}
    none |= {"cleared_radius": cleared, "max_radius": max_radius, "proven": False}
    forged = hf.Witness.from_json(json.dumps(json.loads(witness.to_json()) | none))
    assert not hf.recheck(pair, forged).confirmed


@pytest.mark.parametrize("name", ["witness, searched", "witness, none searched", "witness, none"])
def test_a_witness_that_searched_further_than_there_are_features_is_not_confirmed(name: str) -> None:
    witness = MADE[name]()
    for max_radius in (16, 100_000):
        assert not hf.recheck(model_of(name), dataclasses.replace(witness, max_radius=max_radius)).confirmed


def test_a_witness_of_more_features_than_were_asked_for_is_not_confirmed() -> None:
    witness = MADE["witness, searched"]()
    assert (witness.n_added, witness.cleared_radius, witness.proven) == (7, 5, False)
    for changes in ({"max_radius": 6}, {"cleared_radius": 4}, {"cleared_radius": 6}, {"agree": "within(0.5)"}):
        assert not hf.recheck(CROWD, dataclasses.replace(witness, **changes)).confirmed


def test_a_fingerprint_that_is_removed_is_missed_in_the_verdict() -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, rng=3)
    for name in ("model", "input", "masking"):
        bare = dataclasses.replace(cert, provenance=dataclasses.replace(cert.provenance, **{name: None}))
        verdict = hf.recheck(TABLE, bare)
        assert verdict.not_identified == (name,)
        assert f"not identified: {name}." in str(verdict)


def test_a_name_that_comes_twice_is_refused() -> None:
    text = hf.certify(TABLE, SELECTED, radius=5, rng=3).to_json()
    with pytest.raises(hf.errors.InvalidValueError, match="'n_agreed' appears twice"):
        hf.Certificate.from_json(text.replace('"n_agreed":', '"n_agreed": 1, "n_agreed":', 1))


def test_a_part_of_a_curve_or_a_comparison_is_confirmed_with_the_whole() -> None:
    with pytest.raises(hf.errors.InvalidValueError, match="must be the whole curve"):
        hf.recheck(TABLE, MADE["curve"]()[5])
    with pytest.raises(hf.errors.InvalidValueError, match="must be the whole comparison"):
        hf.recheck(TABLE, MADE["compared in pairs"]().curve("a")[5])


def test_a_valid_design_that_was_chosen_afterwards_is_not_confirmed() -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, plan="exact", rng=3)
    later = hf.certify(TABLE, SELECTED, radius=5, plan="hoeffding", rng=3)
    chosen = dataclasses.replace(later, plan="exact")  # 150 draws are proven, but not what the plan draws
    assert hf.recheck(TABLE, cert).confirmed
    assert not hf.recheck(TABLE, hf.Certificate.from_json(chosen.to_json())).confirmed


def test_a_smoothed_model_is_confirmed_whatever_it_remembers() -> None:
    smoothed = hf.smooth(STEADY, 0.75, n_samples=16, rng=0)
    cert = hf.certify(smoothed, SELECTED, radius=4, rng=3)
    assert cert.n_repeated > 0
    again = hf.recheck(smoothed, cert)
    assert again.confirmed
    assert not again.compares_cost
    votes = hf.certify_mus(smoothed, SELECTED)
    assert hf.recheck(smoothed, votes).confirmed
    with pytest.raises(hf.errors.InvalidValueError, match="must be the smoothed model itself"):
        hf.recheck(STEADY, votes)


def test_rules_of_stopping_that_do_not_ship_are_mentioned() -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, tolerance=0.25, rng=3)
    assert "does not ship" in hf.recheck(TABLE, cert).explain()


def test_a_budget_of_ones_own_is_mentioned() -> None:
    found = hf.certified_radius(TABLE, SELECTED, min_rate=0.6, max_draws=200, rng=3)
    assert "at most 200 draws per radius" in hf.recheck(TABLE, found).explain()


def test_a_budget_too_large_to_compute_anew_is_read_back_by_its_counts_alone() -> None:
    found = hf.certified_radius(TABLE, SELECTED, min_rate=0.6, radii=[5], rng=3)
    text = json.dumps(json.loads(found.to_json()) | {"max_draws": 10**6})
    assert hf.RadiusCertificate.from_json(text).max_draws == 10**6
    with pytest.raises(hf.errors.InvalidValueError, match="`max_draws` must be from 1 to"):
        hf.RadiusCertificate.from_json(text.replace(str(10**6), str(10**9)))
    plain = json.loads(text)
    plain["trail"][0]["answer"] = not plain["trail"][0]["answer"]
    with pytest.raises(hf.errors.InvalidValueError, match="must follow from the counts"):
        hf.RadiusCertificate.from_json(json.dumps(plain))


def test_another_model_is_not_confirmed_and_is_named() -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, rng="canonical")
    again = hf.recheck(score_table(12, seed=5), cert)
    assert str(again) == "Not confirmed: the result is about a different model and a different input."
    assert "provenance.model is" in again.explain()
    assert "The key was chosen" not in again.explain()


def test_margins_are_told_where_the_model_is_not_identified() -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, rng=3)
    other = score_table(12, seed=5)
    again = hf.recheck(hf.mask_function(lambda masks: other(masks), n_features=12), cert)
    assert not again.confirmed
    assert len(again.smallest_margins) == 3
    assert list(again.smallest_margins) == sorted(again.smallest_margins)
    assert "The smallest margins" in again.explain()


FORGED = {
    "a narrower interval": {"interval": hf.Interval(0.99, 1.0)},
    "a smaller tolerance": {"tolerance": 0.05},
    "more confidence": {"confidence": 0.95},
    "another unbiased rate": {"rate_unbiased": 0.99},
    "a design that proves nothing": {"design": Design((5,), (2,)), "tolerance": 0.1},
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED.keys())
def test_a_claim_that_does_not_follow_from_the_draws_is_not_confirmed(changes: dict[str, Any]) -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, rng=3)
    assert hf.recheck(TABLE, cert).confirmed
    forged = hf.recheck(TABLE, dataclasses.replace(cert, **changes))
    assert not forged.confirmed
    assert str(forged).startswith("Not confirmed")


class Named:
    """A model that tells what it was made of."""

    n_features = 12

    def __init__(self, provenance: hf.types.Provenance) -> None:
        self.provenance = provenance

    def __call__(self, masks: Any, /) -> Any:
        return TABLE(masks)


def test_fingerprints_are_compared_where_both_are_known() -> None:
    cert = hf.certify(Named(hf.types.Provenance("table", "m1", "x1")), SELECTED, radius=5, rng=3)
    assert cert.provenance == hf.types.Provenance("table", "m1", "x1")
    assert hf.recheck(Named(hf.types.Provenance("table", "m1", "x1")), cert).confirmed
    for other in (("table", "m2", "x1"), ("table", "m1", "x2"), ("another fill", "m1", "x1")):
        assert not hf.recheck(Named(hf.types.Provenance(*other)), cert).confirmed
    unknown = hf.recheck(hf.mask_function(lambda masks: TABLE(masks), n_features=12), cert)
    assert unknown.not_identified == ("masking", "model", "input")


def test_labels_have_no_margins() -> None:
    labels = hf.mask_function(lambda masks: masks[:, 5] & masks[:, 7], n_features=12)
    cert = hf.certify(labels, SELECTED, radius=5, rng=3)
    assert hf.recheck(labels, cert).smallest_margins == ()


def test_a_function_of_the_users_must_be_given_again() -> None:
    def close(outputs: Any, reference: Any) -> Any:
        return np.abs(outputs - reference).sum(axis=1) < 0.8

    cert = hf.certify(TABLE, SELECTED, radius=5, agree=close, rng=3)
    with pytest.raises(hf.errors.InvalidValueError, match=r"`agree` must be .*close.*, which judged the result"):
        hf.recheck(TABLE, cert)
    assert hf.recheck(TABLE, cert, agree=close).confirmed


def test_what_is_no_result_is_refused() -> None:
    with pytest.raises(hf.errors.InvalidTypeError, match="The model comes first"):
        hf.recheck(hf.certify(TABLE, SELECTED, radius=1), TABLE)  # type: ignore[arg-type]
    with pytest.raises(hf.errors.InvalidTypeError, match="`result` must be one of Certificate"):
        hf.recheck(TABLE, "cert.json")  # type: ignore[arg-type]


def test_the_canonical_key_leaves_nothing_to_choose_from() -> None:
    def key(model: Any = TABLE, selected: Any = SELECTED, **question: Any) -> int:
        return hf.certify(model, selected, rng="canonical", **({"radius": 5} | question)).rng_key

    same = [{"radius": 4}, {"tolerance": 0.1 - 1e-12}, {"tolerance": 0.2}, {"confidence": 0.95}, {"plan": "exact"}]
    assert {key(), *(key(**question) for question in same), key(agree=hf.agreement.within(0.5))} == {key()}
    others = [key(score_table(12, seed=5)), key(selected=OTHER), key(neighborhood="removals"), key(rate_kind="exactly")]
    assert len({key(), *others}) == 5


def test_the_canonical_key_of_a_comparison_depends_on_no_order_and_no_names() -> None:
    def key(**explanations: Any) -> int:
        return hf.compare(TABLE, explanations, [3], rng="canonical").curves[0].certificates[0].rng_key

    assert key(a=SELECTED, b=OTHER) == key(b=OTHER, a=SELECTED) == key(x=SELECTED, y=OTHER, z=SELECTED)


def test_seeds_cannot_be_shopped_for_under_the_canonical_key() -> None:
    made = hf.certify(TABLE, SELECTED, radius=5, rng="canonical")
    best = max((hf.certify(TABLE, SELECTED, radius=5, rng=seed) for seed in range(40)), key=lambda cert: cert.rate)
    assert hf.recheck(TABLE, made).canonical is True
    verdict = hf.recheck(TABLE, best)
    assert verdict.confirmed
    assert verdict.canonical is False
    assert "the seed was chosen by its maker" in str(verdict)
    assert "could have tried several" in verdict.explain()


def test_texts_that_are_no_results_are_refused() -> None:
    for text in ("[]", "{", '{"schema": []}', '{"schema": "other"}', "3"):
        with pytest.raises(hf.errors.InvalidValueError):
            from_any_json(text)


HOSTILE: dict[str, tuple[str, dict[str, Any], str]] = {
    "a proof of too many masks": (
        "hard, proven",
        {
            "requested_radius": 59,
            "effective_radius": 57,
            "radius": 59,
            "selected": {"n_features": 60, "shown": [0, 1, 2]},
        },
        "at most 10000000 of them",
    ),
    "a tolerance that nobody draws for": ("hard, likely", {"tolerance": 1e-9}, "`tolerance` must be at least"),
    "features listed twice": ("sequential", {"selected": {"n_features": 12, "shown": [1, 1]}}, "once each"),
    "looks that are no numbers": ("sequential", {"design": {"looks": [1.5], "limits": [0]}}, "whole numbers"),
    "a name of two lines": ("stable", {"method": "lime\nproven"}, "printable on one line"),
}


@pytest.mark.parametrize(("name", "changes", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_results_are_refused_with_the_reason(name: str, changes: dict[str, Any], reason: str) -> None:
    made = MADE[name]()
    with pytest.raises(hf.errors.InvalidValueError, match=reason):
        type(made).from_json(json.dumps(json.loads(made.to_json()) | changes))


EDITED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a hard certificate with more agreed than evaluated": (
        hf.HardCertificate,
        lambda: hf.certify_hard(TABLE, SELECTED, radius=5, rng=3),
        {"n_agreed": 10**9},
    ),
    "a refutation called stable": (
        hf.HardCertificate,
        lambda: hf.certify_hard(TABLE, SELECTED, radius=5, rng=3),
        {"stable": True},
    ),
    "a radius beyond the trail": (
        hf.RadiusCertificate,
        lambda: hf.certified_radius(TABLE, SELECTED, min_rate=0.9, rng=3),
        {"radius": 99},
    ),
    "a pointwise curve called simultaneous": (
        hf.StabilityCurve,
        lambda: hf.certify_radii(TABLE, SELECTED, radii=[3, 5, 7], rng=3),
        {"simultaneous": True},
    ),
    "a curve without certificates": (
        hf.StabilityCurve,
        lambda: hf.certify_radii(TABLE, SELECTED, radii=[3, 5, 7], rng=3),
        {"certificates": []},
    ),
    "a comparison without differences": (
        hf.Comparison,
        lambda: hf.compare(TABLE, {"a": SELECTED, "b": ~SELECTED}, [3], rng=3),
        {"differences": []},
    ),
}


@pytest.mark.parametrize(("kind", "make", "changes"), EDITED.values(), ids=EDITED.keys())
def test_edited_json_that_contradicts_itself_is_refused(kind: Any, make: Any, changes: dict[str, Any]) -> None:
    text = make().to_json()
    assert kind.from_json(text).to_json() == text
    with pytest.raises(hf.errors.InvalidValueError, match="is not a valid"):
        kind.from_json(json.dumps(json.loads(text) | changes))


def test_scores_whose_details_are_no_numbers_are_not_confirmed() -> None:
    scores = hf.attribute(TABLE, "lime", n_samples=50, rng=3)
    assert hf.recheck(TABLE, scores).confirmed
    assert not hf.recheck(TABLE, dataclasses.replace(scores, details={**scores.details, "fit": ["x"]})).confirmed

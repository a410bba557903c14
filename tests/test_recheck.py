"""A stored certificate can be re-checked: the same draws, the same counts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.plans import Design
from tests.fakes import score_table

SELECTED = np.arange(12) < 3
TABLE = score_table(12, seed=4)


def curve_member(**options: Any) -> hf.Certificate:
    return hf.certify_radii(TABLE, SELECTED, radii=[2, 5, 7], rng=3, **options)[5]


def compared(plan: str) -> hf.Certificate:
    table = hf.compare(TABLE, {"a": SELECTED, "b": np.arange(12) > 7}, [3, 5], plan=plan, rng=3)
    return table.curve("a")[5]


MADE: dict[str, Callable[[], hf.Certificate]] = {
    "sequential": lambda: hf.certify(TABLE, SELECTED, radius=5, rng=3),
    "hoeffding": lambda: hf.certify(TABLE, SELECTED, radius=5, plan="hoeffding", rng=3),
    "enumerated": lambda: hf.certify(TABLE, SELECTED, radius=1, rng=3),
    "exactly": lambda: hf.certify(TABLE, SELECTED, radius=5, rate_kind="exactly", rng=3),
    "worst size": lambda: hf.certify(TABLE, np.arange(12) < 1, radius=8, rate_kind="worst_size", rng=3),
    "swaps": lambda: hf.certify(TABLE, SELECTED, radius=3, neighborhood="swaps", rng=3),
    "within": lambda: hf.certify(TABLE, SELECTED, radius=5, agree=hf.within(0.5), rng=3),
    "curve": curve_member,
    "simultaneous curve": lambda: curve_member(simultaneous=True),
    "worst size curve": lambda: curve_member(rate_kind="worst_size"),
    "exactly curve": lambda: curve_member(rate_kind="exactly"),
    "compared in pairs": lambda: compared("exact"),
    "compared in sequence": lambda: compared("sequential"),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_a_certificate_read_back_is_confirmed_by_its_model(make: Callable[[], hf.Certificate]) -> None:
    cert = hf.Certificate.from_json(make().to_json())
    again = hf.recheck(TABLE, cert, batch_size=7)
    assert again.confirmed
    assert (again.repeated.n_agreed, again.repeated.n_evaluated) == (cert.n_agreed, cert.n_evaluated)
    assert str(again).startswith("Confirmed")
    assert hf.Recheck.from_json(again.to_json()) == again


def test_another_model_is_not_confirmed_and_the_margins_are_told() -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, rng=3)
    again = hf.recheck(score_table(12, seed=5), cert)
    assert not again.confirmed
    assert len(again.smallest_margins) == 3
    assert list(again.smallest_margins) == sorted(again.smallest_margins)
    assert "smallest margins" in str(again)


FORGED = {
    "a narrower interval": {"interval": hf.Interval(0.99, 1.0)},
    "a smaller tolerance": {"tolerance": 0.001},
    "more confidence": {"confidence": 0.999999},
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


def test_edited_counts_are_not_confirmed() -> None:
    cert = hf.certify(TABLE, SELECTED, radius=5, rng=3)
    edited = dataclasses.replace(cert, n_agreed=cert.n_agreed + 1)
    assert not hf.recheck(TABLE, edited).confirmed


class Named:
    """A model that tells what it was made of."""

    n_features = 12

    def __init__(self, provenance: hf.Provenance) -> None:
        self.provenance = provenance

    def __call__(self, masks: Any, /) -> Any:
        return TABLE(masks)


def test_fingerprints_are_compared_where_both_are_known() -> None:
    cert = hf.certify(Named(hf.Provenance("table", "m1", "x1")), SELECTED, radius=5, rng=3)
    assert cert.provenance == hf.Provenance("table", "m1", "x1")
    assert hf.recheck(Named(hf.Provenance("table", "m1", "x1")), cert).confirmed
    other = hf.recheck(Named(hf.Provenance("table", "m2", "x1")), cert)
    assert (other.same_model, other.same_input, other.confirmed) == (False, True, False)
    assert hf.recheck(TABLE, cert).same_model is None


def test_a_function_of_the_users_must_be_given_again() -> None:
    def close(outputs: Any, reference: Any) -> Any:
        return np.abs(outputs - reference).sum(axis=1) < 0.8

    cert = hf.certify(TABLE, SELECTED, radius=5, agree=close, rng=3)
    with pytest.raises(hf.InvalidValueError, match="`agree` must be given"):
        hf.recheck(TABLE, cert)
    assert hf.recheck(TABLE, cert, agree=close).confirmed


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(hf.InvalidTypeError, match="`certificate` must be a Certificate"):
        hf.recheck(TABLE, "cert.json")  # type: ignore[arg-type]


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
    with pytest.raises(hf.InvalidValueError, match="is not a true"):
        kind.from_json(json.dumps(json.loads(text) | changes))

"""The interval on the way: valid at every look at once, and only narrower; and the hook that feeds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification.certificate import Look
from holdfast.explore.questions import narrow
from tests.helpers.explore_support import decide

CONFIDENCE = 0.9


def test_what_is_known_only_narrows_and_says_when_looks_contradict_each_other() -> None:
    known = hf.Interval(0, 1)
    for k, n in [(20, 20), (30, 40), (50, 60)]:
        later = narrow(known, Look(k, n, 72, exact=False), confidence=CONFIDENCE)
        assert known.low <= later.low <= later.high <= known.high
        known = later
    assert known.low <= known.high
    contradicted = narrow(known, Look(60, 600, 600, exact=False), confidence=CONFIDENCE)
    assert contradicted.low > contradicted.high


def test_masks_that_are_listed_leave_no_chance() -> None:
    model, selected = hf.mask_function(decide, n_features=12), np.arange(12) < 2
    looks: list[Look] = []
    exact = hf.certify(model, selected, radius=2, rng=0, batch_size=8, on_look=looks.append)
    assert exact.exact
    known = hf.Interval(0, 1)
    for look in looks:
        assert look.exact
        assert look.n_most == exact.n_evaluated
        known = narrow(known, look, confidence=CONFIDENCE)
        assert known.low <= exact.rate <= known.high
    assert (known.low, known.high) == (exact.rate, exact.rate)


@pytest.mark.parametrize("plan", ["sequential", "exact", "hoeffding"])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_looking_changes_nothing_and_ends_at_the_counts_of_the_certificate(plan: str, batch_size: int | None) -> None:
    model, selected = hf.mask_function(decide, n_features=12), np.arange(12) < 2
    asked: dict[str, Any] = {"radius": 6, "plan": plan, "rng": 3}
    looks: list[Look] = []
    watched = hf.certify(model, selected, on_look=looks.append, batch_size=batch_size, **asked)
    assert watched == hf.certify(model, selected, **asked)
    assert (looks[-1].n_agreed, looks[-1].n_evaluated) == (watched.n_agreed, watched.n_evaluated)
    counts = [look.n_evaluated for look in looks]
    assert counts == sorted(set(counts))
    assert all(after - before <= (batch_size or 256) for before, after in zip([0, *counts], counts, strict=False))
    assert {look.n_most for look in looks} == {watched.design.max_draws if watched.design else 0}


def test_each_size_is_told_in_turn() -> None:
    model, selected = hf.mask_function(decide, n_features=12), np.arange(12) < 2
    looks: list[Look] = []
    hf.certify(model, selected, radius=3, rate_kind="worst_size", rng=0, on_look=looks.append)
    assert [look.n_evaluated for look in looks if look.exact] == [1, 10, 45]


def test_a_hook_must_be_a_function() -> None:
    model = hf.mask_function(decide, n_features=12)
    with pytest.raises(hf.errors.InvalidTypeError, match="`on_look` must be a function of a Look, or None, got 3"):
        hf.certify(model, np.arange(12) < 2, radius=1, on_look=3)  # type: ignore[arg-type]

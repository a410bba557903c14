"""Certificates that are picked for their results: the usual interval misses, the one for picked certificates holds."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import certify, mask_function
from holdfast.errors import InvalidValueError
from holdfast.plans import make_plan
from holdfast.plans.design import probabilities

N_INPUTS, N_PICKED, RATE = 200, 5, 0.8
DESIGN = make_plan("sequential", tolerance=0.1, confidence=0.9).design


def certificate():
    model = mask_function(lambda masks: masks[:, 1:].sum(axis=1) % 5 > 0, n_features=24)
    return certify(model, np.arange(24) < 1, radius=20, rng=0)


def picked(n_studies: int) -> np.ndarray:
    """The counts (k, n) of the five lowest rates among 200 inputs whose true rates are all alike, study by study."""
    rng = np.random.default_rng(0)
    chances = probabilities(DESIGN.terminals, np.array([[RATE]]))[0]
    drawn = rng.choice(len(chances), size=(n_studies, N_INPUTS), p=chances / chances.sum())
    k, n = DESIGN.terminals.k[drawn], DESIGN.terminals.n[drawn]
    lowest = np.argsort(k / n, axis=1)[:, :N_PICKED]
    return np.stack([np.take_along_axis(k, lowest, 1), np.take_along_axis(n, lowest, 1)])


def test_the_least_stable_of_equal_inputs_usually_miss_and_their_own_interval_holds() -> None:
    from dataclasses import replace

    studies, stated = picked(2000), certificate()
    k, n = studies.reshape(2, -1)
    assert np.mean(abs(k / n - RATE) > 0.1) > 0.5
    missed = {}
    for pair in set(zip(k.tolist(), n.tolist(), strict=True)):
        interval = replace(stated, n_agreed=pair[0], n_evaluated=pair[1]).interval_if_picked(N_INPUTS)
        missed[pair] = not interval.low <= RATE <= interval.high
    any_missed = [
        any(missed[pair] for pair in zip(study[0].tolist(), study[1].tolist(), strict=True))
        for study in studies.transpose(1, 0, 2)
    ]
    assert np.mean(any_missed) <= 0.1


def test_the_more_it_was_picked_from_the_wider_it_is() -> None:
    stated = certificate()
    intervals = [stated.interval_if_picked(n) for n in (1, 10, 1000)]
    assert [interval.low for interval in intervals] == sorted((interval.low for interval in intervals), reverse=True)
    assert all(interval.low <= stated.rate <= interval.high for interval in intervals)
    with pytest.raises(InvalidValueError, match="`n_certificates` must be a whole number ≥ 1, got 0"):
        stated.interval_if_picked(0)


def test_what_was_enumerated_is_a_fact_however_it_was_picked() -> None:
    model = mask_function(lambda masks: masks[:, 0], n_features=6)
    exact = certify(model, np.arange(6) < 1, radius=2, rng=0)
    assert exact.exact
    assert exact.interval_if_picked(1000) == exact.interval


def test_the_worst_of_several_sizes_has_none() -> None:
    model = mask_function(lambda masks: masks[:, 1:].sum(axis=1) % 5 > 0, n_features=24)
    for kind in ("worst_size", "worst_size_lower"):
        worst = certify(model, np.arange(24) < 1, radius=9, rate_kind=kind, rng=0)
        with pytest.raises(InvalidValueError, match="`rate_kind` must be that of one rate, got"):
            worst.interval_if_picked(2)

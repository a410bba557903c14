"""LIME: the weighted ridge of its definition, on the masks and with the weights it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import attribute, mask_function
from holdfast.attribution.lime import draw_masks, fit_ridge, kernel_weights
from tests.helpers.attribution_oracles import ridge_by_stacking
from tests.helpers.fakes import Recorded, score_table


def asked_masks(**options: object) -> tuple[np.ndarray, object]:
    """The masks a run evaluates, in order, and what it found; no mask of 40 features is drawn twice."""
    model = Recorded(mask_function(lambda masks: masks @ np.random.default_rng(0).normal(size=(40, 3)), n_features=40))
    found = attribute(model, "lime", rng=7, **options)  # type: ignore[arg-type]
    return np.concatenate(model.batches), found


@settings(max_examples=40)
@given(
    n=st.integers(1, 9), n_masks=st.integers(2, 60), alpha=st.sampled_from([1e-3, 1.0, 50.0]), seed=st.integers(0, 99)
)
def test_coefficients_minimise_the_penalised_weighted_squares(n: int, n_masks: int, alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks, values = rng.random((n_masks, n)) < 0.5, rng.normal(size=n_masks)
    weights = kernel_weights(masks, 0.25)
    found, intercept, fit = fit_ridge(masks, values, weights, alpha)
    np.testing.assert_allclose(found, ridge_by_stacking(masks, values, weights, alpha), atol=1e-7)
    left = values - masks @ found - intercept
    assert abs(weights @ left) < 1e-8  # a free intercept leaves no mean
    assert -1e-9 <= fit <= 1 + 1e-12


def test_the_scores_are_the_coefficients_on_the_masks_that_were_evaluated() -> None:
    masks, found = asked_masks(n_samples=300, kernel_width=0.4, penalty=2.0)
    values = (masks @ np.random.default_rng(0).normal(size=(40, 3)))[:, found.target]
    wanted = ridge_by_stacking(masks, values, kernel_weights(masks, 0.4), 2.0)
    np.testing.assert_allclose(found.scores, wanted, atol=1e-9)
    assert found.details["fit"] > 0.9
    expected = {"n_samples": 300, "kernel_width": 0.4, "penalty": 2.0, "sampling": "bernoulli"}
    assert {name: found.details[name] for name in expected} == expected


def test_the_first_mask_is_the_full_input_and_the_rest_show_half() -> None:
    masks, _ = asked_masks(n_samples=2000)
    assert masks[0].all()
    shown = masks[1:].mean(axis=0)
    assert np.abs(shown - 0.5).max() < 5 * 0.5 / np.sqrt(1999)


def test_sizes_are_uniform_when_asked_for() -> None:
    masks = draw_masks(5001, 10, "sizes", np.random.default_rng(0))[1:]
    counts = np.bincount(masks.sum(axis=1), minlength=11)
    assert counts[10] == 0  # at least one feature is hidden
    assert np.abs(counts[:10] - 500).max() < 5 * np.sqrt(500)
    assert np.abs(masks.mean(axis=0) - 0.45).max() < 5 * 0.5 / np.sqrt(5000)


@pytest.mark.parametrize("n", [1, 5, 64])
def test_weights_fall_with_the_cosine_distance_from_the_full_input(n: int) -> None:
    for k in range(1, n + 1):
        mask = np.arange(n) < k
        cosine = mask @ np.ones(n) / (np.sqrt(k) * np.sqrt(n))
        wanted = np.sqrt(np.exp(-((1 - cosine) ** 2) / 0.25**2))
        assert kernel_weights(mask[None], 0.25)[0] == pytest.approx(wanted)
    assert kernel_weights(np.zeros((1, n), dtype=bool), 0.25)[0] == pytest.approx(np.exp(-8))


def test_a_kernel_so_narrow_that_only_the_full_input_counts_gives_zeros() -> None:
    found = attribute(score_table(9), "lime", kernel_width=1e-9, n_samples=50, rng=0)
    assert not found.scores.any()

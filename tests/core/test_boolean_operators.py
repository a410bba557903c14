"""What the paper says of M_λ and T_ρ, by enumeration over random functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import boolean
from holdfast.boolean import tables
from holdfast.errors import InvalidTypeError, InvalidValueError
from tests.helpers import boolean_oracles as naive
from tests.helpers.boolean_functions import basis_matrix, real_tables, shares
from tests.helpers.boolean_oracles import Array, mask_matrix

unit = st.floats(0, 1)
signed = st.floats(-1, 1)


def n_of(h: Array) -> int:
    return len(h).bit_length() - 1


def flip_matrix(n: int, rho: float) -> Array:
    rows = np.arange(2**n)
    flipped = boolean.degrees(n)[rows[:, None] ^ rows].astype(float)
    return ((1 - rho) / 2) ** flipped * ((1 + rho) / 2) ** (n - flipped)


@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_matrices_of_this_file_are_the_definitions(n: int, share: float) -> None:
    h = np.random.default_rng(n).standard_normal(2**n)
    assert np.allclose(mask_matrix(n, share) @ h, naive.mask_operator(h, share))
    assert np.allclose(flip_matrix(n, share) @ h, naive.flip_operator(h, share))


@given(real_tables(), unit, signed)
@settings(max_examples=60, deadline=None)
def test_operators_on_tables_equal_the_mean_over_all_draws(h: Array, lam: float, rho: float) -> None:
    size = np.abs(h).max()
    assert np.allclose(boolean.mask_operator(h, lam), mask_matrix(n_of(h), lam) @ h, atol=1e-9 * size)
    assert np.allclose(boolean.flip_operator(h, rho), flip_matrix(n_of(h), rho) @ h, atol=1e-9 * size)


@given(real_tables(), unit, signed, shares)
@settings(max_examples=60, deadline=None)
def test_operators_on_each_spectrum_agree_with_those_on_the_table(h: Array, lam: float, rho: float, p: float) -> None:
    size = np.abs(h).max()
    bases: dict[str, tuple[Array, dict[str, Any], Any]] = {
        "fourier": (boolean.fourier(h), {}, boolean.fourier),
        "monotone": (boolean.monotone(h), {}, boolean.monotone),
        "biased": (boolean.biased(h, p), {"p": p}, lambda t: boolean.biased(t, p)),
    }
    for basis, (c, options, there) in bases.items():
        masked = boolean.mask_operator(c, lam, basis=basis, **options)
        flipped = boolean.flip_operator(c, rho, basis=basis, **options)
        assert np.allclose(masked, there(boolean.mask_operator(h, lam)), atol=1e-6 * size)
        assert np.allclose(flipped, there(boolean.flip_operator(h, rho)), atol=1e-6 * size)


@pytest.mark.parametrize("lam", [0.0, 0.25, 0.6, 1.0])
def test_masking_spreads_a_character_over_its_subsets(lam: float) -> None:
    """M_λ χ_S = Σ_{T⊆S} λ^{|T|} (1−λ)^{|S∖T|} χ_T."""
    characters = basis_matrix(5, "fourier")
    for s in naive.subsets(range(5)):
        seen = mask_matrix(5, lam) @ characters[:, boolean.index_of(s)]
        wanted = sum(
            lam ** len(t) * (1 - lam) ** len(s - t) * characters[:, boolean.index_of(t)] for t in naive.subsets(s)
        )
        assert np.allclose(seen, wanted)


@given(real_tables(), unit)
@settings(max_examples=40, deadline=None)
def test_fourier_coefficients_after_masking_are_the_lemma_s_sums(h: Array, lam: float) -> None:
    rows = np.arange(len(h))
    inside = (rows[:, None] & ~rows[None, :]) == 0  # T ⊆ S
    sizes = boolean.degrees(n_of(h)).astype(int)
    lost = sizes[None, :] - sizes[:, None]
    matrix = np.where(inside, lam ** sizes[:, None] * (1 - lam) ** np.where(inside, lost, 0), 0.0)
    coefficients = boolean.fourier(h)
    seen = boolean.mask_operator(coefficients, lam, basis="fourier")
    assert np.allclose(seen, matrix @ coefficients, atol=1e-9 * np.abs(h).max())
    assert np.allclose(matrix.sum(axis=0), 1)
    assert np.allclose(seen.sum(axis=0), coefficients.sum(axis=0), atol=1e-9 * np.abs(h).max())


def test_the_operator_of_three_features_is_the_matrix_in_the_paper() -> None:
    lam = 0.75
    u, order = 1 - lam, boolean.by_degree(3)
    seen = boolean.mask_operator(np.eye(8), lam, basis="fourier")[np.ix_(order, order)]
    printed = [
        [1, u, u, u, u**2, u**2, u**2, u**3],
        [0, lam, 0, 0, lam * u, lam * u, 0, lam * u**2],
        [0, 0, lam, 0, lam * u, 0, lam * u, lam * u**2],
        [0, 0, 0, lam, 0, lam * u, lam * u, lam * u**2],
        [0, 0, 0, 0, lam**2, 0, 0, lam**2 * u],
        [0, 0, 0, 0, 0, lam**2, 0, lam**2 * u],
        [0, 0, 0, 0, 0, 0, lam**2, lam**2 * u],
        [0, 0, 0, 0, 0, 0, 0, lam**3],
    ]
    assert (seen == printed).all()
    assert (seen.sum(axis=0) == 1).all()


@given(real_tables(), unit)
@settings(max_examples=40, deadline=None)
def test_mass_above_every_degree_shrinks_at_least_by_a_binomial_tail(h: Array, lam: float) -> None:
    coefficients = boolean.fourier(h)
    seen = boolean.tail_mass(boolean.mask_operator(coefficients, lam, basis="fourier"))
    bound = boolean.smoothed_mass_bound(coefficients, lam)
    n = n_of(h)
    tails = [sum(math.comb(n, j) * lam**j * (1 - lam) ** (n - j) for j in range(k, n + 1)) for k in range(n + 1)]
    assert np.allclose(bound.T, boolean.tail_mass(coefficients).T * tails)
    assert (seen <= bound * (1 + 1e-9) + 1e-12 * np.abs(h).max()).all()


def test_the_mass_bound_is_reached_by_the_top_character() -> None:
    top = np.zeros(32)
    top[-1] = 1.0
    seen = boolean.tail_mass(boolean.mask_operator(top, 0.6, basis="fourier"))
    assert np.allclose(seen, boolean.smoothed_mass_bound(top, 0.6))


@given(real_tables(), unit)
@settings(max_examples=40, deadline=None)
def test_masking_contracts_monotone_weights_pointwise(h: Array, lam: float) -> None:
    weights = boolean.monotone(h)
    factors = lam ** boolean.degrees(n_of(h)).astype(float)
    wanted = (weights.T * factors).T
    size = np.abs(weights).max()
    assert np.allclose(boolean.monotone(mask_matrix(n_of(h), lam) @ h), wanted, atol=1e-9 * size)
    assert np.allclose(boolean.mask_operator(weights, lam, basis="monotone"), wanted, atol=1e-12 * size)


@given(real_tables(), signed)
@settings(max_examples=40, deadline=None)
def test_flipping_contracts_fourier_coefficients_pointwise(h: Array, rho: float) -> None:
    coefficients = boolean.fourier(h)
    factors = rho ** boolean.degrees(n_of(h)).astype(float)
    wanted = (coefficients.T * factors).T
    assert np.allclose(boolean.fourier(flip_matrix(n_of(h), rho) @ h), wanted, atol=1e-9 * np.abs(h).max())


@given(real_tables(6), st.floats(0.02, 0.98), st.floats(0.02, 1))
@settings(max_examples=60, deadline=None)
def test_masking_a_biased_character_changes_its_bias(h: Array, ratio: float, lam: float) -> None:
    """M_λ χ_S^p = ((λ−p)/(1−p))^{|S|/2} χ_S^{p/λ} for p < λ; here p = ratio·λ."""
    p, n = ratio * lam, n_of(h)
    factor = ((lam - p) / (1 - p)) ** (boolean.degrees(n) / 2)
    seen = mask_matrix(n, lam) @ basis_matrix(n, "biased", p)
    wanted = basis_matrix(n, "biased", p / lam) * factor
    assert np.allclose(seen, wanted, rtol=1e-6, atol=1e-9 * np.abs(wanted).max())
    coefficients = boolean.mask_operator_rebiased(boolean.biased(h, p), lam, p=p)
    table = boolean.inverse_biased(coefficients, p / lam)
    assert np.allclose(table, boolean.mask_operator(h, lam), atol=1e-6 * np.abs(h).max())


@given(real_tables(), st.floats(0.02, 0.98), st.floats(0.02, 1))
@settings(max_examples=60, deadline=None)
def test_masking_contracts_the_variance(h: Array, ratio: float, lam: float) -> None:
    p = ratio * lam
    seen = boolean.variance(boolean.mask_operator(h, lam), p=p / lam)
    bound = boolean.smoothed_variance_bound(h, lam, p=p)
    assert (seen <= bound * (1 + 1e-9) + 1e-12 * np.abs(h).max() ** 2).all()
    assert np.allclose(bound, (lam - p) / (1 - p) * boolean.variance(h, p=p))


@given(real_tables(), unit, unit)
@settings(max_examples=30, deadline=None)
def test_masking_twice_is_masking_with_the_product(h: Array, one: float, two: float) -> None:
    twice = boolean.mask_operator(boolean.mask_operator(h, one), two)
    assert np.allclose(twice, boolean.mask_operator(h, one * two), atol=1e-9 * np.abs(h).max())


@given(real_tables(6), unit, st.data())
@settings(max_examples=40, deadline=None)
def test_smoothing_a_masked_input_sees_only_what_is_selected(h: Array, lam: float, data: st.DataObject) -> None:
    """M_λ f(x⊙α) = M_λ f_x(α) = M_λ f_{x⊙α}(1, …, 1)."""
    n = n_of(h)
    if n == 0:
        return
    row = data.draw(st.integers(0, 2**n - 1))
    selected = tables.all_masks(n, row, row + 1)[0]
    hidden = boolean.hide(h, selected)
    assert np.array_equal(hidden, [h[row & beta] for beta in range(2**n)])
    here = boolean.mask_operator(h, lam)[row]
    assert np.allclose(here, boolean.mask_operator(hidden, lam)[-1], atol=1e-9 * np.abs(h).max())


@given(real_tables(6), unit)
@settings(max_examples=30, deadline=None)
def test_a_smoothed_score_moves_by_at_most_lambda_per_feature(h: Array, lam: float) -> None:
    scores = (h - h.min()) / max(float(np.ptp(h)), 1e-300)
    smoothed = boolean.mask_operator(scores, lam)
    rows = np.arange(len(h))
    for i in range(n_of(h)):
        step = smoothed[rows | 1 << i] - smoothed[rows]
        assert np.abs(step).max() <= lam + 1e-12


def test_keep_probabilities_may_differ_between_features() -> None:
    h = np.random.default_rng(0).standard_normal(8)
    lam = np.array([1.0, 0.4, 0.0])
    z = tables.all_masks(3)
    chances = np.prod(np.where(z, lam, 1 - lam), axis=1)
    wanted = [(chances * h[a & np.arange(8)]).sum() for a in range(8)]
    assert np.allclose(boolean.mask_operator(h, lam), wanted)
    weights = boolean.monotone(h)
    factors = np.prod(np.where(z, lam, 1.0), axis=1)
    assert np.allclose(boolean.mask_operator(weights, lam, basis="monotone"), weights * factors)


def test_operators_work_in_place_and_otherwise_keep_their_input() -> None:
    h = np.random.default_rng(1).standard_normal(16)
    before, wanted = h.copy(), boolean.mask_operator(h, 0.3)
    assert (h == before).all()
    assert boolean.mask_operator(h, 0.3, out=h) is h
    assert (h == wanted).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: boolean.mask_operator([0, 1], 1.5), InvalidValueError, r"`lam` must be a number in \[0, 1\]"),
        (lambda: boolean.mask_operator([0, 1], True), InvalidTypeError, "`lam`"),
        (lambda: boolean.flip_operator([0, 1], -2), InvalidValueError, r"`rho` must be a number in \[-1, 1\]"),
        (lambda: boolean.mask_operator([0, 1], 0.5, basis="fouriers"), InvalidValueError, "Did you mean 'fourier'"),
        (lambda: boolean.mask_operator([0, 1], 0.5, basis="biased"), InvalidTypeError, "`p` must be given"),
        (lambda: boolean.mask_operator([0, 1], 0.5, p=0.5), InvalidTypeError, 'for basis="biased" only'),
        (lambda: boolean.mask_operator_rebiased([0, 1], 0.5, p=0.5), InvalidValueError, "`lam` must be larger"),
        (lambda: boolean.smoothed_variance_bound([0, 1], 0.5, p=0.6), InvalidValueError, "`p` must be strictly"),
        (lambda: boolean.smoothed_mass_bound([0, 1], "x"), InvalidTypeError, "`lam` must be a number in"),
        (lambda: boolean.hide([0, 1], [True, False]), InvalidValueError, "the table has 1 features, got 2"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

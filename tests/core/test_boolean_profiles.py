"""Averages, profiles, interaction indices and tables of models equal their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Evaluator, boolean, lookup_table, mask_function
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from tests.helpers import boolean_oracles as naive
from tests.helpers.boolean_functions import real_tables, shares
from tests.helpers.boolean_oracles import Array

HALF = st.floats(0, 1)


@given(real_tables(5), shares, HALF)
@settings(max_examples=25, deadline=None)
def test_averages_equal_sums_over_masks(h: Array, p: float, rho: float) -> None:
    n = len(h).bit_length() - 1
    for column in h.reshape(len(h), -1).T[:1]:
        values, size = column.tolist(), float(np.abs(column).max()) ** 2
        assert np.isclose(boolean.variance(column, p=p), naive.variance(values, p), rtol=1e-6, atol=1e-9 * size)
        seen = boolean.influences(column, p=p)
        assert np.allclose(seen, [naive.influence(values, i, p) for i in range(n)], rtol=1e-6, atol=1e-9 * size)
        seen = boolean.noise_stability(column, rho, p=p)
        assert np.isclose(seen, naive.noise_stability(values, rho, p), rtol=1e-6, atol=1e-9 * size)


@given(real_tables(), st.floats(-1, 1))
@settings(max_examples=30, deadline=None)
def test_noise_stability_is_the_inner_product_with_the_flipped_function(h: Array, rho: float) -> None:
    wanted = (h * boolean.flip_operator(h, rho)).mean(axis=0)
    assert np.allclose(boolean.noise_stability(h, rho), wanted, atol=1e-9 * np.abs(h).max() ** 2)


@given(real_tables())
@settings(max_examples=30, deadline=None)
def test_profiles_sum_coefficients_by_degree(c: Array) -> None:
    columns = c.reshape(len(c), -1).T
    for seen, size in [(boolean.degree_mass(c), abs), (boolean.degree_weight(c), lambda x: x * x)]:
        wanted = np.array([naive.by_degree(column.tolist(), size) for column in columns]).T
        assert seen.shape == (len(wanted), *c.shape[1:])
        assert np.allclose(seen.reshape(wanted.shape), wanted)
    tails = np.array([[boolean.degree_mass(c)[k:].sum()] for k in range(len(wanted))])
    assert np.allclose(boolean.tail_mass(c).reshape(len(wanted), -1).sum(axis=1), tails.ravel())


def test_profiles_of_long_tables_are_summed_in_blocks() -> None:
    c = np.random.default_rng(0).integers(-9, 9, 2**16).astype(float)
    wanted = np.bincount(boolean.degrees(16), weights=np.abs(c))
    assert (boolean.degree_mass(c) == wanted).all()


@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("p", [0.5, 0.3])
def test_the_gram_matrix_holds_the_inner_products_of_the_monotone_basis(n: int, p: float) -> None:
    sets = [frozenset(boolean.features_of(row)) for row in range(2**n)]
    wanted = [
        [naive.mean(naive.function(n, lambda a: naive.unanimity(s, a) * naive.unanimity(t, a)), p) for t in sets]  # noqa: B023
        for s in sets
    ]
    seen = boolean.gram_matrix(n, p=p)
    assert np.allclose(seen, wanted)
    assert np.allclose(seen, [[p ** len(s | t) for t in sets] for s in sets])


def test_the_gram_matrix_turns_weights_into_inner_products() -> None:
    h, g = np.random.default_rng(1).standard_normal((2, 32))
    inner = boolean.monotone(h) @ boolean.gram_matrix(5) @ boolean.monotone(g)
    assert np.isclose(inner, (h * g).mean())


@given(real_tables(5))
@settings(max_examples=25, deadline=None)
def test_values_and_interactions_equal_the_definitions_of_game_theory(h: Array) -> None:
    n = len(h).bit_length() - 1
    weights = boolean.monotone(h)
    column, size = h.reshape(len(h), -1)[:, 0].tolist(), np.abs(h).max()
    kinds = {"shapley": naive.shapley_weight, "banzhaf": naive.banzhaf_weight}
    for index, weight in kinds.items():
        seen = boolean.interactions(weights, order=3, index=index).reshape(len(h), -1)[:, 0]
        for row in range(len(h)):
            s = frozenset(boolean.features_of(row))
            wanted = naive.interaction(column, s, weight) if 1 <= len(s) <= 3 else 0.0
            assert np.isclose(seen[row], wanted, atol=1e-9 * size)
    one = boolean.interactions(weights, order=1)
    singles = [one[1 << i] for i in range(n)]
    assert np.allclose(boolean.shapley(weights), np.array(singles).reshape(n, *h.shape[1:]), atol=1e-9 * size)
    assert np.allclose(boolean.shapley(weights).sum(axis=0), h[-1] - h[0] if n else 0, atol=1e-9 * size)
    if n:
        assert np.allclose(boolean.shapley(weights).reshape(n, -1)[:, 0], naive.shapley(column), atol=1e-9 * size)


@given(real_tables(5), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_shapley_taylor_indices_equal_their_definition(h: Array, order: int) -> None:
    n = len(h).bit_length() - 1
    h = h.reshape(len(h), -1)[:, 0]
    seen = boolean.interactions(boolean.monotone(h), order=order, index="taylor")
    for row in range(len(h)):
        s = frozenset(boolean.features_of(row))
        if len(s) == order:
            wanted = naive.interaction(h.tolist(), s, naive.taylor_weight)
        else:
            wanted = naive.discrete_derivative(h.tolist(), s, frozenset()) if 0 < len(s) < order else 0.0
        assert np.isclose(seen[row], wanted, atol=1e-9 * np.abs(h).max())
    if n <= order:
        assert np.isclose(seen.sum(), h[-1] - h[0], atol=1e-9 * np.abs(h).max())


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_banzhaf_values_are_mean_gains_under_random_company(p: float) -> None:
    h = np.random.default_rng(2).standard_normal(32)
    for i, seen in enumerate(boolean.banzhaf(boolean.monotone(h), p=p)):
        rest = [s for s in naive.every(h) if i not in s]
        wanted = sum(naive.chance(s, 4, p) * (naive.at(h, s | {i}) - naive.at(h, s)) for s in rest)
        assert np.isclose(seen, wanted)


def test_values_and_interactions_are_those_of_shapiq() -> None:
    """From shapiq 1.4.1: ExactComputer(n_players=4, game=lambda X: h[X.astype(int) @ [1, 2, 4, 8]])(index, order)."""
    weights = boolean.monotone((np.arange(16) * 7 % 11) / 10)
    pairs = [3, 5, 9, 6, 10, 12]
    assert np.allclose(boolean.shapley(weights), [0.0583333333, 0.2083333333, 0.325, 0.0083333333])
    assert np.allclose(boolean.banzhaf(weights), [0.0125, 0.1625, 0.1875, -0.0375])
    sii = [-0.1833333333, -0.7333333333, -0.1833333333, 0.3666666667, -0.1833333333, 0.3666666667]
    bii = [-0.275, -0.825, -0.275, 0.275, -0.275, 0.275]
    stii = [-0.1833333333, -0.9166666667, -0.1833333333, 0.1833333333, -0.1833333333, 0.1833333333]
    assert np.allclose(boolean.interactions(weights, index="shapley")[pairs], sii)
    assert np.allclose(boolean.interactions(weights, index="banzhaf")[pairs], bii)
    assert np.allclose(boolean.interactions(weights, index="taylor")[pairs], stii)
    moebius = [0, 0.7, 0.3, 0, 0.6, -1.1, 0, 0, 0.1, 0, 0, -1.1, 0, 0, 0, 1.1]
    assert np.allclose(boolean.interactions(weights, order=4, index="monotone"), moebius)


def test_a_model_is_tabulated_row_by_row_in_any_batches() -> None:
    values = np.random.default_rng(3).random((2**10, 3))
    model = lookup_table(values, n_features=10)
    assert (boolean.tabulate(model) == values).all()
    assert (boolean.tabulate(model, batch_size=7) == values).all()
    assert (boolean.tabulate(model, target=2) == values[:, 2]).all()


def test_tabulating_reports_progress_and_reuses_what_is_known() -> None:
    model = Evaluator(lookup_table(np.arange(16.0), n_features=4))
    model(np.ones((1, 4), dtype=bool))
    seen: list[tuple[int, int]] = []
    boolean.tabulate(model, batch_size=5, progress=lambda done, total: seen.append((done, total)))
    assert model.n_calls == 16
    assert [done for done, _ in seen] == [5, 10, 15, 16, 16]
    assert seen[-1] == (16, 16)


def test_a_table_longer_than_one_portion_is_whole() -> None:
    count = mask_function(lambda masks: masks @ (1 << np.arange(15))[:, None], n_features=15)
    assert (boolean.tabulate(count, target=0, batch_size=4096) == np.arange(2**15)).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: boolean.tabulate(mask_function(lambda masks: masks, n_features=21)),
            InvalidValueError,
            "at most 20 features to be tabulated",
        ),
        (
            lambda: boolean.tabulate(lookup_table(["a", "b"], n_features=1)),
            ModelError,
            "must return scores",
        ),
        (
            lambda: boolean.tabulate(lookup_table([0.0, 1.0], n_features=1), target=1),
            InvalidValueError,
            "`target` must be a class of the model, 0 to 0, got 1",
        ),
        (lambda: boolean.tabulate("model"), InvalidTypeError, "`model` must be a MaskedModel"),
        (lambda: boolean.gram_matrix(13), InvalidValueError, "at most 12"),
        (lambda: boolean.noise_stability([0, 1], 2), InvalidValueError, r"`rho` must be a number in \[-1, 1\]"),
        (lambda: boolean.banzhaf([0, 1], p=2), InvalidValueError, r"`p` must be a number in \[0, 1\]"),
        (lambda: boolean.banzhaf([0, 1], p="x"), InvalidTypeError, "`p`"),
        (lambda: boolean.interactions([0, 1], order=0), InvalidValueError, "`order` must be a whole number ≥ 1"),
        (lambda: boolean.interactions([0, 1], index="sharpley"), InvalidValueError, "Did you mean 'shapley'"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@given(real_tables(6), HALF)
@settings(max_examples=30, deadline=None)
def test_a_banzhaf_value_times_lambda_is_what_a_feature_adds_to_the_smoothed_full_input(h: Array, lam: float) -> None:
    smoothed = boolean.mask_operator(h, lam)
    values = boolean.banzhaf(boolean.monotone(h), p=lam)
    for i, value in enumerate(values):
        assert np.allclose(smoothed[-1] - smoothed[-1 - (1 << i)], lam * value, atol=1e-9 * np.abs(h).max())

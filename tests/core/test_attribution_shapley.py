"""Shapley values: exact by every definition, and sampled within the error that is stated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import attribute, lookup_table, mask_function
from holdfast.attribution.shapley import Coalitions, allocate, draw_coalitions, exact_shapley, fit_pairs, pairs_by_size
from tests.helpers.attribution_oracles import Dividends, shapley_by_orders, shapley_by_subsets, value_of_set
from tests.helpers.contracts import chi_square
from tests.helpers.fakes import all_masks, label_table, score_table

# -- exact ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 8))
def test_exact_values_are_means_over_all_orders(n: int) -> None:
    for model in (score_table(n, seed=n), label_table(n, seed=n)):
        found = attribute(model, "shap")
        wanted = shapley_by_orders(value_of_set(model, found.target), n)
        np.testing.assert_allclose(found.scores, wanted, atol=1e-9)
        assert (found.details["exact"], found.n_calls) == (True, 2**n)
        assert not np.any(found.errors)


@pytest.mark.parametrize("n", [8, 9, 10])
@pytest.mark.parametrize("seed", range(3))
def test_exact_values_of_larger_tables_are_those_of_the_definition_by_subsets(n: int, seed: int) -> None:
    model = score_table(n, seed=seed)
    found = attribute(model, "shap", target=1)
    np.testing.assert_allclose(found.scores, shapley_by_subsets(value_of_set(model, 1), n), atol=1e-9)


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.floats(-100, 100), min_size=2**n, max_size=2**n)))
def test_values_sum_to_the_whole_change_and_are_linear_and_symmetric(values: list[float]) -> None:
    table = np.array(values)
    n = len(table).bit_length() - 1
    found = exact_shapley(table)
    assert found.sum() == pytest.approx(table[-1] - table[0], abs=1e-9)
    np.testing.assert_allclose(exact_shapley(3 * table + 7), 3 * found, atol=1e-9)
    turned = table[all_masks(n)[:, ::-1] @ (1 << np.arange(n))]
    np.testing.assert_allclose(exact_shapley(turned), found[::-1], atol=1e-9)


def test_a_huge_offset_does_not_cost_precision() -> None:
    table = np.random.default_rng(0).integers(0, 9, 2**10).astype(float)
    np.testing.assert_array_equal(exact_shapley(table + 2.0**50), exact_shapley(table))


def test_a_budget_of_every_mask_is_exact_and_a_smaller_one_is_not() -> None:
    model = score_table(13, seed=2)
    everything = attribute(model, "shap", n_samples=2**13)
    assert (everything.details["exact"], everything.n_calls) == (True, 2**13)
    assert attribute(score_table(12), "shap").details["exact"]
    assert not attribute(model, "shap", rng=0).details["exact"]
    few = attribute(score_table(10), "shap", n_samples=100, rng=0)
    assert (few.details["exact"], few.n_calls) == (False, 100)


# -- sampled ----------------------------------------------------------------------------------------


def deviations(table: np.ndarray, n_samples: int, n_runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of sampled values (n_runs, n), and the standard errors they state."""
    n = len(table).bit_length() - 1
    model, truth = lookup_table(table, n_features=n), exact_shapley(table)
    runs = [attribute(model, "shap", n_samples=n_samples, rng=seed) for seed in range(n_runs)]
    return np.array([run.scores - truth for run in runs]), np.array([run.errors for run in runs])


def smooth_table(n: int, seed: int) -> np.ndarray:
    """A saturating sum with interactions: like a logit of a network, unlike pure noise."""
    rng = np.random.default_rng(seed)
    masks = all_masks(n)
    pairs = np.triu(rng.normal(size=(n, n)), 1)
    return 3 * np.tanh(masks @ rng.normal(size=n) + np.einsum("bi,ij,bj->b", masks, pairs, masks) / n)


@pytest.mark.parametrize("kind", ["noise", "smooth"])
@pytest.mark.parametrize(("n", "n_samples"), [(8, 32), (9, 100), (10, 40), (10, 300), (10, 900)])
def test_sampled_values_are_within_their_stated_errors(kind: str, n: int, n_samples: int) -> None:
    table = np.random.default_rng(n).normal(size=2**n) if kind == "noise" else smooth_table(n, n)
    off, stated = deviations(table, n_samples, n_runs=40)
    z = off / stated
    # 95 of 100 within two errors is what is said; 40 runs of n features move by a few of 100.
    assert (np.abs(z) <= 2).mean() >= 0.93
    # Neither too small nor idle: the typical deviation is about one stated error.
    assert 0.6 <= np.sqrt((z**2).mean()) <= 1.15
    np.testing.assert_allclose(off.mean(axis=0), 0, atol=4 * stated.mean() / np.sqrt(40))


@pytest.mark.parametrize(("n", "n_samples"), [(40, 160), (40, 1080), (120, 480)])
def test_stated_errors_hold_where_features_are_too_many_to_enumerate(n: int, n_samples: int) -> None:
    game = Dividends(n, {1: n, 2: 3 * n, 3: 2 * n, 6: n, n // 3: 5}, seed=1)
    runs = [attribute(mask_function(game, n_features=n), "shap", n_samples=n_samples, rng=s) for s in range(10)]
    z = np.array([(run.scores - game.shapley) / run.errors for run in runs])
    assert (np.abs(z) <= 2).mean() >= 0.93
    assert 0.3 <= np.sqrt((z**2).mean()) <= 1.1


def test_sampled_values_sum_to_the_whole_change() -> None:
    model = score_table(14, seed=8)
    found = attribute(model, "shap", n_samples=200, rng=1)
    ends = model(np.array([[True] * 14, [False] * 14]))[:, found.target]
    assert found.scores.sum() == pytest.approx(ends[0] - ends[1], abs=1e-9)


def test_errors_shrink_to_nothing_as_the_budget_grows_to_every_mask() -> None:
    table = np.random.default_rng(3).normal(size=2**10)
    largest = [float(deviations(table, n, n_runs=1)[1].max()) for n in (60, 200, 700, 1020)]
    assert largest == sorted(largest, reverse=True)
    assert largest[-1] < largest[0] / 20
    off, _ = deviations(table, 1022, n_runs=3)
    assert np.abs(off).max() < 0.01


def test_an_additive_model_is_found_exactly_by_any_budget() -> None:
    weights = np.random.default_rng(0).normal(size=30)
    found = attribute(mask_function(lambda m: (m @ weights)[:, None], n_features=30), "shap", n_samples=120, rng=0)
    np.testing.assert_allclose(found.scores, weights, atol=1e-10)
    assert found.errors is not None
    assert found.errors.max() < 1e-10


# -- the draws --------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(n=st.integers(4, 18), data=st.data())
def test_pairs_are_distinct_as_many_as_asked_and_single_features_come_first(n: int, data: st.DataObject) -> None:
    most = min(2 ** (n - 1) - 2, 300)
    n_pairs = data.draw(st.integers(min(2 * n - 1, most), most))
    drawn = draw_coalitions(n, n_pairs, np.random.default_rng(n_pairs))
    rows = {tuple(row) for row in np.concatenate([drawn.masks, ~drawn.masks]).tolist()}
    assert len(drawn.masks) == n_pairs
    assert len(rows) == 2 * n_pairs  # so neither the full nor the empty input is among them
    np.testing.assert_array_equal(drawn.masks[:n].sum(axis=0), np.ones(n))
    assert (drawn.shares[:n] == 1).all()
    assert (drawn.shares <= 1).all()


@pytest.mark.parametrize(("n", "n_pairs"), [(6, 14), (9, 100), (196, 600), (2000, 5000)])
def test_the_budget_is_spread_over_sizes_and_no_size_gets_more_than_there_is(n: int, n_pairs: int) -> None:
    counts = allocate(n, n_pairs)
    assert counts.sum() == pytest.approx(n_pairs)
    assert (counts <= pairs_by_size(n) + 1e-9).all()
    assert (counts > 0).all()
    assert counts[0] == n


def test_pairs_of_a_size_are_drawn_uniformly() -> None:
    # 15 + 10 pairs of sizes 2 and 3 of 6 features; how often each is drawn over many runs.
    seen: dict[tuple[bool, ...], int] = {}
    n_runs = 2000
    for seed in range(n_runs):
        drawn = draw_coalitions(6, 11, np.random.default_rng(seed))
        for row in drawn.masks[6:].tolist():
            seen[tuple(row)] = seen.get(tuple(row), 0) + 1
    for size, there in ((2, 15), (3, 10)):
        counts = [count for row, count in seen.items() if sum(row) == size]
        assert len(counts) == there
        expected = allocate(6, 11)[size - 1] * n_runs / there
        assert chi_square(counts, np.full(there, sum(counts) / there)) > 1e-4
        assert sum(counts) / there == pytest.approx(expected, rel=0.05)


def test_all_pairs_give_the_exact_values() -> None:
    n = 8
    table = np.random.default_rng(5).normal(size=2**n)
    masks = all_masks(n)[1 : 2 ** (n - 1)]
    size = masks.sum(axis=1)
    weights = 1 / (np.array([float(pairs_by_size(n)[min(k, n - k) - 1]) for k in size]) * size * (n - size))
    weights[2 * size == n] /= 2
    pairs = Coalitions(masks, weights, np.ones(len(masks)))
    code = masks @ (1 << np.arange(n))
    values, errors = fit_pairs(pairs, table[code] - table[2**n - 1 - code], total=table[-1] - table[0])
    np.testing.assert_allclose(values, exact_shapley(table), atol=1e-9)
    assert not errors.any()

"""Transforms, inverses and changes of basis equal their definitions, and leave their input alone."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from holdfast import boolean
from holdfast.boolean import tables
from holdfast.errors import InvalidTypeError, InvalidValueError
from tests.helpers import boolean_oracles as naive
from tests.helpers.boolean_functions import basis_matrix, real_tables, shares
from tests.helpers.boolean_oracles import Array

TRANSFORMS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "fourier": (boolean.fourier, boolean.inverse_fourier),
    "monotone": (boolean.monotone, boolean.inverse_monotone),
    "biased": (lambda h, **k: boolean.biased(h, 0.3, **k), lambda c, **k: boolean.inverse_biased(c, 0.3, **k)),
}


def close(one: Any, other: Any) -> bool:
    other = np.asarray(other)
    return np.allclose(one, other, rtol=1e-9, atol=1e-9 * max(1e-9, np.abs(other).max(initial=0)))


@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_basis_functions_are_those_of_the_definitions(n: int, p: float) -> None:
    sets = [frozenset(boolean.features_of(j)) for j in range(2**n)]
    for name, rule in {
        "fourier": naive.chi,
        "monotone": naive.unanimity,
        "biased": lambda s, a: naive.chi_biased(s, a, p),
    }.items():
        assert close(basis_matrix(n, name, p), [[rule(s, a) for s in sets] for a in sets])


@given(real_tables(5), shares)
@settings(max_examples=30, deadline=None)
def test_coefficients_equal_sums_over_all_masks(h: Array, p: float) -> None:
    for column in h.reshape(len(h), -1).T:
        assert close(boolean.fourier(column), naive.fourier(column))
        assert close(boolean.monotone(column), naive.monotone(column))
        assert close(boolean.biased(column, p), naive.biased(column, p))


@given(real_tables(), shares)
@settings(max_examples=40, deadline=None)
def test_a_table_is_the_combination_of_its_coefficients(h: Array, p: float) -> None:
    n = len(h).bit_length() - 1
    assert close(basis_matrix(n, "fourier") @ boolean.fourier(h), h)
    assert close(basis_matrix(n, "monotone") @ boolean.monotone(h), h)
    assert np.allclose(basis_matrix(n, "biased", p) @ boolean.biased(h, p), h, atol=1e-6 * np.abs(h).max())


@given(real_tables(), shares, shares)
@settings(max_examples=60, deadline=None)
def test_every_change_of_basis_agrees_with_going_through_the_table(h: Array, p: float, q: float) -> None:
    f, m, b = boolean.fourier(h), boolean.monotone(h), boolean.biased(h, p)
    size = np.abs(h).max(initial=0)
    for seen, wanted in [
        (boolean.inverse_fourier(f), h),
        (boolean.inverse_monotone(m), h),
        (boolean.inverse_biased(b, p), h),
        (boolean.fourier_to_monotone(f), m),
        (boolean.monotone_to_fourier(m), f),
        (boolean.fourier_to_biased(f, p), b),
        (boolean.biased_to_fourier(b, p), f),
        (boolean.monotone_to_biased(m, p), b),
        (boolean.biased_to_monotone(b, p), m),
        (boolean.biased_to_biased(b, p, q), boolean.biased(h, q)),
    ]:
        assert seen.shape == h.shape
        assert np.allclose(seen, wanted, atol=1e-6 * size)


def test_the_bias_may_differ_between_features() -> None:
    p = np.array([0.1, 0.5, 0.7])
    h = np.random.default_rng(0).standard_normal(8)
    c = boolean.biased(h, p)
    assert close(basis_matrix(3, "biased", p) @ c, h)
    assert close(boolean.inverse_biased(c, p), h)
    chances = np.prod(np.where(tables.all_masks(3), p, 1 - p), axis=1)
    assert np.isclose((chances * h**2).sum(), (c**2).sum())


@given(real_tables(), shares)
@settings(max_examples=40, deadline=None)
def test_parseval_holds_for_both_orthonormal_bases(h: Array, p: float) -> None:
    n = len(h).bit_length() - 1
    shown = boolean.degrees(n)
    chances = p**shown * (1 - p) ** (n - shown)
    assert np.allclose((boolean.fourier(h) ** 2).sum(axis=0), (h**2).mean(axis=0), rtol=1e-9)
    assert np.allclose((boolean.biased(h, p) ** 2).sum(axis=0), (h.T**2 * chances).T.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.8])
def test_both_orthonormal_bases_are_orthonormal(p: float) -> None:
    shown = boolean.degrees(5)
    chances = p**shown * (1 - p) ** (5 - shown)
    functions = basis_matrix(5, "biased", p)
    assert np.allclose(functions.T @ (chances[:, None] * functions), np.eye(32))


def test_at_one_half_the_biased_basis_is_the_fourier_basis() -> None:
    h = np.random.default_rng(1).standard_normal(64)
    assert np.allclose(boolean.biased(h, 0.5), boolean.fourier(h), atol=1e-15)


def textbook(h: Array, step: Callable[[Array, Array], tuple[Array, Array]]) -> Array:
    """The radix-2 loop everyone writes first."""
    h = h.astype(float).copy()
    for i in range(len(h).bit_length() - 1):
        pair = h.reshape(-1, 2, 2**i, *h.shape[1:])
        pair[:, 0], pair[:, 1] = step(pair[:, 0].copy(), pair[:, 1].copy())
    return h


@pytest.mark.parametrize("shape", [(2**13,), (2**14,), (2**15,), (2**17,), (2**10, 19), (2**15, 3), (2**16, 9)])
def test_blocks_columns_and_strips_do_not_change_the_result(shape: tuple[int, ...]) -> None:
    h = np.random.default_rng(2).integers(-50, 50, shape)
    assert (boolean.fourier(h) * len(h) == textbook(h, lambda a, b: (a + b, a - b))).all()
    assert (boolean.monotone(h) == textbook(h, lambda a, b: (a, b - a))).all()
    assert (boolean.inverse_monotone(h) == textbook(h, lambda a, b: (a, a + b))).all()


def test_whole_numbers_are_transformed_without_rounding() -> None:
    h = np.random.default_rng(3).integers(0, 1000, 2**12)
    assert (boolean.inverse_monotone(boolean.monotone(h)) == h).all()
    assert (boolean.inverse_fourier(boolean.fourier(h)) == h).all()


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("direction", [0, 1])
def test_the_input_is_kept_unless_it_is_the_output(name: str, direction: int) -> None:
    transform = TRANSFORMS[name][direction]
    h = np.random.default_rng(4).standard_normal((32, 2))
    before, fresh = h.copy(), transform(h)
    assert (h == before).all()
    other = np.empty_like(h)
    assert transform(h, out=other) is other
    assert (other == fresh).all()
    assert (h == before).all()
    assert transform(h, out=h) is h
    assert (h == fresh).all()


def test_a_read_only_or_integer_or_strided_input_is_fine() -> None:
    h = np.arange(16)
    wanted = naive.monotone(h)
    h.setflags(write=False)
    assert (boolean.monotone(h) == wanted).all()
    assert (boolean.monotone(np.repeat(h, 2)[::2]) == wanted).all()
    assert (boolean.monotone(np.asfortranarray(np.stack([h, h], axis=1)))[:, 1] == wanted).all()
    assert (boolean.monotone(list(range(16))) == wanted).all()
    assert boolean.monotone(h.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize("bits", [20])
def test_memory_is_that_of_the_result_and_next_to_nothing_in_place(bits: int) -> None:
    h = np.random.default_rng(5).standard_normal(2**bits)
    boolean.fourier(h[:2])
    for out, most in [(None, 1.1), (h, 0.1)]:
        tracemalloc.start()
        boolean.fourier(h, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= most * h.nbytes


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            [1, 2, 3],
            InvalidValueError,
            r"`h` must be a table of real numbers \(2\*\*n,\) or \(2\*\*n, k\), got .* \(3,\)",
        ),
        ([], InvalidValueError, "shape"),
        (5.0, InvalidValueError, r"shape \(\)"),
        (np.ones((4, 0)), InvalidValueError, "shape"),
        (np.ones((2, 2, 2)), InvalidValueError, "shape"),
        ([[1, 2], [3]], InvalidValueError, "unequal length"),
        ([1, np.nan], InvalidValueError, "`h` must hold finite numbers"),
        ([np.inf, 0], InvalidValueError, "finite"),
        (["a", "b"], InvalidTypeError, "real numbers"),
        ([1j, 0], InvalidTypeError, "complex128"),
    ],
)
def test_what_is_no_table_is_refused(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        boolean.fourier(value)


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, np.nan])
def test_a_bias_outside_the_open_unit_interval_is_refused(p: float) -> None:
    with pytest.raises(InvalidValueError, match="`p` must be a number strictly between 0 and 1"):
        boolean.biased([0, 1], p)


def test_a_bias_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="`p` must be a number"):
        boolean.biased([0, 1], "half")
    with pytest.raises(InvalidValueError, match=r"one per feature \(1,\), got an array of shape \(2,\)"):
        boolean.biased([0, 1], [0.1, 0.2])


def test_an_output_that_cannot_be_written_is_refused_before_it_is_touched() -> None:
    h = np.array([1.0, 2.0])
    for out in (np.zeros(4), np.zeros(4)[::2], np.zeros(2, dtype=np.float32), [0.0, 0.0]):
        with pytest.raises((InvalidTypeError, InvalidValueError), match="`out` must be"):
            boolean.fourier(h, out=out)  # type: ignore[arg-type]
    out = np.full(2, 7.0)
    with pytest.raises(InvalidValueError):
        boolean.biased(h, 2.0, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: boolean.monotone([1e308, -1e308]), "h"),
        (lambda: boolean.inverse_monotone([1e308, 1e308]), "c"),
        (lambda: boolean.condition([1e308, 1e308], [True]), "weights"),
        (lambda: boolean.degree_mass([0, 1e308, 1e308, 0]), "c"),
        (lambda: boolean.degree_weight([1e200, 0]), "c"),
        (lambda: boolean.tail_mass([1e308, 1e308]), "c"),
        (lambda: boolean.variance([1e200, 0]), "h"),
        (lambda: boolean.influences([1e200, 0]), "h"),
        (lambda: boolean.noise_stability([1e200, 0], 0.5), "h"),
        (lambda: boolean.shapley([0, 1e308, 0, 1.7e308]), "weights"),
        (lambda: boolean.banzhaf([0, 1e308, 0, 1e308], p=1), "weights"),
        (lambda: boolean.interactions([0, 1e308, 0, 1.7e308]), "weights"),
    ],
)
def test_a_result_that_overflows_is_refused_without_a_warning(call: Callable[[], Any], name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"`{name}` must hold smaller numbers: the result overflows"):
        call()


def test_large_numbers_whose_results_are_finite_are_fine() -> None:
    """The sum of all entries may overflow though none of them does."""
    assert boolean.inverse_monotone([1.5e308, 0]).tolist() == [1.5e308, 1.5e308]
    assert boolean.interactions([1e308] * 4, order=1, index="banzhaf").tolist() == [0, 1.5e308, 1.5e308, 0]


def test_sets_and_rows_name_each_other() -> None:
    assert [boolean.index_of(boolean.features_of(j)) for j in range(64)] == list(range(64))
    assert boolean.degrees(6).tolist() == [j.bit_count() for j in range(64)]
    assert sorted(boolean.by_degree(6)) == list(range(64))
    with pytest.raises(InvalidValueError, match="`index` must be a whole number"):
        boolean.features_of(-1)
    with pytest.raises(InvalidTypeError, match=r"`features` must be features such as \[0, 2\], got 3"):
        boolean.index_of(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="`n_features` must be at most 30"):
        boolean.degrees(31)


def test_the_package_is_imported_when_it_is_asked_for_and_needs_only_numpy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, holdfast as hf; before = 'holdfast.boolean' in sys.modules\n"
        "hf.boolean.fourier([0, 1]); hf.boolean.figures.contraction([0, 1], [0.5])\n"
        "print(before, *(name for name in ('scipy', 'matplotlib', 'torch') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'holdfast\.boolean' has no attribute 'fourrier'"):
        boolean.fourrier  # type: ignore[attr-defined] # noqa: B018


def test_every_public_name_is_there_in_order_and_says_what_it_does() -> None:
    assert boolean.__all__ == sorted(boolean.__all__)
    assert all((getattr(boolean, name).__doc__ or "").strip() for name in boolean.__all__)


def test_a_table_of_more_features_than_memory_holds_is_refused_before_it_is_read() -> None:
    endless = np.broadcast_to(np.int8(0), 2 ** (tables.MAX_FEATURES + 1))
    with pytest.raises(InvalidValueError, match=r"with n at most 30, got n = 31\."):
        boolean.variance(endless)

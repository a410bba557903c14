"""Array-likes → checked tables of 2ⁿ rows, and the bookkeeping of their index.

Row S of a table or of a list of coefficients belongs to the set of features S, at the index
Σ_{i∈S} 2^i. A table has shape (2ⁿ,), or (2ⁿ, k) for k functions side by side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import Mask
from holdfast.validation import as_array, check_mask, check_size, check_whole, is_number, shown

Table = NDArray[np.float64]
"""Float64 (2ⁿ,) or (2ⁿ, k): values or coefficients of one function or of k."""

PerFeature = float | ArrayLike
"""One number for all features, or one per feature (n,)."""

MAX_FEATURES = 30


def check_table(value: Any, name: str = "h") -> tuple[NDArray[Any], int]:
    """The array as it is, finite and of 2ⁿ rows, and n; nothing is copied if it is an array."""
    must = "be a table of real numbers (2**n,) or (2**n, k)"
    array = as_array(value, name, must)
    if array.dtype.kind not in "fiub":
        raise InvalidTypeError(argument=name, must=must, got=array.dtype)
    n = max(len(array) if array.ndim else 0, 1).bit_length() - 1
    if array.ndim not in (1, 2) or len(array) != 2**n or array.size == 0:
        raise InvalidValueError(argument=name, must=must, got=f"an array of shape {array.shape}")
    if n > MAX_FEATURES:
        raise InvalidValueError(argument=name, must=f"{must} with n at most {MAX_FEATURES}", got=f"n = {n}")
    # The extremes tell of NaN and infinity without an array of flags as long as the table.
    if array.dtype.kind == "f" and not np.isfinite([array.min(), array.max()]).all():
        raise InvalidValueError(f"`{name}` must hold finite numbers, got NaN or infinity.")
    return array, n


def as_table(value: Any, name: str = "h") -> tuple[Table, int]:
    """The table in float64 and n; copied only if the type changes."""
    array, n = check_table(value, name)
    return np.asarray(array, dtype=np.float64), n


def prepare(array: NDArray[Any], out: Table | None) -> Table:
    """A float64 copy to work on, or ``out`` filled with the array (which may be the array itself)."""
    if out is None:
        return np.array(array, dtype=np.float64, order="C")
    _check_out(out, array.shape)
    if out is not array:
        np.copyto(out, array)
    return out


def check_finite(result: Table, name: str) -> Table:
    """The result, unless the numbers of ``name`` were too large for it to be finite."""
    with quiet():
        # A finite sum has only finite terms; if it is not, the extremes tell.
        fine = np.isfinite(result.sum()) or np.isfinite([result.min(), result.max()]).all()
    if not fine:
        raise InvalidValueError(f"`{name}` must hold numbers small enough for a finite result in float64.")
    return result


def quiet() -> np.errstate:
    """Where results are checked afterwards, NumPy need not warn of an overflow."""
    return np.errstate(over="ignore", invalid="ignore")


def check_items(value: Any, name: str, wanted: str) -> list[Any]:
    """The items of an iterable; ``wanted`` says what it should be."""
    try:
        return list(value)
    except TypeError as error:
        raise InvalidTypeError(f"`{name}` must be {wanted}, got {value!r}.") from error


def _check_out(out: Any, shape: tuple[int, ...]) -> None:
    must = f"be a writable C-contiguous float64 array of shape {shape}"
    if not isinstance(out, np.ndarray) or out.dtype != np.float64:
        raise InvalidTypeError(argument="out", must=must, got=getattr(out, "dtype", type(out).__name__))
    if out.shape != shape or not out.flags.c_contiguous or not out.flags.writeable:
        raise InvalidValueError(argument="out", must=must, got=f"shape {out.shape} with flags {_flags(out)}")


def _flags(array: NDArray[Any]) -> str:
    return f"contiguous={array.flags.c_contiguous}, writable={array.flags.writeable}"


def check_numbers(value: Any, name: str, n: int, *, low: float, high: float, open_ends: bool = False) -> Table:
    """One number per feature (n,) from one number or n of them, all within [low, high] or inside it."""
    between = f"strictly between {low:g} and {high:g}" if open_ends else f"in [{low:g}, {high:g}]"
    must = f"be a number {between}, or one per feature ({n},)"
    numbers = as_array(value, name, must)
    if numbers.dtype.kind not in "fiu" and not is_number(value):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    if numbers.shape not in ((), (n,)):
        raise InvalidValueError(argument=name, must=must, got=f"an array of shape {numbers.shape}")
    numbers = np.broadcast_to(numbers.astype(np.float64), (n,))
    fine = (low < numbers) & (numbers < high) if open_ends else (low <= numbers) & (numbers <= high)
    if not fine.all():
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    return numbers


def check_selected(value: Any, n: int) -> Mask:
    """A Boolean vector (n,), for a table of n features."""
    mask = check_mask(value, "selected")
    if len(mask) != n:
        raise InvalidValueError(
            f"`selected` must have one entry per feature: the table has {n} features, got {len(mask)}."
        )
    return mask


def degrees(n_features: int) -> NDArray[np.uint8]:
    """The number of features |S| at every index, (2ⁿ,).

    Examples
    --------
    >>> degrees(3).tolist()
    [0, 1, 1, 2, 1, 2, 2, 3]
    """
    n = _check_features(n_features)
    counts = np.zeros(2**n, dtype=np.uint8)
    for i in range(n):
        np.add(counts[: 2**i], 1, out=counts[2**i : 2 ** (i + 1)])
    return counts


def by_degree(n_features: int) -> NDArray[np.intp]:
    """The order of indices in which papers write subsets: by size, then by their smallest features.

    Examples
    --------
    >>> [features_of(index) for index in by_degree(3)]
    [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    """
    n = _check_features(n_features)
    order = sorted(range(2**n), key=lambda index: (index.bit_count(), features_of(index)))
    return np.array(order, dtype=np.intp)


def index_of(features: Iterable[int]) -> int:
    """The row of a set of features.

    Examples
    --------
    >>> index_of([0, 2])
    5
    """
    items = check_items(features, "features", "features such as [0, 2]")
    return sum(1 << i for i in {check_size(feature, "features", minimum=0) for feature in items})


def features_of(index: int) -> tuple[int, ...]:
    """The set of features of a row.

    Examples
    --------
    >>> features_of(5)
    (0, 2)
    """
    row = check_whole(index, "index")
    return tuple(i for i in range(row.bit_length()) if row >> i & 1)


def all_masks(n_features: int, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
    """The masks of rows ``start`` to ``stop`` of a table, Boolean (stop - start, n)."""
    rows = np.arange(start, 2**n_features if stop is None else stop)
    return (rows[:, None] >> np.arange(n_features) & 1).astype(bool)


def _check_features(n_features: Any) -> int:
    n = check_whole(n_features, "n_features")
    if n > MAX_FEATURES:
        raise InvalidValueError(f"`n_features` of a table must be at most {MAX_FEATURES}, got {n}.")
    return n

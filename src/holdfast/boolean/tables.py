"""Array-likes, or a masked model of few features → checked tables of 2ⁿ rows, and the bookkeeping of their index.

Row S of a table or of a list of coefficients belongs to the set of features S, at the index
Σ_{i∈S} 2^i. A table has shape (2ⁿ,), or (2ⁿ, k) for k functions side by side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.types import Mask, MaskedModel, Masks, Progress
from holdfast.validation import as_array, check_list, check_mask, check_size, check_whole, is_number, shown

Table = NDArray[np.float64]
"""Float64 (2ⁿ,) or (2ⁿ, k): values or coefficients of one function or of k."""

PerFeature = float | ArrayLike
"""One number for all features, or one per feature (n,)."""

MAX_FEATURES = 30
MAX_TABULATED_FEATURES = 20

PORTION = 1 << 14
"""Masks that are listed at once."""


def tabulate(
    model: MaskedModel,
    *,
    target: int | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> Table:
    """The scores of a model on all 2ⁿ masks; n ≤ 20.

    Parameters
    ----------
    model : MaskedModel
        A model that returns scores. An ``Evaluator`` keeps what was computed and computes only the rest.
    target : int, optional
        The class whose scores to keep; all if None.
    batch_size : int, optional
        Most rows per model call.
    progress : bool or callable, optional
        True for a bar, False for none, or a function of (rows computed, most rows expected).

    Returns
    -------
    table : float64 array of shape (2ⁿ, n_classes), or (2ⁿ,) for one ``target``
        The row of a mask is Σ mask_i 2^i.

    Examples
    --------
    >>> from holdfast import mask_function
    >>> count = mask_function(lambda masks: masks.sum(axis=1, keepdims=True), n_features=2)
    >>> tabulate(count, target=0)
    array([0., 1., 1., 2.])
    """
    column = None if target is None else check_whole(target, "target")
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        n = evaluator.n_features
        if n > MAX_TABULATED_FEATURES:
            must = f"have at most {MAX_TABULATED_FEATURES} features to be tabulated (2**n calls)"
            raise InvalidValueError(argument="model", must=must, got=n)
        evaluator.expect(2**n)
        portions = (all_masks(n, start, min(start + PORTION, 2**n)) for start in range(0, 2**n, PORTION))
        return np.concatenate([scores_of(evaluator, masks, column) for masks in portions])


def degrees(n_features: int) -> NDArray[np.uint8]:
    """The number of features |S| at every index, (2ⁿ,).

    Examples
    --------
    >>> degrees(3).tolist()
    [0, 1, 1, 2, 1, 2, 2, 3]
    """
    n = check_size(n_features, "n_features", minimum=0, most=MAX_FEATURES)
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
    n = check_size(n_features, "n_features", minimum=0, most=MAX_FEATURES)
    order = sorted(range(2**n), key=lambda index: (index.bit_count(), features_of(index)))
    return np.array(order, dtype=np.intp)


def index_of(features: Iterable[int]) -> int:
    """The row of a set of features.

    Examples
    --------
    >>> index_of([0, 2])
    5
    """
    items = check_list(features, "features", "be features such as [0, 2]")
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


def scores_of(evaluator: Evaluator, masks: Masks, target: Any) -> Table:
    """Scores (b, n_classes) in float64, or (b,) of one class."""
    outputs = evaluator(masks)
    if outputs.ndim == 1:
        raise ModelError("The model must return scores (b, n_classes) here, but it returns labels.")
    if target is not None and target >= outputs.shape[1]:
        must = f"be a class of the model, 0 to {outputs.shape[1] - 1}"
        raise InvalidValueError(argument="target", must=must, got=shown(target))
    return np.asarray(outputs if target is None else outputs[:, target], dtype=np.float64)


def check_table(value: Any, name: str = "h") -> tuple[NDArray[Any], int]:
    """The array as it is, finite and of 2ⁿ rows, and n; nothing is copied if it is an array."""
    must = "be a table of real numbers (2**n,) or (2**n, k)"
    array = as_array(value, name, must, kinds="fiub")
    n = max(len(array) if array.ndim else 0, 1).bit_length() - 1
    if array.ndim not in (1, 2) or len(array) != 2**n or array.size == 0:
        raise InvalidValueError(argument=name, must=must, got=f"an array of shape {array.shape}")
    if n > MAX_FEATURES:
        raise InvalidValueError(argument=name, must=f"{must} with n at most {MAX_FEATURES}", got=f"n = {n}")
    # The extremes tell of NaN and infinity without an array of flags as long as the table.
    if array.dtype.kind == "f" and not np.isfinite([array.min(), array.max()]).all():
        raise InvalidValueError(argument=name, must="hold finite numbers", got="NaN or infinity")
    return array, n


def as_table(value: Any, name: str = "h") -> tuple[Table, int]:
    """The table in float64 and n; copied only if the type changes."""
    array, n = check_table(value, name)
    return np.asarray(array, dtype=np.float64), n


def check_finite(result: Table, name: str) -> Table:
    """The result, unless the numbers of ``name`` were too large for it to be finite."""
    with quiet():
        # A finite sum has only finite terms; if it is not, the extremes tell.
        fine = np.isfinite(result.sum()) or np.isfinite([result.min(), result.max()]).all()
    if not fine:
        raise InvalidValueError(argument=name, must="hold smaller numbers: the result overflows float64")
    return result


def quiet() -> np.errstate:
    """Where results are checked afterwards, NumPy need not warn of an overflow."""
    return np.errstate(over="ignore", invalid="ignore")


def check_per_feature(value: Any, name: str, n: int, *, low: float, high: float, open_ends: bool = False) -> Table:
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
        must = f"have one entry per feature: the table has {n} features"
        raise InvalidValueError(argument="selected", must=must, got=len(mask))
    return mask

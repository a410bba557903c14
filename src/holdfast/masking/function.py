"""A function of masks, or a table of all its values → a ``MaskedModel``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.outputs import answers_of
from holdfast.terminal import Bound
from holdfast.types import MaskedModel, Masks, Outputs, Provenance
from holdfast.validation import as_array, check_classes, check_whole, shown

_MAX_TABLE_FEATURES = 30


@dataclass(frozen=True)
class FunctionModel(Bound):
    """A user's function of masks; of one that is a masked model itself, what it knows of its input."""

    function: Callable[[Masks], Any]
    n_features: int
    classes: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    provenance: Provenance | None = None

    def __call__(self, masks: Masks, /) -> Outputs:
        return answers_of(self.function(masks))


@dataclass(frozen=True, eq=False)
class TableModel(Bound):
    """All 2ⁿ answers, written down."""

    values: Outputs
    n_features: int
    classes: tuple[str, ...] | None = None

    @cached_property
    def provenance(self) -> Provenance:
        """The table is model, input and masking in one."""
        values = repr(self.values.tolist()).encode() if self.values.dtype.hasobject else self.values.tobytes()
        digest = hashlib.sha256(f"{self.values.dtype} {self.values.shape} ".encode() + values).hexdigest()
        return Provenance("a table of all answers", digest, digest)

    def __call__(self, masks: Masks, /) -> Outputs:
        return np.asarray(self.values[np.asarray(masks) @ (1 << np.arange(self.n_features))])


def mask_function(
    function: Callable[[Masks], Any], *, n_features: int, classes: Sequence[str] | None = None
) -> FunctionModel:
    """Treat a function of Boolean masks as a model.

    Parameters
    ----------
    function : callable
        Takes masks (b, n_features) and returns scores (b, n_classes) or labels (b,).
        It must be deterministic. A masked model keeps its names and its provenance, but what it is made of is not
        looked at: so masks are drawn although they could be counted.
    n_features : int
        Number of features.
    classes : sequence of str, optional
        Names of the classes, in the order of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> model = mask_function(lambda masks: masks.sum(axis=1) > 2, n_features=6)
    >>> model(np.ones((1, 6), dtype=bool))
    array([ True])
    """
    if not callable(function):
        raise InvalidTypeError(argument="function", must="be callable on masks (b, n_features)", got=shown(function))
    n, names = check_whole(n_features, "n_features", minimum=1), check_classes(classes)
    if not isinstance(function, MaskedModel):
        return FunctionModel(function, n, names)
    known = {name: getattr(function, name, None) for name in ("classes", "feature_names", "provenance")}
    return FunctionModel(function, n, **known | ({} if names is None else {"classes": names}))


def lookup_table(values: ArrayLike, *, n_features: int, classes: Sequence[str] | None = None) -> TableModel:
    """Treat a table of all 2ⁿ answers as a model: the fake model of tests and theory.

    Parameters
    ----------
    values : array of 2ⁿ rows
        Scores (2ⁿ, n_classes), labels (2ⁿ,), or one real score per mask (2ⁿ,).
        The row of a mask is the sum of mask_i · 2^i.
    n_features : int
        N.
    classes : sequence of str, optional
        Names of the classes, in the order of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> both = lookup_table([0, 0, 0, 1], n_features=2)
    >>> both(np.array([[True, False], [True, True]]))
    array([0, 1])
    """
    n = check_whole(n_features, "n_features", minimum=1)
    if n > _MAX_TABLE_FEATURES:
        raise InvalidValueError(argument="n_features", must=f"be at most {_MAX_TABLE_FEATURES} for a table", got=n)
    must = f"have 2**{n} = {2**n} rows"
    table = as_array(values, "values", must).copy()
    if table.ndim not in (1, 2) or len(table) != 2**n:
        raise InvalidValueError(argument="values", must=must, got=f"an array of shape {table.shape}")
    if table.ndim == 1 and table.dtype.kind == "f":
        table = table[:, None]
    names = check_classes(classes)
    if names is not None and table.ndim == 2 and len(names) != table.shape[1]:
        must = f"have one name per column of scores, {table.shape[1]}"
        raise InvalidValueError(argument="classes", must=must, got=len(names))
    table.setflags(write=False)
    return TableModel(table, n, names)

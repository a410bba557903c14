"""Scores of features → a value that says what they explain, how they were made and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.certification.serialization import Value, frozen_numbers
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import Provenance
from holdfast.validation import check_whole, shown
from holdfast.words import calls, quoted

_N_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Attribution(Value):
    """How much each feature matters for one prediction, by one method.

    Scores carry no guarantee: that features with large scores suffice for the prediction is what
    ``certify`` checks. NumPy treats it as the vector of its scores.

    Attributes
    ----------
    scores : float array (n_features,)
        One finite number per feature; large means that the feature speaks for the target.
    target : int, str, bool or None
        The class whose score is explained, or the label whose presence is; None if unknown.
    target_name : str or None
        What the model calls that class; None if it does not say.
    method : str
        The name of the method.
    n_calls : int
        Rows the model computed for it, gradients included.
    feature_names : tuple of str or None
        What the features are called, if they have names.
    rng_key : int or None
        Give it back as ``rng`` to repeat the scores; None if nothing was drawn.
    errors : float array (n_features,) or None
        Estimated standard errors of sampled Shapley values: about 95 of 100 exact values lie within
        two of them, unless the model does something on masks so rare that none was drawn. An
        estimate, not a guarantee. Zero if exact, None where a method has none.
    details : mapping
        Settings and diagnostics of the method.
    provenance : Provenance
        The masking, model and input, as far as the masked model tells.
    """

    scores: NDArray[np.float64]
    target: Any = None
    method: str = "given"
    n_calls: int = 0
    feature_names: tuple[str, ...] | None = None
    rng_key: int | None = None
    errors: NDArray[np.float64] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    target_name: str | None = None

    schema: ClassVar[str] = "holdfast.attribution"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", frozen_numbers(self.scores))
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))
        if self.errors is not None:
            object.__setattr__(self, "errors", frozen_numbers(self.errors))
        self.check()

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if self.scores.ndim != 1 or len(self.scores) == 0 or not np.isfinite(self.scores).all():
            raise InvalidValueError(argument="scores", must="be a vector of one finite number per feature")
        if self.errors is not None and (self.errors.shape != self.scores.shape or not (self.errors >= 0).all()):
            raise InvalidValueError(argument="errors", must="be one number ≥ 0 per feature")
        if self.feature_names is not None and len(self.feature_names) != len(self.scores):
            must = f"be one per feature: {len(self.scores)}"
            raise InvalidValueError(argument="feature_names", must=must, got=len(self.feature_names))
        if not isinstance(self.method, str):
            raise InvalidTypeError(argument="method", must="be a string", got=shown(self.method))
        check_whole(self.n_calls, "n_calls")

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.scores)

    @property
    def ranking(self) -> NDArray[np.intp]:
        """Feature indices by decreasing score; equal ones by index."""
        return np.argsort(-self.scores, kind="stable")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.scores, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.scores)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return type(self).from_json, (self.to_json(),)

    def __str__(self) -> str:
        names = [f"feature {i}" for i in range(self.n_features)]
        if self.feature_names is not None:
            names = [repr(name) for name in self.feature_names]
        leaders = ", ".join(f"{names[i]} {self.scores[i]:.3g}" for i in self.ranking[:_N_SHOWN])
        more = ", …" if self.n_features > _N_SHOWN else ""
        what = "" if self.target is None else f" for the prediction {quoted(self.target, self.target_name)}"
        features = "feature" if self.n_features == 1 else "features"
        errors = ""
        if self.errors is not None and self.errors.any():
            errors = f", standard errors up to {self.errors.max():.2g}"
        elif self.errors is not None:
            errors = ", exact" if self.details.get("exact", True) else ", no error was seen"
        return (
            f"Scores of {self.n_features} {features}{what} by {self.method}, largest first: {leaders}{more} "
            f"({calls(self.n_calls)}{errors}); they say what this method finds, not that the features suffice."
        )

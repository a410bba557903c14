"""A masked model and a target → what a method of attribution may ask, and its answer, the scores of the features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.certification.serialization import Value, frozen_numbers
from holdfast.errors import InvalidTypeError, InvalidValueError, MissingGradientsError
from holdfast.evaluation import Evaluator
from holdfast.randomness import stream
from holdfast.types import Differentiable, Masks, Outputs, Provenance
from holdfast.validation import check_class_name, check_whole, shown
from holdfast.words import calls, quoted

Numbers = NDArray[np.float64]

_MOST_CELLS = 1 << 27
"""Most entries of all masks of a method together: a gigabyte where they are drawn as floats."""

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
        check_class_name(self.target, self.target_name, "target_name")

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


@dataclass(frozen=True)
class Scored:
    """What a method found: scores (n_features,), their standard errors if known, and how it went."""

    scores: Numbers
    errors: Numbers | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class AttributionTask:
    """One question to a method of attribution.

    The full input is computed when the first value is asked for, so that a method can check its
    options before any model call.
    """

    def __init__(self, evaluator: Evaluator, method: str, *, target: Any, n_samples: int | None, key: int) -> None:
        self.evaluator, self.method, self.key = evaluator, method, key
        self.n_features = evaluator.n_features
        self.n_gradients = 0
        self.has_drawn = False
        self.n_samples, self._target = n_samples, target

    @cached_property
    def target(self) -> Any:
        """The column of scores, or the label, that is explained: by default the prediction on the full input."""
        full, target = self.evaluator(np.ones((1, self.n_features), dtype=bool)), self._target
        if target is None:
            return predicted(full[0])
        if full.ndim == 1:
            if not isinstance(target, (str, int, np.integer, np.bool_)):
                must = f"be a label of the model, such as {full[0]!r}"
                raise InvalidTypeError(argument="target", must=must, got=shown(target))
            return target.item() if isinstance(target, np.generic) else target
        column = check_whole(target, "target")
        if column >= full.shape[1]:
            must = f"be a class from 0 to {full.shape[1] - 1}"
            raise InvalidValueError(argument="target", must=must, got=shown(target))
        return column

    def values(self, masks: Masks) -> Numbers:
        """What is explained, as numbers (b,): the target's score, or 1 where the target's label is given."""
        target, outputs = self.target, self.evaluator(masks)
        return np.asarray(outputs == target if outputs.ndim == 1 else outputs[:, target], dtype=np.float64)

    def budget(self, default: int, *, least: int, of: str) -> int:
        """The number of samples asked for, or the default; too few are refused in words."""
        n_samples = default if self.n_samples is None else self.n_samples
        if n_samples < least:
            raise InvalidValueError(argument="n_samples", must=f"be at least {least} {of}", got=n_samples)
        most = max(least, default, _MOST_CELLS // self.n_features)
        if n_samples > most:
            must = f"be at most {most} for {self.n_features} features"
            raise InvalidValueError(argument="n_samples", must=must, got=n_samples)
        return n_samples

    def stream(self) -> np.random.Generator:
        """The random numbers of this method alone; certification has other streams of the same key."""
        self.has_drawn = True
        return stream(self.key, "attribution", self.method)

    def gradients(self, points: NDArray[Any]) -> tuple[Outputs, Numbers]:
        """Scores (b, n_classes) and the target's gradients (b, *S) at points (b, *S)."""
        model, target = self.differentiable, self.target
        what = f"for {len(points)} gradients"
        scores, slopes = self.evaluator.deadline.call(lambda: model.gradient(points, target), what)
        if not (np.isfinite(slopes).all() and np.isfinite(scores).all()):
            must = f"have finite gradients for {self.method!r}"
            raise InvalidValueError(argument="model", must=must, got="NaN or infinity")
        self.n_gradients += len(points)
        return scores, slopes.astype(np.float64)

    def tell_progress(self, total: int) -> None:
        """Report the gradients computed so far to whoever wants to see progress."""
        if self.evaluator.progress is not None:
            self.evaluator.progress(self.n_gradients, max(total, self.n_gradients))

    @cached_property
    def differentiable(self) -> Differentiable:
        """The model behind the evaluator, if it has gradients."""
        return check_differentiable(self.evaluator, self.method)


def check_differentiable(model: Any, method: str) -> Differentiable:
    """The model behind evaluators, which must have the gradients that a method asks for."""
    bare = bare_model(model)
    if not isinstance(bare, Differentiable):
        needs = "needs a model with gradients: a PyTorch module bound by `mask_image` or `mask_text`"
        message = f"{needs}, got {type(bare).__name__}. 'lime', 'shap' and 'occlusion' need none."
        raise MissingGradientsError(message, argument=f"method={method!r}")
    return bare


def bare_model(model: Any) -> Any:
    """The model itself, whatever evaluators remember it."""
    while isinstance(model, Evaluator):
        model = model.model
    return model


def names_of(model: Any) -> tuple[str, ...] | None:
    """What the features are called, if the model says so."""
    names = getattr(bare_model(model), "feature_names", None)
    return None if names is None else tuple(map(str, names))


def predicted(output: Any) -> Any:
    """Index of the largest score (the first of equal ones), or the label."""
    return int(output.argmax()) if isinstance(output, np.ndarray) else output

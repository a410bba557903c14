"""A binding of fills to masked models, and an explanation → its certificate under every fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.certification.single import certify
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.randomness import stream_key
from holdfast.results.sensitivity import FillSensitivity
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_list, check_selection, check_whole, is_number


def fill_sensitivity(
    bind: Callable[[Any], MaskedModel],
    selected: Any,
    fills: Mapping[str, Any] | Iterable[Any],
    *,
    radius: int,
    tolerance: float = 0.1,
    confidence: float = 0.9,
    plan: str = "sequential",
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    rate_kind: str = "uniform",
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    check_determinism: bool = True,
    rng: Rng = None,
) -> FillSensitivity:
    """Certify one explanation under several fills, to see how much its stability owes to the fill.

    Every fill gets the certificate that ``certify`` would give with the same ``rng``: the same draws of
    masks, so that rates differ by the fill and not by the draws. Each certificate holds on its own at
    ``confidence``. Picking the fill with the best rate afterwards has no such guarantee.

    Parameters
    ----------
    bind : callable
        A fill → the masked model with that fill, such as ``lambda fill: mask_tabular(f, row, fill=fill)``.
        All models must have the same features.
    selected : Boolean (n_features,), or list of names or indices
        The explanation.
    fills : mapping or iterable
        Name → fill, or fills. Without names, texts and numbers name themselves, and any other fill
        is named by the ``provenance`` of its model.
    radius : int
        See ``certify`` for this and the other parameters.

    Returns
    -------
    FillSensitivity
        The certificates by name of the fill.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function
    >>> row = np.array([3.0, 1.0, 1.0, 1.0])
    >>> def bind(fill):
    ...     return mask_function(lambda masks: np.where(masks, row, fill).sum(axis=1) > 4, n_features=4)
    >>> moved = fill_sensitivity(bind, [True, False, False, False], {"zero": 0.0, "one": 1.0}, radius=1, rng=0)
    >>> moved.rates, moved.predictions
    ((1.0, 1.0), (False, True))
    """
    check_whole(radius, "radius")
    key = stream_key(rng)
    models = _bind_all(bind, fills)
    mask = _check_for_all(models, selected)
    certificates = tuple(
        certify(
            model,
            mask,
            radius=radius,
            tolerance=tolerance,
            confidence=confidence,
            plan=plan,
            agree=agree,
            neighborhood=neighborhood,
            rate_kind=rate_kind,
            batch_size=batch_size,
            progress=progress,
            check_determinism=check_determinism,
            rng=key,
        )
        for model in models.values()
    )
    return FillSensitivity(tuple(models), certificates, sum(one.n_calls for one in certificates))


def _bind_all(bind: Any, fills: Any) -> dict[str, Evaluator]:
    """Every model by name, bound and checked before the first is called."""
    if not callable(bind):
        raise InvalidTypeError(f"`bind` must be a function fill → masked model, got {type(bind).__name__}.")
    models: dict[str, Evaluator] = {}
    for given, fill in _named(fills):
        bound = bind(fill)
        model = bound if isinstance(bound, Evaluator) else Evaluator(bound)
        name = _name(fill, model) if given is None else given
        if name in models:
            raise InvalidValueError(f"`fills` must have distinct names, got {name!r} twice. Map names to fills.")
        models[name] = model
    return models


def _check_for_all(models: dict[str, Evaluator], selected: Any) -> Mask:
    """The selected features, which must be features with every fill."""
    mask = check_selection(selected, "selected", next(iter(models.values())))
    for name, model in models.items():
        if model.n_features != len(mask):
            raise InvalidValueError(
                f"`selected` must have one entry per feature: with fill {name!r} the model has "
                f"{model.n_features} features, got {len(mask)}."
            )
    return mask


def _named(fills: Any) -> list[tuple[str | None, Any]]:
    """Pairs of a name, if one was given, and a fill."""
    if isinstance(fills, Mapping):
        pairs = list(fills.items())
        if not all(isinstance(name, str) for name, _ in pairs):
            raise InvalidTypeError(f"`fills` must have texts for names, got {list(fills)!r}.")
    else:
        pairs = [(None, fill) for fill in check_list(fills, "fills", "be a list of fills or a mapping name → fill")]
    if not pairs:
        raise InvalidValueError("`fills` must have at least one fill, got none.")
    return pairs


def _name(fill: Any, model: Evaluator) -> str:
    if isinstance(fill, str) or is_number(fill):
        return str(fill)
    return model.provenance.masking or repr(fill)

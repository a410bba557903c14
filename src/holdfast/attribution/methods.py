"""A masked model and the name of a method → an ``Attribution``, through the same evaluation as certification."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from holdfast.attribution.task import Attribution, AttributionTask, Scored, names_of
from holdfast.errors import InvalidTypeError
from holdfast.evaluation import evaluating
from holdfast.randomness import stream_key
from holdfast.types import MaskedModel, Progress, Rng
from holdfast.validation import check_name, check_whole
from holdfast.words import class_name

_N_ROUNDINGS, _CELLS_AT_ONCE = 8, 1 << 24


def occlusion(task: AttributionTask, *, leave: str = "out") -> Scored:
    """Hide each feature alone, or show it alone; the scores are the changes of the target's score.

    With ``leave="out"`` that is the score of the full input minus that without the feature, with "in" the score of
    the feature alone minus that of the empty input. A change within the rounding of the model's numbers counts as
    none, so that features which make no difference tie.
    """
    out = check_name(leave, "leave", ("out", "in")) == "out"
    n = task.n_features
    task.budget(n + 1, least=n + 1, of=f"for 'occlusion' of {n} features")
    task.evaluator.expect(n + 1)
    # A mask of all features or of none, then one per feature in which it alone is not so; a few megabytes at a time.
    size = max(1, _CELLS_AT_ONCE // n)
    portions = np.split(np.arange(-1, n), range(size, n + 1, size))
    values = np.concatenate([task.values((features[:, None] == np.arange(n)) != out) for features in portions])
    change = values[0] - values[1:] if out else values[1:] - values[0]
    # Models of floats differ so much between batches.
    kind = task.evaluator.outputs.dtype
    rounding = _N_ROUNDINGS * float(np.finfo(kind).eps) * np.abs(values).max() if kind.kind == "f" else 0.0
    return Scored(np.where(np.abs(change) > rounding, change, 0.0), details={"leave": leave})


def random(task: AttributionTask) -> Scored:
    """Scores drawn uniformly from [0, 1): what any method should beat."""
    return Scored(task.stream().random(task.n_features))


METHODS = {"lime": "lime", "shap": "shapley", "integrated_gradients": "gradients", "mfaba": "gradients"}
METHODS |= {"occlusion": "methods", "random": "methods"}
"""Methods by name, and the modules of this package they are in, each loaded when its method is first asked for."""

GRADIENT_METHODS = ("integrated_gradients", "mfaba")
"""Those that ask the model for gradients."""


def find_method(name: str) -> Callable[..., Scored]:
    """The method of that name: a function of an ``AttributionTask`` and its own options."""
    method: Callable[..., Scored] = getattr(import_module(f"holdfast.attribution.{METHODS[name]}"), name)
    return method


def options_of(name: str) -> list[str]:
    """The options that a method has beside those of ``attribute``."""
    return list(inspect.signature(find_method(name)).parameters)[1:]


def attribute(
    model: MaskedModel,
    method: str,
    *,
    target: Any = None,
    n_samples: int | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
    **options: Any,
) -> Attribution:
    """Score how much each feature matters for a prediction.

    What is explained is the target's score as the model gives it (logits if it gives logits), or, for
    a model that gives labels, whether it gives the target's label. All masks go through the same
    evaluation as in ``certify``: an ``Evaluator`` passed to both shares the computed masks. Random
    draws are never shared, even with the same ``rng``.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features). Gradient methods need one that is ``Differentiable``: a
        torch module bound by ``mask_image`` or ``mask_text``.
    method : str
        "lime": weighted ridge regression on random masks. "shap": Shapley values of the masked
        features. "integrated_gradients": gradients along the line from the baseline. "mfaba": a walk
        against the gradient. "occlusion": each feature left out, or alone. "random": no explanation.
    target : int, str or bool, optional
        The class or label to explain; by default the one predicted for the full input.
    n_samples : int, optional
        The budget: masks for "lime" (1,000), "shap" (all if n ≤ 12, else 1,000 and two per feature)
        and "occlusion" (n + 1); gradients along the path for "integrated_gradients" (27 to 729, as
        needed) and "mfaba" (at most 50 steps).
    batch_size : int, optional
        Most rows per model call.
    progress : bool or callable, optional
        True for a bar, or a function of (rows computed, most rows expected).
    rng : Generator, int, "canonical" or None
        Seed, generator or None; ``rng_key`` of the result repeats the draws. "canonical" derives the key from
        method, model and input.
    **options
        Of the method. "lime": ``kernel_width``, ``penalty``, ``sampling`` ("bernoulli" or "sizes").
        "integrated_gradients": ``rule`` ("midpoint" or "gauss_legendre"), ``tolerance``. "mfaba":
        ``variant`` ("sharp" or "smooth"), ``step``, ``box``. "occlusion": ``leave`` ("out" or "in").

    Returns
    -------
    Attribution
        Scores (n_features,), the target, the model calls used, and what the method reports of itself.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import attribute, mask_function, top
    >>> model = mask_function(lambda masks: np.stack([masks @ [0.0, 3.0, 1.0], masks[:, 0]], axis=1), n_features=3)
    >>> scores = attribute(model, "shap")
    >>> scores.target, scores.scores.round(3).tolist(), scores.n_calls
    (0, [0.0, 3.0, 1.0], 8)
    >>> top(scores, 1).tolist()
    [False, True, False]
    """
    explain = find_method(check_name(method, "method", METHODS))
    own = options_of(method)
    for name in options:  # one that would have no effect is an error, never ignored
        if name not in own:
            takes = f"takes {', '.join(f'`{known}`' for known in own)}" if own else "takes no options of its own"
            raise InvalidTypeError(f"is no option of {method!r}, which {takes}.", argument=name)
    budget = None if n_samples is None else check_whole(n_samples, "n_samples", minimum=1)
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        known = evaluator.provenance
        key = stream_key(rng, "attribute", method, known.model, known.input, known.masking)
        before = evaluator.n_calls
        task = AttributionTask(evaluator, method, target=target, n_samples=budget, key=key)
        scored = explain(task, **options)
        return Attribution(
            scores=scored.scores,
            target=task.target,
            method=method,
            n_calls=evaluator.n_calls - before + task.n_gradients,
            feature_names=names_of(model),
            rng_key=key if task.has_drawn else None,
            errors=scored.errors,
            details=scored.details,
            provenance=evaluator.provenance,
            target_name=class_name(task.target, evaluator.classes),
        )

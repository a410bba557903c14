"""Two ways to compute the same scores → whether they are the same, beyond what rounding explains."""

from __future__ import annotations

from typing import Any

from holdfast.masking.torch_support import import_torch

_CLOSE = 1e-4
"""Most that scores may differ, of 1 or of the largest score."""

_SHARE = 1e-3
"""Most that scores may differ, of what they vary by: a model that hardly looks at its input must not pass unseen."""

_HALF_STEPS = 16
"""Rounding steps that scores in half precision may differ by."""


def same_scores(found: Any, wanted: Any) -> bool:
    """Whether scores (b, n_classes) are those wanted, and every row has the same top class.

    Parameters
    ----------
    found, wanted : tensors (b, n_classes)
        The rows should be as unlike each other as the inputs at hand allow.

    Examples
    --------
    >>> import torch
    >>> wanted = torch.tensor([[1.0, 3.0], [2.0, 0.5]])
    >>> same_scores(wanted + 5e-5, wanted), same_scores(wanted + 5e-4, wanted)
    (True, False)
    """
    if found.shape != wanted.shape or not found.isfinite().all():
        return False
    gap = (found.float() - wanted.float()).abs().max()
    return bool(gap <= _tolerance(wanted)) and bool((found.argmax(dim=-1) == wanted.argmax(dim=-1)).all())


def _tolerance(wanted: Any) -> float:
    rounding = float(import_torch().finfo(wanted.dtype).eps)
    scores = wanted.float()
    size = float(scores.abs().max())
    if rounding > _CLOSE:
        return _HALF_STEPS * rounding * size
    spread = float((scores.amax(dim=0) - scores.amin(dim=0)).max())
    return min(_CLOSE * max(1.0, size), _SHARE * spread)

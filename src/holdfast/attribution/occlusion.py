"""Single features hidden, or shown alone → how much the score changes; and scores that explain nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.attribution.task import AttributionTask, Scored
from holdfast.types import Masks
from holdfast.validation import check_name

_N_ROUNDINGS = 8
_CELLS_AT_ONCE = 1 << 24


def occlusion(task: AttributionTask, *, leave: str = "out") -> Scored:
    """Hide each feature alone, or show it alone; the scores are the changes of the target's score.

    A change within the rounding of the model's numbers counts as none, so that features which make no
    difference tie.

    Parameters
    ----------
    leave : {"out", "in"}
        "out": score of the full input minus that without the feature. "in": score of the feature
        alone minus that of the empty input.
    """
    check_name(leave, "leave", ("out", "in"))
    n = task.n_features
    task.budget(n + 1, least=n + 1, of=f"for 'occlusion' of {n} features")
    task.evaluator.expect(n + 1)
    out = leave == "out"
    values = np.concatenate([task.values(masks) for masks in _singles(n, others=out)])
    change = values[0] - values[1:] if out else values[1:] - values[0]
    # Models of floats differ so much between batches.
    kind = task.evaluator.outputs.dtype
    rounding = _N_ROUNDINGS * float(np.finfo(kind).eps) * np.abs(values).max() if kind.kind == "f" else 0.0
    return Scored(np.where(np.abs(change) > rounding, change, 0.0), details={"leave": leave})


def _singles(n: int, *, others: bool) -> Iterator[Masks]:
    """A mask of all ``others``, then one per feature in which it alone is not so; a few megabytes at a time."""
    size = max(1, _CELLS_AT_ONCE // n)
    for start in range(0, n + 1, size):
        features = np.arange(start, min(start + size, n + 1)) - 1
        masks = np.full((len(features), n), others)
        rows = np.flatnonzero(features >= 0)
        masks[rows, features[rows]] = not others
        yield masks


def random(task: AttributionTask) -> Scored:
    """Scores drawn uniformly from [0, 1): what any method should beat."""
    return Scored(task.stream().random(task.n_features))

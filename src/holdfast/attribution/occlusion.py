"""Single features hidden, or shown alone → how much the score changes; and scores that explain nothing."""

from __future__ import annotations

import numpy as np

from holdfast.attribution.task import Scored, Task
from holdfast.validation import check_name


def occlusion(task: Task, *, leave: str = "out") -> Scored:
    """Hide each feature alone, or show it alone; the scores are the changes of the target's score.

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
    rest, single = np.full((1, n), out), np.eye(n, dtype=bool)
    values = task.values(np.concatenate([rest, ~single if out else single]))
    change = values[0] - values[1:] if out else values[1:] - values[0]
    return Scored(change, details={"leave": leave})


def random(task: Task) -> Scored:
    """Scores drawn uniformly from [0, 1): what any method should beat."""
    return Scored(task.stream().random(task.n_features))

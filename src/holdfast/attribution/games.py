"""A masked model → a game of shapiq, for its indices and interactions."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.attribution.methods import names_of
from holdfast.attribution.task import Task
from holdfast.errors import MissingExtraError
from holdfast.evaluation import Evaluator
from holdfast.types import MaskedModel


def as_shapiq_game(model: MaskedModel, *, target: Any = None) -> Any:
    """Treat a masked model as a game of shapiq: features are players, the target's score is the value.

    Values are the target's score minus that of the empty input. Each mask is computed once; pass an
    ``Evaluator`` to choose the batch size or to share the computed masks.
    Names of features become names of players if they are all different.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features).
    target : int, str or bool, optional
        The class or label; by default the one predicted for the full input.

    Returns
    -------
    shapiq.Game
        For any approximator or computer of shapiq.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import as_shapiq_game, mask_function
    >>> model = mask_function(lambda masks: masks @ np.array([[1.0, 0.0], [2.0, 0.0]]), n_features=2)
    >>> game = as_shapiq_game(model)
    >>> game(np.array([[True, False], [True, True]])).tolist()
    [1.0, 3.0]
    """
    try:
        from shapiq import Game
    except ImportError as error:
        raise MissingExtraError("`as_shapiq_game` needs shapiq: pip install 'holdfast[explain]'") from error

    class MaskedGame(Game):  # type: ignore[misc, unused-ignore]
        """A masked model as a game."""

        def __init__(self, task: Task, player_names: list[str] | None) -> None:
            empty = float(task.values(np.zeros((1, task.n_features), dtype=bool))[0])
            super().__init__(
                n_players=task.n_features, normalize=True, normalization_value=empty, player_names=player_names
            )
            self._task = task

        def value_function(self, coalitions: Any) -> Any:
            """The target's score under masks (b, n_features)."""
            return self._task.values(np.asarray(coalitions, dtype=bool))

    evaluator = model if isinstance(model, Evaluator) else Evaluator(model)
    names = names_of(model)
    distinct = list(names) if names is not None and len(set(names)) == len(names) else None
    return MaskedGame(Task(evaluator, "shapiq", target=target, n_samples=None, key=0), distinct)

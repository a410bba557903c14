"""A model whose structure is known → what it proves about an explanation, checked against the model's own answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from holdfast.agreement import Agreement
from holdfast.evaluation import Evaluator, bare_model
from holdfast.exact.countable import Countable, Counts, NearestChange
from holdfast.exact.ensembles import TreeEnsemble
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.randomness import stream
from holdfast.types import Mask, Masks, Outputs

MOST_COUNTED = 4095
"""Most features whose masks are counted: results with larger numbers could not be read again."""

N_CONFIRMED = 12
"""Masks about which the model is asked before others are scored from what was read of it."""

N_NEARBY = 12
"""Masks near an explanation about which it is asked besides, before counts are believed."""

N_NEARBY_MORE = 3
"""Masks near each further explanation of the same input."""


_SHORT_SEARCH = 2000


class Structure:
    """What the model behind an evaluator can prove: the one place where verbs ask whether draws are needed at all.

    Nothing is read before it is asked for. What is read must give the model's own answers on a few masks, which are
    computed by the evaluator and so count as its calls; a change that it claims must be one for the model too.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator, self._model = evaluator, bare_model(evaluator)
        # A model says which module can read it: that one may know frameworks, which have no place here.
        self._reader = getattr(self._model, "structure_reader", None)
        self._faithful: dict[tuple[str, bytes], bool] = {}

    @cached_property
    def countable(self) -> Countable | None:
        """What was read of the model, not yet checked; None if its structure is not known."""
        if self._evaluator.n_features > MOST_COUNTED:
            return None
        if not isinstance(self._reader, str):
            is_countable = hasattr(self._model, "nearest_change") and isinstance(self._model, Countable)
            return self._model if is_countable else None
        countable: Countable | None = import_module(self._reader).read_structure(self._evaluator)
        return countable

    @property
    def n_checked(self) -> int:
        """Masks about which the model is asked before what was read of it counts as known."""
        return 0 if self.countable is None or self.countable is self._model else N_CONFIRMED + N_NEARBY

    def is_faithful(self, selected: Mask, neighborhood: str) -> bool:
        """Whether the model answers as what was read of it, on masks of all sizes and near an explanation."""
        if self.countable is None or self.countable is self._model:
            return self.countable is not None
        key = (neighborhood, selected.tobytes())
        if key not in self._faithful:
            answers_alike = import_module(str(self._reader)).answers_alike
            nearby = _masks_nearby(selected, neighborhood, N_NEARBY_MORE if self._faithful else N_NEARBY)
            with self._evaluator.without_shortcut():
                self._faithful[key] = all(answers_alike(self._evaluator, self.countable, m) for m in (None, nearby))
        return self._faithful[key]

    def counts(self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any) -> Counts | None:
        """How many masks at each distance keep the prediction, if what was read is faithful; None if it cannot tell."""
        if self.countable is None or self.countable.reasons_against(agree, reference) is not None:
            return None
        with self._evaluator.without_shortcut():
            return self.countable.count(selected, neighborhood, agree, reference)

    def nearest_change(
        self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any, **limits: int
    ) -> NearestChange | None:
        """The nearest mask that loses the prediction, or a bracket; None if nothing can be told.

        Limits are ``max_radius`` and ``max_nodes``: seconds would make results depend on the machine.
        """
        if self.countable is None or self.countable.reasons_against(agree, reference) is not None:
            return None
        if not self.is_faithful(selected, neighborhood):
            return None
        with self._evaluator.without_shortcut():
            nearest = self.countable.nearest_change(selected, neighborhood, agree, reference, **limits)
            if nearest.mask is None:
                return nearest
            nearest.mask.setflags(write=False)
            keeps = agree(self._evaluator(nearest.mask[None]), reference)[0]
        return None if keeps or not nearest.distance else nearest

    def clears(
        self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any, *, radius: int
    ) -> tuple[int, str]:
        """Up to which distance, at most ``radius``, no mask loses the prediction, and what proves it, if faithful.

        The search is short: it is for explanations that are clearly stable, where masks are too many to count.
        """
        cleared = getattr(self.countable, "cleared", None)
        if self.countable is None or cleared is None or self.countable.reasons_against(agree, reference) is not None:
            return -1, ""
        known: tuple[int, str] = cleared(
            selected, neighborhood, agree, reference, radius=radius, max_nodes=_SHORT_SEARCH
        )
        return known

    def score_masks(self, agree: Agreement) -> None:
        """From now on score masks straight from the trees, where rounding cannot change the prediction."""
        if isinstance(self._reader, str) and self._evaluator.takes_shortcuts and self._evaluator.shortcut is None:
            self._evaluator.shortcut = TreeShortcut(self, agree)


def _masks_nearby(selected: Mask, neighborhood: str, n: int) -> Masks:
    """Random masks at distances 1 up to the largest, more of them near; the same ones every time."""
    widest = NEIGHBORHOODS[neighborhood](selected, len(selected))
    if widest.effective_radius == 0:
        return selected[None]
    rng = stream("structure", neighborhood)
    distances = np.geomspace(1, widest.effective_radius, n).round().astype(int).tolist()
    return np.concatenate([widest.exactly(distance).sample(1, rng) for distance in distances])


class TreeShortcut:
    """Scores of masks from trees, without building rows: for any model of which a ``TreeEnsemble`` can be read.

    The model is asked about the first masks, and about those whose prediction rounding might change. All of its answers
    must be those of the trees but for rounding; once one is not, the model is asked about every mask.
    """

    def __init__(self, structure: Structure, agree: Agreement) -> None:
        self._structure, self._agree = structure, agree
        self._n_confirmed = 0
        self._is_refuted = False

    def __call__(self, masks: Masks, ask: Callable[[Mask], Outputs], /) -> Outputs:
        ensemble, everything = self._structure.countable, np.ones(len(masks), dtype=bool)
        if self._is_refuted or not isinstance(ensemble, TreeEnsemble) or not ensemble.settles(self._agree):
            return ask(everything)
        outputs, is_settled = ensemble.settled(masks, self._agree)
        is_settled[: max(0, N_CONFIRMED - self._n_confirmed)] = False
        if is_settled.all():
            return outputs
        answers = ask(~is_settled)
        if not ensemble.is_alike(outputs[~is_settled], answers):
            self._is_refuted = True
            return ask(everything)
        self._n_confirmed += len(answers)
        outputs = outputs.astype(answers.dtype)
        outputs[~is_settled] = answers
        return outputs

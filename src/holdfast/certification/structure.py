"""A model whose structure is known → what it proves about an explanation, checked against the model's own answers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar

from holdfast.agreement import Agreement
from holdfast.evaluation import Evaluator
from holdfast.exact.countable import Countable, Counts, NearestChange
from holdfast.types import Mask

MOST_COUNTED = 4095
"""Most features whose masks are counted: results with larger numbers could not be read again."""


_Value = TypeVar("_Value")


class asked_once(Generic[_Value]):  # noqa: N801 - it is used as `cached_property` is
    """A property that is computed once, and may ask the model.

    Before Python 3.12 ``cached_property`` has a lock per class: while one question waits for the model, none of those
    that share its batches could go on.
    """

    def __init__(self, function: Callable[[Any], _Value]) -> None:
        self._function, self.__doc__ = function, function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> _Value:
        value = instance.__dict__[self._function.__name__] = self._function(instance)
        return value


class Structure:
    """What the model behind an evaluator can prove: the one place where verbs ask whether draws are needed at all.

    Nothing is read before it is asked for. What is read must give the model's own answers on a few masks, which are
    computed by the evaluator and so count as its calls; a change that it claims must be one for the model too.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator, self._model = evaluator, evaluator.model
        while isinstance(self._model, Evaluator):
            self._model = self._model.model
        # A model says which module can read it: that one may know frameworks, which have no place here.
        self._reader = getattr(self._model, "structure_reader", None)

    @asked_once
    def countable(self) -> Countable | None:
        """What was read of the model, not yet checked; None if its structure is not known."""
        if self._evaluator.n_features > MOST_COUNTED:
            return None
        if not isinstance(self._reader, str):
            return self._model if isinstance(self._model, Countable) else None
        countable: Countable | None = import_module(self._reader).read_structure(self._evaluator)
        return countable

    @asked_once
    def is_faithful(self) -> bool:
        """Whether the model answers as what was read of it, on a few masks, which this computes."""
        if self.countable is None or self.countable is self._model:
            return self.countable is not None
        return bool(import_module(str(self._reader)).answers_alike(self._evaluator, self.countable))

    def counts(self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any) -> Counts | None:
        """How many masks at each distance keep the prediction, if what was read is faithful; None if it cannot tell."""
        if self.countable is None or self.countable.reasons_against(agree, reference) is not None:
            return None
        return self.countable.count(selected, neighborhood, agree, reference)

    def nearest_change(
        self, selected: Mask, neighborhood: str, agree: Agreement, reference: Any, **limits: int
    ) -> NearestChange | None:
        """The nearest mask that loses the prediction, or a bracket; None if nothing can be told.

        Limits are ``max_radius`` and ``max_nodes``: seconds would make results depend on the machine.
        """
        if self.countable is None or self.countable.reasons_against(agree, reference) is not None:
            return None
        if not self.is_faithful:
            return None
        nearest = self.countable.nearest_change(selected, neighborhood, agree, reference, **limits)
        if nearest.mask is None:
            return nearest
        nearest.mask.setflags(write=False)
        keeps = agree(self._evaluator(nearest.mask[None]), reference)[0]
        return None if keeps or not nearest.distance else nearest

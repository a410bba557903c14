"""An explanation → additions known to flip its prediction: the stored witness, or the nearest change that was seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.agreement import Agreement, as_agreement, prediction_of
from holdfast.evaluation import Evaluator
from holdfast.study.results import ItemResult
from holdfast.types import Mask
from holdfast.witness import Witness
from holdfast.words import class_label, counted

Plain = dict[str, Any]


def known_flip(result: ItemResult, shared: Evaluator | None, *, agree: str, classes: Sequence[str]) -> Plain | None:
    """What changes the prediction, as plain data, or None where nothing is known.

    A study that looked for witnesses has the smallest change it found. Otherwise the nearest change
    among the draws of the certificates is shown; with the model at hand it is made smaller as long as
    leaving out a feature keeps the prediction changed.
    """
    if result.witness is not None:
        return _stored(result.witness, classes)
    seen = [one.counterexample for one in result.curve if one.counterexample is not None]
    if not seen or result.curve.certificates[0].neighborhood != "additions":
        return None
    nearest = min(seen, key=lambda mask: int((mask != result.selected).sum()))
    if shared is None or result.keep_probability != 1:
        return _seen(
            nearest,
            result.selected,
            None,
            "it is the nearest among the draws, and may hold features that do not matter for it",
        )
    mask = reduce_flip(shared, result.selected, nearest, as_agreement(agree))
    name = class_label(prediction_of(shared(mask[None])[0]), classes)
    return _seen(
        mask,
        result.selected,
        name,
        "it is what is left of a change among the draws when features that do "
        "not matter for it are left out; none of these can be",
    )


def _stored(found: Witness, classes: Sequence[str]) -> Plain:
    return {
        "found": found.found,
        "title": "The smallest change found" if found.found else "The search for the smallest change",
        "added": list(found.added),
        "prediction": class_label(found.prediction, classes),
        "sentence": str(found),
        "json": found.to_json(),
    }


def _seen(mask: Mask, selected: Mask, prediction: str | None, what: str) -> Plain:
    added = np.flatnonzero(mask & ~selected).tolist()
    changed = "" if prediction is None else f" to {prediction}"
    smaller = "no smaller change exists" if len(added) == 1 else "other, smaller changes may exist"
    return {
        "found": True,
        "title": "A change that was found",
        "added": added,
        "prediction": "another prediction" if prediction is None else prediction,
        "sentence": f"Revealing {counted(len(added), 'more feature')} changes the prediction{changed}: {what}; "
        f"{smaller}.",
        "json": None,
    }


def reduce_flip(evaluator: Evaluator, selected: Mask, changing: Mask, agree: Agreement) -> Mask:
    """Leave out added features one by one while the prediction stays changed.

    Examples
    --------
    >>> from holdfast import mask_function
    >>> model = Evaluator(mask_function(lambda masks: masks[:, 0] & ~masks[:, 3], n_features=6))
    >>> reduce_flip(model, np.arange(6) < 2, np.ones(6, dtype=bool), as_agreement("same_top_class"))
    array([ True,  True, False,  True, False, False])
    """
    reference, mask = evaluator(selected[None])[0], changing
    while True:
        added = np.flatnonzero(mask & ~selected)
        smaller = np.tile(mask, (len(added), 1))
        smaller[np.arange(len(added)), added] = False
        still = smaller[~agree(evaluator(smaller), reference)]
        if len(still) == 0:
            return mask
        mask = still[0]

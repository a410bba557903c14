"""The truth about a small masked model by enumeration: how many masks keep the prediction, and how near a change is."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from holdfast.agreement import as_agreement
from holdfast.exact.countable import Countable
from tests.helpers.oracles import distance

KINDS = ("additions", "removals", "swaps")


class Enumerated:
    """What a model says of all masks, asked once."""

    def __init__(self, model: Any) -> None:
        self.masks = np.array(list(product((False, True), repeat=model.n_features)))
        self.outputs = np.asarray(model(self.masks))
        self.row_of = {mask.tobytes(): row for row, mask in enumerate(self.masks)}

    def output(self, mask: Any) -> Any:
        return self.outputs[self.row_of[np.asarray(mask).tobytes()]]

    def truth(self, selected: Any, kind: str, agree: Any, reference: Any) -> tuple[list[int], list[int]]:
        """Masks that agree, and all, at each distance."""
        kept = as_agreement(agree)(self.outputs, reference)
        n_added, n_dropped = (self.masks & ~selected).sum(axis=1), (selected & ~self.masks).sum(axis=1)
        legal = {"additions": n_dropped == 0, "removals": n_added == 0, "swaps": n_added == n_dropped}[kind]
        far = np.maximum(n_added, n_dropped)
        sizes = np.bincount(far[legal])
        return np.bincount(far[legal & kept], minlength=len(sizes)).tolist(), sizes.tolist()


def check_against_enumeration(
    countable: Countable, model: Any, selected: Any, agree: Any, *, kinds: Any = KINDS, must_be_exact: bool = True
) -> tuple[int, int]:
    """Counts and nearest changes of all kinds are those of enumeration; returns how many were exact, of how many."""
    known, judge = Enumerated(model), as_agreement(agree)
    reference = known.output(selected)
    assert countable.reasons_against(judge, reference) is None
    n_exact = 0
    for kind in kinds:
        agreed, sizes = known.truth(selected, kind, agree, reference)
        counts = countable.count(selected, kind, judge, reference)
        assert counts is not None
        assert list(counts.sizes) == sizes
        for low, open_, true in zip(counts.agreed, counts.undecided, agreed, strict=True):
            assert low <= true <= low + open_, (kind, counts, agreed)
        n_exact += counts.exact
        assert counts.exact or not must_be_exact, (kind, counts)
        check_nearest(countable, known, selected, kind, agree, reference, agreed, sizes)
    return n_exact, len(kinds)


def check_nearest(
    countable: Countable,
    known: Enumerated,
    selected: Any,
    kind: str,
    agree: Any,
    reference: Any,
    agreed: list[int],
    sizes: list[int],
    **limits: Any,
) -> Any:
    """The bracket contains the true distance, and the mask does lose the prediction, at the distance it says."""
    nearest = countable.nearest_change(selected, kind, as_agreement(agree), reference, **limits)
    true = next((k for k, (same, size) in enumerate(zip(agreed, sizes, strict=True)) if same < size), None)
    assert nearest.cleared < (len(sizes) if true is None else true), (kind, nearest, agreed, sizes)
    if nearest.distance is None:
        assert not nearest.proven or true is None
    else:
        assert true is not None
        assert nearest.distance >= true
        assert distance(selected, nearest.mask, kind) == nearest.distance
        assert not as_agreement(agree)(known.output(nearest.mask)[None], reference)[0]
        assert not nearest.proven or nearest.distance == true
    if not limits and getattr(countable, "is_repeatable", True):
        assert nearest.proven, (kind, nearest)
    return nearest

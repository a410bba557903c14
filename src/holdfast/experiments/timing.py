"""Bound inputs → seconds per pass at several batch sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast.evaluation import Evaluator

Bind = Callable[[int], Any]
"""The number of an input → that input, bound."""

Times = dict[int | None, list[float]]
"""By batch size, seconds per mask for each input; None is the size that holdfast finds."""


def time_batches(
    bind: Bind, sizes: Sequence[int | None], *, n_inputs: int, n_masks: int, tell: Callable[[int], None] | None = None
) -> Times:
    """Seconds per mask, for each batch size and input.

    For each input the same masks, half of the features shown, and the batch sizes in turns, beginning
    with another one for each input. Time is that of the processor, which with one thread is what a
    clock on the wall would show on an idle machine.

    Parameters
    ----------
    bind : callable
        The number of an input → that input, bound.
    sizes : sequence of int or None
        Batch sizes; None for the one that holdfast finds, its probing included.
    n_inputs, n_masks : int
        Inputs, and masks per input and batch size.

    Examples
    --------
    >>> from holdfast import mask_function
    >>> model = mask_function(lambda masks: masks, n_features=3)
    >>> times = time_batches(lambda number: model, [1, 5], n_inputs=2, n_masks=5)
    >>> [len(seconds) for seconds in times.values()]
    [2, 2]
    """
    order = list(sizes)
    times: Times = {size: [] for size in order}
    first = bind(0)
    first(np.ones((2, first.n_features), dtype=bool))  # the first pass of a module is slower than the rest
    for number in range(n_inputs):
        model = bind(number)
        masks = np.random.default_rng(number).random((n_masks, model.n_features)) < 0.5
        turn = number % len(order)
        for size in order[turn:] + order[:turn]:
            start = time.process_time()
            Evaluator(model, batch_size=size)(masks)
            times[size].append((time.process_time() - start) / len(masks))
        if tell is not None:
            tell(number + 1)
    return times

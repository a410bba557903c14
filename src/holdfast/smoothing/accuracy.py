"""A classifier and labelled inputs → its accuracy when smoothed (question 4 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.evaluation import Evaluator
from holdfast.progress import as_progress
from holdfast.randomness import stream, stream_key
from holdfast.results.accuracy import SmoothedAccuracy
from holdfast.smoothing.keep import check_keep
from holdfast.smoothing.model import smooth
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_share, check_size, check_whole

Bind = Callable[[Any], MaskedModel]


def smoothed_accuracy(
    classifier: Any,
    inputs: Any,
    labels: Any,
    *,
    keep_probabilities: Sequence[float] = (1.0, 0.75, 0.5, 0.25),
    n_samples: int = 64,
    confidence: float = 0.95,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> SmoothedAccuracy:
    """Measure how accuracy falls as a classifier is smoothed, with exact binomial intervals.

    Every input is bound to the classifier, smoothed with each keep probability and asked for its
    class on the full input; voting stops when the answer is settled. Random masks are independent
    between inputs and nested between keep probabilities.

    Parameters
    ----------
    classifier : Classifier or callable
        What ``models.load`` returns, or a function from one input to a ``MaskedModel``.
    inputs : sequence
        Inputs as the classifier takes them.
    labels : sequence of int or str
        The right class of each input, by index or by the classifier's name for it.
    keep_probabilities : sequence of float
        In (0, 1]; 1 is the classifier itself.
    n_samples : int
        Random masks per input.
    confidence : float
        Of each interval.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, smoothed_accuracy
    >>> def bind(shift):
    ...     return mask_function(lambda masks: np.c_[masks.sum(axis=1), np.full(len(masks), 4 + shift)], n_features=8)
    >>> smoothed_accuracy(bind, [1, 2, 3], [0, 0, 0], keep_probabilities=[1, 0.5], rng=0).accuracies
    (1.0, 0.0)
    """
    bind = _binder(classifier)
    given = _as_list(inputs, "inputs")
    wanted = _as_indices(_as_list(labels, "labels"), getattr(classifier, "classes", ()))
    if len(given) != len(wanted) or not given:
        raise InvalidValueError(f"`labels` must have one entry per input: {len(given)} inputs, {len(wanted)} labels.")
    shares = [float(check_keep(one, 1)[0]) for one in _as_list(keep_probabilities, "keep_probabilities")]
    size = check_size(n_samples, "n_samples")
    sure, key, tell = float(check_share(confidence, "confidence")), stream_key(rng), as_progress(progress)
    n_correct, n_calls = np.zeros(len(shares), dtype=np.int64), 0
    for i, (one, label) in enumerate(zip(given, wanted, strict=True)):
        base = Evaluator(bind(one), batch_size=batch_size)
        own = stream_key(stream(key, "accuracy", str(i)))
        n_correct += np.array([_is_right(smooth(base, share, size, rng=own), label) for share in shares])
        n_calls += base.n_calls
        if tell is not None:
            tell(i + 1, len(given))
    return SmoothedAccuracy(tuple(shares), tuple(n_correct.tolist()), len(given), size, sure, n_calls, key)


def _is_right(model: MaskedModel, label: int) -> bool:
    """Whether the label is the top class on the full input, with as few calls as settle it."""
    evaluator = model if isinstance(model, Evaluator) else Evaluator(model)
    full: Mask = np.ones((1, evaluator.n_features), dtype=bool)
    if evaluator.deciding is not None:
        return bool(evaluator.keeps_top_class(full, label)[0])
    outputs = evaluator(full)
    if outputs.ndim == 1:
        raise ModelError("Accuracy needs scores (b, n_classes), but the model returns labels.")
    if label >= outputs.shape[1]:
        raise InvalidValueError(f"`labels` must be classes below {outputs.shape[1]}, got {label}.")
    return bool(outputs[0].argmax() == label)


def _binder(classifier: Any) -> Bind:
    bind = getattr(classifier, "bind", classifier)
    if not callable(bind):
        raise InvalidTypeError(
            f"`classifier` must come from `models.load`, or be a function from an input to a MaskedModel, "
            f"got {type(classifier).__name__}."
        )
    bound: Bind = bind
    return bound


def _as_list(values: Any, name: str) -> list[Any]:
    try:
        found = list(values)
    except TypeError as error:
        raise InvalidTypeError(f"`{name}` must be a sequence, got {values!r}.") from error
    if not found:
        raise InvalidValueError(f"`{name}` must have at least one entry, got none.")
    return found


def _as_indices(labels: list[Any], classes: Sequence[str]) -> list[int]:
    """Labels by index; names are looked up among the classes."""
    places = {name: i for i, name in enumerate(classes)}
    unknown = [label for label in labels if isinstance(label, str) and label not in places]
    if unknown:
        raise InvalidValueError(f"`labels` must be class indices or names among {list(classes)}, got {unknown[0]!r}.")
    found = [places[label] if isinstance(label, str) else check_whole(label, "labels") for label in labels]
    beyond = [label for label in found if classes and label >= len(classes)]
    if beyond:
        raise InvalidValueError(f"`labels` must be classes below {len(classes)}, got {beyond[0]}.")
    return found

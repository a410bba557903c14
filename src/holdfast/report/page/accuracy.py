"""A study → how accurate its model is when smoothed, on its own labelled inputs."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import StudyError
from holdfast.smoothing import SmoothedAccuracy, smoothed_accuracy
from holdfast.study.items import ordered
from holdfast.study.spec import StudySpec
from holdfast.study.work import Skipped, Worker, item_rng, load_data, load_model
from holdfast.types import MaskedModel, Progress
from holdfast.validation import check_whole

KEEP_PROBABILITIES = (1.0, 0.75, 0.5, 0.25, 0.125)


def study_accuracy(
    spec: StudySpec,
    *,
    n_inputs: int,
    keep_probabilities: Sequence[float] = KEEP_PROBABILITIES,
    n_samples: int = 32,
    progress: Progress | bool | None = None,
) -> SmoothedAccuracy:
    """Measure the accuracy of a study's model against the keep probability, on labelled inputs in the study's order.

    The inputs are masked as the study masks them; those that it would leave out are left out here too.
    They may be more than the study's own.
    """
    wanted = check_whole(n_inputs, "n_inputs", minimum=1)
    classifier, data = load_model(spec.model), load_data(spec)
    worker = Worker(spec, classifier, data)
    bound: list[MaskedModel] = []
    labels: list[int] = []
    for index in ordered(spec, len(data)):
        label = data.label_of(index, classifier.classes)
        found = None if label is None else worker.bind(index)
        if label is None or found is None or isinstance(found, Skipped):
            continue
        bound.append(found)
        labels.append(label)
        if len(bound) == wanted:
            break
    if not bound:
        raise StudyError(f"{spec.data.spec!r} has no input with a label, so that no accuracy can be measured.")
    return smoothed_accuracy(
        lambda one: one,
        bound,
        labels,
        keep_probabilities=keep_probabilities,
        n_samples=n_samples,
        progress=progress,
        rng=item_rng(spec, "accuracy"),
    )

"""A task → results: the model and the data are loaded once, each input is bound once, each method is asked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from holdfast.attribution.methods import GRADIENT_METHODS, attribute
from holdfast.attribution.task import Attribution, check_differentiable, predicted
from holdfast.certification.curve import certify_radii
from holdfast.certification.hard import HardCertificate
from holdfast.errors import InvalidValueError, StudyError
from holdfast.evaluation import Evaluator, steady_batch_size
from holdfast.inputs import data as datasets
from holdfast.inputs import models
from holdfast.inputs.inputs import Inputs, is_blank
from holdfast.inputs.models.classifier import Classifier
from holdfast.inputs.source import Once, check_sources, split_source
from holdfast.mus import certify_mus
from holdfast.randomness import CANONICAL, is_canonical, stream, stream_key
from holdfast.selection import top_fraction
from holdfast.smoothing import smooth
from holdfast.study.items import Item, Task
from holdfast.study.results import ItemResult, unpack_text
from holdfast.study.spec import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, StudySpec
from holdfast.types import Mask, MaskedModel, Rng
from holdfast.witness import find_witness


@dataclass(frozen=True)
class Skipped:
    """An input that was left out, as the study allows, and why."""

    input: int
    reason: str


class Worker:
    """The inputs of a study with its model, loaded and ready for tasks."""

    def __init__(self, spec: StudySpec, inputs: Inputs) -> None:
        inputs.check_kinds()
        self._spec, self._inputs = spec, inputs

    def run(self, task: Task) -> Iterator[ItemResult | Skipped]:
        """The results of a task, each as soon as it is known."""
        bound = bind_input(self._spec, self._inputs, task.input)
        if isinstance(bound, Skipped):
            yield bound
            return
        # What a method of the task lacks is said before another one takes its time.
        for method in {item.method: None for item in task.items if item.method in GRADIENT_METHODS}:
            check_differentiable(bound, method)
        names = self._inputs.dataset.names
        name = None if names is None else names[task.input]
        subject = _Subject(self._spec, task.input, bound, name=name, label=self._inputs.label(task.input))
        known = {method: Attribution.from_json(unpack_text(packed)) for method, packed in task.attributions}
        methods = {method.name: method for method in self._spec.methods}
        for method, items in groupby(task.items, key=lambda item: item.method):
            scores = _Scores(subject, methods[method], known.get(method))
            for item in items:
                yield subject.study(item, scores)
        subject.settle()


def bind_input(spec: StudySpec, inputs: Inputs, index: int) -> MaskedModel | Skipped:
    """One input of a study as a function of masks, or why it is left out, as the study allows."""
    asked = spec.data
    try:
        value = inputs.raw(index)
    except (OSError, ValueError) as error:
        if asked.skip_unreadable:
            return Skipped(index, f"unreadable: {error}")
        raise StudyError(f"cannot be read: {error} Set `data.skip_unreadable` to leave such inputs out.") from error
    if is_blank(value):  # which has fewer features than any study that leaves inputs out wants
        if asked.skip_unreadable or asked.min_features > 1:
            return Skipped(index, "an empty text")
        raise StudyError(
            "is an empty text. Set `data.skip_unreadable`, or `data.min_features` above 1, to leave such inputs out."
        )
    model = inputs.bind(value)
    if model.n_features < asked.min_features:
        return Skipped(index, f"{model.n_features} features, fewer than {asked.min_features}")
    return model


_EXPLANATION_ONLY = {
    "radii": (0,),
    "check_determinism": False,
    "plan": CertifySpec.plan,
    "tolerance": CertifySpec.tolerance,
}

Load = Callable[[StudySpec], Worker]
"""What makes a worker; a function of a module, so that another process can be told its name."""


def load_worker(spec: StudySpec) -> Worker:
    """Load the model and the data a study names."""
    return Worker(spec, study_inputs(spec))


def study_inputs(spec: StudySpec) -> Inputs:
    """All inputs of the data that a study names; the model and the data are loaded when they are first needed."""
    return named_inputs(spec.model, spec.data, spec.masking)


def named_inputs(model: ModelSpec, data: DataSpec, masking: MaskingSpec) -> Inputs:
    """The same for parts of a study."""
    return Inputs(
        model_name=model.spec,
        data_name=data.spec,
        model=Once(lambda: _load_model(model)),
        data=Once(lambda: datasets.load(data.spec, **data.options)),
        features=masking.groups,
        fill=masking.fill,
        options=masking.options,
    )


def _load_model(model: ModelSpec) -> Classifier:
    """The model that a study names, as far as it is trusted."""
    check_trust(model)
    trust: dict[str, dict[str, Any]] = {
        "skops": {"trusted": model.trust.types},
        "hf": {"download": model.trust.download},
    }
    return models.load(model.spec, **model.options, **trust.get(split_source(model.spec, "model")[0], {}))


def check_trust(model: ModelSpec) -> None:
    """Refuse a model that would run code because a file says so."""
    scheme, _ = split_source(model.spec, "model")
    if scheme == "python" and not model.trust.code:
        raise InvalidValueError(
            f"The model {model.spec!r}, which a file names, would run code. If you know that code, add `--trust-model` "
            "(in Python: `trust=Trust(code=True)`)."
        )


def check_packages(spec: StudySpec, *further: str, computing: bool = True) -> None:
    """All that the model, the data and further things of a study need is installed, or it is named at once.

    The model needs nothing where it is not ``computing`` here.
    """
    check_trust(spec.model)
    what = f"{spec.model.spec} with {spec.data.spec}"
    check_sources(spec.model.spec if computing else None, spec.data.spec, *further, what=what)


def steady(bound: MaskedModel, spec: StudySpec, *, timeout: float | None = None) -> Evaluator:
    """An evaluator that times nothing: its batches depend on what is asked alone."""
    return Evaluator(bound, batch_size=steady_batch_size(bound, spec.batch_size), timeout=timeout)


def item_rng(spec: StudySpec, purpose: str, *parts: object) -> int:
    """The key of the random numbers of one purpose, from the seed and the item alone.

    Examples
    --------
    >>> from holdfast.study.spec import DataSpec, ModelSpec
    >>> spec = StudySpec(ModelSpec("onnx:a"), DataSpec("bundled:digits"), (MethodSpec("lime"),), seed=7)
    >>> item_rng(spec, "certify", 3) == item_rng(spec, "certify", 3) != item_rng(spec, "attribute", 3)
    True
    """
    return stream_key(stream(spec.seed, "study", purpose, *(str(part) for part in parts)))


class _Scores:
    """The scores of one method, computed when first needed and from then on the same."""

    def __init__(self, subject: _Subject, method: MethodSpec, known: Attribution | None) -> None:
        self._subject, self._method, self._known = subject, method, known
        self.seconds = 0.0

    def get(self) -> Attribution:
        if self._known is None:
            start = time.perf_counter()
            self._known = self._subject.attribute(self._method)
            self.seconds = time.perf_counter() - start
        return self._known


class _Subject:
    """One input of the study.

    All certificates go to one ``shared`` evaluator, which computes each mask once. Each counts
    its calls with an evaluator of its own on top, so that what an item says of its cost does not
    depend on which items came before it, or in which process. Explanations have an evaluator of their
    own: the batches, and with them the last digits of scores, do not depend on what came before either.
    """

    def __init__(self, spec: StudySpec, index: int, bound: MaskedModel, *, name: str | None, label: int | None) -> None:
        self._spec, self._index, self._bound, self._name, self._label = spec, index, bound, name, label
        self._shared = shared = steady(bound, spec)
        everything = np.ones(shared.n_features, dtype=bool)
        full = shared(everything[None])[0]
        # Questions that share their masks cannot see a model that changes its mind; repeated rows can.
        shared.check_determinism(everything)
        self._prediction = predicted(full)

    def attribute(self, method: MethodSpec) -> Attribution:
        key = item_rng(self._spec, "attribute", self._index, method.name)
        own = steady(self._bound, self._spec)
        attribution = attribute(own, method.name, n_samples=method.n_samples, rng=key, **method.options)
        self._shared.learn(own)
        return attribution

    def settle(self) -> None:
        """Repeat the row that shows whether the model changes its mind, if no batch had room for it."""
        self._shared.settle()

    def study(self, item: Item, scores: _Scores) -> ItemResult:
        attribution = scores.get()
        start, before = time.perf_counter(), self._shared.n_calls
        selected = top_fraction(attribution, item.top_fraction)
        own = Evaluator(self._shared)
        model = self._smoothed(own, item)
        rng: Rng = CANONICAL if is_canonical(self._spec.seed) else self._rng("certify", item)
        curve = certify_radii(model, selected, **self._question(), rng=rng)
        mus = tuple(self._hard(own, selected, keep) for keep in self._spec.mus.keep_probabilities)
        witness = None
        if self._spec.witness:
            agree = self._spec.certify.agree
            witness = find_witness(model, selected, agree=agree, rng=self._rng("witness", item))
        return ItemResult(
            input=item.input,
            method=item.method,
            top_fraction=item.top_fraction,
            keep_probability=item.keep_probability,
            name=self._name,
            label=self._label,
            prediction=self._prediction,
            attribution=attribution,
            selected=selected,
            curve=curve,
            mus=mus,
            witness=witness,
            n_calls=own.n_calls,
            n_computed=self._shared.n_calls - before,
            seconds=time.perf_counter() - start,
            attribution_seconds=scores.seconds,
        )

    def _question(self) -> dict[str, Any]:
        asked, question = self._spec.certify, self._spec.certify.keywords
        # Nothing is certified input by input: at radius 0 there is only the explanation itself, whatever the plan.
        return question if asked.precision == "per-input" else question | _EXPLANATION_ONLY

    def _smoothed(self, own: Evaluator, item: Item) -> MaskedModel:
        """The model whose explanation is certified; all keep probabilities of an input share their random numbers."""
        n_samples, rng = self._spec.smoothing.n_samples, item_rng(self._spec, "smooth", item.input)
        return own if item.keep_probability == 1 else smooth(own, item.keep_probability, n_samples, rng=rng)

    def _hard(self, own: Evaluator, selected: Mask, keep: float) -> HardCertificate:
        asked, rng = self._spec.mus, item_rng(self._spec, "mus", self._index)
        return certify_mus(
            own, selected, keep_probability=keep, n_levels=asked.n_levels, criterion=asked.criterion, rng=rng
        )

    def _rng(self, purpose: str, item: Item) -> int:
        parts = (item.input, item.method, repr(item.top_fraction), repr(item.keep_probability))
        return item_rng(self._spec, purpose, *parts)

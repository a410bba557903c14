"""A task → results: the model and the data are loaded once, each input is bound once, each method is asked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from holdfast.attribution.methods import GRADIENT_METHODS, attribute
from holdfast.attribution.scores import Attribution
from holdfast.attribution.task import check_differentiable, predicted
from holdfast.certification.curve import certify_radii
from holdfast.certification.hard import HardCertificate
from holdfast.errors import InvalidValueError, StudyError
from holdfast.evaluation import Evaluator, steady_batch_size
from holdfast.extras import check_installed, needed
from holdfast.inputs import data, models
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.models.classifier import Classifier
from holdfast.inputs.source import split_data, split_model
from holdfast.mus import certify_mus
from holdfast.randomness import CANONICAL, is_canonical, stream, stream_key
from holdfast.selection import top_fraction
from holdfast.smoothing import smooth
from holdfast.study.items import Item, Task
from holdfast.study.results import ItemResult, unpack_text
from holdfast.study.spec import CertifySpec, MethodSpec, ModelSpec, StudySpec
from holdfast.types import Mask, MaskedModel, Rng
from holdfast.witness import find_witness


@dataclass(frozen=True)
class Skipped:
    """An input that was left out, as the study allows, and why."""

    input: int
    reason: str


class Worker:
    """A model and its data, ready for tasks of one study."""

    def __init__(self, spec: StudySpec, classifier: Classifier, dataset: Dataset) -> None:
        if classifier.kind != dataset.kind:
            raise StudyError(
                f"The model {spec.model.spec!r} takes inputs of kind {classifier.kind!r}, but the data "
                f"{spec.data.spec!r} are of kind {dataset.kind!r}."
            )
        self._spec, self._classifier, self._data = spec, classifier, dataset

    def run(self, task: Task) -> Iterator[ItemResult | Skipped]:
        """The results of a task, each as soon as it is known."""
        bound = self.bind(task.input)
        if isinstance(bound, Skipped):
            yield bound
            return
        _check_gradients(bound, task)
        name = None if self._data.names is None else self._data.names[task.input]
        label = self._data.label_of(task.input, self._classifier.classes)
        subject = _Subject(self._spec, task.input, bound, name=name, label=label)
        known = {method: Attribution.from_json(unpack_text(packed)) for method, packed in task.attributions}
        for method, items in groupby(task.items, key=lambda item: item.method):
            scores = _Scores(subject, self._method(method), known.get(method))
            for item in items:
                yield subject.study(item, scores)
        subject.settle()

    def bind(self, index: int) -> MaskedModel | Skipped:
        """One input as a function of masks, or why it is left out."""
        asked = self._spec.data
        try:
            one = self._data.inputs[index]
        except (OSError, ValueError) as error:
            if asked.skip_unreadable:
                return Skipped(index, f"unreadable: {error}")
            raise StudyError(f"cannot be read: {error} Set `data.skip_unreadable` to leave such inputs out.") from error
        if is_blank(one):
            return self._blank(index)
        masking = self._spec.masking
        bound = self._classifier.bind(one, groups=masking.groups, fill=masking.fill, **self._binding())
        if bound.n_features < asked.min_features:
            return Skipped(index, f"{bound.n_features} features, fewer than {asked.min_features}")
        return bound

    def _blank(self, index: int) -> Skipped:
        """A text of nothing but space has no features: fewer than any study that leaves inputs out wants."""
        asked = self._spec.data
        if asked.skip_unreadable or asked.min_features > 1:
            return Skipped(index, "an empty text")
        raise StudyError(
            "is an empty text. Set `data.skip_unreadable`, or `data.min_features` above 1, to leave such inputs out."
        )

    def _binding(self) -> dict[str, Any]:
        """Options of the masking, and the rows that hidden columns of a table are filled from."""
        rows = self._data.background
        return ({} if rows is None else {"background": rows}) | dict(self._spec.masking.options)

    def _method(self, name: str) -> MethodSpec:
        return next(method for method in self._spec.methods if method.name == name)


def _check_gradients(model: MaskedModel, task: Task) -> None:
    """What a method of the task lacks is said before another one takes its time."""
    for method in {item.method: None for item in task.items if item.method in GRADIENT_METHODS}:
        check_differentiable(model, method)


def is_blank(one: Any) -> bool:
    """Whether an input is a text of nothing but space."""
    return isinstance(one, str) and not one.strip()


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
    return Worker(spec, load_model(spec.model), load_data(spec))


def load_model(model: ModelSpec) -> Classifier:
    """Load the model that a study names, as far as it is trusted."""
    check_trust(model)
    scheme, _ = split_model(model.spec)
    extra: dict[str, dict[str, Any]] = {
        "skops": {"trusted": model.trust.types},
        "hf": {"download": model.trust.download},
    }
    return models.load(model.spec, **model.options, **extra.get(scheme, {}))


def check_trust(model: ModelSpec) -> None:
    """Refuse a model that would run code because a file says so."""
    scheme, _ = split_model(model.spec)
    if scheme == "python" and not model.trust.code:
        raise InvalidValueError(
            f"The model {model.spec!r}, which a file names, would run code. If you know that code, add `--trust-model` "
            "(in Python: `trust=Trust(code=True)`)."
        )


def check_packages(spec: StudySpec, *further: str, computing: bool = True) -> None:
    """All that the model, the data and further things of a study need is installed, or it is named at once.

    The model needs nothing where it is not ``computing`` here.
    """
    model, inputs = spec.model.spec, spec.data.spec
    check_trust(spec.model)
    split_data(inputs)
    check_installed(f"{model} with {inputs}", (*needed(model if computing else None, inputs), *further))


def load_data(spec: StudySpec) -> Dataset:
    """Load the data a study names."""
    return data.load(spec.data.spec, **spec.data.options)


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

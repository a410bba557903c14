"""A task → results: the model and the data are loaded once, each input is bound once, each method is asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeGuard

import numpy as np

from holdfast.agreement import SameLabels, SameSide, WithinPercent, as_agreement
from holdfast.attribution.methods import METHODS, Attribution, check_needs
from holdfast.calls import asked_alone, steady_batch_size, working_seconds
from holdfast.certification.curve import certify_radii
from holdfast.certification.reference import prediction_of
from holdfast.errors import HoldfastError, InvalidValueError, StoreError, StudyError, StudyMismatchError
from holdfast.evaluation import Evaluator
from holdfast.gathering import open_questions
from holdfast.inputs import data as datasets
from holdfast.inputs import models
from holdfast.inputs.inputs import Inputs, is_blank
from holdfast.inputs.models.classifier import Classifier
from holdfast.inputs.source import Once, check_sources, is_on_this_machine, split_source
from holdfast.masking.context.endpoint import KEY_VARIABLE
from holdfast.mus import certify_mus
from holdfast.randomness import CANONICAL, is_canonical, stream, stream_key
from holdfast.smoothing import smooth
from holdfast.study.methods import Explainer, MethodError, load_explainers, select
from holdfast.study.records import GivenUp, Item, ItemResult, Task, unpack_text
from holdfast.study.spec import DataSpec, GroupKey, MaskingSpec, ModelSpec, StudySpec
from holdfast.study.store import Store
from holdfast.types import Mask, MaskedModel, Outputs, Rng
from holdfast.validation import shown
from holdfast.witness import find_witness

_Subject = tuple[str | None, float | None, Any]  # the name of an input, its label and its prediction


@dataclass(frozen=True)
class Skipped:
    """An input that was left out, as the study allows, and why."""

    input: int
    reason: str


class Worker:
    """The inputs of a study with its model, loaded and ready for tasks.

    All certificates of an input go to one ``shared`` evaluator, which computes each mask once. Each counts
    its calls with an evaluator of its own on top, so that what an item says of its cost does not
    depend on which items came before it, or in which process. Explanations have an evaluator of their
    own: the batches, and with them the last digits of scores, do not depend on what came before either, nor on which
    inputs are open at the same time.
    """

    def __init__(
        self,
        spec: StudySpec,
        inputs: Inputs,
        explainers: Mapping[str, Explainer] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        inputs.check_kinds()
        self._spec, self._inputs, self._timeout = spec, inputs, timeout
        if explainers is None:
            data = inputs.dataset
            explainers = load_explainers(spec, names=[data.name_of(number) for number in range(len(data))])
        self._explainers = explainers

    @property
    def n_open(self) -> int:
        """How many inputs to keep open, so that the rows of several go to the model at once.

        Models that answer in words have a server, or a cache of prompts, that keeps them busy.
        """
        return 1 if self._inputs.kind == "context" else open_questions(self._spec.batch_size)

    def run(self, task: Task) -> Iterator[ItemResult | Skipped | GivenUp]:
        """The results of a task, each as soon as it is known; items of a user's method that fails are given up."""
        spec, model = self._spec, bind_input(self._spec, self._inputs, task.input)
        if isinstance(model, Skipped):
            yield model
            return
        # What a method of the task lacks is said before another one takes its time.
        for name in {str(spec.method(item.method).spec): None for item in task.items}:
            if name in METHODS:
                check_needs(model, name)
        shared = steady(model, spec)
        everything = np.ones(shared.n_features, dtype=bool)
        outputs = shared(everything[None])
        _check_outputs(spec, outputs)
        prediction, _ = prediction_of(outputs[0], as_agreement(spec.certify.agree), shared.classes)
        # Questions that share their masks cannot see a model that changes its mind; repeated rows can.
        if spec.certify.answers == "fixed":
            shared.check_determinism(everything)
        names = self._inputs.dataset.names
        subject = (None if names is None else names[task.input], self._inputs.label(task.input), prediction)
        stored = {name: Attribution.from_json(unpack_text(packed)) for name, packed in task.attributions}
        for name, group in groupby(task.items, key=lambda item: item.method):
            items, start, attribution = list(group), working_seconds(), stored.get(name)
            if attribution is None:
                evaluator, rng = steady(model, spec), item_rng(spec, "attribute", task.input, name)
                explain = self._explainers[name]
                try:
                    with asked_alone():
                        attribution = explain(evaluator, self._inputs, task.input, rng=rng, timeout=self._timeout)
                except MethodError as error:
                    yield GivenUp(task.input, name, error.reason, 1, tuple(item.key for item in items))
                    continue
                shared.learn(evaluator)
            seconds = 0.0 if name in stored else working_seconds() - start
            for item in items:
                yield self._certify(item, shared, subject, attribution, seconds)
        # The row that shows whether the model changes its mind is repeated, if no batch had room for it.
        shared.settle()

    def _certify(
        self, item: Item, shared: Evaluator, subject: _Subject, attribution: Attribution, seconds: float
    ) -> ItemResult:
        """All that a study asks of one item."""
        start, n_before, spec = working_seconds(), shared.n_calls, self._spec
        selected = select(spec.method(item.method), attribution, item.top_fraction)
        evaluator = Evaluator(shared)
        model = _smoothed(evaluator, spec, item.keep_probability, item.input)
        parts = (item.input, item.method, repr(item.top_fraction), repr(item.keep_probability))
        draws: Rng = CANONICAL if is_canonical(spec.seed) else item_rng(spec, "certify", *parts)
        curve = certify_radii(model, selected, **spec.certify.item_keywords, rng=draws)
        votes: dict[str, Any] = {"n_levels": spec.mus.n_levels, "criterion": spec.mus.criterion}
        votes["rng"] = item_rng(spec, "mus", item.input)
        keeps = spec.mus.keep_probabilities
        mus = tuple(certify_mus(evaluator, selected, keep_probability=keep, **votes) for keep in keeps)
        witness, kept = None, curve.certificates[0]
        # Random answers have no witness, and an answer that is not given cannot be changed.
        if spec.witness and kept.answers == "fixed" and (kept.reference is None or kept.consistent):
            rng = item_rng(spec, "witness", *parts)
            witness = find_witness(model, selected, agree=spec.certify.agree, rng=rng)
        name, label, prediction = subject
        costs = (evaluator.n_calls, shared.n_calls - n_before, working_seconds() - start, seconds)
        return ItemResult(*item, name, label, prediction, attribution, selected, curve, mus, witness, *costs)


def _check_outputs(spec: StudySpec, outputs: Outputs) -> None:
    """Raise, before anything is explained, where what the study asks cannot be said of such outputs."""
    as_agreement(spec.certify.agree)(outputs, outputs[0])
    smoothed = [keep for keep in spec.smoothing.keep_probabilities if keep != 1]
    not_classes = isinstance(as_agreement(spec.certify.agree), (SameSide, SameLabels, WithinPercent))
    for part, keeps in (("smoothing", smoothed), ("mus", spec.mus.keep_probabilities)):
        if keeps and (not_classes or outputs.shape[1:] == (1,)):
            must = "be left out: only classes can be voted on, not numbers or decisions"
            raise InvalidValueError(argument=f"{part}.keep_probabilities", must=must, got=shown(keeps))


def bind_input(spec: StudySpec, inputs: Inputs, index: int) -> MaskedModel | Skipped:
    """One input of a study as a function of masks, or why it is left out, as the study allows."""
    try:
        value = inputs.raw(index)
    except (OSError, ValueError) as error:
        if spec.data.skip_unreadable:
            return Skipped(index, f"unreadable: {error}")
        raise StudyError(f"cannot be read: {error} Set `data.skip_unreadable` to leave such inputs out.") from error
    if is_blank(value):  # which has fewer features than any study that leaves inputs out wants
        if spec.data.skip_unreadable or spec.data.min_features > 1:
            return Skipped(index, "an empty text")
        hint = "Set `data.skip_unreadable`, or `data.min_features` above 1, to leave such inputs out."
        raise StudyError(f"is an empty text. {hint}")
    model = inputs.bind(value)
    if model.n_features < spec.data.min_features:
        return Skipped(index, f"{model.n_features} features, fewer than {spec.data.min_features}")
    return model


def explained(
    spec: StudySpec, store: Store, inputs: Inputs, group: GroupKey, index: int, *, timeout: float | None = None
) -> tuple[MaskedModel, Mask]:
    """One input bound to the model, smoothed if asked, and its stored explanation."""
    bound, attribution = bind_input(spec, inputs, index), store.attribution(index, group.method)
    if isinstance(bound, Skipped):
        raise StudyMismatchError(
            f"its explanation is stored, but it would be left out now ({bound.reason}). Restore the input, or use "
            "another file of results."
        )
    if attribution is None:
        raise StoreError(f"{str(store.path)!r} has no scores by {group.method} for input {index}, though it has items.")
    difference = store.first_difference(index, bound)
    before, now = attribution.provenance.masking, Evaluator(bound).provenance.masking
    if difference is None and None not in (before, now) and before != now:
        difference = ("masking", before, now)
    if difference is not None:
        raise StudyMismatchError(
            "the {} differs from the one that was explained (it was {}, now {}). "
            "A file holds results of one model and one data set.".format(*difference)
        )
    model = _smoothed(steady(bound, spec, timeout=timeout), spec, group.keep_probability, index)
    return model, select(spec.method(group.method), attribution, group.top_fraction)


def _smoothed(model: MaskedModel, spec: StudySpec, keep: float, index: int) -> MaskedModel:
    """The model under a keep probability; all keep probabilities of an input share their random numbers."""
    return model if keep == 1 else smooth(model, keep, spec.smoothing.n_samples, rng=item_rng(spec, "smooth", index))


Load = Callable[[StudySpec], Worker]  # a function of a module, so that another process can be told its name


def load_worker(spec: StudySpec) -> Worker:
    """Load the model, the data and the methods that a study names."""
    return Worker(spec, study_inputs(spec))


def study_inputs(spec: StudySpec) -> Inputs:
    """All inputs of the data that a study names; the model and the data are loaded when they are first needed."""
    if spec.is_live:
        raise StudyError(
            f"The model and the data ({spec.model.spec.partition(':')[2]}) were Python objects, which are not in the "
            "file. Pass them again in Python: `holdfast.study.Study(path, inputs)`."
        )
    return named_inputs(spec.model, spec.data, spec.masking)


def named_inputs(model: ModelSpec, data: DataSpec, masking: MaskingSpec) -> Inputs:
    """The same for parts of a study."""

    def load_model() -> Classifier:
        check_trust(model)
        scheme, _ = split_source(model.spec, "model")
        trust: dict[str, Any] = {"trusted": model.trust.types} if scheme == "skops" else {}
        trust |= {"download": model.trust.download} if scheme == "hf" else {}
        return models.load(model.spec, **model.options, **trust)

    return Inputs(
        model_name=model.spec,
        data_name=data.spec,
        model=Once(load_model),
        data=Once(lambda: datasets.load(data.spec, **data.options)),
        features=masking.groups,
        fill=masking.fill,
        options=masking.options,
    )


def check_method_trust(spec: StudySpec) -> None:
    """Refuse methods that would run code because a file says so."""
    for method in spec.methods:
        if method.scheme == "python" and not spec.model.trust.code:
            raise _untrusted(f"The method {method.spec!r}")


def _untrusted(what: str) -> InvalidValueError:
    return InvalidValueError(
        f"{what}, which a file names, would run code. If you trust that code, add `--trust code` "
        "(in Python: `trust=Trust(code=True)`)."
    )


def check_trust(model: ModelSpec) -> None:
    """Refuse a model that would run code, or be sent prompts and the key, because a file says so."""
    scheme, place = split_source(model.spec, "model")
    if scheme == "python" and not model.trust.code:
        raise _untrusted(f"The model {model.spec!r}")
    if scheme == "openai" and not (model.trust.network or is_on_this_machine(place)):
        raise InvalidValueError(
            f"The model {model.spec!r}, which a file names, would receive your prompts and the API key. If you "
            "trust that server, add `--trust network` (in Python: `trust=Trust(network=True)`)."
        )
    variable = model.options.get("key_variable", KEY_VARIABLE)
    if scheme == "openai" and not model.trust.network and variable not in (None, KEY_VARIABLE):
        raise InvalidValueError(
            f"The model {model.spec!r}, which a file names, would receive the environment variable {shown(variable)}. "
            f"Without trust only {KEY_VARIABLE} is sent. If you trust that file and server, add `--trust network` "
            "(in Python: `trust=Trust(network=True)`)."
        )


def check_packages(spec: StudySpec, *further: str, computing: bool = True) -> None:
    """All that a study needs is installed, or it is named at once; its model needs nothing if not ``computing``."""
    check_method_trust(spec)
    if spec.is_live:
        return
    check_trust(spec.model)
    model, data = spec.model.spec, spec.data.spec
    check_sources(model if computing else None, data, *further, what=f"{model} with {data}")


def steady(bound: MaskedModel, spec: StudySpec, *, timeout: float | None = None) -> Evaluator:
    """An evaluator that times nothing: its batches depend on what is asked alone."""
    return Evaluator(bound, batch_size=steady_batch_size(bound, spec.batch_size), timeout=timeout)


def item_rng(spec: StudySpec, purpose: str, *parts: object) -> int:
    """The key of the random numbers of one purpose, from the seed and the item alone."""
    return stream_key(stream(spec.seed, "study", purpose, *(str(part) for part in parts)))


@contextmanager
def naming_input(index: int) -> Iterator[None]:
    """Errors inside become a ``StudyError`` that says at which input."""
    try:
        yield
    except Exception as error:
        raise at_input(index, error) from error


def at_input(index: int, error: Exception) -> StudyError:
    """What went wrong at an input, in one line; our own errors keep their fields."""
    kind, cause = f"{type(error).__name__}: ", error
    if isinstance(error, StudyError):
        kind, cause = "", error.cause or error
    return StudyError(f"Input {index}: {kind}{error}", cause=cause if is_own(cause) else None)


def is_own(error: Exception) -> TypeGuard[HoldfastError]:
    """Whether another process knows the class of an error, as it need not know those of a model."""
    return isinstance(error, HoldfastError) and type(error).__module__.startswith("holdfast.")

"""A model, data and a masking → inputs: each a function of Boolean masks, bound when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import islice
from operator import index as as_index
from typing import Any, overload

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs import data as datasets
from holdfast.inputs import models
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.models.classifier import KINDS, NOUNS, Classifier
from holdfast.inputs.source import Once, check_options, check_sources
from holdfast.masking.torch import is_module
from holdfast.types import MaskedModel
from holdfast.validation import check_classes, check_label, check_list, check_name, check_whole, shown
from holdfast.words import class_label


@dataclass(frozen=True, eq=False, repr=False)
class Inputs(Sequence[MaskedModel]):
    """The inputs of a data set, each bound to a model when it is asked for.

    ``inputs[i]`` is a ``MaskedModel``, bound anew each time; ``inputs[3:10]`` are inputs again, and iterating gives
    the masked models one by one. The model and the data are loaded once.

    Attributes
    ----------
    model_name, data_name : str
        What the model and the data are called.
    features, fill : object
        What a feature is, and what a hidden one looks like; None for the defaults of the kind.
    options : mapping
        What else ``mask_image``, ``mask_text``, ``mask_tabular`` or ``mask_context`` is given.

    Examples
    --------
    >>> import numpy as np
    >>> import holdfast as hf
    >>> def mood(texts):
    ...     return np.array([["bad" in text, "good" in text] for text in texts], dtype=float)
    >>> inputs = hf.bind(mood, ["a good day", "so bad", "good, not bad"], classes=["sad", "glad"], labels=[1, 0, 1])
    >>> inputs
    Inputs(3 texts of list, model mood)
    >>> model = inputs[0]
    >>> model.n_features, model(np.array([[True, True, False], [True, False, True]])).tolist()
    (3, [[0.0, 1.0], [0.0, 0.0]])
    >>> inputs.raw(-1), inputs.class_name(inputs.label(-1))
    ('good, not bad', 'glad')
    >>> [hf.certify(one, hf.top(range(one.n_features), 1), radius=1).prediction for one in inputs.first(2)]
    [0, 0]
    """

    model_name: str
    data_name: str
    model: Once[Classifier] = field(repr=False)
    data: Once[Dataset] = field(repr=False)
    features: Any = None
    fill: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    places: Sequence[int] | None = None
    """Which inputs of the data these are; None for all."""
    loading: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    """What ``models.load`` and ``data.load`` were given beside the names; None where names do not say all."""

    @property
    def classifier(self) -> Classifier:
        """The model, loaded."""
        return self.model()

    @property
    def dataset(self) -> Dataset:
        """The data, loaded."""
        return self.data()

    @property
    def kind(self) -> str:
        """What the inputs are: "image", "text", "table" or "context"."""
        return self.dataset.kind

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the model's classes, in the order of its scores; empty where it does not say."""
        return self.classifier.classes

    @property
    def numbers(self) -> Sequence[int]:
        """Which inputs of the data these are, by their numbers from 0."""
        return range(len(self.dataset)) if self.places is None else self.places

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"Inputs({len(self)} {NOUNS[self.kind][len(self) != 1]} of {self.data_name}, model {self.model_name})"

    @overload
    def __getitem__(self, index: int) -> MaskedModel: ...
    @overload
    def __getitem__(self, index: slice) -> Inputs: ...
    def __getitem__(self, index: int | slice) -> MaskedModel | Inputs:
        if isinstance(index, slice):
            return replace(self, places=self.numbers[index])
        return self.bind(self.raw(index))

    def __iter__(self) -> Iterator[MaskedModel]:
        return (self[index] for index in range(len(self)))

    def raw(self, index: int) -> Any:
        """One input as the data hold it: an image, a text, a row or a ``ContextInput``."""
        return self.dataset.inputs[self._place(index)]

    def bind(self, value: Any) -> MaskedModel:
        """An image, a text, a row or a context as a function of masks, bound as the inputs are."""
        self.check_kinds()
        rows = self.dataset.background
        options = ({} if rows is None else {"background": rows}) | dict(self.options)
        return self.classifier.bind(value, groups=self.features, fill=self.fill, **options)

    def label(self, index: int) -> float | None:
        """The right class of an input by the model's numbers, or the right number; None if it is not known."""
        place = self._place(index)
        return self.dataset.number_of(place) if self.gives_numbers else self.dataset.label_of(place, self.classes)

    @cached_property
    def gives_numbers(self) -> bool:
        """Whether the model gives one number per input and has no classes; one row is computed to see."""
        if self.classes or self.kind == "context" or not (self.dataset.labels >= 0).any():
            return False
        model = self.first(1)[0]
        return np.shape(model(np.ones((1, model.n_features), dtype=bool))) == (1, 1)

    def name(self, index: int) -> str:
        """What an input is called, such as the name of its file, or its number in the data."""
        return self.dataset.name_of(self._place(index))

    def class_name(self, number: Any) -> str:
        """What a class is called, or its number."""
        return str(class_label(number, self.classes))

    def fingerprint(self, index: int) -> str | None:
        """The fingerprint of an input that certificates carry; None where its masking has none."""
        provenance = getattr(self[index], "provenance", None)
        return None if provenance is None else provenance.input

    def first(self, n: int | None = None, *, min_features: int = 1) -> Inputs:
        """The first ``n`` inputs (all if None) that have enough features; the model is not called.

        Inputs with fewer than ``min_features``, such as short texts, are left out.
        """
        wanted = len(self) if n is None else check_whole(n, "n", minimum=1)
        least = check_whole(min_features, "min_features", minimum=1)
        fitting: Iterable[int] = range(len(self))
        if self.kind == "text":
            fitting = (index for index in fitting if not is_blank(self.raw(index)))
        if least > 1:
            fitting = (index for index in fitting if self[index].n_features >= least)
        places = [self._place(index) for index in islice(fitting, wanted)]
        if not places:
            must = f"be smaller for {self.data_name}"
            raise InvalidValueError(
                argument="min_features", must=must, got=least, hint="Every input has fewer features."
            )
        return replace(self, places=places)

    def check_kinds(self) -> None:
        """Raise unless the model classifies inputs of this kind."""
        kind = self.classifier.kind
        if kind != self.kind:
            must = f"be a model for {self.kind}s"
            raise InvalidValueError(argument="model", must=must, got=f"one for {kind}s")

    def _place(self, index: Any) -> int:
        """The number of an input in the data."""
        try:
            number = as_index(index)
        except TypeError as error:
            raise InvalidTypeError(argument="index", must="be a whole number or a slice", got=shown(index)) from error
        if not -len(self) <= number < len(self):
            raise IndexError(f"`index` must be from {-len(self)} to {len(self) - 1}, got {number}.")
        return self.numbers[number]


def is_blank(value: Any) -> bool:
    """Whether an input is a text of nothing but space, which has no features."""
    return isinstance(value, str) and not value.strip()


def bind(
    model: Any,
    data: Any,
    *,
    features: Any = None,
    fill: Any = None,
    background: Any = None,
    labels: Any = None,
    names: Any = None,
    classes: Any = None,
    kind: str | None = None,
    target: str | None = None,
    tokenizer: Any = None,
    processor: Any = None,
    device: Any = None,
    trusted: Iterable[str] = (),
    model_options: Mapping[str, Any] | None = None,
    data_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Inputs:
    """Bind a model to data: every input becomes a function of which of its features are shown.

    Both are loaded here, once; the model is not called. What a certificate says of ``inputs[i]`` is the same as of
    the model and the input bound by hand with ``mask_image``, ``mask_text``, ``mask_tabular`` or ``mask_context``.

    Parameters
    ----------
    model : str, torch module, estimator, booster, callable or Classifier
        A name as for ``models.load``, such as "hf:my-vit", "onnx:model.onnx" or "bundled:digits-vit"; or the model
        itself: a torch module, with its ``tokenizer`` or ``processor``; an estimator or pipeline of scikit-learn; an
        estimator or booster of XGBoost, LightGBM or CatBoost; or any callable that takes a batch of inputs and returns
        scores (b, n_classes) or labels (b,). For contexts, what ``mask_context`` takes: a function from a prompt to
        an answer, an ``Endpoint``, or "openai:<base url>#<model>".
    data : str, list, array, data frame or Dataset
        A name as for ``data.load``, such as "images:photos" or "table:loans.csv"; or the inputs themselves: a list of
        texts, of images (arrays, tensors, Pillow images or paths), of rows (numbers or mappings) or of contexts
        (mappings with a ``question`` and ``passages``, and if known ``cited``, ``answer``, ``accepted``, ``label`` and
        ``id``; the names of ragas do as well); an array (n, n_columns) of rows or (n, height, width, channels) of
        images; a frame of pandas, Polars or Arrow.
    features : object, optional
        What a feature is: the ``groups`` of ``mask_image`` and ``mask_tabular``, the ``features`` of ``mask_text``
        and ``mask_context``.
    fill : object, optional
        What a hidden feature looks like; the default of the kind if left out.
    background : array (m, n_columns), data frame or str, optional
        Rows that hidden columns of a table are filled from; the data themselves if left out. Or the name of a file of
        such rows, where the data are in a file.
    labels : list or str, optional
        The right class of each input: its name or number, None where it is not known. Or, for "images:<folder>", the
        CSV file that names them.
    names : list of str, optional
        What each input is called.
    classes : list of str, optional
        The names of the model's classes, in the order of its scores.
    kind : {"image", "text", "table", "context"}, optional
        What the inputs are, where it cannot be told.
    target : str, optional
        The column of a table that holds the labels and is no feature.
    tokenizer : tokenizer of Transformers, optional
        For a torch module on texts.
    processor : image processor of Transformers, or callable, optional
        For a torch module or a callable on images: one image → what the model takes of it.
    device : str or torch.device, optional
        Where to compute. A module that is given as an object stays where it is.
    trusted : list of str
        The types a skops file may create besides scikit-learn's own.
    model_options, data_options : mapping, optional
        Further arguments of ``models.load`` and ``data.load``.
    **options
        Passed on to ``mask_image``, ``mask_text``, ``mask_tabular`` or ``mask_context``. For contexts, ``template``
        may be "citing": the model is asked to cite, and answers are compared without their citations.

    Returns
    -------
    inputs : Inputs
        ``inputs[i]`` is a ``MaskedModel``.

    Examples
    --------
    >>> inputs = bind("bundled:vader", "bundled:sentences", features="words")
    >>> inputs
    Inputs(200 texts of bundled:sentences, model bundled:vader)
    >>> inputs.raw(0), inputs.class_name(inputs.label(0)), inputs[0].n_features
    ('It is not bad at all, in fact I quite like it.', 'positive', 12)
    """
    if kind is not None:
        check_name(kind, "kind", KINDS)
    for argument, value in (("model_options", model_options), ("data_options", data_options)):
        if not (value is None or (isinstance(value, Mapping) and all(isinstance(name, str) for name in value))):
            raise InvalidTypeError(argument=argument, must="map names of arguments to values", got=shown(value))
    check_sources(model, data)
    check_classes(classes)
    if target is not None and not isinstance(target, str):
        raise InvalidTypeError(argument="target", must="be the name of a column", got=shown(target))
    dataset, words = _load_dataset(data, kind, target, background, labels, dict(data_options or {}))
    own = {"tokenizer": tokenizer, "classes": classes}
    own = {option: value for option, value in own.items() if value is not None} | dict(model_options or {})
    trusted = tuple(trusted) if not isinstance(trusted, str) and isinstance(trusted, Iterable) else trusted
    if isinstance(model, str):
        own |= {} if processor is None else {"preprocess": processor}
        expected = kind or (None if model.startswith("bundled:") else dataset.kind)
        classifier = models.load(model, device=device, kind=expected, trusted=trusted, **own)
    else:
        classifier = _live_classifier(model, processor, {"kind": kind or dataset.kind} | own)
        options = ({} if device is None else {"device": device}) | options
    dataset = _with_details(dataset, words if labels is None else labels, names, background, classifier.classes)
    name = model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
    loaded = Once(lambda: classifier), Once(lambda: dataset)
    inputs = Inputs(name, dataset.name, *loaded, features=features, fill=fill, options=options)
    files = {"target": target, "background": background, "labels": labels}
    live = (*(value for value in files.values() if not isinstance(value, str)), names, processor, tokenizer)
    if isinstance(model, str) and isinstance(data, str) and all(value is None for value in live):
        place = {"device": None if device is None else str(device), "kind": expected, "trusted": tuple(trusted) or None}
        named = ({**place, **own}, {**files, **(data_options or {})})
        told, read = ({name: value for name, value in part.items() if value is not None} for part in named)
        inputs = replace(inputs, loading=(told, read))
    inputs.check_kinds()
    details = {"tokenizer": tokenizer, "processor": processor, "background": background, "labels": labels}
    _check_use(inputs, model, data, details | {"trusted": trusted})
    if len(dataset) == 0:
        raise InvalidValueError(argument="data", must="have at least one input", got="none")
    return inputs


def _check_use(inputs: Inputs, model: Any, data: Any, details: Mapping[str, Any]) -> None:
    """What would have no effect on this model and these data is an error, never ignored."""
    live, kind = not isinstance(model, str), inputs.kind
    without_effect = {
        "tokenizer": kind != "text" or (live and not is_module(model)),
        "processor": kind != "image",
        "background": kind != "table" or (isinstance(details["background"], str) and not isinstance(data, str)),
        "labels": isinstance(details["labels"], str) and not isinstance(data, str),
        "trusted": live,
    }
    for argument, unfit in without_effect.items():
        value = details[argument]
        if unfit and value is not None and not (isinstance(value, tuple) and len(value) == 0):
            must = "be left out: it would have no effect here"
            raise InvalidValueError(argument=argument, must=must, got=shown(value))
    function = f"mask_{'tabular' if kind == 'table' else kind}"
    masking = getattr(import_module(f"holdfast.masking.{kind}.{function}"), function)
    check_options(masking, inputs.options, f"`{masking.__name__}`")


def _load_dataset(
    data: Any, kind: str | None, target: Any, background: Any, labels: Any, options: dict[str, Any]
) -> tuple[Dataset, list[str] | None]:
    """The data, and labels as words where a live frame holds them; what names a file goes to the loader of a name."""
    if isinstance(data, str):
        files = {"target": target, "background": background, "labels": labels}
        options |= {name: value for name, value in files.items() if isinstance(value, str)}
        return datasets.load(data, **options), None
    from holdfast.inputs.data.objects import as_dataset

    if options:
        raise InvalidValueError(argument="data_options", must="be left out unless `data` is a name", got=options)
    return as_dataset(data, kind=kind, target=target)


def _live_classifier(model: Any, processor: Any, options: dict[str, Any]) -> Classifier:
    from holdfast.inputs.models.hf import ProcessedPixels
    from holdfast.inputs.models.objects import classify_with

    if hasattr(processor, "save_pretrained"):  # an image processor of Transformers; others are functions of an image
        n_channels = getattr(getattr(model, "config", None), "num_channels", 3)
        processor = ProcessedPixels(processor, "L" if n_channels == 1 else "RGB")
    elif processor is not None and not callable(processor):
        must = "be an image processor, or a function of an image"
        raise InvalidTypeError(argument="processor", must=must, got=shown(processor))
    if processor is not None:
        options = {"preprocess": processor} | options
    check_options(classify_with, options, "models passed as objects")
    return classify_with(model, **options)


def _with_details(dataset: Dataset, labels: Any, names: Any, background: Any, classes: tuple[str, ...]) -> Dataset:
    """The data with labels, names and background rows of the caller, where they are no names of files."""
    changes: dict[str, Any] = {}
    if labels is not None and not isinstance(labels, str):
        from holdfast.inputs.data.objects import number_known

        changes["labels"], changes["classes"] = number_known(labels, len(dataset), classes)
    if names is not None:
        listed = check_list(names, "names", "be a list of names, one per input", most=len(dataset))
        changes["names"] = tuple(check_label(str(name), "names") for name in listed)
    if background is not None and not isinstance(background, str):
        changes["background"] = background
    return replace(dataset, **changes) if changes else dataset

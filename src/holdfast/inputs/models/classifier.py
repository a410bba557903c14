"""Images, texts or rows → scores (b, n_classes), or bound one by one into a ``MaskedModel``, by a loaded model.

Behind a ``Classifier`` are engines for torch modules, ONNX sessions, estimators, functions and language models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.inputs.source import load_source
from holdfast.masking.onnx import ImageSession
from holdfast.masking.speed import Runner
from holdfast.masking.table.columns import first_few
from holdfast.masking.table.mask_tabular import Predictor, explain_refusal, mask_tabular
from holdfast.masking.table.palettes import as_frame, frame_numbers, missing_cells
from holdfast.masking.torch import import_torch, score_tensor, telling_names, to_numpy
from holdfast.types import MaskedModel
from holdfast.validation import check_list, check_name, check_whole, shown

NOUNS = {
    "image": ("image", "images"),
    "text": ("text", "texts"),
    "table": ("row", "rows"),
    "context": ("context", "contexts"),
}
"""What a classifier can be asked about, and what one and several such inputs are called."""

KINDS = tuple(NOUNS)

Preprocess = Callable[[Any], Any]
"""One image → what the model takes of it."""


class ClassifierEngine(Protocol):
    """How one kind of classifier is computed; ``inputs`` is one batch."""

    def score(self, inputs: Any, /) -> NDArray[Any]:
        """Scores (b, n_classes) of b inputs."""
        ...

    def bind(self, value: Any, /, **settings: Any) -> MaskedModel:
        """One input as a function of masks; the settings are those of ``mask_image`` and the like."""
        ...


@dataclass(frozen=True, eq=False)
class Classifier:
    """A loaded classifier with everything its inputs need on the way to it.

    Attributes
    ----------
    kind : {"image", "text", "table", "context"}
        What it classifies; of contexts, what it answers from.
    classes : tuple of str
        The names of its classes, in the order of its scores; empty where the source does not say.
    fingerprint : str or None
        SHA-256 over the weights and the preprocessing: the same for every load of the same files, on
        every device. None for a Python callable, which shows neither.
    """

    kind: str
    classes: tuple[str, ...]
    fingerprint: str | None
    engine: ClassifierEngine = field(repr=False)

    def __post_init__(self) -> None:
        check_name(self.kind, "kind", KINDS)

    def predict(self, inputs: Any, *, batch_size: int = 32) -> NDArray[Any]:
        """Raw scores (b, n_classes) of many inputs: logits where the model has them.

        Images are PIL images, arrays (height, width, channels) or paths; rows are numbers, an array (b, n_columns) or
        a data frame. Scores do not depend on ``batch_size``, the inputs per call, beyond rounding.
        """
        size = check_whole(batch_size, "batch_size", minimum=1)
        must, hint = f"be a list of {NOUNS[self.kind][1]}", "Put it in a list."
        if isinstance(inputs, (str, bytes)) or not (hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__")):
            raise InvalidTypeError(argument="inputs", must=must, got=f"one {type(inputs).__name__}", hint=hint)
        n_axes, least = getattr(inputs, "ndim", None), _LEAST_AXES[self.kind]
        if n_axes is not None and n_axes < least:
            got = f"an array with {n_axes} axes instead of {least}"
            raise InvalidValueError(argument="inputs", must=must, got=got, hint=hint)
        if len(inputs) == 0:
            raise InvalidValueError(argument="inputs", must=f"{must} with at least one entry", got="none")
        rows = inputs.iloc if hasattr(inputs, "iloc") else inputs
        parts, wanted = [], f"The model must return scores (b, {len(self.classes) or 'n_classes'})"
        for start in range(0, len(inputs), size):
            batch = rows[start : start + size]
            scores = np.asarray(self.engine.score(batch))
            if scores.ndim != 2 or len(scores) != len(batch):
                raise ModelError(f"{wanted}, got an array of shape {scores.shape} for {len(batch)} inputs.")
            if self.classes and scores.shape[1] != len(self.classes):
                raise ModelError(f"{wanted}, got {scores.shape[1]} columns for {len(self.classes)} classes.")
            parts.append(scores)
        return np.concatenate(parts)

    def bind(self, input: Any, *, groups: Any = None, fill: Any = None, **options: Any) -> MaskedModel:  # noqa: A002
        """Bind one input into a function of masks, with this classifier's own preprocessing.

        Parameters
        ----------
        input : image, text, row or context
            The input to explain.
        groups : object
            What a feature is: the ``groups`` of ``mask_image`` and ``mask_tabular``, the ``features``
            of ``mask_text`` and ``mask_context``. None for their default.
        fill : object
            What a hidden feature looks like. None for the default of the kind.
        **options
            Passed on to ``mask_image``, ``mask_text``, ``mask_tabular`` or ``mask_context``.

        Returns
        -------
        model : MaskedModel
            Deterministic scores (b, n_classes) of masks (b, n_features).
        """
        own = {"features" if self.kind in ("text", "context") else "groups": groups, "fill": fill}
        own |= {"fingerprint": self.fingerprint, "classes": telling_names(self.classes)}
        return self.engine.bind(input, **({name: value for name, value in own.items() if value is not None} | options))


def load(
    spec: str,
    *,
    device: Any = None,
    dtype: Any = None,
    kind: str | None = None,
    trusted: Iterable[str] = (),
    **options: Any,
) -> Classifier:
    """Load a classifier, with its preprocessing, from what names it.

    Parameters
    ----------
    spec : str
        ``hf:<hub id or folder>``, ``onnx:<file>``, ``skops:<file>``, ``xgboost:<.json or .ubj file>``,
        ``lightgbm:<file>``, ``catboost:<.cbm file>``, ``openai:<base url>#<model>``, ``bundled:<name>`` or
        ``python:<module>:<factory>``.
    device : str or torch.device, optional
        Where to compute; the CPU unless asked.
    dtype : str or torch.dtype, optional
        The number type of the weights; float32 unless asked, whatever the file holds.
    kind : {"image", "text", "table", "context"}, optional
        What it classifies, where the source leaves that open.
    trusted : iterable of str
        The types a skops file may create besides scikit-learn's own.
    **options
        ``hf``: ``revision`` (of a hub id), ``download`` (False: only from the cache), ``max_length`` (cut
        longer texts), ``autocast`` and ``compile`` (as in ``mask_image``). ``onnx``: ``classes``, ``preprocess``,
        ``threads``. ``skops``, ``xgboost``, ``lightgbm``, ``catboost``: ``classes``. ``bundled``: ``max_length``,
        ``autocast``, ``compile`` for torch models. ``openai``: those of ``Endpoint``, such as ``cache``,
        ``max_tokens`` and ``budget_calls``. ``python``: ``classes``, ``preprocess``, ``tokenizer``,
        ``max_length``, ``autocast``, ``compile``, ``fingerprint``.

    Returns
    -------
    classifier : Classifier
        In evaluation mode. Loading leaves random generators, number types, log levels and import
        paths as they were.

    Examples
    --------
    >>> load("skop:forest.skops")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `model` must start with one of hf:, ... Did you mean 'skops:forest.skops'?
    """
    names = tuple(check_list(trusted, "trusted", "be a list of type names"))
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(argument="trusted", must="be a list of type names", got=shown(trusted))
    own = {"device": device, "dtype": dtype, "kind": kind, "trusted": names or None}
    options |= {name: value for name, value in own.items() if value is not None}
    classifier: Classifier = load_source(spec, "model", options)
    return classifier


_LEAST_AXES = {"image": 4, "text": 1, "table": 2, "context": 1}


@dataclass(frozen=True, eq=False)
class ModuleOnImages:
    """A torch module on pixels (b, channels, height, width)."""

    runner: Runner
    preprocess: Preprocess | None
    device: Any
    dtype: Any

    def score(self, images: Any, /) -> NDArray[Any]:
        seen = _stack([_prepared(image, self.preprocess, channels_first=True) for image in images], channels_first=True)
        return self.runner.scores(import_torch().as_tensor(seen).to(self.device, self.dtype))

    def bind(self, image: Any, /, **settings: Any) -> MaskedModel:
        own = {"device": self.device, "dtype": self.dtype} | self.runner.acceleration.options
        return _bind_image(self.runner.module, image, self.preprocess, own | settings)


@dataclass(frozen=True, eq=False)
class SessionOnImages:
    """An ONNX session on pixels, whichever way round its axes are."""

    session: Any
    preprocess: Preprocess | None

    def score(self, images: Any, /) -> NDArray[Any]:
        run = ImageSession.of(self.session)
        seen = [_prepared(image, self.preprocess, channels_first=run.channels_first) for image in images]
        return run(_stack(seen, channels_first=run.layout_for(seen[0].shape)).astype(run.dtype))

    def bind(self, image: Any, /, **settings: Any) -> MaskedModel:
        return _bind_image(self.session, image, self.preprocess, settings)


@dataclass(frozen=True, eq=False)
class FunctionOnImages:
    """A function of batches: arrays (b, height, width, channels), or tensors (b, channels, height, width)."""

    function: Callable[[Any], Any]
    preprocess: Preprocess | None

    def score(self, images: Any, /) -> NDArray[Any]:
        from holdfast.masking.image.pixels import is_tensor, open_picture, pixels

        opened = [open_picture(image) for image in images]
        seen = opened if self.preprocess is None else [self.preprocess(image) for image in opened]
        if is_tensor(seen[0]):
            return as_scores(self.function(import_torch().stack(seen)))
        return as_scores(self.function(_stack([pixels(image) for image in seen], channels_first=False)))

    def bind(self, image: Any, /, **settings: Any) -> MaskedModel:
        return _bind_image(self.function, image, self.preprocess, settings)


def _bind_image(model: Any, image: Any, preprocess: Preprocess | None, settings: dict[str, Any]) -> MaskedModel:
    from holdfast.masking.image.mask_image import mask_image

    return mask_image(model, image, **({} if preprocess is None else {"preprocess": preprocess}) | settings)


@dataclass(frozen=True, eq=False)
class ModuleOnTexts:
    """A transformers module on tokens; longer texts are cut at ``max_length``, or refused."""

    runner: Runner
    tokenizer: Any
    max_length: int | None
    device: Any

    def score(self, texts: Any, /) -> NDArray[Any]:
        from holdfast.masking.text.tokens import length_limit  # models of images and tables need no tokens

        checked, limit = check_texts(texts), length_limit(self.runner.module, self.tokenizer)
        can_pad = getattr(self.tokenizer, "pad_token_id", None) is not None
        cut = {} if self.max_length is None else {"truncation": True, "max_length": self.max_length}
        parts = []
        for batch in [checked] if can_pad else [[text] for text in checked]:
            encoding = self.tokenizer(batch, padding=len(batch) > 1, return_tensors="pt", verbose=False, **cut)
            n_tokens = encoding["input_ids"].shape[1]
            if limit is not None and n_tokens > limit:
                rule, way = f"A text must have at most {limit} tokens for this model", f"`max_length={limit}`"
                hint = f"Shorten it, or load the model with {way} to cut longer texts."
                raise InvalidValueError(f"{rule}, got {n_tokens}. {hint}")
            parts.append(self.runner.scores(**encoding.to(self.device)))
        return np.concatenate(parts)

    def bind(self, text: Any, /, **settings: Any) -> MaskedModel:
        from holdfast.masking.text.mask_text import mask_text

        cut = {} if self.max_length is None else {"max_length": self.max_length}
        own = {"tokenizer": self.tokenizer} | cut | self.runner.acceleration.options
        return mask_text(self.runner.module, text, **(own | settings))


@dataclass(frozen=True, eq=False)
class FunctionOnTexts:
    """A function of a list of texts."""

    function: Callable[[Any], Any]

    def score(self, texts: Any, /) -> NDArray[Any]:
        return as_scores(self.function(check_texts(texts)))

    def bind(self, text: Any, /, **settings: Any) -> MaskedModel:
        from holdfast.masking.text.mask_text import mask_text

        return mask_text(self.function, text, **settings)


@dataclass(frozen=True, eq=False)
class PredictorOnRows:
    """Whatever predicts from rows; ``source`` is what ``mask_tabular`` gets, ``classes`` what labels may be."""

    source: Any
    predictor: Predictor
    classes: tuple[Any, ...] = ()

    def score(self, rows: Any, /) -> NDArray[Any]:
        """Scores of a frame by what was fitted on frames, of an array by what was not; callables get what is given."""
        labels, frame = self.predictor.labels, as_frame(rows)
        if frame is None and labels is not None:
            import pandas

            try:
                frame = pandas.DataFrame(rows, columns=list(labels))
            except ValueError as error:
                must = f"be rows of {len(labels)} columns ({labels[0]}, …): {error}"
                raise InvalidValueError(argument="inputs", must=must) from error
        if frame is None:
            given: Any = np.asarray(rows)
        elif labels is not None:
            given = frame[list(self.predictor.order(frame.columns, "inputs"))]
        else:
            given = frame if self.predictor.takes_frames and self.predictor.n_columns is None else frame_numbers(frame)
        try:
            return as_scores(self.predictor(given), self.classes)
        except Exception as error:
            missing = missing_cells(given)
            places = first_few(f"{label!r} in row {row}" for row, label in missing)
            names = [label for _, label in missing]
            problem = explain_refusal(error, self.predictor, given, "inputs", names, places)
            if problem is None:
                raise
            raise problem from error

    def bind(self, row: Any, /, **settings: Any) -> MaskedModel:
        return mask_tabular(self.source, row, **settings)


def as_scores(outputs: Any, classes: Sequence[Any] = ()) -> NDArray[Any]:
    """Scores (b, n_classes); labels (b,) of known classes score 1 for their class."""
    scores = to_numpy(score_tensor(outputs)) if hasattr(outputs, "detach") else np.asarray(outputs)
    if scores.ndim == 1 and len(classes):
        return np.asarray(scores[:, None] == np.asarray(classes)[None], dtype=np.float64)
    if scores.ndim != 2:
        rule, hint = "The model must return scores (b, n_classes)", "`bind` also takes models that return labels"
        raise ModelError(f"{rule}, got an array of shape {scores.shape}. {hint}; `predict` does not.")
    return scores


def check_texts(texts: Sequence[Any]) -> list[str]:
    """A list of strings."""
    for text in texts:
        if not isinstance(text, str):
            raise InvalidTypeError(argument="inputs", must="be texts", got=f"one {type(text).__name__}: {shown(text)}")
    return [str(text) for text in texts]


def _prepared(image: Any, preprocess: Preprocess | None, *, channels_first: bool) -> NDArray[Any]:
    """The pixels (height, width, channels) a model sees; bytes become fractions, as ``mask_image`` does it."""
    from holdfast.masking.image.pixels import open_picture, pixels, scale_bytes

    picture = open_picture(image)
    if preprocess is None:
        return scale_bytes(pixels(picture))
    return scale_bytes(pixels(preprocess(picture), "preprocess(image)", channels_first=channels_first))


def _stack(images: list[NDArray[Any]], *, channels_first: bool) -> NDArray[Any]:
    """One batch, its images all of one size."""
    shapes = sorted({image.shape for image in images})
    if len(shapes) > 1:
        raise InvalidValueError(argument="inputs", must="be images of one size", got=f"{shapes[0]} and {shapes[1]}")
    batch = np.stack(images)
    return np.ascontiguousarray(batch.transpose(0, 3, 1, 2)) if channels_first else batch

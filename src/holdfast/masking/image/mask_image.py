"""A classifier and one image → a ``MaskedModel`` whose features are groups of pixels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.image.fills import Drop, ImageFill, as_fill, drawn_images
from holdfast.masking.image.models import (
    ArrayImageModel,
    ImageModel,
    ModuleImageModel,
    ResampledImage,
    TensorBatches,
    TensorImageModel,
)
from holdfast.masking.image.patches import patch_grid, uncompiled
from holdfast.masking.image.pixels import (
    Pixels,
    check_groups,
    describe_groups,
    digest_pixels,
    is_tensor,
    open_picture,
    pixels,
    repaint,
    scale_bytes,
)
from holdfast.masking.onnx import ImageSession, is_onnx
from holdfast.masking.resampling import Resample
from holdfast.masking.speed import Acceleration, Runner
from holdfast.masking.torch import classes_of, device_of, dtype_of, fingerprint_live, import_torch, is_module, warn_half
from holdfast.types import Provenance
from holdfast.validation import check_flag, check_name, check_whole, shown

_DEFAULT_GRID = 14  # rows and columns of the paper's grid
_MAX_BATCH_SIZE = 256
_BATCH_BYTES = 2**25  # batches of about this size are offered; activations take many times as much
_DARKEST_BYTES, _WHITE = 32, 255
"""Floats without a sign whose largest is in between are bytes: normalised images have signs and are smaller."""


def mask_image(
    classifier: Any,
    image: Any,
    *,
    groups: Any = None,
    fill: Any = 0.0,
    preprocess: Callable[[Any], Any] | None = None,
    fill_stage: str = "after",
    device: Any = None,
    dtype: Any = None,
    batch_size: int | None = None,
    softmax: bool = False,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
    fingerprint: str | None = None,
    classes: Sequence[str] | None = None,
) -> ImageModel | ResampledImage:
    """Bind a classifier and an image into a function of masks.

    A pixel whose feature is shown is exactly the pixel the classifier would see without any mask;
    a hidden one is exactly that of the baseline, which the fill makes of the image. All features
    shown, the classifier gets the unmasked input, bit for bit.

    Parameters
    ----------
    classifier : torch module, ONNX session, file or callable
        A torch module takes (b, C, H, W) and returns scores, or a model output, dict or tuple with
        them; it is run in evaluation mode without gradients and left as it was. An ONNX Runtime
        session or the name of an ``.onnx`` file takes batches NCHW or NHWC, as the shape of its
        input says. Any other callable gets NumPy batches (b, H, W, C) if the model's input is a
        NumPy or Pillow image, torch batches (b, C, H, W) if it is a tensor, and returns scores
        (b, n_classes) or labels (b,).
    image : torch tensor, array, Pillow image or file name
        Tensors are (C, H, W); arrays and Pillow images are (H, W, C), or (H, W) for one grey channel.
        Bytes are scaled to [0, 1] for torch modules and ONNX models that take floats; floats are
        left alone, and callables get what was given.
    groups : whole numbers (H, W), or two numbers (rows, cols)
        The feature of each pixel of the model's input, -1 for always shown; see :func:`grid`,
        :func:`segments`, :func:`superpixels`. Default: a grid of 14 × 14 as in the paper, of one row
        or column per pixel where the image has fewer; the model's own patches for ``fill="drop"``.
    fill : number, tuple, name, image or Fill
        What hidden pixels look like: a constant, one constant per channel, "mean", "blur", "noise",
        an image of the same size, or e.g. ``Blur(sigma=5)``. Or "drop": hidden patches are removed
        from the sequence of a vision transformer; features must be unions of whole patches. Or ``resample(images)``:
        hidden pixels are those of another image, which is drawn with each mask.
    preprocess : callable
        Makes the model's input of the image, e.g. a Hugging Face image processor. It is called once
        for the image, and once for the baseline if that is filled before.
    fill_stage : {"after", "before"}
        Whether the fill makes its baseline of the preprocessed image, in the units the model sees
        (0 is then often the mean colour), or of the image as given, which is then preprocessed like
        it (0 is then black). Features are groups of pixels of the model's input either way, and a
        preprocessing that resizes never mixes shown and hidden pixels.
    device : torch.device or str
        Where masked batches are made; default: where the module is.
    dtype : dtype or str
        Number type of the batches; default: the module's.
    batch_size : int
        Most masks per call of the classifier; default: up to 256, fewer for large images, and on a CPU
        what the first calls of a torch or ONNX model show to be fastest.
    softmax : bool
        Turn scores into probabilities. Default: scores are the classifier's raw outputs.
    autocast : {"bf16", "fp16"}
        Compute a module's matrix products in this precision; recorded in the provenance.
    compile : bool or str
        Compile a module with ``torch.compile``, by its default backend or the named one; recorded in
        the provenance. The first calls are slow.
    fingerprint : str
        Identifies the classifier in certificates. Default: computed from the weights of a module or the
        bytes of an ONNX file; a function has none.
    classes : sequence of str
        Names of the classes, in the order of the scores. Default: those that a module of Transformers knows.

    Returns
    -------
    model : MaskedModel
        With ``elements``, ``baseline`` and ``groups``; for a torch module also ``Differentiable``. With
        ``resample(images)`` a ``Completing`` model, which has the other one as ``image``.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.arange(8.0).reshape(2, 4, 1)
    >>> model = mask_image(lambda batch: batch.sum(axis=(1, 2)), image, groups=(1, 2))
    >>> model(np.array([[True, True], [True, False]])).tolist()
    [[28.0], [10.0]]
    """
    classifier, preprocess = _without_pipeline(classifier, preprocess)
    target = classifier
    if is_onnx(classifier):
        target = ImageSession.of(classifier)
    elif not callable(classifier):
        kinds = "a torch module, an ONNX Runtime session, the name of an .onnx file, or a callable on batches of images"
        raise InvalidTypeError(argument="classifier", must=f"be {kinds}", got=shown(classifier))
    if preprocess is not None and not callable(preprocess):
        raise InvalidTypeError(argument="preprocess", must="be callable on one image", got=shown(preprocess))
    if check_name(fill_stage, "fill_stage", ("after", "before")) == "before" and preprocess is None:
        must = "be 'after' unless `preprocess` is given"
        raise InvalidValueError(argument="fill_stage", must=must, got=shown(fill_stage))
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise InvalidTypeError(argument="fingerprint", must="be a string or None", got=shown(fingerprint))
    if device is not None and is_module(target):
        asked, places = import_torch().device(device), {tensor.device for tensor in target.parameters()}
        if places and not any(place.type == asked.type and asked.index in (None, place.index) for place in places):
            must = f"be the device of the module, {', '.join(sorted(map(str, places)))}"
            hint = f"Move it: classifier.to({str(asked)!r})."
            raise InvalidValueError(argument="device", must=must, got=repr(str(asked)), hint=hint)
    acceleration = Acceleration.check(autocast, compile)
    for name, value in acceleration.options.items():
        if not is_module(target):
            raise InvalidTypeError(f"works only with a torch module, got {value!r}.", argument=name)
    others = drawn_images(fill) if isinstance(fill, Resample) else None
    chosen = as_fill(fill) if others is None else others[0]
    if isinstance(chosen, Drop):
        if not is_module(target):
            message = "works only with a vision transformer that is a torch module."
            raise InvalidTypeError(message, argument="fill='drop'")
        if acceleration.backend is not None:
            must = "be False for `fill='drop'`: compiled modules run on all patches"
            raise InvalidValueError(argument="compile", must=must)
        if fill_stage != "after":
            raise InvalidValueError(argument="fill_stage", must="be left out for `fill='drop'`", got=shown(fill_stage))
        classifier = target = uncompiled(target)
    picture = open_picture(image)
    model_input, elements, baseline, words = _look(target, picture, chosen, preprocess, fill_stage)
    baselines: Pixels | None = None
    if others is not None:
        baselines = np.stack([_look(target, picture, other, preprocess, fill_stage)[2] for other in others])
        drawn_from = f"drawn from {len(others)} images {digest_pixels(baselines)[:32]}"
        words = drawn_from + words.removeprefix(chosen.name)
    height, width, n_channels = elements.shape
    wanted = getattr(getattr(target, "config", None), "num_channels", None)
    if isinstance(wanted, int) and wanted != n_channels:
        raise InvalidValueError(argument="image", must=f"have {wanted} channels for this model", got=n_channels)
    channels_first = isinstance(target, ImageSession) and target.layout_for(elements.shape)
    if groups is None:
        default = (min(_DEFAULT_GRID, height), min(_DEFAULT_GRID, width))
        groups = patch_grid(target, (height, width)) if isinstance(chosen, Drop) else default
    groups = check_groups(groups, (height, width))
    size = None if batch_size is None else check_whole(batch_size, "batch_size", minimum=1)
    notes = [describe_groups(groups), f"fill {words}", *(["softmax"] if check_flag(softmax, "softmax") else [])]
    known = fingerprint_live(classifier) if fingerprint is None else fingerprint
    most = size or max(1, min(_MAX_BATCH_SIZE, _BATCH_BYTES // elements.nbytes))
    names = classes_of(classifier, classes)
    if is_module(target):
        warn_half(target, device, dtype)
    batches: Any = None
    if is_module(target) or (is_tensor(model_input) and not isinstance(target, ImageSession)):
        place, kind = _tensor_kind(target, model_input, device, dtype)
        batches = TensorBatches(elements, baseline, groups, device=place, dtype=kind)
        elements, baseline = batches.arrays()
    else:
        kind = _array_kind(target, elements, dtype)
        elements, baseline = elements.astype(kind), baseline.astype(kind)
    fields: dict[str, Any] = {
        "elements": elements,
        "baseline": baseline,
        "groups": groups,
        "batch_size": most,
        "finds_batch_size": size is None,
        "softmax": bool(softmax),
        "provenance": Provenance(", ".join([*notes, *acceleration.words]), known, digest_pixels(elements)),
        "classes": names,
    }
    model: ImageModel
    if batches is None:
        model = ArrayImageModel(function=target, channels_first=channels_first, **fields)
    elif not is_module(target):
        model = TensorImageModel(function=target, batches=batches, **fields)
    else:
        model = ModuleImageModel(runner=Runner(target, acceleration), batches=batches, **fields)
        model = model.without_hidden_patches() if isinstance(chosen, Drop) else model
    return model if baselines is None else ResampledImage(model, baselines.astype(model.elements.dtype))


def _tensor_kind(target: Any, model_input: Any, device: Any, dtype: Any) -> tuple[Any, Any]:
    """Device and number type of batches: those that are wanted, or the model's own, or of a function its input's."""
    torch = import_torch()
    if is_module(target):
        place, own = device_of(target, device), dtype_of(target)
    else:
        place, own = model_input.device if device is None else torch.device(device), model_input.dtype
    kind = own if dtype is None else getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(kind, torch.dtype):
        raise InvalidTypeError(argument="dtype", must="be a torch number type, e.g. 'float16'", got=shown(dtype))
    return place, kind


def _array_kind(target: Any, elements: Pixels, dtype: Any) -> np.dtype[Any]:
    """Number type of batches of arrays: that of an ONNX model, or the wanted one, or the image's own."""
    if dtype is None:
        return target.dtype if isinstance(target, ImageSession) else elements.dtype
    if isinstance(target, ImageSession):
        message = f"of an ONNX model is fixed by its file, {target.dtype}, got {dtype!r}."
        raise InvalidValueError(message, argument="dtype")
    must = "be a type of real numbers, such as 'float32'"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names that NumPy is about to forget are no numbers either
            kind: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(argument="dtype", must=must, got=shown(dtype)) from error
    if kind.kind not in "fiu":
        raise InvalidValueError(argument="dtype", must=must, got=shown(dtype))
    return kind


def _without_pipeline(classifier: Any, preprocess: Any) -> tuple[Any, Any]:
    """The module and the image processor of a Transformers pipeline; anything else as it is."""
    if not any(kind.__module__.startswith("transformers.pipelines.") for kind in type(classifier).__mro__):
        return classifier, preprocess
    processor = getattr(classifier, "image_processor", None)
    if processor is None:
        got = f"a {type(classifier).__name__}"
        raise InvalidTypeError(argument="classifier", must="be an image-classification pipeline", got=got)
    if preprocess is not None:
        raise InvalidValueError(argument="preprocess", must="be left out for a pipeline, which brings its own")
    return classifier.model, lambda picture: processor(images=picture, return_tensors="pt")["pixel_values"][0]


def _look(target: Any, picture: Any, fill: ImageFill, preprocess: Any, stage: str) -> tuple[Any, Pixels, Pixels, str]:
    """What the classifier takes, its pixels and those of its baseline (H, W, C), and words for the fill."""
    if preprocess is None:
        elements = _numbers_for(target, pixels(picture))
        # Bytes that were turned into floats without being scaled are refused; what `preprocess` returns is meant.
        has_floats = elements.dtype.kind == "f" and (is_module(target) or isinstance(target, ImageSession))
        if has_floats and elements.min() >= 0 and _DARKEST_BYTES < elements.max() <= _WHITE:
            must, got = "hold floats from 0 to 1, or bytes, for this model", f"floats up to {elements.max():g}"
            hint = "Divide by 255; if the model takes 0 to 255, pass `preprocess=lambda image: image`."
            raise InvalidValueError(argument="image", must=must, got=got, hint=hint)
        return picture, elements, _filled(fill, elements), fill.name
    model_input = _unwrapped(preprocess(picture))
    elements = _read_input(target, model_input)
    if stage == "after":
        baseline = _filled(fill, elements)
    else:
        baseline = _read_input(target, _unwrapped(preprocess(repaint(_filled(fill, pixels(picture)), picture))))
    if baseline.shape != elements.shape:
        got = f"{elements.shape} and {baseline.shape}"
        raise InvalidValueError(
            argument="preprocess", must="return the same shape for the image and its baseline", got=got
        )
    words = fill.name if isinstance(fill, Drop) else f"{fill.name} {stage} normalisation"
    return model_input, elements, baseline, words


def _filled(fill: ImageFill, values: Pixels) -> Pixels:
    baseline = pixels(fill(values), "fill")
    if baseline.shape != values.shape:
        raise InvalidValueError(argument="fill", must=f"keep the image's shape, {values.shape}", got=baseline.shape)
    return baseline


def _unwrapped(prepared: Any) -> Any:
    """The model's input in what a Hugging Face image processor returns."""
    if not isinstance(prepared, Mapping):
        return prepared
    if "pixel_values" not in prepared:
        must = "return an image or `pixel_values`"
        raise InvalidValueError(argument="preprocess", must=must, got=", ".join(prepared))
    return prepared["pixel_values"]


def _read_input(target: Any, model_input: Any) -> Pixels:
    """Preprocessed arrays have the layout the classifier takes; tensors and Pillow images have their own."""
    first = target.channels_first if isinstance(target, ImageSession) else is_module(target)
    return _numbers_for(target, pixels(model_input, "preprocess(image)", channels_first=first))


def _numbers_for(target: Any, values: Pixels) -> Pixels:
    """Floats for torch modules and most ONNX models; callables get what was given."""
    if not (is_module(target) or isinstance(target, ImageSession)):
        return values
    takes_bytes = isinstance(target, ImageSession) and target.dtype == np.uint8
    if values.dtype != np.uint8 and (takes_bytes or values.dtype.kind != "f"):
        wanted = "bytes (uint8)" if takes_bytes else "bytes (uint8) or floats"
        raise InvalidTypeError(argument="image", must=f"hold {wanted} for this model", got=values.dtype)
    return values if takes_bytes else scale_bytes(values)

"""Live objects (texts, arrays, images, rows, contexts, data frames) → a ``Dataset``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.inputs.data.contexts import contexts_of, is_context
from holdfast.inputs.data.dataset import Dataset, no_labels, number_labels
from holdfast.inputs.data.files import FrameRows, ImageFiles, split_target
from holdfast.masking.image.pixels import is_picture, is_tensor
from holdfast.masking.table.palettes import as_frame
from holdfast.validation import check_list, did_you_mean, is_number, shown

_AXES = {1: "text", 2: "table", 4: "image"}  # axes of an array of inputs → their kind, where nobody says
_MUST = "be the name of a data set, a data frame, or a list or array of texts, images, rows or contexts"
_HINT = "Say what they are with `kind`: image, text, table or context."


def as_dataset(data: Any, *, kind: str | None = None, target: str | None = None) -> tuple[Dataset, list[str] | None]:
    """Inputs of one kind without labels, and labels as words if a column of a frame, ``target``, holds them."""
    if isinstance(data, Dataset):
        return data, None
    frame = as_frame(data)
    if frame is not None and kind == "context":
        rows = frame.astype(object).where(frame.notna(), None)  # pandas has no other word for what is missing
        return contexts_of(type(data).__name__, rows.to_dict("records")), None
    if frame is not None and kind in (None, "table"):
        features, words = split_target(frame, target)
        dataset = _dataset(data, "table", FrameRows(features), background=features)
        # Rows whose index is no plain count are called by it.
        if list(frame.index) != list(range(len(frame))):
            dataset = replace(dataset, names=tuple(map(str, frame.index)))
        return dataset, words
    if target is not None:
        raise InvalidValueError(argument="target", must="be left out: only data frames have columns", got=shown(target))
    if isinstance(data, (np.ndarray, np.generic)) or is_tensor(data):
        return _of_array(data, kind), None
    if isinstance(data, (str, bytes, Mapping, Path)) or not isinstance(data, Iterable) or not hasattr(data, "__len__"):
        raise InvalidTypeError(argument="data", must=_MUST, got=shown(data), hint="Put a single input in a list.")
    entries = tuple(data)
    if not entries:
        raise InvalidValueError(argument="data", must="have at least one input", got="none")
    decided = kind or _kind_of(entries[0])
    if decided == "context":
        return contexts_of(type(data).__name__, entries), None
    if decided == "text":
        for number, text in enumerate(entries):
            if not isinstance(text, str):
                got = f"a {type(text).__name__} as input {number}"
                raise InvalidTypeError(argument="data", must="hold texts", got=got)
        return _dataset(data, "text", tuple(map(str, entries))), None
    if decided == "image":
        is_files = all(isinstance(entry, (str, Path)) for entry in entries)
        return _dataset(data, "image", ImageFiles(tuple(map(Path, entries))) if is_files else entries), None
    if isinstance(entries[0], Mapping) or _is_frame(entries[0]):
        pandas = import_extra("pandas", "Rows with names need")
        frames = [as_frame(entry) for entry in entries]
        are_frames = all(frame is not None for frame in frames)
        return as_dataset(pandas.concat(frames) if are_frames else pandas.DataFrame(list(entries)), target=target)
    try:
        return _of_array(np.asarray(entries), "table"), None
    except ValueError as error:
        raise InvalidValueError(argument="data", must="hold rows of one length", got=str(error)) from error


def number_known(labels: Any, n: int, classes: tuple[str, ...]) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Labels (n,) as numbers, and the names of the classes: the model's, of which labels are names or numbers."""
    entries = check_list(labels, "labels", "be a list of labels, one per input", most=n)
    if len(entries) != n:
        raise InvalidValueError(argument="labels", must=f"have one entry per input, {n}", got=len(entries))
    known = {
        place: str(int(label))
        if isinstance(label, (bool, np.bool_)) or (is_number(label) and label % 1 == 0)
        else str(label)
        for place, label in enumerate(entries)
        if not (label is None or (is_number(label) and (label != label or label == -1)))
    }
    words, numbers = [*known.values()], no_labels(n)
    if not classes or set(words) <= set(classes):
        numbers[[*known]], names = number_labels(words, classes or None)
        return numbers, names
    for word in words:
        if not (word.isdecimal() and len(word) < 10 and int(word) < len(classes)):
            must = f"be names of the model's {len(classes)} classes, or their numbers from 0"
            hint = did_you_mean(word, list(classes))
            raise InvalidValueError(argument="labels", must=must, got=shown(word), hint=hint)
    numbers[[*known]] = [int(word) for word in words]
    return numbers, classes


def _of_array(array: Any, kind: str | None) -> Dataset:
    """Inputs along the first axis of an array, or of a tensor; tensors of images stay tensors (channels first)."""
    decided = kind or _AXES.get(array.ndim)
    if decided is None or array.ndim < 1:
        raise InvalidValueError(argument="data", must=_MUST, got=f"an array with {array.ndim} axes", hint=_HINT)
    if len(array) == 0:
        raise InvalidValueError(argument="data", must="have at least one input", got="none")
    if decided == "image" and is_tensor(array):
        return _dataset(array, "image", tuple(array))
    values = np.asarray(array.detach().cpu()) if is_tensor(array) else array
    if decided == "text" or values.dtype.kind in "UO":
        return as_dataset(values.tolist(), kind=decided)[0]
    least = 3 if decided == "image" else 2
    if values.dtype.kind not in "biuf" or values.ndim < least:
        got = f"an array of {values.dtype} with {values.ndim} axes"
        raise InvalidValueError(argument="data", must=f"be numbers with at least {least} axes", got=got)
    return _dataset(array, decided, values, background=values if values.ndim == 2 else None)


def _kind_of(entry: Any) -> str:
    """What one input is, if that can be told."""
    if isinstance(entry, str):
        return "text"
    if is_context(entry):
        return "context"
    n_axes = getattr(entry, "ndim", None)
    if isinstance(entry, Path) or is_picture(entry) or (n_axes == 3):
        return "image"
    is_row = isinstance(entry, (list, tuple)) and all(map(is_number, entry))
    if isinstance(entry, Mapping) or n_axes == 1 or is_row or _is_frame(entry):
        return "table"
    raise InvalidTypeError(argument="data", must=_MUST, got=f"a list with {shown(entry)}", hint=_HINT)


def _is_frame(entry: Any) -> bool:
    """Whether an entry has named columns: a row, or a frame of one, of pandas, Polars or Arrow."""
    return hasattr(entry, "iloc") or (hasattr(entry, "to_pandas") and hasattr(entry, "columns"))


def _dataset(data: Any, kind: str, inputs: Any, background: Any = None) -> Dataset:
    rows = background if len(inputs) > 1 else None  # filled from itself, a row would never change
    return Dataset(type(data).__name__, kind, inputs, no_labels(len(inputs)), (), background=rows)

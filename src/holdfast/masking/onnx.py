"""An ONNX Runtime session, or an ``.onnx`` file → a function from batches of images to scores.

ONNX Runtime follows the names of files with weights, wherever they lead. They are read here first, straight
from the wire format (fields of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3), without the onnx
package, and names that lead out of the folder are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.extras import import_extra
from holdfast.masking.torch import SCORE_NAMES, is_session
from holdfast.validation import shown

_NUMBER_TYPES = {"tensor(float)": "f4", "tensor(float16)": "f2", "tensor(double)": "f8", "tensor(uint8)": "u1"}
_MAX_COLOURS = 4
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # what Pillow calls images of so many channels


def is_onnx(classifier: Any) -> bool:
    """Whether the classifier is a session of ONNX Runtime, or the name of a file."""
    return isinstance(classifier, (str, Path)) or is_session(classifier)


def open_session(path: str | Path, *, provider: str = "CPUExecutionProvider", threads: int = 1) -> Any:
    """A session on the CPU, in one thread, unless asked otherwise, for a file whose weights lie in it or beside it."""
    onnxruntime = import_extra("onnxruntime", "ONNX models need")
    if not Path(path).is_file():
        raise InvalidValueError(argument="classifier", must="be an existing .onnx file", got=shown(str(path)))
    external_files(Path(path))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors only
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=[provider])
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise InvalidValueError(f"The ONNX file {str(path)!r} cannot be read: {error}") from error


@dataclass(frozen=True)
class ImageSession:
    """A session that takes one batch of images, called on arrays in its own layout.

    ``sizes`` are the lengths of its input's four axes, None where any will do.
    """

    session: Any
    input_name: str
    output_name: str
    sizes: tuple[int | None, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, model: Any) -> ImageSession:
        """Read what the session, or that of the file of this name, takes and gives."""
        session = open_session(model) if isinstance(model, (str, Path)) else model
        inputs = session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            shapes = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs)
            raise InvalidValueError(f"The ONNX model must take one batch of images with four axes; it takes {shapes}.")
        if inputs[0].type not in _NUMBER_TYPES:
            known = ", ".join(_NUMBER_TYPES)
            raise InvalidTypeError(f"The ONNX model must take one of {known}; it takes {inputs[0].type}.")
        outputs = [entry.name for entry in session.get_outputs()]
        if not outputs:
            raise ModelError("The ONNX model must return scores; it returns nothing.")
        scores = next((name for name in SCORE_NAMES if name in outputs), outputs[0])
        sizes = tuple(size if isinstance(size, int) and size > 0 else None for size in inputs[0].shape)
        return cls(session, inputs[0].name, scores, sizes, np.dtype(_NUMBER_TYPES[inputs[0].type]))

    @property
    def channels_first(self) -> bool:
        """NCHW, unless only the last axis has a channel's length."""
        first, last = (size is not None and size <= _MAX_COLOURS for size in (self.sizes[1], self.sizes[3]))
        return first or not last

    def layout_for(self, shape: tuple[int, int, int]) -> bool:
        """Whether an image (H, W, C) has to be passed with its channels first."""
        height, width, n_channels = shape
        layouts = {True: (n_channels, height, width), False: shape}
        for channels_first in (self.channels_first, not self.channels_first):
            pairs = zip(self.sizes[1:], layouts[channels_first], strict=True)
            if all(wanted is None or wanted == size for wanted, size in pairs):
                return channels_first
        wanted_sizes = " × ".join("any" if size is None else str(size) for size in self.sizes[1:])
        axes = (2, 3, 1) if self.channels_first else (1, 2, 3)
        wanted_height, wanted_width, wanted_channels = (self.sizes[axis] for axis in axes)
        changes = []
        if wanted_channels not in (None, n_channels):
            mode = _MODES.get(wanted_channels)
            pillow = "" if mode is None else f" (Pillow: `image.convert({mode!r})`)"
            changes.append(f"to {_count(wanted_channels)}{pillow}")
        if wanted_height not in (None, height) or wanted_width not in (None, width):
            changes.append(f"to {wanted_height or 'any'}×{wanted_width or 'any'} pixels")
        must = f"have the axes that the ONNX model takes, {wanted_sizes}"
        got = f"{height}×{width} pixels with {_count(n_channels)}"
        hint = f"Change it {' and '.join(changes)} first, or in your own `preprocess`."
        raise InvalidValueError(argument="image", must=must, got=got, hint=hint)

    def __call__(self, batch: NDArray[Any]) -> NDArray[Any]:
        """Scores (b, n_classes) of a batch in the session's layout."""
        names, name = [self.output_name], self.input_name
        return run_in_size(lambda part: self.session.run(names, {name: part})[0], batch, self.sizes[0])


def _count(n_channels: int) -> str:
    return f"{n_channels} channel{'' if n_channels == 1 else 's'}"


def run_in_size(run: Callable[[NDArray[Any]], Any], batch: NDArray[Any], size: int | None) -> NDArray[Any]:
    """Run a model on batches of the length it was exported for, the last filled up; on all at once if any will do."""
    if size is None:
        return np.asarray(run(batch))
    parts = []
    for start in range(0, max(1, len(batch)), size):
        part = batch[start : start + size]
        padding = np.zeros((size - len(part), *batch.shape[1:]), batch.dtype)
        parts.append(run(np.concatenate([part, padding]))[: len(part)])
    return np.concatenate(parts)


_CHILDREN = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""Message → the fields that can lead to a tensor, and what each of them is."""

_LENGTHS = {1: 8, 5: 4}
_DELIMITED = 2


def external_files(path: Path) -> list[Path]:
    """The files beside an ONNX file that hold weights of it; anything elsewhere is refused."""
    try:
        names = sorted(set(_locations(memoryview(path.read_bytes()), "model")))
    except (IndexError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValueError(f"The ONNX file {str(path)!r} cannot be read: it is incomplete.") from error
    for name in names:
        beside = path.parent / name
        if Path(name).is_absolute() or beside.resolve().parent != path.parent.resolve():
            raise InvalidValueError(f"{str(path)!r} must keep its weights in files beside it; it names {name!r}.")
        if not beside.is_file():
            raise InvalidValueError(f"{str(path)!r} needs the file {name!r} beside it, which is missing.")
    return [path.parent / name for name in names]


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    for field, value in _fields(message):
        child = _CHILDREN[kind].get(field)
        if child == "entry":
            entry = dict(_fields(value))
            if bytes(entry.get(1, b"")) == b"location":
                yield bytes(entry[2]).decode()
        elif child is not None:
            yield from _locations(value, child)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of every field that has a length; numbers are skipped."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 0:
            _, at = _varint(message, at)
            continue
        length, at = _varint(message, at) if wire == _DELIMITED else (_LENGTHS[wire], at)
        if at + length > len(message):
            raise IndexError("a field reaches beyond the end of the file")
        if wire == _DELIMITED:
            yield tag >> 3, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for n_bytes in range(10):  # of seven bits each, for 64 bits in all
        byte = message[at + n_bytes]
        value |= (byte & 0x7F) << 7 * n_bytes
        if byte < 0x80:
            return value, at + n_bytes + 1
    raise IndexError("a number has more bits than the format allows")

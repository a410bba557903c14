"""An ONNX Runtime session, or an ``.onnx`` file → a function from batches of images to scores.

ONNX Runtime follows the names of files with weights, wherever they lead. They are read here first, straight
from the wire format (fields of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3), without the onnx
package, and names that lead out of the folder are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, MissingExtraError, ModelError

SCORE_NAMES = ("logits", "scores", "probabilities", "output")
"""What models of all frameworks call their scores."""

_NUMBER_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}
_MAX_COLOURS = 4
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""What Pillow calls images of so many channels."""


def is_session(classifier: Any) -> bool:
    """Whether the classifier is an ONNX Runtime session; asks without importing it."""
    return hasattr(classifier, "get_inputs") and hasattr(classifier, "run")


def open_session(path: str | Path) -> Any:
    """A session on the CPU, in one thread, for an ``.onnx`` file whose weights lie in it or beside it."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("ONNX models need ONNX Runtime: pip install 'holdfast[onnx]'") from error
    if not Path(path).is_file():
        raise InvalidValueError(f"`classifier` must be an existing .onnx file, got {str(path)!r}.")
    external_files(Path(path))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # ONNX Runtime's errors have no common base below Exception.
    except Exception as error:
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
    def of(cls, session: Any) -> ImageSession:
        """Read what the session takes and gives."""
        inputs = session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            shapes = ", ".join(f"{entry.name} {entry.shape}" for entry in inputs)
            raise InvalidValueError(f"The ONNX model must take one batch of images with four axes, takes {shapes}.")
        if inputs[0].type not in _NUMBER_TYPES:
            known = ", ".join(_NUMBER_TYPES)
            raise InvalidTypeError(f"The ONNX model must take one of {known}, takes {inputs[0].type}.")
        sizes = tuple(size if isinstance(size, int) and size > 0 else None for size in inputs[0].shape)
        return cls(session, inputs[0].name, _score_name(session), sizes, np.dtype(_NUMBER_TYPES[inputs[0].type]))

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
        raise InvalidValueError(
            f"`image` must have the axes the ONNX model takes, {wanted_sizes}, "
            f"got {height}×{width} pixels with {n_channels} channel{'' if n_channels == 1 else 's'}. "
            f"{self._remedy(shape)}"
        )

    def _remedy(self, shape: tuple[int, int, int]) -> str:
        """What to do with an image (H, W, C) of other sizes than the model takes."""
        places = (2, 3, 1) if self.channels_first else (1, 2, 3)
        height, width, n_channels = (self.sizes[place] for place in places)
        changes = []
        if n_channels not in (None, shape[2]):
            pillow = f" (Pillow: `image.convert({_MODES[n_channels]!r})`)" if n_channels in _MODES else ""
            changes.append(f"to {n_channels} channel{'' if n_channels == 1 else 's'}{pillow}")
        if height not in (None, shape[0]) or width not in (None, shape[1]):
            changes.append(f"to {height or 'any'}×{width or 'any'} pixels")
        return f"Change it {' and '.join(changes)} first, or in a `preprocess` of your own."

    def __call__(self, batch: NDArray[Any]) -> NDArray[Any]:
        """Scores (b, n_classes) of a batch in the session's layout."""
        return np.concatenate([self._run(part)[:n] for part, n in self._parts(batch)])

    def _parts(self, batch: NDArray[Any]) -> Iterator[tuple[NDArray[Any], int]]:
        """Batches of the length the model was exported for, the last one filled up, and rows that count."""
        size = self.sizes[0] or max(1, len(batch))
        for start in range(0, max(1, len(batch)), size):
            part = batch[start : start + size]
            missing = size - len(part) if self.sizes[0] else 0
            yield np.concatenate([part, np.zeros((missing, *batch.shape[1:]), batch.dtype)]), len(part)

    def _run(self, batch: NDArray[Any]) -> NDArray[Any]:
        outputs = self.session.run([self.output_name], {self.input_name: batch})
        return np.asarray(outputs[0])


def _score_name(session: Any) -> str:
    names = [entry.name for entry in session.get_outputs()]
    if not names:
        raise ModelError("The ONNX model must return scores, it returns nothing.")
    return next((name for name in SCORE_NAMES if name in names), names[0])


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
_LOCATION = b"location"
_BITS = 64


def external_files(path: Path) -> list[Path]:
    """The files beside an ONNX file that hold weights of it; anything elsewhere is refused."""
    try:
        names = sorted(set(_locations(memoryview(path.read_bytes()), "model")))
    except (IndexError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValueError(f"The ONNX file {str(path)!r} cannot be read: it is not whole.") from error
    for name in names:
        beside = path.parent / name
        if Path(name).is_absolute() or beside.resolve().parent != path.parent.resolve():
            raise InvalidValueError(f"{str(path)!r} must keep its weights in files beside it, it names {name!r}.")
        if not beside.is_file():
            raise InvalidValueError(f"{str(path)!r} needs the file {name!r} beside it, which is missing.")
    return [path.parent / name for name in names]


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    for field, value in _fields(message):
        child = _CHILDREN[kind].get(field)
        if child == "entry":
            entry = dict(_fields(value))
            if bytes(entry.get(1, b"")) == _LOCATION:
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
    value = shift = 0
    while shift < _BITS:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise IndexError("a number has more bits than the format allows")

"""The bytes of an ONNX file → the names of the files its weights lie in.

ONNX Runtime would follow such names. They are read here first, straight from the wire format (fields of
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3), without the onnx package.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import InvalidValueError

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

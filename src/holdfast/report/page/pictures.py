"""One input → what the page draws of it: pixels and the feature of each, words, or columns."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.masking.image.groups import grid
from holdfast.types import MaskedModel
from holdfast.words import shortened

Plain = dict[str, Any]

MOST_PIXELS = 160
"""Images are drawn at most this wide and high."""

_THUMBNAIL = 40
"""The same for images in a list."""

MOST_CHARACTERS = 12_000
"""Texts are shown up to here."""


def describe_input(one: Any, bound: MaskedModel | None, names: Sequence[str] | None, *, n_features: int) -> Plain:
    """An input as ``{"kind": "image" | "text" | "table", …}``.

    Parameters
    ----------
    one : object
        The input as the data give it; None where they cannot be read.
    bound : MaskedModel or None
        The same bound to the model: an image is then drawn as the model sees it.
    names : sequence of str or None
        What its features are called.
    n_features : int
        How many there are.
    """
    elements, groups = (np.asarray(getattr(bound, name, ())) for name in ("elements", "groups"))
    if elements.ndim == 3 and groups.ndim == 2:
        return _image(_as_bytes(elements), groups)
    if isinstance(one, str):
        spans = getattr(getattr(bound, "parts", None), "spans", None)
        return {"kind": "text", "parts": text_parts(one, names) if spans is None else cut_text(one, spans)}
    if names is None and (pixels := _picture(one)) is not None:
        return _image(pixels, None)
    return {"kind": "table", "columns": _columns(one, names, n_features)}


def lay_grid(picture: Plain, masking: str | None) -> Plain:
    """An image without a model, with the grid that its masking names; the model may have seen another cut of it."""
    found = re.match(r"grid (\d+)×(\d+)", masking or "")
    if picture["kind"] != "image" or picture["groups"] is not None or not found:
        return picture
    return picture | {"groups": {"rows": int(found[1]), "cols": int(found[2])}}


def _image(pixels: NDArray[np.uint8], groups: NDArray[Any] | None) -> Plain:
    small = _shrunk(pixels)
    where = None if groups is None else _describe_map(_shrunk(groups))
    height, width = small.shape[:2]
    return {"kind": "image", "png": png_uri(small), "width": width, "height": height, "groups": where}


def thumbnail(one: Any) -> str | None:
    """A small picture of an image in a ``data:`` address, or None if it is none.

    Examples
    --------
    >>> thumbnail(np.zeros((80, 80, 3), dtype=np.uint8))[:22], thumbnail("text")
    ('data:image/png;base64,', None)
    """
    pixels = _picture(one)
    return None if pixels is None else png_uri(_shrunk(pixels, _THUMBNAIL))


def _shrunk(values: NDArray[Any], most: int = MOST_PIXELS) -> NDArray[Any]:
    """Every k-th row and column, so that neither is longer than the page draws."""
    step = -(-max(values.shape[:2]) // most)
    return values[step // 2 :: step, step // 2 :: step]


def _describe_map(groups: NDArray[Any]) -> Plain:
    """A map of features as the numbers of a grid, or as runs (feature, length, feature, length, …)."""
    rows, cols = (1 + int((np.diff(edge) != 0).sum()) for edge in (groups[:, 0], groups[0]))
    if np.array_equal(groups, grid(groups.shape, rows, cols)):
        return {"rows": rows, "cols": cols}
    flat = groups.ravel()
    starts = np.flatnonzero(np.diff(flat, prepend=flat[0] - 1))
    lengths = np.diff(starts, append=len(flat))
    return {"runs": np.stack([flat[starts], lengths], axis=1).ravel().tolist()}


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Numbers as the model sees them, from darkest to brightest."""
    if values.dtype == np.uint8:
        return values
    low, high = float(values.min()), float(values.max())
    return np.rint((values.astype(np.float64) - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)


def _picture(one: Any) -> NDArray[np.uint8] | None:
    """An array (H, W, C) or (H, W) or a Pillow image as bytes, or None."""
    values = np.asarray(one)
    if values.dtype.kind not in "uif" or values.ndim not in (2, 3) or min(values.shape) == 0:
        return None
    return _as_bytes(values[..., None] if values.ndim == 2 else values)


def png_uri(pixels: NDArray[np.uint8]) -> str:
    """Bytes (H, W, C) as a PNG image in a ``data:`` address; one channel is grey.

    Examples
    --------
    >>> png_uri(np.zeros((2, 2, 1), dtype=np.uint8))[:32]
    'data:image/png;base64,iVBORw0KGg'
    """
    height, width, channels = pixels.shape
    kept = pixels[..., :3] if channels >= 3 else pixels[..., :1]
    lines = np.zeros((height, 1 + width * kept.shape[2]), dtype=np.uint8)
    lines[:, 1:] = kept.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if kept.shape[2] == 3 else 0, 0, 0, 0)
    parts = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def text_parts(text: str, names: Sequence[str] | None) -> list[list[Any]]:
    """A text cut into [piece, feature], with None for what belongs to no feature.

    The names are found in the text one after the other; one that was cut short stands for the whole
    word. Where one is not to be found (a token that the model does not know), the names themselves are
    shown instead of the text.

    Examples
    --------
    >>> text_parts("Oh no!", ["oh", "no"])
    [['Oh', 0], [' ', None], ['no', 1], ['!', None]]
    >>> text_parts("Oh fie!", ["oh", "<unk>"])
    [['oh', 0], [' ', None], ['<unk>', 1]]
    """
    if names is None:
        return [[text, None]]
    spans = _locate(text, names)
    if len(spans) == len(names) or (spans and len(text) >= MOST_CHARACTERS):
        return cut_text(text, spans)
    spaced: list[list[Any]] = []
    for i, name in enumerate(names):
        spaced += [[" ", None], [name, i]]
    return spaced[1:]


def cut_text(text: str, spans: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """A text cut at the places of its features, up to where it is shown.

    Examples
    --------
    >>> cut_text("a bc.", [(0, 1), (2, 4)])
    [['a', 0], [' ', None], ['bc', 1], ['.', None]]
    """
    shown, at = text[:MOST_CHARACTERS], 0
    parts: list[list[Any]] = []
    for i, (start, end) in enumerate(spans):
        parts += [[shown[at:start], None], [shown[start:end], i]]
        at = end
    rest = shown[at:] + ("…" if len(text) > len(shown) else "")
    parts.append([rest, None])
    return [part for part in parts if part[0]]


def _locate(text: str, names: Sequence[str]) -> list[tuple[int, int]]:
    """Where the names are, up to the first that is not to be found."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text  # a letter whose small form is longer would shift all that follow
    spans, at = [], 0
    for name in names:
        wanted = name if lowered is text else name.lower()
        start, end = lowered.find(wanted, at), len(wanted)
        if start < 0 and wanted.endswith("…"):
            start, end = lowered.find(wanted[:-1], at), len(wanted) - 1
            end += len(text[start + end :].split(maxsplit=1)[0]) if text[start + end : start + end + 1].strip() else 0
        if start < 0 or not wanted:
            break
        at = start + end
        spans.append((start, at))
    return spans


def _columns(one: Any, names: Sequence[str] | None, n_features: int) -> list[list[Any]]:
    """The name and the value of each feature of a row; None for a value that is not known."""
    called = [f"feature {i}" for i in range(n_features)] if names is None else list(names)
    return [[name, value] for name, value in zip(called, _values(one, names, n_features), strict=True)]


def _values(one: Any, names: Sequence[str] | None, n_features: int) -> list[str | None]:
    row = one.iloc[0] if hasattr(one, "iloc") and np.ndim(one) == 2 else one
    if isinstance(row, Mapping) or hasattr(row, "to_dict"):
        cells = dict(row if isinstance(row, Mapping) else row.to_dict())
        return [_cell(cells[name]) if name in cells else None for name in names or ()] or [None] * n_features
    values = np.asarray(one, dtype=object).ravel() if one is not None else np.zeros(0)
    return [_cell(value) for value in values] if len(values) == n_features else [None] * n_features


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else shortened(str(value), 40)

"""An input and results about it → plain data for pages and words for figures, the same in the report and in explore."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.methods import names_of
from holdfast.certification.certificate import Certificate
from holdfast.inputs.data.contexts import ContextInput
from holdfast.masking.image.pixels import grid
from holdfast.types import MaskedModel
from holdfast.witness import Witness
from holdfast.words import but_unlike, class_label, fitted, keeps, outward, shares, shortened, sure

Plain: TypeAlias = dict[str, Any]  # what becomes a JSON object
MOST_PIXELS, MOST_CHARACTERS = 160, 12_000  # images are drawn at most this wide and high, and texts shown up to here
_THUMBNAIL, _GLANCE = 40, 60  # pixels of an image and letters of a text in a list of inputs


def input_card(
    value: Any, bound: MaskedModel | None, names: Sequence[str] | None, *, n_features: int, masking: str | None = None
) -> Plain:
    """What a page knows of an input: how many features it has, what they are called, and its picture."""
    picture = describe_input(value, bound, names, n_features=n_features, masking=masking)
    return {"n_features": n_features, "feature_names": None if names is None else list(names), "picture": picture}


def describe_input(
    value: Any, bound: MaskedModel | None, names: Sequence[str] | None, *, n_features: int, masking: str | None = None
) -> Plain:
    """The picture of an input as ``{"kind": "image" | "text" | "table" | "context", …}``.

    ``value`` is None where the data cannot be read. An image that is ``bound`` to the model is drawn as the model
    sees it; one that is not has the grid that ``masking`` names.
    """
    if is_image(bound):
        return _describe_image(_as_bytes(np.asarray(bound.elements)), np.asarray(bound.groups))
    if isinstance(value, ContextInput):
        # Where features are no whole passages, each is shown by its name.
        are_passages = n_features == len(value.passages)
        shown = value.passages if are_passages else names or [f"feature {i}" for i in range(n_features)]
        cut = [passage[:MOST_CHARACTERS] + "…" * (len(passage) > MOST_CHARACTERS) for passage in shown]
        picture = {"kind": "context", "question": value.question, "answer": value.answer, "passages": cut}
        return picture | {"numbered": are_passages}
    if isinstance(value, str):
        spans = getattr(getattr(bound, "parts", None), "spans", None)
        return {"kind": "text", "parts": text_parts(value, names) if spans is None else cut_text(value, spans)}
    if names is None and (pixels := _pixels(value)) is not None:
        picture = _describe_image(pixels, None)
        layout = re.match(r"grid (\d+)×(\d+)", masking or "")
        # The model may have seen another cut of the image than the grid laid over the whole of it.
        return picture | {"groups": {"rows": int(layout[1]), "cols": int(layout[2])}} if layout else picture
    called = [f"feature {i}" for i in range(n_features)] if names is None else names
    cells = _cells(value, names, n_features)
    return {"kind": "table", "columns": [list(column) for column in zip(called, cells, strict=True)]}


def is_image(bound: Any) -> TypeGuard[Any]:
    """Whether an input that is bound to a model has pixels, each of them of one feature."""
    return np.ndim(getattr(bound, "elements", ())) == 3 and np.ndim(getattr(bound, "groups", ())) == 2


def feature_cells(value: Any, bound: MaskedModel) -> list[tuple[str, str | None]]:
    """What each feature of an input is called, and its value if it is a column of a row.

    ``value`` may be None: what is bound to a row knows it.
    """
    names = names_of(bound)
    if names is not None and (located := getattr(bound, "located", None)) is not None:
        # The text itself: a token that the model does not know is called so.
        pieces = (" ".join(located[0][start:end].split()) for start, end in located[1])
        return [(shortened(piece or name, _GLANCE), None) for piece, name in zip(pieces, names, strict=True)]
    if names is not None and isinstance(value, (str, ContextInput)):
        return [(name, None) for name in names]
    rows = getattr(bound, "rows", None)
    if value is None and rows is not None:
        value = rows(np.ones(bound.n_features, dtype=bool))[:1]
    picture = describe_input(value, bound, names, n_features=bound.n_features)
    return [(name, cell) for name, cell in picture.get("columns", ())] or [
        (f"feature {i}", None) for i in range(bound.n_features)
    ]


def glance(value: Any, kind: str) -> str | None:
    """An input in a list: how a text or question begins, a small picture (``data:``), or the first cells of a row.

    Examples
    --------
    >>> glance("What a day", "text"), glance([1.25, 7, "red", 4], "table")
    ('What a day', '1.25, 7, red, …')
    >>> glance(np.zeros((80, 80, 3), dtype=np.uint8), "image")[:22]
    'data:image/png;base64,'
    """
    title = title_of(value)
    if title is not None:
        return shortened(title, _GLANCE)
    if kind == "image":
        pixels = _pixels(value)
        return None if pixels is None else png_uri(_shrunk(pixels, _THUMBNAIL))
    return ", ".join(_cell(cell) for cell in np.asarray(value, dtype=object).ravel()[:3]) + ", …"


def title_of(value: Any) -> str | None:
    """The text, or the question of a context; None for what is no text."""
    return value.question if isinstance(value, ContextInput) else value if isinstance(value, str) else None


def describe_curve(curve: Iterable[Certificate], *, picked_from: int | None = None) -> Plain:
    """Rates and intervals by radius; of a curve picked for its result from so many, in few digits, rounded outwards."""
    points = []
    for certificate in curve:
        rate, interval = certificate.rate, certificate.interval
        if picked_from is not None:
            rate, interval = round(rate, 4), outward(certificate.interval_if_picked(picked_from), 4)
        points.append((certificate.radius, rate, *interval))
    return {name: [point[i] for point in points] for i, name in enumerate(("radii", "rates", "low", "high"))}


def describe_certificate(certificate: Certificate, *, picked_from: int | None = None) -> Plain:
    """The rate, the ends of its interval, and the sentence; if it was picked from so many, those that hold for all."""
    interval, sentence = certificate.interval, str(certificate)
    if picked_from is not None and not certificate.exact:
        interval = certificate.interval_if_picked(picked_from)
        known = f"{sure(certificate.confidence)} confidence for all {picked_from:,}"
        sentence = fitted(
            "Stable in {share} ({known}): {change} {keeps}{evidence}{but}.",
            change=certificate.changes(certificate.effective_radius, certificate.rate_kind),
            share=[f"{shares(interval)} of cases"],
            known=[f"{known} it was picked from", f"{known} explanations"],
            but=but_unlike(certificate),
            keeps=keeps("kept", certificate),
            evidence=[f" in {certificate.n_agreed} of {certificate.n_evaluated} draws", ""],
        )
    return {"rate": certificate.rate, **interval._asdict(), "sentence": sentence}


def describe_witness(witness: Witness, classes: Sequence[str]) -> Plain:
    """The additions, what the prediction becomes, and the sentence."""
    prediction = witness.prediction_name or class_label(witness.prediction, classes)
    words = {"sentence": str(witness), "explanation": witness.explain()}
    return {"found": witness.found, "added": list(witness.added), "prediction": prediction, **words}


def _describe_image(pixels: NDArray[np.uint8], groups: NDArray[Any] | None) -> Plain:
    """An image, with the map of its features as the numbers of a grid, or as runs (feature, length, …)."""
    small = _shrunk(pixels)
    height, width = small.shape[:2]
    picture = {"kind": "image", "png": png_uri(small), "width": width, "height": height, "groups": None}
    if groups is None:
        return picture
    features = _shrunk(groups)
    rows, cols = (1 + int((np.diff(edge) != 0).sum()) for edge in (features[:, 0], features[0]))
    if np.array_equal(features, grid(features.shape, rows, cols)):
        return picture | {"groups": {"rows": rows, "cols": cols}}
    flat = features.ravel()
    starts = np.flatnonzero(np.diff(flat, prepend=flat[0] - 1))
    lengths = np.diff(starts, append=len(flat))
    return picture | {"groups": {"runs": np.stack([flat[starts], lengths], axis=1).ravel().tolist()}}


def _shrunk(values: NDArray[Any], most: int = MOST_PIXELS) -> NDArray[Any]:
    """Every k-th row and column, so that neither is longer than the page draws."""
    step = -(-max(values.shape[:2]) // most)
    return values[step // 2 :: step, step // 2 :: step]


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Numbers as the model sees them, from darkest to brightest."""
    if values.dtype == np.uint8:
        return values
    low, high = float(values.min()), float(values.max())
    return np.rint((values.astype(np.float64) - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)


def _pixels(value: Any) -> NDArray[np.uint8] | None:
    """An array (H, W, C) or (H, W) or a Pillow image as bytes, or None."""
    values = np.asarray(value)
    if values.dtype.kind not in "uif" or values.ndim not in (2, 3) or min(values.shape) == 0:
        return None
    return _as_bytes(values[..., None] if values.ndim == 2 else values)


def png_uri(pixels: NDArray[np.uint8]) -> str:
    """Bytes (H, W, C) as a PNG image in a ``data:`` address; one channel is grey."""
    height, width, channels = pixels.shape
    kept = pixels[..., :3] if channels >= 3 else pixels[..., :1]
    lines = np.zeros((height, 1 + width * kept.shape[2]), dtype=np.uint8)
    lines[:, 1:] = kept.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if kept.shape[2] == 3 else 0, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")):
        file += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return "data:image/png;base64," + base64.b64encode(file).decode()


def text_parts(text: str, names: Sequence[str] | None) -> list[list[Any]]:
    """A text cut into [piece, feature], with None for what belongs to no feature.

    The names are found in the text one after the other; one that was cut short stands for the whole word.
    Where one is not to be found (a token that the model does not know), the names are shown instead of the text.

    Examples
    --------
    >>> text_parts("Oh no!", ["oh", "no"])
    [['Oh', 0], [' ', None], ['no', 1], ['!', None]]
    >>> text_parts("Oh fie!", ["oh", "<unk>"])
    [['oh', 0], [' ', None], ['<unk>', 1]]
    """
    if names is None:
        return [[text, None]]
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
    if len(spans) == len(names) or (spans and len(text) >= MOST_CHARACTERS):
        return cut_text(text, spans)
    spaced: list[list[Any]] = []
    for i, name in enumerate(names):
        spaced += [[" ", None], [name, i]]
    return spaced[1:]


def cut_text(text: str, spans: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """A text cut at the places of its features, up to where it is shown."""
    shown, at = text[:MOST_CHARACTERS], 0
    parts: list[list[Any]] = []
    for i, (start, end) in enumerate(spans):
        parts += [[shown[at:start], None], [shown[start:end], i]]
        at = end
    parts.append([shown[at:] + ("…" if len(text) > len(shown) else ""), None])
    return [part for part in parts if part[0]]


def _cells(value: Any, names: Sequence[str] | None, n_features: int) -> list[str | None]:
    """The value of each feature of a row; None for one that is not known."""
    row = value.iloc[0] if hasattr(value, "iloc") and np.ndim(value) == 2 else value
    if isinstance(row, Mapping) or hasattr(row, "to_dict"):
        cells = dict(row if isinstance(row, Mapping) else row.to_dict())
        return [_cell(cells[name]) if name in cells else None for name in names or ()] or [None] * n_features
    values = np.zeros(0) if value is None else np.asarray(value, dtype=object).ravel()
    return [_cell(cell) for cell in values] if len(values) == n_features else [None] * n_features


def _cell(value: Any) -> str:
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return "missing"
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return f"{number:,.0f}" if 1e4 <= abs(number) < 1e12 else f"{number:.4g}"
    return shortened(str(value), 40)

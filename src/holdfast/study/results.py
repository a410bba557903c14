"""What was found about one item → a frozen value, and the rows of the store that hold it."""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from holdfast.attribution.task import Attribution
from holdfast.certification.curve import StabilityCurve
from holdfast.certification.hard import HardCertificate
from holdfast.certification.serialization import SCHEMA_VERSION, Value
from holdfast.errors import StoreError
from holdfast.study.items import Item
from holdfast.types import Mask
from holdfast.validation import shown
from holdfast.witness import Witness

_MOST_UNPACKED = 1 << 28
"""Most bytes (256 MB) of one stored text."""

_COMPRESSION = 3
"""Certificates of one curve repeat each other: zlib makes a sixth of them at any level."""

Row = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class ItemResult(Value):
    """One input explained by one method, cut at one fraction, certified under one smoothing.

    Attributes
    ----------
    label : int or None
        The right class of the input, if the data say.
    prediction : int, str or bool
        What the model predicts for the full input.
    attribution : Attribution
        The scores; the same for all items of an input and a method.
    selected : Boolean array (n_features,)
        The explanation.
    curve : StabilityCurve
        One certificate per radius.
    mus : tuple of HardCertificate
        One per keep probability of the study's hard certificates.
    witness : Witness or None
        The smallest change found, if the study asks for it.
    n_calls : int
        Model calls that this item needs on its own, attribution aside. It does not depend on what
        was computed for other items before.
    n_computed : int
        Rows the model really computed for it: fewer where items of one input share masks.
    seconds : float
        Time it took, attribution aside.
    """

    input: int
    method: str
    top_fraction: float
    keep_probability: float
    name: str | None
    label: int | None
    prediction: Any
    attribution: Attribution
    selected: Mask
    curve: StabilityCurve
    mus: tuple[HardCertificate, ...]
    witness: Witness | None
    n_calls: int
    n_computed: int = 0
    seconds: float = 0.0
    attribution_seconds: float = 0.0

    schema: ClassVar[str] = "holdfast.item_result"

    @property
    def item(self) -> Item:
        """Which item it is."""
        return Item(self.input, self.method, self.top_fraction, self.keep_probability)

    @property
    def key(self) -> str:
        """The name of the item in the store."""
        return self.item.key

    @property
    def digest(self) -> str:
        """SHA-256 of everything but time, shared work and the digits of scores: equal for every run of the same study.

        A model of floats answers the same mask with other last digits in another batch; what is cut
        from the scores and counted must not change.
        """
        scored = replace(self.attribution, scores=np.zeros_like(self.attribution.scores), errors=None, details={})
        lasting = replace(self, attribution=scored, n_computed=0, seconds=0.0, attribution_seconds=0.0)
        return hashlib.sha256(lasting.to_json().encode()).hexdigest()


class Record(NamedTuple):
    """The rows that hold one result: what a worker sends and one transaction writes."""

    key: str
    input: Row
    attribution: Row
    item: Row
    rates: tuple[Row, ...]

    @property
    def method(self) -> str:
        """The explanation method."""
        return str(self.attribution[1])

    @property
    def last_rate(self) -> float:
        """The rate at the largest radius."""
        return float(self.rates[-1][2])


def encode(result: ItemResult) -> Record:
    """The rows of a result, in the order of the columns of the store."""
    known = result.attribution.provenance
    return Record(
        key=result.key,
        input=(
            result.input,
            result.name,
            result.label,
            json.dumps(result.prediction),
            len(result.selected),
            known.model,
            known.input,
        ),
        attribution=(
            result.input,
            result.method,
            pack_text(result.attribution.to_json()),
            result.attribution.n_calls,
            result.attribution_seconds,
        ),
        item=_item_row(result),
        rates=tuple(_rate_rows(result.curve)),
    )


def _rate_rows(curve: StabilityCurve) -> list[Row]:
    return [
        (
            one.radius,
            one.effective_radius,
            one.rate,
            one.rate_unbiased,
            *one.interval,
            one.n_agreed,
            one.n_evaluated,
            int(one.exact),
        )
        for one in curve
    ]


def stated_rates(packed: bytes) -> list[Row]:
    """The rows of rates that a stored curve states, as they are written there: no certificate is made of them."""
    text = unpack_text(packed)
    try:
        return _stated(json.loads(text)["certificates"])
    except (LookupError, TypeError, ValueError) as error:
        raise StoreError(f"A stored curve is damaged ({error!r}). Go on from a copy of the file.") from error


def _stated(certificates: list[dict[str, Any]]) -> list[Row]:
    return [
        (
            stated["radius"],
            stated["effective_radius"],
            stated["rate"],
            stated["rate_unbiased"],
            stated["interval"]["low"],
            stated["interval"]["high"],
            stated["n_agreed"],
            stated["n_evaluated"],
            int(stated["exact"]),
        )
        for stated in certificates
    ]


def _item_row(result: ItemResult) -> Row:
    return (
        result.input,
        result.method,
        result.top_fraction,
        result.keep_probability,
        np.packbits(result.selected).tobytes(),
        int(result.selected.sum()),
        json.dumps(result.curve.certificates[0].prediction),
        int(result.curve.certificates[0].consistent),
        pack_text(result.curve.to_json()),
        pack_text(json.dumps([one.to_json() for one in result.mus])),
        None if result.witness is None else pack_text(result.witness.to_json()),
        result.n_calls,
        result.n_computed,
        result.seconds,
        result.digest,
    )


class StoredItem(NamedTuple):
    """What the store holds of one item, as read back: a row of items, inputs and attributions joined, and its rates."""

    input: int
    method: str
    top_fraction: float
    keep_probability: float
    selected: bytes
    curve: bytes
    mus: bytes
    witness: bytes | None
    n_calls: int
    n_computed: int
    seconds: float
    digest: str
    name: str | None
    label: int | None
    prediction: str
    n_features: int
    attribution: bytes
    attribution_seconds: float
    rates: list[Row]

    @property
    def key(self) -> str:
        """The name of the item in the store."""
        return Item(self.input, self.method, self.top_fraction, self.keep_probability).key


def decode(stored: StoredItem) -> ItemResult:
    """The result that ``encode`` wrote; what contradicts itself is refused."""
    bits = np.unpackbits(np.frombuffer(stored.selected, dtype=np.uint8), count=stored.n_features)
    selected = bits.astype(bool)
    selected.setflags(write=False)
    result = ItemResult(
        input=stored.input,
        method=stored.method,
        top_fraction=stored.top_fraction,
        keep_probability=stored.keep_probability,
        name=stored.name,
        label=stored.label,
        prediction=stored_json(stored.prediction),
        attribution=Attribution.from_json(unpack_text(stored.attribution)),
        selected=selected,
        curve=StabilityCurve.from_json(unpack_text(stored.curve)),
        mus=tuple(HardCertificate.from_json(text) for text in stored_json(unpack_text(stored.mus), list)),
        witness=None if stored.witness is None else Witness.from_json(unpack_text(stored.witness)),
        n_calls=stored.n_calls,
        n_computed=stored.n_computed,
        seconds=stored.seconds,
        attribution_seconds=stored.attribution_seconds,
    )
    if result.digest != stored.digest or _rate_rows(result.curve) != stored.rates:
        raise StoreError(f"The item {stored.key} is not as it was stored: its digest or its rates contradict it.")
    return result


def as_json(stored: StoredItem) -> str:
    """The text of ``decode(stored).to_json()``, put together from what is stored without making certificates of it."""
    bits = np.unpackbits(np.frombuffer(stored.selected, dtype=np.uint8), count=stored.n_features)
    parts = {
        "schema_version": SCHEMA_VERSION,
        "schema": ItemResult.schema,
        "input": stored.input,
        "method": stored.method,
        "top_fraction": stored.top_fraction,
        "keep_probability": stored.keep_probability,
        "name": stored.name,
        "label": stored.label,
        "prediction": json.loads(stored.prediction),
        "attribution": _inner(unpack_text(stored.attribution)),
        "selected": {"n_features": stored.n_features, "shown": np.flatnonzero(bits).tolist()},
        "curve": _inner(unpack_text(stored.curve)),
        "mus": [_inner(text) for text in json.loads(unpack_text(stored.mus))],
        "witness": None if stored.witness is None else _inner(unpack_text(stored.witness)),
        "n_calls": stored.n_calls,
        "n_computed": stored.n_computed,
        "seconds": stored.seconds,
        "attribution_seconds": stored.attribution_seconds,
    }
    return json.dumps(parts, allow_nan=False)


def _inner(text: str) -> Any:
    """A value as it is inside another: only the outermost has a version."""
    return {name: part for name, part in json.loads(text).items() if name != "schema_version"}


def pack_text(text: str) -> bytes:
    """Text as compressed bytes."""
    return zlib.compress(text.encode(), _COMPRESSION)


def unpack_text(packed: bytes) -> str:
    """The text that ``pack_text`` made small."""
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, _MOST_UNPACKED)
        if not unpacker.eof:
            raise ValueError("it is cut short, or unpacks to more than is safe")
        return text.decode()
    except (TypeError, ValueError, zlib.error) as error:
        raise StoreError(f"What is stored is damaged ({error}). Go on from a copy of the file.") from error


def stored_json(text: Any, kind: type = object) -> Any:
    """A value of this kind that was stored as JSON."""
    with suppress(TypeError, ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, kind):
            return value
    raise StoreError(f"What is stored is damaged (no JSON: {shown(text)}). Go on from a copy of the file.")

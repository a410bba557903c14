"""A study → its items, and what is found about each: a value for people, a record for workers and files."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from holdfast.attribution.methods import Attribution
from holdfast.certification.curve import StabilityCurve
from holdfast.certification.hard import HardCertificate
from holdfast.certification.serialization import SCHEMA_VERSION, Value
from holdfast.errors import InvalidValueError, StoreError, StudyMismatchError
from holdfast.inputs.data.dataset import Dataset
from holdfast.randomness import stream
from holdfast.study.spec import GroupKey, StudySpec
from holdfast.types import Mask
from holdfast.validation import shown
from holdfast.witness import Witness

_MOST_UNPACKED = 1 << 28  # bytes (256 MB) of one stored text
_COMPRESSION = 3  # certificates of one curve repeat each other: zlib makes a sixth of them at any level
_RATE_COLUMNS = ("radius", "effective_radius", "rate", "rate_unbiased", "low", "high", "n_agreed", "n_evaluated")
_SHARED = ("name", "label", "n_calls", "n_computed", "seconds", "attribution_seconds")  # as they are in a result

Row = tuple[Any, ...]


class Item(NamedTuple):
    """One input, explained by one method, cut at one fraction, certified under one smoothing.

    ``key``, such as ``12/lime/0.25/1.0``, names it in the store and in its random streams; nothing else about the
    study enters there, so that an item keeps its draws when methods, inputs or radii are added.
    """

    input: int
    method: str
    top_fraction: float
    keep_probability: float

    @property
    def group(self) -> GroupKey:
        return GroupKey(*self[1:])

    @property
    def key(self) -> str:
        return f"{self.input}/{self.group.name}"


@dataclass(frozen=True)
class Task:
    """What a worker is given at a time: one input and those of its items that are not stored yet.

    ``attributions`` are pairs of a method and its packed scores, where items of this input and method
    are stored already: all items of a method are cut from the same scores, whatever came between.
    """

    input: int
    items: tuple[Item, ...]
    attributions: tuple[tuple[str, bytes], ...] = ()
    own_methods: tuple[str, ...] = ()
    """The methods that are the user's own: those that fail cost no items of others."""

    def after(self, record: Record) -> Task:
        """What is left when one item is done, and its method's scores are known."""
        scores = dict(self.attributions) | {record.method: record.attribution}
        return replace(self.without([record.key]), attributions=tuple(scores.items()))

    def without(self, keys: Collection[str]) -> Task:
        """The task less some items."""
        return replace(self, items=tuple(item for item in self.items if item.key not in keys))


class GivenUp(NamedTuple):
    """Items of an input that could not be computed: by one method or, if ``method`` is empty, whatever the method."""

    input: int
    method: str
    reason: str
    n_tries: int
    items: tuple[str, ...]


def inputs_of(spec: StudySpec, n_there: int) -> Sequence[int]:
    """The inputs of a study by their numbers in the data: all, the first n, or n at random in a random order."""
    n = spec.data.n
    if n is not None and n > n_there:
        raise InvalidValueError(argument="data.n", must=f"be at most {n_there}, the number of inputs", got=n)
    return range(n_there) if n is None or n == n_there else ordered(spec, n_there)[:n]


def ordered(spec: StudySpec, n_there: int) -> Sequence[int]:
    """All numbers of inputs in the order in which a study takes some of them: as they come, or shuffled by its seed.

    Each input has a random number of its own, so that neither the size of a sample nor later inputs
    shuffle those that are there.

    Examples
    --------
    >>> from holdfast.study.spec import DataSpec, MethodSpec, ModelSpec
    >>> spec = StudySpec(ModelSpec("onnx:a"), DataSpec("bundled:digits", n=3), (MethodSpec("lime"),))
    >>> ordered(spec, 6), inputs_of(spec, 6)
    ([2, 3, 5, 4, 0, 1], [2, 3, 5])
    """
    if spec.data.order == "first":
        return range(n_there)
    keys = stream(spec.seed, "study", "inputs").bit_generator.random_raw(n_there)
    order: list[int] = np.argsort(keys, kind="stable").tolist()
    return order


def items_of(spec: StudySpec, inputs: Iterable[int]) -> Iterator[Item]:
    """Every item of a study, input by input."""
    return (Item(index, *group) for index, group in product(inputs, spec.groups))


def tasks_of(spec: StudySpec, inputs: Iterable[int], done: frozenset[str]) -> Iterator[Task]:
    """One task per input that has items left to do."""
    own_methods = tuple(method.name for method in spec.methods if method.is_own)
    for index in inputs:
        if left := tuple(item for item in items_of(spec, [index]) if item.key not in done):
            yield Task(index, left, own_methods=own_methods)


class Listed(NamedTuple):
    """What is known of an input without binding it; None where it has no name, or is read only when it is needed."""

    name: str | None
    digest: str | None

    def differs(self, other: Listed) -> bool:
        """Whether they are two inputs for sure: what one of them does not say is no difference."""
        return any(mine is not None and its is not None and mine != its for mine, its in zip(self, other, strict=True))

    def knowing(self, other: Listed | None) -> Listed:
        """The same, with the digest that another listing has for this name, if this one has none."""
        return self if other is None or other.name != self.name or self.digest is not None else other

    def __str__(self) -> str:
        return repr(self.name) if self.digest is None else f"{self.name!r} (content {self.digest[:8]})"


def list_inputs(data: Dataset, numbers: Sequence[int]) -> dict[int, Listed]:
    """Some inputs of a data set by number; files are not opened."""
    names = data.names or [None] * len(data)
    return {number: Listed(names[number], None if data.in_files else data.digest(number)) for number in numbers}


def check_listing(before: Mapping[int, Listed], now: Mapping[int, Listed]) -> None:
    """Raise where a number stands for another input than before."""
    for number in sorted(before.keys() & now.keys()):
        if before[number].differs(now[number]):
            raise StudyMismatchError(
                f"Input {number} was {before[number]} and is now {now[number]}: numbers in the file of results "
                "would mean different inputs. Append new inputs at the end, or use another file."
            )


@dataclass(frozen=True, eq=False)
class ItemResult(Value, schema="holdfast.item_result"):
    """One input explained by one method, cut at one fraction, certified under one smoothing.

    Attributes
    ----------
    label : int, float or None
        The right class of the input, or the right number, if the data say.
    prediction : int, str, bool or float
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
    label: float | None
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
    """What is stored of one item, as a worker sends it and one transaction writes it; bytes are compressed JSON.

    Names are those of the columns of the flat table: first those of its input, of its scores, then its own.
    """

    input: int
    method: str
    top_fraction: float
    keep_probability: float
    name: str | None
    label: float | None
    full_prediction: str
    n_features: int
    model_fingerprint: str | None
    input_fingerprint: str | None
    attribution: bytes
    attribution_calls: int
    attribution_seconds: float
    selected: bytes
    n_selected: int
    prediction: str
    consistent: int
    curve: bytes
    mus: bytes
    witness: bytes | None
    n_calls: int
    n_computed: int
    seconds: float
    digest: str
    rates: tuple[Row, ...]

    @property
    def item(self) -> Item:
        return Item(*self[:4])

    @property
    def key(self) -> str:
        return self.item.key

    @classmethod
    def of(cls, result: ItemResult) -> Record:
        scores, first, curve = result.attribution, result.curve.certificates[0], result.curve.to_json()
        return cls(
            *result.item,
            **{name: getattr(result, name) for name in _SHARED},
            full_prediction=json.dumps(result.prediction),
            n_features=len(result.selected),
            model_fingerprint=scores.provenance.model,
            input_fingerprint=scores.provenance.input,
            attribution=pack_text(scores.to_json()),
            attribution_calls=scores.n_calls,
            selected=np.packbits(result.selected).tobytes(),
            n_selected=int(result.selected.sum()),
            prediction=json.dumps(first.prediction),
            consistent=int(first.consistent),
            curve=pack_text(curve),
            mus=pack_text(json.dumps([certificate.to_json() for certificate in result.mus])),
            witness=None if result.witness is None else pack_text(result.witness.to_json()),
            digest=result.digest,
            rates=stated_rates(curve),
        )

    def result(self) -> ItemResult:
        """The result that was stored; what contradicts itself is refused."""
        selected = self._unpacked_mask()
        selected.setflags(write=False)
        result = ItemResult(
            *self.item,
            **{name: getattr(self, name) for name in _SHARED},
            prediction=stored_json(self.full_prediction),
            attribution=Attribution.from_json(unpack_text(self.attribution)),
            selected=selected,
            curve=StabilityCurve.from_json(unpack_text(self.curve)),
            mus=tuple(HardCertificate.from_json(text) for text in stored_json(unpack_text(self.mus), list)),
            witness=None if self.witness is None else Witness.from_json(unpack_text(self.witness)),
        )
        if result.digest != self.digest or stated_rates(result.curve.to_json()) != self.rates:
            raise StoreError(
                f"The item {self.key} was changed after it was stored: its digest or its rates contradict it."
            )
        return result

    def to_json(self) -> str:
        """The text of ``result().to_json()``, put together from what is stored without making certificates of it."""
        values = self._asdict() | {
            "attribution": _inner(unpack_text(self.attribution)),
            "curve": _inner(unpack_text(self.curve)),
            "witness": None if self.witness is None else _inner(unpack_text(self.witness)),
            "mus": [_inner(text) for text in json.loads(unpack_text(self.mus))],
            "selected": {"n_features": self.n_features, "shown": np.flatnonzero(self._unpacked_mask()).tolist()},
            "prediction": json.loads(self.full_prediction),
        }
        content = {field.name: values[field.name] for field in fields(ItemResult)}
        return json.dumps({"schema_version": SCHEMA_VERSION, "schema": ItemResult.schema} | content, allow_nan=False)

    def _unpacked_mask(self) -> Mask:
        return np.unpackbits(np.frombuffer(self.selected, dtype=np.uint8), count=self.n_features).astype(bool)


def _inner(text: str) -> Any:
    """A value as it is inside another: only the outermost has a version."""
    return {name: part for name, part in json.loads(text).items() if name != "schema_version"}


def stated_rates(curve: str) -> tuple[Row, ...]:
    """The rows of rates that the JSON of a curve states, as they are written there: no certificate is made of them.

    Counts that no column of 64 bits holds are stated as parts of 2⁶²; the curve has them in full.
    """
    try:
        rates = [{**rate, **rate["interval"]} for rate in json.loads(curve)["certificates"]]
        for rate in rates:
            rate["n_agreed"], rate["n_evaluated"] = _fitting(rate["n_agreed"], rate["n_evaluated"])
        return tuple((*(rate[name] for name in _RATE_COLUMNS), int(rate["exact"])) for rate in rates)
    except (LookupError, TypeError, ValueError) as error:
        raise StoreError(f"A stored curve is damaged ({error!r}). Continue from a backup of the file.") from error


def _fitting(n_agreed: int, n_evaluated: int) -> tuple[int, int]:
    """Counts that a column of 64 bits holds: rounded down if they must be, so that all and none stay what they are."""
    if n_evaluated < 2**63:
        return n_agreed, n_evaluated
    return max(n_agreed * 2**62 // n_evaluated, int(n_agreed > 0)), 2**62


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
        raise StoreError(f"A stored entry is damaged ({error}). Continue from a backup of the file.") from error


def stored_json(text: Any, kind: type = object) -> Any:
    """A value of this kind that was stored as JSON."""
    with suppress(TypeError, ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, kind):
            return value
    raise StoreError(f"A stored entry is damaged (not JSON: {shown(text)}). Continue from a backup of the file.")

"""A result and what the same question gives now → whether everything that is stated is so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.results.values import Value

_FINGERPRINTS = ("masking", "model", "input")
_COSTS = ("n_calls", "n_repeated", "n_rounds")
_MOST_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Recheck(Value):
    """What became of a stored result when its whole question was asked again.

    Attributes
    ----------
    stated : Certificate, StabilityCurve, RadiusCertificate, HardCertificate, Comparison or StableSelection
        What was claimed.
    repeated : the same kind
        What the same question with the same random key gives now.
    canonical_key : int or None
        The key that follows from the question itself; a maker who used another one could have tried many.
        None if nothing was drawn.
    rng_key : int
        The key that was used.
    compares_cost : bool
        Whether the numbers of calls are compared. A model that remembers its answers needs fewer each time.
    notes : tuple of str
        What else a reader should know.
    smallest_margins : tuple of float
        The smallest gaps between the two largest scores among the repeated masks. Where counts
        differ and these are near zero, a tie in the model's arithmetic is the likely reason.
    """

    stated: Value
    repeated: Value
    canonical_key: int | None
    rng_key: int
    compares_cost: bool
    notes: tuple[str, ...]
    smallest_margins: tuple[float, ...]

    schema: ClassVar[str] = "holdfast.recheck"

    @property
    def confirmed(self) -> bool:
        """Whether every field that is stated is what the question gives now, and all known fingerprints agree."""
        return not self.differences

    @property
    def canonical(self) -> bool | None:
        """Whether the random key follows from the question, so that nobody could choose it; None without draws."""
        return None if self.canonical_key is None else self.rng_key == self.canonical_key

    @property
    def differences(self) -> tuple[str, ...]:
        """Every field that is stated otherwise than it is now, with both values."""
        pairs = _pairs(json.loads(self.stated.to_json()), json.loads(self.repeated.to_json()))
        counted = sorted((pair for pair in pairs if self._counts(*pair)), key=lambda pair: "provenance" not in pair[0])
        return tuple(in_words(*pair) for pair in counted)

    @property
    def not_identified(self) -> tuple[str, ...]:
        """Which of model, input and masking have no fingerprint, then or now: another one would not be noticed."""
        pairs = list(_pairs(json.loads(self.stated.to_json()), json.loads(self.repeated.to_json()), every=True))
        return tuple(
            name
            for name in _FINGERPRINTS
            if any(path.endswith(f"provenance.{name}") and None in (before, now) for path, before, now in pairs)
        )

    def _counts(self, path: str, before: Any, now: Any) -> bool:
        name = path.rpartition(".")[2]
        unknown = name in _FINGERPRINTS and "provenance" in path and None in (before, now)
        return not unknown and (self.compares_cost or name not in _COSTS)

    def __str__(self) -> str:
        return "\n".join(self._verdict())

    def _verdict(self) -> Iterator[str]:
        if self.confirmed:
            yield f"Confirmed: {self.repeated}"
        else:
            shown = self.differences[:_MOST_SHOWN]
            more = len(self.differences) - len(shown)
            yield f"Not confirmed: {'; '.join(shown)}{f'; and {more} more' if more else ''}."
            if self.smallest_margins:
                yield f"Smallest margins of the scores: {', '.join(f'{m:.3g}' for m in self.smallest_margins)}."
            return
        if self.not_identified:
            yield f"Not identified: {', '.join(self.not_identified)}. Another one with the same answers would pass too."
        if self.canonical:
            yield "The random key is canonical: it follows from the question, nobody chose it."
        elif self.canonical is False:
            yield "The random key is not canonical: whoever made this could have tried several and kept the best."
        yield from self.notes


def differences(stated: Value, repeated: Value) -> tuple[str, ...]:
    """Every field that is stated otherwise than it is now, with both values."""
    return tuple(in_words(*pair) for pair in _pairs(json.loads(stated.to_json()), json.loads(repeated.to_json())))


def in_words(name: str, before: Any, now: Any) -> str:
    """One difference."""
    return f"{name} is stated as {_brief(before)} and is {_brief(now)}"


def _pairs(before: Any, now: Any, path: str = "", *, every: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """Places in two JSON values where they differ, with what stands there; every place if asked."""
    if isinstance(before, dict) and isinstance(now, dict) and "shown" not in before:
        for name in {**before, **now}:
            yield from _pairs(before.get(name), now.get(name), f"{path}.{name}" if path else name, every=every)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for i, (first, second) in enumerate(zip(before, now, strict=True)):
            yield from _pairs(first, second, f"{path}[{i}]", every=every)
    elif every or before != now or type(before) is not type(now):
        yield path, before, now


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"

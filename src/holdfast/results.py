"""Counts and settings → values that restate the claim: frozen, comparable, JSON both ways, one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from holdfast.bounds import Interval
from holdfast.errors import InvalidValueError
from holdfast.plans.design import Design
from holdfast.types import Mask
from holdfast.validation import check_share

SCHEMA_VERSION = 1

_DOINGS = {
    "additions": "Revealing {} more {}",
    "removals": "Hiding {} of the selected {}",
    "swaps": "Trading {} selected for as many unselected {}",
}
_COUNTS = {
    "uniform": "up to {}",
    "exactly": "exactly {}",
    "worst_size": "the worst number, at most {}, of",
}


_NOT_RIGHT = "and does not say that the prediction is right"


class _Value:
    """Equality and JSON for a frozen dataclass that may hold masks and designs."""

    schema: ClassVar[str]

    def to_json(self) -> str:
        """The value as JSON text with a schema version; ``from_json`` gives it back."""
        head = {"schema": self.schema, "schema_version": SCHEMA_VERSION}
        return json.dumps(head | self._plain(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The value that ``to_json`` wrote; anything else is refused with a reason."""
        return cls(**_read(text, cls))

    def _plain(self) -> dict[str, Any]:
        return {field.name: _to_plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, _Value) and self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash(self.to_json())


@dataclass(frozen=True, eq=False)
class Certificate(_Value):
    """How often a prediction survives random changes to its explanation, with a guarantee.

    Before drawing, the probability that the whole procedure (stopping included) ends with
    |rate - true rate| ≤ tolerance was at least ``confidence``. It is about random masks near this
    explanation, of this model, input and masking. It is not a proof that no mask changes the
    prediction, does not say that the prediction is right, and is void if the seed or the settings
    were chosen after seeing results.

    Attributes
    ----------
    rate : n_agreed / n_evaluated.
    rate_unbiased : an exactly unbiased estimate, for averages over many inputs (a stopped rate leans
        towards its stopping boundary); None for ``rate_kind="worst_size"``, where none is known.
    interval : where the true rate lies at this confidence; a point if ``exact``.
    n_agreed, n_evaluated : draws that agreed, draws counted (repeats count each time).
    n_calls : rows the model computed, the explanation and the full input included.
    exact : every mask of the neighbourhood was evaluated.
    prediction : class index or label on the selected features.
    consistent : whether the full input gets the same prediction. An explanation can be stably wrong.
    counterexample : the nearest mask seen that changes the prediction, or None.
    radius, effective_radius : as asked; and clamped to the number of features that can change.
    rng_key : give it back as ``rng`` to repeat the draws.
    """

    rate: float
    rate_unbiased: float | None
    n_agreed: int
    n_evaluated: int
    n_calls: int
    exact: bool
    radius: int
    effective_radius: int
    tolerance: float
    confidence: float
    plan: str
    design: Design | None
    rng_key: int
    prediction: Any
    consistent: bool
    selected: Mask
    counterexample: Mask | None
    neighborhood: str
    rate_kind: str
    agree: str

    schema: ClassVar[str] = "holdfast.certificate"

    @property
    def interval(self) -> Interval:
        """Where the true rate lies, at this confidence."""
        low, high = self._ends()
        return Interval(float(low), float(high))

    def holds(self, rate: float) -> bool:
        """Whether the certificate shows that the true rate is at least ``rate``.

        False means "not shown", not "shown to be false". To ask about one rate from the start, a
        one-sided test is cheaper than this two-sided certificate.
        """
        asked = Fraction(1) if rate == 1 else check_share(rate, "rate")
        return self._ends()[0] >= asked

    def _ends(self) -> tuple[Fraction, Fraction]:
        share = Fraction(self.n_agreed, self.n_evaluated)
        slack = Fraction(0) if self.exact else Fraction(repr(self.tolerance))
        return max(share - slack, Fraction(0)), min(share + slack, Fraction(1))

    def __str__(self) -> str:
        return f"{self._claim()} {self._evidence()}{self._caveats()}"

    def _claim(self) -> str:
        event = _event(self.neighborhood, self.rate_kind, self.effective_radius)
        keeps = f"keeps the prediction {self.prediction!r}"
        if self.exact:
            return f"{event} {keeps} in exactly {self.rate:.2%} of all cases"
        low, high = self.interval
        sure = f"With confidence {self.confidence:g}"
        return f"{sure}, {_lower(event)} {keeps} in {low:.1%} to {high:.1%} of cases"

    def _evidence(self) -> str:
        how = "every mask was evaluated" if self.exact else f"plan {self.plan}"
        return f"({self.n_agreed} of {self.n_evaluated} agreed, {self.n_calls} model calls, {how});"

    def _caveats(self) -> str:
        clamped = ""
        if self.effective_radius < self.radius:
            clamped = f" the radius {self.radius} was clamped to the {self.effective_radius} features that can change;"
        wrong = (
            ""
            if self.consistent
            else " the full input is predicted differently, so the explanation may be stably wrong;"
        )
        meaning = "it is a fact about" if self.exact else "it is about random masks for"
        no_proof = "" if self.exact else ", is no proof that none of them changes the prediction"
        return f"{clamped}{wrong} {meaning} this model, input and masking{no_proof}, {_NOT_RIGHT}."


@dataclass(frozen=True, eq=False)
class HardCertificate(_Value):
    """How far an explanation can be changed with no change of the prediction at all.

    Attributes
    ----------
    method : "enumeration" (a proof), or "sampling" (Theorem 2 of the paper: a probability).
    stable : no mask that was evaluated changes the prediction.
    radius : the radius this certificate vouches for; 0 if it vouches for none.
    requested_radius, effective_radius : as asked; and clamped to the features that can change.
    tolerance, confidence : for "sampling", a fresh random mask changes the prediction with probability
        at most ``tolerance``, at this confidence; None for a proof.
    """

    method: str
    stable: bool
    radius: int
    requested_radius: int
    effective_radius: int
    tolerance: float | None
    confidence: float | None
    n_agreed: int
    n_evaluated: int
    n_calls: int
    rng_key: int
    prediction: Any
    consistent: bool
    selected: Mask
    counterexample: Mask | None
    neighborhood: str
    agree: str

    schema: ClassVar[str] = "holdfast.hard_certificate"

    @property
    def exact(self) -> bool:
        """Whether the answer is a proof."""
        return self.method == "enumeration" or not self.stable

    def __str__(self) -> str:
        counts = f"({self.n_agreed} of {self.n_evaluated} agreed, {self.n_calls} model calls)"
        wrong = "" if self.consistent else "; the full input is predicted differently, so it may be stably wrong"
        return f"{self._claim()} {counts}{wrong}; {self._scope()}."

    def _claim(self) -> str:
        event, what = _event(self.neighborhood, "uniform", self.effective_radius), f"the prediction {self.prediction!r}"
        if not self.stable:
            return f"{event} can change {what}: {self._refutation()}"
        if self.method == "enumeration":
            return f"{event} never changes {what}"
        risk = f"with probability at most {self.tolerance:g}"
        return f"With confidence {self.confidence:g}, {_lower(event)} at random changes {what} {risk}"

    def _refutation(self) -> str:
        changed = 0 if self.counterexample is None else int((self.counterexample != self.selected).sum())
        found = f"a mask that differs in {changed} {'feature' if changed == 1 else 'features'} does"
        return f"{found}, none within radius {self.radius} does" if self.radius else found

    def _scope(self) -> str:
        if self.exact:
            return f"it is a fact about this model, input and masking, {_NOT_RIGHT}"
        return f"it is a statement about probability, no proof that no such change exists, {_NOT_RIGHT}"


def _event(neighborhood: str, rate_kind: str, radius: int) -> str:
    """The change in words, such as 'Revealing up to 5 more features'."""
    features = "feature" if radius == 1 else "features"
    return _DOINGS[neighborhood].format(_COUNTS[rate_kind].format(radius), features)


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _to_plain(value: Any) -> Any:
    if isinstance(value, Design):
        return {"looks": list(value.looks), "limits": list(value.limits)}
    if isinstance(value, np.ndarray):
        return {"n_features": len(value), "shown": np.flatnonzero(value).tolist()}
    return value


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"looks", "limits"}:
        return Design(tuple(value["looks"]), tuple(value["limits"]))
    if isinstance(value, dict) and value.keys() == {"n_features", "shown"}:
        mask = np.zeros(value["n_features"], dtype=bool)
        mask[value["shown"]] = True
        mask.setflags(write=False)
        return mask
    return value


def _read(text: str, kind: type[_Value]) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"`text` must be the JSON of a {kind.schema}: {error}") from error
    if not isinstance(data, dict) or data.pop("schema", None) != kind.schema:
        raise InvalidValueError(f"`text` must have schema {kind.schema!r}.")
    version = data.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        raise InvalidValueError(f"`text` must have schema_version {SCHEMA_VERSION}, got {version!r}. Update holdfast?")
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if data.keys() != names:
        raise InvalidValueError(f"`text` has missing or unknown fields: {', '.join(sorted(names ^ data.keys()))}.")
    return {name: _from_plain(value) for name, value in data.items()}

"""What a page sends → a view: a model, an input, a method and its settings, checked before any model call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.explore.entries import Entry
from holdfast.validation import check_name, check_share, check_whole, is_number

OWN = "own"
"""The method of those who choose the features themselves."""

MOST_SEED = 2**53 - 1
"""Seeds above would be rounded by the page, whose numbers are floats."""


@dataclass(frozen=True)
class View:
    """One explanation of one input, and the model it is about.

    Attributes
    ----------
    model : str
        The ``spec`` of its entry.
    input : int
        Which input of the data, from 0.
    method : str
        A method of attribution, or "own" for the features ``selected``.
    fraction : float
        Which share of the features is selected.
    fill : str or None
        The name of a choice of the entry; None for the default.
    keep_probability : float
        Below 1, predictions are those of the smoothed model; the method explains the model itself.
    seed : int
        Of all draws.
    selected : tuple of int
        The features chosen by hand, in increasing order; empty for a method.
    """

    model: str
    input: int
    method: str = "lime"
    fraction: float = 0.25
    fill: str | None = None
    keep_probability: float = 1.0
    seed: int = 0
    selected: tuple[int, ...] = ()

    @property
    def scene(self) -> tuple[Any, ...]:
        """What the predictions depend on."""
        return self.model, self.input, self.fill, self.keep_probability, self.seed if self.keep_probability < 1 else 0


def read_view(plain: Any, entries: Mapping[str, Entry], *, count: Callable[[str], int]) -> View:
    """The view that a JSON object describes.

    Parameters
    ----------
    plain : dict
        With "model" and "input", and whatever differs from the defaults of ``View``.
    entries : mapping of str to Entry
        The models that can be explored, by their specs.
    count : callable
        How many inputs the model of a spec has.

    Examples
    --------
    >>> from holdfast.explore.entries import bundled_entries
    >>> entries = {entry.spec: entry for entry in bundled_entries()}
    >>> view = read_view({"model": "bundled:vader", "input": "3", "fraction": 0.5}, entries, count=lambda spec: 200)
    >>> view.input, view.method, view.fraction
    (3, 'lime', 0.5)
    >>> read_view({"model": "bundled:vader", "input": "200"}, entries, count=lambda spec: 200)
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `input` must be the id of an input, from '0' to '199', got '200'.
    """
    fields = check_object(plain, "view", names=View.__dataclass_fields__)
    entry = entries[check_name(fields.get("model"), "model", entries)]
    method = check_name(fields.get("method", View.method), "method", (*entry.methods, OWN))
    if (method == OWN) != ("selected" in fields and fields["selected"] is not None):
        raise InvalidValueError(argument="selected", must=f"be given for the method {OWN!r}, and for no other")
    return View(
        model=entry.spec,
        input=_check_input(fields.get("input"), count(entry.spec)),
        method=method,
        fraction=float(check_share(fields.get("fraction", View.fraction), "fraction")),
        fill=_check_fill(fields.get("fill"), entry),
        keep_probability=_check_keep(fields.get("keep_probability", 1.0)),
        seed=_check_seed(fields.get("seed", 0)),
        selected=check_features(fields["selected"], "selected") if method == OWN else (),
    )


def check_object(plain: Any, name: str, *, names: Any) -> dict[str, Any]:
    """A JSON object with no other than these names."""
    if not isinstance(plain, dict):
        raise InvalidTypeError(argument=name, must="be an object", got=_short(plain))
    strange = next((key for key in plain if key not in names), None)
    if strange is not None:
        raise InvalidValueError(
            argument=name, must=f"have no other fields than {', '.join(names)}", got=_short(strange)
        )
    return plain


def check_features(value: Any, name: str, *, n_features: int | None = None) -> tuple[int, ...]:
    """Numbers of features, each once, in increasing order."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidTypeError(argument=name, must="be a list of numbers of features", got=_short(value))
    features = tuple(sorted({check_whole(feature, name) for feature in value}))
    if n_features is not None and features and features[-1] >= n_features:
        raise InvalidValueError(argument=name, must=f"be features from 0 to {n_features - 1}", got=features[-1])
    return features


def _check_input(value: Any, n_inputs: int) -> int:
    must = f"be the id of an input, from '0' to '{n_inputs - 1}'"
    if not isinstance(value, str):
        raise InvalidTypeError(argument="input", must=must, got=_short(value))
    if not (value.isascii() and value.isdigit() and len(value) < 16 and int(value) < n_inputs):
        raise InvalidValueError(argument="input", must=must, got=_short(value))
    return int(value)


def _check_fill(value: Any, entry: Entry) -> str | None:
    if value is None:
        return None
    name = check_name(value, "fill", [choice.name for choice in entry.fills])
    return None if name == entry.fills[0].name else name


def _check_keep(value: Any) -> float:
    must = "be a number in (0, 1]"
    if not is_number(value):
        raise InvalidTypeError(argument="keep_probability", must=must, got=_short(value))
    if not 0 < value <= 1:
        raise InvalidValueError(argument="keep_probability", must=must, got=_short(value))
    return float(value)


def _check_seed(value: Any) -> int:
    seed = check_whole(value, "seed")
    if seed > MOST_SEED:
        raise InvalidValueError(argument="seed", must=f"be at most {MOST_SEED}", got=seed)
    return seed


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"

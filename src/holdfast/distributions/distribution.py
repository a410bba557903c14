"""What else may be revealed, in the user's own words → neighbourhoods that are drawn from by that distribution.

A distribution, bound to selected features and a radius, is a :class:`holdfast.neighborhood.Neighborhood`;
``Additions``, ``Removals`` and ``Swaps`` are distributions themselves. ``Bernoulli`` reveals each other feature with a
probability, ``Weighted`` draws sets by the product of their weights, ``Grouped`` reveals nodes of a tree, and any
object with ``sample(selected, n, rng)`` is a distribution of its own. As for uniform masks, one word of random bits
says the distance and one word per feature says which mask, so that ``sample(a + b)`` is ``sample(a)`` followed by
``sample(b)``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from holdfast.distributions.own import OWN, OwnDistribution
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.validation import check_number, check_whole, did_you_mean, is_number, shown

_TEXT = re.compile(r"\s*(bernoulli|weighted|grouped)\s*\((.*)\)\s*", re.DOTALL)

_MOST_FEATURES, _MOST_DEPTH = 2048, 64
"""Most features of a tree, whose choices are counted exactly, and most groups within each other."""


class Distribution(Protocol):
    """What may change about an explanation, and how likely; bound to one and a radius it is a neighbourhood.

    ``name`` tells it in full, and ``family`` names the random streams: distributions of one family share them, so that
    nobody can try numbers until the draws please. (The name of one's own object is another family each, and so is
    another spelling of the same distribution.) ``rings`` is as in ``Neighborhood``.
    """

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def rings(self) -> str | None: ...
    def __call__(self, selected: Any, radius: Any, /) -> Neighborhood: ...


@dataclass(frozen=True)
class Bernoulli:
    """Each other feature is revealed independently, with one probability or with one of its own.

    With a radius, given that at most so many are revealed.

    Parameters
    ----------
    probability : float, or sequence of float (n_features,)
        From 0 to 1; those of selected features do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function
    >>> from holdfast.distributions import Bernoulli
    >>> model = mask_function(lambda masks: ~masks[:, 3], n_features=4)
    >>> certify(model, [0], neighborhood=Bernoulli(0.3), rng=0).rate
    0.7
    >>> Bernoulli([0.5, 0.5, 0.1, 0.9]).name
    'bernoulli([0.5, 0.5, 0.1, 0.9])'
    """

    probability: Any
    family: ClassVar[str] = "bernoulli"

    def __post_init__(self) -> None:
        must = "be a number from 0 to 1, or one per feature"
        object.__setattr__(self, "probability", _numbers(self.probability, "probability", must, lambda p: 0 <= p <= 1))

    @property
    def name(self) -> str:
        """The distribution as a text that can be read back."""
        return f"{self.family}({json.dumps(self.probability)})"

    @property
    def rings(self) -> str | None:
        """Whether masks of one size are equally likely, as those of "additions" are."""
        return None if isinstance(self.probability, tuple) else "additions"

    def __call__(self, selected: Any, radius: Any = None) -> Neighborhood:
        from holdfast.distributions.weighted import EqualOdds, WeightedSets  # few questions are about such masks

        if not isinstance(self.probability, tuple):
            return EqualOdds(selected, radius, _exact(self.probability), self.name)
        odds = [None if p == 1 else _exact(p) / (1 - _exact(p)) for p in self.probability]
        return WeightedSets(selected, radius, odds, self.name)


@dataclass(frozen=True)
class Weighted:
    """Sets of other features are revealed, each with a probability proportional to the product of its weights.

    All weights 1 and a radius are ``"additions"``; weights p / (1 - p) and no radius are ``Bernoulli``.

    Parameters
    ----------
    weights : sequence of float (n_features,)
        At least 0; those of selected features do not count.
    radius : int, optional
        Most features to reveal, where the verb is not given another.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function
    >>> from holdfast.distributions import Weighted
    >>> model = mask_function(lambda masks: ~masks[:, 3], n_features=4)
    >>> certify(model, [0], neighborhood=Weighted([1, 1, 1, 2], radius=1), rng=0).rate
    0.6
    """

    weights: Any
    radius: int | None = None
    family: ClassVar[str] = "weighted"
    rings: ClassVar[None] = None

    def __post_init__(self) -> None:
        must = "be numbers ≥ 0, one per feature"
        weights = _numbers(self.weights, "weights", must, lambda weight: 0 <= weight < math.inf)
        if not isinstance(weights, tuple):
            raise InvalidTypeError(argument="weights", must=must, got=shown(self.weights))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "radius", None if self.radius is None else check_whole(self.radius, "radius"))

    @property
    def name(self) -> str:
        """The distribution as a text that can be read back; the radius is told beside it."""
        return f"{self.family}({json.dumps(self.weights)})"

    def __call__(self, selected: Any, radius: Any = None) -> Neighborhood:
        from holdfast.distributions.weighted import WeightedSets

        if None not in (radius, self.radius) and check_whole(radius, "radius") > (self.radius or 0):
            must = f"be at most {self.radius}, the radius of the neighbourhood, or left out"
            raise InvalidValueError(argument="radius", must=must, got=shown(radius))
        limit = self.radius if radius is None else radius
        return WeightedSets(selected, limit, [_exact(weight) for weight in self.weights], self.name)


@dataclass(frozen=True)
class Grouped:
    """Features come in groups within groups: up to a radius of nodes of a tree are revealed, none within another.

    All choices of nodes are equally likely. A node is a feature or a group of them; the outermost list is none, and
    features that are in no group are never revealed. Groups without hidden features are left out, and a group with
    one remaining child is that child.

    Parameters
    ----------
    tree : nested lists of int
        Groups of features and groups, such as [[0, 1], [2, [3, 4]]].

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.distributions import Grouped
    >>> nearby = Grouped([[0, 1], [2, 3]])(np.array([True, False, False, False]), 1)
    >>> [np.flatnonzero(mask).tolist() for mask in next(nearby.enumerate(9))]
    [[0], [0, 1], [0, 2, 3], [0, 2], [0, 3]]
    """

    tree: Any
    family: ClassVar[str] = "grouped"
    rings: ClassVar[None] = None

    def __post_init__(self) -> None:
        must = "be nested lists of features, such as [[0, 1], [2, 3]], each of them once"
        features: list[int] = []

        def frozen(part: Any, depth: int) -> Any:
            if depth and is_number(part):
                features.append(check_whole(part, "tree"))
                return features[-1]
            nested = part.tolist() if isinstance(part, np.ndarray) else part
            if not isinstance(nested, (list, tuple)) or depth > _MOST_DEPTH:
                raise InvalidTypeError(argument="tree", must=must, got=shown(part))
            children = [frozen(child, depth + 1) for child in nested]
            return tuple(sorted(children, key=_first_feature))  # their order says nothing, and must not name draws

        object.__setattr__(self, "tree", frozen(self.tree, 0))
        if not 0 < len(features) <= _MOST_FEATURES or len(set(features)) < len(features):
            raise InvalidValueError(argument="tree", must=f"{must}, at most {_MOST_FEATURES}", got=shown(self.tree))

    @property
    def name(self) -> str:
        """The distribution as a text that can be read back."""
        return f"{self.family}({json.dumps(self.tree)})"

    def __call__(self, selected: Any, radius: Any = None) -> Neighborhood:
        from holdfast.distributions.grouped import GroupChoices

        return GroupChoices(selected, radius, self.tree, self.name)


UNEQUAL = ("bernoulli(", "weighted(", OWN)
"""How the names of distributions begin whose masks need not be equally likely."""

_DISTRIBUTIONS: dict[str, type[Any]] = {"bernoulli": Bernoulli, "weighted": Weighted, "grouped": Grouped}

_EXAMPLES = {"bernoulli": "bernoulli(0.3)", "weighted": "weighted([1, 2, 0.5])", "grouped": "grouped([[0, 1], [2, 3]])"}

_MUST = f"be one of {', '.join(NEIGHBORHOODS)}, bernoulli(p), weighted([…]), grouped([…]) or an object with `sample`"


def as_neighborhood(value: Any, name: str = "neighborhood") -> Distribution:
    """The distribution that a name, a text such as "bernoulli(0.3)" or an object stands for.

    Examples
    --------
    >>> as_neighborhood("bernoulli(0.30)").name
    'bernoulli(0.3)'
    """
    if isinstance(value, str) and value in NEIGHBORHOODS:
        return cast(Distribution, NEIGHBORHOODS[value])
    if isinstance(value, (*_DISTRIBUTIONS.values(), OwnDistribution)):
        return cast(Distribution, value)
    is_object = not isinstance(value, type)
    if is_object and hasattr(value, "effective_radius"):
        must, hint = "not be bound to an explanation yet", "Pass its name and `radius`."
        raise InvalidTypeError(argument=name, must=must, got=type(value).__name__, hint=hint)
    if is_object and callable(getattr(value, "sample", None)):
        return OwnDistribution(value)
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        kind = InvalidValueError if isinstance(value, str) else InvalidTypeError
        raise kind(argument=name, must=_MUST, got=shown(value), hint=_hint(value))
    try:
        numbers = json.loads(match[2])
    except (ValueError, RecursionError) as error:
        must = f"have numbers in the brackets, such as {_EXAMPLES[match[1]]!r}"
        raise InvalidValueError(argument=name, must=must, got=shown(value)) from error
    try:
        return cast(Distribution, _DISTRIBUTIONS[match[1]](numbers))
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"cannot be {shown(value)}: {error}", argument=name) from error


def _hint(value: Any) -> str | None:
    """What a wrong neighbourhood may have been meant to be."""
    if isinstance(value, str):
        word, bracket, numbers = value.strip().partition("(")
        hint = did_you_mean(word, [*NEIGHBORHOODS, *_DISTRIBUTIONS])
        meant = next((family for family in _DISTRIBUTIONS if hint is not None and repr(family) in hint), None)
        if meant is None:
            return hint
        return f"Did you mean {f'{meant}({numbers}' if bracket else _EXAMPLES[meant]!r}?"
    if isinstance(value, type):
        own = {kind: f"hf.distributions.{kind.__name__}(…)" for kind in _DISTRIBUTIONS.values()}
        own |= {kind: repr(name) for name, kind in NEIGHBORHOODS.items()}
        return f"Use {own.get(value, 'an object of the class')}."
    if isinstance(value, (int, float, list, tuple, np.ndarray, np.number)) or hasattr(value, "to_numpy"):
        return "Use hf.distributions.Bernoulli(…), or hf.distributions.Weighted(…) for weights."
    return None


def check_distribution_name(name: str) -> None:
    """Raise unless a distribution is named as it names itself; a distribution of the user's own may have any name."""
    if not name.startswith(OWN) and as_neighborhood(name).name != name:
        raise InvalidValueError(
            argument="neighborhood", must="be the name of a distribution, exactly as it prints it", got=shown(name)
        )


def _first_feature(node: Any) -> float:
    """The feature that a node of a tree begins with."""
    while isinstance(node, tuple) and node:
        node = node[0]
    return math.inf if isinstance(node, tuple) else float(node)


def _numbers(value: Any, name: str, must: str, holds: Callable[[Any], bool]) -> Any:
    """A number, or a tuple of numbers, as Python writes them."""
    array = value.to_numpy() if hasattr(value, "to_numpy") else value
    nested = (list(array) if array.ndim else array[()]) if isinstance(array, np.ndarray) else array
    if isinstance(nested, (list, tuple)) and nested:
        return tuple(_plain(check_number(number, name, must, holds)) for number in nested)
    return _plain(check_number(nested, name, must, holds))


def _plain(number: Any) -> int | float:
    """As Python holds it; of NumPy's shorter floats what they say, so that 0.3 of 32 bits is 0.3."""
    if isinstance(number, (int, np.integer)):
        return int(number)
    return float(str(number)) if isinstance(number, np.floating) else float(number)


def _exact(number: int | float) -> Fraction:
    """The fraction that the digits of a number say: 0.1 is 1/10."""
    return Fraction(repr(number))

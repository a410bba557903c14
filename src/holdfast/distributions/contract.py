"""A neighbourhood, most of all one of the user's own → whether it keeps what every neighbourhood must."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.distributions.distribution import as_neighborhood
from holdfast.distributions.own import OwnMasks, check_draws
from holdfast.errors import InvalidValueError
from holdfast.neighborhood import NEIGHBORHOODS, Neighborhood
from holdfast.types import Mask, Masks
from holdfast.validation import check_size, check_whole
from holdfast.words import few_words, paragraph

_FALSE_ALARMS = 1e-6
"""How often, at most, a true neighbourhood is refused by the comparison of its draws with its list."""

_DRAWS, _MOST_MASKS = 20_000, 4096


@dataclass(frozen=True)
class NeighborhoodCheck:
    """What was found about a neighbourhood that keeps its contract.

    Attributes
    ----------
    name : str
        As certificates name it.
    n_masks : tuple of int or None
        Masks that it lists, for each explanation tried; None for one of which it lists none, or too many to compare.
    removes : bool
        Whether it hides selected features, too.
    """

    name: str
    n_masks: tuple[int | None, ...]
    removes: bool

    def __str__(self) -> str:
        listed, name = sum(n is not None for n in self.n_masks), few_words(self.name)
        hides = "may hide selected features" if self.removes else "keeps all selected features"
        if not listed:
            return f"{name} {hides}; its draws have the right form, but it has no list to compare them with."
        return f"{name} {hides}; its draws agree with its list for {listed} of {len(self.n_masks)} explanations."

    def explain(self) -> str:
        """What was checked and what was not, in plain words."""
        return paragraph(
            f"Does {few_words(self.name)} keep what certificates rest on?",
            "It was bound to an explanation without features, to one with all, and to two between.",
            "Its draws were checked for shape, for repetition and for being cut into batches.",
            "Where it lists few enough masks, every count was compared with its binomial distribution.",
            "A neighbourhood that keeps its contract is refused with probability at most one in a million.",
            "That draws are independent of each other was not shown, and no model was called.",
        )


def check_neighborhood(neighborhood: Any, *, n_features: int = 6, radius: int | None = None) -> NeighborhoodCheck:
    """Check that a neighbourhood keeps what certificates rest on; raise an error that says what it breaks.

    It is bound to an explanation without features, to one with all, and to two between. Its draws must be Boolean masks
    of the right shape, the same for the same random numbers, and other than the ones before for the next. They must not
    depend on how they are cut into batches. If it lists its masks, draws must be among them, and as frequent as it
    says: every count is compared with its binomial distribution, so that a neighbourhood which keeps its contract is
    refused with probability at most one in a million. That draws are independent of each other is not shown.

    Parameters
    ----------
    neighborhood : str or object
        As the verbs take it.
    n_features : int
        Of the explanations tried. Choose it so that few masks are listed.
    radius : int, optional
        For neighbourhoods that need one.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.distributions import check_neighborhood
    >>> class Neighbours:
    ...     "One other feature is revealed."
    ...     name = "one more"
    ...     def sample(self, selected, n, rng):
    ...         masks, hidden = np.tile(selected, (n, 1)), np.flatnonzero(~selected)
    ...         if len(hidden):
    ...             masks[np.arange(n), rng.choice(hidden, n)] = True
    ...         return masks
    >>> print(check_neighborhood(Neighbours()))  # doctest: +NORMALIZE_WHITESPACE
    own law one more keeps all selected features; its draws have the right form, but it has no list to compare
    them with.
    """
    distribution, n = as_neighborhood(neighborhood), check_size(n_features, "n_features", most=10_000)
    limit = None if radius is None else check_whole(radius, "radius")
    if distribution.name in NEIGHBORHOODS and limit is None:
        limit = n
    explanations = [np.arange(n) < size for size in (0, -(-n // 3), n - 1, n)]
    results = [_check_bound(distribution(selected, limit), len(explanations)) for selected in explanations]
    n_masks, hides = zip(*results, strict=True)
    return NeighborhoodCheck(distribution.name, n_masks, any(hides))


def _check_bound(nearby: Neighborhood, n_checks: int) -> tuple[int | None, bool]:
    """How many masks one explanation has, if they are listed, and whether selected features are hidden."""
    about = f"for the explanation {np.flatnonzero(nearby.selected).tolist()}"
    masks = check_draws(nearby, (1, 7, _DRAWS - 8), f" {about}")
    n_masks = None
    if not nearby.is_larger_than(_MOST_MASKS):
        n_masks = nearby.size
        _compare(nearby, masks, n_checks, about)
        if isinstance(nearby, OwnMasks) and nearby.stated_size not in (None, n_masks):
            must = f"have `size` = {n_masks}, the length of its list, {about}"
            raise InvalidValueError(argument="neighborhood", must=must, got=nearby.stated_size)
    elif len(np.unique(masks, axis=0)) > 1 and np.array_equal(nearby.sample(_DRAWS, np.random.default_rng(1)), masks):
        raise InvalidValueError(
            argument="neighborhood", must=f"draw different masks from different random numbers {about}"
        )
    return n_masks, bool((nearby.selected & ~masks).any())


def _compare(nearby: Neighborhood, masks: Masks, n_checks: int, about: str) -> None:
    """Raise unless every mask that is listed was drawn about as often as its probability says, and no other was."""
    from scipy.special import bdtr, bdtrc

    chances: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for part in nearby.enumerate(1024):
        for mask, mass in zip(part, nearby.masses(part), strict=True):
            chances[mask.tobytes()] += mass
    drawn, total = Counter(mask.tobytes() for mask in masks), sum(chances.values())
    for bits, count in drawn.items():
        if bits not in chances:
            must = f"list every mask that it draws {about}"
            raise InvalidValueError(argument="neighborhood", must=must, got=f"{_features(bits)}, drawn {count} times")
    risk = _FALSE_ALARMS / (2 * len(chances) * n_checks)
    for bits, mass in chances.items():
        chance, count = float(mass / total), drawn[bits]
        fewer, more = bdtr(count, len(masks), chance), bdtrc(count - 1, len(masks), chance) if count else 1.0
        if min(fewer, more) < risk:
            must = f"draw each mask with its stated probability {about}: {_features(bits)} with {chance:.3g}"
            raise InvalidValueError(argument="neighborhood", must=must, got=f"{count} of {len(masks)} draws")


def _features(mask: bytes) -> list[int]:
    shown: Mask = np.frombuffer(mask, dtype=bool)
    features: list[int] = np.flatnonzero(shown).tolist()
    return features

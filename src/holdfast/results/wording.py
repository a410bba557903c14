"""Neighbourhood, kind of rate and radius → the words for them, the same in every result."""

from __future__ import annotations

from typing import Any

NOT_RIGHT = "and does not say that the prediction is right"

_STABLE = 0.9
"""From this rate on an explanation that is predicted unlike its input may be called stably wrong."""

_DOINGS = {
    "additions": "Revealing {} more {}",
    "removals": "Hiding {} of the selected features",
    "swaps": "Trading {} selected for as many unselected features",
}
_COUNTS = {"uniform": "up to {}", "exactly": "exactly {}", "worst_size": "up to {}"}


def event(neighborhood: str, rate_kind: str, radius: int | str) -> str:
    """The change in words, such as 'Revealing up to 5 more features'."""
    features = "feature" if radius == 1 else "features"
    words = _DOINGS[neighborhood].format(_COUNTS[rate_kind].format(radius), features)
    return f"{words}, at the worst number of them," if rate_kind == "worst_size" else words


def same(prediction: Any, agree: str) -> str:
    """What is kept, in words: the prediction, and what counts as the same if it is not the usual."""
    return f"the prediction {prediction!r}" + ("" if agree == "same_top_class" else f" (as judged by {agree})")


def unlike(rate: float) -> str:
    """That the full input is predicted differently, and what may follow if the prediction is kept at this rate.

    Examples
    --------
    >>> unlike(0.2)
    'the full input is predicted differently'
    """
    follows = ", so the explanation may be stably wrong" if rate >= _STABLE else ""
    return f"the full input is predicted differently{follows}"


def calls(number: int) -> str:
    """What it cost, in words.

    Examples
    --------
    >>> calls(1), calls(1200)
    ('1 model call', '1200 model calls')
    """
    return f"{number} model call{'' if number == 1 else 's'}"


def repeats(number: int) -> str:
    """How a model was seen to be deterministic, in words that follow its calls.

    Examples
    --------
    >>> repeats(2), repeats(0)
    (', 2 of them repeated', ', the model assumed deterministic')
    """
    return f", {number} of them repeated" if number else ", the model assumed deterministic"


def lower_first(sentence: str) -> str:
    """The sentence as the continuation of another."""
    return sentence[0].lower() + sentence[1:]

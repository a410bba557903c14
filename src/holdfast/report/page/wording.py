"""Names and numbers → the words of the page, the same everywhere on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.bounds import Interval
from holdfast.results.rounding import outward

METHOD_LABELS = {
    "lime": "LIME",
    "shap": "SHAP",
    "integrated_gradients": "Integrated Gradients",
    "mfaba": "MFABA",
    "occlusion": "Occlusion",
    "random": "Random",
}


def method_label(name: str) -> str:
    """What a method is called on the page.

    Examples
    --------
    >>> method_label("lime"), method_label("my_own")
    ('LIME', 'my own')
    """
    return METHOD_LABELS.get(name, name.replace("_", " "))


def class_name(prediction: Any, classes: Sequence[str]) -> str | None:
    """The name of a predicted class, or what the model calls it; None for no class.

    Examples
    --------
    >>> class_name(1, ("bad", "good")), class_name(1, ()), class_name("spam", ()), class_name(None, ())
    ('good', '1', 'spam', None)
    """
    is_index = isinstance(prediction, int) and not isinstance(prediction, bool)
    if is_index and 0 <= prediction < len(classes):
        return str(classes[prediction])
    return None if prediction is None else str(prediction)


def with_classes(sentence: str, predictions: Iterable[Any], classes: Sequence[str]) -> str:
    """A sentence that knows classes by their numbers, and what these are called.

    Examples
    --------
    >>> with_classes("It changes 0 to 1.", (0, 1), ("bad", "good"))
    'It changes 0 to 1. Class 0 is “bad”. Class 1 is “good”.'
    >>> with_classes("It changes 'spam'.", ("spam", None), ())
    "It changes 'spam'."
    """
    named = ((one, class_name(one, classes)) for one in predictions if one is not None)
    told = dict.fromkeys(f"Class {one} is “{name}”." for one, name in named if name != str(one))
    return " ".join([sentence, *told])


def percent(share: float) -> str:
    """A share as a percentage, without a decimal that says nothing; all and nothing are said only of all and nothing.

    Examples
    --------
    >>> percent(0.5), percent(0.123), percent(0.9999), percent(0.0001), percent(1.0)
    ('50%', '12.3%', '>99.9%', '<0.1%', '100%')
    """
    if 0.9995 <= share < 1:
        return ">99.9%"
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}".removesuffix(".0") + "%"


def span(interval: Interval) -> str:
    """An interval of shares in words, rounded outwards: what is said never claims more than what is known.

    Examples
    --------
    >>> span(Interval(0.12349, 0.5671))
    '12.3% to 56.8%'
    """
    low, high = outward(interval, 3)
    return f"{percent(low)} to {percent(high)}"


def listed(parts: Iterable[str]) -> str:
    """Several things in a sentence.

    Examples
    --------
    >>> listed(["LIME", "SHAP", "Random"])
    'LIME, SHAP and Random'
    """
    *first, last = list(parts)
    return f"{', '.join(first)} and {last}" if first else last


def counted(count: int, word: str) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "input"), counted(1200, "input")
    ('1 input', '1,200 inputs')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def shortened(text: str, most: int = 80) -> str:
    """The beginning of a text on one line.

    Examples
    --------
    >>> shortened("a b  c", 80), shortened("abcdef", 4)
    ('a b c', 'abc…')
    """
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"

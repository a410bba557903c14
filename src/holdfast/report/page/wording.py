"""Names and numbers → the words of the page, the same everywhere on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.bounds import Interval

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


def percent(share: float) -> str:
    """A share as a percentage, without a decimal that says nothing.

    Examples
    --------
    >>> percent(0.5), percent(0.123)
    ('50%', '12.3%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def span(interval: Interval) -> str:
    """An interval of shares in words."""
    return f"{percent(interval.low)} to {percent(interval.high)}"


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

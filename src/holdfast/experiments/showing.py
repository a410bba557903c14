"""One explained input → panels: a picture of it, its words, or its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.attribution.task import bare_model
from holdfast.experiments.opening import Explained
from holdfast.report.figures.pictures import plot_example_image
from holdfast.report.figures.texts import plot_example_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def show(explained: Explained, selected: Any = None, *, added: Any = (), title: str = "", ax: Axes) -> Axes:
    """Draw an input, or what an explanation shows of it, with additions if there are any."""
    model = bare_model(explained.model)
    if explained.opened.subject.kind == "image":
        return plot_example_image(model.elements, selected, groups=model.groups, added=added, title=title, ax=ax)
    words = explained.names or [f"feature {i}" for i in range(explained.model.n_features)]
    return plot_example_text([readable(word) for word in words], selected, added=added, title=title, ax=ax)


def readable(word: str) -> str:
    """A token without the marks of its tokenizer.

    Examples
    --------
    >>> readable("Ġgood"), readable("##ly")
    ('good', 'ly')
    """
    return word.removeprefix("Ġ").removeprefix("▁").removeprefix("##") or word


def name_features(explained: Explained, features: Any) -> str:
    """Features in words: by name, or by number where a name says nothing."""
    names = explained.names
    if names is None or explained.opened.subject.kind == "image":
        return ", ".join(str(feature) for feature in features)
    return ", ".join(f"“{readable(names[feature])}”" for feature in features)

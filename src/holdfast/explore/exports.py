"""A view → the Python that repeats it, and a picture of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from holdfast import __version__
from holdfast.attribution.task import names_of
from holdfast.explore.entries import Entry
from holdfast.explore.questions import N_VOTES
from holdfast.explore.view import OWN, View
from holdfast.report.page.pictures import describe_input
from holdfast.types import Mask, MaskedModel

_SIZES = {"image": (3.4, 3.6), "text": (4.2, 1.8), "table": (4.6, 4.2)}
"""Of a picture, in inches."""

_DRAWING = threading.Lock()
"""Matplotlib draws for one thread at a time."""


def write_python(view: View, entry: Entry, **question: Any) -> str:
    """A script that makes the same explanation and prints the same certificate.

    Parameters
    ----------
    view, entry
        What is looked at.
    **question
        What ``certify`` is asked besides the seed.

    Examples
    --------
    >>> from holdfast.explore.entries import bundled_entries
    >>> entry = bundled_entries()[0]
    >>> code = write_python(View(entry.spec, 3), entry, radius=5)
    >>> print(code.splitlines()[-2])
    certificate = hf.certify(model, selected, radius=5, rng=0)
    """
    masking = {"features": entry.groups, "fill": entry.fill(view.fill).value}
    binding = {name: value for name, value in masking.items() if value is not None} | dict(entry.options)
    lines = [
        f'"""An explanation of input {view.input} of {_quoted(entry.data)} for {_quoted(entry.spec)}, '
        f'certified: written by `holdfast explore` {__version__}."""',
        "",
        *(["import numpy as np", ""] if view.method == OWN else []),
        "import holdfast as hf",
        "",
        f"inputs = hf.bind({', '.join([repr(entry.spec), repr(entry.data), *_keywords(binding)])})",
        f"model = inputs[{view.input}]",
        *_explanation(view),
        *_smoothing(view),
        f"certificate = hf.certify(model, selected, {', '.join([*_keywords(question), f'rng={view.seed}'])})",
        "print(certificate)",
    ]
    return "\n".join(lines) + "\n"


def _explanation(view: View) -> list[str]:
    if view.method == OWN:
        return [f"selected = np.isin(np.arange(model.n_features), {list(view.selected)})"]
    return [
        f"scores = hf.attribute(model, {view.method!r}, rng={view.seed})",
        f"selected = hf.top_fraction(scores, {view.fraction!r})",
    ]


def _smoothing(view: View) -> list[str]:
    if view.keep_probability == 1:
        return []
    return [f"model = hf.smooth(model, {view.keep_probability!r}, n_samples={N_VOTES}, rng={view.seed})"]


def _keywords(settings: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in settings.items()]


def _quoted(text: str) -> str:
    """A name inside the docstring of a script, which it must not end."""
    return repr(text).replace('"', "'").replace("\\", "/")


def draw_png(one: Any, bound: MaskedModel, selected: Mask, shown: Mask, *, title: str) -> bytes:
    """The input with what is shown of it: selected features in blue, added ones in orange, the rest hidden."""
    from holdfast.report.figures.style import make_panels, themed

    kept, added = selected & shown, np.flatnonzero(shown & ~selected)
    file = BytesIO()
    with _DRAWING:
        figure, panels = make_panels(1, 1, size=_SIZES[_kind(one, bound)])
        _draw(panels[0][0], one, bound, kept, [int(i) for i in added], title)
        with themed():
            figure.savefig(file, format="png", dpi=150, metadata={"Software": None})
    return file.getvalue()


def _draw(axes: Any, one: Any, bound: Any, kept: Mask, added: list[int], title: str) -> None:
    from holdfast.report.figures import plot_example_image, plot_example_text

    safe = title.replace("$", r"\$")
    if _kind(one, bound) == "image":
        plot_example_image(bound.elements, kept, groups=bound.groups, added=added, title=safe, ax=axes)
        return
    plot_example_text(_words(one, bound, len(kept)), kept, added=added, title=safe, ax=axes)


def _kind(one: Any, bound: Any) -> str:
    """An image as the model sees it, a text, or whatever else has features with names."""
    elements, groups = (np.asarray(getattr(bound, name, ())) for name in ("elements", "groups"))
    if elements.ndim == 3 and groups.ndim == 2:
        return "image"
    return "text" if isinstance(one, str) else "table"


def _words(one: Any, bound: MaskedModel, n_features: int) -> list[str]:
    """The features in words: those of a text, or the names and values of columns."""
    names = names_of(bound)
    if names is not None and isinstance(one, str):
        return list(names)
    picture = describe_input(one, bound, names, n_features=n_features)
    columns = picture.get("columns") or [[f"feature {i}", None] for i in range(n_features)]
    return [name if value is None else f"{name} = {value}" for name, value in columns]

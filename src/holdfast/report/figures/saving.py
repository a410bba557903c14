"""A figure → its files, each of which appears when it is complete and is the same for the same figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.atomic import replacing
from holdfast.report.figures.style import themed
from holdfast.validation import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KINDS: dict[str, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None}},
    "png": {"dpi": 150, "metadata": {"Software": None}},
}


@drawing
def save_figure(figure: Figure, stem: str | Path) -> tuple[Path, ...]:
    """Write a figure as ``<stem>.svg`` and ``<stem>.png``; returns both paths.

    Files hold neither dates nor random names: the same figure gives the same bytes.
    """
    paths = []
    for kind, settings in _KINDS.items():
        path = Path(stem).with_name(f"{Path(stem).name}.{kind}")
        with replacing(path) as unfinished, themed():
            figure.savefig(unfinished, format=kind, **settings)
        paths.append(path)
    return tuple(paths)

"""An input and a result about it → axes: what is selected, added and hidden of it, scores, radii that were tested."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.methods import Attribution
from holdfast.certification.certificate import Certificate
from holdfast.certification.comparison import Comparison
from holdfast.certification.curve import CertificateCurve
from holdfast.certification.radius import RadiusCertificate
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.report.card import feature_words, is_image
from holdfast.report.figures.curves import plot_curves
from holdfast.report.figures.style import COLOURS, as_axes, bare, entitle, literal, tidy
from holdfast.types import Mask
from holdfast.validation import check_numbers, drawing
from holdfast.witness import Witness
from holdfast.words import method_label, quoted, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIDDEN = (0.89, 0.92, 0.97)
"""The colour of what is hidden: a pale blue that no grey image has."""

_WIDTH, _N_LINES = 46, 6
"""Letters per line, and lines that a panel has room for; longer texts are set more closely."""

_MOST_BARS = 20


def plot_example(
    value: Any,
    bound: Any,
    selected: Any = None,
    *,
    added: Collection[int] = (),
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw an input of any kind, or what an explanation shows of it, as a model that it is bound to sees it."""
    if is_image(bound):
        return plot_example_image(bound.elements, selected, groups=bound.groups, added=added, title=title, ax=ax)
    words = [readable_token(word) for word in feature_words(value, bound)]
    return plot_example_text(words, selected, added=added, title=title, ax=ax)


def readable_token(word: str) -> str:
    """A token without the marks of its tokenizer: good of Ġgood, ly of ##ly."""
    return word.removeprefix("Ġ").removeprefix("▁").removeprefix("##") or word


@drawing
def plot_example_image(
    image: Any, selected: Any = None, *, groups: Any = None, added: Any = (), title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw an image, or what an explanation shows of it.

    Parameters
    ----------
    image : array (height, width), or (height, width, channels)
        Stretched from its darkest to its brightest value.
    selected : Boolean array (n_features,), optional
        The explanation: its features are outlined in blue, all others hidden. The whole image if left out.
    groups : whole numbers (height, width)
        The feature each pixel belongs to; -1 for none. Needed with ``selected``.
    added : sequence of int
        Features that were revealed besides: shown, outlined in orange and hatched.

    Examples
    --------
    >>> picture, features = np.eye(2), np.array([[0, 1], [2, 3]])
    >>> drawn = plot_example_image(picture, np.array([True, False, False, True]), groups=features, added=[1])
    >>> len(drawn.patches)
    1
    """
    axes = as_axes(ax, size=(2.4, 2.6))
    values = check_numbers(image, "image")
    values = values[..., None] if values.ndim == 2 else values
    low, high = values.min(), values.max()
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    pixels = scaled[..., :3] if scaled.shape[2] >= 3 else np.repeat(scaled[..., :1], 3, axis=2)  # grey: thrice
    if selected is None:
        axes.imshow(pixels, interpolation="nearest", vmin=0, vmax=1)
        return bare(axes, title)
    features, shape = np.asarray(-1 if groups is None else groups), pixels.shape[:2]
    if features.shape != shape:
        must = f"have the image's height and width, {shape}"
        raise InvalidValueError(argument="groups", must=must, got=features.shape)
    chosen = np.flatnonzero(np.asarray(selected, dtype=bool))
    seen = np.isin(features, [*chosen, *added]) | (features < 0)
    axes.imshow(np.where(seen[..., None], pixels, HIDDEN), interpolation="nearest", vmin=0, vmax=1)
    _outline(axes, np.isin(features, chosen), COLOURS["blue"])
    if len(added):
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        fresh, orange = np.isin(features, list(added)), COLOURS["orange"]
        _outline(axes, fresh, orange)
        # Stripes, so that additions are not told by colour alone; one path along the edges of all their pixels.
        edges = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) - 0.5
        corners = (np.argwhere(fresh)[:, None, ::-1] + edges).reshape(-1, 2)
        moves = np.tile([Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY], int(fresh.sum()))
        axes.add_patch(PathPatch(Path(corners, moves), fill=False, hatch="///", ec=orange, lw=0, alpha=0.9))
    return bare(axes, title)


@drawing
def plot_example_text(
    words: Sequence[str], selected: Any = None, *, added: Collection[int] = (), title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw the features of a text, or what an explanation shows of them.

    Parameters
    ----------
    words : sequence of n_features str
        The features in reading order.
    selected : Boolean array (n_features,), optional
        The explanation: its features are framed in blue, others are pale. All are plain if left out.
    added : collection of int
        Features that were revealed besides: framed in orange, with broken lines.

    Examples
    --------
    >>> axes = plot_example_text(["not", "bad"], [False, True], added=[0])
    >>> [text.get_text() for text in axes.texts]
    ['not', 'bad']
    """
    axes = as_axes(ax, size=(4.2, 1.6))
    shown = np.ones(len(words), dtype=bool) if selected is None else np.asarray(selected, dtype=bool)
    column = line = 0
    for place, word in enumerate(words):
        if column and column + len(word) > _WIDTH:
            column, line = 0, line + 1
        look: dict[str, Any] = {"color": COLOURS["black"] if shown[place] or place in added else "#B0B0B0"}
        if selected is not None and (shown[place] or place in added):
            edge, style, face = ("orange", "--", "#FDF0D5") if place in added else ("blue", "-", "#DCEBF5")
            look["bbox"] = {"boxstyle": "round,pad=0.18", "ec": COLOURS[edge], "fc": face, "ls": style, "lw": 1.0}
        axes.text(column, line, literal(word), family="DejaVu Sans Mono", fontsize=7.5, va="center", **look)
        column += len(word) + 2
    axes.set_xlim(-1, _WIDTH + 2)
    spare = max(0, _N_LINES - line) / 2
    axes.set_ylim(line + 1 + spare, -1 - spare)
    return bare(axes, title)


def _outline(axes: Axes, where: NDArray[np.bool_], colour: str) -> None:
    """Lines along every edge between a pixel of the set and one outside."""
    padded = np.pad(where, 1)
    drawn: dict[str, Any] = {"color": colour, "lw": 1.6, "clip_on": False}  # a line at the border is drawn in full
    across = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    down = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    axes.hlines(across[:, 0] - 0.5, across[:, 1] - 0.5, across[:, 1] + 0.5, **drawn)
    axes.vlines(down[:, 1] - 0.5, down[:, 0] - 0.5, down[:, 0] + 0.5, **drawn)


@drawing
def plot_result(result: Any, value: Any, bound: Any, *, ax: Axes | None = None) -> Axes:
    """Draw what a verb found about an input.

    Curves and comparisons are lines with bands; scores are bars; tested radii are points against the rate that was
    asked for; a certificate or a witness is the input with its explanation, and with the features that changed the
    prediction, if any were found.

    Parameters
    ----------
    result : StabilityCurve, ProbabilityCurve, Comparison, Attribution, RadiusCertificate, Certificate or Witness
        What is drawn.
    value : object
        The input: an image, a text or a row.
    bound : MaskedModel
        The model that it is bound to.
    """
    if isinstance(result, (CertificateCurve, Comparison)):
        return plot_curves(result, ax=ax)
    if isinstance(result, Attribution):
        return plot_scores(result, ax=ax)
    if isinstance(result, RadiusCertificate):
        return plot_trail(result, ax=ax)
    if isinstance(result, Witness):
        before = quoted(result.original_prediction, result.original_name)
        after = f" becomes {quoted(result.prediction, result.prediction_name)}" if result.found else ": no change found"
        return _plot_shown(value, bound, result.selected, result.added, f"{before}{after}", ax)
    if isinstance(result, Certificate):
        other = result.counterexample
        added = () if other is None else np.flatnonzero(other & ~result.selected).tolist()
        title = f"{quoted(result.prediction, result.prediction_name)}, kept in {span(result.interval)} of cases"
        return _plot_shown(value, bound, result.selected, added, title, ax)
    must = "be a certificate, a curve, a comparison, scores or a witness"
    raise InvalidTypeError(argument="result", must=must, got=type(result).__name__)


def _plot_shown(value: Any, bound: Any, selected: Mask, added: Sequence[int], title: str, ax: Axes | None) -> Axes:
    """What was shown of the input; a figure of its own has room for all lines of words."""
    axes = plot_example(value, bound, selected, added=added, ax=ax)
    figure: Any = axes.figure
    if ax is None and not axes.images:
        bottom, top = axes.get_ylim()
        figure.set_figheight(max(figure.get_figheight(), 0.2 * abs(bottom - top) + 0.3))
    entitle(axes, title)
    return axes


def plot_scores(result: Attribution, *, ax: Axes | None = None) -> Axes:
    """Draw scores as bars, the largest in size first, with two standard errors where they are known."""
    order = np.argsort(-np.abs(result.scores), kind="stable")[:_MOST_BARS]
    names = result.feature_names or [f"feature {number}" for number in range(result.n_features)]
    axes = as_axes(ax, size=(4.6, 0.9 + 0.2 * len(order)))
    scores = result.scores[order]
    errors = None if result.errors is None or not result.errors.any() else 2 * result.errors[order]
    colours = [COLOURS["blue"] if score >= 0 else COLOURS["orange"] for score in scores]
    axes.barh(range(len(order)), scores, xerr=errors, color=colours, ecolor=COLOURS["grey"], height=0.7)
    axes.set_yticks(range(len(order)), [literal(names[feature]) for feature in order])
    axes.invert_yaxis()
    axes.axvline(0, color=COLOURS["black"], lw=0.8)
    what = "score" if result.target is None else f"score for {quoted(result.target, result.target_name)}"
    left_out = f", the {len(order)} largest of {result.n_features}" if len(order) < result.n_features else ""
    return tidy(axes, x=what, title=f"{method_label(result.method)}{left_out}", grid="x")


def plot_trail(result: RadiusCertificate, *, ax: Axes | None = None) -> Axes:
    """Draw the share of agreeing masks at each tested radius: certified, or not, against the rate that was asked."""
    axes = as_axes(ax)
    axes.axhline(result.min_rate, color=COLOURS["grey"], lw=1, ls="--")
    for label, marker, colour in (("certified", "o", "blue"), ("not certified", "x", "orange")):
        steps = [step for step in result.trail if bool(step.answer) is (label == "certified")]
        if steps:
            rates = [step.n_agreed / step.n_evaluated for step in steps]
            radii = [step.radius for step in steps]
            axes.plot(radii, rates, ls="", marker=marker, color=COLOURS[colour], label=label, clip_on=False)
    tidy(axes, x="radius (features added)", y="share that agreed", whole_x=True)
    entitle(axes, f"rate ≥ {result.min_rate} certified up to radius {result.radius}")
    axes.set_ylim(-0.02, 1.03)
    axes.legend(frameon=False, loc="lower left")
    return axes

"""An input and a result about it → axes: what is selected, added and hidden of it, scores, radii that were tested."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.attribution.methods import Attribution
from holdfast.certification.certificate import Certificate, known_rate
from holdfast.certification.citations import CitationCertificate
from holdfast.certification.comparison import Comparison
from holdfast.certification.curve import CertificateCurve
from holdfast.certification.hard import HardCertificate
from holdfast.certification.mean_curve import MeanCurve
from holdfast.certification.radius import RadiusCertificate
from holdfast.completions import CompletedModel
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.masking.image.models import ResampledImage
from holdfast.report.card import feature_cells, is_image
from holdfast.report.figures.curves import plot_accuracy, plot_curves, plot_sizes
from holdfast.report.figures.style import COLOURS, as_axes, bare, entitle, literal, shown_by_pyplot, themed, tidy
from holdfast.smoothing import SmoothedAccuracy, SmoothedModel
from holdfast.study.calibration import StudyCalibration
from holdfast.study.summary import StudySummary
from holdfast.types import MaskedModel
from holdfast.validation import check_numbers, drawing
from holdfast.witness import Witness
from holdfast.words import method_label, percent, quoted, shares, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIDDEN = (0.89, 0.92, 0.97)
"""The colour of what is hidden: a pale blue that no grey image has."""

_WIDTH, _N_LINES = 46, 6
"""Letters per line, and lines that a panel has room for; longer texts are set more closely."""

_MOST_BARS = 20
_MOST_ROWS, _ROWS_PER_BLOCK, _BLOCK = 40, 16, 44
"""Columns of a table that are listed, those that stand below each other, and the width of a list, in letters."""

_PALE = "#757575"
"""What is hidden, in words: legible on white and on black."""

_LOOKS = {
    "selected": ("blue", "-", "#DCEBF5", ""),
    "added": ("orange", "--", "#FDF0D5", "///"),
    "removed": ("vermilion", ":", "#FBE3D6", "xxx"),
}
"""Edge, lines, face and hatch of features: they are told apart by more than colour."""


def plot_example(
    value: Any,
    bound: Any,
    selected: Any = None,
    *,
    added: Collection[int] = (),
    removed: Collection[int] = (),
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw an input of any kind, or what an explanation shows of it, as a model that it is bound to sees it."""
    changed: dict[str, Any] = {"added": added, "removed": removed, "title": title, "ax": ax}
    if is_image(bound):
        return plot_example_image(bound.elements, selected, groups=bound.groups, **changed)
    cells = feature_cells(value, bound)
    if any(cell is not None for _, cell in cells):
        return plot_example_row(cells, selected, **changed)
    return plot_example_text([readable_token(name) for name, _ in cells], selected, **changed)


def readable_token(word: str) -> str:
    """A token without the marks of its tokenizer: good of Ġgood, ly of ##ly."""
    return word.removeprefix("Ġ").removeprefix("▁").removeprefix("##") or word


@drawing
def plot_example_image(
    image: Any,
    selected: Any = None,
    *,
    groups: Any = None,
    added: Any = (),
    removed: Any = (),
    title: str = "",
    ax: Axes | None = None,
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
    removed : sequence of int
        Features of the explanation that were hidden: outlined in vermilion and crossed.

    Examples
    --------
    >>> picture, features = np.eye(2), np.array([[0, 1], [2, 3]])
    >>> drawn = plot_example_image(picture, np.array([True, False, False, True]), groups=features, added=[1])
    >>> len(drawn.patches)
    1
    """
    axes = as_axes(ax, size=(2.6, 3.1))
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
    for name, changed in (("added", added), ("removed", removed)):
        if len(changed) == 0:
            continue
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        where, (colour, _, _, hatch) = np.isin(features, list(changed)), _LOOKS[name]
        _outline(axes, where, COLOURS[colour])
        # Stripes, so that changes are not told by colour alone; one path along the edges of all their pixels.
        edges = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) - 0.5
        corners = (np.argwhere(where)[:, None, ::-1] + edges).reshape(-1, 2)
        moves = np.tile([Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY], int(where.sum()))
        axes.add_patch(PathPatch(Path(corners, moves), fill=False, hatch=hatch, ec=COLOURS[colour], lw=0, alpha=0.9))
    return bare(axes, title)


@drawing
def plot_example_text(
    words: Sequence[str],
    selected: Any = None,
    *,
    added: Collection[int] = (),
    removed: Collection[int] = (),
    title: str = "",
    ax: Axes | None = None,
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
    removed : collection of int
        Features of the explanation that were hidden: framed in vermilion, with dotted lines.

    Examples
    --------
    >>> axes = plot_example_text(["not", "bad"], [False, True], added=[0])
    >>> [text.get_text() for text in axes.texts]
    ['not', 'bad']
    """
    places, column, line = [], 0, 0
    for word in words:
        if column and column + len(word) > _WIDTH:
            column, line = 0, line + 1
        places.append((column, line))
        column += len(word) + 2
    # On a figure of its own there is room for every line.
    axes, size, spare = as_axes(ax, size=(4.0, 0.7 + 0.24 * (line + 2))), 9.0, 0.0
    if ax is not None:
        size, spare = 7.5, max(0, _N_LINES - line) / 2
    for place, word in enumerate(words):
        role = _role(place, selected, added, removed)
        look: dict[str, Any] = {} if selected is None else {"color": COLOURS["black"] if role else _PALE}
        if role is not None:
            edge, style, face, _ = _LOOKS[role]
            look["bbox"] = {"boxstyle": "round,pad=0.18", "ec": COLOURS[edge], "fc": face, "ls": style, "lw": 1.0}
        axes.text(*places[place], literal(word), family="DejaVu Sans Mono", fontsize=size, va="center", **look)
    axes.set_xlim(-1, _WIDTH + 2)
    axes.set_ylim(line + 1 + spare, -1 - spare)
    return bare(axes, title)


@drawing
def plot_example_row(
    cells: Sequence[tuple[str, str | None]],
    selected: Any = None,
    *,
    added: Collection[int] = (),
    removed: Collection[int] = (),
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the names and values of a row as a list, what an explanation selects of them on a ground of its own.

    Of many columns those that are selected, added or removed are listed, and the first of the others.
    """
    roles = [_role(place, selected, added, removed) for place in range(len(cells))]
    wanted = sorted(range(len(cells)), key=lambda place: (roles[place] is None, place))[:_MOST_ROWS]
    listed, n_blocks = sorted(wanted), -(-len(wanted) // _ROWS_PER_BLOCK)
    height = -(-len(listed) // n_blocks)
    axes = as_axes(ax, size=(2.7 * n_blocks, 0.45 + 0.19 * height))
    from matplotlib.patches import Rectangle

    for row, place in enumerate(listed):
        (name, cell), role, x, y = cells[place], roles[place], row // height * (_BLOCK + 3), row % height
        text: dict[str, Any] = {"va": "center", "fontsize": 7.5}
        if selected is not None:
            text["color"] = COLOURS["black"] if role else _PALE
        if role is not None:
            edge, style, face, _ = _LOOKS[role]
            look: dict[str, Any] = {"ec": COLOURS[edge], "fc": face, "ls": style, "lw": 1.0, "clip_on": False}
            axes.add_patch(Rectangle((x - 1, y - 0.44), _BLOCK + 2, 0.88, **look))
        axes.text(x, y, literal(shortened(name, 30)), **text)
        axes.text(x + _BLOCK, y, literal(shortened(cell or "", 14)), ha="right", **text)
    n_lines, n_others = height, len(cells) - len(listed)
    if n_others:
        n_lines += 1
        axes.text(0, height, f"and {n_others} other columns", va="center", fontsize=7.5, style="italic")
    axes.set(xlim=(-2, n_blocks * (_BLOCK + 3) - 1), ylim=(n_lines - 0.3, -0.7))
    return bare(axes, title)


def _role(place: int, selected: Any, added: Collection[int], removed: Collection[int]) -> str | None:
    """What a feature is to an explanation; None if it is hidden, or if there is no explanation."""
    if selected is None:
        return None
    return (
        "removed" if place in removed else "added" if place in added else "selected" if bool(selected[place]) else None
    )


def _outline(axes: Axes, where: NDArray[np.bool_], colour: str) -> None:
    """Lines along every edge between a pixel of the set and one outside."""
    padded = np.pad(where, 1)
    drawn: dict[str, Any] = {"color": colour, "lw": 1.6, "clip_on": False}  # a line at the border is drawn in full
    across = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    down = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    axes.hlines(across[:, 0] - 0.5, across[:, 1] - 0.5, across[:, 1] + 0.5, **drawn)
    axes.vlines(down[:, 1] - 0.5, down[:, 0] - 0.5, down[:, 0] + 0.5, **drawn)


@drawing
def draw_result(result: Any, ax: Axes | None) -> Axes:
    """Draw a result on these axes, or on a new figure of pyplot."""
    with themed(), shown_by_pyplot():
        return plot_result(result, None, None, ax=ax)


@drawing
def draw_explained(result: Any, model: Any, ax: Axes | None) -> Axes:
    """Draw the input of a result, which the model knows, on these axes, or on a new figure of pyplot."""
    about = result.sufficiency if isinstance(result, CitationCertificate) else result
    given = Evaluator(model)  # which refuses what is no model
    if given.n_features != len(about.selected):
        must = f"have {len(about.selected)} features, as the result has"
        raise InvalidValueError(argument="model", must=must, got=given.n_features)
    inputs = (about.provenance.input, given.provenance.input)
    if None not in inputs and len(set(inputs)) > 1:
        raise InvalidValueError(argument="model", must="be bound to the input of the result")
    with themed(), shown_by_pyplot():
        return plot_explained(result, None, input_model(model), ax=ax)


def input_model(model: Any) -> MaskedModel:
    """The model that knows its input, whatever remembers, smooths or completes it."""
    inner = {Evaluator: "model", CompletedModel: "model", SmoothedModel: "base", ResampledImage: "image"}
    while type(model) in inner:
        model = getattr(model, inner[type(model)])
    return model  # type: ignore[no-any-return]


@drawing
def plot_result(result: Any, value: Any, bound: Any, *, ax: Axes | None = None) -> Axes:
    """Draw what a verb found about an input.

    Curves, comparisons and summaries are lines with bands; scores are bars; tested radii are points against the rate
    that was asked for; a certificate or a witness is the input with its explanation, and with the features that
    changed the prediction, if any were found.

    Parameters
    ----------
    result : StabilityCurve, ProbabilityCurve, Comparison, MeanCurve, Attribution, RadiusCertificate, Certificate, …
        What is drawn.
    value : object
        The input: an image, a text or a row; None if ``bound`` knows it.
    bound : MaskedModel
        The model that it is bound to; None for what is not drawn on an input.
    """
    if isinstance(result, (CertificateCurve, Comparison, MeanCurve, StudySummary)):
        return plot_curves(result, ax=ax)
    if isinstance(result, SmoothedAccuracy):
        return plot_accuracy(result, ax=ax)
    if isinstance(result, StudyCalibration):
        return plot_sizes(result, ax=ax)
    if isinstance(result, Attribution):
        return plot_scores(result, ax=ax)
    if isinstance(result, RadiusCertificate):
        return plot_trail(result, ax=ax)
    if isinstance(result, (Certificate, HardCertificate, Witness, CitationCertificate)):
        return plot_explained(result, value, bound, ax=ax)
    must = "be a certificate, a curve, a comparison, scores or a witness"
    raise InvalidTypeError(argument="result", must=must, got=type(result).__name__)


def plot_explained(result: Any, value: Any, bound: Any, *, ax: Axes | None = None) -> Axes:
    """Draw an input with its explanation, and the nearest change of it that is known to change the prediction."""
    if isinstance(result, CitationCertificate):
        selected, other = result.cited, None if result.witness is None else result.witness.mask
    else:
        selected, other = result.selected, result.mask if isinstance(result, Witness) else result.counterexample
    changes = {"added": np.zeros(0, dtype=int), "removed": np.zeros(0, dtype=int)}
    if other is not None:
        changes = {"added": np.flatnonzero(other & ~selected), "removed": np.flatnonzero(selected & ~other)}
    axes = plot_example(value, bound, selected, **changes, ax=ax)  # type: ignore[arg-type]
    entitle(axes, _headline(result))
    from matplotlib.patches import Patch

    words = {"selected": "selected", "added": "added: another prediction", "removed": "hidden: another prediction"}
    if len(changes["added"]) and len(changes["removed"]):
        words |= {"added": "added", "removed": "hidden; both: another prediction"}
    looks = {name: _LOOKS[name] for name in words if name == "selected" or len(changes[name])}
    keys = [
        Patch(ec=COLOURS[edge], fc=face, ls=style, hatch=hatch, lw=1.0, label=words[name])
        for name, (edge, style, face, hatch) in looks.items()
    ]
    columns = 1 if axes.images else len(keys)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 0.3}
    axes.legend(handles=keys, **below, ncols=columns, frameon=False)
    return axes


def _headline(result: Any) -> str:
    """What a picture of an explanation says above it."""
    if isinstance(result, Witness):
        before = _predicted(result.original_prediction, result.original_name)
        after = f" becomes {quoted(result.prediction, result.prediction_name)}"
        return f"{before}{after if result.found else ': no change found'}"
    if isinstance(result, CitationCertificate):
        return f"{shortened(result.answer, 40)}, kept in {_share(result.sufficiency)} of cases"
    what = _predicted(result.prediction, result.prediction_name)
    if isinstance(result, RadiusCertificate):
        if not any(step.answer for step in result.trail):
            return f"{what}, at no radius certified to be kept"
        return f"{what}, kept in {result.stability().partition(' (')[0]} up to radius {result.radius}"
    if isinstance(result, Certificate):
        return f"{what}, kept in {_share(result)} of cases up to radius {result.effective_radius}"
    if not result.stable:
        return f"{what}, not always kept up to radius {result.effective_radius}"
    if result.method == "sampling":
        return f"{what}, kept by {result.n_evaluated} random masks up to radius {result.effective_radius}"
    return f"{what}, always kept up to radius {result.radius}"


def _predicted(prediction: Any, name: str | None) -> str:
    """A prediction at the head of a line: a number by itself would not say what it is."""
    said = quoted(prediction, name)
    return said if said[0] in "'\"" else f"prediction {said}"


def _share(certificate: Certificate) -> str:
    if certificate.exact and certificate.judge_errors is None:
        return percent(known_rate(certificate))
    return shares(certificate.true_interval)


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
    axes.axvline(0, color=axes.spines["left"].get_edgecolor(), lw=0.8)
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

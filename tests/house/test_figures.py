"""Figures take results, return axes, leave matplotlib's global state alone, and are the same files every time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

import holdfast as hf
from holdfast.attribution.methods import METHODS
from holdfast.bounds import Interval
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.report import figures
from holdfast.report.figures.curves import band_of
from holdfast.report.figures.style import METHOD_PLACES, legend_below, look_of
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study import run_study
from holdfast.study.summary import MeanAt, summarize_study
from tests.helpers.study_support import make_spec, write_texts


def model() -> Any:
    return hf.mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 9), n_features=12)


SELECTED = np.arange(12) < 3
OTHER = np.arange(12) > 8
CURVE = hf.certify_radii(model(), SELECTED, radii=[1, 3, 9], rng=0)


def test_a_curve_is_drawn_at_its_rates_with_its_intervals() -> None:
    curve = hf.certify_radii(model(), SELECTED, radii=[1, 3, 9], rng=0)
    axes = figures.plot_curves(curve)
    [line] = axes.lines
    assert list(line.get_xdata()) == [1, 3, 9]
    assert list(line.get_ydata()) == list(curve.rates)
    [band] = figures.lines_of(curve)
    assert band.low == tuple(one.interval.low for one in curve)


def test_comparisons_and_mappings_have_a_line_per_name() -> None:
    comparison = hf.compare(model(), {"lime": SELECTED, "mine": OTHER}, radii=[1, 3], rng=0)
    assert [line.label for line in figures.lines_of(comparison)] == ["LIME", "mine"]
    named = dict(zip(comparison.names, comparison.curves, strict=True))
    assert figures.lines_of(named) == figures.lines_of(comparison)


def test_lines_differ_by_marker_and_dashes_as_well_as_colour_and_the_first_lies_on_top() -> None:
    masks = {"lime": SELECTED, "shap": OTHER, "random": np.arange(12) % 4 == 0}
    comparison = hf.compare(model(), masks, radii=[1, 3], rng=0)
    axes = figures.plot_curves(comparison)
    assert len({line.get_marker() for line in axes.lines}) == len({line.get_color() for line in axes.lines}) == 3
    assert len({line.look.style for line in figures.lines_of(comparison)}) == 3
    heights = [line.get_zorder() for line in axes.lines]
    assert heights == sorted(heights, reverse=True)
    wide, thin = figures.lines_of({"a": CURVE, "b": CURVE})
    under, over = figures.plot_lines([replace(wide, width=4.0), thin]).lines
    assert under.get_zorder() == over.get_zorder(), "a wide line is drawn first to be seen under the others"


def test_a_mean_curve_is_drawn() -> None:
    curve = hf.mean_curve([lambda: (model(), SELECTED), lambda: (model(), OTHER)], radii=[1, 2], half_width=0.2, rng=0)
    [line] = figures.lines_of(curve)
    assert line.values == curve.rates
    assert figures.plot_curves(curve).get_xlabel().startswith("radius")


def test_a_study_has_a_line_per_group_named_by_what_varies(tmp_path: Path) -> None:
    spec = make_spec(write_texts(tmp_path / "texts", 3))
    run_study(spec, tmp_path / "a.db")
    summary = summarize_study(tmp_path / "a.db")
    lines = figures.lines_of(summary)
    assert len(lines) == len(summary.groups) == 8
    assert lines[0].label == "LIME, top 0.25, λ = 1"
    assert lines[0].values == tuple(one.mean for one in summary.groups[0].soft)


def test_axes_that_are_given_are_drawn_on_and_returned() -> None:
    figure, panels = figures.make_panels(1, 2)
    curve = hf.certify_radii(model(), SELECTED, radii=[1, 2], rng=0)
    assert figures.plot_curves(curve, ax=panels[0][1]) is panels[0][1]
    assert panels[0][1].figure is figure
    assert not panels[0][0].lines


def test_other_things_are_refused_with_what_is_taken() -> None:
    with pytest.raises(InvalidTypeError, match="`result` must be a StabilityCurve"):
        figures.plot_curves(3)
    with pytest.raises(InvalidValueError, match="`groups` must have the image's height and width"):
        figures.plot_example_image(np.eye(4), SELECTED, groups=np.zeros((2, 2)))


def test_accuracy_is_drawn_from_much_kept_to_little() -> None:
    found = SmoothedAccuracy((1.0, 0.5, 0.25), (9, 8, 2), 10, 64, 0.95, 640, 0)
    axes = figures.plot_accuracy(found)
    assert axes.xaxis_inverted()
    assert [text.get_text() for text in axes.texts] == ["20%", "80%", "90%"]
    both = figures.plot_accuracy({"a": found, "b": found})
    legend = both.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_only_what_is_selected_or_added_is_seen_of_a_picture() -> None:
    picture = np.linspace(0, 1, 16).reshape(4, 4)
    groups = np.arange(16).reshape(4, 4)
    selected = np.arange(16) < 2
    axes = figures.plot_example_image(picture, selected, groups=groups, added=[5])
    drawn = np.asarray(axes.images[0].get_array())
    hidden = np.isclose(drawn, (0.89, 0.92, 0.97)).all(axis=2)
    assert sorted(np.flatnonzero(~hidden)) == [0, 1, 5]


def test_a_text_shows_every_feature_and_frames_those_selected_and_added() -> None:
    axes = figures.plot_example_text(["a $5", "b", "c"], [True, False, False], added=[1])
    framed = [text.get_bbox_patch() is not None for text in axes.texts]
    assert framed == [True, True, False]


def test_files_are_the_same_for_the_same_figure(tmp_path: Path) -> None:
    curve = hf.certify_radii(model(), SELECTED, radii=[1, 2], rng=0)
    for name in ("a", "b"):
        figures.save_figure(figures.plot_curves({"lime": curve}).figure, tmp_path / name)
    for kind in ("svg", "png"):
        first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("a", "b"))
        assert first == second
        assert len(first) > 1000
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()


def test_drawing_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    figures.save_figure(figures.plot_times({"1": [0.2, 0.3], "5": [0.1, 0.1]}).figure, tmp_path / "times")
    assert dict(matplotlib.rcParams) == before


def test_a_line_knows_its_points() -> None:
    line = figures.Line.of(
        "a", [(1, 0.5, Interval(0.4, 0.6)), (2, 0.3, Interval(0.2, 0.4))], look=figures.LineStyle("k")
    )
    assert (line.radii, line.values, line.low, line.high) == ((1, 2), (0.5, 0.3), (0.4, 0.2), (0.6, 0.4))


def test_every_method_has_a_look_of_its_own() -> None:
    assert METHOD_PLACES.keys() == METHODS.keys()
    looks = {name: look_of(name) for name in METHOD_PLACES}
    # Eight colours are told apart by everybody: the methods of the paper differ in each respect, all in two.
    for kind in ("colour", "style", "marker"):
        paper = [looks[name] for name in ("lime", "shap", "integrated_gradients", "mfaba", "occlusion", "random")]
        assert len({getattr(look, kind) for look in paper}) == len(paper), kind
    for kind in ("style", "marker"):
        assert len({(look.colour, getattr(look, kind)) for look in looks.values()}) == len(looks), kind


def test_of_few_inputs_the_band_is_the_guaranteed_one() -> None:
    rough, sure = Interval(0.4, 0.6), Interval(0.1, 0.9)
    both = MeanAt(1, 0.5, rough, sure)
    assert (band_of(both, 19), band_of(both, 20)) == (sure, rough)
    assert band_of(MeanAt(1, 0.5, None, sure), 50) == sure


def test_a_note_stands_under_the_legend() -> None:
    figure, panels = figures.make_panels(1, 2)
    for axes in panels[0]:
        figures.plot_lines(figures.lines_of({"lime": CURVE, "shap": CURVE}), ax=axes, legend=False)
    legend_below(figure, panels[0][0], note="Bands: what they are.")
    figure.draw_without_rendering()
    [legend] = figure.legends
    note, entries = legend.get_title().get_window_extent(), [one.get_window_extent() for one in legend.get_texts()]
    assert legend.get_title().get_text() == "Bands: what they are."
    assert note.y0 >= 0
    assert note.y1 <= min(one.y0 for one in entries)
    assert max(one.y1 for one in entries) <= min(axes.get_tightbbox().y0 for axes in panels[0])


def test_a_note_without_a_legend_stands_under_the_panels() -> None:
    figure, panels = figures.make_panels(1, 1)
    figures.plot_curves(CURVE, ax=panels[0][0])
    legend_below(figure, panels[0][0], note="Bands: what they are.")
    figure.draw_without_rendering()
    [note] = [text for text in figure.texts if text.get_text() == "Bands: what they are."]
    assert note.get_window_extent().y1 <= panels[0][0].get_tightbbox().y0


@pytest.mark.parametrize("n_panels", [1, 2, 3])
def test_a_legend_and_its_note_are_no_wider_than_the_figure(n_panels: int) -> None:
    figure, panels = figures.make_panels(1, n_panels, size=(2.5, 2.3))
    lines = figures.lines_of({f"MuS at λ = {place}/8": CURVE for place in range(6)})
    figures.plot_lines(lines, ax=panels[0][0], legend=False)
    legend_below(figure, panels[0][0], note="Bands: " + "what they are, said at some length, " * 4)
    figure.draw_without_rendering()
    extent = figure.legends[0].get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= figure.bbox.width

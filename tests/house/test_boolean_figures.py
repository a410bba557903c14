"""Figures show the numbers they are given, on the axes they are given."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from holdfast import boolean
from holdfast.boolean import figures
from holdfast.errors import InvalidTypeError, InvalidValueError, MissingExtraError


def rendered(axes: Axes) -> int:
    """Bytes of the figure as a picture: it can be drawn without warnings."""
    picture = io.BytesIO()
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.savefig(picture, format="png")
    return len(picture.getvalue())


def test_contractions_are_masses_of_smoothed_spectra() -> None:
    c = np.random.default_rng(0).standard_normal((64, 2))
    amounts = (1.0, 0.7, 0.2)
    for operator, smooth in [("masking", boolean.mask_operator), ("flipping", boolean.flip_operator)]:
        for basis in ("fourier", "monotone"):
            result = figures.contraction(c, amounts, operator=operator, basis=basis)
            wanted = [boolean.degree_mass(smooth(c, amount, basis=basis)).mean(axis=1) for amount in amounts]
            assert np.allclose(result.mass, wanted)
            assert result.amounts == amounts


def test_masking_lifts_degree_0_and_at_small_lambda_degree_1_and_flipping_lifts_none() -> None:
    masking, flipping = figures.random_contractions()
    assert masking.amounts == (1.0, 0.9, 0.75, 0.5)
    assert np.allclose(flipping.mass[:, 0], flipping.mass[0, 0])
    assert (flipping.mass[1:, 1:] < flipping.mass[0, 1:]).all()
    lifted = (masking.mass > masking.mass[0]).tolist()
    rest = [False] * 11
    assert lifted == [[False] * 13, [True, False, *rest], [True, True, *rest], [True, True, *rest]]
    assert (masking.mass[1:, 2:] < masking.mass[0, 2:]).all()
    again, _ = figures.random_contractions()
    assert (again.mass == masking.mass).all()


def test_a_contraction_is_drawn_line_by_line() -> None:
    result = figures.contraction(np.ones(16), [1.0, 0.5])
    axes = figures.plot_contraction(result)
    for line, mass in zip(axes.get_lines(), result.mass, strict=True):
        assert np.array_equal(line.get_ydata(), mass)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["λ = 1", "λ = 0.5"]
    assert axes.get_yscale() == "log"
    assert rendered(axes) > 1000


def test_a_degree_profile_is_drawn_bar_by_bar_on_the_given_axes() -> None:
    given = Figure().add_subplot()
    axes = figures.plot_degree_profile({"a": [9, 1, 2], "b": [9, 3, 4]}, ax=given)
    assert axes is given
    assert [patch.get_height() for patch in axes.patches] == [1, 2, 3, 4]
    assert rendered(axes) > 1000


def test_bounds_are_drawn_where_they_say_something() -> None:
    axes = figures.plot_bounds(
        [1, 2, 3],
        [1.0, 0.9, 0.8],
        bounds={"sharp": [0.9, 0.2, -3.0], "factor": [-1.0, -2.0, -3.0]},
        certificates={"SCA": [(1.0, 1.0), (0.8, 1.0), (0.7, 0.9)]},
    )
    exact, dots, sharp, factor = (np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines())
    assert exact.tolist() == [1.0, 0.9, 0.8]
    assert np.array_equal(sharp, [0.9, 0.2, np.nan], equal_nan=True)
    assert dots.tolist() == [1.0], "an exact certificate is a dot"
    (bars,) = axes.collections
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [[0.8, 1.0], [0.7, 0.9]]  # type: ignore[attr-defined]
    assert factor.size == 0
    assert axes.get_lines()[-1].get_marker() in ("None", "")
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["exact rate", "SCA", "sharp", "factor (never positive)"]
    assert rendered(axes) > 1000


@pytest.mark.parametrize("n_radii", [1, 5, 12, 40])
def test_radii_are_marked_from_the_first_on(n_radii: int) -> None:
    radii = range(1, n_radii + 1)
    ticks = figures.plot_bounds(radii, np.ones(n_radii), bounds={}).get_xticks()
    assert ticks[0] == 1
    assert set(ticks) <= set(radii)
    assert len(ticks) <= 8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: figures.contraction([0, 1], 0.5), InvalidTypeError, "`amounts` must be several numbers"),
        (lambda: figures.contraction([0, 1], [1.0], operator="mask"), InvalidValueError, "Did you mean 'masking'"),
        (lambda: figures.contraction([0, 1], [1.0], basis="table"), InvalidValueError, "`basis` must be one of"),
        (lambda: figures.contraction([0, 1], [2.0]), InvalidValueError, "`lam`"),
        (lambda: figures.random_contractions(21), InvalidValueError, "`n_features` must be at most 20"),
        (lambda: figures.random_contractions("x"), InvalidTypeError, "`n_features`"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'holdfast\[report\]'"):
        figures.plot_degree_profile({"a": [1, 2]})


def test_one_profile_needs_no_legend() -> None:
    assert figures.plot_degree_profile({"a": [0.5, 0.3, 0.2]}).get_legend() is None
    assert figures.plot_degree_profile({"a": [0.5, 0.3, 0.2], "b": [0.1, 0.1, 0.8]}).get_legend() is not None


def test_figures_are_offered_as_a_completion() -> None:
    assert {"figures", "fourier"} <= set(dir(boolean))


def test_figures_come_with_the_analysis_and_draw_with_matplotlib_only_when_asked() -> None:
    code = (
        "import sys, holdfast as hf; hf.boolean.figures.contraction([0, 1], [1.0]); print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

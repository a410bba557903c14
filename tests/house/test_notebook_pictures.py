"""Notebooks show pictures: in a real browser, light and dark, wide and narrow, and in a real kernel, with bars."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from tests.helpers.report_support import browsing

THEMES = {"light": ("#ffffff", "#111111"), "dark": ("#111111", "#dddddd")}


def pieces() -> list[str]:
    model = hf.mask_function(lambda masks: masks[:, :6].sum(axis=1) < 4, n_features=40)
    selected, other = np.arange(40) < 3, np.arange(40) >= 37
    results = [
        hf.certify_radii(model, selected, radii=[1, 2, 3, 5, 8, 13, 21, 34], rng=0),
        hf.compare(model, {"lime": selected, "a longer name than most": other}, [1, 10], rng=0),
        hf.certify_probabilities(model, selected, probabilities=[0.1, 0.5], rng=0),
        hf.mean_curve([lambda: (model, selected), lambda: (model, other)], radii=[4], half_width=0.3, rng=0),
    ]
    return [result._repr_html_() for result in results]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as running:
        yield running


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("theme", THEMES)
def test_pictures_fit_the_page_take_its_colours_and_no_label_lies_on_another(
    browser: Any, theme: str, width: int
) -> None:
    ground, ink = THEMES[theme]
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_content(f"<body style='background:{ground};color:{ink}'>{'<hr>'.join(pieces())}")
    try:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        pictures = page.locator("svg[role=img]")
        assert pictures.count() == 4
        for place in range(4):
            picture = pictures.nth(place)
            assert "stability rate by" in picture.get_attribute("aria-label")
            frame = picture.bounding_box()
            labels = [label.bounding_box() for label in picture.locator("text").all()]
            assert len(labels) >= 5 + 2 + 1
            for label in labels:
                assert frame["x"] <= label["x"]
                assert label["x"] + label["width"] <= frame["x"] + frame["width"] + 1
            for one, other in combinations(labels, 2):
                apart = (
                    one["x"] + one["width"] <= other["x"] + 1
                    or other["x"] + other["width"] <= one["x"] + 1
                    or one["y"] + one["height"] <= other["y"] + 3
                    or other["y"] + other["height"] <= one["y"] + 3
                )
                assert apart, (one, other)
            colour = picture.locator("text").first.evaluate("label => getComputedStyle(label).fill")
            assert colour == f"rgb({', '.join(str(int(ink[i : i + 2], 16)) for i in (1, 3, 5))})"
        assert asked == []
    finally:
        page.close()


def run_cells(*cells: str) -> list[list[Any]]:
    """What each cell shows in a fresh kernel."""
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient").NotebookClient
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells])
    client(notebook, timeout=120).execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.slow
def test_in_a_kernel_curves_are_shown_plots_are_drawn_and_bars_come_and_go() -> None:
    _, shown, plotted, asked, silent = run_cells(
        """
        import numpy as np
        import holdfast as hf
        import holdfast.terminal
        holdfast.terminal.SECONDS_BEFORE_BAR = 1e-9
        drawn = []
        show = holdfast.terminal.NotebookLine.show
        holdfast.terminal.NotebookLine.show = lambda line, text: (drawn.append(text), show(line, text))
        model = hf.mask_function(lambda masks: masks[:, 0], n_features=20)
        """,
        "curve = hf.certify_radii(model, np.arange(20) < 2, radii=[1, 2], progress=False, rng=0)\ncurve",
        "curve.plot();",
        "hf.certify(model, np.arange(20) < 2, radius=6, batch_size=3, rng=0)\nprint(drawn[0], repr(drawn[-1]))",
        "hf.certify(model, np.arange(20) < 2, radius=6, batch_size=3, progress=False, rng=0);",
    )
    assert "<svg" in shown[0]["data"]["text/html"]
    assert any("image/png" in output.get("data", {}) for output in plotted)
    assert [output["data"]["text/plain"] for output in asked if "data" in output] == [""], "an empty line is left"
    [printed] = [output["text"] for output in asked if output.output_type == "stream"]
    assert "masks" in printed
    assert printed.endswith("''\n")
    assert silent == []

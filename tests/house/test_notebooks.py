"""The notebooks of the documentation run, and print what is stored in them.

After numbers moved on purpose, ``python tests/house/test_notebooks.py`` runs them and stores what they show now.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
MOST_BYTES = 200_000


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def execute(path: Path) -> Any:
    """The notebook as it comes out of a fresh kernel; what is said on standard error depends on the machine."""
    from nbclient import NotebookClient

    notebook = read(path)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr" and not _is_bar(one)]
    return notebook


def _is_bar(output: Any) -> bool:
    """What a progress bar leaves behind, where the machine was slow enough for one: nothing to see."""
    return output.output_type == "display_data" and not any(output["data"].values())


def told(notebook: Any) -> list[list[str]]:
    """What each code cell prints, the HTML it shows, and that there is a figure; not the figure's pixels."""
    return [_told_by(cell) for cell in notebook.cells if cell.cell_type == "code"]


def _told_by(cell: Any) -> list[str]:
    printed = "".join(one["text"] for one in cell.outputs if one.output_type == "stream")
    shown = [one["data"] for one in cell.outputs if one.output_type != "stream"]
    return [
        printed,
        *(data.get("text/html", "figure" if "image/png" in data else data["text/plain"]) for data in shown),
    ]


def name_of(path: Path) -> str:
    return path.stem


def test_there_is_a_notebook_for_each_kind_of_input() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["image", "table", "text"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_stored_notebook_is_small_complete_and_of_no_one_machine(path: Path) -> None:
    notebook = read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [
        one for cell in cells for one in cell.outputs if one.output_type == "error" or one.get("name") == "stderr"
    ]
    assert sum("figure" in outputs for outputs in told(notebook)) >= 2
    text = path.read_text(encoding="utf-8")
    assert len(text) < MOST_BYTES
    assert not re.search(r"/(home|root|tmp|usr|work)/", text)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_runs_and_tells_what_is_stored(path: Path) -> None:
    pytest.importorskip("nbclient")
    assert told(execute(path)) == told(read(path))


if __name__ == "__main__":
    for each in NOTEBOOKS:
        nbformat.write(execute(each), each)

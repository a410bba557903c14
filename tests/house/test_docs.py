"""What the pages quote is what the code says, and the API page has every public name."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.house.test_readme import OUTPUT, blocks_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = [
    "boolean",
    "reproduce",
    "inputs.data",
    "inputs.models",
    "interop.mlflow",
    "interop.quantus",
    "interop.torchmetrics",
    "report.figures",
    "report.page",
    "study",
]


def test_the_pieces_of_the_certificate_are_quoted_from_it() -> None:
    text = (ROOT / "docs/certificate.md").read_text(encoding="utf-8")
    printed = " ".join(" ".join(block.body.split()) for block in blocks_of(text) if block.info == OUTPUT).lower()
    table = text.split("| the certificate says |")[1].split("\n\n")[0]
    quoted = [line.split("|")[1].strip().lower() for line in table.splitlines() if line.startswith("| ")]
    assert len(quoted) == 4
    for phrase in quoted:
        assert phrase in printed


def test_formulas_are_set_and_code_is_left_alone() -> None:
    spec = spec_from_file_location("formulas", ROOT / "docs/hooks/formulas.py")
    assert spec
    assert spec.loader
    formulas = module_from_spec(spec)
    spec.loader.exec_module(formulas)
    assert doctest.testmod(formulas).failed == 0
    assert formulas.typeset("χ_S^p, τ̂_r, M_½f") == ("χ<sub>S</sub><sup>p</sup>, τ̂<sub>r</sub>, M<sub>½</sub>f")
    for left in ("certify_radii", "<pre>a_b</pre>", "<script>x_1^2</script>", '<a href="a_b">n_features</a>'):
        assert formulas.typeset(left) == left


@pytest.mark.parametrize("module", DOCUMENTED)
def test_the_api_page_has_every_public_name_of_a_room(module: str) -> None:
    listed = re.findall(r"^::: holdfast\.([\w.]+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    room = _room(module)
    own = [
        name for name, one in vars(room).items() if getattr(one, "__module__", "") == room.__name__ and name[0] != "_"
    ]
    public = getattr(room, "__all__", own)
    assert public
    missing = {f"{module}.{name}" for name in public} - set(listed)
    # A function that is called as its module is named with it, or the page would show the module.
    assert {name for name in missing if not _is_listed_with_its_module(name, listed)} == set()


def _room(name: str) -> Any:
    return import_module(f"holdfast.{name}")


def _is_listed_with_its_module(name: str, listed: list[str]) -> bool:
    room, _, function = name.rpartition(".")
    found = getattr(_room(room), function)
    return f"{found.__module__}.{function}".removeprefix("holdfast.") in listed


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1].split("\nplugins:")[0]
    named = re.findall(r"[\w./-]+\.(?:md|ipynb)", nav)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.*")]
    assert sorted(named) == sorted(page for page in pages if page.endswith((".md", ".ipynb")))


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    changelog = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert changelog
    assert citation
    assert changelog[1] == citation[1] == holdfast.__version__


def test_links_from_the_readme_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(targets) > 30
    assert [target for target in targets if not (ROOT / target).exists()] == []

"""What the pages quote is what the code says, and the API page has every public name."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_readme import OUTPUT, blocks_of

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTED = [
    "boolean",
    "data",
    "experiments",
    "interop.mlflow",
    "interop.quantus",
    "interop.torchmetrics",
    "models",
    "report.figures",
    "report.page",
    "study",
]


def test_the_pieces_of_the_certificate_are_quoted_from_it() -> None:
    text = (ROOT / "docs/certificate.md").read_text(encoding="utf-8")
    sentence = " ".join(next(one.body for one in blocks_of(text) if one.info == OUTPUT).split()).lower()
    table = text.split("| the certificate says |")[1].split("\n\n")[0]
    quoted = [line.split("|")[1].strip().lower() for line in table.splitlines() if line.startswith("| ")]
    assert len(quoted) == 8
    for phrase in quoted:
        assert phrase.removeprefix("about ") in sentence


@pytest.mark.parametrize("module", DOCUMENTED)
def test_the_api_page_has_every_public_name_of_a_room(module: str) -> None:
    listed = re.findall(r"^::: holdfast\.([\w.]+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    room = import_module(f"holdfast.{module}")
    own = [
        name for name, one in vars(room).items() if getattr(one, "__module__", "") == room.__name__ and name[0] != "_"
    ]
    public = getattr(room, "__all__", own)
    assert public
    assert {f"{module}.{name}" for name in public} <= set(listed)


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1].split("\nplugins:")[0]
    named = re.findall(r"[\w./-]+\.(?:md|ipynb)", nav)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.*")]
    assert sorted(named) == sorted(page for page in pages if page.endswith((".md", ".ipynb")))

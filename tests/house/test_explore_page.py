"""The text of the page of `holdfast explore`: one file, whose scripts put data on it as text and ask nobody else."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from holdfast.explore.server import SCRIPTS, SHARED, explore_page
from holdfast.report.html import SCRIPTS as REPORT_SCRIPTS

ASSETS = {
    "report": files("holdfast.report") / "assets",
    "explore": files("holdfast.explore") / "assets",
}


def test_every_script_of_the_folder_is_on_the_page_once() -> None:
    page = explore_page()
    for room, names in (("report", SHARED), ("explore", SCRIPTS)):
        for name in names:
            assert page.count((ASSETS[room] / name).read_text(encoding="utf-8")) == 1
    own = {one.name for one in ASSETS["explore"].iterdir() if one.name.endswith(".js")}
    assert own == set(SCRIPTS)
    assert set(SHARED) < set(REPORT_SCRIPTS)


def test_no_two_scripts_of_the_page_declare_the_same_name() -> None:
    texts = [(ASSETS["report"] / name).read_text(encoding="utf-8") for name in SHARED]
    texts += [(ASSETS["explore"] / name).read_text(encoding="utf-8") for name in SCRIPTS]
    declared = re.findall(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", "\n".join(texts), re.MULTILINE)
    assert len(declared) > 100
    assert len(declared) == len(set(declared))


def test_the_policy_allows_one_script_one_style_and_the_server_itself() -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', explore_page())[1]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("script-src").startswith("'sha256-")
    assert rules.pop("style-src").startswith("'sha256-")
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


@pytest.mark.parametrize("room", list(ASSETS))
def test_no_script_makes_markup_or_code_of_text(room: str) -> None:
    for one in ASSETS[room].iterdir():
        if one.name.endswith(".js"):
            text = one.read_text(encoding="utf-8")
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|srcdoc", text
            )


def test_the_page_names_no_other_host() -> None:
    assert set(re.findall(r"https?://[^\"'\s)]+", explore_page())) == {"http://www.w3.org/2000/svg"}

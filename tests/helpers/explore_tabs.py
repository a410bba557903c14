"""Tabs of a real browser on a server of small models: what the tests of the page share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from holdfast.explore.workbench import Workbench
from tests.helpers.explore_pages import Serving, Tab, make_workbench
from tests.helpers.report_support import browsing

VADER = "model=bundled:vader&input=0&a=occlusion"
PARITY = "model=python:tests.helpers.explore_pages:parity&input=0&a=random&tolerance=0.05&radius=6"
BRITTLE = "model=python:tests.helpers.explore_pages:brittle&a=random&fraction=0.125&radius=1"
MOODS = "model=python:tests.helpers.report_support:moods&a=occlusion"
BRIGHT = "model=python:tests.helpers.report_support:brightness&input=1&a=occlusion"
SUMS = "model=python:tests.helpers.report_support:sums&input=1&a=occlusion"
UNEVEN = "model=python:tests.helpers.explore_pages:uneven&input=1&a=random"
KINDS = {"words": VADER, "patches": BRIGHT, "columns": SUMS}


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return make_workbench(tmp_path_factory.mktemp("explored"))


@pytest.fixture(scope="module")
def serving(workbench: Workbench) -> Iterator[Serving]:
    one = Serving(workbench)
    yield one
    one.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as running:
        yield running


@pytest.fixture
def visit(browser: Any, serving: Serving) -> Iterator[Callable[..., Tab]]:
    """Opens tabs; whatever a test does in them, nothing may be said on the console or asked of others."""
    opened: list[Tab] = []

    def open_tab(view: str, **options: Any) -> Tab:
        opened.append(Tab(browser, serving, view, **options))
        return opened[-1]

    yield open_tab
    for tab in opened:
        tab.page.close()
    assert [line for tab in opened for line in tab.said] == []
    assert [url for tab in opened for url in tab.strangers()] == []


def outputs(workbench: Workbench, view: dict[str, Any], shown: list[int]) -> tuple[str, dict[str, float]]:
    """What the library says of a view: the prediction, and every score by the name of its class."""
    asked = workbench.read_view(view)
    bound, classes = workbench.bind(asked), workbench.entries[asked.model].inputs.classes
    mask = np.isin(np.arange(bound.n_features), shown)
    scores = np.asarray(bound(mask[None]))[0]
    return classes[int(scores.argmax())], dict(zip(classes, scores.tolist(), strict=True))


def settled(tab: Tab, side: int = 0) -> Any:
    """The verdict of a side, once the model has answered."""
    tab.page.wait_for_selector(f".side:nth-child({side + 1}) .verdict:not(.asking)")
    return tab.page.locator(".side").nth(side).locator(".verdict")


def check_verdict(tab: Tab, workbench: Workbench, shown: list[int]) -> None:
    view = tab.sent("/api/jobs")[-1]["view"]
    prediction, scores = outputs(workbench, view, shown)
    verdict = settled(tab)
    assert verdict.locator(".now").text_content() == prediction
    told = verdict.locator(".scores li").evaluate_all(
        "all => all.map(one => [one.querySelector('.class-name').textContent, one.querySelector('.value').title])"
    )
    assert [name for name, _ in told] == list(scores)
    for name, title in told:
        assert float(re.match(r"score (\S+),", title)[1]) == pytest.approx(scores[name], rel=0.005, abs=0.006)

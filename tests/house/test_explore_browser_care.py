"""The page of `holdfast explore` in a real browser: for everybody, and through reloads, errors and harm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from itertools import product
from typing import Any

import pytest

from holdfast.explore.workbench import Workbench
from tests.helpers.report_support import COLUMNS, HOSTILE, LONG

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from tests.helpers.explore_pages import TURNED, Serving, Tab
from tests.helpers.explore_tabs import (
    BRIGHT,
    BRITTLE,
    MOODS,
    PARITY,
    SUMS,
    browser,
    serving,
    settled,
    visit,
    workbench,
)
from tests.helpers.waiting import wait_until

__all__ = ["browser", "serving", "visit", "workbench"]


def test_the_whole_job_can_be_done_with_the_keyboard_alone(visit: Callable[..., Tab]) -> None:
    tab = visit(BRIGHT)
    page = tab.page
    tab_to(
        page, "document.activeElement.closest('.fields') && document.activeElement.labels[0].textContent === 'Selected'"
    )
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".side-body:not(.stale)")
    tab_to(page, "document.activeElement.name === 'input'")
    page.keyboard.press("ArrowRight")
    tab.until("location.hash.includes('input=2')")
    page.wait_for_selector(".side-body:not(.stale)")
    tab_to(page, "document.activeElement.classList.contains('tile')")
    assert page.evaluate("document.activeElement.dataset.feature") == "0"
    for key, at in (("ArrowRight", "1"), ("ArrowDown", "5"), ("ArrowLeft", "4"), ("ArrowUp", "0"), ("End", "11")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.feature") == at
    before = tab.states()[11]
    page.keyboard.press("Space")
    settled(tab)
    assert tab.states()[11] == {"hidden": "added", "selected": "removed"}[before]
    assert re.match(r"prediction (up|down), ", page.locator("#said").text_content())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Undo"
    tab_to(page, "document.activeElement.textContent === 'Find what would change it'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".witness-block .sentence")
    tab_to(page, "document.activeElement.type === 'range' && document.activeElement.closest('.card-wide')")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.locator(".slider.wide output").text_content() == "2 more features"
    tab_to(page, "document.activeElement.textContent === 'Certify'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".certify-block .sentence:not([hidden])")
    assert "up to 2 more features" in page.locator(".certify-block .sentence").text_content()
    tab_to(page, "document.activeElement.textContent === 'Certificate (JSON)'")
    with page.expect_download():
        page.keyboard.press("Enter")


def tab_to(page: Any, condition: str) -> None:
    """Press Tab until the condition holds."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(f"Boolean({condition})"):
            return
    raise AssertionError(f"Tab never came to {condition}")


def test_a_reload_restores_the_view_and_listens_to_the_running_job_again(visit: Callable[..., Tab]) -> None:
    tab = visit(PARITY)
    tab.page.locator("[data-state=hidden]").first.click()
    settled(tab)
    shown = tab.shown()
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.page.wait_for_selector(".live b")
    address, n_jobs = tab.page.url, len(tab.sent("/api/jobs"))
    tab.page.reload()
    tab.wait()
    assert tab.page.url == address
    assert tab.shown() == shown
    settled(tab)
    tab.page.wait_for_selector(".chip.changed")
    tab.page.wait_for_selector(".live b")
    tab.page.wait_for_selector(".certify-block .sentence:not([hidden])")
    assert "cases (" in tab.page.locator(".certify-block .sentence").text_content()
    assert len(tab.sent("/api/jobs")) == n_jobs


def test_a_hidden_tab_holds_no_connection_and_hears_the_end_when_it_is_looked_at(visit: Callable[..., Tab]) -> None:
    tab = visit(PARITY)
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.page.wait_for_selector(".live b")
    look_away(tab, away=True)
    held = "navigator.locks.query().then((all) => all.held.filter((one) => /^holdfast/.test(one.name)).length)"
    wait_until(lambda: tab.page.evaluate(held) == 0)
    look_away(tab, away=False)
    tab.page.wait_for_selector(".certify-block .sentence:not([hidden])")
    assert "cases (" in tab.page.locator(".certify-block .sentence").text_content()


def look_away(tab: Tab, *, away: bool) -> None:
    """Tell the page that its tab is in the background, or no longer."""
    told = f"Object.defineProperty(document, 'hidden', {{ value: {json.dumps(away)}, configurable: true }})"
    tab.page.evaluate(f"{told}; document.dispatchEvent(new Event('visibilitychange'))")


def test_an_address_says_what_is_looked_at_and_nonsense_in_it_is_left_aside(visit: Callable[..., Tab]) -> None:
    tab = visit("model=nope&input=9&a=<b>&fraction=x&radius=-3&shown=1")
    assert tab.page.locator(".input-choice input:checked").get_attribute("value") == "0"
    assert tab.sent("/api/jobs")[-1]["view"]["model"] == "bundled:vader"
    tab.page.evaluate(f"location.hash = '{SUMS}&fraction=0.3&b=random'")
    tab.page.wait_for_selector(".side:nth-child(2) .column-tiles")
    tab.wait()
    first, second = (one["view"] for one in tab.sent("/api/jobs")[-2:])
    assert (first["input"], first["fraction"], first["method"], second["method"]) == ("1", 0.3, "occlusion", "random")
    assert tab.page.get_by_label("Selected").evaluate("one => one.selectedOptions[0].textContent") == "top 30%"
    assert tab.page.locator(".input-choice input:checked").get_attribute("value") == "1"


def test_another_model_begins_with_its_first_input_and_what_it_has(visit: Callable[..., Tab]) -> None:
    tab = visit(f"{BRIGHT}&fill=blur")
    tab.page.get_by_label("Model").select_option(label="tests.helpers.report_support:sums")
    tab.page.wait_for_selector(".column-tiles")
    tab.wait()
    view = tab.sent("/api/jobs")[-1]["view"]
    assert (view["input"], view["fill"], view["method"]) == ("0", None, "occlusion")
    assert tab.page.locator(".input-choice input:checked").get_attribute("value") == "0"
    tab.page.locator(".input-choice").nth(3).click()
    tab.until("location.hash.includes('input=3')")
    tab.wait()
    assert tab.sent("/api/jobs")[-1]["view"]["input"] == "3"


def test_tabs_do_not_wait_for_each_other(browser: Any, serving: Serving) -> None:
    context = browser.new_context()
    busy, other = Tab(context, serving, PARITY), Tab(context, serving, SUMS)
    busy.page.get_by_role("button", name="Draw the curve").click()
    stop = busy.page.locator(".status:visible").get_by_role("button", name="Cancel")
    stop.wait_for()
    for _ in range(3):
        other.page.locator("[data-state=hidden]").first.click()
        settled(other)
    assert stop.is_visible()  # it is at work still
    stop.click()
    busy.page.wait_for_selector("text=The curve was cancelled.")
    assert [one["shown"] for one in other.sent("/api/reveal")][-1] == other.shown()
    names = {one.headers.get("x-holdfast-tab") for tab in (busy, other) for one in tab.asked if "/api/" in one.url}
    assert len(names) == 2
    context.close()


@pytest.mark.slow
def test_more_tabs_than_connections_still_get_their_answers(browser: Any, serving: Serving) -> None:
    context = browser.new_context()
    tabs = [Tab(context, serving, f"{PARITY}&seed={i}") for i in range(6)]
    for tab in tabs:
        tab.page.get_by_role("button", name="Certify", exact=True).click()
    last = Tab(context, serving, SUMS)
    last.page.locator("[data-state=hidden]").first.click()
    last.page.wait_for_selector(".counts:text('1 feature added.')")
    settled(last)
    for tab in tabs:
        tab.page.wait_for_selector(".live b")
    context.close()


def test_what_a_model_raises_is_a_message_and_the_page_goes_on(browser: Any, serving: Serving) -> None:
    tab = Tab(browser, serving, BRITTLE)
    tab.page.locator("[data-state=hidden]").first.click()
    message = tab.page.locator(".side .message")
    message.wait_for()
    assert f"The model raised RuntimeError: three words are too many {HOSTILE}" in message.text_content()
    assert "Try another input or fill" in message.text_content()
    assert tab.page.locator("img[src=x]").count() == 0
    assert tab.page.locator(".chip").text_content() == "? unknown"  # no old answer stands for what is shown now
    assert tab.page.locator(".scores li").count() == 0
    tab.page.locator("[data-state=hidden]").first.click()
    tab.page.wait_for_selector(".counts:text('2 features added.')")
    tab.page.wait_for_selector(".chip.kept, .chip.changed")
    message.get_by_role("button", name="Dismiss").click()
    assert tab.page.locator(".side .message").count() == 0
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.page.wait_for_selector(".certify-block .message")
    tab.page.locator(".input-choice").nth(3).click()
    tab.page.wait_for_selector(".side .message")
    assert tab.page.locator(".side-body").is_hidden()
    n_asked = len(tab.sent("/api/jobs"))
    tab.page.reload()  # whoever loads the page again wants to try again
    tab.page.wait_for_selector(".side .message")
    assert [job["kind"] for job in tab.sent("/api/jobs")[n_asked:]] == ["explain"]
    tab.page.locator(".input-choice").nth(1).click()
    tab.page.wait_for_selector(".side-body:not(.stale)")
    assert tab.page.locator(".side .message").count() == 0
    tab.page.close()


def test_names_and_texts_that_mean_harm_appear_as_text_and_in_their_place(visit: Callable[..., Tab]) -> None:
    tab = visit(f"{MOODS}&input=0", viewport={"width": 360, "height": 800})
    words = tab.page.locator(".words").text_content()
    assert HOSTILE in words
    assert LONG in words
    assert TURNED in words
    edge = tab.page.locator(".words .tile", has_text="end").last.bounding_box()
    turned = tab.page.locator(".words .tile", has_text=TURNED).bounding_box()
    assert (edge["y"], edge["x"]) > (turned["y"], turned["x"])  # what follows is not turned around with it
    assert "bad <script>" in tab.page.locator(".scores").text_content()
    for view in (SUMS, BRIGHT, MOODS):
        tab.page.evaluate(f"location.hash = {view!r}")
        tab.page.reload()
        tab.wait()
        tab.page.get_by_role("button", name="Find what would change it").click()
        tab.page.wait_for_selector(".witness-block .sentence")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360
        if view is SUMS:
            told = tab.page.locator(".column-tiles").text_content()
            assert all(name in told for name in COLUMNS)
    assert tab.page.locator("img[src=x]").count() == 0
    assert tab.page.title() == "holdfast explore"


def test_a_server_that_has_gone_is_told_and_found_again(browser: Any, workbench: Workbench) -> None:
    first = Serving(workbench)
    tab = Tab(browser, first, SUMS)
    first.stop()
    tab.page.locator("[data-state=hidden]").first.click()
    gone = tab.page.locator("#gone")
    gone.wait_for()
    assert gone.text_content().startswith("The server does not answer. Start `holdfast explore` again;")
    again = Serving(workbench, port=first.port)
    gone.wait_for(state="hidden")
    tab.page.wait_for_selector(".counts:text('1 feature added.')")
    settled(tab)
    assert tab.sent("/api/reveal")[-1]["shown"] == tab.shown()
    again.stop()
    other = Serving(workbench, port=first.port, token="another")
    tab.page.locator("[data-state=hidden]").first.click()
    message = tab.page.locator(".message", has_text="it changes with every start")
    message.wait_for()
    tab.page.close()
    other.stop()


def test_axe_finds_nothing_in_light_and_dark_on_phones_and_on_desks(browser: Any, serving: Serving) -> None:
    tab = Tab(browser, serving, f"{BRIGHT}&b=random", bypass_csp=True)
    tab.page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.page.get_by_role("button", name="Find what would change it").first.click()
    tab.page.get_by_role("button", name="Draw the curve").click()
    tab.page.get_by_role("button", name="Python").first.click()
    tab.page.wait_for_selector("pre")
    tab.until("document.querySelectorAll('.certify-block .sentence:not([hidden])').length === 2")
    tab.until("document.querySelectorAll('[data-line]:not([data-line=\"so far\"])').length === 2")
    tab.page.get_by_role("button", name="Next").first.click()
    found = violations(tab, product(("light", "dark"), (360, 1400)))
    tab.page.get_by_label("Compare with").select_option(label="nothing")
    for name in ("report_support:sums", "explore_pages:brittle"):
        tab.page.get_by_label("Model").select_option(label=f"tests.helpers.{name}")
        tab.until("document.querySelector('.side-body:not(.stale)')")
        tab.page.locator("[data-state=hidden]").first.click()
        tab.page.locator("[data-state=selected]").first.click()
        settled(tab)
        found += violations(tab, [("light", 1400), ("dark", 360)])
    tab.page.close()
    assert found == []


def violations(tab: Tab, looks: Iterable[tuple[Any, int]]) -> list[str]:
    """What axe has to say, in themes and at widths."""
    found = []
    for scheme, width in looks:
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.set_viewport_size({"width": width, "height": 900})
        result = tab.page.evaluate("axe.run({ resultTypes: ['violations'] })")
        for one in result["violations"]:
            nodes = [node["html"][:160] + str(node.get("failureSummary")) for node in one["nodes"][:3]]
            found.append(json.dumps([scheme, width, one["id"], nodes]))
    return found

"""The page of `holdfast explore` in a real browser: every click is answered, nothing leaves the machine."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.explore.view import read_view
from holdfast.explore.workbench import Workbench
from holdfast.results.certificate import Certificate
from tests.report_support import COLUMNS, HOSTILE, LONG, browsing

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from tests.explore_pages import TURNED, Serving, Tab, make_workbench

VADER = "model=bundled:vader&input=0&a=occlusion"
PARITY = "model=python:tests.explore_pages:parity&input=0&a=random&tolerance=0.05&radius=6"
BRITTLE = "model=python:tests.explore_pages:brittle&a=random&fraction=0.125&radius=1"
MOODS = "model=python:tests.report_support:moods&a=occlusion"
BRIGHT = "model=python:tests.report_support:brightness&input=1&a=occlusion"
SUMS = "model=python:tests.report_support:sums&input=1&a=occlusion"
UNEVEN = "model=python:tests.explore_pages:uneven&input=1&a=random"
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
    asked = read_view(view, workbench.entries, count=lambda spec: len(workbench.dataset(spec)))
    bound, classes = workbench.bound(asked), workbench.classifier(asked.model).classes
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


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_clicked_is_shown_to_the_model_and_its_answer_to_the_person(
    visit: Callable[..., Tab], workbench: Workbench, kind: str
) -> None:
    tab = visit(KINDS[kind])
    explained = tab.shown()
    check_verdict(tab, workbench, explained)
    hidden = next(i for i, state in tab.states().items() if state == "hidden")
    tab.page.locator(f"[data-feature='{hidden}']").click()
    assert tab.states()[hidden] == "added"
    assert tab.page.locator(f"[data-feature='{hidden}']").get_attribute("aria-pressed") == "true"
    check_verdict(tab, workbench, sorted([*explained, hidden]))
    assert tab.page.locator(".counts").text_content() == "1 feature added."
    tab.page.locator(f"[data-feature='{explained[0]}']").click()
    assert tab.states()[explained[0]] == "removed"
    check_verdict(tab, workbench, sorted([*explained[1:], hidden]))
    tab.page.get_by_role("button", name="Undo").click()
    check_verdict(tab, workbench, sorted([*explained, hidden]))
    tab.page.get_by_role("button", name="Show all").click()
    check_verdict(tab, workbench, sorted(tab.states()))
    tab.page.get_by_role("button", name="Reset to the explanation").click()
    check_verdict(tab, workbench, explained)
    assert tab.page.locator(".chip").text_content() == "✓ kept"


def test_a_change_is_told_in_words_and_by_a_sign_and_to_those_who_listen(visit: Callable[..., Tab]) -> None:
    tab = visit(PARITY)
    before = settled(tab).locator(".now").text_content()
    tab.page.locator("[data-state=hidden]").first.click()
    tab.page.wait_for_selector(".chip.changed")
    assert tab.page.locator(".chip").text_content() == "✗ changed"
    after = settled(tab).locator(".now").text_content()
    assert {before, after} == {"even", "odd"}
    assert tab.page.locator("#said").text_content() == f"prediction {after}, changed, lead -1.00."


def test_segments_of_any_shape_are_clicked_where_they_are(visit: Callable[..., Tab]) -> None:
    tab = visit(UNEVEN)
    box = tab.page.locator(".picture.tiles").bounding_box()
    before = tab.states()
    tab.page.mouse.click(box["x"] + 2.5 * box["width"] / 16, box["y"] + 0.5 * box["height"] / 12)
    settled(tab)
    changed = [i for i, state in tab.states().items() if state != before[i]]
    assert changed == [2]
    assert tab.page.evaluate("document.activeElement.dataset.feature") == "2"


def test_clicks_that_come_while_the_model_thinks_are_answered_together(visit: Callable[..., Tab]) -> None:
    tab = visit(PARITY)
    tab.page.evaluate("[...document.querySelectorAll('.tile')].slice(0, 9).forEach((one) => one.click())")
    said = settled(tab).locator(".now").text_content()
    assert said == ("even" if len(tab.shown()) % 2 else "odd")
    assert 1 <= len(tab.sent("/api/reveal")) <= 3


def test_the_interval_narrows_look_by_look_until_it_is_cancelled(visit: Callable[..., Tab]) -> None:
    tab = visit(PARITY.replace("0.05", "0.02"))
    tab.page.evaluate(
        "window.seen = []; new MutationObserver(() => {"
        " const text = document.querySelector('.live b')?.textContent;"
        " if (text && text !== seen.at(-1)) seen.push(text);"
        "}).observe(document.querySelector('.certify-block'), { subtree: true, childList: true, characterData: true });"
    )
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.until("seen.length >= 4")
    assert tab.page.get_by_role("button", name="Certify", exact=True).is_disabled()
    tab.page.locator(".certify-block").get_by_role("button", name="Cancel").click()
    tab.page.wait_for_selector(".certify-block .sentence:not([hidden])")
    seen = [[float(end) for end in re.findall(r"[\d.]+", text)] for text in tab.page.evaluate("seen")]
    assert all(a <= c <= d <= b for (a, b), (c, d) in pairwise(seen))
    assert seen[-1][1] - seen[-1][0] < seen[0][1] - seen[0][0]
    sentence = tab.page.locator(".certify-block .sentence").text_content()
    low, high = (f"{end:g}%" for end in seen[-1])
    assert re.match(r"Stopped after \d+ draws\. The interval so far holds for all looks at once", sentence)
    assert sentence.endswith(f"with confidence 0.9, the rate at radius 6 is between {low} and {high}.")
    assert tab.page.get_by_role("button", name="Certify", exact=True).is_enabled()
    assert tab.page.get_by_role("button", name="Certificate (JSON)").is_disabled()


def test_the_certificate_that_is_saved_is_verified_by_the_command(
    visit: Callable[..., Tab], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tab = visit(VADER)
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.page.wait_for_selector(".certify-block .sentence:not([hidden])")
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Certificate (JSON)").click()
    path = tmp_path / "certificate.json"
    download.value.save_as(path)
    certificate = Certificate.from_json(path.read_text(encoding="utf-8"))
    low, high = certificate.interval
    assert tab.page.locator(".live b").text_content() in (f"[{100 * low:.3g}%, {100 * high:.3g}%]", f"{100 * low:.3g}%")
    assert certificate.selected.nonzero()[0].tolist() == tab.shown()
    asked = ["--model", "bundled:vader", "--input", "bundled:sentences#0", "--features", "words"]
    assert main(["verify", str(path), *asked]) == 0
    assert capsys.readouterr().out.startswith("Confirmed: ")


def test_the_picture_and_the_script_can_be_taken_along(visit: Callable[..., Tab], tmp_path: Path) -> None:
    tab = visit(BRIGHT)
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Picture (PNG)").click()
    download.value.save_as(tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert download.value.suggested_filename == "brightness-1-occlusion.png"
    tab.page.get_by_role("button", name="Python").click()
    code = tab.page.locator("pre").text_content()
    compile(code, "taken along", "exec")
    assert "hf.attribute(model, 'occlusion', rng=0)" in code


def test_the_script_is_that_of_the_certificate_even_after_the_slider_moved(visit: Callable[..., Tab]) -> None:
    tab = visit(f"{PARITY}&keep=1")
    save, script = (tab.page.get_by_role("button", name=name, exact=True) for name in ("Certificate (JSON)", "Python"))
    certify = tab.page.get_by_role("button", name="Certify", exact=True)
    certify.click()
    tab.page.wait_for_selector(".certify-block .sentence:not([hidden])")
    tab.page.get_by_label("Reveal up to").fill("3")
    script.click()
    assert "radius=6, tolerance=0.05, confidence=0.9" in tab.page.locator("pre").text_content()
    assert save.is_enabled()
    certify.click()
    tab.page.wait_for_selector(".status:visible >> text=Certifying")
    assert save.is_disabled()
    assert tab.page.locator("pre").count() == 0
    script.click()
    assert "radius=3, tolerance=0.05, confidence=0.9" in tab.page.locator("pre").text_content()


def test_a_witness_is_stepped_through_to_where_the_prediction_changes(
    visit: Callable[..., Tab], workbench: Workbench
) -> None:
    tab = visit(BRIGHT)
    explained = tab.shown()
    tab.page.get_by_role("button", name="Find what would change it").click()
    tab.page.wait_for_selector(".stepper")
    chips = tab.page.locator(".step-chip")
    n_steps = chips.count()
    assert n_steps == 4
    next_step = tab.page.get_by_role("button", name="Next")
    for step in range(1, n_steps + 1):
        next_step.click()
        assert len([state for state in tab.states().values() if state == "added"]) == step
        check_verdict(tab, workbench, tab.shown())
        assert (tab.page.locator(".chip").text_content() == "✓ kept") == (
            "keeps" in chips.nth(step - 1).get_attribute("class")
        )
    assert tab.page.locator(".stepper output").text_content() == f"Step {n_steps} of {n_steps}: the prediction changes"
    assert tab.page.locator(".chip").text_content() == "✗ changed"
    assert next_step.is_disabled()
    for _ in range(n_steps):
        tab.page.get_by_role("button", name="Previous").click()
    assert tab.shown() == explained
    assert tab.page.locator(".chip").text_content() == "✓ kept"
    assert tab.sent("/api/reveal") == []


def test_a_draw_that_changes_the_prediction_can_be_looked_at(visit: Callable[..., Tab]) -> None:
    tab = visit(PARITY.replace("0.05", "0.1"))
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.page.get_by_role("button", name="Show a draw that changes the prediction").click()
    tab.page.wait_for_selector(".chip.changed")
    n_added = len([state for state in tab.states().values() if state == "added"])
    assert 1 <= n_added <= 6


def test_two_methods_stand_side_by_side_and_are_asked_alike(visit: Callable[..., Tab]) -> None:
    tab = visit(VADER)
    tab.page.get_by_label("Compare with").select_option(
        index=tab.page.locator("select").nth(2).locator("option").count() - 1
    )
    tab.page.wait_for_selector(".side:nth-child(2) .tile")
    explains = len(tab.sent("/api/jobs"))
    assert explains == 2  # the first side is left as it is
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.until("document.querySelectorAll('.certify-block .sentence:not([hidden])').length === 2")
    tab.page.get_by_role("button", name="Draw the curve").click()
    tab.until("document.querySelectorAll('[data-line]:not([data-line=\"so far\"])').length === 2")
    first, second = (one for one in tab.sent("/api/jobs") if one["kind"] == "certify")
    assert first["options"] == second["options"]
    assert first["view"] | {"method": ""} == second["view"] | {"method": ""}
    assert first["view"]["method"] != second["view"]["method"]
    tab.page.locator(".side").nth(1).locator("[data-state=hidden]").first.click()
    settled(tab, 1)
    assert "added" not in tab.states(0).values()
    tab.page.get_by_label("Compare with").select_option(label="nothing")
    assert tab.page.locator(".side").count() == 1
    assert len(tab.sent("/api/jobs")) == explains + 4


def test_fraction_fill_and_keep_probability_are_asked_for_as_chosen(
    visit: Callable[..., Tab], workbench: Workbench
) -> None:
    tab = visit(VADER)
    n_words = len(tab.states())
    for name, label, field, value in (
        ("Selected", "top 50%", "fraction", 0.5),
        ("Hidden features are", None, "fill", "dots"),
        ("Keep probability λ", "0.5 (smoothed)", "keep_probability", 0.5),
    ):
        choice = {"index": 1} if label is None else {"label": label}
        tab.page.get_by_label(name).focus()
        tab.page.get_by_label(name).select_option(**choice)
        tab.page.wait_for_selector(".side-body:not(.stale)")
        assert tab.sent("/api/jobs")[-1]["view"][field] == value
        assert tab.page.evaluate("document.activeElement.labels[0].textContent") == name
    assert len(tab.shown()) == round(n_words / 2)
    shares = settled(tab).locator(".scores .value").evaluate_all("all => all.map(one => one.title)")
    votes = [32 * float(re.match(r"score (\S+),", title)[1]) for title in shares]
    assert sum(votes) == pytest.approx(32, abs=0.5)  # what is shown are shares of 32 votes
    tab.page.get_by_label("Seed").fill("7")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(".side-body:not(.stale)")
    assert tab.sent("/api/jobs")[-1]["view"]["seed"] == 7


def test_what_was_clicked_can_become_the_explanation_and_survives_a_reload(visit: Callable[..., Tab]) -> None:
    tab = visit(SUMS)
    tab.page.locator("[data-state=hidden]").first.click()
    settled(tab)
    mine = tab.shown()
    tab.page.get_by_role("button", name="Use as the explanation").click()
    tab.until("document.querySelector('.side h2').textContent === 'Your own selection'")
    tab.page.wait_for_selector(".side-body:not(.stale)")
    assert tab.sent("/api/jobs")[-1]["view"]["selected"] == mine
    assert [i for i, state in tab.states().items() if state == "selected"] == mine
    tab.page.reload()
    tab.wait()
    assert [i for i, state in tab.states().items() if state == "selected"] == mine


@pytest.mark.parametrize("button", ["Show all", "Hide all"])
def test_an_explanation_of_everything_or_of_nothing_is_an_explanation(visit: Callable[..., Tab], button: str) -> None:
    tab = visit(SUMS)
    tab.page.get_by_role("button", name=button).click()
    settled(tab)
    tab.page.get_by_role("button", name="Use as the explanation").click()
    tab.until("document.querySelector('.side h2').textContent === 'Your own selection'")
    tab.wait()
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    tab.page.get_by_role("button", name="Draw the curve").click()
    tab.page.get_by_role("button", name="Find what would change it").click()
    tab.page.wait_for_selector(".witness-block .sentence")
    tab.page.wait_for_selector(".certify-block .sentence:not([hidden])")
    tab.page.wait_for_selector("[data-line='Your own selection']")
    assert tab.page.locator(".message:not([hidden])").count() == 0
    assert len(tab.shown()) == (8 if button == "Show all" else 0)


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
    end = time.monotonic() + 5
    while tab.page.evaluate(held) and time.monotonic() < end:
        tab.page.wait_for_timeout(20)
    assert tab.page.evaluate(held) == 0
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
    tab.page.get_by_label("Model").select_option(label="tests.report_support:sums")
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
    assert gone.text_content().startswith("The server has gone; start `holdfast explore` again.")
    again = Serving(workbench, port=first.port)
    gone.wait_for(state="hidden")
    tab.page.wait_for_selector(".counts:text('1 feature added.')")
    settled(tab)
    assert tab.sent("/api/reveal")[-1]["shown"] == tab.shown()
    again.stop()
    other = Serving(workbench, port=first.port, token="another")
    tab.page.locator("[data-state=hidden]").first.click()
    message = tab.page.locator(".message", has_text="every start has another one")
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
        tab.page.get_by_label("Model").select_option(label=f"tests.{name}")
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

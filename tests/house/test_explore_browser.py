"""The page of `holdfast explore` in a real browser: every click and every question is answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.certification.certificate import Certificate
from holdfast.cli import main
from holdfast.explore.workbench import Workbench

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from tests.helpers.explore_pages import Tab
from tests.helpers.explore_tabs import (
    BRIGHT,
    KINDS,
    PARITY,
    SUMS,
    UNEVEN,
    VADER,
    browser,
    check_verdict,
    serving,
    settled,
    visit,
    workbench,
)

__all__ = ["browser", "serving", "visit", "workbench"]


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
    assert re.match(
        r"Stopped after \d+ draws\. The interval so far still holds, as it holds for all looks at once", sentence
    )
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
    tab.page.get_by_role("button", name="Show additions that change the prediction").click()
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

"""Contexts on the report's page and on that of `holdfast explore`, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

import holdfast as hf
from holdfast.cli import main
from holdfast.explore.workbench import open_workbench
from holdfast.report.card import describe_input, glance
from tests.helpers.explore_pages import Serving, Tab
from tests.helpers.readers import CONTEXTS, is_distracted, read, says, uncited
from tests.helpers.report_support import HOSTILE, LONG, Visit, browsing, payload_of

READER = "python:tests.helpers.readers:make"
DISTRACTED = next(i for i, context in enumerate(CONTEXTS.values()) if is_distracted(context) and context.cited == (1,))
WIDTHS = (360, 700, 1000, 1400)
AXE = "axe_playwright_python"


def hostile_answer(prompt: str) -> str:
    """Says something harmful unless the first passage is shown."""
    return "kept [1]" if "[1] " in prompt.partition("\n\nQuestion")[0] else HOSTILE


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contexts")
    inputs = hf.bind(read, "bundled:contexts", template="citing")[:12]
    study = hf.study.run(inputs, ["cited", "random"], store=folder / "study.db", radii=[1, 2])
    return study.report(folder / "report.html", n_gallery=6)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    passages = [HOSTILE, LONG, "A plain passage.", "Another."]
    context = {"question": f"Why {HOSTILE}?", "passages": passages, "cited": [1], "answer": HOSTILE, "label": HOSTILE}
    plain = {"question": "Why?", "passages": ["a", "b"], "cited": [2]}
    inputs = hf.bind(hostile_answer, [context, plain], template="citing")
    study = hf.study.run(inputs, ["cited", "random"], store=folder / "study.db", radii=[1], witness=True)
    return study.report(folder / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as running:
        yield running


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    running = Serving(open_workbench(READER, "bundled:contexts", template="citing"))
    yield running
    running.stop()


@pytest.fixture
def tab(browser: Any, serving: Serving) -> Iterator[Tab]:
    opened = Tab(browser, serving, viewport={"width": 1400, "height": 1000})
    yield opened
    opened.page.close()


def violations(page: Any, looks: Iterable[tuple[Any, int]]) -> list[str]:
    """What axe has to say, and what is wider than the window, in themes and at widths."""
    found = []
    for scheme, width in looks:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"wider than {width}")
        for violation in page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = [node["html"][:120] + str(node.get("failureSummary")) for node in violation["nodes"][:3]]
                found.append(json.dumps([scheme, width, violation["id"], nodes]))
    return found


def test_a_picture_holds_the_question_the_answer_and_the_passages() -> None:
    (context, *_), inputs = CONTEXTS.values(), hf.bind(read, "bundled:contexts")
    model = inputs[0]
    picture = describe_input(context, model, model.feature_names, n_features=6)  # type: ignore[attr-defined]
    assert picture == {
        "kind": "context",
        "question": context.question,
        "answer": "84 metres",
        "passages": list(context.passages),
        "numbered": True,
    }
    assert glance(context, "context") == context.question
    by_name = describe_input(context, None, ["[1] first sentence", "[1] second"], n_features=2)
    assert (by_name["passages"], by_name["numbered"]) == (["[1] first sentence", "[1] second"], False)


def test_cards_show_what_is_selected_what_is_added_and_what_flips(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    (study,) = payload_of(report)["studies"]
    flipped = [entry for entry in study["gallery"] if (entry["explanations"][0]["witness"] or {}).get("found")]
    assert study["kind"] == "context"
    assert flipped
    visit.page.get_by_label("Explained by").select_option(label="Cited passages")
    for entry in study["gallery"]:
        card = visit.page.locator(".card", has=visit.page.locator(f"[data-input='{entry['input']}']"))
        picture, explanation = entry["picture"], entry["explanations"][0]
        assert card.locator(".asked p").first.text_content() == picture["question"]
        assert card.locator(".step").first.locator(".passage").count() == len(picture["passages"])
        shown = card.locator(".step").nth(1).locator(".passage.selected .number").all_text_contents()
        assert shown == [f"[{i + 1}]" for i in explanation["selected"]]
        if entry in flipped:
            last = card.locator(".step.flipped")
            added = last.locator(".passage.added .number").all_text_contents()
            assert added == [f"[{i + 1}]" for i in sorted(explanation["witness"]["added"])]
            assert last.locator(".passage.added .tag").first.text_content() == "added"
            assert "→ something else" in last.locator("figcaption").inner_text()
    visit.page.locator("button.more").first.click()
    dialog = visit.page.locator("dialog")
    n_passages = len(study["gallery"][0]["picture"]["passages"])
    assert dialog.locator(".step").nth(1).locator(".passage").count() == n_passages
    assert dialog.locator(".thumbs.context li").count() > 0
    assert visit.said == []
    visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_issue_on_the_report_at_any_width(browser: Any, report: Path, scheme: str) -> None:
    visit = Visit(browser, report, bypass_csp=True)
    visit.page.evaluate((files(AXE) / "axe.min.js").read_text(encoding="utf-8"))
    found = violations(visit.page, product([scheme], WIDTHS))
    visit.page.locator("button.more").first.click()
    found += violations(visit.page, product([scheme], (360, 1400)))
    visit.close()
    assert found == []


def test_hostile_passages_questions_and_answers_are_text(browser: Any, hostile: Path) -> None:
    visit = Visit(browser, hostile, viewport={"width": 360, "height": 800})
    visit.page.locator("button.more[data-input='0']").click()
    text = visit.page.locator("dialog").inner_text()
    assert HOSTILE in text
    assert f"labelled {HOSTILE}" in text
    assert visit.page.title() != "caught"
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert visit.said == []
    visit.close()


def answer(context: Any, shown: list[int]) -> str:
    return str(uncited(says(context, np.isin(np.arange(len(context.passages)), shown))))


def check_answer(tab: Tab, context: Any, shown: list[int]) -> None:
    """The page shows what the reader says of exactly these passages."""
    said = answer(context, shown)
    tab.until(f"document.querySelector('.now').textContent === {json.dumps(said)}")
    assert tab.shown() == shown


def test_passages_are_clicked_and_the_answer_changes(tab: Tab) -> None:
    context = [*CONTEXTS.values()][DISTRACTED]
    tab.page.locator(".input-choice input").nth(DISTRACTED).check(force=True)
    tab.until(f"document.querySelector('.asked p')?.textContent === {json.dumps(context.question)}")
    assert tab.page.locator(".side h2").text_content() == "Cited passages"
    check_answer(tab, context, [0])
    tiles = tab.page.locator(".side .tile")
    assert tiles.nth(0).get_attribute("aria-label") == (
        f"passage 1: {context.passages[0]}, shown, part of the explanation"
    )
    assert tab.page.locator(".verdict .chip").text_content() == "✓ kept"
    tiles.nth(1).click()
    check_answer(tab, context, [0, 1])
    assert tab.page.locator(".now").text_content() == "something else"
    assert tab.page.locator(".verdict .chip").text_content() == "✗ changed"
    assert (tiles.nth(1).get_attribute("aria-pressed"), tab.states()[1]) == ("true", "added")
    tiles.nth(0).click()
    check_answer(tab, context, [1])
    assert (tiles.nth(0).get_attribute("aria-pressed"), tab.states()[0]) == ("false", "removed")
    tab.page.get_by_role("button", name="Reset to the explanation").click()
    check_answer(tab, context, [0])
    assert tab.said == []
    assert tab.strangers() == []


def test_passages_are_reached_with_the_keyboard(tab: Tab) -> None:
    tab.page.locator(".side .tile[tabindex='0']").focus()
    tab.page.keyboard.press("End")
    tab.page.keyboard.press("ArrowUp")
    n_passages = tab.page.locator(".side .tile").count()
    assert tab.page.evaluate("document.activeElement.dataset.feature") == str(n_passages - 2)
    before = tab.states()[n_passages - 2]
    tab.page.keyboard.press("Space")
    assert (before, tab.states()[n_passages - 2]) == ("hidden", "added")


def test_a_context_is_certified_on_the_page_and_its_script_makes_the_same(
    tab: Tab, capsys: pytest.CaptureFixture[str]
) -> None:
    tab.page.get_by_role("button", name="Certify", exact=True).click()
    sentence = tab.page.locator(".certify-block .sentence:not([hidden])").first
    sentence.wait_for()
    tab.page.get_by_role("button", name="Find what would change it").click()
    tab.page.wait_for_selector(".witness-block .sentence:not([hidden])")
    tab.page.get_by_role("button", name="Python").click()
    script = tab.page.locator("pre").inner_text()
    assert "selected = inputs.raw(0).cited_mask()" in script
    exec(compile(script, "script", "exec"), {})
    assert capsys.readouterr().out.strip() == sentence.text_content()


def test_axe_finds_nothing_in_light_and_dark_on_phones_and_on_desks(browser: Any, serving: Serving) -> None:
    tab = Tab(browser, serving, bypass_csp=True)
    tab.page.evaluate((files(AXE) / "axe.min.js").read_text(encoding="utf-8"))
    tab.page.locator("[data-state=hidden]").first.click()
    tab.page.locator("[data-state=selected]").first.click()
    tab.until("document.querySelector('.counts').textContent.includes('hidden')")
    found = violations(tab.page, product(("light", "dark"), WIDTHS))
    tab.page.close()
    assert found == []


def test_an_input_without_citations_says_so_and_another_method_explains_it(browser: Any, tmp_path: Path) -> None:
    contexts = [*CONTEXTS.values()][:2]
    lines = [
        {"question": context.question, "passages": context.passages, "cited": context.cited} for context in contexts
    ]
    del lines[1]["cited"]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    serving = Serving(open_workbench(READER, f"contexts:{tmp_path / 'qa.jsonl'}", template="citing"))
    tab = Tab(browser, serving)
    check_answer(tab, contexts[0], [number - 1 for number in contexts[0].cited or ()])
    tab.page.locator(".input-choice input").nth(1).check(force=True)
    message = tab.page.locator(".side .message")
    message.wait_for()
    assert "`cited` must name at least one passage of this context" in message.inner_text()
    tab.page.get_by_label("Method").select_option(label="Occlusion")
    tab.until("document.querySelector('.side-body:not(.stale):not([hidden])')")
    assert len(tab.states()) == len(contexts[1].passages)
    tab.page.close()
    serving.stop()


def test_the_command_refuses_what_it_cannot_explore(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--model", READER, "--data", "contexts:no.jsonl"]) == 3
    assert "must be followed by a file of JSON lines" in capsys.readouterr().err
    assert main(["explore", "--model", READER, "--data", "bundled:contexts", "--set", "max_tokens=3"]) == 3
    assert "`--set max_tokens` must be an option of python: models" in capsys.readouterr().err

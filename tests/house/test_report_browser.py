"""The page in a real browser: nothing fails, nothing is fetched, every control works, by keyboard too, for everyone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification.certificate import Certificate
from holdfast.report.page import write_report
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.store import Store
from tests.helpers.report_support import COLUMNS, HOSTILE, LONG, Visit, browsing, payload_of
from tests.helpers.study_support import TRUST

TITLE = f"Three studies {HOSTILE}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def report(folder: Path, stores: list[Path]) -> Path:
    path = folder / "report.html"
    accuracy = {"images": SmoothedAccuracy((1.0, 0.5), (40, 20), 50, 8, 0.95, 100, 1)}
    write_report(stores, path, title=TITLE, n_gallery=4, trust=TRUST, accuracy=accuracy)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as running:
        yield running


@pytest.fixture
def visit(browser: Any, report: Path) -> Iterator[Visit]:
    one = Visit(browser, report)
    yield one
    one.close()


def open_study(visit: Visit, number: int) -> Any:
    visit.page.locator("[role=tab]").nth(number).click()
    return visit.page.locator(f"#panel-{number}")


def open_card(visit: Visit, number: int) -> Any:
    open_study(visit, number).locator("button.more").first.click()
    dialog = visit.page.locator("dialog")
    assert dialog.evaluate("one => one.open")
    return dialog


def test_the_page_loads_without_an_error_and_without_a_request(visit: Visit, report: Path) -> None:
    for number in range(3):
        open_study(visit, number)
    open_card(visit, 1)
    assert visit.said == []
    assert [url for url in visit.asked if not url.startswith("data:")] == [report.resolve().as_uri()]
    assert "http" not in report.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "").replace(
        "http-equiv", ""
    )


def test_hostile_names_texts_and_classes_appear_as_text(visit: Visit) -> None:
    page = visit.page
    assert page.title() == TITLE
    assert page.locator("h1").text_content() == TITLE
    assert HOSTILE in (page.locator("[role=tab]").first.text_content() or "")
    dialog = open_card(visit, 0)
    words = dialog.locator(".words").first.text_content() or ""
    visited = {HOSTILE in words and LONG in words}
    for i in range(1, page.locator("#panel-0 button.more").count()):
        page.keyboard.press("Escape")
        page.locator("#panel-0 button.more").nth(i).click()
        words = dialog.locator(".words").first.text_content() or ""
        visited.add(HOSTILE in words and LONG in words)
    assert visited == {True, False}
    page.keyboard.press("Escape")
    columns = open_card(visit, 2).locator(".columns").first.text_content() or ""
    assert all(name in columns for name in COLUMNS)
    assert page.locator("img[src=x]").count() == 0
    assert page.title() == TITLE


def test_no_name_however_long_makes_the_page_wider_than_a_phone(browser: Any, report: Path) -> None:
    visit = Visit(browser, report, viewport={"width": 390, "height": 844})
    for number in range(3):
        open_study(visit, number)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        rights = visit.page.locator(f"#panel-{number} .controls select").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().right)"
        )
        assert all(right <= 390 - 16 for right in rights)
        open_card(visit, number)
        assert visit.page.locator("dialog").evaluate("one => one.scrollWidth") <= 390
        visit.page.keyboard.press("Escape")
    visit.close()


def test_methods_certificates_bands_and_scales_can_be_chosen(visit: Visit) -> None:
    panel = open_study(visit, 1)
    chart = panel.locator(".chart").first
    lines = chart.locator("[data-line]")
    assert lines.evaluate_all("all => all.map(one => one.dataset.line)") == ["LIME", "Occlusion", "Random"]
    panel.locator("[data-method=occlusion]").click()
    assert lines.evaluate_all("all => all.map(one => one.dataset.line)") == ["LIME", "Random"]
    panel.locator("[data-kind=hard]").click()
    panel.locator("[data-kind='MuS λ = 0.25']").click()
    assert lines.count() == 6
    assert chart.locator(".band").count() == 6
    panel.get_by_label("none").check()
    assert chart.locator(".band").count() == 0
    before = lines.first.locator(".stroke").get_attribute("d")
    panel.get_by_label("logarithmic").check()
    assert lines.first.locator(".stroke").get_attribute("d") != before


def test_curves_show_the_numbers_of_the_summary(visit: Visit, stores: list[Path]) -> None:
    from holdfast.study.summary import summarize_study

    panel = open_study(visit, 1)
    panel.locator("summary", has_text="The same as a table").first.click()
    lines = panel.locator("table.plain").first.locator("tbody tr")
    lines.first.wait_for()  # the table is made when it is opened
    rows = lines.evaluate_all("all => all.map(row => [...row.cells].map(one => one.textContent))")
    expected = summarize_study(stores[1]).group("lime")
    shown = {int(row[0]): row[1] for row in rows}
    for one in expected.soft:
        assert shown[one.radius].startswith(f"{100 * round(one.mean, 5):.1f}".removesuffix(".0") + "%")


def test_certified_differences_are_told_in_percentage_points_rounded_outwards(
    browser: Any, stores: list[Path], folder: Path
) -> None:
    from holdfast.report.html import render_page

    write_report(stores[2], folder / "plain.html", n_gallery=0, use_model=False)
    payload = payload_of(folder / "plain.html")
    payload["studies"][0]["rankings"][0]["claims"] = [
        {"better": "lime", "worse": "random", "low": 0.05351, "high": 0.93812}
    ]
    (folder / "claims.html").write_text(render_page(payload), encoding="utf-8")
    visit = Visit(browser, folder / "claims.html")
    told = visit.page.locator(".ranking .claims li").all_text_contents()
    assert told == ["LIME is more stable than Random by 5.3 to 93.9 percentage points"]
    visit.close()


def test_hovering_tells_the_values_at_a_radius(visit: Visit) -> None:
    chart = open_study(visit, 1).locator(".figure").first
    chart.locator("svg").hover()
    told = chart.locator(".told")
    assert told.is_visible()
    assert "radius" in told.text_content()
    assert "LIME" in told.text_content()


def test_smoothed_curves_are_shown_when_they_are_asked_for(visit: Visit) -> None:
    panel = open_study(visit, 0)
    panel.get_by_label("keep probabilities").check()
    labels = (
        panel.locator(".chart").first.locator("[data-line]").evaluate_all("all => all.map(one => one.dataset.line)")
    )
    assert labels == ["λ = 1", "λ = 0.75"]


def test_accuracy_is_drawn_where_it_was_measured(visit: Visit) -> None:
    assert open_study(visit, 1).get_by_text("What smoothing costs").is_visible()
    assert open_study(visit, 0).get_by_text("What smoothing costs").count() == 0


def test_the_table_is_searched_filtered_and_sorted(visit: Visit) -> None:
    panel = open_study(visit, 0)
    rows = panel.locator("table.inputs tbody tr")
    assert rows.count() == 6
    panel.get_by_label("Search").fill("ZOO BOO".lower())
    panel.get_by_label("Search").fill("<script>")
    assert 0 < rows.count() < 7
    panel.get_by_label("Search").fill("no such input")
    assert rows.count() == 0
    panel.get_by_label("Search").fill("")
    panel.get_by_label("Show").select_option(label="misclassified")
    wrong = rows.count()
    assert 0 < wrong < 6
    panel.get_by_label("Show").select_option(label="all inputs")
    header = panel.locator("th[data-key='rate random'] button")
    header.click()
    rates = rows.locator("td.rate:last-of-type, td.rate").evaluate_all("all => all.length")
    assert rates == 18
    column = [
        float(text.split("%")[0])
        for text in rows.evaluate_all("all => all.map(row => row.querySelectorAll('td.rate')[2].textContent)")
    ]
    assert column == sorted(column)
    assert panel.locator("th[data-key='rate random']").get_attribute("aria-sort") == "ascending"
    panel.locator("th[data-key='rate random'] button").click()
    again = [
        float(text.split("%")[0])
        for text in rows.evaluate_all("all => all.map(row => row.querySelectorAll('td.rate')[2].textContent)")
    ]
    assert again == sorted(column, reverse=True)


@pytest.mark.parametrize("number", [0, 1, 2], ids=["texts", "images", "rows"])
def test_an_input_opens_with_its_curve_its_sentence_its_draws_and_its_certificate(
    visit: Visit, stores: list[Path], number: int
) -> None:
    dialog = open_card(visit, number)
    assert dialog.locator(".chart [data-line]").count() == 1
    slider = dialog.locator("input[type=range]")
    for place, radius in enumerate((1, 2, 4)):
        slider.fill(str(place))
        assert f"radius {radius}" in dialog.locator("output").text_content()
        assert f"up to {radius} more feature" in dialog.locator(".sentence").text_content()
        cells = dialog.locator(".thumbs > li")
        kept = dialog.locator(".thumbs > li.kept").count()
        assert cells.count() == 16
        assert dialog.locator(".draws h4").text_content() == f"Sampled additions: {kept} of 16 keep the prediction"
    dialog.locator("summary", has_text="The certificate as JSON").click()
    shown = Certificate.from_json(dialog.locator("pre").first.text_content())
    with Store(stores[number]) as store:
        stored = [one for result in store.results() for one in result.curve if one.radius == 4]
    assert shown in stored


def test_an_input_of_the_table_opens_even_if_it_is_not_in_the_gallery(visit: Visit) -> None:
    panel = open_study(visit, 0)
    panel.locator("table.inputs tr:not(:has(.badge)) button.link").first.click()
    dialog = visit.page.locator("dialog")
    assert dialog.locator(".chart [data-line]").count() == 3
    assert "file of results" in dialog.text_content()


def test_witnesses_show_both_predictions(visit: Visit) -> None:
    flipped = open_study(visit, 0).locator(".card:has(.step.flipped)").first
    captions = flipped.locator("figcaption strong").all_text_contents()
    assert len(captions) == 3
    assert captions[1] != captions[2]
    assert flipped.locator("mark.added").count() > 0


def test_everything_can_be_reached_and_done_with_the_keyboard(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#tab-0").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-1"
    assert page.locator("#panel-1").is_visible()
    assert page.locator("#panel-0").is_hidden()
    page.locator("#panel-1 .chart").first.focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#said").text_content()
    assert first.startswith("radius 1: LIME")
    page.keyboard.press("End")
    assert page.locator("#said").text_content().startswith("radius 4: LIME")
    button = page.locator("#panel-1 button.more").first
    button.focus()
    page.keyboard.press("Enter")
    slider = page.locator("dialog input[type=range]")
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "radius 2"
    page.keyboard.press("Escape")
    assert not page.locator("dialog").evaluate("one => one.open")
    assert button.evaluate("one => one === document.activeElement")


def test_the_theme_follows_the_system_until_it_is_chosen(browser: Any, report: Path) -> None:
    visit = Visit(browser, report, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = visit.page.evaluate(background)
    visit.page.locator("#theme").click()
    assert visit.page.locator("#theme").text_content() == "Theme: light"
    assert visit.page.evaluate(background) != dark
    visit.page.locator("#theme").click()
    assert visit.page.evaluate(background) == dark
    visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_issue(browser: Any, report: Path, scheme: str) -> None:
    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    visit = Visit(browser, report, color_scheme=scheme, bypass_csp=True)
    visit.page.evaluate(axe)
    found = []
    for number in range(3):
        open_study(visit, number)
        found += serious(visit)
        open_card(visit, number).locator("summary").first.click()
        found += serious(visit)
        visit.page.keyboard.press("Escape")
    visit.close()
    assert found == []


def serious(visit: Visit) -> list[str]:
    result = visit.page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        json.dumps([one["id"], [node["html"][:120] + str(node.get("failureSummary")) for node in one["nodes"][:3]]])
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_printing_shows_every_study(visit: Visit, folder: Path) -> None:
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert [visit.page.locator(f"#panel-{i}").is_visible() for i in range(3)] == [True] * 3
    visit.page.emulate_media(media="print")
    assert visit.page.locator(".controls").first.is_hidden()
    assert "keep probability" in visit.page.locator(".hero details").inner_text()
    visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert [visit.page.locator(f"#panel-{i}").is_visible() for i in range(3)] == [True, False, False]


def test_without_scripts_the_findings_can_be_read(browser: Any, report: Path) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(report.resolve().as_uri())
    assert page.locator(".sentences li").count() == 3
    assert "need JavaScript" in page.content()
    page.close()


@pytest.mark.slow
def test_the_page_of_ten_thousand_items_is_small_and_opens_quickly() -> None:
    from benchmarks.bench_report import run

    figures = {figure.name: figure for figure in run()}
    assert figures["size of that page"].kept
    assert figures["open that page, until it can be used"].kept


def test_the_features_that_methods_need_are_a_table(browser: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).uniform(1, 2, size=(20, 8))
    inputs = hf.bind(lambda rows: np.stack([rows[:, 0], np.full(len(rows), 0.5)], axis=1), rows, fill=0.0)
    path, page = tmp_path / "study.db", tmp_path / "report.html"
    scores = {"first": np.tile(np.arange(8, 0, -1.0), (20, 1)), "last": np.tile(np.arange(8.0), (20, 1))}
    hf.study.run(inputs, scores, store=path, top_fractions=[0.25, 0.5], radii=[1, 2])
    write_report(path, page, use_model=False, calibrate={"min_rate": 0.9})
    visit = Visit(browser, page)
    table = visit.page.locator("section[aria-labelledby^=sizes] table")
    assert table.locator("caption").text_content() == "Features needed"
    cells = [row.locator("th, td").all_text_contents() for row in table.locator("tr").all()]
    expected = [["method", "radius 1", "radius 2"], ["first", "top 0.25", "top 0.25"], ["last", "all", "all"]]
    assert cells == expected
    assert visit.said == []
    visit.close()

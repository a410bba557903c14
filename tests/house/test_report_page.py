"""What a page says is what the results say: claims, rows, certificates, draws, pictures; it is written whole or not."""

from __future__ import annotations

import base64
import io
import json
import shutil
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import lookup_table, mask_function
from holdfast.agreement import same_top_class
from holdfast.bounds import Interval
from holdfast.certification.certificate import Certificate
from holdfast.cli import main
from holdfast.errors import HoldfastError
from holdfast.evaluation import Evaluator
from holdfast.masking.image.pixels import grid
from holdfast.report import page as pages
from holdfast.report.card import _cell, cut_text, describe_input, png_uri, text_parts
from holdfast.report.claims import flip_sizes, headline, headline_terms, joint_means, main_groups, unlike_counts
from holdfast.report.gallery import choose_inputs, reduce_flip
from holdfast.report.html import as_bytes, embed_json, render_page
from holdfast.report.rows import CHANGED, UNKNOWN, UNREADABLE, read_rows, study_accuracy
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.session import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MusSpec
from holdfast.study.store import Store
from holdfast.study.summary import summarize_study
from holdfast.words import outward, percent, shares
from tests.helpers.report_support import (
    CLASSES,
    PageData,
    brightness,
    image_spec,
    moods,
    payload_of,
    table_spec,
    text_spec,
)
from tests.helpers.study_support import TRUST, edit

write_report = partial(pages.write_report, trust=TRUST)


@pytest.fixture(scope="module")
def payload(stores: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(stores, path, n_gallery=4)
    return payload_of(path)


# -- what is claimed --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 2], ids=["texts", "images", "rows"])
def test_curves_are_those_of_the_summary(stores: list[Path], payload: dict[str, Any], number: int) -> None:
    summary = summarize_study(stores[number])
    for shown, one in zip(payload["studies"][number]["groups"], summary.groups, strict=True):
        soft, hard, votes = shown["curves"]
        for drawn, means in ((soft, one.soft), (hard, one.hard), (votes, one.mus[0].rates)):
            assert drawn["mean"] == [round(at.mean, 5) for at in means]
            assert drawn["low"] == pytest.approx([at.guaranteed.low for at in means if at.guaranteed], abs=1.01e-5)
            assert all(
                low <= at.guaranteed.low + 1e-10 for low, at in zip(drawn["low"], means, strict=True) if at.guaranteed
            )
            assert drawn["bootstrap_high"] == pytest.approx(
                [at.approximate.high for at in means if at.approximate], abs=1.01e-5
            )


def test_the_ranking_claims_exactly_the_certified_pairs(tmp_path: Path) -> None:
    spec = text_spec(tmp_path / "texts", n=60, witness=False, mus=MusSpec(), name="many")
    run_study(spec, tmp_path / "many.db")
    write_report(tmp_path / "many.db", tmp_path / "page.html", n_gallery=0)
    summary = summarize_study(tmp_path / "many.db")
    study = payload_of(tmp_path / "page.html")["studies"][0]
    n_claims = 0
    for one in study["rankings"]:
        cut = {"top_fraction": one["top_fraction"], "keep_probability": one["keep_probability"]}
        claimed = {(claim["better"], claim["worse"]) for claim in one["claims"]}
        assert claimed == set(summary.ranking(one["radius"], **cut))
        assert one["radius"] == 4
        n_claims += len(claimed)
        for claim in one["claims"]:
            joint = summary.difference(claim["better"], claim["worse"], **cut)[4].joint
            assert (claim["low"], claim["high"]) == tuple(joint)
            assert claim["low"] > 0
    assert n_claims > 0
    assert "more stable" in study["findings"][0]


def test_the_headline_names_methods_by_their_results_so_that_its_intervals_hold_for_all_of_them(
    stores: list[Path],
) -> None:
    summary = summarize_study(stores[2])
    groups = sorted(summary.groups, key=lambda one: -one.soft[-1].mean)
    with Store(stores[2]) as store:
        joint = joint_means(store, main_groups(summary))
    told, terms = headline(summary, joint), headline_terms(summary, joint)
    stricter = summarize_study(stores[2], confidence=float(1 - (1 - Fraction("0.95")) / 3))
    for one in (groups[0], groups[-1]):
        interval = stricter.group(one.method).soft[-1].guaranteed
        alone = one.soft[-1].guaranteed
        assert interval is not None
        assert alone is not None
        assert interval.low <= alone.low <= alone.high <= interval.high
        assert interval != alone
        assert f"{percent(one.soft[-1].mean)} ({shares(interval)})" in told
    assert "guaranteed with 95% confidence for all 3 methods at once" in terms
    assert len(told.split()) <= 25


def test_what_votes_prove_is_said_with_the_accuracy_of_the_smoothed_model(stores: list[Path], tmp_path: Path) -> None:
    measured = {"rows": SmoothedAccuracy((1.0, 0.25), (40, 4), 50, 8, 0.95, 100, 1)}
    for accuracy, words in (
        (measured, "λ = 0.25, accuracy 8% on 50 inputs"),
        (None, "λ = 0.25, accuracy not measured"),
    ):
        write_report(stores[2], tmp_path / "page.html", n_gallery=0, use_model=False, accuracy=accuracy)
        study = payload_of(tmp_path / "page.html")["studies"][0]
        assert sum(words in sentence for sentence in study["findings"]) == 1


def test_random_selections_are_not_counted_among_explanations(stores: list[Path]) -> None:
    with Store(stores[0]) as store:
        rows = read_rows(store)
    meant = [one for one in rows.groups if one.key.method != "random" and one.key.keep_probability == 1]
    assert len(meant) == 2
    flags = np.concatenate([one.consistent for one in meant])
    assert unlike_counts(rows) == ((flags == 0).sum(), np.isfinite(flags).sum())
    assert len(flip_sizes(rows)) == sum((~np.isnan(one.flips)).sum() for one in meant)


# -- what is shown ----------------------------------------------------------------------------------


def test_the_table_holds_the_stored_rates(stores: list[Path], payload: dict[str, Any]) -> None:
    table = payload["studies"][0]["table"]
    with Store(stores[0]) as store:
        stored = {(row["input"], row["method"], row["keep_probability"], row["radius"]): row for row in store.rows()}
    for group in table["groups"]:
        for radius, rates in zip((1, 2, 4), group["rates"], strict=True):
            for place, index in enumerate(table["input"]):
                row = stored[index, group["method"], group["keep_probability"], radius]
                assert rates[place] == pytest.approx(row["rate"], abs=5e-5)
                assert group["consistent"][place] == row["consistent"]
    assert table["right"] == [int(a == b) for a, b in zip(table["label"], table["prediction"], strict=True)]
    assert set(table["prediction"]) <= set(CLASSES)


def test_certificates_are_put_together_again_as_they_were_stored(stores: list[Path], payload: dict[str, Any]) -> None:
    for number, path in enumerate(stores):
        with Store(path) as store:
            stored = {result.key: result for result in store.results()}
        for entry in payload["studies"][number]["gallery"]:
            for one in entry["explanations"]:
                keep = 0.75 if "0.75" in one["title"] else 1.0
                result = stored[f"{entry['input']}/{one['method']}/0.25/{keep!r}"]
                for own, certificate in zip(one["certificates"], result.curve, strict=True):
                    fields = one["shared"]["fields"] | own["json"]
                    text = ", ".join(f'"{name}": {fields[name]}' for name in one["shared"]["order"])
                    assert Certificate.from_json(f"{{{text}}}") == certificate
                    # Picked for its result, it is shown with the interval that holds for all it was picked from.
                    interval = certificate.interval_if_picked(len(stored))
                    assert (own["low"], own["high"]) == interval
                    said = f"Stable in {shares(interval)} of cases (90% confidence for all {len(stored)} "
                    assert own["sentence"].startswith(str(certificate) if certificate.exact else said)
                    assert len(own["sentence"].split()) <= 25
                assert one["selected"] == np.flatnonzero(result.selected).tolist()


def unpacked(packed: str, n_features: int) -> np.ndarray[Any, Any]:
    bits = np.unpackbits(np.frombuffer(base64.b64decode(packed), dtype=np.uint8), count=n_features)
    return bits.astype(bool)


def test_draws_are_additions_within_the_radius_and_are_judged_by_the_model(payload: dict[str, Any]) -> None:
    study = payload["studies"][0]
    score, n_flipped = moods(), 0
    for entry in study["gallery"]:
        words = [text for text, feature in entry["picture"]["parts"] if feature is not None]
        for one in entry["explanations"]:
            if one["draws"] is None:
                assert "smoothed" in one["title"]
                continue
            selected = np.isin(np.arange(entry["n_features"]), one["selected"])
            before = score([" ".join(np.array(words)[selected])])[0].argmax()
            for radius, at in zip(one["radii"], one["draws"]["at"], strict=True):
                for packed, flip in zip(at["masks"], at["flipped"], strict=True):
                    added = unpacked(packed, entry["n_features"])
                    assert not (added & selected).any()
                    assert added.sum() <= radius
                    now = score([" ".join(np.array(words)[selected | added])])[0].argmax()
                    assert (flip is not None) == (now != before)
                    n_flipped += flip is not None
                    assert flip is None or one["draws"]["classes"][flip] == CLASSES[now]
    assert n_flipped > 0


def test_changes_that_are_shown_change_the_prediction_and_cannot_be_made_smaller(
    stores: list[Path], payload: dict[str, Any]
) -> None:
    from PIL import Image

    folder, groups, score = stores[1].parent / "image_spec", grid((12, 16), 3, 4), brightness()

    def predict(pixels: Any, shown: set[int]) -> int:
        return int(score((pixels * np.isin(groups, list(shown))[..., None])[None])[0].argmax())

    n_found = 0
    for entry in payload["studies"][1]["gallery"]:
        with Image.open(folder / entry["title"]) as image:
            pixels = np.asarray(image)
        for one in entry["explanations"]:
            if (flip := one["witness"]) is None:
                continue
            n_found += 1
            selected, added = set(one["selected"]), set(flip["added"])
            before = predict(pixels, selected)
            assert predict(pixels, selected | added) != before
            assert all(predict(pixels, selected | (added - {feature})) == before for feature in added)
            assert flip["prediction"] == ("up", "down")[1 - before]
    assert n_found > 0


@given(st.integers(0, 2**32 - 1))
def test_a_reduced_change_still_changes_the_prediction_and_needs_each_of_its_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = Evaluator(lookup_table(rng.normal(size=(2**7, 2)), n_features=7))
    selected = rng.random(7) < 0.3
    top = model(selected[None])[0].argmax()
    changing = next((mask for mask in _supersets(selected, rng) if model(mask[None])[0].argmax() != top), None)
    if changing is None:
        return
    found = reduce_flip(model, selected, changing, same_top_class)
    assert (found >= selected).all()
    assert (found <= changing).all()
    assert model(found[None])[0].argmax() != top
    for feature in np.flatnonzero(found & ~selected):
        smaller = found.copy()
        smaller[feature] = False
        assert model(smaller[None])[0].argmax() == top


def _supersets(selected: Any, rng: np.random.Generator) -> list[Any]:
    return [selected | (rng.random(7) < 0.7) for _ in range(20)]


# -- which inputs -----------------------------------------------------------------------------------


def test_the_gallery_takes_inputs_by_its_rules_in_turn(stores: list[Path]) -> None:
    with Store(stores[0]) as store:
        rows = read_rows(store)
    last = np.array([one.rates[-1] for one in rows.groups if one.key.keep_probability == 1])
    chosen = choose_inputs(rows, 6)
    assert [len(choose_inputs(rows, most)) for most in range(8)] == [0, 1, 2, 3, 4, 5, 6, 6]
    assert len(chosen) == 6
    first: dict[str, int] = {}
    for place, why in chosen.items():
        first.setdefault(why, place)
    assert first["among the least stable"] == last.mean(axis=0).argmin()
    assert list(choose_inputs(rows, 3).items()) == list(chosen.items())[:3]


# -- pictures ---------------------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(0, 99))
def test_pixels_survive_the_way_into_the_page(height: int, width: int, channels: int, seed: int) -> None:
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 256, size=(height, width, channels), dtype=np.uint8)
    content = base64.b64decode(png_uri(pixels).partition(",")[2])
    with Image.open(io.BytesIO(content)) as image:
        assert np.array_equal(np.asarray(image).reshape(pixels.shape), pixels)


def test_the_map_of_features_is_that_of_the_model() -> None:
    class Bound:
        n_features = 3
        elements = np.zeros((4, 6, 1), dtype=np.uint8)
        groups = np.array([[0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 2, 2], [0, 0, 1, 1, 1, -1], [0, 0, 1, 1, 2, 2]])

    found = describe_input(None, Bound(), None, n_features=3)["groups"]  # type: ignore[arg-type]
    runs = np.array(found["runs"]).reshape(-1, 2)
    assert np.array_equal(np.repeat(runs[:, 0], runs[:, 1]).reshape(4, 6), Bound.groups)


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=60), min_size=1, max_size=8))
def test_a_text_keeps_every_character_and_every_feature_its_word(words: list[str]) -> None:
    from holdfast.masking.text.strings import preview

    text = "  ".join(words)
    parts = text_parts(text, [preview(word) for word in words])
    assert [feature for _, feature in parts if feature is not None] == list(range(len(words)))
    if "".join(piece for piece, _ in parts) == text:
        assert [piece for piece, feature in parts if feature is not None] == words


def test_a_text_is_cut_at_the_places_of_its_features() -> None:
    assert cut_text("it is.", [(0, 2), (3, 5)]) == [["it", 0], [" ", None], ["is", 1], [".", None]]


# -- the file ---------------------------------------------------------------------------------------


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.dictionaries(st.text(), inner)))
def test_any_data_survive_the_way_into_the_page_and_cannot_leave_their_element(data: Any) -> None:
    text = embed_json(data)
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == data


def test_half_characters_as_in_broken_file_names_do_not_stop_the_page() -> None:
    page = as_bytes(render_page({"title": "t", "findings": [], "studies": [], "name": "caf\udce9.png"}))
    assert b"caf\\udce9.png" in page
    page.decode("utf-8")


def test_only_the_scripts_and_the_style_of_the_page_may_run(stores: list[Path], tmp_path: Path) -> None:
    write_report(stores[2], tmp_path / "page.html", n_gallery=0)
    parser = PageData()
    parser.feed((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert parser.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in parser.policy
    assert "http" not in parser.policy


def test_a_page_without_the_model_needs_neither_the_model_nor_the_data(stores: list[Path], tmp_path: Path) -> None:
    spec = text_spec(tmp_path / "texts", n=3)
    run_study(spec, tmp_path / "texts.db")
    shutil.rmtree(tmp_path / "texts")
    with pytest.raises(HoldfastError, match="--no-model"):
        write_report(tmp_path / "texts.db", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    write_report(tmp_path / "texts.db", tmp_path / "page.html", use_model=False)
    study = payload_of(tmp_path / "page.html")["studies"][0]
    one = study["gallery"][0]["explanations"][0]
    assert one["draws"] is None
    assert "without the model" in one["no_draws"]
    assert study["gallery"][0]["picture"]["columns"]


def test_an_image_without_the_model_has_the_grid_of_its_masking(stores: list[Path], tmp_path: Path) -> None:
    write_report(stores[1], tmp_path / "page.html", use_model=False)
    picture = payload_of(tmp_path / "page.html")["studies"][0]["gallery"][0]["picture"]
    assert picture["groups"] == {"rows": 3, "cols": 4}
    assert picture["png"].startswith("data:image/png")


SECRET = "what lies here now"


def change_texts(folder: Path) -> None:
    lines = (folder / "test_text.txt").read_text(encoding="utf-8").splitlines()
    (folder / "test_text.txt").write_text(
        "\n".join(f"{SECRET} {i}" for i in range(len(lines))) + "\n", encoding="utf-8"
    )


def change_images(folder: Path) -> None:
    from PIL import Image

    for path in folder.iterdir():
        Image.fromarray(np.full((12, 16, 3), 7, dtype=np.uint8)).save(path)


def change_rows(folder: Path) -> None:
    import pandas

    table = pandas.read_csv(folder / "table.csv")
    (table + 1000).to_csv(folder / "table.csv", index=False)


@pytest.mark.parametrize(
    ("make", "change"), [(text_spec, change_texts), (image_spec, change_images), (table_spec, change_rows)]
)
def test_a_page_without_the_model_shows_no_input_but_those_of_the_results(
    make: Any, change: Any, tmp_path: Path
) -> None:
    path, page = tmp_path / "results.db", tmp_path / "page.html"
    run_study(make(tmp_path / "data", n=3), path)
    write_report(path, page, use_model=False)
    before = payload_of(page)["studies"][0]["gallery"]
    assert {entry["not_shown"] for entry in before} == {None}
    assert not any(is_empty(entry["picture"]) for entry in before)
    change(tmp_path / "data")
    write_report(path, page, use_model=False)
    gallery = payload_of(page)["studies"][0]["gallery"]
    assert {entry["not_shown"] for entry in gallery} == {CHANGED}
    assert all(is_empty(entry["picture"]) for entry in gallery)
    assert SECRET not in page.read_text(encoding="utf-8")
    edit(path, "UPDATE listing SET digest = NULL")
    write_report(path, page, use_model=False)
    assert {entry["not_shown"] for entry in payload_of(page)["studies"][0]["gallery"]} == {UNKNOWN}
    shutil.rmtree(tmp_path / "data")
    write_report(path, page, use_model=False)
    assert {entry["not_shown"] for entry in payload_of(page)["studies"][0]["gallery"]} == {UNREADABLE}


def is_empty(picture: dict[str, Any]) -> bool:
    """Whether nothing of the input is shown: the names of its features at most."""
    return picture["kind"] == "table" and all(value is None for _, value in picture["columns"])


def test_inputs_that_changed_since_are_refused(tmp_path: Path) -> None:
    run_study(text_spec(tmp_path / "texts", n=3), tmp_path / "texts.db")
    lines = (tmp_path / "texts" / "test_text.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "texts" / "test_text.txt").write_text(
        "\n".join([lines[0], lines[2], lines[1]]) + "\n", encoding="utf-8"
    )
    with pytest.raises(HoldfastError, match="must be the same as when it was explained"):
        write_report(tmp_path / "texts.db", tmp_path / "page.html")


def test_a_page_that_fails_leaves_the_old_one(stores: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    with pytest.raises(HoldfastError, match="does not exist; it must be a file of results"):
        write_report([stores[0], tmp_path / "missing.db"], page)
    assert page.read_text() == "old"
    with pytest.raises(HoldfastError, match="a different file from the results"):
        write_report(stores[2], stores[2], use_model=False)
    with pytest.raises(HoldfastError, match="at least one file"):
        write_report([], page)
    with pytest.raises(HoldfastError, match="`n_gallery` must be a whole number"):
        write_report(stores[0], page, n_gallery=-1)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    spec = table_spec(tmp_path / "rows")
    run_study(spec, tmp_path / "rows.db", inputs=range(2))
    write_report(tmp_path / "rows.db", tmp_path / "page.html")
    study = payload_of(tmp_path / "page.html")["studies"][0]
    (note,) = study["notes"]
    assert note.startswith("9 explanations not computed yet")
    assert "guaranteed only if" in note
    assert len(study["table"]["input"]) == 2


def test_a_study_of_means_is_shown_with_its_own_intervals(tmp_path: Path) -> None:
    certify = CertifySpec(radii=(1, 3), precision="data-set", half_width=0.2)
    run_study(table_spec(tmp_path / "rows", certify=certify, mus=MusSpec()), tmp_path / "rows.db")
    write_report(tmp_path / "rows.db", tmp_path / "page.html", n_gallery=2)
    study = payload_of(tmp_path / "page.html")["studies"][0]
    summary = summarize_study(tmp_path / "rows.db")
    assert [one["curves"][0]["mean"] for one in study["groups"]] == [
        [round(at.mean, 5) for at in one.soft] for one in summary.groups
    ]
    assert study["table"]["groups"][0]["rates"] == []
    assert study["gallery"][0]["explanations"][0]["certificates"] == []
    assert len(study["gallery"][0]["explanations"][0]["draws"]["at"]) == 2


def test_accuracy_is_that_of_counting_right_answers(tmp_path: Path) -> None:
    spec = text_spec(tmp_path / "texts", n=6)
    found = study_accuracy(spec, n_inputs=6, keep_probabilities=[1.0], n_samples=4)
    texts = (tmp_path / "texts" / "test_text.txt").read_text(encoding="utf-8").splitlines()
    assert found.n_correct == (sum(int(moods()([text])[0].argmax()) == i % 2 for i, text in enumerate(texts)),)
    with pytest.raises(HoldfastError, match="no labelled input"):
        study_accuracy(
            replace(table_spec(tmp_path / "rows"), data=DataSpec(f"table:{tmp_path}/rows/table.csv")), n_inputs=3
        )


def test_the_command_writes_the_page_and_says_where(
    stores: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    asked = [
        "study",
        "report",
        str(stores[0]),
        str(stores[1]),
        "--output",
        str(page),
        "--set",
        "n_gallery=1",
        "--set",
        "title=Two",
    ]
    assert main([*asked, "--no-model", "--set", "confidence=0.9"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"Report: {page}"
    found = payload_of(page)
    assert found["findings"] == printed[:-1]
    assert (found["title"], found["schema"], found["schema_version"]) == ("Two", "holdfast.report", 1)
    assert len(found["studies"][1]["gallery"]) == 1
    assert main(["study", "report", str(tmp_path / "none.db")]) == 3


def test_a_model_of_labels_can_be_shown(tmp_path: Path) -> None:
    model = mask_function(lambda masks: np.where(masks[:, 3], "spam", "ham"), n_features=6)
    mask = reduce_flip(Evaluator(model), np.arange(6) < 2, np.ones(6, dtype=bool), same_top_class)
    assert np.flatnonzero(mask).tolist() == [0, 1, 3]


def test_images_are_shown_as_the_model_sees_them(tmp_path: Path) -> None:
    spec = image_spec(tmp_path / "images", n=2)
    run_study(spec, tmp_path / "images.db")
    write_report(tmp_path / "images.db", tmp_path / "page.html")
    entry = payload_of(tmp_path / "page.html")["studies"][0]["gallery"][0]
    assert (entry["picture"]["width"], entry["picture"]["height"]) == (16, 12)
    assert entry["picture"]["groups"] == {"rows": 3, "cols": 4}
    assert entry["title"].endswith("<b>'\"&🌊 שלום.png")


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 5))
def test_intervals_are_rounded_outwards(a: float, b: float, digits: int) -> None:
    exact = Interval(min(a, b), max(a, b))
    shown = outward(exact, digits)
    assert shown.low <= exact.low + 1e-6 / 10**digits
    assert shown.high >= exact.high - 1e-6 / 10**digits
    assert max(exact.low - shown.low, shown.high - exact.high) <= 1.001 / 10**digits
    assert 0 <= shown.low <= shown.high <= 1


def test_a_page_is_about_one_state_of_a_file_that_a_run_is_writing(
    stores: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.report import page

    path = tmp_path / "live.db"
    shutil.copy(stores[2], path)
    n_before = len(summarize_study(path).groups)
    real = page.summarize_study

    def summarize_then_lose_items(store: Store, **asked: Any) -> Any:
        summary = real(store, **asked)
        edit(path, "DELETE FROM rates WHERE item IN (SELECT item FROM items WHERE method = 'random')")
        edit(path, "DELETE FROM items WHERE method = 'random'")
        return summary

    monkeypatch.setattr(page, "summarize_study", summarize_then_lose_items)
    write_report(path, tmp_path / "page.html", n_gallery=0, use_model=False)
    assert len(payload_of(tmp_path / "page.html")["studies"][0]["table"]["groups"]) == n_before == 3
    assert len(summarize_study(path).groups) == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (64400.0, "64,400"),
        (12.3456, "12.35"),
        (float("nan"), "missing"),
        (None, "missing"),
        ("tenant", "tenant"),
        (3, "3"),
    ],
)
def test_cells_of_a_row_are_said_as_people_write_them(value: Any, words: str) -> None:
    assert _cell(value) == words

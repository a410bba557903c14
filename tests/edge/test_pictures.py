"""Results are drawn by methods of their own: on the input that the model knows, or as lines and bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

import holdfast as hf
from holdfast.certification.citations import CitationCertificate
from holdfast.cli import main
from holdfast.errors import InvalidTypeError, InvalidValueError, MissingExtraError
from holdfast.report.figures.examples import HIDDEN, input_model
from holdfast.report.figures.style import COLOURS
from holdfast.study import run_study
from tests.helpers.study_support import make_spec, write_texts

TEXT = "The food was not bad at all, but the service was a horrible disappointment"
ROW = ["--model", "bundled:cancer-forest", "--input", "bundled:cancer#13"]
TOP = ["--method", "occlusion", "--top", "3"]


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def row() -> Any:
    """A benign tumour whose prediction three more columns change."""
    return hf.bind("bundled:cancer-forest", "bundled:cancer")[18]


@pytest.fixture(scope="module")
def text() -> Any:
    return hf.bind("bundled:vader", [TEXT], features="words")[0]


@pytest.fixture(scope="module")
def digit() -> Any:
    return hf.bind("bundled:digits-vit", "bundled:digits", features=(8, 8))[2]


def marked(axes: Any) -> dict[str, str]:
    """The words or columns of a picture that stand on a ground of their own → the colour of its edge."""
    if axes.patches:
        patches = [(patch.get_y() + patch.get_height() / 2, patch.get_x(), patch) for patch in axes.patches]
        names = {(round(text.get_position()[1], 3), text.get_position()[0]): text.get_text() for text in axes.texts}
        return {names[round(y, 3), x + 1]: to_hex(patch.get_edgecolor()).upper() for y, x, patch in patches}
    frames = {text.get_text(): text.get_bbox_patch() for text in axes.texts}
    return {word: to_hex(frame.get_edgecolor()).upper() for word, frame in frames.items() if frame is not None}


def test_a_row_is_a_list_of_names_and_values_with_those_that_change_the_prediction(row: Any) -> None:
    selected = hf.top(hf.attribute(row, "occlusion", rng=0), 3)
    witness = hf.find_witness(row, selected, max_radius=4, rng=0)
    axes = witness.show(row)
    assert axes.get_title() == "'benign' becomes 'malignant'"
    words = [text.get_text() for text in axes.texts]
    assert words[: 2 * 2] == ["mean radius", "14.99", "mean texture", "25.2"]
    assert len(words) == 2 * 30
    names = np.array(row.feature_names)
    wanted = dict.fromkeys(names[selected], COLOURS["blue"]) | dict.fromkeys(
        names[list(witness.added)], COLOURS["orange"]
    )
    assert marked(axes) == wanted
    legend = axes.get_legend()
    assert legend is not None
    assert [entry.get_text() for entry in legend.get_texts()] == ["selected", "added: another prediction"]


def test_of_a_wide_row_what_is_selected_is_listed_and_the_rest_is_counted() -> None:
    names = [f"column {i}" for i in range(100)]
    classifier = hf.mask_tabular(
        lambda rows: (rows[:, 99] > 0).astype(int), np.arange(100.0), fill=np.zeros(100), columns=names
    )
    axes = hf.certify(classifier, np.arange(100) >= 98, radius=1, rng=0).show(classifier)
    assert set(marked(axes)) == {"column 98", "column 99"}
    assert axes.texts[-1].get_text() == "and 60 other columns"


def test_a_text_shows_every_word_and_frames_what_is_selected_added_or_hidden(text: Any) -> None:
    selected = np.array([word in ("horrible", "disappointment") for word in text.feature_names])
    certificate = hf.certify(text, selected, radius=6, rng=0)
    axes = certificate.show(text)
    assert [entry.get_text() for entry in axes.texts] == TEXT.split()
    assert certificate.counterexample is not None
    added = np.array(TEXT.split())[certificate.counterexample & ~selected]
    assert marked(axes) == dict.fromkeys(["horrible", "disappointment"], COLOURS["blue"]) | dict.fromkeys(
        added, COLOURS["orange"]
    )
    fewer = hf.certify(text, np.ones(14, dtype=bool), radius=6, neighborhood="removals", rng=0)
    assert fewer.counterexample is not None
    hidden = np.array(TEXT.split())[~fewer.counterexample]
    shown = marked(fewer.show(text))
    assert {word for word, colour in shown.items() if colour == COLOURS["vermilion"]} == set(hidden)


def test_a_token_that_the_model_does_not_know_is_shown_as_it_is_written() -> None:
    model = hf.bind("bundled:lexicon-roberta", ["It costs $5, sadly"])[0]
    axes = hf.certify(model, np.arange(model.n_features) < 1, radius=1, rng=0).show(model)
    assert "<unk>" in model.feature_names  # type: ignore[attr-defined]
    drawn = "".join(text.get_text() for text in axes.texts)
    assert drawn.replace(chr(92), "") == "Itcosts$5,sadly", "a dollar sign begins no formula"


def test_an_image_shows_what_is_selected_or_added_and_hides_the_rest(digit: Any) -> None:
    selected = hf.top(hf.attribute(digit, "occlusion", rng=0), 12)
    witness = hf.find_witness(digit, selected, max_radius=3, rng=0)
    axes = witness.show(digit)
    pixels = np.asarray(axes.images[0].get_array())
    seen = ~np.isclose(pixels, HIDDEN).all(axis=2)
    assert set(np.unique(digit.groups[seen])) == {*np.flatnonzero(selected), *witness.added}
    assert [patch.get_hatch() for patch in axes.patches] == ["///"]
    swapped = hf.certify(digit, selected, radius=8, neighborhood="swaps", rng=0).show(digit)
    assert [patch.get_hatch() for patch in swapped.patches] == ["///", "xxx"]
    legend = swapped.get_legend()
    assert legend is not None
    assert [entry.get_text() for entry in legend.get_texts()][1:] == ["added", "hidden; both: another prediction"]


def test_what_remembers_smooths_or_completes_a_model_shows_its_input(text: Any) -> None:
    assert input_model(hf.Evaluator(hf.smooth(hf.Evaluator(text), 0.5, 8, rng=0))) is text
    others = np.random.default_rng(0).random((3, 8, 8, 1))
    model = hf.mask_image(lambda images: images.mean(axis=(1, 2)), others[0], fill=hf.resample(others))
    certificate = hf.certify(model, np.arange(model.n_features) < 3, radius=1, agree=hf.agreement.within(0.1), rng=0)
    assert len(certificate.show(model).images) == 1


@pytest.mark.parametrize(
    ("ask", "title"),
    [
        (lambda model, mask: hf.certify_hard(model, mask, radius=1, max_enumerated=99, rng=0), "always kept up to"),
        (
            lambda model, mask: hf.certify_hard(model, mask, radius=1, max_enumerated=1, rng=0),
            "kept by 22 random masks",
        ),
        (lambda model, mask: hf.certify_hard(model, mask, radius=9, rng=0), "not always kept up to radius 9"),
        (lambda model, mask: hf.certify(model, mask, radius=1, rng=0), "kept in 100% of cases up to radius 1"),
        (
            lambda model, mask: hf.certified_radius(model, mask, min_rate=0.5, radii=[1], rng=0),
            "kept in at least 50% of cases up to radius 1",
        ),
        (
            lambda model, mask: hf.certified_radius(model, mask, min_rate=0.5, radii=[17], rng=0),
            "at no radius certified to be kept",
        ),
        (lambda model, mask: hf.find_witness(model, mask, max_radius=1, rng=0), "no change found"),
    ],
)
def test_the_title_says_what_was_found(ask: Any, title: str) -> None:
    model = hf.mask_function(lambda masks: masks[:, 0] & (masks.sum(axis=1) < 9), n_features=20)
    axes = ask(model, np.arange(20) < 3).show(model)
    assert title in axes.get_title().replace("\n", " ")
    assert [entry.get_text() for entry in axes.texts] == [f"feature {i}" for i in range(20)]


def test_a_model_of_another_input_or_none_is_refused(text: Any) -> None:
    other, shorter = (hf.bind("bundled:vader", [words], features="words")[0] for words in (TEXT[::-1], "not bad"))
    certificate = hf.certify(text, np.arange(14) < 2, radius=1, rng=0)
    for model, must in ((other, "be bound to the input of the result"), (shorter, "have 14 features")):
        with pytest.raises(InvalidValueError, match=f"^`model` must {must}"):
            certificate.show(model)
    with pytest.raises(InvalidTypeError, match=r"^`model` must be a MaskedModel"):
        certificate.show(TEXT)  # type: ignore[arg-type]


def test_lines_and_bars_are_drawn_on_a_figure_that_pyplot_shows_or_on_the_axes_given(text: Any) -> None:
    selected = np.arange(14) < 2
    curve = hf.certify_radii(text, selected, radii=[1, 2], rng=0)
    comparison = hf.compare(text, {"a": selected, "b": ~selected}, [1], rng=0)
    mean = hf.mean_curve([lambda: (text, selected)] * 2, radii=[1], half_width=0.3, rng=0)
    scores, radius = hf.attribute(text, "occlusion"), hf.certified_radius(text, selected, min_rate=0.1, rng=0)
    accuracy = hf.smoothed_accuracy(lambda model: model, [text], [0], keep_probabilities=[0.5, 1.0], n_samples=4)
    for result in (curve, comparison, mean, scores, radius, accuracy):
        assert result.plot().figure.number in plt.get_fignums()
    _, axes = plt.subplots()
    assert curve.plot(axes) is axes
    assert curve.plot(ax=axes).get_ylabel() == "stability rate"


def test_a_picture_without_matplotlib_says_how_to_get_it(text: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = hf.certify_radii(text, np.arange(14) < 2, radii=[1, 2], rng=0)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (curve.plot, lambda: curve[1].show(text)):
        with pytest.raises(MissingExtraError, match=r"^Figures need matplotlib: pip install 'holdfast\[report\]'"):
            draw()
    assert "<svg" in curve._repr_html_(), "notebooks have a picture all the same"


def test_citations_are_drawn_with_the_passages_that_change_the_answer() -> None:
    passages = ["It is wet.", "It is late.", "It was dry before."]
    context = hf.mask_context(
        lambda prompt: "rain" if passages[0] in prompt and passages[2] not in prompt else "sun",
        passages,
        question="What is the weather?",
        reference="rain",
    )
    certificate = hf.certify_citations(context, [1])
    assert isinstance(certificate, CitationCertificate)
    colours = list(marked(certificate.show(context)).values())
    assert colours == [COLOURS["blue"], COLOURS["orange"]]


@pytest.mark.parametrize(("ending", "begins"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")])
def test_the_command_line_draws_by_the_ending(ending: str, begins: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"picture.{ending}"
    assert main(["certify", *ROW, *TOP, "--radius", "1", "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("picture.txt", "argument --plot: must end in .png, .svg or .pdf, got 'picture.txt'"),
        ("picture", "must end in .png, .svg or .pdf, got 'picture'"),
        ("no/folder/picture.png", "argument --plot: must be in a folder that exists, got 'no/folder/picture.png'"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    file: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["certify", "--model", "python:no.such:model", *ROW[2:], *TOP, "--radius", "1", "--plot", file])
    assert told in capsys.readouterr().err


def test_a_summary_of_a_study_is_drawn_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_study(make_spec(write_texts(tmp_path / "texts", 3)), tmp_path / "a.db")
    for asked in ([], ["--calibrate", "0.5"]):
        picture = tmp_path / f"summary{len(asked)}.svg"
        assert main(["study", "summary", str(tmp_path / "a.db"), *asked, "--plot", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"<?xml")
    assert main(["study", "summary", str(tmp_path / "a.db"), "--plot", str(picture), "--plot", str(picture)]) == 3
    assert "`--plot` must name each file once" in capsys.readouterr().err

"""The experiments as a whole: their names, what they write, that they repeat and resume byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from holdfast.errors import InvalidValueError, ModelError, StudyError
from holdfast.reproduce import EXPERIMENTS, Request, find_experiment, make_subject, reproduce
from holdfast.reproduce.catalog import IDS, RESNET, ROBERTA
from holdfast.reproduce.experiment import short_name, unselected
from holdfast.reproduce.measures import N_MASKS, SIZES
from tests.helpers.reproduce_support import (
    LIMIT,
    contents,
    pictures_subject,
    read_rows,
    request,
    texts_subject,
)

PAPER = {
    "q1-sca-vs-mus",
    "q2-methods",
    "q3-smoothing",
    "q4-accuracy",
    "topk-ablation",
    "mus-by-lambda",
    "batching-table",
    "masking-vs-flipping",
    "example-unstable",
    "example-similar",
    "example-soft-vs-hard",
}

STUDIES: dict[str, dict[str, Any]] = {
    "q1-sca-vs-mus": {"methods": ("occlusion", "random"), "radii": (1, 2, 5)},
    "q2-methods": {"methods": ("lime", "random"), "radii": (1, 3)},
    "q3-smoothing": {"radii": (1, 4, 11), "keep": (1.0, 0.5), "min_tokens": 2},
    "topk-ablation": {"methods": ("occlusion", "random"), "radii": (1, 3)},
    "mus-by-lambda": {"methods": ("occlusion", "random"), "radii": (1, 2)},
}
"""Experiments that are studies, with what makes them small."""

OTHERS: dict[str, dict[str, Any]] = {
    "q4-accuracy": {"keep": (1.0, 0.5, 0.25)},
    "example-unstable": {"methods": ("occlusion",)},
    "example-similar": {"methods": ("occlusion", "lime"), "radii": (1, 3)},
    "example-soft-vs-hard": {"methods": ("occlusion",), "radii": (1, 2, 4)},
}


def run(name: str, tmp_path: Path, folder: str = "out", **changes: Any) -> Path:
    subject = texts_subject(tmp_path / "texts", 4)
    reproduce(name, request(subject, **(STUDIES | OTHERS)[name] | changes), output=tmp_path / folder)
    return tmp_path / folder


def test_every_experiment_of_the_paper_has_a_name() -> None:
    assert set(IDS) == PAPER
    assert len(EXPERIMENTS) == len(PAPER)
    assert all(one.title and one.shows for one in EXPERIMENTS)


def test_a_name_is_found_by_how_it_begins_and_an_unknown_one_by_the_nearest() -> None:
    assert find_experiment("q3").id == "q3-smoothing"
    assert find_experiment("q3-smoothing").id == "q3-smoothing"
    with pytest.raises(InvalidValueError, match="could be example-unstable, example-similar, example-soft-vs-hard"):
        find_experiment("example")
    with pytest.raises(InvalidValueError, match="Did you mean 'batching-table'"):
        find_experiment("batch-table")
    with pytest.raises(InvalidValueError, match="must be one of"):
        find_experiment("")


@pytest.mark.parametrize("name", [*STUDIES, *OTHERS])
def test_an_experiment_writes_data_figure_and_findings_and_repeats_them_byte_for_byte(
    name: str, tmp_path: Path
) -> None:
    first = contents(run(name, tmp_path, "first"))
    second = contents(run(name, tmp_path, "second"))
    assert first == second
    assert {"figure.svg", "figure.png", "findings.md"} <= first.keys()
    assert first["figure.svg"].startswith(b"<?xml")
    assert first["figure.png"].startswith(b"\x89PNG")
    tables = {Path(file).stem for file in first if file.endswith(".csv")}
    assert tables
    assert {f"{table}.parquet" for table in tables} <= first.keys()
    assert "seconds" not in b"".join(first[f"{table}.csv"].split(b"\n")[0] for table in tables).decode()
    assert len(first["findings.md"]) > 200
    for table in tables:
        check_same_rows(tmp_path / "first" / f"{table}.csv")


def check_same_rows(file: Path) -> None:
    """The table in Parquet is that in CSV."""
    table, rows = pandas.read_parquet(file.with_suffix(".parquet")), read_rows(file)
    assert list(table.columns) == file.read_text(encoding="utf-8").splitlines()[0].split(",")
    assert len(table) == len(rows)
    numbers = table.select_dtypes("float64")
    for column in numbers:
        told = [float(row[column]) if row[column] else np.nan for row in rows]
        np.testing.assert_array_equal(numbers[column].to_numpy(), told)


@pytest.mark.parametrize("name", ["q1-sca-vs-mus", "q3-smoothing"])
def test_a_study_that_was_interrupted_ends_with_the_same_files(name: str, tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 4)
    asked = request(subject, **STUDIES[name])
    seen: list[int] = []

    def stop(moment: Any) -> None:
        seen.append(moment.n_done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(name, asked, output=tmp_path / "resumed", progress=stop)
    assert not (tmp_path / "resumed" / "findings.md").exists()
    reproduce(name, asked, output=tmp_path / "resumed", progress=seen.append)
    assert len(seen) == 8, "no item is computed twice"
    reproduce(name, asked, output=tmp_path / "fresh")
    assert contents(tmp_path / "resumed") == contents(tmp_path / "fresh")


def test_accuracy_that_broke_down_goes_on_with_the_parts_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = texts_subject(tmp_path / "texts", 30, factory="reproduce_support:frail_moods")
    asked = request(subject, keep=(1.0, 0.5))
    monkeypatch.setitem(LIMIT, "calls", 10**6)
    reproduce("q4", asked, output=tmp_path / "fresh")
    used = 10**6 - LIMIT["calls"]
    monkeypatch.setitem(LIMIT, "calls", used - 2)
    with pytest.raises((ModelError, RuntimeError), match="out of order"):
        reproduce("q4", asked, output=tmp_path / "resumed")
    assert len(list((tmp_path / "resumed" / "parts").iterdir())) == 1
    monkeypatch.setitem(LIMIT, "calls", used // 2)  # too few for both parts
    reproduce("q4", asked, output=tmp_path / "resumed")
    assert contents(tmp_path / "resumed") == contents(tmp_path / "fresh")


def test_workers_change_no_file(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 3)
    asked = request(subject, **STUDIES["q2-methods"])
    reproduce("q2", asked, output=tmp_path / "alone")
    reproduce("q2", asked, output=tmp_path / "together", workers=2)
    assert contents(tmp_path / "alone") == contents(tmp_path / "together")


@pytest.mark.slow
def test_bundled_models_give_the_same_files_twice_whatever_the_workers(tmp_path: Path) -> None:
    asked = Request(subjects=(RESNET, ROBERTA), n=2, methods=("lime", "mfaba"), radii=(1, 8))
    for name, changes in (("q1", {}), ("q3", {"methods": None, "keep": (1.0, 0.5)})):
        some = replace(asked, **changes)
        reproduce(name, some, output=tmp_path / f"{name}-alone")
        reproduce(name, some, output=tmp_path / f"{name}-together", workers=2)
        assert contents(tmp_path / f"{name}-alone") == contents(tmp_path / f"{name}-together")


def test_another_seed_gives_other_draws(tmp_path: Path) -> None:
    one = (run("q2-methods", tmp_path, "one") / "certificates.csv").read_bytes()
    other = (run("q2-methods", tmp_path, "other", seed=1) / "certificates.csv").read_bytes()
    assert one != other


def test_a_folder_with_results_of_another_question_is_refused(tmp_path: Path) -> None:
    run("q2-methods", tmp_path)
    with pytest.raises(StudyError, match="choose another --output, or remove"):
        run("q2-methods", tmp_path, radii=(1, 2))


def test_fewer_inputs_than_are_stored_give_the_files_of_those_alone(tmp_path: Path) -> None:
    run("q2-methods", tmp_path, "more")
    fewer = contents(run("q2-methods", tmp_path, "more", n=2))
    assert fewer == contents(run("q2-methods", tmp_path, "few", n=2))


def test_options_without_effect_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="`precision` is not an option of q1-sca-vs-mus"):
        reproduce("q1", Request(precision="data-set"), output=tmp_path)
    with pytest.raises(InvalidValueError, match="`n` must be a whole number ≥ 1"):
        reproduce("q1", Request(n=0), output=tmp_path)
    with pytest.raises(InvalidValueError, match="`precision` must be one of"):
        reproduce("q2", Request(precision="sloppy"), output=tmp_path)
    assert not list(tmp_path.iterdir())


def test_more_inputs_than_there_are_is_an_error(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 3)
    for name in ("q4-accuracy", "example-unstable"):
        with pytest.raises(InvalidValueError, match="`--n` must be at most 3, the number of inputs"):
            reproduce(name, request(subject, n=4), output=tmp_path / name)


def test_means_alone_are_computed_when_the_data_set_is_what_counts(tmp_path: Path) -> None:
    folder = run("q2-methods", tmp_path, precision="data-set")
    rows = read_rows(folder / "curves.csv")
    assert not (folder / "certificates.csv").exists()
    assert {row["kind"] for row in rows} == {"soft"}
    assert all(row["guaranteed_low"] and not row["approximate_low"] for row in rows)
    assert len(rows) == 4
    assert len(read_rows(folder / "differences.csv")) == 2
    findings = (folder / "findings.md").read_text(encoding="utf-8")
    assert "that holds at 90%" in findings
    assert "bootstrap" not in findings, "there is none"


def test_pictures_go_through_every_example(tmp_path: Path) -> None:
    subject = pictures_subject(tmp_path / "pictures", 4)
    for name, changes in OTHERS.items():
        reproduce(name, request(subject, **changes), output=tmp_path / name)
        assert (tmp_path / name / "figure.png").stat().st_size > 5000


def test_the_paper_s_least_length_of_a_text_holds_only_for_data_that_are_not_bundled() -> None:
    q3 = find_experiment("q3")
    far = make_subject("bundled:vader", "bundled:sentences")
    assert {one.data.min_features for one in q3.chosen(Request())} == {1}
    assert [one.data.min_features for one in q3.chosen(Request(subjects=(far,)))] == [1]
    assert [one.data.min_features for one in q3.chosen(Request(subjects=(far,), min_tokens=5))] == [5]


@pytest.mark.parametrize(("there", "asked", "taken"), [(205, None, 200), (3, None, 3), (3, 9, 9)])
def test_texts_of_others_have_the_paper_s_least_length_and_number(
    tmp_path: Path, there: int, asked: int | None, taken: int
) -> None:
    subject = texts_subject(tmp_path / "texts", there)
    [chosen] = find_experiment("q3").chosen(Request(subjects=(subject,), n=asked))
    assert (chosen.data.min_features, chosen.data.n) == (40, taken)


def test_subjects_are_named_after_their_models() -> None:
    assert short_name("hf:./models/my vit/") == "my-vit"
    assert make_subject("bundled:vader", "bundled:sentences").kind == "text"
    with pytest.raises(InvalidValueError, match="`grid` must be left out"):
        make_subject("bundled:vader", "bundled:sentences", grid=(2, 2))


def test_radii_of_a_grid_end_where_nothing_is_left_to_reveal(tmp_path: Path) -> None:
    pictures = pictures_subject(tmp_path, 2)
    subject = make_subject(pictures.model.spec, pictures.data.spec, kind="image", grid=(8, 8))
    assert subject.reachable((1, 40, 60, 147)) == (1, 40, 48)


def test_bundled_radii_end_where_nothing_is_left_to_reveal() -> None:
    from holdfast import data, models

    classifier = models.load("bundled:lexicon-roberta")
    sizes = [classifier.bind(text).n_features for text in data.load("bundled:sentences").inputs]
    assert max(sizes) == ROBERTA.n_features
    assert ROBERTA.reachable((1, 40), (0.25,)) == (1, max(unselected(n, 0.25) for n in sizes))
    assert RESNET.reachable((1, 20, 40, 147), (0.125, 0.25, 0.375, 0.5)) == (1, 20, 32, 40, 48, 56)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (
            "example-unstable",
            {"methods": ("lime", "shap")},
            "`methods` must name exactly one for example-unstable, got 2",
        ),
        (
            "example-soft",
            {"methods": ("lime", "shap")},
            "`methods` must name exactly one for example-soft-vs-hard, got 2",
        ),
        ("example-similar", {"methods": ("lime",)}, "`methods` must name exactly 2 for example-similar, got 1"),
        ("example-similar", {"methods": ("lime", "lime")}, "`methods` must name each method once, got lime, lime"),
        (
            "example-similar",
            {"subjects": (RESNET, ROBERTA)},
            "`model` must name exactly one for example-similar, got 2",
        ),
        (
            "example-soft",
            {"subjects": (RESNET, ROBERTA)},
            "`model` must name exactly one for example-soft-vs-hard, got 2",
        ),
        ("example-unstable", {"methods": ("limes",)}, "Did you mean 'lime'"),
        ("q2", {"methods": ()}, "`methods` must not be empty"),
        ("q2", {"radii": ()}, "`radii` must not be empty"),
        ("q2", {"subjects": ()}, "`model` must not be empty"),
        ("q4", {"keep": ()}, "`keep` must not be empty"),
        ("q4", {"keep": (0.5, 0.0)}, "`keep` must be numbers above 0 and at most 1, got 0"),
        ("masking", {"keep": (1.5,)}, "`keep` must be numbers above 0 and at most 1, got 1.5"),
    ],
)
def test_what_an_experiment_cannot_use_is_refused_before_anything_runs(
    name: str, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        reproduce(name, Request(**changes), output=tmp_path)
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_processor_time_is_measured_on_the_processor_alone(tmp_path: Path) -> None:
    def on(device: str) -> Request:
        return Request(subjects=(make_subject("bundled:vader", "bundled:sentences", device=device),))

    with pytest.raises(InvalidValueError, match=r"`device` must be cpu for batching-table, .* got 'cuda'"):
        reproduce("batching", on("cuda"), output=tmp_path)
    find_experiment("batching").check(on("cpu"))
    find_experiment("q1").check(on("cuda"))


def test_every_batch_that_is_timed_is_full() -> None:
    assert [N_MASKS % size for size in SIZES] == [0, 0, 0, 0]


def test_titles_promise_no_conclusion() -> None:
    for one in EXPERIMENTS:
        assert not {"more", "less", "higher", "lower", "differ", "moves", "shrinks"} & set(one.title.lower().split())

"""Which inputs an experiment takes: the first that are long enough, rows of a table with labels; and who says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.errors import InvalidValueError, StudyError
from holdfast.reproduce import Request, Subject, make_subject, reproduce
from holdfast.reproduce.catalog import find_experiment
from holdfast.reproduce.experiment import PlannedRun, StudyPreset
from holdfast.reproduce.studies import study_spec
from holdfast.study.store import Store
from tests.helpers.reproduce_support import contents, read_rows, request, texts_subject

SMALL: dict[str, Any] = {"methods": ("occlusion", "random"), "radii": (1, 2)}
LONG = (2, 3, 7, 8, 11)
"""The texts of twelve that have six words; the others have three."""


def lengths_subject(folder: Path, *, blank: int | None = None) -> Subject:
    """Twelve texts of which five are long enough for six tokens."""
    subject = texts_subject(folder, 12)
    path = folder / "test_text.txt"
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    words = [" ".join(line[: 6 if number in LONG else 3]) for number, line in enumerate(lines)]
    texts = ["  " if number == blank else line for number, line in enumerate(words)]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return subject


def inputs_of(folder: Path) -> list[int]:
    return sorted({int(row["input"]) for row in read_rows(folder / "certificates.csv")})


@pytest.mark.parametrize(
    ("n", "taken", "words"),
    [
        (1, LONG[:1], "moods: 2 of the first 3 inputs have fewer than 6 features and are left out."),
        (3, LONG[:3], "moods: 5 of the first 8 inputs have fewer than 6 features and are left out."),
        (5, LONG, "moods: 7 of the first 12 inputs have fewer than 6 features and are left out."),
        (9, LONG, "moods: 7 of the first 12 inputs have fewer than 6 features and are left out."),
        (None, LONG, "moods: 7 of the first 12 inputs have fewer than 6 features and are left out."),
    ],
)
def test_the_first_inputs_that_are_long_enough_are_taken_and_the_others_counted(
    n: int | None, taken: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    subject = lengths_subject(tmp_path / "texts")
    told = reproduce("q2", request(subject, n=n, min_tokens=6, **SMALL), output=tmp_path / "out").findings
    assert inputs_of(tmp_path / "out") == list(taken)
    assert words in told
    assert f"moods, {len(taken)} input" in told


@pytest.mark.parametrize("name", ["q1", "q2", "q3", "topk", "mus-by", "example-unstable"])
def test_every_experiment_that_leaves_inputs_out_says_how_many(name: str, tmp_path: Path) -> None:
    subject = lengths_subject(tmp_path / "texts", blank=0)
    changes = {"methods": ("occlusion",)} if name == "example-unstable" else SMALL
    told = reproduce(name, request(subject, n=2, min_tokens=6, **changes), output=tmp_path / "out").findings
    assert "moods: 2 of the first 4 inputs have fewer than 6 features and are left out." in told


def test_where_none_is_too_short_nothing_is_said_of_length(tmp_path: Path) -> None:
    told = reproduce("q2", request(lengths_subject(tmp_path / "texts"), n=3, **SMALL), output=tmp_path / "out").findings
    assert "left out" not in told
    assert inputs_of(tmp_path / "out") == [0, 1, 2]


def test_more_long_inputs_go_on_in_the_same_file_and_end_as_if_asked_for_at_once(tmp_path: Path) -> None:
    subject = lengths_subject(tmp_path / "texts")
    for n in (2, 4, 3):
        reproduce("q2", request(subject, n=n, min_tokens=6, **SMALL), output=tmp_path / "grown")
        reproduce("q2", request(subject, n=n, min_tokens=6, **SMALL), output=tmp_path / f"fresh-{n}")
        assert contents(tmp_path / "grown") == contents(tmp_path / f"fresh-{n}")


def test_a_study_that_was_stored_when_short_inputs_counted_goes_on(tmp_path: Path) -> None:
    """Before, ``n`` was the number of inputs that were looked at: of the first four, two were long enough."""
    subject = lengths_subject(tmp_path / "texts")
    asked = request(subject, n=2, min_tokens=6, **SMALL)
    reproduce("q2", asked, output=tmp_path / "out")
    with Store(tmp_path / "out" / "moods.db") as store:
        assert store.spec.data.n == 4
        before = store.digests()
    reproduce("q2", replace(asked, n=4), output=tmp_path / "out")
    with Store(tmp_path / "out" / "moods.db") as store:
        assert before.items() <= store.digests().items()
    assert inputs_of(tmp_path / "out") == list(LONG[:4])


@pytest.mark.parametrize("n", [3, None])
@pytest.mark.parametrize("name", ["q2", "example-unstable"])
def test_where_every_input_is_too_short_one_sentence_says_so_and_nothing_is_stored(
    name: str, n: int | None, tmp_path: Path
) -> None:
    subject = texts_subject(tmp_path / "texts", 4)
    changes = {"methods": ("occlusion",)}
    with pytest.raises(InvalidValueError, match="`min_tokens` must be smaller for moods, got 99: every input has"):
        reproduce(name, request(subject, n=n, min_tokens=99, **changes), output=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.db"))


def test_the_paper_s_own_least_length_is_named_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="`min_tokens` must be smaller for moods, got 40"):
        reproduce("q3", request(texts_subject(tmp_path / "texts", 4)), output=tmp_path / "out")


def test_lengths_are_looked_at_without_calling_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.helpers.reproduce_support import LIMIT

    monkeypatch.setitem(LIMIT, "calls", 0)
    long = lengths_subject(tmp_path / "texts")
    frail = replace(long.model, spec="python:tests.helpers.reproduce_support:frail_moods")
    subject = Subject("frail", "text", frail, replace(long.data, n=3, min_features=6))
    experiment = find_experiment("q2")
    preset = experiment.procedure
    assert isinstance(preset, StudyPreset)
    planned = PlannedRun(experiment, Request(), tmp_path)
    cases: list[tuple[dict[str, Any], int | None]] = [({}, 8), ({"n": None}, None), ({"min_features": 1}, 3)]
    for changes, n in [*cases, ({"n": 13}, 13)]:  # the study refuses the last
        assert study_spec(planned, preset, replace(subject, data=replace(subject.data, **changes))).data.n == n
    with pytest.raises(InvalidValueError, match="must be at most 12, the number of inputs, got 13"):
        reproduce("q2", request(subject, n=13, min_tokens=6, **SMALL), output=tmp_path / "out")


def write_table(folder: Path) -> tuple[str, str, float]:
    """A table with labels in words, a skops model of its other columns, and how often that is right."""
    pandas, skops_io = pytest.importorskip("pandas"), pytest.importorskip("skops.io")
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(30, 4))
    words = np.where(numbers @ [2.0, -1.0, 0.5, 0.0] + rng.normal(size=30) > 0, "yes", "no")
    estimator = LogisticRegression().fit(numbers, words)
    folder.mkdir(parents=True, exist_ok=True)
    skops_io.dump(estimator, folder / "model.skops")
    table = pandas.DataFrame(numbers, columns=list("abcd"))
    table.insert(2, "truth", words)
    table.to_csv(folder / "table.csv", index=False)
    return f"skops:{folder / 'model.skops'}", f"table:{folder / 'table.csv'}", float(estimator.score(numbers, words))


def test_the_labels_of_a_table_are_a_column_that_is_named(tmp_path: Path) -> None:
    model, data, right = write_table(tmp_path / "given")
    subject = make_subject(model, data, target="truth")
    command = ["q4", "--model", model, "--data", data, "--set", "target=truth", "--keep", "1,1/2"]
    assert main(["reproduce", *command, "--output", str(tmp_path / "q4")]) == 0
    rows = read_rows(tmp_path / "q4" / "accuracy.csv")
    assert {int(row["n_inputs"]) for row in rows} == {30}
    assert float(rows[0]["accuracy"]) == pytest.approx(right)
    assert 0.5 < right < 1
    told = reproduce(
        "q2", Request(subjects=(subject,), n=3, methods=("lime", "random"), radii=(1,)), output=tmp_path / "q2"
    ).findings
    assert "model.skops, 3 inputs" in told
    assert "LIME, top 25%" in told


def test_a_table_whose_labels_were_not_named_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    model, data, _ = write_table(tmp_path / "given")
    subject = make_subject(model, data)
    with pytest.raises(
        InvalidValueError, match=r"`--data` must have labels .* Name their column with --set target=COLUMN\."
    ):
        reproduce("q4", Request(subjects=(subject,)), output=tmp_path / "q4")
    asked = Request(subjects=(subject,), n=2, methods=("random",))
    with pytest.raises(
        StudyError, match=r"the 4 columns .*, got 5\. With `holdfast reproduce`: --set target=COLUMN names"
    ):
        reproduce("q2", asked, output=tmp_path / "q2")


def test_a_column_that_is_not_there_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    model, data, _ = write_table(tmp_path / "given")
    with pytest.raises(
        InvalidValueError, match=r"`target` must be one of a, b, truth, c, d, got 'truht'. Did you mean"
    ):
        make_subject(model, data, target="truht")


@pytest.mark.parametrize(
    ("name", "methods", "remedy"),
    [
        ("q2", None, "With `holdfast reproduce`: --methods lime,shap,random."),
        ("example-unstable", ("mfaba",), "With `holdfast reproduce`: --methods lime."),
        ("example-similar", ("lime", "mfaba"), "With `holdfast reproduce`: --methods lime,shap."),
    ],
)
def test_a_model_without_gradients_is_told_which_methods_do_without(
    name: str, methods: tuple[str, ...] | None, remedy: str, tmp_path: Path
) -> None:
    subject = texts_subject(tmp_path / "texts", 2)
    with pytest.raises((StudyError, TypeError)) as caught:
        reproduce(name, request(subject, methods=methods), output=tmp_path / "out")
    assert "needs a model with gradients" in str(caught.value)
    assert str(caught.value).endswith(remedy)


def test_what_needs_gradients_is_refused_before_other_methods_take_their_time_and_the_remedy_helps(
    tmp_path: Path,
) -> None:
    subject = texts_subject(tmp_path / "texts", 2)
    with pytest.raises(StudyError, match="needs a model with gradients"):
        reproduce("q2", request(subject, radii=(1,)), output=tmp_path / "out")
    with Store(tmp_path / "out" / "moods.db") as store:
        assert not store.keys()
    asked = request(subject, radii=(1,), methods=("lime", "shap", "random"))
    assert reproduce("q2", asked, output=tmp_path / "out").files

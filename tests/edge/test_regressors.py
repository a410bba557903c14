"""Models that give a number: loaded, bound, certified, studied, exported and shown, with what scikit-learn predicts."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.cli import main
from holdfast.inputs.data.dataset import Dataset
from holdfast.report.page import write_report
from holdfast.report.rows import study_accuracy
from holdfast.study import (
    CertifySpec,
    DataSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
    export_study,
    read_spec,
    run_study,
    schema,
)
from holdfast.study.store import Store
from tests.helpers.study_support import as_version_3

pandas = pytest.importorskip("pandas")
skops = pytest.importorskip("skops.io")

from sklearn.datasets import load_diabetes  # noqa: E402
from sklearn.ensemble import RandomForestRegressor  # noqa: E402
from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.multiclass import OneVsRestClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

FRAME: Any = load_diabetes(as_frame=True).frame
X, Y = FRAME.drop(columns="target"), FRAME["target"]
RIDGE = make_pipeline(StandardScaler(), Ridge(0.01)).fit(X, Y)
N_INPUTS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regressor and rows with the right numbers, some of which are half of a whole."""
    place = tmp_path_factory.mktemp("regression")
    skops.dump(RIDGE, place / "ridge.skops")
    rows = FRAME.head(30).copy()
    rows["target"] = rows["target"] + np.where(np.arange(30) % 2, 0.5, 0.0)
    rows.to_csv(place / "rows.csv", index=False)
    return place


def study_of(folder: Path, agree: str = "within_percent(5)", **parts: Any) -> StudySpec:
    return StudySpec(
        ModelSpec(f"skops:{folder / 'ridge.skops'}"),
        DataSpec(f"table:{folder / 'rows.csv'}", n=N_INPUTS, order="first", options={"target": "target"}),
        (MethodSpec("occlusion"), MethodSpec("random")),
        certify=CertifySpec((1, 3), agree=agree),
        **parts,
    )


@pytest.fixture(scope="module")
def stored(folder: Path) -> Path:
    path = folder / "results.db"
    assert run_study(study_of(folder, witness=True), path).status.settled
    return path


# -- load and bind ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "regressor",
    [
        Ridge(0.01),
        make_pipeline(StandardScaler(), Ridge()),
        RandomForestRegressor(5, random_state=0),
        GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
    ],
    ids=lambda regressor: type(regressor).__name__,
)
def test_a_regressor_is_bound_once_it_is_fitted_and_gives_its_own_numbers(regressor: Any) -> None:
    with pytest.raises(hf.errors.InvalidTypeError, match=r"must be a fitted classifier or regressor, got "):
        hf.bind(regressor, X)
    inputs = hf.bind(regressor.fit(X, Y), X, labels=Y.tolist())
    predicted = regressor.predict(X)
    assert (inputs.kind, inputs.classes) == ("table", ())
    np.testing.assert_array_equal(inputs.classifier.predict(X)[:, 0], predicted)
    for index in (0, 7):
        assert inputs.label(index) == Y[index]
        full = inputs[index](np.ones((1, 10), dtype=bool))
        np.testing.assert_allclose(full, [[predicted[index]]], rtol=1e-12)
        cert = hf.certify(inputs[index], [0, 2, 8], radius=10, agree=hf.agreement.within(1e9), rng=0)
        assert (cert.rate, cert.consistent, type(cert.prediction)) == (1.0, True, float)


def test_a_regressor_is_loaded_from_a_skops_file(folder: Path) -> None:
    model = hf.models.load(f"skops:{folder / 'ridge.skops'}")
    assert (model.kind, model.classes) == ("table", ())
    np.testing.assert_array_equal(model.predict(X)[:, 0], RIDGE.predict(X))


def test_a_regressor_on_texts_keeps_its_numbers() -> None:
    texts = ["a good day", "a bad day", "no day at all"]
    regressor = make_pipeline(TfidfVectorizer(), Ridge()).fit(texts, [1.0, -1.0, 0.25])
    inputs = hf.bind(regressor, texts, labels=[1.0, -0.5, 0.25])
    assert inputs.kind == "text"
    np.testing.assert_array_equal(inputs.classifier.predict(texts)[:, 0], regressor.predict(texts))
    assert [inputs.label(i) for i in range(3)] == [1.0, -0.5, 0.25]
    cert = hf.certify(inputs[0], [1], radius=1, agree="same_side(0.5)", rng=0)
    shown = regressor.predict(["good"])[0]  # the other words are left out
    assert cert.prediction == ("at least 0.5" if shown >= 0.5 else "below 0.5")


def test_a_function_from_a_module_may_give_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def price():\n    return lambda rows: rows.sum(axis=1) * 1.0\n"
    source += "def ridge():\n    from tests.edge.test_regressors import RIDGE\n    return RIDGE\n"
    (tmp_path / "hf_numbers.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = X.to_numpy()[:4]
    inputs = hf.bind("python:hf_numbers:price", rows, labels=[3.5, None, "unknown", 4])
    np.testing.assert_array_equal(inputs.classifier.predict(rows)[:, 0], rows.sum(axis=1))
    assert [inputs.label(i) for i in range(4)] == [3.5, None, None, 4.0]
    assert hf.models.load("python:hf_numbers:ridge").predict(X).shape == (len(X), 1)


def test_an_onnx_file_with_one_float_output_gives_numbers(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.arange(10, dtype=np.float32)[:, None]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "weights"], ["price"])],
        "prices",
        [helper.make_tensor_value_info("rows", kind, ["b", 10])],
        [helper.make_tensor_value_info("price", kind, ["b", 1])],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    onnx.save_model(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "price.onnx"
    )
    rows = X.to_numpy(dtype=np.float32)[:5]
    inputs = hf.bind(f"onnx:{tmp_path / 'price.onnx'}", rows, labels=[1.5, 2, 3, 4, 5])
    assert inputs.classes == ()
    np.testing.assert_allclose(inputs.classifier.predict(rows), rows @ weights, rtol=1e-5)
    assert inputs.label(0) == 1.5


@pytest.mark.parametrize(
    ("classes", "expected"),
    [(("-0.0", "2e3", "nan"), [0.0, 2000.0, None]), (("low", "7", "inf"), [None, 7.0, None]), ((), [0.0, 1.0, 2.0])],
)
def test_the_right_number_is_what_the_label_says(classes: Any, expected: list[float | None]) -> None:
    data = Dataset("rows", "table", np.zeros((4, 2)), np.array([0, 1, 2, -1]), classes)
    numbers = [data.number_of(i) for i in range(4)]
    assert numbers == [*expected, None]
    assert repr(numbers[0]) != "-0.0"


def test_labels_of_a_classifier_stay_classes() -> None:
    inputs = hf.bind(LogisticRegression().fit(X, Y > 150), X, labels=(Y > 150).astype(int).tolist())
    assert [type(inputs.label(i)) for i in range(3)] == [int] * 3


def test_scores_of_a_number_name_no_class(folder: Path) -> None:
    model = hf.bind(RIDGE, X)[0]
    for scores in (hf.attribute(model, "occlusion"), hf.attribute(model, "shap", target=0)):
        assert (scores.target, scores.target_name) == (None, None)
        assert "prediction" not in str(scores)
        assert hf.recheck(model, scores).confirmed


def test_several_labels_are_those_whose_probabilities_reach_their_thresholds() -> None:
    rows, on = X.to_numpy(), np.stack([X["bmi"] > 0, X["s5"] > 0.02], axis=1).astype(int)
    estimator = OneVsRestClassifier(LogisticRegression(C=1e3)).fit(rows, on)
    inputs = hf.bind(estimator, rows, classes=["heavy", "high"])
    for index in range(12):
        chosen = estimator.predict_proba(rows[index : index + 1]) >= [0.3, 0.6]
        named = [name for name, is_on in zip(("heavy", "high"), chosen[0], strict=True) if is_on]
        cert = hf.certify(inputs[index], range(10), radius=0, agree=hf.agreement.same_labels([0.3, 0.6]), rng=0)
        assert cert.prediction_name == (", ".join(named) or "none")


# -- studies ----------------------------------------------------------------------------------------


def test_a_study_stores_numbers_and_their_right_values(stored: Path, folder: Path) -> None:
    rows = pandas.read_csv(folder / "rows.csv")
    predicted = RIDGE.predict(rows.drop(columns="target"))
    with Store(stored) as store:
        records = list(store.records())
        assert len(records) == 2 * N_INPUTS
        for record in records:
            result = record.result()
            assert result.label == rows["target"][result.input]
            assert result.prediction == pytest.approx(predicted[result.input], rel=1e-12)
            for cert in result.curve:
                assert cert.agree == "within_percent(5.0)"
                assert isinstance(cert.prediction, float)
            assert json.loads(record.to_json())["label"] == result.label


def test_stored_certificates_of_numbers_are_confirmed(stored: Path, folder: Path) -> None:
    inputs = hf.bind(f"skops:{folder / 'ridge.skops'}", f"table:{folder / 'rows.csv'}", target="target")
    with Store(stored) as store:
        for result in store.results(1):
            assert hf.recheck(inputs[1], result.curve).confirmed
            assert result.witness is not None
            assert hf.recheck(inputs[1], result.witness).confirmed


def test_exported_tables_hold_the_numbers(stored: Path, folder: Path, tmp_path: Path) -> None:
    truth = pandas.read_csv(folder / "rows.csv")["target"]
    for suffix in ("csv", "parquet"):
        export_study(stored, tmp_path / f"out.{suffix}")
    flat, typed = pandas.read_csv(tmp_path / "out.csv"), pandas.read_parquet(tmp_path / "out.parquet")
    assert typed["label"].dtype == np.float64
    for table in (flat, typed):
        assert table["label"].tolist() == truth[table["input"]].tolist()
        assert [float(text) for text in table["full_prediction"]] == pytest.approx(
            RIDGE.predict(pandas.read_csv(folder / "rows.csv").drop(columns="target"))[table["input"]]
        )


@pytest.mark.parametrize("label", ["151", "151.25", "NULL", "'151.0'"])
def test_a_changed_label_is_noticed(stored: Path, tmp_path: Path, label: str) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(stored.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute(f"UPDATE inputs SET label = {label} WHERE input = 0")
        connection.commit()
    with pytest.raises(hf.HoldfastError, match=r"copy\.db"):
        Store(copy)


def test_whole_numbers_are_stored_as_the_floats_they_were(stored: Path) -> None:
    with closing(sqlite3.connect(stored)) as connection:
        kinds = {kind for (kind,) in connection.execute("SELECT typeof(label) FROM inputs")}
    assert kinds == {"real"}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"agree": "same_top_class"}, r"got 1 column\. Set `agree` to `within\(margin\)`, `within_percent\(percent\)`"),
        ({"agree": "same_side(150, 1)"}, "`agree` must name one of the 1 columns"),
        (
            {"smoothing": SmoothingSpec(keep_probabilities=(1.0, 0.5))},
            "smoothing.keep_prob.* must be left out",
        ),
        ({"mus": MusSpec(keep_probabilities=(0.5,))}, "mus.keep_prob.* must be left out"),
    ],
)
def test_what_cannot_be_asked_of_a_number_is_said_before_anything_is_explained(
    folder: Path, tmp_path: Path, parts: Any, message: str
) -> None:
    path = tmp_path / "results.db"
    with pytest.raises(hf.HoldfastError, match=message):
        run_study(study_of(folder, **parts), path)
    with Store(path) as store:
        assert list(store.query("SELECT count(*) FROM attributions")) == [(0,)]
    assert run_study(study_of(folder), path).n_new == 2 * N_INPUTS  # the same file, asked what can be


def test_a_decision_at_a_cut_off_is_studied_from_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        f"""
        top_fractions = [0.3]
        [model]
        spec = "skops:{folder / "ridge.skops"}"
        [data]
        spec = "table:{folder / "rows.csv"}"
        n = 2
        options = {{target = "target"}}
        [[methods]]
        name = "occlusion"
        [certify]
        radii = [1, 2]
        agree = "same_side(150)"
        """
    )
    run_study(read_spec(tmp_path / "study.toml"), tmp_path / "results.db")
    with Store(tmp_path / "results.db") as store:
        results = [record.result() for record in store.records()]
    assert {result.prediction for result in results} <= {"at least 150", "below 150"}
    assert {result.curve.certificates[0].prediction for result in results} <= {"at least 150", "below 150"}


# -- pages and commands -----------------------------------------------------------------------------


def page_of(path: Path, tmp_path: Path, **options: Any) -> Any:
    write_report(path, tmp_path / "page.html", **options)
    html = (tmp_path / "page.html").read_text()
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])["studies"][0]


def test_a_page_shows_numbers_and_no_accuracy(stored: Path, folder: Path, tmp_path: Path) -> None:
    rows = pandas.read_csv(folder / "rows.csv")
    predicted = RIDGE.predict(rows.drop(columns="target"))
    for use_model in (True, False):
        page = page_of(stored, tmp_path, use_model=use_model)
        assert page["table"]["prediction"] == [f"{number:.6g}" for number in predicted[:N_INPUTS]]
        assert page["table"]["label"] == [f"{number:.6g}" for number in rows["target"][:N_INPUTS]]
        assert page["table"]["right"] == [None] * N_INPUTS
        assert page["accuracy"] is None
        card = page["gallery"][0]
        told = f"predicted {predicted[card['input']]:.6g}, labelled {rows['target'][card['input']]:.6g}."
        assert card["facts"].endswith(told)


def test_accuracy_of_numbers_is_refused(folder: Path) -> None:
    with pytest.raises(hf.HoldfastError, match="returns numbers instead of classes, so it has no accuracy"):
        study_accuracy(study_of(folder), n_inputs=2)


def input_options(folder: Path) -> list[str]:
    model, row = f"skops:{folder / 'ridge.skops'}", f"{folder / 'rows.csv'}#3"
    return ["--model", model, "--input", row, "--set", "target=target"]


TOP = ["--method", "occlusion", "--top", "3"]
ASKED: dict[str, list[str]] = {
    "certify": [*TOP, "--radius", "2"],
    "curve": [*TOP, "--radii", "1,2"],
    "radius": [*TOP, "--min-rate", "0.1", "--radii", "1"],
    "witness": TOP,
    "compare": [*TOP, "--method", "random", "--radii", "1"],
    "check": [*TOP, "--radius", "1", "--min-rate", "0.01"],
}


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize("agree", ["within_percent(30)", "same_side(150)"])
def test_every_command_judges_numbers(
    command: str, agree: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "result.json"
    options = [*input_options(folder), *ASKED[command], "--agree", agree, "--output", str(target)]
    assert main([command, *options]) in (0, None)
    told = capsys.readouterr().out
    model = hf.bind(f"skops:{folder / 'ridge.skops'}", f"table:{folder / 'rows.csv'}", target="target")[3]
    number = model(hf.top(hf.attribute(model, "occlusion"), 3)[None])[0, 0]
    assert number >= 150
    assert ("'at least 150'" if agree.startswith("same") else f"{number:.6g}") in told
    if command != "check":
        assert main(["verify", str(target), *input_options(folder)]) == 0


def test_a_command_without_a_rule_for_numbers_advises_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", *input_options(folder), *ASKED["certify"]]) == 3
    assert "Set `agree` to `within(margin)`, `within_percent(percent)` or" in capsys.readouterr().err
    assert main(["certify", *input_options(folder), *ASKED["certify"], "--agree", "within_percent(0)"]) == 3
    assert "`--agree` must be a name such as" in capsys.readouterr().err


def test_explain_says_no_class_of_a_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *input_options(folder), "--method", "occlusion"]) in (0, None)
    assert capsys.readouterr().out.startswith("Scores of 10 features by occlusion, largest first:")


# -- files of version 3 -----------------------------------------------------------------------------


def test_a_file_with_labels_that_are_classes_is_read_as_it_is_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    asked = {"top_fractions": (0.25,), "certify": CertifySpec((1,))}
    first, more = (
        StudySpec(
            ModelSpec("bundled:cancer-forest"), DataSpec("bundled:cancer", n=n), (MethodSpec("occlusion"),), **asked
        )
        for n in (1, 2)
    )
    run_study(first, tmp_path / "new.db")
    as_version_3(tmp_path / "new.db", path)
    content = path.read_bytes()
    with Store(path) as store:
        old = [record.result() for record in store.records()]
    assert path.read_bytes() == content  # reading leaves it as it was
    run_study(more, path)
    with Store(path) as store:
        now = [record.result() for record in store.records()]
        assert next(store.query("PRAGMA user_version"))[0] == len(schema.UPGRADES)
    assert [result for result in now if result.input == old[0].input] == old
    assert {type(result.label) for result in now} == {int}

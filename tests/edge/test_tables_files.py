"""Boosters in their libraries' own files: what is loaded answers, and is identified, as what was saved."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError

import holdfast as hf
from holdfast.cli import main
from holdfast.masking.torch import fingerprint_live

CANCER = load_breast_cancer(as_frame=True)
X, Y = CANCER.data.iloc[:150, :6], CANCER.target.iloc[:150]
Y3 = np.digitize(X["mean radius"], [13, 17])
FULL = np.ones((1, 6), dtype=bool)
QUIET: dict[str, Any] = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "iterations": 4}
SMALL: dict[str, Any] = {"n_estimators": 4, "n_jobs": 1}
TEXTS = X.assign(size=np.where(X["mean area"] > 600, "large", "small")).iloc[:, 1:]


def trained(objective: str, target: Any, **settings: Any) -> Any:
    return xgb.train({"objective": objective, "nthread": 1} | settings, xgb.DMatrix(X, target), 4)


def grown(objective: str, target: Any, **settings: Any) -> Any:
    settings |= {"objective": objective, "verbosity": -1, "num_threads": 1}
    return lgb.train(settings, lgb.Dataset(X, target), 4)


def stopped(booster: str = "gbtree") -> Any:
    """An estimator that was stopped early; of trees, one whose best round is not its last."""
    model = xgb.XGBClassifier(booster=booster, n_estimators=30, learning_rate=1.5, early_stopping_rounds=3, n_jobs=1)
    model.fit(X[:90], Y[:90], eval_set=[(X[90:], Y[90:])], verbose=False)
    assert booster == "gblinear" or model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model


def stopped_lightgbm() -> Any:
    data, test = lgb.Dataset(X[:90], Y[:90]), lgb.Dataset(X[90:], Y[90:])
    settings = {"objective": "binary", "verbosity": -1, "num_threads": 1, "learning_rate": 1.0}
    stop = [lgb.early_stopping(3, verbose=False)]
    model = lgb.train(settings, data, 30, valid_sets=[test], callbacks=stop, keep_training_booster=True)
    assert model.best_iteration < model.current_iteration()
    return model


def two(positive: Any) -> Any:
    return np.stack([1 - positive, positive], axis=1)


Case = tuple[Callable[[], Any], str, Callable[[Any], Any], tuple[str, ...]]
CASES: dict[str, Case] = {
    "xgb classifier": (
        lambda: xgb.XGBClassifier(**SMALL).fit(X, Y),
        "m.json",
        lambda m: m.predict_proba(X),
        ("0", "1"),
    ),
    "xgb ubj": (lambda: xgb.XGBClassifier(**SMALL).fit(X, Y), "m.ubj", lambda m: m.predict_proba(X), ("0", "1")),
    "xgb stopped": (stopped, "m.ubj", lambda m: m.predict_proba(X), ("0", "1")),
    "xgb linear": (lambda: stopped("gblinear"), "m.ubj", lambda m: m.predict_proba(X), ("0", "1")),
    "xgb regressor": (
        lambda: xgb.XGBRegressor(**SMALL).fit(X, X["mean area"]),
        "m.ubj",
        lambda m: m.predict(X)[:, None],
        (),
    ),
    "xgb booster": (
        lambda: trained("binary:logistic", Y),
        "m.ubj",
        lambda m: two(m.predict(xgb.DMatrix(X))),
        ("0", "1"),
    ),
    "xgb margin": (
        lambda: trained("binary:logitraw", Y),
        "m.json",
        lambda m: np.stack([-m.predict(xgb.DMatrix(X)), m.predict(xgb.DMatrix(X))], axis=1),
        ("0", "1"),
    ),
    "xgb three": (
        lambda: trained("multi:softprob", Y3, num_class=3),
        "m.ubj",
        lambda m: m.predict(xgb.DMatrix(X)),
        ("0", "1", "2"),
    ),
    "xgb labels": (
        lambda: trained("multi:softmax", Y3, num_class=3),
        "m.ubj",
        lambda m: np.eye(3)[m.predict(xgb.DMatrix(X)).astype(int)],
        ("0", "1", "2"),
    ),
    "lgb classifier": (
        lambda: lgb.LGBMClassifier(verbose=-1, **SMALL).fit(X, Y),
        "m.txt",
        lambda m: m.predict_proba(X),
        ("0", "1"),
    ),
    "lgb stopped": (stopped_lightgbm, "m.txt", lambda m: two(m.predict(X)), ("0", "1")),
    "lgb three": (
        lambda: grown("multiclass", Y3, num_class=3),
        "m.txt",
        lambda m: m.predict(X),
        ("0", "1", "2"),
    ),
    "lgb regression": (lambda: grown("l2", X["mean area"]), "m.txt", lambda m: m.predict(X)[:, None], ()),
    "cat classifier": (
        lambda: catboost.CatBoostClassifier(**QUIET).fit(X, np.where(Y, "benign", "malignant")),
        "m.cbm",
        lambda m: m.predict_proba(X),
        ("benign", "malignant"),
    ),
    "cat three": (
        lambda: catboost.CatBoost(QUIET | {"loss_function": "MultiClass"}).fit(X, Y3),
        "m.cbm",
        lambda m: m.predict(X, prediction_type="Probability"),
        ("0", "1", "2"),
    ),
    "cat counts": (
        lambda: catboost.CatBoostRegressor(loss_function="Poisson", **QUIET).fit(X, Y3),
        "m.cbm",
        lambda m: m.predict(X)[:, None],
        (),
    ),
}
SCHEMES = {".json": "xgboost", ".ubj": "xgboost", ".txt": "lightgbm", ".cbm": "catboost"}


def save(model: Any, path: Path) -> str:
    getattr(model, "booster_", model).save_model(path.as_posix())
    return f"{SCHEMES[path.suffix]}:{path}"


@pytest.mark.parametrize("name", CASES)
def test_a_file_answers_and_is_identified_as_what_was_saved(name: str, tmp_path: Path) -> None:
    make, file, ask, classes = CASES[name]
    model = make()
    loaded = hf.models.load(save(model, tmp_path / file))
    assert (loaded.kind, loaded.classes) == ("table", classes)
    np.testing.assert_array_equal(loaded.predict(X, batch_size=40), ask(model))
    assert loaded.fingerprint == fingerprint_live(model)
    masked = loaded.bind(X.iloc[[3]], background=X)
    if name != "xgb labels":
        np.testing.assert_array_equal(masked(FULL)[0], ask(model)[3])
    assert masked.provenance.model == loaded.fingerprint == hf.mask_tabular(model, X.iloc[3], fill=0.0).provenance.model
    again = make()
    assert fingerprint_live(again) == loaded.fingerprint  # the same trees, whenever they were grown


@pytest.mark.parametrize("name", ["xgb classifier", "lgb classifier", "cat classifier", "xgb booster"])
def test_a_model_that_is_fitted_again_has_another_fingerprint(name: str) -> None:
    model = CASES[name][0]()
    before = fingerprint_live(model)
    if name == "xgb booster":
        model.update(xgb.DMatrix(X, Y), 4)
    else:
        model.fit(X[20:], Y[20:])
    assert fingerprint_live(model) not in (before, None)
    assert before is not None


def test_live_boosters_are_bound_by_their_objective() -> None:
    for name, classes in (("xgb booster", ("0", "1")), ("lgb three", ("0", "1", "2")), ("cat three", ("0", "1", "2"))):
        model = CASES[name][0]()
        inputs = hf.bind(model, X, labels=Y)
        assert inputs.classes == classes
        np.testing.assert_array_equal(inputs[5](FULL)[0], CASES[name][2](model)[5])
        assert inputs[5].provenance.model == fingerprint_live(model)
        assert hf.certify(inputs[5], FULL[0], radius=1).prediction == CASES[name][2](model)[5].argmax()
    named = hf.bind(CASES["xgb booster"][0](), X, classes=["malignant", "benign"])
    assert named.classes == named[0].classes == ("malignant", "benign")
    regression = hf.bind(CASES["lgb regression"][0](), X)
    assert regression.classes == ()
    assert hf.certify(regression[0], FULL[0], radius=1, agree=hf.agreement.within(5.0)).rate == 1.0
    raw = hf.mask_tabular(CASES["lgb three"][0]().predict, X.iloc[0], background=X)
    np.testing.assert_array_equal(raw(FULL)[0], CASES["lgb three"][2](CASES["lgb three"][0]())[0])


def test_names_of_classes_can_be_given_and_must_fit(tmp_path: Path) -> None:
    spec = save(CASES["lgb classifier"][0](), tmp_path / "m.txt")
    assert hf.models.load(spec, classes=["malignant", "benign"]).classes == ("malignant", "benign")
    with pytest.raises(hf.errors.InvalidValueError, match=r"^`classes` must name the 2 classes of the model, got 3\."):
        hf.models.load(spec, classes=["a", "b", "c"])
    with pytest.raises(hf.errors.InvalidValueError, match=r"^`kind` must be one of table, got 'text'"):
        hf.models.load(spec, kind="text")


def test_a_model_that_is_not_fitted_is_refused_in_words() -> None:
    with pytest.raises(hf.errors.InvalidValueError, match=r"^`classifier` must be fitted, got an unfitted CatBoost\."):
        hf.mask_tabular(catboost.CatBoost(), X.iloc[0], fill=0.0)
    assert fingerprint_live(catboost.CatBoost()) is None
    for estimator in (lgb.LGBMClassifier(), xgb.XGBClassifier()):
        with pytest.raises(NotFittedError):
            hf.mask_tabular(estimator, X.iloc[0], fill=0.0)(FULL)


@pytest.mark.parametrize(
    ("scheme", "file"), [("xgboost", "m.ubj"), ("xgboost", "m.json"), ("lightgbm", "m.txt"), ("catboost", "m.cbm")]
)
def test_files_that_are_missing_cut_off_or_foreign_are_refused_in_one_sentence(
    scheme: str, file: str, tmp_path: Path
) -> None:
    path = tmp_path / file
    with pytest.raises(hf.errors.InvalidValueError, match=rf"^`{scheme}:` must be followed by an existing file, got "):
        hf.models.load(f"{scheme}:{path}")
    case = {"m.ubj": "xgb ubj", "m.json": "xgb classifier", "m.txt": "lgb classifier", "m.cbm": "cat classifier"}[file]
    save(CASES[case][0](), path)
    content = path.read_bytes()
    cuts = np.linspace(0, len(content) - 1, 60).astype(int).tolist()
    longer = content + b"\x00" if file in ("m.ubj", "m.txt") else b""
    for spoiled in (*(content[:at] for at in cuts), longer, b"hello", pickle.dumps({}), b'{"a": 1}', bytes(range(256))):
        path.write_bytes(spoiled)
        with pytest.raises(
            hf.errors.InvalidValueError, match=rf"^'.*{file}' is not a complete \w+ model: [^\n]+ Save it with"
        ):
            hf.models.load(f"{scheme}:{path}")


def test_other_files_are_refused_with_what_to_save(tmp_path: Path) -> None:
    for name, said in (
        (
            "m.pkl",
            r"is refused: it is a pickle, which runs code when loaded\. Save it with `model\.save_model\('model\.ubj'",
        ),
        ("m.bin", r"^`xgboost:` must be followed by a \.json or \.ubj file, got .* Save it with"),
    ):
        (tmp_path / name).write_bytes(b"\x80\x04")
        with pytest.raises(hf.errors.InvalidValueError, match=said):
            hf.models.load(f"xgboost:{tmp_path / name}")


def test_a_file_without_a_scheme_is_told_which(tmp_path: Path) -> None:
    for name, file in (
        ("xgb ubj", "m.ubj"),
        ("xgb classifier", "m.json"),
        ("lgb three", "m.txt"),
        ("cat three", "m.cbm"),
    ):
        spec = save(CASES[name][0](), tmp_path / file)
        with pytest.raises(hf.errors.InvalidValueError, match=rf"Did you mean '{spec}'\?"):
            hf.models.load(str(tmp_path / file))
    (tmp_path / "notes.txt").write_text("about trees")
    with pytest.raises(hf.errors.InvalidValueError) as refused:
        hf.models.load(str(tmp_path / "notes.txt"))
    assert "Did you mean" not in str(refused.value)


def test_the_command_line_takes_boosters_and_tables_with_texts_and_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    CASES["lgb classifier"][0]().booster_.save_model("m.txt")
    X.mask(np.arange(X.size).reshape(X.shape) % 7 == 0).to_csv("rows.csv", index=False)
    cat = catboost.CatBoostClassifier(cat_features=["size"], **QUIET).fit(TEXTS, np.where(Y, "benign", "malignant"))
    cat.save_model("m.cbm")
    TEXTS.to_csv("texts.csv", index=False)
    ask = ["--method", "occlusion", "--top", "2", "--radius", "1", "--output", "cert.json"]
    for model, row in (("lightgbm:m.txt", "rows.csv#3"), ("catboost:m.cbm", "texts.csv#3")):
        assert main(["certify", "--model", model, "--input", row, *ask]) == 0
        assert main(["verify", "cert.json", "--model", model, "--input", row]) == 0
        assert hf.models.load(model).fingerprint == json.loads(Path("cert.json").read_text())["provenance"]["model"]
    assert "prediction 'malignant'" in capsys.readouterr().out
    assert main(["certify", "--model", "lightgbm:m.txt", "--input", "rows.csv#3", *ask, "--set", "fill=missing"]) == 0
    assert "fill missing" in json.loads(Path("cert.json").read_text())["provenance"]["masking"]


def test_a_booster_made_by_a_factory_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(CASES["xgb booster"][0](), tmp_path / "m.ubj")
    lines = ["import xgboost", "def make():", f"    return xgboost.Booster(model_file={str(tmp_path / 'm.ubj')!r})"]
    (tmp_path / "made_of_trees.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    loaded, made = hf.models.load(f"xgboost:{tmp_path / 'm.ubj'}"), hf.models.load("python:made_of_trees:make")
    assert loaded.fingerprint == made.fingerprint
    np.testing.assert_array_equal(loaded.predict(X), made.predict(pd.DataFrame(X)))

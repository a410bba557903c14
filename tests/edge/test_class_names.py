"""Masked models know what their classes are called, in the order of their scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.errors import InvalidTypeError, InvalidValueError

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sklearn")

from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from tests.helpers.tiny_models import save_roberta, save_vit
from tests.helpers.tiny_texts import bert, bert_tokenizer

ROWS = np.random.default_rng(0).normal(size=(40, 3))
WORDS = np.array(["low", "high"])[(ROWS.sum(axis=1) > 0).astype(int)]
ALL = np.ones((1, 3), dtype=bool)


def scores(masks: Any) -> Any:
    return np.c_[masks.sum(axis=1), 1.0 + masks[:, 0]]


def made(classes: Any) -> list[Any]:
    """A model of every kind from plain functions, with these names of classes."""
    picture = np.zeros((4, 4, 1))
    return [
        hf.mask_function(scores, n_features=3, classes=classes),
        hf.lookup_table(np.zeros((4, 2)), n_features=2, classes=classes),
        hf.mask_image(lambda batch: batch.mean(axis=(1, 2)), picture, groups=(2, 2), classes=classes),
        hf.mask_text(lambda texts: [[0.5, 0.5] for _ in texts], "one two", classes=classes),
        hf.mask_tabular(lambda rows: rows[:, :2], ROWS[0], fill=0.0, classes=classes),
    ]


def test_every_kind_takes_names_and_plain_functions_have_none() -> None:
    assert [model.classes for model in made(["cat", "dog"])] == [("cat", "dog")] * 5
    assert [model.classes for model in made(None)] == [None] * 5


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("ab", "`classes` must be a list of distinct names of classes, in the order of the scores, got 'ab'"),
        (3, "got 3"),
        ([], "got none"),
        ([1, 2], "got 1 among them"),
        (["a", "a"], "got 'a' more than once"),
        (["a", "b\nc"], r"`classes` must be printable on one line, got 'b\\nc'"),
    ],
)
def test_names_that_are_no_distinct_names_are_refused(classes: Any, message: str) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match=message) as refused:
        made(classes)
    assert refused.value.argument == "classes"


def test_a_table_of_scores_has_one_name_per_column() -> None:
    with pytest.raises(InvalidValueError, match="`classes` must have one name per column of scores, 2, got 3"):
        hf.lookup_table(np.zeros((4, 2)), n_features=2, classes=["a", "b", "c"])
    assert hf.lookup_table([0, 0, 0, 1], n_features=2, classes=["no", "yes"]).classes == ("no", "yes")


def test_modules_of_transformers_tell_their_names_unless_they_are_made_up() -> None:
    module, tokenizer = bert(), bert_tokenizer()
    n_labels = module.config.num_labels
    assert set(module.config.id2label.values()) == {f"LABEL_{i}" for i in range(n_labels)}
    assert hf.mask_text(module, "one two", tokenizer=tokenizer).classes is None
    names = tuple(f"mood {i}" for i in range(n_labels))
    module.config.id2label = dict(enumerate(names))
    assert hf.mask_text(module, "one two", tokenizer=tokenizer).classes == names
    others = [name.upper() for name in names]
    assert hf.mask_text(module, "one two", tokenizer=tokenizer, classes=others).classes == tuple(others)
    module.config.id2label = dict.fromkeys(range(n_labels), "same")
    assert hf.mask_text(module, "one two", tokenizer=tokenizer).classes is None


@pytest.mark.parametrize("estimator", [LogisticRegression(), RidgeClassifier(), SVC()], ids=str)
def test_estimators_tell_the_classes_of_their_scores(estimator: Any) -> None:
    estimator.fit(ROWS, WORDS)
    model = hf.mask_tabular(estimator, ROWS[0], background=ROWS)
    assert model.classes == ("high", "low")
    assert model.classes[int(model(ALL).argmax())] == estimator.predict(ROWS[:1])[0]
    assert hf.mask_tabular(estimator, ROWS[0], background=ROWS, classes=["H", "L"]).classes == ("H", "L")


def test_methods_of_estimators_tell_them_too_and_labels_need_no_names() -> None:
    fitted = KNeighborsClassifier().fit(ROWS, np.where(WORDS == "low", 1, 2))
    assert hf.mask_tabular(fitted.predict_proba, ROWS[0], background=ROWS).classes == ("1", "2")
    # The label 1 is no place in a list of names.
    assert hf.mask_tabular(fitted.predict, ROWS[0], background=ROWS, classes=["one", "two"]).classes is None
    both = KNeighborsClassifier().fit(ROWS, np.c_[ROWS[:, 0] > 0, ROWS[:, 1] > 0])
    assert not isinstance(both.classes_, np.ndarray)
    assert hf.mask_text(both.predict_proba, "one two").classes is None


def test_a_pipeline_of_texts_tells_its_classes() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good film", "bad film"], ["pos", "neg"])
    model = hf.mask_text(pipeline.predict_proba, "good film")
    assert model.classes == ("neg", "pos")
    assert model.classes[int(model(np.ones((1, 2), dtype=bool)).argmax())] == "pos"


def test_evaluators_and_smoothed_models_pass_the_names_on() -> None:
    model = hf.mask_function(scores, n_features=3, classes=["cat", "dog"])
    for wrapped in (hf.Evaluator(model), hf.Evaluator(hf.Evaluator(model)), hf.smooth(model, 0.5, n_samples=4, rng=0)):
        assert wrapped.classes == ("cat", "dog")
    assert hf.mus_model(model, 0.5, n_levels=4, rng=0).classes == ("cat", "dog")


def test_certificates_say_the_name() -> None:
    model = hf.mask_function(scores, n_features=3, classes=["cat", "dog"])
    certificate = hf.certify(model, [True, True, True], radius=0, tolerance=0.3, confidence=0.8, rng=0)
    assert certificate.prediction_name == "cat"
    assert "'cat'" in str(certificate)


@pytest.mark.parametrize(("save", "given"), [(save_vit, np.zeros((8, 8, 3), np.uint8)), (save_roberta, "a film")])
def test_loaded_classifiers_name_the_classes_of_what_they_bind(save: Any, given: Any, tmp_path: Path) -> None:
    classifier = hf.models.load(f"hf:{save(tmp_path / 'model')}")
    bound: Any = classifier.bind(given)
    assert bound.classes == classifier.classes
    assert len(bound.classes) == bound(np.ones((1, bound.n_features), dtype=bool)).shape[1]
    renamed: Any = classifier.bind(given, classes=[f"new {name}" for name in classifier.classes])
    assert renamed.classes == tuple(f"new {name}" for name in classifier.classes)


@pytest.mark.parametrize("change", [{"prediction_name": " "}, {"prediction": "benign"}, {"prediction": True}])
def test_a_name_that_belongs_to_no_class_is_refused_when_it_is_read(change: dict[str, Any]) -> None:
    model = hf.lookup_table([[0.0, 1.0]] * 8, n_features=3, classes=["malignant", "benign"])
    certificate = hf.certify(model, [0], radius=1, rng=0)
    assert certificate.prediction_name == "benign"
    edited = json.dumps(json.loads(certificate.to_json()) | change)
    with pytest.raises(hf.errors.InvalidValueError, match="`prediction_name` must be the name of a numbered class"):
        hf.Certificate.from_json(edited)


def test_every_step_to_a_stable_selection_names_its_prediction() -> None:
    model = hf.lookup_table([[0.0, 1.0]] * 8, n_features=3, classes=["malignant", "benign"])
    stable = hf.stabilize(model, [3.0, 2.0, 1.0], min_rate=0.9, radius=1, rng=0)
    assert {step.prediction_name for step in stable.trail} == {"benign"}

"""What a Python factory returns becomes a classifier; what goes wrong on the way is said."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import HoldfastError
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.models import load

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

SOURCE = """
import numpy as np
import torch
from holdfast.inputs.models import Classifier

def rows():
    return lambda table: np.stack([table.sum(axis=1), -table.sum(axis=1)], axis=1)

def texts():
    return lambda texts: np.array([[float("good" in text), float("bad" in text)] for text in texts])

def brightness():
    return lambda batch: np.stack([batch.mean(axis=(1, 2, 3)), 100 - batch.mean(axis=(1, 2, 3))], axis=1)

def images():
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(4 * 5 * 3, 2))
    torch.random.set_rng_state(torch_state)
    return module.train()

def linear():
    return torch.nn.Linear(3, 2)

def ready():
    class Engine:
        def score(self, inputs, /):
            return np.zeros((len(inputs), 2))
        def bind(self, one, /, **settings):
            raise NotImplementedError
    return Classifier("table", ("a", "b"), None, Engine())

def estimator():
    from sklearn.linear_model import LogisticRegression
    table = np.random.default_rng(0).normal(size=(50, 3))
    return LogisticRegression().fit(table, np.where(table[:, 0] > 0, "yes", "no"))

def unfitted():
    from sklearn.linear_model import LogisticRegression
    return LogisticRegression()

def nothing():
    return 3

def failing():
    raise KeyError("weights")

not_callable = 3
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "hf_factories.py").write_text(SOURCE)
    (tmp_path / "hf_raises.py").write_text("raise RuntimeError('no licence')")
    (tmp_path / "hf_needs.py").write_text("import hf_is_not_installed")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("hf_factories", "hf_raises", "hf_needs"):
        sys.modules.pop(name, None)


def test_a_callable_on_rows_predicts_and_binds() -> None:
    classifier = load("python:hf_factories:rows", kind="table", classes=("up", "down"))
    assert (classifier.kind, classifier.classes, classifier.fingerprint) == ("table", ("up", "down"), None)
    assert classifier.predict([[1.0, 2.0], [3.0, 4.0]], batch_size=1).tolist() == [[3.0, -3.0], [7.0, -7.0]]
    model = classifier.bind(np.array([1.0, 2.0]), fill=0.0)
    assert model(np.array([[True, False]])).tolist() == [[1.0, -1.0]]


def test_a_callable_on_texts_predicts_and_binds() -> None:
    classifier = load("python:hf_factories:texts", kind="text", fingerprint="mine")
    assert classifier.predict(["good", "bad"]).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    model = classifier.bind("a good day")
    assert model(np.array([[True, False, True], [True, True, True]])).tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert model.provenance.model == "mine"


def test_a_callable_on_images_predicts_and_binds() -> None:
    classifier = load("python:hf_factories:brightness", kind="image")
    white = np.full((4, 5, 3), 255, dtype=np.uint8)
    assert classifier.predict(white[None]).tolist() == [[255.0, -155.0]]
    model = classifier.bind(white, groups=(1, 1), fill=0)
    assert model(np.array([[True], [False]])).tolist() == [[255.0, -155.0], [0.0, 100.0]]


def test_a_module_on_images_is_evaluated_without_dropout_and_fingerprinted() -> None:
    classifier = load("python:hf_factories:images", kind="image")
    photo = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    module = classifier.engine.runner.module.eval()  # type: ignore[attr-defined]
    with torch.inference_mode():
        truth = module(torch.from_numpy(photo.transpose(2, 0, 1) / np.float32(255))[None]).numpy()
    np.testing.assert_allclose(classifier.predict([photo]), truth, atol=1e-6)
    np.testing.assert_allclose(classifier.bind(photo, groups=(2, 2))(np.ones((1, 4), dtype=bool)), truth, atol=1e-6)
    assert classifier.fingerprint == load("python:hf_factories:images", kind="image").fingerprint
    doubles = load("python:hf_factories:images", kind="image", dtype="float64")
    assert doubles.predict([photo]).dtype == np.float64


def test_a_preprocessing_is_used_by_predict_and_bind_alike() -> None:
    def halve(image: Any) -> Any:
        return np.asarray(image)[::2, ::2].astype(np.float32) / 510

    classifier = load("python:hf_factories:brightness", kind="image", preprocess=halve)
    photo = np.random.default_rng(0).integers(0, 256, (8, 10, 3), dtype=np.uint8)
    truth = halve(photo).mean()
    np.testing.assert_allclose(classifier.predict([photo])[0, 0], truth, rtol=1e-6)
    bound = classifier.bind(photo, groups=(2, 2))(np.ones((1, 4), dtype=bool))
    np.testing.assert_allclose(bound[0, 0], truth, rtol=1e-6)


def test_images_of_unequal_size_are_refused_in_one_batch() -> None:
    classifier = load("python:hf_factories:brightness", kind="image")
    sizes = [np.zeros((4, 5, 3), np.uint8), np.zeros((5, 5, 3), np.uint8)]
    with pytest.raises(InvalidValueError, match="images of one size"):
        classifier.predict(sizes)


def test_a_module_on_rows_predicts_and_binds() -> None:
    classifier = load("python:hf_factories:linear", kind="table")
    row = np.array([1.0, 2.0, 3.0])
    truth = classifier.predict([row])
    assert truth.shape == (1, 2)
    np.testing.assert_allclose(classifier.bind(row, fill=0.0)(np.ones((1, 3), dtype=bool)), truth, atol=1e-6)


def test_an_estimator_brings_its_classes() -> None:
    pytest.importorskip("sklearn")
    classifier = load("python:hf_factories:estimator")
    assert (classifier.kind, classifier.classes) == ("table", ("no", "yes"))
    assert classifier.predict([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0]]).argmax(axis=1).tolist() == [1, 0]


def test_a_classifier_is_handed_on() -> None:
    assert load("python:hf_factories:ready").classes == ("a", "b")
    with pytest.raises(InvalidValueError, match="`kind` must be 'table'"):
        load("python:hf_factories:ready", kind="text")


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("hf_factories", InvalidValueError, "must be python:<module>:<factory>"),
        ("hf_factories:", InvalidValueError, "must be python:<module>:<factory>"),
        (":rows", InvalidValueError, "must be python:<module>:<factory>"),
        ("hf_factories:rows:more", InvalidValueError, "must be python:<module>:<factory>"),
        ("/tmp/x.py:rows", InvalidValueError, "must be python:<module>:<factory>"),
        ("hf_no_such_module:rows", InvalidValueError, "can be imported, got 'hf_no_such_module'"),
        ("hf_no.such.module:rows", InvalidValueError, r"can be imported, got 'hf_no\.such\.module'"),
        ("hf_raises:rows", InvalidValueError, "raised RuntimeError on import: no licence"),
        ("hf_needs:rows", InvalidValueError, "raised ModuleNotFoundError on import.*hf_is_not_installed"),
        ("hf_factories:row", InvalidValueError, "must have a factory 'row'; its functions: .*rows"),
        ("hf_factories:not_callable", InvalidValueError, "must have a factory"),
        ("hf_factories:failing", InvalidValueError, "raised KeyError when called: 'weights'"),
        ("hf_factories:nothing", InvalidTypeError, "must return a Classifier, a torch module.*got 3"),
        ("hf_factories:unfitted", InvalidTypeError, "must be a fitted classifier"),
    ],
)
def test_specs_that_lead_to_no_classifier_are_refused(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load(f"python:{spec}", kind="table")


def test_the_kind_must_be_given_and_known() -> None:
    with pytest.raises(InvalidValueError, match="`kind` must be given"):
        load("python:hf_factories:rows")
    with pytest.raises(HoldfastError, match="`kind` must be one of image, text, table"):
        load("python:hf_factories:rows", kind="tables")


def test_a_module_on_texts_needs_a_tokenizer() -> None:
    with pytest.raises(InvalidValueError, match="`tokenizer` must be given"):
        load("python:hf_factories:linear", kind="text")


def test_importing_a_factory_leaves_the_import_path_alone() -> None:
    before = list(sys.path)
    load("python:hf_factories:rows", kind="table")
    assert sys.path == before

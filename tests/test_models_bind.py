"""A loaded classifier, bound to one input, says of the full input what it predicts; and the zoo's real models load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("transformers")
import torch
from PIL import Image
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from holdfast import InvalidTypeError, certify
from holdfast.inputs.models import load
from tests.contracts import check_masked_model
from tests.tiny_models import SAVERS
from tests.zoo_support import zoo_path

torch.set_num_threads(1)


def photo(size: tuple[int, int] = (24, 40), seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8))


@pytest.mark.parametrize("name", ["vit", "resnet"])
def test_a_bound_image_keeps_the_contract_and_the_prediction(tmp_path: Path, name: str) -> None:
    classifier = load(f"hf:{SAVERS[name](tmp_path / name)}")
    model = classifier.bind(photo(), groups=(2, 3), fill=0.5)
    truth = classifier.predict([photo()])
    check_masked_model(model, full_prediction=truth[0].argmax(), tolerance=1e-4)
    assert model.n_features == 6
    np.testing.assert_allclose(model(np.ones((1, 6), dtype=bool)), truth, atol=1e-5)
    assert model.provenance.model == classifier.fingerprint


@pytest.mark.parametrize("name", ["roberta", "bert"])
def test_a_bound_text_keeps_the_contract_and_the_prediction(tmp_path: Path, name: str) -> None:
    classifier = load(f"hf:{SAVERS[name](tmp_path / name)}")
    model = classifier.bind("what a good day !", groups="words", fill="mask")
    truth = classifier.predict(["what a good day !"])
    check_masked_model(model, full_prediction=truth[0].argmax(), tolerance=1e-4)
    np.testing.assert_allclose(model(np.ones((1, 5), dtype=bool)), truth, atol=1e-5)
    assert model.provenance.model == classifier.fingerprint


def test_a_bound_text_is_cut_where_the_classifier_cuts(tmp_path: Path) -> None:
    classifier = load(f"hf:{SAVERS['bert'](tmp_path / 'bert')}", max_length=6)
    model = classifier.bind("what a good day ! what a night")
    assert model.n_features == 4
    truth = classifier.predict(["what a good day ! what a night"])
    np.testing.assert_allclose(model(np.ones((1, 4), dtype=bool)), truth, atol=1e-5)


def test_a_loaded_model_can_be_certified(tmp_path: Path) -> None:
    model = load(f"hf:{SAVERS['vit'](tmp_path / 'vit')}").bind(photo(), groups=(2, 2))
    assert certify(model, np.array([True, False, True, False]), radius=1, rng=0).exact


def test_a_binding_that_is_an_input_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError):
        load(f"hf:{SAVERS['bert'](tmp_path / 'bert')}").bind(3)


# -- the zoo ----------------------------------------------------------------------------------------

RECORDED_ACCURACY = 0.791
"""Of MiniLM on all 374 texts of the validation split (the zoo's README). On the first 100 it is 0.78."""


def tweets() -> tuple[list[str], NDArray[np.intp]]:
    folder = zoo_path("tweeteval/emotion")
    texts, labels = (
        (folder / f"val_{name}.txt").read_text(encoding="utf-8").splitlines() for name in ("text", "labels")
    )
    return texts, np.array(labels, dtype=int)


def test_the_zoos_minilm_loads_as_float32_and_scores_as_transformers_does() -> None:
    folder, (texts, labels) = zoo_path("minilm-tweeteval-emotion"), tweets()
    classifier = load(f"hf:{folder}")
    assert {p.dtype for p in classifier.engine.runner.module.parameters()} == {torch.float32}
    assert classifier.classes == ("anger", "joy", "optimism", "sadness")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    module = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        truth = [module(**tokenizer(text, return_tensors="pt")).logits[0].numpy() for text in texts[:100]]
    scores = classifier.predict(texts[:100])
    np.testing.assert_allclose(scores, np.array(truth), atol=1e-4)
    assert (scores.argmax(axis=1) == labels[:100]).mean() == 0.78


@pytest.mark.slow
def test_the_zoos_minilm_reaches_its_recorded_accuracy() -> None:
    folder, (texts, labels) = zoo_path("minilm-tweeteval-emotion"), tweets()
    assert len(texts) == 374
    accuracy = (load(f"hf:{folder}").predict(texts).argmax(axis=1) == labels).mean()
    assert abs(accuracy - RECORDED_ACCURACY) < 0.001


def test_the_zoos_resnet_reaches_its_recorded_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = zoo_path("cifar10-sample.npz")
    monkeypatch.syspath_prepend(str(sample.parent))
    with np.load(sample) as data:
        images, labels, classes = data["images"][::2], data["labels"][::2], data["classes"]
    classifier = load("python:zoo:cifar10_resnet20", kind="image", classes=classes)
    assert abs((classifier.predict(images).argmax(axis=1) == labels).mean() - 0.93) <= 0.03
    assert classifier.fingerprint == load("python:zoo:cifar10_resnet20", kind="image").fingerprint
    assert classifier.fingerprint != load("python:zoo:cifar10_resnet56", kind="image").fingerprint
    model = classifier.bind(images[0], groups=(8, 8))
    np.testing.assert_allclose(model(np.ones((1, 64), dtype=bool)), classifier.predict(images[:1]), atol=1e-4)

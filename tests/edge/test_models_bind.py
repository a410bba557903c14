"""A loaded classifier, bound to one input, says of the full input what it predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
import torch
from PIL import Image

from holdfast import certify
from holdfast.errors import InvalidTypeError
from holdfast.inputs.models import load
from tests.helpers.contracts import check_masked_model
from tests.helpers.tiny_models import SAVERS

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

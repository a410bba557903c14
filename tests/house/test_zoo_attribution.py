"""Attributions of real models: a CIFAR-10 network against captum, MiniLM on tweets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from holdfast import Evaluator, attribute, certify, mask_image, mask_text, top_fraction
from tests.helpers.zoo_support import zoo_images, zoo_path, zoo_resnet20

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def network() -> Any:
    return zoo_resnet20()


@pytest.fixture(scope="module")
def picture() -> Any:
    images, _ = zoo_images()
    return torch.from_numpy(images[21].transpose(2, 0, 1).astype(np.float32) / 255)


def test_integrated_gradients_of_a_real_network_equal_captums_and_sum_up(network: Any, picture: Any) -> None:
    model: Any = mask_image(network, picture, groups=(8, 8))
    found = attribute(model, "integrated_gradients", n_samples=20)
    theirs = (
        IntegratedGradients(network)
        .attribute(picture[None], baselines=0.0, target=found.target, method="riemann_middle", n_steps=20)[0]
        .sum(dim=0)
    )
    wanted = [float(theirs[torch.from_numpy(model.groups == i)].sum()) for i in range(64)]
    np.testing.assert_allclose(found.scores, wanted, atol=1e-3 * np.abs(wanted).max())
    complete = attribute(model, "integrated_gradients")
    assert complete.details["completeness_error"] <= 0.01 * abs(complete.details["score_change"])


def test_a_walk_finds_the_boundary_of_a_real_network(network: Any, picture: Any) -> None:
    for variant in ("sharp", "smooth"):
        found = attribute(mask_image(network, picture, groups=(8, 8)), "mfaba", variant=variant)
        assert found.details["changed"]
        assert found.details["score_loss"] > 0
        assert found.scores.sum() > 0


def test_mask_methods_share_the_calls_of_one_evaluator(network: Any, picture: Any) -> None:
    model = Evaluator(mask_image(network, picture, groups=(4, 4), batch_size=64))
    shapley = attribute(model, "shap", n_samples=300, rng=0)
    local = attribute(model, "lime", n_samples=300, rng=0)
    assert shapley.errors is not None
    assert 0 < shapley.errors.max() < np.abs(shapley.scores).max()
    assert np.corrcoef(shapley.scores, local.scores)[0, 1] > 0.3
    full, empty = model(np.array([[True] * 16, [False] * 16]))[:, shapley.target]
    assert shapley.scores.sum() == pytest.approx(float(full - empty), rel=1e-4)
    assert certify(model, top_fraction(shapley, 0.25), radius=4, rng=0).n_evaluated > 0


def test_the_word_that_says_it_leads_the_explanation_of_a_tweet() -> None:
    folder = zoo_path("minilm-tweeteval-emotion")
    module = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    text = "this is a horrible, horrible day and i am so angry about the delivery"
    model = mask_text(module, text, tokenizer=AutoTokenizer.from_pretrained(folder), features="words")
    for method, options in {"shap": {"n_samples": 150}, "integrated_gradients": {}, "mfaba": {}}.items():
        found = attribute(model, method, rng=0, **options)
        assert found.feature_names is not None
        leaders = {found.feature_names[i].strip(",") for i in found.ranking[:3]}
        assert leaders & {"horrible", "angry"}, f"{method}: {leaders}"

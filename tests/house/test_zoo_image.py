"""A real network on real images: CIFAR-10 ResNet-20."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from holdfast import Evaluator, certify
from holdfast.inputs.models import load
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.image.pixels import grid, superpixels
from tests.helpers.contracts import check_masked_model
from tests.helpers.zoo_support import zoo_images, zoo_path, zoo_resnet20

torch.set_num_threads(1)

N_MASKS = 1000
TOLERANCE = 1e-3


def _direct(network: Any, image: Any, masks: Any, groups: Any, baseline: Any) -> Any:
    """Scores of images masked by hand, 100 at a time; the image is floats (H, W, C), the baseline a colour."""
    shown = masks[:, groups][..., None]
    batch = torch.from_numpy((shown * image + ~shown * baseline).astype(np.float32)).permute(0, 3, 1, 2)
    with torch.inference_mode():
        return torch.cat([network(part.contiguous()) for part in batch.split(100)]).numpy()


@pytest.fixture(scope="module")
def network() -> Any:
    return zoo_resnet20()


@pytest.fixture(scope="module")
def image() -> Any:
    """Bytes (32, 32, 3)."""
    return zoo_images()[0][7]


def _masks(n_features: int) -> Any:
    """Masks of every density, from nearly nothing to nearly everything."""
    rng = np.random.default_rng(0)
    return rng.random((N_MASKS, n_features)) < rng.random((N_MASKS, 1))


@pytest.mark.parametrize(("cut", "fill"), [("grid", 0.0), ("superpixels", "mean")])
def test_a_thousand_masks_get_the_scores_of_direct_calls(network: Any, image: Any, cut: str, fill: Any) -> None:
    groups = grid(image, 8, 8) if cut == "grid" else superpixels(image, 40)
    model = mask_image(network, image, groups=groups, fill=fill)
    masks, floats = _masks(model.n_features), image.astype(np.float32) / np.float32(255)
    colour = floats.mean(axis=(0, 1)) if fill == "mean" else np.zeros(3, dtype=np.float32)
    direct = _direct(network, floats, masks, groups, colour)
    scores = Evaluator(model)(masks)
    np.testing.assert_allclose(scores, direct, atol=TOLERANCE)
    np.testing.assert_array_equal(scores.argmax(axis=1), direct.argmax(axis=1))


def test_a_real_network_keeps_the_contract_and_its_own_state(network: Any, image: Any) -> None:
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    model = mask_image(network, image, groups=grid(image, 8, 8))
    check_masked_model(model, tolerance=TOLERANCE)
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    assert not network.training


def test_a_real_network_still_recognises_unmasked_images(network: Any) -> None:
    """93 % of the sample, as the zoo says: bytes (H, W, C) were scaled and turned as the network wants."""
    images, labels = zoo_images()
    rights = []
    for picture, label in zip(images[::4], labels[::4], strict=True):
        model = mask_image(network, picture)
        rights.append(model(np.ones((1, model.n_features), dtype=bool)).argmax() == label)
    assert np.mean(rights) >= 0.86


def test_a_certificate_of_a_real_network_names_its_masking(network: Any, image: Any) -> None:
    model = mask_image(network, image, groups=grid(image, 8, 8), fill="mean", fingerprint="resnet20")
    cert = certify(model, np.arange(64) % 2 == 0, radius=3, rng=0)
    assert cert.provenance.masking == "grid 8×8, fill mean"
    assert cert.provenance.model == "resnet20"
    assert cert == certify(model, np.arange(64) % 2 == 0, radius=3, rng=0, batch_size=17)


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

"""``digits-resnet``: a small residual network on handwritten digits."""

from __future__ import annotations

from typing import Any

from transformers import ResNetConfig, ResNetForImageClassification

from training.digits import LABELS, make


def network() -> Any:
    config = ResNetConfig(
        num_channels=1, embedding_size=32, hidden_sizes=[32, 64, 64], depths=[1, 1, 1], layer_type="basic", **LABELS
    )
    return ResNetForImageClassification(config)


def main() -> None:
    make("digits-resnet", network, "residual network on 8 × 8 handwritten digits", epochs=60, rate=3e-3)

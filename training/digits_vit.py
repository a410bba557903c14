"""``digits-vit``: a small vision transformer on handwritten digits, one token per pixel."""

from __future__ import annotations

from typing import Any

from transformers import ViTConfig, ViTForImageClassification

from training.digits import LABELS, SIDE, make


def network() -> Any:
    """One token per pixel: a grid of 8 × 8 features hides tokens one by one, a grid of 4 × 4 four at a time."""
    config = ViTConfig(
        image_size=SIDE,
        patch_size=1,
        num_channels=1,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        initializer_range=0.1,  # pixels are told apart by their position alone, which must not start as noise
        **LABELS,
    )
    return ViTForImageClassification(config)


def main() -> None:
    make("digits-vit", network, "vision transformer on 8 × 8 handwritten digits", epochs=60, rate=4e-3)

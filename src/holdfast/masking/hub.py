"""A Hugging Face folder or hub id → a folder that is safe to load: safetensors only, no remote code, nothing global.

Of a hub id the configuration, preprocessing and safetensors are downloaded; never a pickle.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.masking.torch import import_torch
from holdfast.validation import read_text, shown

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_VOCABULARY = ("vocab.json", "vocab.txt", "merges.txt")
_SENTENCE_PIECES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "spm.model")
PREPROCESSING = {
    "image": ("preprocessor_config.json", "processor_config.json"),
    "text": (*_TOKENIZER, *_VOCABULARY, *_SENTENCE_PIECES),
}
"""Kind → the files that say how its inputs are prepared."""

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_LANGUAGE = ("generation_config.json", "chat_template.jinja")  # of models that write
_WANTED = ["config.json", *_WEIGHTS, "model-*.safetensors", *PREPROCESSING["image"], *PREPROCESSING["text"], *_LANGUAGE]
"""All that is ever downloaded."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".joblib")
_CONVERSION = ("SFconvertbot", "Adding `safetensors` variant of this model", "open")
"""Who offers converted weights to repositories that lack them, and under which title."""

SAFE: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""What every ``from_pretrained`` is told."""


def open_folder(place: str, revision: str | None, download: bool) -> tuple[Path, dict[str, Any]]:
    """The folder of a place, and its configuration; nothing in it runs code when it is loaded."""
    with silence():
        folder = _find_folder(place, revision, download)
    config = _read_json(folder / "config.json")
    for code in (config.get(field) for field in ("_attn_implementation", "attn_implementation")):
        if "/" in str(code):
            path = folder / "config.json"
            raise InvalidValueError(f"{path} asks for remote code ({code!r}), which holdfast never runs.")
    return folder, config


def load_module(folder: Path, auto: Any, dtype: Any) -> Any:
    """The module of a folder by a class such as ``AutoModelForCausalLM``, in evaluation mode, with all weights."""
    # Weights of another shape are found in the report, with their names.
    report_all = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    numbers = {"dtype" if is_modern() else "torch_dtype": dtype, "use_safetensors": True}
    with reading("the weights or the configuration", folder):
        module, report = auto.from_pretrained(folder, **SAFE, **numbers, **report_all)
    sizes = [str(key[0] if isinstance(key, tuple) else key) for key in report["mismatched_keys"]]
    problems = {"have another shape than config.json says": sizes, "are missing": report["missing_keys"]}
    for problem, names in problems.items():
        if names:  # which would be random
            rule, first = f"The weights in {str(folder)!r} must be complete", min(map(str, names))
            raise InvalidValueError(f"{rule}; {len(names)} {problem} (first: {first!r}).")
    return module.eval().requires_grad_(False)


def is_modern() -> bool:
    """Whether this is transformers 5 or later, which calls some options otherwise."""
    return int(import_module("transformers").__version__.partition(".")[0]) >= 5


def check_weights(folder: Path) -> None:
    """Safetensors are there, in one file or in parts beside their index."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return
    if not index.is_file():
        pickles = _pickles([path.name for path in folder.iterdir()])
        held = f"only pickled weights ({pickles}), which would run code when loaded" if pickles else "no weights"
        hint = "Save the model with `save_pretrained`; before transformers 5, add `safe_serialization=True`."
        raise InvalidValueError(f"The folder {str(folder)!r} must have model.safetensors; it has {held}. {hint}")
    parts = _read_json(index).get("weight_map", {})
    for part in sorted({str(part) for part in dict(parts).values()}):
        if Path(part).name != part or not part.endswith(".safetensors") or not (folder / part).is_file():
            raise InvalidValueError(f"{str(index)!r} must name safetensors files beside it, got {part!r}.")


@contextmanager
def reading(part: str, folder: Path) -> Iterator[None]:
    """Whatever goes wrong in transformers is told in one way."""
    try:
        yield
    except Exception as error:  # transformers and safetensors raise errors of many unrelated families
        damaged = next((path for path in sorted(folder.glob("*.safetensors")) if not _is_whole(path)), None)
        if damaged is not None:
            raise InvalidValueError(f"The file {str(damaged)!r} is not a complete safetensors file: {error}") from error
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
            f"The hub model {place!r} is not in the local cache and may not be downloaded. To allow it, add "
            "`--trust download` in a study (in Python: `trust=Trust(download=True)` for a study, else `download=True`)."
        )
    try:
        return _fetch(place, revision)
    except HoldfastError:
        raise
    except Exception as error:  # the client's transport raises errors of several unrelated families
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        where = f"not a folder, not in the local cache and not reachable: {reason}"
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
                f"The hub model {name!r} must have model.safetensors; it has only {_pickles(files) or 'no weights'}. "
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

"""A Hugging Face hub id → a local folder with its configuration, preprocessing and safetensors; never a pickle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import InvalidValueError

PREPROCESSING = {
    "image": ("preprocessor_config.json", "processor_config.json"),
    "text": (
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "spiece.model",
        "sentencepiece.bpe.model",
        "tokenizer.model",
        "spm.model",
    ),
}
"""Kind → the files that say how its inputs are prepared."""

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_WANTED = ["config.json", *_WEIGHTS, "model-*.safetensors", *PREPROCESSING["image"], *PREPROCESSING["text"]]
"""All that is ever downloaded."""

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".joblib")
_CONVERSION = ("SFconvertbot", "Adding `safetensors` variant of this model")
"""Who offers converted weights to repositories that lack them, and under which title."""


def fetch(name: str, revision: str | None = None, *, download: bool = True) -> Path:
    """The folder of a hub id: from the cache if it is there in full, downloaded otherwise, if that is allowed."""
    cached = _cached(name, revision)
    if cached is not None:
        return cached
    if not download:
        raise InvalidValueError(
            f"The hub model {name!r} is not in the local cache and may not be downloaded. If you want it, add "
            "`--download` (in Python: `trust=Trust(download=True)` for a study, else `download=True`)."
        )
    files = _listing(name, revision)
    if not _has_weights(files):
        offer = _converted(name) if revision is None else None
        if offer is None:
            raise InvalidValueError(_no_weights(name, files))
        return _cached(name, offer) or _download(name, offer)
    return _download(name, revision)


def pickles_among(names: list[str]) -> list[str]:
    """The files that hold pickled weights, which would run code when loaded."""
    return sorted(name for name in names if name.endswith(_PICKLES))


def _cached(name: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True, allow_patterns=_WANTED))
    except LocalEntryNotFoundError:
        return None
    except ValueError as error:
        must, got = "be followed by a folder or a hub id", f"{name!r}: {error}"
        raise InvalidValueError(argument="hf:", must=must, got=got) from error
    names = [path.name for path in folder.iterdir()]
    return folder if "config.json" in names and _has_weights(names) else None


@contextmanager
def _reaching(name: str) -> Iterator[None]:
    """Whatever goes wrong on the way to the hub is told in one way."""
    try:
        yield
    except Exception as error:  # the client's transport raises errors of several unrelated families
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        raise InvalidValueError(
            f"The hub model {name!r} is neither a folder, nor in the local cache, nor in reach: {first_line}. "
            f"Check its name and the connection, or download it elsewhere and load the folder with 'hf:<folder>'."
        ) from error


def _listing(name: str, revision: str | None) -> list[str]:
    """The files of a repository."""
    from huggingface_hub import HfApi

    with _reaching(name):
        info = HfApi().model_info(name, revision=revision, timeout=30)
    return [file.rfilename for file in info.siblings or []]


def _converted(name: str) -> str | None:
    """The reference of the hub's own open offer to add safetensors, if there is one."""
    from huggingface_hub import HfApi

    with _reaching(name):
        offers = [offer for offer in HfApi().get_repo_discussions(name) if offer.is_pull_request]
    own = (offer for offer in offers if (offer.author, offer.title) == _CONVERSION and offer.status == "open")
    return next((offer.git_reference for offer in own), None)


def _download(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    with _reaching(name):
        return Path(snapshot_download(name, revision=revision, allow_patterns=_WANTED))


def _has_weights(files: list[str]) -> bool:
    return not set(_WEIGHTS).isdisjoint(files)


def _no_weights(name: str, files: list[str]) -> str:
    held = ", ".join(pickles_among(files)) or "no weights"
    return (
        f"The hub model {name!r} must have model.safetensors, it only has {held}. Pickled weights run code when "
        f"loaded. Convert them once where that is acceptable (https://huggingface.co/spaces/safetensors/convert, "
        f"or `from_pretrained` and `save_pretrained`) and load the result with 'hf:<folder>'."
    )

"""Weights, configurations and files → one SHA-256 that says whether two classifiers are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20
_VOLATILE = frozenset({"transformers_version", "_name_or_path", "name_or_path", "torch_dtype", "dtype"})
"""What a configuration says of its own origin, not of its predictions."""


def fingerprint(parts: Mapping[str, bytes]) -> str:
    """SHA-256 over named parts, in the order of their names; no two sets of parts read alike.

    Examples
    --------
    >>> fingerprint({"weights": b"1", "config": b"2"}) == fingerprint({"config": b"2", "weights": b"1"})
    True
    >>> fingerprint({"weights": b"12"}) == fingerprint({"weights": b"1", "2": b""})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(parts):
        for piece in (name.encode(), parts[name]):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
    return digest.hexdigest()


def digest_files(paths: Iterable[Path]) -> dict[str, bytes]:
    """The SHA-256 of every file, under the file's name."""
    return {f"file {path.name}": _digest_file(path) for path in paths}


def _digest_file(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.digest()


def canonical(settings: Any) -> bytes:
    """JSON with sorted keys, without the notes on where and by which version it was written."""
    kept = {key: settings[key] for key in settings.keys() - _VOLATILE} if isinstance(settings, Mapping) else settings
    return json.dumps(kept, sort_keys=True, ensure_ascii=True, default=repr).encode()


def name_of(function: Any) -> str | None:
    """What is known of a preprocessing function: its name. Two functions of one name are not told apart."""
    return None if function is None else getattr(function, "__qualname__", type(function).__qualname__)


def digest_module(module: Any) -> dict[str, bytes]:
    """The SHA-256 of all parameters and buffers of a torch module, and the name of its class.

    Values, shapes and number types count; the device does not. Buffers that are not saved with the
    weights (means and scales of a built-in normalisation) count as well.
    """
    digest = hashlib.sha256()
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}\n".encode())
        digest.update(_bytes_of(tensors[name]))
    return {"module": type(module).__qualname__.encode(), "tensors": digest.digest()}


def _bytes_of(tensor: Any) -> Any:
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())

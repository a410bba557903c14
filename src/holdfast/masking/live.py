"""A live model, as a user holds it → the fingerprint that identifies it, or None where nothing can."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import MethodType
from typing import Any

from holdfast.fingerprints import canonical, digest_files, digest_module, digest_object, fingerprint
from holdfast.masking.module_notes import notes_of, weights_mark
from holdfast.masking.onnx_files import external_files
from holdfast.masking.torch_support import is_module


def fingerprint_live(classifier: Any, *beside: Any) -> str | None:
    """SHA-256 of a torch module, an estimator or one of its methods, or an ONNX file; None for anything else.

    What is given ``beside``, such as a tokenizer, counts as well. A module's is computed once, and again when its
    weights were changed.
    """
    if is_module(classifier):
        notes = notes_of(classifier)
        mark = ("fingerprint", weights_mark(classifier), *map(id, beside))
        if mark not in notes:
            notes[mark] = fingerprint(_module_parts(classifier, beside))
        return str(notes[mark])
    if isinstance(classifier, (str, Path)):
        own, weights = hashlib.sha256(Path(classifier).read_bytes()), external_files(Path(classifier))
        return fingerprint({"model": own.digest()} | digest_files(weights)) if weights else own.hexdigest()
    return _estimator_fingerprint(classifier)


def _estimator_fingerprint(classifier: Any) -> str | None:
    """A fitted estimator's is computed once, and again when it was fitted again: its attributes are others then."""
    estimator, method = classifier, ""
    if isinstance(classifier, MethodType):
        estimator, method = classifier.__self__, classifier.__name__
    if not hasattr(estimator, "fit"):
        return None
    notes, attributes = notes_of(estimator), dict(vars(estimator))
    known = notes.get("fitted")
    if known is None or {name: id(part) for name, part in known[0].items()} != {
        name: id(part) for name, part in attributes.items()
    }:
        known = notes["fitted"] = (attributes, digest_object(estimator))
    return None if known[1] is None else fingerprint({"object": known[1], "method": method.encode()})


def _module_parts(module: Any, beside: tuple[Any, ...]) -> dict[str, bytes]:
    parts = digest_module(module) | {"layers": repr(module).encode()}
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        parts["config"] = canonical(config.to_dict())
    return parts | {f"beside {i}": _tokenizer_bytes(tokenizer) for i, tokenizer in enumerate(beside)}


def _tokenizer_bytes(tokenizer: Any) -> bytes:
    """The rules of a fast tokenizer; of another one its class and vocabulary."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is not None:
        return bytes(fast.to_str().encode())
    words = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    return type(tokenizer).__qualname__.encode() + canonical(words)

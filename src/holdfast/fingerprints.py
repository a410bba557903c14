"""Weights, configurations, files and live objects → one SHA-256 that says whether two classifiers are the same."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import random
import sys
import types
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_VOLATILE = frozenset({"transformers_version", "_name_or_path", "name_or_path", "torch_dtype", "dtype"})
"""What a configuration says of its own origin, not of its predictions."""


def fingerprint(parts: Mapping[str, bytes]) -> str:
    """SHA-256 over named parts, in the order of their names; no two sets of parts read alike."""
    return _hash("", *(piece for name in sorted(parts) for piece in (name.encode(), parts[name]))).hex()


def digest_files(paths: Iterable[Path]) -> dict[str, bytes]:
    """The SHA-256 of every file, under the file's name."""
    digests = {}
    for path in paths:
        with path.open("rb") as file:
            digests[f"file {path.name}"] = hashlib.file_digest(file, "sha256").digest()
    return digests


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
    import torch

    digest = hashlib.sha256()
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    for name, tensor in sorted(tensors.items(), key=lambda pair: pair[0]):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return {"module": type(module).__qualname__.encode(), "tensors": digest.digest()}


def digest_object(value: Any) -> bytes | None:
    """The SHA-256 of all that a live object, such as a fitted estimator, is made of.

    The object is taken apart as for pickling, but nothing is pickled: equal parts give equal digests,
    however they share memory. None if a part cannot be told, such as a function without a name.
    """
    try:
        return _Parts().digest(value)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return None


def digest_code(function: Any) -> str:
    """The first 16 digits of the SHA-256 of what a function does, as far as it shows: of a module, all of its code.

    Of a function of a module on disk the whole module counts, less comments and layout: it may call the rest. Of any
    other, such as a lambda, its own code counts. So do defaults, what it closes over, the object of a bound method and
    the arguments of a partial; the state of random generators does not, which every call changes.
    """
    return _digest_code(function, set()).hex()[:16]


def _digest_code(value: Any, seen: set[int]) -> bytes:
    if id(value) in seen:
        return b"circle"
    seen = seen | {id(value)}
    kind = type(value).__qualname__.encode()

    def digest_all(parts: Iterable[Any]) -> list[bytes]:
        return [_digest_code(part, seen) for part in parts]

    if isinstance(value, types.FunctionType):
        cells = digest_all(_cell(cell) for cell in value.__closure__ or ())
        own = [value.__qualname__.encode(), _digest_source(value), *cells]
        return _hash("function", *own, *digest_all([value.__defaults__, value.__kwdefaults__]))
    if isinstance(value, types.MethodType):
        return _hash("method", *digest_all([value.__func__, value.__self__]))
    if isinstance(value, functools.partial):
        return _hash("partial", *digest_all([value.func, value.args, value.keywords]))
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        return _hash("generator", kind)
    if isinstance(value, (list, tuple)):
        return _hash("sequence", *digest_all(value))
    if isinstance(value, dict):
        return _hash("mapping", *digest_all(part for pair in value.items() for part in pair))
    if hasattr(value, "named_parameters") and hasattr(value, "named_buffers"):
        return _hash("module", *digest_module(value).values())
    call = inspect.getattr_static(type(value), "__call__", None)
    if isinstance(call, types.FunctionType) and not isinstance(value, type):
        return _hash("callable", kind, *digest_all([call, vars(value) if hasattr(value, "__dict__") else None]))
    return digest_object(value) or _hash("value", kind)


def _digest_source(function: types.FunctionType) -> bytes:
    """The code of its module, if that is a file, else its own."""
    module = sys.modules.get(function.__module__ or "")
    path = None if module is None or module.__name__ == "__main__" else getattr(module, "__file__", None)
    if path is not None and path.endswith(".py") and Path(path).is_file():
        return ast.unparse(ast.parse(Path(path).read_bytes())).encode()
    return _digest_bytecode(function.__code__)


def _digest_bytecode(code: types.CodeType) -> bytes:
    constants = [
        _digest_bytecode(part) if isinstance(part, types.CodeType) else repr(part).encode() for part in code.co_consts
    ]
    return _hash("bytecode", code.co_code, repr(code.co_names).encode(), *constants)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


class _Parts:
    """Digests of the parts of one object; each part is looked at once, and a circle ends where it closes."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}

    def digest(self, value: Any) -> bytes:
        if id(value) not in self._known:
            self._known[id(value)] = (value, b"circle")  # holds the value, so that its id stays its own
            self._known[id(value)] = (value, self._digest(value))
        return self._known[id(value)][1]

    def _digest(self, value: Any) -> bytes:
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return _hash(type(value).__name__, repr(value).encode())
        if isinstance(value, (bytes, bytearray)):
            return _hash("bytes", bytes(value))
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            if array.dtype.names is not None:  # between its fields there may be anything
                return _hash("records", *(self.digest({name: array[name]}) for name in array.dtype.names))
            own = self.digest(array.tolist()) if array.dtype.hasobject else array.tobytes()
            return _hash("array", f"{array.dtype} {array.shape}".encode(), own)
        if isinstance(value, Mapping):
            pairs = sorted((self.digest(key), self.digest(item)) for key, item in value.items())
            return _hash("mapping", *(part for pair in pairs for part in pair))
        if isinstance(value, (list, tuple)):
            return _hash("sequence", *map(self.digest, value))
        if isinstance(value, (set, frozenset)):
            return _hash("set", *sorted(map(self.digest, value)))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            name = f"{value.__module__}.{value.__qualname__}"
            if "<" in name:
                raise ValueError(f"{name} has no stable name or content")
            return _hash("name", name.encode())
        if isinstance(value, types.MethodType):
            return _hash("method", value.__name__.encode(), self.digest(value.__self__))
        reduced = value.__reduce_ex__(4)  # what the object itself says it is made of
        if isinstance(reduced, str):
            return _hash("name", reduced.encode())
        make, arguments, state, items, entries = (*reduced, None, None, None)[:5]
        if isinstance(state, dict):
            state = {name: part for name, part in state.items() if name != "_sklearn_version"}
        parts = [make, arguments, state]
        parts += [None if items is None else list(items), None if entries is None else dict(entries)]
        return _hash("object", *map(self.digest, parts))


def _hash(kind: str, *parts: bytes) -> bytes:
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def function_key(function: Any) -> Hashable | None:
    """What two bindings of one function have in common; None if it cannot be told.

    Arguments of a ``functools.partial`` must be of one type as well: 1 equals True, and a function may tell them apart.

    >>> first, second, other = (functools.partial(max, number) for number in (3, 3, 4))
    >>> function_key(first) == function_key(second) != function_key(other)
    True
    """
    key: Any = function
    if isinstance(function, functools.partial):
        key = (function.func, _typed(function.args), _typed(tuple(sorted(function.keywords.items()))))
    try:
        hash(key)
    except TypeError:
        return None
    return key  # type: ignore[no-any-return]


def _typed(value: Any) -> Hashable:
    """A value together with its type, and those of what a tuple holds."""
    return (tuple, *map(_typed, value)) if isinstance(value, tuple) else (type(value), value)

"""A torch module or an ONNX session → what has been learnt about it, forgotten with it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

_NOTES: WeakKeyDictionary[Any, dict[Hashable, Any]] = WeakKeyDictionary()


def notes_of(module: Any) -> dict[Hashable, Any]:
    """Notes that live as long as the module; they must not hold the module itself.

    A module that cannot be a key gets fresh notes every time: what they would save is learnt anew.

    Examples
    --------
    >>> class Module: ...
    >>> module = Module()
    >>> notes_of(module)["length"] = 3
    >>> notes_of(module), notes_of(Module())
    ({'length': 3}, {})
    """
    try:
        return _NOTES.setdefault(module, {})
    except TypeError:  # unhashable, or without weak references
        return {}


def weights_mark(module: Any) -> Hashable:
    """A mark of a module's weights, another one once they are changed in place or replaced."""
    if not hasattr(module, "parameters"):
        return None
    tensors = (*module.parameters(), *module.buffers())
    return hash(tuple((tensor.data_ptr(), _version(tensor)) for tensor in tensors))


def _version(tensor: Any) -> int:
    """How often torch has seen a tensor changed; tensors made in inference mode do not count."""
    return -1 if tensor.is_inference() else int(tensor._version)

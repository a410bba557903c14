"""A torch module → its scores, what was learnt about it, and the fingerprint of any live model.

The module's mode, its device and the grad mode stay as they were.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import MissingExtraError, ModelError
from holdfast.fingerprints import canonical, digest_files, digest_module, digest_object, fingerprint
from holdfast.masking.onnx import SCORE_NAMES, external_files


def import_torch() -> Any:
    """The torch package, or an error that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("This needs PyTorch: pip install 'holdfast[torch]'") from error
    return torch


def is_module(classifier: Any) -> bool:
    """Whether the classifier is a torch module; asks without importing torch."""
    return any(kind.__module__.startswith("torch.") and kind.__name__ == "Module" for kind in type(classifier).__mro__)


def device_of(module: Any, device: Any = None) -> Any:
    """The device asked for, or that of the first parameter or buffer, or the CPU."""
    torch = import_torch()
    if device is not None:
        return torch.device(device)
    return next((tensor.device for tensor in _tensors(module)), torch.device("cpu"))


def dtype_of(module: Any, dtype: Any = None) -> Any:
    """The number type asked for, or that of the first floating parameter or buffer, or float32."""
    torch = import_torch()
    if dtype is not None:
        return getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return next((tensor.dtype for tensor in _tensors(module) if tensor.is_floating_point()), torch.float32)


def warn_if_half(module: Any, device: Any) -> None:
    """Say once per module that it computes in half precision on a CPU, where few have fast arithmetic for it."""
    notes = notes_of(module)
    kind = str(dtype_of(module)).removeprefix("torch.")
    if kind not in ("float16", "bfloat16") or device_of(module, device).type != "cpu" or "half" in notes:
        return
    notes["half"] = True
    warnings.warn(
        f"The model computes in {kind} on a CPU, which can be many times slower than float32. "
        "Turn it into `model.float()` first, or say that you mean it with `dtype=`.",
        stacklevel=3,
    )


def takes(module: Any, name: str) -> bool:
    """Whether the module's ``forward`` has an argument of this name; a traced module does not tell, and has none."""
    return name in forward_parameters(module)


def forward_parameters(module: Any) -> Mapping[str, inspect.Parameter]:
    """The arguments of the module's ``forward``; none if it does not tell."""
    try:
        return inspect.signature(module.forward).parameters
    except ValueError:
        return {}


def _tensors(module: Any) -> Iterator[Any]:
    yield from module.parameters()
    yield from module.buffers()


@contextmanager
def evaluating_module(module: Any, *, gradients: bool = False) -> Iterator[None]:
    """Evaluation mode, with or without gradients; every submodule's own mode is restored afterwards."""
    torch = import_torch()
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with torch.inference_mode(not gradients), torch.set_grad_enabled(gradients):
            yield
    finally:
        for part in training:
            part.training = True


def score_tensor(output: Any) -> Any:
    """The scores (b, n_classes) in what a module returns: a tensor, a model output, a dict or a tuple."""
    torch = import_torch()
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, Mapping):
        named = [output[name] for name in SCORE_NAMES if name in output]
        found = named or [value for value in output.values() if isinstance(value, torch.Tensor)]
        if found:
            return score_tensor(found[0])
    if isinstance(output, (tuple, list)) and output:
        return score_tensor(output[0])
    if hasattr(output, "logits"):
        return score_tensor(output.logits)
    raise ModelError(
        f"The module must return a tensor of scores, or a dict, tuple or model output with one, got {type(output)}."
    )


def to_numpy(scores: Any) -> NDArray[Any]:
    """Scores on the CPU; half precisions become float32, which NumPy can hold and nothing loses."""
    torch = import_torch()
    values = scores.detach()
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    return np.asarray(values.cpu().numpy())


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

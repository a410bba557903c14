"""A torch module → plain scores, leaving its mode, its device and the grad mode as they were."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import MissingExtraError, ModelError
from holdfast.masking.module_notes import notes_of

SCORE_NAMES = ("logits", "scores", "probabilities", "output")


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

"""What a caller asks of torch → a device and a number type that exist."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidValueError
from holdfast.masking.torch import import_torch


def check_device(device: Any) -> Any:
    """The device asked for, or the CPU."""
    torch = import_torch()
    wanted = f"`device` must be a device torch can use here, got {device!r}"
    try:
        found = torch.device("cpu" if device is None else device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise InvalidValueError(f"{wanted}: {str(error).partition(chr(10))[0]}") from error
    return found


def check_dtype(dtype: Any) -> Any:
    """The floating number type asked for, or float32."""
    torch = import_torch()
    found = torch.float32 if dtype is None else getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InvalidValueError(
            f"`dtype` must be a floating number type such as 'float32' or 'float16', got {dtype!r}."
        )
    return found

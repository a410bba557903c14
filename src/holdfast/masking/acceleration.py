"""A torch module → the same module, run in mixed precision or compiled, if that is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.torch_support import device_of, import_torch
from holdfast.validation import check_name

AUTOCASTS = {"bf16": "bfloat16", "fp16": "float16"}
"""Names of mixed precisions → the number type of their matrix products."""

_DEFAULT_BACKEND = "inductor"


@dataclass(frozen=True)
class Acceleration:
    """What was asked for: both change scores a little, and so are part of what is certified."""

    autocast: str | None = None
    backend: str | None = None

    @classmethod
    def check(cls, autocast: Any, compile: Any) -> Acceleration:  # noqa: A002
        """The options ``autocast`` and ``compile`` of a caller.

        Examples
        --------
        >>> Acceleration.check("bf16", True).words
        ('autocast bf16', 'compiled by inductor')
        """
        if autocast is not None:
            check_name(autocast, "autocast", AUTOCASTS)
        return cls(autocast, _check_backend(compile))

    @property
    def words(self) -> tuple[str, ...]:
        """What certificates say of it."""
        mixed = () if self.autocast is None else (f"autocast {self.autocast}",)
        return mixed if self.backend is None else (*mixed, f"compiled by {self.backend}")

    @property
    def options(self) -> dict[str, Any]:
        """The options again, those that were given."""
        given = {"autocast": self.autocast, "compile": self.backend}
        return {name: value for name, value in given.items() if value is not None}

    def casting(self, device: Any) -> AbstractContextManager[Any]:
        """The precision that was asked for, on this device."""
        if self.autocast is None:
            return nullcontext()
        torch = import_torch()
        mixed: AbstractContextManager[Any] = torch.autocast(device.type, getattr(torch, AUTOCASTS[self.autocast]))
        return mixed


class Runner:
    """A module as it is to be run; compiled at the first call, and anew where it travels to."""

    def __init__(self, module: Any, acceleration: Acceleration | None = None) -> None:
        self.module = module
        self.acceleration = Acceleration() if acceleration is None else acceleration
        self._compiled: Any = None

    def __reduce__(self) -> tuple[type[Runner], tuple[Any, Acceleration]]:
        return Runner, (self.module, self.acceleration)

    def __call__(self, *batch: Any, **fields: Any) -> Any:
        """What the module returns of a batch."""
        with self.acceleration.casting(device_of(self.module)):
            return self._fastest()(*batch, **fields)

    def differentiable(self, *batch: Any, **fields: Any) -> Any:
        """The same, never compiled: gradients are rare, and compiling them takes longer than they do."""
        with self.acceleration.casting(device_of(self.module)):
            return self.module(*batch, **fields)

    def _fastest(self) -> Any:
        backend = self.acceleration.backend
        if backend is None:
            return self.module
        if self._compiled is None:
            self._compiled = import_torch().compile(self.module, backend=backend)
        return self._compiled


def _check_backend(asked: Any) -> str | None:
    if asked is None or asked is False:
        return None
    if asked is True:
        return _DEFAULT_BACKEND
    wanted = "`compile` must be True, False or a backend of torch.compile"
    if not isinstance(asked, str):
        raise InvalidTypeError(f"{wanted}, got {asked!r}.")
    known = import_torch().compiler.list_backends(exclude_tags=())
    if asked not in known:
        raise InvalidValueError(f"{wanted}, one of {', '.join(known)}, got {asked!r}.")
    return asked

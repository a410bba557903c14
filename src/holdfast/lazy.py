"""Names of a package and where they are defined → its ``__getattr__``, ``__dir__`` and ``__all__``."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def load_lazily(
    package: str, names: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Import public names and modules of a package when they are first asked for.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    names : mapping of str to str
        The names that each module of the package defines, separated by spaces.
    modules : mapping of str to str, optional
        Modules that are attributes themselves, with their full names. They are not in ``__all__``.

    Examples
    --------
    >>> load, offered, public = load_lazily("holdfast.distributions", {"distribution": "Bernoulli Grouped"})
    >>> load("Bernoulli")(0.3)
    Bernoulli(probability=0.3)
    >>> public
    ['Bernoulli', 'Grouped']
    """
    module_of = {name: f"{package}.{module}" for module, listed in names.items() for name in listed.split()}
    also = modules or {}

    def load(name: str) -> Any:
        if name in also:
            value: Any = import_module(also[name])
        elif name in module_of:
            value = getattr(import_module(module_of[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def offered() -> list[str]:
        """What editors and notebooks offer as completions, loaded or not."""
        return sorted({*module_of, *also, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return load, offered, sorted(module_of)

"""The transformers package, without its log lines, progress bars and warnings, and without a trace in global state."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from holdfast.extras import check_installed
from holdfast.masking.torch import import_torch

_LOGGERS = ("transformers", "huggingface_hub")


def import_transformers() -> Any:
    """The transformers package, or an error that says how to get it."""
    check_installed("This model", ("torch", "transformers"))
    import_torch()
    import transformers

    return transformers


@contextmanager
def silence() -> Iterator[None]:
    """Hush transformers and the hub client, and keep torch's generator; everything is restored afterwards."""
    import_transformers()
    torch = import_torch()
    with _hushed_logs(), _hidden_bars(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def offline() -> Iterator[None]:
    """No request of the hub client leaves this machine, as with HF_HUB_OFFLINE."""
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _hushed_logs() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _hidden_bars() -> Iterator[None]:
    """Both packages keep a switch of their own, and that of transformers moves that of the hub client."""
    hub: Any = import_module("huggingface_hub.utils")
    bars: Any = import_module("transformers.utils.logging")
    shown, shown_by_hub = bars.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
    if shown:
        bars.disable_progress_bar()
    if shown_by_hub:
        hub.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
        if shown_by_hub:
            hub.enable_progress_bars()
        elif shown:
            hub.disable_progress_bars()

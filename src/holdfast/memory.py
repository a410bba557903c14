"""Memory that a process keeps: what a network frees after a pass is there for the next one."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

# Names of the GNU C library, in its <malloc.h>.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4

_MOST_KEPT = 2**31 - 1
"""Bytes of free memory above which some is given back."""

_FETCHED_AT_ONCE = 2**26
"""Bytes that are fetched beyond what is needed."""


@cache
def keep_memory() -> bool:
    """Let this process keep up to 2 GB of memory that it frees; whether it does so from now on.

    By default every large array is fetched from the system and given back, page by page, so that large batches take
    longer per row than small ones; ``python -m benchmarks device`` prints how much. Commands of holdfast and workers of
    studies call this when they start. It changes the whole process: in one of your own, call it yourself. It does
    nothing where the environment says how memory is kept, and on other systems than Linux with the GNU C library.

    Examples
    --------
    >>> from holdfast.memory import keep_memory
    >>> keep_memory() in (True, False)
    True
    """
    is_set = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if is_set or not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _MOST_KEPT), (_TOP_PAD, _FETCHED_AT_ONCE))
    return all(library.mallopt(name, value) == 1 for name, value in settings)

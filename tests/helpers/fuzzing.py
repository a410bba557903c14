"""Hostile values, a deadline per case, and what a call may do with them: answer, or refuse in the words of holdfast."""

from __future__ import annotations

import math
import signal
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from holdfast import HoldfastError

SECONDS_PER_CASE = 120
"""No case may take longer, on a busy machine; what is asked for is answered in milliseconds."""


class OwnError(Exception):
    """What hostile objects raise when they are touched: theirs, and so it may come through."""


class HungError(BaseException):
    """The deadline of a case; no ``except Exception`` can swallow it."""


class Touchy:
    """An object whose every use raises."""

    def _refuse(self, *arguments: Any, **more: Any) -> Any:
        raise OwnError

    __array__ = __iter__ = __len__ = __float__ = __int__ = __bool__ = __call__ = __getitem__ = __index__ = _refuse


class Lying:
    """An object that says that it is long, and has nothing."""

    shape = (3, "x")
    dtype = None
    n_features = 4

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: Any) -> Any:
        raise IndexError(index)


@contextmanager
def deadline(seconds: float = SECONDS_PER_CASE) -> Iterator[None]:
    """Ends what takes too long, in the main thread of POSIX systems."""

    def ring(number: int, frame: Any) -> None:
        raise HungError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def itself() -> list[Any]:
    """A list that is its own element."""
    items: list[Any] = []
    items.append(items)
    return items


NUMBERS = [0, 1, -1, 2, 3, 7, 0.5, -0.5, 1.5, 0.1, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 10**15]
NUMBERS += [2**63, -(2**63) - 1, 10**40, True, False, 1j, Fraction(1, 3), Decimal("0.5"), Decimal("NaN")]
NUMBERS += [
    np.True_,
    np.float32(0.25),
    np.float16(7),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.complex64(1),
    np.longdouble(2),
]
TEXTS = ["", " ", "\0", "\ud800", "a", "lime", "within(1e999)", "within(nan)", "same_top_set(0)", "١٢", "%s{x}", "<b>&"]
TEXTS += [
    "../..",
    "sequential",
    "additions",
    "votes",
    "x" * 10_000,
    "🙂é",
    "-1",
    "1e5",
    "nan",
    "hf:",
    "table:",
    "onnx:/",
]
MAKERS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: (),
    list,
    dict,
    set,
    object,
    lambda: NotImplemented,
    lambda: ...,
    lambda: b"\xff\x00",
    lambda: range(3),
    lambda: range(-5, 10**12, 10**11),
    lambda: (i for i in (1, 2)),
    lambda: iter([]),
    lambda: {"a": 1},
    lambda: {1: [True]},
    lambda: {"lime": np.ones(6, bool), "x": None},
    lambda: [1, "a", None],
    lambda: [[1], [1, 2]],
    lambda: [None],
    lambda: [math.nan, 1.0],
    lambda: [-1, 2],
    lambda: [True, False],
    itself,
    Touchy,
    Lying,
    lambda: lambda *given, **named: None,
    lambda: lambda *given, **named: given,
    lambda: np.array(3.0),
    lambda: np.zeros(0),
    lambda: np.zeros((0, 6), bool),
    lambda: np.ones(6, bool),
    lambda: np.zeros(6, bool),
    lambda: np.ones((6, 1), bool),
    lambda: np.arange(6),
    lambda: np.array([0.1, np.nan, 2, -np.inf, 0, 1]),
    lambda: np.full(6, 1e308),
    lambda: np.full((2, 2, 2, 2), 0.5),
    lambda: np.array([None] * 6, dtype=object),
    lambda: np.array(["a", "b"]),
    lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    lambda: np.array([1j] * 6),
    lambda: np.zeros(3, dtype=[("a", "f4"), ("b", "i4")]),
    lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    lambda: np.broadcast_to(np.float32(1), (6, 6)),
    lambda: np.random.default_rng(0),
    lambda: np.random.RandomState(0),
]


def numbers() -> st.SearchStrategy[Any]:
    """Numbers of every kind, and some that only look like one."""
    return st.sampled_from(NUMBERS) | st.integers(-20, 40) | st.floats(-2, 2) | st.floats()


def hostile() -> st.SearchStrategy[Any]:
    """Anything that somebody could pass by mistake, or not by mistake."""
    made = st.sampled_from(MAKERS).map(lambda make: make())
    return numbers() | made | st.sampled_from(TEXTS) | st.text(max_size=6)


def is_much(value: Any) -> bool:
    """A number so large that doing as asked is honest work without an end."""
    return isinstance(value, (int, float, np.number, Fraction)) and not isinstance(value, bool) and value > 5000


def snapshot(value: Any) -> Any:
    """What an argument holds, as far as a call could change it."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.flags.writeable, repr(value.tolist())
    if isinstance(value, Mapping):
        return [(key, snapshot(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [snapshot(item) if item is not value else "itself" for item in value]
    return repr(value) if isinstance(value, (int, float, complex, str, bytes)) else None


def settle(call: Callable[[], Any], allowed: tuple[type[BaseException], ...] = ()) -> str:
    """Run one case: "answered", or "refused"; anything else comes out as it is, and is a finding.

    Warnings are errors here, whatever the settings outside.
    """
    with deadline(), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call()
        except (HoldfastError, OwnError, *allowed):
            return "refused"
    return "answered"


def peak_megabytes(call: Callable[[], Any]) -> float:
    """The most memory that Python and NumPy took at once while a call ran within its deadline."""
    tracemalloc.start()
    try:
        with deadline():
            call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()

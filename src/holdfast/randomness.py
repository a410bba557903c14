"""Seed or generator → named streams of random numbers that belong to one question and nothing else.

The key of a certificate is a whole number: given back as ``rng`` it repeats the same draws. The
canonical key of a question follows from the question itself, so that nobody can try keys. Streams
of one key with different purposes are independent, so attribution and certification never share
draws, and no stream depends on batch sizes or on what was asked before.
"""

from __future__ import annotations

import hashlib
import json
import numbers
import secrets
from typing import Any, Literal

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError

_KEY_BITS = 128

CANONICAL: Literal["canonical"] = "canonical"
"""The key that follows from model, input, explanation and question."""

_MUST = "be a numpy Generator, a whole number ≥ 0, 'canonical' or None"


def is_canonical(rng: Any) -> bool:
    """Whether the key is to follow from the question."""
    return isinstance(rng, str) and rng == CANONICAL


def stream_key(rng: Any, *question: object) -> int:
    """The whole number that stands for ``rng``: a seed is its own key, a generator gives one up.

    "canonical" gives the key of a ``question``, a digest of all its parts.
    """
    if is_canonical(rng) and question:
        message = json.dumps([CANONICAL, *question], default=str).encode()
        return int.from_bytes(hashlib.blake2b(message, digest_size=_KEY_BITS // 8).digest(), "little")
    if rng is None:
        return secrets.randbits(_KEY_BITS)
    if isinstance(rng, np.random.Generator):
        return int.from_bytes(rng.bytes(_KEY_BITS // 8), "little")
    if isinstance(rng, (bool, np.bool_)) or not isinstance(rng, numbers.Integral):
        raise InvalidTypeError(argument="rng", must=_MUST, got=repr(rng))
    if rng < 0:
        raise InvalidValueError(argument="rng", must=_MUST, got=repr(rng))
    return int(rng)


def stream(key: int | str, *purpose: str | bytes) -> np.random.Generator:
    """The counter-based generator of one key and purpose."""
    parts = [part.encode() if isinstance(part, str) else part for part in (str(key), *purpose)]
    message = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    digest = hashlib.blake2b(message, digest_size=_KEY_BITS // 8).digest()
    return np.random.Generator(np.random.Philox(_Digest(digest)))  # type: ignore[arg-type]


class _Digest(ISeedSequence):
    """A digest as the key of a Philox generator; given as ``key=``, NumPy would also ask for fresh entropy."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """The digest, which is just as long as the key that Philox asks for."""
        return np.frombuffer(self._digest, dtype="<u8").astype(dtype)[:n_words]

"""Streams: repeatable, independent of each other, and never the global ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from holdfast import certify
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.randomness import stream, stream_key
from tests.helpers.contracts import LEAST_P_VALUE, chi_square
from tests.helpers.fakes import score_table


def draws(*args: Any, n: int = 8) -> list[int]:
    return [int(word) for word in stream(*args).integers(2**63, size=n)]


@pytest.mark.parametrize("seed", [0, 7, 2**64, 2**200, np.int64(5), np.uint8(200)])
def test_a_seed_is_its_own_key(seed: Any) -> None:
    key = stream_key(seed)
    assert key == seed
    assert type(key) is int


def test_a_generator_gives_up_a_key_and_moves_on() -> None:
    one, same = np.random.default_rng(3), np.random.default_rng(3)
    first, second = stream_key(one), stream_key(one)
    assert first != second
    assert (stream_key(same), stream_key(same)) == (first, second)
    assert 0 <= first < 2**128


def test_a_question_has_a_key_of_its_own() -> None:
    assert stream_key("canonical", "lime", 5) == stream_key("canonical", "lime", 5)
    assert stream_key("canonical", "lime", 5) != stream_key("canonical", "lime", 6)


def test_no_seed_means_fresh_entropy() -> None:
    assert stream_key(None) != stream_key(None)


@pytest.mark.parametrize(
    ("rng", "error"),
    [
        (-1, InvalidValueError),
        (1.0, InvalidTypeError),
        (True, InvalidTypeError),
        (np.True_, InvalidTypeError),
        ("7", InvalidTypeError),
        (np.random, InvalidTypeError),
        (np.random.SeedSequence(1), InvalidTypeError),
        ([1, 2], InvalidTypeError),
    ],
    ids=repr,
)
def test_what_is_no_source_of_randomness_is_refused(rng: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^`rng` must be a numpy Generator, a whole number ≥ 0, 'canonical' or None, got "):
        stream_key(rng)


def test_a_stream_is_a_function_of_key_and_purpose() -> None:
    assert draws(5, "certify", b"\x01") == draws(5, "certify", b"\x01")


def test_streams_of_other_keys_and_purposes_are_others() -> None:
    told_apart = [
        (5,),
        (6,),
        (5 + 2**64,),
        (5, ""),
        (5, "a"),
        (5, "b"),
        (5, "ab"),
        (5, "a", "b"),
        (5, "b", "a"),
        (5, "", "ab"),
        (5, "ab", ""),
        (5, b"a\x00"),
        (5, b"a", b"\x00"),
    ]
    assert len({tuple(draws(*args)) for args in told_apart}) == len(told_apart)


def test_text_and_its_bytes_are_one_purpose() -> None:
    assert draws(1, "radius") == draws(1, b"radius")


def test_a_stream_stays_what_it_was_in_every_release() -> None:
    """A stored certificate is re-checked by its key: these numbers may never change.

    Printed by numpy 2.4.6: stream(7, "certify", b"\\x05").integers(2**63, size=3).
    """
    remembered = [7108156675024598431, 7000246306457664705, 7855480506965394674]
    assert draws(7, "certify", b"\x05", n=3) == remembered


def test_streams_with_neighboring_keys_are_independent() -> None:
    """Chi-square, 64 cells of (top three bits of one stream, of the next), threshold 1e-4."""
    tops = np.array([stream(key, "x").integers(8, size=50) for key in range(400)])
    cells = np.bincount((tops[:-1] * 8 + tops[1:]).ravel(), minlength=64)
    assert chi_square(cells, np.full(64, cells.sum() / 64)) > LEAST_P_VALUE


@pytest.mark.parametrize("rng", [0, None, "generator"])
def test_certifying_never_touches_global_generators(rng: Any) -> None:
    model = score_table(12)
    given = np.random.default_rng(0) if rng == "generator" else rng
    before = np.random.get_state(legacy=False)["state"], random.getstate()  # noqa: NPY002 - the global one is meant
    cert = certify(model, np.arange(12) < 2, radius=6, rng=given)
    assert not cert.exact
    after = np.random.get_state(legacy=False)["state"], random.getstate()  # noqa: NPY002
    np.testing.assert_array_equal(before[0]["key"], after[0]["key"])
    assert before[0]["pos"] == after[0]["pos"]
    assert before[1] == after[1]


def test_the_key_of_a_certificate_repeats_its_draws() -> None:
    model, selected = score_table(12), np.arange(12) < 2
    first = certify(model, selected, radius=6, rng=np.random.default_rng(9))
    assert certify(model, selected, radius=6, rng=first.rng_key) == first

"""Every verb gives what it gave when its calls were recorded: draws, counts, intervals, keys and fingerprints.

The fixture was made by the command it begins with. Fields that are new since then are welcome; none may be
missing, and none may have another value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast as hf
from tests.helpers.recorded_calls import CALLS, COMMAND, DATA, FIXTURE, ROUNDED, ROUNDED_FIELDS, plain

RECORD = json.loads(FIXTURE.read_text(encoding="utf-8"))
ROUNDING = 1e-5
"""Relative to the larger of the number and 1: scores of networks are sums of float32."""

LAST_DIGITS = 1e-14
"""The same for all other numbers: processors add up the terms of a sum in different orders."""


def differences(recorded: Any, now: Any, *, rounded: bool, path: str = "") -> Iterator[str]:
    """Where the value now lacks something that was recorded, or has another value there."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name, value in recorded.items():
            if name in now:
                is_rounded = rounded or name in ROUNDED_FIELDS
                yield from differences(value, now[name], rounded=is_rounded, path=f"{path}.{name}")
            else:
                yield f"{path}.{name} is missing, was {value!r}"
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for i, (value, other) in enumerate(zip(recorded, now, strict=True)):
            yield from differences(value, other, rounded=rounded, path=f"{path}[{i}]")
    elif type(recorded) is not type(now) or not is_same(recorded, now, rounded=rounded):
        yield f"{path} is {now!r}, was {recorded!r}"


def is_same(recorded: Any, now: Any, *, rounded: bool) -> bool:
    if isinstance(recorded, float):
        return abs(recorded - now) <= (ROUNDING if rounded else LAST_DIGITS) * max(1.0, abs(recorded))
    return bool(recorded == now)


def test_the_fixture_names_its_command_and_has_every_call() -> None:
    assert RECORD["command"] == COMMAND
    assert RECORD["calls"].keys() == CALLS.keys()
    assert len(CALLS) >= 48


def test_every_bundled_model_is_certified_and_asked_something_else() -> None:
    others = {"efficientnet-lite0"}  # a pass takes 20 ms, and hundreds are recorded of each
    assert DATA.keys() == {card.name for card in hf.models.available()} - others
    for name in DATA:
        assert f"{name}: certify" in CALLS
        assert f"{name}: lime, compared with occlusion" in CALLS


def test_no_path_of_a_machine_is_recorded() -> None:
    text = FIXTURE.read_text(encoding="utf-8")
    assert not [word for word in ("/home/", "/work/", "/tmp/", "/usr/", "/Users/", "site-packages") if word in text]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_it_gave(name: str) -> None:
    try:
        now = json.loads(json.dumps(plain(CALLS[name]())))
    except hf.errors.MissingExtraError as error:
        pytest.skip(str(error))
    assert not list(differences(RECORD["calls"][name], now, rounded=name in ROUNDED))


# -- the comparison itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        ({"rate": 0.5, "draws": [1, 2]}, None),
        ({"rate": 0.5, "draws": [1, 2], "classes": ["a"]}, None),
        ({"draws": [1, 2]}, ".rate is missing, was 0.5"),
        ({"rate": 0.5 + 1e-12, "draws": [1, 2]}, ".rate is 0.500000000001, was 0.5"),
        ({"rate": 0.5, "draws": [1, 3]}, ".draws[1] is 3, was 2"),
        ({"rate": 0.5, "draws": [1]}, ".draws is [1], was [1, 2]"),
        ({"rate": 0.5, "draws": [True, 2]}, ".draws[0] is True, was 1"),
        ({"rate": None, "draws": [1, 2]}, ".rate is None, was 0.5"),
    ],
)
def test_a_field_that_is_missing_or_changed_is_named(now: Any, difference: str | None) -> None:
    named = list(differences({"rate": 0.5, "draws": [1, 2]}, now, rounded=False))
    assert named == ([] if difference is None else [difference])


def test_only_numbers_that_processors_round_may_differ_and_only_by_rounding() -> None:
    recorded = {"scores": [100.0, 0.0], "rate": 0.5, "n_calls": 5}
    rounded = {"scores": [100.0005, 5e-6], "rate": 0.5, "n_calls": 5}
    assert not list(differences(recorded, rounded, rounded=False))
    assert list(differences(recorded, rounded | {"rate": 0.500001}, rounded=False)) == [".rate is 0.500001, was 0.5"]
    assert len(list(differences(recorded, {"scores": [100.002, 2e-5], "rate": 0.5, "n_calls": 6}, rounded=True))) == 3

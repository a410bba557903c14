"""Results that were edited into a contradiction are refused when they are read, with the reason."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification.serialization import fits
from holdfast.words import outward
from tests.helpers.fakes import score_table

N = 10
TABLE = score_table(N, seed=3)
SELECTED = np.arange(N) < 3
CONSTANT = hf.lookup_table(np.zeros(2**N, dtype=int), n_features=N)
RANKED = hf.Attribution(np.arange(N, 0, -1.0), method="test")

MADE: dict[str, Callable[[], Any]] = {
    "accuracy": lambda: hf.smoothed_accuracy(lambda one: TABLE, [0, 1], [0, 1], keep_probabilities=[1, 0.5], rng=0),
    "comparison": lambda: hf.compare(TABLE, {"a": SELECTED, "b": ~SELECTED}, [3], rng=3),
    "curve": lambda: hf.certify_radii(TABLE, SELECTED, radii=[1, 2], rng=3),
    "stable": lambda: hf.certify_hard(CONSTANT, SELECTED, radius=2, rng=3),
    "refuted": lambda: hf.certify_hard(TABLE, SELECTED, radius=2, rng=3),
    "means": lambda: hf.mean_curve([lambda: (TABLE, SELECTED)], radii=[1, 2], half_width=0.3, rng=3),
    "radius": lambda: hf.certified_radius(CONSTANT, SELECTED, min_rate=0.5, rng=3),
    "reexplanation": lambda: hf.reexplain(TABLE, "lime", radius=1, n_repeats=2, n_samples=64, rng=3),
    "selection": lambda: hf.stabilize(CONSTANT, RANKED, min_rate=0.5, radius=1, sizes=[10, 8, 6], rng=3),
    "witness": lambda: hf.find_witness(TABLE, SELECTED, rng=3),
    "bracket": lambda: hf.stability_bracket(TABLE, SELECTED, rng=3),
}


@cache
def text_of(name: str) -> str:
    text: str = MADE[name]().to_json()
    return text


def first_step_open(data: dict[str, Any]) -> None:
    data["trail"][0]["answer"] = None


EDITS: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("accuracy", lambda data: data["n_correct"].pop(), "`n_correct` must have one entry per keep probability"),
    ("comparison", lambda data: data["names"].append("c"), "`curves` must be one per name, at least two"),
    ("comparison", lambda data: data["differences"].clear(), "`differences` must be one per pair and radius"),
    ("curve", lambda data: data["certificates"].clear(), "`certificates` must not be empty"),
    ("curve", lambda data: data["certificates"].reverse(), "one question at increasing radii"),
    ("curve", lambda data: data["certificates"][0].update(rng_key=4), "one question at increasing radii"),
    ("stable", lambda data: data.update(n_agreed=1), "`stable` must be false exactly if"),
    ("stable", lambda data: data.update(radius=1), "`radius` must be the requested one if stable"),
    ("refuted", lambda data: data.update(radius=2), "`radius` must be the requested one if stable"),
    ("refuted", lambda data: data.update(stable=True), "`stable` must be false exactly if"),
    ("means", lambda data: data["rates"].pop(), "must have one entry per radius"),
    ("means", lambda data: data.update(n_inputs=0), "`n_inputs` must be a whole number ≥ 1"),
    ("radius", lambda data: data["trail"].clear(), "`trail` must end at the first radius that is not certified"),
    ("radius", first_step_open, "`answer` must follow from the counts"),
    ("radius", lambda data: data.update(radius=1), "`radius` must be the last certified one"),
    ("reexplanation", lambda data: data["which"].pop(), "`which` must name the certificate of each"),
    ("reexplanation", lambda data: data["rate_intervals"].clear(), "`certificates` must be one per distinct selection"),
    ("reexplanation", lambda data: data.update(overlap=2), "`overlap` must lie in its interval"),
    ("selection", lambda data: data["sizes"].reverse(), "`trail` must follow `sizes`, which must decrease"),
    ("selection", first_step_open, "`trail` must end at the first size that is not certified"),
    ("selection", lambda data: data["trail"].clear(), "`trail` must end at the first size that is not certified"),
    ("selection", lambda data: data.update(size=8), "`size` must be the last certified one of the trail"),
    ("witness", lambda data: data.update(found=False), "`found` must agree with `mask`, `added` and `n_added`"),
    ("witness", lambda data: data["added"].clear(), "`found` must agree with `mask`, `added` and `n_added`"),
    ("witness", lambda data: data["mask"]["shown"].remove(0), "`mask` must be the explanation with the features"),
    ("witness", lambda data: data["mask"]["shown"].pop(), "`mask` must be the explanation with the features"),
    ("bracket", lambda data: data.update(low=data["below"]), "`low` must be below `below`"),
]


@pytest.mark.parametrize("name", MADE)
def test_a_result_that_was_not_edited_is_read_back(name: str) -> None:
    made = MADE[name]()
    assert type(made).from_json(text_of(name)) == made


@pytest.mark.parametrize(("name", "edit", "reason"), EDITS, ids=[f"{i} {name}" for i, (name, _, _) in enumerate(EDITS)])
def test_a_result_that_contradicts_itself_is_refused_with_the_reason(
    name: str, edit: Callable[[dict[str, Any]], Any], reason: str
) -> None:
    data = json.loads(text_of(name))
    edit(data)
    assert data != json.loads(text_of(name))
    with pytest.raises(hf.errors.InvalidValueError, match=reason) as refused:
        type(MADE[name]()).from_json(json.dumps(data))
    assert str(refused.value).startswith(f"`text` is not a valid {data['schema']}: ")


@pytest.mark.parametrize("fill", [{"rows": [1.0, {"a": math.inf}]}, [[math.nan]], -math.inf])
def test_numbers_that_json_cannot_hold_fit_nowhere(fill: Any) -> None:
    assert not fits(fill, Any)
    assert not fits({"fill": fill}, Mapping[str, Any])
    assert fits({"fill": [1.0, "a", None, {"b": 2}]}, Mapping[str, Any])


def test_an_interval_without_an_end_stays_without_it_when_it_is_rounded() -> None:
    assert outward(hf.Interval(-math.inf, 0.12345)) == hf.Interval(-math.inf, 0.124)
    assert outward(hf.Interval(0.12345, math.inf), 2) == hf.Interval(0.12, math.inf)


def test_a_mean_curve_has_as_many_entries_as_radii() -> None:
    curve = MADE["means"]()
    assert len(curve) == len(list(curve)) == len(curve.radii) == 2

"""No radius of any experiment repeats another: each says something of some input that none before it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.reproduce import EXPERIMENTS, reproduce
from holdfast.reproduce.catalog import RESNET
from holdfast.reproduce.experiment import up_to
from holdfast.reproduce.studies import without_repeats
from tests.helpers.reproduce_support import pictures_subject, read_rows, request, texts_subject
from tests.helpers.summary_support import UP, difference, group, studied

METHODS: dict[str, tuple[str, ...]] = {
    "q1-sca-vs-mus": ("occlusion", "random"),
    "q2-methods": ("occlusion", "random"),
    "q3-smoothing": ("random",),
    "topk-ablation": ("occlusion", "random"),
    "mus-by-lambda": ("occlusion", "random"),
    "example-similar": ("occlusion", "lime"),
    "example-soft-vs-hard": ("occlusion",),
}

GROUPS = ("model", "method", "first", "second", "top_fraction", "keep_probability", "kind", "mus_keep_probability")


def radii_by_group(path: Path) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for row in read_rows(path):
        key = tuple(row.get(name, "") for name in GROUPS)
        if row["radius"]:  # a comparison of small with large radii has none
            found.setdefault(key, []).append(int(row["radius"]))
    return found


def test_every_experiment_with_radii_is_looked_at() -> None:
    assert set(METHODS) == {one.id for one in EXPERIMENTS if "radii" in one.options}


@pytest.mark.parametrize("radii", [None, (1, 2, 9, 10, 11, 12, 40)], ids=["own", "asked"])
@pytest.mark.parametrize("name", METHODS)
def test_no_radius_of_an_experiment_repeats_another(name: str, radii: Any, tmp_path: Path) -> None:
    """Sixteen features, of which 14, 12, 10 or 8 are left at the four shares."""
    asked: dict[str, Any] = {"methods": METHODS[name], "radii": radii}
    asked |= {"keep": (1.0, 0.5)} if name == "q3-smoothing" else {}
    reproduce(name, request(pictures_subject(tmp_path / "pictures", 2), **asked), output=tmp_path / "out")
    for path in {*(tmp_path / "out").glob("*.csv")} - {tmp_path / "out" / "claims.csv"}:
        for key, found in radii_by_group(path).items():
            left = 16 - round(16 * float(key[4] or 0.25))
            distinct = sorted(set(found))
            assert all(radius < left for radius in distinct[:-1]), f"{path.stem} {key} repeats {distinct}"
            assert len(distinct) > 1 or path.stem == "differences"
            if path.stem in ("curves", "differences"):
                assert len(found) == len(distinct), "a radius is counted once"


def test_texts_end_with_the_longest_of_them(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 4)
    asked = request(subject, methods=("occlusion", "random"), radii=(1, 5, 8, 30, 35, 40))
    reproduce("topk", asked, output=tmp_path / "out")
    rows = read_rows(tmp_path / "out" / "certificates.csv")
    for share in {row["top_fraction"] for row in rows}:
        own = [row for row in rows if row["top_fraction"] == share]
        left = max(int(row["n_features"]) - int(row["n_selected"]) for row in own)
        effective: dict[int, set[tuple[str, str]]] = {}
        for row in own:
            effective.setdefault(int(row["radius"]), set()).add((row["input"], row["effective_radius"]))
        assert len({frozenset(one) for one in effective.values()}) == len(effective), "two radii are the same for all"
        assert max(int(row["effective_radius"]) for row in own) == left


@pytest.mark.parametrize("name", ["q2", "topk"])
def test_mean_curves_repeat_no_radius_either(name: str, tmp_path: Path) -> None:
    asked = {"methods": ("occlusion", "random"), "radii": (1, 12, 40, 41), "precision": "data-set"}
    subject = pictures_subject(tmp_path / "pictures", 2)
    reproduce(name, request(subject, **asked), output=tmp_path / "out")
    for key, found in radii_by_group(tmp_path / "out" / "curves.csv").items():
        assert found == ([1, 12, 40] if key[4] == "0.125" else [1, 12]), key


def test_rows_after_one_that_reveals_everything_are_left_out() -> None:
    radii = (1, 8, 10, 20)
    pair = difference("lime", "random", dict.fromkeys(radii, UP))
    summary = studied(RESNET, [group("lime", dict.fromkeys(radii, 0.5))], [pair]).summary
    kept = {20: radii, 11: radii, 10: radii[:3], 8: radii[:2], 0: radii[:1]}
    for left, expected in kept.items():
        shorter = without_repeats(summary, {0.25: left})
        assert shorter.groups[0].radii == expected
        assert tuple(at.radius for at in shorter.differences[0]) == expected
    assert (up_to((1, 5), 0), up_to((1, 5), 3), up_to((1, 5), 5), up_to((1, 5), 9)) == ((1,), (1, 3), (1, 5), (1, 5))

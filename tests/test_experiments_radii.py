"""No radius of any experiment repeats another: each says something of some input that none before it did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.experiments import EXPERIMENTS, Subject, methods, reproduce
from holdfast.experiments.radii import told, up_to
from holdfast.experiments.studies import Studied
from holdfast.experiments.subjects import RESNET, ROBERTA
from holdfast.experiments.words import Contrast
from tests.experiment_support import pictures_subject, read_rows, request, texts_subject
from tests.summary_support import DOWN, UP, difference, group, mean_at, studied

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
    for path in (tmp_path / "out").glob("*.csv"):
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
    rows = [mean_at(radius, 0.5) for radius in (1, 8, 10, 20)]
    assert [[row.radius for row in told(rows, left)] for left in (20, 11, 10, 8, 0)] == [
        [1, 8, 10, 20],
        [1, 8, 10, 20],
        [1, 8, 10],
        [1, 8],
        [1],
    ]
    assert (up_to((1, 5), 0), up_to((1, 5), 3), up_to((1, 5), 5), up_to((1, 5), 9)) == ((1,), (1, 3), (1, 5), (1, 5))


def two_shares(subject: Subject, at_quarter: dict[int, Contrast], at_half: dict[int, Contrast]) -> Studied:
    groups, differences = [], []
    for share, contrasts in ((0.25, at_quarter), (0.5, at_half)):
        own = [group(name, dict.fromkeys(contrasts, 0.9)) for name in ("lime", "random")]
        groups += [replace(one, top_fraction=share) for one in own]
        differences.append(replace(difference("lime", "random", contrasts), top_fraction=share))
    return studied(subject, groups, differences)


def test_texts_and_images_are_compared_at_radii_that_every_share_has() -> None:
    images = two_shares(RESNET, {1: UP, 5: DOWN, 9: DOWN}, {1: UP, 5: DOWN})
    texts = two_shares(ROBERTA, {1: UP, 5: DOWN}, {1: DOWN})
    found = methods.tell([images, texts], (0.25, 0.5))
    assert "over the radii that all models have (radius 1), is +0.0 points (lexicon-robe" in found

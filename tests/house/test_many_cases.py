"""Checks of tests/core and tests/edge on more cases, or more runs, than there is time for after every change."""

from __future__ import annotations

import pytest

from holdfast.exact import ensembles
from tests.core.test_catalog import SHIPPED, F, goal_of, has_second_proof
from tests.core.test_mean_curve import HARD, misses
from tests.edge.test_causal import KINDS, compare_passes
from tests.edge.test_exact_ensembles import FAMILIES
from tests.edge.test_exact_shortcut import check_certificates

TOLERANCE = {key: goal_of(key).tolerance for key in sorted(SHIPPED)}
NEAR = [key for key in TOLERANCE if TOLERANCE[key] == F(1, 20)]
NEARER = [pytest.param(key, marks=pytest.mark.slow) for key in TOLERANCE if TOLERANCE[key] < F(1, 20)]


@pytest.mark.parametrize("key", [*NEAR, *NEARER])
def test_a_shipped_design_of_a_small_tolerance_is_proven_by_exact_path_counts_and_another_argument(key: str) -> None:
    assert has_second_proof(key)


@pytest.mark.parametrize("name", HARD)
def test_intervals_of_means_hold_as_often_as_they_say(name: str) -> None:
    assert (misses(name, 60) <= 1 - HARD[name][1]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_certificates_with_many_fills_are_the_same_with_and_without_the_trees(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)
    check_certificates(family, "background")


@pytest.mark.parametrize(("kind", "chat"), KINDS)
def test_one_pass_says_what_generation_says_of_many_conversations(kind: str, chat: bool) -> None:
    outcomes = compare_passes(kind, chat, n_seeds=8)
    assert outcomes[True, True] > 0
    assert outcomes[True, False] > 20  # in other tokens than those of the reference, with special ones in between
    assert outcomes[False, False] > 500

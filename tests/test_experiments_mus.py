"""Findings about MuS say what the data say: constructed data in both directions give opposite words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.bounds import Interval
from holdfast.experiments import mus_methods, reproduce, sca_vs_mus
from holdfast.experiments.studies import Studied
from holdfast.experiments.subjects import RESNET
from holdfast.experiments.votes import Votes
from holdfast.experiments.words import Contrast
from holdfast.study.aggregate import MusSummary
from tests.experiment_support import request, texts_subject
from tests.summary_support import DOWN, OPEN, UP, difference, group, mean_at, studied


def cell(radius: int, contrast: Contrast, certified: float) -> sca_vs_mus.Cell:
    return sca_vs_mus.Cell(RESNET.name, "lime", 0.25, 0.25, radius, 50, certified, contrast, contrast)


VOTES = {RESNET.name: (Votes(0.25, 50, 1, 50, 5), Votes(0.5, 50, 10, 0, 0))}


def mus_study() -> Studied:
    voted = (MusSummary(0.25, (mean_at(1, 0.4), mean_at(2, 0.0))),)
    return studied(RESNET, [group("lime", {1: 0.9, 2: 0.8}, mus=voted)])


@pytest.mark.parametrize(
    ("contrast", "words"), [(UP, "that is so in all 2"), (DOWN, "the data contradict it in all 2"), (OPEN, "open in 2")]
)
def test_sca_and_mus_are_compared_as_the_data_say(contrast: Contrast, words: str) -> None:
    reached = [replace(cell(1, contrast, 0.4), method=name) for name in ("lime", "shap")]
    told = sca_vs_mus.tell([mus_study()], [*reached, cell(2, UP, 0.0)], VOTES)
    assert "SCA typically certifies more than MuS" in told
    assert re.search(rf"at small radii with λ = 1/8; here [^.]*{words}", told)
    assert "over 2 combinations of method, λ and radius in which MuS can certify anything" in told
    assert (
        "over 1 combination of method, λ and radius in which MuS can certify nothing, the share that SCA-soft" in told
    )
    assert "For instance LIME at radius 1:" in told
    assert "gives its 50 explanations one class at λ = 1/4 (10% right) and 10 classes at λ = 1/2." in told


@pytest.mark.parametrize(("certified", "words"), [(0.0, "its share is 0 in all 1"), (0.1, "0 in 0 of 1")])
def test_mus_beyond_its_reach_is_reported_as_it_is(certified: float, words: str) -> None:
    told = sca_vs_mus.tell([mus_study()], [cell(1, UP, 0.4), cell(2, UP, certified)], VOTES)
    assert words in told
    assert ("certified whole" in told) == (certified > 0)


def test_what_was_not_asked_for_is_not_told_of() -> None:
    near = sca_vs_mus.tell([mus_study()], [cell(1, UP, 0.4)], VOTES)
    assert "can certify nothing" not in near
    assert "No radius from 1/(2λ) on, where MuS certifies nothing, was asked for." in near
    far = sca_vs_mus.tell([mus_study()], [cell(2, UP, 0.0)], VOTES)
    assert "in which MuS can certify anything" not in far
    assert "here there is nothing to compare" in far
    assert "inputs can decide nothing" not in near + far


def test_where_mus_certifies_more_is_named() -> None:
    told = sca_vs_mus.tell([mus_study()], [cell(1, DOWN, 0.4), cell(2, UP, 0.0)], VOTES)
    assert (
        "MuS at λ = 1/4 certifies more than SCA-soft for LIME on digits-resnet (radius 1), guaranteed in 1 of 1."
        in told
    )


def test_where_mus_certifies_more_each_method_has_its_own_radii() -> None:
    weak = Contrast(-0.15, Interval(-0.25, -0.05), Interval(-0.35, 0.05))
    shap = [replace(cell(radius, one, 0.4), method="shap") for radius, one in ((1, UP), (2, weak), (3, OPEN))]
    told = sca_vs_mus.tell([mus_study()], [*(cell(radius, DOWN, 0.4) for radius in (1, 3)), *shap], VOTES)
    named = "LIME on digits-resnet (radii 1 and 3) and SHAP on digits-resnet (radius 2), guaranteed in 2 of 3."
    assert f"certifies more than SCA-soft for {named}" in told
    assert "certifies more than SCA-soft for" not in sca_vs_mus.tell([mus_study()], [cell(1, UP, 0.4)], VOTES)


@pytest.mark.parametrize(
    ("hard", "soft", "words"),
    [(OPEN, UP, "0% on digits-resnet, less often than SCA-soft (100%)"), (UP, OPEN, "not less")],
)
def test_mus_tells_methods_apart_as_often_as_the_data_say(hard: Contrast, soft: Contrast, words: str) -> None:
    voted = (MusSummary(0.25, (mean_at(1, 0.4),)),)
    groups = [group(name, {1: 0.9}, mus=voted) for name in ("lime", "random")]
    one = studied(RESNET, groups, [difference("lime", "random", {1: soft})])
    pair = mus_methods.Pair(RESNET.name, "lime", "random", 0.25, 0.25, 1, 50, hard)
    told = mus_methods.tell([one], [pair], VOTES)
    assert words in told
    assert ("compared with random explanations, is higher in 1 of 1" in told) == (hard is UP)


def test_mus_that_ranks_random_explanations_first_is_told() -> None:
    voted = (MusSummary(0.25, (mean_at(1, 0.4),)),)
    groups = [group(name, {1: 0.9}, mus=voted) for name in ("lime", "random")]
    one = studied(RESNET, groups, [difference("lime", "random", {1: UP})])
    pair = mus_methods.Pair(RESNET.name, "lime", "random", 0.25, 0.25, 1, 50, DOWN)
    assert "compared with random explanations, is higher in 0 of 1, lower in 1" in mus_methods.tell(
        [one], [pair], VOTES
    )


@pytest.mark.parametrize(
    ("near", "far", "words"),
    [(UP, OPEN, "in 2 of 2 (2 guaranteed) at radii 1 and 3"), (OPEN, UP, "in 0 of 2 (0 guaranteed) at radii 1 and 3")],
)
def test_soft_rates_are_counted_only_at_the_radii_of_mus(near: Contrast, far: Contrast, words: str) -> None:
    radii = {1: near, 3: near, 4: far, 5: far}
    voted = (MusSummary(0.125, tuple(mean_at(radius, 0.4) for radius in radii)),)
    groups = [group(name, dict.fromkeys(radii, 0.9), mus=voted) for name in ("lime", "random")]
    one = studied(RESNET, groups, [difference("lime", "random", radii)])
    pairs = [mus_methods.Pair(RESNET.name, "lime", "random", 0.25, 0.125, radius, 50, OPEN) for radius in (1, 3)]
    told = mus_methods.tell([one], pairs, VOTES)
    assert f"SCA-soft does {words}, once each" in told
    share_of = 100 if near is UP else 0
    assert f"SCA-soft ({share_of}%), of comparisons at radii that MuS can certify (they depend on each" in told


def test_a_model_without_pairs_has_nothing_to_count() -> None:
    one = studied(RESNET, [group("lime", {1: 0.9})])
    told = mus_methods.tell([one], [], VOTES)
    assert "digits-resnet, 50 inputs: below radius 1/(2λ) there are no two methods to compare." in told
    assert "SCA-soft does" not in told


def test_methods_compared_by_mus_over_too_few_inputs_are_left_open() -> None:
    voted = (MusSummary(0.25, (mean_at(1, 0.4),)),)
    groups = [group(name, {1: 0.9}, mus=voted) for name in ("lime", "random")]
    one = studied(RESNET, groups, [difference("lime", "random", {1: UP})])
    pair = mus_methods.Pair(RESNET.name, "lime", "random", 0.25, 0.25, 1, 5, replace(UP, n=5))
    told = mus_methods.tell([one], [pair], VOTES)
    assert "digits-resnet, 50 inputs: fewer than 7 inputs can decide nothing." in told
    assert "There are no two methods to compare, or too few inputs." in told
    assert "of 0" not in told


def test_votes_are_counted_of_what_is_asked_for_however_much_is_stored(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 8)
    asked = {"radii": (1, 2), "keep": (0.25, 0.125)}
    both = request(subject, methods=("occlusion", "random"), **asked)
    one = request(subject, methods=("occlusion",), **asked)
    reproduce("q1", both, output=tmp_path / "grown")
    grown, fresh = (reproduce("q1", one, output=tmp_path / name).findings for name in ("grown", "fresh"))
    assert grown == fresh
    assert "gives its 8 explanations" in fresh

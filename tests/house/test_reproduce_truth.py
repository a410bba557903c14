"""What experiments write is true: equal to what certificates say, to enumeration, and to exact formulas."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.boolean import mask_operator
from holdfast.bounds import Interval
from holdfast.reproduce import reproduce
from holdfast.reproduce.examples import Candidate, Explained, choose_similar
from holdfast.reproduce.findings import paired
from holdfast.reproduce.measures import draw_spectra, expected_mass, masses, speed_up, sum_parts
from holdfast.smoothing import SmoothedAccuracy, smoothed_accuracy
from holdfast.study.store import Store
from tests.helpers.reproduce_support import read_rows, request, texts_subject


def test_means_are_those_of_the_certificates(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 4)
    reproduce("q2", request(subject, methods=("lime", "random"), radii=(1, 3)), output=tmp_path)
    certificates = read_rows(tmp_path / "certificates.csv")
    for row in [row for row in read_rows(tmp_path / "curves.csv") if row["kind"] == "soft"]:
        same = [one for one in certificates if (one["method"], one["radius"]) == (row["method"], row["radius"])]
        assert len(same) == 4
        assert float(row["mean"]) == pytest.approx(np.mean([float(one["rate_unbiased"]) for one in same]))


def test_hard_and_mus_shares_are_those_of_the_certificates(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 4)
    radii = (1, 2, 5)
    reproduce("q1", request(subject, methods=("occlusion",), radii=radii), output=tmp_path)
    with Store(tmp_path / "moods.db") as store:
        items = list(store.results())
    draws = {one.n_evaluated for item in items for one in item.curve if not one.exact}
    assert draws == {150}, "SCA-hard must be about the paper's number of draws"
    for row in read_rows(tmp_path / "curves.csv"):
        radius = int(row["radius"])
        if row["kind"] == "hard":
            truth = [item.curve[radius].n_agreed == item.curve[radius].n_evaluated for item in items]
        elif row["kind"] == "mus":
            keep = float(row["mus_keep_probability"])
            truth = [next(h.radius for h in item.mus if h.keep_probability == keep) >= radius for item in items]
        else:
            continue
        assert float(row["mean"]) == pytest.approx(np.mean(truth))


def test_differences_are_soft_rate_minus_certified_share_input_by_input(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 4)
    reproduce("q1", request(subject, methods=("occlusion",), radii=(2,), keep=(0.125,)), output=tmp_path)
    with Store(tmp_path / "moods.db") as store:
        values = [item.curve[2].rate_unbiased - (item.mus[0].radius >= 2) for item in store.results()]
    soft, hard = read_rows(tmp_path / "differences.csv")
    assert float(soft["difference"]) == pytest.approx(np.mean(values))
    assert (soft["first"], hard["first"]) == ("occlusion, SCA-soft", "occlusion, SCA-hard")


def test_witnesses_that_are_called_smallest_are_by_enumeration(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 6)
    asked = request(subject, methods=("random",))
    reproduce("example-unstable", asked, output=tmp_path)
    rows = read_rows(tmp_path / "witnesses.csv")
    assert sum(row["shown"] == "True" for row in rows) == 1
    n_found = 0
    for row in rows:
        explained = Explained(subject, int(row["input"]), 0)
        selected = explained.selected("random")
        truth = fewest_additions(explained, selected)
        assert row["found"] == str(truth is not None)
        if truth is None:
            continue
        n_found += 1
        assert row["proven_smallest"] == "True"
        assert int(row["n_added"]) == truth
        mask = selected.copy()
        mask[json.loads(row["added"])] = True
        assert str(explained.predict(mask)) == row["changed_prediction"] != str(explained.predict(selected))
    assert n_found >= 3


def fewest_additions(explained: Explained, selected: Any) -> int | None:
    free = np.flatnonzero(~selected)
    before = explained.predict(selected)
    for size in range(1, len(free) + 1):
        for chosen in itertools.combinations(free, size):
            mask = selected.copy()
            mask[list(chosen)] = True
            if explained.predict(mask) != before:
                return size
    return None


def test_accuracy_in_parts_is_the_accuracy_of_all(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 30)
    reproduce("q4", request(subject, keep=(1.0,)), output=tmp_path)
    [row] = read_rows(tmp_path / "accuracy.csv")
    inputs = subject.inputs
    whole = smoothed_accuracy(
        inputs.bind,
        inputs.dataset.inputs,
        [inputs.label(i) for i in range(30)],
        keep_probabilities=[1.0],
        rng=0,
    )
    assert int(row["n_correct"]) == whole.n_correct[0]
    assert (float(row["low"]), float(row["high"])) == pytest.approx(tuple(whole.intervals[0]))


def test_counts_of_parts_add() -> None:
    parts = [SmoothedAccuracy((1.0, 0.5), (n, 1), 5, 64, 0.95, 10, 3) for n in (2, 4)]
    assert sum_parts(parts, 9) == SmoothedAccuracy((1.0, 0.5), (6, 2), 10, 64, 0.95, 20, 9)


@pytest.mark.parametrize("amount", [1.0, 0.75, 0.5])
def test_expected_masses_are_exact(amount: float) -> None:
    """A smoothed coefficient is a fixed sum of independent normals: its variance is the sum of squared weights."""
    n = 5
    weights = np.asarray(mask_operator(np.eye(2**n), amount, basis="fourier"))
    deviations = np.sqrt((weights**2).sum(axis=1))
    degrees = np.array([index.bit_count() for index in range(2**n)])
    for degree in range(n + 1):
        truth = np.sqrt(2 / np.pi) * deviations[degrees == degree].sum()
        assert expected_mass("masking", amount, degree, n_features=n) == pytest.approx(truth)
        flipped = np.sqrt(2 / np.pi) * (degrees == degree).sum() * amount**degree
        assert expected_mass("flipping", amount, degree, n_features=n) == pytest.approx(flipped)


def test_masses_of_random_spectra_come_near_their_expectation() -> None:
    spectra = np.random.default_rng(0).standard_normal((2**12, 64))
    for operator in ("masking", "flipping"):
        [mass] = masses(spectra, (0.5,), operator)
        for degree in range(13):
            error = mass[degree].std(ddof=1) / np.sqrt(64)
            assert abs(mass[degree].mean() - expected_mass(operator, 0.5, degree)) < 5 * error


def test_paired_contrasts_equal_a_direct_computation() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.random((50, 3)), rng.random((50, 3))
    found = paired(first, second, key=7)
    means = (first - second).mean(axis=0)
    assert [one.estimate for one in found] == pytest.approx(means.tolist())
    for one, mean in zip(found, means, strict=True):
        assert one.interval.low < mean < one.interval.high
        assert one.guaranteed is not None
        assert one.guaranteed.low <= one.interval.low + 0.05
        assert one.guaranteed.high >= one.interval.high - 0.05


def test_speed_ups_are_ratios_of_mean_times() -> None:
    alone, together = [4.0, 6.0, 5.0], [1.0, 3.0, 1.0]
    estimate, interval = speed_up({1: alone, 5: together}, 5, 0)
    assert estimate == pytest.approx(3.0)
    assert interval.low <= estimate <= interval.high
    assert speed_up({1: alone, 5: alone}, 5, 0) == (1.0, Interval(1.0, 1.0))


def test_where_the_gain_is_largest_is_read_from_the_inputs(tmp_path: Path) -> None:
    subject = texts_subject(tmp_path / "texts", 8)
    asked = request(subject, radii=(1, 2, 11, 12), keep=(1.0, 0.5), min_tokens=1)
    reproduce("q3", asked, output=tmp_path)
    with Store(tmp_path / "moods.db") as store:
        rates = {
            (item.input, item.keep_probability): [one.rate_unbiased for one in item.curve] for item in store.results()
        }
    gains = np.array([np.subtract(rates[i, 0.5], rates[i, 1.0]) for i in range(8)])
    gap = (gains[:, :2].mean(axis=1) - gains[:, 2:].mean(axis=1)).mean()
    [row] = [row for row in read_rows(tmp_path / "differences.csv") if row["first"] == "gain up to radius 10"]
    assert float(row["difference"]) == pytest.approx(gap)


def test_explanations_that_look_alike_are_chosen_by_the_stated_rule() -> None:
    nothing: Any = None
    made = [(0.9, 0.9, False), (0.6, 0.3, True), (0.7, 0.5, True), (0.2, 1.0, True), (1.0, 1.0, True)]
    some = [Candidate(nothing, {}, overlap, gap, consistent) for overlap, gap, consistent in made]
    assert choose_similar(some) is some[2]
    assert choose_similar(some[:1]) is some[0]
    assert choose_similar(some[3:4]) is some[3]


def test_the_crosses_of_exact_means_are_named_once_in_every_panel() -> None:
    found = {operator: masses(np.ones((2**12, 2)), (1.0, 0.5), operator) for operator in ("masking", "flipping")}
    for axes in draw_spectra(found, (1.0, 0.5)).axes:
        named = [text.get_text() for text in axes.get_legend().get_texts()]
        assert named.count("exact mean") == 1
        assert len(named) == 3

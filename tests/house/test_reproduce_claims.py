"""Claims are counted as the data say: constructed data in both directions, and contrasts that were recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.bounds import Interval
from holdfast.reproduce import Request, Results, reproduce
from holdfast.reproduce.catalog import EXPERIMENTS, METHOD_CLAIMS, RESNET, find_experiment
from holdfast.reproduce.findings import (
    BY_BOOTSTRAP,
    FEWEST,
    Contrast,
    CountedClaim,
    Quantity,
    bears_out,
    paired,
    share,
    text_table,
)
from holdfast.reproduce.measures import speed_up, tally_degrees, tally_losses
from holdfast.reproduce.studies import BY_MEANS, mean_contrasts, measure_methods, method_contrasts
from holdfast.study.summary import FEW, MeanAt
from tests.helpers.reproduce_support import read_rows, request, texts_subject
from tests.helpers.summary_support import DOWN, OPEN, UP, WEAK, difference, group, studied

RECORDED = json.loads((Path(__file__).parent / "recorded_claims.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDED)
def test_every_contrast_has_the_numbers_and_the_verdict_that_were_recorded(name: str, tmp_path: Path) -> None:
    """Recorded before experiments became data, with 24 texts, of which some experiments take fewer."""
    asked = {key: tuple(value) if isinstance(value, list) else value for key, value in RECORDED[name]["asked"].items()}
    reproduce(name, request(texts_subject(tmp_path / "texts", 24), **asked), output=tmp_path / "out")
    rows = {
        (row["first"], row["second"], row["top_fraction"], row["keep_probability"], row["radius"]): row
        for row in read_rows(tmp_path / "out" / "differences.csv")
    }
    for first, second, fraction, keep, radius, estimate, ends, verdict, sure in RECORDED[name]["contrasts"]:
        row = rows[(first, second, str(fraction), str(keep), str(radius))]
        kinds = ("approximate_low", "approximate_high", "guaranteed_low", "guaranteed_high")
        assert float(row["difference"]) == pytest.approx(estimate, abs=1e-8)
        assert [float(row[kind]) for kind in kinds] == pytest.approx(ends, abs=1e-8)
        assert (row["verdict"], row["is_guaranteed"]) == (verdict, str(sure))


def test_a_direction_is_said_only_where_the_interval_leaves_out_zero() -> None:
    assert [contrast.verdict for contrast in (UP, DOWN, OPEN, WEAK)] == ["higher", "lower", "undecided", "higher"]
    assert [contrast.is_guaranteed for contrast in (UP, DOWN, OPEN, WEAK)] == [True, True, False, False]


def test_of_few_inputs_only_the_guaranteed_interval_says_a_direction() -> None:
    assert replace(WEAK, n_inputs=FEW).verdict == "higher"
    assert replace(WEAK, n_inputs=FEW - 1).verdict == "undecided"
    assert [replace(one, n_inputs=FEW - 1).verdict for one in (UP, DOWN)] == ["higher", "lower"]
    assert replace(UP, guaranteed=None, n_inputs=FEW - 1).verdict == "undecided"
    assert [replace(one, n_inputs=FEWEST - 1).verdict for one in (UP, DOWN, OPEN)] == ["too few"] * 3


def test_the_fewest_inputs_that_can_decide_anything_do_so_only_where_they_differ_most() -> None:
    for n in range(1, FEWEST):
        [most] = paired(np.ones((n, 1)), np.zeros((n, 1)), key=0)
        assert most.guaranteed is not None
        assert most.guaranteed.low <= 0, "so that no data of so few inputs could decide"
        assert most.verdict == "too few"
    [most] = paired(np.ones((FEWEST, 1)), np.zeros((FEWEST, 1)), key=0)
    assert most.verdict == "higher"
    [far] = paired(2 * np.ones((FEWEST - 1, 1)), np.zeros((FEWEST - 1, 1)), key=0, reach=2.0)
    assert far.guaranteed is not None
    assert far.guaranteed.low <= 0


def test_directions_are_rarely_said_of_few_inputs_that_do_not_differ() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 4, 8):
        values = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(n, 400))
        verdicts = [contrast.verdict for contrast in paired(values, np.zeros_like(values), key=0)]
        assert np.mean([verdict in ("higher", "lower") for verdict in verdicts]) <= 0.05
    values = np.full((15, 1), 0.9)
    assert paired(values, 0 * values, key=0)[0].verdict == "higher", "what is plain is said of few inputs too"
    assert paired(0 * values, values, key=0)[0].verdict == "lower"


def test_the_bootstrap_errs_as_often_as_the_page_says_and_the_guarantee_does_not() -> None:
    rng = np.random.default_rng(1)
    errors = {}
    for share_of in (0.5, 0.05, 0.0125):  # of 80 inputs, so many are higher, and the others lower to match
        values = np.where(rng.random((80, 600)) < share_of, 0.4, -0.4 * share_of / (1 - share_of))
        contrasts = paired(values, np.zeros_like(values), key=0)
        errors[share_of] = np.mean([contrast.verdict != "undecided" for contrast in contrasts])
        assert np.mean([contrast.is_guaranteed for contrast in contrasts]) <= 0.05
    assert 0.02 < errors[0.5] < 0.08 < errors[0.05] < 0.15
    assert errors[0.0125] > 0.3


@pytest.mark.parametrize(
    ("contrasts", "words"),
    [
        ((UP, UP), "borne out in 2 of 2 comparisons (2 guaranteed)."),
        ((WEAK,), "borne out in 1 of 1 comparison (0 guaranteed)."),
        ((DOWN, DOWN), "borne out in 0 of 2 comparisons (0 guaranteed) and contradicted in 2 (2 guaranteed)."),
        (
            (UP, DOWN, OPEN, WEAK),
            "in 2 of 4 comparisons (1 guaranteed), contradicted in 1 (1 guaranteed) and undecided in 1.",
        ),
        (
            (UP, replace(UP, n_inputs=4)),
            "(1 guaranteed), without 1 of fewer than 7 inputs, which can decide nothing.",
        ),
        ((replace(UP, n_inputs=4),), "Nothing here can be compared with the paper, without 1 of fewer than 7"),
        ((), "Nothing here can be compared with the paper."),
    ],
)
def test_one_sentence_says_what_is_borne_out_contradicted_and_open(contrasts: Any, words: str) -> None:
    assert words in bears_out([CountedClaim("A above B", "m", contrasts)])
    assert bears_out([CountedClaim("A above B", "m", contrasts, expected=False)]).startswith("Nothing here")


def test_a_tally_counts_each_verdict() -> None:
    row = CountedClaim("A above B", "m", (UP, DOWN, OPEN, WEAK, replace(UP, n_inputs=1))).row()
    assert row == {
        "claim": "A above B",
        "where": "m",
        "n": 4,
        "higher": 2,
        "lower": 1,
        "undecided": 1,
        "too_few": 1,
        "higher_guaranteed": 1,
        "lower_guaranteed": 1,
    }


def test_findings_are_tables_and_at_most_three_sentences(tmp_path: Path) -> None:
    done = reproduce("masking", Request(n=20), output=tmp_path)
    *tables, sentences = done.findings.split("\n\n")
    assert len(tables) == 2
    assert all(line.startswith("|") and line.endswith("|") for table in tables for line in table.splitlines())
    assert sentences.count(". ") <= 2
    written = (tmp_path / "findings.md").read_text(encoding="utf-8")
    assert written == f"# Mass per degree under masking and flipping\n\n{done.findings}\n"
    assert [row["claim"] for row in read_rows(tmp_path / "claims.csv")] == [t.statement for t in done.results.tallies]


def test_cells_of_a_table_stay_in_their_lines_and_columns() -> None:
    table = text_table(["a", "b"], [["x|y\nz", "1"]], n_left=1)
    assert table.splitlines()[2] == "| x\\|y z | 1 |"


def test_methods_are_ranked_as_the_data_say() -> None:
    groups = [group(name, {1: 0.9, 5: 0.8}) for name in ("lime", "mfaba", "random")]
    pairs = [("lime", "mfaba", OPEN), ("lime", "random", UP), ("mfaba", "random", DOWN)]
    contrasts = method_contrasts(
        studied(RESNET, groups, [difference(a, b, {1: one, 5: one}) for a, b, one in pairs]), 0
    )
    verdicts = {
        claim.statement: [contrast.verdict for contrast in contrasts if claim.applies(contrast)]
        for claim in METHOD_CLAIMS
        if claim.kind == "image"
    }
    assert list(verdicts.values()) == [["higher"] * 2, ["undecided"] * 2, ["lower"] * 2]


def test_the_mean_gap_to_random_is_measured_over_the_radii_that_images_and_texts_have() -> None:
    groups = [group(name, {1: 0.9, 10: 0.8, 20: 0.7}) for name in ("lime", "shap", "random")]
    pairs = [("lime", "shap", DOWN), ("lime", "random", UP), ("shap", "random", OPEN)]
    differences = [difference(a, b, {1: one, 10: one, 20: DOWN}) for a, b, one in pairs]
    measured = studied(RESNET, groups, differences)
    cells = measure_methods(measured, method_contrasts(measured, 0))
    assert cells.pop("LIME and SHAP minus random, mean up to radius 10 (the paper: less on texts)") == "+25.0 points"
    assert list(measure_methods(measured, [])) == list(cells)


def test_findings_say_how_far_their_counts_can_be_trusted() -> None:
    for words in ("a comparison's own 95%", "roughly 1 in 10", "far more where only a few", "at most 5 in 100"):
        assert words in BY_BOOTSTRAP
    assert "if inputs were drawn from it independently" in BY_MEANS
    assert "at 90% for each comparison by itself" in BY_MEANS
    for sentence in (BY_BOOTSTRAP, BY_MEANS):
        assert "comparisons share inputs" in sentence
        assert ". " not in sentence


def test_where_mus_certifies_more_is_counted_by_keep_probability(tmp_path: Path) -> None:
    asked = {"methods": ("random",), "radii": (1, 2, 5), "keep": (0.25, 0.125)}
    done = reproduce("q1", request(texts_subject(tmp_path / "texts", 8), **asked), output=tmp_path / "out")
    rows = [row for row in read_rows(tmp_path / "out" / "differences.csv") if row["first"] == "random, SCA-soft"]
    for name, keep, largest in (("1/4", "0.25", 1), ("1/8", "0.125", 2)):
        own = [row for row in rows if row["mus_keep_probability"] == keep and int(row["radius"]) <= largest]
        lower = [row["is_guaranteed"] for row in own if row["verdict"] == "lower"]
        [cell] = done.results.measured[f"MuS at λ = {name} certifies more than SCA-soft, below 1/(2λ)"].values()
        assert cell == f"in {len(lower)} of {largest} ({lower.count('True')})"


def test_mean_curves_are_compared_between_the_farthest_ends() -> None:
    groups = [group("lime", {1: 0.9}), group("random", {1: 0.4})]
    bare = [
        replace(one, hard=(), soft=tuple(MeanAt(at.radius, at.mean, None, at.guaranteed) for at in one.soft))
        for one in groups
    ]
    [contrast] = mean_contrasts(*bare)
    assert contrast.interval == pytest.approx((0.46, 0.54))
    assert (contrast.verdict, contrast.is_guaranteed, contrast.bootstrap) == ("higher", True, False)
    [rough] = mean_contrasts(*groups)
    assert rough.guaranteed is None


def test_smoothing_below_a_half_is_not_what_the_paper_speaks_of() -> None:
    claim = find_experiment("q3").claims[0]
    assert [claim.applies(replace(UP, keep_probability=keep)) for keep in (0.9, 0.5, 0.25)] == [True, True, False]


def test_sca_and_mus_are_compared_apart_where_mus_can_certify_and_where_it_cannot() -> None:
    near = replace(UP, first="lime, SCA-soft", mus_keep_probability=0.25, radius=1)
    soft, soft_beyond, hard, hard_beyond = find_experiment("q1").claims
    assert [soft.applies(near), soft_beyond.applies(near), hard.applies(near)] == [True, False, False]
    far = replace(near, first="lime, SCA-hard", radius=2)
    assert [soft_beyond.applies(far), hard_beyond.applies(far)] == [False, True]


def test_soft_rates_are_compared_only_at_the_radii_of_mus(tmp_path: Path) -> None:
    asked = {"methods": ("occlusion", "random"), "radii": (1, 2, 5), "keep": (0.125,)}
    reproduce("mus-by", request(texts_subject(tmp_path / "texts", 3), **asked), output=tmp_path / "out")
    rows = read_rows(tmp_path / "out" / "differences.csv")
    assert [(row["first"], row["radius"]) for row in rows] == [
        *(("occlusion, MuS", radius) for radius in "12"),
        *(("occlusion", radius) for radius in "12"),
    ]


@pytest.mark.parametrize(
    ("half", "quarter", "gentle", "collapse"),
    [
        (0.95, 0.3, "higher", "higher"),
        (0.9, 0.5, "undecided", "higher"),
        (0.4, 0.35, "lower", "lower"),
        (0.8, 0.6, "lower", "undecided"),
    ],
)
def test_accuracy_falls_gently_and_collapses_only_where_it_does(
    half: float, quarter: float, gentle: str, collapse: str
) -> None:
    def measured(value: float) -> Quantity:
        return Quantity(value, Interval(value - 0.03, value + 0.03))

    at = {1.0: measured(0.97), 0.5: measured(half), 0.25: measured(quarter)}
    assert [tally.contrasts[0].verdict for tally in tally_losses("m, 9 inputs", at)] == [gentle, collapse]
    exact = {keep: Quantity(value, Interval(value - 0.01, value + 0.01)) for keep, (value, _) in at.items()}
    assert tally_losses("m", exact)[0].contrasts[0].verdict == ("higher" if half >= 0.9 else "lower")
    assert tally_losses("m", {1.0: measured(0.9)}) == []


@pytest.mark.parametrize(("together", "verdict"), [(0.001, "higher"), (0.009, "lower")])
def test_batching_is_said_to_be_faster_only_where_it_is(together: float, verdict: str) -> None:
    rng = np.random.default_rng(0)
    times: Any = {1: (0.004 + 1e-5 * rng.random(20)).tolist(), 5: (together + 1e-5 * rng.random(20)).tolist()}
    faster, span = speed_up(times, 5, 0)
    assert Contrast(faster - 1, Interval(span.low - 1, span.high - 1), n_inputs=20).verdict == verdict


def lifts(*directions: int) -> list[Contrast]:
    around = [Interval(0.5 * way - 0.1, 0.5 * way + 0.1) for way in directions]
    return [Contrast(0.5 * way, span, n_inputs=20) for way, span in zip(directions, around, strict=True)]


def test_mass_that_moves_down_is_told_from_mass_that_moves_up() -> None:
    def verdicts(operator: str, *directions: int) -> list[list[str]]:
        tallies = tally_degrees(operator, 0.5, lifts(*directions))
        return [[contrast.verdict for contrast in tally.contrasts] for tally in tallies]

    assert verdicts("masking", 1, 1, 0, -1, -1) == [["higher", "higher", "undecided"], ["higher"] * 2]
    assert verdicts("masking", 1, -1, 1, -1, 0) == [["higher"], ["higher", "lower", "higher", "undecided"]]
    assert verdicts("masking", -1, 1, 1) == [["lower"], ["lower", "lower"]]
    assert verdicts("flipping", 0, -1, 1) == [["higher", "lower"]]
    assert tally_degrees("masking", 1.0, lifts(0, 0)) == []


@pytest.mark.parametrize("n", [1, 8, 19])
def test_too_few_spectra_decide_nothing(n: int, tmp_path: Path) -> None:
    results: Results = reproduce("masking", Request(n=n, keep=(0.5,)), output=tmp_path).results
    assert {contrast.verdict for tally in results.tallies for contrast in tally.contrasts} <= {"undecided", "too few"}
    assert results.measured == {}


def test_numbers_are_written_as_percentages() -> None:
    assert share(0.5, Interval(0.4, 0.6)) == "50.0% [40.0, 60.0]"
    assert share(0.25) == "25%"


def test_claims_of_an_experiment_are_told_apart() -> None:
    for experiment in EXPERIMENTS:
        statements = [claim.statement for claim in experiment.claims]
        assert len(set(statements)) == len(statements)

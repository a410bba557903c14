"""No sentence says more than its result: what is rounded, drawn, judged or shortened is said as such."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.bounds import Interval
from holdfast.explore.questions import curve_sentence
from holdfast.words import at_most, changes_of
from tests.core.test_random_fills import Filled
from tests.core.test_sentences import FEW, FICKLE, JUDGE, STABLE, TABLE, WRONG, N

TOWER = ["84 m", *(f"passage {i}" for i in range(11))]


def answer(prompt: Any) -> str:
    return "84 metres" if "84" in str(prompt) else "no"


JUDGED: dict[str, Any] = {"agree": JUDGE, "reference": "84 metres", "rng": 0}
CONTEXT = hf.mask_context(answer, TOWER, question="?")


def test_one_change_among_huge_numbers_of_masks_is_not_all_cases() -> None:
    """A share of 1 - 10⁻¹⁸ is 1 in floating point, and yet not all."""
    listed = hf.certify(STABLE, FEW, radius=1, rng=0)
    assert str(listed).startswith("Stable in all cases")
    assert listed.holds(1)
    nearly = dataclasses.replace(listed, n_agreed=10**18 - 1, n_evaluated=10**18)
    assert nearly.rate == 1
    assert str(nearly).startswith("Stable in more than 99.9% of cases")
    assert not nearly.holds(1)
    assert nearly.holds(0.999)
    hardly = dataclasses.replace(listed, rate=0.0, n_agreed=1, n_evaluated=10**400)
    assert str(hardly).startswith("Stable in less than 0.1% of cases")


def test_a_short_sentence_still_says_exactly() -> None:
    certificate = hf.certify(STABLE, FEW, radius=3, rate_kind="exactly", rng=0)
    assert [("exactly 3" in words) for words in changes_of(certificate, "exactly", 3)] == [True, True]
    assert all("up to 3" in words for words in changes_of(certificate, "uniform", 3))


def test_a_curve_with_an_exact_end_has_the_confidence_of_what_was_drawn() -> None:
    """All features revealed is one mask, and exact: the other radii are still drawn, and judged."""
    curve = hf.certify_radii(CONTEXT, [0], radii=[5, 11], rate_kind="exactly", **JUDGED)
    assert [certificate.exact for certificate in curve] == [False, True]
    assert [certificate.true_confidence for certificate in curve] == [0.85, 0.95]
    assert "(85% confidence" in str(curve)
    assert "at 85% confidence" in curve.explain()


def test_only_a_drawn_point_says_how_sure_a_mixed_curve_is() -> None:
    curve = hf.certify_radii(STABLE, FEW, radii=[5, 16], rate_kind="exactly", rng=0)
    first, last = curve
    proven = dataclasses.replace(curve, certificates=(first, dataclasses.replace(last, proof="paths of a tree")))
    assert "proven" not in str(proven).split("\n")[0]
    assert "(90% confidence for each radius)" in str(proven)


def test_a_rate_that_was_drawn_is_not_said_to_be_smaller() -> None:
    """A false no has a risk of its own, which the confidence of the certified radii does not cover."""
    model = hf.mask_function(lambda masks: masks[:, :4].all(axis=1) & (masks.sum(axis=1) < 6), n_features=40)
    drawn = hf.certified_radius(model, np.arange(40) < 4, min_rate=0.9, radii=[8], rng=0)
    assert (drawn.trail[-1].exact, drawn.trail[-1].answer) == (False, False)
    assert "smaller" not in str(drawn) + drawn.explain()
    assert "All c" not in drawn.explain(), "nothing is claimed"
    listed = hf.certified_radius(FICKLE, FEW, min_rate=0.9, rng=0)
    assert listed.trail[-1].exact
    assert "the rate at radius 1 is smaller" in str(listed)
    assert "over the draws" not in listed.explain()


def test_masks_that_a_judge_with_errors_accepts_prove_nothing() -> None:
    hard = hf.certify_hard(CONTEXT, [0], radius=1, **JUDGED)
    assert (hard.method, hard.stable) == ("enumeration", True)
    assert "Proven" not in str(hard)
    assert f"in at most {100 * hard.judge_errors.upper_false_yes:.0f}"[:-1] in str(hard)
    assert "(95% confidence, judge's errors included)" in str(hard)
    assert "left to chance" not in hard.explain()
    assert "its errors widen it" in hard.explain()


def test_intervals_of_differences_and_their_risk_are_rounded_outwards() -> None:
    found = hf.compare(FICKLE, {"a": np.arange(N) < 6, "b": np.arange(N) < 2}, [2, 3, 4], rng=0)
    for difference in found:
        low, high = map(float, re.findall(r"[+-]\d\.\d+", str(difference)))
        assert low <= difference.interval.low
        assert high >= difference.interval.high
        (risk,) = map(float, re.findall(r"risk (\S+) each", str(difference)))
        assert difference.risk <= risk <= 1.1 * difference.risk
    assert [at_most(risk) for risk in (0.00833, 0.05, 1 / 120, 1e-7)] == ["0.0084", "0.05", "0.0084", "1e-07"]


def test_a_comparison_names_all_that_contradict_the_full_input() -> None:
    sets = {name: np.arange(N) < i for i, name in enumerate("abcd", start=1)}
    shared = hf.compare(WRONG, sets, [5], rng=0).explain()
    assert "For a, b and 2 more, the full input is predicted differently." in shared


def test_means_of_both_kinds_do_not_hold_at_once() -> None:
    means = hf.mean_curve([lambda: (WRONG, FEW)] * 3, radii=[1, 6], half_width=0.2, simultaneous=True, rng=0)
    assert "all intervals of one kind hold at once" in means.explain()


def test_fills_have_no_plus_or_minus_where_only_one_end_or_a_judge_is_known() -> None:
    lower = hf.fill_sensitivity(lambda fill: WRONG, FEW, [0], radius=3, rate_kind="worst_size_lower", rng=0)
    judged = hf.fill_sensitivity(lambda fill: CONTEXT, [0], {"a": 1}, radius=8, **JUDGED)
    assert "±" not in str(lower) + str(judged)
    assert "85% confidence each" in str(judged)
    low, _ = judged["a"].true_interval
    assert f"[{np.floor(1000 * low) / 1000:.3f}, 1.000]" in str(judged)
    assert "at once only with 85%" in judged.explain()
    exact = hf.fill_sensitivity(lambda fill: CONTEXT, [0], {"a": 1}, radius=1, **JUDGED)
    assert "exact" not in str(exact).split("\n")[0] + exact.explain()


def test_how_far_rates_of_repeats_differ_is_rounded_outwards() -> None:
    again = hf.reexplain(WRONG, "lime", radius=1, n_repeats=3, n_samples=64, rng=3)
    rates = tuple(Interval(*ends) for ends in ((0.0, 0.1234), (0.5, 0.789)))
    edited = dataclasses.replace(again, certificates=again.certificates[:1] * 3, rate_intervals=rates)
    assert edited.rate_spread_interval == pytest.approx((0.3766, 0.789))
    assert "differ by 0.37 to 0.79" in edited.explain()


def test_a_search_that_saw_not_even_all_fills_has_proven_nothing() -> None:
    filled = Filled(np.tile(TABLE[:, None], (1, 4)))
    found = hf.find_witness(filled, [0], rng=0)
    nothing = dataclasses.replace(
        found,
        found=False,
        mask=None,
        added=(),
        n_added=None,
        prediction=None,
        completion=None,
        proven=False,
        cleared_radius=-1,
    )
    assert "proven" not in str(nothing)
    assert "all were tried" not in nothing.explain()


def test_exact_scores_have_no_estimated_error() -> None:
    exact = hf.attribute(hf.lookup_table([0] * 15 + [1], n_features=4), "shap", rng=0)
    assert "(exact)" in str(exact)
    assert "95 of 100" not in exact.explain()
    assert "95 of 100" in hf.attribute(WRONG, "shap", n_samples=80, rng=0).explain()


def test_intervals_of_accuracies_are_rounded_outwards() -> None:
    for n in (3, 7, 11):
        measured = hf.smoothed_accuracy(lambda one: WRONG, range(n), ([0, 1, 1] * 4)[:n], keep_probabilities=[1], rng=0)
        (low, high), *_ = re.findall(r"\[(\S+)%, (\S+)%\]", str(measured))
        assert float(low) <= 100 * measured.intervals[0].low
        assert float(high) >= 100 * measured.intervals[0].high


def test_a_smaller_set_of_passages_that_was_drawn_says_how_sure_it_is() -> None:
    """Six passages are few enough to list, but the test of a smaller set may still draw."""
    cited = hf.certify_citations(hf.mask_context(answer, TOWER[:6], question="?", reference="84 metres"), [1], rng=0)
    assert cited.sufficiency.exact
    assert cited.enough is not None
    assert not cited.enough.trail[-1].exact
    assert "Certified to be enough in at least 90% of cases (90% confidence): [1]." in cited.explain()


def test_two_rates_of_citations_hold_each_on_its_own_in_the_shortest_sentence_too() -> None:
    cited = hf.certify_citations(hf.mask_context(answer, TOWER, question="?"), [2, 3], reference="84 metres", rng=0)
    long = dataclasses.replace(cited, answer="an answer of many words", is_whole=False)
    assert not cited.sufficiency.exact
    assert " each)" in str(cited)
    assert " each)" in str(long)
    assert len(str(long).split()) <= 25


def test_notebooks_and_pictures_include_the_errors_of_a_judge() -> None:
    judged = hf.certify(CONTEXT, [0], radius=8, **JUDGED)
    low = np.floor(1000 * judged.true_interval.low) / 10
    assert f"{low:g}–100% of cases" in judged._repr_html_()
    listed = hf.certify(CONTEXT, [0], radius=1, **JUDGED)
    assert listed.exact
    assert "all masks counted" not in listed._repr_html_()
    assert "all masks counted" in hf.certify(STABLE, FEW, radius=1, rng=0)._repr_html_()


def test_a_curve_of_the_live_page_says_that_the_full_input_contradicts_it() -> None:
    wrong = hf.certify_radii(WRONG, FEW, radii=[1, 3], simultaneous=True, rng=0)
    assert "but the full input" in curve_sentence(wrong)
    assert len(curve_sentence(wrong).split()) <= 25
    assert "but" not in curve_sentence(hf.certify_radii(STABLE, FEW, radii=[1, 3], simultaneous=True, rng=0))


def test_what_is_not_stable_is_not_said_to_be_stably_wrong() -> None:
    few_change = hf.mask_function(lambda masks: masks.sum(axis=1) < 14, n_features=16)
    refuted = hf.certify_hard(few_change, np.arange(16) < 3, radius=13, rng=0)
    assert not refuted.stable
    assert refuted.n_agreed > 0.9 * refuted.n_evaluated
    assert "stably wrong" not in refuted.explain()


def test_what_stable_means_is_what_was_asked_where_nothing_smaller_is_stable() -> None:
    whole = hf.mask_function(lambda masks: masks.all(axis=1), n_features=16)
    everything = hf.stabilize(whole, np.arange(16.0), min_rate=0.9, radius=3, rng=0)
    assert everything.size == 16
    assert "Stable means: revealing up to 3 more features" in everything.explain()

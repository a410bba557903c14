"""Data-set guarantees: how often they are wrong is summed exactly; what a study says agrees with enumeration."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast import models
from holdfast.bounds import certified_count, certified_share, clopper_pearson
from holdfast.cli import main
from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError, StudyError
from holdfast.plans import rate_test
from holdfast.study.guarantee import DataSetGuarantee, TrustedExplanations
from holdfast.study.session import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MusSpec, SmoothingSpec, StudySpec
from holdfast.study.store import Store
from tests.helpers.oracles import exact_rate
from tests.helpers.stopping_oracle import Answers
from tests.helpers.study_support import TRUST, make_spec, write_texts

study_guarantee = partial(hf.study.study_guarantee, trust=TRUST)

SIZES = [1, 2, 5, 20, 100, 400]
LEVELS = [0.001, 0.02, 0.1, 0.3]
CONFIDENCES = [0.8, 0.9, 0.99]
SHARES = np.concatenate([np.linspace(0, 1, 101), 1 - np.geomspace(1e-4, 0.01, 9)])


def binomial(n: int, rate: float) -> np.ndarray:
    """P(k) for k = 0 … n, from logarithms of factorials."""
    if rate in (0.0, 1.0):
        return np.eye(n + 1)[n if rate else 0]
    k = np.arange(n + 1)
    log_choose = [math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) for j in range(n + 1)]
    return np.exp(np.array(log_choose) + k * math.log(rate) + (n - k) * math.log1p(-rate))


def miss_probability(claims: np.ndarray, share: float, level: float) -> float:
    """P(the claim exceeds the truth) at the worst: inputs that are stable always pass, others with ``level``."""
    n = len(claims) - 1
    return float(binomial(n, share + level * (1 - share))[claims > share + 1e-12].sum())


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_the_share_is_wrong_no_more_often_than_it_says(n: int, level: float, confidence: float) -> None:
    claims = np.array([certified_share(k, n, level=level, confidence=confidence) for k in range(n + 1)])
    # The claim jumps past a share just below each of its own values: the worst shares are there.
    shares = np.concatenate([SHARES, np.maximum(claims - 1e-9, 0)])
    worst = max(miss_probability(claims, float(share), level) for share in shares)
    assert worst <= 1 - confidence + 1e-9


@pytest.mark.parametrize("n", [50, 200])
def test_the_share_spends_most_of_its_risk(n: int) -> None:
    """The bound is not idle: at its worst shares it is wrong nearly as often as allowed."""
    claims = np.array([certified_share(k, n, level=0.05, confidence=0.9) for k in range(n + 1)])
    assert max(miss_probability(claims, float(share), 0.05) for share in np.maximum(claims - 1e-9, 0)) > 0.099


def test_ignoring_wrong_certificates_would_be_badly_wrong() -> None:
    """Taking certified inputs for stable ones: nominal 10 %, truly wrong up to certainty as inputs grow."""
    claims = {
        n: np.array([clopper_pearson(k, n, confidence=0.9, side="lower").low for k in range(n + 1)]) for n in SIZES
    }
    worst = {n: max(miss_probability(claims[n], float(share), 0.1) for share in SHARES) for n in SIZES}
    assert worst[20] > 0.5
    assert worst[100] > 0.9
    assert worst[400] > 0.99


@cache
def count_claims(n: int, level: float, confidence: float) -> Any:
    """The count that is claimed for every number of inputs that pass."""
    return np.array([certified_count(k, n, level=level, confidence=confidence) for k in range(n + 1)])


def count_miss(n: int, n_unstable: int, level: float, confidence: float) -> float:
    """P(the count exceeds the truth) if ``n_unstable`` inputs pass with ``level`` each, and all others always."""
    stable = n - n_unstable
    claims = count_claims(n, level, confidence)[stable:]
    return float(binomial(n_unstable, level)[claims > stable].sum())


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [1, 2, 5, 20, 100])
def test_the_count_is_wrong_no_more_often_than_it_says(n: int, level: float, confidence: float) -> None:
    assert max(count_miss(n, m, level, confidence) for m in range(n + 1)) <= 1 - confidence + 1e-9


def test_taking_the_number_certified_for_the_count_would_be_badly_wrong() -> None:
    assert 1 - binomial(100, 0.1)[0] > 0.99  # P(at least one of 100 unstable inputs passes)
    assert certified_count(100, 100, level=0.1) == 100
    assert certified_count(60, 100, level=0.1) < 60


@pytest.mark.parametrize(
    ("k", "n", "level", "confidence"), [(190, 200, 0.02, 0.9), (60, 100, 0.1, 0.9), (9, 9, 0.1, 0.9), (7, 9, 0.3, 0.8)]
)
def test_the_count_is_that_of_its_definition(k: int, n: int, level: float, confidence: float) -> None:
    def tail(m: int) -> Fraction:
        p, least = Fraction(str(level)), max(0, k - n + m)
        return sum((math.comb(m, j) * p**j * (1 - p) ** (m - j) for j in range(least, m + 1)), Fraction(0))

    most = max(m for m in range(n + 1) if tail(m) > 1 - Fraction(str(confidence)))
    assert certified_count(k, n, level=level, confidence=confidence) == n - most


@pytest.mark.parametrize("bound", [certified_share, certified_count])
def test_more_certified_inputs_never_claim_less(bound: object) -> None:
    claims = [bound(k, 60, level=0.05) for k in range(61)]  # type: ignore[operator]
    assert claims == sorted(claims)
    assert claims[0] == 0


def test_bad_counts_are_refused() -> None:
    for bound in (certified_share, certified_count):
        with pytest.raises(InvalidValueError, match="`n_certified` must be at most `n_inputs` = 5, got 6"):
            bound(6, 5, level=0.1)
        with pytest.raises(InvalidValueError, match="`level` must be a number strictly between 0 and 1, got 0"):
            bound(3, 5, level=0)


@pytest.mark.parametrize(("level", "n_draws", "found"), [("0.1", 27, 0.99), ("0.02", 42, 0.94), ("0.001", 71, 0.73)])
def test_what_a_level_costs_and_finds_is_what_the_documentation_says(level: str, n_draws: int, found: float) -> None:
    test = rate_test(0.9, 1 - Fraction(level))
    assert test.fewest_for_yes == n_draws
    assert float(Answers(test).at(Fraction(95, 100))[0]) == pytest.approx(found, abs=0.006)


N_INPUTS = 14


def small_spec(folder: Path, **changes: object) -> StudySpec:
    asked: dict[str, object] = {"mus": MusSpec(), "top_fractions": (0.25,), "smoothing": SmoothingSpec((1.0,))}
    return make_spec(folder, **(asked | changes))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS, n_words=11)


@pytest.fixture(scope="module")
def study(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.db"
    run_study(small_spec(texts), path)
    return path


def true_rates(texts: Path, path: Path, method: str, radius: int) -> list[Fraction]:
    spec = small_spec(texts)
    classifier = models.load(spec.model.spec, **spec.model.options)
    lines = (texts / "test_text.txt").read_text().splitlines()
    with Store(path) as store:
        found = [one for one in store.results() if one.method == method]
    return [exact_rate(classifier.bind(lines[one.input]), one.selected, radius) for one in found]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("min_rate", [0.8, 0.9])
def test_a_guarantee_claims_no_more_than_enumeration_shows(
    texts: Path, study: Path, min_rate: float, stored: bool
) -> None:
    rates = true_rates(texts, study, "occlusion", 3)
    n_stable = sum(rate >= Fraction(str(min_rate)) for rate in rates)
    found = study_guarantee(study, method="occlusion", radius=3, min_rate=min_rate, stored=stored)
    assert found.n_inputs == N_INPUTS
    assert 0 < found.n_certified <= n_stable  # seeds are fixed, and no test was unlucky
    assert found.count <= n_stable
    assert found.share == certified_share(found.n_certified, N_INPUTS, level=found.level, confidence=0.9)
    assert (found.n_calls == 0) == stored
    assert found.level == pytest.approx(0.1 if stored else 0.02)


def test_fresh_tests_certify_what_is_clearly_stable_and_nothing_that_is_not(texts: Path, study: Path) -> None:
    """With a rate between those of the inputs every answer is known from enumeration."""
    rates = sorted(true_rates(texts, study, "lime", 3))
    assert rates[0] < rates[-1]
    found = study_guarantee(study, method="lime", radius=3, min_rate=0.5)
    assert found.n_certified == sum(rate > Fraction(7, 10) for rate in rates) == sum(rate >= 0.5 for rate in rates)


def test_stored_certificates_count_if_their_lower_end_reaches_the_rate(study: Path) -> None:
    found = study_guarantee(study, method="lime", radius=1, min_rate=0.9, stored=True)
    with Store(study) as store:
        held = [one.curve[1].holds(0.9) for one in store.results() if one.method == "lime"]
    assert found.n_certified == sum(held)


def test_a_guarantee_is_repeatable_and_draws_afresh_for_another_question(study: Path) -> None:
    asked = {"method": "lime", "min_rate": 0.9}
    assert study_guarantee(study, radius=3, **asked) == study_guarantee(study, radius=3, **asked)  # type: ignore[arg-type]
    told: list[tuple[int, int]] = []
    other = study_guarantee(study, radius=4, **asked, progress=lambda done, total: told.append((done, total)))  # type: ignore[arg-type]
    assert other.radius == 4  # no radius of the study
    assert told == [(i, N_INPUTS) for i in range(1, N_INPUTS + 1)]


def test_the_sentence_says_what_is_claimed_and_under_which_conditions(texts: Path, tmp_path: Path) -> None:
    lines = (texts / "test_text.txt").read_text().splitlines()
    folder = write_texts(tmp_path / "texts", len(lines))
    (folder / "test_text.txt").write_text("\n".join([*lines[:-2], "good day", "bad day"]) + "\n")
    spec = small_spec(folder, data=DataSpec(f"tweeteval:{folder}", min_features=5))
    run_study(spec, tmp_path / "a.db", inputs=range(2, N_INPUTS))
    found = study_guarantee(tmp_path / "a.db", method="lime", radius=3, min_rate=0.8)
    assert (found.n_inputs, found.n_skipped, found.n_missing) == (N_INPUTS - 4, 2, 2)
    share = f"{math.floor(1000 * found.share) / 10:g}% of such inputs"
    assert str(found).startswith(
        f"At least {share} are stable in ≥80% of cases (90% confidence): revealing up to 3 more"
    )
    text = found.explain()
    assert f"At least {found.count} of exactly these 10 inputs and at least {share}" in text
    assert "each wrongly with probability at most 0.02 (fresh draws" in text
    assert "independent draws" in text
    missing = "Of the study's inputs, 2 were left out and 2 have no explanation"
    assert f"{missing}: such inputs are inputs of which this is not true." in text
    smoothed = replace(found, keep_probability=0.5, agree="within(0.1)")
    assert "keep 0.5" in str(smoothed), "it is about a smoothed model"
    assert "within(0.1)" in str(smoothed)
    assert "It assumes seed and settings fixed in advance." in text
    assert DataSetGuarantee.from_json(found.to_json()) == found
    forged = json.loads(found.to_json()) | {"share": 0.99}
    with pytest.raises(InvalidValueError, match="must follow from the counts"):
        DataSetGuarantee.from_json(json.dumps(forged))


def test_a_study_about_means_can_be_tested_afresh(texts: Path, tmp_path: Path) -> None:
    asked = CertifySpec(radii=(1, 3), precision="data-set", half_width=0.1)
    run_study(small_spec(texts, certify=asked), tmp_path / "a.db")
    found = study_guarantee(tmp_path / "a.db", method="occlusion", radius=3, min_rate=0.8)
    assert found.n_certified > 0
    with pytest.raises(InvalidValueError, match="`stored` must be False for a study with precision 'data-set'"):
        study_guarantee(tmp_path / "a.db", method="occlusion", radius=3, min_rate=0.8, stored=True)


def test_cuts_and_smoothings_must_be_chosen_where_there_are_several(texts: Path, tmp_path: Path) -> None:
    run_study(make_spec(texts, data=DataSpec(f"tweeteval:{texts}", n=2)), tmp_path / "a.db")
    asked = {"method": "lime", "radius": 1, "min_rate": 0.8}
    with pytest.raises(InvalidValueError, match=r"`top_fraction` must be one of 0.25, 0.5, got None"):
        study_guarantee(tmp_path / "a.db", **asked)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"`keep_probability` must be one of 0.75, 1.0, got 0.5"):
        study_guarantee(tmp_path / "a.db", **asked, top_fraction=0.5, keep_probability=0.5)  # type: ignore[arg-type]
    found = study_guarantee(tmp_path / "a.db", **asked, top_fraction=0.5, keep_probability=0.75)  # type: ignore[arg-type]
    assert (found.top_fraction, found.keep_probability) == (0.5, 0.75)
    assert "explained by lime" in str(found)
    assert "(keep probability 0.75)" in found.explain()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "shap"}, "`method` must be one of lime, occlusion, got 'shap'"),
        ({"radius": -1}, "`radius` must be a whole number ≥ 0, got -1"),
        ({"radius": 2, "stored": True}, "`radius` must be one of the study's if `stored`, 1, 3, got 2"),
        ({"min_rate": 1}, "`min_rate` must be a number strictly between 0 and 1, got 1"),
        ({"level": 0}, "`level` must be a number strictly between 0 and 1, got 0"),
        ({"level": 0.02, "stored": True}, "`level` must be left out if `stored`, got 0.02: stored certificates have"),
        ({"stored": "yes"}, "`stored` must be True or False, got 'yes'"),
        ({"progress": "yes"}, "`progress` must be True, False"),
    ],
    ids=str,
)
def test_bad_questions_are_refused(study: Path, change: dict[str, object], message: str) -> None:
    asked: dict[str, object] = {"method": "lime", "radius": 3, "min_rate": 0.9}
    with pytest.raises((InvalidTypeError, InvalidValueError), match=message):
        study_guarantee(study, **(asked | change))  # type: ignore[arg-type]


def test_without_explanations_nothing_is_claimed(texts: Path, tmp_path: Path) -> None:
    run_study(small_spec(texts, data=DataSpec(f"tweeteval:{texts}", min_features=99)), tmp_path / "a.db")
    with pytest.raises(StudyError, match="has no explanations by lime yet"):
        study_guarantee(tmp_path / "a.db", method="lime", radius=3, min_rate=0.9)


def test_inputs_that_have_changed_are_not_tested(texts: Path, tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts", 3)
    run_study(small_spec(folder), tmp_path / "a.db")
    lines = (folder / "test_text.txt").read_text().splitlines()
    (folder / "test_text.txt").write_text("\n".join([lines[0], lines[1] + " more", lines[2]]) + "\n")
    with pytest.raises(HoldfastError, match=r"Input 1: the .* differs from the one that was explained"):
        study_guarantee(tmp_path / "a.db", method="lime", radius=3, min_rate=0.9)


def test_the_command_prints_the_guarantee(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "study",
        "guarantee",
        str(study),
        "--method",
        "lime",
        "--radius",
        "3",
        "--min-rate",
        "0.9",
        "--trust",
        "code",
    ]
    assert main(words) == 0
    assert capsys.readouterr().out.strip() == str(study_guarantee(study, method="lime", radius=3, min_rate=0.9))
    assert main([*words, "--stored", "--json"]) == 0
    assert DataSetGuarantee.from_json(capsys.readouterr().out).source == "stored"
    assert main([*words, "--set", "level=2"]) == 3
    capsys.readouterr()
    assert main([*words, "--set", "level=0.02", "--stored"]) == 3
    assert "`--set level` must be left out if `stored`, got 0.02" in capsys.readouterr().err


trusted_explanations = partial(hf.study.trusted_explanations, trust=TRUST)


@pytest.mark.parametrize("n", [1, 28, 200])
def test_a_list_of_n_explanations_is_wrong_with_at_most_its_risk(n: int) -> None:
    """P(some explanation on the list is not stable enough), at the worst rates, by exact sums over the tests."""
    test = rate_test(0.9, 1 - Fraction(1, 10) / n)
    p_wrong = Answers(test).at(Fraction(9, 10) - Fraction(1, 10**9))[0]
    assert 1 - (1 - p_wrong) ** n <= n * p_wrong <= Fraction(1, 10)
    assert n * p_wrong > Fraction(6, 100)  # and the risk is spent


@pytest.mark.parametrize("stored", [False, True])
def test_the_list_has_only_explanations_that_enumeration_shows_to_be_stable(
    texts: Path, study: Path, stored: bool
) -> None:
    trusted = trusted_explanations(study, radius=3, min_rate=0.6, stored=stored)
    with Store(study) as store:
        consistent = {(result.input, result.method): result.curve[3].consistent for result in store.results()}
    stable = {
        (index, method)
        for method in ("lime", "occlusion")
        for index, rate in enumerate(true_rates(texts, study, method, 3))
        if rate >= Fraction(6, 10)
    }
    listed = {(explanation.input, explanation.method) for explanation in trusted}
    assert trusted.n_tested == 2 * N_INPUTS
    assert 0 < len(listed) == len(trusted)
    assert listed <= {key for key in stable if consistent[key]}
    assert trusted.level == pytest.approx(0.1 / trusted.n_tested)
    assert (trusted.n_calls == 0) == stored
    assert len(trusted) + trusted.n_inconsistent <= len(stable)


def test_fresh_tests_list_at_least_what_stored_certificates_do(study: Path) -> None:
    fresh, kept = (trusted_explanations(study, radius=3, min_rate=0.6, stored=stored) for stored in (False, True))
    assert set(kept.inputs) <= set(fresh.inputs)


def test_the_list_is_said_in_words_and_in_json(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trusted = trusted_explanations(study, radius=3, min_rate=0.6, method="lime")
    start = f"{len(trusted)} of {N_INPUTS} explanations can be trusted: stable in at least 60% of cases (90% confidence"
    assert str(trusted).startswith(start)
    assert "The whole list is right with probability at least 90%" in trusted.explain()
    assert TrustedExplanations.from_json(trusted.to_json()) == trusted
    edited = json.loads(trusted.to_json()) | {"n_tested": 3}
    with pytest.raises(HoldfastError):
        TrustedExplanations.from_json(json.dumps(edited))
    frame = trusted.to_frame()
    assert list(frame["input"]) == [explanation.input for explanation in trusted]
    none = trusted_explanations(study, radius=3, min_rate=0.999, method="lime", stored=True)
    assert list(none.to_frame().columns) == list(frame.columns)
    command = ["study", "trusted", str(study), "--radius", "3", "--min-rate", "0.6", "--trust", "code"]
    assert main([*command, "--method", "lime"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(str(trusted))
    assert printed.count("\n  input ") == len(trusted)
    assert main([*command, "--method", "lime", "--json"]) == 0
    assert TrustedExplanations.from_json(capsys.readouterr().out) == trusted


def test_what_a_list_cannot_be_asked_is_refused(study: Path) -> None:
    for wrong, message in (
        ({"method": "shap"}, "`method` must be one of lime, occlusion"),
        ({"top_fraction": 0.3}, "`top_fraction` must be one of 0.25"),
        ({"radius": 7, "stored": True}, "`radius` must be one of the study's if `stored`, 1, 3, got 7"),
        ({"confidence": 1}, "`confidence` must be a number strictly between 0 and 1"),
    ):
        with pytest.raises(InvalidValueError, match=message):
            trusted_explanations(study, **({"radius": 3, "min_rate": 0.9} | wrong))

"""Every verb is exact where a model's structure is known: equal to enumeration, nothing drawn, the proof named."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import holdfast as hf
from holdfast.certification.serialization import Value
from holdfast.certification.structure import N_CONFIRMED, N_NEARBY
from holdfast.errors import InvalidValueError
from holdfast.exact.countable import PROOFS
from holdfast.neighborhood import NEIGHBORHOODS
from holdfast.study.store import Store

N = 9
SELECTED = np.arange(N) < 3
RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(300, N))
LABELS = (ROWS[:, 1] * ROWS[:, 4] + ROWS[:, 6] + 0.5 * ROWS[:, 2] > 0).astype(int)
MOST = 2**N


def fitted(family: str) -> Any:
    if family == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1, random_state=0).fit(ROWS, LABELS)
    kinds = {
        "tree": DecisionTreeClassifier(max_depth=6, random_state=0),
        "logistic": LogisticRegression(),
        "forest": RandomForestClassifier(7, max_depth=4, random_state=0),
    }
    return kinds[family].fit(ROWS, LABELS)


@pytest.fixture(scope="module", params=["tree", "logistic", "forest", "xgboost"])
def models(request: pytest.FixtureRequest) -> list[Any]:
    """Rows of one classifier of every family."""
    estimator = fitted(request.param)
    return [hf.mask_tabular(estimator, row, background=ROWS) for row in ROWS[:6]]


def plain(model: Any) -> Any:
    """The same model with its structure hidden."""
    return hf.mask_function(model, n_features=model.n_features)


def enumerated(model: Any, selected: Any, **question: Any) -> hf.Certificate:
    """The certificate of every mask: a plan of so many draws evaluates all there are."""
    certificate = hf.certify(plain(model), selected, plan="hoeffding", tolerance=0.04, rng=0, **question)
    assert certificate.exact
    assert certificate.proof is None
    return certificate


def back(result: Value) -> Value:
    """The result, written and read."""
    assert type(result).from_json(result.to_json()) == result
    return result


@pytest.mark.parametrize("neighborhood", ["additions", "removals", "swaps"])
@pytest.mark.parametrize("rate_kind", ["uniform", "exactly", "worst_size", "worst_size_lower"])
def test_certify_is_enumeration_and_names_its_proof(models, neighborhood, rate_kind):
    options = {"neighborhood": neighborhood, "rate_kind": rate_kind, "rng": 0}
    rates = set()
    for model in models:
        for radius in (0, 2, N):
            certificate = back(hf.certify(model, SELECTED, radius=radius, **options))
            truth = enumerated(model, SELECTED, radius=radius, neighborhood=neighborhood, rate_kind=rate_kind)
            assert certificate.exact
            is_tiny = NEIGHBORHOODS[neighborhood](SELECTED, radius).size <= N_CONFIRMED + N_NEARBY
            assert (certificate.proof is None) if is_tiny else (certificate.proof in PROOFS)
            assert certificate.design is None
            assert truth.proof is None
            assert (certificate.rate, certificate.interval) == (truth.rate, truth.interval)
            if rate_kind in ("uniform", "exactly"):
                assert (certificate.n_agreed, certificate.n_evaluated) == (truth.n_agreed, truth.n_evaluated)
            if rate_kind == "uniform":
                assert (certificate.counterexample is None) == (truth.counterexample is None)
            assert is_tiny or "counted from inside the model" in certificate.explain()
            assert certificate.n_calls < 45
            rates.add(certificate.rate)
    assert len(rates) > 1


def test_curves_are_exact_at_every_radius(models):
    for model in models:
        curve = back(hf.certify_radii(model, SELECTED, radii=range(N), simultaneous=True, rng=0))
        assert all(cert.exact and cert.proof in PROOFS for cert in curve)
        for cert in curve:
            truth = enumerated(model, SELECTED, radius=cert.radius)
            assert (cert.n_agreed, cert.n_evaluated) == (truth.n_agreed, truth.n_evaluated)
        assert hf.recheck(model, curve).confirmed


def test_certify_hard_proves_at_any_radius(models):
    for model in models:
        for neighborhood in ("additions", "removals", "swaps"):
            for radius in (0, 1, 4, N):
                options = {"radius": radius, "neighborhood": neighborhood, "rng": 0}
                hard = back(hf.certify_hard(model, SELECTED, **options))
                truth = hf.certify_hard(plain(model), SELECTED, max_enumerated=MOST, **options)
                assert truth.method == "enumeration"
                is_tiny = NEIGHBORHOODS[neighborhood](SELECTED, radius).size <= N_CONFIRMED + N_NEARBY
                assert hard.method == "enumeration" if is_tiny else hard.method in PROOFS
                assert hard.exact
                assert (hard.stable, hard.radius) == (truth.stable, truth.radius)
                assert hf.recheck(model, hard).confirmed
                assert is_tiny or "proven from inside the model" in hard.explain()


def test_witnesses_and_brackets_are_proven(models):
    n_found = 0
    for model in models:
        witness = back(hf.find_witness(model, SELECTED, rng=0))
        truth = hf.find_witness(plain(model), SELECTED, rng=0)
        assert witness.proven
        assert truth.proven
        assert witness.proof in PROOFS
        assert truth.proof is None
        assert (witness.found, witness.n_added) == (truth.found, truth.n_added)
        assert witness.cleared_radius == truth.cleared_radius
        bracket = back(hf.stability_bracket(model, SELECTED, rng=0))
        assert bracket.is_tight
        assert bracket.method == bracket.witness.proof
        assert (bracket.low, bracket.below) == (truth.cleared_radius, truth.n_added)
        assert hf.recheck(model, witness).confirmed
        n_found += witness.found
    assert n_found


def test_certified_radius_compares_exact_rates(models):
    for model in models:
        curve = hf.certify_radii(model, SELECTED, radii=range(1, N - 2), rng=0)
        result = back(hf.certified_radius(model, SELECTED, min_rate=0.75, rng=0))
        passed = [cert.n_agreed >= Fraction(3, 4) * cert.n_evaluated for cert in curve]
        expected = passed.index(False) if False in passed else len(passed)
        assert result.radius == expected
        assert all(step.exact and step.proof in PROOFS for step in result.trail)
        assert hf.recheck(model, result).confirmed


def test_stabilize_compares_exact_rates(models):
    scores = np.arange(N, 0, -1)
    for model in models:
        stable = back(hf.stabilize(model, scores, min_rate=0.8, radius=3, rng=0))
        assert all(step.exact and step.proof in PROOFS for step in stable.trail)
        for step in stable.trail:
            truth = enumerated(model, np.arange(N) < step.size, radius=3)
            assert (step.n_agreed, step.n_evaluated) == (truth.n_agreed, truth.n_evaluated)
        assert hf.recheck(model, stable).confirmed


@pytest.mark.parametrize("plan", ["exact", "sequential"])
def test_compare_tells_exact_rates_apart(models, plan):
    for model in models:
        both = {"first": SELECTED, "last": np.arange(N) >= 6}
        result = back(hf.compare(model, both, [2, 5], plan=plan, rng=0))
        for difference in result:
            first, last = (result.curve(name)[difference.radius] for name in both)
            assert first.proof in PROOFS
            assert last.proof in PROOFS
            expected = "first" if first.rate > last.rate else "last" if last.rate > first.rate else None
            assert difference.better == expected
            assert difference.interval.low == difference.interval.high == first.rate - last.rate
        assert hf.recheck(model, result).confirmed


def test_mean_curves_of_counted_inputs_are_points(models):
    memory: dict[str, Any] = {}
    subjects = [lambda model=model: (model, SELECTED) for model in models]
    curve = back(hf.mean_curve(subjects, radii=[0, 2, 6], memory=memory, rng=0))
    again = hf.mean_curve(subjects, radii=[0, 2, 6], memory=memory, rng=0)
    truths = [hf.certify_radii(model, SELECTED, radii=[0, 2, 6], rng=0).rates for model in models]
    assert curve.n_counted == len(models)
    assert curve.n_draws == 0
    assert np.allclose(curve.rates, np.mean(truths, axis=0), rtol=0, atol=1e-15)
    assert all(mean.interval == (mean.rate, mean.rate) for mean in curve)
    assert all(low < high for low, high in curve.population_intervals)
    assert (again.rates, again.n_calls) == (curve.rates, curve.n_calls)


def test_mean_curves_mix_counted_and_drawn_inputs():
    tree = fitted("tree")
    models = [hf.mask_tabular(tree, row, background=ROWS) for row in ROWS[:20]]
    mixed = [model if i % 2 else plain(model) for i, model in enumerate(models)]
    subjects = [lambda model=model: (model, SELECTED) for model in mixed]
    curve = hf.mean_curve(subjects, radii=[1, 6], half_width=0.05, rng=0)
    truths = [hf.certify_radii(model, SELECTED, radii=[1, 6], rng=0).rates for model in models]
    assert curve.n_counted == 10
    assert curve.n_draws > 0
    for mean, truth in zip(curve, np.mean(truths, axis=0), strict=True):
        assert mean.interval.low <= truth <= mean.interval.high


def test_results_about_counts_are_confirmed_and_edited_ones_are_not():
    model = hf.mask_tabular(fitted("tree"), ROWS[0], background=ROWS)
    certificate = hf.certify(model, SELECTED, radius=6, rng=0)
    assert hf.recheck(model, certificate).confirmed
    assert hf.recheck(model, certificate).canonical is None
    assert 0 < certificate.n_agreed < certificate.n_evaluated
    for edit in ({"n_agreed": certificate.n_agreed + 1}, {"proof": "faith"}, {"n_evaluated": 65}):
        with pytest.raises(InvalidValueError):
            hf.Certificate.from_json(replace(certificate, **edit).to_json())
    more = certificate.n_agreed + 1
    rate = more / certificate.n_evaluated
    forged = replace(certificate, n_agreed=more, rate=rate, rate_unbiased=rate, interval=hf.Interval(rate, rate))
    assert not hf.recheck(model, back(forged)).confirmed
    assert not hf.recheck(model, back(replace(certificate, proof="two halves"))).confirmed
    hard = hf.certify_hard(model, SELECTED, radius=6, rng=0)
    with pytest.raises(InvalidValueError):
        hf.HardCertificate.from_json(replace(hard, n_evaluated=hard.n_evaluated + 1).to_json())


def test_agreements_and_references_are_judged_from_inside_too():
    rows, targets = ROWS, ROWS[:, 0] + ROWS[:, 4] ** 2
    tree = DecisionTreeRegressor(max_depth=5, random_state=0).fit(rows, targets)
    model = hf.mask_tabular(tree, rows[3], background=rows)
    for agree in (hf.agreement.within(0.5), hf.agreement.same_side(1.0), hf.agreement.within_percent(20)):
        certificate = hf.certify(model, SELECTED, radius=6, agree=agree, rng=0)
        truth = enumerated(model, SELECTED, radius=6, agree=agree)
        assert certificate.proof in PROOFS
        assert certificate.n_agreed == truth.n_agreed
    classifier = hf.mask_tabular(fitted("tree"), rows[0], background=rows)
    for label in (0, 1):
        certificate = hf.certify(classifier, SELECTED, radius=6, reference=label, rng=0)
        truth = enumerated(classifier, SELECTED, radius=6, reference=label)
        assert certificate.proof in PROOFS
        assert certificate.n_agreed == truth.n_agreed
        assert (certificate.counterexample is None) == (truth.counterexample is None)


def test_random_answers_and_hidden_structure_are_drawn():
    rows = RNG.normal(size=(200, 30))
    tree = DecisionTreeClassifier(random_state=0).fit(rows, (rows[:, :5].sum(axis=1) > 0).astype(int))
    model, selected = hf.mask_tabular(tree, rows[0], background=rows), np.arange(30) < 4
    assert hf.certify(model, selected, radius=9, rng=0).exact
    drawn = hf.certify(plain(model), selected, radius=9, rng=0)
    anew = hf.certify(model, selected, radius=9, answers="random", rng=0)
    for certificate in (drawn, anew):
        assert not certificate.exact
        assert certificate.proof is None
        assert certificate.design is not None


WIDE = 70


@pytest.fixture(scope="module")
def wide() -> tuple[Any, Any]:
    """A tree on a row of many columns, whose masks no integer of 64 bits can count."""
    rows = np.random.default_rng(1).normal(size=(400, WIDE))
    tree = DecisionTreeClassifier(random_state=0).fit(rows, (rows[:, :6].sum(axis=1) > 0).astype(int))
    return tree, rows


def test_huge_counts_survive_json_frames_and_sentences(wide):
    tree, rows = wide
    selected = np.arange(WIDE) < 3
    for row in rows:  # the first whose prediction is not kept by all masks
        model = hf.mask_tabular(tree, row, background=rows)
        curve = back(hf.certify_radii(model, selected, radii=[1, WIDE], rng=0))
        if curve[WIDE].rate < 1:
            break
    last = curve[WIDE]
    assert last.n_evaluated == 2 ** (WIDE - 3)
    assert 0 < last.n_agreed < last.n_evaluated
    assert curve.to_frame()["n_agreed"].tolist()[-1] == last.n_agreed
    assert " of 1.5e+20" in last.explain()
    assert " of 1.5e+20" in str(curve)
    assert hf.recheck(model, curve).confirmed
    hard = back(hf.certify_hard(model, selected, radius=WIDE, rng=0))
    assert hard.exact
    assert "from inside the model" in hard.explain()
    back(hf.certified_radius(model, selected, min_rate=0.5, rng=0))
    back(hf.stabilize(model, np.arange(WIDE), min_rate=0.5, radius=WIDE, rng=0))
    back(hf.compare(model, {"a": selected, "b": ~selected}, [WIDE], rng=0))


def test_a_study_stores_counts_that_no_column_holds_and_goes_on(wide, tmp_path: Path):
    tree, rows = wide
    inputs, path = hf.bind(tree, rows[:6]), tmp_path / "study.db"
    settings: dict[str, Any] = {"top_fractions": (0.05,), "radii": [2, WIDE], "witness": True, "seed": 3}
    first = hf.study.run(inputs[:3], ["random"], store=path, **settings)
    assert first.status.complete
    whole = hf.study.run(inputs, ["random"], store=path, **settings)
    assert whole.status.complete
    with Store(path) as store:
        results = list(store.results())
        stored = list(store.query("SELECT n_agreed, n_evaluated, rate, exact FROM rates WHERE radius = ?", WIDE))
    assert len(results) == len(stored) == 6
    for result in results:
        assert all(cert.exact and cert.proof == "paths of a tree" for cert in result.curve)
        assert result.witness.proven
        assert result.witness.proof == "paths of a tree"
        assert result.curve[WIDE].n_evaluated > 2**63
    for n_agreed, n_evaluated, rate, exact in stored:
        assert exact
        assert n_evaluated == 2**62
        assert abs(n_agreed / n_evaluated - rate) < 1e-12
    frame = whole.to_frame()
    assert frame["exact"].all()
    assert len(frame) == 12
    assert whole.summary().to_json()
    assert "exact" in frame
    assert (frame["low"] == frame["high"]).all()
    for stored_only in (False, True):
        guarantee = whole.guarantee(method="random", radius=2, min_rate=0.5, stored=stored_only)
        assert guarantee.n_inputs == 6
    whole.report(tmp_path / "report.html")
    assert "random" in (tmp_path / "report.html").read_text(encoding="utf-8")

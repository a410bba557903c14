"""Certificates by draws, on real models, cover the exact rates as often as they promise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import holdfast as hf
from holdfast.agreement import same_top_class
from holdfast.exact.binding import countable_of

PLANS = ("sequential", "exact", "hoeffding")


def cases(n_rows: int) -> list[tuple[Any, Any, int, Fraction]]:
    """Models that hide their structure, explanations, radii and exact rates that are neither 0 nor 1."""
    found = []
    rng = np.random.default_rng(0)
    for load in (load_breast_cancer, load_wine):
        rows, labels = load(return_X_y=True)
        n = rows.shape[1]
        for estimator in (
            DecisionTreeClassifier(random_state=0),
            RandomForestClassifier(20, random_state=0),
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        ):
            estimator.fit(rows, labels)
            for row in rows[rng.permutation(len(rows))[:n_rows]]:
                model = hf.mask_tabular(estimator, row, background=rows)
                selected = rng.random(n) < 0.25
                counts = countable_of(model).count(selected, "additions", same_top_class, model(selected[None])[0])
                plain = hf.mask_function(model, n_features=n)
                found += [
                    (plain, selected, radius, counts.rate(radius))
                    for radius in (3, n // 2)
                    if counts.is_exact_within(radius) and 0 < counts.rate(radius) < 1
                    if sum(counts.sizes[: radius + 1]) > 400
                ]
    return found


def n_missed(plan: str, questions: list[tuple[Any, Any, int, Fraction]], n_certificates: int) -> int:
    """How many of the certificates are further than their tolerance from the exact rate."""
    missed = 0
    for number in range(n_certificates):
        model, selected, radius, rate = questions[number % len(questions)]
        certificate = hf.certify(model, selected, radius=radius, plan=plan, rng=number)
        assert not certificate.exact
        drawn = Fraction(certificate.n_agreed, certificate.n_evaluated)
        missed += abs(drawn - rate) > Fraction(1, 10)
    return missed


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_certificates_by_draws_cover_exact_rates_of_real_models(plan):
    questions, n_certificates = cases(40), 800
    assert len(questions) > 60
    # Were the promise of 10 % just kept everywhere, more misses than this would be seen once in a million runs.
    allowed = stats.binom.isf(1e-6, n_certificates, 0.1)
    assert n_missed(plan, questions, n_certificates) <= allowed


def test_a_few_certificates_by_draws_cover_exact_rates():
    questions = cases(6)
    assert len(questions) > 5
    assert n_missed("sequential", questions, 40) <= stats.binom.isf(1e-6, 40, 0.1)

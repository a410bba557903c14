"""Masks of ensembles that cannot be counted are scored from their trees, and no certificate can be told apart."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.exact import ensembles
from holdfast.exact.binding import countable_of, read_structure
from tests.edge.test_exact_ensembles import FAMILIES, fitted

N, N_CLASSES = 40, 3
SELECTED = np.arange(N) % 8 == 0


@pytest.fixture(autouse=True)
def _no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks are drawn unless no sum reaches a limit: few features matter to small ensembles."""
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)


def table(n_classes: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n_classes)
    rows = rng.normal(size=(240, N))
    return rows, np.argmax(rows[:, :30] @ rng.normal(size=(30, n_classes)), axis=1)


@cache
def ensemble(family: str, n_classes: int) -> Any:
    return fitted(family, *table(n_classes), 12, 4, 0)


def masked(family: str, n_classes: int, **options: Any) -> list[Any]:
    """Two rows of one model whose masks are too many to be listed."""
    rows, _ = table(n_classes)
    return [hf.mask_tabular(ensemble(family, n_classes), row, background=rows, **options) for row in rows[:2]]


def without(model: Any) -> hf.Evaluator:
    """The same model, asked about every mask."""
    evaluator = hf.Evaluator(model)
    evaluator.takes_shortcuts = False
    return evaluator


def check_certificates(family: str, fill: str) -> None:
    n_saved, rates = 0, set()
    for n_classes in (2, N_CLASSES):
        for model in masked(family, n_classes, fill=fill, n_background=3):
            shared, asked = hf.Evaluator(model), without(model)
            for options in ({"plan": "hoeffding"}, {"neighborhood": "swaps"}, {"rate_kind": "worst_size"}):
                question = {"radius": 12, "tolerance": 0.15, "rng": 0, **options}
                certificate = hf.certify(shared, SELECTED, **question)
                assert certificate == hf.certify(asked, SELECTED, **question)
                rates.add(certificate.rate)
            n_saved += asked.n_calls - shared.n_calls
        assert hf.recheck(model, certificate).confirmed
    assert len(rates) > 3
    assert n_saved > 150


@pytest.mark.parametrize(("family", "fill"), [*((family, "mean") for family in FAMILIES), ("forest", "background")])
def test_certificates_are_the_same_with_and_without_the_trees(family: str, fill: str) -> None:
    check_certificates(family, fill)  # other backgrounds in tests/house


@pytest.mark.parametrize("family", FAMILIES)
def test_other_verbs_are_the_same_with_and_without_the_trees(family: str) -> None:
    n_saved = 0
    for model in masked(family, N_CLASSES):
        shared, asked = hf.Evaluator(model), without(model)
        both = {"first": SELECTED, "last": ~SELECTED}
        for plan in ("exact", "sequential"):
            comparison = hf.compare(shared, both, [3, 9], plan=plan, rng=0)
            assert comparison == hf.compare(asked, both, [3, 9], plan=plan, rng=0)
        curve = hf.certify_radii(shared, SELECTED, radii=[2, 9], rng=0)
        assert curve == hf.certify_radii(asked, SELECTED, radii=[2, 9], rng=0)
        radius = hf.certified_radius(shared, SELECTED, min_rate=0.7, rng=0)
        assert radius == hf.certified_radius(asked, SELECTED, min_rate=0.7, rng=0)
        stable = hf.stabilize(shared, np.arange(N), min_rate=0.7, radius=4, sizes=[4, 8], rng=0)
        assert stable == hf.stabilize(asked, np.arange(N), min_rate=0.7, radius=4, sizes=[4, 8], rng=0)
        n_saved += asked.n_calls - shared.n_calls
    assert n_saved > 100


@pytest.mark.parametrize("family", FAMILIES)
def test_labels_and_thresholds_are_the_same_with_and_without_the_trees(family: str) -> None:
    rows, model = table(2)[0], ensemble(family, 2)
    by_label = [hf.mask_tabular(model.predict, row, background=rows) for row in rows[:3]]
    by_side = [hf.mask_tabular(model, row, background=rows) for row in rows[:3]]
    n_saved = {"same_top_class": 0, "same_side(0.5)": 0}
    for bound, agree in [
        (bound, agree) for models, agree in zip((by_label, by_side), n_saved, strict=True) for bound in models
    ]:
        shared, asked = hf.Evaluator(bound), without(bound)
        question = {"radius": 12, "agree": agree, "plan": "exact", "rng": 0}
        assert hf.certify(shared, SELECTED, **question) == hf.certify(asked, SELECTED, **question)
        n_saved[agree] += asked.n_calls - shared.n_calls
    assert n_saved["same_side(0.5)"] > 40
    assert n_saved["same_top_class"] > 40 or family == "catboost"  # which gives labels as a table of one column


def test_the_model_decides_where_rounding_might() -> None:
    """Trees whose votes often tie: the class that leads depends on how the library adds up and divides."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(400, N)).astype(float)
    labels = rng.integers(0, 2, size=400)
    forest = fitted("forest", rows, labels, 10, 12, 0)
    n_close = 0
    for row in rows[:6]:
        model = hf.mask_tabular(forest, row, fill=1 - row)
        masks = rng.random((400, N)) < 0.5
        countable = countable_of(model)
        outputs, is_settled = countable.settled(masks, hf.agreement.same_top_class)
        theirs = model(masks)
        assert (outputs.argmax(axis=1) == theirs.argmax(axis=1))[is_settled].all()
        n_close += int((~is_settled).sum())
        question = {"radius": 30, "plan": "hoeffding", "tolerance": 0.05, "rng": 0}
        assert hf.certify(model, SELECTED, **question) == hf.certify(without(model), SELECTED, **question)
    assert n_close > 0


def test_other_agreements_ask_the_model() -> None:
    (model, *_) = masked("forest", 2)
    shared, asked = hf.Evaluator(model), without(model)
    question = {"radius": 12, "agree": "same_top_set(1)", "plan": "exact", "rng": 0}
    assert hf.certify(shared, SELECTED, **question) == hf.certify(asked, SELECTED, **question)
    assert shared.n_calls == asked.n_calls


def test_a_row_that_only_the_library_refuses_is_not_scored_from_the_trees() -> None:
    """Gradient boosting takes no missing values: certificates need them refused, by whichever mask comes first."""
    rows, model = table(2)[0], ensemble("gradient", 2)
    fill = np.where(np.arange(N) == 39, np.nan, rows[5])
    bound = hf.mask_tabular(model, rows[0], fill=fill)
    assert read_structure(bound) is None
    with pytest.raises(hf.errors.InvalidValueError, match="missing"):
        hf.certify(bound, np.ones(N, dtype=bool), radius=12, neighborhood="removals", rng=0)

"""Masks scored from trees that were read of a model: the model decides near ties, and where it was read wrongly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.agreement import as_agreement, same_top_class
from holdfast.exact import ensembles
from holdfast.exact.ensembles import MaskScorer, TreeEnsemble
from holdfast.exact.limits import SumScoring
from tests.core.test_exact_sums import random_tree, raw_scores

N, SELECTED = 24, np.arange(24) < 4


@dataclass
class Trees:
    """A sum of trees, asked for its scores, and as what it is read; ``asked`` are the masks that it computed."""

    ensemble: TreeEnsemble | None = None
    n_features: int = N
    asked: list[Any] = field(default_factory=list)
    structure_reader = __name__

    def __call__(self, masks: Any) -> Any:
        self.asked += list(masks)
        ensemble = self.ensemble
        return ensemble.scoring.outputs(raw_scores(ensemble.fills[0], ensemble.values, ensemble.base, masks))


class Misread(Trees):
    """Read as trees with other values than its own, by ``shift`` at one leaf of each tree."""

    shift = 0.5


def read_structure(model: Any) -> TreeEnsemble:
    while isinstance(model, hf.Evaluator):
        model = model.model
    ensemble = model.ensemble
    values = ensemble.values.copy()
    if isinstance(model, Misread):
        values[[tree[0].node for tree in ensemble.fills[0]]] += model.shift
    base = np.array([float(part) for part in ensemble.base])
    return replace(
        ensemble, values=values, scorer=(MaskScorer.of(ensemble.fills[0], values, N, base=base),), model=model
    )


def answers_alike(model: Any, countable: TreeEnsemble, masks: Any) -> bool:
    masks = np.random.default_rng(0).random((12, N)) < 0.5 if masks is None else masks
    return countable.is_alike(countable.scores(masks), np.asarray(model(masks)))


def make(kind: type[Trees], seed: int, n_raw: int = 2) -> Trees:
    """Values are tenths, whose sums round, so that ties of two classes are settled by how they are added up."""
    rng = np.random.default_rng(seed)
    trees: list[Any] = []
    for _ in range(6):
        trees.append(random_tree(rng, N, 4, sum(map(len, trees))))
    values = 0.1 * rng.integers(-2, 3, size=(sum(map(len, trees)), n_raw))
    scorer = MaskScorer.of(trees, values, N, base=np.zeros(n_raw))
    model = kind()
    scoring = SumScoring("identity" if n_raw > 1 else "logistic", n_raw)
    model.ensemble = TreeEnsemble(model, [trees], values, (Fraction(0),) * n_raw, scoring, (scorer,))
    return model


def certified(model: Trees, *, takes_shortcuts: bool, **question: Any) -> tuple[hf.Certificate, int]:
    """The certificate, and how many masks the model itself was asked about."""
    model.asked.clear()
    evaluator = hf.Evaluator(model)
    evaluator.takes_shortcuts = takes_shortcuts
    certificate = hf.certify(evaluator, SELECTED, radius=12, rng=0, **question)
    assert not certificate.exact
    return certificate, len(model.asked)


@pytest.fixture(autouse=True)
def _no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensembles, "_TABLE_WORK", 0)


QUESTIONS = [(2, "same_top_class"), (3, "same_top_class"), (1, "same_side(0.5)")]


@pytest.mark.parametrize(("n_raw", "agree"), QUESTIONS)
def test_a_certificate_does_not_tell_what_scored_its_masks(n_raw: int, agree: str) -> None:
    n_close = 0
    for seed in range(6):
        model = make(Trees, seed, n_raw)
        question = {"agree": agree, "plan": "hoeffding", "tolerance": 0.05}
        with_trees, n_asked = certified(model, takes_shortcuts=True, **question)
        without, n_all = certified(model, takes_shortcuts=False, **question)
        assert with_trees == without
        assert n_asked < n_all == without.n_calls
        n_close += n_asked - 20
    assert n_close > 0


@pytest.mark.parametrize("shift", [0.5, 1e-6])
def test_a_model_that_was_read_wrongly_is_asked_about_every_mask(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Misread, "shift", shift)
    for seed in range(4):
        model = make(Misread, seed)
        with_trees, n_asked = certified(model, takes_shortcuts=True, plan="exact")
        without, n_all = certified(model, takes_shortcuts=False, plan="exact")
        assert with_trees == without
        assert n_asked >= n_all  # the first masks twice


def test_only_outputs_that_rounding_leaves_alone_are_settled() -> None:
    rng = np.random.default_rng(1)
    n_close = 0
    for seed in range(10):
        model = make(Trees, seed)
        masks = rng.random((300, N)) < 0.5
        outputs, is_settled = model.ensemble.settled(masks, same_top_class)
        gaps = np.abs(outputs[:, 0] - outputs[:, 1])
        assert (is_settled == (gaps > 1e-9)).all()  # tenths: a tie, or a tenth
        assert (outputs.argmax(axis=1) == model(masks).argmax(axis=1))[is_settled].all()
        n_close += int((~is_settled).sum())
    assert n_close > 10
    assert not model.ensemble.settles(as_agreement("within(0.1)"))


def test_answers_of_another_shape_are_not_alike() -> None:
    ensemble = make(Trees, 0).ensemble
    scores = ensemble.scores(np.zeros((3, N), dtype=bool))
    assert ensemble.is_alike(scores, scores)
    assert not ensemble.is_alike(scores, scores[:, :1])
    assert not ensemble.is_alike(scores, scores + 1e-9)


def test_an_evaluator_takes_the_shortcut_up_again_after_the_model_was_asked() -> None:
    model = make(Trees, 0)
    evaluator = hf.Evaluator(model)
    evaluator.shortcut = lambda masks, ask: model.ensemble.scores(masks)
    masks = np.random.default_rng(0).random((6, N)) < 0.5
    with evaluator.without_shortcut():
        evaluator(masks[:2])
    evaluator(masks)
    assert (len(model.asked), evaluator.n_calls) == (2, 6)


def test_scores_do_not_depend_on_how_many_masks_are_scored_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make(Trees, 0, 3).ensemble.scorer[0]
    masks = np.random.default_rng(0).random((300, N)) < 0.5
    whole = scorer.raw(masks)
    monkeypatch.setattr(ensembles, "_CELLS", 1)
    assert (scorer.raw(masks) == whole).all()
    assert (np.concatenate([scorer.raw(mask[None]) for mask in masks]) == whole).all()

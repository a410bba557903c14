"""Rows are repeated over the whole run: a model that answers at random is refused, never certified as a fact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.types import Masks
from tests.helpers.fakes import Recorded, all_masks, score_table

SELECTED = np.arange(8) < 2


class Coin:
    """Labels at random, but for the masks of at most ``n_steady`` features."""

    n_features = 8

    def __init__(self, seed: int, n_steady: int = 0, *, scores: bool = False) -> None:
        self._rng, self._n_steady, self._scores = np.random.default_rng(seed), n_steady, scores

    def __call__(self, masks: Masks, /) -> Any:
        heads = (self._rng.random(len(masks)) < 0.5) & (masks.sum(axis=1) > self._n_steady)
        return np.stack([heads, ~heads], axis=1).astype(float) if self._scores else heads


def is_noticed(model: Any, ask: Any = hf.certify, **question: Any) -> bool:
    try:
        ask(model, SELECTED, **question)
    except hf.errors.ModelError as error:
        return "must be deterministic" in str(error)
    return False


def test_a_random_model_is_not_certified_by_all_its_masks() -> None:
    """Five rows of 66 are repeated, and each agrees by chance in half of the cases: 1 in 32 goes unnoticed."""
    noticed = [is_noticed(Coin(seed), radius=6) for seed in range(64)]
    assert sum(noticed) >= 56


def test_a_model_that_is_random_far_from_the_explanation_is_noticed_too() -> None:
    """The explanation is repeated with the same answer; rows spread over the run tell."""
    noticed = [is_noticed(Coin(seed, n_steady=4), radius=6) for seed in range(64)]
    assert sum(noticed) >= 32


@pytest.mark.parametrize("ask", [hf.certify_radii, hf.certify_mus, hf.certify_hard])
def test_other_questions_repeat_rows_as_well(ask: Any) -> None:
    question: dict[Any, Any] = {
        hf.certify_radii: {"radii": [4, 6]},
        hf.certify_mus: {"keep_probability": 0.5},
        hf.certify_hard: {"radius": 6, "max_enumerated": 100},
    }
    noticed = [is_noticed(Coin(seed, scores=True), ask, rng=seed, **question[ask]) for seed in range(32)]
    assert sum(noticed) >= 12


def test_a_memory_does_not_hide_a_random_model() -> None:
    for wrap in (hf.Evaluator, lambda coin: hf.Evaluator(hf.Evaluator(coin))):
        noticed = [is_noticed(wrap(Coin(seed)), radius=6) for seed in range(32)]
        assert sum(noticed) >= 26


def test_smoothing_does_not_hide_a_random_model() -> None:
    smoothed = [hf.smooth(Coin(seed, scores=True), 0.5, n_samples=16, rng=0) for seed in range(32)]
    assert sum(is_noticed(model, radius=4) for model in smoothed) >= 26


@pytest.mark.parametrize("batch_size", [1, 2, 5, 16, 17, 64, 1000])
def test_how_many_rows_are_repeated_depends_on_how_many_are_computed(batch_size: int) -> None:
    for radius, n_rows, n_repeated in ((0, 2, 1), (1, 8, 1), (2, 23, 2), (6, 64, 5)):
        model = Recorded(score_table(8))
        cert = hf.certify(model, SELECTED, radius=radius, batch_size=batch_size, rng=0)
        assert (cert.n_calls, cert.n_repeated, model.n_rows) == (n_rows + n_repeated, n_repeated, n_rows + n_repeated)
        assert max(model.batch_sizes) <= batch_size


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 16, 17, 64, 1000])
@pytest.mark.parametrize("n_known", [1, 2, 16, 40])
def test_different_rows_are_repeated_however_many_are_known_before(batch_size: int, n_known: int) -> None:
    model, masks = Recorded(score_table(8)), all_masks(8)
    evaluator = hf.Evaluator(model, batch_size=batch_size)
    evaluator(masks[:n_known])
    evaluator.check_determinism(masks[0])
    evaluator(masks[n_known:200])
    evaluator.settle()
    repeated = [mask for mask, times in model.times_asked.items() if times > 1]
    assert evaluator.n_repeated == 5
    assert len(repeated) >= 4  # in small batches, two may fall on one row


@pytest.mark.parametrize("question", [{"radius": 1}, {"radius": 2, "tolerance": 0.05}, {"radius": 9}])
def test_a_model_that_is_steady_only_where_it_is_asked_first_is_noticed(question: dict[str, Any]) -> None:
    """Scores vary everywhere but on the explanation and the full input; the largest stays the same."""
    selected, rng = np.arange(24) < 6, np.random.default_rng(0)

    def scores(masks: Masks) -> Any:
        others = ~((masks == selected).all(axis=1) | masks.all(axis=1))
        return np.stack([np.zeros(len(masks)), 1 + 0.5 * others * rng.random(len(masks))], axis=1)

    with pytest.raises(hf.errors.ModelError, match="must be deterministic"):
        hf.certify(hf.mask_function(scores, n_features=24), selected, rng=0, **question)


def test_a_repeat_is_not_answered_by_the_batch_it_came_from_alone() -> None:
    """The explanation is repeated in another batch than its first, so that noise of a whole batch is seen."""

    class Moody:
        n_features = 8

        def __init__(self) -> None:
            self.n_batches = 0

        def __call__(self, masks: Masks, /) -> Any:
            self.n_batches += 1
            return np.full(len(masks), self.n_batches % 2)

    assert is_noticed(Moody(), radius=2)


def test_what_was_not_checked_is_called_assumed() -> None:
    cert = hf.certify(Coin(0), SELECTED, radius=6, check_determinism=False, rng=0)
    assert (cert.exact, cert.n_repeated) == (True, 0)
    assert "assumes that the model is deterministic" in cert.explain()
    assert "exactly" not in str(cert)


def test_repeats_are_halved_too_when_memory_runs_out() -> None:
    table = score_table(8)

    def small(masks: Masks) -> Any:
        if len(masks) > 2:
            raise MemoryError
        return table(masks)

    model = hf.mask_function(small, n_features=8)
    explanations = {"a": SELECTED, "b": ~SELECTED}
    found = hf.compare(hf.Evaluator(model), explanations, [3, 5], rng=0)
    whole = hf.compare(hf.mask_function(lambda masks: table(masks), n_features=8), explanations, [3, 5], rng=0)
    assert found == whole
    assert hf.recheck(model, found).confirmed
    assert is_oom(lambda: hf.certify(hf.mask_function(never, n_features=8), SELECTED, radius=2))


def never(masks: Masks) -> Any:
    raise MemoryError


def is_oom(ask: Any) -> bool:
    with pytest.raises(MemoryError):
        ask()
    return True


def test_scores_with_a_large_common_offset_are_told_apart() -> None:
    rng = np.random.default_rng(0)

    def noisy(masks: Masks) -> Any:
        return np.stack([1000 + rng.normal(size=len(masks)), np.full(len(masks), 1000.0)], axis=1)

    assert is_noticed(hf.mask_function(noisy, n_features=8), radius=6)


def test_a_memory_that_shrinks_before_the_end_changes_nothing() -> None:
    table, most = score_table(6), [64]

    def shrinking(masks: Masks) -> Any:
        if len(masks) > most[0]:
            raise MemoryError
        return table(masks)

    evaluator = hf.Evaluator(hf.mask_function(shrinking, n_features=6), batch_size=64)
    evaluator.check_determinism()
    evaluator(all_masks(6))
    most[0] = 1
    evaluator.settle()
    assert (evaluator.n_repeated, evaluator.n_calls) == (4, 68)

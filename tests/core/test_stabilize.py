"""Rankings cut where they are certified stable."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from holdfast import Attribution, Evaluator, attribute, mask_function, stabilize
from holdfast.certification import SizeStep, StableSelection
from holdfast.errors import InvalidTypeError, InvalidValueError
from tests.helpers.fakes import Recorded
from tests.helpers.oracles import exact_rate

F = Fraction
N, GRID, N_RUNS = 12, [12, 4, 3, 2, 1], 2_000
RANKED = Attribution(np.arange(N, 0, -1.0), method="test")
"""The features in the order of their index."""


# -- the search -------------------------------------------------------------------------------------


def needs(k: int, n: int = 20) -> Any:
    """Predicts 1 if at least k of the first features are shown."""
    return mask_function(lambda masks: masks[:, : k + 1].sum(axis=1) >= k, n_features=n)


def test_the_last_certified_size_is_returned_with_its_trail() -> None:
    model, ranked = needs(5), np.arange(20, 0, -1)
    found = stabilize(model, ranked, min_rate=0.9, radius=3, sizes=range(1, 21), rng=0)
    assert [step.size for step in found.trail] == list(range(20, 3, -1))
    assert (found.size, found.selected.tolist()) == (5, (np.arange(20) < 5).tolist())
    assert found.trail[-1].size == 4
    assert not found.trail[-1].consistent
    assert [bool(step.answer) for step in found.trail[:-1]] == [True] * 16
    assert found.certificate.radius == found.radius == 3
    assert (found.min_rate, found.confidence, found.method) == (0.9, 0.9, "the given scores")
    np.testing.assert_array_equal(found.certificate.selected, found.selected)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_certified_is_stable_and_what_is_enumerated_is_decided_rightly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=9)
    weights = scores + rng.normal(size=9) / 2
    model = mask_function(lambda masks: masks @ weights > 0.4, n_features=9)
    found = stabilize(model, scores, min_rate=0.8, radius=2, sizes=range(10), consistent=False, rng=seed)
    for step in found.trail:
        chosen = np.zeros(9, dtype=bool)
        chosen[np.argsort(-scores, kind="stable")[: step.size]] = True
        truth = exact_rate(model, chosen, 2)
        if step.exact:
            assert (step.answer, F(step.n_agreed, step.n_evaluated)) == (truth >= F(4, 5), truth)
        else:
            assert step.answer is None or step.answer == (truth >= F(4, 5))


def test_the_full_set_is_always_stable_and_always_tested_first() -> None:
    fickle = mask_function(lambda masks: masks.sum(axis=1) % 2, n_features=20)
    found = stabilize(fickle, np.arange(20), min_rate=0.9, radius=4, sizes=[5, 3], rng=0)
    assert (found.size, found.sizes) == (20, (20, 5, 3))
    assert found.trail[0] == SizeStep(20, True, 1, 1, True, 0, True)
    assert len(found.trail) == 2
    assert found.trail[1].answer is False
    assert str(found) == "No selection by the given scores with fewer than all 20 features is certified stable."


def test_the_default_grid_has_sixteen_sizes_evenly_spaced() -> None:
    always = mask_function(lambda masks: masks[:, 0] | True, n_features=64)
    found = stabilize(always, np.arange(64), min_rate=0.9, radius=4, rng=0)
    assert found.sizes == tuple(range(64, 0, -4))
    assert found.size == 4
    assert stabilize(needs(1, 3), np.arange(3, 0, -1), min_rate=0.9, radius=1, rng=0).sizes == (3, 2, 1)
    assert stabilize(needs(0, 1), [1.0], min_rate=0.9, radius=1, rng=0).size == 1


def test_a_selection_that_is_stably_wrong_is_returned_only_if_asked_for() -> None:
    def says(masks: Any) -> Any:
        return masks.sum(axis=1) > 12

    asked = {"min_rate": 0.9, "radius": 2, "sizes": [20, 18, 16, 6], "rng": 0}
    model = mask_function(says, n_features=20)
    found = stabilize(model, np.arange(20), **asked)
    assert (found.size, found.trail[-1].size, found.trail[-1].answer) == (16, 6, True)
    either = stabilize(model, np.arange(20), consistent=False, **asked)
    assert (either.size, either.certificate.consistent) == (6, False)
    assert "but the full input differs" in str(either)
    assert "stably wrong" in either.explain()


def test_ranks_follow_the_attribution_signed_or_by_size() -> None:
    scores = np.array([0.1, -3.0, 2.0, 0.0, 0.1])
    always = mask_function(lambda masks: masks[:, 0] | True, n_features=5)
    for attribution in (scores, Attribution(scores, method="lime")):
        signed = stabilize(always, attribution, min_rate=0.5, radius=1, sizes=[2], rng=0)
        by_size = stabilize(always, attribution, min_rate=0.5, radius=1, sizes=[2], absolute=True, rng=0)
        assert np.flatnonzero(signed.selected).tolist() == [0, 2]
        assert np.flatnonzero(by_size.selected).tolist() == [1, 2]


def test_results_do_not_depend_on_batches_or_on_a_shared_memory() -> None:
    model = needs(4)
    ranked = attribute(model, "occlusion", leave="out")
    found = stabilize(model, ranked, min_rate=0.8, radius=3, rng=5)
    for batch_size in (1, 7, 1000):
        assert stabilize(model, ranked, min_rate=0.8, radius=3, batch_size=batch_size, rng=5) == found
    shared = Evaluator(model)
    first = stabilize(shared, ranked, min_rate=0.8, radius=3, rng=5)
    again = stabilize(shared, ranked, min_rate=0.8, radius=3, check_determinism=False, rng=5)
    assert first == found
    assert shared.n_calls == first.n_calls
    assert again.trail == found.trail


def test_the_calls_reported_are_the_rows_computed() -> None:
    model = Recorded(needs(4))
    found = stabilize(model, np.arange(20, 0, -1), min_rate=0.8, radius=3, rng=0)
    assert found.n_calls == model.n_rows
    repeated = [mask for mask, count in model.times_asked.items() if count > 1]
    assert sum(model.times_asked[mask] - 1 for mask in repeated) == found.certificate.n_repeated > 0


# -- as a value -------------------------------------------------------------------------------------


def test_a_stable_selection_survives_json_and_edited_ones_are_refused() -> None:
    found = stabilize(needs(5), np.arange(20, 0, -1), min_rate=0.9, radius=3, rng=0)
    text = found.to_json()
    assert StableSelection.from_json(text) == found
    for before, after in [
        (f'"size": {found.size},', f'"size": {found.size - 1},'),
        ('"needs_consistent": true', '"needs_consistent": 3'),
        (f'"sizes": [{found.sizes[0]}, ', f'"sizes": [{found.sizes[0] + 1}, '),
    ]:
        edited = text.replace(before, after, 1)
        assert edited != text
        if "needs" not in before:
            with pytest.raises(InvalidValueError, match=r"is not a valid holdfast\.stable_selection"):
                StableSelection.from_json(edited)


def test_the_words_say_certified_stable_and_never_smallest() -> None:
    found = stabilize(needs(5), attribute(needs(5), "occlusion"), min_rate=0.9, radius=3, sizes=range(1, 21), rng=0)
    text = str(found)
    assert text.startswith(f"Top {found.size} ")
    assert "by occlusion: stable in at least 90% of cases (90% confidence)" in text
    assert "smallest" not in text
    assert "minimal" not in text
    assert "Another size, even a smaller one, may be stable too." in found.explain()
    assert text.count(". ") == 0


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"min_rate": 1}, InvalidValueError, "`min_rate` must be a number strictly between 0 and 1"),
        ({"radius": 0}, InvalidValueError, "`radius` must be a whole number ≥ 1, got 0."),
        ({"confidence": 0}, InvalidValueError, "`confidence` must be"),
        ({"sizes": [21]}, InvalidValueError, "`sizes` must be at most the number of features, 20, got 21."),
        ({"sizes": [-1]}, InvalidValueError, "`sizes` must be a whole number ≥ 0, got -1."),
        ({"sizes": 3}, InvalidTypeError, "`sizes` must be whole numbers such as"),
        ({"sizes": "12"}, InvalidTypeError, "`sizes` must be whole numbers such as"),
        (
            {"attribution": [1.0, 2.0]},
            InvalidValueError,
            "`attribution` must have one score per feature: the model has 20",
        ),
        ({"attribution": ["a"] * 20}, InvalidTypeError, "`scores` must be a vector"),
        ({"agree": 3}, InvalidTypeError, "`agree` must be"),
        ({"max_draws": 5}, InvalidValueError, "`max_draws` must be at least 22"),
    ],
)
def test_what_cannot_be_is_refused_before_any_call(asked: dict[str, Any], error: type[Exception], message: str) -> None:
    model = Recorded(needs(5))
    given = {"attribution": np.arange(20), "min_rate": 0.9, "radius": 3, "rng": 0} | asked
    with pytest.raises(error, match=message):
        stabilize(model, **given)
    assert model.n_rows == 0

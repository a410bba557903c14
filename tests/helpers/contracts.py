"""What every implementation must do, whatever it is called.

``check_neighborhood``, ``check_masked_model`` and ``check_engine`` raise ``AssertionError`` for an implementation that
breaks its contract; the tests run them on every implementation there is, and on broken ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from holdfast import MaskedModel, Neighborhood
from holdfast.study.local import Engine, Event
from holdfast.study.records import ItemResult, Record, Task, tasks_of
from holdfast.study.spec import StudySpec
from holdfast.study.worker import load_worker
from holdfast.types import Masks
from tests.helpers.oracles import Bits, distance, neighbors, rings

LEAST_P_VALUE = 1e-4
"""A chi-square test fails below this; seeds are fixed, so that it passes always or never."""

DRAWS_PER_CELL = 60

SELECTIONS = ("0000", "1111", "1011", "0100", "110010", "0010000", "1111101")
"""Nothing, everything, all but one, one, a mixture; of 4 to 7 features."""

Kind = Callable[[Any, int], Neighborhood]


def bits(text: str) -> NDArray[np.bool_]:
    """A mask from a string of zeros and ones."""
    return np.array([letter == "1" for letter in text])


def codes(masks: Any) -> NDArray[np.int64]:
    """One whole number per mask: sum of mask_i · 2^i."""
    array = np.asarray(masks, dtype=np.int64)
    return array @ (1 << np.arange(array.shape[1]))


def chi_square(observed: Any, expected: Any) -> float:
    """P-value of counts against expected counts (Pearson's test, cells - 1 degrees of freedom)."""
    seen, wanted = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
    if len(seen) == 1:
        return 1.0
    return float(chdtrc(len(seen) - 1, ((seen - wanted) ** 2 / wanted).sum()))


# -- neighbourhoods ---------------------------------------------------------------------------------


def check_neighborhood(kind: Kind, *, selections: Iterable[str] = SELECTIONS) -> None:
    """Compare a neighbourhood with the enumeration of its definition, for every radius and size.

    Its ``name`` says which definition of ``oracles.neighbors`` it must follow.
    """
    name = kind(bits("10"), 1).name
    for text in selections:
        selected = bits(text)
        largest = len(rings(selected, name)) - 1
        _check_its_input_is_left_alone(kind, selected)
        for radius in range(largest + 3):
            ball, truth = kind(selected, radius), neighbors(selected, radius, name)
            assert (ball.radius, ball.effective_radius) == (radius, min(radius, largest))
            check_set(ball, truth)
            ring, truth = kind(selected, 1).exactly(radius), neighbors(selected, 0, name, exactly=radius)
            assert ring.effective_radius == min(radius, largest)
            check_set(ring, truth)


def check_set(nearby: Neighborhood, truth: set[Bits]) -> None:
    """Counted, enumerated and drawn from: always the same set, and uniformly."""
    assert nearby.size == len(truth)
    assert type(nearby.size) is int
    assert nearby.is_larger_than(len(truth) - 1)
    assert not nearby.is_larger_than(len(truth))
    for batch in (1, 3, len(truth), len(truth) + 1):
        _check_enumeration(nearby, truth, batch)
    _check_draws_continue(nearby)
    check_uniform(nearby, truth)


def _check_enumeration(nearby: Neighborhood, truth: set[Bits], batch: int) -> None:
    parts = list(nearby.enumerate(batch))
    assert all(len(part) == batch for part in parts[:-1])
    assert 1 <= len(parts[-1]) <= batch
    rows = np.concatenate(parts)
    assert rows.dtype == np.bool_
    found = [tuple(mask) for mask in rows.tolist()]
    assert len(found) == len(truth)
    assert set(found) == truth
    far = [distance(nearby.selected, mask, nearby.name) for mask in found]
    assert far == sorted(far), "not nearest first"


def _check_draws_continue(nearby: Neighborhood) -> None:
    whole = nearby.sample(17, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    parts = [nearby.sample(n, rng) for n in (1, 0, 11, 5)]
    assert [len(part) for part in parts] == [1, 0, 11, 5]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def check_uniform(nearby: Neighborhood, truth: set[Bits], *, seed: int = 0, per_cell: int = DRAWS_PER_CELL) -> None:
    """Every draw is a member, and all members are drawn equally often (chi-square, fixed seed)."""
    cells = np.sort(codes(list(truth)))
    drawn = codes(nearby.sample(max(2000, per_cell * len(cells)), np.random.default_rng(seed)))
    assert np.isin(drawn, cells).all(), "drew a mask that is not in the neighbourhood"
    observed = np.bincount(np.searchsorted(cells, drawn), minlength=len(cells))
    p_value = chi_square(observed, np.full(len(cells), len(drawn) / len(cells)))
    assert p_value > LEAST_P_VALUE, f"not uniform: p = {p_value:.1e}"


def _check_its_input_is_left_alone(kind: Kind, selected: NDArray[np.bool_]) -> None:
    given = selected.copy()
    nearby = kind(given, 2)
    before = nearby.sample(20, np.random.default_rng(1))
    np.testing.assert_array_equal(given, selected)
    given[:] = ~given
    np.testing.assert_array_equal(nearby.selected, selected)
    np.testing.assert_array_equal(nearby.sample(20, np.random.default_rng(1)), before)
    frozen = selected.copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(kind(frozen, 2).sample(20, np.random.default_rng(1)), before)


# -- models -----------------------------------------------------------------------------------------


def check_masked_model(
    model: MaskedModel, *, full_prediction: Any = None, tolerance: float = 0.0, n_masks: int = 24, seed: int = 0
) -> None:
    """Check that a model is a deterministic function of each mask on its own.

    ``full_prediction`` is the class (or label) that the full input must get. Scores computed in
    batches of different shapes may differ by ``tolerance``.
    """
    assert isinstance(model, MaskedModel)
    n = model.n_features
    assert isinstance(n, int)
    assert n >= 1
    masks = np.random.default_rng(seed).random((n_masks, n)) < 0.5
    masks[0], masks[1], masks[-1] = True, False, True
    outputs = _ask(model, masks)
    _check_shape(outputs, n_masks)
    same = np.testing.assert_array_equal if outputs.dtype.kind not in "f" else _close(tolerance)
    same(_ask(model, masks), outputs)
    for i in range(n_masks):
        same(_ask(model, masks[i : i + 1])[0], outputs[i])
    order = np.random.default_rng(seed + 1).permutation(n_masks)
    same(_ask(model, masks[order]), outputs[order])
    if full_prediction is not None:
        predicted = outputs[0] if outputs.ndim == 1 else outputs[0].argmax()
        assert predicted == full_prediction
    with_wrong_width = np.ones((2, n + 1), dtype=bool)
    try:
        model(with_wrong_width)
    except ValueError:
        return
    raise AssertionError(f"accepted masks of {n + 1} features, has {n}")


def _ask(model: MaskedModel, masks: Masks) -> NDArray[Any]:
    """Ask with a read-only array, so that a model that writes to its masks fails."""
    given = masks.copy()
    given.setflags(write=False)
    return np.asarray(model(given))


def _check_shape(outputs: NDArray[Any], n_masks: int) -> None:
    assert outputs.ndim in (1, 2)
    assert len(outputs) == n_masks
    if outputs.ndim == 2:
        assert outputs.dtype.kind in "fiub"
        assert np.isfinite(outputs).all()
    else:
        assert outputs.dtype.kind != "f", "one real score per mask must be a column (b, 1)"


def _close(tolerance: float) -> Callable[[Any, Any], None]:
    return lambda found, wanted: np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


# -- engines of studies -----------------------------------------------------------------------------


def check_engine(engine: Engine, spec: StudySpec, n_inputs: int) -> None:
    """Compare an engine with a bare loop over the worker: every item once, the same digests, and a stop that holds."""
    worker = load_worker(spec)
    tasks = list(tasks_of(spec, range(n_inputs), frozenset()))
    truth = {one.key: one.digest for task in tasks for one in worker.run(task) if isinstance(one, ItemResult)}
    _check_events(list(engine.run(spec, iter(tasks), lambda: False)), truth)
    _check_stop(engine, spec, tasks, truth)


def _check_events(events: list[Event], truth: dict[str, str]) -> None:
    records = [event for event in events if isinstance(event, Record)]
    assert len(records) == len(events), "something was skipped or given up"
    keys = [record.key for record in records]
    assert len(keys) == len(set(keys)), "an item came twice"
    assert {record.key: record.digest for record in records} == truth


def _check_stop(engine: Engine, spec: StudySpec, tasks: list[Task], truth: dict[str, str]) -> None:
    """After a stop only begun items come; the rest, asked for later, completes the study."""
    source, seen = iter(tasks), list[Event]()
    seen.extend(engine.run(spec, source, lambda: len(seen) > 0))
    n_begun = getattr(engine, "n_workers", 1) * load_worker(spec).n_open
    assert 1 <= len(seen) < len(truth), "the engine did not stop"
    assert len(tasks) - len(list(source)) <= n_begun, "tasks were taken that were not begun"
    done = frozenset(event.key for event in seen if isinstance(event, Record))
    rest = tasks_of(spec, [task.input for task in tasks], done)
    _check_events([*seen, *engine.run(spec, rest, lambda: False)], truth)

"""Questions that share batches: the same results, full batches, errors of their own, and nothing left to chance."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest

from holdfast import (
    Evaluator,
    calibrate,
    certify,
    certify_mus,
    certify_radii,
    find_witness,
    mask_function,
    mean_curve,
    smooth,
)
from holdfast.calls import asked_alone, working_seconds
from holdfast.errors import ModelError
from holdfast.gathering import open_questions, run_together
from holdfast.prices import CallPrice
from holdfast.types import MaskedModel, Masks, Outputs
from tests.helpers.fakes import score_table

N_FEATURES = 10
SELECTED = np.arange(N_FEATURES) < 3


class Device:
    """A classifier of many inputs that writes down which inputs each call had rows of; ``before`` may raise."""

    def __init__(self, before: Callable[[list[tuple[int, int]]], None] = lambda call: None) -> None:
        self.calls: list[list[tuple[int, int]]] = []
        self.threads: set[int] = set()
        self._before = before

    def run(self, parts: Sequence[tuple[OnDevice, Masks]]) -> list[Outputs]:
        self.calls.append([(model.number, len(masks)) for model, masks in parts])
        self.threads.add(threading.get_ident())
        self._before(self.calls[-1])
        return [np.asarray(model.table(masks)) for model, masks in parts]

    @property
    def sizes(self) -> list[int]:
        return [sum(n for _, n in call) for call in self.calls]


class OnDevice:
    """One input of a device."""

    n_features = N_FEATURES

    def __init__(self, device: Device, number: int, *, joins: bool = True) -> None:
        self.device, self.number, self.table = device, number, score_table(N_FEATURES, seed=number)
        self.provenance = self.table.provenance
        self.join_key = device if joins else None

    def __call__(self, masks: Masks, /) -> Outputs:
        return self.device.run([(self, masks)])[0]

    def score_jointly(self, parts: Sequence[tuple[OnDevice, Masks]], /) -> list[Outputs]:
        return self.device.run(parts)


class Probe:
    """What finds 3 rows to be the fastest, and writes down what it is told of."""

    size, settled = 3, False

    def __init__(self) -> None:
        self.recorded: list[int] = []

    def rows_of(self, n_rows: int) -> int:
        return min(n_rows, self.size)

    def clock(self) -> float:
        return 0.0

    def record(self, n_rows: int, seconds: float) -> None:
        self.recorded.append(n_rows)


def in_turn(questions: Sequence[Iterator[Any]]) -> Callable[[bool], Iterator[Any] | None]:
    left = list(questions)
    return lambda wait: left.pop(0) if left else None


def study(model: MaskedModel, number: int, batch_size: int = 16) -> Iterator[Any]:
    """All that is asked of one input: a curve, a smoothed one, votes and a witness."""
    shared = Evaluator(model, batch_size=batch_size)
    shared.check_determinism(np.ones(N_FEATURES, dtype=bool))
    yield number, certify_radii(Evaluator(shared), SELECTED, radii=[2, 5], tolerance=0.2, rng=number)
    yield number, certify(smooth(Evaluator(shared), 0.75, 8, rng=1), SELECTED, radius=4, tolerance=0.2, rng=number)
    yield number, certify_mus(Evaluator(shared), SELECTED, keep_probability=0.5, n_levels=8, rng=number)
    yield number, find_witness(Evaluator(shared), SELECTED, rng=number)
    shared.settle()


def results(n_open: int, batch_size: int, *, joins: bool = True, n: int = 12) -> tuple[dict[int, list[Any]], Device]:
    device, found = Device(), dict[int, list[Any]]()
    questions = in_turn([study(OnDevice(device, number, joins=joins), number, batch_size) for number in range(n)])
    for number, result in run_together(questions, n_open=n_open):
        found.setdefault(number, []).append(result)
    return found, device


@pytest.fixture(scope="module")
def alone() -> dict[int, list[Any]]:
    """The same questions without this module."""
    return {number: [one for _, one in study(score_table(N_FEATURES, seed=number), number)] for number in range(12)}


@pytest.mark.parametrize("n_open", [1, 2, 8, 32])
@pytest.mark.parametrize("batch_size", [1, 5, 64])
@pytest.mark.parametrize("joins", [True, False])
def test_results_do_not_depend_on_how_questions_share_batches(
    alone: dict[int, list[Any]], n_open: int, batch_size: int, joins: bool
) -> None:
    found, device = results(n_open, batch_size, joins=joins)
    assert found == alone
    assert max(device.sizes) <= batch_size
    assert device.threads == {threading.get_ident()}
    assert any(len(call) > 1 for call in device.calls) == (joins and n_open > 1 and batch_size > 1)


def test_batches_are_full_and_the_same_in_every_run() -> None:
    first, again = (results(16, 32, n=40)[1] for _ in range(2))
    assert first.calls == again.calls
    apart = results(1, 32, n=40)[1]
    assert sum(first.sizes) == sum(apart.sizes)
    assert np.mean(first.sizes) > 0.75 * 32 > 2 * np.mean(apart.sizes)


def test_so_many_questions_are_open_as_fill_some_batches() -> None:
    assert [open_questions(size) for size in (1, 3, 4, 8, 128, 10**6)] == [1, 1, 1, 2, 32, 32]
    begun: list[int] = []

    def question(number: int) -> Iterator[int]:
        begun.append(number)
        Evaluator(model)(np.ones((1, N_FEATURES), dtype=bool))
        yield number

    model = OnDevice(Device(), 0)
    running = run_together(in_turn([question(number) for number in range(9)]), n_open=3)
    assert (next(running), len(begun)) == (0, 3)
    assert [*running] == [1, 2, 3, 4, 5, 6, 7, 8]


def broken(number: int) -> Callable[[list[tuple[int, int]]], None]:
    def before(call: list[tuple[int, int]]) -> None:
        if number in dict(call):
            raise ModelError("Not this one.")

    return before


@pytest.mark.parametrize("joins", [True, False])
def test_an_error_is_raised_where_it_belongs_after_the_questions_before_it(joins: bool) -> None:
    device, found = Device(broken(3)), list[int]()
    questions = [study(OnDevice(device, number, joins=joins), number) for number in range(6)]
    running = run_together(in_turn(questions), n_open=6)
    with pytest.raises(ModelError, match=r"Not this one\."):
        found.extend(number for number, _ in running)
    assert [found.count(number) for number in range(6)] == [4, 4, 4, 0, 0, 0]


def test_the_first_of_several_errors_is_raised() -> None:
    def fails(number: int, n_before: int) -> Iterator[None]:
        model = OnDevice(Device(), number)
        for row in range(n_before):
            model.n_features, masks = N_FEATURES, np.arange(N_FEATURES) == row
            Evaluator(model)(masks[None])
        raise ModelError(f"Question {number}.")
        yield

    with pytest.raises(ModelError, match=r"Question 0\."):
        list(run_together(in_turn([fails(0, 5), fails(1, 1), fails(2, 1)]), n_open=3))


def test_other_exceptions_than_errors_are_raised_as_well() -> None:
    def leaves() -> Iterator[int]:
        yield 1
        raise SystemExit(7)

    running = run_together(in_turn([leaves(), leaves()]), n_open=2)
    assert next(running) == 1
    with pytest.raises(SystemExit, match="7"):
        list(running)


def test_an_interrupt_inside_a_question_does_not_wait_for_the_questions_before_it() -> None:
    finished: list[int] = []

    def question(number: int) -> Iterator[int]:
        for row in range(N_FEATURES):
            Evaluator(OnDevice(device, number))(np.arange(N_FEATURES)[None] == row)
            if (number, row) == (3, 2):
                raise KeyboardInterrupt
        finished.append(number)
        yield number

    device = Device()
    with pytest.raises(KeyboardInterrupt):
        list(run_together(in_turn([question(number) for number in range(5)]), n_open=5))
    assert finished == []
    assert len(device.calls) == 3


def test_an_error_of_one_input_does_not_mention_that_it_was_asked_with_others() -> None:
    questions = [study(OnDevice(device, number), number) for device in [Device(broken(1))] for number in range(3)]
    with pytest.raises(ModelError, match=r"Not this one\.") as caught:
        list(run_together(in_turn(questions), n_open=3))
    assert caught.value.__context__ is None


def test_errors_of_questions_that_are_given_up_are_not_raised() -> None:
    def question(number: int) -> Iterator[int]:
        try:
            yield from (number for _ in study(OnDevice(device, number), number))
        finally:
            if number > 1:
                raise RuntimeError(f"Question {number} cannot clean up.")

    device = Device(broken(1))
    with pytest.raises(ModelError, match=r"Not this one\."):
        list(run_together(in_turn([question(number) for number in range(4)]), n_open=4))


def test_what_a_call_held_that_ran_out_of_memory_is_let_go() -> None:
    class Held:
        pass

    class Small(OnDevice):
        def __call__(self, masks: Masks, /) -> Outputs:
            assert [reference() for reference in held if reference() is not None] == []
            tensor = Held()
            held.append(weakref.ref(tensor))
            if len(masks) > 4:
                raise MemoryError
            return self.table(masks)

    def question(number: int) -> Iterator[Outputs]:
        yield Evaluator(Small(Device(), number, joins=False), batch_size=32)(masks)

    held: list[weakref.ref[Held]] = []
    masks = np.arange(N_FEATURES) < np.arange(N_FEATURES)[:, None]
    gc.disable()
    try:
        found = list(run_together(in_turn([question(number) for number in range(2)]), n_open=2))
    finally:
        gc.enable()
    assert [outputs.tolist() for outputs in found] == [table(number)(masks).tolist() for number in range(2)]


def test_keys_that_cannot_be_compared_do_not_matter() -> None:
    class Key:
        def __hash__(self) -> int:
            return id(self)

        def __eq__(self, other: object) -> bool:
            raise ValueError("The truth value is ambiguous.")

    def model(number: int) -> OnDevice:
        bound = OnDevice(Device(), number)
        bound.join_key = ("function", Key())  # type: ignore[assignment]
        return bound

    assert mean_of([model(number) for number in range(4)]) == mean_of([table(number) for number in range(4)])


def test_a_model_that_changes_the_number_of_classes_is_told_so() -> None:
    class Changing(OnDevice):
        def score_jointly(self, parts: Sequence[tuple[OnDevice, Masks]], /) -> list[Outputs]:
            return [np.zeros((len(masks), 7)) for _, masks in parts]

    def question(number: int) -> Iterator[None]:
        Evaluator(Changing(device, number), batch_size=5)(np.arange(N_FEATURES) < np.arange(4)[:, None])
        yield

    device = Device()
    with pytest.raises(ModelError, match="same number of classes every time"):
        list(run_together(in_turn([question(number) for number in range(2)]), n_open=2))


def test_where_memory_runs_out_batches_are_halved_until_they_fit(alone: dict[int, list[Any]]) -> None:
    def small(call: list[tuple[int, int]]) -> None:
        if sum(n for _, n in call) > 6:
            raise MemoryError

    device, found = Device(small), dict[int, list[Any]]()
    questions = in_turn([study(OnDevice(device, number), number, 64) for number in range(12)])
    for number, result in run_together(questions, n_open=12):
        found.setdefault(number, []).append(result)
    assert found == alone
    too_large = [size for size in device.sizes if size > 6]
    assert 0 < len(too_large) < 40
    assert sum(len(call) > 1 for call in device.calls) > 20


def test_batches_grow_again_when_memory_was_short_for_once() -> None:
    def short(call: list[tuple[int, int]]) -> None:
        if len(call) > 1 and len(device.calls) < 20:
            raise MemoryError

    device = Device(short)
    list(run_together(in_turn([study(OnDevice(device, number), number, 64) for number in range(60)]), n_open=16))
    assert min(device.sizes[:20]) == 1
    assert np.mean(device.sizes[-30:]) > 16


def test_models_that_cannot_be_computed_together_after_all_are_computed_alone(alone: dict[int, list[Any]]) -> None:
    def apart(call: list[tuple[int, int]]) -> None:
        if len(call) > 1:
            raise ValueError("one input at a time")

    device, found = Device(apart), dict[int, list[Any]]()
    questions = in_turn([study(OnDevice(device, number), number) for number in range(12)])
    for number, result in run_together(questions, n_open=12):
        found.setdefault(number, []).append(result)
    assert found == alone
    n_together = sum(len(call) > 1 for call in device.calls)
    assert 1 < n_together <= 2 + len(device.calls) / 64, "tried again now and then"


def test_inputs_that_could_not_be_computed_together_for_once_are_so_again() -> None:
    def broken_once(call: list[tuple[int, int]]) -> None:
        if len(call) > 1 and not failed:
            failed.append(call)
            raise ValueError("for once")

    failed: list[Any] = []
    device, usual = Device(broken_once), Device()
    for each in (device, usual):
        list(run_together(in_turn([study(OnDevice(each, number), number) for number in range(60)]), n_open=16))
    assert len(device.calls) <= len(usual.calls) + 1 + 64


class Forgetful(OnDevice):
    """Its answers for several inputs are not what they should be."""

    gives: Any = None

    def score_jointly(self, parts: Sequence[tuple[OnDevice, Masks]], /) -> Any:
        return self.gives(self.device.run(parts))


@pytest.mark.parametrize(
    "gives",
    [
        lambda answers: None,
        lambda answers: answers[:-1],
        lambda answers: [*answers, answers[0]],
        lambda answers: [answer[:-1] for answer in answers],
        lambda answers: [None for _ in answers],
        lambda answers: len(answers),
    ],
    ids=["nothing", "too few", "too many", "too short", "no answers", "a number"],
)
def test_answers_to_several_that_do_not_fit_are_asked_for_one_by_one(gives: Any, alone: dict[int, list[Any]]) -> None:
    device, found = Device(), dict[int, list[Any]]()
    models = [Forgetful(device, number) for number in range(12)]
    for model in models:
        model.gives = gives
    for number, result in run_together(in_turn([study(model, n) for n, model in enumerate(models)]), n_open=12):
        found.setdefault(number, []).append(result)
    assert found == alone


def test_a_key_that_cannot_be_compared_goes_alone(alone: dict[int, list[Any]]) -> None:
    device, found = Device(), dict[int, list[Any]]()
    models = [OnDevice(device, number) for number in range(3)]
    for model in models:
        model.join_key = ["a list"]  # type: ignore[assignment]
    for number, result in run_together(in_turn([study(model, n) for n, model in enumerate(models)]), n_open=3):
        found.setdefault(number, []).append(result)
    assert found == {number: alone[number] for number in range(3)}


def test_rows_that_were_computed_before_memory_ran_out_are_kept() -> None:
    """A question whose rows go partly with others and partly alone."""

    def short(call: list[tuple[int, int]]) -> None:
        if sum(n for _, n in call) > 12:
            raise MemoryError

    def question(number: int) -> Iterator[Outputs]:
        masks = np.random.default_rng(number).random((10, N_FEATURES)) < 0.5
        yield Evaluator(OnDevice(device, number), batch_size=16)(masks)

    device = Device(short)
    list(run_together(in_turn([question(number) for number in range(2)]), n_open=2))
    done = [sum(n for _, n in call) for call in device.calls if sum(n for _, n in call) <= 12]
    assert sum(done) == 20


@pytest.mark.parametrize(
    "answers",
    [lambda n: np.ma.masked_array(np.ones((n, 2)), mask=True), lambda n: [1] * (n - 1) + [True], lambda n: None],
    ids=["masked", "two types", "nothing"],
)
def test_answers_that_are_refused_alone_are_refused_in_parts(answers: Any) -> None:
    class Bad(OnDevice):
        def __call__(self, masks: Masks, /) -> Any:
            return answers(len(masks))

        def score_jointly(self, parts: Sequence[tuple[OnDevice, Masks]], /) -> Any:
            return [answers(len(masks)) for _, masks in parts]

    def question(number: int) -> Iterator[Outputs]:
        masks = np.random.default_rng(number).random((30, N_FEATURES)) < 0.5
        yield Evaluator(Bad(Device(), number), batch_size=40)(masks)

    with pytest.raises(ModelError):
        list(run_together(in_turn([question(number) for number in range(3)]), n_open=3))


def test_a_stop_request_lets_the_first_open_question_go_on_alone() -> None:
    device, stopped = Device(), list[bool]()
    questions = in_turn([study(OnDevice(device, number), number) for number in range(9)])
    running = run_together(questions, n_open=4, stop=lambda: bool(stopped))
    next(running)  # of whichever is first: only the first that was opened goes on
    stopped.append(True)
    n_before = len(device.calls)
    assert [number for number, _ in running if number != 0] == []
    assert {number for call in device.calls[n_before:] for number, _ in call} <= {0}
    assert list(run_together(in_turn([study(OnDevice(device, 0), 0)]), n_open=2, stop=lambda: True)) == []


def test_questions_that_nobody_wants_to_know_end_and_clean_up() -> None:
    ended: list[int] = []

    def question(number: int) -> Iterator[int]:
        try:
            yield from (number for _ in study(OnDevice(device, number), number))
        finally:
            ended.append(number)

    device = Device()
    with closing(run_together(in_turn([question(number) for number in range(5)]), n_open=3)) as running:
        next(running)  # type: ignore[call-overload]
    assert sorted(ended) == [0, 1, 2]


def test_an_interrupt_in_a_call_of_the_model_ends_everything() -> None:
    def interrupt(call: list[tuple[int, int]]) -> None:
        if len(device.calls) == 9:
            raise KeyboardInterrupt

    device = Device(interrupt)
    questions = in_turn([study(OnDevice(device, number), number) for number in range(9)])
    with pytest.raises(KeyboardInterrupt):
        list(run_together(questions, n_open=4))
    assert len(device.calls) == 9


def test_questions_run_in_the_thread_and_the_settings_of_the_caller() -> None:
    def question(number: int) -> Iterator[Any]:
        yield threading.get_ident(), np.geterr()["divide"]

    with np.errstate(divide="ignore"):
        settings = set(run_together(in_turn([question(number) for number in range(3)]), n_open=2))
    assert settings == {(threading.get_ident(), "ignore")}


def test_what_is_asked_alone_shares_no_batch() -> None:
    def question(number: int) -> Iterator[Any]:
        with asked_alone():
            Evaluator(OnDevice(device, number))(np.eye(N_FEATURES, dtype=bool))
        yield from study(OnDevice(device, number), number)

    device = Device()
    list(run_together(in_turn([question(number) for number in range(3)]), n_open=3))
    assert device.calls[:3] == [[(number, N_FEATURES)] for number in range(3)]
    assert any(len(call) > 1 for call in device.calls[3:])


def test_nothing_is_computed_ahead_where_other_questions_fill_the_call() -> None:
    def question(number: int) -> Iterator[tuple[int, int]]:
        evaluator = Evaluator(OnDevice(device, number), price=CallPrice(fixed=1.0, per_row=0.001))
        certify(evaluator, SELECTED, radius=4, rng=number)
        yield evaluator.n_calls, evaluator.n_computed

    device = Device()
    counts = list(run_together(in_turn([question(number) for number in range(4)]), n_open=4))
    assert all(n_calls == n_computed for n_calls, n_computed in counts)
    assert sum(n for n, _ in counts) == sum(device.sizes)
    n_shared = sum(0 in dict(call) for call in device.calls)
    device.calls.clear()
    next(question(0))
    assert len(device.calls) < n_shared, "alone, later looks go along with the first"


def test_without_greenlets_questions_run_one_after_the_other(
    alone: dict[int, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "greenlet", None)
    found, device = results(8, 16)
    assert found == alone
    assert all(len(call) == 1 for call in device.calls)


def test_a_question_that_asks_again_when_it_is_given_up_ends_all_the_same() -> None:
    def question(number: int) -> Iterator[Any]:
        try:
            yield from study(OnDevice(device, number), number)
        finally:
            Evaluator(OnDevice(device, number))(np.zeros((1, N_FEATURES), dtype=bool))

    device = Device()
    running = run_together(in_turn([question(number) for number in range(3)]), n_open=3)
    next(running)
    n_calls = len(device.calls)
    running.close()  # type: ignore[attr-defined]
    assert len(device.calls) == n_calls


def test_time_that_the_model_works_for_others_is_not_counted() -> None:
    def question(number: int) -> Iterator[tuple[int, float, float]]:
        start, whole = working_seconds(), clock()
        masks = np.arange(N_FEATURES) < np.arange(N_FEATURES)[:, None]
        Evaluator(OnDevice(device, number), batch_size=22)(masks[: 1 + 3 * number])
        yield number, working_seconds() - start, clock() - whole

    from time import perf_counter as clock

    def busy(call: list[tuple[int, int]]) -> None:
        until = clock() + 0.05
        while clock() < until:
            pass

    device = Device(busy)
    questions = in_turn([question(number) for number in range(4)])
    times = {number: (own, whole) for number, own, whole in run_together(questions, n_open=4)}
    assert len(device.calls) == 1
    assert all(whole >= 0.05 for _, whole in times.values())
    assert sum(own for own, _ in times.values()) < 0.75 * sum(whole for _, whole in times.values())
    assert times[0][0] < times[3][0]


def test_a_model_without_a_batch_size_is_asked_for_what_its_probe_finds() -> None:
    class Probing(OnDevice):
        batch_probe = Probe()

    def question(number: int) -> Iterator[Any]:
        masks = np.arange(N_FEATURES) < np.arange(4)[:, None]
        yield number, Evaluator(Probing(device, number))(masks).tolist()

    device = Device()
    found = dict(run_together(in_turn([question(number) for number in range(3)]), n_open=3))
    assert device.sizes == Probing.batch_probe.recorded == [3, 3, 3, 3]
    assert [len(call) for call in device.calls] == [1, 1, 1, 3]
    masks = np.arange(N_FEATURES) < np.arange(4)[:, None]
    assert found == {number: score_table(N_FEATURES, seed=number)(masks).tolist() for number in range(3)}


def mean_of(models: Sequence[MaskedModel], **options: Any) -> Any:
    subjects = [partial(lambda model: (model, SELECTED), model) for model in models]
    return mean_curve(subjects, radii=[1, 4], half_width=0.15, rng=0, **options)


@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"batch_size": 300}])
def test_inputs_of_a_mean_share_batches_and_it_stays_the_same(options: dict[str, Any]) -> None:
    device = Device()
    apart = mean_of([score_table(N_FEATURES, seed=number) for number in range(40)])
    assert mean_of([OnDevice(device, number) for number in range(40)], **options) == apart
    joint = [call for call in device.calls if len(call) > 1]
    assert (sum(n for call in joint for _, n in call) > 0.9 * apart.n_calls) == (options != {"batch_size": 1})
    smoothed = [
        [smooth(make(number), 0.75, 4, rng=1) for number in range(20)] for make in (table, partial(OnDevice, device))
    ]
    assert mean_of(smoothed[0], **options) == mean_of(smoothed[1], **options)


def table(number: int) -> MaskedModel:
    return score_table(N_FEATURES, seed=number)


def test_inputs_that_share_an_evaluator_are_asked_one_after_the_other() -> None:
    device = Device()
    remembers = Evaluator(OnDevice(device, 3))
    assert mean_of([remembers] * 20) == mean_of([table(3)] * 20)
    assert remembers.n_calls == len(remembers.masks) == sum(device.sizes)
    assert remembers.outputs.tolist() == table(3)(remembers.masks).tolist()
    smoothed, alike = (mean_of([smooth(model, 0.5, 4, rng=1)] * 8) for model in (remembers, table(3)))
    assert (smoothed.rates, smoothed.n_draws) == (alike.rates, alike.n_draws)


def test_inputs_of_a_calibration_share_batches_and_it_stays_the_same() -> None:
    def calibrated(models: Sequence[MaskedModel]) -> Any:
        options: dict[str, Any] = {"radius": 2, "min_rate": 0.6, "share": 0.7, "rng": 0, "consistent": False}
        return calibrate(models, [np.arange(N_FEATURES)] * len(models), **options)

    device = Device()
    apart, joint = (calibrated([make(number) for number in range(30)]) for make in (table, partial(OnDevice, device)))
    assert joint == apart
    assert sum(device.sizes) == joint.n_calls
    assert np.mean([len(call) for call in device.calls]) > 3
    remembers = Evaluator(OnDevice(Device(), 3))
    same, alone = calibrated([remembers] * 30), calibrated([table(3)] * 30)
    assert same.groups == alone.groups


def test_evaluators_in_a_sequence_of_another_kind_are_asked_one_after_the_other_too() -> None:
    class Kept(Sequence[MaskedModel]):
        def __init__(self, models: Sequence[MaskedModel]) -> None:
            self._models = models

        def __len__(self) -> int:
            return len(self._models)

        def __getitem__(self, place: Any) -> Any:
            return self._models[place]

    device = Device()
    remembers = Evaluator(OnDevice(device, 3))
    options: dict[str, Any] = {"radius": 2, "min_rate": 0.6, "share": 0.7, "rng": 0, "consistent": False}
    calibrate(Kept([remembers] * 30), [np.arange(N_FEATURES)] * 30, check_determinism=False, **options)
    assert sum(device.sizes) == remembers.n_calls == len(remembers.masks)


def test_an_evaluator_that_questions_share_all_the_same_remembers_what_the_model_said() -> None:
    def question(part: int) -> Iterator[bool]:
        own = masks[part : part + 8]
        yield bool((remembers(own) == table(3)(own)).all() and (remembers(masks) == table(3)(masks)).all())

    masks = np.random.default_rng(0).random((16, N_FEATURES)) < 0.5
    remembers = Evaluator(OnDevice(Device(), 3))
    assert list(run_together(in_turn([question(part) for part in (0, 4, 8)]), n_open=3)) == [True] * 3
    assert remembers.outputs.tolist() == table(3)(remembers.masks).tolist()


@pytest.mark.parametrize(
    "wrap", [partial(smooth, keep_probability=0.75, n_samples=4, rng=1), lambda model: in_function(Evaluator(model))]
)
def test_evaluators_inside_a_call_with_a_time_limit_call_their_model_themselves(wrap: Any) -> None:
    limited, free = (
        [Evaluator(wrap(table(number)), timeout=seconds) for number in range(4)] for seconds in (600, None)
    )
    assert mean_of(limited) == mean_of(free)


def test_a_probe_learns_from_calls_with_a_time_limit_as_well() -> None:
    class Probing(OnDevice):
        batch_probe = Probe()

    def question(number: int) -> Iterator[Any]:
        yield Evaluator(Probing(Device(), number), timeout=600)(np.arange(N_FEATURES) < np.arange(4)[:, None])

    list(run_together(in_turn([question(number) for number in range(2)]), n_open=2))
    assert Probing.batch_probe.recorded == [3, 1, 3, 1]


def in_function(model: MaskedModel) -> MaskedModel:
    return mask_function(lambda masks: model(masks), n_features=N_FEATURES)


def test_an_error_of_a_mean_says_whose_it_is() -> None:
    models = [OnDevice(Device(broken(6)), number) for number in range(9)]
    with pytest.raises(ModelError, match=r"Not this one\.") as caught:
        mean_of(models)
    assert caught.value.subject == 6  # type: ignore[attr-defined]
    with pytest.raises(TypeError) as refused:
        mean_curve([lambda: (table(0), SELECTED), lambda: 7], radii=[1], rng=0)  # type: ignore[arg-type, return-value, list-item]
    assert refused.value.subject == 1  # type: ignore[attr-defined]


class Talking(OnDevice):
    """An input that is answered in words, the same for every draw."""

    question, tokens, agreement, reference, scores = "Which?", (None, None), "same_top_class", None, None

    def sample(self, masks: Masks, numbers: Any, /) -> Outputs:
        return np.array(["yes" if row[0] > 0 else "no" for row in self(masks)], dtype=object)


@pytest.mark.parametrize("kind", [OnDevice, Talking])
def test_calls_with_a_time_limit_and_answers_in_words_are_made_for_one_input_at_a_time(kind: Any) -> None:
    def question(number: int) -> Iterator[Any]:
        limited = Evaluator(kind(device, number), timeout=None if kind is Talking else 600)
        yield number, limited(np.arange(N_FEATURES) < np.arange(5)[:, None]).tolist()

    device = Device()
    found = dict(run_together(in_turn([question(number) for number in range(4)]), n_open=4))
    assert device.calls == [[(number, 5)] for number in range(4)]
    assert (device.threads == {threading.get_ident()}) == (kind is Talking)
    assert found == {number: answers for number in range(4) for _, answers in question(number)}


def test_a_model_that_cannot_say_with_whom_it_goes_is_asked_alone_and_says_why() -> None:
    class Unsure(OnDevice):
        @property
        def join_key(self) -> Any:
            raise ModelError("It depends.")

        @join_key.setter
        def join_key(self, value: Any) -> None:
            pass

    device = Device()
    questions = [study(Unsure(device, number) if number else OnDevice(device, 0), number) for number in range(3)]
    found = {number for number, _ in run_together(in_turn(questions), n_open=3)}
    assert found == {0, 1, 2}
    assert all(len(call) == 1 for call in device.calls)

"""Rows computed ahead change no result: the same draws, counts and calls, whatever a call is said to take."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.certification import reference, shared_draws
from holdfast.certification.question import Procedure
from holdfast.errors import HoldfastError, InvalidValueError, ModelError
from holdfast.evaluation import Evaluator
from holdfast.plans import cheapest_look, make_plan
from holdfast.prices import BETWEEN_CALLS, CallMeter, CallPrice
from tests.core.test_random_answers import RandomAnswers

N = 24
SELECTED = np.arange(N) < 6
FREE, CHEAP, GPU, HUGE = CallPrice(0, 1), CallPrice(1e-4, 1e-4), CallPrice(5e-3, 5e-5), CallPrice(1e6, 0)
PRICES = {"free": FREE, "cheap": CHEAP, "gpu": GPU, "huge": HUGE}


@dataclass
class Device:
    """A function of masks on a stand-in device: its seconds are added up, not waited for."""

    fixed: float = 5e-3
    per_row: float = 5e-5
    n_features: int = N
    keeps: Callable[[Any], Any] = lambda masks: 1.0 - 0.0125 * masks.sum(axis=1)
    batches: list[int] = field(default_factory=list)
    seconds: float = 0.0
    call_meter: CallMeter | None = None

    def __call__(self, masks: Any) -> Any:
        self.batches.append(len(masks))
        self.seconds += self.fixed + self.per_row * len(masks)
        words = masks.astype(np.uint64) @ np.random.default_rng(0).integers(1, 2**62, masks.shape[1], dtype=np.uint64)
        kept = (words >> np.uint64(11)) * 2.0**-53 < self.keeps(masks)
        return np.where(kept | (masks.sum(axis=1) <= 6), 1, 0)


class OwnDraws:
    """Reveals one other feature in two."""

    name = "halves"

    def sample(self, selected: Any, n: int, rng: np.random.Generator) -> Any:
        return selected | (rng.random((n, len(selected))) < 0.5)


ASK: dict[str, Callable[[Any], Any]] = {
    "certify": lambda model: hf.certify(model, SELECTED, radius=9, rng=0),
    "no check": lambda model: hf.certify(model, SELECTED, radius=9, check_determinism=False, rng=0),
    "finer": lambda model: hf.certify(model, SELECTED, radius=9, tolerance=0.05, rng=1),
    "fixed number": lambda model: hf.certify(model, SELECTED, radius=9, plan="exact", rng=0),
    "hoeffding": lambda model: hf.certify(model, SELECTED, radius=9, plan="hoeffding", rng=0),
    "enumerated": lambda model: hf.certify(model, SELECTED, radius=1, rng=0),
    "exactly": lambda model: hf.certify(model, SELECTED, radius=7, rate_kind="exactly", rng=0),
    "worst size": lambda model: hf.certify(model, SELECTED, radius=5, rate_kind="worst_size", rng=0),
    "worst size, lower": lambda model: hf.certify(model, SELECTED, radius=4, rate_kind="worst_size_lower", rng=0),
    "removals": lambda model: hf.certify(model, ~SELECTED, radius=9, neighborhood="removals", rng=0),
    "law": lambda model: hf.certify(model, SELECTED, neighborhood="bernoulli(0.3)", rng=0),
    "own law": lambda model: hf.certify(model, SELECTED, neighborhood=OwnDraws(), rng=0),
    "small batches": lambda model: hf.certify_radii(model, SELECTED, radii=range(1, 9), batch_size=40, rng=0),
    "radii": lambda model: hf.certify_radii(model, SELECTED, radii=range(0, 19, 2), rng=0),
    "at once": lambda model: hf.certify_radii(model, SELECTED, radii=range(1, 19, 3), simultaneous=True, rng=0),
    "all listed": lambda model: hf.certify_radii(model, SELECTED, radii=[1], rng=0),
    "all probabilities listed": lambda model: hf.certify_probabilities(
        model, SELECTED, probabilities=[0.1, 0.5], radius=1, rng=0
    ),
    "all pairs listed": lambda model: hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, [1], rng=0),
    "swaps": lambda model: hf.certify_radii(model, SELECTED, radii=range(1, 7), neighborhood="swaps", rng=0),
    "worst sizes": lambda model: hf.certify_radii(model, SELECTED, radii=[2, 6], rate_kind="worst_size", rng=0),
    "probabilities": lambda model: hf.certify_probabilities(model, SELECTED, probabilities=[0.1, 0.3, 0.5], rng=0),
    "compare": lambda model: hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, [3, 9], plan="sequential", rng=0),
    "in pairs": lambda model: hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, [3, 9], plan="exact", rng=0),
    "radius": lambda model: hf.certified_radius(model, SELECTED, min_rate=0.6, rng=0),
    "some radii": lambda model: hf.certified_radius(model, SELECTED, min_rate=0.7, radii=[1, 4, 9, 17, 18, 30], rng=0),
    "few draws": lambda model: hf.certified_radius(model, SELECTED, min_rate=0.7, max_draws=40, rng=0),
    "stabilize": lambda model: hf.stabilize(model, np.arange(N)[::-1], min_rate=0.6, radius=4, rng=0),
    "stabilize, few sizes": lambda model: hf.stabilize(
        model, -np.arange(N), min_rate=0.5, radius=2, sizes=[1, 9, 20, 23], check_determinism=False, rng=3
    ),
    "stabilize by a law": lambda model: hf.stabilize(
        model, np.arange(N)[::-1], min_rate=0.4, neighborhood="bernoulli(0.4)", consistent=False, rng=1
    ),
    "hard": lambda model: hf.certify_hard(model, SELECTED, radius=5, rng=0),
    "witness": lambda model: hf.find_witness(model, SELECTED, max_calls=300, rng=0),
    "mean": lambda model: hf.mean_curve([lambda: (model, SELECTED)] * 3, radii=[2, 8], half_width=0.2, rng=0),
}


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("verb", ASK)
def test_results_are_the_same_bit_by_bit_at_every_price(verb: str, price: str) -> None:
    plain, device = Device(), Device()
    asked, priced = Evaluator(plain), Evaluator(device, price=PRICES[price])
    assert ASK[verb](priced).to_json() == ASK[verb](asked).to_json()
    assert (priced.n_calls, priced.n_repeated) == (asked.n_calls, asked.n_repeated)
    assert priced.n_calls <= priced.n_computed == sum(device.batches)
    assert asked.n_calls == asked.n_computed == sum(plain.batches)
    assert max(device.batches) <= (40 if verb == "small batches" else priced.batch_size)


@pytest.mark.parametrize("verb", ASK)
def test_nothing_is_computed_ahead_where_a_call_costs_no_more_than_a_row(verb: str) -> None:
    device = Device()
    evaluator = Evaluator(device, price=FREE)
    ASK[verb](evaluator)
    assert evaluator.n_computed == evaluator.n_calls


def test_a_first_call_that_may_be_the_only_one_takes_along_what_is_cheapest_on_average() -> None:
    """All rows of a certificate are draws of its plan, the explanation, the full input and what is repeated."""
    for rows_per_call in (0, 5, 20, 47, 48, 400):
        for checks in (False, True):
            device = Device(keeps=lambda masks: np.ones(len(masks)))
            evaluator = Evaluator(device, price=CallPrice(rows_per_call * 1e-4, 1e-4))
            certificate = hf.certify(evaluator, SELECTED, radius=9, check_determinism=checks, rng=0)
            # Every draw agreed: the first look was the last. Repeated rows are a second call, whatever the first was.
            best = 23 if checks else cheapest_look(certificate.design, 0, 0, rows_per_call)
            assert evaluator.n_computed - evaluator.n_calls == best - 23
            assert sum(device.batches) <= certificate.design.max_draws + 2 + certificate.n_repeated


@pytest.mark.parametrize("n_agreed", [0.3, 0.6, 0.9])
def test_rows_repeated_ahead_make_no_call_of_their_own(n_agreed: float) -> None:
    """Where a call takes as long as hundreds of rows, one goes to the first look and one to the last."""
    device = Device(keeps=lambda masks: np.full(len(masks), n_agreed))
    evaluator = Evaluator(device, price=CallPrice(1, 1e-3))
    certificate = hf.certify(evaluator, SELECTED, radius=9, rng=0)
    assert certificate.n_evaluated > 23
    assert certificate.n_repeated == 1 + min(4, (certificate.n_evaluated + 2) // 16)
    assert len(device.batches) == 2


def test_selections_that_are_tested_one_after_the_other_share_calls() -> None:
    """Of a model that every mask agrees with: 16 sizes of 13 draws at least, four of which take as long as a call."""
    plain, device = (Device(keeps=lambda masks: np.ones(len(masks)), n_features=64) for _ in range(2))
    for model in (plain, Evaluator(device, price=CallPrice(6e-3, 1e-4))):
        stable = hf.stabilize(model, -np.arange(64), min_rate=0.8, radius=10, rng=0)
        assert len(stable.trail) == 16
        assert stable.certificate.prediction == 1
    assert len(plain.batches) >= 2 * 16, "a prediction and a look each"
    assert len(device.batches) <= 16 / 4 + 2
    assert sum(device.batches) <= sum(plain.batches) + 60


@pytest.mark.parametrize("ask", [hf.certified_radius, hf.stabilize])
def test_looks_for_which_there_is_no_room_are_not_drawn(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of thousands of draws that ends after a few: what is drawn for it is about what fits into a call."""
    drawn: list[int] = []
    usual = shared_draws.SizeChain.sizes

    def sizes(chain: Any, radius: int, start: int, stop: int) -> Any:
        drawn.append(stop)
        return usual(chain, radius, start, stop)

    monkeypatch.setattr(shared_draws.SizeChain, "sizes", sizes)
    evaluator = Evaluator(Device(n_features=300, keeps=lambda masks: np.ones(len(masks))), price=GPU, batch_size=64)
    selected = np.arange(300) < 30 if ask is hf.certified_radius else -np.arange(300)
    keywords = {"radii": range(1, 9)} if ask is hf.certified_radius else {"radius": 8, "sizes": range(200, 300, 20)}
    ask(evaluator, selected, min_rate=0.99, rng=0, **keywords)
    assert max(drawn) <= 8 * 300, "one yes takes hundreds of draws, and the test has 4,096"


def test_a_number_of_classes_that_changes_between_rows_ahead_is_told_as_ever() -> None:
    answers = iter([2, 3, 3])

    def model(masks: Any) -> Any:
        return np.ones((len(masks), next(answers)))

    evaluator = Evaluator(hf.mask_function(model, n_features=40), price=HUGE, batch_size=17)
    with pytest.raises(ModelError, match="same number of classes every time"):
        hf.certify(evaluator, np.arange(40) < 10, radius=9, rng=0)


@pytest.mark.parametrize("options", [{"price": GPU}, {"timeout": 1.0}])
def test_what_belongs_to_the_calls_is_refused_where_none_are_made(options: dict[str, Any]) -> None:
    inner = Evaluator(Device())
    with pytest.raises(InvalidValueError, match="must be given to the evaluator inside, which calls the model"):
        Evaluator(inner, **options)


def every_look(looks: Sequence[int], stops: Any, n_evaluated: int, n_agreed: int) -> list[int]:
    """In place of ``looks_left``: all looks that come."""
    return [look for look in looks if look > n_evaluated]


@pytest.fixture
def call_at_every_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def patch() -> None:
        for module in (reference, shared_draws):
            monkeypatch.setattr(module, "looks_left", every_look)

    return patch


def test_looks_that_cannot_end_the_draws_are_passed_over(call_at_every_look: Callable[[], None]) -> None:
    def ask_all() -> dict[str, tuple[str, int]]:
        """What each verb says, the number of its rounds aside, and how often it called the model."""
        results = {}
        for name, ask in ASK.items():
            device = Device()
            said = re.sub('"n_rounds": [0-9]+', "", ask(device).to_json())
            results[name] = said, len(device.batches)
        return results

    before = ask_all()
    call_at_every_look()
    after = ask_all()
    assert {name: said for name, (said, _) in before.items()} == {name: said for name, (said, _) in after.items()}
    assert all(before[name][1] <= after[name][1] for name in ASK)
    assert before["radii"][1] <= 0.5 * after["radii"][1]


def test_a_slow_call_is_made_far_less_often(call_at_every_look: Callable[[], None]) -> None:
    seconds = {}
    for price in (GPU, None):
        device = Device()
        for verb in ("certify", "radius", "radii"):
            before = device.seconds
            ASK[verb](Evaluator(device, price=price))
            seconds[verb, price] = device.seconds - before
        call_at_every_look()
    assert seconds["certify", None] > 2 * seconds["certify", GPU]
    assert seconds["radius", None] > 3 * seconds["radius", GPU]
    assert seconds["radii", None] > 1.3 * seconds["radii", GPU]


def test_a_model_that_tells_its_price_is_timed_by_its_own_clock() -> None:
    plain, device = Device(), Device()
    device.call_meter = CallMeter(clock=lambda: device.seconds)
    for _ in range(4):  # of these calls the price is learnt
        for masks in (SELECTED[None], np.random.default_rng(0).random((80, N)) < 0.5):
            Evaluator(device)(masks)
    assert device.call_meter.price is not None
    assert device.call_meter.price.rows_per_call in (119, 120)  # 5 ms, and 1 ms between two calls
    plain.batches, device.batches = [], []
    assert ASK["radii"](device).to_json() == ASK["radii"](plain).to_json()
    assert len(device.batches) < len(plain.batches)
    for wrap in (lambda model: model, Evaluator):  # a size that is given is kept, and nothing is timed
        plain.batches, device.batches = [], []
        assert ASK["small batches"](wrap(device)).to_json() == ASK["small batches"](wrap(plain)).to_json()
        assert device.batches == plain.batches


def test_a_price_needs_two_calls_of_few_rows_and_of_many() -> None:
    meter = CallMeter()
    assert meter.price is None
    for n_rows in (8, 9, 16):
        meter.record(n_rows, 1.0 + n_rows)
        assert meter.price is None
    meter.record(17, 18.0)
    assert meter.price is None  # not far enough apart
    meter.record(40, 99.0)
    assert meter.price is None
    meter.record(48, 49.0)
    assert meter.price == CallPrice(1.0 + BETWEEN_CALLS, 1.0)
    quick = CallMeter()
    for n_rows in (1, 1, 100, 100):
        quick.record(n_rows, 1e-4)
    assert quick.price is None  # a call that takes next to nothing is not worth saving


@pytest.mark.parametrize("answers", ["random", "fixed"])
def test_answers_in_words_are_never_asked_for_ahead(answers: str) -> None:
    asked, priced = RandomAnswers(lambda mask: 0.8, n_features=N), RandomAnswers(lambda mask: 0.8, n_features=N)
    keywords: dict[str, Any] = {"radius": 9, "answers": answers, "check_determinism": False, "rng": 0}
    certificate = hf.certify(Evaluator(priced, price=HUGE), SELECTED, **keywords)
    assert certificate.to_json() == hf.certify(asked, SELECTED, **keywords).to_json()
    assert priced.asked == asked.asked


def scored(device: Device) -> Evaluator:
    """The same device, with a score for each label."""
    return Evaluator(hf.mask_function(lambda masks: np.eye(2)[device(masks)], n_features=N), price=HUGE)


def test_random_answers_smoothed_models_and_time_limits_get_nothing_ahead() -> None:
    for ask in (
        lambda device: hf.certify_radii(Evaluator(device, price=HUGE), SELECTED, radii=[3, 9], answers="random", rng=0),
        lambda device: hf.certify(hf.smooth(scored(device), 0.7, 8, rng=0), SELECTED, radius=9, rng=0),
        lambda device: hf.certify(Evaluator(device, price=HUGE, timeout=600), SELECTED, radius=9, rng=0),
    ):
        device = Device()
        assert ask(device).n_calls == sum(device.batches)


def test_what_fails_only_ahead_fails_no_certificate() -> None:
    for error in (ValueError("no such mask"), MemoryError()):
        device = Device()

        def model(masks: Any, device: Device = device, error: Exception = error) -> Any:
            if len(masks) > 30:
                raise error
            return device(masks)

        evaluator = Evaluator(hf.mask_function(model, n_features=N), price=GPU)
        assert ASK["certify"](evaluator).to_json() == ASK["certify"](Device()).to_json()
        assert evaluator.n_computed == evaluator.n_calls
        assert evaluator.ahead(np.random.default_rng(0).random((5, N)) < 0.5) is None  # and is not tried again


def test_memory_that_runs_out_still_halves_batches() -> None:
    device = Device()

    def model(masks: Any) -> Any:
        if len(masks) > 10:
            raise MemoryError
        return device(masks)

    evaluator = Evaluator(hf.mask_function(model, n_features=N), price=GPU)
    assert ASK["radii"](evaluator).to_json() == ASK["radii"](Device()).to_json()
    assert max(device.batches) <= 10


def test_many_masks_at_a_time_are_drawn_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_PORTION_BYTES", 10 * N)
    evaluator = Evaluator(Device(), price=HUGE)
    assert ASK["certify"](evaluator).to_json() == ASK["certify"](Device()).to_json()
    assert 0 < evaluator.n_computed - evaluator.n_calls <= 10


@pytest.mark.parametrize("price", [None, GPU, HUGE])
@pytest.mark.parametrize("most", [1 << 26, 9 * N])
def test_a_plan_counts_the_first_draws_of_one_stream(
    price: CallPrice | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_PORTION_BYTES", most)
    nearby, plan, taken = (
        hf.neighborhood.Additions(SELECTED, 9),
        make_plan("sequential", tolerance=0.1, confidence=0.9),
        list[Any](),
    )
    procedure = Procedure.check(hf.certify, "single", {"rng": 0}, radii=[9])
    with procedure.about(Evaluator(Device(), price=price), SELECTED) as (evaluator, mask, bound):
        prediction = reference.Reference(evaluator, mask, bound)
        judge = prediction.judge
        monkeypatch.setattr(prediction, "judge", lambda masks: taken.append(masks) or judge(masks))
        tally = prediction.sampled(nearby, plan, np.random.default_rng(7)).tally
    assert all(len(masks) <= most // N for masks in taken)
    counted = np.concatenate(taken)
    assert np.array_equal(counted, nearby.sample(tally.n_evaluated, np.random.default_rng(7)))
    looks = [n for n in plan.design.looks if n <= tally.n_evaluated]
    agreed = judge(counted)
    assert [plan.design.stops(n, int(agreed[:n].sum())) for n in looks] == [False] * (len(looks) - 1) + [True]


def test_what_no_look_took_is_forgotten_with_the_question() -> None:
    evaluator = Evaluator(Device(), price=HUGE)
    certificate = ASK["certify"](evaluator)
    n_unused = evaluator.n_computed - evaluator.n_calls
    assert n_unused > 0
    assert len(evaluator.masks) == evaluator.n_calls - certificate.n_repeated
    ASK["certify"](evaluator)  # all is remembered but that
    assert evaluator.n_computed - evaluator.n_calls == n_unused


def test_a_known_structure_is_read_before_anything_is_drawn() -> None:
    table = np.random.default_rng(0).integers(2, size=2**8)
    selected = np.arange(8) < 2
    for price in (None, HUGE):
        evaluator = Evaluator(hf.lookup_table(table, n_features=8), price=price)
        certificate = hf.certify(evaluator, selected, radius=6, rng=0)
        assert evaluator.n_computed == evaluator.n_calls == certificate.n_calls


@pytest.mark.parametrize("wrong", [{"fixed": -1, "per_row": 1}, {"fixed": 1, "per_row": float("nan")}])
def test_prices_are_numbers_from_zero(wrong: dict[str, float]) -> None:
    with pytest.raises(HoldfastError, match="must be"):
        CallPrice(**wrong)
    with pytest.raises(HoldfastError, match="`price` must be a CallPrice"):
        Evaluator(Device(), price=3)  # type: ignore[arg-type]


@dataclass
class Undecided:
    """Answers each call with other numbers, and counts its rows."""

    n_features: int = N
    n_rows: int = 0

    def __call__(self, masks: Any) -> Any:
        self.n_rows += len(masks)
        return np.random.default_rng(self.n_rows).random((len(masks), 3))


@pytest.mark.parametrize("ask", ["__call__", "settle", "compute_ahead"])
def test_rows_are_counted_also_where_repeated_ones_differ(ask: str) -> None:
    masks = np.random.default_rng(0).random((60, N)) < 0.5
    device = Undecided()
    evaluator = Evaluator(device, price=GPU)
    evaluator(masks[:20])
    evaluator.check_determinism(masks[0])
    with pytest.raises(ModelError, match="must be deterministic"):
        evaluator.settle() if ask == "settle" else getattr(evaluator, ask)(masks)
    assert evaluator.n_calls <= evaluator.n_computed == device.n_rows


def test_what_was_repeated_ahead_is_compared_also_if_its_turn_never_comes() -> None:
    masks = np.random.default_rng(0).random((80, N)) < 0.5
    device, n_before = Undecided(), 20

    def says(rows: Any) -> Any:
        """Only the second call repeats rows, and one of them differs: not the first, which is the reference."""
        outputs = np.zeros((len(rows), 2))
        device.n_rows += len(rows)
        if device.n_rows > n_before:
            outputs[-1] = (0, 5)
        return outputs

    evaluator = Evaluator(hf.mask_function(says, n_features=N), price=GPU)
    evaluator(masks[:n_before])
    evaluator.check_determinism(masks[0])
    evaluator.compute_ahead(masks[n_before:])
    assert evaluator.n_repeated == 2  # the reference, and one in 16 of those known
    assert len(evaluator.repeats.ready) == 3
    with pytest.raises(ModelError, match="must be deterministic"):
        evaluator.settle()


class SometimesAll:
    """Reveals one other feature in two, and now and then all of them."""

    name = "sometimes all"

    def sample(self, selected: Any, n: int, rng: np.random.Generator) -> Any:
        numbers = rng.random((n, len(selected) + 1))
        return selected | (numbers[:, 1:] < 0.5) | (numbers[:, :1] < 0.02)


def test_a_full_input_that_was_drawn_ahead_and_not_judged_is_no_counterexample() -> None:
    model, seen = hf.mask_function(lambda masks: ~masks.all(axis=1), n_features=N), set()
    for seed in range(40):
        plain, ahead = (
            hf.certify(
                Evaluator(model, price=price), SELECTED, neighborhood=SometimesAll(), check_determinism=False, rng=seed
            )
            for price in (None, HUGE)
        )
        assert plain.to_json() == ahead.to_json()
        seen.add(plain.counterexample is not None)
    assert seen == {True, False}

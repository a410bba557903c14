"""Answers that differ from draw to draw: each draw asks anew, nothing is enumerated, coverage is summed exactly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.errors import HoldfastError
from holdfast.types import Answering
from tests.helpers.oracles import neighbors

SELECTED = np.array([True, False, False, False])


@dataclass
class RandomAnswers:
    """Says "yes" with a probability that depends on the mask, by the number of the draw; remembers all it was asked."""

    chance: Callable[[Any], float]
    n_features: int = 4
    reference: str | None = "yes"
    agreement: str = "same_answer"
    scores: Any = None
    question: str = "Is it so?"
    tokens: tuple[None, None] = (None, None)
    asked: list[tuple[tuple[bool, ...], int]] = field(default_factory=list)

    def __call__(self, masks: Any) -> Any:
        return self.sample(masks, np.zeros(len(masks), dtype=np.int64))

    def sample(self, masks: Any, numbers: Any) -> Any:
        answers = np.empty(len(masks), dtype=object)
        for row, (mask, number) in enumerate(zip(masks, numbers, strict=True)):
            self.asked.append((tuple(mask.tolist()), int(number)))
            rng = np.random.default_rng([int(number), *mask.astype(int)])
            answers[row] = "yes" if rng.random() < self.chance(mask) else "no"
        return answers


@dataclass
class Scripted(RandomAnswers):
    """Gives answers from a list, in order, after those to the explanation and the full input."""

    script: Iterator[bool] = field(default_factory=lambda: iter(()))

    def sample(self, masks: Any, numbers: Any) -> Any:
        self.asked += [(tuple(mask.tolist()), int(number)) for mask, number in zip(masks, numbers, strict=True)]
        said = [len(self.asked) - len(masks) + row < 2 or next(self.script) for row in range(len(masks))]
        return np.array(["yes" if yes else "no" for yes in said], dtype=object)


def test_the_fake_is_a_model_that_answers() -> None:
    assert isinstance(RandomAnswers(lambda mask: 1.0), Answering)


ASK: dict[str, Callable[[Any], Any]] = {
    "certify": lambda model: hf.certify(model, SELECTED, radius=3, answers="random", rng=0),
    "worst size": lambda model: hf.certify(
        model, SELECTED, radius=2, answers="random", rate_kind="worst_size_lower", rng=0
    ),
    "radii": lambda model: hf.certify_radii(model, SELECTED, radii=[0, 1, 3], answers="random", rng=0),
    "radius": lambda model: hf.certified_radius(model, SELECTED, min_rate=0.8, answers="random", rng=0),
    "hard": lambda model: hf.certify_hard(model, SELECTED, radius=1, answers="random", rng=0),
    "compare": lambda model: hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, [1, 2], answers="random", rng=0),
    "compare in sequence": lambda model: hf.compare(
        model, {"a": SELECTED, "b": ~SELECTED}, [1], answers="random", plan="sequential", rng=0
    ),
}


@pytest.mark.parametrize("verb", ASK)
def test_every_row_is_a_draw_of_its_own_and_none_was_asked_before(verb: str) -> None:
    model = RandomAnswers(lambda mask: 0.9)
    result = ASK[verb](model)
    numbers = [number for _, number in model.asked]
    assert len(set(numbers)) == len(numbers) == result.n_calls
    assert min(numbers) >= 2  # 0 is what anybody asks, 1 what shows whether a model is random


@pytest.mark.parametrize("verb", ASK)
def test_nothing_is_enumerated_and_the_result_is_written_and_read(verb: str) -> None:
    result = ASK[verb](RandomAnswers(lambda mask: 0.9))
    certificates = getattr(result, "certificates", [result])
    if isinstance(result, hf.Comparison):
        certificates = [certificate for curve in result.curves for certificate in curve]
    for certificate in certificates:
        assert certificate.answers == "random"
        assert not any(step.exact for step in getattr(certificate, "trail", ()))
        assert getattr(certificate, "design", 1) is not None
        assert getattr(certificate, "method", "sampling") == "sampling"
    assert type(result).from_json(result.to_json()) == result
    assert "answer" in str(certificates[0])


@pytest.mark.parametrize("batch_size", [1, 7, None])
def test_draws_do_not_depend_on_batches_or_on_what_is_remembered(batch_size: int | None) -> None:
    whole = hf.certify(RandomAnswers(lambda mask: 0.8), SELECTED, radius=2, answers="random", rng=3)
    remembering = hf.Evaluator(RandomAnswers(lambda mask: 0.8))
    remembering(np.ones((1, 4), dtype=bool))
    for model in (RandomAnswers(lambda mask: 0.8), remembering):
        assert hf.certify(model, SELECTED, radius=2, answers="random", rng=3, batch_size=batch_size) == whole
    assert hf.certify(RandomAnswers(lambda mask: 0.8), SELECTED, radius=2, answers="random", rng=4) != whole


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.35, 0.5, 0.62, 0.75, 0.9, 1.0])
def test_coverage_summed_over_every_sequence_of_answers(rate: float) -> None:
    """The whole procedure, stopping included, for all 2⁷ sequences of answers that can come."""
    tolerance, confidence = 0.3, 0.8
    n_most = hf.plan_samples(tolerance=tolerance, confidence=confidence).max_draws
    missed = total = Fraction(0)
    p = Fraction(str(rate))
    for script in product([True, False], repeat=n_most):
        model = Scripted(lambda mask: 0.0, script=iter(script))
        cert = hf.certify(
            model, SELECTED, radius=3, tolerance=tolerance, confidence=confidence, answers="random", rng=1
        )
        assert cert.n_agreed == sum(script[: cert.n_evaluated])
        share = p ** sum(script) * (1 - p) ** (n_most - sum(script))
        total += share
        missed += share * (not cert.interval.low <= rate <= cert.interval.high)
    assert total == 1
    assert missed <= 1 - Fraction(str(confidence))


def test_the_rate_is_the_mean_chance_over_masks() -> None:
    """Of 400 certificates at ±.1 and 90 %, few miss the mean chance; without drawing anew, half would."""

    def chance(mask: Any) -> float:
        return 0.3 if mask[1] else 0.8

    truth = float(np.mean([chance(mask) for mask in neighbors(SELECTED, 3)]))
    rates = [
        hf.certify(RandomAnswers(chance), SELECTED, radius=3, answers="random", rng=seed).rate for seed in range(400)
    ]
    assert np.mean(np.abs(np.array(rates) - truth) > 0.1 + 1e-9) <= 0.1
    assert abs(np.mean(rates) - truth) < 0.02  # five standard errors of 400 means of about 70 draws


def test_a_random_model_is_refused_and_told_what_to_do_if_answers_are_said_to_be_fixed() -> None:
    with pytest.raises(HoldfastError, match=r'even at temperature 0.*pass `answers="random"`'):
        hf.certify(RandomAnswers(lambda mask: 0.5), SELECTED, radius=3, rng=0)


def test_without_a_reference_one_answer_becomes_it_before_any_draw() -> None:
    model = RandomAnswers(lambda mask: 0.5, reference=None)
    cert = hf.certify(model, SELECTED, radius=3, answers="random", rng=0)
    assert cert.reference is None
    assert cert.prediction in ("yes", "no")
    assert abs(cert.rate - 0.5) < 0.2
    assert hf.recheck(model, cert).confirmed


@pytest.mark.parametrize("verb", ["certify", "radii", "radius", "hard"])
def test_a_recheck_compares_two_samples_and_does_not_repeat_the_draws(verb: str) -> None:
    model = RandomAnswers(lambda mask: 0.97)
    result = ASK[verb](model)
    before = {number for _, number in model.asked}
    model.asked.clear()
    check = hf.recheck(model, result)
    assert check.confirmed, check.differences
    assert check.is_random
    assert not before & {number for _, number in model.asked}
    assert "two samples were compared" in check.explain()
    assert "a new sample agrees" in str(check)
    assert hf.certification.Recheck.from_json(check.to_json()) == check


@pytest.mark.parametrize(("verb", "words"), [("certify", "agreed in the file"), ("radii", "agreed in the file")])
def test_a_recheck_sees_a_result_of_another_model(verb: str, words: str) -> None:
    result = ASK[verb](RandomAnswers(lambda mask: 0.99))
    for chance in (0.6, 0.2):
        check = hf.recheck(RandomAnswers(lambda mask, p=chance: p), result)
        assert not check.confirmed
        assert words in check.differences[0]


def test_a_recheck_of_a_decision_asks_every_radius_that_is_certified() -> None:
    result = ASK["radius"](RandomAnswers(lambda mask: 0.99))
    assert result.radius == 3
    for chance, words in ((0.2, "radius 1 is stated as certified, but is refuted"), (0.8, "when tested again")):
        check = hf.recheck(RandomAnswers(lambda mask, p=chance: p), result)
        assert not check.confirmed
        assert words in check.differences[0]
    falling = hf.recheck(RandomAnswers(lambda mask: 0.99 if mask.sum() <= 2 else 0.0), result)
    assert any("was not reached" in words for words in falling.differences)


def test_a_true_result_fails_a_recheck_no_more_often_than_two_samples_may_miss() -> None:
    """At most .2 by the union of both risks; seen are far fewer, as both must miss the rate, on different sides."""
    model = RandomAnswers(lambda mask: 0.7)
    certificates = [hf.certify(model, SELECTED, radius=3, answers="random", rng=seed) for seed in range(200)]
    assert sum(not hf.recheck(model, certificate).confirmed for certificate in certificates) <= 10


@pytest.mark.parametrize("verb", ["worst size", "compare"])
def test_which_is_the_worst_or_the_best_cannot_be_sampled_twice(verb: str) -> None:
    model = RandomAnswers(lambda mask: 0.9)
    with pytest.raises(HoldfastError, match="`result` must state a single rate"):
        hf.recheck(model, ASK[verb](model))


def test_no_list_of_masks_proves_anything_of_random_answers() -> None:
    model = RandomAnswers(lambda mask: 0.97)
    certificate, radius, hard = (ASK[verb](model) for verb in ("certify", "radius", "hard"))
    plain = json.loads(certificate.to_json())
    rate = {"rate": 1.0, "rate_unbiased": 1.0, "interval": {"low": 1.0, "high": 1.0}, "counterexample": None}
    forged = plain | rate | {"exact": True, "design": None, "n_agreed": 8, "n_evaluated": 8}
    step = {"exact": True, "answer": True, "n_agreed": 4, "n_evaluated": 4}
    trail = json.loads(radius.to_json())
    trail["trail"] = [{**trail["trail"][0], **step}]
    for kind, edited in (
        (hf.Certificate, forged),
        (hf.Certificate, plain | {"rate_unbiased": 0.5}),
        (hf.RadiusCertificate, trail | {"radius": 1}),
        (hf.HardCertificate, json.loads(hard.to_json()) | {"method": "enumeration"}),
    ):
        with pytest.raises(HoldfastError):
            kind.from_json(json.dumps(edited))


def test_nothing_that_is_stated_may_be_left_out() -> None:
    model = RandomAnswers(lambda mask: 0.97)
    judge = hf.judging.judge(
        lambda answer, reference: answer == reference, name="same", errors=hf.judging.judge_errors(50, 5, 0)
    )
    certificate = hf.certify(model, SELECTED, radius=3, answers="random", agree=judge, rng=0)
    assert hf.recheck(model, certificate, agree=judge).confirmed
    edited = hf.Certificate.from_json(json.dumps(json.loads(certificate.to_json()) | {"judge_errors": None}))
    assert not hf.recheck(model, edited, agree=judge).confirmed


def test_a_canonical_key_says_nothing_of_random_answers() -> None:
    model = RandomAnswers(lambda mask: 0.97)
    certificate = hf.certify(model, SELECTED, radius=3, answers="random", rng="canonical")
    assert "random answers could have been asked for several times" in hf.recheck(model, certificate).explain()


def test_a_random_answer_is_no_witness() -> None:
    class Fickle(RandomAnswers):
        def sample(self, masks: Any, numbers: Any) -> Any:
            return np.array(["yes" if number == 0 else "no" for number in numbers], dtype=object)

    with pytest.raises(HoldfastError, match="must be deterministic"):
        hf.find_witness(Fickle(lambda mask: 1.0), SELECTED, rng=0)


def test_a_mean_curve_asks_explanations_that_need_not_have_the_reference() -> None:
    """The explanation alone says no, as does every mask without feature 1."""
    model = RandomAnswers(lambda mask: float(mask[1]))
    curve = hf.mean_curve([lambda: (model, SELECTED)] * 30, radii=[0, 1, 3], half_width=0.05, confidence=0.95, rng=0)
    for radius, mean in zip((0, 1, 3), curve, strict=True):
        truth = float(np.mean([mask[1] for mask in neighbors(SELECTED, radius)]))
        assert mean.interval.low <= truth <= mean.interval.high
        assert mean.interval.high - mean.interval.low <= 0.11
    assert (curve.agree, curve.n_consistent) == ("same_answer", 0)


@pytest.mark.parametrize("options", [{"rate_kind": "worst_size"}, {"rate_kind": "worst_size_lower"}])
def test_what_people_labelled_is_about_one_rate(options: Any) -> None:
    judge = hf.judging.judge(
        lambda answer, reference: answer == reference, name="same", errors=hf.judging.judge_errors(50, 5, 0)
    )
    model = RandomAnswers(lambda mask: 0.97)
    with pytest.raises(HoldfastError, match="`agree` must have no `errors` here"):
        hf.certify(model, SELECTED, radius=2, answers="random", agree=judge, **options)
    with pytest.raises(HoldfastError, match="`agree` must have no `errors` here"):
        hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, [1], answers="random", agree=judge)


def test_worst_sizes_share_the_risk_though_they_could_be_enumerated() -> None:
    model = RandomAnswers(lambda mask: 1.0)
    cert = hf.certify(model, SELECTED, radius=3, answers="random", rate_kind="worst_size", rng=0)
    single = hf.certify(model, SELECTED, radius=3, answers="random", rng=0)
    assert cert.design is not None
    assert single.design is not None
    assert cert.design.max_draws > single.design.max_draws


def test_votes_and_wrong_words_are_refused() -> None:
    table = hf.lookup_table([[0.0, 1.0], [1.0, 0.0]], n_features=1)
    smoothed = hf.smooth(table, keep_probability=0.5, n_samples=4, rng=0)
    with pytest.raises(HoldfastError, match="`answers` must be left out for a smoothed model"):
        hf.certify(smoothed, [True], radius=1, answers="random")
    with pytest.raises(HoldfastError, match="`answers` must be one of fixed, random"):
        hf.certify(table, [True], radius=1, answers="maybe")

"""Judges: which answers in words say the same, and what a judge's errors do to the guarantee, summed exactly."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.agreement import UserAgreement, as_agreement
from holdfast.bounds import Interval
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.judging import Judge, JudgeErrors, judge_errors
from holdfast.plans import make_plan
from tests.helpers.oracles import count_paths, end_probabilities

SPELLINGS = (
    "84 m",
    "84 M",
    "  84\tm ",
    '"84 m"',
    "“84 m”.",
    "84 m!?",
    "(84 m)",
    "８４ ｍ",
    "84\u00a0m",
    "'84 m.'",
    "84 m …",
)
OTHERS = ("84m", "-84 m", ".84 m", "84 m²", "84 mm", "184 m", "84 m or less", "")
texts = st.one_of(
    st.text(max_size=8),
    st.text(alphabet="aAßſ½²5 .,'\"“”()-", max_size=6),
    st.sampled_from(SPELLINGS + OTHERS),
)


def agrees(agree: Any, answer: str, reference: str) -> bool:
    judged = as_agreement(agree)(np.array([answer], dtype=object), reference)
    assert judged.dtype == np.bool_
    assert judged.shape == (1,)
    return bool(judged[0])


def never(answer: str, reference: str) -> bool:
    return False


def letters(answers: list[str]) -> Any:
    """A hashing vectoriser: how often each letter comes."""
    return np.array([[answer.count(letter) for letter in "abcdefgh"] for answer in answers], dtype=np.float32)


def contains(pairs: list[tuple[str, str]]) -> list[float]:
    return [float(hypothesis in premise) for premise, hypothesis in pairs]


EVERY = {
    "same_answer": hf.judging.same_answer,
    "same_number": hf.judging.same_number(),
    "same_number within": hf.judging.same_number(0.5),
    "accepted_answers": hf.judging.accepted_answers(["a", "½"]),
    "judge": hf.judging.judge(never),
    "same_meaning": hf.judging.same_meaning(letters, 0.9),
    "entails": hf.judging.entails(contains),
    "llm_judge": hf.judging.llm_judge(lambda prompt: "no"),
}

# -- the same answer --------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelling_does_not_count(spelling: str) -> None:
    assert agrees("same_answer", spelling, "84 m")
    assert agrees("same_answer", "84 m", spelling)


@pytest.mark.parametrize("other", OTHERS)
def test_words_signs_and_points_count(other: str) -> None:
    assert not agrees("same_answer", other, "84 m")


@pytest.mark.parametrize(
    ("answer", "other"),
    [("10²", "102"), ("2½", "21⁄2"), ("-5", "5"), (".5", "5"), ("50%", "50"), ("C#", "C"), ("6'", '6"'), ("?", "!")],
)
def test_what_only_looks_like_spelling_counts(answer: str, other: str) -> None:
    assert not agrees("same_answer", answer, other)


@given(first=texts, second=texts, third=texts)
@pytest.mark.parametrize("name", ["same_answer", "same_number()", "accepted_answers(['84 m', 'A', '½', '.'])"])
def test_rules_without_a_tolerance_are_equivalence_relations(name: str, first: str, second: str, third: str) -> None:
    assert agrees(name, first, first)
    assert agrees(name, first, second) == agrees(name, second, first)
    if agrees(name, first, second) and agrees(name, second, third):
        assert agrees(name, first, third)


@given(answer=texts, other=texts)
@pytest.mark.parametrize("kind", EVERY)
def test_every_agreement_agrees_with_itself_and_with_the_same_answer(kind: str, answer: str, other: str) -> None:
    assert agrees(EVERY[kind], answer, answer)
    if agrees("same_answer", answer, other):
        assert agrees(EVERY[kind], answer, other)


@pytest.mark.parametrize("kind", EVERY)
def test_batches_are_judged_row_by_row(kind: str) -> None:
    answers = np.array([*SPELLINGS, *OTHERS, "a", "½"], dtype=object)
    assert as_agreement(EVERY[kind])(answers, "a").tolist() == [agrees(EVERY[kind], text, "a") for text in answers]
    assert as_agreement(EVERY[kind])(answers[:0], "a").shape == (0,)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("outputs", [np.zeros((2, 3)), np.array([1, 2]), np.array(["a", None], dtype=object)])
def test_only_answers_in_words_are_judged(kind: str, outputs: Any) -> None:
    with pytest.raises(ModelError, match="needs answers in words, but the model returns scores or other labels"):
        EVERY[kind](outputs, outputs[0])


# -- the same number --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("84m", "84"),
        ("It is 1,200 km, or 745 miles.", "1200"),
        ("1,234,567.25", "1234567.25"),
        ("12,34", "12"),
        ("1,2345", "1"),
        ("-5 °C", "-5"),
        ("−5 °C", "-5"),
        ("(-.5)", "-0.5"),
        ("COVID-19", "19"),
        ("10-20", "10"),
        ("well...5", "5"),
        ("3e8 m/s", "300000000"),
        ("1.5E-3", "0.0015"),
        ("10²", "10"),
        ("2½", "2"),
        ("٨٤", "84"),
        ("0.1" + "0" * 5000, "0.1"),
    ],
)
def test_the_first_number_is_read(answer: str, number: str) -> None:
    assert agrees("same_number()", answer, number)
    assert not agrees("same_number()", answer, f"{number[:-1]}{(int(number[-1]) + 1) % 10}")


@pytest.mark.parametrize(
    ("answer", "same"), [("0.3", True), ("0.1", True), ("0.30000000000000001", False), ("0.4", False)]
)
def test_a_tolerance_is_exact_and_inclusive(answer: str, same: bool) -> None:
    """In floats 0.3 - 0.2 is below 0.1, and 0.30000000000000001 is 0.3."""
    assert agrees("same_number(0.1)", answer, "0.2") is same


def test_an_answer_without_a_number_agrees_only_with_itself() -> None:
    assert agrees("same_number(5)", "Not known.", "not known")
    for other in ("0", "84 m", "north"):
        assert not agrees("same_number(5)", "not known", other)
        assert not agrees("same_number(5)", other, "not known")


@given(first=st.fractions(-50, 50), second=st.fractions(-50, 50), tolerance=st.sampled_from(["0", "0.1", "0.5", "3"]))
def test_numbers_agree_if_they_are_as_near_as_the_tolerance(first: Fraction, second: Fraction, tolerance: str) -> None:
    written = [f"{round(number * 100) / 100:.2f}" for number in (first, second)]
    distance = abs(Fraction(written[0]) - Fraction(written[1]))
    assert agrees(f"same_number({tolerance})", *written) == (distance <= Fraction(tolerance))


# -- accepted answers and names ---------------------------------------------------------------------


def test_accepted_answers_agree_with_each_other_and_others_with_themselves() -> None:
    agree = hf.judging.accepted_answers(["84 m", "84 metres"])
    assert agrees(agree, "84 METRES.", "84 m")
    assert agrees(agree, "80 m", "80 M")
    assert not agrees(agree, "80 m", "84 m")
    assert not agrees(agree, "84 m", "80 m")


NAMED = [
    hf.judging.same_answer,
    hf.judging.same_number(),
    hf.judging.same_number(0.1),
    hf.judging.same_number(1e-30),
    hf.judging.same_number(1e22),
]


@pytest.mark.parametrize("agree", NAMED, ids=lambda agree: agree.name)
def test_names_are_read_back(agree: Any) -> None:
    assert as_agreement(agree.name) == agree
    assert as_agreement(agree) is agree


@given(answers=st.lists(st.text(max_size=12), min_size=1, max_size=4))
def test_accepted_answers_of_any_characters_are_read_back_by_name(answers: list[str]) -> None:
    agree = hf.judging.accepted_answers(answers)
    assert agree.name.isprintable()
    assert as_agreement(agree.name) == agree


@pytest.mark.parametrize(
    "name",
    [
        "accepted_answers([__import__('os').getcwd()])",
        "accepted_answers([f'{1}'])",
        "accepted_answers([b'a'])",
        "accepted_answers(['a' 1])",
        "accepted_answers(['a\n'])",
        "accepted_answers(['a\\'])",
        "accepted_answers('84 m')",
        "accepted_answers([])",
        "accepted_answers('a', 'b')",
        "accepted_answers",
        "accepted_answers(answers)",
        "same_number('5')",
        "same_number(-1)",
        "same_answer()",
        "same_meaning(encode, 0.8)",
    ],
)
def test_a_name_that_is_no_call_with_numbers_and_texts_is_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^`agree` must "):
        as_agreement(name)


@pytest.mark.parametrize("answers", [[], "84 m", [84], None, [b"a"], {"a": 1}])
def test_accepted_answers_that_are_no_texts_are_refused(answers: Any) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match=r"^`answers` must be a list of at least one text"):
        hf.judging.accepted_answers(answers)


# -- judges -----------------------------------------------------------------------------------------


def test_a_judge_is_asked_once_about_each_pair_and_never_about_the_same_answer() -> None:
    asked: list[tuple[str, str]] = []

    def moody(answer: str, reference: str) -> bool:
        asked.append((answer, reference))
        return len(asked) % 2 == 1

    judge = hf.judging.judge(moody)
    answers = np.array(["84 M", "tall", "high", "tall"], dtype=object)
    assert judge(answers, "84 m").tolist() == [True, True, False, True]
    assert judge(answers[::-1], "84 m").tolist() == [True, False, True, True]
    assert asked == [("tall", "84 m"), ("high", "84 m")]
    assert judge(answers, "80 m").tolist() == [True, False, True, False]
    assert asked[2:] == [("84 M", "80 m"), ("tall", "80 m"), ("high", "80 m")]


def test_threads_that_ask_at_once_get_one_answer() -> None:
    together, verdicts = threading.Barrier(2, timeout=60), iter([True, False])

    def moody(answer: str, reference: str) -> bool:
        together.wait()
        return next(verdicts)

    judge, answers = hf.judging.judge(moody), np.array(["tall"], dtype=object)
    judged: list[bool] = []
    threads = [threading.Thread(target=lambda: judged.append(bool(judge(answers, "84 m")[0]))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert judged[0] == judged[1] == judge(answers, "84 m")[0]


def test_a_batched_judge_gets_a_list_of_pairs() -> None:
    lists: list[Any] = []

    def shorter(pairs: list[tuple[str, str]]) -> Any:
        lists.append(pairs)
        return np.array([len(answer) < len(reference) for answer, reference in pairs])

    judge = hf.judging.judge(shorter, batched=True, name="shorter")
    assert judge(np.array(["a", "ccc", "bb", "a"], dtype=object), "bb").tolist() == [True, False, True, True]
    assert lists == [[("a", "bb"), ("ccc", "bb")]]
    assert judge.name == "shorter"


@pytest.mark.parametrize("verdict", [1, 0.0, None, "yes", np.float64(1), [True]])
def test_a_verdict_that_is_no_boolean_is_refused(verdict: Any) -> None:
    judge = hf.judging.judge(lambda answer, reference: verdict, name="odd")
    with pytest.raises(
        InvalidTypeError, match=r"^`odd` must return True or False for each of 1 pairs of answers, got "
    ):
        judge(np.array(["a"], dtype=object), "b")
    judge = hf.judging.judge(lambda pairs: [True, True], name="odd", batched=True)
    with pytest.raises(
        InvalidValueError, match=r"^`odd` must return True or False for each of 1 pairs of answers, got 2"
    ):
        judge(np.array(["a"], dtype=object), "b")


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: hf.judging.judge(3), "function"),  # type: ignore[arg-type]
        (lambda: hf.judging.judge(3, name="a"), "function"),  # type: ignore[arg-type]
        (lambda: hf.judging.judge(never, name=" "), "name"),
        (lambda: hf.judging.judge(never, name="a\nb"), "name"),
        (lambda: hf.judging.judge(never, batched=1), "batched"),  # type: ignore[arg-type]
        (lambda: hf.judging.judge(never, errors=0.05), "errors"),  # type: ignore[arg-type]
        (lambda: hf.judging.same_meaning("model", 0.5), "encode"),  # type: ignore[arg-type]
        (lambda: hf.judging.same_meaning(letters, 1.5), "threshold"),
        (lambda: hf.judging.same_meaning(letters, float("nan")), "threshold"),
        (lambda: hf.judging.entails(contains, -0.1), "threshold"),
        (lambda: hf.judging.entails(contains, both_ways="yes"), "both_ways"),  # type: ignore[arg-type]
        (lambda: hf.judging.llm_judge(3), "model"),
        (lambda: hf.judging.llm_judge("gpt"), "spec"),
        (lambda: hf.judging.llm_judge(str, question=""), "question"),
        (lambda: hf.judging.llm_judge(str, prompt="Are {answer} and {other} the same?"), "prompt"),
        (lambda: hf.judging.llm_judge(str, prompt="Is {answer} right?"), "prompt"),
        (lambda: hf.judging.llm_judge(str, prompt="{answer} {reference}", question="How tall?"), "prompt"),
        (lambda: hf.judging.llm_judge(str, prompt="{answer} {reference} {question}"), "prompt"),
        (lambda: hf.judging.llm_judge(str, prompt="{answer} {reference} {"), "prompt"),
    ],
)
def test_what_makes_no_judge_is_refused_at_once(make: Any, argument: str) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match=rf"^`{argument}` must "):
        make()


def test_a_judge_keeps_its_name_and_errors_as_an_agreement() -> None:
    errors = judge_errors(100, 1, 2)
    judge = hf.judging.judge(never, errors=errors)
    assert isinstance(judge, Judge)
    agree = as_agreement(judge)
    assert isinstance(agree, UserAgreement)  # it cannot be stored by its name alone
    assert (agree.name, agree.errors) == ("never", errors)
    for rule in ("same_top_class", "within(0.1)", "same_answer", "same_number()"):
        assert as_agreement(rule).errors is None
    numbers = hf.judging.judge(hf.judging.same_number(0.5), errors=errors)
    assert (numbers.name, numbers.errors) == ("same_number(0.5)", errors)
    assert numbers(np.array(["84.5 m", "85"], dtype=object), "84").tolist() == [True, False]


def test_a_language_model_that_words_its_answer_anew_is_certified() -> None:
    def ask(prompt: str) -> str:
        passages = prompt.split("Question")[0]
        height = "80" if "annex" in passages else "84"
        return f"It is {height} metres tall." if "rain" in passages else f"{height} m"

    passages = ["The tower is 84 m tall.", "There is much rain.", "The annex is 80 m tall."]
    context = hf.mask_context(ask, passages, question="How tall is the tower?")
    selected = np.array([True, False, False])
    rates = {
        name: hf.certify(context, selected, radius=2, agree=name).rate for name in ("same_answer", "same_number()")
    }
    assert rates == {"same_answer": 0.25, "same_number()": 0.5}
    judge = hf.judging.judge(lambda answer, reference: reference.split()[0] in answer, name="has the height")
    certificate = hf.certify(context, selected, radius=2, agree=judge)
    assert (certificate.rate, certificate.agree, certificate.prediction) == (0.5, "has the height", "84 m")


# -- meaning and entailment -------------------------------------------------------------------------


def test_the_cosine_decides_and_the_threshold_is_inclusive() -> None:
    vectors = {"x": [1.0, 0.0], "long": [1e200, 0.0], "tiny": [1e-200, 0.0], "half": [3.0, 4.0], "back": [-1.0, 0.0]}
    vectors["none"] = vectors["nought"] = [0.0, 0.0]

    def encode(answers: list[str]) -> list[list[float]]:
        assert len(set(answers)) == len(answers)
        return [vectors[answer] for answer in answers]

    answers = np.array(list(vectors), dtype=object)
    judged = {
        threshold: hf.judging.same_meaning(encode, threshold)(answers, "x").tolist() for threshold in (1, 0.6, 0.61, -1)
    }
    assert judged[1] == judged[0.61] == [True, True, True, False, False, False, False]
    assert judged[0.6] == [True, True, True, True, False, False, False]
    assert judged[-1] == [True, True, True, True, True, False, False]
    assert hf.judging.same_meaning(encode, -1)(answers, "none").tolist() == [False] * 5 + [True, False]


def test_entailment_is_asked_both_ways_unless_told_otherwise() -> None:
    asked: list[Any] = []

    def score(pairs: list[tuple[str, str]]) -> list[float]:
        asked.extend(pairs)
        return [0.5 if hypothesis in premise else 0.4 for premise, hypothesis in pairs]

    answers = np.array(["84 m tall", "84", "80"], dtype=object)
    assert hf.judging.entails(score)(answers, "84 m").tolist() == [False, False, False]
    forth = [("84 m tall", "84 m"), ("84", "84 m"), ("80", "84 m")]
    assert asked == forth + [pair[::-1] for pair in forth]
    assert hf.judging.entails(score, both_ways=False)(answers, "84 m").tolist() == [True, False, False]
    assert hf.judging.entails(score, 0.4)(answers, "84 m").all()


@pytest.mark.parametrize("numbers", [[[0.5, 0.5]], [0.5], [1.5, 0.5], [np.nan, 0.5], [-0.1, 0.1], ["a", "b"], None])
def test_scores_that_are_no_probabilities_are_refused(numbers: Any) -> None:
    with pytest.raises((ModelError, InvalidTypeError), match=r"^`score` must return "):
        hf.judging.entails(lambda pairs: numbers)(np.array(["a"], dtype=object), "b")


@pytest.mark.parametrize("vectors", [[1.0, 2.0], [[1.0]], [[1.0], [np.inf]], [[1.0], [1.0, 2.0]], [["a"], ["b"]]])
def test_embeddings_of_another_shape_are_refused(vectors: Any) -> None:
    with pytest.raises((ModelError, InvalidTypeError, InvalidValueError), match=r"^`encode` must return "):
        hf.judging.same_meaning(lambda answers: vectors, 0.5)(np.array(["a"], dtype=object), "b")


# -- the errors of a judge --------------------------------------------------------------------------

Labels = dict[tuple[int, int], Fraction]
"""The probability of each (false_yes, false_no)."""

CERTAIN = Fraction(0)


def label_probabilities(n: int, p_yes: Fraction, p_no: Fraction) -> Labels:
    """The trinomial distribution of both kinds of errors among n labelled answers."""
    right = 1 - p_yes - p_no
    return {
        (yes, no): comb(n, yes) * comb(n - yes, no) * p_yes**yes * p_no**no * right ** (n - yes - no)
        for yes in range(n + 1)
        for no in range(n - yes + 1)
    }


@cache
def ends_of(tolerance: str, risk: str) -> dict[tuple[int, int], int]:
    design = make_plan("sequential", tolerance=Fraction(tolerance), confidence=1 - Fraction(risk)).design
    return count_paths(design.looks, design.limits)


@cache
def widened(end: tuple[int, int], tolerance: str, labels: tuple[int, int], n: int, confidence: float) -> Interval:
    share = Fraction(end[1], end[0])
    interval = Interval(max(0.0, float(share - Fraction(tolerance))), min(1.0, float(share + Fraction(tolerance))))
    return judge_errors(n, *labels, confidence=confidence).widen(interval)


def rates() -> Iterator[tuple[Fraction, Fraction, Fraction]]:
    """(rate by the judge, p_yes, p_no): everything from a judge that is never wrong to one that always is."""
    shares = [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)]
    for judged, yes, no in product(map(Fraction, ("0", "1/20", "1/2", "4/5", "19/20", "1")), shares, shares):
        yield judged, yes * judged, no * (1 - judged)


@pytest.mark.parametrize(
    ("tolerance", "risk", "n", "confidence"),
    [("1/5", "1/5", 6, 0.5), ("1/5", "1/10", 15, 0.9), ("1/10", "1/5", 10, 0.8)],
)
def test_the_widened_interval_misses_the_rate_by_people_with_at_most_both_risks(
    tolerance: str, risk: str, n: int, confidence: float
) -> None:
    """Summed over every stopping point of a shipped design and every outcome of the labelled sample."""
    ends, allowed = ends_of(tolerance, risk), Fraction(risk) + 1 - Fraction(str(confidence))
    for judged, p_yes, p_no in rates():
        true, missed = judged - p_yes + p_no, Fraction(0)
        labels = {outcome: p for outcome, p in label_probabilities(n, p_yes, p_no).items() if p}
        for end, p_end in end_probabilities(ends, judged).items():
            for outcome, p in labels.items() if p_end else ():
                low, high = widened(end, tolerance, outcome, n, confidence)
                missed += 0 if low <= true <= high else p_end * p
        assert missed <= allowed, (judged, p_yes, p_no)


def test_an_interval_that_is_not_widened_misses_far_more() -> None:
    """The judge says yes to 95% of answers, of which people take every seventh for something else."""
    judged = Fraction(19, 20)
    true, tolerance = judged * Fraction(6, 7), Fraction(1, 10)
    ends = end_probabilities(ends_of("1/10", "1/5"), judged)
    missed = sum(p for (n, k), p in ends.items() if abs(Fraction(k, n) - true) > tolerance)
    assert missed > Fraction(4, 5) > Fraction(1, 5) + Fraction(1, 5)


def missed_by_labels(n: int, p_yes: Fraction, p_no: Fraction, confidence: float | None) -> Fraction:
    """How often the labels mislead if the rate by the judge is known for certain; None widens by observed shares."""
    judged, missed = Fraction(1, 2), Fraction(0)
    for (yes, no), p in label_probabilities(n, p_yes, p_no).items():
        low, high = judged - Fraction(yes, n), judged + Fraction(no, n)
        if confidence is not None:
            low, high = map(Fraction, judge_errors(n, yes, no, confidence=confidence).widen(Interval(0.5, 0.5)))
        missed += 0 if low <= judged - p_yes + p_no <= high else p
    return missed


def test_the_bounds_of_the_errors_use_up_their_risk_and_no_more() -> None:
    """Just above the bound of no error seen, each kind misses with nearly half of the risk."""
    n, confidence = 20, 0.9
    worst = Fraction(judge_errors(n, 0, 0, confidence=confidence).upper_false_yes) + Fraction(1, 10**9)
    for errors in ((worst, CERTAIN), (CERTAIN, worst)):
        missed = missed_by_labels(n, *errors, confidence)
        assert Fraction(49, 1000) < missed <= Fraction(1, 20)
    for errors in product((CERTAIN, Fraction(1, 100), worst, Fraction(1, 2)), repeat=2):
        assert missed_by_labels(n, *errors, confidence) <= Fraction(1, 10)


def test_widening_by_the_observed_errors_alone_is_not_enough() -> None:
    assert missed_by_labels(20, Fraction(1, 50), CERTAIN, None) > Fraction(3, 5)
    assert missed_by_labels(20, Fraction(1, 50), CERTAIN, 0.9) == 0


def test_bounds_are_the_exact_ones_of_the_binomial() -> None:
    """The upper bound u of k errors in n solves P(Bin(n, u) ≤ k) = risk / 2."""
    errors = judge_errors(30, 2, 5, confidence=0.95)
    for bound, k in ((errors.upper_false_yes, 2), (errors.upper_false_no, 5)):
        tail = sum(comb(30, j) * bound**j * (1 - bound) ** (30 - j) for j in range(k + 1))
        assert tail == pytest.approx(0.025, rel=1e-9)
    assert judge_errors(4, 4, 0).upper_false_yes == 1
    assert judge_errors(4, 4, 0).widen(Interval(0.2, 0.9)) == (0, 1)


def test_more_labels_widen_less() -> None:
    widths = [high - low for low, high in (judge_errors(n, 0, 0).widen(Interval(0.5, 0.5)) for n in (10, 100, 1000))]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.01


def test_errors_are_plain_values_that_json_can_hold() -> None:
    errors = judge_errors(np.int64(50), 1.0, 2, confidence=Fraction(9, 10))  # type: ignore[arg-type]
    assert asdict(errors) == {"n_labelled": 50, "false_yes": 1, "false_no": 2, "confidence": 0.9}
    assert JudgeErrors(**json.loads(json.dumps(asdict(errors)))) == errors
    assert [type(value) for value in asdict(errors).values()] == [int, int, int, float]


@pytest.mark.parametrize(
    ("counts", "argument"),
    [
        ((0, 0, 0), "n_labelled"),
        ((10, -1, 0), "false_yes"),
        ((10, 0, 11), "false_no"),
        ((10, 6, 5), "false_yes + false_no"),
        ((10, 0.5, 0), "false_yes"),
        ((10, 0, True), "false_no"),
        (("10", 0, 0), "n_labelled"),
        ((10, 0, 0, 1.0), "confidence"),
        ((10, 0, 0, 1 - Fraction(1, 10**30)), "confidence"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(counts: Any, argument: str) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match=rf"^`{argument.replace('+', '.')}` must "):
        JudgeErrors(*counts)


def test_a_certificate_of_a_rule_is_read_back_and_confirmed() -> None:
    passages = ["The tower is 84 m tall.", "There is much rain.", "The annex is 80 m tall."]
    context = hf.mask_context(lambda prompt: "80 m" if "annex" in prompt else "It's 84", passages, question="Height?")
    agree = hf.judging.accepted_answers(["84 m", "It's 84"])
    certificate = hf.certify(context, [0], radius=2, agree=agree, reference="84 m")
    assert (certificate.rate, certificate.agree) == (0.5, """accepted_answers(['84 m', "It's 84"])""")
    stored = hf.Certificate.from_json(certificate.to_json())
    assert stored == certificate
    assert hf.recheck(context, stored).confirmed

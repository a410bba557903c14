"""Every result says itself in at most 25 words, and the rest in ``explain()``: what was asked, what holds, what not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.words import MOST_WORDS, NO_PROOF, NOT_RIGHT
from tests.core.test_random_answers import RandomAnswers
from tests.core.test_random_fills import Filled
from tests.core.test_structure import CountedTable

N, LONG = 20, "a very long name of a class that goes on and on for many words"
CLASSES = (LONG, "the other class, which has a long name as well")
FEW = np.arange(N) < 4
TABLE = (np.arange(16) != 15).astype(int)


def scores(masks: Any) -> Any:
    """The first class unless many features are shown."""
    return np.c_[np.ones(len(masks)), (masks.sum(axis=1) > 9) * 2.0]


STABLE = hf.mask_function(lambda masks: np.tile([1.0, 0.0], (len(masks), 1)), n_features=N, classes=CLASSES)
WRONG = hf.mask_function(scores, n_features=N, classes=CLASSES)
FICKLE = hf.mask_function(lambda masks: masks[:, 5] | masks[:, 6], n_features=N)
FILLED = Filled(np.tile(TABLE[:, None], (1, 40)))
JUDGE = hf.judging.judge(
    hf.judging.same_answer, name="a careful judge with a long name", errors=hf.judging.judge_errors(50, 5, 1)
)
CONTEXT = hf.mask_context(lambda prompt: "84 metres" if "84" in str(prompt) else "no", ["84 m", "x", "y"], question="?")


PROVEN = CountedTable()
TWO = np.arange(PROVEN.n_features) < 2
FOUR = hf.lookup_table([0] * 15 + [1], n_features=4)
FEW_FILLS = Filled(np.tile(TABLE[:, None], (1, 4)))
RANKING = np.arange(N, 0, -1.0)

CERTIFICATES: dict[str, Callable[[], Any]] = {
    "drawn": lambda: hf.certify(STABLE, FEW, radius=5, rng=0),
    "contradicting": lambda: hf.certify(WRONG, FEW, radius=5, rng=0),
    "exact": lambda: hf.certify(STABLE, FEW, radius=1, rng=0),
    "proven": lambda: hf.certify(PROVEN, TWO, radius=3, rng=0),
    "assumed": lambda: hf.certify(STABLE, FEW, radius=1, check_determinism=False, rng=0),
    "random answers": lambda: hf.certify(
        RandomAnswers(lambda mask: 0.9, n_features=4), [0], radius=3, answers="random", rng=0
    ),
    "judged": lambda: hf.certify(CONTEXT, [0], radius=2, agree=JUDGE, reference="84 metres", rng=0),
    "random fills": lambda: hf.certify(FILLED, [0], radius=2, rng=0),
    "nothing selected": lambda: hf.certify(STABLE, np.zeros(N, dtype=bool), radius=5, rng=0),
    "clamped": lambda: hf.certify(STABLE, FEW, radius=99, rng=0),
    "law": lambda: hf.certify(WRONG, FEW, radius=5, neighborhood=hf.distributions.Bernoulli(0.3), rng=0),
}

RESULTS: dict[str, Callable[[], Any]] = CERTIFICATES | {
    "curve": lambda: hf.certify_radii(WRONG, FEW, radii=[1, 5, 9], rng=0),
    "one point": lambda: hf.certify_radii(STABLE, FEW, radii=[1], rng=0),
    "joint curve": lambda: hf.certify_radii(STABLE, FEW, radii=[1, 5, 9], simultaneous=True, rng=0),
    "proven curve": lambda: hf.certify_radii(PROVEN, TWO, radii=[1, 3], rng=0),
    "judged curve": lambda: hf.certify_radii(CONTEXT, [0], radii=[1, 2], agree=JUDGE, reference="84 metres", rng=0),
    "probabilities": lambda: hf.certify_probabilities(WRONG, FEW, probabilities=[0, 0.1, 0.5], radius=5, rng=0),
    "hard": lambda: hf.certify_hard(STABLE, FEW, radius=5, rng=0),
    "hard, contradicting": lambda: hf.certify_hard(WRONG, FEW, radius=2, rng=0),
    "hard, listed": lambda: hf.certify_hard(STABLE, FEW, radius=1, rng=0),
    "hard, refuted": lambda: hf.certify_hard(WRONG, FEW, radius=12, rng=0),
    "hard, random": lambda: hf.certify_hard(RandomAnswers(lambda mask: 0.5), [0], radius=3, answers="random", rng=0),
    "votes": lambda: hf.certify_mus(STABLE, FEW, keep_probability=0.125, rng=0),
    "no votes": lambda: hf.certify_mus(WRONG, FEW, keep_probability=0.5, rng=0),
    "radius": lambda: hf.certified_radius(STABLE, FEW, min_rate=0.9, rng=0),
    "radius, undecided": lambda: hf.certified_radius(FICKLE, FEW, min_rate=0.5, radii=[6], max_draws=22, rng=3),
    "radius, none": lambda: hf.certified_radius(FICKLE, FEW, min_rate=0.99, radii=[8], rng=0),
    "radius, contradicting": lambda: hf.certified_radius(WRONG, FEW, min_rate=0.9, radii=[2, 4], rng=0),
    "comparison": lambda: hf.compare(WRONG, {LONG: FEW, "b": ~FEW, "c": np.arange(N) < 1}, [3, 8], rng=0),
    "difference": lambda: result("comparison").differences[0],
    "comparison of two": lambda: hf.compare(FICKLE, {"a": np.arange(N) < 6, "b": np.arange(N) < 2}, [3], rng=0),
    "certified difference": lambda: result("comparison of two").differences[0],
    "consistent comparison": lambda: hf.compare(STABLE, {"a": FEW, "b": ~FEW}, [3], rng=0),
    "exact comparison": lambda: hf.compare(FOUR, {"a": [0], "b": [1]}, [1], rng=0),
    "means": lambda: hf.mean_curve([lambda: (WRONG, FEW)] * 5, radii=[1, 6], half_width=0.1, rng=0),
    "mean": lambda: result("means")[6],
    "means of fills": lambda: hf.mean_curve([lambda: (FEW_FILLS, [0])] * 3, radii=[1], half_width=0.2, rng=0),
    "selection": lambda: hf.stabilize(STABLE, RANKING, min_rate=0.9, radius=3, rng=0),
    "no selection": lambda: hf.stabilize(FICKLE, RANKING, min_rate=0.99, radius=3, sizes=[3], consistent=False, rng=0),
    "reexplanation": lambda: hf.reexplain(WRONG, "lime", radius=1, n_repeats=3, n_samples=64, rng=3),
    "the same again": lambda: hf.reexplain(STABLE, "occlusion", radius=1, n_repeats=2, rng=3),
    "fills": lambda: hf.fill_sensitivity(lambda fill: WRONG, FEW, [0, 1], radius=5, rng=0),
    "exact fills": lambda: hf.fill_sensitivity(lambda fill: FOUR, [0], [0], radius=1, rng=0),
    "witness": lambda: hf.find_witness(WRONG, FEW, rng=0),
    "no witness": lambda: hf.find_witness(STABLE, FEW, max_radius=2, rng=0),
    "nothing found": lambda: hf.find_witness(STABLE, FEW, max_calls=100, rng=0),
    "witness of fills": lambda: hf.find_witness(FEW_FILLS, [0], rng=0),
    "proven witness": lambda: hf.find_witness(PROVEN, TWO, rng=0),
    "judged witness": lambda: hf.find_witness(WRONG, FEW, agree=hf.agreement.same_top_set(1), rng=0),
    "bracket": lambda: hf.stability_bracket(FOUR, [0], rng=0),
    "smoothed bracket": lambda: hf.stability_bracket(hf.smooth(STABLE, 0.25, 16, rng=0), FEW, max_radius=1, rng=0),
    "open bracket": lambda: hf.stability_bracket(STABLE, FEW, max_radius=2, rng=0),
    "scores": lambda: hf.attribute(WRONG, "occlusion"),
    "sampled scores": lambda: hf.attribute(WRONG, "shap", n_samples=80, rng=0),
    "planned": lambda: hf.plan_samples(),
    "planned, exact": lambda: hf.plan_samples(selected=FEW, radius=1),
    "calibration": lambda: hf.certification.plan_calibration(100, min_rate=0.9, share=0.9),
    "too few": lambda: hf.certification.plan_calibration(2, min_rate=0.9, share=0.9),
    "selector": lambda: hf.calibrate([STABLE] * 30, [RANKING] * 30, radius=3, min_rate=0.8, share=0.8, rng=0),
    "per class": lambda: hf.calibrate(
        [STABLE] * 30, [RANKING] * 30, radius=3, min_rate=0.8, share=0.8, per_class=True, rng=0
    ),
    "selects all": lambda: hf.calibrate(
        [FICKLE] * 30, [RANKING] * 30, radius=3, min_rate=0.99, share=0.9, sizes=[3], consistent=False, rng=0
    ),
    "confirmed": lambda: hf.recheck(STABLE, result("drawn")),
    "not confirmed": lambda: hf.recheck(STABLE, dataclasses.replace(result("drawn"), tolerance=0.05)),
    "neighbourhood": lambda: hf.distributions.check_neighborhood(hf.distributions.Bernoulli(0.3)),
    "accuracy": lambda: hf.smoothed_accuracy(lambda one: WRONG, [0, 1], [0, 1], keep_probabilities=[1, 0.5], rng=0),
    "citations": lambda: hf.certify_citations(CONTEXT, [1], rng=0),
    "citations, judged": lambda: hf.certify_citations(CONTEXT, [1], agree=JUDGE, rng=0),
    "citations, counted": lambda: dataclasses.replace(result("citations"), prompt_tokens=1200, completion_tokens=34),
}
"""One of every result, as unlike as they can be."""


@cache
def result(name: str) -> Any:
    return RESULTS[name]()


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_sentence_of_at_most_25_words(name: str) -> None:
    sentence, *table = str(result(name)).split("\n")
    assert 5 < len(sentence.split()) <= MOST_WORDS, sentence
    assert "None" not in sentence
    assert "  " not in sentence
    assert sentence.endswith((".", ":")), sentence
    assert all(line.startswith(" ") or not line.endswith(".") for line in table), "a table has no sentences"


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_explains_itself_in_plain_words(name: str) -> None:
    text = result(name).explain()
    assert 55 <= len(text.split()) <= 130, f"{len(text.split())}: {text}"
    sentences = [part for part in text.replace("?", ".").split(". ") if part]
    assert len(text.split()) / len(sentences) <= 20, "sentences are short"
    assert "  " not in text
    assert "None" not in text.replace("None of up to", "")


@pytest.mark.parametrize("name", CERTIFICATES)
def test_a_certificate_explains_what_it_is_about_and_what_it_is_not(name: str) -> None:
    certificate = result(name)
    text = certificate.explain()
    assert text.startswith("How often does ")
    assert NOT_RIGHT in text
    assert f"{certificate.n_calls} model calls" in text
    assert "this model, input, fill and explanation" in text
    assert (NO_PROOF in text) == (not certificate.exact)
    assert ("random masks" in text) == (not certificate.exact)


def test_what_changes_the_meaning_of_the_figure_is_in_the_sentence() -> None:
    for name, words in {
        "contradicting": "the full input ",
        "exact": "counted, not drawn",
        "proven": "(proven)",
        "random answers": "random answers",
        "judged": "judge's errors included",
        "random fills": "with random fills",
        "nothing selected": "with nothing selected",
        "law": "each other feature with probability 0.3",
        "radius, undecided": "not enough draws",
        "hard, refuted": "Not stable",
        "hard, random": "a random answer",
        "votes": "smoothed model",
        "no votes": "Nothing is proven for the smoothed model",
        "joint curve": "for all radii at once",
        "proven curve": "(proven)",
        "no witness": "Proven: no addition",
        "nothing found": "proven up to",
        "confirmed": "the seed was chosen by its maker",
        "not confirmed": "Not confirmed: interval.low is 0.9 in the file, but 0.95 now; and 27 more.",
        "certified difference": "is more stable than",
        "exact comparison": "(exact: all masks counted)",
    }.items():
        assert words in str(result(name)), f"{name}: {result(name)}"


def test_a_comparison_says_whose_prediction_is_not_that_of_the_full_input() -> None:
    assert "the full input" in result("comparison").explain()
    assert "the full input" not in result("consistent comparison").explain()


def test_a_curve_says_whether_it_may_be_read_as_a_whole() -> None:
    assert "a curve" not in result("curve").explain()
    assert "one that is picked for its result has no guarantee" in result("curve").explain()
    assert "all intervals contain their true rates at once" in result("joint curve").explain()
    assert "no guarantee" not in result("joint curve").explain()


KINDS = ("uniform", "exactly", "worst_size", "worst_size_lower")
NEARBY = (
    "additions",
    "removals",
    "swaps",
    hf.distributions.Bernoulli(0.4),
    hf.distributions.Bernoulli([0.3] * N),
    hf.distributions.Weighted([1] * N),
)


@pytest.mark.parametrize(("model", "kind", "law"), list(product((STABLE, WRONG), KINDS, NEARBY)))
def test_no_question_makes_a_sentence_long(model: Any, kind: str, law: Any) -> None:
    """Whatever is asked, the sentence is short and still says that the full input contradicts it."""
    for radius, selected in ((1, FEW), (7, FEW), (7, ~FEW), (3, np.zeros(N, dtype=bool))):
        asked = {"radius": radius, "rate_kind": kind, "neighborhood": law, "tolerance": 0.2, "rng": 0}
        certificate = hf.certify(model, selected, **asked)
        sentence = str(certificate)
        assert len(sentence.split()) <= MOST_WORDS, sentence
        assert ("but the full input" in sentence) == (not certificate.consistent)
        assert ("at worst" in sentence) == kind.startswith("worst")
        assert 60 <= len(certificate.explain().split()) <= 130


def test_the_longest_that_can_be_said_of_a_certificate_is_still_short() -> None:
    """Everything at once: the worst size of a law of the user's own, judged, with fills, names and a contradiction."""

    class Own:
        name = "a law of my own that has a very long name"

        def sample(self, selected: Any, n: int, rng: Any) -> Any:
            return selected | (rng.random((n, len(selected))) < 0.5)

    drawn = hf.certify(STABLE, FEW, neighborhood=Own(), rng=0)
    for n_completions, answers, kind in (
        (7, "fixed", "uniform"),
        (None, "random", "uniform"),
        (7, "fixed", "worst_size"),
    ):
        edited = dataclasses.replace(
            drawn,
            n_completions=n_completions,
            answers=answers,
            rate_kind=kind,
            agree="entails(a long name of a score, 0.5, one way)",
            judge_errors=hf.judging.judge_errors(50, 5, 1),
            consistent=False,
            reference=LONG,
            selected=np.zeros(N, dtype=bool),
        )
        sentence = str(edited)
        assert len(sentence.split()) <= MOST_WORDS, sentence
        assert "judge's errors included" in sentence
        assert ", but " in sentence

"""Words for numbers and names, the same in every result, page and command."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Interval
from holdfast import words as say


def test_methods_are_called_by_their_names() -> None:
    assert [say.method_label(name) for name in ("lime", "grad_cam", "my_own", "captum:DeepLift", "a:")] == [
        "LIME",
        "Grad-CAM",
        "my own",
        "DeepLift (captum)",
        "a:",
    ]


@pytest.mark.parametrize(
    ("prediction", "classes", "label"),
    [(1, ("bad", "good"), "good"), (1, (), "1"), (2, ("bad", "good"), "2"), ("spam", (), "spam"), (None, (), None)],
)
def test_a_class_is_called_by_its_name_or_else_by_what_the_model_returned(
    prediction: Any, classes: tuple[str, ...], label: str | None
) -> None:
    assert say.class_label(prediction, classes) == label


def test_only_an_index_of_a_class_has_a_name() -> None:
    assert say.class_name(1, ("bad", "good")) == "good"
    assert [say.class_name(answer, ("bad", "good")) for answer in (True, "spam", 0.5, -1, 2)] == [None] * 5
    assert say.class_name(1, None) is None
    assert say.class_name(1, ("0", "1")) is None


def test_predictions_are_quoted_by_name() -> None:
    assert (say.quoted(1, "good"), say.quoted(1, None), say.quoted("spam", None)) == ("'good'", "1", "'spam'")


def test_intervals_are_rounded_away_from_each_other() -> None:
    assert say.outward(Interval(0.8577, 0.9171)) == (0.857, 0.918)
    assert say.outward(Interval(0.1 + 0.2, 1.001), 2) == (0.3, 1.01)
    assert say.outward(Interval(-math.inf, math.inf)) == (-math.inf, math.inf)
    assert say.bracket(Interval(0.73019, 0.93019)) == "[0.730, 0.931]"
    assert say.bracket(Interval(-0.0304, 0.1), "+") == "[-0.031, +0.100]"
    assert say.span(Interval(0.12349, 0.5671)) == "12.3% to 56.8%"


def test_an_exact_rate_is_rounded_to_the_nearest() -> None:
    assert say.bracket(Interval(22 / 23, 22 / 23)) == "[0.957, 0.957]"


def test_all_and_nothing_are_said_only_of_all_and_nothing() -> None:
    shares = (0.5, 0.123, 0.9999, 0.0001, 1.0, 0.0)
    assert [say.percent(share) for share in shares] == ["50%", "12.3%", ">99.9%", "<0.1%", "100%", "0%"]


def test_numbers_go_with_their_nouns() -> None:
    assert (say.counted(1, "input"), say.counted(1200, "input")) == ("1 input", "1,200 inputs")
    assert (say.calls(1), say.calls(1200)) == ("1 model call", "1200 model calls")
    claim = SimpleNamespace(n_calls=9, n_repeated=2, answers="fixed")
    assert say.cost(claim) == "It took 9 model calls; 2 rows computed twice had equal results."
    claim.n_repeated = 0
    assert say.cost(claim) == "It took 9 model calls and assumes that the model is deterministic."
    claim.answers = "random"
    assert say.cost(claim) == "It took 9 model calls, each with a random answer of its own."


def test_times_are_told_to_two_digits_from_two_of_a_unit_on() -> None:
    times = (0.0, 0.34, 12.3, 59.4, 75, 119, 300, 5400, 9000, 90_000, 358_900, 400_000, 86_400_000)
    assert [say.duration(seconds) for seconds in times] == [
        *("0 s", "0.34 s", "12 s", "59 s", "75 s", "119 s", "5 min", "90 min", "2.5 h", "25 h"),
        *("4.2 d", "4.6 d", "1,000 d"),
    ]


def test_a_contradiction_is_said_as_it_is_in_two_lengths() -> None:
    claim = SimpleNamespace(answers="fixed", reference=None, n_completions=None, consistent=True)
    assert say.but_unlike(claim) == [""]
    claim.consistent = False
    assert say.but_unlike(claim) == [", but the full input is predicted differently", ", but the full input differs"]
    claim.reference = "84 metres"
    assert say.unlike(claim)[0] == "the selected features alone do not give it"
    claim.answers = "random"
    assert say.unlike(claim)[0] == "one answer to the selected features alone differed"
    claim.answers, claim.n_completions = "fixed", 7
    assert say.unlike(claim)[0] == "the full input does not give it"


def test_shares_are_said_in_one_word_and_claim_no_more_than_is_known() -> None:
    assert say.shares(Interval(0.7913, 0.9917)) == "79.1–99.2%"
    assert (say.shares(Interval(1.0, 1.0)), say.sure(0.99995), say.sure(0.9)) == ("100%", "99.995%", "90%")
    assert say.exact_share(0.625) == "exactly 62.5% of cases"
    assert say.exact_share(0.8996) == "90% of cases", "what is rounded is not exact"
    rates = (5 / 6, 1.0, 0.0, 0.99999, 0.00001)
    assert [say.exact_share(rate) for rate in rates] == [
        *("83.3% of cases", "all cases", "no case", "more than 99.9% of cases", "less than 0.1% of cases"),
    ]


def test_names_that_are_long_are_cut_and_sentences_shortened_from_the_back() -> None:
    assert say.few_words("a b c d e f") == "a b c d…"
    assert say.few_words("x" * 100) == "x" * 39 + "…"
    assert (say.named(1, "good"), say.named(0.123456789, None), say.named(True, None)) == ("'good'", "0.123457", "True")
    assert say.fitted("{a}{b}", a=["x " * 20, "y"], b=["z " * 20, "w"]) == "x " * 20 + "w"
    assert say.fitted("{a}", a=["x " * 30]) == "x " * 30, "nothing shorter is known"


def test_what_counts_as_the_same_is_said_where_it_is_not_the_usual() -> None:
    assert say.keeping("keeps", 0, "cat", "same_top_class")[0] == "keeps the prediction 'cat'"
    assert say.keeping("keeps", 0.5, None, "within(0.1)")[:2] == [
        *("keeps the prediction 0.5 (judged by within(0.1))", "keeps prediction 0.5 (judged by within(0.1))"),
    ]
    assert say.keeping("keeps", "a", None, "accepted_answers('a', 'b')")[-1] == "keeps it or another accepted form"


def test_several_things_are_listed_as_in_a_sentence() -> None:
    assert [say.listed(parts) for parts in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_long_texts_are_shortened_to_one_line() -> None:
    assert (say.shortened("a b  c", 80), say.shortened("abcdef", 4)) == ("a b c", "abc…")
    assert say.shortened(" " * 400 + "x", 80) == "…"


def test_parts_cuts_and_continuations_are_said_in_words() -> None:
    assert (say.share_of(3, 40), say.share_of(0, 2**60), say.share_of(2**59, 2**60)) == (
        *("3 of 40", "none of 1.2e+18", "50% of 1.2e+18"),
    )
    assert (say.cut_label(0.25), say.cut_label(0.25, masks=True)) == ("top 0.25", "as selected")

"""Tests of many inputs → one statement about a data set: at least this share of such inputs is stable enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from holdfast.bounds import certified_count, certified_share, check_counts
from holdfast.errors import InvalidValueError
from holdfast.results.values import Value
from holdfast.results.wording import calls, event, lower_first
from holdfast.validation import check_name, check_share

SOURCES = ("fresh", "stored")


@dataclass(frozen=True, eq=False)
class DataSetGuarantee(Value):
    """How many inputs have a stability rate of at least ``min_rate``, at least.

    Two statements, each with probability at least ``confidence`` on its own. ``share`` is about the
    population, and holds if the inputs are independent draws from it. ``count`` is about exactly
    these inputs. Both take into account that each input is certified on its own draws, wrongly
    with probability at most ``level``. They are void if method, radius, rate or inputs were chosen
    after seeing results; with fresh draws ``count`` may be asked for, once, of a study that was seen.

    Attributes
    ----------
    share : float
        At least this share of inputs such as these.
    count : int
        At least so many of the inputs tested.
    n_inputs, n_certified, n_consistent : int
        Inputs tested, those certified one by one, and those whose explanation alone has the prediction of
        the full input: a stable explanation of the others may be stably wrong.
    n_skipped, n_missing : int
        Inputs of the study that were left out, and those that have no explanation for other reasons. The
        population is that of inputs which are neither.
    source : {"fresh", "stored"}
        One-sided tests on draws of their own, or the study's certificates.
    n_calls : int
        Model calls of fresh tests.
    """

    method: str
    top_fraction: float
    keep_probability: float
    radius: int
    min_rate: float
    confidence: float
    level: float
    share: float
    count: int
    n_inputs: int
    n_certified: int
    n_consistent: int
    n_skipped: int
    n_missing: int
    n_calls: int
    source: str
    neighborhood: str
    agree: str
    model: str
    data: str

    schema: ClassVar[str] = "holdfast.data_set_guarantee"

    def check(self) -> None:
        """Raise if the statements do not follow from the counts."""
        check_counts(self.n_certified, self.n_inputs, names=("n_certified", "n_inputs"))
        check_share(self.min_rate, "min_rate")
        check_name(self.source, "source", SOURCES)
        asked = {"level": self.level, "confidence": self.confidence}
        share = certified_share(self.n_certified, self.n_inputs, **asked)
        count = certified_count(self.n_certified, self.n_inputs, **asked)
        if not math.isclose(share, self.share, abs_tol=1e-9) or count != self.count:
            raise InvalidValueError("`share` and `count` must follow from the counts, the level and the confidence.")

    def __str__(self) -> str:
        return " ".join([self._claim(), self._evidence(), *self._conditions()])

    def _claim(self) -> str:
        cut = f"{self.method}, top {self.top_fraction:g}"
        cut += f", keep probability {self.keep_probability:g}" if self.keep_probability != 1 else ""
        doing = lower_first(event(self.neighborhood, "uniform", self.radius))
        judged = "" if self.agree == "same_top_class" else f" (as judged by {self.agree})"
        share, sure = f"{math.floor(1000 * self.share) / 10:g}%", f"ith confidence {self.confidence:g}"
        return (
            f"W{sure}, for at least {share} of inputs such as these {doing} keeps the prediction on the explanation "
            f"({cut}){judged} in at least {self.min_rate} of cases; and w{sure} it does for at least {self.count} of "
            f"exactly these {self.n_inputs} inputs."
        )

    def _evidence(self) -> str:
        how = f"fresh draws, {calls(self.n_calls)}" if self.source == "fresh" else "the study's own certificates"
        return (
            f"{self.n_certified} were certified one by one, each wrongly with probability at most {self.level:g} "
            f"({how}); {self.n_consistent} explanations alone have the prediction of the full input."
        )

    def _conditions(self) -> list[str]:
        lines = ["The share is about the population that the inputs are independent draws from."]
        left = [f"{self.n_skipped} were left out"] * (self.n_skipped > 0)
        left += [f"{self.n_missing} have no explanation"] * (self.n_missing > 0)
        if left:
            lines.append(f"Of the study's inputs {' and '.join(left)}: it is about inputs of which this is not true.")
        seen = "any result of the study" if self.source == "stored" else "any result for these inputs"
        lines.append(f"Method, radius, rate and inputs must have been chosen before {seen} was seen.")
        return [*lines, "Nothing is said about whether predictions are right."]

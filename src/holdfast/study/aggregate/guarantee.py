"""Tests of many inputs → one statement about a data set: at least this share of such inputs is stable enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from holdfast.bounds import certified_count, certified_share, check_counts
from holdfast.certification.serialization import Value
from holdfast.errors import InvalidValueError
from holdfast.validation import check_name, check_share
from holdfast.words import calls, event, lower_first

SOURCES = ("fresh", "stored")


@dataclass(frozen=True, eq=False)
class DataSetGuarantee(Value):
    """How many inputs have a stability rate of at least ``min_rate``, at least.

    Two statements, each with probability at least ``confidence`` on its own. ``share`` is about the
    population, and holds if the inputs are independent draws from it; the first few of the data are not, and
    have none. ``count`` is about exactly these inputs. Both take into account that each input is
    certified on its own draws, wrongly with probability at most ``level``. They are void if method, radius,
    rate or inputs were chosen after seeing results; with fresh draws ``count`` may be asked for, once, of a
    study that was seen.

    Attributes
    ----------
    share : float or None
        At least this share of inputs such as these; None if they are the first few of the data.
    count : int
        At least so many of the inputs tested.
    n_inputs, n_certified, n_refuted, n_consistent : int
        Inputs tested, those certified one by one, those whose rate is as surely smaller, and those whose
        explanation alone has the prediction of the full input: a stable explanation of the others may be
        stably wrong.
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
    share: float | None
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
    n_refuted: int = 0

    schema: ClassVar[str] = "holdfast.data_set_guarantee"

    def check(self) -> None:
        """Raise if the statements do not follow from the counts."""
        for name in ("n_certified", "n_refuted"):
            check_counts(getattr(self, name), self.n_inputs, names=(name, "n_inputs"))
        check_counts(self.n_certified + self.n_refuted, self.n_inputs, names=("n_certified + n_refuted", "n_inputs"))
        check_share(self.min_rate, "min_rate")
        check_name(self.source, "source", SOURCES)
        share = certified_share(self.n_certified, self.n_inputs, **self._risks)
        count = certified_count(self.n_certified, self.n_inputs, **self._risks)
        stated = share if self.share is None else self.share
        if not math.isclose(share, stated, abs_tol=1e-9) or count != self.count:
            statement = "and `count` must follow from the counts, the level and the confidence."
            raise InvalidValueError(statement, argument="share")

    @property
    def _risks(self) -> dict[str, float]:
        return {"level": self.level, "confidence": self.confidence}

    def reaches(self, min_share: float) -> bool | None:
        """Whether at least this share of inputs is stable enough; None if the tests cannot tell.

        It is about the population or, where there is no ``share``, about exactly these inputs. Either
        answer is wrong with probability at most one minus the confidence.
        """
        wanted = float(check_share(min_share, "min_share"))
        if self.share is None:
            least = self.count / self.n_inputs
            most = 1 - certified_count(self.n_refuted, self.n_inputs, **self._risks) / self.n_inputs
        else:
            least, most = self.share, 1 - certified_share(self.n_refuted, self.n_inputs, **self._risks)
        return True if least >= wanted else False if most < wanted else None

    def __str__(self) -> str:
        return " ".join([self._claim(), self._evidence(), *self._conditions()])

    def _claim(self) -> str:
        cut = f"{self.method}, top {self.top_fraction:g}"
        cut += f", keep probability {self.keep_probability:g}" if self.keep_probability != 1 else ""
        doing = lower_first(event(self.neighborhood, "uniform", self.radius))
        judged = "" if self.agree == "same_top_class" else f" (as judged by {self.agree})"
        keeps = f"{doing} keeps the prediction on the explanation ({cut}){judged} in at least {self.min_rate} of cases"
        sure, these = (
            f"ith confidence {self.confidence:g}",
            f"at least {self.count} of exactly these {self.n_inputs} inputs",
        )
        if self.share is None:
            return f"W{sure}, for {these} {keeps}."
        share = f"{math.floor(1000 * self.share) / 10:g}%"
        return f"W{sure}, for at least {share} of inputs such as these {keeps}; and w{sure} it does for {these}."

    def _evidence(self) -> str:
        how = f"fresh draws, {calls(self.n_calls)}" if self.source == "fresh" else "the study's own certificates"
        return (
            f"{self.n_certified} were certified one by one, each wrongly with probability at most {self.level:g} "
            f"({how}); {self.n_consistent} explanations alone have the prediction of the full input."
        )

    def _conditions(self) -> list[str]:
        lines = ["The share is about the population that the inputs are independent draws from."]
        if self.share is None:
            lines = ["They are the first of the data, and say nothing of others."]
        left = [f"{self.n_skipped} were left out"] * (self.n_skipped > 0)
        left += [f"{self.n_missing} have no explanation"] * (self.n_missing > 0)
        if left:
            about = "" if self.share is None else ": it is about inputs of which this is not true"
            lines.append(f"Of the study's inputs {' and '.join(left)}{about}.")
        seen = "any result of the study" if self.source == "stored" else "any result for these inputs"
        lines.append(f"Method, radius, rate and inputs must have been chosen before {seen} was seen.")
        return [*lines, "Nothing is said about whether predictions are right."]

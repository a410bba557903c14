"""``holdfast check``: a gate for continuous integration, with its answer as exit code, sentence, JSON and JUnit XML."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree

from holdfast.atomic import write_whole
from holdfast.certification.radius import certified_radius
from holdfast.cli.options import EXIT_ERROR, EXIT_NO, EXIT_OK, EXIT_UNKNOWN, INPUT_SETTINGS, add_settings, error_message
from holdfast.cli.single import add_input, add_output, add_verb_options, bind_input, describe, read_explanation
from holdfast.distributions.distribution import UNEQUAL
from holdfast.errors import HoldfastError
from holdfast.words import quoted

HOLDS, DOES_NOT_HOLD, CANNOT_TELL, ERROR = "holds", "does not hold", "cannot tell", "error"
CODES = {HOLDS: EXIT_OK, DOES_NOT_HOLD: EXIT_NO, CANNOT_TELL: EXIT_UNKNOWN, ERROR: EXIT_ERROR}

_KEYWORDS = ("neighborhood", "rng", "max_draws")

_ELEMENTS = {DOES_NOT_HOLD: "failure", CANNOT_TELL: "failure", ERROR: "error"}
"""What JUnit calls it. It has no word for "cannot tell", and "skipped" would pass unnoticed."""


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what the command does, and add its options."""
    parser.description = (
        "Test whether the prediction stays in at least --min-rate of cases when up to --radius more features are "
        "revealed. Either answer is wrong with probability at most 1 - confidence."
    )
    parser.epilog = (
        "Example: holdfast check --model hf:my-vit --input cat.png --method lime --top 0.25 --radius 10 --min-rate 0.9 "
        "--output check.xml\nExit codes: 0 yes, 1 no, 2 undecided, 3 error."
    )
    add_input(parser)
    add_verb_options(parser, ("explanation", "radius", "min_rate", "confidence", "agree"))
    purpose = "also require that the explanation alone has the prediction of the full input"
    parser.add_argument("--consistent", action="store_true", help=purpose)
    add_settings(parser, (*INPUT_SETTINGS, "n_samples", *_KEYWORDS, "name"))
    add_output(parser, "a JUnit report if it ends in .xml")
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class Verdict:
    """What a gate says of one explanation, with its ``RadiusCertificate`` as JSON values; None for an error."""

    name: str
    answer: str
    reason: str
    seconds: float
    certificate: dict[str, Any] | None = None
    needs_consistent: bool = False

    def to_json(self) -> str:
        plain = {"schema": "holdfast.check", **asdict(self), "seconds": round(self.seconds, 3)}
        return json.dumps(plain | {"exit_code": CODES[self.answer]})

    def to_junit(self) -> str:
        """A JUnit test suite of one test case."""
        kind, seconds = _ELEMENTS.get(self.answer), f"{self.seconds:.3f}"
        counts = {f"{word}s": str(int(kind == word)) for word in ("failure", "error")}
        suite = ElementTree.Element("testsuite", {"name": "holdfast check", "tests": "1", **counts, "time": seconds})
        named = {"classname": "holdfast.check", "name": printable(self.name), "time": seconds}
        case = ElementTree.SubElement(suite, "testcase", named)
        message = {"type": self.answer, "message": f"{self.answer}: {printable(self.reason)}"} if kind else {}
        ElementTree.SubElement(case, kind or "system-out", message).text = printable(self.reason)
        xml: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
        return xml.decode()


def printable(text: str) -> str:
    """The text with what XML cannot hold shown as escapes."""
    barred = "[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    return re.sub(barred, lambda letter: f"\\x{ord(letter[0]):02x}", text)


def run(options: argparse.Namespace) -> int:
    """Decide, report, and end with the code of the answer; whatever goes wrong is an error, never an answer."""
    start, certificate = time.perf_counter(), None
    try:
        inputs, model = bind_input(options)
        selected = read_explanation(options.explanation, options, inputs, model)
        question = {name: getattr(options, name) for name in ("min_rate", "confidence", "agree")}
        question["radii"] = [options.radius]
        settings = {name: value for name, value in options.settings.items() if name in _KEYWORDS}
        result = certified_radius(model, selected, **({"rng": "canonical"} | question | settings))
        answer, reason = in_words(result, needs_consistent=options.consistent)
        certificate = json.loads(result.to_json(describe(options, inputs, model, selected)))
    except (HoldfastError, OSError) as error:
        answer, reason = ERROR, error_message(error, options)
    except Exception as error:  # a model may raise anything, and Python would end with the code of "does not hold"
        traceback.print_exc()
        answer, reason = ERROR, f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    name = options.settings.get("name", "explanation")
    verdict = Verdict(name, answer, reason, seconds, certificate, needs_consistent=options.consistent)
    # The answer is printed first: a file that cannot be written must not swallow it.
    if answer == ERROR:
        print(f"holdfast: {reason}", file=sys.stderr)
    if options.json:
        print(verdict.to_json(), flush=True)
    elif answer != ERROR:
        print(f"{answer.capitalize()}: {reason}", flush=True)
    for file in options.output:
        write_whole(file, verdict.to_junit() if file.lower().endswith(".xml") else verdict.to_json() + "\n")
    return CODES[answer]


def in_words(result: Any, *, needs_consistent: bool) -> tuple[str, str]:
    """The answer of a test at one radius, and why."""
    step = result.trail[0]
    counts = f"{step.n_agreed} of {step.n_evaluated} {'masks' if step.exact else 'draws'} keep the prediction"
    if step.answer and needs_consistent and not result.consistent:
        alone = quoted(result.prediction, result.prediction_name)
        other = f"The explanation alone gets {alone}, and the full input another prediction."
        return DOES_NOT_HOLD, f"{other} {counts}. {result}"
    if step.answer:
        return HOLDS, f"{counts}. {result}"
    if step.answer is None:
        more = "Allow more with --set max_draws=N, or ask for another --min-rate"
        close = f"too close to {result.min_rate} to tell at confidence {result.confidence}"
        return CANNOT_TELL, f"{counts}: {close}. {more}."
    sure = "all masks were counted" if step.exact else f"so with confidence {result.confidence} the rate is smaller"
    if step.exact and result.neighborhood.startswith(UNEQUAL):
        sure = "each mask is weighed by its probability"
    return DOES_NOT_HOLD, f"{counts} at radius {step.radius}, below {result.min_rate}: {sure}."

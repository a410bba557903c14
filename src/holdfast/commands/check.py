"""``holdfast check``: a gate for continuous integration that asks whether a stability rate is reached."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from typing import Any

from holdfast.commands.errors import error_message
from holdfast.commands.parsing import Commands, add_explanation, add_input, add_question, asked, parse_target
from holdfast.commands.verdict import CANNOT_TELL, DOES_NOT_HOLD, ERROR, HOLDS, Verdict
from holdfast.errors import HoldfastError


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "check",
        help="gate for CI: is an explanation stable enough?",
        description="Test, one-sided and exactly, whether the prediction is kept in at least --min-rate of the cases "
        "when up to --radius more features are revealed. A wrong 'holds' has probability at most 1 - confidence, and "
        "so has a wrong 'does not hold'.",
        epilog="Exit codes: 0 it holds, 1 it does not, 2 cannot tell within --max-draws, 3 an error. "
        "Example: holdfast check --model hf:my-vit --image cat.png --method lime --top-fraction 0.25 "
        "--radius 10 --min-rate 0.9 --junit check.xml",
    )
    add_input(parser)
    add_explanation(parser)
    ask = parser.add_argument_group("question")
    ask.add_argument("--radius", type=int, required=True, help="how many more features may be revealed")
    ask.add_argument("--min-rate", type=float, required=True, help="the rate to be reached, strictly between 0 and 1")
    ask.add_argument("--max-draws", type=int, help="most draws before the answer is 'cannot tell'")
    ask.add_argument(
        "--consistent", action="store_true", help="also require that the explanation alone is predicted like the input"
    )
    add_question(ask, "confidence", "agree", "neighborhood")
    out = parser.add_argument_group("report")
    out.add_argument("--name", default="explanation", help="what the check is called in reports")
    out.add_argument("--junit", metavar="FILE", type=parse_target, help="also write a JUnit test report")
    out.add_argument("--output", metavar="FILE", type=parse_target, help="also write the verdict as JSON")
    out.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Decide, report, and end with the code of the answer; whatever goes wrong is an error, never an answer."""
    start = time.perf_counter()
    try:
        answer, reason, certificate = decide(options)
    except Exception as error:  # a model may raise anything, and Python would end with the code of "does not hold"
        answer, reason, certificate = ERROR, _reason(error, options), None
    seconds = time.perf_counter() - start
    verdict = Verdict(options.name, answer, reason, seconds, certificate, needs_consistent=options.consistent)
    _report(verdict, options)
    return verdict.exit_code


def decide(options: argparse.Namespace) -> tuple[str, str, dict[str, Any]]:
    """The answer, the reason in words, and the certificate."""
    from holdfast.certification.radius import certified_radius
    from holdfast.commands.inputs import bind_named, choose_selection, describe

    model, classes = bind_named(options)
    selected = choose_selection(options, model)
    result = certified_radius(
        model,
        selected,
        min_rate=options.min_rate,
        radii=[options.radius],
        max_draws=options.max_draws,
        **asked(options),
    )
    answer, reason = in_words(result, needs_consistent=options.consistent)
    return answer, reason, json.loads(result.to_json(describe(options, model, classes, selected)))


def in_words(result: Any, *, needs_consistent: bool) -> tuple[str, str]:
    """The answer of a test at one radius, and why."""
    step = result.trail[0]
    counts = f"{step.n_agreed} of {step.n_evaluated} {'masks' if step.exact else 'draws'} keep the prediction"
    if step.answer and needs_consistent and not result.consistent:
        other = f"The explanation alone gets {result.prediction!r}, and the full input another prediction."
        return DOES_NOT_HOLD, f"{other} {counts}. {result}"
    if step.answer:
        return HOLDS, f"{counts}. {result}"
    if step.answer is None:
        more = "Allow more with --max-draws, or ask for another --min-rate"
        close = f"too close to {result.min_rate} to tell at confidence {result.confidence}"
        return CANNOT_TELL, f"{counts}: {close}. {more}."
    sure = "which is the rate itself" if step.exact else f"so with confidence {result.confidence} the rate is smaller"
    return DOES_NOT_HOLD, f"{counts} at radius {step.radius}, below {result.min_rate}: {sure}."


def _reason(error: Exception, options: argparse.Namespace) -> str:
    """What went wrong; a surprise comes with its traceback."""
    if isinstance(error, (HoldfastError, OSError)):
        return error_message(error, options)
    traceback.print_exc()
    return f"{type(error).__name__}: {error}"


def _report(verdict: Verdict, options: argparse.Namespace) -> None:
    """Print the answer, then write it where asked: a file that cannot be written must not swallow it."""
    from holdfast.atomic import write_whole

    _print(verdict, options)
    if options.junit:
        write_whole(options.junit, verdict.to_junit())
    if options.output:
        write_whole(options.output, verdict.to_json() + "\n")


def _print(verdict: Verdict, options: argparse.Namespace) -> None:
    if verdict.answer == ERROR:
        print(f"holdfast: {verdict.reason}", file=sys.stderr)
    if options.json:
        print(verdict.to_json(), flush=True)
    elif verdict.answer != ERROR:
        print(f"{verdict.answer.capitalize()}: {verdict.reason}", flush=True)

"""Command line → library calls → text."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from holdfast import __version__
from holdfast.cli.options import EXIT_CODES, EXIT_ERROR, EXIT_INTERRUPTED, EXIT_OK, Parser, check_targets, error_message
from holdfast.errors import HoldfastError
from holdfast.memory import keep_memory
from holdfast.terminal import TerminalBar, neutral_streams, watching_search

_COMMANDS = {
    "demo": ("demo", "study the bundled models and write a report, in three minutes"),
    "explain": ("single", "score how much each feature of an input matters"),
    "certify": ("single", "certify one explanation of one image, text, table row or context"),
    "curve": ("single", "certify one explanation at several radii"),
    "radius": ("single", "find the radius up to which an explanation is stable enough"),
    "witness": ("single", "find the fewest features that change the prediction"),
    "compare": ("single", "compare the stability of several explanations of one input"),
    "citations": ("single", "certify whether an answer rests on the passages that it cites"),
    "check": ("check", "gate for CI: is an explanation stable enough?"),
    "verify": ("stored", "check a stored result: ask its question again"),
    "show": ("stored", "print a stored result and what it says"),
    "study": ("study", "whole data sets: init, plan, run, status, export, merge, summary, trusted, guarantee, report"),
    "reproduce": ("reproduce", "carry out experiments of the paper"),
    "explore": ("explore", "explore explanations in the browser: reveal features, certify, find changes"),
    "bench": ("bench", "measure how fast a model is and what a certificate costs"),
}
"""Commands: the module of this package that fills in each one's options, and what it is for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with neutral_streams(), watching_search(SearchNotice()):
        words = sys.argv[1:] if arguments is None else list(arguments)
        if not words:
            command_parser("").print_help(sys.stderr)
            return EXIT_ERROR
        # Only the command that is named is loaded, with all that it can do.
        options = command_parser(words[0]).parse_args(words)
        keep_memory()
        try:
            check_targets(options)
            code: int | None = options.run(options)  # none where there is no question to be answered
            return EXIT_OK if code is None else code
        except KeyboardInterrupt as stop:
            print(" ".join(["holdfast: Interrupted.", *getattr(stop, "__notes__", ())]), file=sys.stderr)
            return EXIT_INTERRUPTED
        except BrokenPipeError:
            # The reader has gone (`holdfast demo | head`): what Python still holds for it goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_OK
        except (HoldfastError, OSError) as error:
            print(f"holdfast: {error_message(error, options)}", file=sys.stderr)
            return EXIT_ERROR
        except Exception:  # Python itself would end with 1, which is an answer here
            traceback.print_exc()
            return EXIT_ERROR


class SearchNotice:
    """What is said while a stopping design is searched for: one line, and a bar on a terminal."""

    _bar: TerminalBar | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None and done < total:
            self._bar = TerminalBar(what="steps")
            print("Searching for a stopping design; it is stored for the next time. Ctrl-C stops.", file=sys.stderr)
        if self._bar is not None and sys.stderr.isatty():
            self._bar(done, total)
        if done >= total:
            self._bar = None


def command_parser(first_word: str | None = None) -> argparse.ArgumentParser:
    """Everything that the command line understands; of one command alone, if its name comes first."""
    parser = Parser(
        prog="holdfast",
        description="Does this explanation hold fast? Certify how often a prediction survives when more features "
        "are revealed than an explanation selected.",
        epilog="Example: holdfast certify --model bundled:vader --input 'text:what a good day' --method lime --top 1 "
        f"--radius 2\n`holdfast COMMAND --help` shows the options of a command. {EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, purpose) in _COMMANDS.items():
        command = commands.add_parser(name, help=purpose)
        if first_word in (None, name):
            import_module(f"holdfast.cli.{module}").fill(command, name)
    return parser

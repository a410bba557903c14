"""Command line → library calls → text."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module

from holdfast import __version__
from holdfast.commands.codes import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_OK, IN_WORDS
from holdfast.commands.errors import error_message
from holdfast.commands.parsing import Parser, check_targets
from holdfast.errors import HoldfastError
from holdfast.terminal import TerminalBar, neutral_streams, watching_search

_COMMANDS = ("demo", "certify", "compare", "check", "verify", "study", "reproduce", "explore", "bench")
"""Modules of ``holdfast.commands``; ``verify`` has ``show`` as well."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with neutral_streams(), watching_search(SearchNotice()):
        words = sys.argv[1:] if arguments is None else list(arguments)
        options = command_parser(*words[:1]).parse_args(words)
        return _run(options.run, options)


def _run(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        check_targets(options)
        return command(options)
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

    def __init__(self) -> None:
        self._bar: TerminalBar | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None and done < total:
            self._bar = TerminalBar(what="steps")
            print("Searching a stopping design, once; it is kept for the next time. Ctrl-C ends it.", file=sys.stderr)
        if self._bar is not None and sys.stderr.isatty():
            self._bar(done, total)
        if done >= total:
            self._bar = None


def command_parser(first_word: str = "") -> argparse.ArgumentParser:
    """Everything that the command line understands; no more than one command, if its name comes first."""
    parser = Parser(
        prog="holdfast",
        description="Does this explanation hold fast? Certify how often a prediction survives when more features "
        "are revealed than an explanation selected.",
        epilog=IN_WORDS,
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (first_word,) if first_word in _COMMANDS else _COMMANDS:
        import_module(f"holdfast.commands.{command}").add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())

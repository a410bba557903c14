"""``holdfast study init`` and ``holdfast study plan``: write a study down, and see what it will cost."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.parsing import Commands
from holdfast.errors import InvalidValueError


def add(study: Commands) -> None:
    """Add both sub-commands."""
    _add_init(study)


def _add_init(study: Commands) -> None:
    parser = study.add_parser("init", help="write a study with every key explained, to be edited")
    parser.add_argument("file", nargs="?", default="study.toml", help="where to (default: %(default)s; - for stdout)")
    parser.add_argument("--model", metavar="SPEC", help="the model to put in")
    parser.add_argument("--data", metavar="SPEC", help="the data to put in")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.set_defaults(run=init)


def init(options: argparse.Namespace) -> int:
    """Write the commented example."""
    from holdfast.study.spec_file import commented_example

    text = commented_example(model=options.model, data=options.data)
    if options.file == "-":
        print(text, end="")
        return EXIT_OK
    path = Path(options.file)
    if path.exists() and not options.force:
        raise InvalidValueError(f"{str(path)!r} is there already. Choose another name, or write over it with --force.")
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}. Edit it, then: holdfast study plan {path}")
    return EXIT_OK

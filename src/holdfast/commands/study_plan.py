"""``holdfast study init`` and ``holdfast study plan``: write a study down, and see what it will cost."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.parsing import Commands
from holdfast.commands.trusting import add_trust, announce, read_trust
from holdfast.errors import InvalidValueError

if TYPE_CHECKING:
    from holdfast.study.spec import StudySpec


def add(study: Commands) -> None:
    """Add both sub-commands."""
    _add_init(study)
    _add_plan(study)


def _add_init(study: Commands) -> None:
    parser = study.add_parser("init", help="write a study with every key explained, to be edited")
    parser.add_argument("file", nargs="?", default="study.toml", help="where to (default: %(default)s; - for stdout)")
    parser.add_argument("--model", metavar="SPEC", help="the model to put in")
    parser.add_argument("--data", metavar="SPEC", help="the data to put in")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.set_defaults(run=init)


def _add_plan(study: Commands) -> None:
    parser = study.add_parser("plan", help="items, model calls and time of a study, before anything runs")
    parser.add_argument("file", nargs="?", default="study.toml", help="the study (default: %(default)s)")
    add_order(parser)
    parser.add_argument("--assumed-rate", type=float, default=0.9, help="true rate to plan for (default: %(default)s)")
    parser.add_argument("--untimed", action="store_true", help="do not call the model to measure its speed")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_trust(parser)
    parser.set_defaults(run=plan)


def add_order(parser: argparse.ArgumentParser) -> None:
    """Which inputs of the data, where the study takes some of them."""
    told = "random: a sample by the seed; first: the first of the data, which speak of no others (default: the study's)"
    parser.add_argument("--order", choices=["random", "first"], help=told)


def read_study(options: argparse.Namespace) -> StudySpec:
    """The study in the file, in the order that the command line says if it does."""
    from holdfast.study.spec_file import read_spec

    spec = read_spec(options.file, trust=read_trust(options))
    return spec if options.order is None else replace(spec, data=replace(spec.data, order=options.order))


def plan(options: argparse.Namespace) -> int:
    """Print what the study will cost."""
    from holdfast.study.planning import plan_study

    spec = read_study(options)
    announce(options.file, spec)
    found = plan_study(spec, timed=not options.untimed, assumed_rate=options.assumed_rate)
    print(found.to_json() if options.json else found)
    return EXIT_OK


def init(options: argparse.Namespace) -> int:
    """Write the commented example."""
    from holdfast.atomic import check_spared, write_whole
    from holdfast.study.spec_file import commented_example

    text = commented_example(model=options.model, data=options.data)
    if options.file == "-":
        print(text, end="")
        return EXIT_OK
    path = Path(options.file)
    if path.exists() and not options.force:
        raise InvalidValueError(f"{str(path)!r} is there already. Choose another name, or write over it with --force.")
    check_spared(path, "FILE", {"`--model`": [options.model or ""], "`--data`": [options.data or ""]})
    write_whole(path, text)
    trust = " --trust-model" if (options.model or "").startswith("python:") else ""
    print(f"Wrote {path}. Edit it, then: holdfast study plan {path}{trust}")
    return EXIT_OK

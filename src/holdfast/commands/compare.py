"""``holdfast compare``: several explanations of one input."""

from __future__ import annotations

import argparse
import sys

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.parsing import (
    RATE_FIELDS,
    Commands,
    add_cut,
    add_input,
    add_output,
    add_question,
    asked,
    read_radii,
)


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compare",
        help="tell which of several explanations of one input is more stable",
        description="Give several explanations of one input the same draws, and rank them where the draws allow it. "
        "All claims hold together with --confidence.",
        epilog="Example: holdfast compare --model hf:my-vit --image cat.png --method lime --method shap "
        "--selected mine=mask.npy --top-fraction 0.25 --radii 1,5,10",
    )
    add_input(parser)
    which = parser.add_argument_group("explanations (two or more; each may be repeated)")
    named = "[NAME=]FILE"
    which.add_argument("--selected", action="append", default=[], metavar=named, help="a mask: one 0/1 per feature")
    which.add_argument("--scores", action="append", default=[], metavar=named, help="one score per feature")
    which.add_argument("--method", action="append", default=[], metavar="NAME", help="lime, shap, …: explain it now")
    add_cut(parser)
    ask = parser.add_argument_group("question")
    ask.add_argument("--radii", type=read_radii, required=True, metavar="1,5,10", help="or a span such as 1-10")
    add_question(ask, *RATE_FIELDS[:-1], plan="exact")
    add_output(parser, "comparison")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare, print, and write if asked."""
    from holdfast.atomic import write_whole
    from holdfast.certification.comparison import compare
    from holdfast.commands.inputs import bind_named, choose_selections, describe

    model, classes = bind_named(options)
    explanations, shows_progress = choose_selections(options, model), sys.stderr.isatty() or None
    comparison = compare(model, explanations, options.radii, progress=shows_progress, **asked(options))
    about = describe(options, model, classes)
    if options.output:
        write_whole(options.output, comparison.to_json(about) + "\n")
    print(comparison.to_json(about) if options.json else comparison)
    return EXIT_OK

"""``holdfast certify``: one explanation of one input."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.parsing import RATE_FIELDS, Commands, add_explanation, add_input, add_output, add_question, asked

if TYPE_CHECKING:
    from holdfast.certification.certificate import Certificate
    from holdfast.evaluation import Evaluator


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "certify",
        help="certify one explanation of one image, text or table row",
        description="Show the model only what an explanation selected, reveal up to --radius more features at random, "
        "and certify how often the prediction stays, within --tolerance at --confidence.",
        epilog="Example: holdfast certify --model hf:my-vit --image cat.png --grid 14x14 --scores lime.npy "
        "--top-fraction 0.25 --radius 10 --output cert.json",
    )
    add_input(parser)
    add_explanation(parser)
    ask = parser.add_argument_group("question")
    ask.add_argument("--radius", type=int, required=True, help="how many more features may be revealed")
    add_question(ask, *RATE_FIELDS)
    add_output(parser, "certificate")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Certify, print, and write if asked."""
    from holdfast.atomic import write_whole
    from holdfast.certification.certificate import certify
    from holdfast.commands.inputs import bind_named, choose_selection, describe

    model, classes = bind_named(options)
    selected = choose_selection(options, model)
    shows_progress = sys.stderr.isatty() or None
    certificate = certify(model, selected, radius=options.radius, progress=shows_progress, **asked(options))
    about = describe(options, model, classes, selected)
    if options.output:
        write_whole(options.output, certificate.to_json(about) + "\n")
    told = str(certificate) + _sameness(model, certificate)
    print(certificate.to_json(about) if options.json else told)
    return EXIT_OK


def _sameness(model: Evaluator, certificate: Certificate) -> str:
    """A stable explanation says little of a model that says the same of nothing at all; one more row tells."""
    from holdfast.agreement import as_agreement

    if certificate.n_agreed < certificate.n_evaluated or not certificate.consistent:
        return ""
    outputs = model(np.stack([certificate.selected, np.zeros_like(certificate.selected)]))
    agrees = as_agreement(certificate.agree)(outputs, outputs[0])
    return " The model says the same with nothing shown." if agrees[1] else ""

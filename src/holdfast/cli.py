"""Command line → library calls → text."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast import __version__
from holdfast.errors import HoldfastError

EXIT_OK, EXIT_NO, EXIT_ERROR = 0, 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.run
    try:
        return command(options)
    except (HoldfastError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader has gone (`holdfast demo | head`): what Python still holds for it goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_OK
        print(f"holdfast: {error}", file=sys.stderr)
        return EXIT_ERROR


def _demo(options: argparse.Namespace) -> int:
    from holdfast.demo import run_demo

    for line in run_demo(radius=options.radius, rng=options.rng):
        print(line, flush=True)
    return EXIT_OK


def _certify(options: argparse.Namespace) -> int:
    from holdfast.certification import certify
    from holdfast.question import bind_input, read_selection

    model = bind_input(options)
    certificate = certify(
        model,
        read_selection(options, model.n_features),
        radius=options.radius,
        tolerance=options.tolerance,
        confidence=options.confidence,
        plan=options.plan,
        agree=options.agree,
        neighborhood=options.neighborhood,
        rate_kind=options.rate_kind,
        batch_size=options.batch_size,
        progress=sys.stderr.isatty() or None,
        rng=options.rng,
    )
    if options.output:
        Path(options.output).write_text(certificate.to_json() + "\n", encoding="utf-8")
    print(certificate.to_json() if options.json else certificate)
    return EXIT_OK


def _verify(options: argparse.Namespace) -> int:
    from holdfast.certification import recheck
    from holdfast.question import bind_input
    from holdfast.results import Certificate

    certificate = Certificate.from_json(Path(options.certificate).read_text(encoding="utf-8"))
    found = recheck(bind_input(options), certificate, batch_size=options.batch_size)
    print(found.to_json() if options.json else found)
    return EXIT_OK if found.confirmed else EXIT_NO


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="Does this explanation hold fast? Certify how often a prediction survives when more features "
        "are revealed than an explanation selected.",
        epilog="Exit codes: 0 done, 1 not confirmed, 2 wrong usage, 3 an error in what was given.",
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="certify explanations of a scikit-learn model, a minute's first look")
    demo.add_argument("--radius", type=int, default=8, help="pixels that may be revealed (default: %(default)s)")
    demo.add_argument("--rng", type=int, default=0, help="seed of the draws (default: %(default)s)")
    demo.set_defaults(run=_demo)
    _add_certify(commands)
    _add_verify(commands)
    return parser


def _add_certify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "certify",
        help="certify one explanation of one image, text or table row",
        epilog="Example: holdfast certify --model hf:my-vit --image cat.png --grid 14x14 --scores lime.npy "
        "--top-fraction 0.25 --radius 10 --output cert.json",
    )
    _add_input(parser)
    which = parser.add_argument_group("explanation (one of)")
    which.add_argument("--selected", metavar="FILE", help="mask: one 0/1 or true/false per feature (.npy, .csv, .json)")
    which.add_argument("--scores", metavar="FILE", help="one score per feature, with --top or --top-fraction")
    parser.add_argument("--top", type=int, metavar="K", help="select the K features with the largest scores")
    parser.add_argument("--top-fraction", type=float, metavar="Q", help="select this share of the features")
    ask = parser.add_argument_group("question")
    ask.add_argument("--radius", type=int, required=True, help="how many more features may be revealed")
    ask.add_argument("--tolerance", type=float, default=0.1, help="default: %(default)s")
    ask.add_argument("--confidence", type=float, default=0.9, help="default: %(default)s")
    ask.add_argument("--plan", default="sequential", help="sequential, exact or hoeffding (default: %(default)s)")
    ask.add_argument("--agree", default="same_top_class", help="or same_top_set(k), within(margin)")
    ask.add_argument("--neighborhood", default="additions", help="additions, removals or swaps")
    ask.add_argument("--rate-kind", default="uniform", help="uniform, exactly or worst_size")
    ask.add_argument("--rng", type=int, default=None, help="seed of the draws (default: fresh; stored in the result)")
    parser.add_argument("--output", metavar="FILE", help="also write the certificate as JSON")
    parser.set_defaults(run=_certify)


def _add_verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("verify", help="repeat the draws of a stored certificate and compare the counts")
    parser.add_argument("certificate", metavar="CERT", help="JSON file written by `holdfast certify --output`")
    _add_input(parser)
    parser.set_defaults(run=_verify)


def _add_input(parser: argparse.ArgumentParser) -> None:
    """What both commands need to know: the model, the input and what hidden features look like."""
    model = parser.add_argument_group("model and input")
    model.add_argument("--model", required=True, metavar="SPEC", help="hf:…, onnx:…, skops:… or python:module:factory")
    model.add_argument("--kind", choices=["image", "text", "table"], help="where the model leaves it open")
    model.add_argument("--device", help="such as cuda (default: the CPU)")
    model.add_argument("--trust", action="append", default=[], metavar="TYPE", help="a type a skops file may create")
    given = model.add_mutually_exclusive_group(required=True)
    given.add_argument("--image", metavar="FILE", help="an image")
    given.add_argument("--text", metavar="TEXT", help="a text")
    given.add_argument("--table", metavar="CSV", help="a table, with --row")
    model.add_argument("--row", type=int, default=0, help="row of the table, from 0 (default: %(default)s)")
    model.add_argument("--target", metavar="COLUMN", help="column of the table that is no feature")
    model.add_argument(
        "--background", metavar="CSV", help="rows that hidden columns are filled from (default: --table)"
    )
    model.add_argument("--grid", metavar="ROWSxCOLS", help="patches of an image, such as 14x14")
    model.add_argument("--features", choices=["tokens", "words"], help="features of a text")
    model.add_argument("--fill", help="what hidden features look like: a number or a name, such as mean, blur, drop")
    parser.add_argument("--batch-size", type=int, help="most masks per model call")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")


if __name__ == "__main__":
    sys.exit(main())

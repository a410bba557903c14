"""``holdfast verify``: the draws of a stored certificate again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.commands.codes import EXIT_NO, EXIT_OK
from holdfast.commands.parsing import Commands, add_input
from holdfast.errors import InvalidValueError
from holdfast.validation import read_text

if TYPE_CHECKING:
    from holdfast.results import Certificate


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="repeat the draws of a stored certificate and compare the counts",
        description="Repeat the draws of a stored certificate on the model and the input it is about, with the options "
        "they were given by, and compare counts, predictions and fingerprints.",
        epilog="Exit codes: 0 confirmed, 1 not confirmed, 3 an error. Example: holdfast verify cert.json "
        "--model hf:my-vit --image cat.png --grid 14x14",
    )
    parser.add_argument("certificate", metavar="CERT", help="JSON file written by `holdfast certify --output`")
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Repeat the draws and say whether the counts are the same."""
    from holdfast.certification import recheck
    from holdfast.question import bind_input

    certificate = _read(options.certificate)
    found = recheck(bind_input(options), certificate, batch_size=options.batch_size)
    print(found.to_json() if options.json else found)
    return EXIT_OK if found.confirmed else EXIT_NO


def _read(file: str) -> Certificate:
    from holdfast.results import Certificate

    try:
        return Certificate.from_json(read_text(Path(file)))
    except ValueError as error:
        raise InvalidValueError(f"{file!r} is no certificate that can be verified: {error}") from error

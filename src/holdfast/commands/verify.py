"""``holdfast verify``: the draws of a stored certificate again."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.commands.codes import EXIT_NO, EXIT_OK
from holdfast.commands.parsing import Commands, add_input


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("verify", help="repeat the draws of a stored certificate and compare the counts")
    parser.add_argument("certificate", metavar="CERT", help="JSON file written by `holdfast certify --output`")
    add_input(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Repeat the draws and say whether the counts are the same."""
    from holdfast.certification import recheck
    from holdfast.question import bind_input
    from holdfast.results import Certificate

    certificate = Certificate.from_json(Path(options.certificate).read_text(encoding="utf-8"))
    found = recheck(bind_input(options), certificate, batch_size=options.batch_size)
    print(found.to_json() if options.json else found)
    return EXIT_OK if found.confirmed else EXIT_NO

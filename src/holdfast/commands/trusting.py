"""What a study or a file of results names, and how far the command line trusts it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.study.spec import StudySpec, Trust


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Options that let the model of a file do more than being read from this machine."""
    trust = parser.add_argument_group("trust in the model that the file names")
    trust.add_argument("--trust-model", action="store_true", help="run the code of a python: model")
    trust.add_argument("--trust", action="append", default=[], metavar="TYPE", help="a type a skops file may create")
    trust.add_argument("--download", action="store_true", help="download a hf: model that is not in the cache")


def read_trust(options: argparse.Namespace) -> Trust:
    """What the command line trusts."""
    from holdfast.study.spec import Trust

    return Trust(options.trust_model, tuple(dict.fromkeys(options.trust)), options.download)


def announce(file: object, spec: StudySpec, *, model: bool = True) -> None:
    """Say on stderr what is about to be loaded because a file names it; control characters are escaped."""
    what = f"the model {spec.model.spec!r} and the data" if model else "the data"
    print(f"holdfast: Loading {what} {spec.data.spec!r}, as {str(file)!r} names them.", file=sys.stderr, flush=True)

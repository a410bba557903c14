"""``holdfast study summary``: what a file of results says as a whole."""

from __future__ import annotations

import argparse

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.parsing import Commands


def add(study: Commands) -> None:
    """Add the sub-command."""
    parser = study.add_parser(
        "summary",
        help="mean rates, hard and MuS rates per method, and which methods differ",
        description="Means over the inputs at each radius, with two intervals: one that is guaranteed for the "
        "population that the inputs are independent draws from, and the percentile bootstrap, which is approximate.",
    )
    parser.add_argument("results", metavar="RESULTS", help="the file of results")
    parser.add_argument("--confidence", type=float, default=0.95, help="of each interval (default: %(default)s)")
    parser.add_argument("--n-resamples", type=int, default=1000, help="of the bootstrap (default: %(default)s)")
    parser.add_argument("--rng", type=int, default=0, help="seed of the bootstrap (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=show_summary)


def show_summary(options: argparse.Namespace) -> int:
    """Print the summary."""
    from holdfast.study.aggregate import summarize_study

    found = summarize_study(
        options.results, confidence=options.confidence, n_resamples=options.n_resamples, rng=options.rng
    )
    print(found.to_json() if options.json else found)
    return EXIT_OK

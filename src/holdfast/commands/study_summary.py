"""``holdfast study summary`` and ``holdfast study guarantee``: what a file of results says as a whole."""

from __future__ import annotations

import argparse
import sys

from holdfast.commands.codes import EXIT_NO, EXIT_OK, EXIT_UNKNOWN
from holdfast.commands.parsing import Commands
from holdfast.commands.trusting import add_trust, announce, read_trust


def add(study: Commands) -> None:
    """Add both sub-commands."""
    _add_summary(study)
    _add_guarantee(study)


def _add_summary(study: Commands) -> None:
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


def _add_guarantee(study: Commands) -> None:
    parser = study.add_parser(
        "guarantee",
        help="at least how many inputs have explanations that are stable enough",
        description="Test every stored explanation of a method, one-sided and on draws of its own: is the prediction "
        "kept in at least --min-rate of the cases at --radius? Then say for how many inputs it truly is, at least: of "
        "the population that the inputs are independent draws from, and of exactly these inputs; of these alone if "
        "they are the first of the data.",
        epilog="Fix the question before looking at results. Example: "
        "holdfast study guarantee study.db --method lime --radius 5 --min-rate 0.9 --min-share 0.8. "
        "Exit codes with --min-share: 0 yes, 1 no, 2 undecided, 3 error.",
    )
    parser.add_argument("results", metavar="RESULTS", help="the file of results")
    parser.add_argument("--method", required=True, help="the explanation method")
    parser.add_argument("--radius", type=int, required=True, help="how many more features may be revealed")
    parser.add_argument("--min-rate", type=float, required=True, help="the rate to be reached, between 0 and 1")
    parser.add_argument("--min-share", type=float, help="also answer whether this share of inputs reaches it")
    parser.add_argument("--confidence", type=float, default=0.9, help="of each statement (default: %(default)s)")
    parser.add_argument("--level", type=float, help="risk of a wrong yes per input (default: 0.02; not with --stored)")
    parser.add_argument("--top-fraction", type=float, metavar="Q", help="which cut, if the study has several")
    parser.add_argument("--keep-probability", type=float, metavar="P", help="which smoothing, if it has several")
    parser.add_argument(
        "--stored",
        action="store_true",
        help="use the stored certificates, at the level of their confidence, and do not call the model",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_trust(parser)
    parser.set_defaults(run=show_guarantee)


def show_guarantee(options: argparse.Namespace) -> int:
    """Print the guarantee; with a share that is wanted, the exit code says whether it is reached."""
    from holdfast.study.aggregate import study_guarantee
    from holdfast.study.spec_file import spec_from_plain
    from holdfast.study.store import Store
    from holdfast.validation import check_share

    names = ("method", "radius", "min_rate", "confidence", "level", "top_fraction", "keep_probability", "stored")
    asked = {name: getattr(options, name) for name in names} | {"trust": read_trust(options)}
    if options.min_share is not None:
        check_share(options.min_share, "min_share")  # before the model is called
    with Store(options.results) as store:
        if not options.stored:
            announce(options.results, spec_from_plain(store.spec))
        found = study_guarantee(store, **asked, progress=sys.stderr.isatty() and not options.json)
    print(found.to_json() if options.json else found)
    if options.min_share is None:
        return EXIT_OK
    answer = found.reaches(options.min_share)
    if not options.json:
        whose = "exactly these inputs" if found.share is None else "inputs such as these"
        print(f"At least {100 * options.min_share:g}% of {whose}: {_ANSWERS[answer]}.")
    return {True: EXIT_OK, False: EXIT_NO, None: EXIT_UNKNOWN}[answer]


_ANSWERS = {True: "yes", False: "no", None: "undecided"}


def show_summary(options: argparse.Namespace) -> int:
    """Print the summary."""
    from holdfast.study.aggregate import summarize_study

    found = summarize_study(
        options.results, confidence=options.confidence, n_resamples=options.n_resamples, rng=options.rng
    )
    print(found.to_json() if options.json else found)
    return EXIT_OK

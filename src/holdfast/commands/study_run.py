"""``holdfast study run``, ``status``, ``export`` and ``merge``: fill a file of results, and use it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.commands.codes import EXIT_INTERRUPTED, EXIT_NO, EXIT_OK
from holdfast.commands.parsing import Commands
from holdfast.commands.study_plan import add_order, read_study
from holdfast.commands.trusting import add_trust, announce

if TYPE_CHECKING:
    from holdfast.study.status import StudyStatus


def add(study: Commands) -> None:
    """Add the sub-commands."""
    _add_run(study)
    status = study.add_parser("status", help="how far a study is; a run may be writing meanwhile")
    status.add_argument("results", metavar="RESULTS", help="the file of results")
    status.add_argument("--json", action="store_true", help="print JSON instead of text")
    status.set_defaults(run=show_status)
    export = study.add_parser("export", help="write results as a table or as JSON")
    export.add_argument("results", metavar="RESULTS", help="the file of results")
    export.add_argument("output", metavar="FILE", help="such as results.parquet, results.csv or results.json")
    export.add_argument("--kind", help="parquet, csv or json (default: what FILE ends with)")
    export.set_defaults(run=export_results)
    merge = study.add_parser("merge", help="put the parts of one study into a new file")
    merge.add_argument("results", metavar="RESULTS", nargs="+", help="files of results")
    merge.add_argument("--output", metavar="FILE", required=True, help="the new file")
    merge.set_defaults(run=merge_results)


def _add_run(study: Commands) -> None:
    parser = study.add_parser(
        "run",
        help="run a study, or what is left of it",
        epilog="Ctrl-C finishes the items that have begun; the same command goes on from there. "
        "Exit codes: 0 complete, 1 stopped early or items given up, 3 an error, 130 interrupted twice.",
    )
    parser.add_argument("file", nargs="?", default="study.toml", help="the study (default: %(default)s)")
    parser.add_argument(
        "--output",
        "--results",
        dest="results",
        metavar="FILE",
        help="file of results (default: beside the study, with .db for .toml)",
    )
    add_order(parser)
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        help="worker processes; 0 for none, with ray for as many as fit (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="most seconds that an item may take, with --workers: then its worker is replaced (default: no limit)",
    )
    parser.add_argument(
        "--inputs-per-worker",
        type=int,
        metavar="N",
        help="replace a worker after so many inputs, with --workers: for models that leak memory (default: never)",
    )
    parser.add_argument("--engine", default="local", help="local or ray (default: %(default)s)")
    _add_ray(parser)
    add_trust(parser)
    parser.add_argument(
        "--inputs", type=parse_inputs, metavar="FROM:TO", help="only these of the study's inputs, such as 0:500"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="show nothing but errors")
    shown.add_argument("--json", action="store_true", help="show progress and the end as JSON lines on stdout")
    parser.set_defaults(run=run)


def _add_ray(parser: argparse.ArgumentParser) -> None:
    ray = parser.add_argument_group("with --engine ray")
    ray.add_argument("--address", help="a cluster: auto, or HOST:PORT (default: one on this machine, for this run)")
    ray.add_argument("--cpus-per-worker", type=float, metavar="N", help="CPUs that each worker reserves (default: 1)")
    ray.add_argument("--gpus-per-worker", type=float, metavar="N", help="GPUs that each worker reserves (default: 0)")


def parse_inputs(text: str) -> range:
    """A half-open span of inputs.

    Examples
    --------
    >>> parse_inputs("0:500")
    range(0, 500)
    """
    span = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text.strip())
    if not span or int(span[1]) >= int(span[2]):
        raise argparse.ArgumentTypeError(f"must be a span such as 0:500 (without 500), got {text!r}")
    return range(int(span[1]), int(span[2]))


def run(options: argparse.Namespace) -> int:
    """Run the study into its file of results; a second Ctrl-C ends it with one line."""
    try:
        return _run(options)
    except KeyboardInterrupt:
        message = "holdfast: Interrupted. What was stored is kept; the same command goes on from there."
        print(f"{_after_bar()}{message}", file=sys.stderr)
        return EXIT_INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    from holdfast.study.run import run_study

    spec = read_study(options)
    if not options.quiet:
        announce(options.file, spec)
    done = run_study(
        spec,
        options.results or Path(options.file).with_suffix(".db"),
        inputs=options.inputs,
        engine=_engine(options),
        workers=options.workers,
        timeout=options.timeout,
        inputs_per_worker=options.inputs_per_worker,
        progress=_progress(options),
    )
    if options.json:
        print(json.dumps(done.plain()))
    elif not options.quiet:
        print(f"{_after_bar()}{done}")
    wanted = options.inputs is not None or done.status.complete
    return EXIT_OK if wanted and not done.stopped and not done.status.failures else EXIT_NO


def _engine(options: argparse.Namespace) -> Any:
    """The engine by its name, or the one on Ray with what the command line says of it."""
    from holdfast.errors import InvalidValueError

    names = ("address", "cpus_per_worker", "gpus_per_worker")
    settings = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if not settings:
        return options.engine
    if options.engine != "ray":
        flag = "--" + next(iter(settings)).replace("_", "-")
        raise InvalidValueError(argument=flag, must="come with `--engine ray`", got=f"`--engine {options.engine}`")
    from holdfast.study.engines import Ray

    return Ray(**settings)


def _progress(options: argparse.Namespace) -> Any:
    from holdfast.study.watching import JsonLines

    if options.json:
        return JsonLines(sys.stdout)
    return sys.stderr.isatty() and not options.quiet


def _after_bar() -> str:
    """The bar stays on the screen; what follows begins on a new line."""
    return "\n" if sys.stderr.isatty() else ""


def show_status(options: argparse.Namespace) -> int:
    """Print how far the study is."""
    from holdfast.study.status import study_status

    status = study_status(options.results)
    print(json.dumps(status.plain()) if options.json else status)
    return EXIT_OK


def export_results(options: argparse.Namespace) -> int:
    """Write the results as a table or as JSON."""
    from holdfast.study.export import export_study
    from holdfast.study.status import study_status

    n_rows = export_study(options.results, options.output, kind=options.kind)
    print(f"Wrote {n_rows} rows to {options.output}.")
    for line in _missing(study_status(options.results)):
        print(line)
    return EXIT_OK


def _missing(status: StudyStatus) -> list[str]:
    """What the study asks for and an export of it does not have."""
    facts = (
        (status.n_left_out, f"items of {len(status.skips)} inputs that were left out"),
        (status.n_given_up, f"items of {len(status.failures)} inputs that were given up"),
        (status.n_to_do - status.n_given_up, "items that are still to do"),
        (status.n_curves - len(status.means), f"of {status.n_curves} mean curves"),
    )
    return [f"Not in it: {count} {what}." for count, what in facts if count > 0]


def merge_results(options: argparse.Namespace) -> int:
    """Put several files of results into one."""
    from holdfast.study.merge import merge_studies

    print(merge_studies(options.results, options.output))
    return EXIT_OK

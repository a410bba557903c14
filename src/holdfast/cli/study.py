"""``holdfast study …``: whole data sets, certified one by one into one file that can be resumed."""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import study
from holdfast.atomic import check_spared, write_whole
from holdfast.cli.options import ANSWERS, EXIT_NO, add_json, add_settings, add_trust, after_bar, paint_path
from holdfast.cli.single import add_plot, add_verb_options, check_drawing, write_pictures
from holdfast.errors import InvalidValueError
from holdfast.study.spec import StudySpec, Trust, commented_example, read_spec
from holdfast.terminal import unescaped
from holdfast.validation import check_share
from holdfast.words import cut_label

_CALIBRATED = ("min_rate", "share", "confidence")


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the sub-commands."""
    parser.description = (
        "Certify many inputs × methods × settings into one file. An interrupted study continues where it stopped."
    )
    parser.epilog = (
        "In this order: holdfast study init study.toml (then edit it); holdfast study plan study.toml; "
        "holdfast study run study.toml; holdfast study summary study.db; holdfast study report study.db."
    )
    commands = parser.add_subparsers(dest="study_command", required=True, metavar="COMMAND")

    def add(name: str, run: Any, purpose: str, reads: Any, json: bool = False, trust: bool = False) -> Any:
        command = commands.add_parser(name, help=purpose)
        command.add_argument(**reads)
        command.set_defaults(run=run)
        if json:
            add_json(command)
        if trust:
            add_trust(command)
        return command

    file = {"dest": "file", "nargs": "?", "default": "study.toml", "help": "the study (default: %(default)s)"}
    results = {"dest": "results", "metavar": "RESULTS", "help": "the file of results"}
    several = results | {"nargs": "+"}
    target = file | {"help": "file to write (default: %(default)s; - for stdout)"}
    init = add("init", init_study, "write an example study with every key explained", target)
    init.add_argument("--model", metavar="SPEC", help="model of the study")
    init.add_argument("--data", metavar="SPEC", help="data of the study")
    init.add_argument("--force", action="store_true", help="overwrite an existing file")

    purpose = "items, model calls and time of a study, before anything runs"
    plan = add("plan", show_plan, purpose, file, json=True, trust=True)
    plan.add_argument("--untimed", action="store_true", help="do not call the model to measure its speed")

    run = add("run", run_results, "run a study, or what is left of it", file, trust=True)
    run.epilog = (
        "Ctrl-C finishes the current item; the same command continues from there.\n"
        "Exit codes: 0 complete, 1 incomplete, 3 error, 130 interrupted at once."
    )
    purpose = "file of results (default: study.db for study.toml)"
    run.add_argument("--output", "--results", dest="results", metavar="FILE", help=purpose)
    purpose = "only some of the inputs, such as 0:500"
    run.add_argument("--inputs", type=parse_inputs, metavar="FROM:TO", help=purpose)
    purpose = "number of worker processes; 0 for none, or with ray as many as fit (default: %(default)s)"
    run.add_argument("--workers", type=int, default=0, help=purpose)
    purpose = "local, or ray: on this machine, ray:auto or ray:HOST:PORT on a cluster (default: %(default)s)"
    run.add_argument("--engine", default="local", help=purpose)
    shown = run.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="print only errors")
    shown.add_argument("--json", action="store_true", help="print progress and result as JSON lines")
    add_settings(
        run,
        timeout="longest time of an item in seconds, with --workers; then its worker is replaced (default: no limit)",
        inputs_per_worker="replace a worker after this many inputs, for models that leak memory (default: never)",
        cpus_per_worker="CPUs that each worker reserves on Ray (default: 1)",
        gpus_per_worker="GPUs that each worker reserves on Ray (default: 0)",
    )

    add("status", show_status, "show the progress of a study, also while it runs", results, json=True)

    export = add("export", export_results, "write results as a table or as JSON", results)
    export.add_argument("output", metavar="FILE", help="results.parquet, results.csv or results.json")

    merge = add("merge", merge_results, "merge the parts of one study into a new file", several)
    merge.add_argument("--output", metavar="FILE", required=True, help="the new file")

    purpose = "mean rates, hard and MuS rates per method, and which methods differ"
    summary = add("summary", show_summary, purpose, results, json=True)
    summary.description = (
        "Mean rates over the inputs at each radius, with two intervals: a guaranteed one, for the population that the "
        "inputs are independent draws from, and the bootstrap, which is approximate."
    )
    summary.add_argument(
        "--confidence", type=float, default=0.95, help="confidence of each interval (default: %(default)s)"
    )
    add_calibrate(summary, "instead, ")
    add_plot(summary)

    purpose = "state how many inputs have stable explanations, at least"
    guarantee = add("guarantee", show_guarantee, purpose, results, json=True, trust=True)
    guarantee.description = (
        "Test every stored explanation of a method with fresh draws: does the prediction stay in at least --min-rate "
        "of cases at --radius? Then state at least how many inputs pass: of these, and of the population that they "
        "are independent draws from. Fix the question before you look at results."
    )
    guarantee.epilog = (
        "Example: holdfast study guarantee study.db --method lime --radius 5 --min-rate 0.9 --min-share 0.8\n"
        "Exit codes with --min-share: 0 yes, 1 no, 2 undecided, 3 error."
    )
    add_verb_options(guarantee, ("method", "radius", "min_rate", "confidence"))
    guarantee.add_argument(
        "--min-share", type=float, help="also answer whether at least this share of inputs is stable"
    )
    stored = "use the stored certificates and do not call the model"
    guarantee.add_argument("--stored", action="store_true", help=stored)
    add_settings(
        guarantee,
        level="risk of a wrong yes per input (default: 0.02; not with --stored)",
        top_fraction="which top_fraction, if the study has several",
        keep_probability="which keep probability, if it has several",
    )

    purpose = "which explanations can be trusted, with one guarantee for the whole list"
    trusted = add("trusted", show_trusted, purpose, results, json=True, trust=True)
    trusted.description = (
        "Test every stored explanation with fresh draws: does the prediction stay in at least --min-rate of cases at "
        "--radius? The whole list holds with --confidence."
    )
    trusted.epilog = "Example: holdfast study trusted study.db --radius 3 --min-rate 0.9"
    add_verb_options(trusted, ("any_method", "radius", "min_rate", "confidence"))
    trusted.add_argument("--stored", action="store_true", help=stored)
    add_settings(
        trusted,
        top_fraction="only this top_fraction",
        keep_probability="only this keep probability",
    )

    purpose = "one self-contained HTML page about one or several studies"
    report = add("report", make_report, purpose, several, trust=True)
    report.add_argument("--output", metavar="FILE", default="report.html", help="the page (default: %(default)s)")
    report.add_argument(
        "--no-model", action="store_true", help="do not load the model; the page then shows no sampled additions"
    )
    add_calibrate(report, "also say ")
    add_settings(
        report,
        title="title of the page (default: the name of the study)",
        n_gallery="number of inputs shown in detail (default: 24)",
        accuracy="also measure the smoothed model's accuracy on this many inputs",
        confidence="confidence of intervals over inputs (default: 0.95)",
    )


def parse_inputs(text: str) -> range:
    """A half-open span of inputs."""
    span = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text.strip())
    if not span or int(span[1]) >= int(span[2]):
        raise argparse.ArgumentTypeError(f"must be a span such as 0:500 (without 500), got {text!r}")
    return range(int(span[1]), int(span[2]))


def read_trust(options: argparse.Namespace) -> Trust:
    """What the command line trusts the model of a file to do."""
    allowed = {word: word in options.trust for word in ("code", "download", "network")}
    types = tuple(dict.fromkeys(word for word in options.trust if word not in allowed))
    return Trust(types=types, **allowed)


def announce(file: object, spec: StudySpec, *, model: bool = True) -> None:
    """Say on stderr what is about to be loaded because a file names it; control characters are escaped."""
    what = f"the model {spec.model.spec!r} and the data" if model else "the data"
    print(f"holdfast: Loading {what} {spec.data.spec!r} from {str(file)!r}.", file=sys.stderr, flush=True)


def init_study(options: argparse.Namespace) -> None:
    """Write the commented example."""
    text = commented_example(model=options.model, data=options.data)
    if options.file == "-":
        print(text, end="")
        return
    path = Path(options.file)
    if path.exists() and not options.force:
        raise InvalidValueError(f"{str(path)!r} already exists. Choose another name, or overwrite it with --force.")
    check_spared(path, "FILE", {"`--model`": [options.model or ""], "`--data`": [options.data or ""]})
    write_whole(path, text)
    trust = " --trust code" if (options.model or "").startswith("python:") else ""
    print(f"Wrote {path}. Edit it, then: holdfast study plan {path}{trust}")


def show_plan(options: argparse.Namespace) -> None:
    """Print what the study will cost."""
    spec = read_spec(options.file, trust=read_trust(options))
    announce(options.file, spec)
    plan = study.plan_study(spec, timed=not options.untimed)
    print(plan.to_json() if options.json else plan)


def run_results(options: argparse.Namespace) -> int | None:
    """Run the study into its file of results; a second Ctrl-C ends it with one line."""
    from holdfast.study.session import write_json_line

    watch = partial(write_json_line, out=sys.stdout) if options.json else sys.stderr.isatty() and not options.quiet
    reserved = {name: value for name, value in options.settings.items() if name.startswith(("cpus", "gpus"))}
    engine, _, address = options.engine.partition(":")
    if (reserved or address) and engine != "ray":
        argument, got = next(iter(reserved), "engine"), f"`--engine {options.engine}`"
        raise InvalidValueError(argument=argument, must="come with `--engine ray`", got=got)
    try:
        spec = read_spec(options.file, trust=read_trust(options))
        if not options.quiet:
            announce(options.file, spec)
        done = study.run_study(
            spec,
            options.results or Path(options.file).with_suffix(".db"),
            inputs=options.inputs,
            engine=study.Ray(address=address or None, **reserved) if reserved or address else engine,
            workers=options.workers,
            timeout=options.settings.get("timeout"),
            inputs_per_worker=options.settings.get("inputs_per_worker"),
            progress=watch,
        )
    except KeyboardInterrupt as interrupt:
        print(after_bar(), end="", file=sys.stderr)
        interrupt.__notes__ = ["Stored items are kept; the same command continues from there."]
        raise
    if options.json:
        print(json.dumps(done.plain()))
    elif not options.quiet:
        print(f"{after_bar()}{done}")
    elif done.status.failures:
        print(f"holdfast: {done.status.n_given_up} items failed. See `holdfast study status`.", file=sys.stderr)
    wanted = options.inputs is not None or done.status.complete
    return None if wanted and not done.stopped and not done.status.failures else EXIT_NO


def show_status(options: argparse.Namespace) -> None:
    """Print how far the study is."""
    status = study.study_status(options.results)
    print(json.dumps(status.plain()) if options.json else status)


def export_results(options: argparse.Namespace) -> None:
    """Write the results as a table or as JSON, and say what the study asks for that the file does not have."""
    n_rows = study.export_study(options.results, options.output)
    print(f"Wrote {n_rows} rows to {options.output}.")
    status = study.study_status(options.results)
    missing = {
        f"items of {len(status.skips)} inputs that were left out": status.n_left_out,
        f"items of {len(status.failures)} inputs that failed": status.n_given_up,
        "items not computed yet": status.n_to_do - status.n_given_up,
        f"of {status.n_curves} mean curves": status.n_curves - len(status.means),
    }
    for what, count in missing.items():
        if count > 0:
            print(f"Not in it: {count} {what}.")


def merge_results(options: argparse.Namespace) -> None:
    """Put several files of results into one."""
    print(study.merge_studies(options.results, options.output))


def add_calibrate(parser: argparse.ArgumentParser, how: str) -> None:
    """The question how many features each method needs."""
    purpose = "how many features each method needs to keep predictions at MIN_RATE for SHARE of inputs (default: 0.8) "
    purpose += "with CONFIDENCE (default: 0.9); needs a study with several top_fractions"
    metavar = "MIN_RATE[,SHARE[,CONFIDENCE]]"
    parser.add_argument("--calibrate", type=parse_calibrate, metavar=metavar, help=f"{how}{purpose}")


def parse_calibrate(text: str) -> dict[str, float]:
    """One to three shares such as ``0.9,0.8``."""
    try:
        values = [float(part) for part in text.split(",")]
        if len(values) > 3:
            raise ValueError
        return {name: float(check_share(value, name)) for name, value in zip(_CALIBRATED, values, strict=False)}
    except ValueError as error:
        must = "must be one to three shares between 0 and 1, such as 0.9 or 0.9,0.8,0.95"
        raise argparse.ArgumentTypeError(f"{must}, got {text!r}") from error


def show_summary(options: argparse.Namespace) -> None:
    """Print the summary, or the sizes that are needed."""
    check_drawing(options.plot)
    result: study.StudySummary | study.StudyCalibration
    if options.calibrate is not None:
        result = study.calibrate_study(options.results, **options.calibrate)
    else:
        result = study.summarize_study(options.results, confidence=options.confidence)
    print(result.to_json() if options.json else result, flush=True)
    write_pictures(result, options.plot)


def show_guarantee(options: argparse.Namespace) -> int | None:
    """Print the guarantee; with a share that is wanted, the exit code says whether it is reached."""
    names = ("method", "radius", "min_rate", "confidence", "stored")
    question = {name: getattr(options, name) for name in names} | options.settings | {"trust": read_trust(options)}
    if options.min_share is not None:
        check_share(options.min_share, "min_share")  # before the model is called
    with study.Store(options.results) as store:
        if not options.stored:
            announce(options.results, store.spec)
        guarantee = study.study_guarantee(store, **question, progress=False if options.json else None)
    print(guarantee.to_json() if options.json else guarantee)
    if options.min_share is None:
        return None
    word, code = ANSWERS[guarantee.reaches(options.min_share)]
    if not options.json:
        whose = "exactly these inputs" if guarantee.share is None else "inputs such as these"
        print(f"At least {100 * options.min_share:g}% of {whose}: {word}.")
    return code


def show_trusted(options: argparse.Namespace) -> None:
    """Print the list, its guarantee first."""
    names = ("method", "radius", "min_rate", "confidence", "stored")
    question = {name: getattr(options, name) for name in names} | options.settings | {"trust": read_trust(options)}
    with study.Store(options.results) as store:
        if not options.stored:
            announce(options.results, store.spec)
        trusted = study.trusted_explanations(store, **question, progress=False if options.json else None)
        groups = len(store.spec.groups)
    if options.json:
        print(trusted.to_json())
        return
    print(trusted)
    for explanation in trusted:
        share = "" if explanation.top_fraction is None else f", {cut_label(explanation.top_fraction)}"
        cut = f"{share}, keep {explanation.keep_probability:g}" if groups > 1 else ""
        print(f"  input {explanation.input} ({explanation.name or 'no name'}): {explanation.method}{cut}")


def make_report(options: argparse.Namespace) -> None:
    """Write the page, then print what it says first and where it is."""
    from holdfast.report.page import write_report
    from holdfast.report.rows import study_accuracy

    trust, specs = read_trust(options), []
    settings = {"use_model": not options.no_model, "trust": trust} | options.settings
    settings["calibrate"] = options.calibrate
    n_labelled = settings.pop("accuracy", 0)
    for path in options.results:
        with study.Store(path) as store:
            specs.append(store.spec.trusting(trust))
        announce(path, specs[-1], model=not options.no_model or bool(n_labelled))
    if n_labelled:
        measure = partial(study_accuracy, n_inputs=n_labelled)
        settings["accuracy"] = {spec.name: measure(spec) for spec in specs}
    print("\n".join(write_report(options.results, options.output, **settings)))
    print(f"Report: {paint_path(str(Path(options.output)))}", file=unescaped(sys.stdout))

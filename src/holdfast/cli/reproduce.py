"""``holdfast reproduce``: the experiments of the paper, one command each."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.cli.options import EXIT_INTERRUPTED, EXIT_NO, EXIT_OK, add_data, add_settings, after_bar, parse_radii
from holdfast.errors import InvalidValueError

if TYPE_CHECKING:
    from holdfast.reproduce import Subject

_SUBJECT = ("kind", "split", "target", "device")


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what the command does, and add its options."""
    parser.description = (
        "Run experiments of the paper, on the bundled models or on your own. Each writes data (CSV, Parquet), a figure "
        "(SVG, PNG) and a paragraph of findings into its folder."
    )
    parser.epilog = (
        "Ctrl-C finishes the current item (q1, q2, q3, topk, mus-by); a second Ctrl-C stops at once. The same "
        "command continues from what is stored: items of studies, and q4 by 25 inputs. Other experiments start anew.\n"
        "Examples: holdfast reproduce q1 · holdfast reproduce all --workers 2 · "
        "holdfast reproduce q2 --model hf:my-vit --data images:photos --n 100\n"
        "Exit codes: 0 done, 1 stopped, 3 error, 130 interrupted at once."
    )
    parser.add_argument(
        "ids", nargs="+", metavar="ID", help="experiments, by name or beginning of a name; or list, or all"
    )
    add_data(parser, repeated=True)
    parser.add_argument("--n", type=int, help="number of inputs per model: the first that are long enough")
    lists: dict[str, Any] = {"action": "extend"}
    parser.add_argument("--methods", type=parse_names, metavar="lime,shap", help="explanation methods", **lists)
    parser.add_argument("--radii", type=parse_radii, metavar="1,5,10", help="radii, or a range such as 1-10", **lists)
    parser.add_argument("--keep", type=parse_shares, metavar="1/2,1/4", help="keep probabilities λ", **lists)
    purpose = "folder of the results, one folder per experiment if several (default: build/reproduce/ID)"
    parser.add_argument("--output", metavar="FOLDER", help=purpose)
    purpose = "worker processes; 0 for none (default: %(default)s)"
    parser.add_argument("--workers", type=int, default=0, help=purpose)
    add_settings(parser, (*_SUBJECT, "min_tokens", "precision", "seed"))
    parser.set_defaults(run=run)


def parse_names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_shares(text: str) -> tuple[float, ...]:
    """Numbers or fractions separated by commas."""
    shares = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d*\.?\d+)(?:\s*/\s*(\d*\.?\d+))?\s*", part)
        if not match or (match[2] and float(match[2]) == 0):
            raise argparse.ArgumentTypeError(f"must be numbers such as 1/2,0.25, got {text!r}")
        shares.append(float(match[1]) / float(match[2] or 1))
    return tuple(shares)


def run(options: argparse.Namespace) -> int:
    """Carry out what was asked for; Ctrl-C ends it with one line that says what is kept."""
    from holdfast.reproduce import EXPERIMENTS, InterruptedStudyError, Request, carry_out, plan_runs, what_is_kept

    if options.ids == ["list"]:
        width = max(len(experiment.id) for experiment in EXPERIMENTS)
        print("\n".join(f"{experiment.id:<{width}}  {experiment.shows}" for experiment in EXPERIMENTS))
        return EXIT_OK
    if "list" in options.ids:
        raise InvalidValueError(argument="list", must="be the only name: holdfast reproduce list")
    newline, kept = after_bar(), "The same command starts again."
    radii = None if options.radii is None else tuple(sorted(options.radii))
    settings = {name: value for name, value in options.settings.items() if name not in _SUBJECT}
    request = Request(read_subjects(options), options.n, options.methods, radii, options.keep, **settings)
    try:
        for planned in plan_runs(options.ids, request, output=options.output):
            experiment = planned.experiment
            print("\n".join([*planned.notes, f"{experiment.id}: {experiment.shows}"]), flush=True)
            start = time.perf_counter()
            try:
                done = carry_out(planned, workers=options.workers, progress=bool(newline))
            except KeyboardInterrupt:
                kept = what_is_kept(planned)
                raise
            names, seconds = ", ".join(file.name for file in done.files), f"{time.perf_counter() - start:.0f} s"
            written = f"Written to {planned.folder} after {seconds}: {names}"
            print(f"{newline}{wrapped(done.findings)}\n{wrapped(written)}\n", flush=True)
    except InterruptedStudyError as stopped:
        print(f"{newline}holdfast: {stopped}", file=sys.stderr)
        return EXIT_NO
    except KeyboardInterrupt:
        print(f"{newline}holdfast: Interrupted. {kept}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


def wrapped(text: str) -> str:
    """Sentences as wide as the terminal, or 100 columns where there is none; tables and names of files stay whole."""
    width = shutil.get_terminal_size((100, 24)).columns
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if line.startswith("|") else wrapper.fill(line) for line in text.splitlines())


def read_subjects(options: argparse.Namespace) -> tuple[Subject, ...] | None:
    """The models with their inputs, told apart by name; None for the experiments' own."""
    from holdfast.reproduce import make_subject

    models, data = options.model or [], options.data or []
    settings = {name: options.settings.get(name) for name in _SUBJECT} | {"grid": options.features}
    if not models and not data:
        for name, value in settings.items():
            if value is not None:
                raise InvalidValueError(argument=name, must="come with `--model` and `--data`")
        return None
    if not models or len(data) not in (1, len(models)):
        must = "be given with `--model`, once or once per model"
        raise InvalidValueError(argument="--data", must=must, got=f"{len(models)} and {len(data)}")
    pairs = zip(models, data * len(models) if len(data) == 1 else data, strict=True)
    subjects = [make_subject(model, inputs, **settings) for model, inputs in pairs]
    names = [subject.name for subject in subjects]
    return tuple(
        replace(subject, name=f"{subject.name}-{place}") if names.count(subject.name) > 1 else subject
        for place, subject in enumerate(subjects, start=1)
    )

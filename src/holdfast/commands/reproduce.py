"""``holdfast reproduce``: the experiments of the paper, one command each."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.commands.codes import EXIT_INTERRUPTED, EXIT_NO, EXIT_OK
from holdfast.commands.parsing import Commands, read_radii
from holdfast.errors import InvalidValueError
from holdfast.validation import shown

if TYPE_CHECKING:
    from holdfast.experiments import Experiment, Request, Subject

_WIDTH = 100

_EPILOG = (
    "Without --model the experiments are carried out on the models that come with holdfast. Each writes its data (CSV "
    "and Parquet), a figure (SVG and PNG) and a paragraph of findings into its folder. While a study runs (q1, q2, q3, "
    "topk, mus-by), Ctrl-C finishes the items that have begun, and a second one ends it at once; everything else ends "
    "at once. The same command goes on with what is stored: items of studies, and q4 by parts of 25 inputs; the other "
    "experiments begin again. Examples: holdfast reproduce q1; holdfast reproduce all --workers 2; "
    "holdfast reproduce q2 --model hf:my-vit --data images:photos --n 100. "
    "Exit codes: 0 done, 1 stopped after the items that had begun, 3 an error, 130 interrupted at once."
)


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("reproduce", help="carry out experiments of the paper", epilog=_EPILOG)
    parser.add_argument("ids", nargs="+", metavar="ID", help="experiments, or how their names begin; list; all")
    _add_subject(parser.add_argument_group("model and inputs (default: bundled ones)"))
    ask = parser.add_argument_group("what is changed (default: as in the paper)")
    ask.add_argument("--n", type=int, help="inputs per model: the first that are long enough")
    ask.add_argument("--methods", type=parse_names, metavar="lime,shap", action="extend", help="explanation methods")
    ask.add_argument("--radii", type=read_radii, metavar="1,5,10", action="extend", help="or a span such as 1-10")
    ask.add_argument("--keep", type=parse_shares, metavar="1/2,1/4", action="extend", help="keep probabilities λ")
    ask.add_argument("--min-tokens", type=int, help="leave out inputs with fewer features")
    ask.add_argument("--precision", help="per-input, or data-set: only means over inputs are wanted")
    ask.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--output", metavar="FOLDER", help="default: build/reproduce/ID; for several, a folder of folders"
    )
    parser.add_argument("--workers", type=int, default=0, help="worker processes; 0 for none (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="show nothing but errors")
    parser.set_defaults(run=run)


def _add_subject(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", action="append", metavar="SPEC", help="such as hf:my-vit; may be repeated")
    group.add_argument("--data", action="append", metavar="SPEC", help="such as images:photos; one, or one per model")
    group.add_argument("--kind", choices=["image", "text", "table"], help="where the model leaves it open")
    group.add_argument("--grid", metavar="ROWSxCOLS", help="patches of an image, such as 14x14")
    group.add_argument("--split", help="of the data, such as val")
    group.add_argument("--target", metavar="COLUMN", help="column of a table that holds the labels")
    group.add_argument("--device", help="such as cuda (default: the CPU)")


def parse_names(text: str) -> tuple[str, ...]:
    """Names separated by commas.

    Examples
    --------
    >>> parse_names("lime, shap")
    ('lime', 'shap')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_shares(text: str) -> tuple[float, ...]:
    """Numbers or fractions separated by commas.

    Examples
    --------
    >>> parse_shares("1/2, 0.25")
    (0.5, 0.25)
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d*\.?\d+)(?:\s*/\s*(\d*\.?\d+))?\s*", part)
        if not match or (match[2] and float(match[2]) == 0):
            raise argparse.ArgumentTypeError(f"must be numbers such as 1/2,0.25, got {text!r}")
        found.append(float(match[1]) / float(match[2] or 1))
    return tuple(found)


def run(options: argparse.Namespace) -> int:
    """Carry out what was asked for; Ctrl-C ends it with one line that says what is kept."""
    from holdfast.experiments.studies import StoppedError

    if options.ids == ["list"]:
        _list()
        return EXIT_OK
    try:
        return _run(options)
    except StoppedError as stopped:
        print(f"{_after_bar(options)}holdfast: {stopped}", file=sys.stderr)
        return EXIT_NO
    except KeyboardInterrupt as interrupt:
        kept = str(interrupt) or "The same command begins again."
        print(f"{_after_bar(options)}holdfast: Interrupted. {kept}", file=sys.stderr)
        return EXIT_INTERRUPTED


def _list() -> None:
    from holdfast.experiments import EXPERIMENTS

    width = max(len(one.id) for one in EXPERIMENTS)
    for one in EXPERIMENTS:
        print(f"{one.id:<{width}}  {one.shows}")


def _run(options: argparse.Namespace) -> int:
    from holdfast.experiments.checks import check_request
    from holdfast.experiments.folders import check_folder
    from holdfast.experiments.reproduce import folder_of

    chosen, request = _chosen(options.ids), _request(options)
    requests = [request] * len(chosen)
    if "all" in options.ids:
        chosen = _measurable(chosen, request, quiet=options.quiet)
        requests = [_fitting(one, request, quiet=options.quiet) for one in chosen]
    folders = [folder_of(one, _folder(options.output, one, several=len(chosen) > 1)) for one in chosen]
    for one, asked, folder in zip(chosen, requests, folders, strict=True):
        check_request(one, asked)
        check_folder(one, folder)
    for one, asked, folder in zip(chosen, requests, folders, strict=True):
        _carry_out(one, asked, Path(folder), options)
    return EXIT_OK


def _carry_out(experiment: Experiment, request: Request, folder: Path, options: argparse.Namespace) -> None:
    """One experiment, with what it found printed to the width of the terminal; an interrupt says what is kept."""
    from holdfast.experiments.folders import is_begun
    from holdfast.experiments.reproduce import reproduce

    _say(f"{experiment.id}: {experiment.shows}", quiet=options.quiet)
    progress = sys.stderr.isatty() and not options.quiet
    start = time.perf_counter()
    try:
        done = reproduce(experiment.id, request, output=folder, workers=options.workers, progress=progress)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(_kept(experiment, is_begun(folder))) from interrupt
    names = ", ".join(file.name for file in done.files)
    _say(f"{_after_bar(options)}{_wrapped(done.findings)}", quiet=options.quiet)
    seconds = f"{time.perf_counter() - start:.0f} s"
    _say(f"{_wrapped(f'Written to {folder} after {seconds}: {names}')}\n", quiet=options.quiet)


def _kept(experiment: Experiment, begun: bool) -> str:
    if begun:
        return f"What {experiment.id} stored is kept; the same command goes on from there."
    return f"{experiment.id} stored nothing; the same command begins it again."


def _wrapped(text: str) -> str:
    """A paragraph as wide as the terminal, or of 100 columns where there is none; names of files stay whole."""
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _after_bar(options: argparse.Namespace) -> str:
    """The bar stays on the screen; what follows begins on a new line."""
    return "\n" if sys.stderr.isatty() and not options.quiet else ""


def _chosen(ids: Sequence[str]) -> list[Experiment]:
    """Each experiment once, in the order asked for."""
    from holdfast.experiments import EXPERIMENTS, find_experiment

    if "list" in ids:
        raise InvalidValueError(argument="list", must="stand alone: holdfast reproduce list")
    named = [one for name in ids for one in (EXPERIMENTS if name == "all" else [find_experiment(name)])]
    return list({one.id: one for one in named}.values())


def _folder(output: str | None, experiment: Experiment, *, several: bool) -> Path | None:
    if output is None:
        return None
    if not output.strip():
        raise InvalidValueError(argument="--output", must="name a folder", got=shown(output))
    return Path(output) / experiment.id if several else Path(output)


def _request(options: argparse.Namespace) -> Request:
    from holdfast.experiments import Request

    return Request(
        subjects=_subjects(options),
        n=options.n,
        methods=None if options.methods is None else tuple(options.methods),
        radii=None if options.radii is None else tuple(sorted(options.radii)),
        keep=None if options.keep is None else tuple(options.keep),
        min_tokens=options.min_tokens,
        precision=options.precision,
        seed=options.seed,
    )


def _subjects(options: argparse.Namespace) -> tuple[Subject, ...] | None:
    from holdfast.experiments import make_subject

    models, data = options.model or [], options.data or []
    if not models and not data:
        _refuse_alone(options)
        return None
    if not models or len(data) not in (1, len(models)):
        raise InvalidValueError(
            argument="--data",
            must="be given with `--model`, once or once per model",
            got=f"{len(models)} and {len(data)}",
        )
    names = ("kind", "split", "target", "device")
    settings = {name: getattr(options, name) for name in names} | {"grid": _grid(options.grid)}
    pairs = zip(models, data * len(models) if len(data) == 1 else data, strict=True)
    return _distinct([make_subject(model, inputs, **settings) for model, inputs in pairs])


def _refuse_alone(options: argparse.Namespace) -> None:
    for name in ("kind", "grid", "split", "target", "device"):
        if getattr(options, name) is not None:
            raise InvalidValueError(argument=f"--{name}", must="be given with `--model` and `--data`")


def _distinct(subjects: Sequence[Subject]) -> tuple[Subject, ...]:
    """Names of files that are told apart."""
    names = [one.name for one in subjects]
    return tuple(
        replace(one, name=f"{one.name}-{place + 1}") if names.count(one.name) > 1 else one
        for place, one in enumerate(subjects)
    )


def _grid(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)[x×](\d+)", text)
    if not match:
        raise InvalidValueError(argument="--grid", must="look like 14x14", got=shown(text))
    return int(match[1]), int(match[2])


def _fitting(experiment: Experiment, request: Request, *, quiet: bool) -> Request:
    """Of what is asked of all experiments, what this one takes; it is said where its number does not fit."""
    fields = {"model": "subjects"}
    unused = [fields.get(name, name) for name in request.given() if name not in experiment.options]
    fitting: Request = replace(request, **dict.fromkeys(unused))  # type: ignore[arg-type]
    n_methods, n_models = experiment.n_methods, experiment.n_models
    if fitting.methods and n_methods is not None and len(fitting.methods) != n_methods:
        _say(f"{experiment.id}: --methods is left out, since it takes {n_methods}.", quiet=quiet)
        fitting = replace(fitting, methods=None)
    if fitting.subjects and n_models is not None and len(fitting.subjects) > n_models:
        _say(f"{experiment.id}: only the first --model is used, since it takes {n_models}.", quiet=quiet)
        fitting = replace(fitting, subjects=fitting.subjects[:n_models])
    return fitting


def _measurable(chosen: Sequence[Experiment], request: Request, *, quiet: bool) -> list[Experiment]:
    """Of all experiments, those that can be carried out on this device."""
    on_cpu = all(one.device == "cpu" for one in request.subjects or ())
    for one in chosen:
        if one.cpu_only and not on_cpu:
            _say(f"{one.id} is left out, since it measures processor time.", quiet=quiet)
    return [one for one in chosen if on_cpu or not one.cpu_only]


def _say(text: str, *, quiet: bool) -> None:
    if not quiet:
        print(text, flush=True)

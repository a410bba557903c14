"""``holdfast reproduce``: the experiments of the paper, one command each."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.commands.codes import EXIT_INTERRUPTED, EXIT_NO, EXIT_OK
from holdfast.commands.parsing import Commands, parse_radii
from holdfast.errors import InvalidValueError

if TYPE_CHECKING:
    from holdfast.experiments import Experiment, Request, Subject

_EPILOG = (
    "Without --model the experiments are carried out on the models that come with holdfast. Each writes its data (CSV "
    "and Parquet), a figure (SVG and PNG) and a paragraph of findings into its folder. Ctrl-C finishes what has begun; "
    "the same command goes on from there. Examples: holdfast reproduce q1; holdfast reproduce all --workers 2; "
    "holdfast reproduce q2 --model hf:my-vit --data images:photos --n 100. "
    "Exit codes: 0 done, 1 stopped early, 3 an error, 130 interrupted twice."
)


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("reproduce", help="carry out experiments of the paper", epilog=_EPILOG)
    parser.add_argument("ids", nargs="+", metavar="ID", help="experiments, or how their names begin; list; all")
    _add_subject(parser.add_argument_group("model and inputs (default: bundled ones)"))
    ask = parser.add_argument_group("what is changed (default: as in the paper)")
    ask.add_argument("--n", type=int, help="inputs per model")
    ask.add_argument("--methods", type=parse_names, metavar="lime,shap", help="explanation methods")
    ask.add_argument("--radii", type=parse_radii, metavar="1,5,10", help="or a span such as 1-10")
    ask.add_argument("--keep", type=parse_shares, metavar="1/2,1/4", help="keep probabilities λ")
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
    """Carry out what was asked for; a second Ctrl-C ends it with one line."""
    from holdfast.experiments.studies import StoppedError

    if options.ids == ["list"]:
        _list()
        return EXIT_OK
    try:
        return _run(options)
    except StoppedError as stopped:
        print(f"{_after_bar(options)}holdfast: {stopped}", file=sys.stderr)
        return EXIT_NO
    except KeyboardInterrupt:
        told = "holdfast: Interrupted. What was stored is kept; the same command goes on from there."
        print(f"{_after_bar(options)}{told}", file=sys.stderr)
        return EXIT_INTERRUPTED


def _list() -> None:
    from holdfast.experiments import EXPERIMENTS

    width = max(len(one.id) for one in EXPERIMENTS)
    for one in EXPERIMENTS:
        print(f"{one.id:<{width}}  {one.shows}")


def _run(options: argparse.Namespace) -> int:
    from holdfast.experiments.reproduce import check_request, reproduce

    chosen, request = _chosen(options.ids), _request(options)
    requests = [request] * len(chosen)
    if "all" in options.ids:
        chosen = _measurable(chosen, request, quiet=options.quiet)
        requests = [_fitting(one, request, quiet=options.quiet) for one in chosen]
    for one, asked in zip(chosen, requests, strict=True):
        check_request(one, asked)
    for one, asked in zip(chosen, requests, strict=True):
        folder = _folder(options.output, one, several=len(chosen) > 1)
        if not options.quiet:
            print(f"{one.id}: {one.shows}", flush=True)
        progress = sys.stderr.isatty() and not options.quiet
        done = reproduce(one.id, asked, output=folder, workers=options.workers, progress=progress)
        if not options.quiet:
            print(f"{_after_bar(options)}{done.findings}\nWritten: {', '.join(map(str, done.files))}\n", flush=True)
    return EXIT_OK


def _after_bar(options: argparse.Namespace) -> str:
    """The bar stays on the screen; what follows begins on a new line."""
    return "\n" if sys.stderr.isatty() and not options.quiet else ""


def _chosen(ids: Sequence[str]) -> list[Experiment]:
    """Each experiment once, in the order asked for."""
    from holdfast.experiments import EXPERIMENTS, find_experiment

    if "list" in ids:
        raise InvalidValueError("`list` must stand alone: holdfast reproduce list.")
    named = [one for name in ids for one in (EXPERIMENTS if name == "all" else [find_experiment(name)])]
    return list({one.id: one for one in named}.values())


def _folder(output: str | None, experiment: Experiment, *, several: bool) -> Path | None:
    if output is None:
        return None
    return Path(output) / experiment.id if several else Path(output)


def _request(options: argparse.Namespace) -> Request:
    from holdfast.experiments import Request

    return Request(
        subjects=_subjects(options),
        n=options.n,
        methods=options.methods,
        radii=None if options.radii is None else tuple(options.radii),
        keep=options.keep,
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
            f"`--data` must be given with `--model`, once or once per model, got {len(models)} and {len(data)}."
        )
    settings = {"kind": options.kind, "grid": _grid(options.grid), "split": options.split, "device": options.device}
    pairs = zip(models, data * len(models) if len(data) == 1 else data, strict=True)
    return _distinct([make_subject(model, inputs, **settings) for model, inputs in pairs])


def _refuse_alone(options: argparse.Namespace) -> None:
    for name in ("kind", "grid", "split", "device"):
        if getattr(options, name) is not None:
            raise InvalidValueError(f"`--{name}` must be given with `--model` and `--data`.")


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
        raise InvalidValueError(f"`--grid` must look like 14x14, got {text!r}.")
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

"""Options that several commands share: the model and the input, the explanation, the question."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from holdfast.commands.codes import EXIT_ERROR
from holdfast.commands.errors import shorten

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a command adds its own parser."""


_MOST_DIGITS = 64
"""Of a seed; the keys that results store have 39 at most."""


class Parser(argparse.ArgumentParser):
    """Options that cannot be understood are an error like any other, never the answer of a command."""

    def error(self, message: str) -> NoReturn:
        """End with the usage, the message and the exit code of an error."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_ERROR, f"{self.prog}: {shorten(message)}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        """The options, and as ``flags`` how each is typed.

        Those that nobody knows are an error of the command they were given to, not of the program.
        """
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown)}")
        own = {action.dest: _typed(action) for action in self._actions if action.option_strings}
        options.flags = own | getattr(options, "flags", {})
        return options, unknown

    def _hint(self, unknown: list[str]) -> str:
        known = [option for action in self._actions for option in action.option_strings]
        near = [close[0] for word in unknown if (close := difflib.get_close_matches(word, known, n=1, cutoff=0.7))]
        return f". Did you mean {near[0]}?" if near else f". `{self.prog} --help` lists those there are."


def add_input(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The model, the input and what hidden features look like."""
    model = parser.add_argument_group("model and input")
    specs = "hf:…, onnx:…, skops:…, bundled:… or python:module:factory"
    model.add_argument("--model", required=required, metavar="SPEC", help=specs)
    model.add_argument("--kind", choices=["image", "text", "table"], help="where the model leaves it open")
    model.add_argument("--device", help="such as cuda (default: the CPU)")
    model.add_argument("--trust", action="append", default=[], metavar="TYPE", help="a type a skops file may create")
    source = model.add_mutually_exclusive_group(required=required)
    source.add_argument("--image", metavar="FILE", help="an image")
    source.add_argument("--text", metavar="TEXT", help="a text")
    source.add_argument("--table", metavar="CSV", help="a table, with --row")
    source.add_argument("--input", metavar="DATA#N", help="input N, from 0, of a data set, such as bundled:digits#3")
    model.add_argument("--row", type=int, default=0, help="row of the table, from 0 (default: %(default)s)")
    model.add_argument("--target", metavar="COLUMN", help="column of the table that is no feature")
    model.add_argument(
        "--background", metavar="CSV", help="rows that hidden columns are filled from (default: --table)"
    )
    model.add_argument("--grid", metavar="ROWSxCOLS", help="patches of an image, such as 14x14")
    model.add_argument("--features", choices=["tokens", "words"], help="features of a text")
    model.add_argument("--fill", help="what hidden features look like: a number or a name, such as mean, blur, drop")
    parser.add_argument("--batch-size", type=int, help="most masks per model call")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="most seconds per model call (default: no limit)"
    )


def add_explanation(parser: argparse.ArgumentParser) -> None:
    """One explanation: a mask, scores, or a method that makes them."""
    which = parser.add_argument_group("explanation (one of)")
    which.add_argument("--selected", metavar="FILE", help="mask: one 0/1 or true/false per feature (.npy, .csv, .json)")
    which.add_argument("--scores", metavar="FILE", help="one score per feature, with --top or --top-fraction")
    which.add_argument("--method", metavar="NAME", help="lime, shap, …: explain it now, with --top or --top-fraction")
    add_cut(parser)


def add_cut(parser: argparse.ArgumentParser) -> None:
    """Where scores are cut, and what methods may spend."""
    parser.add_argument("--top", type=int, metavar="K", help="select the K features with the largest scores")
    parser.add_argument("--top-fraction", type=float, metavar="Q", help="select this share of the features")
    parser.add_argument("--n-samples", type=int, help="what a --method may spend (default: its own)")


RATE_FIELDS = ("tolerance", "confidence", "plan", "agree", "neighborhood", "rate_kind")


def add_question(ask: argparse._ActionsContainer, *names: str, **defaults: Any) -> None:
    """Options for fields of a question, and the seed; ``asked`` gives them to a verb."""
    from holdfast.certification.question import FIELDS

    for name in names:
        field, default = FIELDS[name], defaults.get(name, FIELDS[name].default)
        flag, kind = f"--{name.replace('_', '-')}", float if isinstance(default, float) else str
        ask.add_argument(flag, type=kind, default=default, help=f"{field.help} (default: %(default)s)")
    ask.add_argument(
        "--rng",
        type=parse_rng,
        default=defaults.get("rng", "canonical"),
        metavar="SEED",
        help="a whole number, 'fresh', or 'canonical': follows from model, input, explanation and question, so that "
        "nobody can try seeds until one pleases (default: %(default)s)",
    )


def asked(options: argparse.Namespace) -> Any:
    """What the options ask, as keywords of the library's verbs."""
    return {name: getattr(options, name) for name in (*RATE_FIELDS, "rng") if hasattr(options, name)}


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """Where the result goes."""
    parser.add_argument("--output", metavar="FILE", type=parse_target, help=f"also write the {what} as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _typed(action: argparse.Action) -> str:
    """How an option is typed: its first long name, if it has one."""
    return next((name for name in action.option_strings if name.startswith("--")), action.option_strings[0])


def parse_rng(text: str) -> int | str | None:
    """A seed, ``canonical``, or ``fresh``.

    Examples
    --------
    >>> parse_rng("7"), parse_rng("canonical"), parse_rng("fresh")
    (7, 'canonical', None)
    """
    if text in ("canonical", "fresh"):
        return None if text == "fresh" else text
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"must be a whole number ≥ 0, canonical or fresh, got {text!r}")
    return int(text)


def parse_target(text: str) -> str:
    """A file to be written, whose folder is there: a result must not be lost for a name that was mistyped.

    Examples
    --------
    >>> parse_target("cert.json")
    'cert.json'
    """
    try:
        is_folder, has_folder = Path(text).is_dir(), Path(text).parent.is_dir()
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"must be the name of a file, got {text!r}") from error
    if not text or is_folder:
        raise argparse.ArgumentTypeError(f"must be the name of a file, got {text!r}")
    if not has_folder:
        raise argparse.ArgumentTypeError(f"must be in a folder that is there, got {text!r}")
    return text


_TARGETS = ("output", "junit")
_INPUTS = ("model", "image", "table", "input", "background", "selected", "scores")
_SOURCES = (*_INPUTS, "data", "certificate", "results", "file")
"""Options that name files to write, and files to read."""


def check_targets(options: argparse.Namespace) -> None:
    """Raise where a command would write over what it reads, or twice into one file; before anything is computed."""
    values = {name: value for name, value in vars(options).items() if value}
    targets = {name: Path(values[name]) for name in _TARGETS if name in values}
    if not targets:
        return
    from holdfast.atomic import check_spared
    from holdfast.errors import InvalidValueError

    sources = {
        f"`{options.flags.get(name, name.upper())}`": value if isinstance(value, list) else [value]
        for name, value in values.items()
        if name in _SOURCES
    }
    for name, target in targets.items():
        check_spared(target, options.flags.get(name, name.upper()), sources)
    if len({target.resolve() for target in targets.values()}) < len(targets):
        raise InvalidValueError(
            argument="--junit", must="be another file than `--output`", got=f"{str(targets['junit'])!r} for both"
        )


def read_radii(text: str) -> list[int]:
    """The radii of an option."""
    from holdfast.certification.question import parse_radii
    from holdfast.errors import InvalidValueError

    try:
        return parse_radii(text)
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(f"must {error.must}, got {error.got}") from error

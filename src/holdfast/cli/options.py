"""What commands share: exit codes, the parser, options and settings, error messages, and files to be written."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, TextIO

from holdfast.atomic import check_spared
from holdfast.errors import ArgumentError, HoldfastError, InvalidValueError
from holdfast.terminal import neutral

EXIT_OK, EXIT_NO, EXIT_UNKNOWN, EXIT_ERROR, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
"""Done, or yes; no; undecided; something cannot be used or went wrong, and nothing is claimed; Ctrl-C."""

ANSWERS = {True: ("yes", EXIT_OK), False: ("no", EXIT_NO), None: ("undecided", EXIT_UNKNOWN)}
EXIT_CODES = "Exit codes: 0 yes, 1 no, 2 undecided, 3 error."

MODELS = (
    "hf:…, onnx:…, skops:…, xgboost:…, lightgbm:…, catboost:…, openai:URL#MODEL, bundled:… or python:module:factory"
)

DATA = "images:…, tweeteval:…, table:…, contexts:…, hf:…, bundled:…"

SETTINGS = {
    "fill": "what hidden features look like: a number, or a name such as mean, blur or drop",
    "kind": "image, text, table or context, if the model does not say",
    "device": "where to compute, such as cuda (default: the CPU)",
    "trusted": "a type that a skops file may create",
    "target": "column of the table that is not a feature",
    "background": "file of rows to fill hidden columns from (default: the table)",
    "split": "split of the data, such as val",
    "batch_size": "largest number of masks per model call",
    "timeout": "longest time of a model call, in seconds",
    "template": "prompt for a language model: default, or citing to ask for citations",
    "system": "system message for a language model",
    "cache": "file that keeps the answers of an endpoint, so that you pay for each only once",
    "max_tokens": "longest answer of an endpoint, in tokens (default: 64)",
    "temperature": "sampling temperature of an endpoint (default: 0)",
    "n_at_once": "largest number of parallel requests to an endpoint (default: 16)",
    "budget_calls": "stop after this many requests to an endpoint",
    "budget_tokens": "stop after this many tokens of an endpoint",
    "key_variable": "environment variable with the API key (default: OPENAI_API_KEY)",
    "witness": "true or false: search for the fewest passages that change the answer (default: true)",
    "n_samples": "number of model calls that the explanation method may use",
    "rng": "a seed, fresh, or canonical (default): derived from model, input and question, so nobody can pick it",
    "name": "name of the check in reports (default: explanation)",
    "max_draws": "draws per radius after which the answer is 'undecided'",
    "max_calls": "about how many model calls to spend (default: 20000)",
    "min_tokens": "skip inputs with fewer features",
    "precision": "per-input, or data-set if only means over inputs are wanted",
    "seed": "seed of everything random (default: 0)",
}
"""What ``--set`` may set besides the fields of a question, and what it means."""

ENDPOINT_SETTINGS = (
    *("cache", "max_tokens", "temperature", "n_at_once", "budget_calls", "budget_tokens", "key_variable"),
)
"""Options of a language model behind an endpoint."""

INPUT_SETTINGS = (
    *("fill", "kind", "device", "trusted", "target", "background", "batch_size", "timeout", "template", "system"),
    *ENDPOINT_SETTINGS,
)

_TEXTS = (
    *("kind", "device", "trusted", "target", "background", "split", "precision", "title", "name"),
    *("template", "system", "cache", "key_variable"),
)
"""Settings whose values are texts, even where they look like numbers."""

_ARGUMENTS = {
    "top": ("k", "fraction", "top_fraction"),
    "explanation": ("method", "selected", "scores"),
    "trust": ("types",),
    "trusted": ("types",),
    "features": ("rows", "cols", "groups", "grid"),
    "min_tokens": ("min_features",),
    "input": ("data",),
    "radius": ("max_radius",),
    "accuracy": ("n_inputs",),
    "engine": ("address",),
}
"""Options and settings → the arguments of the library that they may stand for, where these are called otherwise."""

_LONGEST = 2000  # most characters of a message: what was received may be megabytes


class HelpText(argparse.HelpFormatter):
    """Help whose epilog keeps its lines; what is longer than the terminal goes on indented."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        further = {line: "    " if line.startswith(" ") else "" for line in text.split("\n")}
        lines = [textwrap.fill(line, width, subsequent_indent=further[line]) for line in text.split("\n")]
        return textwrap.indent("\n".join(lines), indent)


class Parser(argparse.ArgumentParser):
    """Options that cannot be understood are an error like any other, never the answer of a command."""

    settings: Mapping[str, str] | None = None
    """What ``--set`` may set, if the command has settings."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(formatter_class=HelpText, **keywords)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_ERROR, f"{self.prog}: {shorten(message)}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        """The options, and as ``flags`` how each was typed.

        Those that nobody knows are an error of the command they were given to, not of the program.
        """
        words = list(sys.argv[1:] if args is None else args)
        named = [word.partition("=")[0] for word in words]
        for place, name in enumerate(named if self._subparsers is None else ()):
            # Before argparse misses the option that was meant.
            if re.match("--.", name) and not any(known.startswith(name) for known in self._option_string_actions):
                self._refuse([words[place], *takewhile(lambda word: not word.startswith("--"), words[place + 1 :])])
        options, unknown = super().parse_known_args(words, namespace)
        for action in self._actions:
            if type(action) is argparse._StoreAction and sum(word in action.option_strings for word in named) > 1:
                self.error(f"{action.option_strings[0]} may be given only once.")
        if unknown:
            self._refuse(unknown)
        own = {
            action.dest: next((name for name in action.option_strings if name in named), action.option_strings[0])
            for action in self._actions
            if action.option_strings
        }
        options.flags = own | getattr(options, "flags", {})
        return options, unknown

    def _refuse(self, unknown: list[str]) -> NoReturn:
        word, *rest = unknown
        known = self._option_string_actions
        near = [name for word in unknown for name in difflib.get_close_matches(word, known, n=1, cutoff=0.7)]
        advice = f"Did you mean {near[0]}?" if near else f"See `{self.prog} --help`."
        if (name := word.lstrip("-").replace("-", "_")) in (self.settings or ()):
            advice = f"Write --set {name}={rest[0] if rest else 'VALUE'}."
        self.error(f"unrecognized arguments: {' '.join(unknown)}. {advice}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            near = difflib.get_close_matches(str(value), list(action.choices), n=1, cutoff=0.5)
            advice = f"Did you mean {near[0]}?" if near else f"Commands: {', '.join(action.choices)}."
            self.error(f"unknown command {value!r}. {advice}")


class SetAction(argparse.Action):
    """``--set NAME=VALUE``: a setting by its name; each once, but for types that are trusted."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        name, equals, word = values.partition("=")
        name, known = name.strip().replace("-", "_"), getattr(parser, "settings", None) or {}
        if not equals or not word:
            raise argparse.ArgumentError(self, f"must look like {next(iter(known), 'name')}=VALUE, got {values!r}")
        if name not in known and "*" not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {near[0]}?" if near else f"Settings: {', '.join(known)}."
            raise argparse.ArgumentError(self, f"has no setting {name!r} here. {advice}")
        settings = dict(getattr(options, self.dest) or {})
        if name in settings and name != "trusted":
            raise argparse.ArgumentError(self, f"sets {name} twice; set it once")
        value: Any = [*settings.get(name, []), word] if name == "trusted" else word
        if name not in _TEXTS:
            # A number, a truth value or a list in brackets where the word is one; the library checks it.
            value = {"true": True, "false": False, "fresh": None if name == "rng" else word}.get(word, word)
            for read in (float, int, json.loads if word.startswith("[") else int):
                with suppress(ValueError):
                    value = read(word)
        setattr(options, self.dest, settings | {name: value})


def add_settings(parser: argparse.ArgumentParser, names: Iterable[str] = (), *, others: str = "", **own: str) -> None:
    """``--set`` for these settings, each explained at the end of the help; ``others`` says which are taken besides."""
    from holdfast.certification.question import FIELDS

    known = {name: SETTINGS[name] if name in SETTINGS else FIELDS[name].help for name in names} | own
    parser.settings = known | ({"*": others} if others else {})  # type: ignore[attr-defined]
    listed = [f"  {name}: {meaning}" for name, meaning in known.items()]
    listed += [f"  {others}"] if others else []
    parser.epilog = "\n".join(["settings, with --set NAME=VALUE:", *listed, "", parser.epilog or ""]).rstrip()
    shown: dict[str, Any] = {"default": {}, "metavar": "NAME=VALUE", "help": "a setting listed below"}
    parser.add_argument("--set", dest="settings", action=SetAction, **shown)


def bind_keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as keywords of ``holdfast.bind``, in which those of an endpoint are options of the model."""
    own = {name: value for name, value in settings.items() if name in ENDPOINT_SETTINGS}
    others = {name: value for name, value in settings.items() if name not in ENDPOINT_SETTINGS}
    return others | ({"model_options": own} if own else {})


def add_data(parser: argparse.ArgumentParser, *, repeated: bool = False) -> None:
    """A model and the data it is asked about."""
    action, more = ("append", "; may be repeated") if repeated else ("store", "")
    parser.add_argument("--model", action=action, metavar="SPEC", help=f"{MODELS} (default: bundled ones{more})")
    parser.add_argument("--data", action=action, metavar="SPEC", help=DATA)
    add_features(parser)


def add_features(parser: argparse.ArgumentParser) -> None:
    """What a feature is."""
    purpose = "patches of an image such as 14x14; tokens or words of a text; passages or sentences of a context"
    parser.add_argument("--features", "--grid", type=parse_features, metavar="WHAT", help=purpose)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """What the model that a file names may do besides being read from this machine."""
    purpose = (
        "let the model in the file run code (python:), download (hf:), use the network with your API key (openai:), "
        "or create a type (skops:): code, download, network or the type; may be repeated"
    )
    parser.add_argument("--trust", action="append", default=[], metavar="WHAT", help=purpose)


def add_json(parser: argparse.ArgumentParser) -> None:
    """JSON in place of text."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def parse_features(text: str) -> tuple[int, int] | str:
    """Rows and columns of a grid, or the name of what a feature is."""
    match = re.fullmatch(r"(\d{1,9})[x×](\d{1,9})", text)
    known = ("tokens", "words", "passages", "sentences", "messages")
    if not match and text not in known:
        raise argparse.ArgumentTypeError(f"must look like 14x14, or be one of {', '.join(known)}, got {text!r}")
    return (int(match[1]), int(match[2])) if match else text


def parse_radii(text: str) -> list[int]:
    """The radii of an option."""
    from holdfast.certification import question

    try:
        return question.parse_radii(text)
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(f"must {error.must}, got {error.got}") from error


def check_targets(options: argparse.Namespace) -> None:
    """Raise where a command would write over what it reads, or twice into one file; before anything is computed."""
    values = {name: value if isinstance(value, list) else [value] for name, value in vars(options).items() if value}
    read = ("model", "input", "explanation", "data", "result", "results", "file")
    sources = {f"`{options.flags.get(name, name.upper())}`": values[name] for name in read if name in values}
    if background := getattr(options, "settings", {}).get("background"):
        sources["`--set background`"] = [background]
    taken: set[Path] = set()
    for name in ("output", "plot"):
        flag = options.flags.get(name, name.upper())
        for target in map(Path, values.get(name, ())):
            check_spared(target, flag, sources)
            if target.resolve() in taken:
                raise InvalidValueError(argument=flag, must="name each file once", got=f"{str(target)!r} again")
            taken.add(target.resolve())


def error_message(error: Exception, options: argparse.Namespace) -> str:
    """A line for whoever typed the command: its argument called as it was typed, files without error numbers."""
    if isinstance(error, OSError) and not isinstance(error, HoldfastError):
        return shorten(file_message(error))
    if isinstance(error, ArgumentError) and error.argument is not None:
        typed = {name: flag for name, flag in options.flags.items() if getattr(options, name, None) is not None}
        typed |= {name: f"--set {name}" for name in getattr(options, "settings", None) or {}}
        # An argument such as `data.n` may have been typed as --n or --data; keys of files were not typed.
        parts = error.argument.replace("-", "_").split(".")
        for part in (parts[-1], parts[0]):
            for name in [*(option for option, arguments in _ARGUMENTS.items() if part in arguments), part]:
                if name in typed:
                    return shorten(error.about(typed[name]))
    return shorten(str(error))


def shorten(message: str) -> str:
    """The message without the middle of what is too long to read."""
    half = _LONGEST // 2
    return message if len(message) <= _LONGEST else f"{message[:half]} … {message[-half:]}"


def file_message(error: OSError) -> str:
    """What is wrong with a file or a folder."""
    if not isinstance(error.filename, str) or error.strerror is None:
        return str(error)
    path = Path(error.filename)
    if isinstance(error, FileNotFoundError):
        return f"No such file: {str(path)!r}." if path.parent.is_dir() else f"No such folder: {str(path.parent)!r}."
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        file = next((place for place in (path, *path.parents) if place.is_file()), None)
        return (
            f"{str(path)!r} already exists." if file is None else f"{str(file)!r} must be a folder, but it is a file."
        )
    if isinstance(error, IsADirectoryError):
        return f"{str(path)!r} must be a file, but it is a folder."
    return f"{error.strerror}: {str(path)!r}."


def paint_path(text: str, stream: TextIO | None = None) -> str:
    """A path or an address, underlined on a terminal; as it is in files and pipes, and where ``NO_COLOR`` is set.

    To be printed on the ``unescaped`` stream; control characters inside the text are written out.
    """
    out = stream or sys.stdout
    plain = not out.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return neutral(text) if plain else f"\x1b[4;36m{neutral(text)}\x1b[0m"


def after_bar() -> str:
    """The bar stays on the screen; what follows begins on a new line."""
    return "\n" if sys.stderr.isatty() else ""

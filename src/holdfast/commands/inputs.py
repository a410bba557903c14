"""Options of the command line → a masked model and an explanation."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, steady_batch_size
from holdfast.inputs.source import check_sources
from holdfast.selection import top, top_fraction
from holdfast.types import Mask
from holdfast.validation import MOST_UNPACKED, check_file, check_mask, check_name, read_text, shown

if TYPE_CHECKING:
    from holdfast.inputs.inputs import Inputs


def chosen_input(options: argparse.Namespace) -> Inputs:
    """The one input that the options name, with the model; packages that are missing are named before either loads."""
    from holdfast.inputs.inputs import bind

    spec, number = _named_input(options)
    check_sources(options.model, spec)
    shared = {"device": options.device, "kind": options.kind, "trusted": options.trust, "fill": _fill(options.fill)}
    if options.input is not None:
        inputs = bind(options.model, spec, **shared)
        if number >= len(inputs):
            must = f"end with a number from 0 to {len(inputs) - 1}"
            raise InvalidValueError(argument="--input", must=must, got=repr(options.input))
    elif options.table is not None:
        table, background = _read_rows(options)
        inputs = bind(options.model, table, background=background, **shared)
    else:
        inputs = bind(options.model, [Path(options.image) if options.image else options.text], **shared)
    features = {"image": read_grid(options.grid), "text": options.features}.get(inputs.kind)
    return replace(inputs[number : number + 1], features=features)


def bind_named(options: argparse.Namespace) -> tuple[Evaluator, tuple[str, ...]]:
    """The input as a function of masks that remembers what it computed, and the names of the model's classes.

    Batches have a size that depends on no clock, so that what is written can be repeated to the last bit.
    """
    inputs = chosen_input(options)
    model = inputs[0]
    size = steady_batch_size(model) if options.batch_size is None else options.batch_size
    return Evaluator(model, batch_size=size, timeout=options.timeout), inputs.classes


def _named_input(options: argparse.Namespace) -> tuple[str | None, int]:
    """What names the data, if anything does, and the number of the input in them."""
    if options.table is not None:
        return f"table:{options.table}", options.row
    if options.input is None:
        return (f"images:{options.image}" if options.image else None), 0
    spec, _, number = options.input.rpartition("#")
    if not spec or not re.fullmatch(r"[0-9]{1,18}", number):
        raise InvalidValueError(argument="--input", must="look like bundled:digits#3", got=shown(options.input))
    return spec, int(number)


def _read_rows(options: argparse.Namespace) -> tuple[Any, Any]:
    """The table, and the rows that hidden columns are filled from: its own, unless a file has others."""
    from holdfast.inputs.data.table_file import matching, read_table

    table = read_table(options.table, default=".csv")
    if options.target is not None:
        check_name(options.target, "--target", [str(name) for name in table.columns])
        table = table.drop(columns=options.target)
    if not 0 <= options.row < len(table):
        raise InvalidValueError(argument="--row", must=f"be from 0 to {len(table) - 1}", got=options.row)
    other = options.background  # may have the target, or only features
    return table, matching(read_table(other, default=".csv"), table, other) if other else table


def choose_selection(options: argparse.Namespace, model: Evaluator) -> Mask:
    """The explanation: a mask from a file, or the top of the scores in a file or of a method."""
    given = [name for name in ("selected", "scores", "method") if getattr(options, name) is not None]
    if len(given) != 1:
        raise InvalidValueError(
            "or `--scores` must be given, or `--method`, and only one of them.", argument="--selected"
        )
    return _SOURCES[given[0]](getattr(options, given[0]), options, model)


def choose_selections(options: argparse.Namespace, model: Evaluator) -> dict[str, Mask]:
    """Explanations by name: those of files under the name before ``=``, or of the file; methods under their own."""
    wanted = [("method", name, name) for name in options.method]
    wanted += [(source, *_named(text)) for source in ("selected", "scores") for text in getattr(options, source)]
    names = [name for _, name, _ in wanted]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidValueError(
            f"Explanations must have distinct names, got {twice!r} more than once. Write NAME=FILE."
        )
    return {name: _SOURCES[source](given, options, model) for source, name, given in wanted}


def describe(
    options: argparse.Namespace, model: Evaluator, classes: tuple[str, ...], selected: Mask | None = None
) -> dict[str, Any]:
    """What is written beside a result, for people to read: date, version, model, input, method and names."""
    from importlib.metadata import version

    from holdfast.attribution.task import names_of

    inputs = ("image", "text", "table", "input")
    about: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "holdfast": version("holdfast"),
        "model": options.model,
        "input": next(getattr(options, name) for name in inputs if getattr(options, name) is not None),
        "batch_size": model.batch_size,
    }
    if options.table is not None:
        about["row"] = options.row
    explanation = {name: getattr(options, name) for name in ("selected", "scores", "method", "top", "top_fraction")}
    about |= {name: value for name, value in explanation.items() if value not in (None, [])}
    names = names_of(model)
    if selected is not None and names is not None:
        about["selected_names"] = [name for name, shown in zip(names, selected, strict=True) if shown]
    return about | {"feature_names": None if names is None else list(names), "classes": list(classes)}


def _named(text: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    return (name, file) if equals else (Path(text).stem, text)


def _read_mask(file: str, options: argparse.Namespace, model: Evaluator) -> Mask:
    return check_mask(_as_flags(read_numbers(file)), "--selected", n_features=model.n_features)


def _read_scores(file: str, options: argparse.Namespace, model: Evaluator) -> Mask:
    _check_cut(options, "--scores")
    scores = read_numbers(file)
    if len(scores) != model.n_features:
        raise InvalidValueError(
            argument="--scores", must=f"have one score per feature: {model.n_features}", got=len(scores)
        )
    return _cut(scores, options)


def _ask_method(method: str, options: argparse.Namespace, model: Evaluator) -> Mask:
    from holdfast.attribution.methods import attribute

    _check_cut(options, "--method")
    return _cut(attribute(model, method, n_samples=options.n_samples, rng=options.rng), options)


_SOURCES = {"selected": _read_mask, "scores": _read_scores, "method": _ask_method}


def _check_cut(options: argparse.Namespace, needs: str) -> None:
    if (options.top is None) == (options.top_fraction is None):
        raise InvalidValueError("needs `--top` or `--top-fraction`, and not both.", argument=needs)


def _cut(scores: Any, options: argparse.Namespace) -> Mask:
    return top(scores, options.top) if options.top is not None else top_fraction(scores, options.top_fraction)


def read_numbers(name: str) -> NDArray[Any]:
    """A vector from a .npy, .json, .csv or .txt file; numbers may be separated by commas or white space."""
    path = Path(name)
    try:
        if path.suffix == ".npy":
            return _load_array(path)
        text = read_text(path)
        words = json.loads(text) if path.suffix == ".json" else re.split(r"[\s,;]+", text.strip())
        return np.array([_number(word) for word in words])
    except (OSError, InvalidValueError):
        raise
    except Exception as error:  # NumPy lets through whatever its parser of headers raises
        raise InvalidValueError(f"{path} must hold one number per feature: {error}") from error


def _load_array(path: Path) -> NDArray[Any]:
    with check_file(path, most=MOST_UNPACKED).open("rb") as file:
        values = np.load(file, allow_pickle=False)
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
            raise ValueError("it holds something else")
    return values.ravel()


def _number(word: Any) -> float:
    if isinstance(word, str) and word.lower() in ("true", "false"):
        return float(word.lower() == "true")
    return float(word)


def _as_flags(values: NDArray[Any]) -> NDArray[Any]:
    if not np.isin(values, (0, 1)).all():
        raise InvalidValueError(
            argument="--selected", must="hold only 0 and 1, or true and false", hint="Use --scores for scores."
        )
    return values.astype(bool)


def _fill(given: str | None) -> Any:
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def read_grid(given: str | None) -> tuple[int, int] | None:
    """Rows and columns of a grid such as ``14x14``.

    Examples
    --------
    >>> read_grid("14x7"), read_grid(None)
    ((14, 7), None)
    """
    if given is None:
        return None
    match = re.fullmatch(r"(\d{1,9})[x×](\d{1,9})", given)
    if not match:
        raise InvalidValueError(argument="--grid", must="look like 14x14", got=shown(given))
    return int(match[1]), int(match[2])

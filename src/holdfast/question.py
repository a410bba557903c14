"""Options of the command line → a masked model and an explanation."""

from __future__ import annotations

import argparse
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError, MissingExtraError
from holdfast.evaluation import Evaluator, steady_batch_size
from holdfast.packages import check_installed, needed
from holdfast.selection import top, top_fraction
from holdfast.types import Mask, MaskedModel
from holdfast.validation import MOST_TABLE, MOST_UNPACKED, check_file, check_mask, check_name, read_text, shown


def bind_input(options: argparse.Namespace) -> MaskedModel:
    """Load the model and bind the input that the options name."""
    return _bind(options)[0]


def bind_named(options: argparse.Namespace) -> tuple[Evaluator, tuple[str, ...]]:
    """The same, remembering what it has computed, and the names of the model's classes, none where it does not say.

    Batches have a size that depends on no clock, so that what is written can be repeated to the last bit.
    """
    model, classes = _bind(options)
    size = steady_batch_size(model) if options.batch_size is None else options.batch_size
    return Evaluator(model, batch_size=size, timeout=options.timeout), classes


def _bind(options: argparse.Namespace) -> tuple[MaskedModel, tuple[str, ...]]:
    from holdfast.inputs import models

    _check_packages(options)
    kind, value, settings = _read_input(options)
    known = options.model.startswith("bundled:")  # for what, so that a mismatch is told in the words of the options
    expected = options.kind or (None if known else kind)
    classifier = models.load(options.model, device=options.device, kind=expected, trusted=options.trust)
    if classifier.kind != kind:
        raise InvalidValueError(f"`--model` must classify the {kind} that is given, got one for {classifier.kind}s.")
    groups = {"image": read_grid(options.grid), "text": options.features}.get(kind)
    return classifier.bind(value, groups=groups, fill=_fill(options.fill), **settings), classifier.classes


def _check_packages(options: argparse.Namespace) -> None:
    """What the model and the input need is named at once, before either is loaded."""
    from holdfast.inputs.source import split_model

    split_model(options.model)
    model, schemes = options.model, {"image": "images:", "table": "table:", "input": ""}
    name = next((one for one in schemes if getattr(options, one) is not None), None)
    if name is None:
        check_installed(model, needed(model))
        return
    given = getattr(options, name)
    spec = schemes[name] + (given.rpartition("#")[0] if name == "input" else given)
    check_installed(f"{model} with {given}", needed(model, spec))


def choose_selection(options: argparse.Namespace, model: Evaluator) -> Mask:
    """The explanation: a mask from a file, or the top of the scores in a file or of a method."""
    given = [name for name in ("selected", "scores", "method") if getattr(options, name) is not None]
    if len(given) != 1:
        raise InvalidValueError("`--selected` or `--scores` must be given, or `--method`, and only one of them.")
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

    from holdfast.attribution.methods import names_of

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
        raise InvalidValueError(f"`--scores` must have one score per feature: {model.n_features}, got {len(scores)}.")
    return _cut(scores, options)


def _ask_method(method: str, options: argparse.Namespace, model: Evaluator) -> Mask:
    from holdfast.attribution import attribute

    _check_cut(options, "--method")
    return _cut(attribute(model, method, n_samples=options.n_samples, rng=options.rng), options)


_SOURCES = {"selected": _read_mask, "scores": _read_scores, "method": _ask_method}


def _check_cut(options: argparse.Namespace, needs: str) -> None:
    if (options.top is None) == (options.top_fraction is None):
        raise InvalidValueError(f"`{needs}` needs `--top` or `--top-fraction`, and not both.")


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
        raise InvalidValueError("`--selected` must hold only 0 and 1, or true and false. Use --scores for scores.")
    return values.astype(bool)


def _fill(given: str | None) -> Any:
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def _read_input(options: argparse.Namespace) -> tuple[str, Any, dict[str, Any]]:
    """The kind of the input, the input, and what else is needed to bind it."""
    if options.input is not None:
        return _named_input(options.input)
    if options.image:
        return "image", Path(options.image), {}
    if options.text is not None:
        return "text", options.text, {}
    row, background = _table(options)
    return "table", row, {"background": background}


def _named_input(given: str) -> tuple[str, Any, dict[str, Any]]:
    """One input of a data set: what names the data set, ``#``, and the number of the input from 0."""
    from holdfast.inputs import data

    spec, _, number = given.rpartition("#")
    if not spec or not re.fullmatch(r"[0-9]{1,18}", number):
        raise InvalidValueError(f"`--input` must look like bundled:digits#3, got {shown(given)}.")
    dataset = data.load(spec)
    if int(number) >= len(dataset):
        raise InvalidValueError(f"`--input` must end with a number from 0 to {len(dataset) - 1}, got {given!r}.")
    settings = {} if dataset.background is None else {"background": dataset.background}
    return dataset.kind, dataset.inputs[int(number)], settings


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
        raise InvalidValueError(f"`--grid` must look like 14x14, got {shown(given)}.")
    return int(match[1]), int(match[2])


def _table(options: argparse.Namespace) -> tuple[Any, Any]:
    """The row as a series, and the rows that hidden columns are filled from."""
    table = _read_table(options.table)
    if options.target is not None:
        check_name(options.target, "--target", [str(name) for name in table.columns])
        table = table.drop(columns=options.target)
    if not 0 <= options.row < len(table):
        raise InvalidValueError(f"`--row` must be from 0 to {len(table) - 1}, got {options.row}.")
    background = table
    if options.background:  # may have the target, or only features
        background = _read_table(options.background).drop(columns=options.target or [], errors="ignore")
    return table.iloc[options.row], background


def _read_table(name: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("Tables need pandas: pip install 'holdfast[report]'") from error
    check_file(Path(name), most=MOST_TABLE)
    try:
        return pandas.read_csv(name, compression=None)
    except ValueError as error:
        raise InvalidValueError(f"{name} must be a table in CSV form: {error}") from error

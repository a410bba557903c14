"""What names a model or data → what loads it: schemes, advice on wrong names, and packages that are missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, isfunction, signature
from pathlib import Path
from threading import RLock
from typing import Any, Generic, TypeVar

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import check_installed, needed
from holdfast.validation import shown, split_spec

_Value = TypeVar("_Value")


class Once(Generic[_Value]):
    """A value that is made when it is first asked for, once, whichever thread asks."""

    def __init__(self, make: Callable[[], _Value]) -> None:
        self._make, self._lock, self._values = make, RLock(), list[_Value]()

    def __call__(self) -> _Value:
        with self._lock:
            if not self._values:
                self._values.append(self._make())
            return self._values[0]


Loader = tuple[str, str, str]
"""A module of ``holdfast.inputs``, its function that loads, and the form of the names that it takes."""

LOADERS: dict[str, dict[str, Loader]] = {
    "model": {
        "hf": ("models.hf", "load_folder", "hf:<hub id or folder>"),
        "onnx": ("models.objects", "load_onnx", "onnx:<file>"),
        "skops": ("models.objects", "load_skops", "skops:<file>"),
        "xgboost": ("models.boosters", "load_xgboost", "xgboost:<.json or .ubj file>"),
        "lightgbm": ("models.boosters", "load_lightgbm", "lightgbm:<file>"),
        "catboost": ("models.boosters", "load_catboost", "catboost:<.cbm file>"),
        "bundled": ("models.bundled", "load_bundled", "bundled:<name>"),
        "openai": ("models.language", "load_endpoint", "openai:<base url>#<model>"),
        "python": ("models.objects", "load_python", "python:<module>:<factory>"),
    },
    "data": {
        "bundled": ("data.dataset", "load_bundled", "bundled:<name>"),
        "images": ("data.files", "load_images", "images:<folder>"),
        "tweeteval": ("data.files", "load_tweeteval", "tweeteval:<folder>"),
        "table": ("data.files", "load_table", "table:<file>"),
        "contexts": ("data.contexts", "load_contexts", "contexts:<.jsonl file>"),
        "hf": ("data.files", "load_disk", "hf:<folder>"),
    },
}

PICKLES = (".joblib", ".pickle", ".pkl")
"""What files are called that run code when they are loaded."""

_SCHEMES = {".onnx": "onnx", ".skops": "skops", ".ubj": "xgboost", ".cbm": "catboost"}
_BEGINNINGS = {".json": (b'{"learner"', "xgboost"), ".txt": (b"tree\n", "lightgbm")}

SAVE = "Save the estimator with `skops.io.dump(estimator, 'model.skops')` and load 'skops:model.skops'."


def split_source(spec: Any, what: str) -> tuple[str, str]:
    """The scheme and the place of a "model" or of "data", or an error that says what is wrong; nothing is loaded."""
    scheme, place = split_spec(spec, what, LOADERS[what], advise_model if what == "model" else advise_data)
    if not place:
        raise InvalidValueError(argument=what, must=f"be {LOADERS[what][scheme][2]}", got=shown(spec))
    return scheme, place


def load_source(spec: Any, what: str, options: Mapping[str, Any]) -> Any:
    """The classifier or the data set of this name; an option that its loader cannot use is an error, not ignored."""
    scheme, place = split_source(spec, what)
    module, function, _ = LOADERS[what][scheme]
    loader = getattr(import_module(f"holdfast.inputs.{module}"), function)
    check_options(loader, options, f"{scheme}: {'models' if what == 'model' else what}")
    return loader(place, **options)


def check_options(loader: Callable[..., Any], options: Mapping[str, Any], what: str) -> None:
    """Raise for options that the loader does not take; files and columns are named by texts, where it says so."""
    parameters = signature(loader).parameters.values()
    known = {option.name: str(option.annotation) for option in parameters if option.kind is Parameter.KEYWORD_ONLY}
    passes_on = any(option.kind is Parameter.VAR_KEYWORD for option in parameters)  # to what checks it
    unknown = sorted(options.keys() - known.keys())
    if unknown and not passes_on:
        names = ", ".join(sorted(known))
        raise InvalidTypeError(argument=unknown[0], must=f"be an option of {what} ({names})")
    for name in options.keys() & known.keys():
        value, kind = options[name], known[name]
        if kind.startswith("Sequence[str]"):
            parts = [value] if isinstance(value, str) else value
            if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
                raise InvalidTypeError(argument=name, must="be a list of texts", got=shown(value))
        elif kind.startswith("str") and not (isinstance(value, str) or (value is None and "None" in kind)):
            raise InvalidTypeError(argument=name, must="be a text", got=shown(value))


def check_sources(model: Any, data: Any, *further: str, what: str | None = None) -> None:
    """What names the model and the data can be a name, and every package that they and ``further`` need is there."""
    # What is no text is a live object, or None for what is not to be loaded: it needs nothing more.
    names = {source: spec for source, spec in (("model", model), ("data", data)) if isinstance(spec, str)}
    for source, spec in names.items():
        split_source(spec, source)
    check_installed(what or " with ".join(names.values()) or "This", (*needed(**names), *further))


def is_on_this_machine(url: str) -> bool:
    """Whether a server can be reached from this machine alone, by the name in its address.

    >>> is_on_this_machine("http://127.0.0.1:8000/v1#tiny"), is_on_this_machine("https://127.0.0.1.example.org/v1#tiny")
    (True, False)
    """
    return re.fullmatch(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?([/#].*)?", url) is not None


def import_function(place: str, argument: str, what: str) -> Callable[..., Any]:
    """The function that ``<module>:<name>`` names; ``what`` it is, and for which argument, is for errors."""
    name, _, function = place.partition(":")
    if not function or not all(part.isidentifier() for part in [*name.split("."), function]):
        raise InvalidValueError(argument=argument, must=f"be python:<module>:<{what}>", got=shown(f"python:{place}"))
    raised, is_known = f"'python:{name}' raised ", False
    with retelling(raised, " on import"), suppress(ModuleNotFoundError):  # of a parent package
        is_known = find_spec(name) is not None
    if not is_known:
        must, hint = "be followed by a module that can be imported", "Install it, or add its folder to PYTHONPATH."
        raise InvalidValueError(argument="python:", must=must, got=repr(name), hint=hint)
    with retelling(raised, " on import"):
        module = import_module(name)
    named: Callable[..., Any] | None = getattr(module, function, None)
    if not callable(named):
        public = ", ".join(sorted(key for key, value in vars(module).items() if isfunction(value))) or "none"
        raise InvalidValueError(f"The module {name!r} must have a {what} {function!r}; its functions: {public}.")
    return named


@contextmanager
def retelling(before: str, after: str = "") -> Iterator[None]:
    """Whatever the caller's module or a file raises, told with what it came from."""
    try:
        yield
    except Exception as error:
        raise InvalidValueError(f"{before}{type(error).__name__}{after}: {error}") from error


def advise_model(place: str) -> str | None:
    """What to write or do for the place of a model whose scheme is missing or unknown, as far as its name tells."""
    from holdfast.inputs.models.bundled import bundled_names

    suffix = Path(place).suffix.lower()
    if suffix in PICKLES:
        return refuse_pickle(place)
    path = Path(place).expanduser()
    scheme = "hf" if place and path.is_dir() else _SCHEMES.get(suffix)
    if suffix in _BEGINNINGS and path.is_file():
        with path.open("rb") as file:
            beginning, own = _BEGINNINGS[suffix]
            scheme = own if file.read(len(beginning)) == beginning else None
    return _did_you_mean("bundled" if place in bundled_names() else scheme, place)


def refuse_pickle(place: str) -> str:
    """Why a pickle is refused, and what to save instead."""
    return f"{place!r} is refused: it is a pickle, which runs code when loaded. {SAVE}"


def advise_data(place: str) -> str | None:
    """The same for data, as far as their name and their files tell."""
    from holdfast.inputs.data.dataset import NAMES
    from holdfast.inputs.data.files import READERS, SUFFIXES

    path, scheme = Path(place), None
    if place in NAMES:
        scheme = "bundled"
    elif path.suffix.lower() in READERS:
        scheme = "table"
    elif path.suffix.lower() == ".jsonl":
        scheme = "contexts"
    elif place and path.is_dir():
        if any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json")):
            scheme = "hf"  # what `save_to_disk` writes beside the data
        elif any(path.glob("*_text.txt")):
            scheme = "tweeteval"
        elif any(file.suffix.lower() in SUFFIXES for file in path.rglob("*")):
            scheme = "images"
    return _did_you_mean(scheme, place)


def _did_you_mean(scheme: str | None, place: str) -> str | None:
    return f"Did you mean '{scheme}:{place}'?" if scheme else None

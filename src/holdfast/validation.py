"""Arguments → checked values, or one kind of message: what must hold, for which name, what came."""

from __future__ import annotations

import difflib
import math
import numbers
import os
import stat
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache, wraps
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import ArgumentError, HoldfastError, InvalidTypeError, InvalidValueError
from holdfast.types import Mask, Masks

_Given = ParamSpec("_Given")
_Drawn = TypeVar("_Drawn")

MOST_AT_ONCE = 10**9
"""More rows or features than any memory holds; asking for more is a slip."""

MOST_ENTRIES = 10_000
"""Most radii, fractions or keep probabilities in one question; a list that is longer is a slip."""

MOST_BYTES = 1 << 24
"""Most bytes (16 MB) of a file that is read as text or JSON: as objects it takes up to fifty times as much."""

MOST_UNPACKED = 1 << 30
"""Most bytes (1 GB) that an archive may unpack to."""

MOST_CELLS = 1 << 26
"""Most entries of an array of masks that is made at once: half a gigabyte while it is drawn."""

MOST_TABLE = 1 << 31
"""Most bytes (2 GB) of a table in a file."""

_MOST_BITS = 4096  # whole numbers beyond are refused: Python writes none of more than 4,300 digits
_MOST_SHOWN = 200


def check_whole(value: Any, name: str, *, minimum: int = 0) -> int:
    """A whole number of at least ``minimum``."""
    if type(value) is int and minimum <= value <= MOST_AT_ONCE:  # as nearly always
        return value
    kind: type[ArgumentError] = InvalidTypeError
    if is_number(value):
        kind = InvalidValueError
        with suppress(OverflowError, ValueError):  # infinity and NaN
            whole: int = math.floor(value)
            if whole == value and whole >= minimum and whole.bit_length() <= _MOST_BITS:
                return whole
    raise kind(argument=name, must=f"be a whole number ≥ {minimum}", got=shown(value))


def shown(value: Any) -> str:
    """The value as an error message quotes it: cut where it is long, whatever it is."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def check_share(value: Any, name: str) -> Fraction:
    """A number strictly between 0 and 1, as the fraction its decimal digits say (0.1 is 1/10)."""
    check_number(value, name, "be a number strictly between 0 and 1", lambda number: 0 < number < 1)
    return value if isinstance(value, Fraction) else _fraction(str(value))


_fraction = lru_cache(maxsize=1024)(Fraction)


def check_mask(value: Any, name: str, *, n_features: int | None = None) -> Mask:
    """A Boolean vector, copied and made read-only."""
    must = "be a Boolean vector (n_features,)"
    mask = as_array(value, name, must).copy()
    if mask.ndim != 1 or len(mask) == 0:
        raise InvalidValueError(argument=name, must=must, got=f"an array of shape {mask.shape}")
    if mask.dtype != np.bool_:
        hint = "Turn scores into a mask with `top(scores, k)`."
        if mask.dtype.kind in "iu":
            hint = f"{hint[:-1]}, and feature indices with `mask = np.zeros(n, bool); mask[indices] = True`."
        raise InvalidTypeError(argument=name, must="be Boolean", got=mask.dtype, hint=hint)
    if n_features is not None and len(mask) != n_features:
        must = f"have one entry per feature: the model has {n_features} features"
        raise InvalidValueError(argument=name, must=must, got=len(mask))
    mask.setflags(write=False)
    return mask


def check_class_name(prediction: Any, name: Any, argument: str, *, in_words: bool = False) -> None:
    """Only a class by its number, or a prediction in words, has a name, which is not empty: a file may be edited."""
    kind = str if in_words else int
    if name is not None and (not isinstance(prediction, kind) or isinstance(prediction, bool) or not name.strip()):
        must = "be the name of a numbered class"
        raise InvalidValueError(argument=argument, must=must, got=f"{shown(name)} for {shown(prediction)}")


def check_label(value: str, name: str) -> str:
    """A name that is printed on one line, as it is."""
    if not value.isprintable():
        raise InvalidValueError(argument=name, must="be printable on one line", got=shown(value))
    return value


def check_classes(classes: Any) -> tuple[str, ...] | None:
    """Distinct names of one line each, or None."""
    if classes is None:
        return None
    must = "be a list of distinct names of classes, in the order of the scores"
    names = check_list(classes, "classes", must)
    for name in names:
        if not isinstance(name, str):
            raise InvalidTypeError(argument="classes", must=must, got=f"{shown(name)} among them")
        check_label(name, "classes")
        if names.count(name) > 1:
            raise InvalidValueError(argument="classes", must=must, got=f"{shown(name)} more than once")
    if not names:
        raise InvalidValueError(argument="classes", must=must, got="none")
    return tuple(str(name) for name in names)


def check_selection(value: Any, name: str, model: Any) -> Mask:
    """A mask of the model's features: given as one, or as a list of their names or of their indices."""
    if getattr(model, "n_features", None) is None:
        return check_mask(value, name)
    n_features = check_whole(model.n_features, "model.n_features", minimum=1)
    array = as_array(value, name, "be a Boolean vector (n_features,)")
    if array.ndim == 1 and array.dtype.kind in "iu" and len(array):
        if len(array) == n_features and np.isin(array, (0, 1)).all():
            hint = f"Turn flags into a mask with `np.asarray({name}) == 1`."
            got = f"{array.dtype}: 0 and 1 may be flags or indices"
            raise InvalidTypeError(argument=name, must="be Boolean", got=got, hint=hint)
        if array.min() < 0 or array.max() >= n_features:
            raise InvalidValueError(argument=name, must=f"hold indices from 0 to {n_features - 1}", got=array.tolist())
        chosen: list[int] = array.tolist()
    elif array.ndim == 1 and len(array) and all(isinstance(entry, str) for entry in array.tolist()):
        if getattr(model, "feature_names", None) is None:
            got = "names: the model does not say what its features are called"
            raise InvalidTypeError(argument=name, must="be a mask or indices", got=got)
        known = [str(label) for label in model.feature_names]
        for label in array.tolist():
            if label not in known:
                must, near = "hold names of features", did_you_mean(label, known)
                raise InvalidValueError(argument=name, must=must, got=shown(label), hint=near)
            if known.count(label) > 1:
                places = ", ".join(str(i) for i, other in enumerate(known) if other == label)
                must, got = "be unambiguous", f"{label!r}, the name of features {places}"
                raise InvalidValueError(argument=name, must=must, got=got, hint="Pass indices.")
        chosen = [known.index(label) for label in array.tolist()]
    else:
        return check_mask(value, name, n_features=n_features)
    if len(set(chosen)) < len(chosen):
        raise InvalidValueError(argument=name, must="name every feature once", got=shown(value))
    mask = np.zeros(n_features, dtype=bool)
    mask[chosen] = True
    mask.setflags(write=False)
    return mask


def check_masks(value: Any, n_features: int) -> Masks:
    """Boolean masks (b, n_features)."""
    must = f"have shape (b, {n_features})"
    masks = as_array(value, "masks", must)
    if masks.dtype != np.bool_:
        raise InvalidTypeError(argument="masks", must="be Boolean", got=masks.dtype)
    if masks.ndim != 2 or masks.shape[1] != n_features:
        raise InvalidValueError(argument="masks", must=must, got=masks.shape)
    return masks


def as_array(value: Any, name: str, must: str, *, kinds: str | None = None) -> NDArray[Any]:
    """Anything array-like as an array, its type of one of NumPy's ``kinds``; rows of unequal length are refused."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidValueError(argument=name, must=must, got="rows of unequal length") from error
    if kinds is not None and array.dtype.kind not in kinds:
        raise InvalidTypeError(argument=name, must=must, got=array.dtype)
    return array


def check_name(value: Any, name: str, options: Iterable[str]) -> str:
    """One of the known names; a wrong one is answered with the nearest."""
    known = list(options)
    if isinstance(value, str) and value in known:
        return value
    must = f"be one of {', '.join(known)}"
    if not isinstance(value, str):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    raise InvalidValueError(argument=name, must=must, got=shown(value), hint=did_you_mean(value, known))


def did_you_mean(value: str, known: list[str]) -> str | None:
    """The known name with these initials or this beginning, or the nearest, whatever the case of the letters."""
    word, lower = value.lower(), {name.lower(): name for name in known}
    near = [name for name in lower if "_" in name and word == "".join(part[:1] for part in name.split("_"))]
    near += [name for name in lower if word and name.startswith(word)]
    near += difflib.get_close_matches(word, lower, n=1, cutoff=0.4)
    return f"Did you mean {lower[near[0]]!r}?" if near else None


def check_flag(value: Any, name: str) -> bool:
    """True or False, nothing that only behaves so."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(argument=name, must="be True or False", got=shown(value))
    return bool(value)


def check_size(value: Any, name: str, *, minimum: int = 1, most: int = MOST_AT_ONCE) -> int:
    """A whole number of things that are all held in memory at once."""
    size = check_whole(value, name, minimum=minimum)
    if size > most:
        raise InvalidValueError(argument=name, must=f"be at most {most}", got=shown(value))
    return size


def check_number(value: Any, name: str, must: str, holds: Callable[[Any], bool]) -> Any:
    """A real number for which something holds."""
    if not is_number(value):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    if not holds(value):
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    return value


def check_amount(value: Any, name: str, *, may_be_zero: bool = False) -> float:
    """A finite number above zero, or zero where that makes sense."""
    must = f"be a number {'≥' if may_be_zero else '>'} 0"
    return float(check_number(value, name, must, lambda number: 0 < number < math.inf or (may_be_zero and number == 0)))


def check_seconds(value: Any) -> float | None:
    """A number of seconds above zero, or None for as long as it takes."""
    if value is None:
        return None
    check_number(value, "timeout", "be a number of seconds > 0, or None", lambda number: number > 0)
    return min(float(value), threading.TIMEOUT_MAX)


def check_list(value: Any, name: str, must: str, *, most: int | None = None) -> list[Any]:
    """The entries of anything that can be gone through, but for a text or a mapping; no more than ``most``."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    with suppress(TypeError):  # an array without axes says that it can be gone through
        entries = list(islice(value, None if most is None else most + 1))
        if most is not None and len(entries) > most:
            raise InvalidValueError(argument=name, must=f"{must} of at most {most} entries", got="more")
        return entries
    raise InvalidTypeError(argument=name, must=must, got=shown(value))


def check_numbers(value: Any, name: str, must: str = "be numbers") -> NDArray[np.float64]:
    """Real numbers of any shape, as floats."""
    return as_array(value, name, must, kinds="fiub").astype(np.float64)


def drawing(function: Callable[_Given, _Drawn]) -> Callable[_Given, _Drawn]:
    """A function that hands its arguments on to be drawn: what cannot be is refused, with the reason."""

    @wraps(function)
    def draw(*given: _Given.args, **named: _Given.kwargs) -> _Drawn:
        try:
            return function(*given, **named)
        except (HoldfastError, OSError):
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            what = f"{function.__name__} cannot draw this: {type(error).__name__}: {error}"
            raise InvalidValueError(what) from error

    return draw


def check_path(value: Any, name: str) -> Path:
    """The name of a file or folder: a text or a path that the operating system can take."""
    must = "be the name of a file"
    if not isinstance(value, (str, PathLike)):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    with suppress(TypeError, ValueError):
        path = Path(value)
        if b"\0" not in os.fsencode(path):
            return path
    raise InvalidValueError(argument=name, must=must, got=shown(value))


def check_file(path: Path, *, most: int) -> Path:
    """A file of at most ``most`` bytes; pipes and devices need not end, and are refused. Folders fail when opened."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise InvalidValueError(f"{str(path)!r} must be a regular file, got a pipe or a device. Save it as a file.")
    if status.st_size > most:
        raise InvalidValueError(f"{str(path)!r} must have at most {most} bytes, got {status.st_size}.")
    return path


def read_text(path: Path, *, most: int = MOST_BYTES) -> str:
    """The text of such a file, in UTF-8 with or without a byte-order mark."""
    try:
        return check_file(path, most=most).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{str(path)!r} must be text in UTF-8: {error}. Save it as UTF-8.") from error


def check_unpacked(path: Path, *, most: int = MOST_UNPACKED) -> None:
    """Refuse a file of more than ``most`` bytes, or an archive that says it unpacks to more; no reader unpacks more."""
    if not zipfile.is_zipfile(check_file(path, most=most)):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except Exception as error:  # damaged archives fail in many ways
        raise InvalidValueError(f"The archive {str(path)!r} cannot be read: {error}. It may be incomplete.") from error
    if size > most:
        raise InvalidValueError(f"{str(path)!r} must unpack to at most {most} bytes, got {size}.")


def is_number(value: Any) -> bool:
    """Whether the value is a real number and no Boolean."""
    if type(value) in (int, float):  # as nearly always: the check below takes longer
        return True
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def split_spec(spec: Any, name: str, schemes: Iterable[str], advise: Callable[[str], str | None]) -> tuple[str, str]:
    """The scheme of ``scheme:place``, and the place; an unknown scheme, or none, is answered with advice.

    ``advise`` is given the place and says what to do instead, if it can tell; otherwise the nearest scheme is named.
    """
    known = tuple(schemes)
    must = f"start with one of {', '.join(f'{scheme}:' for scheme in known)}"
    if not isinstance(spec, str):
        raise InvalidTypeError(argument=name, must=must, got=shown(spec))
    scheme, colon, place = spec.partition(":")
    if not colon or scheme not in known:
        has_drive = len(scheme) == 1
        near = difflib.get_close_matches(scheme.lower(), known, n=1, cutoff=0.5)
        nearest = f"Did you mean '{near[0]}:{place}'?" if near else None
        hint = advise(place if place and not has_drive else spec) or nearest
        raise InvalidValueError(argument=name, must=must, got=shown(spec), hint=hint)
    return scheme, place

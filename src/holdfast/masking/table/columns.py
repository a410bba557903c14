"""Columns of a row, or steps of a series → features, as integer maps column → feature."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.validation import as_array, check_size, check_whole, shown

ALWAYS_SHOWN = -1
"""The feature number of columns that are never hidden."""

_MOST_NAMES = 4  # most columns a feature is named after one by one
_MOST_NAMED = 8  # most columns that a message names


@dataclass(frozen=True)
class ColumnGroups:
    """Names of features, each with its columns; becomes an integer map once the row is known."""

    names: tuple[str, ...]
    members: tuple[tuple[Hashable, ...], ...]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """For each column, flat (d,), its feature or -1; and a name for each feature."""

    of_column: NDArray[np.intp]
    names: tuple[str, ...]

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def hideable(self) -> NDArray[np.bool_]:
        """Which columns belong to a feature, Boolean (d,)."""
        return np.asarray(self.of_column != ALWAYS_SHOWN)


def columns(n: int) -> NDArray[np.intp]:
    """Make every column a feature of its own.

    Parameters
    ----------
    n : int
        Number of columns.

    Returns
    -------
    NDArray
        The map (n,) column → feature.

    Examples
    --------
    >>> columns(3)
    array([0, 1, 2])
    """
    return np.arange(check_size(n, "n"), dtype=np.intp)


def column_groups(groups: Mapping[str, Sequence[Hashable]]) -> ColumnGroups:
    """Let columns that belong together, such as those of a one-hot code, be one feature.

    The features are the groups in the given order, then every column that no group names, on its
    own, in the order of the row.

    Parameters
    ----------
    groups : mapping
        Feature name → its columns, by name or by position.

    Returns
    -------
    ColumnGroups
        For the ``groups`` of ``mask_tabular``.

    Examples
    --------
    >>> column_groups({"colour": ["red", "green", "blue"]}).names
    ('colour',)
    """
    if not isinstance(groups, Mapping) or not all(isinstance(name, str) for name in groups):
        raise InvalidTypeError(argument="groups", must="map feature names to lists of columns", got=shown(groups))
    for name, members in groups.items():
        if isinstance(members, (str, bytes)) or not isinstance(members, (Sequence, np.ndarray)):
            raise InvalidTypeError(argument=f"groups[{name!r}]", must="be a list of columns", got=shown(members))
        if len(members) == 0:
            raise InvalidValueError(argument=f"groups[{name!r}]", must="name at least one column", got="none")
    return ColumnGroups(tuple(groups), tuple(tuple(members) for members in groups.values()))


def windows(length: int, width: int) -> NDArray[np.intp]:
    """Cut a series into windows of neighbouring steps; the last may be shorter.

    Parameters
    ----------
    length : int
        Number of steps T.
    width : int
        Steps per window.

    Returns
    -------
    NDArray
        The map (length,) step → feature; a series (T, channels) hides all channels of a window together.

    Examples
    --------
    >>> windows(5, 2)
    array([0, 0, 1, 1, 2])
    """
    steps = np.arange(check_size(length, "length"), dtype=np.intp)
    return steps // min(check_whole(width, "width", minimum=1), len(steps))


def as_feature_map(groups: Any, *, shape: tuple[int, ...], labels: Sequence[Hashable]) -> FeatureMap:
    """The features of a row of this shape whose leading axis has these labels."""
    if groups is None:
        groups = columns(len(labels))
    if isinstance(groups, Mapping):
        groups = column_groups(groups)
    if isinstance(groups, ColumnGroups):
        of_label, places = np.full(len(labels), ALWAYS_SHOWN, dtype=np.intp), positions_of(labels)
        for feature, members in enumerate(groups.members):
            for member in members:
                at = position_of(member, places, "groups")
                if of_label[at] != ALWAYS_SHOWN:
                    got = f"{labels[at]!r} twice"
                    raise InvalidValueError(argument="groups", must="name every column at most once", got=got)
                of_label[at] = feature
        rest = np.flatnonzero(of_label == ALWAYS_SHOWN)
        of_label[rest] = len(groups.names) + np.arange(len(rest))
        names = groups.names + tuple(str(labels[at]) for at in rest.tolist())
    else:
        of_label = _check_map(groups, shape)
        names = _name_features(of_label, labels)
    flat = np.broadcast_to(of_label.reshape(of_label.shape + (1,) * (len(shape) - of_label.ndim)), shape).ravel()
    flat.setflags(write=False)
    return FeatureMap(flat, names)


def positions_of(labels: Sequence[Hashable]) -> dict[Hashable, int]:
    """Column → where it stands."""
    return {label: at for at, label in enumerate(labels)}


def position_of(label: Any, places: Mapping[Hashable, int], name: str) -> int:
    """Where a column stands: by its label, else by a whole number below the number of columns."""
    if isinstance(label, Hashable) and label in places:
        return places[label]
    is_position = isinstance(label, (int, np.integer)) and not isinstance(label, bool) and 0 <= label < len(places)
    if not is_position:
        must = f"name columns of the row ({first_few(map(repr, places))})"
        raise InvalidValueError(argument=name, must=must, got=shown(label))
    return int(label)


def first_few(names: Iterable[str]) -> str:
    """The names after each other, no more than a message should have."""
    beginning = list(islice(names, _MOST_NAMED + 1))
    return ", ".join(beginning[:_MOST_NAMED]) + (", …" if len(beginning) > _MOST_NAMED else "")


def _check_map(groups: Any, shape: tuple[int, ...]) -> NDArray[np.intp]:
    shapes = " or ".join(str(shape[:n]) for n in range(1, len(shape) + 1))
    must = f"be whole numbers of shape {shapes}"
    of_label = as_array(groups, "groups", must, kinds="iu")
    if of_label.ndim == 0 or of_label.shape != shape[: of_label.ndim]:
        raise InvalidValueError(argument="groups", must=must, got=f"shape {of_label.shape}")
    if of_label.min() < ALWAYS_SHOWN:
        raise InvalidValueError(argument="groups", must="be features 0, 1, … or -1 (always shown)", got=of_label.min())
    used = np.unique(of_label[of_label != ALWAYS_SHOWN])
    if len(used) == 0:
        raise InvalidValueError(argument="groups", must="have at least one feature", got="-1 (always shown) everywhere")
    if used[-1] >= len(used):
        got = f"none for {int(np.flatnonzero(used != np.arange(len(used)))[0])}"
        must, hint = f"use every feature number from 0 to {used[-1]}", "`np.unique(groups, return_inverse=True)[1]`"
        raise InvalidValueError(argument="groups", must=must, got=got, hint=f"Renumber with {hint}.")
    return of_label.astype(np.intp)


def _name_features(of_label: NDArray[np.intp], labels: Sequence[Hashable]) -> tuple[str, ...]:
    """The one column of a feature, the ends of a run of columns, or all of a few."""
    n_features = int(of_label.max()) + 1
    if of_label.ndim > 1:
        return tuple(map(str, range(n_features)))
    order = np.argsort(of_label, kind="stable")
    names = []
    for start, end in pairwise(np.searchsorted(of_label[order], np.arange(n_features + 1))):
        positions = order[start:end]
        first, last = labels[positions[0]], labels[positions[-1]]
        if len(positions) == 1:
            names.append(str(first))
        elif positions[-1] - positions[0] == len(positions) - 1:
            names.append(f"{first}–{last}")
        else:
            few = len(positions) <= _MOST_NAMES
            names.append("+".join(str(labels[at]) for at in positions) if few else f"{first}+…+{last}")
    return tuple(names)

"""Files of results of one study → one file with the items of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from holdfast.atomic import replacing
from holdfast.errors import InvalidValueError, StoreError, StudyError
from holdfast.showing import Shown
from holdfast.study.curves import curve_keys
from holdfast.study.listing import Listed, check_listing
from holdfast.study.question import Plain, check_same_question
from holdfast.study.results import Record, Row, stored_json
from holdfast.study.spec_file import spec_from_plain
from holdfast.study.store import Store
from holdfast.study.writing import StoreWriter
from holdfast.validation import check_list, check_path

_ITEMS = """
SELECT i.item, i.input, i.method, i.top_fraction, i.keep_probability, i.selected, i.n_selected, i.prediction,
    i.consistent, i.curve, i.mus, i.witness, i.n_calls, i.n_computed, i.seconds, i.digest
FROM items i ORDER BY i.input, i.method, i.top_fraction, i.keep_probability
"""


@dataclass(frozen=True)
class Merged(Shown):
    """What a merge did: items written, those that several files had, equal in all, and mean curves still to compute."""

    path: str
    n_items: int
    n_repeated: int
    n_curves: int = 0

    def __str__(self) -> str:
        repeated = f" ({self.n_repeated} were in more than one, and equal)" if self.n_repeated else ""
        means = f" Run the study with this file to compute its {self.n_curves} mean curves." if self.n_curves else ""
        return f"{self.n_items} items in {self.path}{repeated}.{means}"


def merge_studies(paths: Iterable[str | Path], out: str | Path) -> Merged:
    """Put the items of several files of results of one study into a new file.

    All files must answer the same question (model, data, masking, certification, seed), with any of
    its inputs and methods. An item that several files hold must be equal in all, time and shared work
    aside. If anything is amiss nothing is written. Mean curves (precision "data-set") are over all
    inputs and are not merged: running the study with the new file computes them.

    Parameters
    ----------
    paths : iterable of str or Path
        The files; they are only read.
    out : str or Path
        The new file; one that exists is refused.
    """
    given = check_list(paths, "paths", "be a list of files of results")
    target, sources = check_path(out, "out"), [check_path(path, "paths") for path in given]
    if len(sources) < 1:
        raise InvalidValueError(argument="paths", must="name at least one file of results", got="none")
    if target.exists():
        raise StoreError(f"{str(out)!r} exists already: a merge makes a new file.")
    with ExitStack() as stack:
        stores = [stack.enter_context(Store(path)) for path in sources]
        spec = _common_spec(stores)
        largest = _largest(stores)
        n_repeated, listed = _check_equal(stores), _common_listing(stores)
        with replacing(target) as unfinished:
            n_items = _write(unfinished, spec, stores, listed, largest)
    return Merged(str(out), n_items, n_repeated, len(curve_keys(spec)))


def _common_spec(stores: list[Store]) -> Plain:
    """The first study, widened to all methods, fractions, keep probabilities and inputs of the others."""
    merged = stores[0].spec
    methods: dict[str, Plain] = {}
    for store in stores:
        check_same_question(merged | {"methods": list(methods.values())}, store.spec)
        methods |= stored_json(store.meta("methods"), dict)
    fractions = (value for store in stores for value in store.spec["top_fractions"])
    keeps = (value for store in stores for value in store.spec["smoothing"]["keep_probabilities"])
    counts = [store.spec["data"]["n"] for store in stores]
    widened = merged | {
        "methods": list(methods.values()),
        "top_fractions": list(dict.fromkeys(fractions)),
        "smoothing": merged["smoothing"] | {"keep_probabilities": list(dict.fromkeys(keeps))},
        "data": merged["data"]
        | {"n": None if None in counts else max(counts), "order": _largest(stores).spec["data"]["order"]},
    }
    spec_from_plain(widened)  # what was stored may be damaged
    return widened


def _largest(stores: list[Store]) -> Store:
    """The file whose study asks for the most inputs, among them all that the others ask for."""
    largest = max(stores, key=lambda store: len(store.inputs()))
    asked = set(largest.inputs())
    for store in stores:
        if not asked.issuperset(store.inputs()):
            raise StudyError(
                f"{str(store.path)!r} asks for inputs that {str(largest.path)!r} does not: they are samples of "
                "different data, or in different orders. Nothing was written."
            )
    return largest


def _check_equal(stores: list[Store]) -> int:
    """Raise where files contradict each other; returns how many items were met again."""
    known: dict[str, tuple[str, Path]] = {}
    n_repeated = 0
    for store in stores:
        for key, digest in store.digests().items():
            before = known.setdefault(key, (digest, store.path))
            if before[0] != digest:
                raise StudyError(
                    f"The item {key} differs between {str(before[1])!r} and {str(store.path)!r}. Nothing was written. "
                    "Were they computed by different models, data or versions?"
                )
            n_repeated += before[1] != store.path
    return n_repeated


def _common_listing(stores: list[Store]) -> dict[int, Listed]:
    """The inputs that the numbers stand for, which must be the same in all files."""
    listed: dict[int, Listed] = {}
    for store in stores:
        mine = store.names() | store.listing()
        check_listing(listed, mine)
        listed |= {index: one.knowing(listed.get(index)) for index, one in mine.items()}
    return listed


def _write(path: Path, spec: Plain, stores: list[Store], listed: dict[int, Listed], largest: Store) -> int:
    sources = {"merged": [str(store.path) for store in stores]}
    done: set[str] = set()
    with StoreWriter(path, spec, settings=sources, versions=_versions(stores)) as writer:
        writer.expect(largest.inputs(), n_there=largest.n_there)
        writer.list_inputs(listed)
        for store in stores:
            for record in records_of(store):
                if record.key not in done:
                    writer.add(record)
                    done.add(record.key)
        _write_absences(writer, stores)
    return len(done)


def _versions(stores: list[Store]) -> dict[str, list[dict[str, str]]]:
    """What the items were computed with, session by session."""
    rows = (row for store in stores for row in store.query("SELECT versions FROM sessions ORDER BY session"))
    return {"merged": [stored_json(row[0]) for row in rows]}


def _write_absences(writer: StoreWriter, stores: list[Store]) -> None:
    """Inputs that one file left out or gave up; a status counts those of which items are missing."""
    stored = writer.keys()
    for store in stores:
        for index, reason in store.skips().items():
            writer.skip(index, reason)
        for index, reason, n_tries, items in store.query("SELECT input, reason, n_tries, items FROM failures"):
            left = tuple(key for key in stored_json(items, list) if key not in stored)
            if left:
                writer.give_up(index, reason, n_tries=n_tries, items=left)


def records_of(store: Store) -> Iterator[Record]:
    """The rows of every item as a worker would send them."""
    for item, *row in store.query(_ITEMS):
        index, method = row[0], row[1]
        yield Record(
            key=f"{index}/{method}/{row[2]!r}/{row[3]!r}",
            input=_row(store, "SELECT * FROM inputs WHERE input = ?", index),
            attribution=_row(store, "SELECT * FROM attributions WHERE input = ? AND method = ?", index, method),
            item=tuple(row),
            rates=tuple(row[1:] for row in store.query("SELECT * FROM rates WHERE item = ? ORDER BY radius", item)),
        )


def _row(store: Store, statement: str, *values: object) -> Row:
    return tuple(next(store.query(statement, *values)))

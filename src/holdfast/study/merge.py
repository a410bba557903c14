"""Files of results of one study → one file with the items of all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from holdfast.atomic import replacing
from holdfast.errors import InvalidValueError, StoreError, StudyError
from holdfast.study.records import Listed, check_listing, stored_json
from holdfast.study.spec import MethodSpec, StudySpec, check_same_question
from holdfast.study.store import Store, StoreWriter
from holdfast.terminal import Shown
from holdfast.validation import check_list, check_path
from holdfast.words import counted, paragraph


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

    def explain(self) -> str:
        """What the merge did and did not do, in plain words."""
        return paragraph(
            "What is in the new file?",
            f"{counted(self.n_items, 'item')} of all files, each once.",
            f"{counted(self.n_repeated, 'item')} came more than once and were equal, time and shared work aside.",
            f"{counted(self.n_curves, 'mean curve')} are not merged, since they are over all inputs."
            " Run the study with the new file to compute them." * bool(self.n_curves),
            "All files answer the same question: model, data, masking, certification and seed.",
            "The files that were read are as they were, and nothing was computed anew.",
        )


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
    sources = [check_path(path, "paths") for path in check_list(paths, "paths", "be a list of files of results")]
    target = check_path(out, "out")
    if len(sources) < 1:
        raise InvalidValueError(argument="paths", must="name at least one file of results", got="none")
    if target.exists():
        raise StoreError(f"{str(out)!r} already exists; a merge needs a new file.")
    with ExitStack() as stack:
        stores = [stack.enter_context(Store(path)) for path in sources]
        spec, largest = _common_study(stores)
        listed, n_repeated = _check_equal(stores)
        sessions = (row for store in stores for row in store.query("SELECT versions FROM sessions ORDER BY session"))
        versions = {"merged": [stored_json(text) for (text,) in sessions]}
        unfinished = stack.enter_context(replacing(target))
        with StoreWriter(unfinished, spec, settings={"merged": list(map(str, sources))}, versions=versions) as writer:
            writer.expect(largest.inputs(), n_there=largest.n_there)
            writer.list_inputs(listed)
            done: set[str] = set()
            for record in chain.from_iterable(store.records() for store in stores):
                if record.key not in done:
                    writer.add(record)
                    done.add(record.key)
            # Of inputs that one file left out or gave up, a status counts those that miss items.
            for store in stores:
                for index, reason in store.skips().items():
                    writer.skip(index, reason)
                for failure in store.failures():
                    if left := tuple(key for key in failure.items if key not in done):
                        writer.give_up(failure._replace(items=left))
    return Merged(str(out), len(done), n_repeated, len(spec.mean_groups))


def _common_study(stores: list[Store]) -> tuple[StudySpec, Store]:
    """The first study, widened to all that the others ask for, and the file that asks for the most inputs."""
    merged, methods = stores[0].spec, dict[str, MethodSpec]()
    largest = max(stores, key=lambda store: len(store.inputs()))
    for store in stores:
        check_same_question(merged, store.spec, methods)
        methods |= store.methods()
    for store in stores:
        if not set(largest.inputs()).issuperset(store.inputs()):
            raise StudyError(
                f"{str(store.path)!r} has inputs that {str(largest.path)!r} does not: the data or their order "
                "differ. Nothing was written."
            )
    specs = [store.spec for store in stores]
    keeps = dict.fromkeys(keep for spec in specs for keep in spec.smoothing.keep_probabilities)
    counts = [spec.data.n for spec in specs if spec.data.n is not None]
    widened = replace(
        merged,
        methods=tuple(methods.values()),
        top_fractions=tuple(dict.fromkeys(fraction for spec in specs for fraction in spec.top_fractions)),
        smoothing=replace(merged.smoothing, keep_probabilities=tuple(keeps)),
        data=replace(merged.data, n=max(counts) if len(counts) == len(specs) else None, order=largest.spec.data.order),
    )
    return widened, largest


def _check_equal(stores: list[Store]) -> tuple[dict[int, Listed], int]:
    """Raise where files contradict each other; the inputs of all, and how many items were met again."""
    known, listed, n_repeated = dict[str, tuple[str, Path]](), dict[int, Listed](), 0
    for store in stores:
        for key, digest in store.digests().items():
            before, path = known.setdefault(key, (digest, store.path))
            if before != digest:
                raise StudyError(
                    f"The item {key} differs between {str(path)!r} and {str(store.path)!r}. Nothing was written. "
                    "Perhaps models, data or versions differ."
                )
            n_repeated += path != store.path
    for store in stores:
        own = store.names() | store.listing()
        check_listing(listed, own)
        listed |= {index: entry.knowing(listed.get(index)) for index, entry in own.items()}
    return listed, n_repeated

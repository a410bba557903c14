"""A skops file → a ``Classifier``; nothing is created that scikit-learn does not own or the caller does not trust."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.fingerprints import digest_files, fingerprint
from holdfast.inputs.models.classifier import Classifier
from holdfast.inputs.models.objects import estimator_classifier
from holdfast.inputs.source import PICKLES, SAVE, refuse_pickle
from holdfast.validation import check_unpacked, shown


def load_skops(
    place: str, *, kind: str | None = None, trusted: tuple[str, ...] = (), classes: Any = None
) -> Classifier:
    """Load a scikit-learn estimator or pipeline; ``trusted`` names what it may create besides what skops trusts.

    A pipeline that starts with a text vectoriser takes texts, others tables, unless ``kind`` says otherwise.
    ``classes`` are names in place of the estimator's own.
    """
    path = Path(place).expanduser()
    if not path.is_file():
        raise InvalidValueError(argument="skops:", must="be followed by an existing file", got=shown(str(path)))
    if not zipfile.is_zipfile(path):
        is_pickle = path.suffix.lower() in PICKLES or path.read_bytes()[:1] == b"\x80"
        problem = f"{str(path)!r} is not a skops file, or is cut off. {SAVE}"
        raise InvalidValueError(refuse_pickle(str(path)) if is_pickle else problem)
    check_unpacked(path)
    io = import_extra("skops.io", "skops: models need")
    with _reading(path):
        unknown = [name for name in io.get_untrusted_types(file=path) if name not in trusted]
    if unknown:
        names = ", ".join(repr(name) for name in [*trusted, *unknown])
        raise InvalidValueError(
            f"{str(path)!r} would create {len(unknown)} types that are not trusted: {', '.join(unknown)}. If you know "
            f"them to be harmless, name each with `--trust TYPE` (in Python: pass `trusted=[{names}]`, in a study "
            "`trust=Trust(types=[…])`)."
        )
    with _reading(path):
        estimator = io.load(path, trusted=list(trusted))
    (digest,) = digest_files([path]).values()  # of the bytes, whatever the file is called
    return estimator_classifier(estimator, kind=kind, classes=classes, fingerprint=fingerprint({"skops": digest}))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a damaged archive fails in many ways
        reason = f"{type(error).__name__}: {error}"
        raise InvalidValueError(f"The skops file {str(path)!r} cannot be read: {reason}") from error

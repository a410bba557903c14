"""The bundled forest → a ``Classifier`` on rows that knows its columns by name and what to fill hidden ones with."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from holdfast.errors import InvalidValueError, MissingExtraError
from holdfast.inputs.models.classifier import Classifier, Engine
from holdfast.inputs.models.skops_file import load_skops
from holdfast.types import MaskedModel

FILE = "forest.skops"

TRUSTED = ("sklearn.tree._tree.Tree",)
"""All that the forest needs beyond what skops trusts by itself; its file is compared with its checksum first."""


def load_rows(folder: Path, *, classes: list[str], means: dict[str, float]) -> Classifier:
    """Load the forest in a folder.

    Parameters
    ----------
    folder : Path
        Where its file is, already found to be whole.
    classes : list of str
        The names of its classes.
    means : dict of str to float
        The columns in their order, each with its mean over the training rows.
    """
    try:
        from sklearn.exceptions import InconsistentVersionWarning
    except ImportError as error:
        raise MissingExtraError("Bundled forests need scikit-learn: pip install 'holdfast[sklearn]'") from error
    with warnings.catch_warnings():
        # The file says which scikit-learn wrote it; another that could not read it would fail, not warn.
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        loaded = load_skops(str(folder / FILE), kind="table", trusted=TRUSTED, classes=classes)
    return replace(loaded, engine=NamedRows(loaded.engine, means))


@dataclass(frozen=True)
class NamedRows:
    """An engine on rows, and its columns, each with what it holds when it is hidden."""

    engine: Engine
    means: dict[str, float]

    def score(self, rows: Any, /) -> NDArray[Any]:
        return self.engine.score(self._ordered(rows))

    def bind(self, one: Any, /, **settings: Any) -> MaskedModel:
        """One row; hidden columns take their mean over the training rows unless the caller says otherwise."""
        own = {} if settings.keys() & {"fill", "background"} else {"fill": self.means}
        return self.engine.bind(one, **({"columns": list(self.means)} | own | settings))

    def _ordered(self, rows: Any) -> Any:
        """The columns of a frame in the order of the forest; arrays are in it already."""
        if not hasattr(rows, "iloc"):
            return rows
        missing = [name for name in self.means if name not in rows.columns]
        if missing:
            raise InvalidValueError(
                f"`inputs` must have the {len(self.means)} columns of the model, no {missing[0]!r}."
            )
        return rows[list(self.means)].to_numpy()

"""The name of a model that comes with holdfast → a ``Classifier``, after a check that its files are whole.

Every model has a folder in ``box`` with a ``card.json``: what it is, how many test inputs it gets right,
and the SHA-256 of the other files. The scripts in ``training`` write all of it.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError
from holdfast.extras import import_extra
from holdfast.fingerprints import canonical, digest_files, fingerprint
from holdfast.inputs.models.classifier import Classifier, ClassifierEngine, FunctionOnTexts, PredictorOnRows
from holdfast.masking.table.mask_tabular import as_predictor
from holdfast.types import MaskedModel
from holdfast.validation import check_name, shown

BOX = Path(__file__).parent / "box"
"""Where the models are, one folder each."""

CARD, FOREST = "card.json", "forest.skops"

SENTIMENTS = ("negative", "neutral", "positive")
"""The classes of VADER (Hutto and Gilbert 2014), a rule-based judge of sentiment."""

NEUTRAL_SCORE = 0.04995
"""Just below the 0.05 from which VADER's authors call a text positive; it rounds compounds to four digits."""

TRUSTED = ("sklearn.tree._tree.Tree",)
"""All that the forest needs beyond what skops trusts by itself; its file is compared with its checksum first."""


@dataclass(frozen=True)
class BundledModel:
    """What is known of a model that comes with holdfast.

    Attributes
    ----------
    name : str
        ``holdfast.models.load("bundled:<name>")`` loads it.
    kind : {"image", "text", "table"}
        What it classifies.
    data : str
        The inputs it goes with, for ``holdfast.data.load``.
    description : str
        What it is, in one line.
    counts : mapping of str to (int, int)
        What was measured → how many were right, of how many. The first is the test split as it is.
    """

    name: str
    kind: str
    data: str
    description: str
    counts: Mapping[str, tuple[int, int]]
    files: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def accuracy(self) -> float:
        """The share of the test inputs it gets right."""
        n_correct, n_tested = next(iter(self.counts.values()))
        return n_correct / n_tested

    def __str__(self) -> str:
        return f"bundled:{self.name} ({self.kind}): {self.description}"


def available() -> tuple[BundledModel, ...]:
    """List the models that come with holdfast.

    Returns
    -------
    models : tuple of BundledModel
        In the order of their names.

    Examples
    --------
    >>> for model in available():
    ...     if model.kind == "table":
    ...         print(model)
    bundled:cancer-forest (table): random forest on 30 measurements of cell nuclei
    bundled:cancer-linear (table): logistic regression on the same measurements, in NumPy
    """
    return tuple(read_card(name) for name in bundled_names())


def load_bundled(
    place: str,
    *,
    device: Any = None,
    dtype: Any = None,
    kind: str | None = None,
    max_length: int | None = None,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
) -> Classifier:
    """Load a bundled model by its name; ``kind`` is what the caller expects it to classify, the rest is for torch."""
    card = read_card(check_name(place, "model", bundled_names()))
    name, folder = f"bundled:{card.name}", BOX / card.name
    if max_length is not None and card.kind != "text":
        raise InvalidValueError(argument="max_length", must=f"be left out for {name}: it is for texts")
    if kind not in (None, card.kind):
        raise InvalidValueError(argument="kind", must=f"be {card.kind!r} for {name}", got=shown(kind))
    own = {"device": device, "dtype": dtype, "max_length": max_length, "autocast": autocast, "compile": compile}
    options = {option: value for option, value in own.items() if value is not None and value is not False}
    for file, wanted in card.files.items():
        path, problem = folder / file, "is missing"
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest == wanted:
                continue
            problem = f"is damaged or was changed (SHA-256 {digest[:12]}…, not {wanted[:12]}…)"
        rule = f"The files of {name} must be as they were shipped"
        raise InvalidValueError(f"{rule}, but {str(path)!r} {problem}. Install holdfast again.")
    if "config.json" in card.files:
        from holdfast.inputs.models.hf import load_folder

        return load_folder(str(folder), **options)
    if card.name == "efficientnet-lite0":
        from holdfast.inputs.models.photos import load_efficientnet

        return load_efficientnet(folder, **card.settings, **options)
    for option, value in options.items():
        must = f"be left out for {name}, which is not a torch model"
        raise InvalidValueError(argument=option, must=must, got=shown(value))
    if card.name == "cancer-linear":
        return load_linear(**card.settings)
    return load_vader() if card.name == "vader" else load_forest(folder, **card.settings)


def read_card(name: str) -> BundledModel:
    """What is written on the card of a model."""
    card = json.loads((BOX / name / CARD).read_text(encoding="utf-8"))
    counts = {what: (int(correct), int(tested)) for what, (correct, tested) in card["counts"].items()}
    fields = {key: card[key] for key in ("kind", "data", "description", "files", "settings")}
    return BundledModel(name=name, counts=counts, **fields)


def bundled_names() -> list[str]:
    """The names of the models that come with holdfast."""
    return sorted(path.parent.name for path in BOX.glob(f"*/{CARD}"))


def load_vader() -> Classifier:
    """VADER as a classifier; its fingerprint covers its rules and its lexicons, the same wherever it is installed."""
    module = import_extra("vaderSentiment.vaderSentiment", "bundled:vader needs")
    rules = Path(module.__file__)
    files = [rules, *(rules.parent / name for name in ("vader_lexicon.txt", "emoji_utf8_lexicon.txt"))]
    own = fingerprint(digest_files(files) | {"settings": canonical({"neutral": NEUTRAL_SCORE})})
    return Classifier("text", SENTIMENTS, own, FunctionOnTexts(Vader(module.SentimentIntensityAnalyzer())))


@dataclass(frozen=True, eq=False)
class Vader:
    """Texts → scores (b, 3): minus the compound, a constant, the compound.

    The compound is VADER's summary of a text, from -1 to 1. The largest of the three scores is what
    its authors read from it: negative up to -0.05, positive from 0.05, neutral between. A text
    without words is neutral.
    """

    analyzer: Any

    def __call__(self, texts: list[str], /) -> NDArray[np.float64]:
        compounds = np.array([self.analyzer.polarity_scores(text)["compound"] for text in texts], dtype=np.float64)
        return np.stack([-compounds, np.full(len(texts), NEUTRAL_SCORE), compounds], axis=1)


def load_forest(folder: Path, *, classes: list[str], means: dict[str, float]) -> Classifier:
    """The forest in a folder; ``means`` has the columns in their order, each with its mean over the training rows."""
    from holdfast.inputs.models.objects import load_skops

    with warnings.catch_warnings():
        # The file says which scikit-learn wrote it; another that could not read it would fail, not warn.
        warnings.filterwarnings("ignore", "Trying to unpickle estimator")
        loaded = load_skops(str(folder / FOREST), kind="table", trusted=TRUSTED, classes=classes)
    return replace(loaded, engine=NamedRows(loaded.engine, means))


def load_linear(*, classes: list[str], means: dict[str, float], weights: list[float], bias: float) -> Classifier:
    """A logistic regression of two classes; ``weights`` are those of the columns of ``means``, for the first class."""
    predict = Logistic(np.array(weights), bias)
    own = fingerprint({"logistic": canonical({"weights": weights, "bias": bias})})
    return Classifier("table", tuple(classes), own, NamedRows(PredictorOnRows(predict, as_predictor(predict)), means))


@dataclass(frozen=True, eq=False)
class Logistic:
    """Rows → probabilities (b, 2) of the first class and of the other."""

    weights: NDArray[np.float64]
    bias: float

    def __call__(self, rows: Any, /) -> NDArray[np.float64]:
        first = 1 / (1 + np.exp(-(np.asarray(rows, dtype=np.float64) @ self.weights + self.bias)))
        return np.stack([first, 1 - first], axis=1)


@dataclass(frozen=True)
class NamedRows:
    """An engine on rows, and its columns, each with what it holds when it is hidden."""

    engine: ClassifierEngine
    means: dict[str, float]

    def score(self, rows: Any, /) -> NDArray[Any]:
        """Scores of rows; the columns of a frame are put in order, those of an array are in it already."""
        if not hasattr(rows, "iloc"):
            return self.engine.score(rows)
        missing = [name for name in self.means if name not in rows.columns]
        if missing:
            must = f"have the {len(self.means)} columns of the model; {missing[0]!r} is missing"
            raise InvalidValueError(argument="inputs", must=must)
        return self.engine.score(rows[list(self.means)].to_numpy())

    def bind(self, row: Any, /, **settings: Any) -> MaskedModel:
        """One row; hidden columns take their mean over the training rows unless the caller says otherwise."""
        own = {} if settings.keys() & {"fill", "background"} else {"fill": self.means}
        return self.engine.bind(row, **({"columns": list(self.means)} | own | settings))

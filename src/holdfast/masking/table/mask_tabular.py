"""A classifier and one row of a table, or a short series → a ``MaskedModel`` whose features are columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import ColumnsError, HoldfastError, InvalidTypeError, InvalidValueError, ModelError
from holdfast.fingerprints import function_key
from holdfast.masking.resampling import Resample
from holdfast.masking.table.boosters import (
    NativeBooster,
    category_names,
    fitted_columns,
    head_of,
    is_native,
    library_of,
    spelled,
)
from holdfast.masking.table.columns import FeatureMap, as_feature_map, first_few, position_of, positions_of
from holdfast.masking.table.palettes import (
    ArrayPalette,
    FrameTable,
    Palette,
    Table,
    columns_without_numbers,
    is_pandas,
    join_tables,
    nearest_rows,
    read_table,
)
from holdfast.masking.torch import SCORE_NAMES, classes_of, fingerprint_live, is_module, is_session, on_rows, to_numpy
from holdfast.outputs import answers_of, combine_outputs, split_rows
from holdfast.randomness import stream, stream_key
from holdfast.terminal import Bound
from holdfast.types import Masks, Outputs, Provenance, Rng
from holdfast.validation import as_array, check_flag, check_name, check_whole, is_number, shown

_NAMED_FILLS = ("mean", "mode", "background", "resample", "missing")
_METHODS = ("predict_proba", "predict_log_proba", "decision_function", "predict")
_ONNX_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_REFUSALS = ("LightGBMError", "CatBoostError")  # which are no ValueError
_SAYS_MISSING = re.compile(r"\b(nan|na|nat|null|nonetype|missing)\b|cat_feature", re.IGNORECASE)
_DEFAULT_ROWS = 8192  # most rows the classifier gets at a time if the caller does not say


@dataclass(frozen=True, eq=False)
class TabularModel(Bound):
    """A classifier on one row, as a function of which columns are shown.

    ``n_fills`` is the number of fill rows per mask: 1, or the number of background rows averaged over. ``n_rows`` are
    most rows per call of the classifier. ``classes`` are names of the classes in the order of the scores, if known.
    ``labels`` are the columns, or steps, of the row, and ``drawn`` the numbers of the background rows averaged over.
    """

    predictor: Predictor
    palette: Palette
    features: FeatureMap
    provenance: Provenance
    n_fills: int
    n_rows: int
    softmax: bool
    classes: tuple[str, ...] | None = None
    labels: tuple[Hashable, ...] = ()
    drawn: NDArray[np.intp] | None = None

    structure_reader: ClassVar[str] = "holdfast.exact.binding"
    """The module that knows what a classifier is made of, and so what can be proven without draws."""

    @property
    def n_features(self) -> int:
        return self.features.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.features.names

    @property
    def batch_size(self) -> int:
        """Most masks per call that keep the rows within what was asked for."""
        return max(1, self.n_rows // self.n_fills)

    def __call__(self, masks: Masks, /) -> Outputs:
        """Scores (b, n_classes), or labels (b,), of the row under masks (b, n_features)."""
        shown = self.shown_columns(masks)
        return combine_outputs(self.scores(self._portions(shown, self.n_rows)), len(shown))

    def scores(self, portions: Iterable[NDArray[np.intp]]) -> Outputs:
        """Outputs of masked rows, of which each column is taken from a row of the palette."""
        return self._as_asked(np.concatenate([self._ask(chosen) for chosen in portions]))

    @property
    def join_key(self) -> Hashable | None:
        """What rows have in common that can be predicted together: classifier, columns and their types."""
        palette, predictor = self.palette, self.predictor
        if isinstance(palette, ArrayPalette):
            kinds: Hashable = (palette.values.dtype, palette.shape)
        else:
            # Types of categories are equal in any order of them, which codes are not.
            types = list(palette.frame.dtypes)
            kinds = (palette.order, *types, *(tuple(kind.categories) for kind in types if hasattr(kind, "categories")))
        key = function_key(predictor.function) if predictor.estimator is None else id(predictor.estimator)
        return None if key is None else (TabularModel, key, predictor.method, kinds, self.softmax)

    def score_jointly(self, parts: Sequence[tuple[TabularModel, Masks]], /) -> list[Outputs]:
        """Scores or labels of rows of one ``join_key``, each under masks of its own, in one call if it has room."""
        if sum(len(masks) * model.n_fills for model, masks in parts) > min(model.n_rows for model, _ in parts):
            return [model(masks) for model, masks in parts]
        tables = []
        for model, masks in parts:
            shown = model.shown_columns(masks)
            (chosen,) = model._portions(shown, len(shown) * model.n_fills)
            tables.append(model.palette.take(chosen))
        outputs = self.predictor(join_tables(tables))
        if outputs.dtype.kind == "f" and np.isnan(outputs).any():
            raise ModelError("The model returned NaN.")  # whose it is, is said when each is asked alone
        own = split_rows(self._as_asked(outputs), list(map(len, tables)))
        return [combine_outputs(rows, len(masks)) for (_, masks), rows in zip(parts, own, strict=True)]

    def _as_asked(self, outputs: Outputs) -> Outputs:
        """Scores, or their softmax."""
        if self.softmax:
            if outputs.ndim == 1 or outputs.shape[1] < 2:
                must = "be False for a classifier that returns labels or a single score"
                raise InvalidValueError(argument="softmax", must=must)
            powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            outputs = np.asarray(powers / powers.sum(axis=1, keepdims=True))
        return outputs

    def rows(self, mask: Any) -> Any:
        """The rows the classifier sees for one mask (n_features,): a table of ``n_fills`` rows."""
        return self.palette.take(next(self._portions(self.shown_columns(np.asarray(mask)[None]), self.n_fills)))

    def _ask(self, chosen: NDArray[np.intp]) -> Outputs:
        """Outputs of the masked rows; where the classifier cannot take missing values, an error names them."""
        rows = self.palette.take(chosen)
        try:
            outputs = self.predictor(rows)
        except Exception as error:
            problem = explain_refusal(error, self.predictor, rows, *self._missing_places(chosen))
            if problem is None:
                raise
            raise problem from error
        if outputs.dtype.kind == "f" and (spoiled := np.isnan(outputs).any(axis=1)).any():
            _, labels, words = self._missing_places(chosen[spoiled])
            if labels:
                raise ModelError(f"The model returned NaN for missing values: {words}. {_FILL_THEM}")
        return outputs

    def _missing_places(self, chosen: NDArray[np.intp]) -> tuple[str, list[Hashable], str]:
        """Which argument the first missing value in masked rows comes from, the columns, and words for the places."""
        used = np.zeros_like(self.palette.missing)
        used[chosen, np.arange(used.shape[1])] = True
        places = np.argwhere(used & self.palette.missing).tolist()
        n_each = used.shape[1] // len(self.labels)  # channels of a series
        words = []
        for row, at in places:
            fill = "the fill" if self.drawn is None else f"background row {self.drawn[row - 1]}"
            words.append(f"{self.labels[at // n_each]!r} in {fill if row else 'the row'}")
        argument = "row" if places and places[0][0] == 0 else "fill" if self.drawn is None else "background"
        return argument, [self.labels[at // n_each] for _, at in places], first_few(dict.fromkeys(words))

    def shown_columns(self, masks: Any) -> NDArray[np.bool_]:
        """Which columns (b, d) show the row's own values under masks (b, n_features)."""
        array = np.asarray(masks)
        if array.dtype != np.bool_:
            raise InvalidTypeError(argument="masks", must="be Boolean", got=array.dtype)
        if array.ndim != 2 or array.shape[1] != self.n_features or len(array) == 0:
            raise InvalidValueError(argument="masks", must=f"have shape (b, {self.n_features}), b ≥ 1", got=array.shape)
        return np.asarray(array[:, np.maximum(self.features.of_column, 0)] | ~self.features.hideable)

    def _portions(self, shown: NDArray[np.bool_], size: int) -> Iterator[NDArray[np.intp]]:
        """Which palette row each column takes, with all fill rows of a mask one after the other."""
        for start in range(0, len(shown) * self.n_fills, size):
            at = np.arange(start, min(start + size, len(shown) * self.n_fills))
            yield np.where(shown[at // self.n_fills], 0, 1 + at[:, None] % self.n_fills)


@dataclass(frozen=True, eq=False)
class ResampledTable(Bound):
    """A classifier on one row, whose hidden columns are taken together from a background row that is drawn.

    ``completed`` shows a mask with the background row of each number: of all rows, or of the ``nearest`` to the row in
    the columns that are shown, the nearest first; ``distances`` (m, d) says how near each is in each column. A call
    gives the mean over them. It is a ``Completing`` model.
    """

    table: TabularModel
    nearest: int | None = None
    distances: NDArray[np.int64] | None = None

    @property
    def n_features(self) -> int:
        return self.table.n_features

    @property
    def n_completions(self) -> int:
        return self.table.n_fills if self.nearest is None else self.nearest

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.table.feature_names

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.table.classes

    @property
    def provenance(self) -> Provenance:
        return self.table.provenance

    @property
    def batch_size(self) -> int:
        """Most masks per call that keep the rows within what was asked for."""
        return max(1, self.table.n_rows // self.n_completions)

    def completed(self, masks: Masks, numbers: NDArray[np.int64], /) -> Outputs:
        """Scores (b, n_classes), or labels (b,), under masks (b, n_features) with completions of these numbers (b,)."""
        shown = self.table.shown_columns(masks)
        return self.table.scores(self._portions(shown, np.arange(len(shown)), np.asarray(numbers)))

    def __call__(self, masks: Masks, /) -> Outputs:
        """The mean of the scores, or the most frequent label, over all completions of each mask."""
        if self.nearest is None:
            return self.table(masks)
        shown = self.table.shown_columns(masks)
        masked, numbers = np.divmod(np.arange(len(shown) * self.nearest), self.nearest)
        return combine_outputs(self.table.scores(self._portions(shown, masked, numbers)), len(shown))

    def rows(self, mask: Any) -> Any:
        """The rows the classifier may see for one mask (n_features,): a table with a row for every completion."""
        shown, numbers = self.table.shown_columns(np.asarray(mask)[None]), np.arange(self.n_completions)
        chosen = list(self._portions(shown, np.zeros_like(numbers), numbers))
        return self.table.palette.take(np.concatenate(chosen))

    def sources(self, mask: Any) -> NDArray[np.intp]:
        """The number of the background row that each completion of one mask takes its hidden columns from."""
        return np.asarray(self._sources(self.table.shown_columns(np.asarray(mask)[None]))[0])

    def _sources(self, shown: NDArray[np.bool_]) -> NDArray[np.intp]:
        if self.nearest is None or self.distances is None:
            return np.broadcast_to(np.arange(self.n_completions), (len(shown), self.n_completions))
        return nearest_rows(shown, self.distances, self.nearest)

    def _portions(
        self, shown: NDArray[np.bool_], masked: NDArray[np.intp], numbers: NDArray[np.int64]
    ) -> Iterator[NDArray[np.intp]]:
        """Which palette row each column takes, for these of the masks with completions of these numbers."""
        sources = self._sources(shown)
        for start in range(0, len(masked), self.table.n_rows):
            at, number = masked[start : start + self.table.n_rows], numbers[start : start + self.table.n_rows]
            yield np.where(shown[at], 0, 1 + sources[at, number][:, None])


def mask_tabular(
    classifier: Any,
    row: Any,
    *,
    background: Any = None,
    fill: Any = "mean",
    groups: Any = None,
    n_background: int = 32,
    columns: Sequence[Hashable] | None = None,
    rng: Rng = 0,
    batch_size: int | None = None,
    softmax: bool = False,
    device: Any = None,
    dtype: Any = None,
    fingerprint: str | None = None,
    classes: Sequence[str] | None = None,
) -> TabularModel | ResampledTable:
    """Bind a classifier and one row into a function of which columns are shown.

    Shown columns hold the row's own values; hidden ones hold the fill. With every feature shown
    the classifier sees the row exactly as it is. What is certified later is about this fill: see
    ``fill_sensitivity`` for how much it matters.

    With ``fill="background"`` the hidden columns of a mask are taken together from one background
    row, once for each of ``n_background`` drawn rows, and the scores are averaged (after ``softmax``,
    if asked for); labels are put to the vote, the smallest label winning a tie. The rows are drawn
    without replacement, once, from a stream of ``rng`` that nothing else uses, and are the same for
    every mask: the model stays a deterministic function. It is the average over these rows, not over
    the distribution they come from.

    With ``fill="resample"`` or ``resample(...)`` they are taken together from one background row as well, but another
    one with each draw: see ``resample``.

    Parameters
    ----------
    classifier : callable, estimator, torch module, ONNX session or file name
        A callable gets what the row is: arrays (b, d), or data frames. It returns scores
        (b, n_classes) or labels (b,); one real number per row is one score, for ``agree=within(margin)``
        or ``same_side(threshold)``.
        Estimators and pipelines are asked for ``predict_proba``, else ``decision_function`` (that of
        two classes becomes two columns -s, s), else ``predict``; fitted on frames they get frames.
        Torch modules get float tensors, ONNX models their own number type. Boosters of XGBoost, LightGBM and
        CatBoost are asked as their estimators are; a probability p of two classes becomes two columns 1 - p, p.
    row : array (d,), series (T,) or (T, channels), mapping column → value, pandas Series, or data frame of one row
        The input. Infinity is refused. Missing values stay missing: whether it knows them is up to the classifier.
        Frames of Polars become frames of pandas.
    background : array (m, d) or data frame, optional
        Rows to learn the fill from. Whole-number, text and categorical columns of a frame keep its types,
        and categories that it does not have are refused.
    fill : {"mean", "mode", "background", "resample", "missing"}, number, dict column → value, array, or Resample
        What hidden columns hold. "mean" takes the mode of columns that are not numeric; both leave out missing values.
        "missing" is NaN, or what stands for it in the column's type, for classifiers that know missing values; whole
        numbers and Booleans become floats.
    groups : int array, mapping or ColumnGroups, optional
        Column → feature (see ``columns``, ``column_groups``, ``windows``); -1 is always shown. Every column,
        or step of a series, is a feature of its own if None.
    n_background : int
        Rows drawn for ``fill="background"``; all are used if there are no more.
    columns : sequence, optional
        Names of the columns of an array; the columns to use of a frame, in this order.
    rng : Generator, int or None
        For ``fill="background"`` alone.
    batch_size : int, optional
        Most rows the classifier gets at a time; 8192 if None.
    softmax : bool
        Turn scores into probabilities.
    device, dtype : optional
        For torch modules: those of the parameters if None.
    fingerprint : str, optional
        What identifies the classifier. If None, that of a torch module, an estimator or an ONNX file is computed;
        a function has none.
    classes : sequence of str, optional
        Names of the classes, in the order of the scores; by default those that an estimator of scikit-learn or a
        module of Transformers knows.

    Returns
    -------
    TabularModel or ResampledTable
        A ``MaskedModel`` with ``feature_names`` and ``provenance``.

    Examples
    --------
    >>> import numpy as np
    >>> def is_large(rows):
    ...     return rows.sum(axis=1) > 5
    >>> model = mask_tabular(is_large, [4.0, 1.0, 2.0], background=[[0.0, 0.0, 1.0], [2.0, 0.0, 1.0]])
    >>> model(np.array([[True, True, True], [True, False, False]])), model.provenance.masking[:46]
    (array([ True, False]), '3 columns as 3 features; fill mean of 2 backgr')
    """
    check_flag(softmax, "softmax")
    predictor = as_predictor(classifier, device=device, dtype=dtype)
    n_rows = _DEFAULT_ROWS if batch_size is None else check_whole(batch_size, "batch_size", minimum=1)
    n_drawn, key = check_whole(n_background, "n_background", minimum=1), stream_key(rng)
    if isinstance(fill, Resample):
        if background is not None and fill.background is not None and background is not fill.background:
            must = "be left out with `fill=resample(rows)`, which has its own rows"
            raise InvalidValueError(argument="background", must=must, got=shown(background))
        background = background if fill.background is None else fill.background
    table = read_table(row, background, columns)
    features = as_feature_map(groups, shape=table.shape, labels=table.labels)
    rows, words, drawn = _make_fill(table, fill, hideable=features.hideable, n_background=n_drawn, key=key)
    palette = table.palette(rows, features.hideable)
    # Tells other maps and values apart.
    digest = hashlib.sha256(features.of_column.astype("<i8").tobytes() + palette.fill_bytes).hexdigest()[:32]
    masking = f"{len(features.of_column)} columns as {features.n_features} features; fill {words}"
    scoring = classifier if predictor.method is None else getattr(predictor.estimator, predictor.method)
    names = classes_of(scoring, classes) or predictor.classes or None
    if predictor.method == "predict":
        names = None  # labels are names themselves, or numbers that need not count from 0
    suited = _suited(palette, table, predictor)
    known = fingerprint_live(classifier) if fingerprint is None else fingerprint
    provenance = Provenance(f"{masking}{'; softmax' if softmax else ''}; digest {digest}", known, table.fingerprint)
    labels = table.labels if isinstance(suited, ArrayPalette) else tuple(suited.frame.columns)
    model = TabularModel(predictor, suited, features, provenance, len(rows), n_rows, softmax, names, labels, drawn)
    if isinstance(fill, Resample) or (isinstance(fill, str) and fill == "resample"):
        if isinstance(fill, str) or fill.nearest is None:
            return ResampledTable(model)
        # Columns that are always shown are compared as well.
        return ResampledTable(model, fill.nearest, table.palette(rows, np.ones_like(features.hideable)).distances())
    return model


def _suited(palette: Palette, table: Table, predictor: Predictor) -> Palette:
    """The palette in the form and with the columns the classifier was made for."""
    known, labels = predictor.labels, table.labels
    goes_by_place = (known is None or isinstance(palette, ArrayPalette)) and len(table.shape) == 1
    if goes_by_place and predictor.n_columns not in (None, len(labels)):
        must = f"have the {predictor.n_columns} columns the classifier was fitted on"
        raise ColumnsError(argument="row", must=must, got=len(labels))
    if known is None:
        # Frames whose labels are numbers leave no names in an estimator: one fitted on them looks like one on arrays.
        fitted_on_arrays = predictor.n_columns is not None and all(isinstance(label, str) for label in labels)
        if isinstance(palette, ArrayPalette) or (predictor.takes_frames and not fitted_on_arrays):
            return palette
        return palette.to_array()
    if isinstance(palette, ArrayPalette):
        # The caller's names of an array's columns, or the classifier's, in its order.
        palette = palette.to_frame(known if labels == tuple(range(len(known))) else labels)
    return replace(palette, order=predictor.order(palette.order, "row"))


def _make_fill(
    table: Table, fill: Any, *, hideable: NDArray[np.bool_], n_background: int, key: int
) -> tuple[Any, str, NDArray[np.intp] | None]:
    """The fill rows of a table, an array (m, d) or a frame of m rows, the words for them, and which rows were drawn.

    ``key`` seeds draws.
    """
    hidden = np.flatnonzero(hideable).tolist()
    nearest = fill.nearest if isinstance(fill, Resample) else None
    fill = "resample" if isinstance(fill, Resample) else fill
    if not isinstance(fill, str):
        if is_number(fill):
            return table.given(dict.fromkeys(hidden, fill)), f"constant {fill}", None
        return table.given(_values_by_position(table, fill, hidden)), "given values", None
    name = check_name(fill, "fill", _NAMED_FILLS)
    if name == "missing":
        return table.given(dict.fromkeys(hidden, float("nan"))), name, None
    if table.background is None:
        hint = "Pass rows to learn from, such as the training set, or a constant such as fill=0.0."
        raise InvalidValueError(argument="background", must=f"be given for fill={name!r}", got="None", hint=hint)
    n_known = len(table.background)
    if name == "resample":
        if nearest is not None and nearest > n_known:
            raise InvalidValueError(argument="nearest", must=f"be at most the {n_known} background rows", got=nearest)
        near = "" if nearest is None else f"the {nearest} nearest to the shown values of "
        return table.drawn(np.arange(n_known)), f"drawn from {near}{n_known} background rows", np.arange(n_known)
    if name != "background":
        return table.means() if name == "mean" else table.modes(), f"{name} of {n_known} background rows", None
    if n_background >= n_known:
        rows = np.arange(n_known)
        return table.drawn(rows), f"all {n_known} background rows, averaged", rows
    rows = np.sort(stream(key, "background").permutation(n_known)[:n_background])
    return table.drawn(rows), f"{len(rows)} (key {key}) of {n_known} background rows, averaged", rows


def _values_by_position(table: Table, fill: Any, hidden: list[int]) -> dict[int, Any]:
    if is_pandas(fill, "Series"):
        fill = fill.to_dict()
    if isinstance(fill, Mapping):
        if len(table.shape) > 1:
            must = "be a number, an array or a name for a series"
            raise InvalidTypeError(argument="fill", must=must, got="a dictionary")
        places = positions_of(table.labels)
        values = {position_of(label, places, "fill"): value for label, value in fill.items()}
        missing = [table.labels[at] for at in hidden if at not in values]
        if missing:
            must, got = "have a value for every column that can be hidden", f"none for {first_few(map(repr, missing))}"
            raise InvalidValueError(argument="fill", must=must, got=got)
        return {at: values[at] for at in hidden}
    # One value per column, or per channel of a series.
    must = f"be a number, {', '.join(map(repr, _NAMED_FILLS))}, or values of shape {table.shape}"
    source = fill.detach().cpu() if hasattr(fill, "detach") else fill
    array = np.array(source, dtype=object) if isinstance(table, FrameTable) else as_array(source, "fill", must)
    if array.ndim == 0 and array.dtype == object:
        raise InvalidTypeError(argument="fill", must=must, got=shown(fill))
    if array.shape != table.shape and not (len(table.shape) == 2 and array.shape == table.shape[1:]):
        raise InvalidValueError(argument="fill", must=must, got=f"shape {array.shape}")
    flat = np.broadcast_to(array, table.shape).ravel()
    return {at: flat[at].item() if isinstance(flat[at], np.generic) else flat[at] for at in hidden}


@dataclass(frozen=True, eq=False)
class Predictor:
    """Scores or labels of the rows of a table, an array (b, ...) or a frame; one real number per row is one score.

    ``labels`` are the columns it was made for, in order, and ``n_columns`` how many, if it knows; where it asks an
    estimator, ``estimator`` and ``method`` say what. ``classes`` are the names that a native booster has, and
    ``library`` is whose booster gets the rows, if it is one: libraries spell columns in their own way.
    """

    function: Callable[[Any], Any]
    takes_frames: bool = False
    labels: tuple[Hashable, ...] | None = None
    n_columns: int | None = None
    estimator: Any = None
    method: str | None = None
    classes: tuple[str, ...] = ()
    library: str | None = None

    def __call__(self, rows: Any, /) -> Outputs:
        return _row_outputs(self.function(rows), len(rows))

    def order(self, labels: Iterable[Hashable], argument: str) -> tuple[Hashable, ...]:
        """The labels in the order of the columns it was made for, or an error that names what is missing or extra."""
        known = dict.fromkeys(self.labels or ())
        own: dict[Hashable, Hashable] = {}
        extra = []
        for label in labels:
            name = spelled(self.library, label)
            if name in known and name not in own:
                own[name] = label
            else:
                extra.append(f"an extra {label!r}")
        missing = [f"no {name!r}" for name in known if name not in own]
        if missing or extra:
            must, got = "have the columns the classifier was fitted on", first_few(missing + extra)
            raise ColumnsError(
                argument=argument,
                must=must,
                got=got,
                hint="Choose columns with `columns=`, and name a column of labels as `target`.",
            )
        return tuple(own[name] for name in known)


_FILL_THEM = "Fill or drop them, or use a model that knows missing values."


def explain_refusal(
    error: Exception, predictor: Predictor, rows: Any, argument: str, missing: list[Hashable], places: str
) -> HoldfastError | None:
    """What to do about an error of the classifier: about missing values or columns without numbers, if there are any.

    ``missing`` are the columns with missing values in these rows and ``places`` the words for where they are.
    """
    is_refusal = isinstance(error, (TypeError, ValueError)) or type(error).__name__ in _REFUSALS
    if isinstance(error, HoldfastError) or not is_refusal:
        return None
    reason = shown(str(error).partition("\n")[0])
    words = "" if predictor.estimator is None else columns_without_numbers(rows)
    if missing and (_SAYS_MISSING.search(str(error)) or not words):
        categories = category_names(head_of(predictor.estimator))
        of_category = any(spelled(predictor.library, label) in categories for label in missing)
        own = "CatBoost takes none in categorical columns: write a category such as 'missing', as"
        must, hint = "have no missing values for this model", f"{own} for training." if of_category else _FILL_THEM
        return InvalidValueError(argument=argument, must=must, got=f"{places} ({reason})", hint=hint)
    if predictor.library == "catboost" and "cat_feature" in str(error):
        hint = (
            "Pass categories as texts or whole numbers, as in training; fill='mode' replaces them by the most frequent."
        )
        return InvalidTypeError(f"The model refused the rows: {reason} {hint}")
    if not words:
        return None
    return InvalidTypeError(
        f"The model refused the rows: {reason} Not numbers: {words}. Leave such columns out, encode them as in "
        "training, or use the whole pipeline as the model. CSV files lose categories; Parquet keeps them."
    )


def as_predictor(classifier: Any, *, device: Any = None, dtype: Any = None) -> Predictor:
    """Find out how this classifier is to be asked."""
    if is_module(classifier):
        return Predictor(on_rows(classifier, device, dtype))
    if device is not None or dtype is not None:
        message = f"and `dtype` must be None unless the classifier is a torch module, got {device!r} and {dtype!r}."
        raise InvalidValueError(message, argument="device")
    if isinstance(classifier, (str, Path)):
        from holdfast.masking.onnx import open_session  # few tables have an ONNX model

        if Path(classifier).suffix != ".onnx":
            must = "be an ONNX file (.onnx) if it is a file name"
            raise InvalidValueError(argument="classifier", must=must, got=shown(str(classifier)))
        return _ask_session(open_session(classifier))
    if is_session(classifier):
        return _ask_session(classifier)
    method_of = classifier.__self__ if isinstance(classifier, MethodType) else None
    if is_native(classifier) or (is_native(method_of) and classifier.__name__ == "predict"):
        booster = NativeBooster.of(classifier if method_of is None else method_of)
        known, n_columns = fitted_columns(booster.model)
        return Predictor(booster, True, known, n_columns, booster.model, None, booster.classes, booster.library)
    if isinstance(classifier, MethodType) and classifier.__name__ in _METHODS and _is_estimator(classifier.__self__):
        return _ask_estimator(classifier.__self__, classifier.__name__)
    if _is_estimator(classifier):
        return _ask_estimator(classifier)
    if not callable(classifier):
        must = "be a callable on rows, an estimator, a booster, a torch module, or an ONNX session or file"
        raise InvalidTypeError(argument="classifier", must=must, got=type(classifier).__name__)
    return Predictor(classifier, takes_frames=True)


def _row_outputs(raw: Any, n_rows: int) -> Outputs:
    """Scores (b, k) or labels (b,) for b rows; one real number per row becomes a column."""
    outputs = answers_of(to_numpy(raw) if hasattr(raw, "detach") else raw)
    if outputs.ndim not in (1, 2) or len(outputs) != n_rows:
        wanted = f"scores ({n_rows}, n_classes) or labels ({n_rows},) for {n_rows} rows"
        raise ModelError(f"The classifier must return {wanted}, got shape {outputs.shape}.")
    return outputs[:, None] if outputs.ndim == 1 and outputs.dtype.kind == "f" else outputs


def _ask_session(session: Any) -> Predictor:
    """An ONNX Runtime session with one input of rows; scores are preferred to labels."""
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or inputs[0].type not in _ONNX_TYPES or len(inputs[0].shape) not in (2, 3):
        got = ", ".join(f"{entry.name}: {entry.type} {entry.shape}" for entry in inputs)
        raise InvalidValueError(f"The ONNX model must have one input of floats, rows × columns, got {got}.")
    # The output that is named like scores, else the first with a score per class, else the first.
    named = [output.name for output in outputs if output.name in (*SCORE_NAMES, "output_probability")]
    scored = [output.name for output in outputs if output.type in _ONNX_TYPES or output.type.startswith("seq(map(")]
    n_columns = inputs[0].shape[1] if len(inputs[0].shape) == 2 else None
    run = partial(_run_session, session, (named or scored or [outputs[0].name])[0])
    return Predictor(run, n_columns=n_columns if isinstance(n_columns, int) else None)


def _run_session(session: Any, output_name: str, rows: Any) -> Outputs:
    from holdfast.masking.onnx import run_in_size  # few tables have an ONNX model

    (entry,) = session.get_inputs()

    def run(batch: NDArray[Any]) -> Outputs:
        raw = session.run([output_name], {entry.name: batch})[0]
        if isinstance(raw, list) and raw and isinstance(raw[0], dict):
            # Dictionaries class → probability, as converters from scikit-learn write them.
            raw = np.array([list(row.values()) for row in raw])
        return _row_outputs(raw, len(batch))

    size = entry.shape[0] if isinstance(entry.shape[0], int) else None
    return run_in_size(run, np.ascontiguousarray(rows, dtype=_ONNX_TYPES[entry.type]), size)


def _is_estimator(value: Any) -> bool:
    return not isinstance(value, type) and any(callable(getattr(value, name, None)) for name in _METHODS)


def _n_classes(estimator: Any) -> int:
    """How many classes it knows; none for a regression, of which CatBoost says so by an empty list."""
    classes = getattr(estimator, "classes_", None)
    return 0 if classes is None else len(classes)


def _ask_estimator(estimator: Any, method: str | None = None) -> Predictor:
    """By the given method, else for probabilities, else for the scores of classes, else for labels.

    One that was fitted on frames gets frames, one on arrays gets arrays.
    """
    # Whether its decision function has one column per pair of more than two classes, at any depth of a pipeline.
    scores_pairs = _n_classes(estimator) > 2 and any(
        name.endswith("decision_function_shape") and value == "ovo"
        for name, value in (estimator.get_params() if hasattr(estimator, "get_params") else {}).items()
    )
    if method is None:
        scores_classes = hasattr(estimator, "decision_function") and hasattr(estimator, "classes_") and not scores_pairs
        others = "decision_function" if scores_classes else "predict"
        method = "predict_proba" if hasattr(estimator, "predict_proba") else others
    elif method == "decision_function" and scores_pairs:
        got = "a one-vs-one decision function, which scores pairs of classes"
        hint = "Use the estimator itself, its `predict`, or decision_function_shape='ovr'."
        raise InvalidValueError(argument="classifier", must="score classes", got=got, hint=hint)
    library = library_of(head_of(estimator))
    if library is not None:
        known, n = fitted_columns(head_of(estimator))
    else:
        labels, n_columns = (getattr(estimator, name, None) for name in ("feature_names_in_", "n_features_in_"))
        known, n = None if labels is None else tuple(labels), None if n_columns is None else int(n_columns)
    run = partial(_run_estimator, estimator, method)
    return Predictor(run, True, known, n, estimator, method, library=library)


def _run_estimator(estimator: Any, method: str, rows: Any) -> Outputs:
    raw = getattr(estimator, method)(rows)
    if isinstance(raw, list) and all(np.shape(part) == (len(rows), 2) for part in raw):
        # Of several labels, forests and multi-output estimators give no and yes of each: for `same_labels`.
        return np.stack([np.asarray(part)[:, 1] for part in raw], axis=1)
    outputs = _row_outputs(raw, len(rows))
    if _n_classes(estimator) == 0 or outputs.ndim == 1 or outputs.shape[1] > 1:
        return outputs
    if method == "decision_function":
        return np.concatenate([-outputs, outputs], axis=1)
    # Labels of a classifier that was fitted on 0.0 and 1.0: the same numbers, as whole ones.
    whole = outputs[:, 0].astype(np.int64)
    return whole if method == "predict" and (whole == outputs[:, 0]).all() else outputs

"""The methods of a study → what scores the features of an input: by name, a function, or scores that are there.

A function is called as ``function(masked_model, raw_input, **options)``. What it returns, like an entry of scores that
are there, is one number per feature, a map of the input's elements, an ``Attribution``, an ``Explanation`` of shap, or
a mask where the method says that it gives masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.agreement import SameSide, as_agreement
from holdfast.attribution.external import from_array, from_shap, load_arrays
from holdfast.attribution.methods import Attribution, attribute, names_of, resolve_method
from holdfast.calls import Deadline
from holdfast.errors import BudgetError, HoldfastError, InvalidTypeError, InvalidValueError, StudyError
from holdfast.evaluation import Evaluator
from holdfast.fingerprints import digest_code, digest_object
from holdfast.inputs.data.contexts import ContextInput
from holdfast.inputs.data.files import check_inside, read_table
from holdfast.inputs.inputs import Inputs
from holdfast.inputs.source import import_function
from holdfast.masking.context.mask_context import ContextModel
from holdfast.masking.table.palettes import as_frame
from holdfast.selection import positive, top_fraction
from holdfast.study.spec import CITING, MethodSpec, StudySpec, changed_method
from holdfast.types import Mask, MaskedModel, Masks, Outputs
from holdfast.validation import as_array, check_name, check_selection, shown

_Explain = Callable[[Evaluator, Inputs, int, int], Attribution]
_SOURCE = "digest of the scores"  # in the details of an attribution that was read
_HINT = "Set `masks = true` for a method that returns masks."


class MethodError(StudyError):
    """A method of one's own, or one that reads citations, has nothing to say of an input, and why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class Explainer:
    """A method that is ready to be asked; ``digest`` tells whether scores that are there are still the same."""

    method: MethodSpec
    explain: _Explain
    digest: Callable[[int, str], str | None] | None = None
    limit: Deadline = field(default_factory=lambda: Deadline(None, who="The method"), repr=False)

    def __call__(
        self, evaluator: Evaluator, inputs: Inputs, index: int, *, rng: int, timeout: float | None
    ) -> Attribution:
        """The scores of one input; what goes wrong in a method of one's own is a ``MethodError``.

        ``timeout`` limits the seconds of such a method; one that hangs is not asked again as long as it does.
        """
        if not self.method.is_own:
            return self.explain(evaluator, inputs, index, rng)
        self.limit.seconds = timeout
        try:
            return self.limit.call(lambda: self.explain(evaluator, inputs, index, rng), f"for input {index}")
        except BudgetError:  # which is spent for all methods
            raise
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, HoldfastError) else f"{type(error).__name__}: "
            reason = f"{kind}{error}".encode(errors="backslashreplace").decode()  # what no file could hold
            raise MethodError(reason) from error


def select(method: MethodSpec, attribution: Attribution, fraction: float) -> Mask:
    """The explanation: the mask that the method gave, or the features with the largest scores."""
    return positive(attribution) if method.masks else top_fraction(attribution, fraction)


def load_explainers(
    spec: StudySpec, live: Mapping[str, Any] | None = None, names: Sequence[str] | None = None
) -> dict[str, Explainer]:
    """Every method of a study, ready; functions and scores that are ``live`` objects by the name of their method."""
    objects, agree = live or {}, spec.certify.agree
    return {method.name: load_explainer(method, agree, objects.get(method.name), names) for method in spec.methods}


def load_explainer(method: MethodSpec, agree: str, value: Any = None, names: Sequence[str] | None = None) -> Explainer:
    """One method, ready; ``value`` is what it is if that is a live object, ``names`` are those of all inputs."""
    if method.scheme == "live" and value is None:
        raise StudyError(
            f"The method {method.name!r} was an object of the process that ran the study. Pass it again "
            "to `holdfast.study.run`, or name it as python:<module>:<function> or scores:<file>."
        )
    if method.spec == "live:scores" or method.scheme == "scores":
        table = read_scores(str(method.spec).partition(":")[2] if value is None else value)
        if names is not None and table.by_number is not None and len(names) != len(table.by_number):
            must = f"have one entry for each of {len(names)} inputs"
            raise InvalidValueError(argument=f"scores of {method.name}", must=must, got=len(table.by_number))
        # Names or numbers are meant by all keys, never by some.
        table.are_names = names is None or any(name in table.by_name for name in names)
        return Explainer(method, _reading(method, table, agree), _digesting(table))
    if method.scheme in ("live", "python"):
        return Explainer(method, _calling(method, load_function(method) if value is None else value, agree))
    if method.spec in CITING:
        return Explainer(method, _citing(method, agree))
    known = resolve_method(method.spec).options  # a class that is not there is refused before anything runs
    for key in method.options:
        if known is not None:
            check_name(key, "methods.options", known)
    return Explainer(method, _attributing(method, agree))


def load_function(method: MethodSpec) -> Callable[..., Any]:
    """The function that a method names; one whose code is another than when the study was begun is refused."""
    function = import_function(str(method.spec).partition(":")[2], "methods.spec", "function")
    if method.fingerprint not in (None, digest_code(function)):
        raise changed_method(method.name, "The code")
    return function


def with_fingerprints(spec: StudySpec, live: Mapping[str, Any] | None = None) -> StudySpec:
    """The study with the fingerprints of the functions that explain in it."""
    methods = []
    for method in spec.methods:
        value = (live or {}).get(method.name)
        if method.scheme == "python":
            value = load_function(method)
        is_function = method.spec == "live:function" or method.scheme == "python"
        methods.append(replace(method, fingerprint=digest_code(value) if is_function and value is not None else None))
    return replace(spec, methods=tuple(methods))


def check_scores(stored: Iterable[tuple[int, Attribution]], explainer: Explainer, inputs: Inputs) -> None:
    """Raise where scores that are there are others than those that stored items were cut from."""
    for index, attribution in stored:
        before = attribution.details.get(_SOURCE)
        now = None if explainer.digest is None or index >= len(inputs) else explainer.digest(index, inputs.name(index))
        if before is not None and now is not None and before != now:
            raise changed_method(explainer.method.name, f"The scores of input {index}")


def _attributing(method: MethodSpec, agree: str) -> _Explain:
    def explain(evaluator: Evaluator, inputs: Inputs, index: int, rng: int) -> Attribution:
        spec, n_samples = str(method.spec), method.n_samples
        return attribute(evaluator, spec, n_samples=n_samples, agree=agree, rng=rng, **method.options)

    return explain


def _citing(method: MethodSpec, agree: str) -> _Explain:
    """The passages that the data cite, or those that the model's own answer on the whole context does."""

    def explain(evaluator: Evaluator, inputs: Inputs, index: int, rng: int) -> Attribution:
        context, n_calls = inputs.raw(index), 0
        if not isinstance(context, ContextInput):
            must = f"be different for {inputs.kind}s: {method.spec!r} is for contexts"
            raise InvalidValueError(argument="methods", must=must, got=method.name)
        if evaluator.n_features != len(context.passages):
            must, got = "be passages for a method that cites", f"{evaluator.n_features} other features"
            raise InvalidValueError(argument="features", must=must, got=got)
        answering = evaluator.answering
        if method.spec == "citations" and isinstance(answering, ContextModel):
            mask, n_calls = answering.cite(), 1
            if not mask.any():
                raise MethodError("The model cites no passage.")
        else:
            try:
                mask = context.cited_mask()
            except InvalidValueError as error:
                raise MethodError(str(error)) from error
        return replace(read_answer(mask, evaluator, method, agree), n_calls=n_calls)

    return explain


def _calling(method: MethodSpec, function: Callable[..., Any], agree: str) -> _Explain:
    def explain(evaluator: Evaluator, inputs: Inputs, index: int, rng: int) -> Attribution:
        counted, before, raw = CountedModel(evaluator.model), evaluator.n_calls, inputs.raw(index)
        raw = raw.clone() if hasattr(raw, "detach") else raw  # a tensor that it may write into
        answer = function(counted, raw, **method.options)
        attribution = read_answer(answer, evaluator, method, agree)
        return replace(attribution, n_calls=counted.n_rows + evaluator.n_calls - before)

    return explain


def _reading(method: MethodSpec, table: ScoreTable, agree: str) -> _Explain:
    def explain(evaluator: Evaluator, inputs: Inputs, index: int, rng: int) -> Attribution:
        name = inputs.name(index)
        entry, before = table.entry(index, name, names_of(evaluator)), evaluator.n_calls
        if hasattr(entry, "base_values"):
            _check_explained(entry, inputs.raw(index))
        attribution = read_answer(entry, evaluator, method, agree, output=method.options.get("output"))
        details = dict(attribution.details) | {_SOURCE: _digesting(table)(index, name)}
        return replace(attribution, details=details, n_calls=evaluator.n_calls - before)

    return explain


def _digesting(table: ScoreTable) -> Callable[[int, str], str | None]:
    def digest(index: int, name: str) -> str | None:
        if not table.has(index, name):
            return None
        entry = table.entry(index, name, None)
        values = getattr(entry, "values", entry) if hasattr(entry, "base_values") else entry
        plain = values.detach().cpu().numpy() if hasattr(values, "detach") else values
        content = digest_object([plain.scores if isinstance(plain, Attribution) else np.asarray(plain), table.columns])
        return None if content is None else content.hex()[:16]

    return digest


class CountedModel:
    """A masked model that counts the rows that it is asked for; everything else is that of the model."""

    def __init__(self, model: MaskedModel) -> None:
        self._model, self.n_rows, self.n_features = model, 0, model.n_features

    def __call__(self, masks: Masks, /) -> Outputs:
        outputs = self._model(masks)
        self.n_rows += len(masks)
        return outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _check_explained(explanation: Any, row: Any) -> None:
    """Raise where an ``Explanation`` of shap holds the data of another row than the one that it stands for."""
    data, values = getattr(explanation, "data", None), row.to_numpy() if hasattr(row, "to_numpy") else row
    if not isinstance(data, np.ndarray) or not isinstance(values, np.ndarray) or data.size != values.size:
        return
    try:
        same = np.allclose(data.ravel().astype(float), values.ravel().astype(float), equal_nan=True)
    except (TypeError, ValueError):  # texts and categories, which shap may have numbered
        return
    if not same:
        must, got = "be about the inputs, in their order", "values of another row"
        raise InvalidValueError(argument="explanation", must=must, got=got)


def read_answer(
    answer: Any, model: Evaluator, method: MethodSpec, agree: str = "same_top_class", output: int | None = None
) -> Attribution:
    """What a method said of one input as an ``Attribution`` of the model's features.

    Values of shap, and of all classes, are those that speak for the prediction as ``agree`` judges it; ``output`` is
    the class that plain values of two classes speak for.
    """
    if method.masks:
        mask = check_selection(answer, "mask", model)
        attribution = Attribution(mask.astype(np.float64), feature_names=names_of(model))
    elif isinstance(answer, Attribution):
        order = _order_of(answer.feature_names, names_of(model))
        scores = answer.scores if order is None else answer.scores[order]
        target = answer.target.item() if isinstance(answer.target, np.generic) else answer.target
        attribution = from_array(scores, model, target=target)
    elif hasattr(answer, "base_values"):
        attribution = _shap_scores(_in_order(answer, names_of(model)), model, agree)
    else:
        plain = answer.detach().cpu() if hasattr(answer, "detach") else answer
        values = as_array(plain, "scores", "hold real numbers")
        if values.dtype == np.bool_:
            raise InvalidTypeError(argument="scores", must="be numbers", got="a mask", hint=_HINT)
        per_class = values.ndim == 2 and len(values) == model.n_features and values.shape[1] > 1
        if per_class and getattr(model.model, "groups", None) is None:  # one column per class, as of shap's explainers
            attribution = _shap_scores(values, model, agree)
        elif output is not None:
            attribution = _shap_scores(values, model, agree, output=output)
        else:
            attribution = from_array(answer, model)
    return replace(attribution, method=method.name, provenance=model.provenance)


def _in_order(explanation: Any, feature_names: Sequence[str] | None) -> Any:
    """An ``Explanation`` with its columns in the order of the model's features, where both have names."""
    order = _order_of(getattr(explanation, "feature_names", None), feature_names)
    return explanation if order is None else explanation[order]


def _order_of(names: Any, feature_names: Sequence[str] | None) -> list[int] | None:
    """Where the model's features stand among these names; None if nothing is to be moved."""
    known = list(map(str, names)) if isinstance(names, (list, tuple, np.ndarray)) else []
    if feature_names is None or known == list(feature_names) or sorted(known) != sorted(feature_names):
        return None
    return [known.index(name) for name in feature_names]


def _shap_scores(values: Any, model: Evaluator, agree: str, *, output: int | None = None) -> Attribution:
    """Values of shap's explainers for the side of the threshold, or the class, that is predicted."""
    judge, target, sign = as_agreement(agree), None, 1
    if isinstance(judge, SameSide):
        full = model(np.ones((1, model.n_features), dtype=bool))
        target, sign = judge.explained(full[0])
        target = None if full.shape[1] == 1 else target
    attribution = from_shap(values, model, target=target, output=output)
    return attribution if sign == 1 else replace(attribution, scores=-attribution.scores)


class ScoreTable:
    """Scores of many inputs: by their numbers, or by their names.

    Attributes
    ----------
    by_number : sequence or None
        An entry for each input of the data, in their order.
    by_name : mapping
        Entries by the name of an input, or by its number as a text.
    columns : tuple of str or None
        What the numbers of an entry are called, where they come from a table.
    are_names : bool
        Whether the keys of ``by_name`` are names; else they are numbers.
    """

    def __init__(
        self,
        by_number: Sequence[Any] | None = None,
        by_name: Mapping[str, Any] | None = None,
        *,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        self.by_number, self.by_name, self.columns, self.are_names = by_number, by_name or {}, columns, True

    def has(self, index: int, name: str) -> bool:
        """Whether there are scores of this input."""
        if self.by_number is not None:
            return index < len(self.by_number)
        return (name if self.are_names else str(index)) in self.by_name

    def entry(self, index: int, name: str, feature_names: Sequence[str] | None) -> Any:
        """The scores of one input, in the order of the features where both have names."""
        if not self.has(index, name):
            raise InvalidValueError(argument="scores", must=f"have an entry for input {index} ({name})", got="none")
        if self.by_number is not None:
            values = self.by_number[index]
        else:
            values = self.by_name[name if self.are_names else str(index)]
        if self.columns is None or feature_names is None:
            return values
        places = {column: place for place, column in enumerate(self.columns)}
        if set(places) == set(feature_names):
            return np.asarray(values)[[places[feature] for feature in feature_names]]
        if set(places) & set(feature_names):  # some are meant by name, so that all are
            unknown = sorted(set(places) ^ set(feature_names))
            must = "have the features of the model as columns"
            raise InvalidValueError(argument="scores", must=must, got=f"{unknown[0]!r} in only one of them")
        return values


class _Named(dict[str, Any]):
    """Entries by the names of inputs, with or without the endings of their files."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(map(super().__contains__, _spellings(name)))

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(next(filter(super().__contains__, _spellings(name))))


def _spellings(name: str) -> list[str]:
    """An input is often called after its own file, such as cats/1.png."""
    return list(dict.fromkeys((name, str(Path(name).with_suffix("")) if name.strip("./") else name)))


class _Folder(Mapping[str, Any]):
    """The ``.npy`` files of a folder by what comes before their ending; each is read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, name: str) -> Path | None:
        for stem in _spellings(name):
            path = self._folder / f"{stem}.npy"
            if path.is_file():
                return check_inside(self._folder, f"{stem}.npy")
        return None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._path(name) is not None

    def __getitem__(self, name: str) -> Any:
        path = self._path(name)
        if path is None:
            raise KeyError(name)
        return load_arrays(path)

    def __iter__(self) -> Any:
        return (path.relative_to(self._folder).with_suffix("").as_posix() for path in self._folder.rglob("*.npy"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def read_scores(source: Any) -> ScoreTable:
    """Scores of many inputs from a file, a folder, an array, a list, a mapping, a frame, or shap's ``Explanation``."""
    if isinstance(source, (str, Path)):
        return _read_scores_file(Path(source))
    if hasattr(source, "base_values"):
        return ScoreTable([source[row] for row in range(len(source))])
    frame = as_frame(source)
    if frame is not None:
        return _read_frame(frame)
    if isinstance(source, Mapping):
        return ScoreTable(by_name=_Named({str(name): entry for name, entry in source.items()}))
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__") or getattr(source, "ndim", 2) < 2:
        must = "be scores of many inputs: an array (n, …), a list, a mapping, a frame or a file"
        raise InvalidTypeError(argument="methods", must=must, got=shown(source))
    return ScoreTable(source)


def _read_frame(frame: Any) -> ScoreTable:
    """Rows of a frame: by name if it has a column ``input``, else in the order of the inputs."""
    columns = [column for column in frame.columns if column != "input"]
    values = frame[columns].to_numpy()
    names = tuple(map(str, columns))
    if "input" not in frame.columns:
        return ScoreTable(values, columns=names)
    inputs = [str(name) for name in frame["input"]]
    if len(set(inputs)) < len(inputs):
        raise InvalidValueError(argument="scores", must="have one row per input", got="an input twice")
    return ScoreTable(by_name=_Named(zip(inputs, values, strict=True)), columns=names)


def _read_scores_file(path: Path) -> ScoreTable:
    if path.is_dir():
        return ScoreTable(by_name=_Folder(path))
    if not path.is_file() or path.suffix not in (".csv", ".npy", ".npz", ".parquet"):
        must = "be followed by a folder of .npy files, or a .npz, .npy, .parquet or .csv file"
        got = f"{str(path)!r}, which does not exist" if not path.exists() else shown(str(path))
        raise InvalidValueError(argument="scores:", must=must, got=got)
    if path.suffix in (".csv", ".parquet"):
        return _read_frame(read_table(str(path)))
    loaded = load_arrays(path)
    if not isinstance(loaded, dict):
        return read_scores(loaded)
    if set(loaded) == {"scores"}:
        return read_scores(loaded["scores"])
    return ScoreTable(by_name=_Named(loaded))

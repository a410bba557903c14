"""Inputs and methods of one's own → a study: run into a file, then read as a frame, a list to trust, a report."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from holdfast.agreement import UserAgreement, as_agreement
from holdfast.attribution.methods import Attribution, attribute
from holdfast.attribution.packages import resolve_object
from holdfast.calls import STEADY_BATCH_SIZE
from holdfast.errors import HoldfastError, InvalidTypeError, StudyError
from holdfast.fingerprints import digest_code, digest_object
from holdfast.inputs.inputs import Inputs
from holdfast.inputs.source import Once
from holdfast.randomness import CANONICAL
from holdfast.study.calibration import StudyCalibration, calibrate_study
from holdfast.study.export import study_frame
from holdfast.study.guarantee import DataSetGuarantee, TrustedExplanations, study_guarantee, trusted_explanations
from holdfast.study.session import LiveObjects, run_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
    Trust,
    check_same_question,
    keys_of,
)
from holdfast.study.status import StudyStatus, study_status
from holdfast.study.store import Store
from holdfast.study.summary import StudySummary, summarize_study
from holdfast.terminal import Shown
from holdfast.types import MaskedModel
from holdfast.validation import check_name, check_path, did_you_mean, shown

_FUNCTIONS = (FunctionType, MethodType, partial)


@dataclass(frozen=True, eq=False)
class Study(Shown):
    """A file of results, with its inputs where they are live objects.

    Parameters
    ----------
    path : str or Path
        The file.
    inputs : Inputs, optional
        What the study was run on; needed for fresh draws and pictures where its model and data were live objects.

    Examples
    --------
    >>> Study("no such file.db").to_frame()
    Traceback (most recent call last):
    ...
    holdfast.errors.StoreError: 'no such file.db' does not exist; it must be a file of results.
    """

    path: Path
    inputs: Inputs | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", check_path(self.path, "path"))

    @property
    def status(self) -> StudyStatus:
        """How far it is, and what went wrong."""
        return study_status(self.path)

    def to_frame(self) -> Any:
        """The results as a pandas ``DataFrame``: one row per input, method and radius."""
        return study_frame(self.path)

    def summary(self, **options: Any) -> StudySummary:
        """Mean rates per method, and which methods differ; see ``summarize_study``."""
        return summarize_study(self.path, **options)

    def trusted(self, *, min_rate: float, radius: int, **options: Any) -> TrustedExplanations:
        """The explanations that can be trusted, with a guarantee for the whole list; see ``trusted_explanations``."""
        inputs = self._own_inputs()
        return trusted_explanations(self.path, min_rate=min_rate, radius=radius, inputs=inputs, **options)

    def guarantee(self, *, min_rate: float, radius: int, **options: Any) -> DataSetGuarantee:
        """At least how many inputs have stable explanations; see ``study_guarantee``."""
        return study_guarantee(self.path, min_rate=min_rate, radius=radius, inputs=self._own_inputs(), **options)

    def calibrate(self, *, min_rate: float, share: float = 0.8, confidence: float = 0.9) -> StudyCalibration:
        """How many features each method needs for the same guarantee; see ``calibrate_study``."""
        return calibrate_study(self.path, min_rate=min_rate, share=share, confidence=confidence)

    def report(self, output: str | Path = "report.html", **options: Any) -> Path:
        """Write one HTML page that needs nothing else, and return where it is; see ``write_report``."""
        write_report = import_module("holdfast.report.page").write_report  # pages stand on studies, not below them
        with Store(self.path) as store:
            name = store.spec.name
        write_report(self.path, output, inputs=None if self.inputs is None else {name: self.inputs}, **options)
        return Path(output)

    def _own_inputs(self) -> Inputs | None:
        """The inputs, if they are those that the study was run on, as far as that shows."""
        if self.inputs is not None:
            with Store(self.path) as store:
                spec = store.spec
            if spec.is_live:
                model, data = _live_parts(self.inputs)
                check_same_question(spec, replace(spec, model=model, data=replace(spec.data, options=data.options)), {})
        return self.inputs

    def __str__(self) -> str:
        return str(self.status)

    def explain(self) -> str:
        """How far it is and what to do next, in plain words."""
        return self.status.explain()


def run(
    inputs: Inputs,
    methods: Any,
    *,
    store: str | Path,
    top_fractions: Iterable[float] = (0.25,),
    name: str = "study",
    seed: int | str = CANONICAL,
    witness: bool = False,
    batch_size: int = STEADY_BATCH_SIZE,
    smoothing: SmoothingSpec | None = None,
    mus: MusSpec | None = None,
    engine: Any = "local",
    workers: int = 0,
    timeout: float | None = None,
    progress: Any = None,
    **question: Any,
) -> Study:
    """Explain and certify every input by every method, and keep the results in a file.

    The same call goes on after an interruption: nothing that is stored is computed again. A method of one's own
    that raises, takes too long or returns what are no scores loses the items of that input, and the study goes on;
    ``status`` says what was lost and why.

    Parameters
    ----------
    inputs : Inputs
        What ``holdfast.bind`` returns, or a slice of it.
    methods : mapping name → method, or list of names
        A method is the name of one, such as "lime", "captum:GradientShap" or "python:my_module:my_function"; a function
        ``(masked_model, raw_input) -> scores``; scores of all inputs, as an array (n, …), a list, a frame, shap's
        ``Explanation`` or a file; Boolean masks of all inputs (n, n_features); a class of captum or shapiq. Or a
        mapping with one of these as ``spec`` and with ``n_samples``, ``options`` or ``masks``.
    store : str or Path
        The file of results; made if there is none.
    top_fractions : list of float
        How much of an input an explanation selects; masks are taken as they are.
    seed, witness, batch_size, smoothing, mus, name
        As in ``StudySpec``.
    engine, workers, timeout, progress
        As in ``run_study``. Live objects run in this process: other processes need names.
    **question
        ``radii``, ``tolerance``, ``confidence``, ``plan``, ``agree``, ``neighborhood``, ``simultaneous``,
        ``precision`` and ``half_width``, as in ``CertifySpec``.

    Returns
    -------
    Study
        The file, with its ``status``, ``to_frame()``, ``trusted(...)``, ``summary()`` and ``report()``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import holdfast as hf
    >>> rows = np.random.default_rng(0).normal(size=(3, 6))
    >>> inputs = hf.bind(lambda rows: rows[:, :2] + rows[:, 2:4], rows, fill=0.0)
    >>> methods = {"size": lambda model, row: np.abs(row), "mine": rows > 0, "lime": "lime"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = hf.study.run(inputs, methods, store=f"{folder}/study.db", top_fractions=[0.5], radii=[1])
    ...     study.to_frame().groupby("method")["rate"].count().to_dict()
    {'lime': 3, 'mine': 3, 'size': 3}
    """
    _check_inputs(inputs)
    for key in question:
        if key not in keys_of(CertifySpec):
            hint = did_you_mean(key, [*keys_of(CertifySpec), *inspect.signature(run).parameters])
            if key == "n_samples":
                hint = 'Give it with the method: {"spec": "lime", "n_samples": 500}.'
            raise InvalidTypeError(argument=key, must="be a keyword of `holdfast.study.run`", hint=hint)
    if not isinstance(judge := as_agreement(question.get("agree", "same_top_class")), UserAgreement):
        question["agree"] = judge.name
    specs, objects = _read_methods(methods, judge.name)
    settings: dict[str, Any] = {
        "methods": specs,
        "top_fractions": top_fractions,
        "certify": CertifySpec(**question),
        "smoothing": smoothing or SmoothingSpec(),
        "mus": mus or MusSpec(),
        "witness": witness,
        "batch_size": batch_size,
        "seed": seed,
        "name": name,
    }
    spec = _named_study(inputs, settings)
    if spec is None:
        if inputs.places is not None:
            inputs = _renumbered(inputs)
        spec = StudySpec(*_live_parts(inputs), **settings)
    live = LiveObjects(inputs if spec.is_live else None, objects) if spec.is_live or objects else None
    limits: dict[str, Any] = {"engine": engine, "workers": workers, "timeout": timeout}
    status = run_study(spec, store, **limits, live=live, progress=progress).status
    if status.failures and not status.n_done:
        index, reason = next(iter(status.failures.items()))
        raise StudyError(f"Nothing could be explained. Input {index}: {reason}")
    return Study(check_path(store, "store"), inputs if spec.is_live else replace(inputs, places=None))


def _check_inputs(inputs: Any) -> None:
    if not isinstance(inputs, Inputs):
        hint = "Bind a model to data first: `inputs = holdfast.bind(model, data)`."
        raise InvalidTypeError(argument="inputs", must="be Inputs", got=shown(inputs), hint=hint)


def _read_methods(methods: Any, agree: str) -> tuple[tuple[MethodSpec, ...], dict[str, Any]]:
    """The methods as a file could name them, and those that are live objects by name."""
    if isinstance(methods, str):
        methods = [methods]
    if not isinstance(methods, Mapping):
        if not isinstance(methods, (list, tuple)) or not all(isinstance(method, str) for method in methods):
            must = "map names to methods, or be a list of names"
            raise InvalidTypeError(argument="methods", must=must, got=shown(methods))
        return tuple(map(MethodSpec, methods)), {}
    specs, objects = [], {}
    for name, method in methods.items():
        details = dict(method) if isinstance(method, Mapping) and "spec" in method else {"spec": method}
        for key in details:
            check_name(key, f"methods[{name!r}]", ("spec", "n_samples", "options", "masks"))
        value = details["spec"]
        if type(value).__module__.startswith("captum."):
            must, got = (
                "be a class, which holdfast calls with the model",
                f"an instance of {type(value).__name__}",
            )
            raise InvalidTypeError(argument=f"methods[{name!r}]", must=must, got=got)
        if isinstance(value, (str, Path)):
            details["spec"] = f"scores:{value}" if isinstance(value, Path) else value
        elif (resolved := resolve_object(value)) is not None:
            details["spec"] = resolved.name
            if not isinstance(value, type):  # an approximator that was made already
                objects[name], details["spec"] = partial(_approximate, value, agree), "live:function"
        else:
            objects[name] = value
            details["spec"] = "live:function" if callable(value) and not hasattr(value, "values") else "live:scores"
            details.setdefault("masks", details["spec"] == "live:scores" and _are_masks(value))
        specs.append(MethodSpec(name, **details))
    return tuple(specs), objects


def _approximate(approximator: Any, agree: str, model: MaskedModel, raw: Any) -> Attribution:
    return attribute(model, approximator, agree=agree, rng=0)


def _are_masks(value: Any) -> bool:
    """Whether entries are Boolean, as far as the first shows."""
    entries = getattr(value, "dtype", None)
    if entries is None and isinstance(value, (list, tuple)) and len(value):
        entries = getattr(value[0], "dtype", type(value[0][0]) if isinstance(value[0], (list, tuple)) else None)
    return str(entries) in ("bool", "torch.bool", "<class 'bool'>")


def _named_study(inputs: Inputs, settings: Mapping[str, Any]) -> StudySpec | None:
    """The study by names, if names say all of its inputs; the first few of the data can be named as well."""
    n_first = None if inputs.places is None else len(inputs)
    if inputs.loading is None or (n_first is not None and list(inputs.places or ()) != list(range(n_first))):
        return None
    loading, read = inputs.loading
    options = {name: value for name, value in loading.items() if name not in ("trusted", "download")}
    types, download = loading.get("trusted", ()), bool(loading.get("download", True))
    trust = Trust(code=True, types=types, download=download, network=True)
    spec = StudySpec(
        ModelSpec(inputs.model_name, options, trust),
        DataSpec(inputs.data_name, n=n_first, order="random" if n_first is None else "first", options=read),
        masking=MaskingSpec(inputs.features, inputs.fill, inputs.options),
        **settings,
    )
    try:
        spec.plain()
    except HoldfastError:  # an array of groups, or a function
        return None
    return spec


def _renumbered(inputs: Inputs) -> Inputs:
    """A slice of inputs as inputs of their own, numbered from 0."""
    dataset = inputs.dataset.take(inputs.numbers)
    return replace(inputs, data=Once(lambda: dataset), places=None, loading=None)


def _live_parts(inputs: Inputs) -> tuple[ModelSpec, DataSpec]:
    """What a file can say of live objects: what they are called, and a digest of how they are masked."""
    masking = {"features": inputs.features, "fill": inputs.fill, "options": dict(inputs.options)}
    digest = digest_object(masking | {"background": inputs.dataset.background})
    options = {} if digest is None else {"masking": digest.hex()[:16]}
    engine = inputs.classifier.engine
    function = getattr(engine, "function", getattr(engine, "source", None))
    # What shows no weights is known by its code.
    own = {"code": digest_code(function)} if isinstance(function, _FUNCTIONS) else {}
    return ModelSpec(f"live:{inputs.model_name}", own), DataSpec(f"live:{inputs.data_name}", options=options)

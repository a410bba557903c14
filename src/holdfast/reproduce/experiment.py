"""An experiment of the paper: the models with inputs it is carried out on, and what may be changed about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.inputs import Inputs
from holdfast.inputs.source import check_sources
from holdfast.report.figures.curves import Line
from holdfast.reproduce.findings import Claim, Contrast, Results
from holdfast.selection import top_fraction
from holdfast.study.spec import PRECISIONS, DataSpec, MaskingSpec, MethodSpec, ModelSpec, MusSpec
from holdfast.study.worker import named_inputs
from holdfast.validation import check_name, check_whole, is_number, shown

if TYPE_CHECKING:
    from holdfast.reproduce.studies import Studied

Panels = dict[str, list[Line]]
"""By the title of each, what is drawn."""

BUNDLED = "bundled:"

FOR_FILES = ("matplotlib", "pyarrow")
"""Packages that write what every experiment leaves behind."""

METHODS = ("lime", "shap", "integrated_gradients", "mfaba", "random")
"""The paper's methods of explanation."""

IMAGE_RADII = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 80, 100, 120, 147)
TEXT_RADII = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40)

_LISTS = {"subjects": "Subjects", "methods": "names", "radii": "whole numbers", "keep": "numbers"}
_EACH = {"methods": "method", "radii": "radius", "keep": "keep probability"}


@dataclass(frozen=True)
class Subject:
    """A model, its inputs and what a feature of them is, as a study takes them; ``data.n`` is None for all inputs.

    ``name`` is what its files are called, ``kind`` what the inputs are ("image", "text" or "table"), ``n_features`` the
    features of the largest, where that is known. ``inputs`` are all there are; model and data are loaded once.
    """

    name: str
    kind: str
    model: ModelSpec
    data: DataSpec
    masking: MaskingSpec = field(default_factory=MaskingSpec)
    n_features: int | None = None
    inputs: Inputs = field(default=None, compare=False, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if vars(self)["inputs"] is None:
            object.__setattr__(self, "inputs", named_inputs(self.model, self.data, self.masking))

    def first(self, n: int | None, *, min_features: int = 1) -> Subject:
        """The same with the first n inputs, short ones left out; what is loaded stays loaded."""
        return replace(self, data=replace(self.data, n=n, min_features=min_features))

    def first_inputs(self) -> Inputs:
        """The first n inputs that have enough features, which only the loaded model can say; it is not called."""
        there, wanted, least = len(self.inputs), self.data.n, self.data.min_features
        if wanted is not None and wanted > there:
            must = f"be at most {there}, the number of inputs"
            raise InvalidValueError(argument="--n", must=must, got=wanted)
        if least == 1:
            return self.inputs[:wanted]
        try:
            return self.inputs.first(wanted, min_features=least)
        except InvalidValueError as error:
            if error.argument != "min_features":
                raise
            must, got = f"be smaller for {self.name}", f"{least}: every input has fewer features"
            raise InvalidValueError(argument="min_tokens", must=must, got=got) from error

    def n_seen(self, taken: Inputs) -> int:
        """How many inputs were looked at until these had enough features."""
        return taken.numbers[-1] + 1 if len(taken) == self.data.n else len(self.inputs)

    @property
    def device(self) -> str:
        """Where it is computed."""
        return str(self.model.options.get("device") or "cpu")

    def reachable(self, radii: Sequence[int], fractions: Sequence[float] = (0.25,)) -> tuple[int, ...]:
        """The radii up to all there is to reveal besides these shares of the features, and that one for each share."""
        if self.n_features is None:
            return tuple(radii)
        each = [up_to(radii, unselected(self.n_features, fraction)) for fraction in fractions]
        return tuple(sorted({radius for some in each for radius in some}))


def up_to(radii: Sequence[int], left: int) -> tuple[int, ...]:
    """The radii as far as there are features left to reveal; the first that is not reached is all of them."""
    most = max(left, 1)
    return tuple(radius for radius in radii if radius < most) + (most,) * (max(radii) >= most)


def unselected(n_features: int, fraction: float) -> int:
    """How many features an explanation of this share leaves to reveal."""
    return n_features - int(top_fraction(np.arange(n_features), fraction).sum())


def make_subject(
    model: str,
    data: str,
    *,
    kind: str | None = None,
    grid: tuple[int, int] | None = None,
    split: str | None = None,
    target: str | None = None,
    device: str | None = None,
) -> Subject:
    """A subject from what names its parts; the data are looked at, the model is not loaded yet.

    Parameters
    ----------
    model, data : str
        What ``holdfast.models.load`` and ``holdfast.data.load`` take.
    kind, grid : optional
        What the model classifies, if its source does not say; patches of an image, by default the model's own.
    split, target, device : str, optional
        Of the data; the column of a table that holds the labels and is no feature; where to compute.

    Examples
    --------
    >>> make_subject("bundled:vader", "bundled:sentences").name
    'vader'
    """
    check_sources(model, data, *FOR_FILES)
    options = {"kind": kind, "device": device}, {"split": split, "target": target}
    of_model, of_data = ({name: value for name, value in some.items() if value is not None} for some in options)
    parts = ModelSpec(model, of_model), DataSpec(data, options=of_data), MaskingSpec(grid)
    inputs = named_inputs(*parts)
    if grid is not None and inputs.kind != "image":
        raise InvalidValueError(argument="grid", must=f"be left out: {data!r} holds inputs of kind {inputs.kind!r}")
    n_features = None if grid is None else grid[0] * grid[1]
    return Subject(short_name(model), inputs.kind, *parts, n_features, inputs)


def short_name(spec: str) -> str:
    """The last part of what names a model, fit for a file name: vit-base of hf:google/vit-base."""
    last = re.split(r"[:/\\]", spec.rstrip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.") or "model"


@dataclass(frozen=True)
class Request:
    """What is changed about an experiment; None where its own choice stands.

    Models with their inputs, how many inputs of each (the first that have ``min_tokens`` features), methods,
    radii, keep probabilities λ, and ``precision`` "per-input" or "data-set".
    """

    subjects: tuple[Subject, ...] | None = None
    n: int | None = None
    methods: tuple[str, ...] | None = None
    radii: tuple[int, ...] | None = None
    keep: tuple[float, ...] | None = None
    min_tokens: int | None = None
    precision: str | None = None
    seed: int = 0

    def given(self) -> dict[str, str]:
        """The options that were asked for, as the command line calls them, each with the name of its field."""
        asked = [name for name, value in vars(self).items() if value is not None and name != "seed"]
        return {"model" if name == "subjects" else name: name for name in asked}


@dataclass(frozen=True)
class StudyPreset:
    """The study behind an experiment, and what becomes of it: what is compared, drawn, and printed beside the claims.

    Radii are taken as far as there are features to reveal. ``keep`` are the keep probabilities of what is smoothed: of
    nothing (""), the votes of MuS ("mus"), or the model itself ("model"). The panels of a model are a row of the
    figure, or a column with ``models_across``; with ``shared_x`` only the lowest are labelled with radii.
    """

    contrasts: Callable[[Studied, int], list[Contrast]] = field(repr=False)
    panels: Callable[[Studied], Panels] = field(repr=False)
    measure: Callable[[Studied, Sequence[Contrast]], Mapping[str, str]] = field(repr=False)
    methods: tuple[str, ...] = METHODS
    top_fractions: tuple[float, ...] = (0.25,)
    image_radii: tuple[int, ...] = IMAGE_RADII
    text_radii: tuple[int, ...] = TEXT_RADII
    plan: str = "sequential"
    keep: tuple[float, ...] = ()
    smooths: str = ""
    panel_size: tuple[float, float] = (2.5, 2.3)
    y_label: str = "stability rate"
    models_across: bool = False
    shared_x: bool = False


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes
    ----------
    id, title, shows : str
        What the command line calls it, what it is about, and what is plotted.
    subjects : tuple of (Subject, int)
        The bundled models it is carried out on by default, with the numbers of inputs.
    options : tuple of str
        Which options it takes, by the names of the command line; all take a seed.
    procedure, claims
        The study behind it, or how it is carried out without one; and what the paper says of the study.
    min_tokens, most_inputs : int
        The least features of a text and the most inputs, for models that were not bundled.
    n_methods, n_models : int or None
        How many methods and models it is about; None for any number.
    cpu_only : bool
        Whether it measures the time of the processor, so that no other device will do.
    hindsight : str
        What was chosen about the bundled models and their inputs after a look at results, for the findings.
    """

    id: str
    title: str
    shows: str
    subjects: tuple[tuple[Subject, int], ...]
    options: tuple[str, ...]
    procedure: StudyPreset | Callable[[PlannedRun], Results] = field(repr=False)
    claims: tuple[Claim, ...] = ()
    min_tokens: int = 1
    most_inputs: int | None = None
    n_methods: int | None = None
    n_models: int | None = None
    cpu_only: bool = False
    hindsight: str = ""

    def chosen(self, request: Request) -> tuple[Subject, ...]:
        """The models with their inputs that this request is about; bundled data have no text as long as the paper's."""
        asked = request.min_tokens
        if request.subjects is None:
            return tuple(subject.first(request.n or n, min_features=asked or 1) for subject, n in self.subjects)
        sized = []
        for subject in request.subjects:
            is_far = subject.kind == "text" and not subject.data.spec.startswith(BUNDLED)
            most = None if self.most_inputs is None else min(self.most_inputs, len(subject.inputs))
            least = asked or (self.min_tokens if is_far else 1)
            sized.append(subject.first(request.n or most, min_features=least))
        return tuple(sized)

    def check(self, request: Any) -> Request:
        """Options that would have no effect, or that cannot be used, are an error before anything runs.

        Examples
        --------
        >>> from holdfast.reproduce import find_experiment
        >>> find_experiment("q4").check(Request(keep=0.5))
        Traceback (most recent call last):
        ...
        holdfast.errors.InvalidTypeError: `keep` must be a tuple of numbers, got 0.5.
        """
        if not isinstance(request, Request):
            raise InvalidTypeError(argument="request", must="be a Request", got=type(request).__name__)
        for option in [option for option in request.given() if option not in self.options]:
            statement = f"is not an option of {self.id}, which takes {', '.join(self.options)} and seed."
            raise InvalidValueError(statement, argument=option)
        _check_values(request)
        levels = MusSpec.n_levels  # where masks vote, each feature is kept in a whole number of them
        for keep in request.keep or () if getattr(self.procedure, "smooths", "") == "mus" else ():
            nearest = max(1, round(Fraction(keep) * levels))
            if nearest / levels != keep:
                got = f"{keep:g}; the nearest is {nearest}/{levels}"
                raise InvalidValueError(argument="keep", must=f"be multiples of 1/{levels} for {self.id}", got=got)
        counts = (("methods", request.methods, self.n_methods), ("model", request.subjects, self.n_models))
        for name, values, wanted in counts:
            if values is not None and wanted is not None and len(values) != wanted:
                must = f"name exactly {'one' if wanted == 1 else wanted} for {self.id}"
                raise InvalidValueError(argument=name, must=must, got=len(values))
        elsewhere = [subject.device for subject in request.subjects or () if subject.device != "cpu"]
        if self.cpu_only and elsewhere:
            must = f"be cpu for {self.id}, which measures processor time"
            raise InvalidValueError(argument="device", must=must, got=shown(elsewhere[0]))
        return request


@dataclass(frozen=True)
class PlannedRun:
    """An experiment that can be carried out as asked, in a folder that holds results of no other.

    ``notes`` say what was left out of what was asked of all experiments; ``progress`` is True for a live bar.
    """

    experiment: Experiment
    request: Request
    folder: Path
    notes: tuple[str, ...] = ()
    workers: int = 0
    progress: Any = None

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The models with their inputs that it is about."""
        return self.experiment.chosen(self.request)


def _check_values(request: Request) -> None:
    """Every value can be used; of what can be several, none is there twice, and none is a text, which has letters."""
    for name, what in _LISTS.items():
        values = getattr(request, name)
        if values is None:
            continue
        if not isinstance(values, (tuple, list)):
            raise InvalidTypeError(argument=name, must=f"be a tuple of {what}", got=shown(values))
        if not values:
            must = "not be empty; leave it out for the default"
            raise InvalidValueError(argument="model" if name == "subjects" else name, must=must)
    for subject in request.subjects or ():
        if not isinstance(subject, Subject):
            raise InvalidTypeError(argument="subjects", must="be a tuple of Subjects", got=f"{subject!r} in it")
    for method in request.methods or ():
        MethodSpec(method)  # an unknown name is an error
    for radius in request.radii or ():
        check_whole(radius, "radii")
    for keep in request.keep or ():
        must = "be numbers above 0 and at most 1"
        if not is_number(keep):
            raise InvalidTypeError(argument="keep", must=must, got=shown(keep))
        if not 0 < keep <= 1:
            raise InvalidValueError(argument="keep", must=must, got=f"{keep:g}")
    for name, what in _EACH.items():
        values = getattr(request, name) or ()
        if len(set(values)) < len(values):
            raise InvalidValueError(argument=name, must=f"name each {what} once", got=", ".join(map(str, values)))
    for name, number in (("n", request.n), ("min_tokens", request.min_tokens)):
        if number is not None:
            check_whole(number, name, minimum=1)
    if request.precision is not None:
        check_name(request.precision, "precision", PRECISIONS)
    check_whole(request.seed, "seed")

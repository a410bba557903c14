"""A model with its inputs: what an experiment is carried out on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.experiments.radii import up_to
from holdfast.extras import needed
from holdfast.inputs.inputs import Inputs
from holdfast.inputs.source import check_sources
from holdfast.selection import top_fraction
from holdfast.study.spec import DataSpec, MaskingSpec, ModelSpec
from holdfast.study.work import named_inputs

BUNDLED = "bundled:"

FOR_FILES = ("matplotlib", "pyarrow")
"""Packages that write what every experiment leaves behind."""


@dataclass(frozen=True)
class Subject:
    """A model, its inputs and what a feature of them is.

    Attributes
    ----------
    name : str
        What its files are called.
    kind : {"image", "text", "table"}
        What the inputs are.
    model, data, masking
        As a study takes them; ``data.n`` is the number of inputs, None for all.
    n_features : int or None
        The features of its largest input, where that is known.
    inputs : Inputs
        All inputs of the data; the model and the data are loaded when they are first needed, once.
    """

    name: str
    kind: str
    model: ModelSpec
    data: DataSpec
    masking: MaskingSpec = field(default_factory=MaskingSpec)
    n_features: int | None = None
    inputs: Inputs = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", named_inputs(self.model, self.data, self.masking))

    def first(self, n: int | None, *, min_features: int = 1) -> Subject:
        """The same with the first n inputs, short ones left out; what is loaded stays loaded."""
        return replace(self, data=replace(self.data, n=n, min_features=min_features))._sharing(self.inputs)

    def _sharing(self, inputs: Inputs) -> Subject:
        object.__setattr__(self, "inputs", inputs)
        return self

    def first_inputs(self) -> Inputs:
        """The first n inputs, whatever their length."""
        there, wanted = len(self.inputs), self.data.n
        if wanted is not None and wanted > there:
            raise InvalidValueError(
                argument="--n", must=f"be at most the number of inputs there are, {there}", got=wanted
            )
        return self.inputs[:wanted]

    @property
    def device(self) -> str:
        """Where it is computed."""
        return str(self.model.options.get("device") or "cpu")

    @property
    def packages(self) -> tuple[str, ...]:
        """What its model and its data need, as it is imported."""
        return needed(self.model.spec, self.data.spec)

    def reachable(self, radii: Sequence[int], fractions: Sequence[float] = (0.25,)) -> tuple[int, ...]:
        """The radii up to all there is to reveal besides these shares of the features, and that one for each share.

        Examples
        --------
        >>> RESNET.reachable((1, 10, 100)), RESNET.reachable((1, 10, 100), (0.25, 0.5))
        ((1, 10, 48), (1, 10, 32, 48))
        """
        if self.n_features is None:
            return tuple(radii)
        each = [up_to(radii, unselected(self.n_features, fraction)) for fraction in fractions]
        return tuple(sorted({radius for some in each for radius in some}))


def _digits(name: str) -> Subject:
    model, data = ModelSpec(f"{BUNDLED}{name}"), DataSpec(f"{BUNDLED}digits")
    return Subject(name, "image", model, data, MaskingSpec((8, 8)), n_features=64)


RESNET = _digits("digits-resnet")
VIT = _digits("digits-vit")
ROBERTA = Subject(
    "lexicon-roberta", "text", ModelSpec(f"{BUNDLED}lexicon-roberta"), DataSpec(f"{BUNDLED}sentences"), n_features=18
)


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
    kind : str, optional
        What the model classifies, where its source leaves that open.
    grid : (int, int), optional
        Patches of an image; the model's own, or 14 × 14, if left out.
    split : str, optional
        Of the data.
    target : str, optional
        The column of a table that holds the labels and is no feature.
    device : str, optional
        Where to compute.

    Examples
    --------
    >>> make_subject("bundled:vader", "bundled:sentences").name
    'vader'
    """
    check_sources(model, data, *FOR_FILES)
    model_spec = ModelSpec(model, _given(kind=kind, device=device))
    data_spec, masking = DataSpec(data, options=_given(split=split, target=target)), MaskingSpec(grid)
    inputs = named_inputs(model_spec, data_spec, masking)
    if grid is not None and inputs.kind != "image":
        raise InvalidValueError(argument="--grid", must=f"be left out: {data!r} holds inputs of kind {inputs.kind!r}")
    n_features = None if grid is None else grid[0] * grid[1]
    subject = Subject(short_name(model), inputs.kind, model_spec, data_spec, masking, n_features=n_features)
    return subject._sharing(inputs)


def _given(**settings: str | None) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def unselected(n_features: int, fraction: float) -> int:
    """How many features an explanation of this share leaves to reveal.

    Examples
    --------
    >>> unselected(64, 0.125), unselected(18, 0.25)
    (56, 14)
    """
    return n_features - int(top_fraction(np.arange(n_features), fraction).sum())


def short_name(spec: str) -> str:
    """The last part of what names a model, fit for a file name.

    Examples
    --------
    >>> short_name("hf:google/vit-base-patch16-224"), short_name("python:zoo:cifar10_resnet20")
    ('vit-base-patch16-224', 'cifar10_resnet20')
    """
    last = re.split(r"[:/\\]", spec.rstrip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.") or "model"

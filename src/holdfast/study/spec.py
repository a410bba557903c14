"""What a study asks, as frozen values: the model, the data, the explanations and how they are certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


def _no_options() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ModelSpec:
    """Which classifier: what ``holdfast.models.load`` takes.

    ``options`` are its further arguments, such as ``device`` or ``autocast``.
    """

    spec: str
    options: Mapping[str, Any] = field(default_factory=_no_options)


@dataclass(frozen=True)
class DataSpec:
    """Which inputs: what ``holdfast.data.load`` takes.

    Attributes
    ----------
    spec : str
        Such as ``bundled:digits`` or ``images:photos``.
    n : int or None
        The first n inputs; all if None.
    skip_unreadable : bool
        Leave out inputs that cannot be read, and count them, instead of stopping.
    min_features : int
        Leave out inputs with fewer features (short texts), and count them.
    options : mapping
        Further arguments of ``holdfast.data.load``.
    """

    spec: str
    n: int | None = None
    skip_unreadable: bool = False
    min_features: int = 1
    options: Mapping[str, Any] = field(default_factory=_no_options)


@dataclass(frozen=True)
class MaskingSpec:
    """What a feature is and how a hidden one looks: the arguments of ``Classifier.bind``."""

    groups: Any = None
    fill: Any = None
    options: Mapping[str, Any] = field(default_factory=_no_options)


@dataclass(frozen=True)
class MethodSpec:
    """One explanation method: the arguments of ``attribute``."""

    name: str
    n_samples: int | None = None
    options: Mapping[str, Any] = field(default_factory=_no_options)


@dataclass(frozen=True)
class CertifySpec:
    """The question asked of every explanation.

    Attributes
    ----------
    radii : tuple of int
        The radii of the curve.
    precision : str
        "per-input" (every curve is certified at ``tolerance`` and ``confidence``), or "data-set" (only
        the mean curve over the inputs is wanted, within ``half_width``).
    half_width : float
        For "data-set": the half-width of the mean curve's interval.
    """

    radii: tuple[int, ...] = (1, 2, 3, 5, 10)
    tolerance: float = 0.1
    confidence: float = 0.9
    plan: str = "sequential"
    agree: str = "same_top_class"
    neighborhood: str = "additions"
    simultaneous: bool = False
    precision: str = "per-input"
    half_width: float = 0.01


@dataclass(frozen=True)
class SmoothingSpec:
    """Keep probabilities under which every explanation is certified; 1 is the model itself."""

    keep_probabilities: tuple[float, ...] = (1.0,)
    n_samples: int = 32


@dataclass(frozen=True)
class MusSpec:
    """Keep probabilities of hard certificates by votes; none by default."""

    keep_probabilities: tuple[float, ...] = ()
    n_levels: int = 64
    criterion: str = "votes"


@dataclass(frozen=True)
class StudySpec:
    """A whole study.

    The same spec gives the same draws and counts on every engine, with any number of workers, and
    after any interruption.
    """

    model: ModelSpec
    data: DataSpec
    methods: tuple[MethodSpec, ...]
    top_fractions: tuple[float, ...] = (0.25,)
    masking: MaskingSpec = field(default_factory=MaskingSpec)
    certify: CertifySpec = field(default_factory=CertifySpec)
    smoothing: SmoothingSpec = field(default_factory=SmoothingSpec)
    mus: MusSpec = field(default_factory=MusSpec)
    witness: bool = False
    seed: int = 0
    name: str = "study"

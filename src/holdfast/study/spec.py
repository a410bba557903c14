"""What a study asks, as frozen values: the model, the data, the explanations and how they are certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from holdfast.attribution.methods import METHODS
from holdfast.certification.mean_curve import BOUNDS
from holdfast.certification.question import FIELDS, Question
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import STEADY_BATCH_SIZE
from holdfast.masking.function import lookup_table
from holdfast.mus import CRITERIA, mus_model
from holdfast.randomness import CANONICAL, is_canonical
from holdfast.study.checks import (
    check_each,
    check_flag,
    check_fraction,
    check_keep_probability,
    check_method_options,
    check_optional_whole,
    check_radii,
    check_text,
    checked_as,
)
from holdfast.study.options import Options, check_options, frozen
from holdfast.validation import check_list, check_name, check_whole, shown

PRECISIONS = ("per-input", "data-set")
ORDERS = ("random", "first")


def _no_options() -> Mapping[str, Any]:
    return Options({})


def _keep(owner: Any, /, **checked: Any) -> None:
    """Store checked values in a frozen spec."""
    for name, value in checked.items():
        object.__setattr__(owner, name, value)


@dataclass(frozen=True)
class Trust:
    """What a model that a file names may do when it is loaded; by default nothing but being read from this machine.

    No file can say it: it comes from the command line, or from the Python code that opens the file.

    Attributes
    ----------
    code : bool
        Import and call what a ``python:`` model names (``--trust-model``).
    types : tuple of str
        Types that a skops file may create besides scikit-learn's own (``--trust TYPE``).
    download : bool
        Download a hub id that is not in the cache (``--download``).
    """

    code: bool = False
    types: tuple[str, ...] = ()
    download: bool = False

    def __post_init__(self) -> None:
        check_flag(self.code, "trust.code")
        check_flag(self.download, "trust.download")
        _keep(self, types=check_each(self.types, "trust.types", check_text, may_be_empty=True))


NO_TRUST = Trust()
"""For models that a file names, unless whoever opens it says otherwise."""

_OWN = Trust(code=True, download=True)
"""For models that Python code names: it could run any code itself."""

_NEVER_STORED = {
    "trusted": "`--trust TYPE` (in Python: `trust=Trust(types=[…])`)",
    "download": "`--download` (in Python: `trust=Trust(download=True)`)",
}
"""Options of models that no study holds → where they are given instead."""


@dataclass(frozen=True)
class ModelSpec:
    """Which classifier: what ``holdfast.models.load`` takes.

    ``options`` are its further arguments, such as ``device`` or ``autocast``. ``trust`` is not stored: a study that is
    read from a file trusts nothing, unless ``read_spec`` is told otherwise.
    """

    spec: str
    options: Mapping[str, Any] = field(default_factory=_no_options)
    trust: Trust = field(default=_OWN, repr=False, compare=False)

    def __post_init__(self) -> None:
        options = check_options(self.options, "model.options", taken=("spec",))
        for name, instead in _NEVER_STORED.items():
            if name in options:
                raise InvalidValueError(
                    argument="model.options", must=f"not hold `{name}`: no file decides that", hint=f"Use {instead}."
                )
        _check_part(self.trust, "trust", Trust)
        _keep(self, spec=check_text(self.spec, "model.spec"), options=options)


def keys_of(kind: type) -> list[Field[Any]]:
    """The fields of a part of a study that a file holds."""
    return [one for one in fields(kind) if one.name != "trust"]


def without_trust(plain: dict[str, Any]) -> dict[str, Any]:
    """A stored study without the trust that an earlier version, or a stranger, wrote into it."""
    model = plain.get("model") if isinstance(plain, dict) else None
    if not (isinstance(model, dict) and isinstance(model.get("options"), dict)):
        return plain
    options = {name: value for name, value in model["options"].items() if name not in _NEVER_STORED}
    return plain | {"model": model | {"options": options}}


@dataclass(frozen=True)
class DataSpec:
    """Which inputs: what ``holdfast.data.load`` takes.

    Attributes
    ----------
    spec : str
        Such as ``bundled:digits`` or ``images:photos``.
    n : int or None
        How many inputs; all if None.
    order : {"random", "first"}
        Which n: a random sample by the study's seed, or the first. Larger samples contain smaller ones.
        Nothing is said of a population by the first few: files are often sorted, as by class.
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
    order: str = ORDERS[0]

    def __post_init__(self) -> None:
        check_name(self.order, "data.order", ORDERS)
        _keep(
            self,
            spec=check_text(self.spec, "data.spec"),
            n=check_optional_whole(self.n, "data.n"),
            skip_unreadable=check_flag(self.skip_unreadable, "data.skip_unreadable"),
            min_features=check_whole(self.min_features, "data.min_features", minimum=1),
            options=check_options(self.options, "data.options", taken=("spec",)),
        )


@dataclass(frozen=True)
class MaskingSpec:
    """What a feature is and how a hidden one looks: the arguments of ``Classifier.bind``."""

    groups: Any = None
    fill: Any = None
    options: Mapping[str, Any] = field(default_factory=_no_options)

    def __post_init__(self) -> None:
        options = check_options(self.options, "masking.options", taken=("input", "groups", "fill"))
        _keep(self, groups=frozen(self.groups), fill=frozen(self.fill), options=options)


@dataclass(frozen=True)
class MethodSpec:
    """One explanation method: the arguments of ``attribute``."""

    name: str
    n_samples: int | None = None
    options: Mapping[str, Any] = field(default_factory=_no_options)

    def __post_init__(self) -> None:
        check_name(self.name, "methods.name", METHODS)
        options = check_options(self.options, "methods.options")
        check_method_options(self.name, options, "methods.options")
        _keep(self, n_samples=check_optional_whole(self.n_samples, "methods.n_samples"), options=options)


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
    bound : str
        For "data-set": "hoeffding" (guaranteed) or "normal" (approximate, and cheaper).
    """

    radii: tuple[int, ...] = (1, 2, 3, 5, 10)
    tolerance: float = FIELDS["tolerance"].default
    confidence: float = FIELDS["confidence"].default
    plan: str = FIELDS["plan"].default
    agree: str = FIELDS["agree"].default
    neighborhood: str = FIELDS["neighborhood"].default
    simultaneous: bool = FIELDS["simultaneous"].default
    precision: str = "per-input"
    half_width: float = 0.01
    bound: str = "hoeffding"

    def __post_init__(self) -> None:
        check_name(self.precision, "certify.precision", PRECISIONS)
        check_name(self.bound, "certify.bound", BOUNDS)
        check_text(self.agree, "certify.agree")
        check_flag(self.simultaneous, "certify.simultaneous")
        radii = check_radii(self.radii, "certify.radii")
        question = Question.check(self.keywords | {"radii": radii}, prefix="certify.")
        _keep(
            self,
            radii=question.radii,
            tolerance=float(question.tolerance),
            confidence=float(question.confidence),
            half_width=check_fraction(self.half_width, "certify.half_width"),
        )

    @property
    def keywords(self) -> dict[str, Any]:
        """The question as keywords of the library's verbs."""
        return {name: getattr(self, name) for name in FIELDS if hasattr(self, name)}


@dataclass(frozen=True)
class SmoothingSpec:
    """Keep probabilities under which every explanation is certified; 1 is the model itself."""

    keep_probabilities: tuple[float, ...] = (1.0,)
    n_samples: int = 32

    def __post_init__(self) -> None:
        name = "smoothing.keep_probabilities"
        _keep(
            self,
            keep_probabilities=check_each(self.keep_probabilities, name, check_keep_probability),
            n_samples=check_whole(self.n_samples, "smoothing.n_samples", minimum=1),
        )


@dataclass(frozen=True)
class MusSpec:
    """Keep probabilities of hard certificates by votes; none by default."""

    keep_probabilities: tuple[float, ...] = ()
    n_levels: int = 64
    criterion: str = "votes"

    def __post_init__(self) -> None:
        name = "mus.keep_probabilities"
        keeps = check_each(self.keep_probabilities, name, check_keep_probability, may_be_empty=True)
        levels = check_whole(self.n_levels, "mus.n_levels", minimum=1)
        check_name(self.criterion, "mus.criterion", CRITERIA)
        for keep in keeps:
            checked_as(name, lambda keep=keep: mus_model(_SMALLEST, keep, levels, rng=0))  # type: ignore[misc]
        _keep(self, keep_probabilities=keeps, n_levels=levels)


_SMALLEST = lookup_table([[0.0, 1.0], [1.0, 0.0]], n_features=1)
"""A model to ask whether smoothing by votes can have these levels."""


@dataclass(frozen=True)
class StudySpec:
    """A whole study.

    The same spec gives the same draws and counts on every engine, with any number of workers, and
    after any interruption; and the same scores, bit for bit, of a model that is so in batches of one
    shape.

    Attributes
    ----------
    batch_size : int
        Most masks per model call; fewer for a model that names a smaller size, as for large images. It is
        never timed: networks round differently in batches of another shape. GPUs may like larger ones.
    seed : int or "canonical"
        Everything random follows from it. "canonical", the default, lets it follow from model, inputs and
        question alone, so that nobody can try seeds until one pleases.
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
    batch_size: int = STEADY_BATCH_SIZE
    seed: int | str = CANONICAL
    name: str = "study"

    def __post_init__(self) -> None:
        for name, kind in _PARTS.items():
            _check_part(getattr(self, name), name, kind)
        methods = tuple(
            _check_part(one, "methods", MethodSpec) for one in check_list(self.methods, "methods", "be a list")
        )
        check_each([method.name for method in methods], "methods", check_text)
        check_flag(self.witness, "witness")
        check_text(self.name, "name")
        _keep(
            self,
            methods=methods,
            top_fractions=check_each(self.top_fractions, "top_fractions", check_fraction),
            batch_size=check_whole(self.batch_size, "batch_size", minimum=1),
            seed=self.seed if is_canonical(self.seed) else check_whole(self.seed, "seed"),
        )


def check_spec(value: Any) -> StudySpec:
    """A study, and not the file it is written in."""
    if not isinstance(value, StudySpec):
        raise InvalidTypeError(
            argument="spec", must="be a StudySpec", got=type(value).__name__, hint="Read a file with `read_spec`."
        )
    return value


_PARTS = {
    "model": ModelSpec,
    "data": DataSpec,
    "masking": MaskingSpec,
    "certify": CertifySpec,
    "smoothing": SmoothingSpec,
    "mus": MusSpec,
}


def _check_part(value: Any, name: str, kind: type) -> Any:
    if not isinstance(value, kind):
        raise InvalidTypeError(argument=name, must=f"be a {kind.__name__}", got=shown(value))
    return value

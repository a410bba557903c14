"""What a study asks, as frozen values: the model, the data, the explanations and how they are certified.

A TOML file, or what a store holds, becomes such a value; what is not understood is refused by the name of its key.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_type_hints

import numpy as np

from holdfast.atomic import write_whole
from holdfast.attribution.methods import METHODS, SCHEMES, options_of
from holdfast.calls import STEADY_BATCH_SIZE
from holdfast.certification.mean_curve import check_mean_distribution
from holdfast.certification.question import FIELDS, Question, parse_radii
from holdfast.distributions.distribution import as_neighborhood
from holdfast.distributions.own import OwnDistribution
from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError, StudyMismatchError
from holdfast.masking.function import lookup_table
from holdfast.mus import CRITERIA, mus_model
from holdfast.randomness import CANONICAL, is_canonical
from holdfast.validation import (
    MOST_ENTRIES,
    check_label,
    check_list,
    check_name,
    check_number,
    check_path,
    check_share,
    check_whole,
    read_text,
    shown,
)

PRECISIONS = ("per-input", "data-set")
"""What a study certifies: each input on its own, or only the mean over all inputs."""

_ITEM_OF_MEANS = {
    # At radius 0 there is only the explanation itself, whatever the plan.
    "radii": (0,),
    "check_determinism": False,
    "plan": FIELDS["plan"].default,
    "tolerance": FIELDS["tolerance"].default,
}
"""What items are asked in place of the study's question where only means are wanted."""


METHOD_SCHEMES = (*SCHEMES, "python", "scores", "live")
"""What a method of one's own can be named by; "live" is an object of the process that runs the study."""


CITING = ("cited", "citations")
"""Methods for contexts, which give masks: the passages that the data cite, and those that the model's answer cites."""


class GroupKey(NamedTuple):
    """One method, fraction and keep probability: a group of items, one for each input."""

    method: str
    top_fraction: float
    keep_probability: float

    @property
    def name(self) -> str:
        """Such as ``lime/0.25/1.0``."""
        return f"{self.method}/{self.top_fraction!r}/{self.keep_probability!r}"


class Options(Mapping[str, Any]):
    """Settings by name that cannot be changed, all the way down, and can be sent to a worker."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = {name: _frozen(value) for name, value in entries.items()}

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


_NO_OPTIONS = Options({})


def _check_kind(value: Any, name: str, kind: type) -> Any:
    if not isinstance(value, kind):
        raise InvalidTypeError(argument=name, must=f"be a {kind.__name__}", got=shown(value))
    return value


def _check_text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        kind = InvalidValueError if isinstance(value, str) else InvalidTypeError
        raise kind(argument=name, must="be a text", got=shown(value))
    return value


def _check_text_or_none(value: Any, name: str) -> str | None:
    return None if value is None else _check_text(value, name)


def _check_method_name(value: Any, name: str) -> str:
    return check_label(_check_text(value, name), name)


def _short_name(spec: str) -> str:
    """What a method is called whose spec stands for its name too: its last part, of a file without the suffix.

    >>> [_short_name(spec) for spec in ("lime", "python:my.module:grad_cam", "scores:values/shap.npz")]
    ['lime', 'grad_cam', 'shap']
    """
    scheme, _, place = spec.partition(":")
    if scheme == "scores":
        return Path(place).stem or place
    return place.rpartition(":")[2] or spec


def _check_flag(value: Any, name: str) -> bool:
    """True or False, nothing that only behaves so; in the words of TOML."""
    if not isinstance(value, bool):
        raise InvalidTypeError(argument=name, must="be true or false", got=shown(value))
    return value


def _check_fraction(value: Any, name: str) -> float:
    return float(check_share(value, name))


def _check_keep_probability(value: Any, name: str) -> float:
    return float(check_number(value, name, "be a number above 0 and at most 1", lambda number: 0 < number <= 1))


def _check_count_or_none(value: Any, name: str) -> int | None:
    return None if value is None else check_whole(value, name, minimum=1)


def _check_each(
    values: Any, name: str, check: Callable[[Any, str], Any], *, may_be_empty: bool = False
) -> tuple[Any, ...]:
    """A list of distinct values that each pass the check."""
    checked = tuple(check(value, name) for value in check_list(values, name, "be a list", most=MOST_ENTRIES))
    if not checked and not may_be_empty:
        raise InvalidValueError(argument=name, must="have at least one entry", got="none")
    for value, count in Counter(checked).items():
        if count > 1:
            raise InvalidValueError(argument=name, must="have distinct entries", got=f"{value!r} more than once")
    return checked


def _check_radii(value: Any, name: str) -> tuple[int, ...]:
    radii = parse_radii(value, name) if isinstance(value, str) else value  # in a file it may be "1-50"
    return tuple(sorted(_check_each(radii, name, check_whole)))


def _check_methods(values: Any, name: str) -> tuple[MethodSpec, ...]:
    methods = tuple(_check_kind(method, name, MethodSpec) for method in check_list(values, name, "be a list"))
    _check_each([method.name for method in methods], name, _check_text)
    return methods


def _check_seed(value: Any, name: str) -> int | str:
    return value if is_canonical(value) else check_whole(value, name)


def _check_options(value: Any, name: str, *, taken: tuple[str, ...] = ()) -> Options:
    """Options with names for keys, none of them among those ``taken`` by keys of their own."""
    must = "map names to settings"
    if not isinstance(value, Mapping):
        raise InvalidTypeError(argument=name, must=must, got=shown(value))
    for key in value:
        if not isinstance(key, str):
            raise InvalidTypeError(argument=name, must=must, got=f"the key {shown(key)}")
        if key in taken:
            raise InvalidValueError(
                argument=name, must=f"not contain `{key}`, which is not an option", got=f"{value[key]!r}"
            )
    return Options(value)


def _frozen(value: Any, _: str = "") -> Any:
    """The value with tuples for lists and options for mappings, all the way down."""
    try:
        if isinstance(value, Mapping):
            return Options(value)
        return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
    except RecursionError as error:
        raise InvalidValueError("A setting contains itself or is nested too deeply.") from error


_check_count = partial(check_whole, minimum=1)
_check_keeps = partial(_check_each, check=_check_keep_probability)


class _Section:
    """A table of a study's file: every value is checked and normalised when it is made, as its annotation says."""

    section: ClassVar[str]

    def __init_subclass__(cls, section: str = "") -> None:
        cls.section = section

    def __post_init__(self) -> None:
        for name, check in _checks_of(type(self)).items():  # type: ignore[arg-type]
            object.__setattr__(self, name, check(getattr(self, name), f"{self.section}.{name}".lstrip(".")))


def keys_of(kind: type) -> dict[str, Field[Any]]:
    """The fields of a part of a study that a file holds, by name."""
    return {field.name: field for field in fields(kind) if field.name != "trust"}


@cache
def _checks_of(kind: type) -> dict[str, Callable[[Any, str], Any]]:
    """The check in each key's annotation; what has none is a part of its own, and must be of that class."""
    hints = get_type_hints(kind, include_extras=True)
    checks = {name: get_args(hints[name])[1:] or (partial(_check_kind, kind=hints[name]),) for name in keys_of(kind)}
    return {name: check for name, (check,) in checks.items()}


@dataclass(frozen=True)
class Trust(_Section, section="trust"):
    """What a model that a file names may do when it is loaded; by default nothing but being read from this machine.

    No file can say it: it comes from the command line, or from the Python code that opens the file.

    Attributes
    ----------
    code : bool
        Import and call what a ``python:`` model names (``--trust code``).
    types : tuple of str
        Types that a skops file may create besides scikit-learn's own (``--trust TYPE``).
    download : bool
        Download a hub id that is not in the cache (``--trust download``).
    network : bool
        Send prompts, and the API key, to an endpoint that is not on this machine, and to any endpoint as the key
        another environment variable than OPENAI_API_KEY (``--trust network``).
    """

    code: Annotated[bool, _check_flag] = False
    types: Annotated[tuple[str, ...], partial(_check_each, check=_check_text, may_be_empty=True)] = ()
    download: Annotated[bool, _check_flag] = False
    network: Annotated[bool, _check_flag] = False


NO_TRUST = Trust()
"""For models that a file names, unless whoever opens it says otherwise."""

_OWN = Trust(code=True, download=True, network=True)  # for models that Python code names: it could run any code itself

_NEVER_STORED = {
    "trusted": "`--trust TYPE` (in Python: `trust=Trust(types=[…])`)",
    "download": "`--trust download` (in Python: `trust=Trust(download=True)`)",
}
"""Options of models that no study holds → where they are given instead."""


@dataclass(frozen=True)
class ModelSpec(_Section, section="model"):
    """Which classifier: what ``holdfast.models.load`` takes.

    ``options`` are its further arguments, such as ``device`` or ``autocast``. ``trust`` is not stored: a study that is
    read from a file trusts nothing, unless ``read_spec`` is told otherwise.
    """

    spec: Annotated[str, _check_text]
    options: Annotated[Mapping[str, Any], partial(_check_options, taken=("spec",))] = _NO_OPTIONS
    trust: Trust = field(default=_OWN, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_kind(self.trust, "trust", Trust)
        for name, instead in _NEVER_STORED.items():
            if name in self.options:
                must = f"not contain `{name}`: a file may not grant that"
                raise InvalidValueError(argument="model.options", must=must, hint=f"Use {instead}.")


@dataclass(frozen=True)
class DataSpec(_Section, section="data"):
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

    spec: Annotated[str, _check_text]
    n: Annotated[int | None, _check_count_or_none] = None
    skip_unreadable: Annotated[bool, _check_flag] = False
    min_features: Annotated[int, _check_count] = 1
    options: Annotated[Mapping[str, Any], partial(_check_options, taken=("spec",))] = _NO_OPTIONS
    order: Annotated[str, partial(check_name, options=("random", "first"))] = "random"


@dataclass(frozen=True)
class MaskingSpec(_Section, section="masking"):
    """What a feature is and how a hidden one looks: the arguments of ``Classifier.bind``."""

    groups: Annotated[Any, _frozen] = None
    fill: Annotated[Any, _frozen] = None
    options: Annotated[Mapping[str, Any], partial(_check_options, taken=("input", "groups", "fill"))] = _NO_OPTIONS


@dataclass(frozen=True)
class MethodSpec(_Section, section="methods"):
    """One explanation method.

    Attributes
    ----------
    name : str
        What the study calls it. The name of a built-in method, or any ``spec``, may stand for both.
    spec : str
        A built-in method such as "lime", ``captum:<class>`` or ``shapiq:<class>``; for contexts "cited" (the passages
        that the data cite) or "citations" (those that the model's own answer cites); a function of one's own,
        ``python:<module>:<function>``; or scores that are there already, ``scores:<file or folder>``.
    n_samples : int or None
        What ``attribute`` may spend.
    options : mapping
        Further arguments of ``attribute``, or of the function. Of scores that are there: ``output``, the class that
        plain values of shap's explainers for two classes speak for, which is 1 for most.
    masks : bool
        Whether it gives masks instead of scores: then no share is cut, and its items stand beside those of
        the first of ``top_fractions``.
    fingerprint : str or None
        Of the code of a function; found when the study runs.
    """

    name: Annotated[str, _check_method_name]
    n_samples: Annotated[int | None, _check_count_or_none] = None
    options: Annotated[Mapping[str, Any], _check_options] = _NO_OPTIONS
    spec: Annotated[str | None, _check_text_or_none] = None
    masks: Annotated[bool, _check_flag] = False
    fingerprint: Annotated[str | None, _check_text_or_none] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spec is None:
            object.__setattr__(self, "spec", self.name)
            object.__setattr__(self, "name", _short_name(self.name))
        if self.scheme in ("", *SCHEMES):
            self._check_attributed()
            return
        check_name(self.scheme, "methods.spec", METHOD_SCHEMES)
        if self.n_samples is not None:
            must = f"be left out for {self.scheme}: methods"
            raise InvalidValueError(argument="methods.n_samples", must=must, got=self.n_samples)
        if self.scheme == "scores" or self.spec == "live:scores":
            for key in self.options:
                check_name(key, "methods.options", ("output",))

    def _check_attributed(self) -> None:
        """What ``attribute`` knows by name gives scores, and takes the options that it has; citations are masks."""
        if self.spec in CITING:
            object.__setattr__(self, "masks", True)
            for name, value in (("n_samples", self.n_samples), ("options", self.options or None)):
                if value is not None:
                    must = f"be left out for {self.spec!r}"
                    raise InvalidValueError(argument=f"methods.{name}", must=must, got=shown(value))
            return
        if self.masks:
            must = f"be false for {self.spec}, which returns scores"
            raise InvalidValueError(argument="methods.masks", must=must, got="true")
        if self.scheme:
            return
        argument = "methods.spec" if self.spec != self.name else "methods.name"
        known = options_of(check_name(self.spec, argument, (*METHODS, *CITING)))
        for key in self.options:  # what would have no effect is an error, never ignored
            if not known:
                must = f"be empty: {self.spec!r} takes no options"
                raise InvalidValueError(argument="methods.options", must=must, got=shown(key))
            check_name(key, "methods.options", known)

    @property
    def scheme(self) -> str:
        """What comes before the colon of the spec; empty for built-in methods."""
        return str(self.spec).partition(":")[0] if ":" in str(self.spec) else ""

    @property
    def is_own(self) -> bool:
        """Whether it is the user's: what goes wrong in it costs its own items, and nothing else."""
        return bool(self.scheme)


def _check_neighborhood(value: Any, name: str) -> str:
    """What may be revealed, as a text: a file holds no object, and radii are those of the study."""
    distribution = as_neighborhood(value, name)
    if isinstance(distribution, OwnDistribution) or getattr(distribution, "radius", None) is not None:
        must = "be a distribution with a name and without its own radius"
        raise InvalidValueError(argument=name, must=must, got=shown(value))
    return distribution.name


@dataclass(frozen=True)
class CertifySpec(_Section, section="certify"):
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

    radii: Annotated[tuple[int, ...], _check_radii] = (1, 2, 3, 5, 10)
    tolerance: Annotated[float, _check_fraction] = FIELDS["tolerance"].default
    confidence: Annotated[float, _check_fraction] = FIELDS["confidence"].default
    plan: Annotated[str, FIELDS["plan"].check] = FIELDS["plan"].default
    agree: Annotated[str, _check_text] = FIELDS["agree"].default
    neighborhood: Annotated[str, _check_neighborhood] = FIELDS["neighborhood"].default
    simultaneous: Annotated[bool, _check_flag] = FIELDS["simultaneous"].default
    precision: Annotated[str, partial(check_name, options=PRECISIONS)] = "per-input"
    half_width: Annotated[float, _check_fraction] = 0.01
    answers: Annotated[str, FIELDS["answers"].check] = FIELDS["answers"].default

    def __post_init__(self) -> None:
        super().__post_init__()
        Question.check(self.keywords, prefix="certify.")
        if self.of_means and self.answers == "random":
            must = "be 'fixed' with precision 'data-set'"
            raise InvalidValueError(argument="certify.answers", must=must, got="'random'")
        if self.of_means:
            check_mean_distribution(as_neighborhood(self.neighborhood), "certify.neighborhood")

    @property
    def keywords(self) -> dict[str, Any]:
        """The question as keywords of the library's verbs."""
        return {name: getattr(self, name) for name in FIELDS if hasattr(self, name)}

    @property
    def of_means(self) -> bool:
        """Whether only mean curves over the inputs are wanted."""
        return self.precision == "data-set"

    @property
    def item_keywords(self) -> dict[str, Any]:
        """The question that every item is asked, as keywords."""
        return self.keywords | _ITEM_OF_MEANS if self.of_means else self.keywords

    @property
    def item_radii(self) -> tuple[int, ...]:
        """The radii at which every item is certified; none where only means are wanted."""
        return () if self.of_means else self.radii


@dataclass(frozen=True)
class SmoothingSpec(_Section, section="smoothing"):
    """Keep probabilities under which every explanation is certified; 1 is the model itself."""

    keep_probabilities: Annotated[tuple[float, ...], _check_keeps] = (1.0,)
    n_samples: Annotated[int, _check_count] = 32


@dataclass(frozen=True)
class MusSpec(_Section, section="mus"):
    """Keep probabilities of hard certificates by votes; none by default."""

    keep_probabilities: Annotated[tuple[float, ...], partial(_check_keeps, may_be_empty=True)] = ()
    n_levels: Annotated[int, _check_count] = 64
    criterion: Annotated[str, partial(check_name, options=CRITERIA)] = "votes"

    def __post_init__(self) -> None:
        super().__post_init__()
        for keep in self.keep_probabilities:
            smallest = lookup_table([[0.0, 1.0], [1.0, 0.0]], n_features=1)
            try:  # errors of the library speak of its own argument
                mus_model(smallest, keep, self.n_levels, rng=0)
            except HoldfastError as error:
                raise InvalidValueError(f"must be valid: {error}", argument="mus.keep_probabilities") from error


@dataclass(frozen=True)
class StudySpec(_Section):
    """A whole study.

    The same spec gives the same draws and counts on every engine, with any number of workers, and
    after any interruption; and the same explanations, bit for bit, of a model that is so in batches of
    one shape. Counts can differ where a network's two leading classes are tied to within rounding.

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
    methods: Annotated[tuple[MethodSpec, ...], _check_methods]
    top_fractions: Annotated[tuple[float, ...], partial(_check_each, check=_check_fraction)] = (0.25,)
    masking: MaskingSpec = field(default_factory=MaskingSpec)
    certify: CertifySpec = field(default_factory=CertifySpec)
    smoothing: SmoothingSpec = field(default_factory=SmoothingSpec)
    mus: MusSpec = field(default_factory=MusSpec)
    witness: Annotated[bool, _check_flag] = False
    batch_size: Annotated[int, _check_count] = STEADY_BATCH_SIZE
    seed: Annotated[int | str, _check_seed] = CANONICAL
    name: Annotated[str, _check_text] = "study"

    @property
    def groups(self) -> list[GroupKey]:
        """Every group of items: methods × fractions × keep probabilities."""
        groups: list[GroupKey] = []
        for method in self.methods:
            fractions = self.top_fractions[:1] if method.masks else self.top_fractions
            groups += map(GroupKey._make, product([method.name], fractions, self.smoothing.keep_probabilities))
        return groups

    def method(self, name: str) -> MethodSpec:
        """The method of this name."""
        return next(method for method in self.methods if method.name == name)

    @property
    def is_live(self) -> bool:
        """Whether its model and data were objects of the process that ran it, which no file can name."""
        return self.model.spec.startswith("live:")

    @property
    def mean_groups(self) -> list[GroupKey]:
        """The groups that a mean curve is asked for; none unless the precision is "data-set"."""
        return self.groups if self.certify.of_means else []

    def trusting(self, trust: Trust) -> StudySpec:
        """The same study, its model trusted as said here."""
        return replace(self, model=replace(self.model, trust=trust))

    def plain(self) -> dict[str, Any]:
        """The study as dictionaries, lists, texts and numbers, defaults written out; ``trust`` is not in it.

        Examples
        --------
        >>> spec = StudySpec(ModelSpec("bundled:digits-resnet"), DataSpec("bundled:digits"), (MethodSpec("lime"),))
        >>> spec.plain()["methods"]
        [{'name': 'lime', 'n_samples': None, 'options': {}, 'spec': 'lime', 'masks': False, 'fingerprint': None}]
        """
        plain: dict[str, Any] = _plain(self, "")
        return plain


_PARTS: tuple[type[_Section], ...] = (ModelSpec, DataSpec, MaskingSpec, MethodSpec, CertifySpec, SmoothingSpec, MusSpec)

_SHORT = {"model": "spec", "data": "spec", "methods": "name"}  # sections that a text may stand for, and its key

_HOW_ASKED = ("cache", "n_at_once", "timeout", "max_tries", "backoff", "budget_calls", "budget_tokens", "key_variable")
"""Options of an endpoint that no answer depends on."""

_FREE = (
    *("name", "top_fractions", "smoothing.keep_probabilities", "data.n", "data.order", "data.skip_unreadable"),
    *(f"model.options.{name}" for name in _HOW_ASKED),
)
"""Keys that no item depends on: an item has the number of its input in the data."""


def check_spec(value: Any) -> StudySpec:
    """A study, and not the file it is written in."""
    if not isinstance(value, StudySpec):
        hint = "Read a file with `read_spec`."
        raise InvalidTypeError(argument="spec", must="be a StudySpec", got=type(value).__name__, hint=hint)
    return value


def check_same_question(stored: StudySpec, spec: StudySpec, methods: Mapping[str, MethodSpec]) -> None:
    """Raise unless items of both studies answer one question and may share a file.

    More inputs, methods, fractions or keep probabilities may be asked for later: an item's own draws do not depend on
    them. ``methods`` are those that have items stored.
    """
    unused = ("tolerance", "plan") if stored.certify.of_means else ("half_width",)
    free = (*_FREE, *(f"certify.{name}" for name in unused))
    known = {method.name: _plain(method, "methods") for method in spec.methods if method.name in methods}
    before = stored.plain() | {"methods": {name: _plain(methods[name], "methods") for name in known}}
    for path, old, new in _differences(before, spec.plain() | {"methods": known}, ""):
        if path not in free:
            if path.startswith("methods.") and path.endswith(".fingerprint"):
                raise changed_method(path.split(".", 1)[1].rpartition(".")[0], "The code")
            live = {"model.options.code": "model, a function,", "data.options.masking": "fill, background or features"}
            if stored.is_live and path in live:
                raise StudyMismatchError(
                    f"The {live[path]} changed since items were stored. Use another file of results."
                )
            raise StudyMismatchError(
                f"`{path}` is {json.dumps(old, ensure_ascii=False)} in the stored study and "
                f"{json.dumps(new, ensure_ascii=False)} in this one, so their items do not belong together. "
                "Use another file for another question."
            )


def changed_method(name: str, what: str) -> StudyMismatchError:
    """The error of a method that is another than when its items were stored."""
    return StudyMismatchError(
        f"{what} of method {name!r} changed since its items were stored. Rename the new one, or use another file of "
        "results."
    )


def _differences(before: Any, now: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(name), now.get(name), f"{path}.{name}".lstrip("."))
    elif before != now:
        yield path, before, now


def _plain(value: Any, path: str) -> Any:
    if is_dataclass(value):
        value = {name: getattr(value, name) for name in keys_of(type(value))}
    if isinstance(value, Mapping):
        return {name: _plain(item, f"{path}.{name}".lstrip(".")) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, path) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    must = "be something a file can hold (text, numbers, lists)"
    got = f"{type(value).__name__}"
    raise InvalidTypeError(argument=path, must=must, got=got)


def read_spec(path: str | Path, *, trust: Trust = NO_TRUST) -> StudySpec:
    """Read a study from a TOML file.

    Keys the study does not have are refused, with the nearest that it has. Paths inside are relative
    to where the study runs.

    Parameters
    ----------
    path : str or Path
        The file; ``holdfast study init`` writes one with every key explained.
    trust : Trust
        What the model that the file names may do when it is loaded: nothing but being read, unless said here.

    Returns
    -------
    StudySpec
        Checked; nothing has been loaded yet.
    """
    return parse_spec(read_text(check_path(path, "path")), name=str(path), trust=trust)


def parse_spec(text: str, *, name: str = "text", trust: Trust = NO_TRUST) -> StudySpec:
    r"""Read a study from TOML text.

    Examples
    --------
    >>> spec = parse_spec('''
    ... model = "bundled:digits-resnet"
    ... data = "bundled:digits"
    ... methods = ["lime", "random"]
    ... certify = { radii = "1-4" }
    ... ''')
    >>> spec.certify.radii, [method.name for method in spec.methods]
    ((1, 2, 3, 4), ['lime', 'random'])
    >>> parse_spec('model = "bundled:digits-resnet"\nsede = 1')
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `sede` is not a key of a study. Did you mean `seed`?
    """
    if not isinstance(text, str):
        raise InvalidTypeError(argument="text", must="be TOML", got=shown(text))
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # what is no TOML, and numbers of thousands of digits
        raise InvalidValueError(f"{name} must be TOML: {error}") from error
    return spec_from_plain(table, trust)


def write_spec(spec: StudySpec, path: str | Path) -> None:
    """Write a study as TOML, every key spelled out; ``read_spec`` gives the same study back."""
    plain = check_spec(spec).plain()
    sections = {name: value for name, value in plain.items() if isinstance(value, dict)}
    lines = [f"{name} = {_toml(value, name)}" for name, value in plain.items() if name not in sections]
    for name, section in sections.items():
        settings = {key: value for key, value in section.items() if value is not None}
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value, f'{name}.{key}')}" for key, value in settings.items())]
    write_whole(check_path(path, "path"), "\n".join(lines) + "\n")


def _toml(value: Any, name: str) -> str:
    """A plain value as TOML in one line; JSON's texts are TOML's, but for the delete character."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(_toml(item, name) for item in value)}]"
    if isinstance(value, dict):
        entries = (f"{_toml(key, name)} = {_toml(item, name)}" for key, item in value.items() if item is not None)
        return f"{{ {', '.join(entries)} }}"
    if value is None:
        raise InvalidTypeError(argument=name, must="have no None in its lists: TOML cannot write it")
    return repr(value.item() if isinstance(value, np.generic) else value).lower()


def commented_example(*, model: str | None = None, data: str | None = None) -> str:
    """A study as TOML text with every key explained, for the bundled digits or the given model and data."""
    text = Path(__file__).with_name("example.toml").read_text(encoding="utf-8")
    for spec, example in ((model, "bundled:digits-resnet"), (data, "bundled:digits")):
        if spec is not None:
            text = text.replace(f'spec = "{example}"', f"spec = {_toml(spec, 'spec')}")
    if data is not None and data.startswith(("contexts:", "bundled:contexts")):
        # What is asked of contexts first is whether answers rest on their citations.
        lime = 'name = "lime"\nn_samples = 500\n# options = { sampling = "bernoulli" }\n'
        text = text.replace(lime, 'name = "cited"\n')
    are_images = data is None or data == "bundled:digits" or data.startswith("images:")
    if data is not None and data.startswith("contexts:"):
        text = text.replace("\nn = ", "\n# n = ")
    return text if are_images else text.replace("\ngroups = ", "\n# groups = ")


def spec_from_plain(table: Mapping[str, Any], trust: Trust = NO_TRUST) -> StudySpec:
    """The study that ``StudySpec.plain`` or a TOML file spells out, its model trusted as said here."""
    values = dict(table)
    for kind in _PARTS:
        if kind is MethodSpec and "methods" in table:
            entries = check_list(table["methods"], "methods", "be a list of names or of [[methods]] tables")
            values["methods"] = [_parse_section(kind, entry) for entry in entries]
        elif kind.section in table:
            values[kind.section] = _parse_section(kind, table[kind.section])
    spec: StudySpec = _parse_section(StudySpec, values)
    return spec.trusting(trust)


def stored_spec(table: Mapping[str, Any]) -> StudySpec:
    """The study that a store holds, without the trust that an earlier version, or a stranger, wrote into it."""
    model = table.get("model")
    if isinstance(model, dict) and isinstance(model.get("options"), dict):
        options = {name: value for name, value in model["options"].items() if name not in _NEVER_STORED}
        table = {**table, "model": model | {"options": options}}
    return spec_from_plain(table)


def _parse_section(kind: Any, values: Any) -> Any:
    """A part of a study; keys that it does not have are refused, and those that it needs asked for."""
    section, known = kind.section, keys_of(kind)
    if isinstance(values, str) and section in _SHORT:
        values = {_SHORT[section]: values}
    if not isinstance(values, Mapping):
        raise InvalidTypeError(argument=section, must="be a table of settings", got=shown(values))
    path = f"{section}." if section else ""
    for key in values:
        if key not in known:
            raise InvalidValueError(
                f"is not a key of a study. {_hint(key, list(known), path)}", argument=f"{path}{key}"
            )
    for name, entry in known.items():
        if entry.default is MISSING and entry.default_factory is MISSING and name not in values:
            raise InvalidValueError(argument=f"{path}{name}", must="be given", got="nothing")
    return kind(**values)


def _hint(key: str, known: list[str], path: str) -> str:
    """The nearest key of the same section, else of any, else all of the section."""
    near = [f"{path}{name}" for name in difflib.get_close_matches(key, known, n=1, cutoff=0.6)]
    kinds: tuple[type[_Section], ...] = (*reversed(_PARTS), StudySpec)  # of equal keys, the first section's
    elsewhere = {name: f"{kind.section}.{name}".lstrip(".") for kind in kinds for name in keys_of(kind)}
    near += [elsewhere[name] for name in difflib.get_close_matches(key, elsewhere, n=1, cutoff=0.8)]
    return f"Did you mean `{near[0]}`?" if near else f"{f'[{path[:-1]}]' if path else 'It'} has {', '.join(known)}."

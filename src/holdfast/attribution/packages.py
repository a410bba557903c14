"""Methods of captum and shapiq, by the name of a class or the class itself → scores of a masked model's features.

Both draw from our key, and the rows that they compute are counted.
"""

from __future__ import annotations

import inspect
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from holdfast.attribution.external import Maps
from holdfast.attribution.methods import SCHEMES, AttributionTask, ResolvedMethod, Scored, check_needs
from holdfast.attribution.networks import enlarging
from holdfast.attribution.shapley import DEFAULT_SAMPLES, game_of
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import import_extra
from holdfast.randomness import stream
from holdfast.validation import check_name
from holdfast.words import listed

_BASES = {"captum": ("captum.attr", "Attribution"), "shapiq": ("shapiq.approximator", "Approximator")}
_NEEDS = {"captum": "network", "shapiq": "masks"}

_NETWORK_NAMES = ("forward_func", "model")
_OURS = {"self", *_NETWORK_NAMES, "inputs", "baselines", "feature_mask", "target", "n", "random_state", "n_samples"}
_OURS |= {"additional_forward_args", "device_ids", "return_convergence_delta", "return_input_shape", "show_progress"}
"""What classes are given by us, or never: options would have no effect or change the kind of the answer."""

_BUDGETS = ("nt_samples", "n_samples", "n_steps")
_BATCH_NAMES, _BATCH = ("internal_batch_size", "perturbations_per_eval"), 32
_WARNINGS = ("Setting .*backward hooks", "Input Tensor .* did not already require gradients", "Not all budget is req")
"""What captum says of hooks and tensors that it has to itself here, and shapiq of budgets that are more than enough."""


def resolve_class(scheme: str, place: str) -> ResolvedMethod:
    """The class of this name in captum or shapiq as a method."""
    return _resolved(scheme, _find_class(scheme, place))


def _find_class(scheme: str, place: str) -> Any:
    module_name, base_name = _BASES[scheme]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what packages warn of while they are imported is not the caller's to mend
        package = import_extra(module_name, f'Methods called "{scheme}:…" need')
    base = getattr(package, base_name)
    classes = {name: kind for name, kind in vars(package).items() if inspect.isclass(kind) and issubclass(kind, base)}
    usable = [name for name, kind in classes.items() if kind is not base and _required(scheme, kind) is not None]
    try:
        check_name(place, "method", sorted(usable))
    except InvalidValueError as error:
        must = f"name {SCHEMES[scheme]} after '{scheme}:'"
        raise InvalidValueError(argument="method", must=must, got=repr(place), hint=error.hint) from error
    return classes[place]


def resolve_object(method: Any) -> ResolvedMethod | None:
    """A class of captum or shapiq, or an approximator that was made already, as a method; None for anything else."""
    kind = method if inspect.isclass(method) else type(method)
    for scheme, (_, base) in _BASES.items():
        if any(part.__name__ == base and part.__module__.startswith(f"{scheme}.") for part in kind.__mro__):
            if kind is method and _required(scheme, kind) is not None:
                return _resolved(scheme, kind)
            if kind is not method and scheme == "shapiq":
                return ResolvedMethod(f"shapiq:{kind.__name__}", partial(by_shapiq, method), "masks", ())
    return None


def _resolved(scheme: str, kind: Any) -> ResolvedMethod:
    explain = by_captum if scheme == "captum" else by_shapiq
    names = tuple(name for name in _parameters(scheme, kind) if name not in _OURS)
    # One that is made of another method takes whatever that takes.
    options = None if "attribution_method" in names else names
    return ResolvedMethod(f"{scheme}:{kind.__name__}", partial(explain, kind), _NEEDS[scheme], options)


def _parameters(scheme: str, kind: Any) -> dict[str, inspect.Parameter]:
    """What a class takes by name, when it is made and, if of captum, when it is asked."""
    functions = (kind.__init__, kind.attribute) if scheme == "captum" else (kind.__init__,)
    named: dict[str, inspect.Parameter] = {}
    for function in functions:
        named |= inspect.signature(function).parameters
    return {name: value for name, value in named.items() if value.kind not in (value.VAR_POSITIONAL, value.VAR_KEYWORD)}


def _required(scheme: str, kind: Any) -> list[str] | None:
    """The options that a class cannot do without; None if it is no method of one model and one input."""
    if scheme == "captum":
        takes_input = "inputs" in inspect.signature(getattr(kind, "attribute", kind)).parameters
        if not takes_input or "Permutation" in kind.__name__:  # which shuffles features between inputs
            return None
    parameters = _parameters(scheme, kind).items()
    return [name for name, value in parameters if value.default is value.empty and name not in _OURS]


def _check_complete(task: AttributionTask, required: list[str] | None, options: dict[str, Any]) -> None:
    missing = [name for name in required or () if name not in options]
    if missing:
        names = listed(f"`{name}`" for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise InvalidTypeError(f"needs the option{plural} {names}.", argument=f"method={task.method!r}")


def by_captum(kind: Any, task: AttributionTask, /, **options: Any) -> Scored:
    """Scores by a class of captum on the elements, with the masked model's baseline and target.

    Scores of elements are summed over each feature. Classes that take a ``feature_mask`` are given the features, and
    repeat a feature's score at each element: they are averaged. Those of a layer are summed over its channels, enlarged
    bilinearly to the image, and averaged.
    """
    model = check_needs(task.evaluator, task.method, "network")
    settings = {name: _frozen(value) for name, value in options.items()}
    _check_complete(task, _required("captum", kind), settings)
    network = model.network()
    network.module.limit = task.evaluator.deadline.call
    method, taken = _make(kind, network, settings)
    known: dict[str, Any] = {"baselines": network.hidden, "target": task.target}
    known["feature_mask"] = network.features.expand_as(network.shown).contiguous()
    if "DeepLiftShap" in kind.__name__:  # takes no fewer than two baselines, and ours is one
        known["baselines"] = network.hidden.repeat(2, *([1] * (network.hidden.ndim - 1)))
    known |= dict.fromkeys(_BATCH_NAMES, min(_BATCH, task.evaluator.batch_size))
    if task.n_samples is not None:
        budget = next((name for name in _BUDGETS if name in taken), None)
        if budget is None:
            raise InvalidTypeError(f"is not an option of {task.method!r}, which takes no budget.", argument="n_samples")
        known[budget] = task.n_samples
    arguments = {name: value for name, value in known.items() if name in taken} | settings
    seed = int(stream(task.key, "attribution", task.method).integers(2**32))
    with network.running(seed) as has_drawn, _quiet():
        try:
            result = method.attribute(network.shown.clone(), **arguments)
        except AssertionError as error:  # how captum checks its arguments
            words = textwrap.shorten(str(error), 200, placeholder=" …")
            raise InvalidValueError(f"was refused by captum: {words}", argument=f"method={task.method!r}") from error
        finally:
            task.n_gradients += network.module.n_rows
        task.has_drawn = has_drawn()
    values = network.read(result[0] if isinstance(result, tuple) else result)
    is_layer, reduce = tuple(values.shape) != tuple(network.shown.shape), "mean" if "feature_mask" in taken else "sum"
    if is_layer and values.ndim == 4 and np.ndim(model.groups) == 2:
        rows, columns = (enlarging(*sizes) for sizes in zip(values.shape[2:], model.groups.shape, strict=True))
        values, reduce = rows @ values.sum(axis=1, keepdims=True) @ columns.T, "mean"
    scores = Maps.of(model, groups=None, reduce=reduce).reduced(values, channels_first=True)
    details = _stored(options)
    details |= {"n_samples": task.n_samples} if task.n_samples is not None else {}
    details |= {"seed": seed} if task.has_drawn else {}
    return Scored(scores, details=details)


def _make(kind: Any, network: Any, settings: dict[str, Any]) -> tuple[Any, set[str]]:
    """An object of the class on the network, and what its ``attribute`` takes; the class's settings are used up."""
    made: dict[str, Any] = {}
    taken = set(inspect.signature(kind.attribute).parameters)
    for name in inspect.signature(kind.__init__).parameters:
        if name in _NETWORK_NAMES:
            made[name] = network.module
        elif name == "layer" and "layer" in settings:
            made[name] = network.layer(settings.pop(name))
        elif name == "attribution_method" and name in settings:
            inner = settings.pop(name)
            inner = _find_class("captum", inner) if isinstance(inner, str) else inner
            made[name], taken_inside = _make(inner, network, settings)
            taken |= taken_inside
        elif name in settings:
            made[name] = settings.pop(name)
    return kind(**made), taken


def by_shapiq(kind: Any, task: AttributionTask, /, **options: Any) -> Scored:
    """First-order values by an approximator of shapiq, a class or one that was made for as many players.

    ``n_samples`` is its budget, by default 1,000, or four per feature if that is more.
    """
    n = task.n_features
    least, default = min(2 * n + 2, 2**n), max(DEFAULT_SAMPLES, 4 * n)
    budget = task.budget(default, least=least, of=f"for {task.method!r} with {n} features")
    approximator: Any = kind
    make: Any = kind
    if inspect.isclass(kind):
        _check_complete(task, _required("shapiq", kind), options)
        settings = {name: np.asarray(value) if isinstance(value, list) else value for name, value in options.items()}
        approximator = make(n=n, random_state=int(task.stream().integers(2**31)), **settings)
    elif approximator.n != n:
        raise InvalidValueError(argument="method", must=f"be an approximator for {n} players", got=approximator.n)
    task.evaluator.expect(budget)
    with _quiet():
        values = approximator.approximate(budget, game_of(task))
    details = _stored(options if approximator is not kind else {"approximator": kind})
    details |= {"n_samples": budget, "index": values.index, "exact": not values.estimated}
    return Scored(np.asarray(values.get_n_order_values(1), dtype=np.float64), details=details)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        for message in _WARNINGS:
            warnings.filterwarnings("ignore", message)
        yield


def _frozen(value: Any) -> Any:
    """Lists as tuples, which is what captum takes and what no file can hold."""
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _stored(options: dict[str, Any]) -> dict[str, Any]:
    """The options that a result can be stored with, and the names of the others."""
    details = {name: value for name, value in options.items() if _is_plain(value)}
    others = [name for name in options if name not in details]
    return details | ({"not_stored": others} if others else {})


def _is_plain(value: Any) -> bool:
    """Whether a result can be stored with this setting."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float, bool))

"""A torch module → its scores and what was learnt about it; the classes and the fingerprint of any live model.

The module's mode, its device and the grad mode stay as they were.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError, ModelError
from holdfast.extras import import_extra
from holdfast.fingerprints import canonical, digest_files, digest_module, digest_object, fingerprint
from holdfast.masking.table.boosters import booster_parts, is_native, library_of, probability_threshold
from holdfast.validation import check_classes, did_you_mean, shown

SCORE_NAMES = ("logits", "scores", "probabilities", "output")
"""What models of all frameworks call their scores."""

_SCORING = ("predict_proba", "predict_log_proba", "decision_function")
"""Methods of estimators with a score per class; others return the labels themselves."""

_NOTES: WeakKeyDictionary[Any, dict[Hashable, Any]] = WeakKeyDictionary()


@cache
def import_torch() -> Any:
    """The torch package, or an error that says how to get it."""
    return import_extra("torch", "This needs")


def is_module(classifier: Any) -> bool:
    """Whether the classifier is a torch module; asks without importing torch."""
    return any(kind.__module__.startswith("torch.") and kind.__name__ == "Module" for kind in type(classifier).__mro__)


def is_session(classifier: Any) -> bool:
    """Whether the classifier is an ONNX Runtime session; asks without importing it."""
    return hasattr(classifier, "get_inputs") and hasattr(classifier, "run")


def device_of(module: Any, device: Any = None) -> Any:
    """The device asked for, or that of the first parameter or buffer, or the CPU."""
    torch = import_torch()
    if device is not None:
        return torch.device(device)
    return next((tensor.device for tensor in _tensors(module)), torch.device("cpu"))


def dtype_of(module: Any, dtype: Any = None) -> Any:
    """The number type asked for, or that of the first floating parameter or buffer, or float32."""
    torch = import_torch()
    if dtype is not None:
        return getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return next((tensor.dtype for tensor in _tensors(module) if tensor.is_floating_point()), torch.float32)


def check_device(device: Any) -> Any:
    """The device asked for, or the CPU."""
    torch = import_torch()
    try:
        place = torch.device("cpu" if device is None else device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        got = f"{shown(device)}: {str(error).partition(chr(10))[0].removesuffix('.')}"
        raise InvalidValueError(argument="device", must="be a device that torch can use here", got=got) from error
    return place


def check_dtype(dtype: Any) -> Any:
    """The floating number type asked for, or float32."""
    torch = import_torch()
    kind = torch.float32 if dtype is None else getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        must = "be a floating number type such as 'float32' or 'float16'"
        raise InvalidValueError(argument="dtype", must=must, got=shown(dtype))
    return kind


def _tensors(module: Any) -> Iterator[Any]:
    yield from module.parameters()
    yield from module.buffers()


def warn_half(module: Any, device: Any, dtype: Any) -> None:
    """Say once per module that it computes in half precision on a CPU, unless a number type was asked for."""
    notes, kind = notes_of(module), str(dtype_of(module)).removeprefix("torch.")
    is_half = dtype is None and kind in ("float16", "bfloat16")
    if is_half and device_of(module, device).type == "cpu" and "half" not in notes:
        notes["half"] = True
        advice = "Call `model.float()` first, or confirm the type with `dtype=`."
        slow = f"The model computes in {kind} on a CPU, which can be many times slower than float32."
        warnings.warn(f"{slow} {advice}", stacklevel=3)


def forward_parameters(module: Any) -> Mapping[str, inspect.Parameter]:
    """The arguments of the module's ``forward``; none if it does not tell, as a traced one."""
    try:
        return inspect.signature(module.forward).parameters
    except ValueError:
        return {}


def on_rows(module: Any, device: Any, dtype: Any) -> Callable[[Any], NDArray[Any]]:
    """The module as a function of rows, in the place and the numbers asked for, or its own."""
    warn_half(module, device, dtype)
    return partial(_run_on_rows, module, device_of(module, device), dtype_of(module, dtype))


def _run_on_rows(module: Any, device: Any, dtype: Any, rows: Any) -> NDArray[Any]:
    batch = import_torch().as_tensor(rows).to(dtype).to(device)  # cast first, so that float64 never travels
    with evaluating_module(module):
        return to_numpy(score_tensor(module(batch)))


@contextmanager
def evaluating_module(module: Any, *, gradients: bool = False, device: Any = None) -> Iterator[None]:
    """Evaluation mode, with or without gradients; every submodule's own mode is restored afterwards.

    With a device, torch's generators, of the CPU and of the device, if it is a GPU, stay as they were.
    """
    torch = import_torch()
    # By its dictionaries: `modules()` takes a small network as long as a few rows.
    training, parts, known = [], [module], set()
    for part in parts:  # which grow
        if part is not None:
            if part.training:
                training.append(part)
            if part._modules and id(part) not in known:
                known.add(id(part))
                parts.extend(part._modules.values())
    own = None if device is None or device.type == "cuda" else torch.default_generator.get_state()
    try:
        if training:
            module.eval()
        forked = nullcontext() if device is None or own is not None else torch.random.fork_rng(devices=[device])
        with forked, torch.inference_mode(not gradients):  # which turns gradients off, or on
            yield
    finally:
        if own is not None:
            torch.default_generator.set_state(own)
        for part in training:
            part.training = True


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier on the elements of one input as a torch module, for methods that look inside or work on tensors.

    ``module`` maps points (b, *S) to scores (b, n_classes) and counts them in ``n_rows``; its part ``inner`` is a twin
    of the classifier. ``shown`` and ``hidden`` (1, *S) are the input with every feature shown and hidden. ``features``
    broadcasts to them and has the feature of each element, or n_features for those that are always shown.
    """

    module: Any
    shown: Any
    hidden: Any
    features: Any

    @classmethod
    def of(
        cls, inner: Any, score: Callable[[Any], Any], *, shown: Any, hidden: Any, groups: NDArray[np.intp]
    ) -> Network:
        """Of a twin, how it scores points, and the groups of elements, shaped as they broadcast."""
        torch = import_torch()
        base: Any = torch.nn.Module

        class Counted(base):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.inner, self.n_rows = inner, 0
                self.limit: Callable[[Callable[[], Any], str], Any] = lambda function, what: function()

            def forward(self, points: Any) -> Any:
                self.n_rows += len(points)
                is_enabled = torch.is_grad_enabled()  # in this thread: a call with a time limit has its own

                def run() -> Any:
                    with torch.set_grad_enabled(is_enabled):
                        return score(points)

                return self.limit(run, f"for {len(points)} rows")

        features = np.where(groups < 0, groups.max() + 1, groups).astype(np.int64)
        with torch.inference_mode(False):  # whatever the caller's mode is: tensors made in it have no gradients
            points = (shown.detach().clone(), hidden.detach().clone())
            return cls(Counted().eval(), *points, torch.from_numpy(features).to(shown.device))

    def layer(self, name: Any) -> Any:
        """The part of the classifier that ``named_modules`` calls so."""
        parts = dict(self.module.inner.named_modules())
        if str(name) not in [part for part in parts if part]:
            must, hint = "be a name of `module.named_modules()`", did_you_mean(str(name), list(parts))
            raise InvalidValueError(argument="layer", must=must, got=shown(name), hint=hint)
        return parts[str(name)]

    def read(self, tensor: Any) -> NDArray[np.float64]:
        """The numbers of a tensor, wherever it is."""
        return to_numpy(tensor).astype(np.float64)

    @contextmanager
    def running(self, seed: int | None = None) -> Iterator[Callable[[], bool]]:
        """Gradients are on, and the global generators of torch and NumPy are as before afterwards.

        With a seed they start from it; the function given says whether anything was drawn from them since.
        """
        torch, device = import_torch(), self.shown.device
        # Only the generators of the CPU and of this device: seeding them all would change those of other devices.
        backend = None if device.type == "cpu" else getattr(torch, device.type)
        place = () if backend is None or device.type == "mps" else (device,)

        def states() -> tuple[Any, ...]:
            own = () if backend is None else (backend.get_rng_state(*place),)
            return (np.random.get_state(), torch.get_rng_state(), *own)  # noqa: NPY002 - captum draws from it

        before = states()
        try:
            if seed is not None:
                np.random.seed(seed)  # noqa: NPY002
                torch.default_generator.manual_seed(seed)
                if backend is not None:
                    backend.manual_seed(seed)
            first = states()
            with torch.inference_mode(False), torch.enable_grad():
                yield lambda: any(
                    not np.array_equal(_bytes(old), _bytes(new)) for old, new in zip(first, states(), strict=True)
                )
        finally:
            np.random.set_state(before[0])  # noqa: NPY002
            torch.set_rng_state(before[1])
            if backend is not None:
                backend.set_rng_state(before[2], *place)


def _bytes(state: Any) -> NDArray[Any]:
    """The state of a generator as numbers; that of NumPy is a tuple with the place in its key."""
    return np.append(state[1], state[2]) if isinstance(state, tuple) else np.asarray(state.cpu())


def twin_of(module: Any) -> Any:
    """A copy of a module in evaluation mode that computes with the same numbers in memory.

    Hooks, modes, settings and replaced weights of the twin are its own: the module stays as it is.
    """
    torch = import_torch()
    shared: dict[int, Any] = {}
    with torch.inference_mode(False):
        for part in module.modules():
            for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
                if isinstance(value, torch.nn.Parameter):
                    shared[id(value)] = torch.nn.Parameter(value.data, requires_grad=value.requires_grad)
                elif isinstance(value, torch.Tensor):
                    shared[id(value)] = value.data
        return deepcopy(module, shared).eval()


def attention_weights(twin: Any, run: Callable[..., Any]) -> NDArray[Any]:
    """Attention (n_layers, n_heads, T, T) of one input; ``run`` calls the twin of a module of Transformers on it.

    Implementations that compute no weights, such as SDPA, give way to the one that does, in the twin alone.
    """
    for part in twin.modules():
        if hasattr(getattr(part, "config", None), "_attn_implementation"):
            part.config._attn_implementation = "eager"
    output = run(output_attentions=True)
    weights = getattr(output, "attentions", None) or ()
    shapes = {() if layer is None else tuple(layer.shape) for layer in weights}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 4 or shape[2] != shape[3]:
        needed = "one attention matrix per layer and head, over the same tokens in all layers"
        raise ModelError(f"'attention_rollout' needs {needed}, which {type(twin).__name__} does not return.")
    return np.stack([to_numpy(layer[0]) for layer in weights])


def lacks_attention(module: Any) -> str | None:
    """Why a module cannot tell its attention; None if it can, as far as its configuration says."""
    if isinstance(getattr(getattr(module, "config", None), "num_attention_heads", None), int):
        return None
    return f"{type(module).__name__}, which has no `config.num_attention_heads`"


def score_tensor(output: Any, *, softmax: bool = False) -> Any:
    """The scores (b, n_classes), or probabilities, in what a module returns: a tensor, model output, dict or tuple."""
    torch = import_torch()
    if isinstance(output, torch.Tensor):
        return output.float().softmax(dim=-1) if softmax else output
    if isinstance(output, Mapping):
        named = [output[name] for name in SCORE_NAMES if name in output]
        tensors = named or [value for value in output.values() if isinstance(value, torch.Tensor)]
        if tensors:
            return score_tensor(tensors[0], softmax=softmax)
    if isinstance(output, (tuple, list)) and output:
        return score_tensor(output[0], softmax=softmax)
    if hasattr(output, "logits"):
        return score_tensor(output.logits, softmax=softmax)
    kinds = "a tensor of scores, or a dict, tuple or model output with one"
    raise ModelError(f"The module must return {kinds}, got {type(output)}.")


def to_numpy(scores: Any) -> NDArray[Any]:
    """Scores on the CPU; half precisions become float32, which NumPy can hold and nothing loses."""
    torch = import_torch()
    is_half = scores.dtype in (torch.float16, torch.bfloat16)
    return np.asarray((scores.float() if is_half else scores).numpy(force=True))


def to_device(values: NDArray[Any], device: Any) -> Any:
    """The numbers on the device; a GPU fetches them while the processor goes on."""
    tensor = import_torch().from_numpy(np.ascontiguousarray(values))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)  # kept by torch until it has arrived


def widened(module: Any) -> Any:
    """The module itself, or a copy in float32 of one in half precision, for checks that rounding would blur."""
    torch = import_torch()
    is_half = dtype_of(module) in (torch.float16, torch.bfloat16)
    return deepcopy(module).float() if is_half else module


def notes_of(module: Any) -> dict[Hashable, Any]:
    """What was learnt about a module, a session or an estimator, forgotten with it; notes must not hold it."""
    try:
        return _NOTES.setdefault(module, {})
    except TypeError:  # unhashable, or without weak references: all is learnt anew
        return {}


def weights_mark(module: Any) -> Hashable:
    """A mark of a module's weights, another one once they are changed in place or replaced."""
    if not hasattr(module, "parameters"):
        return None
    # Torch counts how often a tensor was changed, but for those made in inference mode.
    marks = ((tensor.data_ptr(), -1 if tensor.is_inference() else tensor._version) for tensor in _tensors(module))
    return hash(tuple(marks))


def fingerprint_live(classifier: Any, tokenizer: Any = None) -> str | None:
    """SHA-256 of a torch module, a booster, an estimator or its method, or an ONNX file; None for anything else.

    A module's tokenizer counts as well. A module's fingerprint is computed once, and again when its weights were
    changed; a fitted estimator's once, and again when it was fitted again: its attributes are others then. Boosters and
    models of CatBoost change in place, so theirs is computed each time.
    """
    if isinstance(classifier, (str, Path)):
        from holdfast.masking.onnx import external_files  # most models are no ONNX files

        own, weights = hashlib.sha256(Path(classifier).read_bytes()), external_files(Path(classifier))
        return fingerprint({"model": own.digest()} | digest_files(weights)) if weights else own.hexdigest()
    if is_module(classifier):
        notes, mark = notes_of(classifier), ("fingerprint", weights_mark(classifier), id(tokenizer))
        if mark not in notes:
            parts = digest_module(classifier) | {"layers": repr(classifier).encode()}
            config, rules = getattr(classifier, "config", None), getattr(tokenizer, "backend_tokenizer", None)
            if config is not None and hasattr(config, "to_dict"):
                parts["config"] = canonical(config.to_dict())
            # Of a fast tokenizer its rules, of another one its class and vocabulary.
            if rules is not None:
                parts["beside 0"] = rules.to_str().encode()
            elif tokenizer is not None:
                words = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
                parts["beside 0"] = type(tokenizer).__qualname__.encode() + canonical(words)
            notes[mark] = fingerprint(parts)
        return str(notes[mark])
    estimator, method = classifier, ""
    if isinstance(classifier, MethodType):
        estimator, method = classifier.__self__, classifier.__name__
    asked = {"method": method.encode()}
    if method == "predict" and library_of(estimator) is not None:  # labels, which their files do not always hold
        asked["classes"] = canonical([str(name) for name in getattr(estimator, "classes_", ())])
        if (threshold := probability_threshold(estimator)) is not None:
            asked["threshold"] = repr(threshold).encode()
    if is_native(estimator) or library_of(estimator) == "catboost":
        saved = booster_parts(estimator)
        return None if saved is None else fingerprint(saved | asked)
    if not hasattr(estimator, "fit"):
        return None
    notes, attributes = notes_of(estimator), dict(vars(estimator))
    ids = {name: id(part) for name, part in attributes.items()}
    if "fitted" not in notes or notes["fitted"][0] != ids:
        # Holds the attributes too, so that their ids stay their own.
        saved = booster_parts(estimator)
        if saved is None and (digest := digest_object(estimator)) is not None:
            saved = {"object": digest}
        notes["fitted"] = (ids, attributes, saved)
    saved = notes["fitted"][2]
    return None if saved is None else fingerprint(saved | asked)


def classes_of(classifier: Any, classes: Any = None) -> tuple[str, ...] | None:
    """The names given, or those that a module of Transformers or a scoring method of an estimator knows."""
    if classes is not None:
        return check_classes(classes)
    labels = getattr(getattr(classifier, "config", None), "id2label", None)
    if isinstance(labels, Mapping):
        return telling_names(labels.get(column) for column in range(len(labels)))
    if isinstance(classifier, MethodType) and classifier.__name__ in _SCORING:
        known = getattr(classifier.__self__, "classes_", None)
        if isinstance(known, (list, tuple, np.ndarray)) and all(np.ndim(label) == 0 for label in known):
            return telling_names(known)
    return None


def telling_names(names: Iterable[Any]) -> tuple[str, ...] | None:
    """The names, if they tell classes apart and somebody chose them: those that Transformers makes up say nothing."""
    texts = tuple("" if name is None else str(name) for name in names)
    made_up = tuple(f"LABEL_{column}" for column in range(len(texts)))
    is_clear = len(set(texts)) == len(texts) and all(text and text.isprintable() for text in texts)
    return texts if texts and is_clear and texts != made_up else None

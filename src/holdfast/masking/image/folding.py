"""Batch normalisations of a module that are computed by the convolutions before them: memory is read once, not twice.

The module itself is never changed. A folded call runs twins of its parts, made for that call: objects of the same
classes with the same attributes, but for convolutions and normalisations, which are of classes of ours. A folded
convolution gives no tensor, but something that only its normalisation can take. Whatever else is done with it ends the
folding, and the module is run as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from operator import is_
from types import FunctionType
from typing import Any, NamedTuple, cast
from weakref import ref

from holdfast.masking.speed import same_scores
from holdfast.masking.torch import evaluating_module, import_torch, notes_of

Score = Callable[[Any, Any], Any]
"""A module and images (b, C, H, W) → scores (b, n_classes)."""

_TRIES = 3
"""Images after which a module is run as it is, if all that was seen are scores that are all but equal."""

_LEAST_SPREAD = 1e-3
"""Of scores that show something, over their size."""

_LEAST_NUMBERS, _LEAST_ROWS = 1 << 16, 4
"""Of the images of a call: with fewer, to make twins takes as long as they save."""


def folded_scores(score: Score, module: Any, images: Any, *, image: Any, baseline: Any) -> Any:
    """What ``score`` gives of a module and images (b, C, H, W) of one kind: folded, where that is right and faster.

    Where it is right is found out once per module: ten rows are computed of an image (C, H, W), with some of it hidden.
    """
    if len(images) < _LEAST_ROWS or images.numel() < _LEAST_NUMBERS:
        return score(module, images)
    notes, question = notes_of(module), ("folding", image.shape, image.dtype, image.device.type)
    folding: Folding | None = notes.get(question)
    if folding is None:
        try:
            folding = _try_folding(module, image, baseline, score)
        except Exception:  # the module does not take these rows, or is none that can be looked into
            folding = Folding()
        n_tries = notes[*question, "tries"] = notes.get((*question, "tries"), 0) + 1
        if folding is not None or n_tries == _TRIES:
            notes[question] = folding = folding or Folding()
    return score(module, images) if folding is None else folding.scores(score, module, images)


class Folding:
    """The convolutions of a module that are folded with the batch normalisations after them."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._pairs = [(ref(conv), ref(norm), numbers) for conv, norm, numbers in pairs]

    def scores(self, score: Score, module: Any, images: Any) -> Any:
        """What ``score`` gives, with what can be folded at the moment."""
        pairs = [pair for conv, norm, known in self._pairs if (pair := Pair.of(conv(), norm(), known)) is not None]
        if not pairs or not _is_torch_usual():
            return score(module, images)
        try:
            twins = _Twins(module, FoldedPass(pairs))
        except RuntimeError:  # numbers that do not fit, of which the module itself says more
            return score(module, images)
        if twins.has_hooks:
            return score(module, images)
        scores = twins.run(score, images)
        if scores is not None:
            return scores
        self._pairs = []  # the module takes another way than the one that was watched
        return score(module, images)


def _try_folding(module: Any, image: Any, baseline: Any, score: Score) -> Folding | None:
    """What can be folded; None if that cannot be seen by this image."""
    torch, watched = import_torch(), WatchedPass(module)
    is_usual = image.device.type == "cpu" and image.dtype == torch.float32 and not _is_compiled(module)
    if not is_usual or not watched.parts:
        return Folding()
    rows = torch.stack([image, baseline, image, image])
    rows[2, :, image.shape[1] // 2 :], rows[3, :, :, image.shape[2] // 2 :] = (
        baseline[:, image.shape[1] // 2 :],
        baseline[:, :, image.shape[2] // 2 :],
    )
    with evaluating_module(module, device=image.device):
        plain, twins = score(module, rows), _Twins(module, watched)
        if twins.has_hooks:
            return None
        twins.run(score, rows[:2])
        pairs = [pair for item in watched.pairs.items() if (pair := Pair.of(*item)) is not None]
        folded = _Twins(module, FoldedPass(pairs, folds_all=True)).run(score, rows) if pairs else None
    if folded is None:
        return Folding()
    if same_scores(folded, plain):
        return Folding(pairs)
    shows_much = (plain - plain[:1]).abs().max() > _LEAST_SPREAD * plain.abs().max()
    return Folding() if shows_much else None


def _is_compiled(module: Any) -> bool:
    """Whether parts of a module, their methods or functions are compiled, which would be compiled anew for twins."""
    parts = list(module.modules())
    holders = [*parts, *{kind for part in parts for kind in type(part).__mro__}]
    values = (value for holder in holders for value in vars(holder).values())
    functions = (vars(value) for value in values if isinstance(value, FunctionType))
    return any("_torchdynamo_orig_callable" in marks for marks in functions) or any(
        vars(part).get("_compiled_call_impl") is not None or "_orig_mod" in part._modules for part in parts
    )


class Pair(NamedTuple):
    """A convolution and the normalisation after it, and their numbers at the moment.

    These are weight and bias (or None) of the convolution, and weight, bias, mean and variance of the normalisation.
    """

    conv: Any
    norm: Any
    numbers: tuple[Any, ...]

    @classmethod
    def of(cls, conv: Any, norm: Any, known: tuple[Any, ...] = (None,)) -> Pair | None:
        """None if they are not as torch has them any more; ``known`` are numbers that were looked at before."""
        parts = import_torch().nn
        if type(conv) is not parts.Conv2d or type(norm) is not parts.BatchNorm2d or norm.training:
            return None
        if conv.padding_mode != "zeros" or "_conv_forward" in vars(conv):
            return None
        numbers = _numbers_of(conv, norm)
        return cls(conv, norm, numbers) if all(map(is_, numbers, known)) or _are_plain(numbers) else None


def _numbers_of(conv: Any, norm: Any) -> tuple[Any, ...]:
    own, learnt, seen = conv._parameters.get, norm._parameters.get, norm._buffers.get
    return own("weight"), own("bias"), learnt("weight"), learnt("bias"), seen("running_mean"), seen("running_var")


def _are_plain(numbers: tuple[Any, ...]) -> bool:
    """Whether these are numbers for all channels, in tensors that compute as ever and count their changes."""
    torch, (weight, bias, *others) = import_torch(), numbers
    tensors = [weight, *others] + ([] if bias is None else [bias])
    is_plain = all(type(values) in (torch.Tensor, torch.nn.Parameter) for values in tensors)
    return is_plain and all(values.shape[:1] == weight.shape[:1] and not values.is_inference() for values in tensors)


def _is_torch_usual() -> bool:
    """Whether nobody looks into every module or function there is, or has changed how torch computes these parts."""
    torch, kinds = import_torch(), _kinds()
    own, count_modes = torch.nn.modules.module, getattr(torch._C, "_len_torch_function_stack", int)
    is_watched = own._global_forward_hooks or own._global_forward_pre_hooks or count_modes()
    return not is_watched and _methods() == kinds.methods


class WatchedPass:
    """A call that is computed as ever, and tells which convolution's output goes to which normalisation."""

    def __init__(self, module: Any) -> None:
        usual = _kinds().usual
        self.parts = {id(part): part for part in module.modules() if type(part) in usual}
        self.pairs, self._made = dict[Any, Any](), dict[int, tuple[Any, Any]]()  # by its id, who made which tensor

    def convolve(self, conv: Any, images: Any) -> Any:
        output = type(conv).forward(conv, images)
        self._made[id(output)] = conv, ref(output)
        return output

    def normalize(self, norm: Any, images: Any) -> Any:
        conv, output = self._made.get(id(images), (None, lambda: None))
        if output() is images:
            self.pairs[conv] = norm
        return type(norm).forward(norm, images)

    def end(self) -> None:
        self._made = {}

    def is_right(self, *, has_failed: bool) -> bool:
        return not has_failed


class FoldedPass:
    """A call in which convolutions compute their normalisation too."""

    def __init__(self, pairs: Sequence[Pair], *, folds_all: bool = False) -> None:
        self.parts = {id(part): part for conv, norm, _ in pairs for part in (conv, norm)}
        self.is_spoilt, self._pairs, self._folds_all = False, pairs, folds_all
        self._waiting, self._made, self._n_taken = dict[int, tuple[Any, Any]](), list[ref[Any]](), 0
        self._versions, self._folded = _versions(pairs), _fold(pairs)

    def convolve(self, conv: Any, images: Any) -> Any:
        torch, weights = import_torch(), conv.weight
        norm, scale, shift = self._folded.get(id(conv), (None, None, None))
        is_costly = images.numel() < weights.numel() and not self._folds_all  # it would take longer than to normalise
        if norm is None or is_costly or torch.is_autocast_enabled("cpu"):
            return type(conv).forward(conv, images)
        steps = conv.stride, conv.padding, conv.dilation, conv.groups
        output, waiting = torch.conv2d(images, weights * scale, shift, *steps), _kinds().waiting(self)
        self._waiting[id(waiting)] = norm, output
        self._made.append(ref(waiting))
        return waiting

    def normalize(self, norm: Any, images: Any) -> Any:
        if type(images) is not _kinds().waiting:
            return type(norm).forward(norm, images)
        wanted, output = self._waiting.pop(id(images), (None, None))
        if wanted is not norm:
            self.is_spoilt = True
            raise TypeError("what a folded convolution computed came to another normalisation")
        self._n_taken += 1
        return output

    def end(self) -> None:
        """From now on compute as ever: somebody may have kept a twin."""
        self._folded = {}

    def is_right(self, *, has_failed: bool) -> bool:
        """Whether nobody but its normalisation had what a convolution computed, of numbers that stayed as they were.

        If the call failed: whether that had other reasons.
        """
        waits = self._n_taken < len(self._made) if has_failed else any(waiting() is not None for waiting in self._made)
        if self.is_spoilt or waits:
            return False
        stays = all(all(map(is_, _numbers_of(conv, norm), numbers)) for conv, norm, numbers in self._pairs)
        return stays and _versions(self._pairs) == self._versions


def _versions(pairs: Iterable[Pair]) -> list[Any]:
    """How often each of the numbers was changed, and whether they are those of the moment."""
    versions = [values._version for pair in pairs for values in pair.numbers if values is not None]
    return [*versions, *(pair.norm.training for pair in pairs)]


def _fold(pairs: Iterable[Pair]) -> dict[int, tuple[Any, Any, Any]]:
    """By the id of each convolution: its normalisation, what its weights are multiplied by and what is added."""
    torch, folded, by_eps = import_torch(), dict[int, tuple[Any, Any, Any]](), dict[float, list[Pair]]()
    for pair in pairs:
        by_eps.setdefault(pair.norm.eps, []).append(pair)
    for eps, some in by_eps.items():  # all at once: they are short
        columns = [[pair.numbers[column] for pair in some] for column in range(2, 6)]
        weight, bias, mean, variance = map(torch.cat, columns)
        scale = variance.add(eps).rsqrt_().mul_(weight)
        shift, lengths = torch.addcmul(bias, mean, scale, value=-1), [len(pair.numbers[2]) for pair in some]
        parts = zip(some, scale.view(-1, 1, 1, 1).split(lengths), shift.split(lengths), strict=True)
        for (conv, norm, (_, own_bias, *_rest)), times, plus in parts:
            added = plus if own_bias is None else torch.addcmul(plus, own_bias, times.view(-1))
            folded[id(conv)] = norm, times, added
    return folded


class _Twins:
    """Twins of a module's parts, as far as they lead to what a pass computes, and what calling them gives."""

    def __init__(self, module: Any, here: WatchedPass | FoldedPass) -> None:
        self.has_hooks, self._here, self._by_part = False, here, dict[int, Any]()
        self._twins = list[tuple[Any, Any, dict[str, Any], dict[str, Any]]]()
        assign, kinds = object.__setattr__, _kinds().usual
        for part in here.parts.values():
            twin: Any = object.__new__(kinds[type(part)])
            self._by_part[id(part)] = twin
            assign(twin, "__dict__", own := vars(part))  # the same: what is changed is changed for both
            assign(twin, "job", (here, part))
            self.has_hooks |= bool(own["_forward_hooks"] or own["_forward_pre_hooks"])
        self._whole = self._twin_of(module, is_whole=True)

    def run(self, score: Score, images: Any) -> Any:
        """What ``score`` gives of the twin of the module; None if the module is to be run as it is."""
        try:
            scores = score(self._whole, images)
        except Exception:
            if self._here.is_right(has_failed=True):
                raise
            return None
        finally:
            self._here.end()
            self._hand_back()
        return scores if self._here.is_right(has_failed=False) else None

    def _twin_of(self, part: Any, *, is_whole: bool = False) -> Any:
        if part is None or id(part) in self._by_part:
            return self._by_part.get(id(part))
        twin = self._by_part[id(part)] = part
        own, kind = vars(part), cast(Any, type(part))
        # What looks at the whole module sees images and scores alone.
        self.has_hooks |= not is_whole and bool(own.get("_forward_hooks") or own.get("_forward_pre_hooks"))
        if isinstance(children := own.get("_modules"), dict) and children:
            inner = {name: self._twin_of(child) for name, child in children.items()}
            if not all(map(is_, inner.values(), children.values())) and _can_have_twins(kind):
                self._by_part[id(part)] = twin = object.__new__(kind)
                before = dict(own, _modules=inner)
                object.__setattr__(twin, "__dict__", before.copy())
                self._twins.append((part, twin, before, inner.copy()))
        return twin

    def _hand_back(self) -> None:
        """Let parts keep what their twins were given as attributes."""
        for part in self._here.parts.values():
            if "forward" in vars(part) and type(getattr(part.forward, "__self__", None)) in _kinds().usual.values():
                del part.forward  # somebody put it back, as is the custom: that of the twin
        for part, twin, before, inner in self._twins:
            now = vars(twin)
            if not _are_same(now, before):
                self._hand_back_some(vars(part), now, before, but="_modules")
            if not _are_same(now.get("_modules", {}), inner):
                self._hand_back_some(part._modules, now.get("_modules", {}), inner)

    def _hand_back_some(self, own: dict[str, Any], now: dict[str, Any], before: dict[str, Any], but: str = "") -> None:
        parts = {id(twin): part for part, twin, *_ in self._twins}
        parts |= {id(self._by_part[known]): part for known, part in self._here.parts.items()}
        for name in before.keys() - now.keys() - {but}:
            own.pop(name, None)
        for name, value in now.items():
            is_new = name != but and (name not in before or before[name] is not value)
            if is_new and id(getattr(value, "__self__", None)) not in parts:
                own[name] = parts.get(id(value), value)


def _are_same(some: dict[str, Any], others: dict[str, Any]) -> bool:
    return len(some) == len(others) and all(map(is_, some.values(), others.values()))


@lru_cache(maxsize=1024)
def _can_have_twins(kind: Any) -> bool:
    """Whether all that objects of a class are is in their attributes, and their end goes unnoticed."""
    is_plain = all(not vars(each).get("__slots__") for each in kind.__mro__)
    return is_plain and not hasattr(kind, "__del__") and getattr(kind, "__new__", None) is object.__new__


class _Kinds(NamedTuple):
    usual: dict[type, type]  # the classes of twins by those of torch
    waiting: type
    methods: tuple[Any, ...]


def _methods() -> tuple[Any, ...]:
    """How torch computes convolutions and normalisations."""
    parts = import_torch().nn
    return parts.Conv2d.forward, parts.Conv2d._conv_forward, parts.BatchNorm2d.forward, parts.Module.__call__


@cache
def _kinds() -> _Kinds:
    torch = import_torch()
    conv: Any = torch.nn.Conv2d
    norm: Any = torch.nn.BatchNorm2d

    class Conv2d(conv):  # type: ignore[misc]
        __slots__ = ("job",)

        def forward(self, input: Any) -> Any:  # noqa: A002 - as torch calls it
            here, part = self.job
            return here.convolve(part, input)

    class BatchNorm2d(norm):  # type: ignore[misc]
        __slots__ = ("job",)

        def forward(self, input: Any) -> Any:  # noqa: A002
            here, part = self.job
            return here.normalize(part, input)

    class Waiting:
        """What a convolution computed for its normalisation: whoever else touches it spoils the pass."""

        __slots__ = ("__weakref__", "here")

        def __init__(self, here: FoldedPass) -> None:
            object.__setattr__(self, "here", here)

        def __getattribute__(self, name: str) -> Any:  # also of `isinstance`, and of functions of torch
            object.__getattribute__(self, "here").is_spoilt = True
            raise AttributeError(f"what a folded convolution computed has no {name}")

    def refuse(waiting: Any, *_others: Any) -> Any:
        waiting.anything  # noqa: B018 - raises

    compared = ("eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "repr", "str", "format", "setattr", "reduce_ex")
    for name in {*dir(torch.Tensor), *(f"__{name}__" for name in compared)} - {*dir(object), "__torch_function__"}:
        if name.startswith("__") and callable(getattr(torch.Tensor, name)):
            setattr(Waiting, name, refuse)
    for name in compared:
        setattr(Waiting, f"__{name}__", refuse)
    return _Kinds({conv: Conv2d, norm: BatchNorm2d}, Waiting, _methods())

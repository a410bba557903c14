"""Batch normalisations of a module that are computed by the convolutions before them: memory is read once, not twice.

A convolution is folded when it is called, with the numbers that it and its normalisation have then: no copy of a weight
is kept that its owner could change. Scores differ by rounding alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, TypeVar
from weakref import ref

from holdfast.masking.speed import same_scores
from holdfast.masking.torch import import_torch, notes_of

_Scores = TypeVar("_Scores")

_PASS: ContextVar[_WatchedPass | _FoldedPass | None] = ContextVar("pass", default=None)
"""What computes the convolutions and normalisations of this thread."""

_N_USERS, _CHANGING = Counter[Any](), threading.Lock()
"""How many passes, of all threads, go through each part that is replaced at the moment."""


class Folding:
    """The convolutions of a module that are folded with the batch normalisations after them."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()) -> None:
        self._pairs = [(ref(conv), ref(norm)) for conv, norm in pairs]

    def run(self, work: Callable[..., _Scores], *arguments: Any, folds_all: bool = False) -> _Scores:
        """What ``work`` gives, which calls the module once; folded where that is faster, or everywhere."""
        kinds, pairs = _kinds(), ((conv(), norm()) for conv, norm in self._pairs)
        norms = {c: n for c, n in pairs if _is_untouched(c, kinds.conv) and _is_untouched(n, kinds.norm)}
        if not norms:
            return work(*arguments)
        here = _FoldedPass(norms, folds_all=folds_all)
        with _passing(here, [*norms, *norms.values()]):
            scores = work(*arguments)
        if here.is_whole:
            return scores
        self._pairs = []  # the module took another way than the one that was watched
        return work(*arguments)


def find_folding(module: Any, image: Any, score: Callable[[], Any]) -> Folding:
    """What can be folded for images like this tensor (C, H, W); ``score`` gives scores of two unlike ones.

    Found out once per module: it is watched in one pass, and its scores must be the same in another.
    """
    notes, question = notes_of(module), ("folding", image.shape, image.dtype, image.device.type)
    if question not in notes:
        is_usual = image.device.type == "cpu" and image.dtype == import_torch().float32 and not _is_compiled(module)
        notes[question] = _try_folding(module, score) if is_usual else Folding()
    found: Folding = notes[question]
    return found


def _is_compiled(module: Any) -> bool:
    parts = module.modules()
    return any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None for part in parts)


def _try_folding(module: Any, score: Callable[[], Any]) -> Folding:
    kinds, parts = _kinds(), list(module.modules())
    convs = [part for part in parts if _is_untouched(part, kinds.conv) and part.padding_mode == "zeros"]
    norms = [part for part in parts if _is_untouched(part, kinds.norm) and part.affine and part.track_running_stats]
    if not convs or not norms:
        return Folding()
    watched = _WatchedPass()
    try:
        with _passing(watched, [*convs, *norms]), watched.counting():
            plain = score()
        folding = Folding(watched.pairs)
        return folding if same_scores(folding.run(score, folds_all=True), plain) else Folding()
    except Exception:  # if it has another reason than that it is watched, the call itself raises it
        return Folding()


def _is_untouched(part: Any, usual: type) -> bool:
    """Whether a part is of a usual kind, and nobody trains it or looks at what goes through it."""
    kind = type(part)
    return getattr(kind, "usual", kind) is usual and not (
        part.training or part._forward_hooks or part._forward_pre_hooks
    )


class _WatchedPass:
    """A pass that is computed as ever, and tells which convolution goes to which normalisation."""

    def __init__(self) -> None:
        # By the id of a tensor, which is kept.
        self._made, self._taken = dict[int, tuple[Any, Any]](), list[tuple[int, Any]]()
        self._n_uses, self._n_calls = Counter[int](), Counter[Any]()

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """Each convolution with the normalisation to which alone its output goes, both called once."""
        pairs = [(self._made[key][0], norm) for key, norm in self._taken if self._n_uses[key] == 1]
        return [pair for pair in pairs if all(self._n_calls[part] == 1 for part in pair)]

    def convolve(self, conv: Any, images: Any) -> Any:
        output = _kinds().conv.forward(conv, images)
        self._n_calls[conv] += 1
        self._made[id(output)] = conv, output
        return output

    def normalize(self, norm: Any, images: Any) -> Any:
        self._n_calls[norm] += 1
        if id(images) in self._made:
            self._taken.append((id(images), norm))
        return _kinds().norm.forward(norm, images)

    def counting(self) -> Any:
        """Inside, each use of what a convolution made is counted, by any operation of torch."""
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        mode: Any = TorchDispatchMode
        n_uses, made = self._n_uses, self._made

        class Counting(mode):  # type: ignore[misc]
            def __torch_dispatch__(self, operation: Any, _types: Any, args: Any = (), fields: Any = None) -> Any:
                n_uses.update(id(value) for value in tree_leaves((args, fields)) if id(value) in made)
                return operation(*args, **(fields or {}))

        return Counting()


class _FoldedPass:
    """A pass in which convolutions compute their normalisation too: ``norms`` has that of each."""

    def __init__(self, norms: dict[Any, Any], *, folds_all: bool) -> None:
        self._norms, self._folds_all = norms, folds_all
        self._waiting: dict[Any, Any] = {}  # what was computed for which normalisation
        self._is_lost = False

    @property
    def is_whole(self) -> bool:
        """Whether all that was computed for a normalisation went there."""
        return not (self._waiting or self._is_lost)

    def convolve(self, conv: Any, images: Any) -> Any:
        norm, weights, bias = self._norms.get(conv), conv._parameters["weight"], conv._parameters["bias"]
        # With large weights and few images, folding would take longer than normalising.
        if norm is None or (images.numel() < weights.numel() and not self._folds_all):
            return _kinds().conv.forward(conv, images)
        learnt, seen = norm._parameters, norm._buffers
        scale = seen["running_var"].add(norm.eps).rsqrt_().mul_(learnt["weight"])
        mean = seen["running_mean"] if bias is None else seen["running_mean"] - bias
        shift = mean.mul(scale).neg_().add_(learnt["bias"])
        steps = conv.stride, conv.padding, conv.dilation, conv.groups
        output = import_torch().conv2d(images, weights * scale.view(-1, 1, 1, 1), shift, *steps)
        self._is_lost |= norm in self._waiting
        self._waiting[norm] = output
        return output

    def normalize(self, norm: Any, images: Any) -> Any:
        computed = self._waiting.pop(norm, None)
        if computed is None:
            return _kinds().norm.forward(norm, images)
        self._is_lost |= computed is not images
        return images


@contextmanager
def _passing(here: _WatchedPass | _FoldedPass, parts: list[Any]) -> Iterator[None]:
    """Inside, a pass computes these parts in this thread; in any other they work as ever."""
    token = _PASS.set(here)
    with _CHANGING:
        for part in parts:
            if not _N_USERS[part]:
                object.__setattr__(part, "__class__", _kinds().folding[type(part)])  # a module's own way takes longer
            _N_USERS[part] += 1
    try:
        yield
    finally:
        with _CHANGING:
            for part in parts:
                _N_USERS[part] -= 1
                if not _N_USERS[part]:
                    del _N_USERS[part]
                    object.__setattr__(part, "__class__", type(part).usual)
        _PASS.reset(token)


class _Kinds(NamedTuple):
    """The usual kinds of convolutions and normalisations, and for each the kind that asks the pass of its thread."""

    conv: Any
    norm: Any
    folding: dict[Any, Any]


@cache
def _kinds() -> _Kinds:
    torch = import_torch()
    conv: Any = torch.nn.Conv2d
    norm: Any = torch.nn.BatchNorm2d
    is_compiling = torch.compiler.is_compiling

    class FoldingConv(conv):  # type: ignore[misc]
        usual = conv

        def forward(self, images: Any) -> Any:
            here = None if is_compiling() else _PASS.get()
            return conv.forward(self, images) if here is None else here.convolve(self, images)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return object.__new__, (conv,), *super().__reduce_ex__(protocol)[2:]  # copies are usual

    class FoldingNorm(norm):  # type: ignore[misc]
        usual = norm

        def forward(self, images: Any) -> Any:
            here = None if is_compiling() else _PASS.get()
            return norm.forward(self, images) if here is None else here.normalize(self, images)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return object.__new__, (norm,), *super().__reduce_ex__(protocol)[2:]  # copies are usual

    return _Kinds(conv, norm, {conv: FoldingConv, norm: FoldingNorm})

"""Batch normalisations of a module that are computed by the convolutions before them: memory is read once, not twice.

A convolution is folded when it is called, with the numbers that it and its normalisation have then. Until its
normalisation comes, its output is out of reach: whatever else wants it fails, and the module is run as it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from holdfast.masking.speed import same_scores
from holdfast.masking.torch import evaluating_module, import_torch, notes_of
from holdfast.randomness import stream

_Scores = TypeVar("_Scores")

_PASS: ContextVar[_Pass | None] = ContextVar("pass", default=None)
"""What computes the convolutions and normalisations of this thread."""

_UNDER_WAY, _CHANGING = list[tuple[Any, ...]](), threading.Lock()
"""The parts whose class is changed at the moment, by the passes of all threads."""


class Folding:
    """The convolutions of a module that are folded with the batch normalisations after them."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()) -> None:
        self._pairs = [(ref(conv), ref(norm)) for conv, norm in pairs]

    def run(self, work: Callable[..., _Scores], *arguments: Any) -> _Scores:
        """What ``work`` gives, which calls the module once."""
        norms = {conv: norm for c, n in self._pairs if _can_fold(conv := c(), norm := n())}
        if not norms or _is_watched_by_all():
            return work(*arguments)
        here = _FoldedPass(norms)
        with suppress(Exception):  # what the module itself raises comes again
            scores = _run_pass(here, norms, norms.values(), work, *arguments)
            if here.is_over:
                return scores
        scores = work(*arguments)
        self._pairs = []  # the module takes another way than the one that was watched
        return scores


def find_folding(module: Any, image: Any, score: Callable[[Any], Any]) -> Folding:
    """What can be folded for images like this tensor (C, H, W); ``score`` gives scores of images (b, C, H, W).

    Found out once per module, by two passes of two images of noise: one that is watched, and one that is folded.
    """
    torch, notes = import_torch(), notes_of(module)
    question = "folding", image.shape, image.dtype, image.device.type
    if question not in notes:
        is_usual = image.device.type == "cpu" and image.dtype == torch.float32 and not _is_compiled(module)
        notes[question] = _try_folding(module, image, score) if is_usual else Folding()
    found: Folding = notes[question]
    return found


def _is_compiled(module: Any) -> bool:
    parts = list(module.modules())
    methods = (
        method for kind in {kind for part in parts for kind in type(part).__mro__} for method in vars(kind).values()
    )
    marks = (hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None for part in parts)
    return any(marks) or any(hasattr(method, "_torchdynamo_orig_callable") for method in methods)


def _try_folding(module: Any, image: Any, score: Callable[[Any], Any]) -> Folding:
    convs, norms = ([part for part in module.modules() if _is_usual(part, kind)] for kind in _kinds())
    if not convs or not norms:
        return Folding()
    noise = stream(0, "folding").standard_normal((2, *image.shape), dtype=np.float32)
    images, watched = import_torch().from_numpy(noise), _WatchedPass()
    try:
        with evaluating_module(module, device=image.device):
            plain = _run_pass(watched, convs, norms, score, images)
        with evaluating_module(module, device=image.device):
            folding = Folding(watched.pairs.items())
            return folding if same_scores(folding.run(score, images), plain) else Folding()
    except Exception:  # the module does not take noise
        return Folding()


def _can_fold(conv: Any, norm: Any) -> bool:
    """Whether both are still as torch has them: nobody trains, changed or looks into them."""
    of_convs, of_norms = _kinds()
    return (
        _is_usual(conv, of_convs)
        and _is_usual(norm, of_norms)
        and not (conv._forward_hooks or conv._forward_pre_hooks or norm._forward_hooks or norm._forward_pre_hooks)
        and not norm.training
        and conv.padding_mode == "zeros"
        and "_conv_forward" not in vars(conv)
    )


def _is_usual(part: Any, kind: Any) -> bool:
    return type(part) is kind.usual or type(part) is kind  # in the pass of another thread


def _is_watched_by_all() -> bool:
    """Whether somebody looks into every module there is."""
    own = import_torch().nn.modules.module
    return bool(own._global_forward_hooks or own._global_forward_pre_hooks)


class _WatchedPass:
    """A pass that is computed as ever, and tells which convolution goes to which normalisation."""

    def __init__(self) -> None:
        self.pairs, self._made = dict[Any, Any](), dict[int, tuple[Any, Any]]()  # by its id, who made which tensor

    def convolve(self, conv: Any, images: Any) -> Any:
        output = _as_ever(conv, images)
        self._made[id(output)] = conv, ref(output)
        return output

    def normalize(self, norm: Any, images: Any) -> Any:
        conv, output = self._made.get(id(images), (None, lambda: None))
        if output() is images:
            self.pairs[conv] = norm
        return _as_ever(norm, images)


class _FoldedPass:
    """A pass in which convolutions compute their normalisation too: ``norms`` has that of each."""

    def __init__(self, norms: dict[Any, Any]) -> None:
        self._norms, self._made = norms, list[ref[_Waiting]]()

    @property
    def is_over(self) -> bool:
        """Whether nothing waits any more, in the hands of whoever."""
        return all(waiting() is None for waiting in self._made)

    def convolve(self, conv: Any, images: Any) -> Any:
        torch, norm, own = import_torch(), self._norms.get(conv), conv._parameters
        weights, bias = own["weight"], own["bias"]
        is_costly = images.numel() < weights.numel()  # to fold would take longer than to normalise
        if norm is None or is_costly or torch.is_autocast_enabled("cpu"):
            return _as_ever(conv, images)
        learnt, seen = norm._parameters, norm._buffers
        scale = seen["running_var"].add(norm.eps).rsqrt_().mul_(learnt["weight"])
        mean = seen["running_mean"] if bias is None else seen["running_mean"] - bias
        shift = torch.addcmul(learnt["bias"], mean, scale, value=-1)
        steps = conv.stride, conv.padding, conv.dilation, conv.groups
        waiting = _Waiting(norm, torch.conv2d(images, weights * scale.view(-1, 1, 1, 1), shift, *steps))
        self._made.append(ref(waiting))
        return waiting

    def normalize(self, norm: Any, images: Any) -> Any:
        return images.taken_by(norm) if isinstance(images, _Waiting) else _as_ever(norm, images)


_Pass = _WatchedPass | _FoldedPass


class _Waiting:
    """What a convolution computed for its normalisation, and for nobody else."""

    def __init__(self, norm: Any, output: Any) -> None:
        self._norm, self._output = norm, output

    def taken_by(self, norm: Any) -> Any:
        """The output, once."""
        if norm is not self._norm:
            raise TypeError("another normalisation came")
        output, self._norm = self._output, None
        return output


def _run_pass(
    here: _Pass, convs: Iterable[Any], norms: Iterable[Any], work: Callable[..., _Scores], *arguments: Any
) -> _Scores:
    """What ``work`` gives, while a pass computes these parts in this thread; in any other they compute as ever."""
    parts, token = (*convs, *norms), _PASS.set(here)
    try:
        with _CHANGING:
            _UNDER_WAY.append(parts)
            for kind, some in zip(_kinds(), (convs, norms), strict=True):
                for part in some:
                    object.__setattr__(part, "__class__", kind)  # the way of a module itself takes longer
        return work(*arguments)
    finally:
        _PASS.reset(token)
        with _CHANGING:
            _UNDER_WAY[:] = [others for others in _UNDER_WAY if others is not parts]
            in_use = {part for others in _UNDER_WAY for part in others}
            _restore(parts if not in_use else [part for part in parts if part not in in_use])


def _restore(parts: Iterable[Any]) -> None:
    kinds = _kinds()
    for part in parts:
        kind = type(part)
        if kind in kinds:  # nobody changed it meanwhile
            object.__setattr__(part, "__class__", kind.usual)


def _restore_all() -> None:
    """In a process that was forked, threads whose passes were under way are no more."""
    global _CHANGING
    _CHANGING = threading.Lock()
    _restore(part for parts in _UNDER_WAY for part in parts)
    _UNDER_WAY.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore_all)


def _as_ever(part: Any, images: Any) -> Any:
    return type(part).usual.forward(part, images)


@cache
def _kinds() -> tuple[Any, Any]:
    """The kinds of convolutions and of normalisations that ask the pass of their thread."""
    torch = import_torch()
    conv: Any = torch.nn.Conv2d
    norm: Any = torch.nn.BatchNorm2d
    is_compiling = torch.compiler.is_compiling

    class Conv2d(conv):  # type: ignore[misc]
        usual = conv

        def forward(self, input: Any) -> Any:  # noqa: A002 - as torch calls it
            here = None if is_compiling() else _PASS.get()
            return conv.forward(self, input) if here is None else here.convolve(self, input)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return _as_usual(conv, super().__reduce_ex__(protocol))

    class BatchNorm2d(norm):  # type: ignore[misc]
        usual = norm

        def forward(self, input: Any) -> Any:  # noqa: A002
            here = None if is_compiling() else _PASS.get()
            return norm.forward(self, input) if here is None else here.normalize(self, input)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return _as_usual(norm, super().__reduce_ex__(protocol))

    return Conv2d, BatchNorm2d


def _as_usual(usual: Any, reduced: Any) -> Any:
    """What makes a copy or a pickle, of the usual kind: another thread may want one meanwhile."""
    return object.__new__, (usual,), *reduced[2:]

"""Batch normalisations of a module that are computed by the convolutions before them: memory is read once, not twice.

A convolution is folded when it is called, with the numbers that it and its normalisation have then: no copy of a weight
is kept that its owner could change. Scores differ by rounding alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar
from weakref import ref

from holdfast.masking.speed import same_scores
from holdfast.masking.torch import import_torch, notes_of

_Scores = TypeVar("_Scores")

_IN_USE = threading.Lock()
"""Held while parts of a module are replaced; whoever comes meanwhile computes them as they are."""

_PASS: ContextVar[Pass | None] = ContextVar("pass", default=None)


class Pass:
    """A pass through a module: the normalisation of each convolution, and what waits for which normalisation."""

    def __init__(self, norms: dict[Any, Any], *, folds_all: bool) -> None:
        self.norms, self.folds_all = norms, folds_all
        self.waiting: dict[Any, Any] = {}
        self.went_astray = False

    @property
    def is_whole(self) -> bool:
        """Whether every convolution that was folded was followed by its normalisation."""
        return not self.waiting and not self.went_astray


class Folding:
    """The convolutions of a module that are folded with the batch normalisations after them."""

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self._pairs = [(ref(conv), ref(norm)) for conv, norm in pairs]

    def run(self, work: Callable[..., _Scores], *arguments: Any, folds_all: bool = False) -> _Scores:
        """What ``work`` gives, which calls the module once; folded where that is faster, or everywhere."""
        if not self._pairs or not _IN_USE.acquire(blocking=False):
            return work(*arguments)
        try:
            norms = {conv: norm for c, n in self._pairs if _is_plain(conv := c(), 0) and _is_plain(norm := n(), 1)}
            here = Pass(norms, folds_all=folds_all)
            with _replaced(here):
                scores = work(*arguments)
        finally:
            _IN_USE.release()
        if here.is_whole:
            return scores
        self._pairs = []  # the module takes another way than the one that was watched
        return work(*arguments)


def find_folding(module: Any, image: Any, score: Callable[[], Any]) -> Folding:
    """What can be folded for images like this tensor (C, H, W); ``score`` gives scores of two unlike ones.

    Found out once per module: it is watched in one pass, and its scores must be the same in another.
    """
    torch, notes = import_torch(), notes_of(module)
    question = "folding", image.shape, image.dtype, image.device.type
    if question not in notes:
        notes[question] = Folding([])
        if image.device.type == "cpu" and image.dtype == torch.float32 and not _is_compiled(module):
            plain, pairs = _watch(module, score)
            folding = Folding(pairs)
            if pairs and same_scores(folding.run(score, folds_all=True), plain):
                notes[question] = folding
    found: Folding = notes[question]
    return found


def _is_compiled(module: Any) -> bool:
    parts = module.modules()
    return any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None for part in parts)


def _is_plain(part: Any, place: int) -> bool:
    """Whether a part is still a convolution, or a normalisation, that nobody watches or has changed."""
    kind = _kinds()[place][0]
    return type(part) is kind and not (part.training or part._forward_hooks or part._forward_pre_hooks)


def _watch(module: Any, score: Callable[[], Any]) -> tuple[Any, list[tuple[Any, Any]]]:
    """Scores, and each convolution whose output is used by one batch normalisation and by nothing else."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    made, taken = dict[int, tuple[Any, Any]](), list[tuple[Any, int]]()  # by the id of a tensor, which is kept
    uses, calls = Counter[int](), Counter[Any]()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, operation: Any, _types: Any, args: Any = (), fields: Any = None) -> Any:
            uses.update(id(value) for value in tree_leaves((args, fields)) if id(value) in made)
            return operation(*args, **(fields or {}))

    def after(part: Any, inputs: Any, output: Any) -> None:
        calls[part] += 1
        if isinstance(part, torch.nn.Conv2d):
            made[id(output)] = part, output
        elif id(inputs[0]) in made:
            taken.append((part, id(inputs[0])))

    torch = import_torch()
    parts = [part for part in module.modules() if _is_plain(part, 0) or _is_plain(part, 1)]
    hooks = [part.register_forward_hook(after) for part in parts if _can_fold(part)]
    try:
        with Watch():
            scores = score()
    finally:
        for hook in hooks:
            hook.remove()
    pairs = [(made[key][0], norm) for norm, key in taken if uses[key] == 1]
    return scores, [(conv, norm) for conv, norm in pairs if calls[conv] == calls[norm] == 1]


def _can_fold(part: Any) -> bool:
    if isinstance(part, import_torch().nn.Conv2d):
        return bool(part.padding_mode == "zeros")
    return part.weight is not None and part.running_mean is not None


@contextmanager
def _replaced(here: Pass) -> Iterator[None]:
    """Inside, the parts of a pass are of the kinds that fold, in this thread; of the old kinds in any other."""
    parts = [(part, kinds) for pair in here.norms.items() for part, kinds in zip(pair, _kinds(), strict=True)]
    token = _PASS.set(here)
    try:
        for part, (_, folding) in parts:
            object.__setattr__(part, "__class__", folding)  # a module's own way takes longer
        yield
    finally:
        for part, (usual, _) in parts:
            object.__setattr__(part, "__class__", usual)
        _PASS.reset(token)


@cache
def _kinds() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Of convolutions and of normalisations, the usual kind and the one that folds."""
    torch = import_torch()
    convolution: Any = torch.nn.Conv2d
    normalization: Any = torch.nn.BatchNorm2d

    class FoldingConv(convolution):  # type: ignore[misc]
        def forward(self, images: Any) -> Any:
            here = None if torch.compiler.is_compiling() else _PASS.get()
            norm = None if here is None else here.norms.get(self)
            own = self._parameters
            weights, bias = own["weight"], own["bias"]
            # Of a small batch, folding large weights takes longer than normalising.
            if here is None or norm is None or (images.numel() < weights.numel() and not here.folds_all):
                return convolution.forward(self, images)
            learnt, seen = norm._parameters, norm._buffers
            scale = seen["running_var"].add(norm.eps).rsqrt_().mul_(learnt["weight"])
            mean = seen["running_mean"] if bias is None else seen["running_mean"] - bias
            shift = torch.addcmul(learnt["bias"], mean, scale, value=-1)
            steps = self.stride, self.padding, self.dilation, self.groups
            output = torch.conv2d(images, weights * scale.view(-1, 1, 1, 1), shift, *steps)
            here.went_astray |= norm in here.waiting
            here.waiting[norm] = output
            return output

        def __reduce_ex__(self, protocol: Any) -> Any:
            return _as_usual(convolution, super().__reduce_ex__(protocol))

    class FoldingNorm(normalization):  # type: ignore[misc]
        def forward(self, images: Any) -> Any:
            here = None if torch.compiler.is_compiling() else _PASS.get()
            folded = None if here is None else here.waiting.pop(self, None)
            if here is None or folded is None:
                return normalization.forward(self, images)
            here.went_astray |= folded is not images
            return images

        def __reduce_ex__(self, protocol: Any) -> Any:
            return _as_usual(normalization, super().__reduce_ex__(protocol))

    return (convolution, FoldingConv), (normalization, FoldingNorm)


def _as_usual(kind: Any, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """What copies and pickles a part, as of its usual kind: another thread may copy the module meanwhile."""
    make, (_, *arguments), *rest = reduced
    return make, (kind, *arguments), *rest

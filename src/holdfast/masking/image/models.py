"""An image, its baseline and its features, bound to a classifier: masked batches → scores.

What ``mask_image`` returns; how it gets there from what a user has is in ``mask_image.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError, ModelError
from holdfast.fingerprints import function_key
from holdfast.masking.image.folding import call_folded
from holdfast.masking.image.patches import PatchDrop, bind_patches, patch_grid, score_shown_patches
from holdfast.masking.image.pixels import Groups, Pixels
from holdfast.masking.onnx import ImageSession
from holdfast.masking.speed import (
    Acceleration,
    BatchProbe,
    Runner,
    batch_probe,
    call_meter,
    first_images,
    layout_probe,
    work_clock,
)
from holdfast.masking.torch import (
    Network,
    attention_weights,
    evaluating_module,
    forward_parameters,
    import_torch,
    lacks_attention,
    score_tensor,
    to_device,
    to_numpy,
    twin_of,
)
from holdfast.outputs import answers_of, combine_outputs, split_rows
from holdfast.prices import CallMeter
from holdfast.terminal import Bound
from holdfast.types import Masks, Outputs, Provenance
from holdfast.validation import check_masks, check_whole


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageModel(Bound, ABC):
    """An image that was bound to a classifier: a ``MaskedModel``.

    ``elements`` (H, W, C) is the image as the classifier sees it, ``baseline`` the same with every feature hidden, both
    read-only copies; ``groups`` (H, W) has the feature of each pixel, or -1. ``batch_size`` is most masks per call,
    unless the caller of the evaluation says otherwise. With ``finds_batch_size``, calls that are made anyway find out
    which number of masks per call, and which layout of images, is fastest.
    """

    elements: Pixels
    baseline: Pixels
    groups: Groups
    batch_size: int
    finds_batch_size: bool = False
    softmax: bool
    provenance: Provenance
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("elements", "baseline"):
            values = np.array(getattr(self, name), order="C")
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @property
    def batch_probe(self) -> BatchProbe | None:
        """What finds the number of masks per call, if anything does."""
        return None

    @cached_property
    def n_features(self) -> int:
        return int(self.groups.max()) + 1

    def __call__(self, masks: Masks, /) -> Outputs:
        """Scores (b, n_classes) of the image under masks (b, n_features)."""
        return self._score(check_masks(masks, self.n_features))

    @abstractmethod
    def _score(self, masks: Masks) -> Outputs: ...

    @abstractmethod
    def score_images(self, images: Pixels) -> Outputs:
        """Scores (b, n_classes) of other images (b, H, W, C), as the classifier sees them."""
        ...

    @property
    def join_key(self) -> Hashable | None:
        """What images have in common that can be computed together: classifier, shape and options."""
        key = self._classifier_key
        return None if key is None else (type(self), key, self.elements.shape, self.elements.dtype, self.softmax)

    @property
    @abstractmethod
    def _classifier_key(self) -> Hashable | None: ...

    @abstractmethod
    def score_jointly(self, parts: Sequence[tuple[Any, Masks]], /) -> list[Outputs]:
        """Scores of images of one ``join_key``, each under masks of its own, in one call."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ModuleImageModel(ImageModel):
    """An image bound to a torch module; also ``Differentiable`` and ``Inspectable``.

    With ``patches``, hidden patches are removed from the sequence of a vision transformer, which no
    pixels can express: ``baseline`` is then the customary stand-in, and gradients are those of pixels.
    """

    runner: Runner
    batches: TensorBatches
    patches: PatchDrop | None = None

    @property
    def module(self) -> Any:
        """The torch module."""
        return self.runner.module

    @property
    def batch_probe(self) -> BatchProbe | None:
        """What finds the number of masks per call on a CPU, unless the caller has given one."""
        if not self.finds_batch_size or self.batches.device.type != "cpu":
            return None
        shape = self.elements.shape
        return batch_probe(self.module, shape, self.patches is None, first=first_images(shape), clock=work_clock)

    @property
    def row_costs(self) -> Callable[[Masks], NDArray[Any]] | None:
        """Counts the patches of each row that may be hidden, if hidden ones are left out."""
        if self.patches is None:
            return None
        n_patches = np.bincount(self.patches.features[self.patches.features >= 0], minlength=self.n_features)
        return lambda masks: masks @ n_patches

    @property
    def call_meter(self) -> CallMeter | None:
        """What finds out what a call takes, unless the caller has given a batch size."""
        if not self.finds_batch_size:
            return None
        return call_meter(self.module, self.batches.device, self.elements.shape, self.patches is None)

    def without_probes(self) -> ModuleImageModel:
        """The same without a search for the layout and the batch size: scores round alike in every run."""
        return replace(self, finds_batch_size=False)

    def without_hidden_patches(self) -> ModuleImageModel:
        """The same with hidden patches removed from the sequence, if the module is a vision transformer."""
        with self._evaluating():
            patches = bind_patches(self.module, self._call, self.batches.image, self.groups)
        return replace(self, patches=patches)

    def gradient(self, points: NDArray[Any], target: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (b, n_classes) at points (b, H, W, C), and the gradient (b, H, W, C) of the target's score."""
        column, array = check_whole(target, "target"), np.asarray(points)
        if array.shape[1:] != self.elements.shape:
            raise InvalidValueError(argument="points", must=f"have shape (b, *{self.elements.shape})", got=array.shape)
        with self._evaluating(gradients=True):
            batch = self.batches.tensor(array.transpose(0, 3, 1, 2)).requires_grad_()
            scores = self._scores_of(batch, self.runner.differentiable)
            if scores.ndim != 2 or column >= scores.shape[1]:
                must = f"be a column of scores {tuple(scores.shape)}"
                raise InvalidValueError(argument="target", must=must, got=column)
            if not scores.requires_grad:
                raise ModelError("The module's scores have no gradient: it detaches its input or disables gradients.")
            (slope,) = import_torch().autograd.grad(scores[:, column].sum(), batch)
        return to_numpy(scores).copy(), to_numpy(slope.permute(0, 2, 3, 1)).copy()

    def lacks(self, need: str) -> str | None:
        """Why the module has no "activations" or "attentions"; None if it has."""
        if need == "attentions":
            return lacks_attention(self.module)
        if need == "activations" and not _convolutions(self.module):
            return f"{type(self.module).__name__}, which has no convolution with overlapping windows"
        return None

    def network(self) -> Network:
        """The module on the image as a module on tensors (b, C, H, W)."""
        twin, hidden = twin_of(self.module), self.batches.fresh(np.zeros((1, self.n_features), dtype=bool))
        run = Runner(twin, self.runner.acceleration).differentiable
        score = partial(self._scores_of, run=run)
        return Network.of(twin, score, shown=self.batches.image[None], hidden=hidden, groups=self.groups[None, None])

    def activations(self, layer: str | None, target: int) -> tuple[str, NDArray[Any], NDArray[Any]]:
        """The name of a layer, its output (C, h, w) for the image, and the gradient of the target's score there.

        Without a name it is the last convolution that was computed, of those with more than one place.
        """
        network, seen = self.network(), dict[str, Any]()
        parts = _convolutions(network.module.inner) if layer is None else {str(layer): network.layer(layer)}

        def save(_part: Any, _inputs: Any, output: Any, *, name: str) -> Any:
            if isinstance(output, import_torch().Tensor) and output.ndim == 4 and output[0, 0].numel() > 1:
                seen.pop(name, None)  # the last call counts
                seen[name] = output
                return output.clone()  # what follows may change its input in place
            return None

        for name, part in parts.items():
            part.register_forward_hook(partial(save, name=name))
        with network.running():
            scores = network.module(network.shown.clone().requires_grad_())
            if not seen:
                must = "name a layer with an output (b, C, h, w) larger than 1×1"
                raise InvalidValueError(argument="layer", must=must, got=repr(layer))
            name, maps = list(seen.items())[-1]
            (slope,) = import_torch().autograd.grad(scores[0, target], maps, allow_unused=True)
        if slope is None:
            raise InvalidValueError(argument="layer", must="be a layer that the scores depend on", got=repr(name))
        return name, to_numpy(maps[0]), to_numpy(slope[0])

    def attentions(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Attention (n_layers, n_heads, T, T), and the share of each token's pixels in each feature (T, n_features).

        The last tokens of the sequence are the patches in reading order; those before them have no pixels.
        """
        network = self.network()
        run = partial(self._call, Runner(network.module.inner, self.runner.acceleration).differentiable, network.shown)
        with network.running():
            weights = attention_weights(network.module.inner, run)
        rows, columns = patch_grid(self.module, self.groups.shape, "'attention_rollout'")
        n_patches, n_tokens = rows * columns, weights.shape[-1]
        if n_tokens <= n_patches:
            message = f"a class token before its {n_patches} patches; this one has {n_tokens} tokens in all"
            raise ModelError(f"'attention_rollout' needs a vision transformer with {message}.")
        height, width = self.groups.shape[0] // rows, self.groups.shape[1] // columns
        patches = np.arange(n_patches).reshape(rows, columns).repeat(height, axis=0).repeat(width, axis=1)
        inside, shares = self.groups >= 0, np.zeros((n_tokens, self.n_features))
        np.add.at(shares, (patches[inside] + n_tokens - n_patches, self.groups[inside]), 1 / (height * width))
        return weights, shares

    def _score(self, masks: Masks) -> Outputs:
        def run(channels_last: bool) -> Outputs:
            return self.batches.scored(masks, self._scores_now, channels_last=channels_last)

        with self._evaluating():
            if self.patches is not None:
                return to_numpy(self.patches.scores(self._scores_of, masks))
            return self._in_layout(len(masks), run)

    @property
    def _classifier_key(self) -> Hashable:
        batches = self.batches
        return self.module, self.runner.acceleration, batches.device, batches.dtype, self.patches is None

    def score_jointly(self, parts: Sequence[tuple[ModuleImageModel, Masks]], /) -> list[Outputs]:
        """Scores of images of one ``join_key``, each under masks of its own, in one call."""
        lengths = [len(masks) for _, masks in parts]

        def run(channels_last: bool) -> Outputs:
            batches = [(model.batches, masks) for model, masks in parts]
            return self._scores_now(join_batches(batches, channels_last=channels_last))

        with self._evaluating():
            dropped = [(model.patches, masks) for model, masks in parts if model.patches is not None]
            if dropped:
                scores = to_numpy(score_shown_patches(self._scores_of, dropped))
            else:
                scores = self._in_layout(sum(lengths), run)
        return split_rows(scores, lengths)

    def _in_layout(self, n_rows: int, run: Callable[[bool], Outputs]) -> Outputs:
        """A batch in the fastest layout; where a batch size is given, in one that does not depend on the clock."""
        if self.runner.acceleration.backend is not None:  # compilers choose layouts themselves
            return run(False)
        probe = layout_probe(self.module, self.batches.image)
        return np.asarray((probe.run if self.finds_batch_size else probe.run_untimed)(n_rows, run))

    def _scores_now(self, batch: Any) -> Outputs:
        """Scores of a batch that is overwritten by the next one; a module may return a view of it."""
        is_plain = self.runner.acceleration == Acceleration()  # compilers fold by themselves
        return to_numpy(self._scores_of(batch, partial(call_folded, self.module) if is_plain else None)).copy()

    def score_images(self, images: Pixels) -> Outputs:
        with self._evaluating():
            return self._scores_now(self.batches.tensor(images.transpose(0, 3, 1, 2)))

    def _evaluating(self, *, gradients: bool = False) -> AbstractContextManager[None]:
        """Evaluation mode; torch's generators stay as they were, whatever the module draws."""
        return evaluating_module(self.module, gradients=gradients, device=self.batches.device)

    def _call(self, run: Callable[..., Any], batch: Any, **fields: Any) -> Any:
        """Run the module on images in the way its ``forward`` wants them."""
        return run(pixel_values=batch, **fields) if self._takes_names else run(batch, **fields)

    @cached_property
    def _takes_names(self) -> bool:
        return "pixel_values" in forward_parameters(self.module)

    def _scores_of(self, batch: Any, run: Callable[..., Any] | None = None, **fields: Any) -> Any:
        try:
            output = self._call(self.runner if run is None else run, batch, **fields)
        except RuntimeError as error:
            if "channels" not in str(error):  # torch says it in words alone
                raise
            statement = f"must have the number of channels that the model takes, got {self.elements.shape[2]}: {error}"
            raise InvalidValueError(statement, argument="image") from error
        return score_tensor(output, softmax=self.softmax)


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorImageModel(ImageModel):
    """An image bound to a function of torch batches (b, C, H, W)."""

    function: Callable[[Any], Any]
    batches: TensorBatches

    @property
    def _classifier_key(self) -> Hashable | None:
        key = function_key(self.function)
        return None if key is None else (key, self.batches.device, self.batches.dtype)

    def score_jointly(self, parts: Sequence[tuple[TensorImageModel, Masks]], /) -> list[Outputs]:
        """Scores of images of one ``join_key``, each under masks of its own, in one call."""
        batch = join_batches([(model.batches, masks) for model, masks in parts])
        return split_rows(self._scores_of(batch), [len(masks) for _, masks in parts])

    def _score(self, masks: Masks) -> Outputs:
        return self._scores_of(self.batches.fresh(masks))

    def score_images(self, images: Pixels) -> Outputs:
        return self._scores_of(self.batches.tensor(images.transpose(0, 3, 1, 2)))

    def _scores_of(self, batch: Any) -> Outputs:
        with import_torch().no_grad():
            output = self.function(batch)
            if isinstance(output, (np.ndarray, list)):
                return _maybe_probabilities(answers_of(output), self.softmax)
            return to_numpy(score_tensor(output, softmax=self.softmax)).copy()


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayImageModel(ImageModel):
    """An image bound to a function of NumPy batches, (b, H, W, C) or with channels first."""

    function: Callable[[NDArray[Any]], Any] | ImageSession
    channels_first: bool = False

    @cached_property
    def _planes(self) -> tuple[Pixels, ...]:
        both = (self.elements, self.baseline)
        return tuple(np.ascontiguousarray(p.transpose(2, 0, 1)) for p in both) if self.channels_first else both

    @property
    def batch_probe(self) -> BatchProbe | None:
        """What finds the number of masks per call of an ONNX model, unless the caller or its file gives one."""
        session = self.function
        if not (self.finds_batch_size and isinstance(session, ImageSession) and session.sizes[0] is None):
            return None
        return batch_probe(session.session, self.elements.shape, first=first_images(self.elements.shape))

    @property
    def _classifier_key(self) -> Hashable | None:
        key = function_key(self.function)
        return None if key is None else (key, self.channels_first)

    def score_jointly(self, parts: Sequence[tuple[ArrayImageModel, Masks]], /) -> list[Outputs]:
        """Scores of images of one ``join_key``, each under masks of its own, in one call."""
        batch = np.concatenate([model._batch(masks) for model, masks in parts])
        return split_rows(self._score_batch(batch), [len(masks) for _, masks in parts])

    def _score(self, masks: Masks) -> Outputs:
        return self._score_batch(self._batch(masks))

    def _batch(self, masks: Masks) -> Pixels:
        shown = masks[:, np.maximum(self.groups, 0)] | (self.groups < 0)
        return np.where(shown[:, None] if self.channels_first else shown[..., None], *self._planes)

    def _score_batch(self, batch: Pixels) -> Outputs:
        return _maybe_probabilities(answers_of(self.function(batch)), self.softmax)

    def score_images(self, images: Pixels) -> Outputs:
        batch = np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if self.channels_first else images
        return _maybe_probabilities(answers_of(self.function(batch)), self.softmax)


@dataclass(frozen=True, eq=False)
class ResampledImage(Bound):
    """An image bound to a classifier, whose hidden pixels are those of another image that is drawn.

    ``completed`` shows a mask with the image of each number, of ``baselines`` (m, H, W, C), as the classifier sees
    them; a call gives the mean over all of them. It is a ``Completing`` model.
    """

    image: ImageModel
    baselines: Pixels

    @property
    def n_features(self) -> int:
        return self.image.n_features

    @property
    def n_completions(self) -> int:
        return len(self.baselines)

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.image.classes

    @property
    def provenance(self) -> Provenance:
        return self.image.provenance

    @property
    def batch_size(self) -> int:
        """Most masks per call, each with every other image."""
        return max(1, self.image.batch_size // self.n_completions)

    def pictures(self, masks: Masks, numbers: NDArray[np.int64]) -> Pixels:
        """What the classifier sees, images (b, H, W, C), under masks (b, n_features) with these completions (b,)."""
        groups = self.image.groups
        shown = check_masks(masks, self.n_features)[:, np.maximum(groups, 0)] | (groups < 0)
        return np.where(shown[..., None], self.image.elements, self.baselines[numbers])

    def completed(self, masks: Masks, numbers: NDArray[np.int64], /) -> Outputs:
        """Scores (b, n_classes), or labels (b,), under masks (b, n_features) with completions of these numbers (b,)."""
        return self.image.score_images(self.pictures(masks, numbers))

    def __call__(self, masks: Masks, /) -> Outputs:
        """The mean of the scores, or the most frequent label, over all completions of each mask."""
        masked, numbers = np.divmod(np.arange(len(masks) * self.n_completions), self.n_completions)
        size = self.image.batch_size
        cuts = [slice(start, start + size) for start in range(0, len(masked), size)]
        outputs = np.concatenate([self.completed(np.asarray(masks)[masked[cut]], numbers[cut]) for cut in cuts])
        return combine_outputs(outputs, len(masks))


class TensorBatches:
    """Masked batches (b, C, H, W), built on the device from one copy of the image and a Boolean matrix."""

    def __init__(self, elements: Pixels, baseline: Pixels, groups: Groups, *, device: Any, dtype: Any) -> None:
        self.device, self.dtype = device, dtype
        self.image, self.baseline = (self.tensor(values.transpose(2, 0, 1)) for values in (elements, baseline))
        self._columns, self._is_partial = np.where(groups < 0, groups.max() + 1, groups), bool((groups < 0).any())
        self._flat: dict[bool, tuple[Any, Any, Any]] = {}
        # Per layout, a buffer nobody uses at the moment: taken while in use, so that threads never share one.
        self._spares: dict[bool, list[Any]] = {False: [], True: []}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_flat": {}, "_spares": {False: [], True: []}}

    def tensor(self, values: NDArray[Any]) -> Any:
        """The numbers on the device; cast first, so that float64 never travels."""
        return import_torch().from_numpy(np.array(values, order="C")).to(self.dtype).to(self.device)

    def arrays(self) -> tuple[Pixels, Pixels]:
        """Image and baseline (H, W, C) as they are on the device."""
        return to_numpy(self.image.permute(1, 2, 0)), to_numpy(self.baseline.permute(1, 2, 0))

    def fresh(self, masks: Masks) -> Any:
        """A masked batch that belongs to the caller."""
        return join_batches([(self, masks)])

    def scored(self, masks: Masks, score: Callable[[Any], Outputs], *, channels_last: bool = False) -> Outputs:
        """The scores of a masked batch in a buffer that is taken back afterwards, and dropped after an error."""
        spares = self._spares[channels_last]
        try:
            buffer = spares.pop()
        except IndexError:
            buffer = None
        if buffer is None or len(buffer) < len(masks):
            buffer = self.empty(len(masks), channels_last=channels_last)
        batch = buffer[: len(masks)]
        self.write(masks, batch, channels_last=channels_last)
        scores = score(batch)
        if not spares:
            spares.append(buffer)
        return scores

    def empty(self, n_rows: int, *, channels_last: bool) -> Any:
        """A batch (n_rows, C, H, W) that is to be written."""
        torch = import_torch()
        layout = torch.channels_last if channels_last else torch.contiguous_format
        shape = (n_rows, *self.image.shape)
        return torch.empty(shape, dtype=self.dtype, device=self.device, memory_format=layout)

    def write(self, masks: Masks, batch: Any, *, channels_last: bool) -> None:
        """Write the masked images into a batch (b, C, H, W) of this layout, number by number as they lie in memory."""
        torch, on_cpu, n_bytes = import_torch(), self.device.type == "cpu", self.dtype.itemsize
        whole = getattr(torch, f"int{8 * n_bytes}")
        if channels_last not in self._flat:
            order = (1, 2, 0) if channels_last else (0, 1, 2)
            columns = np.broadcast_to(self._columns, self.image.shape).transpose(order).ravel()
            image, baseline = (values.permute(order).reshape(-1) for values in (self.image, self.baseline))
            if on_cpu:  # the bits that differ, and those of the baseline
                image, baseline = image.view(whole) ^ baseline.view(whole), baseline.view(whole)
            self._flat[channels_last] = columns if on_cpu else to_device(columns, self.device), image, baseline
        columns, image, baseline = self._flat[channels_last]
        if self._is_partial:  # with one more column, always true, for elements that belong to no feature
            masks = np.concatenate([masks, np.ones((len(masks), 1), dtype=bool)], axis=1)
        flat = (batch.permute(0, 2, 3, 1) if channels_last else batch).view(len(masks), image.numel())
        if on_cpu:  # all bits of a number at once, which is faster than to choose between two numbers
            shown = torch.from_numpy((-masks.astype(f"i{n_bytes}")).take(columns, axis=1))
            torch.bitwise_and(shown, image, out=flat.view(whole)).bitwise_xor_(baseline)
        else:
            shown = to_device(masks.copy(), self.device).index_select(1, columns)
            torch.where(shown, image, baseline, out=flat)


def join_batches(parts: Sequence[tuple[TensorBatches, Masks]], *, channels_last: bool = False) -> Any:
    """One batch (b, C, H, W) of images of one shape, each masked by masks of its own."""
    batch, start = parts[0][0].empty(sum(len(masks) for _, masks in parts), channels_last=channels_last), 0
    for batches, masks in parts:
        batches.write(masks, batch[start : start + len(masks)], channels_last=channels_last)
        start += len(masks)
    return batch


def _convolutions(module: Any) -> dict[str, Any]:
    """Layers that are convolutions by name, but for those that cut patches of a transformer or are shortcuts."""
    convolutions, usual = {}, import_torch().nn.Conv2d
    for name, part in module.named_modules():
        window, step = (getattr(part, side, None) for side in ("kernel_size", "stride"))
        has_gaps = isinstance(window, tuple) and isinstance(step, tuple) and max(step) > 1 and max(window) == 1
        cuts = isinstance(window, tuple) and window == step and max(window) > 1
        is_named = "conv" in type(part).__name__.lower() and not any(part.children())
        if (is_named or isinstance(part, usual)) and not (cuts or has_gaps or "patch_embed" in name):
            convolutions[name] = part
    return convolutions


def _maybe_probabilities(outputs: Outputs, softmax: bool) -> Outputs:
    if not softmax:
        return outputs
    if outputs.ndim != 2 or outputs.dtype.kind not in "fiu":
        raise ModelError(f"`softmax` needs scores (b, n_classes); the model returned {outputs.dtype} {outputs.shape}.")
    from scipy.special import softmax as probabilities

    return np.asarray(probabilities(outputs, axis=1))

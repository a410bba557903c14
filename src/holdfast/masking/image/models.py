"""An image, its baseline and its features, bound to a classifier: masked batches → scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError, ModelError
from holdfast.masking.image.groups import Groups
from holdfast.masking.image.patches import PatchDrop, bind_patches
from holdfast.masking.image.pixels import Pixels, is_tensor
from holdfast.masking.onnx import ImageSession
from holdfast.masking.speed import BatchProbe, Runner, batch_probe, layout_probe
from holdfast.masking.torch import evaluating_module, import_torch, score_tensor, takes, to_numpy
from holdfast.outputs import answers_of
from holdfast.types import Masks, Outputs, Provenance
from holdfast.validation import check_masks, check_whole


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageModel(ABC):
    """An image that was bound to a classifier: a ``MaskedModel``.

    Parameters
    ----------
    elements : array (H, W, C)
        The image as the classifier sees it.
    baseline : array (H, W, C)
        The same with every feature hidden.
    groups : intp array (H, W)
        The feature of each pixel, or -1.
    batch_size : int
        Most masks per call, unless the caller of the evaluation says otherwise.
    finds_batch_size : bool
        Whether the number of masks per call, and the layout of images, that are fastest are found out by
        calls that are made anyway.
    softmax : bool
        Whether scores are turned into probabilities.
    provenance : Provenance
        Features and fill in words, and fingerprints.
    """

    elements: Pixels
    baseline: Pixels
    groups: Groups
    batch_size: int
    finds_batch_size: bool = False
    softmax: bool
    provenance: Provenance

    @property
    def batch_probe(self) -> BatchProbe | None:
        """What finds the number of masks per call, if anything does."""
        return None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.groups.max()) + 1

    def __call__(self, masks: Masks, /) -> Outputs:
        """Scores (b, n_classes) of the image under masks (b, n_features)."""
        return self._score(check_masks(masks, self.n_features))

    @abstractmethod
    def _score(self, masks: Masks) -> Outputs: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class ModuleImageModel(ImageModel):
    """An image bound to a torch module; also ``Differentiable``.

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
        return batch_probe(self.module, self.elements.shape, self.patches is None)

    def without_probes(self) -> ModuleImageModel:
        """The same in the usual layout and without a search for the batch size: scores round alike in every run."""
        return replace(self, finds_batch_size=False)

    def _score(self, masks: Masks) -> Outputs:
        with self._evaluating():
            if self.patches is not None:
                return to_numpy(self.patches.scores(self._scores_of, masks))
            # Compilers choose layouts themselves; and a batch size is given for scores that round alike.
            if self.runner.acceleration.backend is not None or not self.finds_batch_size:
                return self._part(masks, False)
            probe = layout_probe(self.module, self.batches.image)
            return np.asarray(probe.run(len(masks), lambda channels_last: self._part(masks, channels_last)))

    def _part(self, masks: Masks, channels_last: bool) -> Outputs:
        with self.batches.reused(masks, channels_last=channels_last) as batch:
            # A module may return a view of its input, which is overwritten by the next batch.
            return to_numpy(self._scores_of(batch)).copy()

    def gradient(self, points: NDArray[Any], target: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (b, n_classes) at points (b, H, W, C), and the gradient (b, H, W, C) of the target's score."""
        torch = import_torch()
        column = check_whole(target, "target")
        with self._evaluating(gradients=True):
            batch = self._points(points).requires_grad_()
            scores = self._scores_of(batch, self.runner.differentiable)
            if scores.ndim != 2 or column >= scores.shape[1]:
                raise InvalidValueError(f"`target` must be a column of scores {tuple(scores.shape)}, got {column}.")
            if not scores.requires_grad:
                raise ModelError("The module's scores have no gradient: it detaches its input or switches them off.")
            (slope,) = torch.autograd.grad(scores[:, column].sum(), batch)
        return to_numpy(scores).copy(), to_numpy(slope.permute(0, 2, 3, 1)).copy()

    def _points(self, points: Any) -> Any:
        array = np.asarray(points)
        if array.shape[1:] != self.elements.shape:
            raise InvalidValueError(f"`points` must have shape (b, *{self.elements.shape}), got {array.shape}.")
        return self.batches.tensor(array.transpose(0, 3, 1, 2))

    @contextmanager
    def _evaluating(self, *, gradients: bool = False) -> Iterator[None]:
        with keeping_generators(self.batches.device), evaluating_module(self.module, gradients=gradients):
            yield

    def _scores_of(self, batch: Any, run: Callable[..., Any] | None = None, **fields: Any) -> Any:
        try:
            output = call_module(self.runner if run is None else run, self.module, batch, **fields)
        except RuntimeError as error:
            if "channels" not in str(error):
                raise
            n_channels = self.elements.shape[2]
            raise InvalidValueError(
                f"`image` must have as many channels as the model takes, got {n_channels}: {error}"
            ) from error
        return _maybe_softmax(score_tensor(output), self.softmax)


def drop_patches(model: ModuleImageModel) -> ModuleImageModel:
    """The same image with hidden patches removed from the sequence, if its module is a vision transformer."""
    with model._evaluating():

        def run(images: Any, **fields: Any) -> Any:
            return call_module(model.module, model.module, images, **fields)

        patches = bind_patches(model.module, run, model.batches.image, model.groups)
    return replace(model, patches=patches)


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorImageModel(ImageModel):
    """An image bound to a function of torch batches (b, C, H, W)."""

    function: Callable[[Any], Any]
    batches: TensorBatches

    def _score(self, masks: Masks) -> Outputs:
        torch = import_torch()
        with torch.no_grad():
            output = self.function(self.batches.fresh(masks))
            if not _holds_tensor(output):
                return _maybe_probabilities(answers_of(output), self.softmax)
            return to_numpy(_maybe_softmax(score_tensor(output), self.softmax)).copy()


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayImageModel(ImageModel):
    """An image bound to a function of NumPy batches, (b, H, W, C) or with channels first."""

    function: Callable[[NDArray[Any]], Any] | ImageSession
    channels_first: bool = False
    _planes: tuple[Pixels, Pixels] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        both = (self.elements, self.baseline)
        planes = tuple(np.ascontiguousarray(p.transpose(2, 0, 1)) for p in both) if self.channels_first else both
        object.__setattr__(self, "_planes", planes)

    @property
    def batch_probe(self) -> BatchProbe | None:
        """What finds the number of masks per call of an ONNX model, unless the caller or its file gives one."""
        session = self.function
        if not (self.finds_batch_size and isinstance(session, ImageSession) and session.sizes[0] is None):
            return None
        return batch_probe(session.session, self.elements.shape)

    def _score(self, masks: Masks) -> Outputs:
        shown = _always_shown(masks)[:, self.groups]
        seen = shown[:, None] if self.channels_first else shown[..., None]
        return _maybe_probabilities(answers_of(self.function(np.where(seen, *self._planes))), self.softmax)


class TensorBatches:
    """Masked batches (b, C, H, W), built on the device from one copy of the image and a Boolean matrix.

    Parameters
    ----------
    elements, baseline : array (H, W, C)
        The image, and the image with everything hidden.
    groups : intp array (H, W)
        The feature of each pixel, or -1.
    device, dtype : torch.device, torch.dtype
        Where and in which number type batches live.
    """

    def __init__(self, elements: Pixels, baseline: Pixels, groups: Groups, *, device: Any, dtype: Any) -> None:
        torch = import_torch()
        self.device, self.dtype = device, dtype
        self.image, self.baseline = (self.tensor(values.transpose(2, 0, 1)) for values in (elements, baseline))
        n_features = int(groups.max()) + 1
        columns = np.where(groups < 0, n_features, groups).ravel()
        self._columns = torch.from_numpy(columns.astype(np.int64)).to(device)
        self._spares = {False: _Spare(), True: _Spare()}

    def tensor(self, values: NDArray[Any]) -> Any:
        """The numbers on the device; cast first, so that float64 never travels."""
        torch = import_torch()
        return torch.from_numpy(np.array(values, order="C")).to(self.dtype).to(self.device)

    def arrays(self) -> tuple[Pixels, Pixels]:
        """Image and baseline (H, W, C) as they are on the device."""
        return to_numpy(self.image.permute(1, 2, 0)), to_numpy(self.baseline.permute(1, 2, 0))

    def fresh(self, masks: Masks) -> Any:
        """A masked batch that belongs to the caller."""
        torch = import_torch()
        return torch.where(self._shown(masks), self.image, self.baseline)

    @contextmanager
    def reused(self, masks: Masks, *, channels_last: bool = False) -> Iterator[Any]:
        """A masked batch in a buffer that is taken back afterwards, and dropped after an error."""
        torch = import_torch()
        spare = self._spares[channels_last]
        buffer = spare.take(len(masks))
        if buffer is None:
            layout = torch.channels_last if channels_last else torch.contiguous_format
            shape = (len(masks), *self.image.shape)
            buffer = torch.empty(shape, dtype=self.dtype, device=self.device, memory_format=layout)
        yield torch.where(self._shown(masks), self.image, self.baseline, out=buffer[: len(masks)])
        spare.put(buffer)

    def _shown(self, masks: Masks) -> Any:
        torch = import_torch()
        matrix = torch.from_numpy(_always_shown(masks)).to(self.device)
        return matrix.index_select(1, self._columns).view(len(masks), 1, *self.image.shape[1:])


class _Spare:
    """A buffer nobody uses at the moment: taken while in use, so that threads never share one."""

    def __init__(self) -> None:
        self._buffers: list[Any] = []

    def __reduce__(self) -> tuple[type[_Spare], tuple[()]]:
        return _Spare, ()

    def take(self, n_rows: int) -> Any | None:
        try:
            buffer = self._buffers.pop()
        except IndexError:
            return None
        return buffer if len(buffer) >= n_rows else None

    def put(self, buffer: Any) -> None:
        if not self._buffers:
            self._buffers.append(buffer)


def _always_shown(masks: Masks) -> Masks:
    """The masks with one more column, always true: what -1 (or n_features) refers to."""
    padded = np.ones((len(masks), masks.shape[1] + 1), dtype=bool)
    padded[:, :-1] = masks
    return padded


def call_module(run: Callable[..., Any], module: Any, batch: Any, **fields: Any) -> Any:
    """Run a module on images in the way its ``forward`` wants them."""
    by_name = takes(module, "pixel_values")
    return run(pixel_values=batch, **fields) if by_name else run(batch, **fields)


def keeping_generators(device: Any) -> AbstractContextManager[None]:
    """Torch's generators on the CPU and on this device as they were, whatever the module draws."""
    forked: AbstractContextManager[None] = import_torch().random.fork_rng(
        devices=[device] if device.type == "cuda" else []
    )
    return forked


def _holds_tensor(output: Any) -> bool:
    return is_tensor(output) or not isinstance(output, (np.ndarray, list))


def _maybe_softmax(scores: Any, softmax: bool) -> Any:
    return import_torch().softmax(scores.float(), dim=-1) if softmax else scores


def _maybe_probabilities(outputs: Outputs, softmax: bool) -> Outputs:
    if not softmax:
        return outputs
    if outputs.ndim != 2 or outputs.dtype.kind not in "fiu":
        raise ModelError(f"`softmax` needs scores (b, n_classes), the model returned {outputs.dtype} {outputs.shape}.")
    from scipy.special import softmax as probabilities

    return np.asarray(probabilities(outputs, axis=1))

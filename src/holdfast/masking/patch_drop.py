"""A vision transformer, an image and masks → scores with the hidden patches removed from its sequence.

The embeddings of patches, positions included, do not depend on a mask: they are computed for one
image, and each row goes on with those of its own patches. Which token belongs to which patch is
found out by changing patches, and that nothing behind the embeddings knows where a token came from
is checked by shuffling them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.buckets import group_by_length
from holdfast.masking.exactness import same_scores
from holdfast.masking.groups import Groups
from holdfast.masking.module_notes import notes_of
from holdfast.masking.torch_support import import_torch, score_tensor
from holdfast.randomness import stream
from holdfast.types import Masks

Forward = Callable[[Any], Any]
"""Images (b, C, H, W) → what the module returns."""

_ALWAYS = -1
_FEW = 8


@dataclass(frozen=True, eq=False)
class PatchDrop:
    """One image whose hidden patches are removed; ``features`` (T,) has the feature of each token, or -1."""

    embeddings: Any
    image: Any
    features: NDArray[np.intp]

    def scores(self, run: Forward, masks: Masks) -> Any:
        """Scores (b, n_classes) of masks (b, n_features); rows with as many tokens go together."""
        torch = import_torch()
        shown = masks[:, np.maximum(self.features, 0)] | (self.features == _ALWAYS)
        if len(shown) == 0:
            return run(self.image[None])[:0]
        groups = group_by_length(shown.sum(axis=1), 0.0)
        parts = [self._part(run, shown[rows]) for rows in groups]
        return torch.cat(parts)[torch.from_numpy(np.concatenate(groups).argsort()).to(self.image.device)]

    def _part(self, run: Forward, shown: NDArray[np.bool_]) -> Any:
        columns = np.nonzero(shown)[1].reshape(len(shown), -1)
        return run_on_tokens(run, self.embeddings, self.image[None], columns)


def bind_patches(module: Any, run: Forward, image: Any, groups: Groups) -> PatchDrop:
    """Remove hidden patches of this tensor (C, H, W), if removing patches has a meaning for the module.

    That is checked once per module and size of image. The module must be in evaluation mode, without
    gradients; ``run`` takes images (b, C, H, W).
    """
    embeddings = _find_embeddings(module)
    grid = patch_grid(module, tuple(image.shape[1:]))
    owners = _features_of_patches(groups, grid)
    notes, question = notes_of(module), ("patches", tuple(image.shape))
    if question not in notes:
        patches = _match_tokens(run, embeddings, image, grid)
        _check_removal(run, embeddings, image, patches)
        notes[question] = patches
    patches = notes[question]
    return PatchDrop(embeddings, image, np.where(patches == _ALWAYS, _ALWAYS, owners[patches]))


def patch_grid(module: Any, size: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a vision transformer's patches in an image of this height and width."""
    cut = _find_embeddings(module).patch_embeddings
    sides = getattr(cut, "patch_size", None) or getattr(getattr(module, "config", None), "patch_size", None) or 0
    height, width = (sides, sides) if isinstance(sides, int) else sides
    if not height or not width or size[0] % height or size[1] % width:
        raise InvalidValueError(
            f"`image` must be whole patches of {height}×{width} pixels for `fill='drop'`, got {size[0]}×{size[1]}."
        )
    return size[0] // height, size[1] // width


def _features_of_patches(groups: Groups, grid: tuple[int, int]) -> NDArray[np.intp]:
    """The feature of each patch in reading order, or -1; every feature must be a union of whole patches."""
    rows, cols = grid
    height, width = groups.shape[0] // rows, groups.shape[1] // cols
    cells = groups.reshape(rows, height, cols, width).swapaxes(1, 2).reshape(rows * cols, height * width)
    torn = np.flatnonzero((cells != cells[:, :1]).any(axis=1))
    if len(torn):
        row, col = divmod(int(torn[0]), cols)
        raise InvalidValueError(
            f"`groups` must be unions of the model's patches of {height}×{width} pixels for `fill='drop'`, but the "
            f"patch in row {row}, column {col} belongs to several features. Use `groups=({rows}, {cols})`."
        )
    return cells[:, 0]


def run_on_tokens(run: Forward, embeddings: Any, image: Any, columns: NDArray[np.intp]) -> Any:
    """Run one image (1, C, H, W), going on behind the embeddings with tokens (b, K) of it, as b rows."""
    torch = import_torch()
    wanted = torch.from_numpy(columns).to(image.device)
    with _replacing(embeddings, lambda tokens: tokens[0][wanted]) as seen:
        output = run(image)
    if len(seen) != 1:
        raise ModelError(f"The module must compute its embeddings once per call, it did {len(seen)} times.")
    return output


@contextmanager
def _replacing(embeddings: Any, replace: Callable[[Any], Any]) -> Iterator[list[Any]]:
    """Replace what the embeddings give, for calls of this thread only; collects what they gave."""
    seen: list[Any] = []
    own = threading.get_ident()

    def hook(_module: Any, _inputs: Any, output: Any) -> Any:
        if threading.get_ident() != own:
            return output
        if not isinstance(output, import_torch().Tensor) or output.ndim != 3:
            raise InvalidTypeError(_unsupported("its embeddings are no sequence of tokens"))
        seen.append(output)
        return replace(output)

    handle = embeddings.register_forward_hook(hook)
    try:
        yield seen
    finally:
        handle.remove()


def _find_embeddings(module: Any) -> Any:
    """The part that turns pixels into tokens, as the vision transformers of Transformers have it."""
    torch = import_torch()
    if any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) for part in module.modules()):
        raise InvalidTypeError("`classifier` must not be compiled for `fill='drop'`. Pass the module as it was before.")
    parts = (part for part in module.modules() if isinstance(getattr(part, "patch_embeddings", None), torch.nn.Module))
    found = next(parts, None)
    if found is None:
        raise InvalidTypeError(_unsupported("it has no part with `patch_embeddings`"))
    return found


def _match_tokens(run: Forward, embeddings: Any, image: Any, grid: tuple[int, int]) -> NDArray[np.intp]:
    """The patch of each token, or -1: in image k, those patches p are changed of which p + 1 has bit k."""
    numbers = np.arange(1, grid[0] * grid[1] + 1)
    bits = np.arange(int(numbers[-1]).bit_length())
    coded = _changed(image, (numbers[:, None] >> bits & 1).astype(bool).T.reshape(-1, *grid))
    seen = _embed(run, embeddings, coded)
    if len(seen) != 1 or len(seen[0]) != len(coded):
        raise InvalidTypeError(_unsupported("it does not embed every image once"))
    moved = (seen[0][1:] != seen[0][:1]).any(dim=2).cpu().numpy()
    codes = (moved.T << bits).sum(axis=1)
    if sorted(codes[codes > 0]) != numbers.tolist() or codes.all():
        raise InvalidTypeError(_unsupported("its tokens are not one per patch and others that are always there"))
    return np.asarray(codes - 1, dtype=np.intp)


def _embed(run: Forward, embeddings: Any, images: Any) -> list[Any]:
    """What the embeddings give of images (b, C, H, W); the rest of the module runs on a few tokens each."""
    with _replacing(embeddings, lambda tokens: tokens[:, :_FEW]) as seen:
        try:
            run(images)
        except (RuntimeError, ValueError, IndexError) as error:
            if not seen:
                raise
            raise InvalidTypeError(_unsupported("it does not run on fewer tokens")) from error
    return seen


def _changed(image: Any, cells: NDArray[np.bool_]) -> Any:
    """Noise (1 + k, C, H, W): one image, and k in which the patches of ``cells`` (k, rows, cols) are others."""
    torch = import_torch()
    rows, cols = cells.shape[1:]
    where = cells.repeat(image.shape[1] // rows, axis=1).repeat(image.shape[2] // cols, axis=2)
    first, second = (torch.from_numpy(noise).to(image) for noise in _noise(tuple(image.shape)))
    changed = torch.where(torch.from_numpy(where).to(image.device)[:, None], second, first)
    return torch.cat([first[None], changed])


def _noise(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return stream(0, "patch drop").standard_normal((2, *shape), dtype=np.float32)


def _check_removal(run: Forward, embeddings: Any, image: Any, patches: NDArray[np.intp]) -> None:
    """All patches kept must be the plain module, and the order of tokens must not matter behind the embeddings."""
    torch = import_torch()
    noise = torch.from_numpy(_noise(tuple(image.shape))[:1]).to(image)
    plain = score_tensor(run(noise))
    try:
        whole, some, mixed, none = (
            score_tensor(run_on_tokens(run, embeddings, noise, tokens[None])) for tokens in _tokens_to_try(patches)
        )
    except (RuntimeError, ValueError, IndexError) as error:
        raise InvalidTypeError(_unsupported("it does not run on fewer tokens")) from error
    if not none.isfinite().all():
        raise InvalidTypeError(_unsupported("it has no answer when every patch is hidden"))
    if not same_scores(torch.cat([whole, mixed]), torch.cat([plain, some])):
        raise InvalidTypeError(_unsupported("its answer depends on the order of its tokens"))


def _tokens_to_try(patches: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """All tokens, those of half of the patches, the same in another order, and those of no patch."""
    always = patches == _ALWAYS
    shuffled = stream(0, "patch drop", "half").permutation(np.flatnonzero(~always))
    half = shuffled[: (len(shuffled) + 1) // 2]
    some = np.sort(np.concatenate([np.flatnonzero(always), half]))
    mixed = some.copy()
    mixed[~always[some]] = np.roll(some[~always[some]], 1)
    return [np.arange(len(always)), some, mixed, np.flatnonzero(always)]


def _unsupported(reason: str) -> str:
    return (
        "`fill='drop'` removes patches from the sequence of a vision transformer such as Transformers' "
        f"ViTForImageClassification, which this module is not: {reason}. Use another fill, such as 0.0."
    )

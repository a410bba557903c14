"""A vision transformer, an image and masks → scores with the hidden patches removed from its sequence.

The embeddings of patches, positions included, do not depend on a mask: they are computed for one
image, and each row goes on with those of its own patches. Which token belongs to which patch is found
out by changing patches. That nothing behind the embeddings knows where a token came from, and that
rows may be filled up with tokens that are not attended to, is checked.
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
from holdfast.masking.image.groups import Groups
from holdfast.masking.speed import group_by_length, pass_overhead, same_scores
from holdfast.masking.torch import forward_parameters, import_torch, notes_of, score_tensor, weights_mark
from holdfast.randomness import stream
from holdfast.types import Masks

Run = Callable[..., Any]
"""Images (b, C, H, W), and perhaps an ``attention_mask`` → what the module returns."""

ALWAYS_KEPT = -1
_FEW = 8


@dataclass(frozen=True, eq=False)
class PatchTokens:
    """For each token (T,) its patch in reading order, or -1, and whether rows may be filled up."""

    patches: NDArray[np.intp]
    pads: bool


def learn_patches(module: Any, run: Run, image: Any, grid: tuple[int, int]) -> PatchTokens:
    """Match tokens with the patches (rows, cols) of images like this tensor (C, H, W), and check their removal."""
    embeddings = find_embeddings(module)
    patches = _match_tokens(run, embeddings, image, grid)
    noise = import_torch().from_numpy(_noise(tuple(image.shape))[:1]).to(image)
    some = _check_removal(run, embeddings, noise, patches)
    return PatchTokens(patches, _takes_attention(module) and _may_pad(run, embeddings, noise, patches, some))


def run_on_tokens(
    run: Run, embeddings: Any, image: Any, columns: NDArray[np.intp], attended: NDArray[np.bool_] | None = None
) -> Any:
    """Run one image (1, C, H, W), going on behind the embeddings with b rows of its tokens (b, K)."""
    torch = import_torch()
    wanted = torch.from_numpy(columns).to(image.device)
    attention = {} if attended is None else {"attention_mask": torch.from_numpy(attended).to(image.device).long()}
    with _replacing(embeddings, lambda tokens: tokens[0][wanted]) as seen:
        output = run(image, **attention)
    if len(seen) != 1:
        raise ModelError(f"The module must compute its embeddings once per call, it did {len(seen)} times.")
    return output


def find_embeddings(module: Any) -> Any:
    """The part that turns pixels into tokens, as the vision transformers of Transformers have it."""
    torch = import_torch()
    if any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) for part in module.modules()):
        raise InvalidTypeError("`classifier` must not be compiled for `fill='drop'`. Pass the module as it was before.")
    parts = (part for part in module.modules() if isinstance(getattr(part, "patch_embeddings", None), torch.nn.Module))
    found = next(parts, None)
    if found is None:
        raise InvalidTypeError(_unsupported("it has no part with `patch_embeddings`"))
    return found


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


def _match_tokens(run: Run, embeddings: Any, image: Any, grid: tuple[int, int]) -> NDArray[np.intp]:
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


def _embed(run: Run, embeddings: Any, images: Any) -> list[Any]:
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


def _check_removal(run: Run, embeddings: Any, noise: Any, patches: NDArray[np.intp]) -> Any:
    """All patches kept must be the plain module, and the order of tokens must not matter behind the embeddings.

    Returns the scores of half of the patches.
    """
    torch = import_torch()
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
    return some


def _takes_attention(module: Any) -> bool:
    taken = forward_parameters(module)
    return "attention_mask" in taken or any(one.kind is one.VAR_KEYWORD for one in taken.values())


def _may_pad(run: Run, embeddings: Any, noise: Any, patches: NDArray[np.intp], wanted: Any) -> bool:
    """Whether tokens that are not attended to change nothing, compared with the scores of half of the patches."""
    torch = import_torch()
    whole, some, *_ = _tokens_to_try(patches)
    try:
        padded, full = (
            score_tensor(run_on_tokens(run, embeddings, noise, whole[None], np.isin(whole, shown)[None]))
            for shown in (some, whole)
        )
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    return same_scores(torch.cat([padded, full]), torch.cat([wanted, full]))


def _tokens_to_try(patches: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """All tokens, those of half of the patches, the same in another order, and those of no patch."""
    always = patches == ALWAYS_KEPT
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


@dataclass(frozen=True, eq=False)
class PatchDrop:
    """One image (C, H, W) whose hidden patches are removed.

    ``features`` (T,) has the feature of each token, or -1. Rows of unlike length go together, filled
    up with tokens that are not attended to, where that costs less than another pass, ``overhead``
    tokens; it is 0 for modules whose rows cannot be filled up.
    """

    embeddings: Any
    image: Any
    features: NDArray[np.intp]
    overhead: float

    def scores(self, run: Run, masks: Masks) -> Any:
        """Scores (b, n_classes) of masks (b, n_features), in the order asked; ``run`` scores images."""
        torch = import_torch()
        if len(masks) == 0:
            return run(self.image[None])[:0]
        shown = masks[:, np.maximum(self.features, 0)] | (self.features == ALWAYS_KEPT)
        groups = group_by_length(shown.sum(axis=1), self.overhead)
        parts = [self._part(run, shown[rows]) for rows in groups]
        return torch.cat(parts)[torch.from_numpy(np.concatenate(groups).argsort()).to(self.image.device)]

    def _part(self, run: Run, shown: NDArray[np.bool_]) -> Any:
        columns = np.argsort(~shown, axis=1, kind="stable")[:, : shown.sum(axis=1).max()]
        attended = np.take_along_axis(shown, columns, axis=1)
        return run_on_tokens(run, self.embeddings, self.image[None], columns, None if attended.all() else attended)


def bind_patches(module: Any, run: Run, image: Any, groups: Groups) -> PatchDrop:
    """Remove hidden patches of this tensor (C, H, W), if removing patches has a meaning for the module.

    That is checked once per module and size of image. The module must be in evaluation mode, without
    gradients; ``run`` takes images (b, C, H, W).
    """
    grid = patch_grid(module, tuple(image.shape[1:]))
    owners = _features_of_patches(groups, grid)
    notes, question = notes_of(module), ("patches", weights_mark(module), tuple(image.shape), image.dtype)
    learnt: PatchTokens = notes.get(question) or learn_patches(module, run, image, grid)
    notes[question] = learnt
    features = np.where(learnt.patches == ALWAYS_KEPT, ALWAYS_KEPT, owners[learnt.patches])
    overhead = pass_overhead(module, image.device) if learnt.pads else 0.0
    return PatchDrop(find_embeddings(module), image, features, overhead)


def patch_grid(module: Any, size: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a vision transformer's patches in an image of this height and width."""
    cut = find_embeddings(module).patch_embeddings
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

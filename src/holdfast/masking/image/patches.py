"""A vision transformer, an image and masks → scores with the hidden patches removed from its sequence.

The embeddings of patches, positions included, do not depend on a mask: they are computed for one image, and each row
goes on with those of its own patches. Which token belongs to which patch is found out by changing patches. That nothing
behind the embeddings knows where a token came from, and that rows may be filled up with unattended ones, is checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.image.pixels import Groups
from holdfast.masking.speed import group_by_length, pass_overhead, same_scores
from holdfast.masking.torch import (
    forward_parameters,
    import_torch,
    notes_of,
    score_tensor,
    to_device,
    weights_mark,
    widened,
)
from holdfast.randomness import stream
from holdfast.types import Masks

Run = Callable[..., Any]
"""Images (b, C, H, W), and perhaps which tokens to attend to → what the module returns."""

_ALWAYS_KEPT = -1
_FEW = 8


class Embeddings(NamedTuple):
    """The part that cuts images into patches, and the part that gives their tokens (b, T, d), positions included.

    ``attention`` names what tells the module which tokens to attend to, as far as it can be told.
    """

    patches: Any
    tokens: Any
    attention: str | None


@dataclass(frozen=True, eq=False)
class PatchDrop:
    """One image (C, H, W) whose hidden patches are removed.

    ``features`` (T,) has the feature of each token, or -1. Rows of unlike length go together, filled up with tokens
    that are not attended to, if that costs less than another pass, ``overhead`` tokens; 0 where it cannot be done.
    """

    embeddings: Embeddings
    image: Any
    features: NDArray[np.intp]
    overhead: float

    def scores(self, run: Run, masks: Masks) -> Any:
        """Scores (b, n_classes) of masks (b, n_features), in the order asked; ``run`` scores images."""
        if len(masks) == 0:
            return run(self.image[None])[:0]
        return score_shown_patches(run, [(self, masks)])


def score_shown_patches(run: Run, parts: Sequence[tuple[PatchDrop, Masks]]) -> Any:
    """Scores (b, n_classes) of images of one shape and one module, each under masks of its own, in the order asked."""
    torch, (first, _) = import_torch(), parts[0]
    shown = np.concatenate(
        [masks[:, np.maximum(drop.features, 0)] | (drop.features == _ALWAYS_KEPT) for drop, masks in parts]
    )
    owners = np.repeat(np.arange(len(parts)), [len(masks) for _, masks in parts])
    groups, scores = group_by_length(shown.sum(axis=1), first.overhead), []
    for rows in groups:
        part, (used, places) = shown[rows], np.unique(owners[rows], return_inverse=True)
        columns = np.argsort(~part, axis=1, kind="stable")[:, : part.sum(axis=1).max()]
        attended = np.take_along_axis(part, columns, axis=1)
        attention = None if attended.all() else attended
        images = torch.stack([parts[owner][0].image for owner in used.tolist()])
        scores.append(_run_on_tokens(run, first.embeddings, images, columns, attention, places))
    return torch.cat(scores)[to_device(np.concatenate(groups).argsort(), first.image.device)]


def bind_patches(module: Any, call: Run, image: Any, groups: Groups) -> PatchDrop:
    """Remove hidden patches of this tensor (C, H, W), if removing patches has a meaning for the module.

    That is checked once per module and size of image; of a module in half precision, in full precision first, since
    rounding hides small differences. The module must be in evaluation mode, without gradients; ``call`` takes a module
    and images (b, C, H, W). Every feature must be a union of whole patches.
    """
    rows, cols = patch_grid(module, tuple(image.shape[1:]))
    height, width = groups.shape[0] // rows, groups.shape[1] // cols
    cells = groups.reshape(rows, height, cols, width).swapaxes(1, 2).reshape(rows * cols, height * width)
    torn = np.flatnonzero((cells != cells[:, :1]).any(axis=1))
    if len(torn):
        row, col = divmod(int(torn[0]), cols)
        unions = f"unions of the model's patches of {height}×{width} pixels for `fill='drop'`"
        must = f"be {unions}; the patch in row {row}, column {col} belongs to several features"
        raise InvalidValueError(argument="groups", must=must, hint=f"Use `groups=({rows}, {cols})`.")
    embeddings = _find_embeddings(module)
    notes, question = notes_of(module), ("patches", weights_mark(module), tuple(image.shape), image.dtype)
    if question not in notes:
        wide = widened(module)
        may_pad = wide is module or _learn_patches(wide, partial(call, wide), image.float(), (rows, cols))[1]
        patches, may_pad_itself = _learn_patches(module, partial(call, module), image, (rows, cols))
        notes[question] = patches, may_pad and may_pad_itself
    patches, may_pad = notes[question]
    features = np.where(patches == _ALWAYS_KEPT, _ALWAYS_KEPT, cells[patches, 0])
    return PatchDrop(embeddings, image, features, pass_overhead(module, image.device) if may_pad else 0.0)


def patch_grid(module: Any, size: tuple[int, ...], purpose: str = "`fill='drop'`") -> tuple[int, int]:
    """Rows and columns of a vision transformer's patches in an image of this height and width."""
    cut = _find_embeddings(module).patches
    sides = getattr(cut, "patch_size", None) or getattr(getattr(module, "config", None), "patch_size", None) or 0
    height, width = (sides, sides) if isinstance(sides, int) else sides
    if not height or not width or size[0] % height or size[1] % width:
        must = f"divide into patches of {height}×{width} pixels for {purpose}"
        raise InvalidValueError(argument="image", must=must, got=f"{size[0]}×{size[1]}")
    return size[0] // height, size[1] // width


def uncompiled(module: Any) -> Any:
    """The module as it was before ``torch.compile``: compiled code does not see what is done to its parts."""
    original = getattr(module, "_orig_mod", module)
    if getattr(original, "_compiled_call_impl", None) is None:
        return original
    # Compiled in place: a copy has the same parts and weights, and is not compiled.
    return notes_of(original).setdefault("uncompiled", copy(original))


def _find_embeddings(module: Any) -> Embeddings:
    """The part that turns pixels into tokens, as the vision transformers of Transformers and of timm have it."""
    torch, parts = import_torch(), dict(module.named_modules())
    for name, part in parts.items():
        cut, tokens = getattr(part, "patch_embeddings", None), part
        if cut is None:  # in timm, what comes last before the blocks, and is always called
            cut, tokens = getattr(part, "patch_embed", None), getattr(part, "pos_drop", None)
        if isinstance(cut, torch.nn.Module) and isinstance(tokens, torch.nn.Module):
            steps = name.split(".")
            around = [parts[".".join(steps[:n])] for n in range(1, len(steps))]
            if any(
                hasattr(whole, "_orig_mod") or whole._compiled_call_impl is not None
                for whole in [*around, part, tokens]
            ):
                must = "keep its embeddings uncompiled for `fill='drop'`"
                hint = "Compile the whole module, or only the layers after its embeddings."
                raise InvalidTypeError(argument="classifier", must=must, hint=hint)
            return Embeddings(cut, tokens, _attention_of(module))
    raise _unsupported("it has no part with `patch_embeddings`, or with `patch_embed` and `pos_drop`")


def _attention_of(module: Any) -> str | None:
    """The argument of the module's ``forward`` that says which tokens to attend to: Transformers' or timm's."""
    parameters = forward_parameters(module)
    for name in ("attention_mask", "attn_mask"):
        if name in parameters:
            return name
    return "attention_mask" if any(part.kind is part.VAR_KEYWORD for part in parameters.values()) else None


def _learn_patches(module: Any, run: Run, image: Any, grid: tuple[int, int]) -> tuple[NDArray[np.intp], bool]:
    """For each token (T,) its patch in reading order, or -1, and whether rows may be filled up.

    Checks that patches can be removed from images like this tensor (C, H, W): all kept must be the plain
    module, and the order of tokens must not matter behind the embeddings.
    """
    torch, embeddings = import_torch(), _find_embeddings(module)
    noise = torch.from_numpy(stream(0, "patch drop").standard_normal((2, *image.shape), dtype=np.float32)).to(image)
    patches, photo = _match_tokens(run, embeddings, noise, grid), noise[:1]
    always = patches == _ALWAYS_KEPT
    shuffled = stream(0, "patch drop", "half").permutation(np.flatnonzero(~always))
    all_tokens, no_patch = np.arange(len(always)), np.flatnonzero(always)
    half = np.sort(np.concatenate([no_patch, shuffled[: (len(shuffled) + 1) // 2]]))
    mixed = half.copy()
    mixed[~always[half]] = np.roll(half[~always[half]], 1)

    def score(tokens: NDArray[np.intp], attended: NDArray[np.bool_] | None = None) -> Any:
        return score_tensor(_run_on_tokens(run, embeddings, photo, tokens[None], attended))

    plain = score_tensor(run(photo))
    try:
        of_all, of_half, of_mixed, of_none = (score(tokens) for tokens in (all_tokens, half, mixed, no_patch))
    except (RuntimeError, ValueError, IndexError) as error:
        raise _unsupported("it does not run on fewer tokens") from error
    if not of_none.isfinite().all():
        raise _unsupported("it has no answer when every patch is hidden")
    if not same_scores(torch.cat([of_all, of_mixed]), torch.cat([plain, of_half])):
        raise _unsupported("its answer depends on the order of its tokens")
    if embeddings.attention is None:
        return patches, False
    try:
        padded, full = (score(all_tokens, np.isin(all_tokens, kept)[None]) for kept in (half, all_tokens))
    except (RuntimeError, ValueError, IndexError, TypeError):
        return patches, False
    return patches, same_scores(torch.cat([padded, full]), torch.cat([of_half, full]))


def _match_tokens(run: Run, embeddings: Embeddings, noise: Any, grid: tuple[int, int]) -> NDArray[np.intp]:
    """The patch of each token, or -1, by changing patches from one noise (C, H, W) to another.

    In image k, those patches p are changed of which p + 1 has bit k.
    """
    torch = import_torch()
    first, second = noise
    numbers = np.arange(1, grid[0] * grid[1] + 1)
    bits = np.arange(int(numbers[-1]).bit_length())
    cells = (numbers[:, None] >> bits & 1).astype(bool).T.reshape(-1, *grid)
    where = cells.repeat(first.shape[1] // grid[0], axis=1).repeat(first.shape[2] // grid[1], axis=2)
    images = torch.cat([first[None], torch.where(torch.from_numpy(where).to(noise.device)[:, None], second, first)])
    # The rest of the module runs on a few tokens each.
    with _replacing(embeddings, lambda tokens: tokens[:, :_FEW]) as seen:
        try:
            run(images)
        except (RuntimeError, ValueError, IndexError) as error:
            if not seen:
                raise
            raise _unsupported("it does not run on fewer tokens") from error
    if len(seen) != 1 or len(seen[0]) != len(images):
        raise _unsupported("it does not embed every image once")
    moved = (seen[0][1:] != seen[0][:1]).any(dim=2).cpu().numpy()
    codes = (moved.T << bits).sum(axis=1)
    if sorted(codes[codes > 0]) != numbers.tolist() or codes.all():
        raise _unsupported("its tokens are not one per patch plus some that are always present")
    return np.asarray(codes - 1, dtype=np.intp)


def _run_on_tokens(
    run: Run,
    embeddings: Embeddings,
    images: Any,
    columns: NDArray[np.intp],
    attended: NDArray[np.bool_] | None = None,
    owners: NDArray[np.intp] | None = None,
) -> Any:
    """Run images (k, C, H, W), going on behind the embeddings with b rows of tokens (b, K), each of its image (b,)."""
    wanted = to_device(columns, images.device)
    own = to_device(np.zeros(len(columns), dtype=np.intp) if owners is None else owners, images.device)
    attention = {}
    if attended is not None and embeddings.attention is not None:
        open_to = to_device(attended, images.device)
        is_timm = embeddings.attention == "attn_mask"  # (b, heads, from, to)
        attention[embeddings.attention] = open_to[:, None, None] if is_timm else open_to.long()
    with _replacing(embeddings, lambda tokens: tokens[own[:, None], wanted]) as seen:
        output = run(images, **attention)
    if len(seen) != 1:
        raise ModelError(f"The module must compute its embeddings once per call, got {len(seen)} times.")
    return output


@contextmanager
def _replacing(embeddings: Embeddings, replace: Callable[[Any], Any]) -> Iterator[list[Any]]:
    """Replace what the embeddings give, for calls of this thread only; collects what they gave."""
    seen: list[Any] = []
    own = threading.get_ident()

    def hook(_module: Any, _inputs: Any, output: Any) -> Any:
        if threading.get_ident() != own:
            return output
        if not isinstance(output, import_torch().Tensor) or output.ndim != 3:
            raise _unsupported("its embeddings are not a sequence of tokens")
        seen.append(output)
        return replace(output)

    handle = embeddings.tokens.register_forward_hook(hook)
    try:
        yield seen
    finally:
        handle.remove()


def _unsupported(reason: str) -> InvalidTypeError:
    return InvalidTypeError(
        "needs a vision transformer such as those of Transformers and timm, whose patches can be removed; "
        f"this module is not: {reason}. Use another fill, such as 0.0.",
        argument="fill='drop'",
    )

"""A text and masks → batches without the hidden tokens, where that gives the scores of attention masking.

Hidden tokens that are not attended to change nothing but the time. Leaving them out is exact for
models that take the position of every token as an input and classify by tokens that are shown.
Whether a model is one of those is checked on random masks, once per module, its weights, the longest
text and which of its tokens may be hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.masking.buckets import group_by_length, pass_overhead
from holdfast.masking.exactness import same_scores
from holdfast.masking.module_notes import notes_of, weights_mark
from holdfast.masking.text_tokens import ALWAYS_SHOWN, Fields, Tokens, first_position
from holdfast.masking.torch_support import dtype_of, import_torch, score_tensor, takes
from holdfast.randomness import stream
from holdfast.types import Masks

_KEPT_SHARES = (0.75, 0.5, 0.25, 0.0)
"""Of the features, in the masks of the check."""


@dataclass(frozen=True, eq=False)
class Removal:
    """A text whose hidden tokens may be left out, with the position of each token (T,)."""

    tokens: Tokens
    positions: Any
    overhead: float

    def scores(self, run: Callable[[Fields], Any], shown: Any) -> Any:
        """Scores (b, n_classes) of shown tokens (b, T), in the order asked; ``run`` scores one batch."""
        torch = import_torch()
        groups = [torch.from_numpy(rows).to(shown.device) for rows in self._groups(shown.sum(dim=1).cpu().numpy())]
        parts = [run(self.batch(shown[rows])) for rows in groups]
        return torch.cat(parts)[torch.cat(groups).argsort()]

    def _groups(self, lengths: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Rows by length; those of no token at all on their own, since they must not be padded."""
        some, none = np.flatnonzero(lengths), np.flatnonzero(lengths == 0)
        groups = [some[rows] for rows in group_by_length(lengths[some], self.overhead)]
        return [*groups, none] if len(none) else groups

    def batch(self, shown: Any) -> Fields:
        """The shown tokens of each row, filled up to the longest row with tokens that are not attended to."""
        width = int(shown.sum(dim=1).max())
        if width == 0:
            # A model that attends to nothing has no shorter form.
            return drop_attention(self.tokens, shown)
        columns = (~shown).int().argsort(dim=1, stable=True)[:, :width]
        batch = {name: row[columns] for name, row in self.tokens.fields.items()}
        batch["attention_mask"] = batch["attention_mask"] * shown.gather(1, columns)
        return {**batch, "position_ids": self.positions[columns]}


def drop_attention(tokens: Tokens, shown: Any) -> Fields:
    """Hidden tokens stay in place and are not attended to."""
    batch = tokens.repeat(len(shown))
    batch["attention_mask"] = batch["attention_mask"] * shown
    return batch


def find_removal(module: Any, tokens: Tokens) -> Removal | None:
    """How to leave hidden tokens out of this text, or None where that is not exact.

    The module must be in evaluation mode, without gradients.
    """
    if not _may_be_exact(module, tokens):
        return None
    ids = tokens.fields["input_ids"]
    counted = import_torch().arange(len(ids), device=ids.device) + first_position(module)
    removal = Removal(tokens, tokens.fields.get("position_ids", counted), pass_overhead(module, ids.device))
    question = ("token removal", weights_mark(module), _hideable_pattern(tokens))
    known = notes_of(module).setdefault(question, _Known())
    if not known.exact_up_to < len(ids) < known.inexact_from:
        return removal if len(ids) <= known.exact_up_to else None
    exact = _is_exact(module, removal)
    if exact:
        known.exact_up_to = len(ids)
    elif exact is not None:
        known.inexact_from = len(ids)
    return removal if exact else None


@dataclass
class _Known:
    """Lengths of texts that were checked: attention in windows or blocks is exact up to a length only."""

    exact_up_to: int = 0
    inexact_from: int = 1 << 62


def _may_be_exact(module: Any, tokens: Tokens) -> bool:
    """Whether a check could succeed, and would leave the module as it is."""
    torch = import_torch()
    config = getattr(module, "config", None)
    # RoBERTa and its kin count positions from a padding token in the text in another way.
    padding = getattr(config, "pad_token_id", None)
    return (
        takes(module, "position_ids")
        and dtype_of(module) in (torch.float32, torch.float64)
        and not (padding is not None and bool((tokens.fields["input_ids"] == padding).any()))
        # BigBird gives up its sparse attention for good at the first short text.
        and getattr(config, "attention_type", "original_full") == "original_full"
    )


def _hideable_pattern(tokens: Tokens) -> Any:
    """Which tokens may be hidden, apart from their number: a check says something of texts alike in this only.

    In most texts all but a few tokens at either end may be, and these few are what counts.
    """
    hideable = tokens.groups != ALWAYS_SHOWN
    places = np.flatnonzero(hideable)
    first, last = int(places[0]), len(hideable) - 1 - int(places[-1])
    in_one_run = len(places) == len(hideable) - first - last
    return (first, last) if in_one_run else hideable.tobytes()


def _is_exact(module: Any, removal: Removal) -> bool | None:
    """Whether leaving tokens out gives the scores of masking; None if scores that never change do not tell."""
    torch = import_torch()
    shown = _shown_at_random(removal.tokens)
    shown = shown[shown.any(dim=1)]
    rows = shown.split(1)
    # Whatever precision surrounds the check, its verdict is about full precision.
    with torch.autocast(shown.device.type, enabled=False):
        wanted = torch.cat([_ask(module, drop_attention(removal.tokens, row)) for row in rows])
        if wanted.dtype not in (torch.float32, torch.float64):
            return False
        if bool((wanted == wanted[:1]).all()):
            return None
        try:
            padded = _ask(module, removal.batch(shown))
            shortest = _ask(module, removal.batch(rows[-1]))
        except (RuntimeError, ValueError, TypeError, IndexError):
            return False
    return same_scores(padded, wanted) and same_scores(torch.cat([padded[:-1], shortest]), wanted)


def _shown_at_random(tokens: Tokens) -> Any:
    """Shown tokens (b, T): every token that may be hidden is a feature of its own, whatever the features are."""
    torch = import_torch()
    places = np.flatnonzero(tokens.groups != ALWAYS_SHOWN)
    shown = np.ones((len(_KEPT_SHARES), len(tokens.groups)), dtype=bool)
    shown[:, places] = _spread_masks(len(places))
    return torch.from_numpy(shown).to(tokens.fields["input_ids"].device)


def _ask(module: Any, batch: Fields) -> Any:
    return score_tensor(module(**batch))


def _spread_masks(n_features: int) -> Masks:
    """Random masks of many, some, few and no features."""
    ranks = np.argsort(stream(0, "token removal").random((len(_KEPT_SHARES), n_features)), axis=1)
    return ranks < np.round(np.array(_KEPT_SHARES) * n_features)[:, None]

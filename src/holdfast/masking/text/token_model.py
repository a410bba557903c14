"""A torch classifier and the tokens of one text → a ``MaskedModel`` with gradients; hidden tokens as the fill says."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.speed import BatchProbe, Runner, batch_probe
from holdfast.masking.text.strings import Span
from holdfast.masking.text.tokens import (
    ALWAYS_SHOWN,
    Fields,
    TokenRemoval,
    Tokens,
    check_vocabulary,
    drop_attention,
    find_removal,
)
from holdfast.masking.torch import device_of, dtype_of, evaluating_module, import_torch, score_tensor, to_numpy
from holdfast.types import Masks, Outputs, Provenance
from holdfast.validation import check_masks, check_whole

_ATTENTION_DROP = "attention drop"


@dataclass(frozen=True)
class TokenFill:
    """How hidden tokens look to the module.

    ``build`` makes a batch of the tokens and of those shown (b, T). ``token`` is the id that stands in for
    hidden ones, if any; where padding is needed, it goes to the ``padding`` side.
    """

    name: str
    build: Callable[[Tokens, Any, TokenFill], Fields]
    token: int | None
    padding: str = "right"


@dataclass(frozen=True, eq=False)
class TokenModel:
    """A torch classifier of texts and one text, as a function of which tokens, words or segments are shown.

    It is ``Differentiable`` in the input embeddings. ``baseline`` holds the embedding of the mask
    token for the fill "mask" and of the pad token for all others (zeros if there is none): no
    embedding equals a token that is not attended to or not there, so that for "drop" and "delete"
    the baseline is the customary stand-in and not what the model sees of hidden tokens.

    With the fill "drop", tokens that are not attended to are left out of the batches wherever that
    is exact, which is checked on random masks once per module: ``removes_tokens`` says whether it is.
    The check takes four rows and their shorter forms; they are no answers to a question, and
    certificates do not count them.
    """

    runner: Runner
    tokens: Tokens
    fill: TokenFill
    softmax: bool
    batch_size: int | None
    provenance: Provenance
    classes: tuple[str, ...] | None = None

    @property
    def n_features(self) -> int:
        return len(self.tokens.names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The tokens, the words, or the beginning of each segment."""
        return self.tokens.names

    @property
    def located(self) -> tuple[str, tuple[Span, ...]] | None:
        """The text, and the place of each feature in it; None if the tokenizer does not tell."""
        return self.tokens.located

    @property
    def module(self) -> Any:
        """The torch module."""
        return self.runner.module

    def __call__(self, masks: Masks, /) -> Outputs:
        shown = self.tokens.shown(check_masks(masks, self.n_features))
        with evaluating_module(self.module):
            if self._removal is None or len(shown) == 0:
                return to_numpy(self._scores(self.fill.build(self.tokens, shown, self.fill)))
            return to_numpy(self._removal.scores(self._scores, shown))

    @cached_property
    def _removal(self) -> TokenRemoval | None:
        with evaluating_module(self.module):
            return find_removal(self.module, self.tokens) if self.fill.name == _ATTENTION_DROP else None

    @property
    def removes_tokens(self) -> bool:
        """Whether hidden tokens are left out: for the fill "drop", if the check says that scores are the same."""
        return self._removal is not None

    @property
    def batch_probe(self) -> BatchProbe | None:
        """What finds the number of masks per call on a CPU, unless the caller has given one."""
        if self.batch_size is not None or device_of(self.module).type != "cpu":
            return None
        # Twice as long a text is another question; a few tokens more are not.
        return batch_probe(self.module, self.fill.name, len(self.groups).bit_length(), first=8)

    @property
    def groups(self) -> NDArray[np.intp]:
        """The feature of each token (T,), -1 for tokens that are always shown."""
        return self.tokens.groups

    @property
    def elements(self) -> NDArray[Any]:
        """Input embeddings (T, d) of the text."""
        return self._embed(self.tokens.fields["input_ids"])

    @property
    def baseline(self) -> NDArray[Any]:
        """Input embeddings (T, d) with the stand-in for every feature."""
        elements, token = self.elements, self.fill.token
        stand_in = 0.0 if token is None else self._embed(self.tokens.fields["input_ids"].new_tensor([token]))
        elements[self.groups != ALWAYS_SHOWN] = stand_in
        return elements

    def gradient(self, points: NDArray[Any], target: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (b, n_classes) at embeddings (b, T, d), all attended to, and the gradient of the target's score.

        Parameters
        ----------
        points : float (b, T, d)
            Embeddings in place of those of the text.
        target : int
            The class whose score is differentiated.
        """
        torch, array, shape = import_torch(), np.asarray(points), self.elements.shape
        if array.ndim != 3 or array.shape[1:] != shape:
            must = f"have shape (b, {shape[0]}, {shape[1]})"
            raise InvalidValueError(argument="points", must=must, got=array.shape)
        with evaluating_module(self.module, gradients=True):
            batch = self.tokens.repeat(len(array))
            device = batch.pop("input_ids").device
            inputs = torch.tensor(array, dtype=dtype_of(self.module), device=device, requires_grad=True)
            scores = self._softmaxed(self.runner.differentiable(**batch, inputs_embeds=inputs))
            column, n_classes = check_whole(target, "target"), scores.shape[1]
            if column >= n_classes:
                raise InvalidValueError(argument="target", must=f"be a class below {n_classes}", got=target)
            (slope,) = torch.autograd.grad(scores[:, column].sum(), inputs)
        return to_numpy(scores), to_numpy(slope)

    def _scores(self, batch: Fields) -> Any:
        return self._softmaxed(self.runner(**batch))

    def _softmaxed(self, output: Any) -> Any:
        scores = score_tensor(output)
        return scores.float().softmax(dim=-1) if self.softmax else scores

    def _embed(self, token_ids: Any) -> NDArray[Any]:
        get = getattr(self.module, "get_input_embeddings", None)
        if get is None:
            raise InvalidTypeError(
                f"Gradients need a module with `get_input_embeddings`, as in Transformers, got {type(self.module)}. "
                "Use a method that needs no gradients."
            )
        with evaluating_module(self.module):
            return to_numpy(get()(token_ids))


def replace_tokens(tokens: Tokens, shown: Any, fill: TokenFill) -> Fields:
    """Hidden tokens become the fill's token, which is attended to."""
    batch = tokens.repeat(len(shown))
    batch["input_ids"] = batch["input_ids"].masked_fill(~shown, fill.token)
    return batch


def delete_tokens(tokens: Tokens, shown: Any, fill: TokenFill) -> Fields:
    """Hidden tokens are removed, the others close ranks, and shorter rows are padded."""
    # A stable sort moves the hidden tokens to one end and keeps the order of the shown ones.
    order = (shown if fill.padding == "left" else ~shown).int().argsort(dim=1, stable=True)
    width = max(1, int(shown.sum(dim=1).max()))
    columns = order[:, slice(-width, None) if fill.padding == "left" else slice(width)]
    there = shown.gather(1, columns)
    batch = {name: row[columns] * there for name, row in tokens.fields.items()}
    batch["input_ids"] = batch["input_ids"].masked_fill(~there, fill.token)
    return batch


TOKEN_FILLS: dict[str, tuple[str, Callable[[Tokens, Any, TokenFill], Fields]]] = {
    "drop": (_ATTENTION_DROP, drop_attention),
    "mask": ("mask token", replace_tokens),
    "pad": ("pad token", replace_tokens),
    "delete": ("deletion", delete_tokens),
}
"""Name → its words in a certificate, and how a batch is built."""


def token_fill(name: str, module: Any, tokenizer: Any) -> TokenFill:
    """The fill of this name with the tokenizer's own token for it."""
    words, build = TOKEN_FILLS[name]
    kind = "mask" if name == "mask" else "pad"
    token = getattr(tokenizer, f"{kind}_token_id", None)
    if token is None and name != "drop":
        raise InvalidValueError(
            f"`fill={name!r}` needs a tokenizer with a {kind} token, and this one has none. "
            f"Set `tokenizer.{kind}_token`, or use `fill='drop'`."
        )
    if token is not None:
        check_vocabulary(module, token)
    return TokenFill(words, build, token, getattr(tokenizer, "padding_side", "right"))


def move_module(module: Any, device: Any, dtype: Any) -> Any:
    """The module itself, or a copy if another device or number type is asked for: the caller's stays where it is."""
    here, there, number_type = device_of(module), device_of(module, device), dtype_of(module, dtype)
    same_device = here.type == there.type and there.index in (None, here.index)
    if same_device and dtype_of(module) == number_type:
        return module
    return deepcopy(module).to(device=there, dtype=number_type)

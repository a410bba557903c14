"""A torch classifier and the tokens of one text → a ``MaskedModel`` with gradients; hidden tokens as the fill says.

Hidden tokens that are not attended to change nothing but the time. Leaving them out is exact for models that take the
position of every token as an input and classify by tokens that are shown. Whether a model is one of those is checked on
random masks, once per module, its weights, the longest text and which of its tokens may be hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.speed import (
    BatchProbe,
    Runner,
    batch_probe,
    call_meter,
    group_by_length,
    pass_overhead,
    same_scores,
    work_clock,
)
from holdfast.masking.text.strings import Span, preview
from holdfast.masking.torch import (
    Network,
    attention_weights,
    device_of,
    dtype_of,
    evaluating_module,
    forward_parameters,
    import_torch,
    lacks_attention,
    notes_of,
    score_tensor,
    to_device,
    to_numpy,
    twin_of,
    weights_mark,
    widened,
)
from holdfast.outputs import split_rows
from holdfast.prices import CallMeter
from holdfast.randomness import stream
from holdfast.terminal import Bound
from holdfast.types import Masks, Outputs, Provenance
from holdfast.validation import check_masks, check_whole

Fields = dict[str, Any]
"""What a module takes, by name: tensors (T,) of one text, or (b, T) of a batch."""

_ALWAYS_SHOWN = -1
_LONGEST = 1 << 30  # tokenizers without a limit call it 10³⁰
_ATTENTION_DROP, _DELETION = "attention drop", "deletion"
_KEPT_SHARES = (0.75, 0.5, 0.25, 0.0)  # of the tokens, in the masks of the check

_TOKENS_PER_CALL, _LEAST_ROWS = 8192, 8
"""A call has about so many tokens, before hidden ones are left out, and at least so many rows."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """One tokenised text on the device of its model.

    ``fields`` are ``input_ids``, ``attention_mask`` and whatever else the tokenizer makes for the module; ``groups``
    (T,) has the feature of each token, -1 for tokens that are always shown, and ``names`` what features are called.
    ``cut`` says what was cut off; ``located`` is the text and the place of each feature in it, if the tokenizer tells.
    """

    fields: Fields
    groups: NDArray[np.intp]
    names: tuple[str, ...]
    cut: str | None = None
    located: tuple[str, tuple[Span, ...]] | None = None

    def shown(self, masks: Masks) -> Any:
        """Which tokens are shown, a Boolean tensor (b, T) on the device."""
        shown = masks[:, np.maximum(self.groups, 0)] | (self.groups == _ALWAYS_SHOWN)
        return to_device(shown, self.fields["input_ids"].device)

    def repeat(self, n: int) -> Fields:
        """A batch of n equal rows."""
        return {name: row.repeat(n, 1) for name, row in self.fields.items()}


def tokenize(
    module: Any, tokenizer: Any, text: str, *, features: str | tuple[Span, ...], max_length: int | None
) -> Tokens:
    """Tokenise once, find the features, and put everything the module takes on the device."""
    encoding, cut = _encode(tokenizer, text, length_limit(module, tokenizer), max_length)
    # Tokens that frame the text, also where the text itself spells them; unknown words are no such tokens.
    kinds = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
    frame = {getattr(tokenizer, kind, None) for kind in kinds} - {None, getattr(tokenizer, "unk_token_id", None)}
    pairs = zip(encoding["special_tokens_mask"], encoding["input_ids"], strict=True)
    special = np.array([bool(added) or token in frame for added, token in pairs], dtype=bool)
    groups, names = _features(tokenizer, encoding, text, features, special)
    if not names:
        must = "have at least one token that is not special"
        hint = "Check the tokenizer and `max_length`."
        raise InvalidValueError(argument="text", must=must, got=repr(preview(text)), hint=hint)
    _check_vocabulary(module, max(encoding["input_ids"]))
    located = (text, _spans(encoding, groups, len(names))) if getattr(encoding, "is_fast", False) else None
    taken = forward_parameters(module)
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    ours = ("special_tokens_mask", "offset_mapping")
    fields = [name for name in encoding if name not in ours and (takes_all or name in taken)]
    if not {"input_ids", "attention_mask"} <= set(fields):
        must = "be a module that takes `input_ids` and `attention_mask`"
        raise InvalidTypeError(argument="classifier", must=must, got=f"one that takes {', '.join(taken) or 'nothing'}")
    tensors = {name: import_torch().tensor(encoding[name], device=device_of(module)) for name in fields}
    return Tokens(tensors, groups, names, cut, located)


def length_limit(module: Any, tokenizer: Any) -> int | None:
    """Most tokens, special ones included, that model and tokenizer can take; None if there is no limit."""
    positions = getattr(getattr(module, "config", None), "max_position_embeddings", None)
    limits = [getattr(tokenizer, "model_max_length", None)]
    if isinstance(positions, int) and positions > 0:
        limits.append(positions - _first_position(module))
    return min([int(limit) for limit in limits if limit is not None and 0 < limit < _LONGEST], default=None)


def _check_vocabulary(module: Any, token: int) -> None:
    """The module must know the token, which it does not if the tokenizer is another model's."""
    get = getattr(module, "get_input_embeddings", None)
    n_known = getattr(get() if get else None, "num_embeddings", None)
    if n_known is not None and token >= n_known:
        must = f"be the model's own; it makes token {token}, but the model has only {n_known}"
        raise InvalidValueError(argument="tokenizer", must=must)


def _first_position(module: Any) -> int:
    """RoBERTa and its kin count positions from behind the padding index."""
    tables = (part for name, part in module.named_modules() if name.endswith("position_embeddings"))
    padding = next((getattr(table, "padding_idx", None) for table in tables), None)
    return 0 if padding is None else int(padding) + 1


def _encode(tokenizer: Any, text: str, limit: int | None, max_length: int | None) -> tuple[Any, str | None]:
    """The whole text, or the part that ``max_length`` allows, and a word on what was cut off."""
    wanted = {"return_special_tokens_mask": True, "return_attention_mask": True, "verbose": False}
    wanted["return_offsets_mapping"] = bool(getattr(tokenizer, "is_fast", False))
    most = limit if max_length is None else check_whole(max_length, "max_length", minimum=1)
    if limit is not None and most is not None and most > limit:
        raise InvalidValueError(argument="max_length", must=f"be at most {limit}, the model's limit", got=max_length)
    encoding = tokenizer(text, truncation=False, **wanted)
    n_tokens = len(encoding["input_ids"])
    if most is None or n_tokens <= most:
        return encoding, None
    if max_length is None:
        must, got = f"have at most {limit} tokens, the model's limit", f"{n_tokens} (special tokens included)"
        hint = f"Shorten it, or pass `max_length={limit}` to cut off the rest."
        raise InvalidValueError(argument="text", must=must, got=got, hint=hint)
    n_special = tokenizer.num_special_tokens_to_add()
    if most <= n_special:
        must = f"be larger than the number of special tokens, {n_special}"
        raise InvalidValueError(argument="max_length", must=must, got=max_length)
    return tokenizer(text, truncation=True, max_length=most, **wanted), f"cut to {most} of {n_tokens} tokens"


def _features(
    tokenizer: Any, encoding: Any, text: str, features: str | tuple[Span, ...], special: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """The feature of each token (T,), and what the features are called."""
    if features == "tokens":
        tokens = tokenizer.convert_ids_to_tokens(encoding["input_ids"])
        groups = np.where(special, _ALWAYS_SHOWN, np.cumsum(~special) - 1)
        return groups, tuple(tokens[i] for i in np.flatnonzero(~special))
    if not getattr(encoding, "is_fast", False):
        raise InvalidTypeError(
            "needs a fast tokenizer, which locates each token in the text, got "
            f"{type(tokenizer).__name__}. Use `AutoTokenizer.from_pretrained(…)`, or `features='tokens'`.",
            argument="features='words'" if features == "words" else "segments=",
        )
    if isinstance(features, str):
        numbers: dict[int | None, int] = {}  # words in the order of their appearance
        pairs = zip(encoding.word_ids(), special, strict=True)
        order = [_ALWAYS_SHOWN if skip else numbers.setdefault(word, len(numbers)) for word, skip in pairs]
        groups = np.array(order, dtype=np.intp)
        return groups, tuple(text[start:end].strip() for start, end in _spans(encoding, groups, len(numbers)))
    # A token belongs to the segment its last character stands in: its first may be the space before.
    starts, ends = np.array(features).T
    first, end = np.array(encoding["offset_mapping"]).T
    home = np.searchsorted(starts, end - 1, side="right") - 1
    inside = (home >= 0) & (end <= ends[home]) & (end > first) & ~special
    names = tuple(preview(text[start:end]) for start, end in features)
    missing = np.setdiff1d(np.arange(len(features)), home[inside])
    if len(missing):
        must = f"have at least one token each; segment {missing[0]} ({names[missing[0]]!r}) has none"
        hint = "Leave it out, or check `max_length`."
        raise InvalidValueError(argument="segments", must=must, hint=hint)
    return np.where(inside, home, _ALWAYS_SHOWN), names


def _spans(encoding: Any, groups: NDArray[np.intp], n_features: int) -> tuple[Span, ...]:
    """From the first to the last character of each feature; tokens that are bytes of a character stand at it."""
    first, end = np.array(encoding["offset_mapping"]).T
    own = [np.flatnonzero(groups == feature) for feature in range(n_features)]
    return tuple((int(first[i].min()), int(end[i].max())) for i in own)


@dataclass(frozen=True, eq=False)
class TokenRemoval:
    """A text whose hidden tokens may be left out, with the position of each token (T,)."""

    tokens: Tokens
    positions: Any
    overhead: float

    def batch(self, shown: Any) -> Fields:
        """The shown tokens of each row, filled up to the longest row with tokens that are not attended to."""
        if not bool(shown.any()):
            # A model that attends to nothing has no shorter form.
            return _drop_attention(self.tokens, shown)
        return _shortened(self.rows(len(shown), shown.shape[1]), shown, int(shown.sum(dim=1).max()))

    def rows(self, n: int, width: int) -> Fields:
        """So many equal rows, positions included, filled up to a width with their last token."""
        columns = import_torch().arange(width, device=self.positions.device).clamp(max=len(self.positions) - 1)
        fields = {**self.tokens.fields, "position_ids": self.positions}
        return {name: row[columns].expand(n, width) for name, row in fields.items()}


def _shortened(rows: Fields, shown: Any, width: int) -> Fields:
    """The shown tokens of rows (b, T), at most ``width``, moved together; shorter rows are filled up, unattended."""
    columns = (~shown).int().argsort(dim=1, stable=True)[:, :width]
    batch = {name: values.gather(1, columns) for name, values in rows.items()}
    batch["attention_mask"] = batch["attention_mask"] * shown.gather(1, columns)
    return batch


def score_shown_tokens(run: Callable[[Fields], Any], parts: Sequence[tuple[TokenRemoval, Any]]) -> Any:
    """Scores (b, n_classes) of texts of one module, of each with these tokens (b, T) shown, in the order asked.

    ``run`` scores one batch. Rows go together by length, whatever their texts.
    """
    torch, width = import_torch(), max(shown.shape[1] for _, shown in parts)
    fields = [removal.rows(len(shown), width) for removal, shown in parts]
    rows = {name: torch.cat([part[name] for part in fields]) for name in fields[0]}
    shown = torch.cat([torch.nn.functional.pad(own, (0, width - own.shape[1])) for _, own in parts])
    # Asked of the device once: every further question would wait for the passes before it.
    lengths = shown.sum(dim=1).cpu().numpy()
    some, groups, scores, start = np.flatnonzero(lengths), [], [], 0
    for group in group_by_length(lengths[some], parts[0][0].overhead):
        groups.append(to_device(some[group], shown.device))
        part, width = {name: row[groups[-1]] for name, row in rows.items()}, int(lengths[some[group]].max())
        scores.append(run(_shortened(part, shown[groups[-1]], width)))
    for removal, own in parts:  # rows of no token at all on their own, since they must not be padded
        none = np.flatnonzero(lengths[start : start + len(own)] == 0)
        if len(none):
            groups.append(to_device(none + start, shown.device))
            scores.append(run(_drop_attention(removal.tokens, own[to_device(none, shown.device)])))
        start += len(own)
    return torch.cat(scores)[torch.cat(groups).argsort()]


def _drop_attention(tokens: Tokens, shown: Any) -> Fields:
    """Hidden tokens stay in place and are not attended to."""
    batch = tokens.repeat(len(shown))
    batch["attention_mask"] = batch["attention_mask"] * shown
    return batch


def _find_removal(module: Any, tokens: Tokens) -> TokenRemoval | None:
    """How to leave hidden tokens out of this text, or None where that is not exact; the module must be evaluating."""
    torch, ids, config = import_torch(), tokens.fields["input_ids"], getattr(module, "config", None)
    # RoBERTa and its kin count positions from a padding token in the text in another way.
    padding = getattr(config, "pad_token_id", None)
    may_be_exact = (
        "position_ids" in forward_parameters(module)
        and not (padding is not None and bool((ids == padding).any()))
        # BigBird gives up its sparse attention for good at the first short text.
        and getattr(config, "attention_type", "original_full") == "original_full"
    )
    if not may_be_exact:
        return None
    counted = torch.arange(len(ids), device=ids.device) + _first_position(module)
    removal = TokenRemoval(tokens, tokens.fields.get("position_ids", counted), pass_overhead(module, ids.device))
    # A check says something of texts alike in which tokens may be hidden, apart from their number. In most texts
    # all but a few tokens at either end may be, and these few are what counts.
    hideable = tokens.groups != _ALWAYS_SHOWN
    places = np.flatnonzero(hideable)
    first, last = int(places[0]), len(hideable) - 1 - int(places[-1])
    pattern = (first, last) if len(places) == len(hideable) - first - last else hideable.tobytes()
    notes, question = notes_of(module), ("token removal", weights_mark(module), pattern)
    # Lengths of texts that were checked: attention in windows or blocks is exact up to a length only.
    exact_up_to, inexact_from = notes.get(question, (0, 1 << 62))
    if not exact_up_to < len(ids) < inexact_from:
        return removal if len(ids) <= exact_up_to else None
    exact = _is_exact(module, removal)
    if exact is not None:
        notes[question] = (len(ids), inexact_from) if exact else (exact_up_to, len(ids))
    return removal if exact else None


def _is_exact(module: Any, removal: TokenRemoval) -> bool | None:
    """Whether leaving tokens out gives the scores of masking; None if scores that never change do not tell.

    In random masks of many, some, few and no tokens, every token that may be hidden is a feature of its own,
    whatever the features are. A module in half precision is checked in full precision first, where it must be exact;
    then its own scores must be the same but for its rounding.
    """
    torch, tokens, wide = import_torch(), removal.tokens, widened(module)
    places = np.flatnonzero(tokens.groups != _ALWAYS_SHOWN)
    ranks = np.argsort(stream(0, "token removal").random((len(_KEPT_SHARES), len(places))), axis=1)
    masks = np.ones((len(_KEPT_SHARES), len(tokens.groups)), dtype=bool)
    masks[:, places] = ranks < np.round(np.array(_KEPT_SHARES) * len(places))[:, None]
    shown = to_device(masks[masks.any(axis=1)], tokens.fields["input_ids"].device)
    rows = shown.split(1)
    for judged in (wide,) if wide is module else (wide, module):
        # Whatever precision surrounds the check, its verdict is about the module's own.
        with torch.autocast(shown.device.type, enabled=False):
            wanted = torch.cat([score_tensor(judged(**_drop_attention(tokens, row))) for row in rows])
            if judged is wide and wanted.dtype not in (torch.float32, torch.float64):
                return False
            if bool((wanted == wanted[:1]).all()):
                return None
            try:
                padded, shortest = (score_tensor(judged(**removal.batch(part))) for part in (shown, rows[-1]))
            except (RuntimeError, ValueError, TypeError, IndexError):
                return False
        if not (same_scores(padded, wanted) and same_scores(torch.cat([padded[:-1], shortest]), wanted)):
            return False
    return True


@dataclass(frozen=True)
class TokenFill:
    """How hidden tokens look to the module; ``token`` is the id that stands in for them, ``padding`` a side."""

    name: str
    token: int | None
    padding: str = "right"

    def batch(self, tokens: Tokens, shown: Any) -> Fields:
        """A batch of the tokens with only these (b, T) shown."""
        if self.name == _ATTENTION_DROP:
            return _drop_attention(tokens, shown)
        if self.name != _DELETION:  # hidden tokens become the fill's token, which is attended to
            batch = tokens.repeat(len(shown))
            batch["input_ids"] = batch["input_ids"].masked_fill(~shown, self.token)
            return batch
        # The others close ranks, and shorter rows are padded. A stable sort moves the hidden tokens to one end and
        # keeps the order of the shown ones.
        order = (shown if self.padding == "left" else ~shown).int().argsort(dim=1, stable=True)
        width = max(1, int(shown.sum(dim=1).max()))
        columns = order[:, slice(-width, None) if self.padding == "left" else slice(width)]
        there = shown.gather(1, columns)
        batch = {name: row[columns] * there for name, row in tokens.fields.items()}
        batch["input_ids"] = batch["input_ids"].masked_fill(~there, self.token)
        return batch


@dataclass(frozen=True, eq=False)
class TokenModel(Bound):
    """A torch classifier of texts and one text, as a function of which tokens, words or segments are shown.

    It is ``Inspectable``, and ``Differentiable`` in the input embeddings. ``baseline`` holds the embedding of the mask
    token for the fill "mask" and of the pad token for all others (zeros if there is none): no embedding equals a token
    that is not there or not attended to, so that for "drop" and "delete" it is the customary stand-in and not what the
    model sees.

    With the fill "drop", tokens that are not attended to are left out of the batches wherever that is exact, which is
    checked on random masks once per module: ``removes_tokens`` says whether it is. The check takes four rows and their
    shorter forms; they are no answers to a question, and certificates do not count them.
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
                return to_numpy(self._scores(self.fill.batch(self.tokens, shown)))
            return to_numpy(score_shown_tokens(self._scores, [(self._removal, shown)]))

    @property
    def join_key(self) -> Hashable | None:
        """What texts have in common that can be computed together; where tokens cannot be left out, their length."""
        if self.fill.name == _DELETION:  # whose rows are as long as the longest of the batch
            return None
        length = None if self.removes_tokens else len(self.groups)
        return (
            TokenModel,
            self.module,
            self.runner.acceleration,
            self.fill,
            self.softmax,
            (*self.tokens.fields,),
            length,
        )

    def score_jointly(self, parts: Sequence[tuple[TokenModel, Masks]], /) -> list[Outputs]:
        """Scores of texts of one ``join_key``, each under masks of its own, in as few passes as their lengths allow."""
        shown = [model.tokens.shown(check_masks(masks, model.n_features)) for model, masks in parts]
        with evaluating_module(self.module):
            removals = [model._removal for model, _ in parts if model._removal is not None]
            if removals:
                scores = score_shown_tokens(self._scores, list(zip(removals, shown, strict=True)))
            else:
                fields = [model.fill.batch(model.tokens, own) for (model, _), own in zip(parts, shown, strict=True)]
                scores = self._scores({name: import_torch().cat([part[name] for part in fields]) for name in fields[0]})
            return split_rows(to_numpy(scores), list(map(len, shown)))

    @cached_property
    def _removal(self) -> TokenRemoval | None:
        with evaluating_module(self.module):
            return _find_removal(self.module, self.tokens) if self.fill.name == _ATTENTION_DROP else None

    @property
    def removes_tokens(self) -> bool:
        """Whether hidden tokens are left out: for the fill "drop", if the check says that scores are the same."""
        return self._removal is not None

    @property
    def row_costs(self) -> Callable[[Masks], NDArray[Any]] | None:
        """Counts the tokens of each row that may be hidden, if hidden ones are known to be left out."""
        if self.__dict__.get("_removal") is None:  # finding out would call the module
            return None
        n_tokens = np.bincount(self.groups[self.groups != _ALWAYS_SHOWN], minlength=self.n_features)
        return lambda masks: masks @ n_tokens

    @property
    def batch_probe(self) -> BatchProbe | None:
        """What finds the number of masks per call on a CPU, unless the caller has given one."""
        if self.batch_size is not None or device_of(self.module).type != "cpu":
            return None
        if self.fill.name == _ATTENTION_DROP:  # rows are of many lengths, and times of calls say nothing
            first = max(_LEAST_ROWS, _TOKENS_PER_CALL // len(self.groups))
            probe = batch_probe(self.module, self.fill.name, first, first=first)
            probe.settled = True
            return probe
        # Twice as long a text is another question; a few tokens more are not.
        return batch_probe(self.module, self.fill.name, len(self.groups).bit_length(), first=8, clock=work_clock)

    @property
    def call_meter(self) -> CallMeter | None:
        """What finds out what a call takes, but on a CPU, where rows of texts are all that counts."""
        if self.batch_size is not None or device_of(self.module).type == "cpu":
            return None
        return call_meter(self.module, device_of(self.module), self.fill.name, len(self.groups).bit_length())

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
        elements[self.groups != _ALWAYS_SHOWN] = stand_in
        return elements

    def gradient(self, points: NDArray[Any], target: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (b, n_classes) at embeddings (b, T, d), all attended to, and the gradient of the target's score."""
        torch, array, shape = import_torch(), np.asarray(points), self.elements.shape
        if array.ndim != 3 or array.shape[1:] != shape:
            raise InvalidValueError(argument="points", must=f"have shape (b, {shape[0]}, {shape[1]})", got=array.shape)
        with evaluating_module(self.module, gradients=True):
            batch = self.tokens.repeat(len(array))
            device = batch.pop("input_ids").device
            inputs = torch.tensor(array, dtype=dtype_of(self.module), device=device, requires_grad=True)
            scores = score_tensor(self.runner.differentiable(**batch, inputs_embeds=inputs), softmax=self.softmax)
            column, n_classes = check_whole(target, "target"), scores.shape[1]
            if column >= n_classes:
                raise InvalidValueError(argument="target", must=f"be a class below {n_classes}", got=target)
            (slope,) = torch.autograd.grad(scores[:, column].sum(), inputs)
        return to_numpy(scores), to_numpy(slope)

    def lacks(self, need: str) -> str | None:
        """Why the module has no "activations" or "attentions"; None if it has."""
        if need == "activations":
            return "a text, which has no pixels"
        return lacks_attention(self.module) if need == "attentions" else None

    def network(self) -> Network:
        """The module on the text as a module on embeddings (b, T, d), all attended to."""
        twin, ids = twin_of(self.module), self.tokens.fields["input_ids"]
        run = Runner(twin, self.runner.acceleration).differentiable
        shown, hidden = (
            import_torch().tensor(part[None], dtype=dtype_of(self.module), device=ids.device)
            for part in (self.elements, self.baseline)
        )

        def score(points: Any) -> Any:
            batch = self.tokens.repeat(len(points))
            del batch["input_ids"]
            return score_tensor(run(**batch, inputs_embeds=points), softmax=self.softmax)

        return Network.of(twin, score, shown=shown, hidden=hidden, groups=self.groups[None, :, None])

    def attentions(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Attention (n_layers, n_heads, T, T), and whether each token is of each feature (T, n_features) as 0 or 1."""
        network = self.network()
        run = partial(Runner(network.module.inner, self.runner.acceleration).differentiable, **self.tokens.repeat(1))
        with network.running():
            weights = attention_weights(network.module.inner, run)
        return weights, (self.groups[:, None] == np.arange(self.n_features)).astype(np.float64)

    def _scores(self, batch: Fields) -> Any:
        return score_tensor(self.runner(**batch), softmax=self.softmax)

    def _embed(self, token_ids: Any) -> NDArray[Any]:
        get = getattr(self.module, "get_input_embeddings", None)
        if get is None:
            needs = f"a module with `get_input_embeddings`, as in Transformers, got {type(self.module)}"
            raise InvalidTypeError(f"Gradients need {needs}. Use a method that needs no gradients.")
        with evaluating_module(self.module):
            return to_numpy(get()(token_ids))


TOKEN_FILLS = {"drop": _ATTENTION_DROP, "mask": "mask token", "pad": "pad token", "delete": _DELETION}
"""Name → its words in a certificate."""


def token_fill(name: str, module: Any, tokenizer: Any) -> TokenFill:
    """The fill of this name with the tokenizer's own token for it."""
    kind = "mask" if name == "mask" else "pad"
    token = getattr(tokenizer, f"{kind}_token_id", None)
    if token is None and name != "drop":
        message = f"needs a tokenizer with a {kind} token; this one has none. Set `tokenizer.{kind}_token`, or use "
        raise InvalidValueError(f"{message}`fill='drop'`.", argument=f"fill={name!r}")
    if token is not None:
        _check_vocabulary(module, token)
    return TokenFill(TOKEN_FILLS[name], token, getattr(tokenizer, "padding_side", "right"))


def move_module(module: Any, device: Any, dtype: Any) -> Any:
    """The module itself, or a copy if another device or number type is asked for: the caller's stays where it is."""
    here, there, number_type = device_of(module), device_of(module, device), dtype_of(module, dtype)
    same_device = here.type == there.type and there.index in (None, here.index)
    if same_device and dtype_of(module) == number_type:
        return module
    return deepcopy(module).to(device=there, dtype=number_type)

"""Conversations → answers of a causal language model that runs here, and, in one pass each, whether a given one comes.

An answer is written token by token, each a pass of the model. Whether greedy decoding would give an answer that is
known takes one pass: the answer's tokens are appended to the prompt, and each must be the most likely one at its place.
Prompts about the same passages begin alike, so what a batch has in common is computed once. That is exact for models
that keep keys and values of the past; whether a model is one of those is checked, once per module and its weights.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.extras import check_installed
from holdfast.fingerprints import canonical, fingerprint
from holdfast.masking.context.endpoint import Completion, check_messages
from holdfast.masking.context.sharing import Ids, common_with_next, group_prompts, n_common
from holdfast.masking.hub import SAFE, check_weights, load_module, offline, open_folder, reading, silence
from holdfast.masking.speed import pass_overhead, same_scores
from holdfast.masking.text.tokens import length_limit
from holdfast.masking.torch import (
    check_device,
    check_dtype,
    device_of,
    evaluating_module,
    fingerprint_live,
    forward_parameters,
    import_torch,
    is_module,
    notes_of,
    score_tensor,
    to_numpy,
    twin_of,
    weights_mark,
)
from holdfast.randomness import stream
from holdfast.validation import check_amount, check_flag, check_list, check_size, check_whole, shown

_N_CHECKED = 4  # rows of the check whether batches are computed exactly
_COPYING = 2  # times the cost of a pass, since keys and values are copied too; 1.9 on a model of 30 layers on a CPU
_REFUSALS = (ValueError, TypeError, IndexError, AttributeError, NotImplementedError)  # of models without such a past


class ReferencePass(NamedTuple):
    """What one pass over a prompt and the tokens of a reference says of greedy decoding; arrays (b,).

    Attributes
    ----------
    gives : Boolean
        Whether the model would write the reference, and then end.
    margins : float
        The least lead of a token of the reference over every other token, in logits: positive if each is the most
        likely, else how far the worst is behind, as a negative number. Where it is about as small as rounding, another
        batch size or device may decide otherwise. It is about the tokens that the tokenizer splits the reference into,
        also where the model writes the same text in others; of a longer reference, about the first ``max_tokens``.
    log_probabilities : float
        Natural logarithm of the probability that the model writes all tokens of the reference and then ends, at
        temperature 1, whatever ``max_tokens`` is.
    """

    gives: NDArray[np.bool_]
    margins: NDArray[np.float64]
    log_probabilities: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CausalModel:
    """A causal language model of Transformers that runs here: conversations in, answers out, in the same order.

    The chat template of the tokenizer is applied if it has one; otherwise the contents of the messages are joined by
    blank lines, and the model goes on from there. Decoding is greedy at temperature 0, and exact sampling from the
    model's probabilities above; whatever else the model's ``generation_config`` asks for is left out, apart from the
    tokens that end an answer. The module's mode and settings stay as they were.

    Parameters
    ----------
    module : torch.nn.Module
        A model of Transformers with a language modelling head, wherever it is.
    tokenizer : tokenizer of Transformers
        Its own.
    max_tokens : int
        Most tokens of an answer.
    temperature : float
        0 for the most likely token each time.
    batch_size : int
        Most conversations in one pass.

    Notes
    -----
    With a folder that ``save_pretrained`` wrote::

        model = CausalModel.load("hf:my-model", max_tokens=16)
        question = [{"role": "user", "content": "What is the capital of France?"}]
        answer = model([question])[0].text
        assert model.gives([question], answer)[0]
    """

    module: Any
    tokenizer: Any
    _: KW_ONLY
    max_tokens: int = 64
    temperature: float = 0.0
    batch_size: int = 16

    def __post_init__(self) -> None:
        if not is_module(self.module) or not hasattr(self.module, "generate"):
            must = "be a model of Transformers that can `generate`"
            raise InvalidTypeError(argument="module", must=must, got=shown(self.module))
        if not callable(self.tokenizer) or not hasattr(self.tokenizer, "decode"):
            raise InvalidTypeError(
                argument="tokenizer", must="be a tokenizer of Transformers", got=shown(self.tokenizer)
            )
        checked = {
            "max_tokens": check_size(self.max_tokens, "max_tokens"),
            "temperature": check_amount(self.temperature, "temperature", may_be_zero=True),
            "batch_size": check_size(self.batch_size, "batch_size"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not self.ends:
            must, hint = "have a token that ends an answer", "Set `tokenizer.eos_token`."
            raise InvalidValueError(argument="tokenizer", must=must, got="none", hint=hint)

    @classmethod
    def load(
        cls,
        place: str,
        *,
        device: Any = None,
        dtype: Any = None,
        revision: str | None = None,
        download: bool = True,
        **options: Any,
    ) -> CausalModel:
        """Load ``hf:<folder>`` or ``hf:<hub id>``: safetensors only, no remote code, float32 on the CPU unless asked.

        Options are those of the class. ``download`` says whether a hub id that is not in the cache may be downloaded.
        """
        check_installed("This model", ("torch", "transformers"))
        if not isinstance(place, str) or not place.removeprefix("hf:"):
            raise InvalidTypeError(argument="place", must="be hf:<folder> or hf:<hub id>", got=shown(place))
        check_flag(download, "download")
        where, number_type = check_device(device), check_dtype(dtype)
        folder, _ = open_folder(place.removeprefix("hf:"), revision, download)
        transformers: Any = import_module("transformers")
        with silence(), offline():
            check_weights(folder)
            module = load_module(folder, transformers.AutoModelForCausalLM, number_type)
            with reading("the tokenizer", folder):
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **SAFE)
        return cls(module.to(where), tokenizer, **options)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights, tokenizer, chat template and options: the same for every load of the same files."""
        settings = {"max_tokens": self.max_tokens, "temperature": self.temperature, "ends": sorted(self.ends)}
        parts = {"template": self.tokenizer.chat_template, "settings": settings}
        live = fingerprint_live(self.module, self.tokenizer)
        return fingerprint({"model": str(live).encode()} | {name: canonical(part) for name, part in parts.items()})

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer: of the generation config, the tokenizer and the chat template."""
        configured = getattr(getattr(self.module, "generation_config", None), "eos_token_id", None)
        ends = {*configured} if isinstance(configured, (list, tuple)) else {configured}
        ends |= {getattr(self.tokenizer, "eos_token_id", None), self._chat_end()}
        return frozenset(int(end) for end in ends if end is not None)

    def __call__(
        self, conversations: Sequence[Sequence[Mapping[str, str]]], samples: Sequence[int] | None = None
    ) -> list[Completion]:
        """Answers to conversations, in their order; each is a list of messages with a ``role`` and a ``content``.

        Above temperature 0, ``samples`` says for each conversation which draw it is: another number is another
        independent draw, the same number of the same conversation is the same one. Without it all are draw 0. Nothing
        is drawn from the generators of torch.
        """
        prompts = self._prompts(conversations)
        numbers = _check_samples(samples, len(prompts))
        requests = [
            (prompt, number if self.temperature > 0 else 0) for prompt, number in zip(prompts, numbers, strict=True)
        ]
        # Prompts of about the same length are padded least.
        distinct = sorted(set(requests), key=lambda request: (len(request[0]), request))
        answers: dict[tuple[Ids, int], Completion] = {}
        for batch in _batches(distinct, self.batch_size):
            answers |= zip(batch, self._generate(batch), strict=True)
        ordered = []
        for request in requests:
            ordered.append(answers[request])
            answers[request] = ordered[-1]._replace(cached=True)  # whoever asks the same waits for nothing
        return ordered

    def gives(self, conversations: Sequence[Sequence[Mapping[str, str]]], reference: str) -> NDArray[np.bool_]:
        """Whether greedy decoding would answer each conversation with this text and then end, Boolean (b,).

        It is what ``__call__`` at temperature 0 says, rounding aside, at the cost of one pass for each conversation;
        ``max_tokens`` counts as there. The text is compared without white space around it.
        """
        return self.passes(conversations, reference).gives

    def margins(self, conversations: Sequence[Sequence[Mapping[str, str]]], reference: str) -> NDArray[np.float64]:
        """How far greedy decoding is from giving another answer, or from giving this one, in logits (b,)."""
        return self.passes(conversations, reference).margins

    def log_probability(
        self, conversations: Sequence[Sequence[Mapping[str, str]]], reference: str
    ) -> NDArray[np.float64]:
        """Log-probability (b,) of all of the reference's tokens and the end after them, at temperature 1."""
        return self.passes(conversations, reference).log_probabilities

    def passes(self, conversations: Sequence[Sequence[Mapping[str, str]]], reference: str) -> ReferencePass:
        """All that one pass for each conversation says of the reference.

        The reference is split into tokens as the tokenizer does it. Where the model would leave these tokens for one
        that still spells the reference, it may come to the same text in other tokens: that answer is generated.
        """
        if not isinstance(reference, str):
            raise InvalidTypeError(argument="reference", must="be a text", got=shown(reference))
        text = reference.strip()
        if not text:
            must = "not be blank"
            raise InvalidValueError(argument="reference", must=must, got=shown(reference))
        entries = [check_messages(entry) for entry in _check_conversations(conversations)]
        answers = [self._answer_ids(entry, text) for entry in entries]
        prompts = self._prompts(entries, max(map(len, answers), default=0))
        # Those who begin alike are neighbours, and share most of their prompt with their batch.
        distinct = sorted(set(zip(prompts, answers, strict=True)))
        results: dict[tuple[Ids, Ids], tuple[bool | None, float, float]] = {}
        for request, logits in zip(distinct, self._logits(distinct), strict=True):
            results[request] = self._follow(request[1], logits, text)
        open_rows = [request for request in distinct if results[request][0] is None]
        greedy = replace(self, temperature=0.0)
        for batch in _batches(open_rows, self.batch_size):
            for request, answer in zip(batch, greedy._generate([(prompt, 0) for prompt, _ in batch]), strict=True):
                results[request] = (answer.text == text, *results[request][1:])
        rows = [results[request] for request in zip(prompts, answers, strict=True)]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        return ReferencePass(*map(np.array, columns, (bool, float, float)))

    # -- tokens ----------------------------------------------------------------------------------------------------

    def _prompts(self, conversations: Any, n_reference: int = 0) -> list[Ids]:
        """The tokens of each conversation, after which there must be room for an answer, and for a reference."""
        prompts = [self._prompt_ids(check_messages(entry)) for entry in _check_conversations(conversations)]
        limit, longest = length_limit(self.module, self.tokenizer), max(map(len, prompts), default=0)
        if limit is not None and longest + self.max_tokens > limit:
            must = f"leave room for an answer of {self.max_tokens} tokens within the model's {limit}"
            hint = "Shorten them, or lower `max_tokens`."
            raise InvalidValueError(argument="conversations", must=must, got=f"a prompt of {longest} tokens", hint=hint)
        if limit is not None and longest + n_reference > limit:
            must = f"fit after a prompt of {longest} tokens within the model's {limit}"
            raise InvalidValueError(argument="reference", must=must, got=f"{n_reference} tokens")
        return prompts

    def _prompt_ids(self, messages: list[dict[str, str]]) -> Ids:
        if self.tokenizer.chat_template is None:
            encoding = self.tokenizer(_plain(messages), return_special_tokens_mask=True, verbose=False)
            ids, added = encoding["input_ids"], encoding["special_tokens_mask"]
            while ids and added[len(ids) - 1] and ids[-1] in self.ends:  # an answer is to follow
                ids = ids[:-1]
        else:
            options = {"add_generation_prompt": True, "tokenize": True, "return_dict": True}
            try:
                ids = self.tokenizer.apply_chat_template(messages, **options)["input_ids"]
            except import_module("jinja2").TemplateError as error:
                must = "suit the chat template of the tokenizer"
                raise InvalidValueError(argument="conversations", must=must, got=str(error)) from error
        if not ids:
            raise InvalidValueError(argument="conversations", must="have at least one token each", got="none")
        return tuple(ids)

    def _answer_ids(self, messages: list[dict[str, str]], text: str) -> Ids:
        """The tokens of an answer: after a plain text that does not end in white space, a space comes first."""
        is_plain = self.tokenizer.chat_template is None
        gap = " " if is_plain and not _plain(messages)[-1:].isspace() else ""
        ids = tuple(self.tokenizer(gap + text, add_special_tokens=False, verbose=False)["input_ids"])
        if not ids:
            raise InvalidValueError(argument="reference", must="have at least one token", got=shown(text))
        return ids

    def _text(self, ids: Iterable[int]) -> str:
        """The text of an answer up to its end, without special tokens and white space around it."""
        tokens = [*takewhile(lambda token: token not in self.ends, ids)]
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(tokens, **options)).strip()

    def _chat_end(self) -> int | None:
        """The special token that the chat template writes behind an answer, which ends it."""
        if getattr(self.tokenizer, "chat_template", None) is None:
            return None
        mark = "holdfast"
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": mark}]
        try:
            whole = self.tokenizer.apply_chat_template(messages, tokenize=False)
        except import_module("jinja2").TemplateError:
            return None
        behind = self.tokenizer(whole.rpartition(mark)[2], add_special_tokens=False, verbose=False)["input_ids"]
        return behind[0] if behind and behind[0] in self.tokenizer.all_special_ids else None

    # -- passes ----------------------------------------------------------------------------------------------------

    def _follow(self, answer: Ids, logits: Any, text: str) -> tuple[bool | None, float, float]:
        """Whether an answer is given (None if its logits cannot tell), its margin and its log-probability."""
        torch = import_torch()
        wanted = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
        wanted[range(len(answer)), answer] = True
        wanted[-1, sorted(self.ends)] = True
        scores = logits.float()
        inside, outside = scores.masked_fill(~wanted, -torch.inf), scores.masked_fill(wanted, -torch.inf)
        logs = to_numpy(inside.logsumexp(dim=1) - scores.logsumexp(dim=1)).astype(np.float64)
        written = slice(self.max_tokens)  # what comes later, such as the end, is not generated
        margin = float((inside.amax(dim=1) - outside.amax(dim=1))[written].min())
        tokens = scores[written].argmax(dim=1)
        is_followed = wanted[written].gather(1, tokens[:, None])[:, 0].tolist()
        n_followed = len([*takewhile(bool, is_followed)])
        path = answer[:n_followed] + tuple(tokens[n_followed : n_followed + 1].tolist())
        return self._spells(path, text, is_whole=n_followed == len(is_followed)), margin, float(logs.sum())

    def _spells(self, path: Ids, text: str, *, is_whole: bool) -> bool | None:
        """Whether an answer that begins with these tokens, or is whole, has this text; None if that is open."""
        if is_whole or self.ends.intersection(path) or len(path) >= self.max_tokens:
            return self._text(path) == text
        # Half a letter is decoded as the replacement character.
        return None if text.startswith(self._text(path).rstrip("\ufffd").rstrip()) else False

    def _logits(self, requests: list[tuple[Ids, Ids]]) -> Iterator[Any]:
        """For each prompt and answer, in the order of their tokens, the logits (n + 1, vocabulary) of the answer."""
        rows, ends = [prompt + answer for prompt, answer in requests], [len(prompt) - 1 for prompt, _ in requests]
        if "past_key_values" not in forward_parameters(self.module):
            ends = [0] * len(ends)
        overhead = _COPYING * pass_overhead(self.module, device_of(self.module))
        groups = group_prompts(rows, ends, most=self.batch_size, overhead=overhead)
        path: list[tuple[int, Any]] = []  # how many tokens of this row are computed, and their keys and values
        previous: Ids = ()
        for group, n_next in common_with_next(rows, groups):
            batch, first = requests[group.start : group.stop], rows[group.start]
            n_kept = min(n_common(previous, first), group.n_shared)
            path, previous = [node for node in path if node[0] <= n_kept], first
            # Attention in windows is exact up to a length only: longer rows are checked anew.
            longest = max(map(len, rows[group.start : group.stop]))
            kind = ("batch of prompts", weights_mark(self.module), longest.bit_length(), group.n_shared > 0)
            if len(batch) == 1 and not group.n_shared:
                yield from self._run(batch)
                continue
            notes = notes_of(self.module)
            if notes.get(kind, True):
                try:
                    past = self._extend(path, first, [n_next, group.n_shared], overhead)
                    logits = self._run(batch, past, group.n_shared)
                except (*_REFUSALS, RuntimeError) as error:
                    if kind in notes or "memory" in str(error).lower():  # smaller batches are for the caller to try
                        raise
                    notes[kind], path = False, []
            if kind not in notes:
                notes[kind] = self._is_exact(batch, logits)
            if notes[kind]:
                yield from logits
            else:
                for request in batch:
                    yield from self._run([request])

    def _is_exact(self, batch: list[tuple[Ids, Ids]], logits: list[Any]) -> bool:
        """Whether a batch has the logits of passes of their own, rounding aside."""
        cat = import_torch().cat
        chosen = sorted({*np.linspace(0, len(batch) - 1, _N_CHECKED).round().astype(int).tolist()})
        alone = [row for i in chosen for row in self._run([batch[i]])]
        return same_scores(cat([logits[i] for i in chosen]), cat(alone))

    def _extend(self, path: list[tuple[int, Any]], row: Ids, stops: list[int], overhead: float) -> Any:
        """The keys and values of what a group shares; those of a part that is worth a pass of its own join the path."""
        torch, twin, device = import_torch(), self._twin, device_of(self.module)
        for stop in stops:
            n_known, past = path[-1] if path else (0, None)
            if stop <= n_known or (stop < stops[-1] and stop - n_known < overhead):
                continue
            batch = {
                "input_ids": torch.tensor([row[n_known:stop]], device=device),
                "attention_mask": torch.ones((1, stop), dtype=torch.long, device=device),
            }
            if "position_ids" in forward_parameters(self.module):
                batch["position_ids"] = torch.arange(n_known, stop, device=device)[None]
            last = torch.zeros((1, 1), dtype=torch.long, device=device)  # no logits are needed
            with evaluating_module(twin), _taking_places(last):
                past = twin(**batch, past_key_values=deepcopy(past), use_cache=True).past_key_values
            path.append((stop, past))
        return path[-1][1] if path else None

    def _run(self, requests: list[tuple[Ids, Ids]], past: Any = None, n_shared: int = 0) -> list[Any]:
        """Logits of one pass over what rows do not share, filled up on the right."""
        torch, twin, device = import_torch(), self._twin, device_of(self.module)
        rows = [(prompt + answer)[n_shared:] for prompt, answer in requests]
        lengths, counts = torch.tensor([*map(len, rows)]), [len(answer) + 1 for _, answer in requests]
        width, n_most = int(lengths.max()), max(counts)
        # The last places of each row; of rows that ask for fewer, the first of these are not used.
        places = (lengths[:, None] - n_most + torch.arange(n_most)).clamp(min=0).to(device)
        attention = torch.arange(n_shared + width) < n_shared + lengths[:, None]
        batch = {
            "input_ids": torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device),
            "attention_mask": attention.long().to(device),
        }
        if "position_ids" in forward_parameters(self.module):
            batch["position_ids"] = torch.arange(n_shared, n_shared + width, device=device).repeat(len(rows), 1)
        with evaluating_module(twin), _taking_places(places) as taken:
            if past is not None:
                batch["past_key_values"] = deepcopy(past)
                batch["past_key_values"].batch_repeat_interleave(len(rows))
            logits = score_tensor(twin(**batch, use_cache=past is not None))
        if not taken:
            logits = _take(logits, places)
        return [row[n_most - n :] for row, n in zip(logits, counts, strict=True)]

    def _generate(self, batch: list[tuple[Ids, int]]) -> list[Completion]:
        """Answers to prompts; of each, the draw of this number."""
        torch, transformers, twin = import_torch(), import_module("transformers"), self._twin
        device, pad = device_of(self.module), getattr(self.tokenizer, "pad_token_id", None)
        pad, width = min(self.ends) if pad is None else pad, max(len(prompt) for prompt, _ in batch)
        ids = [[*[pad] * (width - len(prompt)), *prompt] for prompt, _ in batch]
        attention = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in batch]
        plain = {"do_sample": False, "num_beams": 1, "max_new_tokens": self.max_tokens}
        config = transformers.GenerationConfig(**plain, eos_token_id=sorted(self.ends), pad_token_id=pad)
        processors = [GumbelNoise(self.temperature, batch, width)] if self.temperature > 0 else []
        with evaluating_module(twin):
            rows = twin.generate(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=torch.tensor(attention, device=device),
                generation_config=config,
                logits_processor=transformers.LogitsProcessorList(processors),
            )
        answers = []
        for (prompt, _), row in zip(batch, rows[:, width:].tolist(), strict=True):
            n_written = next((i for i, token in enumerate(row, start=1) if token in self.ends), None)  # with the end
            n_tokens, reason = (len(row), "length") if n_written is None else (n_written, "stop")
            answers.append(Completion(self._text(row), len(prompt), n_tokens, False, reason))
        return answers

    @property
    def _twin(self) -> Any:
        """The module with settings of its own: no defaults for generation, and a head that can skip places."""
        notes, mark = notes_of(self.module), weights_mark(self.module)
        if notes.get("language twin", (None,))[0] != mark:
            twin = twin_of(self.module)
            twin.generation_config = import_module("transformers").GenerationConfig()
            head = twin.get_output_embeddings()
            if head is not None:
                head.register_forward_pre_hook(_take_inputs)
            notes["language twin"] = (mark, twin)
        return notes["language twin"][1]


@dataclass(frozen=True)
class GumbelNoise:
    """Turns the most likely token into an exact draw: argmax of logits / temperature + Gumbel noise.

    The noise of a row depends on its prompt, the number of its draw and the step, and not on the rows beside it.
    """

    temperature: float
    batch: list[tuple[Ids, int]]
    width: int

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        torch, step = import_torch(), str(input_ids.shape[1] - self.width)
        noise = np.empty(tuple(scores.shape), dtype=np.float32)
        for row, (prompt, number) in zip(noise, self.batch, strict=True):
            row[:] = stream(number, "answer", np.array(prompt, dtype="<i8").tobytes(), step).gumbel(size=len(row))
        return scores.float() / self.temperature + torch.from_numpy(noise).to(scores.device)


_PLACES = threading.local()  # of each thread: at which places of each row its pass is to compute logits


@contextmanager
def _taking_places(places: Any) -> Iterator[list[bool]]:
    """Logits are computed at these places (b, n) alone, in this thread; the list is empty if the model cannot."""
    _PLACES.wanted, _PLACES.taken = places, []
    try:
        yield _PLACES.taken
    finally:
        _PLACES.wanted = None


def _take_inputs(layer: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A hook of the last layer."""
    places = getattr(_PLACES, "wanted", None)
    if places is None or not inputs or inputs[0].ndim != 3:
        return None
    _PLACES.taken.append(True)
    return (_take(inputs[0], places), *inputs[1:])


def _take(values: Any, places: Any) -> Any:
    """Values (b, T, d) at places (b, n)."""
    return values[import_torch().arange(len(places), device=values.device)[:, None], places]


def _plain(messages: list[dict[str, str]]) -> str:
    return "\n\n".join(message["content"] for message in messages)


def _batches(requests: list[Any], size: int) -> Iterator[list[Any]]:
    return (requests[start : start + size] for start in range(0, len(requests), size))


def _check_conversations(conversations: Any) -> list[Any]:
    return check_list(conversations, "conversations", "be a list of conversations")


def _check_samples(samples: Any, n: int) -> list[int]:
    if samples is None:
        return [0] * n
    must = "hold one whole number ≥ 0 for each conversation"
    numbers = [check_whole(number, "samples") for number in check_list(samples, "samples", must)]
    if len(numbers) != n:
        raise InvalidValueError(argument="samples", must=must, got=f"{len(numbers)} for {n} conversations")
    return numbers

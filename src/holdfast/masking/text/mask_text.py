"""A text and any classifier of texts → a ``MaskedModel`` whose features are tokens, words or segments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.speed import Acceleration, Runner
from holdfast.masking.text.strings import (
    DEFAULT_JOIN,
    OneByOne,
    Parts,
    Span,
    TextModel,
    check_segments,
    check_unicode,
    fingerprint_text,
    join_segments,
    locate,
    normalise_answer,
    preview,
    read_fill,
    segment_parts,
    word_parts,
)
from holdfast.masking.text.token_model import TOKEN_FILLS, TokenModel, make_fill, place
from holdfast.masking.text.tokens import tokenize
from holdfast.masking.torch import fingerprint_live, is_module, warn_if_half
from holdfast.types import Provenance
from holdfast.validation import check_flag, check_name, check_whole


def mask_text(
    classifier: Any,
    text: str | None = None,
    *,
    tokenizer: Any = None,
    features: str | None = None,
    fill: str | None = None,
    segments: Sequence[str] | None = None,
    join: str | Callable[[list[str]], str] | None = None,
    normalise: Callable[[Any], Hashable] | None = None,
    batched: bool | None = None,
    device: Any = None,
    dtype: Any = None,
    batch_size: int | None = None,
    softmax: bool = False,
    max_length: int | None = None,
    autocast: str | None = None,
    compile: bool | str = False,  # noqa: A002
    fingerprint: str | None = None,
) -> TokenModel | TextModel:
    """Ask a classifier of texts about one text with some of its tokens, words or segments hidden.

    The classifier is a torch module with its tokenizer, a Transformers text-classification pipeline,
    or any callable on strings: a scikit-learn ``predict_proba``, a rule, a language model.

    Special tokens are never features and always shown. A text is never cut off silently. The
    caller's module keeps its mode, its device and its number type.

    Parameters
    ----------
    classifier : torch module, pipeline or callable
        A module takes ``input_ids`` and ``attention_mask``. A callable takes a list of b texts and
        returns scores (b, n_classes) or b labels; with ``segments`` it takes one text and returns
        one answer (see ``batched``). It must cope with an empty text.
    text : str, optional
        The input. With ``segments``, a text that holds them in their order, such as a prompt:
        whatever stands between them is always shown.
    tokenizer : tokenizer of Transformers
        Needed for a module; a pipeline brings its own.
    features : "tokens" or "words", optional
        A module's default is one feature per token; "words" takes all sub-tokens of what the
        tokenizer calls a word together. For callables, words are what stands between white space.
    fill : str, optional
        For modules: "drop" (default: hidden tokens are not attended to, as in the paper, and not
        computed either where that gives the same scores; see ``removes_tokens``), "mask" (the mask
        token), "pad" (the pad token, attended to) or "delete" (removed, the rest closes ranks). For
        callables: "delete" (default; the white space before goes along) or "replace:" followed by
        what to write for whatever is hidden, such as "replace:[…]".
    segments : list of str, optional
        Sentences, passages or retrieved documents, each a feature.
    join : str or callable, optional
        Without ``text``: how shown segments become one text; a separator (default a line break) or a
        function of the list of shown segments, such as a prompt template.
    normalise : callable, optional
        From an answer to what it counts as: equal results agree. With ``segments``, strings are by
        default compared without regard to case and white space; labels of words as they are.
    batched : bool, optional
        Whether a callable takes a list of texts (default without ``segments``) or one text (default
        with ``segments``).
    device, dtype : optional
        Where and in which numbers a module computes; a copy is made if it is elsewhere.
    batch_size : int, optional
        Most texts per call; by default what the first calls show to be fastest, at most 256.
    softmax : bool
        Whether a module's scores become probabilities.
    max_length : int, optional
        Cut the text off after this many tokens, special ones included; recorded in the provenance.
    autocast : "bf16" or "fp16", optional
        Compute a module's matrix products in this precision; recorded in the provenance.
    compile : bool or str
        Compile a module with ``torch.compile``, by its default backend or the named one; recorded in
        the provenance. The first calls are slow.
    fingerprint : str, optional
        What identifies the classifier; recorded in the provenance. If None, that of a module and its tokenizer
        is computed; a function has none.

    Returns
    -------
    TokenModel or TextModel
        A ``MaskedModel`` with ``feature_names`` and ``provenance``; for modules also
        ``Differentiable``.

    Examples
    --------
    >>> import numpy as np
    >>> def sentiment(texts):
    ...     return ["bad" if "not" in text.split() else "good" for text in texts]
    >>> model = mask_text(sentiment, "this is  not good")
    >>> model.feature_names
    ('this', 'is', 'not', 'good')
    >>> model(np.array([[True, True, True, True], [True, True, False, True]])).tolist()
    ['bad', 'good']

    A language model's answer, against the passages it was given:

    >>> def ask(prompt):
    ...     return "Paris" if "capital" in prompt else "I do not know"
    >>> passages = ["France is in Europe.", "Its capital is Paris."]
    >>> model = mask_text(ask, segments=passages)
    >>> model(np.array([[True, True], [True, False]])).tolist()
    ['paris', 'i do not know']
    """
    check_flag(softmax, "softmax")
    source = _read_source(text, segments, join, features)
    size = None if batch_size is None else check_whole(batch_size, "batch_size", minimum=1)
    module, own_tokenizer = _unwrap(classifier)
    acceleration = Acceleration.check(autocast, compile)
    if is_module(module):
        _refuse("a callable on strings", normalise=normalise, batched=batched)
        chosen = _check_tokenizer(own_tokenizer if tokenizer is None else tokenizer)
        if dtype is None:
            warn_if_half(module, device)
        return _mask_tokens(
            Runner(place(module, device, dtype), acceleration),
            chosen,
            source,
            fill="drop" if fill is None else check_name(fill, "fill", TOKEN_FILLS),
            max_length=max_length,
            softmax=softmax,
            dtype=dtype,
            batch_size=size,
            fingerprint=fingerprint_live(module, chosen) if fingerprint is None else fingerprint,
        )
    own = {"tokenizer": tokenizer, "device": device, "dtype": dtype, "max_length": max_length}
    _refuse("a torch module", **own, **acceleration.options, softmax=softmax or None)
    return _mask_strings(
        _check_callable(classifier, batched=source.segments is None if batched is None else batched),
        source,
        fill=read_fill(fill),
        normalise=normalise,
        batch_size=size,
        fingerprint=fingerprint,
    )


@dataclass(frozen=True)
class _Source:
    """The text and what its features are, as the caller wrote them."""

    text: str | None
    segments: tuple[str, ...] | None
    join: str | Callable[[list[str]], str] | None
    features: str | None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the text; if there are segments, of the text and of each of them."""
        whole = () if self.text is None else (self.text,)
        return fingerprint_text(*whole, *(self.segments or ()))

    @property
    def separator(self) -> str | None:
        """What stands between joined segments, in words."""
        if self.segments is None or self.text is not None:
            return None
        if callable(self.join):
            return f"joined by {_name(self.join)}"
        return f"joined by {DEFAULT_JOIN if self.join is None else self.join!r}"

    def parts(self) -> Parts:
        """What texts for a callable are written of."""
        if self.segments is not None:
            return segment_parts(self.text, self.segments, self.join)
        if self.features == "tokens":
            raise InvalidValueError("`features='tokens'` needs a torch module and its tokenizer, got a callable.")
        return word_parts(self.text or "")

    def spans(self) -> tuple[str, str | tuple[Span, ...]]:
        """The whole text for a tokenizer, and its features: their kind, or their places."""
        if self.segments is None:
            return self.text or "", self.features or "tokens"
        if self.text is not None:
            return self.text, locate(self.text, self.segments)
        if callable(self.join):
            raise InvalidTypeError("`join` must be a string for a torch module. Pass the whole `text` instead.")
        return join_segments(self.segments, DEFAULT_JOIN if self.join is None else self.join)

    def provenance(self, kind: str, *notes: str | None, fingerprint: str | None) -> Provenance:
        """What is hidden and how, in words, and what identifies model and text."""
        words = ", ".join(note for note in (kind, self.separator, *notes) if note)
        return Provenance(masking=words, model=fingerprint, input=self.fingerprint)


def _mask_tokens(
    runner: Runner,
    tokenizer: Any,
    source: _Source,
    *,
    fill: str,
    max_length: int | None,
    softmax: bool,
    dtype: Any,
    batch_size: int | None,
    fingerprint: str | None,
) -> TokenModel:
    text, features = source.spans()
    made = make_fill(fill, runner.module, tokenizer)
    tokens = tokenize(runner.module, tokenizer, text, features=features, max_length=max_length)
    kind = features if isinstance(features, str) else "segments"
    numbers = None if dtype is None else f"computed in {str(dtype).removeprefix('torch.')}"
    notes = (f"fill {made.name}", tokens.cut, "softmax" if softmax else None, numbers, *runner.acceleration.words)
    provenance = source.provenance(kind, *notes, fingerprint=fingerprint)
    return TokenModel(runner, tokens, made, softmax, batch_size, provenance)


def _mask_strings(
    answer: Callable[[list[str]], Any],
    source: _Source,
    *,
    fill: str | None,
    normalise: Callable[[Any], Hashable] | None,
    batch_size: int | None,
    fingerprint: str | None,
) -> TextModel:
    parts = source.parts()
    if normalise is None and source.segments is not None:
        normalise = normalise_answer
    kind = "words" if source.segments is None else "segments"
    look = "fill deletion" if fill is None else f"fill text {fill!r}"
    same = None if normalise is None else f"answers compared by {_name(normalise)}"
    provenance = source.provenance(kind, look, same, fingerprint=fingerprint)
    return TextModel(answer, parts, fill, normalise, batch_size, provenance)


def _read_source(text: Any, segments: Any, join: Any, features: Any) -> _Source:
    if text is None and segments is None:
        raise InvalidTypeError("`text` must be a string, got None. Give a text, or its `segments=`.")
    if text is not None and not isinstance(text, str):
        raise InvalidTypeError(f"`text` must be a string, got {preview(repr(text))}.")
    if text is not None and not text.strip():
        raise InvalidValueError(f"`text` must not be empty, got {text!r}.")
    check_unicode(text or "", "text")
    if features is not None:
        check_name(features, "features", ["tokens", "words"])
    if segments is None:
        _refuse("segments", join=join)
        return _Source(text, None, None, features)
    if features is not None:
        raise InvalidValueError(f"`features` must be left out when `segments` are given, got {features!r}.")
    if text is not None and join is not None:
        raise InvalidValueError("`join` must be left out when `text` already holds the segments.")
    return _Source(text, check_segments(segments), _check_join(join), None)


def _unwrap(classifier: Any) -> tuple[Any, Any]:
    """The module and the tokenizer of a Transformers pipeline; anything else comes back as it is."""
    kinds = {
        kind.__name__ for kind in type(classifier).__mro__ if kind.__module__.startswith("transformers.pipelines.")
    }
    if not kinds:
        return classifier, None
    if "TextClassificationPipeline" not in kinds:
        raise InvalidTypeError(
            f"`classifier` must be a text-classification pipeline, got a {type(classifier).__name__}. "
            "Wrap it in a function of a list of texts that returns scores or labels."
        )
    return classifier.model, classifier.tokenizer


def _check_tokenizer(tokenizer: Any) -> Any:
    if tokenizer is None:
        raise InvalidTypeError(
            "`tokenizer` must be given for a torch module, got None. "
            "Load it with `AutoTokenizer.from_pretrained(…)` from where the model came."
        )
    if not callable(tokenizer) or not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise InvalidTypeError(f"`tokenizer` must be a tokenizer of Transformers, got {preview(repr(tokenizer))}.")
    return tokenizer


def _check_callable(classifier: Any, *, batched: Any) -> Callable[[list[str]], Any]:
    if not callable(classifier):
        raise InvalidTypeError(
            "`classifier` must be a torch module, a text-classification pipeline or a callable on strings, "
            f"got {preview(repr(classifier))}."
        )
    if not isinstance(batched, bool):
        raise InvalidTypeError(f"`batched` must be True or False, got {batched!r}.")
    return classifier if batched else OneByOne(classifier)


def _check_join(join: Any) -> Any:
    if join is None or isinstance(join, str) or callable(join):
        return join
    raise InvalidTypeError(f"`join` must be a string or a function of a list of strings, got {join!r}.")


def _refuse(owner: str, **options: Any) -> None:
    """Options that would have no effect are an error, never ignored."""
    given = next((name for name, value in options.items() if value is not None), None)
    if given is not None:
        raise InvalidTypeError(f"`{given}` works only with {owner}, got {preview(repr(options[given]))}.")


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)

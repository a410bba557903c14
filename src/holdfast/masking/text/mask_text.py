"""A text and any classifier of texts → a ``MaskedModel`` whose features are tokens, words or segments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.fingerprints import name_of
from holdfast.masking.speed import Acceleration, Runner
from holdfast.masking.text.strings import TextModel, ask_one_by_one, normalise_answer, preview, read_source, refuse
from holdfast.masking.text.tokens import TOKEN_FILLS, TokenModel, move_module, token_fill, tokenize
from holdfast.masking.torch import classes_of, fingerprint_live, is_module, warn_half
from holdfast.validation import check_flag, check_name, check_whole

_REPLACE = "replace:"


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
    classes: Sequence[str] | None = None,
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
    classes : sequence of str, optional
        Names of the classes, in the order of the scores; by default those that a module of Transformers or an
        estimator of scikit-learn knows.

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
    source = read_source(text, segments, join, features)
    size = None if batch_size is None else check_whole(batch_size, "batch_size", minimum=1)
    module, own_tokenizer = _unwrap(classifier)
    acceleration = Acceleration.check(autocast, compile)
    if is_module(module):
        refuse("a callable on strings", normalise=normalise, batched=batched)
        chosen = own_tokenizer if tokenizer is None else tokenizer
        if chosen is None:
            hint = "Load it with `AutoTokenizer.from_pretrained(…)` from where the model came."
            raise InvalidTypeError(argument="tokenizer", must="be given for a torch module", got="None", hint=hint)
        if not callable(chosen) or not hasattr(chosen, "convert_ids_to_tokens"):
            must = "be a tokenizer of Transformers"
            raise InvalidTypeError(argument="tokenizer", must=must, got=preview(repr(chosen)))
        warn_half(module, device, dtype)
        runner = Runner(move_module(module, device, dtype), acceleration)
        known = fingerprint_live(module, chosen) if fingerprint is None else fingerprint
        filled = token_fill("drop" if fill is None else check_name(fill, "fill", TOKEN_FILLS), runner.module, chosen)
        whole, kind = source.spans()
        tokens = tokenize(runner.module, chosen, whole, features=kind, max_length=max_length)
        numbers = None if dtype is None else f"computed in {str(dtype).removeprefix('torch.')}"
        notes = (f"fill {filled.name}", tokens.cut, "softmax" if softmax else None, numbers, *acceleration.words)
        provenance = source.provenance(kind if isinstance(kind, str) else "segments", *notes, fingerprint=known)
        return TokenModel(runner, tokens, filled, softmax, size, provenance, classes_of(module, classes))
    own = {"tokenizer": tokenizer, "device": device, "dtype": dtype, "max_length": max_length}
    refuse("a torch module", **own, **acceleration.options, softmax=softmax or None)
    if not callable(classifier):
        must = "be a torch module, a text-classification pipeline or a callable on strings"
        raise InvalidTypeError(argument="classifier", must=must, got=preview(repr(classifier)))
    batched = source.segments is None if batched is None else batched
    answer = classifier if check_flag(batched, "batched") else partial(ask_one_by_one, classifier)
    written, parts = _read_fill(fill), source.parts()
    if normalise is None and source.segments is not None:
        normalise = normalise_answer
    filling = "fill deletion" if written is None else f"fill text {written!r}"
    compared = None if normalise is None else f"answers compared by {name_of(normalise)}"
    kind = "words" if source.segments is None else "segments"
    provenance = source.provenance(kind, filling, compared, fingerprint=fingerprint)
    return TextModel(answer, parts, written, normalise, size, provenance, classes_of(classifier, classes))


def _read_fill(fill: str | None) -> str | None:
    """What is written for a hidden part: nothing ("delete"), or all that follows "replace:"."""
    if isinstance(fill, str) and fill.startswith(_REPLACE):
        return fill.removeprefix(_REPLACE)
    if isinstance(fill, str) and fill in ("drop", "mask", "pad"):
        advice = 'Use "delete", or "replace:[…]" to write […] for whatever is hidden.'
        message = f"hides tokens, and a callable on strings has none. {advice}"
        raise InvalidValueError(message, argument=f"fill={fill!r}")
    check_name("delete" if fill is None else fill, "fill", ["delete", "replace:…"])
    return None


def _unwrap(classifier: Any) -> tuple[Any, Any]:
    """The module and the tokenizer of a Transformers pipeline; anything else comes back as it is."""
    kinds = [kind for kind in type(classifier).__mro__ if kind.__module__.startswith("transformers.pipelines.")]
    if not kinds:
        return classifier, None
    if "TextClassificationPipeline" not in {kind.__name__ for kind in kinds}:
        must, got = "be a text-classification pipeline", f"a {type(classifier).__name__}"
        hint = "Wrap it in a function of a list of texts that returns scores or labels."
        raise InvalidTypeError(argument="classifier", must=must, got=got, hint=hint)
    return classifier.model, classifier.tokenizer

"""A language model → a judge of whether two answers say the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.fingerprints import name_of
from holdfast.judging import Judge, JudgeErrors, Pair
from holdfast.masking.context.endpoint import Endpoint
from holdfast.validation import shown

DEFAULT_PROMPT = """Do these two answers{question} say the same? Wording, order and detail that changes nothing do not \
matter; names, numbers, dates and units do. An answer that says that it is not known is the same only as another that \
says so.

First answer: {answer}

Second answer: {reference}

Reply with one word: yes or no."""
"""What ``llm_judge`` asks; the question, if there is one, is written as ``to the question "…"``."""

_VERDICT = re.compile(r"[\W_]*(yes|no)(?![^\W_])", re.IGNORECASE)


def llm_judge(
    model: Any, *, question: str | None = None, prompt: str | None = None, errors: JudgeErrors | None = None
) -> Judge:
    """Agree when a language model says that an answer and its reference say the same.

    Its reply must begin with yes or no, in any case and after any punctuation; anything else is a ``ModelError`` that
    quotes it. The answers are written into the prompt as they are: a text that gives orders to the judge may be obeyed.

    Parameters
    ----------
    model : callable, Endpoint or str
        A function from a prompt to a reply; an ``Endpoint``, or anything called with ``conversations`` as one is; or
        ``openai:<base url>#<model>`` for any OpenAI-compatible endpoint.
    question : str, optional
        What was asked, for the judge to know what matters.
    prompt : str, optional
        What is asked in place of the default, with ``{answer}``, ``{reference}`` and, if needed, ``{question}``.
    errors : JudgeErrors, optional
        What is known of its errors, from ``judge_errors``.

    Examples
    --------
    >>> import numpy as np
    >>> def ask(prompt):
    ...     return "Yes." if prompt.count("84") == 2 else "No."
    >>> same = llm_judge(ask, question="How tall is the tower?")
    >>> same(np.array(["It is 84 m tall", "80 m"], dtype=object), "84 metres").tolist()
    [True, False]
    """
    if not (question is None or (isinstance(question, str) and question.strip())):
        raise InvalidTypeError(argument="question", must="be a text, or None", got=shown(question))
    endpoint: Any = Endpoint.from_spec(model) if isinstance(model, str) else model
    if not callable(endpoint):
        must = "be a function of a prompt, an Endpoint or openai:<base url>#<model>"
        raise InvalidTypeError(argument="model", must=must, got=shown(model))
    if prompt is None:
        template, asked = DEFAULT_PROMPT, "" if question is None else f' to the question "{question}"'
    else:
        template, asked = _check_prompt(prompt, question), question or ""
    is_endpoint = isinstance(endpoint, Endpoint)
    known = endpoint.fingerprint if is_endpoint else name_of(endpoint)
    ask = _ask_conversations if is_endpoint or _takes_conversations(endpoint) else _ask_each
    return Judge(partial(_decide, partial(ask, endpoint), template, asked), f"llm_judge({known})", errors)


def _check_prompt(prompt: Any, question: str | None) -> str:
    """A prompt into which both answers are written, and the question if there is one."""
    must = "be a text with {answer} and {reference}, and with {question} exactly if you pass one"
    if not isinstance(prompt, str):
        raise InvalidTypeError(argument="prompt", must=must, got=shown(prompt))
    texts = {"answer": "\0a", "reference": "\0r"} | ({} if question is None else {"question": "\0q"})
    try:
        written = prompt.format(**texts)
    except (LookupError, ValueError, AttributeError, MemoryError) as error:
        hint = f"It cannot be filled in: {error!r}. Write literal braces as {{{{ and }}}}."
        raise InvalidValueError(argument="prompt", must=must, got=shown(prompt), hint=hint) from error
    if not all(text in written for text in texts.values()):
        raise InvalidValueError(argument="prompt", must=must, got=shown(prompt))
    return prompt


def _takes_conversations(model: Callable[..., Any]) -> bool:
    try:
        return "conversations" in signature(model).parameters
    except (TypeError, ValueError):  # built-in functions may not say what they take
        return False


def _ask_conversations(model: Callable[..., Any], prompts: list[str]) -> list[Any]:
    return [reply.text for reply in model([[{"role": "user", "content": prompt}] for prompt in prompts])]


def _ask_each(model: Callable[[str], Any], prompts: list[str]) -> list[Any]:
    return [model(prompt) for prompt in prompts]


def _decide(ask: Callable[[list[str]], list[Any]], template: str, question: str, pairs: list[Pair]) -> list[bool]:
    prompts = [template.format(answer=answer, reference=reference, question=question) for answer, reference in pairs]
    verdicts = []
    for reply in ask(prompts):
        match = _VERDICT.match(reply) if isinstance(reply, str) else None
        if match is None:
            raise ModelError(f"The judge must reply yes or no, got {shown(reply)}. Change its `prompt`.")
        verdicts.append(match[1].lower() == "yes")
    return verdicts

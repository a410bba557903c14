"""A reader of prompts about the bundled contexts: a lookup table in place of a language model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import numpy as np

from holdfast.inputs.data import load
from holdfast.inputs.data.contexts import ContextInput
from holdfast.types import Mask

CONTEXTS: dict[str, ContextInput] = {context.question: context for context, _ in load("bundled:contexts")}
_PASSAGE = re.compile(r"^\[(\d+)\] (.+)$", re.MULTILINE)


def is_distracted(context: ContextInput) -> bool:
    """Of every third context the first passage misleads the reader when the second is shown with it."""
    return hashlib.sha256(context.question.encode()).digest()[0] % 3 == 0


def says(context: ContextInput, mask: Mask) -> str:
    """The answer, with the citations that it rests on, to a context of which only some passages are shown."""
    cited = context.cited_mask()
    if is_distracted(context) and mask[:2].all():
        return "something else [1]"
    if (mask & cited).sum() < cited.sum():
        return "I do not know"
    return f"{context.answer} {''.join(f'[{number}]' for number in context.cited or ())}"


def read(prompt: str) -> str:
    """The same from a prompt."""
    body, _, question = prompt.rpartition("\n\nQuestion: ")
    context = CONTEXTS[question.removesuffix("\nAnswer:")]
    shown = {text for _, text in _PASSAGE.findall(body)}
    return says(context, np.array([passage in shown for passage in context.passages]))


def make() -> Callable[[str], str]:
    """A factory for ``python:`` models."""
    return read


def uncited(answer: str) -> str:
    """An answer without its citations."""
    return re.sub(r"\s?\[[\d\s,;–-]+\]", "", answer).strip()

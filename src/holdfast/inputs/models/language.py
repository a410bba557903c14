"""A language model, by its endpoint, its folder or as a function → a ``Classifier`` of contexts.

What it says are answers, not scores: contexts are bound to it one by one, and never scored in batches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.inputs.data.contexts import ContextInput
from holdfast.inputs.models.classifier import Classifier
from holdfast.masking.context.endpoint import Endpoint
from holdfast.masking.context.mask_context import mask_context
from holdfast.types import MaskedModel
from holdfast.validation import check_name, shown


@dataclass(frozen=True, eq=False)
class AnswersFromContexts:
    """A language model as ``mask_context`` takes it, on one context at a time.

    The accepted forms of a context's answer count as that answer, unless only its exact tokens are to count.
    """

    function: Any

    def score(self, contexts: Any, /) -> NDArray[Any]:
        raise ModelError("A language model returns answers, not scores. Bind a context to it first.")

    def bind(self, context: Any, /, **settings: Any) -> MaskedModel:
        if not isinstance(context, ContextInput):
            must = "be a question with passages, as `data.load` returns it"
            raise InvalidTypeError(argument="input", must=must, got=shown(context))
        if "fill" in settings:
            must = "be left out: hidden passages are not written into the prompt"
            raise InvalidValueError(argument="fill", must=must, got=shown(settings["fill"]))
        options: dict[str, Any] = {"reference": context.answer, **settings}
        if context.accepted and options["reference"] == context.answer and not options.get("exact"):
            options.setdefault("accepted", context.accepted)
        return mask_context(self.function, context.passages, question=context.question, **options)


def load_endpoint(place: str, *, kind: str | None = None, **options: Any) -> Classifier:
    """A language model behind an OpenAI-compatible endpoint; further options are those of ``Endpoint``.

    The key is read from an environment variable when it is needed, and neither stored nor an option.
    """
    for name in options:
        check_name(name, "model_options", [option.name for option in fields(Endpoint)[2:] if option.init])
    if isinstance(extra := options.get("extra"), Mapping):  # of a study's file, which freezes what is inside
        options["extra"] = json.loads(json.dumps(dict(extra), default=dict))
    return language_model(Endpoint.from_spec(f"openai:{place}", **options), f"'openai:{place}'", kind=kind)


def load_causal(folder: Path, *, device: Any, dtype: Any) -> Classifier:
    """A causal language model in a folder of Transformers, which runs here."""
    causal: Any = import_module("holdfast.masking.context.causal")
    own = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
    return language_model(causal.CausalModel.load(str(folder), **own))


def language_model(
    model: Any, name: str = "this model", *, kind: str | None = "context", fingerprint: str | None = None
) -> Classifier:
    """A classifier of contexts, by whatever ``mask_context`` takes for a model."""
    if kind not in (None, "context"):
        raise InvalidValueError(argument="kind", must=f"be 'context' for {name}", got=shown(kind))
    return Classifier("context", (), fingerprint, AnswersFromContexts(model))

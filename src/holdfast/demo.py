"""The main job on the models that come with holdfast: digits, a sentence and a table row, explained and certified.

Each input gets two explanations with the same number of features: LIME's and random ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.attribution import attribute
from holdfast.certification import certify
from holdfast.evaluation import Evaluator
from holdfast.plans import plan_samples
from holdfast.results import Certificate
from holdfast.selection import top_fraction
from holdfast.types import Mask

_FRACTION = 0.25
_METHODS = {"lime": "LIME's features", "random": "Random features"}


@dataclass(frozen=True)
class _Example:
    """A model with the first n of its inputs."""

    model: str
    data: str
    what: str
    groups: Any = None
    n: int = 1


_EXAMPLES = (
    _Example("bundled:digits-vit-masked", "bundled:digits", "handwritten digits, 64 patches", (8, 8), n=2),
    _Example("bundled:lexicon-roberta", "bundled:sentences", "the mood of a sentence, word by word", "words"),
    _Example("bundled:cancer-forest", "bundled:cancer", "30 measurements of a tumour"),
)


def run_demo(*, radius: int, rng: int) -> Iterator[str]:
    """Explain and certify; yields the lines to print."""
    planned = plan_samples()
    yield f"How often does a prediction survive when up to {radius} more features are revealed than were selected?"
    yield f"{planned}"
    found: list[Certificate] = []
    for example in _EXAMPLES:
        yield f"\n{example.model}: {example.what}"
        for line, certificate in _certify(example, radius, rng):
            found.append(certificate)
            yield line
    n_calls, paper = sum(one.n_calls for one in found), planned.paper_draws * len(found)
    yield f"\n{n_calls} model calls for {len(found)} certificates; the paper draws {paper} masks for as many."


def _certify(example: _Example, radius: int, rng: int) -> Iterator[tuple[str, Certificate]]:
    from holdfast import data, models

    classifier, given = models.load(example.model), data.load(example.data)
    background = {"background": data.load(example.data, split="train").inputs} if given.kind == "table" else {}
    for one in given.inputs[: example.n]:
        bound = classifier.bind(one, groups=example.groups, **background)
        for method, name in _METHODS.items():
            selected = top_fraction(attribute(bound, method, rng=rng), _FRACTION)
            # Memory of its own: calls of the explanation are not those of the certificate.
            certificate = certify(Evaluator(bound), selected, radius=radius, rng=rng)
            yield f"\n{_show(one, selected, bound)}\n{name}: {_bar(certificate.rate)}\n{certificate}", certificate


def _show(one: Any, selected: Mask, bound: Any) -> str:
    """The input and what was selected of it."""
    if isinstance(one, np.ndarray) and one.ndim == 3:
        return _picture(one[..., 0], selected)
    names = getattr(bound, "feature_names", None) or [str(i) for i in range(len(selected))]
    chosen = ", ".join(name for name, is_in in zip(names, selected, strict=True) if is_in)
    return f"{one}\nselected: {chosen}" if isinstance(one, str) else f"selected columns: {chosen}"


def _picture(image: Any, selected: Mask) -> str:
    """The digit beside its selected pixels."""
    shades = np.array(list(" ░▒▓█"))[np.minimum(image.ravel() // 64, 4).astype(int)]
    shown = np.where(selected, np.where(shades == " ", "·", shades), " ")
    rows = zip(shades.reshape(8, 8), shown.reshape(8, 8), strict=True)
    return "\n".join("".join(np.repeat(left, 2)) + "  │  " + "".join(np.repeat(right, 2)) for left, right in rows)


def _bar(rate: float) -> str:
    filled = round(20 * rate)
    return f"{'█' * filled}{'░' * (20 - filled)} {rate:.0%}"

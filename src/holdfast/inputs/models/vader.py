"""VADER (Hutto and Gilbert 2014), a rule-based judge of sentiment → a ``Classifier`` of texts without gradients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.extras import import_extra
from holdfast.fingerprints import canonical, digest_files, fingerprint
from holdfast.inputs.models.classifier import Classifier, make_classifier
from holdfast.inputs.models.engines import FunctionOnTexts

CLASSES = ("negative", "neutral", "positive")

NEUTRAL_SCORE = 0.04995
"""Just below the 0.05 from which VADER's authors call a text positive; it rounds compounds to four digits."""


def load_vader() -> Classifier:
    """VADER as a classifier; its fingerprint covers its rules and its lexicons, whichever version is installed."""
    module = import_extra("vaderSentiment.vaderSentiment", "bundled:vader needs")
    engine = FunctionOnTexts(Vader(module.SentimentIntensityAnalyzer()))
    return make_classifier(engine, kind="text", classes=CLASSES, fingerprint=_fingerprint(Path(module.__file__)))


@dataclass(frozen=True, eq=False)
class Vader:
    """Texts → scores (b, 3): minus the compound, a constant, the compound.

    The compound is VADER's summary of a text, from -1 to 1. The largest of the three scores is what
    its authors read from it: negative up to -0.05, positive from 0.05, neutral between. A text
    without words is neutral.
    """

    analyzer: Any

    def __call__(self, texts: list[str], /) -> NDArray[np.float64]:
        compounds = np.array([self.analyzer.polarity_scores(text)["compound"] for text in texts], dtype=np.float64)
        return np.stack([-compounds, np.full(len(texts), NEUTRAL_SCORE), compounds], axis=1)


def _fingerprint(rules: Path) -> str:
    """The same wherever and however it is installed."""
    files = [rules, *(rules.parent / name for name in ("vader_lexicon.txt", "emoji_utf8_lexicon.txt"))]
    return fingerprint(digest_files(files) | {"settings": canonical({"neutral": NEUTRAL_SCORE})})

"""The main job on a model anyone can train in a second: scikit-learn's handwritten digits.

A random forest is explained for three digits by two explanations with the same number of pixels:
those whose loss lowers the predicted class most, and random ones. Both are certified.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from holdfast.certification import certify
from holdfast.errors import MissingExtraError
from holdfast.masking import mask_function
from holdfast.plans import plan_samples
from holdfast.selection import top
from holdfast.types import Mask, MaskedModel, Masks

_N_DIGITS, _N_SELECTED = 3, 20


def run_demo(*, radius: int, rng: int) -> Iterator[str]:
    """Train, explain and certify; yields the lines to print."""
    forest, images = _train()
    planned = plan_samples()
    yield f"A random forest reads handwritten digits from 64 pixels. Each explanation selects {_N_SELECTED} of them;"
    yield f"how often does the prediction survive when up to {radius} more are revealed?\n{planned}"
    n_calls = n_certificates = 0
    for image in images:
        model = _bind(forest, image)
        for name, selected in _explanations(model, rng).items():
            cert = certify(model, selected, radius=radius, rng=rng)
            n_calls, n_certificates = n_calls + cert.n_calls, n_certificates + 1
            yield f"\n{_picture(image, selected)}\n{name}: {_bar(cert.rate)}\n{cert}"
    paper = planned.paper_draws * n_certificates
    yield f"\n{n_calls} model calls for {n_certificates} certificates; the paper draws {paper} masks for as many."


def _train() -> tuple[Any, Any]:
    try:
        from sklearn.datasets import load_digits
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise MissingExtraError("The demo needs scikit-learn: pip install 'holdfast[sklearn]'") from error
    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, _ = train_test_split(images, labels, random_state=0)
    forest = RandomForestClassifier(n_estimators=100, random_state=0).fit(train, train_labels)
    return forest, test[:_N_DIGITS]


def _bind(forest: Any, image: Any) -> MaskedModel:
    """A hidden pixel is black."""

    def predict(masks: Masks) -> Any:
        return forest.predict_proba(masks * image)

    return mask_function(predict, n_features=len(image))


def _explanations(model: MaskedModel, rng: int) -> dict[str, Mask]:
    n = model.n_features
    scores = model(np.concatenate([np.ones((1, n), dtype=bool), ~np.eye(n, dtype=bool)]))
    predicted = scores[0].argmax()
    random = np.random.default_rng(rng).random(n)
    return {
        "Most influential pixels": top(scores[0, predicted] - scores[1:, predicted], _N_SELECTED),
        "Random pixels": top(random, _N_SELECTED),
    }


def _picture(image: Any, selected: Mask) -> str:
    """The digit beside its selected pixels."""
    shades = np.array(list(" ░▒▓█"))[np.minimum(image // 4, 4).astype(int)]
    shown = np.where(selected, np.where(shades == " ", "·", shades), " ")
    rows = zip(shades.reshape(8, 8), shown.reshape(8, 8), strict=True)
    return "\n".join("".join(np.repeat(left, 2)) + "  │  " + "".join(np.repeat(right, 2)) for left, right in rows)


def _bar(rate: float) -> str:
    filled = round(20 * rate)
    return f"{'█' * filled}{'░' * (20 - filled)} {rate:.0%}"

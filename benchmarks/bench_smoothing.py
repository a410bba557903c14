"""Smoothing: what it costs, accuracy and stability against the keep probability, MuS against SCA.

Questions 1, 3 and 4 of the paper, small: ResNet-20 on CIFAR-10 and MiniLM on tweets where they are at
hand, and the bundled models. Means over inputs; half-widths are 1.96 standard errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks import zoo
from benchmarks.figures import Figure

N_INPUTS, N_ACCURACY = 30, 100
KEEPS = (1.0, 0.75, 0.5, 0.25)
MUS_KEEPS = (0.5, 0.375, 0.25, 0.125)
FRACTION = 0.25


@dataclass(frozen=True)
class Subject:
    """A model with inputs: ``bind`` makes one into a function of masks."""

    name: str
    bind: Any
    inputs: list[Any]
    labels: list[int]


def run() -> Iterator[Figure]:
    import torch

    torch.set_num_threads(1)
    subjects = [*_zoo_subjects(), *_bundled_subjects()]
    yield from _cost(subjects[0])
    for subject in subjects:
        yield from _accuracy(subject)
    for subject in subjects:
        yield from _stability(subject)
    for subject in subjects:
        yield from _mus_against_sca(subject)


def _zoo_subjects() -> Iterator[Subject]:
    folder = zoo.find_zoo()
    if folder is None:
        print("  LEFT OUT: ResNet-20 and MiniLM need the zoo (HOLDFAST_ZOO).")
        return
    network, (images, labels) = zoo.load_resnet20(folder), zoo.load_labelled_images(folder, N_ACCURACY)
    yield Subject("ResNet-20", lambda image: zoo.bind_image(network, image), list(images), list(labels))
    classifier = hf.models.load(f"hf:{folder / 'minilm-tweeteval-emotion'}")
    texts, labels = zoo.load_tweets(folder, N_ACCURACY)
    yield Subject("MiniLM", classifier.bind, texts, labels)


def _bundled_subjects() -> Iterator[Subject]:
    from holdfast import data

    for name in ("digits-resnet", "digits-vit", "digits-vit-masked", "lexicon-roberta", "cancer-forest"):
        classifier, card = hf.models.load(f"bundled:{name}"), _card(name)
        given = data.load(card.data)
        options = {"groups": (8, 8)} if card.kind == "image" else {}
        bind = lambda one, c=classifier, o=options: c.bind(one, **o)  # noqa: E731
        yield Subject(name, bind, list(given.inputs[:N_ACCURACY]), [int(label) for label in given.labels[:N_ACCURACY]])


def _card(name: str) -> Any:
    return next(card for card in hf.models.available() if card.name == name)


def _cost(subject: Subject) -> Iterator[Figure]:
    """Calls against counting every vote, with the same answers; time against bare passes."""
    shares, same = [], True
    for i, one in enumerate(subject.inputs[:10]):
        model = subject.bind(one)
        selected = _random(model.n_features, i)
        smoothed = hf.smooth(model, 0.9, 32, rng=i)
        early = hf.certify(smoothed, selected, radius=8, rng=i)
        hidden = hf.mask_function(hf.smooth(model, 0.9, 32, rng=i), n_features=model.n_features)
        full = hf.certify(hidden, selected, radius=8, rng=i)
        same &= (early.n_agreed, early.n_evaluated) == (full.n_agreed, full.n_evaluated)
        shares.append(early.n_calls / (32 * full.n_calls))
    yield Figure(
        f"{subject.name}: calls of 32 votes at λ=.9, share of 32 per mask", float(np.mean(shares)), at_most=0.7
    )
    yield Figure(f"{subject.name}: the same answers as counting every vote", float(same), at_least=1)
    model = subject.bind(subject.inputs[0])
    selected = _random(model.n_features, 0)
    points = np.stack([selected, np.ones_like(selected)])
    masks = (points[:, None] & hf.mus_model(model, 0.25, 64, rng=0).bank).reshape(-1, model.n_features)
    distinct = np.unique(masks, axis=0)
    ours, bare = [], []
    for _ in range(25):
        ours.append(_seconds(lambda: hf.certify_mus(model, selected, keep_probability=0.25, rng=0)))
        bare.append(_seconds(lambda: model(distinct)))
    yield Figure(f"{subject.name}: MuS over bare passes of its masks, time", min(ours) / min(bare), at_most=1.03)
    lean = hf.certify_mus(model, selected, keep_probability=0.25, input_removals=False, rng=0)
    yield Figure(f"{subject.name}: calls of MuS with 64 levels at one point", lean.n_calls, at_most=64)


def _seconds(work: Callable[[], object]) -> float:
    """Processor time of this process: waiting for other work on the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _accuracy(subject: Subject) -> Iterator[Figure]:
    found = hf.smoothed_accuracy(subject.bind, subject.inputs, subject.labels, keep_probabilities=KEEPS, rng=0)
    for keep, accuracy, (low, high) in found:
        yield Figure(f"{subject.name}: accuracy at λ={keep:g} (95 %: {low:.2f} to {high:.2f})", accuracy)


def _stability(subject: Subject) -> Iterator[Figure]:
    """Unbiased rates of random selections, at a small and a large radius (question 3)."""
    bound = [subject.bind(one) for one in subject.inputs[:N_INPUTS]]
    for keep in (1.0, 0.8, 0.5):
        rates: dict[str, list[float]] = {"small": [], "large": []}
        for i, model in enumerate(bound):
            selected = _random(model.n_features, i)
            n_free = int((~selected).sum())
            smoothed = hf.smooth(model, keep, 32, rng=i)
            for size, radius in (("small", min(2, n_free)), ("large", max(1, (2 * n_free) // 3))):
                rates[size].append(hf.certify(smoothed, selected, radius=radius, rng=i).rate_unbiased)
        for size, found in rates.items():
            yield Figure(
                f"{subject.name}: rate at a {size} radius, λ={keep:g} (±{_half(found):.2f})", float(np.mean(found))
            )


def _mus_against_sca(subject: Subject) -> Iterator[Figure]:
    """Soft and hard SCA rates and MuS rates at a few radii, LIME selections (question 1)."""
    radii = (1, 2, 3, 4, 8)
    soft, hard, mus = [], [], {keep: [] for keep in MUS_KEEPS}
    for i, one in enumerate(subject.inputs[:N_INPUTS]):
        model = hf.Evaluator(subject.bind(one))
        selected = hf.top_fraction(hf.attribute(model, "lime", n_samples=500, rng=i), FRACTION)
        curve = hf.certify_radii(model, selected, radii=radii, plan="hoeffding", rng=i)
        soft.append([c.rate for c in curve])
        hard.append([c.n_agreed == c.n_evaluated for c in curve])
        for keep in MUS_KEEPS:
            found = hf.certify_mus(model, selected, keep_probability=keep, input_removals=False, rng=i)
            mus[keep].append([found.radius >= min(r, int((~selected).sum())) for r in radii])
    rows = {"SCA-soft": soft, "SCA-hard": hard} | {f"MuS λ={keep:g}": found for keep, found in mus.items()}
    for what, found in rows.items():
        for radius, value in zip(radii, np.mean(found, axis=0), strict=True):
            yield Figure(f"{subject.name}: {what} rate at r={radius}", float(value))


def _random(n_features: int, seed: int) -> hf.Mask:
    return hf.top_fraction(np.random.default_rng(seed).random(n_features), FRACTION)


def _half(values: list[float]) -> float:
    return float(1.96 * np.std(values, ddof=1) / np.sqrt(len(values)))

"""Calls of every verb, by public names alone, whose results are recorded: they stay the same when code is rebuilt.

``python -m tests.helpers.recorded_calls tests/data/recorded_calls.json`` writes them, and ``test_recorded_calls.py``
compares. Record again only when a number is meant to move, and say so.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf

FIXTURE = Path(__file__).parents[1] / "data" / "recorded_calls.json"
COMMAND = "python -m tests.helpers.recorded_calls tests/data/recorded_calls.json"

CALLS: dict[str, Callable[[], Any]] = {}
"""Name → call. What a call gives is made plain by ``plain``."""

ROUNDED: set[str] = set()
"""Calls whose numbers are sums of many floats, which processors order and round in ways of their own."""

ROUNDED_FIELDS = {"scores", "errors", "details"}
"""Fields of which this is true in every call: scores of networks, and attributions."""


def recorded(name: str, *, rounded: bool = False) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a call."""

    def register(call: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CALLS
        CALLS[name] = call
        if rounded:
            ROUNDED.add(name)
        return call

    return register


def plain(value: Any) -> Any:
    """What JSON can hold: results by their own JSON, other values by their fields."""
    if hasattr(value, "to_json"):
        return json.loads(value.to_json())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def first(n_selected: int, n_features: int) -> Any:
    """The explanation that selects the first features."""
    return np.arange(n_features) < n_selected


# -- models -----------------------------------------------------------------------------------------

RNG = np.random.default_rng(20)
NOISE = RNG.normal(size=(2**12, 4))
MASKS = (np.arange(2**12)[:, None] >> np.arange(12) & 1).astype(bool)
WEIGHTS = RNG.normal(size=(12, 4))

SCORES = hf.lookup_table(MASKS @ WEIGHTS + 2 * NOISE, n_features=12)
LABELS = hf.lookup_table((NOISE[:, 0] > -0.8).astype(int), n_features=12)
WORDS = hf.lookup_table(np.where(NOISE[:, 1] > -1, "yes", "no"), n_features=12)
NUMBER = hf.lookup_table(NOISE[:, 2], n_features=12)
SMALL = hf.lookup_table(NOISE[:64, :2] + [1.0, 0.0], n_features=6)
COUNTED = hf.mask_function(lambda masks: masks.sum(axis=1) < 14, n_features=24)
PAIRED = hf.mask_function(lambda masks: masks[:, 0] & ~(masks[:, 5] & masks[:, 17]), n_features=24)
SCATTERED = hf.mask_function(lambda masks: masks @ (np.arange(24) ** 2 + 3) % 7 != 4, n_features=24)
RIVALS = hf.mask_function(
    lambda masks: np.stack([masks[:, :6].sum(axis=1), masks[:, 6:18].sum(axis=1) / 2 - 1], axis=1), n_features=24
)
HALF = first(6, 12)
FEW, TEN = first(4, 24), first(10, 24)


# -- certify ----------------------------------------------------------------------------------------


def same_sign(outputs: Any, reference: Any) -> Any:
    """A notion of the same prediction that a user might write."""
    return (outputs[:, 0] > 0) == (reference[0] > 0)


PLANS, NEIGHBORHOODS = ("sequential", "exact", "hoeffding"), ("additions", "removals", "swaps")
RATE_KINDS = ("uniform", "exactly", "worst_size")

for _plan, _neighborhood, _kind in product(PLANS, NEIGHBORHOODS, RATE_KINDS):

    @recorded(f"certify: {_plan}, {_neighborhood}, {_kind}")
    def _certify(plan: str = _plan, neighborhood: str = _neighborhood, kind: str = _kind) -> Any:
        return hf.certify(SCATTERED, TEN, radius=5, plan=plan, neighborhood=neighborhood, rate_kind=kind, rng=7)


CALLS |= {
    "certify: every mask": lambda: hf.certify(SCORES, HALF, radius=2, rng=0),
    "certify: canonical key": lambda: hf.certify(SCORES, HALF, radius=5, tolerance=0.2, rng="canonical"),
    "certify: canonical key of a model without fingerprint": lambda: hf.certify(
        COUNTED, FEW, radius=12, rng="canonical"
    ),
    "certify: a Generator as rng": lambda: hf.certify(COUNTED, FEW, radius=12, rng=np.random.default_rng(5)),
    "certify: no check of determinism": lambda: hf.certify(COUNTED, FEW, radius=12, check_determinism=False, rng=1),
    "certify: same_top_set": lambda: hf.certify(
        SCORES, HALF, radius=6, tolerance=0.2, agree=hf.agreement.same_top_set(2), rng=1
    ),
    "certify: within": lambda: hf.certify(NUMBER, HALF, radius=6, tolerance=0.2, agree=hf.agreement.within(1.5), rng=1),
    "certify: agreement by a function": lambda: hf.certify(
        SCORES, HALF, radius=6, tolerance=0.2, agree=same_sign, rng=1
    ),
    "certify: labels in words": lambda: hf.certify(WORDS, [0, 3, 7], radius=9, tolerance=0.2, rng=1),
    "certify: radius 0": lambda: hf.certify(LABELS, HALF, radius=0, rng=1),
    "certify: more confidence, less tolerance": lambda: hf.certify(
        COUNTED, FEW, radius=14, tolerance=0.05, confidence=0.95, rng=2
    ),
}


@recorded("certify: looks on the way")
def _certify_looks() -> Any:
    looks: list[Any] = []
    certificate = hf.certify(COUNTED, FEW, radius=14, batch_size=16, on_look=looks.append, rng=2)
    return {"looks": looks, "certificate": certificate}


@recorded("certify: two verbs share an Evaluator")
def _certify_shared() -> Any:
    evaluator = hf.Evaluator(SCORES)
    first_time = hf.certify(evaluator, HALF, radius=5, tolerance=0.2, rng=3)
    again = hf.certify(evaluator, HALF, radius=5, tolerance=0.2, rng=3)
    return {"first": first_time, "again": again, "n_calls": evaluator.n_calls}


# -- certify_radii, certified_radius, compare, stabilize, mean_curve ----------------------------------

for _kind in RATE_KINDS:

    @recorded(f"certify_radii: {_kind}")
    def _radii(kind: str = _kind) -> Any:
        return hf.certify_radii(COUNTED, FEW, radii=range(1, 21, 3), rate_kind=kind, rng=3)


for _neighborhood in NEIGHBORHOODS:

    @recorded(f"certify_radii: simultaneous, {_neighborhood}")
    def _radii_at_once(neighborhood: str = _neighborhood) -> Any:
        return hf.certify_radii(SCATTERED, TEN, radii=[1, 4, 8], neighborhood=neighborhood, simultaneous=True, rng=3)


CALLS |= {
    "certify_radii: exact plan": lambda: hf.certify_radii(
        SCORES, HALF, radii=[1, 3, 6], plan="exact", agree=hf.agreement.same_top_set(2), rng="canonical"
    ),
    "certified_radius: additions": lambda: hf.certified_radius(COUNTED, FEW, min_rate=0.9, rng=0),
    "certified_radius: asked radii of swaps": lambda: hf.certified_radius(
        SCATTERED, TEN, min_rate=0.8, radii=[1, 2, 4], neighborhood="swaps", max_draws=200, rng=4
    ),
    "certified_radius: removals, canonical": lambda: hf.certified_radius(
        SCORES, first(9, 12), min_rate=0.7, neighborhood="removals", rng="canonical"
    ),
}


for _plan in PLANS:

    @recorded(f"compare: {_plan}")
    def _compare(plan: str = _plan) -> Any:
        explanations = {"first": HALF, "last": ~HALF, "spread": np.arange(12) % 2 == 0}
        return hf.compare(LABELS, explanations, [2, 5], tolerance=0.2, plan=plan, rng=6)


@recorded("compare: removals")
def _compare_removals() -> Any:
    explanations = {"ten": TEN, "twelve": first(12, 24)}
    return hf.compare(SCATTERED, explanations, [3, 6], neighborhood="removals", rng="canonical")


CALLS |= {
    "stabilize: the smallest stable selection": lambda: hf.stabilize(
        RIVALS, np.arange(24, 0, -1), min_rate=0.8, radius=4, rng=0
    ),
    "stabilize: sizes, inconsistent ones too": lambda: hf.stabilize(
        COUNTED, np.arange(24) - 8.0, min_rate=0.7, radius=6, sizes=[2, 5, 8], absolute=True, consistent=False, rng=1
    ),
}


def subjects() -> list[Callable[[], Any]]:
    """Ten inputs with their explanations."""
    return [lambda i=i: (SCATTERED, np.roll(first(8, 24), i)) for i in range(10)]


CALLS |= {
    "mean_curve": lambda: hf.mean_curve(subjects(), radii=[1, 4, 12], half_width=0.1, rng=8),
    "mean_curve: simultaneous": lambda: hf.mean_curve(
        subjects(), radii=[2, 6], half_width=0.08, simultaneous=True, neighborhood="swaps", rng=8
    ),
}


# -- hard certificates, MuS, smoothing, witnesses ---------------------------------------------------


CALLS |= {
    "certify_hard: proof": lambda: hf.certify_hard(PAIRED, [0, 6], radius=1, max_enumerated=5000, rng=0),
    "certify_hard: refutation": lambda: hf.certify_hard(PAIRED, [0, 6], radius=3, max_enumerated=5000, rng=0),
    "certify_hard: sampling": lambda: hf.certify_hard(COUNTED, FEW, radius=9, max_enumerated=100, rng=0),
    "certify_hard: swaps": lambda: hf.certify_hard(
        SCORES, HALF, radius=2, neighborhood="swaps", agree=hf.agreement.same_top_set(2), rng=0
    ),
}


for _criterion in ("votes", "lipschitz"):

    @recorded(f"certify_mus: {_criterion}")
    def _mus(criterion: str = _criterion) -> Any:
        return hf.certify_mus(RIVALS, first(6, 24), keep_probability=0.125, criterion=criterion, rng=0)


@recorded("certify_mus: a keep probability per feature, rounded, canonical")
def _mus_rounded() -> Any:
    keep = hf.smoothing.adaptive_keep(WEIGHTS[:, 0], lowest=0.1, highest=0.3)
    return hf.certify_mus(
        SCORES, HALF, keep_probability=keep, n_levels=20, round=True, input_removals=False, rng="canonical"
    )


@recorded("mus_model: shares of votes")
def _mus_model() -> Any:
    model = hf.mus_model(RIVALS, 0.25, n_levels=32, rng=2)
    shown = np.array([first(n, 24) for n in range(0, 25, 4)])
    return {"shares": model(shown), "kept": model.n_kept, "certificate": hf.certify(model, FEW, radius=3, rng=1)}


for _votes in (True, False):

    @recorded(f"smooth: votes={_votes}")
    def _smooth(votes: bool = _votes) -> Any:
        model = hf.smooth(SCORES, 0.75, n_samples=24, votes=votes, rng=5)
        return {"outputs": model(MASKS[::512]), "certificate": hf.certify(model, HALF, radius=3, tolerance=0.2, rng=1)}


@recorded("smooth: adaptive, certified by votes")
def _smooth_adaptive() -> Any:
    keep = hf.smoothing.adaptive_keep(WEIGHTS[:, 0], lowest=0.25, highest=0.75)
    model = hf.smooth(SCORES, keep, n_samples=24, rng=5)
    return {"keep": keep, "hard": hf.certify_mus(model, HALF), "curve": hf.certify_radii(model, HALF, radii=[1], rng=2)}


@recorded("smooth: selective, twice")
def _smooth_twice() -> Any:
    keep = hf.smoothing.selective_keep(HALF, 0.5)
    model = hf.smooth(hf.smooth(SCORES, 0.9, n_samples=8, rng=5), keep, n_samples=8, rng=5)
    return {"keep": keep, "outputs": model(MASKS[::512])}


@recorded("smoothed_accuracy: functions")
def _smoothed_accuracy() -> Any:
    def bind(shift: float) -> Any:
        return hf.mask_function(lambda masks: np.c_[masks.sum(axis=1), np.full(len(masks), 4 + shift)], n_features=8)

    return hf.smoothed_accuracy(bind, [0, 1, 2, 3, 4.5], [0, 0, 0, 1, 1], n_samples=16, rng=0)


CALLS |= {
    "find_witness: proven": lambda: hf.find_witness(PAIRED, [0, 1], max_radius=3, rng=0),
    "find_witness: within a budget": lambda: hf.find_witness(COUNTED, FEW, max_calls=500, rng=3),
    "find_witness: top set": lambda: hf.find_witness(SCORES, HALF, agree=hf.agreement.same_top_set(2), rng=1),
    "stability_bracket": lambda: hf.stability_bracket(SCORES, first(9, 12), rng=0),
}


@recorded("fill_sensitivity: a table row")
def _fill_sensitivity() -> Any:
    row = np.array([3.0, 1.0, 1.0, 1.0, 2.0, 0.5])

    def bind(fill: float) -> Any:
        return hf.mask_function(lambda masks: np.where(masks, row, fill).sum(axis=1) > 6, n_features=6)

    return hf.fill_sensitivity(bind, first(2, 6), {"zero": 0.0, "one": 1.0, "two": 2.0}, radius=2, rng=0)


CALLS |= {
    "reexplain: lime": lambda: hf.reexplain(RIVALS, "lime", n_repeats=3, radius=3, n_samples=80, rng=0),
    "reexplain: random, selected by a function": lambda: hf.reexplain(
        SCORES, "random", n_repeats=4, radius=2, select=lambda scores: hf.top(scores, 4), tolerance=0.2, rng=9
    ),
}


@recorded("recheck: a certificate")
def _recheck() -> Any:
    certificate = hf.certify(SCORES, HALF, radius=5, tolerance=0.2, rng="canonical")
    return hf.recheck(SCORES, certificate)


@recorded("recheck: a comparison of another model")
def _recheck_comparison() -> Any:
    comparison = hf.compare(COUNTED, {"four": FEW, "six": first(6, 24)}, [8], rng=2)
    result = hf.recheck(RIVALS, comparison)
    return {"confirmed": result.confirmed, "canonical": result.canonical, "repeated": result.repeated}


# -- attributions and selections --------------------------------------------------------------------


CALLS |= {
    "attribute: lime": lambda: hf.attribute(RIVALS, "lime", n_samples=120, rng=1),
    "attribute: lime by sizes": lambda: hf.attribute(
        SCORES, "lime", n_samples=90, target=2, sampling="sizes", kernel_width=3.0, penalty=0.5, rng=1
    ),
    "attribute: shap of every mask": lambda: hf.attribute(SCORES, "shap", rng=1),
    "attribute: shap from samples": lambda: hf.attribute(RIVALS, "shap", n_samples=150, rng="canonical"),
    "attribute: occlusion, out and in": lambda: [
        hf.attribute(SCORES, "occlusion", leave=leave) for leave in ("out", "in")
    ],
    "attribute: random": lambda: hf.attribute(SCORES, "random", rng=4),
    "attribute: shap of a label": lambda: hf.attribute(WORDS, "shap", target="yes", rng=1),
}


@recorded("from_array: groups")
def _from_array() -> Any:
    groups = np.array([[0, 0, 1], [2, 2, 1]])
    return [
        hf.from_array(np.arange(6.0).reshape(2, 3) - 2, groups=groups, reduce=reduce, method="mine")
        for reduce in ("sum", "mean")
    ]


@recorded("selections: top, top_fraction, above, positive")
def _selections() -> Any:
    scores = np.array([0.5, -2.0, 0.5, 1.0, 0.0, -0.25])
    return [
        hf.top(scores, 2),
        hf.top(scores, 2, absolute=True),
        hf.top_fraction(scores, 0.5),
        hf.above(scores, 0.4, absolute=True),
        hf.positive(scores),
    ]


# -- neighbourhoods, bounds, plans, Boolean analysis ------------------------------------------------


@recorded("neighborhoods: draws, sizes and lists")
def _neighborhoods() -> Any:
    kinds = {
        "additions": hf.neighborhood.Additions,
        "removals": hf.neighborhood.Removals,
        "swaps": hf.neighborhood.Swaps,
    }
    return {
        name: {
            "size": kind(HALF, 3).size,
            "listed": [np.flatnonzero(mask) for masks in kind(HALF, 1).enumerate(10) for mask in masks],
            "drawn": [np.flatnonzero(mask) for mask in kind(HALF, 4).sample(8, np.random.default_rng(3))],
            "ring": [np.flatnonzero(mask) for mask in kind(HALF, 4).exactly(3).sample(4, np.random.default_rng(3))],
        }
        for name, kind in kinds.items()
    }


@recorded("bounds: clopper_pearson and hoeffding")
def _bounds() -> Any:
    counts = [(0, 10), (7, 10), (10, 10), (41, 46)]
    return {
        side: [hf.bounds.clopper_pearson(*count, confidence=0.95, side=side) for count in counts]
        for side in ("both", "lower", "upper")
    } | {"hoeffding": [hf.bounds.hoeffding(*count) for count in counts]}


CALLS |= {
    "plan_samples: every plan, with and without a question": lambda: (
        [hf.plan_samples(plan=plan) for plan in PLANS]
        + [
            hf.plan_samples(selected=HALF, radius=2),
            hf.plan_samples(selected=FEW, radius=9, neighborhood="swaps", rate_kind="worst_size"),
        ]
    ),
}


@recorded("boolean: spectra and indices", rounded=True)
def _boolean_spectra() -> Any:
    table = hf.boolean.tabulate(SMALL, target=0)
    fourier, weights = hf.boolean.fourier(table), hf.boolean.monotone(table)
    return {
        "fourier": fourier,
        "monotone": weights,
        "biased": hf.boolean.biased(table, 0.3),
        "degree_mass": hf.boolean.degree_mass(weights),
        "degree_weight": hf.boolean.degree_weight(fourier),
        "tail_mass": hf.boolean.tail_mass(weights),
        "influences": hf.boolean.influences(table),
        "shapley": hf.boolean.shapley(weights),
        "banzhaf": hf.boolean.banzhaf(weights, p=0.4),
        "interactions": hf.boolean.interactions(weights),
        "noise_stability": hf.boolean.noise_stability(table, 0.5),
        "variance": hf.boolean.variance(table, p=0.25),
    }


@recorded("boolean: operators", rounded=True)
def _boolean_operators() -> Any:
    table = hf.boolean.tabulate(SMALL, target=1)
    return [
        hf.boolean.flip_operator(table, 0.5),
        hf.boolean.mask_operator(table, 0.5),
        hf.boolean.mask_operator(hf.boolean.fourier(table), 0.25, basis="fourier"),
        hf.boolean.reveal(table, first(2, 6)),
        hf.boolean.hide(table, first(2, 6)),
        hf.boolean.gram_matrix(3, p=0.25),
    ]


@recorded("boolean: rates and bounds", rounded=True)
def _boolean_stability() -> Any:
    table, selected = hf.boolean.tabulate(SMALL), first(2, 6)
    return {
        "rates": hf.boolean.exact_rates(table, selected),
        "rate": hf.boolean.exact_rate(table, selected, radius=2),
        "hard_radius": hf.boolean.hard_radius(table, selected),
        "hard_bound": hf.boolean.hard_bound(table, selected),
        "bound": hf.boolean.stability_bound(table, selected, radius=1),
        "smoothed": hf.boolean.smoothed_stability_bound(table, selected, radius=1, keep_probability=0.25),
        "inclusion": hf.boolean.inclusion_probabilities(8, 3),
    }


@recorded("boolean: estimates and low-degree weights", rounded=True)
def _boolean_estimates() -> Any:
    draws = {"n_samples": 40, "score_range": (float(NOISE[:64].min()), float(NOISE[:64].max() + 1)), "rng": 1}
    return {
        "coefficients": hf.boolean.estimate_coefficients(SMALL, [(), (0,), (1, 3)], **draws),
        "levels": hf.boolean.estimate_level_weights(SMALL, [1, 2], **draws),
        "low": hf.boolean.low_degree_weights(SCORES, HALF, degree=2),
    }


# -- what comes with holdfast -----------------------------------------------------------------------

DATA = {
    "cancer-forest": "cancer",
    "cancer-linear": "cancer",
    "digits-resnet": "digits",
    "digits-vit": "digits",
    "digits-vit-masked": "digits",
    "lexicon-roberta": "sentences",
    "vader": "sentences",
}
NETWORKS = ("digits-resnet", "digits-vit", "digits-vit-masked", "lexicon-roberta")


@lru_cache
def load(name: str) -> Any:
    return hf.models.load(f"bundled:{name}")


@lru_cache
def data(name: str) -> Any:
    return hf.data.load(f"bundled:{DATA[name]}")


UNDECIDED = (4, 27, 47, 58, 68, 85, 94, 102, 104, 115)
"""Tumours of whose class the forest is not certain: for most others no mask changes it."""


def bound(name: str, i: int = 0, **settings: Any) -> Any:
    """The i-th input bound to the model."""
    row = UNDECIDED[i] if DATA[name] == "cancer" else i
    return load(name).bind(data(name).inputs[row], **settings)


def selection(model: Any) -> Any:
    """Every third feature."""
    return np.arange(model.n_features) % 3 == 0


for _name in DATA:

    @recorded(f"{_name}: what it is")
    def _model(name: str = _name) -> Any:
        classifier, model = load(name), bound(name)
        return {
            "kind": classifier.kind,
            "classes": classifier.classes,
            "fingerprint": classifier.fingerprint,
            "scores": classifier.predict(data(name).inputs[:6]),
            "feature_names": getattr(model, "feature_names", None),
            "labels": data(name).labels[:6],
            "provenance": model.provenance,
        }

    @recorded(f"{_name}: certify")
    def _certify_bundled(name: str = _name) -> Any:
        model = bound(name)
        return hf.certify(model, selection(model), radius=4, rng="canonical")

    @recorded(f"{_name}: certify_radii and find_witness")
    def _curve_bundled(name: str = _name) -> Any:
        model = hf.Evaluator(bound(name, 3))
        curve = hf.certify_radii(model, selection(model), radii=[1, 3, 6], tolerance=0.2, rng=1)
        return {"curve": curve, "witness": hf.find_witness(model, selection(model), max_calls=150, rng=1)}

    @recorded(f"{_name}: lime, compared with occlusion")
    def _compare_bundled(name: str = _name) -> Any:
        model = hf.Evaluator(bound(name, 1))
        lime = hf.attribute(model, "lime", n_samples=60, rng=1)
        occlusion = hf.attribute(model, "occlusion")
        explanations = {"lime": hf.top(lime, 3), "occlusion": hf.top(occlusion, 3)}
        comparison = hf.compare(model, explanations, [2], tolerance=0.2, rng="canonical")
        return {"lime": lime, "occlusion": occlusion, "comparison": comparison}


for _name in NETWORKS:

    @recorded(f"{_name}: gradients")
    def _gradients(name: str = _name) -> Any:
        model = bound(name, 2)
        return [
            hf.attribute(model, "integrated_gradients", n_samples=27),
            hf.attribute(model, "integrated_gradients", rule="gauss_legendre", n_samples=9),
            hf.attribute(model, "mfaba", n_samples=10),
        ]


@recorded("digits-vit: cells of a grid, another fill")
def _grid() -> Any:
    image = data("digits-vit").inputs[5]
    model = load("digits-vit").bind(image, groups=hf.grid(image, 4, 4), fill="mean")
    return hf.certify(model, selection(model), radius=3, neighborhood="swaps", tolerance=0.2, rng=2)


@recorded("digits-vit: segments")
def _segments() -> Any:
    image = data("digits-vit").inputs[6]
    labels = np.add.outer(np.arange(8) // 2 * 3, np.arange(8) // 3)
    model = load("digits-vit").bind(image, groups=hf.masking.segments(labels), fill=0.5)
    return hf.certify(model, selection(model), radius=3, rng="canonical")


@recorded("digits-vit: certify_mus and certify_hard")
def _hard_digits() -> Any:
    image = data("digits-vit").inputs[4]
    model = load("digits-vit").bind(image, groups=hf.grid(image, 4, 4))
    return [
        hf.certify_mus(model, selection(model), keep_probability=0.25, n_levels=16, rng=0),
        hf.certify_hard(model, selection(model), radius=2, max_enumerated=100, rng=0),
    ]


@recorded("digits-vit-masked: smoothed_accuracy")
def _accuracy_digits() -> Any:
    inputs, labels = data("digits-vit-masked").inputs[:8], data("digits-vit-masked").labels[:8]
    return hf.smoothed_accuracy(
        load("digits-vit-masked"), inputs, labels, keep_probabilities=[1.0, 0.5], n_samples=16, rng=0
    )


@recorded("digits-resnet: fill_sensitivity")
def _fills_digits() -> Any:
    classifier, image = load("digits-resnet"), data("digits-resnet").inputs[0]

    def bind(fill: Any) -> Any:
        return classifier.bind(image, groups=hf.grid(image, 4, 4), fill=fill)

    return hf.fill_sensitivity(bind, first(8, 16), ["mean", 0.0], radius=2, tolerance=0.2, rng=0)


@recorded("cancer-forest: a background of training rows")
def _background() -> Any:
    train = hf.data.load("bundled:cancer", split="train")
    model = bound("cancer-forest", 7, background=train.inputs[:40], n_background=4, fill="background")
    return hf.certify_radii(model, selection(model), radii=[2, 5], tolerance=0.2, rng=3)


@recorded("cancer-forest: groups of columns")
def _column_groups() -> Any:
    groups = hf.masking.column_groups(
        {"radius": ["mean radius", "worst radius"], "texture": ["mean texture", "worst texture"]}
    )
    model = bound("cancer-forest", 9, groups=groups)
    return hf.certify(model, selection(model), radius=5, tolerance=0.2, rng=3)


@recorded("cancer-forest: stabilize and reexplain")
def _stabilize_forest() -> Any:
    model = hf.Evaluator(bound("cancer-forest"))
    scores = hf.attribute(model, "lime", n_samples=100, rng=2)
    return [
        hf.stabilize(model, scores, min_rate=0.8, radius=3, rng=2),
        hf.reexplain(model, "shap", n_repeats=2, radius=2, n_samples=120, tolerance=0.2, rng=2),
    ]


@recorded("sentences: mean_curve of vader")
def _mean_sentences() -> Any:
    def subject(i: int) -> Any:
        model = bound("vader", i)
        return model, selection(model)

    return hf.mean_curve([lambda i=i: subject(i) for i in range(6)], radii=[1, 3], half_width=0.15, rng=1)


@recorded("sentences: certified_radius of lexicon-roberta")
def _radius_sentences() -> Any:
    model = bound("lexicon-roberta", 8)
    return hf.certified_radius(model, selection(model), min_rate=0.7, radii=[1, 2], rng="canonical")


@recorded("sentences: words of lexicon-roberta, and tokens hidden by a mask")
def _tokens() -> Any:
    models = [bound("lexicon-roberta", 5, **settings) for settings in ({"groups": "words"}, {"fill": "mask"})]
    return [hf.certify(model, selection(model), radius=2, tolerance=0.2, rng="canonical") for model in models]


def main(path: str) -> None:
    """Make every call, and write what it gives on a line of its own."""
    lines = [f"  {as_json(name)}: {as_json(plain(call()))}" for name, call in CALLS.items()]
    head = f' "command": {as_json(COMMAND)},\n "holdfast": {as_json(hf.__version__)},\n'
    Path(path).write_text("{\n" + head + ' "calls": {\n' + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")
    print(f"{len(lines)} calls are recorded in {path}.")


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


if __name__ == "__main__":
    main(*sys.argv[1:])

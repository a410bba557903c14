"""A study → the few inputs that the page looks at closer, why each of them, and all that it shows of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import Agreement, as_agreement
from holdfast.certification.certificate import Certificate
from holdfast.certification.curve import StabilityCurve
from holdfast.certification.reference import prediction_of
from holdfast.distributions.distribution import as_neighborhood
from holdfast.evaluation import Evaluator
from holdfast.randomness import stream
from holdfast.report.card import Plain, describe_certificate, describe_curve, describe_witness, input_card, title_of
from holdfast.report.rows import InputRows, Source
from holdfast.study.records import ItemResult
from holdfast.study.store import Store
from holdfast.study.worker import item_rng
from holdfast.types import Mask, Progress
from holdfast.words import class_label, counted, method_label, paragraph, prediction_label, shortened

STABLE = 0.9  # an explanation that is predicted unlike its input is called stably wrong from this rate on
MOST_RADII, N_DRAWS = 10, 16  # radii of the slider, of which a curve may have more, and masks shown per radius

HOW_CHOSEN = (
    "They were picked for their results, not at random. In turn: the least stable (by the mean rate of their "
    "explanations at the largest radius), those with an explanation that is stably predicted unlike its input, those "
    "on which methods differ most, those flipped by the fewest features, and the most stable. The intervals allow for "
    "this: at each radius they hold for all explanations at once that these were picked from."
)


def choose_inputs(rows: InputRows, most: int) -> dict[int, str]:
    """Pick up to ``most`` inputs, one by each rule in turn: their places among the rows, and the rules.

    The rules look at the model itself where it was studied, and at the first fraction; equal inputs go by number.
    """
    queues = [(why, iter(places.tolist())) for why, places in _rules(rows)]
    chosen: dict[int, str] = {}
    while len(chosen) < min(most, len(rows.inputs)) and queues:
        for why, queue in list(queues):
            place = next((place for place in queue if place not in chosen), None)
            if place is None:
                queues.remove((why, queue))
            elif len(chosen) < most:
                chosen[place] = why
    return chosen


def _rules(rows: InputRows) -> list[tuple[str, NDArray[np.intp]]]:
    """Each rule with the places of the inputs that it holds for, the strongest first."""
    groups = rows.least_smoothed
    groups = [group for group in groups if group.key.top_fraction == groups[0].key.top_fraction]
    everything = np.arange(len(rows.inputs))
    if not groups:
        return [("among the first", everything)]
    if not all(len(group.rates) for group in groups):
        unlike = np.array([group.consistent == 0 for group in groups]).any(axis=0)
        return [("an explanation is predicted unlike its input", everything[unlike]), ("among the first", everything)]
    last = np.array([group.rates[-1] for group in groups])
    n_known = np.isfinite(last).sum(axis=0)
    mean = np.where(n_known > 0, np.nansum(last, axis=0) / np.maximum(n_known, 1), np.nan)
    # Comparisons pass over what is not known; a column of nothing else stays unknown.
    low, high, fewest = (np.fmin.reduce(last), np.fmax.reduce(last), np.fmin.reduce([group.flips for group in groups]))
    wrong = np.fmax.reduce(np.where([group.consistent == 0 for group in groups], last, np.nan))
    rules = {
        "among the least stable": mean,
        "an explanation is stably predicted unlike its input": -np.where(wrong >= STABLE, wrong, np.nan),
        "the methods differ": -np.where(high - low > 0, high - low, np.nan),
        "flipped by few features": fewest,
        "among the most stable": -mean,
    }
    orders = {why: np.argsort(values, kind="stable") for why, values in rules.items()}
    return [(why, order[np.isfinite(rules[why][order])]) for why, order in orders.items()]


def make_gallery(store: Store, source: Source, rows: InputRows, most: int, tell: Progress | None) -> list[Plain]:
    """The cards of up to ``most`` inputs."""
    cards, chosen, n_explanations = [], choose_inputs(rows, most), len(rows.inputs) * len(rows.groups)
    for place, why in chosen.items():
        card = _card(store, source, int(rows.inputs[place]), name=rows.names[place], picked_from=n_explanations)
        cards.append(card | {"why": why})
        if tell is not None:
            tell(len(cards), len(chosen))
    return cards


def _card(store: Store, source: Source, index: int, *, name: str | None, picked_from: int) -> Plain:
    """Everything that the page shows of one input; methods as the study lists them, smoothed forms last."""
    places = {method.name: place for place, method in enumerate(source.spec.methods)}

    def order(result: ItemResult) -> tuple[float, ...]:
        return places.get(result.method, len(places)), result.top_fraction, -result.keep_probability

    results = sorted(store.results(index), key=order)
    bound = source.bind(store, index)
    evaluator = None if bound is None else Evaluator(bound)
    first, scores = results[0], results[0].attribution
    n_features, masking = len(first.selected), scores.provenance.masking
    value, why_not = source.input(index, bound)
    title = title_of(value)
    prediction, label = class_label(first.prediction, source.classes), class_label(first.label, source.labels)
    labelled = "" if label is None else f", labelled {label}"
    return {
        "input": index,
        "title": name or (f"input {index}" if title is None else shortened(title)),
        "prediction": prediction,
        "facts": f"Input {index}: {n_features} features, predicted {prediction}{labelled}.",
        "not_shown": why_not,
        **input_card(value, bound, scores.feature_names, n_features=n_features, masking=masking),
        "explanations": [_explanation(result, source, evaluator, picked_from) for result in results],
    }


def _explanation(result: ItemResult, source: Source, evaluator: Evaluator | None, picked_from: int) -> Plain:
    """One explanation of an input: what was selected, what is certified, what flips it."""
    spec, curve = source.spec, result.curve.certificates
    certified = spec.certify.precision == "per-input"
    radii = spread([certificate.radius for certificate in curve] if certified else list(spec.certify.radii))
    cut = "as selected" if spec.method(result.method).masks else f"top {100 * result.top_fraction:g}%"
    draws, smoothed, no_draws = None, "", "This page was made without the model, so no draws are shown."
    if result.keep_probability != 1:
        no_draws = "Draws are shown for the model itself, not for its smoothed forms."
        smoothed = f", smoothed λ = {result.keep_probability:g}"
    elif evaluator is not None:
        draws = sample_draws(evaluator, result, source, radii=radii)
    return {
        "method": result.method,
        "label": method_label(result.method),
        "title": f"{method_label(result.method)}, {cut}{smoothed}",
        "selected": result.selected.nonzero()[0].tolist(),
        "prediction": curve[0].prediction_name or class_label(curve[0].prediction, source.classes),
        "consistent": curve[0].consistent,
        "radii": list(radii),
        "curve": describe_curve(curve if certified else (), picked_from=picked_from),
        **_certificates([point for point in curve if certified and point.radius in radii], picked_from),
        "witness": known_flip(result, evaluator, agree=spec.certify.agree, classes=source.classes),
        "says": _says(result.curve, picked_from) if certified else None,
        "mus": [str(certificate) for certificate in result.mus],
        "draws": draws,
        "no_draws": None if draws else no_draws,
    }


def _says(curve: StabilityCurve, picked_from: int) -> str:
    """What the certificates of one explanation say and what they do not; it may be shown for its result."""
    if all(certificate.exact for certificate in curve):
        return curve.explain()
    return paragraph(
        curve.explain(),
        f"This input was picked for its result, from {counted(picked_from, 'explanation')}.",
        "So the intervals here are wider than those of the certificates: they hold for all of these at once.",
    )


def spread(radii: Sequence[int]) -> tuple[int, ...]:
    """At most ``MOST_RADII`` of the radii, the first and the last among them."""
    if len(radii) <= MOST_RADII:
        return tuple(radii)
    step = (len(radii) - 1) / (MOST_RADII - 1)
    return tuple(radii[round(i * step)] for i in range(MOST_RADII))


def _certificates(certificates: Sequence[Certificate], picked_from: int) -> Plain:
    """Sentences and JSON; what all certificates of a curve share is written once.

    Fields are kept as the text that ``to_json`` wrote: keys of random streams have more digits than browsers' numbers.
    """
    texts = [{name: json.dumps(value) for name, value in json.loads(one.to_json()).items()} for one in certificates]
    names = list(texts[0]) if texts else []
    common = {name: texts[0][name] for name in names if all(text[name] == texts[0][name] for text in texts)}
    own = [{name: field for name, field in text.items() if name not in common} for text in texts]
    described = [
        describe_certificate(certificate, picked_from=picked_from) | {"json": text}
        for certificate, text in zip(certificates, own, strict=True)
    ]
    return {"shared": {"order": names, "fields": common}, "certificates": described}


def sample_draws(evaluator: Evaluator, result: ItemResult, source: Source, *, radii: Sequence[int]) -> Plain:
    """Fresh uniform draws at each radius, judged by the model, from a stream of their own: no claim rests on them.

    ``at`` has per radius the changed features of each mask as packed bits (base64), and for each mask None
    if the prediction is kept, or the place in ``classes`` of what it becomes.
    """
    spec, selected, by_radius = source.spec, result.selected, []
    neighborhood = as_neighborhood(spec.certify.neighborhood)
    for radius in radii:
        rng = stream(item_rng(spec, "report", result.key), str(radius))
        by_radius.append(neighborhood(selected, radius).sample(N_DRAWS, rng))
    reference, outputs = evaluator(selected[None])[0], evaluator(np.concatenate(by_radius))
    agree = as_agreement(spec.certify.agree)
    names = [
        None if kept else prediction_label(*prediction_of(output, agree, source.classes))
        for kept, output in zip(agree(outputs, reference), outputs, strict=True)
    ]
    classes = sorted({name for name in names if name is not None})
    flipped, at = [None if name is None else classes.index(name) for name in names], []
    for i, masks in enumerate(by_radius):
        bits = [base64.b64encode(np.packbits(mask != selected).tobytes()).decode() for mask in masks]
        at.append({"masks": bits, "flipped": flipped[i * N_DRAWS : (i + 1) * N_DRAWS]})
    fresh = f"{N_DRAWS} fresh draws per radius, made for this page from a stream of their own"
    note = f"{fresh}; the certificate counted other draws, and no claim rests on these."
    return {"at": at, "classes": classes, "note": note}


def known_flip(result: ItemResult, evaluator: Evaluator | None, *, agree: str, classes: Sequence[str]) -> Plain | None:
    """What changes the prediction, as plain data, or None where nothing is known.

    A study that looked for witnesses has the smallest change it found. Otherwise it is the nearest change among the
    draws of the certificates; with the model at hand, what is left of that by ``reduce_flip``.
    """
    witness, selected = result.witness, result.selected
    if witness is not None:
        title = "The smallest change found" if witness.found else "The search for the smallest change"
        return describe_witness(witness, classes) | {"title": title, "json": witness.to_json()}
    seen = [one.counterexample for one in result.curve if one.counterexample is not None]
    if not seen or result.curve.certificates[0].neighborhood in ("removals", "swaps"):
        return None
    mask, prediction = min(seen, key=lambda mask: int((mask != selected).sum())), None
    what = "It is the nearest change among the draws; some of its features may not matter."
    if evaluator is not None and result.keep_probability == 1:
        same = as_agreement(agree)
        mask = reduce_flip(evaluator, selected, mask, same)
        prediction = prediction_label(*prediction_of(evaluator(mask[None])[0], same, classes))
        what = "It is a change among the draws, reduced to features of which none can be left out."
    added = np.flatnonzero(mask & ~selected).tolist()
    becomes, known = ("", "another prediction") if prediction is None else (f" to {prediction}", prediction)
    revealing = f"Revealing {counted(len(added), 'more feature')} changes the prediction{becomes}"
    smaller = "no smaller change exists" if len(added) == 1 else "other, smaller changes may exist"
    words = {"title": "A change that was found", "sentence": f"{revealing}; {smaller}.", "explanation": what}
    return {"found": True, "added": added, "prediction": known, **words, "json": None}


def reduce_flip(evaluator: Evaluator, selected: Mask, changing: Mask, agree: Agreement) -> Mask:
    """Leave out added features one by one while the prediction stays changed."""
    reference, mask = evaluator(selected[None])[0], changing
    while True:
        added = np.flatnonzero(mask & ~selected)
        smaller = np.tile(mask, (len(added), 1))
        smaller[np.arange(len(added)), added] = False
        still = smaller[~agree(evaluator(smaller), reference)]
        if len(still) == 0:
            return mask
        mask = still[0]

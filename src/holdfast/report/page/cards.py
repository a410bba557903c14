"""An input of the gallery → its picture, its explanations, certificates, draws and witnesses, as plain data."""

from __future__ import annotations

import json
from typing import Any

from holdfast.certification.certificate import Certificate
from holdfast.evaluation import Evaluator
from holdfast.report.page.choice import Chosen
from holdfast.report.page.draws import N_DRAWS, sample_draws
from holdfast.report.page.flips import known_flip
from holdfast.report.page.pictures import describe_input, lay_grid
from holdfast.report.page.rows import InputRows
from holdfast.report.page.source import Source
from holdfast.study.results import ItemResult
from holdfast.study.store import Store
from holdfast.words import class_label, method_label, outward, shortened

Plain = dict[str, Any]

MOST_RADII = 10
"""Radii of the slider; a curve may have more."""

_FRESH = (
    "{n} fresh draws per radius, made for this page from a stream of their own; the certificate counted others, "
    "and no claim rests on these."
)
_NO_MODEL = "This page was made without the model, so no draws are shown."
_SMOOTHED = "Draws are shown for the model itself, not for its smoothed forms."


def make_card(store: Store, source: Source, rows: InputRows, chosen: Chosen) -> Plain:
    """Everything that the page shows of one input."""
    index = int(rows.inputs[chosen.place])
    results = sorted(store.results(index), key=lambda one: _order(one, source))
    bound = source.bind(store, index)
    shared = None if bound is None else Evaluator(bound)
    first = results[0].attribution
    n_features = len(results[0].selected)
    one, why_not = source.input(index, bound)
    picture = describe_input(one, bound, first.feature_names, n_features=n_features)
    prediction = class_label(results[0].prediction, source.classes)
    return {
        "input": index,
        "title": rows.names[chosen.place] or (shortened(one) if isinstance(one, str) else f"input {index}"),
        "why": chosen.why,
        "prediction": prediction,
        "facts": _facts(results[0], prediction, source),
        "n_features": n_features,
        "feature_names": None if first.feature_names is None else list(first.feature_names),
        "not_shown": why_not,
        "picture": lay_grid(picture, first.provenance.masking),
        "explanations": [explain(result, source, shared) for result in results],
    }


def _order(result: ItemResult, source: Source) -> tuple[int, float, float]:
    """Methods as the study lists them, the model itself before its smoothed forms."""
    names = [one.name for one in source.spec.methods]
    place = names.index(result.method) if result.method in names else len(names)
    return place, result.top_fraction, -result.keep_probability


def _facts(result: ItemResult, prediction: str | None, source: Source) -> str:
    label = class_label(result.label, source.classes)
    told = "" if label is None else f", labelled {label}"
    return f"Input {result.input}: {len(result.selected)} features, predicted {prediction}{told}."


def explain(result: ItemResult, source: Source, shared: Evaluator | None) -> Plain:
    """One explanation of an input: what was selected, what is certified, what flips it."""
    curve = result.curve.certificates
    certified = source.spec.certify.precision == "per-input"
    radii = list(spread([one.radius for one in curve] if certified else list(source.spec.certify.radii)))
    shown = [one for one in curve if one.radius in radii] if certified else []
    is_plain = result.keep_probability == 1
    draws = None
    if shared is not None and is_plain:
        found = sample_draws(shared, result, source.spec, radii=radii, classes=source.classes)
        draws = found | {"note": _FRESH.format(n=N_DRAWS)}
    return {
        "method": result.method,
        "label": method_label(result.method),
        "title": _title(result),
        "selected": result.selected.nonzero()[0].tolist(),
        "prediction": class_label(curve[0].prediction, source.classes),
        "consistent": curve[0].consistent,
        "radii": radii,
        "curve": _curve(curve) if certified else {"radii": [], "rates": [], "low": [], "high": []},
        **_certificates(shown),
        "witness": known_flip(result, shared, agree=source.spec.certify.agree, classes=source.classes),
        "mus": [str(one) for one in result.mus],
        "draws": draws,
        "no_draws": None if draws else (_NO_MODEL if is_plain else _SMOOTHED),
    }


def _title(result: ItemResult) -> str:
    smoothed = "" if result.keep_probability == 1 else f", smoothed λ = {result.keep_probability:g}"
    return f"{method_label(result.method)}, top {100 * result.top_fraction:g}%{smoothed}"


def spread(radii: list[int]) -> tuple[int, ...]:
    """At most ``MOST_RADII`` of the radii, the first and the last among them.

    Examples
    --------
    >>> spread(list(range(1, 50)))
    (1, 6, 12, 17, 22, 28, 33, 38, 44, 49)
    """
    if len(radii) <= MOST_RADII:
        return tuple(radii)
    step = (len(radii) - 1) / (MOST_RADII - 1)
    return tuple(radii[round(i * step)] for i in range(MOST_RADII))


def _curve(curve: tuple[Certificate, ...]) -> Plain:
    return {
        "radii": [one.radius for one in curve],
        "rates": [round(one.rate, 4) for one in curve],
        "low": [outward(one.interval, 4).low for one in curve],
        "high": [outward(one.interval, 4).high for one in curve],
    }


def _certificates(shown: list[Certificate]) -> Plain:
    """Sentences and JSON; what all certificates of a curve share is written once.

    Fields are kept as the JSON text that ``to_json`` wrote: keys of random streams have more digits
    than a browser's numbers.
    """
    texts = [_fields(one) for one in shown]
    names = list(texts[0]) if texts else []
    common = {name: texts[0][name] for name in names if all(one[name] == texts[0][name] for one in texts)}
    own = [{name: text for name, text in one.items() if name not in common} for one in texts]
    certificates = [
        {
            "rate": one.rate,
            "low": one.interval.low,
            "high": one.interval.high,
            "sentence": str(one),
            "json": mine,
        }
        for one, mine in zip(shown, own, strict=True)
    ]
    return {"shared": {"order": names, "fields": common}, "certificates": certificates}


def _fields(one: Certificate) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in json.loads(one.to_json()).items()}

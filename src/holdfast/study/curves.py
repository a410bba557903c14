"""A file of results → which mean curves its study asks for, over which inputs, and which of them are stored."""

from __future__ import annotations

import json
from itertools import product

from holdfast.certification.mean_curve import MeanCurve
from holdfast.study.question import Plain
from holdfast.study.results import stored_json
from holdfast.study.store import CURVE_KEY, OF_STUDY, CurveKey, Store


def curve_keys(spec: Plain) -> list[CurveKey]:
    r"""The mean curves a study asks for; none unless its precision is "data-set".

    Examples
    --------
    >>> from holdfast.study.question import plain_spec
    >>> from holdfast.study.spec_file import parse_spec
    >>> text = 'model = "bundled:vader"\ndata = "bundled:sentences"\nmethods = ["lime"]\n'
    >>> curve_keys(plain_spec(parse_spec(text)))
    []
    >>> curve_keys(plain_spec(parse_spec(text + 'certify.precision = "data-set"')))
    [CurveKey(method='lime', top_fraction=0.25, keep_probability=1.0)]
    """
    if spec["certify"]["precision"] != "data-set":
        return []
    names = [method["name"] for method in spec["methods"]]
    return [CurveKey(*one) for one in product(names, spec["top_fractions"], spec["smoothing"]["keep_probabilities"])]


def curve_inputs(store: Store, key: CurveKey) -> tuple[int, ...]:
    """The inputs of the study whose explanation of this kind is stored, in increasing order."""
    statement = f"SELECT input FROM items WHERE ({CURVE_KEY}) = (?, ?, ?) AND {OF_STUDY} ORDER BY input"
    return tuple(index for (index,) in store.query(statement, *key, json.dumps(store.inputs())))


def current_curve(store: Store, key: CurveKey) -> MeanCurve | None:
    """The stored mean curve, if it is over all inputs that are explained by now, and no others."""
    statement = f"SELECT content, inputs FROM mean_curves WHERE ({CURVE_KEY}) = (?, ?, ?)"
    for content, inputs in store.query(statement, *key):
        if tuple(stored_json(inputs, list)) == curve_inputs(store, key):
            return MeanCurve.from_json(content)
    return None


def current_means(store: Store) -> dict[CurveKey, MeanCurve]:
    """The mean curves that the study asks for and that are current."""
    found = ((key, current_curve(store, key)) for key in curve_keys(store.spec))
    return {key: curve for key, curve in found if curve is not None}

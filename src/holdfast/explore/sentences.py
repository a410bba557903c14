"""Results of the library → the sentences of the page, with names for classes and features."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.certification.certificate import Certificate
from holdfast.certification.curve import StabilityCurve
from holdfast.witness import Witness
from holdfast.words import calls, percent, quoted, shortened, span

_MOST_NAMES = 8


def witness_sentence(found: Witness, names: Sequence[str] | None) -> str:
    """What changes the prediction, and what its features are called."""
    if names is None:
        return str(found)
    named = [f"Feature {one} is “{shortened(names[one], 40)}”." for one in found.added[:_MOST_NAMES]]
    return " ".join([str(found), *named])


def curve_sentence(found: StabilityCurve) -> str:
    """How often the prediction is kept: least, if that may be read off the whole curve, else at the largest radius."""
    lowest = min(found, key=lambda one: (one.interval.low, one.radius))
    first, last = found.radii[0], found.radii[-1]
    name = quoted(lowest.prediction, lowest.prediction_name)
    where = f"at radius {first}" if first == last else f"at every radius asked for from {first} to {last}"
    sure = "For certain" if all(one.exact for one in found) else f"With confidence {lowest.confidence}"
    if found.simultaneous or first == last:
        least = f"the prediction {name} is kept in at least {percent(_floor(lowest))} of cases"
        told = f"{sure}, {least} {where}"
        told += "" if first == last else f"; the lowest interval is that of radius {lowest.radius}, {_cases(lowest)}"
    else:  # the lowest would be one that is picked afterwards
        kept = f"the prediction {name} is kept in {_cases(found[last])} of cases at radius {last}"
        told = f"{sure} for each radius on its own, and not for one picked afterwards, {kept}"
    return f"{told} ({calls(found.n_calls)})."


def _cases(one: Certificate) -> str:
    return percent(one.rate) if one.exact else span(one.interval)


def _floor(one: Certificate) -> float:
    """The lower end, never rounded up."""
    low = one.interval.low
    return low if low == 1 else int(1000 * low + 1e-6) / 1000

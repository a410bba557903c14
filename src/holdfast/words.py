"""Numbers and names → the words for them, the same in every result, page and command."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from holdfast.bounds import Interval

NOT_RIGHT = "and does not say that the prediction is right"

_STABLE = 0.9
"""From this rate on an explanation that is predicted unlike its input may be called stably wrong."""

_CHANGES = {
    "additions": "Revealing {} more {}",
    "removals": "Hiding {} of the selected features",
    "swaps": "Trading {} selected for as many unselected features",
}

_METHODS = {
    "lime": "LIME",
    "shap": "SHAP",
    "integrated_gradients": "Integrated Gradients",
    "mfaba": "MFABA",
    "occlusion": "Occlusion",
    "random": "Random",
    "gradient_x_input": "Gradient × input",
    "smoothgrad": "SmoothGrad",
    "gradient_shap": "GradientShap",
    "grad_cam": "Grad-CAM",
    "attention_rollout": "Attention rollout",
    "rise": "RISE",
    "cited": "Cited passages",
    "citations": "Citations of the answer",
}

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))

_DUST = 12

MOST_READABLE = 10**12
"""Numbers from here on are rounded in sentences."""

_PROOFS = {
    "paths of a tree": "the paths of its tree",
    "table of all sums": "a table of all sums",
    "two halves": "the sums of two halves",
    "most adverse features first": "the most adverse features",
    "no sum reaches a limit": "bounds that no mask reaches",
}
"""Methods of proof that are called otherwise in a sentence."""


def method_label(name: str) -> str:
    """What a method is called in print: 'LIME', 'DeepLift (captum)', or 'my own' of ``my_own``."""
    package, separator, own = name.partition(":")
    return f"{own} ({package})" if separator and own else _METHODS.get(name, name.replace("_", " "))


def cut_label(fraction: float, *, masks: bool = False) -> str:
    """How an explanation was cut from its scores: 'top 0.25'; a method that gives masks cuts nothing."""
    return "as selected" if masks else f"top {fraction:g}"


def class_name(prediction: Any, classes: Sequence[str] | None) -> str | None:
    """What the predicted class is called; None if it has no name but its number."""
    is_index = isinstance(prediction, int) and not isinstance(prediction, bool)
    if not is_index or classes is None or not 0 <= prediction < len(classes) or classes[prediction] == str(prediction):
        return None
    return str(classes[prediction])


def class_label(prediction: Any, classes: Sequence[str]) -> str | None:
    """The name of a predicted class, or what the model returned in its place; None for no prediction."""
    return None if prediction is None else prediction_label(prediction, class_name(prediction, classes))


def prediction_label(prediction: Any, name: str | None) -> str:
    """A prediction on a page: its name, if it has one, and else what the model returned, numbers to six digits."""
    said = prediction if name is None else name
    return f"{said:.6g}" if isinstance(said, float) else str(said)


def quoted(prediction: Any, name: str | None) -> str:
    """The same in a sentence, where words are quoted."""
    said = prediction if name is None else name
    return prediction_label(said, None) if isinstance(said, float) else repr(said)


def prediction_kept(prediction: Any, name: str | None, agree: str) -> str:
    """What is kept, in words: the prediction, and what counts as the same if it is not the usual."""
    judged = "" if agree in ("same_top_class", "same_answer") else f" (as judged by {agree})"
    if agree.startswith("accepted_answers("):
        judged = " or another accepted form"
    return f"the prediction {quoted(prediction, name)}{judged}"


def kept(certificate: Any) -> str:
    """The same for a certificate."""
    return prediction_kept(certificate.prediction, certificate.prediction_name, certificate.agree)


def outward(interval: Interval, digits: int = 3) -> Interval:
    """The interval with ends of so many digits, rounded away from each other: it never claims more than is known.

    What is beyond the twelfth digit is dust of floating-point sums and is swept away first: 0.1 + 0.2 is 0.3.
    """
    return Interval(_rounded(interval.low, digits, ROUND_FLOOR), _rounded(interval.high, digits, ROUND_CEILING))


def _rounded(end: float, digits: int, way: str) -> float:
    if not math.isfinite(end):
        return end
    return float(Decimal(repr(round(float(end), _DUST))).quantize(Decimal(1).scaleb(-digits), way))


def bracket(interval: Interval, sign: str = "") -> str:
    """The interval for a table, '[0.730, 0.931]', rounded outwards; a point, which is an exact rate, to the nearest."""
    low, high = interval if interval.low == interval.high else outward(interval)
    return f"[{low:{sign}.3f}, {high:{sign}.3f}]"


def percent(share: float) -> str:
    """A share as a percentage, without needless decimals; all and nothing are said only of all and nothing."""
    if 0.9995 <= share < 1:
        return ">99.9%"
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}".removesuffix(".0") + "%"


def span(interval: Interval) -> str:
    """An interval of shares in words, rounded outwards: '12.3% to 56.8%'."""
    low, high = outward(interval)
    return f"{percent(low)} to {percent(high)}"


def counted(count: int, word: str) -> str:
    """A number of things: '1 input', '1,200 inputs'."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def share_of(part: int, whole: int) -> str:
    """A part of things: '3 of 40', or '12.3% of 1.2e+18' where no one reads all the digits."""
    if whole < MOST_READABLE:
        return f"{part} of {whole}"
    some = {0: "none", whole: "all"}.get(part) or percent(part / whole)
    return f"{some} of {Decimal(whole):.1e}"


def proven_by(proof: str) -> str:
    """How a model was seen through, in words."""
    if proof in ("branch and bound", "most adverse features first"):  # which count nothing: no mask changes anything
        return f"proven from inside the model, by {proof_label(proof)}"
    return f"every mask was counted from inside the model, by {proof_label(proof)}"


def proof_label(proof: str) -> str:
    """A method of proof as part of a sentence."""
    return _PROOFS.get(proof, proof)


def calls(number: int) -> str:
    """What it cost, in words: '1200 model calls'."""
    return f"{number} model call{'' if number == 1 else 's'}"


def repeats(number: int) -> str:
    """How a model was seen to be deterministic, in words that follow its calls."""
    return f", {number} of them repeated" if number else ", the model assumed deterministic"


def duration(seconds: float) -> str:
    """Seconds in words, to two digits, from two of a unit on: '12 s', '90 min', '25 h'."""
    size, unit = next((pair for pair in _UNITS if seconds >= 2 * pair[0]), (1, "s"))
    return f"{seconds / size:{'.2g' if seconds < 99.5 * size else ',.0f'}} {unit}"


def event(neighborhood: str, rate_kind: str, radius: int | str | None) -> str:
    """The change in words, such as 'Revealing up to 5 more features'; without a radius if that is no limit."""
    features = "feature" if radius == 1 else "features"
    family, _, numbers = neighborhood.partition("(")
    number = "" if radius is None else f"{'exactly' if rate_kind == 'exactly' else 'up to'} {radius}"
    if neighborhood in _CHANGES:
        words = _CHANGES[neighborhood].format(number, features)
    elif family == "bernoulli":
        each = "a probability of its own" if numbers.startswith("[") else f"probability {numbers.rstrip(')')}"
        limit = "" if radius is None else f", {'exactly' if rate_kind == 'exactly' else 'but at most'} {radius},"
        words = f"Revealing each of the other features with {each}{limit}"
    elif family == "weighted":
        words = f"Revealing {f'{number} more' if number else 'other'} {features}, drawn by their weights,"
    elif family == "grouped":
        words = f"Revealing {number or 'any number of'} group{'' if radius == 1 else 's'} of features"
    else:
        words = f"Drawing masks from {neighborhood.removeprefix('own law ')}"
    return f"{words.rstrip(',')}, at the worst number of them," if rate_kind.startswith("worst_size") else words


def change_of(claim: Any, rate_kind: str, radius: int | str | None, also: str = "") -> str:
    """The change that a claim is about, what else it is about, and where hidden features come from if drawn."""
    change = event(claim.neighborhood, rate_kind, radius)
    if claim.n_completions is None:
        return change.removesuffix(",") + also if also else change
    change = "Showing the selected features alone" if radius == 0 else change.removesuffix(",")
    return f"{change}{also}, hidden ones drawn from {counted(claim.n_completions, 'completion')},"


def drawn_for(claim: Any) -> str:
    """What a claim that rests on draws is about: 'random masks', 'random masks and completions'."""
    if claim.n_completions is not None:
        return "random masks and completions"
    return "random masks and answers" if claim.answers == "random" else "random masks"


def unlike(rate: float, claim: Any) -> str:
    """That the full input is predicted differently, and what may follow if the prediction is kept at this rate.

    Of a reference that was given: that the selected features alone do not have it. Random answers were asked for once.
    """
    if claim.answers == "random":
        whom = "the full input" if claim.reference is None else "the selected features alone"
        return f"one answer to {whom} differed"
    if claim.n_completions is not None:
        return "the full input does not give it"
    if claim.reference is not None:
        return "the selected features alone do not give it"
    follows = ", so the explanation may be stably wrong" if rate >= _STABLE else ""
    return f"the full input is predicted differently{follows}"


def listed(parts: Iterable[str]) -> str:
    """Several things in a sentence: 'LIME, SHAP and Random'."""
    *first, last = list(parts)
    return f"{', '.join(first)} and {last}" if first else last


def lower_first(sentence: str) -> str:
    """The sentence as the continuation of another."""
    return sentence[0].lower() + sentence[1:]


def shortened(text: str, most: int = 80) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"

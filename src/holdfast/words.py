"""Numbers and names → the words for them, the same in every result, page and command."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import product
from typing import Any

from holdfast.bounds import Interval

MOST_WORDS = 25
"""Of the sentence that a result prints; ``explain()`` has room for the rest."""

NOT_RIGHT = "It does not say that the explanation or the prediction is right."
NO_PROOF = "It is no proof: rare masks may still change the prediction."
FIXED_BEFORE = "It assumes seed and settings fixed in advance."
ON_ITS_OWN = "Each holds on its own: one that is picked for its result has no guarantee."
INCOMPLETE = "Incomplete: the guarantee holds only if what is missing does not depend on the results."
OTHER_INPUTS = "It says nothing about inputs from elsewhere."

_STABLE = 0.9
"""From this rate on an explanation that is predicted unlike its input may be called stably wrong."""

_CHANGES = {
    "additions": "revealing {} more {}",
    "removals": "hiding {} of the selected features",
    "swaps": "swapping {} selected for unselected features",
}

_SHORT_CHANGES = {"additions": "adding", "removals": "hiding", "swaps": "swapping"}

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
    "no sum reaches a limit": "bounds on its scores that hold for every mask",
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


def few_words(text: str, most: int = 4, letters: int = 40) -> str:
    """The beginning of a name that may be long: at most so many words and letters."""
    line = shortened(text, letters)
    words = line.split()
    return line if len(words) <= most else " ".join(words[:most]).rstrip("…,") + "…"


def named(prediction: Any, name: str | None) -> str:
    """A prediction in a short sentence."""
    said = prediction if name is None else name
    return quoted(few_words(said) if isinstance(said, str) else said, None)


def fitted(pattern: str, **parts: Sequence[str]) -> str:
    """The pattern with the longest of each part that leave it short enough; those named last are shortened first.

    >>> fitted("{claim}{evidence}.", claim=["It holds"], evidence=[" because" + " very" * 30 + " sure", ", surely"])
    'It holds, surely.'
    """
    sentence = ""
    for chosen in product(*parts.values()):
        sentence = pattern.format(**dict(zip(parts, chosen, strict=True)))
        if len(sentence.split()) <= MOST_WORDS:
            break
    return sentence


def paragraph(*sentences: str) -> str:
    """The sentences that say something, one after the other."""
    return " ".join(sentence for sentence in sentences if sentence)


def keeping(verb: str, prediction: Any, name: str | None, agree: str, noun: str = "prediction") -> list[str]:
    """That a prediction is kept or changed, in several lengths; and what counts as the same if it is not the usual."""
    judged = short = ""
    if agree.startswith("accepted_answers("):
        judged = short = " or another accepted form"
    elif agree not in ("same_top_class", "same_answer"):
        judged, short = f" (judged by {few_words(agree)})", f" ({few_words(agree, 1)})"
    said = named(prediction, name)
    given = "" if noun == "prediction" and said[0] in "'\"" else f"{noun} "  # or "kept 0" reads as none
    forms = [f"{verb} the {noun} {said}{judged}", f"{verb} {given}{said}{judged}", f"{verb} {given}{said}{short}"]
    return [*forms, f"{verb} the {noun}{short}", f"{verb} it{short}"]


def keeps(verb: str, claim: Any) -> list[str]:
    """The same for a certificate; the reference may have been given."""
    noun = "prediction" if claim.reference is None else "reference"
    return keeping(verb, claim.prediction, claim.prediction_name, claim.agree, noun)


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


def sure(confidence: float) -> str:
    """A confidence or a minimum rate in all its digits: '99.95%'."""
    return f"{(Decimal(str(confidence)) * 100).normalize():f}%"


def at_most(risk: float) -> str:
    """A risk to two digits, rounded up: '0.0056'."""
    number = Decimal(repr(risk))
    return f"{float(number.quantize(Decimal(1).scaleb(number.adjusted() - 1), ROUND_CEILING)):g}"


def shares(interval: Interval) -> str:
    """An interval of shares in one word, rounded outwards: '79.1–99.2%'."""
    low, high = map(percent, outward(interval))
    return low if low == high else f"{low.removesuffix('%')}–{high}"


def exact_share(rate: float) -> str:
    """A share that is known: 'exactly 62.5% of cases', 'all cases', 'more than 99.9% of cases'; '83.3%' is rounded."""
    if rate in (0, 1):
        return "all cases" if rate else "no case"
    share, low, high = percent(rate), *outward(Interval(rate, rate))
    how = {">": "more than ", "<": "less than "}.get(share[0], "exactly " if low == high else "")
    return f"{how}{share.lstrip('<>')} of cases"


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


def proof_label(proof: str) -> str:
    """A method of proof as part of a sentence."""
    return _PROOFS.get(proof, proof)


def calls(number: int) -> str:
    """What it cost, in words: '1200 model calls'."""
    return f"{number} model call{'' if number == 1 else 's'}"


def took(n_calls: int) -> str:
    """The same as a sentence."""
    return f"It took {calls(n_calls)}."


def cost(claim: Any) -> str:
    """What a certificate cost, and how its model was seen to be deterministic."""
    how = f"; {counted(claim.n_repeated, 'row')} computed twice had equal results"
    if claim.answers == "random":
        how = ", each with a random answer of its own"
    elif not claim.n_repeated:
        how = " and assumes that the model is deterministic"
    return f"It took {calls(claim.n_calls)}{how}."


def duration(seconds: float) -> str:
    """Seconds in words, to two digits, from two of a unit on: '12 s', '90 min', '25 h'."""
    size, unit = next((pair for pair in _UNITS if seconds >= 2 * pair[0]), (1, "s"))
    return f"{seconds / size:{'.2g' if seconds < 99.5 * size else ',.0f'}} {unit}"


def event(neighborhood: str, rate_kind: str, radius: int | str | None) -> str:
    """The change in words, such as 'revealing up to 5 more features'; without a radius if that is no limit."""
    features = "feature" if radius == 1 else "features"
    family, _, numbers = neighborhood.partition("(")
    number = "" if radius is None else f"{'exactly' if rate_kind == 'exactly' else 'up to'} {radius}"
    if neighborhood in _CHANGES:
        return _CHANGES[neighborhood].format(number, features)
    if family == "bernoulli":
        each = "its own probability" if numbers.startswith("[") else f"probability {numbers.rstrip(')')}"
        limit = "" if radius is None else f" ({'exactly' if rate_kind == 'exactly' else 'at most'} {radius})"
        return f"revealing each other feature with {each}{limit}"
    if family == "weighted":
        return f"revealing {f'{number} more' if number else 'other'} {features} by weight"
    if family == "grouped":
        return f"revealing {number or 'any number of'} group{'' if radius == 1 else 's'} of features"
    return f"drawing masks from {few_words(neighborhood.removeprefix('own law '))}"


def change_of(claim: Any, rate_kind: str, radius: int | str | None) -> str:
    """The change that a claim is about, and that hidden features are drawn if they are."""
    change = event(claim.neighborhood, rate_kind, radius)
    if claim.n_completions is None:
        return change
    return f"{'showing the selected features alone' if radius == 0 else change} with random fills"


def changes_of(claim: Any, rate_kind: str, radius: int | str | None) -> list[str]:
    """The same in two lengths."""
    change = change_of(claim, rate_kind, radius)
    distribution = claim.neighborhood
    short = _SHORT_CHANGES.get(distribution) or f"drawing by {few_words(distribution.removeprefix('own law '), 1)}"
    limit = "" if radius is None else f" {'exactly' if rate_kind == 'exactly' else 'up to'} {radius}"
    if claim.n_completions is not None and radius == 0:
        return [change, "adding nothing with random fills"]
    return [change, f"{short}{limit}{'' if claim.n_completions is None else ' with random fills'}"]


def unlike(claim: Any) -> list[str]:
    """That the full input is predicted differently, in two lengths.

    Of a reference that was given: that the selected features alone do not have it. Random answers were asked for once.
    """
    if claim.answers == "random":
        whom = "the full input" if claim.reference is None else "the selected features alone"
        return [f"one answer to {whom} differed", "one answer differed"]
    if claim.n_completions is not None:
        return ["the full input does not give it", "the full input differs"]
    if claim.reference is not None:
        return ["the selected features alone do not give it", "the explanation alone differs"]
    return ["the full input is predicted differently", "the full input differs"]


def but_unlike(claim: Any) -> list[str]:
    """The same as the end of a sentence; nothing if there is no contradiction."""
    return [""] if claim.consistent is not False else [f", but {words}" for words in unlike(claim)]


def terms(claim: Any, *, rate: float = 0.0, drawn: bool = True) -> str:
    """What every certificate is about and what it is not, said once; ``rate`` is that at which the prediction stays."""
    masks = "random masks and random answers" if claim.answers == "random" else "random masks"
    notes = []
    if claim.n_completions is not None:
        masks = "random masks and fills"
        notes.append(f"Hidden features are drawn from {counted(claim.n_completions, 'fill')}.")
    if claim.reference is not None:
        notes.append("The prediction to be kept was given as a reference.")
    if claim.agree not in ("same_top_class", "same_answer"):
        notes.append(f"What counts as the same is judged by {few_words(claim.agree)}.")
    if claim.consistent is False:
        wrong = unlike(claim)[0]
        is_wrong = rate >= _STABLE and wrong == "the full input is predicted differently"
        notes.append(f"But {wrong}{': the explanation may be stably wrong' if is_wrong else ''}.")
    return paragraph(*notes, cost(claim), scope(masks if drawn else ""), NOT_RIGHT)


def scope(drawn: str = "", of: str = "this model, input, fill and explanation") -> str:
    """What a result is about."""
    return f"It is about {f'{drawn} for ' if drawn else ''}{of}."


def by_judge(claim: Any, interval: Interval, confidence: float) -> str:
    """What was widened by the errors of a judge."""
    if claim.judge_errors is None:
        return ""
    return f"The judge's own interval is {shares(interval)} at {sure(confidence)} confidence; its errors widen it."


def listed(parts: Iterable[str]) -> str:
    """Several things in a sentence: 'LIME, SHAP and Random'."""
    *first, last = list(parts)
    return f"{', '.join(first)} and {last}" if first else last


def shortened(text: str, most: int = 80) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"

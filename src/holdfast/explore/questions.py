"""A view and an errand → answers: ordinary calls of the library on a model that waits for its turns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.attribution.methods import attribute
from holdfast.attribution.task import Attribution, names_of
from holdfast.certification.certificate import Certificate, Look, certify
from holdfast.certification.curve import certify_radii
from holdfast.evaluation import Evaluator
from holdfast.explore.answers import Answers, Plain, indices, step_through
from holdfast.explore.live import Narrowing
from holdfast.explore.paced import in_turns
from holdfast.explore.recent import Recent
from holdfast.explore.sentences import curve_sentence, witness_sentence
from holdfast.explore.turns import Errand, Gate
from holdfast.explore.view import OWN, View, check_features
from holdfast.explore.workbench import Workbench
from holdfast.report.page.pictures import describe_input
from holdfast.selection import top_fraction
from holdfast.smoothing import smooth
from holdfast.types import Mask, MaskedModel, Masks, Outputs
from holdfast.witness import find_witness

N_VOTES = 32
"""Random masks that a smoothed model votes over."""

_MOST_REMEMBERED = 64

Tell = Callable[[str, Plain], None]
"""Told the name of an event and its data, as work goes on."""


class Questions:
    """Everything that can be asked of the models of a workbench, by any number of threads."""

    def __init__(self, workbench: Workbench, gate: Gate) -> None:
        self.workbench, self.gate = workbench, gate
        self._scores = Recent[Attribution](most=_MOST_REMEMBERED)
        self._remembered = Recent[Evaluator](most=_MOST_REMEMBERED)

    # -- at once ------------------------------------------------------------------------------------

    def reveal(self, view: View, shown: Any, errand: Errand) -> Plain:
        """What the model says when these features are shown."""
        started = time.perf_counter()
        selected = self.select(view, errand)
        seen = as_mask(check_features(shown, "shown", n_features=len(selected)), len(selected))
        reference, output = self._ask(view, np.stack([selected, seen]), errand)
        counts = {"n_added": int((seen & ~selected).sum()), "n_hidden": int((selected & ~seen).sum())}
        seconds = {"seconds": time.perf_counter() - started}
        return Answers(self.classes(view), reference).tell(output) | counts | seconds

    def select(self, view: View, errand: Errand, tell: Tell | None = None) -> Mask:
        """The explanation of a view: chosen by hand, or the top of a method's scores."""
        if view.method == OWN:
            n_features = self.bound(view, errand).n_features
            return as_mask(check_features(view.selected, "selected", n_features=n_features), n_features)
        return top_fraction(self.attribution(view, errand, tell), view.fraction)

    def attribution(self, view: View, errand: Errand, tell: Tell | None = None) -> Attribution:
        """The scores of the view's method, for the model itself even where predictions are smoothed."""
        key = (view.model, view.input, view.fill, view.method, view.seed)
        known = self._scores.get(key)
        if known is None:
            calm = replace(errand, urgent=False)
            asked = Evaluator(self._paced(view, calm), progress=None if tell is None else _progress(tell))
            known = attribute(asked, view.method, rng=view.seed)
            self._scores.put(key, known)
        return known

    def bound(self, view: View, errand: Errand) -> MaskedModel:
        """The input of a view, bound to its model; a turn is needed only if it is not yet."""
        known = self.workbench.known(view)
        if known is not None:
            return known
        with self.gate.turn(errand):
            return self.workbench.bound(view)

    def classes(self, view: View) -> tuple[str, ...]:
        """The names of the model's classes, once it is loaded."""
        return self.workbench.inputs(view.model).classes

    # -- jobs ---------------------------------------------------------------------------------------

    def explain(self, view: View, errand: Errand, tell: Tell) -> Plain:
        """The explanation, and what it is an explanation of."""
        selected = self.select(view, errand, tell)
        scores = None if view.method == OWN else self.attribution(view, errand)
        bound = self.bound(view, errand)
        full = np.ones(len(selected), dtype=bool)
        reference, whole = self._ask(view, np.stack([selected, full]), errand)
        answers = Answers(self.classes(view), reference)
        alone, seen = answers.tell(reference), answers.tell(whole)
        names = names_of(bound)
        one = self.workbench.inputs(view.model).raw(view.input)
        return {
            "picture": describe_input(one, bound, names, n_features=len(selected)),
            "features": list(names) if names else [f"feature {i}" for i in range(len(selected))],
            "scores": None if scores is None else scores.scores.tolist(),
            "selected": indices(selected),
            "prediction": alone["prediction"],
            "full_prediction": seen["prediction"],
            "consistent": seen["agrees"],
            "n_calls": 0 if scores is None else scores.n_calls,
            "n_features": len(selected),
            "max_radius": int((~selected).sum()),
            "reference": alone | {"n_added": 0, "n_hidden": 0},
            "target": None if scores is None else answers.name(scores.target),
            "classes": list(self.classes(view)),
        }

    def certify(self, view: View, errand: Errand, tell: Tell, **options: Any) -> Plain:
        """The certificate, and on the way what the counts so far say of the rate."""
        selected = self.select(view, errand, tell)
        found = certify(
            self._asked(view, errand),
            selected,
            **options,
            on_look=_Watch(tell, confidence=options["confidence"]),
            progress=_progress(tell),
            rng=view.seed,
        )
        return describe_certificate(found)

    def witness(self, view: View, errand: Errand, tell: Tell, **options: Any) -> Plain:
        """The smallest additions found that change the prediction, in an order to step through."""
        selected, asked = self.select(view, errand, tell), self._asked(view, errand)
        found = find_witness(asked, selected, **options, progress=_progress(tell), rng=view.seed)
        answers = Answers(self.classes(view), asked(selected[None])[0])
        order = _order(answers, asked, selected, found.added)
        steps = step_through(answers, asked(_prefixes(selected, order)), order) if order else []
        return {
            "found": found.found,
            "added": order,
            "steps": steps,
            "prediction": None if found.prediction is None else answers.name(found.prediction),
            "proven": found.proven,
            "cleared_radius": found.cleared_radius,
            "max_radius": found.max_radius,
            "sentence": witness_sentence(found, names_of(self.bound(view, errand))),
            "n_calls": found.n_calls,
        }

    def curve(self, view: View, errand: Errand, tell: Tell, **options: Any) -> Plain:
        """Rates over radii."""
        selected = self.select(view, errand, tell)
        model = self._asked(view, errand)
        found = certify_radii(model, selected, **options, progress=_progress(tell), rng=view.seed)
        return {
            "radii": list(found.radii),
            "rates": [one.rate for one in found],
            "lows": [one.interval.low for one in found],
            "highs": [one.interval.high for one in found],
            "simultaneous": found.simultaneous,
            "sentence": curve_sentence(found),
            "n_calls": found.n_calls,
        }

    # -- models -------------------------------------------------------------------------------------

    def _paced(self, view: View, errand: Errand) -> MaskedModel:
        return in_turns(self.bound(view, errand), self.gate, errand, self.workbench.pace(view.model))

    def _asked(self, view: View, errand: Errand) -> Evaluator:
        """The model of a view for one job, which counts its calls as if there were no others."""
        return _evaluator(Evaluator(self._paced(view, errand)), view)

    def _ask(self, view: View, masks: Masks, errand: Errand) -> Outputs:
        """A few masks in one turn; the evaluator is nobody else's meanwhile, and remembers."""
        with self.gate.turn(errand):
            known = self._remembered.get(view.scene)
            if known is None:
                known = _evaluator(Evaluator(self.workbench.bound(view)), view)
                self._remembered.put(view.scene, known)
            return known(masks)


def _evaluator(own: Evaluator, view: View) -> Evaluator:
    """The model itself, or smoothed as the view says."""
    if view.keep_probability == 1:
        return own
    return Evaluator(smooth(own, view.keep_probability, N_VOTES, rng=view.seed))


def as_mask(features: Any, n_features: int) -> Mask:
    """The mask that shows these features."""
    mask = np.zeros(n_features, dtype=bool)
    mask[list(features)] = True
    return mask


def describe_certificate(found: Certificate) -> Plain:
    """A certificate for the page; ``text`` is the file that ``holdfast verify`` reads."""
    text = found.to_json()
    return {
        "certificate": json.loads(text),
        "text": text,
        "sentence": str(found),
        "interval": [found.interval.low, found.interval.high],
        "rate": found.rate,
        "exact": found.exact,
        "counterexample": indices(found.counterexample),
        "n_calls": found.n_calls,
    }


def _order(answers: Answers, asked: Evaluator, selected: Mask, added: tuple[int, ...]) -> list[int]:
    """The features that come closest to another prediction on their own first."""
    if len(added) < 2:
        return list(added)
    alone = np.tile(selected, (len(added), 1))
    alone[np.arange(len(added)), list(added)] = True
    margins = [answers.tell(output)["margin"] or 0.0 for output in asked(alone)]
    return [added[int(i)] for i in np.argsort(margins, kind="stable")]


def _prefixes(selected: Mask, order: list[int]) -> Masks:
    masks = np.tile(selected, (len(order), 1))
    for place, feature in enumerate(order):
        masks[place:, feature] = True
    return masks


def _progress(tell: Tell) -> Callable[[int, int], None]:
    started = time.monotonic()
    return lambda done, total: tell("progress", {"done": done, "total": total, "seconds": time.monotonic() - started})


class _Watch:
    """Tells at every look what is known so far, and whether the looks contradict each other."""

    def __init__(self, tell: Tell, *, confidence: float) -> None:
        self._tell, self._confidence, self._known = tell, confidence, Narrowing()

    def __call__(self, look: Look) -> None:
        self._known = known = self._known.after(look, confidence=self._confidence)
        self._tell(
            "look",
            {
                "n_agreed": look.n_agreed,
                "n_evaluated": look.n_evaluated,
                "rate": look.n_agreed / look.n_evaluated,
                "low": known.low,
                "high": known.high,
                "empty": known.is_empty,
                "looks": known.n_looks,
                "may_draw": look.n_most,
                "exact": look.exact,
            },
        )

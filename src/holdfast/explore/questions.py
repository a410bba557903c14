"""A view and a caller → answers as plain data: ordinary calls of the library on a model that waits for its turns."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from io import BytesIO
from typing import Any, Generic, TypeVar

import numpy as np

import holdfast as hf
from holdfast.attribution.methods import names_of
from holdfast.certification.certificate import Look
from holdfast.certification.question import own_terms
from holdfast.explore.jobs import Report
from holdfast.explore.requests import CITED, OWN, View, check_features
from holdfast.explore.scheduling import Caller, Priority, PriorityLock, ScheduledModel
from holdfast.explore.workbench import Entry, Workbench
from holdfast.report.card import Plain, describe_certificate, describe_curve, describe_witness, input_card
from holdfast.types import Masks, Outputs, Progress
from holdfast.validation import check_mask
from holdfast.words import but_unlike, class_label, fitted, keeps, outward, percent, shortened, sure

N_VOTES = 32  # random masks that a smoothed model votes over
MOST_CLASSES, _SHOWN_CLASSES = 50, 20  # of a model with more classes than these, only the leading ones are described
_MOST_NAMES = 8
_MOST_REMEMBERED = 64

_SIZES = {
    "image": (3.4, 3.6),
    "text": (4.2, 1.8),
    "table": (4.6, 4.2),
    "context": (4.6, 4.2),
}  # of a picture, in inches

_DRAWING = threading.Lock()  # Matplotlib draws for one thread at a time

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """The values that were asked for last, by key; any thread may ask."""

    def __init__(self, most: int = _MOST_REMEMBERED) -> None:
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made if it is not known; then the one that was not asked for the longest is forgotten."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


class Questions:
    """Everything that can be asked of the models of a workbench, by any number of threads.

    ``reveal`` and ``draw`` answer a click; ``explain``, ``certify``, ``witness`` and ``curve`` are jobs.
    """

    def __init__(self, workbench: Workbench, lock: PriorityLock) -> None:
        self.workbench, self.lock = workbench, lock
        self._evaluators, self._attributions = LruCache[hf.Evaluator](), LruCache[hf.Attribution]()

    def reveal(self, view: View, shown: Any, caller: Caller) -> Plain:
        """What the model says when these features are shown."""
        selected = self.select(view, caller)
        mask = _as_mask(shown, "shown", len(selected))
        outputs = self._evaluate(view, np.stack([selected, mask]), caller)
        counts = {"n_added": int((mask & ~selected).sum()), "n_hidden": int((selected & ~mask).sum())}
        agree = self._terms(view, caller)["agree"]
        return describe_outputs(outputs, outputs[0], self._inputs(view).classes, agree)[1] | counts

    def draw(self, view: View, shown: Any, caller: Caller) -> bytes:
        """A PNG of the input: what is shown of the selected features in blue, of others in orange."""
        from holdfast.report.figures.examples import plot_example
        from holdfast.report.figures.style import make_panels, themed

        selected = self.select(view, caller)
        features = np.flatnonzero(selected).tolist() if shown is None else shown
        answer, mask = self.reveal(view, features, caller), _as_mask(features, "shown", len(selected))
        changes = [(answer["n_added"], "added"), (answer["n_hidden"], "hidden again")]
        parts = [f"{selected.sum()} selected", *(f"{count} {what}" for count, what in changes if count)]
        title = f"“{answer['prediction']}”: {', '.join(parts)}"
        bound, inputs, file = self.bound(view, caller), self._inputs(view), BytesIO()
        added = np.flatnonzero(mask & ~selected).tolist()
        with _DRAWING:
            figure, ((axes,),) = make_panels(1, 1, size=_SIZES[inputs.kind])
            plot_example(inputs.raw(view.input), bound, selected & mask, added=added, title=title, ax=axes)
            with themed():
                figure.savefig(file, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None})
        return file.getvalue()

    def explain(self, view: View, caller: Caller, report: Report) -> Plain:
        """The explanation, and what it is an explanation of."""
        selected = self.select(view, caller, report)
        attribution = None if view.method in (OWN, CITED) else self.attribution(view, caller)
        bound, inputs = self.bound(view, caller), self._inputs(view)
        outputs = self._evaluate(view, np.stack([selected, np.ones_like(selected)]), caller)
        agree = self._terms(view, caller)["agree"]
        alone, whole = describe_outputs(outputs, outputs[0], inputs.classes, agree)
        card = input_card(inputs.raw(view.input), bound, names_of(bound), n_features=len(selected))
        return card | {
            "scores": None if attribution is None else attribution.scores.tolist(),
            "selected": np.flatnonzero(selected).tolist(),
            "prediction": alone["prediction"],
            "full_prediction": whole["prediction"],
            "consistent": whole["agrees"],
            "n_calls": 0 if attribution is None else attribution.n_calls,
            "max_radius": int((~selected).sum()),
            "reference": alone | {"n_added": 0, "n_hidden": 0},
        }

    def certify(self, view: View, caller: Caller, report: Report, **options: Any) -> Plain:
        """The certificate, and on the way what the counts so far say of the rate; ``text`` is the file to save."""
        selected, known = self.select(view, caller, report), hf.Interval(0.0, 1.0)

        def on_look(look: Look) -> None:
            nonlocal known
            known = narrow(known, look, confidence=options["confidence"])
            rate, is_empty = look.n_agreed / look.n_evaluated, known.low > known.high
            report("look", asdict(look) | {"rate": rate, **known._asdict(), "empty": is_empty})

        options |= self._terms(view, caller) | {"on_look": on_look, "progress": _progress(report)}
        certificate = hf.certify(self._model(view, caller), selected, **options, rng=view.seed)
        change = certificate.counterexample
        return describe_certificate(certificate) | {
            "explanation": certificate.explain(),
            "text": certificate.to_json(),
            "exact": certificate.exact,
            "proof": certificate.proof,
            "counterexample": None if change is None else np.flatnonzero(change).tolist(),
        }

    def witness(self, view: View, caller: Caller, report: Report, **options: Any) -> Plain:
        """The smallest additions found that change the prediction, in an order to step through."""
        selected, model = self.select(view, caller, report), self._model(view, caller)
        options |= self._terms(view, caller)
        witness = hf.find_witness(model, selected, **options, progress=_progress(report), rng=view.seed)
        names, classes = names_of(self.bound(view, caller)), self._inputs(view).classes
        added, steps = np.array(witness.added, dtype=int), list[Plain]()
        if witness.found:
            reference, features = model(selected[None])[0], np.arange(len(selected))
            # Those that come closest to another prediction on their own are revealed first.
            agree = options["agree"]
            answers = describe_outputs(model(selected | (features == added[:, None])), reference, classes, agree)
            added = added[np.argsort([answer["margin"] or 0.0 for answer in answers], kind="stable")]
            prefixes = selected | np.logical_or.accumulate(features == added[:, None])
            answers = describe_outputs(model(prefixes), reference, classes, agree)
            steps = [{"added": feature} | answer for feature, answer in zip(added.tolist(), answers, strict=True)]
        named = [f"Feature {i} is “{shortened(names[i], 40)}”." for i in witness.added[:_MOST_NAMES]] if names else []
        changes = {"added": added.tolist(), "steps": steps, "proven": witness.proven}
        return describe_witness(witness, classes) | changes | {"sentence": " ".join([str(witness), *named])}

    def curve(self, view: View, caller: Caller, report: Report, **options: Any) -> Plain:
        selected, model = self.select(view, caller, report), self._model(view, caller)
        options |= self._terms(view, caller)
        curve = hf.certify_radii(model, selected, **options, progress=_progress(report), rng=view.seed)
        return describe_curve(curve) | {"sentence": curve_sentence(curve), "explanation": curve.explain()}

    def select(self, view: View, caller: Caller, report: Report | None = None) -> hf.Mask:
        """The explanation of a view: chosen by hand, or the top of a method's scores."""
        if view.method == OWN:
            return _as_mask(view.selected, "selected", self.bound(view, caller).n_features)
        if view.method == CITED:
            mask: hf.Mask = self._inputs(view).raw(view.input).cited_mask()
            return check_mask(mask, "cited", n_features=self.bound(view, caller).n_features)
        return hf.top_fraction(self.attribution(view, caller, report), view.fraction)

    def attribution(self, view: View, caller: Caller, report: Report | None = None) -> hf.Attribution:
        """The scores of the view's method, for the model itself even where predictions are smoothed."""

        def compute() -> hf.Attribution:
            patient = replace(caller, priority=max(caller.priority, Priority.JOB))
            model = hf.Evaluator(self._scheduled(view, patient), progress=report and _progress(report))
            return hf.attribute(model, view.method, rng=view.seed)

        return self._attributions.get((view.model, view.input, view.fill, view.method, view.seed), compute)

    def bound(self, view: View, caller: Caller) -> hf.MaskedModel:
        """The input of a view, bound to its model; a turn is needed only if it is not yet."""
        return self._remembering(view, caller).model

    def _inputs(self, view: View) -> hf.Inputs:
        return self.workbench.entries[view.model].inputs

    def _scheduled(self, view: View, caller: Caller) -> hf.MaskedModel:
        return ScheduledModel(self.bound(view, caller), self.lock, caller, self.workbench.entries[view.model].batch)

    def _model(self, view: View, caller: Caller) -> hf.Evaluator:
        """The model of a view for one job, which counts its calls as if there were no others."""
        return _smoothed(hf.Evaluator(self._scheduled(view, caller)), view)

    def _terms(self, view: View, caller: Caller) -> dict[str, Any]:
        """What counts as the same, and the answer to agree with if the model brings one, as keywords of the verbs."""
        evaluator = _smoothed(self._remembering(view, caller), view)
        agree, reference = own_terms(evaluator, hf.agreement.same_top_class, None)
        return {"agree": agree, "reference": reference}

    def _evaluate(self, view: View, masks: Masks, caller: Caller) -> Outputs:
        """What the model of a view says of a few masks, in one turn."""
        evaluator = self._remembering(view, caller)
        with self.lock.turn(caller):
            return _smoothed(evaluator, view)(masks)

    def _remembering(self, view: View, caller: Caller) -> hf.Evaluator:
        """The input of a view with all that was computed of it; to be called by whoever has a turn."""

        def bind() -> hf.Evaluator:
            with self.lock.turn(caller):
                return hf.Evaluator(self.workbench.bind(view))

        return self._evaluators.get((view.model, view.input, view.fill), bind)


def _smoothed(model: hf.Evaluator, view: View) -> hf.Evaluator:
    if view.keep_probability == 1:
        return model
    return hf.Evaluator(hf.smooth(model, view.keep_probability, N_VOTES, rng=view.seed))


def _as_mask(features: Any, name: str, n_features: int) -> hf.Mask:
    return np.isin(np.arange(n_features), check_features(features, name, n_features=n_features))


def _progress(report: Report) -> Progress:
    return lambda done, total: report("progress", {"done": done, "total": total})


def describe_outputs(
    outputs: Outputs,
    reference: Any,
    classes: Sequence[str],
    agree: hf.agreement.Agreement = hf.agreement.same_top_class,
) -> list[Plain]:
    """The prediction of each output, its scores, and whether it is that of the output for the explanation alone.

    ``margin`` is by how much the class of the explanation leads its strongest rival: below zero once the prediction
    has changed. Shares are the scores themselves if these are shares, else their softmax.
    """
    answers: list[Plain] = []
    for output, agrees in zip(outputs, agree(outputs, reference).tolist(), strict=True):
        answer = {"prediction": str(output), "class": None, "margin": None, "scores": [], "agrees": agrees}
        if outputs.ndim == 2:
            leader, target, scores = int(output.argmax()), int(reference.argmax()), output.astype(np.float64)
            is_shares = (scores >= 0).all() and abs(scores.sum() - 1) < 1e-6
            powers = np.exp(scores - scores.max())
            shares = scores if is_shares else powers / powers.sum()
            listed = np.arange(len(scores))
            if len(scores) > MOST_CLASSES:
                listed = np.union1d(np.argsort(-scores, kind="stable")[:_SHOWN_CLASSES], [target])
            answer |= {"prediction": class_label(leader, classes), "class": leader}
            answer["margin"] = float(output[target] - np.delete(output, target).max())
            answer["scores"] = [
                {"class": class_label(i, classes), "score": float(output[i]), "share": float(shares[i])}
                for i in listed.tolist()
            ]
        answers.append(answer)
    return answers


def narrow(known: hf.Interval, look: Look, *, confidence: float) -> hf.Interval:
    """What is known of the rate after one more look: what the intervals of all looks, valid at once, have in common.

    ``low > high`` if the looks contradict each other, which happens with probability at most 1 - confidence.
    """
    if look.exact:
        # Masks that are listed one and all leave open only what the others do; there is no chance in it.
        n_left = look.n_most - look.n_evaluated
        low, high = look.n_agreed / look.n_most, (look.n_agreed + n_left) / look.n_most
    else:
        low, high = hf.bounds.anytime_interval(look.n_agreed, look.n_evaluated, confidence=confidence)
    return hf.Interval(max(known.low, low), min(known.high, high))


def curve_sentence(curve: hf.StabilityCurve) -> str:
    """How often the prediction is kept at every radius of a curve that holds for all of them at once."""
    first, last = curve.radii[0], curve.radii[-1]
    lowest = min(curve, key=lambda certificate: (certificate.interval.low, certificate.radius))
    known = "exact" if all(point.exact for point in curve) else f"{sure(lowest.confidence)} confidence"
    cases = f"at least {percent(outward(lowest.interval).low)} of cases"
    where = f"the tested radii {first} to {last}" if first < last else f"radius {last}"
    return fitted(
        "Stable in {cases} at {where} ({known}): {keeps}{lowest}{but}.",
        cases=[cases],
        where=[where, where.replace("the tested ", "")],
        known=[known],
        but=but_unlike(lowest),
        keeps=keeps("additions kept", lowest),
        lowest=[f", least at radius {lowest.radius}" if first < last else "", ""],
    )


def write_python(view: View, entry: Entry, **question: Any) -> str:
    """A script that makes the same explanation and prints the certificate of the same question to ``certify``."""

    def keywords(settings: Mapping[str, Any]) -> str:
        return "".join(f", {name}={value!r}" for name, value in settings.items() if value is not None)

    model, data = entry.inputs.model_name, entry.inputs.data_name
    # Names inside the docstring of the script must not end it.
    safe_model, safe_data = (repr(name).replace('"', "'").replace("\\", "/") for name in (model, data))
    binding = {"features": entry.inputs.features, "fill": entry.fill(view.fill), **entry.options}
    explanation = [f"selected = np.isin(np.arange(model.n_features), {list(view.selected)})"]
    if view.method == CITED:
        explanation = [f"selected = inputs.raw({view.input}).cited_mask()"]
    elif view.method != OWN:
        scores = f"hf.attribute(model, {view.method!r}, rng={view.seed})"
        explanation = [f"scores = {scores}", f"selected = hf.top_fraction(scores, {view.fraction!r})"]
    if view.keep_probability < 1:
        smoothed = f"hf.smooth(model, {view.keep_probability!r}, n_samples={N_VOTES}, rng={view.seed})"
        explanation.append(f"model = {smoothed}")
    lines = [
        f'"""An explanation of input {view.input} of {safe_data} for {safe_model}, '
        f'certified: written by `holdfast explore` {hf.__version__}."""',
        "",
        *(["import numpy as np", ""] if view.method == OWN else []),
        "import holdfast as hf",
        "",
        f"inputs = hf.bind({model!r}, {data!r}{keywords(binding)})",
        f"model = inputs[{view.input}]",
        *explanation,
        f"certificate = hf.certify(model, selected{keywords(question)}, rng={view.seed})",
        "print(certificate)",
    ]
    return "\n".join(lines) + "\n"

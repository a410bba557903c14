"""A masked model and an explanation → the smallest additions found that change the prediction.

Small additions are evaluated one and all, level by level, so that what is found there is proven
smallest. Beyond, a beam search and random orders look for a change, guided by the gap between the
predicted class and its strongest rival, and what they find is reduced until nothing can be left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import Agreement, as_agreement, as_reference, reference_output
from holdfast.certification.hard import HardCertificate
from holdfast.certification.question import own_terms
from holdfast.certification.reference import check_completion, check_prediction, prediction_of, reference_masks
from holdfast.certification.serialization import Value
from holdfast.certification.structure import Structure
from holdfast.completions import by_rows, completions_of, nearby_rows, numbers_of, with_completions
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.exact.countable import PROOFS
from holdfast.mus import certify_mus
from holdfast.neighborhood import Additions
from holdfast.randomness import stream, stream_key
from holdfast.smoothing import SmoothedModel
from holdfast.terminal import Pictured
from holdfast.types import Mask, MaskedModel, Masks, Progress, Provenance, Rng
from holdfast.validation import check_mask, check_name, check_selection, check_whole
from holdfast.words import (
    NOT_RIGHT,
    counted,
    few_words,
    fitted,
    keeping,
    listed,
    named,
    paragraph,
    proof_label,
    quoted,
    scope,
    took,
)

ALWAYS_EXHAUSTED = 4096
"""Levels with no more masks than this are always evaluated in full."""

_BEAM_WIDTH, _N_ORDERS = 8, 32
_LEAST_REPEATED, _MOST_REPEATED, _PORTION = 20_000, 1_000_000, 1024


@dataclass(frozen=True, eq=False)
class Witness(Pictured, Value, schema="holdfast.witness"):
    """The smallest set of additions found that changes the prediction.

    Attributes
    ----------
    found : bool
        Whether any was found.
    mask : Boolean array or None
        The explanation with the additions.
    added : tuple of int
        The features added, in increasing order; none of them can be left out.
    added_names : tuple of str, or None
        What the model calls them; None if it does not say.
    n_added : int or None
        Their number; None if nothing was found.
    prediction, original_prediction : int, str, float or None
        With the additions (None if nothing was found), and on the explanation; as in a certificate.
    prediction_name, original_name : str or None
        The same by the model's names of its classes; None if it does not say.
    proven : bool
        No smaller set of additions exists; or, if nothing was found, none within ``max_radius``.
    cleared_radius : int
        No addition of up to this many features changes the prediction: all were evaluated, or it is proven.
    proof : str or None
        What proves ``cleared_radius`` from inside the model, such as "branch and bound"; None if masks were evaluated.
    reference : str, int, bool, float, list or None
        What was given as the prediction to be changed; None if nothing was.
    n_completions : int or None
        If hidden features are drawn, how many completions there are; the prediction to be changed is then that of the
        full input. None if one fill hides them.
    completion : int or None
        The number of the completion that changes the prediction together with the additions, of which there may then
        be none; ``cleared_radius`` is -1 where not even the explanation alone was seen with all completions.
    """

    found: bool
    mask: Mask | None
    added: tuple[int, ...]
    n_added: int | None
    prediction: Any
    prediction_name: str | None
    original_prediction: Any
    original_name: str | None
    proven: bool
    cleared_radius: int
    max_radius: int
    n_calls: int
    rng_key: int
    selected: Mask
    agree: str
    provenance: Provenance
    reference: Any = None
    proof: str | None = None
    n_completions: int | None = None
    completion: int | None = None
    added_names: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_mask(self.selected, "selected")
        check_whole(self.cleared_radius, "cleared_radius", minimum=0 if self.n_completions is None else -1)
        check_completion(self.n_completions, self.completion, self.mask)
        as_reference(self.reference)
        if self.proof is not None:
            check_name(self.proof, "proof", PROOFS)
        check_prediction(self.prediction, self.prediction_name, self.agree)
        check_prediction(self.original_prediction, self.original_name, self.agree, "original_name")
        if self.found != (self.mask is not None) or (self.n_added or 0) != len(self.added):
            raise InvalidValueError(argument="found", must="agree with `mask`, `added` and `n_added`")
        if self.added_names is not None and len(self.added_names) != len(self.added):
            raise InvalidValueError(argument="added_names", must="be one name per feature of `added`")
        if self.mask is not None:
            added = self.mask & ~self.selected
            if (self.selected & ~self.mask).any() or tuple(int(i) for i in added.nonzero()[0]) != self.added:
                raise InvalidValueError(argument="mask", must="be the explanation with the features `added`")

    def __str__(self) -> str:
        fills = "" if self.n_completions is None else " with random fills"
        original = (self.original_prediction, self.original_name, self.agree)
        if not self.found:
            reach = f"addition of up to {counted(self.max_radius, 'feature')}{fills}"
            known = f"; proven up to {counted(self.cleared_radius, 'feature')}" if self.cleared_radius >= 0 else ""
            if self.proven:
                return fitted("Proven: no {reach} {change}.", reach=[reach], change=keeping("changes", *original))
            verbs = keeping("was found that changes", *original)
            return fitted("No {reach} {change}{known}.", reach=[reach], known=[known], change=verbs)
        numbers, more = listed(map(str, self.added)) if self.added else "", list[str]()
        if numbers:
            if self.added_names:
                more = [listed(quoted(few_words(name), None) for name in self.added_names)]
            more += [f"feature{'' if len(self.added) == 1 else 's'} {numbers}"]
            more += [counted(len(self.added), "more feature")]
        if self.n_completions is not None:
            fills = f" with fill {self.completion}"
        smaller = "proven smallest" if self.proven else f"fewer than {len(self.added)} may do"
        return fitted(
            "Revealing {added}{fills} {change} to {new}{smaller}.",
            new=[named(self.prediction, self.prediction_name)],
            smaller=[f" ({smaller})" if self.added else ""],
            fills=[fills],
            change=keeping("changes", *original),
            added=more or ["nothing more"],
        )

    def explain(self) -> str:
        """What was asked, what is proven and what is not, in plain words."""
        said = ["What are the fewest features that change the prediction when they are revealed?"]
        if not self.found:
            said.append(f"The search found none, revealing up to {counted(self.max_radius, 'feature')}.")
        elif self.added:
            many = f"{len(self.added)} features together do, and none of them can be left out."
            said.append("One feature does." if len(self.added) == 1 else many)
        else:
            said.append("Nothing need be revealed for it.")
        if self.n_completions is not None:
            said.append(f"Hidden features come from {counted(self.n_completions, 'fill')}; one is enough.")
        if self.cleared_radius > 0:
            how = "all were evaluated"
            if self.proof is not None:
                how = f"proven from inside the model, by {proof_label(self.proof)}"
            said.append(f"No addition of up to {counted(self.cleared_radius, 'feature')} does: {how}.")
        if not self.proven:
            said.append("Beyond that the search was guided: what it did not find may exist.")
        if self.agree not in ("same_top_class", "same_answer"):
            said.append(f"What counts as the same is judged by {few_words(self.agree)}.")
        if self.found:
            said.append("It is one example, and says nothing about how often.")
        return paragraph(*said, took(self.n_calls), scope(), NOT_RIGHT)


@dataclass(frozen=True, eq=False)
class StabilityBracket(Value, schema="holdfast.stability_bracket"):
    """Bounds on the hard radius of one function: at least ``low``, below ``below``.

    Attributes
    ----------
    low : int
        No addition of up to this many features changes the prediction: proven.
    below : int or None
        Some addition of this many features does; None if none was found.
    method : str
        Where ``low`` comes from: "enumeration", a proof from inside the model such as "branch and bound", "mus" or
        "bernoulli".
    certificate : HardCertificate or None
        The certificate by votes, for a smoothed model.
    witness : Witness
        The search behind ``below``.
    """

    low: int
    below: int | None
    method: str
    certificate: HardCertificate | None
    witness: Witness
    n_calls: int

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if self.below is not None and self.low >= self.below:
            raise InvalidValueError(argument="low", must="be below `below`", got=f"{self.low} and {self.below}")

    @property
    def is_tight(self) -> bool:
        """Whether the hard radius is known exactly."""
        n_unselected = int((~self.witness.selected).sum())
        return self.low + 1 == self.below or (self.below is None and self.low == n_unselected)

    def __str__(self) -> str:
        model = "smoothed model's" if self.certificate is not None else "model's"
        known = f"Proven: the {model} prediction survives any {counted(self.low, 'more feature')}"
        if self.below is not None:
            return f"{known}; some {self.below} change it."
        if self.is_tight:
            return f"{known}, which is all there are."
        reach = self.witness.max_radius
        return f"{known}; {f'up to {reach}, no change was found' if reach > self.low else 'no more were searched'}."

    def explain(self) -> str:
        """What was asked, what is proven and what is not, in plain words."""
        said = ["How many features can be revealed before the prediction changes, at least and at most?"]
        said.append(f"No addition of up to {counted(self.low, 'feature')} changes it: proven by {self.method}.")
        if self.below is None:
            said.append("No addition that changes it was found.")
            said.append("These are all there are." if self.is_tight else "Between the two, nothing is known.")
        else:
            said.append(f"Some addition of {counted(self.below, 'feature')} does: the search found one.")
            said.append("So the radius is known exactly." if self.is_tight else "Between the two, nothing is known.")
        if self.certificate is not None:
            said.append("It is a fact about the smoothed model, not about the model that was smoothed.")
        return paragraph(*said, "Nothing of it is left to chance.", took(self.n_calls), scope(), NOT_RIGHT)


def find_witness(
    model: MaskedModel,
    selected: Any,
    *,
    max_radius: int | None = None,
    max_calls: int = 20_000,
    agree: Any = "same_top_class",
    reference: Any = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> Witness:
    """Search for the fewest features that change the prediction when they are revealed.

    Every addition of 1 feature is evaluated, then of 2, and so on, as long as a level has at most
    4,096 masks or fits into what is left of ``max_calls``. A change found there is proven smallest.
    After that a guided search looks further, up to ``max_radius``; what it finds cannot be made
    smaller by leaving out one of its features, but smaller changes elsewhere may exist, and finding
    none proves nothing beyond ``cleared_radius``. Of a model that draws what is hidden, every addition is evaluated
    with every completion, that of nothing first, and the witness names its ``completion``. Where the structure of the
    model is known, as of trees on a row of a table, it tells the fewest features instead, and ``proof`` says how.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features).
    selected : Boolean array of shape (n_features,), or list of names or indices
        The explanation: which features are selected.
    max_radius : int, optional
        The most features to add; all unselected ones if None.
    max_calls : int
        About how many model calls to spend; small levels are evaluated whatever it is.
    agree : str, Agreement or callable
        What counts as the same prediction; see ``certify``.
    reference : str, int, bool, float or array, optional
        The prediction that is to be changed, in place of the one on ``selected``, which must agree with it; see
        ``certify``.
    rng : Generator, int, "canonical" or None
        For the random orders; "canonical" derives the key from model, input and explanation.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import find_witness, mask_function
    >>> model = mask_function(lambda masks: masks[:, 0] & ~(masks[:, 5] & masks[:, 7]), n_features=8)
    >>> witness = find_witness(model, np.arange(8) < 2, max_radius=4, rng=0)
    >>> witness.added, witness.proven
    ((5, 7), True)
    """
    check_whole(max_calls, "max_calls")
    same, given = as_agreement(agree), as_reference(reference)
    wanted = None if max_radius is None else check_whole(max_radius, "max_radius")
    with evaluating(by_rows(model), batch_size=batch_size, progress=progress) as evaluator:
        mask = check_selection(selected, "selected", evaluator)
        n_free, known, before = int((~mask).sum()), evaluator.provenance, evaluator.n_calls
        key = stream_key(rng, "witness", known.model, known.input, known.masking, np.flatnonzero(mask).tolist())
        reach = n_free if wanted is None else min(wanted, n_free)
        search = _WitnessSearch(evaluator, mask, *own_terms(evaluator, same, given), reach, max_calls)
        rng_of_search = stream(key, "witness", np.packbits(mask).tobytes())
        if evaluator.answering is None:
            return search.run(rng_of_search, key)
        evaluator.check_determinism(mask)  # a random answer is no witness
        witness = search.run(rng_of_search, key)
        evaluator.settle()
        return replace(witness, n_calls=evaluator.n_calls - before)


def repeat_witness(model: MaskedModel, stated: Witness, **options: Any) -> Witness:
    """Evaluate again all that a witness states; where it is not so, what is.

    What every search evaluates is, and additions up to the radius that it cleared, one and all as far as a million
    masks go; then the one it names, and that with each of its features left out. If it names none, the whole search is
    repeated, with no less than what it spends by default. The number of calls is not stated again.
    """

    def search(max_radius: int, max_calls: int) -> Witness:
        limits: dict[str, Any] = {"max_radius": max_radius, "max_calls": max_calls, "rng": stated.rng_key}
        limits["reference"] = stated.reference
        return find_witness(model, stated.selected, **limits, **options)

    least = search(stated.max_radius, 0)
    cleared = search(max(0, min(stated.cleared_radius, stated.max_radius)), _MOST_REPEATED)
    whole = least
    if not stated.found:
        whole = search(stated.max_radius, min(max(stated.n_calls, _LEAST_REPEATED), _MOST_REPEATED))
    for repeated in (least, cleared, whole):
        if repeated.found and len(repeated.added) < (len(stated.added) if stated.found else math.inf):
            return repeated
    radius = max(least.cleared_radius, cleared.cleared_radius)
    if stated.mask is None:
        proven = radius == whole.max_radius
        return replace(whole, cleared_radius=radius, proven=proven, n_calls=stated.n_calls)
    with evaluating(by_rows(model), batch_size=options.get("batch_size")) as evaluator:
        less = np.tile(stated.mask, (len(stated.added), 1))
        less[range(len(stated.added)), list(stated.added)] = False
        rows, n_completions = np.concatenate([[stated.mask], less]), completions_of(evaluator)
        if n_completions is not None:
            rows = with_completions(rows, np.full(len(rows), stated.completion or 0), n_completions)
        outputs = evaluator(np.concatenate([reference_masks(stated.selected, n_completions)[:1], rows]))
    agree = as_agreement(stated.agree if options.get("agree") is None else options["agree"])
    kept = outputs[0]
    if stated.reference is not None:
        kept = reference_output(evaluator.label_of(stated.reference), outputs, agree, evaluator.classes)
    agrees = agree(outputs, kept)
    if agrees[1] or not agrees[2:].all() or len(stated.added) > least.max_radius:
        return least
    changed, name = prediction_of(outputs[1], agree, evaluator.classes)
    again = ("original_prediction", "original_name", "max_radius", "agree", "provenance", "n_completions")
    facts, proven = {field: getattr(least, field) for field in again}, radius == len(stated.added) - 1
    facts["proof"] = least.proof if least.cleared_radius == radius else None
    return replace(stated, prediction=changed, prediction_name=name, proven=proven, cleared_radius=radius, **facts)


def stability_bracket(
    model: MaskedModel,
    selected: Any,
    *,
    max_radius: int | None = None,
    max_calls: int = 20_000,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> StabilityBracket:
    """Bracket the hard radius: how many additions can never, and how many can, change the prediction.

    The upper end is a witness (``find_witness``). The lower end is what the search has enumerated or proven,
    or, if ``model`` was smoothed by votes (``mus_model``, ``smooth``), the certificate by votes where
    that reaches further. Both are about ``model`` as given: to bracket a smoothed model, pass it.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, stability_bracket
    >>> model = mask_function(lambda masks: masks[:, 0] & ~(masks[:, 5] & masks[:, 7]), n_features=8)
    >>> bracket = stability_bracket(model, np.arange(8) < 2, rng=0)
    >>> bracket.low, bracket.below
    (1, 2)
    """
    if completions_of(model) is not None:
        must, hint = "have a fixed fill", "With random fills, use `find_witness`."
        raise InvalidValueError(argument="model", must=must, got="random fills", hint=hint)
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        before = evaluator.n_calls
        votes = isinstance(evaluator.model, SmoothedModel) and evaluator.model.votes
        witness = find_witness(evaluator, selected, max_radius=max_radius, max_calls=max_calls, rng=rng)
        certificate = certify_mus(evaluator, selected, input_removals=False) if votes else None
        low, method = witness.cleared_radius, witness.proof or "enumeration"
        if certificate is not None and certificate.radius > low:
            low, method = certificate.radius, certificate.method
        return StabilityBracket(low, witness.n_added, method, certificate, witness, evaluator.n_calls - before)


class _WitnessSearch:
    """One search: what was cleared, the best change so far, and what may still be spent."""

    def __init__(
        self, evaluator: Evaluator, selected: Mask, agree: Agreement, given: Any, reach: int, max_calls: int
    ) -> None:
        self._evaluator, self._selected, self._agree, self._reach = evaluator, selected, agree, reach
        self._before, self._max_calls = evaluator.n_calls, max_calls
        self._free, self._n_completions = np.flatnonzero(~selected), completions_of(evaluator)
        # A row may also say which completion is drawn: nothing of that is an addition.
        self._kept = np.pad(selected, (0, evaluator.n_columns - len(selected)), constant_values=True)
        self._cost = 1 if evaluator.deciding is None else evaluator.deciding.rows_per_mask
        outputs = evaluator(reference_masks(selected, self._n_completions)[:1])
        self._reference = outputs[0]
        if not agree(outputs, self._reference)[0]:
            must = f"hold between an output and itself; {agree.name} does not"
            raise InvalidValueError(argument="agree", must=must)
        self._best: Mask | None = None
        self._given = given
        if given is not None:
            self._reference = reference_output(evaluator.label_of(given), outputs, agree, evaluator.classes)
            if not agree(outputs, self._reference)[0]:
                alone = quoted(*prediction_of(outputs[0], agree, evaluator.classes))
                must, got = f"be the prediction of the selected features alone, {alone}", f"{given!r}"
                if self._n_completions is not None:
                    must, got = f"be the prediction of the full input, {alone}", f"{given!r}"
                raise InvalidValueError(argument="reference", must=must, got=got)
        evaluator.expect(max_calls // self._cost)

    def run(self, rng: np.random.Generator, key: int) -> Witness:
        nearest = Structure(self._evaluator).nearest_change(
            self._selected, "additions", self._agree, self._reference, max_radius=self._reach
        )
        proof = None
        if nearest is not None and nearest.proven:
            cleared, self._best, proof = nearest.cleared, nearest.mask, nearest.method
        else:
            cleared = self._exhaust()
            if self._best is None and cleared < self._reach:
                self._beam(self._start(rng))
                self._random_orders(rng)
        if nearest is not None and not nearest.proven:  # whichever of the two searches went further
            if nearest.mask is not None and (nearest.distance or 0) <= self._most_added:
                self._best = self._reduced(nearest.mask)
            if nearest.cleared > cleared:
                cleared, proof = nearest.cleared, nearest.method
        best, completion, changed, name = self._best, None, None, None
        classes, names, n = self._evaluator.classes, self._evaluator.feature_names, len(self._selected)
        if best is not None:
            changed, name = prediction_of(self._evaluator(best[None])[0], self._agree, classes)
            completion = None if self._n_completions is None else int(numbers_of(best[None], n)[0])
            best = best[:n].copy()
            best.setflags(write=False)
        added = () if best is None else tuple(int(i) for i in np.flatnonzero(best & ~self._selected))
        original, original_name = prediction_of(self._reference, self._agree, classes)
        return Witness(
            found=best is not None,
            mask=best,
            added=added,
            n_added=None if best is None else len(added),
            prediction=changed,
            prediction_name=name,
            original_prediction=original,
            original_name=original_name,
            proven=cleared == (self._reach if best is None else len(added) - 1),
            cleared_radius=cleared,
            max_radius=self._reach,
            n_calls=self._evaluator.n_calls - self._before,
            rng_key=key,
            selected=self._selected,
            agree=self._agree.name,
            provenance=self._evaluator.provenance,
            reference=self._given,
            proof=proof,
            n_completions=self._n_completions,
            completion=completion,
            added_names=None if names is None else tuple(names[feature] for feature in added),
        )

    @property
    def _left(self) -> int:
        """Masks that may still be evaluated."""
        return (self._max_calls - (self._evaluator.n_calls - self._before)) // self._cost

    @property
    def _most_added(self) -> int:
        """Only smaller changes than the best are still of interest."""
        return self._reach if self._best is None else int((self._best & ~self._kept).sum()) - 1

    def _exhaust(self) -> int:
        """Evaluate whole levels while they are affordable; returns the last one without a change."""
        for size in range(1 if self._n_completions is None else 0, self._reach + 1):
            n_masks = math.comb(len(self._free), size) * (self._n_completions or 1)
            if n_masks > ALWAYS_EXHAUSTED and n_masks > self._left:
                return size - 1
            level = nearby_rows(Additions(self._selected, size).exactly(size), self._n_completions)
            for masks in level.enumerate(_PORTION):
                self._best = self._smallest_change(masks)
                if self._best is not None:
                    return size - 1
        return self._reach

    def _smallest_change(self, masks: Masks) -> Mask | None:
        """Evaluate the masks; the smallest that changes the prediction, or None if none does."""
        changed = ~self._agree(self._evaluator(masks), self._reference)
        if not changed.any():
            return None
        sizes = (masks & ~self._kept).sum(axis=1)
        return np.array(masks[np.where(changed, sizes, sizes.max() + 1).argmin()])

    def _start(self, rng: np.random.Generator) -> Mask:
        """The explanation, with a completion that is drawn if any is."""
        if self._n_completions is None:
            return self._selected
        number = rng.integers(self._n_completions, size=1)
        return np.asarray(with_completions(self._selected[None], number, self._n_completions)[0])

    def _beam(self, start: Mask) -> None:
        """Add one feature at a time to the sets with the smallest gaps, until one changes the prediction."""
        front = start[None]
        for _ in range(self._most_added):
            n_open = len(self._free) - int((front[0] & ~self._kept).sum())
            if n_open > self._left:  # one mask alone has as many children
                return
            # Every mask with one more feature, without repeats.
            grown = np.repeat(front, len(self._free), axis=0)
            grown[np.arange(len(grown)), np.tile(self._free, len(front))] = True
            children = np.unique(grown[grown.sum(axis=1) > front[0].sum()], axis=0)
            if len(children) > self._left or self._try(children):
                return
            front = children[self._by_gap(children)[:_BEAM_WIDTH]]

    def _try(self, masks: Masks) -> bool:
        """Whether any of these, all smaller than the best, changes the prediction; it is reduced to what it needs."""
        changed = self._smallest_change(masks)
        self._best = self._best if changed is None else self._reduced(changed)
        return changed is not None

    def _random_orders(self, rng: np.random.Generator) -> None:
        """Reveal features in random orders and see where the prediction first changes."""
        for _ in range(_N_ORDERS):
            if self._most_added < 1 or self._left < self._most_added:
                return
            order = rng.permutation(self._free)[: self._most_added]
            prefixes = np.tile(self._start(rng), (len(order), 1))
            for i, feature in enumerate(order):
                prefixes[i:, feature] = True
            self._try(prefixes)

    def _reduced(self, mask: Mask) -> Mask:
        """Leave out features one by one while the prediction stays changed, the most changed first."""
        while True:
            added = np.flatnonzero(mask & ~self._kept)
            if not len(added):
                return mask
            smaller = np.repeat(mask[None], len(added), axis=0)
            smaller[np.arange(len(added)), added] = False
            changed = ~self._agree(self._evaluator(smaller), self._reference)
            if not changed.any():
                return mask
            mask = smaller[next(i for i in self._by_gap(smaller) if changed[i])]

    def _by_gap(self, masks: Masks) -> NDArray[np.intp]:
        """The masks in the order of how close they come to another prediction, where that can be said."""
        return np.argsort(self._agree.gaps(self._evaluator(masks), self._reference), kind="stable")

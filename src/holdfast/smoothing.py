"""A masked model → the average of what it says under many random masks: smoother, and still a ``MaskedModel``.

The paper's M_λ f(α) is the expectation of f(α ⊙ z), z keeping each feature with probability λ. Here
the z are a bank drawn once, so that the smoothed model is one deterministic function: what is
certified about it is certified about this function, not about the expectation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval, check_counts, clopper_pearson
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.evaluation import Evaluator
from holdfast.randomness import stream, stream_key
from holdfast.terminal import Plotted, as_progress
from holdfast.types import Mask, MaskedModel, Masks, Outputs, Progress, Provenance, Rng
from holdfast.validation import (
    MOST_CELLS,
    as_array,
    check_flag,
    check_mask,
    check_masks,
    check_number,
    check_share,
    check_size,
    check_whole,
    is_number,
    shown,
)
from holdfast.words import ON_ITS_OWN, OTHER_INPUTS, counted, outward, paragraph, sure, took

Counts = NDArray[np.int64]

_KEEP_MUST = "be a number in (0, 1], or one per feature"


@dataclass(frozen=True, eq=False)
class SmoothedModel:
    """A masked model averaged over a fixed bank of masks; itself a ``MaskedModel``.

    Attributes
    ----------
    base : Evaluator
        The model that is smoothed; it computes each distinct mask once.
    bank : Boolean array (n_samples, n_features)
        The j-th evaluation keeps what row j keeps of the features shown.
    votes : bool
        Whether the average is of one-hot votes or of scores.
    keep_probability : tuple of Fraction
        The share with which each feature is kept.
    method : str
        "mus" if every feature is kept exactly in its share of the bank, "bernoulli" if at random.
    rng_key : int
        Given back as ``rng`` it makes the same bank.
    """

    base: Evaluator
    bank: Masks
    votes: bool
    keep_probability: tuple[Fraction, ...]
    method: str
    rng_key: int
    provenance: Provenance = field(repr=False)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.bank.shape[1])

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """What the features are called, if the model that is smoothed tells."""
        return self.base.feature_names

    @property
    def classes(self) -> tuple[str, ...] | None:
        """What the classes are called, if the model that is smoothed tells."""
        return self.base.classes

    @property
    def rows_per_mask(self) -> int:
        """Evaluations of the innermost model behind one full answer, repeated ones included."""
        return len(self.bank) * (1 if self.base.deciding is None else self.base.deciding.rows_per_mask)

    @property
    def n_base_calls(self) -> int:
        """Rows the model that is smoothed has computed."""
        return self.base.n_calls

    @property
    def n_kept(self) -> Counts:
        """For each feature, how many masks of the bank keep it: the most votes it can move."""
        return np.asarray(self.bank.sum(axis=0), dtype=np.int64)

    def __call__(self, masks: Masks, /) -> Outputs:
        """Vote shares, or averaged scores, (b, n_classes), of masks (b, n_features)."""
        if self.votes:
            return self.count_votes(masks) / len(self.bank)
        outputs = self._under_bank(masks)
        return np.asarray(outputs.reshape(-1, len(self.bank), outputs.shape[1]).mean(axis=1, dtype=np.float64))

    def ballots(self, masks: Masks, /) -> Counts:
        """The class that each mask of the bank votes for, (b, n_samples), for masks (b, n_features)."""
        return np.asarray(self._under_bank(masks).argmax(axis=1).reshape(-1, len(self.bank)), dtype=np.int64)

    def count_votes(self, masks: Masks, /) -> Counts:
        """Votes (b, n_classes) for masks (b, n_features)."""
        return tally_ballots(self.ballots(masks), int(self.base.outputs.shape[1]))

    def keeps_top_class(self, masks: Masks, top_class: int, /) -> Mask:
        """Whether the class has most votes, Boolean (b,): exactly what the full count says, in fewer calls.

        A row is evaluated no further once no outcome of the remaining votes could change the answer.
        Averaged scores cannot be decided early and are computed in full.
        """
        masks = check_masks(masks, self.n_features)
        if not self.votes:
            return np.asarray(self(masks).argmax(axis=1) == top_class)
        answer = np.zeros(len(masks), dtype=bool)
        votes: Counts = np.zeros((len(masks), 0), dtype=np.int64)
        n_counted = np.zeros(len(masks), dtype=np.intp)
        rows = np.arange(len(masks))
        n_more = np.full(len(masks), (len(self.bank) + 1) // 2)  # fewer votes can settle no row
        while len(rows):
            # The next votes of every open row are counted in one call.
            row = np.repeat(rows, n_more)
            first = np.repeat(n_counted[rows] - np.cumsum(n_more) + n_more, n_more)
            ballots = self._scores(masks[row] & self.bank[first + np.arange(len(row))]).argmax(axis=1)
            if not votes.size:
                n_classes = int(self.base.outputs.shape[1])
                if not 0 <= top_class < n_classes:
                    raise InvalidValueError(argument="top_class", must=f"be a class below {n_classes}", got=top_class)
                votes = np.zeros((len(masks), n_classes), dtype=np.int64)
            np.add.at(votes, (row, ballots), 1)
            n_counted[rows] += n_more
            # Twice the lead over the strongest rival, plus or minus one: the lowest index wins a tie.
            tie = np.where(np.arange(votes.shape[1]) < top_class, -1, 1)
            doubled = 2 * (votes[rows][:, [top_class]] - votes[rows]) + tie
            lead, left = np.delete(doubled, top_class, axis=1).min(axis=1), len(self.bank) - n_counted[rows]
            # A vote moves the doubled lead by two at most, so a larger one is safe from those left.
            answer[rows] = lead > 0
            is_open = np.abs(lead) < 2 * left
            rows, lead, left = rows[is_open], lead[is_open], left[is_open]
            n_more = np.clip((2 * left - np.abs(lead) + 3) // 4, 1, left)
        return answer

    def _under_bank(self, masks: Masks) -> Outputs:
        """Scores of every mask under each row of the bank, (b · n_samples, n_classes)."""
        masks = check_masks(masks, self.n_features)
        return self._scores((masks[:, None] & self.bank).reshape(-1, self.n_features))

    def _scores(self, masks: Masks) -> Outputs:
        if len(masks) == 0:
            # The base cannot tell the number of classes from nothing.
            return self._scores(np.ones((1, self.n_features), dtype=bool))[:0]
        outputs = self.base(masks)
        if outputs.ndim != 2:
            raise ModelError("Smoothing needs scores (b, n_classes), but the model returns labels.")
        if outputs.shape[1] < 2 and self.votes:
            raise ModelError("Votes need scores of at least 2 classes, got 1 column. Use `votes=False`.")
        return outputs


def smooth(
    model: MaskedModel,
    keep_probability: Any,
    n_samples: int = 32,
    *,
    votes: bool = True,
    batch_size: int | None = None,
    rng: Rng = None,
) -> MaskedModel:
    """Smooth a model: average what it says when each feature shown is kept with some probability.

    The result is one deterministic function (the random masks are drawn once, from ``rng``) and a
    ``MaskedModel``: certify it, compare it, smooth it again. It remembers answers, so that a model which
    changes its mind goes unnoticed. It is another classifier than ``model``:
    it may be less accurate, and it may be less stable as well as more. A keep probability of 1 for
    every feature gives ``model`` itself.

    Certification asks only which class leads, and stops counting votes once that is settled;
    calling the smoothed model always counts in full. Certificates report calls of ``model``.

    Parameters
    ----------
    model : MaskedModel
        The model; an ``Evaluator`` is shared, so several smoothings use its computed masks.
    keep_probability : float or sequence of n_features floats
        Probability with which a feature that is shown is kept, in (0, 1]; for one per feature see
        ``adaptive_keep`` and ``selective_keep``.
    n_samples : int
        Number of random masks.
    votes : bool
        Average the predicted class as one-hot votes (True), or the scores (False).
    batch_size : int, optional
        Most rows of ``model`` per call; an ``Evaluator`` keeps its own.
    rng : Generator, int or None
        Seed of the random masks. The same seed with a larger keep probability keeps a superset.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify, mask_function, smooth
    >>> model = mask_function(lambda masks: np.c_[masks[:, 1], masks[:, 0]], n_features=8)
    >>> smoothed = smooth(model, 0.75, n_samples=64, rng=0)
    >>> smoothed(np.ones((1, 8), dtype=bool)).sum()
    np.float64(1.0)
    >>> certify(smoothed, np.arange(8) < 1, radius=2, rng=0).n_calls < 64 * 29
    True
    """
    base = model if isinstance(model, Evaluator) else Evaluator(model, batch_size=batch_size)
    keep = check_keep(keep_probability, base.n_features)
    size = (check_size(n_samples, "n_samples", most=MOST_CELLS // base.n_features), base.n_features)
    check_flag(votes, "votes")
    key = stream_key(rng)
    if all(share == 1 for share in keep):
        return model
    uniform = bank_stream(base, key, "bernoulli").random(size)
    bank = np.asarray(uniform < [float(share) for share in keep])
    return make_smoothed(base, bank, keep=keep, votes=votes, method="bernoulli", rng_key=key)


def bank_stream(base: Evaluator, key: int, method: str) -> np.random.Generator:
    """The random numbers of a bank; a model that is smoothed again has others under the same key."""
    depth, inner = 0, base.model
    while isinstance(inner, SmoothedModel):
        depth, inner = depth + 1, inner.base.model
    return stream(key, "smoothing", method, str(depth))


def make_smoothed(
    base: Evaluator, bank: Masks, *, keep: tuple[Fraction, ...], votes: bool, method: str, rng_key: int
) -> SmoothedModel:
    """The model smoothed over a bank, with its provenance in words."""
    bank.setflags(write=False)
    kind = {"mus": "de-randomised masks", "bernoulli": "random masks"}[method]
    what = "votes" if votes else "averaged scores"
    digest = hashlib.sha256(np.packbits(bank).tobytes()).hexdigest()[:32]
    low, high = float(min(keep)), float(max(keep))
    share = f"{low:g}" if low == high else f"{low:g} to {high:g} by feature"
    words = f"smoothed by {what} over {len(bank)} {kind} {digest}, keep probability {share}"
    known = base.provenance
    masking = words if known.masking is None else f"{known.masking}; {words}"
    return SmoothedModel(base, bank, votes, keep, method, rng_key, Provenance(masking, known.model, known.input))


def tally_ballots(ballots: Counts, n_classes: int) -> Counts:
    """Votes (b, n_classes) from ballots (b, n_samples)."""
    votes = np.zeros((len(ballots), n_classes), dtype=np.int64)
    np.add.at(votes, (np.arange(len(ballots))[:, None], ballots), 1)
    return votes


def check_keep(value: Any, n_features: int) -> tuple[Fraction, ...]:
    """A keep probability in (0, 1] for every feature, as the fractions their digits say."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if is_number(value):
        return (_check_share(value),) * n_features
    if not isinstance(value, (list, tuple)):
        must = f"{_KEEP_MUST} in a list or an array"
        raise InvalidTypeError(argument="keep_probability", must=must, got=shown(value))
    if len(value) != n_features:
        must = f"{_KEEP_MUST}: the model has {n_features} features"
        raise InvalidValueError(argument="keep_probability", must=must, got=len(value))
    return tuple(map(_check_share, value))


def _check_share(value: Any) -> Fraction:
    check_number(value, "keep_probability", _KEEP_MUST, lambda share: 0 < share <= 1)
    return value if isinstance(value, Fraction) else Fraction(str(value))


def adaptive_keep(scores: Any, *, lowest: float = 0.5, highest: float = 1.0) -> NDArray[np.float64]:
    """Keep features the more often the larger their score: adaptive smoothing.

    Scores are ranked by size (equal scores get equal probabilities) and spread evenly from
    ``lowest`` to ``highest``. Features that are seldom kept can move few votes, so that a hard
    certificate for revealing them reaches further.

    Parameters
    ----------
    scores : Attribution or array (n_features,)
        Scores of an explanation. Absolute values count.
    lowest, highest : float
        Probabilities of the feature with the smallest and the largest absolute score.

    Returns
    -------
    keep_probability : float array (n_features,)
        For ``smooth``; for ``mus_model`` and ``certify_mus`` with ``round=True``.

    Examples
    --------
    >>> adaptive_keep([0.1, -3.0, 1.0], lowest=0.5, highest=1.0).tolist()
    [0.5, 1.0, 0.75]
    """
    must = "be numbers (n_features,)"
    values = as_array(getattr(scores, "scores", scores), "scores", must)
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        received = f"{values.dtype} of shape {values.shape}"
        raise InvalidValueError(argument="scores", must=f"{must}, finite", got=received)
    low, high = float(_check_share(lowest)), float(_check_share(highest))
    if low > high:
        raise InvalidValueError(argument="lowest", must=f"be at most `highest` = {highest!r}", got=shown(lowest))
    distinct, rank = np.unique(np.abs(values.astype(np.float64)), return_inverse=True)
    return np.clip(low + (high - low) * rank / max(1, len(distinct) - 1), low, high)


def selective_keep(smoothed: Any, keep_probability: float) -> NDArray[np.float64]:
    """Smooth only some features and keep the others always: selective smoothing.

    Parameters
    ----------
    smoothed : Boolean array (n_features,)
        The features that are smoothed, for instance ``~selected``: revealing any of them is then
        certified as far as with smoothing everything, and the explanation itself stays whole.
    keep_probability : float
        Probability with which each of them is kept.

    Examples
    --------
    >>> selective_keep([False, True, True], 0.25).tolist()
    [1.0, 0.25, 0.25]
    """
    return np.where(check_mask(smoothed, "smoothed"), float(_check_share(keep_probability)), 1.0)


@dataclass(frozen=True, eq=False)
class SmoothedAccuracy(Plotted, Value, schema="holdfast.smoothed_accuracy"):
    """How often a smoothed classifier is right, for several keep probabilities.

    Every input is smoothed with random masks of its own. Each interval on its own contains, with
    probability ``confidence`` over independent inputs and masks (Clopper–Pearson), the probability that
    a new input of the same kind, smoothed with new masks, is predicted as labelled.

    Attributes
    ----------
    keep_probabilities : tuple of float
        As asked; 1 is the model itself.
    n_correct : tuple of int
        Inputs predicted as labelled, for each.
    n_inputs : int
        Inputs in all.
    n_samples : int
        Random masks that voted.
    n_calls : int
        Rows the model computed in all.
    """

    keep_probabilities: tuple[float, ...]
    n_correct: tuple[int, ...]
    n_inputs: int
    n_samples: int
    confidence: float
    n_calls: int
    rng_key: int

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_share(self.confidence, "confidence")
        if len(self.keep_probabilities) != len(self.n_correct):
            raise InvalidValueError(argument="n_correct", must="have one entry per keep probability")
        for n_correct in self.n_correct:
            check_counts(n_correct, self.n_inputs)

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Share of correct answers per keep probability."""
        return tuple(n / self.n_inputs for n in self.n_correct)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Exact binomial intervals."""
        return tuple(clopper_pearson(n, self.n_inputs, confidence=self.confidence) for n in self.n_correct)

    def __iter__(self) -> Iterator[tuple[float, float, Interval]]:
        return zip(self.keep_probabilities, self.accuracies, self.intervals, strict=True)

    def __len__(self) -> int:
        return len(self.keep_probabilities)

    def to_frame(self) -> Any:
        """A data frame with one row per keep probability."""
        columns = ("keep_probability", "accuracy", "low", "high")
        return make_frame([dict(zip(columns, (keep, rate, *interval), strict=True)) for keep, rate, interval in self])

    def __str__(self) -> str:
        size = f"{counted(self.n_inputs, 'input')}, {self.n_samples} masks each"
        head = f"Accuracy of the smoothed classifier ({size}, {sure(self.confidence)} confidence for each interval):"
        ends = (outward(interval) for interval in self.intervals)
        rows = [
            f"  keep {keep:5.3g}  {accuracy:6.1%}  [{low:.1%}, {high:.1%}]"
            for (keep, accuracy, _), (low, high) in zip(self, ends, strict=True)
        ]
        return "\n".join([head, *rows])

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        return paragraph(
            "How accurate does the classifier stay when random features are hidden and the answers vote?",
            f"Each of {counted(self.n_inputs, 'input')} was smoothed with {self.n_samples} random masks of its own.",
            f"Each interval contains its accuracy with probability at least {sure(self.confidence)}.",
            "Inputs must be independent draws from those it is about.",
            ON_ITS_OWN,
            "It is the accuracy for new inputs of the same kind, smoothed with new masks.",
            OTHER_INPUTS,
            took(self.n_calls),
        )


def smoothed_accuracy(
    classifier: Any,
    inputs: Any,
    labels: Any,
    *,
    keep_probabilities: Sequence[float] = (1.0, 0.75, 0.5, 0.25),
    n_samples: int = 64,
    confidence: float = 0.95,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> SmoothedAccuracy:
    """Measure how accuracy falls as a classifier is smoothed, with exact binomial intervals.

    Every input is bound to the classifier, smoothed with each keep probability and asked for its
    class on the full input; voting stops when the answer is settled. Random masks are independent
    between inputs and nested between keep probabilities.

    Parameters
    ----------
    classifier : Classifier or callable
        What ``models.load`` returns, or a function from one input to a ``MaskedModel``.
    inputs : sequence
        Inputs as the classifier takes them.
    labels : sequence of int or str
        The right class of each input, by index or by the classifier's name for it.
    keep_probabilities : sequence of float
        In (0, 1]; 1 is the classifier itself.
    n_samples : int
        Random masks per input.
    confidence : float
        Of each interval.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, smoothed_accuracy
    >>> def bind(shift):
    ...     return mask_function(lambda masks: np.c_[masks.sum(axis=1), np.full(len(masks), 4 + shift)], n_features=8)
    >>> smoothed_accuracy(bind, [1, 2, 3], [0, 0, 0], keep_probabilities=[1, 0.5], rng=0).accuracies
    (1.0, 0.0)
    """
    bind = getattr(classifier, "bind", classifier)
    if not callable(bind):
        must = "come from `models.load`, or be a function that turns an input into a MaskedModel"
        raise InvalidTypeError(argument="classifier", must=must, got=type(classifier).__name__)
    items, indices, names = _as_list(inputs, "inputs"), _as_list(labels, "labels"), getattr(classifier, "classes", ())
    if len(items) != len(indices):
        must = f"have one entry per input: {len(items)} inputs, {len(indices)} labels"
        raise InvalidValueError(argument="labels", must=must)
    places = {name: i for i, name in enumerate(names)}
    for i, label in enumerate(indices):
        if isinstance(label, str) and label not in places:
            must = f"be class indices or names among {list(names)}"
            raise InvalidValueError(argument="labels", must=must, got=repr(label))
        indices[i] = places[label] if isinstance(label, str) else check_whole(label, "labels")
        if names and indices[i] >= len(names):
            raise InvalidValueError(argument="labels", must=f"be classes below {len(names)}", got=indices[i])
    shares = [float(check_keep(share, 1)[0]) for share in _as_list(keep_probabilities, "keep_probabilities")]
    size = check_size(n_samples, "n_samples")
    sure, key, tell = (
        float(check_share(confidence, "confidence")),
        stream_key(rng),
        as_progress(progress, what="inputs"),
    )
    n_correct, n_calls = np.zeros(len(shares), dtype=np.int64), 0
    for i, (item, label) in enumerate(zip(items, indices, strict=True)):
        base = Evaluator(bind(item), batch_size=batch_size)
        own_key = stream_key(stream(key, "accuracy", str(i)))
        n_correct += np.array([_is_right(smooth(base, share, size, rng=own_key), label) for share in shares])
        n_calls += base.n_calls
        if tell is not None:
            tell(i + 1, len(items))
    return SmoothedAccuracy(tuple(shares), tuple(n_correct.tolist()), len(items), size, sure, n_calls, key)


def _is_right(model: MaskedModel, label: int) -> bool:
    """Whether the label is the top class on the full input, with as few calls as settle it."""
    evaluator = model if isinstance(model, Evaluator) else Evaluator(model)
    full: Mask = np.ones((1, evaluator.n_features), dtype=bool)
    if evaluator.deciding is not None:
        return bool(evaluator.keeps_top_class(full, label)[0])
    outputs = evaluator(full)
    if outputs.ndim == 1:
        raise ModelError("Accuracy needs scores (b, n_classes), but the model returns labels.")
    if label >= outputs.shape[1]:
        raise InvalidValueError(argument="labels", must=f"be classes below {outputs.shape[1]}", got=label)
    return bool(outputs[0].argmax() == label)


def _as_list(values: Any, name: str) -> list[Any]:
    try:
        entries = list(values)
    except TypeError as error:
        raise InvalidTypeError(argument=name, must="be a sequence", got=shown(values)) from error
    if not entries:
        raise InvalidValueError(argument=name, must="have at least one entry", got="none")
    return entries

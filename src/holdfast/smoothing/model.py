"""A masked model and a bank of masks → the model smoothed over the bank (M_λ of the paper).

The paper's M_λ f(α) is the expectation of f(α ⊙ z), z keeping each feature with probability λ. Here
the z are a bank drawn once, so that the smoothed model is one deterministic function: what is
certified about it is certified about this function, not about the expectation.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidValueError, ModelError
from holdfast.evaluation import Evaluator
from holdfast.randomness import stream, stream_key
from holdfast.smoothing.keep import check_keep, keep_in_words
from holdfast.types import Mask, MaskedModel, Masks, Outputs, Provenance, Rng
from holdfast.validation import MOST_CELLS, check_flag, check_masks, check_size

Counts = NDArray[np.int64]


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
    def rows_per_mask(self) -> int:
        """Evaluations of the innermost model behind one full answer, repeated ones included."""
        inner = 1 if self.base.deciding is None else self.base.deciding.rows_per_mask
        return len(self.bank) * inner

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
        shown = check_masks(masks, self.n_features)
        outputs = self._ask(shown, np.arange(len(self.bank)))
        return np.asarray(outputs.reshape(len(shown), len(self.bank), outputs.shape[1]).mean(axis=1, dtype=np.float64))

    def ballots(self, masks: Masks, /) -> Counts:
        """The class that each mask of the bank votes for, (b, n_samples), for masks (b, n_features)."""
        shown = check_masks(masks, self.n_features)
        outputs = self._ask(shown, np.arange(len(self.bank)))
        return np.asarray(outputs.argmax(axis=1).reshape(len(shown), len(self.bank)), dtype=np.int64)

    def count_votes(self, masks: Masks, /) -> Counts:
        """Votes (b, n_classes) for masks (b, n_features)."""
        return tally_ballots(self.ballots(masks), self._n_classes())

    def keeps_top_class(self, masks: Masks, top_class: int, /) -> Mask:
        """Whether the class has most votes, Boolean (b,): exactly what the full count says, in fewer calls.

        A row is evaluated no further once no outcome of the remaining votes could change the answer.
        Averaged scores cannot be decided early and are computed in full.
        """
        shown = check_masks(masks, self.n_features)
        if not self.votes:
            return np.asarray(self(shown).argmax(axis=1) == top_class)
        return _Count(self, shown, top_class).decide()

    def _ask(self, shown: Masks, rows: NDArray[np.intp]) -> Outputs:
        """Scores of every mask under each of these rows of the bank, (b · len(rows), n_classes)."""
        return self._scores((shown[:, None] & self.bank[rows]).reshape(-1, self.n_features))

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

    def _n_classes(self) -> int:
        return int(self.base.outputs.shape[1])


class _Count:
    """Votes counted row by row until each row's answer is certain."""

    def __init__(self, model: SmoothedModel, shown: Masks, top_class: int) -> None:
        self._model, self._shown, self._top = model, shown, top_class
        self._n_counted = np.zeros(len(shown), dtype=np.intp)
        self._votes: Counts = np.zeros((len(shown), 0), dtype=np.int64)

    def decide(self) -> Mask:
        answer = np.zeros(len(self._shown), dtype=bool)
        is_open = np.ones(len(self._shown), dtype=bool)
        while is_open.any():
            rows = np.flatnonzero(is_open)
            self._count(rows, self._fewest_needed(rows))
            lead = self._lead(rows)
            left = len(self._model.bank) - self._n_counted[rows]
            # A vote moves the doubled lead by two at most, so a larger one is safe from those left.
            answer[rows] = lead > 0
            is_open[rows] = np.abs(lead) < 2 * left
        return answer

    def _count(self, rows: NDArray[np.intp], n_more: NDArray[np.intp]) -> None:
        """Count the next votes of each row, all in one call."""
        owner = np.repeat(np.arange(len(rows)), n_more)
        start = np.repeat(np.cumsum(n_more) - n_more, n_more)
        sample = self._n_counted[rows][owner] + np.arange(len(owner)) - start
        ballots = self._model._scores(self._shown[rows[owner]] & self._model.bank[sample]).argmax(axis=1)
        if self._has_no_votes:
            n_classes = self._model._n_classes()
            if not 0 <= self._top < n_classes:
                raise InvalidValueError(f"`top_class` must be a class below {n_classes}, got {self._top}.")
            self._votes = np.zeros((len(self._shown), n_classes), dtype=np.int64)
        np.add.at(self._votes, (rows[owner], ballots), 1)
        self._n_counted[rows] += n_more

    @property
    def _has_no_votes(self) -> bool:
        """Whether nothing was counted yet; until then the number of classes is not known."""
        return not self._votes.size

    def _fewest_needed(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """How many more votes could settle each row at the earliest: none fewer can."""
        left = len(self._model.bank) - self._n_counted[rows]
        if self._has_no_votes:
            return np.asarray((left + 1) // 2)
        settled = (2 * left - np.abs(self._lead(rows)) + 3) // 4
        return np.asarray(np.clip(settled, 1, left))

    def _lead(self, rows: NDArray[np.intp]) -> Counts:
        """Twice the lead over the strongest rival, plus or minus one: the lowest index wins a tie."""
        votes = self._votes[rows]
        doubled = 2 * (votes[:, [self._top]] - votes) + np.where(np.arange(votes.shape[1]) < self._top, -1, 1)
        doubled[:, self._top] = np.iinfo(np.int64).max
        return np.asarray(doubled.min(axis=1))


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
    words = f"smoothed by {what} over {len(bank)} {kind} {digest}, keep probability {keep_in_words(keep)}"
    known = base.provenance
    masking = words if known.masking is None else f"{known.masking}; {words}"
    return SmoothedModel(base, bank, votes, keep, method, rng_key, Provenance(masking, known.model, known.input))


def tally_ballots(ballots: Counts, n_classes: int) -> Counts:
    """Votes (b, n_classes) from ballots (b, n_samples)."""
    votes = np.zeros((len(ballots), n_classes), dtype=np.int64)
    np.add.at(votes, (np.arange(len(ballots))[:, None], ballots), 1)
    return votes

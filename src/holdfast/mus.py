"""A model and an explanation → how far the smoothed model's prediction provably stays (MuS).

Every mask of the smoothing bank casts one vote. A feature can change only the votes of the masks
that keep it, so a lead in votes that few features cannot overturn is a proof. The de-randomised
bank of MuS keeps feature i in exactly l_i of q masks, by a fixed seed per feature: the j-th mask
keeps it iff (seed_i + j) mod q < l_i. Everything is counted in whole numbers.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast.certification.hard import HardCertificate
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.randomness import stream_key
from holdfast.smoothing import Counts, SmoothedModel, bank_stream, check_keep, make_smoothed, tally_ballots
from holdfast.types import Mask, MaskedModel, Masks, Progress, Rng
from holdfast.validation import MOST_CELLS, check_flag, check_name, check_selection, check_size
from holdfast.words import class_name

CRITERIA = ("votes", "lipschitz")

MOST_LEVELS = 10**6
"""Most masks that vote; each is a model call."""


def mus_model(
    model: MaskedModel,
    keep_probability: Any,
    n_levels: int = 64,
    *,
    round: bool = False,  # noqa: A002
    batch_size: int | None = None,
    rng: Rng = None,
) -> SmoothedModel:
    """Smooth a model by the de-randomised scheme of MuS: exactly the function that ``certify_mus`` certifies.

    ``n_levels`` masks, each feature kept in exactly ``keep_probability * n_levels`` of them, vote; the
    result is the share of votes of each class. The same ``rng`` gives the same function.

    Parameters
    ----------
    model : MaskedModel
        Scores (b, n_classes) of masks.
    keep_probability : float or sequence of n_features floats
        A multiple of 1/n_levels in (0, 1]; small values certify larger radii of a coarser model.
    n_levels : int
        Number of masks that vote, at most a million.
    round : bool
        Take the nearest multiple of 1/n_levels instead of refusing another number.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, mus_model
    >>> model = mask_function(lambda masks: np.c_[masks[:, 1], masks[:, 0]], n_features=8)
    >>> mus_model(model, 0.25, rng=0)(np.ones((1, 8), dtype=bool)).sum()
    np.float64(1.0)
    """
    base = model if isinstance(model, Evaluator) else Evaluator(model, batch_size=batch_size)
    q = check_size(n_levels, "n_levels", most=min(MOST_LEVELS, MOST_CELLS // base.n_features))
    shares, may_round = check_keep(keep_probability, base.n_features), check_flag(round, "round")
    keep = tuple(Fraction(max(1, int(share * q + Fraction(1, 2))), q) for share in shares)
    for share, nearest in zip(shares, keep, strict=True):
        # 1/12 as a float is the nearest float to 1/12, and meant to be 1/12.
        if not may_round and float(nearest) != float(share):
            hint = f"Use {float(nearest)!r}, change `n_levels`, or pass `round=True` to round."
            must = f"be a multiple of 1/{q}"
            raise InvalidValueError(argument="keep_probability", must=must, got=float(share), hint=hint)
    known = base.provenance
    key = stream_key(rng, "mus", known.model, known.input, known.masking)
    seeds = bank_stream(base, key, "mus").integers(0, q, size=base.n_features)
    bank = np.asarray((seeds + np.arange(q)[:, None]) % q < [int(share * q) for share in keep])
    return make_smoothed(base, bank, keep=keep, votes=True, method="mus", rng_key=key)


def certify_mus(
    model: MaskedModel,
    selected: Any,
    *,
    keep_probability: Any = None,
    n_levels: int = 64,
    criterion: str = "votes",
    round: bool = False,  # noqa: A002
    input_removals: bool = True,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> HardCertificate:
    """Prove how many features can be revealed without changing the SMOOTHED model's prediction.

    This is a hard certificate about ``mus_model(model, ...)`` with the same ``rng``, not about
    ``model``. If ``model`` is already smoothed (by ``mus_model``, or by ``smooth`` with votes), it is
    certified as it is and ``keep_probability`` must be left out.

    Parameters
    ----------
    model : MaskedModel
        The model to be smoothed, or a smoothed one.
    selected : Boolean array of shape (n_features,), or list of names or indices
        The explanation: which features are selected.
    keep_probability, n_levels, round :
        See ``mus_model``; of no effect on a model that is already smoothed. With one keep probability
        for all features, "lipschitz" radii of ``mus_model`` are always below half its inverse.
    criterion : str
        "lipschitz": r features can move each vote count by the sum of the r largest l_i, so the
        lead must exceed twice that (the paper). "votes": counts for every rival which votes the r
        most dangerous features could really move; never smaller.
    input_removals : bool
        Also certify removals from the full input, which doubles the model calls.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import certify_mus, mask_function
    >>> model = mask_function(lambda masks: np.c_[0.5 + masks[:, 1:].sum(axis=1), 3 * masks[:, 0]], n_features=8)
    >>> certify_mus(model, np.arange(8) == 1, keep_probability=0.125, rng=0).radius
    3
    """
    check_name(criterion, "criterion", CRITERIA)
    check_flag(input_removals, "input_removals")
    mask = check_selection(selected, "selected", model)
    smoothed = model.model if isinstance(model, Evaluator) else model
    if not isinstance(smoothed, SmoothedModel):
        if keep_probability is None:
            raise InvalidTypeError(argument="keep_probability", must="be a number in (0, 1]", got="None")
        smoothed = mus_model(model, keep_probability, n_levels, round=round, rng=rng)
    elif keep_probability is not None:
        raise InvalidValueError(argument="keep_probability", must="be left out: the model is already smoothed")
    elif not smoothed.votes:
        raise InvalidValueError(argument="model", must="be smoothed by votes to be certified, not by averaging scores")
    with evaluating(smoothed.base, batch_size=batch_size, progress=progress) as base:
        base.expect(len(smoothed.bank) * (1 + input_removals))
        base.check_determinism()
        points = np.stack([mask, np.ones_like(mask)])[: 1 + input_removals]
        ballots = replace(smoothed, base=base).ballots(points)
        base.settle()
    polls = [Poll(votes, smoothed.bank, int(base.outputs.shape[1])) for votes in ballots]
    here, full = polls[0], polls[1] if len(polls) > 1 else None
    consistent = None if full is None else full.winner == here.winner
    radius = here.radius(~mask, criterion)
    keep = tuple(float(share) for share in smoothed.keep_probability)
    return HardCertificate(
        method=smoothed.method,
        stable=True,
        radius=radius,
        requested_radius=radius,
        effective_radius=radius,
        n_agreed=int(here.votes[here.winner]),
        n_evaluated=len(smoothed.bank),
        n_calls=base.n_calls,
        n_repeated=base.n_repeated,
        rng_key=smoothed.rng_key,
        prediction=here.winner,
        prediction_name=class_name(here.winner, smoothed.base.classes),
        consistent=consistent,
        selected=mask,
        neighborhood="additions",
        agree="same_top_class",
        provenance=smoothed.provenance,
        removal_radius=here.radius(mask, criterion),
        input_removal_radius=full.radius(np.ones_like(mask), criterion) if full is not None and consistent else None,
        keep_probability=keep[0] if len(set(keep)) == 1 else keep,
        n_levels=len(smoothed.bank),
        criterion=criterion,
    )


class Poll:
    """The votes (n_samples,) of a bank at one mask, and how many features it takes at least to overturn them."""

    def __init__(self, ballots: Counts, bank: Masks, n_classes: int) -> None:
        self._ballots, self._bank = ballots, bank.astype(np.int64)
        self.votes = tally_ballots(ballots[None], n_classes)[0]
        self.winner = int(self.votes.argmax())

    def radius(self, may_change: Mask, criterion: str) -> int:
        """The largest number of these features that provably cannot change the winner, together or fewer."""
        safe = [int(may_change.sum())]
        for rival in range(len(self.votes)):
            if rival == self.winner:
                continue
            if criterion == "lipschitz":
                # Each vote that keeps the feature may leave the winner and go to the rival.
                powers = 2 * self._bank.sum(axis=0)
            else:
                # A vote of the winner can cost the lead two, one of a third class one, one of the rival none.
                cost = np.where(self._ballots == self.winner, 2, np.where(self._ballots == rival, 0, 1))
                powers = cost @ self._bank
            # The largest r for which the r largest powers sum to strictly less than the lead.
            reach = np.cumsum(np.sort(powers[may_change])[::-1])
            safe.append(int(np.searchsorted(reach, self.votes[self.winner] - self.votes[rival])))
        return min(safe)

"""A masked model and a ranking of its features → a leading part of the ranking that is certified stable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.certification.radius import decide_in_order, make_radius_certificate
from holdfast.certification.subject import Settings, Subject
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator, evaluating
from holdfast.plans import RateTest, rate_test
from holdfast.results.radius import RadiusCertificate
from holdfast.results.stable import SizeStep, StableSelection
from holdfast.selection import rank
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_whole

_N_SIZES = 16


def stabilize(
    model: MaskedModel,
    attribution: Any,
    *,
    min_rate: float,
    radius: int,
    confidence: float = 0.9,
    sizes: Iterable[int] | None = None,
    absolute: bool = False,
    consistent: bool = True,
    max_draws: int | None = None,
    agree: Any = "same_top_class",
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    check_determinism: bool = True,
    rng: Rng = None,
) -> StableSelection:
    """Cut a ranking of features where it is still certified stable.

    Selections of the leading features are tested from the full set downwards over a fixed grid of
    sizes, each by a one-sided exact sequential test of "the stability rate is at least ``min_rate``"
    at the full risk; the first that is not certified ends the search. A false claim needs a false
    "yes" at the first size whose rate is too small, so with probability at least ``confidence`` all
    certified sizes are truly stable. Going upwards until one passes would not be valid: each size
    would be one more chance of a false claim. Other sizes may be stable too; none is claimed to be
    the least.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features).
    attribution : Attribution or array (n_features,)
        Scores that rank the features; equal ones by index.
    min_rate : float
        Strictly between 0 and 1.
    radius : int
        How many more features may be revealed, at least 1.
    confidence : float
        Of all claims together.
    sizes : iterable of int, optional
        The grid, fixed in advance; by default 16 sizes evenly spaced. The full set is always part of
        it, and always stable.
    absolute : bool
        Rank by the size of the scores, not their sign.
    consistent : bool
        Also stop where the selection is predicted differently from the full input.
    max_draws : int, optional
        Most draws per size before the answer is "cannot tell".
    agree, batch_size, progress, check_determinism, rng
        See ``certify``.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, stabilize
    >>> model = mask_function(lambda masks: masks[:, :4].sum(axis=1) > 2, n_features=20)
    >>> found = stabilize(model, np.arange(20, 0, -1), min_rate=0.9, radius=3, rng=0)
    >>> found.size, found.certificate.prediction
    (3, True)
    """
    test = rate_test(min_rate, confidence, max_draws)
    asked = check_whole(radius, "radius", minimum=1)
    ranking = rank(attribution, absolute=absolute)
    grid = _check_sizes(sizes, len(ranking))
    settings = Settings.check(
        "stabilize",
        tolerance=1 - test.min_rate,
        confidence=test.confidence,
        neighborhood="additions",
        agree=agree,
        check_determinism=check_determinism,
        rng=rng,
        plan="decision",
        plans=["decision"],
    )
    with evaluating(model, batch_size=batch_size, progress=progress) as evaluator:
        if evaluator.n_features != len(ranking):
            raise InvalidValueError(
                f"`attribution` must have one score per feature: the model has {evaluator.n_features}, "
                f"got {len(ranking)}."
            )
        settings = settings.keyed(evaluator.provenance, np.ones(len(ranking), dtype=bool))
        before = evaluator.n_calls
        evaluator.expect(len(grid) * test.max_draws)
        search = _Search(evaluator, ranking, asked, test, settings)
        passed, trail = _descend(search, grid, consistent=consistent)
        return StableSelection(
            size=int(passed.certificate.selected.sum()),
            certificate=replace(passed.certificate, n_repeated=evaluator.n_repeated),
            trail=tuple(trail),
            sizes=tuple(grid),
            ranking=tuple(int(feature) for feature in ranking),
            needs_consistent=consistent,
            method=str(getattr(attribution, "method", "the given scores")),
            n_calls=evaluator.n_calls - before,
        )


@dataclass(frozen=True)
class _Tested:
    """One size: the step of the trail, and the claim that it would make."""

    step: SizeStep
    certificate: RadiusCertificate


@dataclass(frozen=True)
class _Search:
    """What all sizes have in common."""

    evaluator: Evaluator
    ranking: NDArray[np.intp]
    radius: int
    test: RateTest
    settings: Settings

    def prefix(self, size: int) -> Mask:
        """The leading features."""
        mask = np.zeros(len(self.ranking), dtype=bool)
        mask[self.ranking[:size]] = True
        mask.setflags(write=False)
        return mask

    def decide(self, size: int, *, check_determinism: bool) -> _Tested:
        """Test one size on draws of its own."""
        settings = replace(self.settings, check_determinism=check_determinism)
        subject = Subject(self.evaluator, self.prefix(size), settings)
        trail = decide_in_order([self.radius], self.test, subject, settings)
        seen = (trail[0].n_agreed, trail[0].n_evaluated, trail[0].exact, subject.prediction, subject.consistent)
        certificate = make_radius_certificate(subject, trail, self.test, settings)
        return _Tested(SizeStep(size, trail[0].answer, *seen), certificate)


def _descend(search: _Search, grid: list[int], *, consistent: bool) -> tuple[_Tested, list[SizeStep]]:
    """Fixed-sequence testing: go on to fewer features while the answer is yes."""
    # All features shown, there is nothing to reveal: stable without a draw.
    best = search.decide(grid[0], check_determinism=False)
    trail = [best.step]
    for size in grid[1:]:
        # One repeated row shows whether the model is deterministic; one per size would add nothing.
        found = search.decide(size, check_determinism=search.settings.check_determinism and len(trail) == 1)
        trail.append(found.step)
        if not found.step.answer or (consistent and not found.step.consistent):
            break
        best = found
    return best, trail


def _check_sizes(sizes: Any, n_features: int) -> list[int]:
    """The grid from the full set downwards."""
    if sizes is None:
        return sorted({-(-n_features * i // _N_SIZES) for i in range(1, _N_SIZES + 1)}, reverse=True)
    if isinstance(sizes, (str, bytes)) or not isinstance(sizes, Iterable):
        raise InvalidTypeError(f"`sizes` must be whole numbers such as range(1, 11), got {sizes!r}.")
    given = {check_whole(size, "sizes") for size in sizes}
    if max(given, default=0) > n_features:
        raise InvalidValueError(f"`sizes` must be at most the number of features, {n_features}, got {max(given)}.")
    return sorted(given | {n_features}, reverse=True)

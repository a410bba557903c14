"""Many explained inputs → the mean of their stability curves, in a small fraction of the calls.

When only the mean over a data set is wanted, inputs need not be certified one by one. The mean rate
at radius r is a weighted sum, over the number k of changed features, of the mean rate at exactly k
changes. Draws are spread over the inputs for each k, as many as make every radius precise enough
(:mod:`holdfast.certification.allocation`), and serve all radii.

Why the intervals hold. For a fixed k the n draws go to the inputs of a random order, round after
round, so each input has its turn equally often up to one. Their sum has, for every s, a moment
generating function of at most that of n independent draws with a fresh random input each: for whole
rounds by the inequality of the means, for the rest by Hoeffding's theorem on sampling without
replacement. Sizes use independent orders and masks, so Hoeffding's inequality holds for the
weighted sum of their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, MutableMapping
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.certification.allocation import allocate, squared_errors
from holdfast.certification.curve import check_radii
from holdfast.certification.subject import Settings
from holdfast.certification.survey import Answer, Explained, Floats, Means, Subjects, Survey
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.progress import as_progress
from holdfast.results.mean_curve import BOUNDS, MeanCurve
from holdfast.types import Progress, Rng
from holdfast.validation import check_flag, check_name, check_share

_PILOT = 64
"""Draws per cell before the normal approximation believes its own variances."""

_SLACK = 1.02
"""Draws beyond what the estimated variances ask for, so that one further round is usually enough."""

_WHOLE_ROUND = 0.5
"""From this share of the inputs on, a last round is made whole: then differences between inputs do not count."""


def mean_curve(
    subjects: Iterable[Callable[[], Explained]],
    *,
    radii: Iterable[int],
    half_width: float = 0.01,
    confidence: float = 0.95,
    bound: str = "hoeffding",
    simultaneous: bool = False,
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    memory: MutableMapping[str, Answer] | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> MeanCurve:
    """Estimate the mean stability rate of many explanations, within ``half_width`` at every radius.

    It takes about as many draws for ten inputs as for ten thousand (and two or more calls per input
    for its prediction). No explanation is certified by itself: for that, use ``certify_radii``.

    Parameters
    ----------
    subjects : sequence of callables
        Each returns a pair (model, selected): one input bound to a model, and its explanation. They
        are called more than once, so that not all models are held at a time, and must give the
        same every time: make explanations beforehand.
    radii : iterable of int
        The radii, in any order.
    half_width : float
        Half the length of each interval about these inputs.
    confidence : float
        Of each interval; of all together if ``simultaneous``.
    bound : str
        "hoeffding": guaranteed whatever the rates are. "normal": approximate, for many draws and many
        inputs, with variances estimated on the way; several times cheaper.
    memory : mapping, optional
        Where the answers of each input are kept, such as a dict: the same question about the same
        subjects with the same ``rng`` (a number) goes on where it was interrupted.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function, mean_curve
    >>> model = mask_function(lambda masks: masks[:, 9], n_features=10)
    >>> curve = mean_curve([lambda: (model, np.arange(10) < 4)] * 20, radii=[1, 6], half_width=0.05, rng=0)
    >>> abs(curve[6].rate - 0.5) < 0.05
    True
    """
    given, asked = _check_subjects(subjects), check_radii(radii)
    if memory is not None and (rng is None or not isinstance(memory, MutableMapping)):
        raise InvalidTypeError(
            "`memory` must be a mapping such as a dict, and `rng` then a number that can be repeated."
        )
    wide, sure = float(check_share(half_width, "half_width")), float(check_share(confidence, "confidence"))
    check_name(bound, "bound", BOUNDS)
    risk = (1 - sure) / (len(asked) if check_flag(simultaneous, "simultaneous") else 1)
    settings = Settings.check(
        "mean",
        tolerance=half_width,
        confidence=confidence,
        neighborhood=neighborhood,
        agree=agree,
        check_determinism=False,
        rng=rng,
        plan="mean",
        plans=["mean"],
    )
    survey = Survey(given, settings, {} if memory is None else memory, batch_size, as_progress(progress))
    means = survey.means(asked)
    find = {"hoeffding": _ask_as_hoeffding, "normal": _ask_as_normal}[bound]
    rates, halves, further = find(survey, means, wide, risk)
    return MeanCurve(
        radii=tuple(asked),
        rates=tuple(float(rate) for rate in rates),
        intervals=_around(rates, halves),
        population_intervals=_around(rates, further),
        bound=bound,
        confidence=sure,
        half_width=wide,
        simultaneous=simultaneous,
        n_inputs=survey.n_inputs,
        n_consistent=survey.n_consistent,
        n_draws=survey.n_draws,
        n_calls=survey.n_calls,
        neighborhood=neighborhood,
        agree=survey.agree.name,
        rng_key=survey.key,
    )


def _ask_as_hoeffding(survey: Survey, means: Means, half_width: float, risk: float) -> tuple[Floats, Floats, Floats]:
    """Rates, half-widths for these inputs and for the population; guaranteed.

    2 exp(-2 h² / Σ weight²/n) ≤ risk. For the population half of the risk goes to the draws and half
    to the inputs, whose rates are independent numbers in [0, 1].
    """
    ones = np.ones(len(means.cells))
    n_draws = allocate(means.weights, ones, hoeffding_limit(half_width, risk))
    survey.ask(dict(zip(means.cells, n_draws.tolist(), strict=True)))
    errors = squared_errors(means.weights, ones, n_draws) / 2
    between = 1 / (2 * survey.n_inputs)
    halves, shared = (np.sqrt(errors * math.log(parts / risk)) for parts in (2, 4))
    return survey.rates(means), halves, shared + math.sqrt(between * math.log(4 / risk))


def hoeffding_limit(half_width: float, risk: float) -> float:
    """The largest Σ weight²/n at which the mean misses by the half-width with no more than the risk."""
    return 2 * half_width**2 / math.log(2 / risk)


def _ask_as_normal(survey: Survey, means: Means, half_width: float, risk: float) -> tuple[Floats, Floats, Floats]:
    """The same by the normal approximation: variances from a first round, then draws until the width is reached."""
    quantile = NormalDist().inv_cdf(1 - risk / 2)
    limit, n_members = (half_width / quantile) ** 2, survey.n_members(means.cells)
    wanted = _first_round(allocate(means.weights, np.full(len(means.cells), 0.25), limit), n_members)
    while True:
        survey.ask(dict(zip(means.cells, wanted.tolist(), strict=True)))
        errors = squared_errors(means.weights, survey.spreads(means.cells, wanted), wanted)
        if (errors <= limit).all():
            break
        # The spread depends on the number of draws, which depends on the spread: twice is near enough.
        more = allocate(means.weights, survey.spreads(means.cells, n_members), limit)
        more = allocate(means.weights, survey.spreads(means.cells, np.maximum(more, 1)), limit)
        wanted = np.maximum(wanted + 1, _whole_rounds(np.ceil(_SLACK * more), n_members)).astype(np.int64)
    rates, halves = survey.rates(means), quantile * np.sqrt(errors)
    # Rates lie in [0, 1], so their variance is at most that of a coin with the same mean. Two imaginary
    # inputs, one stable and one not, stand for what so few inputs have not shown.
    imagined = (rates * survey.n_inputs + 1) / (survey.n_inputs + 2)
    between = quantile**2 * imagined * (1 - imagined) / survey.n_inputs
    return rates, halves, np.sqrt(halves**2 + between)


def _first_round(most: NDArray[np.int64], n_members: NDArray[np.int64]) -> NDArray[np.int64]:
    """A whole round, at least the pilot, where that many may be needed at most; else no more than the pilot."""
    rounds = np.ceil(np.maximum(_PILOT, n_members) / n_members) * n_members
    return np.where(most >= _WHOLE_ROUND * rounds, rounds, np.minimum(most, _PILOT)).astype(np.int64)


def _whole_rounds(n_draws: Floats, n_members: NDArray[np.int64]) -> Floats:
    """Rounded up to whole rounds over the inputs where most of a last round is needed anyway."""
    whole = n_draws // n_members
    return np.where(n_draws - whole * n_members >= _WHOLE_ROUND * n_members, (whole + 1) * n_members, n_draws)


def _around(rates: Floats, halves: Floats) -> tuple[Interval, ...]:
    return tuple(
        Interval(float(max(0.0, rate - half)), float(min(1.0, rate + half)))
        for rate, half in zip(rates, halves, strict=True)
    )


def _check_subjects(subjects: Any) -> Subjects:
    wanted = "`subjects` must be functions that return a pair (model, selected)"
    try:
        given = list(subjects)
    except TypeError as error:
        raise InvalidTypeError(f"{wanted}, got {subjects!r}.") from error
    if not given:
        raise InvalidValueError(f"{wanted}, got none.")
    if not all(callable(one) for one in given):
        raise InvalidTypeError(f"{wanted}, got {next(one for one in given if not callable(one))!r}.")
    return given

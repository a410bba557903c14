"""Many explained inputs → the mean of their stability curves, in a small fraction of the calls.

When only the mean over a data set is wanted, inputs need not be certified one by one. The mean rate
at radius r is a weighted sum, over the number k of changed features, of the mean rate at exactly k
changes. Draws are spread over the inputs for each k, as many as make every radius precise enough
(:mod:`holdfast.certification.allocation`), and serve all radii: a stratified sample, whose strata are
the number k and the inputs that have equally many features to change.

Draws come in rounds. Before a round every answer is predicted from the rounds before, and only what the draws
differ from the predictions by is left to chance: inputs that always agree, or never, cost little. A draw of
stratum c counts Y = b (X - prediction) + C, where X is 1 if it agrees, b the stratum's weight over its share of
the round, and C the mean that the predictions make. Rounds go on until every interval is narrow enough.

Why the intervals hold. Given the rounds before, the mean of the expectations of all Y is the mean rate. In a
stratum every input has its turn equally often, up to one, by a fresh random order. With t ≥ 0 the factors
1 + t (E Y - m) of whole turns multiply to at most their mean, to the power of their number (inequality of the means);
those of a random part of the inputs do so on average (Maclaurin's inequality); and so do those of all strata
together. That is what :class:`holdfast.bounds.BettingRounds` needs, stopping included.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import BettingRounds, Interval, check_counts, chernoff
from holdfast.calls import STEADY_BATCH_SIZE
from holdfast.certification.allocation import Floats, allocate
from holdfast.certification.question import Procedure, own_terms
from holdfast.certification.reference import Reference, asks_together, reference_masks
from holdfast.certification.serialization import Value, make_frame
from holdfast.completions import completions_of
from holdfast.distributions.distribution import Bernoulli, Distribution
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.gathering import are_apart, open_questions, run_together
from holdfast.randomness import is_canonical
from holdfast.terminal import Plotted, as_progress
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_list, check_selection, check_share, shown
from holdfast.words import NOT_RIGHT, ON_ITS_OWN, bracket, counted, fitted, paragraph, shares, sure, took

_PILOT, _LEAST_PILOT = 1 / 128, 64
"""The first round, as a part of what rates of one half would need, and draws: enough to see where little is needed."""

_GROWTH = 4.0
"""A round is at most so many times all before it: predictions and stakes soon rest on more."""

_SLACK, _MOST_ROUNDS = 1.02, 40
"""Draws beyond what is expected to be needed, and the least part of all before that a round has: few rounds follow."""

_LEVELS = 16
"""Predictions are multiples of one over this: draws alike in stratum, prediction and answer are counted together."""

_PREDICTED = np.arange(_LEVELS + 1) / _LEVELS

_STAKES = 2.0 ** np.arange(-2.0, 2.5, 0.5)
"""Stakes that are tried before a round, as multiples of half-width over variance."""

_MOST_STAKED = 0.9
"""Of the capital, so that none is ever lost entirely."""

_LEAST_MISSING, _LEAST_GAIN = 1e-3, 1e-12

_NO_INPUT = "No single explanation is certified: a mean can hide inputs that are not stable."


class MeanRate(NamedTuple):
    """The mean at one radius: for these inputs, and for the population they are a sample of."""

    radius: int
    rate: float
    interval: Interval
    population: Interval

    def __str__(self) -> str:
        means = f"{shares(self.interval)} of cases over these inputs, {shares(self.population)} over their population"
        return f"At radius {self.radius}, stable on average in {means}."

    def explain(self) -> str:
        """What the two means are, and what they are not, in plain words."""
        return paragraph(
            f"How often is the prediction kept at radius {self.radius}, on average?",
            f"For exactly these inputs, the mean of the true rates lies in {shares(self.interval)}.",
            f"For all inputs such as these, it lies in {shares(self.population)}, if these were drawn independently.",
            "The whole curve states its confidence and cost.",
            ON_ITS_OWN,
            _NO_INPUT,
            NOT_RIGHT,
        )


@dataclass(frozen=True, eq=False)
class MeanCurve(Plotted, Value, schema="holdfast.mean_curve"):
    """The mean stability rate of many explanations, radius by radius; no single one is certified.

    Two means are kept apart. ``intervals`` are about these inputs: the average of their true rates.
    ``population_intervals`` are about the mean over all inputs such as these, if these were drawn
    independently; they are wider, whatever the number of draws. Each holds on its own with
    probability ``confidence``, or all of one kind at once if ``simultaneous``.

    Attributes
    ----------
    radii : tuple of int
        The radii.
    rates : tuple of float
        Estimates of the mean rates, no further than ``half_width`` from either end of ``intervals``.
    n_inputs : int
        Inputs averaged over.
    n_consistent : int
        Explanations with the prediction of the full input. The others may be stably wrong.
    n_draws, n_calls : int
        Draws counted, and rows the models computed.
    n_counted : int
        Inputs whose masks were all counted from inside the model: they need no draws and add no uncertainty.
    random_fills : bool
        Whether hidden features are drawn with each mask; what is to be kept is then the prediction of the full input.
    """

    radii: tuple[int, ...]
    rates: tuple[float, ...]
    intervals: tuple[Interval, ...]
    population_intervals: tuple[Interval, ...]
    confidence: float
    half_width: float
    simultaneous: bool
    n_inputs: int
    n_consistent: int
    n_draws: int
    n_calls: int
    neighborhood: str
    agree: str
    rng_key: int
    n_counted: int = 0
    random_fills: bool = False

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_counts(self.n_counted, self.n_inputs, names=("n_counted", "n_inputs"))
        check_share(self.confidence, "confidence")
        lengths = {len(column) for column in (self.radii, self.rates, self.intervals, self.population_intervals)}
        if len(lengths) != 1:
            raise InvalidValueError(argument="rates", must="have one entry per radius, and so must both intervals")

    def __iter__(self) -> Iterator[MeanRate]:
        columns = (self.radii, self.rates, self.intervals, self.population_intervals)
        return (MeanRate(*row) for row in zip(*columns, strict=True))

    def __len__(self) -> int:
        return len(self.radii)

    def __getitem__(self, radius: int) -> MeanRate:
        return dict(zip(self.radii, self, strict=True))[radius]

    def to_frame(self) -> Any:
        """A data frame with one row per radius."""
        return make_frame(
            {"radius": mean.radius, "rate": mean.rate, **mean.interval._asdict()}
            | {f"population_{end}": value for end, value in mean.population._asdict().items()}
            for mean in self
        )

    def __str__(self) -> str:
        scope = "all radii at once" if self.simultaneous else "each radius on its own"
        last = self[self.radii[-1]]
        at, inputs = f"on average over {counted(self.n_inputs, 'input')} at radius {last.radius}", self.n_inputs
        wrong = f", but {inputs - self.n_consistent} are predicted unlike the full input"
        head = fitted(
            "Stable in {share} of cases {at} ({known}){wrong}.",
            share=[shares(last.interval)],
            at=[f"{at} with random fills" if self.random_fills else at],
            wrong=[
                "" if self.n_consistent == inputs else wrong,
                "" if self.n_consistent == inputs else ", some unlike it",
            ],
            known=[f"{sure(self.confidence)} confidence, {scope}", f"{sure(self.confidence)} confidence"],
        )
        rows = [
            f"  r = {mean.radius:<4} {mean.rate:.3f}  these inputs {bracket(mean.interval)}"
            f"  population {bracket(mean.population)}"
            for mean in self
        ]
        return "\n".join([head, *rows])

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        counts = f"{self.n_consistent} of {counted(self.n_inputs, 'explanation')}"
        others = "; the others may be stably wrong" if self.n_consistent < self.n_inputs else ""
        together = "all intervals of one kind hold at once" if self.simultaneous else "each interval holds"
        return paragraph(
            f"How often is the prediction kept, on average over {counted(self.n_inputs, 'input')}?",
            f"Over the draws, {together} with probability at least {sure(self.confidence)}.",
            "" if self.simultaneous else ON_ITS_OWN,
            "Intervals of the population are for inputs that are independent draws from it.",
            f"The masks of {self.n_counted} inputs were counted from inside the model." if self.n_counted else "",
            "Hidden features are drawn with each mask." if self.random_fills else "",
            f"{counts} have the prediction of the full input{others}.",
            took(self.n_calls),
            _NO_INPUT,
            NOT_RIGHT,
        )


Explained = Callable[[], tuple[MaskedModel, Any]]
FreeFeatures = tuple[int, ...]
"""How many features can change, in each pool of the neighbourhood: inputs alike in this share all distributions."""

Stratum = tuple[FreeFeatures, int]
"""Inputs with so many features to change, and how many of them change."""

Spans = dict[Stratum, tuple[int, int]]


class InputCounts(NamedTuple):
    """What one input contributed when it was asked: agreements, in the order of the sizes, and what it cost."""

    n_agreed: tuple[int, ...]
    consistent: bool
    n_calls: int


InputMemory = MutableMapping[str, InputCounts]


class StratumWeights(NamedTuple):
    """The mean at each radius as a weighted sum over strata; ``constant`` is what needs no draws."""

    strata: list[Stratum]
    table: Floats
    constant: Floats

    @property
    def is_drawn(self) -> list[bool]:
        """Of each radius, whether anything can change within it."""
        return [bool(row.any()) for row in self.table]


def mean_curve(
    subjects: Iterable[Explained],
    *,
    radii: Iterable[int],
    half_width: float = 0.01,
    confidence: float = 0.95,
    simultaneous: bool = False,
    agree: Any = "same_top_class",
    neighborhood: Any = "additions",
    memory: InputMemory | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
) -> MeanCurve:
    """Estimate the mean stability rate of many explanations, within ``half_width`` at every radius.

    How many draws it takes depends on the rates, few where inputs always agree or never do, and up to a point on the
    number of inputs; each of them also takes a few calls for its prediction.
    The intervals are guaranteed whatever the rates are. No explanation is certified by itself: for that, use
    ``certify_radii``.

    Parameters
    ----------
    subjects : sequence of callables
        Each returns a pair (model, selected): one input bound to a model, and its explanation. They
        are called more than once, so that not all models are held at a time, and must give the
        same every time: make explanations beforehand. An error has the place of its subject as ``error.subject``.
        Several subjects are asked at a time, and their rows go to the classifier in one call, where it takes them:
        a model must not depend on which subject was called last.
    radii : iterable of int
        The radii, in any order.
    half_width : float
        Half the length of each interval about these inputs.
    confidence : float
        Of each interval; of all together if ``simultaneous``.
    simultaneous, agree, neighborhood, batch_size, progress, rng
        See ``certify_radii``.
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
    must = "be functions that return a pair (model, selected)"
    functions = check_list(subjects, "subjects", must)
    if not functions:
        raise InvalidValueError(argument="subjects", must=must, got="none")
    for function in functions:
        if not callable(function):
            raise InvalidTypeError(argument="subjects", must=must, got=shown(function))
    if memory is not None and (rng is None or not isinstance(memory, MutableMapping)):
        must = "be a mapping such as a dict, together with a fixed seed as `rng`"
        raise InvalidTypeError(argument="memory", must=must)
    half = float(check_share(half_width, "half_width"))
    keywords = {"confidence": confidence, "agree": agree, "neighborhood": neighborhood, "batch_size": batch_size}
    fixed = {"radii": radii, "simultaneous": simultaneous, "check_determinism": False}
    keywords["progress"] = False  # of single inputs
    if is_canonical(rng):
        must = "be a seed, a generator or None: a mean over inputs has no canonical seed"
        raise InvalidValueError(argument="rng", must=must, got=shown(rng))
    procedure = Procedure.check(mean_curve, "mean", keywords | {"rng": rng}, **fixed)
    question = procedure.question
    check_mean_distribution(question.neighborhood)
    sure = float(question.confidence)
    risk = (1 - sure) / (len(question.radii) if simultaneous else 1)
    bar = as_progress(progress, what="inputs")
    sample = StratifiedSample(functions, procedure, {} if memory is None else memory, bar)
    weights = sample.weights(question.radii)
    bets = bet_until(sample, weights, half, risk)
    sample.ask_all()
    # Where nothing can change, all agree, and where all is counted the mean is known: there is nothing to bet on.
    known = [min(1.0, float(rate)) if sample.n_counted else 1.0 for rate in weights.constant]
    rows = list(zip(bets, weights.is_drawn, known, strict=True))
    rates = [bet.mean if drawn else rate for bet, drawn, rate in rows]
    intervals, shared = (
        [bet.interval(part) if drawn else Interval(rate, rate) for bet, drawn, rate in rows]
        for part in (risk, risk / 2)
    )
    # For the population, half of the risk goes to the draws and half to the inputs, whose rates are in [0, 1].
    beside = 1 - Fraction(risk) / 2
    further = [[chernoff(end, sample.n_inputs, confidence=beside) for end in each] for each in shared]
    return MeanCurve(
        radii=question.radii,
        rates=tuple(rates),
        intervals=tuple(intervals),
        population_intervals=tuple(Interval(below.low, above.high) for below, above in further),
        confidence=sure,
        half_width=half,
        simultaneous=simultaneous,
        n_inputs=sample.n_inputs,
        n_consistent=sum(sample.consistent.values()),
        n_draws=sample.n_draws,
        n_calls=sample.n_calls,
        neighborhood=question.neighborhood.name,
        agree=sample.agree.name,
        rng_key=procedure.key,
        n_counted=sample.n_counted,
        random_fills=sample.random_fills,
    )


def check_mean_distribution(distribution: Distribution, name: str = "neighborhood") -> None:
    """Raise unless masks that change equally many features are equally likely, and any number of them may change."""
    if distribution.rings is None or (isinstance(distribution, Bernoulli) and distribution.probability in (0, 1)):
        must = "draw masks of one size equally often, such as 'additions' or 'bernoulli(0.3)', for a mean"
        raise InvalidValueError(argument=name, must=must, got=distribution.name)


def bet_until(sample: StratifiedSample, weights: StratumWeights, half_width: float, risk: float) -> list[BettingRounds]:
    """Rounds of draws until every interval ends within the half-width of its rate; the bets at each radius."""
    bets = [BettingRounds() for _ in weights.table]
    goal = math.log(2 / risk)
    missing = np.full((len(bets), 2), goal)  # what bets above and below have still to win at the ends asked for
    missing[np.logical_not(weights.is_drawn)] = 0.0
    worst = int(allocate(weights.table, np.full(len(weights.strata), 0.25), half_width**2 / (2 * goal)).sum())
    most = max(_PILOT * worst, min(_LEAST_PILOT, worst / 4))
    while is_open := np.flatnonzero((missing > 0).any(axis=1)).tolist():
        predicted = sample.predict(weights.strata)
        rooted = weights.table * np.sqrt(missing.max(axis=1))[:, None]
        shape = allocate(rooted, predicted.spreads, half_width**2 / 2)
        growth = np.stack([predicted.stakes(weights, row, shape, half_width)[1] for row in is_open])
        needed = max(_SLACK * float((missing[is_open] / growth).max()), sample.n_draws / _MOST_ROUNDS)
        n_draws = np.ceil(shape * (min(needed, most) / shape.sum())).astype(np.int64)
        stakes = [predicted.stakes(weights, row, n_draws, half_width)[0] for row in is_open]
        counts = sample.draw(weights.strata, n_draws, predicted)
        for row, (above, below) in zip(is_open, stakes, strict=True):
            bet, values = bets[row], predicted.values(weights, row, n_draws)
            bet.add(values[counts > 0], counts[counts > 0], above=above, below=below)
            rate, (low, high) = bet.mean, bet.interval(risk)
            won = [bet.log_capital(rate - half_width, above=True), bet.log_capital(rate + half_width, above=False)]
            wide = [rate - low > half_width, high - rate > half_width]
            missing[row] = np.where(wide, np.maximum(goal - np.array(won), _LEAST_MISSING), 0.0)
        most = _GROWTH * sample.n_draws
    return bets


@dataclass(frozen=True)
class Predictions:
    """What is expected of a round: of each stratum, which inputs have which prediction, and how often those come true.

    ``levels`` gives, stratum by stratum, the prediction of each input in steps of 1/``_LEVELS``; ``shares`` (S, L) says
    how many of a stratum's inputs have each prediction, and ``rates`` (L,) how often draws with it agree.
    """

    levels: list[NDArray[np.intp]]
    shares: Floats
    rates: Floats

    @property
    def spreads(self) -> Floats:
        """The expected square of what a draw of each stratum differs from its prediction by, (S,)."""
        squares = self.rates * (1 - _PREDICTED) ** 2 + (1 - self.rates) * _PREDICTED**2
        return np.asarray(self.shares @ squares)

    def values(self, weights: StratumWeights, row: int, n_draws: NDArray[np.int64]) -> Floats:
        """What draws count for a radius, by stratum, prediction and answer, (S, L, 2)."""
        scale = weights.table[row] * (n_draws.sum() / np.maximum(n_draws, 1))
        centre = weights.constant[row] + weights.table[row] @ (self.shares @ _PREDICTED)
        return np.asarray(scale[:, None, None] * (np.array([0.0, 1.0]) - _PREDICTED[:, None]) + centre)

    def stakes(
        self, weights: StratumWeights, row: int, n_draws: NDArray[np.int64], half_width: float
    ) -> tuple[Floats, Floats]:
        """Of the stakes above and below those expected to win most against means so far away; and what a draw wins."""
        values = self.values(weights, row, n_draws)
        chances = (n_draws / n_draws.sum())[:, None, None] * self.shares[:, :, None]
        chances = chances * np.stack([1 - self.rates, self.rates], axis=1)
        values, chances = values[chances > 0], chances[chances > 0]
        mean = float(chances @ values)
        usual = half_width / max(float(chances @ (values - mean) ** 2), half_width**2)
        stakes, gains = [], []
        for sign, end, reach in (
            (1, max(mean - half_width, 0.0), 1 - values.min()),
            (-1, min(mean + half_width, 1.0), values.max()),
        ):
            tried = np.minimum(_STAKES * usual, _MOST_STAKED / max(reach, 1.0))
            gain = np.log1p(sign * tried[:, None] * (values - end)) @ chances
            stakes.append(tried[gain.argmax()])
            gains.append(max(gain.max(), _LEAST_GAIN))
        return np.array(stakes), np.array(gains)


class StratifiedSample:
    """The inputs, and for each stratum how many draws of each input were made and how many agreed.

    Inputs whose masks can all be counted belong to no stratum: their rates are added as they are.
    """

    def __init__(
        self, subjects: list[Explained], procedure: Procedure, memory: InputMemory, progress: Progress | None
    ) -> None:
        self._subjects, self._procedure, self._memory, self._progress = subjects, procedure, memory, progress
        self.tallies: dict[Stratum, NDArray[np.int64]] = {}
        self._by_level = np.zeros((_LEVELS + 1, 2))
        self.consistent: dict[int, bool] = {}
        self.n_calls, self.n_inputs, self._n_rounds = 0, len(subjects), 0
        self.members: defaultdict[FreeFeatures, list[int]] = defaultdict(list)
        self._places: list[int] = []
        self._counted: list[Floats] = []
        self.agree, self._asks_alone, self.random_fills = procedure.question.agree, False, False
        self._odds = procedure.question.neighborhood_of(np.zeros(1, dtype=bool), 1).odds
        evaluators = WeakSet[Evaluator]()
        self._n_open = open_questions(procedure.batch_size or STEADY_BATCH_SIZE)
        for i, subject in enumerate(subjects):
            with _naming_subject(i):
                model, mask = _explained(subject)
                self.agree, reference = own_terms(Evaluator(model), procedure.question.agree, None)
                self.random_fills |= completions_of(model) is not None
                # Which the explanation itself need not have; nor, with every completion, that of the full input.
                self._asks_alone |= reference is not None or self.random_fills
                rates = self._count(i, model, mask)
            if not are_apart([model], evaluators):
                self._n_open = 1
            if rates is not None:
                self._counted.append(rates)
                self._places.append(-1)
                continue
            nearby = procedure.question.neighborhood_of(mask, 0)
            alike = self.members[tuple(len(pool) for pool in nearby.pools)]
            self._places.append(len(alike))
            alike.append(i)

    @property
    def n_counted(self) -> int:
        return len(self._counted)

    @property
    def n_draws(self) -> int:
        return sum(int(tally[0].sum()) for tally in self.tallies.values())

    def weights(self, radii: Sequence[int]) -> StratumWeights:
        shares: dict[Stratum, Floats] = {}
        constant = np.sum([np.zeros(len(radii)), *self._counted], axis=0) / self.n_inputs
        for free, members in self.members.items():
            for row, radius in enumerate(radii):
                for size, share in enumerate(size_distribution(free, radius, self._odds)):
                    weight = len(members) / self.n_inputs * share
                    if size == 0 and not self._asks_alone:
                        constant[row] += weight
                    else:
                        shares.setdefault((free, size), np.zeros(len(radii)))[row] = weight
        strata = sorted(shares)
        for free, size in strata:
            self.tallies[free, size] = np.zeros((2, len(self.members[free])), dtype=np.int64)
        table = np.stack([shares[stratum] for stratum in strata], axis=1) if strata else np.zeros((len(radii), 0))
        return StratumWeights(strata, table, constant)

    def predict(self, strata: Sequence[Stratum]) -> Predictions:
        """From all draws so far: of the stratum, and of the input at similar sizes."""
        n_all, k_all = np.sum([tally.sum(axis=1) for tally in self.tallies.values()], axis=0)
        overall = (k_all + 0.5) / (n_all + 1)
        groups = []
        chance = squares = pairs = 0.0
        for free, alike in groupby(strata, key=lambda stratum: stratum[0]):
            sizes = np.array([size for _, size in alike])
            n_drawn, n_agreed = np.stack([self.tallies[free, size] for size in sizes.tolist()], axis=2)
            rates = (n_agreed.sum(axis=0) + 2 * overall) / (n_drawn.sum(axis=0) + 2)
            beyond = n_agreed - n_drawn * rates
            groups.append((sizes, n_drawn, rates, beyond))
            chance += float((n_drawn @ (rates * (1 - rates))).sum())
            squares += float((beyond.sum(axis=1) ** 2).sum())
            pairs += float((n_drawn.sum(axis=1) ** 2).sum() - n_drawn.sum())
        # How much inputs differ, beyond chance, says after how many draws an input's own are believed.
        differ = max((squares - chance) / max(pairs, 1.0), 1e-9)
        believed = max(chance / max(n_all, 1) / differ - 1, 0.25)
        levels: list[NDArray[np.intp]] = []
        for sizes, n_drawn, rates, beyond in groups:
            near = np.exp(-2 * abs(sizes - sizes[:, None]) / (1 + np.minimum(sizes, sizes[:, None])))
            own = beyond @ near / (n_drawn @ near + believed)
            levels.extend(np.rint(np.clip(rates + own, 0, 1) * _LEVELS).astype(np.intp).T)
        shares = np.stack([np.bincount(steps, minlength=_LEVELS + 1) / len(steps) for steps in levels])
        prior = (np.arange(_LEVELS + 1) + 0.5) / (_LEVELS + 1)
        return Predictions(levels, shares, (self._by_level[:, 1] + 2 * prior) / (self._by_level.sum(axis=1) + 2))

    def ask_all(self) -> None:
        """Ask the inputs that nothing was drawn of for their prediction."""
        self._draw_for_inputs([(i, {}) for i in range(self.n_inputs) if i not in self.consistent])

    def draw(self, strata: Sequence[Stratum], n_draws: NDArray[np.int64], predicted: Predictions) -> Floats:
        """One round of so many draws in each stratum; how many came, by stratum, prediction and answer, (S, L, 2)."""
        # Every input is asked for its prediction, and for all its draws of the round in one call.
        turns: dict[int, Spans] = {i: {} for i in range(self.n_inputs) if i not in self.consistent}
        before = {stratum: tally.copy() for stratum, tally in self.tallies.items()}
        for stratum, n in zip(strata, n_draws.tolist(), strict=True):
            members = self.members[stratum[0]]
            order = self._procedure.stream("order", repr(stratum), str(self._n_rounds)).permutation(len(members))
            own = np.full(len(members), n // len(members), dtype=np.int64)
            own[order[: n % len(members)]] += 1
            for place in np.flatnonzero(own).tolist():
                start = int(before[stratum][0, place])
                turns.setdefault(members[place], {})[stratum] = (start, start + int(own[place]))
        self._draw_for_inputs(sorted(turns.items()), self._progress)
        self._n_rounds += 1
        counts = np.zeros((len(strata), _LEVELS + 1, 2))
        for row, (stratum, steps) in enumerate(zip(strata, predicted.levels, strict=True)):
            n_drawn, n_agreed = self.tallies[stratum] - before[stratum]
            for answer, n in enumerate((n_drawn - n_agreed, n_agreed)):
                counts[row, :, answer] = np.bincount(steps, weights=n, minlength=_LEVELS + 1)
        self._by_level += counts.sum(axis=0)
        return counts

    def _count(self, i: int, model: MaskedModel, mask: Mask) -> Floats | None:
        """The rates of an input at all radii, if the structure of its model tells them."""
        question = self._procedure.question
        nearby = [question.neighborhood_of(mask, radius) for radius in question.radii]
        if not all(near.is_uniform for near in nearby):
            return None  # counts of masks are no rates
        key = " ".join([question.neighborhood.name, question.agree.name, str(i), "counted", *map(str, question.radii)])
        counts = self._memory.get(key)
        if counts is None:
            with self._procedure.evaluating(model) as evaluator:
                before, procedure = evaluator.n_calls, self._procedure.bound(evaluator, mask)
                if procedure.structure is None or procedure.structure.countable is None:
                    return None
                reference = Reference(evaluator, mask, procedure)
                outcomes = [outcome for outcome in map(reference.counted, nearby) if outcome is not None]
                if len(outcomes) < len(nearby):
                    return None
                n_agreed = tuple(outcome.tally.n_agreed for outcome in outcomes)
                counts = InputCounts(n_agreed, reference.consistent, evaluator.n_calls - before)
            self._memory[key] = counts
        self.consistent[i] = counts.consistent
        self.n_calls += counts.n_calls
        return np.array([agreed / near.size for agreed, near in zip(counts.n_agreed, nearby, strict=True)])

    def _draw_for_inputs(self, turns: Sequence[tuple[int, Spans]], progress: Progress | None = None) -> None:
        """The draws of each input, several inputs at a time; they are counted as they come."""
        waiting, question = iter(turns), self._procedure.question

        def next_question(_wait: bool) -> Iterator[tuple[int, Spans, str, InputCounts]] | None:
            turn = next(waiting, None)
            if turn is None:
                return None
            i, spans = turn
            parts = [f"{size}:{start}-{stop}" for (_, size), (start, stop) in spans.items()]
            key = " ".join([str(self._procedure.key), question.neighborhood.name, self.agree.name, str(i), *parts])
            counts = self._memory.get(key)
            return self._ask(i, spans, key) if counts is None else iter([(i, spans, key, counts)])

        answers = run_together(next_question, n_open=self._n_open)
        for done, (i, spans, key, counts) in enumerate(answers, start=1):
            with _naming_subject(i):
                if key not in self._memory:
                    self._memory[key] = counts
            self.consistent[i] = counts.consistent
            self.n_calls += counts.n_calls
            for (stratum, (start, stop)), n_agreed in zip(spans.items(), counts.n_agreed, strict=True):
                self.tallies[stratum][:, self._places[i]] += (stop - start, n_agreed)
            if progress is not None:
                progress(done, len(turns))

    def _ask(self, i: int, spans: Spans, key: str) -> Iterator[tuple[int, Spans, str, InputCounts]]:
        """What one input says of its draws."""
        question, drawn = self._procedure.question, []
        with _naming_subject(i):
            model, mask = _explained(self._subjects[i])
            n_completions = completions_of(model)
            full = replace(question, n_completions=n_completions).neighborhood_of(mask, len(mask))
            for (_, size), (start, stop) in spans.items():
                rng = self._procedure.stream("masks", str(i), str(size))
                drawn.append(full.exactly(size).sample(stop, rng)[start:])
            with self._procedure.evaluating(model) as evaluator:
                before, procedure = evaluator.n_calls, self._procedure.bound(evaluator, mask)
                if asks_together(evaluator, procedure.question):
                    evaluator(np.concatenate([reference_masks(mask, n_completions), *drawn]))
                reference = Reference(evaluator, mask, procedure)
                n_kept = tuple(int(reference.judge(masks).sum()) for masks in drawn)
                counts = InputCounts(n_kept, reference.consistent, evaluator.n_calls - before)
        yield i, spans, key, counts


@contextmanager
def _naming_subject(place: int) -> Iterator[None]:
    """Errors inside say which subject they are of."""
    try:
        yield
    except Exception as error:
        error.subject = place  # type: ignore[attr-defined]
        raise


def size_distribution(free: FreeFeatures, radius: int, odds: Fraction = Fraction(1)) -> list[float]:
    """Probabilities of 0, 1, … changes within a radius, where so many features of each pool can change.

    ``odds`` say how much likelier a mask is than one with a change less.
    """
    up, down = odds.numerator, odds.denominator
    most = min(radius, *free)
    rings = [math.prod(math.comb(n, k) for n in free) * up**k * down ** (most - k) for k in range(most + 1)]
    total = sum(rings)
    return [ring / total for ring in rings]


def _explained(subject: Explained) -> tuple[MaskedModel, Mask]:
    """The model and the checked explanation of one input."""
    pair = subject()
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], MaskedModel):
        raise InvalidTypeError(argument="subjects", must="return pairs (model, selected)", got=shown(pair))
    return pair[0], check_selection(pair[1], "selected", pair[0])

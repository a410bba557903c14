"""Many explained inputs → the mean of their stability curves, in a small fraction of the calls.

When only the mean over a data set is wanted, inputs need not be certified one by one. The mean rate
at radius r is a weighted sum, over the number k of changed features, of the mean rate at exactly k
changes. Draws are spread over the inputs for each k, as many as make every radius precise enough
(:mod:`holdfast.certification.allocation`), and serve all radii: a stratified sample, whose strata are
the number k and the inputs that have equally many features to change.

Why the intervals hold. For a fixed k the n draws go to the inputs of a random order, round after
round, so each input has its turn equally often up to one. Their sum has, for every s, a moment
generating function of at most that of n independent draws with a fresh random input each: for whole
rounds by the inequality of the means, for the rest by Hoeffding's theorem on sampling without
replacement. Sizes use independent orders and masks, so Hoeffding's inequality holds for the
weighted sum of their means.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval
from holdfast.certification.allocation import Floats, InputTally, allocate, spread_of, squared_errors
from holdfast.certification.question import Procedure
from holdfast.certification.reference import Reference, decides_early, reference_masks
from holdfast.certification.serialization import Value, make_frame
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.randomness import is_canonical
from holdfast.terminal import as_progress
from holdfast.types import Mask, MaskedModel, Progress, Rng
from holdfast.validation import check_list, check_name, check_selection, check_share, shown
from holdfast.words import bracket, calls

_PILOT = 64
"""Draws per stratum before the normal approximation believes its own variances."""

_SLACK = 1.02
"""Draws beyond what the estimated variances ask for, so that one further round is usually enough."""

_WHOLE_ROUND = 0.5
"""From this share of the inputs on, a last round is made whole: then differences between inputs do not count."""

BOUNDS = ("hoeffding", "normal")


class MeanRate(NamedTuple):
    """The mean at one radius: for these inputs, and for the population they are a sample of."""

    radius: int
    rate: float
    interval: Interval
    population: Interval


@dataclass(frozen=True, eq=False)
class MeanCurve(Value, schema="holdfast.mean_curve"):
    """The mean stability rate of many explanations, radius by radius; no single one is certified.

    Two means are kept apart. ``intervals`` are about these inputs: the average of their true rates.
    ``population_intervals`` are about the mean over all inputs such as these, if these were drawn
    independently; they are wider, whatever the number of draws. Each holds on its own with
    probability ``confidence``, or all of one kind at once if ``simultaneous``. With
    ``bound="hoeffding"`` that is guaranteed; ``"normal"`` is an approximation for many draws.

    Attributes
    ----------
    radii : tuple of int
        The radii.
    rates : tuple of float
        Unbiased estimates of the mean rates.
    n_inputs : int
        Inputs averaged over.
    n_consistent : int
        Explanations with the prediction of the full input. The others may be stably wrong.
    n_draws, n_calls : int
        Draws counted, and rows the models computed.
    """

    radii: tuple[int, ...]
    rates: tuple[float, ...]
    intervals: tuple[Interval, ...]
    population_intervals: tuple[Interval, ...]
    bound: str
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

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_name(self.bound, "bound", BOUNDS)
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
        sure = "guaranteed" if self.bound == "hoeffding" else "by normal approximation"
        scope = "all radii at once" if self.simultaneous else "each radius on its own"
        head = f"Mean stability rate of {self.n_inputs} explanations (confidence {self.confidence:g} {sure}, {scope}):"
        rows = [
            f"  r = {mean.radius:<4} {mean.rate:.3f}  these inputs {bracket(mean.interval)}"
            f"  population {bracket(mean.population)}"
            for mean in self
        ]
        share = self.n_consistent / self.n_inputs
        foot = f"{calls(self.n_calls)}; {share:.1%} of the explanations have the prediction of the full input."
        return "\n".join([head, *rows, foot, "The population's intervals are for inputs drawn independently from it."])


Explained = Callable[[], tuple[MaskedModel, Any]]
FreeFeatures = tuple[int, ...]
"""How many features can change, in each pool of the neighbourhood: inputs alike in this share all laws."""

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


def mean_curve(
    subjects: Iterable[Explained],
    *,
    radii: Iterable[int],
    half_width: float = 0.01,
    confidence: float = 0.95,
    bound: str = "hoeffding",
    simultaneous: bool = False,
    agree: Any = "same_top_class",
    neighborhood: str = "additions",
    memory: InputMemory | None = None,
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
        must = "be a mapping such as a dict, and `rng` then a number that can be repeated"
        raise InvalidTypeError(argument="memory", must=must)
    half = float(check_share(half_width, "half_width"))
    check_name(bound, "bound", BOUNDS)
    keywords = {"confidence": confidence, "agree": agree, "neighborhood": neighborhood, "batch_size": batch_size}
    fixed = {"radii": radii, "simultaneous": simultaneous, "check_determinism": False}
    if is_canonical(rng):
        must = "be a seed, a generator or None: a mean over inputs has no key of its own"
        raise InvalidValueError(argument="rng", must=must, got=shown(rng))
    procedure = Procedure.check(mean_curve, "mean", keywords | {"rng": rng}, **fixed)
    question = procedure.question
    sure = float(question.confidence)
    risk = (1 - sure) / (len(question.radii) if simultaneous else 1)
    sample = StratifiedSample(functions, procedure, {} if memory is None else memory, as_progress(progress))
    find = {"hoeffding": _draw_for_hoeffding, "normal": _draw_for_normal}[bound]
    rates, halves, further = find(sample, sample.weights(question.radii), half, risk)
    return MeanCurve(
        radii=question.radii,
        rates=tuple(float(rate) for rate in rates),
        intervals=_around(rates, halves),
        population_intervals=_around(rates, further),
        bound=bound,
        confidence=sure,
        half_width=half,
        simultaneous=simultaneous,
        n_inputs=sample.n_inputs,
        n_consistent=sum(sample.consistent.values()),
        n_draws=sum(sample.n_drawn.values()),
        n_calls=sample.n_calls,
        neighborhood=neighborhood,
        agree=question.agree.name,
        rng_key=procedure.key,
    )


def _draw_for_hoeffding(
    sample: StratifiedSample, weights: StratumWeights, half_width: float, risk: float
) -> tuple[Floats, Floats, Floats]:
    """Rates, half-widths for these inputs and for the population; guaranteed.

    2 exp(-2 h² / Σ weight²/n) ≤ risk. For the population half of the risk goes to the draws and half
    to the inputs, whose rates are independent numbers in [0, 1].
    """
    ones = np.ones(len(weights.strata))
    n_draws = allocate(weights.table, ones, hoeffding_limit(half_width, risk))
    sample.draw(dict(zip(weights.strata, n_draws.tolist(), strict=True)))
    errors = squared_errors(weights.table, ones, n_draws) / 2
    halves, shared = (np.sqrt(errors * math.log(parts / risk)) for parts in (2, 4))
    return sample.rates(weights), halves, shared + math.sqrt(1 / (2 * sample.n_inputs) * math.log(4 / risk))


def hoeffding_limit(half_width: float, risk: float) -> float:
    """The largest Σ weight²/n at which the mean misses by the half-width with no more than the risk."""
    return 2 * half_width**2 / math.log(2 / risk)


def _draw_for_normal(
    sample: StratifiedSample, weights: StratumWeights, half_width: float, risk: float
) -> tuple[Floats, Floats, Floats]:
    """The same by the normal approximation: variances from a first round, then draws until the width is reached."""
    quantile = NormalDist().inv_cdf(1 - risk / 2)
    limit = (half_width / quantile) ** 2
    n_members = np.array([len(sample.members[free]) for free, _ in weights.strata], dtype=np.int64)
    most = allocate(weights.table, np.full(len(weights.strata), 0.25), limit)
    # A whole round, at least the pilot, where that many may be needed at most; else no more than the pilot.
    rounds = np.ceil(np.maximum(_PILOT, n_members) / n_members) * n_members
    n_draws = np.where(most >= _WHOLE_ROUND * rounds, rounds, np.minimum(most, _PILOT)).astype(np.int64)
    while True:
        sample.draw(dict(zip(weights.strata, n_draws.tolist(), strict=True)))
        errors = squared_errors(weights.table, sample.spreads(weights.strata, n_draws), n_draws)
        if (errors <= limit).all():
            break
        # The spread depends on the number of draws, which depends on the spread: twice is near enough.
        more = allocate(weights.table, sample.spreads(weights.strata, n_members), limit)
        more = allocate(weights.table, sample.spreads(weights.strata, np.maximum(more, 1)), limit)
        wanted = np.ceil(_SLACK * more)
        # Rounded up to whole rounds over the inputs where most of a last round is needed anyway.
        whole, rest = np.divmod(wanted, n_members)
        wanted = np.where(rest >= _WHOLE_ROUND * n_members, (whole + 1) * n_members, wanted)
        n_draws = np.maximum(n_draws + 1, wanted).astype(np.int64)
    rates, halves = sample.rates(weights), quantile * np.sqrt(errors)
    # Rates lie in [0, 1], so their variance is at most that of a coin with the same mean. Two imaginary
    # inputs, one stable and one not, stand for what so few inputs have not shown.
    imagined = (rates * sample.n_inputs + 1) / (sample.n_inputs + 2)
    return rates, halves, np.sqrt(halves**2 + quantile**2 * imagined * (1 - imagined) / sample.n_inputs)


def _around(rates: Floats, halves: Floats) -> tuple[Interval, ...]:
    lows, highs = np.maximum(rates - halves, 0.0).tolist(), np.minimum(rates + halves, 1.0).tolist()
    return tuple(map(Interval, lows, highs))


class StratifiedSample:
    """The inputs, and for each stratum how many draws were made and how many agreed."""

    def __init__(
        self, subjects: list[Explained], procedure: Procedure, memory: InputMemory, progress: Progress | None
    ) -> None:
        self._subjects, self._procedure, self._memory, self._progress = subjects, procedure, memory, progress
        self.n_drawn: defaultdict[Stratum, int] = defaultdict(int)
        self._tallies: dict[Stratum, InputTally] = {}
        self.consistent: dict[int, bool] = {}
        self.n_calls, self.n_inputs = 0, len(subjects)
        self.members: defaultdict[FreeFeatures, list[int]] = defaultdict(list)
        for i, subject in enumerate(subjects):
            nearby = procedure.question.neighborhood_of(_explained(subject)[1], 0)
            self.members[tuple(len(pool) for pool in nearby.pools)].append(i)

    def weights(self, radii: Sequence[int]) -> StratumWeights:
        shares: dict[Stratum, Floats] = {}
        constant = np.zeros(len(radii))
        for free, members in self.members.items():
            for row, radius in enumerate(radii):
                first, *others = (len(members) / self.n_inputs * share for share in size_law(free, radius))
                constant[row] += first
                for size, weight in enumerate(others, start=1):
                    shares.setdefault((free, size), np.zeros(len(radii)))[row] = weight
        strata = sorted(shares)
        table = np.stack([shares[stratum] for stratum in strata], axis=1) if strata else np.zeros((len(radii), 0))
        return StratumWeights(strata, table, constant)

    def rates(self, weights: StratumWeights) -> Floats:
        tallies = [self._tallies[stratum].sum(axis=1) for stratum in weights.strata]
        by_stratum = np.array([n_agreed / n_drawn for n_drawn, n_agreed in tallies])
        return np.asarray(weights.constant + weights.table @ by_stratum)

    def spreads(self, strata: Sequence[Stratum], n_draws: NDArray[np.int64]) -> Floats:
        spreads = []
        for (free, size), n in zip(strata, n_draws.tolist(), strict=True):
            near = [self._tallies[other] for other in ((free, size - 1), (free, size + 1)) if other in self._tallies]
            spreads.append(spread_of(self._tallies[free, size], near, n))
        return np.array(spreads)

    def draw(self, n_draws: dict[Stratum, int]) -> None:
        """Draw in every stratum up to this number; each input gets all its draws in one call."""
        # For each input and stratum, its draws from which to which number; every input is asked for its prediction.
        turns: dict[int, Spans] = {i: {} for i in range(self.n_inputs) if i not in self.consistent}
        for stratum, n in n_draws.items():
            before, after = (self._turns(stratum, count) for count in (self.n_drawn[stratum], int(n)))
            for place, member in enumerate(self.members[stratum[0]]):
                if after[place] > before[place]:
                    turns.setdefault(member, {})[stratum] = (int(before[place]), int(after[place]))
        for done, (i, spans) in enumerate(sorted(turns.items()), start=1):
            self._draw_for_input(i, spans)
            if self._progress is not None:
                self._progress(done, len(turns))
        for stratum, n in n_draws.items():
            self.n_drawn[stratum] = max(self.n_drawn[stratum], int(n))

    def _turns(self, stratum: Stratum, n: int) -> NDArray[np.int64]:
        """How many of the first n draws of a stratum go to each of its inputs."""
        members = self.members[stratum[0]]
        order = self._procedure.stream("order", repr(stratum)).permutation(len(members))
        turns = np.full(len(members), n // len(members), dtype=np.int64)
        turns[order[: n % len(members)]] += 1
        return turns

    def _draw_for_input(self, i: int, spans: Spans) -> None:
        question = self._procedure.question
        parts = [f"{size}:{start}-{stop}" for (_, size), (start, stop) in spans.items()]
        key = " ".join([str(self._procedure.key), question.neighborhood, question.agree.name, str(i), *parts])
        counts = self._memory.get(key)
        if counts is None:
            model, mask = _explained(self._subjects[i])
            full = question.neighborhood_of(mask, len(mask))
            drawn = []
            for (_, size), (start, stop) in spans.items():
                rng = self._procedure.stream("masks", str(i), str(size))
                drawn.append(full.exactly(size).sample(stop, rng)[start:])
            with self._procedure.evaluating(model) as evaluator:
                before = evaluator.n_calls
                if not decides_early(evaluator, question.agree):
                    evaluator(np.concatenate([reference_masks(mask), *drawn]))
                reference = Reference(evaluator, mask, self._procedure)
                n_kept = tuple(int(reference.judge(masks).sum()) for masks in drawn)
                counts = InputCounts(n_kept, reference.consistent, evaluator.n_calls - before)
            self._memory[key] = counts
        self.consistent[i] = counts.consistent
        self.n_calls += counts.n_calls
        for (stratum, (start, stop)), n_agreed in zip(spans.items(), counts.n_agreed, strict=True):
            members = self.members[stratum[0]]
            tally = self._tallies.setdefault(stratum, np.zeros((2, len(members)), dtype=np.int64))
            tally[:, members.index(i)] += (stop - start, n_agreed)


def size_law(free: FreeFeatures, radius: int) -> list[float]:
    """Probabilities of 0, 1, … changes within a radius, where so many features of each pool can change."""
    rings = [math.prod(math.comb(n, k) for n in free) for k in range(min(radius, *free) + 1)]
    return [ring / sum(rings) for ring in rings]


def _explained(subject: Explained) -> tuple[MaskedModel, Mask]:
    """The model and the checked explanation of one input."""
    pair = subject()
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], MaskedModel):
        raise InvalidTypeError(argument="subjects", must="return pairs (model, selected)", got=shown(pair))
    return pair[0], check_selection(pair[1], "selected", pair[0])

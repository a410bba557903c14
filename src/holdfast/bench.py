"""A masked model → how fast it is here, and what each plan costs on it: calls, time, and what is not the model's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.certification.certificate import Certificate, certify
from holdfast.evaluation import Evaluator
from holdfast.neighborhood import Additions
from holdfast.randomness import stream
from holdfast.types import Mask, MaskedModel, Masks, Outputs
from holdfast.words import calls, duration

BATCH_SIZES = (1, 4, 16, 64, 256)

_PLANS = ("sequential", "exact", "hoeffding")
_REPEATS = 3
_PATIENCE = 5.0
"""Seconds after which larger batches are no longer tried."""


@dataclass(frozen=True)
class Pace:
    """How long the model takes for one mask when it gets so many at once."""

    batch_size: int
    seconds_per_mask: float


@dataclass(frozen=True)
class PlanCost:
    """One certificate by one plan: how long it took, and how long the model alone was busy with it."""

    plan: str
    certificate: Certificate
    seconds: float
    model_seconds: float

    @property
    def overhead(self) -> float:
        """Time of the certificate over that of its model calls; 1 is none."""
        return self.seconds / max(self.model_seconds, 1e-9)


@dataclass(frozen=True)
class Bench:
    """What was measured in one run on one machine; times on another, or on a busier one, differ."""

    n_features: int
    paces: tuple[Pace, ...]
    costs: tuple[PlanCost, ...]

    @property
    def calls_saved(self) -> float:
        """How many times fewer model calls the first plan took than the paper's, which is the last."""
        return self.costs[-1].certificate.n_calls / self.costs[0].certificate.n_calls

    def __str__(self) -> str:
        return "\n".join([*_pace_lines(self.paces), "", *_cost_lines(self.costs), "", *_in_words(self)])


def measure(
    model: MaskedModel,
    selected: Mask,
    *,
    radius: int,
    batch_size: int | None = None,
    rng: int = 0,
    **precision: Any,
) -> Bench:
    """Measure the model at several batch sizes, and a certificate by each plan.

    Every time is the best of three, since other work on a machine only ever adds time. Certificates
    are made with ``batch_size`` masks at once, or with the fastest size that was measured.

    Examples
    --------
    >>> from holdfast import lookup_table
    >>> parity = lookup_table([i.bit_count() % 2 for i in range(2**12)], n_features=12)
    >>> import numpy as np
    >>> found = measure(parity, np.arange(12) < 3, radius=6)
    >>> [(cost.plan, cost.certificate.n_evaluated) for cost in found.costs]
    [('sequential', 71), ('exact', 70), ('hoeffding', 150)]
    """

    def ask(bound: MaskedModel, plan: str) -> Certificate:
        return certify(bound, selected, radius=radius, plan=plan, rng=rng, **precision)

    ask(Evaluator(model, batch_size=batch_size), _PLANS[0])  # what is wrong is found, and what is slow at first is done
    paces = tuple(_paces(model, Additions(selected, radius).sample(max(BATCH_SIZES), stream(rng, "bench"))))
    size = batch_size or min(paces, key=lambda pace: pace.seconds_per_mask).batch_size
    runs = {plan: [_time(model, size, plan, ask) for _ in range(_REPEATS)] for plan in _PLANS}
    return Bench(model.n_features, paces, tuple(min(timed, key=lambda one: one.seconds) for timed in runs.values()))


@dataclass
class _Watched:
    """A model that adds up how long it is busy."""

    model: MaskedModel
    n_features: int = field(init=False)
    busy: float = 0.0

    def __post_init__(self) -> None:
        self.n_features = self.model.n_features
        self.provenance = getattr(self.model, "provenance", None)

    def __call__(self, masks: Masks, /) -> Outputs:
        start = time.perf_counter()
        outputs = self.model(masks)
        self.busy += time.perf_counter() - start
        return outputs


def _paces(model: MaskedModel, masks: Masks) -> Iterator[Pace]:
    """The time per mask at each batch size, until a batch takes too long to try a larger one."""
    for size in BATCH_SIZES:
        watched = _Watched(model)
        times = []
        for _ in range(_REPEATS):
            before = watched.busy
            watched(masks[:size])
            times.append(watched.busy - before)
        yield Pace(size, min(times) / size)
        if watched.busy > _PATIENCE:
            return


def _time(model: MaskedModel, batch_size: int, plan: str, ask: Callable[[MaskedModel, str], Certificate]) -> PlanCost:
    watched = _Watched(model)
    start = time.perf_counter()
    certificate = ask(Evaluator(watched, batch_size=batch_size), plan)
    return PlanCost(plan, certificate, time.perf_counter() - start, watched.busy)


def _pace_lines(paces: tuple[Pace, ...]) -> Iterator[str]:
    yield "  batch   ms per mask    masks per second"
    for pace in paces:
        yield f"{pace.batch_size:>7}{1e3 * pace.seconds_per_mask:>14.3f}{1 / max(pace.seconds_per_mask, 1e-9):>20,.0f}"


def _cost_lines(costs: tuple[PlanCost, ...]) -> Iterator[str]:
    yield "  plan          draws   model calls   seconds   over the model's own time"
    for cost in costs:
        cert = cost.certificate
        yield f"  {cost.plan:<12}{cert.n_evaluated:>7}{cert.n_calls:>14}{cost.seconds:>10.4f}{cost.overhead:>14.3f}×"


def _in_words(bench: Bench) -> Iterator[str]:
    first = bench.costs[0]
    yield (
        f"One certificate took {calls(first.certificate.n_calls)}, {bench.calls_saved:.1f} times fewer than the "
        f"paper's plan; 1,000 like it take about {duration(1000 * first.seconds)} here."
    )
    if first.certificate.exact:
        yield "All masks within the radius were evaluated, so there was nothing to draw."

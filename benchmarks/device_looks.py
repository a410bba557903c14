"""What looks cost on a device where a call takes long, and what the library itself takes for many features.

The device is a stand-in: the seconds that its calls would take are added up, so that figures are the same on every
machine. What the library itself takes is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure
from holdfast.certification import reference, shared_draws
from holdfast.evaluation import Evaluator
from holdfast.prices import CallPrice
from holdfast.types import Masks, Outputs

N_FEATURES, N_RADII = 64, 16
SELECTED = np.arange(N_FEATURES) < 16
PRICES = {"5 ms + 0.05 ms a row": CallPrice(5e-3, 5e-5), "5 ms + 0.005 ms a row": CallPrice(5e-3, 5e-6)}

ASK: dict[str, Callable[[Any], Any]] = {
    "16 radii": lambda model: hf.certify_radii(model, SELECTED, radii=range(3, 49, 3), rng=0),
    "48 radii": lambda model: hf.certify_radii(model, SELECTED, radii=range(1, 49), rng=0),
    "one radius": lambda model: hf.certify(model, SELECTED, radius=30, rng=0),
    "stabilized": lambda model: hf.stabilize(model, -np.arange(N_FEATURES), min_rate=0.3, radius=10, rng=0),
    "certified radius": lambda model: hf.certified_radius(model, SELECTED, min_rate=0.7, rng=0),
}


@dataclass
class StandIn:
    """A prediction of the first features, however many; 98 % of masks of few features keep it, and 60 % of many."""

    price: CallPrice
    n_features: int = N_FEATURES
    n_calls: int = 0
    n_rows: int = 0

    def __call__(self, masks: Masks, /) -> Outputs:
        self.n_calls, self.n_rows = self.n_calls + 1, self.n_rows + len(masks)
        words = masks.astype(np.uint64) @ np.random.default_rng(0).integers(1, 2**62, N_FEATURES, dtype=np.uint64)
        n_added = masks.sum(axis=1) - 16
        kept = (words >> np.uint64(11)) * 2.0**-53 < 0.98 - 0.38 * n_added / 48
        is_leading = (masks[:, :-1] >= masks[:, 1:]).all(axis=1)
        return np.asarray(kept | is_leading)

    @property
    def seconds(self) -> float:
        return self.n_calls * self.price.fixed + self.n_rows * self.price.per_row


@contextmanager
def a_call_at_every_look() -> Iterator[None]:
    """Looks that cannot end the draws are calls of their own too, as they were before looks knew that."""

    def every_look(looks: Sequence[int], _stops: Any, n_evaluated: int, _n_agreed: int) -> list[int]:
        return [look for look in looks if look > n_evaluated]

    with patch.object(reference, "looks_left", every_look), patch.object(shared_draws, "looks_left", every_look):
        yield


def looks_figures() -> Iterator[Figure]:
    """Seconds on the device with rows computed ahead, and with a call at every look; certificates are the same."""
    for words, price in PRICES.items():
        for name, ask in ASK.items():
            plain, device = StandIn(price), StandIn(price)
            evaluator = Evaluator(device, price=price)
            after = ask(evaluator)
            with a_call_at_every_look():
                before = ask(Evaluator(plain))
            if hasattr(before, "n_rounds"):
                before = replace(before, n_rounds=after.n_rounds)
            if before.to_json() != after.to_json():
                raise AssertionError(f"{name} changed with the price of a call.")
            foreseen = evaluator.n_calls * price.per_row + -(-evaluator.n_calls // evaluator.batch_size) * price.fixed
            print(
                f"  {name}, {words}: {1e3 * plain.seconds:.0f} → {1e3 * device.seconds:.0f} ms (if all were foreseen "
                f"{1e3 * foreseen:.0f}), calls {plain.n_calls} → {device.n_calls}, rows computed {device.n_rows}, "
                f"used {evaluator.n_calls}"
            )
            yield Figure(f"{name}, {words}, times faster than look by look", plain.seconds / device.seconds, "×")


N_FEATURES_OF = (10**2, 10**3, 10**4, 10**5, 10**6)
N_RADII_OF, N_DRAWS_OF = (4, 16, 64, 256, 1024), (10**2, 10**3, 10**4, 10**5)
REPEATS = 3
MOST_GROWTH = 1.5
"""Ten times the features, or the like, may take so many times longer than ten times as long."""


def overhead_figures() -> Iterator[Figure]:
    """Processor seconds of the library, the model's own left out, and how they grow with features, radii and draws."""
    for verb in ("certify", "certify_radii"):
        yield from _growth(
            f"{verb}, own time per draw", "features", N_FEATURES_OF, partial(_seconds_by_features, verb), least=10**4
        )
    yield from _growth("certify_radii, 2,048 features, own time", "radii", N_RADII_OF, _seconds_by_radii, least=64)
    yield from _growth("certify, 100 features, own time", "draws", N_DRAWS_OF, _seconds_by_draws, least=10**3)


def _growth(
    what: str, of: str, sizes: Iterable[int], seconds: Callable[[int], float], *, least: int
) -> Iterator[Figure]:
    """Seconds by size, and how they grow, which counts from a size on where what is fixed weighs little."""
    before: tuple[int, float] | None = None
    for size in sizes:
        taken = min(seconds(size) for _ in range(REPEATS if size < 10**6 else 1))
        yield Figure(f"{what}, {size:,} {of}", 1e6 * taken, "µs")
        if before is not None:
            fewer, ratio = before[0], taken / before[1]
            most = MOST_GROWTH if fewer >= least else None
            yield Figure(f"{what} over {of}, {fewer:,} → {size:,}", ratio * fewer / size, "×", at_most=most)
        before = size, taken


class Timed:
    """Nine masks of ten are kept, by their last features; counts the processor seconds that it takes itself."""

    def __init__(self, n_features: int) -> None:
        self._weights, self.seconds = np.random.default_rng(0).random(n_features, dtype=np.float32)[-64:], 0.0

    def __call__(self, masks: Masks) -> Outputs:
        start = time.process_time()
        outputs = np.asarray((masks[:, -64:] @ self._weights) * 997 % 1 < 0.9)
        self.seconds += time.process_time() - start
        return outputs


def _own_seconds(n: int, ask: Callable[[Any, Any], Any]) -> tuple[float, Any]:
    """The library's own for a question about ``n`` features of which a quarter is selected, and its result."""
    kept = Timed(n)
    model, selected = hf.mask_function(kept, n_features=n), np.arange(n) < n // 4
    start = time.process_time()
    result = ask(model, selected)
    return time.process_time() - start - kept.seconds, result


def _seconds_by_features(verb: str, n: int) -> float:
    """For each draw; radii are spread up to all other features."""
    most = n - n // 4
    if verb == "certify":
        seconds, result = _own_seconds(n, partial(hf.certify, radius=most // 2, rng=0))
    else:
        seconds, result = _own_seconds(n, partial(hf.certify_radii, radii=_spread(most, N_RADII), rng=0))
    return seconds / float(result.n_calls)


def _seconds_by_radii(n_radii: int) -> float:
    return _own_seconds(2048, partial(hf.certify_radii, radii=_spread(1536, n_radii), rng=0))[0]


def _seconds_by_draws(n_draws: int) -> float:
    """Of the plan whose number of draws is as wished, where it never stops early."""
    tolerance = round(float(np.sqrt(np.log(2 / 0.1) / (2 * n_draws))), 6)
    ask = partial(hf.certify, radius=50, plan="hoeffding", tolerance=tolerance, rng=0)
    seconds, certificate = _own_seconds(100, ask)
    assert abs(certificate.n_evaluated / n_draws - 1) < 0.02
    return seconds


def _spread(most: int, n: int) -> list[int]:
    return np.linspace(most // n, most, n).astype(int).tolist()

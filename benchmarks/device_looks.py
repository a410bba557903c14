"""What looks cost on a device where a call takes long, and what the library itself takes for many features.

The device is a stand-in: the seconds that its calls would take are added up, so that figures are the same on every
machine. What the library itself takes is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure
from holdfast.certification import reference, shared_draws
from holdfast.evaluation import Evaluator
from holdfast.prices import CallPrice
from holdfast.types import Masks, Outputs

N_FEATURES = 64
SELECTED = np.arange(N_FEATURES) < 16
PRICES = {"5 ms + 0.05 ms a row": CallPrice(5e-3, 5e-5), "5 ms + 0.005 ms a row": CallPrice(5e-3, 5e-6)}

ASK: dict[str, Callable[[Any], Any]] = {
    "16 radii": lambda model: hf.certify_radii(model, SELECTED, radii=range(3, 49, 3), rng=0),
    "48 radii": lambda model: hf.certify_radii(model, SELECTED, radii=range(1, 49), rng=0),
    "one radius": lambda model: hf.certify(model, SELECTED, radius=30, rng=0),
    "certified radius": lambda model: hf.certified_radius(model, SELECTED, min_rate=0.7, rng=0),
}


@dataclass
class StandIn:
    """A prediction that is kept by 98 % of masks near the explanation and by 60 % of those far away."""

    price: CallPrice
    n_features: int = N_FEATURES
    n_calls: int = 0
    n_rows: int = 0

    def __call__(self, masks: Masks, /) -> Outputs:
        self.n_calls, self.n_rows = self.n_calls + 1, self.n_rows + len(masks)
        words = masks.astype(np.uint64) @ np.random.default_rng(0).integers(1, 2**62, N_FEATURES, dtype=np.uint64)
        n_added = masks.sum(axis=1) - 16
        kept = (words >> np.uint64(11)) * 2.0**-53 < 0.98 - 0.38 * n_added / 48
        return np.asarray(kept | (n_added == 0))

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


SIZES = (10**2, 10**3, 10**4, 10**5, 10**6)
N_RADII = 16
REPEATS = 3
MOST_GROWTH = 1.5
"""A draw of ten times the features may take so many times longer than ten times as long."""


def overhead_figures(sizes: Iterable[int] = SIZES) -> Iterator[Figure]:
    """Processor seconds of the library for each draw, the model's own left out, and how they grow with the features."""
    for verb in ("certify", "certify_radii"):
        before: tuple[int, float] | None = None
        for n in sizes:
            each = min(_seconds_per_draw(verb, n) for _ in range(REPEATS if n < 10**6 else 1))
            yield Figure(f"{verb}, {n:,} features, own time per draw", 1e6 * each, "µs")
            if before is not None:
                least, ratio = before[0], each / before[1]
                yield Figure(f"{verb}, {least:,} → {n:,} features, exponent", float(np.log(ratio) / np.log(n / least)))
                most = MOST_GROWTH if least >= 10**4 else None
                yield Figure(
                    f"{verb}, {least:,} → {n:,}, time per draw and feature", ratio * least / n, "×", None, most
                )
            before = n, each


def _seconds_per_draw(verb: str, n: int) -> float:
    """Of one explanation that selects a quarter; radii are spread up to all other features."""
    weights, inside = np.random.default_rng(0).random(n, dtype=np.float32), 0.0

    def kept(masks: Masks) -> Outputs:
        nonlocal inside
        start = time.process_time()
        outputs = np.asarray((masks[:, -64:] @ weights[-64:]) * 997 % 1 < 0.9)
        inside += time.process_time() - start
        return outputs

    selected, most = np.arange(n) < n // 4, n - n // 4
    model = hf.mask_function(kept, n_features=n)
    start = time.process_time()
    if verb == "certify":
        result = hf.certify(model, selected, radius=most // 2, rng=0)
    else:
        radii = np.linspace(most // N_RADII, most, N_RADII).astype(int).tolist()
        result = hf.certify_radii(model, selected, radii=radii, rng=0)
    return (time.process_time() - start - inside) / result.n_calls


if __name__ == "__main__":
    for figure in (*looks_figures(), *overhead_figures()):
        print(figure)

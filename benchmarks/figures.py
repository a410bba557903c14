"""A measured figure, the limit it must keep, and how both are shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One number. ``at_least`` or ``at_most`` is what the project promises, if anything."""

    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def kept(self) -> bool:
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def __str__(self) -> str:
        promise = ""
        if self.at_least is not None:
            promise = f"  (≥ {self.at_least:g})"
        if self.at_most is not None:
            promise = f"  (≤ {self.at_most:g})"
        mark = "" if self.kept else "  MISSED"
        value = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:.4g}"
        return f"  {self.name:<72} {value:>10} {self.unit}{promise}{mark}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"kept": self.kept}


def best_seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    """The shortest of several runs: other work on the machine only ever adds time."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)

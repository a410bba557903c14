"""``holdfast bench``: how fast a model is here, and what a certificate costs on it: calls, time, and overhead."""

from __future__ import annotations

import argparse
import time
from functools import partial
from timeit import repeat
from typing import Any, NamedTuple

import holdfast as hf
from holdfast.cli.options import INPUT_SETTINGS, add_settings
from holdfast.cli.single import add_input, bind_input, cut
from holdfast.randomness import stream
from holdfast.types import Mask, MaskedModel, Masks, Outputs
from holdfast.words import calls, duration

BATCH_SIZES = (1, 4, 16, 64, 256)
_PLANS = ("sequential", "exact", "hoeffding")
_REPEATS = 3
_PATIENCE = 5.0  # seconds after which larger batches are no longer tried


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what the command does, and add its options."""
    parser.description = (
        "Time a model at several batch sizes, and one certificate by each plan: draws, model calls and overhead. The "
        "explanation is a random share of the features. Without options, it times a bundled model."
    )
    parser.epilog = "Example: holdfast bench --model hf:my-vit --input cat.png --features 14x14 --set radius=10"
    add_input(parser, required=False)
    add_settings(
        parser,
        (*INPUT_SETTINGS, "tolerance", "confidence", "rng"),
        radius="how many more features may be revealed (default: 5)",
        top="number or share of selected features (default: 0.25)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print, on a bundled model where none is named."""
    if options.model is None and options.input is None:
        options.model, options.input = "bundled:digits-vit", "bundled:digits#0"
    elif options.model is None or options.input is None:
        raise hf.errors.InvalidValueError("and `--input` go together.", argument="--model")
    settings = {"rng": 0, "radius": 5, "top": 0.25} | options.settings
    model = bind_input(options)[0][0]
    print(f"{options.model}, {model.n_features} features, revealing up to {settings['radius']} more", flush=True)
    selected = cut(hf.attribute(model, "random", rng=settings["rng"]), settings["top"])
    names = ("radius", "tolerance", "confidence", "rng", "batch_size")
    print(measure(model, selected, **{name: settings[name] for name in names if name in settings}))


class PlanCost(NamedTuple):
    """One certificate by one plan: how long it took, and how long the model alone was busy with it."""

    plan: str
    certificate: hf.Certificate
    seconds: float
    model_seconds: float

    @property
    def overhead(self) -> float:
        """Time of the certificate over that of its model calls; 1 is none."""
        return self.seconds / max(self.model_seconds, 1e-9)


class Bench(NamedTuple):
    """What was measured in one run on one machine; times on another, or on a busier one, differ.

    ``seconds_per_mask`` is how long the model takes for one mask, by how many it gets at once.
    """

    seconds_per_mask: dict[int, float]
    costs: tuple[PlanCost, ...]

    @property
    def calls_saved(self) -> float:
        """How many times fewer model calls the first plan took than the paper's, which is the last."""
        return self.costs[-1].certificate.n_calls / self.costs[0].certificate.n_calls

    def __str__(self) -> str:
        lines = ["  batch   ms per mask    masks per second"]
        for batch_size, seconds in self.seconds_per_mask.items():
            lines.append(f"{batch_size:>7}{1e3 * seconds:>14.3f}{1 / max(seconds, 1e-9):>20,.0f}")
        lines += ["", "  plan          draws   model calls   seconds   over the model's own time"]
        for cost in self.costs:
            counts = f"{cost.certificate.n_evaluated:>7}{cost.certificate.n_calls:>14}"
            lines.append(f"  {cost.plan:<12}{counts}{cost.seconds:>10.4f}{cost.overhead:>14.3f}×")
        first = self.costs[0]
        saved = f"{calls(first.certificate.n_calls)}, {self.calls_saved:.1f} times fewer than the paper's plan"
        lines += ["", f"One certificate took {saved}; 1,000 like it take about {duration(1000 * first.seconds)} here."]
        if first.certificate.exact:
            lines.append("All masks within the radius were evaluated, so there was nothing to draw.")
        return "\n".join(lines)


def measure(model: MaskedModel, selected: Mask, *, batch_size: int | None = None, rng: int = 0, **asked: Any) -> Bench:
    """Measure the model at several batch sizes, and a certificate by each plan.

    Every time is the best of three, since other work on a machine only ever adds time. Certificates
    are made with ``batch_size`` masks at once, or with the fastest size that was measured.
    """

    def ask(bound: MaskedModel, plan: str, size: int | None) -> hf.Certificate:
        return hf.certify(hf.Evaluator(bound, batch_size=size), selected, plan=plan, rng=rng, **asked)

    ask(model, _PLANS[0], batch_size)  # what is wrong is found, and what is slow at first is done
    masks = hf.neighborhood.Additions(selected, asked["radius"]).sample(max(BATCH_SIZES), stream(rng, "bench"))
    seconds_per_mask: dict[int, float] = {}
    for size in BATCH_SIZES:
        times = repeat(partial(model, masks[:size]), number=1, repeat=_REPEATS)
        seconds_per_mask[size] = min(times) / size
        if sum(times) > _PATIENCE:
            break
    fastest = batch_size or min(seconds_per_mask, key=seconds_per_mask.__getitem__)
    costs = []
    for plan in _PLANS:
        runs = []
        for _ in range(_REPEATS):
            watched, start = WatchedModel(model), time.perf_counter()
            certificate = ask(watched, plan, fastest)
            runs.append(PlanCost(plan, certificate, time.perf_counter() - start, watched.busy))
        costs.append(min(runs, key=lambda cost: cost.seconds))
    return Bench(seconds_per_mask, tuple(costs))


class WatchedModel:
    """A model that adds up how long it is busy."""

    def __init__(self, model: MaskedModel) -> None:
        self.model, self.n_features, self.busy = model, model.n_features, 0.0
        self.provenance = getattr(model, "provenance", None)

    def __call__(self, masks: Masks, /) -> Outputs:
        start = time.perf_counter()
        outputs = self.model(masks)
        self.busy += time.perf_counter() - start
        return outputs

"""Calibrated selections: how often their promise is missed where the truth is known, their sizes and their cost.

Populations whose stability rates are known: lookup tables, whose calibrations are run in full, with draws that are as
often wrong as they may be; handwritten digits, whose masks are all evaluated once; rows of a table under a
logistic model, whose masks are counted. Of the last two a calibration is repeated by its law: inputs are drawn, and
each passes with the probability with which its test says yes. The share asked for is just above what one of the sizes
has, so that there is something to be missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

import holdfast as hf
from benchmarks.figures import Figure
from holdfast.certification.selector import CalibrationGoal, CalibrationGroup, step_down
from holdfast.plans import RateTest, rate_test

N_RUNS, CONFIDENCE, LEVEL, MIN_RATE, N_POOL = 2_000, 0.9, 0.02, 0.9, 100
SIZES = (0.9, 0.75, 0.5, 0.25, 0.1)
METHODS: dict[str, dict[str, Any]] = {
    "lime": {"n_samples": 300},
    "shap": {"n_samples": 300},
    "random": {},
    "occlusion": {},
}


@dataclass(frozen=True)
class Known:
    """Inputs whose truth is known: which are stable at each size, and how likely each passes there, (n, S) both."""

    stable: NDArray[np.bool_]
    passes: NDArray[np.float64]

    def misses(self, guarantee: str, n_inputs: int, n_runs: int, *, seed: int = 0) -> tuple[float, float]:
        """How often calibrations with n inputs miss a share just above that of the middle size; and what may be."""
        shares = self.stable.mean(axis=0)
        share = min(Fraction(int(self.stable[:, 2].sum()) + 1, len(self.stable)), Fraction(99, 100))
        goal, rng = CalibrationGoal.check(guarantee, share, LEVEL, CONFIDENCE), np.random.default_rng(seed)
        n_needed, missed = goal.n_needed(n_inputs), 0.0
        if n_needed is None:
            raise ValueError(f"{n_inputs} inputs are too few for a share of {float(share)}.")
        for _ in range(n_runs):
            drawn = rng.integers(len(self.stable), size=n_inputs)
            said = rng.random((n_inputs, len(SIZES))) < self.passes[drawn]
            said = np.logical_and.accumulate(said, axis=1) if guarantee == "one input" else said
            trail = step_down(SIZES, range(n_inputs), n_needed, lambda i, step, said=said: bool(said[i, step]))
            cut = CalibrationGroup(n_inputs, n_needed, trail).cut
            stable = 1.0 if cut is None else float(shares[SIZES.index(cut)])
            missed += float(stable < share) if guarantee == "new inputs" else 1 - stable
        most = 1 - CONFIDENCE if guarantee == "new inputs" else float(1 - share)
        return missed / n_runs, most


def chance_of_yes(test: RateTest, rate: float) -> tuple[float, float]:
    """That a test says yes at a true rate, and that it cannot tell."""
    weights, drawn, yes = np.ones(1), 0, 0.0
    for n, few, many in zip(test.looks, test.yes_at_most, test.no_at_least, strict=True):
        for _ in range(n - drawn):
            weights = np.append(weights * rate, 0.0) + np.append(0.0, weights * (1 - rate))
        drawn, failed = n, np.arange(len(weights))
        yes += float(weights[failed <= few].sum())
        weights = np.where((failed > few) & (failed < many), weights, 0.0)
    return yes, float(weights.sum())


@lru_cache(maxsize=2)
def known(kind: str) -> Known:
    """The truth about the digits, by evaluating all masks, or about a table, by counting them."""
    inputs, radius, method = (_digits(), 2, "occlusion") if kind == "digits" else (_table(), 10, "random")
    stable, passes = np.zeros((N_POOL, len(SIZES)), dtype=bool), np.zeros((N_POOL, len(SIZES)))
    test = rate_test(MIN_RATE, 1 - LEVEL)
    for i in range(N_POOL):
        model = hf.Evaluator(inputs[i])
        scores = hf.attribute(model, method, rng=i)
        for step, size in enumerate(SIZES):
            mask = hf.top_fraction(scores, size)
            # All of the masks, however many: a tolerance so small that no fewer draws would do.
            certificate = hf.certify(model, mask, radius=radius, tolerance=0.01, plan="hoeffding", rng=0)
            if not certificate.exact:
                raise ValueError("A rate is not known exactly.")
            holds = certificate.consistent and certificate.holds(MIN_RATE)
            stable[i, step] = holds
            yes, unclear = chance_of_yes(test, certificate.rate)
            if certificate.proof is not None or certificate.n_evaluated <= test.fewest_for_yes:
                passes[i, step] = holds
            elif certificate.consistent:
                passes[i, step] = yes + (unclear if holds and certificate.n_evaluated <= test.max_draws else 0.0)
    return Known(stable, passes)


def _digits() -> hf.Inputs:
    return hf.bind("bundled:digits-resnet", "bundled:digits")


def _table() -> hf.Inputs:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, test = (hf.data.load("bundled:cancer", split=split) for split in ("train", "test"))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(np.asarray(train.inputs), train.labels)
    rows = np.concatenate([np.asarray(test.inputs), np.asarray(train.inputs)])
    return hf.bind(model, rows, fill=np.asarray(train.inputs).mean(axis=0))


def drawn_misses(n_runs: int, *, seed: int = 0) -> int:
    """How many calibrations of lookup tables claim a share that is not there; each is run in full.

    Just less than half of the inputs are stable. The others nearly are: their tests are wrong as often as any.
    """
    rng, selected = np.random.default_rng(seed), np.arange(14) < 2
    index = np.flatnonzero((np.arange(2**14) & 3) == 3)
    n_kept = (8 * len(index) - 1) // 10  # just below a rate of 0.8
    labels = np.ones(2**14, dtype=bool)
    labels[rng.permutation(index[1:-1])[: len(index) - n_kept]] = False  # neither the selection nor the full input
    kinds = [hf.lookup_table(labels, n_features=14), hf.lookup_table(np.ones(2**14, dtype=bool), n_features=14)]
    question: dict[str, Any] = {"radius": 12, "min_rate": 0.8, "share": 0.5, "confidence": 0.9, "level": 0.2}
    n_missed = 0
    for run in range(n_runs):
        models = [kinds[int(stable)] for stable in rng.random(5) < 0.4999]
        selector = hf.calibrate(models, [selected.astype(float)] * 5, sizes=[2], rng=seed + run, **question)
        n_missed += selector.size is not None
    return n_missed


def run() -> Iterator[Figure]:
    allowed = 1 - CONFIDENCE + 3 * sqrt(CONFIDENCE * (1 - CONFIDENCE) / N_RUNS)
    yield Figure("lookup tables, in full: claims missed", drawn_misses(N_RUNS) / N_RUNS, at_most=allowed)
    for kind in ("digits", "table"):
        truth = known(kind)
        pairs = zip(truth.stable.mean(axis=0), SIZES, strict=True)
        shares = ", ".join(f"{share:.2f} at {size:g}" for share, size in pairs)
        for guarantee, n_inputs in (("new inputs", 300), ("one input", 150)):
            missed, most = truth.misses(guarantee, n_inputs, N_RUNS)
            at_most = most + 3 * sqrt(most * (1 - most) / N_RUNS)
            yield Figure(f"{kind}, {guarantee} (stable: {shares})", missed, at_most=at_most)
    yield from costs()


def costs() -> Iterator[Figure]:
    """Sizes of methods on the digits, and after how many new inputs calibrating is cheaper than certifying each."""
    inputs = _digits()
    for method, options in METHODS.items():
        scores = [hf.attribute(inputs[i], method, rng=i, **options) for i in range(120)]
        selector = hf.calibrate(inputs[:100], scores[:100], radius=5, min_rate=MIN_RATE, share=0.8, rng=0)
        masks = [selector.select(own) for own in scores[100:]]
        each = [hf.certify(inputs[100 + i], mask, radius=5, rng=0).n_calls for i, mask in enumerate(masks)]
        yield Figure(f"{method}: fraction of the features (1: all)", float(selector.size or 1))
        yield Figure(f"{method}: model calls, explanations aside", selector.n_calls)
        yield Figure(f"{method}: as many calls as certificates of so many new inputs", selector.n_calls / np.mean(each))

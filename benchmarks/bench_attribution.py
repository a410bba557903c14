"""Attributions: cost over bare passes, Shapley values against packages, stability of methods, false claims.

Costs are quotients of best times, in turns, of the processor: with one thread that is what a clock on
the wall would show on an idle machine. Intervals over inputs that are bootstrapped are approximate;
Hoeffding's are a guarantee for inputs drawn at random.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure
from benchmarks.zoo import find_zoo, load_images, load_resnet20
from holdfast.attribution.lime import draw_masks
from holdfast.attribution.shapley import exact_shapley
from holdfast.boolean.tables import all_masks
from holdfast.randomness import stream

N_RUNS, RISK = 2_000, 0.1
SEEN_LIMIT = RISK + 3 * (RISK * (1 - RISK) / N_RUNS) ** 0.5

BUDGET, BATCH, REPEATS = 1000, 100, 5
GAME_BUDGETS, GAME_RUNS = (200, 1000), 15

METHODS = ("lime", "shap", "integrated_gradients", "mfaba", "occlusion")
N_IMAGES, IMAGE_RADII, N_RANDOM = 48, (6, 24, 48), 6
N_TEXTS, TEXT_RADII = 12, (2, 5, 100)


def run() -> Iterator[Figure]:
    yield from _false_claims()
    yield from _games({"boosted trees, 13 columns": _wine_table()})
    folder = find_zoo()
    if folder is None:
        print("  LEFT OUT: costs and stability on real models (no torch, or no zoo at HOLDFAST_ZOO or ../shared/zoo)")
        return
    network, images = load_resnet20(folder), load_images(folder, N_IMAGES)
    yield from _costs(network, images[0])
    yield from _games({"ResNet-20, 12 patches": _image_table(network, images[1])})
    yield from _image_methods(network, images)
    if importlib.util.find_spec("transformers") is None:
        print("  LEFT OUT: stability on MiniLM (no transformers)")
        return
    yield from _text_methods(folder)


# -- stabilize ---------------------------------------------------------------------------------------


def _false_claims() -> Iterator[Figure]:
    """Every selection short of the full set is just too unstable: any claim about one is false."""
    n, grid = 12, [12, 4, 3, 2, 1]
    model = hf.Evaluator(_table_below(n, 0.9))
    scores = np.arange(n, 0, -1)
    claims = [
        hf.stabilize(model, scores, min_rate=0.9, radius=n, sizes=grid, check_determinism=False, rng=seed).size < n
        for seed in range(N_RUNS)
    ]
    name = f"stabilize: false claims, all rates just below t ({N_RUNS} runs)"
    yield Figure(name, float(np.mean(claims)), at_most=round(SEEN_LIMIT, 4))


def _table_below(n: int, threshold: float) -> hf.MaskedModel:
    """Labels for which, of the masks that contain the first k features (k ≤ 4), just too few keep the prediction."""
    masks, labels, rng = all_masks(n), np.zeros(2**n, dtype=int), np.random.default_rng(0)
    labels[-1] = 1
    for size in (4, 3, 2, 1):
        inside = masks[:, :size].all(axis=1)
        labels[2**size - 1] = 1
        open_codes = np.flatnonzero(inside & (True if size == 4 else ~masks[:, size]) & (labels == 0))
        n_needed = int(np.ceil(threshold * inside.sum() - 1e-9)) - 1 - int(labels[inside].sum())
        labels[rng.permutation(open_codes)[:n_needed]] = 1
    return hf.lookup_table(labels, n_features=n)


# -- cost --------------------------------------------------------------------------------------------


def _costs(network: Any, image: np.ndarray) -> Iterator[Figure]:
    import torch

    pixels = torch.from_numpy(image)
    model = hf.mask_image(network, pixels, groups=(8, 8), batch_size=BATCH)
    shown = draw_masks(BUDGET, 64, "bernoulli", stream(0, "attribution", "lime"))
    ready = pixels * torch.from_numpy(shown[:, model.groups])[:, None]

    def bare() -> Any:
        with torch.inference_mode():
            return [network(part) for part in ready.split(BATCH)]

    works = {
        "LIME": lambda: hf.attribute(model, "lime", n_samples=BUDGET, rng=0),
        "SHAP": lambda: hf.attribute(model, "shap", n_samples=BUDGET, rng=0),
    }
    for name, ratio in _ratios(bare, works).items():
        yield Figure(f"{name} with {BUDGET} masks vs bare passes, ResNet-20@32", ratio, "×", at_most=1.05)


def _ratios(bare: Callable[[], object], works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Best time over best time, measured in turns so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in ["", *works]}
    for _ in range(REPEATS):
        for name, work in {"": bare, **works}.items():
            start = time.process_time()
            work()
            times[name].append(time.process_time() - start)
    return {name: min(times[name]) / min(times[""]) for name in works}


# -- Shapley values ----------------------------------------------------------------------------------


def _games(tables: dict[str, np.ndarray]) -> Iterator[Figure]:
    """Root mean square error at equal budgets over that of the best package, and how honest the errors are."""
    others = _packages()
    if not others:
        print("  LEFT OUT: Shapley values against packages (no shapiq, no shap)")
    for name, table in tables.items():
        n = len(table).bit_length() - 1
        model, truth = hf.lookup_table(table, n_features=n), exact_shapley(table)
        for budget in GAME_BUDGETS:
            runs = [hf.attribute(model, "shap", n_samples=budget, rng=seed) for seed in range(GAME_RUNS)]
            off = np.array([one.scores - truth for one in runs])
            label = f"SHAP of {name}, {budget} masks"
            size = np.sqrt((truth**2).mean())
            yield Figure(f"{label}: error over the size of the values", float(np.sqrt((off**2).mean()) / size))
            inside = np.abs(off) <= 2 * np.array([one.errors for one in runs])
            yield Figure(f"{label}: share within two stated errors", float(inside.mean()), at_least=0.9)
            ours_ms = _milliseconds(lambda b=budget, m=model: hf.attribute(m, "shap", n_samples=b, rng=0))
            yield Figure(f"{label}: own cost", ours_ms, "ms")
            errors = {}
            for other, estimate in others.items():
                theirs = np.array([estimate(table, n, budget, seed) for seed in range(GAME_RUNS)]) - truth
                errors[other] = np.sqrt((theirs**2).mean())
                cost = _milliseconds(lambda e=estimate, t=table, k=n, b=budget: e(t, k, b, 0))
                print(f"    {other}: error {errors[other] / size:.4f}, own cost {cost:.1f} ms")
            if errors:
                ratio = float(np.sqrt((off**2).mean()) / min(errors.values()))
                yield Figure(f"{label}: our error over that of the best package", ratio, "×", at_most=1.25)


def _milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def _packages() -> dict[str, Callable[[np.ndarray, int, int, int], np.ndarray]]:
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if importlib.util.find_spec("shapiq"):
            import shapiq

            found["shapiq KernelSHAP"] = _shapiq(lambda n, seed: shapiq.KernelSHAP(n=n, random_state=seed))
            found["shapiq KernelSHAP, paired"] = _shapiq(
                lambda n, seed: shapiq.KernelSHAP(n=n, pairing_trick=True, random_state=seed)
            )
            found["shapiq SVARM"] = _shapiq(lambda n, seed: shapiq.SVARM(n=n, random_state=seed))
            found["shapiq permutations"] = _shapiq(lambda n, seed: shapiq.PermutationSamplingSV(n=n, random_state=seed))
        if importlib.util.find_spec("shap"):
            found["shap KernelExplainer"] = _kernel_explainer
    return found


def _shapiq(make: Callable[[int, int], Any]) -> Callable[[np.ndarray, int, int, int], np.ndarray]:
    def estimate(table: np.ndarray, n: int, budget: int, seed: int) -> np.ndarray:
        def game(masks: np.ndarray) -> np.ndarray:
            return _look_up(table, masks) - table[0]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = make(n, seed).approximate(budget=budget, game=game)
        return np.array([found[(i,)] for i in range(n)])

    return estimate


def _kernel_explainer(table: np.ndarray, n: int, budget: int, seed: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        np.random.seed(seed)  # noqa: NPY002  shap draws from the global generator
        explainer = shap.KernelExplainer(lambda z: _look_up(table, z > 0.5), np.zeros((1, n)))
        options = {"nsamples": budget - 2, "l1_reg": f"num_features({n})", "silent": True}
        return np.asarray(explainer.shap_values(np.ones(n), **options))


def _look_up(table: np.ndarray, masks: np.ndarray) -> np.ndarray:
    rows = np.atleast_2d(np.asarray(masks, dtype=bool))
    return table[rows @ (1 << np.arange(rows.shape[1]))]


def _wine_table() -> np.ndarray:
    """All values of a model that people have: boosted trees on 13 measurements, hidden ones from other rows."""
    from sklearn.datasets import load_wine
    from sklearn.ensemble import GradientBoostingClassifier

    rows, labels = load_wine(return_X_y=True)
    trees = GradientBoostingClassifier(random_state=0).fit(rows, labels)
    model = hf.mask_tabular(trees.predict_proba, rows[100], background=rows[::12], fill="background")
    return _every_value(model)


def _image_table(network: Any, image: np.ndarray) -> np.ndarray:
    import torch

    return _every_value(hf.mask_image(network, torch.from_numpy(image), groups=(3, 4), batch_size=BATCH))


def _every_value(model: hf.MaskedModel) -> np.ndarray:
    scores = hf.Evaluator(model)(all_masks(model.n_features))
    return scores[:, scores[-1].argmax()].astype(np.float64)


# -- stability of the methods ------------------------------------------------------------------------


def _image_methods(network: Any, images: np.ndarray) -> Iterator[Figure]:
    import torch

    models = [hf.mask_image(network, torch.from_numpy(image), groups=(8, 8), batch_size=BATCH) for image in images]
    seen = _Seen.of(models, IMAGE_RADII, budget=None)
    yield from seen.figures(f"ResNet-20, {N_IMAGES} images", promised=("lime", "shap"))
    yield Figure("Integrated Gradients, ResNet-20: largest completeness error", max(seen.incomplete), at_most=0.01)


def _text_methods(folder: Path) -> Iterator[Figure]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    place = folder / "minilm-tweeteval-emotion"
    module = AutoModelForSequenceClassification.from_pretrained(place, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(place)
    lines = (folder / "tweeteval/emotion/val_text.txt").read_text(encoding="utf-8").splitlines()
    models = [hf.mask_text(module, line, tokenizer=tokenizer) for line in lines if 60 < len(line) < 110][:N_TEXTS]
    seen = _Seen.of(models, TEXT_RADII, budget=300)
    yield from seen.figures(f"MiniLM, {N_TEXTS} texts", promised=())


class _Seen:
    """Unbiased rates (inputs, radii) of every method, the mean of several random selections among them."""

    def __init__(self, radii: tuple[int, ...]) -> None:
        self.radii = radii
        self.rates: dict[str, list[np.ndarray]] = {name: [] for name in (*METHODS, "random")}
        self.consistent: dict[str, list[float]] = {name: [] for name in self.rates}
        self.incomplete: list[float] = []

    @classmethod
    def of(cls, models: list[Any], radii: tuple[int, ...], *, budget: int | None) -> _Seen:
        seen = cls(radii)
        for seed, model in enumerate(models):
            evaluator = hf.Evaluator(model)
            for name in seen.rates:
                seen.add(name, evaluator, seed, budget if name in ("lime", "shap") else None)
        return seen

    def add(self, name: str, model: hf.Evaluator, seed: int, budget: int | None) -> None:
        curves = []
        for repeat in range(N_RANDOM if name == "random" else 1):
            found = hf.attribute(model, name, n_samples=budget, rng=1000 * repeat + seed)
            chosen = hf.top_fraction(found, 0.25)
            curves.append(hf.certify_radii(model, chosen, radii=self.radii, rng=1000 * repeat + seed))
            if name == "integrated_gradients":
                self.incomplete.append(found.details["completeness_error"] / abs(found.details["score_change"]))
        self.rates[name].append(np.mean([[one.rate_unbiased for one in curve] for curve in curves], axis=0))
        self.consistent[name].append(float(np.mean([curve.certificates[0].consistent for curve in curves])))

    def figures(self, label: str, *, promised: tuple[str, ...]) -> Iterator[Figure]:
        for name in self.rates:
            for i, radius in enumerate(self.radii):
                yield Figure(f"{label}, {name}: mean rate, r ≤ {radius}", float(np.mean(self._column(name, i))))
            yield Figure(f"{label}, {name}: share consistent", float(np.mean(self.consistent[name])))
        for name in METHODS:
            for i, radius in enumerate(self.radii):
                gap = self._column(name, i) - self._column("random", i)
                low, high = _bootstrap(gap)
                limit = 1e-9 if name in promised and radius >= 24 else None
                where = f"{label}, {name} − random, r ≤ {radius}"
                yield Figure(f"{where}: mean", float(gap.mean()))
                yield Figure(f"{where}: 95 % from (bootstrap)", low, at_least=limit)
                yield Figure(f"{where}: 95 % to (bootstrap)", high)
                if limit is not None:
                    yield Figure(f"{where}: 90 % from (Hoeffding)", float(gap.mean() - _hoeffding_slack(len(gap))))

    def _column(self, name: str, i: int) -> np.ndarray:
        return np.array(self.rates[name])[:, i]


def _bootstrap(values: np.ndarray) -> tuple[float, float]:
    """An approximate 95 % interval for the mean: 1,000 resamples of the inputs, as in the paper."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(1000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _hoeffding_slack(n: int, risk: float = 0.1) -> float:
    """Half the width of an interval for the mean of n numbers in [-1, 1] that is a guarantee."""
    return 2 * float(np.sqrt(np.log(2 / risk) / (2 * n)))

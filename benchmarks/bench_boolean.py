"""Boolean analysis: transforms against alternatives and memory bandwidth; bounds on a real model.

``python -m benchmarks.bench_boolean <folder>`` draws the figures of docs/theory/boolean.md into a folder.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import holdfast as hf
from benchmarks.figures import Figure, best_seconds
from holdfast import boolean
from holdfast.boolean import figures

SIZES = (16, 18, 20, 22, 24)
KEEPS = (1.0, 0.9, 0.75, 0.5)
FORMS = ("sharp", "termwise", "factor")
DIGITS = (2, 0)
"""Rows of the test split: a digit whose explanation is stable, and one whose is not."""

DPI = 120

Array = NDArray[np.float64]


def run() -> Iterator[Figure]:
    yield from _speed()
    yield from _alternatives()
    yield from _memory()
    results = {name: compare_bounds(table, N_SELECTED) for name, table in digit_tables().items()}
    folder = Path("build/bench")
    folder.mkdir(parents=True, exist_ok=True)
    draw_bounds(results, folder / "boolean-bounds.png")
    yield from _bounds(results)


def _table(n: int) -> Array:
    return np.random.default_rng(n).standard_normal(2**n)


def _speed() -> Iterator[Figure]:
    for n in SIZES:
        h = _table(n)
        repeats = 7 if n < 22 else 3
        seconds = best_seconds(lambda h=h: boolean.fourier(h, out=h), repeats=repeats)
        promise = {"at_most": 0.5} if n == 20 else {}
        yield Figure(f"fourier in place, n={n}", seconds, "s", **promise)
        spare = np.empty_like(h)
        copied = best_seconds(lambda a=h, b=spare: np.copyto(b, a), repeats=repeats)
        yield Figure(f"… in units of copying the table twice, n={n}", seconds / (2 * copied), "×")
        if n == 20:
            for name in ("monotone", "inverse_monotone"):
                transform = getattr(boolean, name)
                seconds = best_seconds(lambda h=h, t=transform: t(h, out=h), repeats=1)
                yield Figure(f"{name} in place, n={n}", seconds, "s", at_most=0.5)
            seconds = best_seconds(lambda: boolean.biased(_table(20), 0.3))
            yield Figure(f"biased, n={n}", seconds, "s", at_most=0.5)


def _alternatives() -> Iterator[Figure]:
    """Each is checked to give the same coefficients."""
    from scipy import fft
    from scipy.linalg import hadamard

    for n, name, other, at_least in [
        (12, "a Hadamard matrix (scipy.linalg.hadamard, made once)", _product(hadamard(2**12)), 1),
        (16, "scipy.fft.fftn over n axes of length 2", lambda h: _fft(fft.fftn, h), 2),
        (16, "numpy.fft.fftn over n axes of length 2", lambda h: _fft(np.fft.fftn, h), 2),
        (16, "a radix-2 loop in NumPy", _radix_two, 1),
        (20, "scipy.fft.fftn over n axes of length 2", lambda h: _fft(fft.fftn, h), 2),
        (20, "a radix-2 loop in NumPy", _radix_two, 2),
        (24, "scipy.fft.fftn over n axes of length 2", lambda h: _fft(fft.fftn, h), 2),
        (24, "a radix-2 loop in NumPy", _radix_two, 2),
    ]:
        h = _table(n)
        assert np.allclose(other(h), boolean.fourier(h), atol=1e-9)
        repeats = 5 if n < 22 else 2
        theirs = best_seconds(lambda h=h, f=other: f(h), repeats=repeats)
        ours = best_seconds(lambda h=h: boolean.fourier(h), repeats=repeats)
        yield Figure(f"fourier vs {name}, n={n}", theirs / ours, "×", at_least=at_least)


def _product(matrix: NDArray[Any]) -> Any:
    dense = matrix.astype(np.float64) / len(matrix)
    return lambda h: dense @ h


def _fft(transform: Any, h: Array) -> Array:
    return np.asarray(transform(h.reshape((2,) * (len(h).bit_length() - 1))).real.ravel() / len(h))


def _radix_two(h: Array) -> Array:
    """What one writes first."""
    c = h / len(h)
    for i in range(len(h).bit_length() - 1):
        pairs = c.reshape(-1, 2, 2**i)
        low = pairs[:, 0].copy()
        pairs[:, 0] += pairs[:, 1]
        np.subtract(low, pairs[:, 1], out=pairs[:, 1])
    return c


def _memory() -> Iterator[Figure]:
    h = _table(24)
    for name, out in [("fourier: table and result", None), ("fourier in place: table", h)]:
        tracemalloc.start()
        boolean.fourier(h, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        most = 2.05 if out is None else 1.05
        yield Figure(f"{name}, n=24, peak memory over the table's", 1 + peak / h.nbytes, "×", at_most=most)


# -- bounds on a real model ----------------------------------------------------------------------------

N_SELECTED = 4


@dataclass(frozen=True)
class Comparison:
    """For each keep probability: exact rates, bounds and certificates of M_λf at the radii 1 … m."""

    selected: hf.Mask
    margins: dict[float, float]
    exact: dict[float, Array]
    bounds: dict[float, dict[str, Array]]
    certificates: dict[float, Array]


def digit_tables() -> dict[str, Array]:
    """Class probabilities of digits-resnet on all masks of 16 patches, for two digits."""
    classifier, digits = hf.models.load("bundled:digits-resnet"), hf.data.load("bundled:digits")
    tables = {}
    for row in DIGITS:
        image = digits.inputs[row]
        model = classifier.bind(image, groups=hf.grid(image, 4, 4))
        tables[f"a {digits.classes[digits.labels[row]]}"] = probabilities(model)
    return tables


def probabilities(model: hf.MaskedModel) -> Array:
    """The softmax of a model's scores on every mask, (2ⁿ, n_classes)."""
    logits = boolean.tabulate(model, batch_size=512)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def compare_bounds(table: Array, n_selected: int, *, keeps: tuple[float, ...] = KEEPS) -> Comparison:
    """Bounds, exact rates and sampled certificates for the features of largest Shapley value.

    Works for the table of any model; "the same top class" is the agreement throughout.
    """
    n = len(table).bit_length() - 1
    predicted = int(table[-1].argmax())
    selected = hf.top(boolean.shapley(boolean.monotone(table[:, predicted])), n_selected)
    radii = range(1, n - n_selected + 1)
    result = Comparison(selected, {}, {}, {}, {})
    for keep in keeps:
        smoothed = boolean.mask_operator(table, keep)
        top = np.sort(smoothed[int(selected @ (1 << np.arange(n)))])
        result.margins[keep] = float(top[-1] - top[-2])
        result.exact[keep] = boolean.exact_rates(smoothed, selected)[1:]
        markov = [boolean.stability_bound(smoothed, selected, radius=r, form="markov") for r in radii]
        result.bounds[keep] = {"Markov": np.array(markov)} | {
            form: np.array([_smoothed_bound(table, selected, r, keep, form) for r in radii]) for form in FORMS
        }
        curve = hf.certify_radii(hf.lookup_table(smoothed, n_features=n), selected, radii=radii, rng=0)
        result.certificates[keep] = np.array([cert.interval for cert in curve])
    return result


def _smoothed_bound(table: Array, selected: hf.Mask, radius: int, keep: float, form: str) -> float:
    return boolean.smoothed_stability_bound(table, selected, radius=radius, keep_probability=keep, form=form)


def _bounds(results: Mapping[str, Comparison]) -> Iterator[Figure]:
    slack = [
        float((one.exact[keep] - values).min())
        for one in results.values()
        for keep in one.exact
        for values in one.bounds[keep].values()
    ]
    yield Figure("digits-resnet: exact rate minus bound, smallest of all", min(slack), at_least=-1e-12)
    for form in ("Markov", *FORMS):
        for keep in KEEPS:
            values = np.concatenate([one.bounds[keep][form] for one in results.values()])
            yield Figure(f"digits-resnet: share of radii where {form} says anything, λ={keep:g}", (values > 0).mean())


def draw_bounds(results: Mapping[str, Comparison], path: Path) -> None:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(13, 3.1 * len(results)), layout="constrained")
    rows = canvas.subplots(len(results), len(KEEPS), sharey=True, squeeze=False)
    for (name, one), row in zip(results.items(), rows, strict=True):
        for keep, ax in zip(one.exact, row, strict=True):
            radii = range(1, len(one.exact[keep]) + 1)
            certificates = {"SCA, ±0.1 at 90 %": one.certificates[keep]}
            figures.plot_bounds(radii, one.exact[keep], bounds=one.bounds[keep], certificates=certificates, ax=ax)
            ax.set(title=f"{name}, λ = {keep:g} (lead {one.margins[keep]:.2f})", ylabel="", xlabel="")
            ax.get_legend().remove()
        row[0].set_ylabel("stability rate of $M_\\lambda f$")
    for ax in rows[-1]:
        ax.set_xlabel("radius r (features added)")
    legend = _legend_of(rows.ravel())
    canvas.legend(legend.values(), legend, loc="outside lower center", ncols=len(legend), frameon=False)
    canvas.savefig(path, dpi=DPI)


def _legend_of(panels: Iterable[Any]) -> dict[str, Any]:
    """Label → handle over all panels; a bound is "(never positive)" only if it is so in every one of them."""
    first: dict[str, tuple[str, Any]] = {}
    for ax in panels:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            name = label.removesuffix(" (never positive)")
            if name not in first or label == name:
                first[name] = (label, handle)
    return dict(first.values())


def draw_spectra(path: Path) -> None:
    """The paper's figure: masking and flipping side by side."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(9.6, 3.4), layout="constrained")
    for result, ax in zip(figures.random_contractions(), canvas.subplots(1, 2, sharey=True), strict=True):
        figures.plot_contraction(result, ax=ax)
    canvas.savefig(path, dpi=DPI)


def draw_profile(table: Array, path: Path) -> None:
    """The spectrum of one class probability of a model, and how masking contracts it."""
    from matplotlib.figure import Figure as Canvas

    score = table[:, int(table[-1].argmax())]
    canvas = Canvas(figsize=(9.6, 3.4), layout="constrained")
    left, right = canvas.subplots(1, 2)
    profiles = {
        f"λ = {keep:g}": boolean.degree_weight(boolean.fourier(boolean.mask_operator(score, keep)))
        for keep in (1, 0.75, 0.5)
    }
    figures.plot_degree_profile(profiles, quantity="Fourier weight", ax=left).set_title(
        "Fourier weight of $M_\\lambda f$"
    )
    contraction = figures.contraction(boolean.monotone(score), KEEPS, basis="monotone")
    figures.plot_contraction(contraction, ax=right).set_title("Monotone mass of $M_\\lambda f$")
    canvas.savefig(path, dpi=DPI)


def draw_all(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tables = digit_tables()
    draw_spectra(folder / "masking-vs-flipping.png")
    draw_profile(next(iter(tables.values())), folder / "profile.png")
    draw_bounds({name: compare_bounds(table, N_SELECTED) for name, table in tables.items()}, folder / "bounds.png")


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]))

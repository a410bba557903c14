"""Public functions that draw, write pages or speak to other packages, with a call that is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from holdfast import study
from holdfast.boolean import figures as spectra
from holdfast.certification.selector import CalibrationGroup, CalibrationStep
from holdfast.report import figures
from tests.helpers.fakes import score_table
from tests.helpers.fuzz_cases import IMAGE, MISSING, SELECTED, Case


def drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and then every figure closed."""

    def call(**arguments: Any) -> Any:
        import matplotlib
        import matplotlib.pyplot as plt

        matplotlib.use("Agg")
        try:
            return function(**arguments)
        finally:
            plt.close("all")

    return call


def curve() -> hf.StabilityCurve:
    return hf.certify_radii(score_table(6), SELECTED, radii=[1, 2], rng=0)


def accuracy() -> hf.smoothing.SmoothedAccuracy:
    return hf.smoothing.SmoothedAccuracy((1.0, 0.5), (3, 2), 4, 8, 0.9, 64, 0)


def calibration() -> Any:
    steps = (CalibrationStep(0.5, 19, 1), CalibrationStep(0.25, 1, 2))
    group = CalibrationGroup(20, 19, steps)
    sizes = tuple(study.MethodSize("lime", 1.0, radius, group) for radius in (1, 2))
    words = ("additions", "same_top_class", "model", "data")
    return study.StudyCalibration(sizes, (0.5, 0.25), 0.9, 0.8, 0.9, 0.1, 0, *words)


def contraction() -> Any:
    return spectra.contraction(np.arange(8.0), (1.0, 0.5))


FIGURES = {
    "figures.lines_of": Case(figures.lines_of, lambda: {"result": curve()}),
    "figures.make_panels": Case(
        drawn(figures.make_panels),
        lambda: {"n_rows": 1, "n_columns": 2, "size": (3.1, 2.5)},
        work=("n_rows", "n_columns"),
    ),
    "figures.plot_accuracy": Case(
        drawn(figures.plot_accuracy), lambda: {"result": accuracy(), "marked": (1.0,), "ax": None}
    ),
    "figures.plot_curves": Case(drawn(figures.plot_curves), lambda: {"result": curve(), "ax": None}),
    "figures.plot_example_image": Case(
        drawn(figures.plot_example_image),
        lambda: {
            "image": IMAGE.copy(),
            "selected": np.array([True, False, False, True]),
            "groups": np.arange(16).reshape(4, 4) // 4,
            "title": "a",
        },
        allowed=(OSError,),
    ),
    "figures.plot_example_text": Case(
        drawn(figures.plot_example_text),
        lambda: {"words": ["a", "b"], "selected": np.array([True, False]), "added": (1,), "title": "a"},
    ),
    "figures.plot_lines": Case(drawn(figures.plot_lines), lambda: {"lines": figures.lines_of(curve()), "legend": True}),
    "figures.plot_sizes": Case(drawn(figures.plot_sizes), lambda: {"result": calibration(), "ax": None}),
    "figures.plot_spectra": Case(
        drawn(figures.plot_spectra), lambda: {"result": contraction(), "log": True, "ax": None}
    ),
    "figures.plot_times": Case(
        drawn(figures.plot_times), lambda: {"seconds": {"a": [1.0, 2.0]}, "title": "t", "ax": None}
    ),
    "figures.save_figure": Case(
        drawn(figures.save_figure),
        lambda: {"figure": None, "stem": Path("no-such-folder") / "figure"},
        allowed=(OSError,),
    ),
    "boolean.figures.contraction": Case(
        spectra.contraction,
        lambda: {"c": np.arange(8.0), "amounts": (1.0, 0.5), "operator": "masking", "basis": "fourier"},
    ),
    "boolean.figures.random_contractions": Case(
        spectra.random_contractions,
        lambda: {"n_features": 3, "amounts": (1.0, 0.5), "n_spectra": 2, "rng": 0},
        work=("n_spectra", "n_features"),
        fixed=("n_features",),  # tables of 2ⁿ rows, refused above a limit as everywhere in `boolean`
    ),
    "boolean.figures.plot_contraction": Case(
        drawn(spectra.plot_contraction), lambda: {"result": contraction(), "log": True}
    ),
    "boolean.figures.plot_degree_profile": Case(
        drawn(spectra.plot_degree_profile),
        lambda: {"profiles": {"a": np.array([1.0, 0.5])}, "first": 1, "quantity": "weight", "log": False},
    ),
    "boolean.figures.plot_bounds": Case(
        drawn(spectra.plot_bounds),
        lambda: {"radii": [1, 2], "exact": [0.9, 0.8], "bounds": {"b": [0.5, 0.4]}, "certificates": None},
    ),
}


def write_report(**arguments: Any) -> Any:
    from holdfast.report.page import write_report as write

    return write(**arguments)


def log_study(**arguments: Any) -> Any:
    from holdfast.interop.mlflow import log_study as log

    return log(**arguments)


def rate_of_torchmetrics(rows: Any, **arguments: Any) -> Any:
    import torch

    from holdfast.interop.torchmetrics import MeanStabilityRate

    torch.manual_seed(0)
    return MeanStabilityRate(torch.nn.Linear(4, 2), **arguments).update(torch.ones(1, 4), rows)


def rate_of_quantus(**arguments: Any) -> Any:
    from holdfast.interop.quantus import StabilityRate

    return StabilityRate(**arguments)


def rows() -> Any:
    import torch

    return torch.ones(1, 4)


INTEROP = {
    "report.write_report": Case(
        write_report,
        lambda: {
            "results": [MISSING],
            "output": MISSING,
            "title": "t",
            "n_gallery": 2,
            "use_model": False,
            "accuracy": None,
            "calibrate": None,
        },
        allowed=(OSError,),
    ),
    "interop.log_study": Case(
        log_study, lambda: {"path": MISSING, "confidence": 0.9, "artifacts": False}, allowed=(OSError,)
    ),
    "interop.torchmetrics": Case(
        rate_of_torchmetrics,
        lambda: {"rows": rows(), "radius": 1, "top_fraction": 0.5, "tolerance": 0.3, "plan": "hoeffding"},
    ),
    "interop.quantus": Case(
        rate_of_quantus, lambda: {"radius": 1, "top_fraction": 0.5, "confidence": 0.9, "plan": "exact", "rng": 0}
    ),
}

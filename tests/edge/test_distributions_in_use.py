"""Distributions of what may be revealed, wherever one is named: studies, pages, figures and the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast import study
from holdfast.cli import main
from holdfast.cli.check import DOES_NOT_HOLD, in_words
from holdfast.errors import InvalidValueError
from holdfast.report import figures
from holdfast.report.notebook import to_html
from holdfast.report.page import write_report
from holdfast.study.spec import CertifySpec, MethodSpec, SmoothingSpec
from tests.helpers.study_support import TRUST, make_spec, mean_spec, write_texts

MODEL = hf.mask_function(lambda masks: masks[:, 0] & ~(masks[:, 7] & masks[:, 9]), n_features=24)
SELECTED = np.arange(24) < 3
INPUT = ["--model", "bundled:cancer-forest", "--input", "bundled:cancer#0"]


def test_a_study_names_a_distribution_by_its_text_whoever_gives_it() -> None:
    assert CertifySpec(neighborhood=hf.distributions.Bernoulli(0.3)).neighborhood == "bernoulli(0.3)"  # type: ignore[arg-type]
    assert CertifySpec(neighborhood="bernoulli(0.30)") == CertifySpec(neighborhood="bernoulli(0.3)")
    for refused in (hf.distributions.Weighted([1, 2], radius=1), MODEL, "own law mine"):
        with pytest.raises((InvalidValueError, hf.errors.InvalidTypeError), match=r"`certify\.neighborhood` must be"):
            CertifySpec(neighborhood=refused)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"`certify\.neighborhood` must draw masks of one size equally"):
        CertifySpec(neighborhood="grouped([[0, 1]])", precision="data-set")


def test_a_study_by_a_distribution_is_run_summed_up_and_shown(tmp_path: Path) -> None:
    certify = CertifySpec(radii=(1, 3), neighborhood="bernoulli(0.3)")
    spec = make_spec(
        write_texts(tmp_path / "texts", 3),
        certify=certify,
        methods=(MethodSpec("occlusion"),),
        smoothing=SmoothingSpec(),
        top_fractions=(0.25,),
    )
    path = tmp_path / "study.db"
    study.run_study(spec, path)
    summary = study.summarize_study(path, n_resamples=20)
    assert summary.neighborhood == "bernoulli(0.3)"
    with study.Store(path) as store:
        assert store.spec.certify.neighborhood == "bernoulli(0.3)"
    sure = study.study_guarantee(path, method="occlusion", radius=1, min_rate=0.3, trust=TRUST)
    assert "revealing each other feature with probability 0.3 (at most 1)," in str(sure)
    write_report(path, tmp_path / "page.html", n_gallery=2, trust=TRUST)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "revealing each other feature with probability 0.3 (at most r)" in page


def test_the_mean_over_a_data_set_is_that_of_the_distribution(tmp_path: Path) -> None:
    spec = mean_spec(write_texts(tmp_path / "texts", 3))
    spec = replace(spec, certify=replace(spec.certify, neighborhood="bernoulli(0.3)"))
    study.run_study(spec, tmp_path / "means.db")
    plan = study.plan_study(spec)
    assert plan is not None
    assert study.summarize_study(tmp_path / "means.db", n_resamples=20).neighborhood == "bernoulli(0.3)"


@pytest.mark.parametrize("distribution", ["bernoulli(0.3)", "grouped([[0, 1, 2], [3, [4, 5]]])"])
def test_the_command_line_reads_a_distribution_and_confirms_what_it_wrote(
    distribution: str, tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "certificate.json"
    asked = ["--method", "occlusion", "--top", "5", "--radius", "3", "--set", f"neighborhood={distribution}"]
    assert main(["certify", *INPUT, *asked, "--output", str(file)]) == 0
    assert json.loads(file.read_text(encoding="utf-8"))["neighborhood"] == distribution
    assert main(["verify", str(file), *INPUT]) == 0
    assert main(["check", *INPUT, *asked, "--min-rate", "0.5"]) == 0
    capsys.readouterr()
    wrong = [*asked[:-1], "neighborhood=bernoulli(3)"]
    assert main(["certify", *INPUT, *wrong]) == 3
    assert "`--set neighborhood` cannot be 'bernoulli(3)'" in capsys.readouterr().err


def test_a_check_that_fails_by_weights_does_not_call_the_share_of_masks_the_rate() -> None:
    model = hf.mask_function(lambda masks: ~masks[:, 5], n_features=6)
    result = hf.certified_radius(
        model, [0], min_rate=0.8, radii=[1], neighborhood=hf.distributions.Weighted([1] * 5 + [20]), rng=0
    )
    answer, why = in_words(result, needs_consistent=False)
    assert (answer, result.trail[0].exact) == (DOES_NOT_HOLD, True)
    assert why == ("5 of 6 masks keep the prediction at radius 1, below 0.8: each mask is weighed by its probability.")
    uniform = hf.certified_radius(model, [0], min_rate=0.9, radii=[1], rng=0)
    assert in_words(uniform, needs_consistent=False)[1].endswith("below 0.9: all masks were counted.")


def test_a_curve_over_probabilities_is_drawn_against_them() -> None:
    import matplotlib

    matplotlib.use("Agg")
    curve = hf.certify_probabilities(MODEL, SELECTED, probabilities=[0.1, 0.5, 0.9], rng=0)
    axes = figures.plot_curves(curve)
    assert axes.get_xlabel() == "probability that each other feature is revealed"
    assert axes.lines[0].get_xdata().tolist() == [0.1, 0.5, 0.9]  # type: ignore[union-attr]
    assert axes.lines[0].get_ydata().tolist() == list(curve.rates)  # type: ignore[union-attr]
    assert figures.plot_curves({"a": curve}).get_xlabel() == axes.get_xlabel()
    radii = hf.certify_radii(MODEL, SELECTED, radii=[1, 2], rng=0)
    assert figures.plot_curves(radii).get_xlabel() == "radius (features added)"


def test_a_curve_over_probabilities_is_shown_in_notebooks_and_as_a_frame() -> None:
    curve = hf.certify_probabilities(MODEL, SELECTED, probabilities=[0.1, 0.5, 0.9], rng=0)
    html = to_html(curve)
    assert "each other feature is revealed" in html
    assert "at probability 0.9" in html
    frame = curve.to_frame()
    assert frame["neighborhood"].tolist() == ["bernoulli(0.1)", "bernoulli(0.5)", "bernoulli(0.9)"]
    assert frame["rate"].tolist() == list(curve.rates)

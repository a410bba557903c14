"""What the pages on other packages say of them is true of the versions that are installed.

The cells of the table are compared with what the packages themselves tell: their signatures, names and entry points.
alibi is not installed here; in the slow tests it gets an environment of its own.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import holdfast as hf
from holdfast.boolean import exact_rate, tabulate
from holdfast.cli import command_parser
from tests.house.test_readme import blocks_of

with warnings.catch_warnings():
    # What these packages warn of while they are imported is not ours to mend.
    warnings.simplefilter("ignore")
    import captum.attr
    import captum.metrics
    import lime.explanation
    import lime.lime_tabular
    import lime.lime_text
    import quantus
    import shap

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/coming-from.md"
PACKAGES = {"captum": "captum", "shap": "shap", "lime": "lime", "Quantus": "quantus"}


def read_table() -> dict[str, dict[str, str]]:
    """What a package has or has not → package → cell, and the versions in the heading."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    heading, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(heading[1:], row[1:], strict=True)) for row in rows}


TABLE = read_table()
HEADING = list(next(iter(TABLE.values())))


def cell(line: str, package: str) -> str:
    found = next(text for name, text in TABLE[line].items() if name.split()[0] == package)
    return re.split(r"[:\s]", found)[0]


def parameters(call: Any) -> set[str]:
    return set(inspect.signature(call).parameters)


def classes_of(module: Any, base: type = object) -> list[type]:
    return [one for _, one in inspect.getmembers(module, inspect.isclass) if issubclass(one, base)]


def has_command(package: str) -> bool:
    return any(one.group == "console_scripts" for one in distribution(package).entry_points)


def works_on_arrays(call: Callable[[], Any]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except (ValueError, TypeError, AssertionError, AttributeError):
            return False
    return True


def probabilities(rows: Any) -> Any:
    share = 1 / (1 + np.exp(-np.asarray(rows).sum(axis=1)))
    return np.stack([1 - share, share], axis=1)


ROWS = np.random.default_rng(0).normal(size=(8, 3))
MODEL = hf.mask_tabular(probabilities, ROWS[0], background=ROWS)
SELECTED = np.array([True, False, False])
CERTIFICATE = hf.certify(MODEL, SELECTED, radius=2, rng=0)
EXPLAINERS = [shap.KernelExplainer, shap.PermutationExplainer, shap.SamplingExplainer, shap.TreeExplainer]
METRICS = classes_of(quantus, quantus.Metric)
ATTRIBUTIONS = [one for one in classes_of(captum.attr, captum.attr.Attribution) if hasattr(one, "attribute")]
UNCERTAINTY = re.compile(r"confidence|interval|bound|error|std")


def says_how_sure(names: set[str]) -> bool:
    return any(UNCERTAINTY.search(name) for name in names)


CLAIMS: dict[str, dict[str, Callable[[], str]]] = {
    "makes attributions": {
        "holdfast": lambda: "yes" if hf.attribute(MODEL, "shap").scores.shape == (3,) else "no",
        "captum": lambda: "yes" if hasattr(captum.attr, "IntegratedGradients") else "no",
        "shap": lambda: "yes" if hasattr(shap, "KernelExplainer") else "no",
        "lime": lambda: "yes" if "explain_instance" in dir(lime.lime_text.LimeTextExplainer) else "no",
        "Quantus": lambda: "some" if hasattr(quantus, "explain") and quantus.AVAILABLE_XAI_METHODS_CAPTUM else "no",
    },
    "measures an explanation made elsewhere": {
        "holdfast": lambda: "yes" if "selected" in parameters(hf.certify) else "no",
        "captum": lambda: "yes" if "attributions" in parameters(captum.metrics.infidelity) else "no",
        "shap": lambda: "yes" if any("metric" in name or "benchmark" in name for name in dir(shap)) else "no",
        "lime": lambda: (
            "yes" if "explanation" in parameters(lime.lime_text.LimeTextExplainer.explain_instance) else "no"
        ),
        "Quantus": lambda: "yes" if "a_batch" in parameters(quantus.Metric.__call__) else "no",
    },
    "counts how often the prediction stays when random features are added": {
        "holdfast": lambda: "yes" if exact_rate(tabulate(MODEL), SELECTED, radius=2) == CERTIFICATE.rate else "no",
        "captum": lambda: "no" if _public(captum.metrics) == {"infidelity", "sensitivity_max"} else "yes",
        "shap": lambda: "yes" if any("stab" in name.lower() for name in dir(shap)) else "no",
        "lime": lambda: "yes" if any("stab" in name.lower() for name in dir(lime.explanation)) else "no",
        "Quantus": lambda: "yes" if any("addition" in name.lower() for name in _metric_names()) else "no",
    },
    "computes its number from inside trees and linear models, without samples": {
        "holdfast": lambda: (
            "yes" if all(_is_counted(one) for one in (DecisionTreeClassifier, LogisticRegression)) else "no"
        ),
        "captum": lambda: "yes" if _mentions_trees(captum.attr) else "no",
        "shap": lambda: "yes" if hasattr(shap, "TreeExplainer") and hasattr(shap, "LinearExplainer") else "no",
        "lime": lambda: "yes" if _mentions_trees(lime.lime_tabular.LimeTabularExplainer) else "no",
        "Quantus": lambda: "yes" if _mentions_trees(quantus) else "no",
    },
    "gives an interval for its number": {
        "holdfast": lambda: (
            "yes" if CERTIFICATE.interval.low <= CERTIFICATE.rate <= CERTIFICATE.interval.high else "no"
        ),
        "captum": lambda: "no" if all(_returns_tensor(one) for one in _metrics_of_captum()) else "yes",
        "shap": lambda: "some" if "error_bounds" in parameters(shap.PermutationExplainer.__call__) else "no",
        "lime": lambda: "yes" if says_how_sure(_names(lime.explanation.Explanation)) else "no",
        "Quantus": lambda: "no" if all(np.ndim(one) == 0 for one in _scores_of_quantus()) else "yes",
    },
    "samples until an accuracy that was asked for": {
        "holdfast": lambda: "yes" if {"tolerance", "confidence"} <= parameters(hf.certify) else "no",
        "captum": lambda: "yes" if any(_asks_accuracy(one.attribute) for one in ATTRIBUTIONS) else "no",
        "shap": lambda: "yes" if any(_asks_accuracy(one.__call__) for one in EXPLAINERS) else "no",
        "lime": lambda: "yes" if _asks_accuracy(lime.lime_tabular.LimeTabularExplainer.explain_instance) else "no",
        "Quantus": lambda: "yes" if any(_asks_accuracy(one.__init__) for one in METRICS) else "no",
    },
    "takes a seed as an argument": {
        "holdfast": lambda: "yes" if all("rng" in parameters(one) for one in (hf.certify, hf.attribute)) else "no",
        "captum": lambda: _how_many(["seed" in " ".join(parameters(one.attribute)) for one in ATTRIBUTIONS]),
        "shap": lambda: _how_many(["seed" in parameters(one.__init__) for one in EXPLAINERS]),
        "lime": lambda: _how_many(["random_state" in parameters(one.__init__) for one in _explainers_of_lime()]),
        "Quantus": lambda: _how_many(["seed" in parameters(one.__init__) for one in METRICS]),
    },
    "works on any function of arrays": {
        "holdfast": lambda: "yes" if works_on_arrays(lambda: MODEL(np.ones((1, 3), dtype=bool))) else "no",
        "captum": lambda: "yes" if works_on_arrays(_captum_on_arrays) else "no",
        "shap": lambda: "yes" if works_on_arrays(_shap_on_arrays) else "no",
        "lime": lambda: "yes" if works_on_arrays(_lime_on_arrays) else "no",
        "Quantus": lambda: "yes" if works_on_arrays(_quantus_on_arrays) else "no",
    },
    "writes results as JSON and reads them back": {
        "holdfast": lambda: "yes" if hf.Certificate.from_json(CERTIFICATE.to_json()) == CERTIFICATE else "no",
        "captum": lambda: _how_many([_has_json(one) for one in ATTRIBUTIONS]),
        "shap": lambda: "yes" if _has_json(shap.Explanation) else "no",
        "lime": lambda: "yes" if _has_json(lime.explanation.Explanation) else "no",
        "Quantus": lambda: _how_many([_has_json(one) for one in METRICS]),
    },
    "has a command with exit codes, for CI": {
        "holdfast": lambda: "yes" if "check" in command_parser().format_help() and has_command("holdfast") else "no",
        **{shown: lambda name=name: "yes" if has_command(name) else "no" for shown, name in PACKAGES.items()},
    },
}


def _is_counted(kind: Any) -> bool:
    rows = np.random.default_rng(0).normal(size=(60, 12))  # few masks would all be evaluated
    estimator = kind().fit(rows, rows[:, 0] > 0)
    certificate = hf.certify(hf.mask_tabular(estimator, rows[0], background=rows), [0, 1], radius=10)
    return certificate.exact and certificate.proof is not None


def _mentions_trees(one: Any) -> bool:
    return any(re.search("tree|linear_?explainer", name, re.IGNORECASE) for name in dir(one))


def _public(module: Any) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_") and not name.endswith("_decorator")}


def _metrics_of_captum() -> list[Any]:
    return [captum.metrics.infidelity, captum.metrics.sensitivity_max]


def _returns_tensor(call: Any) -> bool:
    return inspect.signature(call).return_annotation in (torch.Tensor, "Tensor")


def _names(one: type) -> set[str]:
    return {name for name in dir(one) if not name.startswith("_")}


def _metric_names() -> list[str]:
    return [name for family in quantus.AVAILABLE_METRICS.values() for name in family]


def _scores_of_quantus() -> list[Any]:
    """What metrics of three families return for two images."""
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2)).eval()
    images = np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32)
    batch = {"model": network, "x_batch": images, "y_batch": np.zeros(2, int), "explain_func": lambda **given: images}
    metrics = [quantus.Sparseness, quantus.Complexity, quantus.AvgSensitivity]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [one for metric in metrics for one in metric(disable_warnings=True)(a_batch=images, **batch)]


def _asks_accuracy(call: Any) -> bool:
    return bool({"tolerance", "confidence", "delta", "epsilon"} & parameters(call))


def _how_many(answers: list[bool]) -> str:
    return "yes" if all(answers) else "some" if any(answers) else "no"


def _explainers_of_lime() -> list[Any]:
    return [lime.lime_text.LimeTextExplainer, lime.lime_tabular.LimeTabularExplainer]


def _has_json(one: type) -> bool:
    return any("json" in name for name in _names(one))


def _captum_on_arrays() -> None:
    captum.attr.FeatureAblation(probabilities).attribute(ROWS[:1], target=0)


def _shap_on_arrays() -> None:
    shap.KernelExplainer(probabilities, ROWS).shap_values(ROWS[0], nsamples=20, silent=True)


def _lime_on_arrays() -> None:
    explainer = lime.lime_tabular.LimeTabularExplainer(ROWS, random_state=0)
    explainer.explain_instance(ROWS[0], probabilities, num_samples=20)


def _quantus_on_arrays() -> None:
    quantus.Sparseness(disable_warnings=True)(model=probabilities, x_batch=ROWS, y_batch=np.zeros(8, int), a_batch=ROWS)


@pytest.mark.parametrize("package", ["holdfast", *PACKAGES])
@pytest.mark.parametrize("line", list(TABLE))
def test_every_cell_of_the_table_is_true(line: str, package: str) -> None:
    assert cell(line, package) == CLAIMS[line][package]()


@pytest.mark.parametrize("package", list(PACKAGES))
def test_the_table_is_about_the_versions_that_are_installed(package: str) -> None:
    assert f"{package} {version(PACKAGES[package])}" in HEADING


def test_every_claim_is_in_the_table() -> None:
    assert set(CLAIMS) == set(TABLE)
    assert all(set(row) == {"holdfast", *PACKAGES} for row in CLAIMS.values())


def test_an_explainer_that_states_a_spread_is_shaps_permutation_explainer_only() -> None:
    with_seed = [one for one in EXPLAINERS if "seed" in parameters(one.__init__)]
    with_spread = [one for one in EXPLAINERS if "error_bounds" in parameters(one.__call__)]
    assert with_seed == [shap.PermutationExplainer]
    assert shap.KernelExplainer not in with_spread


def test_quantus_takes_seeds_for_randomisation_only() -> None:
    seeded = {one for one in METRICS if "seed" in parameters(one.__init__)}
    assert seeded == set(quantus.AVAILABLE_METRICS["Randomisation"].values())


# -- Anchors, in an environment of its own ------------------------------------------------------------


FACTS = """
import inspect, json
from importlib.metadata import distribution, version
from alibi.api.interfaces import Explanation
from alibi.explainers import AnchorTabular
from alibi.explainers.anchors.anchor_tabular import TabularSampler
source = inspect.getsource(TabularSampler.__init__)
print(json.dumps({
    "version": version("alibi"),
    "explain": sorted(inspect.signature(AnchorTabular.explain).parameters),
    "made": sorted(inspect.signature(AnchorTabular.__init__).parameters),
    "global seed": "np.random.seed(seed)" in source,
    "json": sorted(name for name in dir(Explanation) if "json" in name),
    "commands": [one.name for one in distribution("alibi").entry_points if one.group == "console_scripts"],
}))
"""


@pytest.fixture(scope="module")
def with_alibi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with alibi; skipped where it cannot be installed."""
    folder = tmp_path_factory.mktemp("alibi") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "alibi==0.9.6", "click"], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip(f"alibi cannot be installed here: {installed.stderr[-300:]}")
    return python


def run_alone(python: Path, script: str, folder: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    (folder / "script.py").write_text(script, encoding="utf-8")
    done = subprocess.run([python, "script.py"], cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_anchors_are_what_the_page_prints(with_alibi: Path, tmp_path: Path) -> None:
    blocks = blocks_of(PAGE.read_text(encoding="utf-8"))
    script = next(one.body for one in blocks if one.info == 'py title="anchors.py"')
    stated = next(one.body for one in blocks if one.info == 'text title="printed by anchors.py"')
    assert run_alone(with_alibi, script, tmp_path).split() == stated.split()


def test_the_page_on_anchors_certifies_the_anchor_that_was_found() -> None:
    blocks = blocks_of(PAGE.read_text(encoding="utf-8"))
    stated = next(one.body for one in blocks if one.info == 'text title="printed by anchors.py"')
    rule = stated.splitlines()[0].split(" (")[0]
    found = [term.split(" >")[0] for term in rule.split(" and ")]
    code = [one.body for one in blocks if one.info == "python"]
    assert any(f"anchor = {json.dumps(found)}" in one for one in code)


@pytest.mark.slow
def test_the_column_of_alibi_is_true(with_alibi: Path, tmp_path: Path) -> None:
    facts = json.loads(run_alone(with_alibi, FACTS, tmp_path))
    assert f"alibi {facts['version']}" in HEADING
    told = {line: cell(line, "alibi") for line in TABLE}
    assert told["samples until an accuracy that was asked for"] == "yes"
    assert {"threshold", "delta", "tau"} <= set(facts["explain"])
    assert told["measures an explanation made elsewhere"] == "no"
    assert not {"anchor", "explanation"} & set(facts["explain"])
    assert told["takes a seed as an argument"] == "some"
    assert "seed" in facts["made"]
    assert facts["global seed"]
    assert told["writes results as JSON and reads them back"] == "yes"
    assert facts["json"] == ["from_json", "to_json"]
    assert told["has a command with exit codes, for CI"] == "no"
    assert facts["commands"] == []
    returned = [
        "anchor",
        "coverage",
        "precision",
        "raw",
    ]  # what the page's script prints, which the test above compares
    assert f"returned: {returned}" in PAGE.read_text(encoding="utf-8")
    assert told["makes attributions"] == told["gives an interval for its number"] == "no"
    assert told["counts how often the prediction stays when random features are added"] == "no"
    assert told["works on any function of arrays"] == "yes"  # the script hands over `classifier.predict`

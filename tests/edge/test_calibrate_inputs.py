"""Calibrated selections of bound data: models that can be counted, files that are verified, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.cli import main

QUESTION: dict[str, Any] = {"radius": 2, "min_rate": 0.8, "share": 0.5, "sizes": [0.75, 0.5, 0.25], "rng": 0}


@pytest.fixture(scope="module")
def rows() -> hf.Inputs:
    """Rows of a linear model, whose masks are counted from inside."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    table = rng.normal(size=(80, 16))
    model = LogisticRegression().fit(table, table[:, :4].sum(axis=1) > 0)
    return hf.bind(model, table[:40], fill=np.zeros(16))


def test_inputs_that_can_be_counted_need_no_draws(rows: hf.Inputs) -> None:
    counted = hf.calibrate(rows, "occlusion", level=0, **QUESTION)
    assert counted.size is not None
    assert counted.n_calls < len(rows) * 3 * 60
    steps = counted.groups[0].trail
    for step in steps:
        stable = []
        for model in rows:
            mask = hf.top_fraction(hf.attribute(model, "occlusion"), step.cut)
            certificate = hf.certify(model, mask, radius=2)
            assert certificate.exact
            stable.append(certificate.consistent and certificate.rate >= 0.8)
        first = stable[: step.n_passed + step.n_failed]
        assert (sum(first), len(first) - sum(first)) == (step.n_passed, step.n_failed)


def test_a_selector_names_model_and_inputs(rows: hf.Inputs) -> None:
    selector = hf.calibrate(rows, "occlusion", **QUESTION)
    assert selector.provenance.model == rows[0].provenance.model  # type: ignore[attr-defined]
    assert None not in (selector.provenance.input, selector.provenance.masking)
    assert hf.recheck(rows, selector).confirmed
    others = hf.recheck(rows[::-1], selector)
    assert any("provenance.input" in difference for difference in others.differences)


def test_a_file_is_verified_on_the_inputs_that_calibrated_it(tmp_path: Path, capsys: Any) -> None:
    inputs = hf.bind("bundled:vader", "bundled:sentences", features="words")
    question = QUESTION | {"radius": 1, "min_rate": 0.6}
    selector = hf.calibrate(inputs[5:17], "occlusion", **question)
    file = tmp_path / "selector.json"
    file.write_text(selector.to_json(), encoding="utf-8")
    options = ["--model", "bundled:vader", "--features", "words"]
    assert main(["verify", str(file), *options, "--input", "bundled:sentences#5"]) == 0
    assert f"the same result.\n{selector}\n" in capsys.readouterr().out
    assert main(["verify", str(file), *options, "--input", "bundled:sentences#6", "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["confirmed"]
    assert main(["verify", str(file), *options, "--input", "bundled:sentences#195"]) == 3
    assert "must be the first of 12 calibration inputs" in capsys.readouterr().err
    assert main(["show", str(file)]) == 0
    assert str(selector) in capsys.readouterr().out


def test_gradients_are_counted_among_the_calls(tmp_path: Path) -> None:
    inputs = hf.bind("bundled:digits-resnet", "bundled:digits")[:4]
    asked = {"radius": 1, "min_rate": 0.5, "share": 0.3, "sizes": [0.9], "rng": 0, "check_determinism": False}
    plain = hf.calibrate(inputs, "integrated_gradients", options={"n_samples": 27}, **asked)
    given = [hf.attribute(model, "integrated_gradients", n_samples=27) for model in inputs]
    n_tested = sum((step.n_passed, step.n_failed)[0] + step.n_failed for step in plain.groups[0].trail)
    assert plain.n_calls > hf.calibrate(inputs, given, **asked).n_calls + 25 * n_tested


def test_models_that_draw_what_is_hidden_are_calibrated_for_the_precision_of_their_explanations() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))

    def is_large(batch: Any) -> Any:
        return batch[:, 0] + 0.1 * batch[:, 1] > 0

    models = [hf.mask_tabular(is_large, row, fill=hf.resample(rows[:7])) for row in rows[30:]]
    scores = [np.array([3.0, 2.0, 1.0, 0.0])] * 30
    asked: dict[str, Any] = {"radius": 0, "min_rate": 0.7, "share": 0.8, "sizes": [1, 2, 3], "rng": 0}
    selector = hf.calibrate(models, scores, **asked)
    # Every pair of a row and a completion, by hand: with one column shown, the other three come from one of seven rows.
    rates = [np.mean(is_large(np.c_[np.full(7, row[0]), rows[:7, 1:]]) == is_large(row[None])) for row in rows[30:]]
    last = selector.groups[0].trail[-1]
    assert selector.size == 1
    assert last.n_failed == sum(rate < 0.7 for rate in rates[: last.n_passed + last.n_failed])
    assert (selector.n_completions, hf.Selector.from_json(selector.to_json()).radius) == (7, 0)
    assert "showing the selected features alone with random fills" in selector.explain()
    assert hf.recheck(models, selector, method=scores).confirmed
    with pytest.raises(hf.errors.InvalidValueError, match="`radius` must be a whole number ≥ 1"):
        hf.calibrate([hf.mask_tabular(is_large, row, background=rows) for row in rows[30:]], scores, **asked)
    by_class = hf.calibrate(models, scores, per_class=True, **{**asked, "share": 0.5})
    assert by_class.is_per_class

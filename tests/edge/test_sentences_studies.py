"""Results of studies say themselves in at most 25 words, with a table below, and the rest in ``explain()``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.study.merge import Merged
from holdfast.study.plan import PlannedCost, StudyPlan
from holdfast.study.session import StudyRun
from holdfast.words import MOST_WORDS

LONG = "a study with a name that goes on and on for many words"
COSTS = (PlannedCost("lime", 1000.0, 2000, 1.0, 2.0), PlannedCost("mine", 0.0, 0, None, None))
SECONDS = 0.0123


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    rows = np.random.default_rng(0).normal(size=(24, 8))
    inputs = hf.bind(lambda rows: rows[:, :2] + rows[:, 2:4], rows, fill=0.0)
    methods = {"size": lambda model, row: np.abs(row), "occlusion with a long name": "occlusion"}
    path = tmp_path_factory.mktemp("studies") / "study.db"
    study = hf.study.run(inputs, methods, store=path, name=LONG, top_fractions=[0.25, 0.5], radii=[1, 3])
    summary, question = study.summary(), {"min_rate": 0.8, "radius": 3}
    return {
        "study": study,
        "status": study.status,
        "run": StudyRun(study.status, 48, stopped=True, seconds=12.3),
        "summary": summary,
        "difference": summary.differences[0],
        "trusted": study.trusted(**question),
        "guarantee": study.guarantee(method="size", top_fraction=0.5, **question),
        "calibration": study.calibrate(min_rate=0.5, share=0.5),
        "plan": StudyPlan(LONG, 2000, 48_000, 784, 5, 2, 0.9, "per-input", COSTS, 7_200_000, SECONDS),
        "merged": Merged("all.db", 48, 3, 2),
    }


NAMES = ("study", "status", "run", "summary", "difference", "trusted", "guarantee", "calibration", "plan", "merged")


@pytest.mark.parametrize("name", NAMES)
def test_a_result_of_a_study_is_a_short_sentence_and_explains_itself(results: dict[str, Any], name: str) -> None:
    sentence, text = str(results[name]).split("\n")[0], results[name].explain()
    assert 5 < len(sentence.split()) <= MOST_WORDS, sentence
    assert 40 <= len(text.split()) <= 140, f"{len(text.split())}: {text}"
    assert "None" not in sentence + text
    assert "  " not in text


def test_what_studies_guarantee_and_what_they_do_not_is_explained(results: dict[str, Any]) -> None:
    assert "independent draws" in results["guarantee"].explain()
    assert "no guarantee" in results["summary"].explain()
    assert "The whole list is right with probability at least 90%" in results["trusted"].explain()
    assert "In brackets: inputs that passed" in results["calibration"].explain()
    assert "run the study" in results["status"].explain() or "complete" in results["status"].explain()
    assert "Not counted: what mine may ask of the model." in results["plan"].explain()
    assert "2 mean curves are not merged" in results["merged"].explain()
    for name in ("summary", "difference", "trusted", "guarantee", "calibration"):
        assert "does not say that the explanation or the prediction is right" in results[name].explain()


def test_a_study_with_all_items_is_called_complete(results: dict[str, Any]) -> None:
    assert results["status"].complete
    assert "It is complete." in results["status"].explain()

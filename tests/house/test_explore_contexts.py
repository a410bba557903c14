"""What counts as the same answer on the page of `holdfast explore` is what counts everywhere else."""

from __future__ import annotations

from typing import Any

import numpy as np

import holdfast as hf
from holdfast.explore.questions import Questions
from holdfast.explore.requests import View
from holdfast.explore.scheduling import Caller, PriorityLock
from holdfast.explore.workbench import Workbench, loaded_entry

PASSAGES = ["It is 84 metres tall.", "It rains.", "It shrank.", "It is a tower."]


def ask(prompt: str) -> str:
    """The same height, in other words beside each passage."""
    shown = prompt.partition("\n\nQuestion")[0]
    return (
        "80 m"
        if "shrank" in shown
        else "84 m"
        if "tower" in shown
        else "84 Metres."
        if "rains" in shown
        else "84 metres"
    )


def test_answers_that_count_as_the_same_are_shown_as_kept_and_certified() -> None:
    context = {"question": "How tall?", "passages": PASSAGES, "cited": [1], "answer": "84 metres", "accepted": ["84 m"]}
    inputs, caller = hf.bind(ask, [context]), Caller("tab")
    questions = Questions(Workbench([loaded_entry(inputs, {})]), PriorityLock())
    view = View(inputs.model_name, 0, method="own", selected=(0,))

    def report(kind: str, content: Any) -> None:
        """Nobody looks."""

    kept = [questions.reveal(view, [0, place], caller)["agrees"] for place in (1, 2, 3)]
    assert kept == [True, False, True]
    certificate = questions.certify(view, caller, report, radius=3, tolerance=0.1, confidence=0.9)["text"]
    by_hand = hf.certify(inputs[0], np.arange(4) == 0, radius=3, tolerance=0.1, confidence=0.9, rng=view.seed)
    assert hf.Certificate.from_json(certificate) == by_hand
    assert questions.witness(view, caller, report)["added"] == [2]
    curve = questions.curve(view, caller, report, radii=[1, 2])
    assert curve["rates"] == [0.75, 4 / 7]

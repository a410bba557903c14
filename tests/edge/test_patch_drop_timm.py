"""Hidden patches removed from the sequence of timm's own vision transformers, in a process that can import timm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import timm_child

FOLDER = Path(os.environ.get("HOLDFAST_TIMM", "build/timm"))


@pytest.fixture(scope="module")
def answers() -> Any:
    if not (FOLDER / "timm").is_dir():
        pytest.skip(f"TIMM IS NOT TESTED: {FOLDER} is missing. Run: make timm")
    run = subprocess.run(
        [sys.executable, timm_child.__file__, str(FOLDER)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "name", [name for name in timm_child.MODELS if not name.startswith(("resnet", "beit")) and "mean" not in name]
)
def test_removed_patches_are_tokens_that_are_not_there(answers: Any, name: str) -> None:
    answer = answers[name]
    assert "error" not in answer, answer["error"]
    assert answer["difference"] < 2e-5
    assert answer["spread"] > 0.5, "every mask got the same scores"
    assert answer["n_features"] == (timm_child.SIZE // timm_child.PATCH) ** 2
    assert answer["fills_up"], "rows of unlike length go together"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("vit_tiny_patch16_224 that takes a mean", "it has no answer when every patch is hidden"),
        ("beit_base_patch16_224", "it does not run on fewer tokens"),
        ("resnet18", "it has no part with `patch_embeddings`, or with `patch_embed` and `pos_drop`"),
    ],
)
def test_others_are_refused_with_the_reason(answers: Any, name: str, reason: str) -> None:
    assert f"this module is not: {reason}." in answers[name]["error"]

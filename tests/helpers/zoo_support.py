"""Real models and inputs for tests, if they are at hand; a test that needs them and has none says so loudly.

The folder is named by the environment variable HOLDFAST_ZOO, or is ``shared/zoo`` beside the checkout.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


def zoo_folder() -> Path:
    """Where the zoo is, or would be."""
    return Path(os.environ.get("HOLDFAST_ZOO") or Path(__file__).parents[3] / "shared" / "zoo")


def zoo_path(name: str) -> Path:
    """A file or folder of the zoo; without it the test is skipped, with a reason that names it."""
    path = zoo_folder() / name
    if not path.exists():
        pytest.skip(f"NOT TESTED ON REAL MODELS: {path} is missing. Set HOLDFAST_ZOO to the folder of the zoo.")
    return path


def zoo_module() -> ModuleType:
    """The zoo's own Python module."""
    spec = importlib.util.spec_from_file_location("holdfast_zoo", zoo_path("zoo.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def zoo_resnet20() -> Any:
    """CIFAR-10 ResNet-20 on RGB images (b, 3, 32, 32) in [0, 1]."""
    zoo_path("cifar10-resnet20.safetensors")
    return zoo_module().cifar10_resnet20()


def zoo_images() -> tuple[Any, Any]:
    """CIFAR-10 images, bytes (200, 32, 32, 3), and their labels (200,)."""
    with np.load(zoo_path("cifar10-sample.npz")) as sample:
        return sample["images"], sample["labels"]

"""Importing holdfast is light, and what it offers is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast

HEAVY = ("torch", "scipy", "sklearn", "transformers", "onnxruntime", "captum", "matplotlib", "pandas", "ray")


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import holdfast", "from holdfast import *", "import holdfast.cli"])
def test_importing_loads_no_framework_and_no_scipy(statement: str) -> None:
    loaded = loaded_by(statement)
    assert {"holdfast", "numpy"} <= loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_probe_sees_scipy_once_it_is_needed() -> None:
    assert "scipy" in loaded_by("import holdfast; holdfast.clopper_pearson(9, 10)")


def test_every_public_name_is_there_once_in_order() -> None:
    assert len(set(holdfast.__all__)) == len(holdfast.__all__)
    assert holdfast.__all__ == sorted(holdfast.__all__)
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


def test_every_public_function_and_class_says_what_it_does() -> None:
    silent = [name for name in holdfast.__all__ if not (getattr(holdfast, name).__doc__ or "").strip()]
    assert silent == []


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert holdfast.__version__ == version("holdfast")

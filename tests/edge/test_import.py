"""Importing holdfast is light, and what it offers is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast
from holdfast.cli.options import EXIT_ERROR

HEAVY = ("torch", "scipy", "sklearn", "transformers", "onnxruntime", "captum", "matplotlib", "pandas", "ray")


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import holdfast", "from holdfast import *", "import holdfast.cli"])
def test_importing_loads_no_framework_and_no_scipy(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "holdfast" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_probe_sees_scipy_once_it_is_needed() -> None:
    assert "scipy" in loaded_by("import holdfast; holdfast.clopper_pearson(9, 10)")


def test_every_public_name_is_there_once_in_order() -> None:
    assert len(set(holdfast.__all__)) == len(holdfast.__all__)
    assert holdfast.__all__ == sorted(holdfast.__all__)
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


def test_every_public_name_and_module_is_offered_as_a_completion_and_nothing_else_is() -> None:
    offered = {name for name in dir(holdfast) if not name.startswith("__")}
    assert offered == {*holdfast.__all__, "boolean", "data", "models", "study"}
    assert all(getattr(holdfast, name) is not None for name in dir(holdfast))


def test_listing_the_names_loads_nothing_more() -> None:
    assert loaded_by("import holdfast; dir(holdfast)") == loaded_by("import holdfast")


def test_the_package_is_a_command_too() -> None:
    command = [sys.executable, "-W", "error", "-m", "holdfast"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"holdfast {holdfast.__version__}\n"
    refused = subprocess.run([*command, "study", "status", "nothing.db"], capture_output=True, text=True, check=False)
    assert refused.returncode == EXIT_ERROR
    assert refused.stderr.startswith("holdfast: ")


def test_every_public_function_and_class_says_what_it_does() -> None:
    silent = [name for name in holdfast.__all__ if not (getattr(holdfast, name).__doc__ or "").strip()]
    assert silent == []


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert holdfast.__version__ == version("holdfast")

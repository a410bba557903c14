"""Importing holdfast is light, and what it offers is there."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

import holdfast
from holdfast.cli.options import EXIT_ERROR
from tests.helpers.rooms import OTHER_ROOMS, ROOMS, names_in_rooms, public_object

HEAVY = ("torch", "scipy", "sklearn", "transformers", "onnxruntime", "captum", "matplotlib", "pandas", "ray")
ALL_ROOMS = sorted({*OTHER_ROOMS, *(room.partition(".")[0] for room in ROOMS)})


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
    assert "scipy" in loaded_by("import holdfast; holdfast.bounds.clopper_pearson(9, 10)")


def test_every_public_name_is_there_once_in_order() -> None:
    assert len(set(holdfast.__all__)) == len(holdfast.__all__)
    assert holdfast.__all__ == sorted(holdfast.__all__)
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


def test_every_public_name_and_module_is_offered_as_a_completion_and_nothing_else_is() -> None:
    offered = {name for name in dir(holdfast) if not name.startswith("__")}
    assert offered == {*holdfast.__all__, *ALL_ROOMS}
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
    public = [*holdfast.__all__, *(name for _, name in names_in_rooms())]
    assert [name for name in public if not (public_object(name).__doc__ or "").strip()] == []


def test_the_top_level_has_sixty_names_and_none_that_a_room_has() -> None:
    assert len(holdfast.__all__) == 60
    assert [name for _, name in names_in_rooms() if hasattr(holdfast, name)] == []


def test_rooms_are_attributes_of_a_fresh_import_and_have_their_names() -> None:
    code = "import holdfast as hf\n" + "\n".join(f"hf.{room}.{name}" for room, name in names_in_rooms())
    code += "\n" + "\n".join(f"hf.{room}" for room in ALL_ROOMS)
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize("room", ["certification", "distributions", "masking", "judging"])
def test_a_name_that_a_room_does_not_have_is_refused_with_the_name_of_the_room(room: str) -> None:
    with pytest.raises(AttributeError, match=rf"module 'holdfast\.{room}' has no attribute 'nothing'"):
        _ = getattr(holdfast, room).nothing


@pytest.mark.parametrize("room", ["certification", "distributions", "masking", "masking.context"])
def test_a_room_offers_what_it_loads_when_asked(room: str) -> None:
    module = import_module(f"holdfast.{room}")
    assert module.__all__ == sorted(ROOMS[room].split())
    assert set(module.__all__) <= set(dir(module))


def test_the_help_is_a_table_of_contents() -> None:
    text = holdfast.__doc__ or ""
    assert [name for name in (*holdfast.__all__, *ALL_ROOMS) if not re.search(rf"(?<![\w.]){name}(?!\w)", text)] == []
    entries = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    said = [entry.split("  ")[-1].strip() for entry in entries]
    assert max(len(words.split()) for words in said) <= 8
    assert max(map(len, text.splitlines())) <= 100


def test_importing_takes_less_than_a_third_of_a_second() -> None:
    """Of the processor's time, NumPy included, so that other work on the machine does not count."""
    code = "import time; start = time.process_time(); import holdfast, numpy; print(time.process_time() - start)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 0.3


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert holdfast.__version__ == version("holdfast")

"""What strangers install: the wheel alone in an empty environment, with NumPy and SciPy and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from holdfast.cli.options import EXIT_ERROR
from tests.helpers.fuzz_files import onnx_bytes

pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[2]
NEEDED = ("numpy", "scipy")


def hatch(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hatch("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel, NumPy and SciPy, the last two lent by this environment, and nothing else.

    Lending saves a download; that the wheel asks for these two alone is tested by its metadata.
    """
    place = tmp_path_factory.mktemp("venv")
    venv.EnvBuilder(with_pip=False).create(place)
    site = next((place / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for name in NEEDED:
        home = Path(__import__(name).__file__ or "").parent
        (site / name).symlink_to(home)
        for libraries in home.parent.glob(f"{name}.libs"):
            (site / libraries.name).symlink_to(libraries)
    return place / "bin" / "python"


def run(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([str(python), *arguments], cwd=cwd, capture_output=True, text=True, check=False, env=clean)


QUICK_START = """
import json, sys
import numpy as np
import holdfast as hf
model = hf.mask_function(lambda masks: masks[:, 0] | (masks.sum(axis=1) > 15), n_features=20)
scores = hf.attribute(model, "lime", rng=0)
cert = hf.certify(model, np.arange(20) < 4, radius=5, rng=0)
hf.find_witness(model, np.arange(20) < 4, rng=0)
loaded = sorted({name.partition(".")[0] for name in sys.modules})
json.dump({"rate": cert.rate, "file": hf.__file__, "loaded": loaded}, sys.stdout)
"""


def test_the_quick_start_runs_where_only_numpy_and_scipy_are_installed(python: Path, tmp_path: Path) -> None:
    done = run(python, "-W", "error", "-c", QUICK_START, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rate"] == 1.0
    assert str(python.parents[1]) in told["file"]
    assert not {"torch", "pandas", "sklearn", "matplotlib", "PIL"} & set(told["loaded"])


@pytest.mark.parametrize(
    "command",
    [[], ["certify"], ["compare"], ["check"], ["verify"], ["study"], ["study", "run"], ["reproduce"], ["demo"]],
)
def test_every_command_explains_itself_there(python: Path, command: list[str], tmp_path: Path) -> None:
    done = run(python, "-m", "holdfast", *command, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: holdfast")


ASKING = {
    "hf": "hf.models.load('bundled:digits-resnet')",
    "sklearn": "hf.models.load('bundled:cancer-forest')",
    "text": "hf.models.load('bundled:vader')",
    "onnx": "hf.models.load('onnx:model.onnx')",
    "image": "hf.superpixels(np.zeros((8, 8, 3)))",
    "report": "hf.certify_radii(model, np.arange(6) < 2, radii=[1], rng=0).to_frame()",
    "explain": "hf.as_shapiq_game(model)",
    "datasets": "hf.data.load('hf:.')",
    "ray": "hf.study.Ray()",
}


@pytest.mark.parametrize("extra", ASKING)
def test_what_needs_an_extra_says_how_to_install_it(python: Path, extra: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    (tmp_path / "model.onnx").write_bytes(onnx_bytes())
    start = "import numpy as np, holdfast as hf\nmodel = hf.lookup_table(np.eye(64), n_features=6)\n"
    script.write_text(start + ASKING[extra] + "\n")
    done = run(python, str(script), cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("holdfast.errors.MissingExtraError: ")
    assert "pip install 'holdfast[" in last
    assert f"[{extra}]" in last


def test_a_command_that_needs_an_extra_ends_with_one_line(python: Path, tmp_path: Path) -> None:
    asked = ["--model", "bundled:cancer-forest", "--input", "bundled:cancer#0", "--method", "lime", "--top", "3"]
    done = run(python, "-m", "holdfast", "certify", *asked, "--radius", "1", cwd=tmp_path)
    assert done.returncode == EXIT_ERROR
    assert "pip install 'holdfast[" in done.stderr
    assert "Traceback" not in done.stderr


# -- what is in it ----------------------------------------------------------------------------------


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_package_its_data_and_its_types_and_nothing_else(wheel: Path) -> None:
    names = names_in(wheel)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"holdfast", f"holdfast-{version('holdfast')}.dist-info"}
    assert "holdfast/py.typed" in names
    assert not any("__pycache__" in name or name.endswith((".pyc", ".pkl", ".bin")) for name in names)
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} <= names


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"holdfast-{version('holdfast')}.dist-info/METADATA").decode()


def test_the_wheel_needs_numpy_and_scipy_alone(wheel: Path) -> None:
    asked = [line for line in metadata(wheel).splitlines() if line.startswith("Requires-Dist: ")]
    plain = [line.removeprefix("Requires-Dist: ") for line in asked if "extra ==" not in line]
    assert sorted(line.split(">")[0] for line in plain) == list(NEEDED)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    told = metadata(wheel)
    for line in ("Name: holdfast", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert f"\n{line}\n" in told
    assert "# holdfast" in told.partition("\n\n")[2]
    with zipfile.ZipFile(wheel) as archive:
        points = archive.read(f"holdfast-{version('holdfast')}.dist-info/entry_points.txt").decode()
    assert "holdfast = holdfast.cli:main" in points


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the source archive."""
    with tarfile.open(hatch("sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_source_archive_holds_what_is_needed_to_build_and_test(sources: set[str]) -> None:
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "src/holdfast/py.typed"}
    assert wanted | {"tests/house/test_wheel.py", "tests/helpers/oracles.py", "docs/index.md"} <= sources
    assert not any(name.startswith((".venv", "build/")) or "__pycache__" in name for name in sources)


@pytest.mark.parametrize("file", ["Makefile", "pyproject.toml", "mkdocs.yml", "CONTRIBUTING.md"])
def test_every_path_that_a_recipe_names_is_in_the_source_archive(file: str, sources: set[str]) -> None:
    made = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    words = {word.rstrip("/.") for word in re.findall(r"[\w./-]+", (ROOT / file).read_text())}
    paths = {word for word in words if word.partition("/")[0] not in {*made, ""} and (ROOT / word).exists()}
    assert paths, "no paths were found"
    folders = {parent.as_posix() for name in sources for parent in Path(name).parents}
    assert paths - sources - folders == set()

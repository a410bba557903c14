"""Which packages a model and its data need, and that all missing ones are named at once, by every command."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import pytest

from holdfast import models
from holdfast.cli import main
from holdfast.errors import MissingExtraError
from holdfast.extras import EXTRAS, check_installed, extras_for, import_extra, needed
from holdfast.study.session import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, ModelSpec, StudySpec
from tests.house.test_first_steps import hidden_with, packages_of, run_without

ROOT = Path(__file__).parents[2]
STUDY = """
[model]
spec = "hf:my-vit"
[data]
spec = "hf:photos"
[[methods]]
name = "lime"
"""
TRY = """
import numpy as np
from holdfast import data, models
for name, inputs in {pairs!r}:
    model = models.load(name).bind(data.load(inputs).inputs[0])
    print(model(np.ones((1, model.n_features), dtype=bool)).shape)
"""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package is installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)


def test_every_extra_brings_the_packages_that_it_is_named_for() -> None:
    for package, extras in EXTRAS.items():
        for extra in extras:
            assert package in packages_of(extra), (package, extra)


def test_extras_are_as_few_as_bring_all_that_is_missing() -> None:
    assert extras_for([]) == []
    assert extras_for(["PIL", "torch", "transformers"]) == ["hf"]
    assert extras_for(["PIL", "transformers", "sklearn"]) == ["hf", "sklearn"]
    assert (extras_for(["PIL"]), extras_for(["torch"])) == (["image"], ["torch"])
    assert extras_for(["torch", "PIL"]) == ["image", "torch"]


def test_files_need_the_packages_that_read_them() -> None:
    assert needed("skops:forest.skops", "table:rows.csv") == ("skops", "sklearn", "pandas")
    assert needed("lightgbm:model.txt") == ("lightgbm",)
    assert extras_for(needed("xgboost:m.ubj", "table:rows.csv")) == ["report", "xgboost"]
    assert needed("python:my_models:make") == ()


def bundled_by_extras() -> dict[str, list[tuple[str, str]]]:
    """What the bundled models and their data are said to need → those models and data."""
    found: dict[str, list[tuple[str, str]]] = {}
    for card in models.available():
        pair = (f"bundled:{card.name}", card.data)
        found.setdefault(",".join(extras_for(needed(*pair))), []).append(pair)
    return found


@pytest.mark.parametrize(("extras", "pairs"), bundled_by_extras().items(), ids=bundled_by_extras())
def test_bundled_models_run_with_the_extras_they_are_said_to_need_and_no_others(
    extras: str, pairs: list[tuple[str, str]]
) -> None:
    done = run_without(hidden_with(extras), TRY.format(pairs=pairs))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(pairs)


def test_packages_are_looked_for_and_not_imported() -> None:
    code = "from holdfast.extras import EXTRAS, check_installed\n"
    done = run_without([], code + "check_installed('All', EXTRAS)\nprint(sorted(set(EXTRAS) & set(sys.modules)))")
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(MissingExtraError, match=r"^Superpixels need scikit-image: pip install 'holdfast\[image\]'$"):
        import_extra("skimage.segmentation", "Superpixels need")


def test_what_names_nothing_needs_nothing() -> None:
    for spec in (None, "", "vader", "bundled:nobody", "pkl:a", "python:module:factory"):
        assert needed(spec) == needed(None, spec) == ()


def test_nothing_is_named_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed("This", ["sklearn", "torch"])
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None if package == "PIL" else package)
    with pytest.raises(MissingExtraError, match=r"^This needs Pillow: pip install 'holdfast\[image\]'$"):
        check_installed("This", needed("bundled:digits-vit", "bundled:digits"))


@pytest.mark.parametrize(
    ("arguments", "missing", "extras"),
    [
        (
            "compare --model skops:m.skops --input rows.csv#0 --method lime --radii 2",
            "skops, scikit-learn, pandas",
            "report,sklearn",
        ),
        (
            "check --model onnx:m.onnx --input cat.png --method lime --radius 2 --min-rate 0.9",
            "ONNX Runtime, Pillow",
            "image,onnx",
        ),
        (
            "certify --model hf:m --input table:rows.parquet#3 --method lime --radius 2",
            "torch, transformers, pandas",
            "hf,report",
        ),
        ("certify --model bundled:vader --input text:fine --method lime --radius 2", "vaderSentiment", "text"),
        (
            "explore --model bundled:cancer-forest",
            "skops, scikit-learn, starlette, uvicorn",
            "explore,sklearn",
        ),
        (
            "explore --model hf:m --data images:photos",
            "torch, transformers, Pillow, starlette, uvicorn",
            "explore,hf",
        ),
        (
            "reproduce q2 --model onnx:m.onnx --data table:rows.csv",
            "ONNX Runtime, pandas, matplotlib, pyarrow",
            "onnx,report",
        ),
        ("study plan study.toml", "torch, transformers, datasets", "datasets,hf"),
        ("study run study.toml", "torch, transformers, datasets", "datasets,hf"),
        ("study run study.toml --engine ray", "datasets, Ray", "datasets,ray"),  # the model is loaded elsewhere
    ],
)
@pytest.mark.usefixtures("bare")
def test_every_command_names_all_that_is_missing_before_it_opens_a_file(
    arguments: str,
    missing: str,
    extras: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY, encoding="utf-8")
    assert main(arguments.split()) == 3
    assert capsys.readouterr().err.endswith(f" needs {missing}: pip install 'holdfast[{extras}]'\n")
    assert [file.name for file in tmp_path.iterdir()] == ["study.toml"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("certify --model m.onnx --input bundled:digits#3 --method lime --radius 2", "`--model` must start with"),
        ("explore --model digits-vit", "Did you mean 'bundled:digits-vit'?"),
        ("reproduce q2 --model digits-vit --data bundled:digits", "Did you mean 'bundled:digits-vit'?"),
        ("reproduce q2 --model bundled:digits-vit --data digits", "Did you mean 'bundled:digits'?"),
        ("study plan study.toml", "Did you mean 'hf:my-vit'?"),
    ],
)
@pytest.mark.usefixtures("bare")
def test_what_names_nothing_is_told_before_what_is_missing(
    arguments: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY.replace("hf:my-vit", "hff:my-vit"), encoding="utf-8")
    assert main(arguments.split()) == 3
    assert hint in capsys.readouterr().err


@pytest.mark.usefixtures("bare")
def test_a_study_leaves_no_file_when_packages_are_missing(tmp_path: Path) -> None:
    data = DataSpec("bundled:sentences", n=1)
    spec = StudySpec(ModelSpec("bundled:vader"), data, (MethodSpec("occlusion"),))
    with pytest.raises(MissingExtraError, match=r"^bundled:vader with bundled:sentences needs vaderSentiment: "):
        run_study(spec, tmp_path / "study.db")
    assert not list(tmp_path.iterdir())


def test_a_study_of_which_everything_is_stored_needs_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = StudySpec(
        model=ModelSpec("bundled:vader"),
        data=DataSpec("bundled:sentences", n=2),
        methods=(MethodSpec("random"),),
        certify=CertifySpec((1,)),
    )
    first = run_study(spec, tmp_path / "study.db")
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    again = run_study(spec, tmp_path / "study.db")
    assert (again.n_new, again.status.n_done) == (0, first.status.n_done)
    with pytest.raises(MissingExtraError, match="vaderSentiment"):
        run_study(spec, tmp_path / "other.db")


def test_what_stands_in_for_a_package_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("skops")
    stand_in.__spec__ = None
    monkeypatch.setitem(sys.modules, "skops", stand_in)
    check_installed("This", ["skops"])


# -- what the tests run with ------------------------------------------------------------------------


def pinned() -> dict[str, str]:
    """Names and versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def installed(name: str) -> str | None:
    """The version of a package, without where it was built."""
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return None


def test_the_constraints_pin_what_the_tests_run_with() -> None:
    """Packages that only other versions of Python need may be missing."""
    others = {name: (pin, installed(name)) for name, pin in pinned().items() if installed(name) not in (pin, None)}
    assert others == {}, "install with `-c constraints.txt`, or run `make constraints`"


def test_every_package_that_is_asked_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name != "docs"}
    lines = [*project["dependencies"], *(line for some in extras.values() for line in some)]
    names = {re.split(r"[\[<>=]", line)[0].lower() for line in lines} - {"holdfast"}
    names -= {"xgboost"}  # the tests run its build for CPUs, which is pinned
    assert names - pinned().keys() == set()

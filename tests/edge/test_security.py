"""What holdfast never does: run code from a file, build SQL from values, open connections, or show markup as markup."""

from __future__ import annotations

import ast
import io
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast import data, models, study
from holdfast.cli.single import read_numbers
from tests.helpers.fuzz_files import hub_folder

ROOT = Path(__file__).parents[2]


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of the package, parsed."""
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py")}


MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "telnetlib", "ftplib"}
"""What runs code from data, or speaks to the network, when it is used in the obvious way."""

CALLS = {"eval", "exec", "compile", "__import__", "system", "popen"}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def calls(tree: ast.AST) -> Iterator[tuple[str, str, ast.Call]]:
    """The owner and the name of what is called: ``("torch", "load")``, or ``("", "eval")``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield ast.unparse(node.func.value), node.func.attr, node
            elif isinstance(node.func, ast.Name):
                yield "", node.func.id, node


def keyword(call: ast.Call, name: str) -> Any:
    return next((ast.unparse(given.value) for given in call.keywords if given.arg == name), None)


def offences(tree: ast.AST) -> list[str]:
    """Whatever could run code that came with data."""
    found = [f"import {name}" for name in imports(tree) if name in MODULES]
    for owner, name, call in calls(tree):
        if (owner in ("", "os", "builtins") and name in CALLS) or keyword(call, "shell") == "True":
            found.append(ast.unparse(call))
        if (owner, name) == ("torch", "load") or (name == "load" and owner in ("np", "numpy")):
            found += [] if keyword(call, "allow_pickle") == "False" else [ast.unparse(call)]
        if keyword(call, "trust_remote_code") not in (None, "False"):
            found.append(ast.unparse(call))
        if "from_pretrained" in name and keyword(call, "use_safetensors") == "False":
            found.append(ast.unparse(call))
    return found


COMPILED_AGAIN = {
    "src/holdfast/masking/image/folding.py": [
        "compile(ast.fix_missing_locations(around), file, 'exec', dont_inherit=True)"
    ]
}
"""Methods of modules that run here already, whose source must give the very code that runs: see test_folding."""


def test_no_source_can_run_code_that_came_with_data() -> None:
    assert len(sources()) > 100
    assert {name: found for name, tree in sources().items() if (found := offences(tree))} == COMPILED_AGAIN


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "eval(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
    ],
)
def test_the_search_for_such_code_finds_it(code: str) -> None:
    assert len(offences(ast.parse(code))) == 1


# -- malicious files --------------------------------------------------------------------------------


class Evil:
    """A pickle of this makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    return tmp_path / "code-was-run"


def evil_pickle(trap: Path) -> bytes:
    return pickle.dumps(Evil(trap))


def test_the_trap_works(trap: Path) -> None:
    pickle.loads(evil_pickle(trap))
    assert trap.is_dir()


def evil_array(trap: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil(trap)], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def evil_archive(trap: Path) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, scores=np.array([Evil(trap)], dtype=object))
    return buffer.getvalue()


def evil_skops(trap: Path) -> bytes:
    """An archive whose schema asks for ``os.mkdir``."""
    schema = {
        "__class__": "mkdir",
        "__module__": "os",
        "__loader__": "FunctionNode",
        "content": {"module_path": "os", "function": "mkdir"},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        import json

        archive.writestr("schema.json", json.dumps(schema | {"protocol": 2, "_skops_version": "0.11"}))
    return buffer.getvalue()


def save(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv"])
@pytest.mark.parametrize("make", [evil_pickle, evil_array, evil_archive])
def test_scores_that_hold_a_pickle_are_refused_and_nothing_runs(
    make: Any, suffix: str, trap: Path, tmp_path: Path
) -> None:
    path = save(tmp_path / f"file{suffix}", make(trap))
    with pytest.raises(hf.errors.InvalidValueError):
        hf.from_array(path)
    with pytest.raises(hf.errors.InvalidValueError):
        read_numbers(str(path))
    assert not trap.exists()


@pytest.mark.parametrize("spec", ["onnx:{}", "skops:{}", "hf:{}"])
@pytest.mark.parametrize("name", ["model.pkl", "model.skops", "model.onnx", "pytorch_model.bin"])
def test_models_that_hold_a_pickle_are_refused_and_nothing_runs(
    spec: str, name: str, trap: Path, tmp_path: Path
) -> None:
    path = save(tmp_path / name, evil_pickle(trap))
    with pytest.raises(hf.HoldfastError):
        models.load(spec.format(path), kind=None)
    assert not trap.exists()


def test_a_skops_file_that_asks_for_a_function_is_refused_and_nothing_runs(trap: Path, tmp_path: Path) -> None:
    pytest.importorskip("skops")
    path = save(tmp_path / "model.skops", evil_skops(trap))
    with pytest.raises(hf.errors.InvalidValueError, match=r"not trusted|cannot be read"):
        models.load(f"skops:{path}")
    assert not trap.exists()


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.safetensors"])
def test_a_folder_with_pickled_weights_or_code_is_refused_and_nothing_runs(
    weights: str, trap: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in hub_folder().items():
        if name != "model.safetensors":
            (folder / name).write_bytes(content)
    save(folder / weights, evil_pickle(trap))
    with pytest.raises(hf.HoldfastError):
        models.load(f"hf:{folder}")
    assert not trap.exists()


def test_a_folder_that_brings_its_own_code_is_refused_and_nothing_runs(trap: Path, tmp_path: Path) -> None:
    import json

    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in hub_folder().items():
        (folder / name).write_bytes(content)
    config = json.loads(hub_folder()["config.json"])
    config |= {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "evil.Mine", "AutoModelForImageClassification": "evil.Mine"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(trap)!r})\n")
    with pytest.raises(hf.HoldfastError):
        models.load(f"hf:{folder}")
    assert not trap.exists()


@pytest.mark.parametrize("spec", ["table:{}", "images:{}", "tweeteval:{}", "hf:{}"])
def test_data_that_are_a_pickle_are_refused_and_nothing_runs(spec: str, trap: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "data.parquet", evil_pickle(trap))
    with pytest.raises((hf.HoldfastError, OSError)):
        data.load(spec.format(path))
    assert not trap.exists()


def test_studies_and_results_that_are_a_pickle_are_refused_and_nothing_runs(trap: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "file", evil_pickle(trap))
    for read in (study.read_spec, study.Store, study.study_status, study.summarize_study):
        with pytest.raises((hf.HoldfastError, OSError)):
            read(path)
    with pytest.raises(hf.errors.InvalidValueError):
        hf.Certificate.from_json(path.read_bytes().decode("latin-1"))
    assert not trap.exists()


# -- the network ------------------------------------------------------------------------------------

QUIETLY = """
import socket, sys
def refuse(*given, **named):
    raise AssertionError("a connection was asked for")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import numpy as np
import holdfast as hf
from holdfast.cli import main
from holdfast import boolean, data, models, study
model = hf.mask_function(lambda masks: np.c_[masks.sum(axis=1), 9 - masks.sum(axis=1)].astype(float), n_features=9)
selected = hf.top(hf.attribute(model, "lime", rng=0), 3)
hf.certify(model, selected, radius=2, rng=0), hf.certify_mus(model, selected, keep_probability=0.25, rng=0)
hf.compare(model, {"a": selected, "b": ~selected}, [1], rng=0)
assert main(["certify", "--model", "bundled:cancer-forest", "--input", "bundled:cancer#0", "--method", "occlusion",
             "--top", "3", "--radius", "2", "--set", "rng=0"]) == 0
print("quiet")
"""


def test_nothing_is_sent_anywhere_while_holdfast_is_imported_and_used(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUIETLY], capture_output=True, text=True, check=False, cwd=tmp_path, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "quiet"


def test_only_the_hub_the_page_endpoints_and_clusters_speak_to_a_network() -> None:
    callers = {
        name
        for name, tree in sources().items()
        if {"urllib", "requests", "httpx", "http", "socket"} & set(imports(tree))
    }
    ours = (
        "src/holdfast/explore/",
        "src/holdfast/masking/context/endpoint.py",
        "src/holdfast/study/on_ray.py",
    )  # a page on this machine; a language model and a cluster that are asked for
    assert not {name for name in callers if not name.startswith(ours)}  # models of a hub come by its own client


# -- SQL is written down, never put together from values ---------------------------------------------

RUNS_SQL = {"execute": 0, "executemany": 0, "executescript": 0, "query": 0, "_execute": 0, "_write": 0}
"""What runs SQL, and at which place it is given the statement."""


def is_constant(node: ast.expr | None) -> bool:
    """A text that is written down, or put together from names of constants and whole numbers alone."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Name):
        return node.id.strip("_").isupper()
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_").isupper()
    return isinstance(node, ast.JoinedStr) and all(_is_safe_part(part) for part in node.values)


def _is_safe_part(part: ast.expr) -> bool:
    if not isinstance(part, ast.FormattedValue):
        return True
    text = ast.unparse(part.value)
    return is_constant(part.value) or text.startswith("len(") or text == "marks"


def statements(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What is run as SQL, with the function that runs it."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for _, name, call in calls(function):
                if len(call.args) > RUNS_SQL.get(name, len(call.args)):
                    yield call.args[RUNS_SQL[name]], function


def assigned(name: str, function: ast.AST) -> list[ast.expr]:
    """What a local name stands for in a function."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    return [node.value for node in nodes if any(isinstance(one, ast.Name) and one.id == name for one in node.targets)]


PASSED_ON = {f"src/holdfast/study/{name}.py" for name in ("store", "schema")}
"""Where a function runs the ``statement`` that it was given: those who give it are looked at as well.

In ``schema`` it is made of the names of our own tables and of their columns, which are compared with ours before.
"""


def test_sql_is_never_put_together_from_values() -> None:
    looked_at, odd = 0, []
    for name, tree in sources().items():
        for statement, function in statements(tree):
            looked_at += 1
            local = assigned(statement.id, function) if isinstance(statement, ast.Name) else []
            fine = is_constant(statement) or (local and all(map(is_constant, local)))
            passed_on = name in PASSED_ON and isinstance(statement, ast.Name) and statement.id == "statement"
            if not fine and not passed_on:
                odd.append(f"{name}: {ast.unparse(statement)}")
    assert looked_at > 40
    assert odd == []


@pytest.mark.parametrize(
    "code", ["run(f'SELECT {value}')", "run('SELECT %s' % value)", "run('S {}'.format(value))", "run('S' + value)"]
)
def test_the_search_for_such_sql_finds_it(code: str) -> None:
    tree = ast.parse(f"def f(value):\n    store.{code.replace('run', 'execute')}")
    ((statement, _),) = statements(tree)
    assert not is_constant(statement)

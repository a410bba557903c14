"""One thread per process, a cache folder that belongs to this session alone, and repeatable examples."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# Read when numpy, scipy or torch start their thread pools, hence before any test module is imported.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
# Some virtual machines announce AMX and forbid it: half precision would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# The same examples on every run: a red test is a change of the code, never of the weather.
settings.register_profile("holdfast", derandomize=True, deadline=None, database=None)
settings.load_profile("holdfast")


def pytest_configure(config: pytest.Config) -> None:
    """Searched designs go to a temporary folder: no user's cache is read or written, doctests included."""
    if hasattr(config, "workerinput"):
        return  # the processes of a session share its folder: none searches what another has found
    folder = tempfile.TemporaryDirectory(prefix="holdfast-cache-")
    os.environ["HOLDFAST_CACHE"] = folder.name
    config.add_cleanup(folder.cleanup)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples that make a ``Ray`` say what they lack, where there is none."""
    if find_spec("ray") is None:
        for item in items:
            if item.nodeid.endswith((".Ray", "clusters.md]")):
                item.add_marker(pytest.mark.skip(reason="needs Ray: pip install 'holdfast[ray]'"))


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: the garbage collector need not walk over them again and again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _counted_one_by_one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where lines are counted, questions share no batches: what runs in a greenlet is counted for another file."""
    if request.config.pluginmanager.hasplugin("_cov"):
        monkeypatch.setattr("holdfast.gathering.find_spec", lambda _name: None)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT reaches this process and those it starts, even where a shell told a background job to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# -- studies that are run once in a process, and only read: a test that changes one copies the file -----------------


@pytest.fixture(scope="session")
def mixed_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of very different lengths."""
    from tests.helpers.mixed_texts import write_mixed_texts

    return write_mixed_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="session")
def mixed(mixed_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a study of them."""
    from holdfast.study import run_study
    from tests.helpers.mixed_texts import mixed_spec

    path = tmp_path_factory.mktemp("mixed") / "study.db"
    run_study(mixed_spec(mixed_texts), path)
    return path


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Results of studies of texts, images and rows of a table."""
    from tests.helpers.report_support import run_all

    return run_all(tmp_path_factory.mktemp("studies"))

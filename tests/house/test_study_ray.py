"""Studies on a real Ray: the same items as on any engine, whatever happens to actors, nodes, drivers and clusters."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import __version__
from holdfast.cli import main
from holdfast.errors import InvalidTypeError, InvalidValueError, MissingExtraError, MissingGradientsError, StudyError
from holdfast.study import Ray, Store, on_ray, run_study, study_status, write_spec
from holdfast.study.local import WorkerDied
from holdfast.study.on_ray import Actor, _RayWorker
from holdfast.study.records import tasks_of
from holdfast.study.session import make_engine
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, ModelSpec, SmoothingSpec
from holdfast.study.worker import load_worker
from tests.helpers.contracts import check_engine
from tests.helpers.own_methods import own_spec
from tests.helpers.ray_cluster import RayCluster
from tests.helpers.study_support import MortalIn, Slowly, digests, make_spec, undisturbed, write_texts
from tests.helpers.waiting import wait_until

N_INPUTS, PER_INPUT = 6, 8

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'holdfast[ray]'")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS)


@pytest.fixture(scope="module")
def truth(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return undisturbed(texts, tmp_path_factory.mktemp("truth") / "study.db")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of one node with two CPUs."""
    if find_spec("ray") is None:
        pytest.skip("needs Ray: pip install 'holdfast[ray]'")
    with RayCluster(2) as cluster:
        yield cluster.address


def after(n_items: int, act: Callable[[], None]) -> Callable[[Any], None]:
    """A watcher that does something once, when so many items are stored."""

    def watch(moment: Any) -> None:
        if moment.n_new == n_items:
            act()

    return watch


# -- the same items ---------------------------------------------------------------------------------


def test_ray_keeps_the_contract_of_engines(tmp_path: Path, address: str) -> None:
    """One input at a time: where all are open at once, a stop may come when all are done."""
    check_engine(Ray(2, address, n_open=1), make_spec(write_texts(tmp_path, 12)), 12)


@pytest.mark.parametrize(
    ("engine", "workers"),
    [("local", 1), ("local", 2), ("ray", 1), ("ray", 7)],
    ids=["1 process", "2 processes", "1 actor", "more actors than places"],
)
def test_every_engine_and_number_of_workers_gives_the_same_store(
    texts: Path, truth: dict[str, str], address: str, tmp_path: Path, engine: str, workers: int
) -> None:
    path = tmp_path / "a.db"
    chosen = Ray(address=address) if engine == "ray" else engine
    run = run_study(make_spec(texts, factory="slow_moods"), path, engine=chosen, workers=workers)
    assert (run.status.complete, run.n_new) == (True, N_INPUTS * PER_INPUT)
    assert digests(path) == truth


def test_methods_of_ones_own_run_on_ray_as_they_do_here(texts: Path, address: str, tmp_path: Path) -> None:
    for name, engine in (("here", "local"), ("ray", Ray(2, address))):
        run = run_study(own_spec(texts), tmp_path / f"{name}.db", engine=engine)
        assert (run.status.complete, run.status.failures) == (True, {})
    assert digests(tmp_path / "here.db") == digests(tmp_path / "ray.db")


@pytest.mark.slow
def test_mean_curves_follow_explanations_that_were_made_on_ray(texts: Path, address: str, tmp_path: Path) -> None:
    certify = CertifySpec(radii=(1, 3), precision="data-set", half_width=0.2)
    data = DataSpec(f"tweeteval:{texts}", n=3)
    spec = make_spec(texts, certify=certify, data=data, smoothing=SmoothingSpec((1.0,)))
    found = []
    for name, engine in (("here", "local"), ("ray", Ray(2, address))):
        assert run_study(spec, tmp_path / f"{name}.db", engine=engine).status.complete
        with Store(tmp_path / f"{name}.db") as store:
            found.append(store.mean_curves())
    assert len(found[0]) == 4
    assert found[0] == found[1]


# -- what is lost and replaced ----------------------------------------------------------------------


def test_actors_that_are_killed_again_and_again_are_replaced_and_nothing_is_lost_or_printed(
    texts: Path, truth: dict[str, str], address: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    knew_ray = "ray" in sys.modules
    for name in ("0-a", "0-b", "2-a", "5-a"):
        (tmp_path / name).touch()
    engine = Ray(2, address, load=MortalIn(str(tmp_path)))
    run = run_study(make_spec(texts, factory="slow_moods"), tmp_path / "a.db", engine=engine)
    assert not list(tmp_path.glob("?-?")), "nobody was killed"
    assert (run.status.complete, run.status.failures) == (True, {})
    assert digests(tmp_path / "a.db") == truth
    assert ("ray" in sys.modules) == knew_ray
    assert capfd.readouterr() == ("", "")


def test_an_input_that_always_kills_its_actor_is_given_up_and_the_rest_is_finished(
    texts: Path, truth: dict[str, str], address: str, tmp_path: Path
) -> None:
    path, spec = tmp_path / "a.db", make_spec(texts, factory="slow_moods")
    for name in "abcdefgh":
        (tmp_path / f"2-{name}").touch()
    status = run_study(spec, path, engine=Ray(2, address, load=MortalIn(str(tmp_path)), max_tries=2)).status
    assert len(list(tmp_path.glob("2-*"))) == 6, "not two tries"
    assert list(status.failures) == [2]
    assert "was killed or crashed" in status.failures[2]
    assert {key.split("/")[0] for key in digests(path)} >= {"0", "1", "3", "4", "5"}
    assert status.n_done + status.n_given_up == len(truth)
    assert "given up: input 2" in str(status)
    assert run_study(spec, path).status.complete
    assert digests(path) == truth


@needs_ray
@pytest.mark.slow
def test_a_node_that_is_lost_is_made_up_for_by_one_that_is_added(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    with RayCluster(0) as cluster:
        cluster.add_node(1)

        def replace_node() -> None:
            cluster.kill_node()
            cluster.add_node(2)

        # One death at a task would be one too many; the loss of a node is none.
        engine = Ray(2, cluster.address, max_tries=1, load=Slowly(0.05))
        spec = make_spec(texts, factory="slow_moods")
        run = run_study(spec, tmp_path / "a.db", engine=engine, progress=after(3, replace_node))
    assert (run.status.complete, run.status.failures) == (True, {})
    assert digests(tmp_path / "a.db") == truth


@needs_ray
def test_a_cluster_that_goes_away_leaves_a_file_that_any_engine_resumes(
    texts: Path, truth: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "3")
    path, spec = tmp_path / "a.db", make_spec(texts, factory="slow_moods")
    with RayCluster(2) as cluster:
        engine = Ray(2, cluster.address, load=Slowly(0.1))
        with pytest.raises(StudyError, match=r"was lost.*Run the same study with the same file"):
            run_study(spec, path, engine=engine, progress=after(3, cluster.stop))
    assert 3 <= study_status(path).n_done < len(truth)
    assert run_study(spec, path).status.complete
    assert digests(path) == truth


# -- the driver -------------------------------------------------------------------------------------


class Driver:
    """A run in a process, and a process group, of its own."""

    def __init__(self, texts: Path, path: Path, *address: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.ray_runner", str(texts), str(path), *address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Nobody is there: a cluster that the run starts itself is not looked for.
            env=os.environ | {"RAY_ADDRESS": "127.0.0.1:9"},
        )
        self.told: list[str] = []

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever failed, nothing goes on; its processes end with it."""
        self.process.kill()
        self.process.communicate()

    def hear(self, n_items: int) -> None:
        assert self.process.stderr is not None
        while len(self.told) < n_items and (line := self.process.stderr.readline()):
            self.told.append(json.loads(line)["key"])

    def finish(self) -> str:
        """What it printed at the end."""
        self.hear(10**9)
        printed, _ = self.process.communicate()
        return str(printed)


def members_of(group: int) -> list[int]:
    """Processes of a process group, without those that are dead already."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, member_of, *_ = place.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(member_of) == group and state != "Z":
            found.append(int(place.parent.name))
    return found


def wait_until_none(group: int) -> None:
    wait_until(lambda: not members_of(group))  # processes must not outlive their driver


def folders_of(driver: Driver) -> list[Path]:
    return list(Path("/tmp").glob(f"holdfast-ray-{driver.process.pid}-*"))


def test_a_driver_that_is_killed_is_resumed_by_another(
    texts: Path, truth: dict[str, str], address: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    with Driver(texts, path, address) as driver:
        driver.hear(3)
        driver.process.send_signal(signal.SIGKILL)
        driver.finish()
    wait_until_none(driver.process.pid)
    assert not folders_of(driver), "files outlive their driver"
    assert len(driver.told) <= study_status(path).n_done < len(truth)
    run = run_study(make_spec(texts, factory="slow_moods"), path, engine=Ray(2, address))
    assert run.status.complete
    assert digests(path) == truth


@needs_ray
@pytest.mark.slow
def test_a_driver_that_is_killed_takes_its_own_cluster_with_it(texts: Path, tmp_path: Path) -> None:
    with Driver(texts, tmp_path / "a.db") as driver:
        driver.hear(1)
        assert len(members_of(driver.process.pid)) > 4, "where is the cluster?"
    wait_until_none(driver.process.pid)  # Ray by itself leaves agents behind for minutes
    assert not folders_of(driver), "files outlive their driver"


@needs_ray
@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_ray_has_started_is_a_stop_and_not_an_error(texts: Path, tmp_path: Path) -> None:
    with Driver(texts, tmp_path / "a.db") as driver:
        while not any((folder / "log").exists() for folder in folders_of(driver)):
            assert driver.process.poll() is None
            time.sleep(0.01)
        os.killpg(driver.process.pid, signal.SIGINT)
        printed = driver.finish()
    assert (driver.process.returncode, driver.told) == (1, [])
    assert "Run the same study with the same file to continue" in printed
    wait_until_none(driver.process.pid)
    assert not folders_of(driver), "files outlive their driver"


@needs_ray
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_finishes_what_has_begun_and_leaves_nothing_behind(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    """On a cluster that the run itself starts: the terminal tells every process of it."""
    path = tmp_path / "a.db"
    with Driver(texts, path) as driver:
        driver.hear(2)
        assert len(members_of(driver.process.pid)) > 4, "where is the cluster?"
        os.killpg(driver.process.pid, signal.SIGINT)
        printed = driver.finish()
    assert driver.process.returncode == 1
    assert "Run the same study with the same file to continue" in printed
    assert 2 <= len(driver.told) < len(truth)
    assert study_status(path).n_done == len(driver.told)
    wait_until_none(driver.process.pid)
    assert not folders_of(driver), "files outlive their driver"
    assert run_study(make_spec(texts, factory="slow_moods"), path).status.complete
    assert digests(path) == truth


# -- what cannot be ---------------------------------------------------------------------------------


def test_errors_of_the_model_name_the_input_and_those_of_loading_say_what_is_missing(
    texts: Path, address: str, tmp_path: Path
) -> None:
    without_gradients = make_spec(texts, methods=(MethodSpec("integrated_gradients"),))
    with pytest.raises(StudyError, match="Input 0: MissingGradientsError: `method='integrated_gradients'`") as caught:
        run_study(without_gradients, tmp_path / "a.db", engine=Ray(1, address))
    assert "Traceback" in caught.value.__notes__[0]
    assert isinstance(caught.value.cause, MissingGradientsError)
    without_factory = make_spec(texts, model=ModelSpec("python:tests.helpers.study_support:nothing"))
    with pytest.raises(InvalidValueError, match="must have a factory 'nothing'") as refused:
        run_study(without_factory, tmp_path / "a.db", engine=Ray(1, address))
    assert "Traceback" in refused.value.__notes__[0]


def test_workers_that_no_node_has_room_for_are_refused_with_what_there_is(
    texts: Path, address: str, tmp_path: Path
) -> None:
    spec, path = make_spec(texts), tmp_path / "a.db"
    with pytest.raises(StudyError, match="No node has room for a worker, which needs 1 CPUs and 1 GPUs"):
        run_study(spec, path, engine=Ray(address=address, gpus_per_worker=1))
    with pytest.raises(StudyError, match=r"No worker started within 0\.5 s: .* 8 CPUs .* nodes have 2 CPUs and 0 GPUs"):
        run_study(spec, path, engine=Ray(1, address, cpus_per_worker=8, patience=0.5))


@needs_ray
def test_a_cluster_that_is_not_there_is_said_so(texts: Path, tmp_path: Path) -> None:
    message = r"This machine is not a node of a Ray cluster at '127\.0\.0\.1:9': .* `ray start --head`"
    with pytest.raises(StudyError, match=message):
        run_study(make_spec(texts), tmp_path / "a.db", engine=Ray(address="127.0.0.1:9"))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_workers": -1}, InvalidValueError, "`n_workers` must be a whole number ≥ 0, got -1"),
        ({"address": "ray://head:10001"}, InvalidValueError, "`address` must be 'auto', or host and port"),
        ({"address": 6379}, InvalidTypeError, "`address` must be 'auto', or host and port"),
        ({"cpus_per_worker": 0}, InvalidValueError, "`cpus_per_worker` must be a number > 0, got 0"),
        ({"gpus_per_worker": -1}, InvalidValueError, "`gpus_per_worker` must be a number ≥ 0, got -1"),
        ({"gpus_per_worker": 1.5}, InvalidValueError, r"`gpus_per_worker` must be a whole number if above 1, got 1\.5"),
        ({"cpus_per_worker": "2"}, InvalidTypeError, "`cpus_per_worker` must be a number > 0, got '2'"),
        ({"patience": float("nan")}, InvalidValueError, "`patience` must be a number ≥ 0, got nan"),
        ({"max_tries": 0}, InvalidValueError, "`max_tries` must be a whole number ≥ 1, got 0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Ray(**settings)


@needs_ray
def test_workers_are_told_to_the_engine_unless_it_has_its_own_number() -> None:
    assert make_engine("ray", 8) == Ray(8)
    assert make_engine(Ray(address="auto"), 8) == Ray(8, "auto")
    assert make_engine(Ray(3), 0) == Ray(3)


@needs_ray
def test_a_process_that_cannot_be_started_leaves_no_folder(texts: Path) -> None:
    spec = make_spec(texts)
    (task,) = tasks_of(spec, [0], frozenset())
    with pytest.raises(Exception, match="pickle"):
        list(Ray(1, load=lambda _: load_worker(spec)).run(spec, iter([task]), lambda: False))
    assert not list(Path("/tmp").glob(f"holdfast-ray-{os.getpid()}-*"))


def test_without_ray_the_extra_is_named_and_the_rest_works(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'holdfast\[ray\]'"):
        make_engine("ray", 2)
    study, results = tmp_path / "study.toml", tmp_path / "study.db"
    write_spec(make_spec(texts, data=DataSpec(f"tweeteval:{texts}", n=1)), study)
    assert main(["study", "plan", str(study), "--untimed", "--trust", "code"]) == 0
    assert main(["study", "run", str(study), "--trust", "code", "--quiet"]) == 0
    assert main(["study", "status", str(results)]) == 0
    assert main(["study", "run", str(study), "--trust", "code", "--engine", "ray"]) == 3
    assert "pip install 'holdfast[ray]'" in capsys.readouterr().err


def test_the_command_line_runs_on_a_cluster(
    texts: Path, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    write_spec(make_spec(texts, data=DataSpec(f"tweeteval:{texts}", n=1)), study)
    run = ["study", "run", str(study), "--trust", "code", "--set", "cpus_per_worker=0.5"]
    assert main(run) == 3
    told = "`--set cpus_per_worker` must come with `--engine ray`, got `--engine local`."
    assert told in capsys.readouterr().err
    assert main([*run, "--engine", f"ray:{address}", "--workers", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["n_done"] for line in lines[:-1]] == list(range(1, PER_INPUT + 1))
    assert lines[-1]["status"]["n_done"] == PER_INPUT


@pytest.fixture
def own_signals() -> Iterator[None]:
    """What an actor does to its process is undone."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_signals")
def test_an_actor_sends_what_is_quick_together_and_what_is_slow_at_once(
    texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(texts)
    (task,) = tasks_of(spec, [0], frozenset())
    actor = Actor(os.getcwd(), sys.path)
    assert actor.load(spec, load_worker, 1) == [("ready", load_worker(spec).n_open)]
    monkeypatch.setattr(on_ray, "_SECONDS_TOGETHER", 1e6)
    quick = actor.step(task)
    assert [kind for kind, _ in quick] == ["event"] * PER_INPUT + ["done"]
    monkeypatch.setattr(on_ray, "_SECONDS_TOGETHER", 0.0)
    slow = [actor.step(task), *(actor.step() for _ in range(PER_INPUT))]
    assert [[kind for kind, _ in one] for one in slow] == [["event"]] * PER_INPUT + [["done"]]
    assert [one[0][1].key for one in slow[:-1]] == [event.key for _, event in quick[:-1]]


class OnePlace:
    """A cluster in this process: one node, whose actor says where it is, or dies of an error before it can."""

    def __init__(self, answer: Any) -> None:
        import ray

        self.ray, self.actors, self.engine, self.answer, self.sent = self, self, Ray(), answer, list[Any]()
        self.exceptions, self.nodes, self.place = ray.exceptions, {"n1": {}}, self
        self.load = SimpleNamespace(remote=lambda *given: self.sent.append(given))
        self.spec = "spec"

    def remote(self, *_: object) -> OnePlace:
        return self

    def get(self, _: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(get_node_id=lambda: "n1")


@needs_ray
def test_a_node_with_another_holdfast_is_refused_before_it_gets_the_spec() -> None:
    cluster: Any = OnePlace(("n1", "far", "0.0.0"))
    with pytest.raises(StudyError, match=f"^Every node must have holdfast {__version__}, like this process; far has 0"):
        _RayWorker(cluster).receive()
    assert cluster.sent == []
    cluster.answer = ("n1", "far", __version__)
    assert _RayWorker(cluster).receive() == []
    assert cluster.sent == [("spec", load_worker, 1, None)]


@needs_ray
@pytest.mark.parametrize("message", ["", " \n", "Trace\nno room\n"])
def test_an_actor_that_dies_without_a_word_is_lost_by_name(message: str) -> None:
    from ray.exceptions import ActorDiedError

    error = ActorDiedError()
    error.error_msg = message
    cluster: Any = OnePlace(error)
    with pytest.raises(WorkerDied, match="^no room$" if message.strip() else "^ActorDiedError$"):
        _RayWorker(cluster).receive()


@needs_ray
def test_a_head_that_never_answers_is_not_waited_for(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "_SECONDS_TO_CONNECT", 0.2)
    monkeypatch.setattr(on_ray, "_SECONDS_TO_LEAVE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(StudyError, match=r"was not made within 0\.2 s\. Stored items are kept"):
            run_study(make_spec(texts), tmp_path / "a.db", engine=Ray(address=address))

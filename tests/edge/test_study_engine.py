"""Runs of a study: the same items however they are run, errors named, stops that can be resumed."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.errors import InvalidTypeError, InvalidValueError, MissingGradientsError, ModelError, StudyError
from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.models.classifier import Classifier
from holdfast.study.local import Engine, Event, InProcess, Processes, error_message
from holdfast.study.records import ItemResult, Record, Task, tasks_of
from holdfast.study.session import LiveBar, Moment, make_engine, run_study, write_json_line
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, ModelSpec, StudySpec
from holdfast.study.status import study_status
from holdfast.study.store import Store
from holdfast.study.worker import Skipped, Worker, at_input, item_rng, load_worker
from tests.helpers.contracts import check_engine
from tests.helpers.study_support import digests, make_spec, stored_scores, write_texts
from tests.helpers.waiting import PATIENCE

N_INPUTS = 4


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_INPUTS)


@pytest.fixture(scope="module")
def truth(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("truth") / "study.db"
    assert run_study(make_spec(texts), path).status.complete
    with Store(path) as store:
        return store.digests()


def test_the_engine_of_one_process_keeps_the_contract(texts: Path) -> None:
    check_engine(InProcess(), make_spec(texts), N_INPUTS)


class Broken:
    """An engine that does something to the events of a sound one."""

    def __init__(self, change: Callable[[list[Event]], list[Event]]) -> None:
        self._change = change

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        yield from self._change(list(InProcess().run(spec, tasks, stop)))


@pytest.mark.parametrize(
    "change",
    [
        lambda events: events[1:],
        lambda events: [*events, events[0]],
        lambda events: [*events[1:], Skipped(0, "lazy")],
        lambda events: [events[0]._replace(digest="other"), *events[1:]],
        list,
    ],
    ids=["loses", "doubles", "skips", "changes", "does not stop"],
)
def test_the_contract_finds_broken_engines(change: Any, texts: Path) -> None:
    with pytest.raises(AssertionError):
        check_engine(Broken(change), make_spec(texts), 2)


def test_items_agree_with_direct_calls_of_the_library(texts: Path) -> None:
    spec = make_spec(texts, witness=True, seed=3)
    worker = load_worker(spec)
    (task,) = tasks_of(spec, [1], frozenset())
    found = {one.key: one for one in worker.run(task) if isinstance(one, ItemResult)}
    text = (texts / "test_text.txt").read_text().splitlines()[1]
    model = hf.models.load(spec.model.spec, **spec.model.options).bind(text)
    for method in spec.methods:
        key = item_rng(spec, "attribute", 1, method.name)
        scores = hf.attribute(model, method.name, n_samples=method.n_samples, rng=key)
        for fraction, keep in [(f, k) for f in (0.25, 0.5) for k in (1.0, 0.75)]:
            one = found[f"1/{method.name}/{fraction!r}/{keep!r}"]
            assert one.attribution == scores
            selected = hf.top_fraction(scores, fraction)
            smoothed = hf.smooth(model, keep, 8, rng=item_rng(spec, "smooth", 1))
            rng = item_rng(spec, "certify", 1, method.name, repr(fraction), repr(keep))
            curve = hf.certify_radii(smoothed, selected, radii=(1, 3), rng=rng)
            assert one.curve == curve
            rng = item_rng(spec, "witness", 1, method.name, repr(fraction), repr(keep))
            witness = hf.find_witness(smoothed, selected, rng=rng)
            assert one.witness is not None
            assert replace(one.witness, n_calls=0) == replace(witness, n_calls=0)
            hard = hf.certify_mus(model, selected, keep_probability=0.25, n_levels=8, rng=item_rng(spec, "mus", 1))
            assert replace(one.mus[0], n_calls=0) == replace(hard, n_calls=0)


def test_what_an_item_says_of_its_calls_does_not_depend_on_the_items_before_it(texts: Path) -> None:
    spec = make_spec(texts)
    (task,) = tasks_of(spec, [0], frozenset())
    together = [one for one in load_worker(spec).run(task) if isinstance(one, ItemResult)]
    alone = [next(iter(load_worker(spec).run(Task(0, (item,))))) for item in task.items]
    assert [one.digest for one in together] == [one.digest for one in alone if isinstance(one, ItemResult)]
    n_shared = sum(one.n_computed for one in together)
    assert n_shared < sum(one.n_computed for one in alone if isinstance(one, ItemResult))


def test_draws_do_not_depend_on_other_items_of_the_study(texts: Path, truth: dict[str, str], tmp_path: Path) -> None:
    smaller = make_spec(texts, methods=(MethodSpec("occlusion"),), top_fractions=(0.5,))
    run_study(smaller, tmp_path / "a.db")
    part = digests(tmp_path / "a.db")
    assert 0 < len(part) < len(truth)
    assert part.items() <= truth.items()
    run_study(make_spec(texts), tmp_path / "a.db")
    assert digests(tmp_path / "a.db") == truth


def test_another_seed_gives_other_draws(texts: Path, truth: dict[str, str], tmp_path: Path) -> None:
    run_study(make_spec(texts, seed=12), tmp_path / "a.db")
    other = digests(tmp_path / "a.db")
    assert other.keys() == truth.keys()
    assert all(other[key] != truth[key] for key in truth)


def test_more_inputs_are_added_to_the_same_file(texts: Path, truth: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    few = make_spec(texts, data=DataSpec(f"tweeteval:{texts}", n=2))
    assert run_study(few, path).n_new == len(truth) // 2
    assert run_study(few, path).n_new == 0
    assert run_study(make_spec(texts), path).n_new == len(truth) // 2
    assert digests(path) == truth


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_model_stops_the_study_and_names_the_input(texts: Path, tmp_path: Path, workers: int) -> None:
    spec = make_spec(texts, methods=(MethodSpec("integrated_gradients"),))
    with pytest.raises(StudyError, match="Input 0: MissingGradientsError: `method='integrated_gra") as caught:
        run_study(spec, tmp_path / "a.db", workers=workers)
    assert isinstance(caught.value.cause, MissingGradientsError)
    assert caught.value.cause.argument == "method='integrated_gradients'"
    with Store(tmp_path / "a.db") as store:
        assert store.keys() == frozenset()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_model_that_cannot_be_loaded_is_said_so(texts: Path, tmp_path: Path, workers: int) -> None:
    spec = make_spec(texts, model=ModelSpec("python:tests.helpers.study_support:nothing"))
    with pytest.raises(InvalidValueError, match="must have a factory 'nothing'") as caught:
        run_study(spec, tmp_path / "a.db", workers=workers)
    assert workers == 0 or "Traceback" in caught.value.__notes__[0]


class OwnError(InvalidValueError):
    """An error that only the module of a model knows."""


def test_errors_are_sent_by_what_they_say_if_another_process_may_not_know_their_class() -> None:
    for error in (OwnError("Not today."), KeyError("moods")):
        _, sent = error_message(error)
        assert type(sent) is StudyError
        assert str(sent) == str(error)
        assert at_input(3, error).cause is None
    ours = ModelError("The model returned NaN.")
    assert error_message(ours)[1] is at_input(3, ours).cause is ours
    at_first = at_input(3, ours)
    assert str(at_first) == "Input 3: ModelError: The model returned NaN."
    assert at_input(4, at_first).cause is ours


def test_model_and_data_must_be_of_one_kind(texts: Path, tmp_path: Path) -> None:
    spec = make_spec(texts, model=ModelSpec("python:tests.helpers.study_support:moods", {"kind": "table"}))
    with pytest.raises(InvalidValueError, match="`model` must be a model for texts, got one for tables"):
        run_study(spec, tmp_path / "a.db")


class Pictures:
    """Inputs of which one cannot be read."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> str:
        if index == 1:
            raise InvalidValueError("'b.png' is no image.")
        return ["not a good day at all", "", "fine"][index]


def load_pictures(spec: StudySpec) -> Worker:
    classifier: Classifier = hf.models.load(spec.model.spec, **spec.model.options)
    data = Dataset("fake", "text", Pictures(), np.array([0, 1, -1]), ("bad", "good"))
    return Worker(spec, hf.bind(classifier, data))


def test_inputs_that_cannot_be_read_stop_the_study_unless_they_may_be_skipped(texts: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    first = make_spec(texts, data=DataSpec(f"tweeteval:{texts}", n=3, order="first"))
    with pytest.raises(StudyError, match=r"Input 1: cannot be read: 'b\.png' is no image"):
        run_study(first, path, engine=InProcess(load_pictures))
    with Store(path) as store:
        assert {key.split("/")[0] for key in store.digests()} == {"0"}
    lenient = replace(first, data=DataSpec(f"tweeteval:{texts}", n=3, skip_unreadable=True, order="first"))
    moments: list[Moment] = []
    run = run_study(lenient, path, engine=InProcess(load_pictures), progress=moments.append)
    assert run.status.skips == {1: "unreadable: 'b.png' is no image."}
    assert run.status.complete
    assert (run.status.n_items, run.status.n_done, run.status.n_left_out) == (24, 16, 8)
    assert (moments[-1].n_skipped, moments[-1].n_done, moments[-1].n_items) == (1, 16, 16)
    with Store(path) as store:
        labels = {row["input"]: row["label"] for row in store.rows()}
    assert labels == {0: 0, 2: None}


def test_inputs_with_too_few_features_are_left_out_and_counted(texts: Path, tmp_path: Path) -> None:
    data = DataSpec(f"tweeteval:{texts}", n=3, min_features=4, skip_unreadable=True, order="first")
    run = run_study(make_spec(texts, data=data), tmp_path / "a.db", engine=InProcess(load_pictures))
    assert run.status.skips == {1: "unreadable: 'b.png' is no image.", 2: "1 features, fewer than 4"}
    assert "left out: input 2 (1 features, fewer than 4)" in str(run)


def fickle() -> Any:
    """A factory of a model that never says the same twice."""
    rng = np.random.default_rng(0)
    return lambda texts: rng.random((len(texts), 2))


def test_a_model_that_changes_its_mind_is_found_out(texts: Path, tmp_path: Path) -> None:
    model = ModelSpec(f"python:{__name__}:fickle", {"kind": "text"})
    with pytest.raises(StudyError, match="Input 0: ModelError: The model must be deterministic"):
        run_study(make_spec(texts, model=model), tmp_path / "a.db")


@pytest.mark.usefixtures("ctrl_c")
def test_a_stop_request_finishes_the_item_and_can_be_resumed(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    path, moments = tmp_path / "a.db", []

    def interrupt(moment: Moment) -> None:
        moments.append(moment)
        if len(moments) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    run = run_study(make_spec(texts), path, progress=interrupt)
    assert signal.getsignal(signal.SIGINT) is before
    assert (run.stopped, run.n_new) == (True, 3)
    assert "Run the same study with the same file to continue" in str(run)
    rest = run_study(make_spec(texts), path)
    assert (rest.stopped, rest.n_new) == (False, len(truth) - 3)
    assert digests(path) == truth


def check_interrupted_scores(texts: Path, tmp_path: Path, workers: int) -> None:
    """The model rounds differently in batches of another size, as networks do."""
    methods = (MethodSpec("lime", n_samples=80), MethodSpec("shap", n_samples=50), MethodSpec("occlusion"))
    spec = make_spec(texts, factory="rounding_moods", methods=methods)
    run_study(spec, tmp_path / "whole.db")
    path, n_runs = tmp_path / "cut.db", 0
    while not (path.exists() and study_status(path).complete):
        n_runs += 1
        run_study(spec, path, engine=Hasty(make_engine("local", workers), n_items=13))
    assert n_runs > 2
    assert stored_scores(path) == stored_scores(tmp_path / "whole.db")
    assert digests(path) == digests(tmp_path / "whole.db")


def test_scores_are_the_same_bit_for_bit_after_interruptions(texts: Path, tmp_path: Path) -> None:
    check_interrupted_scores(texts, tmp_path, workers=0)


def test_the_batch_size_is_part_of_the_study_and_stays_as_it_is(texts: Path, tmp_path: Path) -> None:
    spec, path = make_spec(texts, factory="rounding_moods", batch_size=7), tmp_path / "a.db"
    run_study(spec, path, inputs=[0])
    run_study(replace(spec, batch_size=8), tmp_path / "b.db", inputs=[0])
    with Store(path) as store:
        assert store.spec.batch_size == 7
    assert stored_scores(path) != stored_scores(tmp_path / "b.db"), "the test needs a model that rounds"
    with pytest.raises(StudyError, match=r"`batch_size` is 7 in the stored study and 8 in this one"):
        run_study(replace(spec, batch_size=8), path)


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_interrupt_stops_at_once_and_keeps_what_is_stored(
    texts: Path, truth: dict[str, str], tmp_path: Path
) -> None:
    def interrupt_twice(moment: Moment) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.05)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_study(make_spec(texts), tmp_path / "a.db", progress=interrupt_twice)
    assert len(digests(tmp_path / "a.db")) == 1
    run_study(make_spec(texts), tmp_path / "a.db")
    assert digests(tmp_path / "a.db") == truth


@pytest.mark.usefixtures("ctrl_c")
def test_interrupts_within_a_second_are_one(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.study.session._SECONDS_TOGETHER", PATIENCE)  # a second, on a machine that is busy

    def interrupt_often(moment: Moment) -> None:
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGINT)

    run = run_study(make_spec(texts), tmp_path / "a.db", progress=interrupt_often)
    assert (run.stopped, run.n_new) == (True, 1)


def test_empty_texts_stop_the_study_unless_they_may_be_left_out(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", 2)
    (texts / "test_text.txt").write_text("not a good day at all\n \n")
    with pytest.raises(StudyError, match=r"Input 1: is an empty text\. Set `data\.skip_unreadable`"):
        run_study(make_spec(texts), tmp_path / "a.db")
    for lenient in ({"skip_unreadable": True}, {"min_features": 2}):
        data = DataSpec(f"tweeteval:{texts}", **lenient)
        status = run_study(make_spec(texts, data=data), tmp_path / f"{next(iter(lenient))}.db").status
        assert (status.skips, status.complete, status.n_left_out) == ({1: "an empty text"}, True, 8)


def test_a_study_runs_in_a_thread_where_no_signals_arrive(texts: Path, tmp_path: Path) -> None:
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(run_study(make_spec(texts), tmp_path / "a.db")))
    thread.start()
    thread.join()
    assert done[0].status.complete


def test_progress_tells_counts_and_means_as_they_are(texts: Path, tmp_path: Path) -> None:
    # Random explanations of these texts are neither all stable nor all unstable.
    spec = make_spec(texts, methods=(MethodSpec("occlusion"), MethodSpec("random")))
    out, bar = io.StringIO(), io.StringIO()
    draw = LiveBar(bar)

    def both(moment: Moment) -> None:
        write_json_line(moment, out)
        draw(moment)

    run = run_study(spec, tmp_path / "a.db", progress=both)
    keys = digests(tmp_path / "a.db").keys()
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["n_done"] for one in told] == list(range(1, len(keys) + 1))
    assert {one["key"] for one in told} == keys
    for method in run.status.methods:
        assert told[-1]["means"][method.name] == pytest.approx(method.mean_rate)
    with Store(tmp_path / "a.db") as store:
        rows = [row for row in store.rows() if row["method"] == "random" and row["radius"] == 3]
        rates = [row["rate_unbiased"] for row in rows]
    assert told[-1]["means"]["random"] == pytest.approx(np.mean(rates))
    assert 0 < told[-1]["means"]["random"] < 1
    assert f"{len(keys)}/{len(keys)} items" in bar.getvalue()


def test_a_bar_appears_by_itself_on_a_terminal_counts_items_alone_and_is_removed(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("holdfast.study.session.SECONDS_BEFORE_BAR", 1e-9)
    monkeypatch.setenv("TERM", "xterm")
    seen, silent, pipe = Terminal(), Terminal(), io.StringIO()
    for out, progress in ((seen, None), (silent, False), (pipe, None)):
        with redirect_stderr(out):
            run_study(make_spec(texts), tmp_path / f"{id(out)}.db", progress=progress)
    lines = [line for line in seen.getvalue().split("\r\x1b[K") if line]
    assert lines
    assert all(" items" in line for line in lines), "no bar of a single item"
    assert seen.getvalue().endswith("\r\x1b[K")
    assert silent.getvalue() == pipe.getvalue() == ""
    bar = LiveBar(pipe, after=2.0, clock=iter([0.0, 1.9, 2.0]).__next__)
    moment = Moment(1, 2, 1, 0, 0, 1.9, {})
    bar(moment)
    assert pipe.getvalue() == ""
    bar(moment)
    assert "1/2 items" in pipe.getvalue()


def test_status_is_read_while_a_run_writes(texts: Path, truth: dict[str, str], tmp_path: Path) -> None:
    path, seen = tmp_path / "a.db", []
    run_study(make_spec(texts), path, progress=lambda moment: seen.append(study_status(path).n_done))
    assert seen == list(range(1, len(truth) + 1))


def test_items_that_come_later_are_cut_from_the_scores_that_are_stored(texts: Path) -> None:
    spec = make_spec(texts)
    (task,) = tasks_of(spec, [0], frozenset())
    first = next(iter(InProcess().run(spec, iter([task]), never)))
    assert isinstance(first, Record)
    left = task.after(first)
    assert left.attributions == (("lime", first.attribution),)
    second = next(iter(InProcess().run(spec, iter([left]), never)))
    assert isinstance(second, Record)
    assert second.attribution == first.attribution
    assert second.attribution_seconds == 0.0, "the scores were computed again"


def test_versions_settings_and_fingerprints_are_kept(texts: Path, tmp_path: Path) -> None:
    run_study(make_spec(texts), tmp_path / "a.db")
    with Store(tmp_path / "a.db") as store:
        versions, settings, ended = next(store.query("SELECT versions, settings, ended FROM sessions"))
        fingerprints = {row[0] for row in store.query("SELECT input_fingerprint FROM inputs")}
        assert store.attribution(0, "lime") is not None
    assert json.loads(versions)["numpy"] == np.__version__
    assert json.loads(settings) == {"engine": "InProcess()", "workers": 0}
    assert ended is not None
    assert len(fingerprints) == N_INPUTS


def test_wrong_arguments_are_refused_before_a_file_is_made(texts: Path, tmp_path: Path) -> None:
    path, spec = tmp_path / "a.db", make_spec(texts)
    for error, message, call in [
        (InvalidTypeError, "`spec` must be a StudySpec, got str", lambda: run_study("spec", path)),  # type: ignore[arg-type]
        (InvalidValueError, "`engine` must be one of local", lambda: run_study(spec, path, engine="locale")),
        (InvalidValueError, "`workers` must be a whole number ≥ 0", lambda: run_study(spec, path, workers=-1)),
        (InvalidTypeError, "`progress` must be", lambda: run_study(spec, path, progress=3)),
        (
            InvalidValueError,
            "`data.n` must be at most",
            lambda: run_study(make_spec(texts, data=DataSpec(f"tweeteval:{texts}", n=9)), path),
        ),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert not path.exists()
    assert isinstance(make_engine(Processes(2), 0), Processes)


def test_a_bundled_network_gives_the_same_items_after_an_interruption(tmp_path: Path) -> None:
    spec = StudySpec(
        ModelSpec("bundled:digits-resnet"),
        DataSpec("bundled:digits", n=1),
        (MethodSpec("occlusion"), MethodSpec("integrated_gradients", n_samples=27)),
        top_fractions=(0.25, 0.5),
        certify=CertifySpec(radii=(1, 5)),
    )
    wholes, pieces = tmp_path / "whole.db", tmp_path / "pieces.db"
    worker = load_worker(spec)
    run_study(spec, wholes, engine=InProcess(lambda _: worker))
    for _ in range(4):
        stopped = run_study(spec, pieces, engine=Hasty(InProcess(lambda _: worker)))
        assert stopped.n_new == 1
    with Store(wholes) as whole, Store(pieces) as parts:
        pairs = list(zip(whole.results(), parts.results(), strict=True))
        fingerprints = {row[0] for row in parts.query("SELECT model_fingerprint FROM inputs")}
    assert len(pairs) == 4
    assert None not in fingerprints
    for one, other in pairs:
        assert one.curve == other.curve
        assert (one.n_calls, one.label, one.prediction) == (other.n_calls, other.label, other.prediction)
    assert stored_scores(wholes) == stored_scores(pieces)


class Hasty:
    """An engine that stops after some items."""

    def __init__(self, engine: Engine, *, n_items: int = 1) -> None:
        self._engine, self._n_left = engine, n_items

    def run(self, spec: StudySpec, tasks: Iterator[Task], stop: Callable[[], bool], /) -> Iterator[Event]:
        for event in self._engine.run(spec, tasks, lambda: self._n_left <= 0):
            self._n_left -= 1
            yield event

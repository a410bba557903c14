"""Methods of one's own in studies: what they give is what is certified, and what goes wrong in them is theirs alone."""

from __future__ import annotations

import functools
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import holdfast as hf
from holdfast.attribution.methods import Attribution
from holdfast.cli import main
from holdfast.errors import InvalidTypeError, InvalidValueError, StudyError, StudyMismatchError
from holdfast.fingerprints import digest_code
from holdfast.study.records import Item
from holdfast.study.session import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MethodSpec, MusSpec, SmoothingSpec, StudySpec, parse_spec
from holdfast.study.store import Store
from holdfast.study.worker import item_rng, steady, study_inputs
from tests.helpers.own_methods import fails_sometimes, lengths, weighted
from tests.helpers.study_support import WEIGHTS, digests, make_spec, write_texts

N = 8
OWN = "python:tests.helpers.own_methods"
RADII = (1, 3)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N)


def own_spec(texts: Path, *methods: MethodSpec, **changes: Any) -> StudySpec:
    plain = {"smoothing": SmoothingSpec(), "mus": MusSpec(), "certify": CertifySpec(radii=RADII)}
    return make_spec(texts, methods=methods, **({"top_fractions": (0.25,)} | plain | changes))


def results(path: Path) -> dict[str, Any]:
    with Store(path) as store:
        return {result.key: result for result in store.results()}


def by_hand(spec: StudySpec, index: int, method: str, selected: Any) -> Any:
    """The curve of one explanation by the library's own verb, with the key of the item."""
    item = Item(index, method, spec.top_fractions[0], 1.0)
    parts = (item.input, item.method, repr(item.top_fraction), repr(item.keep_probability))
    model = steady(study_inputs(spec)[index], spec)
    return hf.certify_radii(model, selected, radii=RADII, rng=item_rng(spec, "certify", *parts))


def counts(curve: Any) -> list[tuple[int, int, Any, Any]]:
    return [(point.n_agreed, point.n_evaluated, point.prediction, point.rng_key) for point in curve]


def test_a_study_with_an_own_method_equals_certify_radii_by_hand_count_by_count(texts: Path, tmp_path: Path) -> None:
    spec = own_spec(texts, MethodSpec("mine", spec=f"{OWN}:lengths"))
    assert run_study(spec, tmp_path / "study.db").status.complete
    inputs, stored = study_inputs(spec), results(tmp_path / "study.db")
    assert len(stored) == N
    for index in range(N):
        result = stored[Item(index, "mine", 0.25, 1.0).key]
        selected = hf.top_fraction(lengths(inputs[index], inputs.raw(index)), 0.25)
        assert np.array_equal(result.selected, selected)
        assert counts(result.curve) == counts(by_hand(spec, index, "mine", selected))
        assert (result.attribution.method, result.attribution.n_calls) == ("mine", 1)


def test_masks_are_certified_as_they_are_and_no_share_is_cut(texts: Path, tmp_path: Path) -> None:
    spec = own_spec(texts, MethodSpec("rule", spec=f"{OWN}:known_words", masks=True), top_fractions=(0.5, 0.25))
    assert run_study(spec, tmp_path / "study.db").status.complete
    inputs, stored = study_inputs(spec), results(tmp_path / "study.db")
    assert len(stored) == N  # one item per input, whatever the fractions
    for index in range(N):
        result = stored[Item(index, "rule", 0.5, 1.0).key]
        assert result.selected.tolist() == [word in WEIGHTS for word in inputs.raw(index).split()]
        assert counts(result.curve) == counts(by_hand(spec, index, "rule", result.selected))
    frame = hf.study.study_frame(tmp_path / "study.db")
    assert frame["top_fraction"].isna().all()


def scores_of(texts: Path) -> tuple[list[str], list[Any]]:
    inputs = study_inputs(own_spec(texts, MethodSpec("random")))
    return [inputs.name(i) for i in range(N)], [lengths(inputs[i], inputs.raw(i)) for i in range(N)]


def write_scores(texts: Path, folder: Path, form: str) -> str:
    """The same scores in every form that a file can have."""
    names, values = scores_of(texts)
    folder.mkdir(exist_ok=True)
    if form == "folder":
        for name, scores in zip(names, values, strict=True):
            np.save(folder / f"{name}.npy", scores)
        return str(folder)
    path = folder / f"lengths.{form.partition(' ')[0]}"
    if form == "npz":
        np.savez(path, **dict(zip(names, values, strict=True)))
    elif form == "npz numbers":
        np.savez(path, **{str(index): scores for index, scores in enumerate(values)})
    elif form == "npz stacked":
        np.savez(path, scores=np.stack(values))
    elif form == "npy":
        np.save(path, np.stack(values))
    else:
        frame = pandas.DataFrame(np.stack(values), columns=[f"word {i}" for i in range(len(values[0]))])
        frame.insert(0, "input", names)
        (frame.sample(frac=1, random_state=0).to_parquet if form == "parquet" else frame.to_csv)(path, index=False)
    return str(path)


FORMS = ["folder", "npz", "npz numbers", "npz stacked", "npy", "parquet", "csv"]


@pytest.mark.parametrize("form", FORMS)
def test_scores_of_a_file_are_those_of_the_function_that_made_them(texts: Path, tmp_path: Path, form: str) -> None:
    place = write_scores(texts, tmp_path / "scores", form)
    spec = own_spec(texts, MethodSpec("mine", spec=f"scores:{place}"))
    assert run_study(spec, tmp_path / "study.db").status.complete
    _, values = scores_of(texts)
    for index, result in enumerate(results(tmp_path / "study.db").values()):
        assert result.attribution.scores.tolist() == values[index].tolist()
        assert result.attribution.n_calls == 0


@pytest.mark.parametrize("form", ["folder", "npz numbers", "parquet"])
def test_workers_read_the_scores_that_this_process_reads(texts: Path, tmp_path: Path, form: str) -> None:
    spec = own_spec(texts, MethodSpec("mine", spec=f"scores:{write_scores(texts, tmp_path / 'scores', form)}"))
    for name, workers in (("here", 0), ("workers", 1)):
        assert run_study(spec, tmp_path / f"{name}.db", workers=workers).status.complete
    assert digests(tmp_path / "here.db") == digests(tmp_path / "workers.db")


def test_names_stand_for_methods_in_toml_and_on_the_command_line(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        f"""
        data = "tweeteval:{texts}"
        methods = ["occlusion", "{OWN}:lengths", "scores:{write_scores(texts, tmp_path / "scores", "npz")}"]
        certify = {{ radii = [1] }}
        [model]
        spec = "python:tests.helpers.study_support:moods"
        options = {{ kind = "text" }}
        """,
        encoding="utf-8",
    )
    assert main(["study", "run", str(study), "--trust", "code"]) == 3
    assert "`methods` must have distinct entries, got 'lengths' more than once" in capsys.readouterr().err
    text = study.read_text().replace(f'"{OWN}:lengths"', f'{{ name = "own", spec = "{OWN}:lengths" }}')
    study.write_text(text, encoding="utf-8")
    assert main(["study", "run", str(study)]) == 3
    assert "would run code" in capsys.readouterr().err
    assert main(["study", "run", str(study), "--trust", "code", "--quiet"]) == 0
    with Store(study.with_suffix(".db")) as store:
        assert list(store.methods()) == ["occlusion", "own", "lengths"]
        assert store.methods()["own"].fingerprint == digest_code(lengths)


def test_a_function_that_a_file_names_is_not_even_imported_without_trust(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "untrusted_methods.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    head = f'model = "bundled:vader"\ndata = "tweeteval:{texts}"\nmethods = ["python:untrusted_methods:f"]'
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        with pytest.raises(InvalidValueError, match="would run code"):
            run_study(parse_spec(head), tmp_path / "study.db")
    assert "untrusted_methods" not in sys.modules


@pytest.mark.parametrize("workers", [0, 2])
def test_a_method_that_fails_loses_its_own_items_alone(texts: Path, tmp_path: Path, workers: int) -> None:
    methods = (
        MethodSpec("bad", spec=f"{OWN}:fails_sometimes"),
        MethodSpec("occlusion"),
        MethodSpec("good", spec=f"{OWN}:lengths"),
    )
    path = tmp_path / "study.db"
    status = run_study(own_spec(texts, *methods), path, workers=workers).status
    inputs = study_inputs(own_spec(texts, *methods))
    kinds = {index: sum(inputs.raw(index).encode()) % 6 for index in range(N)}
    reasons = [
        "bad: `scores` must hold real numbers, got NaN or infinity.",
        "bad: `scores` must be 12 numbers, or a map together with `groups`, got shape (13,).",
        "bad: `scores` must hold real numbers, got <U1 of shape (12,).",
        "bad: `scores` must be numbers, got a mask. Set `masks = true` for a method that returns masks.",
        None,
        "bad: RuntimeError: no such word",
    ]
    assert {reasons[kind] for kind in kinds.values()} >= {reasons[5], None}
    assert status.failures == {index: reasons[kind] for index, kind in kinds.items() if kind != 4}
    done = {method.name: method.n_done for method in status.methods}
    n_good = sum(kind == 4 for kind in kinds.values())
    assert done == {"bad": n_good, "occlusion": N, "good": N}
    assert (status.n_given_up, status.settled, status.complete) == (N - n_good, True, False)
    assert "given up: input" in str(status)
    content = json.loads(json.dumps(status.plain()))
    assert content["failures"][str(next(iter(status.failures)))] == next(iter(status.failures.values()))


def test_a_method_that_is_left_out_later_is_not_missed(texts: Path, tmp_path: Path) -> None:
    bad, good = MethodSpec("bad", spec=f"{OWN}:fails_sometimes"), MethodSpec("occlusion")
    path = tmp_path / "study.db"
    assert not run_study(own_spec(texts, bad, good), path).status.complete
    status = run_study(own_spec(texts, good), path).status
    assert (status.complete, status.n_given_up, status.failures) == (True, 0, {})


def test_the_reasons_are_in_the_report(texts: Path, tmp_path: Path) -> None:
    from holdfast.report.page import write_report
    from holdfast.study.spec import Trust

    bad, good = MethodSpec("bad", spec=f"{OWN}:fails_sometimes"), MethodSpec("occlusion")
    run_study(own_spec(texts, bad, good), tmp_path / "study.db")
    write_report(tmp_path / "study.db", tmp_path / "report.html", trust=Trust(code=True), n_gallery=2)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "RuntimeError: no such word" in page


def test_changed_code_is_refused_by_the_name_of_its_method(tmp_path: Path, texts: Path) -> None:
    source = (
        "import numpy as np\n\ndef helper(n):\n    return np.arange(n)\n\n"
        "def mine(model, text):\n    return helper(model.n_features)\n"
    )
    module, path = tmp_path / "changing_methods.py", tmp_path / "study.db"
    data = DataSpec(f"tweeteval:{texts}", n=2)
    spec = own_spec(texts, MethodSpec("mine", spec="python:changing_methods:mine"), data=data)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        for change, is_other in (
            (source, False),
            (source.replace("return helper", "# a comment\n    return  helper"), False),
            (source.replace("arange(n)", "arange(n) ** 2"), True),
        ):
            module.write_text(change, encoding="utf-8")
            sys.modules.pop("changing_methods", None)
            wanted = replace(spec, data=replace(spec.data, n=N))
            if is_other:
                with pytest.raises(
                    StudyMismatchError, match="The code of method 'mine' changed since its items were stored"
                ):
                    run_study(wanted, path)
            else:
                assert run_study(spec, path).status.complete
        assert len(digests(path)) == 2
        renamed = own_spec(texts, MethodSpec("mine 2", spec="python:changing_methods:mine"), data=spec.data)
        assert run_study(renamed, path).status.complete  # another name, beside the old one
        assert len(digests(path)) == 4


@pytest.mark.parametrize("form", ["folder", "npz", "parquet"])
def test_changed_scores_are_refused_and_new_inputs_are_not(texts: Path, tmp_path: Path, form: str) -> None:
    place, path = write_scores(texts, tmp_path / "scores", form), tmp_path / "study.db"
    spec = own_spec(texts, MethodSpec("mine", spec=f"scores:{place}"))
    few = replace(spec, data=replace(spec.data, n=3, order="first"))
    assert run_study(few, path).status.complete
    if form == "folder":
        np.save(Path(place) / f"{scores_of(texts)[0][1]}.npy", np.arange(12.0))
    else:
        other = tmp_path / "other"
        names, values = scores_of(texts)
        values[1] = np.arange(12.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.modules[__name__], "scores_of", lambda _: (names, values))
            place_of_others = write_scores(texts, other, form)
        Path(place).write_bytes(Path(place_of_others).read_bytes())
    with pytest.raises(StudyMismatchError, match="The scores of input 1 of method 'mine' changed"):
        run_study(spec, path)
    write_scores(texts, tmp_path / "scores", form)
    assert run_study(spec, path).status.complete


def test_an_input_without_scores_is_named_and_the_others_are_certified(texts: Path, tmp_path: Path) -> None:
    names, values = scores_of(texts)
    np.savez(tmp_path / "some.npz", **dict(zip(names[:5], values[:5], strict=True)))
    status = run_study(
        own_spec(texts, MethodSpec("mine", spec=f"scores:{tmp_path / 'some.npz'}")), tmp_path / "study.db"
    ).status
    assert status.n_done == 5
    assert status.failures[6] == f"mine: `scores` must have an entry for input 6 ({names[6]}), got none."


def test_live_objects_equal_the_same_by_name(texts: Path, tmp_path: Path) -> None:
    """Scores, a function and masks that are live, of live inputs, are certified as the named ones are."""
    named = own_spec(
        texts, MethodSpec("own", spec=f"{OWN}:lengths"), MethodSpec("rule", spec=f"{OWN}:known_words", masks=True)
    )
    run_study(named, tmp_path / "named.db")
    every = study_inputs(named)
    inputs = hf.bind(every.classifier, [every.raw(i) for i in range(N)])
    masks = [[word in WEIGHTS for word in every.raw(i).split()] for i in range(N)]
    asked: dict[str, Any] = {"radii": RADII, "top_fractions": [0.25], "seed": 11}
    study = hf.study.run(inputs, {"own": lengths, "rule": masks}, store=tmp_path / "live.db", **asked)
    before, now = results(tmp_path / "named.db"), results(tmp_path / "live.db")
    assert {key: counts(result.curve) for key, result in now.items()} == {
        key: counts(result.curve) for key, result in before.items()
    }
    stacked = np.stack([lengths(inputs[i], inputs.raw(i)) for i in range(N)])
    again = hf.study.run(inputs, {"own": stacked}, store=tmp_path / "scores.db", **asked)
    assert again.to_frame()["rate"].tolist() == study.to_frame().query("method == 'own'")["rate"].tolist()


def tumours() -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame, target = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.iloc[:, :12]
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(frame[100:], target[100:]), frame[:12]


def test_results_are_a_frame_with_one_row_per_input_method_and_radius(tmp_path: Path) -> None:
    model, rows = tumours()
    inputs = hf.bind(model, rows, background=rows, labels=[0] * len(rows))
    methods = {"lime": {"spec": "lime", "n_samples": 60}, "few": {"spec": "lime", "n_samples": 30}, "random": "random"}
    study = hf.study.run(inputs[2:8], methods, store=tmp_path / "study.db", radii=[1, 3], top_fractions=[0.25])
    frame = study.to_frame()
    assert len(frame) == 6 * 3 * 2
    assert {"input", "method", "radius", "rate", "low", "high", "consistent", "prediction", "label"} <= set(frame)
    assert frame.groupby("input")["name"].first().tolist() == [str(i) for i in range(2, 8)]  # the names they have
    assert set(frame["label"]) == {0}
    assert frame["consistent"].dtype == bool
    first = frame.iloc[0]
    assert first["low"] <= first["rate"] <= first["high"]
    assert str(study) == str(study.status)


def test_a_live_study_goes_on_with_more_inputs_and_refuses_others(tmp_path: Path) -> None:
    from sklearn.base import clone

    model, rows = tumours()
    path, asked = tmp_path / "study.db", {"radii": [1]}
    values = np.abs(rows.to_numpy() - rows.to_numpy().mean(axis=0))
    inputs = hf.bind(model, rows, background=rows)
    hf.study.run(inputs[:4], {"far": values[:4]}, store=path, **asked)
    before = digests(path)
    study = hf.study.run(inputs, {"far": values}, store=path, **asked)
    assert study.status.complete
    assert before.items() <= digests(path).items()
    with pytest.raises(StudyMismatchError, match="The scores of input 0 of method 'far' changed"):
        hf.study.run(inputs, {"far": values + np.arange(12)}, store=path, **asked)
    with pytest.raises(StudyMismatchError, match="Input 0 was"):
        hf.study.run(inputs[4:], {"far": values[4:]}, store=path, **asked)
    with pytest.raises(StudyMismatchError, match="The fill, background or features changed since items were stored"):
        hf.study.run(hf.bind(model, rows, background=rows, fill=0.0), {"far": values}, store=path, **asked)
    other = hf.bind(clone(model).fit(rows, [0, 1] * 6), rows, background=rows)
    with pytest.raises(StudyError, match="another model"):
        hf.study.run(other, {"far": values, "near": -values}, store=path, **asked)


def test_live_objects_refuse_workers_in_words(tmp_path: Path) -> None:
    model, rows = tumours()
    inputs = hf.bind(model, rows, background=rows)
    with pytest.raises(StudyError, match="this study has Python objects: method 'mine', model, data"):
        hf.study.run(inputs, {"mine": lambda model, row: np.arange(12)}, store=tmp_path / "study.db", workers=2)
    assert not (tmp_path / "study.db").exists()


def test_names_are_studied_by_workers_from_python_too(texts: Path, tmp_path: Path) -> None:
    inputs = hf.bind(
        "python:tests.helpers.study_support:moods", f"tweeteval:{texts}", model_options={"classes": ["bad", "good"]}
    )
    methods = {"own": f"{OWN}:lengths", "scaled": {"spec": f"{OWN}:weighted", "options": {"scale": 2.0}}}
    asked: dict[str, Any] = {"radii": RADII, "seed": 11}
    alone = hf.study.run(inputs, methods, store=tmp_path / "alone.db", **asked)
    hf.study.run(inputs, methods, store=tmp_path / "workers.db", workers=2, **asked)
    assert digests(tmp_path / "alone.db") == digests(tmp_path / "workers.db")
    with Store(alone.path) as store:
        assert store.spec.model.spec == "python:tests.helpers.study_support:moods"
    first = hf.study.run(inputs[:3], methods, store=tmp_path / "first.db", **asked)
    assert first.status.n_done == 6
    assert first.trusted(min_rate=0.3, radius=1).n_tested == 6  # what this process has loaded needs no trust
    with pytest.raises(InvalidValueError, match="would run code"):
        hf.study.Study(first.path).trusted(min_rate=0.3, radius=1)


def test_a_live_method_that_takes_too_long_loses_its_items(tmp_path: Path) -> None:
    from threading import Event

    model, rows = tumours()
    inputs, never = hf.bind(model, rows, background=rows), Event()

    def slow(model: Any, row: Any) -> Any:
        if row.index[0] == 1:
            never.wait()
        return np.arange(12)

    try:
        study = hf.study.run(inputs[:3], {"slow": slow}, store=tmp_path / "study.db", radii=[1], timeout=5)
    finally:
        never.set()
    assert list(study.status.failures) == [1, 2]
    assert "The method gave no answer for input 1 within `timeout` = 5 s" in study.status.failures[1]
    assert "a call that was given up is still running" in study.status.failures[2]
    assert study.status.n_done == 1


def test_a_study_of_live_objects_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, rows = tumours()
    inputs = hf.bind(model, rows, background=rows)
    study = hf.study.run(inputs, {"mine": rows.to_numpy()}, store=tmp_path / "study.db", radii=[1])
    opened = hf.study.Study(study.path)
    with pytest.raises(StudyError, match="were Python objects"):
        opened.trusted(min_rate=0.9, radius=1)
    assert main(["study", "report", str(study.path), "--output", str(tmp_path / "page.html")]) == 3
    message = capsys.readouterr().err
    assert "were Python objects" in message
    assert "--no-model" in message
    assert main(["study", "report", str(study.path), "--output", str(tmp_path / "page.html"), "--no-model"]) == 0
    assert study.report(tmp_path / "own.html", n_gallery=2).exists()
    again = hf.study.Study(study.path, inputs)
    assert again.trusted(min_rate=0.5, radius=1).n_tested == 12


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        ("lime2", InvalidValueError, "`methods.name` must be one of"),
        ({"a": "no-such"}, InvalidValueError, "`methods.spec` must be one of"),
        ({"a": "pickle:x"}, InvalidValueError, "`methods.spec` must be one of"),
        ({"a": 3}, InvalidTypeError, "`methods` must be scores of many inputs"),
        (3, InvalidTypeError, "`methods` must map names to methods, or be a list of names"),
        ({"a": "scores:nowhere.npz"}, InvalidValueError, "`scores:` must be followed by a folder of .npy files"),
        ({"a": "python:tests.helpers.own_methods:nothing"}, InvalidValueError, "must have a function 'nothing'"),
        ({"a": "python:no_such_module:f"}, InvalidValueError, "a module that can be imported"),
        ({"a": {"spec": "lime", "masks": True}}, InvalidValueError, "`methods.masks` must be false for lime"),
        ({"a": {"spec": "scores:x.npz", "n_samples": 3}}, InvalidValueError, "`methods.n_samples` must be left out"),
        ({"a\nb": "lime"}, InvalidValueError, "`methods.name` must be printable on one line"),
    ],
)
def test_methods_that_cannot_be_are_refused_before_anything_runs(
    tmp_path: Path, methods: Any, error: type[Exception], message: str
) -> None:
    model, rows = tumours()
    with pytest.raises(error, match=message.replace("(", r"\(")):
        hf.study.run(hf.bind(model, rows), methods, store=tmp_path / "study.db")
    assert not (tmp_path / "study.db").exists()


def test_keywords_are_checked(tmp_path: Path) -> None:
    model, rows = tumours()
    with pytest.raises(
        InvalidTypeError,
        match=r"`radi` must be a keyword of `holdfast\.study\.run`\. Did you mean 'radii'",
    ):
        hf.study.run(hf.bind(model, rows), ["lime"], store=tmp_path / "study.db", radi=[1])
    with pytest.raises(InvalidTypeError, match="`inputs` must be Inputs"):
        hf.study.run(rows, ["lime"], store=tmp_path / "study.db")  # type: ignore[arg-type]


def test_the_answers_of_a_method_may_have_many_forms(tmp_path: Path) -> None:
    """Whatever form the same scores come in, the same features are selected."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

    model, rows = tumours()
    inputs = hf.bind(model, rows, background=rows)
    values = np.random.default_rng(0).normal(size=(12, 12))
    both = np.stack([-values, values], axis=-1)  # of both classes, as shap's explainers give them
    top = [model.predict(rows.iloc[[i]])[0] for i in range(12)]
    wanted = np.array([values[i] if top[i] else -values[i] for i in range(12)])
    forms = {
        "array": wanted,
        "list": list(wanted),
        "tensor": torch.tensor(wanted),
        "frame": pandas.DataFrame(wanted, columns=rows.columns)[list(reversed(rows.columns))],
        "by name": {str(i): wanted[i] for i in range(12)},
        "classes": both,
        "explanation": shap.Explanation(both, base_values=np.zeros((12, 2)), data=rows.to_numpy()),
        "function": lambda model, row: Attribution(wanted[row.index[0]]),
    }
    hf.study.run(inputs, forms, store=tmp_path / "study.db", radii=[1])
    selected = {key: result.selected.tolist() for key, result in results(tmp_path / "study.db").items()}
    for index in range(12):
        for name in forms:
            assert selected[Item(index, name, 0.25, 1.0).key] == hf.top_fraction(wanted[index], 0.25).tolist(), name


class Scaled:
    """An explainer with a state of its own."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def explain(self, model: Any, row: Any) -> Any:
        return self.scale * np.arange(12)

    __call__ = explain


def decorated(scale: float) -> Any:
    @functools.wraps(lengths)
    def call(model: Any, row: Any) -> Any:
        return scale * np.arange(12)

    return call


@pytest.mark.parametrize(
    "make",
    [
        lambda value: Scaled(value).explain,
        lambda value: Scaled(value),
        decorated,
        lambda value: functools.partial(weighted, scale=value),
        lambda value: functools.partial(lambda model, row, size: size(row), size=decorated(value)),
        lambda value: lambda model, row: decorated(value)(model, row),
    ],
)
def test_what_a_function_carries_along_counts_as_its_code(make: Any) -> None:
    assert digest_code(make(1.0)) == digest_code(make(1.0)) != digest_code(make(-1.0))


def test_random_generators_do_not_change_the_code_of_a_function() -> None:
    rng = np.random.default_rng(0)

    def noisy(model: Any, row: Any) -> Any:
        return rng.random(12)

    before = digest_code(noisy)
    noisy(None, None)
    assert digest_code(noisy) == before


def test_the_code_of_functions_is_told_apart() -> None:
    def closing_over(value: int) -> Any:
        return lambda model, row: value

    same, other = closing_over(1), closing_over(2)
    assert digest_code(same) == digest_code(closing_over(1)) != digest_code(other)
    assert digest_code(lengths) != digest_code(weighted)
    assert digest_code(lengths) == digest_code(lengths)
    assert digest_code(functools.partial(weighted, scale=1.0)) != digest_code(functools.partial(weighted, scale=2.0))
    assert digest_code(fails_sometimes) != digest_code(same)


@pytest.mark.parametrize("kind", ["function", "scores", "masks"])
def test_commands_about_one_input_take_methods_of_ones_own(
    texts: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The certificate is that of the features that the method selects, of the input that is named."""
    inputs = study_inputs(own_spec(texts, MethodSpec("random")))
    sources = {
        "function": [f"{OWN}:lengths", "--top", "3"],
        "scores": [f"scores:{write_scores(texts, tmp_path / 'scores', 'npz')}", "--top", "3"],
        "masks": [f"{OWN}:known_words"],
    }
    command = ["certify", "--model", "python:tests.helpers.study_support:moods", "--input", f"tweeteval:{texts}#4"]
    assert main([*command, "--explanation", *sources[kind], "--radius", "2", "--json"]) == 0
    certificate = hf.Certificate.from_json(capsys.readouterr().out)
    words = inputs.raw(4).split()
    known = [word in WEIGHTS for word in words]
    assert certificate.selected.tolist() == (known if kind == "masks" else hf.top(list(map(len, words)), 3).tolist())


def loans() -> tuple[Any, Any, Any]:
    """A forest whose probability of class 1 is between the cut-off of 0.3 and a half for some rows."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(2)
    rows = pandas.DataFrame(rng.normal(size=(300, 6)), columns=list("abcdef"))
    bad = (rng.random(300) < 1 / (1 + np.exp(1 - 2 * rows["a"] - rows["b"]))).astype(int)
    model = RandomForestClassifier(40, max_depth=4, random_state=0).fit(rows[80:], bad[80:])
    chance = model.predict_proba(rows[:80])[:, 1]
    return model, rows, rows[:80][(chance > 0.3) & (chance < 0.5)]


def explained(model: Any, rows: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        return shap.TreeExplainer(model)(rows)


def selections(study: Any) -> dict[str, list[list[bool]]]:
    by_method: dict[str, list[list[bool]]] = {}
    for result in results(study.path).values():
        by_method.setdefault(result.method, []).append(result.selected.tolist())
    return by_method


def test_values_of_shap_speak_for_the_side_of_the_cut_off(tmp_path: Path) -> None:
    """All rows are above the cut-off although class 0 is more likely: what speaks for class 1 is selected."""
    model, rows, doubtful = loans()
    assert len(doubtful) >= 5
    explanation = explained(model, doubtful)
    assert explanation.values.shape == (len(doubtful), 6, 2)
    one = explanation.values[:, :, 1]
    methods = {"explanation": explanation, "classes": explanation.values, "column": one}
    inputs = hf.bind(model, doubtful, background=rows[80:])
    study = hf.study.run(
        inputs,
        methods,
        store=tmp_path / "side.db",
        radii=[1],
        agree=hf.agreement.same_side(0.3, 1),
        top_fractions=[0.34],
    )
    wanted = [hf.top(values, 2).tolist() for values in one]
    assert selections(study) == dict.fromkeys(methods, wanted)
    below = hf.study.run(
        inputs, methods, store=tmp_path / "below.db", radii=[1], agree="same_side(0.6, 1)", top_fractions=[0.34]
    )
    against = [hf.top(-values, 2).tolist() for values in one]
    assert selections(below) == {"explanation": against, "classes": against, "column": wanted}  # taken as it is


def test_plain_values_of_two_classes_say_which_class_they_speak_for(tmp_path: Path) -> None:
    model, rows, doubtful = loans()
    one = explained(model, doubtful).values[:, :, 1]
    inputs = hf.bind(model, doubtful, background=rows[80:])
    methods = {"plain": one, "told": {"spec": one, "options": {"output": 1}}}
    study = hf.study.run(inputs, methods, store=tmp_path / "study.db", radii=[1], top_fractions=[0.34])
    assert selections(study)["told"] == [hf.top(-values, 2).tolist() for values in one]  # class 0 is predicted
    with pytest.raises(InvalidValueError, match=r"`methods\.options` must be one of output"):
        hf.study.run(inputs, {"m": {"spec": one, "options": {"bogus": 1}}}, store=tmp_path / "other.db")


def test_scores_of_other_rows_or_columns_are_refused(tmp_path: Path) -> None:
    model, rows, doubtful = loans()
    inputs, asked = hf.bind(model, doubtful, background=rows[80:]), {"radii": [1], "top_fractions": [0.34]}
    explanation = explained(model, rows[:80])
    for name, scores in (("all", explanation), ("array", explanation.values[:, :, 1])):
        with pytest.raises(InvalidValueError, match=f"`scores of {name}` must have one entry for each"):
            hf.study.run(inputs, {name: scores}, store=tmp_path / "study.db", **asked)
    with pytest.raises(
        StudyError, match="`explanation` must be about the inputs, in their order, got values of another row"
    ):
        hf.study.run(inputs, {"m": explanation[: len(doubtful)]}, store=tmp_path / "study.db", **asked)
    named = pandas.DataFrame(explained(model, doubtful).values[:, :, 1], columns=["A", *"bcdef"])
    with pytest.raises(
        StudyError, match="`scores` must have the features of the model as columns, got 'A' in only one of them"
    ):
        hf.study.run(inputs, {"m": named}, store=tmp_path / "study.db", **asked)
    right = explained(model, doubtful)
    turned = explained(model, doubtful)[:, ::-1]
    turned.feature_names = list("fedcba")
    turned.data = None
    study = hf.study.run(inputs, {"right": right, "turned": turned}, store=tmp_path / "named.db", **asked)
    assert selections(study)["right"] == selections(study)["turned"]


def test_explanations_that_select_nothing_are_not_trusted(tmp_path: Path) -> None:
    inputs = hf.bind(lambda texts: [True] * len(texts), ["a b", "c a b", "a b c d e f g h"])
    study = hf.study.run(inputs, ["random"], store=tmp_path / "study.db", radii=[1])
    trusted = study.trusted(min_rate=0.5, radius=1)
    assert [explanation.input for explanation in trusted] == [2]
    assert trusted.n_empty == 2
    assert "2 more are stable, but select nothing." in trusted.explain()


def test_a_study_of_which_nothing_could_be_explained_says_so(tmp_path: Path) -> None:
    model, rows = tumours()
    with pytest.raises(
        StudyError, match=r"Nothing could be explained\. Input 0: m: .*If the last one is the bias, leave it out"
    ):
        hf.study.run(hf.bind(model, rows), {"m": np.ones((12, 13))}, store=tmp_path / "study.db", radii=[1])


def test_several_labels_of_a_forest_are_asked_about_together(tmp_path: Path) -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.multioutput import MultiOutputClassifier

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 5))
    labels = (rows[:, :3] + 0.1 * rng.normal(size=(60, 3)) > 0).astype(int)
    forest = RandomForestClassifier(10, random_state=0)
    for estimator in (forest, MultiOutputClassifier(forest)):
        fitted = estimator.fit(rows, labels)
        inputs = hf.bind(fitted, rows[:3], background=rows)
        everything = np.ones((1, 5), dtype=bool)
        chances = np.array([part[0, 1] for part in fitted.predict_proba(rows[:1])])
        assert inputs[0](everything)[0].tolist() == chances.tolist()
        cert = hf.certify(inputs[0], [0, 1, 2], radius=1, agree=hf.agreement.same_labels(0.5))
        on = [str(label) for label in np.flatnonzero(inputs[0](np.array([[1, 1, 1, 0, 0]], dtype=bool))[0] >= 0.5)]
        assert cert.prediction == (", ".join(on) or "none")


def test_another_model_is_refused_even_if_it_is_a_function(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4, 6))

    def inputs_of(sign: float) -> Any:
        return hf.bind(lambda rows: sign * (rows[:, :2] + rows[:, 2:4]), rows, fill=0.0)

    asked: dict[str, Any] = {"store": tmp_path / "study.db", "radii": [1], "top_fractions": [0.5]}
    study = hf.study.run(inputs_of(1.0), ["occlusion"], **asked)
    with pytest.raises(StudyMismatchError, match="The model, a function, changed since items were stored"):
        hf.study.run(inputs_of(-1.0), ["occlusion", "shap"], **asked)
    assert hf.study.run(inputs_of(1.0), ["occlusion", "shap"], **asked).status.complete
    for other in (inputs_of(-1.0), hf.bind(lambda rows: rows[:, :2] + rows[:, 2:4], rows, fill=1.0)):
        with pytest.raises(StudyMismatchError, match="changed since items were stored"):
            hf.study.Study(study.path, other).trusted(min_rate=0.5, radius=1)


def test_another_masking_of_the_same_rows_is_not_tested(tmp_path: Path) -> None:
    model, rows = tumours()
    study = hf.study.run(hf.bind(model, rows, fill=0.0), ["occlusion"], store=tmp_path / "study.db", radii=[1])
    other = hf.bind(model, rows, fill=9.0)
    with pytest.raises(StudyError, match="the masking differs from the one that was explained"):
        hf.study.trusted_explanations(study.path, min_rate=0.5, radius=1, inputs=other)


def test_other_pictures_are_refused_whatever_form_they_have(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    pictures = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    for form in (lambda tensor: tensor, list, lambda tensor: [picture.permute(1, 2, 0).numpy() for picture in tensor]):
        store = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        asked: dict[str, Any] = {"store": store, "radii": [1]}
        hf.study.run(hf.bind(net, form(pictures), features=(2, 2), fill=0.0)[:2], ["random"], **asked)
        with pytest.raises(StudyMismatchError, match="Input 0 was"):
            hf.study.run(hf.bind(net, form(pictures + 1), features=(2, 2), fill=0.0), ["random"], **asked)


def test_a_function_cannot_change_the_pictures_of_the_user(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    pictures = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    before = pictures.clone()

    def destructive(model: Any, picture: Any) -> Any:
        picture.zero_()
        return np.arange(4)

    inputs = hf.bind(net, pictures, features=(2, 2), fill=0.0)
    assert hf.study.run(inputs, {"d": destructive}, store=tmp_path / "study.db", radii=[1]).status.complete
    assert torch.equal(pictures, before)


def test_keys_of_scores_are_all_names_or_all_numbers(tmp_path: Path) -> None:
    """Pictures 1.png, 2.png, 3.png have numbers 0, 1, 2: scores called 1, 2, 3 are meant by name."""
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in (1, 2, 3):
        Image.new("L", (4, 4), 60 * number).save(folder / f"{number}.png")
    scores = {str(number): np.roll(np.arange(4.0), number) for number in (1, 2, 3)}
    np.savez(tmp_path / "named.npz", **scores)
    (tmp_path / "named").mkdir()
    for name, values in scores.items():
        np.save(tmp_path / "named" / f"{name}.npy", values)
    net = lambda pictures: np.stack([pictures.mean(axis=(1, 2, 3)), pictures[:, 0, 0, 0]], axis=1)  # noqa: E731
    bound = hf.bind(net, hf.data.load(f"images:{folder}"), features=(2, 2), fill=0.0)
    assert [bound.name(index) for index in range(3)] == ["1.png", "2.png", "3.png"]
    methods = {form: f"scores:{tmp_path / form}" for form in ("named.npz", "named")}
    study = hf.study.run(bound, methods, store=tmp_path / "study.db", radii=[1], top_fractions=[0.25])
    for result in results(study.path).values():
        assert result.attribution.scores.tolist() == scores[str(result.input + 1)].tolist()
    np.savez(tmp_path / "numbers.npz", **{f"{number}": scores[str(number + 1)] for number in range(3)})
    renamed = hf.bind(net, hf.data.load(f"images:{folder}"), features=(2, 2), fill=0.0, names=["x", "y", "z"])
    methods = {"m": f"scores:{tmp_path / 'numbers.npz'}"}
    study = hf.study.run(renamed, methods, store=tmp_path / "other.db", radii=[1], top_fractions=[0.25])
    for result in results(study.path).values():
        assert result.attribution.scores.tolist() == scores[str(result.input + 1)].tolist()


def test_whatever_an_own_method_returns_or_raises_costs_its_items_alone(tmp_path: Path) -> None:
    model, rows = tumours()

    def odd(masked: Any, row: Any) -> Any:
        if row.index[0] == 0:
            return Attribution(np.arange(12.0), target=np.int64(1), details={"x": float("nan")})
        if row.index[0] == 1:
            raise ValueError("lone \ud800 surrogate")
        raise SystemExit(3)

    study = hf.study.run(hf.bind(model, rows)[:3], {"odd": odd, "random": "random"}, store=tmp_path / "s.db", radii=[1])
    assert list(study.status.failures) == [1, 2]
    assert "surrogate" in study.status.failures[1]
    assert "SystemExit: 3" in study.status.failures[2]
    assert study.status.n_done == 4


def test_votes_are_not_asked_about_decisions(tmp_path: Path) -> None:
    model, rows = tumours()
    asked: dict[str, Any] = {"store": tmp_path / "study.db", "radii": [1], "agree": "same_side(0.3, 1)"}
    with pytest.raises(StudyError, match="only classes can be voted on"):
        hf.study.run(hf.bind(model, rows), ["random"], **asked, smoothing=SmoothingSpec((0.9,)))


def test_masks_are_in_the_frame_once_whatever_fractions_earlier_runs_had(tmp_path: Path) -> None:
    model, rows = tumours()
    inputs, masks = hf.bind(model, rows), rows.to_numpy() > rows.to_numpy().mean(axis=0)
    for fractions in ([0.5], [0.25, 0.5]):
        asked: dict[str, Any] = {"store": tmp_path / "study.db", "radii": [1], "top_fractions": fractions}
        study = hf.study.run(inputs, {"rule": masks, "random": "random"}, **asked)
    frame = study.to_frame()
    assert (frame["method"] == "rule").sum() == 12


def test_classes_of_captum_and_shapiq_are_methods_of_a_study(tmp_path: Path) -> None:
    """By name, as a class and, of shapiq, as an approximator: the scores are those of ``attribute``."""
    import captum.attr
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shapiq

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    pictures = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    inputs = hf.bind(net, pictures, features=(2, 2), fill=0.0)
    methods = {
        "class": captum.attr.Saliency,
        "named": "captum:Saliency",
        "layer": {"spec": "captum:LayerGradCam", "options": {"layer": "0"}},
        "kernel": shapiq.KernelSHAP,
        "made": shapiq.KernelSHAP(n=4, random_state=0),
        "maps": torch.stack([picture * 2 for picture in pictures]),
    }
    study = hf.study.run(inputs, methods, store=tmp_path / "study.db", radii=[1], top_fractions=[0.5])
    assert study.status.complete
    exact = [hf.attribute(inputs[index], "shap").scores for index in range(3)]
    for result in results(study.path).values():
        scores, model = result.attribution.scores, inputs[result.input]
        if result.method in ("class", "named"):
            assert scores == pytest.approx(hf.attribute(model, "captum:Saliency").scores)
        elif result.method == "layer":
            assert scores == pytest.approx(hf.attribute(model, "captum:LayerGradCam", layer="0").scores)
        elif result.method == "maps":
            sums = 2 * pictures[result.input, 0].reshape(2, 2, 2, 2).sum(dim=(1, 3)).ravel()
            assert scores == pytest.approx(sums.numpy())
        else:
            assert scores == pytest.approx(exact[result.input], abs=1e-5)  # all masks of four features


def test_a_class_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    model, rows = tumours()
    for spec in ("captum:NoSuchClass", "shapiq:NoSuchClass"):
        with pytest.raises(InvalidValueError, match="NoSuchClass"):
            hf.study.run(hf.bind(model, rows), {"m": spec}, store=tmp_path / "study.db")
    assert not (tmp_path / "study.db").exists()

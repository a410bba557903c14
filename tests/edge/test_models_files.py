"""ONNX and skops files load and predict as their own libraries do; other files are refused by name."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import HoldfastError
from holdfast.errors import InvalidValueError
from holdfast.inputs.models import load

pytest.importorskip("onnxruntime")
pytest.importorskip("skops")
import onnx
import skops.io
from onnx import TensorProto, helper, numpy_helper
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(3, 4)).astype(np.float32)
TABLE = RNG.normal(size=(60, 3))
TARGET = np.array(["low", "mid", "high"])[np.digitize(TABLE[:, 0] + TABLE[:, 1], [-0.5, 0.5])]


# -- ONNX -------------------------------------------------------------------------------------------


def row_model(weights: Any = WEIGHTS) -> Any:
    """Rows (b, 3) → four scores."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"])]
    return _model(nodes, ["b", 3], ["b", 4], [numpy_helper.from_array(weights, "w")])


def image_model(batch: Any = "b", *, channels_last: bool = False) -> Any:
    """Images of 6 × 5 pixels → the mean of each channel."""
    axes = numpy_helper.from_array(np.array([1, 2] if channels_last else [2, 3]), "axes")
    nodes = [helper.make_node("ReduceMean", ["x", "axes"], ["scores"], keepdims=0)]
    return _model(nodes, [batch, 6, 5, 3] if channels_last else [batch, 3, 6, 5], [batch, 3], [axes])


def _model(nodes: Any, takes: list[Any], gives: list[Any], weights: list[Any]) -> Any:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, takes)
    y = helper.make_tensor_value_info("scores", TensorProto.FLOAT, gives)
    graph = helper.make_graph(nodes, "tiny", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def saved(model: Any, path: Path, **external: Any) -> Path:
    onnx.save_model(model, str(path), **external)
    return path


def test_an_onnx_table_model_predicts_and_binds(tmp_path: Path) -> None:
    classifier = load(f"onnx:{saved(row_model(), tmp_path / 'rows.onnx')}", classes="abcd")
    rows = RNG.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(classifier.predict(rows), rows @ WEIGHTS, atol=1e-6)
    np.testing.assert_allclose(classifier.predict(rows.tolist(), batch_size=2), rows @ WEIGHTS, atol=1e-6)
    assert (classifier.kind, classifier.classes) == ("table", ("a", "b", "c", "d"))
    bound = classifier.bind(rows[0], fill=0.0)(np.array([[True, False, True]]))
    np.testing.assert_allclose(bound[0], (rows[0] * [1, 0, 1]) @ WEIGHTS, atol=1e-6)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("batch", ["b", 1, 2])
def test_an_onnx_image_model_predicts_and_binds_in_either_layout(
    tmp_path: Path, batch: Any, channels_last: bool
) -> None:
    path = saved(image_model(batch, channels_last=channels_last), tmp_path / "images.onnx")
    classifier = load(f"onnx:{path}")
    photos = RNG.integers(0, 256, (5, 6, 5, 3), dtype=np.uint8)
    truth = (photos / 255).mean(axis=(1, 2))
    np.testing.assert_allclose(classifier.predict(photos), truth, atol=1e-5)
    assert (classifier.kind, classifier.classes) == ("image", ("0", "1", "2"))
    bound = classifier.bind(photos[0], groups=(2, 2))(np.ones((1, 4), dtype=bool))
    np.testing.assert_allclose(bound, truth[:1], atol=1e-5)


def test_onnx_fingerprints_follow_the_weights_and_not_the_name(tmp_path: Path) -> None:
    first, same = (load(f"onnx:{saved(row_model(), tmp_path / name)}") for name in ("a.onnx", "b.onnx"))
    other = load(f"onnx:{saved(row_model(WEIGHTS + 1), tmp_path / 'c.onnx')}")
    assert first.fingerprint == same.fingerprint != other.fingerprint


def save_external(folder: Path, location: str, weights: Any = WEIGHTS) -> Path:
    folder.mkdir(exist_ok=True)
    options = {"save_as_external_data": True, "location": location, "size_threshold": 0}
    return saved(row_model(weights), folder / "model.onnx", **options)


def test_weights_beside_an_onnx_file_are_used_and_fingerprinted(tmp_path: Path) -> None:
    path = save_external(tmp_path / "a", "weights.bin")
    assert (path.parent / "weights.bin").is_file()
    classifier = load(f"onnx:{path}")
    np.testing.assert_allclose(classifier.predict(np.eye(3, dtype=np.float32)), WEIGHTS, atol=1e-6)
    other = load(f"onnx:{save_external(tmp_path / 'b', 'weights.bin', WEIGHTS + 1)}")
    assert classifier.fingerprint != other.fingerprint


def test_weights_elsewhere_are_refused(tmp_path: Path) -> None:
    path = save_external(tmp_path / "a", "weights.bin")
    model = onnx.load(str(path), load_external_data=False)
    (path.parent / "weights.bin").rename(tmp_path / "weights.bin")
    for location in ("../weights.bin", str(tmp_path / "weights.bin")):
        model.graph.initializer[0].external_data[0].value = location
        path.write_bytes(model.SerializeToString())
        with pytest.raises(InvalidValueError, match=r"files beside it; it names .*weights\.bin"):
            load(f"onnx:{path}")


def test_a_link_that_leads_away_is_refused(tmp_path: Path) -> None:
    path = save_external(tmp_path / "a", "weights.bin")
    (path.parent / "weights.bin").rename(tmp_path / "weights.bin")
    (path.parent / "weights.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(InvalidValueError, match="files beside it"):
        load(f"onnx:{path}")


def test_missing_weights_are_named(tmp_path: Path) -> None:
    path = save_external(tmp_path / "a", "weights.bin")
    (path.parent / "weights.bin").unlink()
    with pytest.raises(InvalidValueError, match=r"needs the file 'weights\.bin'"):
        load(f"onnx:{path}")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_truncated_onnx_files_are_refused_by_name(
    tmp_path: Path, share: float, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = row_model().SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InvalidValueError, match=r"cut\.onnx"):
        load(f"onnx:{tmp_path / 'cut.onnx'}")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [b"", b"no model", b"\x80\x04pickle", bytes(1000), b"\xff" * 1000])
def test_files_that_are_no_onnx_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.onnx").write_bytes(content)
    with pytest.raises(InvalidValueError, match=r"bad\.onnx"):
        load(f"onnx:{tmp_path / 'bad.onnx'}")


def test_onnx_options_are_checked(tmp_path: Path) -> None:
    path = saved(row_model(), tmp_path / "rows.onnx")
    for options in ({"threads": 0}, {"device": "moon"}, {"kind": "tabel"}, {"dtype": "float16"}, {"preprocess": str}):
        with pytest.raises(HoldfastError):
            load(f"onnx:{path}", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="existing file"):
        load(f"onnx:{tmp_path / 'none.onnx'}")


# -- skops ------------------------------------------------------------------------------------------


def dumped(estimator: Any, path: Path) -> Path:
    skops.io.dump(estimator, path)
    return path


def test_a_skops_estimator_predicts_and_binds(tmp_path: Path) -> None:
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(TABLE, TARGET)
    classifier = load(f"skops:{dumped(estimator, tmp_path / 'model.skops')}")
    assert (classifier.kind, classifier.classes) == ("table", ("high", "low", "mid"))
    np.testing.assert_allclose(classifier.predict(TABLE), estimator.predict_proba(TABLE))
    bound = classifier.bind(TABLE[0], background=TABLE)(np.ones((1, 3), dtype=bool))
    np.testing.assert_allclose(bound, estimator.predict_proba(TABLE[:1]))


def test_a_skops_pipeline_on_texts_predicts_and_binds(tmp_path: Path) -> None:
    texts, moods = ["good day", "bad day", "good night", "bad night"], ["joy", "fear", "joy", "fear"]
    estimator = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, moods)
    path = dumped(estimator, tmp_path / "model.skops")
    classifier = load(f"skops:{path}", trusted=skops.io.get_untrusted_types(file=path))
    assert (classifier.kind, classifier.classes) == ("text", ("fear", "joy"))
    np.testing.assert_allclose(classifier.predict(texts), estimator.predict_proba(texts))
    bound = classifier.bind("good day")(np.array([[True, True], [False, True]]))
    np.testing.assert_allclose(bound, estimator.predict_proba(["good day", "day"]))


def test_an_estimator_fitted_on_a_frame_gets_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": TABLE[:, 0], "colour": np.where(TABLE[:, 1] > 0, "red", "blue")})
    columns = ColumnTransformer([("one_hot", OneHotEncoder(), ["colour"])], remainder="passthrough")
    estimator = make_pipeline(columns, LogisticRegression()).fit(frame, TARGET)
    path = dumped(estimator, tmp_path / "model.skops")
    classifier = load(f"skops:{path}", trusted=skops.io.get_untrusted_types(file=path))
    truth = estimator.predict_proba(frame)
    np.testing.assert_allclose(classifier.predict(frame, batch_size=7), truth)
    np.testing.assert_allclose(classifier.predict(frame.to_numpy().tolist()), truth)
    bound = classifier.bind(frame.iloc[0], background=frame, fill="mode")(np.ones((1, 2), dtype=bool))
    np.testing.assert_allclose(bound, truth[:1])


def test_an_estimator_that_only_votes_scores_its_label(tmp_path: Path) -> None:
    estimator = VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())]).fit(TABLE, TARGET)
    path = dumped(estimator, tmp_path / "model.skops")
    classifier = load(f"skops:{path}", trusted=skops.io.get_untrusted_types(file=path))
    scores = classifier.predict(TABLE)
    assert np.array(classifier.classes)[scores.argmax(axis=1)].tolist() == estimator.predict(TABLE).tolist()
    np.testing.assert_array_equal(scores.sum(axis=1), 1)


def test_skops_fingerprints_are_stable_and_tell_files_apart(tmp_path: Path) -> None:
    path = dumped(GaussianNB().fit(TABLE, TARGET), tmp_path / "a.skops")
    other = dumped(GaussianNB().fit(TABLE + 1, TARGET), tmp_path / "b.skops")
    assert load(f"skops:{path}").fingerprint == load(f"skops:{path}").fingerprint
    assert load(f"skops:{path}").fingerprint != load(f"skops:{other}").fingerprint


def not_trusted(table: Any) -> Any:
    return table * 2


def test_types_that_are_not_trusted_are_listed_with_the_way_to_trust_them(tmp_path: Path) -> None:
    estimator = make_pipeline(FunctionTransformer(not_trusted), GaussianNB()).fit(TABLE, TARGET)
    path = dumped(estimator, tmp_path / "model.skops")
    name = f"{not_trusted.__module__}.not_trusted"
    with pytest.raises(InvalidValueError, match=rf"not trusted: {name}.*in Python: `trusted=\['{name}'\]`"):
        load(f"skops:{path}")
    classifier = load(f"skops:{path}", trusted=[name])
    np.testing.assert_allclose(classifier.predict(TABLE), estimator.predict_proba(TABLE))


def test_pickles_are_refused_unopened(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    estimator = RandomForestClassifier(3).fit(TABLE, TARGET)
    joblib.dump(estimator, tmp_path / "model.joblib")
    joblib.dump(estimator, tmp_path / "small.joblib", compress=3)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(estimator))
    (tmp_path / "disguised.skops").write_bytes(pickle.dumps(estimator))
    for name in ("model.joblib", "small.joblib", "model.pkl", "disguised.skops"):
        with pytest.raises(InvalidValueError, match=f"{name}' is refused: it is a pickle.*skops"):
            load(f"skops:{tmp_path / name}")


def test_damaged_skops_files_are_refused_by_name(tmp_path: Path) -> None:
    whole = dumped(GaussianNB().fit(TABLE, TARGET), tmp_path / "whole.skops").read_bytes()
    middle = len(whole) // 2
    for content in (b"", whole[:middle], whole[:middle] + bytes(40) + whole[middle + 40 :], b"PK\x05\x06" + bytes(18)):
        (tmp_path / "bad.skops").write_bytes(content)
        with pytest.raises(InvalidValueError, match=r"bad\.skops"):
            load(f"skops:{tmp_path / 'bad.skops'}")


def test_what_is_no_classifier_is_refused(tmp_path: Path) -> None:
    for value in (StandardScaler().fit(TABLE), [1, 2], Pipeline([("scale", StandardScaler())]).fit(TABLE)):
        with pytest.raises(HoldfastError, match="fitted classifier"):
            load(f"skops:{dumped(value, tmp_path / 'model.skops')}")


# -- imports ----------------------------------------------------------------------------------------


def test_importing_the_room_loads_no_framework() -> None:
    code = "import sys, holdfast.inputs.models; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "sklearn", "skops", "onnxruntime", "PIL", "scipy", "huggingface_hub"}
    assert heavy.isdisjoint(done.stdout.split())

"""Rows of tables under any classifier: what is shown is the row, what is hidden is the fill, nothing else moves."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from holdfast import MaskedModel, certify
from holdfast.agreement import within
from holdfast.errors import ColumnsError, InvalidTypeError, InvalidValueError, ModelError
from holdfast.masking.table.columns import column_groups, windows
from holdfast.masking.table.mask_tabular import mask_tabular
from tests.helpers.contracts import bits, check_masked_model
from tests.helpers.fakes import all_masks

N = 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, N))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
Y3 = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
ROW = X[7]
WEIGHTS = RNG.normal(size=(N, 3))


def linear(rows: Any) -> Any:
    return rows @ WEIGHTS


def seen_by(fill: Any, masks: Any = None, row: Any = ROW, **asked: Any) -> Any:
    """The rows a classifier is given, one after the other, for all masks or these."""
    seen: list[Any] = []

    def classifier(rows: Any) -> Any:
        seen.append(rows)
        return np.zeros((len(rows), 2))

    model = mask_tabular(classifier, row, fill=fill, **asked)
    model(all_masks(model.n_features) if masks is None else np.asarray(masks))
    return seen[0] if len(seen) == 1 else seen


def people() -> pd.DataFrame:
    """A table of mixed columns: numbers, whole numbers, text, categories and yes or no."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, 90),
            "city": rng.choice(["Bergen", "Oslo", "Rome"], 90),
            "income": rng.normal(30, 5, 90),
            "job": pd.Categorical(rng.choice(["baker", "nurse"], 90), categories=["baker", "nurse", "pilot"]),
            "married": rng.random(90) < 0.5,
        }
    )


def pay(table: pd.DataFrame) -> Any:
    return ((table["income"] > 30) ^ (table["city"] == "Oslo")).astype(int)


def pipeline(table: pd.DataFrame, **encoder: Any) -> Pipeline:
    codes = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age", "income"]),
            ("names", OneHotEncoder(**encoder), ["city", "job", "married"]),
        ]
    )
    return make_pipeline(codes, LogisticRegression()).fit(table, pay(table))


def network(n_inputs: int = N) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(n_inputs, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))


def onnx_model(*, rows: Any = "b", kind: int = onnx.TensorProto.FLOAT, with_label: bool = True) -> onnx.ModelProto:
    """label = argmax(x W), probabilities = softmax(x W), in the order in which scikit-learn's converter writes them."""
    helper = onnx.helper
    number = onnx.helper.tensor_dtype_to_np_dtype(kind)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    outputs = [helper.make_tensor_value_info("label", onnx.TensorProto.INT64, [rows])] if with_label else []
    outputs.append(helper.make_tensor_value_info("probabilities", kind, [rows, 3]))
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", kind, [rows, N])],
        outputs,
        [onnx.numpy_helper.from_array(WEIGHTS.astype(number), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def session(**asked: Any) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(onnx_model(**asked).SerializeToString(), providers=["CPUExecutionProvider"])


# -- every kind of classifier keeps the contract -----------------------------------------------------


def frame_model(**asked: Any) -> MaskedModel:
    table = people()
    return mask_tabular(pipeline(table), table.iloc[[4]], background=table, **asked)


FITTED = {
    "proba": LogisticRegression().fit(X, Y),
    "forest": RandomForestClassifier(5, random_state=0).fit(X, Y3),
    "binary decision": LinearSVC().fit(X, Y),
    "decision": RidgeClassifier().fit(X, Y3),
    "one against one": SVC(decision_function_shape="ovo").fit(X, Y3),
    "named classes": SVC(decision_function_shape="ovo").fit(X, np.array(["low", "mid", "high"])[Y3]),
    "outliers": IsolationForest(random_state=0).fit(X),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y),
    "float labels": SVC(decision_function_shape="ovo").fit(X, Y3 + 5.0),
}


@pytest.mark.parametrize("fill", ["mean", "mode", "background", 0.0])
@pytest.mark.parametrize("name", FITTED)
def test_estimators_keep_the_contract(name: str, fill: Any) -> None:
    estimator = FITTED[name]
    model = mask_tabular(estimator, ROW, background=X, fill=fill, n_background=5)
    full = estimator.predict(ROW[None])[0]
    wanted = full if model(all_masks(N)).ndim == 1 else list(estimator.classes_).index(full)
    check_masked_model(model, full_prediction=wanted, tolerance=1e-12)


@pytest.mark.parametrize("fill", ["mean", "background"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **asked: mask_tabular(linear, ROW, background=X, **asked),
        lambda **asked: mask_tabular(lambda rows: rows[:, 0] > 0, ROW, background=X, **asked),
        lambda **asked: mask_tabular(lambda rows: rows.sum(axis=1), ROW, background=X, **asked),
        lambda **asked: mask_tabular(FITTED["binary decision"].decision_function, ROW, background=X, **asked),
        lambda **asked: mask_tabular(network(), ROW, background=X, **asked),
        lambda **asked: mask_tabular(network().double(), torch.tensor(ROW), background=torch.tensor(X), **asked),
        lambda **asked: mask_tabular(session(), ROW, background=X, **asked),
        lambda **asked: mask_tabular(session(kind=onnx.TensorProto.DOUBLE), ROW, background=X, **asked),
        frame_model,
    ],
)
def test_every_adapter_keeps_the_contract(make: Callable[..., MaskedModel], fill: str) -> None:
    check_masked_model(make(fill=fill, n_background=4), tolerance=1e-6)


@pytest.mark.parametrize("fill", ["mean", "mode", "background", 0.25, X[3]])
def test_with_every_feature_shown_the_scores_are_those_of_the_row_to_the_last_bit(fill: Any) -> None:
    seen: list[Any] = []
    table = np.random.default_rng(5).normal(size=(1 << 10, 3))

    def classifier(rows: Any) -> Any:
        seen.append(rows)
        return table[(np.abs(rows) * 1e6).astype(int).sum(axis=1) % len(table)]

    model = mask_tabular(classifier, ROW, background=X, fill=fill, n_background=7)
    scores = model(np.ones((1, N), dtype=bool))
    np.testing.assert_array_equal(seen[0], np.repeat(ROW[None], len(seen[0]), axis=0))
    np.testing.assert_array_equal(scores, classifier(ROW[None]))


# -- what the classifier sees -------------------------------------------------------------------------


def test_hidden_columns_hold_the_fill_and_shown_ones_the_row() -> None:
    masks = all_masks(N)
    by_name = {str(i): float(i) for i in range(N)}
    for fill, baseline in (
        ("mean", X.mean(axis=0)),
        (0.5, np.full(N, 0.5)),
        (np.arange(N), np.arange(N)),
        (list(range(N)), np.arange(N)),
        (torch.arange(N), np.arange(N)),
        (by_name, np.arange(N)),
        (dict(enumerate(range(N))), np.arange(N)),
        (pd.Series(by_name), np.arange(N)),
    ):
        rows = seen_by(fill, background=X, columns=list(map(str, range(N))))
        np.testing.assert_array_equal(rows, np.where(masks, ROW, baseline))


def test_the_mode_is_the_most_frequent_value_and_the_smallest_of_equals() -> None:
    background = [[1, 5, 3], [2, 5, 1], [2, 4, 3], [9, 4, 1]]
    rows = seen_by("mode", [[False] * 3], row=[0, 0, 0], background=background)
    np.testing.assert_array_equal(rows, [[2, 4, 1]])


def test_columns_outside_every_group_are_always_shown_and_need_no_fill() -> None:
    groups = [0, -1, 1, 1, -1, 0]
    rows = seen_by({0: 10.0, 2: 12.0, 3: 13.0, 5: 15.0}, groups=groups)
    for mask, row in zip(all_masks(2), rows, strict=True):
        wanted = [ROW[i] if group == -1 or mask[group] else 10.0 + i for i, group in enumerate(groups)]
        np.testing.assert_array_equal(row, wanted)


def test_the_columns_of_a_group_are_hidden_together() -> None:
    one_hot = np.array([0.3, 0.0, 1.0, 0.0, -1.2])
    model_rows = seen_by(0.0, row=one_hot, groups=column_groups({"colour": [1, 2, 3]}))
    shown = all_masks(3)[:, [1, 0, 0, 0, 2]]
    np.testing.assert_array_equal(model_rows, np.where(shown, one_hot, 0.0))


@given(groups=st.lists(st.integers(0, 2), min_size=N, max_size=N).filter(lambda g: set(g) == set(range(max(g) + 1))))
def test_a_column_is_shown_if_and_only_if_its_feature_is(groups: list[int]) -> None:
    masks = all_masks(max(groups) + 1)
    np.testing.assert_array_equal(seen_by(9.0, groups=groups), np.where(masks[:, groups], ROW, 9.0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_keep_their_float_type_whatever_the_fill(dtype: Any) -> None:
    for fill in ("mean", "background", 0, 0.1, X[0]):
        assert seen_by(fill, row=ROW.astype(dtype), background=X).dtype == dtype


def test_whole_numbers_stay_whole_unless_the_fill_is_not() -> None:
    row, background = np.array([3, 4]), np.array([[1, 2], [2, 2]])
    assert seen_by(0.0, row=row).dtype.kind == "i"
    assert seen_by("mode", row=row, background=background).dtype.kind == "i"
    rows = seen_by("mean", row=row, background=background)
    np.testing.assert_array_equal(rows, [[1.5, 2], [3, 2], [1.5, 4], [3, 4]])


def test_a_column_that_is_always_shown_changes_neither_types_nor_provenance_by_its_background() -> None:
    row, background = np.array([3, 4]), np.array([[2, 1], [2, 2]])
    rows = seen_by("mean", row=row, background=background, groups=[0, -1])
    assert rows.dtype.kind == "i"
    np.testing.assert_array_equal(rows, [[2, 4], [3, 4]])
    one, other = (mask_tabular(linear, row, background=rows, groups=[0, -1]) for rows in (background, [[2, 9], [2, 8]]))
    assert one.provenance == other.provenance


def test_a_fill_of_nan_is_given_to_classifiers_that_know_missing_values() -> None:
    knows = HistGradientBoostingClassifier(max_iter=3).fit(X, Y)
    model = mask_tabular(knows, ROW, fill=float("nan"))
    check_masked_model(model, full_prediction=knows.predict(ROW[None])[0])
    rows = np.where(all_masks(N), ROW, np.nan)
    np.testing.assert_array_equal(model(all_masks(N)), knows.predict_proba(rows))


# -- background -----------------------------------------------------------------------------------------


def test_a_background_average_equals_a_loop_over_the_drawn_rows() -> None:
    model = mask_tabular(FITTED["forest"], ROW, background=X, fill="background", n_background=9, rng=3)
    drawn = model.rows(np.zeros(N, dtype=bool))
    assert drawn.shape == (9, N)
    assert len({tuple(one) for one in drawn} & {tuple(one) for one in X}) == 9
    for mask, scores in zip(all_masks(N), model(all_masks(N)), strict=True):
        votes = []
        for one in drawn:
            mixed = one.copy()
            mixed[mask] = ROW[mask]
            votes.append(FITTED["forest"].predict_proba(mixed[None])[0])
        np.testing.assert_allclose(scores, np.mean(votes, axis=0), atol=1e-12)


def test_all_background_rows_are_used_when_there_are_no_more_than_asked() -> None:
    for n_background in (4, 5, 1000):
        model = mask_tabular(linear, ROW, background=X[:4], fill="background", n_background=n_background)
        np.testing.assert_array_equal(model.rows(np.zeros(N, dtype=bool)), X[:4])


def test_draws_depend_on_the_seed_alone() -> None:
    def drawn(rng: Any, **asked: Any) -> Any:
        model = mask_tabular(linear, ROW, background=X, fill="background", rng=rng, **asked)
        return model.rows(np.zeros(N, dtype=bool))

    np.testing.assert_array_equal(drawn(0), drawn(0, batch_size=3))
    assert not np.array_equal(drawn(0), drawn(1))
    generator = np.random.default_rng(0)
    assert not np.array_equal(drawn(generator), drawn(generator))


def test_labels_are_put_to_the_vote_and_ties_go_to_the_smallest() -> None:
    background = np.array([[0.0], [1.0], [2.0], [3.0]])
    names = np.array(["b", "a", "c", "a"])
    for labels, won in ((["b", "b", "c", "a"], "b"), (["c", "b", "c", "b"], "b"), (["c", "c", "c", "a"], "c")):
        names = np.array(labels)
        model = mask_tabular(
            lambda rows, names=names: names[rows[:, 0].astype(int)], [3], background=background, fill="background"
        )
        assert model(np.array([[False], [True]])).tolist() == [won, labels[3]]


def test_hidden_columns_come_from_one_background_row_together() -> None:
    background = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [3.0, 3.0, 0.0]])
    model = mask_tabular(
        lambda rows: rows[:, 0] == rows[:, 1], [7.0, 8.0, 9.0], background=background, fill="background"
    )
    assert model(np.array([[False, False, True], [True, False, True]])).tolist() == [True, False]


def test_batches_hold_at_most_the_rows_asked_for_and_change_nothing() -> None:
    sizes: list[int] = []

    def classifier(rows: Any) -> Any:
        sizes.append(len(rows))
        return linear(rows)

    whole = mask_tabular(linear, ROW, background=X, fill="background", n_background=10)(all_masks(N))
    for batch_size in (1, 7, 10, 64, 1000):
        sizes.clear()
        model = mask_tabular(classifier, ROW, background=X, fill="background", n_background=10, batch_size=batch_size)
        np.testing.assert_allclose(model(all_masks(N)), whole, atol=1e-12)
        assert max(sizes) <= batch_size
        assert sum(sizes) == 10 * 2**N
        assert model.batch_size == max(1, batch_size // 10)


# -- classifiers ------------------------------------------------------------------------------------------


def test_estimators_are_asked_for_probabilities_then_scores_then_labels() -> None:
    full = np.ones((1, N), dtype=bool)
    for name, method in (("proba", "predict_proba"), ("pipeline", "predict_proba"), ("decision", "decision_function")):
        wanted = getattr(FITTED[name], method)(ROW[None])
        np.testing.assert_array_equal(mask_tabular(FITTED[name], ROW, fill=0.0)(full), wanted)
    for name in ("one against one", "named classes", "outliers"):
        assert mask_tabular(FITTED[name], ROW, fill=0.0)(full) == FITTED[name].predict(ROW[None])


def test_the_decision_function_of_two_classes_becomes_two_columns_that_predict_alike() -> None:
    estimator = FITTED["binary decision"]
    rows = np.where(all_masks(N), ROW, X.mean(axis=0))
    for classifier in (estimator, estimator.decision_function):
        scores = mask_tabular(classifier, ROW, background=X)(all_masks(N))
        np.testing.assert_array_equal(scores[:, 1], estimator.decision_function(rows))
        np.testing.assert_array_equal(scores[:, 0], -scores[:, 1])
        np.testing.assert_array_equal(scores.argmax(axis=1), estimator.predict(rows))


def test_a_one_against_one_decision_function_scores_pairs_and_is_refused() -> None:
    deep = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")).fit(X, Y3)
    for estimator in (FITTED["one against one"], deep):
        with pytest.raises(InvalidValueError, match=r"^`classifier` must score classes, got a one-vs-one"):
            mask_tabular(estimator.decision_function, ROW, fill=0.0)
        assert mask_tabular(estimator, ROW, fill=0.0)(np.ones((1, N), dtype=bool)) == estimator.predict(ROW[None])


def test_a_regressor_is_one_score_to_be_judged_by_a_margin() -> None:
    model = mask_tabular(Ridge().fit(X, X[:, 0]), ROW, background=X)
    assert model(np.ones((2, N), dtype=bool)).shape == (2, 1)
    assert certify(model, bits("100000"), radius=2, agree=within(0.5), rng=0).rate == 1
    with pytest.raises(ModelError, match=r"^`same_top_class` needs scores of at least 2 classes"):
        certify(model, bits("100000"), radius=2, rng=0)


def test_float_labels_of_a_classifier_become_the_same_whole_numbers() -> None:
    model = mask_tabular(FITTED["float labels"], ROW, fill=0.0)
    rows = np.where(all_masks(N), ROW, 0.0)
    np.testing.assert_array_equal(model(all_masks(N)), FITTED["float labels"].predict(rows))
    assert model(all_masks(N)).dtype.kind == "i"


def test_torch_scores_equal_direct_calls_on_hand_masked_rows() -> None:
    module = network()
    model = mask_tabular(module, ROW, background=X)
    rows = torch.tensor(np.where(all_masks(N), ROW, X.mean(axis=0)), dtype=torch.float32)
    with torch.no_grad():
        wanted = module.eval()(rows).numpy()
    np.testing.assert_allclose(model(all_masks(N)), wanted, atol=1e-6)
    chances = mask_tabular(module, ROW, background=X, softmax=True)(all_masks(N))
    np.testing.assert_allclose(chances, torch.tensor(wanted).softmax(1), atol=1e-6)


def test_torch_number_types_can_be_asked_for() -> None:
    model = mask_tabular(network().double(), ROW, background=X, dtype="float64", device="cpu")
    assert model(all_masks(N)).dtype == np.float64


def test_onnx_scores_equal_direct_calls_on_hand_masked_rows(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    onnx.save(onnx_model(), path)
    rows = np.where(all_masks(N), ROW, X.mean(axis=0))
    powers = np.exp(rows @ WEIGHTS)
    for classifier in (path, str(path), session(), session(with_label=False)):
        scores = mask_tabular(classifier, ROW, background=X)(all_masks(N))
        np.testing.assert_allclose(scores, powers / powers.sum(axis=1, keepdims=True), atol=1e-5)


def test_onnx_probabilities_in_dictionaries_become_columns() -> None:
    model = onnx_model()
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    zipped = onnx.helper.make_node(
        "ZipMap", ["probabilities"], ["output_probability"], domain="ai.onnx.ml", classlabels_int64s=[4, 5, 9]
    )
    model.graph.node.append(zipped)
    kind = onnx.helper.make_map_type_proto(
        onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    model.graph.output[1].CopyFrom(
        onnx.helper.make_value_info("output_probability", onnx.helper.make_sequence_type_proto(kind))
    )
    ready = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    plain = mask_tabular(session(), ROW, fill=0.0)(all_masks(N))
    np.testing.assert_allclose(mask_tabular(ready, ROW, fill=0.0)(all_masks(N)), plain, atol=1e-6)


def test_an_onnx_file_is_known_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    onnx.save(onnx_model(), path)
    assert mask_tabular(path, ROW, fill=0).provenance.model == hashlib.sha256(path.read_bytes()).hexdigest()
    assert mask_tabular(path, ROW, fill=0, fingerprint="mine").provenance.model == "mine"


# -- data frames ---------------------------------------------------------------------------------------------


def test_a_pipeline_fitted_on_a_frame_gets_frames_with_its_columns_and_types() -> None:
    table = people()
    for row in (table.iloc[[4]], table.iloc[4], table.iloc[4].astype(object)):
        rows = seen_by("mode", row=row, background=table)
        assert list(rows.columns) == list(table.columns)
        assert rows.dtypes.tolist() == table.dtypes.tolist()
        modes = table.mode().iloc[0]
        for mask, (_, got) in zip(all_masks(5), rows.iterrows(), strict=True):
            wanted = [table.iloc[4][name] if shown else modes[name] for name, shown in zip(table, mask, strict=True)]
            assert got.tolist() == wanted


def test_frame_scores_equal_direct_calls_on_hand_masked_frames() -> None:
    table = people()
    fitted = pipeline(table)
    for classifier in (fitted, fitted.predict_proba):
        model = mask_tabular(classifier, table.iloc[4], background=table)
        assert model.feature_names == tuple(table.columns)
        for mask, scores in zip(all_masks(5), model(all_masks(5)), strict=True):
            hand = table.iloc[[4]].astype({"age": float})
            for name, shown in zip(table.columns, mask, strict=True):
                if not shown:
                    numeric = name in ("age", "income")
                    hand[name] = table[name].mean() if numeric else table[name].mode()[0]
            np.testing.assert_allclose(scores, fitted.predict_proba(hand)[0], atol=1e-12)


def test_a_frame_background_is_averaged_like_an_array() -> None:
    table = people()
    fitted = pipeline(table)
    model = mask_tabular(fitted, table.iloc[4], background=table, fill="background", n_background=6)
    mask = bits("01010")
    hand = model.rows(~np.ones(5, dtype=bool)).copy()
    assert hand.dtypes.tolist() == table.dtypes.tolist()
    hand["city"], hand.loc[:, "job"] = table["city"][4], table["job"][4]
    np.testing.assert_allclose(model(mask[None])[0], fitted.predict_proba(hand).mean(axis=0), atol=1e-12)


def test_columns_reach_the_estimator_in_the_order_it_was_fitted_on() -> None:
    table = people()
    fitted = pipeline(table)
    turned = table[table.columns[::-1]]
    one = mask_tabular(fitted, table.iloc[[4]], background=table)
    other = mask_tabular(fitted, turned.iloc[[4]], background=table)
    assert other.feature_names == one.feature_names[::-1]
    np.testing.assert_array_equal(other(all_masks(5)[:, ::-1]), one(all_masks(5)))


def test_an_array_row_reaches_an_estimator_fitted_on_a_frame_as_a_frame() -> None:
    named = pd.DataFrame(X, columns=list("abcdef"))
    fitted = LogisticRegression().fit(named, Y)
    wanted = LogisticRegression().fit(X, Y).predict_proba(np.where(all_masks(N), ROW, X.mean(axis=0)))
    for asked in ({"background": X}, {"background": named}, {"background": X, "columns": list("abcdef")}):
        np.testing.assert_allclose(mask_tabular(fitted, ROW, **asked)(all_masks(N)), wanted, atol=1e-9)


def test_a_frame_row_reaches_models_of_numbers_as_an_array() -> None:
    named = pd.DataFrame(X, columns=list("abcdef"))
    rows = np.where(all_masks(N), ROW, X.mean(axis=0))
    by_array = FITTED["proba"]
    model = mask_tabular(by_array, named.iloc[7], background=named)
    np.testing.assert_allclose(model(all_masks(N)), by_array.predict_proba(rows), atol=1e-12)
    model = mask_tabular(session(), named.iloc[7], background=X, columns=list("abcdef"))
    np.testing.assert_allclose(model(all_masks(N)).sum(axis=1), 1, atol=1e-6)


def test_a_frame_may_be_filled_column_by_column() -> None:
    table = people()
    fill = {"age": 40, "city": "Rome", "income": 31.5, "job": "pilot", "married": False}
    rows = seen_by(fill, [[False] * 5], row=table.iloc[4], background=table)
    assert rows.iloc[0].to_dict() == fill
    assert rows.dtypes.tolist() == table.dtypes.tolist()
    in_order = seen_by(list(fill.values()), [[False] * 5], row=table.iloc[4], background=table)
    pd.testing.assert_frame_equal(in_order, rows)


def test_columns_choose_and_order_what_is_used_of_a_frame() -> None:
    table = people()
    rows = seen_by("mean", row=table.iloc[4], background=table, columns=["income", "age"])
    assert list(rows.columns) == ["income", "age"]


# -- series ---------------------------------------------------------------------------------------------------


def test_windows_of_a_series_are_hidden_together() -> None:
    series = np.arange(10.0)
    shown = np.repeat(all_masks(3), [4, 4, 2], axis=1)
    np.testing.assert_array_equal(seen_by(-1.0, row=series, groups=windows(10, 4)), np.where(shown, series, -1.0))


def test_windows_hide_all_channels_of_a_series() -> None:
    series = np.arange(12.0).reshape(6, 2)
    shown = np.repeat(all_masks(3), 2, axis=1)[:, :, None]
    for fill, baseline in ((-1.0, -1.0), ([-1.0, -2.0], np.array([-1.0, -2.0])), (series + 1, series + 1)):
        rows = seen_by(fill, row=series, groups=windows(6, 2))
        assert rows.shape == (8, 6, 2)
        np.testing.assert_array_equal(rows, np.where(shown, series, baseline))


def test_a_series_classifier_is_certified_on_its_windows() -> None:
    rng = np.random.default_rng(2)
    background = rng.normal(size=(50, 24, 2))
    series = background[0].copy()
    series[8:12] += 4
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
    with torch.no_grad():
        net[1].weight[:] = torch.tensor([[0.0], [1.0]])
        net[1].bias[:] = torch.tensor([0.0, -10.0])
    model = mask_tabular(net, series, background=background, groups=windows(24, 4))
    check_masked_model(model, full_prediction=1, tolerance=1e-5)
    assert model.feature_names[2] == "8–11"
    assert certify(model, bits("001000"), radius=1, rng=0).prediction == 1


# -- provenance and state ----------------------------------------------------------------------------------------


def test_provenance_names_the_fill_and_fingerprints_the_row() -> None:
    known = mask_tabular(linear, ROW, background=X).provenance
    assert known.input == hashlib.sha256(ROW.tobytes()).hexdigest()
    assert known.model is None
    assert known.masking is not None
    assert known.masking.startswith("6 columns as 6 features; fill mean of 80 background rows; digest ")
    drawn = mask_tabular(linear, ROW, background=X, fill="background", n_background=8, rng=5).provenance.masking
    assert drawn is not None
    assert "fill 8 (key 5) of 80 background rows, averaged" in drawn
    certificate = certify(mask_tabular(linear, ROW, background=X), bits("100000"), radius=2, rng=0)
    assert certificate.provenance == known


def test_other_fills_groups_rows_and_scores_have_another_provenance() -> None:
    table = people()
    made = [
        mask_tabular(linear, ROW, background=X),
        mask_tabular(linear, ROW, background=X[:40]),
        mask_tabular(linear, ROW, background=np.concatenate([X[:40], X[:40]])),
        mask_tabular(linear, ROW, background=X, softmax=True),
        mask_tabular(linear, ROW, background=X, groups=[0, 0, 1, 2, 3, 4]),
        mask_tabular(linear, ROW, background=X, groups=[0, 1, 1, 2, 3, 4]),
        mask_tabular(linear, ROW, fill=0.0),
        mask_tabular(linear, ROW, fill=X[0]),
        mask_tabular(linear, ROW, fill=X[1]),
        mask_tabular(linear, X[8], fill=X[1]),
        mask_tabular(linear, table.iloc[4], background=table),
        mask_tabular(linear, table.iloc[5], background=table),
        mask_tabular(linear, table.iloc[5], background=table[:50]),
    ]
    assert len({model.provenance for model in made}) == len(made)


def test_nothing_of_the_caller_is_changed() -> None:
    row, background, table = ROW.copy(), X.copy(), people()
    one, fill, module = table.iloc[[4]].copy(), {"colour": [0, 1]}, network().train()

    def spoiling(rows: Any) -> Any:
        rows[:] = 0
        return np.zeros((len(rows), 2))

    model = mask_tabular(spoiling, row, background=background)
    masks = all_masks(N)
    model(masks)
    np.testing.assert_array_equal(masks, all_masks(N))
    np.testing.assert_array_equal(model.rows(np.ones(N, dtype=bool)), ROW[None])
    mask_tabular(pipeline(table), one, background=table, groups=fill)(all_masks(4))
    mask_tabular(module, row, background=background)(masks)
    np.testing.assert_array_equal(row, ROW)
    np.testing.assert_array_equal(background, X)
    pd.testing.assert_frame_equal(table, people())
    pd.testing.assert_frame_equal(one, people().iloc[[4]])
    assert fill == {"colour": [0, 1]}
    assert all(part.training for part in module.modules())
    assert torch.is_grad_enabled()


def test_what_the_caller_changes_later_does_not_matter() -> None:
    row, background = ROW.copy(), X.copy()
    model = mask_tabular(linear, row, background=background, fill="background")
    before = model(all_masks(N))
    row[:], background[:] = 0, 0
    np.testing.assert_array_equal(model(all_masks(N)), before)


def test_global_generators_are_left_alone() -> None:
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    model = mask_tabular(network(), ROW, background=X, fill="background", rng=None)
    model(all_masks(N))
    after = random.getstate(), np.random.get_state()[1], torch.get_rng_state()  # noqa: NPY002
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])
    assert torch.equal(before[2], after[2])


# -- bad input, before any call of the classifier -----------------------------------------------------------------


def never(rows: Any) -> Any:
    raise AssertionError("the classifier was called")


def with_infinity(values: Any, at: int) -> Any:
    return np.where(np.arange(N) == at, np.inf, values)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            {"row": [1.0, np.inf]},
            InvalidValueError,
            r"^`row` must have no infinite values, got inf in column 1\.",
        ),
        (
            {"row": with_infinity(ROW, 2), "columns": list("abcdef")},
            InvalidValueError,
            r"^`row` must have no infinite values, got inf in column 'c'\.",
        ),
        (
            {"background": [ROW, with_infinity(ROW, 3)]},
            InvalidValueError,
            r"^`background` .* in column 3 of row 1\.",
        ),
        ({"background": X[:0]}, InvalidValueError, r"^`background` must have at least one row, got none\."),
        ({"row": X[:2]}, InvalidValueError, r"like the row, got .* Pass one row, such as `rows\[0\]`\."),
        ({"background": X[:, :4]}, InvalidValueError, r"^`background` must have shape \(m, 6\) like the row, got"),
        ({"background": ROW}, InvalidValueError, r"^`background` must have shape \(m, 6\) like the row, got \(6,\)"),
        ({"background": None}, InvalidValueError, r"^`background` must be given for fill='mean', got None\."),
        ({"background": None, "fill": "mode"}, InvalidValueError, r"^`background` must be given for fill='mode'"),
        ({"background": None, "fill": "background"}, InvalidValueError, r"^`background` must be given for"),
        (
            {"row": np.array([1, "a"], dtype=object)},
            InvalidTypeError,
            r"^`row` must be an array of numbers, got object",
        ),
        ({"row": ["a", "b"]}, InvalidTypeError, r"^`row` must be an array of numbers, got <U1\. Pass mixed columns as"),
        ({"background": X.astype(object)}, InvalidTypeError, r"^`background` must be an array of numbers, got object"),
        ({"row": X[:1]}, InvalidValueError, r"^`row` must be one row \(d,\), .* got shape \(1, 6\)\. Take one row"),
        ({"row": []}, InvalidValueError, r"^`row` must be one row"),
        ({"row": 3.0}, InvalidValueError, r"^`row` must be one row"),
        ({"columns": ["a"]}, InvalidValueError, r"^`columns` must have one name per column of the row \(6\), got 1\."),
        ({"columns": list("aabcde")}, InvalidValueError, r"^`columns` must have distinct columns, got 'a' more than"),
        ({"groups": [0, 2, 2, 2, 2, 2]}, InvalidValueError, r"^`groups` must use every feature number from 0 to 2"),
        ({"groups": {"a": ["b"]}}, InvalidValueError, r"^`groups` must name columns of the row"),
        (
            {"fill": "median"},
            InvalidValueError,
            r"^`fill` must be one of mean, mode, background, resample, missing, got 'med",
        ),
        ({"fill": [1.0, 2.0]}, InvalidValueError, r"^`fill` must be a number, .* of shape \(6,\), got shape \(2,\)"),
        ({"fill": None}, InvalidTypeError, r"^`fill` must be a number, .*, got None\."),
        ({"fill": ["a"] * 6}, InvalidTypeError, r"^`fill` must be numbers, got 'a' for 0\."),
        ({"fill": {0: 1.0}}, InvalidValueError, r"^`fill` must have a value for every column .* none for 1, 2, 3, 4"),
        ({"fill": {"z": 1.0}}, InvalidValueError, r"^`fill` must name columns of the row"),
        ({"n_background": 0}, InvalidValueError, r"^`n_background` must be a whole number ≥ 1, got 0\."),
        ({"batch_size": 0}, InvalidValueError, r"^`batch_size` must be a whole number ≥ 1, got 0\."),
        ({"rng": -1}, InvalidValueError, r"^`rng` must be"),
        ({"device": "cpu"}, InvalidValueError, r"^`device` and `dtype` must be None unless"),
        ({"classifier": 3}, InvalidTypeError, r"^`classifier` must be a callable on rows, .* got int\."),
        (
            {"classifier": "model.pkl"},
            InvalidValueError,
            r"^`classifier` must be an ONNX file \(\.onnx\).*'model\.pkl'",
        ),
        (
            {"classifier": "none.onnx"},
            InvalidValueError,
            r"^`classifier` must be .*\.onnx file, got 'none\.onnx'",
        ),
        (
            {"classifier": FITTED["proba"], "row": ROW[:4], "background": X[:, :4]},
            ColumnsError,
            r"^`row` must have the 6 columns the classifier was fitted on, got 4\.",
        ),
    ],
)
def test_bad_arrays_are_refused_before_the_first_call(asked: Any, error: type[Exception], message: str) -> None:
    given = {"classifier": never, "row": ROW, "background": X} | asked
    with pytest.raises(error, match=message):
        mask_tabular(given.pop("classifier"), given.pop("row"), **given)


def spoiled(**columns: Any) -> pd.Series:
    row = people().iloc[4].astype(object)
    for name, value in columns.items():
        row[name] = value
    return row


@pytest.mark.parametrize(
    ("row", "asked", "error", "message"),
    [
        (
            spoiled(city="Paris"),
            {},
            InvalidValueError,
            r"^`row` must have a known category in column 'city' \(.*'Rome'.*\), got 'Paris'\.",
        ),
        (spoiled(job="king"), {}, InvalidValueError, r"^`row` must have a known category in column 'job' .*'king'"),
        (spoiled(age="old"), {}, InvalidTypeError, r"^`row` must have a number in column 'age'.* got 'old'\."),
        (people().iloc[:2], {}, InvalidValueError, r"^`row` must be a Series or a frame of one row, got 2 rows\."),
        (
            people().iloc[4],
            {"background": people().drop(columns="age")},
            InvalidValueError,
            r"^`background` must have the columns 'age'",
        ),
        (
            people().iloc[4],
            {"background": people()[:0]},
            InvalidValueError,
            r"^`background` must have at least one row",
        ),
        (
            people().iloc[4],
            {"background": people().assign(income=np.inf)},
            InvalidValueError,
            r"^`background` must have no infinite values, got inf in column 'income' of row 0\.",
        ),
        (people().iloc[4], {"columns": ["nose"]}, InvalidValueError, r"^`row` must have the columns 'nose'"),
        (people().iloc[4], {"fill": 0.0}, InvalidTypeError, r"^`fill` must be one of the categories of column 'city'"),
        (
            people().iloc[4],
            {"fill": {"age": 1, "city": "Paris", "income": 1.0, "job": "baker", "married": True}},
            InvalidValueError,
            r"^`fill` must have a known category in column 'city' .*, got 'Paris'\.",
        ),
        (
            people().iloc[[4]],
            {"background": None, "fill": {"age": 1, "city": "Rome", "income": 1.0, "job": "king", "married": True}},
            InvalidValueError,
            r"^`fill` must have a known category in column 'job' .*, got 'king'\.",
        ),
        (
            people().iloc[4],
            {"fill": {"age": "x", "city": "Rome", "income": 1.0, "job": "baker", "married": True}},
            InvalidTypeError,
            r"^`fill` must be a number for column 'age'",
        ),
        (people().iloc[4], {"fill": {"age": 1}}, InvalidValueError, r"^`fill` must have a value for every column"),
    ],
)
def test_bad_frames_are_refused_before_the_first_call(
    row: Any, asked: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mask_tabular(never, row, **({"background": people()} | asked))


def test_columns_an_estimator_was_not_fitted_on_are_named() -> None:
    table = people()
    fitted = pipeline(table)
    with pytest.raises(InvalidValueError, match=r"fitted on, got an extra 'pay'\. Choose columns with `columns=`,"):
        mask_tabular(fitted, table.assign(pay=1.0).iloc[4], background=table.assign(pay=1.0))
    renamed = table.rename(columns={"age": "years"})
    with pytest.raises(InvalidValueError, match=r"fitted on, got no 'age', an extra 'years'\."):
        mask_tabular(fitted, renamed.iloc[4], background=renamed)
    chosen = mask_tabular(fitted, table.assign(pay=1.0).iloc[4], background=table, columns=list(table.columns))
    assert chosen.n_features == 5


def test_an_estimator_fitted_on_columns_named_by_numbers_gets_them_back() -> None:
    table = people()
    table.columns = range(5)
    codes = ColumnTransformer([("numbers", StandardScaler(), [0, 2]), ("names", OneHotEncoder(), [1, 3, 4])])
    fitted = make_pipeline(codes, LogisticRegression()).fit(table, table[2] > 30)
    model = mask_tabular(fitted, table.iloc[4], background=table)
    check_masked_model(model, full_prediction=fitted.predict(table.iloc[[4]])[0], tolerance=1e-12)


def test_dates_and_nullable_columns_pass_through() -> None:
    table = pd.DataFrame(
        {
            "day": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-02"]),
            "count": pd.array([1, 2, 4], dtype="Int64"),
            "known": pd.array([True, True, False], dtype="boolean"),
        }
    )
    row = pd.DataFrame({"day": [pd.Timestamp("2025-05-05")], "count": [7], "known": [False]})
    rows = seen_by("mode", [[False] * 3, [True] * 3], row=row, background=table)
    assert rows.dtypes.tolist() == table.dtypes.tolist()
    assert rows.iloc[0].tolist() == [pd.Timestamp("2024-01-02"), 1, True]
    assert rows.iloc[1].tolist() == [pd.Timestamp("2025-05-05"), 7, False]
    means = seen_by("mean", [[False] * 3], row=row, background=table)
    assert means["count"].tolist() == [pytest.approx(7 / 3)]


@pytest.mark.parametrize(("value", "wanted"), [(0, False), (1.0, True), (True, True)])
def test_yes_or_no_columns_take_only_yes_or_no(value: Any, wanted: bool) -> None:
    table = people()[["age", "married"]]
    rows = seen_by({"age": 1, "married": value}, [[False, False]], row=table.iloc[4], background=table)
    assert rows.dtypes.tolist() == table.dtypes.tolist()
    assert rows["married"].tolist() == [wanted]
    with pytest.raises(InvalidTypeError, match=r"^`fill` must be one of the categories of column 'married' \(bool\)"):
        mask_tabular(never, table.iloc[4], background=table, fill=0.5)


def test_text_columns_are_refused_by_models_of_numbers() -> None:
    table = people()
    for classifier in (network(5), session()):
        asked = {"columns": ["age", "city"]} if isinstance(classifier, torch.nn.Module) else {}
        with pytest.raises((InvalidTypeError, InvalidValueError), match=r"^`row` must have"):
            mask_tabular(classifier, table.iloc[4], background=table, **asked)
    with pytest.raises(InvalidTypeError, match=r"numbers only for a classifier on arrays, got 'city' \(str\)"):
        mask_tabular(network(2), table.iloc[4], background=table, columns=["age", "city"])


def test_broken_and_unfit_onnx_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(onnx_model().SerializeToString()[:40])
    with pytest.raises(InvalidValueError, match=r"ONNX file .*broken\.onnx"):
        mask_tabular(path, ROW, fill=0.0)
    helper = onnx.helper
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["b", 3, 8, 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "images", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    with pytest.raises(
        InvalidValueError, match=r"^The ONNX model must have one input of floats, rows × columns, got x:"
    ):
        mask_tabular(path, ROW, fill=0.0)


@pytest.mark.parametrize("rows", [1, 5, 64, 100])
def test_an_onnx_model_exported_for_a_number_of_rows_is_asked_for_that_many(rows: int) -> None:
    free, fixed = (mask_tabular(one, ROW, background=X)(all_masks(N)) for one in (session(), session(rows=rows)))
    np.testing.assert_allclose(fixed, free, atol=1e-6)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros((3, 2)), r"^The classifier must return scores \(1, n_classes\).* got shape \(3, 2\)\."),
        (np.zeros((2, 1, 2)), r"got shape \(2, 1, 2\)\."),
        (0.0, r"got shape \(\)\."),
        ([[1.0], [1.0, 2.0]], r"^The model must return a regular array"),
    ],
)
def test_answers_of_the_wrong_shape_are_refused(answer: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        mask_tabular(lambda rows: answer, ROW, fill=0.0)(np.ones((1, N), dtype=bool))


@pytest.mark.parametrize("masks", [np.ones((2, N), dtype=int), np.ones(N, dtype=bool), np.ones((0, N), dtype=bool)])
def test_masks_of_another_type_or_shape_are_refused(masks: Any) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match=r"^`masks` must"):
        mask_tabular(never, ROW, fill=0.0)(masks)


def test_softmax_of_labels_is_refused() -> None:
    model = mask_tabular(lambda rows: rows[:, 0] > 0, ROW, fill=0.0, softmax=True)
    with pytest.raises(InvalidValueError, match=r"^`softmax` must be False for a classifier that returns labels"):
        model(np.ones((1, N), dtype=bool))


# -- wide tables, and tables of the wrong kind --------------------------------------------------------


def wide(n: int) -> pd.DataFrame:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, n)), columns=[f"c{i}" for i in range(n)])
    return frame.assign(c1=["a", "b"] * 20, c2=range(40), c3=np.arange(40) % 2 == 0, c4=np.float32(1.5))


@pytest.mark.parametrize("fill", ["mean", "background", 0.5])
def test_thousands_of_columns_are_bound_without_a_loop_over_them(fill: Any) -> None:
    """Counted in calls of Python functions, which do not depend on how busy the machine is."""
    frame = wide(3_000).drop(columns=["c1", "c3"])
    n_calls = 0

    def count(*event: Any) -> None:
        nonlocal n_calls
        n_calls += 1

    sys.setprofile(count)
    try:
        model = mask_tabular(lambda rows: rows[["c0", "c2"]].to_numpy(), frame.iloc[[3]], background=frame, fill=fill)
        model(np.ones((2, model.n_features), dtype=bool))
    finally:
        sys.setprofile(None)
    assert n_calls < 1000 * model.n_features  # ten thousand for each when every column was a series of its own


def test_fills_of_a_frame_are_those_that_pandas_takes_column_by_column_to_the_last_bit() -> None:
    frame = wide(30)
    model = mask_tabular(lambda rows: rows[["c0", "c2"]].to_numpy(), frame.iloc[[3]], background=frame)
    (hidden,) = model.rows(np.zeros(30, dtype=bool)).to_dict("records")
    for label, value in hidden.items():
        column = frame[label]
        numeric = label not in ("c1", "c3")
        assert value == (column.mean() if numeric else column.mode()[0]), label


def test_masked_frames_have_the_types_the_order_and_the_layout_of_frames_made_of_columns() -> None:
    frame = wide(30)
    row, masks = frame.iloc[[3]].reset_index(drop=True), np.random.default_rng(1).random((5, 30)) < 0.5
    for columns in (list(frame.columns), ["c0", *(f"c{i}" for i in range(29, 4, -1))]):
        model = mask_tabular(lambda rows: rows[["c0"]].to_numpy(), row[columns], background=frame, fill="background")
        for mask in masks[:, : len(columns)]:
            seen = model.rows(mask)
            drawn = seen.loc[:, ~mask].reset_index(drop=True)
            assert list(seen.columns) == columns
            assert seen.dtypes.to_dict() == frame[columns].dtypes.to_dict()
            for label in seen.columns[mask]:
                assert (seen[label] == row[label].iloc[0]).all()
            assert len(drawn) == 32
        if "c1" not in columns:
            assert seen.to_numpy().flags.f_contiguous


def dated(value: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list("abcdef")).assign(b=value)


@pytest.mark.parametrize("value", ["cheap", "2020-01-01", pd.Timestamp("2020-01-01")], ids=["text", "date", "time"])
def test_an_estimator_of_numbers_says_which_column_holds_none_and_what_to_do(value: Any) -> None:
    fitted, table = LogisticRegression().fit(pd.DataFrame(X, columns=list("abcdef")), Y), dated(value)
    model = mask_tabular(fitted, table.iloc[[0]], background=table)
    with pytest.raises(InvalidTypeError, match=r"Not numbers: 'b' \(.*\)\. Leave such columns out, encode them as"):
        certify(model, np.arange(6) < 2, radius=1, rng=0)


def test_an_error_of_an_estimator_on_numbers_comes_through_as_it_is() -> None:
    class Refusing(LogisticRegression):
        def predict_proba(self, rows: Any) -> Any:
            raise ValueError("mine")

    for row, fitted_on in ((X[0], X), (pd.DataFrame(X).iloc[[0]], pd.DataFrame(X))):
        model = mask_tabular(Refusing().fit(fitted_on, Y), row, fill=0.0)
        with pytest.raises(ValueError, match=r"^mine$"):
            model(np.ones((1, 6), dtype=bool))


def test_of_many_columns_only_some_are_named() -> None:
    table = pd.DataFrame({f"c{i}": ["x", "y"] for i in range(20)})
    known = LogisticRegression().fit(pd.DataFrame(X, columns=[f"d{i}" for i in range(N)]), Y)
    with pytest.raises(InvalidValueError, match=r"got no 'd0', .*, …\. Choose columns"):
        mask_tabular(known, table.iloc[[0]], background=table)


def test_tables_load_nothing_that_is_for_texts_images_or_other_runtimes() -> None:
    code = "import sys, holdfast.masking.table.mask_tabular; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = tuple(f"holdfast.masking.{room}" for room in ("text", "image", "onnx", "speed"))
    assert not [name for name in done.stdout.split() if name.startswith((*others, "torch", "pandas"))]

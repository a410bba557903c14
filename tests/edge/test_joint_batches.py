"""Rows of several inputs in one call: the scores of each alone, for every kind of model, and the same studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification, AutoTokenizer

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.fingerprints import function_key
from holdfast.masking.speed import layout_probe
from holdfast.study import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, MusSpec, SmoothingSpec, StudySpec
from holdfast.study.local import InProcess, Processes
from holdfast.study.on_ray import Ray
from holdfast.study.session import run_study
from holdfast.types import Joinable, Outputs
from tests.edge.test_mask_image import _onnx_file
from tests.helpers.study_support import digests, stored_scores
from tests.helpers.tiny_models import save_bert, save_resnet, save_roberta, save_vit, word_tokenizer

TEXTS = ("what a good day !", "bad night", "what a night", "a day", "good good good bad day what a day !", "bad")
LENGTHS = (5, 1, 12, 3, 7, 2)


def image(number: int, size: int = 16, channels: int = 3) -> Any:
    return torch.from_numpy(np.random.default_rng(number).random((channels, size, size), dtype=np.float32))


def pixels(number: int) -> Any:
    return np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)


def brightness(images: Any) -> Any:
    return np.stack([images[:, ::2].mean(axis=(1, 2, 3)), images[:, 1::2].mean(axis=(1, 2, 3))], axis=1)


def tensor_brightness(images: Any) -> Any:
    return torch.stack([images[:, 0].mean(dim=(1, 2)), images[:, 1].mean(dim=(1, 2))], dim=1)


def moods(texts: list[str]) -> Any:
    return np.array([[text.count("a"), text.count("o")] for text in texts], dtype=float)


def verdict(text: str) -> str:
    return "good" if "good" in text else "bad"


def row(number: int) -> Any:
    return np.random.default_rng(number).normal(size=5)


BACKGROUND = np.random.default_rng(7).normal(size=(20, 5))
FRAME = pd.DataFrame(BACKGROUND, columns=list("abcde")).assign(f=["x", "y"] * 10)


def sums(rows: Any) -> Any:
    return np.stack([rows.sum(axis=1), -rows.sum(axis=1)], axis=1)


def frame_sums(rows: Any) -> Any:
    return sums(rows[list("abcde")].to_numpy() + (rows["f"] == "x").to_numpy()[:, None])


def from_folder(save: Callable[[Path], Path], kind: Any, folder: Path) -> Any:
    return kind.from_pretrained(save(folder)).eval()


def binders(folder: Path) -> dict[str, Callable[[int], Any]]:
    """Input number → the input, bound; all inputs of a name can go together."""
    vit = from_folder(save_vit, AutoModelForImageClassification, folder / "vit")
    resnet = from_folder(save_resnet, AutoModelForImageClassification, folder / "resnet")
    bert = from_folder(save_bert, AutoModelForSequenceClassification, folder / "bert")
    roberta = from_folder(save_roberta, AutoModelForSequenceClassification, folder / "roberta")
    words = AutoTokenizer.from_pretrained(folder / "bert")
    session = onnxruntime.InferenceSession(
        str(_onnx_file(folder / "model.onnx", ["b", 3, 6, 6])), providers=["CPUExecutionProvider"]
    )
    estimator = LogisticRegression().fit(BACKGROUND, np.arange(20) % 3)
    linear = torch.nn.Linear(5, 3)
    return {
        "network": lambda i: hf.mask_image(resnet, image(i, 24), groups=(4, 4)),
        "probabilities": lambda i: hf.mask_image(resnet, image(i, 24), groups=(4, 4), softmax=True),
        "transformer": lambda i: hf.mask_image(vit, image(i), groups=(4, 4), fill=0.5),
        "dropped patches": lambda i: hf.mask_image(vit, image(i), groups=(2, 4), fill="drop"),
        "function of tensors": lambda i: hf.mask_image(tensor_brightness, image(i), groups=(4, 4)),
        "function of arrays": lambda i: hf.mask_image(brightness, pixels(i), groups=(4, 4)),
        "ONNX": lambda i: hf.mask_image(session, image(i, 6), groups=(3, 3)),
        "tokens left out": lambda i: hf.mask_text(bert, TEXTS[i], tokenizer=words),
        "RoBERTa": lambda i: hf.mask_text(roberta, TEXTS[i], tokenizer=words),
        "mask tokens": lambda i: hf.mask_text(bert, TEXTS[4][: 4 + i], tokenizer=words, fill="mask", max_length=3),
        "scores of texts": lambda i: hf.mask_text(moods, TEXTS[i]),
        "labels of texts": lambda i: hf.mask_text(verdict, TEXTS[i], batched=False),
        "segments": lambda i: hf.mask_text(verdict, segments=TEXTS[i].split()),
        "rows": lambda i: hf.mask_tabular(sums, row(i), fill=0.0),
        "averaged rows": lambda i: hf.mask_tabular(sums, row(i), background=BACKGROUND, fill="background"),
        "frames": lambda i: hf.mask_tabular(frame_sums, FRAME.iloc[i], background=FRAME),
        "estimator": lambda i: hf.mask_tabular(estimator, row(i), background=BACKGROUND),
        "labels of rows": lambda i: hf.mask_tabular(estimator.predict, row(i), background=BACKGROUND),
        "module on rows": lambda i: hf.mask_tabular(linear, row(i), fill=0.0),
    }


NAMES = (
    *("network", "probabilities", "transformer", "dropped patches", "function of tensors", "function of arrays"),
    *("ONNX", "tokens left out", "RoBERTa", "mask tokens", "scores of texts", "labels of texts", "segments"),
    *("rows", "averaged rows", "frames", "estimator", "labels of rows", "module on rows"),
)


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    found = binders(tmp_path_factory.mktemp("models"))
    assert tuple(found) == NAMES
    return {name: [bind(number) for number in range(6)] for name, bind in found.items()}


def masks_of(model: Any, n: int, seed: int) -> Any:
    masks = np.random.default_rng(seed).random((n, model.n_features)) < 0.5
    masks[0] = False
    masks[-1] = True
    return masks


def same(first: Outputs, second: Outputs) -> bool:
    """Equal but for rounding, which is a share of the largest score: small ones are differences of large numbers."""
    if first.dtype.kind == "f":
        return first.shape == second.shape and bool(np.abs(first - second).max() <= 5e-6 * np.abs(second).max())
    return first.tolist() == second.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_inputs_computed_together_are_those_of_each_alone(bound: dict[str, list[Any]], name: str) -> None:
    models = bound[name]
    assert all(isinstance(model, Joinable) for model in models)
    assert len({model.join_key for model in models}) == 1
    assert models[0].join_key is not None
    for lengths in (LENGTHS, (1, 1, 1, 1, 1, 1), (40, 1, 1, 2, 2, 3)):
        parts = [(model, masks_of(model, n, n)) for model, n in zip(models, lengths, strict=True)]
        together = models[0].score_jointly(parts)
        assert all(same(outputs, model(masks)) for outputs, (model, masks) in zip(together, parts, strict=True))


def test_inputs_of_other_models_shapes_or_options_do_not_go_together(bound: dict[str, list[Any]]) -> None:
    keys = {name: models[0].join_key for name, models in bound.items()}
    alike = {"segments": "labels of texts", "averaged rows": "rows"}  # the same function of the same kind of inputs
    assert all(keys[name] == keys[other] for name, other in alike.items())
    assert len(set(keys.values())) == len(NAMES) - len(alike)
    module = bound["network"][0].module
    assert hf.mask_image(module, image(0, 24), groups=(2, 2)).join_key == keys["network"]
    assert hf.mask_image(module, image(0, 32), groups=(4, 4)).join_key != keys["network"]
    bert, words = bound["tokens left out"][0].module, word_tokenizer()
    assert hf.mask_text(bert, "a day", tokenizer=words, fill="delete").join_key is None
    assert hf.mask_text(bert, "a day", tokenizer=words, softmax=True).join_key != keys["tokens left out"]
    assert hf.mask_tabular(sums, row(0)[:4], fill=0.0).join_key != keys["rows"]
    retyped = FRAME.assign(a=FRAME["a"].astype("float32"))
    assert hf.mask_tabular(frame_sums, retyped.iloc[0], background=retyped).join_key != keys["frames"]


class Unhashable:
    """A callable that is no key."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, rows: Any) -> Any:
        return sums(rows)


def test_callables_that_cannot_be_told_apart_go_alone() -> None:
    assert function_key(Unhashable()) is None
    assert hf.mask_tabular(Unhashable(), row(0), fill=0.0).join_key is None
    assert hf.mask_image(Unhashable(), pixels(0)).join_key is None
    assert hf.mask_image(Unhashable(), image(0)).join_key is None
    assert hf.mask_text(Unhashable(), "a day").join_key is None
    assert hf.mask_function(sums, n_features=3)(np.eye(3, dtype=bool)).shape == (3, 2)
    assert not isinstance(hf.mask_function(sums, n_features=3), Joinable)


def test_partial_functions_are_alike_only_if_their_arguments_are() -> None:
    def key(*arguments: Any, **named: Any) -> Any:
        return function_key(partial(max, *arguments, **named))

    assert key("a", (1, 2), default=3) == key("a", (1, 2), default=3)
    assert key(1) != key(True)
    assert key((1, 2)) != key((True, 2))
    assert key(("default", 1)) != key(default=1)
    assert key([1]) is None


def test_categories_in_another_order_do_not_go_together() -> None:
    def codes(rows: Any) -> Any:
        return sums(rows["c"].cat.codes.to_numpy()[:, None])

    frames = [
        pd.DataFrame({"a": [0.0, 1.0], "c": pd.Categorical(["x", "y"], categories=[*order])}) for order in ("xy", "yx")
    ]
    first, second = (hf.mask_tabular(codes, frame.iloc[[0]], background=frame) for frame in frames)
    assert first.join_key != second.join_key


def test_joint_batches_of_rows_have_no_more_rows_than_were_asked_for() -> None:
    sizes: list[int] = []

    def counted(rows: Any) -> Any:
        sizes.append(len(rows))
        return sums(rows)

    options: dict[str, Any] = {"background": BACKGROUND, "fill": "background", "batch_size": 40}
    models = [hf.mask_tabular(counted, row(number), **options) for number in range(4)]
    parts = [(model, masks_of(model, 3, 3)) for model in models]
    together = models[0].score_jointly(parts)
    assert max(sizes) <= 40
    assert all(same(outputs, model(masks)) for outputs, (model, masks) in zip(together, parts, strict=True))


def test_answers_that_cannot_be_shared_out_are_refused() -> None:
    missing = hf.mask_tabular(lambda rows: np.full((len(rows), 2), np.nan), row(0), fill=0.0)
    with pytest.raises(ModelError, match="NaN"):
        missing.score_jointly([(missing, np.ones((1, 5), dtype=bool))])


def test_networks_compute_joint_batches_in_the_layout_that_is_fastest(bound: dict[str, list[Any]]) -> None:
    models = bound["network"]
    probe = layout_probe(models[0].module, models[0].batches.image)
    parts = [(model, masks_of(model, 8, 3)) for model in models]
    for channels_last in (True, False):
        probe.channels_last = channels_last
        for first in (models[0], models[0].without_probes()):
            together = first.score_jointly(parts)
            assert all(same(outputs, model(masks)) for outputs, (model, masks) in zip(together, parts, strict=True))
    assert probe.allows_last


# -- studies ----------------------------------------------------------------------------------------

SOURCES = {
    "images": ("bundled:digits-vit", "bundled:digits", MaskingSpec()),
    "texts": ("bundled:vader", "bundled:sentences", MaskingSpec("words")),
    "tables": ("bundled:cancer-forest", "bundled:cancer", MaskingSpec()),
}


def spec_of(kind: str, n: int = 5, **changes: Any) -> StudySpec:
    """A study of a bundled model of each kind."""
    model, data, masking = SOURCES[kind]
    asked: dict[str, Any] = {
        "methods": (MethodSpec("occlusion"), MethodSpec("random")),
        "certify": CertifySpec(radii=(1, 4), tolerance=0.2),
        "seed": 3,
    }
    return StudySpec(ModelSpec(model), DataSpec(data, n=n), masking=masking, **(asked | changes))


def check_sharing(spec: StudySpec, folder: Path, n_opens: tuple[int, ...], batch_sizes: tuple[int, ...]) -> None:
    """The same items, draw for draw, as one input after the other, whatever is open and however batches are cut."""
    run_study(spec, folder / "alone.db", engine=InProcess(n_open=1))
    alone, scores = digests(folder / "alone.db"), stored_scores(folder / "alone.db")
    assert len(alone) == spec.data.n * len(spec.groups)
    for n_open in n_opens:
        path = folder / f"{n_open}.db"
        run_study(spec, path, engine=InProcess(n_open=n_open))
        assert digests(path) == alone
        assert stored_scores(path) == scores, "explanations share no batches"
    for batch_size in batch_sizes:
        path = folder / f"batches{batch_size}.db"
        run_study(replace(spec, batch_size=batch_size), path)
        assert digests(path) == alone


@pytest.mark.parametrize("kind", SOURCES)
def test_items_are_the_same_whatever_is_open_and_however_batches_are_cut(kind: str, tmp_path: Path) -> None:
    check_sharing(spec_of(kind), tmp_path, (2, 32), (9,))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_smoothed_models_votes_and_witnesses_share_batches_too(kind: str, tmp_path: Path) -> None:
    asked = {"smoothing": SmoothingSpec((1.0, 0.75), n_samples=8), "mus": MusSpec((0.5,), n_levels=8), "witness": True}
    methods = (MethodSpec("lime", n_samples=60), MethodSpec("occlusion"), MethodSpec("random"))
    check_sharing(spec_of(kind, 6, methods=methods, **asked), tmp_path, (2, 8, 32), (7, 256))


def test_items_are_the_same_with_worker_processes(tmp_path: Path) -> None:
    spec = spec_of("texts", 8)
    run_study(spec, tmp_path / "alone.db", engine=InProcess(n_open=1))
    run_study(spec, tmp_path / "processes.db", engine=Processes(2, n_open=3))
    assert digests(tmp_path / "processes.db") == digests(tmp_path / "alone.db")


@pytest.mark.slow
def test_items_are_the_same_on_ray(tmp_path: Path) -> None:
    spec = spec_of("texts", 12)
    run_study(spec, tmp_path / "alone.db", engine=InProcess(n_open=1))
    for n_open in (None, 3):
        path = tmp_path / f"{n_open}.db"
        run_study(spec, path, engine=Ray(2, n_open=n_open))
        assert digests(path) == digests(tmp_path / "alone.db")

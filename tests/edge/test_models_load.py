"""Hugging Face folders load as transformers loads them, and nothing else changes."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import logging as transformers_logging

from holdfast import HoldfastError
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.inputs.models import Classifier, load
from tests.helpers.tiny_models import COLOURS, MAX_TOKENS, MOODS, SAVERS, WORDS, save_bert, save_vit

torch.set_num_threads(1)

TEXTS = ["what a good day !", "bad", "a night", "what night ! what day !"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("folders")
    return {name: save(root / name) for name, save in SAVERS.items()}


@pytest.fixture
def copy_of(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a folder that a test may damage."""
    return lambda name: Path(shutil.copytree(folders[name], tmp_path / name))


def photos(n: int = 5, size: tuple[int, int] = (20, 30)) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for _ in range(n)]


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# -- the same as transformers -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vit", "resnet"])
def test_image_scores_equal_those_of_transformers(folders: dict[str, Path], name: str) -> None:
    classifier = load(f"hf:{folders[name]}")
    processor = AutoImageProcessor.from_pretrained(folders[name], backend="pil")
    module = AutoModelForImageClassification.from_pretrained(folders[name]).eval()
    with torch.inference_mode():
        truth = module(**processor(images=photos(), return_tensors="pt")).logits.numpy()
    scores = classifier.predict(photos())
    np.testing.assert_allclose(scores, truth, atol=1e-5)
    assert (classifier.kind, classifier.classes) == ("image", COLOURS)
    assert np.ptp(scores, axis=0).max() > 1e-3, "the model does not tell images apart: the test shows nothing"


@pytest.mark.parametrize("name", ["roberta", "bert"])
def test_text_scores_equal_those_of_transformers(folders: dict[str, Path], name: str) -> None:
    classifier = load(f"hf:{folders[name]}")
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    module = AutoModelForSequenceClassification.from_pretrained(folders[name]).eval()
    with torch.inference_mode():
        truth = module(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits.numpy()
    scores = classifier.predict(TEXTS)
    np.testing.assert_allclose(scores, truth, atol=1e-5)
    assert (classifier.kind, classifier.classes) == ("text", MOODS)
    assert np.ptp(scores, axis=0).max() > 1e-3, "the model does not tell texts apart: the test shows nothing"


@pytest.mark.parametrize("name", SAVERS)
def test_scores_do_not_depend_on_the_batch_size(folders: dict[str, Path], name: str) -> None:
    classifier = load(f"hf:{folders[name]}")
    inputs: list[Any] = photos() if classifier.kind == "image" else TEXTS
    whole = classifier.predict(inputs)
    for batch_size in (1, 2, 64):
        np.testing.assert_allclose(classifier.predict(inputs, batch_size=batch_size), whole, atol=1e-5)


def test_one_image_gets_the_same_scores_in_whatever_form_it_comes(folders: dict[str, Path], tmp_path: Path) -> None:
    classifier = load(f"hf:{folders['vit']}")
    (photo,) = photos(1)
    array = np.asarray(photo)
    photo.save(tmp_path / "photo.png")
    forms = [photo, array, array / 255, torch.from_numpy(array.transpose(2, 0, 1).copy()), tmp_path / "photo.png"]
    forms += [str(tmp_path / "photo.png"), photo.convert("RGBA")]
    scores = classifier.predict(forms)
    np.testing.assert_allclose(scores, np.repeat(scores[:1], len(forms), axis=0), atol=1e-6)
    np.testing.assert_allclose(classifier.predict(array[None]), scores[:1], atol=1e-6)


def test_a_half_precision_checkpoint_loads_as_float32_unless_asked(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("bert")
    halves = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    edit_json(folder / "config.json", dtype="float16")
    classifier, half = load(f"hf:{folder}"), load(f"hf:{folder}", dtype="float16")
    assert {p.dtype for p in classifier.engine.runner.module.parameters()} == {torch.float32}
    assert {p.dtype for p in half.engine.runner.module.parameters()} == {torch.float16}
    assert classifier.predict(TEXTS).dtype == np.float32
    assert half.fingerprint != classifier.fingerprint


def test_models_are_in_evaluation_mode_and_ask_for_no_gradients(folders: dict[str, Path]) -> None:
    module = load(f"hf:{folders['roberta']}").engine.runner.module
    assert not any(part.training for part in module.modules())
    assert not any(p.requires_grad for p in module.parameters())


def test_longer_texts_are_refused_or_cut_where_asked(folders: dict[str, Path]) -> None:
    long = " ".join(["day"] * MAX_TOKENS)
    with pytest.raises(InvalidValueError, match=f"at most {MAX_TOKENS} tokens.*got {MAX_TOKENS + 2}"):
        load(f"hf:{folders['roberta']}").predict([long])
    cut = load(f"hf:{folders['roberta']}", max_length=8)
    np.testing.assert_allclose(cut.predict([long]), cut.predict([" ".join(["day"] * 6)]), atol=1e-6)
    assert cut.fingerprint != load(f"hf:{folders['roberta']}").fingerprint


# -- fingerprints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAVERS)
def test_fingerprints_are_stable_across_loads_and_folders(
    folders: dict[str, Path], copy_of: Callable[[str], Path], name: str
) -> None:
    first, again, moved = (load(f"hf:{folder}") for folder in (folders[name], folders[name], copy_of(name)))
    assert first.fingerprint == again.fingerprint == moved.fingerprint
    assert len(str(first.fingerprint)) == 64


def test_fingerprints_tell_weights_apart(folders: dict[str, Path], copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("vit")
    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.bias"][0] += 1e-3
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert load(f"hf:{folder}").fingerprint != load(f"hf:{folders['vit']}").fingerprint


@pytest.mark.parametrize(
    ("name", "file", "changes"),
    [
        ("vit", "preprocessor_config.json", {"image_mean": [0.1, 0.5, 0.5]}),
        ("vit", "preprocessor_config.json", {"resample": 3}),
        ("vit", "config.json", {"hidden_act": "relu"}),
        ("bert", "tokenizer_config.json", {"model_max_length": 9}),
    ],
)
def test_fingerprints_tell_preprocessing_and_configuration_apart(
    folders: dict[str, Path], copy_of: Callable[[str], Path], name: str, file: str, changes: dict[str, Any]
) -> None:
    folder = copy_of(name)
    edit_json(folder / file, **changes)
    assert load(f"hf:{folder}").fingerprint != load(f"hf:{folders[name]}").fingerprint


def test_fingerprints_do_not_depend_on_the_version_that_wrote_the_folder(
    folders: dict[str, Path], copy_of: Callable[[str], Path]
) -> None:
    folder = copy_of("vit")
    edit_json(folder / "config.json", transformers_version="4.45.0", _name_or_path="elsewhere")
    assert load(f"hf:{folder}").fingerprint == load(f"hf:{folders['vit']}").fingerprint


# -- damage and danger ------------------------------------------------------------------------------


def damage_pickles_only(folder: Path) -> str:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return r"only pickled weights \(pytorch_model\.bin\)"


def damage_no_weights(folder: Path) -> str:
    (folder / "model.safetensors").unlink()
    return "must have model.safetensors; it has no weights"


def damage_truncated_weights(folder: Path) -> str:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    return r"model\.safetensors' is not a complete safetensors file"


def damage_truncated_header(folder: Path) -> str:
    (folder / "model.safetensors").write_bytes(b"\xff\xff")
    return r"model\.safetensors' is not a complete safetensors file"


def damage_missing_tensor(folder: Path) -> str:
    tensors = load_file(folder / "model.safetensors")
    del tensors["classifier.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return r"1 are missing \(first: 'classifier\.weight'\)"


def damage_other_shape(folder: Path) -> str:
    edit_json(folder / "config.json", intermediate_size=12)
    return "have another shape than config.json says"


def damage_corrupt_config(folder: Path) -> str:
    (folder / "config.json").write_text('{"architectures": [')
    return r"config\.json' must be valid JSON"


def damage_config_of_another_shape(folder: Path) -> str:
    (folder / "config.json").write_text("[1, 2]")
    return r"config\.json' must hold a JSON object, got list"


def damage_no_config(folder: Path) -> str:
    (folder / "config.json").unlink()
    return r"must have a config\.json"


def damage_remote_code(folder: Path) -> str:
    (folder / "code.py").write_text("raise SystemExit('remote code was run')")
    classes = {"AutoConfig": "code.Config", "AutoModelForImageClassification": "code.Model"}
    edit_json(folder / "config.json", model_type="strange", architectures=["Model"], auto_map=classes)
    return "needs code of its own.*never run"


def damage_remote_kernels(folder: Path) -> str:
    edit_json(folder / "config.json", _attn_implementation="someone/kernels")
    return "asks for remote code.*someone/kernels"


def damage_wrong_architecture(folder: Path) -> str:
    edit_json(folder / "config.json", architectures=["ViTModel"])
    return "must be an image or text classifier.*names ViTModel"


def damage_corrupt_preprocessing(folder: Path) -> str:
    (folder / "preprocessor_config.json").write_text("{")
    return "could not read the image processor"


def damage_no_preprocessing(folder: Path) -> str:
    (folder / "preprocessor_config.json").unlink()
    return "could not read the image processor"


def damage_index_that_leads_away(folder: Path) -> str:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    index = {"weight_map": {"classifier.weight": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return r"must name safetensors files beside it, got '\.\./elsewhere\.safetensors'"


DAMAGE = [value for name, value in sorted(globals().items()) if name.startswith("damage_")]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damaged_and_dangerous_folders_are_refused_by_name(
    copy_of: Callable[[str], Path], damage: Callable[[Path], str], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of("vit")
    message = damage(folder)
    capfd.readouterr()
    with pytest.raises(InvalidValueError, match=message) as caught:
        load(f"hf:{folder}")
    assert "vit" in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_regression_is_no_classifier(tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "regression", n_labels=1)
    with pytest.raises(InvalidValueError, match="at least 2 classes"):
        load(f"hf:{folder}")


def test_weights_in_parts_load_like_weights_in_one_file(
    folders: dict[str, Path], copy_of: Callable[[str], Path]
) -> None:
    folder = copy_of("vit")
    (folder / "model.safetensors").unlink()
    AutoModelForImageClassification.from_pretrained(folders["vit"]).save_pretrained(folder, max_shard_size="8KB")
    assert not (folder / "model.safetensors").exists()
    assert load(f"hf:{folder}").fingerprint == load(f"hf:{folders['vit']}").fingerprint


def test_pickles_beside_safetensors_are_not_opened(folders: dict[str, Path], copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("vit")
    (folder / "pytorch_model.bin").write_bytes(b"not even a pickle")
    assert load(f"hf:{folder}").fingerprint == load(f"hf:{folders['vit']}").fingerprint


# -- bad requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hff:x", r"must start with one of hf:.*Did you mean 'hf:x'\?"),
        ("skop:x", r"Did you mean 'skops:x'\?"),
        ("vit", "must start with one of"),
        ("", "must start with one of"),
        ("hf:", "must be hf:<hub id or folder>"),
        ("hf:/no/such/folder", "existing folder or a hub id, got '/no/such/folder'"),
        ("hf:./none", "existing folder or a hub id"),
        ("bundled:digits-resne", r"Did you mean 'digits-resnet'\?"),
    ],
)
def test_specs_that_name_nothing_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        load(spec)


@pytest.mark.parametrize("scheme", ["", "sklearn:"])
@pytest.mark.parametrize("name", ["m.joblib", "m.pkl", "m.pickle", "M.PKL"])
def test_a_pickle_without_its_scheme_is_refused_as_one(scheme: str, name: str) -> None:
    refused = rf"'{name}' is refused: it is a pickle, which runs code"
    told = rf"got '{scheme}{name}'\. {refused}.*Save the estimator with `skops\.io\.dump"
    with pytest.raises(InvalidValueError, match=told):
        load(f"{scheme}{name}")


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("m.onnx", "onnx:m.onnx"),
        ("nets/M.ONNX", "onnx:nets/M.ONNX"),
        ("file:m.skops", "skops:m.skops"),
        ("vader", "bundled:vader"),
        ("HF:google/vit", "hf:google/vit"),
    ],
)
def test_a_model_without_its_scheme_is_recognised_by_its_name(spec: str, meant: str) -> None:
    with pytest.raises(InvalidValueError, match=rf"got '{spec}'\. Did you mean '{meant}'\?$"):
        load(spec)


def test_a_folder_without_its_scheme_is_recognised(folders: dict[str, Path]) -> None:
    with pytest.raises(InvalidValueError, match=r"Did you mean 'hf:.*'\?$") as caught:
        load(str(folders["vit"]))
    assert load(str(caught.value).split("'")[-2]).kind == "image"


def test_specs_must_be_strings() -> None:
    with pytest.raises(InvalidTypeError, match="`model` must start with"):
        load(3)  # type: ignore[arg-type]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(InvalidValueError, match="got the file"):
        load(f"hf:{tmp_path / 'model.safetensors'}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "text"}, "`kind` must be 'image'"),
        ({"dtype": "int8"}, "`dtype` must be a floating number type"),
        ({"dtype": "float"}, None),
        ({"device": "moon"}, "`device` must be a device that torch can use"),
        ({"device": "cuda:99"}, "`device` must be a device that torch can use"),
        ({"preprocess": str}, "`preprocess` must be an option of hf: models"),
        ({"trusted": ["a.B"]}, "`trusted` must be an option of hf: models"),
        ({"trusted": "a.B"}, "`trusted` must be a list of type names"),
        ({"revision": "main"}, "`revision` must be left out for a folder"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    folders: dict[str, Path], options: dict[str, Any], message: str | None
) -> None:
    if message is None:
        assert load(f"hf:{folders['vit']}", **options).kind == "image"
        return
    with pytest.raises(HoldfastError, match=message):
        load(f"hf:{folders['vit']}", **options)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ("a good day", InvalidTypeError, "list of texts, got one str"),
        ([], InvalidValueError, "at least one entry"),
        (["good", 3], InvalidTypeError, "must be texts, got one int: 3"),
        (None, InvalidTypeError, "list of texts"),
    ],
)
def test_inputs_that_are_no_list_of_texts_are_refused(
    folders: dict[str, Path], inputs: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load(f"hf:{folders['bert']}").predict(inputs)


def test_inputs_that_are_no_images_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    classifier = load(f"hf:{folders['vit']}")
    (tmp_path / "text.png").write_text("no image")
    bad: list[tuple[Any, str]] = [
        (photos(1)[0], "list of images"),
        (np.zeros((20, 20, 3), np.uint8), "list of images"),
        ([np.full((20, 20, 3), 7.0)], "fractions from 0 to 1"),
        ([np.zeros((20, 20, 2), np.uint8)], "1, 3 or 4 channels"),
        ([tmp_path / "text.png"], "text.png"),
        ([tmp_path / "none.png"], "none.png"),
        ([Image.new("I", (20, 20))], "8 bits per channel"),
    ]
    for inputs, message in bad:
        with pytest.raises(HoldfastError, match=message):
            classifier.predict(inputs)


def test_a_decompression_bomb_is_refused(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos(1, (40, 40))[0].save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InvalidValueError, match=r"bomb\.png"):
        load(f"hf:{folders['vit']}").predict([tmp_path / "bomb.png"])


def test_a_wrong_number_of_columns_is_found() -> None:
    class Wrong:
        def score(self, inputs: Any, /) -> Any:
            return np.zeros((len(inputs), 3))

        def bind(self, one: Any, /, **settings: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(ModelError, match="3 columns for 2 classes"):
        Classifier("table", ("a", "b"), None, Wrong()).predict([[1.0]])


# -- nothing global changes -------------------------------------------------------------------------


def global_state() -> dict[str, Any]:
    names = ("transformers", "huggingface_hub", None)
    return {
        "dtype": torch.get_default_dtype(),
        "torch": torch.random.get_rng_state().tolist(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "random": random.getstate(),
        "levels": [logging.getLogger(name).level for name in names],
        "bars": transformers_logging.is_progress_bar_enabled(),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "environment": dict(os.environ),
    }


@pytest.mark.parametrize("level", [logging.WARNING, logging.DEBUG])
@pytest.mark.parametrize("bars", [True, False])
def test_loading_and_predicting_is_silent_and_changes_nothing_global(
    folders: dict[str, Path], capfd: pytest.CaptureFixture[str], level: int, bars: bool
) -> None:
    before = logging.getLogger("transformers").level, transformers_logging.is_progress_bar_enabled()
    logging.getLogger("transformers").setLevel(level)
    (transformers_logging.enable_progress_bar if bars else transformers_logging.disable_progress_bar)()
    try:
        state = global_state()
        capfd.readouterr()
        for name in ("vit", "bert"):
            load(f"hf:{folders[name]}")
        with pytest.raises(InvalidValueError):
            load("hf:/no/such/folder")
        assert global_state() == state
        if level == logging.WARNING:
            assert load(f"hf:{folders['vit']}").predict(photos()).shape == (5, 3)
            assert load(f"hf:{folders['bert']}").predict(TEXTS).shape == (4, 4)
            assert global_state() == state
        assert capfd.readouterr() == ("", "")
    finally:
        logging.getLogger("transformers").setLevel(before[0])
        (transformers_logging.enable_progress_bar if before[1] else transformers_logging.disable_progress_bar)()


def test_the_words_of_the_tokenizer_are_those_of_the_tests(folders: dict[str, Path]) -> None:
    assert set(" ".join(TEXTS).split()) <= set(WORDS)


def test_another_seed_is_another_model(folders: dict[str, Path], tmp_path: Path) -> None:
    other = load(f"hf:{save_vit(tmp_path / 'other', seed=1)}")
    assert other.fingerprint != load(f"hf:{folders['vit']}").fingerprint

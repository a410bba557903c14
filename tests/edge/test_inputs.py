"""Inputs: a model and data, by name or as objects, bound one by one into functions of masks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from transformers import AutoImageProcessor, AutoModelForImageClassification, AutoModelForSequenceClassification

import holdfast as hf
from holdfast.inputs.source import Once
from tests.helpers.tiny_models import COLOURS, MOODS, save_roberta, save_vit, word_tokenizer

TEXTS = ["a good day", "so bad", "good, not bad at all"]


def mood(texts: Any) -> Any:
    return np.array([["bad" in text, "good" in text] for text in texts], dtype=float)


def full(model: Any) -> Any:
    return model(np.ones((1, model.n_features), dtype=bool))


@pytest.fixture(scope="module")
def fitted() -> Any:
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"age": rng.integers(20, 60, 40), "height": rng.normal(170, 10, 40)})
    return rows, LogisticRegression(max_iter=1000).fit(rows, np.where(rows["age"] > 40, "old", "young"))


# -- a sequence of masked models ---------------------------------------------------------------------


def test_every_input_is_a_masked_model_and_slices_are_inputs() -> None:
    inputs = hf.bind(mood, TEXTS)
    assert isinstance(inputs[0], hf.MaskedModel)
    assert [model.n_features for model in inputs] == [3, 2, 5]
    assert inputs[-1].n_features == inputs[2].n_features == 5
    some = inputs[1:]
    assert isinstance(some, hf.Inputs)
    assert [some.raw(i) for i in range(len(some))] == TEXTS[1:]
    assert [inputs[::-1].raw(i) for i in (0, -1)] == [TEXTS[2], TEXTS[0]]
    assert some[1:][0].n_features == 5
    assert some.name(0) == "1", "inputs keep the numbers that the data give them"
    assert repr(some) == "Inputs(2 texts of list, model mood)"
    assert repr(inputs[:1]) == "Inputs(1 text of list, model mood)"


def test_indices_out_of_range_end_iteration_and_are_told_with_the_range() -> None:
    inputs = hf.bind(mood, TEXTS)[1:]
    with pytest.raises(IndexError, match="`index` must be from -2 to 1, got 2"):
        inputs[2]
    with pytest.raises(hf.errors.InvalidTypeError, match="`index` must be a whole number or a slice, got 'a'"):
        inputs.raw("a")  # type: ignore[arg-type]


def test_labels_and_names_are_found_by_the_names_of_the_model_s_classes() -> None:
    inputs = hf.bind(mood, TEXTS, classes=["sad", "glad"], labels=["glad", None, "sad"], names=["a", "b", "c"])
    assert [inputs.label(i) for i in range(3)] == [1, None, 0]
    assert [inputs.name(i) for i in range(3)] == ["a", "b", "c"]
    assert (inputs.classes, inputs.class_name(1), inputs.class_name(7)) == (("sad", "glad"), "glad", "7")
    unnamed = hf.bind(mood, TEXTS, labels=["no", "yes", "no"])
    assert (unnamed.classes, unnamed.class_name(1)) == ((), "1"), "the data may have fewer classes, in another order"


def test_numbers_as_labels_are_looked_up_among_the_model_s_own_classes() -> None:
    rows = np.arange(8.0).reshape(4, 2)
    model = LogisticRegression().fit(rows, [3, 3, 8, 8])
    inputs = hf.bind(model, rows, labels=[3, 8, 8, 3])
    assert [inputs.label(i) for i in range(4)] == [0, 1, 1, 0]
    assert inputs.classes == ("3", "8")


def test_the_first_inputs_with_enough_features_are_kept() -> None:
    inputs = hf.bind(mood, ["short", " ", "three words here", "", "these are four words"])
    assert [inputs.first(n, min_features=3).raw(-1) for n in (1, 2, 9)] == [
        "three words here",
        "these are four words",
        "these are four words",
    ]
    assert [inputs.first(2).name(i) for i in range(2)] == ["0", "2"], "blank texts have no feature"
    assert len(inputs.first()) == 3
    with pytest.raises(hf.errors.InvalidValueError, match="`min_features` must be smaller for list, got 9"):
        inputs.first(1, min_features=9)


def test_an_input_that_cannot_be_used_says_which_and_why(tmp_path: Path) -> None:
    inputs = hf.bind(mood, ["fine", " "])
    with pytest.raises(hf.errors.InvalidValueError, match="`text` must not be empty"):
        inputs[1]
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    with pytest.raises(hf.errors.InvalidValueError, match=r"broken\.png"):
        hf.bind(lambda images: np.zeros((len(images), 2)), [broken])[0]


def test_a_value_is_made_once_whichever_thread_asks() -> None:
    made: list[int] = []
    once = Once(lambda: made.append(1) or len(made))
    assert not made
    threads = [threading.Thread(target=once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (once(), made) == (1, [1])


# -- by name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [card.name for card in hf.models.available()])
def test_bundled_models_bind_as_their_classifier_does(model: str) -> None:
    data = next(card.data for card in hf.models.available() if card.name == model)
    inputs = hf.bind(f"bundled:{model}", data)
    classifier, dataset = hf.models.load(f"bundled:{model}"), hf.data.load(data)
    assert (len(inputs), inputs.kind, inputs.classes) == (len(dataset), classifier.kind, classifier.classes)
    by_hand = classifier.bind(dataset.inputs[3])
    assert inputs.fingerprint(3) == hf.Evaluator(by_hand).provenance.input
    assert hf.Evaluator(inputs[3]).provenance == hf.Evaluator(by_hand).provenance
    np.testing.assert_array_equal(full(inputs[3]), full(by_hand))
    assert inputs.label(3) == dataset.label_of(3, classifier.classes)
    assert (inputs.model_name, inputs.data_name) == (f"bundled:{model}", data)


def test_a_table_in_a_file_takes_its_kind_its_target_and_its_background(tmp_path: Path, fitted: Any) -> None:
    rows, model = fitted
    labels = ["old" if age > 40 else "young" for age in rows["age"]]
    rows.assign(group=labels).to_csv(tmp_path / "all.csv", index=False)
    rows[:5].to_csv(tmp_path / "few.csv", index=False)
    spec = f"table:{tmp_path / 'all.csv'}"
    inputs = hf.bind(model, spec, target="group")
    live = hf.bind(model, rows.assign(group=labels), target="group")
    assert [inputs.label(i) for i in range(40)] == [live.label(i) for i in range(40)]
    assert inputs.fingerprint(4) == live.fingerprint(4)
    hidden = np.zeros((1, 2), dtype=bool)
    np.testing.assert_array_equal(inputs[4](hidden), live[4](hidden))
    other = hf.bind(model, spec, target="group", background=str(tmp_path / "few.csv"))
    np.testing.assert_array_equal(other[4](hidden), hf.bind(model, rows, background=rows[:5])[4](hidden))
    assert not np.array_equal(other[4](hidden), live[4](hidden))


def test_what_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ("skops", "sklearn", "pandas")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in missing else object())
    with pytest.raises(
        hf.errors.MissingExtraError, match=r"skops:a with table:b\.csv needs skops, scikit-learn, pandas"
    ):
        hf.bind("skops:a", "table:b.csv")


def test_a_model_of_another_kind_is_refused_before_it_is_called() -> None:
    with pytest.raises(hf.errors.InvalidValueError, match="`model` must be a model for texts, got one for table"):
        hf.bind("bundled:cancer-forest", ["a text"])
    with pytest.raises(hf.errors.InvalidValueError, match="`kind` must be one of image, text, table"):
        hf.bind(mood, TEXTS, kind="sound")


# -- live objects -------------------------------------------------------------------------------------


def test_an_estimator_on_a_frame_is_bound_as_by_hand(fitted: Any) -> None:
    rows, model = fitted
    inputs = hf.bind(model, rows, fill="background", n_background=4)
    by_hand = hf.mask_tabular(model, rows.iloc[[7]], background=rows, fill="background", n_background=4)
    assert hf.Evaluator(inputs[7]).provenance == hf.Evaluator(by_hand).provenance
    masks = np.array([[True, False], [False, False]])
    np.testing.assert_array_equal(inputs[7](masks), by_hand(masks))
    assert inputs[7].feature_names == ("age", "height")  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", ["to_pandas", "to_dicts", "mappings", "frames", "arrow"])
def test_frames_of_other_libraries_and_lists_of_rows_are_the_same_rows(fitted: Any, form: str) -> None:
    rows, model = fitted

    class Polars:
        """What converts itself, as frames of Polars do in both ways; Polars itself is not installed here."""

        def __init__(self, method: str) -> None:
            frame = {"to_pandas": rows.copy, "to_dicts": lambda: rows.to_dict("records")}[method]
            setattr(self, method, frame)

    if form == "arrow":
        import pyarrow

        data: Any = pyarrow.Table.from_pandas(rows)
    elif form == "mappings":
        data = rows.to_dict("records")
    elif form == "frames":
        data = [rows.iloc[[i]] for i in range(len(rows))]
    else:
        data = Polars(form)
    inputs, known = hf.bind(model, data), hf.bind(model, rows)
    assert len(inputs) == 40
    assert inputs.fingerprint(3) == known.fingerprint(3)
    np.testing.assert_array_equal(full(inputs[3]), full(known[3]))


def test_a_pipeline_of_texts_takes_texts() -> None:
    model = make_pipeline(CountVectorizer(), MultinomialNB()).fit(TEXTS, ["glad", "sad", "glad"])
    inputs = hf.bind(model, pandas.Series(TEXTS), labels=["glad", "sad", "glad"])
    assert (inputs.kind, inputs.label(1), inputs.class_name(1)) == ("text", 1, "sad")
    np.testing.assert_array_equal(full(inputs[0]), model.predict_proba(TEXTS[:1]))


def test_a_module_with_its_tokenizer_is_the_folder_it_was_saved_in(tmp_path: Path) -> None:
    folder = save_roberta(tmp_path / "roberta")
    module = AutoModelForSequenceClassification.from_pretrained(folder)
    texts = ["what a good day !", "bad night"]
    inputs = hf.bind(module, texts, tokenizer=word_tokenizer())
    named = hf.bind(f"hf:{folder}", texts)
    assert inputs.classes == named.classes == MOODS
    np.testing.assert_array_equal(full(inputs[0]), full(named[0]))
    assert (
        hf.Evaluator(inputs[0]).provenance
        == hf.Evaluator(hf.mask_text(module, texts[0], tokenizer=word_tokenizer())).provenance
    )
    with pytest.raises(hf.errors.InvalidValueError, match="`tokenizer` must be given for a torch module on texts"):
        hf.bind(module, texts)


def test_a_module_with_its_processor_takes_images_of_all_sorts(tmp_path: Path) -> None:
    folder = save_vit(tmp_path / "vit")
    module = AutoModelForImageClassification.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    pixels = np.random.default_rng(0).integers(0, 256, (2, 20, 20, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    named = hf.bind(f"hf:{folder}", [tmp_path / "0.png", tmp_path / "1.png"], features=(4, 4))
    assert named.classes == COLOURS
    pictures, tensors = [Image.fromarray(image) for image in pixels], torch.tensor(pixels.transpose(0, 3, 1, 2))
    for data in (pixels, list(pixels), pictures, tensors):
        inputs = hf.bind(module, data, processor=processor, features=(4, 4), labels=["red", "blue"])
        assert (inputs.kind, inputs[1].n_features, inputs.label(1)) == ("image", 16, 2)
        np.testing.assert_array_equal(full(inputs[1]), full(named[1]))
    plain = hf.bind(module, pixels, processor=lambda image: torch.ones(3, 16, 16))
    np.testing.assert_array_equal(full(plain[0]), full(plain[1]))


def test_a_classifier_and_a_dataset_are_taken_as_they_are() -> None:
    classifier, dataset = hf.models.load("bundled:vader"), hf.data.load("bundled:sentences")
    inputs = hf.bind(classifier, dataset, features="words")
    assert inputs.data_name == "bundled:sentences"
    np.testing.assert_array_equal(full(inputs[5]), classifier.predict([dataset.inputs[5]]))


# -- what cannot be bound -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"data": []}, "`data` must have at least one input, got none"),
        ({"data": "a good day"}, "`data` must start with one of bundled:, images:"),
        ({"data": 3}, "`data` must be the name of a data set, a data frame.*got 3. Put a single input in a list"),
        ({"data": [object()]}, "`data` must be the name of a data set.*Say what they are with `kind`"),
        ({"data": ["a", 3]}, "`data` must hold texts, got a int as input 1"),
        ({"data": np.zeros((2, 3, 4))}, "got an array with 3 axes. Say what they are with `kind`"),
        ({"data": [[1.0, 2.0], [3.0]]}, "`data` must hold rows of one length"),
        ({"labels": [1]}, "`labels` must have one entry per input, 3, got 1"),
        ({"labels": 1}, "`labels` must be a list of labels, one per input, got 1"),
        ({"names": ["a", "b"]}, "`names` must have one entry per input, 3, got 2"),
        ({"target": "label"}, "`target` must be left out: only data frames have columns, got 'label'"),
        ({"processor": 3}, "`processor` must be an image processor, or a function of an image, got 3"),
        ({"model": 3}, "`model` must be a Classifier, a torch module, an estimator, a booster or a callable, got 3"),
        ({"model": "vader"}, "Did you mean 'bundled:vader'"),
        ({"model": "my/model.onnx"}, "Did you mean 'onnx:my/model.onnx'"),
        ({"model": "vgg"}, "`model` must start with one of hf:, .*, got 'vgg'.$"),
        ({"model_options": {"speed": 3}}, "`speed` must be an option of models passed as objects"),
        ({"model_options": 3}, "`model_options` must map names of arguments to values, got 3"),
        ({"data_options": {"split": "test"}}, "`data_options` must be left out unless `data` is a name"),
        ({"model": "bundled:vader", "classes": ["a"]}, "`classes` must be an option of bundled: models"),
    ],
)
def test_what_cannot_be_bound_is_refused_in_words_before_any_model_call(arguments: Any, said: str) -> None:
    def never(texts: Any) -> Any:
        raise AssertionError("the model was called")

    with pytest.raises(hf.HoldfastError, match=said):
        hf.bind(**({"model": never, "data": TEXTS} | arguments))


def test_a_single_row_needs_a_background_of_others(fitted: Any) -> None:
    rows, model = fitted
    with pytest.raises(hf.errors.InvalidValueError, match="background"):
        hf.bind(model, rows[:1])[0]
    assert full(hf.bind(model, rows[:1], background=rows)[0]).shape == (1, 2)


# -- the house stands on it ---------------------------------------------------------------------------

LOADED: list[str] = []


def counted() -> Any:
    """A factory that counts how often it is called."""
    LOADED.append("mood")
    return mood


@pytest.mark.parametrize("precision", ["per-input", "data-set"])
def test_a_study_its_accuracy_and_its_page_load_the_model_once(tmp_path: Path, precision: str) -> None:
    from holdfast.report.page import write_report
    from holdfast.report.rows import study_accuracy
    from holdfast.study import CertifySpec, DataSpec, MethodSpec, ModelSpec, StudySpec, run_study
    from holdfast.study.local import InProcess
    from holdfast.study.worker import study_inputs

    spec = StudySpec(
        ModelSpec("python:tests.edge.test_inputs:counted", {"kind": "text"}),
        DataSpec("bundled:sentences", n=3),
        (MethodSpec("random"),),
        certify=CertifySpec(radii=(1,), precision=precision, half_width=0.4),
        name="counted",
    )
    LOADED.clear()
    assert run_study(spec, tmp_path / "a.db").status.complete
    assert len(LOADED) == 1
    inputs = study_inputs(spec)
    run_study(spec, tmp_path / "b.db", engine=InProcess(inputs=inputs))
    accuracy = {"counted": study_accuracy(spec, n_inputs=3, inputs=inputs)}
    write_report(tmp_path / "b.db", tmp_path / "page.html", accuracy=accuracy, inputs={"counted": inputs})
    assert len(LOADED) == 2


@pytest.mark.parametrize("labels", [["Glad", "Sad"], ["glad", "sda"], [7, 0], [0.5, 1], ["glad", -3]])
def test_labels_that_are_no_class_of_the_model_are_refused(labels: list[Any]) -> None:
    with pytest.raises(hf.errors.InvalidValueError, match="`labels` must be names of the model's 2 classes") as caught:
        hf.bind(mood, ["a good day", "so bad"], labels=labels, classes=["sad", "glad"])
    assert caught.value.argument == "labels"


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (["glad", "sad"], [1, 0]),
        ([1, 0], [1, 0]),
        ([True, False], [1, 0]),
        (["1", None], [1, None]),
        ([-1, 1.0], [None, 1]),
    ],
)
def test_labels_are_names_or_numbers_of_the_models_classes(labels: list[Any], numbers: list[int | None]) -> None:
    inputs = hf.bind(mood, ["a good day", "so bad"], labels=labels, classes=["sad", "glad"])
    assert [inputs.label(i) for i in range(2)] == numbers
    plain = [label for label in labels if not isinstance(label, str)]
    if len(plain) == 2 and -1 not in plain:
        nameless = hf.bind(mood, ["a good day", "so bad"], labels=labels)
        assert [nameless.label(i) for i in range(2)] == numbers


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("tokenizer", object()),
        ("processor", len),
        ("trusted", ["x.Y"]),
        ("labels", "labels.csv"),
        ("background", "rows.csv"),
        ("background", [[1.0]]),
        ("target", 3),
        ("unti", "word"),
        ("lables", [1, 0]),
    ],
)
def test_what_would_have_no_effect_is_refused_when_inputs_are_bound(argument: str, value: Any) -> None:
    with pytest.raises(hf.HoldfastError) as caught:
        hf.bind(mood, ["a good day", "so bad"], **{argument: value})
    assert caught.value.argument == argument


def test_an_array_that_would_have_no_effect_is_refused_like_anything_else() -> None:
    with pytest.raises(
        hf.errors.InvalidValueError, match="`background` must be left out: it would have no effect here"
    ):
        hf.bind(lambda texts: ["a"] * len(texts), ["a b", "c"], kind="text", background=np.True_)

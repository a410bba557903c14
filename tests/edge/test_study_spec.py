"""A study is read from TOML, written back the same, and refused with the key that is wrong."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError
from holdfast.study import StudySpec
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    commented_example,
    keys_of,
    parse_spec,
    read_spec,
    spec_from_plain,
    write_spec,
)

SMALLEST = StudySpec(ModelSpec("bundled:digits-resnet"), DataSpec("bundled:digits"), (MethodSpec("lime"),))

FULL = StudySpec(
    model=ModelSpec("hf:folder", {"device": "cpu", "classes": ["a", 'b "c"']}),
    data=DataSpec("table:rows.csv", n=5, skip_unreadable=True, min_features=3, options={"target": "y"}),
    methods=(MethodSpec("lime", 50, {"kernel_width": 0.5, "sampling": "sizes"}), MethodSpec("random")),
    top_fractions=(0.25, 0.1),
    masking=MaskingSpec({"colour": ["red", "green"]}, 0.5, {"softmax": True}),
    certify=CertifySpec((3, 1), 0.05, 0.95, "exact", "within(0.1)", "swaps", True, "data-set", 0.02),
    smoothing=SmoothingSpec((1, 0.5), 8),
    mus=MusSpec((0.25,), 8, "lipschitz"),
    witness=True,
    seed=2**100,
    name="all of it",
)

HEAD = 'model = "bundled:digits-resnet"\ndata = "bundled:digits"\nmethods = ["lime"]\n'


@pytest.mark.parametrize("spec", [SMALLEST, FULL], ids=["smallest", "full"])
def test_a_study_is_read_back_as_it_was_written(spec: StudySpec, tmp_path: Path) -> None:
    write_spec(spec, tmp_path / "study.toml")
    assert read_spec(tmp_path / "study.toml") == spec


@pytest.mark.parametrize("spec", [SMALLEST, FULL], ids=["smallest", "full"])
def test_a_study_can_be_sent_and_stored(spec: StudySpec) -> None:
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec_from_plain(json.loads(json.dumps(spec.plain()))) == spec
    assert hash(spec) == hash(replace(spec))


def test_texts_stand_for_what_they_name() -> None:
    assert parse_spec(HEAD) == SMALLEST


def test_numbers_are_normalised_so_that_equal_studies_are_equal() -> None:
    spec = parse_spec(HEAD + 'certify = { radii = "2-4" }\nsmoothing = { keep_probabilities = [1] }')
    assert spec.certify.radii == (2, 3, 4)
    assert repr(spec.smoothing.keep_probabilities) == "(1.0,)"
    assert replace(SMALLEST, certify=CertifySpec(radii=(4, 2, 3))) == replace(SMALLEST, certify=spec.certify)


def test_the_example_is_a_study_and_explains_every_key() -> None:
    text = commented_example()
    assert parse_spec(text).model.spec == "bundled:digits-resnet"
    for kind in (StudySpec, ModelSpec, DataSpec, MaskingSpec, MethodSpec, CertifySpec, SmoothingSpec, MusSpec):
        for name in keys_of(kind):
            assert f"{name} = " in text or f"[{name}]" in text or f"[[{name}]]" in text


def test_the_example_states_the_defaults() -> None:
    spec = parse_spec(commented_example())
    parts = [spec.certify, spec.smoothing, spec.mus]
    assert parts == [CertifySpec(), SmoothingSpec(), MusSpec()]
    assert (spec.top_fractions, spec.witness, spec.seed) == ((0.25,), False, "canonical")


def test_the_example_takes_another_model_and_data() -> None:
    spec = parse_spec(commented_example(model='onnx:a "b".onnx', data="images:photos"))
    assert (spec.model.spec, spec.data.spec) == ('onnx:a "b".onnx', "images:photos")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeed = 1", "`seeed` is not a key of a study. Did you mean `seed`?"),
        ("radii = [1]", "`radii` is not a key of a study. Did you mean `certify.radii`?"),
        ("xyzzy = 1", "`xyzzy` is not a key of a study. It has model, data, methods"),
        ("[certify]\nradiuses = [1]", "Did you mean `certify.radii`?"),
        ("[certify]\nxyzzy = 1", "`certify.xyzzy` is not a key of a study. [certify] has radii"),
        ("[masking]\nn_levels = 3", "Did you mean `mus.n_levels`?"),
        ("[certify]\nradii = [-1]", "`certify.radii` must be a whole number ≥ 0, got -1."),
        ("[certify]\nradii = []", "`certify.radii` must have at least one entry"),
        ("[certify]\nradii = [1, 1]", "`certify.radii` must have distinct entries, got 1 more than once."),
        ('[certify]\nradii = "9-1"', "`certify.radii` must have ranges that go up, such as 1-9"),
        ("[certify]\nradii = 3", "`certify.radii` must be a list, got 3."),
        ("[certify]\nconfidence = 90", "`certify.confidence` must be a number strictly between 0 and 1, got 90."),
        ('[certify]\nplan = "sequentiall"', "`certify.plan` must be one of"),
        ('[certify]\nagree = "same"', "`certify.agree` must be one of same_top_class"),
        ('[certify]\nprecision = "dataset"', "Did you mean 'data-set'?"),
        ('[certify]\nsimultaneous = "yes"', "`certify.simultaneous` must be true or false, got 'yes'."),
        ("[smoothing]\nkeep_probabilities = [0.5, 0.50]", "distinct entries"),
        ("[smoothing]\nkeep_probabilities = [0]", "above 0 and at most 1, got 0."),
        ("[smoothing]\nn_samples = 0", "`smoothing.n_samples` must be a whole number ≥ 1, got 0."),
        ("[mus]\nkeep_probabilities = [0.3]", "`mus.keep_probabilities` must be valid"),
        ('[mus]\ncriterion = "vote"', "Did you mean 'votes'?"),
        ("certify = 3", "`certify` must be a table of settings, got 3."),
        ("top_fractions = [1.0]", "`top_fractions` must be a number strictly between 0 and 1, got 1.0."),
        ("witness = 1", "`witness` must be true or false, got 1."),
        ("seed = -1", "`seed` must be a whole number ≥ 0, got -1."),
        ('name = ""', "`name` must be a text, got ''."),
        ("seed = ", "study.toml must be TOML"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(text: str, message: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        parse_spec(HEAD + text, name="study.toml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model = "a:b"\ndata = "c:d"', "`methods` must be given"),
        ('model = "a:b"\nmethods = ["lime"]', "`data` must be given"),
        ('model = { options = {} }\ndata = "c:d"\nmethods = ["lime"]', "`model.spec` must be given"),
        ('model = "a:b"\ndata = "c:d"\nmethods = []', "`methods` must have at least one entry"),
        ('model = "a:b"\ndata = "c:d"\nmethods = "lime"', "`methods` must be a list"),
        ('model = "a:b"\ndata = "c:d"\nmethods = ["lime", "lime"]', "`methods` must have distinct entries, got 'lime'"),
        ('model = "a:b"\ndata = "c:d"\nmethods = ["lyme"]', "Did you mean 'lime'?"),
        (
            'model = "a:b"\ndata = "c:d"\nmethods = [{ name = "lime", options = { kernel_widht = 1 } }]',
            "Did you mean 'kernel_width'?",
        ),
        ('model = "a:b"\ndata = { spec = "c:d", n = 0 }\nmethods = ["lime"]', "`data.n` must be a whole number ≥ 1"),
        ('model = 3\ndata = "c:d"\nmethods = ["lime"]', "`model` must be a table of settings, got 3."),
    ],
)
def test_what_is_missing_or_twice_is_named(text: str, message: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        parse_spec(text)
    assert message in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidValueError, match="must be text in UTF-8"):
        read_spec(tmp_path / "study.toml")


@pytest.mark.parametrize(
    "make",
    [
        lambda: replace(SMALLEST, model="bundled:digits-resnet"),
        lambda: replace(SMALLEST, methods=("lime",)),
        lambda: ModelSpec("a:b", options=[1]),
        lambda: ModelSpec("a:b", options={1: 2}),
        lambda: ModelSpec(None),  # type: ignore[arg-type]
    ],
)
def test_a_study_made_in_python_is_checked_as_well(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidTypeError, match="must"):
        make()


def test_what_is_inside_a_study_cannot_be_changed() -> None:
    classes = ["a"]
    spec = ModelSpec("a:b", options={"classes": classes})
    classes.append("b")
    assert spec.options["classes"] == ("a",)
    with pytest.raises(TypeError):
        spec.options["classes"] = ()  # type: ignore[index]


@pytest.mark.parametrize(
    ("masking", "message"),
    [
        (MaskingSpec(fill=object()), r"`masking\.fill` must be something a file can hold"),
        (MaskingSpec(groups=[1, None]), r"`masking\.groups` must have no None in its lists"),
    ],
)
def test_a_value_that_toml_cannot_hold_is_refused_with_its_key(
    masking: MaskingSpec, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        write_spec(replace(SMALLEST, masking=masking), tmp_path / "study.toml")
    assert list(tmp_path.iterdir()) == []


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_any_options_are_read_back_as_they_were_written(options: dict[str, Any]) -> None:
    spec = replace(SMALLEST, masking=MaskingSpec(options=options))
    with TemporaryDirectory() as folder:
        write_spec(spec, Path(folder) / "study.toml")
        assert read_spec(Path(folder) / "study.toml") == spec

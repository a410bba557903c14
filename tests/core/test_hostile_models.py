"""Models that break their contract, and inputs without end: what is said of them, and what stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import holdfast as hf
from tests.helpers.fakes import score_table
from tests.helpers.fuzzing import deadline, peak_megabytes

SELECTED = np.arange(8) < 3


class Unreadable:
    """An answer that raises when it is read."""

    def __array__(self, *given: Any, **named: Any) -> Any:
        raise RuntimeError("only on the device")


GARBAGE: dict[str, Any] = {
    "nothing": lambda masks: None,
    "a text": lambda masks: "cat",
    "an object": lambda masks: object(),
    "objects": lambda masks: [object()] * len(masks),
    "one number": lambda masks: 1.0,
    "floats for labels": lambda masks: np.zeros(len(masks)),
    "NaN": lambda masks: np.full((len(masks), 2), np.nan),
    "infinity": lambda masks: np.full((len(masks), 2), -np.inf),
    "complex numbers": lambda masks: np.ones((len(masks), 2), dtype=complex),
    "texts for scores": lambda masks: np.full((len(masks), 2), "x"),
    "no classes": lambda masks: np.zeros((len(masks), 0)),
    "three axes": lambda masks: np.zeros((len(masks), 2, 2)),
    "too few rows": lambda masks: np.zeros((len(masks) - 1, 2)),
    "too many rows": lambda masks: np.zeros((len(masks) + 1, 2)),
    "ragged rows": lambda masks: [[1.0], [1.0, 2.0]] * len(masks),
    "dates": lambda masks: np.full(len(masks), "2020-01-01", dtype="datetime64[D]"),
    "bytes that are no text": lambda masks: np.full(len(masks), b"\xff"),
    "a dictionary": lambda masks: {"logits": 1},
    "what cannot be read": lambda masks: Unreadable(),
}


class Bare:
    """A model as users write them, without the wrapper that reads answers."""

    n_features = 8

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, masks: Any, /) -> Any:
        return self._function(masks)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_a_fault_of_the_model_that_is_said_in_words(garbage: str) -> None:
    with pytest.raises(hf.errors.ModelError) as caught:
        hf.certify(Bare(GARBAGE[garbage]), SELECTED, radius=2, rng=0)
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize("question", ["certify_hard", "find_witness", "certify_mus", "attribute", "stability_bracket"])
@pytest.mark.parametrize("garbage", ["nothing", "NaN", "too few rows", "an object"])
def test_other_questions_say_the_same(question: str, garbage: str) -> None:
    model = Bare(GARBAGE[garbage])
    calls: dict[str, Any] = {
        "certify_hard": lambda: hf.certify_hard(model, SELECTED, radius=2, rng=0),
        "find_witness": lambda: hf.find_witness(model, SELECTED, rng=0),
        "certify_mus": lambda: hf.certify_mus(model, SELECTED, keep_probability=0.25, n_levels=8, rng=0),
        "attribute": lambda: hf.attribute(model, "lime", n_samples=40, rng=0),
        "stability_bracket": lambda: hf.stability_bracket(model, SELECTED, max_radius=2, rng=0),
    }
    with pytest.raises(hf.errors.ModelError):
        calls[question]()


def test_another_number_of_classes_in_a_later_call_is_noticed_and_what_came_before_is_kept() -> None:
    n_calls = iter(range(10))
    model = Bare(lambda masks: np.zeros((len(masks), 2 + next(n_calls))))
    evaluator = hf.Evaluator(model, batch_size=2)
    with pytest.raises(
        hf.errors.ModelError, match="the same number of classes every time: 2 classes before, now 3 classes"
    ):
        evaluator(np.eye(8, dtype=bool))
    assert len(evaluator.masks) == 2


def test_another_answer_to_the_same_mask_is_noticed() -> None:
    draws = np.random.default_rng(0)
    model = Bare(lambda masks: draws.normal(size=(len(masks), 3)))
    with pytest.raises(hf.errors.ModelError, match="must be deterministic"):
        hf.certify(model, SELECTED, radius=2, rng=0)


def test_a_model_that_writes_into_the_masks_changes_nothing_of_the_question() -> None:
    table = score_table(8)

    def careless(masks: Any) -> Any:
        scores = table(masks)
        masks[:] = True
        return scores

    assert hf.certify(Bare(careless), SELECTED, radius=2, rng=0) == hf.certify(Bare(table), SELECTED, radius=2, rng=0)


def test_an_error_of_the_model_comes_through_as_it_is() -> None:
    class OwnError(Exception):
        pass

    def fail(masks: Any) -> Any:
        raise OwnError("mine")

    with pytest.raises(OwnError, match=r"^mine$"):
        hf.certify(Bare(fail), SELECTED, radius=2, rng=0)


# -- inputs without end -----------------------------------------------------------------------------


def test_a_hundred_thousand_features_are_certified() -> None:
    n = 100_000
    model = hf.mask_function(lambda masks: masks[:, 0], n_features=n)
    selected = np.arange(n) < 1000
    found = hf.certify(model, selected, radius=50, rng=0)
    assert found.rate == 1.0
    assert hf.Certificate.from_json(found.to_json()) == found


def test_a_text_of_a_million_characters_is_certified() -> None:
    text = "day " * 250_000
    model = hf.mask_text(lambda texts: np.array([len(one) > 5 for one in texts]), text, features="words")
    assert model.n_features == 250_000
    found = hf.certify(model, np.arange(250_000) < 9, radius=3, tolerance=0.3, confidence=0.7, rng=0)
    assert found.rate == 1.0


@pytest.mark.parametrize(
    "text", ["שלום עולם טוב", "🙂 👩‍👩‍👧 🏳️‍🌈", "e\u0301 e\u0301", "a\u200bb c", "\ufeffa b", "١ ٢ ٣", "a\x00b c"]
)
def test_texts_in_any_script_keep_every_character_when_all_is_shown(text: str) -> None:
    seen: list[str] = []

    def remember(texts: Any) -> Any:
        seen.extend(texts)
        return [len(one) for one in texts]

    model = hf.mask_text(remember, text, features="words")
    model(np.ones((1, model.n_features), dtype=bool))
    assert seen[-1] == text


def test_a_large_image_is_masked_by_few_patches() -> None:
    image = np.zeros((3000, 3000), dtype=np.uint8)
    image[:1500, :1500] = 9
    means = hf.mask_image(
        lambda images: np.stack([one.mean(axis=(0, 1, 2)) for one in images])[:, None], image, groups=(2, 2)
    )
    full, none = means(np.array([[True] * 4, [False] * 4]))
    assert full[0] == pytest.approx(9 / 4)
    assert none[0] == 0


@pytest.mark.parametrize("leave", ["out", "in"])
def test_occlusion_of_many_features_takes_little_memory(leave: str) -> None:
    n = 9000
    model = hf.mask_function(lambda masks: np.c_[masks[:, 7], masks[:, 1]].astype(float), n_features=n)
    found: list[Any] = []
    taken = peak_megabytes(lambda: found.append(hf.attribute(model, "occlusion", leave=leave)))
    assert np.flatnonzero(found[0].scores).tolist() == [7]
    assert taken < 81 * 1.5  # one array of all masks is 81 MB; four were made


def test_masks_of_many_features_are_remembered_as_they_are() -> None:
    masks = np.random.default_rng(0).random((5, 10_000)) < 0.5
    evaluator = hf.Evaluator(hf.mask_function(lambda masks: masks[:, :2].astype(float), n_features=10_000))
    outputs = evaluator(masks)
    np.testing.assert_array_equal(evaluator.masks, masks)
    np.testing.assert_array_equal(evaluator(masks[::-1]), outputs[::-1])
    assert evaluator.n_calls == 5


def test_coalitions_of_many_features_are_counted_at_once() -> None:
    from holdfast.attribution.shapley import pairs_by_size

    with deadline(10):
        assert pairs_by_size(200_000)[:2].tolist() == [200_000, 200_000 * 199_999 / 2]


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: hf.certify_radii(model, SELECTED, radii=range(10**9), rng=0),
        lambda model: hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, range(10**9), rng=0),
        lambda model: hf.certified_radius(model, SELECTED, min_rate=0.9, radii=iter(int, 1), rng=0),
        lambda model: hf.mus_model(model, 0.5, 2**40, rng=0),
        lambda model: hf.smooth(model, 0.5, n_samples=10**9, rng=0),
        lambda model: hf.certify(model, SELECTED, radius=10**5000, rng=0),
    ],
    ids=range(6),
)
def test_questions_without_end_are_refused_at_once(ask: Any) -> None:
    def refused() -> None:
        with pytest.raises(hf.errors.InvalidValueError, match=r"at most|whole number"):
            ask(score_table(8))

    assert peak_megabytes(refused) < 50


def test_a_radius_beyond_all_features_is_the_largest_there_is() -> None:
    taken = peak_megabytes(lambda: hf.certify_radii(score_table(8), SELECTED, radii=[1, 10**9], rng=0))
    assert taken < 50


def test_lime_of_many_features_solves_the_same_equations_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(0).normal(size=(30, 2))
    model = hf.mask_function(lambda masks: masks @ weights, n_features=30)
    usual = hf.attribute(model, "lime", n_samples=200, rng=0)
    monkeypatch.setattr("holdfast.attribution.lime._MOST_FITTED", 29)
    np.testing.assert_allclose(hf.attribute(model, "lime", n_samples=200, rng=0).scores, usual.scores, atol=1e-9)
    monkeypatch.undo()
    many = hf.mask_function(lambda masks: masks[:, :2].astype(float), n_features=20_000)
    assert peak_megabytes(lambda: hf.attribute(many, "lime", n_samples=60, rng=0)) < 200  # n × n would be 3.2 GB


@pytest.mark.parametrize("method", ["lime", "shap"])
def test_samples_without_end_are_refused_before_any_model_call(method: str) -> None:
    with pytest.raises(hf.errors.InvalidValueError, match="`n_samples` must be at most 16777216 for 8 features"):
        hf.attribute(Bare(lambda masks: 1 / 0), method, n_samples=10**12)


def test_a_search_for_a_witness_that_cannot_pay_for_one_level_makes_no_masks() -> None:
    n = 30_000
    model = hf.mask_function(lambda masks: np.ones(len(masks), dtype=bool), n_features=n)
    taken = peak_megabytes(lambda: hf.find_witness(model, np.arange(n) < 2, max_calls=100, rng=0))
    assert taken < 100  # all masks with one more feature are 900 MB


def test_rings_of_all_sizes_share_what_they_are_made_of() -> None:
    nearby = hf.neighborhood.Additions(np.arange(20_000) < 2, 5000)
    assert peak_megabytes(lambda: [nearby.exactly(k).is_larger_than(100) for k in range(5000)]) < 20
    ring = nearby.exactly(3)
    assert (ring.radius, ring.smallest, ring.effective_radius) == (3, 3, 3)
    assert (nearby.radius, nearby.smallest) == (5000, 0)

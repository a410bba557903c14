"""Attributions: what they explain, what they cost, whose draws they use, and what happens at the edges."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from holdfast import (
    Attribution,
    Evaluator,
    attribute,
    certified_radius,
    certify,
    certify_hard,
    certify_radii,
    compare,
    lookup_table,
    mask_function,
    randomness,
    stabilize,
)
from holdfast.attribution.methods import METHODS
from holdfast.certification.verify import recheck
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.types import Provenance
from tests.helpers.fakes import Recorded, label_table, score_table

MASK_METHODS = ["lime", "shap", "occlusion"]
DRAWING = ["lime", "shap", "random"]


def additive(weights: Any, *, offset: float = 0.0) -> Any:
    """A model whose class 0 has the sum of the weights of what is shown, and class 1 a little less."""
    values = np.asarray(weights, dtype=float)
    return mask_function(lambda masks: (masks @ values + offset)[:, None] * [1, 0] - [0, 1], n_features=len(values))


# -- what is explained ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", MASK_METHODS)
@pytest.mark.parametrize("n", [1, 2, 7, 15])
def test_every_mask_method_recovers_the_order_of_the_weights_of_an_additive_model(method: str, n: int) -> None:
    weights = np.random.default_rng(n).permutation(np.arange(n) + 1.0) / n - 0.3
    found = attribute(additive(weights, offset=5), method, rng=0)
    assert found.ranking.tolist() == np.argsort(-weights).tolist()


@pytest.mark.parametrize("leave", ["out", "in"])
@pytest.mark.parametrize("n", [1, 6])
def test_shapley_values_and_occlusion_of_an_additive_model_are_its_weights(leave: str, n: int) -> None:
    weights = np.random.default_rng(n).normal(size=n)
    for method, options in (("shap", {}), ("occlusion", {"leave": leave})):
        found = attribute(additive(weights), method, target=0, **options)
        np.testing.assert_allclose(found.scores, weights, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_features_whose_loss_is_lost_in_rounding_tie_in_an_occlusion(kind: type) -> None:
    def noisy(masks: Any) -> Any:
        noise = (masks @ np.arange(6)) % 3 * np.finfo(kind).eps
        return (100 * (1 + noise) + masks[:, 2])[:, None].astype(kind)

    found = attribute(mask_function(noisy, n_features=6), "occlusion", target=0)
    assert np.flatnonzero(found.scores).tolist() == [2]
    assert found.ranking.tolist() == [2, 0, 1, 3, 4, 5]


@pytest.mark.parametrize("method", MASK_METHODS)
def test_by_default_the_class_predicted_on_the_full_input_is_explained(method: str) -> None:
    model = score_table(6, seed=3)
    predicted = int(model(np.ones((1, 6), dtype=bool))[0].argmax())
    found = attribute(model, method, rng=1)
    assert found.target == predicted
    assert found == attribute(model, method, target=predicted, rng=1)
    other = attribute(model, method, target=(predicted + 1) % 3, rng=1)
    assert other.target == (predicted + 1) % 3
    assert not np.allclose(other.scores, found.scores)


@pytest.mark.parametrize("method", MASK_METHODS)
def test_of_a_model_that_gives_labels_the_presence_of_the_label_is_explained(method: str) -> None:
    labels = label_table(5, seed=2, labels=("cat", "dog", "eel"))
    full = labels(np.ones((1, 5), dtype=bool))[0]
    found = attribute(labels, method, rng=0)
    assert found.target == full
    for label in ("cat", "dog", "eel"):
        is_label = mask_function(lambda m, x=label: (labels(m) == x).astype(float)[:, None], n_features=5)
        wanted = attribute(is_label, method, target=0, rng=0)
        got = attribute(labels, method, target=label, rng=0)
        assert got.target == label
        np.testing.assert_allclose(got.scores, wanted.scores, atol=1e-12)


def test_a_single_score_is_explained_as_it_is() -> None:
    model = lookup_table(np.array([0.0, 1.0, 2.0, 7.0]), n_features=2)
    found = attribute(model, "shap")
    assert (found.target, found.scores.tolist()) == (None, [3.0, 4.0])


# -- what it costs and whose draws it uses ----------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "n_samples", "n_calls"),
    [("lime", 200, 200), ("lime", None, 1000), ("shap", 400, 400), ("shap", None, 1040), ("occlusion", None, 21)],
)
def test_the_calls_reported_are_the_rows_computed_and_within_the_budget(
    method: str, n_samples: int | None, n_calls: int
) -> None:
    model = Recorded(additive(np.arange(20)))
    found = attribute(model, method, n_samples=n_samples, rng=0)
    assert found.n_calls == model.n_rows
    assert n_calls - 5 <= found.n_calls <= n_calls  # a mask drawn twice is computed once
    assert max(model.times_asked.values()) == 1


def test_an_evaluator_shares_its_memory_with_attributions_and_certificates() -> None:
    evaluator = Evaluator(score_table(8))
    alone = attribute(score_table(8), "shap")
    assert attribute(evaluator, "shap").n_calls == 256
    again = attribute(evaluator, "occlusion")
    certify(evaluator, np.arange(8) < 2, radius=2, check_determinism=False, rng=0)
    assert (again.n_calls, evaluator.n_calls) == (9, 256)
    np.testing.assert_array_equal(attribute(evaluator, "shap").scores, alone.scores)


@pytest.mark.parametrize("method", ["lime", "shap", "occlusion", "random"])
def test_scores_do_not_depend_on_the_batch_size_and_the_key_repeats_them(method: str) -> None:
    model = score_table(14, seed=1)
    found = attribute(model, method, n_samples=100, rng=None)
    for batch_size in (1, 7, 10_000):
        again = attribute(model, method, n_samples=100, batch_size=batch_size, rng=found.rng_key)
        np.testing.assert_array_equal(again.scores, found.scores)
    assert (found.rng_key is not None) == (method in DRAWING)
    if method in DRAWING:
        assert not np.array_equal(attribute(model, method, n_samples=100, rng=5).scores, found.scores)


def test_attribution_and_certification_never_draw_from_the_same_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[bytes] = set()
    make = randomness._Digest.__init__

    def remember(self: Any, digest: bytes) -> None:
        used.add(digest)
        make(self, digest)

    monkeypatch.setattr(randomness._Digest, "__init__", remember)
    model, selected = score_table(14, seed=1), np.arange(14) < 4

    def streams_of(*questions: Any) -> set[bytes]:
        used.clear()
        for question in questions:
            question()
        return set(used)

    explained = streams_of(*(lambda m=m: attribute(model, m, n_samples=60, rng=0) for m in DRAWING))
    assert len(explained) == len(DRAWING)
    certified = streams_of(
        lambda: certify(model, selected, radius=5, rng=0),
        lambda: certify_radii(model, selected, radii=[3, 5], rng=0),
        lambda: certify_hard(model, selected, radius=5, rng=0),
        lambda: certified_radius(model, selected, min_rate=0.5, radii=[5], rng=0),
        lambda: compare(model, {"a": selected, "b": ~selected}, [5], rng=0),
        lambda: stabilize(model, np.arange(14), min_rate=0.3, radius=5, consistent=False, rng=0),
    )
    assert len(certified) >= 6
    assert explained.isdisjoint(certified)


def test_progress_is_told_and_ends() -> None:
    for method in ("lime", "shap", "occlusion"):
        seen: list[tuple[int, int]] = []
        told = partial(_note, seen)
        attribute(score_table(14), method, n_samples=64, progress=told, batch_size=8, rng=0)
        assert len(seen) > 2
        assert seen[-1][0] == seen[-1][1]
        assert all(done <= total for done, total in seen)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def _note(seen: list[tuple[int, int]], done: int, total: int) -> None:
    seen.append((done, total))


# -- the edges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", MASK_METHODS)
@pytest.mark.parametrize("n", [1, 3, 15])
@pytest.mark.parametrize("constant", [0.0, -3.5, 1e9])
def test_features_of_a_constant_model_have_score_zero(method: str, n: int, constant: float) -> None:
    model = mask_function(lambda masks: np.full((len(masks), 2), constant), n_features=n)
    found = attribute(model, method, rng=0)
    assert found.target == 0
    assert not found.scores.any()


@pytest.mark.parametrize(("method", "n_samples"), [("lime", 2), ("lime", 9), ("shap", 160), ("random", 1)])
def test_small_budgets_give_finite_scores(method: str, n_samples: int) -> None:
    found = attribute(additive(np.arange(40)), method, n_samples=n_samples, rng=0)
    assert np.isfinite(found.scores).all()
    assert found.n_calls <= max(n_samples, 1)


@pytest.mark.parametrize(
    ("method", "n", "n_samples", "least"),
    [("lime", 9, 1, 2), ("shap", 40, 159, 160), ("shap", 2, 3, 4), ("shap", 1, 1, 2)],
)
def test_budgets_that_are_too_small_are_refused_before_any_call(
    method: str, n: int, n_samples: int, least: int
) -> None:
    model = Recorded(additive(np.arange(n)))
    with pytest.raises(InvalidValueError, match=rf"^`n_samples` must be at least {least} for '{method}'"):
        attribute(model, method, n_samples=n_samples, rng=0)
    with pytest.raises(InvalidValueError, match=r"^`n_samples` must be at least 41 for 'occlusion' of 40 features"):
        attribute(additive(np.arange(40)), "occlusion", n_samples=40)
    assert model.n_rows == 0


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("method", MASK_METHODS)
def test_scores_scale_with_the_model(method: str, scale: float) -> None:
    model = score_table(14, seed=4)
    scaled = mask_function(lambda masks: model(masks) * scale, n_features=14)
    found = attribute(scaled, method, n_samples=90, rng=0)
    np.testing.assert_allclose(found.scores / scale, attribute(model, method, n_samples=90, rng=0).scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"method": "line"}, InvalidValueError, "`method` must be one of .*Did you mean 'lime'"),
        ({"method": 3}, InvalidTypeError, "`method` must be one of"),
        ({"n_samples": 0}, InvalidValueError, "`n_samples` must be a whole number ≥ 1, got 0."),
        ({"n_samples": 2.5}, InvalidValueError, "`n_samples` must be a whole number ≥ 1, got 2.5."),
        ({"target": 3}, InvalidValueError, "`target` must be a class from 0 to 2, got 3."),
        ({"target": -1}, InvalidValueError, "`target` must be a whole number ≥ 0, got -1."),
        ({"target": "cat"}, InvalidTypeError, "`target` must be a whole number"),
        ({"rng": -1}, InvalidValueError, "`rng` must be"),
        ({"width": 1}, InvalidTypeError, "`width` is not an option of 'lime', which takes `kernel_width`, `penalty`"),
        ({"nsamples": 9}, InvalidTypeError, "Did you mean 'n_samples'?"),
        ({"method": "shap", "penalty": 1}, InvalidTypeError, "`penalty` is not an option of 'shap', which takes no"),
        ({"kernel_width": 0}, InvalidValueError, "`kernel_width` must be a number > 0, got 0."),
        ({"penalty": "a"}, InvalidTypeError, "`penalty` must be a number > 0, got 'a'."),
        ({"penalty": float("inf")}, InvalidValueError, "`penalty` must be a number > 0, got inf."),
        ({"sampling": "size"}, InvalidValueError, "`sampling` must be one of bernoulli, sizes"),
        ({"method": "occlusion", "leave": "on"}, InvalidValueError, "`leave` must be one of out, in"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, Any], error: type[Exception], message: str) -> None:
    model = Recorded(score_table(5))
    with pytest.raises(error, match=message):
        attribute(model, **({"method": "lime"} | asked))
    assert model.n_rows <= 1  # only whether the target exists must be asked of the model


def test_the_target_of_a_model_of_labels_must_be_a_label() -> None:
    with pytest.raises(InvalidTypeError, match="`target` must be a label of the model, such as"):
        attribute(label_table(4), "shap", target=1.5)


@pytest.mark.parametrize("method", ["integrated_gradients", "mfaba"])
def test_gradient_methods_name_the_methods_that_need_no_gradient(method: str) -> None:
    model = Recorded(score_table(5))
    with pytest.raises(InvalidTypeError, match=f"`method='{method}'` needs a model with gradients.*'lime', 'shap'"):
        attribute(model, method)
    assert model.n_rows == 0
    assert {"lime", "shap", "occlusion"} <= set(METHODS)


# -- as a value -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lime", "shap", "occlusion", "random"])
def test_an_attribution_survives_json_and_pickle(method: str) -> None:
    found = attribute(score_table(13), method, n_samples=70, rng=3)
    for again in (Attribution.from_json(found.to_json()), pickle.loads(pickle.dumps(found))):
        assert again == found
        assert hash(again) == hash(found)
        assert again.details == found.details
    assert attribute(score_table(13), "random", rng=4) != found


def test_an_attribution_reads_as_the_vector_of_its_scores_and_cannot_be_changed() -> None:
    scores = np.array([0.5, -1.0, 2.0])
    found = Attribution(scores, target=1, details={"a": 1})
    scores[0] = 9
    assert np.asarray(found).tolist() == [0.5, -1.0, 2.0]
    assert (len(found), found.n_features, found.ranking.tolist()) == (3, 3, [2, 0, 1])
    with pytest.raises(ValueError, match="read-only"):
        found.scores[0] = 1.0
    with pytest.raises(TypeError):
        found.details["a"] = 2  # type: ignore[index]
    with pytest.raises(AttributeError):
        found.target = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields",
    [
        {"scores": [1.0, float("nan")]},
        {"scores": []},
        {"scores": [[1.0]]},
        {"errors": [1.0]},
        {"errors": [-1.0, 0.0]},
        {"errors": [float("nan"), 0.0]},
        {"feature_names": ("a",)},
        {"n_calls": -1},
        {"method": 3},
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError)):
        Attribution(**({"scores": [1.0, 2.0]} | fields))


def test_the_words_name_the_leaders_the_method_and_the_cost() -> None:
    named = Attribution([0.1, 2.0], target="cat", method="lime", n_calls=7, feature_names=("ear", "tail"))
    assert str(named) == ("Scores of 2 features by lime for 'cat', largest first: 'tail' 2, 'ear' 0.1.")
    assert "It took 7 model calls." in named.explain()
    assert "do not say that the leading features suffice" in named.explain()
    assert "standard errors up to" in str(attribute(score_table(14), "shap", n_samples=80, rng=0))
    assert str(attribute(score_table(5), "shap")).endswith(" (exact).")
    assert str(Attribution([1.0])) == "Scores of 1 feature by given, largest first: feature 0 1."


def test_names_and_provenance_of_the_model_travel_along() -> None:
    class Named:
        n_features, feature_names, provenance = 2, ("a", "b"), Provenance("words", "m", "x")

        def __call__(self, masks: Any) -> Any:
            return masks.astype(float)

    for model in (Named(), Evaluator(Evaluator(Named()))):
        found = attribute(model, "occlusion")
        assert found.feature_names == ("a", "b")
    assert attribute(Named(), "occlusion").provenance == Provenance("words", "m", "x")


def two_sided(masks: np.ndarray) -> np.ndarray:
    """Class 1 has 0.2 + 0.3 of feature 0 − 0.1 of feature 1; on the full input 0.4, so that class 0 leads."""
    scores = 0.2 + 0.3 * masks[:, 0] - 0.1 * masks[:, 1]
    return np.stack([1 - scores, scores], axis=1)


@pytest.mark.parametrize("method", ["shap", "occlusion"])
@pytest.mark.parametrize(
    ("columns", "agree", "target", "expected"),
    [
        ([0, 1], None, 0, [-0.3, 0.1]),
        ([0, 1], "same_side(0.35)", 1, [0.3, -0.1]),  # on the upper side, although class 0 leads
        ([0, 1], "same_side(0.45)", 0, [-0.3, 0.1]),
        ([0, 1], "same_side(0.45, 0)", 0, [-0.3, 0.1]),
        ([1], "same_side(0.35)", None, [0.3, -0.1]),
        ([1], "same_side(0.45)", None, [-0.3, 0.1]),  # a low score is the prediction: what lowers it speaks for it
        ([0, 1, 1], "same_side(0.45, 1)", 1, [-0.3, 0.1]),
        ([0, 1], "within(0.1)", 0, [-0.3, 0.1]),
    ],
)
def test_scores_speak_for_the_side_of_the_threshold_that_the_input_is_on(
    method: str, columns: list[int], agree: Any, target: Any, expected: list[float]
) -> None:
    model = mask_function(lambda masks: two_sided(masks)[:, columns], n_features=2)
    scores = attribute(model, method, agree=agree)
    assert scores.scores == pytest.approx(expected)
    assert scores.target == target
    assert recheck(model, scores).confirmed


def test_a_side_and_a_target_cannot_both_be_explained() -> None:
    model = mask_function(two_sided, n_features=2)
    with pytest.raises(InvalidValueError, match=r"`target` must be left out with agree=same_side\(0\.3\), got 1"):
        attribute(model, "shap", agree="same_side(0.3)", target=1)

"""Explanations of shap and lime speak for the class that is said, and about the features of the model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

from holdfast import attribute, from_lime, from_shap, mask_function, mask_image, mask_tabular, mask_text
from holdfast.errors import InvalidTypeError, InvalidValueError

with warnings.catch_warnings():
    # What these packages warn of while they are imported is not ours to mend.
    warnings.simplefilter("ignore")
    import shap
    from lime.lime_image import LimeImageExplainer
    from lime.lime_tabular import LimeTabularExplainer
    from lime.lime_text import LimeTextExplainer


BACKGROUND = load_breast_cancer().data[:30, :5]
MALIGNANT, BENIGN = load_breast_cancer().data[0, :5], load_breast_cancer().data[20, :5]
"""Rows that every classifier below predicts as class 0, and as class 1."""


@pytest.fixture(scope="module")
def boosted() -> Any:
    """Gradient boosting on five measurements, which has one output for two classes."""
    rows, labels = load_breast_cancer(return_X_y=True)
    return GradientBoostingClassifier(n_estimators=10, random_state=0).fit(rows[:, :5], labels)


def bound(classify: Any, row: Any) -> Any:
    return mask_tabular(classify, row, background=BACKGROUND, fill="background")


@pytest.mark.parametrize(("row", "prediction"), [(MALIGNANT, 0), (BENIGN, 1)])
@pytest.mark.parametrize("target", [None, 0, 1])
def test_values_of_two_classes_in_one_output_have_the_sign_of_the_class(
    boosted: Any, row: Any, prediction: int, target: int | None
) -> None:
    explainer = shap.TreeExplainer(boosted, BACKGROUND, feature_perturbation="interventional")
    log_odds = bound(boosted.decision_function, row)
    truth = attribute(log_odds, "shap", target=target)
    assert truth.target == (prediction if target is None else target)
    for model in (log_odds, bound(boosted, row)):  # the classifier's own scores are probabilities
        explained = from_shap(explainer(row[None]), model, target=target)
        assert explained.target == truth.target
        np.testing.assert_allclose(explained.scores, truth.scores, atol=1e-6)
        rows = explainer(np.stack([row, BENIGN, MALIGNANT]))
        assert from_shap(rows, model, target=target, row=0) == explained
        stated = from_shap(explainer.shap_values(row[None]), model, target=target, output=1)
        np.testing.assert_allclose(stated.scores, truth.scores, atol=1e-6)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("row", [MALIGNANT, BENIGN])
@pytest.mark.parametrize("target", [None, 0, 1])
@pytest.mark.parametrize("columns", [[0, 1], 0, 1, [1]])
def test_a_function_of_either_class_or_of_both_is_recognised(
    boosted: Any, row: Any, target: int | None, columns: Any
) -> None:
    model = bound(boosted.predict_proba, row)
    explainer = shap.KernelExplainer(lambda rows: boosted.predict_proba(rows)[:, columns], BACKGROUND)
    explanation = explainer(row[None], silent=True)
    taken = from_shap(explanation, model, target=target)
    truth = attribute(model, "shap", target=target)
    assert taken.target == truth.target
    np.testing.assert_allclose(taken.scores, truth.scores, atol=1e-6)


def test_values_of_a_column_that_was_taken_are_of_that_class(forest: Any) -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    classifier = RandomForestClassifier(5, random_state=0).fit(rows[:, :5], labels)
    explanation = shap.TreeExplainer(classifier)(MALIGNANT[None])
    model = bound(classifier, MALIGNANT)
    for target in (None, 0, 1):
        wanted = explanation.values[0, :, target or 0]
        for column in (0, 1):
            np.testing.assert_allclose(
                from_shap(explanation[..., column], model, target=target).scores, wanted, atol=1e-9
            )
    three, rows = forest
    explanation = shap.TreeExplainer(three)(rows[:1])
    with pytest.raises(InvalidValueError, match=r"^`explanation` must explain class 0, got values for class 2"):
        from_shap(explanation[..., 2], mask_tabular(three, rows[0], background=rows[::9]), target=0)
    with pytest.raises(InvalidValueError, match=r"got values for class 1\. Take column 0"):
        from_shap(explanation[..., 1], target=0)


def test_what_values_without_classes_speak_for_is_asked_where_it_cannot_be_known(boosted: Any) -> None:
    explainer = shap.TreeExplainer(boosted)
    values, model = explainer.shap_values(MALIGNANT[None]), bound(boosted, MALIGNANT)
    for given in ({}, {"model": model}, {"target": 0}, {"target": 0, "model": model}):
        with pytest.raises(InvalidTypeError, match=r"^`output` must say which class the values explain"):
            from_shap(values, **given)
    with pytest.raises(InvalidTypeError, match=r"^`output` must say which class"):
        from_shap(explainer(MALIGNANT[None]), target=0)
    assert from_shap(values, target=1).scores.tolist() == values[0].tolist()
    assert from_shap(values, output=1).target == 1
    assert from_shap(values, target=0, output=1).scores.tolist() == (-values[0]).tolist()
    assert from_shap(values, target=2, output=2).scores.tolist() == values[0].tolist()
    with pytest.raises(InvalidValueError, match="must explain class 0, got values for class 2"):
        from_shap(values, target=0, output=2)
    with pytest.raises(InvalidValueError, match=r"^`output` must be a whole number from 0 to 1, got 2"):
        from_shap(values, model, output=2)


def test_values_of_a_regression_are_taken_as_they_are() -> None:
    rows, amounts = load_diabetes(return_X_y=True)
    tree = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(rows, amounts)
    model = mask_tabular(tree, rows[3], background=rows)
    values = shap.TreeExplainer(tree).shap_values(rows[3:4])
    for target in (None, 0):
        taken = from_shap(values, model, target=target)
        assert (taken.scores.tolist(), taken.target) == (values[0].tolist(), 0)
    with pytest.raises(InvalidValueError, match=r"^`target` must be a whole number from 0 to 0, got 1"):
        from_shap(values, model, target=1)


def test_values_must_be_of_as_many_classes_and_inputs_as_there_are(forest: Any, boosted: Any) -> None:
    classifier, rows = forest
    model = mask_tabular(classifier, rows[1], background=rows[::9])
    values = shap.TreeExplainer(classifier).shap_values(rows[1:2])
    assert from_shap(values, model).scores.tolist() == values[0, :, model(np.ones((1, 13), bool)).argmax()].tolist()
    with pytest.raises(
        InvalidValueError, match=r"^`explanation` must have values for the 3 classes of the model, got 2"
    ):
        from_shap(values[..., :2], model, target=1)
    with pytest.raises(
        InvalidTypeError, match=r"^`output` must be left out when there are values for 3 classes, got 1"
    ):
        from_shap(values, model, target=1, output=1)
    values = shap.TreeExplainer(boosted).shap_values(BACKGROUND[:5])
    for given in ({}, {"model": bound(boosted, BACKGROUND[0])}):
        with pytest.raises(InvalidTypeError, match=r"^`row` must say which of the 5 explained inputs to use, got None"):
            from_shap(values, target=1, **given)


# -- lime's features and labels -----------------------------------------------------------------------


LOGISTIC = np.array([2.0, -3.0, 1.0, -1.0, 0.0])
TABLE = np.random.default_rng(0).normal(size=(200, 5))


def logistic(rows: Any) -> Any:
    share = 1 / (1 + np.exp(-np.asarray(rows) @ LOGISTIC))
    return np.stack([1 - share, share], axis=1)


@pytest.mark.parametrize("discretized", [True, False])
@pytest.mark.parametrize(
    "asked", [{}, {"labels": (0,)}, {"labels": (0, 1)}, {"top_labels": 1}, {"top_labels": 2}, {"num_features": 2}]
)
@pytest.mark.parametrize("target", [None, 0, 1, "no", "yes"])
def test_every_explanation_of_a_row_by_lime_has_the_signs_of_the_effects(
    discretized: bool, asked: dict[str, Any], target: Any
) -> None:
    explainer = LimeTabularExplainer(
        TABLE, class_names=["no", "yes"], discretize_continuous=discretized, random_state=0
    )
    for row in ([1.5, 1.5, 1.5, 1.5, 0.0], [-1.5, -1.5, 1.5, 1.5, 0.0], [1.5, -1.5, -1.5, 1.5, 0.0]):
        model = mask_tabular(logistic, row, background=TABLE)
        taken = from_lime(explainer.explain_instance(np.array(row), logistic, **asked), model, target=target)
        truth = attribute(model, "shap", target={"no": 0, "yes": 1}.get(target, target))
        assert taken.target == truth.target
        reported = np.abs(taken.scores) > 0.05
        assert reported.sum() >= 2
        assert (np.sign(taken.scores[reported]) == np.sign(truth.scores[reported])).all()


def test_lime_is_asked_for_the_class_that_it_did_not_explain(forest: Any) -> None:
    classifier, rows = forest
    model = mask_tabular(classifier, rows[0], background=rows)
    explainer = LimeTabularExplainer(rows, random_state=0)
    explanation = explainer.explain_instance(rows[0], classifier.predict_proba, num_samples=100)
    with pytest.raises(
        InvalidValueError, match=r"must explain class 0, got 1\. Ask .* `explain_instance\(…, labels=\(0"
    ):
        from_lime(explanation, model)
    with pytest.raises(InvalidValueError, match=r"or choose what is explained with `target=1`"):
        from_lime(explanation, model, target=0)
    assert from_lime(explanation, model, target=1).target == 1
    followed = explainer.explain_instance(rows[0], classifier.predict_proba, labels=(0,), num_samples=100)
    assert from_lime(followed, model).target == 0
    with pytest.raises(InvalidValueError, match=r"^`target` must be one of 0, 1, 2, got 3"):
        from_lime(explanation, model, target=3)
    with pytest.raises(InvalidValueError, match=r"^`target` must be one of 0, 1, 2, got 'wine'"):
        from_lime(explanation, model, target="wine")
    assert from_lime(explanation).target == 1
    leading = explainer.explain_instance(rows[0], classifier.predict_proba, top_labels=2, num_samples=100)
    assert from_lime(leading).target == leading.top_labels[0]


def test_a_regression_explained_by_lime_speaks_for_the_amount_whatever_the_label() -> None:
    model = mask_tabular(lambda rows: rows @ LOGISTIC, np.ones(5), background=TABLE)
    explainer = LimeTabularExplainer(TABLE, mode="regression", discretize_continuous=False, random_state=0)
    explanation = explainer.explain_instance(np.ones(5), lambda rows: rows @ LOGISTIC)
    for target in (None, 0):
        taken = from_lime(explanation, model, target=target)
        assert taken.target == 0
        assert (np.sign(taken.scores[:4]) == np.sign(LOGISTIC[:4])).all()


def test_columns_of_one_feature_share_it_with_lime() -> None:
    groups = np.array([0, 0, 1, 1, 1])
    row = np.array([1.5, 1.5, 1.5, 1.5, 0.0])
    explanation = LimeTabularExplainer(TABLE, random_state=0).explain_instance(row, logistic)
    columns = from_lime(explanation, mask_tabular(logistic, row, background=TABLE)).scores
    taken = from_lime(explanation, mask_tabular(logistic, row, background=TABLE, groups=groups)).scores
    np.testing.assert_allclose(taken, [columns[:2].sum(), columns[2:].sum()])


TEXT = "I don't like it, it's not good: the film was long, the cast wasn't."


def mood(texts: list[str]) -> Any:
    good = np.array([0.5 + 0.4 * ("good" in text) - 0.3 * ("not" in text) + 0.05 * text.count("the") for text in texts])
    return np.stack([1 - good, good], axis=1)


@pytest.mark.parametrize("bow", [True, False])
@pytest.mark.parametrize("split", [r"\W+", r"\s+", r"[^a-z]+"])
@pytest.mark.parametrize("asked", [{}, {"labels": (0,)}, {"top_labels": 1}, {"num_features": 3}])
def test_every_explanation_of_a_text_by_lime_finds_the_words(bow: bool, split: str, asked: dict[str, Any]) -> None:
    model = mask_text(mood, TEXT)
    explainer = LimeTextExplainer(bow=bow, split_expression=split, class_names=["bad", "good"], random_state=0)
    taken = from_lime(explainer.explain_instance(TEXT, mood, num_samples=500, **asked), model)
    assert (taken.n_features, taken.target) == (14, 1)
    assert model.feature_names[taken.ranking[0]] == "good:"
    assert model.feature_names[taken.ranking[-1]] == "not"
    assert taken.scores[model.feature_names.index("good:")] == pytest.approx(0.4, abs=0.05)


def test_a_word_of_lime_is_shared_among_its_places_and_parts() -> None:
    model = mask_text(mood, TEXT)
    explanation = LimeTextExplainer(random_state=0).explain_instance(TEXT, mood, num_features=20, num_samples=500)
    word = explanation.domain_mapper.indexed_string.inverse_vocab.index("the")
    weight = dict(explanation.local_exp[1])[word]
    places = [i for i, name in enumerate(model.feature_names) if name == "the"]
    assert from_lime(explanation, model).scores[places].tolist() == pytest.approx([weight / 2, weight / 2])
    letters = LimeTextExplainer(char_level=True, random_state=0).explain_instance(TEXT, mood, num_samples=50)
    assert from_lime(letters, model).n_features == 14
    with pytest.raises(InvalidValueError, match=r"^`explanation` must be about the model's text, \"I don't like"):
        from_lime(LimeTextExplainer().explain_instance("good", mood, num_samples=20), model)


def test_features_that_nobody_can_locate_must_be_as_many_as_limes() -> None:
    explanation = LimeTextExplainer(bow=False, random_state=0).explain_instance("not so good", mood, num_samples=50)
    scored = mask_function(lambda masks: mood(["good" if shown else "" for shown in masks[:, 2]]), n_features=3)
    assert from_lime(explanation, scored).n_features == 3
    with pytest.raises(
        InvalidValueError, match=r"must have 4 features, as the model has, got 3\. Give lime the same input"
    ):
        from_lime(explanation, mask_function(lambda masks: mood(["good"] * len(masks)), n_features=4))
    joined = mask_text(lambda texts: mood(list(texts)), segments=["not so", "good", "at all"], batched=True)
    assert from_lime(explanation, joined).n_features == 3


def brightness(batch: Any) -> Any:
    top = np.asarray(batch)[:, :8].mean(axis=(1, 2, 3))
    return np.stack([top, 1 - top], axis=1)


def halves(image: Any) -> Any:
    """Segments of an image: its upper and its lower half."""
    return np.repeat([0, 1], 8)[:, None] * np.ones((1, 16), dtype=int)


@pytest.mark.parametrize("groups", [(4, 4), (16, 1), halves(None)])
@pytest.mark.parametrize("asked", [{}, {"labels": (1,), "top_labels": None}, {"top_labels": 1}])
def test_segments_of_lime_are_shared_among_the_pixels_of_the_features(groups: Any, asked: dict[str, Any]) -> None:
    picture = np.full((16, 16, 3), 0.9)
    model = mask_image(brightness, picture, groups=groups, fill=0.0)
    explanation = LimeImageExplainer(random_state=0).explain_instance(
        picture, brightness, hide_color=0, num_samples=60, segmentation_fn=halves, **asked
    )
    taken = from_lime(explanation, model)
    assert taken.target == 0
    sign, pairs = (-1, explanation.local_exp[1]) if "labels" in asked else (1, explanation.local_exp[0])
    upper, lower = (sign * dict(pairs)[i] for i in (0, 1))
    assert upper > 0.5 > abs(lower)
    half = taken.n_features // 2
    np.testing.assert_allclose(taken.scores, np.repeat([upper, lower], half) / half)


def test_images_of_another_size_are_refused() -> None:
    picture = np.full((16, 16, 3), 0.9)
    explanation = LimeImageExplainer(random_state=0).explain_instance(
        picture, brightness, hide_color=0, num_samples=20, segmentation_fn=halves
    )
    with pytest.raises(InvalidValueError, match=r"must be about the image that the model sees, \(8, 8\) pixels"):
        from_lime(explanation, mask_image(brightness, picture[:8, :8], groups=(2, 2)))

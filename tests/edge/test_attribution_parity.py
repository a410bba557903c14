"""The same numbers as the packages people use: lime, shap, captum, shapiq."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import pairwise_distances
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import (
    Evaluator,
    as_shapiq_game,
    attribute,
    from_captum,
    from_lime,
    from_shap,
    mask_function,
    mask_image,
    mask_tabular,
    mask_text,
)
from holdfast.attribution.lime import draw_masks
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.randomness import stream
from tests.helpers.fakes import Recorded, label_table, score_table

with warnings.catch_warnings():
    # What these packages warn of while they are imported is not ours to mend.
    warnings.simplefilter("ignore")
    import shap
    import shapiq
    from captum.attr import FeatureAblation, IntegratedGradients
    from lime.lime_base import LimeBase
    from lime.lime_image import LimeImageExplainer
    from lime.lime_tabular import LimeTabularExplainer
    from lime.lime_text import LimeTextExplainer


@pytest.fixture(scope="module")
def wine() -> Any:
    """A small network on 13 measurements, and the masked model of one row."""
    rows, labels = load_wine(return_X_y=True)
    classifier = make_pipeline(StandardScaler(), MLPClassifier((12,), max_iter=2000, random_state=0)).fit(rows, labels)
    return mask_tabular(classifier.predict_proba, rows[70], background=rows[::9], fill="background")


# -- lime -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("explainer", "unit"), [(LimeImageExplainer, 1), (LimeTextExplainer, 100)])
@pytest.mark.parametrize(
    ("n", "n_samples", "sampling"), [(9, 500, "bernoulli"), (30, 1000, "sizes"), (30, 20, "bernoulli")]
)
def test_coefficients_are_those_of_lime_given_the_same_masks(
    explainer: Any, unit: int, n: int, n_samples: int, sampling: str
) -> None:
    rng = np.random.default_rng(n)
    weights = rng.normal(size=(n, 3))
    model = Recorded(mask_function(lambda masks: np.tanh(masks @ weights) + masks[:, :1] * masks[:, 1:2], n_features=n))
    ours = attribute(model, "lime", target=1, n_samples=n_samples, sampling=sampling, rng=3)
    # Every mask that was drawn, repeats included; the first is the full input.
    masks = draw_masks(n_samples, n, sampling, stream(3, "attribution", "lime"))
    assert {tuple(row) for row in masks.tolist()} == set(model.times_asked)
    data = masks.astype(float)
    distances = pairwise_distances(data, data[:1], metric="cosine").ravel() * unit
    base = LimeBase(explainer().base.kernel_fn)
    intercept, pairs, fit, _ = base.explain_instance_with_data(
        data, model.model(masks), distances, 1, n, feature_selection="none"
    )
    theirs = np.zeros(n)
    for i, weight in pairs:
        theirs[i] = weight
    np.testing.assert_allclose(ours.scores, theirs, atol=1e-9)
    assert ours.details["intercept"] == pytest.approx(intercept)
    assert ours.details["fit"] == pytest.approx(fit)


def test_an_explanation_of_a_text_by_lime_is_taken_over() -> None:
    words = "good or bad or not"

    def classify(texts: list[str]) -> Any:
        good = np.array([0.5 + 0.4 * ("good" in text) - 0.3 * ("not" in text) for text in texts])
        return np.stack([1 - good, good], axis=1)

    model = mask_text(classify, words)
    explanation = LimeTextExplainer(bow=False, random_state=0).explain_instance(
        words, classify, labels=(0, 1), num_features=5, num_samples=400
    )
    found = from_lime(explanation, model, target=1)
    assert found.feature_names == ("good", "or", "bad", "or", "not")
    assert (found.ranking[0], found.ranking[-1]) == (0, 4)
    assert found.scores.tolist() == [dict(explanation.as_map()[1])[i] for i in range(5)]
    np.testing.assert_allclose(from_lime(explanation, model, target=0).scores, -found.scores, atol=1e-9)
    assert from_lime(explanation, model).target == 1
    with pytest.raises(InvalidTypeError, match=r"^`target` must be one of 0, 1, got None"):
        from_lime(explanation)
    with pytest.raises(InvalidValueError, match=r"^`target` must be one of 0, 1, got 2"):
        from_lime(explanation, model, target=2)


def test_explanations_of_rows_and_images_by_lime_are_taken_over(wine: Any) -> None:
    rows, labels = load_wine(return_X_y=True)
    classifier = make_pipeline(StandardScaler(), MLPClassifier((6,), max_iter=2000, random_state=0)).fit(rows, labels)
    explainer = LimeTabularExplainer(rows, discretize_continuous=False, random_state=0)
    explanation = explainer.explain_instance(rows[70], classifier.predict_proba, top_labels=2, num_features=4)
    found = from_lime(explanation, wine)
    assert found.target == explanation.top_labels[0]
    assert np.count_nonzero(found.scores) == 4
    assert (found.n_features, found.details["n_reported"]) == (13, 4)

    picture = np.random.default_rng(0).random((8, 8, 3))
    groups = np.arange(64).reshape(8, 8) // 16

    def classify(batch: Any) -> Any:
        return np.stack([batch[:, :2].mean(axis=(1, 2, 3)), batch.mean(axis=(1, 2, 3))], axis=1)

    shown = LimeImageExplainer(random_state=0).explain_instance(
        picture,
        classify,
        labels=(0,),
        hide_color=0,
        num_samples=100,
        segmentation_fn=lambda _: groups,
    )
    ours = from_lime(shown, mask_image(classify, picture, groups=groups), target=0)
    assert ours.ranking[0] == 0
    assert ours.n_features == 4


# -- shap -------------------------------------------------------------------------------------------


def kernel_explainer(model: Any, target: int, n_samples: int) -> Any:
    """Values of shap's KernelExplainer for our function of masks, with as many evaluations in all."""
    n = model.n_features
    explainer = shap.KernelExplainer(lambda z: model(z > 0.5)[:, target], np.zeros((1, n)))
    options = {"nsamples": n_samples - 2, "l1_reg": f"num_features({n})", "silent": True}
    return np.asarray(explainer.shap_values(np.ones(n), **options))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("n_samples", [300, 1000])
def test_sampled_values_rank_features_as_shaps_kernel_explainer_does_at_equal_budget(wine: Any, n_samples: int) -> None:
    evaluator = Evaluator(wine)
    ours = attribute(evaluator, "shap", n_samples=n_samples, rng=0)
    theirs = kernel_explainer(evaluator, ours.target, n_samples)
    assert not ours.details["exact"]
    assert spearmanr(ours.scores, theirs).statistic >= 0.95
    truth = attribute(evaluator, "shap", n_samples=2**13).scores
    assert np.abs(ours.scores - truth).max() <= 3 * ours.errors.max()


@pytest.mark.usefixtures("seeded")
def test_on_thirty_features_the_ranks_agree_too() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    classifier = make_pipeline(StandardScaler(), MLPClassifier((10,), max_iter=2000, random_state=0)).fit(rows, labels)
    model = Evaluator(mask_tabular(classifier.predict_proba, rows[13], background=rows, fill="mean"))
    ours = attribute(model, "shap", n_samples=2000, rng=0)
    assert spearmanr(ours.scores, kernel_explainer(model, ours.target, 2000)).statistic >= 0.95


def test_exact_values_are_those_of_shap_with_every_mask() -> None:
    model = score_table(8, seed=5)
    ours = attribute(model, "shap", target=1)
    np.testing.assert_allclose(ours.scores, kernel_explainer(model, 1, 2**8), atol=1e-9)
    explanation = shap.KernelExplainer(lambda z: model(z > 0.5), np.zeros((1, 8)))(np.ones((1, 8)))
    taken = from_shap(explanation, model, target=1)
    np.testing.assert_allclose(taken.scores, ours.scores, atol=1e-9)
    assert (taken.method, taken.target) == ("shap package", 1)


# -- captum -----------------------------------------------------------------------------------------


def test_explanations_of_a_forest_by_shap_are_taken_over_row_by_row(forest: Any) -> None:
    classifier, rows = forest
    model = mask_tabular(classifier, rows[1], background=rows[::9])
    explained = shap.TreeExplainer(classifier)(rows[:3])
    np.testing.assert_array_equal(from_shap(explained, model, row=1, target=2).scores, explained.values[1, :, 2])
    with pytest.raises(InvalidTypeError, match="`row` must say which of the 3 explained inputs"):
        from_shap(explained, model, target=2)


@pytest.mark.slow
def test_explanations_by_shaps_permutations_are_taken_over(forest: Any) -> None:
    classifier, rows = forest
    with warnings.catch_warnings():
        # What numba warns of while it compiles is not ours to mend.
        warnings.simplefilter("ignore")
        explained = shap.PermutationExplainer(classifier.predict_proba, rows[::9], seed=0)(rows[1:2], silent=True)
    model = mask_tabular(classifier, rows[1], background=rows[::9])
    np.testing.assert_array_equal(from_shap(explained, model, target=0).scores, explained.values[0, :, 0])


def test_integrated_gradients_by_captum_are_summed_over_patches() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 2)
    )
    image = torch.rand(3, 8, 8)
    model = mask_image(network, image, groups=(4, 4))
    theirs = IntegratedGradients(network).attribute(image[None], target=1, n_steps=200)
    patches = theirs[0].sum(dim=0).reshape(4, 2, 4, 2).sum(dim=(1, 3)).flatten().numpy()
    taken = from_captum(theirs, model, target=1)
    np.testing.assert_allclose(taken.scores, patches, atol=1e-6)
    ours = attribute(model, "integrated_gradients", target=1, n_samples=200)
    np.testing.assert_allclose(ours.scores, taken.scores, atol=1e-3)


def test_an_ablation_by_captum_is_occlusion() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 36, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    picture = torch.rand(3, 6, 6)
    model: Any = mask_image(module, picture, groups=(3, 2))
    ours = attribute(model, "occlusion", target=1)
    mask = torch.from_numpy(model.groups.copy())[None, None]
    theirs = FeatureAblation(module).attribute(picture[None], target=1, feature_mask=mask)
    taken = from_captum(theirs, model, reduce="mean", target=1)
    np.testing.assert_allclose(taken.scores, ours.scores, atol=1e-5)
    assert from_captum((theirs,), model, reduce="mean", target=1) == taken


# -- shapiq -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [score_table, label_table])
def test_a_model_as_a_game_of_shapiq_has_the_same_shapley_values(make: Any) -> None:
    model = make(7, seed=4)
    game = as_shapiq_game(model)
    assert float(game(np.zeros((1, 7), dtype=bool))[0]) == 0
    theirs = shapiq.ExactComputer(game)("SV")
    ours = attribute(model, "shap")
    np.testing.assert_allclose([theirs[(i,)] for i in range(7)], ours.scores, atol=1e-9)


def test_a_game_shares_the_memory_of_an_evaluator_and_approximators_run_on_it() -> None:
    evaluator = Evaluator(score_table(7))
    attribute(evaluator, "shap")
    before = evaluator.n_calls
    game = as_shapiq_game(evaluator, target=2)
    found = shapiq.KernelSHAP(n=7, random_state=0).approximate(budget=128, game=game)
    assert evaluator.n_calls == before
    np.testing.assert_allclose(
        [found[(i,)] for i in range(7)], attribute(evaluator, "shap", target=2).scores, atol=1e-6
    )


def test_players_are_called_as_the_features_if_their_names_differ() -> None:
    game = as_shapiq_game(mask_text(lambda texts: [len(text) % 2 for text in texts], "a bb ccc"))
    assert game.player_name_lookup == {"a": 0, "bb": 1, "ccc": 2}
    assert as_shapiq_game(mask_text(lambda texts: [1] * len(texts), "a a")).player_name_lookup == {}

"""Integrated Gradients and MFABA: against closed forms, against captum, on images and texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients

from holdfast import Evaluator, attribute, mask_image, mask_text
from holdfast.errors import InvalidValueError
from tests.helpers.tiny_texts import TEXT, bert, bert_tokenizer, roberta, roberta_tokenizer

torch.set_num_threads(1)

GROUPS = np.array([[0, 0, 1], [2, -1, 1]])


class Formula:
    """A model with gradients in NumPy: scores of class 0 by a formula, of class 1 always 0.

    Elements are (2, 3, 2), two numbers at each of six places; the place in the middle is always shown.
    """

    n_features, groups = 3, GROUPS

    def __init__(self, score: Any, slope: Any, *, seed: int = 0, scale: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        self.elements = rng.normal(size=(2, 3, 2)) * scale
        self.baseline = rng.normal(size=(2, 3, 2)) * scale
        self._score, self._slope = score, slope
        self.n_points = 0

    def __call__(self, masks: Any, /) -> Any:
        padded = np.concatenate([masks, np.ones((len(masks), 1), dtype=bool)], axis=1)
        return self._scores(np.where(padded[:, self.groups][..., None], self.elements, self.baseline))

    def gradient(self, points: Any, target: int) -> tuple[Any, Any]:
        self.n_points += len(points)
        slopes = np.stack([self._slope(point) for point in points]) * (target == 0)
        return self._scores(points), slopes

    def _scores(self, points: Any) -> Any:
        return np.array([[self._score(point), 0.0] for point in points])

    @property
    def start(self) -> Any:
        """Everything hidden that can be."""
        return np.where((self.groups >= 0)[..., None], self.baseline, self.elements)


def by_feature(values: Any) -> list[float]:
    """Sums over the places of each feature, one at a time."""
    return [float(values[np.equal(GROUPS, feature)].sum()) for feature in range(3)]


def quadratic(seed: int = 0) -> Formula:
    rng = np.random.default_rng(seed + 100)
    matrix = rng.normal(size=(12, 12))
    matrix += matrix.T
    return Formula(
        lambda x: float(x.ravel() @ matrix @ x.ravel()) / 2 + 50,
        lambda x: (matrix @ x.ravel()).reshape(x.shape),
        seed=seed,
    )


def saturating() -> Formula:
    return Formula(lambda x: float(np.tanh(3 * x.sum())) + 2, lambda x: 3 / np.cosh(3 * x.sum()) ** 2 * np.ones_like(x))


def flat() -> Formula:
    return Formula(lambda x: 1.0, np.zeros_like)


# -- Integrated Gradients ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"n_samples": 1}, {"rule": "gauss_legendre", "n_samples": 1}, {"n_samples": 8}]
)
def test_of_a_quadratic_score_every_rule_is_exact(options: dict[str, Any]) -> None:
    model = quadratic()
    found = attribute(model, "integrated_gradients", target=0, **options)
    way, middle = model.elements - model.start, (model.elements + model.start) / 2
    np.testing.assert_allclose(found.scores, by_feature(way * model._slope(middle)), atol=1e-9)
    change = model._score(model.elements) - model._score(model.start)
    assert found.details["score_change"] == pytest.approx(change)
    assert found.details["completeness_error"] < 1e-9
    assert found.scores.sum() == pytest.approx(change)


def test_without_a_budget_points_are_added_until_the_scores_sum_up() -> None:
    easy, hard = quadratic(), saturating()
    assert attribute(easy, "integrated_gradients", target=0).details["n_samples"] == 27
    hard.elements = hard.elements * 40
    found = attribute(hard, "integrated_gradients", target=0)
    assert found.details["n_samples"] > 27
    assert found.details["completeness_error"] <= 0.01 * abs(found.details["score_change"])
    fine = attribute(hard, "integrated_gradients", target=0, tolerance=1e-4)
    assert fine.details["n_samples"] > found.details["n_samples"]


def test_a_refinement_computes_no_point_twice_and_equals_the_rule_with_as_many_points() -> None:
    model = saturating()
    model.elements = model.elements * 40
    found = attribute(model, "integrated_gradients", target=0)
    n_points = found.details["n_samples"]
    assert model.n_points == n_points + 2  # and both ends, for the change of the score
    assert found.n_calls == n_points + 3  # and the full input, for its prediction
    again = attribute(model, "integrated_gradients", target=0, n_samples=n_points)
    np.testing.assert_allclose(found.scores, again.scores, rtol=1e-9)


def test_the_search_for_completeness_ends() -> None:
    # A needle that the midpoint rule never meets: the scores cannot be made to sum up.
    model = Formula(lambda x: float(np.sin(1e6 * x.sum())), np.zeros_like)
    found = attribute(model, "integrated_gradients", target=0)
    assert found.details["n_samples"] == 729
    assert found.details["completeness_error"] == pytest.approx(abs(found.details["score_change"]))


@pytest.mark.parametrize("method", ["integrated_gradients", "mfaba"])
def test_of_a_flat_score_every_feature_has_zero(method: str) -> None:
    found = attribute(flat(), method)
    assert not found.scores.any()
    assert found.details["completeness_error"] == 0


@pytest.mark.parametrize("method", ["integrated_gradients", "mfaba"])
def test_gradients_that_are_not_finite_are_refused(method: str) -> None:
    model = Formula(lambda x: 1.0, lambda x: np.full_like(x, np.nan))
    with pytest.raises(InvalidValueError, match=rf"^`model` must have finite gradients for '{method}'"):
        attribute(model, method)


def test_the_other_class_has_other_scores() -> None:
    assert not attribute(quadratic(), "integrated_gradients", target=1).scores.any()


@pytest.mark.parametrize(
    "asked", [{"rule": "left"}, {"tolerance": 0}, {"variant": "blunt"}, {"step": 0.0}, {"box": -1}, {"n_samples": 0}]
)
def test_impossible_options_are_refused_before_any_gradient(asked: dict[str, Any]) -> None:
    model = quadratic()
    method = "integrated_gradients" if {"rule", "tolerance"} & asked.keys() else "mfaba"
    with pytest.raises(InvalidValueError, match=f"^`{next(iter(asked))}` must be"):
        attribute(model, method, **asked)
    assert model.n_points == 0


def test_progress_of_gradients_is_told() -> None:
    for method in ("integrated_gradients", "mfaba"):
        seen: list[int] = []
        attribute(saturating(), method, target=0, batch_size=5, progress=lambda done, total, s=seen: s.append(done))
        assert len(seen) > 2


# -- MFABA ------------------------------------------------------------------------------------------


def walk_by_hand(model: Formula, variant: str, step: float, box: float, n_steps: int) -> tuple[Any, int]:
    """The definition, one element at a time for the sharp walk."""
    x, given_up, done = model.elements.copy(), np.zeros_like(model.elements), 0
    free = np.broadcast_to((GROUPS >= 0)[..., None], x.shape)
    was = model._score(x) >= 0
    while done < n_steps and (model._score(x) >= 0) == was:
        slope = np.where(free, model._slope(x), 0)
        down = -np.sign(slope) if variant == "sharp" else -slope / np.linalg.norm(slope) * np.sqrt(free.sum())
        ahead = np.minimum(np.maximum(x + step * down, model.elements - box), model.elements + box)
        given_up -= model._slope(x) * (ahead - x)
        x, done = ahead, done + 1
    return given_up, done


@pytest.mark.parametrize("variant", ["sharp", "smooth"])
@pytest.mark.parametrize(("step", "box", "n_steps"), [(0.05, 10.0, 12), (0.2, 0.5, 50), (0.001, 1.0, 50)])
def test_a_walk_is_the_one_of_the_definition(variant: str, step: float, box: float, n_steps: int) -> None:
    model = quadratic(seed=3)
    found = attribute(model, "mfaba", target=0, variant=variant, step=step, box=box, n_samples=n_steps)
    wanted, done = walk_by_hand(model, variant, step, box, n_steps)
    assert found.details["n_steps"] <= done  # a walk that cannot move any more ends
    np.testing.assert_allclose(found.scores, by_feature(wanted), atol=1e-8)


def test_a_walk_ends_where_the_prediction_changes() -> None:
    weights = np.arange(1.0, 13).reshape(2, 3, 2)
    shift = 0.5 * weights[GROUPS >= 0].sum() * 0.1
    model = Formula(lambda x: 0.0, lambda x: weights)
    model._score = lambda x: float((weights * (x - model.elements)).sum() + shift)
    found = attribute(model, "mfaba", step=0.02, box=5.0)
    assert (found.details["changed"], found.details["n_steps"]) == (True, 3)
    np.testing.assert_allclose(found.scores, by_feature(3 * 0.02 * weights), atol=1e-9)
    assert found.details["score_loss"] == pytest.approx(found.scores.sum())
    assert found.details["completeness_error"] == pytest.approx(0, abs=1e-9)
    short = attribute(model, "mfaba", step=0.02, box=0.02)
    assert (short.details["changed"], short.details["n_steps"]) == (False, 1)


def test_by_default_the_box_is_a_share_of_the_range_and_steps_fill_it() -> None:
    model = quadratic()
    found = attribute(model, "mfaba", target=0)
    assert found.details["box"] == pytest.approx(0.05 * np.ptp(model.elements))
    assert found.details["step"] == pytest.approx(found.details["box"] / 50)
    model.elements = np.zeros_like(model.elements)
    assert attribute(model, "mfaba", target=0).details["box"] == pytest.approx(0.05)


# -- real modules -----------------------------------------------------------------------------------


def network(seed: int = 0) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(6 * 64, 4)
        )


def image(seed: int = 1) -> torch.Tensor:
    return torch.rand((3, 8, 8), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("rule", "name"), [("midpoint", "riemann_middle"), ("gauss_legendre", "gausslegendre")])
@pytest.mark.parametrize("n_samples", [5, 40])
@pytest.mark.parametrize("fill", [0.0, "mean", "blur"])
def test_integrated_gradients_of_an_image_equal_captums(rule: str, name: str, n_samples: int, fill: Any) -> None:
    module, picture = network(), image()
    model: Any = mask_image(module, picture, groups=(4, 4), fill=fill)
    found = attribute(model, "integrated_gradients", rule=rule, n_samples=n_samples, target=2)
    baseline = torch.from_numpy(model.baseline.transpose(2, 0, 1).copy())[None]
    theirs = (
        IntegratedGradients(module)
        .attribute(picture[None], baselines=baseline, target=2, method=name, n_steps=n_samples)[0]
        .sum(dim=0)
    )
    wanted = [float(theirs[torch.from_numpy(model.groups == i)].sum()) for i in range(16)]
    np.testing.assert_allclose(found.scores, wanted, atol=1e-5)


def test_pixels_that_are_always_shown_take_no_part() -> None:
    module, picture = network(), image()
    groups = np.arange(64).reshape(8, 8) // 16
    groups[0] = -1
    model: Any = mask_image(module, picture, groups=groups, fill=0.0)
    found = attribute(model, "integrated_gradients", n_samples=60)
    ends = model(np.array([[True] * 4, [False] * 4]))[:, found.target]
    assert found.details["score_change"] == pytest.approx(float(ends[0] - ends[1]), abs=1e-4)
    assert found.scores.sum() == pytest.approx(found.details["score_change"], rel=0.01)


def test_the_scores_of_a_network_sum_up_within_one_percent_by_default() -> None:
    for seed in range(5):
        model = mask_image(network(seed), image(seed), groups=(4, 4))
        found = attribute(Evaluator(model), "integrated_gradients")
        assert found.details["completeness_error"] <= 0.01 * abs(found.details["score_change"])


@pytest.mark.parametrize(("make", "tokenizer"), [(bert, bert_tokenizer), (roberta, roberta_tokenizer)])
@pytest.mark.parametrize("features", ["tokens", "words"])
def test_texts_are_explained_at_their_embeddings(make: Any, tokenizer: Any, features: str) -> None:
    module = make()
    model: Any = mask_text(module, TEXT, tokenizer=tokenizer(), features=features)
    found = attribute(model, "integrated_gradients", n_samples=30, target=1)
    shown, hidden = (torch.from_numpy(part)[None] for part in (model.elements, model.baseline))
    module.eval()
    ids = {name: row[None] for name, row in model.tokens.fields.items() if name != "input_ids"}

    def forward(embeddings: torch.Tensor) -> torch.Tensor:
        batch = {name: row.expand(len(embeddings), -1) for name, row in ids.items()}
        return module(inputs_embeds=embeddings, **batch).logits

    theirs = (
        IntegratedGradients(forward)
        .attribute(shown, baselines=hidden, target=1, method="riemann_middle", n_steps=30)[0]
        .sum(dim=1)
    )
    wanted = [float(theirs[torch.from_numpy(model.groups == i)].sum()) for i in range(model.n_features)]
    np.testing.assert_allclose(found.scores, wanted, atol=1e-3 * np.abs(wanted).max())
    assert found.feature_names == model.feature_names
    walked = attribute(model, "mfaba", target=1)
    assert walked.n_features == model.n_features
    assert walked.details["n_steps"] >= 1
    assert walked.scores.any()

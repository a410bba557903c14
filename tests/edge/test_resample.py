"""Fills drawn from background rows and other images: what is hidden comes from one of them, and whole."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import holdfast as hf
from holdfast.cli import main
from holdfast.errors import HoldfastError, InvalidTypeError, InvalidValueError
from tests.helpers.contracts import check_masked_model
from tests.helpers.fakes import all_masks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
FOREST = RandomForestClassifier(10, random_state=0).fit(X, Y)
TOWNS, SIZES = np.array(["Aa", "Bo", "Cu"]), np.array(["small", "large"])
FRAME = pd.DataFrame(
    {
        "town": pd.Series(RNG.choice(TOWNS, 80)),
        "size": pd.Categorical(RNG.choice(SIZES, 80), categories=SIZES),
        "age": RNG.integers(20, 60, 80),
        "weight": np.where(RNG.random(80) < 0.1, np.nan, RNG.normal(70, 9, 80)),
    }
)
LABELS = ((FRAME["town"] == "Bo") | (FRAME["age"] > 45)).to_numpy()
PIPELINE = make_pipeline(
    make_column_transformer((OneHotEncoder(sparse_output=False), ["town", "size"]), remainder="passthrough"),
    HistGradientBoostingClassifier(max_iter=10, random_state=0),
).fit(FRAME, LABELS)


def mixed(row: Any, background: Any, mask: Any, source: int) -> Any:
    """The row where the mask shows it, and one background row everywhere else, by definition."""
    values = background.iloc[[source]].reset_index(drop=True)
    for label, shown in zip(background.columns, mask, strict=True):
        if shown:
            values[label] = pd.Series([row[label]]).astype(background[label].dtype)
    return values


def precision(predict: Any, row: Any, background: Any, selected: Any) -> Fraction:
    """How many background rows keep the prediction when they get the selected values of the row."""
    rows = np.array(background)
    rows[:, selected] = np.asarray(row)[selected]
    kept = predict(rows) == predict(np.asarray(row)[None])
    return Fraction(int(kept.sum()), len(rows))


# -- rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selected", [[], [0], [0, 1], [0, 1, 2], [0, 1, 2, 3]])
def test_radius_0_is_the_share_of_background_rows_that_keep_the_prediction(selected: list[int]) -> None:
    for at in range(6):
        model: Any = hf.mask_tabular(FOREST, X[at], fill=hf.resample(X))
        certificate = hf.certify(model, np.isin(np.arange(4), selected), radius=0, tolerance=0.05, rng=0)
        assert certificate.exact
        rate = precision(FOREST.predict, X[at], X, selected)
        assert Fraction(certificate.n_agreed, certificate.n_evaluated) == rate


@pytest.mark.parametrize("nearest", [None, 7])
def test_every_completion_of_a_frame_takes_its_hidden_columns_from_one_row(nearest: int | None) -> None:
    row = FRAME.iloc[3]
    model: Any = hf.mask_tabular(PIPELINE, row, fill=hf.resample(FRAME[10:50], nearest=nearest))
    assert isinstance(model, hf.types.Completing)
    assert model.n_completions == (nearest or 40)
    masks = all_masks(4)
    for mask in masks:
        sources = model.sources(mask)
        rows = model.rows(mask)
        expected = pd.concat([mixed(row, FRAME[10:50], mask, at) for at in sources], ignore_index=True)
        pd.testing.assert_frame_equal(rows, expected, check_dtype=False, check_categorical=False)
        assert rows["size"].dtype == FRAME["size"].dtype
        tiled = np.tile(mask, (len(sources), 1))
        scores = model.completed(tiled, np.arange(len(sources)))
        np.testing.assert_array_equal(scores, PIPELINE.predict_proba(expected))
        np.testing.assert_allclose(model(mask[None])[0], scores.mean(axis=0), atol=1e-12)
    check_masked_model(model, tolerance=1e-12)


def brute_nearest(row: Any, background: Any, mask: Any, n: int) -> Any:
    """By definition: squared differences in standard deviations, 0 or 1 for words and missing values."""
    total = np.zeros(len(background))
    for label, shown in zip(background.columns, mask, strict=True):
        if not shown:
            continue
        own, others = row[label], background[label]
        for at, other in enumerate(others):
            if pd.isna(own) or pd.isna(other):
                total[at] += pd.isna(own) != pd.isna(other)
            elif isinstance(own, str):
                total[at] += own != other
            else:
                total[at] += ((float(own) - float(other)) / others.std(ddof=0)) ** 2
    return np.argsort(np.round(total, 4), kind="stable")[:n].tolist()


@pytest.mark.parametrize("at", [0, 1, 2, int(FRAME["weight"].isna().to_numpy().argmax())])
def test_the_nearest_rows_are_those_of_the_definition(at: int) -> None:
    model: Any = hf.mask_tabular(PIPELINE, FRAME.iloc[at], fill=hf.resample(FRAME, nearest=9))
    for mask in all_masks(4):
        assert model.sources(mask).tolist() == brute_nearest(FRAME.iloc[at], FRAME, mask, 9)


def test_nearest_rows_with_the_same_values_condition_on_them() -> None:
    """Of categories alone the nearest rows are those that have the values shown: the rate is then conditional."""
    table = RNG.integers(0, 3, size=(300, 3))
    row, selected = np.array([1, 2, 0]), np.array([True, True, False])
    same = (table[:, :2] == row[:2]).all(axis=1)

    def classify(rows: Any) -> Any:
        return rows.sum(axis=1) >= 3

    model: Any = hf.mask_tabular(classify, row, fill=hf.resample(table, nearest=int(same.sum())))
    assert sorted(model.sources(selected)) == np.flatnonzero(same).tolist()
    rate = hf.certify(model, selected, radius=0, tolerance=0.02, rng=0)
    assert rate.exact
    assert rate.rate == (classify(table[same]) == classify(row[None])).mean()


def test_columns_that_are_always_shown_are_compared_and_never_filled() -> None:
    fill = hf.resample(X, nearest=1)
    model: Any = hf.mask_tabular(FOREST, X[5] + 0.01, fill=fill, groups=[0, 1, -1, -1])
    nothing = np.zeros(2, dtype=bool)
    assert model.sources(nothing).tolist() == [int((((X[5] + 0.01 - X) / X.std(axis=0))[:, 2:] ** 2).sum(1).argmin())]
    np.testing.assert_array_equal(model.rows(nothing)[0, 2:], X[5, 2:] + 0.01)


def test_constant_and_missing_columns_have_distances() -> None:
    background = np.array([[1.0, np.nan, 5.0], [1.0, np.nan, np.nan], [1.0, np.nan, 5.0]])
    model: Any = hf.mask_tabular(
        lambda rows: np.isnan(rows).sum(axis=1), [2.0, 3.0, np.nan], fill=hf.resample(background, 2)
    )
    assert model.sources(np.array([True, True, True])).tolist() == [1, 0]
    assert model.sources(np.array([True, True, False])).tolist() == [0, 1]


def test_many_masks_and_rows_are_compared_in_parts() -> None:
    background = RNG.normal(size=(3000, 3))
    model: Any = hf.mask_tabular(lambda rows: rows[:, 0] > 0, background[0], fill=hf.resample(background, nearest=2))
    masks = np.tile(all_masks(3), (200, 1))
    whole = model.completed(masks, np.ones(len(masks), dtype=int))
    parts = [model.completed(masks[i : i + 8], np.ones(8, dtype=int)) for i in range(0, len(masks), 8)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("nearest", [None, 5])
def test_rows_per_call_change_nothing(nearest: int | None) -> None:
    logistic = LogisticRegression().fit(X, Y)
    results = []
    for size in (None, 3):
        model: Any = hf.mask_tabular(logistic, X[0], fill=hf.resample(X, nearest=nearest), batch_size=size)
        results.append(hf.certify(model, [0], radius=2, rng=0))
    assert results[0] == results[1]


def test_a_witness_shows_the_row_that_changes_the_prediction() -> None:
    model: Any = hf.mask_tabular(PIPELINE, FRAME.iloc[3], fill=hf.resample(FRAME))
    witness = hf.find_witness(model, ["age"], rng=0)
    assert witness.found
    row = model.rows(witness.mask).iloc[[witness.completion]]
    assert PIPELINE.predict(row)[0] != PIPELINE.predict(FRAME.iloc[[3]])[0]
    source = model.sources(witness.mask)[witness.completion]
    pd.testing.assert_frame_equal(
        row.reset_index(drop=True), mixed(FRAME.iloc[3], FRAME, witness.mask, source), check_dtype=False
    )


def test_the_smallest_sufficient_prefix_has_the_precision_asked_for() -> None:
    model: Any = hf.mask_tabular(FOREST, X[0], fill=hf.resample(X))
    scores = hf.attribute(model, "shap")
    stable = hf.stabilize(model, scores, min_rate=0.8, radius=0, rng=0)
    assert precision(FOREST.predict, X[0], X, np.flatnonzero(stable.selected)) >= Fraction(4, 5)


def test_the_masking_names_the_fill_and_tells_backgrounds_apart() -> None:
    def masking(*args: Any, **options: Any) -> str:
        return str(hf.mask_tabular(FOREST, X[0], fill=hf.resample(*args), **options).provenance.masking)

    assert masking(X).startswith("4 columns as 4 features; fill drawn from 60 background rows; digest ")
    assert "fill drawn from the 5 nearest to the shown values of 60 background rows" in masking(X, 5)
    assert len({masking(X), masking(X, 5), masking(X[:59]), masking(X[::-1])}) == 4
    assert masking(X) == masking(background=X)
    named = hf.mask_tabular(FOREST, X[0], fill="resample", background=X)
    assert named.provenance.masking == masking(X)
    assert named.feature_names == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda: hf.resample(), "`background` must be given for fill='resample', got None"),
        (lambda: hf.resample(X, nearest=61), "`nearest` must be at most the 60 background rows, got 61"),
        (lambda: hf.resample(X, nearest=0), "`nearest` must be a whole number ≥ 1"),
        (lambda: hf.resample(X[:, :3]), "background"),
    ],
)
def test_backgrounds_that_cannot_be_drawn_from_are_refused(fill: Any, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        hf.mask_tabular(FOREST, X[0], fill=fill())


def test_inputs_bind_every_row_with_the_table_as_background() -> None:
    inputs = hf.bind(FOREST, X[:5], fill="resample", background=X)
    certificate = hf.certify(inputs[0], [0, 1], radius=0, rng=0)
    assert certificate.n_completions == 60


# -- images -----------------------------------------------------------------------------------------


PICTURES = RNG.random((6, 4, 4, 1)).astype(np.float32)


class Brighter(torch.nn.Module):
    """Whether the upper half is brighter than the lower, as two scores."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        gap = batch[:, :, :2].mean(dim=(1, 2, 3)) - batch[:, :, 2:].mean(dim=(1, 2, 3))
        return torch.stack([gap, -gap], dim=1)


def brighter(batch: Any) -> Any:
    gap = batch[:, :2].mean(axis=(1, 2, 3)) - batch[:, 2:].mean(axis=(1, 2, 3))
    return np.stack([gap, -gap], axis=1)


IMAGES: dict[str, Any] = {
    "module": (Brighter(), torch.from_numpy(PICTURES[0].transpose(2, 0, 1)), PICTURES[1:].transpose(0, 3, 1, 2)),
    "tensor function": (
        Brighter().forward,
        torch.from_numpy(PICTURES[0].transpose(2, 0, 1)),
        list(torch.from_numpy(PICTURES[1:].transpose(0, 3, 1, 2).copy())),
    ),
    "array function": (brighter, PICTURES[0], PICTURES[1:]),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_hidden_pixels_are_those_of_one_other_image(kind: str) -> None:
    classifier, image, others = IMAGES[kind]
    model: Any = hf.mask_image(classifier, image, groups=(2, 2), fill=hf.resample(others))
    assert isinstance(model, hf.types.Completing)
    masks = all_masks(4).repeat(5, axis=0)
    numbers = np.tile(np.arange(5), 16)
    shown = masks[:, np.arange(4).reshape(2, 2).repeat(2, axis=0).repeat(2, axis=1)][..., None]
    expected = np.where(shown, PICTURES[0], PICTURES[1:][numbers])
    np.testing.assert_array_equal(model.pictures(masks, numbers), expected)
    np.testing.assert_allclose(model.completed(masks, numbers), brighter(expected), atol=1e-6)
    means = brighter(expected).reshape(16, 5, 2).mean(axis=1)
    np.testing.assert_allclose(model(all_masks(4)), means, atol=1e-6)
    selected = np.array([True, True, False, False])
    kept = [brighter(expected).argmax(axis=1)[i] == brighter(PICTURES[:1]).argmax() for i in range(80)]
    of_selected = (masks == selected).all(axis=1)
    certificate = hf.certify(model, selected, radius=0, rng=0)
    assert Fraction(certificate.n_agreed, certificate.n_evaluated) == Fraction(
        int(np.array(kept)[of_selected].sum()), 5
    )
    assert "fill drawn from 5 images" in str(model.provenance.masking)
    assert hf.recheck(model, certificate).confirmed


def test_images_are_prepared_like_the_one_that_is_explained() -> None:
    pictures = (PICTURES * 255).astype(np.uint8)

    def halve(picture: Any) -> Any:
        return torch.from_numpy(np.asarray(picture)[::2, ::2].transpose(2, 0, 1) / 255.0).float()

    fill = hf.resample(list(pictures[1:]))
    model: Any = hf.mask_image(
        Brighter(), pictures[0], groups=(1, 2), fill=fill, preprocess=halve, fill_stage="before", classes=["up", "down"]
    )
    nothing = np.zeros((5, 2), dtype=bool)
    expected = np.stack([halve(picture).numpy().transpose(1, 2, 0) for picture in pictures[1:]])
    np.testing.assert_allclose(model.pictures(nothing, np.arange(5)), expected, atol=1e-6)
    assert model.classes == ("up", "down")
    assert str(model.provenance.masking).endswith("before normalisation")


def test_scores_by_softmax_are_those_of_the_pictures() -> None:
    model: Any = hf.mask_image(brighter, PICTURES[0], groups=(2, 2), fill=hf.resample(PICTURES[1:]), softmax=True)
    scores = model.completed(all_masks(4), np.zeros(16, dtype=int))
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)


def test_gradients_need_a_fill_that_is_not_drawn() -> None:
    model: Any = hf.mask_image(*IMAGES["module"][:2], groups=(2, 2), fill=hf.resample(IMAGES["module"][2]))
    assert hf.attribute(model, "occlusion").scores.shape == (4,)
    with pytest.raises(HoldfastError, match="integrated_gradients"):
        hf.attribute(model, "integrated_gradients")


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (hf.resample(PICTURES, nearest=2), "`nearest` must be left out for images"),
        (hf.resample(), "`background` must be images to draw from, got none"),
        (hf.resample([]), "`background` must be images to draw from, got none"),
        (hf.resample(object()), "`background` must be images"),
        (hf.resample(PICTURES[:, :2]), "`fill` must have the image's shape"),
    ],
)
def test_images_that_cannot_be_drawn_from_are_refused(fill: Any, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        hf.mask_image(brighter, PICTURES[0], groups=(2, 2), fill=fill)


@pytest.mark.parametrize("background", ["train.csv", b"rows", 5, True, Path("rows.csv")])
def test_what_holds_no_rows_is_refused_at_once(background: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"`background` must be rows or images to draw from, got .* Read a file"):
        hf.resample(background)


def test_only_one_background_may_be_given() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0]])
    with pytest.raises(InvalidValueError, match="`background` must be left out with `fill=resample"):
        hf.mask_tabular(lambda cells: cells[:, 0] > 0, rows[1], background=rows + 1, fill=hf.resample(rows))
    model = hf.mask_tabular(lambda cells: cells[:, 0] > 0, rows[1], background=rows, fill=hf.resample(rows))
    assert model.n_completions == 2


def test_a_category_that_is_not_in_the_background_is_blamed_on_it() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"city": ["Rome", "Oslo"], "age": [1.0, 2.0]})
    row = pandas.DataFrame({"city": ["Paris"], "age": [1.0]})
    with pytest.raises(InvalidValueError, match="Add a row with this category to the background"):
        hf.mask_tabular(lambda cells: cells["age"].to_numpy() > 1, row, fill=hf.resample(rows))


def test_a_curve_over_probabilities_says_what_hidden_features_are_drawn_from() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    model = hf.mask_tabular(lambda cells: cells.sum(axis=1) > 0, rows[1], fill=hf.resample(rows))
    curve = hf.certify_probabilities(model, [0], probabilities=[0.2, 0.5], rng=0)
    assert "with this probability with random fills" in str(curve)
    assert "Hidden features are drawn from 3 fills." in curve.explain()
    assert curve.to_frame()["probability"].tolist() == [0.2, 0.5]


# -- files, commands and studies --------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table, a model of it, and a study with fills that are drawn from the table."""
    skops = pytest.importorskip("skops.io")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=Y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    skops.dump(LogisticRegression().fit(frame[list("abcd")], Y), tmp_path / "model.skops")
    (tmp_path / "study.toml").write_text(
        'name = "drawn"\nseed = 0\ntop_fractions = [0.5]\nwitness = true\n'
        '[model]\nspec = "skops:model.skops"\n[data]\nspec = "table:rows.csv"\nn = 4\noptions = { target = "label" }\n'
        '[masking]\nfill = "resample"\n[[methods]]\nname = "occlusion"\n[certify]\nradii = [0, 1]\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_study_draws_completions_and_costs_no_more_than_planned(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = hf.study.read_spec(files / "study.toml")
    planned = hf.study.plan_study(spec, timed=False)
    assert main(["study", "run", "study.toml", "--quiet"]) == 0
    frame = hf.study.study_frame(files / "study.db")
    assert sorted(frame["radius"].unique()) == [0, 1]
    assert set(frame[frame["radius"] == 0]["n_evaluated"]) <= {60} | set(range(20, 80))
    (group,) = hf.study.summarize_study(files / "study.db").groups
    assert 4 * 60 < group.n_calls <= sum(cost.most_calls for cost in planned.costs[1:])
    capsys.readouterr()


def test_a_study_of_means_draws_completions_too(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (files / "study.toml").read_text(encoding="utf-8").replace("witness = true\n", "")
    text += 'precision = "data-set"\nhalf_width = 0.05\n'
    (files / "study.toml").write_text(text, encoding="utf-8")
    planned = hf.study.plan_study(hf.study.read_spec(files / "study.toml"))
    assert main(["study", "run", "study.toml", "--quiet"]) == 0
    inputs = hf.bind("skops:model.skops", "table:rows.csv", fill="resample", target="label")
    summary = hf.study.summarize_study(files / "study.db")
    assert summary.groups[0].soft[0].radius == 0
    assert summary.groups[0].soft[0].mean < 1
    assert isinstance(inputs[0], hf.types.Completing)
    assert planned.costs[-1].most_calls >= summary.groups[0].n_calls
    capsys.readouterr()


def test_commands_certify_verify_and_find_witnesses_with_drawn_fills(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = ["--model", "skops:model.skops", "--input", "table:rows.csv#3"]
    own = ["--set", "target=label", "--set", "fill=resample"]
    asked = [*about, "--explanation", "occlusion", "--top", "2", *own]
    assert main(["certify", *asked, "--radius", "0", "--output", "drawn.json"]) == 0
    assert "with random fills keeps the prediction" in capsys.readouterr().out
    assert main(["verify", "drawn.json", *about, *own]) == 0
    assert "Confirmed" in capsys.readouterr().out
    assert main(["witness", *about, "--explanation", "occlusion", "--top", "0", *own]) == 0
    said = capsys.readouterr().out
    assert "Revealing nothing more with fill" in said

"""One explanation under several fills: the certificates that `certify` would give, side by side."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from holdfast import Evaluator, MaskedModel, certify, lookup_table, mask_function
from holdfast.certification.fill_sensitivity import FillSensitivity, fill_sensitivity
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.table.mask_tabular import mask_tabular
from tests.helpers.contracts import bits
from tests.helpers.fakes import Recorded, score_table

ROW = np.array([2.0, 1.0, -1.0, 0.5, 0.25, -0.5, 1.0, -2.0])
SELECTED = bits("11000000")
FILLS = {"zero": 0.0, "low": -1.0, "high": 2.0}


def is_positive(rows: Any) -> Any:
    total = rows.sum(axis=1)
    return np.stack([-total, total], axis=1)


def bind(fill: Any) -> MaskedModel:
    return mask_tabular(is_positive, ROW, fill=fill)


def many(fill: float) -> MaskedModel:
    """Too many masks to enumerate."""
    row = np.linspace(-1, 1, 40)
    return mask_tabular(is_positive, row, fill=fill)


WIDE = np.arange(40) > 35


def test_every_certificate_is_the_one_certify_gives() -> None:
    for binding, selected, radius in ((bind, SELECTED, 3), (many, WIDE, 20)):
        moved = fill_sensitivity(binding, selected, FILLS, radius=radius, rng=7)
        assert moved.names == tuple(FILLS)
        for name, fill in FILLS.items():
            assert moved[name] == certify(binding(fill), selected, radius=radius, rng=7)
        assert list(moved) == list(moved.certificates)
        assert len(moved) == 3
        assert moved.n_calls == sum(one.n_calls for one in moved)


def test_every_setting_reaches_certify() -> None:
    asked = {
        "tolerance": 0.2,
        "confidence": 0.8,
        "plan": "hoeffding",
        "agree": "same_top_class",
        "neighborhood": "removals",
        "rate_kind": "exactly",
        "check_determinism": False,
    }
    selected = ~WIDE
    moved = fill_sensitivity(many, selected, FILLS, radius=9, rng=1, batch_size=5, **asked)
    assert moved["low"] == certify(many(-1.0), selected, radius=9, rng=1, batch_size=5, **asked)


def test_all_fills_face_the_same_draws_even_from_fresh_entropy() -> None:
    moved = fill_sensitivity(many, WIDE, {"one": 0.0, "same": 0.0}, radius=20)
    assert moved["one"] == moved["same"]


def test_rates_predictions_and_consistency_move_with_the_fill() -> None:
    moved = fill_sensitivity(bind, SELECTED, FILLS, radius=6, rng=0)
    assert moved.rates == tuple(one.rate for one in moved)
    assert moved.predictions == (1, 0, 1)
    assert not moved.same_prediction
    assert [one.consistent for one in moved] == [True, False, True]
    assert moved.spread == max(moved.rates) - min(moved.rates) > 0


def test_fills_without_names_name_themselves_or_are_named_by_provenance() -> None:
    array = np.arange(8.0)
    background = np.stack([ROW, array])
    moved = fill_sensitivity(
        lambda fill: mask_tabular(is_positive, ROW, fill=fill, background=background),
        SELECTED,
        iter([0.0, "mean", np.float32(1.5), array]),
        radius=1,
        rng=0,
    )
    given = mask_tabular(is_positive, ROW, fill=array).provenance.masking
    assert moved.names == ("0.0", "mean", "1.5", given)
    bare = [mask_function(score_table(4, seed=seed).__call__, n_features=4) for seed in range(3)]
    plain = fill_sensitivity(lambda fill: bare[len(fill)], bits("1000"), [(1,), (1, 2)], radius=1, rng=0)
    assert plain.names == ("(1,)", "(1, 2)")


def test_a_result_survives_json_and_compares_by_value() -> None:
    moved = fill_sensitivity(many, WIDE, FILLS, radius=20, rng=0)
    again = FillSensitivity.from_json(moved.to_json())
    assert again == moved
    assert hash(again) == hash(moved)
    assert again != fill_sensitivity(many, WIDE, FILLS, radius=20, rng=1)


@pytest.mark.parametrize(
    "edit",
    [
        {"names": ["zero", "low"]},
        {"names": ["zero", "zero", "high"]},
        {"names": [], "certificates": []},
        {"certificates": [1, 2, 3]},
        {"extra": 1},
    ],
)
def test_edited_json_that_cannot_be_true_is_refused(edit: dict[str, Any]) -> None:
    text = json.loads(fill_sensitivity(bind, SELECTED, FILLS, radius=1, rng=0).to_json())
    with pytest.raises(InvalidValueError, match=r"^`text`"):
        FillSensitivity.from_json(json.dumps(text | edit))


def test_a_certificate_edited_inside_the_json_is_refused() -> None:
    text = json.loads(fill_sensitivity(bind, SELECTED, FILLS, radius=1, rng=0).to_json())
    text["certificates"][1]["rate"] = 0.123
    with pytest.raises(InvalidValueError, match=r"`rate` and `interval` must follow"):
        FillSensitivity.from_json(json.dumps(text))


def test_a_frame_has_one_row_per_fill() -> None:
    moved = fill_sensitivity(bind, SELECTED, FILLS, radius=2, rng=0)
    frame = moved.to_frame()
    assert frame["fill"].tolist() == list(FILLS)
    assert frame["rate"].tolist() == list(moved.rates)
    assert frame["prediction"].tolist() == [1, 0, 1]
    assert frame["consistent"].tolist() == [True, False, True]
    assert frame["masking"].tolist() == [bind(fill).provenance.masking for fill in FILLS.values()]


def test_the_text_says_what_moves_and_that_each_certificate_stands_alone() -> None:
    result = fill_sensitivity(many, WIDE, FILLS, radius=20, rng=0)
    text = str(result)
    assert "under 3 fills (±0.1, 90% confidence each)" in text
    assert "; predictions differ" in text
    assert "unlike the full input" in text
    assert "All of them hold at once only with " in result.explain()
    assert "revealing up to 20 more features" in result.explain()
    assert all(name in text for name in FILLS)


def test_exact_certificates_share_no_risk_and_one_fill_is_singular() -> None:
    moved = fill_sensitivity(bind, SELECTED, {"zero": 0.0}, radius=1, rng=0)
    assert all(one.exact for one in moved)
    assert moved.joint_confidence == 1
    assert moved.same_prediction
    assert "under 1 fill (exact): revealing up to 1 more feature." in str(moved)
    assert "All rates are exact" in moved.explain()


def test_the_joint_confidence_is_that_of_the_union_bound() -> None:
    for n, wanted in ((1, 0.9), (3, 0.7), (10, 0.0), (12, 0.0)):
        fills = {str(i): i / 10 for i in range(n)}
        moved = fill_sensitivity(many, WIDE, fills, radius=20, rng=0)
        assert not any(one.exact for one in moved)
        assert moved.joint_confidence == wanted


def test_every_fill_is_bound_and_checked_before_the_first_model_call() -> None:
    recorded = Recorded(score_table(8))

    def uneven(fill: int) -> MaskedModel:
        return recorded if fill == 0 else score_table(fill)

    with pytest.raises(
        InvalidValueError, match=r"^`selected` must have one entry per feature: with fill '5' the model"
    ):
        fill_sensitivity(uneven, SELECTED, [0, 5], radius=1)
    with pytest.raises(InvalidTypeError, match=r"^`model` must be a MaskedModel"):
        fill_sensitivity(lambda fill: recorded if fill == 0 else 3, SELECTED, [0, 1], radius=1)  # type: ignore[return-value]
    with pytest.raises(InvalidValueError, match=r"^`plan` must be one of"):
        fill_sensitivity(uneven, SELECTED, [0, 8], radius=1, plan="guess")
    assert recorded.n_rows == 0


def test_a_model_that_remembers_keeps_what_it_computed() -> None:
    evaluator = Evaluator(score_table(8))
    certify(evaluator, SELECTED, radius=6, rng=0, check_determinism=False)
    moved = fill_sensitivity(lambda fill: evaluator, SELECTED, ["any"], radius=6, rng=0, check_determinism=False)
    assert moved.n_calls == evaluator.n_calls


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"bind": 3}, InvalidTypeError, r"^`bind` must be a function from a fill to a masked model, got int\."),
        ({"fills": []}, InvalidValueError, r"^`fills` must have at least one fill, got none\."),
        ({"fills": {}}, InvalidValueError, r"^`fills` must have at least one fill, got none\."),
        (
            {"fills": "mean"},
            InvalidTypeError,
            r"^`fills` must be a list of fills, or a mapping from names to fills, got 'mean'\.",
        ),
        (
            {"fills": 0.0},
            InvalidTypeError,
            r"^`fills` must be a list of fills, or a mapping from names to fills, got 0\.0\.",
        ),
        ({"fills": {1: 0.0}}, InvalidTypeError, r"^`fills` must have texts for names, got \[1\]\."),
        ({"fills": [0.0, 0.0]}, InvalidValueError, r"^`fills` must have distinct names, got '0\.0' twice\."),
        ({"radius": -1}, InvalidValueError, r"^`radius` must be a whole number ≥ 0, got -1\."),
        ({"selected": [0.5, 0.0]}, InvalidTypeError, r"^`selected` must be Boolean"),
        ({"rng": "seed"}, InvalidTypeError, r"^`rng` must be"),
    ],
)
def test_bad_input_is_refused(asked: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"bind": bind, "selected": SELECTED, "fills": FILLS, "radius": 1} | asked
    with pytest.raises(error, match=message):
        fill_sensitivity(given.pop("bind"), given.pop("selected"), given.pop("fills"), **given)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    moved = fill_sensitivity(bind, SELECTED, FILLS, radius=1, rng=0)
    with pytest.raises(InvalidValueError, match=r"^`name` must be one of zero, low, high, got 'mean'\."):
        moved["mean"]


def test_labels_are_compared_as_labels() -> None:
    tables = {"a": lookup_table(["x", "y"] * 4, n_features=3), "b": lookup_table(["z", "y"] * 4, n_features=3)}
    moved = fill_sensitivity(tables.__getitem__, bits("010"), ["a", "b"], radius=1, rng=0)
    assert moved.predictions == ("x", "z")
    assert FillSensitivity.from_json(moved.to_json()) == moved
    one = fill_sensitivity(
        lambda fill: mask_function(lambda masks: masks[:, 0], n_features=3), bits("100"), ["a", "b"], radius=1, rng=0
    )
    assert one.predictions == (True, True)
    assert one.same_prediction

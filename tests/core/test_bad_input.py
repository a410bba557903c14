"""Every public entry refuses bad input before any model call, and says what it wanted."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast import HoldfastError
from holdfast.certification.hard import SMALLEST_TOLERANCE
from holdfast.errors import ArgumentError, InvalidTypeError, InvalidValueError
from holdfast.plans import find_plan
from tests.helpers.fakes import Recorded, score_table

SELECTED = np.arange(12) < 4
NAN = float("nan")

SHAPE = re.compile(r"^`[\w.()]+` (must|needs|cannot) .*(got|from) .+[.?')]$", re.DOTALL)
"""What must hold, for which name, and what was received."""

Case = tuple[dict[str, Any], type[HoldfastError], str]

NOT_A_NATURAL = [(value, InvalidValueError) for value in (-1, 1.5, NAN, np.inf)]
NOT_A_NUMBER = [(value, InvalidTypeError) for value in ("3", True, np.True_, [3], 3j)]
NONE = (None, InvalidTypeError)
ZERO = (0, InvalidValueError)
NOT_A_SHARE = [(value, InvalidValueError) for value in (0, 1, -0.1, 1.5, NAN, np.inf, 90)] + [
    (value, InvalidTypeError) for value in ("0.1", None, True, [0.1])
]


def cases(name: str, bad: list[tuple[Any, type[HoldfastError]]], wanted: str) -> list[Case]:
    return [({name: value}, error, wanted) for value, error in bad]


SHARED: list[Case] = [
    *cases("radius", [*NOT_A_NATURAL, *NOT_A_NUMBER, NONE], "`radius` must be a whole number ≥ 0, got "),
    *cases("tolerance", NOT_A_SHARE, "`tolerance` must be a number strictly between 0 and 1, got "),
    *cases("confidence", NOT_A_SHARE, "`confidence` must be a number strictly between 0 and 1, got "),
    *cases("batch_size", [ZERO, *NOT_A_NATURAL, *NOT_A_NUMBER], "`batch_size` must be a whole number ≥ 1"),
    *cases("progress", [("yes", InvalidTypeError), (3, InvalidTypeError)], "`progress` must be True, False, None or a"),
    *cases(
        "rng",
        [(-1, InvalidValueError), (1.0, InvalidTypeError), ("7", InvalidTypeError), (True, InvalidTypeError)],
        "`rng` must be a numpy Generator, a whole number ≥ 0, 'canonical' or None, got ",
    ),
    ({"neighborhood": "addition"}, InvalidValueError, "Did you mean 'additions'?"),
    ({"neighborhood": None}, InvalidTypeError, "or an object with `sample`, got None."),
    (
        {"neighborhood": hf.neighborhood.Additions},
        InvalidTypeError,
        "Use 'additions'.",
    ),
    ({"agree": "same_top_clas"}, InvalidValueError, "Did you mean 'same_top_class'?"),
    (
        {"agree": "within(0)"},
        InvalidValueError,
        "`agree` must be a name such as same_top_set(3) or within(0.1), got 'within(0)'",
    ),
    ({"agree": None}, InvalidTypeError, "`agree` must be a name or a callable on (outputs, reference), got None."),
    ({"agree": 3}, InvalidTypeError, "`agree` must be a name or a callable on (outputs, reference), got 3."),
    ({"selected": SELECTED[:-1]}, InvalidValueError, "the model has 12 features, got 11."),
    ({"selected": np.zeros(0, dtype=bool)}, InvalidValueError, "`selected` must be a Boolean vector (n_features,)"),
    ({"selected": SELECTED[None]}, InvalidValueError, "got an array of shape (1, 12)."),
    ({"selected": SELECTED.astype(int)}, InvalidTypeError, "`selected` must be Boolean, got int64: 0 and 1 may be"),
    ({"selected": SELECTED.astype(float)}, InvalidTypeError, "`selected` must be Boolean, got float64."),
    ({"selected": [0, 1, 2, 12]}, InvalidValueError, "`selected` must hold indices from 0 to 11, got [0, 1, 2, 12]."),
    ({"selected": ["age"]}, InvalidTypeError, "`selected` must be a mask or indices, got names"),
    ({"selected": None}, InvalidValueError, "`selected` must be a Boolean vector (n_features,)"),
    ({"selected": "0101"}, InvalidValueError, "`selected` must be a Boolean vector (n_features,)"),
    ({"selected": [[True], [True, False]]}, InvalidValueError, "`selected` must be a Boolean vector (n_features,)"),
]
ONLY_CERTIFY: list[Case] = [
    ({"plan": "sequentail"}, InvalidValueError, "Did you mean 'sequential'?"),
    ({"plan": None}, InvalidTypeError, "`plan` must be one of sequential, exact, hoeffding, got None."),
    ({"plan": 150}, InvalidTypeError, "`plan` must be one of sequential, exact, hoeffding, got 150."),
    ({"rate_kind": "worst"}, InvalidValueError, "Did you mean 'worst_size'?"),
    (
        {"rate_kind": 5},
        InvalidTypeError,
        "`rate_kind` must be one of uniform, exactly, worst_size, worst_size_lower, got 5.",
    ),
    ({"tolerance": 0.001}, InvalidValueError, "`tolerance` must be at least 0.005 for plan 'sequential'"),
]
ONLY_HARD: list[Case] = [
    *cases("max_enumerated", [*NOT_A_NATURAL, *NOT_A_NUMBER], "`max_enumerated` must be a whole number ≥ 0, got "),
    ({"tolerance": 1e-12}, InvalidValueError, f"`tolerance` must be at least {float(SMALLEST_TOLERANCE)}, got 1e-12."),
]


def named(case: Any) -> str | None:
    return ", ".join(f"{name}={value!r}"[:40] for name, value in case.items()) if isinstance(case, dict) else None


def refuses(error: type[HoldfastError], wanted: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert wanted in str(caught.value)
    assert SHAPE.match(str(caught.value))
    assert not isinstance(caught.value, ArgumentError) or caught.value.argument is not None


def ask(function: Any, model: Any, **changed: Any) -> Any:
    arguments = {"selected": SELECTED, "radius": 3, "rng": 0} | changed
    return function(model, arguments.pop("selected"), **arguments)


@pytest.mark.parametrize(("changed", "error", "wanted"), SHARED + ONLY_CERTIFY, ids=named)
def test_certify_refuses_before_any_model_call(changed: dict[str, Any], error: Any, wanted: str) -> None:
    model = Recorded(score_table(12))
    refuses(error, wanted, lambda: ask(hf.certify, model, **changed))
    assert model.n_rows == 0


@pytest.mark.parametrize(("changed", "error", "wanted"), SHARED + ONLY_HARD, ids=named)
def test_certify_hard_refuses_before_any_model_call(changed: dict[str, Any], error: Any, wanted: str) -> None:
    model = Recorded(score_table(12))
    refuses(error, wanted, lambda: ask(hf.certify_hard, model, **changed))
    assert model.n_rows == 0


def curve(model: Any, **given: Any) -> Any:
    return hf.certify_radii(model, **({"selected": SELECTED, "radii": [1, 3], "rng": 0} | given))


def decision(model: Any, **given: Any) -> Any:
    return hf.certified_radius(model, **({"selected": SELECTED, "min_rate": 0.9, "rng": 0} | given))


def comparison(model: Any, selected: Any = SELECTED, **given: Any) -> Any:
    return hf.compare(model, {"lime": SELECTED, "shap": selected}, **({"radii": [1, 3], "rng": 0} | given))


@pytest.mark.parametrize("simultaneous", [None, 1, "yes"])
def test_a_curve_is_simultaneous_or_not(simultaneous: Any) -> None:
    model = Recorded(score_table(12))
    refuses(
        InvalidTypeError, "`simultaneous` must be True or False, got", lambda: curve(model, simultaneous=simultaneous)
    )
    assert model.n_rows == 0


OTHER_QUESTIONS = {curve: hf.certify_radii, decision: hf.certified_radius, comparison: hf.compare}
BAD_QUESTIONS = [
    (question, *case)
    for question, entry in OTHER_QUESTIONS.items()
    for case in SHARED
    if {"selected", *inspect.signature(entry).parameters} >= case[0].keys()
]


@pytest.mark.parametrize(
    ("question", "changed", "error", "wanted"), BAD_QUESTIONS, ids=lambda part: getattr(part, "__name__", named(part))
)
def test_questions_about_many_radii_refuse_before_any_model_call(
    question: Any, changed: dict[str, Any], error: Any, wanted: str
) -> None:
    model = Recorded(score_table(12))
    with pytest.raises(error) as caught:
        question(model, **changed)
    renamed = wanted.replace("`selected`", "`shap`") if question is comparison else wanted
    assert renamed in str(caught.value)
    assert model.n_rows == 0


@pytest.mark.parametrize("question", OTHER_QUESTIONS)
def test_the_questions_about_many_radii_that_the_bad_ones_spoil_are_good_ones(question: Any) -> None:
    model = Recorded(score_table(12))
    question(model)
    assert model.n_rows > 10


@pytest.mark.parametrize("function", [hf.certify, hf.certify_hard])
def test_the_question_that_the_bad_ones_spoil_is_a_good_one(function: Any) -> None:
    model = Recorded(score_table(12))
    ask(function, model)
    assert model.n_rows > 20


@pytest.mark.parametrize("function", [hf.certify, hf.certify_hard])
@pytest.mark.parametrize(
    "model", [None, 3, "resnet50", lambda masks: masks, np.zeros((4, 2)), score_table], ids=lambda m: type(m).__name__
)
def test_what_is_not_a_masked_model_is_refused_with_the_way_to_make_one(function: Any, model: Any) -> None:
    with pytest.raises(
        InvalidTypeError, match=r"^`model` must be a MaskedModel .* got \w+\. Bind .* Wrap .* `holdfast\.mask_function"
    ):
        ask(function, model)


@pytest.mark.parametrize("n_features", [0, -1, 2.5, "12"])
def test_a_model_with_an_impossible_number_of_features_is_refused(n_features: Any) -> None:
    model = Recorded(score_table(12))
    model.n_features = n_features
    with pytest.raises(HoldfastError, match=r"^`model\.n_features` must be a whole number ≥ 1, got "):
        ask(hf.certify, model)
    assert model.n_rows == 0


@pytest.mark.parametrize("changed", [{"batch_size": 0}, {"progress": "yes"}], ids=named)
@pytest.mark.parametrize("function", [hf.certify, hf.certify_hard])
def test_a_bad_setting_is_refused_even_if_the_model_is_an_evaluator_that_has_its_own(
    function: Any, changed: dict[str, Any]
) -> None:
    model = Recorded(score_table(12))
    with pytest.raises(HoldfastError, match=r"^`(batch_size|progress)` must be "):
        ask(function, hf.Evaluator(model), **changed)
    assert model.n_rows == 0


@pytest.mark.parametrize(
    "changed",
    [{"radius": -1}, {"selected": [0.0, 1.0]}, {"neighborhood": "x"}, {"rng": -1}, {"agree": 1}, {"batch_size": 0}],
    ids=named,
)
def test_a_cheap_mistake_is_found_before_a_design_is_searched(
    changed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A design that does not ship takes seconds to search and is then cached: the cache must stay empty."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    find_plan.cache_clear()
    asked: dict[str, Any] = {"tolerance": 0.37, "confidence": 0.6, "plan": "exact"}
    with pytest.raises(HoldfastError):
        ask(hf.certify, score_table(12), **asked, **changed)
    assert list(tmp_path.rglob("*.json")) == []
    ask(hf.certify, score_table(12), **asked)
    assert len(list(tmp_path.rglob("*.json"))) == 1


# -- the other entries ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "error", "wanted"),
    [
        *cases("tolerance", NOT_A_SHARE, "`tolerance` must be a number strictly between 0 and 1, got "),
        *cases("confidence", NOT_A_SHARE, "`confidence` must be a number strictly between 0 and 1, got "),
        ({"plan": "exakt"}, InvalidValueError, "Did you mean 'exact'?"),
        ({"neighborhood": "swap"}, InvalidValueError, "Did you mean 'swaps'?"),
        ({"selected": SELECTED, "radius": -1}, InvalidValueError, "`radius` must be a whole number ≥ 0, got -1."),
        ({"selected": [0, 1], "radius": 1}, InvalidTypeError, "`selected` must be Boolean, got int64."),
        ({"plan": "exact", "tolerance": 0.004}, InvalidValueError, "Use plan='hoeffding'."),
    ],
    ids=named,
)
def test_plan_samples_refuses(changed: dict[str, Any], error: Any, wanted: str) -> None:
    refuses(error, wanted, lambda: hf.plan_samples(**changed))


@pytest.mark.parametrize("changed", [{"selected": SELECTED}, {"radius": 3}], ids=named)
def test_plan_samples_wants_explanation_and_radius_together(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=r"^`selected` and `radius` must be given together or not at all"):
        hf.plan_samples(**changed)


@pytest.mark.parametrize("kind", [hf.neighborhood.Additions, hf.neighborhood.Removals, hf.neighborhood.Swaps])
@pytest.mark.parametrize(
    ("arguments", "error", "wanted"),
    [
        *(
            ((SELECTED, value), error, "`radius` must be a whole number ≥ 0, got ")
            for value, error in [*NOT_A_NATURAL, *NOT_A_NUMBER, NONE]
        ),
        ((SELECTED.astype(int), 1), InvalidTypeError, "`selected` must be Boolean, got int64."),
        (([], 1), InvalidValueError, "`selected` must be a Boolean vector (n_features,), got an array of shape (0,)."),
        ((SELECTED[:, None], 1), InvalidValueError, "got an array of shape (12, 1)."),
        ((None, 1), InvalidValueError, "`selected` must be a Boolean vector (n_features,)"),
    ],
    ids=lambda value: repr(value[1]) if isinstance(value, tuple) else None,
)
def test_neighborhoods_refuse(kind: Any, arguments: tuple[Any, Any], error: Any, wanted: str) -> None:
    refuses(error, wanted, lambda: kind(*arguments))


@pytest.mark.parametrize(("k", "error"), [*NOT_A_NATURAL, *NOT_A_NUMBER, NONE], ids=repr)
def test_exactly_refuses(k: Any, error: Any) -> None:
    refuses(error, "`k` must be a whole number ≥ 0, got ", lambda: hf.neighborhood.Additions(SELECTED, 1).exactly(k))


@pytest.mark.parametrize(
    "make", [lambda n: hf.mask_function(len, n_features=n), lambda n: hf.lookup_table([0], n_features=n)]
)
@pytest.mark.parametrize(("n", "error"), [ZERO, *NOT_A_NATURAL, *NOT_A_NUMBER, NONE], ids=repr)
def test_models_of_masks_refuse_an_impossible_number_of_features(make: Any, n: Any, error: Any) -> None:
    refuses(error, "`n_features` must be a whole number ≥ 1, got ", lambda: make(n))


def test_a_ragged_table_is_refused() -> None:
    refuses(
        InvalidValueError,
        "`values` must have 2**1 = 2 rows",
        lambda: hf.lookup_table([[1.0], [1.0, 2.0]], n_features=1),
    )


@pytest.mark.parametrize(
    ("k", "error"),
    [ZERO, *NOT_A_NATURAL, *NOT_A_NUMBER, NONE, (np.zeros(2), InvalidTypeError)],
    ids=repr,
)
def test_same_top_set_refuses(k: Any, error: Any) -> None:
    refuses(error, "`k` must be a whole number ≥ 1, got ", lambda: hf.agreement.same_top_set(k))


@pytest.mark.parametrize(
    ("margin", "error"),
    [
        *((value, InvalidValueError) for value in (0, 0.0, -1, -0.5, NAN, np.inf, -np.inf)),
        *((value, InvalidTypeError) for value in ("0.1", b"0.5", None, True, np.True_, [0.1], np.array(0.1), 1j)),
    ],
    ids=repr,
)
def test_within_refuses(margin: Any, error: Any) -> None:
    refuses(error, "`margin` must be a number > 0, got ", lambda: hf.agreement.within(margin))


bounds = pytest.mark.parametrize("bound", [hf.bounds.hoeffding, hf.bounds.clopper_pearson])


@bounds
@pytest.mark.parametrize(("n", "error"), [*NOT_A_NATURAL, *NOT_A_NUMBER, NONE], ids=repr)
def test_bounds_refuse_an_impossible_number_of_agreements(bound: Any, n: Any, error: Any) -> None:
    refuses(error, "`n_agreed` must be a whole number ≥ 0, got ", lambda: bound(n, 10))


@bounds
@pytest.mark.parametrize(("n", "error"), [ZERO, *NOT_A_NATURAL, *NOT_A_NUMBER, NONE], ids=repr)
def test_bounds_refuse_an_impossible_number_of_draws(bound: Any, n: Any, error: Any) -> None:
    refuses(error, "`n_evaluated` must be a whole number ≥ 1, got ", lambda: bound(0, n))


@bounds
def test_bounds_refuse_more_agreements_than_draws(bound: Any) -> None:
    refuses(InvalidValueError, "`n_agreed` must be at most `n_evaluated` = 10, got 11.", lambda: bound(11, 10))


@bounds
@pytest.mark.parametrize(("confidence", "error"), NOT_A_SHARE, ids=repr)
def test_bounds_refuse_an_impossible_confidence(bound: Any, confidence: Any, error: Any) -> None:
    refuses(error, "`confidence` must be a number strictly", lambda: bound(5, 10, confidence=confidence))


@pytest.mark.parametrize(
    ("side", "error", "wanted"),
    [
        ("lowr", InvalidValueError, "Did you mean 'lower'?"),
        (None, InvalidTypeError, "`side` must be one of both, lower, upper, got None."),
        (1, InvalidTypeError, "`side` must be one of both, lower, upper, got 1."),
    ],
)
def test_clopper_pearson_refuses_an_unknown_side(side: Any, error: Any, wanted: str) -> None:
    refuses(error, wanted, lambda: hf.bounds.clopper_pearson(5, 10, side=side))


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"batch_size": 0}, "`batch_size` must be a whole number ≥ 1, got 0."),
        ({"batch_size": 2.5}, "`batch_size` must be a whole number ≥ 1, got 2.5."),
        ({"progress": "bar"}, "`progress` must be True, False, None or a function of (done, total), got 'bar'."),
    ],
    ids=named,
)
def test_an_evaluator_refuses(changed: dict[str, Any], wanted: str) -> None:
    model = Recorded(score_table(12))
    with pytest.raises(HoldfastError, match=re.escape(wanted)):
        hf.Evaluator(model, **changed)
    assert model.n_rows == 0


# -- what is unusual but right ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"selected": SELECTED.tolist()},
        {"selected": tuple(SELECTED.tolist())},
        {"radius": 3.0},
        {"radius": np.int8(3)},
        {"batch_size": 4.0},
        {"rng": np.int64(0)},
        {"confidence": np.float64(0.9)},
        {"agree": hf.agreement.same_top_class},
    ],
    ids=named,
)
@pytest.mark.parametrize("function", [hf.certify, hf.certify_hard])
def test_other_spellings_of_good_input_give_the_same_certificate(function: Any, changed: dict[str, Any]) -> None:
    model = score_table(12)
    assert ask(function, model, **changed) == ask(function, model)


@pytest.mark.parametrize("function", [hf.certify, hf.certify_hard])
@pytest.mark.parametrize("shown", [0, 11, 12])
def test_an_empty_a_full_and_a_nearly_full_explanation_are_fine(function: Any, shown: int) -> None:
    selected = np.arange(12) < shown
    cert = ask(function, score_table(12), selected=selected, radius=4)
    assert cert.effective_radius == min(4, 12 - shown)
    if shown == 12:
        assert (cert.n_agreed, cert.n_evaluated, cert.exact) == (1, 1, True)


@pytest.mark.parametrize("function", [hf.certify, hf.certify_hard])
def test_the_callers_array_is_left_alone_and_not_kept(function: Any) -> None:
    selected = SELECTED.copy()
    cert = ask(function, score_table(12), selected=selected)
    np.testing.assert_array_equal(selected, SELECTED)
    assert selected.flags.writeable
    selected[:] = False
    np.testing.assert_array_equal(cert.selected, SELECTED)

"""What a page may send: views and options are read, or refused in words before any model call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.explore.requests import CONFIDENCES, KINDS, TOLERANCES, View, read_options
from holdfast.plans import catalog, make_plan, share_risk
from tests.helpers.explore_support import Visitor, decide, fake_workbench, serving

VIEW = {"model": "test:quick", "input": "0", "method": "own", "selected": [0]}


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    with serving(fake_workbench(quick=decide)) as one:
        yield one


# -- views --------------------------------------------------------------------------------------------------------

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
WORKBENCH = fake_workbench(quick=decide)


def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    """What comes of it, or the words of the refusal."""
    try:
        return work(), ""
    except (InvalidValueError, InvalidTypeError) as error:
        return None, str(error)


@given(st.dictionaries(st.sampled_from([*View.__dataclass_fields__, "other"]), JUNK, max_size=9), st.booleans())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_a_view_is_read_or_refused_in_words(plain: dict[str, Any], begins_well: bool) -> None:
    view = (VIEW | plain) if begins_well else plain
    read, refusal = attempt(lambda: WORKBENCH.read_view(view))
    if read is None:
        assert refusal.startswith("`")
        return
    assert read.model in WORKBENCH.entries
    assert 0 <= read.input < 4
    assert 0 < read.fraction < 1
    assert 0 < read.keep_probability <= 1
    assert 0 <= read.seed < 2**53
    assert list(read.selected) == sorted(set(read.selected))


@given(JUNK, st.sampled_from(list(KINDS)))
@settings(max_examples=200)
def test_options_are_read_or_refused_in_words(junk: Any, kind: str) -> None:
    for plain in (junk, {"radius": junk}, {"tolerance": junk}, {"plan": junk}, {"radii": junk}, {"max_radius": junk}):
        read, refusal = attempt(lambda plain=plain: read_options(kind, plain))
        assert isinstance(read, dict) or refusal.startswith("`")


@given(JUNK)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_body_gets_an_answer_and_never_a_crash(visitor: Visitor, junk: Any) -> None:
    body = json.dumps({"view": VIEW, "shown": junk}, allow_nan=True)
    answer = visitor.http.post("/api/reveal", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400)
    assert answer.status_code == 200 or answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "test:other"}, "`model` must be one of test:quick, got 'test:other'. Did you mean 'test:quick'?"),
        ({"input": 3}, "`input` must be the id of an input, from '0' to '3', got 3."),
        ({"input": "4"}, "`input` must be the id of an input, from '0' to '3', got '4'."),
        ({"fraction": 1}, "`fraction` must be a number strictly between 0 and 1, got 1."),
        ({"keep_probability": 0}, "`keep_probability` must be a number in (0, 1], got 0."),
        ({"seed": 2**53}, f"`seed` must be at most {2**53 - 1}, got {2**53}."),
        ({"method": "lime"}, "`selected` must be given for the method 'own' only."),
        ({"selected": None}, "`selected` must be given for the method 'own' only."),
        ({"selected": [99]}, "`selected` must be features from 0 to 11, got 99."),
        ({"colour": 1}, "`view` must have only the fields model, input, method, fraction, fill, "),
    ],
    ids=lambda value: next(iter(value)) + str(next(iter(value.values()))) if isinstance(value, dict) else "",
)
def test_refusals_say_what_must_hold(visitor: Visitor, change: dict[str, Any], message: str) -> None:
    answer = visitor.post("/api/reveal", {"view": VIEW | change, "shown": []})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message)


def test_what_is_refused_is_not_repeated_at_length(visitor: Visitor) -> None:
    answer = visitor.post("/api/reveal", {"view": VIEW | {"method": "x" * 500_000}, "shown": []})
    assert answer.status_code == 400
    assert len(answer.content) < 2000


def test_a_tolerance_without_a_plan_is_refused_at_once(visitor: Visitor) -> None:
    body = {"kind": "certify", "view": VIEW, "options": {"radius": 3, "tolerance": 0.07}}
    answer = visitor.post("/api/jobs", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(
        "`tolerance` must be one of 0.02, 0.05, 0.1, 0.2 here, got 0.07."
    )
    assert visitor.ask("curve", VIEW, radii=[6], tolerance=0.07)["rates"][0] >= 0


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("n_radii", [1, 2, 16, 100, 101])
def test_no_question_that_is_let_in_needs_a_search(
    tolerance: float, confidence: float, n_radii: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(goal: Any) -> Any:
        raise AssertionError(f"searched {goal}")

    monkeypatch.setattr(catalog, "SEARCHES", {"exact": searched, "sequential": searched})
    precision = {"tolerance": tolerance, "confidence": confidence}
    curve = read_options("curve", precision | {"radii": list(range(1, n_radii + 1))})
    for options, n_shares in ((curve, n_radii), (read_options("certify", precision), 1)):
        assert share_risk(make_plan(options["plan"], **precision), n_shares).max_draws >= 1


def test_a_curve_has_a_plan_that_begins_at_once_and_holds_at_all_radii(visitor: Visitor) -> None:
    for tolerance, confidence, plan in [
        (0.1, 0.9, "sequential"),
        (0.05, 0.95, "sequential"),
        (0.05, 0.9, "hoeffding"),
        (0.07, 0.9, "hoeffding"),
    ]:
        asked = {"radii": [1, 2, 9], "tolerance": tolerance, "confidence": confidence}
        options = read_options("curve", asked)
        assert (options["plan"], options["simultaneous"]) == (plan, True)
        assert len(visitor.ask("curve", VIEW, **asked)["rates"]) == 3
    assert read_options("curve", {"radii": [3], "tolerance": 0.05, "confidence": 0.9})["plan"] == "sequential"


@pytest.mark.parametrize("kind", ["certify", "curve"])
def test_tolerances_whose_masks_take_minutes_to_draw_are_refused(kind: str) -> None:
    with pytest.raises(InvalidValueError, match=r"`tolerance` must be at least 0.01 here, got 0.001"):
        read_options(kind, {"tolerance": 0.001})

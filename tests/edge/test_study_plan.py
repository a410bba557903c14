"""What a study is planned to cost is what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.attribution.methods import METHODS
from holdfast.cli import main
from holdfast.errors import HoldfastError, InvalidValueError, StudyError
from holdfast.study import StudySpec
from holdfast.study.plan import (
    StudyPlan,
    attribution_calls,
    most_masks,
    plan_study,
    try_curve,
    try_witness,
    witness_calls,
)
from holdfast.study.records import ItemResult, items_of, tasks_of
from holdfast.study.session import run_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    write_spec,
)
from holdfast.study.store import Store
from holdfast.study.worker import load_worker
from tests.helpers.fakes import score_table

SPEC = StudySpec(
    model=ModelSpec("bundled:digits-resnet"),
    data=DataSpec("bundled:digits", n=2),
    methods=(MethodSpec("lime", 60), MethodSpec("occlusion"), MethodSpec("random")),
    top_fractions=(0.25, 0.5),
    masking=MaskingSpec(groups=(4, 4)),
    certify=CertifySpec(radii=(1, 3, 6)),
    smoothing=SmoothingSpec((1.0, 0.75), 4),
    mus=MusSpec((0.25,), 8),
)


def tiny_network(n_features: int) -> hf.MaskedModel:
    """A torch module on one row of pixels, a feature each."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(n_features, 3))
    return hf.mask_image(module, torch.rand(1, 1, n_features), groups=(1, n_features))


@pytest.mark.parametrize("n_features", [3, 10, 16])
@pytest.mark.parametrize(
    "method",
    [
        MethodSpec("lime"),
        MethodSpec("lime", 40),
        MethodSpec("shap"),
        MethodSpec("shap", 64),
        MethodSpec("occlusion"),
        MethodSpec("occlusion", options={"leave": "in"}),
        MethodSpec("random"),
        MethodSpec("integrated_gradients"),
        MethodSpec("integrated_gradients", 5),
        MethodSpec("integrated_gradients", options={"rule": "gauss_legendre"}),
        MethodSpec("mfaba"),
        MethodSpec("mfaba", 3),
    ],
    ids=str,
)
def test_methods_take_the_calls_they_are_planned_to_take(method: MethodSpec, n_features: int) -> None:
    differentiable = METHODS[method.name][1] != "masks"
    model = tiny_network(n_features) if differentiable else score_table(n_features)
    found = hf.attribute(model, method.name, n_samples=method.n_samples, rng=0, **method.options)
    planned = attribution_calls(method, n_features)
    assert found.n_calls <= planned.most
    may_stop_early = method.name in ("mfaba", "lime") or (method.name == "shap" and n_features > 12)
    if not may_stop_early:
        assert found.n_calls == planned.expected
    assert found.n_calls >= 0.5 * planned.expected or method.name == "mfaba" or n_features == 3


def test_every_method_has_a_cost() -> None:
    assert [attribution_calls(MethodSpec(name), 16).most > 0 for name in METHODS] == [True] * len(METHODS)


@pytest.mark.parametrize("neighborhood", ["additions", "removals", "swaps"])
@pytest.mark.parametrize("plan", ["sequential", "exact", "hoeffding"])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_no_curve_takes_more_than_the_most(neighborhood: str, plan: str, simultaneous: bool) -> None:
    asked = CertifySpec((1, 2, 4, 8, 12), plan=plan, neighborhood=neighborhood, simultaneous=simultaneous)
    selected = np.arange(24) < 10
    limit = most_masks(asked, selected)
    settings: dict[str, Any] = {"plan": plan, "neighborhood": neighborhood, "simultaneous": simultaneous}
    for seed, chance in enumerate([0.5, 0.7, 1.0]):
        model = hf.mask_function(noisy(seed, chance), n_features=24)
        assert hf.certify_radii(model, selected, radii=asked.radii, rng=seed, **settings).n_calls <= limit


def noisy(seed: int, chance: float) -> Any:
    weights = np.random.default_rng(seed).random(24) * 1000
    return lambda masks: (masks @ weights) % 1.0 < chance


def test_the_stand_in_keeps_its_prediction_at_the_rate_it_is_told() -> None:
    from holdfast.study.plan import _stand_in

    selected = np.arange(40) < 10
    for rate in (0.5, 0.9, 1.0):
        _, model = _stand_in(SmoothingSpec(), selected, 1.0, rate)
        curve = hf.certify_radii(model, selected, radii=[5, 20], tolerance=0.05, rng=0)
        assert all(abs(one.rate - rate) < 0.06 for one in curve)


def test_certificates_of_clear_cases_are_planned_to_cost_less() -> None:
    asked, selected = CertifySpec((5, 10, 20)), np.arange(64) < 16
    calls = [try_curve(asked, SmoothingSpec(), selected, keep=1.0, rate=rate)[0] for rate in (1.0, 0.9, 0.5)]
    assert calls[0] < calls[1] < calls[2] <= most_masks(asked, selected)


@pytest.mark.parametrize("n_features", [6, 12, 20])
def test_no_search_for_a_witness_takes_more_than_planned(n_features: int) -> None:
    selected = np.arange(n_features) < 2
    constant = hf.mask_function(lambda masks: masks[:, 0] | True, n_features=n_features)
    assert hf.find_witness(constant, selected, rng=0).n_calls <= witness_calls(n_features - 2)
    if n_features <= 12:
        smoothed = hf.smooth(score_table(n_features), 0.5, 8, rng=0)
        assert hf.find_witness(smoothed, selected, rng=0).n_calls <= witness_calls(n_features - 2, 8)


def test_a_whole_study_costs_what_was_planned() -> None:
    plan = plan_study(SPEC, timed=False)
    worker = load_worker(SPEC)
    found = [one for task in tasks_of(SPEC, range(2), frozenset()) for one in worker.run(task)]
    results = [one for one in found if isinstance(one, ItemResult)]
    assert plan.n_items == len(results) == 2 * 3 * 2 * 2
    spent = sum(one.n_computed for one in results) + sum(explained(results).values())
    assert 0.4 * plan.expected_calls < spent <= plan.most_calls
    by_method = {cost.name: cost.most_calls for cost in plan.costs}
    for method in ("lime", "occlusion", "random"):
        assert sum(n for (_, name), n in explained(results).items() if name == method) <= by_method[method]


def explained(results: list[ItemResult]) -> dict[tuple[int, str], int]:
    return {(one.input, one.method): one.attribution.n_calls for one in results}


def test_the_plan_adds_up_and_is_read_back() -> None:
    plan = plan_study(SPEC, timed=False)
    assert [cost.name for cost in plan.costs] == ["lime", "occlusion", "random", "certification", "hard certificates"]
    assert plan.costs[0].expected_calls == 2 * 60
    assert plan.costs[1].expected_calls == 2 * 17
    assert plan.costs[4].most_calls == 2 * 8 * plan.n_items
    assert (plan.n_features, plan.n_inputs, plan.seconds, plan.most_seconds) == (16, 2, None, None)
    assert plan.paper_calls == 150 * 3 * plan.n_items
    assert plan.n_items == sum(1 for _ in items_of(SPEC, range(2)))
    assert StudyPlan.from_json(plan.to_json()) == plan


def test_time_is_told_if_it_is_measured() -> None:
    small = replace(SPEC, methods=(MethodSpec("integrated_gradients"), MethodSpec("random")), mus=MusSpec())
    plan = plan_study(small)
    assert plan.seconds is not None
    assert plan.most_seconds is not None
    assert 0 < plan.seconds <= plan.most_seconds
    assert "with one worker" in str(plan)
    assert "Time was measured on one input: " in plan.explain()


def test_witnesses_are_planned_for() -> None:
    spec = replace(SPEC, witness=True, mus=MusSpec(), methods=(MethodSpec("random"),))
    plan = plan_study(spec, timed=False)
    assert plan.costs[-1].name == "witnesses"
    assert "A search for a witness that finds none takes its whole budget" in plan.explain()
    assert "witness" not in plan_study(replace(spec, witness=False), timed=False).explain()


def test_the_budget_of_a_search_for_a_witness_is_the_most_and_not_what_is_expected() -> None:
    selected = np.arange(24) < 6
    n_calls = [try_witness(SmoothingSpec(), selected, keep=1.0, rate=rate) for rate in (0.5, 0.9, 1.0)]
    assert n_calls[0] <= n_calls[1] < 100 < n_calls[2] <= witness_calls(18)
    smoothed = try_witness(SmoothingSpec(n_samples=8), selected, keep=0.5, rate=0.9)
    assert smoothed <= witness_calls(18, 8)
    spec = replace(SPEC, witness=True, masking=MaskingSpec((8, 8)), mus=MusSpec(), methods=(MethodSpec("random"),))
    cost = plan_study(spec, timed=False).costs[-1]
    assert cost.expected_calls < cost.most_calls / 20


def test_a_mean_curve_takes_no_more_than_planned(tmp_path: Path) -> None:
    certify = CertifySpec(radii=(1, 4), precision="data-set", half_width=0.1)
    spec = StudySpec(
        SPEC.model, replace(SPEC.data, n=8), (MethodSpec("random"),), masking=SPEC.masking, certify=certify
    )
    plan = plan_study(spec, timed=False)
    assert [cost.name for cost in plan.costs] == ["random", "mean curves"]
    run_study(spec, tmp_path / "means.db")
    with Store(tmp_path / "means.db") as store:
        (curve,) = store.mean_curves().values()
    # Repeated masks of small sizes are computed once.
    assert 0.3 * plan.costs[1].expected_calls <= curve.n_calls <= plan.costs[1].most_calls


def test_inputs_that_would_be_left_out_are_counted(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("a", "b", "c"):
        Image.fromarray(np.zeros((8, 8), dtype=np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes(b"broken")
    broken = replace(SPEC, data=DataSpec(f"images:{tmp_path}"))
    with pytest.raises(StudyError, match=r"Input 1 cannot be read: The image file .*b\.png"):
        plan_study(broken, timed=False)
    plan = plan_study(replace(broken, data=replace(broken.data, skip_unreadable=True)), timed=False)
    assert (plan.n_inputs, plan.n_looked_at, plan.n_skipped) == (3, 3, 1)
    assert "; 1 of 3 checked inputs left out." in str(plan)
    assert "1 of 3 inputs that were checked would be left out." in plan.explain()
    with pytest.raises(StudyError, match="None of 3 inputs"):
        plan_study(replace(broken, data=DataSpec(f"images:{tmp_path}", None, True, 99)), timed=False)


@pytest.mark.parametrize("rate", [0, 1, 2, "0.9"])
def test_the_assumed_rate_is_checked_before_anything_is_loaded(rate: Any) -> None:
    with pytest.raises(HoldfastError, match="`assumed_rate` must be a number strictly between 0 and 1"):
        plan_study(replace(SPEC, model=ModelSpec("bundled:nothing")), assumed_rate=rate)


def test_the_command_prints_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_spec(SPEC, "study.toml")
    assert main(["study", "plan", "--untimed"]) == 0
    printed = capsys.readouterr().out
    assert printed == f"{plan_study(SPEC, timed=False)}\n"
    assert main(["study", "plan", "--untimed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_items"] == 24


def test_a_study_that_is_wrong_ends_with_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.toml").write_text('model = "a:b"\nsede = 1')
    assert main(["study", "plan", str(tmp_path / "study.toml")]) == 3
    assert "`sede` is not a key of a study. Did you mean `seed`?" in capsys.readouterr().err
    assert main(["study", "plan", str(tmp_path / "missing.toml")]) == 3
    with pytest.raises(InvalidValueError, match="must start with one of"):
        plan_study(replace(SPEC, model=ModelSpec("nothing")), timed=False)

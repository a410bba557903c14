"""The metrics of other packages say what ``certify`` says, in those packages' own ways."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from holdfast import certify, from_array, mask_image, mask_tabular, top_fraction
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.randomness import stream, stream_key

quantus = pytest.importorskip("quantus")
torchmetrics = pytest.importorskip("torchmetrics")

from holdfast.interop.quantus import StabilityRate as QuantusRate  # noqa: E402
from holdfast.interop.torchmetrics import MeanStabilityRate as TorchRate  # noqa: E402

N_IMAGES = 5


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


@pytest.fixture
def images() -> torch.Tensor:
    return 3 * torch.randn(N_IMAGES, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def maps() -> torch.Tensor:
    return torch.randn(N_IMAGES, 8, 8, generator=torch.Generator().manual_seed(2))


def key_of(number: int, *place: str, rng: int) -> int:
    """The random numbers of one input, in whatever batch it comes."""
    return stream_key(stream(rng, "metric", *place, str(number)))


def by_hand(network: nn.Module, images: torch.Tensor, maps: torch.Tensor, *place: str, rng: int = 3) -> list[Any]:
    """What ``certify`` says of each image with the random numbers of the metrics."""
    found = []
    for number, (image, scores) in enumerate(zip(images, maps, strict=True), start=1):
        model = mask_image(network, image, groups=(4, 4))
        selected = top_fraction(from_array(scores.numpy(), model), 0.25)
        found.append(certify(model, selected, radius=3, rng=key_of(number, *place, rng=rng)))
    return found


@pytest.mark.parametrize("batch_size", [1, 2, 64])
@pytest.mark.parametrize("with_channel", [False, True])
def test_quantus_gets_the_rates_of_certify(
    network: nn.Module, images: Any, maps: Any, batch_size: int, with_channel: bool
) -> None:
    metric = QuantusRate(radius=3, groups=(4, 4), rng=3)
    given = maps[:, None] if with_channel else maps
    labels = np.zeros(N_IMAGES, dtype=int)
    rates = metric(network, images.numpy(), labels, given.numpy(), batch_size=batch_size)
    expected = by_hand(network, images, maps)
    assert rates == [one.rate_unbiased for one in expected]
    assert metric.certificates == expected
    assert metric(network, images.numpy(), labels, given.numpy()) == rates
    assert metric.all_evaluation_scores == rates * 2


def test_quantus_evaluates_the_metric_among_its_own(network: nn.Module, images: Any, maps: Any) -> None:
    found = quantus.evaluate(
        metrics={"stability": QuantusRate(radius=3, groups=(4, 4), rng=3, return_aggregate=True)},
        xai_methods={"given": maps.numpy()},
        model=network,
        x_batch=images.numpy(),
        y_batch=np.zeros(N_IMAGES, dtype=int),
        agg_func=np.mean,
        verbose=False,
    )
    rates = [one.rate_unbiased for one in by_hand(network, images, maps)]
    assert found["given"]["stability"] == pytest.approx(np.mean(rates))


def test_quantus_asks_for_the_explanations_it_is_not_given(network: nn.Module, images: Any, maps: Any) -> None:
    def explain(model: Any, inputs: Any, targets: Any, **_: Any) -> Any:
        return maps.numpy()[: len(inputs)]

    metric = QuantusRate(radius=3, groups=(4, 4), rng=3)
    rates = metric(network, images.numpy(), np.zeros(N_IMAGES, dtype=int), explain_func=explain)
    assert rates == [one.rate_unbiased for one in by_hand(network, images, maps)]


def test_rows_of_a_table_are_hidden_behind_the_fill() -> None:
    torch.manual_seed(0)
    network, rows = nn.Linear(6, 3), torch.rand(2, 6)
    scores = torch.rand(2, 6)
    metric = QuantusRate(radius=2, top_fraction=0.5, fill=0.5, rng=0)
    metric(network, rows.numpy(), np.zeros(2, dtype=int), scores.numpy())
    for number, (row, own, found) in enumerate(zip(rows, scores, metric.certificates, strict=True), start=1):
        model = mask_tabular(network, row.numpy(), fill=0.5)
        selected = top_fraction(from_array(own.numpy(), model), 0.5)
        assert found == certify(model, selected, radius=2, rng=key_of(number, rng=0))


def test_torchmetrics_averages_unbiased_rates_over_batches(network: nn.Module, images: Any, maps: Any) -> None:
    metric = TorchRate(network, radius=3, groups=(4, 4), rng=3)
    for batch in (slice(0, 2), slice(2, N_IMAGES)):
        metric.update(images[batch], maps[batch])
    expected = by_hand(network, images, maps, "0")
    mean = np.mean([one.rate_unbiased for one in expected])
    assert metric.compute().item() == pytest.approx(mean)
    low, high = metric.interval(0.9)
    assert 0 <= low < mean < high <= 1
    metric.reset()
    with pytest.raises(InvalidValueError, match="at least one input"):
        metric.interval()


def test_a_collection_takes_the_metric_and_no_weight_becomes_its_state(
    network: nn.Module, images: Any, maps: Any
) -> None:
    metric = TorchRate(network, radius=3, groups=(4, 4), rng=3)
    both = torchmetrics.MetricCollection({"near": metric, "far": TorchRate(network, radius=12, groups=(4, 4), rng=3)})
    found = both(images, maps)
    assert set(found) == {"near", "far"}
    assert not list(metric.parameters())
    assert not metric.state_dict()


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: QuantusRate(radius=-1), InvalidValueError, "`radius` must be a whole number ≥ 0, got -1"),
        (lambda: QuantusRate(top_fraction=2.0), InvalidValueError, "`top_fraction`"),
        (lambda: QuantusRate(plan="quick"), InvalidValueError, "`plan`"),
        (
            lambda: QuantusRate()(len, np.ones((1, 3)), [0], np.ones((1, 3))),
            InvalidTypeError,
            "`model` must be a torch",
        ),
        (lambda: TorchRate(len, radius=1), InvalidTypeError, "`module` must be a torch module, got builtin"),
        (
            lambda: TorchRate(nn.Linear(2, 2), radius=1).update(torch.ones(2, 2), torch.ones(1, 2)),
            InvalidValueError,
            "`attributions` must be as long as `inputs`, 2, got 1",
        ),
        (
            lambda: TorchRate(nn.Linear(2, 2), radius=1).update(torch.ones(2, 2, 2), torch.ones(2, 2)),
            InvalidValueError,
            r"Inputs must be images \(C, H, W\) or rows \(d,\)",
        ),
    ],
    ids=["radius", "fraction", "plan", "model", "module", "lengths", "shape"],
)
def test_what_cannot_be_measured_is_refused(ask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()


@pytest.mark.slow
def test_mlflow_holds_the_means_of_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    from holdfast.interop.mlflow import log_study
    from holdfast.study import run_study
    from tests.helpers.study_support import make_spec, write_texts

    write_texts(tmp_path, 4)
    run_study(make_spec(tmp_path), tmp_path / "study.db")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        summary = log_study(tmp_path / "study.db")
    client = mlflow.MlflowClient()
    stored = client.get_run(run.info.run_id)
    assert stored.data.params["model.spec"] == summary.model
    group = summary.groups[0]
    name = f"rate/{group.method}/{group.top_fraction:g}/{group.keep_probability:g}"
    logged = {one.step: one.value for one in client.get_metric_history(run.info.run_id, name)}
    assert logged == {one.radius: one.mean for one in group.soft}
    assert {one.path for one in client.list_artifacts(run.info.run_id)} == {"study.db", "summary.json"}


RANKS = """
import sys, torch, torch.distributed as dist
from holdfast.interop.torchmetrics import MeanStabilityRate
torch.manual_seed(0)
metric = MeanStabilityRate(torch.nn.Linear(30, 2), radius=9, rng=0)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2)
rows = torch.randn(4, 30, generator=torch.Generator().manual_seed(1))
metric.update(rows, rows)
print([rate.item() for rate in metric.rates])
dist.destroy_process_group()
"""


def test_processes_that_are_joined_after_the_metric_was_made_draw_their_own_masks(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RANKS, str(tmp_path / "meet"), str(rank)], stdout=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    said = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert said[0] != said[1]

"""Torch models say what times their calls: one meter for inputs of one kind on one kind of device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.masking.speed import call_meter

torch = pytest.importorskip("torch")


def test_a_module_on_a_device_has_one_meter_for_inputs_of_one_kind() -> None:
    module, gpu = torch.nn.Linear(3, 2), torch.device("cuda")
    meter = call_meter(module, gpu, (8, 8))
    assert call_meter(module, gpu, (8, 8)) is meter
    assert call_meter(module, gpu, (4, 4)) is not meter
    assert call_meter(torch.nn.Linear(3, 2), gpu, (8, 8)) is not meter
    assert call_meter(module, torch.device("cpu"), (8, 8)) is not meter


def image_model(batch_size: int | None = None) -> Any:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8 * 8 * 3, 2))
    image = np.random.default_rng(0).random((8, 8, 3)).astype(np.float32)
    return hf.mask_image(network, image, groups=(4, 4), batch_size=batch_size)


def test_images_are_not_timed_where_a_batch_size_is_given() -> None:
    assert image_model(16).call_meter is None
    assert image_model().without_probes().call_meter is None


def test_a_module_whose_calls_take_long_takes_along_later_looks_on_a_cpu_too() -> None:
    model, selected = image_model(), np.arange(16) < 4
    plain = hf.certify(image_model(), selected, radius=8, rng=0)  # of which nothing is timed here
    for n_rows, seconds in ((2, 0.102), (64, 0.164), (2, 0.102), (64, 0.164)):
        model.call_meter.record(n_rows, seconds)
    assert model.call_meter.price.rows_per_call in (100, 101)  # 100 ms, and 1 ms between two calls
    evaluator = hf.Evaluator(model)
    assert hf.certify(evaluator, selected, radius=8, rng=0) == plain
    assert evaluator.n_computed > evaluator.n_calls == plain.n_calls

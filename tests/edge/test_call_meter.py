"""Torch models say what times their calls: nothing on a CPU, elsewhere one meter for inputs of one kind."""

from __future__ import annotations

import numpy as np
import pytest

import holdfast as hf
from holdfast.masking.speed import call_meter

torch = pytest.importorskip("torch")


def test_a_module_on_a_device_has_one_meter_for_inputs_of_one_kind() -> None:
    module, gpu = torch.nn.Linear(3, 2), torch.device("cuda")
    meter = call_meter(module, gpu, (8, 8))
    assert meter is not None
    assert call_meter(module, gpu, (8, 8)) is meter
    assert call_meter(module, gpu, (4, 4)) is not meter
    assert call_meter(torch.nn.Linear(3, 2), gpu, (8, 8)) is not meter
    assert call_meter(module, torch.device("cpu"), (8, 8)) is None


@pytest.mark.parametrize("batch_size", [None, 16])
def test_images_on_a_cpu_are_not_timed_for_looks_ahead(batch_size: int | None) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8 * 8 * 3, 2))
    image = np.random.default_rng(0).random((8, 8, 3)).astype(np.float32)
    model = hf.mask_image(network, image, groups=(4, 4), batch_size=batch_size)
    assert model.call_meter is None
    evaluator = hf.Evaluator(model)
    certificate = hf.certify(evaluator, np.arange(16) < 4, radius=8, rng=0)
    assert evaluator.n_computed == evaluator.n_calls == certificate.n_calls

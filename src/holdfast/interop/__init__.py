"""Stability rates inside other packages' habits: Quantus, torchmetrics, MLflow. Each module needs its own package."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import holdfast as hf
from holdfast.certification.question import Question
from holdfast.masking.torch import import_torch
from holdfast.randomness import stream, stream_key
from holdfast.validation import check_share, check_whole


@dataclass
class RateMetric:
    """How often a prediction survives ``radius`` more features than the leading ones: what metrics average.

    The fields are parameters of the metrics. ``precision`` is tolerance, confidence and plan, where they are not those
    of ``certify``; ``place`` tells processes apart, and each input has random numbers of its own, however inputs are
    batched.
    """

    radius: int
    _: KW_ONLY
    top_fraction: float = 0.25
    groups: Any = None
    fill: Any = 0.0
    reduce: str = "sum"
    precision: dict[str, Any] = field(default_factory=dict)
    rng: Any = None
    place: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_whole(self.radius, "radius")
        check_share(self.top_fraction, "top_fraction")
        Question.check({"radii": [self.radius], **self.precision})
        self.restart()

    def restart(self) -> None:
        """The next input is the first."""
        self._key, self._n_inputs = stream_key(self.rng), 0

    def certify(self, module: Any, values: Any, scores: Any) -> hf.Certificate:
        """Certify the leading features of the next input, a tensor (C, H, W) or (d,); scores as for ``from_array``."""
        model: hf.MaskedModel
        if values.ndim == 3:
            model = hf.mask_image(module, values, groups=self.groups, fill=self.fill)
        elif values.ndim == 1:
            model = hf.mask_tabular(module, values.cpu().numpy(), groups=self.groups, fill=self.fill)
        else:
            shape = tuple(values.shape)
            raise hf.errors.InvalidValueError(
                f"Inputs must be images (C, H, W) or rows (d,), got one of shape {shape}."
            )
        self._n_inputs += 1
        rng = stream_key(stream(self._key, "metric", *self.place, str(self._n_inputs)))
        selected = hf.top_fraction(hf.from_array(scores, model, reduce=self.reduce), self.top_fraction)
        return hf.certify(model, selected, radius=self.radius, rng=rng, **self.precision)


def as_tensor(values: Any) -> Any:
    """An array or a tensor as a tensor."""
    try:
        return import_torch().as_tensor(values)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise hf.errors.InvalidTypeError(
            f"Inputs and attributions must be tensors or arrays of numbers: {error}"
        ) from error

"""A metric of Quantus: explanations of a batch → the stability rate of each."""

from __future__ import annotations

from typing import Any

import holdfast as hf
from holdfast.interop import RateMetric, as_tensor
from holdfast.masking.torch import is_module

try:
    from quantus.helpers.enums import DataType, EvaluationCategory, ModelType, ScoreDirection
    from quantus.metrics.base import Metric
except ImportError as error:  # pragma: no cover - the test environment has it
    raise hf.errors.MissingExtraError("This needs Quantus: pip install 'holdfast[torch]' quantus") from error


class StabilityRate(Metric[list[float]]):  # type: ignore[misc]
    """How often the prediction survives when more features are revealed than an explanation selects.

    Called like every metric of Quantus, it returns one rate per input, between 0 and 1; higher is more
    stable. They are unbiased, so that they can be averaged; the certificates, with their intervals and
    guarantees, are kept in ``certificates``. Rates are about the prediction for the selected features, whatever
    ``y_batch`` says; whether that is the prediction for the whole input is ``certificate.consistent``.

    Parameters
    ----------
    radius : int
        How many more features may be revealed.
    top_fraction : float
        The share of the features, those with the largest attributions, that is the explanation.
    groups, fill : optional
        What a feature is and how a hidden one looks, as for ``mask_image``, and ``mask_tabular`` for rows.
    reduce : {"sum", "mean", "max"}
        How the attributions of a feature's pixels become one.
    tolerance, confidence, plan, rng : optional
        As for ``certify``. Every input has draws of its own, whatever ``batch_size`` is.
    abs, normalise, normalise_func, normalise_func_kwargs, return_aggregate, aggregate_func : optional
        As for every metric of Quantus. Attributions are not normalised by default: their order is all that counts.

    Examples
    --------
    >>> import numpy as np, torch
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2, bias=False))
    >>> with torch.no_grad():
    ...     _ = module[1].weight.copy_(torch.tensor([[0.0], [1.0]]).expand(2, 16))
    >>> images = np.ones((2, 1, 4, 4), dtype=np.float32)
    >>> metric = StabilityRate(radius=3, groups=(4, 4), rng=0)
    >>> metric(model=module, x_batch=images, y_batch=np.array([1, 1]), a_batch=np.arange(32.0).reshape(2, 1, 4, 4))
    [1.0, 1.0]
    """

    name = "Stability Rate"
    data_applicability = {DataType.IMAGE, DataType.TABULAR}  # noqa: RUF012
    model_applicability = {ModelType.TORCH}  # noqa: RUF012
    score_direction = ScoreDirection.HIGHER
    evaluation_category = EvaluationCategory.ROBUSTNESS

    def __init__(
        self,
        radius: int = 5,
        *,
        top_fraction: float = 0.25,
        groups: Any = None,
        fill: Any = 0.0,
        reduce: str = "sum",
        rng: Any = None,
        **options: Any,
    ) -> None:
        precision: Any = {name: options.pop(name) for name in ("tolerance", "confidence", "plan") if name in options}
        usual = ("normalise_func", "normalise_func_kwargs", "aggregate_func", "default_plot_func")
        flags = dict.fromkeys(("abs", "normalise", "return_aggregate", "display_progressbar"), False)
        super().__init__(**(dict.fromkeys(usual) | flags | {"disable_warnings": True} | options))
        settings: Any = {"top_fraction": top_fraction, "groups": groups, "fill": fill, "reduce": reduce}
        self.metric = RateMetric(radius, **settings, precision=precision, rng=rng)
        self.certificates: list[hf.Certificate] = []

    def __call__(self, model: Any, x_batch: Any, y_batch: Any, a_batch: Any = None, **options: Any) -> list[float]:
        """The rate of each input; see the metrics of Quantus for what else can be given."""
        if not is_module(model):
            raise hf.errors.InvalidTypeError(argument="model", must="be a torch module", got=type(model).__name__)
        self.certificates = []
        self.metric.restart()
        optional = ("s_batch", "channel_first", "explain_func", "explain_func_kwargs", "model_predict_kwargs")
        options = dict.fromkeys(optional) | {"softmax": False} | options  # what Quantus asks for
        rates: list[float] = super().__call__(model, x_batch, y_batch, a_batch, **options)
        return rates

    def evaluate_batch(self, model: Any, x_batch: Any, y_batch: Any, a_batch: Any, **_: Any) -> list[float]:
        """Certify the explanations of one batch (b, C, H, W) or (b, d)."""
        if len(x_batch) != len(a_batch):
            must = f"be as long as `x_batch`, {len(x_batch)}"
            raise hf.errors.InvalidValueError(argument="a_batch", must=must, got=len(a_batch))
        module = model.get_model()
        certificates = []
        for values, scores in zip(x_batch, a_batch, strict=True):
            # Quantus adds a channel to maps that have none.
            scores = scores[0] if scores.ndim == 3 and len(scores) == 1 else scores
            certificates.append(self.metric.certify(module, as_tensor(values), as_tensor(scores)))
        self.certificates += certificates
        return [
            float(certificate.rate_unbiased) for certificate in certificates if certificate.rate_unbiased is not None
        ]

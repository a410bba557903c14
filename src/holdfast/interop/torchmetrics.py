"""A metric of torchmetrics: batches of inputs and attributions → the mean stability rate, also over processes."""

from __future__ import annotations

from typing import Any

import holdfast as hf
from holdfast.bounds import betting_mean
from holdfast.interop import RateMetric, as_tensor
from holdfast.masking.torch import is_module

try:
    import torch
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:  # pragma: no cover - the test environment has it
    raise hf.errors.MissingExtraError("This needs torchmetrics: pip install 'holdfast[torch]' torchmetrics") from error


class MeanStabilityRate(Metric):  # type: ignore[misc]
    """The mean, over inputs, of how often a prediction survives when more features are revealed.

    ``update`` certifies a batch, ``compute`` gives the mean of the unbiased rates, and ``interval`` where the
    mean over all inputs such as these lies, guaranteed if these were drawn independently.
    Works with ``MetricCollection``, Lightning and several processes, each of which draws its own masks.

    Parameters
    ----------
    module : torch module
        The classifier; it is called in evaluation mode, and is no part of the metric's state.
    radius : int
        How many more features may be revealed.
    top_fraction : float
        The share of the features, those with the largest attributions, that is the explanation.
    groups, fill, reduce, tolerance, confidence, plan, rng : optional
        As for ``mask_image`` (``mask_tabular`` for rows), ``from_array`` and ``certify``.
    **settings
        Of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> module = torch.nn.Linear(4, 2, bias=False)
    >>> with torch.no_grad():
    ...     _ = module.weight.copy_(torch.tensor([[0.0] * 4, [1.0] * 4]))
    >>> metric = MeanStabilityRate(module, radius=2, rng=0)
    >>> rows = torch.ones(3, 4)
    >>> metric.update(rows, rows)
    >>> metric.compute().item()
    1.0
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False

    def __init__(
        self,
        module: Any,
        radius: int,
        *,
        top_fraction: float = 0.25,
        groups: Any = None,
        fill: Any = 0.0,
        reduce: str = "sum",
        rng: Any = None,
        **settings: Any,
    ) -> None:
        if not is_module(module):
            raise hf.errors.InvalidTypeError(argument="module", must="be a torch module", got=type(module).__name__)
        precision: Any = {name: settings.pop(name) for name in ("tolerance", "confidence", "plan") if name in settings}
        super().__init__(**settings)
        # In a list: a module that is an attribute would become part of the metric, and of its state.
        self._classifier = [module]
        asked: Any = {"top_fraction": top_fraction, "groups": groups, "fill": fill, "reduce": reduce}
        self.metric = RateMetric(radius, **asked, precision=precision, rng=rng)
        self.add_state("rates", default=[], dist_reduce_fx="cat")

    def update(self, inputs: Any, attributions: Any) -> None:
        """Certify the explanations of a batch: inputs (b, C, H, W) or (b, d), attributions per feature or element."""
        batch, maps = as_tensor(inputs), as_tensor(attributions)
        if batch.ndim == 0 or maps.ndim == 0:
            raise hf.errors.InvalidValueError(
                "and `attributions` must be batches, got a single number.", argument="inputs"
            )
        if len(batch) != len(maps):
            must = f"be as long as `inputs`, {len(batch)}"
            raise hf.errors.InvalidValueError(argument="attributions", must=must, got=len(maps))
        # The number of this process among those that train, which may be known only since the metric was made.
        several = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.metric.place = (str(torch.distributed.get_rank() if several else 0),)
        for values, scores in zip(batch, maps, strict=True):
            certificate = self.metric.certify(self._classifier[0], values, scores)
            self.rates.append(as_tensor([certificate.rate_unbiased]).to(self.device))

    def compute(self) -> Any:
        """The mean rate."""
        return self._all_rates().mean()

    def interval(self, confidence: float = 0.95) -> hf.Interval:
        """Where the mean over all inputs such as these lies: guaranteed if they were drawn independently."""
        with self.sync_context(dist_sync_fn=self.dist_sync_fn):
            rates = self._all_rates().cpu().numpy()
        return betting_mean(rates, confidence=confidence)[0]

    def _all_rates(self) -> Any:
        if len(self.rates) == 0:
            must = "be called with at least one input before `compute`"
            raise hf.errors.InvalidValueError(argument="update", must=must)
        return dim_zero_cat(self.rates)

"""A torch module, one input and a map of scores → the certificate of its leading features: what metrics average."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

from holdfast.attribution.external import from_array
from holdfast.certification.certificate import Certificate, certify
from holdfast.certification.question import Question
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.masking.image.mask_image import mask_image
from holdfast.masking.table.mask_tabular import mask_tabular
from holdfast.masking.torch import import_torch
from holdfast.randomness import stream, stream_key
from holdfast.selection import top_fraction
from holdfast.types import MaskedModel
from holdfast.validation import check_share, check_whole


class MetricKeywords(TypedDict, total=False):
    """How sure a rate is to be; see ``certify``."""

    tolerance: float
    confidence: float
    plan: str


@dataclass(frozen=True)
class RateMetric:
    """How often the prediction survives ``radius`` more features than the leading ``share`` of them.

    Attributes
    ----------
    radius : int
        How many more features may be revealed.
    share : float
        How much of the input an explanation selects.
    groups, fill : optional
        What a feature is and how a hidden one looks: arguments of ``mask_image`` or ``mask_tabular``.
    reduce : str
        How the scores of a feature's elements become one: "sum", "mean" or "max".
    precision : mapping
        Tolerance, confidence and plan, where they are not those of ``certify``.
    """

    radius: int
    share: float = 0.25
    groups: Any = None
    fill: Any = 0.0
    reduce: str = "sum"
    precision: MetricKeywords = field(default_factory=MetricKeywords)

    def __post_init__(self) -> None:
        check_whole(self.radius, "radius")
        check_share(self.share, "top_fraction")
        Question.check({"radii": [self.radius], **self.precision})

    def certify(self, module: Any, values: Any, scores: Any, *, rng: int) -> Certificate:
        """Certify the leading features of one input, a tensor (C, H, W) or (d,); scores are as ``from_array`` takes."""
        bound = self._bind(module, values)
        selected = top_fraction(from_array(scores, bound, reduce=self.reduce), self.share)
        return certify(bound, selected, radius=self.radius, rng=rng, **self.precision)

    def _bind(self, module: Any, values: Any) -> MaskedModel:
        if values.ndim == 3:
            return mask_image(module, values, groups=self.groups, fill=self.fill)
        if values.ndim == 1:
            return mask_tabular(module, values.cpu().numpy(), groups=self.groups, fill=self.fill)
        shape = tuple(values.shape)
        raise InvalidValueError(f"Inputs must be images (C, H, W) or rows (d,), got one of shape {shape}.")


class Stream:
    """Random numbers for one input after the other, independent of each other and of how they are batched."""

    def __init__(self, rng: Any, *place: str) -> None:
        self._key, self._place, self._n_inputs = stream_key(rng), place, 0

    def following(self) -> int:
        """The key of the next input."""
        self._n_inputs += 1
        return stream_key(stream(self._key, "metric", *self._place, str(self._n_inputs)))


def as_tensor(values: Any) -> Any:
    """An array or a tensor as a tensor."""
    try:
        return import_torch().as_tensor(values)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidTypeError(f"Inputs and attributions must be tensors or arrays of numbers: {error}") from error

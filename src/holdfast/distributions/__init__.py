"""What else may be revealed, as the user states it."""

from typing import TYPE_CHECKING

from holdfast.lazy import load_lazily

if TYPE_CHECKING:
    from holdfast.distributions.contract import NeighborhoodCheck as NeighborhoodCheck
    from holdfast.distributions.contract import check_neighborhood as check_neighborhood
    from holdfast.distributions.distribution import Bernoulli as Bernoulli
    from holdfast.distributions.distribution import Grouped as Grouped
    from holdfast.distributions.distribution import Weighted as Weighted
else:
    __getattr__, __dir__, __all__ = load_lazily(
        __name__,
        {
            "contract": "NeighborhoodCheck check_neighborhood",
            "distribution": "Bernoulli Grouped Weighted",
        },
    )

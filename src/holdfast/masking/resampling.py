"""Other inputs → a fill that is drawn: hidden features are taken together from one of them, another with each draw."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from holdfast.errors import InvalidTypeError
from holdfast.validation import check_whole, is_number, shown


@dataclass(frozen=True, eq=False)
class Resample:
    """Hidden features as in one of many other inputs; see ``resample``."""

    background: Any = None
    nearest: int | None = None


def resample(background: Any = None, nearest: int | None = None) -> Resample:
    """Fill hidden features from other inputs, another one with each draw.

    Pass it as ``fill`` to ``mask_tabular`` or ``mask_image``. The hidden columns (pixels) of a mask are taken together
    from one background row (image), drawn uniformly with each mask. A certificate is then about pairs of a mask and a
    completion: the rate is the probability that the prediction of the full input stays, where the shown values are
    known and the rest is drawn. At radius 0 that is the precision of the rule "these columns have these values".

    ``certify``, ``certify_radii``, ``certified_radius``, ``certify_hard``, ``compare``, ``mean_curve``, ``stabilize``
    and ``find_witness`` draw completions. What needs one answer to each mask, such as ``attribute`` or ``smooth``, gets
    the mean of the scores over all completions, or the most frequent label.

    Parameters
    ----------
    background : array (m, d) or data frame, or images, optional
        Rows (images) to draw from. For rows, the ``background`` of ``mask_tabular`` if None.
    nearest : int, optional
        For rows: draw from so many rows only, those nearest to the input in the columns that are shown. Numbers are
        compared in standard deviations of the background, categories count 0 or 1, as do missing values, and squares
        are added; of equally near rows the first are taken.

    Examples
    --------
    >>> from holdfast import certify, mask_tabular, resample
    >>> background = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> model = mask_tabular(lambda rows: rows.sum(axis=1) > 0, [1, 1], fill=resample(background))
    >>> certify(model, [False, False], radius=0).rate, certify(model, [True, False], radius=0).rate
    (0.75, 1.0)
    """
    if isinstance(background, (str, bytes, PathLike)) or is_number(background) or isinstance(background, bool):
        must, hint = "be rows or images to draw from", "Read a file first, for example with `pandas.read_csv`."
        raise InvalidTypeError(argument="background", must=must, got=shown(background), hint=hint)
    return Resample(background, None if nearest is None else check_whole(nearest, "nearest", minimum=1))

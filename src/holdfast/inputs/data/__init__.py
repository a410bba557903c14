"""A short specification of a data set → a ``Dataset`` of inputs and labels."""

from __future__ import annotations

from typing import Any

from holdfast.inputs.data.dataset import Dataset
from holdfast.inputs.source import load_source

__all__ = ["Dataset", "load"]


def load(spec: str, **options: Any) -> Dataset:
    """Load inputs with their labels from what names them.

    Parameters
    ----------
    spec : str
        ``bundled:digits``, ``bundled:sentences`` or ``bundled:cancer``: the inputs that come with
        holdfast, for the models that do. ``images:<folder>``: image files, in a folder per class.
        ``tweeteval:<folder>``: texts and labels, line by line. ``table:<file>``: rows of a ``.csv`` or
        ``.parquet`` file. ``hf:<folder>``: what the ``datasets`` library saved to disk.
    **options
        ``bundled``: ``split`` ("test": inputs no bundled model was trained on; or "train").
        ``images``: ``labels`` (a CSV file with the columns file and label), ``classes``.
        ``tweeteval``: ``split``. ``table``: ``target`` (the column of labels), ``drop``,
        ``background`` (a file with rows that hidden columns are filled from), ``classes``. ``hf``:
        ``split``, ``input`` and ``label`` (columns). ``classes`` are the names of the classes in the
        order of the model's.

    Returns
    -------
    dataset : Dataset
        Inputs, labels and the names of the classes, always in the same order. Images are opened when
        they are asked for, and not kept.

    Examples
    --------
    >>> sentences = load("bundled:sentences")
    >>> sentences.kind, sentences.classes, len(sentences)
    ('text', ('negative', 'neutral', 'positive'), 200)
    """
    dataset: Dataset = load_source(spec, "data", options)
    return dataset

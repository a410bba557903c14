"""The shapes that flow through holdfast, and the one protocol everything rests on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""Boolean (n_features,): which features are shown. The explanation is a mask called ``selected``."""

Masks = NDArray[np.bool_]
"""Boolean (n_masks, n_features)."""

Outputs = NDArray[Any]
"""What a model says of b masks: scores (b, n_classes), or labels (b,)."""

Rng = np.random.Generator | int | Literal["canonical"] | None
"""A generator, a seed, "canonical" for the key of the question itself, or None for fresh entropy.
Global generators are never touched."""

Progress = Callable[[int, int], None]
"""Called with (rows computed so far, most rows that may be needed)."""


@dataclass(frozen=True)
class Provenance:
    """What a masked model was made of, as far as it is known: enough to tell two questions apart.

    ``masking`` says in words what the features are and how hidden ones look; ``model`` and ``input``
    are fingerprints.
    """

    masking: str | None = None
    model: str | None = None
    input: str | None = None


@runtime_checkable
class MaskedModel(Protocol):
    """A classifier and one input, bound into a function of Boolean masks.

    It must be deterministic: the same mask always gets the same answer.
    """

    @property
    def n_features(self) -> int:
        """Number of features that can be shown or hidden."""
        ...

    def __call__(self, masks: Masks, /) -> Outputs:
        """Scores (b, n_classes), or labels (b,), of the input under masks (b, n_features)."""
        ...


class Agreement(Protocol):
    """Says which outputs agree with a reference output; an output always agrees with itself."""

    @property
    def name(self) -> str: ...

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        """Boolean (b,) for outputs (b, n_classes) or (b,) and one reference of the same kind."""
        ...

    def describe(self, output: Any, classes: Sequence[str] | None = None, /) -> str | None:
        """What one output predicts, in words; None where that is its class, its label or its number."""
        return None

    def gaps(self, outputs: Outputs, reference: Any, /) -> NDArray[Any]:
        """How far each of the outputs is from another prediction, numbers (b,); 0 where that cannot be said."""
        return np.zeros(len(outputs))

    @property
    def errors(self) -> Any:
        """What is known of its errors, a ``JudgeErrors``; None where an agreement is right by definition."""
        return None


@runtime_checkable
class Answering(Protocol):
    """A masked model that answers in words, which may differ from draw to draw.

    ``question`` is what is asked; ``tokens`` are how many were read and written so far, or None. ``agreement`` names
    what counts as the same answer where nothing else is asked, and ``reference`` is the answer to agree with, or None.
    ``scores`` is a masked model of how likely the reference is, or None.
    """

    @property
    def question(self) -> str: ...
    @property
    def tokens(self) -> tuple[int | None, int | None]: ...
    @property
    def agreement(self) -> str: ...
    @property
    def reference(self) -> str | None: ...
    @property
    def scores(self) -> MaskedModel | None: ...

    def sample(self, masks: Masks, numbers: NDArray[np.int64], /) -> Outputs:
        """Answers (b,) to masks (b, n_features): the same number is the same draw, another one an independent one.

        Number 0 is what a call gives. A model that is not random gives the same whatever the number, but computes it
        anew, so that it can be seen whether that is true.
        """
        ...


@runtime_checkable
class Completing(MaskedModel, Protocol):
    """A masked model whose hidden features are drawn: each draw completes the input in another way.

    ``completed(masks, numbers)`` shows each of b masks with the completion of that number, from 0 to
    ``n_completions`` - 1, all equally likely; the same mask and number always get the same answer, and nothing depends
    on the number where every feature is shown. A call of the model itself draws nothing: it gives the mean of the
    scores over all completions of a mask, or the most frequent label.
    """

    @property
    def n_completions(self) -> int: ...

    def completed(self, masks: Masks, numbers: NDArray[np.int64], /) -> Outputs:
        """Scores (b, n_classes), or labels (b,), of masks (b, n_features) with these completions (b,)."""
        ...


@runtime_checkable
class Deciding(Protocol):
    """A masked model made of many calls of another, which can tell early which class leads.

    ``base`` is the evaluator of the other model, ``rows_per_mask`` calls of which make one full answer;
    ``n_base_calls`` have been made.
    """

    @property
    def base(self) -> Any: ...
    @property
    def rows_per_mask(self) -> int: ...
    @property
    def n_base_calls(self) -> int: ...

    def keeps_top_class(self, masks: Masks, top_class: int, /) -> Mask:
        """Boolean (b,): whether the class has the largest score in the full answer to each mask."""
        ...


@runtime_checkable
class Differentiable(Protocol):
    """A masked model that also gives gradients, at the elements its features are groups of.

    ``elements`` (shape S) is the input as the model sees it: pixels, or token embeddings;
    ``baseline`` (shape S) is what it looks like with every feature hidden; ``groups`` names for each
    element of the leading axes of S its feature, or -1 for elements that are always shown.
    """

    @property
    def elements(self) -> NDArray[Any]: ...
    @property
    def baseline(self) -> NDArray[Any]: ...
    @property
    def groups(self) -> NDArray[np.intp]: ...

    def gradient(self, points: NDArray[Any], target: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (b, n_classes) at points (b, *S), and the gradient (b, *S) of the target's score."""
        ...


@runtime_checkable
class Inspectable(Protocol):
    """A masked model that also shows what happens inside its network, for the full input.

    Where ``lacks("activations")`` is None, ``activations(layer, target)`` gives the name of a layer (the last
    convolution if ``layer`` is None), its output (C, h, w), and the gradient of the target's score there. Where
    ``lacks("attentions")`` is None, ``attentions()`` gives attention (n_layers, n_heads, T, T) and the share of each
    token in each feature (T, n_features). ``network()`` is the whole as a torch module on tensors.
    """

    def lacks(self, need: str, /) -> str | None:
        """What the model is that it cannot give "activations" or "attentions"; None if it can."""
        ...

    def network(self) -> Any: ...


@runtime_checkable
class Joinable(Protocol):
    """A masked model that can be computed in one call with other inputs of the same classifier.

    Models with equal ``join_key`` go together: those of one classifier whose inputs look alike to it. None goes alone.
    """

    @property
    def join_key(self) -> Hashable | None: ...

    def score_jointly(self, parts: Sequence[tuple[Any, Masks]], /) -> list[Outputs]:
        """Outputs of each part, a model of the same key and masks of it, all computed in one call."""
        ...

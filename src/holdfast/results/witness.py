"""What a search for a change of prediction found → a witness, or how far there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.certification.hard import HardCertificate
from holdfast.certification.serialization import Value
from holdfast.errors import InvalidValueError
from holdfast.types import Mask, Provenance
from holdfast.validation import check_mask, check_whole
from holdfast.words import NOT_RIGHT, calls, prediction_kept, quoted


@dataclass(frozen=True, eq=False)
class Witness(Value):
    """The smallest set of additions found that changes the prediction.

    Attributes
    ----------
    found : bool
        Whether any was found.
    mask : Boolean array or None
        The explanation with the additions.
    added : tuple of int
        The features added, in increasing order; none of them can be left out.
    n_added : int or None
        Their number; None if nothing was found.
    prediction, original_prediction : int, str, float or None
        With the additions (None if nothing was found), and on the explanation.
    prediction_name, original_name : str or None
        What the model calls these classes; None if it does not say.
    proven : bool
        No smaller set of additions exists; or, if nothing was found, none within ``max_radius``.
    cleared_radius : int
        All additions of up to this many features were evaluated, and none changes the prediction.
    """

    found: bool
    mask: Mask | None
    added: tuple[int, ...]
    n_added: int | None
    prediction: Any
    prediction_name: str | None
    original_prediction: Any
    original_name: str | None
    proven: bool
    cleared_radius: int
    max_radius: int
    n_calls: int
    rng_key: int
    selected: Mask
    agree: str
    provenance: Provenance

    schema: ClassVar[str] = "holdfast.witness"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        check_mask(self.selected, "selected")
        check_whole(self.cleared_radius, "cleared_radius")
        if self.found != (self.mask is not None) or (self.n_added or 0) != len(self.added):
            raise InvalidValueError("`found`, `mask`, `added` and `n_added` must agree.")
        if self.mask is not None:
            added = self.mask & ~self.selected
            if (self.selected & ~self.mask).any() or tuple(int(i) for i in added.nonzero()[0]) != self.added:
                raise InvalidValueError("`mask` must be the explanation with the features `added`.")

    def __str__(self) -> str:
        claim = self._found() if self.found else self._not_found()
        return f"{claim} ({calls(self.n_calls)})."

    def _found(self) -> str:
        names = ", ".join(map(str, self.added))
        size = f"feature {names}" if self.n_added == 1 else f"{self.n_added} features ({names})"
        left = f"whether fewer can, but more than {self.cleared_radius}, is open"
        minimal = "no smaller addition does" if self.proven else left
        what = prediction_kept(self.original_prediction, self.original_name, self.agree)
        return f"Revealing {size} changes {what} to {quoted(self.prediction, self.prediction_name)}; {minimal}"

    def _not_found(self) -> str:
        what = prediction_kept(self.original_prediction, self.original_name, self.agree)
        if self.proven:
            return f"No addition of up to {self.max_radius} features changes {what}"
        known = f"that none of up to {self.cleared_radius} features does is proven"
        return f"No addition of up to {self.max_radius} features was found that changes {what}; {known}"


@dataclass(frozen=True, eq=False)
class StabilityBracket(Value):
    """Bounds on the hard radius of one function: at least ``low``, below ``below``.

    Attributes
    ----------
    low : int
        No addition of up to this many features changes the prediction: proven.
    below : int or None
        Some addition of this many features does; None if none was found.
    method : str
        Where ``low`` comes from: "enumeration", "mus" or "bernoulli".
    certificate : HardCertificate or None
        The certificate by votes, for a smoothed model.
    witness : Witness
        The search behind ``below``.
    """

    low: int
    below: int | None
    method: str
    certificate: HardCertificate | None
    witness: Witness
    n_calls: int

    schema: ClassVar[str] = "holdfast.stability_bracket"

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if self.below is not None and self.low >= self.below:
            raise InvalidValueError(f"`low` must be below `below`, got {self.low} and {self.below}.")

    @property
    def is_tight(self) -> bool:
        """Whether the hard radius is known exactly."""
        n_unselected = int((~self.witness.selected).sum())
        return self.low + 1 == self.below or (self.below is None and self.low == n_unselected)

    def __str__(self) -> str:
        which = "smoothed model's" if self.certificate is not None else "model's"
        size = "1 feature" if self.low == 1 else f"{self.low} features"
        known = f"the {which} prediction survives every addition of up to {size} ({self.method})"
        if self.below is None:
            reach = self.witness.max_radius
            searched = "nothing larger was searched"
            if self.is_tight:
                searched = "these are all there are"
            elif reach > self.low:
                searched = f"none of up to {reach} was found that changes it"
            return f"For certain, {known}; {searched} ({calls(self.n_calls)})."
        also = f"and some addition of {self.below} changes it"
        scope = f"it is a fact about this input and masking, {NOT_RIGHT}"
        return f"For certain, {known}, {also} ({calls(self.n_calls)}); {scope}."

"""A binding of fills to masked models, and an explanation → its certificate under every fill, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

from holdfast.certification.certificate import Certificate, certify
from holdfast.certification.question import RateKeywords, asks
from holdfast.certification.serialization import Value, make_frame
from holdfast.completions import completions_of
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.evaluation import Evaluator
from holdfast.randomness import stream_key
from holdfast.types import MaskedModel
from holdfast.validation import check_list, check_selection, check_whole, is_number, shown
from holdfast.words import NO_PROOF, NOT_RIGHT, bracket, counted, fitted, paragraph, percent, quoted, scope, sure, took


@dataclass(frozen=True, eq=False)
class FillSensitivity(Value, schema="holdfast.fill_sensitivity"):
    """How the stability of one explanation moves with what hidden features look like.

    Each certificate holds on its own at its confidence; nothing is promised of all of them at once
    beyond ``joint_confidence``, and nothing of a fill picked after seeing them. A rate that moves
    says that the explanation's stability is partly a property of the fill, not of the model alone.

    Attributes
    ----------
    names : tuple of str
        A name per fill, in the order asked.
    certificates : tuple of Certificate
        One per fill, from the same draws of masks.
    n_calls : int
        Rows the models computed in all.
    """

    names: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    n_calls: int

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if not self.names or len(set(self.names)) != len(self.names) or len(self.names) != len(self.certificates):
            raise InvalidValueError(argument="names", must="be distinct, one per certificate, at least one")
        for certificate in self:
            certificate.check()

    @property
    def rates(self) -> tuple[float, ...]:
        """The rate under each fill."""
        return tuple(certificate.rate for certificate in self)

    @property
    def predictions(self) -> tuple[Any, ...]:
        """The prediction on the selected features under each fill."""
        return tuple(certificate.prediction for certificate in self)

    @property
    def spread(self) -> float:
        """The largest rate minus the smallest, as observed."""
        return max(self.rates) - min(self.rates)

    @property
    def same_prediction(self) -> bool:
        """Whether the selected features alone get the same prediction under every fill."""
        return all(prediction == self.predictions[0] for prediction in self.predictions)

    @property
    def joint_confidence(self) -> float:
        """With at least this probability all intervals hold at once; exact rates cost nothing (union bound)."""
        risk = sum(1 - Fraction(repr(certificate.confidence)) for certificate in self if not certificate.exact)
        return float(max(Fraction(0), 1 - risk))

    @property
    def _is_exact(self) -> bool:
        return all(certificate.exact and certificate.judge_errors is None for certificate in self)

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, name: str) -> Certificate:
        """The certificate of one fill."""
        if name not in self.names:
            raise InvalidValueError(argument="name", must=f"be one of {', '.join(self.names)}", got=shown(name))
        return self.certificates[self.names.index(name)]

    def to_frame(self) -> Any:
        """A pandas ``DataFrame``, one row per fill."""
        names = ("exact", "prediction", "consistent", "n_agreed", "n_evaluated", "n_calls")
        return make_frame(
            {"fill": fill, "rate": cert.rate, "rate_unbiased": cert.rate_unbiased, **cert.interval._asdict()}
            | {name: getattr(cert, name) for name in names}
            | {"masking": cert.provenance.masking}
            for fill, cert in zip(self.names, self, strict=True)
        )

    def __str__(self) -> str:
        first, width = self.certificates[0], max(len("fill"), *map(len, self.names))
        changes = first.changes(first.effective_radius, first.rate_kind)
        low, high = percent(min(self.rates)), percent(max(self.rates))
        rates = low if low == high else f"{low} to {high}"
        wrong = sum(not certificate.consistent for certificate in self)
        moves = "" if self.same_prediction else "; the prediction changes with the fill"
        unlike = f"; {wrong} contradict the full input" if wrong else ""
        # A judge's errors, and a rate of which only the lower end is known, leave no ±.
        near = f"±{first.tolerance:g}, "
        if first.rate_kind == "worst_size_lower" or first.judge_errors is not None:
            near = "observed; intervals: "
        known = f"{near}{sure(min(certificate.true_confidence for certificate in self))} confidence each"
        known = "exact" if self._is_exact else known
        lines = [
            fitted(
                "Stable in {rates} of cases under {fills} ({known}): {change}{moves}{unlike}.",
                rates=[rates],
                fills=[counted(len(self), "fill")],
                known=[known],
                unlike=[unlike],
                moves=[moves, moves and "; predictions differ"],
                change=changes,
            )
        ]
        of = "masks" if all(certificate.exact for certificate in self) else "drawn"
        lines.append(f"{'fill':>{width}}    rate  interval          agreed/{of}  prediction")
        for name, cert in zip(self.names, self, strict=True):
            counts = f"{cert.n_agreed}/{cert.n_evaluated}" + (" exact" if cert.exact else "")
            prediction = quoted(cert.prediction, cert.prediction_name)
            unlike = "" if cert.consistent else ", unlike the full input"
            rate = f"{cert.rate:6.3f}  {bracket(cert.true_interval):<16}"
            lines.append(f"{name:>{width}}  {rate}  {counts:<12}  {prediction}{unlike}")
        return "\n".join(lines)

    def explain(self) -> str:
        """What was asked, what is guaranteed and what is not, in plain words."""
        first = self.certificates[0]
        change = first.changes(first.effective_radius, first.rate_kind)[0]
        said = [f"How does the fill change how often {change} keeps the prediction?"]
        said.append("The same masks were drawn under every fill, so that rates differ by the fill alone.")
        if self._is_exact:
            said.append("All rates are exact: every mask was counted.")
        else:
            errors = Fraction(0) if first.judge_errors is None else 1 - Fraction(str(first.judge_errors.confidence))
            joint = max(0, math.floor(1000 * (Fraction(repr(self.joint_confidence)) - errors)) / 1000)
            least = sure(min(certificate.true_confidence for certificate in self))
            said.append(f"Each certificate holds with probability at least {least} over the draws.")
            said.append(
                f"All of them hold at once only with {sure(joint)}; a fill picked for its rate has no guarantee."
            )
            said.append("The judge's errors are included." if errors else "")
            said.append(NO_PROOF)
        said.append("A rate that moves is partly a property of the fill, not of the model alone.")
        about = scope(of="this model, input and explanation, under these fills")
        return paragraph(*said, took(self.n_calls), about, NOT_RIGHT)


@asks(RateKeywords)
def fill_sensitivity(
    bind: Callable[[Any], MaskedModel],
    selected: Any,
    fills: Mapping[str, Any] | Iterable[Any],
    *,
    radius: int,
    **keywords: Unpack[RateKeywords],
) -> FillSensitivity:
    """Certify one explanation under several fills, to see how much its stability owes to the fill.

    Every fill gets the certificate that ``certify`` would give with the same ``rng``: the same draws of
    masks, so that rates differ by the fill and not by the draws. Each certificate holds on its own at
    ``confidence``. Picking the fill with the best rate afterwards has no such guarantee.

    Parameters
    ----------
    bind : callable
        A fill → the masked model with that fill, such as ``lambda fill: mask_tabular(f, row, fill=fill)``.
        All models must have the same features.
    selected : Boolean (n_features,), or list of names or indices
        The explanation.
    fills : mapping or iterable
        Name → fill, or fills. Without names, texts and numbers name themselves, and any other fill
        is named by the ``provenance`` of its model.
    radius : int
        See ``certify`` for this and the other parameters.

    Returns
    -------
    FillSensitivity
        The certificates by name of the fill.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import mask_function
    >>> row = np.array([3.0, 1.0, 1.0, 1.0])
    >>> def bind(fill):
    ...     return mask_function(lambda masks: np.where(masks, row, fill).sum(axis=1) > 4, n_features=4)
    >>> moved = fill_sensitivity(bind, [True, False, False, False], {"zero": 0.0, "one": 1.0}, radius=1, rng=0)
    >>> moved.rates, moved.predictions
    ((1.0, 1.0), (False, True))
    """
    check_whole(radius, "radius")
    keywords["rng"] = stream_key(keywords.get("rng"))  # the same draws for every fill
    if not callable(bind):
        raise InvalidTypeError(
            argument="bind", must="be a function from a fill to a masked model", got=type(bind).__name__
        )
    if isinstance(fills, Mapping):
        pairs = list(fills.items())
        if not all(isinstance(name, str) for name, _ in pairs):
            raise InvalidTypeError(argument="fills", must="have texts for names", got=shown(list(fills)))
    else:
        pairs = [
            (None, fill) for fill in check_list(fills, "fills", "be a list of fills, or a mapping from names to fills")
        ]
    if not pairs:
        raise InvalidValueError(argument="fills", must="have at least one fill", got="none")
    # Every model is bound and checked before the first is called.
    models: dict[str, Evaluator] = {}
    for name, fill in pairs:
        bound = bind(fill)
        model = bound if isinstance(bound, Evaluator) else Evaluator(bound)
        own = str(fill) if isinstance(fill, str) or is_number(fill) else model.provenance.masking or repr(fill)
        label = own if name is None else name
        if label in models:
            got, hint = f"{shown(label)} twice", "Map names to fills."
            raise InvalidValueError(argument="fills", must="have distinct names", got=got, hint=hint)
        if completions_of(model) is not None:
            must = "be fixed, not random: random fills keep the prediction of the full input"
            hint = "Certify it on its own: its rate answers another question."
            raise InvalidValueError(argument="fills", must=must, got=shown(label), hint=hint)
        models[label] = model
    mask = check_selection(selected, "selected", next(iter(models.values())))
    for name, model in models.items():
        if model.n_features != len(mask):
            must = f"have one entry per feature: with fill {name!r} the model has {model.n_features} features"
            raise InvalidValueError(argument="selected", must=must, got=len(mask))
    certificates = tuple(certify(model, mask, radius=radius, **keywords) for model in models.values())
    return FillSensitivity(tuple(models), certificates, sum(certificate.n_calls for certificate in certificates))

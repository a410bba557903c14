"""A masked model and the name of a method → an ``Attribution``, through the same evaluation as certification.

A method is a function of an ``AttributionTask``, what it may ask, and of its own options. Occlusion, RISE and random
scores are here, the others in modules of their own, and those of captum and shapiq in ``packages``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.agreement import SameSide, as_agreement, same_top_class
from holdfast.certification.serialization import Value, frozen_numbers
from holdfast.errors import ArgumentError, InvalidTypeError, InvalidValueError, MissingGradientsError
from holdfast.evaluation import Evaluator, bare_model, evaluating
from holdfast.randomness import stream, stream_key
from holdfast.terminal import Plotted
from holdfast.types import Differentiable, Inspectable, MaskedModel, Masks, Outputs, Progress, Provenance, Rng
from holdfast.validation import (
    check_class_name,
    check_masks,
    check_name,
    check_number,
    check_whole,
    did_you_mean,
    shown,
)
from holdfast.words import NOT_RIGHT, class_name, counted, few_words, fitted, named, paragraph, took

Numbers = NDArray[np.float64]
_Answer = TypeVar("_Answer")

METHODS = {
    "lime": ("lime", "masks"),
    "shap": ("shapley", "masks"),
    "integrated_gradients": ("gradients", "gradients"),
    "mfaba": ("gradients", "gradients"),
    "occlusion": ("methods", "masks"),
    "random": ("methods", "masks"),
    "gradient_x_input": ("gradients", "gradients"),
    "smoothgrad": ("gradients", "gradients"),
    "gradient_shap": ("gradients", "gradients"),
    "grad_cam": ("networks", "activations"),
    "attention_rollout": ("networks", "attentions"),
    "rise": ("methods", "masks"),
}
"""Methods by name: the module of this package each is in, loaded when it is first asked for, and a key of ``NEEDS``."""

NEEDS = {
    "masks": "any model",
    "gradients": "a model with gradients: a PyTorch module bound by `mask_image` or `mask_text`",
    "activations": "a convolutional network: a PyTorch module bound by `mask_image`",
    "attentions": "a transformer of Hugging Face bound by `mask_image` or `mask_text`",
    "network": "a PyTorch module bound by `mask_image` or `mask_text`",
}
"""What methods ask of a model, and the words for it."""

SCHEMES = {"captum": "a class of captum.attr", "shapiq": "an approximator of shapiq"}
"""Packages whose methods are found by name, as in "captum:DeepLift"."""

_LINEAR = (
    "lime",
    "shap",
    "occlusion",
    "rise",
    "integrated_gradients",
    "gradient_x_input",
    "smoothgrad",
    "gradient_shap",
)
"""Methods whose scores for the negated score are their scores, negated."""

_SAME_FOR_ALL = ("random", "attention_rollout")
"""Methods that do not look at what is explained."""

RISE_SAMPLES = 1000

_MOST_CELLS = 1 << 27  # most entries of all masks of a method together: a gigabyte where they are drawn as floats
_N_SHOWN = 3
_N_ROUNDINGS, _CELLS_AT_ONCE = 8, 1 << 24


@dataclass(frozen=True, eq=False)
class Attribution(Plotted, Value, schema="holdfast.attribution"):
    """How much each feature matters for one prediction, by one method.

    Scores carry no guarantee: that features with large scores suffice for the prediction is what
    ``certify`` checks. NumPy treats it as the vector of its scores.

    Attributes
    ----------
    scores : float array (n_features,)
        One finite number per feature; large means that the feature speaks for the target.
    target : int, str, bool or None
        The class whose score is explained, or the label whose presence is; None if unknown, or if the model gives
        a single score.
    target_name : str or None
        What the model calls that class; None if it does not say.
    method : str
        The name of the method.
    n_calls : int
        Rows the model computed for it, gradients included.
    feature_names : tuple of str or None
        What the features are called, if they have names.
    rng_key : int or None
        Give it back as ``rng`` to repeat the scores; None if nothing was drawn.
    errors : float array (n_features,) or None
        Estimated standard errors of sampled Shapley values and of RISE: about 95 of 100 exact values lie within
        two of them, unless the model does something on masks so rare that none was drawn. An
        estimate, not a guarantee. Zero if exact, None where a method has none.
    details : mapping
        Settings and diagnostics of the method.
    provenance : Provenance
        The masking, model and input, as far as the masked model tells.
    """

    scores: NDArray[np.float64]
    target: Any = None
    method: str = "given"
    n_calls: int = 0
    feature_names: tuple[str, ...] | None = None
    rng_key: int | None = None
    errors: NDArray[np.float64] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    target_name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", frozen_numbers(self.scores))
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))
        if self.errors is not None:
            object.__setattr__(self, "errors", frozen_numbers(self.errors))
        self.check()

    def check(self) -> None:
        """Raise if the fields contradict each other."""
        if self.scores.ndim != 1 or len(self.scores) == 0 or not np.isfinite(self.scores).all():
            raise InvalidValueError(argument="scores", must="be a vector of one finite number per feature")
        if self.errors is not None and (self.errors.shape != self.scores.shape or not (self.errors >= 0).all()):
            raise InvalidValueError(argument="errors", must="be one number ≥ 0 per feature")
        if self.feature_names is not None and len(self.feature_names) != len(self.scores):
            must = f"be one per feature: {len(self.scores)}"
            raise InvalidValueError(argument="feature_names", must=must, got=len(self.feature_names))
        if not isinstance(self.method, str):
            raise InvalidTypeError(argument="method", must="be a string", got=shown(self.method))
        check_whole(self.n_calls, "n_calls")
        check_class_name(self.target, self.target_name, "target_name")

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.scores)

    @property
    def ranking(self) -> NDArray[np.intp]:
        """Feature indices by decreasing score; equal ones by index."""
        return np.argsort(-self.scores, kind="stable")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.scores, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.scores)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return type(self).from_json, (self.to_json(),)

    def __str__(self) -> str:
        names = [f"feature {i}" for i in range(self.n_features)]
        if self.feature_names is not None:
            names = [repr(few_words(name, 2)) for name in self.feature_names]
        leaders = [f"{names[i]} {self.scores[i]:.3g}" for i in self.ranking[:_N_SHOWN]]
        what = "" if self.target is None else f" for {named(self.target, self.target_name)}"
        return fitted(
            "Scores of {size} by {method}{what}, largest first: {leaders}{errors}.",
            size=[counted(self.n_features, "feature")],
            method=[few_words(self.method)],
            what=[what, ""],
            leaders=[", ".join(leaders), leaders[0]],
            errors=[self._errors and f" ({self._errors})", ""],
        )

    @property
    def _errors(self) -> str:
        """How far sampled scores may be off, in words."""
        if self.errors is None:
            return ""
        if self.errors.any():
            return f"standard errors up to {self.errors.max():.2g}"
        return "exact" if self.details.get("exact", True) else "no error was observed"

    def explain(self) -> str:
        """What was asked, and what the scores do not say, in plain words."""
        what = "a prediction" if self.target is None else f"the prediction {named(self.target, self.target_name)}"
        estimate = "about 95 of 100 exact values lie within two of them; that is an estimate, no guarantee"
        return paragraph(
            f"How much does each feature matter for {what}, by {few_words(self.method)}?",
            f"It gave {counted(self.n_features, 'score')}; features with larger ones matter more, by this method.",
            f"Errors: {self._errors}{f'; {estimate}' if 'standard' in self._errors else ''}." if self._errors else "",
            took(self.n_calls),
            "Scores say what this method finds. They carry no guarantee.",
            "They do not say that the leading features suffice for the prediction: `certify` tests that.",
            "Another method, fill or seed may give other scores.",
            NOT_RIGHT,
        )


def attribute(
    model: MaskedModel,
    method: Any,
    *,
    target: Any = None,
    agree: Any = None,
    n_samples: int | None = None,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
    rng: Rng = None,
    **options: Any,
) -> Attribution:
    """Score how much each feature matters for a prediction.

    What is explained is the target's score as the model gives it (logits if it gives logits), or, for
    a model that gives labels, whether it gives the target's label. Of a context with a ``reference`` it is the
    log-probability of that answer, where the language model tells it. All masks go through the same
    evaluation as in ``certify``: an ``Evaluator`` passed to both shares the computed masks. Random
    draws are never shared, even with the same ``rng``.

    Parameters
    ----------
    model : MaskedModel
        Function of masks (b, n_features). Gradient methods need one that is ``Differentiable``: a
        torch module bound by ``mask_image`` or ``mask_text``. "grad_cam" needs a convolutional network,
        "attention_rollout" a transformer of Hugging Face.
    method : str or class
        "lime": weighted ridge regression on random masks. "shap": Shapley values of the masked
        features. "rise": mean score of the random masks that show a feature. "occlusion": each feature
        left out, or alone. "random": no explanation. "integrated_gradients": gradients along the line
        from the baseline. "gradient_shap": the same at random places of it. "gradient_x_input": the
        gradient times the input. "smoothgrad": the mean gradient of noisy copies. "mfaba": a walk
        against the gradient. "grad_cam": the last convolution's maps, weighted by their gradients.
        "attention_rollout": attention, multiplied through the layers. "captum:DeepLift" and
        "shapiq:SVARM": a class of ``captum.attr`` or an approximator of shapiq by name, or the class
        itself.
    target : int, str or bool, optional
        The class or label to explain; by default the one predicted for the full input.
    agree : Agreement, callable or str, optional
        What counts as the prediction, as in ``certify``: under ``same_side`` the side that the full input is on is
        explained, whichever class has the largest score. Other agreements change nothing.
    n_samples : int, optional
        The budget: masks for "lime" and "rise" (1,000), "shap" (all if n ≤ 12, else 1,000 and two per
        feature), "occlusion" (n + 1) and approximators of shapiq (1,000); gradients for
        "integrated_gradients" (27 to 729, as needed), "gradient_shap" (50), "smoothgrad" (25) and
        "mfaba" (at most 50 steps); what classes of captum call ``n_samples`` or ``n_steps``.
    batch_size : int, optional
        Most rows per model call.
    progress : bool or callable, optional
        True for a bar, False for none, or a function of (rows computed, most rows expected).
    rng : Generator, int, "canonical" or None
        Seed, generator or None; ``rng_key`` of the result repeats the draws. "canonical" derives the key from
        method, model and input.
    **options
        Of the method. "lime": ``kernel_width``, ``penalty``, ``sampling`` ("bernoulli" or "sizes").
        "integrated_gradients": ``rule`` ("midpoint" or "gauss_legendre"), ``tolerance``. "mfaba":
        ``variant`` ("sharp" or "smooth"), ``step``, ``box``. "occlusion": ``leave`` ("out" or "in").
        "rise": ``keep``. "smoothgrad" and "gradient_shap": ``noise``, a share of the elements' range.
        "grad_cam": ``layer``, a name of ``module.named_modules()``. Of other packages: what the class
        and its ``attribute`` take.

    Returns
    -------
    Attribution
        Scores (n_features,), the target, the model calls used, and what the method reports of itself.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import attribute, mask_function, top
    >>> model = mask_function(lambda masks: np.stack([masks @ [0.0, 3.0, 1.0], masks[:, 0]], axis=1), n_features=3)
    >>> scores = attribute(model, "shap")
    >>> scores.target, scores.scores.round(3).tolist(), scores.n_calls
    (0, [0.0, 3.0, 1.0], 8)
    >>> top(scores, 1).tolist()
    [False, True, False]
    """
    resolved = resolve_method(method)
    own = resolved.options
    for name in options:  # one that would have no effect is an error, never ignored
        if own is not None and name not in own:
            takes = f"takes {', '.join(f'`{known}`' for known in own)}" if own else "takes no options of its own"
            near = did_you_mean(name, [*own, *inspect.signature(attribute).parameters])
            hint = f" {near}" if near else ""
            raise InvalidTypeError(f"is not an option of {resolved.name!r}, which {takes}.{hint}", argument=name)
    budget = None if n_samples is None else check_whole(n_samples, "n_samples", minimum=1)
    judge = None if agree is None else as_agreement(agree)
    judge = judge if isinstance(judge, SameSide) else None
    if judge is not None and target is not None:
        raise InvalidValueError(argument="target", must=f"be left out with agree={judge.name}", got=shown(target))
    with evaluating(_explained(model, target), batch_size=batch_size, progress=progress) as evaluator:
        known = evaluator.provenance
        key = stream_key(rng, "attribute", resolved.name, known.model, known.input, known.masking)
        before = evaluator.n_calls
        task = AttributionTask(evaluator, resolved.name, target=target, agree=judge, n_samples=budget, key=key)
        scored = resolved.explain(task, **options)
        target = None if task.has_one_score else task.target
        return Attribution(
            scores=task.sign * scored.scores,
            target=target,
            method=resolved.name,
            n_calls=evaluator.n_calls - before + task.n_gradients,
            feature_names=names_of(model),
            rng_key=key if task.has_drawn else None,
            errors=scored.errors,
            details={**scored.details, **({} if judge is None else {"agree": judge.name})},
            provenance=evaluator.provenance,
            target_name=class_name(target, evaluator.classes),
        )


def _explained(model: MaskedModel, target: Any) -> MaskedModel:
    """The model, or, of one that answers in words and knows how likely its reference is, that likelihood."""
    evaluator = Evaluator(model)
    scores = None if evaluator.answering is None or target is not None else evaluator.answering.scores
    if scores is None:
        return model
    return Evaluator(scores, batch_size=evaluator.batch_size, timeout=evaluator.deadline.seconds)


class ResolvedMethod(NamedTuple):
    """A method that was found: what it is called in results, what it is, and what it takes.

    ``explain`` is a function of an ``AttributionTask`` and the method's own options; ``needs`` is a key of ``NEEDS``;
    ``options`` are the names of its options, None if it takes any.
    """

    name: str
    explain: Callable[..., Scored]
    needs: str
    options: tuple[str, ...] | None


def resolve_method(method: Any) -> ResolvedMethod:
    """The method of a name such as "lime" or "captum:DeepLift", or a class of captum or shapiq; nothing is computed.

    Examples
    --------
    >>> resolve_method("rise").options
    ('keep',)
    """
    scheme, separator, place = method.partition(":") if isinstance(method, str) else ("", "", "")
    if separator and scheme in SCHEMES:
        from holdfast.attribution.packages import resolve_class

        return resolve_class(scheme, place)
    if not isinstance(method, str):
        from holdfast.attribution.packages import resolve_object

        resolved = resolve_object(method)
        if resolved is not None:
            return resolved
    try:
        name = check_name(method, "method", METHODS)
    except ArgumentError as error:
        if callable(method):
            error.add_hint("For scores of your own, call your method and give its scores to `holdfast.top(scores, k)`.")
        error.add_hint(f"Or {', or '.join(f'{scheme}:… for {what}' for scheme, what in SCHEMES.items())}.")
        raise
    module, needs = METHODS[name]
    explain: Callable[..., Scored] = getattr(import_module(f"holdfast.attribution.{module}"), name)
    return ResolvedMethod(name, explain, needs, tuple(inspect.signature(explain).parameters)[1:])


def options_of(name: str) -> list[str]:
    """The options that a method has beside those of ``attribute``."""
    return list(resolve_method(name).options or ())


@dataclass(frozen=True)
class Scored:
    """What a method found: scores (n_features,), their standard errors if known, and how it went."""

    scores: Numbers
    errors: Numbers | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class AttributionTask:
    """One question to a method of attribution.

    The full input is computed with the first values that are asked for, so that a method can check its
    options before any model call.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        method: str,
        *,
        target: Any,
        agree: SameSide | None = None,
        n_samples: int | None,
        key: int,
    ) -> None:
        self.evaluator, self.method, self.key = evaluator, method, key
        self.n_features = evaluator.n_features
        self.n_gradients = 0
        self.has_drawn = False
        self.n_samples, self._target, self._agree = n_samples, target, agree

    @cached_property
    def _full(self) -> Outputs:
        return self.evaluator(np.ones((1, self.n_features), dtype=bool))

    @property
    def has_one_score(self) -> bool:
        """Whether the model gives one number, and no classes to choose from."""
        return self._full.shape[1:] == (1,)

    @cached_property
    def target(self) -> Any:
        """The column of scores, or the label, that is explained: by default the prediction on the full input."""
        full, target, answering = self._full, self._target, self.evaluator.answering
        if target is None and answering is not None:
            target = answering.reference
        if target is None:
            return predicted(full[0]) if self._agree is None else self._agree.explained(full[0])[0]
        if full.ndim == 1:
            if not isinstance(target, (str, int, np.integer, np.bool_)):
                must = f"be a label of the model, such as {full[0]!r}"
                raise InvalidTypeError(argument="target", must=must, got=shown(target))
            return target.item() if isinstance(target, np.generic) else target
        column = check_whole(target, "target")
        if column >= full.shape[1]:
            must = f"be a class from 0 to {full.shape[1] - 1}"
            raise InvalidValueError(argument="target", must=must, got=shown(target))
        return column

    @property
    def sign(self) -> int:
        """-1 where a low score of the target is the prediction that is explained, else 1.

        Scores of methods that are linear in the explained score can be turned round; those of others cannot.
        """
        if self._agree is None or self.method in _SAME_FOR_ALL:
            return 1
        sign = self._agree.explained(self._full[0])[1]
        if sign < 0 and self.method not in _LINEAR and not self.method.startswith("shapiq:"):
            must = f"be different for {self.method!r}, which cannot explain a low score"
            raise InvalidValueError(argument="agree", must=must, got=f"{self._agree.name}")
        return sign

    def values(self, masks: Masks) -> Numbers:
        """What is explained, as numbers (b,): the target's score, or 1 where the target's label is given."""
        answering = self.evaluator.answering
        if answering is None and self._target is None and "target" not in vars(self):  # what names it goes along
            full = np.ones((1, self.n_features), dtype=bool)
            self.evaluator(np.concatenate([full, check_masks(masks, self.n_features)]))
        target, outputs = self.target, self.evaluator(masks)
        if outputs.ndim > 1:
            return np.asarray(outputs[:, target], dtype=np.float64)
        agree = same_top_class if answering is None else as_agreement(answering.agreement)
        return agree(outputs, target).astype(np.float64)

    def budget(self, default: int, *, least: int, of: str) -> int:
        """The number of samples asked for, or the default; too few are refused in words."""
        n_samples = default if self.n_samples is None else self.n_samples
        if n_samples < least:
            raise InvalidValueError(argument="n_samples", must=f"be at least {least} {of}", got=n_samples)
        most = max(least, default, _MOST_CELLS // self.n_features)
        if n_samples > most:
            must = f"be at most {most} for {self.n_features} features"
            raise InvalidValueError(argument="n_samples", must=must, got=n_samples)
        return n_samples

    def stream(self) -> np.random.Generator:
        """The random numbers of this method alone; certification has other streams of the same key."""
        self.has_drawn = True
        return stream(self.key, "attribution", self.method)

    def gradients(self, points: NDArray[Any]) -> tuple[Outputs, Numbers]:
        """Scores (b, n_classes) and the target's gradients (b, *S) at points (b, *S)."""
        model, target = self.differentiable, self.target
        what = f"for {len(points)} gradients"
        scores, slopes = self.call(lambda: model.gradient(points, target), len(points), what)
        if not (np.isfinite(slopes).all() and np.isfinite(scores).all()):
            must = f"have finite gradients for {self.method!r}"
            raise InvalidValueError(argument="model", must=must, got="NaN or infinity")
        return scores, slopes.astype(np.float64)

    def call(self, function: Callable[[], _Answer], n_rows: int, what: str) -> _Answer:
        """What a function of the model returns that computes so many rows past the evaluator, in the time allowed."""
        answer = self.evaluator.deadline.call(function, what)
        self.n_gradients += n_rows
        return answer

    def tell_progress(self, total: int) -> None:
        """Report the gradients computed so far to whoever wants to see progress."""
        if self.evaluator.progress is not None:
            self.evaluator.progress(self.n_gradients, max(total, self.n_gradients))

    @cached_property
    def differentiable(self) -> Differentiable:
        """The model behind the evaluator, if it has gradients."""
        model: Differentiable = check_needs(self.evaluator, self.method, "gradients")
        return model


def occlusion(task: AttributionTask, *, leave: str = "out") -> Scored:
    """Hide each feature alone, or show it alone; the scores are the changes of the target's score.

    With ``leave="out"`` that is the score of the full input minus that without the feature, with "in" the score of
    the feature alone minus that of the empty input. A change within the rounding of the model's numbers counts as
    none, so that features which make no difference tie.
    """
    out = check_name(leave, "leave", ("out", "in")) == "out"
    n = task.n_features
    task.budget(n + 1, least=n + 1, of=f"for 'occlusion' of {n} features")
    task.evaluator.expect(n + 1)
    # A mask of all features or of none, then one per feature in which it alone is not so; a few megabytes at a time.
    size = max(1, _CELLS_AT_ONCE // n)
    portions = np.split(np.arange(-1, n), range(size, n + 1, size))
    values = np.concatenate([task.values((features[:, None] == np.arange(n)) != out) for features in portions])
    change = values[0] - values[1:] if out else values[1:] - values[0]
    # Models of floats differ so much between batches.
    kind = task.evaluator.outputs.dtype
    rounding = _N_ROUNDINGS * float(np.finfo(kind).eps) * np.abs(values).max() if kind.kind == "f" else 0.0
    return Scored(np.where(np.abs(change) > rounding, change, 0.0), details={"leave": leave})


def random(task: AttributionTask) -> Scored:
    """Scores drawn uniformly from [0, 1): what any method should beat."""
    return Scored(task.stream().random(task.n_features))


def rise(task: AttributionTask, *, keep: float = 0.5) -> Scored:
    """Show each feature with probability ``keep``; a feature's score is the mean score of the masks that show it.

    That is the weighting of RISE, on the features themselves: masks are not drawn on a coarse grid and enlarged. Sums
    are divided by the expected number of masks that show a feature, as in the paper. If there are no more masks than
    ``n_samples`` (1,000), each is computed once and weighted by its probability, which is exact.
    """
    share = float(check_number(keep, "keep", "be a number between 0 and 1", lambda value: 0 < value < 1))
    n = task.n_features
    n_samples = task.budget(RISE_SAMPLES, least=2, of="for 'rise'")
    details = {"keep": share, "n_samples": n_samples, "exact": 2**n <= n_samples}
    if details["exact"]:
        from holdfast.boolean.tables import all_masks

        masks = all_masks(n)
        task.evaluator.expect(len(masks))
        chances = share ** masks.sum(axis=1) * (1 - share) ** (~masks).sum(axis=1)
        scores = (chances * task.values(masks)) @ masks / share
        return Scored(scores, np.zeros(n), details | {"n_samples": len(masks)})
    masks = task.stream().random((n_samples, n)) < share
    task.evaluator.expect(n_samples)
    terms = task.values(masks)[:, None] * masks / share
    return Scored(terms.mean(axis=0), terms.std(axis=0, ddof=1) / np.sqrt(n_samples), details)


def lack_of(model: Any, needs: str) -> str | None:
    """What a model is that it lacks what a method needs; None if it has it."""
    bare = bare_model(model)
    if needs == "masks" or (needs == "gradients" and isinstance(bare, Differentiable)):
        return None
    if needs == "gradients" or not isinstance(bare, Inspectable):
        return type(bare).__name__
    return bare.lacks(needs)


def check_needs(model: Any, method: str, needs: str | None = None) -> Any:
    """The model behind evaluators, which must have what a method asks for: its need by name, or one of ``NEEDS``."""
    needs = resolve_method(method).needs if needs is None else needs
    lack = lack_of(model, needs)
    if lack is not None:
        message = f"needs {NEEDS[needs]}, got {lack}. 'lime', 'shap' and 'occlusion' need masks alone."
        raise MissingGradientsError(message, argument=f"method={method!r}")
    return bare_model(model)


def names_of(model: Any) -> tuple[str, ...] | None:
    """What the features are called, if the model says so."""
    names = getattr(bare_model(model), "feature_names", None)
    return None if names is None else tuple(map(str, names))


def predicted(output: Any) -> Any:
    """Index of the largest score (the first of equal ones), or the label."""
    return int(output.argmax()) if isinstance(output, np.ndarray) else output

"""Every experiment of the paper, by the name the command line knows it by."""

from __future__ import annotations

from holdfast.errors import InvalidValueError
from holdfast.experiments import (
    accuracy,
    batching,
    methods,
    mus_methods,
    sca_vs_mus,
    similar,
    smoothing,
    soft_vs_hard,
    spectra,
    unstable,
)
from holdfast.experiments.experiment import Experiment
from holdfast.experiments.words import FEWEST
from holdfast.study.spec import MusSpec
from holdfast.validation import check_name

_STUDY = ("model", "n", "methods", "radii", "min_tokens")

_RAISED = "Chosen after a look at results: the vision transformer has {now} inputs, not {before}, {why}."
_FEW = f"since fewer than {FEWEST} can decide nothing"

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        id="q1-sca-vs-mus",
        title="How much SCA and MuS certify",
        shows="stability rate over radius: SCA-soft, SCA-hard and MuS at λ = 1/2, 3/8, 1/4, 1/8",
        subjects=sca_vs_mus.SUBJECTS,
        options=(*_STUDY, "keep"),
        run=sca_vs_mus.run,
        n_levels=MusSpec.n_levels,
        hindsight=_RAISED.format(now=10, before=6, why=_FEW),
    ),
    Experiment(
        id="q2-methods",
        title="Stability of methods of explanation",
        shows="stability rate over radius, a line per method",
        subjects=methods.SUBJECTS,
        options=(*_STUDY, "precision"),
        run=methods.run,
        hindsight=_RAISED.format(
            now=20, before=8, why="which left half of its comparisons open; from 20 on the bootstrap decides"
        ),
    ),
    Experiment(
        id="q3-smoothing",
        title="Smoothing and stability",
        shows="stability rate over radius, a line per λ from 1 to 0.5",
        subjects=smoothing.SUBJECTS,
        options=(*_STUDY, "keep", "precision"),
        run=smoothing.run,
        hindsight="Chosen after a look at results: the numbers of inputs, which were changed after a first run.",
        min_tokens=40,
        most_inputs=200,
    ),
    Experiment(
        id="q4-accuracy",
        title="Smoothing and accuracy",
        shows="accuracy over λ from 1 to 0.1",
        subjects=accuracy.SUBJECTS,
        options=("model", "n", "keep"),
        run=accuracy.run,
        hindsight=(
            "Chosen after a look at results: digits-vit, and not digits-vit-masked, whose accuracy does not collapse."
        ),
    ),
    Experiment(
        id="topk-ablation",
        title="Methods compared at other shares of features",
        shows="q2 with the top 12.5, 25, 37.5 and 50% selected",
        subjects=methods.ABLATION_SUBJECTS,
        options=(*_STUDY, "precision"),
        run=methods.run_ablation,
        hindsight=_RAISED.format(now=10, before=4, why=_FEW),
    ),
    Experiment(
        id="mus-by-lambda",
        title="Methods compared by MuS alone",
        shows="share of inputs that MuS certifies over radius, a line per method, a panel per λ",
        subjects=mus_methods.SUBJECTS,
        options=(*_STUDY, "keep"),
        run=mus_methods.run,
        n_levels=MusSpec.n_levels,
        hindsight=_RAISED.format(now=10, before=6, why=_FEW),
    ),
    Experiment(
        id="batching-table",
        title="Batching and time",
        shows="time per pass at batch sizes 1, 5, 10 and 15, mean ± standard deviation over inputs",
        subjects=batching.SUBJECTS,
        options=("model", "n"),
        run=batching.run,
        cpu_only=True,
        most_inputs=100,
    ),
    Experiment(
        id="masking-vs-flipping",
        title="Mass per degree under masking and flipping",
        shows="mass per degree of random spectra after random masking and after random flipping",
        subjects=spectra.SUBJECTS,
        options=("n", "keep"),
        run=spectra.run,
    ),
    Experiment(
        id="example-unstable",
        title="The fewest features that overturn an explanation",
        shows="an input, its explanation, and the fewest features found that change the prediction",
        subjects=unstable.SUBJECTS,
        options=("model", "n", "methods", "min_tokens"),
        run=unstable.run,
        n_methods=1,
        most_inputs=50,
    ),
    Experiment(
        id="example-similar",
        title="Explanations that look alike",
        shows="two explanations of one input side by side, with their stability curves",
        subjects=similar.SUBJECTS,
        options=("model", "n", "methods", "radii"),
        run=similar.run,
        hindsight="Chosen after a look at results: 80 inputs, not 30, and the rule by which an input is chosen.",
        n_methods=2,
        n_models=1,
        most_inputs=20,
    ),
    Experiment(
        id="example-soft-vs-hard",
        title="Hard radius and stability rate of one input",
        shows="one input: how far its prediction provably stays, beside how often it stays further out",
        subjects=soft_vs_hard.SUBJECTS,
        options=("model", "n", "methods", "radii"),
        run=soft_vs_hard.run,
        n_methods=1,
        n_models=1,
        most_inputs=20,
    ),
)

IDS = tuple(experiment.id for experiment in EXPERIMENTS)


def find_experiment(name: str) -> Experiment:
    """The experiment of this name, or the only one whose name begins with it.

    Examples
    --------
    >>> find_experiment("q1").id
    'q1-sca-vs-mus'
    >>> find_experiment("m")
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `id` must be one experiment: 'm' could be mus-by-lambda, masking-vs-flipping.
    """
    is_name = isinstance(name, str) and name != ""
    begun = [experiment for experiment in EXPERIMENTS if is_name and experiment.id.startswith(name)]
    exact = [experiment for experiment in begun if experiment.id == name]
    if len(begun) > 1 and not exact:
        candidates = ", ".join(experiment.id for experiment in begun)
        raise InvalidValueError(argument="id", must=f"be one experiment: {name!r} could be {candidates}")
    if not begun:
        check_name(name, "id", IDS)
    return (exact or begun)[0]

"""Every experiment of the paper as data (models, study, figure, claims); names → checked runs → results in folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast import errors
from holdfast.errors import InvalidTypeError, InvalidValueError, StoreError
from holdfast.extras import check_installed, needed
from holdfast.report.figures.style import themed
from holdfast.reproduce import studies
from holdfast.reproduce.examples import run_similar, run_soft_vs_hard, run_unstable
from holdfast.reproduce.experiment import BUNDLED, FOR_FILES, Experiment, PlannedRun, Request, StudyPreset, Subject
from holdfast.reproduce.findings import FEWEST, FINDINGS, Claim, Contrast, Reproduced, write_results
from holdfast.reproduce.measures import PARTS, run_accuracy, run_batching, run_spectra
from holdfast.reproduce.studies import BASELINE, GRADIENTS, LEADING
from holdfast.study.spec import DataSpec, MaskingSpec, ModelSpec
from holdfast.study.store import Store
from holdfast.validation import check_name, check_path, check_whole, shown

RESNET, VIT = (
    Subject(name, "image", ModelSpec(BUNDLED + name), DataSpec(f"{BUNDLED}digits"), MaskingSpec((8, 8)), n_features=64)
    for name in ("digits-resnet", "digits-vit")
)
ROBERTA = Subject(
    "lexicon-roberta", "text", ModelSpec(f"{BUNDLED}lexicon-roberta"), DataSpec(f"{BUNDLED}sentences"), n_features=18
)

VOTE_RADII = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
MUS_RADII = (1, 2, 3, 4, 5, 6)
"""A keep probability of 1/8 certifies at most radius 3."""

MUS_KEEP = (1 / 2, 3 / 8, 1 / 4, 1 / 8)

_STUDY = ("model", "n", "methods", "radii", "min_tokens")
_RAISED = "Chosen after a look at results: the vision transformer has {now} inputs, not {before}, {why}."
_FEW = f"since fewer than {FEWEST} can decide nothing"


def _pair(firsts: Sequence[str], seconds: Sequence[str], suffix: str = "") -> Callable[[Contrast], bool]:
    """Whether a contrast is of one of these methods and one of those."""
    above, below = ({name + suffix for name in names} for names in (firsts, seconds))
    return lambda contrast: contrast.first in above and contrast.second in below


def _certifies(kind: str, beyond: bool) -> Callable[[Contrast], bool]:
    """Whether a contrast is of this kind of SCA with MuS, where MuS can certify nothing or where it can."""
    return lambda contrast: contrast.first.endswith(kind) and contrast.beyond_votes == beyond


BY_METHOD = StudyPreset(
    *(studies.method_contrasts, studies.method_panels, studies.measure_methods),
    panel_size=(3.2, 2.7),
    models_across=True,
)
METHOD_CLAIMS = (
    Claim("LIME, SHAP more stable than random, on images", _pair(LEADING, BASELINE), "image"),
    Claim("LIME, SHAP more stable than methods with gradients, on images", _pair(LEADING, GRADIENTS), "image"),
    Claim("methods with gradients more stable than random, on images", _pair(GRADIENTS, BASELINE), "image"),
    Claim("LIME, SHAP more stable than random, on texts", _pair(LEADING, BASELINE), "text", expected=False),
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        id="q1-sca-vs-mus",
        title="How much SCA and MuS certify",
        shows="stability rate over radius: SCA-soft, SCA-hard and MuS at λ = 1/2, 3/8, 1/4, 1/8",
        subjects=((RESNET, 60), (VIT, 10), (ROBERTA, 50)),
        options=(*_STUDY, "keep"),
        procedure=StudyPreset(
            *(studies.vote_contrasts, studies.vote_panels, studies.measure_votes),
            image_radii=VOTE_RADII,
            text_radii=VOTE_RADII,
            plan="hoeffding",
            keep=MUS_KEEP,
            smooths="mus",
            shared_x=True,
        ),
        claims=(
            Claim("SCA-soft certifies more than MuS, below radius 1/(2λ)", _certifies("SCA-soft", False)),
            Claim("SCA-soft certifies more than MuS, from 1/(2λ) on", _certifies("SCA-soft", True)),
            Claim("SCA-hard certifies more than MuS, below radius 1/(2λ)", _certifies("SCA-hard", False), None, False),
            Claim("SCA-hard certifies more than MuS, from 1/(2λ) on", _certifies("SCA-hard", True), None, False),
        ),
        hindsight=_RAISED.format(now=10, before=6, why=_FEW),
    ),
    Experiment(
        id="q2-methods",
        title="Stability of methods of explanation",
        shows="stability rate over radius, a line per method",
        subjects=((RESNET, 80), (VIT, 20), (ROBERTA, 80)),
        options=(*_STUDY, "precision"),
        procedure=BY_METHOD,
        claims=METHOD_CLAIMS,
        hindsight=_RAISED.format(
            now=20, before=8, why="which left half of its comparisons open; from 20 on the bootstrap decides"
        ),
    ),
    Experiment(
        id="q3-smoothing",
        title="Smoothing and stability",
        shows="stability rate over radius, a line per λ from 1 to 0.5",
        subjects=((RESNET, 30), (VIT, 4), (ROBERTA, 60)),
        options=(*_STUDY, "keep", "precision"),
        procedure=StudyPreset(
            *(studies.smoothing_contrasts, studies.smoothing_panels, studies.measure_smoothing),
            methods=BASELINE,
            image_radii=(1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 60, 80, 100),
            keep=(1.0, 0.9, 0.8, 0.7, 0.6, 0.5),
            smooths="model",
            panel_size=(3.1, 2.5),
            models_across=True,
        ),
        claims=(
            Claim("smoothed with λ ≥ 1/2, rates are higher", lambda contrast: (contrast.keep_probability or 0) >= 0.5),
            Claim(
                f"the gain is larger up to radius {studies.SMALL} than beyond", lambda contrast: contrast.radius is None
            ),
        ),
        hindsight="Chosen after a look at results: the numbers of inputs, which were changed after a first run.",
        min_tokens=40,
        most_inputs=200,
    ),
    Experiment(
        id="q4-accuracy",
        title="Smoothing and accuracy",
        shows="accuracy over λ from 1 to 0.1",
        subjects=((RESNET, 450), (VIT, 150), (ROBERTA, 200)),
        options=("model", "n", "keep"),
        procedure=run_accuracy,
        hindsight=(
            "Chosen after a look at results: digits-vit, and not digits-vit-masked, whose accuracy does not collapse."
        ),
    ),
    Experiment(
        id="topk-ablation",
        title="Methods compared at other shares of features",
        shows="q2 with the top 12.5, 25, 37.5 and 50% selected",
        subjects=((RESNET, 40), (VIT, 10), (ROBERTA, 40)),
        options=(*_STUDY, "precision"),
        procedure=replace(
            BY_METHOD, top_fractions=(0.125, 0.25, 0.375, 0.5), panel_size=(2.6, 2.3), models_across=False
        ),
        claims=METHOD_CLAIMS,
        hindsight=_RAISED.format(now=10, before=4, why=_FEW),
    ),
    Experiment(
        id="mus-by-lambda",
        title="Methods compared by MuS alone",
        shows="share of inputs that MuS certifies over radius, a line per method, a panel per λ",
        subjects=((RESNET, 60), (VIT, 10), (ROBERTA, 50)),
        options=(*_STUDY, "keep"),
        procedure=StudyPreset(
            *(studies.mus_contrasts, studies.mus_panels, studies.measure_mus),
            image_radii=MUS_RADII,
            text_radii=MUS_RADII,
            keep=MUS_KEEP,
            smooths="mus",
            panel_size=(2.5, 2.2),
            y_label="certified by MuS",
        ),
        claims=(
            Claim(
                "LIME, SHAP certified more often than random, by MuS", _pair(LEADING, BASELINE, ", MuS"), None, False
            ),
        ),
        hindsight=_RAISED.format(now=10, before=6, why=_FEW),
    ),
    Experiment(
        id="batching-table",
        title="Batching and time",
        shows="time per pass at batch sizes 1, 5, 10 and 15, mean ± standard deviation over inputs",
        subjects=((VIT, 100), (RESNET, 100), (ROBERTA, 100)),
        options=("model", "n"),
        procedure=run_batching,
        cpu_only=True,
        most_inputs=100,
    ),
    Experiment(
        id="masking-vs-flipping",
        title="Mass per degree under masking and flipping",
        shows="mass per degree of random spectra after random masking and after random flipping",
        subjects=(),
        options=("n", "keep"),
        procedure=run_spectra,
    ),
    Experiment(
        id="example-unstable",
        title="The fewest features that overturn an explanation",
        shows="an input, its explanation, and the fewest features found that change the prediction",
        subjects=((RESNET, 40), (ROBERTA, 60)),
        options=("model", "n", "methods", "min_tokens"),
        procedure=run_unstable,
        n_methods=1,
        most_inputs=50,
    ),
    Experiment(
        id="example-similar",
        title="Explanations that look alike",
        shows="two explanations of one input side by side, with their stability curves",
        subjects=((RESNET, 80),),
        options=("model", "n", "methods", "radii"),
        procedure=run_similar,
        hindsight="Chosen after a look at results: 80 inputs, not 30, and the rule by which an input is chosen.",
        n_methods=2,
        n_models=1,
        most_inputs=20,
    ),
    Experiment(
        id="example-soft-vs-hard",
        title="Hard radius and stability rate of one input",
        shows="one input: how far its prediction provably stays, beside how often it stays further out",
        subjects=((RESNET, 40),),
        options=("model", "n", "methods", "radii"),
        procedure=run_soft_vs_hard,
        n_methods=1,
        n_models=1,
        most_inputs=20,
    ),
)

FOLDER = Path("build/reproduce")
"""Where results go unless another folder is named."""

_NO_GRADIENTS = ("lime", "shap", "random")
"""Methods of the paper that every model can be explained by."""

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
    begun = {experiment.id: experiment for experiment in EXPERIMENTS if is_name and experiment.id.startswith(name)}
    if len(begun) > 1:  # no name is the beginning of another
        raise InvalidValueError(argument="id", must=f"be one experiment: {name!r} could be {', '.join(begun)}")
    if not begun:
        check_name(name, "id", IDS)
    return next(iter(begun.values()))


def carry_out(planned: PlannedRun, *, workers: int = 0, progress: Any = None) -> Reproduced:
    """Carry out a planned run, or what is left of it, and write data, figure and findings."""
    experiment, request = planned.experiment, planned.request
    planned = replace(planned, workers=check_whole(workers, "workers"), progress=progress)
    subjects = request.subjects if request.subjects is not None else [subject for subject, _ in experiment.subjects]
    packages = [needed(subject.model.spec, subject.data.spec) for subject in subjects]
    check_installed(experiment.id, (*FOR_FILES, *(package for some in packages for package in some)))
    try:
        with themed():
            how = experiment.procedure
            results = studies.run_studies(planned, how) if isinstance(how, StudyPreset) else how(planned)
    except errors.HoldfastError as error:  # which option of the command helps, if one does
        cause = error.cause if isinstance(error, errors.StudyError) and error.cause else error
        unnamed = any(subject.kind == "table" and "target" not in subject.data.options for subject in subjects)
        if isinstance(cause, errors.MissingGradientsError):
            error.add_hint(f"With `holdfast reproduce`: --methods {','.join(_NO_GRADIENTS[: experiment.n_methods])}.")
        elif isinstance(cause, errors.ColumnsError) and unnamed:
            option = "--set target=COLUMN names the column of labels, which is not a feature"
            error.add_hint(f"With `holdfast reproduce`: {option}.")
        raise
    if experiment.hindsight and request.subjects is None and request.n is None:
        results = replace(results, notes=[*results.notes, experiment.hindsight])
    return write_results(experiment.id, experiment.title, results, planned.folder)


def reproduce(
    name: str,
    request: Request | None = None,
    *,
    output: str | Path | None = None,
    workers: int = 0,
    progress: Any = None,
) -> Reproduced:
    """Carry out an experiment of the paper, or what is left of it, and write data, figure and findings.

    The same request gives the same data files, whatever the number of workers and however often it was
    interrupted; only times differ (batching-table).

    Parameters
    ----------
    name : str
        Its name, or how its name begins, such as "q1".
    request : Request, optional
        What is changed about it.
    output : str or Path, optional
        The folder; by default ``build/reproduce/<id>``. It must not hold results of another experiment.
    workers : int
        Worker processes of its studies; 0 for none.
    progress : bool, optional
        True for a live bar.

    Examples
    --------
    >>> reproduce("masking", Request(radii=(1, 2)))
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidValueError: `radii` is not an option of masking-vs-flipping, which takes n, keep and seed.
    """
    experiment = find_experiment(name)
    asked = experiment.check(Request() if request is None else request)
    folder = check_folder(experiment, FOLDER / experiment.id if output is None else output)
    return carry_out(PlannedRun(experiment, asked, folder), workers=workers, progress=progress)


def plan_runs(names: Sequence[str], request: Request, *, output: str | Path | None = None) -> list[PlannedRun]:
    """Several experiments, each once, in the order asked for; nothing runs before all of them are checked.

    Names are as ``reproduce`` takes them, or "all" for every experiment that can be carried out, each with those of the
    options that it takes. ``output`` is the folder of one, or a folder of folders for several.
    """
    if output is not None and not str(output).strip():
        raise InvalidValueError(argument="output", must="name a folder", got=shown(str(output)))
    named = [EXPERIMENTS if name == "all" else (find_experiment(name),) for name in names]
    chosen = list({experiment.id: experiment for some in named for experiment in some}.values())
    root, is_all = FOLDER if output is None else Path(output), "all" in names
    runs: list[PlannedRun] = []
    notes: list[str] = []
    if is_all and any(subject.device != "cpu" for subject in request.subjects or ()):
        timed = [experiment.id for experiment in chosen if experiment.cpu_only]
        notes = [f"{name} is left out: it measures processor time." for name in timed]
        chosen = [experiment for experiment in chosen if experiment.id not in timed]
    for experiment in chosen:
        asked, left_out = fit_request(experiment, request) if is_all else (request, [])
        folder = root / experiment.id if output is None or len(chosen) > 1 else root
        run = PlannedRun(experiment, experiment.check(asked), check_folder(experiment, folder))
        runs.append(replace(run, notes=(*([] if runs else notes), *left_out)))
    return runs


def fit_request(experiment: Experiment, request: Request) -> tuple[Request, list[str]]:
    """Of what is asked of all experiments, what this one takes; and sentences where its number does not fit."""
    unused = [name for option, name in request.given().items() if option not in experiment.options]
    fitting: Request = replace(request, **dict.fromkeys(unused))  # type: ignore[arg-type]
    notes, n_methods, n_models = [], experiment.n_methods, experiment.n_models
    if fitting.methods and n_methods is not None and len(fitting.methods) != n_methods:
        notes.append(f"{experiment.id}: --methods is ignored, as it needs exactly {n_methods}.")
        fitting = replace(fitting, methods=None)
    if fitting.subjects and n_models is not None and len(fitting.subjects) > n_models:
        notes.append(f"{experiment.id}: only the first --model is used, as it takes {n_models}.")
        fitting = replace(fitting, subjects=fitting.subjects[:n_models])
    return fitting, notes


def check_folder(experiment: Experiment, folder: Any) -> Path:
    """A folder that holds results of no other experiment; it need not be there yet.

    Other results of the same experiment, such as those of another number of inputs, may be there.
    """
    must = f"be a folder for {experiment.id}"
    if not isinstance(folder, (str, Path)):
        raise InvalidTypeError(argument="output", must=must, got=shown(folder))
    if not str(folder).strip():
        raise InvalidValueError(argument="output", must=must, got="an empty name")
    path = check_path(folder, "output")
    if path.exists() and not path.is_dir():
        raise InvalidValueError(argument="output", must=must, got=f"{shown(str(folder))}, which is a file")
    for other, file in owners(path):
        if other != experiment.id:
            got = f"{shown(str(folder))}, which holds results of {other} ({file.name})"
            raise InvalidValueError(argument="output", must=f"{must} only", got=got, hint="Choose another folder.")
    return path


def owners(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every experiment that left findings, a study or parts in this folder, with the file that says so."""
    findings = folder / FINDINGS
    if findings.is_file():
        with findings.open(encoding="utf-8", errors="replace") as file:
            first = file.readline().rstrip("\n")
        yield from ((experiment.id, findings) for experiment in EXPERIMENTS if f"# {experiment.title}" == first)
    for path in sorted(folder.glob("*.db")):
        with suppress(StoreError), Store(path) as store:
            name = store.spec.name
            yield from ((experiment.id, path) for experiment in EXPERIMENTS if name.startswith(f"{experiment.id}, "))
    if any((folder / PARTS).glob("*.json")):
        yield "q4-accuracy", folder / PARTS


def what_is_kept(planned: PlannedRun) -> str:
    """What the same command does after an interrupt: it goes on with items of a study, or parts, that are stored."""
    name, n_items = planned.experiment.id, len(list((planned.folder / PARTS).glob("*.json")))
    for path in planned.folder.glob("*.db"):
        with suppress(StoreError), Store(path) as store:
            n_items += len(list(store.query("SELECT 1 FROM items LIMIT 1")))
    if n_items:
        return f"What {name} stored is kept; the same command continues from there."
    return f"{name} stored nothing; the same command starts it again."

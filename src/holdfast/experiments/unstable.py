"""An explanation that a few more features overturn: the smallest change found among several inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.bounds import clopper_pearson
from holdfast.experiments.experiment import Desk, Experiment, Outcome, Request, Table
from holdfast.experiments.showing import Explained, name_features, show
from holdfast.experiments.studies import first_inputs, left_out
from holdfast.experiments.subjects import RESNET, ROBERTA, Subject
from holdfast.experiments.words import share
from holdfast.report.figures.style import make_panels, note_below
from holdfast.types import Mask
from holdfast.witness import Witness, find_witness
from holdfast.words import counted, method_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHOD, TOP = "lime", 0.25
MAX_CALLS = 4000
HEIGHTS = (1.4, 2.4)
"""Of a row of texts and of one of images, in inches."""

COLUMNS = {
    "model": "string",
    "input": "int64",
    "method": "string",
    "n_features": "int64",
    "n_selected": "int64",
    "label": "int64",
    "prediction": "string",
    "is_right": "bool",
    "found": "bool",
    "n_added": "int64",
    "added": "string",
    "changed_prediction": "string",
    "proven_smallest": "bool",
    "cleared_radius": "int64",
    "shown": "bool",
}


@dataclass(frozen=True, eq=False)
class Case:
    """One input, its explanation and the smallest change found."""

    explained: Explained
    method: str
    selected: Mask
    is_right: bool
    witness: Witness


def run(experiment: Experiment, request: Request, desk: Desk) -> Outcome:
    """Search every input for the smallest change, and show the smallest of all."""
    [method] = request.methods or (METHOD,)
    least = request.min_tokens or 1
    found = {one.name: search(one, method, seed=request.seed, least=least) for one in experiment.chosen(request)}
    cases = {name: some for name, (some, _) in found.items()}
    shown = {name: choose(some) for name, some in cases.items()}
    short = [words for name, (some, n) in found.items() for words in left_out(name, n - len(some), of=n, least=least)]
    return Outcome({"witnesses": _table(cases, shown)}, draw(shown), " ".join([tell(cases, shown), *short]))


def search(subject: Subject, method: str, *, seed: int, least: int) -> tuple[list[Case], int]:
    """Explain and search the first inputs that have enough features; and how many were looked at for them."""
    wanted = len(subject.first_inputs())
    numbers = first_inputs(subject, wanted, least).numbers if least > 1 else range(wanted)
    n_looked_at = numbers[-1] + 1 if len(numbers) == wanted else len(subject.inputs)
    return [_searched(Explained(subject, index, seed), method) for index in numbers], n_looked_at


def _searched(explained: Explained, method: str) -> Case:
    selected = explained.selected(method, TOP)
    witness = find_witness(explained.model, selected, max_calls=MAX_CALLS, rng=explained.rng("witness"))
    return Case(explained, method, selected, explained.is_right(selected), witness)


def choose(cases: Sequence[Case]) -> Case:
    """The smallest change among explanations that are right; the first of equals."""
    able = [case for case in cases if case.witness.found]
    right = [case for case in able if case.is_right]
    return min(right or able or cases, key=lambda case: len(case.witness.added))


def _table(cases: dict[str, list[Case]], shown: dict[str, Case]) -> Table:
    return Table.of(COLUMNS, [_row(name, case, case is shown[name]) for name, some in cases.items() for case in some])


def _row(name: str, case: Case, is_shown: bool) -> dict[str, object]:
    explained, witness = case.explained, case.witness
    return {
        "model": name,
        "input": explained.index,
        "method": case.method,
        "n_features": explained.model.n_features,
        "n_selected": int(case.selected.sum()),
        "label": explained.label,
        "prediction": str(explained.prediction),
        "is_right": case.is_right,
        "found": witness.found,
        "n_added": witness.n_added,
        "added": json.dumps(list(witness.added)),
        "changed_prediction": str(witness.prediction) if witness.found else None,
        "proven_smallest": witness.found and witness.proven,
        "cleared_radius": witness.cleared_radius,
        "shown": is_shown,
    }


def draw(shown: dict[str, Case]) -> Figure:
    """A row per model: the input, its explanation, and the features that overturn it."""
    heights = [HEIGHTS[case.explained.subject.kind == "image"] for case in shown.values()]
    figure, panels = make_panels(len(shown), 3, size=(3.0, 2.4), heights=heights)
    for row, case in zip(panels, shown.values(), strict=True):
        explained, witness = case.explained, case.witness
        name = explained.inputs.class_name
        show(explained, title=f"Input {explained.index}: {name(explained.prediction)}", ax=row[0])
        alone = name(witness.original_prediction)
        show(explained, case.selected, title=f"{method_label(case.method)}: {alone}", ax=row[1])
        changed = f"+ {witness.n_added}: {name(witness.prediction)}" if witness.found else "no change found"
        show(explained, case.selected, added=witness.added, title=changed, ax=row[2])
    note_below(figure, "Blue: the explanation. Orange, hatched or with broken frames: what was revealed besides.")
    return figure


def tell(cases: dict[str, list[Case]], shown: dict[str, Case]) -> str:
    """The findings in words."""
    parts = [_of_model(name, some, shown[name]) for name, some in cases.items()]
    right = [case for some in cases.values() for case in some if case.is_right]
    return " ".join([*parts, compared(sum(case.witness.found for case in right), len(right))])


def compared(n_overturned: int, n_right: int) -> str:
    """How what was found compares with the paper's example.

    Examples
    --------
    >>> compared(0, 5).split(". ")[0].split("; ")[1]
    'here no such addition was found for any of 5 right explanations, which differs from the paper'
    """
    right = counted(n_right, "right explanation")
    if n_right == 0:
        here = "here no explanation is right, so that there is nothing to compare"
    elif n_overturned == 0:
        here = f"here no such addition was found for any of {right}, which differs from the paper"
    else:
        here = f"here an addition that does so was found for {n_overturned} of {right}"
    return (
        f"The paper shows an input whose explanation a few more features overturn; {here}. What is shown was chosen as "
        "the smallest change found and is no typical one. Brackets are exact 95% binomial intervals."
    )


def _of_model(name: str, cases: Sequence[Case], shown: Case) -> str:
    right = [case for case in cases if case.is_right]
    head = (
        f"{name}: {method_label(shown.method)} explanations of {len(right)} of {counted(len(cases), 'input')} are right"
        ": the full input and the explanation alone both get the label, or the same prediction where there is no label."
    )
    if not right:
        return f"{head} {_shown(shown)}"
    one = [case for case in right if case.witness.n_added == 1]
    found = [case for case in right if case.witness.found]
    rate = share(len(one) / len(right), clopper_pearson(len(one), len(right), confidence=0.95))
    any_ = f"some addition was found that overturns {len(found)} of {len(right)}{_sizes(found)}{_exhausted(right)}"
    return f"{head} A single feature overturns {rate} of these, and {any_}. {_shown(shown)}"


def _sizes(found: Sequence[Case]) -> str:
    """How many features the changes take that were found."""
    sizes = [len(case.witness.added) for case in found]
    if not sizes:
        return ""
    return f", with {min(sizes)} to {max(sizes)} features" if min(sizes) < max(sizes) else f", with {min(sizes)} each"


def _exhausted(right: Sequence[Case]) -> str:
    """How many have no such addition at all, because every one was evaluated."""
    n_none = sum(not case.witness.found and case.witness.proven for case in right)
    return f"; of {n_none} all additions were evaluated, and none does" if n_none else ""


def _shown(case: Case) -> str:
    witness, explained = case.witness, case.explained
    if not witness.found:
        return "No addition that overturns one was found."
    size = "1 feature" if witness.n_added == 1 else f"{witness.n_added} features"
    name = explained.inputs.class_name
    least = "no fewer can" if witness.proven else "whether fewer can is open"
    names = name_features(explained, witness.added)
    return (
        f"Shown is input {explained.index}{_wrong(case)}: revealing {size} ({names}) besides the "
        f"{int(case.selected.sum())} selected turns “{name(witness.original_prediction)}” into "
        f"“{name(witness.prediction)}”{_corrects(case)}; {least}."
    )


def _corrects(case: Case) -> str:
    """A change may be for the better."""
    label = case.explained.label
    return ", which is right" if label is not None and case.witness.prediction == label else ""


def _wrong(case: Case) -> str:
    """Which of the full input and the explanation is not right."""
    label, full = case.explained.label, case.explained.prediction
    alone = case.witness.original_prediction
    if label is None:
        return "" if alone == full else ", whose explanation alone has not the prediction of the full input"
    parts = [name for name, said in (("full input", full), ("explanation alone", alone)) if said != label]
    verb = "are" if len(parts) > 1 else "is"
    return f", of which the {' and the '.join(parts)} {verb} predicted wrong" if parts else ""


SUBJECTS = ((RESNET, 40), (ROBERTA, 60))

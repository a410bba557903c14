"""Every public function, given anything: it answers or refuses in holdfast's words, in time, changing no argument."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast import boolean, data, models, study
from holdfast.report import figures
from tests.helpers import fuzz_cases
from tests.helpers.fuzz_cases import Case
from tests.helpers.fuzz_figures import FIGURES, INTEROP
from tests.helpers.fuzzing import HungError, OwnError, Touchy, deadline, hostile, is_much, settle, snapshot
from tests.helpers.rooms import names_in_rooms, public_object

FEW, MANY = 4, 80
"""Cases per function in `make test` and in `make test-all`."""

CASES: dict[str, Case] = {
    **fuzz_cases.QUESTIONS,
    **fuzz_cases.INPUTS,
    **fuzz_cases.SCORING,
    **{f"boolean.{name}": case for name, case in fuzz_cases.BOOLEAN.items()},
    **{f"study.{name}": case for name, case in fuzz_cases.STUDY.items()},
    **fuzz_cases.LOADING,
    **FIGURES,
    **INTEROP,
}

READ_FROM_JSON = {"Attribution", "Certificate", "Comparison", "Difference", "FillSensitivity", "HardCertificate"}
READ_FROM_JSON |= {
    "CitationCertificate",
    "MeanCurve",
    "ProbabilityCurve",
    "RadiusCertificate",
    "RadiusStep",
    "Recheck",
    "Reexplanation",
    "SizeStep",
}
READ_FROM_JSON |= {"SmoothedAccuracy", "StabilityBracket", "StabilityCurve", "StableSelection", "Witness", "Selector"}
READ_FROM_JSON |= {f"study.{name}" for name in ("DataSetGuarantee", "DifferenceAt", "GroupSummary", "ItemResult")}
READ_FROM_JSON |= {f"study.{name}" for name in ("MeanAt", "MusSummary", "PairedDifference", "PlannedCost")}
READ_FROM_JSON |= {f"study.{name}" for name in ("MethodSize", "StudyCalibration")}
READ_FROM_JSON |= {
    f"study.{name}" for name in ("StudyPlan", "StudySummary", "TrustedExplanation", "TrustedExplanations")
}
"""Results, which users get and do not make, but may read from a file: test_fuzz_files.py spoils the files."""

ONLY_HANDED_OUT = {
    "CalibrationPlan",
    "ContextModel",
    "Inputs",
    "Interval",
    "Judge",
    "MeanRate",
    "NeighborhoodCheck",
    "PlannedSamples",
    "SmoothedModel",
    "Tally",
    "boolean.Estimate",
}
ONLY_HANDED_OUT |= {"boolean.LowDegreeWeights", "study.Merged", "study.MethodStatus", "study.Moment", "study.StudyRun"}
ONLY_HANDED_OUT |= {"study.StudyStatus", "models.BundledModel", "models.Classifier", "data.Dataset", "figures.Line"}
ONLY_HANDED_OUT |= {"boolean.figures.SpectralContraction"}
"""Values that functions return and nothing reads back."""

NOTHING_TO_CALL = {
    "Agreement",
    "Answering",
    "Completing",
    "Deciding",
    "Differentiable",
    "Inspectable",
    "Mask",
    "MaskedModel",
    "Neighborhood",
    "Provenance",
}
NOTHING_TO_CALL |= {"HoldfastError", "InvalidTypeError", "InvalidValueError", "MissingExtraError", "ModelError"}
NOTHING_TO_CALL |= {"figures.COLOURS", "figures.LineStyle"}
"""Protocols, aliases, errors and constants."""


def public_names() -> Iterator[str]:
    yield from hf.__all__
    yield from (name for _, name in names_in_rooms())
    for module in (boolean, study, models, data):
        yield from (f"{module.__name__.rpartition('.')[2]}.{name}" for name in module.__all__)
    yield from (f"figures.{name}" for name in figures.__all__)
    documented = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    plots = "::: holdfast.report.figures.boolean_plots."
    yield from (line.replace(plots, "boolean.figures.") for line in documented.splitlines() if plots in line)
    yield from ("report.write_report", "interop.log_study", "interop.torchmetrics", "interop.quantus")


def test_every_public_name_has_a_fuzz_case_or_a_reason_to_have_none() -> None:
    kinds = [set(CASES), READ_FROM_JSON, ONLY_HANDED_OUT, NOTHING_TO_CALL]
    assert sum(map(len, kinds)) == len(set.union(*kinds)), "a name is of two kinds"
    assert set(public_names()) - set.union(*kinds) == set()
    assert set.union(*kinds) - set(public_names()) == set()


def test_results_that_are_read_back_can_be() -> None:
    for name in READ_FROM_JSON:
        room, _, short = name.rpartition(".")
        assert callable((getattr(study, short) if room == "study" else public_object(name)).from_json)


@st.composite
def spoilt(draw: st.DrawFn, case: Case) -> dict[str, Any]:
    """Good arguments with one or two of them replaced."""
    arguments = case.good()
    names = [name for name in arguments if name not in case.fixed]
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)) if names else ():
        allowed = hostile().filter(lambda value: not is_much(value)) if name in case.work else hostile()
        arguments[name] = draw(allowed)
    return arguments


def unchanged(arguments: dict[str, Any]) -> dict[str, Any]:
    """What the arguments hold; a memory is there to be written to."""
    return {name: snapshot(value) for name, value in arguments.items() if name != "memory"}


def fuzz(case: Case, n_cases: int) -> int:
    """Run so many cases; the number that were run."""
    n_run = 0

    @settings(max_examples=n_cases)
    @given(spoilt(case))
    def one(arguments: dict[str, Any]) -> None:
        nonlocal n_run
        before = unchanged(arguments)
        settle(lambda: case.function(**arguments), case.allowed)
        assert unchanged(arguments) == before
        n_run += 1

    one()
    return n_run


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are made up are looked for in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_what_fuzzing_spoils_is_right_before(name: str) -> None:
    """But for files that are not there: whole and spoilt files are read in test_fuzz_files.py."""
    case = CASES[name]
    expected = "refused" if "no-such" in repr(case.good()) else "answered"
    assert settle(lambda: case.function(**case.good()), case.allowed) == expected


@pytest.mark.parametrize("name", CASES)
def test_anything_is_answered_or_refused(name: str) -> None:
    assert fuzz(CASES[name], FEW) >= min(FEW, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_much_of_anything_is_answered_or_refused(name: str) -> None:
    n_run = fuzz(CASES[name], MANY)
    # A function without arguments that can be spoilt has one case.
    assert n_run >= (MANY if CASES[name].can_be_spoilt else 1)


def test_the_functions_are_fuzzed_with_thousands_of_cases() -> None:
    """What the test above runs, one by one; with the files (test_fuzz_files.py) more than ten thousand."""
    with_arguments = [name for name, case in CASES.items() if case.can_be_spoilt]
    assert len(with_arguments) * MANY >= 9_000
    assert len(with_arguments) * FEW >= 300


# -- the fuzzing itself -----------------------------------------------------------------------------


def test_the_deadline_of_a_case_ends_what_hangs() -> None:
    def hang() -> None:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue

    with pytest.raises(HungError), deadline(0.2):
        hang()


def test_an_error_that_is_not_holdfasts_is_a_finding_and_so_is_a_warning() -> None:
    import warnings

    with pytest.raises(KeyError):
        settle(lambda: {}["missing"])
    with pytest.raises(UserWarning):
        settle(lambda: warnings.warn("look", stacklevel=1))
    assert settle(lambda: hf.agreement.within(-1)) == "refused"
    assert settle(lambda: hf.agreement.within(1)) == "answered"
    with pytest.raises(OwnError):
        len(Touchy())


def test_a_changed_argument_is_a_finding() -> None:
    def change(values: Any) -> None:
        values[0] = 9

    case = Case(lambda values, other: change(values), lambda: {"values": [1, 2], "other": 0}, fixed=("values",))
    with pytest.raises(AssertionError):
        fuzz(case, 3)

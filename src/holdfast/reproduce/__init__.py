"""Every experiment of the paper: a name → its data, its figure and what they say."""

from holdfast.reproduce.catalog import EXPERIMENTS, carry_out, find_experiment, plan_runs, reproduce, what_is_kept
from holdfast.reproduce.experiment import Experiment, PlannedRun, Request, Subject, make_subject
from holdfast.reproduce.findings import Reproduced, Results, Table
from holdfast.reproduce.studies import InterruptedStudyError

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "InterruptedStudyError",
    "PlannedRun",
    "Reproduced",
    "Request",
    "Results",
    "Subject",
    "Table",
    "carry_out",
    "find_experiment",
    "make_subject",
    "plan_runs",
    "reproduce",
    "what_is_kept",
]

"""Every experiment of the paper: a name → its data, its figure and what they say."""

from holdfast.experiments.experiment import Experiment, Outcome, Request, Table
from holdfast.experiments.registry import EXPERIMENTS, find_experiment
from holdfast.experiments.reproduce import Reproduced, reproduce
from holdfast.experiments.subjects import Subject, make_subject

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Outcome",
    "Reproduced",
    "Request",
    "Subject",
    "Table",
    "find_experiment",
    "make_subject",
    "reproduce",
]

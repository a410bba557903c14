"""A file of results → what it says as a whole: means over inputs, differences between methods, data-set guarantees."""

from holdfast.study.aggregate.differences import DifferenceAt, PairedDifference
from holdfast.study.aggregate.summarize import summarize_study
from holdfast.study.aggregate.summary import GroupSummary, MeanAt, MusSummary, StudySummary

__all__ = [
    "DifferenceAt",
    "GroupSummary",
    "MeanAt",
    "MusSummary",
    "PairedDifference",
    "StudySummary",
    "summarize_study",
]

"""A file of results → what it says as a whole: means over inputs, differences between methods, data-set guarantees."""

from holdfast.study.aggregate.bootstrap import FEW
from holdfast.study.aggregate.differences import DifferenceAt, PairedDifference
from holdfast.study.aggregate.guarantee import DataSetGuarantee
from holdfast.study.aggregate.study_guarantee import study_guarantee
from holdfast.study.aggregate.summarize import summarize_study
from holdfast.study.aggregate.summary import GroupSummary, MeanAt, MusSummary, StudySummary

__all__ = [
    "FEW",
    "DataSetGuarantee",
    "DifferenceAt",
    "GroupSummary",
    "MeanAt",
    "MusSummary",
    "PairedDifference",
    "StudySummary",
    "study_guarantee",
    "summarize_study",
]

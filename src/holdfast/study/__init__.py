"""Many inputs × explanation methods × settings → one file of results that can be resumed, merged and exported."""

from holdfast.study.aggregate import (
    DataSetGuarantee,
    DifferenceAt,
    GroupSummary,
    MeanAt,
    MusSummary,
    PairedDifference,
    StudySummary,
    study_guarantee,
    summarize_study,
)
from holdfast.study.engines import Ray
from holdfast.study.export import export_study, study_frame
from holdfast.study.merge import Merged, merge_studies
from holdfast.study.planning import PlannedCost, StudyPlan, plan_study
from holdfast.study.results import ItemResult
from holdfast.study.run import StudyRun, run_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
    Trust,
)
from holdfast.study.spec_file import parse_spec, read_spec, write_spec
from holdfast.study.status import MethodStatus, StudyStatus, study_status
from holdfast.study.store import Store
from holdfast.study.watching import Moment

__all__ = [
    "CertifySpec",
    "DataSetGuarantee",
    "DataSpec",
    "DifferenceAt",
    "GroupSummary",
    "ItemResult",
    "MaskingSpec",
    "MeanAt",
    "Merged",
    "MethodSpec",
    "MethodStatus",
    "ModelSpec",
    "Moment",
    "MusSpec",
    "MusSummary",
    "PairedDifference",
    "PlannedCost",
    "Ray",
    "SmoothingSpec",
    "Store",
    "StudyPlan",
    "StudyRun",
    "StudySpec",
    "StudyStatus",
    "StudySummary",
    "Trust",
    "export_study",
    "merge_studies",
    "parse_spec",
    "plan_study",
    "read_spec",
    "run_study",
    "study_frame",
    "study_guarantee",
    "study_status",
    "summarize_study",
    "write_spec",
]

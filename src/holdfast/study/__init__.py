"""Many inputs × explanation methods × settings → one file of results that can be resumed, merged and exported."""

from typing import TYPE_CHECKING

from holdfast.lazy import load_lazily

if TYPE_CHECKING:
    from holdfast.study.calibration import MethodSize as MethodSize
    from holdfast.study.calibration import StudyCalibration as StudyCalibration
    from holdfast.study.calibration import calibrate_study as calibrate_study
    from holdfast.study.export import export_study as export_study
    from holdfast.study.export import study_frame as study_frame
    from holdfast.study.guarantee import DataSetGuarantee as DataSetGuarantee
    from holdfast.study.guarantee import TrustedExplanation as TrustedExplanation
    from holdfast.study.guarantee import TrustedExplanations as TrustedExplanations
    from holdfast.study.guarantee import study_guarantee as study_guarantee
    from holdfast.study.guarantee import trusted_explanations as trusted_explanations
    from holdfast.study.merge import Merged as Merged
    from holdfast.study.merge import merge_studies as merge_studies
    from holdfast.study.on_ray import Ray as Ray
    from holdfast.study.plan import PlannedCost as PlannedCost
    from holdfast.study.plan import StudyPlan as StudyPlan
    from holdfast.study.plan import plan_study as plan_study
    from holdfast.study.records import ItemResult as ItemResult
    from holdfast.study.session import Moment as Moment
    from holdfast.study.session import StudyRun as StudyRun
    from holdfast.study.session import run_study as run_study
    from holdfast.study.spec import CertifySpec as CertifySpec
    from holdfast.study.spec import DataSpec as DataSpec
    from holdfast.study.spec import MaskingSpec as MaskingSpec
    from holdfast.study.spec import MethodSpec as MethodSpec
    from holdfast.study.spec import ModelSpec as ModelSpec
    from holdfast.study.spec import MusSpec as MusSpec
    from holdfast.study.spec import SmoothingSpec as SmoothingSpec
    from holdfast.study.spec import StudySpec as StudySpec
    from holdfast.study.spec import Trust as Trust
    from holdfast.study.spec import parse_spec as parse_spec
    from holdfast.study.spec import read_spec as read_spec
    from holdfast.study.spec import write_spec as write_spec
    from holdfast.study.status import MethodStatus as MethodStatus
    from holdfast.study.status import StudyStatus as StudyStatus
    from holdfast.study.status import study_status as study_status
    from holdfast.study.store import Store as Store
    from holdfast.study.study import Study as Study
    from holdfast.study.study import run as run
    from holdfast.study.summary import DifferenceAt as DifferenceAt
    from holdfast.study.summary import GroupSummary as GroupSummary
    from holdfast.study.summary import MeanAt as MeanAt
    from holdfast.study.summary import MusSummary as MusSummary
    from holdfast.study.summary import PairedDifference as PairedDifference
    from holdfast.study.summary import StudySummary as StudySummary
    from holdfast.study.summary import summarize_study as summarize_study

_NAMES = {
    "calibration": "MethodSize StudyCalibration calibrate_study",
    "on_ray": "Ray",
    "export": "export_study study_frame",
    "guarantee": "DataSetGuarantee TrustedExplanation TrustedExplanations study_guarantee trusted_explanations",
    "merge": "Merged merge_studies",
    "plan": "PlannedCost StudyPlan plan_study",
    "records": "ItemResult",
    "session": "Moment StudyRun run_study",
    "spec": "CertifySpec DataSpec MaskingSpec MethodSpec ModelSpec MusSpec SmoothingSpec StudySpec Trust "
    "parse_spec read_spec write_spec",
    "status": "MethodStatus StudyStatus study_status",
    "store": "Store",
    "study": "Study run",
    "summary": "DifferenceAt GroupSummary MeanAt MusSummary PairedDifference StudySummary summarize_study",
}
"""Where each public name comes from; a module is imported when one of its names is first asked for."""

if not TYPE_CHECKING:  # type checkers read the imports above
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES)

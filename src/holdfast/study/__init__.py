"""Many inputs × explanation methods × settings → one file of results that can be resumed, merged and exported."""

from holdfast.study.planning import PlannedCost, StudyPlan, plan_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MaskingSpec,
    MethodSpec,
    ModelSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
)
from holdfast.study.spec_file import parse_spec, read_spec, write_spec

__all__ = [
    "CertifySpec",
    "DataSpec",
    "MaskingSpec",
    "MethodSpec",
    "ModelSpec",
    "MusSpec",
    "PlannedCost",
    "SmoothingSpec",
    "StudyPlan",
    "StudySpec",
    "parse_spec",
    "plan_study",
    "read_spec",
    "write_spec",
]

"""A masked model and an explanation → certificates; each verb is in one file with its result.

Verbs and what they return are at the top level of ``holdfast``; here are the parts of results, and rarer results.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import load_lazily

if TYPE_CHECKING:
    from holdfast.certification.calibrate import CalibrationPlan as CalibrationPlan
    from holdfast.certification.calibrate import plan_calibration as plan_calibration
    from holdfast.certification.comparison import Difference as Difference
    from holdfast.certification.fill_sensitivity import FillSensitivity as FillSensitivity
    from holdfast.certification.mean_curve import MeanRate as MeanRate
    from holdfast.certification.probabilities import ProbabilityCurve as ProbabilityCurve
    from holdfast.certification.radius import RadiusStep as RadiusStep
    from holdfast.certification.reexplain import Reexplanation as Reexplanation
    from holdfast.certification.stabilize import SizeStep as SizeStep
    from holdfast.certification.stabilize import StableSelection as StableSelection
    from holdfast.certification.verify import Recheck as Recheck
else:
    __getattr__, __dir__, __all__ = load_lazily(
        __name__,
        {
            "calibrate": "CalibrationPlan plan_calibration",
            "comparison": "Difference",
            "fill_sensitivity": "FillSensitivity",
            "mean_curve": "MeanRate",
            "probabilities": "ProbabilityCurve",
            "radius": "RadiusStep",
            "reexplain": "Reexplanation",
            "stabilize": "SizeStep StableSelection",
            "verify": "Recheck",
        },
    )

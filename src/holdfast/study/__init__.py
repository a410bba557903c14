"""Many inputs × explanation methods × settings → one file of results that can be resumed, merged and exported."""

from holdfast.study.spec import StudySpec

__all__ = ["StudySpec"]

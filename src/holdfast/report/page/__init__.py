"""Files of results → one HTML page that needs nothing else: the data as JSON, the drawing as plain scripts."""

from holdfast.report.page.write import write_report

__all__ = ["write_report"]

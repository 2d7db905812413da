"""Reports: what came of one run or of several, as one HTML page that needs no network."""

from fedhpo.report.page import write_report

__all__ = ["write_report"]

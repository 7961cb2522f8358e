"""HTML reports of studies and of planned studies; one module for each section."""

from fairtrial.report.page import write_report
from fairtrial.report.planned import write_characteristics

__all__ = ["write_characteristics", "write_report"]

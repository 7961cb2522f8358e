"""Pages in HTML, a section a module: a study, or what a planned one would do."""

from fairtrial.report.page import write_report
from fairtrial.report.planned import write_characteristics

__all__ = ["write_characteristics", "write_report"]

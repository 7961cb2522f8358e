"""A study on one HTML page, a section a module; charts are drawn in per cent of the width."""

from fairtrial.report.page import write_report

__all__ = ["write_report"]

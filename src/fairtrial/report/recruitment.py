"""The section on recruitment, for people who recruit."""

from __future__ import annotations

from fairtrial.presentation.recruitment import BLINDED, recruitment
from fairtrial.presentation.words import count
from fairtrial.report.findings import Findings
from fairtrial.report.html import Markup, bdi, element, section, table

__all__ = ["recruited"]


def recruited(found: Findings) -> Markup:
    """Return the section on recruitment."""
    rows = [(bdi(name), count(number)) for name, number in recruitment(found.progress).items()]
    stopped = found.progress.recommendation.status != "running"
    return section(
        "Recruitment",
        element("p", element("strong", f"Blinded view, {BLINDED}")),
        element("p", "The study has stopped." if stopped else "The study is running."),
        table("So far", ("What", "Number"), rows, words={0}),
    )

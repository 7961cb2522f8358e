"""The section on recruitment, for people who recruit."""

from __future__ import annotations

from fairtrial.presentation.recruitment import UNITS, about_blinding, recruitment
from fairtrial.presentation.words import count
from fairtrial.report.findings import Findings
from fairtrial.report.html import Markup, bdi, element, section, table

__all__ = ["recruited"]

_NAMES = {
    "pulls asked for": "asked for",
    "open pulls": "without a result yet",
    "pulls given up": "will have no result",
}
"""What people who recruit call these numbers; pulls are patients to some, samples to others."""


def recruited(found: Findings) -> Markup:
    """Return the section on recruitment."""
    numbers = recruitment(found.progress)
    rows = [(bdi(_NAMES.get(name, name)), count(number)) for name, number in numbers.items()]
    stopped = found.progress.recommendation.status != "running"
    state = "The study has stopped." if stopped else "The study is running."
    return section(
        "Recruitment",
        element("p", element("strong", f"Blinded view, {about_blinding(numbers)}")),
        element(
            "p", "This is the analysis of a finished experiment." if UNITS in numbers else state
        ),
        table("So far", ("What", "Number"), rows, words={0}),
    )

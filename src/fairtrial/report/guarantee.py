"""The guarantee and its assumptions, in words."""

from __future__ import annotations

from fairtrial.core.recommendation import Guarantee
from fairtrial.presentation.words import ended
from fairtrial.report.html import Markup, bullets, element

__all__ = ["guarantee_in_words"]

_KINDS = {
    "proven": "Proven",
    "calibrated": "Calibrated, not proven: its errors were measured",
    "heuristic": "Heuristic, not proven",
}


def guarantee_in_words(guarantee: Guarantee | None) -> list[Markup]:
    """Return the guarantee's statement with its label, its assumptions and its source."""
    if guarantee is None:
        return [element("p", "The policy claims no guarantee.")]
    kind = _KINDS[guarantee.label]
    name = f" ({guarantee.name}): {ended(guarantee.statement)}"
    parts = [element("p", element("strong", kind), name)]
    if guarantee.assumptions:
        parts += [element("p", "It assumes:"), bullets(map(ended, guarantee.assumptions))]
    if guarantee.source:
        parts.append(element("p", f"Source: {ended(guarantee.source)}"))
    return parts

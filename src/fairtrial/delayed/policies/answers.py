"""How an answer is put in words: the best arms, or the best of arms that share blocks."""

from __future__ import annotations

from typing import Any

from fairtrial.core.fixed_confidence import Answers
from fairtrial.core.wording import is_best, or_within

__all__ = ["BestArms", "BestOfBlocks"]


class BestArms(Answers):
    """The best arm, or the best k."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance

    def finding(self, label: Any) -> str:
        """Return in words what there is enough evidence for."""
        return is_best(label, self._tolerance)


class BestOfBlocks(BestArms):
    """The best arm on the same blocks."""

    def finding(self, label: Any) -> str:
        """Return in words what there is enough evidence for."""
        return f"{label!r} is the best of the arms{or_within(self._tolerance)}"

"""Counterfactual gaps against the bound of fairness, as a progress says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.limits import finite
from fairtrial.presentation.sources import arm_of

__all__ = ["Gap", "gaps_of"]


@dataclass(frozen=True, slots=True)
class Gap:
    """By how much an arm's mean differs between people who differ in a sensitive feature alone.

    Parameters
    ----------
    arm : str
        Its label.
    pair : str
        Which two values of the feature are compared: ``"s | t"`` for people with t, had they s.
    gap : float or None
        The estimate; None while nothing is known.
    bound : float
        What its size must not exceed.
    """

    arm: str
    pair: str
    gap: float | None
    bound: float

    @property
    def distance(self) -> float | None:
        """How far the gap is on the right side of the bound; negative beyond it."""
        return None if self.gap is None else self.bound - abs(self.gap)

    @property
    def standing(self) -> str:
        """How the estimate stands to the bound, in words."""
        if self.distance is None:
            return "no result yet"
        return "within the bound" if self.distance >= 0 else "beyond the bound"


def gaps_of(progress: Progress, bound: float | None) -> list[Gap]:
    """Return the gaps of every arm; none of a policy that estimates no gaps.

    Examples
    --------
    >>> from fairtrial.core.recommendation import Estimate, Recommendation
    >>> arms = (Estimate({"arm": "a"}, 5), Estimate({"arm": "b"}, 5))
    >>> running = Recommendation(None, "running")
    >>> said = {"gaps": {"s | t": [0.1, -0.3]}}
    >>> progress = Progress(running, 10, 10, 0, arms=arms, details=said)
    >>> [(one.arm, one.standing) for one in gaps_of(progress, 0.2)]
    [('a', 'within the bound'), ('b', 'beyond the bound')]
    """
    pairs = progress.details.get("gaps")
    if bound is None or not isinstance(pairs, Mapping):
        return []
    return [
        Gap(arm_of(arm.labels), str(pair), _at(values, place), bound)
        for place, arm in enumerate(progress.arms)
        for pair, values in pairs.items()
    ]


def _at(values: Sequence[float | None], place: int) -> float | None:
    return finite(values[place]) if place < len(values) else None

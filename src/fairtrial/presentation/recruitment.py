"""What people who recruit may see of a study: how many took part, but no results by arm."""

from __future__ import annotations

from collections import Counter

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.sources import MEASURE

__all__ = ["BLINDED", "recruitment"]

BLINDED = (
    "for those who recruit or treat: neither results by arm nor evidence. Pulls are not counted by "
    "arm either, because most go to the arms that lead."
)


def recruitment(progress: Progress) -> dict[str, int]:
    """Return numbers of pulls requested, with results, open and given up, and of results by group.

    Examples
    --------
    >>> import fairtrial as ft
    >>> problem = ft.subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    >>> recruitment(ft.subpopulations.BlockBetting(problem).progress())["results of x"]
    0
    """
    results: Counter[str] = Counter()
    for action in progress.actions:
        if "group" in action.labels:
            # Values of measures come on different days, so each measure has a number of its own.
            what = f"values of {action.labels[MEASURE]}" if MEASURE in action.labels else "results"
            results[f"{what} of {action.labels['group']}"] += action.pulls
    return {
        "pulls asked for": progress.asked,
        "results": progress.told,
        "open pulls": progress.outstanding,
        "pulls given up": max(0, progress.asked - progress.told - progress.outstanding),
        **results,
    }

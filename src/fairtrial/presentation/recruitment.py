"""What people who recruit may see of a study: how many took part, but no results by arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.sources import MEASURE

__all__ = ["UNITS", "about_blinding", "recruitment"]

UNITS = "units in the table"
"""What a finished experiment has in place of pulls."""

_BLINDED = "for those who recruit or treat: neither results by arm nor evidence."
_UNCOUNTED = " Nor is anything counted by arm, because most go to the arms that lead."


def about_blinding(recruited: Mapping[str, int]) -> str:
    """Return what a blinded view leaves out, beside the numbers that `recruitment` returned.

    Examples
    --------
    >>> about_blinding({"units in the table": 20, "results": 20})
    'for those who recruit or treat: neither results by arm nor evidence.'
    """
    return _BLINDED if UNITS in recruited else _BLINDED + _UNCOUNTED


def recruitment(progress: Progress) -> dict[str, int]:
    """Return numbers of pulls requested, with results, open and given up, and of results by group.

    Of a finished experiment, whose units were not asked for, they are those of units and results.

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
    if progress.assigned is not None:
        return {UNITS: progress.assigned, "results": progress.told, **results}
    return {
        "pulls asked for": progress.asked,
        "results": progress.told,
        "open pulls": progress.outstanding,
        "pulls given up": max(0, progress.asked - progress.told - progress.outstanding),
        **results,
    }

"""Values of measures that will never be known: how many, where, and how they are treated."""

from __future__ import annotations

from dataclasses import dataclass

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.words import count, ended, lost_in_words, percent, plural

__all__ = [
    "MISSING",
    "MissingValues",
    "counting_of_missing",
    "missing_values",
    "summary_of_missing",
]

MISSING = "Missing values"

_MEANING = {
    "the worst value": (
        "In every bet that uses its measure a missing value counts as the worst one in the range, "
        "so the guarantee does not depend on why it is missing."
    ),
    "made again": (
        "Pulls without a value that bets use are made again; where this is not possible, because "
        "the limit of replacements is reached or its arm or group is closed, the value counts as "
        "the worst one in the range. Making a pull again is right only if its value is missing for "
        "reasons that have nothing to do with what it would have been."
    ),
    "not drawn": (
        "Bets leave missing values out. This is right only if they are missing for reasons that "
        "have nothing to do with what they would have been."
    ),
}


@dataclass(frozen=True, slots=True)
class MissingValues:
    """Numbers of known and missing values, by arm, group and measure.

    Parameters
    ----------
    arm, group, measure : str
        What the values belong to.
    known, missing : int
        Number of known values, and of values that will never be known.
    """

    arm: str
    group: str
    measure: str
    known: int
    missing: int

    @property
    def share(self) -> float:
        """The share of values that are missing."""
        return self.missing / max(1, self.known + self.missing)


def missing_values(progress: Progress) -> list[MissingValues]:
    """Return the missing values by arm, group and measure, the largest shares first.

    Examples
    --------
    >>> from fairtrial.core import MeasureValues, Recommendation
    >>> high = MeasureValues("high", "all", "harmed", values=8, missing=2)
    >>> low = MeasureValues("low", "all", "harmed", values=8, missing=0)
    >>> progress = Progress(Recommendation(None, "running"), 10, 10, 0, measures=(high, low))
    >>> [(one.arm, one.share) for one in missing_values(progress)]
    [('high', 0.2)]
    """
    lacking = [one for one in _all_values(progress) if one.missing]
    return sorted(lacking, key=lambda one: -one.share)


def _all_values(progress: Progress) -> list[MissingValues]:
    return [
        MissingValues(one.arm, one.group, one.measure, one.values, one.missing)
        for one in progress.measures
    ]


def summary_of_missing(progress: Progress) -> str:
    """Return how many values are missing, by measure; empty if pulls have only one measure."""
    totals: dict[str, tuple[int, int]] = {}
    for one in _all_values(progress):
        known, missing = totals.get(one.measure, (0, 0))
        totals[one.measure] = known + one.known, missing + one.missing
    lacking = [
        f"{count(missing)} of {plural(known + missing, 'value')} of {measure} "
        f"({percent(missing / (known + missing))})"
        for measure, (known, missing) in totals.items()
        if missing
    ]
    if lacking:
        said = f"Will never be known: {'; '.join(lacking)}."
        waits = progress.outstanding > 0
        return said + (" Values that are still to come are left out." if waits else "")
    return "No value of a measure is missing in the pulls that have ended." if totals else ""


def counting_of_missing(progress: Progress) -> str:
    """Return how bets treat missing values, what this assumes, and how each lost pull counts."""
    if progress.losses is None:
        return ""
    lost = lost_in_words(progress)
    meaning = _MEANING.get(progress.losses.counted_as, "")
    return " ".join(filter(None, [meaning, ended(lost) if lost else ""]))

"""What predictions that are known before the arm did, in words."""

from __future__ import annotations

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.words import number, percent

__all__ = ["PREDICTIONS", "about_predictions", "heading_of_groups", "predictions_by_group"]

PREDICTIONS = "Predictions"


def about_predictions(progress: Progress) -> str:
    """Return what predictions explain and what they save; empty if the problem has none.

    Examples
    --------
    >>> from fairtrial.core import Predictions, Recommendation
    >>> found = Predictions((), variance_left=0.7, e_value=1.2, alarm=100.0)
    >>> running = Recommendation(None, "running")
    >>> about_predictions(Progress(running, 80, 80, 0, predictions=found)).split(".")[0]
    'With predictions, a difference between arms needs about 70 % as many results as without'
    """
    found = progress.predictions
    if found is None:
        return ""
    part = f"about {percent(found.variance_left)} as many results"
    parts = [f"With predictions, a difference between arms needs {part} as without."]
    if found.missing:
        parts.append(f"{percent(found.missing)} of the pulls have no prediction.")
    if found.cut:
        parts.append(f"{percent(found.cut)} of the predictions were outside of their range.")
    warned = " Something is wrong with how they are recorded." if found.depend_on_arm else ""
    parts.append(
        f"Evidence that predictions depend on the arm: {number(found.e_value, 3)} "
        f"({number(found.alarm)} or more is a warning).{warned}"
    )
    return " ".join(parts)


def predictions_by_group(progress: Progress) -> list[tuple[str, str, str]]:
    """Return group, slope and share of the variance that is explained, as text.

    With measures the group comes after the measure that is predicted.
    """
    if progress.predictions is None:
        return []
    return [
        (
            one.group if one.measure is None else f"{one.measure} / {one.group}",
            number(one.slope, 3),
            percent(max(0.0, one.r_squared)),
        )
        for one in progress.predictions.groups
    ]


def heading_of_groups(progress: Progress) -> str:
    """Return what the first texts of `predictions_by_group` name."""
    found = () if progress.predictions is None else progress.predictions.groups
    return "measure / group" if any(one.measure is not None for one in found) else "group"

"""Arrange estimates in panels, one per group; with many groups, only those that matter most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.presentation.cuts import cut_of, groups_by
from fairtrial.presentation.limits import distance_to_limit, finite, name_of_limit
from fairtrial.presentation.sources import Grid, answered, arm_of, reported_actions

__all__ = ["Panel", "Panels", "certain_distance", "panels_of", "shown_panels"]

Panel = tuple[str, list[Estimate | None]]
"""A title, and an estimate for each arm."""


@dataclass(frozen=True, slots=True)
class Panels:
    """Estimates laid out for small multiples: a row for each arm, a panel for each group.

    Parameters
    ----------
    arms : tuple of str
        The arms in the rows.
    overall : tuple of Panel
        The arms' overall means, if they are reported in addition to those by group.
    groups : tuple of Panel
        One panel for each group; a single panel without groups.
    note : str
        Which arms and groups are shown, if not all are.
    """

    arms: tuple[str, ...]
    overall: tuple[Panel, ...]
    groups: tuple[Panel, ...]
    note: str = ""

    @property
    def all(self) -> tuple[Panel, ...]:
        """The panels in reading order."""
        return (*self.overall, *self.groups)


def panels_of(progress: Progress) -> Panels:
    """Return panels with all estimates of a progress."""
    actions = reported_actions(progress)
    grid = Grid.of([action.labels for action in actions])
    groups = tuple((name or "mean", row) for name, row in grid.panels(actions))
    own = {arm_of(arm.labels): arm for arm in progress.arms}
    reported = own and progress.quantity == "mean" and any(grid.groups)
    overall: Panel = ("overall", [own.get(arm) for arm in grid.arms])
    return Panels(grid.arms, (overall,) if reported else (), groups)


def shown_panels(progress: Progress, minimize: bool) -> Panels:
    """Return panels with the arms and groups that fit into a figure."""
    cut = cut_of(progress, minimize)
    panels = panels_of(cut.apply(progress))
    names, note = _critical_groups(panels, progress)
    found = dict(panels.groups)
    groups = tuple((name, found[name]) for name in names)
    return replace(panels, groups=groups, note=f"{cut.note} {note}".strip())


def _critical_groups(panels: Panels, progress: Progress) -> tuple[tuple[str, ...], str]:
    """Return the groups that the answer, or the leader, is most likely to fail, and a note."""
    best = answered(progress.recommendation)
    rows = [row for row, arm in enumerate(panels.arms) if arm in best]
    found = {name: [one for one in row if one is not None] for name, row in panels.groups}
    distances = {
        name: _least_distance((estimates[row] for row in rows) if rows else estimates)
        for name, estimates in panels.groups
    }
    rank = {
        name: (distance is None, distance or 0.0, -sum(one.pulls for one in found[name]))
        for name, distance in distances.items()
    }
    if all(distance is None for distance in distances.values()):
        return groups_by(rank, "those with the most pulls")
    who = (
        "an arm" if not rows else "the answer" if progress.recommendation.decided else "the leader"
    )
    limit = name_of_limit(one for row in found.values() for one in row)
    return groups_by(
        rank,
        f"those where {who} has its mean nearest to its {limit}, in widths of its interval, or on "
        "its wrong side",
    )


def _least_distance(estimates: Iterable[Estimate | None]) -> float | None:
    distances = [certain_distance(one) for one in estimates if one is not None]
    return min((distance for distance in distances if distance is not None), default=None)


def certain_distance(estimate: Estimate) -> float | None:
    """Return how far a mean is from its limit, in half-widths of its interval.

    This makes groups with many and few results comparable, and measures with different units.
    """
    distance = distance_to_limit(finite(estimate.mean), estimate)
    if distance is None:
        return None
    ends = [end for end in (finite(estimate.lower), finite(estimate.upper)) if end is not None]
    reach = max((abs(end - float(estimate.mean or 0.0)) for end in ends), default=0.0)
    return distance / reach if reach > 0.0 else distance

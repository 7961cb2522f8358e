"""Charts as plain data, which `plots`, `report` and the service draw alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.presentation.alternatives import alternatives, evidence_level, needed, when_ruled_out
from fairtrial.presentation.counted import intervals_note
from fairtrial.presentation.cuts import cut_by, groups_by
from fairtrial.presentation.limits import (
    Standing,
    Standings,
    finite,
    has_interval,
    kind_of_intervals,
    limits_of,
    name_of_limit,
    visible_range,
)
from fairtrial.presentation.panels import Panel
from fairtrial.presentation.ranges import moments_within, value_at
from fairtrial.presentation.sources import (
    Grid,
    LeadPeriod,
    answered,
    lead_periods,
    optimal_shares,
)
from fairtrial.presentation.words import number

__all__ = [
    "Bar",
    "Crossing",
    "EvidenceChart",
    "Interval",
    "IntervalChart",
    "Rival",
    "ShareChart",
    "e_value_ticks",
    "evidence_chart",
    "interval_chart",
    "most_pulled",
    "share_chart",
]

_MOST_RIVALS = 6
_MOST_TICKS = 7

# ------------------------------------------------------------------------- intervals


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate on an axis.

    Parameters
    ----------
    mean : float or None
        The estimate; None before the first result.
    standing : Standing
        Whether it meets its limits.
    ends : (float, float) or None
        The interval, cut at the axis: an end equal to the axis's end may lie beyond it.
    limits : tuple of float
        The limits on the estimate.
    """

    mean: float | None
    standing: Standing
    ends: tuple[float, float] | None
    limits: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class IntervalChart:
    """Means with intervals and limits: a panel for each group, a row for each arm.

    Parameters
    ----------
    arms, best : tuple of str
        The arms in the rows, and those that are the answer or lead.
    panels : tuple of (str, tuple of Interval or None)
        The title and the rows of each panel.
    axes : tuple of (float, float)
        The ends of each panel's axis; panels of the same measure share them.
    marks : tuple of (Standing, str)
        The marks that occur, with their meanings.
    interval, limit : str
        What the intervals are, and the name for a limit; empty if there are none.
    note : str
        A note on arms and groups that are left out; empty if all are shown.
    """

    arms: tuple[str, ...]
    best: tuple[str, ...]
    panels: tuple[tuple[str, tuple[Interval | None, ...]], ...]
    axes: tuple[tuple[float, float], ...]
    marks: tuple[tuple[Standing, str], ...]
    interval: str
    limit: str
    note: str = ""


_MEANINGS = {
    Standing.FREE: "mean, no {limit}",
    Standing.KEPT: "{limit} met",
    Standing.DECIDED: "{limit} kept, by the decision",
    Standing.LIKELY_KEPT: "{limit} met so far, not settled",
    Standing.LIKELY_BROKEN: "{limit} missed so far, not settled",
    Standing.BROKEN: "{limit} missed",
}


def interval_chart(
    progress: Progress, arms: Sequence[str], panels: Sequence[Panel], note: str = ""
) -> IntervalChart:
    """Return the chart of estimates, which are given by panel and arm."""
    shown = [one for _, row in panels for one in row if one is not None]
    axes, limit = _axes(panels), name_of_limit(shown)
    kind = kind_of_intervals(progress, shown)
    standings = Standings.by(progress)
    occurring, has_limits = set(map(standings.of, shown)), any(map(limits_of, shown))
    return IntervalChart(
        tuple(arms),
        tuple(sorted(answered(progress.recommendation))),
        tuple(
            (title, tuple(_interval(one, axis, standings) for one in row))
            for (title, row), axis in zip(panels, axes, strict=True)
        ),
        axes,
        tuple(
            (state, meaning.format(limit=limit) if has_limits else "mean")
            for state, meaning in _MEANINGS.items()
            if state in occurring
        ),
        f"{kind} interval of each mean on its own, for orientation" if kind else "",
        limit if has_limits else "",
        " ".join(filter(None, (note, intervals_note(progress)))),
    )


def _axes(panels: Sequence[Panel]) -> tuple[tuple[float, float], ...]:
    """Return the ends of each panel's axis; measures can have different units."""
    of: dict[object, list[Estimate]] = {}
    for _, row in panels:
        of.setdefault(_measure_of(row), []).extend(one for one in row if one is not None)
    return tuple(visible_range(of[_measure_of(row)]) for _, row in panels)


def _measure_of(row: Sequence[Estimate | None]) -> object:
    return next((one.labels.get("measure") for one in row if one is not None), None)


def _interval(
    estimate: Estimate | None, axis: tuple[float, float], standings: Standings
) -> Interval | None:
    if estimate is None:
        return None
    ends = None
    if has_interval(estimate):
        low, high = finite(estimate.lower), finite(estimate.upper)
        ends = (
            axis[0] if low is None else max(low, axis[0]),
            axis[1] if high is None else min(high, axis[1]),
        )
    state = standings.of(estimate)
    return Interval(finite(estimate.mean), state, ends, tuple(limits_of(estimate)))


# ---------------------------------------------------------------------------- shares


@dataclass(frozen=True, slots=True)
class Bar:
    """An action's pulls, their share, and the optimal share if it is known."""

    pulls: int
    share: float
    optimal: float | None


@dataclass(frozen=True, slots=True)
class ShareChart:
    """Where the pulls went: a panel for each group, a bar for each arm.

    Parameters
    ----------
    arms : tuple of str
        The arms in the rows.
    panels : tuple of (str, tuple of Bar or None)
        The title and the rows of each panel.
    total : int
        The total number of pulls.
    most : float
        The largest share shown, including optimal ones.
    has_optimal : bool
        Whether the optimal shares are known.
    note : str
        A note on arms and groups that are left out; empty if all are shown.
    """

    arms: tuple[str, ...]
    panels: tuple[tuple[str, tuple[Bar | None, ...]], ...]
    total: int
    most: float
    has_optimal: bool
    note: str = ""


def share_chart(
    labels: Sequence[Mapping[str, Any]],
    pulls: Sequence[int],
    optimal: ArrayLike | None,
    shown: Sequence[int],
    note: str = "",
) -> ShareChart:
    """Return the chart of the pulls of each action; only the actions in `shown` are drawn."""
    best, total = optimal_shares(optimal, len(labels)), int(sum(pulls))
    bars = [
        Bar(
            int(pulls[action]),
            float(pulls[action] / max(total, 1)),
            None if best is None else float(best[action]),
        )
        for action in shown
    ]
    grid = Grid.of([labels[action] for action in shown])
    most = max((max(bar.share, bar.optimal or 0.0) for bar in bars), default=0.0) or 1.0
    panels = tuple((name, tuple(row)) for name, row in grid.panels(bars))
    return ShareChart(grid.arms, panels, total, most, best is not None, note)


def most_pulled(labels: Sequence[Mapping[str, Any]], pulls: Sequence[int]) -> tuple[list[int], str]:
    """Return the actions of the arms and groups with the most pulls, by arm, and a note."""
    grid, why = Grid.of(labels), "those with the most pulls"
    by_group = dict(grid.panels(range(len(pulls))))
    by_arm = dict(zip(grid.arms, zip(*by_group.values(), strict=True), strict=True))
    cut = cut_by(_ranks(by_arm, pulls), why)
    groups, note = groups_by(_ranks(by_group, pulls), why)
    places = [grid.groups.index(group) for group in groups]
    found = [by_arm[arm][place] for arm in cut.arms for place in places]
    return [action for action in found if action is not None], f"{cut.note} {note}".strip()


def _ranks(parts: Mapping[str, Sequence[int | None]], pulls: Sequence[int]) -> dict[str, int]:
    return {
        name: -sum(int(pulls[action]) for action in actions if action is not None)
        for name, actions in parts.items()
    }


# -------------------------------------------------------------------------- evidence


@dataclass(frozen=True, slots=True)
class Rival:
    """A ruled-out answer, and the evidence against it at each moment until then."""

    answer: str
    against: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Crossing:
    """Answers that were ruled out by the same result."""

    told: int
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvidenceChart:
    """The evidence for the leader on its way to the threshold.

    Parameters
    ----------
    told : tuple of int
        The number of results at each moment.
    evidence, threshold : tuple of float or None
        The values at each moment; None if the policy reports none.
    lead_periods : tuple of LeadPeriod
        Which arm led when.
    rivals : tuple of Rival
        The ruled-out answers, if there is separate evidence against each; empty if there are too
        many.
    crossings : tuple of Crossing
        When the answers were ruled out.
    span : (int, int)
        The range of results that is shown.
    in_e_values : bool
        Whether evidence and threshold are logarithms of e-values; readers see the e-values.
    """

    told: tuple[int, ...]
    evidence: tuple[float | None, ...]
    threshold: tuple[float | None, ...]
    lead_periods: tuple[LeadPeriod, ...]
    rivals: tuple[Rival, ...]
    crossings: tuple[Crossing, ...]
    span: tuple[int, int]
    in_e_values: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no evidence at any moment."""
        return all(value is None for value in self.evidence)

    @property
    def height(self) -> tuple[float, float]:
        """The lowest and highest values; includes 0 if the chart begins with the first result."""
        known = [value for value in (*self.evidence, *self.threshold) if value is not None]
        known += [0.0] if self.span[0] == 0 or not known else []
        return min(known), max(known)

    def within(self, begin: int, end: int) -> EvidenceChart:
        """Return the part of the chart between two numbers of results."""
        told = [int(one) for one in moments_within(self.told, begin, end)]

        def cut(values: Sequence[float | None]) -> tuple[float | None, ...]:
            return tuple(value_at(self.told, values, one) for one in told)

        return replace(
            self,
            told=tuple(told),
            evidence=cut(self.evidence),
            threshold=cut(self.threshold),
            lead_periods=tuple(
                replace(one, start=max(one.start, begin), end=min(one.end, end))
                for one in self.lead_periods
                if one.start < end and begin < one.end
            ),
            rivals=tuple(_rival_within(one, self.told, told) for one in self.rivals),
            crossings=tuple(one for one in self.crossings if begin <= one.told <= end),
            span=(begin, end),
        )


def evidence_chart(trace: Sequence[Progress]) -> EvidenceChart:
    """Return the chart of one experiment's moments, in order."""
    rivals, crossings = _ruled_out(trace)
    return EvidenceChart(
        tuple(moment.told for moment in trace),
        tuple(finite(moment.evidence) for moment in trace),
        tuple(finite(moment.threshold) for moment in trace),
        tuple(lead_periods(trace)),
        rivals,
        crossings,
        (0, max(trace[-1].told, 1)),
        evidence_level(trace[-1]) is not None,
    )


def e_value_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round e-values with their positions between two ends of a logarithmic axis.

    Examples
    --------
    >>> [label for _, label in e_value_ticks(-1.0, 3.0)]
    ['0.5', '1', '2', '5', '10', '20']
    """
    ticks: list[tuple[float, str]] = []
    for digits in ((1, 2, 5), (1,)):
        values = [digit * 10.0**power for power in range(-30, 31) for digit in digits]
        ticks = [(math.log(one), number(one)) for one in values if low <= math.log(one) <= high]
        if len(ticks) <= _MOST_TICKS:
            return ticks
    return ticks[:: -(-len(ticks) // _MOST_TICKS)]


def _rival_within(rival: Rival, told: Sequence[int], shown: Sequence[int]) -> Rival:
    # The evidence against a rival is known until it was ruled out.
    known = told[: len(rival.against)]
    until = [one for one in shown if known and one <= known[-1]]
    return replace(rival, against=tuple(value_at(known, rival.against, one) for one in until))


def _ruled_out(
    trace: Sequence[Progress],
) -> tuple[tuple[Rival, ...], tuple[Crossing, ...]]:
    threshold, when = needed(trace[-1]), when_ruled_out(trace)
    out = [
        one.answer for one in alternatives(trace[-1]) if one.rejected and one.log_wealth is not None
    ]
    if threshold is None or len(out) > _MOST_RIVALS:
        return (), ()
    found = [{one.answer: one.log_wealth for one in alternatives(moment)} for moment in trace]
    rivals = tuple(
        Rival(
            answer,
            tuple(
                None if (value := wealth.get(answer)) is None else min(value, threshold)
                for moment, wealth in zip(trace, found, strict=True)
                if moment.told <= when[answer]
            ),
        )
        for answer in out
    )
    crossings = tuple(
        Crossing(int(told), tuple(answer for answer in out if when[answer] == told))
        for told in np.unique([when[answer] for answer in out])
    )
    return rivals, crossings

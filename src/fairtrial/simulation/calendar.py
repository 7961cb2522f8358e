"""The calendar of a study with steady accrual and results that come after a fixed delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtrial.simulation.proportions import Proportion
from fairtrial.simulation.results import Simulation
from fairtrial.simulation.summary import TAILS, Statistics

__all__ = ["Calendar", "Look", "calendar_of", "looks_of"]


_DIGITS = 6
"""Days are sums of many steps; their rounding errors are no spread."""


@dataclass(frozen=True)
class Calendar:
    """When things happen, in days after the first pull.

    Pull i is made on day ``(i - 1) / pulls_per_day``, or later if somebody came for whom no pull
    was left; its result is known `delay_days` later, rounded up to a whole number of pulls.

    Parameters
    ----------
    decision : Statistics
        The day on which the policy ended, with a decision or not.
    last_pull : Statistics
        The day of the last pull.
    last_result : Statistics
        The day on which the last result is known: the end of follow-up.
    overrun : Statistics
        Pulls in flight when the policy ended. Their results are reported beside the decision, and
        do not change it.
    """

    decision: Statistics
    last_pull: Statistics
    last_result: Statistics
    overrun: Statistics

    def to_dict(self) -> dict[str, Any]:
        """Return mean, median and quantiles as JSON's own types."""
        return {name: own.to_dict() for name, own in vars(self).items()}


@dataclass(frozen=True)
class Look:
    """What an interim look on a stated day would find.

    A look changes nothing: the policy can stop after every result. It tells those who may end the
    study for futility how likely a decision still is, so the advice is not binding.

    Parameters
    ----------
    day : float
        Days after the first pull.
    decided : Proportion
        Runs that had decided by then.
    right : Proportion
        Runs that had named a right answer by then.
    later : Proportion or None
        Among the runs that were still going on, those that decided later; None if there were none.
    """

    day: float
    decided: Proportion
    right: Proportion
    later: Proportion | None

    def to_dict(self) -> dict[str, Any]:
        """Return the look as JSON's own types."""
        return {
            "day": self.day,
            "decided": self.decided.to_dict(),
            "right": self.right.to_dict(),
            "later": None if self.later is None else self.later.to_dict(),
        }


def calendar_of(found: Simulation, pulls_per_day: float, delay_days: float) -> Calendar:
    """Return the calendar of simulated runs."""
    made = found.pulls.sum(axis=1)
    ends = found.elapsed.round(_DIGITS)
    # People can come whom no pull is left for before a planned end: then pulls take longer, and a
    # run that waits for all of them ends with the last result.
    last = np.maximum((made - 1) / pulls_per_day, ends - delay_days)
    return Calendar(
        decision=Statistics.of(ends, TAILS),
        last_pull=Statistics.of(last, TAILS),
        last_result=Statistics.of(last + delay_days, TAILS),
        overrun=Statistics.of(made - found.stopping_time - found.lost, TAILS),
    )


def looks_of(found: Simulation, days: Sequence[float], level: float) -> tuple[Look, ...]:
    """Return what looks on these days find in simulated runs."""
    ends, decided = found.elapsed, found.decided
    correct = np.zeros_like(decided) if found.correct is None else found.correct
    looks = []
    for day in sorted(days):
        early, open_then = decided & (ends <= day), ends > day
        going_on = int(open_then.sum())
        later = int((decided & open_then).sum())
        looks.append(
            Look(
                day,
                decided=Proportion.of(int(early.sum()), early.size, level),
                right=Proportion.of(int((early & correct).sum()), early.size, level),
                later=Proportion.of(later, going_on, level) if going_on else None,
            )
        )
    return tuple(looks)

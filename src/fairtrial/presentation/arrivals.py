"""How pulls turned into results: how many for each action, and how long they took."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Self

from fairtrial.presentation.sources import EventLike

__all__ = ["Arrivals", "Delayed"]

_RESULTS = ("tell", "late_tell")
_ENDS = ("fail", "expire", "cancel")
_BOUNDS = (
    (1.0, "under 1 second"),
    (10.0, "1 to 10 seconds"),
    (60.0, "10 to 60 seconds"),
    (600.0, "1 to 10 minutes"),
    (3_600.0, "10 to 60 minutes"),
    (6 * 3_600.0, "1 to 6 hours"),
    (24 * 3_600.0, "6 to 24 hours"),
    (7 * 24 * 3_600.0, "1 to 7 days"),
    (28 * 24 * 3_600.0, "1 to 4 weeks"),
    (math.inf, "over 4 weeks"),
)

Delayed = tuple[str, int]
"""A range of durations, and the number of results that took that long."""


class Arrivals:
    """Pulls and results by action, and the delays between them; give it all events in order.

    Its size does not grow with the log, except for the pulls that have no result yet.

    Attributes
    ----------
    asked, told : Counter of int
        Numbers of pulls, and of pulls with a result, by action.
    given_up : Counter of int
        Numbers of pulls that ended without a result, by action.
    unsolicited : Counter of int
        Numbers of results without a pull, by action.

    Examples
    --------
    >>> import fairtrial as ft
    >>> problem = ft.subpopulations.Problem(["a", "b"], ["x"], reward_range=(0, 1))
    >>> policy = ft.subpopulations.BlockBetting(problem)
    >>> with ft.Study.create(problem, policy, storage="memory://", name="t", seed=7) as study:
    ...     told = study.tell(study.ask(), 0.5)
    ...     Arrivals.of(study.events()).told.total()
    1
    """

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.told: Counter[int] = Counter()
        self.given_up: Counter[int] = Counter()
        self.unsolicited: Counter[int] = Counter()
        self._ended: set[str] = set()
        self._issued: dict[str, datetime] = {}
        self._delays = [0] * len(_BOUNDS)

    @classmethod
    def of(cls, events: Iterable[EventLike]) -> Self:
        """Return the arrivals in a whole log."""
        arrivals = cls()
        for event in events:
            arrivals.take(event)
        return arrivals

    def take(self, event: EventLike) -> None:
        """Add the next event."""
        if event.action is None or event.pull_id is None:
            return
        if event.kind == "ask":
            self.asked[event.action] += 1
            self._issued[event.pull_id] = event.at
        elif event.kind == "unsolicited":
            self.unsolicited[event.action] += 1
        elif event.kind in _ENDS and event.pull_id in self._issued:
            self.given_up[event.action] += event.pull_id not in self._ended
            self._ended.add(event.pull_id)
        elif event.kind == "reissue":
            self._take_back(event.action, event.pull_id)
        elif event.kind in _RESULTS and event.pull_id in self._issued:
            self._take_back(event.action, event.pull_id)
            self.told[event.action] += 1
            # The store's clock may have been set back in between.
            seconds = (event.at - self._issued.pop(event.pull_id)).total_seconds()
            self._delays[next(n for n, (end, _) in enumerate(_BOUNDS) if seconds < end)] += 1

    def _take_back(self, action: int, pull_id: str) -> None:
        """Count a pull that was given up no longer as such, if it was."""
        if pull_id in self._ended:
            self._ended.remove(pull_id)
            self.given_up[action] -= 1

    @property
    def delays(self) -> list[Delayed]:
        """Numbers of results by duration, from the shortest that occurred to the longest."""
        found = [place for place, number in enumerate(self._delays) if number]
        if not found:
            return []
        return [(_BOUNDS[n][1], self._delays[n]) for n in range(found[0], found[-1] + 1)]

    @property
    def usual_delay(self) -> str:
        """The range that contains the median duration; empty if there are no results."""
        total, passed = sum(self._delays), 0
        for (_, name), number in zip(_BOUNDS, self._delays, strict=True):
            passed += number
            if total and 2 * passed >= total:
                return name
        return ""

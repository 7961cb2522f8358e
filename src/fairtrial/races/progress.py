"""What a race shows while it runs: who leads, who has left, and what it has cost."""

from __future__ import annotations

import math
import sys
import time

from fairtrial.core.notebooks import CellOutput, in_notebook
from fairtrial.core.printing import printable
from fairtrial.core.wording import plural
from fairtrial.delayed import PairedRacing
from fairtrial.races.budget import Budget
from fairtrial.races.result import RaceResult
from fairtrial.study import Study

__all__ = ["Reporter"]

_SECONDS = 2.0
_CHANGES = 10
"""A notebook shows the last changes only."""


class Reporter:
    """Shows the race when a candidate leaves, and every few seconds.

    Each time it prints a line on standard error. In a notebook the new state replaces the old one.

    Parameters
    ----------
    budget : Budget
        What evaluations cost, and which were paid by an earlier race.
    n_items : int
        Number of items.
    """

    def __init__(self, budget: Budget, n_items: int) -> None:
        self._budget = budget
        self._n_items = n_items
        self._seen: object = None
        self._states: dict[str, str] = {}
        self._printed = -math.inf
        self._cell = CellOutput() if in_notebook() else None
        self._changed: list[str] = []

    def __call__(self, study: Study) -> None:
        """Show what has changed; this costs nearly nothing while there is nothing to show."""
        policy = study.policy
        assert isinstance(policy, PairedRacing)
        seen = (policy.states, study.stopped)
        if seen == self._seen and time.monotonic() < self._printed + _SECONDS:
            return
        self._seen, self._printed = seen, time.monotonic()
        budget = self._budget
        result = RaceResult(study, budget.costs, self._n_items, is_known=budget.is_known)
        changes = [f"{label!r} is {state}" for label, state in self._changes(result)]
        if self._cell is None:
            print("; ".join([result.in_words(), *changes]), file=sys.stderr, flush=True)  # noqa: T201
            return
        if study.stopped:  # the result says the rest
            self._cell.show(printable(result.in_words()))
            return
        self._changed.extend(changes)
        before = len(self._changed) - _CHANGES
        earlier = [f"... and {plural(before, 'change')} before"] if before > 0 else []
        lines = [result.in_words(), *reversed(self._changed[-_CHANGES:]), *earlier]
        self._cell.show("\n".join(map(printable, lines)))

    def _changes(self, result: RaceResult) -> list[tuple[str, str]]:
        states = result.states
        before, self._states = self._states or states, states
        return [(label, state) for label, state in states.items() if state != before[label]]

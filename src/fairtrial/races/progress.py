"""What a race prints while it runs: who leads, who has left, and what it has cost."""

from __future__ import annotations

import math
import sys
import time

from fairtrial.delayed import PairedRacing
from fairtrial.races.budget import Budget
from fairtrial.races.result import RaceResult
from fairtrial.study import Study

__all__ = ["Reporter"]

_SECONDS = 2.0


class Reporter:
    """Prints a line to standard error when a candidate leaves, and every few seconds.

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

    def __call__(self, study: Study) -> None:
        """Print what has changed; this costs nearly nothing while there is nothing to print."""
        policy = study.policy
        assert isinstance(policy, PairedRacing)
        seen = (policy.states, study.stopped)
        if seen == self._seen and time.monotonic() < self._printed + _SECONDS:
            return
        self._seen, self._printed = seen, time.monotonic()
        budget = self._budget
        result = RaceResult(study, budget.costs, self._n_items, is_known=budget.is_known)
        changes = [f"{label!r} is {state}" for label, state in self._changes(result)]
        print("; ".join([result.in_words(), *changes]), file=sys.stderr, flush=True)  # noqa: T201

    def _changes(self, result: RaceResult) -> list[tuple[str, str]]:
        states = result.states
        before, self._states = self._states or states, states
        return [(label, state) for label, state in states.items() if state != before[label]]

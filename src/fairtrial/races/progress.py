"""What a race prints while it runs: who leads, who has left, and what it has cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from fairtrial.races.result import RaceResult
from fairtrial.study import Study

__all__ = ["Reporter"]

_SECONDS = 2.0


class Reporter:
    """Prints a line to standard error when a candidate leaves, and every few seconds.

    Parameters
    ----------
    costs : mapping or None
        Cost of an evaluation by candidate.
    n_items : int
        Number of items.
    """

    def __init__(self, costs: Mapping[str, float] | None, n_items: int) -> None:
        self._costs = costs
        self._n_items = n_items
        self._states: tuple[str, ...] | None = None
        self._printed = 0.0

    def __call__(self, study: Study) -> None:
        """Print what has changed."""
        result = RaceResult(study, self._costs, self._n_items)
        left = [f"{label!r} is {state}" for label, state in self._changes(result)]
        if not left and time.monotonic() < self._printed + _SECONDS:
            return
        self._printed = time.monotonic()
        print("; ".join([result.in_words(), *left]), file=sys.stderr, flush=True)  # noqa: T201

    def _changes(self, result: RaceResult) -> list[tuple[str, str]]:
        states = result.states
        before, self._states = self._states, tuple(states.values())
        return [
            (label, state)
            for (label, state), old in zip(states.items(), before or self._states, strict=True)
            if state != old
        ]

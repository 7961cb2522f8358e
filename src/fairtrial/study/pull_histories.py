"""The pulls of a study's log, by number, and how each one ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fairtrial.study.log import Step, outcome_of

__all__ = ["PullHistories"]


class PullHistories:
    """The pulls of a log, by number, and how each one ended.

    Parameters
    ----------
    steps : iterable of Step
        The log.
    has_measures : bool
        Whether an outcome has several measures.

    Attributes
    ----------
    actions, propensities : list
        One per pull, as they were issued.
    values : list of float or None
        The outcome on record, if it is a number.
    measured : list of mapping or None
        The outcome on record by measure, if there are several; a measure that will never be known
        is None.
    as_told : dict of int to float or mapping
        The outcome that was told at first, for pulls whose outcome was corrected.
    ends : list of str
        ``"told"``, ``"lost"``, ``"cancelled"`` or ``"open"``.
    first_ends : list of str
        The same, as of the first event that ended the pull.
    results_before : list of int
        Number of results that arrived before the pull's own.
    batches : list of int
        Pulls that were issued without a result in between have the same number.
    arrived : Counter
        How often each ``(keyword, value)`` occurred in the context of an ask, until a group was
        closed: later proportions are those of the open groups.
    """

    def __init__(self, steps: Iterable[Step], has_measures: bool = False) -> None:
        self.actions: list[int] = []
        self.propensities: list[float | None] = []
        self.values: list[float | None] = []
        self.measured: list[Mapping[str, float | None] | None] = []
        self.as_told: dict[int, Any] = {}
        self.ends: list[str] = []
        self.first_ends: list[str] = []
        self.results_before: list[int] = []
        self.batches: list[int] = []
        self.arrived: Counter[tuple[str, Any]] = Counter()
        self.results = 0
        self._has_measures = has_measures
        self._batch = 0
        self._starts_batch = False
        self._has_closed_group = False
        for step in steps:
            self.add(*step)

    def weighted_means(self, n_actions: int) -> list[float | None]:
        """Return the mean of every action, with each result weighted by its inverse propensity.

        Only results of pulls that were drawn at random count; None if an action has none.
        """
        sums, weights = [0.0] * n_actions, [0.0] * n_actions
        for action, propensity, value in zip(
            self.actions, self.propensities, self.values, strict=True
        ):
            if propensity is not None and value is not None:
                sums[action] += value / propensity
                weights[action] += 1.0 / propensity
        return [
            total / weight if weight else None for total, weight in zip(sums, weights, strict=True)
        ]

    def add(
        self,
        _seq: int,
        kind: str,
        number: int | None,
        action: int | None,
        _tag: int | None,
        value: float | None,
        _stage: int | None,
        body: str | None,
        _at: int,
    ) -> None:
        """Add the next event of the log."""
        if kind == "close":
            self._has_closed_group |= "group" in json.loads(body or "{}")
        if action is None or number is None:
            return
        if kind == "ask":
            self._ask(action, json.loads(body) if body else {})
        elif number < 0:
            return
        elif kind in ("tell", "late_tell"):
            self._record(number, value, body)
            self._end(number, "told")
        elif kind == "amend" and self.ends[number] == "told":
            outcomes = self.measured if self._has_measures else self.values
            self.as_told.setdefault(number, outcomes[number])
            self._record(number, value, body)
        elif kind in ("expire", "fail"):
            self._end(number, "lost")
        elif kind == "cancel":
            self._end(number, "cancelled")

    def _record(self, number: int, value: float | None, body: str | None) -> None:
        self.values[number] = value
        if self._has_measures:
            self.measured[number] = outcome_of(value, body)

    def _ask(self, action: int, said: Mapping[str, Any]) -> None:
        self._batch += self._starts_batch
        self._starts_batch = False
        self.actions.append(action)
        self.propensities.append(said.get("propensity"))
        self.values.append(None)
        self.measured.append(None)
        self.ends.append("open")
        self.first_ends.append("open")
        self.results_before.append(0)
        self.batches.append(self._batch)
        for keyword, arrived in said.get("context", {}).items():
            if isinstance(arrived, str) and not self._has_closed_group:
                self.arrived[keyword, arrived] += 1

    def _end(self, number: int, end: str) -> None:
        self.ends[number] = end
        if self.first_ends[number] == "open":
            self.first_ends[number] = end
        if end == "told":
            self.results_before[number] = self.results
            self.results += 1
            self._starts_batch = True

"""What a race may still cost: limits that hold for all callers and for repeated attempts."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Pull
from fairtrial.delayed import PairedRacing
from fairtrial.errors import InvalidArgument
from fairtrial.study import Study

if TYPE_CHECKING:
    from fairtrial.client import RemoteStudy

__all__ = ["Budget"]

_ROUNDING = 1.0 + 1e-12


class Budget:
    """Decides whether the next evaluation is within the limits.

    Each pull in the log counts, whoever requested it and whatever became of it. Pulls are counted
    in the order of their numbers, so all callers together keep the limits, however many there are.
    Repeated attempts are in no log: they count in the process that makes them.

    Parameters
    ----------
    costs : mapping or None
        Cost of an evaluation by candidate.
    max_cost, max_evaluations : float or int, optional
        The limits.
    is_known : ndarray of bool, shape (items, candidates), optional
        The scores that are known from an earlier race, and cost nothing.

    Raises
    ------
    InvalidArgument
        If there is a limit of the cost, and no cost is known.

    Attributes
    ----------
    costs, is_known
        As given.
    """

    def __init__(
        self,
        costs: Mapping[str, float] | None,
        max_cost: float | None = None,
        max_evaluations: int | None = None,
        is_known: NDArray[np.bool_] | None = None,
    ) -> None:
        if max_cost is not None and costs is None:
            raise InvalidArgument("max_cost", "needs cost, the cost of an evaluation", max_cost)
        self.costs = costs
        self.is_known = is_known
        self._has_limits = not (max_cost is None and max_evaluations is None)
        self._max_cost = math.inf if max_cost is None else max_cost * _ROUNDING
        self._max_evaluations = math.inf if max_evaluations is None else max_evaluations
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._read_until = 0
        self._paid_so_far: list[tuple[int, float]] = []
        self._evaluations, self._cost = 0, 0.0
        self._repeated, self._cost_of_repeated = 0, 0.0

    def may_begin(self, study: Study | RemoteStudy, pull: Pull) -> bool:
        """Return whether a pull may be carried out, after all pulls with smaller numbers."""
        if not self._has_limits or self._is_free(pull.action, pull.tag):
            return True
        evaluations, cost = self._spent_until(study, pull)
        with self._lock:
            if not self._are_kept(evaluations, cost):
                return False
            # Pulls that were left open can begin after later ones.
            self._evaluations = max(self._evaluations, evaluations)
            self._cost = max(self._cost, cost)
            return True

    def may_repeat(self, candidate: str) -> bool:
        """Return whether a failed evaluation may be attempted again, and count the attempt."""
        if not self._has_limits:
            return True
        cost = 0.0 if self.costs is None else self.costs[candidate]
        with self._lock:
            self._repeated += 1
            self._cost_of_repeated += cost
            if self._are_kept(self._evaluations, self._cost):
                return True
            self._repeated -= 1
            self._cost_of_repeated -= cost
            return False

    def _are_kept(self, evaluations: int, cost: float) -> bool:
        return (
            evaluations + self._repeated <= self._max_evaluations
            and cost + self._cost_of_repeated <= self._max_cost
        )

    def _spent_until(self, study: Study | RemoteStudy, pull: Pull) -> tuple[int, float]:
        """Return the number and cost of this pull and of all with smaller numbers."""
        if self.costs is None and self.is_known is None:
            return pull.number + 1, 0.0
        if not isinstance(study, Study):
            return self._spent_by_log(study, pull)
        policy = study.policy
        assert isinstance(policy, PairedRacing)
        paid = policy.issued
        if self.is_known is not None:
            paid = paid - (policy.requested & self.is_known).sum(axis=0)
        for other in policy.outstanding():
            if other.number > pull.number and not self._is_free(other.action, other.tag):
                paid[other.action] -= 1
        costs = [0.0] * len(paid) if self.costs is None else list(self.costs.values())
        return int(paid.sum()), math.fsum(paid * np.array(costs))

    def _spent_by_log(self, study: RemoteStudy, pull: Pull) -> tuple[int, float]:
        """Return the same of a study whose policy a service keeps, from its log."""
        with self._reading:
            if len(self._paid_so_far) <= pull.number:
                for event in study.events(self._read_until):
                    self._read_until = event.seq
                    if event.kind == "ask" and event.number == len(self._paid_so_far):
                        self._add_price(event.action, event.tag)
            return self._paid_so_far[pull.number]

    def _add_price(self, action: int | None, tag: int | None) -> None:
        assert action is not None
        assert tag is not None
        evaluations, cost = self._paid_so_far[-1] if self._paid_so_far else (0, 0.0)
        if not self._is_free(action, tag):
            evaluations += 1
            cost += 0.0 if self.costs is None else [*self.costs.values()][action]
        self._paid_so_far.append((evaluations, cost))

    def _is_free(self, action: int, tag: int) -> bool:
        return self.is_known is not None and bool(self.is_known[tag, action])

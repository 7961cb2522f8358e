"""Rules with a fixed budget: arms leave at the ends of rounds, based on outcomes only."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.documentation import documented_by
from fairtrial.delayed._kernels.budget_state import ACCEPTED, ALIVE, REJECTS, ROUNDS
from fairtrial.delayed.policies.budget import BudgetPolicy, check_budget
from fairtrial.delayed.problem import Problem

__all__ = ["SequentialHalving", "SuccessiveRejects"]


class RoundPolicy(BudgetPolicy):
    """Base class of rules with rounds: equal pulls of all remaining arms, then a cut.

    A lost pull is spent. A round ends when it has no more pulls in flight.
    """

    version = 2

    _rule: ClassVar[int]
    """The rule's number in the kernels."""

    def __init__(
        self, problem: Problem, budget: int, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(problem, seed)
        self.budget = check_budget(budget, len(problem.arms))
        self._open(self._rule, np.array(self._rounds(), dtype=float), kept=0.0)

    @abstractmethod
    def _rounds(self) -> list[tuple[int, int]]:
        """Return for every round the pulls per remaining arm at its end, and how many arms stay."""

    def _order(self, tables: Any) -> NDArray[np.intp]:
        status = tables.arms.status
        return np.lexsort((-tables.arms.estimate, status != ALIVE, status != ACCEPTED))


class SequentialHalving(RoundPolicy):
    """Spend equal shares of the budget in every round, after which half of the arms leave.

    Readings are ignored. There is no guarantee.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : int
        Maximum number of pulls, at least one per arm.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.

    Notes
    -----
    Source: Karnin, Koren, Somekh (2013), "Almost optimal exploration in multi-armed bandits",
    Algorithm 3. Outcomes of earlier rounds stay in the means.

    Examples
    --------
    >>> policy = SequentialHalving(Problem(4, noise_std=1.0), budget=16)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, float(pull.arm == "2"))
    >>> policy.recommend().arm, policy.told
    (('2',), 16)
    """

    _rule = ROUNDS
    _source = "Karnin, Koren, Somekh (2013), Almost optimal exploration in multi-armed bandits"

    def _rounds(self) -> list[tuple[int, int]]:
        top, alive = self.problem.top, len(self.problem.arms)
        number = max(1, math.ceil(math.log2(alive / top)))
        found: list[tuple[int, int]] = []
        goal, spent = 0, 0
        while not found or alive > top:
            share = (self.budget - spent) // (alive * max(1, number - len(found)))
            share = share if found else max(1, share)
            goal, spent = goal + share, spent + alive * share
            alive = max(top, math.ceil(alive / 2))
            found.append((goal, alive))
        return found


@documented_by(SequentialHalving)
class SuccessiveRejects(RoundPolicy):
    """Remove one arm in every round; if several are wanted, the clearest one, in or out.

    Readings are ignored. There is no guarantee.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.

    Notes
    -----
    Sources: Audibert, Bubeck (2010), "Best arm identification in multi-armed bandits", Figure
    3; for several arms Bubeck, Wang, Viswanathan (2013), "Multiple identifications in
    multi-armed bandits", Figure 1.

    Examples
    --------
    >>> policy = SuccessiveRejects(Problem(4, noise_std=1.0), budget=20)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, float(pull.arm == "2"))
    >>> policy.recommend().arm
    ('2',)
    """

    _rule = REJECTS
    _source = "Audibert, Bubeck (2010); Bubeck, Wang, Viswanathan (2013)"

    def _rounds(self) -> list[tuple[int, int]]:
        arms = len(self.problem.arms)
        spread = 0.5 + sum(1.0 / place for place in range(2, arms + 1))
        return [
            (max(1, math.ceil((self.budget - arms) / (spread * left))), left - 1)
            for left in range(arms, 0, -1)
        ]

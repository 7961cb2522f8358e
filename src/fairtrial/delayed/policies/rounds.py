"""Fixed budgets of pulls: arms leave at the ends of rounds, by their outcomes alone."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.delayed.policies.records import (
    ARM,
    OPEN,
    STATE,
    BudgetPolicy,
    check_budget,
)
from fairtrial.delayed.problem import Problem

__all__ = ["SequentialHalving", "SuccessiveRejects"]


class RoundPolicy(BudgetPolicy):
    """What the rules with rounds share: equally many pulls of all arms left, then a cut.

    A pull that is lost is spent. A round ends when none of its pulls is waited for.
    """

    version = 2
    state_fields = (
        *BudgetPolicy.state_fields, "_alive", "_accepted", "_round", "_goal", "_started",
    )  # fmt: skip

    def __init__(
        self, problem: Problem, budget: int, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(problem, seed)
        self.budget = check_budget(budget, len(problem.arms))
        self._alive = list(range(len(problem.arms)))
        self._started = [0] * len(problem.arms)
        self._accepted: list[int] = []
        self._round = 0
        self._goal = self._pulls_each()
        self._settle()

    @abstractmethod
    def _pulls_each(self) -> int:
        """Return how many pulls every arm left is to have had at the end of this round."""

    @abstractmethod
    def _cut(self) -> None:
        """Let arms leave at the end of a round."""

    @property
    def _places(self) -> int:
        return self.problem.top - len(self._accepted)

    def choose(self) -> Choice:
        """Return the arm left that was started least, None until the round has ended."""
        arm = min(self._alive, key=lambda arm: (self._started[arm], arm))
        if self._started[arm] >= self._goal:
            return None
        self._started[arm] += 1
        return self._open(arm, self._round)

    def _advance(self, row: int) -> None:
        if self._records[row][STATE] == OPEN:
            return
        while not self.stopped and self._round_is_over():
            self._cut()
            self._round += 1
            self._settle()
            if not self.stopped:
                self._goal = max(self._goal, self._pulls_each())

    def _round_is_over(self) -> bool:
        if any(self._started[arm] < self._goal for arm in self._alive):
            return False
        alive = set(self._alive)
        return not any(record[STATE] == OPEN and record[ARM] in alive for record in self._records)

    def _settle(self) -> None:
        """Accept all that are left once there is a place for each."""
        if len(self._alive) <= self._places:
            self._accepted += self._alive
            self._alive = []
        elif self._places == 0:
            self._alive = []

    @property
    def stopped(self) -> bool:
        """Whether every arm is in or out."""
        return not self._alive

    def cancelled(self) -> list[Pull]:
        """Return the pulls in flight of arms that have left."""
        alive = set(self._alive)
        return self._in_flight_where(lambda row: self._records[row][ARM] not in alive)

    def _ranked(self) -> list[int]:
        means, accepted, alive = self._means(), set(self._accepted), set(self._alive)
        arms = range(len(self.problem.arms))
        return sorted(arms, key=lambda arm: (arm not in accepted, arm not in alive, -means[arm]))

    def _by_mean(self) -> list[int]:
        """Return the arms left, the best first."""
        means = self._means()
        return sorted(self._alive, key=lambda arm: (-means[arm], arm))


class SequentialHalving(RoundPolicy):
    """Equal shares of the budget in every round, after which half of the arms leave.

    Readings change nothing. No guarantee for any given number of arms.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : int
        Most pulls, at least one an arm.
    seed : None, int or numpy.random.Generator
        Not used: the policy tosses no coins.

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

    @property
    def _source(self) -> str:
        return "Karnin, Koren, Somekh (2013), Almost optimal exploration in multi-armed bandits"

    def _pulls_each(self) -> int:
        rounds = max(1, math.ceil(math.log2(len(self.problem.arms) / self.problem.top)))
        left = max(1, len(self._alive)) * max(1, rounds - self._round)
        share = (self.budget - self.asked) // left
        return max(1, share) if self._round == 0 else self._goal + share

    def _cut(self) -> None:
        self._alive = sorted(self._by_mean()[: max(self._places, math.ceil(len(self._alive) / 2))])


class SuccessiveRejects(RoundPolicy):
    """One arm leaves in every round; with several wanted, the clearest one, in or out.

    Readings change nothing. No guarantee for any given number of arms.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : int
        Most pulls, at least one an arm.
    seed : None, int or numpy.random.Generator
        Not used: the policy tosses no coins.

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

    @property
    def _source(self) -> str:
        return "Audibert, Bubeck (2010); Bubeck, Wang, Viswanathan (2013)"

    def _pulls_each(self) -> int:
        arms = len(self.problem.arms)
        spread = 0.5 + sum(1.0 / place for place in range(2, arms + 1))
        return max(1, math.ceil((self.budget - arms) / (spread * (arms - self._round))))

    def _cut(self) -> None:
        means, order = self._means(), self._by_mean()
        last_in, first_out = means[order[self._places - 1]], means[order[self._places]]
        lead, lag = means[order[0]] - first_out, last_in - means[order[-1]]
        # With one arm wanted this is the published rule: the worst leaves.
        if self.problem.top > 1 and lead > lag:
            self._accepted.append(order[0])
            self._alive.remove(order[0])
        else:
            self._alive.remove(order[-1])

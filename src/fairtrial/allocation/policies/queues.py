"""LFG and its Thompson variant: policies with queues that keep the shares in the long run."""

from __future__ import annotations

import numpy as np

from fairtrial.allocation.learners import UCB1, Learner, Thompson
from fairtrial.allocation.policies.base import AllocationPolicy, refuse_plays
from fairtrial.allocation.policies.state import Options
from fairtrial.allocation.problem import Problem
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import check_number

__all__ = ["LearningWithFairness", "ThompsonWithFairness"]


class LearningWithFairness(AllocationPolicy):
    """LFG: pull the arm with the largest sum of its queue and eta times its optimistic mean.

    Every arm's queue grows by its share each round and falls by 1 when the arm is pulled. Shares
    are kept only in the long run: an arm stays behind by about eta times its gap.

    Parameters
    ----------
    problem : Problem
        Arms and shares; arms may sleep (``ask(awake=[...])``).
    eta : float
        Weight of the rewards, more than 0.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Li, Liu, Ji, "Combinatorial Sleeping Bandits with Fairness Constraints" (2019), with
    one arm per round.

    Examples
    --------
    >>> policy = LearningWithFairness(Problem(3, "1/5"), eta=10)
    >>> [pull.arm for pull in policy.ask(3)]
    ['0', '1', '2']
    """

    def __init__(
        self, problem: Problem, eta: float, seed: int | np.random.Generator | None = None
    ) -> None:
        self.eta = check_number("eta", eta, low=0.0, open_low=True)
        refuse_plays(problem)
        super().__init__(problem, self._estimator(), seed, Options("queue", eta=self.eta))

    def _estimator(self) -> Learner:
        return UCB1()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee: every share in the long run."""
        return Guarantee(
            type(self).__name__,
            proven=False,
            statement="the share of every arm's pulls tends to its quota or more; at any moment "
            "an arm may be behind by about eta times its gap",
            assumptions=("the shares can be kept with the arms that are awake",),
            source="Li, Liu, Ji (2019), theorem 1, for the long run",
        )


class ThompsonWithFairness(LearningWithFairness):
    """TSCSF-B: like `LearningWithFairness`, with a beta draw instead of the optimistic mean.

    Parameters
    ----------
    problem : Problem
        Arms and shares; arms may sleep.
    eta : float
        Weight of the rewards, more than 0.
    seed : None, int or numpy.random.Generator
        Source of the draws.

    Notes
    -----
    Source: Huang et al., "Thompson sampling for combinatorial semi-bandits with sleeping arms
    and long-term fairness constraints" (2020), with one arm per round.

    Examples
    --------
    >>> policy = ThompsonWithFairness(Problem(3, "1/5"), eta=10, seed=1)
    >>> len(policy.ask(5))
    5
    """

    def _estimator(self) -> Learner:
        return Thompson()

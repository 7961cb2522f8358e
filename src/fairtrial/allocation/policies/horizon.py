"""T-fair-UCB: fill all quotas first, for a known horizon."""

from __future__ import annotations

import numpy as np

from fairtrial.allocation.learners import UCB1
from fairtrial.allocation.policies.base import AllocationPolicy, refuse_plays
from fairtrial.allocation.policies.state import Options
from fairtrial.allocation.problem import Problem
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument

__all__ = ["HorizonFairUCB"]

_FARTHEST = 10**15


class HorizonFairUCB(AllocationPolicy):
    """T-fair-UCB: fill every arm's whole quota first, then run UCB1; fair only at the end.

    Before the horizon, an arm can be behind by its whole quota.

    Parameters
    ----------
    problem : Problem
        Arms and shares.
    horizon : int
        Rounds after which the shares must hold (T); each arm is first pulled
        ``max(1, floor(r_i T))`` times.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari (2019), appendix, theorem 8.

    Examples
    --------
    >>> policy = HorizonFairUCB(Problem(2, "1/4"), horizon=8)
    >>> [pull.arm for pull in policy.ask(4)]
    ['0', '0', '1', '1']
    """

    _takes_awake = False

    def __init__(
        self, problem: Problem, horizon: int, seed: int | np.random.Generator | None = None
    ) -> None:
        self.horizon = check_integer("horizon", horizon, low=1)
        if self.horizon > _FARTHEST:
            raise InvalidArgument("horizon", f"must be at most {_FARTHEST}", horizon)
        refuse_plays(problem)
        opening = _pulls_first(problem, self.horizon) if isinstance(problem, Problem) else ()
        super().__init__(problem, UCB1(), seed, Options("opening", opening=opening))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee: every share at the horizon, if no pull fails."""
        found = Guarantee(
            "T-fair-UCB",
            proven=True,
            statement=f"after round {self.horizon}, every arm i has had at least floor(r_i T) "
            "pulls; nothing is promised before the horizon",
            assumptions=("no pull fails",),
            source="Patil, Ghalme, Nair, Narahari (2019), appendix",
        )
        failed = self.asked - self._state.first - self._state.rounds
        return found.weakened_by(failed, "pull", "failed")


def _pulls_first(problem: Problem, horizon: int) -> tuple[int, ...]:
    pulls = tuple(max(1, int(share * horizon)) for share in problem.shares)
    if sum(pulls) > horizon:
        raise InvalidArgument(
            "horizon", f"is too short for the quotas, which need {sum(pulls)} rounds", horizon
        )
    return pulls

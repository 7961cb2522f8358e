"""The rules that choose one pull at a time, from the data so far."""

from __future__ import annotations

import numpy as np

from fairtrial.core.documentation import documented_by
from fairtrial.linear._kernels.track import FRANK_WOLFE, GAME, GAP_INDEX, GREEDY
from fairtrial.linear._units import tie_key
from fairtrial.linear.policies.base import LinearPolicy, refuse_several_answers
from fairtrial.linear.policies.levels import Level
from fairtrial.linear.policies.race import state_in
from fairtrial.linear.policies.tracker import RedesigningTracker, Tracker
from fairtrial.linear.problem import Problem

__all__ = ["FrankWolfeSampling", "FullyAdaptiveXY", "LazyTrackAndStop", "LinGame", "LinGapE"]


@documented_by(LinearPolicy)
class LinGapE(LinearPolicy):
    """Reduce the variance of the most important gap: the best of the one-at-a-time rules.

    Takes results in any order, pulls in flight, `tolerance`, and several answers.

    Notes
    -----
    Source: Xu, Honda, Sugiyama (2018), "A fully adaptive algorithm for pure exploration in
    linear bandits", with the greedy choice of the arm.

    Examples
    --------
    >>> policy = LinGapE(Problem([[1, 0], [0, 1]], noise_std=0.1), delta=0.1, initial_pulls=5)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, 0.5 if pull.arm == "0" else 0.1)
    >>> policy.recommend().arm
    '0'
    """

    _rule = GAP_INDEX


@documented_by(LinearPolicy)
class LinGame(LinearPolicy):
    """Let a learner of arms play against the closest alternative, and track its plays.

    Notes
    -----
    Source: Degenne, Menard, Shang, Valko (2020), "Gamification of pure exploration for linear
    bandits", with AdaHedge and without the bonus for optimism, so its proof of optimal sampling
    does not apply. The stop is proven for any sampling.

    Examples
    --------
    >>> LinGame(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.label
    'proven'
    """

    _rule = GAME


@documented_by(LinearPolicy)
class FrankWolfeSampling(LinearPolicy):
    """Step towards the steepest ascent of the evidence, averaged over near alternatives.

    Notes
    -----
    Source: Wang, Tzeng, Proutiere (2021), "Fast pure exploration via Frank-Wolfe", with the
    average of the near gradients instead of its game, so its proof of optimal sampling does not
    apply. The stop is proven for any sampling.

    Examples
    --------
    >>> FrankWolfeSampling(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.label
    'proven'
    """

    _rule = FRANK_WOLFE


@documented_by(LinearPolicy)
class LazyTrackAndStop(LinearPolicy):
    """Track the best shares for the estimated theta, redesigned when there is 25 % more data.

    The choice for batches among the one-at-a-time rules: its plan seldom changes.

    Notes
    -----
    Source: Jedra, Proutiere (2020), "Optimal best-arm identification in linear bandits", with
    2 % of the pulls on a basis instead of its forced exploration, so its proof of optimal sampling
    does not apply. The stop is proven for any sampling.

    Examples
    --------
    >>> LazyTrackAndStop(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.label
    'proven'
    """

    state_fields = state_in(RedesigningTracker)

    def _new_race(self) -> RedesigningTracker:
        return RedesigningTracker(*self._tested("adaptive"), self.initial_pulls)


@documented_by(LinearPolicy)
class FullyAdaptiveXY(LinearPolicy):
    """Greedy XY allocation on the candidates not ruled out, chosen again at every pull.

    Parameters
    ----------
    problem : Problem
        It must have ``top=1``. All pairs of candidates are weighed at every pull: do not use it
        for more than a few dozen.
    stopping : str or Level
        A `RidgeLevel`, as in the paper; ``"mixture"`` by default, which needs no bound on theta.
    ties : {"first", "random"}
        Which of several equally useful arms is pulled: the first, or a random one.
    seed : None, int or numpy.random.Generator
        Seed of random ties.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), section 5 and Equations 22 and 26.

    Examples
    --------
    >>> from fairtrial.linear import RidgeLevel
    >>> problem = Problem([[1, 0], [0, 1]], noise_std=1.0)
    >>> FullyAdaptiveXY(problem, stopping=RidgeLevel(norm_bound=2.0)).guarantee.label
    'proven'
    """

    _rule = GREEDY

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "mixture",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        ties: str = "first",
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.ties = ties
        super().__init__(problem, delta, stopping, initial_pulls, max_pulls, seed)

    def _new_race(self) -> Tracker:
        tested = self._tested("adaptive")
        refuse_several_answers(self.problem, type(self).__name__)
        return Tracker(*tested, self._rule, self.initial_pulls, tie_key(self.ties, self.seed))

"""Policies that track shares of the pulls that are fixed before any reward."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.documentation import documented_by
from fairtrial.linear.policies.base import LinearPolicy
from fairtrial.linear.policies.designs import g_shares, oracle_shares, xy_shares
from fairtrial.linear.policies.levels import Level
from fairtrial.linear.policies.tracker import StaticTracker
from fairtrial.linear.problem import Problem

__all__ = ["GAllocation", "XYAllocation", "XYOracle"]

Floats = NDArray[np.float64]


class GAllocation(LinearPolicy):
    """G-optimal shares, fixed in advance: minimise the variance of the worst measured arm.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Accepted probability of a wrong answer.
    stopping : str or Level
        ``"static-checks"`` (default), ``"static"``, ``"mixture"``, ``"soare2014"``, or a level
        object; all are proven except `ConstantLevel`.
    initial_pulls : int, optional
        Initial pulls of every arm of a basis: 10 with the mixture level, otherwise 1.
    max_pulls : int, optional
        Stop undecided after this many results.
    shares : array-like of shape (K,), optional
        Shares to use instead of the rule's own; not negative, with sum one.
    block_draws : bool
        In a simulation with Gaussian noise, draw the sum of an arm's rewards between two looks at
        once, with other random numbers. Runs of 500 to 1,700 pulls were 2.6 to 3.9 times as fast.
        The run's `metrics` tell whether it was drawn so.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), section 4; shares are tracked, pull by pull.

    Examples
    --------
    >>> policy = GAllocation(Problem([[1, 0], [0, 1], [0.1, 0.1]], noise_std=1.0))
    >>> sorted(pull.arm for pull in policy.ask(4))
    ['0', '0', '1', '2']
    """

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "static-checks",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        shares: ArrayLike | None = None,
        block_draws: bool = False,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.shares = shares
        self.block_draws = block_draws
        super().__init__(problem, delta, stopping, initial_pulls, max_pulls, seed)

    def _new_race(self) -> StaticTracker:
        tested, design = self._tested("static"), g_shares
        return StaticTracker(*tested, self.initial_pulls, design, self.shares, self.block_draws)


@documented_by(GAllocation)
class XYAllocation(LinearPolicy):
    """XY-optimal shares, fixed in advance: measure every difference of candidates.

    With more than 20,000 candidates `GAllocation` is the better choice, because this design takes
    minutes.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), section 4.

    Examples
    --------
    >>> XYAllocation(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.name
    'static-checks'
    """

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "static-checks",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        shares: ArrayLike | None = None,
        block_draws: bool = False,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.shares = shares
        self.block_draws = block_draws
        super().__init__(problem, delta, stopping, initial_pulls, max_pulls, seed)

    def _new_race(self) -> StaticTracker:
        tested, design = self._tested("static"), xy_shares
        return StaticTracker(*tested, self.initial_pulls, design, self.shares, self.block_draws)


@documented_by(GAllocation)
class XYOracle(LinearPolicy):
    """The best fixed shares for a theta that is known beforehand: a yardstick.

    Parameters
    ----------
    theta : array-like of shape (d,)
        The parameter for which the shares are optimal; if it is wrong, only the speed suffers.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), section 3.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], noise_std=1.0)
    >>> XYOracle(problem, theta=[1.0, 0.0]).guarantee.name
    'static-checks'
    """

    def __init__(
        self,
        problem: Problem,
        theta: ArrayLike,
        delta: float = 0.05,
        stopping: str | Level = "static-checks",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        block_draws: bool = False,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.theta = theta
        self.block_draws = block_draws
        super().__init__(problem, delta, stopping, initial_pulls, max_pulls, seed)

    def _new_race(self) -> StaticTracker:
        return StaticTracker(
            *self._tested("static"), self.initial_pulls, self._design, None, self.block_draws
        )

    def _design(self, problem: Problem) -> Floats:
        return oracle_shares(problem, tuple(problem.check_theta(self.theta).tolist()))

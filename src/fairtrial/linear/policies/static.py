"""Policies that track shares of the pulls: fixed ones, or ones that are redesigned at times."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.policy import Choice
from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument
from fairtrial.linear._kernels.runs import run_static_blocks
from fairtrial.linear._kernels.track import READY, SUPPORT, TOLD
from fairtrial.linear.environments import ArmEnvironment, GaussianEnvironment
from fairtrial.linear.policies.designs import g_shares, oracle_shares, plug_in_shares, xy_shares
from fairtrial.linear.policies.levels import Level, MixtureLevel, StaticChecksLevel
from fairtrial.linear.policies.tracking import Tracking
from fairtrial.linear.problem import Problem

__all__ = ["GAllocation", "LazyTrackAndStop", "XYAllocation", "XYOracle"]

Floats = NDArray[np.float64]


class _Sharing(Tracking):
    """A rule that pulls the arm farthest behind its share."""

    rule = 1

    def _set_shares(self, shares: Floats) -> None:
        track = self._track
        support = np.flatnonzero(shares)
        track.shares[...] = shares
        track.support[: support.size] = support
        track.control[SUPPORT] = support.size


class _Static(_Sharing):
    """Shares that are fixed before any reward."""

    samplers = "static"

    def __init__(
        self,
        problem: Problem,
        delta: float,
        stopping: str | Level,
        initial_pulls: int | None,
        max_pulls: int | None,
        shares: ArrayLike | None,
        block_draws: bool,
        seed: int | np.random.Generator | None,
    ) -> None:
        super().__init__(problem, delta, stopping, initial_pulls, max_pulls, seed)
        self.shares = shares
        self.block_draws = block_draws
        if not isinstance(block_draws, bool):
            raise InvalidArgument("block_draws", "must be True or False", block_draws)
        if block_draws and not isinstance(self._level, StaticChecksLevel):
            raise InvalidArgument(
                "block_draws", "needs stopping='static-checks': others look after every result"
            )
        if not self._found_best:
            self._set_shares(self._design() if shares is None else self._given(shares))

    @property
    def _initial(self) -> int:
        default = 10 if isinstance(self._level, MixtureLevel) else 1
        return default if self.initial_pulls is None else self.initial_pulls

    @abstractmethod
    def _design(self) -> Floats:
        """Return the shares of the arms, shape (K,)."""

    def _given(self, shares: ArrayLike) -> Floats:
        given = check_array("shares", shares, (self._shape[0],), axes=("arms",))
        if (given < 0.0).any() or abs(given.sum() - 1.0) > 1e-6:
            raise InvalidArgument("shares", "must be non-negative and sum to 1", shares)
        arms = self.problem.reduced.arms[given > 0.0]
        if self._initial == 0 and np.linalg.matrix_rank(arms) < self._shape[2]:
            raise InvalidArgument(
                "shares", "must measure every direction, or initial_pulls be 1", shares
            )
        return given

    def _advance(
        self, environment: ArmEnvironment, generator: np.random.Generator, most: int
    ) -> None:
        if not (self.block_draws and isinstance(environment, GaussianEnvironment)):
            super()._advance(environment, generator, most)
            return
        _, means, stds, _ = environment.source
        run_static_blocks(*self._books(means, stds, self._factors, generator, most))
        self.told = self.asked = int(self._control[TOLD])

    def metrics(self) -> dict[str, float]:
        """Return whether a simulation may draw sums of rewards at once."""
        return {"block_draws": 1.0} if self.block_draws else {}


class GAllocation(_Static):
    """G-optimal shares, fixed beforehand: measure every arm as well as the worst.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Probability of a wrong answer that is accepted.
    stopping : str or Level
        ``"static-checks"`` (default), ``"static"``, ``"mixture"``, ``"soare2014"``, or a level
        object; all proven but `ConstantLevel`.
    initial_pulls : int, optional
        Initial pulls of every arm of a basis: 10 with the mixture level, else 1.
    max_pulls : int, optional
        Stop undecided after this many results.
    shares : array-like of shape (K,), optional
        Shares of one's own instead; not negative, with sum one.
    block_draws : bool
        In a simulation with Gaussian noise draw the sum of an arm's rewards from one look to the
        next at once: far faster, other random numbers. The run's `metrics` say so.
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
        super().__init__(
            problem, delta, stopping, initial_pulls, max_pulls, shares, block_draws, seed
        )

    def _design(self) -> Floats:
        return g_shares(self.problem)


class XYAllocation(GAllocation):
    """XY-optimal shares, fixed beforehand: measure every difference of candidates.

    Parameters are those of `GAllocation`. With more than 20,000 candidates that one is
    the better choice: the design here takes minutes.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), section 4.

    Examples
    --------
    >>> XYAllocation(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.name
    'static-checks'
    """

    def _design(self) -> Floats:
        return xy_shares(self.problem)


class XYOracle(_Static):
    """The best fixed shares for a theta that is known beforehand: a yardstick.

    Parameters are those of `GAllocation`, but instead of `shares`:

    Parameters
    ----------
    theta : array-like of shape (d,)
        The parameter that the shares are best for; only the speed rests on its being true.

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
        super().__init__(
            problem, delta, stopping, initial_pulls, max_pulls, None, block_draws, seed
        )
        del self.shares

    def _design(self) -> Floats:
        theta = self.problem.check_theta(self.theta)
        return oracle_shares(self.problem, tuple(theta.tolist()))


class LazyTrackAndStop(_Sharing):
    """Track the best shares for the estimated theta, redesigned when there is 25 % more data.

    The choice for batches among the one-at-a-time rules: it seldom changes its mind.

    Parameters are those of `LinGapE`.

    Notes
    -----
    Source: Jedra, Proutiere (2020), "Optimal best-arm identification in linear bandits", with
    2 % of the pulls on a basis for its forced exploration: its proof of optimal sampling is
    not claimed. The stop is proven for any sampling.

    Examples
    --------
    >>> LazyTrackAndStop(Problem([[1, 0], [0, 1]], noise_std=1.0)).guarantee.label
    'proven'
    """

    state_fields = (*_Sharing.state_fields, "_redesign_at")

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "mixture",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, stopping, initial_pulls, max_pulls, seed)
        self._redesign_at = self.problem.start_arms.size * max(1, self._initial)
        self._set_shares(self._on_the_basis())

    def _on_the_basis(self) -> Floats:
        shares = np.zeros(self._shape[0])
        shares[self.problem.basis_arms] = 1.0 / max(1, self._shape[2])
        return shares

    def choose(self) -> Choice:
        """Return the arm farthest behind its share, after a new design when one is due."""
        self._redesign_if_due()
        return super().choose()

    def _redesign_if_due(self) -> None:
        if self.told < self._redesign_at or not self._control[READY]:
            return
        track = self._track
        shares = plug_in_shares(self.problem, track.inverse @ track.right)
        self._set_shares(0.98 * shares + 0.02 * self._on_the_basis())
        self._redesign_at = math.ceil(1.25 * self.told)

    def _simulate(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        while not self._finished and self.told < horizon:
            self._redesign_if_due()
            until = min(horizon, max(self._redesign_at, self.told + 1))
            self._advance(environment, generator, until)
        return np.asarray(self._track.counts)

"""A simulated world whose units have a prediction before they have an arm."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_number
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations.environments import BernoulliEnvironment, GaussianEnvironment
from fairtrial.subpopulations.problem import Problem

__all__ = ["GaussianPredictedEnvironment", "PredictedEnvironment"]

Floats = NDArray[np.float64]


class PredictedEnvironment(BernoulliEnvironment):
    """Rewards 1 or 0 of units that differ in their chances; the prediction is a unit's chance.

    Units come by themselves: first their group and prediction are known, then their arm is drawn.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction` whose range contains 0 and 1, as its `reward_range`.
    means : array-like of shape (K, L), mapping by arm, or data frame
        The true probabilities of a 1.
    r_squared : float
        The share of the variance of rewards that predictions explain, in [0, 1), for the average
        mean of the arms of a group.
    arrivals : array-like of shape (L,) or mapping by group, optional
        The proportions in which groups arrive; those of the problem by default.

    Notes
    -----
    Chances have a beta distribution. An arm with another mean multiplies the chance of every unit
    of a group, or its distance from 1, by the same number.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.2, reward_range=(0, 1), prediction=(0, 1))
    >>> environment = PredictedEnvironment(problem, [[0.3], [0.5]], r_squared=0.5)
    >>> sorted(environment.context(np.random.default_rng(1)))
    ['group', 'prediction']
    """

    def __init__(
        self,
        problem: Problem,
        means: ArrayLike,
        r_squared: float = 0.5,
        arrivals: Any = None,
    ) -> None:
        super().__init__(problem, means, arrivals)
        if problem.prediction is None:
            raise InvalidArgument("problem", "must have a prediction", problem)
        low, high = problem.prediction.ends
        if problem.reward_range is None or low > 0.0 or high < 1.0:
            accepted = "must have a prediction whose range contains 0 and 1"
            raise InvalidArgument("problem", accepted, (low, high))
        self.r_squared = check_number("r_squared", r_squared, low=0.0, high=1.0)
        if self.r_squared == 1.0:
            raise InvalidArgument("r_squared", "must be less than 1", r_squared)
        if arrivals is None:
            self._let_arrive(problem.shares)
            self.arrivals = None
        self._averages: Floats = self.means.mean(axis=0)
        self._chance = 0.0

    def begin(self, generator: np.random.Generator) -> PredictedEnvironment:
        """Return a copy, which remembers the unit that has come."""
        return copy(self)

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return group and prediction of the next unit."""
        groups = self.problem.groups
        group = int(generator.choice(len(groups), p=self._arriving))
        self._chance = self._drawn(group, generator)
        return {"group": groups[group], "prediction": self._chance}

    def _drawn(self, group: int, generator: np.random.Generator) -> float:
        """Return the chance of a unit, on average over the arms."""
        average = float(self._averages[group])
        if self.r_squared == 0.0 or average in (0.0, 1.0):
            return average
        size = 1.0 / self.r_squared - 1.0
        return float(generator.beta(average * size, (1.0 - average) * size))

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        """Return the reward of the unit that has come, with the arm of the pull."""
        arm, group = divmod(pull.action, self.problem.shape[1])
        mean, average = float(self.means[arm, group]), float(self._averages[group])
        if mean <= average:
            chance = self._chance * (mean / average if average > 0.0 else 1.0)
        else:
            chance = 1.0 - (1.0 - self._chance) * (1.0 - mean) / (1.0 - average)
        return float(generator.random() < chance)


class GaussianPredictedEnvironment(GaussianEnvironment):
    """Normal rewards of units, each of which is its prediction plus normal noise.

    Units come by themselves: first their group and prediction are known, then their arm is drawn.
    In a group, predictions are normal, and rewards have the smallest `noise_std` of its arms.

    Parameters
    ----------
    problem : Problem
        A problem with `noise_std` and a `prediction` with ``residual_std``.
    means : array-like of shape (K, L), mapping by arm, or data frame
        The true means.
    arrivals : array-like of shape (L,) or mapping by group, optional
        The proportions in which groups arrive; those of the problem by default.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.0, noise_std=1.0, prediction={"residual_std": 0.6})
    >>> environment = GaussianPredictedEnvironment(problem, [[0.3], [0.5]])
    >>> sorted(environment.context(np.random.default_rng(1)))
    ['group', 'prediction']
    """

    def __init__(self, problem: Problem, means: ArrayLike, arrivals: Any = None) -> None:
        super().__init__(problem, means, arrivals=arrivals)
        if problem.prediction is None or problem.prediction.residual_std is None:
            raise InvalidArgument("problem", "must have a prediction with residual_std", problem)
        if arrivals is None:
            self._let_arrive(problem.shares)
            self.arrivals = None
        self._residual = problem.prediction.residual_std
        smallest = np.maximum(problem.scale.min(axis=0), self._residual)
        self._stds = np.broadcast_to(smallest, problem.shape)
        # The part of the standard deviation that predictions explain.
        self._explained: Floats = np.sqrt((smallest - self._residual) * (smallest + self._residual))
        known = np.array(problem.prediction.means_of(problem.groups))
        self._centres: Floats = np.where(np.isnan(known), self.means.mean(axis=0), known)
        self._off = 0.0

    def begin(self, generator: np.random.Generator) -> GaussianPredictedEnvironment:
        """Return a copy, which remembers the unit that has come."""
        return copy(self)

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return group and prediction of the next unit."""
        groups = self.problem.groups
        group = int(generator.choice(len(groups), p=self._arriving))
        self._off = float(self._explained[group] * generator.standard_normal())
        return {"group": groups[group], "prediction": float(self._centres[group]) + self._off}

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        """Return the reward of the unit that has come, with the arm of the pull."""
        mean = float(self.means.ravel()[pull.action])
        return mean + self._off + self._residual * float(generator.standard_normal())

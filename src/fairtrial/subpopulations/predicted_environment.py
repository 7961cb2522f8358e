"""A simulated world whose units have a prediction before they have an arm."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_number
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations.environments import (
    BernoulliEnvironment,
    GaussianEnvironment,
    PredictedVariances,
)
from fairtrial.subpopulations.problem import Problem

__all__ = ["GaussianPredictedEnvironment", "PredictedEnvironment"]

Floats = NDArray[np.float64]


class PredictedEnvironment(BernoulliEnvironment):
    """Rewards 1 or 0 of units that differ in their chances; the prediction is a unit's chance.

    Units come by themselves: first their group and prediction are known, then their arm is drawn.
    With measures, each value is at the lower or the upper end of its range, independently of the
    others; the prediction of a measure is its mean for the unit.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction` whose range contains 0 and 1, as its `reward_range`; with
        measures, the range of a measure that is predicted.
    means : array-like of shape (K, L), mapping by arm, or data frame
        The true probabilities of a 1; with measures their true means.
    r_squared : float, or mapping of str to float
        The share of the variance of rewards that predictions explain, in [0, 1), for the average
        mean of the arms of a group. With measures it can be a mapping by predicted measure.
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
        r_squared: float | Mapping[str, float] = 0.5,
        arrivals: Any = None,
    ) -> None:
        super().__init__(problem, means, arrivals)
        if not problem.predictions:
            raise InvalidArgument("problem", "must have a prediction", problem)
        ranges = problem.measure_ranges
        self._ends: Floats = np.array([[0.0, 1.0]]) if ranges is None else ranges
        for place, stated in zip(_places(problem), problem.predictions.values(), strict=True):
            low, high = self._ends[place]
            if not _contains(stated.ends, low, high) or problem.noise_std is not None:
                accepted = f"must have a prediction whose range contains {low:g} and {high:g}"
                raise InvalidArgument("problem", accepted, stated.ends)
        self.r_squared = r_squared
        self._explained = self._checked_shares(r_squared)
        if arrivals is None:
            self._let_arrive(problem.shares)
            self.arrivals = None
        low, high = self._ends.T
        self._own: Floats = (self.means.reshape(*problem.shape, -1) - low) / (high - low)
        self._averages: Floats = self._own.mean(axis=0)
        self._unit: Floats = self._averages[0]

    def _checked_shares(self, r_squared: Any) -> dict[int, float]:
        """Return what is explained of each measure that is predicted, by its place."""
        names = list(self.problem.predictions)
        if not isinstance(r_squared, Mapping):
            r_squared = dict.fromkeys(names, r_squared)
        if set(r_squared) != set(names):
            accepted = f"must be a number, or have an entry for each of {names}"
            raise InvalidArgument("r_squared", accepted, r_squared)
        found = {}
        for place, name in zip(_places(self.problem), names, strict=True):
            found[place] = check_number("r_squared", r_squared[name], low=0.0, high=1.0)
            if found[place] == 1.0:
                raise InvalidArgument("r_squared", "must be less than 1", r_squared[name])
        return found

    @property
    def predicted_variances(self) -> PredictedVariances:
        """What predictions explain, if they are used with the slope 1."""
        places, shares = [*self._explained], np.array([*self._explained.values()])
        widths = np.ptp(self._ends, axis=1)[places]
        averages = self._averages[:, places]
        spread = shares * averages * (1.0 - averages) * np.square(widths)
        left, moved = self.cell_covariances.copy(), np.vectorize(_slope)
        # A slope of 1 leaves an arm whose chances follow those of units less closely more.
        slopes = moved(self._own[:, :, places], averages)
        left[:, :, places, places] -= (2.0 * slopes - 1.0) * spread
        return PredictedVariances(places, left, _by_group(self.problem, spread))

    def begin(self, generator: np.random.Generator) -> PredictedEnvironment:
        """Return a copy, which remembers the unit that has come."""
        return copy(self)

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return group and prediction of the next unit."""
        groups = self.problem.groups
        group = int(generator.choice(len(groups), p=self._arriving))
        self._unit = self._averages[group].copy()
        for place in self._explained:
            self._unit[place] = self._drawn(group, place, generator)
        low, high = self._ends.T
        known = (low + self._unit * (high - low)).tolist()
        return {"group": groups[group], "prediction": _named(self.problem, known)}

    def _drawn(self, group: int, place: int, generator: np.random.Generator) -> float:
        """Return the chance of a unit, on average over the arms."""
        average, explained = float(self._averages[group, place]), self._explained[place]
        if explained == 0.0 or average in (0.0, 1.0):
            return average
        size = 1.0 / explained - 1.0
        return float(generator.beta(average * size, (1.0 - average) * size))

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        """Return the outcome of the unit that has come, with the arm of the pull."""
        arm, group = divmod(pull.action, self.problem.shape[1])
        chances = np.array(
            [
                _moved(chance, mean, average)
                for chance, mean, average in zip(
                    self._unit, self._own[arm, group], self._averages[group], strict=True
                )
            ]
        )
        low, high = self._ends.T
        drawn = np.where(generator.random(chances.size) < chances, high, low)
        measured = self.problem.measured
        return float(drawn[0]) if measured is None else measured.as_row(drawn)


def _places(problem: Problem) -> list[int]:
    """Return the places of the measures that are predicted; 0 for a reward."""
    if not problem.measures:
        return [0]
    return [problem.measures.index(name) for name in problem.predictions]


def _by_group(problem: Problem, spread: Floats) -> Floats:
    """Return what predictions explain as covariances, (L, P, P), from variances, (L, P)."""
    means = [own.means_of(problem.groups) for own in problem.predictions.values()]
    # Nothing has to be estimated of a mean that is known.
    unknown = np.where(np.isnan(np.array(means).T), spread, 0.0)
    return np.asarray(unknown[..., np.newaxis] * np.eye(spread.shape[1]))


def _contains(ends: tuple[float, float], low: float, high: float) -> bool:
    return ends[0] <= low and high <= ends[1]


def _named(problem: Problem, values: list[float]) -> Any:
    """Return the predictions among values by measure; a number if there is only a reward."""
    if not problem.measures:
        return values[0]
    return {problem.measures[place]: values[place] for place in _places(problem)}


def _moved(chance: float, mean: float, average: float) -> float:
    """Return the chance of a unit under an arm, from that on average over the arms."""
    if mean <= average:
        return chance * _slope(mean, average)
    return 1.0 - (1.0 - chance) * _slope(mean, average)


def _slope(mean: float, average: float) -> float:
    """Return by how much the chance of a unit under an arm moves with that on average."""
    if mean <= average:
        return mean / average if average > 0.0 else 1.0
    return (1.0 - mean) / (1.0 - average)


class GaussianPredictedEnvironment(GaussianEnvironment):
    """Normal rewards of units, each of which is its prediction plus normal noise.

    Units come by themselves: first their group and prediction are known, then their arm is drawn.
    In a group, predictions are normal, and rewards have the smallest `noise_std` of its arms. With
    measures, each is so, independently of the others.

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
        residuals = [own.residual_std for own in problem.predictions.values()]
        if not residuals or None in residuals:
            raise InvalidArgument("problem", "must have a prediction with residual_std", problem)
        if arrivals is None:
            self._let_arrive(problem.shares)
            self.arrivals = None
        places = _places(problem)
        shape = (*problem.shape, -1)
        stds = problem.measure_noise_std
        smallest = (problem.scale if stds is None else stds).reshape(shape).min(axis=0)
        self._left: Floats = smallest.copy()
        self._left[:, places] = np.array(residuals, dtype=np.float64)
        smallest = np.maximum(smallest, self._left)
        self._own: Floats = self.means.reshape(shape)
        if problem.measured is None:
            self._stds = np.broadcast_to(smallest[:, 0], problem.shape)
        else:
            variances = np.square(smallest)[..., np.newaxis] * np.eye(smallest.shape[1])
            self._covariances = np.broadcast_to(variances, (len(problem.arms), *variances.shape))
            self._stds = self._stds_of_objective
        # The part of the standard deviation that predictions explain.
        self._explained: Floats = np.sqrt((smallest - self._left) * (smallest + self._left))
        known = np.full(smallest.shape, np.nan)
        means_of = [own.means_of(problem.groups) for own in problem.predictions.values()]
        known[:, places] = np.array(means_of).T
        self._centres: Floats = np.where(np.isnan(known), self._own.mean(axis=0), known)
        self._off: Floats = np.zeros(smallest.shape[1])

    @property
    def predicted_variances(self) -> PredictedVariances:
        """What predictions explain; their slope is 1."""
        places = _places(self.problem)
        spread = np.square(self._explained[:, places])
        left = self.cell_covariances.copy()
        left[:, :, places, places] -= spread
        return PredictedVariances(places, left, _by_group(self.problem, spread))

    def begin(self, generator: np.random.Generator) -> GaussianPredictedEnvironment:
        """Return a copy, which remembers the unit that has come."""
        return copy(self)

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return group and prediction of the next unit."""
        groups = self.problem.groups
        group = int(generator.choice(len(groups), p=self._arriving))
        self._off = self._explained[group] * generator.standard_normal(self._off.size)
        known = (self._centres[group] + self._off).tolist()
        return {"group": groups[group], "prediction": _named(self.problem, known)}

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        """Return the outcome of the unit that has come, with the arm of the pull."""
        arm, group = divmod(pull.action, self.problem.shape[1])
        left = self._left[group] * generator.standard_normal(self._off.size)
        drawn, measured = self._own[arm, group] + self._off + left, self.problem.measured
        return float(drawn[0]) if measured is None else measured.as_row(drawn)

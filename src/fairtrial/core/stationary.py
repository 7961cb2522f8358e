"""Environments in which every action has its own distribution of rewards."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.draw_kernels import BERNOULLI, GAUSSIAN, REPLAY
from fairtrial.core.draws import Source
from fairtrial.core.environment import Environment
from fairtrial.core.problem import Problem
from fairtrial.core.pull import Pull
from fairtrial.errors import NotSupported

__all__ = ["StationaryEnvironment", "require_binary"]


class StationaryEnvironment(Environment):
    """An environment whose actions each have one fixed distribution, independent of the past."""

    @property
    @abstractmethod
    def source(self) -> Any:
        """The environment in the form that kernels read: a `Source`, or a `VectorSource`."""

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        """Return one reward of the pull's action."""
        source: Source = self.source
        return source.draw(pull.action, generator)

    @property
    def action_values(self) -> NDArray[np.float64]:
        """The mean of the objective, by action."""
        return np.ravel(self.truth.means)

    def value_of(self, outcome: Any) -> float:
        """Return the objective's value in an outcome."""
        return float(outcome)

    def stds_of_measures(self, action: int) -> NDArray[np.float64]:
        """Return the standard deviation of every measure of an action, if there are several."""
        raise NotSupported(f"{type(self).__name__} has no measures")

    def shares_above(self, sign: float) -> NDArray[np.float64]:
        """Return the share of the results of each action that are better than their mean.

        Parameters
        ----------
        sign : float
            1 if large results are better, -1 if small ones are.
        """
        source, means = self.source, self.action_values
        if source.kind == BERNOULLI:
            return means if sign > 0.0 else 1.0 - means
        if source.kind != REPLAY or source.second.any():
            return np.full(means.size, 0.5)
        rows = np.split(source.first, source.starts[1:-1])
        better = (sign * own > sign * mean for own, mean in zip(rows, means, strict=True))
        return np.array([own.mean() for own in better])

    @property
    def reward_span(self) -> tuple[float, float]:
        """The smallest and largest reward that this environment can give; may be infinite."""
        source = self.source
        if source.kind == GAUSSIAN or (source.kind == REPLAY and source.second.any()):
            return -np.inf, np.inf
        if source.kind == REPLAY:
            return float(source.first.min()), float(source.first.max())
        return 0.0, 1.0


def require_binary(problem: Problem) -> None:
    """Raise if the problem does not accept both 0 and 1."""
    for reward in (0.0, 1.0):
        problem.check_outcome(reward, "reward_range: a reward of this environment")

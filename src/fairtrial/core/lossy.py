"""An environment in which results get lost, at random or depending on their values."""

from __future__ import annotations

import numpy as np

from fairtrial.core.disturbed import DisturbedEnvironment
from fairtrial.core.environment import Trajectory
from fairtrial.core.pull import Pull
from fairtrial.core.stationary import StationaryEnvironment
from fairtrial.core.validation import check_flag, check_instance, check_number
from fairtrial.errors import InvalidArgument

__all__ = ["LossyEnvironment"]


class LossyEnvironment(DisturbedEnvironment):
    """An environment in which some results never come: patients drop out, samples break.

    Parameters
    ----------
    environment : GaussianEnvironment, BernoulliEnvironment or ReplayEnvironment
        The environment that answers the pulls, from the family `subpopulations` or `linear`.
    rate : float
        The share of the results that get lost, in [0, 1).
    depends_on_outcome : bool
        If True, only results that are better than the mean of their arm and group get lost (with
        measures: results whose objective is better). If False, any result can get lost.

    Raises
    ------
    InvalidArgument
        If the share of results that are better than the mean is smaller than `rate`.

    Notes
    -----
    Its runs are not compiled, and take ten times as long.

    Examples
    --------
    >>> from fairtrial.subpopulations import BernoulliEnvironment, Problem
    >>> problem = Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    >>> environment = BernoulliEnvironment(problem, [[0.4], [0.5]])
    >>> LossyEnvironment(environment, rate=0.1).truth.best
    'b'
    """

    environment: StationaryEnvironment

    def __init__(
        self, environment: StationaryEnvironment, rate: float, depends_on_outcome: bool = False
    ) -> None:
        super().__init__(check_instance("environment", environment, StationaryEnvironment))
        self.rate = check_number("rate", rate, low=0.0, high=1.0)
        self.depends_on_outcome = check_flag("depends_on_outcome", depends_on_outcome)
        self._means = environment.action_values
        self._chances = np.full(self._means.size, self.rate)
        if self.depends_on_outcome:
            shares = environment.shares_above(-1.0 if self._minimizes else 1.0)
            # If no result is better than the mean, none gets lost, and `rate` cannot be reached.
            self._chances = self.rate / np.maximum(shares, np.finfo(float).tiny)
        if self.rate == 1.0 or (self._chances > 1.0).any():
            accepted = "must be below 1, and at most the share of the results that can get lost"
            raise InvalidArgument("rate", accepted, rate)

    @property
    def _minimizes(self) -> bool:
        return self.problem.direction == "minimize"

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        """Return a result, or its loss."""
        outcome, chance = self.sample(pull, generator), generator.random()
        value, mean = self.environment.value_of(outcome), self._means[pull.action]
        above = value < mean if self._minimizes else value > mean
        exposed = above or not self.depends_on_outcome
        is_lost = exposed and chance < self._chances[pull.action]
        return Trajectory(None if is_lost else outcome)

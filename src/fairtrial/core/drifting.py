"""An environment whose means all move during an experiment: a season, a new kind of patient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairtrial.core.disturbed import DisturbedEnvironment
from fairtrial.core.environment import Environment, Trajectory
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.core.pull import Pull
from fairtrial.core.stationary import StationaryEnvironment
from fairtrial.core.validation import check_number
from fairtrial.errors import InvalidArgument

__all__ = ["DriftingEnvironment"]


class DriftingEnvironment(DisturbedEnvironment):
    """An environment in which all means move together, from pull to pull.

    With a known noise every result of pull number n is larger by n times `drift`. With a reward
    range, the same number divided by the width of the range is a share of the results, and that
    share is replaced by the upper end of the range (the lower end if `drift` is negative). So
    better arms stay better, and no result leaves the range.

    With measures, `drift` is in units of the noise of the objective, or of the width of its range:
    each measure moves by that part of its own noise or width.

    Parameters
    ----------
    environment : GaussianEnvironment, BernoulliEnvironment, ReplayEnvironment or LossyEnvironment
        The environment that answers the pulls, from the family `subpopulations` or `linear`.
    drift : float
        The most by which the means move from one pull to the next; not 0.

    Raises
    ------
    InvalidArgument
        If the environment has another type, or `drift` is 0.

    Notes
    -----
    Its runs are not compiled, and take ten times as long.

    Examples
    --------
    >>> from fairtrial.subpopulations import GaussianEnvironment, Problem
    >>> problem = Problem(["a", "b"], 1, floors=None, noise_std=0.1)
    >>> environment = DriftingEnvironment(GaussianEnvironment(problem, [[0.4], [0.5]]), drift=0.01)
    >>> late = Pull(1_000, 0, problem.labels(0))
    >>> 9 < environment.sample(late, np.random.default_rng(1)) < 12
    True
    """

    environment: StationaryEnvironment | LossyEnvironment

    def __init__(self, environment: Environment, drift: float) -> None:
        if not isinstance(environment, StationaryEnvironment | LossyEnvironment):
            accepted = "must be an environment of subpopulations or linear, with known means"
            raise InvalidArgument("environment", accepted, environment)
        super().__init__(environment)
        self.drift = check_number("drift", drift)
        if self.drift == 0.0:
            raise InvalidArgument("drift", "must not be 0", drift)

    @property
    def _base(self) -> StationaryEnvironment:
        own = self.environment
        return own.environment if isinstance(own, LossyEnvironment) else own

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        """Return a result as it is at the time of the pull, whether it gets lost or not."""
        return self._moved(pull, super().sample(pull, generator), generator)

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        """Return a result as it is at the time of the pull, or its loss."""
        path = self.environment.trajectory(pull, generator)
        if path.outcome is None:
            return path
        return replace(path, outcome=self._moved(pull, path.outcome, generator))

    def _moved(self, pull: Pull, outcome: Any, generator: np.random.Generator) -> Any:
        distance = self.drift * max(pull.number, 0)
        if self.problem.measured is not None:
            return self._moved_measures(pull, outcome, distance, generator)
        ends: tuple[float, float] | None = self.problem.reward_range
        if ends is None:
            return outcome + distance
        is_end = generator.random() * (ends[1] - ends[0]) < abs(distance)
        return ends[int(distance > 0.0)] if is_end else outcome

    def _moved_measures(
        self, pull: Pull, outcome: Any, distance: float, generator: np.random.Generator
    ) -> Any:
        """Return the values by name, all moved together; a missing value stays missing."""
        ranges = self.problem.measured.ranges if self.problem.measured else None
        if ranges is None:
            names, stds = self.problem.measures, self._base.stds_of_measures(pull.action)
            steps = dict(zip(names, (distance * stds).tolist(), strict=True))
            return {n: None if y is None else y + steps[n] for n, y in outcome.items()}
        if generator.random() >= abs(distance):
            return outcome
        ends = {n: own[int(distance > 0.0)] for n, own in zip(outcome, ranges, strict=True)}
        return {n: None if y is None else ends[n] for n, y in outcome.items()}

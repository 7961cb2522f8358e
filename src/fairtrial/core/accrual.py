"""Pulls that are made at a steady rate, and whose results come after a fixed time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairtrial.core.disturbed import DisturbedEnvironment
from fairtrial.core.environment import Environment, Trajectory
from fairtrial.core.pull import Pull

__all__ = ["SteadyAccrual", "in_flight_at_most"]


def in_flight_at_most(pulls_per_day: float, delay_days: float) -> int:
    """Return how many pulls are in flight while pulls go on at that rate.

    Examples
    --------
    >>> in_flight_at_most(3, 28), in_flight_at_most(3, 0.1)
    (84, 1)
    """
    return max(1, math.ceil(pulls_per_day * delay_days - 1e-9))


class SteadyAccrual(DisturbedEnvironment):
    """An environment in which pull i is made on day ``i / pulls_per_day``, counted from zero.

    Its result, or the news that there is none, comes when as many further pulls have been made as
    `in_flight` says. Runs in it need ``parallel=in_flight``, and their time is in days.

    Parameters
    ----------
    environment : Environment
        The environment that answers the pulls at once.
    pulls_per_day : float
        The rate.
    delay_days : float
        Days from a pull to its result; rounded up to a whole number of pulls.
    """

    def __init__(self, environment: Environment, pulls_per_day: float, delay_days: float) -> None:
        super().__init__(environment)
        self.pulls_per_day = pulls_per_day
        self.delay_days = delay_days
        self.in_flight = in_flight_at_most(pulls_per_day, delay_days)
        self.keeps_assumptions = environment.keeps_assumptions

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        """Return the other environment's answer, late."""
        # A run starts the first pulls together, because nothing is known before the first result.
        early = min(pull.number, self.in_flight) if pull.number < self.in_flight else 0
        delay = (self.in_flight + early) / self.pulls_per_day
        return replace(self.environment.trajectory(pull, generator), delay=delay)

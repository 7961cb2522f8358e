"""Environments in which every action has its own distribution of rewards."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from fairtrial.core.draw_kernels import GAUSSIAN, REPLAY
from fairtrial.core.draws import Source
from fairtrial.core.environment import Environment
from fairtrial.core.problem import Problem
from fairtrial.core.pull import Pull

__all__ = ["StationaryEnvironment", "require_binary"]


class StationaryEnvironment(Environment):
    """An environment in which every action has its own distribution, whatever happened before."""

    @property
    @abstractmethod
    def source(self) -> Source:
        """The environment as the kernels see it."""

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        """Return one reward of the pull's action."""
        return self.source.draw(pull.action, generator)

    @property
    def reward_span(self) -> tuple[float, float]:
        """The smallest and the largest reward that this environment can give; may be infinite."""
        source = self.source
        if source.kind == GAUSSIAN or (source.kind == REPLAY and source.second.any()):
            return -np.inf, np.inf
        if source.kind == REPLAY:
            return float(source.first.min()), float(source.first.max())
        return 0.0, 1.0


def require_binary(problem: Problem) -> None:
    """Raise if the problem refuses a 0 or a 1."""
    for reward in (0.0, 1.0):
        problem.check_outcome(reward, "reward_range: a reward of this environment")

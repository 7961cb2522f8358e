"""An environment that answers like another one, with one disturbance."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from fairtrial.core.environment import Environment, Truth
from fairtrial.core.pull import Pull

__all__ = ["DisturbedEnvironment"]


class DisturbedEnvironment(Environment):
    """Base of environments that disturb the results of another one.

    Parameters
    ----------
    environment : Environment
        The environment that answers the pulls.
    """

    keeps_assumptions = False

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.problem = environment.problem

    @property
    def truth(self) -> Truth:
        """Means and right answer without the disturbance."""
        return self.environment.truth

    @property
    def about(self) -> str | None:
        """What a reader must know about the results."""
        return self.environment.about

    def begin(self, generator: np.random.Generator) -> DisturbedEnvironment:
        """Return the environment of one run, which shares no memory with others."""
        found = copy(self)
        found.environment = self.environment.begin(generator)
        return found

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return the context that the other environment gives before a pull."""
        return self.environment.context(generator)

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        """Return a result without the disturbance."""
        return self.environment.sample(pull, generator)

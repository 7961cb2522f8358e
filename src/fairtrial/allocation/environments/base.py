"""Base class of the environments: rewards of pulls, and the best possible value to compare with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.allocation.fair_schedules import fair_value
from fairtrial.allocation.problem import Problem
from fairtrial.core.draws import Source
from fairtrial.core.environment import Environment, Truth
from fairtrial.core.records import Words
from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument

__all__ = [
    "AllocationEnvironment",
    "Extra",
    "Floats",
    "Integers",
    "one_for_each",
    "probabilities",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Extra = Callable[[Integers], dict[str, float]]


class AllocationEnvironment(Environment):
    """Base class of environments: rewards of pulls, and the best possible value to compare with."""

    problem: Problem

    @property
    @abstractmethod
    def source(self) -> Source:
        """The environment as the kernels see it."""

    @property
    @abstractmethod
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (k,)."""

    @property
    def is_sleeping(self) -> bool:
        """Whether arms sleep."""
        return False

    @property
    def contexts(self) -> int:
        """Number of contexts of which one is announced before a pull; 0 without contexts."""
        return 0

    @abstractmethod
    def run(self, words: Words, contexts: int, generator: np.random.Generator, pulls: int) -> Extra:
        """Run a policy's state for N pulls; return a function from pulls by arm to metrics."""

    @property
    def truth(self) -> Truth:
        """The best arm, its ties, the means, and the gaps.

        `details` has ``gaps`` and ``fair_value``: the mean reward per round of the best schedule
        that keeps the shares exactly.
        """
        means = self.arm_means
        best = means.max()
        ties = tuple(
            arm for arm, mean in zip(self.problem.arms, means, strict=True) if mean == best
        )
        return Truth(
            best=ties[0],
            acceptable=ties,
            means=means,
            details={"gaps": best - means, "fair_value": self.fair_value},
        )

    @cached_property
    def fair_value(self) -> float:
        """Mean reward per round of the best schedule that keeps the shares exactly."""
        return fair_value(self.problem, self.arm_means)

    def _scale(self) -> tuple[float, float]:
        low, high = self.problem.reward_range
        return low, high - low


def probabilities(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Floats:
    """Return an array of numbers in [0, 1]."""
    found = check_array(name, value, shape)
    if (found < 0).any() or (found > 1).any():
        raise InvalidArgument(name, "must be numbers in [0, 1]", value)
    return found


def one_for_each(name: str, value: ArrayLike, problem: Problem) -> Floats:
    """Return a number for every arm, given one number for all arms or one for each."""
    arms = len(problem.arms)
    try:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (arms,)).copy()
    except (TypeError, ValueError):
        accepted = f"must be a number, or {arms} numbers, one for each arm"
        raise InvalidArgument(name, accepted, value) from None

"""Base class of environments in which a pull takes time, and their truth."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.complexity import EvidencePrice
from fairtrial.core.environment import Environment, Reading, TopTruth, Trajectory
from fairtrial.core.pull import Pull
from fairtrial.delayed._kernels.environments import (
    ARM,
    DELAY,
    INDEX,
    LOST,
    ROW,
    SLOT_COLUMNS,
    CompiledEnvironment,
    begin_pull,
    follow_pull,
)
from fairtrial.delayed.problem import Problem

__all__ = ["TimedEnvironment", "draw_key"]

Floats = NDArray[np.float64]


class TimedEnvironment(Environment):
    """An environment whose m-th pull of an arm is the same for every policy and at any time.

    A run draws a key from its generator; everything else follows from the key, the arm and m. So
    two policies that run with the same seed see the same outcomes.
    """

    problem: Problem
    _packed: Any = None
    _started: defaultdict[int, int]

    @property
    @abstractmethod
    def arm_means(self) -> Floats:
        """Mean outcome by arm, shape (n,)."""

    @abstractmethod
    def begin_compiled(self, key: NDArray[np.int64]) -> CompiledEnvironment:
        """Return the environment of one run as the kernels see it."""

    @property
    @abstractmethod
    def arm_stds(self) -> Floats:
        """Standard deviation of an outcome by arm, shape (n,)."""

    @property
    def reward_span(self) -> tuple[float, float]:
        """The smallest and the largest possible outcome, which can be infinite."""
        return -np.inf, np.inf

    def evidence_price(self, weights: Floats) -> EvidencePrice:
        """Return the price of a unit of evidence for the closest pair of a best and another arm.

        The optimal shares `weights` are ignored in this family.
        """
        problem, means = self.problem, self.problem.sign * self.arm_means
        order = np.argsort(-means, kind="stable")
        inside, outside = np.split(order, [problem.top])
        gaps = means[inside][:, None] - means[outside] + problem.tolerance
        variances = 0.5 * (self.arm_stds[inside][:, None] ** 2 + self.arm_stds[outside] ** 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            reaches = np.where(gaps > 0.0, 2.0 / gaps, np.inf)
            prices = np.where(gaps > 0.0, 2.0 * variances * reaches**2, np.inf)
        return EvidencePrice(float(prices.max(initial=0.0)), float(reaches.max(initial=0.0)))

    @property
    def compiled(self) -> bool:
        """Whether compiled code can run this environment."""
        return True

    def stage(
        self, key: NDArray[np.int64], places: int
    ) -> tuple[CompiledEnvironment, Floats, NDArray[np.int64]]:
        """Return one run's environment, slots for `places` pulls in flight, and a heap."""
        slots = np.zeros((places, SLOT_COLUMNS))
        slots[:, ROW] = -1.0
        return self.begin_compiled(key), slots, np.zeros(places, dtype=np.int64)

    def begin(self, generator: np.random.Generator) -> Self:
        """Return the environment of one run, with its own key."""
        fresh = copy(self)
        state = {"_packed": self.begin_compiled(draw_key(generator)), "_started": defaultdict(int)}
        vars(fresh).update(state)
        return fresh

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        """Return the outcome of the next pull of an arm; NaN if it is lost."""
        outcome = self.trajectory(pull, generator).outcome
        return float(outcome) if isinstance(outcome, float) else float("nan")

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        """Return outcome, delay and readings of the next pull of an arm."""
        if self._packed is None:
            return self.begin(generator).trajectory(pull, generator)
        index = self._started[pull.action]
        self._started[pull.action] += 1
        return self._follow(pull.action, index)

    def _follow(self, arm: int, index: int) -> Trajectory:
        """Return everything that happens to an arm's pull with this index."""
        slot, environment = np.zeros(SLOT_COLUMNS), self._packed
        slot[ARM], slot[INDEX] = arm, index
        begin_pull(*environment, slot)
        self._set_delay(slot, arm)
        before = slot.copy()
        readings = np.empty((64, 3))
        while True:
            number, outcome = follow_pull(*environment, slot, readings)
            if number <= len(readings):
                break
            slot, readings = before.copy(), np.empty((number, 3))
        return Trajectory(
            outcome=None if slot[LOST] else outcome,
            delay=float(slot[DELAY]),
            readings=tuple(
                Reading(elapsed, value, _details(stage, elapsed, std))
                for stage, (elapsed, value, std) in enumerate(readings[:number].tolist(), start=1)
            ),
        )

    def _set_delay(self, slot: Floats, arm: int) -> None:
        """Set the delay in the slot if the caller gave a function."""

    @cached_property
    def truth(self) -> TopTruth:
        """Means, the best arms, and all arms that an answer may contain."""
        problem, means = self.problem, self.problem.sign * self.arm_means
        order = np.argsort(-means, kind="stable")[: problem.top]
        cut = means[order[-1]] - problem.tolerance
        best = tuple(problem.arms[arm] for arm in order)
        good = tuple(
            arm for arm, mean in zip(problem.arms, means.tolist(), strict=True) if mean >= cut
        )
        return TopTruth(
            best=best,
            acceptable=(best,),
            means=self.arm_means,
            tied=problem.tolerance == 0.0 and len(good) > problem.top,
            good=good,
        )


def _details(stage: int, elapsed: float, std: float) -> dict[str, float]:
    known = {"stage": stage, "elapsed": elapsed}
    return known if std < 0.0 else {**known, "std": std}


def draw_key(generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the key of one run's environment."""
    return generator.integers(2**63, size=2)

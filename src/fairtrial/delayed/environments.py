"""Simulated environments; the base class is in `timed`, recorded environments in `curves`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.validation import check_array, check_choice, check_instance, check_number
from fairtrial.delayed._kernels.environments import (
    CALLER,
    CHANCE,
    DELAY,
    OUTCOME,
    CompiledEnvironment,
)
from fairtrial.delayed._timed import TimedEnvironment, draw_key
from fairtrial.delayed.curves import CurveEnvironment
from fairtrial.delayed.delays import ConstantDelay, Delay, PackedDelay
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import InvalidArgument

__all__ = [
    "CurveEnvironment",
    "SimulatedEnvironment",
    "TimedEnvironment",
    "draw_key",
]

Floats = NDArray[np.float64]


class SimulatedEnvironment(TimedEnvironment):
    """Simulate normal outcomes that arrive late, with the readings that the problem describes.

    Readings arrive at the times `every`, 2 `every`, ... before the outcome.

    Parameters
    ----------
    problem : Problem
        The problem.
    means : array-like of shape (n,)
        Mean outcomes.
    delay : float, array-like of shape (n,), Delay, or callable
        Delay of a pull; by default 1, or the problem's `duration`. A callable receives the arm's
        label, the outcome, and a uniform random number in (0, 1].
    bias : float or array-like of shape (n,), optional
        Mean error of readings, for ``feedback="biased"``.
    std : float or array-like of shape (n,), optional
        Standard deviation of an outcome, at least 0; by default that of the problem.
    reading_std : float or array-like of shape (n,), optional
        Standard deviation of a reading, at least 0; by default that of the problem. For
        ``refining`` it shrinks to 0 during the pull, in proportion to the `shrink`-th power of the
        time left.
    every : float
        Time between readings.
    loss : float
        Probability that a pull is lost, at the time of its outcome but independently of it.
    errors : {"nested", "redrawn"}
        For ``refining``: whether an earlier error contains the later one, or each error is new.
    shrink : float
        For ``refining``: how fast errors shrink; 0 keeps their size.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], top=2, noise_std=1.0)
    >>> SimulatedEnvironment(problem, [0.0, 1.0, 2.0], delay=10.0).truth.best
    ('c', 'b')
    """

    def __init__(
        self,
        problem: Problem,
        means: ArrayLike,
        delay: Any = None,
        bias: ArrayLike | None = None,
        std: ArrayLike | None = None,
        reading_std: ArrayLike | None = None,
        every: float = 1.0,
        loss: float = 0.0,
        errors: str = "nested",
        shrink: float = 0.5,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        arms = len(problem.arms)
        self.means = check_array("means", means, (arms,))
        self.delay = delay
        self.bias = None if bias is None else self._per_arm("bias", bias)
        self.std = None if std is None else self._at_least_0("std", std)
        self.reading_std = (
            None if reading_std is None else self._at_least_0("reading_std", reading_std)
        )
        self.every = check_number("every", every, low=0.0, open_low=True)
        self.loss = check_number("loss", loss, low=0.0, high=1.0)
        self.errors = check_choice("errors", errors, ["nested", "redrawn"])
        self.shrink = check_number("shrink", shrink, low=0.0)
        self._check_feedback()
        self._delay = self._packed_delay()

    def _per_arm(self, name: str, value: ArrayLike) -> Floats:
        arms = len(self.problem.arms)
        try:
            return check_array(name, np.broadcast_to(np.asarray(value, float), (arms,)), (arms,))
        except (TypeError, ValueError):
            raise InvalidArgument(name, f"must be a number, or {arms} of them", value) from None

    def _at_least_0(self, name: str, value: ArrayLike) -> Floats:
        given = self._per_arm(name, value)
        if (given < 0.0).any():
            raise InvalidArgument(name, "must be at least 0", value)
        return given

    def _check_feedback(self) -> None:
        problem = self.problem
        if self.bias is not None and problem.feedback != "biased":
            raise InvalidArgument("bias", "must be left out unless feedback='biased'", self.bias)
        if problem.estimates_noise and self.std is None:
            raise InvalidArgument("std", "must be given: the problem does not know it", None)
        if problem.reward_range is not None:
            raise InvalidArgument(
                "problem", "must give noise_std: normal outcomes have no range", problem
            )
        if problem.feedback == "refining" and self.reading_std is problem.reading_std is None:
            raise InvalidArgument("reading_std", "must be given here or in the problem", None)
        if problem.feedback == "incremental":
            self._check_pieces()

    def _check_pieces(self) -> None:
        duration = self.problem.duration
        if duration is None or (duration % 1.0 != 0.0).any():
            raise InvalidArgument(
                "problem", "must have a duration in whole numbers to simulate pieces", self.problem
            )
        if self.delay is not None or self.every != 1.0:
            raise InvalidArgument(
                "delay, every",
                "must be left out for feedback='incremental': pieces come at 1, 2, ..., duration",
                (self.delay, self.every),
            )

    def _packed_delay(self) -> PackedDelay:
        delay: Any = self.delay
        if self.problem.feedback == "incremental":
            delay = self.problem.duration
        if delay is None:
            delay = 1.0
        if isinstance(delay, Delay):
            return delay.pack(len(self.problem.arms))
        if callable(delay):
            nothing = np.zeros(len(self.problem.arms))
            return PackedDelay(CALLER, nothing, nothing, np.zeros(1))
        try:
            return ConstantDelay(delay).pack(len(self.problem.arms))
        except InvalidArgument as error:
            raise InvalidArgument(
                "delay", f"{error.accepted}, a Delay, or a function", delay
            ) from None

    @property
    def compiled(self) -> bool:
        """Whether compiled code can run this environment: not if the delay is a callable."""
        return isinstance(self.delay, Delay) or not callable(self.delay)

    def _set_delay(self, slot: Floats, arm: int) -> None:
        if self.compiled:
            return
        own: Callable[[str, float, float], float] = self.delay
        time = own(self.problem.arms[arm], float(slot[OUTCOME]), float(slot[CHANCE]))
        slot[DELAY] = check_number("delay(...)", time, low=0.0, open_low=True)

    @property
    def arm_means(self) -> Floats:
        """Mean outcome by arm, shape (n,)."""
        return self.means

    @property
    def arm_stds(self) -> Floats:
        """Standard deviation of an outcome by arm, shape (n,)."""
        return self.problem.scale if self.std is None else self.std

    def begin_compiled(self, key: NDArray[np.int64]) -> CompiledEnvironment:
        """Return the environment of one run as the kernels see it."""
        problem, zeros = self.problem, np.zeros(len(self.problem.arms))
        reading_std = problem.reading_std if self.reading_std is None else self.reading_std
        arms = np.stack(
            [
                self.means,
                problem.scale if self.std is None else self.std,
                zeros if reading_std is None else reading_std,
                zeros if self.bias is None else self.bias,
                self._delay.first,
                self._delay.second,
            ]
        )
        settings = np.array(
            [
                self._delay.kind,
                FEEDBACKS.index(problem.feedback),
                self.every,
                self.loss,
                self.errors == "nested",
                self.shrink,
            ]
        )
        nowhere = np.zeros(1, dtype=np.int64)
        return CompiledEnvironment(
            settings, arms, self._delay.sample, nowhere, key, np.zeros(4, np.uint64)
        )

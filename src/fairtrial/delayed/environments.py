"""Worlds in which a pull takes time: simulated, or replayed from recorded curves."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.environment import Environment, Reading, Trajectory, Truth
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_array, check_choice, check_number
from fairtrial.delayed.delays import ConstantDelay, Delay, PackedDelay
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import InvalidArgument, InvalidOutcome

if TYPE_CHECKING:
    from fairtrial.delayed._kernels.worlds import World

__all__ = ["CurveEnvironment", "SimulatedEnvironment", "TopTruth"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TopTruth(Truth):
    """The truth of a top-k problem: any set of arms within the tolerance is right.

    Parameters
    ----------
    good : tuple of str
        Arms that an answer may hold.
    top : int
        How many it must hold.
    """

    good: tuple[str, ...] = ()
    top: int = 1

    def accepts(self, answer: Any) -> bool:
        """Return whether the answer holds `top` different good arms, in any order."""
        if not isinstance(answer, tuple | list):
            return False
        return len(set(answer)) == len(answer) == self.top and set(answer) <= set(self.good)


class TimedEnvironment(Environment):
    """A world in which the m-th pull of an arm is the same whoever asks for it, and when.

    One run draws a key from its generator; everything else follows from the key, the arm,
    and m. So two policies that run with the same seed see the same outcomes.
    """

    problem: Problem
    _packed: Any = None
    _started: defaultdict[int, int]

    @property
    @abstractmethod
    def arm_means(self) -> Floats:
        """Mean outcome by arm, shape (n,)."""

    @abstractmethod
    def world(self, key: NDArray[np.int64]) -> World:
        """Return the world of one run as the kernels see it."""

    @property
    def compiled(self) -> bool:
        """Whether compiled code can run this world."""
        return True

    def begin(self, generator: np.random.Generator) -> Self:
        """Return the world of one run, with a key of its own."""
        fresh = copy(self)
        state = {"_packed": self.world(draw_key(generator)), "_started": defaultdict(int)}
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
        """Return all that happens to the pull of that index of an arm."""
        from fairtrial.delayed._kernels.worlds import (
            DELAY,
            LOST,
            SLOT_COLUMNS,
            begin_pull,
            follow_pull,
        )

        slot, world = np.zeros(SLOT_COLUMNS), self._packed
        begin: Any = (*world, slot, arm, index)
        begin_pull(*begin)
        self._set_delay(slot, arm)
        before = slot.copy()
        readings = np.empty((64, 3))
        while True:
            path: Any = (*world, slot, readings)
            number, outcome = follow_pull(*path)
            if number <= len(readings):
                break
            slot, readings = before.copy(), np.empty((number, 3))
        return Trajectory(
            outcome=None if slot[LOST] else outcome,
            delay=float(slot[DELAY]),
            readings=tuple(
                Reading(
                    elapsed, value, {"stage": stage} if std < 0 else {"stage": stage, "sd": std}
                )
                for stage, (elapsed, value, std) in enumerate(readings[:number].tolist(), start=1)
            ),
        )

    def _set_delay(self, slot: Floats, arm: int) -> None:
        """Let a delay that is a function of the caller's take its place."""

    @cached_property
    def truth(self) -> TopTruth:
        """Means, the best arms, and all that an answer may hold."""
        problem, means = self.problem, self.problem.sign * self.arm_means
        order = np.argsort(-means, kind="stable")[: problem.top]
        cut = means[order[-1]] - problem.tolerance
        best = tuple(problem.arms[arm] for arm in order)
        return TopTruth(
            best=best,
            acceptable=(best,),
            means=self.arm_means,
            good=tuple(
                arm for arm, mean in zip(problem.arms, means.tolist(), strict=True) if mean >= cut
            ),
            top=problem.top,
        )


class SimulatedEnvironment(TimedEnvironment):
    """Normal outcomes that come late, with the readings that the problem describes.

    Readings come at the times `every`, 2 `every`, ... before the outcome.

    Parameters
    ----------
    problem : Problem
        The problem.
    means : array-like of shape (n,)
        Mean outcomes.
    delay : float, array-like of shape (n,), Delay, or callable
        How long a pull takes; by default 1, or the problem's `duration`. A callable gets
        the arm's label, the outcome, and a number uniform in (0, 1].
    bias : float or array-like of shape (n,), optional
        Mean error of the readings, for ``feedback="biased"``.
    std : float or array-like of shape (n,), optional
        Standard deviation of an outcome, at least 0; the problem's by default.
    report_std : float or array-like of shape (n,), optional
        Standard deviation of a reading, at least 0; the problem's by default. For
        ``refining`` it shrinks to 0 on the way: as the `shrink`-th power of the time left.
    every : float
        Time between readings.
    loss : float
        Probability that a pull is lost, at the time of its outcome and unrelated to it.
    errors : {"nested", "redrawn"}
        For ``refining``: whether an earlier error holds the later one, or each is new.
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
        report_std: ArrayLike | None = None,
        every: float = 1.0,
        loss: float = 0.0,
        errors: str = "nested",
        shrink: float = 0.5,
    ) -> None:
        self.problem = _check_problem(problem)
        arms = len(problem.arms)
        self.means = check_array("means", means, (arms,))
        self.delay = delay
        self.bias = None if bias is None else self._per_arm("bias", bias)
        self.std = None if std is None else self._at_least_0("std", std)
        self.report_std = None if report_std is None else self._at_least_0("report_std", report_std)
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
        if problem.reward_range is not None:
            raise InvalidArgument(
                "problem", "must give noise_std: normal outcomes have no range", problem
            )
        if problem.feedback == "refining" and self.report_std is problem.report_std is None:
            raise InvalidArgument("report_std", "must be given here or in the problem", None)
        if problem.feedback == "incremental":
            self._check_pieces()

    def _check_pieces(self) -> None:
        duration = self.problem.duration
        if duration is None or (duration % 1.0 != 0.0).any():
            raise InvalidArgument(
                "problem", "must give whole numbers as duration to simulate pieces", self.problem
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
            from fairtrial.delayed._kernels.worlds import CALLER

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
        """Whether compiled code can run this world: not with a delay of the caller's own."""
        return isinstance(self.delay, Delay) or not callable(self.delay)

    def _set_delay(self, slot: Floats, arm: int) -> None:
        from fairtrial.delayed._kernels.worlds import CHANCE, DELAY, OUTCOME

        if self.compiled:
            return
        own: Callable[[str, float, float], float] = self.delay
        time = own(self.problem.arms[arm], float(slot[OUTCOME]), float(slot[CHANCE]))
        slot[DELAY] = check_number("delay(...)", time, low=0.0, open_low=True)

    @property
    def arm_means(self) -> Floats:
        """Mean outcome by arm, shape (n,)."""
        return self.means

    def world(self, key: NDArray[np.int64]) -> World:
        """Return the world of one run as the kernels see it."""
        from fairtrial.delayed._kernels.worlds import World

        problem, zeros = self.problem, np.zeros(len(self.problem.arms))
        report_std = problem.report_std if self.report_std is None else self.report_std
        arms = np.stack(
            [
                self.means,
                problem.scale if self.std is None else self.std,
                zeros if report_std is None else report_std,
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
        return World(settings, arms, self._delay.sample, nowhere, key, np.zeros(4, np.uint64))


class CurveEnvironment(TimedEnvironment):
    """Recorded curves, drawn with replacement: learning curves, battery lives, solver bounds.

    The last point of a curve is its outcome; the points before it are readings. The truth is
    exactly the mean of an arm's outcomes.

    Parameters
    ----------
    problem : Problem
        The problem; every arm needs at least one curve.
    table : pandas.DataFrame or mapping of str to sequence
        One row per point of a curve.
    arm, curve, elapsed, value, sd : str
        Names of the columns: the arm, the curve's name within its arm, the time since its
        start, the value, and its standard deviation about the outcome, if there is one.

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, a time is not positive or comes twice, or
        an arm has no curve.
    InvalidOutcome
        If an outcome is refused by the problem; the row is named.

    Examples
    --------
    >>> problem = Problem(["a", "b"], noise_std=1.0, feedback="refining", report_std=0.5)
    >>> rows = {"arm": ["a", "a", "b"], "curve": [1, 1, 1], "elapsed": [1, 2, 1],
    ...         "value": [0.3, 0.5, 0.9]}
    >>> CurveEnvironment(problem, rows).truth.means.tolist()
    [0.5, 0.9]
    """

    def __init__(
        self,
        problem: Problem,
        table: Any,
        arm: str = "arm",
        curve: str = "curve",
        elapsed: str = "elapsed",
        value: str = "value",
        sd: str | None = None,
    ) -> None:
        self.problem = _check_problem(problem)
        self.table = table
        self.arm, self.curve, self.elapsed, self.value, self.sd = arm, curve, elapsed, value, sd
        self._rows, self._starts, self._outcomes = self._pack(self._curves())

    def _curves(self) -> list[list[Floats]]:
        """Return the curves of every arm, each an array of (elapsed, value, sd)."""
        names = [self.arm, self.curve, self.elapsed, self.value]
        columns = [_column(self.table, name) for name in names]
        stds = [-1.0] * len(columns[0]) if self.sd is None else _column(self.table, self.sd)
        if len({len(column) for column in (*columns, stds)}) > 1:
            raise InvalidArgument("table", "must have columns of equal length")
        index = {label: position for position, label in enumerate(self.problem.arms)}
        found: list[dict[Any, list[tuple[float, float, float]]]] = [{} for _ in index]
        for row, (arm, curve, *point) in enumerate(zip(*columns, stds, strict=True)):
            if str(arm) not in index:
                raise InvalidArgument(f"table row {row}", f"must name an arm of {list(index)}", arm)
            clean = self._point(row, *point)
            found[index[str(arm)]].setdefault(curve, []).append(clean)
        return [
            [self._ordered(label, name, points) for name, points in curves.items()]
            for label, curves in zip(self.problem.arms, found, strict=True)
        ]

    def _point(self, row: int, elapsed: Any, value: Any, std: Any) -> tuple[float, float, float]:
        where = f"table row {row}"
        time = check_number(f"{where}: {self.elapsed}", elapsed, low=0.0, open_low=True)
        level = check_number(f"{where}: {self.value}", value)
        # A curve's last point needs no deviation: it is the outcome.
        given = self.sd is not None and std is not None and not np.isnan(std)
        own = check_number(f"{where}: {self.sd}", std, low=0.0) if given else -1.0
        return time, level, own

    def _ordered(self, arm: str, name: Any, points: list[tuple[float, float, float]]) -> Floats:
        rows = np.array(sorted(points))
        if (np.diff(rows[:, 0]) == 0.0).any():
            raise InvalidArgument(
                "table", f"must have each time of a curve once; curve {name!r} of {arm!r} does not"
            )
        try:
            rows[-1, 1] = self.problem.check_outcome(float(rows[-1, 1]))
        except InvalidOutcome as error:
            raise InvalidOutcome(
                f"table: the outcome of curve {name!r} of {arm!r}", error.accepted, rows[-1, 1]
            ) from None
        return rows

    def _pack(self, curves: Sequence[Sequence[Floats]]) -> tuple[Floats, NDArray[np.int64], Any]:
        for label, own in zip(self.problem.arms, curves, strict=True):
            if not own:
                raise InvalidArgument("table", f"must have a curve for every arm; none for {label}")
        every = [rows for own in curves for rows in own]
        first_curve = np.cumsum([0, *(len(own) for own in curves)])
        first_row = np.cumsum([0, *(len(rows) for rows in every)])
        starts = np.concatenate([first_curve, first_row]).astype(np.int64)
        outcomes = [np.array([rows[-1, 1] for rows in own]) for own in curves]
        return np.concatenate(every).ravel(), starts, outcomes

    @cached_property
    def arm_means(self) -> Floats:
        """Mean outcome by arm, shape (n,)."""
        return np.array([outcomes.mean() for outcomes in self._outcomes])

    @cached_property
    def arm_stds(self) -> Floats:
        """Standard deviation of the recorded outcomes by arm, shape (n,)."""
        return np.array([outcomes.std() for outcomes in self._outcomes])

    def world(self, key: NDArray[np.int64]) -> World:
        """Return the world of one run as the kernels see it."""
        from fairtrial.delayed._kernels.worlds import CURVES, World

        settings = np.zeros(6)
        settings[:2] = CURVES, FEEDBACKS.index(self.problem.feedback)
        arms, words = np.zeros((6, len(self.problem.arms))), np.zeros(4, np.uint64)
        return World(settings, arms, self._rows, self._starts, key, words)


def draw_key(generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the key of one run's world."""
    return generator.integers(2**63, size=2)


def _check_problem(problem: object) -> Problem:
    if not isinstance(problem, Problem):
        raise InvalidArgument("problem", "must be a delayed.Problem", problem)
    return problem


def _column(table: Mapping[str, Any] | Any, name: str) -> Sequence[Any]:
    try:
        column = table[name]
    except (KeyError, TypeError, IndexError):
        known = list(getattr(table, "columns", table if isinstance(table, Mapping) else []))
        raise InvalidArgument("table", f"must have the column {name!r}; it has {known}") from None
    return list(column)

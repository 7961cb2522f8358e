"""Replay recorded curves: learning curves, battery lives, solver bounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.frames import plain_data
from fairtrial.core.tables import column_of
from fairtrial.core.validation import check_instance, check_number
from fairtrial.core.wording import plural, said_of_rows
from fairtrial.delayed._kernels.environments import CURVES, CompiledEnvironment
from fairtrial.delayed._timed import TimedEnvironment
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["CurveEnvironment"]

Floats = NDArray[np.float64]


class CurveEnvironment(TimedEnvironment):
    """Draw recorded curves with replacement: learning curves, battery lives, solver bounds.

    The last point of a curve is its outcome; the points before it are readings. The truth is
    exactly the mean of an arm's outcomes. Runs only show what a policy does with these curves;
    `about` and a simulation's summary say so.

    Parameters
    ----------
    problem : Problem
        The problem; every arm needs at least one curve.
    table : data frame or mapping of str to sequence
        One row per point of a curve.
    arm, curve, elapsed, value, std : str
        Names of the columns: the arm, the curve's name within its arm, the time since its start,
        the value, and optionally the value's standard deviation about the outcome.

    Attributes
    ----------
    curves : list of list of ndarray of shape (points, 3)
        By arm and curve: elapsed, value, and standard deviation (-1 for none).

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, a time is not positive or occurs twice, or an
        arm has no curve.
    InvalidOutcome
        If the problem refuses an outcome; the message names the row.

    Examples
    --------
    >>> problem = Problem(["a", "b"], noise_std=1.0, feedback="refining", reading_std=0.5)
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
        std: str | None = None,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.table = plain_data(table)
        self.arm, self.curve, self.elapsed, self.value, self.std = arm, curve, elapsed, value, std
        self.curves = self._read_curves()
        self._rows, self._starts, self._outcomes = self._pack(self.curves)

    def _read_curves(self) -> list[list[Floats]]:
        """Return the curves of every arm, each an array of (elapsed, value, std)."""
        names = [self.arm, self.curve, self.elapsed, self.value]
        columns = [column_of(self.table, name) for name in names]
        stds = [-1.0] * len(columns[0]) if self.std is None else column_of(self.table, self.std)
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
        # A curve's last point needs no deviation, because it is the outcome.
        given = self.std is not None and std is not None and not np.isnan(std)
        own = check_number(f"{where}: {self.std}", std, low=0.0) if given else -1.0
        return time, level, own

    def _ordered(self, arm: str, name: Any, points: list[tuple[float, float, float]]) -> Floats:
        rows = np.array(sorted(points))
        if (np.diff(rows[:, 0]) == 0.0).any():
            raise InvalidArgument(
                "table", f"must have each time of a curve once; curve {name!r} of {arm!r} does not"
            )
        stated = rows[:-1, 2][rows[:-1, 2] >= 0.0]
        if self.problem.errors == "nested" and (np.diff(stated) > 0.0).any():
            raise InvalidArgument(
                "table",
                f"must have deviations that do not grow for errors='nested'; those of curve "
                f"{name!r} of {arm!r} do",
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

    @property
    def about(self) -> str:
        """A sentence that says that recorded curves are sampled repeatedly."""
        return said_of_rows(plural(sum(map(len, self.curves)), "curve"))

    @cached_property
    def arm_means(self) -> Floats:
        """Mean outcome by arm, shape (n,)."""
        return np.array([outcomes.mean() for outcomes in self._outcomes])

    @cached_property
    def arm_stds(self) -> Floats:
        """Standard deviation of the recorded outcomes by arm, shape (n,)."""
        return np.array([outcomes.std() for outcomes in self._outcomes])

    @property
    def reward_span(self) -> tuple[float, float]:
        """The smallest and the largest possible outcome."""
        outcomes = np.concatenate(self._outcomes)
        return float(outcomes.min()), float(outcomes.max())

    def begin_compiled(self, key: NDArray[np.int64]) -> CompiledEnvironment:
        """Return the environment of one run as the kernels see it."""
        settings = np.zeros(6)
        settings[:2] = CURVES, FEEDBACKS.index(self.problem.feedback)
        arms, words = np.zeros((6, len(self.problem.arms))), np.zeros(4, np.uint64)
        return CompiledEnvironment(settings, arms, self._rows, self._starts, key, words)

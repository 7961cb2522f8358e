"""All readings of every pull, to recognise repetitions and to put late readings in order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.delayed.errors import ConflictingReport
from fairtrial.errors import InvalidArgument

Floats = NDArray[np.float64]

_NO_STD = -1.0
_DETAILS = ("stage", "elapsed", "std")


def known_details(details: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return stage, time and deviation of a reading, None if not given; raise for other details."""
    for name, value in details.items():
        if name not in _DETAILS:
            message = f"must be one of {', '.join(_DETAILS)} for a reading"
            raise InvalidArgument(name, message, value)
    stage, elapsed, std = (details.get(name) for name in _DETAILS)
    return stage, elapsed, std


class Readings:
    """All readings by pull and stage: value, standard deviation (-1 for none), time."""

    def __init__(self) -> None:
        self._by_row: dict[int, dict[float, tuple[float, float, float]]] = {}
        # The newest stage of every pull; searching for it would take longer and longer.
        self._newest: dict[int, float] = {}
        self._least_std: dict[int, float] = {}

    def next_stage(self, row: int) -> float:
        """Return the stage of a reading that gives none: the one after the newest."""
        return math.floor(self._newest.get(row, 0.0)) + 1.0

    @property
    def number(self) -> int:
        """Number of readings."""
        return sum(map(len, self._by_row.values()))

    def count(self, row: int) -> int:
        """Return the number of readings of a pull."""
        return len(self._by_row.get(row, ()))

    def stds_around(self, row: int, stage: float) -> tuple[float, float]:
        """Return the smallest deviation stated before a stage, and the largest after it."""
        if self.is_newest(row, stage):
            return self._least_std.get(row, math.inf), 0.0
        stages = self._by_row.get(row, {})
        stated = [(at, reading[1]) for at, reading in stages.items() if reading[1] != _NO_STD]
        before = [std for at, std in stated if at < stage]
        after = [std for at, std in stated if at > stage]
        return min(before, default=math.inf), max(after, default=0.0)

    def has(self, row: int) -> bool:
        """Return whether a pull has any reading."""
        return row in self._by_row

    def is_newest(self, row: int, stage: float) -> bool:
        """Return whether the pull has no reading of this stage or a later one."""
        return stage > self._newest.get(row, -math.inf)

    def differs_from_newest(self, row: int, value: float, std: float) -> bool:
        """Return whether a pull's newest reading has the same deviation but another value."""
        if row not in self._newest:
            return False
        newest = self._by_row[row][self._newest[row]]
        return newest[1] == std and newest[0] != value

    def is_known(self, row: int, stage: float, value: float, std: float | None) -> bool:
        """Return whether the same reading was reported before.

        Raises
        ------
        ConflictingReport
            If this stage was reported before with another value.
        """
        known = self._by_row.get(row, {}).get(stage)
        if known is None:
            return False
        own = _NO_STD if std is None else std
        if known[:2] != (value, own):
            before, now = _described(*known[:2]), _described(value, own)
            raise ConflictingReport(
                f"stage {stage:g} of this pull was reported before as {before}; got {now}"
            )
        return True

    def add(
        self,
        row: int,
        stage: float,
        value: float,
        std: float | None,
        elapsed: float | None = None,
    ) -> None:
        """Store a reading; its stage is also its time if no time is given."""
        own = _NO_STD if std is None else std
        self._put(row, stage, (value, own, stage if elapsed is None else elapsed))

    def _put(self, row: int, stage: float, reading: tuple[float, float, float]) -> None:
        self._by_row.setdefault(row, {})[stage] = reading
        self._newest[row] = max(stage, self._newest.get(row, stage))
        if reading[1] != _NO_STD:
            self._least_std[row] = min(reading[1], self._least_std.get(row, math.inf))

    def in_order(self, row: int) -> Floats:
        """Return stage, value, std and time of all readings of a pull, ordered by stage."""
        return np.array([(stage, *self._by_row[row][stage]) for stage in sorted(self._by_row[row])])

    def to_array(self) -> NDArray[Any]:
        """Return all readings as rows of (pull, stage, value, std, time)."""
        rows = [
            (row, stage, *reading)
            for row, readings in self._by_row.items()
            for stage, reading in readings.items()
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 5)

    @classmethod
    def from_array(cls, rows: NDArray[Any]) -> Readings:
        """Return the readings from the output of `to_array`."""
        readings = cls()
        for row, stage, *reading in np.asarray(rows).tolist():
            value, std, time = reading
            readings._put(int(row), stage, (value, std, time))
        return readings


def _described(value: float, std: float) -> str:
    return repr(value) if std == _NO_STD else f"{value!r} with std={std!r}"

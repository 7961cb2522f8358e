"""Many runs as arrays, one entry for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.run import Run

__all__ = ["Runs"]

_TYPES: dict[str, Any] = {
    "status": np.str_,
    "stopping_time": np.int64,
    "pulls": np.int64,
    "elapsed": np.float64,
    "cancelled": np.int64,
    "estimate": np.float64,
    "interval": np.float64,
    "difference": np.float64,
    "lost": np.int64,
}


@dataclass(frozen=True, eq=False, slots=True)
class Runs:
    """Many runs; the fields are those of `Run`, as arrays with one entry for each.

    Parameters
    ----------
    answer, status, stopping_time, pulls, elapsed, cancelled, estimate, interval, difference, lost,
        better, within_limits
        As in `Run`.
    metrics : mapping of str to ndarray of float
        NaN if a run does not have one.
    """

    answer: NDArray[np.object_]
    status: NDArray[np.str_]
    stopping_time: NDArray[np.int64]
    pulls: NDArray[np.int64]
    elapsed: NDArray[np.float64]
    cancelled: NDArray[np.int64]
    estimate: NDArray[np.float64]
    interval: NDArray[np.float64]
    difference: NDArray[np.float64]
    lost: NDArray[np.int64]
    better: NDArray[np.bool_]
    within_limits: NDArray[np.bool_]
    metrics: Mapping[str, NDArray[np.float64]]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Self:
        """Return the runs, in this order."""
        return cls(
            answer=_objects([run.answer for run in runs]),
            metrics=_columns([run.metrics for run in runs]),
            better=_padded([np.array([run.better], dtype=np.bool_) for run in runs]),
            within_limits=_padded([np.array([run.within_limits], np.bool_) for run in runs]),
            **{
                name: np.array([getattr(run, name) for run in runs], dtype=dtype)
                for name, dtype in _TYPES.items()
            },
        )

    @classmethod
    def immediate(
        cls,
        answers: Sequence[Any],
        status: Sequence[str] | NDArray[np.str_],
        stopping_time: NDArray[np.int64],
        pulls: NDArray[np.int64],
        metrics: Sequence[Mapping[str, float]],
    ) -> Self:
        """Return runs in which every result comes at once: time counts pulls, none is cancelled."""
        number = len(answers)
        unknown = np.full(number, math.nan)
        return cls(
            answer=_objects(answers),
            status=np.array(status, dtype=np.str_),
            stopping_time=stopping_time,
            pulls=pulls,
            elapsed=stopping_time.astype(np.float64),
            cancelled=np.zeros(number, np.int64),
            estimate=unknown,
            interval=np.full((number, 2), math.nan),
            difference=unknown,
            lost=np.zeros(number, np.int64),
            better=np.zeros((number, 0), np.bool_),
            within_limits=np.zeros((number, 0), np.bool_),
            metrics=_columns(metrics),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the runs of all parts, one part after the other."""
        names = dict.fromkeys(name for part in parts for name in part.metrics)
        return cls(
            answer=np.concatenate([part.answer for part in parts]),
            better=_padded([part.better for part in parts]),
            within_limits=_padded([part.within_limits for part in parts]),
            metrics={
                name: np.concatenate(
                    [part.metrics.get(name, np.full(len(part), math.nan)) for part in parts]
                )
                for name in names
            },
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _TYPES},
        )

    def read_only(self) -> Self:
        """Return the same runs in arrays that cannot be written to; these arrays can."""
        return replace(
            self,
            answer=_view(self.answer),
            better=_view(self.better),
            within_limits=_view(self.within_limits),
            metrics={name: _view(values) for name, values in self.metrics.items()},
            **{name: _view(getattr(self, name)) for name in _TYPES},
        )

    def __len__(self) -> int:
        return len(self.answer)


def _view(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


def _padded(parts: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return rows below each other; runs without any interval showed nothing of any arm."""
    width = max((part.shape[1] for part in parts), default=0)
    rows = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
    return np.concatenate(rows) if rows else np.zeros((0, 0), np.bool_)


def _columns(metrics: Sequence[Mapping[str, float]]) -> dict[str, NDArray[np.float64]]:
    names = dict.fromkeys(name for own in metrics for name in own)
    return {
        name: np.array([own.get(name, math.nan) for own in metrics], dtype=np.float64)
        for name in names
    }


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    # Filled one by one, because NumPy would make a matrix of answers that are tuples.
    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array

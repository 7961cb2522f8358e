"""Lines over one axis, as data: what changes with the pulls, or with the size of an effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Line", "LineChart", "effect_chart", "stopping_chart"]

_STEPS = 80


@dataclass(frozen=True, slots=True)
class Line:
    """Values over an axis.

    Parameters
    ----------
    name : str
        What it is of.
    across, up : tuple of float
        Where its points are.
    """

    name: str
    across: tuple[float, ...]
    up: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines with common axes.

    Parameters
    ----------
    lines : tuple of Line
        What is drawn.
    across, up : str
        What the axes are.
    span, height : (float, float)
        Their ends.
    shares : bool
        Whether what goes up is a probability, to be written in per cent.
    marked : bool
        Whether the points themselves are shown: where they are few.
    """

    lines: tuple[Line, ...]
    across: str
    up: str
    span: tuple[float, float]
    height: tuple[float, float]
    shares: bool
    marked: bool = False


def stopping_chart(times: Mapping[str, ArrayLike], runs: int, most: int) -> LineChart:
    """Return the probability of having decided by a number of pulls.

    Parameters
    ----------
    times : mapping of str to array_like
        By name, the pulls of the runs that decided.
    runs : int
        Number of all runs.
    most : int
        Pulls after which runs were ended.

    Examples
    --------
    >>> chart = stopping_chart({"full": [10, 20]}, runs=4, most=20)
    >>> chart.lines[0].up[0], chart.lines[0].up[-1]
    (0.0, 0.5)
    """
    across = np.unique(np.linspace(0, most, _STEPS + 1).round())
    lines = [
        Line(name, tuple(across.tolist()), tuple((_decided_by(across, own) / runs).tolist()))
        for name, own in times.items()
    ]
    up = "runs that have decided"
    return LineChart(tuple(lines), "pulls", up, (0.0, float(most)), (0.0, 1.0), shares=True)


def _decided_by(pulls: ArrayLike, times: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.searchsorted(np.sort(np.asarray(times)), pulls, side="right")


def effect_chart(
    effects: Sequence[float], values: Mapping[str, Sequence[float]], up: str, shares: bool
) -> LineChart:
    """Return values over the size of an effect, as a multiple of what is assumed.

    Examples
    --------
    >>> effect_chart([0, 1], {"mean": [900.0, 300.0]}, "pulls", shares=False).height
    (0.0, 900.0)
    """
    lines = [Line(name, tuple(effects), tuple(own)) for name, own in values.items()]
    highest = 1.0 if shares else max(max(line.up) for line in lines)
    across = "effect, in multiples of what is assumed"
    span = (0.0, float(max(effects)))
    return LineChart(tuple(lines), across, up, span, (0.0, highest), shares, marked=True)

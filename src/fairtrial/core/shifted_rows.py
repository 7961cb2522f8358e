"""Recorded rewards with another mean: planning from a table with an assumed effect."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.errors import InvalidArgument

__all__ = ["shifted_rows"]

Floats = NDArray[np.float64]

_ROWS = 1_000
_STEEPEST = 500.0


def shifted_rows(
    name: str, rows: Floats, mean: float, reward_range: tuple[float, float] | None
) -> Floats:
    """Return rewards like the rows, with another mean.

    If the shifted rows stay in the range, all rows are shifted. Otherwise large rows, or small
    ones, are made more frequent (exponential tilting), so that rewards of 0 or 1 remain 0 or 1.

    Parameters
    ----------
    name : str
        Name of the mean, for the error message.
    rows : ndarray
        Recorded rewards.
    mean : float
        The wanted mean.
    reward_range : (float, float) or None
        The range that every reward must lie in, if there is one.

    Raises
    ------
    InvalidArgument
        If no rewards between the smallest and the largest row have that mean, and they cannot be
        shifted.

    Examples
    --------
    >>> shifted_rows("mean", np.array([1.0, 2.0]), 2.5, None).tolist()
    [2.0, 3.0]
    >>> tilted = shifted_rows("mean", np.array([0.0, 1.0]), 0.7, (0, 1))
    >>> len(tilted), round(float(tilted.mean()), 9)
    (1000, 0.7)
    """
    shifted = rows + (mean - rows.mean())
    low, high = reward_range or (-math.inf, math.inf)
    if low <= shifted.min() and shifted.max() <= high:
        return np.asarray(shifted)
    least, most = float(rows.min()), float(rows.max())
    if not least < mean < most:
        accepted = f"must be between {least:g} and {most:g}, the smallest and largest of its rows"
        raise InvalidArgument(name, accepted, mean)
    return _sampled(np.sort(rows), mean)


def _sampled(rows: Floats, mean: float) -> Floats:
    """Return a thousand of these sorted rows, the tilted quantiles, with exactly that mean."""
    weights = _tilted(rows, mean)
    places = (np.arange(_ROWS) + 0.5) / _ROWS
    found = rows[np.minimum(np.searchsorted(np.cumsum(weights), places), rows.size - 1)]
    # The quantiles miss the sum by less than the span of the rows: one row at the far end fixes it.
    rest = mean * _ROWS - found.sum()
    found[0 if rest > 0.0 else -1] += rest
    return np.asarray(found)


def _tilted(rows: Floats, mean: float) -> Floats:
    """Return weights with that mean that grow or shrink exponentially along the rows."""
    units = (rows - rows[0]) / (rows[-1] - rows[0])
    wanted = (mean - rows[0]) / (rows[-1] - rows[0])

    def weights(slope: float) -> Floats:
        raw = np.exp(slope * units - max(slope, 0.0))
        return np.asarray(raw / raw.sum())

    def excess(slope: float) -> float:
        return float(weights(slope) @ units - wanted)

    if excess(-_STEEPEST) >= 0.0:
        return weights(-_STEEPEST)
    if excess(_STEEPEST) <= 0.0:
        return weights(_STEEPEST)
    return weights(scipy.optimize.brentq(excess, -_STEEPEST, _STEEPEST))

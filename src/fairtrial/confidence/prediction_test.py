"""A test at all times of the assumption that predictions do not depend on the arm.

In a block, let n of a group's pulls have arm a, and r another arm. For every stake t, multiply
1 + t (f - c) over the predictions f of the arm's pulls, and 1 - t (n / r) (f - c) over those of the
others. The number c and the range of f are fixed before the block. If all arms have the same mean
prediction, the product over the block is at most 1 on average, because the stakes sum to zero. So
is that over blocks, and the mean over stakes, arms and groups.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALARM", "FrozenPredictions", "KnownMeanTest", "PredictionTest"]

Floats = NDArray[np.float64]

ALARM = 100.0
"""The e-value from which predictions are said to depend on the arm."""

_STAKES = np.array([sign * size for sign in (1, -1) for size in (0.02, 0.05, 0.1, 0.2, 0.4)])
"""Stakes on a prediction that moves through its whole range."""


class FrozenPredictions(NamedTuple):
    """What is fixed before a block, for one group.

    Attributes
    ----------
    pulls : ndarray of shape (K,)
        The planned pulls of every arm.
    expected : float
        The centre.
    low, high : float
        The range to which predictions are cut.
    """

    pulls: Floats
    expected: float
    low: float
    high: float


class PredictionTest:
    """The evidence that predictions depend on the arm.

    Parameters
    ----------
    arms, groups : int
        Their numbers.

    Attributes
    ----------
    logs : ndarray of shape (K, L, S)
        Logarithms of the products over complete blocks, by arm, group and stake.
    started : dict of int to ndarray of shape (K, L, S)
        The same for each block whose pulls are not all issued.

    Examples
    --------
    >>> test = PredictionTest(2, 1)
    >>> frozen = FrozenPredictions(np.array([100.0, 100.0]), 0.5, 0.0, 1.0)
    >>> for _ in range(100):
    ...     test.add(0, 0, 0, 0.4, frozen)
    ...     test.add(0, 1, 0, 0.6, frozen)
    >>> test.complete(0)
    >>> test.e_value > ALARM
    True
    """

    def __init__(self, arms: int, groups: int) -> None:
        self.logs: Floats = np.zeros((arms, groups, _STAKES.size))
        self.started: dict[int, Floats] = {}

    def add(
        self, block: int, arm: int, group: int, prediction: float, frozen: FrozenPredictions
    ) -> None:
        """Add the prediction of a pull of a block."""
        width = frozen.high - frozen.low
        if width <= 0.0:
            return
        off = (min(max(prediction, frozen.low), frozen.high) - frozen.expected) / width
        others = frozen.pulls.sum() - frozen.pulls
        is_tested = (frozen.pulls > 0.0) & (others > 0.0)
        ratios = np.where(is_tested, frozen.pulls / np.maximum(others, 1.0), 0.0)
        weights = -ratios
        weights[arm] = 1.0
        # No factor may become negative, also where an arm has most of the pulls.
        weights *= is_tested / np.maximum(1.0, ratios)
        own = self.started.setdefault(block, np.zeros_like(self.logs))
        own[:, group] += np.log1p(weights[:, np.newaxis] * _STAKES * off)

    def complete(self, block: int) -> None:
        """Count a block, all of whose pulls are issued; others never count."""
        self.logs += self.started.pop(block, 0.0)

    @property
    def e_value(self) -> float:
        """The evidence: at least x with probability at most 1/x at any time if all is well."""
        return _mean_of(self.logs)

    @property
    def open_blocks(self) -> Floats:
        """The blocks whose pulls are not all issued: in each row its number and its logarithms."""
        rows = [[block, *logs.ravel()] for block, logs in self.started.items()]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 1 + self.logs.size)

    @open_blocks.setter
    def open_blocks(self, rows: Floats) -> None:
        self.started = {int(row[0]): row[1:].reshape(self.logs.shape) for row in rows}


class KnownMeanTest:
    """The evidence that the mean prediction of a group is not the stated one.

    Every prediction multiplies 1 + t (f - mean) for every stake t; the evidence is the mean over
    stakes and groups.

    Parameters
    ----------
    groups : int
        Number of groups with a stated mean.

    Attributes
    ----------
    logs : ndarray of shape (groups, S)
        Logarithms of the products, by group and stake.

    Examples
    --------
    >>> test = KnownMeanTest(1)
    >>> for _ in range(200):
    ...     test.add(0, 0.8, 0.5, 0.0, 1.0)
    >>> test.e_value > ALARM
    True
    """

    def __init__(self, groups: int) -> None:
        self.logs: Floats = np.zeros((groups, _STAKES.size))

    def add(self, group: int, prediction: float, mean: float, low: float, high: float) -> None:
        """Add the prediction of a pull, which lies in a range."""
        self.logs[group] += np.log1p(_STAKES * (prediction - mean) / (high - low))

    @property
    def e_value(self) -> float:
        """The evidence: at least x with probability at most 1/x at any time if all is well."""
        return _mean_of(self.logs) if self.logs.size else 1.0


def _mean_of(logs: Floats) -> float:
    """Return the mean of e-values from their logarithms."""
    largest = float(logs.max())
    mean = float(np.exp(logs - largest).mean())
    return math.exp(min(700.0, largest + math.log(mean)))

"""Random sources of simulated environments, in a form that compiled code can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.draw_kernels import (
    BERNOULLI,
    BETA,
    GAUSSIAN,
    POINTS,
    REPLAY,
    draw,
    draw_vector,
)

__all__ = ["Source", "VectorSource"]

Floats = NDArray[np.float64]


class Source(NamedTuple):
    """Describe how the rewards of n actions are drawn, packed for kernels.

    Its arrays are copies that can be written: for arrays that are read-only, numba would compile
    all kernels again.

    Parameters
    ----------
    kind : int
        `GAUSSIAN`, `BERNOULLI`, `BETA` or `REPLAY`.
    first : ndarray
        Means (`GAUSSIAN`); probabilities of a 1 (`BERNOULLI`); first parameters (`BETA`); or the
        rewards of all rows, action after action (`REPLAY`).
    second : ndarray of shape (n,)
        Standard deviation of the normal noise that is added; the second parameters of `BETA`; not
        used by `BERNOULLI`.
    starts : ndarray of int
        In a replay, action k owns rows ``starts[k] .. starts[k + 1] - 1``.

    Examples
    --------
    >>> source = Source.replay([np.array([1.0]), np.array([2.0, 2.0])])
    >>> source.draw(1, np.random.default_rng(0))
    2.0
    """

    kind: int
    first: Floats
    second: Floats
    starts: NDArray[np.int64]

    @classmethod
    def gaussian(cls, means: Floats, stds: Floats) -> Self:
        """Return a source of normal rewards; both arrays are flattened."""
        return cls(GAUSSIAN, means.flatten(), stds.flatten(), np.zeros(1, np.int64))

    @classmethod
    def bernoulli(cls, means: Floats) -> Self:
        """Return a source of rewards 1 or 0, from the probabilities of a 1, flattened."""
        return cls(BERNOULLI, means.flatten(), np.zeros(means.size), np.zeros(1, np.int64))

    @classmethod
    def beta(cls, first: Floats, second: Floats) -> Self:
        """Return a source of beta rewards; both arrays of parameters are flattened."""
        return cls(BETA, first.flatten(), second.flatten(), np.zeros(1, np.int64))

    @classmethod
    def replay(cls, rows: Sequence[Floats], noise_std: float = 0.0) -> Self:
        """Return a source that draws, with replacement, from each action's rows, and adds noise."""
        starts = np.concatenate([[0], np.cumsum([len(own) for own in rows])])
        noise = np.full(len(rows), noise_std)
        return cls(REPLAY, np.concatenate(rows), noise, starts.astype(np.int64))

    def draw(self, action: int, generator: np.random.Generator) -> float:
        """Return one reward."""
        return float(draw(*self, action, generator))


class VectorSource(NamedTuple):
    """Describe how the measures of n actions are drawn, packed for kernels; a pull gives them all.

    Parameters
    ----------
    kind : int
        `GAUSSIAN`, `REPLAY` or `POINTS`.
    first : ndarray of shape (n, M) or (rows, M)
        Means; or all rows or points, action after action, with NaN for a missing value.
    second : ndarray of shape (n, M, M)
        For normal noise a root of its covariance; for points the cumulative probabilities, shape
        (rows, 1, 1); not used in a replay.
    starts : ndarray of int
        Action k owns the rows ``starts[k] .. starts[k + 1] - 1``.

    Examples
    --------
    >>> source = VectorSource.replay([np.array([[1.0, 0.0]]), np.array([[2.0, np.nan]])])
    >>> source.draw(1, np.random.default_rng(0))
    array([ 2., nan])
    """

    kind: int
    first: Floats
    second: Floats
    starts: NDArray[np.int64]

    @classmethod
    def gaussian(cls, means: Floats, covariances: Floats) -> Self:
        """Return a source of jointly normal measures: means (n, M), covariances (n, M, M).

        A covariance may be singular.
        """
        spreads, directions = np.linalg.eigh(covariances)
        roots = directions * np.sqrt(np.maximum(spreads, 0.0))[:, np.newaxis, :]
        return cls(GAUSSIAN, np.array(means), np.ascontiguousarray(roots), np.zeros(1, np.int64))

    @classmethod
    def replay(cls, rows: Sequence[Floats]) -> Self:
        """Return a source that draws measures, with replacement, from each action's rows."""
        starts = np.concatenate([[0], np.cumsum([len(own) for own in rows])]).astype(np.int64)
        return cls(REPLAY, np.concatenate(rows), np.zeros((1, 1, 1)), starts)

    @classmethod
    def points(cls, points: Floats, probabilities: Floats) -> Self:
        """Return a source that draws one of C points: shape (n, C, M), with (n, C) probabilities.

        The probabilities of an action sum to one.
        """
        actions, number, measures = points.shape
        starts = np.arange(actions + 1, dtype=np.int64) * number
        heights = np.cumsum(probabilities, axis=1).reshape(-1, 1, 1)
        return cls(POINTS, np.array(points).reshape(-1, measures), heights, starts)

    def draw(self, action: int, generator: np.random.Generator) -> Floats:
        """Return the measures of one pull, shape (M,)."""
        drawn = np.empty(self.first.shape[1])
        draw_vector(*self, action, generator, drawn)
        return drawn

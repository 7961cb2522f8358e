"""Simulated environments as compiled code sees them: what one pull of an action gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.draw_kernels import BERNOULLI, BETA, GAUSSIAN, REPLAY, draw

__all__ = ["Source"]

Floats = NDArray[np.float64]


class Source(NamedTuple):
    """Where the rewards of n actions come from, packed for kernels.

    Parameters
    ----------
    kind : int
        `GAUSSIAN`, `BERNOULLI`, `BETA` or `REPLAY`.
    first : ndarray
        Means; probabilities of a 1; first parameters; or the rewards of all rows, action after
        action.
    second : ndarray of shape (n,)
        Standard deviation of the normal noise on top; the second parameters of `BETA`; not used
        by `BERNOULLI`.
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
        """Return normal rewards; both arrays are flattened."""
        return cls(GAUSSIAN, means.ravel(), stds.ravel(), np.zeros(1, np.int64))

    @classmethod
    def bernoulli(cls, means: Floats) -> Self:
        """Return rewards 1 or 0 with the given probabilities of a 1, flattened."""
        return cls(BERNOULLI, means.ravel(), np.zeros(means.size), np.zeros(1, np.int64))

    @classmethod
    def beta(cls, first: Floats, second: Floats) -> Self:
        """Return rewards with a beta distribution; both arrays of parameters are flattened."""
        return cls(BETA, first.ravel(), second.ravel(), np.zeros(1, np.int64))

    @classmethod
    def replay(cls, rows: Sequence[Floats], noise_std: float = 0.0) -> Self:
        """Return rewards drawn, with replacement, from each action's rows, plus noise."""
        starts = np.concatenate([[0], np.cumsum([len(own) for own in rows])])
        noise = np.full(len(rows), noise_std)
        return cls(REPLAY, np.concatenate(rows), noise, starts.astype(np.int64))

    def draw(self, action: int, generator: np.random.Generator) -> float:
        """Return one reward."""
        return float(draw(*self, action, generator))

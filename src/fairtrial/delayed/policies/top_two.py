"""Top-two Thompson sampling: the arms on which two draws from the posteriors disagree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["top_two"]

Floats = NDArray[np.float64]
Arms = NDArray[np.int64]

_DRAWS = 50


def top_two(
    means: Floats, variances: Floats, top: int, generator: np.random.Generator
) -> tuple[Arms, Arms]:
    """Return the arms among the best only in a first draw, and those only in a second draw.

    The second draw is the first of up to 49 more draws that has other arms among the best. If none
    has, the two arms that are most likely to be exchanged are returned.

    Parameters
    ----------
    means, variances : ndarray of shape (arms,)
        Means and variances of the arms' normal posteriors.
    top : int
        Number of best arms, less than the number of arms.
    generator : numpy.random.Generator
        Source of the draws.
    """
    draws = means + np.sqrt(variances) * generator.standard_normal((_DRAWS, means.size))
    inside = np.zeros(draws.shape, dtype=bool)
    np.put_along_axis(inside, np.argpartition(-draws, top - 1)[:, :top], True, axis=1)
    others = np.flatnonzero((inside != inside[0]).any(axis=1))
    if others.size:
        first, second = inside[0], inside[others[0]]
        return np.flatnonzero(first & ~second), np.flatnonzero(second & ~first)
    best, rest = np.flatnonzero(inside[0]), np.flatnonzero(~inside[0])
    gaps = means[best, None] - means[rest]
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = gaps / np.sqrt(variances[best, None] + variances[rest])
    distances[gaps == 0.0] = 0.0
    # Without any spread, all pairs are equally unlikely to be exchanged.
    nearest = gaps if np.isinf(distances).all() else distances
    one, other = divmod(int(nearest.argmin()), rest.size)
    return best[[one]], rest[[other]]

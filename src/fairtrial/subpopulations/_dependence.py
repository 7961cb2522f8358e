"""How measures of one pull depend on each other: joint probabilities and covariances."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.validation import as_floats, require_each
from fairtrial.errors import InvalidArgument

__all__ = [
    "corners",
    "correlated",
    "covariance_of_points",
    "covariance_of_rows",
    "independent",
    "joint_of",
    "marginals",
    "moved_joint",
]

Floats = NDArray[np.float64]

_MOST_MEASURES = 12
_SWEEPS = 2_000
_CLOSE = 1e-13


def corners(size: int) -> Floats:
    """Return all rows of `size` numbers that are 0 or 1, shape (2**size, size).

    Examples
    --------
    >>> corners(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    if size > _MOST_MEASURES:
        accepted = f"must be at most {_MOST_MEASURES} for simulated values of two kinds"
        raise InvalidArgument("measures", accepted, size)
    return np.array(list(product((0.0, 1.0), repeat=size)))


def independent(chances: Floats) -> Floats:
    """Return the probability of every corner if the measures are independent.

    Parameters
    ----------
    chances : ndarray of shape (..., M)
        The probability of a 1, by measure.

    Returns
    -------
    ndarray of shape (..., 2**M)
    """
    own = corners(chances.shape[-1])
    factors = np.where(own > 0.0, chances[..., np.newaxis, :], 1.0 - chances[..., np.newaxis, :])
    return np.asarray(factors.prod(axis=-1))


def correlated(chances: Floats, correlation: ArrayLike) -> Floats:
    """Return the probability of every corner of two measures with a correlation.

    Raises
    ------
    InvalidArgument
        If no two measures with these means have it; the error names the limits.

    Examples
    --------
    >>> correlated(np.array([0.5, 0.5]), 1.0).tolist()
    [0.5, 0.0, 0.0, 0.5]
    """
    if chances.shape[-1] != 2:
        accepted = "must be left out unless there are two measures: give joint"
        raise InvalidArgument("correlation", accepted, correlation)
    accepted = f"must be a number or have shape {chances.shape[:-1]}"
    given = as_floats("correlation", correlation, accepted)
    try:
        wanted = np.broadcast_to(given, chances.shape[:-1])
    except ValueError:
        raise InvalidArgument("correlation", accepted, correlation) from None
    first, second = chances[..., 0], chances[..., 1]
    spread = np.sqrt(first * (1.0 - first) * second * (1.0 - second))
    both = first * second + wanted * spread
    least, most = np.maximum(first + second - 1.0, 0.0), np.minimum(first, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.nan_to_num((least - first * second) / spread)
        high = np.nan_to_num((most - first * second) / spread)
    fine = (wanted >= low - _CLOSE) & (wanted <= high + _CLOSE)
    if not fine.all():
        place = tuple(map(int, np.argwhere(~fine)[0]))
        accepted = f"must be from {low[place]:.3g} to {high[place]:.3g} with means "
        accepted += f"{first[place]:g} and {second[place]:g}"
        raise InvalidArgument("correlation", accepted, float(wanted[place]))
    both = np.clip(both, least, most)
    return np.stack([1.0 - first - second + both, second - both, first - both, both], axis=-1)


def joint_of(given: ArrayLike, cells: tuple[int, ...], size: int) -> Floats:
    """Return given probabilities of the corners, by cell, shape (K, L, 2**M).

    Parameters
    ----------
    given : array-like of shape (2,) * M or (K, L) + (2,) * M
        The probability of each combination: ``given[..., 1, 0]`` belongs to a 1 of the first
        measure and a 0 of the second.
    cells : tuple of int
        K and L.
    size : int
        M.
    """
    one = (2,) * size
    accepted = f"must have shape {one} or {(*cells, *one)}"
    table = as_floats("joint", given, accepted)
    if table.shape not in (one, (*cells, *one)):
        raise InvalidArgument("joint", f"{accepted}; got shape {table.shape}")
    fine = (table >= 0.0) & (table <= 1.0)
    require_each("joint", table, fine, "must be a probability in [0, 1]")
    flat = np.broadcast_to(table, (*cells, *one)).reshape(*cells, -1)
    totals = flat.sum(axis=-1)
    if (np.abs(totals - 1.0) > 1e-9).any():
        worst = float(totals.flat[np.abs(totals - 1.0).argmax()])
        raise InvalidArgument("joint", "must have probabilities of sum 1 in every cell", worst)
    return np.asarray(flat / totals[..., np.newaxis])


def marginals(joint: Floats, size: int) -> Floats:
    """Return the probability of a 1 by measure, shape (..., M)."""
    return np.asarray(joint @ corners(size))


def moved_joint(joint: Floats, chances: Floats) -> Floats:
    """Return joint probabilities with other means, and the same odds ratios as the given ones.

    Source: iterative proportional fitting (Deming and Stephan, 1940).

    Raises
    ------
    InvalidArgument
        If no such table has these means, because some combinations are impossible.
    """
    size = chances.shape[-1]
    own, found = corners(size), np.array(joint)
    for _ in range(_SWEEPS):
        for measure in range(size):
            is_one = own[:, measure] > 0.0
            now = found[..., is_one].sum(axis=-1)
            wanted = chances[..., measure]
            with np.errstate(divide="ignore", invalid="ignore"):
                ones = np.nan_to_num(wanted / now, posinf=0.0)
                zeros = np.nan_to_num((1.0 - wanted) / (1.0 - now), posinf=0.0)
            factors = np.where(is_one, ones[..., np.newaxis], zeros[..., np.newaxis])
            found = found * factors
        if np.abs(marginals(found, size) - chances).max() <= _CLOSE:
            return found
    if np.abs(marginals(found, size) - chances).max() > 1e-9:
        accepted = "must be means that the possible combinations of the measures can have"
        raise InvalidArgument("means", accepted, chances.tolist())
    return found


def covariance_of_points(points: Floats, chances: Floats) -> Floats:
    """Return the covariance of values that are one of C points with given probabilities.

    Parameters
    ----------
    points : ndarray of shape (C, M)
        The points.
    chances : ndarray of shape (..., C)
        Their probabilities.

    Returns
    -------
    ndarray of shape (..., M, M)
    """
    means = chances @ points
    off = points - means[..., np.newaxis, :]
    return np.asarray(np.einsum("...c,...ci,...cj->...ij", chances, off, off))


def covariance_of_rows(rows: Floats) -> Floats:
    """Return the covariance of rows of values, shape (M, M); NaN is a missing value.

    Each entry is computed from the rows that have both values; two measures that never occur
    together count as independent.
    """
    there = ~np.isnan(rows)
    off = np.where(there, rows - np.nanmean(rows, axis=0), 0.0)
    together = there.astype(np.float64).T @ there
    return np.asarray(off.T @ off / np.maximum(together, 1.0))

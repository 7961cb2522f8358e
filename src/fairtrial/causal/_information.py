"""Information of rows against every wrong answer: the nearest outcomes, item by item.

An item is a claim that must be ruled out: "that arm is fair and at least as good", "the answer
breaks that limit", or, if no arm is fair, "that arm is fair". It is a set of linear conditions on
the outcome means of the cells. The information of rows against it is the least divergence between
the assumed outcomes and outcomes with such means. It is found by its dual, with at most a few
multipliers for each item. Outcomes keep their assumed values; only the frequencies of the values
change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Items", "Outcomes", "nearest"]

Floats = NDArray[np.float64]

_STEPS = 100
_ACCURACY = 1e-12
_HALVINGS = 40
_RIDGE = 1e-7
_SUFFICIENT = 1e-4
_LARGEST = 1e12
_ROOT_STEPS = 60
_ROOT_ACCURACY = 1e-14


class Items(NamedTuple):
    """Claims about outcome means m, each ``rows @ m <= limits``.

    Attributes
    ----------
    rows : ndarray of shape (I, R, X)
        The conditions; X is the number of cells, or of classes of cells with equal means.
    limits : ndarray of shape (I, R)
        The upper limits of the conditions.
    """

    rows: Floats
    limits: Floats


class Outcomes(NamedTuple):
    """The assumed distribution of outcomes in every cell.

    Attributes
    ----------
    values : ndarray of shape (V,)
        The possible values, in ascending order.
    chances : ndarray of shape (X, V)
        The probability of each value in every cell.
    """

    values: Floats
    chances: Floats

    @property
    def means(self) -> Floats:
        """The mean outcome of every cell, shape (X,)."""
        return np.asarray(self.chances @ self.values)


class _Moved(NamedTuple):
    """The outcomes that are optimal for a given force, for each item and cell; shapes (I, X)."""

    means: Floats
    divergences: Floats  # of the assumed outcomes from these outcomes
    curve: Floats  # how fast the means fall as the force grows


def nearest(
    items: Items, outcomes: Outcomes, falls: Floats, start: Floats
) -> tuple[Floats, Floats]:
    """Return the divergence from every item, shape (I,), and its parts by cell, shape (I, X).

    Parameters
    ----------
    items : Items
        The claims.
    outcomes : Outcomes
        The assumed outcomes.
    falls : ndarray of shape (X,)
        The probability that a row falls into each cell.
    start : ndarray of shape (I, R)
        Initial multipliers; overwritten by the optimal ones.

    Returns
    -------
    values : ndarray of shape (I,)
        Information of a row against each claim, in nats: a lower bound that the search maximises.
    divergences : ndarray of shape (I, X)
        Divergences of the assumed outcomes from the nearest ones, by cell.
    """
    found = _climb(items, outcomes, falls, start)
    moved = _move(outcomes, falls, _pull(items, found))
    start[...] = found
    return _worth(items, falls, found, moved), moved.divergences


def _climb(items: Items, outcomes: Outcomes, falls: Floats, start: Floats) -> Floats:
    """Return the best multipliers, by projected Newton steps for all items at once."""
    multipliers = start.copy()
    moved = _move(outcomes, falls, _pull(items, multipliers))
    worth = _worth(items, falls, multipliers, moved)
    for _ in range(_STEPS):
        slope = _slope(items, moved.means)
        is_free = (multipliers > 0.0) | (slope > 0.0)
        left = np.where(is_free, slope, 0.0)
        if not (np.abs(left) > _ACCURACY * np.abs(items.rows).sum(axis=2)).any():
            break
        step = _newton(items, falls, moved.curve, left, is_free)
        size = np.ones(len(step))
        for _ in range(_HALVINGS):
            tried = np.minimum(np.maximum(multipliers + size[:, None] * step, 0.0), _LARGEST)
            then = _move(outcomes, falls, _pull(items, tried))
            gained = _worth(items, falls, tried, then)
            wanted = worth + _SUFFICIENT * ((tried - multipliers) * slope).sum(axis=1)
            falls_short = gained < wanted - 1e-15 * np.abs(worth)
            if not falls_short.any():
                break
            size = np.where(falls_short, 0.5 * size, size)
        better = gained > worth
        multipliers = np.where(better[:, None], tried, multipliers)
        moved = _Moved(
            *(np.where(better[:, None], *pair) for pair in zip(then, moved, strict=True))
        )
        worth = np.maximum(worth, gained)
        if not better.any():
            break
    return multipliers


def _newton(
    items: Items, falls: Floats, curve: Floats, slope: Floats, is_free: NDArray[np.bool_]
) -> Floats:
    hessian = np.einsum("irx,ix,isx->irs", items.rows, curve, items.rows)
    both = is_free[:, :, None] & is_free[:, None, :]
    hessian = np.where(both, hessian, 0.0)
    # Means at an end of the range do not move at first, so they have no curvature.
    scale = (items.rows**2).sum(axis=(1, 2))[:, None] / falls.max()
    diagonal = np.where(is_free, _RIDGE * scale, 1.0)
    hessian = hessian + diagonal[:, :, None] * np.eye(slope.shape[1])
    return np.asarray(np.linalg.solve(hessian, slope[..., None])[..., 0])


def _pull(items: Items, multipliers: Floats) -> Floats:
    """Return the force with which the conditions pull each mean down, shape (I, X)."""
    return np.asarray(np.einsum("ir,irx->ix", multipliers, items.rows))


def _move(outcomes: Outcomes, falls: Floats, pull: Floats) -> _Moved:
    """Return the outcomes q with the least ``falls * divergence(p, q) + pull * mean(q)``.

    Each value with positive assumed probability gets ``q = falls p / (level + pull value)``, at the
    level at which the q add up to one. Values with assumed probability 0 get the remaining
    probability if the level would make their own denominator negative.
    """
    values, comes = outcomes.values, (falls[:, np.newaxis] * outcomes.chances) > 0.0
    weights = falls[:, np.newaxis] * outcomes.chances
    cheapest = np.where(pull >= 0.0, _lowest(values, comes), _highest(values, comes))
    other = np.where(pull >= 0.0, _lowest(values, ~comes), _highest(values, ~comes))
    # Where no row falls, no value has a positive weight.
    cheapest = np.where(np.isfinite(cheapest), cheapest, other)
    above = pull[:, :, np.newaxis] * (values - cheapest[:, :, np.newaxis])
    none = ~np.isfinite(other)
    least = np.where(none, -np.inf, pull * (cheapest - np.where(none, 0.0, other)))
    level = _level(weights, comes, above, least)
    parts = level[:, :, np.newaxis] + above
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(comes, weights / parts, 0.0)
        tilted = np.where(comes, shares / parts, 0.0)
        logs = np.where(comes, outcomes.chances * np.log(parts / falls[:, np.newaxis]), 0.0)
    rest = np.maximum(0.0, 1.0 - shares.sum(axis=2))
    takes = ~none & (level <= least)
    centre = tilted @ values / np.where(tilted.any(axis=2), tilted.sum(axis=2), 1.0)
    centre = np.where(takes, other, centre)
    means = shares @ values + np.where(takes, rest * np.where(takes, other, 0.0), 0.0)
    curve = (tilted * (values - centre[:, :, np.newaxis]) ** 2).sum(axis=2)
    # Where no row falls, all outcomes are equally near.
    still = (falls == 0.0) & (pull == 0.0)
    far = np.where((falls == 0.0) & (pull != 0.0), np.inf, np.maximum(logs.sum(axis=2), 0.0))
    return _Moved(np.where(still, outcomes.means, means), far, curve)


def _level(weights: Floats, comes: NDArray[np.bool_], above: Floats, least: Floats) -> Floats:
    """Return the level at which shares add up to one, or the smallest allowed level.

    Uses Newton's method from below for the inverse of their sum, which is concave in the level.
    """
    start = np.where(comes, weights - above, -np.inf).max(axis=2)
    if weights.shape[1] == 2:
        start = np.where(comes.all(axis=1), _level_of_two(weights, above), start)
    level = np.maximum(start, least)
    for _ in range(_ROOT_STEPS):
        parts = level[:, :, np.newaxis] + above
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(comes, weights / parts, 0.0)
            total = shares.sum(axis=2)
            step = total * (total - 1.0) / np.where(comes, shares / parts, 0.0).sum(axis=2)
        step = np.where(total > 1.0, step, 0.0)
        level = level + step
        if (step <= _ROOT_ACCURACY * np.abs(level)).all():
            break
    return np.asarray(level)


def _level_of_two(weights: Floats, above: Floats) -> Floats:
    """Return the level for two values: the root of a quadratic at which shares sum to one."""
    distance = above.sum(axis=2)
    cheapest = np.where(above[:, :, 0] == 0.0, weights[:, 0], weights[:, 1])
    half = distance - weights.sum(axis=1)
    root = np.sqrt(np.maximum(half**2 + 4.0 * cheapest * distance, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        small = 2.0 * cheapest * distance / (half + root)
    return np.asarray(np.where(half > 0.0, small, 0.5 * (root - half)))


def _lowest(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Return the lowest chosen value in every cell; infinite if none is chosen."""
    return np.asarray(np.where(chosen, values, np.inf).min(axis=1))


def _highest(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.where(chosen, values, -np.inf).max(axis=1))


def _slope(items: Items, means: Floats) -> Floats:
    return np.asarray(np.einsum("irx,ix->ir", items.rows, means) - items.limits)


def _worth(items: Items, falls: Floats, multipliers: Floats, moved: _Moved) -> Floats:
    with np.errstate(invalid="ignore"):
        own = np.where(falls > 0.0, falls * moved.divergences, 0.0).sum(axis=1)
    return np.asarray(own + (multipliers * _slope(items, moved.means)).sum(axis=1))

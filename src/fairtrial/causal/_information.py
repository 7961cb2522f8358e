"""How much rows tell apart: the nearest outcome means with another answer, item by item.

An item is a claim that must be ruled out: "that arm is fair and at least as good", "the answer
breaks that limit", or, where no arm is fair, "that arm is fair". It is a set of linear conditions
on the outcome means of the cells. What rows tell against it is the least divergence of coins with
such means from those assumed, and is found by its dual: at most a few multipliers for each item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Items", "nearest"]

Floats = NDArray[np.float64]

_STEPS = 100
_ACCURACY = 1e-12
_HALVINGS = 40
_RIDGE = 1e-7
_SUFFICIENT = 1e-4
_LARGEST = 1e12


class Items(NamedTuple):
    """Claims about outcome means m, each ``rows @ m <= limits``.

    Attributes
    ----------
    rows : ndarray of shape (I, R, X)
        The conditions; X is the number of cells, or of cells with one mean.
    limits : ndarray of shape (I, R)
        What they must not exceed.
    """

    rows: Floats
    limits: Floats


def nearest(items: Items, means: Floats, falls: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Return the divergence from every item, shape (I,), and its parts by cell, shape (I, X).

    Parameters
    ----------
    items : Items
        The claims.
    means : ndarray of shape (X,)
        The outcome means that are assumed.
    falls : ndarray of shape (X,)
        The probability that a row falls into each cell.
    start : ndarray of shape (I, R)
        Multipliers to begin with; they are moved to the best ones.

    Returns
    -------
    values : ndarray of shape (I,)
        What a row tells against each claim, in nats: a lower bound that the search has raised.
    divergences : ndarray of shape (I, X)
        That of a coin with the assumed mean from one with the nearest mean, by cell.
    """
    found = _climb(items, means, falls, start)
    moved = _moved(means, falls, _pull(items, found))
    start[...] = found
    return _worth(items, means, falls, found, moved), _divergence(means, moved)


def _climb(items: Items, means: Floats, falls: Floats, start: Floats) -> Floats:
    """Return the best multipliers, by projected Newton steps for all items at once."""
    multipliers = start.copy()
    moved = _moved(means, falls, _pull(items, multipliers))
    worth = _worth(items, means, falls, multipliers, moved)
    for _ in range(_STEPS):
        slope = _slope(items, moved)
        is_free = (multipliers > 0.0) | (slope > 0.0)
        left = np.where(is_free, slope, 0.0)
        if not (np.abs(left) > _ACCURACY * np.abs(items.rows).sum(axis=2)).any():
            break
        step = _newton(items, means, falls, multipliers, moved, left, is_free)
        size = np.ones(len(step))
        for _ in range(_HALVINGS):
            tried = np.minimum(np.maximum(multipliers + size[:, None] * step, 0.0), _LARGEST)
            then = _moved(means, falls, _pull(items, tried))
            gained = _worth(items, means, falls, tried, then)
            wanted = worth + _SUFFICIENT * ((tried - multipliers) * slope).sum(axis=1)
            falls_short = gained < wanted - 1e-15 * np.abs(worth)
            if not falls_short.any():
                break
            size = np.where(falls_short, 0.5 * size, size)
        better = gained > worth
        multipliers = np.where(better[:, None], tried, multipliers)
        moved = np.where(better[:, None], then, moved)
        worth = np.maximum(worth, gained)
        if not better.any():
            break
    return multipliers


def _newton(
    items: Items,
    means: Floats,
    falls: Floats,
    multipliers: Floats,
    moved: Floats,
    slope: Floats,
    is_free: NDArray[np.bool_],
) -> Floats:
    curve = _curve(means, falls, _pull(items, multipliers), moved)
    hessian = np.einsum("irx,ix,isx->irs", items.rows, curve, items.rows)
    both = is_free[:, :, None] & is_free[:, None, :]
    hessian = np.where(both, hessian, 0.0)
    # Means at an end of the range do not move at first, and have no curvature.
    scale = (items.rows**2).sum(axis=(1, 2))[:, None] / falls.max()
    diagonal = np.where(is_free, _RIDGE * scale, 1.0)
    hessian = hessian + diagonal[:, :, None] * np.eye(slope.shape[1])
    return np.asarray(np.linalg.solve(hessian, slope[..., None])[..., 0])


def _pull(items: Items, multipliers: Floats) -> Floats:
    """Return how hard the conditions pull each mean down, shape (I, X)."""
    return np.asarray(np.einsum("ir,irx->ix", multipliers, items.rows))


def _root(means: Floats, falls: Floats, pull: Floats) -> Floats:
    total = falls + pull
    return np.asarray(np.sqrt(np.maximum(total**2 - 4.0 * pull * falls * means, 0.0)))


def _moved(means: Floats, falls: Floats, pull: Floats) -> Floats:
    """Return the means t with the least ``falls * divergence(means, t) + pull * t``.

    They solve ``pull t^2 - (falls + pull) t + falls means = 0``.
    """
    total, root = falls + pull, _root(means, falls, pull)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(
            total >= 0.0, 2.0 * falls * means / (total + root), (total - root) / (2.0 * pull)
        )
    return np.clip(np.where(np.isfinite(found), found, means), 0.0, 1.0)


def _curve(means: Floats, falls: Floats, pull: Floats, moved: Floats) -> Floats:
    """Return how fast these means fall with the pull."""
    root = _root(means, falls, pull)
    return np.where(root > 0.0, moved * (1.0 - moved) / np.where(root > 0.0, root, 1.0), 0.0)


def _slope(items: Items, moved: Floats) -> Floats:
    return np.asarray(np.einsum("irx,ix->ir", items.rows, moved) - items.limits)


def _worth(
    items: Items, means: Floats, falls: Floats, multipliers: Floats, moved: Floats
) -> Floats:
    divergence = _divergence(means, moved)
    with np.errstate(invalid="ignore"):
        own = np.where(falls > 0.0, falls * divergence, 0.0).sum(axis=1)
    return np.asarray(own + (multipliers * _slope(items, moved)).sum(axis=1))


def _divergence(means: Floats, moved: Floats) -> Floats:
    """Return the divergence of coins with `means` from coins with the other ones."""
    with np.errstate(invalid="ignore", divide="ignore"):
        up = np.where(means > 0.0, means * np.log(means / moved), 0.0)
        down = np.where(means < 1.0, (1.0 - means) * np.log((1.0 - means) / (1.0 - moved)), 0.0)
    return np.asarray(np.maximum(up + down, 0.0))

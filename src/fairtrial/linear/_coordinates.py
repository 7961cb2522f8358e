"""Features in coordinates of full rank, and which of their rows are the same."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-14
"""What is smaller than this, relative to the numbers it is a difference of, may be rounding."""

_RANK = 1e-10
"""Singular values below this, relative to the largest, count as zero."""


class Reduced(NamedTuple):
    """The problem in coordinates of full rank, in which every arm has unit noise.

    With ``theta = basis @ phi`` the reward of arm k, divided by its noise scale, has mean
    ``arms[k] @ phi``, and two candidates differ in value by ``(candidates[i] -
    candidates[j]) @ phi``. ``arms.T @ arms / K`` is the identity.

    Attributes
    ----------
    arms : ndarray of shape (K, r)
        Features over noise scale, in the r coordinates.
    candidates : ndarray of shape (G, r)
        The distinct candidates.
    basis : ndarray of shape (d, r)
        What takes a row of features to its coordinates: ``row @ basis``.
    """

    arms: Floats
    candidates: Floats
    basis: Floats


class Coordinates(NamedTuple):
    """What takes rows of features to coordinates of full rank.

    Attributes
    ----------
    units : ndarray of shape (d,)
        The lengths of the columns: the rank must not depend on the units of a feature.
    basis : ndarray of shape (d, r)
        What takes a row of features to its coordinates: ``row @ basis``.
    inner : ndarray of shape (d, r)
        An orthonormal basis of the rows' span, in those units.
    """

    units: Floats
    basis: Floats
    inner: Floats


def coordinates_of(rows: Floats) -> Coordinates:
    """Return coordinates in which the average of the rows' outer products is the identity."""
    units = np.linalg.norm(rows, axis=0)
    units = np.where(units > 0.0, units, 1.0)
    triangle = np.linalg.qr(rows / units, mode="r")
    _, values, right = np.linalg.svd(triangle, full_matrices=False)
    rank = int((values > _RANK * values[0]).sum()) if values[0] > 0.0 else 0
    inner = right[:rank].T
    basis = inner / units[:, np.newaxis] * (math.sqrt(len(rows)) / values[:rank])
    return Coordinates(units, basis, inner)


def condition_of(rows: Floats, weights: Floats, rank: int) -> float:
    """Return the condition number of the sum of weight times row row', columns scaled.

    Only as many directions count as the rank says.
    """
    used = weights > 0.0
    rows = rows[used] * np.sqrt(weights[used])[:, np.newaxis]
    units = np.linalg.norm(rows, axis=0)
    triangle = np.linalg.qr(rows / np.where(units > 0.0, units, 1.0), mode="r")
    values = np.linalg.svd(triangle, compute_uv=False)
    if not 0 < rank <= values.size or values[rank - 1] == 0.0:
        return math.inf
    return float((values[0] / values[rank - 1]) ** 2)


def equal_rows(rows: Floats) -> tuple[tuple[int, ...], ...]:
    """Return equal rows together, by index, in the order of their first."""
    groups: dict[bytes, list[int]] = {}
    for index, row in enumerate(rows + 0.0):  # so that -0.0 is 0.0
        groups.setdefault(row.tobytes(), []).append(index)
    return tuple(map(tuple, groups.values()))


def joined_where_close(
    groups: tuple[tuple[int, ...], ...], rows: Floats, reach: Floats
) -> tuple[tuple[int, ...], ...]:
    """Return groups, joined where their rows are as close as `reach`; of shape (G, r) both."""
    # Along a direction of no meaning, rows that are close are neighbours.
    places = rows @ np.cos(np.arange(rows.shape[1]))
    order = np.argsort(places, kind="stable")
    slack = reach.sum(axis=1)
    near = np.diff(places[order]) <= slack[order[1:]] + slack[order[:-1]]
    joined: dict[int, int] = {}
    for late in np.flatnonzero(near) + 1:
        here = order[late]
        for there in order[late - 1 :: -1]:
            if places[here] - places[there] > slack[here] + slack[there]:
                break
            if (np.abs(rows[here] - rows[there]) <= reach[here] + reach[there]).all():
                joined[here] = joined.get(there, there)
                break
    if not joined:
        return groups
    members: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(joined.get(number, number), []).extend(group)
    return tuple(sorted(tuple(sorted(group)) for group in members.values()))

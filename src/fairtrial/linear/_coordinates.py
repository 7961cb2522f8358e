"""Accurate coordinates of full rank for features, and candidates that are the same.

The results do not depend on the units of the features: columns are scaled by powers of two, which
is exact. A direction is kept if some arm's features differ along it by more than rounding. Where a
plain product would lose these differences, it is computed with twice the digits of a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.linear._precision import UNIT, Pair, exact_difference, product

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDING = 2.0**-48
"""A difference smaller than this, relative to its two numbers, may be rounding."""

HARMLESS = 1e-13
"""Candidates this near, in units of the arms' spread, differ by no more than this part of the
arms' largest mean."""

_NEGLIGIBLE = -200
"""Entries this many powers of two below the others count as zero."""

_WIDEST_RANGE = -460
"""The least power of two of a row, if the largest rows are about one."""

_PLAIN = 1e3
"""Up to this condition number a plain product of floats keeps all digits that matter."""

_ACCURATE = 1e-10
"""The accepted error in an arm's coordinates, and in a difference of candidates."""

_MOST_STAGES = 4
_LEAST_VALUE = 1e-13
_MOST_NEIGHBOURS = 64


class Untrustworthy(Exception):
    """The arithmetic cannot be trusted; names the row and the column responsible (or -1)."""

    def __init__(self, row: int, column: int) -> None:
        super().__init__(row, column)
        self.row, self.column = row, column


class Reduced(NamedTuple):
    """The problem in coordinates of full rank, in which every arm has unit noise.

    With ``theta = basis @ phi``, times the largest noise scale, the reward of arm k, divided by
    its own noise scale, has mean ``arms[k] @ phi``, and two candidates differ in value by
    ``unit * (candidates[i] - candidates[j] + rest[i] - rest[j]) @ phi``. ``arms.T @ arms / K`` is
    nearly the identity.

    Attributes
    ----------
    arms : ndarray of shape (K, r)
        Features over noise scale, in the r coordinates.
    candidates : ndarray of shape (G, r)
        The distinct candidates, relative to the first of them; at most about 1 in size.
    basis : ndarray of shape (d, r)
        Matrix from a row of features to its coordinates: ``row @ basis``.
    rest : ndarray of shape (G, r)
        Rounding errors of `candidates`: without them, differences between nearby candidates would
        lose digits.
    unit : float
        Unit of the candidates' coordinates.
    """

    arms: Floats
    candidates: Floats
    basis: Floats
    rest: Floats
    unit: float


class Coordinates(NamedTuple):
    """The transformation from rows of features to coordinates of full rank.

    Attributes
    ----------
    exponents : ndarray of shape (d,)
        The powers of two that columns are divided by.
    columns : ndarray of shape (r,)
        Columns that all others depend on, up to rounding.
    relation : ndarray of shape (r, d - r)
        The dependence: the other columns are ``columns @ relation``.
    stages : tuple of ndarray
        Matrices that multiply a row of `columns`, one after the other.
    arms : ndarray of shape (K, r)
        The arms' coordinates, divided by the noise.
    is_exact : bool
        Whether all columns that were left out agree with the others exactly, not only to rounding.
    """

    exponents: Integers
    columns: Integers
    relation: Floats
    stages: tuple[Floats, ...]
    arms: Floats
    is_exact: bool

    @property
    def others(self) -> Integers:
        """Columns that depend on the others."""
        return np.setdiff1d(np.arange(self.exponents.size), self.columns)

    @property
    def basis(self) -> Floats:
        """The matrix from features to coordinates, shape (d, r); up to rounding."""
        found = np.zeros((self.exponents.size, self.columns.size))
        if self.columns.size:
            powers = np.ldexp(1.0, -self.exponents[self.columns])
            found[self.columns] = _combined(self.stages) * powers[:, np.newaxis]
        return found


def _combined(stages: Sequence[Floats]) -> Floats:
    whole = stages[0]
    for stage in stages[1:]:
        whole = whole @ stage
    return whole


# ------------------------------------------------------------------------------ coordinates


def coordinates_of(rows: Floats, weights: Floats) -> Coordinates:
    """Return coordinates in which the weighted rows' average outer product is the identity.

    Raises
    ------
    Untrustworthy
        If they cannot be computed accurately.
    """
    exponents = _exponents(rows)
    scaled = _cleared(np.ldexp(rows, -exponents))
    columns, relation, is_exact = _independent_columns(scaled)
    kept = np.ascontiguousarray(scaled[:, columns])
    stages, arms = _whitening(kept, weights, columns)
    return Coordinates(exponents, columns, relation, stages, arms, is_exact)


def _exponents(rows: Floats) -> Integers:
    """Return the power of two of the largest entry in every column."""
    return np.asarray(np.frexp(np.abs(rows).max(axis=0, initial=0.0))[1], dtype=np.int64)


def _cleared(scaled: Floats) -> Floats:
    """Return rows without entries that are negligible in their row."""
    sizes = np.frexp(np.abs(scaled).max(axis=1, initial=0.0))[1]
    small = scaled.any(axis=1) & (sizes < _WIDEST_RANGE)
    if small.any():
        row = int(small.argmax())
        raise Untrustworthy(row, int(np.abs(scaled[row]).argmax()))
    negligible = np.frexp(scaled)[1] < sizes[:, np.newaxis] + _NEGLIGIBLE
    return np.where(negligible, 0.0, scaled)


def _independent_columns(scaled: Floats) -> tuple[Integers, Floats, bool]:
    """Return columns that all others depend on up to rounding, the relation, and if it is exact.

    Rows are scaled to the same length first, so that a direction counts that only a small row
    measures.
    """
    width = scaled.shape[1]
    norms = np.linalg.norm(scaled, axis=1)
    rows = scaled[norms > 0.0] / norms[norms > 0.0, np.newaxis]
    if not len(rows):
        return np.zeros(0, dtype=np.int64), np.zeros((0, width)), True
    (triangle,) = scipy.linalg.qr(rows.T, mode="r", pivoting=True, check_finite=False)[:1]
    sizes = np.abs(np.diag(triangle))
    rank = int((sizes > ROUNDING * math.sqrt(width)).sum())
    order: NDArray[Any] = np.arange(width)
    if rank < width:
        order = scipy.linalg.qr(rows, mode="r", pivoting=True, check_finite=False)[1]
    columns = np.sort(order[:rank]).astype(np.int64)
    others = np.setdiff1d(np.arange(width), columns)
    relation = np.linalg.lstsq(rows[:, columns], rows[:, others], rcond=None)[0]
    is_exact = not (scaled[:, others] - _rounded(scaled[:, columns], relation)).any()
    return columns, relation, is_exact


def _rounded(rows: Floats, relation: Floats) -> Floats:
    """Return an exact relation where columns depend by whole numbers and simple fractions."""
    return np.asarray(rows @ (np.round(relation * 1024.0) / 1024.0))


def _whitening(
    rows: Floats, weights: Floats, columns: Integers
) -> tuple[tuple[Floats, ...], Floats]:
    """Return the matrices that make the weighted rows white, one after the other, and the rows."""
    length = math.sqrt(len(rows))
    current, error = Pair(rows, np.zeros_like(rows)), np.zeros_like(rows)
    stages: list[Floats] = []
    while rows.shape[1]:
        triangle = np.linalg.qr(weights[:, np.newaxis] * current.high, mode="r")
        _, values, right = np.linalg.svd(triangle)
        if stages and values[-1] > 0.5 * length and values[0] < 2.0 * length:
            break
        if len(stages) == _MOST_STAGES:
            raise Untrustworthy(-1, _blamed(stages, columns))
        plain = not stages and values[0] <= _PLAIN * values[-1]
        stage = right.T * (length / np.maximum(values, _LEAST_VALUE * values[0]))
        current, error = _staged(current, error, stage, plain)
        stages.append(stage)
        if plain:
            break
    wrong = error.max(axis=1, initial=0.0) > _ACCURATE * np.abs(current.high).max(1, initial=0.0)
    if wrong.any():
        raise Untrustworthy(int(wrong.argmax()), _blamed(stages, columns))
    return tuple(stages), weights[:, np.newaxis] * current.high


def _blamed(stages: Sequence[Floats], columns: Integers) -> int:
    """Return the column that loses most digits by cancellation."""
    return int(columns[np.abs(_combined(stages)).max(axis=1).argmax()])


def _staged(rows: Pair, error: Floats, stage: Floats, plain: bool) -> tuple[Pair, Floats]:
    """Return rows times a matrix, and a bound on the error of every entry."""
    terms = np.abs(rows.high) @ np.abs(stage)
    if plain:
        result = Pair(rows.high @ stage, np.zeros_like(terms))
        return result, np.finfo(float).eps * len(stage) * terms
    return product(rows, stage), error @ np.abs(stage) + UNIT * len(stage) * terms


# ------------------------------------------------------------------------------- candidates


class Placed(NamedTuple):
    """Candidates in the arms' coordinates, as in `Reduced`, and the distance taken for equal."""

    places: Pair
    exponent: int
    reach: Floats
    error: float


def place(coordinates: Coordinates, candidates: Floats) -> Placed:
    """Return the coordinates of different candidates, relative to the first of them.

    Raises
    ------
    Untrustworthy
        If they differ too much in size for the arithmetic.
    """
    columns = coordinates.columns
    exponents = coordinates.exponents[columns]
    measured = candidates[:, columns]
    # An entry that is negligible beside the arms' features has no effect on any value.
    counts = (measured != 0.0) & (np.frexp(measured)[1] >= exponents + _NEGLIGIBLE)
    scaled, common = _scaled_down(np.where(counts, measured, 0.0), exponents)
    lost = counts & (np.frexp(scaled)[1] < _WIDEST_RANGE)
    if lost.any():
        row, column = np.argwhere(lost)[0]
        raise Untrustworthy(int(row), int(columns[column]))
    whole = _combined(coordinates.stages) if columns.size else np.zeros((0, 0))
    plain = len(coordinates.stages) == 1 and _is_mild(whole)
    places, error = _carried(coordinates, scaled, plain)
    if plain and _nearest(places.high, error / _ACCURATE):
        places, error = _carried(coordinates, scaled, False)
    rounding = ROUNDING * (np.abs(scaled) @ np.abs(whole))
    size, power = math.frexp(float(np.abs(places.high).max(initial=0.0)))
    up = power if size else 0
    exponent = common + up
    reach = np.minimum(
        np.ldexp(rounding, -up), math.ldexp(HARMLESS, min(max(-exponent, -900), 900))
    )
    places = Pair(np.ldexp(places.high, -up), np.ldexp(places.low, -up))
    return Placed(places, exponent, reach, math.ldexp(error, -up))


def _scaled_down(rows: Floats, exponents: Integers) -> tuple[Floats, int]:
    """Return rows over powers of two: one by column, and a common one so that none is above 1."""
    own = _exponents(rows)
    present = rows.any(axis=0)
    common = int((own - exponents)[present].max(initial=-(2**20))) if present.any() else 0
    return np.ldexp(rows, -exponents - common), common


def _is_mild(stage: Floats) -> bool:
    values = np.linalg.svd(stage, compute_uv=False)
    return bool(values[0] <= _PLAIN * values[-1])


def _carried(coordinates: Coordinates, scaled: Floats, plain: bool) -> tuple[Pair, float]:
    rows = exact_difference(scaled, scaled[0])
    error = np.zeros_like(scaled)
    for stage in coordinates.stages:
        rows, error = _staged(rows, error, stage, plain)
    return rows, float(np.linalg.norm(error, axis=1).max(initial=0.0))


def _nearest(places: Floats, distance: float) -> tuple[int, int] | None:
    """Return two rows that are nearer than a distance; if there are many, two that may be."""
    line, order = _in_order(places)
    for step in range(1, len(order)):
        near = np.flatnonzero(line[step:] - line[:-step] < distance)
        if not near.size:
            return None
        apart = np.linalg.norm(places[order[near + step]] - places[order[near]], axis=1)
        least = int(apart.argmin())
        if apart[least] < distance or step > _MOST_NEIGHBOURS:
            return int(order[near[least]]), int(order[near[least] + step])
    return None


def _in_order(places: Floats) -> tuple[Floats, Integers]:
    """Return places sorted along an arbitrary direction, so that near rows are neighbours."""
    direction = np.cos(np.arange(places.shape[1]))
    line = places @ (direction / max(1.0, float(np.linalg.norm(direction))))
    order = np.argsort(line, kind="stable")
    return line[order], order


def too_close(placed: Placed, kept: Integers) -> tuple[int, int] | None:
    """Return two different candidates whose difference is lost to rounding, if there are any."""
    found = _nearest(placed.places.high[kept], placed.error / _ACCURATE)
    return None if found is None else (int(kept[found[0]]), int(kept[found[1]]))


def measured(coordinates: Coordinates, candidates: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the coordinates of the candidates themselves, and which of them the arms measure."""
    left, rounding = _left_over(coordinates, candidates)
    columns = coordinates.columns
    with np.errstate(over="ignore"):
        scaled = np.ldexp(candidates[:, columns], -coordinates.exponents[columns])
    rows = Pair(scaled, np.zeros_like(scaled))
    for stage in coordinates.stages:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = product(rows, stage)
    inside = (np.abs(left) <= rounding).all(axis=1) & np.isfinite(rows.high).all(axis=1)
    return rows.high, np.asarray(inside)


def outside(coordinates: Coordinates, candidates: Floats) -> tuple[int, int] | None:
    """Return two candidates that differ along a direction that no arm measures, if there are any.

    Every candidate is compared with the best known one: the parts that the arms do not measure must
    be the same, up to the rounding of both.
    """
    left, rounding = _left_over(coordinates, candidates)
    if not left.size:
        return None
    best = int(rounding.max(axis=1).argmin())
    wrong = (np.abs(left - left[best]) > rounding + rounding[best]).any(axis=1)
    return (best, int(wrong.argmax())) if wrong.any() else None


def _left_over(coordinates: Coordinates, candidates: Floats) -> tuple[Floats, Floats]:
    """Return the part of candidates that arms do not measure, and how much may be rounding."""
    columns, others = coordinates.columns, coordinates.others
    exponents = coordinates.exponents.copy()
    measured = coordinates.relation.any(axis=0)
    # A feature that no arm has is measured by the candidates' own size, whatever its unit.
    exponents[others[~measured]] = _exponents(candidates[:, others[~measured]])
    scaled, _ = _scaled_down(candidates, exponents)
    left = scaled[:, others] - scaled[:, columns] @ coordinates.relation
    terms = np.abs(scaled[:, others]) + np.abs(scaled[:, columns]) @ np.abs(coordinates.relation)
    return left, ROUNDING * math.sqrt(exponents.size) * terms


# ------------------------------------------------------------------------- rows that are equal


def equal_rows(rows: Floats) -> tuple[tuple[int, ...], ...]:
    """Return groups of equal rows, by index, in the order of their first row."""
    groups: dict[bytes, list[int]] = {}
    for index, row in enumerate(rows + 0.0):  # so that -0.0 is 0.0
        groups.setdefault(row.tobytes(), []).append(index)
    return tuple(map(tuple, groups.values()))


def joined_where_close(rows: Floats, reach: Floats) -> tuple[tuple[int, ...], ...]:
    """Return groups of rows within `reach` (same shape), in the order of their first row.

    A row joins the first row that it is close to, never one that has itself joined another: a chain
    of rows could reach far.
    """
    line, order = _in_order(rows)
    slack = np.linalg.norm(reach, axis=1)[order]
    breaks = np.flatnonzero(np.diff(line) > slack[1:] + slack[:-1]) + 1
    members: dict[int, tuple[int, ...]] = {}
    for chain in np.split(order, breaks):
        waiting = np.sort(chain)
        while waiting.size:
            first = waiting[0]
            near = (np.abs(rows[waiting] - rows[first]) <= reach[waiting] + reach[first]).all(1)
            members[int(first)] = tuple(waiting[near].tolist())
            waiting = waiting[~near]
    return tuple(members[first] for first in sorted(members))


# --------------------------------------------------------------------------------- condition


def condition_of(rows: Floats, weights: Floats, rank: int) -> float:
    """Return the condition number of the sum of weight times row row', columns scaled.

    Only as many directions count as the rank.
    """
    used = weights > 0.0
    rows = rows[used] * np.sqrt(weights[used])[:, np.newaxis]
    units = np.linalg.norm(rows, axis=0)
    triangle = np.linalg.qr(rows / np.where(units > 0.0, units, 1.0), mode="r")
    values = np.linalg.svd(triangle, compute_uv=False)
    if not 0 < rank <= values.size or values[rank - 1] == 0.0:
        return math.inf
    return float((values[0] / values[rank - 1]) ** 2)

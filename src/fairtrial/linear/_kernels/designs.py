"""Optimal designs: shares of the pulls that measure all arms, or all differences, best.

G-optimal shares minimise the largest form ``x' L^-1 x`` over arms. The other designs minimise the
largest ``y' L^-1 y`` over directions y: given ones, or all differences of given points. The solvers
work on a few arms and directions at a time and price all others against them. A pass over all arms
and directions certifies their bounds.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from fairtrial.linear._kernels.solvers import (
    exchange,
    farthest_partners,
    forward_solved,
    information,
    interior_point,
    inverse,
    quadratic_forms,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_RANK = 1e-10
_ROUNDING = 1e-12
_START_ROUNDS = 50
_STALLED = 12
"""Rounds without progress of either bound after which rounding prevents any more progress."""

_START_GAP = 0.1
_ENTERING = 2
"""Most arms and directions that can enter in a round, as a multiple of the rank."""

_ROOM = 1.1

_FEW = 8
"""Nothing is dropped from sets smaller than this multiple of the rank."""

_PRICE, _MASS, _NEAR = 1e-3, 1e-5, 0.95
"""Prices and masses below these fractions of the largest are dropped, unless nearly tight."""


# ------------------------------------------------------------------------------ linear algebra


def span(rows: Floats) -> Floats:
    """Return an orthonormal basis of the span of the rows, as columns."""
    _, values, right = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=False)
    return np.asarray(right[values > _RANK * values[0]].T)


class Metric:
    """Forms of rows under the inverse information of a design, to full accuracy."""

    def __init__(self, arms: Floats, shares: Floats) -> None:
        support = np.flatnonzero(shares)
        self._basis = span(arms[support])
        # Heavy rows come first to keep the triangle accurate if shares differ by many orders of
        # magnitude.
        order = support[np.argsort(-shares[support], kind="stable")]
        rows = np.sqrt(shares[order])[:, np.newaxis] * (arms[order] @ self._basis)
        self._triangle: Floats = np.asarray(np.linalg.qr(rows, mode="r"))

    def images(self, rows: Floats) -> Floats:
        """Return rows whose squared lengths are the forms of the given rows."""
        return forward_solved(self._triangle, np.ascontiguousarray(rows @ self._basis))

    def forms(self, rows: Floats) -> Floats:
        """Return ``y' L^-1 y`` for rows in the span of the design's arms."""
        return np.asarray((self.images(rows) ** 2).sum(axis=1))


# ----------------------------------------------------------------------------------- G-optimal


def g_design(
    arms: Floats, start: Integers, tol: float, rounds: int, deadline: float = math.inf
) -> tuple[Floats, float]:
    """Return G-optimal shares of the arms, and the largest form, which is at least the rank.

    `start`: arms that span the space. Stop when the largest form is within `tol` of the optimum,
    after `rounds` rounds, or at the deadline on the clock `time.monotonic`.
    """
    number, rank = arms.shape
    weights = np.zeros(number)
    if rank == 1:
        weights[np.abs(arms[:, 0]).argmax()] = 1.0
        return weights, 1.0
    active, shares = start, np.full(rank, 1.0 / rank)
    least, excess = math.inf, 1.0
    for _ in range(rounds):
        rows = arms[active]
        exchange(rows, shares, max(0.5 * tol, 0.1 * min(excess, 1.0)))
        forms = quadratic_forms(arms, inverse(information(rows, shares)))
        if forms.max() < least:
            least = float(forms.max())
            weights[:] = 0.0
            weights[active] = shares
        excess = least / rank - 1.0
        if excess <= tol or time.monotonic() > deadline:
            break
        forms[active] = 0.0
        entering = _largest(forms, rank * (1.0 + 0.5 * tol), 2 * rank)
        keep = shares > 0.0
        active = np.concatenate([active[keep], entering])
        shares = np.concatenate([shares[keep], np.zeros(entering.size)])
    return weights, least


def _largest(values: Floats, above: float, number: int) -> Integers:
    """Return the indices of the largest values above a limit, best first, at most `number`."""
    candidates = np.flatnonzero(values > above)
    if candidates.size > number:
        candidates = candidates[np.argpartition(-values[candidates], number - 1)[:number]]
    return candidates[np.argsort(-values[candidates], kind="stable")]


# ------------------------------------------------------------- minimise the largest of many forms


class Search:
    """Search for the directions that a design measures worst, among given ones."""

    def __init__(self, points: Floats) -> None:
        self._points = np.ascontiguousarray(points)

    def span(self) -> Floats:
        """Return rows that span all directions."""
        return self._points

    def largest(self, metric: Metric) -> float:
        """Return the largest form over all directions."""
        return float(metric.forms(self._points).max())

    def worst(self, precision: Floats, above: float, number: int) -> tuple[float, Integers]:
        """Return the largest form if it is above the limit, and the worst directions as rows.

        A direction is a row of two points; if directions are single points, the second is -1.
        """
        forms = quadratic_forms(self._points, precision)
        first = _largest(forms, above, number)
        return float(forms.max()), np.column_stack([first, np.full(first.size, -1)])

    def rows(self, directions: Integers) -> Floats:
        """Return the directions' coordinates."""
        return self._points[directions[:, 0]]


class PairSearch(Search):
    """Search for the differences that a design measures worst, among all pairs of given points."""

    def span(self) -> Floats:
        """Return rows that span all directions."""
        return np.asarray(self._points - self._points[0])

    def largest(self, metric: Metric) -> float:
        """Return the largest form over all directions."""
        forms, _ = self._partners(metric.images(self._points - self._points[0]), 0.0)
        return float(forms.max())

    def worst(self, precision: Floats, above: float, number: int) -> tuple[float, Integers]:
        """Return the largest form if it is above the limit, and the worst directions as rows."""
        images = self._points @ np.linalg.cholesky(precision)
        forms, partners = self._partners(images, above)
        first = _largest(forms, above, 2 * number)
        pairs = np.sort(np.column_stack([first, partners[first]]), axis=1)
        _, places = np.unique(pairs, axis=0, return_index=True)
        return float(forms.max()), pairs[np.sort(places)[:number]]

    def rows(self, directions: Integers) -> Floats:
        """Return the directions' coordinates."""
        return self._points[directions[:, 0]] - self._points[directions[:, 1]]

    @staticmethod
    def _partners(images: Floats, above: float) -> tuple[Floats, Integers]:
        images = images - images.mean(axis=0)
        squares = (images**2).sum(axis=1)
        order = np.argsort(-squares, kind="stable")
        ordered_forms, ordered_partners = farthest_partners(images[order], squares[order], above)
        forms, partners = np.empty_like(ordered_forms), np.empty_like(order)
        forms[order] = ordered_forms
        partners[order] = order[ordered_partners]
        return forms, partners


class MinMaxSolver:
    """Minimise the largest form, using a few arms and directions at a time and pricing the rest.

    Attributes
    ----------
    best : ndarray of shape (K,)
        The best shares so far; their largest form is `upper`.
    lower, upper : float
        Certified bounds on the optimum.
    """

    def __init__(
        self, arms: Floats, start: Integers, search: Search, deadline: float = math.inf
    ) -> None:
        self._arms, self._search, self._deadline = arms, search, deadline
        self._entering, self._few = _ENTERING * arms.shape[1], _FEW * arms.shape[1]
        self._start, self._tol = start, _START_GAP
        self.lower = 0.0
        self._begin()

    def _begin(self) -> None:
        """Start with a rough G-optimal design and the directions that it measures worst."""
        number = len(self._arms)
        shares, _ = g_design(self._arms, self._start, _START_GAP, _START_ROUNDS, self._deadline)
        spread = np.arange(number) if number <= self._few else self._start
        shares *= 0.9
        shares[spread] += 0.1 / spread.size
        precision = inverse(information(self._arms, shares))
        self.best = shares
        self.upper, self._directions = self._search.worst(precision, 0.0, self._entering)
        self._active = np.flatnonzero(shares)
        self._masses = shares[self._active] * (_ROOM * self.upper)
        self._prices = np.zeros(len(self._directions))

    @property
    def _gap(self) -> float:
        return self.upper / self.lower - 1.0 if self.lower > 0.0 else math.inf

    def run(self, tol: float, rounds: int) -> None:
        """Continue until within `tol`, until time is up, or until rounding prevents progress."""
        self._tol = tol
        idle = 0
        for _ in range(rounds):
            before = self.lower, self.upper
            self._round()
            idle = idle + 1 if before == (self.lower, self.upper) else 0
            out_of_time = time.monotonic() > self._deadline
            if self._gap <= tol or idle == _STALLED or out_of_time:
                break

    def _round(self) -> None:
        """Solve for the current arms and directions, then price all others."""
        tol, gap = self._tol, min(self._gap, 1.0)
        rows, directions = self._arms[self._active], self._search.rows(self._directions)
        interior_point(rows, directions, self._masses, self._prices, 0.3 * max(tol, gap))
        precision = inverse(information(rows, self._masses))
        forms = quadratic_forms(directions, precision)
        spread = precision @ information(directions, self._prices) @ precision
        gains = quadratic_forms(self._arms, spread)
        most, entering = self._search.worst(precision, float(forms.max()), self._entering)
        most = max(most, float(forms.max()))
        self._note_bounds(forms, gains, most)
        self._exchange_arms(gains)
        self._exchange_directions(forms, entering)
        room = max(1.0, _ROOM * most)
        self._masses *= room
        self._prices *= room

    def _note_bounds(self, forms: Floats, gains: Floats, most: float) -> None:
        # By Cauchy's inequality, for all prices p, all P and all shares lam,
        # (sum p y'P y)^2 <= (sum p y' L(lam)^-1 y) (sum p y'P L(lam) P y).
        prices, total = self._prices, float(self._masses.sum())
        lower = float(prices @ forms) ** 2 / float(prices.sum() * gains.max())
        self.lower = max(self.lower, lower * (1.0 - _ROUNDING))
        if most * total < self.upper:
            self.upper = most * total
            self.best = np.zeros(len(self._arms))
            self.best[self._active] = self._masses / total

    def _exchange_arms(self, gains: Floats) -> None:
        own = gains[self._active]
        gains[self._active] = 0.0
        above = float(own.max()) * (1.0 + 0.1 * self._tol)
        entering = _largest(gains, above, self._entering)
        keep = _important(self._masses, _MASS, own, self._few)
        keep |= np.isin(self._active, self._start)
        light = np.full(entering.size, 0.01 * self._masses.mean())
        self._active = np.concatenate([self._active[keep], entering])
        self._masses = np.concatenate([self._masses[keep], light])

    def _exchange_directions(self, forms: Floats, entering: Integers) -> None:
        keep = _important(self._prices, _PRICE, forms, self._few)
        low = np.full(len(entering), 0.1 * self._prices.mean())
        self._directions = np.concatenate([self._directions[keep], entering])
        self._prices = np.concatenate([self._prices[keep], low])


def _important(multipliers: Floats, part: float, values: Floats, few: int) -> NDArray[np.bool_]:
    """Return which entries have a multiplier or are nearly tight; all of them if they are few."""
    large = multipliers > part * multipliers.max()
    return np.asarray(large | (values > _NEAR * values.max()) | (values.size <= few))

"""Find the shares of pulls that give the hardest comparison the most information, certified.

The information on a comparison is concave and homogeneous in the shares, so its derivatives at any
shares bound it everywhere: a *cut*. A linear programme over all cuts so far gives the next shares
to evaluate, and multipliers. The bound is computed again from the multipliers, so it holds whatever
the solver's tolerance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["CutsAt", "best_shares"]

Floats = NDArray[np.float64]
CutsAt = Callable[[Floats], tuple[float, Floats]]
"""Maps shares (K, L) to the information on the hardest comparison and to cuts (n, K, L)."""

_MOST_ROUNDS = 1_000
_BLENDS = (0.5, 0.05)
_CUTS_PER_CELL = 8
_SOLVER_TOLERANCES = (1e-10, 1e-9, 1e-7)
"""Tried in this order: with the strictest one, the solver sometimes gives up."""


def best_shares(
    cuts_at: CutsAt,
    start: Floats,
    totals: Floats,
    tol: float,
    least: float = 0.0,
    max_seconds: float | None = None,
) -> tuple[float, float, Floats]:
    """Return certified bounds on T*, twice the inverse of the information, and the best shares.

    Parameters
    ----------
    cuts_at : callable
        Returns the information that shares give on the hardest comparison, and the cuts there.
    start : ndarray of shape (K, L)
        Shares to begin with.
    totals : ndarray of shape (1,) or (L,)
        The sum of all shares, or the sum of each column.
    tol : float
        Relative distance between the bounds at which the search ends.
    least : float
        Weight of even shares to mix in, if the derivatives need every share to be positive.
    max_seconds : float, optional
        Time after which the search ends without reaching `tol`.
    """
    deadline = math.inf if max_seconds is None else time.monotonic() + max_seconds
    bundle = _Bundle(cuts_at, start, totals, least)
    for _ in range(_MOST_ROUNDS):
        before = bundle.information, bundle.ceiling
        target = bundle.lower_ceiling()
        if target is None or bundle.ceiling <= (1.0 + tol) * bundle.information:
            break
        for blend in _BLENDS:
            bundle.look_at((1.0 - blend) * bundle.shares + blend * target)
        if (bundle.information, bundle.ceiling) == before:
            bundle.look_at(target)
        if time.monotonic() > deadline:
            break
    upper = 2.0 / bundle.information
    return min(2.0 / bundle.ceiling, upper), upper, bundle.shares


class _Bundle:
    """The best shares so far, their F (`information`), and the cuts: no F is above `ceiling`."""

    def __init__(self, cuts_at: CutsAt, shares: Floats, totals: Floats, least: float) -> None:
        self._cuts_at, self._totals, self._least = cuts_at, totals, least
        self._cuts = np.empty((0, *shares.shape))
        self.shares = shares
        self.information = 0.0
        self.ceiling = math.inf
        self.look_at(shares)

    def look_at(self, shares: Floats) -> None:
        """Add the cuts at these shares; keep the shares if they are the best so far."""
        if self._least > 0.0:
            even = self._totals / (shares.size if self._totals.size == 1 else len(shares))
            shares = (1.0 - self._least) * shares + self._least * even
        information, cuts = self._cuts_at(shares)
        self._cuts = np.concatenate([self._cuts, cuts])
        self.ceiling = min([self.ceiling, *(self._worth(cut) for cut in cuts)])
        if information > self.information:
            self.information, self.shares = float(information), shares

    def lower_ceiling(self) -> Floats | None:
        """Lower the ceiling by the best combination of cuts; return the most promising shares."""
        solution = self._solve_programme()
        if solution is None:
            return None
        target, multipliers = solution
        # Any convex combination of cuts is a cut, so this holds even if the solver is inexact.
        self.ceiling = min(self.ceiling, self._worth(np.tensordot(multipliers, self._cuts, 1)))
        if len(self._cuts) > _CUTS_PER_CELL * target.size:
            self._cuts = self._cuts[multipliers > 0.0]
        return target

    def _solve_programme(self) -> tuple[Floats, Floats] | None:
        """Return the shares for which the lowest cut is highest, and the cuts' multipliers."""
        number, cells = len(self._cuts), self.shares.size
        cuts = self._cuts.reshape(number, cells)
        # The solver's tolerances are absolute, so F is measured in units of its current value, and
        # every cut in units of its largest entry.
        units = cuts.max(axis=1)
        for tolerance in _SOLVER_TOLERANCES:
            found = scipy.optimize.linprog(
                np.append(np.zeros(cells), -1.0),
                A_ub=np.column_stack([-cuts / units[:, np.newaxis], self.information / units]),
                b_ub=np.zeros(number),
                A_eq=np.column_stack([self._sums(), np.zeros(self._totals.size)]),
                b_eq=self._totals,
                method="highs-ds",
                options={
                    "primal_feasibility_tolerance": tolerance,
                    "dual_feasibility_tolerance": tolerance,
                },
            )
            if found.x is not None:
                multipliers = np.maximum(-found.ineqlin.marginals, 0.0) / units
                target = np.maximum(found.x[:cells], 0.0).reshape(self.shares.shape)
                return target, multipliers / multipliers.sum()
        return None

    def _sums(self) -> Floats:
        """Return the matrix that sums flattened shares, all together or in each group."""
        arms, groups = self.shares.shape
        return (
            np.ones((1, arms * groups)) if self._totals.size == 1 else np.tile(np.eye(groups), arms)
        )

    def _worth(self, cut: Floats) -> float:
        """Return the largest value of a cut over all shares."""
        if self._totals.size == 1:
            return float(cut.max())
        return float(self._totals @ cut.max(axis=0))

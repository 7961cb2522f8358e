"""Overlapping groups: compute shares of single arms that serve every group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.allocation.problem import (
    MAX_DENOMINATOR,
    Group,
    Share,
    as_group,
    as_groups,
    as_shares,
)
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_labels
from fairtrial.errors import InvalidArgument

__all__ = ["cover_groups"]

Floats = NDArray[np.float64]
Places = Sequence[Sequence[int]]
"""The members of every group, as indices of arms."""

_ZERO = 1e-9
_ACCURACY = 1e-6  # of the solver, with much to spare


@named_arguments
def cover_groups(
    arms: Sequence[str] | int,
    groups: Mapping[str, Any],
    shares: Share | Sequence[Share] | Mapping[str, Share] = 0,
) -> dict[str, Fraction]:
    """Return shares of the arms that give every group its share, even if groups overlap.

    Of all such shares, these have the smallest sum, which leaves the learner the most rounds. A
    problem with these shares serves every group at every moment: after every round t, a group of
    share R > 0 has had more than ``R t - n (1 + tolerance)`` pulls, where n is the number of its
    members that have a share. Groups without common arms can be given to `Problem` directly, which
    serves them to within one pull.

    Parameters
    ----------
    arms : sequence of str, or int
        Labels of the k arms, or their number.
    groups : mapping
        Label to ``(share, members)``, or to ``{"share": ..., "members": [...]}``; an arm may be
        in any number of groups.
    shares : share, sequence of k shares, or mapping of label to share
        The share of each arm itself; 0 by default.

    Returns
    -------
    dict of str to Fraction
        The share of every arm, as an argument for `Problem`. They satisfy all groups' shares
        exactly.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the groups need more than all pulls; the message names
        the groups that demand too much.

    Notes
    -----
    The shares solve a linear program (HiGHS, by scipy). Its solution is converted to fractions, and
    the groups' demands are checked with these fractions.

    Examples
    --------
    >>> cover_groups(["a", "b", "c"], {"g": ("1/4", ["a", "b"]), "h": ("1/3", ["b", "c"])})
    {'a': Fraction(0, 1), 'b': Fraction(1, 3), 'c': Fraction(0, 1)}
    """
    labels = check_labels("arms", arms)
    least = as_shares(labels, shares)
    found = {label: as_group(labels, label, value) for label, value in as_groups(groups)}
    inside = [sorted(map(labels.index, members)) for _, members in found.values()]
    demands = [share for share, _ in found.values()]
    solution, prices = _solve(inside, demands, least)
    for candidate in _fractions(solution, inside, demands, least):
        if _serves(candidate, inside, demands, least):
            return dict(zip(labels, candidate, strict=True))
    raise _refusal(found, least, prices, float(solution.sum()))


def _solve(
    inside: Places, demands: Sequence[Fraction], least: Sequence[Fraction]
) -> tuple[Floats, Floats]:
    """Return the shares of least sum, at a vertex, and the dual price of each group's share."""
    if not demands:
        return np.array([float(share) for share in least]), np.zeros(0)
    matrix = np.zeros((len(demands), len(least)))
    for row, members in zip(matrix, inside, strict=True):
        row[members] = 1.0
    result = scipy.optimize.linprog(
        np.ones(len(least)),
        A_ub=-matrix,
        b_ub=-np.array([float(share) for share in demands]),
        bounds=[(float(share), None) for share in least],
        method="highs-ds",
    )
    return np.array(result.x), -np.array(result.ineqlin.marginals)


def _fractions(
    solution: Floats, inside: Places, demands: Sequence[Fraction], least: Sequence[Fraction]
) -> Iterator[tuple[Fraction, ...]]:
    """Yield candidates for the solution in fractions: the vertex itself, then rounded up."""
    vertex = _vertex(solution, inside, demands, least)
    if vertex is not None:
        yield vertex
        yield _rounded_up(vertex)
    yield _rounded_up([Fraction(float(share) + _ACCURACY) for share in solution])


def _rounded_up(shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
    size = MAX_DENOMINATOR
    return tuple(Fraction(math.ceil(share * size), size) for share in shares)


def _vertex(
    solution: Floats, inside: Places, demands: Sequence[Fraction], least: Sequence[Fraction]
) -> tuple[Fraction, ...] | None:
    """Return the point at which the same demands are tight; None if it is not unique."""
    lifted = [arm for arm, share in enumerate(least) if solution[arm] > float(share) + _ZERO]
    shares = list(least)
    rows = []
    for members, demand in zip(inside, demands, strict=True):
        if solution[members].sum() < float(demand) + _ZERO:
            left = demand - sum(least[arm] for arm in members)
            rows.append([*(Fraction(arm in members) for arm in lifted), left])
    rises = _solve_exactly(rows, len(lifted))
    if rises is None:
        return None
    for arm, rise in zip(lifted, rises, strict=True):
        shares[arm] += rise
    return tuple(shares)


def _solve_exactly(rows: list[list[Fraction]], unknowns: int) -> list[Fraction] | None:
    """Solve linear equations, each with its right side last; return None if it is not unique."""
    for column in range(unknowns):
        pivot = next((row for row in rows[column:] if row[column]), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        pivot = [value / pivot[column] for value in pivot]
        rows = [_eliminated(row, pivot, column) for row in rows]
        rows.insert(column, pivot)
    return [row[-1] for row in rows[:unknowns]]


def _eliminated(row: list[Fraction], pivot: list[Fraction], column: int) -> list[Fraction]:
    factor = row[column]
    return [value - factor * other for value, other in zip(row, pivot, strict=True)]


def _serves(
    shares: Sequence[Fraction],
    inside: Places,
    demands: Sequence[Fraction],
    least: Sequence[Fraction],
) -> bool:
    """Return whether the shares satisfy all demands exactly and are feasible themselves."""
    served = all(
        sum(shares[arm] for arm in members) >= demand
        for members, demand in zip(inside, demands, strict=True)
    )
    enough = all(share >= own for share, own in zip(shares, least, strict=True))
    countable = math.lcm(*(share.denominator for share in shares)) <= MAX_DENOMINATOR
    return served and enough and countable and sum(shares) <= 1


def _refusal(
    found: Mapping[str, Group], least: Sequence[Fraction], prices: Floats, total: float
) -> InvalidArgument:
    if total <= 1.0 + _ACCURACY:
        accepted = (
            f"need shares with a common denominator above {MAX_DENOMINATOR}, and leave no "
            "room to round them up; round the groups' shares downwards"
        )
        return InvalidArgument("groups", accepted, found)
    who = [repr(label) for label, price in zip(found, prices, strict=True) if price > _ZERO]
    if any(least):
        who.append("the arms' own shares")
    accepted = (
        f"must leave enough for all: {', '.join(who)} need {total:.6g} of all pulls together, "
        "and no schedule has more than 1"
    )
    return InvalidArgument("groups", accepted)

"""Pitfalls in exact rational arithmetic, slow and obvious: the reference of the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fairtrial.subpopulations._kernels.model import Model

Row = Sequence[float]
Exact = list[Fraction]


def exact(row: Row) -> Exact:
    return [Fraction(float(x)) for x in row]


def limits_of(floors: object, ceilings: object = math.inf) -> np.ndarray:
    """Return floors and ceilings in the kernels' form, shape (2, ...)."""
    return np.stack(np.broadcast_arrays(np.asarray(floors, float), np.asarray(ceilings, float)))


def model_of(
    weights: np.ndarray,
    floors: np.ndarray,
    variances: np.ndarray | float = 1.0,
    tolerance: float = 0.0,
    floor_tolerance: float = 0.0,
    ceilings: np.ndarray | float = math.inf,
) -> Model:
    """Return a problem in the kernels' form; every cell matters, and all cost the same."""
    floors = np.asarray(floors, dtype=np.float64)
    return Model(
        weights=np.asarray(weights, dtype=np.float64),
        limits=limits_of(floors, ceilings),
        own_limits=limits_of(floors - floor_tolerance, ceilings + floor_tolerance),
        rival_limits=limits_of(floors + floor_tolerance, ceilings - floor_tolerance),
        variances=np.ascontiguousarray(np.broadcast_to(variances, floors.shape).astype(float)),
        costs=np.ones(floors.shape),
        active=np.ones(floors.shape),
        tolerance=tolerance,
    )


def clipped(x: Fraction, floor: float, ceiling: float) -> Fraction:
    x = max(x, Fraction(float(floor))) if floor > -math.inf else x
    return min(x, Fraction(float(ceiling))) if ceiling < math.inf else x


def exact_pair(
    mean_b: Row,
    prec_b: Row,
    mean_k: Row,
    prec_k: Row,
    weights: Row,
    limits_k: Sequence[Row],
    slack: float = 0.0,
) -> Fraction:
    """Return the least weighted distance of means at which k is feasible and better than b.

    It follows the break points of the gap, at which another cell of k leaves its floor or reaches
    its ceiling. A cell without precision moves for free, as far as it may.
    """
    mu_b, w_b, mu_k, w_k, q = map(exact, (mean_b, prec_b, mean_k, prec_k, weights))
    floor_k, ceiling_k = limits_k
    cells = [cell for cell in range(len(q)) if q[cell] > 0]

    def held(cell: int, x: Fraction) -> Fraction:
        return clipped(x, floor_k[cell], ceiling_k[cell])

    start = [held(cell, mu) for cell, mu in enumerate(mu_k)]

    def moved(s: Fraction) -> tuple[Exact, Exact]:
        low, high = list(mu_b), list(start)
        for cell in cells:
            low[cell] = mu_b[cell] - s * q[cell] / w_b[cell]
            if w_k[cell] > 0:
                high[cell] = held(cell, mu_k[cell] + s * q[cell] / w_k[cell])
            else:
                high[cell] = Fraction(float(ceiling_k[cell]))
        return low, high

    def gap(low: Exact, high: Exact) -> Fraction:
        return Fraction(slack) + sum(
            (q[cell] * (low[cell] - high[cell]) for cell in cells), Fraction(0)
        )

    def distance(low: Exact, high: Exact) -> Fraction:
        return sum(
            (
                w_b[cell] * (mu_b[cell] - low[cell]) ** 2
                + w_k[cell] * (mu_k[cell] - high[cell]) ** 2
                for cell in range(len(q))
            ),
            Fraction(0),
        )

    unbounded = any(
        w_b[cell] == 0 or (w_k[cell] == 0 and ceiling_k[cell] == math.inf) for cell in cells
    )
    if gap(mu_b, start) <= 0 or unbounded or gap(*moved(Fraction(0))) <= 0:
        return distance(mu_b, start)
    bends = {
        (Fraction(float(end[cell])) - mu_k[cell]) * w_k[cell] / q[cell]
        for cell in cells
        for end in limits_k
        if math.isfinite(end[cell])
    }
    left = Fraction(0)
    for point in sorted(bend for bend in bends if bend > 0):
        if gap(*moved(point)) <= 0:
            right = point
            break
        left = point
    else:
        right = left + 1
    fall = (gap(*moved(left)) - gap(*moved(right))) / (right - left)
    return distance(*moved(left + gap(*moved(left)) / fall))


def exact_none(mean_k: Row, prec_k: Row, limits_k: Sequence[Row]) -> Fraction:
    """Return the weighted distance of an arm outside its limits to them."""
    total = Fraction(0)
    for mu, w, floor, ceiling in zip(exact(mean_k), exact(prec_k), *limits_k, strict=True):
        total += w * (clipped(mu, floor, ceiling) - mu) ** 2
    return total


def exact_best(means: Sequence[Row], weights: Row, limits: Sequence[Sequence[Row]]) -> int:
    """Return the feasible arm with the largest quality, -1 if there is none."""
    q = exact(weights)
    best, most = -1, None
    for k, (row, floors, ceilings) in enumerate(zip(means, *limits, strict=True)):
        if any(not c <= mu <= d for mu, c, d in zip(row, floors, ceilings, strict=True)):
            continue
        quality = sum((x * mu for x, mu in zip(q, exact(row), strict=True)), Fraction(0))
        if most is None or quality > most:
            best, most = k, quality
    return best


def exact_weakest(
    best: int,
    means: Sequence[Row],
    precisions: Sequence[Row],
    weights: Row,
    own_limits: np.ndarray,
    rival_limits: np.ndarray,
    slack: float = 0.0,
) -> Fraction | None:
    """Return F, the least of all pitfalls of the answer `best`; None if there is no pitfall."""
    pitfalls = []
    for k in range(len(means)):
        if best < 0:
            pitfalls.append(exact_none(means[k], precisions[k], rival_limits[:, k]))
        elif k != best:
            pitfalls.append(
                exact_pair(
                    means[best],
                    precisions[best],
                    means[k],
                    precisions[k],
                    weights,
                    rival_limits[:, k],
                    slack,
                )
            )
    if best >= 0:
        for ends in own_limits[:, best]:
            for mu, w, c in zip(exact(means[best]), exact(precisions[best]), ends, strict=True):
                if math.isfinite(c):
                    pitfalls.append(w * (mu - Fraction(float(c))) ** 2)
    return min(pitfalls, default=None)

"""Pitfalls in exact rational arithmetic, slow and obvious: the reference of the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

Row = Sequence[float]
Exact = list[Fraction]


def exact(row: Row) -> Exact:
    return [Fraction(float(x)) for x in row]


def exact_pair(
    mean_b: Row,
    prec_b: Row,
    mean_k: Row,
    prec_k: Row,
    weights: Row,
    floor_k: Row,
    slack: float = 0.0,
) -> Fraction:
    """Return the least weighted distance of means at which k is feasible and better than b.

    Walks along the break points of the gap, at which another cell of k leaves its floor.
    """
    mu_b, w_b, mu_k, w_k, q = map(exact, (mean_b, prec_b, mean_k, prec_k, weights))
    start = [
        max(mu, Fraction(float(c))) if c > -math.inf else mu
        for mu, c in zip(mu_k, floor_k, strict=True)
    ]
    cells = [cell for cell in range(len(q)) if q[cell] > 0]

    def moved(s: Fraction) -> tuple[Exact, Exact]:
        low, high = list(mu_b), list(start)
        for cell in cells:
            low[cell] = mu_b[cell] - s * q[cell] / w_b[cell]
            high[cell] = max(start[cell], mu_k[cell] + s * q[cell] / w_k[cell])
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

    if gap(mu_b, start) <= 0 or any(w_b[cell] == 0 or w_k[cell] == 0 for cell in cells):
        return distance(mu_b, start)
    left = Fraction(0)
    for point in sorted((start[cell] - mu_k[cell]) * w_k[cell] / q[cell] for cell in cells):
        if gap(*moved(point)) <= 0:
            right = point
            break
        left = point
    else:
        right = left + 1
    fall = (gap(*moved(left)) - gap(*moved(right))) / (right - left)
    return distance(*moved(left + gap(*moved(left)) / fall))


def exact_none(mean_k: Row, prec_k: Row, floor_k: Row) -> Fraction:
    """Return the weighted distance of an arm to its floors, from below."""
    total = Fraction(0)
    for mu, w, c in zip(exact(mean_k), exact(prec_k), floor_k, strict=True):
        if c > -math.inf and mu < Fraction(float(c)):
            total += w * (Fraction(float(c)) - mu) ** 2
    return total


def exact_best(means: Sequence[Row], weights: Row, floors: Sequence[Row]) -> int:
    """Return the feasible arm of the largest quality, -1 if there is none."""
    q = exact(weights)
    best, most = -1, None
    for k, (row, floor) in enumerate(zip(means, floors, strict=True)):
        if any(mu < c for mu, c in zip(row, floor, strict=True)):
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
    lowered: Sequence[Row],
    raised: Sequence[Row],
    slack: float = 0.0,
) -> Fraction | None:
    """Return F, the least of all pitfalls of the answer `best`; None if there is no pitfall."""
    pitfalls = []
    for k in range(len(means)):
        if best < 0:
            pitfalls.append(exact_none(means[k], precisions[k], raised[k]))
        elif k != best:
            pitfalls.append(
                exact_pair(
                    means[best],
                    precisions[best],
                    means[k],
                    precisions[k],
                    weights,
                    raised[k],
                    slack,
                )
            )
    if best >= 0:
        for mu, w, c in zip(
            exact(means[best]), exact(precisions[best]), lowered[best], strict=True
        ):
            if c > -math.inf:
                pitfalls.append(w * (mu - Fraction(float(c))) ** 2)
    return min(pitfalls, default=None)

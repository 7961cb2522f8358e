"""Block betting on several measures, slow and obvious: the inner problem, and the bets.

It shares no code with the package: every subset of rows is tried, and every factor is multiplied
separately.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from tests.subpopulations.slow_blocks import CAP, grid, log_bet, mixture

Floats = np.ndarray


@dataclass
class Row:
    """A limit as a lower one: the sum over groups of alpha times h @ mean is at least the bound."""

    alpha: Floats
    h: Floats
    bound: float

    def short(self, means: Floats) -> float:
        """Return how much means of shape (L, M) miss it."""
        return self.bound - float(self.alpha @ (means @ self.h))


@dataclass
class Inner:
    """The value of an item, its multipliers, and what a pull of a cell adds to the value."""

    value: float
    x: Floats
    gradient: dict[str, Floats] = field(default_factory=dict)


def inner(
    target: tuple[Floats, Floats, Floats] | None,
    rival: tuple[Floats, Floats, Floats],
    q: Floats,
    g: Floats,
    rows: list[Row],
    tolerance: float = 0.0,
) -> Inner:
    """Solve "the rival keeps its rows, and is as good as the target", by trying all active sets.

    Target and rival: means (L, M), covariances (L, M, M) and pulls (L). x[0] is the multiplier of
    the objective. Rows with a cell without pulls are left out.
    """
    means, covariances, pulls = rival
    objective = Row(q, g, math.nan)
    short = [math.nan if target is None else float(q @ ((target[0] - means) @ g)) + tolerance]
    short += [row.short(means) for row in rows]
    everything = [objective, *rows]
    kept = [
        i
        for i, row in enumerate(everything)
        if not (i == 0 and target is None)
        and (pulls[row.alpha != 0] > 0).all()
        and not (i == 0 and (target[2][q != 0] == 0).any())
    ]

    def product(i: int, j: int) -> float:
        total = 0.0
        for group, w in enumerate(pulls):
            both = everything[i].alpha[group] * everything[j].alpha[group]
            if both:
                total += both * everything[i].h @ covariances[group] @ everything[j].h / w
        if i == j == 0:
            own = zip(q, target[1], target[2], strict=True)
            total += sum(p**2 * (g @ s @ g) / w for p, s, w in own if p)
        return float(total)

    best = Inner(0.0, np.zeros(len(everything)))
    for size in range(1, len(kept) + 1):
        for active in itertools.combinations(kept, size):
            matrix = np.array([[product(i, j) for j in active] for i in active])
            wanted = np.array([short[i] for i in active])
            solved = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
            value = 2 * wanted @ solved - solved @ matrix @ solved
            if (solved >= 0).all() and value > best.value * (1 + 1e-13):
                x = np.zeros(len(everything))
                x[list(active)] = solved
                best = Inner(float(value), x)
    pull = sum(x * np.outer(row.alpha, row.h) for x, row in zip(best.x, everything, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.einsum("lm,lmn,ln->l", pull, covariances, pull) / pulls**2
        best.gradient["rival"] = np.where((pull != 0).any(axis=1), own, 0.0)
        if target is not None:
            moved = (best.x[0] * q) ** 2 * np.einsum("m,lmn,n->l", g, target[1], g)
            best.gradient["target"] = np.where(moved > 0, moved / target[2] ** 2, 0.0)
    return best


@dataclass
class Condition:
    """A row on the means of several arms: their product with coefficients is at least the bound."""

    coefficients: Floats
    bound: float


def nearest(
    means: Floats, covariances: Floats, pulls: Floats, conditions: list[Condition]
) -> tuple[float, Floats, Floats]:
    """Return the distance to means that satisfy all conditions, by trying all active sets.

    Also return the multipliers, and the derivatives by the pulls. Means have the shape (K, L, M),
    and so do coefficients. Conditions on a cell without pulls are left out.
    """
    kept = [
        i
        for i, one in enumerate(conditions)
        if (pulls[(one.coefficients != 0).any(axis=2)] > 0).all()
    ]
    precise = covariances / np.where(pulls > 0, pulls, 1.0)[..., None, None]
    short = [one.bound - float((one.coefficients * means).sum()) for one in conditions]
    best, x = 0.0, np.zeros(len(conditions))
    for size in range(1, len(kept) + 1):
        for active in itertools.combinations(kept, size):
            rows = np.array([conditions[i].coefficients for i in active])
            matrix = np.einsum("iklm,klmn,jkln->ij", rows, precise, rows)
            wanted = np.array([short[i] for i in active])
            solved = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
            value = 2 * wanted @ solved - solved @ matrix @ solved
            if (solved >= 0).all() and value > best * (1 + 1e-13):
                best, x = float(value), np.zeros(len(conditions))
                x[list(active)] = solved
    pull = sum(
        (w * one.coefficients for w, one in zip(x, conditions, strict=True)), np.zeros(means.shape)
    )
    safe = np.where(pulls > 0, pulls, 1.0)
    return best, x, np.einsum("klm,klmn,kln->kl", pull, covariances, pull) / safe**2


def bounded_log_wealth(
    draws: list[Floats],
    a: list[Floats],
    c: list[Floats],
    constant: float,
    means: list[Floats],
    covariances: list[Floats],
    counts: list[float],
    low: Floats,
    high: Floats,
) -> float:
    """Return log W of a block: by cell draws (n, M) with NaN for values that never come."""
    n = [len(own) for own in draws]
    cells = range(len(draws))

    def effect(at: list[Floats]) -> float:
        return math.fsum([*(n[i] * float(a[i] @ at[i]) for i in cells), constant])

    sd = math.sqrt(sum(n[i] ** 2 * a[i] @ covariances[i] @ a[i] / counts[i] for i in cells))
    spread = sum(
        n[i] * (a[i] @ covariances[i] @ a[i] + (a[i] @ (means[i] - c[i])) ** 2) for i in cells
    )
    worst = [np.where(a[i] > 0, low, high) for i in cells]
    reach = max(float(a[i] @ (c[i] - worst[i])) for i in cells)
    points, weights, cash = grid(effect(means) / sd)
    thetas = [min(u * sd / spread, CAP / reach) for u in points]
    logs = []
    for theta in thetas:
        total = [theta * effect(c)]
        for i in cells:
            for y in draws[i]:
                seen = np.where(np.isnan(y), worst[i], y)
                total.append(math.log1p(theta * float(a[i] @ (seen - c[i]))))
        logs.append(math.fsum(total))
    return mixture(cash, weights, logs)


def known_noise_log_wealth(
    draws: list[Floats],
    weights: list[Floats],
    constant: float,
    estimate: float,
    earlier: float,
    proxies: list,
) -> float:
    """Return log W of a block with known noise; `proxies` bounds the variance of a score.

    `weights` are those of the mean of a cell's measures; `estimate` and `earlier` are the effect in
    earlier data and its variance.
    """
    effect, variance = constant, 0.0
    for own, w, proxy in zip(draws, weights, proxies, strict=True):
        if not w.any():
            continue
        came = (~np.isnan(own)).sum(axis=0)
        used = np.where(w != 0, w / np.maximum(came, 1), 0.0)
        if (came[w != 0] == 0).any():
            return 0.0
        for y in own:
            scored = np.where(np.isnan(y), 0.0, used)
            effect += float(scored @ np.nan_to_num(y))
            variance += proxy(scored)
    sd = math.sqrt(earlier)
    return log_bet(estimate / sd, earlier / variance, effect / sd)

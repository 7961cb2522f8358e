"""Lengths of phases, margins, and even shares as a fallback."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._gaps import mixing
from fairtrial.causal.divergences import divergences
from fairtrial.causal.problem import NATURAL

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]

LEAST_BUDGET = 10

_FAIRNESS_MARGIN = 3.0
_QUALITY_MARGIN = 5.0


def fairness_margin(level: int) -> float:
    """Return how far a gap can be from the bound by chance in phase number `level`."""
    return _FAIRNESS_MARGIN * 0.5**level


def quality_margin(level: int) -> float:
    """Return how far a mean can be below the best one by chance in phase number `level`."""
    return _QUALITY_MARGIN * 0.5**level


def n_phases(budget: int) -> int:
    """Return the number of phases for a budget: ceil(log2(10 sqrt(budget))).

    Examples
    --------
    >>> n_phases(100), n_phases(10_000)
    (7, 10)
    """
    return math.ceil(math.log2(10.0 * math.sqrt(budget)))


def phase_lengths(budget: int) -> list[int]:
    """Return the rows of every phase, proportional to 1, 1/2, 1/3, ..., with the budget as sum.

    Examples
    --------
    >>> phase_lengths(100)
    [39, 19, 13, 9, 8, 6, 6]
    """
    harmonic = np.cumsum(1.0 / np.arange(1, n_phases(budget) + 1))
    ends = np.floor(budget * harmonic / harmonic[-1] + 0.5).astype(int)
    return [int(length) for length in np.diff(ends, prepend=0)]


def smallest_budget(bound: float) -> int:
    """Return the smallest number of rows with which a phased rule can find an arm fair.

    Examples
    --------
    >>> smallest_budget(0.2)
    10
    """
    phases = 1
    while fairness_margin(phases) >= bound:
        phases += 1
    budget = max(LEAST_BUDGET, math.floor(4.0 ** (phases - 1) / 100.0))
    while n_phases(budget) < phases:
        budget += 1
    return budget


def even_shares(problem: Problem) -> Floats:
    """Return shares of the affordable actions, as equal as the mean budget allows."""
    costs = problem.row_costs.ravel()
    affordable = np.isfinite(costs)
    if not problem.pairs:
        affordable &= np.tile([mode == NATURAL for mode in problem.modes], problem.n_arms)
    even: Floats = affordable / affordable.sum()
    mean = float(even[affordable] @ costs[affordable])
    budget = math.inf if problem.mean_budget is None else problem.mean_budget
    if mean <= budget:
        return even
    cheap = affordable & (costs == costs[affordable].min())
    lowest = float(costs[cheap].min())
    mixed = (budget - lowest) / (mean - lowest)
    result: Floats = mixed * even + (1.0 - mixed) * cheap / cheap.sum()
    return result


def value_pairs_of(problem: Problem, pairs: tuple[int, ...]) -> tuple[int, ...]:
    """Return the positions of the pairs of values on which the given gaps depend."""
    shares = cell_model_of(problem).shares
    assert shares is not None
    used = mixing(problem, shares)[list(pairs)] != 0.0
    return tuple(int(place) for place in np.flatnonzero(used.any(axis=0)))


def easier_pairs(problem: Problem) -> tuple[int, ...]:
    """Return of every two opposite pairs the one about which rows say more."""
    known = divergences(problem)
    worst = np.array([matrix.min(axis=1).max() for matrix in known.gap.values()])
    hardest = [
        worst[list(value_pairs_of(problem, (place,)))].max() for place in range(len(problem.pairs))
    ]
    chosen = []
    for place, (a, b) in enumerate(problem.pairs):
        opposite = problem.pairs.index((b, a))
        if (hardest[place], place) < (hardest[opposite], opposite):
            chosen.append(place)
    return tuple(chosen)

"""How much evidence a proven stop requires, from the number of tests that share delta."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.confidence.thresholds import (
    GaussianMixture,
    KaufmannKoolen,
    Threshold,
    kaufmann_koolen_constant,
)
from fairtrial.subpopulations.problem import Problem

Floats = NDArray[np.float64]


def proven_level(
    problem: Problem, threshold: Threshold, delta: float, in_order: bool
) -> tuple[float, Floats]:
    """Return ln(1/delta') and the threshold's constants by number of cells in a pair test.

    The constants have the shape (2 L + 1,). With `in_order` the tests use only results that are
    complete in the order of issue.

    delta' = delta / (K - 1 + m): for a wrong answer, one of K - 1 exclusions or one of
    the m floors and ceilings of the right arm must fail.
    """
    arms = len(problem.arms)
    most_limits = int(np.isfinite(problem.limits()).sum(axis=(0, 2)).max())
    tests = max(1, arms - 1 + most_limits)
    level = math.log(tests / delta)
    constants = np.zeros(2 * len(problem.groups) + 1)
    if isinstance(threshold, KaufmannKoolen):
        constants[0] = kaufmann_koolen_constant(level)
        for cells in range(1, constants.size):
            constants[cells] = kaufmann_koolen_constant(level / cells)
    elif in_order and isinstance(threshold, GaussianMixture):
        constants[1:] = price_of_order(constants.size - 1, level, len(threshold.kappas))
    return level, constants


def price_of_order(cells: int, level: float, kappas: int) -> Floats:
    """Return what a pair test of 1 .. `cells` cells needs beyond `level`, for each prior count.

    The number of complete results of a cell is no stopping time, so each cell's e-value must be
    bounded by its supremum. The cells are independent, and the log of each supremum is at most a
    standard exponential: their sum exceeds x with probability e^-x (1 + x + ... + x^(C-1) /
    (C-1)!).
    """
    needed = level + math.log(kappas)
    probability = math.exp(-needed)
    return np.asarray(scipy.special.gammainccinv(np.arange(1, cells + 1), probability) - needed)

"""Designs for policies; a design of the whole problem is computed once for all clones."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairtrial.linear.designs import (
    g_optimal_design,
    oracle_design,
    plug_in_design,
    reduced_xy_design,
    round_design,
    xy_optimal_design,
)
from fairtrial.linear.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TOLERANCE = 1e-4
ROUGHLY = 1e-2


@lru_cache(maxsize=16)
def g_shares(problem: Problem) -> Floats:
    """Return G-optimal shares."""
    return g_optimal_design(problem, tol=TOLERANCE).weights


@lru_cache(maxsize=16)
def xy_shares(problem: Problem) -> Floats:
    """Return XY-optimal shares."""
    return xy_optimal_design(problem, tol=TOLERANCE).weights


@lru_cache(maxsize=16)
def oracle_shares(problem: Problem, theta: tuple[float, ...]) -> Floats:
    """Return the best shares at a theta."""
    return oracle_design(problem, theta, tol=TOLERANCE).weights


def plug_in_shares(problem: Problem, phi: Floats) -> Floats:
    """Return nearly the best shares at an estimate in the reduced coordinates.

    Gaps below a thousandth of the range count as a thousandth.
    """
    return plug_in_design(problem, phi, 1e-3, ROUGHLY).weights


def phase_shares(problem: Problem, alive: Integers) -> tuple[Floats, float]:
    """Return shares for the differences of the remaining candidates, and the largest variance.

    The variance is that of the reduced problem's candidates.
    """
    design = reduced_xy_design(problem, alive, ROUGHLY)
    return design.weights, design.value


def phase_pulls_g(problem: Problem, live: Integers, pulls: int) -> Floats:
    """Return that many pulls of the given arms, G-optimal for them; shape (K,)."""
    live = live[problem.features[live].any(axis=1)]
    if not live.size:
        live = problem.basis_arms
    own = Problem(problem.features[live], noise_std=problem.scale[live])
    weights = g_optimal_design(own, tol=TOLERANCE).weights
    if (weights > 0.0).sum() > pulls:
        weights = np.zeros(len(live))
        weights[own.basis_arms] = 1.0 / own.rank
    planned = np.zeros(len(problem.arms))
    planned[live] = round_design(weights, pulls)
    return planned

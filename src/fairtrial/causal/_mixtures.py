"""Affordable building blocks of a plan: single actions, or pairs that use up the budget."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal.problem import Problem

__all__ = ["limits_costs", "mixtures_of"]

Floats = NDArray[np.float64]


def limits_costs(problem: Problem) -> bool:
    """Return whether the mean cost of a row is limited."""
    return problem.mean_budget is not None and math.isfinite(problem.mean_budget)


def mixtures_of(problem: Problem) -> Floats:
    """Return the mixtures for a plan, (mixtures, actions): actions, or pairs on the budget."""
    costs, budget = problem.row_costs.ravel(), problem.mean_budget
    every = np.eye(len(costs))
    if budget is None or not limits_costs(problem):
        return every[np.isfinite(costs)]
    cheap = np.flatnonzero(costs <= budget)
    dear = np.flatnonzero((costs > budget) & np.isfinite(costs))
    mixed = [
        every[i] + (budget - costs[i]) / (costs[j] - costs[i]) * (every[j] - every[i])
        for i in cheap
        for j in dear
        if costs[i] < budget
    ]
    return np.concatenate([every[cheap], np.reshape(mixed, (-1, len(costs)))])

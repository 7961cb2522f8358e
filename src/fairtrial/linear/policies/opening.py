"""In which order block betting begins: a first plate is of different arms."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from fairtrial.linear.problem import Problem

__all__ = ["opening_arms"]

Integers = NDArray[np.int64]

_GOLDEN = (5**0.5 - 1) / 2


def opening_arms(problem: Problem, number: int) -> Integers:
    """Return the distinct arms; about the first `number` of them measure all directions well.

    First come the arms of a start, then, while fewer than `number` are chosen, another basis from
    those that are left, then the rest. The first initial pulls are of different arms, and no bet
    rests on them.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1], [1, 1], [2, 0], [0, 2]], noise_std=1.0)
    >>> problem.basis_arms.tolist(), sorted(opening_arms(problem, 5).tolist())
    ([3, 4], [0, 1, 2, 3, 4])
    """
    chosen = [problem.start_arms]
    left = np.setdiff1d(problem.distinct_arms, problem.start_arms)
    while left.size and sum(arms.size for arms in chosen) < number:
        rows = problem.reduced.arms[left]
        _, pivots = qr(rows.T, mode="r", pivoting=True, check_finite=False)
        chosen.append(left[pivots[: problem.rank]])
        left = np.setdiff1d(left, chosen[-1])
    return np.concatenate([*chosen, _scattered(left)])


def _scattered(arms: Integers) -> Integers:
    """Return arms in an order in which neighbours, often alike, are far from each other."""
    size = arms.size
    step = max(1, round(_GOLDEN * size))
    while size > 1 and gcd(step, size) > 1:
        step += 1
    return arms[(np.arange(size) * step) % max(1, size)]

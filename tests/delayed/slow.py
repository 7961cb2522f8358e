"""Slow and obvious estimators: the reference for the compiled ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
from scipy.optimize import minimize_scalar

from fairtrial.confidence import Bound
from fairtrial.delayed import Problem


@dataclass
class Seen:
    """Observations of one pull: readings by stage, and the outcome if it has arrived."""

    arm: int
    readings: dict[float, tuple[float, float]] = field(default_factory=dict)
    outcome: float | None = None
    before: int = 0
    state: str = "open"
    duration: float = 1.0


def likelihood_estimate(problem: Problem, arm: int, pulls: list[Seen]) -> tuple[float, ...]:
    """Return an arm's mean, the information on it (after the bias, if any) and its score.

    All quantities of a pull are jointly normal given the means: outcome X, readings Y = X + bias +
    error. The method is generalised least squares with the full covariance matrix, pull by pull.
    """
    sigma = problem.scale[arm]
    information, score = np.zeros((2, 2)), np.zeros(2)
    for pull in pulls:
        if pull.arm != arm:
            continue
        values, design, covariance = _observed(problem, sigma, pull)
        if not values.size:
            continue
        inverse = np.linalg.inv(covariance)
        information += design.T @ inverse @ design
        score += design.T @ inverse @ values
    if problem.feedback != "biased":
        return score[0] / information[0, 0], information, score
    return float(np.linalg.solve(information, score)[0]), information, score


def _observed(problem, sigma, pull):
    stages = sorted(pull.readings)
    if problem.feedback == "incremental":
        pieces = np.array([pull.readings[stage][0] for stage in stages])
        own = sigma**2 / pull.duration
        if pull.outcome is not None:
            return np.array([pull.outcome]), np.array([[1.0, 0.0]]), np.array([[sigma**2]])
        design = np.column_stack([np.full(len(pieces), 1 / pull.duration), np.zeros(len(pieces))])
        return pieces, design, own * np.eye(len(pieces))
    if problem.feedback == "refining" and stages:
        stages = stages[-1:]
    values = [pull.readings[stage][0] for stage in stages]
    stds = [pull.readings[stage][1] for stage in stages]
    shift = 1.0 if problem.feedback == "biased" else 0.0
    if pull.outcome is not None:
        values, stds = [*values, pull.outcome], [*stds, 0.0]
    number = len(values)
    design = np.column_stack([np.ones(number), np.full(number, shift)])
    if pull.outcome is not None:
        design[-1, 1] = 0.0
    return np.array(values), design, np.full((number, number), sigma**2) + np.diag(np.square(stds))


def least_sum_of_radii(bound: Bound, parts: list[tuple[float, float, float]], delta: float):
    """Return the shares that minimise the sum of ``scale * radius(sigma, number)``, and the sum.

    `parts`: two or three tuples (scale, sigma, number); `delta` is already divided by n.
    """

    def radius(part, share):
        scale, sigma, number = part
        return scale * float(bound.radius(number, delta * share, sigma))

    def two(first, second, whole):
        found = minimize_scalar(
            lambda q: radius(first, whole * (1 - q)) + radius(second, whole * q),
            bounds=(1e-12, 1 - 1e-12), method="bounded", options={"xatol": 1e-13},
        )  # fmt: skip
        return whole * found.x, found.fun

    if len(parts) == 2:
        share, total = two(*parts, 1.0)
        return (share,), total
    outer = minimize_scalar(
        lambda q: radius(parts[2], q) + two(parts[0], parts[1], 1 - q)[1],
        bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12},
    )  # fmt: skip
    return (two(parts[0], parts[1], 1 - outer.x)[0], outer.x), outer.fun


def box_sets(lower, upper, alive: set[int], accepted: set[int], top: int):
    """Return the sets after one look at the boxes, as in the paper's Algorithm 1."""
    places = top - len(accepted)
    uppers = sorted((upper[i] for i in alive), reverse=True)
    lowers = sorted((lower[i] for i in alive), reverse=True)
    least, most = uppers[places], lowers[places - 1]
    new = {i for i in alive if lower[i] > least}
    out = {i for i in alive - new if upper[i] < most}
    accepted, alive = accepted | new, alive - new - out
    if top == len(accepted):
        alive = set()
    elif top - len(accepted) == len(alive):
        accepted, alive = accepted | alive, set()
    return alive, accepted


def pair_sets(better: set[tuple[int, int]], alive: set[int], accepted: set[int], top: int):
    """Return the sets that follow from "i is better than j" for all pairs in `better`."""
    while alive:
        places = top - len(accepted)
        if places == 0:
            return set(), accepted
        if places == len(alive):
            return set(), accepted | alive
        for i in sorted(alive):
            if sum((j, i) in better for j in alive) >= places:
                alive = alive - {i}
                break
            if sum((i, j) in better for j in alive) >= len(alive) - places:
                alive, accepted = alive - {i}, accepted | {i}
                break
        else:
            break
    return alive, accepted


def settled_within(near: set[tuple[int, int]], mean, alive: set[int], accepted: set[int], top: int):
    """Return the sets after a look at the tolerance; (i, j) in `near`: i is not far below j."""
    order = sorted(alive, key=lambda arm: -mean[arm])
    leaders, others = order[: top - len(accepted)], order[top - len(accepted) :]
    if alive and all((i, j) in near for i in leaders for j in others):
        return set(), accepted | set(leaders)
    return alive, accepted


def lucb_choice(problem: Problem, race, mean, started, in_flight) -> int:
    """Return the next arm of the race on outcomes, given all started pulls."""
    free = [i for i in range(len(mean)) if in_flight[i] < (race.per_arm or math.inf)]
    least = min(free, key=lambda i: (started[i], i))
    starts = sum(started)
    if started[least] == 0 or starts % 4 == 3:
        return least
    level = math.log(problem.top * (len(mean) - problem.top) / race.delta)

    def reach(i):
        rho = race.prior / problem.scale[i] ** 2
        information = started[i] / problem.scale[i] ** 2
        penalty = 0.5 * math.log((information + rho) / rho)
        return math.sqrt(2 * (information + rho) / information**2 * (level + penalty))

    order = sorted(range(len(mean)), key=lambda i: -mean[i])
    top = [i for i in order[: problem.top] if i in free]
    rest = [i for i in order[problem.top :] if i in free]
    if not top or not rest:
        return max(rest, key=lambda i: mean[i] + reach(i)) if rest else min(
            top, key=lambda i: mean[i] - reach(i)
        )  # fmt: skip
    weakest = min(top, key=lambda i: mean[i] - reach(i))
    strongest = max(rest, key=lambda i: mean[i] + reach(i))
    return strongest if started[strongest] < started[weakest] else weakest


def declared(mean, variance, penalty, level, alive, slack=0.0):
    """Return the pairs (i, j) of survivors such that i is surely better than j minus slack."""
    pairs = set()
    for i, j in permutations(sorted(alive), 2):
        gap = mean[i] - mean[j] + slack
        limit = 2 * (variance[i] + variance[j]) * (level + penalty[i] + penalty[j])
        if gap > 0 and gap * gap > limit:
            pairs.add((i, j))
    return pairs

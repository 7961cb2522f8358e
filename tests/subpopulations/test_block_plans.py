"""The plans of blocks, against the optimum that cutting planes find."""

import math

import numpy as np
import pytest

from fairtrial.confidence.block_betting.plan_steps import ENOUGH
from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem, complexity
from fairtrial.subpopulations._kernels.block_plans import find_shares
from fairtrial.subpopulations._kernels.block_state import Estimates, View, opened
from fairtrial.subpopulations._kernels.control_limits import alternative_at, control_means_of
from fairtrial.subpopulations._kernels.model import limits_of_items
from fairtrial.subpopulations._kernels.plans_without_limits import Items


def cost_of_plan(problem, means, leader, start):
    """Return the pulls until every item of the leader has one nat, by the planned shares."""
    policy = BlockBetting(problem)
    (model, _), state = opened(policy._blocks.arrays)
    means = np.asarray(means, dtype=float)
    limits = limits_of_items(model, leader)
    arms = means.shape[0]
    ends = limits[:, leader, :].reshape(-1) if leader < arms else np.empty(0)
    live = [k for k in range(arms) if k != leader]
    live += [arms + i for i, limit in enumerate(ends) if abs(limit) < math.inf]
    every = np.ones(state.rival.shape[1])
    items = Items(every, every, np.array(live), len(live))
    control_means = control_means_of(model, means)
    seen = Estimates(means, control_means, np.ones(means.shape))
    wanted = View(alternative_at(model, limits, control_means), seen, np.ones(means.shape))
    found = start.copy()
    cost = find_shares(model.costs, leader, wanted, items, found, np.empty((3, every.size)))
    assert found.sum() == pytest.approx(1.0, rel=1e-9)
    assert (found >= 0.0).all()
    return cost


def instances():
    generator = np.random.default_rng(0)
    for arms, groups, number in ((3, 3, 8), (5, 2, 5), (10, 10, 1), (30, 1, 1)):
        for _ in range(number):
            yield (
                Problem(arms, groups, floors=0.0, noise_std=1.0),
                generator.normal(0.3, 0.3, (arms, groups)),
            )
    for _ in range(5):
        problem = Problem(["c", "a", "b"], 3, control="c", margin=0.2, noise_std=1.0)
        yield problem, generator.normal(0.3, 0.2, (3, 3))


@pytest.mark.parametrize(("problem", "means"), list(instances()))
def test_a_plan_is_nearly_optimal_from_any_start(problem, means):
    least = complexity(GaussianEnvironment(problem, means), tol=1e-3)
    assert least.value < math.inf
    leader = len(problem.arms) if least.answer is None else problem.arms.index(least.answer)
    equal = np.full(means.shape, 1.0 / means.size)
    one = np.zeros(means.shape)
    one[0, 0] = 1.0
    for start in (equal, one):
        cost = cost_of_plan(problem, means, leader, start)
        assert least.lower <= cost * (1.0 + 1e-6)
        assert cost <= least.value * (1.0 + 1e-3) / ENOUGH

"""The least number of outcomes of any rule: certified, by another solver, in any unit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from fairtrial import subpopulations
from fairtrial.delayed import (
    BlockBetting,
    OutcomeDelay,
    Problem,
    SimulatedEnvironment,
    complexity,
)
from fairtrial.errors import InvalidArgument
from tests.messages import raises


def complexity_of(problem, means, std=None):
    """Return the complexity for normal outcomes with these means."""
    return complexity(SimulatedEnvironment(problem, means, std=std))


def by_general_solver(means, stds, top):
    """Return T* by a general solver that does not use its structure."""
    order = np.argsort(-means)
    inside, outside = order[:top], order[top:]

    def spread(shares):
        own = stds**2 / np.exp(shares)
        gaps = means[inside][:, None] - means[outside]
        return np.log((2 * (own[inside][:, None] + own[outside]) / gaps**2).ravel())

    # Shares as exponentials: minimise log(sum of shares) with every pair's information at least 1.
    start = np.log(np.full(means.size, 10.0 * np.exp(spread(np.zeros(means.size))).max()))
    found = minimize(
        lambda shares: np.log(np.exp(shares).sum()),
        start,
        constraints={"type": "ineq", "fun": lambda shares: -spread(shares)},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return math.exp(found.fun)


@pytest.mark.parametrize("top", [1, 2, 4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_what_a_general_solver_finds(top, seed):
    rng = np.random.default_rng([top, seed])
    means, stds = rng.normal(size=5), rng.uniform(0.5, 2.0, 5)
    found = complexity_of(Problem(5, top=top, noise_std=stds), means)
    assert found.lower <= found.value == found.upper <= found.lower * (1 + 1e-4)
    assert found.value == pytest.approx(by_general_solver(means, stds, top), rel=1e-3)
    assert found.allocation.sum() == pytest.approx(1.0)
    best = np.argsort(-means)[:top]
    assert found.answer == tuple(str(arm) for arm in best)


def test_the_best_arm_is_as_hard_as_in_the_family_of_groups():
    means = [0.1, 0.5, 0.9, 0.7]
    plain = subpopulations.Problem(4, ["all"], floors=None, noise_std=1.0)
    environment = subpopulations.GaussianEnvironment(plain, np.array(means)[:, None])
    other = subpopulations.complexity(environment)
    found = complexity_of(Problem(4, noise_std=1.0), means)
    assert found.value == pytest.approx(other.value, rel=1e-4)
    assert np.allclose(found.allocation, np.ravel(other.allocation), atol=1e-2)


def test_means_are_minimised_where_the_problem_says_so():
    problem = Problem(["a", "b", "c"], noise_std=1.0, direction="minimize")
    found = complexity_of(problem, [2.0, 1.0, 3.0])
    assert found.answer == ("b",)
    maximised = complexity_of(problem.clone(direction="maximize"), [-2.0, -1.0, -3.0])
    assert found.value == maximised.value
    with raises(InvalidArgument, "environment"):
        complexity(problem)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_another_unit_changes_nothing(size):
    means = np.array([1.0, 0.4, 0.2])
    plain = complexity_of(Problem(3, top=2, noise_std=1.0, tolerance=0.1), means)
    found = complexity_of(Problem(3, top=2, noise_std=size, tolerance=0.1 * size), means * size)
    assert found.value == pytest.approx(plain.value)
    assert plain.value < complexity_of(Problem(3, top=2, noise_std=1.0), means).value


def test_ties_at_the_border_are_infinitely_hard_and_others_are_not():
    assert math.isinf(complexity_of(Problem(3, noise_std=1.0), [1.0, 1.0, 0.0]).value)
    assert "tie" in complexity_of(Problem(3, noise_std=1.0), [1.0, 1.0, 0.0]).reason
    assert math.isfinite(complexity_of(Problem(3, top=2, noise_std=1.0), [1.0, 1.0, 0.0]).value)
    assert complexity_of(Problem(2, top=2, noise_std=1.0), [1.0, 1.0]).lower_bound(0.05) == 0.0


def test_the_true_spread_counts_and_the_delays_do_not():
    problem = Problem(3, noise_std=2.0)
    environment = SimulatedEnvironment(problem, [0.0, 1.0, 3.0], std=1.0, delay=OutcomeDelay(1, 9))
    known = problem.clone(noise_std=1.0)
    assert complexity(environment).value == complexity_of(known, [0.0, 1.0, 3.0]).value
    assert 0.0 < complexity_of(problem, [0.0, 1.0, 3.0], std=0.0).value < 1e-9


@pytest.mark.statistical
def test_no_rule_beats_the_bound():
    problem = Problem(4, top=2, noise_std=1.0)
    means = np.array([1.0, 0.8, 0.0, -0.5])
    bound = complexity_of(problem, means).lower_bound(0.05)
    told = []
    for seed in range(20):
        policy, rng = BlockBetting(problem), np.random.default_rng(seed)
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, means[pull.action] + rng.normal())
        told.append(policy.told)
    # Expected are about 2.5 times the bound; outside these limits it is invalid or too slow.
    assert bound < np.mean(told) < 4 * bound

"""Statements of a simulation about an environment of recorded rows, in every family."""

from collections.abc import Callable

import numpy as np
import pytest

from fairtrial import allocation, causal, delayed, linear, subpopulations
from fairtrial.core import Environment, Policy
from fairtrial.simulation import simulate

ARMS = ["a", "a", "b", "b", "b"]
REWARDS = [0.2, 0.3, 0.8, 0.9, 1.0]


def in_groups() -> tuple[Policy, Environment]:
    problem = subpopulations.Problem(["a", "b"], ["x"], floors=None, reward_range=(0, 1))
    rows = {"arm": ARMS, "group": ["x"] * 5, "reward": REWARDS}
    return subpopulations.BlockBetting(problem), subpopulations.ReplayEnvironment(problem, rows)


def by_features() -> tuple[Policy, Environment]:
    problem = linear.Problem([[1, 0], [0, 1]], arms=["a", "b"], reward_range=(0, 1))
    rows = {"arm": ARMS, "reward": REWARDS}
    return linear.BlockBetting(problem), linear.ReplayEnvironment(problem, rows)


def late() -> tuple[Policy, Environment]:
    problem = delayed.Problem(["a", "b"], reward_range=(0, 1))
    rows = {"arm": ARMS, "curve": [0, 1, 0, 1, 2], "elapsed": [1] * 5, "value": REWARDS}
    return delayed.BlockBetting(problem), delayed.CurveEnvironment(problem, rows)


def served() -> tuple[Policy, Environment]:
    problem = allocation.Problem(["a", "b"], "1/4")
    rows = {"arm": ARMS, "reward": REWARDS}
    return allocation.FairLearn(problem), allocation.ReplayEnvironment(problem, rows)


def counterfactual() -> tuple[Policy, Environment]:
    arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, environment = causal.chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    rows = environment.table([0, 1, 2, 3, 4, 5] * 5, np.random.default_rng(1))
    return causal.PlugIn(problem, 200), causal.ReplayEnvironment(problem, rows)


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (in_groups, "5 rows"),
        (by_features, "5 rows"),
        (late, "5 curves"),
        (served, "5 rows"),
        (counterfactual, "30 rows"),
    ],
)
def test_recorded_rows_are_said_to_be_all_that_the_runs_know(
    make: Callable[[], tuple[Policy, Environment]], rows: str
) -> None:
    policy, environment = make()
    said = f"About {rows}, sampled repeatedly: their means count as the truth in these runs."
    assert environment.about == said
    horizon = 50 if policy.endless else None
    summary = simulate(policy, environment, 2, horizon=horizon, progress=False).summary()
    assert str(summary).startswith(f"{said}\n2 runs of ")


def test_nothing_is_said_of_assumed_means() -> None:
    problem = subpopulations.Problem(["a", "b"], ["x"], floors=None, reward_range=(0, 1))
    assert subpopulations.BernoulliEnvironment(problem, [[0.2], [0.6]]).about is None

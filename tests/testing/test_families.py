"""Every policy, problem and environment of every family keeps the contract."""

from collections.abc import Callable
from typing import Any

import pytest

from fairtrial import allocation, causal, delayed, linear, subpopulations
from fairtrial.core import Environment, Policy, Problem
from fairtrial.testing import check_environment, check_policy, check_problem

Instance = tuple[Problem, Environment]


def known_noise() -> Instance:
    problem = subpopulations.Problem(["a", "b", "c"], ["x", "y"], floors=0.0, noise_std=1.0)
    means = [[0.5, 0.4], [0.9, -0.5], [0.2, 0.1]]
    return problem, subpopulations.GaussianEnvironment(problem, means)


def bounded() -> Instance:
    problem = subpopulations.Problem(["a", "b"], ["x", "y"], floors=0.3, reward_range=(0, 1))
    return problem, subpopulations.BernoulliEnvironment(problem, [[0.9, 0.8], [0.4, 0.1]])


def features() -> Instance:
    problem = linear.Problem([[1, 0], [0, 1], [0.7, 0.7]], noise_std=0.3)
    return problem, linear.GaussianEnvironment(problem, [1.0, 0.2])


def late() -> Instance:
    problem = delayed.Problem(4, top=2, noise_std=1.0)
    return problem, delayed.SimulatedEnvironment(problem, [0, 1, 2, 3], delay=4.0)


def early_readings() -> Instance:
    problem = delayed.Problem(4, top=2, noise_std=1.0, feedback="unbiased", report_std=0.5)
    return problem, delayed.SimulatedEnvironment(problem, [0, 1, 2, 3], delay=4.0)


def shares() -> Instance:
    problem = allocation.Problem(["a", "b", "c"], shares=["1/5", "3/10", "1/4"])
    return problem, allocation.BernoulliEnvironment(problem, [0.3, 0.4, 0.5])


def interventions() -> Instance:
    return causal.chain(0.5, {"k0": [[0.9, 0.1]] * 2, "k1": [[0.2, 0.8]] * 2}, [0.2, 0.9], 0.2)


INSTANCES = [known_noise, bounded, features, late, early_readings, shares, interventions]

BUDGET = {"budget": 100}
POLICIES: list[tuple[Callable[[], Instance], type[Policy], dict[str, Any]]] = [
    *((known_noise, getattr(subpopulations, name), {}) for name in (
        "BlockBetting", "BalancedTracking", "TrackAndStop", "ExactTracking",
        "PlainTrackAndStop", "RoundRobin", "UniformSampling",
    )),
    (bounded, subpopulations.BlockBetting, {}),
    *((features, getattr(linear, name), {}) for name in (
        "BlockBetting", "LinGapE", "LazyTrackAndStop", "LinGame", "FrankWolfeSampling", "Rage",
        "GAllocation", "XYAllocation", "XYAdaptive", "FullyAdaptiveXY",
    )),
    (features, linear.ODLinBAI, BUDGET),
    (late, delayed.InformationRacing, {}),
    (late, delayed.Racing, {}),
    (late, delayed.SequentialHalving, BUDGET),
    (late, delayed.SuccessiveRejects, BUDGET),
    *((early_readings, getattr(delayed, name), {}) for name in (
        "InformationRacing", "Racing", "ASHA", "SuccessiveHalving",
    )),
    (early_readings, delayed.MedianStopping, BUDGET),
    *((shares, getattr(allocation, name), {}) for name in (
        "FairLearn", "FairUCB", "BareLearner",
    )),
    (shares, allocation.HorizonFairUCB, {"horizon": 40}),
    (shares, allocation.LearningWithFairness, {"eta": 3.0}),
    (shares, allocation.ThompsonWithFairness, {"eta": 3.0}),
    *((interventions, getattr(causal, name), BUDGET) for name in (
        "PlugIn", "ConstraintSuccessiveRejection", "TwoStageRejection", "SuccessiveRejection",
        "UniformSampling",
    )),
]  # fmt: skip


@pytest.mark.parametrize("instance", INSTANCES)
def test_problems_and_environments_keep_the_contract(instance: Callable[[], Instance]) -> None:
    problem, environment = instance()
    check_problem(problem)
    check_environment(environment, draws=5)


@pytest.mark.parametrize(
    ("instance", "cls", "options"),
    POLICIES,
    ids=[f"{cls.__module__.split('.')[1]}-{instance.__name__}-{cls.__name__}"
         for instance, cls, _ in POLICIES],
)  # fmt: skip
def test_policies_keep_the_contract(
    instance: Callable[[], Instance], cls: type[Policy], options: dict[str, Any]
) -> None:
    problem, environment = instance()
    check_policy(cls(problem, seed=1, **options), environment, pulls=20)

"""Cost of the rules for linear arms: complete runs, and live decisions."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial import Policy
from fairtrial.linear import (
    BlockBetting,
    FrankWolfeSampling,
    GAllocation,
    GaussianEnvironment,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
    Problem,
    Rage,
    XYAdaptive,
)

PAIRS = 2_000
MANY = 150_000


def run(*, quick: bool) -> None:
    repetitions = 5 if quick else 20
    heading("one simulated run", "ms")
    near, far = _soare(5, 0.01), _soare(5, 0.1)
    for environment, name, make, target in (
        (far, "soare:5:0.1", BlockBetting, "15"),
        (near, "soare:5:0.01", BlockBetting, "50"),
        (far, "soare:5:0.1", LinGapE, ""),
        (near, "soare:5:0.01", LinGapE, ""),
        (far, "soare:5:0.1", FrankWolfeSampling, ""),
        (far, "soare:5:0.1", LinGame, ""),
        (far, "soare:5:0.1", LazyTrackAndStop, ""),
        (far, "soare:5:0.1", XYAdaptive, ""),
        (far, "soare:5:0.1", Rage, ""),
        (far, "soare:5:0.1", partial(GAllocation, block_draws=True), "5"),
    ):
        policy: Policy = make(environment.problem)
        work = partial(_run, policy, environment)
        work()
        show(f"{name}, {type(policy).__name__}", measure(work, repetitions), 1e3, target)
    _pulls(near, repetitions)
    _live(repetitions)


def _pulls(environment: GaussianEnvironment, repetitions: int) -> None:
    heading("one simulated pull", "us")
    policy = LinGapE(environment.problem, max_pulls=MANY)
    work = partial(_run, policy, environment)
    timing = measure(work, max(3, repetitions // 5)).per(MANY)
    show(f"6 arms, 5 features, LinGapE, {MANY:,} pulls", timing, 1e6, "3")
    heading("a static run to the end", "ms")
    policy = GAllocation(environment.problem, delta=1e-300, block_draws=True, max_pulls=MANY)
    work = partial(_run, policy, environment)
    work()
    show(f"GAllocation, {MANY:,} pulls, block draws", measure(work, repetitions), 1e3, "10")


def _live(repetitions: int) -> None:
    heading("live ask + tell", "us")
    rewards = np.random.default_rng(1).standard_normal(PAIRS).tolist()
    features = np.random.default_rng(0).standard_normal((100, 10))
    problem = Problem(features, noise_std=1.0)
    for make in (LinGapE, BlockBetting, FrankWolfeSampling, LinGame):
        policy = make(problem, delta=1e-300)
        work = partial(_pairs, policy, rewards)
        work()
        timing = measure(work, max(3, repetitions // 5)).per(PAIRS)
        show(f"100 arms, 10 features, {make.__name__}", timing, 1e6, "30")
    large = Problem(np.random.default_rng(2).standard_normal((100_000, 10)), noise_std=1.0)
    policy = LinGapE(large)
    _go_on(policy, rewards[:101])
    work = partial(_go_on, policy, rewards[:10])
    show("100,000 arms, 10 features, LinGapE", measure(work, 3).per(10), 1e6, "50000")


def _run(template: Policy, environment: GaussianEnvironment) -> None:
    template.clone().compiled_run(environment, np.random.default_rng(1), None)


def _pairs(template: Policy, rewards: list[float]) -> None:
    _go_on(template.clone(), rewards)


def _go_on(policy: Policy, rewards: list[float]) -> None:
    for reward in rewards:
        policy.tell(policy.ask(), reward)


def _soare(dimension: int, angle: float) -> GaussianEnvironment:
    extra = np.zeros(dimension)
    extra[:2] = np.cos(angle), np.sin(angle)
    problem = Problem([*np.eye(dimension), extra], noise_std=1.0)
    return GaussianEnvironment(problem, 2.0 * np.eye(dimension)[0])

"""Cost of a simulated round: choose a cell, draw, update the evidence, test (stylised)."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial.subpopulations import (
    BalancedTracking,
    ExactTracking,
    GaussianEnvironment,
    PlainTrackAndStop,
    Problem,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
)

POLICIES = (
    (BalancedTracking, {10: "5"}),
    (TrackAndStop, {}),
    (ExactTracking, {}),
    (PlainTrackAndStop, {}),
    (UniformSampling, {}),
    (RoundRobin, {}),
)

UNREACHABLE = 1e-300
"""An error probability so small that no run stops before its last round."""


def run(*, quick: bool) -> None:
    repetitions, number = (3, 5_000) if quick else (9, 20_000)
    for size in (3, 10):
        heading(f"a round at {size} x {size}", "us")
        environment = _environment(size)
        for policy, targets in POLICIES[: 1 if quick else None]:
            template = policy(environment.problem, delta=UNREACHABLE, stopping="stylised")
            rounds = number if policy is not ExactTracking else number // 20
            work = partial(_play, template, environment, rounds)
            work()
            timing = measure(work, repetitions).per(rounds)
            show(policy.__name__, timing, 1e6, targets.get(size, ""))


def _environment(size: int) -> GaussianEnvironment:
    """Return arms with slightly different means, some of them below a floor."""
    means = np.random.default_rng(size).normal(0.5, 0.3, (size, size))
    return GaussianEnvironment(Problem(size, size, floors=0.0, noise_std=1.0), means)


def _play(template: BalancedTracking, environment: GaussianEnvironment, rounds: int) -> None:
    run = template.clone().compiled_run(environment, np.random.default_rng(1), rounds)
    assert run is not None
    assert run.stopping_time == rounds

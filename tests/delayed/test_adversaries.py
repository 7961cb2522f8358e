"""Whoever wants the worse arm to win, and keeps to the rules, seldom succeeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.delayed import InformationRacing, Problem, Racing, SimulatedEnvironment
from fairtrial.errors import InvalidArgument
from tests.delayed.adversaries import DELTA, bad_arm_wins, cases

CASES = {f"{name}, {adversary.__name__}": (make, adversary) for name, make, adversary in cases()}
RUNS = 40


@pytest.mark.statistical
@pytest.mark.parametrize("case", list(CASES))
def test_the_worse_arm_seldom_wins(case):
    wrong = sum(bad_arm_wins(*CASES[case], seed, pulls=40) for seed in range(RUNS))
    # Four standard errors above delta = .05: 7 of 40; a fooled rule errs in most runs.
    assert wrong <= RUNS * DELTA + 4 * math.sqrt(RUNS * DELTA * (1 - DELTA))


def test_a_pull_has_no_more_pieces_than_it_lasts():
    # Each piece adds to the weight: a pull of more pieces would weigh more than an outcome.
    problem = Problem(2, noise_std=1.0, feedback="incremental", duration=3.0)
    for policy in (InformationRacing(problem), Racing(problem)):
        pull = policy.ask()
        for _ in range(3):
            policy.report(pull, 0.5)
        before = policy.get_state()
        with pytest.raises(InvalidArgument, match="3 pieces"):
            policy.report(pull, 0.5)
        assert all(np.array_equal(before[name], policy.get_state()[name]) for name in before)


def test_nested_errors_do_not_grow():
    problem = Problem(2, noise_std=1.0, feedback="refining", errors="nested", report_std=0.4)
    policy = InformationRacing(problem)
    pull = policy.ask()
    policy.report(pull, 1.0, stage=2, sd=0.5)
    for stage, sd in ((3, 0.6), (1, 0.3)):
        with pytest.raises(InvalidArgument, match="sd"):
            policy.report(pull, 1.0, stage=stage, sd=sd)
    policy.report(pull, 1.0, stage=3)
    policy.report(pull, 1.0, stage=4, sd=0.4)
    policy.report(pull, 1.0, stage=1, sd=0.5)
    loose = InformationRacing(problem.clone(errors="unknown"))
    pull = loose.ask()
    loose.report(pull, 1.0, stage=1, sd=0.1)
    loose.report(pull, 1.0, stage=2, sd=0.5)


def test_what_a_guarantee_takes_on_trust_is_said():
    problem = Problem(2, reward_range=(0, 1), failure_value=0.0)
    policy = InformationRacing(problem)
    first = policy.ask()
    policy.fail(first, "timeout")
    assert not any("had failed" in text for text in policy.guarantee.assumptions)
    policy.tell(first, 0.9)
    assert any("1 pulls had failed" in text for text in policy.guarantee.assumptions)
    policy.tell(problem.pull(arm="1"), 0.5)
    assert any("1 results came unasked" in text for text in policy.guarantee.assumptions)


@pytest.mark.parametrize("variant", ["full", "partial"])
def test_without_time_for_a_reading_all_races_are_the_race_on_outcomes(variant):
    unbiased = Problem(4, noise_std=1.0, feedback="unbiased", report_std=0.5)
    full = Problem(4, noise_std=1.0)
    means = [0.0, 2.0, 1.0, 4.0]
    for seed in range(5):
        one = Racing(unbiased, variant=variant).compiled_run(
            SimulatedEnvironment(unbiased, means, delay=1.0), np.random.default_rng(seed), None, 3
        )
        other = Racing(full, variant="full").compiled_run(
            SimulatedEnvironment(full, means, delay=1.0), np.random.default_rng(seed), None, 3
        )
        assert (one.answer, one.elapsed) == (other.answer, other.elapsed)
        assert one.pulls.tolist() == other.pulls.tolist()

"""Adversaries that follow the rules seldom make the worse arm win."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from fairtrial.delayed import InformationRacing, Problem, Racing, SimulatedEnvironment
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.delayed.adversaries import DELTA, bad_arm_wins, cases
from tests.messages import raises

CASES = {f"{name}, {adversary.__name__}": (make, adversary) for name, make, adversary in cases()}
RUNS = effort.runs(4, whole=40)


@pytest.mark.statistical
@pytest.mark.parametrize("case", list(CASES))
def test_the_worse_arm_seldom_wins(case):
    wrong = sum(bad_arm_wins(*CASES[case], seed, pulls=40) for seed in range(RUNS))
    # Four standard errors above delta = .05; a fooled rule errs in most runs.
    assert wrong <= RUNS * DELTA + 4 * math.sqrt(RUNS * DELTA * (1 - DELTA))


@pytest.mark.statistical
def test_reading_until_the_errors_suit_does_not_shift_the_bias_of_the_proven_race():
    problem = Problem(2, noise_std=1.0, feedback="biased", reading_std=1000.0)
    race, rng = Racing(problem, max_pulls=800), np.random.default_rng(0)
    for pull in (race.ask() for _ in range(800)):
        outcome, wanted = rng.normal(), 1.0 if pull.arm == "0" else -1.0
        errors = 1000.0 * rng.normal(size=40)
        # Make the mean reading of the first arm too low, and that of the second too high.
        suits = np.flatnonzero(wanted * errors.cumsum() < 0.0)
        for error in errors[: suits[0] + 1] if suits.size else errors:
            race.report(pull, outcome + error)
        race.tell(pull, outcome)
    bias = race._race.arms.total.bias / race._race.arms.total.bias_weight
    # Four standard errors of a mean of 400 pulls with at least one reading each; the means of the
    # pulls' own means are -450 and 450.
    assert (np.abs(bias) < 4 * 1000.0 / math.sqrt(400)).all()


@pytest.mark.parametrize(
    "make",
    [InformationRacing, partial(InformationRacing, test="box"), partial(Racing, variant="full")],
)
def test_once_a_missing_outcome_has_come_a_race_decides_as_if_it_had_never_been_missed(make):
    def race(lose):
        policy = make(Problem(3, top=2, noise_std=1.0))
        pulls = policy.ask(60)
        if lose:
            policy.fail(pulls[0], "timeout")
        for pull in pulls[1:]:
            policy.tell(pull, 3.0 * pull.action)
        assert policy.recommend().status == ("undecided" if lose else "decided")
        policy.tell(pulls[0], 3.0 * pulls[0].action)
        return policy.recommend()

    assert race(lose=True).arm == race(lose=False).arm == ("2", "1")


def test_a_value_for_failures_is_proven_only_for_noise_that_covers_it():
    def label(**about):
        problem = Problem(2, failure_value=0.0, **about)
        return InformationRacing(problem, use_partial=False).guarantee

    assert label(reward_range=(0, 1)).proven
    assert label(noise_std=1.0, noise="subgaussian").proven
    assert not label(noise_std=1.0).proven
    assert any("not proven" in text for text in label(noise_std=1.0).assumptions)
    read = Problem(2, reward_range=(0, 1), failure_value=0.0, feedback="unbiased", reading_std=1.0)
    assert not Racing(read).guarantee.proven
    assert Racing(read, variant="full").guarantee.proven


def test_a_pull_has_no_more_pieces_than_it_lasts():
    # Each piece adds weight, so a pull with more pieces would weigh more than an outcome.
    problem = Problem(2, noise_std=1.0, feedback="incremental", duration=3.0)
    for policy in (InformationRacing(problem), Racing(problem)):
        pull = policy.ask()
        for _ in range(3):
            policy.report(pull, 0.5)
        before = policy.get_state()
        with raises(InvalidArgument, "stage"):
            policy.report(pull, 0.5)
        assert all(np.array_equal(before[name], policy.get_state()[name]) for name in before)


def test_nested_errors_do_not_grow():
    problem = Problem(2, noise_std=1.0, feedback="refining", errors="nested", reading_std=0.4)
    policy = InformationRacing(problem)
    pull = policy.ask()
    policy.report(pull, 1.0, stage=2, std=0.5)
    for stage, std in ((3, 0.6), (1, 0.3)):
        with raises(InvalidArgument, "std", given=std):
            policy.report(pull, 1.0, stage=stage, std=std)
    policy.report(pull, 1.0, stage=3)
    policy.report(pull, 1.0, stage=4, std=0.4)
    policy.report(pull, 1.0, stage=1, std=0.5)
    second = policy.ask()
    policy.report(second, 1.0, stage=1)
    with raises(InvalidArgument, "std", given=0.6):
        policy.report(second, 1.0, stage=2, std=0.6)
    loose = InformationRacing(problem.clone(errors="unknown"))
    pull = loose.ask()
    loose.report(pull, 1.0, stage=1, std=0.1)
    loose.report(pull, 1.0, stage=2, std=0.5)


def test_readings_that_differ_at_one_deviation_are_not_nested_and_prove_nothing(tmp_path):
    problem = Problem(2, noise_std=1.0, feedback="refining", errors="nested", reading_std=0.4)
    policy, unread = (InformationRacing(problem, use_partial=counts) for counts in (True, False))
    for race in (policy, unread):
        pull = race.ask()
        race.report(pull, 1.0, stage=1)
        race.report(pull, 1.0, stage=2)
        race.report(pull, 2.0, stage=3, std=0.3)
        assert race.guarantee.proven
        race.report(pull, 2.5, stage=4, std=0.3)
    assert unread.guarantee.proven
    assert not policy.guarantee.proven
    assert "1 readings differ" in policy.guarantee.assumptions[-1]
    np.savez(tmp_path / "state.npz", **policy.get_state())
    twin = InformationRacing(problem)
    twin.set_state(dict(np.load(tmp_path / "state.npz")))
    assert twin.guarantee == policy.guarantee


def test_what_a_guarantee_takes_on_trust_is_said():
    problem = Problem(2, reward_range=(0, 1), failure_value=0.0)
    policy = InformationRacing(problem)
    first = policy.ask()
    policy.fail(first, "timeout")
    assert not any("had failed" in text for text in policy.guarantee.assumptions)
    policy.tell(first, 0.9)
    assert any("1 pulls had failed" in text for text in policy.guarantee.assumptions)
    policy.tell(problem.pull(arm="1"), 0.5)
    assert any("1 results were unsolicited" in text for text in policy.guarantee.assumptions)


@pytest.mark.parametrize("variant", ["full", "partial"])
def test_without_time_for_a_reading_all_races_are_the_race_on_outcomes(variant):
    unbiased = Problem(4, noise_std=1.0, feedback="unbiased", reading_std=0.5)
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

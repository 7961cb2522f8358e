"""The three extremes that the contract must support, each tested for what it promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.core import Policy, run_policy
from fairtrial.core.seeds import spawn_seeds
from tests import effort
from tests.core.toys import (
    ArrivalBalance,
    DelayedEnvironment,
    FairChoice,
    GaussianEnvironment,
    GroupProblem,
    Halving,
    LeadRace,
    PartialRace,
    QuotaKeeper,
    RecordEnvironment,
    RecordProblem,
    ToyProblem,
)

PROBLEM = ToyProblem(["a", "b", "c"])


def generators(number: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in spawn_seeds(7, number)]


# ---------------------------------------------- one that stops by itself, immediate rewards


@pytest.mark.statistical
def test_the_race_errs_no_more_often_than_it_claims() -> None:
    runs = [
        run_policy(
            LeadRace(PROBLEM, delta=0.2, seed=1), GaussianEnvironment(PROBLEM, [0, 0.7, 1.4]), g
        )
        for g in generators(200)
    ]
    errors = np.mean([run.answer != "c" for run in runs])
    assert errors <= 0.2 + 4 * math.sqrt(0.2 * 0.8 / 200)
    assert {run.status for run in runs} == {"decided"}


def test_the_race_shows_how_far_it_is() -> None:
    policy, environment, generator = (
        LeadRace(PROBLEM, seed=1),
        GaussianEnvironment(PROBLEM, [0, 0, 2]),
        generators(1)[0],
    )
    while not policy.stopped:
        progress = policy.progress()
        if progress.told and progress.told % 3 == 0:
            assert progress.evidence <= progress.threshold
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))
    final = policy.progress()
    assert final.evidence > final.threshold
    assert final.recommendation.arm == "c"
    assert final.recommendation.guarantee.proven
    assert sum(estimate.pulls for estimate in final.actions) == final.told


# ---------------------------------------------- one with everything in flight


def test_readings_are_replaced_by_newer_ones_and_at_last_by_the_result() -> None:
    policy = PartialRace(PROBLEM, margin=100)
    pull = policy.ask()
    policy.report(pull, 5.0, place=1)
    policy.report(pull, 7.0, place=3)
    policy.report(pull, 6.0, place=2)
    assert policy.estimates()[0][0] == 7.0
    policy.report(pull, 7.0, place=3)
    assert policy.repeats == 1
    policy.tell(pull, 8.0)
    means, counts = policy.estimates()
    assert (means[0], counts[0]) == (8.0, 1.0)
    policy.report(pull, 9.0, place=4)
    assert policy.estimates()[0][0] == 8.0


def test_a_lost_pull_keeps_its_reading_until_its_result_comes() -> None:
    policy = PartialRace(PROBLEM, margin=100, max_in_flight=1)
    pull = policy.ask()
    policy.report(pull, 5.0, place=1)
    assert policy.ask(1) == []
    policy.fail(pull, "timeout")
    assert policy.estimates()[0][0] == 5.0
    other = policy.ask()
    assert other.tag == pull.tag
    policy.tell(pull, 3.0)
    means, counts = policy.estimates()
    assert (means[0], counts[0], policy.outstanding()) == (3.0, 1.0, [other])


def test_at_most_so_many_pulls_of_one_arm_are_in_flight() -> None:
    policy = PartialRace(PROBLEM, max_in_flight=9, max_per_arm=2)
    assert sorted(pull.arm for pull in policy.ask(9)) == ["a", "a", "b", "b", "c", "c"]


def test_pulls_of_an_arm_that_is_out_are_called_back_and_their_results_still_taken() -> None:
    policy = PartialRace(PROBLEM, margin=1.0, max_in_flight=6)
    a, b, c, a2, b2, c2 = policy.ask(6)
    for pull, value in ((b, 10.0), (c, 10.0), (a, 0.0)):
        policy.tell(pull, value)
    assert not policy.stopped
    assert policy.to_cancel() == [a2]
    policy.fail(a2, "cancelled")
    assert policy.to_cancel() == []
    policy.tell(a2, 0.5)
    assert policy.outstanding() == [b2, c2]
    assert {pull.arm for pull in policy.ask(9)} == {"b", "c"}


@pytest.mark.statistical
def test_the_asynchronous_race_finds_the_two_best() -> None:
    environment = DelayedEnvironment(PROBLEM, [0, 3, 4], k=2)
    runs = [
        run_policy(PartialRace(PROBLEM, k=2, seed=1), environment, g, parallel=4)
        for g in generators(50)
    ]
    # The margin of 2 / sqrt(n) is wide against a gap of 3: a wrong set is a matter of 1e-4.
    assert all(environment.truth.accepts(run.answer) for run in runs)


# ---------------------------------------------- one that never stops and counts at issue


@settings(max_examples=effort.runs(20, whole=40))
@given(
    shares=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    slack=st.integers(1, 5),
    told=st.lists(st.booleans(), min_size=40, max_size=40),
    seed=st.integers(0, 100),
)
def test_every_arm_has_its_share_at_every_moment_whatever_is_told(
    shares: list[int], slack: int, told: list[bool], seed: int
) -> None:
    # Largest credit first keeps the shares if each is below 1 / arms.
    whole = 3 * max(shares) + slack
    policy = QuotaKeeper(PROBLEM, shares, whole, explore=0.5, seed=seed)
    issued = np.zeros(3, dtype=int)
    for t, comes in enumerate(told, start=1):
        pull = policy.ask()
        issued[pull.action] += 1
        assert (issued >= np.array(shares) * t // whole).all()
        if comes:
            policy.tell(pull, float(pull.action))
    assert not policy.stopped
    assert policy.recommend().status == "running"


def test_an_abandoned_pull_never_counted_unless_its_result_comes() -> None:
    policy = QuotaKeeper(PROBLEM, [0, 0, 0], 1, explore=0.0)
    pull = policy.ask()
    policy.fail(pull, "abandoned")
    assert (policy.rounds, policy.issued.sum()) == (0, 0)
    policy.tell(pull, 1.0)
    assert (policy.rounds, policy.issued.tolist(), policy.counts.sum()) == (1, [1, 0, 0], 1)


def test_a_correction_reaches_the_learner() -> None:
    policy = QuotaKeeper(PROBLEM, [0, 0, 0], 1, explore=0.0)
    pull = policy.ask()
    policy.tell(pull, 100.0)
    policy.amend(pull, 100.0, 1.0)
    assert policy.sums.tolist() == [1.0, 0.0, 0.0]


# ---------------------------------------------- records, arrivals, batches


@pytest.mark.statistical
def test_the_fair_choice_is_found_in_records() -> None:
    problem = RecordProblem(["unfair", "fair"], bound=0.3)
    environment = RecordEnvironment(problem, [[0.5, 1.0], [0.5, 0.6]])
    assert environment.truth.best == "fair"
    answers = [run_policy(FairChoice(problem, 1200), environment, g).answer for g in generators(20)]
    # Gaps of .5 and .1 against .3, standard error .045 at 200 records each: beyond 4 errors.
    assert answers == ["fair"] * 20


def test_arrivals_are_balanced_within_every_group() -> None:
    policy = ArrivalBalance(GroupProblem(["a", "b"], ["x", "y"]), per_cell=99)
    for group in "xxyxyxxxyx":
        policy.ask(group=group)
    assert policy.issued.tolist() == [[4, 2], [3, 1]]


@pytest.mark.parametrize(
    "policy", [LeadRace(PROBLEM), Halving(PROBLEM)], ids=lambda policy: type(policy).__name__
)
def test_asking_in_bulk_is_asking_one_by_one(policy: Policy) -> None:
    bulk, single = policy.clone(), policy.clone()
    assert bulk.ask(6) == [single.ask() for _ in range(6)]

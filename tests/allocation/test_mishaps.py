"""Pulls that fail, rewards that are corrected, callers and learners that are careless."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.allocation import UCB1, FairLearn, LearningWithFairness, Problem, Thompson
from fairtrial.allocation._kernels.model import QUEUE, TOLD, WINS


def test_corrections_of_what_nobody_asked_for_never_leave_more_wins_than_rewards():
    """A Beta distribution with a parameter below 1 would be drawn from for ever."""
    problem = Problem(2, 0)
    for seed in range(20):
        policy = FairLearn(problem, Thompson(), seed=seed)
        for arm in ("0", "1"):
            pull = problem.pull(arm=arm)
            policy.tell(pull, 0.5)
            policy.amend(pull, 0.5, float(arm))
        wins, told = policy._stats[WINS], policy._stats[TOLD]
        assert (wins >= 0).all()
        assert (wins <= told).all()
        policy.ask(5)


@pytest.mark.parametrize(
    "policy",
    [
        LearningWithFairness(Problem(3, ["1/2", "1/10", "1/10"]), eta=1),
        FairLearn(Problem(3, ["1/2", "1/10", "1/10"], 10**6), UCB1(), price=1),
    ],
    ids=["queues", "price"],
)
def test_a_queue_owes_a_failed_pull_anew(policy):
    """Half of the pulls of the first arm fail; of those that do not it has its share."""
    policy, rng, served = policy.clone(), np.random.default_rng(1), np.zeros(3)
    for _ in range(4000):
        pull = policy.ask()
        if pull.action == 0 and rng.random() < 0.5:
            policy.fail(pull)
        else:
            served[pull.action] += 1
            policy.tell(pull, float(rng.random() < (0.1, 0.2, 0.9)[pull.action]))
    behind = np.array([0.5, 0.1, 0.1]) * served.sum() - served
    assert behind.max() <= 3
    assert policy._book[QUEUE].max() <= 4 * policy.problem.denominator


def test_a_price_counts_rounds_not_their_pulls():
    """Shares of 3/2 in rounds of two: counted by pulls, the queues would grow for ever."""
    pairs = Problem(4, "3/8", plays=2)
    policy = FairLearn(pairs, price=5)
    for _ in range(2000):
        pull = policy.ask()
        policy.tell(pull, (0.9, 0.1, 0.1, 0.1)[pull.action])
    assert policy._book[QUEUE].max() < 20 * pairs.denominator


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_with_several_plays_a_failed_pull_takes_its_round_from_its_arm_alone(seed):
    rng = np.random.default_rng(seed)
    problem = Problem(4, [1, "1/2", "1/3", Fraction(int(rng.integers(0, 8)), 60)], plays=2)
    policy = FairLearn(problem, lambda t, c, s, allowed: int(rng.choice(allowed)))
    owed = np.array([Fraction(0)] * 4)
    for _ in range(60):
        for pull in policy.ask(2):
            owed[pull.action] -= 1
            if rng.random() < 0.2:
                policy.fail(pull)
                owed[pull.action] += 1 - problem.shares[pull.action]
        owed += problem.shares
        assert policy.credits == tuple(owed)
    # A share of 1 is behind by nothing: it is in every round that counts for it.
    assert policy.credits[0] == 0
    for pull in policy.ask(2000):
        owed[pull.action] -= 1
    assert max(credit // 1 for credit in owed + 1000 * np.array(problem.shares)) <= 0


def test_threads_that_share_a_policy_without_a_lock_break_no_quota():
    policy = FairLearn(Problem(20, "1/21"), Thompson(), seed=1)
    policy.ask()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: policy.ask(), range(4000)))
    metrics = policy.metrics()
    assert metrics["floored_violation"] == metrics["rounds_in_violation"] == 0


def test_a_learner_may_do_with_its_arguments_what_it_likes():
    def careless(t, counts, sums, allowed):
        arm = int(allowed[t % len(allowed)])
        for array in (counts, sums, allowed):
            array[:] = 7
        return arm

    policy = FairLearn(Problem(4, "1/10"), careless)
    for _ in range(50):
        policy.tell(policy.ask(), 1.0)
    assert {each.mean for each in policy.progress().actions} == {1.0}
    assert policy.metrics()["floored_violation"] == 0

"""Failed pulls, corrected rewards, and careless callers and learners."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.allocation import (
    UCB1,
    FairLearn,
    LearningWithFairness,
    Problem,
    SlidingWindowUCB,
    Thompson,
    UnconstrainedLearner,
)
from fairtrial.core.compilation import compiled
from tests.allocation.slow import SlowQuotas


def recent_of(policy):
    """Return the first arm's pulls, rewards and sum of rewards within the window."""
    cells = policy._state.cells
    return [column[0] for column in (cells.recent_issued, cells.recent_told, cells.recent_total)]


def test_corrections_of_what_nobody_asked_for_never_leave_more_wins_than_rewards():
    """Otherwise drawing from a Beta distribution with a parameter below 1 would never end."""
    problem = Problem(2, 0)
    for seed in range(20):
        policy = FairLearn(problem, Thompson(), seed=seed)
        for arm in ("0", "1"):
            pull = problem.pull(arm=arm)
            policy.tell(pull, 0.5)
            policy.amend(pull, 0.5, float(arm))
        wins, told = policy._state.cells.wins, policy._state.cells.told
        assert (wins >= 0).all()
        assert (wins <= told).all()
        policy.ask(5)


@pytest.mark.parametrize("before", [0, 5])
def test_what_comes_after_its_window_is_not_taken_for_what_is_in_it(before):
    """One arm and a window of 3 rounds, in which every pull reuses the slot of an earlier one."""
    problem = Problem(1, 0)
    policy = FairLearn(problem, SlidingWindowUCB(3))
    policy.ask(before)
    policy = policy.next_epoch(problem)
    pulls = policy.ask(7)
    policy.tell(pulls[1], 1.0)
    policy.fail(pulls[2])
    assert recent_of(policy) == [3, 0, 0]
    policy.tell(pulls[4], 1.0)
    policy.fail(pulls[5])
    assert recent_of(policy) == [2, 1, 1]


def test_rewards_that_nobody_asked_for_are_tried_each_by_itself():
    """Trials of 400 rewards of a half: within 4 standard errors of 200 wins."""
    policy = UnconstrainedLearner(Problem(1, 0), Thompson(), seed=3)
    for _ in range(400):
        policy.tell(policy.problem.pull(arm="0"), 0.5)
    assert abs(policy._state.cells.wins[0] - 200) < 4 * 10


@pytest.mark.parametrize(
    "policy",
    [
        LearningWithFairness(Problem(3, ["1/2", "1/10", "1/10"]), eta=1),
        FairLearn(Problem(3, ["1/2", "1/10", "1/10"], 10**6), UCB1(), price=1),
    ],
    ids=["queues", "price"],
)
def test_a_queue_owes_a_failed_pull_anew(policy):
    """Half of the first arm's pulls fail; it has its share of the others."""
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
    assert policy._state.nodes.queue.max() <= 4 * policy.problem.denominator


@pytest.mark.parametrize("learner", [None, Thompson()], ids=repr)
def test_rounds_that_all_fail_leave_no_queue_behind(learner):
    problem = Problem(3, ["1/2", "1/10", "1/10"])
    for policy in (
        FairLearn(problem, learner, price=1, seed=1),
        LearningWithFairness(problem, eta=1),
    ):
        for _ in range(30):
            for pull in policy.ask(2):
                policy.fail(pull)
                assert policy._state.nodes.queue.min() >= 0
        assert policy._state.nodes.queue.tolist() == [0, 0, 0]
        assert policy.credits == (0, 0, 0)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_a_failed_pull_among_sleepers_is_owed_anew(seed):
    rng = np.random.default_rng(seed)
    shares = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 10)]
    slow = SlowQuotas(shares)
    policy = FairLearn(Problem(3, shares), lambda t, c, s, allowed: allowed[-1])
    slept, flying = False, []
    for _ in range(60):
        awake = [arm for arm in range(3) if rng.random() < (0.7 if slept else 0.95)] or [0]
        flying.append(policy.ask(awake=[str(arm) for arm in awake]))
        if len(awake) < 3:
            slept = True
            assert flying[-1].action == slow.pull_awake(awake, lambda allowed: allowed[-1])
        else:
            assert flying[-1].action == slow.step("due_first", lambda allowed: allowed[-1])
        if rng.random() < 0.3:
            lost = flying.pop(int(rng.integers(len(flying))))
            policy.fail(lost)
            slow.take_back(lost.action, slept)
        assert policy.credits == tuple(slow.credits)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), inside=st.sampled_from([[0, 0], [0, "1/10"], ["1/10", "1/10"]]))
def test_a_failed_pull_in_a_group_is_owed_anew_to_both(seed, inside):
    rng = np.random.default_rng(seed)
    problem = Problem(4, [*inside, "1/5", 0], groups={"g": ("3/5", ["0", "1"])})
    policy = FairLearn(problem, lambda t, c, s, allowed: allowed[-1])
    shares, members = [*problem.shares, Fraction(3, 5)], [[0], [1], [2], [3], [0, 1]]
    served, t, flying, worst = np.zeros(4, dtype=int), 0, [], 0

    def credit(node):
        return shares[node] * t - int(served[members[node]].sum())

    def first(nodes, default):
        dates = {n: -((credit(n) - shares[n] * t - 1) // shares[n]) for n in nodes if shares[n]}
        return min(dates, key=lambda node: (dates[node], node), default=default)

    for _ in range(80):
        expected = first([node for node in range(5) if credit(node) > 0], 3)
        pull = policy.ask()
        assert pull.action == (first([0, 1], 1) if expected == 4 else expected)
        flying.append(pull)
        t, served[pull.action] = t + 1, served[pull.action] + 1
        worst = max(worst, *map(credit, range(5)))
        if rng.random() < 0.3:
            lost = flying.pop(int(rng.integers(len(flying))))
            policy.fail(lost)
            t, served[lost.action] = t - 1, served[lost.action] - 1
            worst = max(worst, *map(credit, range(5)))
    assert policy.metrics()["violation"] == pytest.approx(float(worst))


def test_a_price_counts_rounds_not_their_pulls():
    """Shares of 3/2 in rounds of two; counted by pulls, the queues would grow forever."""
    pairs = Problem(4, "3/8", plays=2)
    policy = FairLearn(pairs, price=5)
    for _ in range(2000):
        pull = policy.ask()
        policy.tell(pull, (0.9, 0.1, 0.1, 0.1)[pull.action])
    assert policy._state.nodes.queue.max() < 20 * pairs.denominator


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
    # The same credits decide which arm is forced.
    assert policy.next_epoch(problem).initial_credits == tuple(min(credit, 0) for credit in owed)
    # A share of 1 is never behind: the arm is in every round that counts for it.
    assert policy.credits[0] == 0
    for pull in policy.ask(2000):
        owed[pull.action] -= 1
    assert max(credit // 1 for credit in owed + 1000 * np.array(problem.shares)) <= 0


def test_threads_that_share_a_policy_without_a_lock_break_no_quota_with_compiled_kernels():
    """Docs tell users to protect a policy by a lock, which interpreted kernels need."""
    policy = FairLearn(Problem(20, "1/21"), Thompson(), seed=1)
    with compiled():
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

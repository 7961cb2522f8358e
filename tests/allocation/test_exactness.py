"""Check all decisions and guarantees with exact fractions, whatever happens to the pulls."""

from fractions import Fraction

import numpy as np
import pytest

from fairtrial.allocation import (
    KLUCB,
    UCB1,
    BernoulliEnvironment,
    FairLearn,
    Greedy,
    Problem,
    Thompson,
)
from fairtrial.core import run_policy
from fairtrial.study import Study
from tests import effort
from tests.allocation.exact_runs import ExactRun

SURPLUS = Problem(3, ["1/2", "1/4", 0])


def last(t, counts, sums, allowed):
    return allowed[-1]


@pytest.mark.parametrize("block", range(effort.runs(2, whole=4)))
def test_random_runs_decide_and_keep_what_exact_fractions_say(block):
    """In parallel, a second policy is saved and restored after every call; see `ExactRun`."""
    number = effort.runs(25, whole=40)
    runs = [ExactRun(seed).play() for seed in range(block * number, (block + 1) * number)]
    assert sum(run.failed for run in runs) > number
    # Runs in which no arm is ever behind would test nothing.
    assert max(run.most_behind for run in runs) > 0


# ------------------------------------------------------ a surplus, and the carry that forgets it


@pytest.mark.parametrize("scheduler", ["due", "largest"])
@pytest.mark.parametrize("through_epoch", [False, True])
def test_a_surplus_beyond_the_carry_leaves_nobody_behind(scheduler, through_epoch):
    """The learner takes the arm with the surplus again and again, and then never again."""
    for phase in range(1, 12):

        def learner(t, counts, sums, allowed, phase=phase):
            return 0 if t % (2 * phase) < phase else 2

        start = {"0": -20}
        policy = FairLearn(SURPLUS, learner, scheduler, 1, allow_unsafe=True, initial_credits=start)
        if through_epoch:
            policy = FairLearn(
                SURPLUS, learner, scheduler, allow_unsafe=True, initial_credits=start
            )
            policy.ask(3)
            policy = policy.next_epoch(SURPLUS, carry=1)
        counts = np.zeros(3, dtype=int)
        for t in range(1, 120):
            counts[policy.ask().action] += 1
            # An arm that began with a surplus begins at the carry.
            assert all((SURPLUS.shares * np.array(t) - counts - [1, 0, 0]) // 1 <= 0)
        assert policy.metrics()["rounds_in_violation"] == 0


@pytest.mark.parametrize("scheduler", ["due", "largest"])
def test_a_carry_keeps_every_window_from_the_first_round_on(scheduler):
    """Also if an arm begins with a surplus of many pulls."""
    rng, carry, shares = np.random.default_rng(5), 1, [Fraction(1, 5), Fraction(3, 10), Fraction(0)]
    phases = rng.integers(0, 3, 60).repeat(10)
    policy = FairLearn(
        Problem(3, shares),
        lambda t, counts, sums, allowed: phases[t - 1],
        scheduler,
        carry,
        initial_credits=[-20, "-7/2", -1],
    )
    pulls = np.array([pull.action for pull in policy.ask(600)])
    for arm, share in enumerate(shares):
        counts = np.concatenate([[0], np.cumsum(pulls == arm)])
        for width in (1, 4, 10, 37, 100):
            fewest = (counts[width:] - counts[:-width]).min()
            assert fewest >= share * width // 1 - carry


def test_pulls_that_fail_are_not_owed_again_where_the_carry_had_forgotten_them():
    """The carry keeps one of ten free pulls as a surplus; all ten fail."""
    policy = FairLearn(Problem(2, ["1/10", 0]), lambda t, c, s, allowed: 0, carry=1)
    for pull in policy.ask(10):
        policy.fail(pull)
    assert policy.credits == (0, 0)
    policy._learner.function = last
    assert [pull.action for pull in policy.ask(12)] == [1] + [0] + [1] * 9 + [0]


@pytest.mark.parametrize("carry", [10**9, 10**12, 2**53])
def test_a_carry_beyond_all_rounds_is_none(carry):
    problem = Problem(2, ["0.000000001", "0.5"])
    with_it, without = (FairLearn(problem, last, carry=given) for given in (carry, None))
    assert [pull.action for pull in with_it.ask(50)] == [pull.action for pull in without.ask(50)]


# ---------------------------------------------------------------- compiled, and in a study


@pytest.mark.parametrize("learner", [UCB1(), Thompson(), KLUCB()], ids=repr)
@pytest.mark.parametrize(
    ("scheduler", "carry"), [("due", 1), ("due", 3), ("largest", 1), ("lazy", None)]
)
def test_compiled_runs_are_the_plain_loop_where_arms_begin_with_a_surplus(
    scheduler, carry, learner
):
    environment = BernoulliEnvironment(SURPLUS, [0.9, 0.2, 0.8])
    policy = FairLearn(
        SURPLUS,
        learner,
        scheduler,
        carry,
        allow_unsafe=True,
        initial_credits=[-9, "-5/3", -2],
        seed=1,
    )
    compiled = policy.clone().compiled_run(environment, np.random.default_rng(8), 300)
    plain = run_policy(policy.clone(), environment, np.random.default_rng(8), 300)
    assert compiled.pulls.tolist() == plain.pulls.tolist()
    assert compiled.metrics == pytest.approx(plain.metrics)


def test_a_study_that_is_reopened_goes_on_as_it_would_have_and_verifies(tmp_path):
    """With a surplus beyond the carry, lost pulls, and a process that ends after a few calls."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    policy = FairLearn(SURPLUS, Greedy(), carry=1, initial_credits=[-20, 0, 0])
    rng, straight = np.random.default_rng(3), policy.clone(seed=1)
    Study.create(SURPLUS, policy, storage=url, name="shop", seed=1).close()
    for _ in range(12):
        with Study.open(url, "shop") as study:
            for _ in range(8):
                pull, other = study.ask(), straight.ask()
                assert pull.action == other.action
                if pull.action == 2 and rng.random() < 0.2:
                    study.fail(pull)
                    straight.fail(other)
                else:
                    reward = float(pull.action == 2)
                    study.tell(pull, reward)
                    straight.tell(other, reward)
            study.snapshot()
    with Study.open(url, "shop") as study:
        assert study.verify().ok
        assert study.policy.metrics() == straight.metrics()


# ------------------------------------------------------------------------ pulls given up


@pytest.mark.parametrize("scheduler", ["due", "lazy"])
@pytest.mark.parametrize("given_up", [1, 3, 8])
def test_pulls_given_up_leave_their_number_missing_and_as_many_rounds_make_them_good(
    scheduler, given_up
):
    """With a share of 1/100, nearly a whole pull is missing for every failed pull."""
    problem = Problem(3, ["1/100", "1/2", "1/4"])
    policy = FairLearn(problem, lambda t, counts, sums, allowed: 2, scheduler)
    own = [pull for pull in policy.ask(1000) if pull.action == 0]
    for pull in own[:given_up]:
        policy.fail(pull)
    behind = sum(max(0, credit // 1) for credit in policy.credits)
    assert given_up - 1 <= behind <= given_up
    for left in range(given_up - 1, -1, -1):
        policy.ask()
        assert sum(max(0, credit // 1) for credit in policy.credits) <= left


@pytest.mark.parametrize("mask", [False, True])
def test_lazy_serves_arms_that_are_behind_by_more_than_a_period_of_the_shares(mask):
    """A share of 1/6 has a period of six rounds; three failures leave it 15 rounds late."""
    policy = FairLearn(Problem(2, ["1/6", 0]), last, "lazy", mask=mask)
    own = [pull for pull in policy.ask(60) if pull.action == 0]
    for pull in own[:3]:
        policy.fail(pull)
    assert policy.credits[0] >= 2
    assert [pull.action for pull in policy.ask(2)] == [0, 0]


def test_a_result_that_comes_after_its_pull_was_given_up_leaves_it_out_of_the_count():
    policy = FairLearn(SURPLUS, last)
    pull = policy.ask()
    policy.fail(pull)
    before = policy.credits
    policy.tell(pull, 1.0)
    assert policy.credits == before
    assert policy.progress().actions[2].mean == 1.0

"""Arms that people close because of the results: how often the answer is wrong."""

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, Problem
from tests.effort import runs, tolerated

DELTA = 0.1
ARMS = ["a", "b", "c", "d"]


def question(**options):
    problem = Problem(ARMS, ["x"], reward_range=(0, 1), floors=None, **options)
    return problem, BlockBetting(problem, delta=DELTA)


def test_what_only_a_closed_arm_had_ruled_out_is_possible_again():
    _, policy = question()
    values = {"a": 0.1, "b": 0.8, "c": 0.2, "d": 1.0}
    while len(policy.recommend().candidates) == len(ARMS):
        pull = policy.ask()
        policy.tell(pull, values[pull.arm])
    found = policy.recommend()
    ruled_out = set(ARMS) - set(found.candidates)
    assert found.leader == "d"
    policy.close_arm("d")
    assert set(policy.recommend().candidates) == set(ARMS) - {"d"} > ruled_out


def run(seed):
    """Return whether an adversary who closes an arm has made the answer wrong.

    All arms are equal, and every answer but "a" counts as wrong. As soon as there is some evidence
    against "a", the adversary closes the arm whose blocks spoke for it most.
    """
    _, policy = question()
    rng = np.random.default_rng(seed)
    policy = policy.clone(seed=seed)
    closed = False
    for _ in range(250):
        if policy.stopped:
            break
        pull = policy.ask()
        policy.tell(pull, float(rng.random() < 0.5))
        if not closed and policy.told > 60 and policy._wealth[0] > 1.0:
            policy.close_arm(min("bcd", key=lambda arm: pair(policy, arm)))
            closed = True
    found = policy.recommend()
    return found.status == "decided" and found.arm != "a"


def pair(policy, arm):
    """Return what the blocks with a target say against the first arm."""
    book, arms = policy._blocks.state.book, len(ARMS)
    return float(book.ledgers[arms * (1 + ARMS.index(arm))])


@pytest.mark.statistical
def test_whoever_closes_arms_by_the_results_makes_answers_wrong_no_more_often_than_stated():
    number = runs(12, whole=2_000)
    wrong = sum(run(seed) for seed in range(number))
    # One arm is closed, and it may have been as right as any other.
    assert wrong / number <= tolerated(2 * DELTA, number)

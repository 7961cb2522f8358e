"""Finished experiments on linear arms: bets compared with the slow twin's, and hard nulls."""

from __future__ import annotations

import itertools
from collections import Counter
from copy import deepcopy

import numpy as np
import pytest

from fairtrial import errors
from fairtrial.linear import BlockBetting, Problem
from tests import effort
from tests.block_betting import tell_of_all_but_the_third
from tests.linear.slow_blocks import SlowBlocks
from tests.linear.test_blocks import CLICKS, INSTANCES, RewardOf, coins, gaussian
from tests.messages import raises
from tests.subpopulations.block_views import serial_of

DELTA = 0.1


def slow_twin(problem: Problem) -> SlowBlocks:
    """Return the slow implementation of a problem."""
    first = [group[0] for group in problem.answer_groups]
    bounds = problem.reward_range
    if bounds is not None and problem.sign < 0:
        bounds = (-bounds[1], -bounds[0])
    return SlowBlocks(
        problem.features,
        problem.candidate_features[first],
        None if bounds is not None else problem.scale,
        bounds,
        DELTA,
        problem.tolerance,
        problem.top,
        problem.misspecification,
    )


def assigned_at_random(problem: Problem, units: int, rng: np.random.Generator) -> list[int]:
    """Return arms in random order, with unequal probabilities; every arm occurs."""
    arms = problem.n_actions
    drawn = rng.choice(arms, units - arms, p=rng.dirichlet(np.full(arms, 3.0)))
    return rng.permutation([*range(arms), *drawn]).tolist()


def play(problem: Problem, reward_of: RewardOf, units: int, seed: int, losses: float = 0.0) -> int:
    """Analyse an experiment beside the slow implementation; return the number of paid blocks."""
    rng = np.random.default_rng(seed)
    policy = BlockBetting(problem, DELTA, assigned=assigned_at_random(problem, units, rng))
    slow = slow_twin(problem)
    state = policy._blocks.state
    while pulls := policy.ask(units):
        serial = serial_of(pulls[0])
        assert {serial_of(pull) for pull in pulls} == {serial}
        if serial >= 0:
            leaders = set(map(int, np.flatnonzero(state.chosen)))
            assert slow.may_lead(leaders)
            slow.open(dict(Counter(pull.action for pull in pulls)), leaders)
        for place in rng.permutation(len(pulls)).tolist():
            pull = pulls[place]
            if rng.random() < losses:
                policy.fail(pull)
                if serial >= 0:
                    slow.lose(serial, pull.action)
                continue
            reward = reward_of(rng, pull.action)
            policy.tell(pull, reward)
            slow.tell(serial, pull.action, problem.sign * reward)
        slow.settle()
        assert policy._standing.wealth == pytest.approx(slow.wealth, abs=1e-7, rel=1e-7)
        assert set(np.flatnonzero(state.book.rejected)) == slow.rejected
        assert policy._blocks.finished == (slow.answer is not None)
    return slow.settled


@pytest.mark.parametrize(("name", "losses"), effort.pairs(INSTANCES, [0.0, 0.08]))
def test_every_block_is_paid_as_the_mathematics_says(name: str, losses: float) -> None:
    problem, kind, theta = INSTANCES[name]
    assert play(problem, kind(problem, theta), units=200, seed=1, losses=losses) >= 2


# ------------------------------------------------------------------------------- the cuts


def test_nothing_is_bet_before_the_units_measure_every_direction() -> None:
    assigned = [0] * 30 + [1] * 20 + [0, 1, 2] * 50
    policy = BlockBetting(Problem(np.eye(3), noise_std=1.0), assigned=assigned)
    assert policy._cuts.begin == 30 + 20 + 3
    assert min(policy._cuts.starts) == policy._cuts.begin


def test_units_of_other_arms_stand_in_for_one_that_they_predict_well() -> None:
    problem = Problem([*np.eye(2).tolist(), [0.9, 0.1]], noise_std=1.0)
    policy = BlockBetting(problem, assigned=[0, 2] * 400)
    assert 8 <= policy._cuts.begin < 800
    assert policy._cuts.starts


def test_cuts_do_not_depend_on_what_comes_after_them() -> None:
    assigned = np.random.default_rng(1).integers(0, 4, 3000).tolist()
    problem = Problem(CLICKS, reward_range=(0, 1))
    whole = sorted(BlockBetting(problem, assigned=assigned)._cuts.starts.items())
    for units in (400, 1000, 2222):
        part = sorted(BlockBetting(problem, assigned=assigned[:units])._cuts.starts.items())
        assert part == whole[: len(part)]
        assert len(part) > 5


def test_units_whose_arm_never_has_a_result_are_bet_on_by_nobody() -> None:
    policy = BlockBetting(Problem(np.eye(3), noise_std=1.0), assigned=[0, 1, 2] * 40)
    tell_of_all_but_the_third(policy, 120)
    assert policy.recommend().status == "undecided"
    assert (policy._standing.wealth == 0.0).all()


def test_intervals_hold_for_arms_of_which_units_are_missing() -> None:
    rng = np.random.default_rng(5)
    problem = Problem(CLICKS, noise_std=1.0)
    policy = BlockBetting(problem, assigned=rng.permutation([0, 1, 2, 3] * 200).tolist())
    means = problem.features @ [0.0, 0.05, 0.05]
    while pulls := policy.ask(800):
        for pull in pulls:
            if rng.random() < 0.2:
                policy.fail(pull)
            else:
                policy.tell(pull, means[pull.action] + rng.normal())
    for estimate, mean in zip(policy.progress().actions, means, strict=True):
        assert estimate.lower < mean < estimate.upper
        assert estimate.upper - estimate.lower < 1.5


# -------------------------------------------------------------------------- the guarantee

HARD = {
    "equal arms": (Problem(np.eye(4), noise_std=1.0), gaussian, [0.5] * 4),
    "a factorial without effects": (Problem(CLICKS, noise_std=1.0), gaussian, [0.3, 0.0, 0.0]),
    "fair coins": (Problem(np.eye(2), reward_range=(0, 1)), coins, [0.5, 0.5]),
    "rare clicks": (Problem(CLICKS, reward_range=(0, 1)), coins, [0.05, 0.0, 0.0]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", HARD)
def test_an_answer_at_a_tie_is_seldom_rejected(name: str) -> None:
    """Equal allocation, randomised: the first arm is right; delta plus three standard errors."""
    problem, kind, theta = HARD[name]
    reward_of, rejected, runs = kind(problem, theta), 0, effort.runs(25, whole=1000)
    for seed in range(runs):
        rng = np.random.default_rng([17, seed])
        assigned = rng.permutation(np.arange(400) % problem.n_actions)
        policy = BlockBetting(problem, DELTA, assigned=assigned)
        while pulls := policy.ask(400):
            for pull in pulls:
                policy.tell(pull, reward_of(rng, pull.action))
        rejected += bool(policy._blocks.state.book.rejected[0])
    assert rejected / runs <= effort.tolerated(DELTA, runs)


def test_no_bet_wins_on_average_against_the_right_answer() -> None:
    """All outcomes of a block, each with its probability: the wealth grows by at most one."""
    problem, mean = Problem([[1, 0], [1, 1]], reward_range=(0, 1)), 0.3
    assigned = [0, 1, 1, 0] * 2 + [0, 0, 1, 0, 1, 1]
    before = BlockBetting(problem, delta=1e-9, assigned=assigned)
    for pull, outcome in zip(before.ask(14), itertools.cycle([1.0, 0.0, 0.0, 1.0, 0.0])):
        before.tell(pull, outcome)
    pulls = before.ask(14)
    grown = 0.0
    for outcomes in itertools.product((0.0, 1.0), repeat=len(pulls)):
        policy = deepcopy(before)
        for pull, outcome in zip(pulls, outcomes, strict=True):
            policy.tell(pull, outcome)
        chance = np.prod([mean if outcome else 1.0 - mean for outcome in outcomes])
        grown += chance * np.exp(policy._standing.wealth[0] - before._standing.wealth[0])
    assert len(pulls) == 6
    assert grown.max() > 0.0
    assert (grown <= 1.0 + 1e-12).all()


def test_the_guarantee_names_what_it_assumes_of_the_assignment() -> None:
    guarantee = BlockBetting(Problem(np.eye(2), noise_std=1.0), assigned=[0, 1] * 20).guarantee
    assert guarantee.proven
    assert any("in the order in which they were assigned" in one for one in guarantee.assumptions)


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "assigned",
    [[0, 1, 3], [], [0, 1] * 20],
    ids=str,
)
def test_assignments_that_cannot_be_analysed_are_refused(assigned: object) -> None:
    with raises(errors.InvalidArgument, "assigned"):
        BlockBetting(Problem(np.eye(3), noise_std=1.0), assigned=assigned)


def test_an_arm_whose_mean_the_units_of_others_do_not_determine_is_named() -> None:
    with raises(errors.TooFewUnits, "assigned", absent=(), undetermined="c"):
        problem = Problem(np.eye(3), arms=["a", "b", "c"], noise_std=1.0)
        BlockBetting(problem, assigned=[0, 1] * 20)


@pytest.mark.parametrize("more", [{"batch": 5}, {"max_pulls": 9}], ids=str)
def test_what_an_assignment_leaves_nothing_to_say_is_refused(more: dict[str, int]) -> None:
    with raises(errors.InvalidArgument, "assigned"):
        BlockBetting(Problem(np.eye(2), noise_std=1.0), assigned=[0, 1], **more)

"""Finished experiments: blocks cut from assignments, bets as in the slow implementation."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from copy import deepcopy

import numpy as np
import pytest

from fairtrial import errors
from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.block_betting import told_whole
from tests.messages import raises
from tests.subpopulations.block_views import serial_of
from tests.subpopulations.slow_blocks import SlowBlocks
from tests.subpopulations.test_blocks import (
    BOUNDED,
    INSTANCES,
    KNOWN_NOISE,
    RewardOf,
    coins,
    compare_wealth,
    gaussian,
    random_instance,
    setting_of,
)

DELTA = 0.1


def assigned_at_random(problem: Problem, units: int, rng: np.random.Generator) -> list[int]:
    """Return actions in random order, with unequal probabilities; every cell occurs."""
    shares = rng.dirichlet(np.full(problem.n_actions, 3.0))
    drawn = rng.choice(problem.n_actions, units - problem.n_actions, p=shares)
    return rng.permutation([*range(problem.n_actions), *drawn]).tolist()


def play(
    problem: Problem, reward_of: RewardOf, units: int, seed: int, losses: float = 0.0
) -> BlockBetting:
    """Analyse an experiment beside the slow implementation; outcomes come in any order."""
    rng = np.random.default_rng(seed)
    assigned = assigned_at_random(problem, units, rng)
    policy = BlockBetting(problem, delta=DELTA, assigned=assigned)
    slow = SlowBlocks(setting_of(problem, DELTA))
    slow.open_first({})
    slow.settle()
    while pulls := policy.ask(units):
        serial = serial_of(pulls[0])
        cells = [divmod(pull.action, problem.shape[1]) for pull in pulls]
        assert {serial_of(pull) for pull in pulls} == {serial}
        block = slow.open(dict(Counter(cells))) if serial >= 0 else None
        for place in rng.permutation(len(pulls)).tolist():
            pull, cell = pulls[place], cells[place]
            if rng.random() < losses:
                policy.fail(pull)
                if block is not None:
                    block.lost[cell] += 1
                continue
            reward = reward_of(rng, *cell)
            policy.tell(pull, reward)
            slow.add(cell, problem.sign * reward)
            if block is not None:
                block.rewards[cell].append(problem.sign * reward)
        slow.settle()
        compare_wealth(policy, slow)
    return policy


@pytest.mark.parametrize("name", INSTANCES)
def test_every_block_is_paid_as_the_mathematics_says(name: str) -> None:
    problem, reward_of = INSTANCES[name]
    play(problem, reward_of, units=300, seed=1)


@pytest.mark.parametrize("seed", range(20))
def test_random_experiments_with_losses_agree_with_the_slow_implementation(seed: int) -> None:
    problem, reward_of = random_instance(np.random.default_rng(seed))
    play(problem, reward_of, units=200, seed=seed, losses=0.05 if problem.reward_range else 0.0)


# ------------------------------------------------------------------------------- the cuts


def bounded(arms: int = 2, groups: int = 1, **more: object) -> Problem:
    return Problem(arms, groups, reward_range=(0, 1), **{"floors": None, **more})


def cuts_of(policy: BlockBetting) -> list[tuple[int, int]]:
    return sorted(policy._cuts.starts.items())


def test_blocks_follow_each_other_and_grow_and_the_rest_fills_none() -> None:
    assigned = np.random.default_rng(0).integers(0, 6, 20_000).tolist()
    policy = BlockBetting(bounded(3, 2), assigned=assigned)
    cuts = cuts_of(policy)
    assert [end for _, end in cuts[:-1]] == [start for start, _ in cuts[1:]]
    sizes = [end - start for start, end in cuts]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1] > 500) == (12, True)
    assert cuts[-1][1] == policy._cuts.rest
    assert len(assigned) - policy._cuts.rest <= sizes[-1] * 1.03 + 1


def test_cuts_do_not_depend_on_what_comes_after_them() -> None:
    assigned = np.random.default_rng(1).integers(0, 6, 3000).tolist()
    whole = cuts_of(BlockBetting(bounded(3, 2), assigned=assigned))
    for units in (400, 1000, 2222):
        part = cuts_of(BlockBetting(bounded(3, 2), assigned=assigned[:units]))
        assert part == whole[: len(part)]
        assert len(part) > 5


def test_nothing_is_bet_before_every_cell_has_its_initial_pulls() -> None:
    assigned = [0, 1] * 9 + [0] * 50 + [1, 0] * 200
    (start, _), *_ = cuts_of(BlockBetting(bounded(), assigned=assigned, initial_pulls=10))
    assert start == 18 + 50 + 1


def test_a_rare_cell_does_not_use_up_the_experiment() -> None:
    rare = ([0] * 49 + [1]) * 40
    (start, _), *_ = cuts_of(BlockBetting(bounded(), assigned=rare, initial_pulls=10))
    # Of 10 wanted, 10 * 80 / 200 = 4 are enough after 200 units.
    assert start == 200
    assert rare[:start].count(1) == 4


def test_what_fills_no_block_is_not_bet_on() -> None:
    assigned = [0, 1] * 10 + [0, 1, 1]
    policy = BlockBetting(bounded(), assigned=assigned)
    for _ in range(3):
        for pull in policy.ask(30):
            policy.tell(pull, float(pull.action))
    assert policy.stopped
    assert (policy._wealth[:2] == 0.0).all()
    assert policy._data[0].sum() == 23


def test_an_experiment_that_is_all_beginning_decides_nothing() -> None:
    policy = BlockBetting(bounded(), assigned=[0, 1])
    for pull in policy.ask(2):
        policy.tell(pull, float(pull.action))
    assert policy.recommend().status == "undecided"
    assert policy.recommend().candidates == ("0", "1")
    assert "all 2 units" in policy.recommend().reason


def test_a_block_is_not_opened_before_the_last_one_has_all_its_results() -> None:
    policy = BlockBetting(bounded(), assigned=[0, 1] * 100, initial_pulls=5)
    first = policy.ask(200)
    assert len(first) == 10
    for pull in first[:-1]:
        policy.tell(pull, 0.5)
    assert policy.ask(200) == []
    policy.tell(first[-1], 0.5)
    assert len(policy.ask(200)) == 4


def test_units_of_which_no_result_came_end_the_experiment_as_well() -> None:
    policy = BlockBetting(bounded(), assigned=[0, 1] * 20)
    while pulls := policy.ask(40):
        for pull in pulls:
            policy.fail(pull)
    assert policy.stopped
    assert policy.told == 0


def test_a_correction_reaches_the_bets_of_a_block_that_is_paid() -> None:
    policy = BlockBetting(bounded(), delta=1e-6, assigned=[0, 1] * 60)
    told = told_whole(policy, 120)
    pull = next(pull for pull in told if pull.tag >= 0)
    before = policy._wealth
    policy.amend(pull, told[pull], 1.0)
    assert (policy._wealth != before).any()
    assert policy.guarantee.proven
    policy.amend(pull, 1.0, told[pull])
    assert policy._wealth == pytest.approx(before)


def test_missing_outcomes_in_a_range_make_effects_wider() -> None:
    widths = []
    for missing in (0, 4):
        policy = BlockBetting(bounded(), assigned=[0, 1] * 150)
        while pulls := policy.ask(300):
            for pull in pulls:
                if pull.number % 50 < missing:
                    policy.fail(pull)
                else:
                    policy.tell(pull, float(pull.number % 3 == 0))
        (effect,) = policy.progress().effects
        assert effect.lower < 0.0 < effect.upper
        widths.append(effect.upper - effect.lower)
    assert widths[1] > widths[0]


# -------------------------------------------------------------------------- the guarantee


def test_no_bet_wins_on_average_against_the_right_answer() -> None:
    """All outcomes of a block, each with its probability: the wealth grows by at most one."""
    problem, mean = bounded(floors=0.3), 0.3
    assigned = [0, 1, 1, 0] * 3 + [0, 0, 1, 0, 1, 1]
    before = BlockBetting(problem, delta=1e-9, assigned=assigned, initial_pulls=6)
    for pull, outcome in zip(before.ask(18), itertools.cycle([1.0, 0.0, 0.0, 1.0, 0.0])):
        before.tell(pull, outcome)
    pulls = before.ask(18)
    grown = 0.0
    for outcomes in itertools.product((0.0, 1.0), repeat=len(pulls)):
        policy = deepcopy(before)
        for pull, outcome in zip(pulls, outcomes, strict=True):
            policy.tell(pull, outcome)
        chance = math.prod(mean if outcome else 1.0 - mean for outcome in outcomes)
        grown += chance * np.exp(policy._wealth[:2] - before._wealth[:2])
    assert pulls
    # Both arms are equal and on their floors: either is a right answer.
    assert (grown <= 1.0 + 1e-12).all()


RUNS = effort.runs(15, whole=1000)


def share_rejected(problem: Problem, reward_of: RewardOf, truth: int, units: int) -> float:
    rejected = 0
    for seed in range(RUNS):
        rng = np.random.default_rng([11, seed])
        assigned = assigned_at_random(problem, units, rng)
        policy = BlockBetting(problem, delta=DELTA, assigned=assigned)
        while pulls := policy.ask(units):
            for pull in pulls:
                policy.tell(pull, reward_of(rng, *divmod(pull.action, problem.shape[1])))
        rejected += bool(policy._rejected[truth])
    return rejected / RUNS


@pytest.mark.statistical
@pytest.mark.parametrize("name", KNOWN_NOISE)
def test_the_right_answer_is_seldom_rejected_with_known_noise(name: str) -> None:
    arms, groups, floors, means, truth = KNOWN_NOISE[name]
    problem = Problem(arms, groups, None, floors, 1.0)
    assert share_rejected(problem, gaussian(means), truth, 400) <= effort.tolerated(DELTA, RUNS)


@pytest.mark.statistical
@pytest.mark.parametrize("name", BOUNDED)
def test_the_right_answer_is_seldom_rejected_with_bounded_rewards(name: str) -> None:
    arms, groups, floors, means, truth = BOUNDED[name]
    problem = Problem(arms, groups, None, floors, reward_range=(0, 1))
    assert share_rejected(problem, coins(means), truth, 400) <= effort.tolerated(DELTA, RUNS)


@pytest.mark.statistical
def test_assignments_that_follow_earlier_blocks_break_nothing() -> None:
    """The planner may look at finished blocks: here the arm that looks worse gets more units."""
    problem = bounded()
    rejected = 0
    for seed in range(RUNS):
        rng = np.random.default_rng([13, seed])
        outcomes = rng.random((2, 400)) < 0.3
        assigned = [0, 1] * 3
        while len(assigned) < 400:
            size = max(math.ceil(0.03 * len(assigned)), 4)
            used = np.bincount(assigned)
            means = [outcomes[arm, : used[arm]].mean() for arm in (0, 1)]
            worse = int(means[0] > means[1])
            assigned += rng.choice([worse, 1 - worse], size, p=[0.8, 0.2]).tolist()
        policy = BlockBetting(problem, delta=DELTA, assigned=assigned, initial_pulls=3)
        told = np.zeros(2, dtype=int)
        while pulls := policy.ask(400):
            for pull in pulls:
                policy.tell(pull, float(outcomes[pull.action, told[pull.action]]))
                told[pull.action] += 1
        rejected += bool(policy._rejected[0])
    assert rejected / RUNS <= effort.tolerated(DELTA, RUNS)


def test_the_guarantee_names_what_it_assumes_of_the_assignment() -> None:
    guarantee = BlockBetting(bounded(), assigned=[0, 1] * 20).guarantee
    assert guarantee.proven
    assert any("in the order in which they were assigned" in one for one in guarantee.assumptions)
    assert not any("can be predicted" in one for one in guarantee.assumptions)


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "assigned",
    ["01", [[0, 1]], [0.0, 1.0], [0, 2], [-1, 0, 1], [0, None], [], [True, False], 3],
    ids=str,
)
def test_assignments_that_are_none_are_refused(assigned: object) -> None:
    with raises(errors.InvalidArgument, "assigned"):
        BlockBetting(bounded(), assigned=assigned)


def test_a_cell_without_units_is_named() -> None:
    with raises(errors.TooFewUnits, "assigned", absent=(3,)):
        BlockBetting(bounded(groups=["x", "y"]), assigned=[0, 1, 2])


@pytest.mark.parametrize("more", [{"batch": 5}, {"max_pulls": 9}], ids=str)
def test_what_an_assignment_leaves_nothing_to_say_is_refused(more: dict[str, object]) -> None:
    with raises(errors.InvalidArgument):
        BlockBetting(bounded(), assigned=[0, 1], **more)


def test_a_group_cannot_be_asked_for() -> None:
    with raises(errors.InvalidArgument, "group"):
        BlockBetting(bounded(), assigned=[0, 1]).ask(group="0")

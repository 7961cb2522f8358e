"""Finished experiments on the best k arms: bets compared with a slow version, and hard nulls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest

from fairtrial import errors
from fairtrial.delayed import BlockBetting, Problem
from fairtrial.delayed._kernels.top_sets import wealth_against
from tests import effort
from tests.block_betting import tell_of_all_but_the_third, told_whole
from tests.linear.slow_blocks import CAP, log_bet, mixture, stakes
from tests.messages import raises

DELTA = 0.1

RewardOf = Callable[[np.random.Generator, int], float]


def coins(means: list[float]) -> RewardOf:
    return lambda rng, arm: float(rng.random() < means[arm])


def normals(means: list[float]) -> RewardOf:
    return lambda rng, arm: float(rng.normal(means[arm]))


def assigned_at_random(arms: int, units: int, rng: np.random.Generator) -> list[int]:
    """Return all arms in random order, with unequal probabilities."""
    drawn = rng.choice(arms, units - arms, p=rng.dirichlet(np.full(arms, 3.0)))
    return rng.permutation([*range(arms), *drawn]).tolist()


class SlowBest:
    """The wealth against every arm except the leader, from the mathematics, without shared code.

    Outcomes are maximised. With a range, they are in [0, 1]; without a range, their noise is 1.
    """

    def __init__(self, arms: int, *, bounded: bool) -> None:
        self.bounded = bounded
        self.data: list[list[float]] = [[] for _ in range(arms)]
        self.wealth = np.zeros(arms)
        self.target = -1

    def open(self) -> None:
        """Freeze the information before a block."""
        self.means = [float(np.mean(own)) for own in self.data]
        self.spreads = [
            (sum((x - np.mean(own)) ** 2 for x in own) + 0.5) / (len(own) + 2)
            if self.bounded
            else 1
            for own in self.data
        ]
        self.errors = [
            spread / len(own) for spread, own in zip(self.spreads, self.data, strict=True)
        ]
        leader = int(np.argmax(self.means))
        self.target = leader if self.wealth[leader] < math.inf else self.target

    def pay(self, planned: list[int], came: list[list[float]], lost: list[int]) -> None:
        """Pay the block's bets that the leader is better than each other arm."""
        b = self.target
        for j in range(len(planned)):
            if j == b or self.wealth[j] == math.inf or not (planned[j] and planned[b]):
                continue
            gap, sd = self.means[b] - self.means[j], math.sqrt(self.errors[b] + self.errors[j])
            if gap < 0.5 * sd:
                continue
            pay = self.bounded_pay if self.bounded else self.normal_pay
            self.wealth[j] += pay(j, b, gap, sd, planned, came, lost)
            if self.wealth[j] >= math.log(1 / DELTA):
                self.wealth[j] = math.inf

    def normal_pay(self, j, b, gap, sd, planned, came, lost) -> float:
        if not (came[j] and came[b]):
            return 0.0
        variance = 1 / len(came[b]) + 1 / len(came[j])
        effect = float(np.mean(came[b]) - np.mean(came[j]))
        return log_bet(gap / sd, sd**2 / variance, effect / sd)

    def bounded_pay(self, j, b, gap, sd, planned, came, lost) -> float:
        parts = {b: 1 / planned[b], j: -1 / planned[j]}
        weights = {arm: planned[arm] / self.spreads[arm] for arm in parts}
        centre = sum(weights[arm] * self.means[arm] for arm in parts) / sum(weights.values())
        inside = sum(
            a**2 * planned[arm] * (self.spreads[arm] + (self.means[arm] - centre) ** 2)
            for arm, a in parts.items()
        )
        ruin = max(centre / planned[b], (1 - centre) / planned[j])
        points, shares, cash = stakes(gap / sd)
        points = np.minimum(points * sd / inside, CAP / ruin)
        worst = {b: 0.0, j: 1.0}
        logs = np.zeros(len(points))
        for arm, a in parts.items():
            for value in [*came[arm], *[worst[arm]] * lost[arm]]:
                logs += np.log1p(points * a * (value - centre))
        return mixture(cash, shares, logs)


@pytest.mark.parametrize("losses", [0.0, 0.1])
@pytest.mark.parametrize("bounded", [True, False], ids=["coins", "normal"])
@pytest.mark.parametrize("seed", range(4))
def test_every_block_is_paid_as_the_mathematics_says(
    seed: int, bounded: bool, losses: float
) -> None:
    arms, means = 4, [0.5, 0.3, 0.62, 0.6]
    noise = {"reward_range": (0, 1)} if bounded else {"noise_std": 1.0}
    problem = Problem(arms, **noise)
    reward_of, rng = (coins if bounded else normals)(means), np.random.default_rng(seed)
    policy = BlockBetting(problem, DELTA, assigned=assigned_at_random(arms, 400, rng))
    slow, blocks = SlowBest(arms, bounded=bounded), 0
    while pulls := policy.ask(400):
        # The initial units, and those after the last block, are in no block.
        in_block = pulls[0].tag != -1
        if in_block:
            slow.open()
        came: list[list[float]] = [[] for _ in range(arms)]
        planned, lost = [0] * arms, [0] * arms
        for place in rng.permutation(len(pulls)).tolist():
            pull = pulls[place]
            planned[pull.action] += 1
            if rng.random() < losses:
                policy.fail(pull)
                lost[pull.action] += 1
            else:
                reward = reward_of(rng, pull.action)
                policy.tell(pull, reward)
                came[pull.action].append(reward)
        if in_block:
            slow.pay(planned, came, lost)
            blocks += 1
            wealth = policy._blocks.state.wealth
            for arm, one in enumerate(np.eye(arms)):
                expected = pytest.approx(slow.wealth[arm], abs=1e-7)
                assert wealth_against(wealth, one) == expected
        for own, new in zip(slow.data, came, strict=True):
            own.extend(new)
    assert blocks >= 10


# ------------------------------------------------------------------------------- the cuts


def test_blocks_begin_once_every_arm_has_its_initial_pulls_and_then_grow() -> None:
    assigned = np.random.default_rng(0).integers(0, 3, 9000).tolist()
    policy = BlockBetting(Problem(3, reward_range=(0, 1)), assigned=assigned)
    cuts = sorted(policy._cuts.starts.items())
    assert np.bincount(assigned[: cuts[0][0]]).min() == 10
    assert [end for _, end in cuts[:-1]] == [start for start, _ in cuts[1:]]
    assert cuts[0][1] - cuts[0][0] == 6
    assert cuts[-1][1] - cuts[-1][0] > 200


def test_a_correction_reaches_the_bets_of_a_block_that_is_paid() -> None:
    policy = BlockBetting(Problem(2, reward_range=(0, 1)), 1e-6, assigned=[0, 1] * 60)
    told = told_whole(policy, 120)
    pull = next(pull for pull in told if pull.tag >= 0)
    before = policy.progress().evidence
    policy.amend(pull, told[pull], 1.0)
    assert policy.progress().evidence != before
    assert policy.guarantee.proven
    policy.amend(pull, 1.0, told[pull])
    assert policy.progress().evidence == pytest.approx(before)


def test_arms_of_which_no_result_came_are_bet_on_by_nobody() -> None:
    policy = BlockBetting(Problem(3, reward_range=(0, 1)), assigned=[0, 1, 2] * 40)
    tell_of_all_but_the_third(policy, 120)
    assert policy.recommend().status == "undecided"
    assert policy.recommend().candidates == ("0", "1", "2")


def test_an_experiment_that_asks_for_all_arms_has_its_answer_at_once() -> None:
    policy = BlockBetting(Problem(2, top=2, reward_range=(0, 1)), assigned=[0, 1] * 9)
    assert policy.stopped


# -------------------------------------------------------------------------- the guarantee

HARD = {
    "fair coins": ([0.5, 0.5], 1, coins),
    "rare events": ([0.05] * 3, 1, coins),
    "two of four": ([0.5] * 4, 2, coins),
    "normal": ([0.0] * 3, 1, normals),
    "a tie for the second place": ([1.0, 0.0, 0.0, -1.0], 2, normals),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", HARD)
def test_an_answer_at_a_tie_is_seldom_rejected(name: str) -> None:
    """Equal randomised allocation; the first arms are right; delta plus three standard errors."""
    means, top, kind = HARD[name]
    arms, reward_of = len(means), kind(means)
    noise = {"noise_std": 1.0} if kind is normals else {"reward_range": (0, 1)}
    right = (np.arange(arms) < top).astype(float)
    rejected, runs = 0, effort.runs(25, whole=1000)
    for seed in range(runs):
        rng = np.random.default_rng([19, seed])
        policy = BlockBetting(
            Problem(arms, top=top, **noise), DELTA, assigned=rng.permutation(np.arange(400) % arms)
        )
        ever = False
        while pulls := policy.ask(400):
            for pull in pulls:
                policy.tell(pull, reward_of(rng, pull.action))
            ever = ever or wealth_against(policy._blocks.state.wealth, right) == math.inf
        rejected += ever
    assert rejected / runs <= effort.tolerated(DELTA, runs)


@pytest.mark.statistical
def test_outcomes_that_go_missing_because_they_are_good_break_nothing() -> None:
    """The arms are equal; 30 % of the results that favour the right answer are missing."""
    rejected, runs = 0, effort.runs(25, whole=1000)
    for seed in range(runs):
        rng = np.random.default_rng([23, seed])
        assigned = rng.permutation(np.arange(600) % 2)
        policy = BlockBetting(Problem(2, reward_range=(0, 1)), DELTA, assigned=assigned)
        ever = False
        while pulls := policy.ask(600):
            for pull in pulls:
                outcome = float(rng.random() < 0.5)
                if (pull.action == 0) == (outcome == 1.0) and rng.random() < 0.3:
                    policy.fail(pull)
                else:
                    policy.tell(pull, outcome)
            ever = (
                ever
                or wealth_against(policy._blocks.state.wealth, np.array([1.0, 0.0])) == math.inf
            )
        rejected += ever
    assert rejected / runs <= effort.tolerated(DELTA, runs)


def test_no_bet_wins_on_average_against_the_right_answer() -> None:
    """Over all outcomes of a block with their probabilities, the mean factor is at most one."""
    mean, assigned = 0.3, [0, 1, 1, 0] * 3 + [0, 0, 1, 0, 1, 1]
    problem = Problem(2, reward_range=(0, 1))
    before = BlockBetting(problem, 1e-9, assigned=assigned, initial_pulls=6)
    for pull, outcome in zip(before.ask(18), itertools.cycle([1.0, 0.0, 0.0, 1.0, 0.0])):
        before.tell(pull, outcome)
    pulls, grown = before.ask(4), np.zeros(2)
    for outcomes in itertools.product((0.0, 1.0), repeat=len(pulls)):
        policy = deepcopy(before)
        for pull, outcome in zip(pulls, outcomes, strict=True):
            policy.tell(pull, outcome)
        chance = math.prod(mean if outcome else 1.0 - mean for outcome in outcomes)
        wealth = policy._blocks.state.wealth
        grown += chance * np.exp([wealth_against(wealth, one) for one in np.eye(2)])
    assert len(pulls) == 4
    assert (grown <= 1.0 + 1e-12).all()


def test_the_guarantee_names_what_it_assumes_of_the_assignment() -> None:
    guarantee = BlockBetting(Problem(2, reward_range=(0, 1)), assigned=[0, 1] * 20).guarantee
    assert guarantee.proven
    assert any("in the order in which they were assigned" in one for one in guarantee.assumptions)


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("assigned", ["01", [[0, 1]], [0.0, 1.0], [0, 2], [], 3], ids=str)
def test_assignments_that_are_none_are_refused(assigned: object) -> None:
    with raises(errors.InvalidArgument, "assigned"):
        BlockBetting(Problem(2, reward_range=(0, 1)), assigned=assigned)


def test_an_arm_without_units_is_named() -> None:
    with raises(errors.TooFewUnits, "assigned", absent=(1,), undetermined=None):
        BlockBetting(Problem(["a", "b"], reward_range=(0, 1)), assigned=[0, 0])


@pytest.mark.parametrize("more", [{"batch": 5}, {"max_pulls": 9}], ids=str)
def test_what_an_assignment_leaves_nothing_to_say_is_refused(more: dict[str, int]) -> None:
    with raises(errors.InvalidArgument, "assigned"):
        BlockBetting(Problem(2, reward_range=(0, 1)), assigned=[0, 1], **more)

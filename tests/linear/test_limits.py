"""Limits of candidates: questions, bets, proofs, reports and refusals."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairtrial as ft
from fairtrial.errors import InvalidArgument
from fairtrial.linear import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    LinGame,
    LinGapE,
    NotEstimable,
    ODLinBAI,
    Problem,
    Rage,
    XYAllocation,
    complexity,
)
from fairtrial.report import write_report
from fairtrial.simulation import simulate
from fairtrial.testing import check_environment, check_policy, check_problem
from tests import effort
from tests.block_betting import factors, play_with_losses
from tests.linear.limited_instances import HARD, share_rejected
from tests.linear.slow_limits import SlowLimits
from tests.messages import raises
from tests.subpopulations.block_views import serial_of

GRID_OF_DOSES = [[1.0, dose, heat] for dose in (0.0, 0.5, 1.0) for heat in (0.0, 1.0)]
WARM = [[1.0, dose, 1.0] for dose in (0.0, 0.5, 1.0)]
COLD = [[1.0, dose, 0.0] for dose in (0.0, 0.5, 1.0)]


def doses(**asked: Any) -> Problem:
    """Three doses to choose among in the warm; arms are tried warm and cold."""
    return Problem(GRID_OF_DOSES, WARM, answers=["none", "half", "full"], **asked)


FLOORS_BY_ARM = {"floors": [0.0, None, 0.2, 0.1, -0.3, None]}
COLD_TOO = {"limits": {"cold": {"features": COLD, "floors": 0.1}}}


# ------------------------------------------------- against a slow and obvious second version


class Twins:
    """A policy and its slow twin: same input, compared whenever a block is planned or paid."""

    def __init__(self, problem: Problem, **options: Any) -> None:
        self.problem = problem
        self.policy = BlockBetting(problem, delta=0.1, seed=0, **options)
        first = [group[0] for group in problem.answer_groups]
        bounds = problem.reward_range
        if bounds is not None and problem.sign < 0:
            bounds = (-bounds[1], -bounds[0])
        self.slow = SlowLimits(
            problem.features,
            problem.candidate_features[first],
            [rows_of(problem, index) for index in first],
            None if bounds is not None else problem.scale,
            bounds,
            0.1,
            problem.tolerance,
            problem.floor_tolerance,
        )
        self.slow.is_normal = self.policy.noise == "normal"
        self.known = self.placed = self.paid = 0

    def follow(self) -> None:
        state = self.policy._blocks.state
        while self.known < self.policy._blocks.planned:
            slot = self.known % len(state.blocks.waiting)
            planned = state.blocks.planned[slot]
            (leader,) = np.flatnonzero(state.chosen)
            self.slow.overdue = self.policy._blocks.overdue[:, 1].tolist()
            assert leader == self.slow.target()
            counts = {int(k): int(planned[k]) for k in np.flatnonzero(planned)}
            self.slow.open_block(counts, int(leader), self.later(planned))
            self.placed += len(self.slow.blocks[-1].bets)
            self.known += 1

    def later(self, planned: np.ndarray) -> float | None:
        """Return the pulls between a block and the planned end; None without one."""
        if not self.policy.planned_end:
            return None
        issued = self.policy._blocks.state.opened.sum()
        earlier = sum(sum(block.counts.values()) for block in self.slow.blocks)
        return self.policy.max_pulls - issued - earlier - planned.sum()

    def compare(self) -> None:
        slow, ledgers = self.slow, self.policy._blocks.state.book.ledgers
        number = slow.number
        own, rest = ledgers[:number], ledgers[number:]
        pairs, kept = rest[: number**2].reshape((number, number)).T, rest[number**2 :]
        assert own == pytest.approx(slow.own, rel=1e-6, abs=1e-6)
        assert pairs == pytest.approx(slow.pair, rel=1e-6, abs=1e-6)
        kept = kept.reshape((number, -1))
        for k in range(number):
            named = [r for r, one in enumerate(self.problem.requirements) if self.has(one, k)]
            wanted = [slow.kept[k, place] for place in range(len(named))]
            assert kept[k, named] == pytest.approx(wanted, rel=1e-6, abs=1e-6)

    def has(self, one: Any, k: int) -> bool:
        return bool(one.least[self.problem.answer_groups[k][0]] > -math.inf)

    def tell(self, pull: Any, reward: float) -> None:
        self.policy.tell(pull, reward)
        self.slow.tell(serial_of(pull), pull.action, self.problem.sign * reward)
        if self.slow.pay_blocks():
            self.paid += 1
            self.compare()

    def lose(self, pull: Any) -> None:
        self.policy.fail(pull)
        self.slow.lose(serial_of(pull), pull.action)
        if self.slow.pay_blocks():
            self.compare()


def rows_of(problem: Problem, k: int) -> list[tuple[np.ndarray, float]]:
    """Return the limits of a candidate as rows that are at most zero, for maximised rewards."""
    found = []
    for one in problem.requirements:
        if one.least[k] > -math.inf:
            row = one.features[k] - (one.features[one.control] if one.control >= 0 else 0.0)
            found.append((-one.factor * row, float(one.least[k])))
    return found


BOUNDED, NORMAL = {"reward_range": (-1, 2)}, {"noise_std": 1.0}
TWINS: dict[str, tuple[Problem, list[float]]] = {
    "floors by arm": (Problem(np.eye(6), **NORMAL, **FLOORS_BY_ARM), [0.9, 0.5, 0.1, 0.3, 0.2, 0]),
    "none is right": (Problem(np.eye(3), **NORMAL, floors=0.5), [0.0, -0.2, 0.1]),
    "none, in a range": (Problem(np.eye(3), **BOUNDED, floors=0.6), [0.0, -0.2, 0.1]),
    "cold, too": (doses(**NORMAL, **COLD_TOO), [0.1, 0.5, 0.4]),
    "cold, in a range": (doses(**BOUNDED, **COLD_TOO), [-0.3, 0.7, 0.6]),
    "small is good": (
        doses(
            noise_std=[0.7, 0.9, 1.1, 0.8, 1.0, 1.2],
            direction="minimize",
            ceilings=-0.8,
            floors={"none": 0.9, "half": None, "full": 0.6},
            control="none",
            limits={"cold": {"features": COLD, "margin": 0.2}},
        ),
        [0.5, -0.4, 0.2],
    ),
    "superior to a control": (
        Problem([[1, 0.2], [0.1, 1], [0.7, 0.8], [0.3, 0.9]], **NORMAL, control="1",
                superiority=0.2, ceilings=1.5),
        [0.3, 0.8],
    ),
    "with tolerances": (
        doses(**BOUNDED, **COLD_TOO, tolerance=0.2, floor_tolerance=0.15),
        [0.1, 0.5, 0.4],
    ),
    "one arm and its floor": (Problem([[1.0], [2.0]], [[1.0]], **NORMAL, floors=0.2), [0.5]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "losses"), effort.pairs(TWINS, [False, True]))
def test_every_ledger_is_that_of_the_slow_version(name: str, losses: bool) -> None:
    problem, theta = TWINS[name]
    twins = Twins(problem, batch=7 if losses else None)
    rng = np.random.default_rng(3)
    means = problem.features @ np.array(theta)
    waiting: list[Any] = []
    while twins.policy.told < 260 and not twins.policy.stopped:
        waiting.append(twins.policy.ask())
        twins.follow()
        if len(waiting) < 3 and losses:
            continue
        pull = waiting.pop(int(rng.integers(len(waiting))))
        if losses and rng.random() < 0.05:
            twins.lose(pull)
            continue
        reward = means[pull.action] + 0.5 * rng.standard_normal()
        if problem.reward_range is not None:
            reward = float(np.clip(reward, *problem.reward_range))
        twins.tell(pull, float(reward))
    assert twins.paid >= 4
    assert twins.placed >= 4
    # The slow version waits for results that count as their worst until they come.
    if twins.policy._blocks.finished and not len(twins.policy._blocks.overdue):
        assert twins.slow.answer == set(np.flatnonzero(twins.policy._blocks.state.chosen))


# ------------------------------------------------------------------- an arm that is broken

PAIRED = np.eye(6)
"""Three candidates, each pulled in the warm and in the cold."""


def broken_third(**noise: Any) -> Problem:
    """Return a choice among three candidates with a floor on a second mean of each."""
    cold_too = {"cold": {"features": PAIRED[3:], "floors": 0.1}}
    return Problem(PAIRED, PAIRED[:3], answers=["old", "new", "third"], limits=cold_too, **noise)


def loses_third(pull: Any, outcome: float, earlier: int) -> bool:
    """Return whether a pull fails: all of the third candidate in the warm do, after four."""
    del outcome
    return bool(pull.action == 2 and earlier >= 4)


@pytest.mark.parametrize("third", [0.5, 0.9])
@pytest.mark.parametrize("known_noise", [True, False], ids=["normal", "coins"])
def test_an_arm_that_loses_everything_does_not_keep_others_from_being_compared(
    known_noise: bool, third: float
) -> None:
    problem = broken_third(**({"noise_std": 0.5} if known_noise else {"reward_range": (0, 1)}))
    kind = GaussianEnvironment if known_noise else BernoulliEnvironment
    environment = kind(problem, [0.2, 0.6, third, 0.5, 0.5, 0.5])
    policy = BlockBetting(problem, delta=0.05, seed=2)
    play_with_losses(policy, environment, loses_third, seed=0, most=1_500)
    assert policy.recommend().candidates == ("new", "third")
    assert policy.guarantee.proven != known_noise


def until_compared(problem: Problem, means: list[float], seed: int, share: float) -> int:
    """Return the pulls until at most one of "a", "b" and "c" is left; the last arms are the cold.

    This share of the results of "lossy" in the warm gets lost.
    """
    policy = BlockBetting(problem, delta=0.1, seed=seed)
    rng, others = np.random.default_rng([3, seed]), {"a", "b", "c"}
    lossy = (problem.answers or []).index("lossy") if share else -1
    while len(others.intersection(policy.recommend().candidates)) > 1 and policy.asked < 4_000:
        pull = policy.ask()
        reward = float(rng.random() < means[pull.action])
        if pull.action == lossy and rng.random() < share:
            policy.fail(pull)
        else:
            policy.tell(pull, reward)
    return policy.asked


def test_a_leader_that_losses_make_slow_does_not_delay_other_comparisons() -> None:
    # With its losses as the worst values, "lossy" is hardly better than "b": its mean is .52.
    whole = alone = 0
    for seed in range(4):
        for answers, warm in (
            (["a", "b", "c"], [0.3, 0.5, 0.7]),
            (["a", "b", "c", "lossy"], [0.3, 0.5, 0.7, 0.95]),
        ):
            n = len(answers)
            cold = {"cold": {"features": np.eye(2 * n)[n:], "floors": 0.1}}
            arms = np.eye(2 * n)
            problem = Problem(arms, arms[:n], answers=answers, limits=cold, reward_range=(0, 1))
            share = 0.45 if n == 4 else 0.0
            pulls = until_compared(problem, [*warm, *[0.5] * n], seed, share)
            whole, alone = (whole + pulls, alone) if n == 4 else (whole, alone + pulls)
    assert whole < 2 * alone


@pytest.mark.parametrize("name", ["cold, in a range", "none, in a range", "floors by arm"])
def test_a_broken_arm_changes_every_ledger_as_in_the_slow_version(name: str) -> None:
    problem, theta = TWINS[name]
    twins = Twins(problem)
    rng = np.random.default_rng(4)
    means = problem.features @ np.array(theta)
    chosen: Counter[int] = Counter()
    while twins.policy.told < 200 and not twins.policy.stopped:
        pull = twins.policy.ask()
        twins.follow()
        chosen[pull.action] += 1
        if pull.action == 1 and chosen[1] > 4:
            twins.lose(pull)
            continue
        reward = means[pull.action] + 0.5 * rng.standard_normal()
        if problem.reward_range is not None:
            reward = float(np.clip(reward, *problem.reward_range))
        twins.tell(pull, float(reward))
    assert twins.paid >= 4
    assert twins.placed >= 4


# ------------------------------------------------------------ every bet is fair, exactly

COINS = {
    "cold, with a margin": doses(
        reward_range=(0, 1),
        limits={"cold": {"features": COLD, "floors": 0.35, "margin": 0.05}},
        control="none",
    ),
    "two limits each": Problem(
        [[1, 0.0], [1, 1.0], [1, 0.5]], reward_range=(0, 1), floors=0.3, ceilings=0.8
    ),
    "noise of a coin": doses(noise_std=0.5, limits={"cold": {"features": COLD, "floors": 0.4}}),
    "superior by a tenth": Problem(
        [[1, 0.0], [1, 1.0], [1, 0.5]], noise_std=0.5, control="0", superiority=0.1, ceilings=0.9
    ),
}


def block_of_coins(problem: Problem, seed: int) -> tuple[BlockBetting, list[Any]]:
    """Return a policy with bets on a block of a few pulls of coins, and these pulls."""
    rng = np.random.default_rng(seed)
    policy = BlockBetting(problem, delta=0.001, batch=7, seed=seed)
    theta = point(problem, rng)
    while True:
        pull = policy.ask()
        state = policy._blocks.state
        slot = serial_of(pull) % len(state.blocks.waiting)
        if serial_of(pull) >= 0 and state.bets.number[slot]:
            return policy, [pull, *policy.ask(int(state.blocks.unissued[slot]))]
        policy.tell(pull, float(rng.random() < problem.features[pull.action] @ theta))


def point(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Return a parameter at which every arm is a coin."""
    while True:
        theta = rng.uniform(-0.6, 0.9, problem.features.shape[1])
        chances = problem.features @ theta
        if chances.min() >= 0.02 and chances.max() <= 0.98:
            return theta


def nulls(problem: Problem, ledger: int) -> list[tuple[np.ndarray, float]]:
    """Return rows that are at most zero where the claim that a ledger bets against is true."""
    number, limits = len(problem.answers), len(problem.requirements)
    if ledger < number:
        return rows_of(problem, ledger)
    if ledger < number + number**2:
        target, k = divmod(ledger - number, number)
        better = problem.features if problem.candidates is None else problem.candidates
        return [(better[target] - better[k], 0.0), *rows_of(problem, k)]
    target, place = divmod(ledger - number - number**2, limits)
    one = problem.requirements[place]
    assert one.least[target] > -math.inf
    alone = rows_of(problem, target)
    limited = [each for each in problem.requirements if each.least[target] > -math.inf]
    row, constant = alone[[each.name for each in limited].index(one.name)]
    return [(-row, -constant)]


def on_the_border(
    problem: Problem, rows: list[tuple[np.ndarray, float]], rng: np.random.Generator
) -> np.ndarray:
    """Return a parameter at which all rows are at most zero, and one or more exactly zero."""
    while True:
        theta = point(problem, rng)
        tight = [row for row in rows if rng.random() < 0.5] or rows[:1]
        matrix = np.array([row for row, _ in tight])
        theta = theta - np.linalg.pinv(matrix) @ (matrix @ theta + [c for _, c in tight])
        chances = problem.features @ theta
        fine = all(row @ theta + constant <= 1e-12 for row, constant in rows)
        if fine and chances.min() >= 0.0 and chances.max() <= 1.0:
            return theta


@pytest.mark.parametrize("seed", range(effort.runs(2, whole=4)))
@pytest.mark.parametrize("name", COINS)
def test_every_factor_of_a_block_is_at_most_one_on_average(name: str, seed: int) -> None:
    problem = COINS[name]
    policy, block = block_of_coins(problem, seed)
    assert 2 <= len(block) <= 12
    outcomes, found = factors(policy, block)
    rng = np.random.default_rng([seed, 1])
    largest, used = 0.0, np.flatnonzero(np.ptp(found, axis=0) > 1e-6)
    for ledger in used.tolist():
        rows = nulls(problem, ledger)
        for _ in range(10):
            theta = on_the_border(problem, rows, rng)
            rates = np.array([problem.features[pull.action] @ theta for pull in block])
            chances = np.prod(np.where(outcomes == 1.0, rates, 1.0 - rates), axis=1)
            average = float(chances @ found[:, ledger])
            assert average <= 1.0 + 1e-9
            largest = max(largest, average)
    assert used.size >= 2
    # There are bets: a factor of exactly one everywhere would be fair, too.
    assert largest > 0.5


# ------------------------------------------------------------------- the hardest questions

RUNS = effort.runs(20, whole=2_000)


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "known_noise"), effort.pairs(HARD, [True, False]))
def test_a_right_answer_is_seldom_ever_ruled_out(name: str, known_noise: bool) -> None:
    share = share_rejected(name, RUNS, known_noise=known_noise, horizon=400)
    assert share <= effort.tolerated(0.1, RUNS)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["answer on a limit", "two best tie on their limits"])
def test_hostile_losses_seldom_rule_out_a_right_answer(name: str) -> None:
    asked, theta, answer = HARD[name]
    problem = Problem(**asked, reward_range=(0, 1))
    environment = BernoulliEnvironment(problem, theta)
    number = effort.runs(8, whole=1_000)

    def loses(pull: Any, outcome: float, earlier: int) -> bool:
        # The first arm is broken after six pulls, and one success of the last in four is withheld.
        if pull.action == 0:
            return earlier >= 6
        last = pull.action == problem.n_actions - 1
        return last and outcome == 1.0 and earlier % 4 == 0

    wrong = 0
    for seed in range(number):
        policy = BlockBetting(problem, delta=0.1, seed=seed)
        play_with_losses(policy, environment, loses, seed, 250)
        wrong += answer not in (policy.recommend().candidates or ())
    assert wrong / number <= effort.tolerated(0.1, number)


@pytest.mark.statistical
@pytest.mark.parametrize("known_noise", [True, False], ids=["normal", "coins"])
def test_an_answer_a_little_beyond_the_tolerance_is_seldom_given(known_noise: bool) -> None:
    noise: dict[str, Any] = {"noise_std": 0.5} if known_noise else {"reward_range": (0, 1)}
    problem = Problem(
        np.eye(3), **noise, floors=[0.3, 0.7, None], tolerance=0.1, floor_tolerance=0.1
    )
    kind = GaussianEnvironment if known_noise else BernoulliEnvironment
    # The second is short by slightly more than .1; the third is worse than the first by that.
    environment = kind(problem, [0.5, 0.6 - 1e-6, 0.4 - 1e-6])
    assert environment.truth.acceptable == ("0",)
    policy = BlockBetting(problem, delta=0.1)
    found = simulate(policy, environment, RUNS, seed=3, horizon=600, progress=False)
    assert found.error_rate <= effort.tolerated(0.1, RUNS)


@pytest.mark.statistical
def test_easy_questions_are_decided_rightly() -> None:
    """This includes "no arm"; and the pulls are not far from what any rule needs."""
    for (asked, theta), most in {
        ("floors", (0.2, 0.9, 0.5, 0.1)): 5.0,
        ("none", (0.2, -0.3, 0.1, 0.0)): 5.0,
    }.items():
        problem = Problem(np.eye(4), noise_std=0.5, floors=0.3 if asked == "floors" else 0.7)
        environment = GaussianEnvironment(problem, theta)
        runs = effort.runs(30, whole=300)
        found = simulate(BlockBetting(problem), environment, runs, seed=1, progress=False)
        assert found.error_rate <= effort.tolerated(0.05, runs)
        assert found.undecided_rate == 0.0
        assert found.stopping_time.mean() < most * complexity(environment).value * math.log(20)


# ---------------------------------------------------------------------- the whole contract


@pytest.mark.parametrize(
    ("question", "losses"),
    effort.pairs(
        [
            (BOUNDED, {**COLD_TOO}),
            (NORMAL, {"control": "half", "superiority": 0.1, "ceilings": 2.0}),
            (BOUNDED, {**COLD_TOO, "tolerance": 0.1, "floor_tolerance": 0.1}),
            (NORMAL, {"floors": {"none": 5.0, "half": 4.0, "full": 3.0}, "direction": "maximize"}),
        ],
        [True, False],
    ),
)
def test_the_policy_keeps_the_contract(question: Any, losses: bool) -> None:
    noise, asked = question
    problem = doses(**noise, **asked)
    environment: Any = GaussianEnvironment(problem.clone(noise_std=1.0), [0.1, 0.5, 0.3])
    if "reward_range" in noise:
        problem = problem.clone(reward_range=(0, 1))
        environment = BernoulliEnvironment(problem, [0.1, 0.5, 0.3])
    check_problem(problem)
    check_environment(environment)
    policy = BlockBetting(environment.problem, delta=0.1, seed=3)
    check_policy(policy, environment, pulls=effort.runs(30, whole=60), losses=losses)


def test_no_arm_is_an_answer() -> None:
    problem = doses(**NORMAL, limits={"cold": {"features": COLD, "floors": 2.0}})
    policy, rng = BlockBetting(problem, delta=0.1, seed=0), np.random.default_rng(0)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(rng.standard_normal()))
    found = policy.recommend()
    assert (found.arm, found.status, found.candidates) == (None, "decided", (None,))
    assert "no arm keeps all its limits" in found.reason
    assert found.guarantee.proven
    answers = policy.progress().answers
    assert [one.answer for one in answers] == ["none", "half", "full", None]
    assert [one.rejected for one in answers] == [True, True, True, False]


def test_a_finished_experiment_is_analysed_with_its_limits() -> None:
    problem = doses(**NORMAL, **COLD_TOO)
    rng = np.random.default_rng(0)
    actions = rng.integers(0, problem.n_actions, 2_000)
    policy = BlockBetting(problem, delta=0.05, assigned=actions)
    means = problem.features @ [0.0, 0.8, 0.2]
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(means[pull.action] + rng.standard_normal()))
    assert policy.recommend().arm == "full"
    assert policy.guarantee.proven


def test_a_correction_takes_back_an_answer_that_rested_on_a_wrong_value() -> None:
    problem = doses(noise_std=0.2, limits={"cold": {"features": COLD, "floors": 0.3}})
    policy, rng = BlockBetting(problem, delta=0.1, seed=0), np.random.default_rng(0)
    told = []
    while not policy.stopped:
        pull = policy.ask()
        reward = float(problem.features[pull.action] @ [0.0, 0.5, 0.2] + 0.2 * rng.normal())
        policy.tell(pull, reward)
        told.append((pull, reward))
    assert policy.recommend().arm == "full"
    for pull, reward in told:
        if pull.tag >= 0:
            policy.amend(pull, reward, reward - 0.6)
    assert policy.recommend().arm != "full"
    assert policy.guarantee.proven


def test_a_study_with_limits_is_saved_verified_and_shown(tmp_path: Any) -> None:
    problem = doses(**NORMAL, **COLD_TOO, floors={"full": 0.0}, control="none")
    storage = f"sqlite:///{tmp_path}/doses.db"
    rng = np.random.default_rng(4)
    policy = BlockBetting(problem, delta=0.1)
    study = ft.Study.create(problem, policy, storage=storage, name="doses", seed=1)
    for _ in range(80):
        pull = study.ask()
        study.tell(pull, float(problem.features[pull.action] @ [0.0, 0.5, 0.2] + rng.normal()))
    again = ft.Study.open(storage=storage, name="doses")
    assert again.verify().ok
    assert again.problem == problem
    progress = again.progress()
    full = {one.labels["arm"]: one for one in progress.arms}["full"]
    assert (full.lower_limit, full.upper_limit) == (0.0, None)
    cold = [one for one in progress.limited if one.labels["prediction"] == "cold"]
    assert [one.lower_limit for one in cold] == [0.1, 0.1, 0.1]
    assert all(one.lower < one.mean < one.upper for one in cold)
    html = write_report(again, tmp_path / "doses.html").read_text()
    assert "Limits on other predictions" in html
    assert "met so far, not settled" in html


@pytest.mark.parametrize(
    "rule", [LinGapE, XYAllocation, Rage, LinGame, lambda problem: ODLinBAI(problem, budget=100)]
)
def test_other_rules_say_that_they_take_no_limits(rule: Any) -> None:
    with raises(InvalidArgument, "problem"):
        rule(Problem(np.eye(3), **NORMAL, floors=0.0))
    # A control without limits changes no decision.
    rule(Problem(np.eye(3), **NORMAL, control="0"))


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1.0, 1e30, 1e150])
def test_the_unit_of_rewards_changes_no_decision(scale: float) -> None:
    def actions(factor: float) -> list[int]:
        rng = np.random.default_rng(6)
        limits = {"cold": {"features": COLD, "floors": 0.1 * factor, "margin": 0.2 * factor}}
        problem = doses(noise_std=factor, control="none", floors=-factor, limits=limits)
        policy = BlockBetting(problem, delta=0.1, seed=2)
        found = []
        while len(found) < 150 and not policy.stopped:
            pull = policy.ask()
            mean = problem.features[pull.action] @ [0.2, 0.3, 0.1]
            policy.tell(pull, factor * (mean + rng.standard_normal()))
            found.append(pull.action)
        return found

    power = 2.0 ** round(math.log2(scale))
    assert actions(power) == actions(1.0)


@pytest.mark.parametrize("noise", [NORMAL, {"reward_range": (1e6 - 1, 1e6 + 2)}], ids=str)
def test_means_far_from_zero_are_held_to_limits_there(noise: dict) -> None:
    """The middle of a range is subtracted, also from the limits."""
    far = 1e6
    problem = doses(**noise, limits={"cold": {"features": COLD, "floors": far + 0.25}})
    policy, rng = BlockBetting(problem, delta=0.1, seed=0), np.random.default_rng(1)
    while not policy.stopped:
        pull = policy.ask()
        mean = far + problem.features[pull.action] @ [0.0, 0.5, 0.4]
        policy.tell(pull, float(mean + rng.uniform(-0.5, 0.5)))
    # Cold means are 0, .25 and .5 above; the first breaks its floor.
    assert policy.recommend().arm == "full"


# ------------------------------------------------------------------------- odd questions


def test_what_no_result_can_change_is_known_at_once() -> None:
    """A row of zeros is worth 0 whatever theta is: below a floor of .5, and above one of -1."""
    arms, candidates = np.eye(2), [[0.0, 0.0], [1.0, 0.0]]
    policy = BlockBetting(Problem(arms, candidates, **NORMAL, floors=0.5), seed=0)
    assert policy._blocks.state.book.rejected.tolist() == [1, 0, 0]
    assert policy.recommend().candidates == ("1", None)
    kept = Problem(arms, candidates, **NORMAL, floors=[-1.0, 0.5])
    assert BlockBetting(kept).recommend().candidates == ("0", "1")
    alone = BlockBetting(Problem(arms, candidates[:1], **NORMAL, floors=0.5))
    assert (alone.stopped, alone.told, alone.recommend().arm) == (True, 0, None)
    assert alone.recommend().status == "decided"


def test_candidates_with_equal_features_are_one_answer_if_their_limits_are_equal() -> None:
    rows = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    problem = Problem(rows, **NORMAL, floors=[None, 0.2, 0.2, 0.3])
    assert problem.answer_groups == ((0,), (1, 2), (3,))
    # A twin of the control and the control both keep a margin; neither is better at all.
    margin = Problem(rows, **NORMAL, control="1", margin=0.1)
    assert margin.answer_groups == ((0,), (1, 2, 3))
    better = Problem(rows, **NORMAL, control="1", superiority=0.1)
    assert better.answer_groups == ((0,), (1,), (2, 3))
    assert BlockBetting(better).recommend().candidates == ("0", "1")


def test_twins_are_settled_where_a_tolerance_lets_them() -> None:
    problem = Problem([[1.0], [1.0]], noise_std=0.3, floors=[0.2, 0.3], tolerance=0.1)
    policy, rng = BlockBetting(problem, delta=0.1, seed=0), np.random.default_rng(2)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(1.0 + 0.3 * rng.standard_normal()))
    assert policy.recommend().arm in ("0", "1")
    assert policy.told < 100


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"floors": "low"}, "floors"),
        ({"floors": [0.1]}, "floors"),
        ({"floors": [0.1, math.nan, 0.2]}, "floors[half]"),
        (
            {"floors": {"quarter": 0.1}},
            "floors",
        ),
        ({"ceilings": 1e300}, "ceilings[none]"),
        ({"floors": 0.5, "ceilings": 0.4}, "ceilings[none]"),
        ({"floors": 0.0, "ceilings": 0.1, "floor_tolerance": 0.05}, "ceilings[none]"),
        ({"margin": 0.1}, "control"),
        ({"superiority": 0.1}, "control"),
        ({"control": "none", "margin": -0.1}, "margin[none]"),
        ({"control": "none", "superiority": -0.1}, "superiority"),
        ({"control": "none", "superiority": 0.1, "margin": 0.1}, "margin"),
        ({"limits": 3}, "limits"),
        ({"limits": {"": {}}}, "limits"),
        ({"limits": {"cold": 3}}, "limits['cold']"),
        ({"limits": {"cold": {"floor": 1}}}, "limits['cold']"),
        ({"limits": {"cold": {"floors": 1}}}, "limits['cold'].features"),
        ({"limits": {"cold": {"features": COLD}}}, "limits['cold']"),
        ({"limits": {"cold": {"features": COLD[:2], "floors": 1}}}, "limits['cold'].features"),
        ({"limits": {"cold": {"features": [[1, 2]] * 3, "floors": 1}}}, "limits['cold'].features"),
        ({"limits": {"cold": {"features": COLD, "margin": 1}}}, "control"),
        ({"floor_tolerance": 0.1}, "floor_tolerance"),
        ({"floors": 0.0, "misspecification": 0.1}, "misspecification"),
        ({"floors": 0.0, "top": 2}, "top"),
    ],
)
def test_bad_limits_are_refused_by_name(arguments: dict, name: str) -> None:
    with raises(InvalidArgument, name):
        doses(**NORMAL, **arguments)


def test_limits_that_rewards_in_a_range_cannot_keep_are_refused() -> None:
    for wrong, name in (
        ({"floors": 2.0}, "floors[0]"),
        ({"ceilings": -0.5}, "ceilings[0]"),
        ({"control": "0", "superiority": 1.5}, "superiority[1]"),
    ):
        with raises(InvalidArgument, name):
            Problem(np.eye(2), reward_range=(0, 1), **wrong)


def test_a_limit_on_what_no_arm_measures_is_refused() -> None:
    with raises(NotEstimable, "floors"):
        Problem([[1, 0], [1, 0.0]], [[1, 1], [2, 1]], **NORMAL, floors=0.0)
    # Their difference is measured: a limit on it is accepted.
    Problem([[1, 0], [1, 0.0]], [[1, 1], [2, 1]], **NORMAL, control="0", superiority=0.1)


def test_the_problem_says_what_is_asked_and_is_written_as_json() -> None:
    limits = {"cold": {"features": COLD, "floors": {"full": 0.3}, "margin": 0.1}}
    problem = doses(**NORMAL, control="none", ceilings=2.0, limits=limits, floor_tolerance=0.05)
    question = problem.in_words()["Question"]
    assert "among those whose mean is at most 2" in question
    assert "and whose mean for 'cold' is at least 0.3" in question
    assert "not worse than that of 'none' by more than 0.1 (to within 0.05)" in question
    data = json.loads(json.dumps(problem.to_dict(), allow_nan=False))
    assert data["limits"]["cold"]["floors"] == [None, None, 0.3]
    assert Problem.from_dict(data) == problem
    minimized = doses(**NORMAL, direction="minimize", floors=0.3)
    assert "whose mean is at most 0.3" in minimized.in_words()["Question"]
    assert minimized.feasible([0.1, 0.4, 0.0]).tolist() == [True, True, False]


def test_tables_with_text_describe_limits_as_they_describe_candidates() -> None:
    tried = {"base": ["a", "b", "a", "b"], "heat": [0.0, 0.0, 1.0, 1.0]}
    chosen = {"base": ["a", "b"], "heat": [1.0, 1.0]}
    cold = {"base": ["a", "b"], "heat": [0.0, 0.0]}
    problem = Problem(tried, chosen, **NORMAL, limits={"cold": {"features": cold, "floors": 0.2}})
    assert problem.feasible([0.1, 0.2, 0.5]).tolist() == [False, True]
    assert Problem.from_dict(json.loads(json.dumps(problem.to_dict()))) == problem
    with raises(InvalidArgument, "limits['cold'].features"):
        problem.clone(limits={"cold": {"features": [[1, 0, 0]] * 2, "floors": 0.2}})
    frame = pd.DataFrame({"one": [1.0, 1.0], "dose": [0.0, 1.0]})
    turned = {"features": frame[["dose", "one"]], "floors": 0.5}
    plain = Problem(frame, **NORMAL, limits={"turned": turned})
    assert plain.requirements[0].features.tolist() == [[1.0, 0.0], [1.0, 1.0]]

"""Results whose value influences when they are told: tests use complete results in order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core import Pull, run_policy
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations import (
    BalancedTracking,
    GaussianEnvironment,
    Problem,
    RoundRobin,
)
from fairtrial.subpopulations.policies.in_order import NOTHING_HELD, hold, release
from fairtrial.subpopulations.policies.levels import price_of_order
from tests import effort
from tests.messages import raises

DELTA = 0.05
MEANS = [[0.5, 0.4], [0.9, -0.5]]


def informative(problem: Problem, **options: object) -> BalancedTracking:
    ordered = problem.clone(delay_depends_on_outcome=True)
    return BalancedTracking(ordered, delta=DELTA, **options)


# ------------------------------------------------------------------------------- the order


@given(st.permutations(range(12)), st.sets(st.integers(0, 11), max_size=3))
def test_what_is_released_is_the_longest_complete_beginning(
    order: list[int], never: set[int]
) -> None:
    held, used = NOTHING_HELD, []
    told: set[int] = set()
    for number in order:
        if number in never:
            continue
        told.add(number)
        usable, held = release(hold(held, number, 3, number / 10), 3, set(range(12)) - told)
        used += usable.tolist()
        complete = next(n for n in range(13) if n not in told)
        assert [row[0] for row in used] == list(range(complete))
        assert len(held) + len(used) == len(told)
    assert all(reward == number / 10 and action == 3 for number, action, reward in used)


def test_the_results_of_other_actions_are_left_alone() -> None:
    held = hold(hold(NOTHING_HELD, 0, 1, 0.5), 1, 2, 0.7)
    usable, left = release(held, 2, missing=[])
    assert usable.tolist() == [[1, 2, 0.7]]
    assert left.tolist() == [[0, 1, 0.5]]


# ------------------------------------------------------------------------------- the price


@pytest.mark.parametrize("kappas", [1, 7])
def test_the_price_is_that_of_a_sum_of_exponentials(kappas: int) -> None:
    level = math.log(4 / 0.05)
    for cells, price in enumerate(price_of_order(6, level, kappas), start=1):
        x = level + math.log(kappas) + price
        tail = math.exp(-x) * sum(x**j / math.factorial(j) for j in range(cells))
        assert tail == pytest.approx(math.exp(-level) / kappas, rel=1e-9)
    assert price_of_order(1, level, kappas)[0] == pytest.approx(0.0, abs=1e-12)


# ------------------------------------------------------------------------------ the policy


def test_whatever_the_order_the_same_results_are_the_same_evidence() -> None:
    problem = Problem(2, 2, noise_std=1.0)
    rewards = np.random.default_rng(1).normal(0.3, 1.0, 80)
    found = []
    for seed in range(4):
        policy = informative(problem, initial_pulls=20)
        pulls = policy.ask(80)
        for i in np.random.default_rng(seed).permutation(80):
            policy.tell(pulls[i], rewards[i])
        found.append(policy.progress())
    assert found[0].evidence is not None
    for other in found[1:]:
        assert other.evidence == pytest.approx(found[0].evidence, rel=1e-12)
        assert [e.pulls for e in other.actions] == [20] * 4


def test_what_comes_before_its_turn_waits_and_guides_the_sampling_only() -> None:
    policy = informative(Problem(1, 2, noise_std=1.0), initial_pulls=3)
    pulls = policy.ask(6)
    by_cell = {cell: [p for p in pulls if p.action == cell] for cell in (0, 1)}
    for pull in by_cell[1]:
        policy.tell(pull, 1.0)
    for pull in by_cell[0][1:]:
        policy.tell(pull, 9.0)
    assert [e.pulls for e in policy.progress().actions] == [2, 3]
    assert [e.counted for e in policy.progress().actions] == [0, 3]
    policy.tell(by_cell[0][0], 1.5)
    first, _ = policy.progress().actions
    assert (first.pulls, first.mean) == (3, pytest.approx(6.5))


def test_a_lost_pull_ends_the_use_of_its_cell_until_it_is_told_after_all() -> None:
    policy = informative(Problem(1, 1, noise_std=1.0), initial_pulls=1)
    first, second, third = policy.ask(3)
    policy.tell(first, 1.0)
    policy.fail(second)
    policy.tell(third, 1.0)
    assert policy.progress().actions[0].counted == 1
    assert policy.guarantee.proven
    policy.tell(second, 1.0)
    assert policy.progress().actions[0].counted == 3


def test_data_that_nobody_asked_for_have_no_place_in_the_order() -> None:
    problem = Problem(1, 1, noise_std=1.0)
    policy = informative(problem, initial_pulls=1)
    policy.tell(policy.ask(), 1.0)
    policy.tell(problem.pull(arm="0", group="0"), 5.0)
    only = policy.progress().actions[0]
    assert (only.pulls, only.counted, only.mean) == (2, 1, 1.0)


def test_a_correction_reaches_a_result_in_use_and_one_that_waits() -> None:
    policy = informative(Problem(1, 1, noise_std=1.0), initial_pulls=1)
    first, second, third = policy.ask(3)
    policy.tell(first, 1.0)
    policy.tell(third, 2.0)
    policy.amend(first, 1.0, 3.0)
    policy.amend(third, 2.0, 7.0)
    assert policy.progress().actions[0].mean == 3.0
    policy.tell(second, 2.0)
    assert policy.progress().actions[0].mean == pytest.approx(4.0)


def test_with_results_that_come_at_once_only_the_price_differs() -> None:
    problem = Problem(2, 2, noise_std=1.0)
    environment = GaussianEnvironment(problem, MEANS)
    live = run_policy(informative(problem), environment, np.random.default_rng(3))
    policy = informative(problem)
    compiled = policy.compiled_run(environment, np.random.default_rng(3), None)
    assert compiled is not None
    assert (compiled.answer, compiled.stopping_time) == (live.answer, live.stopping_time)
    assert np.array_equal(compiled.pulls, live.pulls)
    assert policy.progress().actions[0].pulls == live.pulls[0]
    plain = run_policy(
        BalancedTracking(problem, delta=DELTA), environment, np.random.default_rng(3)
    )
    assert plain.stopping_time <= live.stopping_time


def test_a_pair_pays_the_price_of_its_cells_and_a_floor_none() -> None:
    def evidence(policy: BalancedTracking) -> float:
        for _ in range(20):
            pull = policy.ask()
            policy.tell(pull, 0.5 if pull.arm == "0" else 0.0)
        found = policy.progress().evidence
        assert found is not None
        assert not policy.stopped
        return found

    pair = Problem(2, 1, floors=None, noise_std=1.0)
    price = price_of_order(2, math.log(1.0 / DELTA), 7)[1]
    assert price > 1.0
    plain, ordered = BalancedTracking(pair, delta=DELTA), informative(pair)
    assert evidence(plain) - price == pytest.approx(evidence(ordered))
    floor = Problem(1, 1, floors=0.0, noise_std=1.0)
    plain, ordered = BalancedTracking(floor, delta=DELTA), informative(floor)
    assert evidence(plain) == pytest.approx(evidence(ordered))


@pytest.mark.parametrize("stopping", ["stylised", "kaufmann-koolen"])
def test_only_the_certified_stop_is_proven_for_it(stopping: str) -> None:
    with raises(InvalidArgument, "stopping", given=stopping):
        informative(Problem(2, 1, noise_std=1.0), stopping=stopping)
    with raises(InvalidArgument, "delay_depends_on_outcome"):
        Problem(2, 1, noise_std=1.0, delay_depends_on_outcome="perhaps")


# ----------------------------------------------------------------------------- the adversary

FLIGHT, PATIENCE, MOST, RUNS = 50, 150, 400, effort.runs(50, whole=300)
TOLERATED = effort.tolerated(DELTA, RUNS)


def wrong_share(problem: Problem, means: np.ndarray, signs: np.ndarray) -> float:
    """Return the share of runs that ever answer, if an adversary tells flattering results first.

    Only "no arm" is right: the runs are on the border of the null or beyond it. No pull is held
    back for longer than `PATIENCE` others.
    """

    def flattery(pull: Pull, reward: float) -> float:
        return float(signs.flat[pull.action]) * reward

    def is_wrong(seed: int) -> bool:
        policy = RoundRobin(problem, delta=DELTA)
        rng = np.random.default_rng([13, seed])
        flight: list[tuple] = []
        while policy.asked < MOST:
            asked = policy.ask(FLIGHT - len(flight))
            flight += [(pull, rng.normal(means.flat[pull.action], 1.0)) for pull in asked]
            if policy.stopped:
                break
            place = 0
            if flight[0][0].number > policy.asked - PATIENCE:
                place = max(range(len(flight)), key=lambda i: flattery(*flight[i]))
            policy.tell(*flight.pop(place))
        answer = policy.recommend()
        return answer.decided and answer.arm is not None

    return sum(is_wrong(seed) for seed in range(RUNS)) / RUNS


@pytest.mark.statistical
def test_flattering_results_first_fool_totals_and_not_what_is_in_order() -> None:
    # One arm below its floor: an answer other than "no arm" would be wrong.
    problem = Problem(1, 1, floors=0.0, noise_std=1.0)
    means, signs = np.array([[-0.05]]), np.array([[1.0]])
    assert wrong_share(problem, means, signs) > 2.0 * DELTA
    assert wrong_share(problem.clone(delay_depends_on_outcome=True), means, signs) <= TOLERATED


@pytest.mark.statistical
def test_two_equal_arms_are_not_told_apart_by_what_is_told_first() -> None:
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    means, signs = np.zeros((2, 1)), np.array([[1.0], [-1.0]])
    assert wrong_share(problem, means, signs) > 2.0 * DELTA
    assert wrong_share(problem.clone(delay_depends_on_outcome=True), means, signs) <= TOLERATED

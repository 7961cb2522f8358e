"""Rules with a budget and no guarantee: eliminations, spending and answers."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.core import run_policy
from fairtrial.delayed import (
    ASHA,
    ConflictingReport,
    Hyperband,
    LognormalDelay,
    MedianStopping,
    Problem,
    SequentialHalving,
    SimulatedEnvironment,
    SuccessiveHalving,
    SuccessiveRejects,
)
from fairtrial.errors import InvalidArgument, NotSupported, UnknownPull
from tests.messages import raises


def problem_with(arms=9, **more):
    return Problem(arms, noise_std=1.0, feedback="unbiased", reading_std=0.5, **more)


RULES = {
    "successive halving": lambda problem: SuccessiveHalving(problem, pulls=2),
    "ASHA": ASHA,
    "Hyperband": lambda problem: Hyperband(problem, max_readings=9, seed=1),
    "median stopping": lambda problem: MedianStopping(problem, budget=30, min_completed=2),
    "sequential halving": lambda problem: SequentialHalving(problem, budget=40),
    "successive rejects": lambda problem: SuccessiveRejects(problem, budget=40),
}


def environment_of(problem, spread=4.0, **more):
    means = spread * np.arange(len(problem.arms))
    more.setdefault("delay", 10.0)
    return SimulatedEnvironment(problem, means if problem.sign > 0 else -means, **more)


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("parallel", [1, 4, 20])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_every_rule_ends_and_names_arms_that_are_clearly_best(rule, parallel, direction):
    problem = problem_with(top=2, direction=direction)
    policy = RULES[rule](problem)
    environment = environment_of(problem, delay=LognormalDelay(10.0, 0.3), loss=0.05)
    run = run_policy(policy, environment, np.random.default_rng(0), 500, parallel)
    assert run.status == "decided"
    # Hyperband can miss the best arms in brackets that draw only some of the arms.
    assert set(run.answer) == {"7", "8"}
    assert not policy.guarantee.proven
    assert policy.recommend().confidence is None
    assert policy.to_cancel() == []


def steer(policy, rng):
    for pull in policy.ask(3):
        for _ in range(3):
            policy.report(pull, float(pull.action + rng.normal()))
    for pull in policy.to_cancel():
        policy.fail(pull, "cancelled")
    for pull in policy.outstanding():
        if rng.random() < 0.5:
            policy.tell(pull, float(pull.action + rng.normal()))


@pytest.mark.parametrize("rule", list(RULES))
def test_two_processes_make_the_same_run(rule):
    problem = problem_with()
    found = [
        ft.simulate(
            RULES[rule](problem), environment_of(problem), 3, seed=1, horizon=300, parallel=3,
            progress=False,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert np.array_equal(found[0].pulls, found[1].pulls)
    assert np.array_equal(found[0].elapsed, found[1].elapsed)


# --------------------------------------------------------------- successive halving


def told(policy, values, readings=1):
    """Ask for all possible pulls, and report `readings` readings of each arm's value."""
    pulls = policy.ask(100)
    for pull in pulls:
        for _ in range(readings):
            if pull not in policy.to_cancel():
                policy.report(pull, values[pull.action])
    return pulls


def called_back(policy):
    pulls = policy.to_cancel()
    for pull in pulls:
        policy.fail(pull, "cancelled")
    return sorted(pull.action for pull in pulls)


def test_a_third_goes_on_from_rung_to_rung_without_a_new_pull():
    policy = SuccessiveHalving(problem_with())
    values = [0.0, 8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0]
    pulls = told(policy, values)
    assert [pull.action for pull in pulls] == list(range(9))
    assert called_back(policy) == [0, 2, 4, 6, 7, 8]
    assert policy.ask(9) == []
    for _ in range(2):
        for pull in policy.outstanding():
            policy.report(pull, values[pull.action])
    assert called_back(policy) == [3, 5]
    assert not policy.stopped
    policy.tell(pulls[1], 8.0)
    assert policy.recommend().arm == ("1",)
    assert policy.asked == 9


def test_a_pull_that_blocks_others_of_its_rung_is_called_back_and_started_anew():
    policy = SuccessiveHalving(problem_with(3))
    (first,) = policy.ask(1)
    policy.report(first, 9.0)
    assert policy.to_cancel() == [first]
    policy.fail(first, "cancelled")
    for pull in policy.ask(5):
        policy.report(pull, 0.0)
    assert called_back(policy) == [1, 2]
    (again,) = policy.ask(5)
    assert again.action == 0
    policy.tell(again, 1.0)
    assert policy.recommend().arm == ("0",)


def test_an_outcome_before_the_rung_counts_there():
    policy = SuccessiveHalving(problem_with(3), min_readings=4)
    one, two, three = policy.ask(3)
    policy.tell(one, 5.0)
    for pull in (two, three):
        for _ in range(4):
            policy.report(pull, 1.0)
    assert policy.stopped
    assert policy.recommend().arm == ("0",)


def test_a_lost_pull_is_replaced():
    policy = SuccessiveHalving(problem_with(3))
    one, two, three = policy.ask(3)
    policy.fail(two, "lost")
    (again,) = policy.ask(5)
    assert again.action == 1
    for pull, value in ((one, 0.0), (again, 3.0), (three, 0.0)):
        policy.report(pull, value)
    assert called_back(policy) == [0, 2]


def test_several_pulls_of_an_arm_are_averaged():
    policy = SuccessiveHalving(problem_with(3), pulls=2)
    pulls = policy.ask(9)
    assert [pull.action for pull in pulls] == [0, 0, 1, 1, 2, 2]
    for pull, value in zip(pulls, (9.0, -9.0, 2.0, 1.0, 1.0, 1.0), strict=True):
        policy.report(pull, value)
    assert called_back(policy) == [0, 0, 2, 2]


# ----------------------------------------------------------------------------- ASHA


def test_asha_lets_an_arm_go_on_once_it_is_in_the_best_third():
    policy = ASHA(problem_with(9))
    pulls = policy.ask(3)
    policy.report(pulls[0], 5.0)
    policy.report(pulls[1], 1.0)
    # A third of two arms is less than one arm, so both give up their places.
    assert called_back(policy) == [0, 1]
    policy.report(pulls[2], 2.0)
    assert called_back(policy) == [2]
    # Of three, the first is the best third, so it is pulled again up to the second rung.
    (again,) = policy.ask(1)
    assert again.action == 0
    policy.report(again, 5.0)
    assert policy.to_cancel() == []
    (fresh,) = policy.ask(1)
    assert fresh.action == 3


def test_asha_never_waits_while_arms_are_untried():
    policy = ASHA(problem_with(9))
    assert [pull.action for pull in policy.ask(20)] == list(range(9))
    assert not policy.stopped


# ------------------------------------------------------------------------- Hyperband


def test_brackets_are_those_of_the_paper():
    # Table 1 of Li et al. (2018), for 81 readings and eta = 3: 81, 34, 15, 8 and 5 arms.
    brackets = Hyperband(problem_with(100), max_readings=81, seed=0).brackets
    assert [len(arms) for arms, _ in brackets] == [81, 34, 15, 8, 5]
    assert [ages[:-1] for _, ages in brackets] == [
        [1, 3, 9, 27], [3, 9, 27], [9, 27], [27], [],
    ]  # fmt: skip
    assert all(ages[-1] == math.inf for _, ages in brackets)
    few = Hyperband(problem_with(10), max_readings=81, seed=0).brackets
    assert [len(arms) for arms, _ in few] == [10, 10, 10, 8, 5]


# -------------------------------------------------------------------- median stopping


def test_a_pull_below_the_median_of_its_age_is_called_back():
    policy = MedianStopping(problem_with(4), budget=5, min_completed=3, min_readings=2)
    pulls = policy.ask(9)
    assert [pull.action for pull in pulls] == [0, 1, 2, 3, 0]
    for pull, values in zip(pulls[:3], ((1, 3), (2, 4), (9, 1)), strict=True):
        for value in values:
            policy.report(pull, float(value))
        policy.tell(pull, 5.0)
    # The running means at the second reading are 2, 3 and 5, with median 3.
    policy.report(pulls[3], 2.9)
    assert policy.to_cancel() == []
    policy.report(pulls[3], 2.8)
    policy.report(pulls[4], 0.0)
    policy.report(pulls[4], 3.1)
    assert policy.to_cancel() == [pulls[3]]
    policy.fail(pulls[3], "cancelled")
    assert not policy.stopped
    policy.tell(pulls[4], 7.0)
    assert policy.recommend().arm == ("0",)


def test_who_is_called_back_follows_from_all_running_means_at_that_age():
    policy, rng = (
        MedianStopping(problem_with(3), budget=40, min_completed=2, min_readings=2),
        random.Random(5),
    )
    read: dict[int, list[float]] = {}
    done: list[list[float]] = []
    while not policy.stopped:
        for pull in policy.ask(3):
            read[pull.number] = []
        for pull in policy.outstanding():
            policy.report(pull, rng.gauss(0.0, 1.0), stage=rng.random())
            read[pull.number] = [value for _, value in policy._readings.in_order(pull.tag)[:, :2]]
        expected = []
        for pull in policy.outstanding():
            own = read[pull.number]
            others = [
                sum(values[: len(own)]) / len(own) for values in done if len(values) >= len(own)
            ]
            if len(own) >= 2 and len(others) >= 2 and max(own) < statistics.median(others):
                expected.append(pull)
        assert policy.to_cancel() == expected
        for pull in expected:
            policy.fail(pull, "cancelled")
        for pull in policy.outstanding():
            if rng.random() < 0.3:
                policy.tell(pull, 0.0)
                done.append(read[pull.number])


# -------------------------------------------------------------------------- rounds


def test_sequential_halving_spends_equal_shares_on_its_rounds():
    policy = SequentialHalving(problem_with(8), budget=72)
    for arms, each in ((8, 3), (4, 6), (2, 12)):
        pulls = policy.ask(500)
        assert sorted(pull.action for pull in pulls) == sorted([*range(8 - arms, 8)] * each)
        for pull in pulls:
            policy.tell(pull, float(pull.action))
    assert policy.stopped
    assert policy.asked == 72
    assert policy.recommend().arm == ("7",)


@pytest.mark.parametrize("cls", [SequentialHalving, SuccessiveRejects])
@pytest.mark.parametrize(("arms", "top"), [(2, 1), (5, 2), (9, 3), (7, 6), (3, 3)])
@pytest.mark.parametrize("budget", [9, 30, 101])
def test_no_budget_is_overspent(cls, arms, top, budget):
    problem = problem_with(arms, top=top)
    policy = cls(problem, budget)
    run = run_policy(policy, environment_of(problem), np.random.default_rng(0), None, 3)
    assert run.status == "decided"
    assert run.pulls.sum() <= budget
    assert set(run.answer) == set(problem.arms[-top:])


def test_successive_rejects_has_the_published_lengths():
    # Audibert and Bubeck (2010): n_k = ceil((n - K) / (logbar(K) (K + 1 - k))).
    arms, budget = 5, 100
    logbar = 0.5 + sum(1 / i for i in range(2, arms + 1))
    lengths = [math.ceil((budget - arms) / (logbar * (arms + 1 - k))) for k in range(1, arms)]
    policy = SuccessiveRejects(problem_with(arms), budget)
    counts = [0] * arms
    while not policy.stopped:
        for pull in policy.ask(500):
            counts[pull.action] += 1
            policy.tell(pull, float(pull.action))
    assert counts == [*lengths, lengths[-1]]


def test_the_clearest_arm_is_accepted_where_several_are_wanted():
    policy = SuccessiveRejects(problem_with(4, top=2), budget=40)
    for pull in policy.ask(100):
        policy.tell(pull, [9.0, 1.0, 0.9, 0.0][pull.action])
    # Gaps: 8.1 above the border for the first, 1 below it for the last.
    assert {pull.action for pull in policy.ask(100)} == {1, 2, 3}
    for pull in policy.outstanding():
        policy.tell(pull, 20.0)
    assert policy.recommend().leader[0] == "0"


def test_the_worst_arm_leaves_if_the_best_is_just_as_clear():
    policy = SuccessiveRejects(problem_with(4, top=2), budget=40)
    for pull in policy.ask(100):
        policy.tell(pull, [3.0, 2.0, 1.0, 0.0][pull.action])
    assert policy.recommend().arm is None
    assert {pull.action for pull in policy.ask(100)} == {0, 1, 2}


def test_a_lost_pull_is_spent():
    policy = SequentialHalving(problem_with(2), budget=4)
    pulls = policy.ask(9)
    for pull in pulls[:3]:
        policy.tell(pull, float(pull.action))
    policy.fail(pulls[3], "lost")
    assert policy.recommend().arm == ("1",)


# ------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: SuccessiveHalving(p, eta=1.0), "eta"),
        (lambda p: SuccessiveHalving(p, min_readings=0), "min_readings"),
        (lambda p: SuccessiveHalving(p, pulls=0), "pulls"),
        (lambda p: Hyperband(p, max_readings=0), "max_readings"),
        (lambda p: ASHA(p, eta=math.nan), "eta"),
        (lambda p: MedianStopping(p, budget=8), "budget"),
        (lambda p: MedianStopping(p, budget=9, min_readings=0), "min_readings"),
        (lambda p: MedianStopping(p, budget=9, min_completed=0), "min_completed"),
        (lambda p: SequentialHalving(p, budget=8), "budget"),
        (lambda p: SuccessiveRejects(p, budget=1.5), "budget"),
    ],
)
def test_a_bad_argument_is_refused_by_name(make, name):
    with raises(InvalidArgument, name):
        make(problem_with())
    with raises(InvalidArgument, "problem"):
        make("problem")


def test_rules_that_live_by_readings_need_some():
    full = Problem(9, noise_std=1.0)
    for make in (
        SuccessiveHalving,
        ASHA,
        lambda p: MedianStopping(p, 9),
        lambda p: Hyperband(p, 9),
    ):
        with raises(InvalidArgument, "problem", given=full):
            make(full)
    policy = SequentialHalving(full, budget=20)
    with raises(NotSupported):
        policy.report(policy.ask(), 1.0)


def test_readings_that_come_twice_or_contradict_are_treated_as_in_a_race():
    policy = SuccessiveHalving(problem_with())
    pull = policy.ask()
    policy.report(pull, 1.0, stage=1)
    policy.report(pull, 1.0, stage=1)
    assert policy.duplicates == 1
    with raises(ConflictingReport):
        policy.report(pull, 2.0, stage=1)
    with raises(InvalidArgument, "colour"):
        policy.report(pull, 2.0, colour="red")
    policy.tell(pull, 1.0)
    policy.report(pull, 5.0, stage=2)
    policy.amend(pull, 1.0, 2.0)
    assert policy.progress().actions[0].mean == 2.0
    with raises(UnknownPull):
        policy.amend(pull, 1.0, 2.0)
    policy.tell(problem_with().pull(arm="3"), 4.0)
    assert policy.progress().actions[3].mean == 4.0

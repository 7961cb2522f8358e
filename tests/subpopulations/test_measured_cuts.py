"""Finished experiments with several measures: intervals from the blocks of all units."""

from __future__ import annotations

import numpy as np
import pytest

from fairtrial.core import UNSOLICITED, Pull
from fairtrial.subpopulations import OVERALL, BlockBetting, Problem
from tests import effort

DELTA = 0.1

SHOP = Problem(
    ["old", "new"],
    ["phone", "desktop"],
    measures={"bought": (0, 1), "paid": (-20, 80)},
    objective="paid",
    control="old",
    floors={("bought", OVERALL): 0.02},
)

BUYS = np.array([[0.05, 0.1], [0.06, 0.12]])
"""The share of units that buy, by arm and group; they pay between 0 and 80, and 20 on average."""


def visits(units: int, rng: np.random.Generator, effect: float = 1.0):
    """Return the action of every unit, and what it bought and paid."""
    assigned = np.concatenate([np.arange(4), rng.integers(4, size=units - 4)])
    buys = BUYS * np.array([[1.0], [effect]])
    bought = (rng.random(units) < buys.ravel()[assigned]).astype(float)
    paid = bought * rng.choice([0.0, 10.0, 50.0], size=units, p=[0.25, 0.5, 0.25])
    return assigned, bought, paid


def play(problem: Problem, assigned, outcomes) -> BlockBetting:
    """Analyse an experiment."""
    policy = BlockBetting(problem, delta=DELTA, assigned=assigned.tolist())
    told = told_outcomes(policy, len(assigned), outcomes)
    for number in range(told, len(assigned)):
        # The policy has stopped; the experiment had not.
        action = int(assigned[number])
        policy.tell(Pull(UNSOLICITED, action, problem.labels(action)), outcomes(number))
    return policy


def told_outcomes(policy: BlockBetting, units: int, outcomes) -> int:
    """Tell a policy the outcomes of all units that it asks for; return their number."""
    told = 0
    while pulls := policy.ask(units):
        for pull in pulls:
            policy.tell(pull, outcomes(pull.number))
            told += 1
    return told


def measured(bought, paid, hidden=None):
    """Return the outcomes of units as `tell` takes them; some payments are missing."""

    def outcome(number: int):
        is_hidden = hidden is not None and hidden[number]
        return {"bought": bought[number], "paid": None if is_hidden else paid[number]}

    return outcome


def ends(one) -> tuple[float, float]:
    return one.lower, one.upper


@pytest.mark.parametrize("effect", [1.0, 8.0], ids=["undecided", "decided"])
def test_intervals_of_a_measure_are_those_of_the_same_rewards_alone(effect: float) -> None:
    assigned, bought, paid = visits(3000, np.random.default_rng(0), effect)
    alone = Problem(SHOP.arms, SHOP.groups, floors=None, control="old", reward_range=(-20, 80))
    both = play(SHOP.clone(floors=None), assigned, measured(bought, paid)).progress()
    single = play(alone, assigned, lambda number: paid[number]).progress()
    payments = [one for one in both.actions if one.labels["measure"] == "paid"]
    for found, expected in (
        (both.effects, single.effects),
        (both.arms, single.arms),
        (payments, single.actions),
    ):
        assert [ends(one) for one in found] == [pytest.approx(ends(one)) for one in expected]


def test_intervals_of_a_measure_that_bets_ignore_are_those_of_its_values_alone() -> None:
    """Its values are 0 and 1, whose squares are the values themselves."""
    assigned, bought, paid = visits(1000, np.random.default_rng(1))
    alone = Problem(SHOP.arms, SHOP.groups, floors=None, control="old", reward_range=(0, 1))
    both = play(SHOP.clone(floors=None), assigned, measured(bought, paid)).progress()
    single = play(alone, assigned, lambda number: bought[number]).progress()
    found = [one for one in both.actions if one.labels["measure"] == "bought"]
    assert [ends(one) for one in found] == [pytest.approx(ends(one)) for one in single.actions]


def test_a_limit_has_the_interval_of_the_mean_that_it_limits() -> None:
    assigned, bought, paid = visits(3000, np.random.default_rng(2))
    problem = SHOP.clone(floors={("bought", "phone"): 0.02})
    progress = play(problem, assigned, measured(bought, paid)).progress()
    cells = {
        one.labels["arm"]: ends(one)
        for one in progress.actions
        if (one.labels["group"], one.labels["measure"]) == ("phone", "bought")
    }
    assert {one.arm: ends(one) for one in progress.measure_limits} == cells


def test_a_missing_value_counts_as_the_worst_for_each_end() -> None:
    assigned, bought, paid = visits(2000, np.random.default_rng(3))
    hidden = np.arange(2000) % 10 == 0
    every, some = (
        play(SHOP, assigned, measured(bought, paid, gone)).progress().effects[0]
        for gone in (None, hidden)
    )
    assert some.upper - some.lower > every.upper - every.lower + 15.0


RUNS = effort.runs(10, whole=1000)


@pytest.mark.statistical
@pytest.mark.parametrize("effect", [1.0, 8.0], ids=["undecided", "decided"])
def test_intervals_of_measures_rarely_miss(effect: float) -> None:
    """A tenth of the payments is missing, and none of the visits without one."""
    mean_paid = 17.5
    shares = BUYS * np.array([[1.0], [effect]])
    misses = np.zeros(4)
    for seed in range(RUNS):
        rng = np.random.default_rng([5, seed])
        assigned, bought, paid = visits(1200, rng, effect)
        hidden = (paid > 0) & (rng.random(1200) < 0.1)
        progress = play(SHOP, assigned, measured(bought, paid, hidden)).progress()
        means = {
            (one.labels["arm"], one.labels["group"], one.labels["measure"]): one
            for one in progress.actions
        }
        overall = next(one for one in progress.effects if one.group is None)
        floor = progress.measure_limits[1]
        true = mean_paid * (shares[1] - shares[0]).mean()
        misses += [
            misses_mean(means["new", "phone", "bought"], shares[1, 0]),
            misses_mean(means["new", "phone", "paid"], mean_paid * shares[1, 0]),
            misses_mean(overall, true),
            misses_mean(floor, shares[1].mean()),
        ]
    assert (misses / RUNS <= effort.tolerated(DELTA, RUNS)).all()


def misses_mean(one, mean: float) -> bool:
    return not one.lower <= mean <= one.upper

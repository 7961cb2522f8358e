"""A whole run with predictions against an independent slow implementation."""

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, Problem
from tests.subpopulations.slow_predictions import SlowPredictions, Unit

SHARES = [0.3, 0.7]


def units_of(random, number, arms, gap):
    """Return units whose predictions have a stated slope, some outside of the stated range."""
    found = []
    for _ in range(number):
        cell = int(random.integers(arms)), int(random.integers(2))
        f = float(random.beta(2, 2) * 1.2)
        chance = 0.15 + 0.4 * min(f, 1.0) + gap * cell[0] + 0.05 * cell[1]
        # Rewards are neither only 0 and 1 nor a function of the prediction.
        reward = float(random.random() < chance) * float(random.choice([0.5, 1.0]))
        found.append((cell, f, reward))
    return found


@pytest.mark.parametrize(
    ("arms", "floors", "fit", "gap", "seed"),
    [
        (2, None, True, 0.2, 1),
        (3, None, True, 0.1, 2),
        (3, [[0.1, 0.12], [0.15, 0.1], [0.2, 0.25]], True, 0.12, 3),
        (3, [[0.3, 0.3], [0.3, 0.3], [0.3, 0.3]], True, 0.15, 4),
        (2, [[0.1, 0.1], [0.2, 0.2]], False, 0.2, 5),
    ],
)
def test_a_whole_run_has_the_wealth_of_a_slow_implementation(arms, floors, fit, gap, seed):
    problem = Problem(
        arms,
        {"x": SHARES[0], "y": SHARES[1]},
        floors=floors,
        reward_range=(0, 1),
        prediction={"range": (0, 1), "fit": fit},
    )
    units = units_of(np.random.default_rng(seed), 230, arms, gap)
    actions = [2 * cell[0] + cell[1] for cell, _, _ in units]
    policy = BlockBetting(problem, delta=0.02, assigned=actions)
    cuts = policy._cuts
    slow = SlowPredictions(SHARES, floors, arms, (0.0, 1.0), delta=0.02, fits_slopes=fit)
    waiting, moved, blocks = [], 0, 0
    for number, (cell, f, reward) in enumerate(units):
        if policy.stopped or number == cuts.rest:
            break
        policy.tell(policy.ask(prediction=f), reward)
        waiting.append(Unit(cell, min(f, 1.0), reward))
        if number + 1 == cuts.begin:
            slow.told, waiting = waiting, []
        elif number + 1 in cuts.starts.values():
            slow.settle(waiting)
            waiting, blocks = [], blocks + 1
            expected = slow.wealth()
            wealth = policy._wealth[: len(expected)]
            assert wealth == pytest.approx(expected, rel=1e-9, abs=1e-9)
            moved += any(one != 0.0 for one in expected)
            rejected = set(np.flatnonzero(policy._rejected).tolist())
            assert rejected == slow.rejected
    assert blocks >= 5
    assert moved >= 3


@pytest.mark.parametrize(("losses", "rate"), [("informative", 0.0), ("ignorable", 0.25)])
def test_a_live_run_has_the_wealth_of_a_slow_implementation(losses, rate):
    """Lost pulls, whose prediction is known, are made again with other units."""
    problem = Problem(2, ["x"], floors=None, reward_range=(0, 1), prediction=(0, 1))
    policy = BlockBetting(problem, delta=0.02, seed=1, losses=losses)
    slow = SlowPredictions([1.0], None, 2, (0.0, 1.0), delta=0.02)
    random, of_block, settled, lost = np.random.default_rng(1), {}, 0, 0
    while policy.asked < 300 and not policy.stopped:
        f = float(random.beta(2, 2) * 1.2)
        pull = policy.ask(group="x", prediction=f)
        if random.random() < rate:
            policy.fail(pull)
            lost += 1
            continue
        chance = 0.1 + 0.5 * min(f, 1.0) + 0.25 * pull.action
        reward = float(random.random() < chance)
        policy.tell(pull, reward)
        serial = pull.tag if pull.tag >= 0 else 0
        of_block.setdefault(serial, []).append(Unit((pull.action, 0), min(f, 1.0), reward))
        while settled < len(policy._blocks.paid):
            units = of_block.pop(settled)
            if settled == 0:
                slow.told = units
            else:
                slow.settle(units)
            settled += 1
            assert policy._wealth[:2] == pytest.approx(slow.wealth(), rel=1e-9, abs=1e-9)
    assert settled > 5
    assert max(slow.wealth()) > 0.5
    assert (lost > 30) == (rate > 0.0)

"""Whole runs with predicted measures against an independent slow implementation."""

import math

import numpy as np
import pytest

from fairtrial.subpopulations import OVERALL, BlockBetting, Problem
from tests.subpopulations.slow_predicted_measures import Limit, SlowPredictedMeasures, Unit

SHARES = [0.3, 0.7]
GROUPS = dict(zip("xy", SHARES, strict=True))
SOLD, LOUD, LATE = np.eye(3)
IN_X, IN_Y, OVER_BOTH = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array(SHARES)


def units_of(random, number, arms, gap):
    """Return units with three measures, of which two predictions know something.

    Some predictions are outside of their stated ranges. Measures depend on each other.
    """
    found = []
    for _ in range(number):
        cell = int(random.integers(arms)), int(random.integers(2))
        f, e = float(random.beta(2, 2) * 1.2), float(random.beta(2, 3) * 2.0)
        sold = random.random() < 0.15 + 0.4 * min(f, 1.0) + gap * cell[0] + 0.05 * cell[1]
        loud = random.random() < 0.1 + 0.25 * e + 0.1 * sold - 0.03 * cell[0]
        late = random.random() * (0.3 + 0.3 * sold)
        found.append((cell, (f, e), (float(sold) * random.choice([0.5, 1.0]), float(loud), late)))
    return found


CASES = {
    "a guardrail without a prediction": (
        {"objective": "sold", "ceilings": {"loud": 0.6}},
        {"sold": (0, 1)},
        SOLD,
        [Limit(where, -LOUD, [-0.6] * 3) for where in (IN_X, IN_Y)],
        0.15,
    ),
    "an objective of two predicted measures, an overall limit": (
        {"objective": {"sold": 1.0, "loud": -0.5}, "ceilings": {("late", OVERALL): 0.5}},
        {"sold": (0, 1), "loud": (0, 2)},
        SOLD - 0.5 * LOUD,
        [Limit(OVER_BOTH, -LATE, [-0.5] * 3)],
        0.15,
    ),
    "predicted limits of single arms": (
        {
            "objective": "sold",
            "floors": {("sold", "y"): 0.15},
            "ceilings": {("loud", "x"): 0.6, ("loud", OVERALL): 0.55},
        },
        {"sold": (0, 1), "loud": (0, 2)},
        SOLD,
        [
            Limit(IN_Y, SOLD, [0.15] * 3),
            Limit(IN_X, -LOUD, [-0.6] * 3),
            Limit(OVER_BOTH, -LOUD, [-0.55] * 3),
        ],
        0.15,
    ),
    "a control": (
        {
            "objective": "sold",
            "direction": {"loud": "minimize"},
            "control": "0",
            "margin": {"loud": 0.15},
            "superiority": 0.02,
        },
        {"sold": (0, 1), "loud": (0, 2)},
        SOLD,
        [
            *(Limit(where, -LOUD, [-math.inf, -0.15, -0.15], 0) for where in (IN_X, IN_Y)),
            Limit(OVER_BOTH, SOLD, [-math.inf, 0.02, 0.02], 0),
        ],
        0.15,
    ),
    "a slope of 1, and what is minimised": (
        {"objective": "loud", "direction": "minimize", "ceilings": {"late": 0.55}},
        {"loud": {"range": (0, 2), "fit": False}},
        -LOUD,
        [Limit(where, -LATE, [-0.55] * 3) for where in (IN_X, IN_Y)],
        0.1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_whole_run_has_the_wealth_of_a_slow_implementation(name):
    limits, prediction, objective, rows, gap = CASES[name]
    ranges = dict.fromkeys(["sold", "loud", "late"], (0, 1))
    problem = Problem(3, GROUPS, measures=ranges, prediction=prediction, **limits)
    ends = np.array([own.ends for own in problem.predictions.values()])
    places = [problem.measures.index(name) for name in problem.predictions]
    units = units_of(np.random.default_rng(7), 260, 3, gap)
    policy = BlockBetting(problem, delta=0.02, assigned=[2 * k + i for (k, i), _, _ in units])
    fits = all(own.fit for own in problem.predictions.values())
    slow = SlowPredictedMeasures(
        SHARES, objective, rows, 3, places, np.ptp(ends, axis=1), 0.02, fits
    )
    cuts, waiting, blocks, moved = policy._cuts, [], 0, 0
    for number, (cell, predictions, values) in enumerate(units):
        if policy.stopped or number == cuts.rest:
            break
        known = [predictions[place] for place in places]
        pull = policy.ask(prediction=dict(zip(problem.predictions, known, strict=True)))
        policy.tell(pull, dict(zip(ranges, values, strict=True)))
        cut = np.clip(known, ends[:, 0], ends[:, 1])
        waiting.append(Unit(cell, cut, np.array(values)))
        if number + 1 == cuts.begin:
            slow.told, waiting = waiting, []
        elif number + 1 in cuts.starts.values():
            slow.settle(waiting)
            waiting, blocks = [], blocks + 1
            expected = slow.wealth()
            wealth = policy._wealth[: len(expected)]
            assert wealth == pytest.approx([*expected.values()], rel=1e-9, abs=1e-9)
            moved += any(one != 0.0 for one in expected.values())
            assert set(np.flatnonzero(policy._rejected).tolist()) == slow.rejected
    assert blocks >= 5
    assert moved >= 3

"""The test of the assumption that predictions do not depend on the arm."""

import numpy as np
import pytest

from fairtrial.confidence.prediction_test import ALARM, FrozenPredictions, PredictionTest
from tests import effort


def e_value_after(random, shift, counts, blocks):
    """Return the largest evidence over blocks of a group, in which the last arm is shifted."""
    test, largest = PredictionTest(len(counts), 1), 0.0
    frozen = FrozenPredictions(np.array(counts, dtype=float), 0.45, 0.0, 1.0)
    for block in range(blocks):
        for arm in random.permutation(np.repeat(np.arange(len(counts)), counts)):
            mean = 0.5 + shift * (arm == len(counts) - 1)
            prediction = mean + random.uniform(-0.35, 0.35)
            test.add(block, int(arm), 0, float(prediction), frozen)
        test.complete(block)
        largest = max(largest, test.e_value)
    return largest


@pytest.mark.parametrize("counts", [(10, 10), (30, 4), (5, 5, 10, 20)])
def test_there_is_no_alarm_without_reason(counts):
    """The probability of an alarm in each run is at most .01."""
    runs = effort.runs(25, whole=1_000)
    alarms = sum(
        e_value_after(np.random.default_rng(seed), 0.0, counts, 30) >= ALARM for seed in range(runs)
    )
    assert alarms / runs <= effort.tolerated(0.01, runs)


def test_the_exact_mean_over_a_block_is_at_most_one():
    """Every product over a block, with independent predictions of two values."""
    random = np.random.default_rng(1)
    for _ in range(20):
        counts = random.integers(1, 8, size=3)
        chance, centre = random.uniform(0.05, 0.95), random.uniform(0.0, 1.0)
        frozen = FrozenPredictions(counts.astype(float), centre, 0.0, 1.0)
        factors = []
        for value in (0.0, 1.0):
            logs = np.zeros((3, 3, 10))
            for own in range(3):
                test = PredictionTest(3, 1)
                test.add(0, own, 0, value, frozen)
                logs[own] = test.started[0][:, 0]
            factors.append(np.exp(logs))
        mean = (1.0 - chance) * factors[0] + chance * factors[1]
        paid = np.prod(mean ** counts[:, None, None], axis=0)
        assert paid.max() <= 1.0 + 1e-12
        assert paid.min() > 0.0


def test_a_gross_difference_is_seen():
    assert e_value_after(np.random.default_rng(3), 0.15, (10, 10), 40) >= ALARM


def test_pulls_of_blocks_that_are_not_complete_do_not_count():
    test = PredictionTest(2, 1)
    frozen = FrozenPredictions(np.array([100.0, 100.0]), 0.5, 0.0, 1.0)
    for _ in range(100):
        test.add(0, 0, 0, 1.0, frozen)
    assert test.e_value == 1.0


def test_evidence_is_saved_and_continues():
    test, other = PredictionTest(2, 2), PredictionTest(2, 2)
    frozen = FrozenPredictions(np.array([3.0, 3.0]), 0.5, 0.0, 1.0)
    for block in (0, 1):
        for arm in (0, 1):
            test.add(block, arm, 1, 0.3 + 0.2 * arm, frozen)
    test.complete(0)
    other.logs, other.open_blocks = test.logs.copy(), test.open_blocks
    for one in (test, other):
        one.complete(1)
    assert other.e_value == test.e_value != 1.0


def test_predictions_that_cannot_differ_say_nothing():
    test = PredictionTest(2, 1)
    test.add(0, 0, 0, 0.5, FrozenPredictions(np.array([1.0, 1.0]), 0.5, 0.5, 0.5))
    test.add(0, 0, 0, 0.5, FrozenPredictions(np.array([2.0, 0.0]), 0.2, 0.0, 1.0))
    test.complete(0)
    assert test.e_value == 1.0

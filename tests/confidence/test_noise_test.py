import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import COLUMNS, record_result, replace_result
from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest, log_evidence_against_noise
from tests import effort

INFLATIONS = [1.1, 1.25, 1.6, 2.5, 6.0, 40.0]


def recorded(values: list[tuple[int, float]], cells: int) -> NDArray[np.float64]:
    record = NoiseTest.empty_record(cells)
    for cell, value in values:
        record_result(record, cell, value)
    return record


def log_normal(value: float, mean: float, variance: float) -> float:
    return -0.5 * (math.log(2 * math.pi * variance) + (value - mean) ** 2 / variance)


def slow_log_evidence(values: list[tuple[int, float]], cells: int) -> float:
    """Return the log ratio of two likelihoods: predictions, and the best constant means."""
    logs = []
    for inflation in INFLATIONS:
        total = 0.0
        for cell in range(cells):
            own = [value for at, value in values if at == cell]
            for i in range(1, len(own)):
                variance = inflation * (1.0 + 1.0 / i)
                total += log_normal(own[i], math.fsum(own[:i]) / i, variance)
            if len(own) > 1:
                best = math.fsum(own[1:]) / (len(own) - 1)
                total -= math.fsum(log_normal(value, best, 1.0) for value in own[1:])
        logs.append(total)
    return float(np.logaddexp.reduce(logs)) - math.log(len(INFLATIONS))


def test_evidence_is_the_ratio_of_the_two_explanations() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        cells = int(rng.integers(1, 5))
        scale, shift = rng.uniform(0.2, 4.0), rng.normal() * 100
        values = [
            (int(rng.integers(cells)), float(shift + scale * rng.normal()))
            for _ in range(rng.integers(0, 40))
        ]
        found = NoiseTest(recorded(values, cells)).log_evidence
        assert found == pytest.approx(slow_log_evidence(values, cells), rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_mean_evidence_is_at_most_one_for_coins_under_any_rule_that_picks_the_cell(
    mean: float,
) -> None:
    """Coins of -1 and 1 are sub-Gaussian at scale 1; every sequence of 11 is enumerated.

    The rule is adversarial: it continues with the cell that has spread the most, and stops as soon
    as the evidence has grown.
    """
    total = 0.0
    for coins in itertools.product((-1.0, 1.0), repeat=11):
        values: list[tuple[int, float]] = []
        for coin in coins:
            record = recorded(values, 2)
            values.append((int(record[1, 2] >= record[0, 2]), mean + coin))
            if NoiseTest(recorded(values, 2)).log_evidence > 0.05:
                break
        total += math.exp(NoiseTest(recorded(values, 2)).log_evidence) / 2**11
    assert total <= 1.0 + 1e-12


@pytest.mark.statistical
def test_true_noise_is_almost_never_contradicted_under_adaptive_sampling() -> None:
    rng = np.random.default_rng(1)
    alarms, runs = 0, effort.runs(500, whole=2000)
    for _ in range(runs):
        record, noise = NoiseTest.empty_record(3), rng.normal(size=60)
        alarmed = False
        for value in noise:
            greedy = int(np.argmax(record[:, 2] - record[:, 0]))
            record_result(record, greedy, value + 5.0 * greedy)
            alarmed = alarmed or NoiseTest(record).contradicted
        alarms += alarmed
    assert alarms / runs <= effort.tolerated(FALSE_ALARM, runs)


@pytest.mark.parametrize(("factor", "most"), [(3.0, 24), (2.0, 60), (1.5, 200)])
def test_noise_stated_too_small_is_contradicted_soon(factor: float, most: int) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        record = NoiseTest.empty_record(2)
        for pull in range(2 * most):
            record_result(record, pull % 2, factor * rng.normal())
        assert NoiseTest(record).contradicted
        assert NoiseTest(record).estimated_inflation == pytest.approx(factor, rel=0.6)


def test_noise_stated_too_large_is_never_contradicted() -> None:
    rng = np.random.default_rng(3)
    record = NoiseTest.empty_record(1)
    for value in 0.1 * rng.normal(size=500):
        record_result(record, 0, value)
        assert not NoiseTest(record).contradicted


def test_correction_gives_the_evidence_of_the_right_values() -> None:
    values = [(0, 1.0), (0, 2.5), (1, 3.0), (0, -1.0), (1, 3.5)]
    for wrong_at in range(5):
        wrong = list(values)
        wrong[wrong_at] = (values[wrong_at][0], 40.0)
        record = recorded(wrong, 2)
        replace_result(record, values[wrong_at][0], 40.0, values[wrong_at][1])
        assert record == pytest.approx(recorded(values, 2), rel=1e-12, abs=1e-12)


def test_spread_beyond_all_floats_contradicts_and_equal_results_do_not() -> None:
    assert NoiseTest(recorded([(0, 1e200), (0, -1e200)], 1)).contradicted
    assert not NoiseTest(recorded([(0, 1e160)] * 5, 1)).contradicted
    assert NoiseTest(np.zeros((3, COLUMNS))).log_evidence == 0.0
    assert NoiseTest(np.zeros((3, COLUMNS))).estimated_inflation is None
    assert log_evidence_against_noise(math.nan, 1.0, 1.0, 0.0) == math.inf

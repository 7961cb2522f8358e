"""The tests of counts against intended probabilities: definitions and guarantees."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.confidence.share_test import (
    favoured_arms,
    log_evidence_against_shares,
    log_evidence_of_favour,
    shares_differ,
)
from tests import effort

SHARES = np.array([0.5, 0.3, 0.2])


@given(st.lists(st.integers(0, 2), max_size=60))
def test_the_closed_form_is_the_product_of_predictions_over_shares(values: list[int]) -> None:
    counts, log = np.zeros(3), 0.0
    for value in values:
        predicted = (3 * SHARES[value] + counts[value]) / (3 + counts.sum())
        log += math.log(predicted / SHARES[value])
        counts[value] += 1
    assert log_evidence_against_shares(counts, SHARES) == pytest.approx(log, abs=1e-9)


@pytest.mark.statistical
def test_counts_with_the_stated_shares_are_seldom_ever_found_to_differ() -> None:
    # Ever, in 500 arrivals. 1,000 runs at level .1: within three standard errors of it.
    runs, level, rng = 1_000, 0.1, np.random.default_rng(1)
    counts, ever = np.zeros((runs, 3)), np.full(runs, -np.inf)
    for _ in range(50):
        counts += rng.multinomial(10, SHARES, size=runs)
        now = [log_evidence_against_shares(row, SHARES) for row in counts]
        ever = np.maximum(ever, now)
    assert np.mean(ever >= -math.log(level)) <= level + 3 * math.sqrt(level / runs)


def test_other_shares_are_found() -> None:
    assert not shares_differ([50, 30, 20], SHARES)
    assert shares_differ([400, 400, 200], SHARES)
    assert not shares_differ([0, 0, 0], SHARES)


def block(rng: np.random.Generator, counts: list[int]) -> tuple[list[int], list[float]]:
    """Draw all pulls of a block in random order; return them with their probabilities."""
    left, arms, probabilities = np.array(counts), [], []
    while left.any():
        arm = int(rng.choice(left.size, p=left / left.sum()))
        arms.append(arm)
        probabilities.append(float(left[arm] / left.sum()))
        left[arm] -= 1
    return arms, probabilities


@pytest.mark.statistical
def test_results_that_get_lost_by_chance_favour_no_arm() -> None:
    # The counts of blocks depend on earlier results; a third of the results never arrives. Within
    # three standard errors of level .1.
    runs, level, rng = effort.runs(120, whole=400), 0.1, np.random.default_rng(2)
    alarms = 0
    for _ in range(runs):
        arms: list[int] = []
        probabilities: list[float] = []
        for _ in range(15):
            leader = int(np.argmax(np.bincount(arms, minlength=3)))
            drawn = block(rng, [8 if arm == leader else 2 for arm in range(3)])
            for arm, probability in zip(*drawn, strict=True):
                if rng.random() < 2 / 3:
                    arms.append(arm)
                    probabilities.append(probability)
        evidence = log_evidence_of_favour(arms, probabilities, 3)
        alarms += bool(evidence.max() >= math.log(3 / level))
    assert alarms / runs <= level + 3 * math.sqrt(level / runs)


@pytest.mark.parametrize("kept", [0.0, 0.3])
def test_an_arm_whose_rivals_are_passed_over_is_named(kept: float) -> None:
    rng = np.random.default_rng(3)
    arms: list[int] = []
    probabilities: list[float] = []
    for _ in range(40):
        for arm, probability in zip(*block(rng, [5, 5, 5]), strict=True):
            if arm == 1 or rng.random() < kept:
                arms.append(arm)
                probabilities.append(probability)
    assert favoured_arms(arms, probabilities, 3) == (1,)


def test_a_pull_that_was_certain_tells_nothing() -> None:
    assert favoured_arms([0] * 1_000, [1.0] * 1_000, 2) == ()
    assert favoured_arms([], [], 2) == ()


def test_the_evidence_of_favour_is_the_largest_average_of_all_bets() -> None:
    arms, probabilities = block(np.random.default_rng(4), [6, 3, 2])
    found = log_evidence_of_favour(arms, probabilities, 3)
    for favoured in range(3):
        wealth, largest = np.ones(3), 1.0
        for arm, probability in zip(arms, probabilities, strict=True):
            if probability < 1.0:
                gain = (arm == favoured) / probability - 1.0
                wealth = wealth * (1.0 + np.array([0.1, 0.3, 0.7]) * gain)
                largest = max(largest, float(wealth.mean()))
        assert found[favoured] == pytest.approx(math.log(largest), abs=1e-12)

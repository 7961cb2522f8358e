"""Differences of means of results in a range, each with a guess fixed before its arm was drawn."""

import numpy as np
import pytest

from fairtrial.confidence.effects import (
    BlockResults,
    GuessedResults,
    difference_in_range,
    difference_with_guesses,
)

TARGET = np.array([1.0, -1.0])


def guessed(rewards, guesses, lost=None, known=None):
    """Return the results of blocks, from arrays of shape (T, pulls, arms)."""
    lost = np.zeros(rewards.shape, dtype=bool) if lost is None else lost
    known = np.ones(rewards.shape, dtype=bool) if known is None else known
    off = np.where(lost, 0.0, rewards - guesses)
    own = np.where(lost & known, guesses, 0.0)
    sums = [~lost, lost, off, off**2, lost & known, own, own**2]
    return GuessedResults(*(part.sum(axis=1).astype(float) for part in sums))


def simulated(random, effect=0.0, blocks=15, pulls=20):
    """Return rewards of 0 or 1, and a guess that explains much of them."""
    chance = random.choice([0.15, 0.85], size=(blocks, pulls, 2))
    better = np.array([effect, 0.0])
    rewards = (random.random(chance.shape) < chance + better).astype(float)
    return rewards, chance


def test_an_interval_is_narrower_by_what_the_guesses_explain():
    rewards, guesses = simulated(np.random.default_rng(1), effect=0.1, blocks=30, pulls=40)
    found = difference_with_guesses(guessed(rewards, guesses), TARGET, 0.0, 1.0, 0.05)
    counts = np.full((30, 2), 40.0)
    plain = BlockResults(counts, 0 * counts, rewards.sum(1), rewards.sum(1), 0 * counts)
    wide = difference_in_range(plain, TARGET / counts, 0.0, 1.0, 0.05)
    assert found.upper - found.lower < 0.8 * (wide.upper - wide.lower)
    assert found.lower < 0.1 < found.upper


def test_an_interval_fails_at_no_time_more_often_than_allowed():
    """400 runs of 15 looks at level .1; share + 3 standard errors of 400 runs is .145."""
    random, failed = np.random.default_rng(2), 0
    for _ in range(400):
        rewards, guesses = simulated(random, effect=0.0, pulls=8)
        shares = []
        for looks in (1, 2, 4, 7, 10, 15):
            found = difference_with_guesses(
                guessed(rewards[:looks], guesses[:looks]), TARGET, 0.0, 1.0, 0.1
            )
            shares.append(found.lower > 0.0 or found.upper < 0.0)
        failed += any(shares)
    assert failed <= 0.145 * 400


@pytest.mark.parametrize("known", [True, False])
def test_the_interval_contains_those_of_all_values_that_lost_results_may_have(known):
    random = np.random.default_rng(3)
    rewards, guesses = simulated(random, effect=0.2)
    lost = random.random(rewards.shape) < 0.05
    found = difference_with_guesses(
        guessed(rewards, guesses, lost, np.full(rewards.shape, known)), TARGET, 0.0, 1.0, 0.05
    )
    best, worst = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    for value in (best, worst, best, worst, random.random(rewards.shape)):
        filled = np.where(lost, value, rewards)
        other = difference_with_guesses(guessed(filled, guesses), TARGET, 0.0, 1.0, 0.05)
        assert found.lower <= other.lower + 1e-6
        assert found.upper >= other.upper - 1e-6


@pytest.mark.parametrize(("low", "width"), [(0.0, 1e-120), (-5.0, 3.0), (0.0, 1e120)])
def test_an_interval_is_the_same_in_all_units(low, width):
    random = np.random.default_rng(4)
    rewards, guesses = simulated(random, effect=0.2)
    lost = random.random(rewards.shape) < 0.05
    one = difference_with_guesses(guessed(rewards, guesses, lost), TARGET, 0.0, 1.0, 0.05)
    scaled = guessed(low + width * rewards, low + width * guesses, lost)
    other = difference_with_guesses(scaled, TARGET, low, low + width, 0.05)
    assert np.array(other) / width == pytest.approx(np.array(one), rel=1e-6, abs=1e-9)


def test_without_results_of_both_there_is_no_difference():
    rewards, guesses = simulated(np.random.default_rng(5))
    nothing = guessed(rewards[:, :0], guesses[:, :0])
    assert difference_with_guesses(nothing, TARGET, 0.0, 1.0, 0.05) is None

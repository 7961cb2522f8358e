"""Unknown deviations: Student's t, mixed over a normal prior of the effect.

For F outcomes with mean m and sum of squares S about it, let the effects under the alternative be
N(0, 1/q) in units of the deviation. With B = F (m - mu)^2 and g = 1 + F / q, the Bayes factor
against the mean mu is

    sqrt(1/g) ((S + B) / (S + B / g))^(F / 2).

Sources: Lai (1976), "On confidence sequences"; Wang and Ramdas (2024), "Anytime-valid t-tests and
confidence sequences for Gaussian means with unknown variance"; for two arms Welch (1947).
"""

import math
from typing import Any

import numpy as np

from fairtrial.delayed._kernels.state import (
    DONE,
    OPEN,
    Race,
    kernel,
)


@kernel
def add_outcome(race: Race, row: int, sums: Any) -> None:
    """Add a pull to the sums of its arm."""
    pulls = race.pulls
    if pulls[row].state == OPEN:
        sums.expected += 1.0
    if pulls[row].state != DONE:
        return
    # Welford's update, because plain sums of squares are inaccurate if the mean is large.
    sums.expected += 1.0
    sums.number += 1.0
    before = pulls[row].outcome - sums.average
    sums.average += before / sums.number
    after = pulls[row].outcome - sums.average
    sums.squares += before * after


@kernel
def student_radius(variance: float, number: float, level: float, prior: float) -> float:
    """Return the radius around an arm's mean; `variance` is the variance of that mean."""
    if number < 2.0:
        return np.inf
    grown = 1.0 + number / prior
    factor = math.exp((2.0 * level + math.log(grown)) / number)
    if factor >= grown:
        return np.inf
    return math.sqrt(variance * (number - 1.0) * (factor - 1.0) / (1.0 - factor / grown))


@kernel
def student_evidence(
    gap: float,
    variance: float,
    number: float,
    other_variance: float,
    other_number: float,
    prior: float,
) -> float:
    """Return the evidence in nats that two means differ, with Welch's degrees of freedom."""
    if number < 2.0 or other_number < 2.0:
        return -np.inf
    spread = variance + other_variance
    if spread == 0.0:
        freedom = min(number, other_number) - 1.0
        grown = 1.0 + (freedom + 1.0) / prior
        return 0.5 * freedom * math.log(grown) if gap != 0.0 else -0.5 * math.log(grown)
    own, other = variance / spread, other_variance / spread
    freedom = 1.0 / (own * own / (number - 1.0) + other * other / (other_number - 1.0))
    square = gap * gap / spread
    grown = 1.0 + (freedom + 1.0) / prior
    ratio = (freedom + square) / (freedom + square / grown)
    return 0.5 * ((freedom + 1.0) * math.log(ratio) - math.log(grown))


@kernel
def estimate_by_student(race: Race, arm: int) -> None:
    """Set an arm's mean, its variance, the number of outcomes (as the penalty) and its box."""
    arms, total = race.arms, race.arms[arm].total
    number = total.number
    arms[arm].potential, arms[arm].penalty = total.expected, number
    if number > 0.0:
        arms[arm].estimate = total.average
    arms[arm].variance = np.inf
    if number >= 2.0:
        arms[arm].variance = total.squares / (number * (number - 1.0))
    radius = reach_by_student(race, arm, number)
    arms[arm].lower, arms[arm].upper = arms[arm].estimate - radius, arms[arm].estimate + radius


@kernel
def reach_by_student(race: Race, arm: int, number: float) -> float:
    """Return the radius of an arm's mean after `number` outcomes with the observed deviation."""
    arms = race.arms
    if arms[arm].variance == np.inf:
        return np.inf
    variance = arms[arm].variance * arms[arm].penalty / number
    return student_radius(variance, number, race.rules[0].level, race.rules[0].prior)

"""Deviations that are not known: Student's t, mixed over a normal prior of the effect.

For F outcomes of mean m and squares S about it, the Bayes factor of effects N(0, 1/q) in units
of the deviation against the mean mu is, with B = F (m - mu)^2 and g = 1 + F / q,

    sqrt(1/g) ((S + B) / (S + B / g))^(F / 2).

Sources: Lai (1976), "On confidence sequences"; Wang and Ramdas (2024), "Anytime-valid t-tests
and confidence sequences for Gaussian means with unknown variance"; for two arms Welch (1947).
"""

import math

import numpy as np

from fairtrial.delayed._kernels.books import (
    ARM,
    DONE,
    EXPECTED,
    LEVEL,
    LOWER,
    MEAN,
    MEAN_SEEN,
    NUMBER_SEEN,
    OPEN,
    OUTCOME,
    PENALTY,
    POTENTIAL,
    PRIOR,
    SQUARES,
    STATE,
    TOTAL,
    UPPER,
    VARIANCE,
    Book,
    kernel,
)


@kernel
def add_outcome(book: Book, row: int, place: int) -> None:
    """Add a pull to the sums of its arm that stand at `place`."""
    pulls, sums = book.pulls, book.sums
    arm = int(pulls[row, ARM])
    if pulls[row, STATE] == OPEN:
        sums[arm, place + EXPECTED] += 1.0
    if pulls[row, STATE] != DONE:
        return
    # Welford's update: sums of squares would lose the deviation of a large mean.
    sums[arm, place + EXPECTED] += 1.0
    sums[arm, place + NUMBER_SEEN] += 1.0
    before = pulls[row, OUTCOME] - sums[arm, place + MEAN_SEEN]
    sums[arm, place + MEAN_SEEN] += before / sums[arm, place + NUMBER_SEEN]
    after = pulls[row, OUTCOME] - sums[arm, place + MEAN_SEEN]
    sums[arm, place + SQUARES] += before * after


@kernel
def student_radius(variance: float, number: float, level: float, prior: float) -> float:
    """Return how far from its mean an arm's may be; `variance` is that of the mean."""
    if number < 2.0:
        return np.inf
    grown = 1.0 + number / prior
    factor = math.exp((2.0 * level + math.log(grown)) / number)
    if factor >= grown:
        return np.inf
    return math.sqrt(variance * (number - 1.0) * (factor - 1.0) / (1.0 - factor / grown))


@kernel
def student_evidence(
    gap: float, variance: float, number: float, other_variance: float, other_number: float,
    prior: float,
) -> float:  # fmt: skip
    """Return the evidence that two means differ, in nats, with the degrees of freedom of Welch."""
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
def estimate_by_student(book: Book, arm: int) -> None:
    """Set mean, its variance, the number of outcomes (as the penalty) and box of an arm."""
    arms, sums = book.arms, book.sums
    number = sums[arm, TOTAL + NUMBER_SEEN]
    arms[arm, POTENTIAL], arms[arm, PENALTY] = sums[arm, TOTAL + EXPECTED], number
    if number > 0.0:
        arms[arm, MEAN] = sums[arm, TOTAL + MEAN_SEEN]
    arms[arm, VARIANCE] = np.inf
    if number >= 2.0:
        arms[arm, VARIANCE] = sums[arm, TOTAL + SQUARES] / (number * (number - 1.0))
    radius = reach_by_student(book, arm, number)
    arms[arm, LOWER], arms[arm, UPPER] = arms[arm, MEAN] - radius, arms[arm, MEAN] + radius


@kernel
def reach_by_student(book: Book, arm: int, number: float) -> float:
    """Return the radius of an arm's mean, had it that many outcomes of the deviation seen."""
    arms = book.arms
    if arms[arm, VARIANCE] == np.inf:
        return np.inf
    variance = arms[arm, VARIANCE] * arms[arm, PENALTY] / number
    return student_radius(variance, number, book.rules[LEVEL], book.rules[PRIOR])

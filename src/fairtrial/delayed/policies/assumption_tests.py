"""Tests, valid at all times, of a race's assumptions against its own results.

Each test is an e-process: if its assumption holds, the probability that it ever reaches 1 /
`FALSE_ALARM` is at most `FALSE_ALARM`. Proofs: docs/explanation/delayed.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import COUNT, FIRST, MEAN, SPREAD
from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest, log_evidence_against_noise

__all__ = [
    "ERROR_COLUMNS",
    "contradicts",
    "log_evidence_against_errors",
    "log_evidence_of_delays",
    "log_evidence_of_losses",
    "record_reading",
    "spread_of_results",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NUMBER, WEIGHT, CENTRE, SQUARES = range(4)
"""Columns of the errors of a pull's readings: their number, the weight and value of the estimate of
the outcome, and the weighted sum of squares about it."""

ERROR_COLUMNS = 4


def contradicts(log_evidence: float) -> bool:
    """Return whether the evidence is so large that its chance is at most `FALSE_ALARM`."""
    return log_evidence >= -math.log(FALSE_ALARM)


# ------------------------------------------------------------------------- the noise


def spread_of_results(arms: Integers, values: Floats, number: int) -> NoiseTest:
    """Return the test of the stated noise, for results in the order in which they arrived.

    `values` are in units of the stated noise of their arm; there are `number` arms.
    """
    record = NoiseTest.empty_record(number)
    counts = np.bincount(arms, minlength=number).astype(np.float64)
    known, first = np.unique(arms, return_index=True)
    record[:, COUNT] = counts
    record[known, FIRST] = values[first]
    # Relative to the first result, so that a large mean does not cost digits.
    shifted = values - record[arms, FIRST]
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.bincount(arms, shifted, number) / np.maximum(counts, 1.0)
        record[:, MEAN] = record[:, FIRST] + means
        record[:, SPREAD] = np.bincount(arms, (shifted - means[arms]) ** 2, number)
    return NoiseTest(record)


# ---------------------------------------------------------------------- the readings


def record_reading(errors: Floats, value: float, variance: float, nested: bool) -> None:
    """Add a reading to its pull's row; `variance` is that of its error, more than 0.

    With nested errors, only the newest reading counts, and the step to it has the difference of the
    variances. `value` and `variance` are in units of the arm's noise.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        weight = 1.0 / variance
        gap = value - errors[CENTRE]
        if errors[NUMBER] == 0.0:
            errors[WEIGHT], errors[CENTRE] = weight, value
        elif nested:
            step = 1.0 / errors[WEIGHT] - variance
            if step <= 0.0:
                return
            errors[SQUARES] += gap * gap / step
            errors[WEIGHT], errors[CENTRE] = weight, value
        else:
            whole = errors[WEIGHT] + weight
            errors[SQUARES] += weight * errors[WEIGHT] / whole * gap * gap
            errors[CENTRE] += gap * weight / whole
            errors[WEIGHT] = whole
        errors[NUMBER] += 1.0


def log_evidence_against_errors(
    errors: Floats, outcomes: Floats, arms: Integers, biased: bool
) -> float:
    """Return the logarithm of an e-value against "readings are as accurate as stated".

    Parameters
    ----------
    errors : ndarray of shape (pulls, 4)
        Rows written by `record_reading`.
    outcomes : ndarray of shape (pulls,)
        Outcomes of the pulls, in units of the noise; NaN if unknown.
    arms : ndarray of int, shape (pulls,)
        The pulls' arms.
    biased : bool
        Whether the errors of an arm have an unknown mean.

    Notes
    -----
    For errors e with stated deviation s, ``prod v^(-1/2) exp((1 - 1/v) e^2 / (2 s^2))`` is a
    martingale given the outcomes, for every v > 1. If an outcome or a bias is not known, the value
    that minimises this is used.
    """
    read = errors[:, NUMBER] > 0.0
    known = read & np.isfinite(outcomes)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(errors[read, SQUARES].sum())
        gaps, weights = errors[known, CENTRE] - outcomes[known], errors[known, WEIGHT]
        if biased and gaps.size:
            own = arms[known]
            totals = np.bincount(own, weights)
            gaps = gaps - (np.bincount(own, weights * gaps) / np.maximum(totals, 1e-300))[own]
        squares += float((weights * gaps * gaps).sum())
    squares = math.inf if math.isnan(squares) else squares
    return log_evidence_against_noise(squares, squares, float(errors[read, NUMBER].sum()), 0.0)


# ------------------------------------------------------------------ delays and losses


def log_evidence_of_delays(arms: Integers, values: Floats, lateness: Floats, number: int) -> float:
    """Return the logarithm of an e-value against "delays are independent of results".

    For each arm, a mean that changes with the lateness competes with a constant mean. The result is
    the average of the mean of the arms' e-values and their product.

    Parameters
    ----------
    arms : ndarray of int, shape (results,)
        Arms in the order in which results arrived.
    values : ndarray of shape (results,)
        Outcomes in units of the stated noise.
    lateness : ndarray of shape (results,)
        Lateness in [-1, 1]; known before the outcome.
    number : int
        Number of arms.
    """
    counts = np.bincount(arms, minlength=number).astype(np.float64)
    present = counts > 0.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        first = values[np.unique(arms, return_index=True)[1]]
        shifted = values - first[np.cumsum(present)[arms] - 1]
        shifted = shifted - (np.bincount(arms, shifted, number) / counts)[arms]
        late = np.bincount(arms, lateness, number)
        squares = np.bincount(arms, lateness * lateness, number)
        own = squares - late * late / counts
        slope = np.where(own > 1e-12, np.bincount(arms, shifted * lateness, number) / own, 0.0)
        # Normal priors with precision 1 for the shift and the slope, in units of the noise.
        determinant = (counts + 1.0) * (squares + 1.0) - late * late
        # The inverse of I - I (I + R)^-1 I: what the data say about shift and slope.
        inside = counts - (counts * (squares + 1.0) - late * late) / determinant
        cross = late - late / determinant
        outside = squares - ((counts + 1.0) * squares - late * late) / determinant
        information = np.where(inside > 0.0, outside - cross * cross / inside, outside)
        logs = 0.5 * (slope * slope * np.maximum(information, 0.0) - np.log(determinant))
    logs = np.where(np.isfinite(logs), logs, math.inf)[present]
    if not logs.size:
        return 0.0
    alone = float(np.logaddexp.reduce(logs)) - math.log(logs.size)
    return float(np.logaddexp(alone, logs.sum())) - math.log(2.0)


def log_evidence_of_losses(told: Floats, lost: Floats) -> float:
    """Return the logarithm of an e-value against "pulls are lost equally often on every arm".

    Each arm's losses, predicted from its earlier ones (Krichevsky and Trofimov 1981), compete with
    the best single rate for all arms.

    Examples
    --------
    >>> log_evidence_of_losses(np.array([40.0, 40.0]), np.array([0.0, 40.0])) > 7
    True
    """
    predicted = sum(map(_log_predicted, told.tolist(), lost.tolist()))
    total, missing = float(told.sum()), float(lost.sum())
    return predicted - _log_likelihood(total, missing)


def _log_predicted(told: float, lost: float) -> float:
    half = math.lgamma(0.5)
    return (
        math.lgamma(told + 0.5)
        + math.lgamma(lost + 0.5)
        - 2.0 * half
        - math.lgamma(told + lost + 1)
    )


def _log_likelihood(told: float, lost: float) -> float:
    together = told + lost
    return sum(count * math.log(count / together) for count in (told, lost) if count > 0.0)

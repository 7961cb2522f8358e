"""Whether rewards contradict what the problem states: the noise, and that means are linear."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import COUNT, FIRST, MEAN, SPREAD
from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest, log_evidence_against_noise
from fairtrial.linear.problem import Problem

Floats = NDArray[np.float64]

_SIZES = tuple(4.0**power for power in range(21))
"""Possible sizes of the first rewards, in units of the noise."""


class Data(NamedTuple):
    """Rewards by arm, in units of the noise: number, mean, and squares around it; shape (K,)."""

    number: Floats
    mean: Floats
    spread: Floats


def contradiction(problem: Problem, record: Floats, early: Floats) -> str | None:
    """Return in words what the rewards contradict; None while they fit what is stated.

    Parameters
    ----------
    problem : Problem
        The problem. If its noise is estimated there is nothing to contradict.
    record : ndarray of shape (K, 4) or (K, 5)
        The record of the rewards, as `fairtrial.confidence.noise_kernels` keeps it.
    early : ndarray of the same shape
        The record of the first of them, from which theta could be estimated.
    """
    if problem.estimates_noise:
        return None
    test = NoiseTest(record)
    if problem.reward_range is None and test.contradicted:
        times = test.estimated_inflation or math.inf
        return (
            "noise_std is right (contradicted: the rewards of single arms spread "
            f"{times:.3g} times as widely)"
        )
    if log_evidence(problem, record, early) >= -math.log(FALSE_ALARM):
        return (
            "mean rewards are linear in the features (contradicted: the arms' mean rewards differ "
            "from a linear function by more than the noise)"
        )
    return None


def log_evidence(problem: Problem, record: Floats, early: Floats) -> float:
    """Return the logarithm of an e-value against the linear model with the stated noise.

    It is the mean of four e-values: rewards are predicted by the linear fit to earlier rewards,
    with a larger variance, or by the mean of their own arm; and the first rewards, which have no
    prediction, are either not tested or may be anything up to some size. Valid at all times.
    """
    arms, slack = problem.reduced.arms, problem.misspecification / problem.scale
    found = [*_by_fit(arms, slack, record, early), *_by_arm(arms, slack, record)]
    return float(np.logaddexp.reduce(found) - math.log(len(found)))


def _by_fit(arms: Floats, slack: Floats, record: Floats, early: Floats) -> tuple[float, float]:
    """Return two log e-values of predictions by the linear fit.

    The squared errors, divided by their variances, add up to the growth of the residual sum of
    squares since the first fit; the variances multiply to the growth of the determinant.
    """
    before, now = _data(early), _data(record)
    first, last = _log_determinant(arms, before.number), _log_determinant(arms, now.number)
    if not math.isfinite(first):
        return 0.0, 0.0
    spread = max(_residual(arms, now) - _residual(arms, before), 0.0)
    return _tested(arms, slack, now, before, spread, last - first)


def _by_arm(arms: Floats, slack: Floats, record: Floats) -> tuple[float, float]:
    """Return two log e-values of predictions by the mean of an arm's own rewards."""
    now = _data(record)
    pulled = now.number > 0.0
    first = Data(pulled.astype(np.float64), record[:, FIRST], np.zeros(len(record)))
    growth = float(np.log(now.number[pulled]).sum())
    return _tested(arms, slack, now, first, float(now.spread.sum()), growth)


def _tested(
    arms: Floats, slack: Floats, now: Data, first: Data, spread: float, growth: float
) -> tuple[float, float]:
    """Return log e-values without the first rewards, and with a prediction of their size."""
    later = _without(now, first)
    results = float(later.number.sum())
    if results < 1.0:
        return 0.0, 0.0
    plain = log_evidence_against_noise(_residual(arms, later, slack), spread, results, growth)
    residual, number = _residual(arms, now, slack), float(first.number.sum())
    squares = float((first.number * first.mean**2 + first.spread).sum())
    wide = [
        log_evidence_against_noise(
            residual,
            spread + squares / size**2,
            results + number,
            growth + 2.0 * number * math.log(size),
        )
        for size in _SIZES
    ]
    return plain, float(np.logaddexp.reduce(wide) - math.log(len(wide)))


def _data(record: Floats) -> Data:
    return Data(record[:, COUNT], record[:, MEAN], record[:, SPREAD])


def _without(all_of_it: Data, part: Data) -> Data:
    """Return the data without one part."""
    number = all_of_it.number - part.number
    some = number > 0.0
    divisor = np.where(some, number, 1.0)
    total = np.where(some, all_of_it.number, 1.0)
    mean = np.where(part.number > 0.0, part.mean, all_of_it.mean)
    apart = all_of_it.mean - mean
    mean = np.where(some, all_of_it.mean + part.number * apart / divisor, 0.0)
    between = part.number * total / divisor * apart**2
    spread = np.where(some, np.maximum(all_of_it.spread - part.spread - between, 0.0), 0.0)
    return Data(number, mean, spread)


def _residual(arms: Floats, data: Data, slack: Floats | None = None) -> float:
    """Return the least sum of squared residuals of a linear fit, if means may be off by `slack`.

    A lower bound: the distance of the means from the fit, minus the largest allowed deviation.
    """
    pulled = data.number > 0.0
    weights = np.sqrt(data.number[pulled])
    means = weights * data.mean[pulled]
    rows = weights[:, np.newaxis] * arms[pulled]
    fitted = rows @ np.linalg.lstsq(rows, means, rcond=1e-12)[0]
    # The part of the fit that was lost to rounding is fitted again.
    fitted += rows @ np.linalg.lstsq(rows, means - fitted, rcond=1e-12)[0]
    distance = float(np.linalg.norm(means - fitted))
    allowed = 0.0 if slack is None else float(np.linalg.norm(weights * slack[pulled]))
    return float(data.spread.sum()) + max(0.0, distance - allowed) ** 2


def _log_determinant(arms: Floats, counts: Floats) -> float:
    """Return the log determinant of the Gram matrix; -inf while theta cannot be estimated."""
    pulled = counts > 0.0
    rows = np.sqrt(counts[pulled])[:, np.newaxis] * arms[pulled]
    if len(rows) < arms.shape[1]:
        return -math.inf
    sizes = np.abs(np.diag(np.linalg.qr(rows, mode="r")))
    return 2.0 * float(np.log(sizes).sum()) if sizes.min(initial=1.0) > 1e-8 else -math.inf

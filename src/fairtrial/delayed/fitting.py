"""Fit a simulated environment to a finished study, to plan the next one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_integer
from fairtrial.delayed.delays import Delay, EmpiricalDelay, LognormalDelay
from fairtrial.delayed.environments import CurveEnvironment, SimulatedEnvironment
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["fit_environment"]

Floats = NDArray[np.float64]

_DIFFERENT = 0.01
_BINS = 10
_LEAST_LEFT = 1e-3


@named_arguments
def fit_environment(
    problem: Problem,
    table: Any,
    lost: int = 0,
    arm: str = "arm",
    curve: str = "curve",
    elapsed: str = "elapsed",
    value: str = "value",
    std: str | None = None,
) -> SimulatedEnvironment:
    """Return an environment with the means, noise, delays and readings of a finished study.

    - Means and noise: mean and standard deviation of every arm's outcomes; for an arm with a single
      outcome, the deviation of all arms.
    - Delays: a sample of all delays; if arms differ (Kruskal and Wallis, p below .01), a lognormal
      distribution for each.
    - Readings: their deviation about the outcome, and their bias if the problem has one; for
      ``refining`` how the deviation shrinks with the time left, and whether errors look nested or
      redrawn.
    - Losses: the share of pulls without an outcome.

    Parameters
    ----------
    problem : Problem
        The problem of the next study. Its outcomes are assumed to be normal.
    table : data frame or mapping of str to sequence
        One row per point of a complete pull, as for `CurveEnvironment`: the last point is the
        outcome.
    lost : int
        Number of pulls without an outcome, which are not in the table.
    arm, curve, elapsed, value, std : str
        Names of the columns.

    Raises
    ------
    InvalidArgument
        If the table is not acceptable, no arm has two outcomes, the problem has a reward range, or
        the problem has readings and the table has none.

    Examples
    --------
    >>> problem = Problem(["a", "b"], noise_std=1.0)
    >>> rows = {"arm": ["a", "a", "b", "b"], "curve": [1, 2, 1, 2],
    ...         "elapsed": [3.0, 5.0, 4.0, 5.0], "value": [0.0, 2.0, 5.0, 7.0]}
    >>> environment = fit_environment(problem, rows)
    >>> environment.means.tolist(), environment.std.round(3).tolist()
    ([1.0, 6.0], [1.414, 1.414])
    """
    seen = CurveEnvironment(problem, table, arm, curve, elapsed, value, std)
    curves = seen.curves
    missing = check_integer("lost", lost, low=0)
    ended = sum(len(own) for own in curves)
    return SimulatedEnvironment(
        problem,
        seen.arm_means,
        std=_deviations([np.array([rows[-1, 1] for rows in own]) for own in curves]),
        loss=missing / (missing + ended),
        **_time_and_readings(problem, curves),
    )


def _time_and_readings(problem: Problem, curves: list[list[Floats]]) -> dict[str, Any]:
    if problem.feedback == "incremental":
        return {}
    known: dict[str, Any] = {
        "delay": _delay([np.array([rows[-1, 0] for rows in own]) for own in curves])
    }
    if problem.feedback == "full":
        return known
    known["every"] = _spacing(curves)
    errors = [np.concatenate([rows[:-1, 1] - rows[-1, 1] for rows in own]) for own in curves]
    if problem.feedback == "biased":
        biases = np.array([own.mean() if own.size else 0.0 for own in errors])
        known["bias"] = biases
        errors = [own - bias for own, bias in zip(errors, biases, strict=True)]
    if problem.feedback == "refining":
        return {**known, **_refinement(curves)}
    overall = _root_mean_square(np.concatenate(errors))
    known["reading_std"] = [_root_mean_square(own) if own.size else overall for own in errors]
    return known


def _root_mean_square(values: Floats) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _deviations(outcomes: list[Floats]) -> Floats:
    """Return the deviation of every arm; for arms with a single outcome, that of all arms."""
    freedom = sum(own.size - 1 for own in outcomes)
    if freedom == 0:
        raise InvalidArgument("table", "must have two outcomes of an arm, to see their spread")
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in outcomes)
    overall = math.sqrt(squares / freedom)
    return np.array([own.std(ddof=1) if own.size > 1 else overall for own in outcomes])


def _delay(times: list[Floats]) -> Delay:
    everything = np.concatenate(times)
    if len(times) == 1 or np.ptp(everything) == 0.0:
        return EmpiricalDelay(everything)
    if scipy.stats.kruskal(*times).pvalue >= _DIFFERENT:
        return EmpiricalDelay(everything)
    logs = [np.log(own) for own in times]
    return LognormalDelay([math.exp(own.mean()) for own in logs], [own.std() for own in logs])


def _spacing(curves: list[list[Floats]]) -> float:
    """Return the typical time between readings, or from the start to the first reading."""
    gaps = [np.diff(rows[:-1, 0], prepend=0.0) for own in curves for rows in own]
    everything = np.concatenate(gaps)
    if not everything.size:
        raise InvalidArgument("table", "must have readings: the problem has some", None)
    return float(np.median(everything))


def _refinement(curves: list[list[Floats]]) -> dict[str, Any]:
    """Return how errors shrink with the time left, and how errors of one pull depend on another."""
    left, errors, pairs = [], [], []
    for rows in (rows for own in curves for rows in own if len(rows) > 1):
        own = rows[:-1, 1] - rows[-1, 1]
        left.append(1.0 - rows[:-1, 0] / rows[-1, 0])
        errors.append(own)
        pairs.append(np.column_stack([own[:-1], own[1:]]))
    std, shrink = _power_law(np.concatenate(left), np.concatenate(errors))
    earlier, later = np.concatenate(pairs).T
    # The covariance of nested errors is the later variance; that of redrawn errors is 0.
    nested = not earlier.size or 2.0 * float(earlier @ later) > float(later @ later)
    return {
        "reading_std": std,
        "shrink": shrink,
        "errors": "nested" if nested else "redrawn",
    }


def _power_law(left: Floats, errors: Floats) -> tuple[float, float]:
    """Return scale and exponent of the root mean square error as a power of the time left."""
    place = np.minimum((left * _BINS).astype(int), _BINS - 1)
    bins = [place == number for number in range(_BINS) if (place == number).any()]
    sizes = np.array([_root_mean_square(errors[own]) for own in bins])
    ages = np.array([max(float(left[own].mean()), _LEAST_LEFT) for own in bins])
    weights = np.sqrt([own.sum() for own in bins])
    told = sizes > 0.0
    if told.sum() < 2:
        return float(sizes.max()), 0.0
    slope, level = np.polyfit(np.log(ages[told]), np.log(sizes[told]), 1, w=weights[told])
    if slope < 0.0:
        return _root_mean_square(errors), 0.0
    return math.exp(level), float(slope)

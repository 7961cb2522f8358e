"""Learn at which reading to cancel pulls, from complete pulls."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairtrial.core.validation import check_integer
from fairtrial.delayed._kernels.state import DONE
from fairtrial.delayed.policies.race_state import ENOUGH, RaceState
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from fairtrial.delayed.problem import Problem

__all__ = [
    "Followed",
    "best_truncation",
    "check_truncate",
    "reconsider_truncation",
    "worth_at_readings",
]

_MOST_ERRORS = 2.0

# A bias is learned only from outcomes, and full feedback has no readings to keep.
_TRUNCATED = frozenset({"incremental", "unbiased", "refining"})


@dataclass(frozen=True, slots=True)
class Followed:
    """The value of a pull if it had been cancelled at one of its readings.

    Parameters
    ----------
    readings : int
        Number of readings until then.
    elapsed : float
        Time since the start of the pull.
    precision : float
        Weight in its arm's mean; an outcome has 1.
    error, std : float
        Distance of the forecast from the outcome, and its stated deviation.
    """

    readings: int
    elapsed: float
    precision: float
    error: float
    std: float


def best_truncation(pulls: Iterable[list[Followed]], setup: float) -> float:
    """Return the number of readings with the best precision per time; infinity for the outcome.

    Beyond this point, the precision gained per unit of time falls below the best average (Charnov
    1976, "Optimal foraging: the marginal value theorem"). An age is considered if at least ten
    pulls were followed beyond it, and their errors have mean 0 and the stated size, both within two
    standard errors.

    Parameters
    ----------
    pulls : iterable of list of Followed
        By pull, in the order of its readings; pulls without readings are not informative.
    setup : float
        Time to start a pull.
    """
    ages: defaultdict[int, list[Followed]] = defaultdict(list)
    lengths = []
    for steps in pulls:
        for step in steps:
            ages[step.readings].append(step)
        # The outcome is assumed to follow the last reading after the usual time between readings.
        lengths.append(steps[-1].elapsed * (1.0 + 1.0 / steps[-1].readings))
    best, most = math.inf, 1.0 / (setup + math.fsum(lengths) / len(lengths))
    for age in sorted(ages):
        if not _is_calibrated(ages[age]):
            continue
        number = len(ages[age])
        precision = math.fsum(step.precision for step in ages[age]) / number
        rate = precision / (setup + math.fsum(step.elapsed for step in ages[age]) / number)
        if rate > most:
            best, most = float(age), rate
    return best


def _is_calibrated(steps: list[Followed]) -> bool:
    """Return whether forecasts at an age are unbiased and as accurate as stated."""
    number = len(steps)
    if number < ENOUGH or any(step.std == 0.0 and step.error != 0.0 for step in steps):
        return False
    mean = math.fsum(step.error for step in steps) / number
    spread = math.fsum((step.error - mean) ** 2 for step in steps) / (number - 1)
    ratios = math.fsum((step.error / step.std) ** 2 for step in steps if step.std > 0.0) / number
    fair = abs(mean) <= _MOST_ERRORS * math.sqrt(spread / number)
    return fair and ratios <= 1.0 + _MOST_ERRORS * math.sqrt(2.0 / number)


def reconsider_truncation(race: RaceState, setup: float) -> None:
    """Compute the best age to cancel pulls, each time the number of complete pulls has doubled."""
    states, readings = race.pulls.state[: race.rows], race.pulls.readings[: race.rows]
    ends = np.flatnonzero((states == DONE) & (readings > 0))
    rows = [row for row in ends.tolist() if row not in race.valued]
    if len(rows) < race.look_at:
        return
    while len(rows) >= race.look_at:
        race.look_at *= 2
    race.truncate_at = best_truncation([worth_at_readings(race, row) for row in rows], setup)


def worth_at_readings(race: RaceState, row: int) -> list[Followed]:
    """Return the value that a complete pull would have had at each reading."""
    problem, pulls = race.problem, race.pulls
    arm, count = int(pulls.arm[row]), int(pulls.readings[row])
    outcome, pieces = float(pulls.outcome[row]), float(pulls.duration[row])
    variance = (float(problem.scale[arm]) / race.unit) ** 2
    steps, total, precision = [], 0.0, 0.0
    for number, (_, value, std, elapsed) in enumerate(
        race.readings.in_order(row)[:count].tolist(), start=1
    ):
        if problem.feedback == "incremental":
            total += value
            forecast = pieces * total / number
            own = variance * max(0.0, pieces / number - 1.0)
        else:
            if std < 0.0:
                std = race.reading_std(arm)
            if problem.feedback == "refining":
                total, precision = 0.0, 0.0
            # As in the kernels, a deviation of 0 counts as one far below the outcome's.
            weight = 1.0 / max(std * std, 1e-12 * variance)
            precision, total = precision + weight, total + weight * value
            forecast, own = total / precision, 1.0 / precision
        weight = variance / (variance + own)
        steps.append(Followed(number, elapsed, weight, forecast - outcome, math.sqrt(own)))
    return steps


def check_truncate(problem: Problem, truncate: int | str | None) -> int | str | None:
    """Return `truncate`; raise if the problem's readings do not support it."""
    if truncate is None:
        return None
    if problem.feedback not in _TRUNCATED:
        raise InvalidArgument(
            "truncate", f"must be left out for feedback={problem.feedback!r}", truncate
        )
    if problem.errors == "first":
        raise InvalidArgument("truncate", "must be left out for errors='first'", truncate)
    if truncate == "auto":
        return truncate
    if isinstance(truncate, str):
        raise InvalidArgument("truncate", "must be a number of readings, or 'auto'", truncate)
    return check_integer("truncate", truncate, low=1)

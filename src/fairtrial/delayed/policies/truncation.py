"""At which reading to call pulls back: learned from pulls that were seen to their end."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ENOUGH", "Followed", "best_truncation"]

ENOUGH = 10
_MOST_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Followed:
    """What one pull would have been worth, had it been called back at one of its readings.

    Parameters
    ----------
    readings : int
        Readings until then.
    elapsed : float
        Time since its start.
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
    """Return after how many readings pulls give most precision per time, infinity for the end.

    The precision that a moment more brings falls below the best average there (Charnov 1976,
    "Optimal foraging: the marginal value theorem"). An age counts if at least ten pulls were
    followed beyond it, and their errors have mean 0 and the stated size, each within two
    standard errors.

    Parameters
    ----------
    pulls : iterable of list of Followed
        By pull, in the order of its readings; a pull without readings tells nothing.
    setup : float
        Time that starting a pull costs.
    """
    ages: defaultdict[int, list[Followed]] = defaultdict(list)
    lengths = []
    for steps in pulls:
        for step in steps:
            ages[step.readings].append(step)
        # The outcome is taken to come as long after the last reading as that after the others.
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
    """Return whether forecasts at an age are fair, and as good as they are said to be."""
    number = len(steps)
    if number < ENOUGH or any(step.std == 0.0 and step.error != 0.0 for step in steps):
        return False
    mean = math.fsum(step.error for step in steps) / number
    spread = math.fsum((step.error - mean) ** 2 for step in steps) / (number - 1)
    ratios = math.fsum((step.error / step.std) ** 2 for step in steps if step.std > 0.0) / number
    fair = abs(mean) <= _MOST_ERRORS * math.sqrt(spread / number)
    return fair and ratios <= 1.0 + _MOST_ERRORS * math.sqrt(2.0 / number)

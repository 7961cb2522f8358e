"""The race as the public code of the paper's experiments runs it, to show the effect of its slip.

Two things differ from the paper. The error probability is divided by the number of surviving arms,
not by the number of all arms. And after the readings have received their share dp of delta, the
outcomes get 1 - dp, nearly everything, instead of the remaining delta - dp.

https://github.com/ermongroup/best-arm-delayed
"""

import math

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.delayed._kernels.boxes import split_two

Floats = np.ndarray

ZETA, RATIO, POWER = 11.583794993787, 1.1, 0.6
"""zeta(12/11), and the constants c and a of the bound."""

FULL, AS_RUN, AS_PRINTED = range(3)
"""Outcomes only; readings with the slip of the public code; readings without it."""

_SLOPE = RATIO / 2.0


@kernel
def base(number: float) -> float:
    """Return x with radius ``2 sigma sqrt((x + c/2 ln(1/level)) / number)``."""
    return POWER * math.log1p(math.log(number) / math.log(RATIO)) + _SLOPE * math.log(2.0 * ZETA)


@kernel
def radius(sigma: float, number: float, level: float) -> float:
    """Return the radius of a mean by the finite law of the iterated logarithm."""
    return 2.0 * sigma * math.sqrt((base(number) - _SLOPE * math.log(level)) / number)


@kernel
def partial_width(
    sigma: float,
    report_sigma: float,
    number: float,
    count: float,
    delta: float,
    arms: float,
    slip: bool,
) -> float:
    """Return the radius if one pull in flight, which is counted, has `count` readings."""
    report = 2.0 * report_sigma * math.sqrt(_SLOPE / count) / number
    share, best = split_two(
        2.0 * sigma * math.sqrt(_SLOPE / number),
        base(number) / _SLOPE,
        report,
        base(count) / _SLOPE,
        1.0,
        math.log(arms / delta),
    )
    if not slip:
        return float(best)
    own = delta * share
    return radius(sigma, number, (1.0 - own) / arms) + (
        radius(report_sigma, count, own / arms) / number
    )


@kernel
def _update_sets(survives: Floats, low: Floats, high: Floats, places: int, chosen: Floats) -> int:
    """Accept and reject arms by their boxes; return the places left."""
    number = int(survives.sum())
    if places < 1 or number <= places:
        return places
    lows, highs = np.empty(number), np.empty(number)
    at = 0
    for arm in range(survives.size):
        if survives[arm] > 0.0:
            lows[at], highs[at] = low[arm], high[arm]
            at += 1
    lows.sort()
    highs.sort()
    most, least = highs[number - places - 1], lows[number - places]
    for arm in range(survives.size):
        if survives[arm] > 0.0 and low[arm] > most:
            survives[arm], chosen[arm] = 0.0, 1.0
            places -= 1
        elif survives[arm] > 0.0 and high[arm] < least:
            survives[arm] = 0.0
    return places


@kernel
def _least_pulled(survives: Floats, pulls: Floats) -> int:
    best = -1
    for arm in range(survives.size):
        if survives[arm] > 0.0 and (best < 0 or pulls[arm] < pulls[best]):
            best = arm
    return best


@kernel
def run(
    means: Floats,
    sigma: float,
    report_sigma: float,
    delay: Floats,
    top: int,
    delta: float,
    slots: int,
    mode: int,
    generator: np.random.Generator,
) -> tuple[int, Floats, Floats]:
    """Return the steps of a race and, by arm, its pulls and whether it was chosen."""
    arms = means.size
    survives, chosen, pulls = np.ones(arms), np.zeros(arms), np.zeros(arms)
    done, total = np.zeros(arms), np.zeros(arms)
    low, high = np.full(arms, -np.inf), np.full(arms, np.inf)
    arm_of, age = np.full(slots, -1), np.zeros(slots)
    outcome, read = np.zeros(slots), np.zeros(slots)
    places, steps = top, 0
    while places > 0 and survives.sum() > places:
        for slot in range(slots):
            if arm_of[slot] < 0 or survives[arm_of[slot]] == 0.0:
                arm = _least_pulled(survives, pulls)
                arm_of[slot], age[slot], read[slot] = arm, 0.0, 0.0
                pulls[arm] += 1.0
                outcome[slot] = means[arm] + sigma * generator.standard_normal()
        steps += 1
        for slot in range(slots):
            arm = arm_of[slot]
            age[slot] += 1.0
            alive = max(survives.sum(), 1.0)
            if age[slot] >= delay[arm]:
                arm_of[slot] = -1
                done[arm] += 1.0
                total[arm] += outcome[slot]
                if survives[arm] == 0.0:
                    continue
                width = radius(sigma, done[arm], delta / alive)
                mean = total[arm] / done[arm]
            else:
                if mode == FULL or survives[arm] == 0.0:
                    continue
                read[slot] += outcome[slot] + report_sigma * generator.standard_normal()
                width = partial_width(
                    sigma, report_sigma, done[arm] + 1.0, age[slot], delta, alive, mode == AS_RUN
                )
                mean = (total[arm] + read[slot] / age[slot]) / (done[arm] + 1.0)
                if done[arm] > 0.0:
                    own = radius(sigma, done[arm], delta / alive)
                    if own <= width:
                        width, mean = own, total[arm] / done[arm]
            low[arm], high[arm] = mean - width, mean + width
            places = _update_sets(survives, low, high, places, chosen)
    if places > 0:
        chosen += survives
    return steps, pulls, chosen

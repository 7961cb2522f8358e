"""The choice of the next arm."""

import math

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.delayed._kernels.deciding import mark_leaders
from fairtrial.delayed._kernels.information import price
from fairtrial.delayed._kernels.state import (
    LUCB,
    Race,
    kernel,
)
from fairtrial.delayed._kernels.student import reach_by_student

_EVERY = 4


@kernel
def choose(race: Race) -> int:
    """Return the next arm; -1 if every survivor has the most pulls in flight that it may have."""
    least = _least_started(race)
    if least < 0 or race.rules[0].sampling != LUCB or race.arms[least].started == 0:
        return least
    if race.control[0].starts % _EVERY == _EVERY - 1:
        return least
    contender = _contender(race)
    return contender if contender >= 0 else least


# Look up the tables once: doing it in a call for every arm would cost more than the rest.


@kernel
def _least_started(race: Race) -> int:
    arms, order, most = race.arms, race.order, race.rules[0].per_arm
    found, fewest = -1, np.inf
    for place in range(race.control[0].survivors):
        arm = order[place].survivor
        if arms[arm].in_flight < most and arms[arm].started < fewest:
            found, fewest = arm, arms[arm].started
    return found


@kernel
def _contender(race: Race) -> int:
    """Return the less started of the two most uncertain arms at the border."""
    _guess_unknown(race)
    rules, arms, order = race.rules, race.arms, race.order
    mark_leaders(race)
    weakest, strongest = -1, -1
    lowest, highest = np.inf, -np.inf
    for place in range(race.control[0].survivors):
        arm = order[place].survivor
        if arms[arm].in_flight >= rules[0].per_arm:
            continue
        # The arm's radius after its pulls in flight have completed.
        if rules[0].estimates_noise > 0:
            reach = reach_by_student(race, arm, arms[arm].potential)
        else:
            rho = rules[0].prior / square(arms[arm].noise)
            variance, penalty = price(arms[arm].potential, rho)
            reach = math.sqrt(2.0 * variance * (rules[0].level + penalty))
        if order[arm].leads > 0 and arms[arm].estimate - reach < lowest:
            weakest, lowest = arm, arms[arm].estimate - reach
        elif order[arm].leads == 0 and arms[arm].estimate + reach > highest:
            strongest, highest = arm, arms[arm].estimate + reach
    if weakest < 0 or strongest < 0:
        return max(weakest, strongest)
    fewer = arms[strongest].started < arms[weakest].started
    return strongest if fewer else weakest


@kernel
def _guess_unknown(race: Race) -> None:
    """Set the mean of arms without data to the mean of the others."""
    arms, order = race.arms, race.order
    total, known, size = 0.0, 0, race.control[0].survivors
    for place in range(size):
        arm = order[place].survivor
        if arms[arm].variance < np.inf:
            total += arms[arm].estimate
            known += 1
    for place in range(size):
        arm = order[place].survivor
        if arms[arm].variance == np.inf:
            arms[arm].estimate = total / known if known else 0.0

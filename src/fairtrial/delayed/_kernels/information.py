"""The likelihood of all observations: an arm's mean, its variance, and the price of monitoring.

For weights w and values x of an arm's pulls, let V = sum w and S = sum w x. The exponential
exp(s sum w (x - mu) - s^2 V / 2) is a likelihood ratio, so it is a martingale in the order of
observation. A normal mixture over s gives mean, variance and penalty. If readings are biased, the
same holds in two dimensions, for the mean and the bias. The evidence is then a weighted mean of
that martingale and the one for outcomes alone, so either can be used.
"""

import math
from typing import Any

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.delayed._kernels.state import (
    BIASED,
    DONE,
    INCREMENTAL,
    OPEN,
    Race,
    inlined,
    kernel,
    reading_std_of,
    sigma_of,
)

_BIAS_PRIOR = 1000.0

# The weight of outcomes alone in a biased arm's evidence.
_SHARE_ALONE = 0.1
_SMALLEST_STD = 1e-6


@inlined
def seen_so_far(race: Race, row: int) -> tuple[float, float]:
    """Return weight and value of a pull that has readings but no outcome."""
    pull = race.pulls[row]
    variance = square(sigma_of(race, pull.arm))
    if race.rules[0].feedback == INCREMENTAL:
        pieces = pull.duration
        return pull.readings / (pieces * variance), pieces * pull.total / pull.readings
    return 1.0 / (variance + 1.0 / pull.precision), pull.weighted / pull.precision


@inlined
def add_information(race: Race, row: int, sums: Any) -> None:
    """Add a pull to the sums of its arm."""
    pulls = race.pulls
    weight = 1.0 / square(sigma_of(race, pulls[row].arm))
    biased = race.rules[0].feedback == BIASED
    if pulls[row].state == DONE:
        sums.information += weight
        sums.score += weight * pulls[row].outcome
        sums.hoped += weight
        if biased and pulls[row].readings > 0:
            sums.on_bias += pulls[row].precision
            sums.bias_score += pulls[row].weighted - pulls[row].outcome * pulls[row].precision
            sums.with_bias += 1.0
        return
    if pulls[row].state == OPEN:
        sums.hoped += weight
    if pulls[row].readings == 0:
        return
    seen, value = seen_so_far(race, row)
    if biased:
        sums.shifted += seen
        sums.shifted_score += seen * value
        return
    sums.information += seen
    sums.score += seen * value
    if pulls[row].state != OPEN:
        sums.hoped += seen


@kernel
def price(information: float, rho: float) -> tuple[float, float]:
    """Return the variance for an information, widened by the mixture, and the penalty."""
    if information <= 0.0:
        return np.inf, 0.0
    more = 1.0 + rho / information
    return more / information, 0.5 * math.log(more * information / rho)


@inlined
def estimate_from_information(race: Race, arm: int) -> None:
    """Set mean, variance, penalty and box of an arm from its sums."""
    arms = race.arms
    rho = race.rules[0].prior / square(sigma_of(race, arm))
    arms[arm].potential = arms[arm].total.hoped
    if arms[arm].total.with_bias > 0.0:
        _estimate_beside_bias(race, arm, rho)
    else:
        arms[arm].variance, arms[arm].penalty = price(arms[arm].total.information, rho)
        if arms[arm].total.information > 0.0:
            arms[arm].estimate = arms[arm].total.score / arms[arm].total.information
        if arms[arm].total.shifted > 0.0:
            arms[arm].penalty -= math.log(_SHARE_ALONE)
    if arms[arm].variance < np.inf:
        radius = math.sqrt(2.0 * arms[arm].variance * (race.rules[0].level + arms[arm].penalty))
        arms[arm].lower, arms[arm].upper = arms[arm].estimate - radius, arms[arm].estimate + radius
    else:
        arms[arm].lower, arms[arm].upper = -np.inf, np.inf


@kernel
def _estimate_beside_bias(race: Race, arm: int, rho: float) -> None:
    arms = race.arms
    alone, both, bias = (
        arms[arm].total.information,
        arms[arm].total.shifted,
        arms[arm].total.on_bias,
    )
    on_mean, on_bias = alone + both, both + bias
    determinant = alone * on_bias + both * bias
    std = max(reading_std_of(race, arm), _SMALLEST_STD * sigma_of(race, arm))
    rho_bias = _BIAS_PRIOR / (std * std)
    first, cross = on_bias / determinant, -both / determinant
    score = (
        arms[arm].total.score * on_bias
        + arms[arm].total.shifted_score * bias
        - both * arms[arm].total.bias_score
    )
    arms[arm].estimate = score / determinant
    arms[arm].variance = first + rho * first * first + rho_bias * cross * cross
    wider = (on_mean + rho) * (on_bias + rho_bias) - both * both
    arms[arm].penalty = 0.5 * math.log(wider / (rho * rho_bias)) - math.log1p(-_SHARE_ALONE)

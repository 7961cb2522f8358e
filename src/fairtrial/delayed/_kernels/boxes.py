"""Boxes of a race: an estimated mean with a radius that holds at all times.

They can use readings of unfinished pulls. Sources: Grover et al. (2018), Propositions 1 and 2 and
equation 5, with the error probability divided as proved in docs/explanation/delayed.md.
"""

import math
from typing import Any

import numpy as np

from fairtrial.delayed._kernels.state import (
    BIASED,
    DONE,
    INCREMENTAL,
    OPEN,
    RACE_PARTIAL,
    RACE_PROVEN,
    UNBIASED,
    Race,
    inlined,
    kernel,
    reading_std_of,
    sigma_of,
)

_ROUNDS = 40
_CLOSE, _CLOSEST = 1e-6, 1e-9


@inlined
def radius(race: Race, sigma: float, number: float, log_inverse_level: float) -> float:
    """Return the radius around a mean of `number` outcomes.

    The square of every bound is linear in ln(1/level); `race.radii` holds both coefficients.
    """
    if number < 1.0:
        return np.inf
    if sigma == 0.0:
        return 0.0
    at = int(number)
    return sigma * math.sqrt(race.radii[0, at] + race.radii[1, at] * log_inverse_level)


@inlined
def _reading_term(race: Race, row: int) -> float:
    """Return the radius of a pull's mean reading; the m-th pull uses 1/(m+1)(m+2) of the share."""
    pulls = race.pulls
    level = race.rules[0].log_reading + pulls[row].log_charge
    return radius(race, reading_std_of(race, pulls[row].arm), pulls[row].readings, level)


@inlined
def add_to_boxes(race: Race, row: int, sums: Any) -> None:
    """Add a pull to the sums of its arm."""
    pulls = race.pulls
    rule, done = race.rules[0].rule, pulls[row].state == DONE
    if race.rules[0].feedback == INCREMENTAL:
        sums.completed += pulls[row].duration if done else pulls[row].readings
        sums.outcomes += pulls[row].outcome if done else pulls[row].total
        return
    if done:
        sums.completed += 1.0
        sums.outcomes += pulls[row].outcome
        if pulls[row].has_bias > 0:
            # The number of readings can depend on them; then only the mean of all readings is fair.
            weight = pulls[row].readings if rule == RACE_PROVEN else 1.0
            sums.biased += 1.0
            sums.bias += weight * pulls[row].bias
            sums.bias_weight += weight
    elif pulls[row].state != OPEN and pulls[row].in_sequence > 0:
        sums.kept += 1.0
        sums.kept_readings += pulls[row].total / pulls[row].readings
        sums.kept_radii += _reading_term(race, row)


@inlined
def _uses_one_pull(race: Race) -> bool:
    return race.rules[0].feedback == UNBIASED or race.rules[0].feedback == BIASED


@inlined
def follow_oldest(race: Race, arm: int) -> None:
    """If no pull is followed, add the oldest pull in flight with a reading to the sequence."""
    arms = race.arms
    if race.rules[0].rule != RACE_PROVEN or not _uses_one_pull(race):
        return
    if arms[arm].followed >= 0 or (
        race.rules[0].feedback == BIASED and race.arms[arm].total.biased == 0.0
    ):
        return
    row = arms[arm].front
    while row >= 0:
        if race.pulls[row].state == OPEN and race.pulls[row].readings > 0:
            arms[arm].followed, arms[arm].has_passed = row, 0.0
            race.pulls[row].in_sequence = 1
            return
        row = race.pulls[row].next


@inlined
def _most_read(race: Race, arm: int) -> int:
    """Return the row of the pull in flight with the most readings; -1 if none has any."""
    found, most = -1, 0.0
    row = race.arms[arm].front
    while row >= 0:
        if race.pulls[row].state == OPEN and race.pulls[row].readings > most:
            found, most = row, race.pulls[row].readings
        row = race.pulls[row].next
    return found


@kernel
def split_two(
    full: float, full_base: float, report: float, report_base: float, slope: float, level: float
) -> tuple[float, float]:
    """Return the share of the readings that minimises the sum of two radii, and that sum.

    The radii are ``full * sqrt(full_base + slope * ln(n / (delta * share)))`` and the same for
    `report`; `level` is ln(n / delta).
    """
    if report == 0.0:
        return 0.0, full * math.sqrt(full_base + slope * level)
    share = report / (full + report)
    total = 0.0
    for _ in range(_ROUNDS):
        in_full = full_base + slope * (level - math.log1p(-share))
        in_report = report_base + slope * (level - math.log(share))
        by_full, by_report = full / math.sqrt(in_full), report / math.sqrt(in_report)
        total = by_full * in_full + by_report * in_report
        step = by_report / (by_full + by_report) - share
        # Newton's step to the fixed point; the sum is flat there, so its last value is good enough.
        growth = (share + step) * (1.0 - share - step) * 0.5 * slope
        step /= 1.0 - growth * (1.0 / (share * in_report) + 1.0 / ((1.0 - share) * in_full))
        share = min(max(share + step, 0.5 * share), 0.5 + 0.5 * share)
        if abs(step) <= _CLOSE * min(share, 1.0 - share):
            break
    return share, total


@kernel
def split_three(
    full: float,
    full_base: float,
    report: float,
    report_base: float,
    bias: float,
    bias_base: float,
    slope: float,
    level: float,
) -> tuple[float, float, float]:
    """Return the shares of readings and bias that minimise the sum of three radii, and that sum."""
    if report == 0.0:
        return 0.0, 0.0, full * math.sqrt(full_base + slope * level)
    whole = full + report + bias
    first, second = report / whole, bias / whole
    for _ in range(_ROUNDS):
        by_full = full / math.sqrt(full_base + slope * (level - math.log1p(-first - second)))
        by_report = report / math.sqrt(report_base + slope * (level - math.log(first)))
        by_bias = bias / math.sqrt(bias_base + slope * (level - math.log(second)))
        whole = by_full + by_report + by_bias
        close = abs(by_report / whole - first) <= _CLOSEST * first
        close = close and abs(by_bias / whole - second) <= _CLOSEST * second
        first, second = by_report / whole, by_bias / whole
        if close:
            break
    return (
        first,
        second,
        (
            full * math.sqrt(full_base + slope * (level - math.log1p(-first - second)))
            + report * math.sqrt(report_base + slope * (level - math.log(first)))
            + bias * math.sqrt(bias_base + slope * (level - math.log(second)))
        ),
    )


@inlined
def _scale_and_base(race: Race, sigma: float, number: float) -> tuple[float, float]:
    """Return scale and base of a radius ``scale * sqrt(base + ln(1/level))``."""
    slope = race.radii[1, int(number)]
    return sigma * math.sqrt(slope), race.radii[0, int(number)] / slope


@inlined
def _with_one_reading(race: Race, arm: int, best: float) -> tuple[float, float]:
    """Return mean and radius of the published estimator; NaN if the radius is not below `best`."""
    row = _most_read(race, arm)
    biased = race.rules[0].feedback == BIASED
    biases = race.arms[arm].total.biased
    if row < 0 or (biased and biases == 0.0):
        return np.nan, np.inf
    number = race.arms[arm].total.completed + 1.0
    level = race.rules[0].log_all
    sigma, report_sigma = sigma_of(race, arm), reading_std_of(race, arm)
    count = race.pulls[row].readings
    least = radius(race, sigma, number, level) + radius(race, report_sigma, count, level) / number
    if least >= best:
        return np.nan, np.inf
    full, full_base = _scale_and_base(race, sigma, number)
    report, report_base = _scale_and_base(race, report_sigma, count)
    total = race.arms[arm].total.outcomes + race.pulls[row].total / count
    if biased:
        total -= race.arms[arm].total.bias / biases
        bias, bias_base = _scale_and_base(race, report_sigma, biases)
        _, _, width = split_three(
            full, full_base, report / number, report_base, bias / number, bias_base, 1.0, level
        )
    else:
        _, width = split_two(full, full_base, report / number, report_base, 1.0, level)
    return total / number, width


@inlined
def _with_sequence(race: Race, arm: int) -> tuple[float, float]:
    """Return mean and radius of the outcomes, in the order in which pulls were first used."""
    arms = race.arms
    row = arms[arm].followed
    standing = race.arms[arm].total.kept + (1.0 if row >= 0 else 0.0)
    biased = race.rules[0].feedback == BIASED
    biases = race.arms[arm].total.biased
    if standing == 0.0 or (biased and biases == 0.0):
        return np.nan, np.inf
    total = race.arms[arm].total.outcomes + race.arms[arm].total.kept_readings
    terms = race.arms[arm].total.kept_radii
    if row >= 0:
        total += race.pulls[row].total / race.pulls[row].readings
        terms += _reading_term(race, row)
    if biased:
        total -= standing * race.arms[arm].total.bias / race.arms[arm].total.bias_weight
        level = race.rules[0].log_bias
        terms += standing * radius(race, reading_std_of(race, arm), biases, level)
    number = race.arms[arm].total.completed + standing
    width = radius(race, sigma_of(race, arm), number, race.rules[0].log_outcome)
    return total / number, width + terms / number


@inlined
def _by_outcomes(race: Race, arm: int) -> tuple[float, float]:
    """Return mean and radius of the outcomes alone, if they are a prefix of the sequence."""
    arms = race.arms
    number = race.arms[arm].total.completed
    behind = arms[arm].followed >= 0 and arms[arm].has_passed > 0
    if number == 0.0 or race.arms[arm].total.kept > 0.0 or behind:
        return np.nan, np.inf
    level = race.rules[0].log_outcome
    return race.arms[arm].total.outcomes / number, radius(race, sigma_of(race, arm), number, level)


@inlined
def _by_pieces(race: Race, arm: int) -> tuple[float, float]:
    """Return mean and radius from the random walk of all pieces of an arm."""
    number = race.arms[arm].total.completed
    if number == 0.0:
        return np.nan, np.inf
    pieces = race.arms[arm].duration
    scale = sigma_of(race, arm) * math.sqrt(pieces)
    return pieces * race.arms[arm].total.outcomes / number, radius(
        race, scale, number, race.rules[0].log_outcome
    )


@inlined
def estimate_boxes(race: Race, arm: int) -> None:
    """Set an arm's mean and box from its sums; leave them unchanged without a finite radius."""
    arms = race.arms
    rule = race.rules[0].rule
    if race.rules[0].feedback == INCREMENTAL:
        mean, width = _by_pieces(race, arm)
    else:
        mean, width = _by_outcomes(race, arm)
        other_mean, other_width = np.nan, np.inf
        if rule == RACE_PARTIAL:
            other_mean, other_width = _with_one_reading(race, arm, width)
        elif rule == RACE_PROVEN:
            other_mean, other_width = _with_sequence(race, arm)
        if other_width < width:
            mean, width = other_mean, other_width
    if width == np.inf:
        return
    arms[arm].estimate, arms[arm].variance = mean, width * width
    lower, upper = mean - width, mean + width
    if race.rules[0].intersect > 0:
        lower, upper = max(lower, arms[arm].lower), min(upper, arms[arm].upper)
    arms[arm].lower, arms[arm].upper = lower, upper

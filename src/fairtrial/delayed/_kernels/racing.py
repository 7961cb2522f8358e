"""Boxes of a race: a mean and a radius that holds at all times, with or without readings.

Sources: Grover et al. (2018), Propositions 1 and 2 and equation 5, with the error
probability charged as docs/explanation/delayed.md proves.
"""

import math

import numpy as np

from fairtrial.delayed._kernels.books import (
    ARM,
    BEHIND,
    BIAS,
    BIAS_WEIGHT,
    BIASED,
    CONSTANTS,
    COUNT,
    DESIGNATED,
    DONE,
    DURATION,
    FEEDBACK,
    FRONT,
    HAS_BIAS,
    IN_WALK,
    INCREMENTAL,
    INTERSECT,
    KEPT_TERMS,
    LOG_ALL,
    LOG_BIAS,
    LOG_CHARGE,
    LOG_OUTCOME,
    LOG_REPORT,
    LOWER,
    MEAN,
    NEXT,
    NUMBER_BIAS,
    NUMBER_DONE,
    NUMBER_KEPT,
    OPEN,
    OUTCOME,
    RACE_PARTIAL,
    RACE_PROVEN,
    RULE,
    STATE,
    SUM,
    SUM_BIAS,
    SUM_DONE,
    SUM_KEPT,
    TOTAL,
    UNBIASED,
    UPPER,
    VARIANCE,
    Book,
    inlined,
    kernel,
    reading_std_of,
    sigma_of,
)

_ROUNDS = 40
_CLOSE, _CLOSEST = 1e-6, 1e-9


@inlined
def radius(book: Book, sigma: float, number: float, log_inverse_level: float) -> float:
    """Return the radius about a mean of `number` outcomes.

    The square of every bound is linear in ln(1/level): the table holds both coefficients.
    """
    if number < 1.0:
        return np.inf
    if sigma == 0.0:
        return 0.0
    at = int(number)
    return sigma * math.sqrt(book.table[0, at] + book.table[1, at] * log_inverse_level)


@inlined
def _reading_term(book: Book, row: int) -> float:
    """Return the radius of a pull's mean reading: the m-th pull pays 1/(m+1)(m+2) of the share."""
    pulls = book.pulls
    level = book.rules[LOG_REPORT] + pulls[row, LOG_CHARGE]
    return radius(book, reading_std_of(book, int(pulls[row, ARM])), pulls[row, COUNT], level)


@inlined
def add_to_race(book: Book, row: int, place: int) -> None:
    """Add a pull to the sums of its arm that stand at `place`."""
    pulls, sums = book.pulls, book.sums
    arm = int(pulls[row, ARM])
    rule, done = book.rules[RULE], pulls[row, STATE] == DONE
    if book.rules[FEEDBACK] == INCREMENTAL:
        sums[arm, place + NUMBER_DONE] += pulls[row, DURATION] if done else pulls[row, COUNT]
        sums[arm, place + SUM_DONE] += pulls[row, OUTCOME] if done else pulls[row, SUM]
        return
    if done:
        sums[arm, place + NUMBER_DONE] += 1.0
        sums[arm, place + SUM_DONE] += pulls[row, OUTCOME]
        if pulls[row, HAS_BIAS] > 0.0:
            # How many readings a pull has may depend on them: only the mean of all is fair then.
            weight = pulls[row, COUNT] if rule == RACE_PROVEN else 1.0
            sums[arm, place + NUMBER_BIAS] += 1.0
            sums[arm, place + SUM_BIAS] += weight * pulls[row, BIAS]
            sums[arm, place + BIAS_WEIGHT] += weight
    elif pulls[row, STATE] != OPEN and pulls[row, IN_WALK] > 0.0:
        sums[arm, place + NUMBER_KEPT] += 1.0
        sums[arm, place + SUM_KEPT] += pulls[row, SUM] / pulls[row, COUNT]
        sums[arm, place + KEPT_TERMS] += _reading_term(book, row)


@inlined
def _uses_one_pull(book: Book) -> bool:
    return book.rules[FEEDBACK] == UNBIASED or book.rules[FEEDBACK] == BIASED


@inlined
def designate(book: Book, arm: int) -> None:
    """Let the oldest pull in flight that has a reading enter the walk, if there is none."""
    arms = book.arms
    if book.rules[RULE] != RACE_PROVEN or not _uses_one_pull(book):
        return
    if arms[arm, DESIGNATED] >= 0.0 or (
        book.rules[FEEDBACK] == BIASED and book.sums[arm, TOTAL + NUMBER_BIAS] == 0.0
    ):
        return
    row = int(arms[arm, FRONT])
    while row >= 0:
        if book.pulls[row, STATE] == OPEN and book.pulls[row, COUNT] > 0.0:
            arms[arm, DESIGNATED], arms[arm, BEHIND] = row, 0.0
            book.pulls[row, IN_WALK] = 1.0
            return
        row = int(book.pulls[row, NEXT])


@inlined
def _most_read(book: Book, arm: int) -> int:
    """Return the row of the pull in flight with most readings, -1 if none has any."""
    found, most = -1, 0.0
    row = int(book.arms[arm, FRONT])
    while row >= 0:
        if book.pulls[row, STATE] == OPEN and book.pulls[row, COUNT] > most:
            found, most = row, book.pulls[row, COUNT]
        row = int(book.pulls[row, NEXT])
    return found


@kernel
def split_two(
    full: float, full_base: float, report: float, report_base: float, slope: float, level: float
) -> tuple[float, float]:
    """Return the share of the readings that makes the sum of two radii least, and that sum.

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
        # Newton's step to the fixed point; the sum is flat there, so that its last value will do.
        growth = (share + step) * (1.0 - share - step) * 0.5 * slope
        step /= 1.0 - growth * (1.0 / (share * in_report) + 1.0 / ((1.0 - share) * in_full))
        share = min(max(share + step, 0.5 * share), 0.5 + 0.5 * share)
        if abs(step) <= _CLOSE * min(share, 1.0 - share):
            break
    return share, total


@kernel
def split_three(
    full: float, full_base: float, report: float, report_base: float,
    bias: float, bias_base: float, slope: float, level: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the shares of the readings and of the bias, and the least sum of three radii."""
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
    return first, second, (
        full * math.sqrt(full_base + slope * (level - math.log1p(-first - second)))
        + report * math.sqrt(report_base + slope * (level - math.log(first)))
        + bias * math.sqrt(bias_base + slope * (level - math.log(second)))
    )  # fmt: skip


@inlined
def _scale_and_base(book: Book, sigma: float, number: float) -> tuple[float, float]:
    """Return a radius as ``scale * sqrt(base + ln(1/level))``."""
    slope = book.table[1, int(number)]
    return sigma * math.sqrt(slope), book.table[0, int(number)] / slope


@inlined
def _with_one_reading(book: Book, arm: int, best: float) -> tuple[float, float]:
    """Return mean and radius of the published estimator, NaN if its radius is not below `best`."""
    row = _most_read(book, arm)
    biased = book.rules[FEEDBACK] == BIASED
    biases = book.sums[arm, TOTAL + NUMBER_BIAS]
    if row < 0 or (biased and biases == 0.0):
        return np.nan, np.inf
    number = book.sums[arm, TOTAL + NUMBER_DONE] + 1.0
    level = book.rules[LOG_ALL]
    sigma, report_sigma = sigma_of(book, arm), reading_std_of(book, arm)
    count = book.pulls[row, COUNT]
    least = radius(book, sigma, number, level) + radius(book, report_sigma, count, level) / number
    if least >= best:
        return np.nan, np.inf
    full, full_base = _scale_and_base(book, sigma, number)
    report, report_base = _scale_and_base(book, report_sigma, count)
    total = book.sums[arm, TOTAL + SUM_DONE] + book.pulls[row, SUM] / count
    if biased:
        total -= book.sums[arm, TOTAL + SUM_BIAS] / biases
        bias, bias_base = _scale_and_base(book, report_sigma, biases)
        _, _, width = split_three(
            full, full_base, report / number, report_base, bias / number, bias_base, 1.0, level
        )
    else:
        _, width = split_two(full, full_base, report / number, report_base, 1.0, level)
    return total / number, width


@inlined
def _with_walk(book: Book, arm: int) -> tuple[float, float]:
    """Return mean and radius over the walk of outcomes in the order of their first use."""
    arms = book.arms
    row = int(arms[arm, DESIGNATED])
    standing = book.sums[arm, TOTAL + NUMBER_KEPT] + (1.0 if row >= 0 else 0.0)
    biased = book.rules[FEEDBACK] == BIASED
    biases = book.sums[arm, TOTAL + NUMBER_BIAS]
    if standing == 0.0 or (biased and biases == 0.0):
        return np.nan, np.inf
    total = book.sums[arm, TOTAL + SUM_DONE] + book.sums[arm, TOTAL + SUM_KEPT]
    terms = book.sums[arm, TOTAL + KEPT_TERMS]
    if row >= 0:
        total += book.pulls[row, SUM] / book.pulls[row, COUNT]
        terms += _reading_term(book, row)
    if biased:
        total -= standing * book.sums[arm, TOTAL + SUM_BIAS] / book.sums[arm, TOTAL + BIAS_WEIGHT]
        level = book.rules[LOG_BIAS]
        terms += standing * radius(book, reading_std_of(book, arm), biases, level)
    number = book.sums[arm, TOTAL + NUMBER_DONE] + standing
    width = radius(book, sigma_of(book, arm), number, book.rules[LOG_OUTCOME])
    return total / number, width + terms / number


@inlined
def _by_outcomes(book: Book, arm: int) -> tuple[float, float]:
    """Return mean and radius of the outcomes alone, where they are a prefix of the walk."""
    arms = book.arms
    number = book.sums[arm, TOTAL + NUMBER_DONE]
    behind = arms[arm, DESIGNATED] >= 0.0 and arms[arm, BEHIND] > 0.0
    if number == 0.0 or book.sums[arm, TOTAL + NUMBER_KEPT] > 0.0 or behind:
        return np.nan, np.inf
    level = book.rules[LOG_OUTCOME]
    return book.sums[arm, TOTAL + SUM_DONE] / number, radius(
        book, sigma_of(book, arm), number, level
    )


@inlined
def _by_pieces(book: Book, arm: int) -> tuple[float, float]:
    """Return mean and radius from the random walk of all pieces of an arm."""
    number = book.sums[arm, TOTAL + NUMBER_DONE]
    if number == 0.0:
        return np.nan, np.inf
    pieces = book.rules[CONSTANTS + 2 * book.arms.shape[0] + arm]
    scale = sigma_of(book, arm) * math.sqrt(pieces)
    return pieces * book.sums[arm, TOTAL + SUM_DONE] / number, radius(
        book, scale, number, book.rules[LOG_OUTCOME]
    )


@inlined
def estimate_in_race(book: Book, arm: int) -> None:
    """Set mean and box of an arm from its sums; without a finite radius they stay."""
    arms = book.arms
    rule = book.rules[RULE]
    if book.rules[FEEDBACK] == INCREMENTAL:
        mean, width = _by_pieces(book, arm)
    else:
        mean, width = _by_outcomes(book, arm)
        other_mean, other_width = np.nan, np.inf
        if rule == RACE_PARTIAL:
            other_mean, other_width = _with_one_reading(book, arm, width)
        elif rule == RACE_PROVEN:
            other_mean, other_width = _with_walk(book, arm)
        if other_width < width:
            mean, width = other_mean, other_width
    if width == np.inf:
        return
    arms[arm, MEAN], arms[arm, VARIANCE] = mean, width * width
    lower, upper = mean - width, mean + width
    if book.rules[INTERSECT] > 0.0:
        lower, upper = max(lower, arms[arm, LOWER]), min(upper, arms[arm, UPPER])
    arms[arm, LOWER], arms[arm, UPPER] = lower, upper

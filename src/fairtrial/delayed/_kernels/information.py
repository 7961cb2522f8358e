"""The likelihood of all that was seen: an arm's mean, its variance, and the price of looking.

For weights w and values x of an arm's pulls, V = sum w and S = sum w x, the exponential
exp(s sum w (x - mu) - s^2 V / 2) is a likelihood ratio, hence a martingale in the order of
observation. A normal mixture over s gives mean, variance and penalty. With a bias of the
readings the same holds in two dimensions, for the mean and the bias; there a weighted mean of
that martingale and the one of outcomes alone is the evidence, which lets either be used.
"""

import math

import numpy as np

from fairtrial.delayed._kernels.books import (
    ARM,
    BIAS_SCORE,
    BIASED,
    COUNT,
    DONE,
    DURATION,
    FEEDBACK,
    HOPED,
    INCREMENTAL,
    INFORMATION,
    LEVEL,
    LOWER,
    MEAN,
    ON_BIAS,
    OPEN,
    OUTCOME,
    PENALTY,
    POTENTIAL,
    PRECISION,
    PRIOR,
    SCORE,
    SHIFTED,
    SHIFTED_SCORE,
    STATE,
    SUM,
    TOTAL,
    UPPER,
    VARIANCE,
    WEIGHTED,
    WITH_BIAS,
    Book,
    inlined,
    kernel,
    reading_std_of,
    sigma_of,
)

_BIAS_PRIOR = 1000.0

# The share of a biased arm's evidence that goes by its outcomes alone.
_SHARE_ALONE = 0.1
_SMALLEST_STD = 1e-6


@inlined
def seen_so_far(book: Book, row: int) -> tuple[float, float]:
    """Return weight and value of a pull that has readings and no outcome."""
    pulls = book.pulls
    variance = sigma_of(book, int(pulls[row, ARM])) ** 2
    if book.rules[FEEDBACK] == INCREMENTAL:
        pieces = pulls[row, DURATION]
        return pulls[row, COUNT] / (pieces * variance), pieces * pulls[row, SUM] / pulls[row, COUNT]
    return 1.0 / (variance + 1.0 / pulls[row, PRECISION]), pulls[row, WEIGHTED] / pulls[
        row, PRECISION
    ]


@inlined
def add_information(book: Book, row: int, place: int) -> None:
    """Add a pull to the sums of its arm that stand at `place`."""
    pulls, sums = book.pulls, book.sums
    arm = int(pulls[row, ARM])
    weight = 1.0 / sigma_of(book, int(pulls[row, ARM])) ** 2
    biased = book.rules[FEEDBACK] == BIASED
    if pulls[row, STATE] == DONE:
        sums[arm, place + INFORMATION] += weight
        sums[arm, place + SCORE] += weight * pulls[row, OUTCOME]
        sums[arm, place + HOPED] += weight
        if biased and pulls[row, COUNT] > 0.0:
            sums[arm, place + ON_BIAS] += pulls[row, PRECISION]
            sums[arm, place + BIAS_SCORE] += (
                pulls[row, WEIGHTED] - pulls[row, OUTCOME] * pulls[row, PRECISION]
            )
            sums[arm, place + WITH_BIAS] += 1.0
        return
    if pulls[row, STATE] == OPEN:
        sums[arm, place + HOPED] += weight
    if pulls[row, COUNT] == 0.0:
        return
    seen, value = seen_so_far(book, row)
    if biased:
        sums[arm, place + SHIFTED] += seen
        sums[arm, place + SHIFTED_SCORE] += seen * value
        return
    sums[arm, place + INFORMATION] += seen
    sums[arm, place + SCORE] += seen * value
    if pulls[row, STATE] != OPEN:
        sums[arm, place + HOPED] += seen


@kernel
def price(information: float, rho: float) -> tuple[float, float]:
    """Return the variance with its mixture's share, and the penalty, of an information."""
    if information <= 0.0:
        return np.inf, 0.0
    more = 1.0 + rho / information
    return more / information, 0.5 * math.log(more * information / rho)


@inlined
def estimate_from_information(book: Book, arm: int) -> None:
    """Set mean, variance, penalty and box of an arm from its sums."""
    arms = book.arms
    rho = book.rules[PRIOR] / sigma_of(book, arm) ** 2
    arms[arm, POTENTIAL] = book.sums[arm, TOTAL + HOPED]
    if book.sums[arm, TOTAL + WITH_BIAS] > 0.0:
        _estimate_beside_bias(book, arm, rho)
    else:
        arms[arm, VARIANCE], arms[arm, PENALTY] = price(book.sums[arm, TOTAL + INFORMATION], rho)
        if book.sums[arm, TOTAL + INFORMATION] > 0.0:
            arms[arm, MEAN] = book.sums[arm, TOTAL + SCORE] / book.sums[arm, TOTAL + INFORMATION]
        if book.sums[arm, TOTAL + SHIFTED] > 0.0:
            arms[arm, PENALTY] -= math.log(_SHARE_ALONE)
    if arms[arm, VARIANCE] < np.inf:
        radius = math.sqrt(2.0 * arms[arm, VARIANCE] * (book.rules[LEVEL] + arms[arm, PENALTY]))
        arms[arm, LOWER], arms[arm, UPPER] = arms[arm, MEAN] - radius, arms[arm, MEAN] + radius
    else:
        arms[arm, LOWER], arms[arm, UPPER] = -np.inf, np.inf


@kernel
def _estimate_beside_bias(book: Book, arm: int, rho: float) -> None:
    arms = book.arms
    alone, both, bias = (
        book.sums[arm, TOTAL + INFORMATION],
        book.sums[arm, TOTAL + SHIFTED],
        book.sums[arm, TOTAL + ON_BIAS],
    )
    on_mean, on_bias = alone + both, both + bias
    determinant = alone * on_bias + both * bias
    std = max(reading_std_of(book, arm), _SMALLEST_STD * sigma_of(book, arm))
    rho_bias = _BIAS_PRIOR / (std * std)
    first, cross = on_bias / determinant, -both / determinant
    score = (
        book.sums[arm, TOTAL + SCORE] * on_bias
        + book.sums[arm, TOTAL + SHIFTED_SCORE] * bias
        - both * book.sums[arm, TOTAL + BIAS_SCORE]
    )
    arms[arm, MEAN] = score / determinant
    arms[arm, VARIANCE] = first + rho * first * first + rho_bias * cross * cross
    wider = (on_mean + rho) * (on_bias + rho_bias) - both * both
    arms[arm, PENALTY] = 0.5 * math.log(wider / (rho * rho_bias)) - math.log1p(-_SHARE_ALONE)

"""Which arm is pulled next."""

import math

import numba as nb
import numpy as np

from fairtrial.delayed._kernels.books import (
    CONSTANTS,
    IN_FLIGHT,
    LEVEL,
    LUCB,
    MEAN,
    PER_ARM,
    POTENTIAL,
    PRIOR,
    SAMPLING,
    STARTED,
    STARTS,
    STATUS,
    SURVIVES,
    VARIANCE,
    Book,
)
from fairtrial.delayed._kernels.deciding import mark_leaders
from fairtrial.delayed._kernels.information import price

_EVERY = 4


@nb.njit(cache=True, nogil=True)
def choose(book: Book) -> int:
    """Return the next arm, -1 if every survivor has as many pulls in flight as it may."""
    least = _least_started(book)
    if least < 0 or book.rules[SAMPLING] != LUCB or book.arms[least, STARTED] == 0.0:
        return least
    if int(book.control[STARTS]) % _EVERY == _EVERY - 1:
        return least
    contender = _contender(book)
    return contender if contender >= 0 else least


# Arrays are taken out of the book once, not in a call for every arm: that costs more than the rest.


@nb.njit(cache=True, nogil=True)
def _least_started(book: Book) -> int:
    arms, most = book.arms, book.rules[PER_ARM]
    found, fewest = -1, np.inf
    for arm in range(arms.shape[0]):
        free = arms[arm, STATUS] == SURVIVES and arms[arm, IN_FLIGHT] < most
        if free and arms[arm, STARTED] < fewest:
            found, fewest = arm, arms[arm, STARTED]
    return found


@nb.njit(cache=True, nogil=True)
def _contender(book: Book) -> int:
    """Return one of the two arms at the border that are least certain, the one less started."""
    _guess_unknown(book)
    rules, arms = book.rules, book.arms
    leads = np.empty(arms.shape[0], dtype=np.int8)
    mark_leaders(book, leads)
    weakest, strongest = -1, -1
    lowest, highest = np.inf, -np.inf
    for arm in range(arms.shape[0]):
        if arms[arm, STATUS] != SURVIVES or arms[arm, IN_FLIGHT] >= rules[PER_ARM]:
            continue
        # The radius that the arm will have when its pulls in flight have completed.
        rho = rules[PRIOR] / rules[CONSTANTS + arm] ** 2
        variance, penalty = price(arms[arm, POTENTIAL], rho)
        reach = math.sqrt(2.0 * variance * (rules[LEVEL] + penalty))
        if leads[arm] and arms[arm, MEAN] - reach < lowest:
            weakest, lowest = arm, arms[arm, MEAN] - reach
        elif not leads[arm] and arms[arm, MEAN] + reach > highest:
            strongest, highest = arm, arms[arm, MEAN] + reach
    if weakest < 0 or strongest < 0:
        return max(weakest, strongest)
    fewer = arms[strongest, STARTED] < arms[weakest, STARTED]
    return strongest if fewer else weakest


@nb.njit(cache=True, nogil=True)
def _guess_unknown(book: Book) -> None:
    """Give arms of which nothing is known the mean of the others."""
    arms = book.arms
    total, known = 0.0, 0
    for arm in range(arms.shape[0]):
        if arms[arm, STATUS] == SURVIVES and arms[arm, VARIANCE] < np.inf:
            total += arms[arm, MEAN]
            known += 1
    for arm in range(book.arms.shape[0]):
        if arms[arm, STATUS] == SURVIVES and arms[arm, VARIANCE] == np.inf:
            arms[arm, MEAN] = total / known if known else 0.0

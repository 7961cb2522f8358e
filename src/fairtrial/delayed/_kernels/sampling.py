"""Which arm is pulled next."""

import math

import numpy as np

from fairtrial.delayed._kernels.books import (
    ALIVE,
    CONSTANTS,
    IN_FLIGHT,
    LEADS,
    LEVEL,
    LUCB,
    MEAN,
    PER_ARM,
    POTENTIAL,
    PRIOR,
    SAMPLING,
    STARTED,
    STARTS,
    STUDENT,
    SURVIVORS,
    VARIANCE,
    Book,
    kernel,
)
from fairtrial.delayed._kernels.deciding import mark_leaders
from fairtrial.delayed._kernels.information import price
from fairtrial.delayed._kernels.student import reach_by_student

_EVERY = 4


@kernel
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


@kernel
def _least_started(book: Book) -> int:
    arms, lists, most = book.arms, book.lists, book.rules[PER_ARM]
    found, fewest = -1, np.inf
    for place in range(int(book.control[SURVIVORS])):
        arm = int(lists[ALIVE, place])
        if arms[arm, IN_FLIGHT] < most and arms[arm, STARTED] < fewest:
            found, fewest = arm, arms[arm, STARTED]
    return found


@kernel
def _contender(book: Book) -> int:
    """Return one of the two arms at the border that are least certain, the one less started."""
    _guess_unknown(book)
    rules, arms, lists = book.rules, book.arms, book.lists
    mark_leaders(book)
    weakest, strongest = -1, -1
    lowest, highest = np.inf, -np.inf
    for place in range(int(book.control[SURVIVORS])):
        arm = int(lists[ALIVE, place])
        if arms[arm, IN_FLIGHT] >= rules[PER_ARM]:
            continue
        # The radius that the arm will have when its pulls in flight have completed.
        if rules[STUDENT] > 0.0:
            reach = reach_by_student(book, arm, arms[arm, POTENTIAL])
        else:
            rho = rules[PRIOR] / rules[CONSTANTS + arm] ** 2
            variance, penalty = price(arms[arm, POTENTIAL], rho)
            reach = math.sqrt(2.0 * variance * (rules[LEVEL] + penalty))
        if lists[LEADS, arm] > 0.0 and arms[arm, MEAN] - reach < lowest:
            weakest, lowest = arm, arms[arm, MEAN] - reach
        elif lists[LEADS, arm] == 0.0 and arms[arm, MEAN] + reach > highest:
            strongest, highest = arm, arms[arm, MEAN] + reach
    if weakest < 0 or strongest < 0:
        return max(weakest, strongest)
    fewer = arms[strongest, STARTED] < arms[weakest, STARTED]
    return strongest if fewer else weakest


@kernel
def _guess_unknown(book: Book) -> None:
    """Give arms of which nothing is known the mean of the others."""
    arms, lists = book.arms, book.lists
    total, known, size = 0.0, 0, int(book.control[SURVIVORS])
    for place in range(size):
        arm = int(lists[ALIVE, place])
        if arms[arm, VARIANCE] < np.inf:
            total += arms[arm, MEAN]
            known += 1
    for place in range(size):
        arm = int(lists[ALIVE, place])
        if arms[arm, VARIANCE] == np.inf:
            arms[arm, MEAN] = total / known if known else 0.0

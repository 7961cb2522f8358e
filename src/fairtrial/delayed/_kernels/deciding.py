"""Which arms are in and which are out: the test by boxes and the test by pairs."""

import numba as nb
import numpy as np

from fairtrial.delayed._kernels.books import (
    ACCEPTED,
    BEATEN,
    BEATS,
    DIRTY,
    DOOMED,
    IN_FLIGHT,
    LEVEL,
    LOWER,
    LOWER_CUT,
    MEAN,
    PAIRWISE,
    PENALTY,
    PLACES,
    REJECTED,
    RULE,
    STATUS,
    SURVIVES,
    SURVIVORS,
    TOLERANCE,
    UPPER,
    UPPER_CUT,
    VARIANCE,
    Book,
    kth_largest,
)


@nb.njit(cache=True, nogil=True)
def decide(book: Book, arm: int, before_lower: float, before_upper: float) -> None:
    """Let arms be accepted and rejected after the estimate of one of them has changed."""
    if book.rules[RULE] == PAIRWISE:
        _compare(book, arm)
    else:
        _apply_boxes(book, arm, before_lower, before_upper)
    finish_if_settled(book)
    if book.rules[TOLERANCE] > 0.0 and book.control[SURVIVORS] > 0.0:
        _finish_if_good_enough(book)


@nb.njit(cache=True, nogil=True)
def finish_if_settled(book: Book) -> None:
    """Reject all survivors if no place is left, accept them if there is a place for each."""
    if book.control[PLACES] == 0.0:
        _remove_all(book, REJECTED)
    elif book.control[PLACES] == book.control[SURVIVORS]:
        _remove_all(book, ACCEPTED)


@nb.njit(cache=True, nogil=True)
def _remove_all(book: Book, status: int) -> None:
    for arm in range(book.arms.shape[0]):
        if book.arms[arm, STATUS] == SURVIVES:
            _remove(book, arm, status)


@nb.njit(cache=True, nogil=True)
def _remove(book: Book, arm: int, status: int) -> None:
    arms = book.arms
    arms[arm, STATUS] = status
    book.control[SURVIVORS] -= 1.0
    book.control[DOOMED] += arms[arm, IN_FLIGHT]
    book.control[DIRTY] = 1.0
    if status == ACCEPTED:
        book.control[PLACES] -= 1.0
    if book.rules[RULE] != PAIRWISE:
        return
    for other in range(book.arms.shape[0]):
        if book.declared[arm, other]:
            book.arms[other, BEATEN] -= 1.0
        if book.declared[other, arm]:
            book.arms[other, BEATS] -= 1.0


# ---------------------------------------------------------------------------- pairs


@nb.njit(cache=True, nogil=True)
def _differ(book: Book, better: int, worse: int, slack: float) -> bool:
    """Return whether an arm's mean is larger than another's minus `slack`, for certain."""
    arms = book.arms
    gap = arms[better, MEAN] - arms[worse, MEAN] + slack
    if gap <= 0.0:
        return False
    variance = arms[better, VARIANCE] + arms[worse, VARIANCE]
    price = book.rules[LEVEL] + arms[better, PENALTY] + arms[worse, PENALTY]
    return gap * gap > 2.0 * variance * price


@nb.njit(cache=True, nogil=True)
def _compare(book: Book, arm: int) -> None:
    """Declare which survivors are better and worse than an arm; let arms leave."""
    arms, declared = book.arms, book.declared
    found = False
    mean, variance = arms[arm, MEAN], arms[arm, VARIANCE]
    price = book.rules[LEVEL] + arms[arm, PENALTY]
    for other in range(arms.shape[0]):
        gap = mean - arms[other, MEAN]
        limit = 2.0 * (variance + arms[other, VARIANCE]) * (price + arms[other, PENALTY])
        if not gap * gap > limit or arms[other, STATUS] != SURVIVES:
            continue
        better, worse = (arm, other) if gap > 0.0 else (other, arm)
        if not declared[better, worse]:
            declared[better, worse] = 1
            arms[better, BEATS] += 1.0
            arms[worse, BEATEN] += 1.0
            found = True
    if found:
        _let_leave(book)


@nb.njit(cache=True, nogil=True)
def _let_leave(book: Book) -> None:
    moved = True
    while moved and 0.0 < book.control[PLACES] < book.control[SURVIVORS]:
        moved = False
        for arm in range(book.arms.shape[0]):
            if book.arms[arm, STATUS] != SURVIVES:
                continue
            places = book.control[PLACES]
            if book.arms[arm, BEATEN] >= places:
                _remove(book, arm, REJECTED)
            elif book.arms[arm, BEATS] >= book.control[SURVIVORS] - places:
                _remove(book, arm, ACCEPTED)
            else:
                continue
            moved = True
            break


# ---------------------------------------------------------------------------- boxes


@nb.njit(cache=True, nogil=True)
def _kth_of_survivors(book: Book, column: int, k: int) -> float:
    arms = book.arms
    values = np.empty(arms.shape[0])
    size = 0
    for arm in range(arms.shape[0]):
        if arms[arm, STATUS] == SURVIVES:
            values[size] = arms[arm, column]
            size += 1
    return kth_largest(values, size, k)


@nb.njit(cache=True, nogil=True)
def _same_side(before: float, after: float, cut: float) -> bool:
    return (before < cut and after < cut) or (before > cut and after > cut)


@nb.njit(cache=True, nogil=True)
def _apply_boxes(book: Book, arm: int, before_lower: float, before_upper: float) -> None:
    """Accept what lies above the (k+1)-th upper end, reject what lies below the k-th lower end.

    The two cuts move only if an end of the arm meets or crosses them; otherwise no other
    arm can have become certain.
    """
    arms, control = book.arms, book.control
    if (
        control[DIRTY] == 0.0
        and _same_side(before_upper, arms[arm, UPPER], control[UPPER_CUT])
        and _same_side(before_lower, arms[arm, LOWER], control[LOWER_CUT])
    ):
        _judge(book, arm)
        return
    places = int(control[PLACES])
    control[UPPER_CUT] = _kth_of_survivors(book, UPPER, places + 1)
    control[LOWER_CUT] = _kth_of_survivors(book, LOWER, places)
    control[DIRTY] = 0.0
    for other in range(book.arms.shape[0]):
        if book.arms[other, STATUS] == SURVIVES:
            _judge(book, other)


@nb.njit(cache=True, nogil=True)
def _judge(book: Book, arm: int) -> None:
    if book.arms[arm, LOWER] > book.control[UPPER_CUT]:
        _remove(book, arm, ACCEPTED)
    elif book.arms[arm, UPPER] < book.control[LOWER_CUT]:
        _remove(book, arm, REJECTED)


# ------------------------------------------------------------------------ tolerance


@nb.njit(cache=True, nogil=True)
def mark_leaders(book: Book, chosen: np.ndarray) -> None:
    """Set `chosen` to one for the survivors of largest mean that fill the places left."""
    places = int(book.control[PLACES])
    cut = _kth_of_survivors(book, MEAN, places)
    for arm in range(book.arms.shape[0]):
        above = book.arms[arm, STATUS] == SURVIVES and book.arms[arm, MEAN] > cut
        chosen[arm] = 1 if above else 0
        places -= int(above)
    for arm in range(book.arms.shape[0]):
        at_cut = book.arms[arm, STATUS] == SURVIVES and book.arms[arm, MEAN] == cut
        if places > 0 and at_cut:
            chosen[arm] = 1
            places -= 1


@nb.njit(cache=True, nogil=True)
def _finish_if_good_enough(book: Book) -> None:
    """Accept the leaders if each is within the tolerance of every other survivor."""
    arms = book.arms.shape[0]
    chosen = np.empty(arms, dtype=np.int8)
    mark_leaders(book, chosen)
    for one in range(arms):
        if not chosen[one]:
            continue
        for other in range(arms):
            left = book.arms[other, STATUS] == SURVIVES and not chosen[other]
            if left and not _good_enough(book, one, other):
                return
    for arm in range(arms):
        if book.arms[arm, STATUS] == SURVIVES:
            _remove(book, arm, ACCEPTED if chosen[arm] else REJECTED)


@nb.njit(cache=True, nogil=True)
def _good_enough(book: Book, one: int, other: int) -> bool:
    slack = book.rules[TOLERANCE]
    if book.rules[RULE] == PAIRWISE:
        return _differ(book, one, other, slack)
    return book.arms[one, LOWER] > book.arms[other, UPPER] - slack

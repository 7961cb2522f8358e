"""Which arms are in and which are out: the test by boxes and the test by pairs."""

from fairtrial.delayed._kernels.books import (
    ACCEPTED,
    ALIVE,
    BEATEN,
    BEATS,
    DIRTY,
    DOOMED,
    IN_FLIGHT,
    LEADS,
    LEVEL,
    LOWER,
    LOWER_CUT,
    MEAN,
    PAIRWISE,
    PENALTY,
    PLACES,
    PRIOR,
    REJECTED,
    RULE,
    SORTED,
    STATUS,
    STUDENT,
    SURVIVES,
    SURVIVORS,
    TOLERANCE,
    UPPER,
    UPPER_CUT,
    VARIANCE,
    Book,
    inlined,
    kernel,
    kth_largest,
    list_survivors,
)
from fairtrial.delayed._kernels.student import student_evidence


@inlined
def decide(book: Book, arm: int, before_lower: float, before_upper: float) -> None:
    """Let arms be accepted and rejected after the estimate of one of them has changed."""
    if book.rules[RULE] == PAIRWISE:
        _compare(book, arm)
    else:
        _apply_boxes(book, arm, before_lower, before_upper)
    finish_if_settled(book)
    if book.rules[TOLERANCE] > 0.0 and book.control[SURVIVORS] > 0.0:
        _finish_if_good_enough(book)


@kernel
def finish_if_settled(book: Book) -> None:
    """Reject all survivors if no place is left, accept them if there is a place for each."""
    if book.control[PLACES] == 0.0:
        _remove_all(book, REJECTED)
    elif book.control[PLACES] == book.control[SURVIVORS]:
        _remove_all(book, ACCEPTED)


@kernel
def _remove_all(book: Book, status: int) -> None:
    for arm in range(book.arms.shape[0]):
        if book.arms[arm, STATUS] == SURVIVES:
            _remove(book, arm, status)


@kernel
def _remove(book: Book, arm: int, status: int) -> None:
    arms = book.arms
    arms[arm, STATUS] = status
    book.control[SURVIVORS] -= 1.0
    list_survivors(book)
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


@kernel
def _differ(book: Book, better: int, worse: int, slack: float) -> bool:
    """Return whether an arm's mean is larger than another's minus `slack`, for certain."""
    arms = book.arms
    gap = arms[better, MEAN] - arms[worse, MEAN] + slack
    if gap <= 0.0:
        return False
    if book.rules[STUDENT] > 0.0:
        return _evidence(book, better, worse, gap) > book.rules[LEVEL]
    variance = arms[better, VARIANCE] + arms[worse, VARIANCE]
    price = book.rules[LEVEL] + arms[better, PENALTY] + arms[worse, PENALTY]
    return gap * gap > 2.0 * variance * price


@inlined
def _compare(book: Book, arm: int) -> None:
    """Declare which survivors are better and worse than an arm; let arms leave."""
    found = (
        _compare_by_student(book, arm)
        if book.rules[STUDENT] > 0.0
        else _compare_by_information(book, arm)
    )
    if found:
        _let_leave(book)


@inlined
def _declare(book: Book, better: int, worse: int) -> bool:
    """Write down that an arm is better than another; return whether that is new."""
    if book.declared[better, worse]:
        return False
    book.declared[better, worse] = 1
    book.arms[better, BEATS] += 1.0
    book.arms[worse, BEATEN] += 1.0
    return True


@inlined
def _compare_by_information(book: Book, arm: int) -> bool:
    arms, lists = book.arms, book.lists
    found = False
    mean, variance = arms[arm, MEAN], arms[arm, VARIANCE]
    price = book.rules[LEVEL] + arms[arm, PENALTY]
    for place in range(int(book.control[SURVIVORS])):
        other = int(lists[ALIVE, place])
        gap = mean - arms[other, MEAN]
        limit = 2.0 * (variance + arms[other, VARIANCE]) * (price + arms[other, PENALTY])
        if not gap * gap > limit:
            continue
        better, worse = (arm, other) if gap > 0.0 else (other, arm)
        found = _declare(book, better, worse) or found
    return found


@kernel
def _evidence(book: Book, one: int, other: int, gap: float) -> float:
    arms = book.arms
    return student_evidence(
        gap, arms[one, VARIANCE], arms[one, PENALTY], arms[other, VARIANCE],
        arms[other, PENALTY], book.rules[PRIOR],
    )  # fmt: skip


@kernel
def _compare_by_student(book: Book, arm: int) -> bool:
    arms, found = book.arms, False
    for place in range(int(book.control[SURVIVORS])):
        other = int(book.lists[ALIVE, place])
        gap = arms[arm, MEAN] - arms[other, MEAN]
        if gap == 0.0 or not _evidence(book, arm, other, gap) > book.rules[LEVEL]:
            continue
        better, worse = (arm, other) if gap > 0.0 else (other, arm)
        found = _declare(book, better, worse) or found
    return found


@kernel
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


@kernel
def _kth_of_survivors(book: Book, column: int, k: int) -> float:
    arms, lists = book.arms, book.lists
    size = int(book.control[SURVIVORS])
    for place in range(size):
        lists[SORTED, place] = arms[int(lists[ALIVE, place]), column]
    return kth_largest(lists, size, k)


@inlined
def _same_side(before: float, after: float, cut: float) -> bool:
    return before == after or (before < cut and after < cut) or (before > cut and after > cut)


@inlined
def _apply_boxes(book: Book, arm: int, before_lower: float, before_upper: float) -> None:
    """Accept what lies above the (k+1)-th upper end, reject what lies below the k-th lower end.

    A cut moves only if an end of the arm meets or crosses it, and only a cut that moves
    towards the other arms can make one of them certain.
    """
    arms, control = book.arms, book.control
    places, anew = int(control[PLACES]), control[DIRTY] > 0.0
    upper_cut, lower_cut = control[UPPER_CUT], control[LOWER_CUT]
    if anew or not _same_side(before_upper, arms[arm, UPPER], upper_cut):
        control[UPPER_CUT] = _kth_of_survivors(book, UPPER, places + 1)
    if anew or not _same_side(before_lower, arms[arm, LOWER], lower_cut):
        control[LOWER_CUT] = _kth_of_survivors(book, LOWER, places)
    control[DIRTY] = 0.0
    if anew or control[UPPER_CUT] < upper_cut or control[LOWER_CUT] > lower_cut:
        for other in range(book.arms.shape[0]):
            if book.arms[other, STATUS] == SURVIVES:
                _judge(book, other)
    else:
        _judge(book, arm)


@inlined
def _judge(book: Book, arm: int) -> None:
    if book.arms[arm, LOWER] > book.control[UPPER_CUT]:
        _remove(book, arm, ACCEPTED)
    elif book.arms[arm, UPPER] < book.control[LOWER_CUT]:
        _remove(book, arm, REJECTED)


# ------------------------------------------------------------------------ tolerance


@kernel
def mark_leaders(book: Book) -> None:
    """Mark the survivors of largest mean that fill the places left."""
    arms, lists = book.arms, book.lists
    places = int(book.control[PLACES])
    cut = _kth_of_survivors(book, MEAN, places)
    size = int(book.control[SURVIVORS])
    for place in range(size):
        arm = int(lists[ALIVE, place])
        above = arms[arm, MEAN] > cut
        lists[LEADS, arm] = 1.0 if above else 0.0
        places -= int(above)
    for place in range(size):
        arm = int(lists[ALIVE, place])
        if places > 0 and arms[arm, MEAN] == cut:
            lists[LEADS, arm] = 1.0
            places -= 1


@kernel
def _finish_if_good_enough(book: Book) -> None:
    """Accept the leaders if each is within the tolerance of every other survivor."""
    arms, leads = book.arms.shape[0], book.lists
    mark_leaders(book)
    for one in range(arms):
        if leads[LEADS, one] == 0.0:
            continue
        for other in range(arms):
            left = book.arms[other, STATUS] == SURVIVES and leads[LEADS, other] == 0.0
            if left and not _good_enough(book, one, other):
                return
    for arm in range(arms):
        if book.arms[arm, STATUS] == SURVIVES:
            _remove(book, arm, ACCEPTED if leads[LEADS, arm] > 0.0 else REJECTED)


@kernel
def _good_enough(book: Book, one: int, other: int) -> bool:
    slack = book.rules[TOLERANCE]
    if book.rules[RULE] == PAIRWISE:
        return _differ(book, one, other, slack)
    return book.arms[one, LOWER] > book.arms[other, UPPER] - slack

"""Which arms are accepted and rejected: the test by boxes and the test by pairs."""

from fairtrial.delayed._kernels.state import (
    ACCEPTED,
    PAIRWISE,
    REJECTED,
    SURVIVES,
    Race,
    inlined,
    kernel,
    kth_largest,
    list_survivors,
)
from fairtrial.delayed._kernels.student import student_evidence


@inlined
def decide(race: Race, arm: int, before_lower: float, before_upper: float) -> None:
    """Accept and reject arms after the estimate of one arm has changed."""
    if race.rules[0].rule == PAIRWISE:
        _compare(race, arm)
    else:
        _apply_boxes(race, arm, before_lower, before_upper)
    finish_if_settled(race)
    if race.rules[0].tolerance > 0.0 and race.control[0].survivors > 0:
        _finish_if_good_enough(race)


@kernel
def finish_if_settled(race: Race) -> None:
    """Reject all survivors if no place is left; accept all if there is a place for each."""
    if race.control[0].places == 0:
        _remove_all(race, REJECTED)
    elif race.control[0].places == race.control[0].survivors:
        _remove_all(race, ACCEPTED)


@kernel
def _remove_all(race: Race, status: int) -> None:
    for arm in range(race.arms.shape[0]):
        if race.arms[arm].status == SURVIVES:
            _accept_or_reject(race, arm, status)


@kernel
def _accept_or_reject(race: Race, arm: int, status: int) -> None:
    arms = race.arms
    arms[arm].status = status
    race.control[0].survivors -= 1
    list_survivors(race)
    race.control[0].unwanted += arms[arm].in_flight
    race.control[0].dirty = 1
    if status == ACCEPTED:
        race.control[0].places -= 1
    if race.rules[0].rule != PAIRWISE:
        return
    for other in range(race.arms.shape[0]):
        if race.declared[arm, other]:
            race.arms[other].beaten_by -= 1
        if race.declared[other, arm]:
            race.arms[other].beats -= 1


# ---------------------------------------------------------------------------- pairs


@kernel
def _differ(race: Race, better: int, worse: int, tolerance: float) -> bool:
    """Return whether it is certain that one mean exceeds another minus `tolerance`."""
    arms = race.arms
    gap = arms[better].estimate - arms[worse].estimate + tolerance
    if gap <= 0.0:
        return False
    if race.rules[0].estimates_noise > 0:
        return _evidence(race, better, worse, gap) > race.rules[0].level
    variance = arms[better].variance + arms[worse].variance
    price = race.rules[0].level + arms[better].penalty + arms[worse].penalty
    return gap * gap > 2.0 * variance * price


@inlined
def _compare(race: Race, arm: int) -> None:
    """Find the survivors that are better and worse than an arm, and remove decided arms."""
    found = (
        _compare_by_student(race, arm)
        if race.rules[0].estimates_noise > 0
        else _compare_by_information(race, arm)
    )
    if found:
        _let_leave(race)


@inlined
def _declare(race: Race, better: int, worse: int) -> bool:
    """Record that an arm is better than another; return whether this is new."""
    if race.declared[better, worse]:
        return False
    race.declared[better, worse] = 1
    race.arms[better].beats += 1
    race.arms[worse].beaten_by += 1
    return True


@inlined
def _compare_by_information(race: Race, arm: int) -> bool:
    arms, order = race.arms, race.order
    found = False
    mean, variance = arms[arm].estimate, arms[arm].variance
    price = race.rules[0].level + arms[arm].penalty
    for place in range(race.control[0].survivors):
        other = order[place].survivor
        gap = mean - arms[other].estimate
        limit = 2.0 * (variance + arms[other].variance) * (price + arms[other].penalty)
        if not gap * gap > limit:
            continue
        better, worse = (arm, other) if gap > 0.0 else (other, arm)
        found = _declare(race, better, worse) or found
    return found


@kernel
def _evidence(race: Race, one: int, other: int, gap: float) -> float:
    arms = race.arms
    first, second, prior = arms[one], arms[other], race.rules[0].prior
    return student_evidence(
        gap, first.variance, first.penalty, second.variance, second.penalty, prior
    )


@kernel
def _compare_by_student(race: Race, arm: int) -> bool:
    arms, found = race.arms, False
    for place in range(race.control[0].survivors):
        other = race.order[place].survivor
        gap = arms[arm].estimate - arms[other].estimate
        if gap == 0.0 or not _evidence(race, arm, other, gap) > race.rules[0].level:
            continue
        better, worse = (arm, other) if gap > 0.0 else (other, arm)
        found = _declare(race, better, worse) or found
    return found


@kernel
def _let_leave(race: Race) -> None:
    moved = True
    while moved and 0.0 < race.control[0].places < race.control[0].survivors:
        moved = False
        for arm in range(race.arms.shape[0]):
            if race.arms[arm].status != SURVIVES:
                continue
            places = race.control[0].places
            if race.arms[arm].beaten_by >= places:
                _accept_or_reject(race, arm, REJECTED)
            elif race.arms[arm].beats >= race.control[0].survivors - places:
                _accept_or_reject(race, arm, ACCEPTED)
            else:
                continue
            moved = True
            break


# ---------------------------------------------------------------------------- boxes


@kernel
def _kth_upper_end(race: Race, k: int) -> float:
    arms, order, size = race.arms, race.order, race.control[0].survivors
    for place in range(size):
        order[place].value = arms[order[place].survivor].upper
    return kth_largest(order, size, k)


@kernel
def _kth_lower_end(race: Race, k: int) -> float:
    arms, order, size = race.arms, race.order, race.control[0].survivors
    for place in range(size):
        order[place].value = arms[order[place].survivor].lower
    return kth_largest(order, size, k)


@kernel
def _kth_estimate(race: Race, k: int) -> float:
    arms, order, size = race.arms, race.order, race.control[0].survivors
    for place in range(size):
        order[place].value = arms[order[place].survivor].estimate
    return kth_largest(order, size, k)


@inlined
def _same_side(before: float, after: float, cut: float) -> bool:
    return before == after or (before < cut and after < cut) or (before > cut and after > cut)


@inlined
def _apply_boxes(race: Race, arm: int, before_lower: float, before_upper: float) -> None:
    """Accept arms above the (k+1)-th upper end; reject arms below the k-th lower end.

    A cut moves only if an end of the arm meets or crosses it. Only a cut that moves towards the
    other arms can decide one of them.
    """
    arms, control = race.arms, race.control
    places, anew = control[0].places, control[0].dirty > 0
    upper_cut, lower_cut = control[0].upper_cut, control[0].lower_cut
    if anew or not _same_side(before_upper, arms[arm].upper, upper_cut):
        control[0].upper_cut = _kth_upper_end(race, places + 1)
    if anew or not _same_side(before_lower, arms[arm].lower, lower_cut):
        control[0].lower_cut = _kth_lower_end(race, places)
    control[0].dirty = 0
    if anew or control[0].upper_cut < upper_cut or control[0].lower_cut > lower_cut:
        for other in range(race.arms.shape[0]):
            if race.arms[other].status == SURVIVES:
                _judge(race, other)
    else:
        _judge(race, arm)


@inlined
def _judge(race: Race, arm: int) -> None:
    if race.arms[arm].lower > race.control[0].upper_cut:
        _accept_or_reject(race, arm, ACCEPTED)
    elif race.arms[arm].upper < race.control[0].lower_cut:
        _accept_or_reject(race, arm, REJECTED)


# ------------------------------------------------------------------------ tolerance


@kernel
def mark_leaders(race: Race) -> None:
    """Mark the survivors with the largest means, as many as there are places left."""
    arms, order = race.arms, race.order
    places = race.control[0].places
    cut = _kth_estimate(race, places)
    size = race.control[0].survivors
    for place in range(size):
        arm = order[place].survivor
        above = arms[arm].estimate > cut
        order[arm].leads = 1 if above else 0
        places -= int(above)
    for place in range(size):
        arm = order[place].survivor
        if places > 0 and arms[arm].estimate == cut:
            order[arm].leads = 1
            places -= 1


@kernel
def _finish_if_good_enough(race: Race) -> None:
    """Accept the leaders if each is within the tolerance of every other survivor."""
    arms, order = race.arms.shape[0], race.order
    mark_leaders(race)
    for one in range(arms):
        if order[one].leads == 0:
            continue
        for other in range(arms):
            left = race.arms[other].status == SURVIVES and order[other].leads == 0
            if left and not _good_enough(race, one, other):
                return
    for arm in range(arms):
        if race.arms[arm].status == SURVIVES:
            _accept_or_reject(race, arm, ACCEPTED if order[arm].leads > 0 else REJECTED)


@kernel
def _good_enough(race: Race, one: int, other: int) -> bool:
    tolerance = race.rules[0].tolerance
    if race.rules[0].rule == PAIRWISE:
        return _differ(race, one, other, tolerance)
    return race.arms[one].lower > race.arms[other].upper - tolerance

"""What the rules with a budget decide: who is pulled next, who goes on, what is called back."""

import math

import numpy as np

from fairtrial.delayed._kernels.books import Floats, inlined, kernel
from fairtrial.delayed._kernels.ledger import (
    ACCEPTED,
    ALIVE,
    ARM,
    ASKED,
    BRACKET,
    BUDGET,
    BUSY,
    COUNT,
    DONE,
    EACH,
    ETA,
    GOES_TO,
    GRACE,
    IN_FLIGHT,
    ISSUED,
    KEY,
    LARGEST,
    LEAST,
    LEFT,
    MEAN,
    MEDIAN,
    MISSING,
    NOWHERE,
    OPEN,
    ORDER,
    OUT,
    OUTCOME,
    OVER,
    PLACE,
    PLACES,
    PROMOTION,
    REACHED,
    ROUND,
    ROUNDS,
    ROWS,
    RULE,
    RUNGS,
    SEEN,
    STAGE,
    STALE,
    STARTED,
    STATE,
    STATUS,
    STOPPED,
    TOLD,
    TOP,
    UNREACHED,
    WAITED,
    Ledger,
    add_reading,
    average,
    close_pull,
    forecast,
    open_pull,
    order_alive,
)

# What can happen to a pull. DATA: an outcome that nobody asked for, of an arm.
READ, TELL, STOP, DATA = range(4)


@kernel
def set_out(ledger: Ledger) -> None:
    """Bring a ledger in which nothing has happened to its first rung or round."""
    rule, arms, control = ledger.rules[RULE], ledger.arms, ledger.control
    control[PLACES] = ledger.rules[TOP]
    control[LEFT] = arms.shape[1]
    for arm in range(arms.shape[1]):
        arms[STATUS, arm], arms[GOES_TO, arm] = ALIVE, NOWHERE
    for rung in range(SEEN, arms.shape[0]):
        for arm in range(arms.shape[1]):
            arms[rung, arm] = np.nan
    if rule == RUNGS:
        _enter_bracket(ledger)
    elif rule == PROMOTION:
        control[WAITED] = arms.shape[1]
    elif rule != MEDIAN:
        _settle(ledger)
    control[OVER] = _is_over(ledger)


@kernel
def start(ledger: Ledger) -> int:
    """Start the pull that the rule chooses; return its row, -1 if there is none now."""
    rule, arms, control = ledger.rules[RULE], ledger.arms, ledger.control
    stage = control[ROUND]
    if rule == RUNGS:
        arm = _lacking(ledger)
    elif rule == PROMOTION:
        arm = _going_on(ledger)
        stage = arms[GOES_TO, arm]
    elif rule == MEDIAN:
        arm = int(control[ASKED]) % arms.shape[1] if control[ASKED] < ledger.rules[BUDGET] else -1
    else:
        arm = _least_pulled(ledger)
    if arm < 0:
        return -1
    control[ASKED] += 1.0
    arms[ISSUED, arm] += 1.0
    return open_pull(ledger, arm, stage)


@kernel
def happen(ledger: Ledger, kind: int, at: int, place: int, value: float) -> None:
    """Let something happen to the pull of a row, and let go on who may."""
    row, pulls = at, ledger.pulls
    if kind == READ:
        add_reading(ledger, row, place, value)
    elif kind == STOP:
        close_pull(ledger, row, STOPPED)
    else:
        if kind == DATA:
            row = open_pull(ledger, at, NOWHERE)
        close_pull(ledger, row, DONE)
        pulls[row, OUTCOME] = value
        ledger.control[TOLD] += 1.0
    _go_on(ledger, row)
    ledger.control[OVER] = _is_over(ledger)


@inlined
def _go_on(ledger: Ledger, row: int) -> None:
    rule = ledger.rules[RULE]
    if rule == RUNGS:
        _climb(ledger, row)
    elif rule == PROMOTION:
        _promote(ledger, row)
    elif rule == MEDIAN:
        _file(ledger, row)
    elif ledger.pulls[row, STATE] != OPEN:
        _end_rounds(ledger)


@inlined
def _is_over(ledger: Ledger) -> bool:
    rule, control = ledger.rules[RULE], ledger.control
    if rule == RUNGS:
        return control[ROUND] == _rungs(ledger)
    if rule == PROMOTION:
        return control[WAITED] == 0.0 and _next_up(ledger) < 0
    if rule == MEDIAN:
        return control[ASKED] >= ledger.rules[BUDGET] and control[BUSY] == 0.0
    return control[LEFT] == 0.0


@inlined
def is_unwanted(ledger: Ledger, row: int) -> bool:
    """Return whether a pull in flight is to be called back, while the rule goes on."""
    rule, pulls, control = ledger.rules[RULE], ledger.pulls, ledger.control
    if rule == RUNGS:
        on_rung = pulls[row, STAGE] == control[ROUND]
        return not on_rung or (control[MISSING] > 0.0 and pulls[row, REACHED] > 0.0)
    if rule == PROMOTION:
        return _has_reached(ledger, row, int(pulls[row, STAGE]))
    if rule == MEDIAN:
        return _is_below_median(ledger, row)
    return ledger.arms[STATUS, int(pulls[row, ARM])] != ALIVE


# --------------------------------------------------------------------- rungs, all at once


@inlined
def _rungs(ledger: Ledger) -> int:
    return int(ledger.plan[int(ledger.control[BRACKET]), 0])


@inlined
def _age(ledger: Ledger, rung: int) -> float:
    """Return the readings at a rung; infinity for the outcome."""
    return ledger.plan[int(ledger.control[BRACKET]), 1 + rung]


@inlined
def _has_reached(ledger: Ledger, row: int, rung: int) -> bool:
    pulls = ledger.pulls
    return pulls[row, STATE] == DONE or pulls[row, COUNT] >= _age(ledger, rung)


@kernel
def _enter_bracket(ledger: Ledger) -> None:
    """Start at the first rung with the arms of a bracket."""
    plan, arms, control = ledger.plan, ledger.arms, ledger.control
    bracket, members = int(control[BRACKET]), plan.shape[1] - arms.shape[1]
    control[ROUND], control[LEFT] = 0.0, 0.0
    for arm in range(arms.shape[1]):
        arms[STARTED, arm] = 0.0
        arms[STATUS, arm] = ALIVE if plan[bracket, members + arm] > 0.0 else OUT
        control[LEFT] += plan[bracket, members + arm]
    for row in range(int(control[ROWS])):
        ledger.pulls[row, STAGE] = NOWHERE
    control[UNREACHED] = 0.0
    control[MISSING] = control[LEFT] * ledger.rules[EACH]


@kernel
def _lacking(ledger: Ledger) -> int:
    """Return an arm of this rung that lacks a pull, started now; -1 if none does."""
    arms, control = ledger.arms, ledger.control
    if control[MISSING] == 0.0:
        return -1
    arm = 0
    while arms[STATUS, arm] != ALIVE or arms[STARTED, arm] >= ledger.rules[EACH]:
        arm += 1
    arms[STARTED, arm] += 1.0
    control[MISSING] -= 1.0
    control[UNREACHED] += 1.0
    return arm


@kernel
def _climb(ledger: Ledger, row: int) -> None:
    """Close the rung if this pull was the last that had not reached it."""
    pulls, arms, control = ledger.pulls, ledger.arms, ledger.control
    rung = int(control[ROUND])
    if rung == _rungs(ledger) or pulls[row, STAGE] != rung:
        return
    if pulls[row, REACHED] == 0.0 and _has_reached(ledger, row, rung):
        pulls[row, REACHED] = 1.0
        control[UNREACHED] -= 1.0
    if pulls[row, REACHED] == 0.0:
        if pulls[row, STATE] == STOPPED:
            pulls[row, STAGE] = NOWHERE
            arms[STARTED, int(pulls[row, ARM])] -= 1.0
            control[MISSING] += 1.0
            control[UNREACHED] -= 1.0
            control[STALE] = 1.0
        return
    while control[ROUND] < _rungs(ledger) and control[MISSING] == 0.0 and control[UNREACHED] == 0.0:
        _close_rung(ledger)


@kernel
def _close_rung(ledger: Ledger) -> None:
    """Let the best arms of a rung into the next one, or all into the next bracket."""
    control = ledger.control
    _rank_on_rung(ledger)
    size = order_alive(ledger)
    _give_places(ledger, size)
    control[ROUND] += 1.0
    control[STALE] = 1.0
    if control[ROUND] < _rungs(ledger):
        keep = max(ledger.rules[TOP], math.floor(size / ledger.rules[ETA]))
        _keep_best(ledger, size, int(keep))
        _take_along(ledger)
    elif control[BRACKET] + 1.0 < ledger.plan.shape[0]:
        control[BRACKET] += 1.0
        _enter_bracket(ledger)


@kernel
def _rank_on_rung(ledger: Ledger) -> None:
    """Set the arms' keys to the sums of their values at this rung."""
    pulls, arms, rung = ledger.pulls, ledger.arms, int(ledger.control[ROUND])
    for arm in range(arms.shape[1]):
        arms[KEY, arm] = 0.0
    for row in range(int(ledger.control[ROWS])):
        if pulls[row, STAGE] == rung:
            arms[KEY, int(pulls[row, ARM])] += forecast(ledger, row, _age(ledger, rung))


@inlined
def _give_places(ledger: Ledger, size: int) -> None:
    """Let an arm's place count rungs first, then those that it leaves behind on its rung."""
    arms, rung = ledger.arms, ledger.control[ROUND]
    for place in range(size):
        arms[PLACE, int(arms[ORDER, place])] = rung + 1.0 - (place + 1.0) / (size + 1.0)


@kernel
def _keep_best(ledger: Ledger, size: int, keep: int) -> None:
    """Let all but the first arms of the order leave."""
    arms = ledger.arms
    for place in range(keep, size):
        arms[STATUS, int(arms[ORDER, place])] = OUT
    ledger.control[LEFT] = min(size, keep)


@kernel
def _take_along(ledger: Ledger) -> None:
    """Count the pulls that run on for the rung that has just begun."""
    pulls, arms, control = ledger.pulls, ledger.arms, ledger.control
    rung = int(control[ROUND])
    for arm in range(arms.shape[1]):
        arms[STARTED, arm] = 0.0
    control[UNREACHED] = 0.0
    control[MISSING] = control[LEFT] * ledger.rules[EACH]
    for row in range(int(control[ROWS])):
        arm = int(pulls[row, ARM])
        runs_on = pulls[row, STATE] != STOPPED and arms[STATUS, arm] == ALIVE
        if pulls[row, STAGE] == rung - 1 and runs_on:
            pulls[row, STAGE] = rung
            pulls[row, REACHED] = _has_reached(ledger, row, rung)
            arms[STARTED, arm] += 1.0
            control[MISSING] -= 1.0
            control[UNREACHED] += 1.0 - pulls[row, REACHED]


# ----------------------------------------------------------------------- rungs, one by one


@inlined
def _is_waited_for(ledger: Ledger, arm: int) -> bool:
    """Return whether an arm was not tried yet, or is on its way to a rung."""
    rung = int(ledger.arms[GOES_TO, arm])
    return rung < 0 or np.isnan(ledger.arms[SEEN + rung, arm])


@kernel
def _send(ledger: Ledger, arm: int, rung: float) -> None:
    """Send an arm to a rung."""
    control = ledger.control
    control[WAITED] -= _is_waited_for(ledger, arm)
    ledger.arms[GOES_TO, arm] = rung
    control[WAITED] += _is_waited_for(ledger, arm)


@kernel
def _going_on(ledger: Ledger) -> int:
    """Return an arm that may go to its next rung, else an untried one, sent there; or -1."""
    arms = ledger.arms
    arm = _next_up(ledger)
    if arm >= 0:
        _send(ledger, arm, arms[GOES_TO, arm] + 1.0)
        return arm
    for untried in range(arms.shape[1]):
        if arms[GOES_TO, untried] == NOWHERE:
            _send(ledger, untried, 0.0)
            return untried
    return -1


@kernel
def _next_up(ledger: Ledger) -> int:
    """Return the best arm that waits on a rung and may go on, from the highest rung; or -1."""
    arms = ledger.arms
    for rung in range(_rungs(ledger) - 2, -1, -1):
        best = -1
        for arm in range(arms.shape[1]):
            value = arms[SEEN + rung, arm]
            waits = arms[GOES_TO, arm] == rung and not np.isnan(value)
            if waits and (best < 0 or value > arms[SEEN + rung, best]):
                best = arm
        if best >= 0 and _is_among_best(ledger, rung, best):
            return best
    return -1


@kernel
def _is_among_best(ledger: Ledger, rung: int, arm: int) -> bool:
    """Return whether an arm is in the best 1 / eta of those that have reached a rung."""
    arms = ledger.arms
    own = arms[SEEN + rung, arm]
    there, better = 0, 0
    for other in range(arms.shape[1]):
        value = arms[SEEN + rung, other]
        if not np.isnan(value):
            there += 1
        if value > own or (value == own and other < arm):
            better += 1
    return better < math.floor(there / ledger.rules[ETA])


@kernel
def _promote(ledger: Ledger, row: int) -> None:
    """Write down which rungs a pull has reached, as far as its arm may go on."""
    pulls, arms = ledger.pulls, ledger.arms
    arm = int(pulls[row, ARM])
    while pulls[row, STAGE] != NOWHERE:
        rung = int(pulls[row, STAGE])
        if not _has_reached(ledger, row, rung):
            if pulls[row, STATE] == STOPPED:
                pulls[row, STAGE] = NOWHERE
                _send(ledger, arm, rung - 1.0)
            return
        if np.isnan(arms[SEEN + rung, arm]):
            ledger.control[WAITED] -= _is_waited_for(ledger, arm)
            arms[SEEN + rung, arm] = forecast(ledger, row, _age(ledger, rung))
            ledger.control[WAITED] += _is_waited_for(ledger, arm)
        runs_on = pulls[row, STATE] != STOPPED and rung + 1 < _rungs(ledger)
        waits = arms[GOES_TO, arm] == rung
        if not (runs_on and waits and _is_among_best(ledger, rung, arm)):
            return
        pulls[row, STAGE] = rung + 1.0
        _send(ledger, arm, rung + 1.0)


# -------------------------------------------------------------------------------- medians


@kernel
def _file(ledger: Ledger, row: int) -> None:
    """File the running means of a completed pull by age, each age in order."""
    count = int(ledger.pulls[row, COUNT])
    if ledger.pulls[row, STATE] != DONE or count == 0:
        return
    running = 0.0
    for age in range(count):
        running += ledger.values[row, age]
        _insert(ledger.aged[age], running / (age + 1.0))
    ledger.control[STALE] = 1.0


@inlined
def _insert(means: Floats, mean: float) -> None:
    place = int(means[0])
    while place > 0 and means[place] > mean:
        means[place + 1] = means[place]
        place -= 1
    means[place + 1] = mean
    means[0] += 1.0


@kernel
def _is_below_median(ledger: Ledger, row: int) -> bool:
    """Return whether the best reading of a pull is below the median of others at its age."""
    age = int(ledger.pulls[row, COUNT])
    if age < ledger.rules[GRACE] or age > ledger.aged.shape[0]:
        return False
    means = ledger.aged[age - 1]
    number = int(means[0])
    if number < ledger.rules[LEAST]:
        return False
    middle = means[1 + number // 2]
    if number % 2 == 0:
        middle = (means[number // 2] + middle) / 2.0
    return ledger.pulls[row, LARGEST] < middle


# --------------------------------------------------------------------------------- rounds


@kernel
def _least_pulled(ledger: Ledger) -> int:
    """Return the arm left that was pulled least, -1 until the round has ended."""
    arms = ledger.arms
    found, fewest = -1, ledger.plan[int(ledger.control[ROUND]), 0]
    for arm in range(arms.shape[1]):
        if arms[STATUS, arm] == ALIVE and arms[ISSUED, arm] < fewest:
            found, fewest = arm, arms[ISSUED, arm]
    return found


@inlined
def _end_rounds(ledger: Ledger) -> None:
    """Let arms leave for as long as the round has ended."""
    control = ledger.control
    while control[LEFT] > 0.0 and _round_is_over(ledger):
        _cut(ledger)
        control[ROUND] += 1.0
        control[STALE] = 1.0
        _settle(ledger)


@kernel
def _round_is_over(ledger: Ledger) -> bool:
    arms, goal = ledger.arms, ledger.plan[int(ledger.control[ROUND]), 0]
    for arm in range(arms.shape[1]):
        lacks = arms[ISSUED, arm] < goal or arms[IN_FLIGHT, arm] > 0.0
        if arms[STATUS, arm] == ALIVE and lacks:
            return False
    return True


@kernel
def _cut(ledger: Ledger) -> None:
    """Let arms leave at the end of a round, by the means of all their outcomes."""
    arms, control = ledger.arms, ledger.control
    average(ledger)
    for arm in range(arms.shape[1]):
        arms[KEY, arm] = arms[MEAN, arm]
    size = order_alive(ledger)
    if ledger.rules[RULE] == ROUNDS:
        _keep_best(ledger, size, int(ledger.plan[int(control[ROUND]), 1]))
        return
    clear = _clearest(ledger, size)
    arms[STATUS, int(arms[ORDER, clear])] = ACCEPTED if clear == 0 else OUT
    control[PLACES] -= clear == 0
    control[LEFT] -= 1.0


@inlined
def _clearest(ledger: Ledger, size: int) -> int:
    """Return which place in the order is clear first: the best is in, or the worst is out."""
    arms, places = ledger.arms, int(ledger.control[PLACES])
    best, worst = arms[KEY, int(arms[ORDER, 0])], arms[KEY, int(arms[ORDER, size - 1])]
    last_in = arms[KEY, int(arms[ORDER, places - 1])]
    first_out = arms[KEY, int(arms[ORDER, places])]
    # With one arm wanted this is the published rule: the worst leaves.
    return 0 if ledger.rules[TOP] > 1.0 and best - first_out > last_in - worst else size - 1


@kernel
def _settle(ledger: Ledger) -> None:
    """Accept all that are left once there is a place for each."""
    arms, control = ledger.arms, ledger.control
    if control[LEFT] > control[PLACES] > 0.0:
        return
    status = ACCEPTED if control[PLACES] > 0.0 else OUT
    for arm in range(arms.shape[1]):
        if arms[STATUS, arm] == ALIVE:
            arms[STATUS, arm] = status
    control[LEFT] = 0.0

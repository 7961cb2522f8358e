"""Rungs that arms climb all at once: successive halving and its brackets."""

import math

from fairtrial.delayed._kernels.ledger import (
    ALIVE,
    ARM,
    BRACKET,
    COUNT,
    DONE,
    EACH,
    ETA,
    KEY,
    LEFT,
    MISSING,
    NOWHERE,
    ORDER,
    OUT,
    PLACE,
    REACHED,
    ROUND,
    ROWS,
    STAGE,
    STALE,
    STARTED,
    STATE,
    STATUS,
    STOPPED,
    TOP,
    UNREACHED,
    Ledger,
    forecast,
    order_alive,
)
from fairtrial.delayed._kernels.state import inlined, kernel


@inlined
def n_rungs(ledger: Ledger) -> int:
    """Return how many rungs the bracket has."""
    return int(ledger.plan[int(ledger.control[BRACKET]), 0])


@inlined
def age(ledger: Ledger, rung: int) -> float:
    """Return the readings at a rung; infinity for the outcome."""
    return ledger.plan[int(ledger.control[BRACKET]), 1 + rung]


@inlined
def has_reached(ledger: Ledger, row: int, rung: int) -> bool:
    """Return whether a pull has all that a rung is to know of it."""
    pulls = ledger.pulls
    return pulls[row, STATE] == DONE or pulls[row, COUNT] >= age(ledger, rung)


@kernel
def enter_bracket(ledger: Ledger) -> None:
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
def lacking(ledger: Ledger) -> int:
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
def climb(ledger: Ledger, row: int) -> None:
    """Close the rung if this pull was the last that had not reached it."""
    pulls, arms, control = ledger.pulls, ledger.arms, ledger.control
    rung = int(control[ROUND])
    if rung == n_rungs(ledger) or pulls[row, STAGE] != rung:
        return
    if pulls[row, REACHED] == 0.0 and has_reached(ledger, row, rung):
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
    while (
        control[ROUND] < n_rungs(ledger) and control[MISSING] == 0.0 and control[UNREACHED] == 0.0
    ):
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
    if control[ROUND] < n_rungs(ledger):
        keep = max(ledger.rules[TOP], math.floor(size / ledger.rules[ETA]))
        keep_best(ledger, size, int(keep))
        _take_along(ledger)
    elif control[BRACKET] + 1.0 < ledger.plan.shape[0]:
        control[BRACKET] += 1.0
        enter_bracket(ledger)


@kernel
def _rank_on_rung(ledger: Ledger) -> None:
    """Set the arms' keys to the sums of their values at this rung."""
    pulls, arms, rung = ledger.pulls, ledger.arms, int(ledger.control[ROUND])
    for arm in range(arms.shape[1]):
        arms[KEY, arm] = 0.0
    for row in range(int(ledger.control[ROWS])):
        if pulls[row, STAGE] == rung:
            arms[KEY, int(pulls[row, ARM])] += forecast(ledger, row, age(ledger, rung))


@inlined
def _give_places(ledger: Ledger, size: int) -> None:
    """Let an arm's place count rungs first, then those that it leaves behind on its rung."""
    arms, rung = ledger.arms, ledger.control[ROUND]
    for place in range(size):
        arms[PLACE, int(arms[ORDER, place])] = rung + 1.0 - (place + 1.0) / (size + 1.0)


@kernel
def keep_best(ledger: Ledger, size: int, keep: int) -> None:
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
            pulls[row, REACHED] = has_reached(ledger, row, rung)
            arms[STARTED, arm] += 1.0
            control[MISSING] -= 1.0
            control[UNREACHED] += 1.0 - pulls[row, REACHED]

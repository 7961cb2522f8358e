"""Successive halving and its brackets: arms climb each rung together."""

import math

from fairtrial.delayed._kernels.budget_state import (
    ALIVE,
    DONE,
    NOWHERE,
    OUT,
    STOPPED,
    Budget,
    forecast,
    order_alive,
)
from fairtrial.delayed._kernels.state import inlined, kernel


@inlined
def n_rungs(state: Budget) -> int:
    """Return the number of rungs in the bracket."""
    return int(state.plan[state.control[0].bracket, 0])


@inlined
def age(state: Budget, rung: int) -> float:
    """Return the number of readings at a rung; infinity for the outcome."""
    return state.plan[state.control[0].bracket, 1 + rung]


@inlined
def has_reached(state: Budget, row: int, rung: int) -> bool:
    """Return whether a pull has all data that a rung needs."""
    pulls = state.pulls
    return pulls[row].state == DONE or pulls[row].readings >= age(state, rung)


@kernel
def enter_bracket(state: Budget) -> None:
    """Start at the first rung with the arms of a bracket."""
    plan, arms, control = state.plan, state.arms, state.control
    bracket, members = control[0].bracket, plan.shape[1] - arms.shape[0]
    control[0].current, control[0].left = 0, 0.0
    for arm in range(arms.shape[0]):
        arms[arm].started = 0
        arms[arm].status = ALIVE if plan[bracket, members + arm] > 0.0 else OUT
        control[0].left += plan[bracket, members + arm]
    for row in range(control[0].rows):
        state.pulls[row].stage = NOWHERE
    control[0].unreached = 0
    control[0].missing = control[0].left * state.rules[0].pulls_each


@kernel
def lacking(state: Budget) -> int:
    """Start a pull of an arm that lacks one on this rung; return the arm, or -1."""
    arms, control = state.arms, state.control
    if control[0].missing == 0:
        return -1
    arm = 0
    while arms[arm].status != ALIVE or arms[arm].started >= state.rules[0].pulls_each:
        arm += 1
    arms[arm].started += 1
    control[0].missing -= 1
    control[0].unreached += 1
    return arm


@kernel
def climb(state: Budget, row: int) -> None:
    """Close the rung if this was the last pull on its way to it."""
    pulls, arms, control = state.pulls, state.arms, state.control
    rung = control[0].current
    if rung == n_rungs(state) or pulls[row].stage != rung:
        return
    if pulls[row].reached == 0 and has_reached(state, row, rung):
        pulls[row].reached = 1
        control[0].unreached -= 1
    if pulls[row].reached == 0:
        if pulls[row].state == STOPPED:
            pulls[row].stage = NOWHERE
            arms[pulls[row].arm].started -= 1
            control[0].missing += 1
            control[0].unreached -= 1
            control[0].stale = 1
        return
    while (
        control[0].current < n_rungs(state)
        and control[0].missing == 0
        and control[0].unreached == 0
    ):
        _close_rung(state)


@kernel
def _close_rung(state: Budget) -> None:
    """Promote the best arms of a rung to the next one, or start the next bracket."""
    control = state.control
    _rank_on_rung(state)
    size = order_alive(state)
    _give_places(state, size)
    control[0].current += 1
    control[0].stale = 1
    if control[0].current < n_rungs(state):
        keep = max(state.rules[0].top, math.floor(size / state.rules[0].eta))
        keep_best(state, size, int(keep))
        _take_along(state)
    elif control[0].bracket + 1.0 < state.plan.shape[0]:
        control[0].bracket += 1
        enter_bracket(state)


@kernel
def _rank_on_rung(state: Budget) -> None:
    """Set the arms' keys to the sums of their values at this rung."""
    pulls, arms, rung = state.pulls, state.arms, state.control[0].current
    for arm in range(arms.shape[0]):
        arms[arm].key = 0.0
    for row in range(state.control[0].rows):
        if pulls[row].stage == rung:
            arms[pulls[row].arm].key += forecast(state, row, age(state, rung))


@inlined
def _give_places(state: Budget, size: int) -> None:
    """Set the arms' places: first by rung, then by the number of arms left behind on that rung."""
    arms, rung = state.arms, state.control[0].current
    for place in range(size):
        arms[arms[place].order].place = rung + 1.0 - (place + 1.0) / (size + 1.0)


@kernel
def keep_best(state: Budget, size: int, keep: int) -> None:
    """Remove all arms after the first `keep` in the order."""
    arms = state.arms
    for place in range(keep, size):
        arms[arms[place].order].status = OUT
    state.control[0].left = min(size, keep)


@kernel
def _take_along(state: Budget) -> None:
    """Count the pulls that continue on the rung that has just started."""
    pulls, arms, control = state.pulls, state.arms, state.control
    rung = control[0].current
    for arm in range(arms.shape[0]):
        arms[arm].started = 0
    control[0].unreached = 0
    control[0].missing = control[0].left * state.rules[0].pulls_each
    for row in range(control[0].rows):
        arm = pulls[row].arm
        runs_on = pulls[row].state != STOPPED and arms[arm].status == ALIVE
        if pulls[row].stage == rung - 1 and runs_on:
            pulls[row].stage = rung
            pulls[row].reached = has_reached(state, row, rung)
            arms[arm].started += 1
            control[0].missing -= 1
            control[0].unreached += 1 - pulls[row].reached

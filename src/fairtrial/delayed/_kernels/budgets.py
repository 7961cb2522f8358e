"""Decisions of the rules with a budget: which pulls start, which arms go on, what is cancelled."""

import numpy as np

from fairtrial.delayed._kernels.budget_state import (
    ALIVE,
    DONE,
    MEDIAN,
    NOWHERE,
    OPEN,
    PROMOTION,
    RUNGS,
    STOPPED,
    Budget,
    add_reading,
    close_pull,
    open_pull,
)
from fairtrial.delayed._kernels.medians import file_means, is_below_median
from fairtrial.delayed._kernels.promotion import going_on, next_up, promote
from fairtrial.delayed._kernels.rounds import end_rounds, least_pulled, settle
from fairtrial.delayed._kernels.rungs import climb, enter_bracket, has_reached, lacking, n_rungs
from fairtrial.delayed._kernels.state import inlined, kernel

# The events of a pull. DATA: an unsolicited outcome of an arm.
READ, TELL, STOP, DATA = range(4)


@kernel
def set_out(state: Budget) -> None:
    """Move a state without any events to its first rung or round."""
    rule, arms, control = state.rules[0].rule, state.arms, state.control
    control[0].places = state.rules[0].top
    control[0].left = arms.shape[0]
    for arm in range(arms.shape[0]):
        arms[arm].status, arms[arm].rung = ALIVE, NOWHERE
    state.seen[:] = np.nan
    if rule == RUNGS:
        enter_bracket(state)
    elif rule == PROMOTION:
        control[0].waited_for = arms.shape[0]
    elif rule != MEDIAN:
        settle(state)
    control[0].over = _is_over(state)


@kernel
def start(state: Budget) -> int:
    """Start the pull that the rule chooses; return its row, or -1 if none can start now."""
    rule, arms, control = state.rules[0].rule, state.arms, state.control
    stage = control[0].current
    if rule == RUNGS:
        arm = lacking(state)
    elif rule == PROMOTION:
        arm = going_on(state)
        stage = arms[arm].rung
    elif rule == MEDIAN:
        arm = control[0].asked % arms.shape[0] if control[0].asked < state.rules[0].budget else -1
    else:
        arm = least_pulled(state)
    if arm < 0:
        return -1
    control[0].asked += 1
    arms[arm].issued += 1
    return open_pull(state, arm, stage)


@kernel
def happen(state: Budget, kind: int, at: int, place: int, value: float) -> None:
    """Process an event of a pull, and advance the arms that may go on."""
    row, pulls = at, state.pulls
    if kind == READ:
        add_reading(state, row, place, value)
    elif kind == STOP:
        close_pull(state, row, STOPPED)
    else:
        if kind == DATA:
            row = open_pull(state, at, NOWHERE)
        close_pull(state, row, DONE)
        pulls[row].outcome = value
        state.control[0].told += 1
    _go_on(state, row)
    state.control[0].over = _is_over(state)


@inlined
def _go_on(state: Budget, row: int) -> None:
    rule = state.rules[0].rule
    if rule == RUNGS:
        climb(state, row)
    elif rule == PROMOTION:
        promote(state, row)
    elif rule == MEDIAN:
        file_means(state, row)
    elif state.pulls[row].state != OPEN:
        end_rounds(state)


@inlined
def _is_over(state: Budget) -> bool:
    rule, control = state.rules[0].rule, state.control
    if rule == RUNGS:
        return control[0].current == n_rungs(state)
    if rule == PROMOTION:
        return control[0].waited_for == 0 and next_up(state) < 0
    if rule == MEDIAN:
        return control[0].asked >= state.rules[0].budget and control[0].in_flight == 0
    return control[0].left == 0


@inlined
def is_unwanted(state: Budget, row: int) -> bool:
    """Return whether a pull in flight should be cancelled while the rule goes on."""
    rule, pulls, control = state.rules[0].rule, state.pulls, state.control
    if rule == RUNGS:
        on_rung = pulls[row].stage == control[0].current
        return not on_rung or (control[0].missing > 0 and pulls[row].reached > 0)
    if rule == PROMOTION:
        return has_reached(state, row, pulls[row].stage)
    if rule == MEDIAN:
        return is_below_median(state, row)
    return state.arms[pulls[row].arm].status != ALIVE

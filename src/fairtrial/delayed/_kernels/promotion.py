"""ASHA: arms climb rungs one by one, as soon as they are among the best."""

import math

import numpy as np

from fairtrial.delayed._kernels.budget_state import (
    NOWHERE,
    STOPPED,
    Budget,
    forecast,
)
from fairtrial.delayed._kernels.rungs import age, has_reached, n_rungs
from fairtrial.delayed._kernels.state import inlined, kernel


@inlined
def _is_waited_for(state: Budget, arm: int) -> bool:
    """Return whether an arm is untried or on its way to a rung."""
    rung = state.arms[arm].rung
    return rung < 0 or np.isnan(state.seen[rung, arm])


@kernel
def _send(state: Budget, arm: int, rung: float) -> None:
    """Send an arm to a rung."""
    control = state.control
    control[0].waited_for -= _is_waited_for(state, arm)
    state.arms[arm].rung = rung
    control[0].waited_for += _is_waited_for(state, arm)


@kernel
def going_on(state: Budget) -> int:
    """Send an arm that may go on, or else an untried one, to its next rung; return it, or -1."""
    arms = state.arms
    arm = next_up(state)
    if arm >= 0:
        _send(state, arm, arms[arm].rung + 1.0)
        return arm
    for untried in range(arms.shape[0]):
        if arms[untried].rung == NOWHERE:
            _send(state, untried, 0.0)
            return untried
    return -1


@kernel
def next_up(state: Budget) -> int:
    """Return the best arm on the highest rung that has one that may go on; -1 if there is none."""
    arms = state.arms
    for rung in range(n_rungs(state) - 2, -1, -1):
        best = -1
        for arm in range(arms.shape[0]):
            value = state.seen[rung, arm]
            waits = arms[arm].rung == rung and not np.isnan(value)
            if waits and (best < 0 or value > state.seen[rung, best]):
                best = arm
        if best >= 0 and _is_among_best(state, rung, best):
            return best
    return -1


@kernel
def _is_among_best(state: Budget, rung: int, arm: int) -> bool:
    """Return whether an arm is in the best 1 / eta of the arms that have reached a rung."""
    arms = state.arms
    own = state.seen[rung, arm]
    there, better = 0, 0
    for other in range(arms.shape[0]):
        value = state.seen[rung, other]
        if not np.isnan(value):
            there += 1
        if value > own or (value == own and other < arm):
            better += 1
    return better < math.floor(there / state.rules[0].eta)


@kernel
def promote(state: Budget, row: int) -> None:
    """Record the rungs that a pull has reached, as far as its arm may go on."""
    pulls, arms = state.pulls, state.arms
    arm = pulls[row].arm
    while pulls[row].stage != NOWHERE:
        rung = pulls[row].stage
        if not has_reached(state, row, rung):
            if pulls[row].state == STOPPED:
                pulls[row].stage = NOWHERE
                _send(state, arm, rung - 1.0)
            return
        if np.isnan(state.seen[rung, arm]):
            state.control[0].waited_for -= _is_waited_for(state, arm)
            state.seen[rung, arm] = forecast(state, row, age(state, rung))
            state.control[0].waited_for += _is_waited_for(state, arm)
        runs_on = pulls[row].state != STOPPED and rung + 1 < n_rungs(state)
        waits = arms[arm].rung == rung
        if not (runs_on and waits and _is_among_best(state, rung, arm)):
            return
        pulls[row].stage = rung + 1.0
        _send(state, arm, rung + 1.0)

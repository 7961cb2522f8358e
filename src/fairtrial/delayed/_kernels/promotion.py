"""Rungs that arms climb one by one, as soon as they are among the best: ASHA."""

import math

import numpy as np

from fairtrial.delayed._kernels.ledger import (
    ARM,
    ETA,
    GOES_TO,
    NOWHERE,
    SEEN,
    STAGE,
    STATE,
    STOPPED,
    WAITED,
    Ledger,
    forecast,
)
from fairtrial.delayed._kernels.rungs import age, has_reached, n_rungs
from fairtrial.delayed._kernels.state import inlined, kernel


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
def going_on(ledger: Ledger) -> int:
    """Return an arm that may go to its next rung, else an untried one, sent there; or -1."""
    arms = ledger.arms
    arm = next_up(ledger)
    if arm >= 0:
        _send(ledger, arm, arms[GOES_TO, arm] + 1.0)
        return arm
    for untried in range(arms.shape[1]):
        if arms[GOES_TO, untried] == NOWHERE:
            _send(ledger, untried, 0.0)
            return untried
    return -1


@kernel
def next_up(ledger: Ledger) -> int:
    """Return the best arm that waits on a rung and may go on, from the highest rung; or -1."""
    arms = ledger.arms
    for rung in range(n_rungs(ledger) - 2, -1, -1):
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
def promote(ledger: Ledger, row: int) -> None:
    """Write down which rungs a pull has reached, as far as its arm may go on."""
    pulls, arms = ledger.pulls, ledger.arms
    arm = int(pulls[row, ARM])
    while pulls[row, STAGE] != NOWHERE:
        rung = int(pulls[row, STAGE])
        if not has_reached(ledger, row, rung):
            if pulls[row, STATE] == STOPPED:
                pulls[row, STAGE] = NOWHERE
                _send(ledger, arm, rung - 1.0)
            return
        if np.isnan(arms[SEEN + rung, arm]):
            ledger.control[WAITED] -= _is_waited_for(ledger, arm)
            arms[SEEN + rung, arm] = forecast(ledger, row, age(ledger, rung))
            ledger.control[WAITED] += _is_waited_for(ledger, arm)
        runs_on = pulls[row, STATE] != STOPPED and rung + 1 < n_rungs(ledger)
        waits = arms[GOES_TO, arm] == rung
        if not (runs_on and waits and _is_among_best(ledger, rung, arm)):
            return
        pulls[row, STAGE] = rung + 1.0
        _send(ledger, arm, rung + 1.0)

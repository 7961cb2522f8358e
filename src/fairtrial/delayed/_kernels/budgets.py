"""What the rules with a budget decide: who is pulled next, who goes on, what is called back."""

import numpy as np

from fairtrial.delayed._kernels.ledger import (
    ALIVE,
    ARM,
    ASKED,
    BUDGET,
    BUSY,
    DONE,
    GOES_TO,
    ISSUED,
    LEFT,
    MEDIAN,
    MISSING,
    NOWHERE,
    OPEN,
    OUTCOME,
    OVER,
    PLACES,
    PROMOTION,
    REACHED,
    ROUND,
    RULE,
    RUNGS,
    SEEN,
    STAGE,
    STATE,
    STATUS,
    STOPPED,
    TOLD,
    TOP,
    WAITED,
    Ledger,
    add_reading,
    close_pull,
    open_pull,
)
from fairtrial.delayed._kernels.medians import file_means, is_below_median
from fairtrial.delayed._kernels.promotion import going_on, next_up, promote
from fairtrial.delayed._kernels.rounds import end_rounds, least_pulled, settle
from fairtrial.delayed._kernels.rungs import climb, enter_bracket, has_reached, lacking, n_rungs
from fairtrial.delayed._kernels.state import inlined, kernel

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
        enter_bracket(ledger)
    elif rule == PROMOTION:
        control[WAITED] = arms.shape[1]
    elif rule != MEDIAN:
        settle(ledger)
    control[OVER] = _is_over(ledger)


@kernel
def start(ledger: Ledger) -> int:
    """Start the pull that the rule chooses; return its row, -1 if there is none now."""
    rule, arms, control = ledger.rules[RULE], ledger.arms, ledger.control
    stage = control[ROUND]
    if rule == RUNGS:
        arm = lacking(ledger)
    elif rule == PROMOTION:
        arm = going_on(ledger)
        stage = arms[GOES_TO, arm]
    elif rule == MEDIAN:
        arm = int(control[ASKED]) % arms.shape[1] if control[ASKED] < ledger.rules[BUDGET] else -1
    else:
        arm = least_pulled(ledger)
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
        climb(ledger, row)
    elif rule == PROMOTION:
        promote(ledger, row)
    elif rule == MEDIAN:
        file_means(ledger, row)
    elif ledger.pulls[row, STATE] != OPEN:
        end_rounds(ledger)


@inlined
def _is_over(ledger: Ledger) -> bool:
    rule, control = ledger.rules[RULE], ledger.control
    if rule == RUNGS:
        return control[ROUND] == n_rungs(ledger)
    if rule == PROMOTION:
        return control[WAITED] == 0.0 and next_up(ledger) < 0
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
        return has_reached(ledger, row, int(pulls[row, STAGE]))
    if rule == MEDIAN:
        return is_below_median(ledger, row)
    return ledger.arms[STATUS, int(pulls[row, ARM])] != ALIVE

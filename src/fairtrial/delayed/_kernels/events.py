"""The effect of one event on a race: a start, a reading, an outcome, a stop.

All events go through one function, so its parts are compiled only once.
"""

from typing import Any

from fairtrial.core.arithmetic import square
from fairtrial.delayed._kernels.boxes import add_to_boxes, estimate_boxes, follow_oldest
from fairtrial.delayed._kernels.deciding import decide, finish_if_settled
from fairtrial.delayed._kernels.information import add_information, estimate_from_information
from fairtrial.delayed._kernels.state import (
    DONE,
    INFORMATION_BOX,
    OPEN,
    STOPPED,
    SURVIVES,
    Race,
    add_reading,
    forget_readings,
    inlined,
    kernel,
    open_pull,
    release,
    sigma_of,
)
from fairtrial.delayed._kernels.student import add_outcome, estimate_by_student


@inlined
def _add_to(race: Race, row: int, sums: Any) -> None:
    if race.rules[0].estimates_noise > 0:
        add_outcome(race, row, sums)
    elif race.rules[0].rule <= INFORMATION_BOX:
        add_information(race, row, sums)
    else:
        add_to_boxes(race, row, sums)


@kernel
def _fold(race: Race, arm: int) -> None:
    """Fold pulls into the running sums, up to the first pull that can still change."""
    arms = race.arms
    row = arms[arm].front
    while row >= 0:
        state = race.pulls[row].state
        if state == OPEN or (race.rules[0].complete_runs_only > 0 and state != DONE):
            break
        _add_to(race, row, arms[arm].folded)
        row = race.pulls[row].next
    arms[arm].front = row


@kernel
def _fold_again(race: Race, arm: int) -> None:
    """Recompute the running sums after a change to a pull that they include."""
    arms = race.arms
    arms[arm].folded = race.nothing[0]
    arms[arm].front = arms[arm].first
    _fold(race, arm)


@inlined
def _add_up(race: Race, arm: int) -> None:
    """Set an arm's sums: the running sums plus its pulls in flight."""
    arms, total = race.arms, race.arms[arm].total
    arms[arm].total = arms[arm].folded
    row = arms[arm].front
    while row >= 0:
        if race.rules[0].complete_runs_only == 0:
            _add_to(race, row, total)
        elif race.rules[0].estimates_noise > 0:
            total.expected += 1.0
        elif race.rules[0].rule <= INFORMATION_BOX:
            total.hoped += 1.0 / square(sigma_of(race, arm))
        row = race.pulls[row].next


@kernel
def _refresh(race: Race, arm: int) -> None:
    """Estimate an arm again and make the decisions that follow."""
    arms = race.arms
    before_lower, before_upper = arms[arm].lower, arms[arm].upper
    _add_up(race, arm)
    if race.rules[0].estimates_noise > 0:
        estimate_by_student(race, arm)
    elif race.rules[0].rule <= INFORMATION_BOX:
        estimate_from_information(race, arm)
    else:
        follow_oldest(race, arm)
        estimate_boxes(race, arm)
    if arms[arm].status == SURVIVES and race.control[0].halted == 0:
        decide(race, arm, before_lower, before_upper)


START, READ, READ_ONLY, FORGET, CHANGED, TELL, CORRECT, STOP, SETTLE, REVIEW = range(10)


@kernel
def happen(race: Race, kind: int, at: int, first: float, second: float, third: float) -> int:
    """Process an event; return the row of its pull.

    ======== ======= ==================== =============================================
    kind     `at`    numbers              what happens
    ======== ======= ==================== =============================================
    START    arm     number, duration     a pull starts
    READ     row     stage, value, std    the newest reading of a pull arrives
    FORGET   row                          the readings of a pull are cleared
    READ_ONLY row    stage, value, std    a reading is added, without any decision
    CHANGED  row                          the cleared readings have been added again
    TELL     row     value                the outcome arrives, in time or after a stop
    CORRECT  row     value                the outcome is replaced
    STOP     row                          no outcome is expected; the readings stay
    SETTLE                                all are accepted if there is a place for each
    REVIEW   arm                          postponed decisions are made
    ======== ======= ==================== =============================================
    """
    if kind == SETTLE:
        finish_if_settled(race)
        return -1
    if kind == REVIEW:
        _refresh(race, at)
        return -1
    if kind == START:
        row = open_pull(race, at, first, second)
        _refresh(race, at)
        return row
    folded = race.pulls[at].state != OPEN
    arm = race.pulls[at].arm
    if kind == FORGET:
        forget_readings(race, at)
        return at
    if kind == READ_ONLY:
        add_reading(race, at, first, second, third)
        return at
    if kind == READ:
        race.control[0].readings += 1
        if not add_reading(race, at, first, second, third):
            return at
    elif kind == CHANGED:
        race.control[0].readings += 1
    elif kind == TELL:
        _complete(race, at, first)
    elif kind == CORRECT:
        _replace(race, at, first)
    elif kind == STOP:
        _stop(race, at)
    if folded:
        _fold_again(race, arm)
    elif kind != READ:
        _fold(race, arm)
    _refresh(race, arm)
    return at


@kernel
def _complete(race: Race, row: int, value: float) -> None:
    pulls = race.pulls
    arms, arm = race.arms, race.pulls[row].arm
    if pulls[row].state == OPEN:
        release(race, row)
    pulls[row].state, pulls[row].outcome = DONE, value
    if pulls[row].readings > 0:
        pulls[row].bias, pulls[row].has_bias = pulls[row].total / pulls[row].readings - value, 1.0
    arms[arm].completed += 1
    race.control[0].results += 1
    if arms[arm].followed == row:
        arms[arm].followed = -1
    elif pulls[row].in_sequence == 0 and arms[arm].followed >= 0:
        arms[arm].has_passed = 1
    pulls[row].in_sequence = 1


@kernel
def _replace(race: Race, row: int, value: float) -> None:
    pulls = race.pulls
    pulls[row].bias += pulls[row].outcome - value
    pulls[row].outcome = value


@kernel
def _stop(race: Race, row: int) -> None:
    arms, arm = race.arms, race.pulls[row].arm
    release(race, row)
    race.pulls[row].state = STOPPED
    if arms[arm].followed == row:
        arms[arm].followed = -1

"""Rounds that keep fewer and fewer arms: sequential halving and successive rejects."""

from fairtrial.delayed._kernels.budget_state import (
    ACCEPTED,
    ALIVE,
    OUT,
    ROUNDS,
    Budget,
    average,
    order_alive,
)
from fairtrial.delayed._kernels.rungs import keep_best
from fairtrial.delayed._kernels.state import inlined, kernel


@kernel
def least_pulled(state: Budget) -> int:
    """Return the remaining arm with the fewest pulls; -1 if the round has all of its pulls."""
    arms = state.arms
    found, fewest = -1, state.plan[state.control[0].current, 0]
    for arm in range(arms.shape[0]):
        if arms[arm].status == ALIVE and arms[arm].issued < fewest:
            found, fewest = arm, arms[arm].issued
    return found


@inlined
def end_rounds(state: Budget) -> None:
    """Remove arms until the current round still needs pulls."""
    control = state.control
    while control[0].left > 0 and _round_is_over(state):
        _cut(state)
        control[0].current += 1
        control[0].stale = 1
        settle(state)


@kernel
def _round_is_over(state: Budget) -> bool:
    arms, goal = state.arms, state.plan[state.control[0].current, 0]
    for arm in range(arms.shape[0]):
        lacks = arms[arm].issued < goal or arms[arm].in_flight > 0
        if arms[arm].status == ALIVE and lacks:
            return False
    return True


@kernel
def _cut(state: Budget) -> None:
    """Remove arms at the end of a round, by the means of all their outcomes."""
    arms, control = state.arms, state.control
    average(state)
    for arm in range(arms.shape[0]):
        arms[arm].key = arms[arm].estimate
    size = order_alive(state)
    if state.rules[0].rule == ROUNDS:
        keep_best(state, size, int(state.plan[control[0].current, 1]))
        return
    clear = _clearest(state, size)
    arms[arms[clear].order].status = ACCEPTED if clear == 0 else OUT
    control[0].places -= clear == 0
    control[0].left -= 1


@inlined
def _clearest(state: Budget, size: int) -> int:
    """Return the clearest place in the order: the best arm, to accept, or the worst, to reject."""
    arms, places = state.arms, state.control[0].places
    best, worst = arms[arms[0].order].key, arms[arms[size - 1].order].key
    last_in = arms[arms[places - 1].order].key
    first_out = arms[arms[places].order].key
    # With one arm wanted this is the published rule: the worst arm is rejected.
    return 0 if state.rules[0].top > 1 and best - first_out > last_in - worst else size - 1


@kernel
def settle(state: Budget) -> None:
    """Accept all remaining arms if there is a place for each."""
    arms, control = state.arms, state.control
    if control[0].left > control[0].places > 0:
        return
    status = ACCEPTED if control[0].places > 0 else OUT
    for arm in range(arms.shape[0]):
        if arms[arm].status == ALIVE:
            arms[arm].status = status
    control[0].left = 0

"""Rounds that leave fewer and fewer arms: sequential halving, and successive rejects."""

from fairtrial.delayed._kernels.ledger import (
    ACCEPTED,
    ALIVE,
    IN_FLIGHT,
    ISSUED,
    KEY,
    LEFT,
    MEAN,
    ORDER,
    OUT,
    PLACES,
    ROUND,
    ROUNDS,
    RULE,
    STALE,
    STATUS,
    TOP,
    Ledger,
    average,
    order_alive,
)
from fairtrial.delayed._kernels.rungs import keep_best
from fairtrial.delayed._kernels.state import inlined, kernel


@kernel
def least_pulled(ledger: Ledger) -> int:
    """Return the arm left that was pulled least, -1 until the round has ended."""
    arms = ledger.arms
    found, fewest = -1, ledger.plan[int(ledger.control[ROUND]), 0]
    for arm in range(arms.shape[1]):
        if arms[STATUS, arm] == ALIVE and arms[ISSUED, arm] < fewest:
            found, fewest = arm, arms[ISSUED, arm]
    return found


@inlined
def end_rounds(ledger: Ledger) -> None:
    """Let arms leave for as long as the round has ended."""
    control = ledger.control
    while control[LEFT] > 0.0 and _round_is_over(ledger):
        _cut(ledger)
        control[ROUND] += 1.0
        control[STALE] = 1.0
        settle(ledger)


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
        keep_best(ledger, size, int(ledger.plan[int(control[ROUND]), 1]))
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
def settle(ledger: Ledger) -> None:
    """Accept all that are left once there is a place for each."""
    arms, control = ledger.arms, ledger.control
    if control[LEFT] > control[PLACES] > 0.0:
        return
    status = ACCEPTED if control[PLACES] > 0.0 else OUT
    for arm in range(arms.shape[1]):
        if arms[STATUS, arm] == ALIVE:
            arms[STATUS, arm] = status
    control[LEFT] = 0.0

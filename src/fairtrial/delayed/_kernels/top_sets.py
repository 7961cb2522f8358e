"""Block betting on the best k arms: targets, and the wealth against every other set.

The target of a block is the set of the k leading arms. Any other set of k arms contains an arm j
that is outside the target, and lacks an arm b that is inside it. If that set is the right answer, j
is at least as good as b. One ledger for each such pair (j, b) therefore bounds the wealth against
all sets. docs/explanation/delayed.md has the proof, and how ledgers are carried from one target to
the next.
"""

import math

import numpy as np

from fairtrial.core.compilation import counted, inlined, uncounted
from fairtrial.delayed._kernels.block_state import Floats, Plans, Rules, Wealth

NO_TARGET = -1.0
"""Marks every arm before the first bet."""


@uncounted
def find_target(means: Floats, top: int, inside: Floats) -> None:
    """Mark the arms with the largest means; of equal arms, the first."""
    for arm in range(means.size):
        better = 0
        for other in range(means.size):
            ahead = means[other] == means[arm] and other < arm
            better += means[other] > means[arm] or ahead
        inside[arm] = 1.0 if better < top else 0.0


@uncounted
def find_places(means: Floats, inside: Floats, place: Floats) -> None:
    """Fill each arm's place among those on its side, the clearest case first."""
    for arm in range(means.size):
        place[arm] = 0.0
        for other in range(means.size):
            if other == arm or inside[other] != inside[arm]:
                continue
            gap = means[other] - means[arm]
            clearer = gap > 0.0 if inside[arm] > 0.0 else gap < 0.0
            place[arm] += clearer or (gap == 0.0 and other < arm)


@inlined
def is_live(wealth: Wealth, inside: Floats, j: int, b: int) -> bool:
    """Return whether j is outside and b inside the target, and j can still be as good as b."""
    return inside[j] == 0.0 and inside[b] > 0.0 and wealth.ledgers[j, b] < math.inf


@uncounted
def find_runner_up(plans: Plans, slot: int, top: int) -> tuple[int, int]:
    """Return the best arm outside a block's target, and the worst inside, by the estimates."""
    best = -1
    worst = -1
    arms = plans.place.shape[1]
    for arm in range(arms):
        if plans.inside[slot, arm] > 0.0 and plans.place[slot, arm] == top - 1:
            worst = arm
        elif plans.inside[slot, arm] == 0.0 and plans.place[slot, arm] == arms - top - 1:
            best = arm
    return best, worst


@inlined
def is_target(wealth: Wealth, inside: Floats) -> bool:
    """Return whether the ledgers belong to the marked target."""
    same = True
    for arm in range(inside.size):
        same = same and wealth.target[arm] == inside[arm]
    return same


@uncounted
def keeps_target(wealth: Wealth, plans: Plans, first: int, last: int) -> bool:
    """Return whether all open blocks with bets have the target that the ledgers belong to.

    Open blocks have serial numbers from `first` up to, but not including, `last`.
    """
    if wealth.target[0] == NO_TARGET:
        return False
    for serial in range(max(first, 1), last):
        if not is_target(wealth, plans.inside[serial % plans.inside.shape[0]]):
            return False
    return True


@uncounted
def mark_live_arms(wealth: Wealth, plans: Plans, first: int, last: int, live: Floats) -> bool:
    """Mark the arms whose results a bet can still need; return whether these are all arms."""
    for arm in range(live.size):
        live[arm] = 1.0
    if not keeps_target(wealth, plans, first, last):
        return True
    inside = wealth.target
    every = True
    for arm in range(live.size):
        live[arm] = 0.0
        for other in range(live.size):
            if is_live(wealth, inside, arm, other) or is_live(wealth, inside, other, arm):
                live[arm] = 1.0
                break
        every = every and live[arm] > 0.0
    return every


# --------------------------------------------------------------------- another target


@counted
def carry(rules: Rules, wealth: Wealth, inside: Floats, place: Floats) -> None:
    """Convert the ledgers of the last target to those of another target, if it differs.

    The old evidence against a set with arm j and without b is in the ledger of that set's clearest
    pair. That pair is unknown, except that its arms come no later in the order than j and b, so the
    smallest ledger of all such pairs counts.
    """
    number = inside.size
    if is_target(wealth, inside):
        return
    if rules.tolerance == 0.0 and wealth.target[0] != NO_TARGET:
        least = np.empty((number, number))
        for j in range(number):
            for b in range(number):
                least[j, b] = _least_before(rules.top, wealth, j, b)
        own = _own_wealth(wealth, inside)
        for j in range(number):
            for b in range(number):
                wealth.ledgers[j, b] = least[j, b]
        wealth.own[0] = own
    for arm in range(number):
        wealth.target[arm] = inside[arm]
        wealth.order[arm] = place[arm]


@uncounted
def _least_before(top: int, wealth: Wealth, j: int, b: int) -> float:
    """Return the smallest wealth so far against any set with arm j and without arm b."""
    if j == b:
        return 0.0
    number = wealth.target.size
    order = wealth.order
    inside = wealth.target[j] > 0.0
    outside = wealth.target[b] == 0.0
    least = wealth.own[0] if inside and outside else math.inf
    if (top == 1 and inside) or (top == number - 1 and outside):
        return least
    for first in range(number):
        if wealth.target[first] > 0.0:
            continue
        if not inside and (order[first] > order[j] or (top == 1 and first != j)):
            continue
        for second in range(number):
            if wealth.target[second] == 0.0:
                continue
            if not outside and (order[second] > order[b] or (top == number - 1 and second != b)):
                continue
            least = min(least, wealth.ledgers[first, second])
    return least


@uncounted
def _own_wealth(wealth: Wealth, inside: Floats) -> float:
    """Return the wealth so far against the new target."""
    j = -1
    b = -1
    for arm in range(inside.size):
        joins = inside[arm] > 0.0 and wealth.target[arm] == 0.0
        leaves = inside[arm] == 0.0 and wealth.target[arm] > 0.0
        if joins and (j < 0 or wealth.order[arm] < wealth.order[j]):
            j = arm
        if leaves and (b < 0 or wealth.order[arm] < wealth.order[b]):
            b = arm
    return wealth.ledgers[j, b]


@uncounted
def ledger_of(rules: Rules, wealth: Wealth, inside: Floats, j: int, b: int) -> float:
    """Return what the ledger of a pair will hold once the marked set is the target."""
    is_carried = rules.tolerance == 0.0 and wealth.target[0] != NO_TARGET
    if is_carried and not is_target(wealth, inside):
        return _least_before(rules.top, wealth, j, b)
    return wealth.ledgers[j, b]


@uncounted
def wealth_against(wealth: Wealth, inside: Floats) -> float:
    """Return the wealth against the marked set."""
    if wealth.target[0] == NO_TARGET:
        return 0.0
    return wealth.own[0] if is_target(wealth, inside) else _own_wealth(wealth, inside)


# ----------------------------------------------------------- a target that is rejected


@uncounted
def replace_rejected(wealth: Wealth, means: Floats, inside: Floats) -> None:
    """Mark another target than a rejected set: the last one, or one that differs in two arms."""
    for arm in range(inside.size):
        inside[arm] = wealth.target[arm]
    if wealth.own[0] < math.inf:
        return
    joins = -1
    leaves = -1
    nearest = -math.inf
    for j in range(inside.size):
        for b in range(inside.size):
            if is_live(wealth, wealth.target, j, b) and means[j] - means[b] > nearest:
                nearest = means[j] - means[b]
                joins = j
                leaves = b
    if joins >= 0:
        inside[joins] = 1.0
        inside[leaves] = 0.0


@inlined
def is_settled(wealth: Wealth, inside: Floats) -> bool:
    """Return whether every arm outside the marked set is rejected against every arm inside it."""
    for j in range(inside.size):
        for b in range(inside.size):
            if is_live(wealth, inside, j, b):
                return False
    return True


@counted
def take_settled_set(wealth: Wealth, means: Floats, top: int) -> bool:
    """Make the leading arms the target if they are settled; return whether they are.

    With a tolerance each pair has a ledger of its own, on which blocks with different targets bet,
    so a set can be settled by a block that has another target.
    """
    inside = np.empty(means.size)
    find_target(means, top, inside)
    if not is_settled(wealth, inside):
        return False
    for arm in range(means.size):
        wealth.target[arm] = inside[arm]
    return True


@uncounted
def take_last_set(wealth: Wealth) -> bool:
    """Make the last set that is left the target, if the target is rejected; return whether it is.

    A pair that is live stands for all sets of which it is the clearest pair. It is one set if no
    later arm can join it, or none can leave it.
    """
    arms = wealth.target.size
    joins = -1
    leaves = -1
    live = 0
    for j in range(arms):
        for b in range(arms):
            if is_live(wealth, wealth.target, j, b):
                live += 1
                joins = j
                leaves = b
    if live != 1:
        return False
    others_join = others_leave = False
    for arm in range(arms):
        if wealth.target[arm] > 0.0:
            others_leave = others_leave or wealth.order[arm] > wealth.order[leaves]
        else:
            others_join = others_join or wealth.order[arm] > wealth.order[joins]
    if others_join and others_leave:
        return False
    wealth.own[0] = wealth.ledgers[joins, leaves]
    wealth.target[joins] = 1.0
    wealth.target[leaves] = 0.0
    for j in range(arms):
        for b in range(arms):
            if wealth.target[j] == 0.0 and wealth.target[b] > 0.0:
                wealth.ledgers[j, b] = math.inf
    return True

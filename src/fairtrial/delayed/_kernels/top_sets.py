"""Block betting on which k arms are the best: the plan of a block, and what it pays.

A block has a target, the k arms that lead. A set of k arms other than the target holds an arm j
outside of it and lacks an arm b inside of it; if the set is right, j is at least as good as b. So
one ledger for each such pair (j, b) bounds the wealth against all sets. Proof, and how ledgers are
carried from one target to the next: docs/explanation/delayed.md.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.bets import (
    GRID,
    RESULTS_PER_LOG,
    bounded_stakes,
    flush_products,
    log_bet,
    log_mixture,
    multiply_factor,
)
from fairtrial.core.compilation import kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PRIOR_DRAWS = 2.0
"""Draws of a fair coin over the range that the variance of an arm is shrunk by."""

COUNT, MEAN, SQUARES = range(3)
"""Rows of the data: outcomes of each arm, their mean, the sum of squares about it."""

PLANNED, EARLIER, ESTIMATE, SPREAD, SIDE, PLACE = range(6)
"""Rows of a frozen block: draws planned, outcomes before it, mean and variance by them, whether an
arm is in the target, and its place in the order by which ledgers are carried on."""

FROZEN = 6

TARGET, ORDER, OWN = range(3)
"""Rows of what goes with the ledger: the target it belongs to (-1 for none yet), the order of the
arms, and (in the first place) the wealth against the target itself."""


class Rules(NamedTuple):
    """The constants of the method; see docs/explanation/block-betting.md.

    Rewards are in [0, 1] if `bounded`. With a `tolerance` every pair is tested on its own, at the
    `threshold` for all pairs.
    """

    bounded: bool
    tolerance: float
    threshold: float
    top: int
    growth: float
    touch: float
    kappa: float
    cost: float
    steps: int
    pause: float


@kernel
def add_value(data: Floats, arm: int, value: float) -> None:
    """Add an outcome to the data."""
    data[COUNT, arm] += 1.0
    gap = value - data[MEAN, arm]
    data[MEAN, arm] += gap / data[COUNT, arm]
    data[SQUARES, arm] += gap * (value - data[MEAN, arm])


@kernel
def correct_value(data: Floats, arm: int, old: float, new: float) -> None:
    """Replace an outcome in the data."""
    mean = data[MEAN, arm] + (new - old) / data[COUNT, arm]
    change = (new - old) * (new - mean + old - data[MEAN, arm])
    data[SQUARES, arm] = max(0.0, data[SQUARES, arm] + change)
    data[MEAN, arm] = mean


# ------------------------------------------------------------------------------ plans


@kernel
def find_target(means: Floats, top: int, side: Floats) -> None:
    """Mark the arms of largest mean; of equal ones the first."""
    for arm in range(means.size):
        better = 0
        for other in range(means.size):
            ahead = means[other] == means[arm] and other < arm
            better += means[other] > means[arm] or ahead
        side[arm] = 1.0 if better < top else 0.0


@kernel
def _variances(rules: Rules, data: Floats, variances: Floats, filled: Floats) -> None:
    """Fill the variance of a draw: the stated one, or the observed one shrunk to a fair coin."""
    for arm in range(filled.size):
        filled[arm] = variances[arm]
        if rules.bounded:
            squares = data[SQUARES, arm] + 0.25 * PRIOR_DRAWS
            filled[arm] = squares / (data[COUNT, arm] + PRIOR_DRAWS)


@kernel
def plan_block(
    rules: Rules, data: Floats, variances: Floats, ledger: Floats, carried: Floats,
    shares: Floats, frozen: Floats, batch: float,
) -> float:  # fmt: skip
    """Freeze the next block, against the arms that lead; return the draws left, by forecast."""
    for arm in range(shares.size):
        frozen[EARLIER, arm], frozen[ESTIMATE, arm] = data[COUNT, arm], data[MEAN, arm]
    find_target(frozen[ESTIMATE], rules.top, frozen[SIDE])
    if rules.tolerance == 0.0 and wealth_against(frozen, ledger, carried) == math.inf:
        # A set that was rejected leads again: the bets stay with the last target.
        for arm in range(shares.size):
            frozen[SIDE, arm] = carried[TARGET, arm]
    _variances(rules, data, variances, frozen[SPREAD])
    _order(frozen)
    forecast = _find_shares(rules, ledger, frozen, shares)
    _fill_counts(rules, ledger, frozen, shares, batch)
    return forecast


@kernel
def _order(frozen: Floats) -> None:
    """Fill each arm's place among those of its side: the clearest case first."""
    number = frozen.shape[1]
    for arm in range(number):
        place = 0.0
        for other in range(number):
            if other == arm or frozen[SIDE, other] != frozen[SIDE, arm]:
                continue
            gap = frozen[ESTIMATE, other] - frozen[ESTIMATE, arm]
            clearer = gap > 0.0 if frozen[SIDE, arm] > 0.0 else gap < 0.0
            place += clearer or (gap == 0.0 and other < arm)
        frozen[PLACE, arm] = place


@kernel
def _gap(rules: Rules, frozen: Floats, j: int, b: int) -> float:
    return max(frozen[ESTIMATE, b] - frozen[ESTIMATE, j] + rules.tolerance, 0.0)


@kernel
def _is_live(ledger: Floats, frozen: Floats, j: int, b: int) -> bool:
    return frozen[SIDE, j] == 0.0 and frozen[SIDE, b] > 0.0 and ledger[j, b] < math.inf


@kernel
def _find_shares(rules: Rules, ledger: Floats, frozen: Floats, shares: Floats) -> float:
    """Set the shares of draws that settle the neediest pair soonest; return the draws it takes.

    A pair's information is gap^2 / (v_b / w_b + v_j / w_j); each step moves the shares towards
    what the pair that would be settled last can use.
    """
    number = shares.size
    least = 0.3 / number
    for arm in range(number):
        shares[arm] = 0.7 * shares[arm] + least
    for step in range(rules.steps):
        worst, first, second = _weakest_pair(rules, ledger, frozen, shares)
        if first < 0:
            return 0.0
        rate = 1.0 / (8.0 + step)
        own = frozen[SPREAD, first] / shares[first]
        other = frozen[SPREAD, second] / shares[second]
        for arm in range(number):
            shares[arm] *= 1.0 - rate
        shares[first] += rate * own / (own + other)
        shares[second] += rate * other / (own + other)
    worst, first, second = _weakest_pair(rules, ledger, frozen, shares)
    return 2.0 / worst if worst > 0.0 else math.inf


@kernel(error_model="numpy")
def _weakest_pair(
    rules: Rules, ledger: Floats, frozen: Floats, shares: Floats
) -> tuple[float, int, int]:
    """Return information per need of the pair for which that is least, and the pair."""
    number = shares.size
    worst, first, second = math.inf, -1, -1
    for j in range(number):
        if frozen[SIDE, j] > 0.0:
            continue
        for b in range(number):
            if not _is_live(ledger, frozen, j, b):
                continue
            gap = _gap(rules, frozen, j, b)
            # A gap near nothing is taken for its standard error.
            error = frozen[SPREAD, b] / frozen[EARLIER, b] + frozen[SPREAD, j] / frozen[EARLIER, j]
            square = gap * gap + rules.kappa * error
            value = square / (frozen[SPREAD, b] / shares[b] + frozen[SPREAD, j] / shares[j])
            need = max(0.0, rules.threshold - ledger[j, b]) + rules.cost
            if value / need < worst:
                worst, first, second = value / need, j, b
    return worst, first, second


@kernel
def _fill_counts(
    rules: Rules, ledger: Floats, frozen: Floats, shares: Floats, batch: float
) -> None:
    """Fill the draws of the block: at least one of every arm of a live pair."""
    number, support, whole, earlier = shares.size, 0, 0.0, 0.0
    for arm in range(number):
        frozen[PLANNED, arm] = 0.0
        earlier += frozen[EARLIER, arm]
        for other in range(number):
            if _is_live(ledger, frozen, arm, other) or _is_live(ledger, frozen, other, arm):
                frozen[PLANNED, arm] = 1.0
        if frozen[PLANNED, arm] > 0.0:
            support += 1
            whole += shares[arm]
    size = batch if batch > 0.0 else max(math.ceil(rules.growth * earlier), rules.touch * support)
    for arm in range(number):
        if frozen[PLANNED, arm] > 0.0:
            frozen[PLANNED, arm] = max(1.0, round(size * shares[arm] / whole))


# ------------------------------------------------------------------------------- bets


@kernel
def _known_gain(rules: Rules, frozen: Floats, sums: Floats, got: Floats, j: int, b: int) -> float:
    """Return what a pair wins on noise of a known scale, from the draws that came."""
    if got[j] == 0.0 or got[b] == 0.0:
        return 0.0
    earlier = frozen[SPREAD, b] / frozen[EARLIER, b] + frozen[SPREAD, j] / frozen[EARLIER, j]
    inside = frozen[SPREAD, b] / got[b] + frozen[SPREAD, j] / got[j]
    deviation = math.sqrt(earlier)
    effect = frozen[ESTIMATE, b] - frozen[ESTIMATE, j] + rules.tolerance
    seen = sums[b] / got[b] - sums[j] / got[j] + rules.tolerance
    return log_bet(effect / deviation, earlier / inside, seen / deviation)


@kernel
def _bounded_gain(
    rules: Rules, frozen: Floats, values: Floats, starts: Integers, j: int, b: int,
    thetas: Floats, stakes: Floats, products: Floats, logs: Floats,
) -> float:  # fmt: skip
    """Return what a pair wins on rewards in [0, 1]; a lost one (NaN) counts as its worst."""
    planned_b, planned_j = frozen[PLANNED, b], frozen[PLANNED, j]
    spread_b, spread_j = frozen[SPREAD, b], frozen[SPREAD, j]
    earlier = spread_b / frozen[EARLIER, b] + spread_j / frozen[EARLIER, j]
    effect = frozen[ESTIMATE, b] - frozen[ESTIMATE, j] + rules.tolerance
    weight_b, weight_j = planned_b / spread_b, planned_j / spread_j
    middle = weight_b * frozen[ESTIMATE, b] + weight_j * (frozen[ESTIMATE, j] - rules.tolerance)
    centre_b = min(max(middle / (weight_b + weight_j), 0.0), 1.0)
    centre_j = min(max(centre_b + rules.tolerance, 0.0), 1.0)
    at_centre = centre_b - centre_j + rules.tolerance
    inside = (spread_b + (frozen[ESTIMATE, b] - centre_b) ** 2) / planned_b
    inside += (spread_j + (frozen[ESTIMATE, j] - centre_j) ** 2) / planned_j
    ruin = max(centre_b / planned_b, (1.0 - centre_j) / planned_j)
    deviation = math.sqrt(earlier)
    cash = bounded_stakes(effect / deviation, deviation, inside, ruin, thetas, stakes)
    for point in range(GRID):
        products[point], logs[point] = 1.0, thetas[point] * at_centre
    drawn = 0
    for row in range(starts[b], starts[b + 1]):
        value = 0.0 if math.isnan(values[row]) else values[row]
        multiply_factor(thetas, products, (value - centre_b) / planned_b)
        drawn += 1
        if drawn % RESULTS_PER_LOG == 0:
            flush_products(products, logs)
    for row in range(starts[j], starts[j + 1]):
        value = 1.0 if math.isnan(values[row]) else values[row]
        multiply_factor(thetas, products, (centre_j - value) / planned_j)
        drawn += 1
        if drawn % RESULTS_PER_LOG == 0:
            flush_products(products, logs)
    flush_products(products, logs)
    return log_mixture(cash, stakes, logs)


@kernel
def pay_block(
    rules: Rules, frozen: Floats, values: Floats, starts: Integers, ledger: Floats, carried: Floats
) -> bool:
    """Pay the bets of a complete block; return whether its target is the only set left.

    `values` are the block's rewards, arm by arm, those of an arm from ``starts[arm]`` on; NaN where
    one got lost.
    """
    number = frozen.shape[1]
    carry(rules, frozen, ledger, carried)
    sums, got = np.zeros(number), np.zeros(number)
    for arm in range(number):
        for row in range(starts[arm], starts[arm + 1]):
            if not math.isnan(values[row]):
                sums[arm] += values[row]
                got[arm] += 1.0
    thetas, stakes = np.empty(GRID), np.empty(GRID)
    products, logs = np.empty(GRID), np.empty(GRID)
    finished = True
    for j in range(number):
        for b in range(number):
            if not _is_live(ledger, frozen, j, b):
                continue
            if _may_bet(rules, frozen, j, b):
                if rules.bounded:
                    ledger[j, b] += _bounded_gain(
                        rules, frozen, values, starts, j, b, thetas, stakes, products, logs
                    )
                else:
                    ledger[j, b] += _known_gain(rules, frozen, sums, got, j, b)
                if ledger[j, b] >= rules.threshold:
                    ledger[j, b] = math.inf
            finished = finished and ledger[j, b] == math.inf
    return finished


@kernel
def _may_bet(rules: Rules, frozen: Floats, j: int, b: int) -> bool:
    """Return whether a block has draws of both arms, and their order is not quite unclear."""
    if frozen[PLANNED, j] == 0.0 or frozen[PLANNED, b] == 0.0:
        return False
    earlier = frozen[SPREAD, b] / frozen[EARLIER, b] + frozen[SPREAD, j] / frozen[EARLIER, j]
    return _gap(rules, frozen, j, b) ** 2 >= rules.pause**2 * earlier


# --------------------------------------------------------------------- another target


@kernel
def carry(rules: Rules, frozen: Floats, ledger: Floats, carried: Floats) -> None:
    """Turn the ledger of the last target into that of a block's target, if it is another one.

    The set with the arm j and without b was followed by the pair of its clearest arms. Which they
    are is not known, only that they come no later than j and b: the least of their ledgers counts.
    """
    number = frozen.shape[1]
    same = True
    for arm in range(number):
        same = same and carried[TARGET, arm] == frozen[SIDE, arm]
    if same:
        return
    if rules.tolerance == 0.0 and carried[TARGET, 0] >= 0.0:
        least = np.empty((number, number))
        for j in range(number):
            for b in range(number):
                least[j, b] = _least_before(rules.top, ledger, carried, j, b)
        own = _own_wealth(ledger, carried, frozen)
        for j in range(number):
            for b in range(number):
                ledger[j, b] = least[j, b]
        carried[OWN, 0] = own
    for arm in range(number):
        carried[TARGET, arm], carried[ORDER, arm] = frozen[SIDE, arm], frozen[PLACE, arm]


@kernel
def _least_before(top: int, ledger: Floats, carried: Floats, j: int, b: int) -> float:
    """Return the least wealth, so far, against any set with the arm j and without b."""
    if j == b:
        return 0.0
    number = carried.shape[1]
    inside, outside = carried[TARGET, j] > 0.0, carried[TARGET, b] == 0.0
    least = carried[OWN, 0] if inside and outside else math.inf
    if (top == 1 and inside) or (top == number - 1 and outside):
        return least
    for first in range(number):
        if carried[TARGET, first] > 0.0:
            continue
        if not inside and (carried[ORDER, first] > carried[ORDER, j] or (top == 1 and first != j)):
            continue
        for second in range(number):
            if carried[TARGET, second] == 0.0:
                continue
            if not outside and (
                carried[ORDER, second] > carried[ORDER, b] or (top == number - 1 and second != b)
            ):
                continue
            least = min(least, ledger[first, second])
    return least


@kernel
def _own_wealth(ledger: Floats, carried: Floats, frozen: Floats) -> float:
    """Return the wealth so far against the new target."""
    j, b = -1, -1
    for arm in range(frozen.shape[1]):
        joins = frozen[SIDE, arm] > 0.0 and carried[TARGET, arm] == 0.0
        leaves = frozen[SIDE, arm] == 0.0 and carried[TARGET, arm] > 0.0
        if joins and (j < 0 or carried[ORDER, arm] < carried[ORDER, j]):
            j = arm
        if leaves and (b < 0 or carried[ORDER, arm] < carried[ORDER, b]):
            b = arm
    return ledger[j, b]


@kernel
def wealth_against(frozen: Floats, ledger: Floats, carried: Floats) -> float:
    """Return the wealth against the set that is marked in a frozen block."""
    if carried[TARGET, 0] < 0.0:
        return 0.0
    for arm in range(frozen.shape[1]):
        if carried[TARGET, arm] != frozen[SIDE, arm]:
            return _own_wealth(ledger, carried, frozen)
    return carried[OWN, 0]

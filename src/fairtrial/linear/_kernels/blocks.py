"""Block betting on linear arms: one wealth per candidate, or per pair of candidates.

The counts and bets of a block are frozen when it is planned, from what is known at that time. Only
the results of that block pay the bets. Proofs: docs/explanation/block-betting.md (noise of known
scale) and docs/explanation/bounded-rewards.md (rewards in a known range).

Policies call the functions with a parameter `arrays`: the packed constants and the two buffers of
the state. There are only these three arrays because passing an array to compiled code costs more
than most decisions.
"""

import math

import numpy as np

from fairtrial.confidence.block_betting.bets import (
    GRID,
    LOST,
    NO_BET,
    correct_bet,
    known_noise_gain,
    multiply_bet,
    pay_bounded,
    value_in_bet,
)
from fairtrial.confidence.block_betting.blocks import (
    FIXED,
    OUTSIDE,
    Arrays,
    close_oldest,
    complete_slot,
    draw_action,
    issue_assigned,
    next_pull,
    next_slot,
    note_loss,
    receive,
    replace_in_block,
    serial_of,
    slot_of,
    slot_of_tag,
    undo_loss,
)
from fairtrial.confidence.block_betting.book import all_wealth, evidence_for, reject
from fairtrial.confidence.noise_kernels import record_as_issued, replace_numbered
from fairtrial.core.compilation import apart, inlined, interpreted, kernel, uncounted
from fairtrial.core.draw_kernels import draw
from fairtrial.core.draws import Source
from fairtrial.linear._kernels.limited_plans import (
    choose,
    conclude_with_limits,
    leader_with_limits_now,
    plan_block_with_limits,
    start_with_limits,
)
from fairtrial.linear._kernels.limits import Limits
from fairtrial.linear._kernels.matrices import (
    Floats,
    Integers,
    add_outer,
    dot,
    gram,
    invert,
    is_seen,
    log_determinant,
    multiply,
    whiten_twice,
)
from fairtrial.linear._kernels.model import Model, difference, resolution
from fairtrial.linear._kernels.planning import (
    choose_leaders,
    clipped,
    fill_direction,
    fit,
    leaders_now,
    measures_start,
    plan_block,
)
from fairtrial.linear._kernels.state import (
    STATE,
    Rules,
    State,
    opened,
    wealth_of,
)
from fairtrial.linear._kernels.testing import (
    add_block,
    add_late,
    add_unsolicited,
    correct_tested,
    end_initial,
    is_initial,
    note_issue,
)

__all__ = [
    "STATE",
    "ask",
    "ask_assigned",
    "correct",
    "evidence_now",
    "leaders",
    "lose",
    "measures_start",
    "open_assigned",
    "run",
    "settle",
    "start",
    "tell",
    "tell_late",
]

LEAST_SPREAD = 0.2


@interpreted
def start(arrays: Arrays) -> None:
    """Start; if every candidate is wanted, finish at once."""
    (model, rules, limits), state = opened(arrays)
    arms = model.arms.shape[0]
    for k in range(arms):
        state.shares[k] = 1.0 / arms
    state.forecast[0] = math.inf
    if limits.excluded.size:
        start_with_limits(model, limits, rules, state)
    elif rules.top >= model.candidates.shape[0]:
        state.finished[0] = 1
        for k in range(state.chosen.size):
            state.chosen[k] = 1


# ------------------------------------------------------------------------ one pull at a time


@kernel
def ask(arrays: Arrays, batch: float) -> tuple[int, int]:
    """Return the next arm and its tag; the arm is -1 if another block needs more room.

    The tag is -1 for initial pulls and for all pulls before theta can be estimated. They inform
    plans but are in no bet.
    """
    (model, rules, limits), state = opened(arrays)
    return _next_arm(model, rules, limits, state, batch)


@kernel
def open_assigned(arrays: Arrays, assigned: Floats) -> None:
    """Open a block of externally assigned pulls, counted by arm, and freeze its bets.

    There is no plan before theta can be estimated. Until then, the pulls inform plans but belong to
    no block.
    """
    (model, rules, limits), state = opened(arrays)
    if state.estimable[0]:
        _plan(model, rules, limits, state, 0.0, assigned)


@kernel(inline="always")
def _next_arm(
    model: Model, rules: Rules, limits: Limits, state: State, batch: float
) -> tuple[int, int]:
    """Return an arm and the serial of its block; plan a block when none has pulls left."""
    arm, serial = next_pull(state.blocks, -1, 1)
    if arm < 0 and not (state.estimable[0] and _has_begun(model, rules, state)):
        arm = _extra_arm(model, rules, state)
        state.opened[arm] += 1.0
        state.blocks.pulls[0] += 1
    elif arm < 0 and next_slot(state.blocks) != OUTSIDE:
        _plan(model, rules, limits, state, batch, np.empty(0))
        arm, serial = next_pull(state.blocks, -1, 1)
    if arm >= 0:
        state.pending[arm] += 1.0
        note_issue(state, serial)
    return arm, serial


@kernel(inline="always")
def _plan(
    model: Model, rules: Rules, limits: Limits, state: State, batch: float, assigned: Floats
) -> None:
    if limits.excluded.size:
        plan_block_with_limits(model, limits, rules, state, batch, assigned)
    else:
        plan_block(model, rules, state, batch, assigned)


@kernel
def ask_assigned(arrays: Arrays, arm: int) -> int:
    """Issue a pull of the only open block, if one is open; return its tag."""
    _, state = opened(arrays)
    state.pending[arm] += 1.0
    serial = issue_assigned(state.blocks, arm)
    note_issue(state, serial)
    return serial


@uncounted
def _has_begun(model: Model, rules: Rules, state: State) -> bool:
    """Return whether the number of initial pulls has been issued."""
    return _all_issued(state) >= rules.initial_pulls * model.start.size


@uncounted
def _all_issued(state: State) -> float:
    issued = 0.0
    for k in range(state.counts.size):
        issued += _issued(state, k)
    return issued


@inlined
def _issued(state: State, arm: int) -> float:
    """Return the issued pulls of an arm, including lost ones: some arms may always fail."""
    return state.counts[arm] + state.pending[arm] + state.lost[arm]


@kernel
def _extra_arm(model: Model, rules: Rules, state: State) -> int:
    """Return the least pulled opening arm; of several, the first or a drawn one.

    The initial pulls are pulls of the first opening arms. Of these, a basis comes before the rest
    of the start, and the start before all others: however few pulls are asked for, they measure as
    many directions as that number can.
    """
    initial = int(rules.initial_pulls) * model.start.size
    number = model.opening.size
    if _all_issued(state) < initial:
        number = min(number, initial)
    for first in (model.arms.shape[1], model.start.size):
        if first < number and _least_issued(model, state, first) == 0.0:
            number = first
            break
    least = _least_issued(model, state, number)
    weights = np.zeros(model.arms.shape[0])
    for i in range(number):
        k = int(model.opening[i])
        if _issued(state, k) == least:
            if state.blocks.order[0] == FIXED:
                return k
            weights[k] = 1.0
    return draw_action(state.blocks, weights, 1)


@inlined
def _least_issued(model: Model, state: State, number: int) -> float:
    """Return the fewest pulls of one of the first opening arms; infinity without arms."""
    least = math.inf
    for i in range(number):
        least = min(least, _issued(state, int(model.opening[i])))
    return least


@kernel
def tell(arrays: Arrays, arm: int, tag: int, reward: float, number: int) -> None:
    """Record a reward and settle the complete blocks; a negative number means unsolicited."""
    (model, rules, limits), state = opened(arrays)
    if number >= 0:
        state.pending[arm] -= 1.0
    _take(model, rules, limits, state, arm, serial_of(tag), reward - rules.shift, number)


@kernel
def tell_late(arrays: Arrays, arm: int, tag: int, reward: float, number: int) -> bool:
    """Record the reward of a pull reported lost; return whether its block still counts it.

    The block counts it while it is open. This is valid because every bet had used the worst
    possible value for the lost pull.
    """
    (model, rules, _), state = opened(arrays)
    value = reward - rules.shift
    # A pull that was cancelled after the stop was not counted as lost.
    state.lost[arm] = max(0.0, state.lost[arm] - 1.0)
    _take_data(model, state, arm, value)
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        add_late(state, serial_of(tag), arm, number, value)
        return False
    undo_loss(state.blocks, slot, arm, False)
    record_as_issued(state.noise[slot], arm, float(number), value)
    receive(state.blocks, slot, arm, value - dot(model.arms[arm], state.prediction[slot]))
    if rules.bounded:
        _correct_bets(model, rules, state, slot, arm, LOST, value)
    return True


@kernel(inline="always")
def _take(
    model: Model,
    rules: Rules,
    limits: Limits,
    state: State,
    arm: int,
    serial: int,
    reward: float,
    number: int,
) -> None:
    """Record a reward, in a block or outside of all blocks; settle the complete blocks."""
    _take_data(model, state, arm, reward)
    slot = slot_of(state.blocks, serial)
    if slot == OUTSIDE:
        if is_initial(state, serial, number):
            end_initial(model, state, arm, number, reward)
        elif number < 0:
            add_unsolicited(model, state, arm, reward)
        return
    receive(state.blocks, slot, arm, reward - dot(model.arms[arm], state.prediction[slot]))
    record_as_issued(state.noise[slot], arm, float(number), reward)
    if rules.bounded:
        _multiply_bets(model, rules, state, slot, arm, reward)
    if state.blocks.waiting[slot] == 0:
        _settle(model, rules, limits, state)


@kernel(inline="always")
def _take_data(model: Model, state: State, arm: int, reward: float) -> None:
    state.counts[arm] += 1.0
    state.sums[arm] += reward
    state.squares[arm] += reward * reward
    if not state.estimable[0] and measures_start(model, state.counts):
        state.estimable[0] = 1


@kernel
def lose(arrays: Arrays, arm: int, tag: int, number: int) -> None:
    """Record that a pull will have no reward."""
    (model, rules, limits), state = opened(arrays)
    state.pending[arm] -= 1.0
    state.lost[arm] += 1.0
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        if is_initial(state, tag, number):
            end_initial(model, state, arm, number, math.nan)
        return
    note_loss(state.blocks, slot, arm, False)
    if rules.bounded:
        _multiply_bets(model, rules, state, slot, arm, LOST)
    _settle(model, rules, limits, state)


@kernel
def correct(arrays: Arrays, arm: int, tag: int, old: float, new: float, number: int) -> None:
    """Replace a reward in the data, and in its block's bets if they are not paid yet.

    The tag is -1 for a reward that is in no bet.
    """
    (model, rules, _), state = opened(arrays)
    before, after = old - rules.shift, new - rules.shift
    state.sums[arm] += after - before
    state.squares[arm] += after * after - before * before
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        correct_tested(state, serial_of(tag), arm, number, before, after)
        return
    replace_numbered(state.noise[slot], arm, float(number), before, after)
    predicted = dot(model.arms[arm], state.prediction[slot])
    replace_in_block(state.blocks, slot, arm, before - predicted, after - predicted)
    if rules.bounded:
        _correct_bets(model, rules, state, slot, arm, before, after)


@inlined
def _part_in_bet(
    model: Model, rules: Rules, state: State, slot: int, bet: int, arm: int
) -> tuple[float, float]:
    """Return weight and centre of an arm's results in a bet; the weight is 0 if it is not in it."""
    weight = 0.0
    centre = 0.0
    if state.bets.ledger[slot, bet] != NO_BET:
        row = model.arms[arm]
        weight = dot(row, state.coefficients[slot, bet])
        if weight != 0.0:
            centre = clipped(rules, dot(row, state.centres[slot, bet]))
    return weight, centre


@uncounted
def _multiply_bets(
    model: Model, rules: Rules, state: State, slot: int, arm: int, reward: float
) -> None:
    """Multiply a result's factor into every bet of its block; the result may be `LOST`."""
    for bet in range(state.bets.number[slot]):
        weight, centre = _part_in_bet(model, rules, state, slot, bet, arm)
        if weight != 0.0:
            value = value_in_bet(reward, rules.low, rules.high, weight)
            multiply_bet(state.bets, slot, bet, weight * (value - centre))


@uncounted
def _correct_bets(
    model: Model, rules: Rules, state: State, slot: int, arm: int, old: float, new: float
) -> None:
    """Replace a result's factor in every bet of its block; it may have been `LOST`."""
    for bet in range(state.bets.number[slot]):
        weight, centre = _part_in_bet(model, rules, state, slot, bet, arm)
        if weight != 0.0:
            before = value_in_bet(old, rules.low, rules.high, weight)
            correct_bet(state.bets, slot, bet, weight * (before - centre), weight * (new - centre))


# ------------------------------------------------------------------- paying and deciding


@kernel
def settle(arrays: Arrays) -> None:
    """Pay the bets of every complete block."""
    (model, rules, limits), state = opened(arrays)
    _settle(model, rules, limits, state)


@apart
def _settle(model: Model, rules: Rules, limits: Limits, state: State) -> None:
    """Pay the bets of every complete block, in the order in which the blocks were issued."""
    slot = complete_slot(state.blocks)
    while slot != OUTSIDE and not _is_over(state):
        if rules.bounded:
            pay_bounded(state.bets, slot, state.book.ledgers)
        else:
            _pay_known_noise(model, rules, state, slot)
        add_block(model, state, slot)
        _add_predictions(model, state, slot)
        close_oldest(state.blocks)
        _conclude(model, rules, limits, state)
        if rules.misspecification > 0.0 and not state.finished[0]:
            state.hopeless[0] = _is_hopeless(model, rules, state)
        slot = complete_slot(state.blocks)


@inlined
def _add_predictions(model: Model, state: State, slot: int) -> None:
    """Add to the settled sums what a block's own sums leave out: its prediction of each result."""
    blocks = state.blocks
    for index in range(blocks.width[slot]):
        k = blocks.support[slot, index]
        predicted = dot(model.arms[k], state.prediction[slot])
        blocks.settled_sums[k] += blocks.results[slot, k] * predicted


@uncounted
def _is_over(state: State) -> bool:
    """Return whether there is an answer, or there never will be one."""
    return state.finished[0] == 1 or state.hopeless[0] == 1


@kernel
def _pay_known_noise(model: Model, rules: Rules, state: State, slot: int) -> None:
    """Pay the bets under noise of known scale, from the block's results that arrived."""
    blocks, bets = state.blocks, state.bets
    if bets.number[slot] == 0:
        return
    rank = model.arms.shape[1]
    matrix = np.zeros((rank, rank))
    inverse = np.empty((rank, rank))
    kernel = np.empty((rank, rank))
    right = np.zeros(rank)
    for index in range(blocks.width[slot]):
        k = blocks.support[slot, index]
        add_outer(matrix, model.arms[k], blocks.results[slot, k])
        for i in range(rank):
            right[i] += blocks.sums[slot, k] * model.arms[k, i]
    seen = invert(matrix, inverse, kernel)
    theta = np.empty(rank)
    target = np.empty(rank)
    direction = np.empty(rank)
    values = np.empty(GRID)
    # The fit uses differences from the prediction. If rewards are far larger than the noise,
    # rounding errors in directions without measurements would otherwise affect the result.
    multiply(inverse, right, theta)
    for i in range(rank):
        theta[i] += state.prediction[slot, i]
    for bet in range(bets.number[slot]):
        ledger = bets.ledger[slot, bet]
        if ledger == NO_BET:
            continue
        constant = fill_direction(model, rules, state, slot, bet, target)
        if not is_seen(kernel, seen, target):
            continue
        multiply(inverse, target, direction)
        variance = dot(target, direction)
        constant -= resolution(model, rules.misspecification, blocks.results[slot], direction)
        effect = dot(target, theta) + constant
        state.book.ledgers[ledger] += known_noise_gain(bets, slot, bet, effect, variance, values)


@uncounted
def _weakest_evidence(rules: Rules, state: State, chosen: Integers) -> float:
    """Return the smallest log wealth that separates the leaders from the others."""
    least = math.inf
    for i in range(chosen.size):
        if chosen[i]:
            for k in range(chosen.size):
                if not chosen[k] and (rules.pairwise or not state.book.rejected[k]):
                    least = min(least, wealth_of(state, i, k))
    return least


@kernel
def _conclude(model: Model, rules: Rules, limits: Limits, state: State) -> None:
    """Reject permanently what the wealth rules out; finish when one answer is left."""
    if limits.excluded.size:
        conclude_with_limits(rules, state)
        return
    if rules.pairwise:
        chosen = np.empty(state.chosen.size, dtype=np.int64)
        known = leaders_now(model, rules, state, chosen)
        if known and _weakest_evidence(rules, state, chosen) >= rules.threshold:
            state.finished[0] = 1
            for k in range(chosen.size):
                state.chosen[k] = chosen[k]
        return
    left, last = reject(state.book.rejected, state.book.ledgers, rules.threshold)
    if left <= 1:
        # If the last two answers are rejected together, the leader stays.
        state.finished[0] = 1
        if last >= 0:
            choose(state, last)


@kernel
def _is_hopeless(model: Model, rules: Rules, state: State) -> int:
    """Return whether a leader's gap is smaller than what misspecified means can hide.

    The gap is judged by an interval that holds at all times; no answer depends on it.
    """
    rank = model.arms.shape[1]
    root = np.empty((rank, rank))
    theta = np.empty(rank)
    work = np.empty(rank)
    direction = np.empty(rank)
    target = np.empty(rank)
    noise = fit(model, rules, state, root, theta)
    height = noise * _interval_height(model, rules, state)
    chosen = np.empty(state.chosen.size, dtype=np.int64)
    choose_leaders(model, rules, state, theta, chosen)
    for i in range(chosen.size):
        for k in range(chosen.size):
            if not chosen[i] or chosen[k] or state.book.rejected[k]:
                continue
            if rules.pairwise and wealth_of(state, i, k) >= rules.threshold:
                continue
            difference(model, i, k, target)
            width = math.sqrt(height * whiten_twice(root, target, work, direction))
            most = dot(target, theta) + rules.tolerance + width
            if most < resolution(model, rules.misspecification, state.counts, direction):
                return 1
    return 0


@kernel
def _interval_height(model: Model, rules: Rules, state: State) -> float:
    """Return the level of the method of mixtures, with a prior from the initial pulls."""
    rank = model.arms.shape[1]
    spread = max(LEAST_SPREAD, 1.0 / rules.initial_pulls)
    prior = np.zeros((rank, rank))
    joint = np.empty((rank, rank))
    work = np.empty((rank, rank))
    for i in range(int(rules.initial_pulls) * model.start.size):
        add_outer(prior, model.arms[int(model.opening[i % model.opening.size])], spread)
    gram(model.arms, state.counts, joint)
    for i in range(rank):
        for j in range(rank):
            joint[i, j] += prior[i, j]
    log_det = log_determinant(joint, work) - log_determinant(prior, work)
    return 2.0 * (1.0 + spread) * (rules.threshold + 0.5 * log_det)


# ------------------------------------------------------------------------- results and runs


@kernel
def leaders(arrays: Arrays, chosen: Integers) -> bool:
    """Mark the leaders by all data so far, or the answer; return False before there are any."""
    (model, rules, limits), state = opened(arrays)
    if limits.excluded.size:
        leader = leader_with_limits_now(model, limits, rules, state)
        for k in range(chosen.size):
            chosen[k] = 1 if k == leader else 0
        return leader >= 0
    return leaders_now(model, rules, state, chosen)


@kernel
def evidence_now(arrays: Arrays) -> float:
    """Return the smallest log wealth that separates the leaders from the others; NaN before."""
    (model, rules, limits), state = opened(arrays)
    if limits.excluded.size:
        leader = leader_with_limits_now(model, limits, rules, state)
        return np.nan if leader < 0 else _evidence_with_limits(rules, state, leader)
    chosen = np.empty(state.chosen.size, dtype=np.int64)
    if not leaders_now(model, rules, state, chosen):
        return np.nan
    return _weakest_evidence(rules, state, chosen)


@kernel
def _evidence_with_limits(rules: Rules, state: State, leader: int) -> float:
    if rules.separately:
        return evidence_for(state.book, leader)
    least = math.inf
    wealth = all_wealth(state.book)
    for answer in range(wealth.size):
        if answer != leader and not state.book.rejected[answer]:
            least = min(least, wealth[answer])
    return least


@kernel
def run(
    arrays: Arrays,
    batch: float,
    source: Source,
    factors: Floats,
    generator: np.random.Generator,
    max_pulls: int,
) -> int:
    """Run until the stop or `max_pulls`; return the number of pulls.

    `factors` convert rewards to units of noise.
    """
    (model, rules, limits), state = opened(arrays)
    pulls = 0
    while pulls < max_pulls and not _is_over(state):
        arm, serial = _next_arm(model, rules, limits, state, batch)
        reward = draw(source.kind, source.first, source.second, source.starts, arm, generator)
        value = factors[arm] * reward - rules.shift
        state.pending[arm] -= 1.0
        if serial == OUTSIDE:
            state.opening_counts[arm] += 1.0
            state.opening_sums[arm] += value
        _take(model, rules, limits, state, arm, serial, value, pulls)
        pulls += 1
    return pulls

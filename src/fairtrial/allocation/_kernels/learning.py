"""Statistics of rewards by cell, and the learners that choose arms by them.

The value of an index learner is ``mean + width * growth(t)``. Mean and width change only with a
cell's own rewards, so they are stored. A cell without pulls has an infinite mean, so it comes
first.
"""

import math
from typing import Any

import numpy as np

from fairtrial.allocation._kernels.model import (
    EPSILON_GREEDY,
    GREEDY,
    KLUCB,
    NOWHERE,
    QUEUED,
    RANDOM,
    ROUND_ROBIN,
    SLIDING,
    THOMPSON,
    State,
    inlined,
    kernel,
)
from fairtrial.core.arithmetic import cube, square
from fairtrial.core.philox import philox_uniform

_PRIOR_MEAN = 0.5
_BISECTION = 1e-9
_DECISION_LANE, _TRIAL_LANE = 0, 1
_WORD = 2.0**53

# ---------------------------------------------------------------- random numbers


@kernel
def uniform_of(state: State, number: int, lane: int) -> float:
    """Return the random number that belongs to a pull number."""
    control = state.control[0]
    key0: Any = np.uint64(control.key0)
    key1: Any = np.uint64(control.key1)
    return philox_uniform(key0, key1, number, lane)


@kernel
def _open_stream(state: State) -> None:
    """Start the random stream of one decision, set by the seed and the pulls issued so far."""
    control = state.control[0]
    control.stream = int(uniform_of(state, control.issued, _DECISION_LANE) * _WORD)


@kernel
def _uniform(state: State) -> float:
    """Return the next number of the decision's random stream (SplitMix64), in (0, 1)."""
    control = state.control[0]
    word = np.uint64(control.stream) + np.uint64(0x9E3779B97F4A7C15)
    control.stream = np.int64(word)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    return (float(word >> np.uint64(11)) + 0.5) / _WORD


@kernel
def _gamma(state: State, shape: float) -> float:
    """Draw from a gamma distribution of shape >= 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log(_uniform(state)))
        x = radius * math.cos(2.0 * math.pi * _uniform(state))
        v = cube(1.0 + c * x)
        if v > 0.0 and math.log(_uniform(state)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


@kernel
def _beta(state: State, wins: float, losses: float) -> float:
    left = _gamma(state, 1.0 + wins)
    return left / (left + _gamma(state, 1.0 + losses))


# -------------------------------------------------------------------- statistics


@kernel
def refresh(state: State, cell: int) -> None:
    """Recompute the stored parts of a cell's index."""
    control = state.control[0]
    sliding = control.learner == SLIDING
    issued = state.cells[cell].recent_issued if sliding else state.cells[cell].issued
    told = state.cells[cell].recent_told if sliding else state.cells[cell].told
    if told > 0.0:
        state.cells[cell].estimate = (
            state.cells[cell].recent_total if sliding else state.cells[cell].total
        ) / told
    elif issued > 0.0 and control.scheduler != QUEUED:
        state.cells[cell].estimate = _PRIOR_MEAN
        told = issued
    else:
        state.cells[cell].estimate = math.inf
        state.cells[cell].width = 0.0
        return
    if sliding:
        state.cells[cell].width = math.sqrt(control.setting / told)
    elif control.learner == GREEDY or control.learner == EPSILON_GREEDY:
        state.cells[cell].width = 0.0
    else:
        state.cells[cell].width = math.sqrt(2.0 / told)


@kernel
def _evict(state: State, slot: int) -> None:
    cell = int(state.window[slot].cell)
    if cell < 0:
        return
    state.cells[cell].recent_issued -= 1.0
    if not math.isnan(state.window[slot].reward):
        state.cells[cell].recent_told -= 1.0
        state.cells[cell].recent_total -= state.window[slot].reward
        if state.cells[cell].recent_told == 0.0:
            state.cells[cell].recent_total = 0.0
    state.window[slot].cell = -1.0
    refresh(state, cell)


@kernel
def _issue_in_window(state: State, cell: int, number: int) -> None:
    slot = number % state.control[0].window
    _evict(state, slot)
    state.cells[cell].recent_issued += 1.0
    state.window[slot].cell = float(cell)
    state.window[slot].reward = math.nan
    refresh(state, cell)


@inlined
def note_issue(state: State, cell: int, number: int) -> None:
    """Count a pull of a cell when it is issued."""
    state.cells[cell].issued += 1.0
    if state.control[0].window > 0:
        _issue_in_window(state, cell, number)
    elif state.cells[cell].told == 0.0:
        refresh(state, cell)


@kernel
def note_void(state: State, cell: int, number: int) -> None:
    """Take back the pull of a cell when it is voided."""
    control = state.control[0]
    state.cells[cell].issued -= 1.0
    control.first_untried = min(control.first_untried, cell % control.arms)
    if control.window > 0 and number >= control.issued - control.window:
        _evict(state, number % control.window)
    refresh(state, cell)


@kernel
def trial(state: State, reward: float, number: int) -> float:
    """Return a Bernoulli trial with a reward in [0, 1] as probability, repeatable for each pull."""
    if reward == 0.0 or reward == 1.0:
        return reward
    return 1.0 if uniform_of(state, number, _TRIAL_LANE) < reward else 0.0


@kernel
def _reward_in_window(state: State, cell: int, reward: float, number: int) -> None:
    control = state.control[0]
    slot = number % control.window
    recent = number >= 0 and number >= control.issued - control.window
    if recent and state.window[slot].cell == cell and math.isnan(state.window[slot].reward):
        state.window[slot].reward = reward
        state.cells[cell].recent_told += 1.0
        state.cells[cell].recent_total += reward


@kernel
def _special_reward(state: State, cell: int, reward: float, number: int, address: int) -> None:
    control = state.control[0]
    if control.learner == THOMPSON:
        state.cells[cell].wins += trial(state, reward, address)
    if control.window > 0:
        _reward_in_window(state, cell, reward, number)
    refresh(state, cell)


@inlined
def note_reward(state: State, cell: int, reward: float, number: int, address: int) -> None:
    """Record a reward in [0, 1]; `number` is negative for unsolicited data."""
    state.cells[cell].told += 1.0
    state.cells[cell].total += reward
    if state.control[0].is_plain:
        state.cells[cell].estimate = state.cells[cell].total / state.cells[cell].told
        state.cells[cell].width = math.sqrt(2.0 / state.cells[cell].told)
    else:
        _special_reward(state, cell, reward, number, address)


# ---------------------------------------------------------------------- learners


@inlined
def _growth(state: State, t: int) -> float:
    """Return the common growth factor of all widths at round t: the square root of ln t."""
    control = state.control[0]
    rounds = min(t, control.window) if control.learner == SLIDING else t
    return math.sqrt(math.log(float(rounds)))


@inlined
def _best_index(state: State, start: int, masked: bool, t: int) -> int:
    control = state.control[0]
    growth = _growth(state, t)
    price = control.price
    best, most = NOWHERE, -math.inf
    for arm in range(control.arms):
        value = state.cells[start + arm].estimate + state.cells[start + arm].width * growth
        if price > 0.0:
            value += price * state.nodes[arm].queue
        if value > most and (not masked or state.allowed[arm]):
            best, most = arm, value
    return best


@kernel
def _divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli means; q must be inside (0, 1)."""
    found = 0.0
    if p > 0.0:
        found += p * math.log(p / q)
    if p < 1.0:
        found += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return found


@kernel
def _kl_bound(mean: float, budget: float) -> float:
    low, high = mean, min(1.0, mean + math.sqrt(0.5 * budget))
    while high - low > _BISECTION:
        middle = 0.5 * (low + high)
        if _divergence(mean, middle) <= budget:
            low = middle
        else:
            high = middle
    return low


@kernel
def _best_kl(state: State, start: int, masked: bool, t: int) -> int:
    control = state.control[0]
    log_t = math.log(float(t))
    price = control.price
    best, most = NOWHERE, -math.inf
    for arm in range(control.arms):
        if masked and not state.allowed[arm]:
            continue
        mean = state.cells[start + arm].estimate
        if mean == math.inf:
            return arm
        extra = price * state.nodes[arm].queue
        # The width is sqrt(2 / n), so this is ln t / n.
        budget = 0.5 * log_t * square(state.cells[start + arm].width)
        needed = most - extra
        if needed >= mean and (needed >= 1.0 or _divergence(mean, needed) > budget):
            continue
        value = _kl_bound(mean, budget) + extra
        if value > most:
            best, most = arm, value
    return best


@kernel
def _best_draw(state: State, start: int, masked: bool) -> int:
    control = state.control[0]
    price = control.price
    _open_stream(state)
    best, most = NOWHERE, -math.inf
    for arm in range(control.arms):
        if masked and not state.allowed[arm]:
            continue
        if state.cells[start + arm].estimate == math.inf:
            return arm
        wins = state.cells[start + arm].wins
        value = (
            _beta(state, wins, state.cells[start + arm].told - wins)
            + price * state.nodes[arm].queue
        )
        if value > most:
            best, most = arm, value
    return best


@kernel
def _best_queue(state: State, start: int, masked: bool, t: int) -> int:
    """Return the arm with the largest queue plus eta times its optimistic or drawn mean."""
    control = state.control[0]
    growth = math.sqrt(0.75 * math.log(float(t)))
    eta, unit = control.eta, float(control.unit)
    draws = control.learner == THOMPSON
    _open_stream(state)
    best, most = NOWHERE, -math.inf
    for arm in range(control.arms):
        if masked and not state.allowed[arm]:
            continue
        cell = start + arm
        if draws:
            wins = state.cells[cell].wins
            reward = _beta(state, wins, state.cells[cell].told - wins)
        else:
            reward = min(1.0, state.cells[cell].estimate + state.cells[cell].width * growth)
        value = state.nodes[arm].queue / unit + eta * reward
        if value > most:
            best, most = arm, value
    return best


@kernel
def _never_pulled(state: State, start: int, masked: bool) -> int:
    """Return the first arm without a pull; without contexts, resume the previous search."""
    control = state.control[0]
    plain = control.contexts == 1 and not masked
    arm = control.first_untried if control.contexts == 1 else 0
    while arm < control.arms:
        fresh = state.cells[start + arm].issued == 0.0 and state.cells[start + arm].told == 0.0
        if fresh and (not masked or state.allowed[arm]):
            return arm
        arm += 1
        if plain:
            control.first_untried = arm
    return NOWHERE


@kernel
def _next_in_turn(state: State, masked: bool, t: int) -> int:
    control = state.control[0]
    arm = (t - 1) % control.arms
    if masked:
        for _ in range(control.arms):
            if state.allowed[arm]:
                break
            arm = (arm + 1) % control.arms
    return arm


@kernel
def _at_random(state: State, masked: bool) -> int:
    arms = state.control[0].arms
    if not masked:
        return int(_uniform(state) * arms)
    number = 0
    for arm in range(arms):
        number += 1 if state.allowed[arm] else 0
    left = int(_uniform(state) * number)
    for arm in range(arms):
        if state.allowed[arm]:
            if left == 0:
                return arm
            left -= 1
    return NOWHERE


@kernel
def _other_arm(state: State, start: int, masked: bool) -> int:
    control = state.control[0]
    t = control.rounds + 1 + control.earlier_rounds
    learner = control.learner
    if control.scheduler == QUEUED:
        return _best_queue(state, start, masked, t)
    if learner == KLUCB:
        return _best_kl(state, start, masked, t)
    if learner == THOMPSON:
        return _best_draw(state, start, masked)
    if learner in (ROUND_ROBIN, RANDOM, EPSILON_GREEDY):
        fresh = _never_pulled(state, start, masked)
        if fresh != NOWHERE:
            return fresh
        if learner == ROUND_ROBIN:
            return _next_in_turn(state, masked, t)
        _open_stream(state)
        if learner == RANDOM or _uniform(state) < control.setting:
            return _at_random(state, masked)
    return _best_index(state, start, masked, t)


@inlined
def free_arm(state: State, start: int, masked: bool) -> int:
    """Return the learner's choice among all arms, or among the allowed ones."""
    control = state.control[0]
    if control.is_indexed:
        t = control.rounds + 1 + control.earlier_rounds
        arm = _best_index(state, start, masked, t)
    else:
        arm = _other_arm(state, start, masked)
    return arm

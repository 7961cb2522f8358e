"""What the rewards say: statistics by cell, and the learners that choose by them.

An index learner's value is ``mean + width * growth(t)``: mean and width change with a cell's own
rewards only, and are kept. A cell never pulled has an infinite mean, so it comes first.
"""

import math
from typing import Any

import numpy as np

from fairtrial.allocation._kernels.model import (
    ALLOWED,
    ARMS,
    CELL_ISSUED,
    CONTEXTS,
    EARLIER,
    EPSILON_GREEDY,
    ETA,
    FIRST,
    FIRST_SETTING,
    GREEDY,
    INDEXED,
    ISSUED,
    KEY0,
    KEY1,
    KLUCB,
    LEARNER,
    MEAN,
    NOWHERE,
    PLAIN,
    PRICE,
    QUEUE,
    QUEUED,
    RANDOM,
    RECENT_ISSUED,
    RECENT_SUM,
    RECENT_TOLD,
    ROUND,
    ROUND_ROBIN,
    SCHEDULER,
    SLIDING,
    STREAM,
    SUM,
    THOMPSON,
    TOLD,
    UNIT,
    WIDTH,
    WINDOW,
    WINS,
    Floats,
    Integers,
    inlined,
    kernel,
)
from fairtrial.core._philox import philox_uniform

_PRIOR_MEAN = 0.5
_BISECTION = 1e-9
_DECISION_LANE, _TRIAL_LANE = 0, 1
_WORD = 2.0**53

# ---------------------------------------------------------------- random numbers


@kernel
def uniform_of(control: Integers, number: int, lane: int) -> float:
    """Return the random number that belongs to a pull, by its number."""
    key0: Any = np.uint64(control[KEY0])
    key1: Any = np.uint64(control[KEY1])
    return philox_uniform(key0, key1, number, lane)


@kernel
def _open_stream(control: Integers) -> None:
    """Begin the decision's own stream, set by the seed and the number of pulls issued."""
    control[STREAM] = int(uniform_of(control, control[ISSUED], _DECISION_LANE) * _WORD)


@kernel
def _uniform(control: Integers) -> float:
    """Return the next number of the decision's stream (SplitMix64), in (0, 1)."""
    word = np.uint64(control[STREAM]) + np.uint64(0x9E3779B97F4A7C15)
    control[STREAM] = np.int64(word)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    return (float(word >> np.uint64(11)) + 0.5) / _WORD


@kernel
def _gamma(control: Integers, shape: float) -> float:
    """Draw from a gamma distribution of shape >= 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log(_uniform(control)))
        x = radius * math.cos(2.0 * math.pi * _uniform(control))
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(_uniform(control)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


@kernel
def _beta(control: Integers, wins: float, losses: float) -> float:
    left = _gamma(control, 1.0 + wins)
    return left / (left + _gamma(control, 1.0 + losses))


# -------------------------------------------------------------------- statistics


@kernel
def refresh(control: Integers, stats: Floats, settings: Floats, cell: int) -> None:
    """Recompute what the index of a cell is made of."""
    sliding = control[LEARNER] == SLIDING
    issued = stats[RECENT_ISSUED if sliding else CELL_ISSUED, cell]
    told = stats[RECENT_TOLD if sliding else TOLD, cell]
    if told > 0.0:
        stats[MEAN, cell] = stats[RECENT_SUM if sliding else SUM, cell] / told
    elif issued > 0.0 and control[SCHEDULER] != QUEUED:
        stats[MEAN, cell] = _PRIOR_MEAN
        told = issued
    else:
        stats[MEAN, cell] = math.inf
        stats[WIDTH, cell] = 0.0
        return
    if sliding:
        stats[WIDTH, cell] = math.sqrt(settings[FIRST_SETTING] / told)
    elif control[LEARNER] == GREEDY or control[LEARNER] == EPSILON_GREEDY:
        stats[WIDTH, cell] = 0.0
    else:
        stats[WIDTH, cell] = math.sqrt(2.0 / told)


@kernel
def _evict(control: Integers, stats: Floats, ring: Floats, settings: Floats, slot: int) -> None:
    cell = int(ring[0, slot])
    if cell < 0:
        return
    stats[RECENT_ISSUED, cell] -= 1.0
    if not math.isnan(ring[1, slot]):
        stats[RECENT_TOLD, cell] -= 1.0
        stats[RECENT_SUM, cell] -= ring[1, slot]
        if stats[RECENT_TOLD, cell] == 0.0:
            stats[RECENT_SUM, cell] = 0.0
    ring[0, slot] = -1.0
    refresh(control, stats, settings, cell)


@kernel
def _issue_in_window(
    control: Integers, stats: Floats, ring: Floats, settings: Floats, cell: int, number: int
) -> None:
    slot = number % control[WINDOW]
    _evict(control, stats, ring, settings, slot)
    stats[RECENT_ISSUED, cell] += 1.0
    ring[0, slot] = float(cell)
    ring[1, slot] = math.nan
    refresh(control, stats, settings, cell)


@inlined
def note_issue(
    control: Integers, stats: Floats, ring: Floats, settings: Floats, cell: int, number: int
) -> None:
    """Count a pull of a cell when it is issued."""
    stats[CELL_ISSUED, cell] += 1.0
    if control[WINDOW] > 0:
        _issue_in_window(control, stats, ring, settings, cell, number)
    elif stats[TOLD, cell] == 0.0:
        refresh(control, stats, settings, cell)


@kernel
def note_void(
    control: Integers, stats: Floats, ring: Floats, settings: Floats, cell: int, number: int
) -> None:
    """Take a voided pull of a cell back."""
    stats[CELL_ISSUED, cell] -= 1.0
    control[FIRST] = min(control[FIRST], cell % control[ARMS])
    if control[WINDOW] > 0 and number >= control[ISSUED] - control[WINDOW]:
        _evict(control, stats, ring, settings, number % control[WINDOW])
    refresh(control, stats, settings, cell)


@kernel
def trial(control: Integers, reward: float, number: int) -> float:
    """Return a Bernoulli trial of a reward in [0, 1], always the same for one pull."""
    if reward == 0.0 or reward == 1.0:
        return reward
    return 1.0 if uniform_of(control, number, _TRIAL_LANE) < reward else 0.0


@kernel
def _reward_in_window(
    control: Integers, stats: Floats, ring: Floats, cell: int, reward: float, number: int
) -> None:
    slot = number % control[WINDOW]
    recent = number >= 0 and number >= control[ISSUED] - control[WINDOW]
    if recent and ring[0, slot] == cell and math.isnan(ring[1, slot]):
        ring[1, slot] = reward
        stats[RECENT_TOLD, cell] += 1.0
        stats[RECENT_SUM, cell] += reward


@kernel
def _special_reward(
    control: Integers, stats: Floats, ring: Floats, settings: Floats,
    cell: int, reward: float, number: int, address: int,
) -> None:  # fmt: skip
    if control[LEARNER] == THOMPSON:
        stats[WINS, cell] += trial(control, reward, address)
    if control[WINDOW] > 0:
        _reward_in_window(control, stats, ring, cell, reward, number)
    refresh(control, stats, settings, cell)


@inlined
def note_reward(
    control: Integers, stats: Floats, ring: Floats, settings: Floats,
    cell: int, reward: float, number: int, address: int,
) -> None:  # fmt: skip
    """Take a reward in [0, 1]; `number` is negative for data that nobody asked for."""
    stats[TOLD, cell] += 1.0
    stats[SUM, cell] += reward
    if control[PLAIN]:
        stats[MEAN, cell] = stats[SUM, cell] / stats[TOLD, cell]
        stats[WIDTH, cell] = math.sqrt(2.0 / stats[TOLD, cell])
    else:
        _special_reward(control, stats, ring, settings, cell, reward, number, address)


# ---------------------------------------------------------------------- learners


@inlined
def _growth(control: Integers, t: int) -> float:
    """Return what all widths have grown by at round t: the root of ln t."""
    rounds = min(t, control[WINDOW]) if control[LEARNER] == SLIDING else t
    return math.sqrt(math.log(float(rounds)))


@inlined
def _best_index(
    control: Integers, book: Integers, stats: Floats, settings: Floats,
    start: int, masked: bool, t: int,
) -> int:  # fmt: skip
    growth = _growth(control, t)
    price = settings[PRICE]
    best, most = NOWHERE, -math.inf
    for arm in range(control[ARMS]):
        value = stats[MEAN, start + arm] + stats[WIDTH, start + arm] * growth
        if price > 0.0:
            value += price * book[QUEUE, arm]
        if value > most and (not masked or book[ALLOWED, arm]):
            best, most = arm, value
    return best


@kernel
def _divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli means, q strictly inside."""
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
def _best_kl(
    control: Integers, book: Integers, stats: Floats, settings: Floats,
    start: int, masked: bool, t: int,
) -> int:  # fmt: skip
    log_t = math.log(float(t))
    price = settings[PRICE]
    best, most = NOWHERE, -math.inf
    for arm in range(control[ARMS]):
        if masked and not book[ALLOWED, arm]:
            continue
        mean = stats[MEAN, start + arm]
        if mean == math.inf:
            return arm
        extra = price * book[QUEUE, arm]
        # The width is sqrt(2 / n), so this is ln t / n.
        budget = 0.5 * log_t * stats[WIDTH, start + arm] ** 2
        needed = most - extra
        if needed >= mean and (needed >= 1.0 or _divergence(mean, needed) > budget):
            continue
        value = _kl_bound(mean, budget) + extra
        if value > most:
            best, most = arm, value
    return best


@kernel
def _best_draw(
    control: Integers, book: Integers, stats: Floats, settings: Floats,
    start: int, masked: bool,
) -> int:  # fmt: skip
    price = settings[PRICE]
    _open_stream(control)
    best, most = NOWHERE, -math.inf
    for arm in range(control[ARMS]):
        if masked and not book[ALLOWED, arm]:
            continue
        if stats[MEAN, start + arm] == math.inf:
            return arm
        wins = stats[WINS, start + arm]
        value = _beta(control, wins, stats[TOLD, start + arm] - wins) + price * book[QUEUE, arm]
        if value > most:
            best, most = arm, value
    return best


@kernel
def _best_queue(
    control: Integers, book: Integers, stats: Floats, settings: Floats,
    start: int, masked: bool, t: int,
) -> int:  # fmt: skip
    """Return the arm of the largest queue plus eta times optimistic mean, or drawn mean."""
    growth = math.sqrt(0.75 * math.log(float(t)))
    eta, unit = settings[ETA], float(control[UNIT])
    draws = control[LEARNER] == THOMPSON
    _open_stream(control)
    best, most = NOWHERE, -math.inf
    for arm in range(control[ARMS]):
        if masked and not book[ALLOWED, arm]:
            continue
        cell = start + arm
        if draws:
            wins = stats[WINS, cell]
            reward = _beta(control, wins, stats[TOLD, cell] - wins)
        else:
            reward = min(1.0, stats[MEAN, cell] + stats[WIDTH, cell] * growth)
        value = book[QUEUE, arm] / unit + eta * reward
        if value > most:
            best, most = arm, value
    return best


@kernel
def _never_pulled(
    control: Integers, book: Integers, stats: Floats, start: int, masked: bool
) -> int:
    """Return the first arm without a pull; without contexts the search goes on where it was."""
    plain = control[CONTEXTS] == 1 and not masked
    arm = control[FIRST] if control[CONTEXTS] == 1 else 0
    while arm < control[ARMS]:
        fresh = stats[CELL_ISSUED, start + arm] == 0.0 and stats[TOLD, start + arm] == 0.0
        if fresh and (not masked or book[ALLOWED, arm]):
            return arm
        arm += 1
        if plain:
            control[FIRST] = arm
    return NOWHERE


@kernel
def _next_in_turn(control: Integers, book: Integers, masked: bool, t: int) -> int:
    arm = (t - 1) % control[ARMS]
    if masked:
        for _ in range(control[ARMS]):
            if book[ALLOWED, arm]:
                break
            arm = (arm + 1) % control[ARMS]
    return arm


@kernel
def _at_random(control: Integers, book: Integers, masked: bool) -> int:
    arms = control[ARMS]
    if not masked:
        return int(_uniform(control) * arms)
    number = 0
    for arm in range(arms):
        number += 1 if book[ALLOWED, arm] else 0
    left = int(_uniform(control) * number)
    for arm in range(arms):
        if book[ALLOWED, arm]:
            if left == 0:
                return arm
            left -= 1
    return NOWHERE


@kernel
def _other_arm(
    control: Integers, book: Integers, stats: Floats, settings: Floats, start: int, masked: bool
) -> int:
    t = control[ROUND] + 1 + control[EARLIER]
    learner = control[LEARNER]
    if control[SCHEDULER] == QUEUED:
        return _best_queue(control, book, stats, settings, start, masked, t)
    if learner == KLUCB:
        return _best_kl(control, book, stats, settings, start, masked, t)
    if learner == THOMPSON:
        return _best_draw(control, book, stats, settings, start, masked)
    if learner in (ROUND_ROBIN, RANDOM, EPSILON_GREEDY):
        fresh = _never_pulled(control, book, stats, start, masked)
        if fresh != NOWHERE:
            return fresh
        if learner == ROUND_ROBIN:
            return _next_in_turn(control, book, masked, t)
        _open_stream(control)
        if learner == RANDOM or _uniform(control) < settings[FIRST_SETTING]:
            return _at_random(control, book, masked)
    return _best_index(control, book, stats, settings, start, masked, t)


@inlined
def free_arm(
    control: Integers, book: Integers, stats: Floats, settings: Floats, start: int, masked: bool
) -> int:
    """Return the learner's choice among all arms, or among the allowed ones."""
    if control[INDEXED]:
        t = control[ROUND] + 1 + control[EARLIER]
        arm = _best_index(control, book, stats, settings, start, masked, t)
    else:
        arm = _other_arm(control, book, stats, settings, start, masked)
    return arm

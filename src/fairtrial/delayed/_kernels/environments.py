"""Environments, compiled: what will happen to a pull, each number by its address.

The m-th pull of an arm has the same outcome, delay and readings for every policy, whenever it asks:
they are functions of the key, the arm, m, and the number of the reading.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.philox import philox_words
from fairtrial.delayed._kernels.state import (
    BIASED,
    FULL,
    INCREMENTAL,
    REFINING,
    Floats,
    inlined,
    kernel,
)

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class CompiledEnvironment(NamedTuple):
    """An environment as the kernels see it.

    `settings`: the constants named below. `arms`, shape (6, n): mean, std, report std, bias,
    and two parameters of the delay. `rows`: the sample of delays, or the rows (elapsed, value,
    std) of all curves, as one column of numbers. `starts`: where the curves of each arm start,
    then where the rows of each curve start. `words`: room for four random words.
    """

    settings: Floats
    arms: Floats
    rows: Floats
    starts: Integers
    key: Integers
    words: Words


KIND, FEEDBACK, EVERY, LOSS, NESTED, SHRINK, SETTINGS = range(7)
CONSTANT, UNIFORM, GEOMETRIC, LOGNORMAL, EMPIRICAL, OUTCOME_RANK, CALLER, CURVES = range(8)
MEAN, STD, READING_STD, BIAS, FIRST, SECOND = range(6)

# What is known of a pull that runs: of itself, of its errors, and of its next reading.
ROW, ARM, INDEX, STARTED, DELAY, OUTCOME, LOST, READ = range(8)
ERROR, ERROR_STD, SOFAR = range(8, 11)
NEXT_TIME, CURVE, VALUE, VALUE_STD, CHANCE, NORMALS = range(11, 17)

SLOT_COLUMNS = NORMALS + 4

_SPACING = 2.0**-53
_UNUSED_BITS = np.uint64(11)
_ONE = np.uint64(1)


@inlined
def _draw_words(environment: CompiledEnvironment, arm: int, index: int, block: int) -> None:
    # 20 bits of arm, 21 of pull, 22 of block: every address is its own counter.
    counter = (arm << 43) | (index << 22) | block
    philox_words(environment.key[0], environment.key[1], counter, environment.words)


@kernel
def _uniform(word: np.uint64) -> float:
    """Return a number in (0, 1]."""
    return ((word >> _UNUSED_BITS) + _ONE) * _SPACING


@kernel
def _two_normals(radial: np.uint64, angular: np.uint64) -> tuple[float, float]:
    """Return the two normal numbers that Box and Muller make of two words."""
    length = math.sqrt(-2.0 * math.log(_uniform(radial)))
    angle = 2.0 * math.pi * _uniform(angular)
    return length * math.cos(angle), length * math.sin(angle)


@inlined
def _reading_noise(environment: CompiledEnvironment, slot: Floats, reading: int) -> float:
    """Return the standard normal noise of a pull's reading, asked for from 1 on, one by one."""
    lane = (reading - 1) % 4
    if lane == 0:
        _draw_words(environment, int(slot[ARM]), int(slot[INDEX]), 1 + (reading - 1) // 4)
        words = environment.words
        slot[NORMALS], slot[NORMALS + 1] = _two_normals(words[0], words[1])
        slot[NORMALS + 2], slot[NORMALS + 3] = _two_normals(words[2], words[3])
    return slot[NORMALS + lane]


@kernel
def begin(environment: CompiledEnvironment, slot: Floats, arm: int, index: int) -> None:
    """Draw how long a pull of an arm takes and, if that is known then, what comes of it."""
    _draw_words(environment, arm, index, 0)
    words = environment.words
    noise, other = _two_normals(words[0], words[1])
    slot[ARM], slot[INDEX] = arm, index
    slot[READ], slot[ERROR], slot[ERROR_STD], slot[SOFAR] = 0.0, 0.0, np.inf, 0.0
    slot[CHANCE] = _uniform(words[2])
    slot[LOST] = 1.0 if _uniform(words[3]) <= environment.settings[LOSS] else 0.0
    if environment.settings[KIND] == CURVES:
        _begin_curve(environment, slot, arm)
        return
    slot[OUTCOME] = environment.arms[MEAN, arm] + environment.arms[STD, arm] * noise
    slot[DELAY] = _delay(environment, arm, noise, slot[CHANCE], other)


@kernel
def _delay(
    environment: CompiledEnvironment, arm: int, noise: float, chance: float, other: float
) -> float:
    kind = environment.settings[KIND]
    first, second = environment.arms[FIRST, arm], environment.arms[SECOND, arm]
    if kind == UNIFORM:
        return first + min(math.floor(chance * (second - first + 1.0)), second - first)
    if kind == GEOMETRIC:
        if first <= 1.0:
            return 1.0
        return 1.0 + math.floor(math.log(chance) / math.log1p(-1.0 / first))
    if kind == LOGNORMAL:
        return first * math.exp(second * other)
    if kind == EMPIRICAL:
        return environment.rows[min(int(chance * environment.rows.size), environment.rows.size - 1)]
    if kind == OUTCOME_RANK:
        rank = 0.5 * math.erfc(-noise * math.sqrt(0.5))
        return first + math.floor(rank * (second - first))
    return first


@kernel
def _begin_curve(environment: CompiledEnvironment, slot: Floats, arm: int) -> None:
    first, after = environment.starts[arm], environment.starts[arm + 1]
    curve = first + min(int(slot[CHANCE] * (after - first)), after - first - 1)
    last = environment.starts[environment.arms.shape[1] + 2 + curve] - 1
    slot[CURVE] = curve
    slot[DELAY], slot[OUTCOME] = environment.rows[3 * last], environment.rows[3 * last + 1]


@inlined
def next_reading(environment: CompiledEnvironment, slot: Floats) -> float:
    """Return when the next reading of a pull comes, counted from its start; infinity if never."""
    if environment.settings[FEEDBACK] == FULL:
        return np.inf
    if environment.settings[KIND] == CURVES:
        starts = environment.arms.shape[1] + 1 + int(slot[CURVE])
        row = environment.starts[starts] + int(slot[READ])
        return environment.rows[3 * row] if row < environment.starts[starts + 1] - 1 else np.inf
    elapsed = (slot[READ] + 1.0) * environment.settings[EVERY]
    return elapsed if elapsed < slot[DELAY] else np.inf


@inlined
def read(environment: CompiledEnvironment, slot: Floats) -> None:
    """Draw the next reading of a pull into its slot: value and, negative if not its own, std."""
    slot[READ] += 1.0
    arm, number = int(slot[ARM]), int(slot[READ])
    if environment.settings[KIND] == CURVES:
        row = environment.starts[environment.arms.shape[1] + 1 + int(slot[CURVE])] + number - 1
        slot[VALUE], slot[VALUE_STD] = environment.rows[3 * row + 1], environment.rows[3 * row + 2]
        return
    noise = _reading_noise(environment, slot, number)
    kind = environment.settings[FEEDBACK]
    slot[VALUE_STD] = -1.0
    if kind == INCREMENTAL:
        slot[VALUE] = _piece(environment, slot, noise)
        slot[SOFAR] += slot[VALUE]
    elif kind == REFINING:
        _refine(environment, slot, noise)
    else:
        shift = environment.arms[BIAS, arm] if kind == BIASED else 0.0
        slot[VALUE] = slot[OUTCOME] + shift + environment.arms[READING_STD, arm] * noise


@inlined
def _piece(environment: CompiledEnvironment, slot: Floats, noise: float) -> float:
    arm = int(slot[ARM])
    return (
        environment.arms[MEAN, arm] / slot[DELAY]
        + environment.arms[STD, arm] / math.sqrt(slot[DELAY]) * noise
    )


@inlined
def _refine(environment: CompiledEnvironment, slot: Floats, noise: float) -> None:
    """Draw an error that shrinks: nested in the one before, or fresh."""
    elapsed = slot[READ] * environment.settings[EVERY]
    left = max(0.0, 1.0 - elapsed / slot[DELAY])
    std = environment.arms[READING_STD, int(slot[ARM])] * left ** environment.settings[SHRINK]
    if environment.settings[NESTED] > 0.0 and slot[READ] > 1.0:
        share = (std / slot[ERROR_STD]) ** 2 if slot[ERROR_STD] > 0.0 else 0.0
        slot[ERROR] = share * slot[ERROR] + std * math.sqrt(max(0.0, 1.0 - share)) * noise
    else:
        slot[ERROR] = std * noise
    slot[ERROR_STD] = slot[VALUE_STD] = std
    slot[VALUE] = slot[OUTCOME] + slot[ERROR]


@kernel
def outcome_of(environment: CompiledEnvironment, slot: Floats) -> float:
    """Return the outcome of a pull all of whose readings have been drawn."""
    if environment.settings[FEEDBACK] != INCREMENTAL or environment.settings[KIND] == CURVES:
        return slot[OUTCOME]
    total = slot[SOFAR]
    for number in range(int(slot[READ]) + 1, int(slot[DELAY]) + 1):
        noise = _reading_noise(environment, slot, number)
        total += _piece(environment, slot, noise)
    return total


@kernel
def follow(environment: CompiledEnvironment, slot: Floats, readings: Floats) -> int:
    """Draw all readings of a pull that has begun: elapsed, value, std. Return their number.

    A number larger than the rows of `readings` says how many rows are needed.
    """
    number = 0
    while True:
        elapsed = next_reading(environment, slot)
        if elapsed == np.inf:
            return number
        read(environment, slot)
        if number < readings.shape[0]:
            readings[number, 0] = elapsed
            readings[number, 1] = slot[VALUE]
            readings[number, 2] = slot[VALUE_STD]
        number += 1


# For callers outside compiled code. They hand on the arrays: to unpack a tuple costs more.


@kernel
def begin_pull(
    settings: Floats,
    arms: Floats,
    rows: Floats,
    starts: Integers,
    key: Integers,
    words: Words,
    slot: Floats,
) -> None:
    """Begin the pull whose arm and index are in its slot."""
    environment = CompiledEnvironment(settings, arms, rows, starts, key, words)
    begin(environment, slot, int(slot[ARM]), int(slot[INDEX]))


@kernel
def follow_pull(
    settings: Floats,
    arms: Floats,
    rows: Floats,
    starts: Integers,
    key: Integers,
    words: Words,
    slot: Floats,
    readings: Floats,
) -> tuple[int, float]:
    """Draw a pull's readings and its outcome; return the number of readings, and the outcome."""
    environment = CompiledEnvironment(settings, arms, rows, starts, key, words)
    number = follow(environment, slot, readings)
    return number, outcome_of(environment, slot)

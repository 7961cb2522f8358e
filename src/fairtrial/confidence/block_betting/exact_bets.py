"""Bets on rewards of 0 and 1 that bring the whole error that is left to a planned end, exactly.

Given how many ones two arms have in a block, those of one arm are hypergeometric if the arms are
equal, whatever their common probability of a one is. A block pays as a bet for normal noise does
(`end_bets`), with this distribution in place of the normal one. In the last block that is Fisher's
exact test. Proof: docs/explanation/planned-ends.md.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.end_bets import (
    HOPELESS,
    NOTHING,
    ON_THE_SAFE_SIDE,
    STEPS,
    crossing,
)
from fairtrial.core.arithmetic import sum_of
from fairtrial.core.compilation import counted, inlined, kernel, uncounted

Floats = NDArray[np.float64]


@kernel
def hypergeometric(first: int, second: int, ones: int) -> tuple[int, Floats]:
    """Return how many ones can be in the first of two samples: the fewest, and the chances.

    The chances are those of the fewest, one more, and so on. `first`, `second`: sizes of the
    samples; `ones`: in both together.
    """
    least, most = max(0, ones - second), min(ones, first)
    chances = np.zeros(most - least + 1)
    mode = min(max((first + 1) * (ones + 1) // (first + second + 2), least), most)
    chances[mode - least] = 1.0
    for k in range(mode, most):
        ratio = (first - k) * (ones - k) / ((k + 1.0) * (second - ones + k + 1.0))
        chances[k + 1 - least] = chances[k - least] * ratio
    for k in range(mode, least, -1):
        ratio = k * (second - ones + k) / ((first - k + 1.0) * (ones - k + 1.0))
        chances[k - 1 - least] = chances[k - least] * ratio
    chances /= sum_of(chances)
    return least, chances


@inlined
def _mean_crossing(chances: Floats, lowest: float, level: float, later: float) -> float:
    """Return the probability to cross a level at the end of a block, or later.

    The scores of the block are `lowest`, one more, and so on.
    """
    found = 0.0
    for i in range(chances.size):
        if chances[i] > 0.0:
            found += chances[i] * crossing(level - (lowest + i), later)
    return found


@uncounted
def _level_of(error: float, chances: Floats, lowest: float, later: float) -> float:
    """Return the level that is crossed with a probability of at most the error, below 1."""
    low, step = lowest, chances.size + math.sqrt(later)
    high = lowest + step
    while _mean_crossing(chances, lowest, high, later) > error:
        high += step
        step *= 2.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if _mean_crossing(chances, lowest, middle, later) > error:
            low = middle
        else:
            high = middle
    return high


@counted
def log_exact_bet(
    need: float,
    later: float,
    target_pulls: int,
    rival_pulls: int,
    target_ones: int,
    rival_ones: int,
) -> float:
    """Return the logarithm of what a block pays against "the rival is at least as good".

    It rises with the target's ones, and falls with the rival's. So a pull without a result can
    count as its worst value.

    Parameters
    ----------
    need : float
        What the ledger lacks, in nats; positive.
    later : float
        Variance of the score in later blocks; 0 in the last block. It must not depend on the block.
    target_pulls, rival_pulls : int
        Pulls of the block.
    target_ones, rival_ones : int
        How many of them gave 1.
    """
    wanted = need + ON_THE_SAFE_SIDE
    if wanted > HOPELESS:
        return 0.0
    error = math.exp(-wanted)
    ones = target_ones + rival_ones
    least, chances = hypergeometric(target_pulls, rival_pulls, ones)
    if later <= 0.0:
        tail = 0.0
        for i in range(chances.size - 1, target_ones - least - 1, -1):
            tail += chances[i]
        return wanted if tail <= error else NOTHING
    expected = ones * target_pulls / float(target_pulls + rival_pulls)
    level = _level_of(error, chances, least - expected, later)
    chance = crossing(level - (target_ones - expected), later)
    if chance <= 0.0:
        return NOTHING
    spent = _mean_crossing(chances, least - expected, level, later)
    return max(NOTHING, math.log(chance / max(error, spent)))

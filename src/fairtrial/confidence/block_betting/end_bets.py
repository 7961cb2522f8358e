"""Bets for normal noise that bring the whole error that is left to a planned end.

The score of a bet is a Brownian motion, without drift under the null. A block pays the change of
the probability that it crosses a level before the end. So a ledger has what it lacks exactly if the
level is crossed: the conditional error of a sequential design with a flat boundary, as a bet.
Proof: docs/explanation/planned-ends.md.
"""

import math

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, kernel

NOTHING = -700.0
"""The logarithm of a payment of zero, which keeps ledgers finite."""

ON_THE_SAFE_SIDE = 1e-6
"""Evidence by which a payment exceeds what a ledger lacks, so that rounding leaves no rest."""

HOPELESS = 650.0
"""With more evidence lacking than this, nothing is bet: the numbers would leave a float's range."""

_REACH = 8.0
"""Standard deviations around the scores that matter most; what is beyond is 1e-14 of them."""

STEPS = 60
"""Bisections of an interval around a level."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


@inlined
def upper_tail(x: float) -> float:
    """Return the probability that a standard normal number exceeds x."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


@inlined
def crossing(distance: float, later: float) -> float:
    """Return the probability that a Brownian motion rises by a distance within a time."""
    return 1.0 if distance <= 0.0 else 2.0 * upper_tail(distance / math.sqrt(later))


@kernel
def mean_crossing(level: float, inside: float, later: float) -> float:
    """Return the probability to cross a level in a block, seen at its end only, or later.

    `inside`, `later`: precision of the block, and of the blocks after it.
    """
    deviation = math.sqrt(inside)
    # Paths to a level far away mostly make this part of the way in the block.
    most_likely = level * inside / (inside + later)
    begin = most_likely - _REACH * deviation
    half = 0.5 * (min(level, most_likely + _REACH * deviation) - begin)
    found = upper_tail(level / deviation)
    density = 1.0 / (deviation * math.sqrt(2.0 * math.pi))
    for i in range(_NODES.size):
        x = half * (_NODES[i] + 1.0) + begin
        weight = half * _WEIGHTS[i] * density * math.exp(-0.5 * square(x) / inside)
        found += weight * crossing(level - x, later)
    return found


@kernel
def level_of(error: float, inside: float, later: float) -> float:
    """Return the level that is crossed with a probability of at most the error, below 1."""
    low, high = -_REACH * math.sqrt(inside), math.sqrt(inside + later)
    while mean_crossing(high, inside, later) > error:
        high *= 2.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if mean_crossing(middle, inside, later) > error:
            low = middle
        else:
            high = middle
    return high


@kernel
def log_end_bet(need: float, inside: float, later: float, score: float) -> float:
    """Return the logarithm of what a block pays.

    Parameters
    ----------
    need : float
        What the ledger lacks, in nats; positive.
    inside, later : float
        Precision of the bet in the block, and expected in later ones; 0 in the last block.
    score : float
        Its mean is the effect times `inside`, and its variance `inside`.
    """
    wanted = need + ON_THE_SAFE_SIDE
    if wanted > HOPELESS:
        return 0.0
    error = math.exp(-wanted)
    if later <= 0.0:
        return wanted if upper_tail(score / math.sqrt(inside)) <= error else NOTHING
    level = level_of(error, inside, later)
    chance = crossing(level - score, later)
    if chance <= 0.0:
        return NOTHING
    return max(NOTHING, math.log(chance / max(error, mean_crossing(level, inside, later))))

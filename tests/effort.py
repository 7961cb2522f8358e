"""How many runs costly tests make: enough to fail if the code is clearly wrong, or all."""

import math

long = False
"""Whether pytest was called with `--long`; set before tests are collected."""


def runs(short: int, *, whole: int) -> int:
    """Return how many runs or examples a test makes: `short`, or `whole` under `--long`."""
    return whole if long else short


def tolerated(probability: float, number: int) -> float:
    """Return the largest share of `number` runs that is still consistent with that probability.

    It is three standard errors above, so a correct test fails for at most one seed in 700.
    """
    return probability + 3.0 * math.sqrt(probability * (1.0 - probability) / number)

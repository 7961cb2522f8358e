"""Worlds, compiled: one draw of an arm, the same for live and simulated runs."""

import numba as nb
import numpy as np
from numpy.typing import NDArray

GAUSSIAN, BERNOULLI, REPLAY = 0, 1, 2


@nb.njit(cache=True, nogil=True)
def draw(
    kind: int,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    starts: NDArray[np.int64],
    arm: int,
    generator: np.random.Generator,
) -> float:
    """Return one reward of an arm.

    `first`: means (Gaussian), probabilities (Bernoulli), or all rows (replay, where arm k
    owns rows ``starts[k] .. starts[k + 1] - 1``). `second`: standard deviation by arm, in a
    replay of what is added to the row.
    """
    if kind == GAUSSIAN:
        return first[arm] + second[arm] * generator.standard_normal()
    if kind == BERNOULLI:
        return 1.0 if generator.random() < first[arm] else 0.0
    rows = starts[arm + 1] - starts[arm]
    reward = first[starts[arm] + int(generator.random() * rows)]
    if second[arm] > 0.0:
        reward += second[arm] * generator.standard_normal()
    return reward

"""Worlds, compiled: one draw of a cell, the same for live and simulated runs."""

import numba as nb
import numpy as np

from fairtrial.subpopulations._kernels.model import Floats, Integers

GAUSSIAN, BERNOULLI, REPLAY = 0, 1, 2


@nb.njit(cache=True, nogil=True)
def draw(
    kind: int,
    first: Floats,
    second: Floats,
    starts: Integers,
    cell: int,
    generator: np.random.Generator,
) -> float:
    """Return one reward of a flat cell.

    `first`, `second`: means and standard deviations (Gaussian), probabilities (Bernoulli),
    or all rows (replay, where cell c owns rows ``starts[c] .. starts[c + 1] - 1``).
    """
    if kind == GAUSSIAN:
        return first[cell] + second[cell] * generator.standard_normal()
    if kind == BERNOULLI:
        return 1.0 if generator.random() < first[cell] else 0.0
    rows = starts[cell + 1] - starts[cell]
    return first[starts[cell] + int(generator.random() * rows)]

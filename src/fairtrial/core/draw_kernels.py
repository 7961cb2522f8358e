"""Compiled draws of a simulated environment, the same for live policies and whole runs."""

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel, unchecked

GAUSSIAN, BERNOULLI, BETA, REPLAY, POINTS = range(5)


# It allocates nothing, so it needs no reference counts: they cost more than a draw.
@unchecked
def draw(
    kind: int,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    starts: NDArray[np.int64],
    action: int,
    generator: np.random.Generator,
) -> float:
    """Return one reward of an action; the arguments before it are a `Source`."""
    if kind == GAUSSIAN:
        return first[action] + second[action] * generator.standard_normal()
    if kind == BERNOULLI:
        return 1.0 if generator.random() < first[action] else 0.0
    if kind == BETA:
        return generator.beta(first[action], second[action])
    rows = starts[action + 1] - starts[action]
    reward = first[starts[action] + int(generator.random() * rows)]
    if second[action] > 0.0:
        reward += second[action] * generator.standard_normal()
    return reward


@kernel(error_model="numpy")
def draw_vector(
    kind: int,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    starts: NDArray[np.int64],
    action: int,
    generator: np.random.Generator,
    drawn: NDArray[np.float64],
) -> None:
    """Fill the measures of one pull of an action; the arguments before it are a `VectorSource`."""
    measures = drawn.size
    if kind == REPLAY:
        rows = starts[action + 1] - starts[action]
        row = starts[action] + int(generator.random() * rows)
        for m in range(measures):
            drawn[m] = first[row, m]
        return
    if kind == POINTS:
        height = generator.random()
        row = starts[action]
        while row < starts[action + 1] - 1 and height >= second[row, 0, 0]:
            row += 1
        for m in range(measures):
            drawn[m] = first[row, m]
        return
    for m in range(measures):
        drawn[m] = first[action, m]
    for source in range(measures):
        noise = generator.standard_normal()
        for m in range(measures):
            drawn[m] += second[action, m, source] * noise

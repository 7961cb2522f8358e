"""Worlds, compiled: one draw of a reward, the same for live and simulated runs."""

import numpy as np

from fairtrial.allocation._kernels.model import Floats, Integers, inlined, kernel

BERNOULLI, BETA, REPLAY, DRIFTING = range(4)


@kernel
def segment_of(changes: Integers, number: int) -> int:
    """Return how many of the rounds at which means change have come by pull `number`."""
    low, high = 0, len(changes)
    while low < high:
        middle = (low + high) // 2
        if changes[middle] <= number:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def draw(
    kind: int, first: Floats, second: Floats, starts: Integers,
    arms: int, cell: int, number: int, generator: np.random.Generator,
) -> float:  # fmt: skip
    """Return one reward of a cell.

    `first`, `second`: probabilities (Bernoulli; drifting has a row for every stretch between
    the rounds in `starts`), both parameters (beta), or all rows (replay, where cell c owns rows
    ``starts[c] .. starts[c + 1] - 1``).
    """
    if kind == BERNOULLI:
        reward = 1.0 if generator.random() < first[cell] else 0.0
    elif kind == BETA:
        reward = generator.beta(first[cell], second[cell])
    elif kind == DRIFTING:
        stretch = segment_of(starts, number)
        reward = 1.0 if generator.random() < first[stretch * arms + cell] else 0.0
    else:
        rows = starts[cell + 1] - starts[cell]
        reward = first[starts[cell] + int(generator.random() * rows)]
    return reward


@kernel
def draw_awake(chances: Floats, awake: Integers, generator: np.random.Generator) -> int:
    """Mark who is awake, each arm by its own chance, and return how many are.

    A round without anyone is skipped.
    """
    number = 0
    while number == 0:
        for arm in range(len(chances)):
            awake[arm] = 1 if generator.random() < chances[arm] else 0
            number += awake[arm]
    return number


@kernel
def draw_context(cumulated: Floats, generator: np.random.Generator) -> int:
    """Return a context from cumulated probabilities."""
    point = generator.random()
    for context in range(len(cumulated) - 1):
        if point < cumulated[context]:
            return context
    return len(cumulated) - 1

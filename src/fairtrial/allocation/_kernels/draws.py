"""What differs between rounds, compiled: the means in force, who is awake, the context."""

import numpy as np

from fairtrial.allocation._kernels.model import Floats, Integers, kernel


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

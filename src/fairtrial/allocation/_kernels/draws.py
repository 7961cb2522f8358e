"""Compiled draws of what varies between rounds: means, awake arms and context."""

import numpy as np

from fairtrial.allocation._kernels.model import Floats, Integers, kernel


@kernel
def segment_of(changes: Integers, number: int) -> int:
    """Return how many changes of the means have happened by pull `number`."""
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
    """Draw which arms are awake, each with its own probability; return their number.

    Rounds in which no arm is awake are skipped.
    """
    number = 0
    while number == 0:
        for arm in range(len(chances)):
            awake[arm] = 1 if generator.random() < chances[arm] else 0
            number += awake[arm]
    return number


@kernel
def draw_context(cumulated: Floats, generator: np.random.Generator) -> int:
    """Draw a context from cumulative probabilities."""
    point = generator.random()
    for context in range(len(cumulated) - 1):
        if point < cumulated[context]:
            return context
    return len(cumulated) - 1

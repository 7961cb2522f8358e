"""The stream of one replication as NumPy derives it, and whether `streams` derives the same.

Kernels reach `streams`, so that an edit of what it imports compiles them again. This module is
apart from it because it needs more of the package.
"""

from __future__ import annotations

import functools

import numpy as np

from fairtrial.core.seeds import seed_key, spawn_seeds
from fairtrial.core.streams import Reseeded, streams_of

__all__ = ["can_reseed", "stream_of"]


def stream_of(seed: int, index: int) -> tuple[np.random.Generator, int]:
    """Return the generator of the rewards and the seed of the policy of one replication.

    NumPy derives both. Its `default_rng` may use another bit generator one day, so it is named.
    """
    (stream,) = spawn_seeds(seed, 1, start=index)
    rewards, own = stream.spawn(2)
    own_seed = int(own.generate_state(1, np.uint64)[0] >> np.uint64(1))
    return np.random.Generator(np.random.PCG64(rewards)), own_seed


@functools.cache
def can_reseed() -> bool:
    """Return whether streams are those of this NumPy, and kernels can put them into a generator.

    This is tried with a generator that keeps half of a draw, which seeding has to forget.
    """
    seed, first = 2**70 + 5, 3
    try:
        reseeded = Reseeded()
    except (NotImplementedError, AttributeError, ValueError):
        return False
    streams = streams_of(seed, first, 2)
    for row in range(2):
        reseeded.generator.integers(2, dtype=np.uint32)
        reseeded.seed(streams.rewards[row])
        generator, own_seed = stream_of(seed, first + row)
        found = reseeded.generator.bit_generator.state, int(streams.seeds[row])
        same_key = streams.keys[row].tolist() == seed_key(own_seed).tolist()
        if found != (generator.bit_generator.state, own_seed) or not same_key:
            return False
    return True

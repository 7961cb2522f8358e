"""The replications that one call of a kernel makes: what each begins with, and how it ends."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import inlined
from fairtrial.core.streams import Reseeded, Streams

Integers = NDArray[np.int64]

UNDECIDED = -1
"""The answer of a run that ended without one."""


class Replications(NamedTuple):
    """The runs of one call.

    Attributes
    ----------
    words : ndarray of uint64, shape (4,) or (0,)
        The state of the generator in memory; empty if the generator is used as it is.
    kept : ndarray of uint64, shape (1,) or (0,)
        The half of a draw that the generator keeps, in memory; empty with `words`.
    rewards : ndarray of uint64, shape (runs, 4)
        The state with which a run begins.
    keys : ndarray of int, shape (runs, 2)
        The key of a run's coins.
    stopping_time, answers : ndarray of int, shape (runs,)
        Filled: the number of pulls, and the answer or `UNDECIDED`.
    in_blocks : ndarray of int, shape (runs,)
        Filled: the pulls of blocks that were drawn in one step.
    pulls : ndarray of int, shape (runs, actions)
        Filled: the pulls by action.
    """

    words: NDArray[np.uint64]
    kept: NDArray[np.uint64]
    rewards: NDArray[np.uint64]
    keys: Integers
    stopping_time: Integers
    answers: Integers
    in_blocks: Integers
    pulls: Integers


def from_streams(streams: Streams, reseeded: Reseeded, actions: int) -> Replications:
    """Return replications that begin with these streams."""
    memory = reseeded.words, reseeded.kept
    return Replications(*memory, streams.rewards, *_prepared(streams.keys, actions))


def of_generator(key: NDArray[np.uint64], actions: int) -> Replications:
    """Return the one replication that uses a generator as it is, with this key of the coins."""
    unused = np.empty(0, np.uint64)
    return Replications(
        unused, unused, unused.reshape(0, 4), *_prepared(key.reshape(1, 2), actions)
    )


def _prepared(keys: NDArray[np.uint64], actions: int) -> tuple[Integers, ...]:
    """Return the keys of the coins, and room for what a kernel fills."""
    runs = len(keys)
    numbers = (np.zeros(runs, np.int64) for _ in range(3))
    return keys.view(np.int64), *numbers, np.zeros((runs, actions), np.int64)


@inlined
def seed_generator(replications: Replications, run: int) -> None:
    """Put the generator into the state with which a run begins."""
    for i in range(replications.words.size):
        replications.words[i] = replications.rewards[run, i]
    for i in range(replications.kept.size):
        replications.kept[i] = 0

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
    rewards : ndarray of uint64, shape (runs, 4)
        The state with which a run begins.
    keys : ndarray of int, shape (runs, 2)
        The key of a run's coins.
    stopping_time, answers : ndarray of int, shape (runs,)
        Filled: the number of pulls, and the answer or `UNDECIDED`.
    pulls : ndarray of int, shape (runs, actions)
        Filled: the pulls by action.
    """

    words: NDArray[np.uint64]
    rewards: NDArray[np.uint64]
    keys: Integers
    stopping_time: Integers
    answers: Integers
    pulls: Integers


def from_streams(streams: Streams, reseeded: Reseeded, actions: int) -> Replications:
    """Return replications that begin with these streams."""
    return _prepared(reseeded.words, streams.rewards, streams.keys, actions)


def of_generator(key: NDArray[np.uint64], actions: int) -> Replications:
    """Return the one replication that uses a generator as it is, with this key of the coins."""
    unused = np.empty(0, np.uint64)
    return _prepared(unused, unused.reshape(0, 4), key.reshape(1, 2), actions)


def _prepared(
    words: NDArray[np.uint64], rewards: NDArray[np.uint64], keys: NDArray[np.uint64], actions: int
) -> Replications:
    runs = len(keys)
    numbers = np.zeros(runs, np.int64), np.zeros(runs, np.int64)
    pulls = np.zeros((runs, actions), np.int64)
    return Replications(words, rewards, keys.view(np.int64), *numbers, pulls)


@inlined
def seed_generator(replications: Replications, run: int) -> None:
    """Put the generator into the state with which a run begins."""
    for i in range(replications.words.size):
        replications.words[i] = replications.rewards[run, i]

"""The random streams of many replications at once, for kernels that make one run after the other.

Replication i draws from stream i of a seed. For one run, `numpy.random.SeedSequence` derives the
state of its generator in some 50 microseconds, as long as a short run takes. `streams_of` derives
the same numbers for many runs in array operations, and a kernel puts them into one generator.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reseeded", "Streams", "streams_of"]

Words = NDArray[np.uint64]

_Word = int | NDArray[np.uint32]

_POOL = 4
_FIRST_MULTIPLIERS = 0x43B0D7E5, 0x931E8875
_LAST_MULTIPLIERS = 0x8B51F9DD, 0x58F38DED
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_SHIFT = np.uint32(16)

_PCG_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_LOW, _WHOLE = 2**64 - 1, 2**128 - 1


class Streams(NamedTuple):
    """What replications draw from, one row for each.

    Attributes
    ----------
    rewards : ndarray of uint64, shape (replications, 4)
        The state of the environment's generator, `PCG64`: its state and its increment, each with
        the lower word first.
    seeds : ndarray of uint64, shape (replications,)
        The seed of the policy.
    keys : ndarray of uint64, shape (replications, 2)
        The key of the policy's coins, `seed_key` of its seed.
    """

    rewards: Words
    seeds: Words
    keys: Words


def streams_of(seed: int, first: int, number: int) -> Streams:
    """Return the streams of replications ``first .. first + number - 1``.

    Examples
    --------
    >>> rewards = np.random.SeedSequence(7, spawn_key=(2, 0))
    >>> state = np.random.PCG64(rewards).state["state"]["state"]
    >>> int(streams_of(7, 0, 3).rewards[2, 0]) == state % 2**64
    True
    """
    numbers = np.arange(first, first + number, dtype=np.uint64)
    own = _words_of(seed)
    own += [0] * (_POOL - len(own))
    # A number of 2 to the power of 32 or more would take two words, as no simulation has.
    of_run = [*own, numbers.astype(np.uint32)]
    rewards = _generated(_pool([*of_run, 0], number), 8)
    seeds = _pairs(_generated(_pool([*of_run, 1], number), 2))[0] >> np.uint64(1)
    halves = [seeds.astype(np.uint32), (seeds >> np.uint64(32)).astype(np.uint32)]
    keys = np.stack(_pairs(_generated(_pool(halves, number), 4)), axis=1)
    return Streams(_states_of_pcg64(_pairs(rewards)), seeds, keys)


def _words_of(seed: int) -> list[_Word]:
    """Return the words of 32 bits of a seed, the lowest first."""
    words: list[_Word] = [seed & 0xFFFFFFFF]
    while seed := seed >> 32:
        words.append(seed & 0xFFFFFFFF)
    return words


# ------------------------------------------------------ the hash of numpy.random.SeedSequence


def _multipliers(start: int, factor: int) -> Iterator[tuple[np.uint32, np.uint32]]:
    """Yield the pairs of multipliers of the hash, without end."""
    while True:
        now = start
        start = start * factor & 0xFFFFFFFF
        yield np.uint32(now), np.uint32(start)


def _hashed(value: NDArray[np.uint32], pair: tuple[np.uint32, np.uint32]) -> NDArray[np.uint32]:
    value = (value ^ pair[0]) * pair[1]
    mixed: NDArray[np.uint32] = value ^ (value >> _SHIFT)
    return mixed


def _pool(entropy: Sequence[_Word], number: int) -> list[NDArray[np.uint32]]:
    """Return the pool that words of entropy fill; a word is the same for all, or one for each."""
    words = [np.broadcast_to(np.asarray(word, dtype=np.uint32), (number,)) for word in entropy]
    words += [np.zeros(number, np.uint32)] * (_POOL - len(words))
    pairs = _multipliers(*_FIRST_MULTIPLIERS)
    pool = [_hashed(word, next(pairs)) for word in words[:_POOL]]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mixed(pool[target], _hashed(pool[source], next(pairs)))
    for word in words[_POOL:]:
        for target in range(_POOL):
            pool[target] = _mixed(pool[target], _hashed(word, next(pairs)))
    return pool


def _mixed(x: NDArray[np.uint32], y: NDArray[np.uint32]) -> NDArray[np.uint32]:
    value = _LEFT * x - _RIGHT * y
    mixed: NDArray[np.uint32] = value ^ (value >> _SHIFT)
    return mixed


def _generated(pool: list[NDArray[np.uint32]], number: int) -> list[NDArray[np.uint32]]:
    """Return that many words, generated from a pool."""
    pairs = _multipliers(*_LAST_MULTIPLIERS)
    return [_hashed(pool[i % _POOL], next(pairs)) for i in range(number)]


def _pairs(words: list[NDArray[np.uint32]]) -> list[Words]:
    """Return words of 64 bits, the lower half first."""
    return [
        low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        for low, high in zip(words[::2], words[1::2], strict=True)
    ]


def _states_of_pcg64(words: list[Words]) -> Words:
    """Return the state that `PCG64` has after it was seeded with four words, upper ones first."""
    wide = [word.astype(object) for word in words]
    increment = (((wide[2] << 64 | wide[3]) << 1) | 1) & _WHOLE
    state = ((increment + (wide[0] << 64 | wide[1])) * _PCG_MULTIPLIER + increment) & _WHOLE
    parts = state & _LOW, state >> 64, increment & _LOW, increment >> 64
    return np.stack([part.astype(np.uint64) for part in parts], axis=1)


# ------------------------------------------------------------------ one generator for all runs


class Reseeded:
    """A generator whose state kernels can set.

    NumPy keeps the state of `PCG64` in two places: 32 bytes that a pointer leads to, and 8 bytes
    after that pointer, with the half of a draw that is kept for the next draw of 32 bits.

    Attributes
    ----------
    generator : numpy.random.Generator
        The generator.
    words : ndarray of uint64, shape (4,)
        Its state in memory. Writing a row of `Streams.rewards` into it, and zero into `kept`, seeds
        the generator.
    kept : ndarray of uint64, shape (1,)
        The half of a draw that is kept, in memory; zero if there is none.

    Raises
    ------
    NotImplementedError
        If this NumPy keeps the state in another form.
    """

    def __init__(self) -> None:
        bits = np.random.PCG64(0)
        self.generator = np.random.Generator(bits)
        address = bits.ctypes.state_address
        place = ctypes.c_void_p.from_address(address).value
        if place is None:
            raise NotImplementedError("PCG64 keeps no pointer to its state")
        self.words = np.asarray(_Memory(bits, place, 4))
        self.kept = np.asarray(_Memory(bits, address + ctypes.sizeof(ctypes.c_void_p), 1))
        if self.words.tolist() != _words_of_state(bits.state) or self.kept[0] != 0:
            raise NotImplementedError("PCG64 keeps its state in another order")

    def seed(self, rewards: Words) -> None:
        """Put the generator into a state, a row of `Streams.rewards`, as kernels do."""
        self.words[:] = rewards
        self.kept[0] = 0


class _Memory:
    """Words in the memory of a bit generator, which exists as long as any array of them."""

    def __init__(self, owner: np.random.PCG64, address: int, number: int) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (number,),
            "typestr": np.dtype(np.uint64).str,
            "data": (address, False),
        }


def _words_of_state(state: Mapping[str, Any]) -> list[int]:
    """Return the words in memory of a state of `PCG64`."""
    now, increment = (state["state"][name] for name in ("state", "inc"))
    return [now & _LOW, now >> 64, increment & _LOW, increment >> 64]

"""Seeds: one integer from anything that callers may have, and streams that never overlap."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
from numpy.typing import NDArray

from fairtrial.errors import InvalidArgument

__all__ = ["as_seed", "secret_key", "seed_key", "spawn_seeds"]

_MOST_BITS = 1_024

Seed = int | np.integer | np.random.Generator | None


def as_seed(seed: Seed) -> int:
    """Return the integer that `seed` stands for.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        ``None`` draws fresh entropy; a generator gives its next 63 bits; a
        non-negative integer is returned unchanged.

    Returns
    -------
    int
        A non-negative integer, to be written down with the result.

    Raises
    ------
    InvalidArgument
        If `seed` is something else, or negative.

    Examples
    --------
    >>> as_seed(7)
    7
    """
    if seed is None:
        return fresh_seed()
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidArgument("seed", "must be None, a non-negative integer or a Generator", seed)
    if int(seed).bit_length() > _MOST_BITS:
        raise InvalidArgument("seed", f"must be below 2 to the power of {_MOST_BITS}", seed)
    return int(seed)


def fresh_seed() -> int:
    """Return a seed from fresh entropy."""
    return secrets.randbits(63)


def spawn_seeds(seed: int, number: int, start: int = 0) -> list[np.random.SeedSequence]:
    """Return streams ``start .. start + number - 1`` of a seed, the same in every process.

    Examples
    --------
    >>> spawn_seeds(0, 3)[2].generate_state(1) == spawn_seeds(0, 1, start=2)[0].generate_state(1)
    array([ True])
    """
    return [np.random.SeedSequence(seed, spawn_key=(start + index,)) for index in range(number)]


def seed_key(seed: int) -> NDArray[np.uint64]:
    """Return the 128-bit key of a counter-based generator, as two unsigned words.

    Examples
    --------
    >>> seed_key(7).dtype
    dtype('uint64')
    """
    return np.random.SeedSequence(seed).generate_state(2, np.uint64).astype(np.uint64)


def secret_key(secret: str) -> NDArray[np.uint64]:
    """Return the 128-bit key derived from a secret text, as two unsigned words.

    Examples
    --------
    >>> secret_key("open sesame").dtype
    dtype('uint64')
    """
    digest = hashlib.sha256(b"fairtrial coins\n" + secret.encode()).digest()
    return np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)

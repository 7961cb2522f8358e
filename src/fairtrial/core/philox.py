"""Random numbers by address: decision n gets its own four, independent of earlier decisions.

Philox 4x64 with 10 rounds (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as
easy as 1, 2, 3"), bit for bit as in `numpy.random.Philox`. NumPy increments the counter
before its first block, so the block of `counter` is the cipher of ``counter + 1``.
"""

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel

# numba would combine a uint64 and a signed integer to a float, so every constant is unsigned.
_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_KEY_STEP_0 = np.uint64(0x9E3779B97F4A7C15)
_KEY_STEP_1 = np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_UNUSED_BITS = np.uint64(11)
_SPACING = 2.0**-53


@kernel
def _high_word(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the upper 64 bits of the 128-bit product of two unsigned words."""
    a_low, a_high = a & _LOW_HALF, a >> _HALF
    b_low, b_high = b & _LOW_HALF, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other_middle = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF) + (other_middle >> _HALF)


@kernel
def _block(key0: int, key1: int, counter: int) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    k0, k1 = np.uint64(key0), np.uint64(key1)
    w0 = np.int64(counter).view(np.uint64) + _ONE  # a counter may be negative
    w1 = _ONE if w0 == _ZERO else _ZERO
    w2, w3 = _ZERO, _ZERO
    for _ in range(_ROUNDS):
        high0, low0 = _high_word(_MULTIPLIER_0, w0), _MULTIPLIER_0 * w0
        high1, low1 = _high_word(_MULTIPLIER_1, w2), _MULTIPLIER_1 * w2
        w0, w1, w2, w3 = high1 ^ w1 ^ k0, low1, high0 ^ w3 ^ k1, low0
        k0, k1 = k0 + _KEY_STEP_0, k1 + _KEY_STEP_1
    return w0, w1, w2, w3


@kernel
def philox_words(key0: int, key1: int, counter: int, out4: NDArray[np.uint64]) -> None:
    """Fill `out4` with the four random words of `counter`.

    They are ``numpy.random.Philox(key=[key0, key1], counter=counter).random_raw(4)``.
    """
    out4[0], out4[1], out4[2], out4[3] = _block(key0, key1, counter)


@kernel
def philox_uniform(key0: int, key1: int, counter: int, lane: int) -> float:
    """Return random number `lane` (0 to 3) of `counter`, uniform on [0, 1).

    It equals draw number `lane` of a fresh `numpy.random.Generator` on that Philox. It depends on
    nothing but its arguments, so a resumed study decides like an uninterrupted one.
    """
    w0, w1, w2, w3 = _block(key0, key1, counter)
    if lane == 0:
        word = w0
    elif lane == 1:
        word = w1
    elif lane == 2:
        word = w2
    else:
        word = w3
    return (word >> _UNUSED_BITS) * _SPACING

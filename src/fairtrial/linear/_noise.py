"""What is known about the noise: its size for every arm, or the range of rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.validation import check_number, check_range
from fairtrial.errors import InvalidArgument
from fairtrial.linear._arguments import by_arm

__all__ = ["check_noise"]

Floats = NDArray[np.float64]

ESTIMATED = "estimated"

_LARGEST = 1e200
"""The largest noise, or range of rewards; the smallest is its inverse."""

_NARROWEST = 1e-12
"""The narrowest range of rewards, relative to its ends: rounding must not matter."""

_MOST_RATIO = 1e8
"""The largest ratio between the noise of two arms."""


def check_noise(
    noise_std: ArrayLike | None, reward_range: Any, arms: int
) -> tuple[float | str | Floats | None, tuple[float, float] | None]:
    """Return the noise and the range of rewards; exactly one must be given."""
    if noise_std is not None and reward_range is None:
        return _check_std(noise_std, arms), None
    if noise_std is None and reward_range is not None:
        return None, _check_rewards(reward_range)
    raise InvalidArgument(
        "noise_std, reward_range",
        "exactly one must be given: the noise if it is known, else the rewards' range",
        (noise_std, reward_range),
    )


def _check_std(noise_std: ArrayLike, arms: int) -> float | str | Floats:
    if isinstance(noise_std, str):
        if noise_std != ESTIMATED:
            raise InvalidArgument("noise_std", f"must be numbers or {ESTIMATED!r}", noise_std)
        return noise_std
    if np.ndim(noise_std) == 0:
        return _check_size("noise_std", noise_std)
    given = by_arm("noise_std", noise_std, arms)
    for arm, std in enumerate(given):
        _check_size(f"noise_std[{arm}]", float(std))
    least, most = int(given.argmin()), int(given.argmax())
    if given[most] > _MOST_RATIO * given[least]:
        raise InvalidArgument(
            f"noise_std[{most}]",
            f"must be at most {_MOST_RATIO:g} times noise_std[{least}], {given[least]:g}",
            float(given[most]),
        )
    return given


def _check_size(name: str, std: Any) -> float:
    check_number(name, std, low=0.0, open_low=True)
    return check_number(name, std, low=1.0 / _LARGEST, high=_LARGEST)


def _check_rewards(reward_range: Any) -> tuple[float, float]:
    """Return a range that floats can resolve."""
    low, high = check_range("reward_range", reward_range)
    largest = max(abs(low), abs(high))
    width = 0.5 * high - 0.5 * low
    if not 1.0 / _LARGEST <= width <= _LARGEST or width < _NARROWEST * largest:
        accepted = (
            f"must be between {1.0 / _LARGEST:g} and {_LARGEST:g} wide, and at least "
            f"{_NARROWEST:g} times the size of its ends"
        )
        raise InvalidArgument("reward_range", accepted, reward_range)
    return low, high

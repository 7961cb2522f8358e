"""Delays of pulls in simulated environments: one class for each distribution."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.parameters import Parametrized
from fairtrial.core.validation import as_floats, check_array
from fairtrial.delayed._kernels.environments import (
    CONSTANT,
    EMPIRICAL,
    GEOMETRIC,
    LOGNORMAL,
    OUTCOME_RANK,
    UNIFORM,
)
from fairtrial.errors import InvalidArgument

__all__ = [
    "ConstantDelay",
    "Delay",
    "EmpiricalDelay",
    "GeometricDelay",
    "LognormalDelay",
    "OutcomeDelay",
    "UniformDelay",
]

Floats = NDArray[np.float64]


class PackedDelay(NamedTuple):
    """A delay as the kernels see it: its kind, two parameters by arm, and a sample."""

    kind: int
    first: Floats
    second: Floats
    sample: Floats


class Delay(Parametrized):
    """Base class of delays; parameters can be a number for all arms, or one for each arm."""

    @abstractmethod
    def pack(self, arms: int) -> PackedDelay:
        """Return the delays of `arms` arms as the kernels see them."""


@dataclass(frozen=True, repr=False)
class ConstantDelay(Delay):
    """The same delay for every pull of an arm.

    Parameters
    ----------
    time : float or array-like of shape (n,)
        The delay, more than 0.
    """

    time: ArrayLike = 1.0

    def pack(self, arms: int) -> PackedDelay:
        """Return the delays of `arms` arms as the kernels see them."""
        time = _positive("time", self.time, arms)
        return PackedDelay(CONSTANT, time, time, np.zeros(1))


@dataclass(frozen=True, repr=False)
class UniformDelay(Delay):
    """A uniform random integer from `low` to `high`.

    Parameters
    ----------
    low, high : int or array-like of shape (n,)
        Ends of the range, both inclusive; at least 1.
    """

    low: ArrayLike
    high: ArrayLike

    def pack(self, arms: int) -> PackedDelay:
        """Return the delays of `arms` arms as the kernels see them."""
        return PackedDelay(UNIFORM, *_range(self.low, self.high, arms), np.zeros(1))


@dataclass(frozen=True, repr=False)
class GeometricDelay(Delay):
    """A random integer from 1: the pull ends with the same probability at every step.

    Parameters
    ----------
    mean : float or array-like of shape (n,)
        Mean delay, at least 1.
    """

    mean: ArrayLike

    def pack(self, arms: int) -> PackedDelay:
        """Return the delays of `arms` arms as the kernels see them."""
        mean = _per_arm("mean", self.mean, arms)
        if (mean < 1.0).any():
            raise InvalidArgument("mean", "must be at least 1", self.mean)
        return PackedDelay(GEOMETRIC, mean, mean, np.zeros(1))


@dataclass(frozen=True, repr=False)
class LognormalDelay(Delay):
    """A delay whose logarithm is normal.

    Parameters
    ----------
    median : float or array-like of shape (n,)
        Median delay, more than 0.
    shape : float or array-like of shape (n,)
        Standard deviation of the logarithm, at least 0.
    """

    median: ArrayLike
    shape: ArrayLike = 1.0

    def pack(self, arms: int) -> PackedDelay:
        """Return the delays of `arms` arms as the kernels see them."""
        shape = _per_arm("shape", self.shape, arms)
        if (shape < 0.0).any():
            raise InvalidArgument("shape", "must be at least 0", self.shape)
        return PackedDelay(LOGNORMAL, _positive("median", self.median, arms), shape, np.zeros(1))


@dataclass(frozen=True, repr=False)
class EmpiricalDelay(Delay):
    """One of the observed delays, each with the same probability, for every arm.

    Parameters
    ----------
    sample : array-like of shape (any,)
        Observed delays, more than 0.
    """

    sample: ArrayLike

    def pack(self, arms: int) -> PackedDelay:
        """Return the delays of `arms` arms as the kernels see them."""
        sample = np.array(check_array("sample", self.sample, (None,)))
        if not sample.size or (sample <= 0.0).any():
            raise InvalidArgument("sample", "must hold numbers greater than 0", self.sample)
        return PackedDelay(EMPIRICAL, np.zeros(arms), np.zeros(arms), sample)


@dataclass(frozen=True, repr=False)
class OutcomeDelay(Delay):
    """A delay that grows with the outcome: battery lives, trials that end with a failure.

    It is an integer from `low` to `high`, according to the outcome's rank in its distribution.

    Parameters
    ----------
    low, high : int or array-like of shape (n,)
        Ends of the range; at least 1.
    """

    low: ArrayLike
    high: ArrayLike

    def pack(self, arms: int) -> PackedDelay:
        """Return the delays of `arms` arms as the kernels see them."""
        return PackedDelay(OUTCOME_RANK, *_range(self.low, self.high, arms), np.zeros(1))


def _per_arm(name: str, value: ArrayLike, arms: int) -> Floats:
    accepted = f"must be a finite number, or {arms} of them"
    given = as_floats(name, value, accepted)
    if given.shape not in ((), (arms,)) or not np.isfinite(given).all():
        raise InvalidArgument(name, accepted, value)
    return np.broadcast_to(given, (arms,)).copy()


def _positive(name: str, value: ArrayLike, arms: int) -> Floats:
    given = _per_arm(name, value, arms)
    if (given <= 0.0).any():
        raise InvalidArgument(name, "must be greater than 0", value)
    return given


def _range(low: ArrayLike, high: ArrayLike, arms: int) -> tuple[Floats, Floats]:
    first, last = _per_arm("low", low, arms), _per_arm("high", high, arms)
    if (first < 1.0).any() or (first != np.floor(first)).any():
        raise InvalidArgument("low", "must be a whole number of at least 1", low)
    if (last < first).any() or (last != np.floor(last)).any():
        raise InvalidArgument("high", "must be a whole number of at least low", high)
    return first, last

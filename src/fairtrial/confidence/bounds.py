"""Time-uniform confidence bounds for a mean, each with a name, its source and its assumptions.

A radius holds at all times at once: users who look after every outcome, and stop when the data look
best, are covered as well as users who look only once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fairtrial.core import Guarantee, Parametrized
from fairtrial.core.validation import (
    check_error_probability,
    check_flag,
    check_number,
    check_numbers,
)
from fairtrial.errors import InvalidArgument

__all__ = ["Bound", "FiniteLIL", "NormalMixture", "PolynomialStitching"]

Floats = NDArray[np.float64]


class Bound(Parametrized, ABC):
    """Base class of bounds on the mean of sub-Gaussian outcomes, valid at all times at once.

    Attributes
    ----------
    name : str
        Name of the bound in results.
    proven : bool
        Whether the coverage is proven under these assumptions.
    source : str
        The paper that proves it.
    assumptions : tuple of str
        What has to be true.
    smallest_pulls : float
        Below this number of outcomes the radius is infinite.
    """

    name: ClassVar[str]
    proven: ClassVar[bool] = True
    source: ClassVar[str]
    assumptions: ClassVar[tuple[str, ...]] = (
        (
            "the noise of each outcome has mean zero and is sub-Gaussian with scale sigma, "
            "whatever happened before"
        ),
        "whether and when an outcome is told does not depend on its value",
    )
    smallest_pulls: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def one_sided(self) -> bool:
        """Whether `level` covers only one side of the mean."""

    @property
    def guarantee(self) -> Guarantee:
        """What the bound guarantees, and under which assumptions."""
        where = (
            "above the estimate by more than the radius (or below it: each side has its own level)"
            if self.one_sided
            else "farther from the estimate than the radius"
        )
        return Guarantee(
            name=self.name,
            proven=self.proven,
            statement=f"the probability that the true mean is ever {where} is at most the level",
            assumptions=self.assumptions,
            source=self.source,
        )

    def radius(self, pulls: ArrayLike, level: float, sigma: ArrayLike = 1.0) -> Floats:
        """Return the radius around the mean of `pulls` outcomes.

        Parameters
        ----------
        pulls : array_like
            Number of outcomes behind each mean, at least 0; it need not be an integer.
        level : float
            Probability, in (0, 1), that the bound ever fails.
        sigma : array_like
            Sub-Gaussian scale of one outcome, in its units, at least 0; broadcast
            against `pulls`. For outcomes in [lo, hi] it is (hi - lo) / 2.

        Returns
        -------
        ndarray of float
            In the units of `sigma`, of the broadcast shape; infinite where `pulls` is 0 or
            less than `smallest_pulls`.

        Raises
        ------
        InvalidArgument
            If an argument is outside its range, or the shapes do not broadcast.

        Examples
        --------
        >>> NormalMixture().radius([0, 10, 100], level=0.05).round(4)
        array([   inf, 1.035 , 0.3593])
        """
        log_inverse_level = -math.log(check_error_probability("level", level))
        counts, scales = _broadcast(
            check_numbers("pulls", pulls, low=0.0), check_numbers("sigma", sigma, low=0.0)
        )
        covered = (counts > 0.0) & (counts >= self.smallest_pulls)
        standard = self._standard_radius(np.where(covered, counts, 1.0), log_inverse_level)
        return np.where(covered, scales * standard, np.inf)

    @abstractmethod
    def _standard_radius(self, pulls: Floats, log_inverse_level: float) -> Floats:
        """Return the radius for sigma = 1, at counts that the bound covers."""


@dataclass(frozen=True, repr=False)
class FiniteLIL(Bound):
    """Finite law of the iterated logarithm: the bound of the racing paper.

    ``2 sigma sqrt((a ln(log_c(n) + 1) + b) / n)`` with
    ``b = c/2 (ln zeta(2a/c) + ln 2 + ln(1/level))``; the one-sided bound has no ``ln 2``. The
    published lemma is for variables with ``E exp(sX) <= exp(s^2 / 8)``. The leading factor 2
    converts it to a scale that works like a standard deviation.

    Parameters
    ----------
    a, c : float
        They trade the width at few outcomes against the width at many; ``1 < c < 2a``.
    one_sided : bool
        Whether `level` covers only one side.

    Raises
    ------
    InvalidArgument
        If ``c <= 1`` or ``2a <= c``.

    Examples
    --------
    >>> FiniteLIL().radius(100, level=0.05).round(6)
    np.float64(0.478127)
    """

    a: float = 0.6
    c: float = 1.1
    one_sided: bool = False

    name: ClassVar[str] = "finite-lil"
    source: ClassVar[str] = (
        "Zhao, Zhou, Sabharwal, Ermon (2016), Adaptive concentration inequalities for sequential "
        "decision problems; as used by Grover et al. (2018), Lemma 1, with its missing factor 2"
    )

    def __post_init__(self) -> None:
        check_number("c", self.c, low=1.0, open_low=True)
        check_number("a", self.a)
        if 2.0 * self.a <= self.c:
            raise InvalidArgument("a", f"must be greater than c / 2 = {self.c / 2:g}", self.a)
        check_flag("one_sided", self.one_sided)

    def _standard_radius(self, pulls: Floats, log_inverse_level: float) -> Floats:
        log_sides = 0.0 if self.one_sided else math.log(2.0)
        log_zeta = math.log(scipy.special.zeta(2.0 * self.a / self.c))
        b = 0.5 * self.c * (log_zeta + log_sides + log_inverse_level)
        growth = self.a * np.log(np.log(pulls) / math.log(self.c) + 1.0)
        return np.asarray(2.0 * np.sqrt((growth + b) / pulls))


@dataclass(frozen=True, repr=False)
class PolynomialStitching(Bound):
    """One-sided bound by polynomial stitching, with its authors' constants.

    ``1.7 sigma sqrt((ln ln(2n) + 0.72 ln(5.2 / level)) / n)``. For both sides, use it twice, each
    time at half the level.

    Examples
    --------
    >>> PolynomialStitching().radius(100, level=0.05).round(6)
    np.float64(0.380563)
    """

    name: ClassVar[str] = "polynomial-stitching"
    source: ClassVar[str] = (
        "Howard, Ramdas, McAuliffe, Sekhon (2021), Time-uniform, nonparametric, nonasymptotic "
        "confidence sequences, Theorem 1 with the constants of the introduction"
    )

    @property
    def one_sided(self) -> bool:
        """Whether `level` covers only one side of the mean: always True."""
        return True

    def _standard_radius(self, pulls: Floats, log_inverse_level: float) -> Floats:
        growth = np.log(np.log(2.0 * pulls)) + 0.72 * (math.log(5.2) + log_inverse_level)
        return np.asarray(1.7 * np.sqrt(growth / pulls))


@dataclass(frozen=True, repr=False)
class NormalMixture(Bound):
    """Two-sided normal mixture, the narrowest bound here at the sizes of real experiments.

    ``sigma sqrt((n + q) (2 ln(1/level) + ln((n + q) / q))) / n`` with ``q = prior``. It holds from
    the first outcome on, and also for fractional counts below one.

    Parameters
    ----------
    prior : float
        Number of outcomes that the mixture's prior is worth, more than 0. A small prior makes the
        bound narrow at large counts, a large one at small counts.

    Examples
    --------
    >>> NormalMixture().radius([10, 10], level=0.05, sigma=[0.5, 2.0]).round(4)
    array([0.5175, 2.07  ])
    """

    prior: float = 0.1

    name: ClassVar[str] = "normal-mixture"
    source: ClassVar[str] = (
        "Robbins (1970), Statistical methods related to the law of the iterated logarithm; "
        "Howard, Ramdas, McAuliffe, Sekhon (2021), two-sided normal mixture"
    )
    smallest_pulls: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_number("prior", self.prior, low=0.0, open_low=True)

    @property
    def one_sided(self) -> bool:
        """Whether `level` covers only one side of the mean: always False."""
        return False

    def _standard_radius(self, pulls: Floats, log_inverse_level: float) -> Floats:
        total = pulls + self.prior
        growth = 2.0 * log_inverse_level + np.log(total / self.prior)
        return np.asarray(np.sqrt(total * growth) / pulls)


def _broadcast(pulls: Floats, sigma: Floats) -> tuple[Floats, ...]:
    try:
        return np.broadcast_arrays(pulls, sigma)
    except ValueError:
        shapes = f"{pulls.shape} of pulls; got shape {sigma.shape}"
        raise InvalidArgument("sigma", f"must broadcast against shape {shapes}") from None

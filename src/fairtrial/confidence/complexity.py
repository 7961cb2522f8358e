"""The certified complexity of a problem, and the lower bound on pulls that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.validation import check_error_probability, check_probability

__all__ = ["Complexity", "EvidencePrice", "assumptions_of", "positive_spread"]

Floats = NDArray[np.float64]

_NOT_NORMAL = "; for rewards in a range, which are not normal, it is a yardstick and no bound"

_LEAST_STD = 1e-7
"""A standard deviation of zero is replaced by this fraction of the largest one."""

_RESULTS_PER_REACH = 2.0
"""Measured: 1.6 in the middle of a range, 0.7 to 2.9 near an end (benchmarks/ranges.py)."""


def assumptions_of(rewards: str, bounded: bool) -> str:
    """Return a text that says what a complexity assumes.

    Parameters
    ----------
    rewards : str
        Kind of rewards: ``"normal rewards"``.
    bounded : bool
        Whether the problem gives a range of the rewards.

    Examples
    --------
    >>> assumptions_of("normal rewards", bounded=False)
    'normal rewards with these means and standard deviations'
    """
    known = f"{rewards} with these means and standard deviations"
    return known + _NOT_NORMAL if bounded else known


def positive_spread(stds: Floats) -> Floats:
    """Return the standard deviations, each raised to at least 1e-7 times the largest.

    If all of them are zero, each becomes 1e-7.

    Examples
    --------
    >>> positive_spread(np.array([0.0, 2.0])).tolist()
    [2e-07, 2.0]
    """
    largest = float(stds.max(initial=0.0)) or 1.0
    return np.asarray(np.maximum(stds, _LEAST_STD * largest))


class EvidencePrice(NamedTuple):
    """Number of results that a unit of evidence takes, for the hardest difference of means.

    With a known range, a bet must survive the worst reward. A unit of evidence then takes about as
    many results as the larger of two terms. For a mean and its limit, `gap` apart, these are
    ``2 variance / gap^2`` and ``2 width / gap``; for two arms they are four times and twice as
    large.

    Attributes
    ----------
    spread : float
        Results that the spread of the rewards requires.
    reach : float
        How far a range of width 1 can move the estimate, summed over the means it depends on and
        divided by the gap: 1 / gap for a mean and its limit, 2 / gap for two arms.
    """

    spread: float
    reach: float

    def of_range(self, width: float) -> float:
        """Return the number of results that a range of this width requires."""
        return _RESULTS_PER_REACH * self.reach * width

    @property
    def cheap_width(self) -> float:
        """The width above which a range requires more results than the spread does."""
        return self.spread / (_RESULTS_PER_REACH * self.reach)


@dataclass(frozen=True, eq=False)
class Complexity:
    """The cost of finding the right answer with confidence in an assumed environment.

    Attributes
    ----------
    value : float
        T*: pulls (or cost, if the problem has costs) for each nat of evidence; infinite if no
        number of pulls is enough. It lies between `lower` and `upper`.
    lower, upper : float
        Certified bounds on T*.
    allocation : ndarray, or None
        Optimal shares of the pulls, by arm, or by arm and group; they sum to one. `upper` is the T
        of these shares. None if T* is infinite. They need not be unique.
    answer : object
        The right answer: a label, a tuple of labels for the best k, or None for "no arm".
    reason : str
        Why T* is infinite; empty otherwise.
    assumes : str
        What is assumed about the rewards. For rewards in a known range, T* is only a yardstick.
    """

    value: float
    lower: float
    upper: float
    allocation: Floats | None
    answer: Any
    reason: str = ""
    assumes: str = ""

    def lower_bound(self, delta: float) -> float:
        """Return the least mean number of pulls (or cost) at an error probability of `delta`.

        If several answers are acceptable (within a tolerance), the bound is for rules that give
        `answer`.

        Parameters
        ----------
        delta : float
            Accepted probability of a wrong answer, in (0, 0.5).

        Returns
        -------
        float
            ``T* kl(delta, 1 - delta)``, with the certified `lower` for T*.

        Notes
        -----
        Source: Garivier, Kaufmann (2016), "Optimal best arm identification with fixed
        confidence", Theorem 1.

        Examples
        --------
        >>> from fairtrial.subpopulations import GaussianEnvironment, Problem, complexity
        >>> problem = Problem(["a", "b"], ["x"], floors=None, noise_std=1.0)
        >>> environment = GaussianEnvironment(problem, [[1.0], [0.5]])
        >>> round(complexity(environment).lower_bound(0.05), 3)
        84.8
        """
        return self.lower * self.kl(check_error_probability("delta", delta))

    @staticmethod
    def kl(delta: float) -> float:
        """Return kl(delta, 1 - delta), the evidence in nats that an error of `delta` needs.

        Parameters
        ----------
        delta : float
            In (0, 1). From one half on, no evidence is needed: tossing a coin is enough.

        Examples
        --------
        >>> round(Complexity.kl(0.1), 6)
        1.75778
        """
        level = check_probability("delta", delta)
        return (1.0 - 2.0 * level) * math.log((1.0 - level) / level) if level < 0.5 else 0.0

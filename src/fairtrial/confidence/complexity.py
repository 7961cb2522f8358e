"""From a certified complexity to the least number of pulls of any rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.validation import check_probability

__all__ = ["Complexity", "EvidencePrice", "assumptions_of", "positive_spread"]

Floats = NDArray[np.float64]

_NOT_NORMAL = "; for rewards in a range, which are not normal, it is a yardstick and no bound"

_LEAST_STD = 1e-7
"""What a standard deviation of zero counts as, relative to the largest."""

_RESULTS_PER_REACH = 2.0
"""Measured were 1.6 in the middle of a range, and .7 to 2.9 near an end (benchmarks/ranges.py)."""


def assumptions_of(rewards: str, bounded: bool) -> str:
    """Return what a complexity assumes, in words.

    Parameters
    ----------
    rewards : str
        What they are: ``"normal rewards"``.
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
    """Return standard deviations with no zeros: at least 1e-7 times the largest.

    Where all of them are zero, each counts as 1e-7.

    Examples
    --------
    >>> positive_spread(np.array([0.0, 2.0])).tolist()
    [2e-07, 2.0]
    """
    largest = float(stds.max(initial=0.0)) or 1.0
    return np.asarray(np.maximum(stds, _LEAST_STD * largest))


class EvidencePrice(NamedTuple):
    """How many results a unit of evidence takes, on the difference of means that takes most.

    With a known range a bet must survive the worst reward, so that a unit of evidence takes about
    as many results as the larger of two terms says. For a mean and its limit, `gap` apart, they are
    ``2 variance / gap^2`` and ``2 width / gap``; for two arms four times and twice that.

    Attributes
    ----------
    spread : float
        What the spread of the rewards asks for.
    reach : float
        How far a range of width 1 moves the estimate, by each mean that it rests on, over the gap:
        1 / gap for a mean and its limit, 2 / gap for two arms.
    """

    spread: float
    reach: float

    def of_range(self, width: float) -> float:
        """Return what a range of that width asks for."""
        return _RESULTS_PER_REACH * self.reach * width

    @property
    def cheap_width(self) -> float:
        """The width from which a range asks for more than the spread does."""
        return self.spread / (_RESULTS_PER_REACH * self.reach)


@dataclass(frozen=True, eq=False)
class Complexity:
    """What it costs to be sure of the answer, if the environment is what it is assumed to be.

    Attributes
    ----------
    value : float
        T*: pulls (or cost, if the problem has costs) for each nat of evidence; infinite if no
        number of pulls can tell. Known to be between `lower` and `upper`.
    lower, upper : float
        Certified bounds on T*.
    allocation : ndarray, or None
        Optimal shares of the pulls, by arm, or by arm and group, with sum one: `upper` is their
        T. None if T* is infinite. They need not be unique.
    answer : object
        The right answer: a label, a tuple of labels for the best k, or None for "no arm".
    reason : str
        Why T* is infinite; else empty.
    assumes : str
        What the rewards are taken to be. For rewards in a known range T* is a yardstick.
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

        Where several answers may be right (a tolerance) the bound is for rules that give
        `answer`.

        Parameters
        ----------
        delta : float
            Probability of a wrong answer that is accepted, in (0, 1).

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
        information = self.kl(delta)
        return self.lower * information if information > 0.0 else 0.0

    @staticmethod
    def kl(delta: float) -> float:
        """Return kl(delta, 1 - delta), the evidence in nats that an error of `delta` needs.

        Parameters
        ----------
        delta : float
            In (0, 1). From one half on a coin will do: no evidence is needed.

        Examples
        --------
        >>> round(Complexity.kl(0.1), 6)
        1.75778
        """
        level = check_probability("delta", delta)
        return (1.0 - 2.0 * level) * math.log((1.0 - level) / level) if level < 0.5 else 0.0

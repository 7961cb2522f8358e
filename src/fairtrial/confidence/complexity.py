"""From a certified complexity to the least number of pulls of any rule."""

from __future__ import annotations

import math
from typing import NamedTuple

from fairtrial.core.validation import check_probability

__all__ = ["CertifiedComplexity", "EvidencePrice", "assumptions_of"]

_NOT_NORMAL = "; for rewards in a range, which are not normal, it is a yardstick and no bound"
_LARGEST_SPREAD = (
    " that spread as far as the range allows; rewards that spread less need fewer pulls, so it is "
    "no lower bound for them"
)


_RESULTS_PER_REACH = 2.0
"""Measured were 1.6 in the middle of a range, and .7 to 2.9 near an end (benchmarks/ranges.py)."""


def assumptions_of(rewards: str, bounded: bool, is_spread_given: bool) -> str:
    """Return what a complexity assumes, in words.

    Parameters
    ----------
    rewards : str
        What they are: ``"normal rewards"``.
    bounded : bool
        Whether the problem gives a range of the rewards, and no standard deviation.
    is_spread_given : bool
        Whether the true standard deviations are given; else the problem's are taken.

    Examples
    --------
    >>> assumptions_of("normal rewards", bounded=False, is_spread_given=False)
    'normal rewards with these means and standard deviations'
    """
    if bounded and not is_spread_given:
        return rewards + _LARGEST_SPREAD
    known = f"{rewards} with these means and standard deviations"
    return known + _NOT_NORMAL if bounded else known


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


class CertifiedComplexity:
    """Base of a family's complexity: T* is known to be at least `lower`, if `assumes` holds."""

    lower: float
    assumes: str

    def lower_bound(self, delta: float) -> float:
        """Return the least mean number of pulls (or cost) of any rule that errs at most `delta`.

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
        >>> from fairtrial.subpopulations import Problem, complexity
        >>> problem = Problem(["a", "b"], ["x"], floors=None, noise_std=1.0)
        >>> round(complexity(problem, [[1.0], [0.5]]).lower_bound(0.05), 3)
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
        >>> round(CertifiedComplexity.kl(0.1), 6)
        1.75778
        """
        level = check_probability("delta", delta)
        return (1.0 - 2.0 * level) * math.log((1.0 - level) / level) if level < 0.5 else 0.0

"""Sample size of a fixed-size experiment: equal allocation, normal tests, Bonferroni."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.core.validation import check_error_probability, check_probability

__all__ = ["FixedDesign"]

Floats = NDArray[np.float64]

_LARGEST = 1e15


@dataclass(frozen=True, eq=False)
class FixedDesign:
    """The usual experiment with a sample size that is fixed before it begins.

    Every action gets the same number of pulls (if groups arrive by themselves, every arm of a group
    does). At the end, one-sided normal tests with known variances decide, each at the level
    ``delta / tests``. An answer is given if it passes its own limits and every other answer is
    shown to be worse, or beyond a limit.

    Parameters
    ----------
    signals : ndarray
        For every test that the right answer must pass, the expected test statistic with one pull.
        With n pulls it is sqrt(n) times as large.
    tests : int
        Number of tests that share the level (Bonferroni): those that could wrongly exclude the
        right answer.
    actions : int
        Number of actions; each gets the same number of pulls.

    Notes
    -----
    A wrong answer is given only if a test excludes the right one, so the probability of an error is
    at most `delta`. With n pulls, test i fails with probability ``Phi(z - signals[i] sqrt(n))``,
    where ``z`` is the quantile of ``1 - delta / tests``. The right answer is given with probability
    at least one minus the sum of these. If one test is much harder than the others, this is exact.

    Examples
    --------
    Two arms one standard deviation apart; the textbook formula ``2 (1.645 + 0.842)^2`` per arm
    gives the same:

    >>> FixedDesign(np.array([1 / 2]), tests=1, actions=2).size(delta=0.05, power=0.8)
    26
    """

    signals: Floats
    tests: int
    actions: int

    def size(self, delta: float, power: float) -> int | None:
        """Return the pulls needed to give the right answer with probability `power`.

        It is a multiple of the number of actions; None if no number is enough.
        """
        delta, power = check_error_probability("delta", delta), check_probability("power", power)
        if not self.signals.size:
            return self.actions
        if not self.signals.min() > 0.0:
            return None
        needed = self._pulls(delta, 1.0 - power)
        return None if needed > _LARGEST else self.actions * math.ceil(needed / self.actions)

    def _pulls(self, delta: float, misses: float) -> float:
        """Return the number of pulls at which the tests' probabilities to fail sum to `misses`."""
        level = scipy.special.ndtri(1.0 - delta / self.tests)
        hardest = float(self.signals.min())
        # Bounds: the hardest test alone, and all tests as hard as that one.
        few, many = (
            max(level + scipy.special.ndtri(1.0 - misses / number), 0.0) / hardest
            for number in (1, self.signals.size)
        )

        def excess(root: float) -> float:
            return float(scipy.special.ndtr(level - self.signals * root).sum() - misses)

        if excess(few) <= 0.0 or few == many:
            return float(few**2)
        return float(scipy.optimize.brentq(excess, few, many + 1e-9 / hardest) ** 2)

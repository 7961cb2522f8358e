"""From a certified complexity to the least number of pulls of any rule."""

from __future__ import annotations

import math

from fairtrial.core.validation import check_probability

__all__ = ["CertifiedComplexity"]


class CertifiedComplexity:
    """Base of a family's complexity: T* is known to be at least `lower`."""

    lower: float

    def lower_bound(self, delta: float) -> float:
        """Return the least mean number of pulls (or cost) of any rule that errs at most `delta`.

        Where several answers may be right (slack, epsilon) the bound is for rules that give
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

"""Learners choose the arm in free rounds; they learn from rewards of free and forced pulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.parameters import Parametrized
from fairtrial.core.validation import check_integer, check_number
from fairtrial.errors import InvalidArgument

__all__ = [
    "KLUCB",
    "UCB1",
    "EpsilonGreedy",
    "Greedy",
    "Learner",
    "PullFunction",
    "Random",
    "RoundRobin",
    "SlidingWindowUCB",
    "Thompson",
]

_WIDEST = 10**7
"""Largest width of a sliding window, so that it fits in memory."""

PullFunction = Callable[[int, NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], int]
"""``(t, counts, sums, allowed) -> arm``: any function with this signature is a learner."""


class Learner(Parametrized):
    """Base class of learners; override `choose` to write your own.

    A plain function ``(t, counts, sums, allowed) -> arm`` is a learner as well. But only a subclass
    can be stored by name, which a durable study requires.

    Examples
    --------
    >>> from fairtrial.allocation import FairLearn, Problem
    >>> class LeastPulled(Learner):
    ...     def choose(self, t, counts, sums, allowed):
    ...         return min(allowed, key=lambda arm: counts[arm])
    >>> policy = FairLearn(Problem(3, "1/10"), LeastPulled())
    >>> policy.ask().arm
    '0'
    """

    code: ClassVar[int] = 0
    """Number of the compiled learner; 0 if `choose` decides in Python."""

    has_index: ClassVar[bool] = False
    """Whether the learner maximises an index, to which a price can be added."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Let a subclass of a compiled learner that overrides `choose` decide by it, in Python."""
        super().__init_subclass__(**options)
        if "choose" in vars(cls) and "code" not in vars(cls):
            cls.code, cls.has_index = 0, False

    def choose(
        self,
        t: int,
        counts: NDArray[np.float64],
        sums: NDArray[np.float64],
        allowed: NDArray[np.int64],
    ) -> int:
        """Return the arm to pull.

        Parameters
        ----------
        t : int
            Number of the round, from 1.
        counts : ndarray, shape (k,)
            Number of rewards received, by arm (in the current context, if there are contexts).
        sums : ndarray, shape (k,)
            Their sums.
        allowed : ndarray of int
            The arms to choose from, in ascending order.
        """
        raise NotImplementedError

    @property
    def settings(self) -> tuple[float, float]:
        """Two parameters of the compiled learner; 0 where it has fewer."""
        return 0.0, 0.0

    @property
    def window(self) -> int:
        """Number of past rounds that the learner uses; 0 for all."""
        return 0


class UCB1(Learner):
    """Choose the largest ``mean + sqrt(2 ln t / n)``; arms without pulls come first.

    Rewards that have not arrived are not in n. An arm that has pulls but no reward counts as having
    a mean of 1/2 and as many rewards as pulls, so arms are tried in turn while results are awaited.

    Notes
    -----
    Source: Auer, Cesa-Bianchi, Fischer, "Finite-time analysis of the multiarmed bandit
    problem" (2002), figure 1.

    Examples
    --------
    >>> UCB1()
    UCB1()
    """

    code = 1
    has_index = True


class KLUCB(Learner):
    """Choose the largest x with ``n kl(mean, x) <= ln t``, with kl of two Bernoulli means.

    Notes
    -----
    Source: Garivier, Cappé, "The KL-UCB algorithm for bounded stochastic bandits and beyond"
    (2011), with c = 0.

    Examples
    --------
    >>> KLUCB()
    KLUCB()
    """

    code = 2
    has_index = True


class Thompson(Learner):
    """Choose the largest draw from ``Beta(1 + successes, 1 + failures)``.

    A reward inside (0, 1) counts as one Bernoulli trial with this mean.

    Notes
    -----
    Source: Agrawal, Goyal, "Analysis of Thompson sampling for the multi-armed bandit problem"
    (2012), algorithms 1 and 2.

    Examples
    --------
    >>> Thompson()
    Thompson()
    """

    code = 3
    has_index = True


class EpsilonGreedy(Learner):
    """Choose a random arm with probability epsilon, otherwise the arm with the best mean.

    Parameters
    ----------
    epsilon : float
        Probability of a random arm, in [0, 1].

    Examples
    --------
    >>> EpsilonGreedy(0.1)
    EpsilonGreedy(epsilon=0.1)
    """

    code = 4

    def __init__(self, epsilon: float = 0.05) -> None:
        self.epsilon = check_number("epsilon", epsilon, low=0.0, high=1.0)

    @property
    def settings(self) -> tuple[float, float]:
        """The probability of a random arm."""
        return self.epsilon, 0.0


class Greedy(Learner):
    """Choose the arm with the best mean so far.

    Examples
    --------
    >>> Greedy()
    Greedy()
    """

    code = 5
    has_index = True


class RoundRobin(Learner):
    """Choose arm ``(t - 1) mod k``, or the next allowed arm after it.

    Examples
    --------
    >>> RoundRobin()
    RoundRobin()
    """

    code = 6


class Random(Learner):
    """Choose every allowed arm with equal probability.

    Examples
    --------
    >>> Random()
    Random()
    """

    code = 7


class SlidingWindowUCB(Learner):
    """UCB on the rewards of the last `width` rounds, for means that drift.

    The index is ``mean + sqrt(xi ln(min(t, width)) / n)`` with mean and n of the window; arms
    without pulls in the window come first.

    Parameters
    ----------
    width : int
        Number of past rounds in the window.
    xi : float
        Weight of exploration, more than 0.

    Notes
    -----
    Source: Garivier, Moulines, "On upper-confidence bound policies for switching bandit
    problems" (2011), section 2.2.

    Examples
    --------
    >>> SlidingWindowUCB(4000, xi=0.5)
    SlidingWindowUCB(width=4000, xi=0.5)
    """

    code = 8
    has_index = True

    def __init__(self, width: int, xi: float = 0.6) -> None:
        self.width = check_integer("width", width, low=1)
        if self.width > _WIDEST:
            raise InvalidArgument("width", f"must be at most {_WIDEST}", width)
        self.xi = check_number("xi", xi, low=0.0, open_low=True)

    @property
    def settings(self) -> tuple[float, float]:
        """The weight of exploration."""
        return self.xi, 0.0

    @property
    def window(self) -> int:
        """Number of past rounds that the learner uses."""
        return self.width


class FunctionLearner(Learner):
    """A function as a learner; it cannot be stored."""

    def __init__(self, function: PullFunction) -> None:
        self.function = function

    def choose(self, t: int, counts: Any, sums: Any, allowed: Any) -> int:
        """Return the arm that the function chooses."""
        return self.function(t, counts, sums, allowed)

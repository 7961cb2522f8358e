"""Learners: what picks the arm of a free round; every reward reaches them, forced or not."""

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
"""Rounds that a sliding window may hold, to be kept in memory."""

PullFunction = Callable[[int, NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], int]
"""``(t, counts, sums, allowed) -> arm``: any function of that form is a learner."""


class Learner(Parametrized):
    """Base of the learners; to write your own, override `choose`.

    A plain function ``(t, counts, sums, allowed) -> arm`` is a learner as well. A subclass
    can be written down by name, as a durable study needs it.

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
    """Number of the compiled learner; 0 for one that `choose` in Python decides for."""

    has_index: ClassVar[bool] = False
    """Whether it maximises an index, to which a price can be added."""

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
            The round, from 1.
        counts : ndarray, shape (k,)
            Rewards received, by arm (in the context at hand, if there are contexts).
        sums : ndarray, shape (k,)
            Their sums.
        allowed : ndarray of int
            The arms to choose from, in ascending order.
        """
        raise NotImplementedError

    @property
    def settings(self) -> tuple[float, float]:
        """Up to two numbers for the compiled learner."""
        return 0.0, 0.0

    @property
    def window(self) -> int:
        """Rounds that it looks back; 0 for all."""
        return 0


class UCB1(Learner):
    """Largest ``mean + sqrt(2 ln t / n)``; an arm never pulled comes first.

    A reward still on its way is not in n. An arm without any reward stands at 1/2 with the
    width of its pulls in flight, so that arms are tried in turn while results are awaited.

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
    """Largest x with ``n kl(mean, x) <= ln t``, kl of two Bernoulli means.

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
    """Largest draw from ``Beta(1 + successes, 1 + failures)``.

    A reward inside (0, 1) counts as one Bernoulli trial of that mean.

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
    """With probability epsilon any arm, else the one of the best mean.

    Parameters
    ----------
    epsilon : float
        In [0, 1].

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
    """The arm of the best mean so far.

    Examples
    --------
    >>> Greedy()
    Greedy()
    """

    code = 5
    has_index = True


class RoundRobin(Learner):
    """Arm ``(t - 1) mod k``, or the next after it that is allowed.

    Examples
    --------
    >>> RoundRobin()
    RoundRobin()
    """

    code = 6


class Random(Learner):
    """Every allowed arm with equal probability.

    Examples
    --------
    >>> Random()
    Random()
    """

    code = 7


class SlidingWindowUCB(Learner):
    """UCB on the rewards of the last `width` rounds, for means that drift.

    The index is ``mean + sqrt(xi ln(min(t, width)) / n)`` with mean and n of the window; an
    arm that was not pulled in it comes first.

    Parameters
    ----------
    width : int
        Rounds looked back.
    xi : float
        Weight of the exploration, more than 0.

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
        """The weight of the exploration."""
        return self.xi, 0.0

    @property
    def window(self) -> int:
        """Rounds that it looks back."""
        return self.width


class FunctionLearner(Learner):
    """A function as a learner; it cannot be written down."""

    def __init__(self, function: PullFunction) -> None:
        self.function = function

    def choose(self, t: int, counts: Any, sums: Any, allowed: Any) -> int:
        """Return what the function says."""
        return self.function(t, counts, sums, allowed)

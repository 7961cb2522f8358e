"""The environment that answers pulls: simulated, replayed from data, or a user's function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairtrial.core.parameters import Parametrized
from fairtrial.core.problem import Outcome, Problem
from fairtrial.core.pull import Pull
from fairtrial.errors import NotSupported

__all__ = ["Environment", "Reading", "TopTruth", "Trajectory", "Truth"]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a simulated or replayed environment knows and a policy does not.

    Parameters
    ----------
    best : object
        The right answer: a label, a tuple of labels for a top-k problem, None for "no arm".
    acceptable : tuple
        Every answer that counts as right; `best` is one of them.
    means : ndarray
        The mean outcome of every action, shape as the family documents.
    details : mapping of str to object
        What a family adds.
    tied : bool
        Whether different answers are exactly as good, and no tolerance makes each of them right:
        a run that names one of them has found a difference where there is none.
    """

    best: Any
    acceptable: tuple[Any, ...]
    means: np.ndarray[Any, np.dtype[np.float64]]
    details: Mapping[str, Any] = field(default_factory=dict)
    tied: bool = False

    def accepts(self, answer: Any) -> bool:
        """Return whether the answer is right.

        A family overrides it where the right answers cannot be listed: sets of arms, say,
        that are right in any order and within a tolerance.
        """
        return answer in self.acceptable

    @property
    def interchangeable(self) -> tuple[Any, ...]:
        """The labels that a right answer may name, if more than one answer is right; else empty."""
        return self.acceptable if len(self.acceptable) > 1 else ()


@dataclass(frozen=True, slots=True)
class TopTruth(Truth):
    """The truth where the best k are wanted: any k different good ones are right, in any order.

    Parameters
    ----------
    good : tuple of str
        Labels that a right answer may hold: as good as the last of the best, up to the tolerance.
    same : sequence of sequence of str
        Labels that name the same thing, if there are such: an answer may hold one of them.

    Examples
    --------
    >>> truth = TopTruth(("a", "b"), (("a", "b"),), np.array([3.0, 2.0, 2.0]), good=("a", "b", "c"))
    >>> truth.accepts(("c", "a")), truth.accepts(("a",)), truth.accepts(("a", "a"))
    (True, False, False)
    """

    good: tuple[str, ...] = ()
    same: Sequence[Sequence[str]] = ()

    def accepts(self, answer: Any) -> bool:
        """Return whether the answer holds as many different good labels as are wanted."""
        if isinstance(answer, str) or not isinstance(answer, Sequence | AbstractSet):
            return False
        different = self._different(answer)
        return len(answer) == len(different) == len(self.best) and set(answer) <= set(self.good)

    @property
    def interchangeable(self) -> tuple[Any, ...]:
        """The labels that a right answer may hold, if they are more than it must; else empty."""
        return self.good if len(self._different(self.good)) > len(self.best) else ()

    def _different(self, labels: Iterable[Any]) -> set[Any]:
        """Return one name of everything that the labels name."""
        names = {label: group[0] for group in self.same for label in group}
        return {names.get(label, label) for label in labels}


@dataclass(frozen=True, slots=True)
class Reading:
    """A partial reading of a pull: when it comes, counted from the start, and what it says."""

    elapsed: float
    value: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """All that will happen to one pull if it is left alone.

    Parameters
    ----------
    outcome : float, mapping, or None
        The result; None if the pull will be lost.
    delay : float
        Time from the start to the outcome, or to the loss.
    readings : tuple of Reading
        Partial readings before that, in the order of time.
    """

    outcome: Outcome | None
    delay: float = 1.0
    readings: tuple[Reading, ...] = ()


class Environment(Parametrized, ABC):
    """Base of every environment; a subclass writes `sample`, and `truth` if it knows it.

    One environment serves many runs at a time, in several threads. An environment that remembers
    (data that are used up, means that drift, a context that the outcome depends on) does
    so in the copy that its `begin` returns.
    """

    problem: Problem

    def begin(self, generator: np.random.Generator) -> Environment:
        """Return the environment of one run: this one, or a fresh copy of one that remembers."""
        return self

    @abstractmethod
    def sample(self, pull: Pull, generator: np.random.Generator) -> Outcome:
        """Return the outcome of one pull."""

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        """Return outcome, delay and partial readings of one pull; by default no delay matters."""
        return Trajectory(self.sample(pull, generator))

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return what the environment says before the next decision; by default nothing."""
        return {}

    keeps_assumptions: bool = True
    """Whether all results come, of means that stay: what lower bounds and usual designs assume."""

    @property
    def about(self) -> str | None:
        """What a reader must be told first about runs here, in a sentence; by default nothing.

        An environment that draws recorded rows says so: its truth is that of the rows, no more.
        """
        return None

    @property
    def truth(self) -> Truth:
        """The means and the right answer."""
        raise NotSupported(f"{type(self).__name__} does not know the truth")

    def metrics(self, pulls: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, float]:
        """Return what a family measures of a run; by default nothing.

        What the numbers of pulls by action do not tell (their order, say) an environment that
        `begin` made for this run has seen.
        """
        return {}

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
    """The truth that a simulated or replayed environment knows and a policy does not.

    Parameters
    ----------
    best : object
        The right answer: a label, a tuple of labels for a top-k problem, None for "no arm".
    acceptable : tuple
        Every answer that counts as right; `best` is one of them.
    means : ndarray
        The mean outcome of every action; the family documents the shape.
    details : mapping of str to object
        Facts that a family adds.
    tied : bool
        Whether several different answers are exactly equally good, and no tolerance makes all of
        them right: a run that names one of them has found a difference that does not exist.
    """

    best: Any
    acceptable: tuple[Any, ...]
    means: np.ndarray[Any, np.dtype[np.float64]]
    details: Mapping[str, Any] = field(default_factory=dict)
    tied: bool = False

    def accepts(self, answer: Any) -> bool:
        """Return whether the answer is right.

        A family overrides this if the right answers cannot be listed: sets of arms, for example,
        that are right in any order and within a tolerance.
        """
        return answer in self.acceptable or (answer,) in self.acceptable

    @property
    def interchangeable(self) -> tuple[Any, ...]:
        """The labels that a right answer may name, if several are right; otherwise empty."""
        return self.acceptable if len(self.acceptable) > 1 else ()


@dataclass(frozen=True, slots=True)
class TopTruth(Truth):
    """The truth of a problem that asks for the best k: any k different good arms, in any order.

    Parameters
    ----------
    good : tuple of str
        Labels that a right answer may hold: as good as the k-th best, within the tolerance.
    same : sequence of sequence of str
        Groups of labels that name the same thing, if any: an answer may hold one of each group.

    Examples
    --------
    >>> truth = TopTruth(("a", "b"), (("a", "b"),), np.array([3.0, 2.0, 2.0]), good=("a", "b", "c"))
    >>> truth.accepts(("c", "a")), truth.accepts(("a",)), truth.accepts(("a", "a"))
    (True, False, False)
    >>> TopTruth(("a",), (("a",),), np.array([3.0, 2.0]), good=("a",)).accepts("a")
    True
    """

    good: tuple[str, ...] = ()
    same: Sequence[Sequence[str]] = ()

    def accepts(self, answer: Any) -> bool:
        """Return whether the answer holds the wanted number of different good labels.

        A single label is the same as a tuple with one label.
        """
        if isinstance(answer, str):
            answer = (answer,)
        if not isinstance(answer, Sequence | AbstractSet):
            return False
        different = self._different(answer)
        return len(answer) == len(different) == len(self.best) and set(answer) <= set(self.good)

    @property
    def interchangeable(self) -> tuple[Any, ...]:
        """The labels that a right answer may hold, if more than it needs; otherwise empty."""
        return self.good if len(self._different(self.good)) > len(self.best) else ()

    def _different(self, labels: Iterable[Any]) -> set[Any]:
        """Return one name for each different thing that the labels name."""
        names = {label: group[0] for group in self.same for label in group}
        return {names.get(label, label) for label in labels}


@dataclass(frozen=True, slots=True)
class Reading:
    """A partial reading of a pull: its time, counted from the start, and its value."""

    elapsed: float
    value: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Everything that will happen to a pull unless it is cancelled.

    Parameters
    ----------
    outcome : float, mapping, or None
        The result; None if the pull will be lost.
    delay : float
        Time from the start to the outcome, or to the loss.
    readings : tuple of Reading
        Partial readings before that, in order of time.
    """

    outcome: Outcome | None
    delay: float = 1.0
    readings: tuple[Reading, ...] = ()


class Environment(Parametrized, ABC):
    """Base of every environment; a subclass defines `sample`, and `truth` if it knows it.

    One environment serves many runs at a time, in several threads. An environment with memory
    (data that are used up, means that drift, a context that the outcome depends on) keeps it in
    the copy that its `begin` returns.
    """

    problem: Problem

    def begin(self, generator: np.random.Generator) -> Environment:
        """Return the environment of one run: itself, or a fresh copy if it has memory."""
        return self

    @abstractmethod
    def sample(self, pull: Pull, generator: np.random.Generator) -> Outcome:
        """Return the outcome of one pull."""

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        """Return outcome, delay and partial readings of one pull; by default only an outcome."""
        return Trajectory(self.sample(pull, generator))

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return what the environment announces before the next decision; by default nothing."""
        return {}

    keeps_assumptions: bool = True
    """Whether no result is lost and no mean moves: lower bounds and usual designs assume this."""

    @property
    def about(self) -> str | None:
        """What a reader must know about runs in this environment, in a sentence; None by default.

        An environment that draws recorded rows states this: its truth is the means of those rows.
        """
        return None

    @property
    def truth(self) -> Truth:
        """The means and the right answer."""
        raise NotSupported(f"{type(self).__name__} does not know the truth")

    def metrics(self, pulls: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, float]:
        """Return the family's metrics of a run; by default none.

        The environment that `begin` returned for the run can add facts that the numbers of pulls by
        action do not show, such as their order.
        """
        return {}

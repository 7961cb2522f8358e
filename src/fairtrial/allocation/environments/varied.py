"""Environments in which rounds differ: by drift, by sleeping arms, or by context."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fairtrial.allocation._kernels.draws import draw_awake, draw_context
from fairtrial.allocation._kernels.runs import Varied, run_varied
from fairtrial.allocation.environments.base import (
    AllocationEnvironment,
    Extra,
    Floats,
    Integers,
    one_for_each,
    probabilities,
)
from fairtrial.allocation.fair_schedules import fair_value
from fairtrial.allocation.problem import Problem
from fairtrial.core.draws import Source
from fairtrial.core.pull import Pull
from fairtrial.core.records import Words
from fairtrial.core.stationary import require_binary
from fairtrial.core.validation import check_array, check_instance, check_integer
from fairtrial.errors import InvalidArgument

__all__ = ["ContextualEnvironment", "DriftingEnvironment", "SleepingEnvironment"]


class VariedEnvironment(AllocationEnvironment):
    """Base class of environments in which rounds differ, with binary rewards."""

    _offered = 0.0
    _served = 0.0

    @property
    @abstractmethod
    def row_means(self) -> Floats:
        """Mean reward by arm for every kind of round, shape (rows, k)."""

    def begin(self, generator: np.random.Generator) -> Self:
        """Return a copy that sums the best possible and the received mean rewards."""
        fresh = copy.copy(self)
        fresh.__dict__.update(_offered=0.0, _served=0.0)
        return fresh

    @property
    def _changes(self) -> Integers:
        """Pulls at which means change; empty if they never do."""
        return np.zeros(0, dtype=np.int64)

    @property
    def _chances(self) -> Floats:
        """Each arm's probability of being awake; empty if arms never sleep."""
        return np.zeros(0)

    @property
    def _cumulated(self) -> Floats:
        """Cumulated probabilities of the contexts; empty if there are none."""
        return np.zeros(0)

    @cached_property
    def source(self) -> Source:
        """The environment as the kernels see it: one cell for every arm in every kind of round."""
        return Source.bernoulli(self.row_means.copy())

    def _row(self, number: int) -> int:
        """Return the kind of round that pull `number` belongs to."""
        return 0

    def _on_offer(self, row: int) -> float:
        return float(self.row_means[row].max())

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        """Return one reward of the pull's arm in the current round."""
        row = self._row(pull.number)
        self._offered += self._on_offer(row)
        self._served += float(self.row_means[row, pull.action])
        return self.source.draw(row * len(self.problem.arms) + pull.action, generator)

    def metrics(self, pulls: Integers) -> dict[str, float]:
        """Return ``regret``: the loss against the best available arm of every round."""
        return self._measured(self._offered, self._served, pulls)

    def _measured(self, offered: float, served: float, pulls: Integers) -> dict[str, float]:
        return {"regret": offered - served}

    def run(self, words: Words, contexts: int, generator: np.random.Generator, pulls: int) -> Extra:
        """Run a policy's state in this environment."""
        varied = Varied(
            np.ascontiguousarray(self.row_means).ravel(),
            self._changes,
            self._chances,
            self._cumulated,
            contexts,
        )
        low, width = self._scale()
        offered, served = run_varied(words, self.source, low, width, varied, generator, pulls)
        return lambda counts: self._measured(offered, served, counts)


class DriftingEnvironment(VariedEnvironment):
    """Binary rewards whose probabilities change at given pulls.

    Parameters
    ----------
    problem : Problem
        The problem; its `reward_range` must contain 0 and 1.
    means : array-like of shape (S, k)
        Probabilities of a 1 in each of S stretches.
    changes : sequence of int
        The S - 1 numbers of pulls (from 0) at which the next stretch begins, ascending.

    Examples
    --------
    >>> environment = DriftingEnvironment(Problem(2, "1/4"), [[0.8, 0.5], [0.5, 0.8]], [1000])
    >>> environment.truth.best
    '1'
    """

    def __init__(self, problem: Problem, means: ArrayLike, changes: Sequence[int]) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.means = probabilities("means", means, (None, len(problem.arms)))
        self.changes = changes
        wanted = f"must be {len(self.means) - 1} ascending numbers of pulls"
        if not isinstance(changes, Sequence | np.ndarray):
            raise InvalidArgument("changes", wanted, changes)
        numbers = [check_integer(f"changes[{i}]", change) for i, change in enumerate(changes)]
        self._stretches = np.array(numbers, dtype=np.int64)
        ascends = (np.diff(self._stretches, prepend=0) > 0).all()
        if not ascends or len(self._stretches) != len(self.means) - 1:
            raise InvalidArgument("changes", wanted, changes)
        require_binary(problem)

    @property
    def row_means(self) -> Floats:
        """Probabilities by stretch and arm."""
        return self.means

    @property
    def arm_means(self) -> Floats:
        """Mean reward by arm in the last stretch, which `truth` describes."""
        return np.array(self.means[-1])

    @property
    def _changes(self) -> Integers:
        return self._stretches

    def _row(self, number: int) -> int:
        return int(np.searchsorted(self._changes, number, side="right"))

    def _measured(self, offered: float, served: float, pulls: Integers) -> dict[str, float]:
        ends = [*self._stretches.tolist(), None]
        left, begun, value = int(pulls.sum()), 0, 0.0
        for row, end in zip(self.means, ends, strict=True):
            length = left if end is None else min(left, end - begun)
            value += length * fair_value(self.problem, row) / self.problem.plays
            left, begun = left - length, begun + length
        return {"regret": offered - served, "fair_regret": value - served}


class SleepingEnvironment(VariedEnvironment):
    """Binary rewards from arms that are awake only sometimes.

    In every round, each arm is awake independently with its own probability; rounds in which no arm
    is awake are skipped. The policy is told which arms are awake: ``ask(awake=[...])``.

    Parameters
    ----------
    problem : Problem
        The problem; its `reward_range` must contain 0 and 1.
    means : array-like of shape (k,)
        The true probabilities of a 1.
    chances : float or array-like of shape (k,)
        Probabilities of being awake, more than 0.

    Examples
    --------
    >>> environment = SleepingEnvironment(Problem(2, "1/4"), [0.6, 0.5], chances=0.5)
    >>> len(environment.context(np.random.default_rng(1))["awake"]) > 0
    True
    """

    def __init__(self, problem: Problem, means: ArrayLike, chances: ArrayLike) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.means = probabilities("means", means, (len(problem.arms),))
        self.chances = chances
        each = one_for_each("chances", chances, problem)
        self._own_chances = probabilities("chances", each, (len(problem.arms),))
        if (self._own_chances == 0).any():
            raise InvalidArgument("chances", "must be more than 0", chances)
        self._awake = np.ones(len(problem.arms), dtype=np.int64)
        require_binary(problem)

    @property
    def is_sleeping(self) -> bool:
        """Whether arms sleep: always True."""
        return True

    @property
    def row_means(self) -> Floats:
        """One row: the means."""
        return self.means.reshape(1, -1)

    @property
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (k,)."""
        return self.means

    @property
    def _chances(self) -> Floats:
        return self._own_chances

    def begin(self, generator: np.random.Generator) -> Self:
        """Return a copy that remembers which arms are awake."""
        fresh = super().begin(generator)
        fresh.__dict__.update(_awake=self._awake.copy())
        return fresh

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return which arms are awake in the next round."""
        draw_awake(self._own_chances, self._awake, generator)
        arms = self.problem.arms
        return {"awake": [arms[place] for place in np.flatnonzero(self._awake).tolist()]}

    def _on_offer(self, row: int) -> float:
        return float(self.means[self._awake > 0].max())


class ContextualEnvironment(VariedEnvironment):
    """Binary rewards whose probabilities depend on a context that is known before each pull.

    Parameters
    ----------
    problem : Problem
        The problem; its `reward_range` must contain 0 and 1.
    means : array-like of shape (S, k)
        Probabilities of a 1 in each of S contexts.
    frequencies : array-like of shape (S,), optional
        Relative frequencies of the contexts; any non-negative numbers, equal by default.

    Examples
    --------
    >>> environment = ContextualEnvironment(Problem(2, "1/2"), [[0.8, 0.5], [0.5, 0.8]])
    >>> round(environment.truth.details["fair_value"], 6)
    0.8
    """

    def __init__(
        self, problem: Problem, means: ArrayLike, frequencies: ArrayLike | None = None
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.means = probabilities("means", means, (None, len(problem.arms)))
        self.frequencies = frequencies
        contexts = len(self.means)
        given = np.ones(contexts) if frequencies is None else frequencies
        weights = check_array("frequencies", given, (contexts,))
        if (weights < 0).any() or weights.sum() == 0:
            raise InvalidArgument("frequencies", "must be non-negative, not all 0", frequencies)
        if problem.plays > 1 or problem.groups:
            raise InvalidArgument("problem", "must have one play a round and no groups", problem)
        self._weights = weights / weights.sum()
        self._sums = np.cumsum(self._weights)
        self._context = 0
        require_binary(problem)

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return len(self.means)

    @property
    def row_means(self) -> Floats:
        """Probabilities by context and arm."""
        return self.means

    @property
    def arm_means(self) -> Floats:
        """Mean reward by arm over all contexts."""
        return np.asarray(self._weights @ self.means)

    @cached_property
    def fair_value(self) -> float:
        """Mean reward per round of the best contextual schedule that keeps the shares."""
        contexts, arms = self.means.shape
        gain = -(self._weights[:, None] * self.means).ravel()
        served = np.kron(self._weights, np.eye(arms))
        solution: Any = scipy.optimize.linprog(
            gain,
            A_ub=-served,
            b_ub=-np.array([float(share) for share in self.problem.shares]),
            A_eq=np.kron(np.eye(contexts), np.ones(arms)),
            b_eq=np.ones(contexts),
            method="highs",
        )
        return float(-gain @ solution.x)

    @property
    def _cumulated(self) -> Floats:
        return self._sums

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return the next context."""
        if len(self._sums) > 1:
            self._context = int(draw_context(self._sums, generator))
        return {"context": self._context}

    def _row(self, number: int) -> int:
        return self._context

    def _measured(self, offered: float, served: float, pulls: Integers) -> dict[str, float]:
        value = int(pulls.sum()) * self.fair_value
        return {"regret": offered - served, "fair_regret": value - served}

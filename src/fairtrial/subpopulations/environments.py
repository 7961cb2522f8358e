"""Environments: Gaussian, Bernoulli, or replayed from the rows of a table; each knows its truth."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.complexity import EvidencePrice
from fairtrial.core.draws import Source
from fairtrial.core.environment import Truth
from fairtrial.core.stationary import StationaryEnvironment, require_binary
from fairtrial.core.tables import rewards_by_labels
from fairtrial.core.validation import as_floats, check_array, check_instance, require_each
from fairtrial.core.wording import plural, said_of_rows
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations.problem import Problem

__all__ = ["BernoulliEnvironment", "GaussianEnvironment", "ReplayEnvironment", "arrival_shares"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-12
"""Qualities that differ by less than this, relative to the largest mean, are taken for equal."""


def arrival_shares(problem: Problem, arrivals: Any) -> Floats:
    """Return the probability that each group comes next, given in any non-negative numbers.

    Raises
    ------
    InvalidArgument
        If they are negative or all zero, or not one for each group.
    """
    given, groups = arrivals, problem.groups
    if isinstance(arrivals, Mapping):
        if set(arrivals) != set(groups):
            accepted = f"must give a number for each group ({', '.join(groups)}), and no other"
            raise InvalidArgument("arrivals", accepted, arrivals)
        given = [arrivals[group] for group in groups]
    numbers = check_array("arrivals", given, (len(groups),))
    if (numbers < 0.0).any() or numbers.sum() == 0.0:
        raise InvalidArgument("arrivals", "must be non-negative and not all zero", arrivals)
    largest = numbers / numbers.max()
    return np.asarray(largest / largest.sum())


class CellEnvironment(StationaryEnvironment):
    """An environment in which every cell has its own distribution, whatever happened before.

    With `arrivals` groups come by themselves, and a policy chooses the arm alone; without, it also
    chooses the group.
    """

    problem: Problem
    arrivals: Any = None

    def _let_arrive(self, arrivals: Any) -> None:
        """Let groups come by themselves, unless `arrivals` is None."""
        self.arrivals = arrivals
        if arrivals is not None:
            self._arriving = arrival_shares(self.problem, arrivals)

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return the group that has come, if groups come by themselves."""
        if self.arrivals is None:
            return {}
        groups = self.problem.groups
        return {"group": groups[int(generator.choice(len(groups), p=self._arriving))]}

    @property
    @abstractmethod
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L)."""

    @property
    @abstractmethod
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward by cell, shape (K, L)."""

    def evidence_price(self, weights: Floats) -> EvidencePrice:
        """Return what a unit of evidence takes; infinite where no number of results will do.

        Differences that count are those of the answer's quality to that of other feasible arms, of
        its means to their limits, and for every other arm the one that is farthest beyond its
        limit. The optimal shares `weights` make no difference in this family.
        """
        problem, means = self.problem, self.problem.sign * self.cell_means
        variances, quality = self.cell_stds**2, means @ problem.shares
        best = None if self.truth.best is None else problem.arms.index(self.truth.best)
        # Gap, variance, and how many means are compared.
        found: list[tuple[float, float, float]] = []
        for k in range(len(problem.arms)):
            limits = self._distances_of(k)
            if k == best:
                found += limits
            elif not self.truth.details["feasible"][k]:
                gap, spread, compared = min(limits)
                found.append((-gap, spread, compared))
            elif best is not None:
                pair = variances[[best, k]].mean(axis=0) @ problem.shares
                found.append((quality[best] - quality[k], pair, 2.0))
        gaps, spreads, compared = np.array(found).T
        with np.errstate(divide="ignore", invalid="ignore"):
            reaches = np.where(gaps > 0.0, compared / gaps, np.inf)
            prices = np.where(gaps > 0.0, 2.0 * spreads * reaches**2, np.inf)
        return EvidencePrice(float(prices.max()), float(reaches.max()))

    def _distances_of(self, k: int) -> list[tuple[float, float, float]]:
        """Return of every limit of arm k: the distance within it, a variance, and means compared.

        Without limits there is one that is infinitely far away.
        """
        problem, means = self.problem, self.problem.sign * self.cell_means
        variances = self.cell_stds**2
        floors, ceilings = problem.limits()
        margins = np.minimum(means[k] - floors[k], ceilings[k] - means[k])
        found = [(float(m), float(v), 1.0) for m, v in zip(margins, variances[k], strict=True)]
        if problem.control is not None and problem.refers_to_control:
            both = variances[[k, problem.arms.index(problem.control)]].mean(axis=0)
            above, least = problem.above_control(means)[:, k], problem.differences()[:, k]
            spreads = np.stack([both, np.full_like(both, both @ problem.shares)])
            found += [
                (float(above[place] - least[place]), float(spreads[place]), 2.0)
                for place in np.ndindex(above.shape)
            ]
        return found

    @cached_property
    def truth(self) -> Truth:
        """Means, qualities, feasibility and every acceptable answer."""
        problem, means = self.problem, self.cell_means
        quality = problem.sign * problem.quality(means)
        kept = problem.feasible(means)
        strictly = problem.within(means, -problem.floor_tolerance)
        loosely = problem.within(means, problem.floor_tolerance)
        target = quality[strictly].max() if strictly.any() else -np.inf
        least = target - problem.tolerance - _ROUNDING * float(np.abs(means).max())
        good = [
            arm
            for index, arm in enumerate(problem.arms)
            if loosely[index] and quality[index] >= least
        ]
        best = None
        if kept.any():
            best = problem.arms[int(np.argmax(np.where(kept, quality, -np.inf)))]
        acceptable: tuple[Any, ...] = tuple(good) if strictly.any() else (*good, None)
        return Truth(
            best=best,
            acceptable=acceptable,
            means=means,
            details={"quality": problem.quality(means), "feasible": kept},
            tied=len(good) > 1 and problem.tolerance == problem.floor_tolerance == 0.0,
        )


class GaussianEnvironment(CellEnvironment):
    """Rewards with a normal distribution in every cell.

    Parameters
    ----------
    problem : Problem
        The problem; it must give `noise_std` unless `std` is given here.
    means : array-like of shape (K, L), mapping by arm, or pandas.DataFrame
        The true means, as `Problem.check_means` takes them.
    std : float or array-like of shape (K, L), optional
        True standard deviations; the problem's by default.
    arrivals : array-like of shape (L,) or mapping by group, optional
        In which proportions groups come by themselves. By default the policy chooses the group.

    Examples
    --------
    >>> problem = Problem(2, 2, noise_std=1.0)
    >>> GaussianEnvironment(problem, [[0.5, 0.5], [1.0, -0.2]]).truth.best
    '0'
    """

    def __init__(
        self,
        problem: Problem,
        means: ArrayLike,
        std: ArrayLike | None = None,
        arrivals: Any = None,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self._let_arrive(arrivals)
        self.means = self.problem.check_means(means)
        self.std = std
        if problem.reward_range is not None:
            raise InvalidArgument(
                "problem", "must give noise_std: Gaussian rewards have no range", problem
            )
        if std is None and problem.estimates_noise:
            raise InvalidArgument("std", "must be given when the problem's noise is estimated")
        given = problem.scale if std is None else as_floats("std", std, "must be numbers")
        try:
            cells = np.broadcast_to(given, problem.shape)
        except ValueError:
            raise InvalidArgument(
                "std", f"must be a number or have shape {problem.shape}", std
            ) from None
        self._stds = check_array("std", cells, problem.shape)
        if (self._stds < 0).any():
            raise InvalidArgument("std", "must not be negative", std)

    @property
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L)."""
        return self.means

    @property
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward by cell, shape (K, L)."""
        return self._stds

    @cached_property
    def source(self) -> Source:
        """The environment as the kernels see it."""
        return Source.gaussian(self.means, self._stds)


class BernoulliEnvironment(CellEnvironment):
    """Rewards 1 or 0: clicks, cures, events.

    Parameters
    ----------
    problem : Problem
        The problem; a `reward_range`, if it gives one, must contain 0 and 1.
    means : array-like of shape (K, L), mapping by arm, or pandas.DataFrame
        The true probabilities of a 1, as `Problem.check_means` takes them.
    arrivals : array-like of shape (L,) or mapping by group, optional
        In which proportions groups come by themselves. By default the policy chooses the group.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.5, reward_range=(0, 1))
    >>> BernoulliEnvironment(problem, [[0.4], [0.3]]).truth.best is None
    True
    """

    def __init__(self, problem: Problem, means: ArrayLike, arrivals: Any = None) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self._let_arrive(arrivals)
        self.means = self.problem.check_means(means)
        fine = (self.means >= 0) & (self.means <= 1)
        axes = (problem.arms, problem.groups)
        require_each("means", self.means, fine, "must be a probability in [0, 1]", axes)
        require_binary(problem)

    @property
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L)."""
        return self.means

    @property
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward by cell, shape (K, L)."""
        return np.sqrt(self.means * (1.0 - self.means))

    @cached_property
    def source(self) -> Source:
        """The environment as the kernels see it."""
        return Source.bernoulli(self.means)


class ReplayEnvironment(CellEnvironment):
    """Rewards drawn, with replacement, from the rows of a table.

    The truth is exactly the table's cell means.

    Runs show what a policy does with these rows; `about` says so, and a simulation's summary does.

    Parameters
    ----------
    problem : Problem
        The problem; every cell needs at least one row.
    table : pandas.DataFrame or mapping of str to sequence
        One row per observation.
    arm, group, reward : str
        Names of the columns.
    arrivals : array-like of shape (L,) or mapping by group, optional
        In which proportions groups come by themselves. By default the policy chooses the group.

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, or a cell has no row.
    InvalidOutcome
        If a reward is refused by the problem; the row is named.

    Examples
    --------
    >>> problem = Problem(["a", "b"], ["x"], floors=None, reward_range=(0, 1))
    >>> rows = {"arm": ["a", "a", "b"], "group": ["x", "x", "x"], "reward": [0, 1, 1]}
    >>> ReplayEnvironment(problem, rows).truth.means.tolist()
    [[0.5], [1.0]]
    """

    def __init__(
        self,
        problem: Problem,
        table: Any,
        arm: str = "arm",
        group: str = "group",
        reward: str = "reward",
        arrivals: Any = None,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self._let_arrive(arrivals)
        self.table = table
        self.arm, self.group, self.reward = arm, group, reward
        arms, groups = problem.arms, problem.groups
        accepted = f"must name an arm of {[*arms]} and a group of {[*groups]}"
        cells, columns = product(arms, groups), (arm, group)
        found = rewards_by_labels(problem, table, columns, reward, cells, accepted)
        for action, rows in enumerate(found.values()):
            if not rows:
                labels = problem.labels(action)
                raise InvalidArgument("table", f"must have a row for every cell; none for {labels}")
        self.rows = [np.array(rows) for rows in found.values()]

    def with_rows(self, rows: Sequence[Floats]) -> ReplayEnvironment:
        """Return an environment with other rows, one array for every cell."""
        cells = [
            (*labels.values(), own)
            for labels, own in zip(self.problem.action_labels, rows, strict=True)
        ]
        table = {
            self.arm: [arm for arm, _, own in cells for _ in own],
            self.group: [group for _, group, own in cells for _ in own],
            self.reward: np.concatenate(list(rows)).tolist(),
        }
        return self.clone(table=table)

    def with_rows_of(self, arm: int) -> ReplayEnvironment:
        """Return the environment in which every arm has the rows of that one."""
        arms, groups = self.problem.shape
        return self.with_rows(self.rows[arm * groups : (arm + 1) * groups] * arms)

    @property
    def about(self) -> str:
        """That recorded rows are sampled repeatedly, in a sentence."""
        return said_of_rows(plural(sum(map(len, self.rows)), "row"))

    @cached_property
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L)."""
        return np.array([rows.mean() for rows in self.rows]).reshape(self.problem.shape)

    @cached_property
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward by cell, shape (K, L)."""
        return np.array([rows.std() for rows in self.rows]).reshape(self.problem.shape)

    @cached_property
    def source(self) -> Source:
        """The environment as the kernels see it."""
        return Source.replay(self.rows)

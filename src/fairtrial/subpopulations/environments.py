"""Environments: Gaussian, Bernoulli, or replayed from table rows; each knows its truth."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.complexity import EvidencePrice
from fairtrial.core.cells import is_blank
from fairtrial.core.draw_kernels import BERNOULLI, GAUSSIAN, POINTS
from fairtrial.core.draws import Source, VectorSource
from fairtrial.core.environment import Truth
from fairtrial.core.frames import plain_data
from fairtrial.core.pull import Pull
from fairtrial.core.stationary import StationaryEnvironment, require_binary
from fairtrial.core.tables import (
    column_of,
    columns_of_measures,
    columns_of_predictions,
    outcomes_by_labels,
    rewards_by_labels,
)
from fairtrial.core.validation import as_floats, check_array, check_instance, require_each
from fairtrial.core.wording import plural, said_of_rows
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._dependence import (
    corners,
    correlated,
    covariance_of_points,
    covariance_of_rows,
    independent,
    joint_of,
    moved_joint,
)
from fairtrial.subpopulations._measured import checked_covariance
from fairtrial.subpopulations.problem import Problem

__all__ = ["BernoulliEnvironment", "GaussianEnvironment", "ReplayEnvironment", "arrival_shares"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-12
"""Qualities that differ by less than this, relative to the largest mean, count as equal."""


def arrival_shares(problem: Problem, arrivals: Any) -> Floats:
    """Return the probability that each group comes next, from any non-negative numbers.

    Raises
    ------
    InvalidArgument
        If there is a negative one, all are zero, or there is not one for each group.
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


class PredictedVariances(NamedTuple):
    """What predictions explain, and what they leave, if they are used with one slope by group."""

    places: list[int]
    """The measures that are predicted; 0 for a reward."""
    left: Floats
    """Covariances of measures minus slopes times predictions, by cell, shape (K, L, M, M)."""
    explained: Floats
    """Covariances of slopes times predictions, by group, shape (L, P, P); 0 for known means."""


class CellEnvironment(StationaryEnvironment):
    """An environment whose cells each have one fixed distribution, independent of the past.

    With `arrivals`, groups arrive by themselves and a policy chooses only the arm; without, it also
    chooses the group.
    """

    problem: Problem
    arrivals: Any = None
    _arriving: Floats

    def _let_arrive(self, arrivals: Any) -> None:
        """Let groups arrive by themselves, unless `arrivals` is None."""
        self.arrivals = arrivals
        if arrivals is not None:
            self._arriving = arrival_shares(self.problem, arrivals)

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return the group that has arrived, if groups arrive by themselves."""
        if self.arrivals is None:
            return {}
        groups = self.problem.groups
        return {"group": groups[int(generator.choice(len(groups), p=self._arriving))]}

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        """Return one reward of the pull's action, or a value of each measure by name."""
        measured, drawn = self.problem.measured, self.source.draw(pull.action, generator)
        return drawn if measured is None else measured.as_row(np.asarray(drawn))

    @property
    @abstractmethod
    def source(self) -> Any:
        """The environment in the form that kernels read."""

    @property
    def gives_binary(self) -> bool:
        """Whether every reward is 0 or 1."""
        source = self.source
        if source.kind == BERNOULLI:
            return True
        return not source.second.any() and bool(np.isin(source.first, (0.0, 1.0)).all())

    @property
    @abstractmethod
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L); with measures (K, L, M)."""

    @property
    @abstractmethod
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward, or of the objective, by cell, shape (K, L)."""

    @property
    def cell_covariances(self) -> Floats:
        """With measures: their covariance within a pull, by cell, shape (K, L, M, M)."""
        return np.square(self.cell_stds)[..., np.newaxis, np.newaxis]

    @property
    def predicted_variances(self) -> PredictedVariances | None:
        """What predictions explain; None if there are none, or it is not stated."""
        return None

    @property
    def _stds_of_objective(self) -> Floats:
        weights = np.asarray(self.problem.objective_weights)
        return np.asarray(np.sqrt(np.maximum(self.cell_covariances @ weights @ weights, 0.0)))

    @property
    def objective_means(self) -> Floats:
        """Mean of the objective by cell, shape (K, L)."""
        weights = self.problem.objective_weights
        return self.cell_means if weights is None else np.asarray(self.cell_means @ weights)

    def value_of(self, outcome: Any) -> float:
        """Return the objective's value in an outcome; NaN if a measure in it is missing."""
        weights = self.problem.objective_weights
        if weights is None:
            return float(outcome)
        pairs = zip(self.problem.measures, weights.tolist(), strict=True)
        given = [(outcome[name], weight) for name, weight in pairs if weight]
        return float(sum(weight * (np.nan if own is None else own) for own, weight in given))

    @property
    def action_values(self) -> Floats:
        """Mean of the objective, by action."""
        return self.objective_means.ravel()

    def stds_of_measures(self, action: int) -> Floats:
        """Return the standard deviation of every measure of an action, shape (M,)."""
        cell = np.unravel_index(action, self.problem.shape)
        return np.asarray(np.sqrt(np.diagonal(self.cell_covariances[cell])))

    def shares_above(self, sign: float) -> Floats:
        """Return the share of the results of each action that are better than their mean."""
        weights, source = self.problem.objective_weights, self.source
        if weights is None or isinstance(source, Source):
            return super().shares_above(sign)
        if source.kind == GAUSSIAN:
            return np.full(self.action_values.size, 0.5)
        values = np.split(source.first @ weights, source.starts[1:-1])
        better = [
            sign * own > sign * mean for own, mean in zip(values, self.action_values, strict=True)
        ]
        if source.kind != POINTS:
            return np.array([own.mean() for own in better])
        heights = np.split(source.second.ravel(), source.starts[1:-1])
        chances = [np.diff(own, prepend=0.0) for own in heights]
        return np.array([own @ chance for own, chance in zip(better, chances, strict=True)])

    @property
    def reward_span(self) -> tuple[float, float]:
        """The smallest and largest value of the objective; may be infinite."""
        weights, source = self.problem.objective_weights, self.source
        if weights is None or isinstance(source, Source):
            return super().reward_span
        if source.kind == GAUSSIAN:
            return -np.inf, np.inf
        values = np.nan_to_num(source.first[:, weights != 0.0]) @ weights[weights != 0.0]
        return float(values.min()), float(values.max())

    def evidence_price(self, weights: Floats) -> EvidencePrice:
        """Return the price of a unit of evidence; infinite if no number of results is enough.

        The differences that count: between the answer's quality and that of other feasible arms,
        between the answer's means and their limits, and for every other arm the largest distance
        beyond one of its limits. The optimal shares `weights` are not used in this family.
        """
        problem = self.problem
        variances = self.cell_stds**2
        quality = problem.sign * self.objective_means @ problem.shares
        best = None if self.truth.best is None else problem.arms.index(self.truth.best)
        # Gap, variance, and number of means that are compared.
        found: list[tuple[float, float, float]] = []
        for k in range(len(problem.arms)):
            limits = self._distances_of(k)
            if k == best:
                found += limits
            elif not self.truth.details["feasible"][k]:
                gap, spread, compared = min(limits)
                found.append((-gap, spread, compared))
            elif best is not None:
                pair = float(variances[[best, k]].mean(axis=0) @ problem.shares)
                found.append((float(quality[best] - quality[k]), pair, 2.0))
        gaps, spreads, compared = np.array(found).T
        with np.errstate(divide="ignore", invalid="ignore"):
            reaches = np.where(gaps > 0.0, compared / gaps, np.inf)
            prices = np.where(gaps > 0.0, 2.0 * spreads * reaches**2, np.inf)
        return EvidencePrice(float(prices.max()), float(reaches.max()))

    def _distances_of(self, k: int) -> list[tuple[float, float, float]]:
        """Return for each limit of arm k its distance, a variance, and the number of means.

        Without limits the list has one limit at an infinite distance.
        """
        if self.problem.measured is not None:
            return self._distances_of_measures(k)
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

    def _distances_of_measures(self, k: int) -> list[tuple[float, float, float]]:
        problem = self.problem
        found = [(np.inf, 1.0, 1.0)]
        for row in problem.limit_rows:
            variances, arms = row.variances(self.cell_covariances), 1.0
            own = variances[k]
            if row.control is not None:
                own, arms = variances[[k, row.control]].mean(axis=0), 2.0
            spread = own @ problem.shares if row.group is None else own[row.group]
            distance = row.distances(self.cell_means, problem.shares)[k]
            found.append((float(distance), float(spread), arms))
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
        least = target - problem.tolerance - _ROUNDING * float(np.abs(self.objective_means).max())
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
    means : array-like of shape (K, L), mapping by arm, or data frame
        The true means, in a form that `Problem.check_means` accepts.
    std : float or array-like of shape (K, L), optional
        True standard deviations; the problem's by default.
    arrivals : array-like of shape (L,) or mapping by group, optional
        The proportions in which groups arrive by themselves. By default the policy chooses the
        group.
    cov : array-like of shape (M, M) or (K, L, M, M), optional
        With measures: their covariance within a pull. By default the problem's; if the problem has
        only standard deviations, the measures are independent.

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
        cov: ArrayLike | None = None,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self._let_arrive(arrivals)
        self.means = self.problem.check_means(means)
        self.std = std
        self.cov: Any = cov
        if problem.reward_range is not None or problem.measure_ranges is not None:
            raise InvalidArgument(
                "problem", "must give noise_std: Gaussian rewards have no range", problem
            )
        if problem.measured is not None:
            self._covariances = self._given_covariances()
            self._stds = self._stds_of_objective
            return
        if cov is not None:
            raise InvalidArgument("cov", "must be left out where a reward is a number", cov)
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

    def _given_covariances(self) -> Floats:
        """Return the covariance of the measures by cell; independent unless it is stated."""
        problem = self.problem
        if self.std is not None:
            raise InvalidArgument("std", "must be left out with measures: give cov", self.std)
        if self.cov is not None:
            wanted = (*problem.shape, *[len(problem.measures)] * 2)
            clean = checked_covariance(self.cov, problem.shape, len(problem.measures), "cov")
            return np.broadcast_to(clean, wanted)
        if problem.noise_covariance is not None:
            return problem.noise_covariance
        variances = np.square(np.asarray(problem.measure_noise_std))
        return np.asarray(variances[..., np.newaxis] * np.eye(len(problem.measures)))

    @property
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L); with measures (K, L, M)."""
        return self.means

    @property
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward, or of the objective, by cell, shape (K, L)."""
        return self._stds

    @property
    def cell_covariances(self) -> Floats:
        """With measures: their covariance within a pull, by cell, shape (K, L, M, M)."""
        return super().cell_covariances if self.problem.measured is None else self._covariances

    @cached_property
    def source(self) -> Any:
        """The environment in the form that kernels read."""
        if self.problem.measured is not None:
            size = len(self.problem.measures)
            means = self.means.reshape(-1, size)
            return VectorSource.gaussian(means, self._covariances.reshape(-1, size, size))
        return Source.gaussian(self.means, self._stds)


class BernoulliEnvironment(CellEnvironment):
    """Rewards 1 or 0: clicks, cures, events.

    With measures, each value is at the lower or the upper end of its range: 0 or 1, if that
    is the range.

    Parameters
    ----------
    problem : Problem
        The problem; a `reward_range`, if it gives one, must contain 0 and 1.
    means : array-like of shape (K, L), mapping by arm, or data frame
        The true probabilities of a 1, in a form that `Problem.check_means` accepts. With measures
        the true means, or None if `joint` is given.
    arrivals : array-like of shape (L,) or mapping by group, optional
        The proportions in which groups arrive by themselves. By default the policy chooses the
        group.
    correlation : float or array-like of shape (K, L), optional
        The correlation of two measures of one pull; they are independent by default.
    joint : array-like of shape (2,) * M or (K, L) + (2,) * M, optional
        The probability of every combination of ends: ``joint[..., 1, 0]`` belongs to the upper end
        of the first measure and the lower end of the second. If `means` is given as well, `joint`
        is changed so that it has those means and keeps its odds ratios.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.5, reward_range=(0, 1))
    >>> BernoulliEnvironment(problem, [[0.4], [0.3]]).truth.best is None
    True

    Patients who are cured suffer more often:

    >>> doses = Problem(["low", "high"], 1, measures={"cured": (0, 1), "harmed": (0, 1)},
    ...                 objective="cured", ceilings={"harmed": 0.3})
    >>> means = {"cured": [[0.4], [0.6]], "harmed": [[0.1], [0.4]]}
    >>> environment = BernoulliEnvironment(doses, means, correlation=0.3)
    >>> environment.truth.best
    'low'
    >>> environment.sample(doses.pull(arm="high", group="0"), np.random.default_rng(1))
    {'cured': 1.0, 'harmed': 0.0}
    """

    _points: Floats
    """With measures: the values that a pull can give, shape (2**M, M)."""

    _chances: Floats
    """With measures: the probability of each of these by cell."""

    def __init__(
        self,
        problem: Problem,
        means: ArrayLike | None,
        arrivals: Any = None,
        correlation: ArrayLike | None = None,
        joint: ArrayLike | None = None,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self._let_arrive(arrivals)
        self.correlation, self.joint = correlation, joint
        if problem.measured is not None:
            self._take_measures(means)
            return
        for name, given in (("correlation", correlation), ("joint", joint)):
            if given is not None:
                raise InvalidArgument(name, "must be left out where a reward is a number", given)
        self.means = self.problem.check_means(means)
        fine = (self.means >= 0) & (self.means <= 1)
        axes = (problem.arms, problem.groups)
        require_each("means", self.means, fine, "must be a probability in [0, 1]", axes)
        require_binary(problem)

    def _take_measures(self, means: Any) -> None:
        """Set the joint probabilities of the measures of a pull, and their means."""
        problem, size = self.problem, len(self.problem.measures)
        if problem.measure_ranges is None:
            raise InvalidArgument("problem", "must give the ranges of its measures", problem)
        if self.correlation is not None and self.joint is not None:
            raise InvalidArgument("joint", "must be left out if correlation is given", self.joint)
        if means is None and self.joint is None:
            raise InvalidArgument("means", "must be given unless joint is", None)
        low, high = problem.measure_ranges.T
        self._points = low + corners(size) * (high - low)
        if self.joint is not None:
            self._chances = joint_of(self.joint, problem.shape, size)
            if means is None:
                self.means = self._chances @ self._points
                return
        self.means = problem.check_means(means)
        chances = (self.means - low) / (high - low)
        fine, axes = (chances >= 0) & (chances <= 1), (problem.arms, problem.groups)
        accepted = "must be in the range of the measure"
        require_each("means", self.means, fine, accepted, (*axes, problem.measures))
        if self.joint is not None:
            self._chances = moved_joint(self._chances, chances)
        elif self.correlation is None:
            self._chances = independent(chances)
        else:
            self._chances = correlated(chances, self.correlation)

    def with_means(self, means: Any) -> BernoulliEnvironment:
        """Return the environment with other means; measures keep their odds ratios."""
        if self.problem.measured is None:
            return self.clone(means=means)
        size = len(self.problem.measures)
        joint = self._chances.reshape(*self.problem.shape, *[2] * size)
        return self.clone(means=means, correlation=None, joint=joint)

    @property
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L); with measures (K, L, M)."""
        return self.means

    @property
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward, or of the objective, by cell, shape (K, L)."""
        if self.problem.measured is not None:
            return self._stds_of_objective
        return np.sqrt(self.means * (1.0 - self.means))

    @property
    def cell_covariances(self) -> Floats:
        """With measures: their covariance within a pull, by cell, shape (K, L, M, M)."""
        if self.problem.measured is None:
            return super().cell_covariances
        return covariance_of_points(self._points, self._chances)

    @cached_property
    def source(self) -> Any:
        """The environment in the form that kernels read."""
        if self.problem.measured is None:
            return Source.bernoulli(self.means)
        chances = self._chances.reshape(self.problem.n_actions, -1)
        points = np.broadcast_to(self._points, (*chances.shape, self._points.shape[1]))
        return VectorSource.points(points, chances)


class ReplayEnvironment(CellEnvironment):
    """Rewards drawn, with replacement, from the rows of a table.

    The truth is exactly the table's cell means.

    Runs show what a policy does with these rows; `about` and the summary of a simulation state
    this.

    Parameters
    ----------
    problem : Problem
        The problem; every cell needs at least one row.
    table : data frame or mapping of str to sequence
        One row per observation.
    arm, group : str
        Names of the columns with the labels.
    reward : str, or mapping of str to str
        Name of the column with the rewards. With measures the column of each, by default the one
        with the measure's name. A blank cell is a missing value.
    arrivals : array-like of shape (L,) or mapping by group, optional
        The proportions in which groups arrive by themselves. By default the policy chooses the
        group.
    prediction : str, or mapping of str to str, optional
        Name of the column with what was known of each unit before its arm was drawn, if the problem
        has a prediction; the column of each measure if several are predicted.

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, or a cell has no row.
    InvalidOutcome
        If the problem refuses a reward; the error names the row.

    Notes
    -----
    With predictions, units come by themselves: a group, and a prediction from the rows of the group
    in all arms. The reward under an arm is that of a row of this arm and group whose prediction has
    the same rank. So the truth stays the table's cell means, and predictions do not depend on the
    arm. If several measures are predicted, rows are ranked by the sum of their predictions, each in
    units of its standard deviation.

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
        reward: str | Mapping[str, str] = "reward",
        arrivals: Any = None,
        prediction: str | Mapping[str, str] | None = None,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self._let_arrive(arrivals)
        self.table = table = plain_data(table)
        self.prediction = prediction
        self._place: float | None = None
        self.arm, self.group, self.reward = arm, group, reward
        arms, groups = problem.arms, problem.groups
        accepted = f"must name an arm of {[*arms]} and a group of {[*groups]}"
        cells, columns = product(arms, groups), (arm, group)
        if problem.measured is not None:
            self._columns = columns_of_measures(problem, reward)
            found = outcomes_by_labels(problem, table, columns, self._columns, cells, accepted)
        else:
            found = rewards_by_labels(problem, table, columns, str(reward), cells, accepted)
        for action, rows in enumerate(found.values()):
            if not rows:
                labels = problem.labels(action)
                raise InvalidArgument("table", f"must have a row for every cell; none for {labels}")
        self.rows = [np.array(rows) for rows in found.values()]
        self.predictions: list[Floats] = []
        self._predicted = columns_of_predictions(problem, prediction)
        if self._predicted:
            self._sort_by_prediction()
        if problem.measured is not None:
            self._require_known_means()

    def _require_known_means(self) -> None:
        """Raise if a measure has no value in a cell."""
        for action, rows in enumerate(self.rows):
            unknown = np.isnan(rows).all(axis=0)
            if unknown.any():
                name = self.problem.measures[int(unknown.argmax())]
                accepted = f"must have a value of {name!r} for every cell; none for "
                raise InvalidArgument("table", f"{accepted}{self.problem.labels(action)}")

    def _sort_by_prediction(self) -> None:
        """Sort the rows of every cell by their predictions; those without one come last."""
        cells = product(self.problem.arms, self.problem.groups)
        found: dict[tuple[str, ...], list[list[float]]] = {cell: [] for cell in cells}
        names = self.arm, self.group, *self._predicted.values()
        columns = [column_of(self.table, name) for name in names]
        if len({*map(len, columns)}) > 1:
            raise InvalidArgument("table", "must have columns of equal length")
        for row, (arm, group, *values) in enumerate(zip(*columns, strict=True)):
            found[str(arm), str(group)].append(self._checked_predictions(row, values))
        self.predictions = [np.array(own) for own in found.values()]
        known = np.concatenate(self.predictions)
        scales = np.nanstd(known, axis=0) if known.shape[1] > 1 else np.ones(1)
        weights = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0.0)
        orders = [np.argsort(own @ weights, kind="stable") for own in self.predictions]
        self.rows = [own[order] for own, order in zip(self.rows, orders, strict=True)]
        self.predictions = [own[order] for own, order in zip(self.predictions, orders, strict=True)]
        groups = len(self.problem.groups)
        pooled = [np.concatenate(self.predictions[group::groups]) for group in range(groups)]
        self._pooled = [own[np.argsort(own @ weights, kind="stable")] for own in pooled]
        if self.arrivals is None:
            self._let_arrive(self.problem.shares)
            self.arrivals = None

    def _checked_predictions(self, row: int, values: Sequence[Any]) -> list[float]:
        """Return the predictions of a row; NaN for a missing one."""
        pairs = zip(self._predicted.items(), self.problem.predictions.values(), values, strict=True)
        found = []
        for (_, column), stated, value in pairs:
            try:
                known = stated.check_one(None if is_blank(value) else value)
            except InvalidArgument as error:
                name = f"table row {row}: {column}"
                raise InvalidArgument(name, error.accepted, error.given) from None
            found.append(np.nan if known is None else known)
        return found

    def begin(self, generator: np.random.Generator) -> ReplayEnvironment:
        """Return the environment of one run; with predictions a copy, which remembers its unit."""
        return copy(self) if self.predictions else self

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return what is known of the next unit: its group if groups arrive, its prediction."""
        if not self.predictions:
            return super().context(generator)
        groups = self.problem.groups
        group = int(generator.choice(len(groups), p=self._arriving))
        self._place = float(generator.random())
        known = _at(self._pooled[group], self._place).tolist()
        pairs = zip(self._predicted, known, strict=True)
        given = {name: value for name, value in pairs if not np.isnan(value)}
        if not given:
            return {"group": groups[group]}
        own = given if self.problem.measures else known[0]
        return {"group": groups[group], "prediction": own}

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        """Return a drawn reward of the pull's action, or that of the unit which has come."""
        if self._place is None:
            return super().sample(pull, generator)
        drawn, measured = _at(self.rows[pull.action], self._place), self.problem.measured
        return float(drawn) if measured is None else measured.as_row(drawn)

    def with_rows(
        self, rows: Sequence[Floats], predictions: Sequence[Floats] | None = None
    ) -> ReplayEnvironment:
        """Return an environment with other rows, one array for every cell.

        By default their predictions are those of the rows so far.
        """
        cells = [
            (*labels.values(), own)
            for labels, own in zip(self.problem.action_labels, rows, strict=True)
        ]
        table: dict[str, list[Any]] = {
            self.arm: [arm for arm, _, own in cells for _ in own],
            self.group: [group for _, group, own in cells for _ in own],
        }
        values = np.concatenate(list(rows))
        if self.problem.measured is None:
            table[str(self.reward)] = values.tolist()
        else:
            for name, column in zip(self._columns, values.T, strict=True):
                table[name] = column.tolist()
        if self.predictions:
            known = np.concatenate(self.predictions if predictions is None else list(predictions))
            for name, own in zip(self._predicted.values(), known.T.tolist(), strict=True):
                table[name] = [None if np.isnan(one) else one for one in own]
        return self.clone(table=table)

    def with_rows_of(self, arm: int) -> ReplayEnvironment:
        """Return the environment in which every arm has the rows of this one."""
        arms, groups = self.problem.shape
        own = slice(arm * groups, (arm + 1) * groups)
        return self.with_rows(self.rows[own] * arms, self.predictions[own] * arms)

    @property
    def about(self) -> str:
        """A sentence that tells readers that recorded rows are sampled repeatedly."""
        return said_of_rows(plural(sum(map(len, self.rows)), "row"))

    @cached_property
    def cell_means(self) -> Floats:
        """Mean reward by cell, shape (K, L); with measures (K, L, M), of the known values."""
        means = np.array([np.nanmean(rows, axis=0) for rows in self.rows])
        return means.reshape(*self.problem.shape, *means.shape[1:])

    @cached_property
    def cell_stds(self) -> Floats:
        """Standard deviation of a reward, or of the objective, by cell, shape (K, L)."""
        if self.problem.measured is not None:
            return self._stds_of_objective
        return np.array([rows.std() for rows in self.rows]).reshape(self.problem.shape)

    @cached_property
    def cell_covariances(self) -> Floats:
        """With measures: their covariance within a pull, by cell, shape (K, L, M, M)."""
        if self.problem.measured is None:
            return super().cell_covariances
        size = len(self.problem.measures)
        found = np.array([covariance_of_rows(rows) for rows in self.rows])
        return found.reshape(*self.problem.shape, size, size)

    @cached_property
    def source(self) -> Any:
        """The environment in the form that kernels read."""
        if self.problem.measured is not None:
            return VectorSource.replay(self.rows)
        return Source.replay(self.rows)


def _at(values: Floats, place: float) -> Any:
    """Return the value, or the row of values, at a place between 0 and 1."""
    return values[int(place * len(values))]

"""Environments: linear with Gaussian or binary rewards, or replayed; each knows its truth."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.complexity import EvidencePrice
from fairtrial.core.draws import Source
from fairtrial.core.environment import TopTruth, Truth
from fairtrial.core.frames import plain_data
from fairtrial.core.stationary import StationaryEnvironment, require_binary
from fairtrial.core.tables import rewards_by_labels
from fairtrial.core.validation import check_instance, check_number
from fairtrial.core.wording import plural, said_of_rows
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.linear._arguments import by_arm
from fairtrial.linear._evidence_prices import evidence_price
from fairtrial.linear.problem import Problem

__all__ = ["BernoulliEnvironment", "GaussianEnvironment", "ReplayEnvironment"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-12
"""Values that differ by less than this, relative to the largest, count as equal."""


class ArmEnvironment(StationaryEnvironment):
    """An environment whose arms each have one fixed distribution, independent of the past."""

    problem: Problem

    @property
    @abstractmethod
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (K,)."""

    @property
    @abstractmethod
    def arm_stds(self) -> Floats:
        """Standard deviation of a reward by arm, shape (K,)."""

    @property
    @abstractmethod
    def values(self) -> Floats:
        """True value by candidate, shape (M,)."""

    def evidence_price(self, weights: Floats) -> EvidencePrice:
        """Return the price of a unit of evidence at shares of the pulls, shape (K,).

        The difference between the best candidate and another is a sum of coefficients times mean
        rewards of arms; if the candidates are arms themselves, it is the difference of two means.
        """
        return evidence_price(self.problem, self.closest_theta, self.arm_stds, weights)

    @property
    def closest_theta(self) -> Floats:
        """The parameter whose linear function comes closest to the arms' means, shape (d,)."""
        reduced, scale = self.problem.reduced, self.problem.scale
        rows = reduced.arms * (scale / scale.max())[:, np.newaxis]
        return np.asarray(reduced.basis @ np.linalg.lstsq(rows, self.arm_means, rcond=None)[0])

    def predicted(self, features: Floats) -> Floats:
        """Return the true means of rows of features that have limits."""
        return np.asarray(features @ self.closest_theta)

    @cached_property
    def limited_means(self) -> tuple[Floats, ...]:
        """The true mean in each of the problem's requirements, shape (M,) each."""
        own = self.problem.candidate_features
        return tuple(
            self.values if one.features is own else self.predicted(one.features)
            for one in self.problem.requirements
        )

    @cached_property
    def truth(self) -> Truth:
        """Means of the arms, values of the candidates and every acceptable answer.

        ``details`` has the candidates' ``values`` and, if they have limits, the mask ``feasible``.
        With `top` above 1, ``best`` is a tuple of labels, best first, and answers are accepted in
        any order.
        """
        if self.problem.has_limits:
            return self._truth_with_limits()
        problem, values = self.problem, self.values
        signed = problem.sign * values
        first = np.array([group[0] for group in problem.answer_groups])
        order = first[np.argsort(-signed[first], kind="stable")][: problem.top]
        rounding = _ROUNDING * max(1e-300, float(np.abs(values).max()))
        least = signed[order[-1]] - problem.tolerance - rounding
        good = tuple(
            label for label, value in zip(problem.answers, signed, strict=True) if value >= least
        )
        best = tuple(problem.answers[index] for index in order)
        tied = problem.tolerance == 0.0 and int((signed[first] >= least).sum()) > problem.top
        if problem.top == 1:
            return Truth(best[0], good, self.arm_means, {"values": values}, tied)
        same = [
            [problem.answers[each] for each in group]
            for group in problem.answer_groups
            if len(group) > 1
        ]
        details = {"values": values}
        return TopTruth(best, (best,), self.arm_means, details, tied, good=good, same=same)

    def _truth_with_limits(self) -> Truth:
        problem, values, limited = self.problem, self.values, self.limited_means
        signed = problem.sign * values
        kept = problem.within(limited)
        strictly = problem.within(limited, -problem.floor_tolerance)
        loosely = problem.within(limited, problem.floor_tolerance)
        rounding = _ROUNDING * max(1e-300, float(np.abs(values).max()))
        most = signed[strictly].max() if strictly.any() else -np.inf
        good = loosely & (signed >= most - problem.tolerance - rounding)
        named = tuple(problem.answers[index] for index in np.flatnonzero(good))
        best = None
        if kept.any():
            best = problem.answers[int(np.argmax(np.where(kept, signed, -np.inf)))]
        groups = {int(problem.group_of[index]) for index in np.flatnonzero(good)}
        return Truth(
            best=best,
            acceptable=named if strictly.any() else (*named, None),
            means=self.arm_means,
            details={"values": values, "feasible": kept},
            tied=len(groups) > 1 and problem.tolerance == problem.floor_tolerance == 0.0,
        )


class GaussianEnvironment(ArmEnvironment):
    """Linear rewards with normal noise.

    Parameters
    ----------
    problem : Problem
        The problem; it must give `noise_std`.
    theta : array-like of shape (d,)
        The true parameter: arm k has mean ``features[k] @ theta``.
    std : float or array-like of shape (K,), optional
        True standard deviations; by default the problem's, if it states them.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], arms=["a", "b"], noise_std=1.0)
    >>> GaussianEnvironment(problem, [0.2, 0.5]).truth.best
    'b'
    """

    def __init__(self, problem: Problem, theta: ArrayLike, std: ArrayLike | None = None) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.theta = problem.check_theta(theta)
        self.std = std
        if problem.reward_range is not None:
            raise InvalidArgument(
                "problem", "must give noise_std: Gaussian rewards have no range", problem
            )
        if problem.estimates_noise and std is None:
            raise InvalidArgument("std", "must be given where the problem's noise is 'estimated'")
        arms = len(problem.arms)
        given = problem.scale if std is None else by_arm("std", std, arms)
        if (given < 0.0).any():
            raise InvalidArgument("std", "must not be negative", std)
        self._stds = given.copy()

    @property
    def closest_theta(self) -> Floats:
        """The true parameter, shape (d,)."""
        return self.theta

    @cached_property
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (K,)."""
        return np.asarray(self.problem.features @ self.theta)

    @property
    def arm_stds(self) -> Floats:
        """Standard deviation of a reward by arm, shape (K,)."""
        return self._stds

    @cached_property
    def values(self) -> Floats:
        """True value by candidate, shape (M,)."""
        return self.problem.values(self.theta)

    @cached_property
    def source(self) -> Source:
        """The environment in the form that kernels read."""
        return Source.gaussian(self.arm_means, self._stds)


class BernoulliEnvironment(ArmEnvironment):
    """Rewards 1 or 0 whose probabilities are linear in the features.

    Parameters
    ----------
    problem : Problem
        The problem; a `reward_range`, if it gives one, must contain 0 and 1.
    theta : array-like of shape (d,)
        The true parameter: arm k gives a 1 with probability ``features[k] @ theta``.

    Examples
    --------
    >>> problem = Problem([[1, 0], [1, 1]], arms=["old", "new"], reward_range=(0, 1))
    >>> BernoulliEnvironment(problem, [0.4, 0.1]).truth.means.tolist()
    [0.4, 0.5]
    """

    def __init__(self, problem: Problem, theta: ArrayLike) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.theta = problem.check_theta(theta)
        require_binary(problem)
        means = problem.features @ self.theta
        wrong = np.flatnonzero((means < -_ROUNDING) | (means > 1.0 + _ROUNDING))
        if wrong.size:
            arm = int(wrong[0])
            raise InvalidArgument(
                "theta",
                f"must give every arm a probability in [0, 1]; arm {problem.arms[arm]!r} "
                f"has {means[arm]:g}",
            )
        self._means = np.clip(means, 0.0, 1.0)

    @property
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (K,)."""
        return self._means

    @property
    def arm_stds(self) -> Floats:
        """Standard deviation of a reward by arm, shape (K,)."""
        return np.sqrt(self._means * (1.0 - self._means))

    @cached_property
    def values(self) -> Floats:
        """True value by candidate, shape (M,)."""
        return self.problem.values(self.theta)

    @cached_property
    def source(self) -> Source:
        """The environment in the form that kernels read."""
        return Source.bernoulli(self._means)


class ReplayEnvironment(ArmEnvironment):
    """Measured rewards, drawn with replacement from the rows of a table; linear or not.

    The truth is what was measured, not a fit of it: runs show how a linear policy handles an
    environment that is only roughly linear.

    Runs show what a policy does with these rows; `about` and the summary of a simulation state
    this.

    Parameters
    ----------
    problem : Problem
        The problem; every arm needs at least one row.
    table : data frame or mapping of str to sequence
        One row per measurement, of an arm or of a candidate that cannot be pulled.
    arm, reward : str
        Names of the columns.
    noise_std : float
        Standard deviation of normal noise that is added to the row drawn. A table with a
        single row for each arm has no noise of its own.

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, an arm has no row, or noise would be added to
        rewards that have a range.
    InvalidOutcome
        If the problem refuses a reward; the error names the row.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], arms=["a", "b"], noise_std=1.0)
    >>> ReplayEnvironment(problem, {"arm": ["a", "a", "b"], "reward": [0, 1, 1]}).truth.best
    'b'
    """

    def __init__(
        self,
        problem: Problem,
        table: Any,
        arm: str = "arm",
        reward: str = "reward",
        noise_std: float = 0.0,
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.table = table = plain_data(table)
        self.arm, self.reward = arm, reward
        self.noise_std = check_number("noise_std", noise_std, low=0.0)
        if noise_std > 0.0 and problem.reward_range is not None:
            raise InvalidArgument(
                "noise_std", "must be 0 where the problem gives a reward_range", noise_std
            )
        known = [(label,) for label in (*problem.arms, *problem.answers)]
        accepted = "must name an arm or candidate"
        found = rewards_by_labels(problem, table, (arm,), reward, known, accepted)
        self._by_label = {label: rows for (label,), rows in found.items()}
        self._rows = [self._rows_of(label) for label in problem.arms]

    @property
    def rows_by_label(self) -> dict[str, Floats]:
        """The rows of every arm and candidate that was measured."""
        return {label: np.array(rows) for label, rows in self._by_label.items() if rows}

    def _rows_of(self, label: str) -> Floats:
        rows = self._by_label[label]
        if not rows:
            raise InvalidArgument("table", f"must have a row for every arm; none for {label!r}")
        return np.array(rows)

    @property
    def about(self) -> str:
        """A sentence that tells readers that recorded rows are sampled repeatedly."""
        return said_of_rows(plural(sum(map(len, self._rows)), "row"))

    @cached_property
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (K,)."""
        return np.array([rows.mean() for rows in self._rows])

    @cached_property
    def arm_stds(self) -> Floats:
        """Standard deviation of a reward by arm, shape (K,), including the added noise."""
        own = np.array([rows.var() for rows in self._rows])
        return np.sqrt(own + self.noise_std**2)

    @cached_property
    def values(self) -> Floats:
        """Measured mean by candidate, shape (M,).

        Raises
        ------
        NotSupported
            If a candidate was not measured.
        """
        for label in self.problem.answers:
            if not self._by_label[label]:
                raise NotSupported(f"candidate {label!r} has no row: its true value is not known")
        return np.array([np.mean(self._by_label[label]) for label in self.problem.answers])

    def predicted(self, features: Floats) -> Floats:
        """Return measured means of rows of features; from the linear fit if not measured."""
        problem = self.problem
        known = dict(zip(map(_row_key, problem.features), self.arm_means, strict=True))
        fitted = features @ self.closest_theta
        means = [known.get(_row_key(row), mean) for row, mean in zip(features, fitted, strict=True)]
        return np.array(means)

    @cached_property
    def theta(self) -> Floats:
        """The parameter that fits the arms' means best, by least squares; shape (d,)."""
        fitted, *_ = np.linalg.lstsq(self.problem.features, self.arm_means, rcond=None)
        return np.asarray(fitted)

    @cached_property
    def source(self) -> Source:
        """The environment in the form that kernels read."""
        return Source.replay(self._rows, self.noise_std)


def _row_key(row: Floats) -> bytes:
    return bytes((row + 0.0).tobytes())

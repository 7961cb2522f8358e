"""Environments in which every arm has a fixed distribution of rewards."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.allocation._kernels.runs import run_rounds
from fairtrial.allocation.environments.base import (
    AllocationEnvironment,
    Extra,
    Floats,
    Integers,
    one_for_each,
    probabilities,
)
from fairtrial.allocation.fair_schedules import floored_quotas
from fairtrial.allocation.problem import Problem
from fairtrial.core.draws import Source
from fairtrial.core.frames import plain_data
from fairtrial.core.records import Words
from fairtrial.core.stationary import StationaryEnvironment, require_binary
from fairtrial.core.tables import rewards_by_labels
from fairtrial.core.validation import check_array, check_instance
from fairtrial.core.wording import plural, said_of_rows
from fairtrial.errors import InvalidArgument

__all__ = ["BernoulliEnvironment", "BetaEnvironment", "ReplayEnvironment"]


class SteadyEnvironment(StationaryEnvironment, AllocationEnvironment):
    """Base class of environments in which every arm has a fixed distribution of rewards."""

    def metrics(self, pulls: Integers) -> dict[str, float]:
        """Return the regrets of a run, given its pulls by arm.

        Returns
        -------
        dict
            ``regret``: loss against the best arm (with several plays, the best arms) in every
            round; ``r_regret``: ``sum of gap_i (N_i - max(0, floor(r_i T) - tolerance))``, which is
            negative if a policy gains by breaking the shares; ``fair_regret``: loss against the
            best schedule that keeps the shares exactly.
        """
        means, plays = self.arm_means, self.problem.plays
        issued, served = int(pulls.sum()), float(means @ pulls)
        rounds = issued / plays
        top = float(np.sort(means)[-plays:].sum())
        found = {"regret": rounds * top - served, "fair_regret": rounds * self.fair_value - served}
        if plays == 1:
            gaps = means.max() - means
            owed = floored_quotas(self.problem, issued)
            found = {
                "regret": float(gaps @ pulls),
                "r_regret": float(gaps @ (pulls - owed)),
                "fair_regret": found["fair_regret"],
            }
        return found

    def run(self, words: Words, contexts: int, generator: np.random.Generator, pulls: int) -> Extra:
        """Run a policy's state in this environment."""
        run_rounds(words, self.source, *self._scale(), generator, pulls)
        return self.metrics


class BernoulliEnvironment(SteadyEnvironment):
    """Rewards 1 or 0: clicks, cures, sales.

    Parameters
    ----------
    problem : Problem
        The problem; its `reward_range` must contain 0 and 1.
    means : array-like of shape (k,)
        The true probabilities of a 1.

    Examples
    --------
    >>> environment = BernoulliEnvironment(Problem(3, ["1/5", "3/10", "1/4"]), [0.7, 0.5, 0.4])
    >>> environment.truth.best, environment.truth.details["gaps"].round(2).tolist()
    ('0', [0.0, 0.2, 0.3])
    """

    def __init__(self, problem: Problem, means: ArrayLike) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.means = probabilities("means", means, (len(problem.arms),))
        require_binary(problem)

    @property
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (k,)."""
        return self.means

    @cached_property
    def source(self) -> Source:
        """The environment as the kernels see it."""
        return Source.bernoulli(self.means.copy())


class BetaEnvironment(SteadyEnvironment):
    """Rewards between 0 and 1 with a beta distribution for every arm.

    Parameters
    ----------
    problem : Problem
        The problem; its `reward_range` must contain 0 and 1.
    means : array-like of shape (k,)
        The true means, strictly between 0 and 1.
    concentration : float or array-like of shape (k,)
        Sum of the two parameters of the beta distribution; larger values make rewards vary less.

    Examples
    --------
    >>> environment = BetaEnvironment(Problem(2, "1/4"), [0.6, 0.5], concentration=10)
    >>> environment.truth.means.tolist()
    [0.6, 0.5]
    """

    def __init__(self, problem: Problem, means: ArrayLike, concentration: ArrayLike = 4.0) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.means = probabilities("means", means, (len(problem.arms),))
        if (self.means == 0).any() or (self.means == 1).any():
            raise InvalidArgument("means", "must be strictly between 0 and 1", means)
        self.concentration = concentration
        sizes = one_for_each("concentration", concentration, problem)
        self._sizes = check_array("concentration", sizes, (len(problem.arms),))
        if (self._sizes <= 0).any():
            raise InvalidArgument("concentration", "must be more than 0", concentration)
        require_binary(problem)

    @property
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (k,)."""
        return self.means

    @cached_property
    def source(self) -> Source:
        """The environment as the kernels see it."""
        return Source.beta(self.means * self._sizes, (1.0 - self.means) * self._sizes)


class ReplayEnvironment(SteadyEnvironment):
    """Rewards drawn, with replacement, from logged impressions.

    The truth is exactly the log's means by arm. Runs only show what a policy does with these rows;
    `about` and a simulation's summary say so.

    Parameters
    ----------
    problem : Problem
        The problem; every arm needs at least one row.
    table : data frame or mapping of str to sequence
        One row per impression.
    arm, reward : str
        Names of the columns.

    Raises
    ------
    InvalidArgument
        If a column is missing, a label is unknown, or an arm has no row.
    InvalidOutcome
        If the problem refuses a reward; the message names the row.

    Examples
    --------
    >>> rows = {"arm": ["a", "a", "b"], "reward": [0, 1, 1]}
    >>> ReplayEnvironment(Problem(["a", "b"], "1/4"), rows).truth.means.tolist()
    [0.5, 1.0]
    """

    def __init__(
        self, problem: Problem, table: Any, arm: str = "arm", reward: str = "reward"
    ) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.table = table = plain_data(table)
        self.arm, self.reward = arm, reward
        known = [(label,) for label in problem.arms]
        accepted = f"must name an arm of {[*problem.arms]}"
        found = rewards_by_labels(problem, table, (arm,), reward, known, accepted)
        missing = [label for (label,), rows in found.items() if not rows]
        if missing:
            raise InvalidArgument("table", "must have a row for every arm; none for", missing)
        self._rows = [np.array(rows) for rows in found.values()]

    @property
    def about(self) -> str:
        """A sentence that says that recorded rows are sampled repeatedly."""
        return said_of_rows(plural(sum(map(len, self._rows)), "row"))

    @cached_property
    def arm_means(self) -> Floats:
        """Mean reward by arm, shape (k,)."""
        return np.array([rows.mean() for rows in self._rows])

    @cached_property
    def source(self) -> Source:
        """The environment as the kernels see it."""
        return Source.replay(self._rows)

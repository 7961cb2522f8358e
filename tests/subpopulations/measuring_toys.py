"""A user's policy for problems with measures: takes turns, and records its input."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Policy
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Recommendation


class TakesTurns(Policy):
    """Pull every cell in turn; after 40 results, answer the arm with the largest mean objective.

    Missing values are left out of the means.
    """

    state_fields = ("sums", "counts", "early", "lost_values")

    def __init__(self, problem: Any, most: int = 40, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.most = most
        shape = (problem.n_actions, len(problem.measures))
        self.sums, self.counts = np.zeros(shape), np.zeros(shape)
        self.early = np.zeros(shape)
        self.lost_values = 0

    def choose(self, group: str | None = None) -> int:
        """Return the next cell."""
        return self.asked % self.problem.n_actions

    def read(self, pull: Pull, value: NDArray[np.float64], **details: Any) -> None:
        """Count early values."""
        self.early[pull.action] += ~np.isnan(value)

    def on_amend_reading(self, pull: Pull, old: Any, new: Any) -> None:
        """Do nothing: early values are only counted."""

    def learn(self, pull: Pull, outcome: NDArray[np.float64]) -> None:
        """Add the values that are there."""
        self.sums[pull.action] += np.nan_to_num(outcome)
        self.counts[pull.action] += ~np.isnan(outcome)

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Count the values that are lost with a pull."""
        known = self.reported(pull)
        self.lost_values += self.sums.shape[1] - (0 if known is None else int((known > -9).sum()))

    def on_amend(self, pull: Pull, old: Any, new: Any) -> None:
        """Replace the old values by the new ones."""
        self.sums[pull.action] += np.nan_to_num(new) - np.nan_to_num(old)
        self.counts[pull.action] += np.isnan(old).astype(float) - np.isnan(new)

    @property
    def stopped(self) -> bool:
        """Whether all results are in."""
        return self.told >= self.most

    def recommend(self) -> Recommendation:
        """Return the arm with the largest mean."""
        status = "decided" if self.stopped else "running"
        means = self.sums / np.maximum(self.counts, 1)
        quality = self.problem.quality(means.reshape(*self.problem.shape, -1))
        leader = self.problem.arms[int(np.argmax(quality))]
        return Recommendation(leader if self.stopped else None, status=status, leader=leader)

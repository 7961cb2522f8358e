"""A problem in the kernels' numbers: rewards maximised, noise of one, unknown scales removed."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.seeds import seed_key
from fairtrial.core.validation import check_choice
from fairtrial.linear._kernels.limits import Limits
from fairtrial.linear._kernels.model import Model
from fairtrial.linear.problem import Problem

__all__ = ["Units", "tie_key"]

Floats = NDArray[np.float64]

_LARGEST = 1e100
"""The largest size of a tolerance, in the units of the reduced problem."""


class Units:
    """The numbers of a problem that its policies pass to the kernels.

    Attributes
    ----------
    shape : tuple of int
        Arms, distinct candidates, and rank.
    factors : ndarray of shape (K,)
        Factors of rewards, so that they are maximised and have a noise of one.
    deviations : ndarray of shape (K,)
        How much means may differ from linear ones, in units of each arm's noise.
    tolerance, misspecification : float
        As in the problem, in the units of the reduced problem.
    """

    def __init__(self, problem: Problem) -> None:
        reduced = problem.reduced
        self.problem = problem
        self.shape = (len(reduced.arms), len(reduced.candidates), reduced.arms.shape[1])
        self.factors: Floats = problem.sign / problem.scale
        # In the units of the reduced problem, and within the range of products of floats.
        with np.errstate(over="ignore"):
            self.deviations = np.minimum(problem.misspecification / problem.scale, _LARGEST)
        self.tolerance = _in_units(problem.tolerance, reduced.unit)
        self.misspecification = _in_units(problem.misspecification, reduced.unit)

    def reward(self, action: int, outcome: float) -> float:
        """Return a reward to be maximised, in units of the noise."""
        return float(self.factors[action]) * outcome

    @property
    def model(self) -> Model:
        """The problem in the form that kernels read."""
        arms, candidates, _, rest, _ = self.problem.reduced
        start = self.problem.geometry.start_arms.astype(np.float64)
        return Model(arms, candidates, rest, start, start, self.deviations)

    def limits(self, shift: float) -> Limits:
        """Return the limits of the distinct candidates, for rewards minus `shift`."""
        problem = self.problem
        if not problem.has_limits:
            none = np.empty((0, 0))
            return Limits(np.empty((0, 0, self.shape[2])), none, none, none, np.empty(0))
        first = [group[0] for group in problem.answer_groups]
        given = problem.geometry.limited_rows
        rows = np.stack([one.rows[first] for one in given], axis=1)
        unit = np.stack([one.unit[first] for one in given], axis=1)
        least = np.stack([one.least[first] for one in given], axis=1)
        limited = least > -np.inf
        excluded = np.asarray((limited & ~rows.any(axis=2)).any(axis=1), dtype=np.float64)
        constant = np.stack([one.constant[first] for one in given], axis=1)
        least = np.where(limited, least - shift * constant, least)
        spare = np.vectorize(partial(_in_units, problem.floor_tolerance))(
            np.minimum(unit, _LARGEST) * float(problem.scale.max())
        )
        return Limits(rows, least, least - spare, least + spare, excluded)

    def can_be_fitted(self, counts: Floats) -> bool:
        """Return whether the arms with results measure every direction."""
        rows = self.problem.reduced.arms
        rank, pulled = rows.shape[1], rows[counts >= 1.0]
        return bool(0 < rank <= len(pulled)) and int(np.linalg.matrix_rank(pulled)) == rank


def _in_units(value: float, unit: float) -> float:
    """Return a number as a multiple of a unit that may be too small or large for a float."""
    if value == 0.0:
        return 0.0
    return min(value / unit, _LARGEST) if unit > value / _LARGEST else _LARGEST


def tie_key(ties: str, seed: int) -> int:
    """Return the key of the numbers that break ties, small enough for a float; -1 for "first".

    Raises
    ------
    InvalidArgument
        If `ties` is neither "first" nor "random".
    """
    if check_choice("ties", ties, ["first", "random"]) == "first":
        return -1
    return int(seed_key(seed)[0] >> np.uint64(12))

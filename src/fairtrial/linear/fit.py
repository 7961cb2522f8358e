"""A test whether the means are linear in the features, based on differences between repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_instance
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear.problem import Problem

__all__ = ["LackOfFit", "lack_of_fit"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-24
"""Sums of squares below this, relative to that of the rewards, are rounding errors."""


@dataclass(frozen=True)
class LackOfFit:
    """How far the arms' means are from a linear function, compared with the spread of repeats.

    Attributes
    ----------
    statistic : float
        F: the mean square of the arms' means around the fit, divided by that of rewards around
        their arm's mean. About 1 if the means are linear.
    degrees_of_freedom : (int, int)
        Degrees of freedom of the two mean squares.
    p_value : float
        The probability of a statistic at least this large if means are linear and noise is normal.
    noise_std : float
        Standard deviation of a reward around its arm's mean; if the problem states the noise by
        arm, as a multiple of the stated noise.
    deviation : float
        Root mean square difference between the arms' means and the fit, averaged over the rewards,
        with the contribution of the noise subtracted; in the same units.
    """

    statistic: float
    degrees_of_freedom: tuple[int, int]
    p_value: float
    noise_std: float
    deviation: float


@named_arguments
def lack_of_fit(problem: Problem, arms: Sequence[Any], rewards: ArrayLike) -> LackOfFit:
    """Return the F test of whether mean rewards are linear in the features.

    It compares how much the arms' means differ from the linear fit with how much repeats of
    an arm differ from each other. No stated noise is needed, only repeats. A large p-value
    does not show that the means are linear: a few data are not enough to tell.

    Parameters
    ----------
    problem : Problem
        The problem, for its features. If it states the noise by arm, rewards are weighted by it.
    arms : sequence of str
        The label of the arm of every reward, shape (n,).
    rewards : array-like of shape (n,)
        The rewards. The choice of arms must not depend on rewards (a design, not an adaptive
        rule), otherwise the p-value is only a rough guide.

    Raises
    ------
    InvalidArgument
        If an arm is unknown, if no arm was repeated, or if so few different arms were pulled
        that a linear function fits any means.
    InvalidOutcome
        If the problem refuses a reward.

    Notes
    -----
    Source: Draper, Smith (1998), "Applied regression analysis", section 2.1. Arms with equal
    features count as different arms.

    Examples
    --------
    >>> problem = Problem([[1, 0], [1, 1], [1, 2]], arms=["0", "1", "2"], noise_std="estimated")
    >>> bent = lack_of_fit(problem, ["0", "0", "1", "1", "2", "2"], [0.0, 0.1, 1.0, 1.1, 0.0, 0.1])
    >>> bent.degrees_of_freedom, round(bent.statistic, 1), round(bent.p_value, 4)
    ((1, 3), 266.7, 0.0005)
    """
    places, clean = _checked(problem, arms, rewards)
    scaled = clean / problem.scale[places]
    pulled, groups, counts = np.unique(places, return_inverse=True, return_counts=True)
    means = np.bincount(groups, scaled) / counts
    rows = problem.reduced.arms[pulled]
    weights = np.sqrt(counts)
    fitted, _, rank, _ = np.linalg.lstsq(rows * weights[:, None], means * weights, rcond=1e-10)
    freedom = (int(pulled.size - rank), int(scaled.size - pulled.size))
    if min(freedom) < 1:
        raise InvalidArgument(
            "arms",
            f"must have repeated arms, and more than {int(rank)} different ones: otherwise "
            "there is nothing to compare",
            f"{scaled.size} rewards of {pulled.size} arms",
        )
    rounding = _ROUNDING * float((scaled**2).sum())
    lack = _cleared(float((counts * (means - rows @ fitted) ** 2).sum()), rounding)
    pure = _cleared(float(((scaled - means[groups]) ** 2).sum()), rounding)
    statistic = _ratio(lack / freedom[0], pure / freedom[1])
    unit = 1.0 if isinstance(problem.noise_std, np.ndarray) else float(problem.scale[0])
    excess = max(0.0, lack - freedom[0] * pure / freedom[1])
    return LackOfFit(
        statistic=statistic,
        degrees_of_freedom=freedom,
        p_value=float(scipy.special.fdtrc(*freedom, statistic)),
        noise_std=unit * math.sqrt(pure / freedom[1]),
        deviation=unit * math.sqrt(excess / scaled.size),
    )


def _checked(
    problem: Problem, arms: Sequence[Any], rewards: ArrayLike
) -> tuple[NDArray[np.int64], Floats]:
    """Return the index of every reward's arm, and the rewards."""
    check_instance("problem", problem, Problem)
    labels, values = list(arms), list(np.asarray(rewards, dtype=object).ravel())
    if len(labels) != len(values):
        raise InvalidArgument(
            "rewards", f"must be {len(labels)} numbers, one for each of arms", len(values)
        )
    clean = np.empty(len(values))
    for number, reward in enumerate(values):
        try:
            clean[number] = problem.check_outcome(reward)
        except InvalidOutcome as error:
            raise InvalidOutcome(f"rewards[{number}]", error.accepted, reward) from None
    place_of = {label: place for place, label in enumerate(problem.arms)}
    for number, label in enumerate(labels):
        if str(label) not in place_of:
            raise InvalidArgument(f"arms[{number}]", "must be an arm of the problem", label)
    return np.array([place_of[str(label)] for label in labels], dtype=np.int64), clean


def _cleared(total: float, rounding: float) -> float:
    return total if total > rounding else 0.0


def _ratio(over: float, under: float) -> float:
    if under > 0.0:
        return over / under
    return math.inf if over > 0.0 else 0.0

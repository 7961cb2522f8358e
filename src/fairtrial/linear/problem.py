"""What is known and wanted: arms and candidates described by features, and the noise."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.problem import Problem as BaseProblem
from fairtrial.core.validation import (
    check_array,
    check_choice,
    check_integer,
    check_number,
    check_range,
)
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear._arguments import (
    by_arm,
    in_the_order_of,
    is_frame,
    labels_of,
    rows_of,
)
from fairtrial.linear._coordinates import (
    ROUNDING,
    Coordinates,
    Reduced,
    condition_of,
    coordinates_of,
    equal_rows,
    joined_where_close,
)

__all__ = ["NotEstimable", "Problem"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ESTIMATED = "estimated"

_RESIDUAL = 1e-9
"""A difference of candidates has left the arms' span if so much of it has, relatively."""


NO_INTERCEPT = (
    "features hold no constant: means are taken to be 0 where all features are 0; "
    "add a column of ones unless that is so"
)


class NotEstimable(InvalidArgument):
    """Two candidates differ along a direction that no arm measures: no data can tell them apart."""


class Problem(BaseProblem):
    """The best of many candidates whose values are linear in known features.

    Pulling arm k gives a reward of mean ``features[k] @ theta``; `theta` is unknown and
    shared by all arms, so every pull tells of every arm. The answer is the candidate z with
    the largest ``z @ theta``, or the `top` of them.

    Parameters
    ----------
    features : array-like or pandas.DataFrame of shape (K, d)
        One row for every arm that can be pulled; the index of a DataFrame labels the arms.
        Rows may repeat and columns may depend on each other. Unless means are 0 where all
        features are 0, one column must be of ones.
    candidates : array-like or pandas.DataFrame of shape (M, d), optional
        What is chosen among, if that is not the arms themselves. Only differences between
        candidates need to be measurable. Identical candidates are one answer.
    arms : sequence of str, or int, optional
        Labels of the K arms; those of the DataFrame, or 0 to K - 1, by default.
    noise_std : float, array-like of shape (K,), or "estimated"
        Standard deviation of a reward (of its sub-Gaussian bound), if it is known.
        ``"estimated"`` takes it from the residuals of the fit, the same for all arms: no rule
        is proven for that.
    reward_range : (float, float)
        The range that every reward lies in, if that is what is known.
    epsilon : float
        An answer within `epsilon` of the best will do.
    top : int
        How many of the best (distinct) candidates are wanted.
    direction : {"maximize", "minimize"}
        Which rewards are good.
    answers : sequence of str, or int, optional
        Labels of the candidates; those of the DataFrame, or 0 to M - 1, by default. Without
        `candidates` they are the arms'.
    misspecification : float
        By how much the mean of an arm, and the value of a candidate, may differ from a linear
        function of the features. An answer then holds whatever those differences are; where
        they could hide the best, a study ends undecided.

    Attributes
    ----------
    features : ndarray of shape (K, d)
    candidates : ndarray of shape (M, d), or None
        As given.
    arms, answers : tuple of str
        Labels of arms and candidates.
    noise_std : float, ndarray of shape (K,), "estimated", or None
    epsilon, top, direction, reward_range, misspecification
        As given.

    Raises
    ------
    NotEstimable
        If two candidates differ along a direction that no arm measures.
    InvalidArgument
        If another argument is not acceptable; exactly one of `noise_std` and
        `reward_range` must be given.

    Warns
    -----
    UserWarning
        If an arm's features are all zero: it is never pulled. If a DataFrame of features has
        no constant (`has_intercept`).

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), "Best-arm identification in linear bandits",
    section 2; with candidates of their own: Fiez, Jain, Jamieson, Ratliff (2019),
    "Sequential experimental design for transductive linear bandits".

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1], [0.9, 0.5]], arms=["a", "b", "both"], noise_std=1.0)
    >>> problem.n_actions, problem.rank
    (3, 2)
    >>> problem.labels(2)
    {'arm': 'both'}

    Drugs are tried alone, and the best pair is wanted:

    >>> pairs = Problem([[1, 0], [0, 1]], candidates=[[1, 1], [1, 0]], noise_std=1.0)
    >>> pairs.values([0.2, 0.3]).tolist()
    [0.5, 0.2]
    """

    family = "linear"
    default_policy = "BlockBetting"
    _not_parameters = frozenset()

    def __init__(
        self,
        features: Any,
        candidates: Any = None,
        arms: Sequence[str] | int | None = None,
        noise_std: ArrayLike | None = None,
        reward_range: tuple[float, float] | None = None,
        epsilon: float = 0.0,
        top: int = 1,
        direction: str = "maximize",
        answers: Sequence[str] | int | None = None,
        misspecification: float = 0.0,
    ) -> None:
        self.features = rows_of("features", features)
        self.arms = labels_of("arms", arms, features, len(self.features))
        self.candidates = self._given_candidates(features, candidates)
        self.answers = self._given_answers(candidates, answers)
        self.noise_std, self.reward_range = self._given_noise(noise_std, reward_range)
        self.epsilon = check_number("epsilon", epsilon, low=0.0)
        self.misspecification = check_number("misspecification", misspecification, low=0.0)
        self.direction = check_choice("direction", direction, ["maximize", "minimize"])
        self.top = self._given_top(top)
        self._check_estimable()
        self._warn_of_zero_arms()
        if is_frame(features) and not self.has_intercept:
            warnings.warn(NO_INTERCEPT, stacklevel=2)
        self._freeze()

    # --------------------------------------------------------------------- checks

    def _given_candidates(self, features: Any, candidates: Any) -> Floats | None:
        if candidates is None:
            return None
        if is_frame(features) and is_frame(candidates):
            candidates = in_the_order_of(candidates, features)
        return rows_of("candidates", candidates, self.features.shape[1])

    def _given_answers(
        self, candidates: Any, answers: Sequence[str] | int | None
    ) -> tuple[str, ...]:
        if self.candidates is not None:
            return labels_of("answers", answers, candidates, len(self.candidates))
        if answers is not None and labels_of("answers", answers, None, len(self.arms)) != self.arms:
            raise InvalidArgument(
                "answers", "must be left out without candidates: they are the arms", answers
            )
        return self.arms

    def _given_noise(
        self, noise_std: ArrayLike | None, reward_range: Any
    ) -> tuple[float | str | Floats | None, tuple[float, float] | None]:
        if noise_std is not None and reward_range is None:
            return self._given_std(noise_std), None
        if noise_std is None and reward_range is not None:
            return None, check_range("reward_range", reward_range)
        raise InvalidArgument(
            "noise_std, reward_range",
            "exactly one must be given: the noise if it is known, else the rewards' range",
            (noise_std, reward_range),
        )

    def _given_std(self, noise_std: ArrayLike) -> float | str | Floats:
        if isinstance(noise_std, str):
            if noise_std != ESTIMATED:
                raise InvalidArgument("noise_std", f"must be numbers or {ESTIMATED!r}", noise_std)
            return noise_std
        if np.ndim(noise_std) == 0:
            return check_number("noise_std", noise_std, low=0.0, open_low=True)
        given = by_arm("noise_std", noise_std, len(self.arms))
        if (given <= 0.0).any():
            raise InvalidArgument("noise_std", "must be greater than 0", noise_std)
        return given

    def _given_top(self, top: int) -> int:
        number = check_integer("top", top, low=1)
        distinct = len(self.answer_groups)
        if number > distinct:
            accepted = f"must be at most {distinct}, the number of distinct candidates"
            raise InvalidArgument("top", accepted, top)
        return number

    def _check_estimable(self) -> None:
        """Refuse candidates whose differences leave the span of the arms."""
        units, _, inner = self._coordinates
        # A feature that no arm has counts by the candidates' own size, whatever its unit.
        absent = ~self.features.any(axis=0) & self.candidate_features.any(axis=0)
        rows = self.candidate_features / units
        rows[:, absent] /= np.abs(rows[:, absent]).max(axis=0)
        outside = rows - (rows @ inner) @ inner.T
        rounding = ROUNDING * np.abs(rows).sum(axis=1)
        first = np.arange(len(rows))
        for group in self.answer_groups:
            first[list(group)] = group[0]
        for others, allowed in ((first, 0.0), (np.zeros_like(first), _RESIDUAL)):
            size = np.linalg.norm(rows - rows[others], axis=1)
            left = np.linalg.norm(outside - outside[others], axis=1)
            wrong = left > np.maximum(allowed * size, rounding + rounding[others])
            if wrong.any():
                other = int(wrong.argmax())
                raise NotEstimable(
                    "candidates" if self.candidates is not None else "features",
                    f"{self.answers[others[other]]!r} and {self.answers[other]!r} differ along a "
                    "direction that no arm measures",
                )

    def _warn_of_zero_arms(self) -> None:
        zero = np.flatnonzero(~self.features.any(axis=1))
        if zero.size:
            warnings.warn(
                f"features of arm {self.arms[zero[0]]!r} are all zero: it is never pulled",
                stacklevel=3,
            )

    # -------------------------------------------------------------------- meaning

    @cached_property
    def has_intercept(self) -> bool:
        """Whether the features can say that all arms have the same mean, other than 0.

        Without a constant among them, or indicators that add up to one, they cannot: a mean
        is then 0 where all features are 0.
        """
        rows = self.features / self._coordinates.units
        ones = np.ones(len(rows))
        weights, *_ = np.linalg.lstsq(rows, ones, rcond=None)
        return bool(np.abs(rows @ weights - ones).max() < _RESIDUAL)

    @cached_property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        """The arm of every action."""
        return tuple({"arm": arm} for arm in self.arms)

    @property
    def sign(self) -> float:
        """1 if rewards are maximised, -1 if they are minimised."""
        return 1.0 if self.direction == "maximize" else -1.0

    @property
    def estimates_noise(self) -> bool:
        """Whether the noise is to be estimated from the data."""
        return isinstance(self.noise_std, str)

    @cached_property
    def scale(self) -> Floats:
        """Sub-Gaussian scale of a reward by arm, shape (K,).

        Half the range if rewards have one; 1 if the noise is to be estimated.
        """
        if self.estimates_noise:
            return np.ones(len(self.arms))
        if self.reward_range is not None:
            return np.full(len(self.arms), 0.5 * (self.reward_range[1] - self.reward_range[0]))
        return np.broadcast_to(np.asarray(self.noise_std, dtype=np.float64), len(self.arms)).copy()

    @property
    def candidate_features(self) -> Floats:
        """Features of the candidates, shape (M, d); the arms' if no others were given."""
        return self.features if self.candidates is None else self.candidates

    @cached_property
    def answer_groups(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with the same features, by index, in the order of their first.

        Features that differ by no more than rounding are the same.
        """
        equal = equal_rows(self.candidate_features)
        features = self.candidate_features[[group[0] for group in equal]]
        basis = self._coordinates.basis
        reach = ROUNDING * (np.abs(features) @ np.abs(basis))
        return joined_where_close(equal, features @ basis, reach)

    @cached_property
    def distinct_arms(self) -> Integers:
        """Arms that measure something, and not what another before them does as well."""
        first = [group[0] for group in equal_rows(self._scaled_features)]
        return np.array([arm for arm in first if self.features[arm].any()], dtype=np.int64)

    @cached_property
    def group_of(self) -> Integers:
        """The place of every candidate's group in `answer_groups`; shape (M,)."""
        found = np.empty(len(self.answers), dtype=np.int64)
        for number, group in enumerate(self.answer_groups):
            found[list(group)] = number
        return found

    @property
    def rank(self) -> int:
        """The number of directions that the arms span."""
        return int(self.reduced.arms.shape[1])

    @cached_property
    def reduced(self) -> Reduced:
        """The problem in coordinates of full rank and unit noise."""
        basis = self._coordinates.basis
        arms = self._scaled_features @ basis
        return Reduced(arms, self._distinct_candidates @ basis, basis)

    @cached_property
    def basis_arms(self) -> Integers:
        """As many arms as the rank, that together measure all that can be measured; (r,).

        By pivoted QR of the reduced features: each is the one least explained by those
        before it, in the metric of equal pulls of all arms.
        """
        from scipy.linalg import qr

        if self.rank == 0:
            return np.zeros(0, dtype=np.int64)
        arms = self.distinct_arms
        columns = self.reduced.arms[arms].T
        _, pivots = qr(columns, mode="r", pivoting=True, check_finite=False)
        return arms[pivots[: self.rank]]

    @cached_property
    def _scaled_features(self) -> Floats:
        return np.asarray(self.features / self.scale[:, np.newaxis])

    @property
    def _distinct_candidates(self) -> Floats:
        first = [group[0] for group in self.answer_groups]
        return np.asarray(self.candidate_features[first])

    @cached_property
    def _coordinates(self) -> Coordinates:
        return coordinates_of(self._scaled_features)

    def condition(self, pulls: ArrayLike) -> float:
        """Return the condition number of the Gram matrix of so many pulls by arm, shape (K,).

        Columns are scaled to one length, and only directions count that all arms together
        measure. From about 1e12 on, estimates lose digits.

        Examples
        --------
        >>> Problem([[1, 0], [0, 100]], noise_std=1.0).condition([4, 1])
        1.0
        """
        given = check_array("pulls", pulls, (len(self.arms),), axes=("arms",))
        return condition_of(self._scaled_features, given, self.rank)

    def values(self, theta: ArrayLike) -> Floats:
        """Return every candidate's value at `theta` of shape (d,); shape (M,)."""
        return np.asarray(self.candidate_features @ self.check_theta(theta))

    def check_theta(self, theta: ArrayLike) -> Floats:
        """Return a parameter as an array of shape (d,); it must have one entry a feature."""
        return check_array("theta", theta, (self.features.shape[1],), axes=("features",))

    def check_outcome(self, outcome: Any, name: str = "reward") -> float:
        """Return the reward as a float; it must be finite and inside the range, if there is one."""
        reward: float = super().check_outcome(outcome, name)
        if self.reward_range is not None:
            low, high = self.reward_range
            if not low <= reward <= high:
                raise InvalidOutcome(name, f"must be in [{low:g}, {high:g}]", outcome)
        return reward

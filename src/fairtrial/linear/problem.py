"""What is known and wanted: arms and candidates described by features, and the noise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from fairtrial.core.problem import Problem as BaseProblem
from fairtrial.core.validation import (
    check_array,
    check_choice,
    check_integer,
    check_number,
    check_optional_label,
    check_range,
)
from fairtrial.core.wording import best_of, listed, or_within, plural, rewards_in_words
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear._arguments import (
    by_arm,
    column_names,
    in_the_order_of,
    is_frame,
    labels_of,
    rows_of,
)
from fairtrial.linear._coordinates import (
    Coordinates,
    Placed,
    Reduced,
    Untrustworthy,
    condition_of,
    coordinates_of,
    equal_rows,
    joined_where_close,
    measured,
    outside,
    place,
    too_close,
)
from fairtrial.linear._encoding import Encoding, Table, encoding_of, joined_labels, table_of
from fairtrial.linear._opening import varied_order

__all__ = ["NotEstimable", "Problem"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ESTIMATED = "estimated"

_RESIDUAL = 1e-9
"""Features hold a constant if they give it to this part of it."""

_MOST_NOISE_RATIO = 1e8
"""How many times larger than another the noise of an arm may be."""

_LARGEST = 1e200
"""How large the noise, or a range of rewards, may be; the inverse is the least."""

_NARROWEST = 1e-12
"""How narrow a range of rewards may be, relative to its ends: rounding must not matter."""

_HARMLESS_SHIFT = 1e-5
"""What taking off a constant may change a mean by, in units of the range."""

_LEAST_TESTS = 3
"""How many arms are pulled, beyond those that any function fits, to test whether it is linear."""

_MOST_REWARD = 1e100
"""How many times the noise a reward may be: its square must be a float."""


NO_INTERCEPT = (
    "features hold no constant: means are taken to be 0 where all features are 0; "
    "add a column of ones unless that is so"
)


class NotEstimable(InvalidArgument):
    """Two candidates differ along a direction that no arm measures: no data can tell them apart."""


class Problem(BaseProblem):
    """The best of many candidates whose values are linear in known features.

    Pulling arm k gives a reward of mean ``features[k] @ theta``; `theta` is unknown and
    shared by all arms, so every pull informs about every arm. The answer is the candidate z with
    the largest ``z @ theta``, or the `top` of them.

    Parameters
    ----------
    features : array-like, pandas.DataFrame or mapping of str to sequence
        One row for every arm that can be pulled; the index of a DataFrame labels the arms.
        Rows may repeat and columns may depend on each other. Unless means are 0 where all
        features are 0, one column must be of ones. A column of text (or of a categorical type)
        is encoded: it becomes an indicator of 0 and 1 for each of its values but the first, its
        reference; a column of ones is added then.
    candidates : array-like, pandas.DataFrame or mapping of str to sequence, optional
        What is chosen among, if that is not the arms themselves; with the columns of `features`.
        Only differences between candidates need to be measurable. Identical candidates are one
        answer.
    arms : sequence of str, or int, optional
        Labels of the K arms; those of the DataFrame, or 0 to K - 1, by default.
    noise_std : float, array-like of shape (K,), or "estimated"
        Standard deviation of a reward (of its sub-Gaussian bound), if it is known.
        ``"estimated"`` takes it from the residuals of the fit, the same for all arms: no rule
        is proven for that.
    reward_range : (float, float)
        The range that every reward lies in, if that is what is known.
    tolerance : float
        An answer within `tolerance` of the best will do.
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
    interactions : sequence of sequence of str
        Columns of `features` whose effects depend on each other, as ``[["ligand", "base"]]``: the
        products of what these columns are encoded as are features, too.
    control : str, optional
        The candidate that others are compared with in `Progress.effects`; the leader if none is
        named. It changes no decision.

    Attributes
    ----------
    features : ndarray of shape (K, d)
    candidates : ndarray of shape (M, d), or None
        As given, or encoded.
    feature_names : tuple of str
        The names of the d features: those of the columns, or as ``ligand=L02`` where they are
        encoded; their numbers where they have none.
    references : mapping of str to str
        By column of text, the value that the others are compared with.
    arms, answers : tuple of str
        Labels of arms and candidates.
    noise_std : float, ndarray of shape (K,), "estimated", or None
    tolerance, top, direction, reward_range, misspecification
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

    Conditions are described in words:

    >>> conditions = {"base": ["KOAc", "KOAc", "CsOPiv"], "heat": [90, 105, 90]}
    >>> heated = Problem(conditions, noise_std=1.0)
    >>> heated.feature_names, heated.arms[2], heated.features[2].tolist()
    (('intercept', 'base=CsOPiv', 'heat'), 'CsOPiv 90', [1.0, 1.0, 90.0])
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
        tolerance: float = 0.0,
        top: int = 1,
        direction: str = "maximize",
        answers: Sequence[str] | int | None = None,
        misspecification: float = 0.0,
        interactions: Sequence[Sequence[str]] = (),
        control: str | None = None,
    ) -> None:
        self._tables, self._encoding = _encoded(features, candidates, interactions)
        self.interactions = () if self._encoding is None else self._encoding.interactions
        self.features, self.feature_names = self._given_features(features)
        self.arms = self._given_labels("arms", arms, "features", features, len(self.features))
        self.candidates = self._given_candidates(features, candidates)
        self.answers = self._given_answers(candidates, answers)
        self.noise_std, self.reward_range = self._given_noise(noise_std, reward_range)
        self.tolerance = check_number("tolerance", tolerance, low=0.0)
        self.misspecification = check_number("misspecification", misspecification, low=0.0)
        self.direction = check_choice("direction", direction, ["maximize", "minimize"])
        self.top = self._given_top(top)
        self.control = check_optional_label("control", control, self.answers)
        self._check_estimable()
        self._warn_of_zero_arms()
        if (self._tables or is_frame(features)) and not self.has_intercept:
            warnings.warn(NO_INTERCEPT, stacklevel=2)
        self._freeze()

    # --------------------------------------------------------------------- checks

    def _given_features(self, features: Any) -> tuple[Floats, tuple[str, ...]]:
        if self._encoding is not None:
            encoded = self._encoding.features("features", self._tables["features"])
            return rows_of("features", encoded), self._encoding.names
        rows = rows_of("features", features)
        return rows, column_names(features, rows.shape[1])

    def _given_labels(
        self, name: str, labels: Any, argument: str, rows: Any, number: int
    ) -> tuple[str, ...]:
        """Return the labels of rows: those given, or the table's, or what describes them."""
        has_own = is_frame(rows) and type(rows.index).__name__ != "RangeIndex"
        if labels is None and argument in self._tables and not has_own:
            labels = joined_labels(self._tables[argument])
        return labels_of(name, labels, rows, number)

    def _given_candidates(self, features: Any, candidates: Any) -> Floats | None:
        if candidates is None:
            return None
        if self._encoding is not None:
            encoded = self._encoding.features("candidates", self._tables["candidates"])
            return rows_of("candidates", encoded, self.features.shape[1])
        if is_frame(features) and is_frame(candidates):
            candidates = in_the_order_of(candidates, features)
        return rows_of("candidates", candidates, self.features.shape[1])

    def _given_answers(
        self, candidates: Any, answers: Sequence[str] | int | None
    ) -> tuple[str, ...]:
        if self.candidates is not None:
            number = len(self.candidates)
            return self._given_labels("answers", answers, "candidates", candidates, number)
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
            return None, _given_range(reward_range)
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
            check_number("noise_std", noise_std, low=0.0, open_low=True)
            return check_number("noise_std", noise_std, low=1.0 / _LARGEST, high=_LARGEST)
        given = by_arm("noise_std", noise_std, len(self.arms))
        for arm, std in enumerate(given):
            check_number(f"noise_std[{arm}]", float(std), low=0.0, open_low=True)
            check_number(f"noise_std[{arm}]", float(std), low=1.0 / _LARGEST, high=_LARGEST)
        least, most = int(given.argmin()), int(given.argmax())
        if given[most] > _MOST_NOISE_RATIO * given[least]:
            raise InvalidArgument(
                f"noise_std[{most}]",
                f"must be at most {_MOST_NOISE_RATIO:g} times noise_std[{least}], {given[least]:g}",
                float(given[most]),
            )
        return given

    def _given_top(self, top: int) -> int:
        number = check_integer("top", top, low=1)
        distinct = len(self.answer_groups)
        if number > distinct:
            accepted = f"must be at most {distinct}, the number of distinct candidates"
            raise InvalidArgument("top", accepted, top)
        return number

    def _check_estimable(self) -> None:
        """Refuse candidates that no arm tells apart, and what floats cannot tell apart."""
        groups = self.answer_groups
        pair = None
        if self.candidates is not None:
            pair = outside(self._coordinates, self._different_candidates)
        if pair is not None:
            first, second = (self.answers[self._different[row][0]] for row in sorted(pair))
            raise NotEstimable(
                "candidates",
                f"{first!r} and {second!r} differ along a direction that no arm measures",
            )
        kept = np.array([row[0] for row in self._joined], dtype=np.int64)
        pair = too_close(self._placed, kept) if len(groups) > 1 else None
        if pair is not None:
            first, second = (self.answers[self._different[row][0]] for row in pair)
            raise InvalidArgument(
                self._candidates_name,
                f"differ too little: {first!r} and {second!r} are lost to rounding beside "
                "candidates that are so far away; leave out those, or describe these in finer "
                "features",
            )

    @property
    def _candidates_name(self) -> str:
        return "features" if self.candidates is None else "candidates"

    def _refusal(self, name: str, labels: Sequence[str], error: Untrustworthy) -> InvalidArgument:
        """Return the error for rows whose arithmetic cannot be trusted."""
        feature = self.feature_names[error.column]
        row = f", beside {labels[error.row]!r}" if error.row >= 0 else ""
        return InvalidArgument(
            name,
            f"rescale feature {feature!r}{row}: its values are so different in size, or so nearly "
            "a combination of other features, that floats cannot hold what tells them apart "
            "(subtract a constant from it, change its unit, or leave it out)",
        )

    def _warn_of_zero_arms(self) -> None:
        zero = np.flatnonzero(~self.features.any(axis=1))
        if zero.size:
            warnings.warn(
                f"features of arm {self.arms[zero[0]]!r} are all zero: it is never pulled",
                stacklevel=3,
            )

    # -------------------------------------------------------------------- meaning

    def in_words(self) -> Mapping[str, str]:
        """Return what is asked, by topic."""
        asked = best_of(self.answers, self.direction, self.top) + or_within(self.tolerance)
        features = self.features.shape[1]
        assumed = f", if means are linear in {plural(features, 'feature')}"
        if self.misspecification:
            assumed += f" to within {self.misspecification:g}"
        words = {"Question": f"{asked}{assumed}?"}
        if self.answers != self.arms:
            words["Pulled are"] = listed(self.arms)
        if self._encoding is not None:
            words["Described by"] = self._encoding.in_words()
        if self.control is not None:
            words["Control"] = self.control
        words["Rewards"] = rewards_in_words(self.reward_range, self.noise_std)
        return words

    @property
    def references(self) -> Mapping[str, str]:
        """By column of text, the value that the others are compared with."""
        return {} if self._encoding is None else self._encoding.references

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name; tables that were encoded as columns."""
        return {**super().get_params(), **self._tables}

    @cached_property
    def has_intercept(self) -> bool:
        """Whether the features can say that all arms have the same mean, other than 0.

        Without a constant among them, or indicators that add up to one, they cannot: a mean
        is then 0 where all features are 0.
        """
        return self._constant_error < _RESIDUAL

    @property
    def holds_constant_exactly(self) -> bool:
        """Whether the middle of the range can be taken off all rewards without a trace."""
        low, high = self.reward_range or (-1.0, 1.0)
        far = abs(0.5 * low + 0.5 * high) / (0.5 * high - 0.5 * low)
        return self._constant_error * far < _HARMLESS_SHIFT

    @cached_property
    def _constant_error(self) -> float:
        """By how much the features fail to give a constant of one."""
        if ((self.features == self.features[0]).all(axis=0) & (self.features[0] != 0.0)).any():
            return 0.0
        rows = self.reduced.arms
        # Rows are over the noise here, so that is what a constant is over, too.
        wanted = self._noise_unit / self.scale
        weights, *_ = np.linalg.lstsq(rows, wanted, rcond=None)
        return float(np.abs((rows @ weights - wanted) / wanted).max())

    @cached_property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        """The arm of every action."""
        return tuple({"arm": arm} for arm in self.arms)

    def conditions(self, action: int) -> Mapping[str, float | str]:
        """Return the values of an arm in the table that describes the arms; nothing without one."""
        table = self._tables.get("features", {})
        return {name: column[action] for name, column in table.items()}

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

        Features that differ by no more than rounding are the same: the values of two candidates
        of a group are equal to 13 digits of the arms' largest mean.
        """
        return tuple(
            tuple(sorted(index for row in rows for index in self._different[row]))
            for rows in self._joined
        )

    @cached_property
    def _different(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with equal features, by index."""
        return equal_rows(self.candidate_features)

    @property
    def _different_candidates(self) -> Floats:
        return self.candidate_features[[group[0] for group in self._different]]

    @cached_property
    def _placed(self) -> Placed:
        """The different candidates in the arms' coordinates."""
        try:
            return place(self._coordinates, self._different_candidates)
        except Untrustworthy as error:
            labels = [self.answers[group[0]] for group in self._different]
            raise self._refusal(self._candidates_name, labels, error) from None

    @cached_property
    def _joined(self) -> tuple[tuple[int, ...], ...]:
        """Which of the different candidates are the same up to rounding."""
        return joined_where_close(self._placed.places.high, self._placed.reach)

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
        placed = self._placed
        kept = [rows[0] for rows in self._joined]
        return Reduced(
            arms=self._coordinates.arms,
            candidates=placed.places.high[kept],
            basis=self._coordinates.basis,
            rest=placed.places.low[kept],
            unit=self._noise_unit * math.ldexp(1.0, placed.exponent),
        )

    @cached_property
    def candidate_places(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Every candidate in the coordinates of `reduced`, and whether the arms measure it.

        Values are these rows times phi, in units of the largest noise.
        """
        if self.candidates is None:
            rows = self._coordinates.arms * (self.scale / self._noise_unit)[:, np.newaxis]
            return rows, np.ones(len(rows), dtype=np.bool_)
        return measured(self._coordinates, self.candidates)

    @property
    def _noise_unit(self) -> float:
        """The largest noise scale of an arm: what rewards are measured in."""
        return float(self.scale.max())

    @cached_property
    def basis_arms(self) -> Integers:
        """As many arms as the rank, that together measure all that can be measured; (r,).

        By pivoted QR of the reduced features: each is the one least explained by those
        before it, in the metric of equal pulls of all arms.
        """
        if self.rank == 0:
            return np.zeros(0, dtype=np.int64)
        arms = self.distinct_arms
        columns = self.reduced.arms[arms].T
        _, pivots = qr(columns, mode="r", pivoting=True, check_finite=False)
        return arms[pivots[: self.rank]]

    @cached_property
    def start_arms(self) -> Integers:
        """The arms that adaptive rules pull first: the basis, and a few others if there are any.

        The basis alone fits any rewards: whether means are linear could not be tested. The others
        are those that are least explained by each other.
        """
        basis = self.basis_arms
        others = np.setdiff1d(self.distinct_arms, basis)
        number = min(others.size, max(_LEAST_TESTS, -(-self.rank // 4)))
        if not self.rank or not number:
            return basis
        _, pivots = qr(self.reduced.arms[others].T, mode="r", pivoting=True, check_finite=False)
        return np.concatenate([basis, others[pivots[:number]]])

    @cached_property
    def varied_arms(self) -> Integers:
        """All distinct arms, the start first, in an order of which every beginning is varied."""
        return varied_order(self.reduced.arms, self.distinct_arms, self.start_arms)

    @cached_property
    def _scaled_features(self) -> Floats:
        """Features over noise scale, columns in units in which they are about one."""
        rows = np.ldexp(self.features, -self._coordinates.exponents)
        return np.asarray(rows * (self._noise_unit / self.scale)[:, np.newaxis])

    @cached_property
    def _coordinates(self) -> Coordinates:
        try:
            return coordinates_of(self.features, self._noise_unit / self.scale)
        except Untrustworthy as error:
            raise self._refusal("features", self.arms, error) from None

    @property
    def has_rounded_columns(self) -> bool:
        """Whether some feature depends on others up to rounding, and not exactly."""
        return not self._coordinates.is_exact

    def condition(self, pulls: ArrayLike) -> float:
        """Return the condition number of the Gram matrix of that many pulls by arm, shape (K,).

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
        if not self.estimates_noise and abs(reward) > _MOST_REWARD * float(self.scale.min()):
            accepted = f"must be at most {_MOST_REWARD:g} times the noise in size"
            raise InvalidOutcome(name, accepted, outcome)
        if self.reward_range is not None:
            low, high = self.reward_range
            if not low <= reward <= high:
                raise InvalidOutcome(name, f"must be in [{low:g}, {high:g}]", outcome)
        return reward


def _encoded(
    features: Any, candidates: Any, interactions: Any
) -> tuple[dict[str, Table], Encoding | None]:
    """Return the tables that are to be encoded, by argument, and how; nothing of plain numbers."""
    has_interactions = not isinstance(interactions, Sequence) or len(interactions) > 0
    table = table_of("features", features, is_encoded=has_interactions)
    if table is None:
        if has_interactions:
            raise InvalidArgument(
                "interactions", "need features with named columns: a table", interactions
            )
        return {}, None
    encoding = encoding_of(table, interactions)
    if candidates is None:
        return {"features": table}, encoding
    chosen = table_of("candidates", candidates, is_encoded=True)
    if chosen is None:
        raise InvalidArgument("candidates", f"must be a table with the columns {list(table)}")
    return {"features": table, "candidates": chosen}, encoding


def _given_range(reward_range: Any) -> tuple[float, float]:
    """Return a range that floats can resolve."""
    low, high = check_range("reward_range", reward_range)
    largest = max(abs(low), abs(high))
    width = 0.5 * high - 0.5 * low
    if not 1.0 / _LARGEST <= width <= _LARGEST or width < _NARROWEST * largest:
        accepted = (
            f"must be between {1.0 / _LARGEST:g} and {_LARGEST:g} wide, and not narrower than "
            f"{_NARROWEST:g} of its ends"
        )
        raise InvalidArgument("reward_range", accepted, reward_range)
    return low, high
